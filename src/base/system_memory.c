#include "system_memory.h"

#include <stdio.h>

#include "cgroup.h"

/* What the kernel estimates for the whole machine. */
static bool machine_available(size_t *bytes) {
    size_t kib;
    char line[256];
    bool found = false;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "MemAvailable: %zu kB", &kib) == 1;
    if (file) fclose(file);
    if (found) *bytes = kib * 1024;
    return found;
}

bool system_memory_available(size_t *bytes) {
    size_t left;
    bool known = machine_available(bytes);
    if (!cgroup_memory_left(&left, "/proc/self/cgroup", "/sys/fs/cgroup")) return known;
    if (!known || left < *bytes) *bytes = left;
    return true;
}
