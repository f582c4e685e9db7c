#include "gelu.h"

#include "parallel.h"
#include "vector_math.h"

static const real SQRT_HALF =
    (real)0.70710678118654752440; /* erf form: Phi(x) = (1 + erf(x / sqrt 2)) / 2 */
static const real INV_SQRT_TWO_PI =
    (real)0.39894228040143267794; /* Phi'(x) = exp(-x^2 / 2) / sqrt(2 pi) */

void gelu_forward(real *y, const real *x, size_t count) {
#pragma omp parallel for simd schedule(static) if (count >= PARALLEL_MIN)
    for (size_t i = 0; i < count; i++) {
        real half = (real)0.5 * x[i];
        y[i] = half + half * erf_real(x[i] * SQRT_HALF);
    }
}

static void backward_only(real *d_x, const real *d_y, const real *restrict x, size_t count) {
#pragma omp parallel for simd schedule(static) if (count >= PARALLEL_MIN)
    for (size_t i = 0; i < count; i++) {
        real phi_cdf = (real)0.5 + (real)0.5 * erf_real(x[i] * SQRT_HALF);
        real phi = INV_SQRT_TWO_PI * exp_real((real)-0.5 * x[i] * x[i]);
        d_x[i] = d_y[i] * (phi_cdf + x[i] * phi);
    }
}

void gelu_backward(real *d_x, real *restrict y, const real *d_y, const real *restrict x,
                   size_t count) {
    if (y == NULL) {
        backward_only(d_x, d_y, x, count);
        return;
    }
#pragma omp parallel for simd schedule(static) if (count >= PARALLEL_MIN)
    for (size_t i = 0; i < count; i++) {
        real half = (real)0.5 * x[i], erf_x = erf_real(x[i] * SQRT_HALF);
        real phi = INV_SQRT_TWO_PI * exp_real(-half * x[i]);
        real slope = (real)0.5 + (real)0.5 * erf_x + x[i] * phi;
        y[i] = half + half * erf_x;
        d_x[i] = d_y[i] * slope;
    }
}
