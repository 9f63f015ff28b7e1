/* Checking a request of trees against its model. The nodes' children come as numbers: leaves from
 * 0, inner nodes behind them, -1 for a child that is not there. A node is ordered when all of its
 * children are, so that what is below itself is found without recursion. Cost: O(nodes). */
#include "server/validate.h"

#include "server/tensors.h"
#include "server/text.h"

#include <inttypes.h>

/* What is found out of a request's trees. */
struct growth {
    const struct cell_model *model;
    struct base_arena *arena;
    struct base_error *error;
    uint32_t n_leaves, n_nodes;
    uint32_t *children; /* [n_nodes][tree.n_children] */
    uint32_t *parents;  /* [n_leaves + n_nodes]: inner node, or SCHED_NONE */
    uint32_t *waits;    /* [n_nodes]: children that are not ordered yet */
    uint32_t *order;    /* [n_nodes] */
    uint32_t *roots;    /* [n_leaves + n_nodes] */
    uint32_t n_ordered, n_roots;
};

static enum base_status no_memory(const struct growth *g)
{
    return base_fail(g->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
}

/* ---- Numbers ---- */

static enum base_status take_child(struct growth *g, uint32_t node, uint32_t place, int64_t number)
{
    const char *name = g->model->inputs[g->model->tree.children_input].name;
    const uint32_t n_below = g->n_leaves + g->n_nodes;
    uint32_t *child = &g->children[node * g->model->tree.n_children + place];
    *child = SCHED_NONE;
    if (number == -1) {
        return BASE_OK;
    }
    if (number < 0 || number >= (int64_t)n_below) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT,
                         "input '%s': child %" PRId64 " of node %u, expected -1..%u", name, number,
                         g->n_leaves + node, n_below - 1);
    }
    if (g->parents[number] != SCHED_NONE) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT,
                         "input '%s': %" PRId64 " is a child of node %u and of node %u", name,
                         number, g->n_leaves + g->parents[number], g->n_leaves + node);
    }
    *child = (uint32_t)number;
    g->parents[number] = node;
    g->waits[node] += *child >= g->n_leaves ? 1 : 0;
    return BASE_OK;
}

static enum base_status take_children(struct growth *g, const struct sched_tensor *given)
{
    const struct cell_tensor *tensor = &g->model->inputs[g->model->tree.children_input];
    const uint32_t n_children = g->model->tree.n_children;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        uint32_t n_given = 0;
        for (uint32_t k = 0; k < n_children; k++) {
            const uint8_t *row = given->data + n * given->batch_bytes;
            BASE_TRY(take_child(g, n, k, srv_tensor_integer(tensor, row, k)));
            n_given += g->children[n * n_children + k] != SCHED_NONE ? 1 : 0;
        }
        if (n_given == 0) {
            return base_fail(g->error, BASE_INVALID_ARGUMENT,
                             "input '%s': node %u has no child; what has none is a leaf",
                             tensor->name, g->n_leaves + n);
        }
    }
    return BASE_OK;
}

/* ---- Order ---- */

/* Children before their parents: a node's turn is when it waits for no child any more. */
static enum base_status order_nodes(struct growth *g)
{
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        if (g->waits[n] == 0) {
            g->order[g->n_ordered++] = n;
        }
    }
    for (uint32_t i = 0; i < g->n_ordered; i++) {
        const uint32_t parent = g->parents[g->n_leaves + g->order[i]];
        if (parent != SCHED_NONE && --g->waits[parent] == 0) {
            g->order[g->n_ordered++] = parent;
        }
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        if (g->waits[n] > 0) {
            return base_fail(g->error, BASE_INVALID_ARGUMENT,
                             "input '%s': node %u is below itself, or what is below it is",
                             g->model->inputs[g->model->tree.children_input].name, g->n_leaves + n);
        }
    }
    for (uint32_t i = 0; i < g->n_leaves + g->n_nodes; i++) {
        if (g->parents[i] == SCHED_NONE) {
            g->roots[g->n_roots++] = i;
        }
    }
    return BASE_OK;
}

static enum base_status grow(struct growth *g, const struct sched_tensor *children)
{
    const size_t n_below = (size_t)g->n_leaves + g->n_nodes;
    g->children = base_arena_array(g->arena, (size_t)g->n_nodes * g->model->tree.n_children + 1,
                                   sizeof(*g->children));
    g->parents = base_arena_array(g->arena, n_below, sizeof(*g->parents));
    g->waits = base_arena_array(g->arena, (size_t)g->n_nodes + 1, sizeof(*g->waits));
    g->order = base_arena_array(g->arena, (size_t)g->n_nodes + 1, sizeof(*g->order));
    g->roots = base_arena_array(g->arena, n_below, sizeof(*g->roots));
    if (g->children == NULL || g->parents == NULL || g->waits == NULL || g->order == NULL ||
        g->roots == NULL) {
        return no_memory(g);
    }
    for (size_t i = 0; i < n_below; i++) {
        g->parents[i] = SCHED_NONE;
    }
    BASE_TRY(take_children(g, children));
    return order_nodes(g);
}

/* ---- The whole ---- */

static enum base_status check_sizes(const struct srv_extents *leaves,
                                    const struct srv_extents *nodes,
                                    const struct srv_limits *limits, struct base_error *error)
{
    if (leaves->batch == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': no leaves", leaves->batch_of);
    }
    const int64_t most = limits->sequence_length_max;
    if (leaves->batch > most || nodes->batch > most || leaves->batch + nodes->batch > most) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%" PRId64 " leaves and %" PRId64 " inner nodes, expected %u together at "
                         "most",
                         leaves->batch, nodes->batch, limits->sequence_length_max);
    }
    return BASE_OK;
}

enum base_status srv_validate_tree(struct srv_request *request, const struct cell_model *model,
                                   const struct srv_limits *limits,
                                   const struct srv_text_rows *rows, struct sched_forest *forest,
                                   struct base_error *error)
{
    struct srv_extents leaves = srv_extents_none();
    struct srv_extents nodes = srv_extents_none();
    struct growth g = {.model = model, .arena = &request->arena, .error = error};
    struct sched_tensor *inputs =
        base_arena_array(&request->arena, model->n_inputs, sizeof(*inputs));
    struct sched_tensor *outputs =
        base_arena_array(&request->arena, model->n_outputs, sizeof(*outputs));
    if (inputs == NULL || outputs == NULL) {
        return no_memory(&g);
    }
    BASE_TRY(srv_tensors_known(request, model, error));
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        struct srv_extents *extents = i < model->tree.n_leaf_inputs ? &leaves : &nodes;
        BASE_TRY(srv_tensor_take(request, &model->inputs[i], extents, &inputs[i], error));
    }
    BASE_TRY(check_sizes(&leaves, &nodes, limits, error));
    g.n_leaves = (uint32_t)leaves.batch;
    g.n_nodes = (uint32_t)nodes.batch;
    BASE_TRY(grow(&g, &inputs[model->tree.children_input]));
    *forest = (struct sched_forest){.model = model,
                                    .n_leaves = g.n_leaves,
                                    .n_nodes = g.n_nodes,
                                    .n_roots = g.n_roots,
                                    .children = g.children,
                                    .order = g.order,
                                    .roots = rows->roots != NULL ? rows->roots : g.roots,
                                    .inputs = inputs,
                                    .outputs = outputs};
    const struct srv_extents roots = {.batch = g.n_roots};
    return srv_tensors_place(request, model, &roots, outputs, error);
}
