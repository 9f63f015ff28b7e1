/* Calls that stay open while messages go to and fro: how they begin and end, and their batches,
 * which end on the completion threads.
 *
 * Those poll the sockets; the queue that the loop looks into by the clock (batches.c) would let
 * each message wait. */
#include "base/assert.h"
#include "server/grpc/call.h"
#include "server/status.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <string.h>

/* ---- Batches ---- */

void srv_grpc__relay_happened(struct srv_grpc__event *event, bool ok)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(event, struct srv_grpc__relay, event);
    relay->ok = ok;
    srv_loop_post(relay->call->server->loop, &relay->message);
}

void srv_grpc__relay_init(struct srv_grpc__relay *relay, struct srv_grpc__call *call,
                          void (*deliver)(struct base_message *message))
{
    relay->event.happened = srv_grpc__relay_happened;
    relay->message.deliver = deliver;
    relay->call = call;
}

static void start(struct srv_grpc__call *call, const grpc_op *ops, size_t count,
                  struct srv_grpc__relay *relay)
{
    base_assert(srv_loop_is_owner(call->server->loop));
    grpc_call_error error = grpc_call_start_batch(call->call, ops, count, &relay->event, NULL);
    base_assert(error == GRPC_CALL_OK);
}

void srv_grpc__relay_read(struct srv_grpc__call *call, grpc_byte_buffer **payload,
                          struct srv_grpc__relay *relay)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = payload;
    call->holds++;
    start(call, &op, 1, relay);
}

/* Initial metadata at the head of ops, when it has not gone yet; how many ops that makes. */
static size_t greet(bool *greeted, grpc_op *ops)
{
    if (*greeted) {
        return 0;
    }
    *greeted = true;
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    return 1;
}

void srv_grpc__relay_send(struct srv_grpc__call *call, grpc_slice message, bool *greeted,
                          struct srv_grpc__relay *relay)
{
    if (call->reply == NULL) {
        call->reply = grpc_raw_byte_buffer_create(NULL, 0);
    }
    grpc_slice_buffer_add(&call->reply->data.raw.slice_buffer, message);
    grpc_op ops[2];
    memset(ops, 0, sizeof ops);
    size_t count = greet(greeted, ops);
    ops[count].op = GRPC_OP_SEND_MESSAGE;
    ops[count++].data.send_message.send_message = call->reply;
    call->holds++;
    start(call, ops, count, relay);
}

/* ---- The beginning ---- */

void srv_grpc__relay_watch(struct srv_grpc__call *call, struct srv_grpc__relay *relay)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &call->cancelled;
    call->holds++;
    start(call, &op, 1, relay);
}

bool srv_grpc__relay_admit(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    server->counts.streams_open++;
    if (server->counts.streams_open <= server->options.streams_max) {
        return true;
    }
    srv_grpc__relay_refuse(call, server->options.busy,
                           "the server is busy: too many streams are open");
    return false;
}

/* ---- The end ---- */

void srv_grpc__relay_set_text(struct srv_grpc__call *call, const char *text)
{
    grpc_slice_unref(call->status_text);
    call->status_text = grpc_slice_from_copied_string(text);
}

static void deliver_ended(struct base_message *message)
{
    srv_grpc__call_drop(SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message)->call);
}

/* is_watched: RECV_CLOSE has been asked for before. */
static void end(struct srv_grpc__call *call, enum base_status status, bool *greeted,
                bool is_watched)
{
    call->server->counts.answered[status]++;
    grpc_op ops[3];
    memset(ops, 0, sizeof ops);
    size_t count = greet(greeted, ops);
    ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[count].data.send_status_from_server.status = (grpc_status_code)srv_status_grpc(status);
    ops[count++].data.send_status_from_server.status_details = &call->status_text;
    if (!is_watched) {
        ops[count].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        ops[count++].data.recv_close_on_server.cancelled = &call->cancelled;
    }
    srv_grpc__relay_init(&call->ended, call, deliver_ended);
    start(call, ops, count, &call->ended);
}

void srv_grpc__relay_end(struct srv_grpc__call *call, enum base_status status, bool *greeted)
{
    end(call, status, greeted, true);
}

void srv_grpc__relay_refuse(struct srv_grpc__call *call, enum base_status status, const char *text)
{
    bool greeted = false;
    srv_grpc__relay_set_text(call, text);
    end(call, status, &greeted, false);
}
