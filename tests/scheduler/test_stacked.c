/* Layers over layers: which chains are put into a batch behind the one whose steps they read, how
 * far they may come, and how they go on. Random worlds: test_simulation.c. */
#include "tests/scheduler/sim_case.h"
#include "tests/util.h"

enum { LEAST = 10 };

static struct sim_case now;
static struct sim *sim;

static void setup(void)
{
    sim_case_open_beside(&now);
    sim = now.sim;
    for (uint32_t t = 0; t < SIM_CASE_TYPES; t++) {
        sim->follow_rows[t] = SIM_CASE_FEW;
    }
    now.options.follow_steps_min = LEAST;
}

static void teardown(void)
{
    sim_case_close(&now);
}

/* Layers of the first types, one over the other, of so many steps; not yet built. */
static void draft(struct recipe *recipe, uint32_t layers, uint32_t steps)
{
    recipe_init(recipe, &now.types, SIM_CASE_TYPES + 1);
    for (uint32_t l = 0; l < layers; l++) {
        recipe_node(recipe, &now.types.types[l], steps);
        if (l > 0) {
            recipe_steps(recipe, l, 0, l - 1, 0, false);
        }
    }
}

static struct sim_graph *add(uint32_t layers, uint32_t steps)
{
    struct recipe recipe;
    draft(&recipe, layers, steps);
    return sim_case_add(&now, &recipe);
}

static void check_batch(const struct cell_batch *batch, uint32_t type, uint32_t n_rows,
                        uint32_t steps)
{
    sim_case_check(&now, batch, type, n_rows, steps);
    ck_assert(batch->interruptible);
}

static void check_follower(const struct cell_batch *batch, uint32_t type, uint32_t n_rows,
                           uint32_t lead, uint32_t steps)
{
    check_batch(batch, type, n_rows, steps);
    ck_assert(batch->follows);
    ck_assert_uint_eq(batch->lead, lead);
}

START_TEST(test_two_layers_run_at_the_same_time)
{
    sim_case_start(&now);
    add(2, 50);
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 0, 1, 50);
    check_follower(batch->beside, 1, 1, 0, 50);
    ck_assert_ptr_null(sim_next(sim, 0)); // both are in flight
    sim_case_finish(&now, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

START_TEST(test_few_rows_follow)
{
    sim_case_start(&now);
    for (uint32_t r = 0; r < SIM_CASE_FEW; r++) {
        add(2, 50);
    }
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 0, SIM_CASE_FEW, 50);
    check_follower(batch->beside, 1, SIM_CASE_FEW, 0, 50);
}
END_TEST

/* Each goes on where it stood, the second as far behind as it was. */
START_TEST(test_both_are_interrupted_and_go_on)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(2, 50);
    (void)sim_next(sim, 0);
    sim_case_finish(&now, 20);
    ck_assert_uint_eq(graph->executed[0], 20);
    const uint32_t done = graph->executed[1];
    ck_assert_uint_lt(done, 20);
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 0, 1, 30);
    check_follower(batch->beside, 1, 1, 20 - done, 50 - done);
    sim_case_finish(&now, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

/* What is left of the second when the first is done is a batch like any other, with a third behind
 * it. */
START_TEST(test_the_rest_leads_the_next_layer)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(3, 50);
    check_follower(sim_next(sim, 0)->beside, 1, 1, 0, 50);
    sim_case_finish(&now, 50);
    const uint32_t done = graph->executed[1];
    ck_assert_uint_lt(done, 50 - LEAST);
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 1, 1, 50 - done);
    check_follower(batch->beside, 2, 1, done, 50);
    sim_case_finish(&now, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

/* A short rest leads nobody: who would follow waits for its end. */
START_TEST(test_few_steps_lead_nobody)
{
    sim_case_start(&now);
    const uint32_t steps = LEAST - 1 + (uint32_t)_i;
    add(2, steps);
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 0, 1, steps);
    ck_assert((batch->beside == NULL) == (_i == 0));
    sim_case_finish(&now, UINT32_MAX);
    sim_drain(sim);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

/* Of rows that stand at different steps the least lead counts for all. */
START_TEST(test_a_newcomer_follows_with_the_others)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(2, 60);
    (void)sim_next(sim, 0);
    add(2, 50);
    sim_case_finish(&now, 20);
    const uint32_t done = graph->executed[1];
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 0, 2, 40);
    check_follower(batch->beside, 1, 2, 0, 40);
    ck_assert_uint_eq(batch->beside->rows[0].first_step, done);
    ck_assert_uint_eq(batch->beside->rows[1].first_step, 0);
}
END_TEST

/* Ready rows of another type come first: they wait for nobody. */
START_TEST(test_what_is_ready_goes_before_what_follows)
{
    struct recipe recipe;
    sim_case_start(&now);
    draft(&recipe, 2, 50);
    recipe_node(&recipe, &now.types.types[2], 50);
    sim_case_add(&now, &recipe);
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 0, 1, 50);
    check_batch(batch->beside, 2, 1, 50);
    ck_assert(!batch->beside->follows);
}
END_TEST

/* Others that wait make runs shorter than is worth it. */
START_TEST(test_nobody_follows_while_others_wait)
{
    for (uint32_t t = 0; t < now.types.n; t++) {
        now.types.types[t].flops = 1; // so little work that all are equal
    }
    sim_case_start(&now);
    add(2, 50);
    for (uint32_t r = 0; r < SIM_CASE_FEW + 1; r++) { // too many to run beside the first
        struct recipe recipe;
        recipe_init(&recipe, &now.types, 1);
        recipe_node(&recipe, &now.types.types[2], 50);
        sim_case_add(&now, &recipe);
    }
    const struct cell_batch *batch = sim_next(sim, 0);
    check_batch(batch, 2, SIM_CASE_FEW + 1, 2);
    ck_assert_ptr_null(batch->beside);
    sim_case_finish(&now, UINT32_MAX);
    batch = sim_next(sim, 0);
    check_batch(batch, 0, 1, 2);
    ck_assert_ptr_null(batch->beside);
}
END_TEST

/* A batch at a time, rows leave each layer one by one: they meet in the next. */
START_TEST(test_rows_of_all_layers_meet)
{
    enum { LAYERS = 4, PRESENT = 16, REQUESTS = 400 };
    now.options.beside = false;
    for (uint32_t t = 0; t < SIM_CASE_TYPES; t++) {
        sim->priorities[t] = t;
    }
    sim_case_start(&now);
    for (uint32_t added = 0; sim->n_finished < REQUESTS;) {
        for (; added < sim->n_finished + PRESENT; added++) {
            add(LAYERS, 20 + 7 * added % 41);
        }
        ck_assert_ptr_nonnull(sim_next(sim, 0));
        sim_case_finish(&now, UINT32_MAX);
    }
    for (uint32_t t = 0; t < LAYERS; t++) {
        const struct sched_type_stats *stats = sched_type_stats(sim->sched, t);
        const uint64_t steps = atomic_load(&stats->steps);
        ck_assert_uint_ge(atomic_load(&stats->cells) * 3 * LAYERS, steps * 2 * PRESENT);
    }
    sim_drain(sim);
}
END_TEST

/* What keeps a layer from being followed. */
enum {
    TOO_MANY,
    TOO_UNLIKE,
    LOWER_HAS_TOO_MANY_TO_LEAD,
    UPPER_HAS_TOO_MANY_TO_FOLLOW,
    NOT_INTERRUPTIBLE,
    NO_SUCH_DEVICE,
    READS_THE_LAST_STATE,
    READS_BACKWARDS,
    READS_ANOTHER,
    ONE_TYPE,
    HINDRANCES
};

/* Two layers, with what of this keeps the second from following. */
static void add_hindered(int hindrance)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 3);
    const uint32_t lower = recipe_node(&recipe, &now.types.types[0], 50);
    uint32_t other = lower;
    if (hindrance == READS_ANOTHER) { // which comes behind the lower layer
        other = recipe_node(&recipe, &now.types.types[2], 1);
        recipe_input(&recipe, other, 0, lower, CELL_EMIT_OUTPUT, 0);
    }
    const uint32_t upper =
        recipe_node(&recipe, &now.types.types[hindrance == ONE_TYPE ? 0 : 1], 50);
    recipe_steps(&recipe, upper, 0, lower, 0, hindrance == READS_BACKWARDS);
    if (hindrance == READS_THE_LAST_STATE || hindrance == READS_ANOTHER) {
        recipe_state(&recipe, upper, 0, other, CELL_EMIT_STATE, 0);
    }
    sim_case_add(&now, &recipe);
}

START_TEST(test_nobody_follows)
{
    now.types.types[1].flops = _i == TOO_UNLIKE ? 151 : 150;
    now.options.interruptible = _i != NOT_INTERRUPTIBLE;
    now.options.beside = _i != NO_SUCH_DEVICE;
    sim->follow_rows[0] -= _i == LOWER_HAS_TOO_MANY_TO_LEAD ? 1 : 0;
    sim->follow_rows[1] -= _i == UPPER_HAS_TOO_MANY_TO_FOLLOW ? 1 : 0;
    sim_case_start(&now);
    const bool are_few = _i == LOWER_HAS_TOO_MANY_TO_LEAD || _i == UPPER_HAS_TOO_MANY_TO_FOLLOW;
    const uint32_t n = _i == TOO_MANY ? SIM_CASE_FEW + 1 : are_few ? SIM_CASE_FEW : 1;
    for (uint32_t r = 0; r < n; r++) {
        add_hindered(_i);
    }
    const struct cell_batch *batch = sim_next(sim, 0);
    ck_assert_ptr_nonnull(batch);
    ck_assert_ptr_null(batch->beside);
    sim_case_finish(&now, UINT32_MAX);
    sim_drain(sim);
    ck_assert_uint_eq(sim->n_ok, n);
}
END_TEST

START_TEST(test_a_cancel_ends_both)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(2, 50);
    ck_assert(sim_next(sim, 0)->beside->follows);
    sim_cancel(sim, graph, BASE_CANCELLED);
    ck_assert(sim_execute(sim, 0, 5, BASE_OK));
    ck_assert(sim_retire(sim, 0));
    ck_assert_uint_eq(sim->n_finished, 0);
    ck_assert(sim_retire(sim, 0));
    ck_assert_uint_eq(sim->n_finished, 1);
    ck_assert_uint_eq(sim->n_ok, 0);
}
END_TEST

/* Before the second has been in a batch again. */
START_TEST(test_a_cancel_between_two_batches)
{
    sim_case_start(&now);
    struct sim_graph *graph = add(2, 50);
    (void)sim_next(sim, 0);
    sim_case_finish(&now, 20);
    sim_cancel(sim, graph, BASE_CANCELLED);
    ck_assert_uint_eq(sim->n_finished, 1);
}
END_TEST

START_TEST(test_both_fail)
{
    sim_case_start(&now);
    add(2, 50);
    ck_assert(sim_next(sim, 0)->beside->follows);
    ck_assert(sim_execute(sim, 0, 1, BASE_UNAVAILABLE));
    while (sim_retire(sim, 0)) {
    }
    ck_assert_uint_eq(sim->n_finished, 1);
    ck_assert_uint_eq(sim->n_ok, 0);
}
END_TEST

int main(void)
{
    sim_report_aborts();
    Suite *suite = suite_create("stacked");
    TCase *tcase = tcase_create("stacked");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_two_layers_run_at_the_same_time);
    tcase_add_test(tcase, test_few_rows_follow);
    tcase_add_test(tcase, test_both_are_interrupted_and_go_on);
    tcase_add_test(tcase, test_the_rest_leads_the_next_layer);
    tcase_add_loop_test(tcase, test_few_steps_lead_nobody, 0, 2);
    tcase_add_test(tcase, test_a_newcomer_follows_with_the_others);
    tcase_add_test(tcase, test_what_is_ready_goes_before_what_follows);
    tcase_add_test(tcase, test_nobody_follows_while_others_wait);
    tcase_add_test(tcase, test_rows_of_all_layers_meet);
    tcase_add_loop_test(tcase, test_nobody_follows, 0, HINDRANCES);
    tcase_add_test(tcase, test_a_cancel_ends_both);
    tcase_add_test(tcase, test_a_cancel_between_two_batches);
    tcase_add_test(tcase, test_both_fail);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
