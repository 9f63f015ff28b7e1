/* Which rows a model's chains need; see probe.h. Loop thread; nothing is kept. */
#include "server/probe.h"

#include "scheduler/unfold.h"

#include <string.h>

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

/* A tree in which each inner node has the one before and, where there is room, a leaf below. */
static enum base_status unfold_probe_tree(const struct cell_model *model, struct base_arena *arena,
                                          struct sched_graph **out, struct base_error *error)
{
    const uint32_t n_children = model->tree.n_children;
    const uint32_t root = 2 * PROBE_LEAVES - 2;
    struct sched_tensor none[CELL_TENSORS_MAX] = {{0}};
    uint32_t children[PROBE_LEAVES * CELL_CHILDREN_MAX];
    uint32_t order[PROBE_LEAVES];
    memset(children, 0xff, sizeof(children));
    for (uint32_t n = 0; n + 1 < PROBE_LEAVES; n++) {
        order[n] = n;
        children[(size_t)n * n_children] = n == 0 ? 0 : PROBE_LEAVES + n - 1;
        if (n_children > 1) {
            children[(size_t)n * n_children + 1] = n + 1;
        }
    }
    const struct sched_forest forest = {.model = model,
                                        .n_leaves = PROBE_LEAVES,
                                        .n_nodes = PROBE_LEAVES - 1,
                                        .n_roots = 1,
                                        .children = children,
                                        .order = order,
                                        .roots = &root,
                                        .inputs = none,
                                        .outputs = none};
    return sched_unfold_tree(&forest, arena, out, error);
}

static void note(uint32_t *most, uint32_t rows)
{
    *most = rows > *most ? rows : *most;
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
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        note(&most[l], rows[l]);
    }
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
    enum base_status status = model->unfold == CELL_UNFOLD_TREE
                                  ? unfold_probe_tree(model, &arena, &graph, error)
                                  : unfold_probe(model, &arena, &graph, error);
    if (status == BASE_OK) {
        for (uint32_t i = 0; i < graph->n_needs; i++) {
            note(&most[graph->needs[i].layout], graph->needs[i].rows);
        }
    }
    base_arena_release(&arena);
    return status;
}
