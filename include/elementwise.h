/* Whole-tensor passes of the optimizer and the trainer: each is parallel, one pass over memory, and
 * reproducible at a given thread count. */
#ifndef ELEMENTWISE_H
#define ELEMENTWISE_H

#include <stddef.h>

#include "real.h"

void vec_zero(real *x, size_t count);

/* Sum of squares in double, partial sums of fixed blocks added in order: independent of the thread
 * count. */
double vec_sum_squares(const real *x, size_t count);

/* Index of the first element that is not finite, or count. */
size_t vec_first_nonfinite(const real *x, size_t count);

#endif
