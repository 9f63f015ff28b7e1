/* Server reflection, v1 and v1alpha, which are the same but for their names: what services there
 * are, and the files that say how to speak to them.
 *
 * A question that cannot be answered is answered with an error, and the stream goes on; only what
 * is no ServerReflectionRequest ends it. Nothing of ours has extensions: proto3 knows none. */
#include "base/assert.h"
#include "server/grpc/catalog.h"
#include "server/grpc/dialog.h"
#include "server/status.h"

#include <string.h>

/* Field numbers of proto/reflection.proto. */
enum {
    REQUEST_HOST = 1,
    REQUEST_FILE = 3,
    REQUEST_SYMBOL = 4,
    REQUEST_EXTENSION = 5,
    REQUEST_EXTENSION_NUMBERS = 6,
    REQUEST_SERVICES = 7,
    RESPONSE_HOST = 1,
    RESPONSE_REQUEST = 2,
    RESPONSE_FILES = 4,
    RESPONSE_SERVICES = 6,
    RESPONSE_ERROR = 7,
    FILES_FILE = 1,
    SERVICES_SERVICE = 1,
    SERVICE_NAME = 1,
    ERROR_CODE = 1,
    ERROR_MESSAGE = 2,
};

/* One question and its answer. */
struct exchange {
    struct base_arena *arena;
    struct srv_grpc_bytes host;
    uint32_t asked; /* the number of what is asked; 0: nothing that is known */
    struct srv_grpc_bytes what;
    uint32_t number;              /* of the answer, */
    struct srv_grpc_bytes answer; /* and its bytes; in the arena */
    struct base_error *error;
};

/* ---- The question ---- */

static enum base_status malformed(struct base_error *error)
{
    return base_fail(error, BASE_INVALID_ARGUMENT, "the message is not a ServerReflectionRequest");
}

/* A field of a request: a text, or in one case a message, in which nothing matters. */
static bool is_valid(const struct srv_grpc_field *field)
{
    if (field->number != REQUEST_EXTENSION) {
        return srv_grpc_wire_is_text(field->bytes);
    }
    struct srv_grpc_wire wire = srv_grpc_wire_open(field->bytes);
    struct srv_grpc_field inner;
    while (srv_grpc_wire_next(&wire, &inner)) {
    }
    return !wire.broken;
}

static enum base_status decode(struct srv_grpc_bytes message, struct exchange *exchange)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        bool is_host = field.number == REQUEST_HOST;
        if (!is_host && (field.number < REQUEST_FILE || field.number > REQUEST_SERVICES)) {
            continue;
        }
        if (field.type != SRV_GRPC_BYTES || !is_valid(&field)) {
            return malformed(exchange->error);
        }
        if (is_host) {
            exchange->host = field.bytes;
        } else {
            exchange->asked = field.number; // of several the last counts, as of any oneof
            exchange->what = field.bytes;
        }
    }
    return wire.broken ? malformed(exchange->error) : BASE_OK;
}

/* ---- The answer ---- */

/* Where its bytes go; NULL: no memory. */
static uint8_t *make_answer(struct exchange *exchange, uint32_t number, size_t length)
{
    uint8_t *bytes = base_arena_alloc(exchange->arena, length);
    exchange->number = number;
    exchange->answer = (struct srv_grpc_bytes){bytes, length};
    return bytes;
}

static enum base_status no_memory(const struct exchange *exchange)
{
    return base_fail(exchange->error, BASE_RESOURCE_EXHAUSTED, "no memory left for the answer");
}

static enum base_status answer_error(struct exchange *exchange, enum base_status status,
                                     const char *text)
{
    uint64_t code = (uint64_t)srv_status_grpc(status);
    size_t length = strlen(text);
    uint8_t *at = make_answer(exchange, RESPONSE_ERROR,
                              1 + srv_grpc_varint_bytes(code) + srv_grpc_field_bytes(length));
    if (at == NULL) {
        return no_memory(exchange);
    }
    at = srv_grpc_put_tag(at, ERROR_CODE, SRV_GRPC_VARINT);
    at = srv_grpc_put_varint(at, code);
    srv_grpc_put_bytes(at, ERROR_MESSAGE, text, length);
    return BASE_OK;
}

/* The name is in the question, which goes back along with the answer. */
static enum base_status answer_file(struct exchange *exchange, bool found,
                                    struct srv_grpc_bytes file, const char *not_found)
{
    if (!found) {
        return answer_error(exchange, BASE_NOT_FOUND, not_found);
    }
    size_t length = srv_grpc__catalog_describe(file, NULL);
    uint8_t *at = make_answer(exchange, RESPONSE_FILES, srv_grpc_field_bytes(length));
    if (at == NULL) {
        return no_memory(exchange);
    }
    at = srv_grpc_put_tag(at, FILES_FILE, SRV_GRPC_BYTES);
    at = srv_grpc_put_varint(at, length);
    srv_grpc__catalog_describe(file, at);
    return BASE_OK;
}

/* Writes the ListServiceResponse, or with out NULL nothing. Returns its bytes. */
static size_t put_services(uint8_t *out)
{
    size_t bytes = 0;
    struct srv_grpc__services walk = srv_grpc__catalog_services();
    struct srv_grpc_bytes package;
    struct srv_grpc_bytes name;
    while (srv_grpc__catalog_next_service(&walk, &package, &name)) {
        size_t length = package.length + 1 + name.length;
        if (out != NULL) {
            uint8_t *at = srv_grpc_put_tag(out + bytes, SERVICES_SERVICE, SRV_GRPC_BYTES);
            at = srv_grpc_put_varint(at, srv_grpc_field_bytes(length));
            at = srv_grpc_put_tag(at, SERVICE_NAME, SRV_GRPC_BYTES);
            at = srv_grpc_put_varint(at, length);
            memcpy(at, package.data, package.length);
            at[package.length] = '.';
            memcpy(at + package.length + 1, name.data, name.length);
        }
        bytes += srv_grpc_field_bytes(srv_grpc_field_bytes(length));
    }
    return bytes;
}

static enum base_status answer_services(struct exchange *exchange)
{
    uint8_t *at = make_answer(exchange, RESPONSE_SERVICES, put_services(NULL));
    if (at == NULL) {
        return no_memory(exchange);
    }
    put_services(at);
    return BASE_OK;
}

static enum base_status answer(struct exchange *exchange)
{
    struct srv_grpc_bytes file = {NULL, 0};
    bool found;
    switch (exchange->asked) {
    case REQUEST_FILE:
        found = srv_grpc__catalog_find_file(exchange->what, &file);
        return answer_file(exchange, found, file, "no such file");
    case REQUEST_SYMBOL:
        found = srv_grpc__catalog_find_symbol(exchange->what, &file);
        return answer_file(exchange, found, file, "no such symbol");
    case REQUEST_EXTENSION:
        return answer_error(exchange, BASE_NOT_FOUND, "there are no extensions");
    case REQUEST_EXTENSION_NUMBERS:
        return answer_error(exchange, BASE_UNIMPLEMENTED, "there are no extensions");
    case REQUEST_SERVICES:
        return answer_services(exchange);
    default:
        return answer_error(exchange, BASE_INVALID_ARGUMENT, "nothing is asked that is known");
    }
}

/* The ServerReflectionResponse around the answer. */
static void say(struct srv_grpc__dialog *dialog, const struct exchange *exchange,
                struct srv_grpc_bytes message)
{
    size_t bytes = srv_grpc_field_bytes(exchange->host.length) +
                   srv_grpc_field_bytes(message.length) +
                   srv_grpc_field_bytes(exchange->answer.length);
    grpc_slice slice = grpc_slice_malloc(bytes);
    uint8_t *at = GRPC_SLICE_START_PTR(slice);
    at = srv_grpc_put_bytes(at, RESPONSE_HOST, exchange->host.data, exchange->host.length);
    at = srv_grpc_put_bytes(at, RESPONSE_REQUEST, message.data, message.length);
    at = srv_grpc_put_bytes(at, exchange->number, exchange->answer.data, exchange->answer.length);
    base_assert(at == GRPC_SLICE_START_PTR(slice) + bytes);
    srv_grpc__dialog_say(dialog, slice);
}

static enum base_status hear(struct srv_grpc__dialog *dialog, struct srv_grpc_bytes message,
                             struct base_error *error)
{
    struct exchange exchange = {.arena = &dialog->call->infer.request.arena, .error = error};
    BASE_TRY(decode(message, &exchange));
    BASE_TRY(answer(&exchange));
    say(dialog, &exchange, message);
    return BASE_OK;
}

const struct srv_grpc__talk srv_grpc__reflection = {.hear = hear};
