/* An answer that goes in parts, as server-sent events: each part one event, `data: ` and the JSON
 * that generate answers in, then the end with what is left.
 *
 *   begin: decode, start -> [suspended] -> progressed or done -> answer: the first event
 *   read_cb: an event; or [suspended] -> progressed or done -> read_cb ...; or the end
 *
 * What fails before the first part is answered as elsewhere, by a code and an error; behind it by
 * an event with an error, the last one.
 *
 * A part is taken when the one before has left, so a client that is slow gets larger ones. While
 * there is nothing to send, the connection is suspended and counts as RUNNING: then a client that
 * leaves is noticed, and its request cancelled. While there is, libmicrohttpd may end the
 * connection at any time, though core has the request: so this lives apart from the connection, and
 * goes when both have ended. Loop thread. */
#include "base/assert.h"
#include "base/mem.h"
#include "server/http/internal.h"
#include "server/status.h"

#include <string.h>

#define CONTENT_TYPE "text/event-stream; charset=utf-8"

/* What libmicrohttpd asks for at a time. */
#define BLOCK_BYTES ((size_t)16 << 10)

struct srv_http__events {
    struct srv_http *http;
    struct srv_http__connection *connection; /* NULL: it has ended */
    struct srv_request request;
    bool running;         /* core has the request */
    bool is_last;         /* the event that is being sent */
    struct base_buf text; /* of the event, */
    size_t sent;          /* of which so much has been handed on */
};

static struct srv_http__events *events_of(struct srv_request *request)
{
    return (void *)((char *)request - offsetof(struct srv_http__events, request));
}

static void release(struct srv_http__events *events)
{
    struct srv_http *http = events->http;
    base_assert(!events->running && events->connection == NULL);
    base_buf_release(&events->text);
    base_arena_release(&events->request.arena);
    base_free(events);
    srv_http__handle_closed(http);
}

/* ---- What core says ---- */

static void progressed_cb(struct srv_request *request)
{
    struct srv_http__events *events = events_of(request);
    if (events->connection != NULL) {
        srv_http__exchange_resume(events->connection);
    }
}

static void done_cb(struct srv_request *request)
{
    struct srv_http__events *events = events_of(request);
    base_assert(events->running);
    events->running = false;
    if (events->connection != NULL) {
        srv_http__exchange_resume(events->connection);
    } else {
        release(events);
    }
}

/* ---- Events ---- */

/* In place of the event that could not be written, an error, with which the answer ends. */
static void write_error(struct srv_http__events *events, const char *message)
{
    base_buf_clear(&events->text);
    events->is_last = true;
    base_buf_text(&events->text, "data: ");
    srv_http_encode_error(&events->text, message);
    base_buf_text(&events->text, "\n\n");
}

/* The next event; false: there is none yet. JSON has no line breaks, which would end an event. */
static bool write_event(struct srv_http__events *events)
{
    struct srv_request *request = &events->request;
    base_assert(!events->is_last);
    if (events->running && !srv_request_take_part(request)) {
        return false;
    }
    events->is_last = !events->running;
    events->sent = 0;
    if (request->error.status != BASE_OK) {
        write_error(events, request->error.message);
        return true;
    }
    base_buf_clear(&events->text);
    base_buf_text(&events->text, "data: ");
    srv_http_encode_generate(request, &events->text);
    base_buf_text(&events->text, "\n\n");
    if (events->text.failed) {
        write_error(events, "the answer's JSON finds no room");
    }
    return true;
}

/* libmicrohttpd wants more of the body. */
static ssize_t read_cb(void *context, uint64_t position, char *to, size_t bytes_max)
{
    (void)position;
    struct srv_http__events *events = context;
    struct srv_http__connection *connection = events->connection;
    base_assert(connection != NULL);
    if (events->sent == events->text.length) {
        if (events->is_last) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        }
        if (connection->gone || connection->phase == SRV_HTTP__CUT) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (!write_event(events)) {
            srv_http__connection_enter(connection, SRV_HTTP__RUNNING);
            srv_http__exchange_suspend(connection);
            return 0;
        }
    }
    const size_t left = events->text.length - events->sent;
    const size_t bytes = left < bytes_max ? left : bytes_max;
    memcpy(to, events->text.data + events->sent, bytes);
    events->sent += bytes;
    if (connection->phase != SRV_HTTP__CUT) {
        srv_http__connection_enter(connection, SRV_HTTP__SENDING);
    }
    return (ssize_t)bytes;
}

/* ---- The answer ---- */

enum MHD_Result srv_http__events_answer(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    struct srv_http__events *events = exchange->events;
    if (!events->running && events->request.error.status != BASE_OK) {
        exchange->error = events->request.error;
        exchange->code = srv_status_http(exchange->error.status);
        return srv_http__exchange_refuse(connection);
    }
    if (!write_event(events)) {
        srv_http__exchange_suspend(connection);
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_cb, events, NULL);
    if (response == NULL) {
        return MHD_NO;
    }
    exchange->code = 200;
    return srv_http__exchange_send(connection, CONTENT_TYPE, response);
}

/* NULL: no memory. */
static struct srv_http__events *create(struct srv_http__connection *connection)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__events *events = base_alloc(sizeof *events);
    if (events == NULL) {
        return NULL;
    }
    events->http = http;
    events->connection = connection;
    base_buf_init(&events->text, (size_t)http->options.response_bytes_max);
    http->handles++;
    connection->exchange.events = events;
    return events;
}

static enum MHD_Result refuse_for_memory(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    const struct srv_http *http = connection->listener->http;
    exchange->code = srv_status_http(http->options.busy);
    (void)base_fail(&exchange->error, http->options.busy,
                    "the server is out of memory; try again later");
    srv_core_count_refused(http->core, SRV_PROTOCOL_HTTP, exchange->error.status);
    return srv_http__exchange_refuse(connection);
}

/* The request may outlive the connection, whose they are. */
static bool keep_names(struct srv_request *request)
{
    struct base_arena *arena = &request->arena;
    request->model_name = base_arena_text(arena, request->model_name, strlen(request->model_name));
    request->model_version =
        base_arena_text(arena, request->model_version, strlen(request->model_version));
    return request->model_name != NULL && request->model_version != NULL;
}

enum MHD_Result srv_http__events_begin(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    struct srv_http *http = connection->listener->http;
    struct srv_http__events *events = create(connection);
    if (events == NULL) {
        return refuse_for_memory(connection);
    }
    struct srv_request *request = &events->request;
    srv_http__exchange_prepare(connection, request, done_cb);
    request->in_parts = true; // unless the body says otherwise
    if (!keep_names(request)) {
        return refuse_for_memory(connection);
    }
    if (!srv_http__exchange_decode(connection, request)) {
        srv_core_count_refused(http->core, SRV_PROTOCOL_HTTP, exchange->error.status);
        return srv_http__exchange_refuse(connection);
    }
    request->progressed = progressed_cb;
    srv_http__connection_enter(connection, SRV_HTTP__RUNNING);
    events->running = true;
    srv_request_start(http->core, request);
    if (!events->running) {
        return srv_http__events_answer(connection);
    }
    srv_http__exchange_suspend(connection);
    return MHD_YES;
}

/* ---- The end ---- */

void srv_http__events_cancel(struct srv_http__events *events, enum base_status why)
{
    if (events->running) {
        srv_request_cancel(events->http->core, &events->request, why);
    }
}

void srv_http__events_end(struct srv_http__events *events)
{
    events->connection = NULL;
    if (events->running) {
        srv_request_cancel(events->http->core, &events->request, BASE_CANCELLED);
    } else {
        release(events);
    }
}
