/* Repeated timing for the benchmarks. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>

/* Page faults of all threads since the program started. */
size_t bench_page_faults(void);

/* Processor time of all threads since the program started. */
double bench_cpu_time(void);

size_t bench_threads(void); /* that a parallel region gets */

double bench_median(double *values, size_t count); /* sorts */

/* Median seconds of run(context), called once before and then for about `seconds`, at least 5 and
 * at most 200 times. */
double bench_measure(void (*run)(void *context), void *context, double seconds);

#endif
