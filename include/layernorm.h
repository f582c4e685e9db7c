/* LayerNorm over the last dimension (eps 1e-5, biased variance), as RoBERTa. */
#ifndef LAYERNORM_H
#define LAYERNORM_H

#include <stddef.h>

#include "real.h"

/* y = (x - mean) * rstd * w + b   per row
 * y, x (rows,C); y may be x   w, b (C)   mean, rstd (rows) overwritten: saved for backward. */
void layernorm_forward(real *y, real *restrict mean, real *restrict rstd, const real *x,
                       const real *restrict w, const real *restrict b, size_t rows, size_t C);

/* The same y again from saved mean and rstd (backward passes recompute it instead of keeping it).
 */
void layernorm_recompute(real *restrict y, const real *restrict x, const real *restrict mean,
                         const real *restrict rstd, const real *restrict w, const real *restrict b,
                         size_t rows, size_t C);

/* d_x (rows,C): overwritten, or added to where accumulate_x.  d_w, d_b (C) are ADDED to (per-thread
 * partial sums, added in thread order).  Reads x, w, mean, rstd and d_y; d_x may be the same array
 * as d_y when not accumulating. scratch: layernorm_scratch(C) reals. */
void layernorm_backward(real *d_x, real *restrict d_w, real *restrict d_b, const real *d_y,
                        const real *restrict x, const real *restrict w, const real *restrict mean,
                        const real *restrict rstd, real *restrict scratch, size_t rows, size_t C,
                        int accumulate_x);
size_t layernorm_scratch(size_t C);

#endif
