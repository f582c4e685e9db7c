#include "embedding.h"

#include <string.h>

#include "parallel.h"

void embedding_forward(real *restrict y, const real *restrict token, const real *restrict position,
                       const uint32_t *restrict ids, const size_t *restrict start, size_t B,
                       size_t C) {
#pragma omp parallel if (start[B] * C >= PARALLEL_MIN)
    for (size_t b = 0; b < B; b++) {
#pragma omp for schedule(static) nowait
        for (size_t row = start[b]; row < start[b + 1]; row++) {
            const real *restrict tok = token + ids[row] * C, *restrict pos =
                                                                 position + (row - start[b]) * C;
            real *restrict y_t = y + row * C;
#pragma omp simd
            for (size_t c = 0; c < C; c++) y_t[c] = tok[c] + pos[c];
        }
    }
}

void embedding_backward(real *restrict d_token, real *restrict d_position, const real *restrict d_y,
                        const uint32_t *restrict ids, const size_t *restrict start, size_t B,
                        size_t C) {
#pragma omp parallel if (start[B] * C >= PARALLEL_MIN)
    {
        Range cols = range_mine(C, PARALLEL_ALIGN); /* two rows may share a token, never a column */
        for (size_t b = 0; b < B; b++) {
            for (size_t row = start[b]; row < start[b + 1]; row++) {
                real *restrict tok = d_token + ids[row] * C, *restrict pos =
                                                                 d_position + (row - start[b]) * C;
                const real *restrict d_y_t = d_y + row * C;
#pragma omp simd
                for (size_t c = cols.begin; c < cols.end; c++) {
                    tok[c] += d_y_t[c];
                    pos[c] += d_y_t[c];
                }
            }
        }
    }
}

void rows_gather(real *restrict y, const real *restrict x, const uint32_t *restrict rows,
                 size_t count, size_t C) {
#pragma omp parallel for schedule(static) if (count * C >= PARALLEL_MIN)
    for (size_t i = 0; i < count; i++) memcpy(y + i * C, x + rows[i] * C, C * sizeof *y);
}

void rows_scatter_add(real *restrict x, const real *restrict y, const uint32_t *restrict rows,
                      size_t count, size_t C) {
#pragma omp parallel for schedule(static) if (count * C >= PARALLEL_MIN)
    for (size_t i = 0; i < count; i++) {
        real *restrict x_r = x + rows[i] * C;
        const real *restrict y_i = y + i * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) x_r[c] += y_i[c];
    }
}

void sequence_mean_forward(real *restrict y, const real *restrict x, const size_t *restrict start,
                           size_t B, size_t C) {
#pragma omp parallel for schedule(static) if (start[B] * C >= PARALLEL_MIN)
    for (size_t b = 0; b < B; b++) {
        real *restrict y_b = y + b * C;
        const real share = 1 / (real)(start[b + 1] - start[b]);
        memset(y_b, 0, C * sizeof *y);
        for (size_t t = start[b]; t < start[b + 1]; t++) {
            const real *restrict x_t = x + t * C;
#pragma omp simd
            for (size_t c = 0; c < C; c++) y_b[c] += share * x_t[c];
        }
    }
}

void sequence_mean_backward(real *restrict d_x, const real *restrict d_y,
                            const size_t *restrict start, size_t B, size_t C) {
#pragma omp parallel for schedule(static) if (start[B] * C >= PARALLEL_MIN)
    for (size_t b = 0; b < B; b++) {
        const real share = 1 / (real)(start[b + 1] - start[b]);
        const real *restrict d_b = d_y + b * C;
        for (size_t t = start[b]; t < start[b + 1]; t++) {
            real *restrict d_t = d_x + t * C;
#pragma omp simd
            for (size_t c = 0; c < C; c++) d_t[c] = share * d_b[c];
        }
    }
}
