/* Which rows a model's requests need; see probe.h. Loop thread; nothing is kept. */
#include "server/probe.h"

#include "scheduler/unfold.h"

/* Memory that unfolding one short sequence may take. Only against a mistake: a wide vocabulary and
 * a long bound of steps may need hundreds of MiB. */
#define PROBE_BYTES       ((size_t)1 << 30)
#define PROBE_CHUNK_BYTES ((size_t)64 << 10)

/* Leaves of the tree that rows are reckoned for: a larger one needs those of several. */
#define PROBE_LEAVES 16u

#define PROBE_STEPS 2u

/* One chain of two steps, or of as many more as convolutions need. */
static enum base_status unfold_probe(const struct cell_model *model, struct base_arena *arena,
                                     struct sched_graph **out, struct base_error *error)
{
    uint32_t steps[CELL_SEQUENCES_MAX];
    uint32_t given = PROBE_STEPS;
    sched_node_id decoder = 0;
    struct sched_tensor none[CELL_TENSORS_MAX] = {{0}};
    struct sched_sequences sequences = {
        .model = model, .n_rows = 1, .inputs = none, .outputs = none, .decoders = &decoder};
    cell_model_steps_min(model, steps);
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        given = steps[s] > given ? steps[s] : given;
    }
    cell_model_steps(model, given, steps);
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        sequences.steps[s] = &steps[s];
    }
    return sched_unfold_chain(&sequences, arena, out, error);
}

static void note(uint32_t *most, uint32_t rows)
{
    *most = rows > *most ? rows : *most;
}

static void note_all(uint32_t *most, const uint32_t rows[CELL_LAYOUTS_MAX])
{
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        note(&most[l], rows[l]);
    }
}

/* Whether any cell of the graph could read the output. */
static bool may_be_read(const struct cell_graph *graph, uint32_t output)
{
    bool may = false;
    for (uint32_t i = 0; i < graph->n_inputs && !may; i++) {
        may = cell_graph_fits(&graph->outputs[output], &graph->inputs[i]);
    }
    return may;
}

/* Notes the rows of a graph with as many nodes of each cell as a tree is reckoned with, whose every
 * output is read that can be. */
static void probe_graph(const struct cell_model *model, uint32_t *most)
{
    uint32_t rows[CELL_LAYOUTS_MAX] = {0};
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_type *type = model->stages[s].type;
        const struct cell_graph_cell *cell = &model->graph.cells[s];
        if (type->state_layout != CELL_LAYOUT_NONE) {
            rows[type->state_layout] += PROBE_LEAVES;
        }
        for (uint32_t o = cell->first_output; o < cell->first_output + cell->n_outputs; o++) {
            if (may_be_read(&model->graph, o)) {
                rows[type->output_layouts[model->graph.results[o]]] += PROBE_LEAVES;
            }
        }
    }
    note_all(most, rows);
}

/* Whether a node, or the root's cell, reads this value of any of its children. */
static bool is_handed_up(const struct cell_model *model, uint32_t value)
{
    bool is = false;
    for (uint32_t s = CELL_TREE_NODE; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            is |= stage->inputs[i].kind == CELL_SOURCE_CHILD && stage->inputs[i].index == value;
        }
    }
    return is;
}

/* Notes the rows of a tree with so many leaves and inner nodes that may stand below any other, as
 * any of its children: every value is kept that one of those would be read for. */
static void probe_tree(const struct cell_model *model, uint32_t *most)
{
    uint32_t rows[CELL_LAYOUTS_MAX] = {0};
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_type *type = model->stages[s].type;
        if (type->state_layout != CELL_LAYOUT_NONE) {
            rows[type->state_layout] += s == CELL_TREE_ROOT ? 1 : PROBE_LEAVES;
        }
        for (uint32_t v = 0; s != CELL_TREE_ROOT && v < model->tree.n_values; v++) {
            if (is_handed_up(model, v)) {
                rows[type->output_layouts[model->tree.outputs[s][v]]] += PROBE_LEAVES;
            }
        }
    }
    note_all(most, rows);
}

enum base_status srv_probe_rows(const struct cell_model *model, uint32_t most[CELL_LAYOUTS_MAX],
                                struct base_error *error)
{
    struct base_arena arena;
    base_arena_init(&arena, PROBE_CHUNK_BYTES, PROBE_BYTES);
    struct sched_graph *graph = NULL;
    if (model->unfold == CELL_UNFOLD_GRAPH || model->unfold == CELL_UNFOLD_PLUGIN) {
        probe_graph(model, most);
        return BASE_OK;
    }
    if (model->unfold == CELL_UNFOLD_TREE) {
        probe_tree(model, most);
        return BASE_OK;
    }
    enum base_status status = unfold_probe(model, &arena, &graph, error);
    if (status == BASE_OK) {
        for (uint32_t i = 0; i < graph->n_needs; i++) {
            note(&most[graph->needs[i].layout], graph->needs[i].rows);
        }
    }
    base_arena_release(&arena);
    return status;
}
