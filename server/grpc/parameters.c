/* Parameters of a request and of its tensors.
 *
 * Honoured: `timeout` (microseconds), `max_steps`, `beam`, `stream`, and those of sessions.
 * Accepted without effect: `priority`, and every name we do not know, since clients attach their
 * own. Refused: what would change the answer and is not there, so that nobody takes a wrong answer
 * for a right one. Numbers may come as int64 or uint64: clients differ. */
#include "server/grpc/decode.h"

#include "base/clock.h"

static const char *const kind_texts[] = {
    [SRV_GRPC__NONE] = "nothing",  [SRV_GRPC__BOOL] = "a bool",     [SRV_GRPC__INT] = "an int64",
    [SRV_GRPC__UINT] = "a uint64", [SRV_GRPC__DOUBLE] = "a double", [SRV_GRPC__TEXT] = "a string",
};

/* InferParameter: a oneof by field number, so of several the last counts. */
static bool read_value(struct srv_grpc_bytes message, struct srv_grpc__parameter *value)
{
    static const struct {
        enum srv_grpc__parameter_kind kind;
        enum srv_grpc_wire_type type;
    } choices[] = {
        [1] = {SRV_GRPC__BOOL, SRV_GRPC_VARINT}, [2] = {SRV_GRPC__INT, SRV_GRPC_VARINT},
        [3] = {SRV_GRPC__TEXT, SRV_GRPC_BYTES},  [4] = {SRV_GRPC__DOUBLE, SRV_GRPC_FIXED64},
        [5] = {SRV_GRPC__UINT, SRV_GRPC_VARINT},
    };
    *value = (struct srv_grpc__parameter){.kind = SRV_GRPC__NONE};
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number >= sizeof choices / sizeof choices[0]) {
            continue;
        }
        if (field.type != choices[field.number].type) {
            return false;
        }
        value->kind = choices[field.number].kind;
        if (value->kind == SRV_GRPC__TEXT) {
            value->text = field.bytes;
        } else {
            value->number = field.value;
        }
    }
    return !wire.broken;
}

bool srv_grpc__parameter_read(struct srv_grpc_bytes entry, struct srv_grpc_bytes *key,
                              struct srv_grpc__parameter *value)
{
    *key = (struct srv_grpc_bytes){NULL, 0};
    *value = (struct srv_grpc__parameter){.kind = SRV_GRPC__NONE};
    struct srv_grpc_wire wire = srv_grpc_wire_open(entry);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number > 2) {
            continue;
        }
        if (field.type != SRV_GRPC_BYTES) {
            return false;
        }
        if (field.number == 1) {
            *key = field.bytes;
        } else if (!read_value(field.bytes, value)) {
            return false;
        }
    }
    return !wire.broken;
}

bool srv_grpc__parameters_add(struct srv_grpc__parameters *parameters, struct srv_grpc_bytes entry)
{
    struct srv_grpc_bytes key;
    struct srv_grpc__parameter value;
    if (!srv_grpc__parameter_read(entry, &key, &value)) {
        return false;
    }
    const struct {
        const char *key;
        struct srv_grpc__parameter *place;
    } known[] = {
        {"timeout", &parameters->timeout},
        {"priority", &parameters->priority},
        {"max_steps", &parameters->max_steps},
        {"beam", &parameters->beam},
        {"stream", &parameters->stream},
        {"sequence_id", &parameters->sequence_id},
        {"sequence_start", &parameters->sequence_start},
        {"sequence_end", &parameters->sequence_end},
        {"sequence_step", &parameters->sequence_step},
    };
    for (uint32_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (srv_grpc_bytes_equal(key, known[i].key)) {
            *known[i].place = value;
        }
    }
    return true;
}

/* A whole number >= 0; nothing counts as 0. */
static enum base_status to_unsigned(const struct srv_grpc__parameter *value, const char *name,
                                    uint64_t *out, struct base_error *error)
{
    *out = 0;
    if (value->kind == SRV_GRPC__NONE) {
        return BASE_OK;
    }
    if (value->kind == SRV_GRPC__INT && value->number > INT64_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "parameter '%s' is negative", name);
    }
    if (value->kind != SRV_GRPC__INT && value->kind != SRV_GRPC__UINT) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "parameter '%s' must be an int64 or a uint64, not %s", name,
                         kind_texts[value->kind]);
    }
    *out = value->number;
    return BASE_OK;
}

static enum base_status to_flag(const struct srv_grpc__parameter *value, const char *name,
                                bool *out, struct base_error *error)
{
    if (value->kind != SRV_GRPC__NONE && value->kind != SRV_GRPC__BOOL) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "parameter '%s' must be a bool, not %s",
                         name, kind_texts[value->kind]);
    }
    *out = value->number != 0;
    return BASE_OK;
}

/* A number or a text; NULL for 0, an empty text and nothing. */
static enum base_status to_id(const struct srv_grpc__parameter *value, struct base_arena *arena,
                              const char **out, struct base_error *error)
{
    uint64_t number = 0;
    *out = NULL;
    if (value->kind == SRV_GRPC__TEXT) {
        return value->text.length == 0
                   ? BASE_OK
                   : srv_grpc__text(arena, value->text, SRV_SEQUENCE_ID_BYTES_MAX,
                                    "parameter 'sequence_id'", out, error);
    }
    BASE_TRY(to_unsigned(value, "sequence_id", &number, error));
    return number == 0 ? BASE_OK : srv_request_number_id(arena, number, out, error);
}

enum base_status srv_grpc__parameters_apply(const struct srv_grpc__parameters *parameters,
                                            struct srv_request *request, struct base_error *error)
{
    uint64_t timeout_us;
    uint64_t priority;
    BASE_TRY(to_unsigned(&parameters->timeout, "timeout", &timeout_us, error));
    BASE_TRY(to_unsigned(&parameters->priority, "priority", &priority, error));
    BASE_TRY(to_unsigned(&parameters->max_steps, "max_steps", &request->steps_max, error));
    BASE_TRY(to_unsigned(&parameters->beam, "beam", &request->beam, error));
    BASE_TRY(to_flag(&parameters->stream, "stream", &request->in_parts, error));
    // Beyond 584 years there is no deadline.
    request->timeout_ns =
        timeout_us > UINT64_MAX / BASE_NS_PER_US ? 0 : timeout_us * BASE_NS_PER_US;

    BASE_TRY(
        to_flag(&parameters->sequence_start, "sequence_start", &request->sequence.is_start, error));
    BASE_TRY(to_flag(&parameters->sequence_end, "sequence_end", &request->sequence.is_end, error));
    BASE_TRY(
        to_unsigned(&parameters->sequence_step, "sequence_step", &request->sequence.step, error));
    request->sequence.has_step = parameters->sequence_step.kind != SRV_GRPC__NONE;
    BASE_TRY(to_id(&parameters->sequence_id, &request->arena, &request->sequence.id, error));
    return srv_request_check_sequence(&request->sequence, error);
}

enum base_status srv_grpc__tensor_parameter_check(struct srv_grpc_bytes entry, const char *what,
                                                  struct base_error *error)
{
    static const char *const refused[] = {"shared_memory_region", "classification"};
    struct srv_grpc_bytes key;
    struct srv_grpc__parameter value;
    if (!srv_grpc__parameter_read(entry, &key, &value)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s parameter is malformed", what);
    }
    for (uint32_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (srv_grpc_bytes_equal(key, refused[i])) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%s parameter '%s' is not implemented",
                             what, refused[i]);
        }
    }
    return BASE_OK;
}
