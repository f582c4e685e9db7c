#include "svd.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* LAPACK has no C header that comes with every OpenBLAS.  Its routines are Fortran: matrices are
 * column by column, so that a row-major matrix is its transpose, and the lengths of strings come
 * last. */
void dgesdd_(const char *jobz, const blasint *m, const blasint *n, double *a, const blasint *lda,
             double *s, double *u, const blasint *ldu, double *vt, const blasint *ldvt,
             double *work, const blasint *lwork, blasint *iwork, blasint *info, size_t jobz_length);
void dgeqrf_(const blasint *m, const blasint *n, double *a, const blasint *lda, double *tau,
             double *work, const blasint *lwork, blasint *info);

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Doubles that hold the integer workspace of dgesdd. */
static size_t integer_scratch(size_t rows, size_t cols) {
    return (8 * smaller(rows, cols) * sizeof(blasint) + sizeof(double) - 1) / sizeof(double);
}

/* Singular values alone; what LAPACK's info says.  work_count -1 asks for the best count, which is
 * then in work[0]. */
static blasint gesdd(double *values, double *a, size_t rows, size_t cols, double *work,
                     blasint work_count, blasint *integers) {
    assert(rows > 0 && cols > 0 && rows <= INT_MAX && cols <= INT_MAX);
    const blasint m = (blasint)cols, n = (blasint)rows, one = 1;
    blasint info = 0;
    double unused = 0; /* left and right singular vectors */
    dgesdd_("N", &m, &n, a, &m, values, &unused, &one, &unused, &one, work, &work_count, integers,
            &info, 1);
    return info;
}

static size_t real_scratch(size_t rows, size_t cols) {
    double best = 0, unused = 0;
    blasint integers = 0, info = gesdd(&unused, &unused, rows, cols, &best, -1, &integers);
    assert(info == 0);
    (void)info;
    return (size_t)best;
}

size_t svd_scratch(size_t rows, size_t cols) {
    return real_scratch(rows, cols) + integer_scratch(rows, cols);
}

bool svd_values(double *restrict values, double *restrict a, size_t rows, size_t cols,
                double *restrict scratch) {
    blasint *integers = (blasint *)scratch;
    double *work = scratch + integer_scratch(rows, cols);
    for (size_t i = 0; i < rows * cols; i++)
        if (!isfinite(a[i])) return false; /* LAPACK finds NaN, infinity it lets pass */
    return gesdd(values, a, rows, cols, work, (blasint)real_scratch(rows, cols), integers) == 0;
}

static blasint geqrf(double *a, size_t rows, size_t cols, double *tau, double *work,
                     blasint work_count) {
    assert(rows > 0 && rows <= cols && cols <= INT_MAX);
    const blasint m = (blasint)cols, n = (blasint)rows;
    blasint info = 0;
    dgeqrf_(&m, &n, a, &m, tau, work, &work_count, &info);
    return info;
}

static size_t geqrf_scratch(size_t rows, size_t cols) {
    double best = 0, unused = 0;
    blasint info = geqrf(&unused, rows, cols, &unused, &best, -1);
    assert(info == 0);
    (void)info;
    return (size_t)best;
}

size_t svd_lower_scratch(size_t rows, size_t cols) {
    return geqrf_scratch(rows, cols) + rows;
}

void svd_lower_factor(double *restrict lower, double *restrict a, size_t rows, size_t cols,
                      double *restrict scratch) {
    /* to LAPACK a is its transpose (cols,rows) = Q R; so a = R^T Q^T, and R^T is lower */
    double *tau = scratch, *work = scratch + rows;
    blasint info = geqrf(a, rows, cols, tau, work, (blasint)geqrf_scratch(rows, cols));
    assert(info == 0);
    (void)info;
    for (size_t r = 0; r < rows; r++) {
        memcpy(lower + r * rows, a + r * cols, (r + 1) * sizeof *lower);
        memset(lower + r * rows + r + 1, 0, (rows - r - 1) * sizeof *lower);
    }
}

void svd_times_lower(double *restrict x, const double *restrict lower, size_t rows, size_t cols) {
    assert(rows <= INT_MAX && cols <= INT_MAX);
    if (rows == 0 || cols == 0) return;
    cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)rows,
                (int)cols, 1, lower, (int)cols, x, (int)cols);
}
