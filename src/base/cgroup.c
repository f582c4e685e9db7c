#include "cgroup.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096 };

/* Reads the limit set in one folder; false if there is none. */
typedef bool FolderLimit(size_t *limit, const char *folder);

/* Where the two versions of control groups keep a limit. */
typedef struct Limit {
    const char *controller; /* version 1: its name, and that of its folder below the mount */
    FolderLimit *v1, *v2;
} Limit;

static bool read_line(char *buf, int size, const char *folder, const char *name) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool ok = fgets(buf, size, f) != NULL;
    fclose(f);
    return ok;
}

/* ---- processors */

/* quota microseconds of CPU in every period, as whole CPUs; false if that is no limit. */
static bool quota_cpus(size_t *cpus, double quota, double period) {
    if (!(quota > 0 && period > 0)) return false;
    double exact = quota / period;
    size_t whole = (size_t)exact;
    *cpus = (double)whole < exact ? whole + 1 : whole;
    return true;
}

/* "max 100000" or "150000 100000". */
static bool cpus_v2(size_t *cpus, const char *folder) {
    char line[128];
    double quota, period;
    return read_line(line, sizeof line, folder, "cpu.max") &&
           sscanf(line, "%lf %lf", &quota, &period) == 2 && quota_cpus(cpus, quota, period);
}

/* Two files, -1 is no limit. */
static bool cpus_v1(size_t *cpus, const char *folder) {
    char line[128];
    double quota, period;
    return read_line(line, sizeof line, folder, "cpu.cfs_quota_us") &&
           sscanf(line, "%lf", &quota) == 1 &&
           read_line(line, sizeof line, folder, "cpu.cfs_period_us") &&
           sscanf(line, "%lf", &period) == 1 && quota_cpus(cpus, quota, period);
}

/* ---- memory */

/* One number in a file; false for "max". */
static bool read_bytes(double *bytes, const char *folder, const char *name) {
    char line[128];
    return read_line(line, sizeof line, folder, name) && sscanf(line, "%lf", bytes) == 1;
}

/* File pages of a group, from its memory.stat. */
static double file_bytes(const char *folder, const char *inactive, const char *active) {
    char path[PATH_SIZE + 64], line[128], name[64];
    double sum = 0, bytes;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%63s %lf", name, &bytes) == 2 &&
            (!strcmp(name, inactive) || !strcmp(name, active)))
            sum += bytes;
    }
    if (f) fclose(f);
    return sum;
}

static bool bytes_left(size_t *left, double limit, double used, double files) {
    const double none = 1e18; /* version 1 says "no limit" by a number of this size */
    if (limit >= none) return false;
    double bytes = limit - (used > files ? used - files : 0);
    *left = bytes > 0 ? (size_t)bytes : 0;
    return true;
}

static bool memory_v2(size_t *left, const char *folder) {
    double limit, used;
    return read_bytes(&limit, folder, "memory.max") &&
           read_bytes(&used, folder, "memory.current") &&
           bytes_left(left, limit, used, file_bytes(folder, "inactive_file", "active_file"));
}

static bool memory_v1(size_t *left, const char *folder) {
    double limit, used;
    return read_bytes(&limit, folder, "memory.limit_in_bytes") &&
           read_bytes(&used, folder, "memory.usage_in_bytes") &&
           bytes_left(left, limit, used,
                      file_bytes(folder, "total_inactive_file", "total_active_file"));
}

/* ---- the groups of this process */

/* *least becomes the smaller of itself and the limits in mount/group and the folders above it,
 * mount included; true if one was set. */
static bool apply_folders(size_t *least, const char *mount, const char *group,
                          FolderLimit *folder_limit) {
    char folder[PATH_SIZE];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof folder) return false;
    bool any = false;
    while (strlen(folder) >= strlen(mount)) {
        size_t limit;
        if (folder_limit(&limit, folder)) {
            any = true;
            if (limit < *least) *least = limit;
        }
        char *slash = strrchr(folder, '/');
        if (!slash) break;
        *slash = 0;
    }
    return any;
}

/* Whether the comma-separated list names the controller. */
static bool has_controller(const char *list, const char *name) {
    for (const char *p = list; *p;) {
        size_t size = strcspn(p, ",");
        if (size == strlen(name) && !memcmp(p, name, size)) return true;
        p += size + (p[size] == ',');
    }
    return false;
}

static bool least_limit(size_t *least, const char *cgroup_file, const char *mount,
                        const Limit *limit) {
    FILE *f = fopen(cgroup_file, "r");
    if (!f) return false;
    bool any = false;
    char line[PATH_SIZE];
    *least = SIZE_MAX;
    /* "0::/group" is version 2, "4:cpu,cpuacct:/group" version 1 */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        if (!*controllers) {
            any |= apply_folders(least, mount, group, limit->v2);
        } else if (has_controller(controllers, limit->controller)) {
            char v1_mount[PATH_SIZE];
            /* a link to the folder of cpu,cpuacct where they are joined */
            snprintf(v1_mount, sizeof v1_mount, "%.2000s/%s", mount, limit->controller);
            any |= apply_folders(least, v1_mount, group, limit->v1);
        }
    }
    fclose(f);
    return any;
}

size_t cgroup_cpu_quota(const char *cgroup_file, const char *mount) {
    static const Limit limit = {"cpu", cpus_v1, cpus_v2};
    size_t cpus;
    return least_limit(&cpus, cgroup_file, mount, &limit) ? cpus : 0;
}

bool cgroup_memory_left(size_t *bytes, const char *cgroup_file, const char *mount) {
    static const Limit limit = {"memory", memory_v1, memory_v2};
    return least_limit(bytes, cgroup_file, mount, &limit);
}
