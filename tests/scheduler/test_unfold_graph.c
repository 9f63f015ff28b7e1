/* The unfold program `graph`: random graphs of tokens, nodes named in any order, are checked,
 * unfolded and run by the simulation (sim.h), which knows of each node what it must make; and what
 * is no graph is refused with its numbers. */
#include "base/mem.h"
#include "scheduler/unfold.h"
#include "tests/scheduler/sim.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

#define NODES_MAX 40u
#define CELLS     3u
#define PORTS_MAX 4u
#ifdef CELLBATCH_DEBUG
#    define WORLDS 60u /* sanitizers are slow */
#else
#    define WORLDS 400u
#endif

static struct graphs_types types;
static struct cell_model model;

static void name(char out[CELL_NAME_BYTES], const char *what, uint32_t cell, uint32_t number)
{
    snprintf(out, CELL_NAME_BYTES, "cell%u.%s%u", cell, what, number);
}

/* A cell of rows of `width` tokens, which takes and makes them in another order than its file names
 * them. */
static void add_cell(uint32_t n_inputs, uint32_t n_outputs, uint32_t width)
{
    struct cell_graph *graph = &model.graph;
    struct cell_graph_cell *cell = &graph->cells[model.n_stages];
    struct cell_stage *stage = &model.stages[model.n_stages];
    const struct cell_tensor tensor = {.dtype = CELL_I64, .pieces = 1, .width = width};
    *cell = (struct cell_graph_cell){.first_input = graph->n_inputs,
                                     .first_output = graph->n_outputs,
                                     .n_inputs = n_inputs,
                                     .n_outputs = n_outputs};
    snprintf(cell->name, sizeof(cell->name), "cell%u", model.n_stages);
    stage->type = graphs_type_token(&types, n_inputs, 0, n_outputs, width);
    for (uint32_t i = 0; i < n_inputs; i++) {
        stage->inputs[i] =
            (struct cell_source){.kind = CELL_SOURCE_INPUT, .index = n_inputs - 1 - i};
        graph->inputs[graph->n_inputs] = tensor;
        name(graph->inputs[graph->n_inputs++].name, "in", model.n_stages, i);
    }
    for (uint32_t o = 0; o < n_outputs; o++) {
        graph->results[graph->n_outputs] = n_outputs - 1 - o;
        graph->outputs[graph->n_outputs] = tensor;
        name(graph->outputs[graph->n_outputs++].name, "out", model.n_stages, o);
    }
    model.n_stages++;
}

/* Two cells of one width, and one that nothing of them fits. */
static void setup(void)
{
    memset(&types, 0, sizeof(types));
    memset(&model, 0, sizeof(model));
    model.unfold = CELL_UNFOLD_GRAPH;
    add_cell(2, 2, 1);
    add_cell(PORTS_MAX, 1, 1);
    add_cell(1, 1, 2);
}

/* ---- Random graphs ---- */

struct sketch {
    int64_t cells[NODES_MAX];
    int64_t edges[NODES_MAX * PORTS_MAX][CELL_EDGE_NUMBERS];
    uint32_t n_nodes, n_edges;
};

/* Whether both cells have rows of the same width. */
static bool are_alike(int64_t a, int64_t b)
{
    return (a == 2) == (b == 2);
}

/* Edges lead along a hidden order of the nodes, and stand in any order themselves. */
static void draw(struct sketch *sketch, struct base_random *random)
{
    uint32_t hidden[NODES_MAX];
    sketch->n_nodes = 1 + base_random_below(random, NODES_MAX);
    sketch->n_edges = 0;
    for (uint32_t n = 0; n < sketch->n_nodes; n++) {
        const uint32_t other = base_random_below(random, n + 1);
        hidden[n] = hidden[other];
        hidden[other] = n;
        sketch->cells[n] = base_random_below(random, CELLS);
    }
    for (uint32_t k = 1; k < sketch->n_nodes; k++) {
        const uint32_t to = hidden[k];
        const struct cell_graph_cell *cell = &model.graph.cells[sketch->cells[to]];
        for (uint32_t i = 0; i < cell->n_inputs; i++) {
            const uint32_t from = hidden[base_random_below(random, k)];
            if (base_random_below(random, 4) > 0 &&
                are_alike(sketch->cells[from], sketch->cells[to])) {
                const uint32_t n_outputs = model.graph.cells[sketch->cells[from]].n_outputs;
                const uint32_t at = base_random_below(random, sketch->n_edges + 1);
                memcpy(sketch->edges[sketch->n_edges++], sketch->edges[at],
                       sizeof(sketch->edges[0]));
                const int64_t edge[] = {from, base_random_below(random, n_outputs), to, i};
                memcpy(sketch->edges[at], edge, sizeof(edge));
            }
        }
    }
}

static struct sched_dag dag_of(const struct sketch *sketch)
{
    return (struct sched_dag){.model = &model,
                              .n_nodes = sketch->n_nodes,
                              .n_edges = sketch->n_edges,
                              .cells = sketch->cells,
                              .edges = &sketch->edges[0][0]};
}

/* One node of the recipe, as the graph will have it at this place: reads by its edges, random rows
 * where there are none but for some, and answers of all outputs but some. */
static void add_node(struct recipe *recipe, struct sched_dag *dag, const uint32_t *place,
                     uint32_t node, struct base_random *random)
{
    const struct cell_stage *stage = &model.stages[dag->cells[node]];
    const uint32_t at = recipe_node(recipe, stage->type, 1);
    for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
        const uint32_t input = dag->first_input[node] + stage->inputs[i].index;
        if (dag->fed_by[input] != SCHED_NONE) {
            const uint32_t from = sched_dag_edge(dag, dag->fed_by[input], CELL_EDGE_FROM);
            const uint32_t output = sched_dag_edge(dag, dag->fed_by[input], CELL_EDGE_OUTPUT);
            const uint32_t first = sched_dag_cell(dag, from)->first_output;
            recipe_input(recipe, at, i, place[from], CELL_EMIT_OUTPUT,
                         model.graph.results[first + output]);
        }
        if (base_random_below(random, 3) > 0) { // beside an edge it is not read
            const size_t bytes = graphs_row_bytes(&stage->type->def.values[i]);
            uint8_t *row = base_arena_alloc(&recipe->arena, bytes);
            ck_assert_ptr_nonnull(row);
            for (size_t b = 0; b < bytes; b++) {
                row[b] = (uint8_t)base_random_below(random, 256);
            }
            dag->rows[input] = row;
            if (dag->fed_by[input] == SCHED_NONE) {
                recipe->nodes[at].inputs[i] =
                    (struct recipe_read){.kind = RECIPE_HOST, .host = row};
            }
        }
    }
    for (uint32_t o = dag->first_output[node]; o < dag->first_output[node + 1]; o++) {
        const uint32_t first = sched_dag_cell(dag, node)->first_output;
        struct recipe_result *result =
            &recipe->nodes[at].outputs[model.graph.results[first + o - dag->first_output[node]]];
        result->is_emitted = base_random_below(random, 4) > 0;
        result->when = CELL_EMIT_LAST;
        dag->answers[o] = result->is_emitted ? result->got : NULL;
    }
}

/* The recipe of a graph, and the graph itself, by the unfold program. */
static void make(struct recipe *recipe, struct base_random *random)
{
    struct sketch sketch;
    struct base_error error = {.message = ""};
    uint32_t place[NODES_MAX];
    draw(&sketch, random);
    struct sched_dag dag = dag_of(&sketch);
    recipe_init(recipe, &types, sketch.n_nodes);
    enum base_status status = sched_dag_check(&dag, &recipe->arena, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    for (uint32_t i = 0; i < dag.n_nodes; i++) {
        place[dag.order[i]] = i;
        add_node(recipe, &dag, place, dag.order[i], random);
    }
    status = sched_unfold_graph(&dag, &recipe->arena, &recipe->graph, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(recipe->graph->n_values, dag.n_values);
    recipe_evaluate(recipe, graphs_cell_token);
}

static void run_world(uint64_t seed)
{
    enum { GRAPHS = 6 };
    struct recipe recipes[GRAPHS];
    struct base_random random;
    struct sched_options options;
    uint32_t capacity[GRAPHS_LAYOUTS_MAX] = {0};
    struct sim *sim = base_alloc(sizeof(*sim));
    ck_assert_ptr_nonnull(sim);
    base_random_init(&random, seed);
    sim_draw_options(&options, &random);
    for (uint32_t i = 0; i < GRAPHS; i++) {
        make(&recipes[i], &random);
    }
    sim_capacity(capacity, recipes, GRAPHS, 1);
    sim_init(sim, &types, &options, capacity, seed);
    for (uint32_t added = 0; added < GRAPHS;) {
        const uint32_t q = base_random_below(&random, options.n_queues);
        added += sim_add(sim, &recipes[added]) != NULL ? 1 : 0;
        (void)sim_next(sim, q);
        (void)sim_execute(sim, q, 1, BASE_OK);
        (void)sim_retire(sim, q);
    }
    sim_drain(sim);
    sim_require(sim, sim->n_ok == GRAPHS);
    sim_release(sim);
    base_free(sim);
}

START_TEST(test_random_graphs_make_what_their_cells_make)
{
    for (uint32_t i = 0; i < WORLDS; i++) {
        run_world(util_seed() * 1000003u + i);
    }
}
END_TEST

/* ---- Shapes ---- */

/* Nodes of the second cell in one line, named from its end: nothing recurses. */
START_TEST(test_a_long_line)
{
    enum { LENGTH = 100000 };
    struct base_arena arena;
    struct sched_graph *graph = NULL;
    struct base_error error = {.message = ""};
    int64_t *cells = base_alloc_array(LENGTH, sizeof(*cells));
    int64_t *edges = base_alloc_array(LENGTH, CELL_EDGE_NUMBERS * sizeof(*edges));
    ck_assert(cells != NULL && edges != NULL);
    for (int64_t n = 0; n < LENGTH; n++) {
        const int64_t edge[] = {n + 1, 0, n, n % PORTS_MAX};
        cells[n] = 1;
        memcpy(&edges[n * CELL_EDGE_NUMBERS], edge, sizeof(edge));
    }
    struct sched_dag dag = {
        .model = &model, .n_nodes = LENGTH, .n_edges = LENGTH - 1, .cells = cells, .edges = edges};
    base_arena_init(&arena, 1 << 20, (size_t)1 << 30);
    ck_assert_int_eq(sched_dag_check(&dag, &arena, &error), BASE_OK);
    ck_assert_uint_eq(dag.n_values, LENGTH - 1);
    ck_assert_uint_eq(dag.n_ends, 1);
    for (uint32_t i = 0; i < LENGTH; i++) {
        ck_assert_uint_eq(dag.order[i], LENGTH - 1 - i);
    }
    ck_assert_int_eq(sched_unfold_graph(&dag, &arena, &graph, &error), BASE_OK);
    ck_assert_uint_eq(graph->n_subgraphs, 1);
    // Closed to a ring, it is refused as fast.
    const int64_t last[] = {0, 0, LENGTH - 1, 0};
    memcpy(&edges[(size_t)(LENGTH - 1) * CELL_EDGE_NUMBERS], last, sizeof(last));
    dag.n_edges = LENGTH;
    ck_assert_int_eq(sched_dag_check(&dag, &arena, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "a cycle through node"));
    base_arena_release(&arena);
    base_free(cells);
    base_free(edges);
}
END_TEST

/* One output that many read is one value. */
START_TEST(test_readers_of_one_output_share_its_row)
{
    struct base_arena arena;
    struct sched_graph *graph = NULL;
    const int64_t cells[] = {1, 1, 1, 1, 0};
    const int64_t edges[][CELL_EDGE_NUMBERS] = {{4, 1, 0, 0}, {4, 1, 0, 3}, {4, 1, 1, 2},
                                                {4, 1, 2, 0}, {0, 0, 3, 0}, {1, 0, 3, 1}};
    struct sched_dag dag = {
        .model = &model, .n_nodes = 5, .n_edges = 6, .cells = cells, .edges = &edges[0][0]};
    base_arena_init(&arena, 1 << 16, 1 << 20);
    ck_assert_int_eq(sched_dag_check(&dag, &arena, NULL), BASE_OK);
    ck_assert_uint_eq(dag.order[0], 4);
    ck_assert_uint_eq(dag.n_ends, 2);
    ck_assert_int_eq(sched_unfold_graph(&dag, &arena, &graph, NULL), BASE_OK);
    ck_assert_uint_eq(graph->n_values, 3);
    ck_assert_uint_eq(graph->values[0].readers_left, 4);
    ck_assert_uint_eq(graph->needs[0].rows, 3);
    base_arena_release(&arena);
}
END_TEST

/* ---- Refusals ---- */

static void expect_refused(const struct sketch *sketch, const char *why)
{
    struct base_arena arena;
    struct base_error error = {.message = ""};
    struct sched_dag dag = dag_of(sketch);
    base_arena_init(&arena, 1 << 16, 1 << 20);
    ck_assert_int_eq(sched_dag_check(&dag, &arena, &error), BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, why) != NULL, "%s, wanted %s", error.message, why);
    base_arena_release(&arena);
}

START_TEST(test_what_is_no_graph_is_refused_with_its_numbers)
{
    static const struct {
        struct sketch sketch;
        const char *why;
    } cases[] = {
        {{.n_nodes = 0}, "a graph of no nodes"},
        {{.n_nodes = 2, .cells = {0, 3}}, "node 1 is of cell 3, expected 0..2"},
        {{.n_nodes = 1, .cells = {-1}}, "node 0 is of cell -1, expected 0..2"},
        {{.n_nodes = 2, .n_edges = 1, .edges = {{2, 0, 0, 0}}},
         "edge 0: from node 2, expected 0..1"},
        {{.n_nodes = 2, .n_edges = 2, .edges = {{0, 0, 1, 0}, {0, 0, -1, 0}}},
         "edge 1: to node -1, expected 0..1"},
        {{.n_nodes = 2, .n_edges = 1, .edges = {{0, 2, 1, 0}}},
         "edge 0: output 2 of node 0, whose cell 'cell0' has 2"},
        {{.n_nodes = 2, .n_edges = 1, .edges = {{0, 1, 1, INT64_MIN}}},
         "edge 0: input -9223372036854775808 of node 1, whose cell 'cell0' has 2"},
        {{.n_nodes = 3, .n_edges = 2, .edges = {{0, 0, 2, 1}, {1, 0, 2, 1}}},
         "edges 0 and 1 both lead to input 1 of node 2"},
        {{.n_nodes = 2, .n_edges = 1, .cells = {0, 2}, .edges = {{0, 0, 1, 0}}},
         "edge 0: cell0.out0 is INT64 of width 1, cell2.in0 takes INT64 of width 2"},
        {{.n_nodes = 1, .n_edges = 1, .edges = {{0, 0, 0, 0}}},
         "node 0 reads, along edges, what it makes itself: a cycle through node 0"},
        {{.n_nodes = 3, .n_edges = 3, .edges = {{1, 0, 0, 0}, {1, 0, 2, 0}, {2, 0, 1, 0}}},
         "a cycle through node "},
        {{.n_nodes = 1, .n_edges = 3}, "3 edges, but the nodes have 2 inputs"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_refused(&cases[i].sketch, cases[i].why);
    }
}
END_TEST

/* Whatever memory is short, the request is refused and nothing else happens. */
START_TEST(test_spent_memory_is_told)
{
    struct sketch sketch;
    struct base_random random = util_random(7);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    draw(&sketch, &random);
    for (size_t budget = 256; status != BASE_OK; budget += 256) {
        struct base_arena arena;
        struct sched_graph *graph = NULL;
        struct sched_dag dag = dag_of(&sketch);
        base_arena_init(&arena, 256, budget);
        status = sched_dag_check(&dag, &arena, NULL);
        status = status == BASE_OK ? sched_unfold_graph(&dag, &arena, &graph, NULL) : status;
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        base_arena_release(&arena);
    }
}
END_TEST

int main(void)
{
    sim_report_aborts();
    Suite *suite = suite_create("unfold_graph");
    TCase *tcase = tcase_create("graphs");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_random_graphs_make_what_their_cells_make);
    tcase_add_test(tcase, test_a_long_line);
    tcase_add_test(tcase, test_readers_of_one_output_share_its_row);
    tcase_add_test(tcase, test_what_is_no_graph_is_refused_with_its_numbers);
    tcase_add_test(tcase, test_spent_memory_is_told);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
