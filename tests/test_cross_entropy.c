#include "cross_entropy.h"

#include "gradcheck.h"
#include "harness.h"
#include "tensors.h"
#include "threads.h"

typedef struct Case {
    size_t rows, V;
    real *logits, *loss;
    uint32_t *labels;
} Case;

static Case case_new(size_t rows, size_t V, double scale) {
    Case t = {rows, V, tensor_normal(rows * V, scale), tensor_filled(rows, NAN),
              tensors_take(rows, sizeof(uint32_t))};
    for (size_t r = 0; r < rows; r++) t.labels[r] = (uint32_t)(r * 7 % V);
    return t;
}

static double loss(void *ctx) {
    Case *t = ctx;
    cross_entropy(t->loss, t->logits, t->labels, t->rows, t->V, 0);
    double sum = 0;
    for (size_t r = 0; r < t->rows; r++) sum += (double)t->loss[r];
    return 0.3 * sum;
}

static void test_grad(void) {
    Case t = case_new(5, 11, 1);
    real *grad = tensor_copy(t.logits, 5 * 11);
    cross_entropy(t.loss, grad, t.labels, 5, 11, (real)0.3);
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "logits", t.logits, grad, 5 * 11, 1e-7));
    tensors_free();
}

static void check_values(Case t, double tol) {
    size_t count = t.rows * t.V;
    double *losses = tensors_take(t.rows, sizeof *losses),
           *grad = tensors_take(count, sizeof *grad);
    double *prob = tensors_take(count, sizeof *prob), *log_prob = tensors_take(count, sizeof *prob);
    for (size_t r = 0; r < t.rows; r++) {
        const real *x = t.logits + r * t.V;
        double max = -INFINITY, sum = 0;
        for (size_t v = 0; v < t.V; v++) max = fmax(max, (double)x[v]);
        for (size_t v = 0; v < t.V; v++) sum += exp((double)x[v] - max);
        losses[r] = max + log(sum) - (double)x[t.labels[r]];
        for (size_t v = 0; v < t.V; v++) {
            prob[r * t.V + v] = exp((double)x[v] - max) / sum;
            log_prob[r * t.V + v] = ((double)x[v] - max) - log(sum);
            grad[r * t.V + v] = 0.01 * (prob[r * t.V + v] - (v == t.labels[r]));
        }
    }
    real *logits = tensor_copy(t.logits, count), *soft = tensor_copy(t.logits, count),
         *log_soft = tensor_copy(t.logits, count);
    cross_entropy(t.loss, logits, t.labels, t.rows, t.V, 0);
    CHECK_TENSOR(t.loss, losses, t.rows, tol);
    CHECK_SAME(logits, t.logits, count); /* only read */
    real *with_grad = tensor_filled(t.rows, NAN);
    cross_entropy(with_grad, logits, t.labels, t.rows, t.V, (real)0.01);
    CHECK_SAME(with_grad, t.loss, t.rows);
    CHECK_TENSOR(logits, grad, count, tol);
    softmax_rows(soft, t.rows, t.V);
    CHECK_TENSOR(soft, prob, count, tol);
    log_softmax_rows(log_soft, t.rows, t.V);
    CHECK_TENSOR(log_soft, log_prob, count, tol);
    tensors_free();
}

static void test_values(void) {
    double tol = sizeof(real) == sizeof(float) ? 1e-6 : 1e-13;
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        check_values(case_new(5, 11, 1), tol);
        check_values(case_new(4, 50265, 1), tol); /* RoBERTa's vocabulary; shared by the threads */
        check_values(case_new(3, 1, 1), tol);
        check_values(case_new(7, 1025, 60), tol); /* beyond where exp overflows float */
    }
}

/* Uniform logits: the loss is log V, whatever their level. */
static void test_uniform(void) {
    real x[2 * 300], losses[2];
    const uint32_t labels[] = {0, 299};
    for (size_t i = 0; i < 600; i++) x[i] = i < 300 ? 500 : -500;
    cross_entropy(losses, x, labels, 2, 300, 0);
    CHECK_CLOSE((double)losses[0], log(300), 1e-6);
    CHECK_CLOSE((double)losses[1], log(300), 1e-6);
}

/* Gradients of a row sum to 0, rows of the softmax to 1. */
static void test_sums(void) {
    Case t = case_new(3, 5000, 2);
    real *soft = tensor_copy(t.logits, 3 * 5000);
    softmax_rows(soft, 3, 5000);
    cross_entropy(t.loss, t.logits, t.labels, 3, 5000, 1);
    for (size_t r = 0; r < 3; r++) {
        double sum = 0, sum_soft = 0;
        for (size_t v = 0; v < 5000; v++) {
            sum += (double)t.logits[r * 5000 + v];
            sum_soft += (double)soft[r * 5000 + v];
        }
        CHECK_CLOSE(sum, 0, 1e-6);
        CHECK_CLOSE(sum_soft, 1, 1e-6);
    }
    tensors_free();
}

static void test_nonfinite_shows(void) {
    const real bad[] = {(real)NAN, (real)INFINITY};
    for (size_t i = 0; i < 2; i++) {
        real x[20] = {0}, losses[1];
        const uint32_t label[] = {3};
        x[17] = bad[i];
        cross_entropy(losses, x, label, 1, 20, 1);
        CHECK(!isfinite((double)losses[0]));
        CHECK(isnan((double)x[17]));
    }
}

const Test tests_cross_entropy[] = {{"grad", test_grad, TEST_DOUBLE},
                                    {"values", test_values, 0},
                                    {"uniform", test_uniform, 0},
                                    {"sums", test_sums, 0},
                                    {"nonfinite_shows", test_nonfinite_shows, 0},
                                    {0}};
