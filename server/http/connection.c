/* A connection from accept to close.
 *
 * libmicrohttpd tells of its begin and end; in between we keep what it does not: how long each
 * phase of a request may last as a whole (its own time-out is reset by every byte, so a client that
 * sends one byte a second would never meet it), and whether the client has left while its request
 * runs (libmicrohttpd does not look at a suspended connection). For the latter the socket is
 * watched for its peer's end for as long as the connection lives, which costs no system call per
 * request. A client that shuts down only its sending half looks the same and is treated the same.
 * libmicrohttpd misses an end that comes together with the last bytes: it reads these and waits for
 * another event of the socket, which there is none of. So who has left and is still expected to
 * send is given the time to read what has come, and no more.
 *
 * A connection is ended from outside by shutting its socket down: libmicrohttpd reads the end and
 * cleans up in its own order. Time limits are looked at by one timer for all; a limit is kept to
 * within a quarter of the shortest. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/http/internal.h"

#include <string.h>
#include <sys/socket.h>

/* What a client that has left sent before is read by then. */
#define LEFT_MS 200u

static const char *const phase_names[] = {
    [SRV_HTTP__HEAD] = "head",       [SRV_HTTP__BODY] = "body", [SRV_HTTP__RUNNING] = "running",
    [SRV_HTTP__SENDING] = "sending", [SRV_HTTP__CUT] = "cut",
};

static void freed_cb(uv_handle_t *handle)
{
    struct srv_http__connection *connection = handle->data;
    struct srv_http *http = connection->listener->http;
    srv_http__exchange_release(&connection->exchange);
    srv_http__certificate_leave(connection->certificate);
    base_free(connection);
    srv_http__handle_closed(http);
}

/* Whether it is the client's turn. */
static bool is_to_send(const struct srv_http__connection *connection)
{
    return connection->phase == SRV_HTTP__HEAD || connection->phase == SRV_HTTP__BODY;
}

/* The peer will send no more; or a handshake may go on. */
static void watch_cb(uv_poll_t *watch, int status, int events)
{
    struct srv_http__connection *connection = watch->data;
    if (connection->waits) {
        srv_http__handshake_resume(connection);
        if (status == 0 && (events & UV_DISCONNECT) == 0) {
            srv_http__connection_watch(connection, 0);
            return;
        }
    }
    uv_poll_stop(watch); // an error of the socket is an end too
    connection->gone = true;
    srv_loop_update(connection->listener->http->loop);
    if (connection->phase == SRV_HTTP__RUNNING) {
        srv_http__exchange_cancel(connection, BASE_CANCELLED);
    } else if (is_to_send(connection)) {
        srv_http__connection_enter(connection, connection->phase);
    }
}

void srv_http__connection_watch(struct srv_http__connection *connection, int events)
{
    // What has been seen would be seen again at once.
    events |= connection->gone ? 0 : UV_DISCONNECT;
    int started = uv_poll_start(&connection->watch, events, watch_cb);
    base_assert(started == 0);
}

static void link_connection(struct srv_http__connection *connection)
{
    struct srv_http__listener *listener = connection->listener;
    connection->next = listener->first;
    if (listener->first != NULL) {
        listener->first->previous = connection;
    }
    listener->first = connection;
    listener->n_connections++;
}

static void unlink_connection(struct srv_http__connection *connection)
{
    struct srv_http__listener *listener = connection->listener;
    if (connection->previous != NULL) {
        connection->previous->next = connection->next;
    } else {
        listener->first = connection->next;
    }
    if (connection->next != NULL) {
        connection->next->previous = connection->previous;
    }
    listener->n_connections--;
}

void srv_http__connection_opened(struct srv_http__listener *listener, struct MHD_Connection *mhd,
                                 void **context)
{
    struct srv_http *http = listener->http;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct srv_http__connection *connection = base_alloc(sizeof *connection);
    base_assert(info != NULL);
    *context = NULL;
    if (connection == NULL ||
        uv_poll_init(&http->loop->uv, &connection->watch, info->connect_fd) != 0) {
        base_free(connection);
        (void)shutdown(info->connect_fd, SHUT_RDWR);
        return;
    }
    connection->listener = listener;
    connection->mhd = mhd;
    connection->fd = info->connect_fd;
    connection->watch.data = connection;
    http->handles++;
    srv_http__connection_watch(connection, 0);
    link_connection(connection);
    if (!listener->is_metrics) {
        http->counts.connections++;
    }
    srv_http__connection_enter(connection, SRV_HTTP__HEAD);
    connection->deadline_ns =
        base_deadline_after(http->loop->now_ns, (uint64_t)http->options.head_ms * BASE_NS_PER_MS);
    if (listener->certificate != NULL) {
        srv_http__handshake_begin(connection);
    }
    *context = connection;
}

void srv_http__connection_closed(void **context)
{
    struct srv_http__connection *connection = *context;
    if (connection == NULL) {
        return;
    }
    base_assert(!connection->exchange.open);
    *context = NULL;
    if (connection->shaking != NULL) {
        srv_http__handshake_end(connection);
    }
    unlink_connection(connection);
    uv_close(srv_uv_handle(&connection->watch), freed_cb);
    // At its limit of connections the library listens again only when it is run once more; and
    // somebody may wait for the last connection to close.
    srv_http__listener_wake(connection->listener);
}

void srv_http__connection_enter(struct srv_http__connection *connection, enum srv_http__phase phase)
{
    const struct srv_http *http = connection->listener->http;
    const uint32_t limits_ms[] = {
        [SRV_HTTP__HEAD] = http->options.idle_ms,
        [SRV_HTTP__BODY] = http->options.body_ms,
        [SRV_HTTP__SENDING] = http->options.send_ms,
    };
    connection->phase = phase;
    connection->deadline_ns = BASE_NEVER;
    if (phase != SRV_HTTP__RUNNING && phase != SRV_HTTP__CUT) {
        const bool has_left = connection->gone && is_to_send(connection);
        const uint64_t limit_ms =
            has_left && limits_ms[phase] > LEFT_MS ? LEFT_MS : limits_ms[phase];
        connection->deadline_ns =
            base_deadline_after(http->loop->now_ns, limit_ms * BASE_NS_PER_MS);
    }
}

void srv_http__connection_cut(struct srv_http__connection *connection)
{
    base_assert(connection->phase != SRV_HTTP__RUNNING);
    srv_http__connection_enter(connection, SRV_HTTP__CUT);
    (void)shutdown(connection->fd, SHUT_RDWR);
}

void srv_http__connections_sweep(struct srv_http__listener *listener, uint64_t now_ns)
{
    struct srv_http *http = listener->http;
    for (struct srv_http__connection *c = listener->first; c != NULL; c = c->next) {
        if (c->deadline_ns > now_ns) {
            continue;
        }
        const bool has_left = c->gone && is_to_send(c);
        log_debug("http", "connection closed for its %s phase=%s",
                  has_left ? "client's end" : "time limit", phase_names[c->phase]);
        if (!listener->is_metrics && !has_left) {
            http->counts.timed_out++;
        }
        srv_http__connection_cut(c);
    }
}
