#include "cross_entropy.h"

#include <assert.h>
#include <math.h>

#include "parallel.h"
#include "vector_math.h"

/* Terms summed in real before the sum goes on in double: bounds the rounding of rows as long as a
 * vocabulary. */
enum { SUM_BLOCK = 1024 };

static real row_max(const real *x, size_t V) {
    real max = x[0];
#pragma omp simd reduction(max : max)
    for (size_t v = 0; v < V; v++) max = x[v] > max ? x[v] : max;
    return max;
}

static double sum_exp(const real *x, real max, size_t V) {
    double sum = 0;
    for (size_t begin = 0; begin < V; begin += SUM_BLOCK) {
        size_t end = begin + SUM_BLOCK < V ? begin + SUM_BLOCK : V;
        real part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t v = begin; v < end; v++) part += exp_real(x[v] - max);
        sum += (double)part;
    }
    return sum;
}

/* x = exp(x - max); value: the sum. */
static double exp_in_place(real *x, real max, size_t V) {
    double sum = 0;
    for (size_t begin = 0; begin < V; begin += SUM_BLOCK) {
        size_t end = begin + SUM_BLOCK < V ? begin + SUM_BLOCK : V;
        real part = 0;
#pragma omp simd reduction(+ : part)
        for (size_t v = begin; v < end; v++) {
            x[v] = exp_real(x[v] - max);
            part += x[v];
        }
        sum += (double)part;
    }
    return sum;
}

static void scale_row(real *x, real factor, size_t V) {
#pragma omp simd
    for (size_t v = 0; v < V; v++) x[v] *= factor;
}

void cross_entropy(real *restrict loss, real *restrict logits, const uint32_t *restrict labels,
                   size_t rows, size_t V, real grad_scale) {
#pragma omp parallel for schedule(static) if (rows * V >= PARALLEL_MIN)
    for (size_t r = 0; r < rows; r++) {
        real *x = logits + r * V;
        assert(labels[r] < V);
        real max = row_max(x, V); /* subtracted: exp overflows float above 88 */
        double below_max = (double)max - (double)x[labels[r]];
        double sum = grad_scale != 0 ? exp_in_place(x, max, V) : sum_exp(x, max, V);
        loss[r] = (real)(log(sum) + below_max);
        if (grad_scale != 0) {
            scale_row(x, (real)((double)grad_scale / sum), V);
            x[labels[r]] -= grad_scale;
        }
    }
}

double loss_sum(const real *loss, size_t rows) {
    double sum = 0;
    for (size_t i = 0; i < rows; i++) sum += (double)loss[i];
    return sum;
}

void softmax_rows(real *x, size_t rows, size_t V) {
#pragma omp parallel for schedule(static) if (rows * V >= PARALLEL_MIN)
    for (size_t r = 0; r < rows; r++) {
        real *x_r = x + r * V;
        double sum = exp_in_place(x_r, row_max(x_r, V), V);
        scale_row(x_r, (real)(1 / sum), V);
    }
}

void log_softmax_rows(real *x, size_t rows, size_t V) {
#pragma omp parallel for schedule(static) if (rows * V >= PARALLEL_MIN)
    for (size_t r = 0; r < rows; r++) {
        real *x_r = x + r * V;
        real max = row_max(x_r, V), log_sum = (real)log(sum_exp(x_r, max, V));
#pragma omp simd
        for (size_t v = 0; v < V; v++) x_r[v] = (x_r[v] - max) - log_sum;
    }
}
