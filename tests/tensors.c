#include "tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "rng.h"

enum { MAX_TENSORS = 4096 };

/* Memory of the running test, which has a process of its own. */
static void *taken[MAX_TENSORS];
static size_t taken_count;
static uint64_t draws;

void *tensors_take(size_t count, size_t elem_size) {
    void *memory = calloc(count > 0 ? count : 1, elem_size);
    REQUIRE(memory != NULL && taken_count < MAX_TENSORS);
    taken[taken_count++] = memory;
    return memory;
}

void tensors_free(void) {
    while (taken_count > 0) free(taken[--taken_count]);
}

real *tensor_normal(size_t count, double scale) {
    real *x = tensors_take(count, sizeof *x);
    uint64_t key = rng_key(test_seed(), RNG_TEST, 1000, draws++);
    for (size_t i = 0; i < count; i++) x[i] = (real)(scale * rng_normal(key, i));
    return x;
}

real *tensor_filled(size_t count, double value) {
    real *x = tensors_take(count, sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = (real)value;
    return x;
}

real *tensor_copy(const real *x, size_t count) {
    real *copy = tensors_take(count, sizeof *copy);
    memcpy(copy, x, count * sizeof *copy);
    return copy;
}

size_t *tensor_starts(const size_t *lengths, size_t B) {
    size_t *start = tensors_take(B + 1, sizeof *start);
    for (size_t b = 0; b < B; b++) start[b + 1] = start[b] + lengths[b];
    return start;
}

double tensor_dot(const real *a, const real *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

double tensor_distance(const real *a, const real *b, size_t count) {
    double difference = 0;
    for (size_t i = 0; i < count; i++)
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(difference / tensor_dot(b, b, count));
}

bool tensor_check(const real *got, const double *want, size_t count, double tol, const char *name,
                  const char *file, int line) {
    double largest = 0, worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - want[i]);
        largest = fmax(largest, fabs(want[i]));
        if (!(error <= worst)) {
            worst = error;
            at = i;
            if (isnan(error)) break;
        }
    }
    if (worst <= tol * largest) return true;
    test_fail(file, line,
              "%s[%zu] of %zu = %.9g, want %.9g; error %.3g of the largest element, allowed %.3g",
              name, at, count, (double)got[at], want[at], worst / largest, tol);
    return false;
}
