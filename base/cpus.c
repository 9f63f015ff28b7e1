/* Affinity and quota of this process, read once at the first call; any thread.
 *
 * Version 2: /proc/self/cgroup has the line `0::/path`, and every directory from there up to the
 * root may hold a cpu.max (`quota period` or `max period`). Version 1: `n:...,cpu,...:/path`, and
 * cpu.cfs_quota_us and cpu.cfs_period_us below a mount called cpu or cpu,cpuacct. The smallest
 * quota on the way up counts. In a container the path may be the host's and not exist below our
 * mount; then only the directories that do exist are seen, the mount's own root among them. */
#include "base/cpus.h"

#include "base/assert.h"
#include "base/cpus_internal.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NO_QUOTA UINT32_MAX

/* The kernel's own limit (CONFIG_NR_CPUS) is 8192; a cpu_set_t holds 1024. */
#define MASK_SETS 8u

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cpu_set_t process_mask[MASK_SETS];
static uint32_t mask_count;
static uint32_t allowed;

/* Reads at most size - 1 bytes of a small file as text; false when there is none. */
static bool read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    size_t length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    (void)fclose(file);
    return length > 0;
}

static uint32_t cpus_from(long long quota_us, long long period_us)
{
    if (quota_us <= 0 || period_us <= 0) {
        return NO_QUOTA;
    }
    long long cpus = (quota_us - 1) / period_us + 1;
    return cpus < (long long)NO_QUOTA ? (uint32_t)cpus : NO_QUOTA;
}

/* Quota of one directory, from cpu.max or from the pair of files of version 1. */
static uint32_t quota_in(const char *directory)
{
    char path[PATH_MAX + 32];
    char text[64];
    (void)snprintf(path, sizeof(path), "%s/cpu.max", directory);
    if (read_text(path, text, sizeof(text))) {
        char *end = NULL;
        long long quota = strtoll(text, &end, 10); // 0 for "max"
        return cpus_from(quota, strtoll(end, NULL, 10));
    }
    (void)snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", directory);
    if (!read_text(path, text, sizeof(text))) {
        return NO_QUOTA;
    }
    long long quota = strtoll(text, NULL, 10); // -1 for none
    (void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", directory);
    if (!read_text(path, text, sizeof(text))) {
        return NO_QUOTA;
    }
    return cpus_from(quota, strtoll(text, NULL, 10));
}

/* Smallest quota from mount/path up to mount itself. */
static uint32_t quota_upwards(const char *mount, const char *path)
{
    char directory[PATH_MAX];
    int length = snprintf(directory, sizeof(directory), "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof(directory)) {
        return NO_QUOTA;
    }
    size_t mount_length = strlen(mount);
    uint32_t smallest = NO_QUOTA;
    for (;;) {
        uint32_t quota = quota_in(directory);
        smallest = quota < smallest ? quota : smallest;
        char *slash = strrchr(directory + mount_length, '/');
        if (slash == NULL) {
            return smallest;
        }
        *slash = '\0';
    }
}

static bool has_controller(const char *controllers, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = controllers; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* One line of /proc/self/cgroup, `number:controllers:path`, which it takes apart. */
static uint32_t quota_of_line(char *line, const char *root)
{
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL) {
        return NO_QUOTA;
    }
    *path++ = '\0';
    controllers++;
    if (*controllers == '\0') {
        return quota_upwards(root, path);
    }
    if (!has_controller(controllers, "cpu")) {
        return NO_QUOTA;
    }
    static const char *const mounts[] = {"cpu", "cpu,cpuacct"};
    uint32_t smallest = NO_QUOTA;
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        char mount[PATH_MAX];
        (void)snprintf(mount, sizeof(mount), "%s/%s", root, mounts[i]);
        uint32_t quota = quota_upwards(mount, path);
        smallest = quota < smallest ? quota : smallest;
    }
    return smallest;
}

uint32_t base_cpus__quota(const char *self_cgroup, const char *root)
{
    uint32_t smallest = NO_QUOTA;
    const char *line = self_cgroup;
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        char copy[PATH_MAX];
        if (length < sizeof(copy)) {
            memcpy(copy, line, length);
            copy[length] = '\0';
            uint32_t quota = quota_of_line(copy, root);
            smallest = quota < smallest ? quota : smallest;
        }
        line += length + (line[length] == '\n');
    }
    return smallest;
}

static void read_machine(void)
{
    CPU_ZERO_S(sizeof(process_mask), process_mask);
    // The main thread's mask: a thread that calls first may be pinned already.
    if (sched_getaffinity(getpid(), sizeof(process_mask), process_mask) == 0) {
        mask_count = (uint32_t)CPU_COUNT_S(sizeof(process_mask), process_mask);
    }
    uint32_t quota = NO_QUOTA;
    char self_cgroup[2 * PATH_MAX];
    if (read_text("/proc/self/cgroup", self_cgroup, sizeof(self_cgroup))) {
        quota = base_cpus__quota(self_cgroup, "/sys/fs/cgroup");
    }
    allowed = mask_count == 0 ? 1 : mask_count;
    allowed = quota < allowed ? quota : allowed;
}

uint32_t base_cpus_allowed(void)
{
    base_assert(pthread_once(&once, read_machine) == 0);
    base_assert(allowed > 0);
    return allowed;
}

enum base_status base_cpus_pin_self(uint32_t index)
{
    base_assert(pthread_once(&once, read_machine) == 0);
    if (index >= mask_count) {
        return BASE_UNAVAILABLE;
    }
    size_t cpu = 0; // ends: the mask has more than index CPUs
    for (uint32_t seen = 0;; cpu++) {
        if (CPU_ISSET_S(cpu, sizeof(process_mask), process_mask) && seen++ == index) {
            break;
        }
    }
    cpu_set_t one[MASK_SETS];
    CPU_ZERO_S(sizeof(one), one);
    CPU_SET_S(cpu, sizeof(one), one);
    return sched_setaffinity(0, sizeof(one), one) == 0 ? BASE_OK : BASE_UNAVAILABLE;
}

int32_t base_cpus_thread(void)
{
    return gettid();
}

/* A thread that waits on a CPU which it may no longer use is moved at once, and nothing moves it
 * back when it may again. */
enum base_status base_cpus_send_away(int32_t thread)
{
    cpu_set_t mask[MASK_SETS];
    cpu_set_t others[MASK_SETS];
    int own = sched_getcpu();
    if (own < 0 || sched_getaffinity(thread, sizeof(mask), mask) != 0) {
        return BASE_UNAVAILABLE;
    }
    memcpy(others, mask, sizeof(others));
    CPU_CLR_S((size_t)own, sizeof(others), others);
    if (CPU_COUNT_S(sizeof(others), others) == 0 ||
        sched_setaffinity(thread, sizeof(others), others) != 0) {
        return BASE_UNAVAILABLE;
    }
    return sched_setaffinity(thread, sizeof(mask), mask) == 0 ? BASE_OK : BASE_UNAVAILABLE;
}

size_t base_cpus_cache_bytes(uint32_t level)
{
    static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                                _SC_LEVEL3_CACHE_SIZE};
    long bytes = level >= 1 && level <= 3 ? sysconf(names[level - 1]) : 0;
    return bytes > 0 ? (size_t)bytes : 0;
}

size_t base_cpus_l2_bytes(void)
{
    const size_t bytes = base_cpus_cache_bytes(2);
    return bytes > 0 ? bytes : (size_t)1 << 20;
}

bool base_cpus_l3_is_near(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

bool base_cpus_bf16_is_fast(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") == 0;
#else
    return true;
#endif
}

void base_cpus_model(char out[BASE_CPUS_MODEL_BYTES])
{
    static const char start[] = "model name";
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    (void)snprintf(out, BASE_CPUS_MODEL_BYTES, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, start, strlen(start)) == 0) {
            const char *text = line + strlen(start);
            text += strspn(text, " \t:");
            (void)snprintf(out, BASE_CPUS_MODEL_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void base_thread_name(const char *name)
{
    char cut[16];
    (void)snprintf(cut, sizeof(cut), "%s", name);
    (void)prctl(PR_SET_NAME, cut);
}
