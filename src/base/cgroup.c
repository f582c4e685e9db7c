#include "cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096 };

/* quota microseconds of CPU in every period, as whole CPUs; 0 if that is no limit. */
static size_t quota_cpus(double quota, double period) {
    if (!(quota > 0 && period > 0)) return 0;
    double cpus = quota / period;
    size_t whole = (size_t)cpus;
    return (double)whole < cpus ? whole + 1 : whole;
}

static bool read_line(char *buf, int size, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool ok = fgets(buf, size, f) != NULL;
    fclose(f);
    return ok;
}

/* Quota set in one folder of version 2: "max 100000" or "150000 100000". */
static size_t folder_quota_v2(const char *folder) {
    char path[PATH_SIZE + 32], line[128];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_line(line, sizeof line, path) || sscanf(line, "%lf %lf", &quota, &period) != 2)
        return 0;
    return quota_cpus(quota, period);
}

/* Quota set in one folder of version 1: two files, -1 is no limit. */
static size_t folder_quota_v1(const char *folder) {
    char path[PATH_SIZE + 32], line[128];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_line(line, sizeof line, path) || sscanf(line, "%lf", &quota) != 1) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_line(line, sizeof line, path) || sscanf(line, "%lf", &period) != 1) return 0;
    return quota_cpus(quota, period);
}

/* The smallest quota in mount/group and the folders above it, mount included. */
static size_t smallest_quota(const char *mount, const char *group,
                             size_t (*folder_quota)(const char *)) {
    char folder[PATH_SIZE];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof folder) return 0;
    size_t smallest = 0;
    while (strlen(folder) >= strlen(mount)) {
        size_t quota = folder_quota(folder);
        if (quota && (!smallest || quota < smallest)) smallest = quota;
        char *slash = strrchr(folder, '/');
        if (!slash) break;
        *slash = 0;
    }
    return smallest;
}

/* Whether the comma-separated list names the controller "cpu". */
static bool has_cpu(const char *controllers) {
    for (const char *p = controllers; *p;) {
        size_t size = strcspn(p, ",");
        if (size == 3 && !memcmp(p, "cpu", 3)) return true;
        p += size + (p[size] == ',');
    }
    return false;
}

size_t cgroup_cpu_quota(const char *cgroup_file, const char *mount) {
    FILE *f = fopen(cgroup_file, "r");
    if (!f) return 0;
    size_t smallest = 0;
    char line[PATH_SIZE];
    /* "0::/group" is version 2, "4:cpu,cpuacct:/group" version 1 */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        size_t quota = 0;
        if (!*controllers) {
            quota = smallest_quota(mount, group, folder_quota_v2);
        } else if (has_cpu(controllers)) {
            char v1_mount[PATH_SIZE];
            /* a link to cpu,cpuacct where they are joined */
            snprintf(v1_mount, sizeof v1_mount, "%.2000s/cpu", mount);
            quota = smallest_quota(v1_mount, group, folder_quota_v1);
        }
        if (quota && (!smallest || quota < smallest)) smallest = quota;
    }
    fclose(f);
    return smallest;
}
