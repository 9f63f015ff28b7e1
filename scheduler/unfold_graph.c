/* The unfold program `graph`: one node per node that was named, in the order in which
 * sched_dag_check() found them to follow each other. An output is a value row from its first reader
 * on, whoever reads it. Thread: loop thread. Cost: O(nodes + edges). */
#include "scheduler/unfold.h"

#include "base/assert.h"

#include <string.h>

struct growing {
    const struct sched_dag *dag;
    struct sched_builder builder;
    sched_node_id *nodes;   /* by number of the dag; SCHED_NONE: not added yet */
    sched_value_id *values; /* by output; SCHED_NONE: nobody has read it yet */
};

/* The value row of an output that a node reads. */
static sched_value_id value_of(struct growing *g, uint32_t edge)
{
    const struct sched_dag *dag = g->dag;
    const uint32_t from = sched_dag_edge(dag, edge, CELL_EDGE_FROM);
    const uint32_t output = sched_dag_edge(dag, edge, CELL_EDGE_OUTPUT);
    sched_value_id *value = &g->values[dag->first_output[from] + output];
    if (*value == SCHED_NONE) {
        const uint32_t index =
            dag->model->graph.results[sched_dag_cell(dag, from)->first_output + output];
        *value = sched_builder_value(&g->builder, g->nodes[from], CELL_EMIT_OUTPUT, CELL_EMIT_LAST,
                                     index);
    }
    return *value;
}

/* What reads neither an edge nor a row reads zeros. */
static void bind_inputs(struct growing *g, uint32_t node)
{
    const struct sched_dag *dag = g->dag;
    const struct cell_stage *stage = &dag->model->stages[dag->cells[node]];
    for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
        base_assert(stage->inputs[i].kind == CELL_SOURCE_INPUT);
        const uint32_t input = dag->first_input[node] + stage->inputs[i].index;
        if (dag->fed_by[input] != SCHED_NONE) {
            sched_builder_input_value(&g->builder, g->nodes[node], i,
                                      value_of(g, dag->fed_by[input]));
        } else if (dag->rows[input] != NULL) {
            sched_builder_input_host(&g->builder, g->nodes[node], i, dag->rows[input], 0);
        }
    }
}

/* Values that others read of it, and rows that it answers. */
static uint32_t count_emits(const struct sched_dag *dag, uint32_t node)
{
    uint32_t n = 0;
    for (uint32_t o = dag->first_output[node]; o < dag->first_output[node + 1]; o++) {
        n += (dag->readers[o] > 0 ? 1u : 0u) + (dag->answers[o] != NULL ? 1u : 0u);
    }
    return n;
}

static void add_node(struct growing *g, uint32_t node)
{
    const struct sched_dag *dag = g->dag;
    const struct cell_model *model = dag->model;
    const uint32_t first = sched_dag_cell(dag, node)->first_output;
    const uint32_t emits_max = count_emits(dag, node);
    g->nodes[node] =
        sched_builder_node(&g->builder, model->stages[dag->cells[node]].type, 1, emits_max);
    bind_inputs(g, node);
    for (uint32_t o = dag->first_output[node]; o < dag->first_output[node + 1]; o++) {
        if (dag->answers[o] != NULL) {
            const uint32_t index = model->graph.results[first + o - dag->first_output[node]];
            sched_builder_emit(&g->builder, g->nodes[node],
                               (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                                                  .when = CELL_EMIT_LAST,
                                                  .index = index,
                                                  .to = sched_host_ref(dag->answers[o], 0)});
        }
    }
}

enum base_status sched_unfold_graph(const struct sched_dag *dag, struct base_arena *arena,
                                    struct sched_graph **out, struct base_error *error)
{
    const size_t n_outputs = dag->first_output[dag->n_nodes];
    struct growing g = {.dag = dag};
    g.nodes = base_arena_array(arena, dag->n_nodes, sizeof(*g.nodes));
    g.values = base_arena_array(arena, n_outputs, sizeof(*g.values));
    if (g.nodes == NULL || g.values == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "cell graph: request memory spent");
    }
    memset(g.values, 0xff, n_outputs * sizeof(*g.values));
    // Edges into inputs that a cell has but does not compute with are not followed.
    sched_builder_init(&g.builder, arena, dag->n_nodes, dag->n_values, dag->n_edges);
    for (uint32_t i = 0; i < dag->n_nodes; i++) {
        add_node(&g, dag->order[i]);
    }
    return sched_builder_finish(&g.builder, out, error);
}
