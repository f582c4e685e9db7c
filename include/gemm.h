/* Matrix products: the only user of BLAS.  All matrices row-major with a leading dimension
 * (elements from row to row). */
#ifndef GEMM_H
#define GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "real.h"

typedef enum Trans { NO_TRANS, TRANS } Trans;

/* c = alpha op(a) op(b) + beta c, with op(a) (m,k), op(b) (k,n), c (m,n).  beta 0 overwrites c
 * whatever it holds. From serial code the product is split over the threads in tiles of c, each one
 * single-threaded BLAS call (one barrier, and the result is a function of the thread count only);
 * inside a parallel region it is one single-threaded call. Dimensions are checked against BLAS's
 * int (assert). */
void gemm(real *c, size_t ldc, Trans trans_a, const real *a, size_t lda, Trans trans_b,
          const real *b, size_t ldb, size_t m, size_t n, size_t k, real alpha, real beta);

#endif
