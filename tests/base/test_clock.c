/* The clocks: direction, unit, and deadlines that saturate. */
#include "base/clock.h"

#include "tests/util.h"

#include <time.h>

START_TEST(test_monotonic_clock_never_goes_back)
{
    uint64_t last = base_now_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = base_now_ns();
        ck_assert_uint_ge(now, last);
        last = now;
    }
}
END_TEST

START_TEST(test_clock_counts_nanoseconds)
{
    uint64_t before = base_now_ns();
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    ck_assert_int_eq(nanosleep(&pause, NULL), 0);
    uint64_t passed = base_now_ns() - before;
    ck_assert_uint_ge(passed, 20 * BASE_NS_PER_MS);
    ck_assert_uint_lt(passed, 60 * BASE_NS_PER_S);
}
END_TEST

START_TEST(test_wall_clock_is_in_our_time)
{
    uint64_t year_2020 = 1577836800u * BASE_NS_PER_S;
    ck_assert_uint_gt(base_wall_ns(), year_2020);
}
END_TEST

START_TEST(test_cpu_time_passes_with_work_not_with_sleep)
{
    uint64_t start = base_thread_cpu_ns();
    while (base_thread_cpu_ns() - start < BASE_NS_PER_MS) {
    }
    ck_assert_uint_ge(base_process_cpu_ns(), BASE_NS_PER_MS);

    start = base_thread_cpu_ns();
    struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    ck_assert_int_eq(nanosleep(&pause, NULL), 0);
    ck_assert_uint_lt(base_thread_cpu_ns() - start, 40 * BASE_NS_PER_MS);
}
END_TEST

START_TEST(test_deadline_saturates_at_never)
{
    ck_assert_uint_eq(base_deadline_after(5, 7), 12);
    ck_assert_uint_eq(base_deadline_after(5, BASE_NEVER), BASE_NEVER);
    ck_assert_uint_eq(base_deadline_after(BASE_NEVER, 1), BASE_NEVER);
    ck_assert_uint_eq(base_deadline_after(1, BASE_NEVER - 1), BASE_NEVER);
    ck_assert_uint_eq(base_deadline_after(1, BASE_NEVER - 2), BASE_NEVER - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *tcase = tcase_create("clock");
    tcase_add_test(tcase, test_monotonic_clock_never_goes_back);
    tcase_add_test(tcase, test_clock_counts_nanoseconds);
    tcase_add_test(tcase, test_wall_clock_is_in_our_time);
    tcase_add_test(tcase, test_cpu_time_passes_with_work_not_with_sleep);
    tcase_add_test(tcase, test_deadline_saturates_at_never);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
