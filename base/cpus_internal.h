/* What base/cpus.c shares with its tests. */
#ifndef BASE_CPUS_INTERNAL_H
#define BASE_CPUS_INTERNAL_H

#include <stdint.h>

/* CPUs that the control groups in the text of /proc/self/cgroup allow, looked up in the file system
 * mounted at root; rounded up, at least 1. UINT32_MAX when no group has a quota. */
uint32_t base_cpus__quota(const char *self_cgroup, const char *root);

#endif
