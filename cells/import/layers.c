/* Layers one after the other, each a few nodes behind those before. The width of a row is followed,
 * so that what does not fit is refused with the tensor's name; everything else (limits, types,
 * weights that are not finite) is for the importer, which reads the graph as if it came from a
 * file. */
#include "cells/import/layers.h"

#include "base/assert.h"
#include "cells/import/layer.h"

#include <stdio.h>
#include <string.h>

#define INPUT  "input"
#define OUTPUT "output"

/* Of the names of all kinds. */
#define KINDS_BYTES 192

/* Where the libraries' own defaults differ; no file tells it. */
#define TORCH_EPSILON 1e-5f
#define KERAS_EPSILON 1e-3f

struct cell__layer_kind {
    const char *name;
    bool has_tensors;
    bool needs_steps;
    enum base_status (*add)(struct cell__making *making);
    const char *op; /* of those that are one operator */
};

static enum base_status set_value(struct cell__making *making, const char *op,
                                  const char *const *inputs)
{
    return cell__build_op(making->builder, op, inputs, &making->value);
}

/* ---- Layers with tensors ------------------------------------------------------------------ */

static enum base_status add_list(struct cell__making *making, const struct cell__stored *tensor,
                                 int64_t width, const char **out)
{
    BASE_TRY(cell__layer_shape(making, tensor, width, 0));
    return cell__layer_constant(making, tensor, out);
}

/* A tensor of this name with two dimensions, whatever they are. */
static enum base_status find_matrix(struct cell__making *making,
                                    const struct cell__variable *variable,
                                    struct cell__stored **out)
{
    BASE_TRY(cell__layer_find(making, variable, CELL__WAY_ONLY, out));
    return *out == NULL ? cell__layer_missing(making, variable) : cell__layer_matrix(making, *out);
}

static enum base_status add_embedding(struct cell__making *making)
{
    static const struct cell__variable weight = {.torch = "weight", .keras = "embeddings"};
    struct cell__stored *table = NULL;
    const char *constant = NULL;
    if (making->number != 1) {
        return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                                "takes ids, so it can only be the first layer");
    }
    BASE_TRY(find_matrix(making, &weight, &table));
    BASE_TRY(cell__layer_constant(making, table, &constant));
    making->has_ids = true;
    making->width = table->dims[1];
    return set_value(making, "Gather", (const char *[]){constant, making->value, NULL});
}

/* PyTorch's weight is [outputs, inputs], Keras' kernel [inputs, outputs]. */
static enum base_status add_linear(struct cell__making *making)
{
    static const struct cell__variable weight = {.torch = "weight", .keras = "kernel", .number = 0};
    static const struct cell__variable bias = {.torch = "bias", .keras = "bias", .number = 1};
    const bool is_torch = cell__layer_torch(making, weight.torch) != NULL;
    struct cell__stored *matrix = NULL;
    struct cell__stored *list = NULL;
    const char *constant = NULL;
    BASE_TRY(find_matrix(making, &weight, &matrix));
    BASE_TRY(cell__layer_find(making, &bias, CELL__WAY_ONLY, &list));
    BASE_TRY(cell__layer_width(making, matrix, matrix->dims[is_torch ? 1 : 0]));
    making->width = matrix->dims[is_torch ? 0 : 1];
    BASE_TRY(cell__layer_constant(making, matrix, &constant));
    if (is_torch) {
        BASE_TRY(cell__build_op(making->builder, "Transpose", (const char *[]){constant, NULL},
                                &constant));
    }
    BASE_TRY(set_value(making, "MatMul", (const char *[]){making->value, constant, NULL}));
    if (list == NULL) {
        return BASE_OK;
    }
    BASE_TRY(add_list(making, list, making->width, &constant));
    return set_value(making, "Add", (const char *[]){making->value, constant, NULL});
}

/* The scale of a normalisation that has learned none. */
static enum base_status add_ones(struct cell__making *making, const char **out)
{
    struct cell__constant list = {.rank = 1, .dims = {making->width}};
    if (making->width == 0) {
        return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                                "neither its tensors nor a layer before tell how wide rows are");
    }
    float *ones = base_arena_array(making->arena, (size_t)making->width, sizeof(*ones));
    if (ones == NULL) {
        return cell__layer_no_memory(making);
    }
    for (int64_t i = 0; i < making->width; i++) {
        ones[i] = 1.0f;
    }
    list.data = ones;
    return cell__build_floats(making->builder, &list, out);
}

static enum base_status add_layer_norm(struct cell__making *making)
{
    static const struct cell__variable scale = {.torch = "weight", .keras = "gamma", .number = 0};
    static const struct cell__variable shift = {.torch = "bias", .keras = "beta", .number = 1};
    const char *inputs[4] = {making->value, NULL, NULL, NULL};
    struct cell__stored *gamma = NULL;
    struct cell__stored *beta = NULL;
    Onnx__NodeProto *node = NULL;
    const bool is_torch = cell__layer_torch(making, scale.torch) != NULL;
    BASE_TRY(cell__layer_find(making, &scale, CELL__WAY_ONLY, &gamma));
    BASE_TRY(cell__layer_find(making, &shift, CELL__WAY_ONLY, &beta));
    if (gamma == NULL && (beta != NULL || making->layer->prefix[0] != '\0')) {
        return cell__layer_missing(making, &scale);
    }
    if (gamma == NULL) {
        BASE_TRY(add_ones(making, &inputs[1]));
    } else {
        BASE_TRY(cell__layer_shape(making, gamma, gamma->rank > 0 ? gamma->dims[0] : 1, 0));
        BASE_TRY(cell__layer_width(making, gamma, gamma->dims[0]));
        BASE_TRY(add_list(making, gamma, making->width, &inputs[1]));
    }
    if (beta != NULL) {
        BASE_TRY(add_list(making, beta, making->width, &inputs[2]));
    }
    BASE_TRY(cell__build_node(making->builder, "LayerNormalization", inputs, 1, &node));
    making->value = node->output[0];
    BASE_TRY(cell__build_set_int(making->builder, node, "axis", -1));
    return cell__build_set_float(making->builder, node, "epsilon",
                                 gamma == NULL || is_torch ? TORCH_EPSILON : KERAS_EPSILON);
}

/* ---- Layers without ----------------------------------------------------------------------- */

static enum base_status add_operator(struct cell__making *making)
{
    return set_value(making, making->kind->op, (const char *[]){making->value, NULL});
}

/* Softmax and its logarithm, over a row. */
static enum base_status add_softmax(struct cell__making *making)
{
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(making->builder, making->kind->op,
                              (const char *[]){making->value, NULL}, 1, &node));
    making->value = node->output[0];
    return cell__build_set_int(making->builder, node, "axis", -1);
}

/* Behind a recurrent layer its own last states, which of a backward direction stand at the first
 * step; else what the layers before make of the last step. */
static enum base_status add_last(struct cell__making *making)
{
    static const int64_t last = -1;
    static const int64_t steps = 1;
    Onnx__NodeProto *node = NULL;
    const char *constants[2];
    making->has_steps = false;
    if (making->before != NULL) {
        making->value = making->before;
        return BASE_OK;
    }
    BASE_TRY(cell__build_ints(making->builder, 1, &last, &constants[0]));
    BASE_TRY(cell__build_ints(making->builder, 1, &steps, &constants[1]));
    BASE_TRY(cell__build_node(making->builder, "Gather",
                              (const char *[]){making->value, constants[0], NULL}, 1, &node));
    BASE_TRY(cell__build_set_int(making->builder, node, "axis", 1));
    return set_value(making, "Squeeze", (const char *[]){node->output[0], constants[1], NULL});
}

/* Mean or largest over the steps. */
static enum base_status add_pool(struct cell__making *making)
{
    static const int64_t steps = 1;
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(making->builder, making->kind->op,
                              (const char *[]){making->value, NULL}, 1, &node));
    making->value = node->output[0];
    making->has_steps = false;
    BASE_TRY(cell__build_set_ints(making->builder, node, "axes", 1, &steps));
    return cell__build_set_int(making->builder, node, "keepdims", 0);
}

/* ---- The table ---------------------------------------------------------------------------- */

static const struct cell__layer_kind kinds[] = {
    {"embedding", true, true, add_embedding, NULL},
    {"lstm", true, true, cell__layer_recurrent, NULL},
    {"gru", true, true, cell__layer_recurrent, NULL},
    {"rnn", true, true, cell__layer_recurrent, NULL},
    {"rnn_relu", true, true, cell__layer_recurrent, NULL},
    {"linear", true, false, add_linear, NULL},
    {"layer_norm", true, false, add_layer_norm, NULL},
    {"relu", false, false, add_operator, "Relu"},
    {"tanh", false, false, add_operator, "Tanh"},
    {"sigmoid", false, false, add_operator, "Sigmoid"},
    {"softmax", false, false, add_softmax, "Softmax"},
    {"log_softmax", false, false, add_softmax, "LogSoftmax"},
    {"last", false, true, add_last, NULL},
    {"mean", false, true, add_pool, "ReduceMean"},
    {"max", false, true, add_pool, "ReduceMax"},
};

static const struct cell__layer_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

static enum base_status refuse_kind(const struct cell__making *making)
{
    char names[KINDS_BYTES] = "";
    size_t length = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
                                   i == 0 ? "" : ", ", kinds[i].name);
        base_assert(length < sizeof(names));
    }
    return cell__layer_fail(making, BASE_INVALID_ARGUMENT, "no such layer; there are %s", names);
}

static enum base_status add_layer(struct cell__making *making)
{
    const struct cell__layer_kind *kind = find_kind(making->layer->kind);
    if (kind == NULL) {
        return refuse_kind(making);
    }
    if (!kind->has_tensors && making->layer->prefix[0] != '\0') {
        return cell__layer_fail(making, BASE_INVALID_ARGUMENT, "has no tensors to be named");
    }
    if (kind->needs_steps && !making->has_steps) {
        return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                                "there are no steps behind last, mean or max");
    }
    making->builder->label = making->layer->prefix[0] == '\0' ? kind->name : making->layer->prefix;
    making->kind = kind;
    making->before = making->last;
    making->last = NULL;
    return kind->add(making);
}

static enum base_status add_input(const struct cell__making *making)
{
    const int64_t dims[] = {-1, -1, making->input_width};
    if (!making->has_ids && making->input_width == 0) {
        return base_fail(making->error, BASE_INVALID_ARGUMENT,
                         "no layer has tensors, which would tell how wide rows of the input are");
    }
    return cell__build_input(making->builder, INPUT,
                             making->has_ids ? ONNX__TENSOR_PROTO__DATA_TYPE__INT64
                                             : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
                             making->has_ids ? 2 : 3, dims);
}

enum base_status cell__layers_build(struct base_arena *arena, struct cell__store *store,
                                    const struct cell_layers *layers, Onnx__ModelProto **out,
                                    struct base_error *error)
{
    struct cell__builder *builder = base_arena_alloc(arena, sizeof(*builder));
    struct cell__making making = {.arena = arena,
                                  .error = error,
                                  .store = store,
                                  .builder = builder,
                                  .value = INPUT,
                                  .has_steps = true};
    if (layers->n == 0 || layers->n > CELL__LAYERS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%u layers; from 1 to %u", layers->n,
                         CELL__LAYERS_MAX);
    }
    if (builder == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "the model takes too much memory to read");
    }
    cell__build_init(builder, arena, error);
    for (uint32_t i = 0; i < layers->n; i++) {
        making.layer = &layers->items[i];
        making.number = i + 1;
        BASE_TRY(add_layer(&making));
    }
    BASE_TRY(cell__layer_unused(&making));
    BASE_TRY(cell__build_text(builder, "safetensors", &builder->model.producer_name));
    if (store->format[0] != '\0') {
        BASE_TRY(cell__build_text(builder, store->format, &builder->model.producer_version));
    }
    BASE_TRY(add_input(&making));
    BASE_TRY(cell__build_output(builder, OUTPUT, making.value));
    *out = &builder->model;
    return BASE_OK;
}
