/* Whether runs in flight should make room for what has become ready. */
#include "tests/scheduler/sim_case.h"
#include "tests/util.h"

static const struct cell_type *lstm; /* one input, two states, one output */
static const struct cell_type *gru;  /* one input, one state, one output */
static const struct cell_type *leaf; /* one input, two outputs, no state */
static struct sim_case now;
static struct sim *sim;

/* Two rows of an lstm are a full batch. */
static void setup(void)
{
    sim_case_open(&now);
    sim = now.sim;
    lstm = graphs_type_token(&now.types, 1, 2, 1, 1);
    gru = graphs_type_token(&now.types, 1, 1, 1, 1);
    leaf = graphs_type_token(&now.types, 1, 0, 2, 1);
    for (uint32_t t = 0; t < now.types.n; t++) {
        now.types.types[t].flops = GRAPHS_FLOPS;
    }
    now.options.tasks_max = 2;
    sim->rows_max[lstm->id] = 2;
}

static void teardown(void)
{
    sim_case_close(&now);
}

static struct sim_graph *add_node(const struct cell_type *type, uint32_t steps)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 1);
    recipe_node(&recipe, type, steps);
    return sim_case_add(&now, &recipe);
}

static const struct cell_batch *expect(const struct cell_type *type, uint32_t n_rows,
                                       uint32_t steps)
{
    const struct cell_batch *batch = sim_next(sim, 0);
    sim_case_check(&now, batch, type->id, n_rows, steps);
    return batch;
}

static void finish(uint32_t steps_max)
{
    if (sim->queues[0].n_executed == 0) {
        ck_assert(sim_execute(sim, 0, steps_max, BASE_OK));
    }
    ck_assert(sim_retire(sim, 0));
}

/* ---- Without newcomers: groups ---- */

/* Its second layer becomes ready while a batch of the other is in flight, formed behind the first.
 */
START_TEST(test_what_is_in_flight_is_pressed_by_who_has_had_less)
{
    sim->groups[gru->id] = 1;
    sim->groups[leaf->id] = 1;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 6; i++) {
        add_node(lstm, 1000);
    }
    (void)expect(lstm, 2, 256);
    ck_assert(!sched_is_pressed(sim->sched, 0)); // by its own group it is not
    finish(UINT32_MAX);
    add_node(gru, 3);
    ck_assert(!sched_is_pressed(sim->sched, 0)); // nothing is in flight
    (void)expect(gru, 1, 3);
    (void)expect(lstm, 2, 256);
    ck_assert(!sched_is_pressed(sim->sched, 0));
    finish(UINT32_MAX); // the gru's
    add_node(leaf, 1);
    ck_assert(sched_is_pressed(sim->sched, 0));
    finish(1);
    ck_assert(!sched_is_pressed(sim->sched, 0));
    (void)expect(leaf, 1, 1);
}
END_TEST

/* ---- Newcomers ---- */

static bool is_in_way(void)
{
    return sched_is_in_way(sim->sched, 0);
}

/* A full batch of two requests of 20 steps. */
static void start_full(void)
{
    sim_case_start(&now);
    ck_assert(!is_in_way());
    add_node(lstm, 20);
    add_node(lstm, 20);
    (void)expect(lstm, 2, 20);
    ck_assert(!is_in_way()); // nobody has come
}

START_TEST(test_a_run_with_room_is_in_the_way)
{
    sim_case_start(&now);
    add_node(lstm, 20);
    (void)expect(lstm, 1, 20);
    ck_assert(!is_in_way());
    add_node(lstm, 30);
    ck_assert(is_in_way());
    finish(4);
    ck_assert(!is_in_way()); // nothing is in flight
    (void)expect(lstm, 2, 16);
    ck_assert(!is_in_way());
}
END_TEST

START_TEST(test_a_full_run_is_in_the_way_of_smaller_requests_only)
{
    start_full();
    add_node(lstm, 20);
    add_node(lstm, 21);
    ck_assert(!is_in_way());
    add_node(lstm, 19);
    ck_assert(is_in_way());
}
END_TEST

/* It would go before the last row, whose request is larger, but the run is over before. */
START_TEST(test_a_short_run_is_in_nobodys_way)
{
    now.options.run_steps_max = 5;
    sim_case_start(&now);
    add_node(lstm, 20);
    add_node(lstm, 20);
    (void)expect(lstm, 2, 5);
    add_node(lstm, 6);
    ck_assert(!is_in_way());
    add_node(lstm, 4);
    ck_assert(is_in_way());
}
END_TEST

START_TEST(test_other_types_of_the_group)
{
    start_full();
    add_node(leaf, 30); // what reads it would find no room
    ck_assert(!is_in_way());
    add_node(gru, 30); // it can run by itself
    ck_assert(is_in_way());
}
END_TEST

START_TEST(test_groups_that_have_had_less)
{
    sim->groups[gru->id] = 1;
    start_full();
    finish(4);
    (void)expect(lstm, 2, 16);
    add_node(gru, 500); // smaller or not
    ck_assert(is_in_way());
    finish(1);
    (void)expect(gru, 1, 8);
    add_node(lstm, 3);
    ck_assert(!is_in_way());
}
END_TEST

START_TEST(test_who_is_stopped_leaves_a_full_run)
{
    sim_case_start(&now);
    struct sim_graph *graph = add_node(lstm, 20);
    add_node(lstm, 20);
    (void)expect(lstm, 2, 20);
    sim_cancel(sim, graph, BASE_CANCELLED);
    ck_assert(is_in_way());
}
END_TEST

START_TEST(test_what_cannot_be_interrupted_is_not_in_the_way)
{
    now.options.interruptible = false;
    sim_case_start(&now);
    add_node(lstm, 20);
    (void)expect(lstm, 1, 20);
    add_node(lstm, 3);
    ck_assert(!is_in_way());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("press");
    TCase *tcase = tcase_create("press");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_what_is_in_flight_is_pressed_by_who_has_had_less);
    tcase_add_test(tcase, test_a_run_with_room_is_in_the_way);
    tcase_add_test(tcase, test_a_full_run_is_in_the_way_of_smaller_requests_only);
    tcase_add_test(tcase, test_a_short_run_is_in_nobodys_way);
    tcase_add_test(tcase, test_other_types_of_the_group);
    tcase_add_test(tcase, test_groups_that_have_had_less);
    tcase_add_test(tcase, test_who_is_stopped_leaves_a_full_run);
    tcase_add_test(tcase, test_what_cannot_be_interrupted_is_not_in_the_way);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
