#include "elementwise.h"

#include <stdint.h>
#include <string.h>

#include "parallel.h"

/* Reductions cut the array into this many blocks at most, whatever the thread count. */
enum { BLOCKS = 1024 };

void vec_zero(real *x, size_t count) {
#pragma omp parallel if (count >= PARALLEL_MIN)
    {
        Range mine = range_mine(count, PARALLEL_ALIGN);
        if (mine.end > mine.begin) memset(x + mine.begin, 0, (mine.end - mine.begin) * sizeof *x);
    }
}

static size_t block_count(size_t count) {
    size_t lines = (count + PARALLEL_MIN - 1) / PARALLEL_MIN;
    return lines < BLOCKS ? lines : BLOCKS;
}

double vec_sum_squares(const real *x, size_t count) {
    double partial[BLOCKS];
    size_t blocks = block_count(count);
#pragma omp parallel for schedule(static) if (count >= PARALLEL_MIN)
    for (size_t block = 0; block < blocks; block++) {
        Range part = range_part(count, block, blocks, PARALLEL_ALIGN);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t i = part.begin; i < part.end; i++) sum += (double)x[i] * (double)x[i];
        partial[block] = sum;
    }
    double total = 0;
    for (size_t block = 0; block < blocks; block++) total += partial[block];
    return total;
}

/* x - x is 0 for finite x and NaN otherwise. */
static size_t first_nonfinite(const real *x, size_t begin, size_t end) {
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = begin; i < end; i++) sum += x[i] - x[i];
    if (sum == 0) return end;
    while (begin < end && x[begin] - x[begin] == 0) begin++;
    return begin;
}

size_t vec_first_nonfinite(const real *x, size_t count) {
    size_t blocks = block_count(count), first = count;
#pragma omp parallel for schedule(static) reduction(min : first) if (count >= PARALLEL_MIN)
    for (size_t block = 0; block < blocks; block++) {
        Range part = range_part(count, block, blocks, PARALLEL_ALIGN);
        size_t found = first_nonfinite(x, part.begin, part.end);
        if (found < part.end && found < first) first = found;
    }
    return first;
}
