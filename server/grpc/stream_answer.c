/* What a stream sends: answers in the order of its requests, and its status in the end. Loop
 * thread.
 *
 * Of the first in the line parts go as well, while it runs, one behind the other: what is made
 * while one is being sent is in the next.
 *
 * An error is an answer, and the stream goes on, unless the client has asked for the call's status
 * in its place. */
#include "base/assert.h"
#include "server/grpc/stream.h"

#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

static void send_answer(struct srv_grpc__stream *stream, const struct srv_request *request,
                        bool is_final)
{
    struct srv_grpc__call *call = stream->call;
    size_t bytes = srv_grpc_stream_bytes(request);
    grpc_slice slice = grpc_slice_malloc(bytes);
    srv_grpc_encode_stream(request, is_final, GRPC_SLICE_START_PTR(slice), bytes);
    *(is_final ? &call->server->counts.stream_answers : &call->server->counts.stream_parts) += 1;
    stream->sending = true;
    stream->sends_part = !is_final;
    srv_grpc__relay_send(call, slice, &stream->greeted, &stream->sent);
}

static void deliver_sent(struct base_message *message)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message);
    struct srv_grpc__call *call = relay->call;
    struct srv_grpc__stream *stream = call->stream;
    stream->sending = false;
    grpc_slice_buffer_reset_and_unref(&call->reply->data.raw.slice_buffer);
    if (!stream->sends_part) {
        srv_grpc__exchange_drop(stream->first);
    }
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
        struct srv_grpc__exchange *first = stream->first;
        const struct base_error *error = &first->infer.request.error;
        if (first->running) {
            if (srv_request_take_part(&first->infer.request)) {
                send_answer(stream, &first->infer.request, false);
            }
            return;
        }
        if (error->status == BASE_OK || !stream->ends_at_error) {
            send_answer(stream, &first->infer.request, true);
            return;
        }
        srv_grpc__stream_stop(stream, error->status, error->message, BASE_CANCELLED);
    } else if (stream->state == SRV_GRPC__READING) {
        return;
    }
    stream->state = SRV_GRPC__ENDED;
    srv_grpc__relay_end(stream->call, stream->end, &stream->greeted);
}
