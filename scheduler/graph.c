/* Building a cell graph and cutting it into subgraphs.
 *
 * The cut: each node gets a depth, the largest number of type changes on any path to it. Nodes of
 * one type and one depth that are connected form a subgraph. A path that leaves a subgraph changes
 * type, so it can only come back at a greater depth: subgraphs never wait for each other in a
 * circle, whatever the graph. For chains and trees this gives the subgraphs of BatchMaker.
 *
 * Thread: loop thread. Cost: O(nodes + edges) (union by a forest with path halving). */
#include "scheduler/graph.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/mem.h"
#include "scheduler/ready.h"

#include <string.h>

static void builder_fail(struct sched_builder *builder, enum base_status status, const char *why)
{
    if (builder->status == BASE_OK) {
        builder->status = status;
        builder->why = why;
    }
}

static bool builder_need(struct sched_builder *builder, bool ok, const char *why)
{
    if (builder->status != BASE_OK) {
        return false;
    }
    if (!ok) {
        builder_fail(builder, BASE_INVALID_ARGUMENT, why);
    }
    return ok;
}

void sched_builder_init(struct sched_builder *builder, struct base_arena *arena, uint32_t nodes_max,
                        uint32_t values_max, uint32_t edges_max)
{
    memset(builder, 0, sizeof(*builder));
    builder->arena = arena;
    builder->nodes_max = nodes_max;
    builder->values_max = values_max;
    builder->edges_max = edges_max;
    struct sched_graph *graph = base_arena_alloc(arena, sizeof(*graph));
    builder->edge_from = base_arena_array(arena, edges_max, sizeof(uint32_t));
    builder->edge_to = base_arena_array(arena, edges_max, sizeof(uint32_t));
    builder->edge_in_steps = base_arena_array(arena, edges_max, sizeof(bool));
    if (graph == NULL || builder->edge_from == NULL || builder->edge_to == NULL ||
        builder->edge_in_steps == NULL) {
        builder_fail(builder, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        return;
    }
    builder->graph = graph;
    _Static_assert(sizeof(*graph->nodes) == (size_t)2 * BASE_CACHE_LINE, "graph.h says so");
    size_t bytes = 0; // whole lines: a node is fetched by them
    graph->nodes = base_size_mul(nodes_max, sizeof(*graph->nodes), &bytes)
                       ? base_arena_alloc_aligned64(arena, bytes)
                       : NULL;
    graph->values = base_arena_array(arena, values_max, sizeof(*graph->values));
    if (graph->nodes == NULL || graph->values == NULL) {
        builder_fail(builder, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
}

sched_node_id sched_builder_node(struct sched_builder *builder, const struct cell_type *type,
                                 uint32_t steps, uint32_t emits_max)
{
    struct sched_graph *graph = builder->graph;
    if (!builder_need(builder, steps > 0, "a node of no steps") ||
        !builder_need(builder, graph->n_nodes < builder->nodes_max, "more nodes than announced")) {
        return 0;
    }
    struct sched_node *node = &graph->nodes[graph->n_nodes];
    node->type = type;
    node->graph = graph;
    node->lanes = 1;
    node->follows = SCHED_NONE;
    node->wiring.steps = steps;
    node->wiring.state = CELL_ROW_NONE;
    node->wiring.emits = base_arena_array(builder->arena, emits_max, sizeof(*node->wiring.emits));
    node->wiring.inputs =
        base_arena_array(builder->arena, sched__n_reads(node), sizeof(struct cell_ref));
    if (node->wiring.emits == NULL || node->wiring.inputs == NULL) {
        builder_fail(builder, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        return 0;
    }
    node->wiring.init = node->wiring.inputs + type->def.n_inputs;
    // The arrays' capacity is kept in the counters until the first use of each fills it.
    node->n_edges = emits_max;
    return graph->n_nodes++;
}

/* The node, or NULL after recording why not. */
static struct sched_node *node_at(struct sched_builder *builder, sched_node_id id)
{
    // After a failure there may be no graph to look into.
    if (builder->status != BASE_OK ||
        !builder_need(builder, id < builder->graph->n_nodes, "no such node")) {
        return NULL;
    }
    return &builder->graph->nodes[id];
}

struct cell_ref sched_host_ref(const void *host, int64_t stride_bytes)
{
    // Inputs are only read; one type of reference serves both directions.
    union {
        const void *in;
        uint8_t *out;
    } address = {.in = host};
    return (struct cell_ref){
        .kind = CELL_REF_HOST, .host = address.out, .stride_bytes = stride_bytes};
}

/* A value that has no row yet. */
static struct cell_ref value_ref(uint32_t value)
{
    return (struct cell_ref){.kind = CELL_REF_VALUE, .row = CELL_ROW_NONE, .value = value};
}

/* The node's input, or initial state, not bound yet; NULL after recording why not. */
static struct cell_ref *unbound_input(struct sched_builder *builder, sched_node_id node_id,
                                      uint32_t input)
{
    struct sched_node *node = node_at(builder, node_id);
    if (node == NULL || !builder_need(builder, input < node->type->def.n_inputs, "no such input")) {
        return NULL;
    }
    struct cell_ref *ref = &node->wiring.inputs[input];
    return builder_need(builder, ref->kind == CELL_REF_ZERO, "an input bound twice") ? ref : NULL;
}

static struct cell_ref *unbound_init(struct sched_builder *builder, sched_node_id node_id,
                                     uint32_t state)
{
    struct sched_node *node = node_at(builder, node_id);
    if (node == NULL || !builder_need(builder, state < node->type->def.n_states, "no such state")) {
        return NULL;
    }
    struct cell_ref *ref = &node->wiring.init[state];
    return builder_need(builder, ref->kind == CELL_REF_ZERO, "a state bound twice") ? ref : NULL;
}

void sched_builder_input_host(struct sched_builder *builder, sched_node_id node_id, uint32_t input,
                              const void *host, int64_t stride_bytes)
{
    struct cell_ref *ref = unbound_input(builder, node_id, input);
    if (ref != NULL) {
        *ref = sched_host_ref(host, stride_bytes);
    }
}

void sched_builder_input_rows(struct sched_builder *builder, sched_node_id node_id, uint32_t input,
                              const void *host, int64_t stride_bytes, uint32_t rows)
{
    struct cell_ref *ref = unbound_input(builder, node_id, input);
    if (ref != NULL) {
        *ref = sched_host_ref(host, stride_bytes);
        ref->rows = rows;
    }
}

void sched_builder_init_host(struct sched_builder *builder, sched_node_id node_id, uint32_t state,
                             const void *host)
{
    struct cell_ref *ref = unbound_init(builder, node_id, state);
    if (ref != NULL) {
        *ref = sched_host_ref(host, 0);
    }
}

/* A fresh emit of the node, or NULL. */
static struct cell_emit *emit_add(struct sched_builder *builder, struct sched_node *node,
                                  enum cell_emit_what what, enum cell_emit_when when,
                                  uint32_t index)
{
    const struct cell_def *def = &node->type->def;
    uint32_t count = what == CELL_EMIT_OUTPUT ? def->n_outputs : def->n_states;
    if (!builder_need(builder, index < count, "no such output or state") ||
        !builder_need(builder, node->wiring.n_emits < node->n_edges, "more emits than announced")) {
        return NULL;
    }
    if (!builder_need(builder, node->wiring.beam == NULL, "an emit of a beam")) {
        return NULL;
    }
    if (!builder_need(builder, node->wiring.end == NULL || when != CELL_EMIT_LAST,
                      "the last step of a chain that may end before")) {
        return NULL;
    }
    struct cell_emit *emit = &node->wiring.emits[node->wiring.n_emits++];
    emit->what = what;
    emit->when = when;
    emit->index = index;
    return emit;
}

void sched_builder_end(struct sched_builder *builder, sched_node_id node_id,
                       const struct cell_end *end)
{
    struct sched_node *node = node_at(builder, node_id);
    if (node == NULL) {
        return;
    }
    const struct cell_def *def = &node->type->def;
    if (!builder_need(builder, end->state < def->n_states, "no such state") ||
        !builder_need(builder, node->wiring.n_emits == 0, "an end behind what is emitted")) {
        return;
    }
    const struct cell_value *state = &def->values[def->n_inputs + end->state];
    if (builder_need(builder, state->dtype != CELL_F32 && state->width == 1,
                     "an end by a state that is no integer")) {
        node->wiring.end = end;
    }
}

void sched_builder_beam(struct sched_builder *builder, sched_node_id node_id,
                        struct cell_beam *beam)
{
    struct sched_node *node = node_at(builder, node_id);
    if (node == NULL ||
        !builder_need(builder, beam->width >= 1 && beam->width <= CELL_BEAM_MAX,
                      "a beam of no such width") ||
        !builder_need(builder, node->wiring.n_emits == 0 && node->wiring.end == NULL,
                      "a beam that emits, or ends by itself")) {
        return;
    }
    node->others = base_arena_array(builder->arena, beam->width, sizeof(*node->others));
    if (node->others == NULL) {
        builder_fail(builder, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        return;
    }
    node->lanes = (uint16_t)beam->width;
    node->wiring.beam = beam;
}

void sched_builder_emit(struct sched_builder *builder, sched_node_id node_id, struct cell_emit emit)
{
    struct sched_node *node = node_at(builder, node_id);
    struct cell_emit *added =
        node == NULL ? NULL : emit_add(builder, node, emit.what, emit.when, emit.index);
    if (added != NULL) {
        added->to = emit.to;
    }
}

sched_value_id sched_builder_value(struct sched_builder *builder, sched_node_id node_id,
                                   enum cell_emit_what what, enum cell_emit_when when,
                                   uint32_t index)
{
    struct sched_graph *graph = builder->graph;
    struct sched_node *node = node_at(builder, node_id);
    base_assert(when != CELL_EMIT_EACH);
    if (node == NULL || !builder_need(builder, graph->n_values < builder->values_max,
                                      "more values than announced")) {
        return 0;
    }
    struct cell_emit *emit = emit_add(builder, node, what, when, index);
    if (emit == NULL) {
        return 0;
    }
    emit->to = value_ref(graph->n_values);
    struct sched_value *value = &graph->values[graph->n_values];
    value->layout = what == CELL_EMIT_OUTPUT ? node->type->output_layouts[index]
                                             : node->type->state_layouts[index];
    // Until it is allocated a value's row field remembers its writer, for the edges.
    value->row = node_id;
    return graph->n_values++;
}

static void edge_add(struct sched_builder *builder, sched_node_id from, sched_node_id to,
                     bool in_steps)
{
    struct sched_graph *graph = builder->graph;
    if (!builder_need(builder, from < to, "a node before its producer") ||
        !builder_need(builder, graph->n_edges < builder->edges_max, "more edges than announced")) {
        return;
    }
    // Who hands up several values needs one; a node's edges stand together.
    for (uint32_t e = graph->n_edges; e-- > 0 && builder->edge_to[e] == to;) {
        if (builder->edge_from[e] == from) {
            builder->edge_in_steps[e] &= in_steps;
            return;
        }
    }
    builder->edge_from[graph->n_edges] = from;
    builder->edge_to[graph->n_edges] = to;
    builder->edge_in_steps[graph->n_edges] = in_steps;
    graph->n_edges++;
}

static void read_value(struct sched_builder *builder, sched_node_id node_id, struct cell_ref *ref,
                       uint32_t layout, sched_value_id value_id)
{
    struct sched_graph *graph = builder->graph;
    if (!builder_need(builder, value_id < graph->n_values, "no such value")) {
        return;
    }
    struct sched_value *value = &graph->values[value_id];
    if (!builder_need(builder, value->layout == layout, "a value of another shape")) {
        return;
    }
    *ref = value_ref(value_id);
    value->readers_left++;
    edge_add(builder, value->row, node_id, false);
}

void sched_builder_input_value(struct sched_builder *builder, sched_node_id node_id, uint32_t input,
                               sched_value_id value_id)
{
    struct cell_ref *ref = unbound_input(builder, node_id, input);
    if (ref != NULL) {
        const struct cell_type *type = builder->graph->nodes[node_id].type;
        read_value(builder, node_id, ref, type->input_layouts[input], value_id);
    }
}

void sched_builder_init_value(struct sched_builder *builder, sched_node_id node_id, uint32_t state,
                              sched_value_id value_id)
{
    struct cell_ref *ref = unbound_init(builder, node_id, state);
    if (ref != NULL) {
        const struct cell_type *type = builder->graph->nodes[node_id].type;
        read_value(builder, node_id, ref, type->state_layouts[state], value_id);
    }
}

void sched_builder_after(struct sched_builder *builder, sched_node_id node_id,
                         sched_node_id producer)
{
    if (node_at(builder, node_id) != NULL) {
        edge_add(builder, producer, node_id, false);
    }
}

void sched_builder_after_each(struct sched_builder *builder, sched_node_id node_id,
                              sched_node_id producer)
{
    const struct sched_node *node = node_at(builder, node_id);
    const struct sched_node *from = node_at(builder, producer);
    if (node != NULL && from != NULL &&
        builder_need(builder, node->wiring.steps == from->wiring.steps,
                     "a chain that follows one of another length")) {
        edge_add(builder, producer, node_id, true);
        builder->has_followers = true;
    }
}

/* ---- Finishing ---- */

static uint32_t find_root(uint32_t *parent, uint32_t node)
{
    while (parent[node] != node) {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    return node;
}

/* Fills graph->edges and each node's first_edge, n_edges (counting sort by producer). */
static void edges_sort(struct sched_builder *builder)
{
    struct sched_graph *graph = builder->graph;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i].n_edges = 0;
    }
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        graph->nodes[builder->edge_from[i]].n_edges++;
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i].first_edge = next;
        next += graph->nodes[i].n_edges;
        graph->nodes[i].n_edges = 0;
    }
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        struct sched_node *from = &graph->nodes[builder->edge_from[i]];
        graph->edges[from->first_edge + from->n_edges++] = builder->edge_to[i];
    }
}

/* Which chains may follow others: both with a state, of a length that is known. Of several that it
 * reads step by step the last. */
static void find_followers(const struct sched_builder *builder)
{
    const struct sched_graph *graph = builder->graph;
    for (uint32_t i = 0; i < graph->n_edges; i++) {
        const struct sched_node *from = &graph->nodes[builder->edge_from[i]];
        struct sched_node *to = &graph->nodes[builder->edge_to[i]];
        if (builder->edge_in_steps[i] && from->type != to->type &&
            from->type->state_layout != CELL_LAYOUT_NONE &&
            to->type->state_layout != CELL_LAYOUT_NONE && !sched__ends_itself(from) &&
            !sched__ends_itself(to)) {
            to->follows = builder->edge_from[i];
        }
    }
}

/* A chain that ends by itself is joined with nothing: it leaves its batch alone. */
static bool may_join(const struct sched_node *a, const struct sched_node *b)
{
    return a->type == b->type && !sched__ends_itself(a) && !sched__ends_itself(b);
}

/* Joins connected nodes of equal type and depth; parent[] becomes a forest. Consumers follow their
 * producers in node order, so one pass over the nodes sees every depth final. */
static void group_nodes(const struct sched_graph *graph, uint32_t *depth, uint32_t *parent)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        depth[i] = 0;
        parent[i] = i;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct sched_node *from = &graph->nodes[i];
        for (uint32_t e = 0; e < from->n_edges; e++) {
            uint32_t j = graph->edges[from->first_edge + e];
            uint32_t least = depth[i] + (may_join(from, &graph->nodes[j]) ? 0u : 1u);
            depth[j] = depth[j] > least ? depth[j] : least;
        }
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct sched_node *from = &graph->nodes[i];
        for (uint32_t e = 0; e < from->n_edges; e++) {
            uint32_t j = graph->edges[from->first_edge + e];
            if (may_join(from, &graph->nodes[j]) && depth[i] == depth[j]) {
                parent[find_root(parent, j)] = find_root(parent, i);
            }
        }
    }
}

/* Numbers the groups, counts what each waits for, and lists the nodes ready at once within each. */
static void cut_subgraphs(struct sched_graph *graph, uint32_t *parent)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        struct sched_node *node = &graph->nodes[i];
        uint32_t root = find_root(parent, i);
        if (root == i) {
            node->subgraph = graph->n_subgraphs++;
            struct sched_subgraph *subgraph = &graph->subgraphs[node->subgraph];
            subgraph->graph = graph;
            subgraph->type = node->type;
            subgraph->pinned = SCHED_NONE;
        }
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i].subgraph = graph->nodes[find_root(parent, i)].subgraph;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct sched_node *from = &graph->nodes[i];
        for (uint32_t e = 0; e < from->n_edges; e++) {
            struct sched_node *to = &graph->nodes[graph->edges[from->first_edge + e]];
            if (to->subgraph == from->subgraph) {
                to->waits++;
            } else {
                graph->subgraphs[to->subgraph].waits++;
            }
        }
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].waits == 0) {
            sched__subgraph_push(&graph->subgraphs[graph->nodes[i].subgraph], &graph->nodes[i],
                                 false);
        }
    }
}

static void need_add(struct sched_graph *graph, uint32_t layout, uint32_t rows)
{
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        if (graph->needs[i].layout == layout) {
            graph->needs[i].rows += rows;
            return;
        }
    }
    graph->needs[graph->n_needs++] = (struct sched_need){.layout = layout, .rows = rows};
}

/* Peak of live rows, bounded by all rows the graph ever uses: exact for chains, generous for
 * graphs whose parts run one after another. */
static void count_needs(struct sched_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].type->state_layout != CELL_LAYOUT_NONE) {
            need_add(graph, graph->nodes[i].type->state_layout, graph->nodes[i].lanes);
        }
    }
    for (uint32_t i = 0; i < graph->n_values; i++) {
        need_add(graph, graph->values[i].layout, 1);
        graph->values[i].row = CELL_ROW_NONE;
    }
}

static void count_flops(struct sched_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct sched_node *node = &graph->nodes[i];
        graph->flops += (uint64_t)node->lanes * node->wiring.steps * node->type->flops;
    }
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

enum base_status sched_builder_finish(struct sched_builder *builder, struct sched_graph **out,
                                      struct base_error *error)
{
    struct sched_graph *graph = builder->graph;
    if (builder_need(builder, graph != NULL && graph->n_nodes > 0, "a graph of no nodes")) {
        uint32_t n = graph->n_nodes;
        uint32_t *depth = base_arena_array(builder->arena, n, sizeof(*depth));
        uint32_t *parent = base_arena_array(builder->arena, n, sizeof(*parent));
        uint32_t layouts_max = smaller(n + graph->n_values, CELL_LAYOUTS_MAX);
        graph->edges = base_arena_array(builder->arena, graph->n_edges, sizeof(*graph->edges));
        graph->subgraphs = base_arena_array(builder->arena, n, sizeof(*graph->subgraphs));
        graph->needs = base_arena_array(builder->arena, layouts_max, sizeof(*graph->needs));
        if (depth == NULL || parent == NULL || graph->edges == NULL || graph->subgraphs == NULL ||
            graph->needs == NULL) {
            builder_fail(builder, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        } else {
            if (builder->has_followers) {
                find_followers(builder);
            }
            edges_sort(builder);
            group_nodes(graph, depth, parent);
            cut_subgraphs(graph, parent);
            count_flops(graph);
            count_needs(graph);
            graph->nodes_left = n;
        }
    }
    if (builder->status != BASE_OK) {
        return base_fail(error, builder->status, "cell graph: %s", builder->why);
    }
    *out = graph;
    return BASE_OK;
}

enum base_status sched_graph_show(struct sched_graph *graph, struct base_arena *arena,
                                  const sched_node_id *nodes, uint32_t n)
{
    graph->shown = base_arena_array(arena, graph->n_nodes, sizeof(*graph->shown));
    if (graph->shown == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        atomic_init(&graph->shown[i], 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        base_assert(nodes[i] < graph->n_nodes);
        graph->nodes[nodes[i]].is_shown = true;
    }
    return BASE_OK;
}
