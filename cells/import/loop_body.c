/* See loop_body.h. */
#include "cells/import/loop_body.h"

#include <string.h>

/* Nodes that a value is looked through at most. */
#define LOOK_MAX 16u

/* Operators that are written beside a Loop have their operands as inputs from this opset on. */
#define OPSET_MIN 11

bool cell__loop_body(struct cell__import *im, const Onnx__NodeProto *loop,
                     struct cell__loop_body *out)
{
    const struct cell__node node = {.proto = loop};
    const Onnx__AttributeProto *attribute = cell__attr(&node, "body");
    const Onnx__GraphProto *graph = attribute == NULL ? NULL : attribute->g;
    if (graph == NULL || im->opset < OPSET_MIN || loop->n_input < 2 ||
        loop->n_input > CELL__OPERANDS_MAX || loop->n_output > CELL__OPERANDS_MAX ||
        graph->n_input != loop->n_input || graph->n_output < graph->n_input - 1 ||
        loop->n_output < loop->n_input - 2 || graph->input[0]->name == NULL) {
        return false;
    }
    *out = (struct cell__loop_body){.im = im, .graph = graph, .step = graph->input[0]->name};
    return true;
}

const Onnx__NodeProto *cell__body_maker(const struct cell__loop_body *body, const char *name)
{
    for (size_t i = body->graph->n_node; i-- > 0;) {
        const Onnx__NodeProto *node = body->graph->node[i];
        if (node->n_output > 0 && node->op_type != NULL && strcmp(node->output[0], name) == 0) {
            return node;
        }
    }
    return NULL;
}

bool cell__is_op(const Onnx__NodeProto *node, const char *op, size_t inputs)
{
    return node != NULL && strcmp(node->op_type, op) == 0 && node->n_input >= inputs;
}

static bool integer_outside(const struct cell__loop_body *body, const char *name, int64_t *out)
{
    uint32_t v = 0;
    if (cell__value_named(body->im, name, &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *value = &body->im->values[v];
    if (value->kind != CELL__CONST || value->dtype != CELL__I64 || value->tensor.count != 1 ||
        value->tensor.syms != NULL) {
        return false;
    }
    *out = cell__tensor_sym(&value->tensor, 0).add;
    return true;
}

static bool integer_of(const Onnx__TensorProto *tensor, int64_t *out)
{
    if (tensor == NULL || tensor->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT64) {
        return false;
    }
    if (tensor->n_int64_data == 1) {
        *out = tensor->int64_data[0];
    } else if (tensor->raw_data.len == sizeof(*out)) {
        memcpy(out, tensor->raw_data.data, sizeof(*out));
    }
    return tensor->n_int64_data == 1 || tensor->raw_data.len == sizeof(*out);
}

/* A constant of the body itself, as ONNX Runtime keeps them there. */
static const Onnx__TensorProto *initializer_of(const struct cell__loop_body *body, const char *name)
{
    for (size_t i = 0; i < body->graph->n_initializer; i++) {
        const Onnx__TensorProto *tensor = body->graph->initializer[i];
        if (tensor->name != NULL && strcmp(tensor->name, name) == 0) {
            return tensor;
        }
    }
    return NULL;
}

bool cell__body_integer(const struct cell__loop_body *body, const char *name, int64_t *out)
{
    const struct cell__node made = {.proto = cell__body_maker(body, name)};
    if (cell__is_op(made.proto, "Unsqueeze", 1)) { // of what is outside
        return cell__body_maker(body, made.proto->input[0]) == NULL &&
               initializer_of(body, made.proto->input[0]) == NULL &&
               integer_outside(body, made.proto->input[0], out);
    }
    if (made.proto == NULL) {
        const Onnx__TensorProto *own = initializer_of(body, name);
        return own != NULL ? integer_of(own, out) : integer_outside(body, name, out);
    }
    const bool is_constant = cell__is_op(made.proto, "Constant", 0);
    const Onnx__AttributeProto *value = is_constant ? cell__attr(&made, "value") : NULL;
    return value != NULL && integer_of(value->t, out);
}

bool cell__body_is_integer(const struct cell__loop_body *body, const char *name, int64_t wanted)
{
    int64_t is = 0;
    return cell__body_integer(body, name, &is) && is == wanted;
}

/* All of an axis, from its first element on. */
static bool is_whole_slice(const struct cell__loop_body *body, const Onnx__NodeProto *node)
{
    return cell__is_op(node, "Slice", 4) && cell__body_is_integer(body, node->input[1], 0) &&
           cell__body_is_integer(body, node->input[2], INT64_MAX) &&
           (node->n_input < 5 || cell__body_is_integer(body, node->input[4], 1));
}

const char *cell__body_look(const struct cell__loop_body *body, const char *name,
                            const char *const *ops)
{
    for (uint32_t n = 0; n < LOOK_MAX; n++) {
        const Onnx__NodeProto *node = cell__body_maker(body, name);
        bool is_one = is_whole_slice(body, node);
        for (const char *const *op = ops; *op != NULL; op++) {
            is_one = is_one || cell__is_op(node, *op, 1);
        }
        if (!is_one) {
            return name;
        }
        name = node->input[0];
    }
    return name;
}

void *cell__body_copy_list(const struct cell__loop_body *body, const void *list, size_t n,
                           size_t more)
{
    void **copy = base_arena_array(body->im->arena, n + more + 1, sizeof(*copy));
    if (copy != NULL && n > 0) {
        memcpy(copy, list, n * sizeof(*copy));
    }
    return copy;
}

enum base_status cell__write_loop(struct cell__writer *w, const struct cell__loop_body *body,
                                  char **inputs, char **outputs, Onnx__GraphProto *changed)
{
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(w->builder, "Loop", (const char *[]){NULL}, 0, &node));
    node->input = inputs;
    node->n_input = w->proto->n_input;
    node->output = outputs;
    node->n_output = w->proto->n_output;
    node->attribute = cell__body_copy_list(body, w->proto->attribute, w->proto->n_attribute, 0);
    node->n_attribute = node->attribute == NULL ? 0 : w->proto->n_attribute;
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (node->attribute[i]->g != body->graph) {
            continue;
        }
        Onnx__AttributeProto *copy = base_arena_alloc(w->im->arena, sizeof(*copy));
        if (copy == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        *copy = *node->attribute[i];
        copy->g = changed;
        node->attribute[i] = copy;
    }
    return node->attribute == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}
