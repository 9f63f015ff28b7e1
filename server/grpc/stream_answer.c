/* What a stream sends: answers in the order of its requests, and its status in the end. Loop
 * thread.
 *
 * An error is an answer, and the stream goes on, unless the client has asked for the call's status
 * in its place. Initial metadata goes along with the first that is sent. */
#include "base/assert.h"
#include "server/grpc/stream.h"
#include "server/status.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <string.h>

/* Initial metadata at the head of ops, when it has not gone yet; how many ops that makes. */
static size_t greet(struct srv_grpc__stream *stream, grpc_op *ops)
{
    if (stream != NULL && stream->greeted) {
        return 0;
    }
    if (stream != NULL) {
        stream->greeted = true;
    }
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    return 1;
}

/* ---- The status ---- */

static void deliver_ended(struct base_message *message)
{
    srv_grpc__call_drop(SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message)->call);
}

static void send_status(struct srv_grpc__call *call, enum base_status status)
{
    struct srv_grpc__stream *stream = call->stream;
    call->server->counts.answered[status]++;
    grpc_op ops[3];
    memset(ops, 0, sizeof ops);
    size_t count = greet(stream, ops);
    ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[count].data.send_status_from_server.status = (grpc_status_code)srv_status_grpc(status);
    ops[count++].data.send_status_from_server.status_details = &call->status_text;
    if (stream == NULL) {
        ops[count].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        ops[count++].data.recv_close_on_server.cancelled = &call->cancelled;
    }
    srv_grpc__relay_init(&call->ended, call, deliver_ended);
    srv_grpc__stream_batch(call, ops, count, &call->ended);
}

void srv_grpc__stream_refuse(struct srv_grpc__call *call, enum base_status status)
{
    base_assert(call->stream == NULL);
    send_status(call, status);
}

/* ---- Answers ---- */

static void send_answer(struct srv_grpc__stream *stream, const struct srv_request *request)
{
    struct srv_grpc__call *call = stream->call;
    size_t bytes = srv_grpc_stream_bytes(request);
    grpc_slice slice = grpc_slice_malloc(bytes);
    srv_grpc_encode_stream(request, GRPC_SLICE_START_PTR(slice), bytes);
    if (call->reply == NULL) {
        call->reply = grpc_raw_byte_buffer_create(NULL, 0);
    }
    grpc_slice_buffer_add(&call->reply->data.raw.slice_buffer, slice);
    call->server->counts.stream_answers++;
    call->holds++;
    stream->sending = true;
    grpc_op ops[2];
    memset(ops, 0, sizeof ops);
    size_t count = greet(stream, ops);
    ops[count].op = GRPC_OP_SEND_MESSAGE;
    ops[count++].data.send_message.send_message = call->reply;
    srv_grpc__stream_batch(call, ops, count, &stream->sent);
}

static void deliver_sent(struct base_message *message)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message);
    struct srv_grpc__call *call = relay->call;
    struct srv_grpc__stream *stream = call->stream;
    stream->sending = false;
    grpc_slice_buffer_reset_and_unref(&call->reply->data.raw.slice_buffer);
    srv_grpc__exchange_drop(stream->first);
    if (!relay->ok) {
        srv_grpc__stream_gone(stream); // RECV_CLOSE may come later
    }
    srv_grpc__stream_advance(stream);
    srv_grpc__stream_read(stream);
    srv_grpc__call_drop(call);
}

void srv_grpc__stream_answer_init(struct srv_grpc__stream *stream)
{
    srv_grpc__relay_init(&stream->sent, stream->call, deliver_sent);
}

void srv_grpc__stream_advance(struct srv_grpc__stream *stream)
{
    base_assert(srv_loop_is_owner(stream->call->server->loop));
    if (stream->sending || stream->state == SRV_GRPC__ENDED) {
        return;
    }
    if (stream->state < SRV_GRPC__STOPPED && stream->first != NULL) {
        const struct srv_grpc__exchange *first = stream->first;
        const struct base_error *error = &first->infer.request.error;
        if (first->running) {
            return;
        }
        if (error->status == BASE_OK || !stream->ends_at_error) {
            send_answer(stream, &first->infer.request);
            return;
        }
        srv_grpc__stream_stop(stream, error->status, error->message, BASE_CANCELLED);
    } else if (stream->state == SRV_GRPC__READING) {
        return;
    }
    stream->state = SRV_GRPC__ENDED;
    send_status(stream->call, stream->end);
}
