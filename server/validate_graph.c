/* Checking a request that is a graph of cells against its model: its numbers first, then the rows
 * of each cell's inputs, of which there must be as many as it has nodes. Cost: O(nodes + edges). */
#include "server/validate.h"

#include "server/tensors.h"

#include <inttypes.h>

/* What a request is made of while it is checked. */
struct checking {
    struct srv_request *request;
    const struct cell_model *model;
    struct sched_dag *dag;
    struct sched_tensor *inputs, *outputs; /* of the cells, as in cell_graph */
    struct base_error *error;
};

static enum base_status no_memory(const struct checking *c)
{
    return base_fail(c->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
}

/* The numbers of one of the two tensors that say what the graph is, and how many rows of them. */
static enum base_status take_numbers(const struct checking *c, uint32_t input,
                                     const int64_t **numbers, int64_t *rows)
{
    struct srv_extents extents = srv_extents_none();
    struct sched_tensor tensor = {.data = NULL};
    BASE_TRY(srv_tensor_take(c->request, &c->model->inputs[input], &extents, &tensor, c->error));
    *numbers = (const int64_t *)(const void *)tensor.data; // aligned where there are any
    *rows = extents.batch;
    return BASE_OK;
}

static enum base_status take_graph(const struct checking *c, const struct srv_limits *limits)
{
    const struct cell_graph *graph = &c->model->graph;
    struct sched_dag *dag = c->dag;
    int64_t n_nodes = 0;
    int64_t n_edges = 0;
    *dag = (struct sched_dag){.model = c->model};
    BASE_TRY(take_numbers(c, graph->cells_input, &dag->cells, &n_nodes));
    BASE_TRY(take_numbers(c, graph->edges_input, &dag->edges, &n_edges));
    if (n_nodes == 0) {
        return base_fail(c->error, BASE_INVALID_ARGUMENT, "input '%s': no nodes",
                         c->model->inputs[graph->cells_input].name);
    }
    if (n_nodes > (int64_t)limits->sequence_length_max) {
        return base_fail(c->error, BASE_INVALID_ARGUMENT, "%" PRId64 " nodes, expected %u at most",
                         n_nodes, limits->sequence_length_max);
    }
    if (n_edges > n_nodes * CELL_INPUTS_MAX) { // whatever its cell, a node has no more inputs
        return base_fail(c->error, BASE_INVALID_ARGUMENT,
                         "%" PRId64 " edges are more than %" PRId64 " nodes can have", n_edges,
                         n_nodes);
    }
    dag->n_nodes = (uint32_t)n_nodes;
    dag->n_edges = (uint32_t)n_edges;
    return sched_dag_check(dag, &c->request->arena, c->error);
}

/* ---- Rows ---- */

static enum base_status take_rows(const struct checking *c, uint32_t cell, uint32_t input)
{
    const struct cell_tensor *tensor = &c->model->graph.inputs[input];
    const uint32_t wanted = c->dag->n_of_cell[cell];
    struct srv_extents extents = srv_extents_none();
    BASE_TRY(srv_tensor_take(c->request, tensor, &extents, &c->inputs[input], c->error));
    if (extents.batch >= 0 && extents.batch != (int64_t)wanted) {
        return base_fail(c->error, BASE_INVALID_ARGUMENT,
                         "input '%s': %" PRId64 " rows, expected %u: as many as there are nodes of "
                         "cell %u",
                         tensor->name, extents.batch, wanted, cell);
    }
    return BASE_OK;
}

static enum base_status take_inputs(const struct checking *c)
{
    const struct cell_graph *graph = &c->model->graph;
    for (uint32_t s = 0; s < c->model->n_stages; s++) {
        const struct cell_graph_cell *cell = &graph->cells[s];
        for (uint32_t i = 0; i < cell->n_inputs; i++) {
            BASE_TRY(take_rows(c, s, cell->first_input + i));
        }
    }
    return BASE_OK;
}

static enum base_status place_outputs(const struct checking *c)
{
    const struct cell_graph *graph = &c->model->graph;
    struct srv_extents extents[CELL_TENSORS_MAX] = {{.batch = 0}};
    for (uint32_t s = 0; s < c->model->n_stages; s++) {
        const struct cell_graph_cell *cell = &graph->cells[s];
        for (uint32_t o = 0; o < cell->n_outputs; o++) {
            extents[cell->first_output + o] = (struct srv_extents){.batch = c->dag->n_of_cell[s]};
        }
    }
    return srv_tensors_place_each(c->request, c->model, extents, c->outputs, c->error);
}

/* Says of each node where its rows lie. */
static void set_rows(const struct checking *c)
{
    struct sched_dag *dag = c->dag;
    for (uint32_t n = 0; n < dag->n_nodes; n++) {
        const struct cell_graph_cell *cell = sched_dag_cell(dag, n);
        for (uint32_t i = 0; i < cell->n_inputs; i++) {
            const struct sched_tensor *tensor = &c->inputs[cell->first_input + i];
            dag->rows[dag->first_input[n] + i] =
                tensor->data == NULL ? NULL : tensor->data + dag->places[n] * tensor->batch_bytes;
        }
        for (uint32_t o = 0; o < cell->n_outputs; o++) {
            const struct sched_tensor *tensor = &c->outputs[cell->first_output + o];
            dag->answers[dag->first_output[n] + o] =
                tensor->data == NULL ? NULL : tensor->data + dag->places[n] * tensor->batch_bytes;
        }
    }
}

enum base_status srv_validate_graph(struct srv_request *request, const struct cell_model *model,
                                    const struct srv_limits *limits, struct sched_dag *dag,
                                    struct base_error *error)
{
    struct checking c = {.request = request, .model = model, .dag = dag, .error = error};
    c.inputs = base_arena_array(&request->arena, model->graph.n_inputs, sizeof(*c.inputs));
    c.outputs = base_arena_array(&request->arena, model->n_outputs, sizeof(*c.outputs));
    if (c.inputs == NULL || c.outputs == NULL) {
        return no_memory(&c);
    }
    BASE_TRY(srv_tensors_known(request, model, error));
    BASE_TRY(take_graph(&c, limits));
    BASE_TRY(take_inputs(&c));
    BASE_TRY(place_outputs(&c));
    set_rows(&c);
    return BASE_OK;
}
