/* Typed contents of an input: InferTensorContents, one list per kind of element.
 *
 * Numbers come packed (one field of many) or unpacked (a field each), or both. The list is walked
 * twice: counted first, so that its memory is sized by what came, then copied. Packed floats or
 * doubles in one piece are on the wire what they are in memory, and stay there. */
#include "server/grpc/decode.h"

#include "base/assert.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian in memory");

static const char *const list_names[SRV_GRPC__LISTS] = {
    "",
    "bool_contents",
    "int_contents",
    "int64_contents",
    "uint_contents",
    "uint64_contents",
    "fp32_contents",
    "fp64_contents",
    "bytes_contents",
};

/* How the elements of a list lie on the wire. */
static enum srv_grpc_wire_type list_type(uint32_t list)
{
    return list == 6                      ? SRV_GRPC_FIXED32
           : list == 7                    ? SRV_GRPC_FIXED64
           : list == SRV_GRPC__BYTES_LIST ? SRV_GRPC_BYTES
                                          : SRV_GRPC_VARINT;
}

/* Elements in one field of a list; false when it is malformed. */
static bool count_field(const struct srv_grpc_field *field, size_t *count)
{
    enum srv_grpc_wire_type type = list_type(field->number);
    if (field->type == type) {
        *count = 1;
        return true;
    }
    if (field->type != SRV_GRPC_BYTES) {
        return false;
    }
    size_t width = type == SRV_GRPC_FIXED32 ? 4 : 8;
    if (type == SRV_GRPC_VARINT) {
        return srv_grpc_wire_count_varints(field->bytes, count);
    }
    *count = field->bytes.length / width;
    return field->bytes.length % width == 0;
}

/* What the first walk finds. */
struct survey {
    size_t counts[SRV_GRPC__LISTS];
    uint32_t pieces;             /* fields of the wanted list */
    size_t bytes;                /* in them */
    struct srv_grpc_field first; /* the first of them */
};

static bool survey_read(struct srv_grpc_bytes contents, uint32_t wanted, struct survey *survey)
{
    *survey = (struct survey){0};
    struct srv_grpc_wire wire = srv_grpc_wire_open(contents);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number >= SRV_GRPC__LISTS) {
            continue;
        }
        size_t count;
        if (!count_field(&field, &count)) {
            return false;
        }
        survey->counts[field.number] += count;
        if (field.number == wanted) {
            survey->first = survey->pieces == 0 ? field : survey->first;
            survey->pieces++;
            survey->bytes += field.type == SRV_GRPC_BYTES ? field.bytes.length : 0;
        }
    }
    return !wire.broken;
}

/* Appends a varint as an element; int32 drops the upper half, as protobuf does. NULL for a number
 * that does not fit into a byte. */
static uint8_t *put_element(uint8_t *at, uint64_t value, const struct srv_grpc__type *type)
{
    const int32_t number = (int32_t)(uint32_t)value;
    const bool is_signed = type->list == 2;
    if (type->list == 1) {
        value = value != 0;
    } else if (type->element_bytes == 1 && (number < (is_signed ? INT8_MIN : 0) ||
                                            number > (is_signed ? INT8_MAX : UINT8_MAX))) {
        return NULL;
    }
    memcpy(at, &value, type->element_bytes);
    return at + type->element_bytes;
}

/* A text, behind its length. */
static uint8_t *put_bytes(uint8_t *at, struct srv_grpc_bytes bytes)
{
    const uint32_t length = (uint32_t)bytes.length;
    memcpy(at, &length, sizeof(length));
    if (bytes.length > 0) {
        memcpy(at + sizeof(length), bytes.data, bytes.length);
    }
    return at + sizeof(length) + bytes.length;
}

static uint8_t *copy_field(uint8_t *at, const struct srv_grpc_field *field,
                           const struct srv_grpc__type *type)
{
    if (type->list == SRV_GRPC__BYTES_LIST) {
        return put_bytes(at, field->bytes);
    }
    if (field->type != SRV_GRPC_BYTES) {
        return put_element(at, field->value, type);
    }
    if (list_type(type->list) != SRV_GRPC_VARINT) {
        if (field->bytes.length > 0) {
            memcpy(at, field->bytes.data, field->bytes.length);
        }
        return at + field->bytes.length;
    }
    struct srv_grpc_wire packed = srv_grpc_wire_open(field->bytes);
    uint64_t value;
    while (at != NULL && packed.at < packed.end) {
        // The survey counted ends of varints; one longer than ten bytes shows only here.
        at = srv_grpc_wire_varint(&packed, &value) ? put_element(at, value, type) : NULL;
    }
    return at;
}

static enum base_status copy_list(struct srv_grpc_bytes contents, const struct srv_grpc__type *type,
                                  size_t bytes, struct base_arena *arena, struct srv_tensor *tensor,
                                  struct base_error *error)
{
    uint8_t *data = base_arena_alloc(arena, bytes);
    if (data == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "input '%s': no memory for its %zu bytes",
                         tensor->name, bytes);
    }
    uint8_t *at = data;
    struct srv_grpc_wire wire = srv_grpc_wire_open(contents);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number != type->list) {
            continue;
        }
        at = copy_field(at, &field, type);
        if (at == NULL) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': %s is malformed%s%s",
                             tensor->name, list_names[type->list],
                             type->element_bytes == 1 ? ", or a number is no " : "",
                             type->element_bytes == 1 ? type->name : "");
        }
    }
    base_assert(at == data + bytes);
    tensor->data = data;
    tensor->bytes = bytes;
    return BASE_OK;
}

enum base_status srv_grpc__contents_decode(struct srv_grpc_bytes contents,
                                           const struct srv_grpc__type *type, size_t elements,
                                           struct base_arena *arena, struct srv_tensor *tensor,
                                           struct base_error *error)
{
    struct survey survey;
    if (type->list == SRV_GRPC__NO_LIST && elements > 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': no list of contents has %s; use raw_input_contents",
                         tensor->name, type->name);
    }
    if (!survey_read(contents, type->list, &survey)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': contents is malformed",
                         tensor->name);
    }
    for (uint32_t list = 1; list < SRV_GRPC__LISTS; list++) {
        if (list != type->list && survey.counts[list] > 0) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input '%s': contents of %s come in %s, not in %s", tensor->name,
                             type->name, list_names[type->list], list_names[list]);
        }
    }
    if (survey.counts[type->list] != elements) {
        char shape[SRV_GRPC__SHAPE_BYTES];
        srv_grpc__shape_text(tensor, shape);
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': %s has %zu elements, shape %s takes %zu", tensor->name,
                         list_names[type->list], survey.counts[type->list], shape, elements);
    }
    const bool is_bytes = type->list == SRV_GRPC__BYTES_LIST;
    if (is_bytes && survey.bytes > UINT32_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': %zu bytes of text",
                         tensor->name, survey.bytes);
    }
    const size_t bytes =
        is_bytes ? survey.bytes + elements * sizeof(uint32_t) : elements * type->element_bytes;
    bool in_place = survey.pieces == 1 && survey.first.type == SRV_GRPC_BYTES &&
                    list_type(type->list) != SRV_GRPC_VARINT && !is_bytes;
    if (in_place) {
        tensor->data = survey.first.bytes.data;
        tensor->bytes = bytes;
        return BASE_OK;
    }
    return copy_list(contents, type, bytes, arena, tensor, error);
}
