#include "mixed_gemm.h"

#include <assert.h>

#include "mixed_panels.h"
#include "parallel.h"

/* Blocks of the factors as each thread packs them.  Deep ones: every block of k reads and writes c
 * once more. */
enum {
    BLOCK_K = 768,
    BLOCK_M = 42 * PANEL_ROWS, /* of a, 882 KiB: in half of a second cache of 2 MiB */
    BLOCK_N = 1024,            /* of b, 1.5 MiB; its panels are read ahead of their use */
    PANELS_A = BLOCK_M / PANEL_ROWS,
    PANELS_B = BLOCK_N / PANEL_COLS_MIN,
    CHAINS = BLOCK_K / MIXED_CHAIN
};
_Static_assert(BLOCK_K % MIXED_CHAIN == 0, "a block is whole chains");

size_t mixed_scratch_bytes(void) {
    return (BLOCK_M + BLOCK_N) * BLOCK_K * sizeof(uint16_t);
}

static const MixedKernel *kernel_of(Precision precision) {
    return precision == PRECISION_BF16 ? mixed_kernel_bf16() : mixed_kernel_fp16();
}

bool mixed_check(Precision precision, Err *err) {
    if (precision == PRECISION_FP32 || kernel_of(precision)) return true;
#ifdef MIXED_X86
    const char *lack = precision == PRECISION_BF16
                           ? "this processor lacks AVX512-BF16 (Intel from Sapphire Rapids, AMD "
                             "from Zen 4 have it)"
                           : "this processor lacks AVX512-FP16 (Intel from Sapphire Rapids has it)";
#else
    const char *lack =
        "this build (" REAL_NAME ") lacks it: wanted float32, x86-64 and gcc 12 or later";
#endif
    return err_set(err, ERR_CONFIG, "train.precision = %s: %s; fp32 works everywhere",
                   precision_name(precision), lack);
}

#ifdef MIXED_X86

typedef struct Product {
    const MixedKernel *kernel;
    float *c;
    size_t ldc;
    MixedFactor a, b;
    size_t k;
    bool add;
} Product;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Packed factors of one thread. */
typedef struct Packed {
    uint16_t *a, *b;
    float unscale_a[PANELS_A * CHAINS], unscale_b[PANELS_B * CHAINS];
} Packed;

static void multiply_block(const Product *p, const Packed *packed, float *restrict c, size_t m,
                           size_t n, size_t depth, bool add) {
    size_t even = (depth + 1) / 2 * 2, cols = p->kernel->cols, chains = mixed_chains(depth);
    for (size_t j = 0; j < n; j += cols)
        for (size_t i = 0; i < m; i += PANEL_ROWS)
            p->kernel->multiply(c + i * p->ldc + j, p->ldc, packed->a + i * even,
                                packed->b + j * even, packed->unscale_a + i / PANEL_ROWS * chains,
                                packed->unscale_b + j / cols * chains, depth,
                                smaller(m - i, PANEL_ROWS), smaller(n - j, cols), add);
}

/* Length of the blocks that cut `total` into as few equal ones as are no longer than `most`. */
static size_t block_length(size_t total, size_t most, size_t multiple) {
    size_t blocks = (total + most - 1) / most, length = (total + blocks - 1) / blocks;
    return (length + multiple - 1) / multiple * multiple;
}

/* The tile of c given by a range of rows and one of columns, on the calling thread. */
static void multiply_tile(const Product *p, Range rows, Range cols, uint16_t *slice) {
    size_t m = rows.end - rows.begin, n = cols.end - cols.begin;
    if (m == 0 || n == 0) return;
    const MixedKernel *kernel = p->kernel;
    Packed packed = {.a = slice + BLOCK_N * BLOCK_K, .b = slice};
    size_t step_k = block_length(p->k, BLOCK_K, MIXED_CHAIN),
           step_m = block_length(m, BLOCK_M, PANEL_ROWS),
           step_n = block_length(n, BLOCK_N, kernel->cols);
    for (size_t j = 0; j < n; j += step_n) {
        size_t wide = smaller(n - j, step_n);
        for (size_t k0 = 0; k0 < p->k; k0 += step_k) {
            size_t depth = smaller(p->k - k0, step_k);
            kernel->pack(packed.b, packed.unscale_b, &p->b, kernel->cols, cols.begin + j, wide, k0,
                         depth);
            for (size_t i = 0; i < m; i += step_m) {
                size_t tall = smaller(m - i, step_m);
                kernel->pack(packed.a, packed.unscale_a, &p->a, PANEL_ROWS, rows.begin + i, tall,
                             k0, depth);
                multiply_block(p, &packed, p->c + (rows.begin + i) * p->ldc + cols.begin + j, tall,
                               wide, depth, p->add || k0 > 0);
            }
        }
    }
}

static void multiply_tiles(const Product *p, size_t m, size_t n, const Mixed *mixed) {
    size_t threads = smaller(parallel_max_threads(), mixed->threads);
    size_t slice = mixed_scratch_bytes() / sizeof *mixed->packed;
    if (threads <= 1 || (double)m * (double)n * (double)p->k < PARALLEL_MIN_MULTIPLY_ADDS) {
        size_t thread = parallel_index();
        assert(thread < mixed->threads);
        multiply_tile(p, (Range){0, m}, (Range){0, n}, mixed->packed + thread * slice);
        return;
    }
    size_t row_parts = parallel_grid_rows(m, n, threads), col_parts = threads / row_parts;
#pragma omp parallel for schedule(static) num_threads((int)threads)
    for (size_t tile = 0; tile < threads; tile++)
        multiply_tile(p, range_part(m, tile / col_parts, row_parts, PANEL_ROWS),
                      range_part(n, tile % col_parts, col_parts, p->kernel->cols),
                      mixed->packed + tile * slice);
}
#endif

void mixed_gemm(real *c, size_t ldc, Trans trans_a, const real *a, size_t lda, Trans trans_b,
                const real *b, size_t ldb, size_t m, size_t n, size_t k, real beta,
                const Mixed *mixed) {
    assert(beta == 0 || beta == 1);
    Precision precision = mixed ? mixed->precision : PRECISION_FP32;
#ifdef MIXED_X86
    if (precision != PRECISION_FP32 && k > 0) { /* without a k there is nothing to pack */
        assert(ldc >= n && lda >= (trans_a == TRANS ? m : k) && ldb >= (trans_b == TRANS ? k : n));
        Product p = {.kernel = kernel_of(precision),
                     .c = c,
                     .ldc = ldc,
                     .a = {a, lda, trans_a == NO_TRANS},
                     .b = {b, ldb, trans_b == TRANS},
                     .k = k,
                     .add = beta != 0};
        assert(p.kernel);
        multiply_tiles(&p, m, n, mixed);
        return;
    }
#endif
    assert(precision == PRECISION_FP32 || k == 0);
    gemm(c, ldc, trans_a, a, lda, trans_b, b, ldb, m, n, k, 1, beta);
}
