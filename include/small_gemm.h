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

/* Of a matrix as it lies, element (i,j) at x[i * stride + j], or of its transpose. */
static inline SmallFactor small_plain(const real *x, size_t stride) {
    return (SmallFactor){x, stride, 1};
}

static inline SmallFactor small_transposed(const real *x, size_t stride) {
    return (SmallFactor){x, 1, stride};
}

typedef enum SmallStore { SMALL_OVERWRITE, SMALL_ADD } SmallStore;

/* c (m,n) = alpha a b, or c += alpha a b;  a (m,k), b (k,n).  One of the strides of a is 1.  On the
 * calling thread.  Each element depends on its row of a and its column of b only.  k = 0: zero is
 * stored or added.  Compiled for a processor without fused multiply-add (ARCH= on x86-64; debug and
 * asan builds too) it is gemm.h's, which picks its instructions at run time. */
void small_gemm(real *restrict c, size_t ldc, SmallFactor a, const real *restrict b, size_t ldb,
                size_t m, size_t n, size_t k, real alpha, SmallStore store);

/* The same by the functions of this module in any build, in which an element is one sum over k in
 * order, the same bits wherever it stands.  Any strides of a. */
void small_gemm_tiles(real *restrict c, size_t ldc, SmallFactor a, const real *restrict b,
                      size_t ldb, size_t m, size_t n, size_t k, real alpha, SmallStore store);

/* to (cols,rows) = from^T, from (rows,cols); rows of `to` are filled up with zeros to
 * small_gemm_pad(rows). */
void small_transpose(real *restrict to, size_t to_stride, const real *restrict from, size_t stride,
                     size_t rows, size_t cols);

/* n rounded up to a multiple of SMALL_GEMM_LANES. */
static inline size_t small_gemm_pad(size_t n) {
    return (n + SMALL_GEMM_LANES - 1) / SMALL_GEMM_LANES * SMALL_GEMM_LANES;
}

#endif
