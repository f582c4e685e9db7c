#include "dropout.h"

#include "gradcheck.h"
#include "harness.h"
#include "tensors.h"
#include "threads.h"

enum { SEQS = 4, WIDTH = 130 };
static const size_t LENGTHS[SEQS] = {1, 61, 2, 300};

typedef struct Case {
    size_t *start, total;
    uint64_t key[SEQS];
    real *x, *branch, *bias, *r;
} Case;

static Case case_new(void) {
    Case t = {.start = tensor_starts(LENGTHS, SEQS)};
    t.total = t.start[SEQS];
    for (size_t b = 0; b < SEQS; b++) t.key[b] = rng_key(test_seed(), RNG_DROPOUT, 77, b);
    t.x = tensor_normal(t.total * WIDTH, 1);
    t.branch = tensor_normal(t.total * WIDTH, 1);
    t.bias = tensor_normal(WIDTH, 1);
    t.r = tensor_filled(t.total * WIDTH, NAN);
    return t;
}

static void forward(const Case *t, real *r, const real *x, const real *branch, const real *bias,
                    double p) {
    residual_dropout_forward(r, x, branch, bias, t->start, t->key, SEQS, WIDTH, 3, SITE_FFN, p);
}

/* The documented mask, element by element. */
static real mask_at(const Case *t, size_t b, size_t row, size_t c, double p) {
    uint32_t index = (uint32_t)((row - t->start[b]) * WIDTH + c);
    return dropout_factor(dropout_key(t->key[b], 3, SITE_FFN), index, dropout_threshold(p),
                          (real)(1 / (1 - p)));
}

static void test_values(void) {
    for (int form = 0; form < 8; form++) {
        threads_set(1 + (size_t)form % 3);
        Case t = case_new();
        const real *x = form & 1 ? t.x : NULL, *bias = form & 2 ? t.bias : NULL;
        double p = form & 4 ? 0.1 : 0, *want = tensors_take(t.total * WIDTH, sizeof *want);
        for (size_t b = 0; b < SEQS; b++) {
            for (size_t row = t.start[b]; row < t.start[b + 1]; row++) {
                for (size_t c = 0; c < WIDTH; c++) {
                    size_t i = row * WIDTH + c;
                    double value = (double)t.branch[i] + (bias ? (double)bias[c] : 0);
                    want[i] = (x ? (double)x[i] : 0) +
                              value * (p > 0 ? (double)mask_at(&t, b, row, c, p) : 1);
                }
            }
        }
        forward(&t, t.r, x, t.branch, bias, p);
        CHECK_TENSOR(t.r, want, t.total * WIDTH, KERNEL_TOL / 10);
        tensors_free();
    }
}

/* r may be x or branch. */
static void test_in_place(void) {
    for (int p = 0; p < 2; p++) {
        Case t = case_new();
        forward(&t, t.r, t.x, t.branch, t.bias, 0.2 * p);
        real *x = tensor_copy(t.x, t.total * WIDTH),
             *branch = tensor_copy(t.branch, t.total * WIDTH);
        forward(&t, x, x, t.branch, t.bias, 0.2 * p);
        CHECK_SAME(x, t.r, t.total * WIDTH);
        forward(&t, branch, t.x, branch, t.bias, 0.2 * p);
        CHECK_SAME(branch, t.r, t.total * WIDTH);
        tensors_free();
    }
}

/* <f(u), v> = <u, f^T v>, and backward in place. */
static void test_adjoint(void) {
    Case t = case_new();
    real *v = tensor_normal(t.total * WIDTH, 1), *d_branch = tensor_filled(t.total * WIDTH, NAN);
    forward(&t, t.r, NULL, t.branch, NULL, 0.3);
    residual_dropout_backward(d_branch, v, t.start, t.key, SEQS, WIDTH, 3, SITE_FFN, 0.3);
    double forward_dot = tensor_dot(t.r, v, t.total * WIDTH);
    CHECK_CLOSE(tensor_dot(t.branch, d_branch, t.total * WIDTH), forward_dot,
                KERNEL_TOL * (double)t.total * WIDTH);
    residual_dropout_backward(v, v, t.start, t.key, SEQS, WIDTH, 3, SITE_FFN, 0.3);
    CHECK_SAME(v, d_branch, t.total * WIDTH);
    tensors_free();
}

typedef struct GradCase {
    size_t start[3];
    real *x, *branch, *bias, *r, *weights;
} GradCase;

enum { GRAD_WIDTH = 5, GRAD_COUNT = 9 * GRAD_WIDTH };

static const uint64_t GRAD_KEYS[] = {11, 22};

static double loss(void *ctx) {
    GradCase *t = ctx;
    residual_dropout_forward(t->r, t->x, t->branch, t->bias, t->start, GRAD_KEYS, 2, GRAD_WIDTH, 1,
                             SITE_HEAD_INPUT, 0.25);
    return tensor_dot(t->r, t->weights, GRAD_COUNT);
}

static void test_grad(void) {
    GradCase t = {{0, 7, 9},
                  tensor_normal(GRAD_COUNT, 1),
                  tensor_normal(GRAD_COUNT, 1),
                  tensor_normal(GRAD_WIDTH, 1),
                  tensor_filled(GRAD_COUNT, NAN),
                  tensor_normal(GRAD_COUNT, 1)};
    real *d_branch = tensor_filled(GRAD_COUNT, NAN), *d_bias = tensor_filled(GRAD_WIDTH, 0);
    residual_dropout_backward(d_branch, t.weights, t.start, GRAD_KEYS, 2, GRAD_WIDTH, 1,
                              SITE_HEAD_INPUT, 0.25);
    for (size_t i = 0; i < GRAD_COUNT; i++) d_bias[i % GRAD_WIDTH] += d_branch[i];
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "branch", t.branch, d_branch, GRAD_COUNT, 1e-7));
    CHECK(grad_close(&g, "x", t.x, t.weights, GRAD_COUNT, 1e-7));
    CHECK(grad_close(&g, "bias", t.bias, d_bias, GRAD_WIDTH, 1e-7));
    tensors_free();
}

/* 5 standard deviations of a binomial, in rows, in columns and overall. */
static void test_rate(void) {
    const double rates[] = {0.1, 0.5, 0.9};
    for (size_t i = 0; i < 3; i++) {
        double p = rates[i], scale = 1 / (1 - p);
        Case t = case_new();
        real *ones = tensor_filled(t.total * WIDTH, 1), *col = tensor_filled(WIDTH, 0);
        forward(&t, t.r, NULL, ones, NULL, p);
        double kept = 0, sigma = sqrt(p * (1 - p)), total = (double)t.total;
        for (size_t row = 0; row < t.total; row++) {
            double in_row = 0;
            for (size_t c = 0; c < WIDTH; c++) {
                double value = (double)t.r[row * WIDTH + c];
                CHECK(value == 0 || fabs(value - scale) < 1e-5);
                in_row += value != 0;
                col[c] += value != 0;
            }
            CHECK_CLOSE(in_row, WIDTH * (1 - p), 5 * sigma * sqrt(WIDTH));
            kept += in_row;
        }
        for (size_t c = 0; c < WIDTH; c++)
            CHECK_CLOSE((double)col[c], total * (1 - p), 5 * sigma * sqrt(total));
        CHECK_CLOSE(kept, total * WIDTH * (1 - p), 5 * sigma * sqrt(total * WIDTH));
        tensors_free();
    }
}

/* A sequence alone has the mask it has among others; and threads change nothing. */
static void test_batch_mates(void) {
    Case t = case_new();
    threads_set(2);
    forward(&t, t.r, t.x, t.branch, t.bias, 0.1);
    threads_set(1);
    for (size_t b = 0; b < SEQS; b++) {
        size_t alone[] = {0, LENGTHS[b]}, from = t.start[b] * WIDTH;
        real *r = tensor_filled(LENGTHS[b] * WIDTH, NAN);
        residual_dropout_forward(r, t.x + from, t.branch + from, t.bias, alone, &t.key[b], 1, WIDTH,
                                 3, SITE_FFN, 0.1);
        CHECK_SAME(r, t.r + from, LENGTHS[b] * WIDTH);
    }
    tensors_free();
}

static void test_keys_differ(void) {
    uint64_t keys[3 * 3 * (SITE_HEAD_DENSE + 1)];
    size_t count = 0;
    for (uint64_t seq = 0; seq < 3; seq++) {
        for (size_t layer = 0; layer < 3; layer++) {
            for (int site = SITE_EMBEDDING; site <= SITE_HEAD_DENSE; site++) {
                keys[count++] = dropout_key(seq, layer, (DropoutSite)site);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) CHECK(keys[i] != keys[j]);
    }
}

const Test tests_dropout[] = {{"values", test_values, 0},
                              {"in_place", test_in_place, 0},
                              {"adjoint", test_adjoint, 0},
                              {"grad", test_grad, TEST_DOUBLE},
                              {"rate", test_rate, 0},
                              {"batch_mates", test_batch_mates, 0},
                              {"keys_differ", test_keys_differ, 0},
                              {0}};
