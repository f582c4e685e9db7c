#include "layernorm.h"

#include "gradcheck.h"
#include "harness.h"
#include "tensors.h"
#include "threads.h"

typedef struct Case {
    size_t rows, C;
    real *x, *w, *b, *y, *mean, *rstd, *r, *scratch;
} Case;

static Case case_new(size_t rows, size_t C, double offset) {
    Case t = {.rows = rows, .C = C};
    t.x = tensor_normal(rows * C, 1);
    for (size_t i = 0; i < rows * C; i++) t.x[i] += (real)offset;
    t.w = tensor_normal(C, 1);
    t.b = tensor_normal(C, 1);
    t.y = tensor_filled(rows * C, NAN);
    t.mean = tensor_filled(rows, NAN);
    t.rstd = tensor_filled(rows, NAN);
    t.r = tensor_normal(rows * C, 1);
    t.scratch = tensor_filled(layernorm_scratch(C), NAN);
    return t;
}

static void forward(Case *t) {
    layernorm_forward(t->y, t->mean, t->rstd, t->x, t->w, t->b, t->rows, t->C);
}

static double loss(void *ctx) {
    Case *t = ctx;
    forward(t);
    return tensor_dot(t->y, t->r, t->rows * t->C);
}

static void backward(Case *t, real *d_x, real *d_w, real *d_b, const real *d_y, int accumulate_x) {
    layernorm_backward(d_x, d_w, d_b, d_y, t->x, t->w, t->mean, t->rstd, t->scratch, t->rows, t->C,
                       accumulate_x);
}

static void test_grad(void) {
    Case t = case_new(7, 15, 0.5);
    real *d_x = tensor_filled(7 * 15, NAN), *d_w = tensor_filled(15, 0),
         *d_b = tensor_filled(15, 0);
    forward(&t);
    backward(&t, d_x, d_w, d_b, t.r, 0);
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "x", t.x, d_x, 7 * 15, 1e-7));
    CHECK(grad_close(&g, "w", t.w, d_w, 15, 1e-7));
    CHECK(grad_close(&g, "b", t.b, d_b, 15, 1e-7));
    tensors_free();
}

static void reference(const Case *t, double *y, double *d_x, double *d_w, double *d_b) {
    for (size_t r = 0; r < t->rows; r++) {
        const real *x = t->x + r * t->C, *d_y = t->r + r * t->C;
        double mean = 0, var = 0, avg_g = 0, avg_gh = 0, n = (double)t->C;
        for (size_t c = 0; c < t->C; c++) mean += (double)x[c] / n;
        for (size_t c = 0; c < t->C; c++) var += ((double)x[c] - mean) * ((double)x[c] - mean) / n;
        double rstd = 1 / sqrt(var + 1e-5);
        for (size_t c = 0; c < t->C; c++) {
            double h = ((double)x[c] - mean) * rstd, g = (double)d_y[c] * (double)t->w[c];
            y[r * t->C + c] = h * (double)t->w[c] + (double)t->b[c];
            avg_g += g / n;
            avg_gh += g * h / n;
            d_w[c] += (double)d_y[c] * h;
            d_b[c] += (double)d_y[c];
        }
        for (size_t c = 0; c < t->C; c++) {
            double h = ((double)x[c] - mean) * rstd;
            d_x[r * t->C + c] = rstd * ((double)d_y[c] * (double)t->w[c] - avg_g - h * avg_gh);
        }
    }
}

static void check_values(size_t rows, size_t C) {
    Case t = case_new(rows, C, 0.3);
    double *y = tensors_take(rows * C, sizeof *y), *x = tensors_take(rows * C, sizeof *x);
    double *w = tensors_take(C, sizeof *w), *b = tensors_take(C, sizeof *b);
    real *d_x = tensor_filled(rows * C, NAN), *d_w = tensor_filled(C, 0),
         *d_b = tensor_filled(C, 0);
    reference(&t, y, x, w, b);
    forward(&t);
    backward(&t, d_x, d_w, d_b, t.r, 0);
    CHECK_TENSOR(t.y, y, rows * C, KERNEL_TOL);
    CHECK_TENSOR(d_x, x, rows * C, KERNEL_TOL);
    CHECK_TENSOR(d_w, w, C, KERNEL_TOL);
    CHECK_TENSOR(d_b, b, C, KERNEL_TOL);
    tensors_free();
}

static void test_values(void) {
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        check_values(13, 37);
        check_values(101, 768); /* shared by the threads */
        check_values(2, 40001); /* fewer rows than threads */
        check_values(3, 1);     /* variance 0: eps keeps it finite */
    }
}

/* A row far from 0: the mean of squares less the square of the mean would have no digit left. */
static void test_large_mean(void) {
    Case t = case_new(3, 64, 4000);
    forward(&t);
    for (size_t r = 0; r < 3; r++) {
        double sum = 0, squares = 0;
        for (size_t c = 0; c < 64; c++) {
            double h = ((double)t.y[r * 64 + c] - (double)t.b[c]) / (double)t.w[c];
            sum += h / 64;
            squares += h * h / 64;
        }
        CHECK_CLOSE(sum, 0, 2e-3); /* input rounding: 4000 * 2^-24 */
        CHECK_CLOSE(squares, 1, 2e-3);
    }
    tensors_free();
}

static void test_recompute(void) {
    Case t = case_new(53, 768, 0);
    real *again = tensor_filled(53 * 768, NAN);
    forward(&t);
    layernorm_recompute(again, t.x, t.mean, t.rstd, t.w, t.b, 53, 768);
    CHECK_SAME(again, t.y, 53 * 768);
    tensors_free();
}

static void test_contracts(void) {
    Case t = case_new(7, 15, 0);
    real *d_x = tensor_filled(7 * 15, NAN), *d_w = tensor_filled(15, 0),
         *d_b = tensor_filled(15, 0);
    real *x2 = tensor_filled(7 * 15, 10), *w2 = tensor_filled(15, 20), *b2 = tensor_filled(15, 30);
    forward(&t);
    backward(&t, d_x, d_w, d_b, t.r, 0);
    backward(&t, x2, w2, b2, t.r, 1);
    for (size_t i = 0; i < 7 * 15; i++) CHECK_CLOSE((double)x2[i], 10 + (double)d_x[i], 1e-5);
    for (size_t i = 0; i < 15; i++) CHECK_CLOSE((double)w2[i], 20 + (double)d_w[i], 1e-5);
    for (size_t i = 0; i < 15; i++) CHECK_CLOSE((double)b2[i], 30 + (double)d_b[i], 1e-5);
    real *same = tensor_copy(t.x, 7 * 15); /* y may be x */
    layernorm_forward(same, t.mean, t.rstd, same, t.w, t.b, 7, 15);
    CHECK_SAME(same, t.y, 7 * 15);
    real *in_place = tensor_copy(t.r, 7 * 15); /* d_x may be d_y */
    backward(&t, in_place, w2, b2, in_place, 0);
    CHECK_SAME(in_place, d_x, 7 * 15);
    tensors_free();
}

const Test tests_layernorm[] = {
    {"grad", test_grad, TEST_DOUBLE},   {"values", test_values, 0},
    {"large_mean", test_large_mean, 0}, {"recompute", test_recompute, 0},
    {"contracts", test_contracts, 0},   {0}};
