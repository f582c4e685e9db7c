/* GELU in its erf form, x * Phi(x), as RoBERTa (not the tanh approximation). */
#ifndef GELU_H
#define GELU_H

#include <stddef.h>

#include "real.h"

/* y (count) overwritten; y may be x. */
void gelu_forward(real *y, const real *x, size_t count);

/* d_x = d_y * gelu'(x), overwritten; d_x may be d_y.  Where y is not NULL, y = gelu(x) too, in the
 * same pass: the backward pass of a feed-forward block recomputes the GELU output instead of
 * keeping it. */
void gelu_backward(real *d_x, real *restrict y, const real *d_y, const real *restrict x,
                   size_t count);

#endif
