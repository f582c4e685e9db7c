#include "seq_project.h"

#include <stdint.h>

#include "gemm.h"
#include "parallel.h"
#include "small_gemm.h"

/* Up to this many columns, those of a head, packing the factors would cost BLAS too much. */
enum { SMALL_WIDTH = 64 };

/* Tokens whose rows are transposed at a time for a gradient of proj. */
enum { TOKEN_BLOCK = 64 };

/* Columns of x cut into this many parts a head, so that all threads have work when there are few
 * sequences and heads. */
static size_t column_parts(size_t units, size_t cols) {
    size_t wanted = 2 * parallel_max_threads(), parts = 1;
    while (units * parts < wanted && cols / (parts + 1) >= 64) parts++;
    return parts;
}

/* What one thread does at a time: sequence b, group g of heads, `count` columns from `first`. */
typedef struct Unit {
    size_t b, g, first, count;
} Unit;

/* The sequences of one matrix follow one another: it stays in the cache for them. */
static Unit unit_at(size_t index, size_t B, size_t parts, size_t width) {
    size_t b = index / parts % B, g = index / (B * parts);
    Range cols = range_part(width, index % parts, parts, PARALLEL_ALIGN);
    return (Unit){b, g, g * width + cols.begin, cols.end - cols.begin};
}

void seq_project_forward(real *restrict y, const real *restrict x, const real *restrict proj,
                         size_t proj_stride, const size_t *restrict start, size_t B, size_t G,
                         size_t P, size_t N, size_t C, size_t longer_than) {
    size_t width = C / G, parts = column_parts(B * G, width);
#pragma omp parallel for schedule(dynamic) if (start[B] * P * C >= PARALLEL_MIN_MULTIPLY_ADDS)
    for (size_t index = 0; index < B * G * parts; index++) {
        Unit u = unit_at(index, B, parts, width);
        size_t T = start[u.b + 1] - start[u.b];
        if (T <= longer_than) continue;
        real *y_u = y + u.b * P * C + u.first;
        const real *x_u = x + start[u.b] * C + u.first, *e = proj + u.g * proj_stride;
        if (u.count <= SMALL_WIDTH)
            small_gemm(y_u, C, small_plain(e, N), x_u, C, P, u.count, T, 1, SMALL_OVERWRITE);
        else
            gemm(y_u, C, NO_TRANS, e, N, NO_TRANS, x_u, C, P, u.count, T, 1, 0);
    }
}

static void backward_x(real *restrict d_x, const real *restrict d_y, const real *restrict proj,
                       size_t proj_stride, const size_t *restrict start, size_t B, size_t G,
                       size_t P, size_t N, size_t C, size_t longer_than, int accumulate_x) {
    size_t width = C / G, parts = column_parts(B * G, width);
#pragma omp parallel for schedule(dynamic) if (start[B] * P * C >= PARALLEL_MIN_MULTIPLY_ADDS)
    for (size_t index = 0; index < B * G * parts; index++) {
        Unit u = unit_at(index, B, parts, width);
        size_t T = start[u.b + 1] - start[u.b];
        if (T <= longer_than) continue;
        real *d_x_u = d_x + start[u.b] * C + u.first;
        const real *d_y_u = d_y + u.b * P * C + u.first, *e = proj + u.g * proj_stride;
        if (u.count <= SMALL_WIDTH)
            small_gemm(d_x_u, C, small_transposed(e, N), d_y_u, C, T, u.count, P, 1,
                       accumulate_x ? SMALL_ADD : SMALL_OVERWRITE);
        else
            gemm(d_x_u, C, TRANS, e, N, NO_TRANS, d_y_u, C, T, u.count, P, 1, accumulate_x ? 1 : 0);
    }
}

static size_t longest(const size_t *start, size_t B) {
    size_t T = 0;
    for (size_t b = 0; b < B; b++) T = start[b + 1] - start[b] > T ? start[b + 1] - start[b] : T;
    return T;
}

/* d_proj (rows,tokens) += d_y x^T of one sequence, where few columns meet: some tokens at a time.
 * Columns past the tokens up to a whole vector, which belong to no other tile, get zeros added. */
static void add_narrow_tile(real *restrict d_proj, const real *restrict d_y, const real *restrict x,
                            size_t rows, size_t tokens, size_t N, size_t left, size_t C,
                            size_t width) {
    real x_t[SMALL_WIDTH * TOKEN_BLOCK];
    for (size_t t = 0; t < tokens; t += TOKEN_BLOCK) {
        size_t count = tokens - t < TOKEN_BLOCK ? tokens - t : TOKEN_BLOCK;
        size_t padded = small_gemm_pad(count);
        small_transpose(x_t, TOKEN_BLOCK, x + t * C, C, count, width);
        small_gemm(d_proj + t, N, small_plain(d_y, C), x_t, TOKEN_BLOCK, rows,
                   padded <= left - t ? padded : count, width, 1, SMALL_ADD);
    }
}

/* d_proj[p][t] of a tile of rows and columns, summed over b in order: every sequence adds into the
 * same d_proj, so the threads divide d_proj, never the sequences. */
static void backward_proj_tile(real *restrict d_proj, const real *restrict d_y,
                               const real *restrict x, const size_t *restrict start, size_t B,
                               size_t P, size_t N, size_t C, size_t width, size_t longer_than,
                               Range rows, Range cols) {
    for (size_t b = 0; b < B; b++) {
        size_t T = start[b + 1] - start[b], end = cols.end < T ? cols.end : T;
        if (end <= cols.begin || T <= longer_than) continue;
        real *d_e = d_proj + rows.begin * N + cols.begin;
        const real *d_y_b = d_y + (b * P + rows.begin) * C, *x_b = x + (start[b] + cols.begin) * C;
        if (width <= SMALL_WIDTH)
            add_narrow_tile(d_e, d_y_b, x_b, rows.end - rows.begin, end - cols.begin, N,
                            N - cols.begin, C, width);
        else
            gemm(d_e, N, NO_TRANS, d_y_b, C, TRANS, x_b, C, rows.end - rows.begin, end - cols.begin,
                 width, 1, 1);
    }
}

static void backward_proj(real *restrict d_proj, const real *restrict d_y, const real *restrict x,
                          size_t proj_stride, const size_t *restrict start, size_t B, size_t G,
                          size_t P, size_t N, size_t C, size_t longer_than) {
    size_t width = C / G, T = longest(start, B), wanted = 2 * parallel_max_threads();
    size_t col_parts = 1, row_parts = 1;
    while (G * col_parts * row_parts < wanted) { /* halves the longer side of a tile */
        if (T / col_parts >= P / row_parts && T / col_parts >= 64) {
            col_parts *= 2;
        } else if (P / row_parts >= 64) {
            row_parts *= 2;
        } else {
            break;
        }
    }
#pragma omp parallel for schedule(dynamic) if (start[B] * P * C >= PARALLEL_MIN_MULTIPLY_ADDS)
    for (size_t unit = 0; unit < G * row_parts * col_parts; unit++) {
        size_t g = unit / (row_parts * col_parts);
        Range rows = range_part(P, unit / col_parts % row_parts, row_parts, PARALLEL_ALIGN);
        Range cols = range_part(T, unit % col_parts, col_parts, PARALLEL_ALIGN);
        backward_proj_tile(d_proj + g * proj_stride, d_y + g * width, x + g * width, start, B, P, N,
                           C, width, longer_than, rows, cols);
    }
}

void seq_project_backward(real *restrict d_x, real *restrict d_proj, const real *restrict d_y,
                          const real *restrict x, const real *restrict proj, size_t proj_stride,
                          const size_t *restrict start, size_t B, size_t G, size_t P, size_t N,
                          size_t C, size_t longer_than, int accumulate_x) {
    if (d_x != NULL)
        backward_x(d_x, d_y, proj, proj_stride, start, B, G, P, N, C, longer_than, accumulate_x);
    if (d_proj != NULL)
        backward_proj(d_proj, d_y, x, proj_stride, start, B, G, P, N, C, longer_than);
}

void seq_project_row_sums(real *restrict row_sums, const real *restrict proj,
                          const size_t *restrict start, size_t B, size_t P, size_t N) {
#pragma omp parallel for schedule(static) if (start[B] * P >= PARALLEL_MIN)
    for (size_t r = 0; r < B * P; r++) {
        size_t b = r / P, T = start[b + 1] - start[b];
        const real *restrict e = proj + r % P * N;
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t t = 0; t < T; t++) sum += e[t];
        row_sums[r] = sum;
    }
}

void seq_project_bias_forward(real *restrict y, const real *restrict row_sums,
                              const real *restrict b, size_t rows, size_t C) {
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (size_t r = 0; r < rows; r++) {
        real *restrict y_r = y + r * C;
        real sum = row_sums[r];
#pragma omp simd
        for (size_t c = 0; c < C; c++) y_r[c] += sum * b[c];
    }
}

/* d_b += row_sums^T d_y: each thread owns columns and adds the rows in order. */
static void bias_backward_columns(real *restrict d_b, const real *restrict d_y,
                                  const real *restrict row_sums, size_t rows, size_t C) {
#pragma omp parallel if (rows * C >= PARALLEL_MIN)
    {
        Range cols = range_mine(C, PARALLEL_ALIGN);
        for (size_t r = 0; r < rows; r++) {
            const real *restrict d_y_r = d_y + r * C;
            real sum = row_sums[r];
#pragma omp simd
            for (size_t c = cols.begin; c < cols.end; c++) d_b[c] += sum * d_y_r[c];
        }
    }
}

/* dots[r] = d_y_r . b */
static void bias_dots(real *restrict dots, const real *restrict d_y, const real *restrict b,
                      size_t rows, size_t C) {
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (size_t r = 0; r < rows; r++) {
        const real *restrict d_y_r = d_y + r * C;
        real dot = 0;
#pragma omp simd reduction(+ : dot)
        for (size_t c = 0; c < C; c++) dot += d_y_r[c] * b[c];
        dots[r] = dot;
    }
}

void seq_project_bias_backward(real *restrict d_b, real *restrict d_proj, const real *restrict d_y,
                               const real *restrict row_sums, const real *restrict b,
                               const size_t *restrict start, real *restrict scratch, size_t B,
                               size_t P, size_t N, size_t C) {
    bias_backward_columns(d_b, d_y, row_sums, B * P, C);
    if (d_proj == NULL) return;
    bias_dots(scratch, d_y, b, B * P, C);
#pragma omp parallel for schedule(static) if (start[B] * P >= PARALLEL_MIN)
    for (size_t p = 0; p < P; p++) {
        real *restrict d_e = d_proj + p * N;
        for (size_t s = 0; s < B; s++) {
            size_t T = start[s + 1] - start[s];
            real dot = scratch[s * P + p];
#pragma omp simd
            for (size_t t = 0; t < T; t++) d_e[t] += dot;
        }
    }
}
