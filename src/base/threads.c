#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT_S */
#include "threads.h"

#include <cblas.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "cgroup.h"
#include "log.h"

/* Weak: with another BLAS they are absent, and the questions they answer do not arise. */
#pragma weak openblas_get_corename
#pragma weak openblas_get_config
#pragma weak openblas_get_parallel
#pragma weak openblas_set_num_threads
char *openblas_get_corename(void);
char *openblas_get_config(void);
int openblas_get_parallel(void);
void openblas_set_num_threads(int count);

enum { SELF_TEST_SIZE = 24, SELF_TEST_ROUNDS = 200, PARALLEL_OWN_POOL = 1 };

static const char CORETYPE[] = "OPENBLAS_CORETYPE";

/* Vector instructions that a kernel uses, as a rank. */
typedef enum KernelRank { RANK_SSE, RANK_AVX, RANK_AVX2, RANK_AVX512 } KernelRank;

static size_t affinity_cpus(void) {
    /* the call fails while the set is smaller than the kernel's */
    for (size_t cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set) break;
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return (size_t)count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
}

size_t threads_available(void) {
    size_t count = affinity_cpus();
    size_t quota = cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota && quota < count) count = quota;
    const char *wish = getenv("OMP_NUM_THREADS");
    long wished = wish ? strtol(wish, NULL, 10) : 0;
    if (wished > 0 && (size_t)wished < count) count = (size_t)wished;
    return count ? count : 1;
}

/* This OpenBLAS runs threads of its own, which our regions do not share. */
static bool has_own_pool(void) {
    return openblas_get_parallel && openblas_get_parallel() == PARALLEL_OWN_POOL;
}

size_t threads_set(size_t count) {
    if (count == 0) count = threads_available();
#ifdef _OPENMP
    omp_set_dynamic(0); /* a team of another size would add partial sums in another order */
    omp_set_num_threads((int)count);
    count = (size_t)omp_get_max_threads();
#else
    count = 1;
#endif
    /* every thread of a region calls it: a pool of its own would start threads^2 */
    if (openblas_set_num_threads) openblas_set_num_threads(has_own_pool() ? 1 : (int)count);
    return count;
}

static KernelRank kernel_rank(const char *name) {
    static const struct {
        const char *name;
        KernelRank rank;
    } known[] = {
        {"SkylakeX", RANK_AVX512}, {"Cooperlake", RANK_AVX512}, {"SapphireRapids", RANK_AVX512},
        {"Haswell", RANK_AVX2},    {"Zen", RANK_AVX2},          {"Sandybridge", RANK_AVX},
        {"Bulldozer", RANK_AVX},   {"Piledriver", RANK_AVX},    {"Steamroller", RANK_AVX},
        {"Excavator", RANK_AVX},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!strcmp(name, known[i].name)) return known[i].rank;
    }
    return RANK_SSE; /* Prescott, Core2, Nehalem and other kernels for processors without AVX */
}

/* What this processor runs, as far as OPENBLAS_CORETYPE has a kernel for it; elsewhere OpenBLAS's
 * own choice is taken. */
static KernelRank processor_rank(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
        return RANK_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return RANK_AVX2;
#endif
    return RANK_SSE;
}

/* The kernel to ask for where the loaded one is below what the processor runs, else NULL. */
static const char *missed_kernel(void) {
    KernelRank rank = processor_rank();
    if (!openblas_get_corename || kernel_rank(openblas_get_corename()) >= rank) return NULL;
    return rank == RANK_AVX512 ? "SkylakeX" : "Haswell";
}

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value;
}

void threads_prepare_process(char **argv) {
    const char *kernel = is_set(CORETYPE) ? NULL : missed_kernel();
    bool again = kernel && setenv(CORETYPE, kernel, 1) == 0;
#ifdef _OPENMP
    /* libgomp's default spins for milliseconds at every barrier; where another program has the
     * other processor, a step of training then takes many times as long.  About 0.1 ms costs
     * nothing measurable on an idle machine. */
    if (!is_set("GOMP_SPINCOUNT") && !is_set("OMP_WAIT_POLICY"))
        again |= setenv("GOMP_SPINCOUNT", "3000", 1) == 0;
#endif
    if (!again) return;
    execv("/proc/self/exe", argv);
    /* not executed again: the variable would claim a kernel that is not in use */
    if (kernel) unsetenv(CORETYPE);
}

const char *threads_blas_kernel(void) {
    return openblas_get_corename ? openblas_get_corename() : "unknown";
}

const char *threads_warning(void) {
#ifndef _OPENMP
    return "built without OpenMP: 1 thread";
#endif
    if (missed_kernel()) {
        if (is_set(CORETYPE)) {
            return "OPENBLAS_CORETYPE chooses a slower BLAS kernel than this processor can run; "
                   "unset it";
        }
        return "OpenBLAS uses a slower kernel than this processor can run; a newer release knows "
               "it";
    }
    if (has_own_pool()) {
        return "this OpenBLAS has a thread pool of its own, which stays unused; the OpenMP build "
               "of it (Debian: libopenblas-openmp-dev) is the one that is tested";
    }
    return NULL;
}

bool threads_self_test(Err *err) {
    enum { S = SELF_TEST_SIZE };
    float a[S * S], b[S * S], wanted[S * S];
    /* small integers: every order of summation gives the same, exact result */
    for (int i = 0; i < S * S; i++) {
        a[i] = (float)(i * 7 % 11 - 5);
        b[i] = (float)(i * 5 % 13 - 6);
    }
    for (int i = 0; i < S * S; i++) {
        wanted[i] = 0;
        for (int j = 0; j < S; j++) wanted[i] += a[i / S * S + j] * b[j * S + i % S];
    }
    size_t wrong = 0;
#pragma omp parallel reduction(+ : wrong)
    for (int round = 0; round < SELF_TEST_ROUNDS; round++) {
        float c[S * S];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, S, S, S, 1, a, S, b, S, 0, c, S);
        wrong += memcmp(c, wanted, sizeof c) != 0;
    }
    if (wrong == 0) return true;
    return err_set(err, ERR_FAILED,
                   "BLAS self test: %zu products computed by several threads at once are wrong; "
                   "the library is %s (kernel %s). Install another build of it, or use one thread "
                   "(train.threads=1)",
                   wrong, openblas_get_config ? openblas_get_config() : "not OpenBLAS",
                   threads_blas_kernel());
}

void threads_describe(char *buf, size_t size) {
    static const char *const pools[] = {"no threads", "own threads", "OpenMP threads"};
    int pool = openblas_get_parallel ? openblas_get_parallel() : -1;
    /* the configuration begins "OpenBLAS 0.3.21 " */
    char name[32] = "BLAS", version[32] = "of unknown version";
    if (openblas_get_config) sscanf(openblas_get_config(), "%31s %31s", name, version);
    int threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    const char *l2 = getenv("OPENBLAS_L2_SIZE");
    snprintf(buf, size, "%d thread%s of %zu CPUs, %s %s, kernel %s, %s%s%s", threads,
             threads == 1 ? "" : "s", affinity_cpus(), name, version, threads_blas_kernel(),
             pool >= 0 && pool <= 2 ? pools[pool] : "threads unknown",
             l2 ? ", OPENBLAS_L2_SIZE=" : "", l2 ? l2 : "");
}

bool threads_start(size_t count, Err *err) {
    char text[256];
    threads_set(count);
    threads_describe(text, sizeof text);
    log_info("%s", text);
    if (threads_warning()) log_warn("%s", threads_warning());
    return threads_self_test(err);
}

size_t threads_peak_rss(void) {
    /* not getrusage first: its peak survives exec and would be that of the program before */
    FILE *f = fopen("/proc/self/status", "r");
    size_t kib = 0;
    if (f) {
        char line[256];
        while (fgets(line, sizeof line, f) && sscanf(line, "VmHWM: %zu kB", &kib) != 1) {}
        fclose(f);
    }
    struct rusage usage;
    if (!kib && getrusage(RUSAGE_SELF, &usage) == 0) kib = (size_t)usage.ru_maxrss;
    return kib * 1024;
}
