/* Repeated fields are arrays of pointers whose room is a power of two: what is outgrown stays in
 * the arena, at most as much again. Values are called "#1", "#2" and so on, which no name of a
 * safetensors file's layers is; beside a file's own names a prefix stands before. */
#include "cells/import/build.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 16

static enum base_status no_memory(const struct cell__builder *builder)
{
    return base_fail(builder->error, BASE_RESOURCE_EXHAUSTED,
                     "the model takes too much memory to read");
}

static enum base_status take(struct cell__builder *builder, size_t count, size_t size, void **out)
{
    *out = base_arena_array(builder->arena, count, size);
    return *out != NULL ? BASE_OK : no_memory(builder);
}

/* One more pointer at the end of a repeated field. array: the address of the field. */
static enum base_status push(struct cell__builder *builder, void *array, size_t *n, void *item)
{
    void **items = NULL;
    memcpy((void *)&items, array, sizeof(items));
    if ((*n & (*n - 1)) == 0) { // full at every power of two, and at 0
        void *larger = NULL;
        BASE_TRY(take(builder, *n == 0 ? 1 : *n * 2, sizeof(*items), &larger));
        if (*n > 0) {
            memcpy(larger, (const void *)items, *n * sizeof(*items));
        }
        memcpy(array, (const void *)&larger, sizeof(larger));
        items = larger;
    }
    items[(*n)++] = item;
    return BASE_OK;
}

enum base_status cell__build_text(struct cell__builder *builder, const char *text, char **out)
{
    *out = base_arena_text(builder->arena, text, strlen(text));
    return *out != NULL ? BASE_OK : no_memory(builder);
}

enum base_status cell__build_name(struct cell__builder *builder, char **out)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof(name), "%s#%u", builder->prefix, ++builder->n_names);
    return cell__build_text(builder, name, out);
}

void cell__build_init(struct cell__builder *builder, struct base_arena *arena,
                      struct base_error *error)
{
    base_assert(arena != NULL && error != NULL);
    *builder = (struct cell__builder){.arena = arena, .error = error, .label = "", .prefix = ""};
    onnx__model_proto__init(&builder->model);
    onnx__graph_proto__init(&builder->graph);
    onnx__operator_set_id_proto__init(&builder->opset);
    builder->opset.has_version = true;
    builder->opset.version = CELL__BUILD_OPSET;
    builder->opsets[0] = &builder->opset;
    builder->model.graph = &builder->graph;
    builder->model.n_opset_import = 1;
    builder->model.opset_import = builder->opsets;
    builder->into = &builder->graph;
}

/* ---- Inputs, outputs, constants ----------------------------------------------------------- */

static enum base_status new_info(struct cell__builder *builder, const char *name,
                                 Onnx__ValueInfoProto **out)
{
    void *memory = NULL;
    char *copy = NULL;
    BASE_TRY(take(builder, 1, sizeof(**out), &memory));
    BASE_TRY(cell__build_text(builder, name, &copy));
    *out = memory;
    onnx__value_info_proto__init(*out);
    (*out)->name = copy;
    return BASE_OK;
}

static enum base_status new_shape(struct cell__builder *builder, uint32_t rank, const int64_t *dims,
                                  Onnx__TensorShapeProto **out)
{
    void *memory = NULL;
    BASE_TRY(take(builder, 1, sizeof(**out), &memory));
    *out = memory;
    onnx__tensor_shape_proto__init(*out);
    for (uint32_t k = 0; k < rank; k++) {
        BASE_TRY(take(builder, 1, sizeof(Onnx__TensorShapeProto__Dimension), &memory));
        Onnx__TensorShapeProto__Dimension *dim = memory;
        onnx__tensor_shape_proto__dimension__init(dim);
        if (dims[k] >= 0) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = dims[k];
        }
        BASE_TRY(push(builder, (void *)&(*out)->dim, &(*out)->n_dim, dim));
    }
    return BASE_OK;
}

enum base_status cell__build_input(struct cell__builder *builder, const char *name, int32_t type,
                                   uint32_t rank, const int64_t *dims)
{
    Onnx__ValueInfoProto *info = NULL;
    void *type_memory = NULL;
    void *tensor_memory = NULL;
    BASE_TRY(new_info(builder, name, &info));
    BASE_TRY(take(builder, 1, sizeof(Onnx__TypeProto), &type_memory));
    BASE_TRY(take(builder, 1, sizeof(Onnx__TypeProto__Tensor), &tensor_memory));
    Onnx__TypeProto__Tensor *tensor = tensor_memory;
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = true;
    tensor->elem_type = type;
    BASE_TRY(new_shape(builder, rank, dims, &tensor->shape));
    info->type = type_memory;
    onnx__type_proto__init(info->type);
    info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    info->type->tensor_type = tensor;
    return push(builder, (void *)&builder->graph.input, &builder->graph.n_input, info);
}

enum base_status cell__build_output(struct cell__builder *builder, const char *name,
                                    const char *from)
{
    Onnx__NodeProto *node = NULL;
    Onnx__ValueInfoProto *info = NULL;
    BASE_TRY(cell__build_node(builder, "Identity", (const char *[]){from, NULL}, 1, &node));
    BASE_TRY(cell__build_text(builder, name, &node->output[0]));
    BASE_TRY(new_info(builder, name, &info));
    return push(builder, (void *)&builder->graph.output, &builder->graph.n_output, info);
}

static enum base_status add_constant(struct cell__builder *builder, int32_t type,
                                     size_t element_bytes, const struct cell__constant *constant,
                                     const char **out)
{
    void *memory = NULL;
    void *dims = NULL;
    char *name = NULL;
    size_t count = 1;
    BASE_TRY(take(builder, 1, sizeof(Onnx__TensorProto), &memory));
    BASE_TRY(take(builder, constant->rank, sizeof(constant->dims[0]), &dims));
    BASE_TRY(cell__build_name(builder, &name));
    Onnx__TensorProto *tensor = memory;
    onnx__tensor_proto__init(tensor);
    tensor->name = name;
    tensor->has_data_type = true;
    tensor->data_type = type;
    tensor->n_dims = constant->rank;
    tensor->dims = dims;
    for (uint32_t k = 0; k < constant->rank; k++) {
        tensor->dims[k] = constant->dims[k];
        count *= (size_t)constant->dims[k]; // there is so much memory behind data
    }
    tensor->has_raw_data = true;
    tensor->raw_data.len = count * element_bytes;
    memcpy((void *)&tensor->raw_data.data, (const void *)&constant->data,
           sizeof(constant->data)); // only read, whatever protobuf-c calls it
    *out = name;
    return push(builder, (void *)&builder->graph.initializer, &builder->graph.n_initializer,
                tensor);
}

enum base_status cell__build_floats(struct cell__builder *builder,
                                    const struct cell__constant *floats, const char **out)
{
    return add_constant(builder, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, sizeof(float), floats, out);
}

enum base_status cell__build_ints(struct cell__builder *builder, size_t n, const int64_t *ints,
                                  const char **out)
{
    void *copy = NULL;
    BASE_TRY(take(builder, n, sizeof(*ints), &copy));
    memcpy(copy, ints, n * sizeof(*ints));
    const struct cell__constant constant = {.data = copy, .rank = 1, .dims = {(int64_t)n}};
    return add_constant(builder, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, sizeof(*ints), &constant,
                        out);
}

/* ---- Nodes -------------------------------------------------------------------------------- */

enum base_status cell__build_node(struct cell__builder *builder, const char *op,
                                  const char *const *inputs, uint32_t n_outputs,
                                  Onnx__NodeProto **out)
{
    void *memory = NULL;
    BASE_TRY(take(builder, 1, sizeof(**out), &memory));
    Onnx__NodeProto *node = memory;
    onnx__node_proto__init(node);
    BASE_TRY(cell__build_text(builder, op, &node->op_type));
    BASE_TRY(cell__build_text(builder, builder->label, &node->name));
    for (size_t i = 0; inputs[i] != NULL; i++) {
        char *name = NULL;
        BASE_TRY(cell__build_text(builder, inputs[i], &name));
        BASE_TRY(push(builder, (void *)&node->input, &node->n_input, name));
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        char *name = NULL;
        BASE_TRY(cell__build_name(builder, &name));
        BASE_TRY(push(builder, (void *)&node->output, &node->n_output, name));
    }
    *out = node;
    return push(builder, (void *)&builder->into->node, &builder->into->n_node, node);
}

enum base_status cell__build_op(struct cell__builder *builder, const char *op,
                                const char *const *inputs, const char **out)
{
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(builder, op, inputs, 1, &node));
    *out = node->output[0];
    return BASE_OK;
}

/* ---- Attributes --------------------------------------------------------------------------- */

static enum base_status add_attribute(struct cell__builder *builder, Onnx__NodeProto *node,
                                      const char *name, Onnx__AttributeProto__AttributeType type,
                                      Onnx__AttributeProto **out)
{
    void *memory = NULL;
    char *copy = NULL;
    BASE_TRY(take(builder, 1, sizeof(**out), &memory));
    BASE_TRY(cell__build_text(builder, name, &copy));
    *out = memory;
    onnx__attribute_proto__init(*out);
    (*out)->name = copy;
    (*out)->has_type = true;
    (*out)->type = type;
    return push(builder, (void *)&node->attribute, &node->n_attribute, *out);
}

enum base_status cell__build_set_int(struct cell__builder *builder, Onnx__NodeProto *node,
                                     const char *name, int64_t value)
{
    Onnx__AttributeProto *made = NULL;
    BASE_TRY(add_attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, &made));
    made->has_i = true;
    made->i = value;
    return BASE_OK;
}

enum base_status cell__build_set_float(struct cell__builder *builder, Onnx__NodeProto *node,
                                       const char *name, float value)
{
    Onnx__AttributeProto *made = NULL;
    BASE_TRY(
        add_attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, &made));
    made->has_f = true;
    made->f = value;
    return BASE_OK;
}

enum base_status cell__build_set_ints(struct cell__builder *builder, Onnx__NodeProto *node,
                                      const char *name, size_t n, const int64_t *values)
{
    Onnx__AttributeProto *made = NULL;
    void *copy = NULL;
    BASE_TRY(
        add_attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, &made));
    BASE_TRY(take(builder, n, sizeof(*values), &copy));
    memcpy(copy, values, n * sizeof(*values));
    made->n_ints = n;
    made->ints = copy;
    return BASE_OK;
}

static enum base_status set_bytes(struct cell__builder *builder, const char *text,
                                  ProtobufCBinaryData *out)
{
    char *copy = NULL;
    BASE_TRY(cell__build_text(builder, text, &copy));
    *out = (ProtobufCBinaryData){strlen(copy), (uint8_t *)copy};
    return BASE_OK;
}

enum base_status cell__build_set_text(struct cell__builder *builder, Onnx__NodeProto *node,
                                      const char *name, const char *value)
{
    Onnx__AttributeProto *made = NULL;
    BASE_TRY(
        add_attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, &made));
    made->has_s = true;
    return set_bytes(builder, value, &made->s);
}

enum base_status cell__build_set_texts(struct cell__builder *builder, Onnx__NodeProto *node,
                                       const char *name, size_t n, const char *value)
{
    Onnx__AttributeProto *made = NULL;
    void *texts = NULL;
    BASE_TRY(
        add_attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS, &made));
    BASE_TRY(take(builder, n, sizeof(*made->strings), &texts));
    made->strings = texts;
    made->n_strings = n;
    for (size_t i = 0; i < n; i++) {
        BASE_TRY(set_bytes(builder, value, &made->strings[i]));
    }
    return BASE_OK;
}

enum base_status cell__build_copy_attribute(struct cell__builder *builder, Onnx__NodeProto *node,
                                            const Onnx__AttributeProto *attribute)
{
    void *memory = NULL;
    BASE_TRY(take(builder, 1, sizeof(*attribute), &memory));
    Onnx__AttributeProto *copy = memory;
    *copy = *attribute;
    return push(builder, (void *)&node->attribute, &node->n_attribute, copy);
}

/* ---- Bodies ------------------------------------------------------------------------------- */

enum base_status cell__build_begin_body(struct cell__builder *builder, uint32_t n_inputs,
                                        Onnx__GraphProto **out)
{
    void *memory = NULL;
    base_assert(builder->into == &builder->graph);
    BASE_TRY(take(builder, 1, sizeof(**out), &memory));
    *out = memory;
    onnx__graph_proto__init(*out);
    for (uint32_t i = 0; i < n_inputs; i++) {
        Onnx__ValueInfoProto *info = NULL;
        BASE_TRY(new_info(builder, "", &info));
        BASE_TRY(cell__build_name(builder, &info->name));
        BASE_TRY(push(builder, (void *)&(*out)->input, &(*out)->n_input, info));
    }
    builder->into = *out;
    return BASE_OK;
}

enum base_status cell__build_end_body(struct cell__builder *builder, const char *const *outputs)
{
    Onnx__GraphProto *body = builder->into;
    base_assert(body != &builder->graph);
    for (size_t i = 0; outputs[i] != NULL; i++) {
        Onnx__ValueInfoProto *info = NULL;
        BASE_TRY(new_info(builder, outputs[i], &info));
        BASE_TRY(push(builder, (void *)&body->output, &body->n_output, info));
    }
    builder->into = &builder->graph;
    return BASE_OK;
}

enum base_status cell__build_set_graph(struct cell__builder *builder, Onnx__NodeProto *node,
                                       const char *name, Onnx__GraphProto *body)
{
    Onnx__AttributeProto *made = NULL;
    BASE_TRY(
        add_attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH, &made));
    made->g = body;
    return BASE_OK;
}
