/* See cases.h. A file of the ONNX backend's tests has the weights as inputs; here they become
 * initialisers, and X, sequence_lens and the initial states stay inputs, as in a model that is
 * served. */
#include "tests/conformance/cases.h"

#include "base/mem.h"
#include "cells/bf16.h"
#include "cells/f16.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
#define INT32 ONNX__TENSOR_PROTO__DATA_TYPE__INT32
#define INT64 ONNX__TENSOR_PROTO__DATA_TYPE__INT64
#define OPSET 14

#define ORT_FILE "ort-rnn-vectors/ort_rnn_vectors.jsonl"

void cases_fail(const char *where, const char *why)
{
    (void)fprintf(stderr, "conformance: %s: %s\n", where, why);
    exit(2);
}

/* ---- Memory ------------------------------------------------------------------------------- */

static void *take(struct conformance_cases *cases, size_t bytes)
{
    void *memory = base_arena_alloc_aligned64(&cases->arena, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        cases_fail("cases", "out of memory");
    }
    return memory;
}

static const char *copy_text(struct conformance_cases *cases, const char *text)
{
    char *copy = take(cases, strlen(text) + 1);
    memcpy(copy, text, strlen(text) + 1);
    return copy;
}

static struct conformance_case *case_new(struct conformance_cases *cases, const char *name)
{
    if (cases->n == CASES_MAX || strlen(name) >= CASES_NAME_BYTES) {
        cases_fail(name, "too many cases, or too long a name");
    }
    struct conformance_case *made = &cases->at[cases->n++];
    *made = (struct conformance_case){.is_refused = false};
    (void)snprintf(made->name, sizeof(made->name), "%s", name);
    (void)snprintf(made->model_name, sizeof(made->model_name), "%s", name);
    return made;
}

static const uint8_t *keep(struct conformance_cases *cases, const uint8_t *bytes, size_t length)
{
    uint8_t *copy = take(cases, length);
    memcpy(copy, bytes, length);
    return copy;
}

static void keep_model(struct conformance_cases *cases, struct conformance_case *of,
                       const uint8_t *bytes, size_t length)
{
    of->model = keep(cases, bytes, length);
    of->model_bytes = length;
}

/* The file of that name in the folder; ends with base_free(). */
static uint8_t *read_file(const char *folder, const char *name, size_t *length)
{
    char path[3 * UTIL_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    char *bytes = util_read_file(path, length);
    if (bytes == NULL) {
        cases_fail(path, "cannot be read");
    }
    return (uint8_t *)bytes;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

static struct case_tensor *add_tensor(struct conformance_case *of, bool is_input)
{
    uint32_t *n = is_input ? &of->n_inputs : &of->n_outputs;
    if (*n == CASES_TENSORS_MAX) {
        cases_fail(of->name, "too many tensors");
    }
    return is_input ? &of->inputs[(*n)++] : &of->outputs[(*n)++];
}

/* As numpy has it, and as the protocol does. */
static const struct {
    const char *dtype, *datatype;
    size_t bytes;
} types[] = {
    {"float32", "FP32", 4}, {"int64", "INT64", 8},   {"int32", "INT32", 4},
    {"bool", "BOOL", 1},    {"uint8", "UINT8", 1},   {"int8", "INT8", 1},
    {"float16", "FP16", 2}, {"bfloat16", "BF16", 2}, {"float64", "FP64", 8},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static size_t element_bytes(const char *datatype)
{
    uint32_t i = 0;
    while (i < TYPES && strcmp(types[i].datatype, datatype) != 0) {
        i++;
    }
    return i < TYPES ? types[i].bytes : 4;
}

static const char *datatype_of(const char *dtype)
{
    uint32_t i = 0;
    while (i < TYPES && strcmp(types[i].dtype, dtype) != 0) {
        i++;
    }
    return i < TYPES ? types[i].datatype : "FP32";
}

static void set_shape(const struct conformance_case *of, struct case_tensor *tensor, size_t rank,
                      const int64_t *dims)
{
    if (rank > CASES_RANK_MAX) {
        cases_fail(of->name, "a tensor of too high a rank");
    }
    tensor->rank = (uint32_t)rank;
    tensor->count = 1;
    for (size_t k = 0; k < rank; k++) {
        tensor->dims[k] = dims[k];
        tensor->count *= (size_t)dims[k];
    }
    tensor->bytes = tensor->count * element_bytes(tensor->datatype);
}

/* {"dtype": .., "shape": [..], "data": [..]}; float32 where no dtype is given. */
static struct case_tensor read_json(struct conformance_cases *cases,
                                    const struct conformance_case *of, const char *name,
                                    const json_t *from)
{
    const json_t *shape = json_object_get(from, "shape");
    const json_t *data = json_object_get(from, "data");
    const char *dtype = json_string_value(json_object_get(from, "dtype"));
    struct case_tensor tensor = {.name = copy_text(cases, name), .datatype = "FP32"};
    int64_t dims[CASES_RANK_MAX] = {0};
    if (dtype != NULL) {
        tensor.datatype = datatype_of(dtype);
    }
    for (size_t k = 0; k < json_array_size(shape) && k < CASES_RANK_MAX; k++) {
        dims[k] = json_integer_value(json_array_get(shape, k));
    }
    set_shape(of, &tensor, json_array_size(shape), dims);
    if (json_array_size(data) != tensor.count) {
        cases_fail(of->name, "a tensor whose data does not fit its shape");
    }
    char *to = take(cases, tensor.bytes);
    for (size_t i = 0; i < tensor.count; i++) {
        double number = json_number_value(json_array_get(data, i));
        float real = (float)number;
        int32_t narrow = (int32_t)number;
        int64_t wide = (int64_t)number;
        size_t size = element_bytes(tensor.datatype);
        uint16_t half = tensor.datatype[0] == 'F' ? cell_f16_round(real) : cell_bf16_round(real);
        const void *value = size == sizeof(half)                   ? (const void *)&half
                            : strcmp(tensor.datatype, "FP64") == 0 ? (const void *)&number
                            : tensor.datatype[0] == 'F'            ? (const void *)&real
                            : size == 4                            ? (const void *)&narrow
                                                                   : (const void *)&wide;
        memcpy(to + i * size, value, size); // little-endian, of bytes too
    }
    tensor.data = to;
    return tensor;
}

static void read_object(struct conformance_cases *cases, struct conformance_case *of,
                        json_t *tensors, bool is_input)
{
    const char *name = NULL;
    json_t *tensor = NULL;
    size_t i = 0;
    json_object_foreach(tensors, name, tensor)
    {
        *add_tensor(of, is_input) = read_json(cases, of, name, tensor);
    }
    json_array_foreach(tensors, i, tensor)
    {
        name = json_string_value(json_object_get(tensor, "name"));
        *add_tensor(of, is_input) = read_json(cases, of, name, tensor);
    }
}

static struct case_tensor read_proto(struct conformance_cases *cases,
                                     const struct conformance_case *of, const char *name,
                                     const Onnx__TensorProto *proto)
{
    struct case_tensor tensor = {.name = copy_text(cases, name),
                                 .datatype = proto->data_type == FLOAT   ? "FP32"
                                             : proto->data_type == INT32 ? "INT32"
                                                                         : "INT64"};
    set_shape(of, &tensor, proto->n_dims, proto->dims);
    const void *data = proto->raw_data.data;
    size_t bytes = proto->raw_data.len;
    if (bytes == 0 && proto->n_float_data > 0) {
        data = proto->float_data;
        bytes = proto->n_float_data * sizeof(float);
    } else if (bytes == 0 && proto->n_int32_data > 0) {
        data = proto->int32_data;
        bytes = proto->n_int32_data * sizeof(int32_t);
    }
    if (bytes != tensor.bytes) {
        cases_fail(of->name, "a tensor whose data does not fit its shape");
    }
    void *to = take(cases, bytes);
    memcpy(to, data, bytes);
    tensor.data = to;
    return tensor;
}

/* ---- ONNX Runtime's vectors --------------------------------------------------------------- */

static bool is_weight(const char *name)
{
    return strcmp(name, "W") == 0 || strcmp(name, "R") == 0 || strcmp(name, "B") == 0 ||
           strcmp(name, "P") == 0;
}

static void set_attribute(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                          const json_t *value)
{
    if (json_is_string(value)) {
        onnx_set_string(builder, node, name, json_string_value(value));
    } else if (json_is_array(value) && json_is_string(json_array_get(value, 0))) {
        char text[256] = "";
        size_t at = 0;
        for (size_t i = 0; i < json_array_size(value); i++) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i > 0 ? " " : "",
                                   json_string_value(json_array_get(value, i)));
        }
        onnx_set_strings(builder, node, name, text);
    } else if (json_is_array(value)) {
        float numbers[8] = {0};
        size_t n = json_array_size(value) < 8 ? json_array_size(value) : 8;
        for (size_t i = 0; i < n; i++) {
            numbers[i] = (float)json_number_value(json_array_get(value, i));
        }
        onnx_set_floats(builder, node, name, n, numbers);
    } else if (strcmp(name, "clip") == 0) {
        onnx_set_float(builder, node, name, (float)json_number_value(value));
    } else {
        onnx_set_int(builder, node, name, json_integer_value(value));
    }
}

/* The operator's inputs or outputs that the case has, in its order, "-" for the others. */
static void list_names(const json_t *given, const char *const *names, size_t n, char *text,
                       size_t room)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        bool has = json_object_get(given, names[i]) != NULL;
        at +=
            (size_t)snprintf(text + at, room - at, "%s%s", i > 0 ? " " : "", has ? names[i] : "-");
    }
}

/* Batch and time are the request's: the sizes of all other axes are the case's. */
static void declare_input(struct onnx_builder *builder, const char *name, const json_t *tensor)
{
    const json_t *shape = json_object_get(tensor, "shape");
    const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
    int64_t dims[CASES_RANK_MAX] = {-1, -1, -1, -1};
    size_t rank = json_array_size(shape) < CASES_RANK_MAX ? json_array_size(shape) : CASES_RANK_MAX;
    bool is_state = strncmp(name, "initial_", 8) == 0;
    for (size_t k = 0; k < rank; k++) {
        bool is_fixed = k == 2 || (is_state && k == 0);
        dims[k] = is_fixed ? json_integer_value(json_array_get(shape, k)) : -1;
    }
    onnx_input(builder, name, strcmp(dtype, "float32") == 0 ? FLOAT : INT32, (uint32_t)rank, dims);
}

static void build_node(struct conformance_cases *cases, struct conformance_case *of,
                       const json_t *from)
{
    static const char *const ins[] = {"X",         "W",         "R", "B", "sequence_lens",
                                      "initial_h", "initial_c", "P"};
    static const char *const outs[] = {"Y", "Y_h", "Y_c"};
    const char *op = json_string_value(json_object_get(from, "op"));
    json_t *inputs = json_object_get(from, "inputs");
    const json_t *outputs = json_object_get(from, "outputs");
    struct onnx_builder builder;
    char in_names[128];
    char out_names[32];
    const bool is_lstm = strcmp(op, "LSTM") == 0;
    onnx_init(&builder, OPSET);
    list_names(inputs, ins, is_lstm ? 8 : 6, in_names, sizeof(in_names));
    list_names(outputs, outs, is_lstm ? 3 : 2, out_names, sizeof(out_names));
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(inputs, name, value)
    {
        if (!is_weight(name)) {
            declare_input(&builder, name, value);
            continue;
        }
        struct case_tensor tensor = read_json(cases, of, name, value);
        onnx_constant(
            &builder, name,
            onnx_tensor(&builder, FLOAT, tensor.rank, tensor.dims, tensor.data, tensor.bytes));
    }
    Onnx__NodeProto *node = onnx_node(&builder, op, in_names, out_names);
    json_object_foreach(json_object_get(from, "attributes"), name, value)
    {
        set_attribute(&builder, node, name, value);
    }
    for (size_t o = 0; o < 3; o++) {
        if (json_object_get(outputs, outs[o]) != NULL) {
            const int64_t any[] = {-1, -1, -1, -1};
            onnx_output(&builder, outs[o], FLOAT, o == 0 ? 4 : 3, any);
        }
    }
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    keep_model(cases, of, bytes, length);
    onnx_release(&builder);
}

static void read_vector(struct conformance_cases *cases, const char *line, uint32_t number)
{
    char name[CASES_NAME_BYTES];
    json_t *from = json_loads(line, 0, NULL);
    (void)snprintf(name, sizeof(name), "ort-%03u", number);
    struct conformance_case *made = case_new(cases, name);
    if (from == NULL) {
        cases_fail(name, "not JSON");
    }
    const char *expected = json_string_value(json_object_get(from, "expect"));
    made->is_refused = expected == NULL || strcmp(expected, "success") != 0;
    made->absolute = 2e-4;
    build_node(cases, made, from);
    read_object(cases, made, json_object_get(from, "inputs"), true);
    uint32_t n = 0; // weights are the model's
    for (uint32_t i = 0; i < made->n_inputs; i++) {
        if (!is_weight(made->inputs[i].name)) {
            made->inputs[n++] = made->inputs[i];
        }
    }
    made->n_inputs = n;
    read_object(cases, made, json_object_get(from, "outputs"), false);
    json_decref(from);
}

static void read_vectors(struct conformance_cases *cases, const char *folder)
{
    size_t length = 0;
    uint32_t number = 0;
    char *text = (char *)read_file(folder, ORT_FILE, &length);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        read_vector(cases, line, ++number);
    }
    base_free(text);
}

/* ---- The ONNX backend's node tests -------------------------------------------------------- */

static Onnx__TensorProto *read_tensor_file(const char *folder, const char *what, size_t i)
{
    char name[64];
    size_t length = 0;
    (void)snprintf(name, sizeof(name), "test_data_set_0/%s_%zu.pb", what, i);
    uint8_t *bytes = read_file(folder, name, &length);
    Onnx__TensorProto *tensor = onnx__tensor_proto__unpack(NULL, length, bytes);
    base_free(bytes);
    if (tensor == NULL) {
        cases_fail(folder, "not a TensorProto");
    }
    return tensor;
}

/* The weights among the inputs become initialisers. */
static void read_inputs(struct conformance_cases *cases, struct conformance_case *made,
                        const char *folder, Onnx__GraphProto *graph, Onnx__TensorProto **weights,
                        size_t *n_weights)
{
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_input; i++) {
        Onnx__TensorProto *proto = read_tensor_file(folder, "input", i);
        Onnx__ValueInfoProto *input = graph->input[i];
        if (is_weight(input->name)) {
            free(proto->name);
            proto->name = strdup(input->name);
            weights[(*n_weights)++] = proto;
            onnx__value_info_proto__free_unpacked(input, NULL);
            continue;
        }
        *add_tensor(made, true) = read_proto(cases, made, input->name, proto);
        onnx__tensor_proto__free_unpacked(proto, NULL);
        graph->input[kept++] = input;
    }
    graph->n_input = kept;
}

static void read_node_test(struct conformance_cases *cases, const char *folder, const char *name)
{
    Onnx__TensorProto *weights[CASES_TENSORS_MAX];
    size_t n_weights = 0;
    size_t length = 0;
    struct conformance_case *made = case_new(cases, name);
    uint8_t *bytes = read_file(folder, "model.onnx", &length);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, length, bytes);
    base_free(bytes);
    if (model == NULL || model->graph->n_initializer > 0 ||
        model->graph->n_input > CASES_TENSORS_MAX) {
        cases_fail(folder, "not a model as the ONNX backend's tests have them");
    }
    made->absolute = 1e-7;
    made->relative = 1e-3;
    read_inputs(cases, made, folder, model->graph, weights, &n_weights);
    for (size_t i = 0; i < model->graph->n_output; i++) {
        Onnx__TensorProto *proto = read_tensor_file(folder, "output", i);
        *add_tensor(made, false) = read_proto(cases, made, model->graph->output[i]->name, proto);
        onnx__tensor_proto__free_unpacked(proto, NULL);
    }
    model->graph->n_initializer = n_weights;
    model->graph->initializer = weights;
    length = onnx__model_proto__get_packed_size(model);
    uint8_t *packed = take(cases, length);
    made->model = packed;
    made->model_bytes = onnx__model_proto__pack(model, packed);
    for (size_t i = 0; i < n_weights; i++) {
        onnx__tensor_proto__free_unpacked(weights[i], NULL);
    }
    model->graph->n_initializer = 0;
    model->graph->initializer = NULL;
    onnx__model_proto__free_unpacked(model, NULL);
}

static void read_node_tests(struct conformance_cases *cases, const char *folder)
{
    char path[UTIL_PATH_BYTES];
    char test[2 * UTIL_PATH_BYTES];
    struct dirent **entries = NULL;
    (void)snprintf(path, sizeof(path), "%s/onnx-node-opset14", folder);
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) {
        cases_fail(path, "cannot be read");
    }
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            (void)snprintf(test, sizeof(test), "%s/%s", path, entries[i]->d_name);
            read_node_test(cases, test, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free((void *)entries);
}

/* ---- PyTorch exports ---------------------------------------------------------------------- */

static void read_exports(struct conformance_cases *cases, const char *folder)
{
    char path[UTIL_PATH_BYTES];
    size_t length = 0;
    (void)snprintf(path, sizeof(path), "%s/burn-onnx", folder);
    char *text = (char *)read_file(path, "golden.json", &length);
    json_t *golden = json_loads(text, 0, NULL);
    base_free(text);
    for (size_t i = 0; i < json_array_size(golden); i++) {
        const json_t *from = json_array_get(golden, i);
        const char *file = json_string_value(json_object_get(from, "model"));
        char name[CASES_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "burn-%zu-%.*s", i, (int)strcspn(file, "."), file);
        struct conformance_case *made = case_new(cases, name);
        uint8_t *bytes = read_file(path, file, &length);
        keep_model(cases, made, bytes, length);
        base_free(bytes);
        made->absolute = 1e-5;
        read_object(cases, made, json_object_get(from, "inputs"), true);
        read_object(cases, made, json_object_get(from, "outputs"), false);
    }
    json_decref(golden);
}

/* ---- This tree's exports ------------------------------------------------------------------ */

/* The weights of a model whose file has none. */
static void keep_data(struct conformance_cases *cases, struct conformance_case *of,
                      const char *folder)
{
    char path[3 * UTIL_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/model.onnx.data", folder);
    char *bytes = util_read_file(path, &of->data_bytes);
    if (bytes != NULL) {
        of->data = keep(cases, (const uint8_t *)bytes, of->data_bytes);
        base_free(bytes);
    }
}

/* One folder of tests/data/onnx: a model and some cases. */
static void read_export(struct conformance_cases *cases, const char *folder, const char *name)
{
    size_t length = 0;
    char *text = (char *)read_file(folder, "golden.json", &length);
    json_t *golden = json_loads(text, 0, NULL);
    const json_t *list = json_object_get(golden, "cases");
    base_free(text);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *from = json_array_get(list, i);
        struct conformance_case *made = case_new(cases, name);
        made->absolute = 1e-5;
        if (i == 0) {
            uint8_t *bytes = read_file(folder, "model.onnx", &length);
            keep_model(cases, made, bytes, length);
            base_free(bytes);
            keep_data(cases, made, folder);
        }
        read_object(cases, made, json_object_get(from, "inputs"), true);
        read_object(cases, made, json_object_get(from, "outputs"), false);
        for (uint32_t t = 0; t < made->n_inputs; t++) {
            made->has_lengths |= strcmp(made->inputs[t].name, "lengths") == 0;
        }
    }
    json_decref(golden);
}

static void read_own(struct conformance_cases *cases)
{
    static const char path[] = "tests/data/onnx"; // run.sh runs in the root of the tree
    char folder[UTIL_PATH_BYTES];
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) {
        cases_fail(path, "cannot be read");
    }
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.' && strchr(name, '-') != NULL) {
            (void)snprintf(folder, sizeof(folder), "%s/%s", path, name);
            read_export(cases, folder, name);
        }
        free(entries[i]);
    }
    free((void *)entries);
}

void cases_read(struct conformance_cases *cases, const char *folder)
{
    cases->n = 0;
    base_arena_init(&cases->arena, (size_t)1 << 20, (size_t)256 << 20);
    read_own(cases);
    if (folder[0] != '\0') {
        read_node_tests(cases, folder);
        read_exports(cases, folder);
        read_vectors(cases, folder);
    }
}

void cases_release(struct conformance_cases *cases)
{
    base_arena_release(&cases->arena);
}
