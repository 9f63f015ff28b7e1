/* A stream: requests one behind the other in one call, answered in their order.
 *
 *   completion thread           loop thread
 *   on_received: body, decode --> deliver_received: into the line, srv_request_start, read on
 *                                 on_done ... the first of the line: its answer is sent, and so on
 *                                 deliver_closed, cancelled: srv_request_cancel for all that run
 *                                 the last hold gone: unref, back to the pool
 *
 * gRPC takes one batch that reads and one that sends at a time. At most stream_requests_max
 * requests stand in the line; then reading pauses until an answer has gone, and what the client
 * sends meanwhile waits in HTTP/2's window, and then at the client.
 *
 * Memory: a stream and its requests are allocated when they come, and a few requests are kept for
 * those that follow. One is part of the stream, so that without memory a stream goes on one by one.
 */
#include "server/grpc/stream.h"

#include "base/assert.h"
#include "base/mem.h"

#include <grpc/byte_buffer.h>

/* Requests that a stream keeps when they are answered. */
#define SPARE_MAX 8u

/* ---- Exchanges ---- */

static void exchange_init(struct srv_grpc__exchange *exchange, struct srv_grpc__stream *stream)
{
    exchange->stream = stream;
    srv_grpc__infer_init(&exchange->infer, stream->call->server);
}

/* NULL: no memory; there is one again when the first of the line has been answered. */
static struct srv_grpc__exchange *take_spare(struct srv_grpc__stream *stream)
{
    struct srv_grpc__exchange *exchange = stream->spare;
    if (exchange != NULL) {
        stream->spare = exchange->next;
        stream->n_spare--;
        exchange->next = NULL;
        return exchange;
    }
    exchange = base_alloc(sizeof *exchange);
    if (exchange != NULL) {
        exchange_init(exchange, stream);
    }
    return exchange;
}

static void put_spare(struct srv_grpc__stream *stream, struct srv_grpc__exchange *exchange)
{
    srv_grpc__infer_reset(&exchange->infer);
    if (stream->n_spare >= SPARE_MAX && exchange != &stream->own) {
        srv_grpc__infer_release(&exchange->infer);
        base_free(exchange);
        return;
    }
    exchange->running = exchange->cancelled = false;
    exchange->previous = NULL;
    exchange->next = stream->spare;
    stream->spare = exchange;
    stream->n_spare++;
}

static void append(struct srv_grpc__stream *stream, struct srv_grpc__exchange *exchange)
{
    exchange->next = NULL;
    exchange->previous = stream->last;
    *(stream->last == NULL ? &stream->first : &stream->last->next) = exchange;
    stream->last = exchange;
    stream->length++;
    stream->call->holds++;
}

void srv_grpc__exchange_drop(struct srv_grpc__exchange *exchange)
{
    struct srv_grpc__stream *stream = exchange->stream;
    struct srv_grpc__call *call = stream->call;
    base_assert(!exchange->running && stream->length > 0);
    *(exchange->previous == NULL ? &stream->first : &exchange->previous->next) = exchange->next;
    *(exchange->next == NULL ? &stream->last : &exchange->next->previous) = exchange->previous;
    stream->length--;
    srv_grpc__infer_leave(call->server, &exchange->infer);
    put_spare(stream, exchange);
    srv_grpc__call_drop(call);
}

/* ---- The end ---- */

static void set_end(struct srv_grpc__stream *stream, enum srv_grpc__stream_state state,
                    enum base_status status, const char *text)
{
    base_assert(state >= stream->state && stream->state < SRV_GRPC__STOPPED);
    stream->state = state;
    stream->end = status;
    srv_grpc__relay_set_text(stream->call, text);
}

static struct srv_grpc__exchange *find_running(const struct srv_grpc__stream *stream)
{
    struct srv_grpc__exchange *exchange = stream->first;
    while (exchange != NULL && (!exchange->running || exchange->cancelled)) {
        exchange = exchange->next;
    }
    return exchange;
}

/* The status, which is to be sent yet, keeps the stream through all of this. */
void srv_grpc__stream_stop(struct srv_grpc__stream *stream, enum base_status status,
                           const char *text, enum base_status why)
{
    struct srv_core *core = stream->call->server->core;
    set_end(stream, SRV_GRPC__STOPPED, status, text);
    struct srv_grpc__exchange *next;
    for (struct srv_grpc__exchange *at = stream->first; at != NULL; at = next) {
        next = at->next;
        if (!at->running && !(stream->sending && !stream->sends_part && at == stream->first)) {
            srv_grpc__exchange_drop(at);
        }
    }
    // From the start each time: a cancel may bring back others than its own.
    for (struct srv_grpc__exchange *at = find_running(stream); at != NULL;
         at = find_running(stream)) {
        at->cancelled = true;
        srv_request_cancel(core, &at->infer.request, why);
    }
}

void srv_grpc__stream_gone(struct srv_grpc__stream *stream)
{
    struct srv_grpc__call *call = stream->call;
    if (stream->state < SRV_GRPC__STOPPED) {
        enum base_status why =
            srv_grpc__why_closed(srv_grpc__deadline(call->deadline), stream->opened_ns,
                                 srv_loop_update(call->server->loop));
        srv_grpc__stream_stop(stream, why, base_status_text(why), why);
    }
}

static void deliver_closed(struct base_message *message)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message);
    struct srv_grpc__call *call = relay->call;
    if (call->cancelled != 0) {
        srv_grpc__stream_gone(call->stream);
        srv_grpc__stream_advance(call->stream);
    }
    srv_grpc__call_drop(call);
}

static void end_by_drain(struct srv_grpc__stream *stream)
{
    if (stream->state == SRV_GRPC__READING) {
        set_end(stream, SRV_GRPC__ENDING, BASE_UNAVAILABLE, "the server is stopping");
        srv_grpc__stream_advance(stream);
    }
}

void srv_grpc__streams_drain(struct srv_grpc *server)
{
    base_assert(srv_loop_is_owner(server->loop));
    // None is gone before this returns: gRPC's events come to the loop by message.
    for (struct srv_grpc__stream *at = server->streams; at != NULL; at = at->next) {
        end_by_drain(at);
    }
}

/* ---- Requests ---- */

static void on_done(struct srv_request *request)
{
    struct srv_grpc__exchange *exchange =
        SRV_GRPC__CONTAINER(request, struct srv_grpc__exchange, infer.request);
    struct srv_grpc__stream *stream = exchange->stream;
    base_assert(exchange->running);
    exchange->running = false;
    if (stream->state >= SRV_GRPC__STOPPED) {
        srv_grpc__exchange_drop(exchange);
    } else {
        srv_grpc__stream_advance(stream);
    }
}

static void on_progress(struct srv_request *request)
{
    struct srv_grpc__exchange *exchange =
        SRV_GRPC__CONTAINER(request, struct srv_grpc__exchange, infer.request);
    struct srv_grpc__stream *stream = exchange->stream;
    if (stream->state < SRV_GRPC__STOPPED && exchange == stream->first) {
        srv_grpc__stream_advance(stream);
    }
}

/* The exchange may have been answered and be gone when this returns. */
static void start(struct srv_grpc__stream *stream, struct srv_grpc__exchange *exchange)
{
    struct srv_grpc *server = stream->call->server;
    server->counts.stream_requests++;
    append(stream, exchange);
    if (srv_grpc__infer_enter(server, &exchange->infer) == BASE_OK) {
        exchange->running = true;
        exchange->infer.request.progressed = on_progress;
        srv_request_start(server->core, &exchange->infer.request);
    } else {
        exchange->infer.request.error = exchange->infer.error;
        srv_grpc__stream_advance(stream);
    }
}

static void deliver_received(struct base_message *message)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message);
    struct srv_grpc__call *call = relay->call;
    struct srv_grpc__stream *stream = call->stream;
    struct srv_grpc__exchange *exchange = stream->reading;
    stream->reading = NULL;
    if (!relay->ok) {
        put_spare(stream, exchange);
        // The client has ended its half; or it is gone, which RECV_CLOSE reports as well.
        if (stream->state < SRV_GRPC__STOPPED) {
            set_end(stream, SRV_GRPC__ENDING, BASE_OK, "");
            srv_grpc__stream_advance(stream);
        }
    } else if (stream->state != SRV_GRPC__READING) {
        put_spare(stream, exchange);
    } else {
        start(stream, exchange);
        srv_grpc__stream_read(stream); // the relay may be a completion thread's again
    }
    srv_grpc__call_drop(call);
}

/* Completion thread. */
static void on_received(struct srv_grpc__event *event, bool ok)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(event, struct srv_grpc__relay, event);
    struct srv_grpc__call *call = relay->call;
    struct srv_grpc__stream *stream = call->stream;
    bool is_message = ok && stream->payload != NULL;
    if (is_message) {
        struct srv_grpc__infer *infer = &stream->reading->infer;
        srv_grpc__infer_take(infer, &stream->payload);
        srv_grpc__infer_decode(infer, call->deadline, on_done);
    }
    grpc_byte_buffer_destroy(stream->payload);
    stream->payload = NULL;
    srv_grpc__relay_happened(event, is_message);
}

void srv_grpc__stream_read(struct srv_grpc__stream *stream)
{
    struct srv_grpc__call *call = stream->call;
    if (stream->reading != NULL || stream->state != SRV_GRPC__READING ||
        stream->length >= call->server->options.stream_requests_max) {
        return;
    }
    stream->reading = take_spare(stream);
    if (stream->reading == NULL) {
        base_assert(stream->length > 0);
        return;
    }
    srv_grpc__relay_read(call, &stream->payload, &stream->received);
}

/* ---- Life ---- */

/* Whether the client has sent this as metadata. */
static bool has_metadata(const struct srv_grpc__call *call, const char *key, const char *value)
{
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_metadata *at = &call->metadata.metadata[i];
        if (grpc_slice_str_cmp(at->key, key) == 0 && grpc_slice_str_cmp(at->value, value) == 0) {
            return true;
        }
    }
    return false;
}

/* NULL: no memory. */
static struct srv_grpc__stream *create(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    struct srv_grpc__stream *stream = base_alloc(sizeof *stream);
    if (stream == NULL) {
        return NULL;
    }
    stream->call = call;
    stream->opened_ns = srv_loop_update(server->loop);
    stream->ends_at_error = has_metadata(call, "triton_grpc_error", "true");
    exchange_init(&stream->own, stream);
    put_spare(stream, &stream->own);
    srv_grpc__relay_init(&stream->received, call, deliver_received);
    stream->received.event.happened = on_received;
    srv_grpc__relay_init(&stream->closed, call, deliver_closed);
    srv_grpc__stream_answer_init(stream);
    stream->next = server->streams;
    if (stream->next != NULL) {
        stream->next->previous = stream;
    }
    server->streams = stream;
    call->stream = stream;
    return stream;
}

void srv_grpc__stream_open(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    if (!srv_grpc__relay_admit(call)) {
        return;
    }
    struct srv_grpc__stream *stream = create(call);
    if (stream == NULL) {
        srv_grpc__relay_refuse(call, BASE_RESOURCE_EXHAUSTED, "no memory left for another stream");
        return;
    }
    srv_grpc__relay_watch(call, &stream->closed);
    if (server->draining) {
        end_by_drain(stream);
    } else {
        srv_grpc__stream_read(stream);
    }
}

void srv_grpc__stream_close(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    struct srv_grpc__stream *stream = call->stream;
    server->counts.streams_open--;
    if (stream == NULL) {
        return;
    }
    base_assert(stream->state == SRV_GRPC__ENDED && stream->length == 0);
    base_assert(stream->reading == NULL && !stream->sending);
    *(stream->previous == NULL ? &server->streams : &stream->previous->next) = stream->next;
    if (stream->next != NULL) {
        stream->next->previous = stream->previous;
    }
    while (stream->spare != NULL) {
        struct srv_grpc__exchange *exchange = take_spare(stream);
        srv_grpc__infer_release(&exchange->infer);
        if (exchange != &stream->own) {
            base_free(exchange);
        }
    }
    base_free(stream);
    call->stream = NULL;
}
