/* Gradients against central differences.  For tests marked TEST_DOUBLE: float leaves too few digits
 * for a difference. */
#ifndef GRADCHECK_H
#define GRADCHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "real.h"

typedef struct GradCheck {
    /* recomputes the loss from the values as they are now; must change nothing else */
    double (*loss)(void *ctx);
    void *ctx;
    size_t samples; /* elements tried of one tensor, at random places; 0 is all of them */
    double step;    /* 0 is 2e-4; the step of an element is step * max(1, |value|) */
} GradCheck;

/* Whether grad (count) agrees with fourth-order central differences of the loss in each of values
 * (count), which are changed and restored.  The largest |difference| must be <= tol * max |grad|,
 * where the maximum is that of the whole tensor but not below 1e-4 |loss|: smaller gradients drown
 * in the loss's own rounding.  NaN fails.  Prints tensor, place and error on failure, and every
 * tensor's error where the environment has VERBOSE=1. */
bool grad_close(const GradCheck *check, const char *name, real *values, const real *grad,
                size_t count, double tol);

/* The largest relative error grad_close has seen in this test. */
double grad_worst(void);

#endif
