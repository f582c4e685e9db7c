#include "vector_math.h"

#include "harness.h"
#include "real.h"

/* Every STRIDE-th float of all 2^32, a prime so that all low bits occur: both signs, subnormals,
 * infinities, NaN. */
enum { STRIDE = 257, BATCH = 4096 };

#ifndef REAL_IS_DOUBLE

/* |y - truth| in units in the last place of a float near truth. */
static double ulps(float y, double truth) {
    int exponent;
    frexp(fmax(fabs(truth), (double)FLT_MIN), &exponent);
    return fabs((double)y - truth) / ldexp(1, exponent - FLT_MANT_DIG);
}

static void fill(float *x, uint64_t *next, size_t count) {
    for (size_t i = 0; i < count; i++, *next += STRIDE) {
        uint32_t bits = (uint32_t)*next;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

static void test_exp_all_floats(void) {
    static float x[BATCH], y[BATCH];
    double worst = 0;
    float worst_x = 0;
    for (uint64_t next = 0; next < (uint64_t)1 << 32;) {
        fill(x, &next, BATCH);
#pragma omp simd
        for (size_t i = 0; i < BATCH; i++) y[i] = exp_real(x[i]);
        for (size_t i = 0; i < BATCH; i++) {
            if (isnan(x[i])) {
                CHECK(isnan(y[i]));
            } else if (x[i] < -87.33654f) {
                CHECK(y[i] == 0);
            } else if (x[i] > 88.72283f) {
                CHECK(isinf(y[i]) && y[i] > 0);
            } else {
                double error = ulps(y[i], exp((double)x[i]));
                if (!(error <= worst)) {
                    worst = error;
                    worst_x = x[i];
                }
            }
        }
    }
    CHECK_MSG(worst <= 1, "error %.3f ulp at %.9g", worst, (double)worst_x);
}

static void test_erf_all_floats(void) {
    static float x[BATCH], y[BATCH];
    double worst = 0;
    float worst_x = 0;
    for (uint64_t next = 0; next < (uint64_t)1 << 32;) {
        fill(x, &next, BATCH);
#pragma omp simd
        for (size_t i = 0; i < BATCH; i++) y[i] = erf_real(x[i]);
        for (size_t i = 0; i < BATCH; i++) {
            if (isnan(x[i])) {
                CHECK(isnan(y[i]));
                continue;
            }
            if (fabsf(x[i]) >= 4) CHECK(y[i] == copysignf(1, x[i]));
            double error = ulps(y[i], erf((double)x[i]));
            if (!(error <= worst)) {
                worst = error;
                worst_x = x[i];
            }
        }
    }
    CHECK_MSG(worst <= 2, "error %.3f ulp at %.9g", worst, (double)worst_x);
}

#endif

static void test_special_values(void) {
    CHECK(exp_real(0) == 1 && exp_real((real)-0.0) == 1);
    CHECK(exp_real((real)-INFINITY) == 0 && exp_real(-1000) == 0);
    CHECK(isinf((double)exp_real((real)INFINITY)) && isinf((double)exp_real(1000)));
    CHECK(isnan((double)exp_real((real)NAN)) && isnan((double)erf_real((real)NAN)));
    CHECK(exp_real((real)-87.33) > 0 && exp_real((real)88.72) < (real)INFINITY);
    CHECK(erf_real((real)INFINITY) == 1 && erf_real((real)-INFINITY) == -1);
    CHECK(erf_real(0) == 0 && signbit((double)erf_real((real)-0.0)));
    for (int i = 1; i < 50; i++) CHECK(erf_real((real)(-0.1 * i)) == -erf_real((real)(0.1 * i)));
}

const Test tests_vector_math[] = {
#ifndef REAL_IS_DOUBLE
    {"exp_all_floats", test_exp_all_floats, TEST_FLOAT},
    {"erf_all_floats", test_erf_all_floats, TEST_FLOAT},
#endif
    {"special_values", test_special_values, 0},
    {0}};
