/* BatchMaker's choice of the next cell type (Algorithm 1, lines 5-10). */
#include "scheduler/policy.h"
#include "tests/util.h"

#include <string.h>

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
        {.ready = 3, .running = 0, .rows_max = 4, .priority = 9, .finish_tag = 0},
        {.ready = 4, .running = 5, .rows_max = 4, .priority = 0, .finish_tag = 8},
        {.ready = 7, .running = 1, .rows_max = 8, .priority = 9, .finish_tag = 1},
    };
    ck_assert_uint_eq(choose(all, 3), 1);
}
END_TEST

START_TEST(test_type_with_nothing_running_goes_before_priority)
{
    struct sched_candidate all[] = {
        {.ready = 3, .running = 1, .rows_max = 4, .priority = 9, .finish_tag = 0},
        {.ready = 1, .running = 0, .rows_max = 4, .priority = 0, .finish_tag = 8},
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
            {.ready = ready, .running = running, .rows_max = 4, .priority = 1, .finish_tag = 0},
            {.ready = ready, .running = running, .rows_max = 4, .priority = 2, .finish_tag = 8},
            {.ready = ready, .running = running, .rows_max = 4, .priority = 1, .finish_tag = 1},
        };
        ck_assert_uint_eq(choose(all, 3), 1);
    }
}
END_TEST

/* However late in the graph; neither many rows nor a long wait alone decide. */
START_TEST(test_rows_that_have_waited_longest_among_idle_types)
{
    struct sched_candidate all[] = {
        {.ready = 9, .rows_max = 64, .priority = 0, .turns = 2},
        {.ready = 1, .rows_max = 64, .priority = 2, .turns = 9},
        {.ready = 2, .rows_max = 64, .priority = 1, .turns = 8},
    };
    ck_assert_uint_eq(choose(all, 3), 0); // 18, 9, 16
    all[1].turns = 19;
    ck_assert_uint_eq(choose(all, 3), 1);
    all[2].ready = 3;
    ck_assert_uint_eq(choose(all, 3), 2);
    all[0].turns = UINT64_C(1) << 33; // more batches than 32 bits count
    ck_assert_uint_eq(choose(all, 3), 0);
}
END_TEST

START_TEST(test_first_tag_among_equals)
{
    struct sched_candidate all[] = {
        {.ready = 3, .running = 1, .rows_max = 4, .priority = 1, .finish_tag = 5},
        {.ready = 1, .running = 1, .rows_max = 4, .priority = 1, .finish_tag = 3},
        {.ready = 2, .running = 1, .rows_max = 4, .priority = 1, .finish_tag = 4},
    };
    ck_assert_uint_eq(choose(all, 3), 1);
    for (uint32_t i = 0; i < 3; i++) {
        all[i].finish_tag = 3;
        all[i].order = (i + 1) % 3;
    }
    ck_assert_uint_eq(choose(all, 3), 2); // as they were released
}
END_TEST

START_TEST(test_least_served_group_goes_before_full_batches)
{
    struct sched_candidate all[] = {
        {.ready = 9, .rows_max = 4, .priority = 9, .finish_tag = 0, .served = 11},
        {.ready = 1, .running = 1, .rows_max = 4, .finish_tag = 8, .served = 10},
        {.ready = 1, .rows_max = 4, .finish_tag = 9, .served = 10},
    };
    ck_assert_uint_eq(choose(all, 3), 2); // nothing of it runs
    all[0].served = 10;
    ck_assert_uint_eq(choose(all, 3), 0);
}
END_TEST

/* However their types look, groups get as much as each other, give or take a batch. */
START_TEST(test_groups_share_evenly)
{
    enum { TYPES = 8, GROUPS = 4, TURNS = 20000, MOST = 1000 };
    struct sched_candidate all[TYPES];
    struct base_random random = util_random(3);
    memset(all, 0, sizeof(all));
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        for (uint32_t t = 0; t < TYPES; t++) {
            all[t].ready = t % GROUPS == 0 ? 1 : 1 + base_random_below(&random, 8);
            all[t].rows_max = 4;
            all[t].priority = t;
            all[t].running = t % GROUPS == 0 ? 1 : base_random_below(&random, 2);
            all[t].finish_tag = base_random_below(&random, 1000);
        }
        const uint32_t chosen = choose(all, TYPES);
        const uint64_t cost = 1 + base_random_below(&random, MOST);
        for (uint32_t t = 0; t < TYPES; t++) {
            all[t].served += t % GROUPS == chosen % GROUPS ? cost : 0;
        }
        for (uint32_t g = 1; g < GROUPS; g++) {
            const uint64_t served = all[g].served;
            ck_assert_uint_le(served, all[0].served + MOST);
            ck_assert_uint_le(all[0].served, served + MOST);
        }
    }
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
    tcase_add_test(tcase, test_rows_that_have_waited_longest_among_idle_types);
    tcase_add_test(tcase, test_first_tag_among_equals);
    tcase_add_test(tcase, test_least_served_group_goes_before_full_batches);
    tcase_add_test(tcase, test_groups_share_evenly);
    tcase_add_test(tcase, test_no_candidate_is_asserted);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
