#include "embedding.h"

#include "gradcheck.h"
#include "harness.h"
#include "rng.h"
#include "tensors.h"
#include "threads.h"

typedef struct Case {
    size_t B, C, V, N, total;
    size_t *start;
    uint32_t *ids;
    real *token, *position, *y, *r;
} Case;

static Case case_new(const size_t *lengths, size_t B, size_t C, size_t V, size_t N) {
    Case t = {.B = B, .C = C, .V = V, .N = N, .start = tensor_starts(lengths, B)};
    t.total = t.start[B];
    t.ids = tensors_take(t.total, sizeof *t.ids);
    for (size_t i = 0; i < t.total; i++)
        t.ids[i] = (uint32_t)rng_below(rng_key(test_seed(), RNG_TEST, 3, 0), i, V);
    t.token = tensor_normal(V * C, 1);
    t.position = tensor_normal(N * C, 1);
    t.y = tensor_filled(t.total * C, NAN);
    t.r = tensor_normal(t.total * C, 1);
    return t;
}

static double loss(void *ctx) {
    Case *t = ctx;
    embedding_forward(t->y, t->token, t->position, t->ids, t->start, t->B, t->C);
    return tensor_dot(t->y, t->r, t->total * t->C);
}

static const size_t LENGTHS[] = {7, 2};

static void test_grad(void) {
    Case t = case_new(LENGTHS, 2, 5, 4, 11); /* 9 tokens of 4 ids: rows are shared */
    real *d_token = tensor_filled(4 * 5, 0), *d_position = tensor_filled(11 * 5, 0);
    embedding_backward(d_token, d_position, t.r, t.ids, t.start, 2, 5);
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "token", t.token, d_token, 4 * 5, 1e-7));
    CHECK(grad_close(&g, "position", t.position, d_position, 11 * 5, 1e-7));
    tensors_free();
}

static void check_values(Case t) {
    double *y = tensors_take(t.total * t.C, sizeof *y),
           *token = tensors_take(t.V * t.C, sizeof *token);
    double *position = tensors_take(t.N * t.C, sizeof *position);
    real *d_token = tensor_filled(t.V * t.C, 20),
         *d_position = tensor_filled(t.N * t.C, 30); /* both are added to */
    for (size_t i = 0; i < t.V * t.C; i++) token[i] = 20;
    for (size_t i = 0; i < t.N * t.C; i++) position[i] = 30;
    for (size_t b = 0; b < t.B; b++) {
        for (size_t row = t.start[b]; row < t.start[b + 1]; row++) {
            for (size_t c = 0; c < t.C; c++) {
                size_t tok = t.ids[row] * t.C + c, pos = (row - t.start[b]) * t.C + c;
                y[row * t.C + c] = (double)t.token[tok] + (double)t.position[pos];
                token[tok] += (double)t.r[row * t.C + c];
                position[pos] += (double)t.r[row * t.C + c];
            }
        }
    }
    embedding_forward(t.y, t.token, t.position, t.ids, t.start, t.B, t.C);
    embedding_backward(d_token, d_position, t.r, t.ids, t.start, t.B, t.C);
    CHECK_TENSOR(t.y, y, t.total * t.C, KERNEL_TOL);
    CHECK_TENSOR(d_token, token, t.V * t.C, KERNEL_TOL);
    CHECK_TENSOR(d_position, position, t.N * t.C, KERNEL_TOL);
    tensors_free();
}

static void test_values(void) {
    const size_t ragged[] = {1, 300, 2, 77};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        check_values(case_new(LENGTHS, 2, 5, 4, 11));
        check_values(case_new(ragged, 4, 130, 50, 300)); /* shared by the threads */
    }
}

/* Sums in the same order whatever the threads. */
static void test_threads_agree(void) {
    const size_t lengths[] = {200, 200};
    Case t = case_new(lengths, 2, 100, 7, 200);
    real *want = tensor_filled(7 * 100, 0), *position = tensor_filled(200 * 100, 0);
    threads_set(1);
    embedding_backward(want, position, t.r, t.ids, t.start, 2, 100);
    for (size_t threads = 2; threads <= 4; threads++) {
        real *d_token = tensor_filled(7 * 100, 0);
        threads_set(threads);
        embedding_backward(d_token, position, t.r, t.ids, t.start, 2, 100);
        CHECK_SAME(d_token, want, 7 * 100);
    }
    tensors_free();
}

/* rows_scatter_add is the adjoint of rows_gather. */
static void test_gather_and_scatter(void) {
    const size_t sizes[] = {5, 9000};
    const uint32_t rows[] = {0, 3, 4, 9};
    threads_set(2);
    for (size_t i = 0; i < 2; i++) {
        size_t C = sizes[i];
        real *x = tensor_normal(10 * C, 1), *y = tensor_filled(4 * C, NAN),
             *d_x = tensor_filled(10 * C, 7);
        rows_gather(y, x, rows, 4, C);
        for (size_t r = 0; r < 4; r++) CHECK_SAME(y + r * C, x + rows[r] * C, C);
        rows_scatter_add(d_x, y, rows, 4, C);
        for (size_t r = 0; r < 10; r++) {
            bool taken = r == 0 || r == 3 || r == 4 || r == 9;
            for (size_t c = 0; c < C; c++) {
                if (!CHECK(d_x[r * C + c] == 7 + (taken ? x[r * C + c] : 0))) break;
            }
        }
        tensors_free();
    }
}

/* Means by the definition, and what backward gives is the adjoint: <r, mean(x)> = <d_x, x> with d_x
 * equal within a sequence.  Sizes on both sides of what one thread does. */
static void check_sequence_mean(const size_t *lengths, size_t B, size_t C) {
    size_t *start = tensor_starts(lengths, B), total = start[B];
    real *x = tensor_normal(total * C, 1), *r = tensor_normal(B * C, 1),
         *y = tensor_filled(B * C, NAN), *d_x = tensor_filled(total * C, NAN);
    double *wanted = tensors_take(B * C, sizeof *wanted);
    double *d_wanted = tensors_take(total * C, sizeof *d_wanted);
    for (size_t b = 0; b < B; b++) {
        for (size_t j = start[b] * C; j < start[b + 1] * C; j++) {
            wanted[b * C + j % C] += (double)x[j] / (double)lengths[b];
            d_wanted[j] = (double)r[b * C + j % C] / (double)lengths[b];
        }
    }
    sequence_mean_forward(y, x, start, B, C);
    sequence_mean_backward(d_x, r, start, B, C);
    CHECK_TENSOR(y, wanted, B * C, KERNEL_TOL);
    CHECK_TENSOR(d_x, d_wanted, total * C, KERNEL_TOL);
    CHECK_CLOSE(tensor_dot(y, r, B * C) / tensor_dot(d_x, x, total * C), 1, 100 * KERNEL_TOL);
    tensors_free();
}

static void test_sequence_mean(void) {
    const size_t few[] = {1, 3}, many[] = {512, 1, 70, 301};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        check_sequence_mean(few, 2, 5);
        check_sequence_mean(many, 4, 130);
    }
}

const Test tests_embedding[] = {
    {"grad", test_grad, TEST_DOUBLE},         {"values", test_values, 0},
    {"threads_agree", test_threads_agree, 0}, {"gather_and_scatter", test_gather_and_scatter, 0},
    {"sequence_mean", test_sequence_mean, 0}, {0}};
