#include "small_gemm.h"

#include <math.h>

#include "gemm.h"

/* Tiles of c whose sums stay in vector registers: rows x columns by the registers there are (32 of
 * 64 bytes, 16 of 32 or 16 bytes). */
#if defined __AVX512F__
enum { WIDE = 4 * SMALL_GEMM_LANES, MIDDLE = 2 * SMALL_GEMM_LANES, NARROW = SMALL_GEMM_LANES };
enum { WIDE_ROWS = 6, MIDDLE_ROWS = 8, NARROW_ROWS = 8 };
#elif defined __AVX__
enum { WIDE = SMALL_GEMM_LANES, MIDDLE = WIDE, NARROW = WIDE };
enum { WIDE_ROWS = 6, MIDDLE_ROWS = 6, NARROW_ROWS = 6 };
#else
enum { WIDE = SMALL_GEMM_LANES, MIDDLE = WIDE, NARROW = WIDE };
enum { WIDE_ROWS = 3, MIDDLE_ROWS = 3, NARROW_ROWS = 3 };
#endif

/* Elements of the largest tile. */
enum { MAX_TILE = 8 * WIDE };

/* Is fused multiply-add one instruction? */
#if defined REAL_IS_DOUBLE && defined FP_FAST_FMA
#define FUSED fma
#elif !defined REAL_IS_DOUBLE && defined FP_FAST_FMAF
#define FUSED fmaf
#endif

/* a b + c, as in vector_math.h, for either type. */
static inline real add_product(real a, real b, real c) {
#ifdef FUSED
    return FUSED(a, b, c);
#else
    return a * b + c;
#endif
}

/* What the tiles of one product share. */
typedef struct Product {
    size_t ldc, row, col, ldb, k;
    real alpha;
    SmallStore store;
} Product;

/* One tile.  rows and cols are constants wherever this is inlined, so that the loops over them
 * unroll and sum lives in registers. */
static inline __attribute__((always_inline)) void tile(real *restrict c, const real *restrict a,
                                                       const real *restrict b, const Product *p,
                                                       const size_t rows, const size_t cols) {
    real sum[MAX_TILE];
    const size_t row = p->row, col = p->col, ldb = p->ldb, ldc = p->ldc, k = p->k;
    for (size_t r = 0; r < rows; r++) {
#pragma omp simd
        for (size_t i = 0; i < cols; i++) sum[r * cols + i] = 0;
    }
    for (size_t l = 0; l < k; l++) {
        for (size_t r = 0; r < rows; r++) {
            real x = a[r * row + l * col];
#pragma omp simd
            for (size_t i = 0; i < cols; i++)
                sum[r * cols + i] = add_product(x, b[l * ldb + i], sum[r * cols + i]);
        }
    }
    const real alpha = p->alpha;
    if (p->store == SMALL_ADD) {
        for (size_t r = 0; r < rows; r++) {
#pragma omp simd
            for (size_t i = 0; i < cols; i++) c[r * ldc + i] += alpha * sum[r * cols + i];
        }
    } else {
        for (size_t r = 0; r < rows; r++) {
#pragma omp simd
            for (size_t i = 0; i < cols; i++) c[r * ldc + i] = alpha * sum[r * cols + i];
        }
    }
}

/* Tiles of any count of rows up to `most`: an inlined body for each. */
#define DEFINE_TILES(name, cols, most)                                                             \
    static void name(real *restrict c, const real *restrict a, const real *restrict b,             \
                     const Product *p, size_t rows) {                                              \
        switch (rows) {                                                                            \
        case 1: tile(c, a, b, p, 1, cols); break;                                                  \
        case 2: tile(c, a, b, p, 2, cols); break;                                                  \
        case 3: tile(c, a, b, p, 3, cols); break;                                                  \
        case 4: tile(c, a, b, p, most < 4 ? 1 : 4, cols); break;                                   \
        case 5: tile(c, a, b, p, most < 5 ? 1 : 5, cols); break;                                   \
        case 6: tile(c, a, b, p, most < 6 ? 1 : 6, cols); break;                                   \
        case 7: tile(c, a, b, p, most < 7 ? 1 : 7, cols); break;                                   \
        default: tile(c, a, b, p, most < 8 ? 1 : 8, cols); break;                                  \
        }                                                                                          \
    }
DEFINE_TILES(wide_tile, WIDE, WIDE_ROWS)
DEFINE_TILES(middle_tile, MIDDLE, MIDDLE_ROWS)
DEFINE_TILES(narrow_tile, NARROW, NARROW_ROWS)

typedef void Tile(real *restrict c, const real *restrict a, const real *restrict b,
                  const Product *p, size_t rows);

/* All rows of one strip of columns, in tiles of nearly equal height. */
static void strip(Tile *run, real *restrict c, const real *restrict a, const real *restrict b,
                  const Product *p, size_t m, size_t most) {
    size_t tiles = (m + most - 1) / most;
    for (size_t i = 0, r = 0; i < tiles; i++) {
        size_t end = m * (i + 1) / tiles;
        run(c + r * p->ldc, a + r * p->row, b, p, end - r);
        r = end;
    }
}

/* The columns that fill no vector, an element at a time. */
static void last_columns(real *restrict c, const real *restrict a, const real *restrict b,
                         const Product *p, size_t m, size_t n) {
    for (size_t r = 0; r < m; r++) {
        for (size_t i = 0; i < n; i++) {
            real sum = 0;
            for (size_t l = 0; l < p->k; l++)
                sum = add_product(a[r * p->row + l * p->col], b[l * p->ldb + i], sum);
            real *to = c + r * p->ldc + i;
            *to = p->store == SMALL_ADD ? *to + p->alpha * sum : p->alpha * sum;
        }
    }
}

void small_gemm_tiles(real *restrict c, size_t ldc, SmallFactor a, const real *restrict b,
                      size_t ldb, size_t m, size_t n, size_t k, real alpha, SmallStore store) {
    Product p = {ldc, a.row, a.col, ldb, k, alpha, store};
    size_t i = 0;
    for (; i + WIDE <= n; i += WIDE) strip(wide_tile, c + i, a.at, b + i, &p, m, WIDE_ROWS);
    for (; i + MIDDLE <= n; i += MIDDLE) strip(middle_tile, c + i, a.at, b + i, &p, m, MIDDLE_ROWS);
    for (; i + NARROW <= n; i += NARROW) strip(narrow_tile, c + i, a.at, b + i, &p, m, NARROW_ROWS);
    if (i < n) last_columns(c + i, a.at, b + i, &p, m, n - i);
}

void small_gemm(real *restrict c, size_t ldc, SmallFactor a, const real *restrict b, size_t ldb,
                size_t m, size_t n, size_t k, real alpha, SmallStore store) {
#ifdef FUSED
    small_gemm_tiles(c, ldc, a, b, ldb, m, n, k, alpha, store);
#else
    bool plain = a.col == 1;
    size_t lda = plain ? a.row : a.col;
    if (plain && m == 1 && lda < k) lda = k; /* one row: its stride may be any */
    gemm(c, ldc, plain ? NO_TRANS : TRANS, a.at, lda, NO_TRANS, b, ldb, m, n, k, alpha,
         store == SMALL_ADD ? 1 : 0);
#endif
}

/* ---- transposition */

#if defined __AVX512F__ && !defined REAL_IS_DOUBLE && (defined __clang__ || __GNUC__ >= 12)
enum { BLOCK = 16 };

/* Sixteen floats, anywhere in memory. */
typedef float Row __attribute__((vector_size(64), aligned(4), may_alias));

/* In each square of 2w x 2w, w the distance of two rows, exchanges the upper right and the lower
 * left quarter: the lanes are those of the new upper row, the new lower row has those w further. */
#define EXCHANGE(w, upper_lanes, lower_lanes)                                                      \
    for (size_t i = 0; i < BLOCK; i++) {                                                           \
        if (i & w) continue;                                                                       \
        Row upper = row[i], lower = row[i + w];                                                    \
        row[i] = __builtin_shufflevector(upper, lower, upper_lanes);                               \
        row[i + w] = __builtin_shufflevector(upper, lower, lower_lanes);                           \
    }
#define LANES_8A 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define LANES_8B 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LANES_4A 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define LANES_4B 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LANES_2A 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define LANES_2B 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LANES_1A 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define LANES_1B 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

/* 16 columns of up to 16 rows; missing rows are zero. */
static void transpose_block(real *restrict to, size_t to_stride, const real *restrict from,
                            size_t stride, size_t rows) {
    Row row[BLOCK];
    if (rows >= BLOCK) {
        for (size_t i = 0; i < BLOCK; i++) row[i] = *(const Row *)(from + i * stride);
    } else {
        for (size_t i = 0; i < BLOCK; i++)
            row[i] = i < rows ? *(const Row *)(from + i * stride) : (Row){0};
    }
    EXCHANGE(8, LANES_8A, LANES_8B)
    EXCHANGE(4, LANES_4A, LANES_4B)
    EXCHANGE(2, LANES_2A, LANES_2B)
    EXCHANGE(1, LANES_1A, LANES_1B)
    for (size_t i = 0; i < BLOCK; i++) *(Row *)(to + i * to_stride) = row[i];
}

/* Returns the columns done. */
static size_t transpose_blocks(real *restrict to, size_t to_stride, const real *restrict from,
                               size_t stride, size_t rows, size_t cols) {
    size_t c = 0;
    for (; c + BLOCK <= cols; c += BLOCK) {
        for (size_t r = 0; r < rows; r += BLOCK)
            transpose_block(to + c * to_stride + r, to_stride, from + r * stride + c, stride,
                            rows - r);
    }
    return c;
}
#else
/* None: compilers make no shuffles of the plain loops. */
static size_t transpose_blocks(real *restrict to, size_t to_stride, const real *restrict from,
                               size_t stride, size_t rows, size_t cols) {
    (void)to, (void)to_stride, (void)from, (void)stride, (void)rows, (void)cols;
    return 0;
}
#endif

void small_transpose(real *restrict to, size_t to_stride, const real *restrict from, size_t stride,
                     size_t rows, size_t cols) {
    size_t first = transpose_blocks(to, to_stride, from, stride, rows, cols);
    if (first == cols) return;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = first; c < cols; c++) to[c * to_stride + r] = from[r * stride + c];
    }
    for (size_t r = rows; r < small_gemm_pad(rows); r++) {
        for (size_t c = first; c < cols; c++) to[c * to_stride + r] = 0;
    }
}
