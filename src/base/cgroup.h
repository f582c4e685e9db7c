/* CPU quota and memory limit of the control group this process is in (Linux; versions 1 and 2). */
#ifndef CGROUP_H
#define CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* CPUs the quota allows, rounded up, or 0 where there is no quota.  cgroup_file is normally
 * "/proc/self/cgroup" and mount "/sys/fs/cgroup"; tests give a tree of their own.  The smallest
 * quota on the way from the group to the mount's root counts, the root included: inside a container
 * the group's own path often does not exist below the mount. */
size_t cgroup_cpu_quota(const char *cgroup_file, const char *mount);

/* Bytes that may still be taken before a memory limit is reached; false where there is none.  File
 * pages that the groups have only read count as free, for the system gives them up first.  The
 * least of the folders counts, found as for the quota. */
bool cgroup_memory_left(size_t *bytes, const char *cgroup_file, const char *mount);

#endif
