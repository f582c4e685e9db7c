#include "pool_project.h"

#include "gradcheck.h"
#include "harness.h"
#include "rng.h"
#include "seq_project.h"
#include "tensors.h"
#include "threads.h"

typedef enum Kind { MEAN, MAX, CONV, CONV_HEADS, KINDS } Kind;

/* Sizes of a case; the taps of the heads lie `gap` elements apart, as when a layer uses the first
 * of more. */
typedef struct Case {
    Kind kind;
    PoolShape shape;
    size_t H, total, rows, stride, weights;
    size_t *start, *row_start;
    real *x, *taps, *y, *r;
} Case;

static Case case_new(Kind kind, const size_t *lengths, size_t B, size_t P, size_t N, size_t C,
                     size_t H, size_t gap) {
    Case t = {.kind = kind, .H = H, .start = tensor_starts(lengths, B)};
    size_t *rows = tensors_take(B, sizeof *rows), set = pool_taps(P, N) * (C / H) + gap;
    for (size_t b = 0; b < B; b++) rows[b] = pool_rows(lengths[b], P, N);
    t.row_start = tensor_starts(rows, B);
    t.total = t.start[B];
    t.rows = t.row_start[B];
    t.stride = kind == CONV_HEADS ? set : 0;
    t.weights = kind == CONV_HEADS ? H * set : set;
    t.shape = (PoolShape){B, P, N, C, t.start, t.row_start};
    t.x = tensor_normal(t.total * C, 1);
    t.taps = tensor_normal(t.weights, 1);
    t.y = tensor_filled(t.rows * C, NAN);
    t.r = tensor_normal(t.rows * C, 1);
    return t;
}

static void forward(Case *t) {
    if (t->kind == MEAN)
        pool_mean_forward(t->y, t->x, &t->shape);
    else if (t->kind == MAX)
        pool_max_forward(t->y, t->x, &t->shape);
    else
        pool_conv_forward(t->y, t->x, t->taps, t->stride, t->H, &t->shape);
}

/* After forward.  d_x is added to by the mean, else overwritten. */
static void backward(const Case *t, real *d_x, real *d_taps) {
    if (t->kind == MEAN)
        pool_mean_backward(d_x, t->r, &t->shape);
    else if (t->kind == MAX)
        pool_max_backward(d_x, t->r, t->x, t->y, &t->shape);
    else
        pool_conv_backward(d_x, d_taps, t->r, t->x, t->taps, t->stride, t->H, &t->shape);
}

/* What d_x may hold before backward. */
static real *new_d_x(const Case *t) {
    return tensor_filled(t->total * t->shape.C, t->kind == MEAN ? 0 : NAN);
}

/* The windows cover the positions in order, none is empty, and the widest has pool_taps; rows are
 * those of the windows before T. */
static void test_windows(void) {
    for (size_t N = 1; N <= 40; N++) {
        for (size_t P = 1; P <= N; P++) {
            size_t widest = 0;
            for (size_t r = 0; r < P; r++) {
                size_t width = (r + 1) * N / P - r * N / P;
                CHECK(width >= N / P);
                if (width > widest) widest = width;
            }
            CHECK_INT(pool_taps(P, N), widest);
            for (size_t T = 1; T <= N; T++) {
                size_t rows = 0;
                for (size_t r = 0; r < P; r++) rows += r * N / P < T;
                CHECK_INT(pool_rows(T, P, N), rows);
            }
        }
    }
    CHECK_INT(pool_rows(25, 128, 512), 7);
    CHECK_INT(pool_taps(128, 512), 4);
}

/* n = 5 in 2 windows, of 2 and 3 positions; 4 tokens, so that one position of the second is
 * without.  Two columns of one head; the second has equal largest values in both windows. */
static void test_by_hand(void) {
    const size_t start[] = {0, 4}, row_start[] = {0, 2};
    const PoolShape shape = {1, 2, 5, 2, start, row_start};
    const real x[] = {1, 4, -3, 4, -5, -6, -2, -6}, d_y[] = {10, 20, 30, 40};
    const real taps[] = {2, 3, 5, 7, 1000, 1000};
    const real mean[] = {-1, 4, -3.5, -6}, max[] = {1, 4, -2, -6}, conv[] = {-13, 40, -20, -60};
    const real mean_d_x[] = {5, 10, 5, 10, 15, 20, 15, 20};
    const real max_d_x[] = {10, 20, 0, 0, 0, 40, 30, 0};
    const real conv_d_x[] = {20, 60, 50, 140, 60, 120, 150, 280};
    const real conv_d_taps[] = {10 - 150, 80 - 240, -30 - 60, 80 - 240, 0, 0};
    real y[4], d_x[8], d_taps[6] = {0};
    pool_mean_forward(y, x, &shape);
    CHECK_SAME(y, mean, 4);
    memset(d_x, 0, sizeof d_x);
    pool_mean_backward(d_x, d_y, &shape);
    CHECK_SAME(d_x, mean_d_x, 8);
    pool_max_forward(y, x, &shape);
    CHECK_SAME(y, max, 4);
    pool_max_backward(d_x, d_y, x, y, &shape);
    CHECK_SAME(d_x, max_d_x, 8);
    pool_conv_forward(y, x, taps, 0, 1, &shape);
    CHECK_SAME(y, conv, 4);
    pool_conv_backward(d_x, d_taps, d_y, x, taps, 0, 1, &shape);
    CHECK_SAME(d_x, conv_d_x, 8);
    CHECK_SAME(d_taps, conv_d_taps, 6);
}

static double loss(void *ctx) {
    Case *t = ctx;
    forward(t);
    return tensor_dot(t->y, t->r, t->rows * t->shape.C);
}

/* No two values nearer than a step of the differences can bridge. */
static void set_apart(real *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = (real)i / 8;
    uint64_t key = rng_key(test_seed(), RNG_TEST, 5, 0);
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = rng_below(key, i, i + 1);
        real kept = x[i];
        x[i] = x[j];
        x[j] = kept;
    }
}

/* T < n, T = 1, T = n; k that divides n and k that doesn't, k = 1 and k = n. */
static void test_grad(void) {
    const size_t lengths[] = {7, 1, 12, 2, 11}, heights[] = {1, 4, 5, 7, 12};
    for (Kind kind = MEAN; kind < KINDS; kind++) {
        for (size_t p = 0; p < 5; p++) {
            Case t = case_new(kind, lengths, 5, heights[p], 12, 15, 3, p % 2 ? 10 : 0);
            real *d_x = new_d_x(&t), *d_taps = tensor_filled(t.weights, 0);
            if (kind == MAX) set_apart(t.x, t.total * 15);
            forward(&t);
            backward(&t, d_x, d_taps);
            GradCheck g = {.loss = loss, .ctx = &t};
            CHECK(grad_close(&g, "x", t.x, d_x, t.total * 15, 1e-7));
            if (kind >= CONV) CHECK(grad_close(&g, "taps", t.taps, d_taps, t.weights, 1e-7));
            tensors_free();
        }
    }
}

/* By positions instead of windows: the window of a position is the last that begins at or before
 * it. */
static void reference(const Case *t, double *y, double *d_x, double *d_taps) {
    const PoolShape *s = &t->shape;
    size_t D = s->C / t->H;
    for (size_t b = 0; b < s->B; b++) {
        size_t T = t->start[b + 1] - t->start[b];
        for (size_t c = 0; c < s->C; c++) {
            for (size_t r = 0, first = 0; first < T; r++) {
                size_t end = first + 1, best = first, at = (t->row_start[b] + r) * s->C + c;
                while (end < T && end < (r + 1) * s->N / s->P) end++;
                const real *x = t->x + t->start[b] * s->C + c;
                for (size_t i = first; i < end; i++)
                    if (x[i * s->C] > x[best * s->C]) best = i;
                for (size_t i = first; i < end; i++) {
                    size_t tap = c / D * t->stride + (i - first) * D + c % D;
                    double weight = t->kind == MEAN  ? 1 / (double)(end - first)
                                    : t->kind == MAX ? i == best
                                                     : (double)t->taps[tap];
                    y[at] += weight * (double)x[i * s->C];
                    d_x[(t->start[b] + i) * s->C + c] = weight * (double)t->r[at];
                    if (t->kind >= CONV) d_taps[tap] += (double)t->r[at] * (double)x[i * s->C];
                }
                first = end;
            }
        }
    }
}

static void check_values(Case t) {
    size_t C = t.shape.C;
    double *y = tensors_take(t.rows * C, sizeof *y), *x = tensors_take(t.total * C, sizeof *x);
    double *taps = tensors_take(t.weights, sizeof *taps);
    real *d_x = new_d_x(&t), *d_taps = tensor_filled(t.weights, 0);
    reference(&t, y, x, taps);
    forward(&t);
    backward(&t, d_x, d_taps);
    CHECK_TENSOR(t.y, y, t.rows * C, KERNEL_TOL);
    CHECK_TENSOR(d_x, x, t.total * C, KERNEL_TOL);
    if (t.kind >= CONV) CHECK_TENSOR(d_taps, taps, t.weights, KERNEL_TOL);
    tensors_free();
}

/* Ragged, one sequence and several, heads wider than a block of columns, 1 to 3 threads. */
static void test_values(void) {
    const size_t ragged[] = {1, 2, 15, 16, 17, 61}, one[] = {450}, pair[] = {131, 200};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        for (Kind kind = MEAN; kind < KINDS; kind++) {
            check_values(case_new(kind, ragged, 6, 16, 61, 24, 3, 7));
            check_values(case_new(kind, one, 1, 129, 500, 150, 2, 0));
            check_values(case_new(kind, pair, 2, 64, 256, 320, 4, 3));
        }
    }
}

/* d_taps is added to and d_x of the mean too, the other d_x are overwritten; taps that no window of
 * the batch is wide enough for, and what lies between the heads', stay as they were. */
static void test_contracts(void) {
    const size_t lengths[] = {7, 2, 3};
    for (Kind kind = MEAN; kind < KINDS; kind++) {
        Case t = case_new(kind, lengths, 3, 2, 20, 15, 3, 9);
        size_t count = t.total * 15;
        real *d_x = new_d_x(&t), *d_taps = tensor_filled(t.weights, 0);
        real *x2 = tensor_filled(count, 10), *taps2 = tensor_filled(t.weights, 20);
        forward(&t);
        backward(&t, d_x, d_taps);
        backward(&t, x2, taps2);
        for (size_t i = 0; i < count; i++)
            CHECK_CLOSE((double)x2[i], (kind == MEAN ? 10 : 0) + (double)d_x[i], 1e-5);
        for (size_t i = 0; i < t.weights; i++) {
            bool is_read = kind >= CONV && i % (10 * 5 + 9) < 7 * 5;
            CHECK_CLOSE((double)taps2[i], 20 + (double)d_taps[i], 1e-5);
            CHECK((d_taps[i] != 0) == is_read);
        }
        tensors_free();
    }
}

/* A sequence among others gives the bits it gives alone, and so does another thread count. */
static void test_batch_mates(void) {
    const size_t lengths[] = {40, 3, 510, 1};
    for (Kind kind = MEAN; kind < KINDS; kind++) {
        Case t = case_new(kind, lengths, 4, 100, 512, 128, 2, 0);
        real *d_x[3], *d_taps[3], *y = tensor_filled(t.rows * 128, NAN);
        for (size_t threads = 1; threads <= 3; threads++) {
            threads_set(threads);
            forward(&t);
            backward(&t, d_x[threads - 1] = new_d_x(&t),
                     d_taps[threads - 1] = tensor_filled(t.weights, 0));
            if (threads == 1) memcpy(y, t.y, t.rows * 128 * sizeof *y);
            CHECK_SAME(t.y, y, t.rows * 128);
            CHECK_SAME(d_x[threads - 1], d_x[0], t.total * 128);
            CHECK_SAME(d_taps[threads - 1], d_taps[0], t.weights);
        }
        for (size_t b = 0; b < 4; b++) {
            size_t start[] = {0, lengths[b]}, rows = t.row_start[b + 1] - t.row_start[b];
            size_t row_start[] = {0, rows};
            Case alone = t;
            alone.shape = (PoolShape){1, 100, 512, 128, start, row_start};
            alone.x = t.x + t.start[b] * 128;
            alone.r = t.r + t.row_start[b] * 128;
            alone.y = tensor_filled(rows * 128, NAN);
            alone.total = lengths[b];
            real *d_alone = new_d_x(&alone);
            forward(&alone);
            backward(&alone, d_alone, tensor_filled(t.weights, 0));
            CHECK_SAME(alone.y, y + t.row_start[b] * 128, rows * 128);
            CHECK_SAME(d_alone, d_x[0] + t.start[b] * 128, lengths[b] * 128);
        }
        tensors_free();
    }
}

/* E (rows,N) of one sequence of T tokens that does the same as a mean, or as a convolution whose
 * taps tap[j] are those of all columns. */
static real *equal_matrix(size_t T, size_t P, size_t N, const real *tap) {
    size_t rows = pool_rows(T, P, N);
    real *e = tensor_filled(rows * N, 0);
    for (size_t r = 0; r < rows; r++) {
        size_t begin = r * N / P, end = (r + 1) * N / P < T ? (r + 1) * N / P : T;
        for (size_t i = begin; i < end; i++)
            e[r * N + i] = tap ? tap[i - begin] : 1 / (real)(end - begin);
    }
    return e;
}

/* A mean is the sequence projection by an averaging matrix, and a convolution with the same taps
 * in all columns one by a banded matrix: results and gradients. */
static void test_equals_a_matrix(void) {
    enum { N = 24, C = 12, D = 4 };
    const size_t heights[] = {1, 6, 7, 24}, lengths[] = {1, 5, 23, 24};
    for (size_t i = 0; i < 16; i++) {
        size_t P = heights[i / 4], T = lengths[i % 4];
        for (Kind kind = MEAN; kind <= CONV_HEADS; kind++) {
            if (kind == MAX) continue;
            Case t = case_new(kind, &T, 1, P, N, C, C / D, 0);
            size_t taps = pool_taps(P, N);
            real *tap = tensor_normal(taps, 1), *d_taps = tensor_filled(t.weights, 0);
            for (size_t j = 0; j < t.weights; j++) t.taps[j] = tap[j / D % taps];
            real *e = equal_matrix(T, P, N, kind == MEAN ? NULL : tap);
            real *y = tensor_filled(t.rows * C, NAN), *d_x = new_d_x(&t),
                 *d_x2 = tensor_filled(T * C, NAN), *d_e = tensor_filled(t.rows * N, 0);
            forward(&t);
            backward(&t, d_x, d_taps);
            seq_project_forward(y, t.x, e, t.rows * N, t.start, 1, 1, t.rows, N, C, 0);
            seq_project_backward(d_x2, d_e, t.r, t.x, e, t.rows * N, t.start, 1, 1, t.rows, N, C, 0,
                                 0);
            CHECK_ARRAY_CLOSE(t.y, y, t.rows * C, KERNEL_TOL);
            CHECK_ARRAY_CLOSE(d_x, d_x2, T * C, KERNEL_TOL);
            for (size_t j = 0; j < taps && kind != MEAN; j++) {
                double sum = 0, wanted = 0; /* of the columns' taps, and of the band */
                for (size_t w = 0; w < t.weights; w++)
                    if (w / D % taps == j) sum += (double)d_taps[w];
                for (size_t r = 0; r < t.rows; r++) {
                    size_t at = r * N / P + j;
                    if (at < (r + 1) * N / P && at < T) wanted += (double)d_e[r * N + at];
                }
                CHECK_CLOSE(sum, wanted, KERNEL_TOL * 50);
            }
            tensors_free();
        }
    }
}

const Test tests_pool_project[] = {{"windows", test_windows, 0},
                                   {"by_hand", test_by_hand, 0},
                                   {"grad", test_grad, TEST_DOUBLE},
                                   {"values", test_values, 0},
                                   {"contracts", test_contracts, 0},
                                   {"batch_mates", test_batch_mates, 0},
                                   {"equals_a_matrix", test_equals_a_matrix, 0},
                                   {0}};
