/* One call from arrival to its last batch.
 *
 *   completion thread            loop thread
 *   on_arrived: body, decode --> deliver_arrived: post another accept, join the line of watch.c,
 *                                srv_request_start ... done -> send the answer
 *                                on_closed, cancelled: srv_request_cancel
 *                                the last hold gone: unref, reset, back to the pool
 *
 * RECV_CLOSE_ON_SERVER tells when the client is gone. A ModelInfer call that has been running for a
 * while starts it as a batch of its own (watch.c); a shorter one sends it along with the answer. So
 * do loads and unloads of models (order.c).
 * The answer is sent even when the client is gone (gRPC drops it), so that each call ends in one
 * way with one status. Batches start and end on the loop thread (batches.c). Calls of other methods
 * are answered when they arrive and need no RECV_CLOSE; a stream is a story of its own (stream.c,
 * dialog.c).
 *
 * Methods are registered, so that gRPC reads the message before it reports the call: a batch and a
 * hand-over less than with generic calls, 30 % of the server's CPU time.
 *
 * Nothing of ours is allocated for a call but the slice of its answer, which gRPC takes over. */
#include "server/grpc/call.h"

#include "base/assert.h"
#include "server/status.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

static bool is_of(const struct srv_grpc__call *call, enum srv_grpc__kind kind)
{
    return call->method != NULL && call->method->kind == kind;
}

static bool is_infer(const struct srv_grpc__call *call)
{
    return is_of(call, SRV_GRPC__INFER);
}

/* Whether it may last, so that its client may go before it is answered. */
static bool is_watched(const struct srv_grpc__call *call)
{
    return is_infer(call) || is_of(call, SRV_GRPC__ORDER);
}

/* ---- The end ---- */

static void finish(struct srv_grpc__call *call)
{
    struct srv_grpc_counts *counts = &call->server->counts;
    base_assert(srv_loop_is_owner(call->server->loop));
    base_assert(!call->running && call->watch != SRV_GRPC__WATCH_SOON);
    counts->cancelled += call->cancelled != 0 ? 1 : 0;
    if (is_infer(call)) {
        srv_grpc__infer_leave(call->server, &call->infer);
    } else if (is_of(call, SRV_GRPC__STREAM)) {
        srv_grpc__stream_close(call);
    } else if (is_of(call, SRV_GRPC__DIALOG)) {
        srv_grpc__dialog_close(call);
    }
    counts->open--;
    counts->finished++;
    grpc_call_unref(call->call);
    call->call = NULL;
    if (call->reply != NULL) {
        grpc_slice_buffer_reset_and_unref(&call->reply->data.raw.slice_buffer);
    }
    grpc_slice_unref(call->status_text);
    call->status_text = grpc_empty_slice();
    if (call->method == NULL) {
        grpc_call_details_destroy(&call->details);
        grpc_call_details_init(&call->details);
    }
    srv_grpc__infer_reset(&call->infer);
    srv_grpc__pool_put(call);
}

void srv_grpc__call_drop(struct srv_grpc__call *call)
{
    base_assert(call->holds > 0);
    if (--call->holds == 0) {
        finish(call);
    }
}

/* ---- The answer ---- */

static void on_sent(struct srv_grpc__event *event, bool ok)
{
    // Not ok: the client is gone, which RECV_CLOSE reports as well.
    (void)ok;
    srv_grpc__call_drop(SRV_GRPC__CONTAINER(event, struct srv_grpc__call, sent));
}

/* Sends the answer's bytes (NULL with an error) and the call's one status. */
static void send_answer(struct srv_grpc__call *call, enum base_status status, const char *text,
                        grpc_slice *answer)
{
    struct srv_grpc *server = call->server;
    base_assert(srv_loop_is_owner(server->loop));
    base_assert((status == BASE_OK) == (answer != NULL));
    server->counts.answered[status]++;
    grpc_op ops[4] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
    size_t count = 1;
    if (answer != NULL) {
        if (call->reply == NULL) {
            call->reply = grpc_raw_byte_buffer_create(NULL, 0);
        }
        grpc_slice_buffer_add(&call->reply->data.raw.slice_buffer, *answer);
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = call->reply;
    } else {
        call->status_text = grpc_slice_from_copied_string(text);
    }
    ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[count].data.send_status_from_server.status = (grpc_status_code)srv_status_grpc(status);
    ops[count++].data.send_status_from_server.status_details =
        answer == NULL ? &call->status_text : NULL;
    if (is_watched(call) && srv_grpc__watch_end(call)) {
        ops[count].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        ops[count++].data.recv_close_on_server.cancelled = &call->cancelled;
    }
    srv_grpc__batch_start(call, ops, count, &call->sent);
}

void srv_grpc__call_fail(struct srv_grpc__call *call, const struct base_error *error)
{
    send_answer(call, error->status, error->message, NULL);
}

void srv_grpc__call_answer(struct srv_grpc__call *call, const ProtobufCMessage *answer)
{
    size_t bytes = protobuf_c_message_get_packed_size(answer);
    grpc_slice slice = grpc_slice_malloc(bytes);
    protobuf_c_message_pack(answer, GRPC_SLICE_START_PTR(slice));
    send_answer(call, BASE_OK, NULL, &slice);
}

static void on_done(struct srv_request *request)
{
    struct srv_grpc__call *call =
        SRV_GRPC__CONTAINER(request, struct srv_grpc__call, infer.request);
    base_assert(call->running);
    call->running = false;
    if (request->error.status != BASE_OK) {
        srv_grpc__call_fail(call, &request->error);
        return;
    }
    size_t bytes = srv_grpc_infer_bytes(request);
    grpc_slice slice = grpc_slice_malloc(bytes);
    srv_grpc_encode_infer(request, GRPC_SLICE_START_PTR(slice), bytes);
    send_answer(call, BASE_OK, NULL, &slice);
}

/* ---- Cancel ---- */

static void on_closed(struct srv_grpc__event *event, bool ok)
{
    struct srv_grpc__call *call = SRV_GRPC__CONTAINER(event, struct srv_grpc__call, closed);
    struct srv_grpc *server = call->server;
    (void)ok;
    if (call->cancelled != 0 && call->running) {
        struct srv_request *request = &call->infer.request;
        enum base_status why = srv_grpc__why_closed(request->deadline_ns, request->times.arrived_ns,
                                                    srv_loop_update(server->loop));
        if (is_infer(call)) {
            srv_request_cancel(server->core, request, why);
        } else {
            srv_grpc__order_leave(call, why);
        }
    }
    srv_grpc__call_drop(call);
}

/* ---- Arrival ---- */

/* Whether the client has sent a token that allows this. */
static enum base_status check_access(const struct srv_grpc__call *call, struct base_error *error)
{
    const struct srv_access *access = call->server->options.access;
    const bool is_order = call->method->kind == SRV_GRPC__ORDER;
    const grpc_metadata *header = NULL;
    if (call->method->is_free) {
        return BASE_OK;
    }
    for (size_t i = 0; i < call->metadata.count; i++) {
        if (grpc_slice_str_cmp(call->metadata.metadata[i].key, "authorization") == 0) {
            header = &call->metadata.metadata[i];
        }
    }
    return srv_access_check(access, is_order ? SRV_ACCESS_CONTROL : SRV_ACCESS_USE,
                            header == NULL ? NULL
                                           : (const char *)GRPC_SLICE_START_PTR(header->value),
                            header == NULL ? 0 : GRPC_SLICE_LENGTH(header->value), error);
}

static void start_infer(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    struct base_error error;
    if (srv_grpc__infer_enter(server, &call->infer) != BASE_OK) {
        srv_grpc__call_fail(call, &call->infer.error);
        return;
    }
    if (check_access(call, &error) != BASE_OK) {
        srv_core_count_refused(server->core, SRV_PROTOCOL_GRPC, error.status);
        srv_grpc__call_fail(call, &error);
        return;
    }
    call->running = true;
    srv_grpc__watch_begin(call);
    srv_request_start(server->core, &call->infer.request);
}

/* Answers a method of the table's other rows. */
static void answer_now(struct srv_grpc__call *call)
{
    struct srv_grpc__ask ask = {.core = call->server->core, .arena = &call->infer.request.arena};
    if (srv_grpc_decode_query(call->infer.body, &ask.query, &ask.error) != BASE_OK ||
        call->method->answer(&ask) != BASE_OK) {
        srv_grpc__call_fail(call, &ask.error);
        return;
    }
    srv_grpc__call_answer(call, ask.answer);
}

static void refuse_unknown(struct srv_grpc__call *call)
{
    struct base_error error;
    base_fail(&error, BASE_UNIMPLEMENTED, "method %.*s is not implemented",
              (int)GRPC_SLICE_LENGTH(call->details.method),
              (const char *)GRPC_SLICE_START_PTR(call->details.method));
    srv_grpc__call_fail(call, &error);
}

/* A call that nothing has been begun for. */
static void refuse(struct srv_grpc__call *call, const struct base_error *error)
{
    if (!srv_grpc__stays_open(call->method)) {
        srv_grpc__call_fail(call, error);
    } else if (srv_grpc__relay_admit(call)) {
        srv_grpc__relay_refuse(call, error->status, error->message);
    }
}

static void deliver_arrived(struct base_message *message)
{
    struct srv_grpc__call *call = SRV_GRPC__CONTAINER(message, struct srv_grpc__call, message);
    srv_grpc__pool_replace(call);
    call->holds = 1; // the answer's
    if (call->method == NULL) {
        refuse_unknown(call);
        return;
    }
    struct base_error error;
    if (!is_infer(call) && check_access(call, &error) != BASE_OK) {
        refuse(call, &error);
        return;
    }
    switch (call->method->kind) {
    case SRV_GRPC__INFER:
        start_infer(call);
        break;
    case SRV_GRPC__STREAM:
        srv_grpc__stream_open(call);
        break;
    case SRV_GRPC__DIALOG:
        srv_grpc__dialog_open(call);
        break;
    case SRV_GRPC__ORDER:
        srv_grpc__order_start(call);
        break;
    case SRV_GRPC__QUERY:
        answer_now(call);
        break;
    }
}

/* A posted object that gRPC gives back unused: the server shuts down. */
static void deliver_returned(struct base_message *message)
{
    struct srv_grpc__call *call = SRV_GRPC__CONTAINER(message, struct srv_grpc__call, message);
    call->server->counts.objects_posted--;
    srv_grpc__pool_put(call);
}

static void on_arrived(struct srv_grpc__event *event, bool ok)
{
    struct srv_grpc__call *call = SRV_GRPC__CONTAINER(event, struct srv_grpc__call, arrived);
    call->message.deliver = ok ? deliver_arrived : deliver_returned;
    if (ok) {
        call->cancelled = 0;
        srv_grpc__infer_take(&call->infer, &call->payload);
        if (is_infer(call)) {
            srv_grpc__infer_decode(&call->infer, call->deadline, on_done);
        }
    }
    srv_loop_post(call->server->loop, &call->message);
}

/* ---- Life of an object ---- */

void srv_grpc__call_init(struct srv_grpc__call *call, struct srv_grpc *server)
{
    call->server = server;
    call->arrived.happened = on_arrived;
    call->closed.happened = on_closed;
    call->sent.happened = on_sent;
    call->status_text = grpc_empty_slice();
    grpc_metadata_array_init(&call->metadata);
    grpc_call_details_init(&call->details);
    srv_grpc__infer_init(&call->infer, server);
}

void srv_grpc__call_release(struct srv_grpc__call *call)
{
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    if (call->reply != NULL) {
        grpc_byte_buffer_destroy(call->reply);
    }
    srv_grpc__infer_release(&call->infer);
}
