/* The open loop's schedule: a Poisson process, the same for the same seed, with a clean end. */
#include "loadgen/plan.h"

#include "base/clock.h"
#include "loadgen/timers.h"
#include "tests/util.h"

#include <check.h>
#include <math.h>

static struct lg_plan plan;
static struct base_error error;

static void create(double rate, uint64_t seed, uint64_t warmup_ms, uint64_t duration_ms,
                   uint64_t cooldown_ms, uint64_t requests)
{
    struct lg_plan_spec spec = {.rate = rate,
                                .seed = seed,
                                .warmup_ns = warmup_ms * BASE_NS_PER_MS,
                                .duration_ns = duration_ms * BASE_NS_PER_MS,
                                .cooldown_ns = cooldown_ms * BASE_NS_PER_MS,
                                .requests = requests};
    ck_assert_int_eq(lg_plan_create(&spec, &plan, &error), BASE_OK);
}

static void release(void)
{
    lg_plan_release(&plan);
}

START_TEST(test_plan_same_seed_same_times)
{
    create(5000, 42, 100, 1000, 100, 0);
    struct lg_plan first = plan;
    create(5000, 42, 100, 1000, 100, 0);
    ck_assert_uint_eq(plan.count, first.count);
    ck_assert_mem_eq(plan.planned_ns, first.planned_ns, plan.count * sizeof(uint64_t));
    lg_plan_release(&plan);
    create(5000, 43, 100, 1000, 100, 0);
    ck_assert(plan.count != first.count || plan.planned_ns[0] != first.planned_ns[0]);
    lg_plan_release(&first);
}
END_TEST

START_TEST(test_plan_gaps_are_exponential)
{
    const double rate = 10000;
    create(rate, util_seed(), 0, 20000, 0, 0);
    util_assert_close(plan.count, rate * 20, 0, 0.01); // standard deviation 0.22 %
    double sum = 0;
    double squares = 0;
    size_t above_mean = 0;
    for (size_t i = 1; i < plan.count; i++) {
        ck_assert_uint_ge(plan.planned_ns[i], plan.planned_ns[i - 1]);
        double gap = (double)(plan.planned_ns[i] - plan.planned_ns[i - 1]);
        sum += gap;
        squares += gap * gap;
        above_mean += gap > 1e9 / rate;
    }
    double n = (double)(plan.count - 1);
    double mean = sum / n;
    util_assert_close(mean, 1e9 / rate, 0, 0.01);
    util_assert_close(sqrt(squares / n - mean * mean), mean, 0, 0.02); // deviation = mean
    util_assert_close((double)above_mean / n, exp(-1), 0, 0.02);
}
END_TEST

START_TEST(test_plan_window_divides_the_requests)
{
    create(2000, util_seed(), 300, 1000, 200, 0);
    ck_assert_uint_eq(plan.window_start_ns, 300 * BASE_NS_PER_MS);
    ck_assert_uint_eq(plan.window_end_ns, 1300 * BASE_NS_PER_MS);
    ck_assert_uint_eq(plan.end_ns, 1500 * BASE_NS_PER_MS);
    for (size_t i = 0; i < plan.count; i++) {
        bool measured = i >= plan.measured_first && i < plan.measured_end;
        bool inside =
            plan.planned_ns[i] >= plan.window_start_ns && plan.planned_ns[i] < plan.window_end_ns;
        ck_assert(measured == inside);
        ck_assert_uint_lt(plan.planned_ns[i], plan.end_ns);
    }
    ck_assert_uint_gt(plan.measured_first, 0);
    ck_assert_uint_lt(plan.measured_end, plan.count);
}
END_TEST

START_TEST(test_plan_by_requests_measures_exactly_so_many)
{
    create(2000, util_seed(), 100, 0, 100, 777);
    ck_assert_uint_eq(plan.measured_end - plan.measured_first, 777);
    ck_assert_uint_ge(plan.planned_ns[plan.measured_first], plan.window_start_ns);
    ck_assert_uint_le(plan.planned_ns[plan.measured_end - 1], plan.window_end_ns);
    ck_assert_uint_eq(plan.end_ns, plan.window_end_ns + 100 * BASE_NS_PER_MS);
}
END_TEST

START_TEST(test_plan_behind_the_end_is_never)
{
    create(1000, util_seed(), 0, 100, 0, 0);
    ck_assert_uint_gt(plan.count, 0);
    ck_assert_uint_lt(lg_plan_time(&plan, plan.count - 1), BASE_NEVER);
    ck_assert_uint_eq(lg_plan_time(&plan, plan.count), BASE_NEVER);
    ck_assert_uint_eq(lg_plan_time(&plan, SIZE_MAX), BASE_NEVER);
    lg_plan_release(&plan);
    create(0.001, 1, 0, 1, 0, 0); // most likely nothing comes in a millisecond
    ck_assert_uint_eq(plan.count, 0);
    ck_assert_uint_eq(lg_plan_time(&plan, 0), BASE_NEVER);
}
END_TEST

START_TEST(test_missed_limit_is_a_millisecond_or_five_gaps)
{
    ck_assert_uint_eq(lg_missed_limit_ns(100000), 1000000);
    ck_assert_uint_eq(lg_missed_limit_ns(5000), 1000000);
    ck_assert_uint_eq(lg_missed_limit_ns(1000), 5000000);
    ck_assert_uint_eq(lg_missed_limit_ns(10), 500000000);
}
END_TEST

START_TEST(test_timers_come_out_in_order)
{
    struct lg_timers timers;
    lg_timers_init(&timers);
    ck_assert_uint_eq(lg_timers_next(&timers), BASE_NEVER);
    struct lg_timer timer;
    ck_assert(!lg_timers_pop(&timers, BASE_NEVER, &timer));
    struct base_random random = util_random(1);
    static uint64_t times[1000];
    for (size_t i = 0; i < 1000; i++) {
        times[i] = 1 + base_random_below(&random, 500);
        timer = (struct lg_timer){.when_ns = times[i], .what = &times[i], .number = i};
        ck_assert(lg_timers_add(&timers, timer));
    }
    ck_assert(!lg_timers_pop(&timers, lg_timers_next(&timers) - 1, &timer));
    uint64_t last = 0;
    for (size_t i = 0; i < 1000; i++) {
        uint64_t next = lg_timers_next(&timers);
        ck_assert(lg_timers_pop(&timers, next, &timer));
        ck_assert_uint_eq(timer.when_ns, next);
        ck_assert_ptr_eq(timer.what, &times[timer.number]);
        ck_assert_uint_eq(times[timer.number], next);
        ck_assert_uint_ge(next, last);
        last = next;
    }
    ck_assert_uint_eq(timers.count, 0);
    lg_timers_release(&timers);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tcase = tcase_create("schedule");
    tcase_add_checked_fixture(tcase, NULL, release);
    tcase_add_test(tcase, test_plan_same_seed_same_times);
    tcase_add_test(tcase, test_plan_gaps_are_exponential);
    tcase_add_test(tcase, test_plan_window_divides_the_requests);
    tcase_add_test(tcase, test_plan_by_requests_measures_exactly_so_many);
    tcase_add_test(tcase, test_plan_behind_the_end_is_never);
    tcase_add_test(tcase, test_missed_limit_is_a_millisecond_or_five_gaps);
    tcase_add_test(tcase, test_timers_come_out_in_order);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
