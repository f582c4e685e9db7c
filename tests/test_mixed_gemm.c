#include "mixed_gemm.h"

#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "arena.h"
#include "cross_entropy.h"
#include "harness.h"
#include "linear.h"
#include "tensors.h"

static const Precision kinds[] = {PRECISION_BF16, PRECISION_FP16};
enum { KINDS = 2, THREADS = 4 };

typedef struct Case {
    size_t m, n, k, lda, ldb, ldc;
    Trans trans_a, trans_b;
    real beta;
    real *a, *b, *before, *c;
} Case;

static Case case_new(size_t m, size_t n, size_t k, Trans trans_a, Trans trans_b, real beta,
                     size_t gap) {
    Case t = {.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .beta = beta};
    t.lda = (trans_a == TRANS ? m : k) + gap;
    t.ldb = (trans_b == TRANS ? k : n) + 2 * gap;
    t.ldc = n + 3 * gap;
    t.a = tensor_normal((trans_a == TRANS ? k : m) * t.lda, 1);
    t.b = tensor_normal((trans_b == TRANS ? n : k) * t.ldb, 1);
    t.before = tensor_normal(m * t.ldc, 1);
    if (beta == 0)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++) t.before[i * t.ldc + j] = (real)NAN;
    t.c = tensor_normal(m * t.ldc, 1);
    memcpy(t.c, t.before, m * t.ldc * sizeof *t.c);
    return t;
}

static void case_free(Case *t) {
    free(t->a);
    free(t->b);
    free(t->before);
    free(t->c);
}

/* Scratch of the kind; ends the test where this machine has no such products. */
static Mixed mixed_new(Precision precision) {
    Err err = {0};
    if (!mixed_check(precision, &err)) test_skip("%s", err.msg);
    Mixed mixed = {.precision = precision, .threads = THREADS};
    mixed.packed = aligned_alloc(ARENA_ALIGN, THREADS * mixed_scratch_bytes());
    REQUIRE(mixed.packed);
    return mixed;
}

static void run(const Case *t, const Mixed *mixed) {
    memcpy(t->c, t->before, t->m * t->ldc * sizeof *t->c);
    mixed_gemm(t->c, t->ldc, t->trans_a, t->a, t->lda, t->trans_b, t->b, t->ldb, t->m, t->n, t->k,
               t->beta, mixed);
}

static size_t at_a(const Case *t, size_t i, size_t l) {
    return t->trans_a == TRANS ? l * t->lda + i : i * t->lda + l;
}

static size_t at_b(const Case *t, size_t l, size_t j) {
    return t->trans_b == TRANS ? j * t->ldb + l : l * t->ldb + j;
}

/* Half the distance of 1 and the next number, which is what rounding can change of it. */
static double unit(Precision precision) {
    return precision == PRECISION_BF16 ? 1.0 / 256 : 1.0 / 2048;
}

/* Against a plain loop in double.  Each element: two rounded factors, u each, and the sums: in
 * float, k + 2 of 2^-24; in fp16 besides, chains of at most MIXED_CHAIN additions of u each, of
 * partial sums that are at most all of the chain's terms. */
static void check_bound(const Case *t, Precision precision) {
    double u = unit(precision), size = 0, error = 0;
    double chain = precision == PRECISION_FP16 ? (t->k < MIXED_CHAIN ? t->k : MIXED_CHAIN) * u : 0;
    double bound = 2 * u + u * u + chain + 2 * (double)(t->k + 2) * 0x1p-24;
    for (size_t i = 0; i < t->m; i++) {
        for (size_t j = 0; j < t->n; j++) {
            double kept = t->beta == 0 ? 0 : (double)t->before[i * t->ldc + j];
            double sum = 0, absolute = 0, square = 0, got = (double)t->c[i * t->ldc + j];
            for (size_t l = 0; l < t->k; l++) {
                double term = (double)t->a[at_a(t, i, l)] * (double)t->b[at_b(t, l, j)];
                sum += term;
                absolute += fabs(term);
                square += term * term;
            }
            if (!CHECK_MSG(fabs(got - kept - sum) <= bound * absolute + fabs(kept) * 0x1p-23,
                           "kind %d, %zu x %zu x %zu, trans %d %d: c[%zu][%zu] = %g, want %g",
                           precision, t->m, t->n, t->k, t->trans_a, t->trans_b, i, j, got,
                           kept + sum))
                return;
            error += (got - kept - sum) * (got - kept - sum);
            size += square;
        }
        for (size_t j = t->n; j < t->ldc; j++)
            if (!CHECK(t->c[i * t->ldc + j] == t->before[i * t->ldc + j])) return;
    }
    /* the errors are independent, so that their sum is far below the bound.  Measured over many
     * elements: 0.0021 of the root of the sum of squares in bf16, 0.0013 in fp16 */
    if (t->m * t->n >= 400 && t->k >= 16)
        CHECK_MSG(sqrt(error / size) <= (precision == PRECISION_BF16 ? 0.003 : 0.002),
                  "kind %d, %zu x %zu x %zu: error %g", precision, t->m, t->n, t->k,
                  sqrt(error / size));
}

static void check_sizes(Precision precision) {
    /* around the panels' 14 rows and 32 or 64 columns, the chain of 64 and the blocks' edges */
    static const size_t sizes[][3] = {{1, 1, 1},    {2, 3, 5},     {13, 31, 63},  {14, 32, 64},
                                      {15, 33, 65}, {29, 63, 2},   {28, 64, 16},  {30, 65, 129},
                                      {1, 70, 17},  {70, 1, 33},   {41, 47, 769}, {590, 9, 31},
                                      {9, 1030, 3}, {5, 17, 1600}, {200, 210, 96}};
    Mixed mixed = mixed_new(precision);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int form = 0; form < 8; form++) {
            Case t = case_new(sizes[s][0], sizes[s][1], sizes[s][2], form & 1 ? TRANS : NO_TRANS,
                              form & 2 ? TRANS : NO_TRANS, form & 4 ? 1 : 0, s % 2 * 3);
            run(&t, &mixed);
            check_bound(&t, precision);
            case_free(&t);
        }
    }
    free(mixed.packed);
}

static void test_sizes_bf16(void) {
    check_sizes(PRECISION_BF16);
}

static void test_sizes_fp16(void) {
    check_sizes(PRECISION_FP16);
}

static void scale(real *x, size_t count, double factor) {
    for (size_t i = 0; i < count; i++) x[i] = (real)((double)x[i] * factor);
}

/* The range of float: gradients of 1e-12 and sums of 1e12 are as exact as ones. */
static void test_range(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        Mixed mixed = mixed_new(kinds[kind]);
        for (int power = -80; power <= 80; power += 40) {
            Case t = case_new(30, 70, 200, NO_TRANS, TRANS, 0, 0);
            run(&t, &mixed);
            real *plain = tensor_normal(30 * 70, 1);
            memcpy(plain, t.c, 30 * 70 * sizeof *plain);
            scale(t.a, 30 * 200, ldexp(1, power));
            scale(t.b, 70 * 200, ldexp(1, -power / 2));
            run(&t, &mixed);
            scale(t.c, 30 * 70, ldexp(1, -power + power / 2));
            CHECK(!memcmp(plain, t.c, 30 * 70 * sizeof *plain));
            free(plain);
            case_free(&t);
        }
        free(mixed.packed);
    }
}

/* The largest sums that a chain of scaled factors can have, all products being of one sign. */
static void test_largest_sums(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        Mixed mixed = mixed_new(kinds[kind]);
        Case t = case_new(28, 64, 2 * MIXED_CHAIN, NO_TRANS, NO_TRANS, 0, 0);
        for (size_t i = 0; i < t.m * t.k; i++) t.a[i] = (real)(0x1.ffffp0 * 0x1p-40);
        for (size_t i = 0; i < t.k * t.n; i++) t.b[i] = (real)(-0x1.ffffp0 * 0x1p30);
        run(&t, &mixed);
        check_bound(&t, kinds[kind]);
        case_free(&t);
        free(mixed.packed);
    }
}

/* A row of large numbers beside small ones in a panel: either is exact to its own size. */
static void test_rows_of_different_size(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        Mixed mixed = mixed_new(kinds[kind]);
        Case t = case_new(28, 64, 100, NO_TRANS, NO_TRANS, 0, 0);
        for (size_t i = 0; i < 28; i++) scale(t.a + i * t.lda, 100, i % 3 ? 1 : 0x1p-10);
        for (size_t l = 0; l < 100; l++)
            for (size_t j = 0; j < 64; j += 2) t.b[l * t.ldb + j] *= (real)0x1p-8;
        run(&t, &mixed);
        check_bound(&t, kinds[kind]);
        case_free(&t);
        free(mixed.packed);
    }
}

/* Down to 2^-17 of its panel's largest number a number has all its bits, down to 2^-28 it counts,
 * whichever factor it is of; products likewise down to 2^-21 and 2^-32 of the two largest. */
static void test_small_numbers_of_a_panel(void) {
    static const struct {
        int a, b; /* powers of two */
        double most;
    } cases[] = {{-17, 0, 0x1p-10}, {0, -17, 0x1p-10},  {-28, 0, 0.999},
                 {0, -28, 0.999},   {-10, -11, 0x1p-9}, {-16, -16, 0.999}};
    Mixed mixed = mixed_new(PRECISION_FP16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int largest = 0; largest < 2; largest++) {
            Case t = case_new(2, 2, 1, NO_TRANS, NO_TRANS, 0, 0);
            double one = largest ? 1.999 : 1;
            t.a[0] = t.b[0] = (real)one;
            t.a[1] = (real)(ldexp(1.2345, cases[i].a) * one);
            t.b[1] = (real)(ldexp(1.2345, cases[i].b) * one);
            if (cases[i].a == 0) t.a[1] = t.a[0];
            if (cases[i].b == 0) t.b[1] = t.b[0];
            run(&t, &mixed);
            double want = (double)t.a[1] * (double)t.b[1];
            CHECK_MSG(fabs((double)t.c[3] / want - 1) <= cases[i].most, "2^%d, 2^%d: %g of %g",
                      cases[i].a, cases[i].b, (double)t.c[3], want);
            case_free(&t);
        }
    }
    free(mixed.packed);
}

/* Chains of very different size: each is exact to its own, also where a panel lies across k. */
static void test_chains_of_different_size(void) {
    enum { M = 20, N = 70, CHAINS = 3, K = CHAINS * MIXED_CHAIN - 5 };
    static const double sizes[CHAINS] = {1, 0x1p-45, 0x1p+40};
    Mixed mixed = mixed_new(PRECISION_FP16);
    for (int trans = 0; trans < 2; trans++) {
        Case t = case_new(M, N, K, trans ? TRANS : NO_TRANS, trans ? TRANS : NO_TRANS, 0, 0);
        for (size_t l = 0; l < K; l++) {
            double size = sizes[l / MIXED_CHAIN]; /* of a; b has its inverse */
            for (size_t i = 0; i < M; i++) t.a[at_a(&t, i, l)] *= (real)size;
            for (size_t j = 0; j < N; j++) t.b[at_b(&t, l, j)] *= (real)(1 / size);
        }
        run(&t, &mixed);
        check_bound(&t, PRECISION_FP16);
        case_free(&t);
    }
    free(mixed.packed);
}

/* A loss's gradient as a decoder gets it: tiny by the number of masked tokens, and of each row one
 * large element, that of the label, beside thousands down to 1e-12 of it.  Gradients of the tokens
 * that are no label, which have only small ones, are nearly as exact as the others. */
static void test_loss_gradients(void) {
    enum { ROWS = 150, C = 80, V = 2000 };
    for (int kind = 0; kind < KINDS; kind++) {
        Mixed mixed = mixed_new(kinds[kind]);
        real *d = tensor_normal(ROWS * V, 4), *x = tensor_normal(ROWS * C, 1),
             *w = tensor_normal(V * C, 0.05), *loss = tensor_filled(ROWS, 0);
        real *d_x = tensor_filled(ROWS * C, 0), *d_w = tensor_filled(V * C, 0),
             *want_x = tensor_filled(ROWS * C, 0), *want_w = tensor_filled(V * C, 0);
        uint32_t labels[ROWS];
        bool is_label[V] = {false};
        for (size_t r = 0; r < ROWS; r++) {
            labels[r] = (uint32_t)(r * r % V);
            is_label[labels[r]] = true;
            d[r * V + labels[r]] += (real)(r % 20); /* from surprised to sure */
        }
        cross_entropy(loss, d, labels, ROWS, V, (real)(1 / 40000.0));
        linear_backward(want_x, want_w, NULL, d, x, w, ROWS, C, V, 0, NULL);
        linear_backward(d_x, d_w, NULL, d, x, w, ROWS, C, V, 0, &mixed);
        double worst_label = 0, worst_other = 0;
        for (size_t v = 0; v < V; v++) {
            double error = tensor_distance(d_w + v * C, want_w + v * C, C);
            double *worst = is_label[v] ? &worst_label : &worst_other;
            if (!(error <= *worst)) *worst = error;
        }
        double of_x = tensor_distance(d_x, want_x, ROWS * C);
        /* measured: 0.0023, 0.0039 and 0.0045 in bf16, 0.0005, 0.0011 and 0.0015 in fp16 */
        double most = kinds[kind] == PRECISION_BF16 ? 0.006 : 0.002;
        CHECK_MSG(of_x <= most / 2 && worst_label <= most && worst_other <= 1.5 * most,
                  "kind %d: %g of x, %g of labels, %g of other tokens", kinds[kind], of_x,
                  worst_label, worst_other);
        tensors_free();
        free(mixed.packed);
    }
}

/* What is not finite stays so and stays in its row or column. */
static void test_nonfinite(void) {
    for (int kind = 0; kind < KINDS; kind++) {
        Mixed mixed = mixed_new(kinds[kind]);
        Case t = case_new(17, 40, 30, NO_TRANS, NO_TRANS, 0, 0);
        t.a[3 * t.lda + 7] = (real)NAN;
        t.a[5 * t.lda + 2] = (real)INFINITY;
        t.b[4 * t.ldb + 33] = (real)-INFINITY;
        run(&t, &mixed);
        for (size_t i = 0; i < 17; i++) {
            for (size_t j = 0; j < 40; j++) {
                real c = t.c[i * t.ldc + j];
                if (i == 3)
                    CHECK(isnan(c));
                else if (i == 5 && j != 33)
                    CHECK(isinf(c) && (c > 0) == (t.b[2 * t.ldb + j] > 0));
                else if (j == 33)
                    CHECK(!isfinite(c));
                else
                    CHECK(isfinite(c));
            }
        }
        case_free(&t);
        free(mixed.packed);
    }
}

/* Whatever the number of threads, and from within a region, where each has its own scratch. */
static void test_threads(void) {
#ifdef _OPENMP
    for (int kind = 0; kind < KINDS; kind++) {
        Mixed mixed = mixed_new(kinds[kind]);
        Case t[THREADS];
        for (int i = 0; i < THREADS; i++) t[i] = case_new(150, 170, 90, TRANS, NO_TRANS, 1, 0);
        for (int threads = 1; threads <= THREADS; threads++) {
            omp_set_num_threads(threads);
            run(&t[0], &mixed);
            check_bound(&t[0], kinds[kind]);
        }
#pragma omp parallel for num_threads(THREADS) schedule(static)
        for (int i = 0; i < THREADS; i++) run(&t[i], &mixed);
        for (int i = 0; i < THREADS; i++) {
            check_bound(&t[i], kinds[kind]);
            case_free(&t[i]);
        }
        free(mixed.packed);
    }
#else
    test_skip("without OpenMP");
#endif
}

static void test_fp32_is_gemm(void) {
    Case t = case_new(20, 30, 40, NO_TRANS, TRANS, 1, 2);
    Mixed fp32 = {.precision = PRECISION_FP32};
    real *want = tensor_normal(t.m * t.ldc, 1);
    memcpy(want, t.before, t.m * t.ldc * sizeof *want);
    gemm(want, t.ldc, NO_TRANS, t.a, t.lda, TRANS, t.b, t.ldb, t.m, t.n, t.k, 1, 1);
    run(&t, &fp32);
    CHECK(!memcmp(want, t.c, t.m * t.ldc * sizeof *want));
    run(&t, NULL);
    CHECK(!memcmp(want, t.c, t.m * t.ldc * sizeof *want));
    free(want);
    case_free(&t);
}

/* Without a k, c is cleared or left. */
static void test_no_depth(void) {
    for (int beta = 0; beta < 2; beta++) {
        Mixed mixed = mixed_new(PRECISION_FP16);
        Case t = case_new(3, 4, 0, NO_TRANS, NO_TRANS, (real)beta, 0);
        run(&t, &mixed);
        for (size_t i = 0; i < 12; i++) CHECK(t.c[i] == (beta ? t.before[i] : 0));
        case_free(&t);
        free(mixed.packed);
    }
}

static void test_check_says_why(void) {
    CHECK(mixed_check(PRECISION_FP32, NULL));
    for (int kind = 0; kind < KINDS; kind++) {
        Err err = {0};
        if (mixed_check(kinds[kind], &err)) continue;
        CHECK_INT(err.code, ERR_CONFIG);
        CHECK_STR_CONTAINS(err.msg,
                           kind == 0 ? "train.precision = bf16" : "train.precision = fp16");
    }
#ifdef REAL_IS_DOUBLE
    Err err = {0};
    CHECK(!mixed_check(PRECISION_FP16, &err));
    CHECK_STR_CONTAINS(err.msg, "float64");
#endif
}

const Test tests_mixed_gemm[] = {
    {"sizes_bf16", test_sizes_bf16, TEST_FLOAT},
    {"sizes_fp16", test_sizes_fp16, TEST_FLOAT},
    {"range", test_range, TEST_FLOAT},
    {"largest_sums", test_largest_sums, TEST_FLOAT},
    {"small_numbers_of_a_panel", test_small_numbers_of_a_panel, TEST_FLOAT},
    {"chains_of_different_size", test_chains_of_different_size, TEST_FLOAT},
    {"loss_gradients", test_loss_gradients, TEST_FLOAT},
    {"rows_of_different_size", test_rows_of_different_size, TEST_FLOAT},
    {"nonfinite", test_nonfinite, TEST_FLOAT},
    {"threads", test_threads, TEST_FLOAT},
    {"fp32_is_gemm", test_fp32_is_gemm, TEST_ALWAYS},
    {"no_depth", test_no_depth, TEST_FLOAT},
    {"check_says_why", test_check_says_why, TEST_ALWAYS},
    {0},
};
