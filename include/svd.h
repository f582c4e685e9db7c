/* Singular values of dense matrices, by LAPACK (the one inside OpenBLAS).  Always in double:
 * the singular values of attention matrices fall by many powers of ten, and in float all that is
 * below 1e-7 of the largest would be rounding.  Matrices are row-major without gaps.  Inside a
 * parallel region each call runs on the calling thread. */
#ifndef SVD_H
#define SVD_H

#include <stdbool.h>
#include <stddef.h>

/* values (min(rows,cols)) overwritten, descending   a (rows,cols) destroyed   scratch:
 * svd_scratch(rows, cols) doubles.  False when a holds a value that is not finite, or the iteration
 * does not converge. */
bool svd_values(double *restrict values, double *restrict a, size_t rows, size_t cols,
                double *restrict scratch);
size_t svd_scratch(size_t rows, size_t cols);

/* a = lower q with lower (rows,rows) lower-triangular, overwritten, zeros above the diagonal, and
 * orthonormal rows in q, which is not kept: for any x the singular values of x a are those of
 * x lower.  a (rows,cols), rows <= cols, destroyed   scratch: svd_lower_scratch(rows, cols)
 * doubles. */
void svd_lower_factor(double *restrict lower, double *restrict a, size_t rows, size_t cols,
                      double *restrict scratch);
size_t svd_lower_scratch(size_t rows, size_t cols);

/* x = x lower in place;  x (rows,cols)   lower (cols,cols), only its lower triangle is read. */
void svd_times_lower(double *restrict x, const double *restrict lower, size_t rows, size_t cols);

#endif
