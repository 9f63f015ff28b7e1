/* The envelope of ModelInfer: which model, which tensors, and the answer around the outputs.
 *
 * Decoding reads the top level once, keeping slices, then turns each slice into its C form: ids and
 * names before tensors, so that every later error can name the request. Nesting is fixed by the
 * code (request, tensor, contents or parameter), repeated fields are counted against fixed limits,
 * and a request's memory is bounded by its arena. */
#include "server/grpc/codec.h"

#include "base/assert.h"
#include "server/grpc/decode.h"

#include <string.h>

/* Field numbers of ModelInferRequest. */
enum {
    REQUEST_MODEL_NAME = 1,
    REQUEST_MODEL_VERSION = 2,
    REQUEST_ID = 3,
    REQUEST_PARAMETERS = 4,
    REQUEST_INPUTS = 5,
    REQUEST_OUTPUTS = 6,
    REQUEST_RAW_INPUTS = 7,
};

struct slices {
    uint32_t count;
    struct srv_grpc_bytes at[CELL_TENSORS_MAX];
};

/* The top level as it lies in the message. */
struct envelope {
    struct srv_grpc_bytes model_name, model_version, id;
    struct srv_grpc__parameters parameters;
    struct slices inputs, outputs, raw;
};

static enum base_status keep(struct slices *slices, struct srv_grpc_bytes bytes, const char *what,
                             struct base_error *error)
{
    if (slices->count == CELL_TENSORS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "more than %u %s", CELL_TENSORS_MAX, what);
    }
    slices->at[slices->count++] = bytes;
    return BASE_OK;
}

static enum base_status malformed(struct base_error *error)
{
    return base_fail(error, BASE_INVALID_ARGUMENT, "the message is not a ModelInferRequest");
}

static enum base_status read_field(const struct srv_grpc_field *field, struct envelope *envelope,
                                   struct base_error *error)
{
    if (field->number > REQUEST_RAW_INPUTS) {
        return BASE_OK;
    }
    if (field->type != SRV_GRPC_BYTES) {
        return malformed(error);
    }
    switch (field->number) {
    case REQUEST_MODEL_NAME:
        envelope->model_name = field->bytes;
        return BASE_OK;
    case REQUEST_MODEL_VERSION:
        envelope->model_version = field->bytes;
        return BASE_OK;
    case REQUEST_ID:
        envelope->id = field->bytes;
        return BASE_OK;
    case REQUEST_PARAMETERS:
        return srv_grpc__parameters_add(&envelope->parameters, field->bytes) ? BASE_OK
                                                                             : malformed(error);
    case REQUEST_INPUTS:
        return keep(&envelope->inputs, field->bytes, "inputs", error);
    case REQUEST_OUTPUTS:
        return keep(&envelope->outputs, field->bytes, "requested outputs", error);
    default:
        return keep(&envelope->raw, field->bytes, "raw_input_contents", error);
    }
}

static enum base_status read_envelope(struct srv_grpc_bytes message, struct envelope *envelope,
                                      struct base_error *error)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        BASE_TRY(read_field(&field, envelope, error));
    }
    return wire.broken ? malformed(error) : BASE_OK;
}

static enum base_status no_memory(struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory left for this request");
}

enum base_status srv_grpc__text(struct base_arena *arena, struct srv_grpc_bytes text,
                                size_t bytes_max, const char *what, const char **out,
                                struct base_error *error)
{
    if (text.length > bytes_max) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s has %zu bytes, more than %zu", what,
                         text.length, bytes_max);
    }
    if (!srv_grpc_wire_is_text(text)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s is not UTF-8 text", what);
    }
    *out = text.length == 0 ? "" : base_arena_text(arena, (const char *)text.data, text.length);
    return *out == NULL ? no_memory(error) : BASE_OK;
}

static enum base_status decode_inputs(const struct envelope *envelope, struct srv_request *request,
                                      struct base_error *error)
{
    uint32_t count = envelope->inputs.count;
    if (envelope->raw.count > 0 && envelope->raw.count != count) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "raw_input_contents has %u entries for %u inputs", envelope->raw.count,
                         count);
    }
    request->inputs = base_arena_array(&request->arena, count, sizeof request->inputs[0]);
    if (request->inputs == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct srv_tensor *tensor = &request->inputs[i];
        const struct srv_grpc_bytes *raw = envelope->raw.count > 0 ? &envelope->raw.at[i] : NULL;
        BASE_TRY(
            srv_grpc__input_decode(envelope->inputs.at[i], raw, i, &request->arena, tensor, error));
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(request->inputs[j].name, tensor->name) == 0) {
                return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s' is given twice",
                                 tensor->name);
            }
        }
        request->n_inputs = i + 1;
    }
    return BASE_OK;
}

/* InferRequestedOutputTensor: name 1, parameters 2. */
static enum base_status read_output_field(const struct srv_grpc_field *field,
                                          struct srv_grpc_bytes *name, struct base_error *error)
{
    if (field->number > 2) {
        return BASE_OK;
    }
    if (field->type != SRV_GRPC_BYTES) {
        return malformed(error);
    }
    if (field->number == 2) {
        return srv_grpc__tensor_parameter_check(field->bytes, "output", error);
    }
    *name = field->bytes;
    return BASE_OK;
}

static enum base_status decode_output(struct srv_grpc_bytes message, uint32_t index,
                                      struct base_arena *arena, const char **name,
                                      struct base_error *error)
{
    struct srv_grpc_bytes text = {NULL, 0};
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        BASE_TRY(read_output_field(&field, &text, error));
    }
    if (wire.broken) {
        return malformed(error);
    }
    if (text.length == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "requested output %u has no name", index);
    }
    return srv_grpc__text(arena, text, CELL_NAME_BYTES - 1, "a requested output's name", name,
                          error);
}

static enum base_status decode_wanted(const struct envelope *envelope, struct srv_request *request,
                                      struct base_error *error)
{
    uint32_t count = envelope->outputs.count;
    const char **wanted = base_arena_array(&request->arena, count, sizeof wanted[0]);
    if (wanted == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(decode_output(envelope->outputs.at[i], i, &request->arena, &wanted[i], error));
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(wanted[j], wanted[i]) == 0) {
                return base_fail(error, BASE_INVALID_ARGUMENT, "output '%s' is requested twice",
                                 wanted[i]);
            }
        }
    }
    request->wanted = wanted;
    request->n_wanted = count;
    return BASE_OK;
}

static enum base_status decode(struct srv_grpc_bytes message, struct srv_request *request,
                               struct base_error *error)
{
    struct envelope envelope;
    memset(&envelope, 0, sizeof envelope);
    BASE_TRY(read_envelope(message, &envelope, error));
    struct base_arena *arena = &request->arena;
    BASE_TRY(
        srv_grpc__text(arena, envelope.id, SRV_GRPC_ID_BYTES_MAX, "the id", &request->id, error));
    BASE_TRY(srv_grpc__text(arena, envelope.model_name, CELL_NAME_BYTES - 1, "the model's name",
                            &request->model_name, error));
    BASE_TRY(srv_grpc__text(arena, envelope.model_version, CELL_NAME_BYTES - 1,
                            "the model's version", &request->model_version, error));
    BASE_TRY(srv_grpc__parameters_apply(&envelope.parameters, request, error));
    BASE_TRY(decode_inputs(&envelope, request, error));
    return decode_wanted(&envelope, request, error);
}

enum base_status srv_grpc_decode_infer(struct srv_grpc_bytes message, struct srv_request *request,
                                       struct base_error *error)
{
    request->id = "";
    request->model_name = "";
    request->model_version = "";
    request->n_inputs = 0;
    request->n_wanted = 0;
    request->timeout_ns = 0;
    request->sequence = (struct srv_sequence){.id = NULL};
    struct base_error why = {.status = BASE_OK};
    enum base_status status = decode(message, request, &why);
    if (status == BASE_OK) {
        return BASE_OK;
    }
    request->id = request->id != NULL ? request->id : "";
    request->model_name = request->model_name != NULL ? request->model_name : "";
    request->model_version = request->model_version != NULL ? request->model_version : "";
    srv_request_name_error(request->id, &why);
    return base_fail(error, status, "%s", why.message);
}

enum base_status srv_grpc_decode_query(struct srv_grpc_bytes message, struct srv_grpc_query *query,
                                       struct base_error *error)
{
    *query = (struct srv_grpc_query){.flag = false};
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number > 2) {
            continue;
        }
        if (field.type == SRV_GRPC_VARINT) {
            query->flag = field.number == 2 && field.value != 0;
            continue;
        }
        char *text = field.number == 1 ? query->first : query->second;
        if (field.type != SRV_GRPC_BYTES || !srv_grpc_wire_is_text(field.bytes)) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "the message is malformed");
        }
        if (field.bytes.length >= CELL_NAME_BYTES) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "a name of %zu bytes, more than %u",
                             field.bytes.length, CELL_NAME_BYTES - 1);
        }
        memset(text, 0, CELL_NAME_BYTES);
        if (field.bytes.length > 0) {
            memcpy(text, field.bytes.data, field.bytes.length);
        }
    }
    if (wire.broken) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "the message is malformed");
    }
    return BASE_OK;
}
