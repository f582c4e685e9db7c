#include "small_gemm.h"

#include "harness.h"
#include "rng.h"
#include "tensors.h"

typedef struct Case {
    size_t m, n, k, ldc, ldb;
    SmallFactor a;
    real *b, *c;
    real alpha;
    SmallStore store;
} Case;

/* a lies by rows or by columns, in strides wider than its rows by gap. */
static Case case_new(size_t m, size_t n, size_t k, bool transposed, real alpha, SmallStore store,
                     size_t gap) {
    Case t = {.m = m, .n = n, .k = k, .ldc = n + gap, .ldb = n + 2 * gap, .alpha = alpha};
    size_t stride = (transposed ? m : k) + 3 * gap;
    t.store = store;
    t.a.at = tensor_normal((transposed ? k : m) * stride + 1, 1);
    t.a.row = transposed ? 1 : stride;
    t.a.col = transposed ? stride : 1;
    t.b = tensor_normal(k * t.ldb + 1, 1);
    t.c = tensor_normal(m * t.ldc + 1, 1);
    return t;
}

typedef void Product(real *restrict c, size_t ldc, SmallFactor a, const real *restrict b,
                     size_t ldb, size_t m, size_t n, size_t k, real alpha, SmallStore store);

static void run(Product *product, const Case *t, real *c) {
    product(c, t->ldc, t->a, t->b, t->ldb, t->m, t->n, t->k, t->alpha, t->store);
}

/* Against a plain loop in double, with the bound that tests/test_gemm.c explains; what lies between
 * the rows stays as it was. */
static void check_case(Product *product, Case t) {
    if (t.store == SMALL_OVERWRITE) {
        for (size_t i = 0; i < t.m; i++) {
            for (size_t j = 0; j < t.n; j++) t.c[i * t.ldc + j] = (real)NAN;
        }
    }
    real *c = tensor_copy(t.c, t.m * t.ldc + 1);
    run(product, &t, c);
    double u = (double)REAL_EPSILON / 2;
    bool ok = true;
    for (size_t i = 0; i < t.m && ok; i++) {
        for (size_t j = 0; j < t.n && ok; j++) {
            double kept = t.store == SMALL_ADD ? (double)t.c[i * t.ldc + j] : 0, sum = 0, size = 0;
            for (size_t l = 0; l < t.k; l++) {
                double term =
                    (double)t.a.at[i * t.a.row + l * t.a.col] * (double)t.b[l * t.ldb + j];
                sum += term;
                size += fabs(term);
            }
            double want = kept + (double)t.alpha * sum, got = (double)c[i * t.ldc + j];
            double bound = 2 * (double)(t.k + 3) * u * (fabs((double)t.alpha) * size + fabs(kept));
            ok = CHECK_MSG(fabs(got - want) <= bound,
                           "m %zu n %zu k %zu: c[%zu][%zu] = %.9g, want %.9g, bound %.3g", t.m, t.n,
                           t.k, i, j, got, want, bound);
        }
        for (size_t j = t.n; j < t.ldc && ok; j++)
            ok = CHECK(c[i * t.ldc + j] == t.c[i * t.ldc + j]);
    }
    CHECK(c[t.m * t.ldc] == t.c[t.m * t.ldc]);
    tensors_free();
}

static void check_all_forms(size_t m, size_t n, size_t k, size_t gap) {
    for (int form = 0; form < 8; form++) { /* the second function is the first in most builds */
        check_case(form & 4 ? small_gemm : small_gemm_tiles,
                   case_new(m, n, k, form & 1, form % 4 == 0 ? 1 : (real)-0.6,
                            form & 2 ? SMALL_ADD : SMALL_OVERWRITE, gap));
    }
}

/* Every height and width of a tile, and columns that fill no vector. */
static void test_shapes(void) {
    const size_t widths[] = {1, 8, 15, 16, 17, 31, 32, 47, 64, 65, 112, 128, 150};
    for (size_t m = 1; m <= 20; m++) {
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            check_all_forms(m, widths[i], 1 + (m * 5 + i) % 23, i % 3);
    }
    check_all_forms(1, 1, 1, 0);
    check_all_forms(61, 128, 200, 0);
    check_all_forms(5, 33, 0, 1); /* no terms */
}

static void test_random_shapes(void) {
    uint64_t key = rng_key(test_seed(), RNG_TEST, 2100, 0);
    for (size_t i = 0; i < 40; i++) {
        check_all_forms(1 + rng_below(key, 4 * i, 40), 1 + rng_below(key, 4 * i + 1, 150),
                        1 + rng_below(key, 4 * i + 2, 90), rng_below(key, 4 * i + 3, 5));
    }
}

/* An element is the same bits wherever it stands: alone, and among others in whatever tile. */
static void test_places_do_not_matter(void) {
    Case t = case_new(13, 103, 29, false, 1, SMALL_OVERWRITE, 0);
    run(small_gemm_tiles, &t, t.c);
    for (size_t i = 0; i < t.m; i++) {
        for (size_t j = 0; j < t.n; j += 1 + j % 5) {
            real alone;
            SmallFactor row = {t.a.at + i * t.a.row, t.a.row, t.a.col};
            small_gemm_tiles(&alone, 1, row, t.b + j, t.ldb, 1, 1, t.k, 1, SMALL_OVERWRITE);
            CHECK_SAME(&alone, t.c + i * t.ldc + j, 1);
        }
    }
    tensors_free();
}

/* Whole blocks and what is left of them; rows are filled up with zeros, and nothing else is
 * written. */
static void test_transpose(void) {
    const size_t sizes[] = {1, 7, 15, 16, 17, 33, 48};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (size_t i = 0; i < SIZES * SIZES; i++) {
        size_t rows = sizes[i / SIZES], cols = sizes[i % SIZES], stride = cols + i % 3;
        size_t padded = small_gemm_pad(rows), to_stride = padded + i % 2;
        real *from = tensor_normal(rows * stride, 1), *to = tensor_filled(cols * to_stride + 1, 9);
        small_transpose(to, to_stride, from, stride, rows, cols);
        bool ok = true;
        for (size_t at = 0; at < cols * to_stride + 1; at++) {
            size_t c = at / to_stride, r = at % to_stride;
            real wanted = r >= padded || c == cols ? 9 : r < rows ? from[r * stride + c] : 0;
            ok = ok && to[at] == wanted;
        }
        CHECK_MSG(ok, "%zu rows of %zu", rows, cols);
        tensors_free();
    }
}

static void test_pad(void) {
    CHECK_INT(small_gemm_pad(0), 0);
    CHECK_INT(small_gemm_pad(1), SMALL_GEMM_LANES);
    CHECK_INT(small_gemm_pad(SMALL_GEMM_LANES), SMALL_GEMM_LANES);
    CHECK_INT(small_gemm_pad(SMALL_GEMM_LANES + 1), 2 * SMALL_GEMM_LANES);
}

const Test tests_small_gemm[] = {{"shapes", test_shapes, 0},
                                 {"random_shapes", test_random_shapes, 0},
                                 {"places_do_not_matter", test_places_do_not_matter, 0},
                                 {"transpose", test_transpose, 0},
                                 {"pad", test_pad, 0},
                                 {0}};
