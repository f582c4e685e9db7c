#include "gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>

#include "parallel.h"

typedef struct Product {
    real *c;
    const real *a, *b;
    size_t ldc, lda, ldb;
    Trans trans_a, trans_b;
    size_t k;
    real alpha, beta;
} Product;

/* The tile of c given by a range of rows and one of columns. */
static void gemm_tile(const Product *p, Range rows, Range cols) {
    size_t m = rows.end - rows.begin, n = cols.end - cols.begin;
    if (m == 0 || n == 0) return;
    const real *a = p->a + (p->trans_a == TRANS ? rows.begin : rows.begin * p->lda);
    const real *b = p->b + (p->trans_b == TRANS ? cols.begin * p->ldb : cols.begin);
    real *c = p->c + rows.begin * p->ldc + cols.begin;
    CBLAS_TRANSPOSE ta = p->trans_a == TRANS ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE tb = p->trans_b == TRANS ? CblasTrans : CblasNoTrans;
#ifdef REAL_IS_DOUBLE
    cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)p->k, p->alpha, a, (int)p->lda, b,
                (int)p->ldb, p->beta, c, (int)p->ldc);
#else
    cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)p->k, p->alpha, a, (int)p->lda, b,
                (int)p->ldb, p->beta, c, (int)p->ldc);
#endif
}

/* The whole product on the calling thread, which may be outside any region: OpenBLAS takes its
 * thread count from OpenMP's, so that is 1 for the length of the call. */
static void gemm_serial(const Product *p, size_t m, size_t n) {
    Range rows = {0, m}, cols = {0, n};
#ifdef _OPENMP
    int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    if (threads > 1) {
        omp_set_num_threads(1);
        gemm_tile(p, rows, cols);
        omp_set_num_threads(threads);
        return;
    }
#endif
    gemm_tile(p, rows, cols);
}

void gemm(real *c, size_t ldc, Trans trans_a, const real *a, size_t lda, Trans trans_b,
          const real *b, size_t ldb, size_t m, size_t n, size_t k, real alpha, real beta) {
    if (m == 0 || n == 0) return;
    assert(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX &&
           ldc <= INT_MAX);
    assert(ldc >= n && lda >= (trans_a == TRANS ? m : k) && ldb >= (trans_b == TRANS ? k : n));
    Product p = {c, a, b, ldc, lda, ldb, trans_a, trans_b, k, alpha, beta};
    size_t threads = parallel_max_threads();
    if (threads == 1 || (double)m * (double)n * (double)k < PARALLEL_MIN_MULTIPLY_ADDS) {
        gemm_serial(&p, m, n);
        return;
    }
    size_t row_parts = parallel_grid_rows(m, n, threads), col_parts = threads / row_parts;
#pragma omp parallel for schedule(static) num_threads((int)threads)
    for (size_t tile = 0; tile < threads; tile++) {
        gemm_tile(&p, range_part(m, tile / col_parts, row_parts, PARALLEL_ALIGN),
                  range_part(n, tile % col_parts, col_parts, PARALLEL_ALIGN));
    }
}
