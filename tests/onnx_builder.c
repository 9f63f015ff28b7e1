/* See onnx_builder.h. */
#include "tests/onnx_builder.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

enum { ARENA_CHUNK = 64 << 10 };

/* ---- Memory ------------------------------------------------------------------------------- */

static void *take(struct onnx_builder *builder, size_t count, size_t size)
{
    void *memory = base_arena_array(&builder->arena, count, size);
    base_assert(memory != NULL);
    return memory;
}

static char *text(struct onnx_builder *builder, const char *from, size_t length)
{
    char *copy = base_arena_text(&builder->arena, from, length);
    base_assert(copy != NULL);
    return copy;
}

/* A place for one more pointer in a repeated field; room doubles, the old array is left behind. */
static void **push(struct onnx_builder *builder, void *array, size_t *n)
{
    void **items = NULL;
    memcpy(&items, array, sizeof(items));
    if ((*n & (*n - 1)) == 0) { // full at every power of two
        void **larger = take(builder, *n == 0 ? 1 : *n * 2, sizeof(*larger));
        if (*n > 0) {
            memcpy(larger, items, *n * sizeof(*larger));
        }
        memcpy(array, &larger, sizeof(larger));
        items = larger;
    }
    return &items[(*n)++];
}

/* Cuts at blanks; "-" becomes "". */
static void split(struct onnx_builder *builder, const char *names, char ***out, size_t *n)
{
    while (*names != '\0') {
        size_t length = strcspn(names, " ");
        bool is_none = length == 1 && names[0] == '-';
        *push(builder, out, n) = text(builder, names, is_none ? 0 : length);
        names += length;
        names += *names == ' ' ? 1 : 0;
    }
}

/* ---- Life cycle --------------------------------------------------------------------------- */

void onnx_init(struct onnx_builder *builder, int64_t opset)
{
    static char graph_name[] = "test";
    static char producer[] = "onnx_builder";
    memset(builder, 0, sizeof(*builder));
    base_arena_init(&builder->arena, ARENA_CHUNK, SIZE_MAX / 2);
    onnx__model_proto__init(&builder->model);
    onnx__graph_proto__init(&builder->graph);
    onnx__operator_set_id_proto__init(&builder->opset);
    builder->opset.has_version = true;
    builder->opset.version = opset;
    builder->opsets[0] = &builder->opset;
    builder->graph.name = graph_name;
    builder->model.has_ir_version = true;
    builder->model.ir_version = 8;
    builder->model.producer_name = producer;
    builder->model.graph = &builder->graph;
    builder->model.n_opset_import = 1;
    builder->model.opset_import = builder->opsets;
}

void onnx_release(struct onnx_builder *builder)
{
    base_arena_release(&builder->arena);
}

const uint8_t *onnx_pack(struct onnx_builder *builder, size_t *length)
{
    size_t bytes = onnx__model_proto__get_packed_size(&builder->model);
    uint8_t *packed = take(builder, bytes, 1);
    *length = onnx__model_proto__pack(&builder->model, packed);
    base_assert(*length == bytes);
    return packed;
}

/* ---- Inputs, outputs, constants ----------------------------------------------------------- */

static Onnx__ValueInfoProto *value_info(struct onnx_builder *builder, const char *name,
                                        int32_t dtype, uint32_t rank, const int64_t *dims)
{
    Onnx__ValueInfoProto *info = take(builder, 1, sizeof(*info));
    Onnx__TypeProto *type = take(builder, 1, sizeof(*type));
    Onnx__TypeProto__Tensor *tensor = take(builder, 1, sizeof(*tensor));
    Onnx__TensorShapeProto *shape = take(builder, 1, sizeof(*shape));
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    for (uint32_t k = 0; k < rank; k++) {
        Onnx__TensorShapeProto__Dimension *dim = take(builder, 1, sizeof(*dim));
        onnx__tensor_shape_proto__dimension__init(dim);
        if (dims[k] >= 0) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = dims[k];
        }
        *push(builder, &shape->dim, &shape->n_dim) = dim;
    }
    tensor->has_elem_type = true;
    tensor->elem_type = dtype;
    tensor->shape = shape;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    info->name = text(builder, name, strlen(name));
    info->type = type;
    return info;
}

void onnx_input(struct onnx_builder *builder, const char *name, int32_t dtype, uint32_t rank,
                const int64_t *dims)
{
    *push(builder, &builder->graph.input, &builder->graph.n_input) =
        value_info(builder, name, dtype, rank, dims);
}

void onnx_output(struct onnx_builder *builder, const char *name, int32_t dtype, uint32_t rank,
                 const int64_t *dims)
{
    *push(builder, &builder->graph.output, &builder->graph.n_output) =
        value_info(builder, name, dtype, rank, dims);
}

void onnx_constant(struct onnx_builder *builder, const char *name, Onnx__TensorProto *tensor)
{
    tensor->name = text(builder, name, strlen(name));
    *push(builder, &builder->graph.initializer, &builder->graph.n_initializer) = tensor;
}

Onnx__TensorProto *onnx_tensor(struct onnx_builder *builder, int32_t dtype, uint32_t rank,
                               const int64_t *dims, const void *data, size_t bytes)
{
    Onnx__TensorProto *tensor = take(builder, 1, sizeof(*tensor));
    onnx__tensor_proto__init(tensor);
    tensor->has_data_type = true;
    tensor->data_type = dtype;
    tensor->n_dims = rank;
    tensor->dims = take(builder, rank, sizeof(*tensor->dims));
    tensor->has_raw_data = true;
    tensor->raw_data.len = bytes;
    tensor->raw_data.data = take(builder, bytes, 1);
    if (rank > 0) {
        memcpy(tensor->dims, dims, rank * sizeof(*dims));
    }
    if (bytes > 0) {
        memcpy(tensor->raw_data.data, data, bytes);
    }
    return tensor;
}

Onnx__TensorProto *onnx_ints(struct onnx_builder *builder, uint32_t rank, size_t n,
                             const int64_t *numbers)
{
    int64_t dims[1] = {(int64_t)n};
    return onnx_tensor(builder, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, rank, dims, numbers,
                       n * sizeof(*numbers));
}

Onnx__TensorProto *onnx_random(struct onnx_builder *builder, uint32_t rank, const int64_t *dims,
                               struct base_random *random, float scale)
{
    size_t count = 1;
    for (uint32_t k = 0; k < rank; k++) {
        count *= (size_t)dims[k];
    }
    float *data = take(builder, count, sizeof(*data));
    for (size_t i = 0; i < count; i++) {
        data[i] = base_random_f32(random, -scale, scale);
    }
    return onnx_tensor(builder, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, rank, dims, data,
                       count * sizeof(*data));
}

/* ---- Nodes -------------------------------------------------------------------------------- */

static Onnx__NodeProto *make_node(struct onnx_builder *builder, const char *op, const char *inputs,
                                  const char *outputs)
{
    Onnx__NodeProto *node = take(builder, 1, sizeof(*node));
    onnx__node_proto__init(node);
    node->op_type = text(builder, op, strlen(op));
    split(builder, inputs, &node->input, &node->n_input);
    split(builder, outputs, &node->output, &node->n_output);
    node->name = node->output[0];
    return node;
}

Onnx__NodeProto *onnx_node_in(struct onnx_builder *builder, Onnx__GraphProto *graph, const char *op,
                              const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = make_node(builder, op, inputs, outputs);
    *push(builder, &graph->node, &graph->n_node) = node;
    return node;
}

Onnx__NodeProto *onnx_node_of(struct onnx_builder *builder, Onnx__FunctionProto *function,
                              const char *op, const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = make_node(builder, op, inputs, outputs);
    *push(builder, &function->node, &function->n_node) = node;
    return node;
}

Onnx__FunctionProto *onnx_function(struct onnx_builder *builder, const char *name,
                                   const char *inputs, const char *outputs)
{
    static char domain[] = ONNX_OWN_DOMAIN;
    Onnx__FunctionProto *function = take(builder, 1, sizeof(*function));
    onnx__function_proto__init(function);
    function->name = text(builder, name, strlen(name));
    function->domain = domain;
    function->opset_import = builder->model.opset_import;
    function->n_opset_import = builder->model.n_opset_import;
    split(builder, inputs, &function->input, &function->n_input);
    split(builder, outputs, &function->output, &function->n_output);
    *push(builder, &builder->model.functions, &builder->model.n_functions) = function;
    return function;
}

Onnx__NodeProto *onnx_call(Onnx__NodeProto *node)
{
    static char domain[] = ONNX_OWN_DOMAIN;
    node->domain = domain;
    return node;
}

Onnx__NodeProto *onnx_node(struct onnx_builder *builder, const char *op, const char *inputs,
                           const char *outputs)
{
    return onnx_node_in(builder, &builder->graph, op, inputs, outputs);
}

Onnx__GraphProto *onnx_graph(struct onnx_builder *builder, const char *output)
{
    Onnx__GraphProto *graph = take(builder, 1, sizeof(*graph));
    Onnx__ValueInfoProto *info = take(builder, 1, sizeof(*info));
    onnx__graph_proto__init(graph);
    onnx__value_info_proto__init(info);
    info->name = text(builder, output, strlen(output));
    *push(builder, &graph->output, &graph->n_output) = info;
    return graph;
}

/* ---- Attributes --------------------------------------------------------------------------- */

static Onnx__AttributeProto *attribute(struct onnx_builder *builder, Onnx__NodeProto *node,
                                       const char *name, Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *made = take(builder, 1, sizeof(*made));
    onnx__attribute_proto__init(made);
    made->name = text(builder, name, strlen(name));
    made->has_type = true;
    made->type = type;
    *push(builder, &node->attribute, &node->n_attribute) = made;
    return made;
}

void onnx_set_int(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                  int64_t value)
{
    Onnx__AttributeProto *made =
        attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    made->has_i = true;
    made->i = value;
}

void onnx_set_float(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                    float value)
{
    Onnx__AttributeProto *made =
        attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    made->has_f = true;
    made->f = value;
}

void onnx_set_ints(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name, size_t n,
                   const int64_t *values)
{
    Onnx__AttributeProto *made =
        attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    made->n_ints = n;
    made->ints = take(builder, n, sizeof(*values));
    memcpy(made->ints, values, n * sizeof(*values));
}

void onnx_set_floats(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                     size_t n, const float *values)
{
    Onnx__AttributeProto *made =
        attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    made->n_floats = n;
    made->floats = take(builder, n, sizeof(*values));
    memcpy(made->floats, values, n * sizeof(*values));
}

void onnx_set_string(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                     const char *value)
{
    Onnx__AttributeProto *made =
        attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    made->has_s = true;
    made->s.len = strlen(value);
    made->s.data = (uint8_t *)text(builder, value, made->s.len);
}

void onnx_set_strings(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                      const char *values)
{
    Onnx__AttributeProto *made =
        attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    char **words = NULL;
    split(builder, values, &words, &made->n_strings);
    base_assert(words != NULL);
    made->strings = take(builder, made->n_strings, sizeof(*made->strings));
    for (size_t i = 0; i < made->n_strings; i++) {
        made->strings[i].data = (uint8_t *)words[i];
        made->strings[i].len = strlen(words[i]);
    }
}

void onnx_set_tensor(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                     Onnx__TensorProto *tensor)
{
    attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR)->t = tensor;
}

void onnx_set_graph(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                    Onnx__GraphProto *graph)
{
    attribute(builder, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = graph;
}
