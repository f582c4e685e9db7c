#include "gemm.h"

#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "harness.h"
#include "rng.h"
#include "tensors.h"
#include "threads.h"

typedef struct Case {
    size_t m, n, k, lda, ldb, ldc;
    Trans trans_a, trans_b;
    real alpha, beta;
    real *a, *b, *c;
} Case;

static Case case_new(size_t m, size_t n, size_t k, Trans trans_a, Trans trans_b, real alpha,
                     real beta, size_t gap) {
    Case t = {m,
              n,
              k,
              (trans_a == TRANS ? m : k) + gap,
              (trans_b == TRANS ? k : n) + 2 * gap,
              n + 3 * gap,
              trans_a,
              trans_b,
              alpha,
              beta,
              NULL,
              NULL,
              NULL};
    t.a = tensor_normal((trans_a == TRANS ? k : m) * t.lda, 1);
    t.b = tensor_normal((trans_b == TRANS ? n : k) * t.ldb, 1);
    t.c = tensor_normal(m * t.ldc, 1);
    return t;
}

static void run(const Case *t, real *c) {
    gemm(c, t->ldc, t->trans_a, t->a, t->lda, t->trans_b, t->b, t->ldb, t->m, t->n, t->k, t->alpha,
         t->beta);
}

static double element_a(const Case *t, size_t i, size_t l) {
    return (double)(t->trans_a == TRANS ? t->a[l * t->lda + i] : t->a[i * t->lda + l]);
}

static double element_b(const Case *t, size_t l, size_t j) {
    return (double)(t->trans_b == TRANS ? t->b[j * t->ldb + l] : t->b[l * t->ldb + j]);
}

/* Against a plain loop in double, with the bound of any order of summation: k u sum |a||b| with u =
 * epsilon / 2, one u more for each of alpha and beta, and a factor 2.  Elements between n and ldc
 * must not be touched. */
static bool within_bound(const Case *t, const real *before, const real *c) {
    double u = (double)REAL_EPSILON / 2;
    for (size_t i = 0; i < t->m; i++) {
        for (size_t j = 0; j < t->n; j++) {
            double sum = 0, size = 0,
                   kept = t->beta == 0 ? 0 : (double)t->beta * (double)before[i * t->ldc + j];
            for (size_t l = 0; l < t->k; l++) {
                double term = element_a(t, i, l) * element_b(t, l, j);
                sum += term;
                size += fabs(term);
            }
            double want = (double)t->alpha * sum + kept;
            double bound =
                2 * (double)(t->k + 3) * u * (fabs((double)t->alpha) * size + fabs(kept));
            if (!CHECK_MSG(
                    fabs((double)c[i * t->ldc + j] - want) <= bound,
                    "m %zu n %zu k %zu trans %d %d: c[%zu][%zu] = %.9g, want %.9g, bound %.3g",
                    t->m, t->n, t->k, t->trans_a, t->trans_b, i, j, (double)c[i * t->ldc + j], want,
                    bound)) {
                return false;
            }
        }
        for (size_t j = t->n; j < t->ldc; j++) {
            if (!CHECK(c[i * t->ldc + j] == before[i * t->ldc + j])) return false;
        }
    }
    return true;
}

static void check_case(Case t) {
    if (t.beta == 0) {
        for (size_t i = 0; i < t.m; i++) {
            for (size_t j = 0; j < t.n; j++) t.c[i * t.ldc + j] = (real)NAN;
        }
    }
    real *c = tensor_copy(t.c, t.m * t.ldc);
    run(&t, c);
    within_bound(&t, t.c, c);
    tensors_free();
}

/* The reference is slow: large products try one beta a form. */
static void check_all_forms(size_t m, size_t n, size_t k, size_t gap) {
    const real betas[] = {0, 1, (real)-0.75};
    bool large = m * n * k > 1000000;
    for (size_t form = 0; form < 4; form++) {
        for (size_t i = 0; i < 3; i++) {
            if (large && i != form % 3) continue;
            check_case(case_new(m, n, k, form & 1 ? TRANS : NO_TRANS, form & 2 ? TRANS : NO_TRANS,
                                i == 1 ? 1 : (real)0.6, betas[i], gap));
        }
    }
}

static void test_random_shapes(void) {
    threads_set(2);
    uint64_t key = rng_key(test_seed(), RNG_TEST, 2000, 0);
    for (size_t i = 0; i < 24; i++) {
        check_all_forms(1 + rng_below(key, 4 * i, 70), 1 + rng_below(key, 4 * i + 1, 70),
                        1 + rng_below(key, 4 * i + 2, 90), rng_below(key, 4 * i + 3, 5));
    }
    check_all_forms(1, 1, 1, 0);
    check_all_forms(1, 65, 64, 1);
    check_all_forms(64, 1, 129, 1);
}

/* Products large enough to be split, wide and tall, with tiles that do not divide the sides. */
static void test_split_over_threads(void) {
    for (size_t threads = 1; threads <= 4; threads++) {
        threads_set(threads);
        check_all_forms(301, 67, 103, 3);
        check_all_forms(35, 611, 97, 2);
        check_all_forms(9, 5, 50021, 0); /* fewer rows than threads have tiles */
    }
}

static void test_result_depends_on_thread_count_only(void) {
    Case t = case_new(200, 150, 90, NO_TRANS, TRANS, 1, 0, 0);
    real *again = tensor_copy(t.c, t.m * t.ldc), *alone = tensor_copy(t.c, t.m * t.ldc);
    threads_set(2);
    run(&t, t.c);
    for (int i = 0; i < 20; i++) {
        run(&t, again);
        CHECK_SAME(again, t.c, t.m * t.ldc);
    }
    threads_set(1);
    run(&t, alone);
    CHECK_ARRAY_CLOSE(alone, t.c, t.m * t.ldc, 90 * (double)REAL_EPSILON);
    tensors_free();
}

static void test_inside_a_region(void) {
    enum { CALLS = 16 };
    Case t[CALLS];
    real *c[CALLS];
    for (size_t i = 0; i < CALLS; i++) {
        t[i] = case_new(130, 129 + i, 128, NO_TRANS, i % 2 ? TRANS : NO_TRANS, 1, 1, i % 3);
        c[i] = tensor_copy(t[i].c, t[i].m * t[i].ldc);
    }
    threads_set(3);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < CALLS; i++) run(&t[i], c[i]);
    for (size_t i = 0; i < CALLS; i++) within_bound(&t[i], t[i].c, c[i]);
    tensors_free();
}

static void test_empty(void) {
    threads_set(2);
    real c[6] = {1, 2, 3, 4, 5, 6}, a[1] = {0}, b[3] = {0};
    gemm(c, 3, NO_TRANS, a, 1, NO_TRANS, b, 3, 2, 3, 0, 1, 2); /* no terms: c is scaled */
    for (int i = 0; i < 6; i++) CHECK_CLOSE((double)c[i], 2 * (i + 1), 0);
    gemm(c, 3, NO_TRANS, a, 1, NO_TRANS, b, 3, 0, 3, 1, 1, 0);
    gemm(c, 3, NO_TRANS, a, 1, NO_TRANS, b, 3, 2, 0, 1, 1, 0);
    for (int i = 0; i < 6; i++) CHECK_CLOSE((double)c[i], 2 * (i + 1), 0);
}

/* A product on the calling thread must leave the thread count as it found it. */
static void test_keeps_thread_count(void) {
    size_t count = threads_set(2);
    Case t = case_new(20, 20, 20, NO_TRANS, NO_TRANS, 1, 0, 0);
    run(&t, t.c);
#ifdef _OPENMP
    CHECK_INT(omp_get_max_threads(), count);
#endif
    CHECK(count >= 1);
    tensors_free();
}

const Test tests_gemm[] = {
    {"random_shapes", test_random_shapes, 0},
    {"split_over_threads", test_split_over_threads, 0},
    {"result_depends_on_thread_count_only", test_result_depends_on_thread_count_only, 0},
    {"inside_a_region", test_inside_a_region, 0},
    {"empty", test_empty, 0},
    {"keeps_thread_count", test_keeps_thread_count, 0},
    {0}};
