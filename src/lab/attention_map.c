#include "attention_map.h"

#include <tgmath.h>

#include "gemm.h"
#include "vector_math.h"

static void softmax_row(real *restrict row, size_t count) {
    real most = row[0], sum = 0;
    for (size_t j = 1; j < count; j++) most = row[j] > most ? row[j] : most;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < count; j++) {
        row[j] = exp_real(row[j] - most);
        sum += row[j];
    }
    for (size_t j = 0; j < count; j++) row[j] /= sum;
}

void attention_map(real *restrict p, const real *restrict q, const real *restrict k, size_t T,
                   size_t keys, size_t C, size_t D, size_t h) {
    gemm(p, keys, NO_TRANS, q + h * D, C, TRANS, k + h * D, C, T, keys, D,
         (real)(1 / sqrt((double)D)), 0);
    for (size_t t = 0; t < T; t++) softmax_row(p + t * keys, keys);
}
