/* Batches that the scheduler forms to run side by side: of which types, with which rows, and how
 * long. Random worlds: test_simulation.c. */
#include "tests/scheduler/sim_case.h"
#include "tests/util.h"

static struct sim_case now;
static struct sim *sim;

static void setup(void)
{
    sim_case_open_beside(&now);
    sim = now.sim;
}

static void teardown(void)
{
    sim_case_close(&now);
}

/* A request of some chains, of the first types, that do not read each other. */
static struct sim_graph *add(uint32_t n, const uint32_t *steps)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, n);
    for (uint32_t t = 0; t < n; t++) {
        recipe_node(&recipe, &now.types.types[t], steps[t]);
    }
    return sim_case_add(&now, &recipe);
}

START_TEST(test_both_directions_of_a_request_run_to_their_ends)
{
    sim_case_start(&now);
    add(2, (uint32_t[]){50, 60});
    const struct cell_batch *batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 0, 1, 50);
    sim_case_check(&now, batch->beside, 1, 1, 60);
    ck_assert(batch->interruptible && batch->beside->interruptible);
    ck_assert_ptr_null(batch->beside->beside);
    ck_assert_ptr_null(sim_next(sim, 0)); // both are in flight
    sim_case_finish(&now, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

START_TEST(test_without_such_a_device_they_take_turns)
{
    now.options.beside = false;
    sim_case_start(&now);
    add(2, (uint32_t[]){50, 60});
    const struct cell_batch *batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 0, 1, 2);
    ck_assert_ptr_null(batch->beside);
    sim_case_finish(&now, UINT32_MAX);
    sim_case_check(&now, sim_next(sim, 0), 1, 1, 2);
}
END_TEST

/* Where one is interrupted first, it goes on alone, or beside what has come. */
START_TEST(test_what_is_left_goes_on_alone)
{
    sim_case_start(&now);
    add(2, (uint32_t[]){5, 60});
    sim_case_check(&now, sim_next(sim, 0), 0, 1, 5);
    sim_case_finish(&now, 5);
    ck_assert_uint_eq(sim->graphs[0]->executed[0], 5);
    const uint32_t left = 60 - sim->graphs[0]->executed[1];
    ck_assert_uint_lt(left, 60);
    const struct cell_batch *batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 1, 1, left);
    ck_assert_ptr_null(batch->beside);
    add(1, (uint32_t[]){9});
    sim_case_finish(&now, 1);
    batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 0, 1, 9);
    sim_case_check(&now, batch->beside, 1, 1, left - 1);
}
END_TEST

START_TEST(test_many_rows_have_nothing_beside_them)
{
    const uint32_t many_of = (uint32_t)_i;
    sim_case_start(&now);
    for (uint32_t r = 0; r < SIM_CASE_FEW + 1; r++) {
        add(2, (uint32_t[]){many_of == 0 || r < SIM_CASE_FEW ? 20 : 1,
                            many_of == 1 || r < SIM_CASE_FEW ? 20 : 1});
    }
    // The rows of one step leave; of the other type there are too many.
    const struct cell_batch *batch = sim_next(sim, 0);
    ck_assert_uint_eq(batch->n_rows, SIM_CASE_FEW + 1);
    ck_assert_ptr_null(batch->beside);
    sim_case_finish(&now, 1);
    batch = sim_next(sim, 0);
    ck_assert_uint_eq(batch->n_rows, SIM_CASE_FEW + 1);
    ck_assert_ptr_null(batch->beside);
    sim_case_finish(&now, 1);
    batch = sim_next(sim, 0);
    ck_assert_uint_eq(batch->n_rows, many_of == 0 ? SIM_CASE_FEW + 1 : SIM_CASE_FEW);
    ck_assert_ptr_null(batch->beside);
    sim_case_finish(&now, 1);
    batch = sim_next(sim, 0);
    ck_assert_uint_eq(batch->n_rows, many_of == 0 ? SIM_CASE_FEW : SIM_CASE_FEW + 1);
    ck_assert_ptr_null(batch->beside);
}
END_TEST

/* As many as a batch takes count, not all that are ready. */
START_TEST(test_few_rows_by_the_size_of_a_batch)
{
    now.options.rows_max = SIM_CASE_FEW;
    sim_case_start(&now);
    for (uint32_t r = 0; r < SIM_CASE_FEW + 2; r++) {
        add(2, (uint32_t[]){20, 20});
    }
    const struct cell_batch *batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 0, SIM_CASE_FEW,
                   20); // those that wait for their own type do not shorten it
    sim_case_check(&now, batch->beside, 1, SIM_CASE_FEW, 20);
}
END_TEST

START_TEST(test_others_that_wait_shorten_both)
{
    sim->priorities[2] = 1;
    sim_case_start(&now);
    add(4, (uint32_t[]){20, 20, 20, 20});
    const struct cell_batch *batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 2, 1, 2);
    sim_case_check(&now, batch->beside, 0, 1, 2);
    sim_case_finish(&now, UINT32_MAX);
    // The others have waited longer.
    batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 1, 1, 2);
    sim_case_check(&now, batch->beside, 3, 1, 2);
}
END_TEST

/* Both end when somebody comes: who has the longer steps would keep the other waiting. */
START_TEST(test_steps_of_both_are_about_as_long)
{
    const bool is_much_longer = _i % 2 == 1;
    now.types.types[_i / 2].flops = is_much_longer ? 151 : 150;
    sim_case_start(&now);
    add(2, (uint32_t[]){20, 20});
    ck_assert((sim_next(sim, 0)->beside == NULL) == is_much_longer);
}
END_TEST

/* A run of what ends by itself goes on for some steps while others wait: not beside one that stops
 * at once. */
START_TEST(test_what_ends_by_itself_has_nothing_beside_it)
{
    struct recipe recipe;
    sim_case_start(&now);
    recipe_init(&recipe, &now.types, 2);
    recipe_node(&recipe, &now.types.types[0], 20);
    recipe_node(&recipe, &now.types.types[1], 20);
    recipe_end(&recipe, (uint32_t)_i, 0, 15);
    sim_case_add(&now, &recipe);
    ck_assert_ptr_null(sim_next(sim, 0)->beside);
}
END_TEST

/* What is submitted counts as done for its own type alone. */
START_TEST(test_nothing_is_formed_beside_what_is_in_flight)
{
    now.options.interruptible = false;
    now.options.run_steps_max = 4;
    now.options.tasks_max = 3;
    sim_case_start(&now);
    add(1, (uint32_t[]){20});
    const struct cell_batch *batch = sim_next(sim, 0);
    sim_case_check(&now, batch, 0, 1, 4);
    ck_assert_ptr_null(batch->beside);
    add(2, (uint32_t[]){20, 20});
    for (uint32_t i = 0; i < 2; i++) {
        batch = sim_next(sim, 0);
        ck_assert_ptr_nonnull(batch);
        ck_assert_ptr_null(batch->beside);
    }
}
END_TEST

START_TEST(test_a_cancel_ends_both)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(2, (uint32_t[]){50, 60});
    ck_assert_ptr_nonnull(sim_next(sim, 0)->beside);
    sim_cancel(sim, graph, BASE_CANCELLED);
    ck_assert_uint_eq(sim->n_finished, 0);
    ck_assert(sim_execute(sim, 0, 1, BASE_OK));
    ck_assert(sim_retire(sim, 0));
    ck_assert_uint_eq(sim->n_finished, 0); // its other half is still there
    ck_assert(sim_retire(sim, 0));
    ck_assert_uint_eq(sim->n_finished, 1);
    ck_assert_uint_eq(sim->n_ok, 0);
}
END_TEST

START_TEST(test_both_fail)
{
    sim_case_start(&now);
    add(2, (uint32_t[]){50, 60});
    ck_assert_ptr_nonnull(sim_next(sim, 0)->beside);
    ck_assert(sim_execute(sim, 0, 1, BASE_UNAVAILABLE));
    ck_assert(sim_retire(sim, 0));
    ck_assert(sim_retire(sim, 0));
    ck_assert_uint_eq(sim->n_finished, 1);
    ck_assert_uint_eq(sim->n_ok, 0);
}
END_TEST

int main(void)
{
    sim_report_aborts();
    Suite *suite = suite_create("side by side");
    TCase *tcase = tcase_create("side by side");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_both_directions_of_a_request_run_to_their_ends);
    tcase_add_test(tcase, test_without_such_a_device_they_take_turns);
    tcase_add_test(tcase, test_what_is_left_goes_on_alone);
    tcase_add_loop_test(tcase, test_many_rows_have_nothing_beside_them, 0, 2);
    tcase_add_test(tcase, test_few_rows_by_the_size_of_a_batch);
    tcase_add_test(tcase, test_others_that_wait_shorten_both);
    tcase_add_loop_test(tcase, test_steps_of_both_are_about_as_long, 0, 4);
    tcase_add_loop_test(tcase, test_what_ends_by_itself_has_nothing_beside_it, 0, 2);
    tcase_add_test(tcase, test_nothing_is_formed_beside_what_is_in_flight);
    tcase_add_test(tcase, test_a_cancel_ends_both);
    tcase_add_test(tcase, test_both_fail);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
