#include "seq_project.h"

#include <stdint.h>

#include "gradcheck.h"
#include "harness.h"
#include "linear.h"
#include "tensors.h"
#include "threads.h"

/* Sizes of a case; the matrices lie `gap` elements apart, as when a layer uses the first rows of a
 * taller one. */
typedef struct Case {
    size_t B, G, P, N, C, total, stride;
    size_t *start;
    real *x, *proj, *y, *r;
    bool frozen;
} Case;

static Case case_new(const size_t *lengths, size_t B, size_t G, size_t P, size_t N, size_t C,
                     size_t gap) {
    Case t = {.B = B,
              .G = G,
              .P = P,
              .N = N,
              .C = C,
              .stride = P * N + gap,
              .start = tensor_starts(lengths, B)};
    t.total = t.start[B];
    t.x = tensor_normal(t.total * C, 1);
    t.proj = tensor_normal(G * t.stride, 1);
    t.y = tensor_filled(B * P * C, NAN);
    t.r = tensor_normal(B * P * C, 1);
    return t;
}

static void forward(Case *t) {
    seq_project_forward(t->y, t->x, t->proj, t->stride, t->start, t->B, t->G, t->P, t->N, t->C, 0);
}

static void backward(const Case *t, real *d_x, real *d_proj, int accumulate_x) {
    seq_project_backward(d_x, d_proj, t->r, t->x, t->proj, t->stride, t->start, t->B, t->G, t->P,
                         t->N, t->C, 0, accumulate_x);
}

static double loss(void *ctx) {
    Case *t = ctx;
    forward(t);
    return tensor_dot(t->y, t->r, t->B * t->P * t->C);
}

static const size_t TINY[] = {7, 2, 3};

static void test_grad(void) {
    for (size_t G = 1; G <= 3; G += 2) {
        Case t = case_new(TINY, 3, G, 4, 11, 15, G == 1 ? 0 : 22);
        real *d_x = tensor_filled(t.total * 15, NAN), *d_proj = tensor_filled(G * t.stride, 0);
        backward(&t, d_x, d_proj, 0);
        GradCheck g = {.loss = loss, .ctx = &t};
        CHECK(grad_close(&g, "x", t.x, d_x, t.total * 15, 1e-7));
        CHECK(grad_close(&g, "proj", t.proj, d_proj, G * t.stride, 1e-7));
        tensors_free();
    }
}

static void reference(const Case *t, double *y, double *d_x, double *d_proj) {
    for (size_t b = 0; b < t->B; b++) {
        for (size_t p = 0; p < t->P; p++) {
            for (size_t c = 0; c < t->C; c++) {
                size_t e = c / (t->C / t->G) * t->stride + p * t->N,
                       out = (b * t->P + p) * t->C + c;
                for (size_t row = t->start[b]; row < t->start[b + 1]; row++) {
                    size_t at = e + row - t->start[b];
                    y[out] += (double)t->proj[at] * (double)t->x[row * t->C + c];
                    d_x[row * t->C + c] += (double)t->proj[at] * (double)t->r[out];
                    d_proj[at] += (double)t->x[row * t->C + c] * (double)t->r[out];
                }
            }
        }
    }
}

static void check_values(Case t) {
    double *y = tensors_take(t.B * t.P * t.C, sizeof *y),
           *x = tensors_take(t.total * t.C, sizeof *x);
    double *proj = tensors_take(t.G * t.stride, sizeof *proj);
    real *d_x = tensor_filled(t.total * t.C, NAN), *d_proj = tensor_filled(t.G * t.stride, 0);
    reference(&t, y, x, proj);
    forward(&t);
    backward(&t, d_x, d_proj, 0);
    CHECK_TENSOR(t.y, y, t.B * t.P * t.C, KERNEL_TOL);
    CHECK_TENSOR(d_x, x, t.total * t.C, KERNEL_TOL);
    CHECK_TENSOR(d_proj, proj, t.G * t.stride, KERNEL_TOL);
    tensors_free();
}

/* Lengths around P and N, one sequence and several, matrices shared and per head, 1 to 3 threads.
 */
static void test_values(void) {
    const size_t ragged[] = {1, 2, 15, 16, 17, 61}, one[] = {150}, pair[] = {131, 200};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        check_values(case_new(ragged, 6, 1, 16, 61, 24, 0));
        check_values(case_new(ragged, 6, 3, 16, 61, 24, 61 * 5));
        check_values(
            case_new(one, 1, 1, 129, 200, 192, 0)); /* so few units that columns and rows are cut */
        check_values(case_new(one, 1, 2, 70, 150, 192, 0));
        check_values(case_new(pair, 2, 2, 65, 200, 320, 3));
    }
}

/* <f(u), v> = <u, f^T v> in x and in proj. */
static void test_adjoint(void) {
    Case t = case_new(TINY, 3, 3, 4, 11, 15, 0);
    real *d_x = tensor_filled(t.total * 15, NAN), *d_proj = tensor_filled(3 * t.stride, 0);
    double f = loss(&t);
    backward(&t, d_x, d_proj, 0);
    CHECK_CLOSE(tensor_dot(t.x, d_x, t.total * 15), f, KERNEL_TOL * 100);
    CHECK_CLOSE(tensor_dot(t.proj, d_proj, 3 * t.stride), f, KERNEL_TOL * 100);
    tensors_free();
}

static void test_contracts(void) {
    Case t = case_new(TINY, 3, 3, 4, 11, 15, 9);
    size_t count = t.total * 15, weights = 3 * t.stride;
    real *d_x = tensor_filled(count, NAN), *d_proj = tensor_filled(weights, 0);
    real *x2 = tensor_filled(count, 10), *proj2 = tensor_filled(weights, 20),
         *x3 = tensor_filled(count, NAN);
    real *proj3 = tensor_filled(weights, 0);
    backward(&t, d_x, d_proj, 0);
    backward(&t, x2, proj2, 1);
    for (size_t i = 0; i < count; i++) CHECK_CLOSE((double)x2[i], 10 + (double)d_x[i], 1e-5);
    for (size_t i = 0; i < weights; i++)
        CHECK_CLOSE((double)proj2[i], 20 + (double)d_proj[i], 1e-5);
    backward(&t, x3, NULL, 0);
    CHECK_SAME(x3, d_x, count);
    backward(&t, NULL, proj3, 0);
    CHECK_SAME(proj3, d_proj, weights);
    for (size_t g = 0; g < 3;
         g++) { /* columns past the longest sequence and rows past P stay as they were */
        for (size_t i = 0; i < t.stride; i++) {
            if (i >= 4 * 11 || i % 11 >= 7) CHECK(d_proj[g * t.stride + i] == 0);
        }
    }
    tensors_free();
}

/* A sequence among others gives what it gives alone, and repeated runs give the same bits. */
static void test_batch_mates(void) {
    const size_t lengths[] = {40, 3, 64};
    threads_set(2);
    Case t = case_new(lengths, 3, 2, 32, 64, 128, 0);
    real *d_proj = tensor_filled(2 * t.stride, 0), *again = tensor_filled(2 * t.stride, 0);
    forward(&t);
    backward(&t, NULL, d_proj, 0);
    backward(&t, NULL, again, 0);
    CHECK_SAME(again, d_proj, 2 * t.stride);
    for (size_t b = 0; b < 3; b++) {
        size_t alone[] = {0, lengths[b]};
        real *y = tensor_filled(32 * 128, NAN);
        seq_project_forward(y, t.x + t.start[b] * 128, t.proj, t.stride, alone, 1, 2, 32, 64, 128,
                            0);
        CHECK_ARRAY_CLOSE(y, t.y + b * 32 * 128, 32 * 128, 1e-6);
    }
    tensors_free();
}

/* Compress first, E X W^T + (E 1) b^T, equals projecting the features first, E (X W^T + 1 b^T). */
typedef struct Compress {
    Case seq;
    real *w, *b, *sums, *small, *kp;
} Compress;

static Compress compress_new(const size_t *lengths, size_t B, size_t P, size_t N, size_t C) {
    Compress t = {.seq = case_new(lengths, B, 1, P, N, C, 0)};
    t.w = tensor_normal(C * C, 1);
    t.b = tensor_normal(C, 1);
    t.sums = tensor_filled(B * P, NAN);
    t.kp = tensor_filled(B * P * C, NAN);
    return t;
}

static void compress_forward(Compress *t) {
    Case *s = &t->seq;
    forward(s);
    seq_project_row_sums(t->sums, s->proj, s->start, s->B, s->P, s->N);
    linear_forward(t->kp, s->y, t->w, NULL, s->B * s->P, s->C, s->C, NULL);
    seq_project_bias_forward(t->kp, t->sums, t->b, s->B * s->P, s->C);
}

static void test_compress_first(void) {
    const size_t lengths[] = {1, 13, 40, 64};
    for (size_t threads = 1; threads <= 2; threads++) {
        threads_set(threads);
        Compress t =
            compress_new(lengths, 4, 16, 64, 520); /* 64 rows x 520: shared by the threads */
        Case *s = &t.seq;
        compress_forward(&t);
        real *k = tensor_filled(s->total * s->C, NAN),
             *want = tensor_filled(s->B * s->P * s->C, NAN);
        linear_forward(k, s->x, t.w, t.b, s->total, s->C, s->C, NULL);
        seq_project_forward(want, k, s->proj, s->stride, s->start, s->B, 1, s->P, s->N, s->C, 0);
        CHECK_ARRAY_CLOSE(t.kp, want, s->B * s->P * s->C, KERNEL_TOL);
        tensors_free();
    }
}

static double compress_loss(void *ctx) {
    Compress *t = ctx;
    compress_forward(t);
    return tensor_dot(t->kp, t->seq.r, t->seq.B * t->seq.P * t->seq.C);
}

/* Gradients of the bias and of proj through its row sums: the whole compress-first chain against
 * differences. */
static void test_bias_grad(void) {
    Compress t = compress_new(TINY, 3, 4, 11, 5);
    Case *s = &t.seq;
    real *scratch = tensor_filled(3 * 4, NAN), *d_small = tensor_filled(3 * 4 * 5, NAN),
         *d_w = tensor_filled(5 * 5, 0);
    real *d_b = tensor_filled(5, 0), *d_proj = tensor_filled(s->stride, 0),
         *d_x = tensor_filled(s->total * 5, NAN);
    compress_forward(&t);
    seq_project_bias_backward(d_b, d_proj, s->r, t.sums, t.b, s->start, scratch, 3, 4, 11, 5);
    linear_backward(d_small, d_w, NULL, s->r, s->y, t.w, 3 * 4, 5, 5, 0, NULL);
    seq_project_backward(d_x, d_proj, d_small, s->x, s->proj, s->stride, s->start, 3, 1, 4, 11, 5,
                         0, 0);
    GradCheck g = {.loss = compress_loss, .ctx = &t};
    CHECK(grad_close(&g, "b", t.b, d_b, 5, 1e-7));
    CHECK(grad_close(&g, "proj", s->proj, d_proj, s->stride, 1e-7));
    CHECK(grad_close(&g, "w", t.w, d_w, 5 * 5, 1e-7));
    CHECK(grad_close(&g, "x", s->x, d_x, s->total * 5, 1e-7));
    real *b2 = tensor_filled(5, 30), *proj2 = tensor_filled(s->stride, 20),
         *proj1 = tensor_filled(s->stride, 0);
    real *b3 = tensor_filled(5, 0);
    seq_project_bias_backward(b2, proj2, s->r, t.sums, t.b, s->start, scratch, 3, 4, 11, 5);
    seq_project_bias_backward(b3, NULL, s->r, t.sums, t.b, s->start, scratch, 3, 4, 11, 5);
    seq_project_bias_backward(b3, proj1, s->r, t.sums, t.b, s->start, scratch, 3, 4, 11, 5);
    for (size_t i = 0; i < 5; i++) CHECK_CLOSE((double)b2[i], 30 + (double)d_b[i], 1e-6);
    for (size_t i = 0; i < 5; i++) CHECK_CLOSE((double)b3[i], 2 * (double)d_b[i], 1e-6);
    for (size_t i = 0; i < s->stride; i++)
        CHECK_CLOSE((double)proj2[i], 20 + (double)proj1[i], 1e-6);
    tensors_free();
}

/* At sizes the threads share. */
static void test_bias_values(void) {
    const size_t lengths[] = {300, 17, 512};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        Compress t = compress_new(lengths, 3, 64, 512, 200);
        Case *s = &t.seq;
        seq_project_row_sums(t.sums, s->proj, s->start, 3, 64, 512);
        double *sums = tensors_take(3 * 64, sizeof *sums), *b = tensors_take(200, sizeof *b);
        double *proj = tensors_take(64 * 512, sizeof *proj);
        for (size_t r = 0; r < 3 * 64; r++) {
            double dot = 0;
            for (size_t i = 0; i < lengths[r / 64]; i++)
                sums[r] += (double)s->proj[r % 64 * 512 + i];
            for (size_t c = 0; c < 200; c++) dot += (double)s->r[r * 200 + c] * (double)t.b[c];
            for (size_t i = 0; i < lengths[r / 64]; i++) proj[r % 64 * 512 + i] += dot;
            for (size_t c = 0; c < 200; c++) b[c] += sums[r] * (double)s->r[r * 200 + c];
        }
        CHECK_TENSOR(t.sums, sums, 3 * 64, KERNEL_TOL);
        real *d_b = tensor_filled(200, 0), *d_proj = tensor_filled(64 * 512, 0),
             *scratch = tensor_filled(3 * 64, NAN);
        seq_project_bias_backward(d_b, d_proj, s->r, t.sums, t.b, s->start, scratch, 3, 64, 512,
                                  200);
        CHECK_TENSOR(d_b, b, 200, KERNEL_TOL);
        CHECK_TENSOR(d_proj, proj, 64 * 512, KERNEL_TOL);
        tensors_free();
    }
}

const Test tests_seq_project[] = {{"grad", test_grad, TEST_DOUBLE},
                                  {"values", test_values, 0},
                                  {"adjoint", test_adjoint, 0},
                                  {"contracts", test_contracts, 0},
                                  {"batch_mates", test_batch_mates, 0},
                                  {"compress_first", test_compress_first, 0},
                                  {"bias_grad", test_bias_grad, TEST_DOUBLE},
                                  {"bias_values", test_bias_values, 0},
                                  {0}};
