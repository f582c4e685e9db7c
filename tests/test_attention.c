#include "attention.h"

#include "dropout.h"
#include "gradcheck.h"
#include "harness.h"
#include "rng.h"
#include "seq_project.h"
#include "tensors.h"
#include "threads.h"

typedef struct Case {
    AttentionShape shape;
    size_t C, total, total_keys;
    real *q, *k, *v, *out, *lse, *r; /* loss = sum of out * r */
    real *d_q, *d_k, *d_v, *scratch;
} Case;

static Case case_new(const size_t *T, const size_t *keys, size_t B, size_t H, size_t D, double p,
                     double q_scale) {
    Case t = {.shape = {.B = B, .H = H, .D = D, .layer = 2, .p = p}, .C = H * D};
    uint64_t *seq_key = tensors_take(B, sizeof *seq_key);
    for (size_t b = 0; b < B; b++) seq_key[b] = rng_key(test_seed(), RNG_DROPOUT, 5, b);
    t.shape.seq_key = seq_key;
    t.shape.start = tensor_starts(T, B);
    t.shape.key_start = tensor_starts(keys, B);
    t.total = t.shape.start[B];
    t.total_keys = t.shape.key_start[B];
    t.q = tensor_normal(t.total * t.C, q_scale);
    t.k = tensor_normal(t.total_keys * t.C, 1);
    t.v = tensor_normal(t.total_keys * t.C, 1);
    t.r = tensor_normal(t.total * t.C, 1);
    t.out = tensor_filled(t.total * t.C, NAN);
    t.lse = tensor_filled(t.total * H, NAN);
    t.d_q = tensor_filled(t.total * t.C, NAN);
    t.d_k = tensor_filled(t.total_keys * t.C, NAN);
    t.d_v = tensor_filled(t.total_keys * t.C, NAN);
    t.scratch = tensor_filled(attention_scratch(), NAN);
    return t;
}

static void forward(Case *t) {
    attention_forward(t->out, t->lse, t->q, t->k, t->v, &t->shape, t->scratch);
}

static void backward(Case *t) {
    attention_backward(t->d_q, t->d_k, t->d_v, t->r, t->q, t->k, t->v, t->out, t->lse, &t->shape,
                       t->scratch);
}

/* The same in double without blocks, straight from the definition; every probability is kept. */
typedef struct Reference {
    double *out, *lse, *d_q, *d_k, *d_v;
} Reference;

static double row_dot(const real *a, const real *b, size_t D) {
    return tensor_dot(a, b, D);
}

/* Query t of sequence b and head h. */
static void reference_row(const Case *t, Reference *ref, size_t b, size_t h, size_t at,
                          double *prob, double *mask) {
    const AttentionShape *s = &t->shape;
    size_t keys = s->key_start[b + 1] - s->key_start[b], D = s->D;
    size_t i = (s->start[b] + at) * t->C + h * D, j0 = s->key_start[b] * t->C + h * D;
    uint64_t key = rng_key(s->p > 0 ? dropout_key(s->seq_key[b], s->layer, SITE_PROBABILITIES) : 0,
                           RNG_DROPOUT, h, at / 1024);
    double max = -INFINITY, sum = 0, dots = 0;
    for (size_t j = 0; j < keys; j++) {
        prob[j] = row_dot(t->q + i, t->k + j0 + j * t->C, D) / sqrt((double)D);
        max = fmax(max, prob[j]);
        uint32_t index = (uint32_t)(at % 1024 * keys + j);
        mask[j] = s->p > 0 ? (double)dropout_factor(key, index, dropout_threshold(s->p),
                                                    (real)(1 / (1 - s->p)))
                           : 1;
    }
    for (size_t j = 0; j < keys; j++) sum += exp(prob[j] - max);
    ref->lse[(s->start[b] + at) * s->H + h] = max + log(sum);
    for (size_t j = 0; j < keys; j++) {
        prob[j] = exp(prob[j] - max) / sum;
        dots += prob[j] * mask[j] * row_dot(t->r + i, t->v + j0 + j * t->C, D);
    }
    for (size_t j = 0; j < keys; j++) {
        double d_prob = mask[j] * row_dot(t->r + i, t->v + j0 + j * t->C, D);
        double d_score = prob[j] * (d_prob - dots) / sqrt((double)D);
        for (size_t d = 0; d < D; d++) {
            size_t from = j0 + j * t->C + d;
            ref->out[i + d] += prob[j] * mask[j] * (double)t->v[from];
            ref->d_v[from] += prob[j] * mask[j] * (double)t->r[i + d];
            ref->d_q[i + d] += d_score * (double)t->k[from];
            ref->d_k[from] += d_score * (double)t->q[i + d];
        }
    }
}

static Reference reference(const Case *t) {
    Reference ref = {tensors_take(t->total * t->C, sizeof(double)),
                     tensors_take(t->total * t->shape.H, sizeof(double)),
                     tensors_take(t->total * t->C, sizeof(double)),
                     tensors_take(t->total_keys * t->C, sizeof(double)),
                     tensors_take(t->total_keys * t->C, sizeof(double))};
    double *prob = tensors_take(t->total_keys, sizeof *prob),
           *mask = tensors_take(t->total_keys, sizeof *mask);
    for (size_t b = 0; b < t->shape.B; b++) {
        for (size_t h = 0; h < t->shape.H; h++) {
            size_t T = t->shape.start[b + 1] - t->shape.start[b];
            for (size_t at = 0; at < T; at++) reference_row(t, &ref, b, h, at, prob, mask);
        }
    }
    return ref;
}

/* Runs both passes of a case and compares everything; frees. */
static void check_case(Case t) {
    Reference ref = reference(&t);
    forward(&t);
    backward(&t);
    CHECK_TENSOR(t.out, ref.out, t.total * t.C, KERNEL_TOL);
    CHECK_TENSOR(t.lse, ref.lse, t.total * t.shape.H, KERNEL_TOL);
    CHECK_TENSOR(t.d_q, ref.d_q, t.total * t.C, KERNEL_TOL);
    CHECK_TENSOR(t.d_k, ref.d_k, t.total_keys * t.C, KERNEL_TOL);
    CHECK_TENSOR(t.d_v, ref.d_v, t.total_keys * t.C, KERNEL_TOL);
    tensors_free();
}

static double loss(void *ctx) {
    Case *t = ctx;
    forward(t);
    return tensor_dot(t->out, t->r, t->total * t->C);
}

static void check_grad(const size_t *T, const size_t *keys, double p) {
    Case t = case_new(T, keys, 2, 3, 5, p, 1);
    forward(&t);
    backward(&t);
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "q", t.q, t.d_q, t.total * t.C, 1e-7));
    CHECK(grad_close(&g, "k", t.k, t.d_k, t.total_keys * t.C, 1e-7));
    CHECK(grad_close(&g, "v", t.v, t.d_v, t.total_keys * t.C, 1e-7));
    tensors_free();
}

static void test_grad(void) {
    const size_t T[] = {7, 2}, P[] = {4, 4};
    check_grad(T, P, 0);
    check_grad(T, P, 0.3);
    check_grad(T, T, 0);
    check_grad(T, T, 0.3);
}

/* Ragged lengths around the number of keys and around the block of 64 queries, with and without
 * dropout, 1 to 3 threads. */
static void test_ragged(void) {
    const size_t T[] = {1, 2, 15, 16, 17, 63, 64, 65, 130},
                 P[] = {16, 16, 16, 16, 16, 16, 16, 16, 16};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        for (int p = 0; p < 2; p++) {
            check_case(case_new(T, P, 9, 3, 8, 0.2 * p, 1));
            check_case(case_new(T, T, 9, 2, 19, 0.2 * p, 1));
        }
    }
}

/* Several blocks of keys: the running maximum, with scores spread enough that it moves by many
 * units. */
static void test_many_keys(void) {
    const size_t T[] = {1300, 70}, keys[] = {1300, 257}, few[] = {128, 300};
    threads_set(2);
    for (int p = 0; p < 2; p++) {
        check_case(case_new(T, keys, 2, 2, 16, 0.1 * p, 3));
        check_case(case_new(T, few, 2, 1, 64, 0.1 * p, 1));
    }
}

/* Scores in the hundreds, beyond where exp overflows, and one key far above the rest. */
static void test_large_scores(void) {
    const size_t T[] = {70}, keys[] = {300};
    Case t = case_new(T, keys, 1, 1, 4, 0, 300);
    Reference ref = reference(&t);
    forward(&t);
    backward(&t);
    double tol = sizeof(real) == sizeof(float)
                     ? 1e-3
                     : 1e-11; /* scores of 1000 carry an error of 1e-4 in float */
    CHECK_TENSOR(t.out, ref.out, t.total * t.C, tol);
    CHECK_TENSOR(t.lse, ref.lse, t.total, KERNEL_TOL);
    CHECK_TENSOR(t.d_v, ref.d_v, t.total_keys * t.C, tol);
    tensors_free();
}

/* Without dropout the probabilities of a row sum to 1: values of one give outputs of one, and the
 * maximum of the values bounds the outputs. */
static void test_rows_sum_to_one(void) {
    const size_t T[] = {150, 1, 33}, keys[] = {400, 7, 1};
    Case t = case_new(T, keys, 3, 2, 8, 0, 2);
    for (size_t i = 0; i < t.total_keys * t.C; i++) t.v[i] = 1;
    forward(&t);
    for (size_t i = 0; i < t.total * t.C; i++) CHECK_CLOSE((double)t.out[i], 1, 1e-6);
    real *again = tensor_copy(t.out, t.total * t.C);
    real *lse = t.lse;
    t.lse = NULL; /* inference */
    forward(&t);
    CHECK_SAME(again, t.out, t.total * t.C);
    t.lse = lse;
    tensors_free();
}

/* With dropout they sum to 1 in the mean, and the dropped share is p. */
static void test_dropout_rate(void) {
    const size_t T[] = {1500}, keys[] = {64};
    Case t = case_new(T, keys, 1, 1, 64, 0.25, 0); /* q = 0: all probabilities are 1/64 */
    for (size_t j = 0; j < 64; j++) {
        for (size_t d = 0; d < 64; d++)
            t.v[j * 64 + d] = j == d; /* out is the row of probabilities */
    }
    forward(&t);
    double kept = 0, column[64] = {0}, n = 1500 * 64, sigma = sqrt(0.25 * 0.75);
    for (size_t i = 0; i < 1500 * 64; i++) {
        double value = (double)t.out[i];
        CHECK(value == 0 || fabs(value - 1 / (64 * 0.75)) < 1e-7);
        kept += value != 0;
        column[i % 64] += value != 0;
    }
    CHECK_CLOSE(kept, 0.75 * n, 5 * sigma * sqrt(n));
    for (size_t j = 0; j < 64; j++) CHECK_CLOSE(column[j], 0.75 * 1500, 5 * sigma * sqrt(1500));
    for (size_t row = 0; row + 1024 < 1500;
         row++) { /* the mask does not repeat past the rows of one key */
        CHECK(memcmp(t.out + row * 64, t.out + (row + 1024) * 64, 64 * sizeof *t.out) != 0);
    }
    tensors_free();
}

/* Heads, layers and sequences draw masks of their own. */
static void test_masks_differ(void) {
    const size_t T[] = {3, 3}, keys[] = {64, 64};
    Case t = case_new(T, keys, 2, 2, 64, 0.5, 0);
    for (size_t i = 0; i < t.total_keys * t.C; i++) t.v[i] = i / t.C % 64 == i % 64;
    forward(&t);
    real *other = tensor_copy(t.out, t.total * t.C);
    t.shape.layer++;
    forward(&t);
    for (size_t row = 0; row < 6; row++) {
        CHECK(memcmp(other + row * 128, other + row * 128 + 64, 64 * sizeof *other) != 0);
        CHECK(memcmp(other + row * 128, other + (row + 3) % 6 * 128, 64 * sizeof *other) != 0);
        CHECK(memcmp(other + row * 128, t.out + row * 128, 64 * sizeof *other) != 0);
    }
    tensors_free();
}

/* A sequence alone and among others: the same masks and, with the same blocks, the same bits. */
static void test_batch_mates(void) {
    const size_t T[] = {70, 3, 200}, keys[] = {64, 64, 64};
    threads_set(2);
    Case t = case_new(T, keys, 3, 2, 32, 0.1, 1);
    forward(&t);
    backward(&t);
    threads_set(1);
    for (size_t b = 0; b < 3; b++) {
        size_t start[] = {0, T[b]}, key_start[] = {0, 64}, from = t.shape.start[b] * t.C,
               key = b * 64 * t.C;
        Case one = t;
        one.shape.B = 1;
        one.shape.start = start;
        one.shape.key_start = key_start;
        one.shape.seq_key += b;
        one.q += from;
        one.k += key;
        one.v += key;
        one.r += from;
        one.out = tensor_filled(T[b] * t.C, NAN);
        one.lse = tensor_filled(T[b] * 2, NAN);
        one.d_q = tensor_filled(T[b] * t.C, NAN);
        one.d_k = tensor_filled(64 * t.C, NAN);
        one.d_v = tensor_filled(64 * t.C, NAN);
        forward(&one);
        backward(&one);
        CHECK_SAME(one.out, t.out + from, T[b] * t.C);
        CHECK_SAME(one.d_q, t.d_q + from, T[b] * t.C);
        CHECK_SAME(one.d_k, t.d_k + key, 64 * t.C);
        CHECK_SAME(one.d_v, t.d_v + key, 64 * t.C);
    }
    tensors_free();
}

static void test_threads_agree(void) {
    const size_t T[] = {300, 129}, keys[] = {300, 129};
    Case t = case_new(T, keys, 2, 3, 16, 0.1, 1);
    threads_set(1);
    forward(&t);
    backward(&t);
    real *out = tensor_copy(t.out, t.total * t.C), *d_k = tensor_copy(t.d_k, t.total * t.C);
    for (size_t threads = 2; threads <= 4; threads++) {
        threads_set(threads);
        t.scratch = tensor_filled(attention_scratch(), NAN);
        forward(&t);
        backward(&t);
        CHECK_SAME(t.out, out, t.total * t.C);
        CHECK_SAME(t.d_k, d_k, t.total * t.C);
    }
    tensors_free();
}

/* K = (1,2,3), V = (10,20,30), q = 1: full attention, and compressed by E = F =
 * ((1/2,1/2,0),(0,0,1)). */
static void test_worked_example(void) {
    const size_t start[] = {0, 1}, three[] = {0, 3}, two[] = {0, 2};
    const real q[] = {1}, k[] = {1, 2, 3}, v[] = {10, 20, 30},
               e[] = {(real)0.5, (real)0.5, 0, 0, 0, 1};
    real out[1], kp[2], vp[2], *scratch = tensor_filled(attention_scratch(), NAN);
    AttentionShape shape = {.B = 1, .H = 1, .D = 1, .start = start, .key_start = three};
    attention_forward(out, NULL, q, k, v, &shape, scratch);
    CHECK_CLOSE((double)out[0], 25.7521, 5e-5);
    seq_project_forward(kp, k, e, 6, three, 1, 1, 2, 3, 1, 0);
    seq_project_forward(vp, v, e, 6, three, 1, 1, 2, 3, 1, 0);
    shape.key_start = two;
    attention_forward(out, NULL, q, kp, vp, &shape, scratch);
    CHECK_CLOSE((double)out[0], 27.2636, 5e-5);
    tensors_free();
}

/* P = T and E = F = I: compressed attention is full attention, forward and backward. */
static void test_identity_projection_is_full(void) {
    const size_t T[] = {97, 97}, P[] = {97, 97};
    Case full = case_new(T, T, 2, 2, 12, 0, 1), compressed = full;
    size_t count = full.total * full.C;
    real *e = tensor_filled(97 * 97, 0), *kp = tensor_filled(count, NAN),
         *vp = tensor_filled(count, NAN);
    for (size_t i = 0; i < 97; i++) e[i * 98] = 1;
    forward(&full);
    backward(&full);
    seq_project_forward(kp, full.k, e, 97 * 97, full.shape.start, 2, 1, 97, 97, full.C, 0);
    seq_project_forward(vp, full.v, e, 97 * 97, full.shape.start, 2, 1, 97, 97, full.C, 0);
    compressed.k = kp;
    compressed.v = vp;
    compressed.shape.key_start = tensor_starts(P, 2);
    compressed.out = tensor_filled(count, NAN);
    compressed.d_q = tensor_filled(count, NAN);
    compressed.d_k = tensor_filled(count, NAN);
    compressed.d_v = tensor_filled(count, NAN);
    forward(&compressed);
    backward(&compressed);
    real *d_k = tensor_filled(count, NAN);
    seq_project_backward(d_k, NULL, compressed.d_k, full.k, e, 97 * 97, full.shape.start, 2, 1, 97,
                         97, full.C, 0, 0);
    CHECK_ARRAY_CLOSE(compressed.out, full.out, count, KERNEL_TOL);
    CHECK_ARRAY_CLOSE(compressed.d_q, full.d_q, count, KERNEL_TOL);
    CHECK_ARRAY_CLOSE(d_k, full.d_k, count, KERNEL_TOL);
    tensors_free();
}

/* A NaN in one query stays in its row, and shows. */
static void test_nan_shows(void) {
    const size_t T[] = {5}, keys[] = {9};
    Case t = case_new(T, keys, 1, 1, 3, 0, 1);
    t.q[2 * 3 + 1] = (real)NAN;
    forward(&t);
    for (size_t row = 0; row < 5; row++) CHECK(isnan((double)t.out[row * 3]) == (row == 2));
    CHECK(isnan((double)t.lse[2]));
    tensors_free();
}

const Test tests_attention[] = {
    {"grad", test_grad, TEST_DOUBLE},
    {"ragged", test_ragged, 0},
    {"many_keys", test_many_keys, 0},
    {"large_scores", test_large_scores, 0},
    {"rows_sum_to_one", test_rows_sum_to_one, 0},
    {"dropout_rate", test_dropout_rate, 0},
    {"masks_differ", test_masks_differ, 0},
    {"batch_mates", test_batch_mates, 0},
    {"threads_agree", test_threads_agree, 0},
    {"worked_example", test_worked_example, 0},
    {"identity_projection_is_full", test_identity_projection_is_full, 0},
    {"nan_shows", test_nan_shows, 0},
    {0}};
