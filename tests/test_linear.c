#include "linear.h"

#include "gradcheck.h"
#include "harness.h"
#include "tensors.h"
#include "threads.h"

typedef struct Case {
    size_t rows, in, out;
    real *x, *w, *b, *y, *r; /* loss = sum of y * r */
} Case;

static Case case_new(size_t rows, size_t in, size_t out) {
    Case t = {rows, in, out, NULL, NULL, NULL, NULL, NULL};
    t.x = tensor_normal(rows * in, 1);
    t.w = tensor_normal(out * in, 1);
    t.b = tensor_normal(out, 1);
    t.y = tensor_filled(rows * out, NAN);
    t.r = tensor_normal(rows * out, 1);
    return t;
}

static double loss(void *ctx) {
    Case *t = ctx;
    linear_forward(t->y, t->x, t->w, t->b, t->rows, t->in, t->out, NULL);
    return tensor_dot(t->y, t->r, t->rows * t->out);
}

static void test_grad(void) {
    Case t = case_new(7, 5, 3);
    real *d_x = tensor_filled(7 * 5, NAN), *d_w = tensor_filled(5 * 3, 0),
         *d_b = tensor_filled(3, 0);
    linear_backward(d_x, d_w, d_b, t.r, t.x, t.w, 7, 5, 3, 0, NULL);
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "x", t.x, d_x, 7 * 5, 1e-7));
    CHECK(grad_close(&g, "w", t.w, d_w, 3 * 5, 1e-7));
    CHECK(grad_close(&g, "b", t.b, d_b, 3, 1e-7));
    tensors_free();
}

static void reference_forward(double *y, const Case *t, bool bias) {
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t o = 0; o < t->out; o++) {
            double sum = bias ? (double)t->b[o] : 0;
            for (size_t i = 0; i < t->in; i++)
                sum += (double)t->x[r * t->in + i] * (double)t->w[o * t->in + i];
            y[r * t->out + o] = sum;
        }
    }
}

static void test_forward(void) {
    for (size_t threads = 1; threads <= 2; threads++) {
        threads_set(threads);
        Case t = case_new(61, 211, 233); /* 3 million multiply-adds: split over the threads */
        double *want = tensors_take(t.rows * t.out, sizeof *want);
        reference_forward(want, &t, true);
        linear_forward(t.y, t.x, t.w, t.b, t.rows, t.in, t.out, NULL);
        CHECK_TENSOR(t.y, want, t.rows * t.out, KERNEL_TOL);
        reference_forward(want, &t, false);
        linear_forward(t.y, t.x, t.w, NULL, t.rows, t.in, t.out, NULL);
        CHECK_TENSOR(t.y, want, t.rows * t.out, KERNEL_TOL);
        tensors_free();
    }
}

/* <f(u), v> = <u, f^T v>: in x with w fixed, and in w with x fixed. */
static void test_adjoint(void) {
    Case t = case_new(17, 13, 11);
    real *d_x = tensor_filled(17 * 13, NAN), *d_w = tensor_filled(11 * 13, 0);
    linear_forward(t.y, t.x, t.w, NULL, 17, 13, 11, NULL);
    linear_backward(d_x, d_w, NULL, t.r, t.x, t.w, 17, 13, 11, 0, NULL);
    double forward = tensor_dot(t.y, t.r, 17 * 11);
    CHECK_CLOSE(tensor_dot(t.x, d_x, 17 * 13), forward,
                KERNEL_TOL * fabs(forward) + 100 * KERNEL_TOL);
    CHECK_CLOSE(tensor_dot(t.w, d_w, 11 * 13), forward,
                KERNEL_TOL * fabs(forward) + 100 * KERNEL_TOL);
    tensors_free();
}

/* d_w and d_b are added to, d_x overwritten or added to as asked; what is NULL is not computed. */
static void test_contracts(void) {
    Case t = case_new(7, 5, 3);
    real *d_x = tensor_filled(7 * 5, NAN), *d_w = tensor_filled(5 * 3, 0),
         *d_b = tensor_filled(3, 0);
    real *x2 = tensor_filled(7 * 5, 10), *w2 = tensor_filled(5 * 3, 20), *b2 = tensor_filled(3, 30);
    linear_backward(d_x, d_w, d_b, t.r, t.x, t.w, 7, 5, 3, 0, NULL);
    linear_backward(x2, w2, b2, t.r, t.x, t.w, 7, 5, 3, 1, NULL);
    for (size_t i = 0; i < 7 * 5; i++) CHECK_CLOSE((double)x2[i], 10 + (double)d_x[i], 1e-5);
    for (size_t i = 0; i < 5 * 3; i++) CHECK_CLOSE((double)w2[i], 20 + (double)d_w[i], 1e-5);
    for (size_t i = 0; i < 3; i++) CHECK_CLOSE((double)b2[i], 30 + (double)d_b[i], 1e-5);
    real *w3 = tensor_filled(5 * 3, 0), *x3 = tensor_filled(7 * 5, NAN);
    linear_backward(NULL, w3, NULL, t.r, t.x, t.w, 7, 5, 3, 0, NULL);
    CHECK_SAME(w3, d_w, 5 * 3);
    linear_backward(x3, NULL, NULL, t.r, t.x, t.w, 7, 5, 3, 0, NULL);
    CHECK_SAME(x3, d_x, 7 * 5);
    tensors_free();
}

/* Against sums in double, and the same bytes on any number of threads. */
static void test_bias_backward(void) {
    for (size_t rows = 1; rows < 9; rows++) { /* the loop takes four rows at a time */
        size_t out = rows == 8 ? 5003 : 37;   /* 8 x 5003 is shared by the threads */
        real *d_y = tensor_normal(rows * out, 1), *d_b[3];
        double *want = tensors_take(out, sizeof *want);
        for (size_t o = 0; o < out; o++) {
            want[o] = 3;
            for (size_t r = 0; r < rows; r++) want[o] += (double)d_y[r * out + o];
        }
        for (size_t threads = 1; threads <= 3; threads++) {
            threads_set(threads);
            d_b[threads - 1] = tensor_filled(out, 3);
            bias_backward(d_b[threads - 1], d_y, rows, out);
            CHECK_SAME(d_b[threads - 1], d_b[0], out);
        }
        CHECK_TENSOR(d_b[0], want, out, KERNEL_TOL);
        tensors_free();
    }
}

const Test tests_linear[] = {{"grad", test_grad, TEST_DOUBLE},
                             {"forward", test_forward, 0},
                             {"adjoint", test_adjoint, 0},
                             {"contracts", test_contracts, 0},
                             {"bias_backward", test_bias_backward, 0},
                             {0}};
