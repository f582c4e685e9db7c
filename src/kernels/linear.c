#include "linear.h"

#include <string.h>

#include "parallel.h"

void linear_forward(real *restrict y, const real *restrict x, const real *restrict w,
                    const real *restrict b, size_t rows, size_t in, size_t out,
                    const Mixed *mixed) {
    if (b != NULL) { /* beta 1 spares the product the pass that would clear y, so the bias costs
                        nothing */
#pragma omp parallel for schedule(static) if (rows * out >= PARALLEL_MIN)
        for (size_t r = 0; r < rows; r++) memcpy(y + r * out, b, out * sizeof *y);
    }
    mixed_gemm(y, out, NO_TRANS, x, in, TRANS, w, in, rows, out, in, b != NULL ? 1 : 0, mixed);
}

void linear_backward(real *restrict d_x, real *restrict d_w, real *restrict d_b,
                     const real *restrict d_y, const real *restrict x, const real *restrict w,
                     size_t rows, size_t in, size_t out, int accumulate_x, const Mixed *mixed) {
    if (d_x != NULL) {
        mixed_gemm(d_x, in, NO_TRANS, d_y, out, NO_TRANS, w, in, rows, in, out,
                   accumulate_x ? 1 : 0, mixed);
    }
    if (d_w != NULL) mixed_gemm(d_w, in, TRANS, d_y, out, NO_TRANS, x, in, out, in, rows, 1, mixed);
    if (d_b != NULL) bias_backward(d_b, d_y, rows, out);
}

/* sum[0..count-1] += rows r..r+3 of d_y. */
static void add_four_rows(real *restrict sum, const real *restrict d_y, size_t stride,
                          size_t count) {
    const real *y0 = d_y, *y1 = d_y + stride, *y2 = y1 + stride, *y3 = y2 + stride;
#pragma omp simd
    for (size_t j = 0; j < count; j++) sum[j] += (y0[j] + y1[j]) + (y2[j] + y3[j]);
}

void bias_backward(real *restrict d_b, const real *restrict d_y, size_t rows, size_t out) {
#pragma omp parallel if (rows * out >= PARALLEL_MIN)
    {
        Range cols = range_mine(
            out, PARALLEL_ALIGN); /* each thread owns columns and adds the rows in order */
        size_t count = cols.end - cols.begin, r = 0;
        real *restrict sum = d_b + cols.begin;
        for (; r + 4 <= rows; r += 4) add_four_rows(sum, d_y + r * out + cols.begin, out, count);
        for (; r < rows; r++) {
            const real *restrict y = d_y + r * out + cols.begin;
#pragma omp simd
            for (size_t j = 0; j < count; j++) sum[j] += y[j];
        }
    }
}
