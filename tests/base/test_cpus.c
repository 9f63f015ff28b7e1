/* The CPUs: quotas of both cgroup versions out of a made-up tree, affinity and names on the real
 * machine. */
#include "base/cpus.h"

#include "base/cpus_internal.h"
#include "tests/util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static char root[UTIL_PATH_BYTES];

static void setup(void)
{
    util_temp_dir(root);
}

static void teardown(void)
{
    util_remove_tree(root);
}

static void put(const char *name, const char *text)
{
    char path[2 * UTIL_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    util_write_file(path, text);
}

START_TEST(test_no_file_is_no_quota)
{
    ck_assert_uint_eq(base_cpus__quota("", root), UINT32_MAX);
    ck_assert_uint_eq(base_cpus__quota("0::/\n", root), UINT32_MAX);
    ck_assert_uint_eq(base_cpus__quota("0::/some/group\n", root), UINT32_MAX);
    ck_assert_uint_eq(base_cpus__quota("4:cpu,cpuacct:/some\n", root), UINT32_MAX);
}
END_TEST

START_TEST(test_v2_quota_is_rounded_up)
{
    put("a/cpu.max", "250000 100000\n");
    ck_assert_uint_eq(base_cpus__quota("0::/a\n", root), 3);
    put("a/cpu.max", "200000 100000\n");
    ck_assert_uint_eq(base_cpus__quota("0::/a\n", root), 2);
    put("a/cpu.max", "1000 100000\n");
    ck_assert_uint_eq(base_cpus__quota("0::/a\n", root), 1);
    put("a/cpu.max", "max 100000\n");
    ck_assert_uint_eq(base_cpus__quota("0::/a\n", root), UINT32_MAX);
    put("a/cpu.max", "9000000000000000000 1\n");
    ck_assert_uint_eq(base_cpus__quota("0::/a\n", root), UINT32_MAX);
}
END_TEST

START_TEST(test_v2_smallest_ancestor_counts)
{
    put("a/cpu.max", "300000 100000\n");
    put("a/b/cpu.max", "max 100000\n");
    put("a/b/c/cpu.max", "700000 100000\n");
    ck_assert_uint_eq(base_cpus__quota("0::/a/b/c\n", root), 3);
    put("cpu.max", "200000 100000\n");
    ck_assert_uint_eq(base_cpus__quota("0::/a/b/c\n", root), 2);
    ck_assert_uint_eq(base_cpus__quota("0::/not/below/our/mount\n", root), 2);
    ck_assert_uint_eq(base_cpus__quota("0::/\n", root), 2);
}
END_TEST

START_TEST(test_v1_quota_in_either_mount)
{
    const char *groups = "9:name=systemd:/\n4:memory:/m\n2:cpuacct:/\n1:cpu:/docker/x\n";
    put("cpu/docker/x/cpu.cfs_quota_us", "-1\n");
    put("cpu/docker/x/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(base_cpus__quota(groups, root), UINT32_MAX);
    put("cpu/docker/x/cpu.cfs_quota_us", "150000\n");
    ck_assert_uint_eq(base_cpus__quota(groups, root), 2);

    put("cpu,cpuacct/y/cpu.cfs_quota_us", "100000\n");
    put("cpu,cpuacct/y/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(base_cpus__quota("3:cpu,cpuacct:/y\n", root), 1);
    ck_assert_uint_eq(base_cpus__quota("3:cpuacct,cpu:/y\n", root), 1);
    ck_assert_uint_eq(base_cpus__quota("3:cpuset,cpuacct:/y\n", root), UINT32_MAX);
}
END_TEST

START_TEST(test_hybrid_takes_the_smaller_of_both_versions)
{
    put("cpu/cpu.cfs_quota_us", "400000\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    put("g/cpu.max", "600000 100000\n");
    ck_assert_uint_eq(base_cpus__quota("1:cpu:/\n0::/g\n", root), 4);
    put("g/cpu.max", "200000 100000\n");
    ck_assert_uint_eq(base_cpus__quota("1:cpu:/\n0::/g", root), 2);
}
END_TEST

START_TEST(test_malformed_texts_are_no_quota)
{
    const char *bad[] = {"",          "x",        "100000",    "100000 0",
                         "-5 100000", "0 100000", "100000 -1", "max"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put("a/cpu.max", bad[i]);
        ck_assert_uint_eq(base_cpus__quota("0::/a\n", root), UINT32_MAX);
    }
    put("cpu/a/cpu.cfs_quota_us", "100000\n"); // its period is missing
    ck_assert_uint_eq(base_cpus__quota("1:cpu:/a\n", root), UINT32_MAX);
    ck_assert_uint_eq(base_cpus__quota("\n\n:\n::\nabc\n0:", root), UINT32_MAX);

    static char endless[20000];
    memset(endless, 'x', sizeof(endless) - 1);
    memcpy(endless, "0::/", 4);
    ck_assert_uint_eq(base_cpus__quota(endless, root), UINT32_MAX);
    endless[4090] = '\0'; // fits a line, but not a path
    ck_assert_uint_eq(base_cpus__quota(endless, root), UINT32_MAX);
}
END_TEST

START_TEST(test_allowed_is_within_the_affinity_mask)
{
    cpu_set_t mask;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(mask), &mask), 0);
    ck_assert_uint_ge(base_cpus_allowed(), 1);
    ck_assert_uint_le(base_cpus_allowed(), (uint32_t)CPU_COUNT(&mask));
}
END_TEST

static void *pin_each(void *argument)
{
    const cpu_set_t *process_mask = argument;
    uint32_t count = (uint32_t)CPU_COUNT(process_mask);
    for (uint32_t i = 0; i < count; i++) {
        // The mask is the process's, so a pinned thread can still move to another CPU.
        ck_assert_int_eq(base_cpus_pin_self(i), BASE_OK);
        cpu_set_t mask;
        ck_assert_int_eq(sched_getaffinity(0, sizeof(mask), &mask), 0);
        ck_assert_int_eq(CPU_COUNT(&mask), 1);
        ck_assert(CPU_ISSET((size_t)sched_getcpu(), process_mask));
    }
    ck_assert_int_eq(base_cpus_pin_self(count), BASE_UNAVAILABLE);
    ck_assert_int_eq(base_cpus_pin_self(UINT32_MAX), BASE_UNAVAILABLE);
    return NULL;
}

START_TEST(test_pin_moves_the_calling_thread_only)
{
    cpu_set_t before;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, pin_each, &before), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    cpu_set_t after;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
    ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

static void *name_self(void *argument)
{
    char name[16] = "";
    base_thread_name("pool");
    ck_assert_int_eq(prctl(PR_GET_NAME, name), 0);
    ck_assert_str_eq(name, "pool");
    base_thread_name("a-name-longer-than-15");
    ck_assert_int_eq(prctl(PR_GET_NAME, name), 0);
    ck_assert_str_eq(name, "a-name-longer-t");
    return argument;
}

#define AWAY_ROUNDS 20u

/* A thread that always wants to run, and says where it does. */
struct spinner {
    _Atomic int32_t number;
    _Atomic int cpu;
    _Atomic bool stop;
    pthread_t thread;
};

static void *spin(void *argument)
{
    struct spinner *spinner = argument;
    atomic_store(&spinner->number, base_cpus_thread());
    while (!atomic_load(&spinner->stop)) {
        atomic_store(&spinner->cpu, sched_getcpu());
    }
    return NULL;
}

static void spinner_start(struct spinner *spinner)
{
    atomic_init(&spinner->number, 0);
    atomic_init(&spinner->cpu, -1);
    atomic_init(&spinner->stop, false);
    ck_assert_int_eq(pthread_create(&spinner->thread, NULL, spin, spinner), 0);
    while (atomic_load(&spinner->cpu) < 0) {
        sched_yield();
    }
}

static void spinner_stop(struct spinner *spinner)
{
    atomic_store(&spinner->stop, true);
    ck_assert_int_eq(pthread_join(spinner->thread, NULL), 0);
}

/* The CPU that a thread runs on, or waits for. */
static size_t cpu_of(int32_t number)
{
    char path[64];
    char text[1024];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", number);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(text, sizeof(text), file));
    (void)fclose(file);
    const char *field = strrchr(text, ')'); // 2, may hold blanks
    for (int i = 2; i < 39 && field != NULL; i++) {
        field = strchr(field + 1, ' ');
    }
    ck_assert_ptr_nonnull(field);
    return strtoul(field, NULL, 10);
}

static void set_mask(int32_t thread, const cpu_set_t *mask)
{
    ck_assert_int_eq(sched_setaffinity(thread, sizeof(*mask), mask), 0);
}

START_TEST(test_a_thread_that_waits_for_this_cpu_is_sent_away)
{
    struct spinner spinner;
    cpu_set_t all;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    if (CPU_COUNT(&all) < 2) {
        return; // there is nowhere to send it; the next test is about that
    }
    spinner_start(&spinner);
    int32_t number = atomic_load(&spinner.number);
    uint32_t away = 0;
    for (uint32_t round = 0; round < AWAY_ROUNDS; round++) {
        // Both on one CPU; then the other may leave it, but has no reason to until it is its turn.
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        set_mask(0, &one);
        set_mask(number, &one);
        set_mask(number, &all);
        ck_assert_int_eq(base_cpus_send_away(number), BASE_OK);
        away += CPU_ISSET(cpu_of(number), &one) ? 0 : 1;
        cpu_set_t after;
        ck_assert_int_eq(sched_getaffinity(number, sizeof(after), &after), 0);
        ck_assert(CPU_EQUAL(&after, &all));
        set_mask(0, &all);
    }
    spinner_stop(&spinner);
    // The kernel balances at times of its own, between two lines of this test too.
    ck_assert_uint_ge(away, AWAY_ROUNDS - 2);
}
END_TEST

START_TEST(test_nobody_is_sent_where_it_may_not_run)
{
    struct spinner spinner;
    cpu_set_t one;
    cpu_set_t before;
    spinner_start(&spinner);
    int32_t number = atomic_load(&spinner.number);
    ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    set_mask(0, &one);
    set_mask(number, &one);
    ck_assert_int_eq(base_cpus_send_away(number), BASE_UNAVAILABLE);
    cpu_set_t after;
    ck_assert_int_eq(sched_getaffinity(number, sizeof(after), &after), 0);
    ck_assert(CPU_EQUAL(&after, &one));
    set_mask(0, &before);
    spinner_stop(&spinner);
    // It is joined a moment before the kernel forgets it.
    while (base_cpus_send_away(number) == BASE_OK) {
        sched_yield();
    }
}
END_TEST

START_TEST(test_thread_name_is_cut)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, name_self, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(test_cache_levels)
{
    size_t l1 = base_cpus_cache_bytes(1);
    size_t l2 = base_cpus_cache_bytes(2);
    ck_assert(l1 == 0 || l2 == 0 || l1 < l2);
    ck_assert_uint_eq(base_cpus_cache_bytes(0), 0);
    ck_assert_uint_eq(base_cpus_cache_bytes(4), 0);
}
END_TEST

/* Of AMD's processors alone, as the kernel names the vendor. */
START_TEST(test_l3_is_near_by_the_vendor)
{
    char line[512];
    bool is_amd = false;
    FILE *file = fopen("/proc/cpuinfo", "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        is_amd |= strncmp(line, "vendor_id", 9) == 0 && strstr(line, "AuthenticAMD") != NULL;
    }
    (void)fclose(file);
    ck_assert(base_cpus_l3_is_near() == is_amd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cpus");
    TCase *quota = tcase_create("quota");
    tcase_add_checked_fixture(quota, setup, teardown);
    tcase_add_test(quota, test_no_file_is_no_quota);
    tcase_add_test(quota, test_v2_quota_is_rounded_up);
    tcase_add_test(quota, test_v2_smallest_ancestor_counts);
    tcase_add_test(quota, test_v1_quota_in_either_mount);
    tcase_add_test(quota, test_hybrid_takes_the_smaller_of_both_versions);
    tcase_add_test(quota, test_malformed_texts_are_no_quota);
    suite_add_tcase(suite, quota);
    TCase *machine = tcase_create("machine");
    tcase_add_test(machine, test_allowed_is_within_the_affinity_mask);
    tcase_add_test(machine, test_pin_moves_the_calling_thread_only);
    tcase_add_test(machine, test_a_thread_that_waits_for_this_cpu_is_sent_away);
    tcase_add_test(machine, test_nobody_is_sent_where_it_may_not_run);
    tcase_add_test(machine, test_thread_name_is_cut);
    tcase_add_test(machine, test_cache_levels);
    tcase_add_test(machine, test_l3_is_near_by_the_vendor);
    suite_add_tcase(suite, machine);
    return util_run(suite);
}
