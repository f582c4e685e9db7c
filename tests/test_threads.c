#define _GNU_SOURCE /* sched_setaffinity, unshare */
#include "threads.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "../src/base/cgroup.h"
#include "gemm.h"
#include "harness.h"
#include "system_memory.h"
#include "real.h"

static void put_at(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    REQUIRE(f != NULL);
    fputs(text, f);
    fclose(f);
}

/* Writes text to a file below the test's folder, making the folders on the way. */
static void put(const char *name, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    for (char *p = path + strlen(test_temp_dir()) + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    put_at(path, text);
}

static size_t quota(const char *cgroup_text) {
    put("cgroup", cgroup_text);
    return cgroup_cpu_quota(test_temp_path("cgroup"), test_temp_path("fs"));
}

static void test_cgroup_v2(void) {
    put("fs/a/b/cpu.max", "150000 100000\n");
    put("fs/a/cpu.max", "max 100000\n");
    CHECK_INT(quota("0::/a/b\n"), 2); /* one and a half rounds up */
    CHECK_INT(quota("0::/a\n"), 0);
    CHECK_INT(quota("0::/\n"), 0);
    put("fs/a/b/cpu.max", "300000 100000\n");
    CHECK_INT(quota("0::/a/b\n"), 3);
    put("fs/a/cpu.max", "200000 100000\n");
    CHECK_INT(quota("0::/a/b\n"), 2); /* the tighter limit is above */
    put("fs/a/b/cpu.max", "100000 100000\n");
    CHECK_INT(quota("0::/a/b\n"), 1); /* and here it is below */
    put("fs/cpu.max", "50000 100000\n");
    CHECK_INT(quota("0::/not/below/this/mount\n"), 1); /* as inside a container */
    put("fs/cpu.max", "nonsense\n");
    CHECK_INT(quota("0::/\n"), 0);
}

static void test_cgroup_v1(void) {
    put("fs/cpu/job/cpu.cfs_quota_us", "400000\n");
    put("fs/cpu/job/cpu.cfs_period_us", "100000\n");
    CHECK_INT(quota("9:memory:/x\n4:cpu,cpuacct:/job\n0::/\n"), 4);
    CHECK_INT(quota("4:cpuacct,cpu:/job\n"), 4);
    CHECK_INT(quota("4:cpuset:/job\n"), 0);
    CHECK_INT(quota("4:cpuacct:/job\n"), 0);
    put("fs/cpu/job/cpu.cfs_quota_us", "-1\n");
    CHECK_INT(quota("4:cpu:/job\n"), 0);
    CHECK_INT(quota("no colons at all\n:\n"), 0);
    CHECK_INT(quota(""), 0);
    CHECK_INT(cgroup_cpu_quota("/nowhere/at/all", "/nowhere"), 0);
}

/* Bytes left, or -1 where there is no limit. */
static long long memory_left(const char *cgroup_text) {
    size_t bytes;
    put("cgroup", cgroup_text);
    bool limited = cgroup_memory_left(&bytes, test_temp_path("cgroup"), test_temp_path("fs"));
    return limited ? (long long)bytes : -1;
}

static void test_memory_limit_v2(void) {
    CHECK_INT(memory_left("0::/a/b\n"), -1);
    put("fs/a/b/memory.max", "1000000\n");
    CHECK_INT(memory_left("0::/a/b\n"), -1); /* what is used is not known */
    put("fs/a/b/memory.current", "300000\n");
    CHECK_INT(memory_left("0::/a/b\n"), 700000);
    put("fs/a/b/memory.stat", "anon 90000\ninactive_file 150000\nactive_file 50000\nfile 9\n");
    CHECK_INT(memory_left("0::/a/b\n"), 900000); /* read pages can be given up */
    put("fs/a/memory.max", "max\n");
    put("fs/a/memory.current", "500000\n");
    CHECK_INT(memory_left("0::/a/b\n"), 900000);
    CHECK_INT(memory_left("0::/a\n"), -1);
    put("fs/a/memory.max", "600000\n");
    CHECK_INT(memory_left("0::/a/b\n"), 100000); /* the group above has less */
    put("fs/a/memory.current", "700000\n");
    CHECK_INT(memory_left("0::/a/b\n"), 0);
    put("fs/memory.max", "50000\n");
    put("fs/memory.current", "1000\n");
    CHECK_INT(memory_left("0::/not/below/this/mount\n"), 49000); /* as inside a container */
    put("fs/memory.max", "17179869184\n");
    CHECK_INT(memory_left("0::/\n"), 17179868184);
}

static void test_memory_limit_v1(void) {
    put("fs/memory/job/memory.limit_in_bytes", "8000000\n");
    put("fs/memory/job/memory.usage_in_bytes", "3000000\n");
    put("fs/memory/job/memory.stat",
        "cache 1\ninactive_file 7\ntotal_inactive_file 400000\ntotal_active_file 600000\n");
    CHECK_INT(memory_left("4:cpu,cpuacct:/x\n9:memory:/job\n0::/\n"), 6000000);
    CHECK_INT(memory_left("9:cpu:/job\n"), -1);
    put("fs/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("fs/memory/memory.usage_in_bytes", "3000000\n");
    CHECK_INT(memory_left("9:memory:/job\n"), 6000000);
    CHECK_INT(memory_left("9:memory:/\n"), -1);
    size_t bytes;
    CHECK(!cgroup_memory_left(&bytes, "/nowhere/at/all", "/nowhere"));
}

static void test_affinity_limits(void) {
    unsetenv("OMP_NUM_THREADS");
    size_t before = threads_available();
    CHECK(before >= 1);
    cpu_set_t all, one;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_SET(cpu, &one);
        break;
    }
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK_INT(threads_available(), 1);
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK_INT(threads_available(), before);
    setenv("OMP_NUM_THREADS", "1", 1);
    CHECK_INT(threads_available(), 1);
    setenv("OMP_NUM_THREADS", "1000000", 1);
    CHECK_INT(threads_available(), before);
}

/* A limit as a container has it: another file system in place of the groups' one, for this process
 * alone. */
static void test_quota_limits(void) {
    unsetenv("OMP_NUM_THREADS");
    if (threads_available() == 1) test_skip("one processor only");
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("quota", "/sys/fs/cgroup", "tmpfs", 0, "size=64k") != 0) {
        test_skip("may not mount anything here");
    }
    put_at("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    CHECK_INT(threads_available(), 1);
}

/* The same for memory: what a training is measured against. */
static void test_memory_limits(void) {
    size_t bytes;
    REQUIRE(system_memory_available(&bytes));
    CHECK(bytes > 1 << 24);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("limit", "/sys/fs/cgroup", "tmpfs", 0, "size=64k") != 0) {
        test_skip("may not mount anything here");
    }
    put_at("/sys/fs/cgroup/memory.max", "1234567\n");
    put_at("/sys/fs/cgroup/memory.current", "567\n");
    REQUIRE(system_memory_available(&bytes));
    CHECK_INT(bytes, 1234000);
    put_at("/sys/fs/cgroup/memory.max", "1125899906842624\n"); /* more than the machine has */
    REQUIRE(system_memory_available(&bytes));
    CHECK(bytes > 1 << 24 && bytes < (size_t)1 << 50);
}

static void test_set(void) {
#ifdef _OPENMP
    CHECK_INT(threads_set(0), threads_available());
    CHECK_INT(threads_set(3), 3); /* more than processors is the user's choice */
    size_t team = 0;
#pragma omp parallel
#pragma omp single
    team = (size_t)omp_get_num_threads();
    CHECK_INT(team, 3);
#endif
    CHECK_INT(threads_set(1), 1);
}

static void test_self_test(void) {
    Err err = {0};
    threads_set(2);
    CHECK_MSG(threads_self_test(&err), "%s", err.msg);
    threads_set(4);
    CHECK_MSG(threads_self_test(&err), "%s", err.msg);
}

/* Threads of this process, as the system counts them. */
static size_t tasks(void) {
    size_t count = 0;
    DIR *dir = opendir("/proc/self/task");
    if (!dir) test_skip("no /proc here");
    for (struct dirent *e; (e = readdir(dir)) != NULL;) count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* Products inside and outside of parallel regions share one pool: never threads times threads. */
static void test_one_pool(void) {
    enum { N = 192, T = 3 };
    Err err = {0};
    real *a = calloc((size_t)3 * N * N, sizeof *a);
    REQUIRE(a != NULL);
    threads_set(T);
    gemm(a, N, NO_TRANS, a + N * N, N, NO_TRANS, a + 2 * N * N, N, N, N, N, 1, 0);
    CHECK(threads_self_test(&err));
    gemm(a, N, NO_TRANS, a + N * N, N, NO_TRANS, a + 2 * N * N, N, N, N, N, 1, 0);
    size_t count = tasks();
    CHECK_MSG(count <= T, "%zu threads, %d were asked for", count, T);
    free(a);
}

static void test_describe(void) {
    char text[256];
    threads_set(2);
    threads_describe(text, sizeof text);
    CHECK_STR_CONTAINS(text, threads_blas_kernel());
    CHECK_STR_CONTAINS(text, "thread");
    char tiny[8];
    threads_describe(tiny, sizeof tiny);
    CHECK(strlen(tiny) == 7); /* cut, not overrun */
}

static void test_peak_rss(void) {
    enum { SIZE = 64 << 20 };
    size_t before = threads_peak_rss();
    volatile char *block = malloc(SIZE);
    REQUIRE(block != NULL);
    for (size_t i = 0; i < SIZE; i += 4096) block[i] = 1;
    size_t after = threads_peak_rss();
    free((void *)(uintptr_t)block);
    CHECK_MSG(before > 0 && after >= before + SIZE * 9 / 10 && after < before + (size_t)2 * SIZE,
              "%zu then %zu", before, after);
}

/* What the test report_kernel prints in a fresh process whose environment is changed by this
 * setting of env's. */
static void kernel_with(char *out, size_t size, const char *setting) {
    char command[256];
    snprintf(command, sizeof command, "env %s TEST_NO_FORK=1 /proc/%ld/exe threads/report_kernel",
             setting, (long)getpid());
    FILE *f = popen(command, "r");
    REQUIRE(f != NULL);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = 0;
    pclose(f);
}

static void test_report_kernel(void) {
    const char *warning = threads_warning();
    const char *spin = getenv("GOMP_SPINCOUNT");
    printf("    kernel %s; spin %s; %s\n", threads_blas_kernel(), spin ? spin : "unset",
           warning ? warning : "no warning");
    CHECK(threads_blas_kernel()[0] != 0);
}

static void test_waiting_threads_sleep_soon(void) {
#ifdef _OPENMP
    char out[4096];
    kernel_with(out, sizeof out, "-u GOMP_SPINCOUNT -u OMP_WAIT_POLICY");
    CHECK_STR_CONTAINS(out, "spin 3000;");
    kernel_with(out, sizeof out, "-u GOMP_SPINCOUNT OMP_WAIT_POLICY=active");
    CHECK_STR_CONTAINS(out, "spin unset;"); /* the user's choice stands */
    kernel_with(out, sizeof out, "GOMP_SPINCOUNT=77");
    CHECK_STR_CONTAINS(out, "spin 77;");
#endif
}

static void test_kernel_is_chosen_and_a_cap_is_named(void) {
    char chosen[4096], capped[4096];
    kernel_with(chosen, sizeof chosen, "-u OPENBLAS_CORETYPE"); /* empty is not unset to OpenBLAS */
    kernel_with(capped, sizeof capped, "OPENBLAS_CORETYPE=Prescott");
    CHECK_STR_CONTAINS(chosen, "1 passed, 0 failed");
    CHECK_STR_CONTAINS(capped, "1 passed, 0 failed");
    if (!strstr(capped, "kernel Prescott"))
        test_skip("this BLAS takes no kernel from OPENBLAS_CORETYPE");
#if defined(_OPENMP) && (defined(__x86_64__) || defined(__i386__))
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2"))
        test_skip("this processor has no faster kernel than Prescott");
    CHECK_STR_CONTAINS(capped, "OPENBLAS_CORETYPE chooses a slower BLAS kernel");
    CHECK(strstr(chosen, "slower") == NULL && strstr(chosen, "Prescott") == NULL);
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        CHECK(strstr(chosen, "kernel Haswell") == NULL && strstr(chosen, "kernel Zen") == NULL);
    }
#endif
}

const Test tests_threads[] = {
    {"cgroup_v2", test_cgroup_v2, 0},
    {"cgroup_v1", test_cgroup_v1, 0},
    {"memory_limit_v2", test_memory_limit_v2, 0},
    {"memory_limit_v1", test_memory_limit_v1, 0},
    {"affinity_limits", test_affinity_limits, 0},
    {"quota_limits", test_quota_limits, 0},
    {"memory_limits", test_memory_limits, 0},
    {"set", test_set, 0},
    {"self_test", test_self_test, 0},
    {"one_pool", test_one_pool, 0},
    {"describe", test_describe, 0},
    {"peak_rss", test_peak_rss, 0},
    {"report_kernel", test_report_kernel, 0},
    {"waiting_threads_sleep_soon", test_waiting_threads_sleep_soon, 0},
    {"kernel_is_chosen_and_a_cap_is_named", test_kernel_is_chosen_and_a_cap_is_named, 0},
    {0},
};
