#include "small_gemm.h"

#include <math.h>

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

/* a b + c, fused where that is one instruction, as in vector_math.h, for either type. */
static inline real add_product(real a, real b, real c) {
#if defined REAL_IS_DOUBLE && defined FP_FAST_FMA
    return fma(a, b, c);
#elif !defined REAL_IS_DOUBLE && defined FP_FAST_FMAF
    return fmaf(a, b, c);
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

void small_gemm(real *restrict c, size_t ldc, SmallFactor a, const real *restrict b, size_t ldb,
                size_t m, size_t n, size_t k, real alpha, SmallStore store) {
    Product p = {ldc, a.row, a.col, ldb, k, alpha, store};
    size_t i = 0;
    for (; i + WIDE <= n; i += WIDE) strip(wide_tile, c + i, a.at, b + i, &p, m, WIDE_ROWS);
    for (; i + MIDDLE <= n; i += MIDDLE) strip(middle_tile, c + i, a.at, b + i, &p, m, MIDDLE_ROWS);
    for (; i + NARROW <= n; i += NARROW) strip(narrow_tile, c + i, a.at, b + i, &p, m, NARROW_ROWS);
    if (i < n) last_columns(c + i, a.at, b + i, &p, m, n - i);
}
