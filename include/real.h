/* The floating-point type of kernels, model and optimizer: float, or double with -DREAL_IS_DOUBLE
 * (gradient checks). */
#ifndef REAL_H
#define REAL_H

#include <float.h>

#ifdef REAL_IS_DOUBLE
typedef double real;
#define REAL_EPSILON DBL_EPSILON
#define REAL_NAME    "float64"
#else
typedef float real;
#define REAL_EPSILON FLT_EPSILON
#define REAL_NAME    "float32"
#endif

#endif
