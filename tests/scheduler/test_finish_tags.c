/* Who goes first of requests that one batch has no room for: small ones before large ones, but none
 * is overtaken for ever. Random worlds: test_simulation.c. */
#include "tests/scheduler/sim_case.h"
#include "tests/util.h"

static const struct cell_type *lstm; /* one input, two states, one output */
static struct sim_case now;
static struct sim *sim;

/* One row a batch, so that somebody waits. */
static void setup(void)
{
    sim_case_open(&now);
    sim = now.sim;
    lstm = graphs_type_token(&now.types, 1, 2, 1, 1);
    now.types.types[lstm->id].flops = GRAPHS_FLOPS;
    now.options.rows_max = 1;
    now.options.run_steps_max = 4;
    sim_case_start(&now);
}

static void teardown(void)
{
    sim_case_close(&now);
}

static const struct sim_graph *add_chain(uint32_t steps)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 1);
    recipe_node(&recipe, lstm, steps);
    return sim_case_add(&now, &recipe);
}

/* The next batch has this request's row, from a step on; it is computed. */
static void expect(const struct sim_graph *graph, uint32_t first_step)
{
    const struct cell_batch *batch = sim_next(sim, 0);
    ck_assert_ptr_nonnull(batch);
    ck_assert_uint_eq(batch->n_rows, 1);
    ck_assert_ptr_eq(sim_graph_of(&batch->rows[0]), graph);
    ck_assert_uint_eq(batch->rows[0].first_step, first_step);
    ck_assert(sim_execute(sim, 0, UINT32_MAX, BASE_OK));
    ck_assert(sim_retire(sim, 0));
}

START_TEST(test_small_request_goes_before_a_large_one_that_came_first)
{
    const struct sim_graph *large = add_chain(40);
    const struct sim_graph *small = add_chain(5);
    const struct sim_graph *smaller = add_chain(2);
    expect(smaller, 0);
    expect(small, 0);
    expect(small, 4);
    expect(large, 0);
}
END_TEST

START_TEST(test_equal_requests_go_as_they_came)
{
    const struct sim_graph *first = add_chain(6);
    const struct sim_graph *second = add_chain(6);
    expect(first, 0);
    const struct sim_graph *third = add_chain(6);
    expect(first, 4);
    expect(second, 0);
    expect(second, 4);
    expect(third, 0);
}
END_TEST

/* It waits for the end of a run, and the large one goes on where it was. */
START_TEST(test_small_request_overtakes_one_that_is_under_way)
{
    const struct sim_graph *large = add_chain(100);
    expect(large, 0);
    const struct sim_graph *small = add_chain(3);
    expect(small, 0);
    expect(large, 4);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

/* Each small one adds a step or two, and what a batch counts as: 26 in all. Those come before the
 * large one whose 8 times 2 behind what was done is no more than its 8 times 10. */
START_TEST(test_large_request_is_not_overtaken_for_ever)
{
    const struct sim_graph *large = add_chain(10);
    for (uint32_t i = 0; i < 3; i++) {
        expect(add_chain(2), 0);
    }
    const struct sim_graph *late = add_chain(2);
    expect(large, 0);
    expect(large, 4);
    expect(large, 8);
    expect(late, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("finish_tags");
    TCase *tcase = tcase_create("finish_tags");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_small_request_goes_before_a_large_one_that_came_first);
    tcase_add_test(tcase, test_equal_requests_go_as_they_came);
    tcase_add_test(tcase, test_small_request_overtakes_one_that_is_under_way);
    tcase_add_test(tcase, test_large_request_is_not_overtaken_for_ever);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
