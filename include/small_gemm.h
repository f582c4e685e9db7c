/* Matrix products whose sides are tens of elements, where a call of BLAS costs more than its
 * arithmetic: nothing is packed and no thread is started.  Row-major with leading dimensions, as in
 * gemm.h; the left factor may lie in any two strides. */
#ifndef SMALL_GEMM_H
#define SMALL_GEMM_H

#include <stddef.h>

#include "real.h"

/* Columns are computed this many at a time: b and c do best with rows padded to a multiple of
 * it. */
enum { SMALL_GEMM_LANES = 64 / sizeof(real) };

/* A factor of strides: element (i,l) is at[i * row + l * col], so that swapping them transposes. */
typedef struct SmallFactor {
    const real *at;
    size_t row, col;
} SmallFactor;

typedef enum SmallStore { SMALL_OVERWRITE, SMALL_ADD } SmallStore;

/* c (m,n) = alpha a b, or c += alpha a b;  a (m,k), b (k,n).  Each element is one sum over k in
 * order, whatever its place: it depends on its row of a and its column of b only.  k = 0: zero is
 * stored or added. */
void small_gemm(real *restrict c, size_t ldc, SmallFactor a, const real *restrict b, size_t ldb,
                size_t m, size_t n, size_t k, real alpha, SmallStore store);

/* n rounded up to a multiple of SMALL_GEMM_LANES. */
static inline size_t small_gemm_pad(size_t n) {
    return (n + SMALL_GEMM_LANES - 1) / SMALL_GEMM_LANES * SMALL_GEMM_LANES;
}

#endif
