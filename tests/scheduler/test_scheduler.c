/* The scheduler, one behaviour at a time, by the batches it forms. Random worlds:
 * test_simulation.c. All runs go through the simulation, which checks values and the model beside
 * what is asked here. */
#include "base/mem.h"
#include "tests/scheduler/sim_case.h"
#include "tests/util.h"

static const struct cell_type *lstm;  /* one input, two states, one output */
static const struct cell_type *gru;   /* one input, one state, one output */
static const struct cell_type *leaf;  /* one input, two outputs, no state */
static const struct cell_type *inner; /* four inputs, two outputs, no state */
static struct sim_case now;
static struct sim *sim;

static void setup(void)
{
    sim_case_open(&now);
    sim = now.sim;
    lstm = graphs_type_token(&now.types, 1, 2, 1, 1);
    gru = graphs_type_token(&now.types, 1, 1, 1, 1);
    leaf = graphs_type_token(&now.types, 1, 0, 2, 1);
    inner = graphs_type_token(&now.types, 4, 0, 2, 1);
}

static void teardown(void)
{
    sim_case_close(&now);
}

/* A request of one node. */
static struct sim_graph *add_node(const struct cell_type *type, uint32_t steps)
{
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 1);
    recipe_node(&recipe, type, steps);
    return sim_case_add(&now, &recipe);
}

/* Executes and retires the oldest batch of a queue, an interruptible one after some steps. */
static void finish(uint32_t q, uint32_t steps_max)
{
    if (sim->queues[q].n_executed == 0) {
        ck_assert(sim_execute(sim, q, steps_max, BASE_OK));
    }
    ck_assert(sim_retire(sim, q));
}

/* The next batch of a queue is of this type, rows and steps. */
static const struct cell_batch *expect(uint32_t q, const struct cell_type *type, uint32_t n_rows,
                                       uint32_t steps)
{
    const struct cell_batch *batch = sim_next(sim, q);
    ck_assert_ptr_nonnull(batch);
    ck_assert_uint_eq(batch->type->id, type->id);
    ck_assert_uint_eq(batch->n_rows, n_rows);
    ck_assert_uint_eq(batch->steps, steps);
    return batch;
}

static void expect_none(uint32_t q)
{
    ck_assert_ptr_null(sim_next(sim, q));
}

static uint32_t rows_in_use(const struct cell_type *type)
{
    return sched_rows_in_use(sched_rows_of(sim->sched), type->state_layout);
}

/* ---- Runs ---- */

START_TEST(test_chain_alone_runs_to_its_end_in_one_batch)
{
    sim_case_start(&now);
    add_node(lstm, 100);
    const struct cell_batch *batch = expect(0, lstm, 1, 100);
    ck_assert(batch->interruptible);
    ck_assert_uint_eq(rows_in_use(lstm), 1);
    expect_none(0);
    finish(0, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 1);
    ck_assert_uint_eq(rows_in_use(lstm), 0);
    expect_none(0);
}
END_TEST

START_TEST(test_newcomer_joins_where_a_run_was_interrupted)
{
    sim_case_start(&now);
    add_node(lstm, 10);
    expect(0, lstm, 1, 10);
    add_node(lstm, 20);
    finish(0, 3);
    const struct cell_batch *batch = expect(0, lstm, 2, 7);
    ck_assert_uint_eq(batch->rows[0].first_step, 3);
    ck_assert_uint_eq(batch->rows[1].first_step, 0);
}
END_TEST

START_TEST(test_short_request_leaves_a_long_one_behind)
{
    sim_case_start(&now);
    add_node(lstm, 9);
    add_node(lstm, 2);
    expect(0, lstm, 2, 2);
    finish(0, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 1);
    ck_assert_uint_eq(rows_in_use(lstm), 1);
    expect(0, lstm, 1, 7);
}
END_TEST

START_TEST(test_run_is_bounded_by_its_options)
{
    now.options.run_steps_max = 6;
    now.options.run_steps_shared = 2;
    sim_case_start(&now);
    add_node(lstm, 20);
    expect(0, lstm, 1, 6);
    add_node(gru, 20);
    expect(0, gru, 1, 6); // nothing else waits for this queue: the lstm's row is in flight
    finish(0, UINT32_MAX);
    finish(0, UINT32_MAX);
    expect(0, lstm, 1, 2);
    expect(0, gru, 1, 6);
}
END_TEST

/* Two steps of a large cell, but of a small one as many as are worth starting. */
START_TEST(test_small_cells_run_longer_while_others_wait)
{
    now.types.types[lstm->id].flops = 100;
    now.types.types[gru->id].flops = 3;
    now.options.run_steps_max = 12;
    now.options.run_steps_shared = 2;
    now.options.run_flops_shared = 1000;
    sim_case_start(&now);
    add_node(gru, 40);
    add_node(lstm, 40);
    expect(0, gru, 1, 12); // 1,000 operations of it would be more steps than any run has
    finish(0, UINT32_MAX);
    expect(0, lstm, 1, 10);
    finish(0, UINT32_MAX);
    add_node(lstm, 40);
    expect(0, gru, 1, 12);
    finish(0, UINT32_MAX);
    expect(0, lstm, 2, 5);
    finish(0, UINT32_MAX);
    now.types.types[gru->id].flops = 501;
    expect(0, gru, 1, 2);
    finish(0, UINT32_MAX);
    now.types.types[lstm->id].flops = 0;
    expect(0, lstm, 2, 12);
}
END_TEST

START_TEST(test_run_that_cannot_be_interrupted_is_followed_at_once_by_the_next)
{
    now.options.interruptible = false;
    now.options.run_steps_max = 4;
    now.options.tasks_max = 2;
    sim_case_start(&now);
    add_node(lstm, 10);
    ck_assert(!expect(0, lstm, 1, 4)->interruptible);
    ck_assert_uint_eq(expect(0, lstm, 1, 4)->rows[0].first_step, 4);
    expect_none(0); // tasks_max in flight
    finish(0, UINT32_MAX);
    expect(0, lstm, 1, 2);
    finish(0, UINT32_MAX);
    expect_none(0); // all is submitted
    finish(0, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

/* Rows that come while a run goes on wait for it, unless they fill a batch of their own. */
START_TEST(test_only_full_batches_stand_behind_a_run)
{
    now.options.full_behind_runs = true;
    now.options.rows_max = 4;
    sim_case_start(&now);
    add_node(lstm, 10);
    ck_assert(expect(0, lstm, 1, 10)->interruptible);
    for (uint32_t i = 0; i < 3; i++) {
        add_node(lstm, 10);
        expect_none(0);
    }
    add_node(lstm, 10);
    expect(0, lstm, 4, 10);
    add_node(leaf, 3);
    expect_none(0);
    finish(0, UINT32_MAX);
    finish(0, UINT32_MAX);
    expect(0, leaf, 3, 1);
    add_node(leaf, 1);
    expect(0, leaf, 1, 1); // what cannot be interrupted is followed by anything
}
END_TEST

START_TEST(test_steps_of_a_node_without_state_are_rows)
{
    now.options.rows_max = 4;
    now.types.types[leaf->id].flops = 1; // so little work that all are equal
    sim_case_start(&now);
    add_node(leaf, 6);
    add_node(leaf, 3);
    const struct cell_batch *batch = expect(0, leaf, 4, 1);
    ck_assert(!batch->interruptible);
    ck_assert_uint_eq(batch->rows[3].first_step, 3);
    batch = expect(0, leaf, 4, 1);
    ck_assert_uint_eq(batch->rows[1].first_step, 5);
    ck_assert_uint_eq(batch->rows[2].first_step, 0);
    expect(0, leaf, 1, 1);
    finish(0, 1);
    ck_assert_uint_eq(sim->n_ok, 0);
    finish(0, 1);
    ck_assert_uint_eq(sim->n_ok, 1);
}
END_TEST

/* The same batches on a device that takes spans: as many cells, and a row for each node. */
START_TEST(test_steps_of_a_node_without_state_are_a_span)
{
    static const uint32_t wanted[3][2][2] = {{{0, 4}}, {{4, 2}, {0, 2}}, {{2, 1}}};
    static const uint32_t n_rows[] = {1, 2, 1};
    now.options.rows_max = 4;
    now.options.spans = true;
    now.types.types[leaf->id].flops = 1;
    sim_case_start(&now);
    add_node(leaf, 6);
    add_node(leaf, 3);
    for (uint32_t b = 0; b < 3; b++) {
        const struct cell_batch *batch = expect(0, leaf, n_rows[b], 1);
        for (uint32_t i = 0; i < n_rows[b]; i++) {
            ck_assert_uint_eq(batch->rows[i].first_step, wanted[b][i][0]);
            ck_assert_uint_eq(batch->rows[i].steps, wanted[b][i][1]);
        }
    }
    for (uint32_t b = 0; b < 3; b++) {
        finish(0, 1);
        ck_assert_uint_eq(sim->n_ok, b);
    }
    const struct sched_type_stats *stats = sched_type_stats(sim->sched, leaf->id);
    ck_assert_uint_eq(stats->cells, 9);
    ck_assert_uint_eq(stats->rows_sum, 9);
    ck_assert_uint_eq(stats->rows_buckets[2], 2); // up to four
}
END_TEST

START_TEST(test_node_taken_in_part_goes_on_before_the_next)
{
    now.options.rows_max = 2;
    sim_case_start(&now);
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 3);
    for (uint32_t n = 0; n < 3; n++) {
        recipe_node(&recipe, inner, 3);
    }
    recipe_input(&recipe, 2, 0, 0, CELL_EMIT_OUTPUT, 0);
    recipe_input(&recipe, 2, 1, 1, CELL_EMIT_OUTPUT, 0);
    sim_case_add(&now, &recipe);
    for (uint32_t i = 0; i < 9; i += 2) {
        const struct cell_batch *batch = expect(0, inner, i < 8 ? 2 : 1, 1);
        ck_assert_uint_eq(sim_node_of(&batch->rows[0]), i / 3);
        ck_assert_uint_eq(batch->rows[0].first_step, i % 3);
    }
}
END_TEST

/* ---- Order: types ---- */

START_TEST(test_burst_lasts_for_tasks_max_batches)
{
    now.options.rows_max = 2;
    now.options.tasks_max = 3;
    sim->priorities[inner->id] = 1;
    sim_case_start(&now);
    add_node(leaf, 20);
    expect(0, leaf, 2, 1);
    add_node(inner, 20);
    expect(0, leaf, 2, 1);
    expect(0, leaf, 2, 1);
    expect_none(0);
    finish(0, 1);
    expect(0, inner, 2, 1);
    finish(0, 1);
    expect(0, inner, 2, 1);
}
END_TEST

START_TEST(test_burst_ends_when_the_queue_has_run_empty)
{
    now.options.rows_max = 2;
    now.options.tasks_max = 3;
    sim->priorities[inner->id] = 1;
    sim_case_start(&now);
    add_node(leaf, 20);
    expect(0, leaf, 2, 1);
    add_node(inner, 20);
    finish(0, 1);
    expect(0, inner, 2, 1);
}
END_TEST

START_TEST(test_burst_ends_below_rows_min)
{
    now.options.rows_max = 4;
    now.options.rows_min = 3;
    sim_case_start(&now);
    add_node(leaf, 6);
    expect(0, leaf, 4, 1);
    add_node(inner, 1);
    expect(0, inner, 1, 1); // two leaves are less than rows_min, and no inner cell is running
    expect(0, leaf, 2, 1);  // a first batch may be small
}
END_TEST

START_TEST(test_full_batch_goes_before_higher_priority)
{
    sim->rows_max[leaf->id] = 3;
    sim->priorities[inner->id] = 7;
    sim_case_start(&now);
    add_node(inner, 9);
    add_node(leaf, 4);
    expect(0, leaf, 3, 1);
}
END_TEST

START_TEST(test_type_that_does_not_run_goes_before_higher_priority)
{
    now.options.tasks_max = 1;
    now.options.n_queues = 2;
    sim->priorities[inner->id] = 7;
    sim_case_start(&now);
    add_node(inner, 1);
    expect(0, inner, 1, 1);
    add_node(inner, 1);
    add_node(leaf, 1);
    expect(1, leaf, 1, 1);
    finish(1, 1);
    expect(1, inner, 1, 1); // the only one left, though inner cells are running
}
END_TEST

/* A device that takes one batch at a time is asked when nothing is in flight: the last type of a
 * graph must not hold back the first one's newcomers as long as it has work. */
START_TEST(test_types_take_turns_on_a_queue_that_takes_one_batch)
{
    now.options.tasks_max = 1;
    sim->priorities[gru->id] = 1;
    sim_case_start(&now);
    add_node(gru, 40);
    (void)expect(0, gru, 1, 40);
    add_node(lstm, 20);
    finish(0, 3);
    (void)expect(0, lstm, 1, 8);
    finish(0, UINT32_MAX);
    (void)expect(0, gru, 1, 8);
    finish(0, UINT32_MAX);
    (void)expect(0, lstm, 1, 8);
    finish(0, UINT32_MAX);
    (void)expect(0, gru, 1, 8);
}
END_TEST

/* A model with more requests than can be served always has a full batch: another that comes is
 * next, and again when it has more, for it has had less. */
START_TEST(test_groups_share_the_device)
{
    now.options.tasks_max = 1;
    sim->rows_max[lstm->id] = 2;
    sim->groups[gru->id] = 1;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 10; i++) {
        add_node(lstm, 1000);
    }
    (void)expect(0, lstm, 2, 256);
    add_node(gru, 40);
    finish(0, 3);
    (void)expect(0, gru, 1, 8);
    finish(0, UINT32_MAX);
    for (uint32_t turn = 0; turn < 4; turn++) { // each batch is about as much as the other's
        const struct cell_batch *batch = sim_next(sim, 0);
        ck_assert_ptr_nonnull(batch);
        finish(0, UINT32_MAX);
    }
    const struct sched_type_stats *stats = sched_type_stats(sim->sched, gru->id);
    ck_assert_uint_ge(atomic_load(&stats->batches), 3);
}
END_TEST

/* What a group did not need while it was away it does not get later. */
START_TEST(test_a_group_that_was_away_saves_nothing_up)
{
    now.options.tasks_max = 1;
    sim->groups[gru->id] = 1;
    sim_case_start(&now);
    add_node(lstm, 20000);
    for (uint32_t i = 0; i < 40; i++) {
        (void)expect(0, lstm, 1, 256);
        finish(0, UINT32_MAX);
    }
    add_node(gru, 2000);
    for (uint32_t i = 0; i < 40; i++) {
        ck_assert_ptr_nonnull(sim_next(sim, 0));
        finish(0, UINT32_MAX);
    }
    const struct sched_type_stats *stats = sched_type_stats(sim->sched, lstm->id);
    ck_assert_uint_ge(atomic_load(&stats->batches), 40 + 15);
    ck_assert_uint_le(atomic_load(&stats->batches), 40 + 25);
}
END_TEST

START_TEST(test_higher_priority_first_among_equals)
{
    sim->priorities[inner->id] = 7;
    sim_case_start(&now);
    add_node(leaf, 1);
    add_node(inner, 1);
    expect(0, inner, 1, 1);
    expect(0, leaf, 1, 1);
}
END_TEST

START_TEST(test_first_tag_first_among_equal_priorities)
{
    now.types.types[leaf->id].flops = now.types.types[inner->id].flops;
    sim_case_start(&now);
    add_node(inner, 1);
    add_node(leaf, 1);
    expect(0, inner, 1, 1);
    expect(0, leaf, 1, 1);
}
END_TEST

/* ---- Order: requests ---- */

START_TEST(test_oldest_requests_keep_their_place_until_they_are_done)
{
    now.options.rows_max = 2;
    now.options.run_steps_max = 3;
    sim_case_start(&now);
    struct sim_graph *graphs[3];
    for (uint32_t i = 0; i < 3; i++) {
        graphs[i] = add_node(lstm, i == 0 ? 3 : 6);
    }
    const struct cell_batch *batch = expect(0, lstm, 2, 3);
    ck_assert_ptr_eq(sim_graph_of(&batch->rows[0]), graphs[0]);
    ck_assert_ptr_eq(sim_graph_of(&batch->rows[1]), graphs[1]);
    finish(0, UINT32_MAX);
    batch = expect(0, lstm, 2, 3);
    ck_assert_ptr_eq(sim_graph_of(&batch->rows[0]), graphs[1]);
    ck_assert_ptr_eq(sim_graph_of(&batch->rows[1]), graphs[2]);
}
END_TEST

/* BatchMaker, section 4.4: leaves at once; inner nodes when all leaves have retired, level after
 * level, each submitted behind the one it needs. */
START_TEST(test_tree_runs_level_by_level)
{
    sim_case_start(&now);
    struct recipe recipe;
    recipe_init(&recipe, &now.types, 31);
    for (uint32_t n = 0; n < 31; n++) {
        recipe_node(&recipe, n < 16 ? leaf : inner, 1);
        for (uint32_t i = 0; n >= 16 && i < 4; i++) {
            recipe_input(&recipe, n, i, 2 * (n - 16) + i / 2, CELL_EMIT_OUTPUT, i % 2);
        }
    }
    sim_case_add(&now, &recipe);
    expect(0, leaf, 16, 1);
    expect_none(0);
    finish(0, 1);
    for (uint32_t rows = 8; rows > 0; rows /= 2) {
        expect(0, inner, rows, 1);
    }
    expect_none(0);
    uint32_t layout = inner->input_layouts[0];
    ck_assert_uint_eq(sched_rows_in_use(sched_rows_of(sim->sched), layout), 32 + 16 + 8 + 4);
    for (uint32_t in_use = 16 + 8 + 4; in_use > 4; in_use -= in_use == 28 ? 16 : 8) {
        finish(0, 1);
        ck_assert_uint_eq(sched_rows_in_use(sched_rows_of(sim->sched), layout), in_use);
    }
}
END_TEST

START_TEST(test_finished_graphs_come_out_in_their_order_with_their_times)
{
    struct sched *sched = NULL;
    struct recipe recipes[3];
    ck_assert_int_eq(sched_create(&now.options, &sched), BASE_OK);
    ck_assert_int_eq(sched_type_set(sched, leaf, 0, 2), BASE_OK);
    for (uint32_t i = 0; i < 3; i++) {
        recipe_init(&recipes[i], &now.types, 1);
        recipe_node(&recipes[i], leaf, 1);
        recipe_build(&recipes[i]);
        sched_add(sched, recipes[i].graph, 10 + i);
    }
    ck_assert_uint_eq(sched_graphs_inside(sched), 3);
    ck_assert_ptr_null(sched_take_finished(sched));
    struct cell_batch *first = sched_next(sched, 0, 20);
    struct cell_batch *second = sched_next(sched, 0, 21);
    for (uint32_t i = 0; i < 3; i++) {
        struct cell_batch_row *row = i < 2 ? &first->rows[i] : &second->rows[0];
        row->steps_done = 1;
    }
    first->steps_done = second->steps_done = 1;
    sched_retire(sched, first, 30);
    sched_retire(sched, second, 31);
    const struct sched_graph *graph = sched_take_finished(sched);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(graph, recipes[i].graph);
        ck_assert_int_eq(graph->status, BASE_OK);
        ck_assert_uint_eq(graph->started_ns, i < 2 ? 20 : 21);
        ck_assert_uint_eq(graph->finished_ns, i < 2 ? 30 : 31);
        graph = graph->next_finished;
    }
    ck_assert_ptr_null(graph);
    ck_assert_ptr_null(sched_take_finished(sched));
    sched_free(sched);
    for (uint32_t i = 0; i < 3; i++) {
        recipe_release(&recipes[i]);
    }
}
END_TEST

/* ---- Queues ---- */

START_TEST(test_subgraph_stays_on_its_queue_while_anything_of_it_is_in_flight)
{
    now.options.n_queues = 2;
    now.options.rows_max = 2;
    sim_case_start(&now);
    add_node(leaf, 8);
    expect(0, leaf, 2, 1);
    expect_none(1);
    expect(0, leaf, 2, 1);
    finish(0, 1);
    expect_none(1); // one of two is still in flight
    finish(0, 1);
    expect(1, leaf, 2, 1);
    expect_none(0);
}
END_TEST

START_TEST(test_two_queues_share_the_requests)
{
    now.options.n_queues = 2;
    now.options.rows_max = 2;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 4; i++) {
        add_node(lstm, 5);
    }
    expect(0, lstm, 2, 5);
    expect(1, lstm, 2, 5);
    finish(1, UINT32_MAX);
    ck_assert_uint_eq(sim->n_ok, 2);
}
END_TEST

/* An idle queue is not left without while another takes all. */
START_TEST(test_idle_queues_find_equal_parts)
{
    now.options.n_queues = 3;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 7; i++) {
        add_node(lstm, 5);
    }
    expect(1, lstm, 3, 5);
    expect(0, lstm, 2, 5);
    expect(2, lstm, 2, 5);
    for (uint32_t i = 0; i < 4; i++) {
        add_node(gru, 5);
    }
    finish(1, UINT32_MAX);
    expect(1, gru, 4, 5); // the others are busy
}
END_TEST

START_TEST(test_parts_are_no_smaller_than_rows_min)
{
    now.options.n_queues = 2;
    now.options.rows_min = 4;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 5; i++) {
        add_node(lstm, 5);
    }
    expect(0, lstm, 4, 5);
    expect(1, lstm, 1, 5);
}
END_TEST

/* Nothing waits behind what a queue has in flight while another queue has nothing. */
START_TEST(test_busy_queue_leaves_all_to_an_idle_one)
{
    now.options.n_queues = 2;
    sim_case_start(&now);
    add_node(lstm, 500);
    expect(0, lstm, 1, 256);
    add_node(lstm, 3);
    expect_none(0);
    expect(1, lstm, 1, 3);
    add_node(lstm, 3);
    expect(0, lstm, 1, 3); // now both are busy
}
END_TEST

/* What stands on the queue itself is taken beside its part. */
START_TEST(test_own_rows_are_taken_beside_a_part)
{
    now.options.n_queues = 2;
    now.options.interruptible = false;
    now.options.run_steps_max = 2;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 3; i++) {
        add_node(lstm, 5);
    }
    expect(0, lstm, 2, 2); // and is on queue 0 from now on
    expect(1, lstm, 1, 2);
    add_node(lstm, 5);
    expect(0, lstm, 3, 2);
}
END_TEST

START_TEST(test_other_queue_continues_what_was_interrupted)
{
    now.options.n_queues = 2;
    sim_case_start(&now);
    add_node(lstm, 10);
    expect(0, lstm, 1, 10);
    finish(0, 4);
    ck_assert_uint_eq(expect(1, lstm, 1, 6)->rows[0].first_step, 4);
}
END_TEST

/* ---- Statistics ---- */

START_TEST(test_statistics_add_up)
{
    now.options.rows_max = 3;
    sim_case_start(&now);
    for (uint32_t i = 0; i < 4; i++) {
        add_node(lstm, 5);
    }
    sim->now_ns = 100;
    expect(0, lstm, 3, 5);
    sim->now_ns = 150;
    finish(0, UINT32_MAX);
    expect(0, lstm, 1, 5);
    sim->now_ns = 157;
    finish(0, 2);
    const struct sched_type_stats *stats = sched_type_stats(sim->sched, lstm->id);
    ck_assert_uint_eq(stats->batches, 2);
    ck_assert_uint_eq(stats->steps, 7);
    ck_assert_uint_eq(stats->cells, 17);
    ck_assert_uint_eq(stats->exec_ns, 57);
    ck_assert_uint_eq(stats->rows_sum, 4);
    ck_assert_uint_eq(stats->rows_buckets[0], 1); // one row
    ck_assert_uint_eq(stats->rows_buckets[2], 1); // up to four
}
END_TEST

/* ---- Life ---- */

START_TEST(test_out_of_memory_is_a_status)
{
    struct sched *sched = NULL;
    now.options.n_queues = 3;
    for (uint64_t n = 1; n <= 5; n++) {
        base_alloc_fail_at(n);
        ck_assert_int_eq(sched_create(&now.options, &sched), BASE_RESOURCE_EXHAUSTED);
    }
    base_alloc_fail_at(0);
    ck_assert_int_eq(sched_create(&now.options, &sched), BASE_OK);
    base_alloc_fail_at(1);
    ck_assert_int_eq(sched_type_set(sched, lstm, 0, 0), BASE_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(sched_type_set(sched, lstm, 0, 0), BASE_OK);
    sched_free(sched);
    sched_free(NULL);
}
END_TEST

START_TEST(test_numbers_of_a_type_can_change)
{
    sim_case_start(&now);
    add_node(lstm, 9);
    add_node(lstm, 9);
    ck_assert_int_eq(sched_type_set(sim->sched, lstm, 0, 1), BASE_OK);
    sim->rows_max[lstm->id] = 1;
    expect(0, lstm, 1, 9);
}
END_TEST

static void add_twice(void *graph)
{
    sched_add(sim->sched, ((struct sim_graph *)graph)->recipe.graph, 0);
}

static void free_while_inside(void *unused)
{
    (void)unused;
    sched_free(sim->sched);
}

static void retire_without_a_step(void *batch)
{
    ((struct cell_batch *)batch)->steps_done = 0;
    sched_retire(sim->sched, batch, 0);
}

START_TEST(test_misuse_is_asserted)
{
    sim_case_start(&now);
    struct sim_graph *graph = add_node(lstm, 9);
    ck_assert(util_aborts(add_twice, graph));
    ck_assert(util_aborts(free_while_inside, NULL));
    struct cell_batch *batch = sim_next(sim, 0);
    ck_assert(util_aborts(retire_without_a_step, batch));
}
END_TEST

static void add_all(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_chain_alone_runs_to_its_end_in_one_batch);
    tcase_add_test(tcase, test_newcomer_joins_where_a_run_was_interrupted);
    tcase_add_test(tcase, test_short_request_leaves_a_long_one_behind);
    tcase_add_test(tcase, test_run_is_bounded_by_its_options);
    tcase_add_test(tcase, test_small_cells_run_longer_while_others_wait);
    tcase_add_test(tcase, test_run_that_cannot_be_interrupted_is_followed_at_once_by_the_next);
    tcase_add_test(tcase, test_only_full_batches_stand_behind_a_run);
    tcase_add_test(tcase, test_steps_of_a_node_without_state_are_rows);
    tcase_add_test(tcase, test_steps_of_a_node_without_state_are_a_span);
    tcase_add_test(tcase, test_node_taken_in_part_goes_on_before_the_next);
    tcase_add_test(tcase, test_burst_lasts_for_tasks_max_batches);
    tcase_add_test(tcase, test_burst_ends_when_the_queue_has_run_empty);
    tcase_add_test(tcase, test_burst_ends_below_rows_min);
    tcase_add_test(tcase, test_full_batch_goes_before_higher_priority);
    tcase_add_test(tcase, test_type_that_does_not_run_goes_before_higher_priority);
    tcase_add_test(tcase, test_types_take_turns_on_a_queue_that_takes_one_batch);
    tcase_add_test(tcase, test_groups_share_the_device);
    tcase_add_test(tcase, test_a_group_that_was_away_saves_nothing_up);
    tcase_add_test(tcase, test_higher_priority_first_among_equals);
    tcase_add_test(tcase, test_first_tag_first_among_equal_priorities);
    tcase_add_test(tcase, test_oldest_requests_keep_their_place_until_they_are_done);
    tcase_add_test(tcase, test_tree_runs_level_by_level);
    tcase_add_test(tcase, test_finished_graphs_come_out_in_their_order_with_their_times);
    tcase_add_test(tcase, test_subgraph_stays_on_its_queue_while_anything_of_it_is_in_flight);
    tcase_add_test(tcase, test_two_queues_share_the_requests);
    tcase_add_test(tcase, test_idle_queues_find_equal_parts);
    tcase_add_test(tcase, test_parts_are_no_smaller_than_rows_min);
    tcase_add_test(tcase, test_busy_queue_leaves_all_to_an_idle_one);
    tcase_add_test(tcase, test_own_rows_are_taken_beside_a_part);
    tcase_add_test(tcase, test_other_queue_continues_what_was_interrupted);
    tcase_add_test(tcase, test_statistics_add_up);
    tcase_add_test(tcase, test_out_of_memory_is_a_status);
    tcase_add_test(tcase, test_numbers_of_a_type_can_change);
    tcase_add_test(tcase, test_misuse_is_asserted);
}

int main(void)
{
    Suite *suite = suite_create("scheduler");
    TCase *tcase = tcase_create("scheduler");
    add_all(tcase);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
