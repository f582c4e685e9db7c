/* Linear map of rows: y = x w^T + b, as torch.nn.Linear. */
#ifndef LINEAR_H
#define LINEAR_H

#include <stddef.h>

#include "mixed_gemm.h"
#include "real.h"

/* y (rows,out) overwritten   x (rows,in)   w (out,in)   b (out), or NULL: no bias   mixed:
 * precision and scratch of the product; NULL: fp32 */
void linear_forward(real *restrict y, const real *restrict x, const real *restrict w,
                    const real *restrict b, size_t rows, size_t in, size_t out, const Mixed *mixed);

/* d_x (rows,in): overwritten, or added to where accumulate_x; NULL: not wanted.   d_w (out,in), d_b
 * (out) are ADDED to. d_w and d_b may be NULL: not wanted.  Reads d_y (rows,out), w (for d_x) and x
 * (for d_w; may be NULL without it). */
void linear_backward(real *restrict d_x, real *restrict d_w, real *restrict d_b,
                     const real *restrict d_y, const real *restrict x, const real *restrict w,
                     size_t rows, size_t in, size_t out, int accumulate_x, const Mixed *mixed);

/* d_b (out) += column sums of d_y (rows,out); rows are added in order by fours, so the sums do not
 * depend on the thread count. */
void bias_backward(real *restrict d_b, const real *restrict d_y, size_t rows, size_t out);

#endif
