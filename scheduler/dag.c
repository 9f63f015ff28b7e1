/* See dag.h. The order is Kahn's: a node is ordered when all that it reads are. What is left over
 * then waits for itself. Nothing recurses. */
#include "scheduler/dag.h"

#include "base/assert.h"
#include "base/checked.h"

#include <inttypes.h>
#include <string.h>

static enum base_status no_memory(struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
}

const struct cell_graph_cell *sched_dag_cell(const struct sched_dag *dag, uint32_t node)
{
    return &dag->model->graph.cells[dag->cells[node]];
}

/* ---- Nodes ---- */

/* Numbers the nodes of each cell, and the inputs and outputs of all. */
static enum base_status number_nodes(struct sched_dag *dag, struct base_error *error)
{
    const struct cell_graph *graph = &dag->model->graph;
    const uint32_t n_cells = dag->model->n_stages;
    uint64_t n_inputs = 0;
    uint64_t n_outputs = 0;
    for (uint32_t n = 0; n < dag->n_nodes; n++) {
        const int64_t cell = dag->cells[n];
        if (cell < 0 || cell >= (int64_t)n_cells) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "node %u is of cell %" PRId64 ", expected 0..%u", n, cell,
                             n_cells - 1);
        }
        dag->places[n] = dag->n_of_cell[cell]++;
        dag->first_input[n] = (uint32_t)n_inputs;
        dag->first_output[n] = (uint32_t)n_outputs;
        n_inputs += graph->cells[cell].n_inputs;
        n_outputs += graph->cells[cell].n_outputs;
        if (n_inputs >= SCHED_NONE || n_outputs >= SCHED_NONE) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "a graph of %u nodes is too large",
                             dag->n_nodes);
        }
    }
    dag->first_input[dag->n_nodes] = (uint32_t)n_inputs;
    dag->first_output[dag->n_nodes] = (uint32_t)n_outputs;
    return BASE_OK;
}

static bool take_nodes(struct sched_dag *dag, struct base_arena *arena)
{
    const size_t n = (size_t)dag->n_nodes + 1;
    memset(dag->n_of_cell, 0, sizeof(dag->n_of_cell));
    dag->places = base_arena_array(arena, n, sizeof(*dag->places));
    dag->first_input = base_arena_array(arena, n, sizeof(*dag->first_input));
    dag->first_output = base_arena_array(arena, n, sizeof(*dag->first_output));
    dag->order = base_arena_array(arena, n, sizeof(*dag->order));
    return dag->places != NULL && dag->first_input != NULL && dag->first_output != NULL &&
           dag->order != NULL;
}

static bool take_ends(struct sched_dag *dag, struct base_arena *arena)
{
    const size_t n_inputs = dag->first_input[dag->n_nodes];
    const size_t n_outputs = dag->first_output[dag->n_nodes];
    dag->fed_by = base_arena_array(arena, n_inputs, sizeof(*dag->fed_by));
    dag->readers = base_arena_array(arena, n_outputs, sizeof(*dag->readers));
    dag->rows = base_arena_array(arena, n_inputs, sizeof(*dag->rows));
    dag->answers = base_arena_array(arena, n_outputs, sizeof(*dag->answers));
    return dag->fed_by != NULL && dag->readers != NULL && dag->rows != NULL && dag->answers != NULL;
}

/* ---- Edges ---- */

/* A number of an edge against how many there are. */
static enum base_status check_number(const struct sched_dag *dag, uint32_t edge, uint32_t which,
                                     uint32_t count, struct base_error *error)
{
    static const char *const words[] = {"from node", "output", "to node", "input"};
    const int64_t *numbers = &dag->edges[(size_t)edge * CELL_EDGE_NUMBERS];
    if (numbers[which] >= 0 && numbers[which] < (int64_t)count) {
        return BASE_OK;
    }
    if (which == CELL_EDGE_FROM || which == CELL_EDGE_TO) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "edge %u: %s %" PRId64 ", expected 0..%u",
                         edge, words[which], numbers[which], count - 1);
    }
    const uint32_t node = (uint32_t)numbers[which - 1];
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "edge %u: %s %" PRId64 " of node %u, whose cell '%.60s' has %u", edge,
                     words[which], numbers[which], node, sched_dag_cell(dag, node)->name, count);
}

static enum base_status check_fit(const struct sched_dag *dag, uint32_t edge,
                                  struct base_error *error)
{
    static const char *const types[] = {
        [CELL_F32] = "FP32", [CELL_I64] = "INT64", [CELL_I32] = "INT32"};
    const struct cell_graph *graph = &dag->model->graph;
    const struct cell_tensor *from =
        &graph->outputs[sched_dag_cell(dag, sched_dag_edge(dag, edge, CELL_EDGE_FROM))
                            ->first_output +
                        sched_dag_edge(dag, edge, CELL_EDGE_OUTPUT)];
    const struct cell_tensor *to =
        &graph->inputs[sched_dag_cell(dag, sched_dag_edge(dag, edge, CELL_EDGE_TO))->first_input +
                       sched_dag_edge(dag, edge, CELL_EDGE_INPUT)];
    return cell_graph_fits(from, to)
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT,
                           "edge %u: %.100s is %s of width %u, %.100s takes %s of width %u", edge,
                           from->name, types[from->dtype], from->width, to->name, types[to->dtype],
                           to->width);
}

static enum base_status take_edge(struct sched_dag *dag, uint32_t edge, struct base_error *error)
{
    BASE_TRY(check_number(dag, edge, CELL_EDGE_FROM, dag->n_nodes, error));
    BASE_TRY(check_number(dag, edge, CELL_EDGE_TO, dag->n_nodes, error));
    const uint32_t from = sched_dag_edge(dag, edge, CELL_EDGE_FROM);
    const uint32_t to = sched_dag_edge(dag, edge, CELL_EDGE_TO);
    BASE_TRY(
        check_number(dag, edge, CELL_EDGE_OUTPUT, sched_dag_cell(dag, from)->n_outputs, error));
    BASE_TRY(check_number(dag, edge, CELL_EDGE_INPUT, sched_dag_cell(dag, to)->n_inputs, error));
    BASE_TRY(check_fit(dag, edge, error));
    uint32_t *fed_by =
        &dag->fed_by[dag->first_input[to] + sched_dag_edge(dag, edge, CELL_EDGE_INPUT)];
    if (*fed_by != SCHED_NONE) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "edges %u and %u both lead to input %u of node %u", *fed_by, edge,
                         sched_dag_edge(dag, edge, CELL_EDGE_INPUT), to);
    }
    *fed_by = edge;
    uint32_t *readers =
        &dag->readers[dag->first_output[from] + sched_dag_edge(dag, edge, CELL_EDGE_OUTPUT)];
    dag->n_values += *readers == 0 ? 1 : 0;
    (*readers)++;
    return BASE_OK;
}

static enum base_status take_edges(struct sched_dag *dag, struct base_error *error)
{
    const uint32_t n_inputs = dag->first_input[dag->n_nodes];
    if (dag->n_edges > n_inputs) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%u edges, but the nodes have %u inputs",
                         dag->n_edges, n_inputs);
    }
    for (uint32_t i = 0; i < n_inputs; i++) {
        dag->fed_by[i] = SCHED_NONE;
    }
    dag->n_values = 0;
    for (uint32_t e = 0; e < dag->n_edges; e++) {
        BASE_TRY(take_edge(dag, e, error));
    }
    return BASE_OK;
}

/* ---- Order ---- */

/* Edges by the node that they come from, and what each node waits for. */
struct sorting {
    uint32_t *first; /* [n_nodes + 2]: node n's are reads[first[n]] to reads[first[n + 1] - 1] */
    uint32_t *reads; /* [n_edges]: nodes that read */
    uint32_t *waits; /* [n_nodes]: edges from nodes that are not ordered yet */
};

/* Counting sort: counts stand two places on, so that summing makes starts of them one place on, and
 * filling moves each start to where the next one's begins. */
static void sort_edges(const struct sched_dag *dag, struct sorting *s)
{
    for (uint32_t e = 0; e < dag->n_edges; e++) {
        s->first[sched_dag_edge(dag, e, CELL_EDGE_FROM) + 2]++;
        s->waits[sched_dag_edge(dag, e, CELL_EDGE_TO)]++;
    }
    for (uint32_t n = 2; n < dag->n_nodes + 2; n++) {
        s->first[n] += s->first[n - 1];
    }
    for (uint32_t e = 0; e < dag->n_edges; e++) {
        const uint32_t from = sched_dag_edge(dag, e, CELL_EDGE_FROM);
        s->reads[s->first[from + 1]++] = sched_dag_edge(dag, e, CELL_EDGE_TO);
    }
}

/* Returns how many nodes have found their place. */
static uint32_t place_nodes(struct sched_dag *dag, struct sorting *s)
{
    uint32_t n_ordered = 0;
    for (uint32_t n = 0; n < dag->n_nodes; n++) {
        dag->n_ends += s->first[n] == s->first[n + 1] ? 1 : 0;
        if (s->waits[n] == 0) {
            dag->order[n_ordered++] = n;
        }
    }
    for (uint32_t i = 0; i < n_ordered; i++) {
        const uint32_t node = dag->order[i];
        for (uint32_t r = s->first[node]; r < s->first[node + 1]; r++) {
            if (--s->waits[s->reads[r]] == 0) {
                dag->order[n_ordered++] = s->reads[r];
            }
        }
    }
    return n_ordered;
}

/* Of a node that waits: one that it waits for. */
static uint32_t waited_for(const struct sched_dag *dag, const struct sorting *s, uint32_t node)
{
    for (uint32_t i = dag->first_input[node]; i < dag->first_input[node + 1]; i++) {
        if (dag->fed_by[i] != SCHED_NONE) {
            const uint32_t from = sched_dag_edge(dag, dag->fed_by[i], CELL_EDGE_FROM);
            if (s->waits[from] > 0) {
                return from;
            }
        }
    }
    base_assert(!"a node waits for nothing");
    return node;
}

/* Who follows what waits back for as many steps as there are nodes stands on a cycle. */
static enum base_status fail_cycle(const struct sched_dag *dag, const struct sorting *s,
                                   struct base_error *error)
{
    uint32_t node = 0;
    while (s->waits[node] == 0) {
        node++;
    }
    for (uint32_t i = 0; i < dag->n_nodes; i++) {
        node = waited_for(dag, s, node);
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "node %u reads, along edges, what it makes itself: a cycle through node %u",
                     node, waited_for(dag, s, node));
}

static enum base_status order_nodes(struct sched_dag *dag, struct base_arena *arena,
                                    struct base_error *error)
{
    const size_t n = dag->n_nodes;
    struct sorting s = {.first = base_arena_array(arena, n + 2, sizeof(*s.first)),
                        .reads = base_arena_array(arena, dag->n_edges, sizeof(*s.reads)),
                        .waits = base_arena_array(arena, n, sizeof(*s.waits))};
    if (s.first == NULL || s.reads == NULL || s.waits == NULL) {
        return no_memory(error);
    }
    dag->n_ends = 0;
    sort_edges(dag, &s);
    return place_nodes(dag, &s) == dag->n_nodes ? BASE_OK : fail_cycle(dag, &s, error);
}

enum base_status sched_dag_check(struct sched_dag *dag, struct base_arena *arena,
                                 struct base_error *error)
{
    if (dag->n_nodes == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "a graph of no nodes");
    }
    if (dag->n_nodes > UINT32_MAX / 4) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "a graph of %u nodes is too large",
                         dag->n_nodes);
    }
    if (!take_nodes(dag, arena)) {
        return no_memory(error);
    }
    BASE_TRY(number_nodes(dag, error));
    if (!take_ends(dag, arena)) {
        return no_memory(error);
    }
    BASE_TRY(take_edges(dag, error));
    return order_nodes(dag, arena, error);
}
