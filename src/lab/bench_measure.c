#include "bench_measure.h"

#include <stdlib.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { REPEATS_MIN = 5, REPEATS_MAX = 200 };

static double read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double bench_cpu_time(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

size_t bench_threads(void) {
#ifdef _OPENMP
    return (size_t)omp_get_max_threads();
#else
    return 1;
#endif
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double bench_measure(void (*run)(void *context), void *context, double seconds) {
    double times[REPEATS_MAX], end;
    size_t count = 0;
    run(context); /* touches memory, wakes the threads */
    for (end = bench_now() + seconds;
         count < REPEATS_MAX && (count < REPEATS_MIN || bench_now() < end); count++) {
        double start = bench_now();
        run(context);
        times[count] = bench_now() - start;
    }
    return bench_median(times, count);
}
