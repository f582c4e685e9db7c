#include "bench_measure.h"

#include <stdlib.h>
#include <time.h>

enum { REPEATS_MIN = 5, REPEATS_MAX = 200 };

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
    for (end = bench_now() + seconds; count < REPEATS_MAX && (count < REPEATS_MIN || bench_now() < end); count++) {
        double start = bench_now();
        run(context);
        times[count] = bench_now() - start;
    }
    return bench_median(times, count);
}
