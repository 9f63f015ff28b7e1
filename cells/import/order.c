/* See order.h. Most graphs are in order, and cost a look at each of their names. */
#include "cells/import/order.h"

#include "base/hash.h"
#include "cells/import/graph.h"

#include <string.h>

#define NESTED_MAX 96u /* branches and bodies inside each other; messages are less deep */

/* Who computes the values of one graph: a table by their names, at most half full. */
struct makers {
    const char **names;
    uint32_t *nodes;
    size_t room; /* a power of two */
};

struct ordering {
    struct base_arena *arena;
    struct makers makers;
    uint32_t *first;  /* [nodes + 1]: where each one's begin of */
    uint32_t *before; /* the nodes that it reads */
    uint32_t n_before;
    struct base_error *error;
};

static enum base_status no_memory(struct ordering *o)
{
    return base_fail(o->error, BASE_RESOURCE_EXHAUSTED,
                     "the model's nodes are not in order, and there is no memory to sort them");
}

static size_t slot_of(const struct makers *makers, const char *name)
{
    size_t slot = (size_t)base_hash_bytes(name, strlen(name)).low & (makers->room - 1);
    while (makers->names[slot] != NULL && strcmp(makers->names[slot], name) != 0) {
        slot = (slot + 1) & (makers->room - 1);
    }
    return slot;
}

static enum base_status find_makers(struct ordering *o, const Onnx__GraphProto *graph)
{
    size_t n = 0;
    for (size_t i = 0; i < graph->n_node; i++) {
        n += graph->node[i]->n_output;
    }
    o->makers.room = 16;
    while (o->makers.room / 2 < n) {
        o->makers.room *= 2;
    }
    o->makers.names = base_arena_array(o->arena, o->makers.room, sizeof(*o->makers.names));
    o->makers.nodes = base_arena_array(o->arena, o->makers.room, sizeof(*o->makers.nodes));
    if (o->makers.names == NULL || o->makers.nodes == NULL) {
        return no_memory(o);
    }
    memset(o->makers.names, 0, o->makers.room * sizeof(*o->makers.names));
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_output; k++) {
            const size_t slot = slot_of(&o->makers, graph->node[i]->output[k]);
            if (o->makers.names[slot] == NULL) { // a second one is refused later
                o->makers.names[slot] = graph->node[i]->output[k];
                o->makers.nodes[slot] = (uint32_t)i;
            }
        }
    }
    return BASE_OK;
}

/* ---- What a node reads ---------------------------------------------------------------------- */

/* Notes the maker of a name, unless the node itself is, or nobody in this graph; where `before` is
 * NULL only counts. */
static void read_name(struct ordering *o, uint32_t node, const char *name)
{
    const size_t slot = name == NULL || name[0] == '\0' ? 0 : slot_of(&o->makers, name);
    if (name == NULL || name[0] == '\0' || o->makers.names[slot] == NULL ||
        o->makers.nodes[slot] == node) {
        return;
    }
    if (o->before != NULL) {
        o->before[o->n_before] = o->makers.nodes[slot];
    }
    o->n_before++;
}

/* Nodes that are left to look at. */
struct left {
    Onnx__NodeProto *const *at, *const *end;
};

/* A node's inputs, and what its branches and bodies read of around them. */
static enum base_status read_node(struct ordering *o, uint32_t number, Onnx__NodeProto *const *node)
{
    struct left left[NESTED_MAX] = {{node, node + 1}};
    uint32_t depth = 1;
    while (depth > 0) {
        if (left[depth - 1].at == left[depth - 1].end) {
            depth--;
            continue;
        }
        const Onnx__NodeProto *at = *left[depth - 1].at++;
        for (size_t i = 0; i < at->n_input; i++) {
            read_name(o, number, at->input[i]);
        }
        for (size_t i = 0; i < at->n_attribute; i++) {
            const Onnx__GraphProto *graph = at->attribute[i]->g;
            if (graph == NULL) {
                continue;
            }
            if (depth == NESTED_MAX) {
                return base_fail(o->error, BASE_UNIMPLEMENTED,
                                 "graphs stand inside each other more than %u deep", NESTED_MAX);
            }
            left[depth++] = (struct left){graph->node, graph->node + graph->n_node};
            for (size_t k = 0; k < graph->n_output; k++) {
                read_name(o, number, graph->output[k]->name);
            }
        }
    }
    return BASE_OK;
}

static enum base_status read_nodes(struct ordering *o, const Onnx__GraphProto *graph)
{
    o->n_before = 0;
    for (size_t i = 0; i < graph->n_node; i++) {
        o->first[i] = o->n_before;
        BASE_TRY(read_node(o, (uint32_t)i, &graph->node[i]));
    }
    o->first[graph->n_node] = o->n_before;
    return BASE_OK;
}

static bool is_in_order(const struct ordering *o, size_t n)
{
    bool is = true;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = o->first[i]; k < o->first[i + 1]; k++) {
            is = is && o->before[k] < i;
        }
    }
    return is;
}

/* ---- Sorting -------------------------------------------------------------------------------- */

enum { FRESH, BEGUN, PLACED };

/* Each node in turn, those that it reads first, whose own first, and so on. Where nodes read each
 * other in a circle all stay as they stood, for whoever refuses them to name the first one. */
static enum base_status sort_nodes(struct ordering *o, Onnx__GraphProto *graph)
{
    const size_t n = graph->n_node;
    Onnx__NodeProto **nodes = base_arena_array(o->arena, n, sizeof(void *));
    uint32_t *stack = base_arena_array(o->arena, n, sizeof(*stack));
    uint32_t *next = base_arena_array(o->arena, n, sizeof(*next)); // of what each one reads
    uint8_t *state = base_arena_alloc(o->arena, n);
    size_t n_placed = 0;
    if (nodes == NULL || stack == NULL || next == NULL || state == NULL) {
        return no_memory(o);
    }
    memset(state, FRESH, n);
    memcpy(next, o->first, n * sizeof(*next));
    for (uint32_t i = 0; i < n; i++) {
        size_t depth = 0;
        if (state[i] == FRESH) {
            stack[depth++] = i;
        }
        while (depth > 0) {
            const uint32_t at = stack[depth - 1];
            state[at] = BEGUN;
            if (next[at] == o->first[at + 1]) {
                state[at] = PLACED;
                nodes[n_placed++] = graph->node[at];
                depth--;
                continue;
            }
            const uint32_t before = o->before[next[at]++];
            if (state[before] == BEGUN) {
                return BASE_OK;
            }
            if (state[before] == FRESH) {
                stack[depth++] = before;
            }
        }
    }
    graph->node = nodes;
    return BASE_OK;
}

static enum base_status order_graph(struct ordering *o, Onnx__GraphProto *graph)
{
    if (graph->n_node > CELL__NODES_MAX) {
        return BASE_OK; // refused later
    }
    BASE_TRY(find_makers(o, graph));
    o->before = NULL;
    o->first = base_arena_array(o->arena, graph->n_node + 1, sizeof(*o->first));
    if (o->first == NULL) {
        return no_memory(o);
    }
    BASE_TRY(read_nodes(o, graph));
    o->before = base_arena_array(o->arena, o->n_before, sizeof(*o->before));
    if (o->before == NULL) {
        return no_memory(o);
    }
    BASE_TRY(read_nodes(o, graph));
    return is_in_order(o, graph->n_node) ? BASE_OK : sort_nodes(o, graph);
}

/* ---- Branches and bodies -------------------------------------------------------------------- */

struct graphs {
    Onnx__GraphProto **at;
    size_t n, room;
};

static enum base_status push_graph(struct ordering *o, struct graphs *graphs,
                                   Onnx__GraphProto *graph)
{
    if (graphs->n == graphs->room) {
        const size_t room = graphs->room == 0 ? 8 : 2 * graphs->room;
        Onnx__GraphProto **more = base_arena_array(o->arena, room, sizeof(void *));
        if (more == NULL) {
            return no_memory(o);
        }
        if (graphs->n > 0) {
            memcpy(more, graphs->at, graphs->n * sizeof(void *));
        }
        graphs->at = more;
        graphs->room = room;
    }
    graphs->at[graphs->n++] = graph;
    return BASE_OK;
}

static enum base_status push_inner(struct ordering *o, struct graphs *graphs,
                                   const Onnx__NodeProto *node)
{
    for (size_t k = 0; k < node->n_attribute; k++) {
        Onnx__GraphProto *inner = node->attribute[k]->g;
        BASE_TRY(inner == NULL ? BASE_OK : push_graph(o, graphs, inner));
    }
    return BASE_OK;
}

enum base_status cell__order_nodes(struct base_arena *arena, Onnx__GraphProto *graph,
                                   struct base_error *error)
{
    struct ordering o = {.arena = arena, .error = error};
    struct graphs graphs = {.at = NULL};
    BASE_TRY(push_graph(&o, &graphs, graph));
    while (graphs.n > 0) {
        const Onnx__GraphProto *at = graphs.at[--graphs.n];
        BASE_TRY(order_graph(&o, graphs.at[graphs.n]));
        for (size_t i = 0; i < at->n_node; i++) {
            BASE_TRY(push_inner(&o, &graphs, at->node[i]));
        }
    }
    return BASE_OK;
}
