#include "gelu.h"

#include "gradcheck.h"
#include "harness.h"
#include "tensors.h"
#include "threads.h"

enum { SMALL = 41, LARGE = 40009 }; /* the large one is shared by the threads */

typedef struct Case {
    size_t count;
    real *x, *y, *r;
} Case;

static double loss(void *ctx) {
    Case *t = ctx;
    gelu_forward(t->y, t->x, t->count);
    return tensor_dot(t->y, t->r, t->count);
}

static void test_grad(void) {
    Case t = {SMALL, tensor_normal(SMALL, 2), tensor_filled(SMALL, NAN), tensor_normal(SMALL, 1)};
    real *d_x = tensor_filled(SMALL, NAN);
    gelu_backward(d_x, NULL, t.r, t.x, SMALL);
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "x", t.x, d_x, SMALL, 1e-7));
    tensors_free();
}

static double reference(double x) {
    return x * 0.5 * erfc(-x / sqrt(2));
}

static double reference_slope(double x) {
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static void test_values(void) {
    for (size_t threads = 1; threads <= 2; threads++) {
        threads_set(threads);
        real *x = tensor_normal(LARGE, 2), *y = tensor_filled(LARGE, NAN),
             *d_y = tensor_normal(LARGE, 1);
        real *d_x = tensor_filled(LARGE, NAN);
        double *want = tensors_take(LARGE, sizeof *want),
               *want_d = tensors_take(LARGE, sizeof *want_d);
        for (size_t i = 0; i < LARGE; i++) {
            want[i] = reference((double)x[i]);
            want_d[i] = (double)d_y[i] * reference_slope((double)x[i]);
        }
        gelu_forward(y, x, LARGE);
        CHECK_TENSOR(y, want, LARGE, KERNEL_TOL / 10);
        gelu_backward(d_x, NULL, d_y, x, LARGE);
        CHECK_TENSOR(d_x, want_d, LARGE, KERNEL_TOL / 10);
        tensors_free();
    }
}

/* Relative to the value itself, where the tanh form is off by up to 1e-3. */
static void test_erf_form(void) {
    const double at[] = {-3, -2, -1, -0.5, 0.5, 1, 2, 3};
    const double want[] = {-0.00404969409489031, -0.0455002638963584, -0.158655253931457,
                           -0.154268769362994,   0.345731230637006,   0.841344746068543,
                           1.95449973610364,     2.99595030590511};
    for (size_t i = 0; i < 8; i++) {
        real x = (real)at[i], y;
        gelu_forward(&y, &x, 1);
        CHECK_CLOSE((double)y, want[i], sizeof(real) == sizeof(float) ? 4e-7 : 1e-14);
    }
}

static void test_extremes(void) {
    real x[] = {0, (real)-0.0, 30, -30, (real)1e20, (real)-1e20, (real)NAN};
    real y[7], d_x[7], ones[7] = {1, 1, 1, 1, 1, 1, 1};
    gelu_forward(y, x, 7);
    gelu_backward(d_x, NULL, ones, x, 7);
    CHECK(y[0] == 0 && y[1] == 0 && y[2] == 30 && y[3] == 0 && y[4] == (real)1e20 && y[5] == 0 &&
          isnan((double)y[6]));
    CHECK(d_x[0] == (real)0.5 && d_x[2] == 1 && fabs((double)d_x[3]) < 1e-30 && d_x[4] == 1 &&
          d_x[5] == 0 && isnan((double)d_x[6]));
}

static void test_in_place(void) {
    real *x = tensor_normal(LARGE, 2), *y = tensor_filled(LARGE, NAN),
         *d_y = tensor_normal(LARGE, 1);
    real *d_x = tensor_filled(LARGE, NAN), *again = tensor_filled(LARGE, NAN),
         *in_place = tensor_copy(x, LARGE);
    gelu_forward(y, x, LARGE);
    gelu_forward(in_place, in_place, LARGE);
    CHECK_SAME(in_place, y, LARGE);
    gelu_backward(d_x, NULL, d_y, x, LARGE);
    gelu_backward(d_y, again, d_y, x, LARGE);
    CHECK_ARRAY_CLOSE(d_y, d_x, LARGE, 4 * (double)REAL_EPSILON);
    CHECK_ARRAY_CLOSE(again, y, LARGE, 4 * (double)REAL_EPSILON);
    tensors_free();
}

const Test tests_gelu[] = {{"grad", test_grad, TEST_DOUBLE}, {"values", test_values, 0},
                           {"erf_form", test_erf_form, 0},   {"extremes", test_extremes, 0},
                           {"in_place", test_in_place, 0},   {0}};
