/* What a plug-in may call: each function notes what it was told, and nothing is looked at before
 * the plug-in has returned, but for limits on memory. Thread: the plug-in's. */
#include "server/plugin.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)16 << 10)
#define ITEMS_FIRST 64u

static struct srv_plugin_call *call_of(struct cellbatch_graph *graph)
{
    return (struct srv_plugin_call *)(void *)graph;
}

static int fail(struct srv_plugin_call *call, enum base_status status, const char *why)
{
    if (call->error.status == BASE_OK) {
        base_fail(&call->error, status, "unfold.so: %s", why);
    }
    return -1;
}

/* Room for one more item, zeros; NULL after failing the call. Twice as much memory each time: what
 * is left behind is less than what is in use. */
static void *append(struct srv_plugin_call *call, struct srv_plugin_list *list, size_t item_bytes)
{
    if (call->error.status != BASE_OK) {
        return NULL;
    }
    if (list->n == list->capacity) {
        const uint32_t capacity = list->capacity == 0 ? ITEMS_FIRST : 2 * list->capacity;
        void *items =
            capacity > UINT32_MAX / 4 ? NULL : base_arena_array(&call->arena, capacity, item_bytes);
        if (items == NULL) {
            (void)fail(call, BASE_RESOURCE_EXHAUSTED, "the request's memory is spent");
            return NULL;
        }
        if (list->n > 0) {
            memcpy(items, list->items, list->n * item_bytes);
        }
        list->items = items;
        list->capacity = capacity;
    }
    return (uint8_t *)list->items + list->n++ * item_bytes;
}

/* ---- The table ---- */

static int64_t add_node(struct cellbatch_graph *graph, uint32_t cell)
{
    struct srv_plugin_call *call = call_of(graph);
    if (call->cells.n == call->nodes_max) {
        if (call->error.status == BASE_OK) {
            base_fail(&call->error, BASE_INVALID_ARGUMENT, "the request becomes more than %u nodes",
                      call->nodes_max);
        }
        return -1;
    }
    int64_t *added = append(call, &call->cells, sizeof(*added));
    if (added == NULL) {
        return -1;
    }
    *added = cell;
    return (int64_t)call->cells.n - 1;
}

static int connect_nodes(struct cellbatch_graph *graph, int64_t from, uint32_t output, int64_t to,
                         uint32_t input)
{
    struct srv_plugin_call *call = call_of(graph);
    const int64_t edge[CELL_EDGE_NUMBERS] = {from, output, to, input};
    void *added = append(call, &call->edges, sizeof(edge));
    if (added == NULL) {
        return -1;
    }
    memcpy(added, edge, sizeof(edge));
    return 0;
}

static int add_row(struct srv_plugin_call *call, struct srv_plugin_list *list,
                   const struct srv_plugin_row *row)
{
    struct srv_plugin_row *added = append(call, list, sizeof(*added));
    if (added == NULL) {
        return -1;
    }
    *added = *row;
    return 0;
}

static int feed(struct cellbatch_graph *graph, int64_t node, uint32_t input, uint32_t tensor,
                uint64_t offset)
{
    struct srv_plugin_call *call = call_of(graph);
    return add_row(call, &call->feeds,
                   &(struct srv_plugin_row){node, input, tensor, offset, NULL, 0});
}

static int feed_values(struct cellbatch_graph *graph, int64_t node, uint32_t input,
                       const void *values, uint64_t bytes)
{
    struct srv_plugin_call *call = call_of(graph);
    if (values == NULL || call->error.status != BASE_OK) {
        return fail(call, BASE_INTERNAL, "feed_values() without values");
    }
    uint8_t *copy = base_arena_alloc(&call->arena, bytes);
    if (copy == NULL) {
        return fail(call, BASE_RESOURCE_EXHAUSTED, "the request's memory is spent");
    }
    memcpy(copy, values, bytes);
    return add_row(call, &call->feeds, &(struct srv_plugin_row){node, input, 0, 0, copy, bytes});
}

static int set_shape(struct cellbatch_graph *graph, uint32_t tensor, const int64_t *dims)
{
    struct srv_plugin_call *call = call_of(graph);
    if (tensor >= call->n_outputs || dims == NULL) {
        return fail(call, BASE_INTERNAL, "set_shape() of an output that is not there");
    }
    memcpy(call->shapes[tensor], dims, call->ranks[tensor] * sizeof(*dims));
    return call->error.status == BASE_OK ? 0 : -1;
}

static int answer(struct cellbatch_graph *graph, int64_t node, uint32_t output, uint32_t tensor,
                  uint64_t offset)
{
    struct srv_plugin_call *call = call_of(graph);
    return add_row(call, &call->answers,
                   &(struct srv_plugin_row){node, output, tensor, offset, NULL, 0});
}

static int fail_by_plugin(struct cellbatch_graph *graph, const char *message)
{
    return fail(call_of(graph), BASE_INVALID_ARGUMENT,
                message == NULL ? "failed without a word" : message);
}

static const struct cellbatch_calls calls = {.add_node = add_node,
                                             .connect = connect_nodes,
                                             .feed = feed,
                                             .feed_values = feed_values,
                                             .set_shape = set_shape,
                                             .answer = answer,
                                             .fail = fail_by_plugin};

/* ---- Life cycle ---- */

static bool copy_input(struct srv_plugin_call *call, uint32_t i,
                       const struct cellbatch_values *given)
{
    const size_t bytes = (size_t)given->count * cell_dtype_bytes(call->model->inputs[i].dtype);
    call->inputs[i] = *given;
    if (given->data == NULL) {
        return true;
    }
    uint8_t *copy = base_arena_alloc(&call->arena, bytes);
    if (copy != NULL) {
        memcpy(copy, given->data, bytes);
    }
    call->inputs[i].data = copy;
    return copy != NULL;
}

struct srv_plugin_call *srv_plugin_call_create(const struct cell_model *model,
                                               const struct cellbatch_values *inputs,
                                               uint32_t nodes_max, size_t budget_bytes)
{
    struct srv_plugin_call *call = base_alloc(sizeof(*call));
    if (call == NULL) {
        return NULL;
    }
    call->face.calls = &calls;
    call->model = model;
    call->nodes_max = nodes_max;
    base_arena_init(&call->arena, CHUNK_BYTES,
                    budget_bytes > CHUNK_BYTES ? budget_bytes : CHUNK_BYTES);
    call->n_inputs = model->n_inputs;
    call->n_outputs = model->n_outputs;
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        call->ranks[o] = model->outputs[o].rank;
        memcpy(call->shapes[o], model->outputs[o].dims, sizeof(call->shapes[o]));
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (!copy_input(call, i, &inputs[i])) {
            srv_plugin_call_free(call);
            return NULL;
        }
    }
    return call;
}

void srv_plugin_call_free(struct srv_plugin_call *call)
{
    if (call != NULL) {
        base_arena_release(&call->arena);
        base_free(call);
    }
}
