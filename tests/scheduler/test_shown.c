/* Nodes of which somebody is told how far they are (sched_graph_show()). Random worlds with some:
 * test_simulation.c. */
#include "tests/scheduler/sim_case.h"
#include "tests/util.h"

#define FLOPS 100u /* of a step of a row */

static const struct cell_type *lstm; /* one input, two states, one output */
static struct sim_case now;
static struct sim *sim;

static void setup(void)
{
    sim_case_open(&now);
    sim = now.sim;
    lstm = graphs_type_token(&now.types, 1, 2, 1, 1);
    now.types.types[lstm->id].flops = FLOPS;
}

static void teardown(void)
{
    sim_case_close(&now);
}

/* A request of one chain; ends: after so many steps by itself; 0: not. */
static struct sim_graph *add(uint32_t steps, uint32_t ends, bool is_shown)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 1);
    recipe_node(&recipe, lstm, steps);
    if (ends > 0) {
        recipe_end(&recipe, 0, 0, ends);
    }
    recipe.is_shown = is_shown;
    return sim_case_add(&now, &recipe);
}

static void expect(uint32_t n_rows, uint32_t steps)
{
    const struct cell_batch *batch = sim_next(sim, 0);
    ck_assert_ptr_nonnull(batch);
    ck_assert_uint_eq(batch->n_rows, n_rows);
    ck_assert_uint_eq(batch->steps, steps);
}

static void finish(void)
{
    ck_assert(sim_execute(sim, 0, UINT32_MAX, BASE_OK));
    ck_assert(sim_retire(sim, 0));
}

static uint32_t shown(const struct sim_graph *graph)
{
    return atomic_load(&graph->recipe.graph->shown[0]);
}

START_TEST(test_runs_are_short_and_each_is_told)
{
    sim_case_start(&now);
    const struct sim_graph *graph = add(20, 0, true);
    expect(1, 8);
    ck_assert_uint_eq(shown(graph), 0);
    finish();
    ck_assert_uint_eq(shown(graph), 8);
    ck_assert_uint_eq(sim->n_news, 1);
    expect(1, 8);
    finish();
    ck_assert_uint_eq(shown(graph), 16);
    ck_assert_uint_eq(sim->n_news, 2);
    expect(1, 4);
    finish(); // the end is no news: it is told by itself
    ck_assert_uint_eq(sim->n_news, 2);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

START_TEST(test_nobody_is_told_of_others)
{
    sim_case_start(&now);
    add(20, 0, false);
    expect(1, 20);
    finish();
    ck_assert_uint_eq(sim->n_news, 0);
}
END_TEST

/* In company of one that is shown the others' runs are short as well. */
START_TEST(test_rows_of_others_in_the_same_batch)
{
    sim_case_start(&now);
    add(20, 0, false);
    const struct sim_graph *graph = add(30, 0, true);
    expect(2, 8);
    finish();
    ck_assert_uint_eq(shown(graph), 8);
    ck_assert_uint_eq(sim->n_news, 1);
}
END_TEST

/* The step that gave the end is no part of the answer. */
START_TEST(test_step_of_the_end_is_not_shown)
{
    sim_case_start(&now);
    const struct sim_graph *graph = add(30, 11, true);
    expect(1, 8);
    finish();
    ck_assert_uint_eq(shown(graph), 8);
    expect(1, 8);
    finish();
    ck_assert_uint_eq(sim->n_ok, 1);
    ck_assert_uint_eq(sim->n_news, 1);
}
END_TEST

/* Two chains of one request: that which is over says so while the other goes on. */
START_TEST(test_chain_that_is_over_before_another)
{
    sim_case_start(&now);
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 2);
    recipe_node(&recipe, lstm, 30);
    recipe_node(&recipe, lstm, 30);
    recipe_end(&recipe, 0, 0, 5);
    recipe.is_shown = true;
    const struct sim_graph *graph = sim_case_add(&now, &recipe);
    expect(2, 8);
    finish();
    ck_assert_uint_eq(atomic_load(&graph->recipe.graph->shown[0]), 4 | SCHED_SHOWN_ALL);
    ck_assert_uint_eq(atomic_load(&graph->recipe.graph->shown[1]), 8);
    ck_assert_uint_eq(sim->n_news, 2); // when the one had ended, and behind the run
}
END_TEST

/* Steps of large cells are told one by one. */
START_TEST(test_operations_bound_a_run)
{
    static const struct {
        uint64_t flops;
        uint32_t rows, steps;
    } cases[] = {
        {0, 3, 8},         {8 * FLOPS, 1, 8}, {7 * FLOPS, 1, 7},
        {7 * FLOPS, 3, 2}, {1, 3, 1},         {900000, 3, 8},
    };
    now.options.run_flops_shown = cases[_i].flops;
    sim_case_start(&now);
    for (uint32_t i = 0; i < cases[_i].rows; i++) {
        add(20, 0, i == 0);
    }
    expect(cases[_i].rows, cases[_i].steps);
}
END_TEST

START_TEST(test_stopped_graph_has_no_news)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(20, 0, true);
    expect(1, 8);
    ck_assert(sim_execute(sim, 0, UINT32_MAX, BASE_OK));
    sim_cancel(sim, graph, BASE_CANCELLED);
    ck_assert(sim_retire(sim, 0));
    ck_assert_uint_eq(sim->n_finished, 1);
    ck_assert_uint_eq(sim->n_news, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shown");
    TCase *tcase = tcase_create("nodes");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_runs_are_short_and_each_is_told);
    tcase_add_test(tcase, test_nobody_is_told_of_others);
    tcase_add_test(tcase, test_rows_of_others_in_the_same_batch);
    tcase_add_test(tcase, test_step_of_the_end_is_not_shown);
    tcase_add_test(tcase, test_chain_that_is_over_before_another);
    tcase_add_loop_test(tcase, test_operations_bound_a_run, 0, 6);
    tcase_add_test(tcase, test_stopped_graph_has_no_news);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
