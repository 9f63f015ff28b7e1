/* One request from its head to its answer.
 *
 *   begin (head) -> take_body ... -> finish: page or refusal -> answer
 *                                    infer: decode, start -> [suspended] -> done -> answer
 *                                    load, unload: likewise
 *                                    generate_stream: the answer may begin before done (events.c)
 *
 * libmicrohttpd calls the handler once with the head, once for each piece of the body, and once at
 * the end; an answer queued before the end would cost the connection, so refusals wait until the
 * body has been read and thrown away. Only a client that asks first (Expect: 100-continue), and one
 * whose body's length cannot be trusted, are refused at once. core may answer inside the start;
 * else the connection is suspended, and resumed by done. Everything the answer is made of lies in
 * the exchange and stays until it is sent, so nothing is copied. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/http/internal.h"
#include "server/metrics.h"
#include "server/status.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ARENA_CHUNK_BYTES    ((size_t)16 << 10)
#define INDEX_BODY_BYTES_MAX 4096u
#define ORDER_BODY_BYTES_MAX (64u << 10)  /* a parameter that is refused may be long */
#define BODY_RESERVE_BYTES   (256u << 10) /* for a body whose length was announced */

#define JSON_LENGTH_HEADER "Inference-Header-Content-Length"

/* What matters of a head. */
struct head {
    const char *encoding, *json_length, *length, *transfer, *expect, *authorization;
    uint32_t n_lengths, n_transfers, n_json_lengths, n_authorizations;
};

static enum MHD_Result head_cb(void *context, enum MHD_ValueKind kind, const char *key,
                               const char *value)
{
    (void)kind;
    struct head *head = context;
    value = value == NULL ? "" : value;
    if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        head->length = value;
        head->n_lengths++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->transfer = value;
        head->n_transfers++;
    } else if (strcasecmp(key, JSON_LENGTH_HEADER) == 0) {
        head->json_length = value;
        head->n_json_lengths++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_ENCODING) == 0) {
        head->encoding = value;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_EXPECT) == 0) {
        head->expect = value;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_AUTHORIZATION) == 0) {
        head->authorization = value;
        head->n_authorizations++;
    }
    return MHD_YES;
}

/* Digits only, at most 18 of them. */
static bool read_length(const char *text, uint64_t *out)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18 || text[n] != '\0') {
        return false;
    }
    *out = 0;
    for (; *text != '\0'; text++) {
        *out = *out * 10 + (uint64_t)(*text - '0');
    }
    return true;
}

/* Where the body ends must be beyond doubt, or a proxy before us might see another end. */
static bool is_framing_sound(const struct head *head)
{
    uint64_t length;
    return head->n_lengths <= 1 && head->n_transfers <= 1 &&
           (head->length == NULL ||
            (head->transfer == NULL && read_length(head->length, &length))) &&
           (head->transfer == NULL || strcasecmp(head->transfer, "chunked") == 0);
}

static void refuse(struct srv_http__exchange *exchange, int code, enum base_status status,
                   const char *message)
{
    exchange->code = code;
    (void)base_fail(&exchange->error, status, "%s", message);
}

static void refuse_too_large(struct srv_http__connection *connection, uint64_t limit)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    exchange->code = 413;
    (void)base_fail(&exchange->error, BASE_RESOURCE_EXHAUSTED,
                    "the body is larger than the limit of %llu bytes%s", (unsigned long long)limit,
                    exchange->route.page == SRV_HTTP_LOAD
                        ? "; a model is loaded as it lies in the repository, and not from here"
                        : "");
}

static uint64_t body_limit(const struct srv_http__connection *connection)
{
    enum srv_http_page page = connection->exchange.route.page;
    if (srv_http_is_inference(page)) {
        return connection->listener->http->options.body_bytes_max;
    }
    return srv_http_is_order(page) ? ORDER_BODY_BYTES_MAX : INDEX_BODY_BYTES_MAX;
}

/* Whether the client has sent a token that allows this page. */
static void check_access(struct srv_http__connection *connection, const struct head *head)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    const enum srv_http_page page = exchange->route.page;
    if (connection->listener->is_metrics || page == SRV_HTTP_LIVE || page == SRV_HTTP_READY) {
        return;
    }
    const char *header = head->n_authorizations == 1 ? head->authorization : NULL;
    const enum base_status status =
        srv_access_check(connection->listener->http->options.access,
                         srv_http_is_order(page) ? SRV_ACCESS_CONTROL : SRV_ACCESS_USE, header,
                         header == NULL ? 0 : strlen(header), &exchange->error);
    exchange->code = status == BASE_OK ? 0 : srv_status_http(status);
}

/* Looks at the head of a POST. */
static void check_head(struct srv_http__connection *connection, const struct head *head)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    uint64_t length = 0;
    exchange->json_bytes = UINT64_MAX;
    if (head->length != NULL && read_length(head->length, &length) &&
        length > body_limit(connection)) {
        refuse_too_large(connection, body_limit(connection));
    } else if (head->encoding != NULL && strcasecmp(head->encoding, "identity") != 0) {
        refuse(exchange, 415, BASE_INVALID_ARGUMENT, "compressed bodies are not accepted");
    } else if (head->n_json_lengths > 1 ||
               (head->json_length != NULL &&
                !read_length(head->json_length, &exchange->json_bytes))) {
        refuse(exchange, 400, BASE_INVALID_ARGUMENT,
               JSON_LENGTH_HEADER " has to be one whole number");
    } else if (length > 0) {
        // Only address space: pages come with the bytes.
        (void)base_buf_grow(&exchange->body,
                            (size_t)(length < BODY_RESERVE_BYTES ? length : BODY_RESERVE_BYTES));
        base_buf_clear(&exchange->body);
    }
}

static enum MHD_Result begin(struct srv_http__connection *connection, const char *url,
                             const char *method)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__exchange *exchange = &connection->exchange;
    base_assert(!exchange->open);
    exchange->open = true;
    http->counts.begun += connection->listener->is_metrics ? 0 : 1;
    exchange->running = false;
    exchange->suspended = false;
    base_buf_clear(&exchange->json);
    base_buf_clear(&exchange->body);
    exchange->json.limit = (size_t)http->options.response_bytes_max;
    exchange->body.limit = (size_t)http->options.body_bytes_max;
    srv_http__connection_enter(connection, SRV_HTTP__BODY);

    struct head head = {0};
    (void)MHD_get_connection_values(connection->mhd, MHD_HEADER_KIND, head_cb, &head);
    int code = srv_http_route_read(method, url, connection->listener->is_metrics, &exchange->route,
                                   &exchange->allow, &exchange->error);
    exchange->code = code == 200 ? 0 : code;
    if (!is_framing_sound(&head)) {
        refuse(exchange, 400, BASE_INVALID_ARGUMENT,
               "Content-Length and Transfer-Encoding do not say where the body ends");
        return srv_http__exchange_refuse(connection);
    }
    if (exchange->code == 0) {
        check_access(connection, &head);
    }
    if (exchange->code == 0 && srv_http_takes_body(exchange->route.page)) {
        check_head(connection, &head);
    }
    return exchange->code != 0 && head.expect != NULL ? srv_http__exchange_refuse(connection)
                                                      : MHD_YES;
}

static void take_body(struct srv_http__connection *connection, const char *data, size_t bytes)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__exchange *exchange = &connection->exchange;
    if (exchange->code != 0 || !srv_http_takes_body(exchange->route.page)) {
        return; // thrown away
    }
    if (bytes > body_limit(connection) - exchange->body.length) {
        refuse_too_large(connection, body_limit(connection));
    } else if (bytes > http->options.bodies_bytes_max - http->counts.bodies_bytes) {
        refuse(exchange, srv_status_http(http->options.busy), http->options.busy,
               "the server holds too many request bodies; try again later");
    } else {
        base_buf_add(&exchange->body, data, bytes);
        http->counts.bodies_bytes += exchange->body.failed ? 0 : bytes;
        if (exchange->body.failed) {
            refuse(exchange, srv_status_http(http->options.busy), http->options.busy,
                   "the server is out of memory; try again later");
        }
    }
    if (exchange->code != 0) {
        http->counts.bodies_bytes -= exchange->body.length;
        base_buf_release(&exchange->body);
    }
}

/* ---- Answers ---- */

static void add_header(struct MHD_Response *response, const char *key, const char *value)
{
    enum MHD_Result added = MHD_add_response_header(response, key, value);
    base_assert(added == MHD_YES);
}

/* Copies small parts behind the JSON: one piece costs libmicrohttpd half as much as several. false
 * when they are large, or find no room; json is then as it was. */
static bool join_parts(struct base_buf *json, const struct srv_http_answer *answer)
{
    size_t json_bytes = json->length;
    size_t bytes = json_bytes;
    for (uint32_t i = 0; i < answer->n_parts && bytes <= SRV_HTTP__KEEP_BYTES; i++) {
        bytes += answer->parts[i].bytes;
    }
    if (bytes > SRV_HTTP__KEEP_BYTES) {
        return answer->n_parts == 0;
    }
    for (uint32_t i = 0; i < answer->n_parts; i++) {
        base_buf_add(json, answer->parts[i].data, answer->parts[i].bytes);
    }
    if (json->failed) {
        json->failed = false;
        json->length = json_bytes;
        return false;
    }
    return true;
}

/* Queues what is in exchange->json, and the parts behind it. */
static enum MHD_Result send_answer(struct srv_http__connection *connection,
                                   const char *content_type, const struct srv_http_answer *answer)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    struct MHD_IoVec pieces[CELL_TENSORS_MAX + 1];
    size_t json_bytes = exchange->json.length;
    unsigned n = answer == NULL || join_parts(&exchange->json, answer) ? 0 : answer->n_parts;
    for (uint32_t i = 0; i < n; i++) {
        pieces[i + 1] = (struct MHD_IoVec){answer->parts[i].data, answer->parts[i].bytes};
    }
    pieces[0] = (struct MHD_IoVec){exchange->json.data, exchange->json.length};
    n++;
    struct MHD_Response *response =
        n == 1 ? MHD_create_response_from_buffer(exchange->json.length, exchange->json.data,
                                                 MHD_RESPMEM_PERSISTENT)
               : MHD_create_response_from_iovec(pieces, n, NULL, NULL);
    if (response == NULL) {
        return MHD_NO;
    }
    if (answer != NULL && answer->binary) {
        char length[24];
        (void)snprintf(length, sizeof length, "%zu", json_bytes);
        add_header(response, JSON_LENGTH_HEADER, length);
    }
    return srv_http__exchange_send(connection, content_type, response);
}

enum MHD_Result srv_http__exchange_send(struct srv_http__connection *connection,
                                        const char *content_type, struct MHD_Response *response)
{
    struct srv_http *http = connection->listener->http;
    const struct srv_http__exchange *exchange = &connection->exchange;
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (exchange->code == 405) {
        add_header(response, MHD_HTTP_HEADER_ALLOW, exchange->allow);
    }
    if (exchange->code == 401) {
        add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    if (exchange->code == 429 || exchange->code == 503) {
        add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    if (http->draining || srv_core_is_draining(http->core)) {
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    srv_http__connection_enter(connection, SRV_HTTP__SENDING);
    if (!connection->listener->is_metrics) {
        http->responses[exchange->code / 100]++;
    }
    enum MHD_Result queued =
        MHD_queue_response(connection->mhd, (unsigned)exchange->code, response);
    MHD_destroy_response(response);
    return queued;
}

enum MHD_Result srv_http__exchange_refuse(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    base_buf_clear(&exchange->json);
    exchange->json.limit = SRV_HTTP__KEEP_BYTES; // room for any message
    srv_http_encode_error(&exchange->json, exchange->error.message);
    return exchange->json.failed ? MHD_NO : send_answer(connection, "application/json", NULL);
}

static enum MHD_Result answer_page(struct srv_http__connection *connection)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__exchange *exchange = &connection->exchange;
    bool ready_only = false;
    if (exchange->route.page == SRV_HTTP_INDEX &&
        srv_http_decode_index(&http->codec, (const uint8_t *)exchange->body.data,
                              exchange->body.length, &ready_only, &exchange->error) != BASE_OK) {
        exchange->code = 400;
        return srv_http__exchange_refuse(connection);
    }
    exchange->code =
        srv_http__page(http, &exchange->route, ready_only, &exchange->json, &exchange->error);
    if (exchange->json.failed) {
        refuse(exchange, 500, BASE_INTERNAL, "the answer does not fit its memory");
    }
    if (exchange->error.status != BASE_OK) {
        return srv_http__exchange_refuse(connection);
    }
    return send_answer(connection,
                       exchange->route.page == SRV_HTTP_METRICS ? SRV_METRICS_CONTENT_TYPE
                                                                : "application/json",
                       NULL);
}

/* core is done with the order, or nobody waits for it any more. */
static enum MHD_Result answer_order(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    exchange->code = srv_status_http(exchange->error.status);
    if (exchange->error.status != BASE_OK) {
        return srv_http__exchange_refuse(connection);
    }
    base_buf_text(&exchange->json, "{}");
    return exchange->json.failed ? MHD_NO : send_answer(connection, "application/json", NULL);
}

/* core is done with the request. */
static enum MHD_Result answer_infer(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    const struct srv_request *request = &exchange->request;
    exchange->code = srv_status_http(request->error.status);
    if (request->error.status != BASE_OK) {
        exchange->error = request->error;
        return srv_http__exchange_refuse(connection);
    }
    struct srv_http_answer answer = {0};
    if (exchange->route.page == SRV_HTTP_INFER) {
        srv_http_encode(request, &exchange->form, &exchange->json, &answer);
    } else {
        srv_http_encode_generate(request, &exchange->json);
    }
    if (exchange->json.failed) {
        exchange->code = 400;
        (void)base_fail(&exchange->error, BASE_FAILED_PRECONDITION,
                        "the answer's JSON finds no room, its limit is %zu bytes;"
                        " ask for binary outputs",
                        exchange->json.limit);
        return srv_http__exchange_refuse(connection);
    }
    return send_answer(connection, answer.binary ? "application/octet-stream" : "application/json",
                       &answer);
}

/* What was RUNNING has ended. */
static enum MHD_Result answer_ended(struct srv_http__connection *connection)
{
    base_assert(!connection->exchange.running);
    if (connection->gone) {
        return MHD_NO; // nobody reads it
    }
    if (connection->exchange.events != NULL) {
        return srv_http__events_answer(connection);
    }
    return srv_http_is_order(connection->exchange.route.page) ? answer_order(connection)
                                                              : answer_infer(connection);
}

/* Answers when what has been started has ended: now, or when resume() says so. */
static enum MHD_Result answer_when_ended(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    if (!exchange->running) {
        return answer_ended(connection);
    }
    srv_http__exchange_suspend(connection);
    return MHD_YES;
}

void srv_http__exchange_suspend(struct srv_http__connection *connection)
{
    connection->exchange.suspended = true;
    MHD_suspend_connection(connection->mhd);
}

void srv_http__exchange_resume(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    if (exchange->suspended) {
        exchange->suspended = false;
        MHD_resume_connection(connection->mhd);
        // A resume takes effect in the library's next run.
        srv_http__listener_wake(connection->listener);
    }
}

static void resume(struct srv_http__connection *connection)
{
    base_assert(connection->exchange.running);
    connection->exchange.running = false;
    srv_http__exchange_resume(connection);
}

/* ---- Inference ---- */

static struct srv_http__connection *connection_of(struct srv_request *request)
{
    char *at = (char *)request;
    return (void *)(at - offsetof(struct srv_http__connection, exchange.request));
}

static void done_cb(struct srv_request *request)
{
    resume(connection_of(request));
}

/* NULL: it is not there, or cannot be asked; core says so. */
static const struct srv_signature *signature_of(const struct srv_http__connection *connection)
{
    const struct srv_http_route *route = &connection->exchange.route;
    const struct srv_model *model = NULL;
    struct base_error error;
    return srv_core_find_model(connection->listener->http->core, route->model, route->version,
                               &model, &error) == BASE_OK
               ? model->signature
               : NULL;
}

bool srv_http__exchange_decode(struct srv_http__connection *connection, struct srv_request *request)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__exchange *exchange = &connection->exchange;
    struct srv_http_body body = {(const uint8_t *)exchange->body.data, exchange->body.length,
                                 exchange->body.length};
    if (exchange->json_bytes != UINT64_MAX) {
        if (exchange->json_bytes > body.bytes) {
            exchange->code = 400;
            (void)base_fail(&exchange->error, BASE_INVALID_ARGUMENT,
                            JSON_LENGTH_HEADER " is %llu, but the body has %zu bytes",
                            (unsigned long long)exchange->json_bytes, body.bytes);
            return false;
        }
        body.json_bytes = (size_t)exchange->json_bytes;
    }
    enum base_status status =
        exchange->route.page == SRV_HTTP_INFER
            ? srv_http_decode(&http->codec, &body, request, &exchange->form, &exchange->error)
            : srv_http_decode_generate(&http->codec, &body, signature_of(connection), request,
                                       &exchange->error);
    if (status != BASE_OK) {
        exchange->code = status == BASE_RESOURCE_EXHAUSTED ? 413 : srv_status_http(status);
    }
    return status == BASE_OK;
}

void srv_http__exchange_prepare(struct srv_http__connection *connection,
                                struct srv_request *request,
                                void (*done)(struct srv_request *request))
{
    const struct srv_http *http = connection->listener->http;
    const struct srv_http_route *route = &connection->exchange.route;
    struct base_arena arena = request->arena;
    if (arena.chunk_bytes == 0) {
        base_arena_init(&arena, ARENA_CHUNK_BYTES, (size_t)http->options.request_bytes_max);
    }
    *request = (struct srv_request){.arena = arena,
                                    .protocol = SRV_PROTOCOL_HTTP,
                                    .model_name = route->model,
                                    .model_version = route->version,
                                    .id = "",
                                    .deadline_ns = BASE_NEVER,
                                    .done = done};
    request->times.arrived_ns = srv_loop_update(http->loop);
}

static enum MHD_Result run(struct srv_http__connection *connection)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__exchange *exchange = &connection->exchange;
    if (connection->gone) {
        return MHD_NO;
    }
    if (exchange->route.page == SRV_HTTP_GENERATE_STREAM) {
        return srv_http__events_begin(connection);
    }
    srv_http__exchange_prepare(connection, &exchange->request, done_cb);
    if (!srv_http__exchange_decode(connection, &exchange->request)) {
        srv_core_count_refused(http->core, SRV_PROTOCOL_HTTP, exchange->error.status);
        return srv_http__exchange_refuse(connection);
    }
    srv_http__connection_enter(connection, SRV_HTTP__RUNNING);
    exchange->running = true;
    srv_request_start(http->core, &exchange->request);
    return answer_when_ended(connection);
}

/* ---- Loads and unloads ---- */

static void ended_cb(struct srv_order_wait *wait, const struct base_error *error)
{
    char *at = (char *)wait;
    struct srv_http__connection *connection =
        (void *)(at - offsetof(struct srv_http__connection, exchange.order));
    connection->exchange.error = *error;
    resume(connection);
}

static enum MHD_Result run_order(struct srv_http__connection *connection)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__exchange *exchange = &connection->exchange;
    enum srv_control_kind kind =
        exchange->route.page == SRV_HTTP_LOAD ? SRV_CONTROL_LOAD : SRV_CONTROL_UNLOAD;
    if (connection->gone) {
        return MHD_NO;
    }
    if (srv_http_decode_order(&http->codec, (const uint8_t *)exchange->body.data,
                              exchange->body.length, kind, &exchange->error) != BASE_OK) {
        exchange->code = 400;
        return srv_http__exchange_refuse(connection);
    }
    srv_loop_update(http->loop);
    srv_http__connection_enter(connection, SRV_HTTP__RUNNING);
    exchange->running = true;
    exchange->order.done = ended_cb;
    srv_orders_begin(&http->orders, kind, exchange->route.model, &exchange->order);
    return answer_when_ended(connection);
}

/* ---- The request is complete, or what it started has ended ---- */

static enum MHD_Result finish(struct srv_http__connection *connection)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    if (connection->phase == SRV_HTTP__RUNNING) {
        return answer_ended(connection);
    }
    if (exchange->code != 0) {
        if (srv_http_is_inference(exchange->route.page) && exchange->allow == NULL) {
            srv_core_count_refused(connection->listener->http->core, SRV_PROTOCOL_HTTP,
                                   exchange->error.status);
        }
        return srv_http__exchange_refuse(connection);
    }
    exchange->error.status = BASE_OK;
    if (srv_http_is_order(exchange->route.page)) {
        return run_order(connection);
    }
    return srv_http_is_inference(exchange->route.page) ? run(connection) : answer_page(connection);
}

// NOLINTNEXTLINE(readability-function-size): libmicrohttpd wants these parameters
enum MHD_Result srv_http__handle(void *cls, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_bytes, void **context)
{
    (void)cls;
    (void)version;
    struct srv_http__connection *connection = *context;
    if (connection == NULL) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        connection = info == NULL ? NULL : info->socket_context;
        if (connection == NULL || connection->phase == SRV_HTTP__CUT) {
            return MHD_NO;
        }
        *context = connection;
        return begin(connection, url, method);
    }
    if (connection->phase == SRV_HTTP__CUT) {
        return MHD_NO;
    }
    if (*data_bytes > 0) {
        take_body(connection, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    return finish(connection);
}

/* ---- The end ---- */

void srv_http__exchange_end(struct srv_http__connection *connection, bool sent)
{
    struct srv_http *http = connection->listener->http;
    struct srv_http__exchange *exchange = &connection->exchange;
    base_assert(exchange->open && !exchange->running);
    exchange->open = false;
    if (exchange->events != NULL) {
        srv_http__events_end(exchange->events);
        exchange->events = NULL;
    }
    if (!connection->listener->is_metrics) {
        http->counts.answered += sent ? 1 : 0;
        http->counts.lost += sent ? 0 : 1;
    }
    http->counts.bodies_bytes -= exchange->body.length;
    base_buf_clear(&exchange->body);
    if (exchange->body.capacity > SRV_HTTP__KEEP_BYTES) {
        base_buf_release(&exchange->body);
    }
    if (exchange->json.capacity > SRV_HTTP__KEEP_BYTES) {
        base_buf_release(&exchange->json);
    }
    if (exchange->request.arena.chunk_bytes > 0) {
        base_arena_reset(&exchange->request.arena);
    }
    if (connection->phase != SRV_HTTP__CUT) {
        srv_http__connection_enter(connection, SRV_HTTP__HEAD);
        if (http->draining && !connection->listener->is_metrics) {
            srv_http__connection_cut(connection);
        }
    }
}

void srv_http__exchange_cancel(struct srv_http__connection *connection, enum base_status why)
{
    struct srv_http__exchange *exchange = &connection->exchange;
    if (exchange->events != NULL) {
        srv_http__events_cancel(exchange->events, why);
        return;
    }
    if (!exchange->running) {
        return;
    }
    if (srv_http_is_order(exchange->route.page)) {
        srv_order_leave(&exchange->order);
        (void)base_fail(&exchange->error, why, "the server is stopping");
        resume(connection);
    } else {
        srv_request_cancel(connection->listener->http->core, &exchange->request, why);
    }
}

void srv_http__exchange_release(struct srv_http__exchange *exchange)
{
    base_buf_release(&exchange->body);
    base_buf_release(&exchange->json);
    base_arena_release(&exchange->request.arena);
}
