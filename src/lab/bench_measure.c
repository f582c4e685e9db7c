#include "bench_measure.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "clock.h"

enum { REPEATS_MIN = 5, REPEATS_MAX = 200 };

size_t bench_page_faults(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (size_t)usage.ru_minflt + (size_t)usage.ru_majflt;
}

double bench_cpu_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
    for (end = clock_now_s() + seconds;
         count < REPEATS_MAX && (count < REPEATS_MIN || clock_now_s() < end); count++) {
        double start = clock_now_s();
        run(context);
        times[count] = clock_now_s() - start;
    }
    return bench_median(times, count);
}
