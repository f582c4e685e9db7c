#include <stdio.h>
#include <unistd.h>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "arena.h"
#include "bench.h"
#include "bench_measure.h"
#include "gemm.h"
#include "real.h"

enum {
    CHAINS = 12, /* independent sums: more than latency times units (4 x 2), fewer than registers */
    ROUNDS = 200000
};

/* One vector of floats and its fused multiply-add x*y + z. */
#if defined(__AVX512F__)
typedef __m512 Vec;
enum { LANES = 16 };
static inline Vec vec_set(float x) {
    return _mm512_set1_ps(x);
}
static inline Vec vec_fma(Vec x, Vec y, Vec z) {
    return _mm512_fmadd_ps(x, y, z);
}
#elif defined(__AVX__) && defined(__FMA__)
typedef __m256 Vec;
enum { LANES = 8 };
static inline Vec vec_set(float x) {
    return _mm256_set1_ps(x);
}
static inline Vec vec_fma(Vec x, Vec y, Vec z) {
    return _mm256_fmadd_ps(x, y, z);
}
#elif defined(__ARM_NEON)
typedef float32x4_t Vec;
enum { LANES = 4 };
static inline Vec vec_set(float x) {
    return vdupq_n_f32(x);
}
static inline Vec vec_fma(Vec x, Vec y, Vec z) {
    return vfmaq_f32(z, x, y);
}
#else /* whatever the compiler makes of it, multiplied and added one after the other */
typedef float Vec __attribute__((vector_size(16)));
enum { LANES = 4 };
static inline Vec vec_set(float x) {
    return (Vec){x, x, x, x};
}
static inline Vec vec_fma(Vec x, Vec y, Vec z) {
    return x * y + z;
}
#endif

/* Makes the compiler believe that the sum is used: else the loop has no effect and goes away. */
static inline void keep(Vec sum) {
    __asm__ volatile("" : : "m"(sum));
}

static void fma_chains(void) {
    Vec sums[CHAINS], x = vec_set(0.999f), y = vec_set(0.001f);
    for (int c = 0; c < CHAINS; c++) sums[c] = vec_set((float)c);
    for (int round = 0; round < ROUNDS; round++) {
        for (int c = 0; c < CHAINS; c++) sums[c] = vec_fma(sums[c], x, y);
    }
    for (int c = 1; c < CHAINS; c++) sums[0] = vec_fma(sums[c], x, sums[0]);
    keep(sums[0]);
}

static void run_fma(void *unused) {
    (void)unused;
#pragma omp parallel
    fma_chains();
}

double bench_fma_peak(double seconds) {
    double operations = 2.0 * LANES * CHAINS * ROUNDS * (double)bench_threads();
    return operations / bench_measure(run_fma, NULL, seconds) / 1e9;
}

#if defined(__AVX512BF16__)
static void bf16_chains(void) {
    Vec sums[CHAINS];
    __m512bh x = _mm512_cvtne2ps_pbh(vec_set(0.999f), vec_set(0.001f));
    for (int c = 0; c < CHAINS; c++) sums[c] = vec_set((float)c);
    for (int round = 0; round < ROUNDS; round++) {
        for (int c = 0; c < CHAINS; c++) sums[c] = _mm512_dpbf16_ps(sums[c], x, x);
    }
    for (int c = 1; c < CHAINS; c++) sums[0] = _mm512_add_ps(sums[0], sums[c]);
    keep(sums[0]);
}

static void run_bf16(void *unused) {
    (void)unused;
#pragma omp parallel
    bf16_chains();
}

double bench_bf16_peak(double seconds) {
    double operations = 4.0 * LANES * CHAINS * ROUNDS *
                        (double)bench_threads(); /* two products and two sums a lane */
    return operations / bench_measure(run_bf16, NULL, seconds) / 1e9;
}
#else
double bench_bf16_peak(double seconds) {
    (void)seconds;
    return 0;
}
#endif

typedef struct Square {
    real *a, *b, *c;
    size_t size;
} Square;

static void run_square(void *context) {
    Square *s = context;
    size_t size = s->size;
    gemm(s->c, size, NO_TRANS, s->a, size, NO_TRANS, s->b, size, size, size, size, 1, 0);
}

bool bench_gemm_peak(double *out, size_t size, double seconds, Err *err) {
    const size_t count = size * size;
    Arena arena;
    if (!arena_create(&arena, 3 * (count * sizeof(real) + 2 * ARENA_ALIGN), err))
        return err_context(err, "matrices of the benchmark");
    Square square = {.size = size};
    square.a = arena_take(&arena, count, sizeof(real));
    square.b = arena_take(&arena, count, sizeof(real));
    square.c = arena_take(&arena, count, sizeof(real));
    for (size_t i = 0; i < count; i++) square.a[i] = square.b[i] = (real)(i % 7) - 3;
    *out = 2.0 * (double)count * (double)size / bench_measure(run_square, &square, seconds) / 1e9;
    arena_destroy(&arena);
    return true;
}

typedef struct Arrays {
    real *x, *y;
    size_t count;
} Arrays;

static void run_arrays(void *context) {
    const Arrays *a = context;
    const real *restrict x = a->x;
    real *restrict y = a->y;
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < a->count; i++) y[i] = x[i] + (real)0.5 * y[i];
}

bool bench_memory_peak(double *out, size_t bytes, double seconds, Err *err) {
    Arena arena;
    Arrays arrays = {.count = bytes / 2 / sizeof(real)};
    if (!arena_create(&arena, bytes + 4 * ARENA_ALIGN, err))
        return err_context(err, "arrays of the benchmark");
    arrays.x = arena_take(&arena, arrays.count, sizeof(real));
    arrays.y = arena_take(&arena, arrays.count, sizeof(real));
    double moved = 3.0 * (double)arrays.count * sizeof(real);
    *out = moved / bench_measure(run_arrays, &arrays, seconds) / 1e9;
    arena_destroy(&arena);
    return true;
}

size_t bench_resident(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%*u %zu", &pages) != 1) pages = 0;
    fclose(file);
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? pages * (size_t)page : 0;
}
