/* One input tensor of a request: name, data type, shape, and where its data lie.
 *
 * The product of the dimensions is computed with overflow checks before anything is sized by it,
 * and memory is taken for what came, never for what a shape promises. Raw data stay in the message.
 */
#include "server/grpc/decode.h"

#include "base/checked.h"
#include "server/about.h"

#include <stdio.h>
#include <string.h>

static const struct srv_grpc__type types[] = {
    {"FP32", 4, 6},
    {"INT64", 8, 3},
    {"INT32", 4, 2},
    {"BOOL", 1, 1},
    {"UINT8", 1, 4},
    {"INT8", 1, 2},
    {"FP16", 2, SRV_GRPC__NO_LIST},
    {"BF16", 2, SRV_GRPC__NO_LIST},
    {"FP64", 8, 7},
    {"BYTES", 0, SRV_GRPC__BYTES_LIST}, // each element has a length of its own
};

/* Fields of an InferInputTensor as they lie in the message. */
struct parts {
    struct srv_grpc_bytes name, datatype, contents;
    bool has_contents;
};

static enum base_status malformed(uint32_t index, struct base_error *error)
{
    return base_fail(error, BASE_INVALID_ARGUMENT, "input %u is malformed", index);
}

static bool shape_add(struct srv_tensor *tensor, uint64_t dim)
{
    if (tensor->rank == CELL_RANK_MAX) {
        return false;
    }
    tensor->shape[tensor->rank++] = (int64_t)dim;
    return true;
}

/* Dimensions come packed in one field or each in one of its own. */
static enum base_status read_shape(const struct srv_grpc_field *field, uint32_t index,
                                   struct srv_tensor *tensor, struct base_error *error)
{
    bool fits = true;
    if (field->type == SRV_GRPC_VARINT) {
        fits = shape_add(tensor, field->value);
    } else if (field->type == SRV_GRPC_BYTES) {
        struct srv_grpc_wire packed = srv_grpc_wire_open(field->bytes);
        uint64_t dim;
        while (fits && packed.at < packed.end) {
            if (!srv_grpc_wire_varint(&packed, &dim)) {
                return malformed(index, error);
            }
            fits = shape_add(tensor, dim);
        }
    } else {
        return malformed(index, error);
    }
    if (!fits) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input %u has more than %u dimensions",
                         index, CELL_RANK_MAX);
    }
    return BASE_OK;
}

/* Field numbers of InferInputTensor: name 1, datatype 2, shape 3, parameters 4, contents 5. */
static enum base_status read_part(const struct srv_grpc_field *field, uint32_t index,
                                  struct parts *parts, struct srv_tensor *tensor,
                                  struct base_error *error)
{
    if (field->number == 3) {
        return read_shape(field, index, tensor, error);
    }
    if (field->number > 5) {
        return BASE_OK;
    }
    if (field->type != SRV_GRPC_BYTES) {
        return malformed(index, error);
    }
    switch (field->number) {
    case 1:
        parts->name = field->bytes;
        return BASE_OK;
    case 2:
        parts->datatype = field->bytes;
        return BASE_OK;
    case 4:
        return srv_grpc__tensor_parameter_check(field->bytes, "input", error);
    default:
        if (parts->has_contents) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "input %u has contents twice", index);
        }
        parts->contents = field->bytes;
        parts->has_contents = true;
        return BASE_OK;
    }
}

static enum base_status read_parts(struct srv_grpc_bytes message, uint32_t index,
                                   struct parts *parts, struct srv_tensor *tensor,
                                   struct base_error *error)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        BASE_TRY(read_part(&field, index, parts, tensor, error));
    }
    return wire.broken ? malformed(index, error) : BASE_OK;
}

void srv_grpc__shape_text(const struct srv_tensor *tensor, char out[SRV_GRPC__SHAPE_BYTES])
{
    size_t length = (size_t)snprintf(out, SRV_GRPC__SHAPE_BYTES, "[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        length += (size_t)snprintf(out + length, SRV_GRPC__SHAPE_BYTES - length, "%s%lld",
                                   i > 0 ? "," : "", (long long)tensor->shape[i]);
    }
    snprintf(out + length, SRV_GRPC__SHAPE_BYTES - length, "]");
}

static const struct srv_grpc__type *find_type(struct srv_grpc_bytes name)
{
    for (uint32_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (srv_grpc_bytes_equal(name, types[i].name)) {
            return &types[i];
        }
    }
    return NULL;
}

/* Repeats the name that came only where it can be one. */
static enum base_status unknown_type(const struct srv_tensor *tensor, struct srv_grpc_bytes name,
                                     struct base_error *error)
{
    char shown[17] = "?";
    if (name.length > 0 && name.length < sizeof shown && srv_grpc_wire_is_text(name)) {
        memcpy(shown, name.data, name.length);
        shown[name.length] = 0;
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "input '%s': data type %s is not one of " SRV_DATATYPES ", BYTES",
                     tensor->name, shown);
}

/* Elements and bytes of the tensor by its shape. */
static enum base_status measure(const struct srv_tensor *tensor, uint32_t element_bytes,
                                size_t *elements, size_t *bytes, struct base_error *error)
{
    char shape[SRV_GRPC__SHAPE_BYTES];
    *elements = 1;
    *bytes = 0;
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0) {
            srv_grpc__shape_text(tensor, shape);
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input '%s': shape %s has a negative dimension", tensor->name, shape);
        }
        fits = fits && base_size_mul(*elements, (size_t)tensor->shape[i], elements);
    }
    if (!fits || !base_size_mul(*elements, element_bytes, bytes)) {
        srv_grpc__shape_text(tensor, shape);
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': shape %s is too large",
                         tensor->name, shape);
    }
    return BASE_OK;
}

static enum base_status take_raw(struct srv_tensor *tensor, const struct srv_grpc_bytes *raw,
                                 const struct srv_grpc__type *type, size_t bytes,
                                 struct base_error *error)
{
    if (type->element_bytes > 0 && raw->length != bytes) {
        char shape[SRV_GRPC__SHAPE_BYTES];
        srv_grpc__shape_text(tensor, shape);
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': raw_input_contents has %zu bytes, shape %s of %s takes %zu",
                         tensor->name, raw->length, shape, tensor->datatype, bytes);
    }
    tensor->data = raw->data;
    tensor->bytes = raw->length;
    return BASE_OK;
}

enum base_status srv_grpc__input_decode(struct srv_grpc_bytes message,
                                        const struct srv_grpc_bytes *raw, uint32_t index,
                                        struct base_arena *arena, struct srv_tensor *tensor,
                                        struct base_error *error)
{
    struct parts parts = {0};
    BASE_TRY(read_parts(message, index, &parts, tensor, error));
    BASE_TRY(srv_grpc__text(arena, parts.name, CELL_NAME_BYTES - 1, "an input's name",
                            &tensor->name, error));
    if (tensor->name[0] == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input %u has no name", index);
    }
    const struct srv_grpc__type *type = find_type(parts.datatype);
    if (type == NULL) {
        return unknown_type(tensor, parts.datatype, error);
    }
    tensor->datatype = type->name;
    size_t elements;
    size_t bytes;
    BASE_TRY(measure(tensor, type->element_bytes, &elements, &bytes, error));
    if (raw != NULL && parts.has_contents) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s' has contents beside raw_input_contents; use one of them for "
                         "all inputs",
                         tensor->name);
    }
    if (raw != NULL) {
        return take_raw(tensor, raw, type, bytes, error);
    }
    if (!parts.has_contents && elements > 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s' has no data: neither raw_input_contents nor contents",
                         tensor->name);
    }
    return srv_grpc__contents_decode(parts.contents, type, elements, arena, tensor, error);
}
