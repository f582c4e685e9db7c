/* The one place that decides thread counts and names the BLAS kernel.
 * OpenBLAS runs single-threaded inside our OpenMP regions; there is one pool of threads. */
#ifndef THREADS_H
#define THREADS_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

/* Threads this process may use: the smallest of its affinity mask, its cgroup CPU quota (v1 or v2)
 * and OMP_NUM_THREADS, at least 1. */
size_t threads_available(void);

/* Sets OpenMP's and OpenBLAS's thread count; 0 means threads_available(). Returns the count in use
 * (1 without OpenMP).  An OpenBLAS with a thread pool of its own is set to 1: the threads that
 * divide a product are always OpenMP's. */
size_t threads_set(size_t count);

/* Settles what the libraries read from the environment when they load, by executing the program
 * again with
 *   OPENBLAS_CORETYPE  where it is not set and the loaded kernel is below what the processor can
 *                      run: old OpenBLAS releases do not recognise newer processors and fall back
 *                      to a kernel many times slower;
 *   GOMP_SPINCOUNT     where neither it nor OMP_WAIT_POLICY is set: threads that wait sleep soon.
 * Returns when nothing is to be done.  Call first in main. */
void threads_prepare_process(char **argv);

/* "SkylakeX", "Haswell", ...: the OpenBLAS kernel in use. */
const char *threads_blas_kernel(void);

/* NULL, or a one-line warning: the kernel is below what the processor has (an environment variable
 * caps it), OpenBLAS is a build with its own thread pool, or this program was built without OpenMP.
 * The text is static. */
const char *threads_warning(void);

/* Self test: every thread runs the same small product; false with a message naming the library if
 * any result differs from a plain loop (old OpenBLAS builds can compute wrong results under
 * concurrency). */
bool threads_self_test(Err *err);

/* threads_set, a log line that describes the machine, warnings, threads_self_test. */
bool threads_start(size_t count, Err *err);

/* One line for logs: threads, OpenBLAS version, kernel, thread back end, cpu set size. Written to
 * buf. */
void threads_describe(char *buf, size_t size);

/* Peak resident set of the process in bytes, 0 where the system does not tell. */
size_t threads_peak_rss(void);

#endif
