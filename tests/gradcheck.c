#include "gradcheck.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "rng.h"

/* Largest loss-to-gradient ratio at which rounding of the loss (about 1e-16 |loss| / step) stays
 * far below 1e-7. */
static const double GRADIENT_FLOOR = 1e-4;

static const double DEFAULT_STEP = 2e-4;

static double worst_error;

double grad_worst(void) {
    return worst_error;
}

static double loss_at(const GradCheck *check, real *value, double x) {
    *value = (real)x;
    return check->loss(check->ctx);
}

/* Truncation h^4 f'''''/30 and rounding |f| 2^-52/h are both near 1e-12 at the default step. */
static double difference(const GradCheck *check, real *value) {
    const real kept = *value;
    const double x = (double)kept;
    volatile double right = x + (check->step > 0 ? check->step : DEFAULT_STEP) * fmax(1, fabs(x));
    const double h = right - x; /* the step that addition really makes */
    double near = loss_at(check, value, x + h) - loss_at(check, value, x - h);
    double far = loss_at(check, value, x + 2 * h) - loss_at(check, value, x - 2 * h);
    *value = kept;
    return (8 * near - far) / (12 * h);
}

bool grad_close(const GradCheck *check, const char *name, real *values, const real *grad,
                size_t count, double tol) {
    double scale = GRADIENT_FLOOR * fabs(check->loss(check->ctx));
    for (size_t i = 0; i < count; i++) scale = fmax(scale, fabs((double)grad[i]));

    bool sampled = check->samples > 0 && check->samples < count;
    size_t tries = sampled ? check->samples : count, worst_at = 0;
    uint64_t key = rng_key(test_seed(), RNG_TEST, count, 0);
    double worst = 0, worst_numeric = 0;
    for (size_t t = 0; t < tries; t++) {
        size_t i = sampled ? (size_t)rng_permute(key, t, count) : t;
        double numeric = difference(check, &values[i]);
        double error = fabs(numeric - (double)grad[i]);
        error = error == 0 ? 0 : error / scale; /* 0/0 where neither depends on the value */
        if (!(error <= worst)) {
            worst = error;
            worst_at = i;
            worst_numeric = numeric;
            if (isnan(error)) break;
        }
    }
    if (!(worst <= worst_error)) worst_error = worst;

    bool ok = worst <= tol;
    const char *verbose = getenv("VERBOSE");
    if (!ok || (verbose && *verbose)) {
        printf("    %s: largest error %.2e of the largest gradient %.3e, allowed %.1e; at %zu of "
               "%zu: %.12g, difference gives "
               "%.12g\n",
               name, worst, scale, tol, worst_at, count, (double)grad[worst_at], worst_numeric);
    }
    return ok;
}
