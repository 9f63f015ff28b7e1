/* From what a plug-in said of a request to a graph of cells. The numbers are checked as those of a
 * client (scheduler/dag.h); here are the rows: each must lie in its tensor, and fit the input or
 * output that it belongs to. Cost: O(nodes + edges + rows). */
#include "server/validate.h"

#include "base/assert.h"
#include "base/checked.h"
#include "server/plugin.h"
#include "server/tensors.h"

#include <inttypes.h>
#include <string.h>

/* What a request's graph is made of while it is checked. */
struct checking {
    struct srv_request *request;
    const struct cell_model *model;
    const struct srv_plugin_call *call;
    const struct sched_tensor *inputs; /* the request's own, not the call's copies */
    struct sched_tensor *outputs;
    uint64_t counts[CELL_TENSORS_MAX]; /* elements of each output */
    struct sched_dag *dag;
    struct base_error *error;
};

/* Of a plug-in that described no graph: its own fault, whatever the client sent. */
static enum base_status fail_row(const struct checking *c, const struct srv_plugin_row *row,
                                 const char *what, const char *why)
{
    return base_fail(c->error, BASE_INTERNAL, "unfold.so: %s %u of node %" PRId64 ": %s", what,
                     row->port, row->node, why);
}

/* ---- Inputs ---- */

enum base_status srv_validate_plugin_inputs(struct srv_request *request,
                                            const struct cell_model *model,
                                            struct sched_tensor *inputs,
                                            struct cellbatch_values *values,
                                            struct base_error *error)
{
    BASE_TRY(srv_tensors_known(request, model, error));
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const struct cell_tensor *tensor = &model->inputs[i];
        struct srv_extents extents = srv_extents_none();
        const struct srv_tensor *given = NULL;
        BASE_TRY(srv_tensor_take(request, tensor, &extents, &inputs[i], error));
        for (uint32_t k = 0; k < request->n_inputs && given == NULL; k++) {
            given = strcmp(request->inputs[k].name, tensor->name) == 0 ? &request->inputs[k] : NULL;
        }
        values[i] = (struct cellbatch_values){.data = NULL};
        if (given != NULL) {
            static const uint8_t empty[8];
            values[i].data = given->bytes > 0 ? inputs[i].data : empty;
            values[i].count = given->bytes / cell_dtype_bytes(tensor->dtype);
            memcpy(values[i].dims, given->shape, given->rank * sizeof(values[i].dims[0]));
        }
    }
    return BASE_OK;
}

/* ---- Rows ---- */

/* The number of the row's input or output among those of all nodes, and the tensor of the cell. */
static enum base_status find_port(const struct checking *c, const struct srv_plugin_row *row,
                                  bool is_input, uint32_t *number, const struct cell_tensor **out)
{
    const struct sched_dag *dag = c->dag;
    const char *what = is_input ? "input" : "output";
    if (row->node < 0 || row->node >= (int64_t)dag->n_nodes) {
        return fail_row(c, row, what, "there is no such node");
    }
    const uint32_t node = (uint32_t)row->node;
    const struct cell_graph_cell *cell = sched_dag_cell(dag, node);
    if (row->port >= (is_input ? cell->n_inputs : cell->n_outputs)) {
        return fail_row(c, row, what, "its cell has fewer");
    }
    *number = (is_input ? dag->first_input : dag->first_output)[node] + row->port;
    *out = is_input ? &c->model->graph.inputs[cell->first_input + row->port]
                    : &c->model->graph.outputs[cell->first_output + row->port];
    return BASE_OK;
}

/* Whether a row of this width stands in a tensor of so many elements. */
static bool is_inside(uint64_t offset, uint32_t width, uint64_t count)
{
    return width <= count && offset <= count - width;
}

static enum base_status check_ids(const struct checking *c, const struct srv_plugin_row *row,
                                  const struct cell_tensor *port, const uint8_t *data)
{
    for (uint32_t k = 0; port->id_bound > 0 && k < port->width; k++) {
        const int64_t id = srv_tensor_integer(port, data, k);
        if (id < 0 || id >= port->id_bound) {
            return base_fail(c->error, BASE_INVALID_ARGUMENT,
                             "id %" PRId64 " for input %u of node %" PRId64 ", expected "
                             "0..%" PRId64,
                             id, row->port, row->node, port->id_bound - 1);
        }
    }
    return BASE_OK;
}

/* Where a row lies: in the request's tensor, or copied from the call into the request's memory. */
static enum base_status find_row(const struct checking *c, const struct srv_plugin_row *row,
                                 const struct cell_tensor *port, const uint8_t **out)
{
    const uint32_t element = cell_dtype_bytes(port->dtype);
    if (row->data != NULL) {
        const size_t bytes = (size_t)port->width * element;
        if (row->bytes != bytes) {
            return fail_row(c, row, "input", "a row of other bytes than it takes");
        }
        uint8_t *copy = base_arena_alloc(&c->request->arena, bytes);
        if (copy == NULL) {
            return base_fail(c->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
        memcpy(copy, row->data, bytes);
        *out = copy;
        return check_ids(c, row, port, copy);
    }
    if (row->tensor >= c->model->n_inputs || c->model->inputs[row->tensor].dtype != port->dtype) {
        return fail_row(c, row, "input", "no such tensor, or one of another datatype");
    }
    if (c->inputs[row->tensor].data == NULL ||
        !is_inside(row->offset, port->width, c->call->inputs[row->tensor].count)) {
        return fail_row(c, row, "input", "a row beyond the request's tensor");
    }
    *out = c->inputs[row->tensor].data + row->offset * element;
    return check_ids(c, row, port, *out);
}

static enum base_status set_feeds(const struct checking *c)
{
    const struct srv_plugin_row *rows = c->call->feeds.items;
    for (uint32_t r = 0; r < c->call->feeds.n; r++) {
        const struct cell_tensor *port = NULL;
        uint32_t number = 0;
        BASE_TRY(find_port(c, &rows[r], true, &number, &port));
        base_assert(port != NULL);
        if (c->dag->rows[number] != NULL || c->dag->fed_by[number] != SCHED_NONE) {
            return fail_row(c, &rows[r], "input", "it reads something else already");
        }
        BASE_TRY(find_row(c, &rows[r], port, &c->dag->rows[number]));
    }
    return BASE_OK;
}

/* ---- Answers ---- */

static enum base_status place_outputs(struct checking *c)
{
    struct srv_extents extents[CELL_TENSORS_MAX] = {{.batch = 0}};
    for (uint32_t o = 0; o < c->model->n_outputs; o++) {
        const struct cell_tensor *tensor = &c->model->outputs[o];
        c->counts[o] = 1;
        for (uint32_t d = 0; d < tensor->rank; d++) {
            const int64_t dim = c->call->shapes[o][d];
            const bool is_own = tensor->dims[d] == CELL_DIM_ANY || tensor->dims[d] == dim;
            int64_t count = 0;
            if (dim < 0 || !is_own || !base_i64_mul((int64_t)c->counts[o], dim, &count)) {
                return base_fail(c->error, BASE_INTERNAL,
                                 "unfold.so: dimension %u of output '%.60s' is %" PRId64, d,
                                 tensor->name, dim);
            }
            c->counts[o] = (uint64_t)count;
        }
        extents[o].dims = c->call->shapes[o];
    }
    return srv_tensors_place_each(c->request, c->model, extents, c->outputs, c->error);
}

static enum base_status set_answers(const struct checking *c)
{
    const struct srv_plugin_row *rows = c->call->answers.items;
    for (uint32_t r = 0; r < c->call->answers.n; r++) {
        const struct srv_plugin_row *row = &rows[r];
        const struct cell_tensor *port = NULL;
        uint32_t number = 0;
        BASE_TRY(find_port(c, row, false, &number, &port));
        base_assert(port != NULL);
        if (row->tensor >= c->model->n_outputs ||
            c->model->outputs[row->tensor].dtype != port->dtype) {
            return fail_row(c, row, "output", "no such tensor, or one of another datatype");
        }
        if (!is_inside(row->offset, port->width, c->counts[row->tensor])) {
            return fail_row(c, row, "output", "a row beyond the answer's tensor");
        }
        if (c->dag->answers[number] != NULL) {
            return fail_row(c, row, "output", "it is answered twice");
        }
        uint8_t *data = c->outputs[row->tensor].data; // NULL: not asked for
        c->dag->answers[number] =
            data == NULL ? NULL : data + row->offset * cell_dtype_bytes(port->dtype);
    }
    return BASE_OK;
}

enum base_status srv_validate_plugin(struct srv_request *request, const struct cell_model *model,
                                     const struct srv_plugin_call *call,
                                     const struct sched_tensor *inputs, struct sched_dag *dag,
                                     struct base_error *error)
{
    struct checking c = {.request = request,
                         .model = model,
                         .call = call,
                         .inputs = inputs,
                         .dag = dag,
                         .error = error};
    struct base_error why = {.status = BASE_OK};
    *dag = (struct sched_dag){.model = model,
                              .n_nodes = call->cells.n,
                              .n_edges = call->edges.n,
                              .cells = call->cells.items,
                              .edges = call->edges.items};
    c.outputs = base_arena_array(&request->arena, model->n_outputs, sizeof(*c.outputs));
    if (c.outputs == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    const enum base_status status = sched_dag_check(dag, &request->arena, &why);
    if (status != BASE_OK) {
        return base_fail(error, status == BASE_INVALID_ARGUMENT ? BASE_INTERNAL : status,
                         "unfold.so: %s", why.message);
    }
    BASE_TRY(set_feeds(&c));
    BASE_TRY(place_outputs(&c));
    return set_answers(&c);
}

enum base_status srv_validate_plugin_sample(struct srv_request *request,
                                            const struct cell_model *model,
                                            const struct srv_limits *limits, struct sched_dag *dag,
                                            struct base_error *error)
{
    const uint32_t most = limits->sequence_length_max;
    const uint32_t n = model->n_stages < most ? model->n_stages : most;
    int64_t *cells = base_arena_array(&request->arena, n, sizeof(*cells));
    if (cells == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    for (uint32_t i = 0; i < n; i++) {
        cells[i] = i;
    }
    *dag = (struct sched_dag){.model = model, .n_nodes = n, .cells = cells};
    return sched_dag_check(dag, &request->arena, error);
}
