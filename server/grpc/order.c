/* RepositoryModelLoad and RepositoryModelUnload: a call that is answered when its order has ended.
 *
 * The call waits, as ModelInfer's does, and is watched like one. A client that cancels, or whose
 * deadline passes, ends its call alone: what it ordered goes on (server/orders.h). A drain waits
 * for the answer, as for those of ModelInfer; then connections are closed, and the client is gone.
 *
 * Of the call's request only what a watched call needs is filled in. */
#include "base/assert.h"
#include "proto/inference.pb-c.h"
#include "server/grpc/call.h"
#include "server/grpc/decode.h"

#include <grpc/slice.h>
#include <string.h>

/* ---- The message ---- */

/* Field numbers of both requests. */
enum { ORDER_REPOSITORY = 1, ORDER_MODEL = 2, ORDER_PARAMETERS = 3 };

static enum base_status malformed(struct base_error *error)
{
    return base_fail(error, BASE_INVALID_ARGUMENT, "the message is malformed");
}

/* An entry of map<string, ModelRepositoryParameter>; its value means nothing here. */
static enum base_status read_parameter(struct srv_grpc_bytes entry, enum srv_control_kind kind,
                                       struct base_error *error)
{
    struct srv_grpc_bytes key = {NULL, 0};
    struct srv_grpc_wire wire = srv_grpc_wire_open(entry);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number == 1) {
            if (field.type != SRV_GRPC_BYTES || !srv_grpc_wire_is_text(field.bytes)) {
                return malformed(error);
            }
            key = field.bytes;
        }
    }
    return wire.broken ? malformed(error)
                       : srv_order_check_parameter(kind, (const char *)key.data, key.length, error);
}

/* Of two names in one message the first is a repository's, as Triton has it. */
static enum base_status take_name(struct srv_grpc_bytes repository, struct srv_grpc_bytes model,
                                  char name[CELL_NAME_BYTES], struct base_error *error)
{
    if (repository.length > 0 && model.length > 0) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "repository_name is not implemented: there is one repository");
    }
    struct srv_grpc_bytes text = model.length > 0 ? model : repository;
    if (text.length == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "the request names no model");
    }
    if (text.length >= CELL_NAME_BYTES) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "a name of %zu bytes, more than %u",
                         text.length, CELL_NAME_BYTES - 1);
    }
    if (!srv_grpc_wire_is_text(text)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "the model's name is not UTF-8 text");
    }
    memcpy(name, text.data, text.length);
    return BASE_OK;
}

enum base_status srv_grpc_decode_order(struct srv_grpc_bytes message, enum srv_control_kind kind,
                                       char name[CELL_NAME_BYTES], struct base_error *error)
{
    struct srv_grpc_bytes texts[ORDER_MODEL + 1] = {{NULL, 0}};
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    memset(name, 0, CELL_NAME_BYTES);
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number > ORDER_PARAMETERS) {
            continue;
        }
        if (field.type != SRV_GRPC_BYTES) {
            return malformed(error);
        }
        if (field.number == ORDER_PARAMETERS) {
            BASE_TRY(read_parameter(field.bytes, kind, error));
        } else {
            texts[field.number] = field.bytes;
        }
    }
    return wire.broken ? malformed(error)
                       : take_name(texts[ORDER_REPOSITORY], texts[ORDER_MODEL], name, error);
}

/* ---- The call ---- */

/* Both responses: the model's name, and that it was done. */
static void answer(struct srv_grpc__call *call)
{
    char name[CELL_NAME_BYTES]; // protobuf-c's texts are not const
    memcpy(name, call->infer.request.model_name, strlen(call->infer.request.model_name) + 1);
    if (call->method->order == SRV_CONTROL_LOAD) {
        Inference__RepositoryModelLoadResponse response;
        inference__repository_model_load_response__init(&response);
        response.model_name = name;
        response.isloaded = true;
        srv_grpc__call_answer(call, &response.base);
    } else {
        Inference__RepositoryModelUnloadResponse response;
        inference__repository_model_unload_response__init(&response);
        response.model_name = name;
        response.isunloaded = true;
        srv_grpc__call_answer(call, &response.base);
    }
}

static void on_ended(struct srv_order_wait *wait, const struct base_error *error)
{
    struct srv_grpc__call *call = SRV_GRPC__CONTAINER(wait, struct srv_grpc__call, order);
    base_assert(call->running);
    call->running = false;
    if (error->status != BASE_OK) {
        srv_grpc__call_fail(call, error);
    } else {
        answer(call);
    }
}

/* The message may be large, and what it asks for may last. */
static void forget_body(struct srv_grpc__infer *infer)
{
    infer->body = (struct srv_grpc_bytes){NULL, 0};
    grpc_slice_unref(infer->body_slice);
    infer->body_slice = grpc_empty_slice();
}

static enum base_status decode(struct srv_grpc__call *call, struct base_error *error)
{
    char name[CELL_NAME_BYTES];
    struct srv_request *request = &call->infer.request;
    BASE_TRY(srv_grpc_decode_order(call->infer.body, call->method->order, name, error));
    request->model_name = base_arena_text(&request->arena, name, strlen(name));
    return request->model_name != NULL
               ? BASE_OK
               : base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory left for this request");
}

void srv_grpc__order_start(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    struct base_error error;
    enum base_status status = decode(call, &error);
    forget_body(&call->infer);
    if (status != BASE_OK) {
        srv_grpc__call_fail(call, &error);
        return;
    }
    call->infer.request.deadline_ns = srv_grpc__deadline(call->deadline);
    call->infer.request.times.arrived_ns = srv_loop_update(server->loop);
    call->running = true;
    srv_grpc__watch_begin(call);
    call->order.done = on_ended;
    srv_orders_begin(&server->orders, call->method->order, call->infer.request.model_name,
                     &call->order);
}

void srv_grpc__order_leave(struct srv_grpc__call *call, enum base_status why)
{
    struct base_error error;
    base_assert(call->running);
    srv_order_leave(&call->order);
    call->running = false;
    (void)base_fail(&error, why, "%s: what was asked for goes on", base_status_text(why));
    srv_grpc__call_fail(call, &error);
}
