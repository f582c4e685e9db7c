/* Short sequences: against the kernels of the other order, and gradients against differences. */
#include "short_attention.h"

#include "attention.h"
#include "gradcheck.h"
#include "harness.h"
#include "rng.h"
#include "seq_project.h"
#include "tensors.h"
#include "threads.h"

typedef struct Case {
    ShortShape shape;
    size_t C, total, weights;                /* elements of the matrices E, or F */
    real *q, *k, *v, *e, *f, *out, *lse, *r; /* loss = sum of out * r */
    real *d_q, *d_k, *d_v, *d_e, *d_f, *scratch;
} Case;

/* Sizes of a case without its lengths. */
typedef struct Sizes {
    size_t H, D, P, N;
    bool per_head; /* one E and F a head */
    double p;
} Sizes;

static void take_scratch(Case *t) {
    const ShortShape *s = &t->shape;
    t->scratch = tensor_filled(short_attention_scratch(s->H, s->D, s->P, s->N), NAN);
}

/* All of these lengths are short: the kernel takes any up to short_attention_longest. */
static Case case_new(const size_t *T, size_t B, Sizes sizes) {
    Case t = {.C = sizes.H * sizes.D};
    uint64_t *seq_key = tensors_take(B, sizeof *seq_key);
    for (size_t b = 0; b < B; b++) seq_key[b] = rng_key(test_seed(), RNG_DROPOUT, 6, b);
    t.shape = (ShortShape){.B = B,
                           .H = sizes.H,
                           .D = sizes.D,
                           .P = sizes.P,
                           .N = sizes.N,
                           .G = sizes.per_head ? sizes.H : 1,
                           .proj_stride = sizes.P * sizes.N + 3,
                           .longest = short_attention_longest(sizes.D, sizes.P, sizes.N),
                           .start = tensor_starts(T, B),
                           .seq_key = seq_key,
                           .layer = 2,
                           .p = sizes.p};
    t.total = t.shape.start[B];
    t.weights = t.shape.G * t.shape.proj_stride;
    t.q = tensor_normal(t.total * t.C, 1);
    t.k = tensor_normal(t.total * t.C, 1);
    t.v = tensor_normal(t.total * t.C, 1);
    t.e = tensor_normal(t.weights, 0.3);
    t.f = tensor_normal(t.weights, 0.3);
    t.r = tensor_normal(t.total * t.C, 1);
    t.out = tensor_filled(t.total * t.C, NAN);
    t.lse = tensor_filled(t.total * sizes.H, NAN);
    t.d_q = tensor_filled(t.total * t.C, NAN);
    t.d_k = tensor_filled(t.total * t.C, NAN);
    t.d_v = tensor_filled(t.total * t.C, NAN);
    t.d_e = tensor_filled(t.weights, 0);
    t.d_f = tensor_filled(t.weights, 0);
    take_scratch(&t);
    return t;
}

static void forward(Case *t) {
    short_attention_forward(t->out, t->lse, t->q, t->k, t->v, t->e, t->f, &t->shape, t->scratch);
}

static void backward(Case *t) {
    short_attention_backward(t->d_q, t->d_k, t->d_v, t->d_e, t->d_f, t->r, t->q, t->k, t->v, t->e,
                             t->f, t->out, t->lse, &t->shape, t->scratch);
}

/* The same by seq_project.h and attention.h. */
static void other_order(Case *t) {
    const ShortShape *s = &t->shape;
    size_t rows = s->B * s->P, *keys = tensors_take(s->B + 1, sizeof *keys);
    for (size_t b = 0; b <= s->B; b++) keys[b] = b * s->P;
    AttentionShape shape = {.B = s->B,
                            .H = s->H,
                            .D = s->D,
                            .start = s->start,
                            .key_start = keys,
                            .seq_key = s->seq_key,
                            .layer = s->layer,
                            .p = s->p};
    real *kp = tensor_filled(rows * t->C, NAN), *vp = tensor_filled(rows * t->C, NAN);
    real *d_kp = tensor_filled(rows * t->C, NAN), *d_vp = tensor_filled(rows * t->C, NAN);
    real *scratch = tensor_filled(attention_scratch(), NAN);
    seq_project_forward(kp, t->k, t->e, s->proj_stride, s->start, s->B, s->G, s->P, s->N, t->C, 0);
    seq_project_forward(vp, t->v, t->f, s->proj_stride, s->start, s->B, s->G, s->P, s->N, t->C, 0);
    attention_forward(t->out, t->lse, t->q, kp, vp, &shape, scratch);
    attention_backward(t->d_q, d_kp, d_vp, t->r, t->q, kp, vp, t->out, t->lse, &shape, scratch);
    seq_project_backward(t->d_k, t->d_e, d_kp, t->k, t->e, s->proj_stride, s->start, s->B, s->G,
                         s->P, s->N, t->C, 0, 0);
    seq_project_backward(t->d_v, t->d_f, d_vp, t->v, t->f, s->proj_stride, s->start, s->B, s->G,
                         s->P, s->N, t->C, 0, 0);
}

/* A copy that shares the inputs, its results empty. */
static Case case_again(const Case *t) {
    Case again = *t;
    again.out = tensor_filled(t->total * t->C, NAN);
    again.lse = tensor_filled(t->total * t->shape.H, NAN);
    again.d_q = tensor_filled(t->total * t->C, NAN);
    again.d_k = tensor_filled(t->total * t->C, NAN);
    again.d_v = tensor_filled(t->total * t->C, NAN);
    again.d_e = tensor_filled(t->weights, 0);
    again.d_f = tensor_filled(t->weights, 0);
    take_scratch(&again);
    return again;
}

static void check_close(const Case *a, const Case *b, double tol) {
    size_t rows = a->total * a->C;
    CHECK_ARRAY_CLOSE(a->out, b->out, rows, tol);
    CHECK_ARRAY_CLOSE(a->lse, b->lse, a->total * a->shape.H, tol);
    CHECK_ARRAY_CLOSE(a->d_q, b->d_q, rows, tol);
    CHECK_ARRAY_CLOSE(a->d_k, b->d_k, rows, tol);
    CHECK_ARRAY_CLOSE(a->d_v, b->d_v, rows, tol);
    CHECK_ARRAY_CLOSE(a->d_e, b->d_e, a->weights, tol);
    CHECK_ARRAY_CLOSE(a->d_f, b->d_f, a->weights, tol);
}

static void check_orders(const size_t *T, size_t B, Sizes sizes) {
    Case t = case_new(T, B, sizes), other = case_again(&t);
    for (size_t b = 0; b < B; b++) REQUIRE(T[b] <= t.shape.longest);
    forward(&t);
    backward(&t);
    other_order(&other);
    check_close(&t, &other, 2 * KERNEL_TOL); /* the rounding of both */
    tensors_free();
}

/* k = 1: the one probability is 1 whatever the score, so out is f v, and nothing depends on q, k
 * and E. */
static void check_one_key(Sizes sizes) {
    const size_t T[] = {1};
    Case t = case_new(T, 1, sizes), other = case_again(&t);
    REQUIRE(t.shape.longest == 1 && sizes.P == 1);
    forward(&t);
    backward(&t);
    other_order(&other);
    CHECK_ARRAY_CLOSE(t.out, other.out, t.C, KERNEL_TOL);
    CHECK_ARRAY_CLOSE(t.d_v, other.d_v, t.C, KERNEL_TOL);
    for (size_t i = 0; i < t.weights; i++) CHECK_CLOSE((double)t.d_e[i], 0, 1e-5);
    for (size_t i = 0; i < t.weights; i++)
        CHECK_CLOSE((double)t.d_f[i], (double)other.d_f[i], 1e-5);
    for (size_t i = 0; i < t.C; i++) CHECK_CLOSE((double)t.d_q[i], 0, 1e-5);
    for (size_t i = 0; i < t.C; i++) CHECK_CLOSE((double)t.d_k[i], 0, 1e-5);
    tensors_free();
}

/* Widths and lengths that fill vectors, just don't, or are 1; the longest there are; both kinds of
 * matrices; dropout. */
static void test_orders_agree(void) {
    const size_t lengths[] = {1, 14, 2, 17, 16, 15, 33, 5}, one[] = {1};
    const size_t most[] = {128, 3, 127};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        for (int i = 0; i < 4; i++) {
            bool per_head = i & 1;
            double p = i & 2 ? 0.2 : 0;
            check_orders(lengths, 8, (Sizes){3, 32, 128, 40, per_head, p});
            check_orders(lengths, 8, (Sizes){2, 64, 100, 33, per_head, p});
            check_orders(lengths, 5, (Sizes){5, 19, 77, 50, per_head, p});
            check_one_key((Sizes){2, 8, 1, 7, per_head, p});
            check_orders(one, 1, (Sizes){1, 16, 7, 1, per_head, p});
            if (threads == 2) check_orders(most, 3, (Sizes){2, 96, 640, 150, per_head, p});
        }
    }
}

static double loss(void *ctx) {
    Case *t = ctx;
    forward(t);
    return tensor_dot(t->out, t->r, t->total * t->C);
}

static void check_grad(const size_t *T, size_t B, Sizes sizes) {
    Case t = case_new(T, B, sizes);
    for (size_t b = 0; b < B; b++) REQUIRE(T[b] <= t.shape.longest);
    forward(&t);
    backward(&t);
    GradCheck g = {.loss = loss, .ctx = &t};
    CHECK(grad_close(&g, "q", t.q, t.d_q, t.total * t.C, 1e-7));
    CHECK(grad_close(&g, "k", t.k, t.d_k, t.total * t.C, 1e-7));
    CHECK(grad_close(&g, "v", t.v, t.d_v, t.total * t.C, 1e-7));
    CHECK(grad_close(&g, "e", t.e, t.d_e, t.weights, 1e-7));
    CHECK(grad_close(&g, "f", t.f, t.d_f, t.weights, 1e-7));
    tensors_free();
}

static void test_grad(void) {
    const size_t T[] = {5, 1, 3}, one[] = {1};
    for (int i = 0; i < 4; i++) {
        bool per_head = i & 1;
        double p = i & 2 ? 0.3 : 0;
        check_grad(T, 3, (Sizes){3, 5, 11, 7, per_head, p});
        check_grad(one, 1, (Sizes){2, 8, 1, 3, per_head, p});
    }
}

/* Gradients of E and F are added to, or left out; one pointer takes both where E = F; d_v may be
 * d_out. */
static void test_contracts(void) {
    const size_t T[] = {14, 3, 9};
    threads_set(2);
    for (int per_head = 0; per_head < 2; per_head++) {
        Case t = case_new(T, 3, (Sizes){3, 16, 48, 20, per_head, 0.1});
        Case frozen = case_again(&t), tied = case_again(&t);
        forward(&t);
        backward(&t);
        forward(&frozen);
        frozen.d_e = frozen.d_f = NULL;
        backward(&frozen);
        CHECK_SAME(frozen.d_q, t.d_q, t.total * t.C);
        CHECK_SAME(frozen.d_k, t.d_k, t.total * t.C);
        CHECK_SAME(frozen.d_v, t.d_v, t.total * t.C);
        forward(&tied);
        tied.d_e = tied.d_f = tensor_filled(t.weights, 7);
        tied.r = tied.d_v = tensor_copy(t.r, t.total * t.C);
        backward(&tied);
        CHECK_SAME(tied.d_v, t.d_v, t.total * t.C);
        CHECK_SAME(tied.d_k, t.d_k, t.total * t.C);
        for (size_t i = 0; i < t.weights; i++)
            CHECK_CLOSE((double)tied.d_e[i], 7 + (double)t.d_e[i] + (double)t.d_f[i], 1e-5);
        for (size_t i = 0; i < t.weights; i++) /* columns past the longest, and between matrices */
            if (i % t.shape.proj_stride >= 48 * 20 || i % t.shape.proj_stride % 20 >= 14)
                CHECK(t.d_e[i] == 0 && t.d_f[i] == 0);
        tensors_free();
    }
}

/* A sequence among others gives the bits it gives alone; a long one among them is left alone. */
static void test_batch_mates(void) {
    const size_t T[] = {14, 30, 3}, alone[] = {14};
    threads_set(2);
    Case t = case_new(T, 3, (Sizes){3, 16, 64, 40, true, 0.1});
    Case one = case_new(alone, 1, (Sizes){3, 16, 64, 40, true, 0.1});
    size_t rows = 14 * t.C, end = 44 * t.C;
    t.shape.longest = one.shape.longest = 20;
    one.q = t.q;
    one.k = t.k;
    one.v = t.v;
    one.r = t.r;
    one.e = t.e;
    one.f = t.f;
    forward(&t);
    backward(&t);
    forward(&one);
    backward(&one);
    CHECK_SAME(one.out, t.out, rows);
    CHECK_SAME(one.d_q, t.d_q, rows);
    CHECK_SAME(one.d_k, t.d_k, rows);
    CHECK_SAME(one.d_v, t.d_v, rows);
    for (size_t i = rows; i < end; i++)
        CHECK(isnan((double)t.out[i]) && isnan((double)t.d_q[i]) && isnan((double)t.d_k[i]));
    for (size_t i = end; i < t.total * t.C; i++) CHECK(!isnan((double)t.d_v[i]));
    t.lse = NULL; /* inference */
    real *out = tensor_copy(t.out, rows);
    forward(&t);
    CHECK_SAME(out, t.out, rows);
    tensors_free();
}

/* Repeated runs give the same bits, and thread counts agree up to the order in which sequences add
 * into E and F. */
static void test_threads(void) {
    enum { B = 40 };
    size_t T[B];
    for (size_t b = 0; b < B; b++) T[b] = 1 + b * 7 % 29;
    for (int per_head = 0; per_head < 2; per_head++) {
        threads_set(1);
        Case t = case_new(T, B, (Sizes){3, 32, 128, 64, per_head, 0.1});
        forward(&t);
        backward(&t);
        for (size_t threads = 2; threads <= 4; threads++) {
            threads_set(threads);
            Case many = case_again(&t), again = case_again(&t);
            forward(&many);
            backward(&many);
            forward(&again);
            backward(&again);
            CHECK_SAME(again.d_e, many.d_e, t.weights);
            CHECK_SAME(again.d_f, many.d_f, t.weights);
            CHECK_SAME(many.out, t.out, t.total * t.C);
            CHECK_SAME(many.d_k, t.d_k, t.total * t.C);
            check_close(&many, &t, KERNEL_TOL);
        }
        tensors_free();
    }
}

/* A NaN in one query stays in its row, and shows. */
static void test_nan_shows(void) {
    const size_t T[] = {5};
    Case t = case_new(T, 1, (Sizes){1, 6, 9, 5, true, 0});
    t.q[2 * 6 + 1] = (real)NAN;
    forward(&t);
    for (size_t row = 0; row < 5; row++) CHECK(isnan((double)t.out[row * 6]) == (row == 2));
    CHECK(isnan((double)t.lse[2]));
    tensors_free();
}

/* The border lies where the operations are equal, and within k' columns and the scratch's bound. */
static void test_longest(void) {
    CHECK_INT(short_attention_longest(32, 128, 512), 42); /* 13 * 32 * 128 / (8 * 128 + 7 * 32) */
    CHECK_INT(short_attention_longest(32, 128, 17), 17);
    CHECK_INT(short_attention_longest(5, 4, 100), 3);
    CHECK_INT(short_attention_longest(1024, 1024, 4096), 128);
    CHECK_INT(short_attention_longest(1, 1, 100), 0);
}

const Test tests_short_attention[] = {
    {"orders_agree", test_orders_agree, 0}, {"grad", test_grad, TEST_DOUBLE},
    {"contracts", test_contracts, 0},       {"batch_mates", test_batch_mates, 0},
    {"threads", test_threads, 0},           {"nan_shows", test_nan_shows, 0},
    {"longest", test_longest, 0},           {0}};
