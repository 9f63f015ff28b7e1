/* What is said over a connection: calls become streams, and what nghttp2 tells becomes their
 * answers.
 *
 * A stream's user data is its call, or NULL once the call has ended before the stream has: then all
 * that still comes is dropped. nghttp2 tells of the end of every stream that was submitted
 * (on_stream_close), so `streams` is exact. Costs: what nghttp2 allocates for a stream. */
#include "loadgen/http2_private.h"

#include "base/assert.h"
#include "loadgen/borrow.h"
#include "loadgen/options.h"

#include <stdio.h>
#include <string.h>

#define WINDOW_BYTES (64u << 20)

/* Of one answer, counted as RFC 9113, 6.5.2 does: names, values, and 32 for each. */
#define HEADERS_MAX 65536u

/* Stream ids end at 2^31 - 1; a connection is replaced shortly before. */
#define STREAM_ID_LAST 0x7ffffff0u

/* ---- Ends ------------------------------------------------------------------------------------ */

static void let_go(struct lg_http2 *h, struct lg_rpc *rpc)
{
    base_assert(rpc->state == LG_RPC_OPEN && rpc->connection == h);
    lg_rpc_list_remove(&h->calls, rpc);
    rpc->connection = NULL;
    lg_rpc_end(rpc, h->ended, h->now_ns);
}

/* Ends a call before its stream. */
static void drop(struct lg_http2 *h, struct lg_rpc *rpc)
{
    (void)nghttp2_session_set_stream_user_data(h->session, rpc->stream_id, NULL);
    // Fails only without memory; then the stream ends by itself, or with the connection.
    (void)nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, rpc->stream_id, NGHTTP2_CANCEL);
    let_go(h, rpc);
}

void lg_http2_cancel(struct lg_http2 *h, struct lg_rpc *rpc, uint64_t now_ns)
{
    h->now_ns = now_ns;
    drop(h, rpc);
}

void lg_http2_end_all(struct lg_http2 *h, uint64_t now_ns)
{
    h->now_ns = now_ns;
    while (h->calls.first != NULL) {
        struct lg_rpc *rpc = h->calls.first;
        lg_rpc_fail(rpc, LG_CODE_UNAVAILABLE, "%s", h->why);
        if (h->session != NULL) {
            (void)nghttp2_session_set_stream_user_data(h->session, rpc->stream_id, NULL);
        }
        let_go(h, rpc);
    }
}

/* ---- What nghttp2 tells ---------------------------------------------------------------------- */

static struct lg_rpc *call_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

// NOLINTNEXTLINE(readability-function-size): nghttp2 wants these parameters
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *user_data)
{
    (void)flags;
    struct lg_http2 *h = user_data;
    struct lg_rpc *rpc = call_of(session, frame->hd.stream_id);
    if (rpc == NULL) {
        return 0;
    }
    size_t bytes = name_length + value_length + 32;
    if (bytes > HEADERS_MAX - rpc->header_bytes) {
        // The rest would have to be decoded all the same, so the connection ends.
        (void)snprintf(h->why, sizeof(h->why), "more than %u bytes of headers", HEADERS_MAX);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    rpc->header_bytes += (uint32_t)bytes;
    lg_rpc_header(rpc, name, name_length, value, value_length);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t length, void *user_data)
{
    (void)flags;
    struct lg_http2 *h = user_data;
    struct lg_rpc *rpc = call_of(session, stream_id);
    if (rpc != NULL && !lg_rpc_data(rpc, bytes, length, h->now_ns)) {
        drop(h, rpc);
    }
    return 0;
}

static void take_goaway(struct lg_http2 *h, const nghttp2_goaway *goaway)
{
    char words[64];
    lg_wire_words(goaway->opaque_data, goaway->opaque_data_len, false, words, sizeof(words));
    (void)snprintf(h->why, sizeof(h->why), "the server ended the connection: %s %s",
                   nghttp2_http2_strerror(goaway->error_code), words);
    h->state = LG_HTTP2_DRAINING;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    struct lg_http2 *h = user_data;
    bool of_stream = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (frame->hd.type == NGHTTP2_SETTINGS) {
        h->state = h->state == LG_HTTP2_GREETING ? LG_HTTP2_READY : h->state;
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        take_goaway(h, &frame->goaway);
    } else if (of_stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        // The server may answer before it has the whole request (RFC 9113, 8.1).
        struct lg_rpc *rpc = call_of(session, frame->hd.stream_id);
        if (rpc != NULL && lg_rpc_bytes_left(rpc) > 0) {
            lg_rpc_judge(rpc);
            h->useful = true;
            drop(h, rpc);
        }
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *user_data)
{
    struct lg_http2 *h = user_data;
    base_assert(h->streams > 0);
    h->streams--;
    struct lg_rpc *rpc = call_of(session, stream_id);
    if (rpc == NULL) {
        return 0;
    }
    bool answered = error_code == NGHTTP2_NO_ERROR && rpc->http_status != 0;
    if (answered || rpc->has_code) {
        lg_rpc_judge(rpc);
    } else {
        lg_rpc_fail(rpc, lg_code_of_reset(error_code), "the stream was reset: %s",
                    nghttp2_http2_strerror(error_code));
    }
    h->useful = h->useful || rpc->has_code;
    let_go(h, rpc);
    return 0;
}

/* A GOAWAY of ours: the peer has broken the protocol. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
    (void)session;
    struct lg_http2 *h = user_data;
    if (frame->hd.type == NGHTTP2_GOAWAY && h->why[0] == '\0') {
        (void)snprintf(h->why, sizeof(h->why), "the server does not keep to HTTP/2: %s",
                       nghttp2_http2_strerror(frame->goaway.error_code));
    }
    return 0;
}

static int on_error(nghttp2_session *session, int code, const char *text, size_t length,
                    void *user_data)
{
    (void)session;
    struct lg_http2 *h = user_data;
    if (code == NGHTTP2_ERR_SETTINGS_EXPECTED) {
        lg_wire_words((const uint8_t *)text, length, false, h->why, sizeof(h->why));
    }
    return 0;
}

// NOLINTNEXTLINE(readability-function-size): nghttp2 wants these parameters
static ssize_t on_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t length,
                       uint32_t *flags, nghttp2_data_source *source, void *user_data)
{
    (void)source;
    (void)user_data;
    struct lg_rpc *rpc = call_of(session, stream_id);
    if (rpc == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // cancelled: its reset is on the way
    }
    uint64_t left = lg_rpc_bytes_left(rpc);
    size_t count = length < left ? length : (size_t)left;
    lg_rpc_send(rpc, out, count);
    if (count == left) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)count;
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

bool lg__http2_begin_session(struct lg_http2 *h)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_error_callback2(callbacks, on_error);
        nghttp2_option_set_no_closed_streams(option, 1);
        (void)nghttp2_session_client_new2(&h->session, callbacks, h, option);
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    return h->session != NULL &&
           nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof(settings) / sizeof(settings[0])) == 0 &&
           nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                 (int32_t)WINDOW_BYTES) == 0;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

bool lg_http2_has_room(const struct lg_http2 *h)
{
    return h->state == LG_HTTP2_READY &&
           h->streams < nghttp2_session_get_remote_settings(
                            h->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

/* A header whose text stays: nghttp2 need not copy it. */
static nghttp2_nv field(const char *name, const char *value)
{
    nghttp2_nv nv = {.name = (uint8_t *)lg_borrow(name),
                     .value = (uint8_t *)lg_borrow(value),
                     .namelen = strlen(name),
                     .valuelen = strlen(value),
                     .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
    return nv;
}

void lg_http2_start(struct lg_http2 *h, struct lg_rpc *rpc)
{
    base_assert(lg_http2_has_room(h));
    nghttp2_nv headers[] = {
        field(":method", "POST"),
        field(":scheme", h->tls != NULL ? "https" : "http"),
        field(":path", rpc->path),
        field(":authority", h->authority),
        field("te", "trailers"),
        field("content-type", "application/grpc"),
        field("user-agent", "cellbatch-load/" LG_VERSION),
        field("", ""),
        field("", ""),
        field("", ""),
    };
    size_t count = sizeof(headers) / sizeof(headers[0]) - 3;
    char timeout[LG_TIMEOUT_BYTES];
    if (rpc->authorization != NULL) {
        headers[count] = field("authorization", rpc->authorization);
        headers[count++].flags |= NGHTTP2_NV_FLAG_NO_INDEX; // and so in no table of the server's
    }
    if (rpc->is_stream) {
        headers[count++] = field("triton_grpc_error", "true");
    }
    if (rpc->timeout_ns > 0) {
        nghttp2_nv *header = &headers[count++];
        *header = field("grpc-timeout", "");
        header->valuelen = lg_wire_timeout(rpc->timeout_ns, timeout);
        header->value = (uint8_t *)timeout;
        // Copied; and never seen again, so not for the compression's table.
        header->flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX;
    }
    nghttp2_data_provider body = {.read_callback = on_read};
    int32_t id = nghttp2_submit_request(h->session, NULL, headers, count, &body, rpc);
    rpc->state = LG_RPC_OPEN;
    rpc->connection = h;
    rpc->stream_id = id;
    lg_rpc_list_add(&h->calls, rpc);
    if (id < 0) { // out of memory
        lg_rpc_fail(rpc, LG_CODE_RESOURCE_EXHAUSTED, "%s", nghttp2_strerror(id));
        let_go(h, rpc);
        return;
    }
    h->streams++;
    if ((uint32_t)id >= STREAM_ID_LAST) {
        h->state = LG_HTTP2_DRAINING;
    }
}
