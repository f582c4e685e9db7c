/* How the kernels and the optimizer split work over OpenMP threads; without OpenMP everything is
 * one thread. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* Elementwise work below this many elements is done by the calling thread: waking the team costs
 * more. */
enum { PARALLEL_MIN = 32768 };

/* The same for matrix products, in multiply-adds. */
enum { PARALLEL_MIN_MULTIPLY_ADDS = 2000000 };

/* Elements of a cache line of floats: parts are cut at multiples of it, so that no two threads
 * write one line. */
enum { PARALLEL_ALIGN = 16 };

/* Threads a region started here would get. */
static inline size_t parallel_max_threads(void) {
#ifdef _OPENMP
    return omp_in_parallel() ? 1 : (size_t)omp_get_max_threads();
#else
    return 1;
#endif
}

/* Inside a region: number of threads of the team, and this thread's number. */
static inline size_t parallel_threads(void) {
#ifdef _OPENMP
    return (size_t)omp_get_num_threads();
#else
    return 1;
#endif
}

static inline size_t parallel_index(void) {
#ifdef _OPENMP
    return (size_t)omp_get_thread_num();
#else
    return 0;
#endif
}

typedef struct Range {
    size_t begin, end;
} Range;

/* Part `part` of `parts` nearly equal parts of 0..count-1, cut at multiples of align; may be empty.
 */
static inline Range range_part(size_t count, size_t part, size_t parts, size_t align) {
    size_t units = (count + align - 1) / align;
    size_t begin = units * part / parts * align, end = units * (part + 1) / parts * align;
    Range r = {begin < count ? begin : count, end < count ? end : count};
    return r;
}

/* This thread's part, inside a region. */
static inline Range range_mine(size_t count, size_t align) {
    return range_part(count, parallel_index(), parallel_threads(), align);
}

/* Row parts of the grid of row parts x column parts = threads that cuts the result of a product so
 * that the tiles read the least of its factors. */
static inline size_t parallel_grid_rows(size_t m, size_t n, size_t threads) {
    size_t best = 1;
    double least = (double)m + (double)n / (double)threads;
    for (size_t r = 2; r <= threads; r++) {
        double cost = (double)m / (double)r + (double)n / (double)(threads / r);
        if (threads % r != 0 || cost >= least) continue;
        least = cost;
        best = r;
    }
    return best;
}

#endif
