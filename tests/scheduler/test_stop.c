/* Requests that do not run to their end: cancelled in every phase, or on a device that fails. */
#include "tests/scheduler/sim_case.h"
#include "tests/util.h"

static const struct cell_type *lstm; /* one input, two states, one output */
static const struct cell_type *leaf; /* one input, two outputs, no state */
static struct sim_case now;
static struct sim *sim;

static void setup(void)
{
    sim_case_open(&now);
    sim = now.sim;
    lstm = graphs_type_token(&now.types, 1, 2, 1, 1);
    leaf = graphs_type_token(&now.types, 1, 0, 2, 1);
}

static void teardown(void)
{
    sim_case_close(&now);
}

/* A chain, and a stage on its last output. */
static struct sim_graph *add(uint32_t steps)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 2);
    recipe_node(&recipe, lstm, steps);
    recipe_node(&recipe, leaf, 1);
    recipe_input(&recipe, 1, 0, 0, CELL_EMIT_OUTPUT, 0);
    return sim_case_add(&now, &recipe);
}

static void finish(uint32_t q, uint32_t steps_max, enum base_status status)
{
    if (sim->queues[q].n_executed == 0) {
        ck_assert(sim_execute(sim, q, steps_max, status));
    }
    ck_assert(sim_retire(sim, q));
}

static uint32_t rows_in_use(void)
{
    const struct sched_rows *rows = sched_rows_of(sim->sched);
    return sched_rows_in_use(rows, lstm->state_layout) +
           sched_rows_in_use(rows, leaf->input_layouts[0]);
}

static void check_finished(uint32_t n_finished, uint32_t n_ok)
{
    ck_assert_uint_eq(sim->n_finished, n_finished);
    ck_assert_uint_eq(sim->n_ok, n_ok);
}

START_TEST(test_cancel_before_the_first_batch_ends_it_at_once)
{
    sim_case_start(&now);
    sim_cancel(sim, add(5), BASE_CANCELLED);
    check_finished(1, 0);
    ck_assert_ptr_null(sim_next(sim, 0));
}
END_TEST

START_TEST(test_cancel_in_flight_ends_it_when_the_batch_retires)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(9);
    add(9);
    const struct cell_batch *batch = sim_next(sim, 0);
    ck_assert_uint_eq(batch->n_rows, 2);
    sim_cancel(sim, graph, BASE_DEADLINE_EXCEEDED);
    check_finished(0, 0);
    ck_assert_uint_eq(rows_in_use(), 4); // a slot and a value each, which the device still writes
    finish(0, 1, BASE_OK);
    check_finished(1, 0);
    ck_assert_uint_eq(rows_in_use(), 2);
    ck_assert_uint_eq(sim_next(sim, 0)->n_rows, 1);
}
END_TEST

START_TEST(test_cancel_with_several_batches_in_flight_waits_for_the_last)
{
    now.options.interruptible = false;
    now.options.run_steps_max = 2;
    sim_case_start(&now);
    struct sim_graph *graph = add(9);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(sim_next(sim, 0));
    }
    finish(0, UINT32_MAX, BASE_OK);
    sim_cancel(sim, graph, BASE_CANCELLED);
    ck_assert_ptr_null(sim_next(sim, 0)); // nothing more is submitted
    finish(0, UINT32_MAX, BASE_OK);
    check_finished(0, 0);
    finish(0, UINT32_MAX, BASE_OK);
    check_finished(1, 0);
    ck_assert_uint_eq(rows_in_use(), 0);
}
END_TEST

START_TEST(test_cancel_between_two_runs_ends_it_at_once)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(9);
    ck_assert_ptr_nonnull(sim_next(sim, 0));
    finish(0, 4, BASE_OK);
    ck_assert_uint_eq(rows_in_use(), 2);
    sim_cancel(sim, graph, BASE_CANCELLED);
    check_finished(1, 0);
    ck_assert_uint_eq(rows_in_use(), 0);
}
END_TEST

START_TEST(test_cancel_between_two_subgraphs_gives_the_value_back)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(3);
    ck_assert_ptr_nonnull(sim_next(sim, 0));
    finish(0, UINT32_MAX, BASE_OK);
    ck_assert_uint_eq(rows_in_use(), 1); // the value that waits for its reader
    sim_cancel(sim, graph, BASE_CANCELLED);
    check_finished(1, 0);
    ck_assert_uint_eq(rows_in_use(), 0);
}
END_TEST

START_TEST(test_cancel_in_the_last_batch_beats_success)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(3);
    ck_assert_ptr_nonnull(sim_next(sim, 0));
    finish(0, UINT32_MAX, BASE_OK);
    ck_assert_ptr_nonnull(sim_next(sim, 0));
    sim_cancel(sim, graph, BASE_CANCELLED);
    finish(0, UINT32_MAX, BASE_OK);
    check_finished(1, 0);
}
END_TEST

START_TEST(test_first_of_two_cancels_says_why)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(9);
    ck_assert_ptr_nonnull(sim_next(sim, 0));
    sim_cancel(sim, graph, BASE_DEADLINE_EXCEEDED);
    sim_cancel(sim, graph, BASE_CANCELLED); // the simulation holds the scheduler to the first
    finish(0, 1, BASE_OK);
    check_finished(1, 0);
}
END_TEST

START_TEST(test_cancel_after_the_end_does_nothing)
{
    struct sched *sched = NULL;
    struct recipe recipe;
    ck_assert_int_eq(sched_create(&now.options, &sched), BASE_OK);
    ck_assert_int_eq(sched_type_set(sched, leaf, 0, 0), BASE_OK);
    recipe_init(&recipe, &now.types, 1);
    recipe_node(&recipe, leaf, 1);
    recipe_build(&recipe);
    sched_cancel(sched, recipe.graph, BASE_CANCELLED, 0); // nor before it is added
    sched_add(sched, recipe.graph, 0);
    struct cell_batch *batch = sched_next(sched, 0, 0);
    batch->rows[0].steps_done = batch->steps_done = 1;
    sched_retire(sched, batch, 1);
    sched_cancel(sched, recipe.graph, BASE_CANCELLED, 2);
    ck_assert_ptr_eq(sched_take_finished(sched), recipe.graph);
    ck_assert_int_eq(recipe.graph->status, BASE_OK);
    sched_cancel(sched, recipe.graph, BASE_CANCELLED, 3);
    ck_assert_ptr_null(sched_take_finished(sched));
    sched_check(sched);
    sched_free(sched);
    recipe_release(&recipe);
}
END_TEST

START_TEST(test_cancel_all_stops_every_request_in_its_phase)
{
    now.options.rows_max = 2;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 5; i++) {
        add(4);
    }
    ck_assert_uint_eq(sim_next(sim, 0)->n_rows, 2);
    sim_cancel_all(sim, BASE_UNAVAILABLE);
    check_finished(3, 0);
    finish(0, 1, BASE_OK);
    check_finished(5, 0);
    sim_cancel_all(sim, BASE_UNAVAILABLE);
    check_finished(5, 0);
}
END_TEST

START_TEST(test_failed_batch_fails_its_requests_and_no_other)
{
    now.options.rows_max = 2;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 4; i++) {
        add(4);
    }
    ck_assert_uint_eq(sim_next(sim, 0)->n_rows, 2);
    ck_assert_uint_eq(sim_next(sim, 0)->n_rows, 2);
    finish(0, 1, BASE_INTERNAL);
    check_finished(2, 0);
    finish(0, UINT32_MAX, BASE_OK);
    sim_drain(sim);
    check_finished(4, 2);
}
END_TEST

START_TEST(test_batches_behind_a_failed_one_are_of_no_account)
{
    now.options.interruptible = false;
    now.options.run_steps_max = 2;
    sim_case_start(&now);
    add(9);
    ck_assert_ptr_nonnull(sim_next(sim, 0));
    ck_assert_ptr_nonnull(sim_next(sim, 0));
    finish(0, UINT32_MAX, BASE_RESOURCE_EXHAUSTED);
    check_finished(0, 0);
    finish(0, UINT32_MAX, BASE_OK);
    check_finished(1, 0);
    ck_assert_uint_eq(rows_in_use(), 0);
}
END_TEST

START_TEST(test_request_twice_in_a_failed_batch_fails_once)
{
    sim_case_start(&now);
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 2);
    recipe_node(&recipe, lstm, 3);
    recipe_node(&recipe, lstm, 5);
    recipe_build(&recipe);
    recipe_evaluate(&recipe, graphs_cell_token);
    ck_assert_ptr_nonnull(sim_add(sim, &recipe));
    ck_assert_uint_eq(sim_next(sim, 0)->n_rows, 2);
    finish(0, 1, BASE_INTERNAL);
    check_finished(1, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stop");
    TCase *tcase = tcase_create("stop");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_cancel_before_the_first_batch_ends_it_at_once);
    tcase_add_test(tcase, test_cancel_in_flight_ends_it_when_the_batch_retires);
    tcase_add_test(tcase, test_cancel_with_several_batches_in_flight_waits_for_the_last);
    tcase_add_test(tcase, test_cancel_between_two_runs_ends_it_at_once);
    tcase_add_test(tcase, test_cancel_between_two_subgraphs_gives_the_value_back);
    tcase_add_test(tcase, test_cancel_in_the_last_batch_beats_success);
    tcase_add_test(tcase, test_first_of_two_cancels_says_why);
    tcase_add_test(tcase, test_cancel_after_the_end_does_nothing);
    tcase_add_test(tcase, test_cancel_all_stops_every_request_in_its_phase);
    tcase_add_test(tcase, test_failed_batch_fails_its_requests_and_no_other);
    tcase_add_test(tcase, test_batches_behind_a_failed_one_are_of_no_account);
    tcase_add_test(tcase, test_request_twice_in_a_failed_batch_fails_once);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
