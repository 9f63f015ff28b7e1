/* What the builder of cell graphs refuses, each by its message, and how it runs out of memory. */
#include "base/mem.h"
#include "scheduler/graph.h"
#include "tests/scheduler/graphs.h"
#include "tests/util.h"

#include <string.h>

static struct graphs_types types;
static const struct cell_type *lstm; /* one input, two states, one output */
static const struct cell_type *wide; /* the same in rows of another width */
static struct base_arena arena;
static struct sched_builder builder;

#define STEPS 4u
static uint64_t rows[STEPS];
static const struct cell_emit emit_output = {.what = CELL_EMIT_OUTPUT, .when = CELL_EMIT_EACH};

static void setup(void)
{
    memset(&types, 0, sizeof(types));
    lstm = graphs_type_token(&types, 1, 2, 1, 1);
    wide = graphs_type_token(&types, 1, 2, 1, 2);
    base_arena_init(&arena, 4096, 1 << 20);
    // Three nodes, two values, two edges; the first node is there.
    sched_builder_init(&builder, &arena, 3, 2, 2);
    ck_assert_uint_eq(sched_builder_node(&builder, lstm, STEPS, 2), 0);
}

static void teardown(void)
{
    base_arena_release(&arena);
}

/* ---- One mistake each ---- */

static void node_of_no_steps(void)
{
    (void)sched_builder_node(&builder, lstm, 0, 0);
}

static void one_node_too_many(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        (void)sched_builder_node(&builder, lstm, 1, 0);
    }
}

static void input_of_no_node(void)
{
    sched_builder_input_host(&builder, 1, 0, rows, 8);
}

static void value_of_no_node(void)
{
    (void)sched_builder_value(&builder, 1, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
}

static void emit_of_no_node(void)
{
    sched_builder_emit(&builder, 1, emit_output);
}

static void after_of_no_node(void)
{
    sched_builder_after(&builder, 1, 0);
}

static void no_such_input(void)
{
    sched_builder_input_host(&builder, 0, 1, rows, 8);
}

static void no_such_input_for_a_value(void)
{
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
    sched_builder_input_value(&builder, sched_builder_node(&builder, lstm, 1, 0), 1, value);
}

static void no_such_state(void)
{
    sched_builder_init_host(&builder, 0, 2, rows);
}

static void no_such_state_for_a_value(void)
{
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
    sched_builder_init_value(&builder, sched_builder_node(&builder, lstm, 1, 0), 2, value);
}

static void no_such_output(void)
{
    (void)sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 1);
}

static void no_such_state_to_emit(void)
{
    sched_builder_emit(&builder, 0, (struct cell_emit){.what = CELL_EMIT_STATE, .index = 2});
}

static void one_emit_too_many(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        sched_builder_emit(&builder, 0, emit_output);
    }
}

static void one_emit_too_many_by_values(void)
{
    sched_builder_emit(&builder, 0, emit_output);
    (void)sched_builder_value(&builder, 0, CELL_EMIT_STATE, CELL_EMIT_LAST, 0);
    (void)sched_builder_value(&builder, 0, CELL_EMIT_STATE, CELL_EMIT_LAST, 1);
}

static void one_value_too_many(void)
{
    (void)sched_builder_node(&builder, lstm, 1, 2);
    (void)sched_builder_value(&builder, 0, CELL_EMIT_STATE, CELL_EMIT_LAST, 0);
    (void)sched_builder_value(&builder, 0, CELL_EMIT_STATE, CELL_EMIT_LAST, 1);
    (void)sched_builder_value(&builder, 1, CELL_EMIT_STATE, CELL_EMIT_LAST, 1);
}

static void no_such_value(void)
{
    sched_builder_input_value(&builder, 0, 0, 0);
}

static void value_of_another_shape(void)
{
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
    sched_builder_input_value(&builder, sched_builder_node(&builder, wide, 1, 0), 0, value);
}

static void state_of_another_shape(void)
{
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_STATE, CELL_EMIT_LAST, 1);
    sched_builder_init_value(&builder, sched_builder_node(&builder, wide, 1, 0), 0, value);
}

static void reads_itself(void)
{
    sched_builder_input_value(
        &builder, 0, 0, sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0));
}

static void waits_for_itself(void)
{
    sched_builder_after(&builder, 0, 0);
}

static void waits_for_a_later_node(void)
{
    sched_builder_after(&builder, 0, sched_builder_node(&builder, lstm, 1, 0));
}

static void waits_for_no_node(void)
{
    sched_builder_after(&builder, 0, 7);
}

static void one_edge_too_many(void)
{
    uint32_t second = sched_builder_node(&builder, lstm, 1, 0);
    uint32_t third = sched_builder_node(&builder, lstm, 1, 0);
    sched_builder_after(&builder, second, 0);
    sched_builder_after(&builder, second, 0); // the same again is one
    sched_builder_after(&builder, third, 0);
    sched_builder_after(&builder, third, second);
}

static void follows_another_length(void)
{
    sched_builder_after_each(&builder, sched_builder_node(&builder, wide, STEPS - 1, 0), 0);
}

static void follows_no_node(void)
{
    sched_builder_after_each(&builder, 0, 7);
}

static void input_bound_twice(void)
{
    sched_builder_input_host(&builder, 0, 0, rows, 8);
    sched_builder_input_host(&builder, 0, 0, rows, 8);
}

static void input_bound_to_a_value_and_a_host(void)
{
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
    uint32_t node = sched_builder_node(&builder, lstm, 1, 0);
    sched_builder_input_value(&builder, node, 0, value);
    sched_builder_input_host(&builder, node, 0, rows, 8);
}

static void input_bound_to_two_values(void)
{
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
    uint32_t node = sched_builder_node(&builder, lstm, 1, 0);
    sched_builder_input_value(&builder, node, 0, value);
    sched_builder_input_value(&builder, node, 0, value);
}

static void state_bound_twice(void)
{
    sched_builder_init_host(&builder, 0, 1, rows);
    sched_builder_init_host(&builder, 0, 1, rows);
}

static void state_bound_to_two_values(void)
{
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_STATE, CELL_EMIT_LAST, 0);
    uint32_t node = sched_builder_node(&builder, lstm, 1, 0);
    sched_builder_init_value(&builder, node, 0, value);
    sched_builder_init_value(&builder, node, 0, value);
}

static const struct cell_end end_of_first = {.state = 0}, end_of_third = {.state = 2};

static void end_of_no_node(void)
{
    sched_builder_end(&builder, 1, &end_of_first);
}

static void no_such_state_to_end_by(void)
{
    sched_builder_end(&builder, 0, &end_of_third);
}

static void end_by_two_integers(void)
{
    sched_builder_end(&builder, sched_builder_node(&builder, wide, 1, 0), &end_of_first);
}

static void end_behind_an_emit(void)
{
    sched_builder_emit(&builder, 0, emit_output);
    sched_builder_end(&builder, 0, &end_of_first);
}

static void last_step_of_what_ends(void)
{
    sched_builder_end(&builder, 0, &end_of_first);
    (void)sched_builder_value(&builder, 0, CELL_EMIT_STATE, CELL_EMIT_LAST, 0);
}

static struct cell_beam beam = {.width = 2}, wide_beam = {.width = CELL_BEAM_MAX + 1};

static void beam_of_no_such_width(void)
{
    sched_builder_beam(&builder, 0, &wide_beam);
}

static void beam_that_emits(void)
{
    sched_builder_emit(&builder, 0, emit_output);
    sched_builder_beam(&builder, 0, &beam);
}

static void beam_that_ends_by_itself(void)
{
    sched_builder_end(&builder, 0, &end_of_first);
    sched_builder_beam(&builder, 0, &beam);
}

static void emit_of_a_beam(void)
{
    sched_builder_beam(&builder, 0, &beam);
    sched_builder_emit(&builder, 0, emit_output);
}

static const struct mistake {
    void (*make)(void);
    const char *message;
} mistakes[] = {
    {node_of_no_steps, "cell graph: a node of no steps"},
    {one_node_too_many, "cell graph: more nodes than announced"},
    {input_of_no_node, "cell graph: no such node"},
    {value_of_no_node, "cell graph: no such node"},
    {emit_of_no_node, "cell graph: no such node"},
    {after_of_no_node, "cell graph: no such node"},
    {no_such_input, "cell graph: no such input"},
    {no_such_input_for_a_value, "cell graph: no such input"},
    {no_such_state, "cell graph: no such state"},
    {no_such_state_for_a_value, "cell graph: no such state"},
    {no_such_output, "cell graph: no such output or state"},
    {no_such_state_to_emit, "cell graph: no such output or state"},
    {one_emit_too_many, "cell graph: more emits than announced"},
    {one_emit_too_many_by_values, "cell graph: more emits than announced"},
    {one_value_too_many, "cell graph: more values than announced"},
    {no_such_value, "cell graph: no such value"},
    {value_of_another_shape, "cell graph: a value of another shape"},
    {state_of_another_shape, "cell graph: a value of another shape"},
    {reads_itself, "cell graph: a node before its producer"},
    {waits_for_itself, "cell graph: a node before its producer"},
    {waits_for_a_later_node, "cell graph: a node before its producer"},
    {waits_for_no_node, "cell graph: a node before its producer"},
    {follows_another_length, "cell graph: a chain that follows one of another length"},
    {follows_no_node, "cell graph: no such node"},
    {one_edge_too_many, "cell graph: more edges than announced"},
    {input_bound_twice, "cell graph: an input bound twice"},
    {input_bound_to_a_value_and_a_host, "cell graph: an input bound twice"},
    {input_bound_to_two_values, "cell graph: an input bound twice"},
    {state_bound_twice, "cell graph: a state bound twice"},
    {state_bound_to_two_values, "cell graph: a state bound twice"},
    {end_of_no_node, "cell graph: no such node"},
    {no_such_state_to_end_by, "cell graph: no such state"},
    {end_by_two_integers, "cell graph: an end by a state that is no integer"},
    {end_behind_an_emit, "cell graph: an end behind what is emitted"},
    {beam_of_no_such_width, "cell graph: a beam of no such width"},
    {beam_that_emits, "cell graph: a beam that emits, or ends by itself"},
    {beam_that_ends_by_itself, "cell graph: a beam that emits, or ends by itself"},
    {emit_of_a_beam, "cell graph: an emit of a beam"},
    {last_step_of_what_ends, "cell graph: the last step of a chain that may end before"},
};

START_TEST(test_mistake_is_refused_by_its_name)
{
    mistakes[_i].make();
    struct sched_graph *graph = NULL;
    struct base_error error;
    ck_assert_int_eq(sched_builder_finish(&builder, &graph, &error), BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(error.status, BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, mistakes[_i].message);
    ck_assert_ptr_null(graph);
}
END_TEST

START_TEST(test_nothing_counts_after_the_first_mistake)
{
    no_such_input();
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        mistakes[i].make();
    }
    struct sched_graph *graph = NULL;
    struct base_error error;
    ck_assert_int_eq(sched_builder_finish(&builder, &graph, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "cell graph: no such input");
}
END_TEST

START_TEST(test_graph_of_no_nodes_is_refused)
{
    struct sched_builder empty;
    struct sched_graph *graph = NULL;
    struct base_error error;
    sched_builder_init(&empty, &arena, 0, 0, 0);
    ck_assert_int_eq(sched_builder_finish(&empty, &graph, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "cell graph: a graph of no nodes");
}
END_TEST

/* ---- Wiring ---- */

START_TEST(test_wiring_says_what_was_bound)
{
    uint64_t in[STEPS] = {0};
    struct cell_emit last = {
        .what = CELL_EMIT_STATE, .when = CELL_EMIT_LAST, .index = 1, .to = sched_host_ref(rows, 0)};
    sched_builder_input_host(&builder, 0, 0, &in[STEPS - 1], -8);
    sched_builder_init_host(&builder, 0, 1, in);
    sched_builder_emit(&builder, 0, last);
    uint32_t value = sched_builder_value(&builder, 0, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
    uint32_t node = sched_builder_node(&builder, lstm, 2, 0);
    sched_builder_init_value(&builder, node, 0, value);
    struct sched_graph *graph = NULL;
    ck_assert_int_eq(sched_builder_finish(&builder, &graph, NULL), BASE_OK);
    const struct cell_wiring *wiring = &graph->nodes[0].wiring;
    ck_assert_uint_eq(wiring->steps, STEPS);
    ck_assert_uint_eq(wiring->state, CELL_ROW_NONE);
    ck_assert_int_eq(wiring->inputs[0].kind, CELL_REF_HOST);
    ck_assert_ptr_eq(wiring->inputs[0].host, &in[STEPS - 1]);
    ck_assert_int_eq(wiring->inputs[0].stride_bytes, -8);
    ck_assert_int_eq(wiring->init[0].kind, CELL_REF_ZERO);
    ck_assert_ptr_eq(wiring->init[1].host, in);
    ck_assert_uint_eq(wiring->n_emits, 2);
    ck_assert_int_eq(wiring->emits[0].what, CELL_EMIT_STATE);
    ck_assert_uint_eq(wiring->emits[0].index, 1);
    ck_assert_ptr_eq(wiring->emits[0].to.host, rows);
    ck_assert_int_eq(wiring->emits[1].when, CELL_EMIT_LAST);
    ck_assert_int_eq(wiring->emits[1].to.kind, CELL_REF_VALUE);
    const struct sched_node *reader = &graph->nodes[1];
    ck_assert_int_eq(reader->wiring.init[0].kind, CELL_REF_VALUE);
    ck_assert_uint_eq(reader->wiring.init[0].value, value);
    ck_assert_uint_eq(reader->wiring.init[0].row, CELL_ROW_NONE);
}
END_TEST

/* ---- Memory ---- */

/* A small graph of both kinds of edges, in whatever memory there is. */
static enum base_status build_small(struct base_arena *memory, struct base_error *error)
{
    struct sched_builder small;
    struct sched_graph *graph = NULL;
    sched_builder_init(&small, memory, 2, 1, 2);
    uint32_t first = sched_builder_node(&small, lstm, STEPS, 2);
    sched_builder_input_host(&small, first, 0, rows, 8);
    sched_builder_emit(&small, first, emit_output);
    uint32_t value = sched_builder_value(&small, first, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0);
    uint32_t second = sched_builder_node(&small, lstm, 1, 1);
    sched_builder_input_value(&small, second, 0, value);
    sched_builder_init_host(&small, second, 0, rows);
    sched_builder_init_value(&small, second, 1, value);
    return sched_builder_finish(&small, &graph, error);
}

START_TEST(test_spent_arena_is_reported_wherever_it_ends)
{
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    size_t budget = 256;
    for (; status != BASE_OK; budget += 64) {
        struct base_arena memory;
        struct base_error error;
        base_arena_init(&memory, 256, budget);
        status = build_small(&memory, &error);
        base_arena_release(&memory);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert(status == BASE_OK ||
                  strcmp(error.message, "cell graph: request memory spent") == 0);
    }
    ck_assert_uint_gt(budget, 256 + 64);
    ck_assert_uint_lt(budget, 16384);
}
END_TEST

START_TEST(test_machine_out_of_memory_is_reported_wherever_it_happens)
{
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 0;
    while (status != BASE_OK) {
        struct base_arena memory;
        base_arena_init(&memory, 256, 1 << 20);
        base_alloc_fail_at(++n);
        status = build_small(&memory, NULL);
        base_alloc_fail_at(0);
        base_arena_release(&memory);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
    }
    ck_assert_uint_gt(n, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("builder");
    TCase *tcase = tcase_create("builder");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_mistake_is_refused_by_its_name, 0,
                        sizeof(mistakes) / sizeof(mistakes[0]));
    tcase_add_test(tcase, test_nothing_counts_after_the_first_mistake);
    tcase_add_test(tcase, test_graph_of_no_nodes_is_refused);
    tcase_add_test(tcase, test_wiring_says_what_was_bound);
    tcase_add_test(tcase, test_spent_arena_is_reported_wherever_it_ends);
    tcase_add_test(tcase, test_machine_out_of_memory_is_reported_wherever_it_happens);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
