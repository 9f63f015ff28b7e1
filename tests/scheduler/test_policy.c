/* BatchMaker's choice of the next cell type (Algorithm 1, lines 5-10). */
#include "scheduler/policy.h"
#include "tests/util.h"

static uint32_t choose(const struct sched_candidate *candidates, uint32_t n)
{
    return sched_policy_cellular.choose(candidates, n);
}

START_TEST(test_only_candidate_is_chosen)
{
    struct sched_candidate one[] = {{.ready = 1, .running = 9, .rows_max = 64}};
    ck_assert_uint_eq(choose(one, 1), 0);
}
END_TEST

START_TEST(test_full_batch_goes_before_priority_and_idleness)
{
    struct sched_candidate all[] = {
        {.ready = 3, .running = 0, .rows_max = 4, .priority = 9, .oldest = 0},
        {.ready = 4, .running = 5, .rows_max = 4, .priority = 0, .oldest = 8},
        {.ready = 7, .running = 1, .rows_max = 8, .priority = 9, .oldest = 1},
    };
    ck_assert_uint_eq(choose(all, 3), 1);
}
END_TEST

START_TEST(test_type_with_nothing_running_goes_before_priority)
{
    struct sched_candidate all[] = {
        {.ready = 3, .running = 1, .rows_max = 4, .priority = 9, .oldest = 0},
        {.ready = 1, .running = 0, .rows_max = 4, .priority = 0, .oldest = 8},
    };
    ck_assert_uint_eq(choose(all, 2), 1);
}
END_TEST

START_TEST(test_highest_priority_among_full_idle_and_running_types)
{
    for (uint32_t kind = 0; kind < 3; kind++) {
        uint32_t ready = kind == 0 ? 4 : 3;
        uint32_t running = kind == 2 ? 1 : 0;
        struct sched_candidate all[] = {
            {.ready = ready, .running = running, .rows_max = 4, .priority = 1, .oldest = 0},
            {.ready = ready, .running = running, .rows_max = 4, .priority = 2, .oldest = 8},
            {.ready = ready, .running = running, .rows_max = 4, .priority = 1, .oldest = 1},
        };
        ck_assert_uint_eq(choose(all, 3), 1);
    }
}
END_TEST

START_TEST(test_longest_wait_among_equals)
{
    struct sched_candidate all[] = {
        {.ready = 3, .rows_max = 4, .priority = 1, .oldest = 5},
        {.ready = 1, .rows_max = 4, .priority = 1, .oldest = 3},
        {.ready = 2, .rows_max = 4, .priority = 1, .oldest = 4},
    };
    ck_assert_uint_eq(choose(all, 3), 1);
}
END_TEST

static void choose_from_none(void *unused)
{
    (void)unused;
    struct sched_candidate none = {.ready = 0};
    (void)choose(&none, 0);
}

START_TEST(test_no_candidate_is_asserted)
{
    ck_assert(util_aborts(choose_from_none, NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *tcase = tcase_create("policy");
    tcase_add_test(tcase, test_only_candidate_is_chosen);
    tcase_add_test(tcase, test_full_batch_goes_before_priority_and_idleness);
    tcase_add_test(tcase, test_type_with_nothing_running_goes_before_priority);
    tcase_add_test(tcase, test_highest_priority_among_full_idle_and_running_types);
    tcase_add_test(tcase, test_longest_wait_among_equals);
    tcase_add_test(tcase, test_no_candidate_is_asserted);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
