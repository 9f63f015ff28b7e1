/* Batches of many rows of a small cell, which go on though some of their rows leave
 * (run_flops_least). Random worlds with and without: test_simulation.c. */
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
static void add_chain(uint32_t steps, uint32_t ends)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 1);
    recipe_node(&recipe, lstm, steps);
    if (ends > 0) {
        recipe_end(&recipe, 0, 0, ends);
    }
    sim_case_add(&now, &recipe);
}

static void add_chains(uint32_t n, uint32_t steps)
{
    for (uint32_t i = 0; i < n; i++) {
        add_chain(steps, 0);
    }
}

static const struct cell_batch *expect(uint32_t n_rows, uint32_t steps)
{
    const struct cell_batch *batch = sim_next(sim, 0);
    ck_assert_ptr_nonnull(batch);
    ck_assert_uint_eq(batch->n_rows, n_rows);
    ck_assert_uint_eq(batch->steps, steps);
    return batch;
}

static void finish(void)
{
    ck_assert(sim_execute(sim, 0, UINT32_MAX, BASE_OK));
    ck_assert(sim_retire(sim, 0));
}

START_TEST(test_rows_leave_a_batch_that_goes_on)
{
    now.options.run_flops_least = 3 * 12 * FLOPS;
    sim_case_start(&now);
    add_chain(1, 0);
    add_chain(2, 0);
    add_chains(10, 20);
    const struct cell_batch *batch = expect(12, 3);
    ck_assert_uint_eq(batch->rows[0].steps, 1);
    ck_assert_uint_eq(batch->rows[1].steps, 2);
    ck_assert_uint_eq(batch->rows[2].steps, 3);
    finish();
    ck_assert_uint_eq(sim->n_ok, 2);
    batch = expect(10, 17); // nobody leaves before, so that newcomers may end it
    ck_assert(batch->interruptible);
    finish();
    ck_assert_uint_eq(sim->n_ok, 12);
}
END_TEST

/* What is not interrupted is not held either: the next batch has the rows that stay. */
START_TEST(test_next_batch_is_formed_behind_one_that_goes_on)
{
    now.options.run_flops_least = 2 * 8 * FLOPS;
    sim_case_start(&now);
    add_chain(1, 0);
    add_chain(3, 0);
    add_chains(7, 20);
    ck_assert(!expect(9, 1)->interruptible); // two steps of 9 rows would be too many operations
    const struct cell_batch *batch = expect(8, 2);
    ck_assert(!batch->interruptible);
    ck_assert_uint_eq(batch->rows[0].first_step, 1);
    finish();
    finish();
    ck_assert_uint_eq(sim->n_ok, 2);
    expect(7, 17);
}
END_TEST

START_TEST(test_batch_goes_on_no_longer_than_its_longest_row)
{
    now.options.run_flops_least = 1000000;
    sim_case_start(&now);
    add_chains(15, 1);
    add_chain(2, 0);
    expect(16, 2);
    finish();
    ck_assert_uint_eq(sim->n_ok, 16);
}
END_TEST

/* A step for four rows, eight at most, and no more operations than the option says. */
START_TEST(test_how_long_a_batch_goes_on)
{
    static const struct {
        uint32_t n_rows;
        uint64_t flops_least;
        uint32_t steps;
    } cases[] = {
        {7, 1000000, 1},
        {8, 1000000, 2},
        {35, 1000000, 8},
        {64, 1000000, 8},
        {64, 8ull * 64 * FLOPS, 8},
        {64, 8ull * 64 * FLOPS - 1, 7},
        {64, 2ull * 64 * FLOPS - 1, 1},
        {64, 0, 1},
    };
    now.options.run_flops_least = cases[_i].flops_least;
    sim_case_start(&now);
    add_chain(1, 0);
    add_chains(cases[_i].n_rows - 1, 20);
    expect(cases[_i].n_rows, cases[_i].steps);
}
END_TEST

START_TEST(test_run_bounds_hold_for_a_batch_that_goes_on)
{
    now.options.run_flops_least = 1000000;
    now.options.run_steps_max = 3;
    sim_case_start(&now);
    add_chain(1, 0);
    add_chains(63, 20);
    ck_assert(!expect(64, 3)->interruptible);
}
END_TEST

START_TEST(test_batch_with_a_row_that_ends_itself_does_not_go_on)
{
    now.options.run_flops_least = 1000000;
    sim_case_start(&now);
    add_chain(2, 0);
    add_chain(20, 9);
    add_chains(14, 20);
    expect(16, 2);
}
END_TEST

/* No operations are counted of a cell that only moves data: it goes on as others do. */
START_TEST(test_cell_without_operations)
{
    now.types.types[lstm->id].flops = 0;
    now.options.run_flops_least = 8;
    sim_case_start(&now);
    add_chain(1, 0);
    add_chains(63, 20);
    expect(64, 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lasting runs");
    TCase *tcase = tcase_create("batches");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_rows_leave_a_batch_that_goes_on);
    tcase_add_test(tcase, test_next_batch_is_formed_behind_one_that_goes_on);
    tcase_add_test(tcase, test_batch_goes_on_no_longer_than_its_longest_row);
    tcase_add_loop_test(tcase, test_how_long_a_batch_goes_on, 0, 8);
    tcase_add_test(tcase, test_run_bounds_hold_for_a_batch_that_goes_on);
    tcase_add_test(tcase, test_batch_with_a_row_that_ends_itself_does_not_go_on);
    tcase_add_test(tcase, test_cell_without_operations);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
