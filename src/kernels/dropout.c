#include "dropout.h"

#include "parallel.h"

uint64_t dropout_key(uint64_t seq_key, size_t layer, DropoutSite site) {
    return rng_key(seq_key, RNG_DROPOUT, layer, (uint64_t)site);
}

/* Sequence that owns a row: the last b with start[b] <= row. */
static size_t sequence_of_row(const size_t *start, size_t B, size_t row) {
    size_t low = 0, high = B;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (start[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* What a row of the pass needs to know; the arrays are whole tensors. */
typedef struct Residual {
    real *r;
    const real *x, *branch, *bias;
    size_t C;
    uint32_t threshold;
    real scale;
} Residual;

/* The four forms are loops of their own: a test inside the loop would keep it from being vectorised
 * well. */
static void forward_row(const Residual *a, size_t row, uint64_t key, uint32_t index,
                        const real *restrict bias) {
    size_t C = a->C;
    real *r = a->r + row * C;
    const real *branch = a->branch + row * C;
    uint32_t threshold = a->threshold;
    real scale = a->scale;
    if (a->x != NULL && bias != NULL) {
        const real *x = a->x + row * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            r[c] = x[c] + (branch[c] + bias[c]) *
                              dropout_factor(key, index + (uint32_t)c, threshold, scale);
        }
    } else if (a->x != NULL) {
        const real *x = a->x + row * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            r[c] = x[c] + branch[c] * dropout_factor(key, index + (uint32_t)c, threshold, scale);
        }
    } else if (bias != NULL) {
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            r[c] =
                (branch[c] + bias[c]) * dropout_factor(key, index + (uint32_t)c, threshold, scale);
        }
    } else {
#pragma omp simd
        for (size_t c = 0; c < C; c++) {
            r[c] = branch[c] * dropout_factor(key, index + (uint32_t)c, threshold, scale);
        }
    }
}

/* The same without randomness.  One expression an element: r may be x or branch. */
static void forward_row_kept(const Residual *a, size_t row, const real *restrict bias) {
    size_t C = a->C;
    real *r = a->r + row * C;
    const real *branch = a->branch + row * C, *x = a->x != NULL ? a->x + row * C : NULL;
#pragma omp simd
    for (size_t c = 0; c < C; c++) {
        r[c] = (x != NULL ? x[c] : 0) + (branch[c] + (bias != NULL ? bias[c] : 0));
    }
}

void residual_dropout_forward(real *r, const real *x, const real *branch, const real *restrict bias,
                              const size_t *restrict start, const uint64_t *restrict seq_key,
                              size_t B, size_t C, size_t layer, DropoutSite site, double p) {
    size_t total = start[B];
    Residual a = {r, x, branch, bias, C, dropout_threshold(p), (real)(1 / (1 - p))};
#pragma omp parallel if (total * C >= PARALLEL_MIN)
    {
        Range mine = range_mine(total, 1);
        size_t b = sequence_of_row(start, B, mine.begin);
        uint64_t key = 0;
        for (size_t row = mine.begin; row < mine.end; row++) {
            if (p == 0) {
                forward_row_kept(&a, row, bias);
                continue;
            }
            while (row >= start[b + 1]) b++;
            if (row == mine.begin || row == start[b]) key = dropout_key(seq_key[b], layer, site);
            forward_row(&a, row, key, (uint32_t)((row - start[b]) * C), bias);
        }
    }
}

void residual_dropout_backward(real *d_branch, const real *d_r, const size_t *restrict start,
                               const uint64_t *restrict seq_key, size_t B, size_t C, size_t layer,
                               DropoutSite site, double p) {
    residual_dropout_forward(d_branch, NULL, d_r, NULL, start, seq_key, B, C, layer, site, p);
}
