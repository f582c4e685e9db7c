#include "pool_project.h"

#include <stdbool.h>

#include "parallel.h"

/* Columns at a time where a kernel keeps a value for each on the stack. */
enum { BLOCK = 64 };

size_t pool_rows(size_t T, size_t P, size_t N) {
    return (T * P + N - 1) / N; /* the windows r with r N / P < T */
}

size_t pool_taps(size_t P, size_t N) {
    return (N + P - 1) / P;
}

/* Row `row` of y and the tokens first .. first+count-1 of x that it stands for. */
typedef struct Window {
    size_t row, first, count;
} Window;

static Window window_of(const PoolShape *s, size_t b, size_t r) {
    size_t T = s->start[b + 1] - s->start[b], begin = r * s->N / s->P, end = (r + 1) * s->N / s->P;
    if (end > T) end = T;
    return (Window){s->row_start[b] + r, s->start[b] + begin, end - begin};
}

/* Window `index` of the B * P that full sequences would have; false: it holds no token. */
static bool window_at(Window *out, const PoolShape *s, size_t index) {
    size_t b = index / s->P, r = index % s->P;
    if (r >= s->row_start[b + 1] - s->row_start[b]) return false;
    *out = window_of(s, b, r);
    return true;
}

/* Is there enough to do for several threads?  No two windows share a row of x or of y. */
static bool is_large(const PoolShape *s) {
    return s->start[s->B] * s->C >= PARALLEL_MIN;
}

static void mean_row(real *restrict y, const real *restrict x, size_t count, size_t C) {
    real share = 1 / (real)count;
    for (size_t c = 0; c < C; c++) y[c] = x[c];
    for (size_t t = 1; t < count; t++) {
        const real *restrict x_t = x + t * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] += x_t[c];
    }
#pragma omp simd
    for (size_t c = 0; c < C; c++) y[c] *= share;
}

void pool_mean_forward(real *restrict y, const real *restrict x, const PoolShape *shape) {
    size_t C = shape->C;
#pragma omp parallel for schedule(static) if (is_large(shape))
    for (size_t index = 0; index < shape->B * shape->P; index++) {
        Window w;
        if (window_at(&w, shape, index)) mean_row(y + w.row * C, x + w.first * C, w.count, C);
    }
}

static void mean_row_backward(real *restrict d_x, const real *restrict d_y, size_t count,
                              size_t C) {
    real share = 1 / (real)count;
    for (size_t t = 0; t < count; t++) {
        real *restrict d_x_t = d_x + t * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) d_x_t[c] += share * d_y[c];
    }
}

void pool_mean_backward(real *restrict d_x, const real *restrict d_y, const PoolShape *shape) {
    size_t C = shape->C;
#pragma omp parallel for schedule(static) if (is_large(shape))
    for (size_t index = 0; index < shape->B * shape->P; index++) {
        Window w;
        if (window_at(&w, shape, index))
            mean_row_backward(d_x + w.first * C, d_y + w.row * C, w.count, C);
    }
}

static void max_row(real *restrict y, const real *restrict x, size_t count, size_t C) {
    for (size_t c = 0; c < C; c++) y[c] = x[c];
    for (size_t t = 1; t < count; t++) {
        const real *restrict x_t = x + t * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) y[c] = x_t[c] > y[c] ? x_t[c] : y[c];
    }
}

void pool_max_forward(real *restrict y, const real *restrict x, const PoolShape *shape) {
    size_t C = shape->C;
#pragma omp parallel for schedule(static) if (is_large(shape))
    for (size_t index = 0; index < shape->B * shape->P; index++) {
        Window w;
        if (window_at(&w, shape, index)) max_row(y + w.row * C, x + w.first * C, w.count, C);
    }
}

/* The gradient of a column goes to the first token that has the maximum, and none is left for the
 * tokens after it. */
static void max_columns_backward(real *restrict d_x, const real *restrict d_y,
                                 const real *restrict x, const real *restrict y, size_t count,
                                 size_t cols, size_t C) {
    real left[BLOCK];
    for (size_t c = 0; c < cols; c++) left[c] = d_y[c];
    for (size_t t = 0; t < count; t++) {
        const real *restrict x_t = x + t * C;
        real *restrict d_x_t = d_x + t * C;
#pragma omp simd
        for (size_t c = 0; c < cols; c++) {
            real taken = x_t[c] == y[c] ? left[c] : 0;
            d_x_t[c] = taken;
            left[c] -= taken;
        }
    }
}

void pool_max_backward(real *restrict d_x, const real *restrict d_y, const real *restrict x,
                       const real *restrict y, const PoolShape *shape) {
    size_t C = shape->C;
#pragma omp parallel for schedule(static) if (is_large(shape))
    for (size_t index = 0; index < shape->B * shape->P; index++) {
        Window w;
        if (!window_at(&w, shape, index)) continue;
        for (size_t c = 0; c < C; c += BLOCK) {
            size_t in = w.first * C + c, out = w.row * C + c, cols = C - c < BLOCK ? C - c : BLOCK;
            max_columns_backward(d_x + in, d_y + out, x + in, y + out, w.count, cols, C);
        }
    }
}

/* One head of one window: taps (count,D) of the D columns that x and y begin at. */
static void conv_row(real *restrict y, const real *restrict x, const real *restrict taps,
                     size_t count, size_t D, size_t C) {
    for (size_t d = 0; d < D; d++) y[d] = 0;
    for (size_t j = 0; j < count; j++) {
        const real *restrict x_j = x + j * C, *restrict taps_j = taps + j * D;
#pragma omp simd
        for (size_t d = 0; d < D; d++) y[d] += taps_j[d] * x_j[d];
    }
}

void pool_conv_forward(real *restrict y, const real *restrict x, const real *restrict taps,
                       size_t stride, size_t H, const PoolShape *shape) {
    size_t C = shape->C, D = C / H;
#pragma omp parallel for schedule(static) if (is_large(shape))
    for (size_t index = 0; index < shape->B * shape->P; index++) {
        Window w;
        if (!window_at(&w, shape, index)) continue;
        for (size_t h = 0; h < H; h++)
            conv_row(y + w.row * C + h * D, x + w.first * C + h * D, taps + h * stride, w.count, D,
                     C);
    }
}

static void conv_row_backward(real *restrict d_x, const real *restrict d_y,
                              const real *restrict taps, size_t count, size_t D, size_t C) {
    for (size_t j = 0; j < count; j++) {
        real *restrict d_x_j = d_x + j * C;
        const real *restrict taps_j = taps + j * D;
#pragma omp simd
        for (size_t d = 0; d < D; d++) d_x_j[d] = taps_j[d] * d_y[d];
    }
}

static void conv_backward_x(real *restrict d_x, const real *restrict d_y, const real *restrict taps,
                            size_t stride, size_t H, const PoolShape *shape) {
    size_t C = shape->C, D = C / H;
#pragma omp parallel for schedule(static) if (is_large(shape))
    for (size_t index = 0; index < shape->B * shape->P; index++) {
        Window w;
        if (!window_at(&w, shape, index)) continue;
        for (size_t h = 0; h < H; h++)
            conv_row_backward(d_x + w.first * C + h * D, d_y + w.row * C + h * D, taps + h * stride,
                              w.count, D, C);
    }
}

/* Tap j of the columns first .. first+count-1 of the heads begin .. end-1, which share it.  The sum
 * of a sequence is rounded by itself before it joins the others. */
static void conv_backward_tap(real *restrict d_tap, const real *restrict d_y,
                              const real *restrict x, size_t j, size_t first, size_t count,
                              Range heads, size_t D, const PoolShape *shape) {
    size_t C = shape->C;
    for (size_t b = 0; b < shape->B; b++) {
        real sum[BLOCK] = {0};
        for (size_t r = 0; r < shape->row_start[b + 1] - shape->row_start[b]; r++) {
            Window w = window_of(shape, b, r);
            if (j >= w.count) continue;
            for (size_t h = heads.begin; h < heads.end; h++) {
                const real *restrict d_y_h = d_y + w.row * C + h * D + first;
                const real *restrict x_h = x + (w.first + j) * C + h * D + first;
#pragma omp simd
                for (size_t d = 0; d < count; d++) sum[d] += d_y_h[d] * x_h[d];
            }
        }
        for (size_t d = 0; d < count; d++) d_tap[d] += sum[d];
    }
}

/* Every sequence adds into the same taps, so the threads divide the taps, never the sequences. */
static void conv_backward_taps(real *restrict d_taps, const real *restrict d_y,
                               const real *restrict x, size_t stride, size_t H,
                               const PoolShape *shape) {
    size_t D = shape->C / H, taps = pool_taps(shape->P, shape->N), groups = stride ? H : 1;
    size_t blocks = (D + BLOCK - 1) / BLOCK;
#pragma omp parallel for schedule(dynamic) if (is_large(shape))
    for (size_t unit = 0; unit < groups * taps * blocks; unit++) {
        size_t g = unit / (taps * blocks), j = unit / blocks % taps, first = unit % blocks * BLOCK;
        Range heads = {stride ? g : 0, stride ? g + 1 : H};
        conv_backward_tap(d_taps + g * stride + j * D + first, d_y, x, j, first,
                          D - first < BLOCK ? D - first : BLOCK, heads, D, shape);
    }
}

void pool_conv_backward(real *restrict d_x, real *restrict d_taps, const real *restrict d_y,
                        const real *restrict x, const real *restrict taps, size_t stride, size_t H,
                        const PoolShape *shape) {
    conv_backward_x(d_x, d_y, taps, stride, H, shape);
    conv_backward_taps(d_taps, d_y, x, stride, H, shape);
}
