/* Arrays of the kernel tests: filled from the run's seed, freed all at once. */
#ifndef TENSORS_H
#define TENSORS_H

#include <stdbool.h>
#include <stddef.h>

#include "real.h"

/* Tolerance of a kernel against a reference in double, relative to the largest element. */
#define KERNEL_TOL (sizeof(real) == sizeof(float) ? 1e-5 : 1e-12)

/* Zeroed memory until tensors_free. */
void *tensors_take(size_t count, size_t elem_size);
void tensors_free(void);

/* Standard normal values times scale; every call of a test gives others, and every run the same for
 * one SEED. */
real *tensor_normal(size_t count, double scale);
real *tensor_filled(size_t count, double value);
real *tensor_copy(const real *x, size_t count);

/* start[0..B] of sequences with these lengths. */
size_t *tensor_starts(const size_t *lengths, size_t B);

/* sum of a[i] * b[i] in double. */
double tensor_dot(const real *a, const real *b, size_t count);

/* Root of the sum of squares of a - b, over that of b. */
double tensor_distance(const real *a, const real *b, size_t count);

/* max |got - want| <= tol * max |want|; NaN fails.  Shows the worst element. */
#define CHECK_TENSOR(got, want, count, tol)                                                        \
    tensor_check((got), (want), (count), (tol), #got, __FILE__, __LINE__)
bool tensor_check(const real *got, const double *want, size_t count, double tol, const char *name,
                  const char *file, int line);

/* The same bits. */
#define CHECK_SAME(a, b, count) CHECK(memcmp((a), (b), (count) * sizeof *(a)) == 0)

#endif
