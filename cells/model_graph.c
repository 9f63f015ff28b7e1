/* Models of graphs: any number of parts, each imported on its own, whose tensors are called by the
 * part's name and their own. What leads from one to another is said by each request. Loop thread.
 */
#include "cells/model.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

/* The names of the inputs that say which cell each node is, and what leads from node to node. No
 * part's tensor can be called so: its name has a separator in it. */
#define CELLS "cells"
#define EDGES "edges"

/* What a graph is made of while its parts are loaded, one after the other. */
struct gathering {
    struct cell_registry *registry;
    const struct cell_parts *parts;
    const char *label;
    const struct cell_model_options *options;
    enum cell_unfold unfold;
    struct cell_model *model;
    struct base_error *error;
};

bool cell_graph_fits(const struct cell_tensor *output, const struct cell_tensor *input)
{
    return output->dtype == input->dtype && output->width == input->width;
}

/* ---- A part's tensors --------------------------------------------------------------------- */

/* Adds a part's tensor to those of all, as CELL.TENSOR. */
static enum base_status add_tensor(const struct gathering *g, const char *cell,
                                   const struct cell_tensor *tensor, struct cell_tensor *list,
                                   uint32_t *n)
{
    if (*n == CELL_TENSORS_MAX) {
        return base_fail(g->error, BASE_UNIMPLEMENTED,
                         "%.60s.onnx: the cells have more than %u inputs, or outputs, together",
                         cell, CELL_TENSORS_MAX);
    }
    if (tensor->batch_axis < 0 || tensor->pieces != 1) {
        return base_fail(g->error, BASE_UNIMPLEMENTED,
                         "%.60s.onnx: '%.60s' has no rows on its first axis", cell, tensor->name);
    }
    struct cell_tensor *made = &list[*n];
    *made = *tensor;
    const int length = snprintf(made->name, sizeof(made->name), "%s" CELL_GRAPH_SEPARATOR "%s",
                                cell, tensor->name);
    if (length < 0 || (size_t)length >= sizeof(made->name)) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT,
                         "%.60s.onnx: the name '%.60s' is too long: %d bytes with the cell's, at "
                         "most %zu",
                         cell, tensor->name, length, sizeof(made->name) - 1);
    }
    for (uint32_t i = 0; i < *n; i++) {
        if (strcmp(list[i].name, made->name) == 0) {
            return base_fail(g->error, BASE_INVALID_ARGUMENT,
                             "two tensors of the model would be called '%.120s'", made->name);
        }
    }
    (*n)++;
    return BASE_OK;
}

static enum base_status add_tensors(const struct gathering *g, const struct cell_model *part,
                                    struct cell_graph_cell *cell)
{
    struct cell_graph *graph = &g->model->graph;
    cell->first_input = graph->n_inputs;
    cell->first_output = graph->n_outputs;
    for (uint32_t i = 0; i < part->n_inputs; i++) {
        BASE_TRY(add_tensor(g, cell->name, &part->inputs[i], graph->inputs, &graph->n_inputs));
        graph->inputs[graph->n_inputs - 1].optional = true;
    }
    for (uint32_t o = 0; o < part->n_outputs; o++) {
        BASE_TRY(add_tensor(g, cell->name, &part->outputs[o], graph->outputs, &graph->n_outputs));
        graph->results[graph->n_outputs - 1] = part->output_sources[o][0].index;
    }
    cell->n_inputs = part->n_inputs;
    cell->n_outputs = part->n_outputs;
    return BASE_OK;
}

/* ---- Parts -------------------------------------------------------------------------------- */

/* Whether each of the part's inputs is one of its cell's at most: then each edge is followed once.
 */
static bool reads_once(const struct cell_model *part)
{
    const struct cell_stage *stage = &part->stages[0];
    bool is_seen[CELL_TENSORS_MAX] = {false};
    for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
        base_assert(stage->inputs[i].kind == CELL_SOURCE_INPUT);
        if (is_seen[stage->inputs[i].index]) {
            return false;
        }
        is_seen[stage->inputs[i].index] = true;
    }
    return true;
}

/* Takes over what the part has: its tensors, and its stage. */
static enum base_status take_part(const struct gathering *g, const struct cell_model *part,
                                  uint32_t number)
{
    struct cell_model *model = g->model;
    struct cell_graph_cell *cell = &model->graph.cells[number];
    const char *name = g->parts->names[number];
    if (part->n_stages != 1 || !reads_once(part)) {
        return base_fail(g->error, BASE_UNIMPLEMENTED, "%.60s.onnx: computes nothing", name);
    }
    if ((size_t)snprintf(cell->name, sizeof(cell->name), "%s", name) >= sizeof(cell->name)) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT, "'%.60s..': name too long", name);
    }
    BASE_TRY(add_tensors(g, part, cell));
    base_assert(part->stages[0].kind == CELL_STAGE_ONCE && model->n_stages == number);
    model->stages[model->n_stages++] = part->stages[0];
    cell_type_ref(g->registry, part->stages[0].type);
    model->file_bytes += part->file_bytes;
    (void)snprintf(model->producer, sizeof(model->producer), "%s", part->producer);
    return BASE_OK;
}

static enum base_status load_part(const struct gathering *g, uint32_t number)
{
    char path[PATH_BYTES];
    char label[64];
    const char *name = g->parts->names[number];
    struct cell_model *part = NULL;
    struct base_error why = {.status = BASE_OK};
    struct cell_model_options own = *g->options;
    own.is_part = true;
    const int length = snprintf(path, sizeof(path), "%s/%s.onnx", g->parts->folder, name);
    if (length < 0 || length >= PATH_BYTES) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT, "%.200s: path too long",
                         g->parts->folder);
    }
    (void)snprintf(label, sizeof(label), "%.30s/%.30s", g->label, name);
    enum base_status status = cell_model_load(g->registry, path, label, &own, &part, &why);
    if (status != BASE_OK) {
        return base_fail(g->error, status, "%.60s.onnx: %s", name, why.message);
    }
    status = take_part(g, part, number);
    cell_model_free(g->registry, part);
    return status;
}

/* ---- The model's tensors ------------------------------------------------------------------ */

/* One of the two that say what the graph is: rows of `width` numbers, or of one. */
static uint32_t add_shape(struct cell_model *model, const char *name, uint32_t width)
{
    struct cell_tensor made = {.dtype = CELL_I64,
                               .rank = width > 1 ? 2 : 1,
                               .dims = {CELL_DIM_ANY, width},
                               .time_axis = -1,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = width};
    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    model->inputs[model->n_inputs] = made;
    return model->n_inputs++;
}

static enum base_status set_tensors(const struct gathering *g)
{
    struct cell_model *model = g->model;
    struct cell_graph *graph = &model->graph;
    graph->cells_input = add_shape(model, CELLS, 1);
    graph->edges_input = add_shape(model, EDGES, CELL_EDGE_NUMBERS);
    if (graph->n_inputs > CELL_TENSORS_MAX - model->n_inputs) {
        return base_fail(g->error, BASE_UNIMPLEMENTED,
                         "the cells have %u inputs, at most %u together", graph->n_inputs,
                         CELL_TENSORS_MAX - model->n_inputs);
    }
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        model->inputs[model->n_inputs++] = graph->inputs[i];
    }
    model->n_outputs = graph->n_outputs;
    memcpy(model->outputs, graph->outputs, sizeof(model->outputs));
    return BASE_OK;
}

static enum base_status gather(struct gathering *g)
{
    g->model = base_alloc(sizeof(*g->model));
    if (g->model == NULL) {
        return base_fail(g->error, BASE_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    g->model->options = *g->options;
    g->model->unfold = g->unfold;
    for (uint32_t i = 0; i < g->parts->n; i++) {
        BASE_TRY(load_part(g, i));
    }
    return g->unfold == CELL_UNFOLD_GRAPH ? set_tensors(g) : BASE_OK;
}

static enum base_status load(struct gathering *g, struct cell_model **out)
{
    static const struct cell_model_options plain = {.precision = CELL_FP32};
    g->options = g->options == NULL ? &plain : g->options;
    *out = NULL;
    if (g->parts->n == 0 || g->parts->n > CELL_STAGES_MAX) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT,
                         "a graph of %u cells, expected 1..%u (cells: in config.yaml)", g->parts->n,
                         CELL_STAGES_MAX);
    }
    const enum base_status status = gather(g);
    if (status != BASE_OK) {
        cell_model_free(g->registry, g->model);
        return status;
    }
    *out = g->model;
    return BASE_OK;
}

enum base_status cell_model_load_graph(struct cell_registry *registry,
                                       const struct cell_parts *parts, const char *label,
                                       const struct cell_model_options *options,
                                       struct cell_model **out, struct base_error *error)
{
    struct gathering g = {.registry = registry,
                          .parts = parts,
                          .label = label,
                          .options = options,
                          .unfold = CELL_UNFOLD_GRAPH,
                          .error = error};
    return load(&g, out);
}

enum base_status cell_model_load_cells(struct cell_registry *registry,
                                       const struct cell_parts *parts, const char *label,
                                       const struct cell_model_options *options,
                                       struct cell_model **out, struct base_error *error)
{
    struct gathering g = {.registry = registry,
                          .parts = parts,
                          .label = label,
                          .options = options,
                          .unfold = CELL_UNFOLD_PLUGIN,
                          .error = error};
    return load(&g, out);
}
