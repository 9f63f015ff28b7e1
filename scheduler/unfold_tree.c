/* The unfold program `tree`: one node per leaf, inner node and, where the model asks something of
 * them, root. Nodes are added children first, so that producers come before their consumers;
 * nothing recurses. Thread: loop thread. Cost: O(nodes x values handed up). */
#include "scheduler/unfold.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

/* A leaf or inner node while the graph is built. */
struct below {
    uint32_t part; /* CELL_TREE_LEAF, CELL_TREE_NODE */
    sched_node_id node;
    sched_value_id values[CELL_OUTPUTS_MAX]; /* SCHED_NONE: nobody has read it yet */
};

struct growing {
    const struct sched_forest *forest;
    struct sched_builder builder;
    struct below *below; /* by number */
};

/* emits_max: values that other nodes may read of it, and pieces of the outputs it may write. */
static void add_node(struct growing *g, uint32_t part, struct below *out, uint32_t emits_max)
{
    const struct cell_model *model = g->forest->model;
    memset(out->values, 0xff, sizeof(out->values));
    out->part = part;
    out->node = sched_builder_node(&g->builder, model->stages[part].type, 1, emits_max);
}

static sched_value_id value_of(struct growing *g, struct below *from, uint32_t value)
{
    if (from->values[value] == SCHED_NONE) {
        const uint32_t output = g->forest->model->tree.outputs[from->part][value];
        from->values[value] =
            sched_builder_value(&g->builder, from->node, CELL_EMIT_OUTPUT, CELL_EMIT_LAST, output);
    }
    return from->values[value];
}

/* Binds a node's inputs: tensors by its row in them, values by its children. */
static void bind_inputs(struct growing *g, uint32_t part, sched_node_id node, uint32_t row,
                        const uint32_t *children)
{
    const struct cell_stage *stage = &g->forest->model->stages[part];
    for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
        const struct cell_source *source = &stage->inputs[i];
        if (source->kind == CELL_SOURCE_INPUT) {
            const struct sched_tensor *tensor = &g->forest->inputs[source->index];
            if (tensor->data != NULL) {
                sched_builder_input_host(&g->builder, node, i,
                                         tensor->data + row * tensor->batch_bytes +
                                             source->piece * tensor->piece_bytes,
                                         0);
            }
            continue;
        }
        base_assert(source->kind == CELL_SOURCE_CHILD && children != NULL);
        const uint32_t child = children[source->piece];
        if (child != SCHED_NONE) { // who has no such child reads zeros
            sched_builder_input_value(&g->builder, node, i,
                                      value_of(g, &g->below[child], source->index));
        }
    }
}

/* What a root's cell makes goes to the row of the outputs. */
static void emit_outputs(struct growing *g, const struct below *root, uint32_t row)
{
    const struct cell_model *model = g->forest->model;
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        const struct sched_tensor *tensor = &g->forest->outputs[o];
        for (uint32_t p = 0; tensor->data != NULL && p < model->outputs[o].pieces; p++) {
            const struct cell_source *source = &model->output_sources[o][p];
            uint8_t *to = tensor->data + row * tensor->batch_bytes + p * tensor->piece_bytes;
            const bool is_own = source->kind == CELL_SOURCE_CHILD;
            const uint32_t index =
                is_own ? model->tree.outputs[root->part][source->index] : source->index;
            sched_builder_emit(&g->builder, root->node,
                               (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                                                  .when = CELL_EMIT_LAST,
                                                  .index = index,
                                                  .to = sched_host_ref(to, 0)});
        }
    }
}

static void add_roots(struct growing *g, uint32_t pieces)
{
    const struct sched_forest *forest = g->forest;
    for (uint32_t r = 0; r < forest->n_roots; r++) {
        const uint32_t number = forest->roots[r];
        if (!forest->model->tree.has_root) {
            emit_outputs(g, &g->below[number], r);
            continue;
        }
        struct below root;
        add_node(g, CELL_TREE_ROOT, &root, pieces);
        bind_inputs(g, CELL_TREE_ROOT, root.node, 0, &number);
        emit_outputs(g, &root, r);
    }
}

/* Pieces of all outputs: emits of a root. */
static uint32_t count_pieces(const struct cell_model *model)
{
    uint32_t pieces = 0;
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        pieces += model->outputs[o].pieces;
    }
    return pieces;
}

enum base_status sched_unfold_tree(const struct sched_forest *forest, struct base_arena *arena,
                                   struct sched_graph **out, struct base_error *error)
{
    const struct cell_model *model = forest->model;
    const uint32_t n_children = model->tree.n_children;
    const uint32_t pieces = count_pieces(model);
    const size_t n_below = (size_t)forest->n_leaves + forest->n_nodes;
    const size_t nodes = n_below + forest->n_roots;
    const size_t inputs_max = model->stages[CELL_TREE_NODE].type->def.n_inputs +
                              (model->tree.has_root ? CELL_OUTPUTS_MAX : 0);
    size_t values = 0;
    size_t edges = 0;
    struct growing g = {.forest = forest};
    if (!base_size_mul(n_below, model->tree.n_values, &values) ||
        !base_size_mul(nodes, inputs_max, &edges) || values >= SCHED_NONE || edges >= SCHED_NONE) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "a tree of %zu nodes is too large", n_below);
    }
    g.below = base_arena_array(arena, n_below, sizeof(*g.below));
    if (g.below == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "cell graph: request memory spent");
    }
    sched_builder_init(&g.builder, arena, (uint32_t)nodes, (uint32_t)values, (uint32_t)edges);
    // Without a part for roots the outputs are written by whichever node is one.
    const uint32_t emits_max = model->tree.n_values + (model->tree.has_root ? 0 : pieces);
    for (uint32_t l = 0; l < forest->n_leaves; l++) {
        add_node(&g, CELL_TREE_LEAF, &g.below[l], emits_max);
        bind_inputs(&g, CELL_TREE_LEAF, g.below[l].node, l, NULL);
    }
    for (uint32_t i = 0; i < forest->n_nodes; i++) {
        const uint32_t node = forest->order[i];
        struct below *below = &g.below[forest->n_leaves + node];
        add_node(&g, CELL_TREE_NODE, below, emits_max);
        bind_inputs(&g, CELL_TREE_NODE, below->node, node,
                    &forest->children[(size_t)node * n_children]);
    }
    add_roots(&g, pieces);
    return sched_builder_finish(&g.builder, out, error);
}
