#include "svd.h"

#include "harness.h"
#include "parallel.h"
#include "rng.h"
#include "tensors.h"
#include "threads.h"

/* Relative to the largest: rounding in double, of sums of up to some hundred terms. */
static const double TOL = 1e-13;

static double *doubles(size_t count) {
    return tensors_take(count, sizeof(double));
}

static double *normal(size_t count, uint64_t key) {
    double *x = doubles(count);
    for (size_t i = 0; i < count; i++) x[i] = rng_normal(rng_key(test_seed(), RNG_TEST, key, 0), i);
    return x;
}

static void multiply(double *c, const double *a, const double *b, size_t m, size_t n, size_t k) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (size_t p = 0; p < k; p++) c[i * n + j] += a[i * k + p] * b[p * n + j];
        }
}

/* Rows made orthonormal one after the other, twice, which leaves rounding only. */
static double *orthonormal_rows(size_t rows, size_t cols, uint64_t key) {
    double *q = normal(rows * cols, key);
    for (size_t r = 0; r < rows; r++) {
        double *row = q + r * cols;
        for (size_t pass = 0; pass < 2; pass++) {
            for (size_t s = 0; s < r; s++) {
                double dot = 0;
                for (size_t c = 0; c < cols; c++) dot += row[c] * q[s * cols + c];
                for (size_t c = 0; c < cols; c++) row[c] -= dot * q[s * cols + c];
            }
            double norm = 0;
            for (size_t c = 0; c < cols; c++) norm += row[c] * row[c];
            for (size_t c = 0; c < cols; c++) row[c] /= sqrt(norm);
        }
    }
    return q;
}

static double *values_of(const double *a, size_t rows, size_t cols) {
    size_t count = rows < cols ? rows : cols;
    double *copy = doubles(rows * cols), *values = doubles(count),
           *scratch = doubles(svd_scratch(rows, cols));
    memcpy(copy, a, rows * cols * sizeof *a);
    CHECK(svd_values(values, copy, rows, cols, scratch));
    return values;
}

static void test_diagonal(void) {
    static const double entries[] = {0, -3, 0.5, 7, 1e-9}, want[] = {7, 3, 0.5, 1e-9, 0};
    double *a = doubles(5 * 8);
    for (size_t i = 0; i < 5; i++) a[i * 8 + i + 2] = entries[i];
    double *values = values_of(a, 5, 8);
    for (size_t i = 0; i < 5; i++) CHECK_CLOSE(values[i], want[i], 7 * 1e-15);
    tensors_free();
}

/* U^T diag(s) V with orthonormal rows in U and V has the singular values s, and none besides. */
static void check_known(size_t rows, size_t cols, size_t rank) {
    size_t count = rows < cols ? rows : cols;
    double *u = orthonormal_rows(rank, rows, 1), *v = orthonormal_rows(rank, cols, 2);
    double *ut = doubles(rows * rank), *a = doubles(rows * cols), *want = doubles(count);
    for (size_t i = 0; i < rank; i++) {
        want[i] = 5 * pow(0.8, (double)i);
        for (size_t r = 0; r < rows; r++) ut[r * rank + i] = u[i * rows + r] * want[i];
    }
    multiply(a, ut, v, rows, cols, rank);
    double *values = values_of(a, rows, cols);
    CHECK_ARRAY_CLOSE(values, want, count, TOL);
    for (size_t i = 1; i < count; i++) CHECK(values[i] <= values[i - 1] && values[i] >= 0);
    tensors_free();
}

static void test_known(void) {
    check_known(1, 1, 1);
    check_known(1, 9, 1);
    check_known(9, 1, 1);
    check_known(6, 6, 6);
    check_known(17, 11, 11);
    check_known(11, 17, 9);
    check_known(90, 7, 7); /* tall: LAPACK takes another way */
    check_known(64, 70, 40);
}

static void test_not_finite(void) {
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    double *scratch = doubles(svd_scratch(3, 4)), values[3];
    for (size_t i = 0; i < 36; i++) {
        double *a = normal(12, 3);
        a[i % 12] = bad[i / 12];
        CHECK_MSG(!svd_values(values, a, 3, 4, scratch), "element %zu is %g", i % 12, bad[i / 12]);
    }
    tensors_free();
}

static void test_lower_factor(void) {
    static const size_t shapes[][2] = {{1, 1}, {1, 7}, {5, 5}, {6, 23}, {70, 90}};
    for (size_t s = 0; s < 5; s++) {
        size_t k = shapes[s][0], n = shapes[s][1], T = 13;
        double *f = normal(k * n, 5), *copy = doubles(k * n), *lower = doubles(k * k);
        double *scratch = doubles(svd_lower_scratch(k, n));
        memcpy(copy, f, k * n * sizeof *f);
        for (size_t i = 0; i < k * k; i++) lower[i] = NAN;
        svd_lower_factor(lower, copy, k, n, scratch);
        for (size_t r = 0; r < k; r++)
            for (size_t c = r + 1; c < k; c++) CHECK(lower[r * k + c] == 0);
        /* f f^T = lower lower^T, since q q^T = 1 */
        double *got = doubles(k * k), *want = doubles(k * k), *transposed = doubles(k * n);
        for (size_t r = 0; r < k; r++)
            for (size_t c = 0; c < n; c++) transposed[c * k + r] = f[r * n + c];
        multiply(want, f, transposed, k, k, n);
        for (size_t r = 0; r < k; r++)
            for (size_t c = 0; c < k; c++) transposed[c * k + r] = lower[r * k + c];
        multiply(got, lower, transposed, k, k, k);
        CHECK_ARRAY_CLOSE(got, want, k * k, TOL);

        /* x f and x lower have the same singular values */
        double *x = normal(T * k, 6), *product = doubles(T * n);
        multiply(product, x, f, T, n, k);
        double *whole = values_of(product, T, n);
        svd_times_lower(x, lower, T, k);
        double *reduced = values_of(x, T, k);
        CHECK_ARRAY_CLOSE(reduced, whole, k < T ? k : T, TOL);
        tensors_free();
    }
}

/* Threads that call at once do not disturb each other. */
static void test_parallel(void) {
    enum { UNITS = 24, N = 60 };
    double *a = normal(UNITS * N * N, 8), *got = doubles(UNITS * N), *want = doubles(UNITS * N);
    threads_set(1);
    for (size_t u = 0; u < UNITS; u++)
        memcpy(want + u * N, values_of(a + u * N * N, N, N), N * sizeof *want);
    threads_set(4);
    size_t scratch_count = svd_scratch(N, N);
    double *scratch = doubles(UNITS * scratch_count);
    bool ok[UNITS];
#pragma omp parallel for schedule(dynamic)
    for (size_t u = 0; u < UNITS; u++)
        ok[u] = svd_values(got + u * N, a + u * N * N, N, N, scratch + u * scratch_count);
    for (size_t u = 0; u < UNITS; u++) CHECK(ok[u]);
    CHECK_ARRAY_CLOSE(got, want, UNITS * N, TOL);
    tensors_free();
}

const Test tests_svd[] = {
    {"diagonal", test_diagonal, TEST_FLOAT},     {"known", test_known, TEST_FLOAT},
    {"not_finite", test_not_finite, TEST_FLOAT}, {"lower_factor", test_lower_factor, TEST_FLOAT},
    {"parallel", test_parallel, TEST_FLOAT},     {0},
};
