#include "layernorm.h"

#include <math.h>
#include <string.h>

#include "parallel.h"

static const real EPSILON = (real)1e-5; /* RoBERTa's */

/* Element by element, so that y may be x. */
static void normalize_row(real *y, const real *x, const real *restrict w, const real *restrict b,
                          real mean, real rstd, size_t C) {
#pragma omp simd
    for (size_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * w[c] + b[c];
}

void layernorm_forward(real *y, real *restrict mean, real *restrict rstd, const real *x,
                       const real *restrict w, const real *restrict b, size_t rows, size_t C) {
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (size_t r = 0; r < rows; r++) {
        const real *x_r = x + r * C;
        real sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t c = 0; c < C; c++) sum += x_r[c];
        real m = sum / (real)C;
        /* second pass over the row, in cache: E[x^2] - m^2 would cancel */
#pragma omp simd reduction(+ : squares)
        for (size_t c = 0; c < C; c++) squares += (x_r[c] - m) * (x_r[c] - m);
        mean[r] = m;
        rstd[r] = 1 / (real)sqrt((double)(squares / (real)C + EPSILON));
        normalize_row(y + r * C, x_r, w, b, m, rstd[r], C);
    }
}

void layernorm_recompute(real *restrict y, const real *restrict x, const real *restrict mean,
                         const real *restrict rstd, const real *restrict w, const real *restrict b,
                         size_t rows, size_t C) {
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (size_t r = 0; r < rows; r++)
        normalize_row(y + r * C, x + r * C, w, b, mean[r], rstd[r], C);
}

/* One row: with h = (x - mean) rstd and g = d_y w,  d_x = rstd (g - avg(g) - h avg(g h)).  d_w and
 * d_b are added to. */
static void backward_row(real *d_x, real *restrict d_w, real *restrict d_b, const real *d_y,
                         const real *restrict x, const real *restrict w, real mean, real rstd,
                         size_t C, int accumulate_x) {
    real sum_g = 0, sum_gh = 0;
#pragma omp simd reduction(+ : sum_g, sum_gh)
    for (size_t c = 0; c < C; c++) {
        real h = (x[c] - mean) * rstd, g = d_y[c] * w[c];
        d_w[c] += d_y[c] * h;
        d_b[c] += d_y[c];
        sum_g += g;
        sum_gh += g * h;
    }
    real avg_g = sum_g / (real)C, avg_gh = sum_gh / (real)C;
    if (accumulate_x) {
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            d_x[c] += rstd * (d_y[c] * w[c] - avg_g - (x[c] - mean) * rstd * avg_gh);
        }
    } else { /* element by element, so that d_x may be d_y */
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            d_x[c] = rstd * (d_y[c] * w[c] - avg_g - (x[c] - mean) * rstd * avg_gh);
        }
    }
}

/* d_w, d_b += the threads' partial sums, in thread order. */
static void add_partials(real *restrict d_w, real *restrict d_b, const real *restrict partial,
                         size_t threads, size_t C) {
    for (size_t i = 0; i < threads; i++) {
        const real *restrict part_w = partial + 2 * C * i, *restrict part_b = part_w + C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            d_w[c] += part_w[c];
            d_b[c] += part_b[c];
        }
    }
}

void layernorm_backward(real *d_x, real *restrict d_w, real *restrict d_b, const real *d_y,
                        const real *restrict x, const real *restrict w, const real *restrict mean,
                        const real *restrict rstd, real *restrict scratch, size_t rows, size_t C,
                        int accumulate_x) {
    size_t threads = 1;
#pragma omp parallel if (rows * C >= PARALLEL_MIN)
    {
        Range mine = range_mine(rows, 1);
        real *part_w = scratch + 2 * C * parallel_index(), *part_b = part_w + C;
        if (parallel_index() == 0) threads = parallel_threads();
        memset(part_w, 0, 2 * C * sizeof *part_w);
        for (size_t r = mine.begin; r < mine.end; r++) {
            backward_row(d_x + r * C, part_w, part_b, d_y + r * C, x + r * C, w, mean[r], rstd[r],
                         C, accumulate_x);
        }
    }
    add_partials(d_w, d_b, scratch, threads, C);
}

size_t layernorm_scratch(size_t C) {
    return 2 * C * parallel_max_threads();
}
