/* libmicrohttpd as a guest of the libuv loop.
 *
 * The daemon has an epoll descriptor of its own, which the loop watches like any other; when it is
 * readable, MHD_run() does what is due. What the descriptor does not show has to be asked for: data
 * already read (MHD_get_timeout() says 0) and resumed connections. Then `run_wanted` is set, the
 * idle handle keeps the loop from sleeping, and the prepare handle runs the daemon before the loop
 * would. One MHD_run() reads one buffer of each connection, so a large body never holds the loop.
 * libmicrohttpd's own time-out (inactivity) is not used; connection.c measures whole times.
 *
 * The socket is opened here, not by libmicrohttpd, so that an error can say what is wrong, and
 * without SO_REUSEPORT, so that a second server cannot take half of the connections. */
#include "base/assert.h"
#include "server/http/internal.h"
#include "server/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 512

/* Read buffer, head and answer's head of one connection: bounds the head. */
#define CONNECTION_MEMORY_BYTES ((size_t)32 << 10)

/* GnuTLS's own choice but for the versions; without session tickets, so that every connection's
 * certificate is looked at. */
#define TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Of the metrics port: scrapers and people. */
#define METRICS_CONNECTIONS_MAX 64u

static const char *name_of(const struct srv_http__listener *listener)
{
    return listener->is_metrics ? "metrics" : "http";
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* An IPv4 or IPv6 address as text; the length of *out, or 0. */
static socklen_t read_address(const char *text, uint16_t port, union address *out)
{
    memset(out, 0, sizeof *out);
    if (uv_ip4_addr(text, port, &out->v4) == 0) {
        return sizeof out->v4;
    }
    return uv_ip6_addr(text, port, &out->v6) == 0 ? sizeof out->v6 : 0;
}

static uint16_t port_of(int fd)
{
    union address address;
    socklen_t length = sizeof address;
    memset(&address, 0, sizeof address);
    if (getsockname(fd, &address.any, &length) != 0) {
        return 0;
    }
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

enum base_status srv_http__listener_open(struct srv_http__listener *listener, const char *address,
                                         uint16_t port, struct base_error *error)
{
    union address to;
    socklen_t length = read_address(address, port, &to);
    const char *name = name_of(listener);
    if (length == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: '%s' is not an IPv4 or IPv6 address",
                         name, address);
    }
    int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: no socket: %s", name,
                         uv_strerror(-errno));
    }
    // A restarted server need not wait for the old one's closed connections.
    int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, &to.any, length) != 0 || listen(fd, BACKLOG) != 0) {
        int code = errno;
        (void)close(fd);
        return base_fail(error, BASE_UNAVAILABLE, "%s: cannot listen on %s port %u: %s", name,
                         address, port, uv_strerror(-code));
    }
    listener->fd = fd;
    listener->port = port_of(fd);
    return BASE_OK;
}

/* Names are decoded by route.c, after the path is cut. */
static size_t keep_escapes(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strlen(text);
}

static void connection_cb(void *context, struct MHD_Connection *mhd, void **connection,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        srv_http__connection_opened(context, mhd, connection);
    } else {
        srv_http__connection_closed(connection);
    }
}

static void completed_cb(void *context, struct MHD_Connection *mhd, void **exchange,
                         enum MHD_RequestTerminationCode why)
{
    (void)context;
    (void)mhd;
    if (*exchange != NULL) {
        srv_http__exchange_end(*exchange, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
        *exchange = NULL;
    }
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    (void)events;
    base_assert(status == 0);
    struct srv_http__listener *listener = poll->data;
    srv_loop_update(listener->http->loop);
    srv_http__listener_run(listener);
}

static void poll_closed_cb(uv_handle_t *handle)
{
    struct srv_http__listener *listener = handle->data;
    srv_http__handle_closed(listener->http);
}

static struct MHD_Daemon *start_daemon(struct srv_http__listener *listener,
                                       const struct srv_tls *tls)
{
    const struct srv_http *http = listener->http;
    unsigned connections_max =
        listener->is_metrics ? METRICS_CONNECTIONS_MAX : http->options.connections_max;
    char versions[] = TLS_VERSIONS;
    const struct MHD_OptionItem none = {MHD_OPTION_END, 0, NULL};
    struct MHD_OptionItem secure[4] = {none, none, none, none};
    if (tls != NULL) { // only read; it does not start without them, but see certificate.c
        secure[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, tls->certificate};
        secure[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key};
        secure[2] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, versions};
    }
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (tls != NULL ? MHD_USE_TLS : 0u);
    return MHD_start_daemon(flags, 0, NULL, NULL, srv_http__handle, listener,
                            MHD_OPTION_LISTEN_SOCKET, listener->fd,                      //
                            MHD_OPTION_CONNECTION_LIMIT, connections_max,                //
                            MHD_OPTION_CONNECTION_TIMEOUT, 0u,                           //
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_BYTES, //
                            MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,            //
                            MHD_OPTION_NOTIFY_CONNECTION, connection_cb, listener,       //
                            MHD_OPTION_NOTIFY_COMPLETED, completed_cb, NULL,             //
                            MHD_OPTION_ARRAY, secure, MHD_OPTION_END);
}

enum base_status srv_http__listener_start(struct srv_http__listener *listener,
                                          const struct srv_tls *tls, struct base_error *error)
{
    if (tls != NULL && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
        return base_fail(error, BASE_UNIMPLEMENTED, "%s: the HTTP library was built without TLS",
                         name_of(listener));
    }
    if (tls != NULL) {
        BASE_TRY(srv_http__certificate_create(tls, &listener->certificate, error));
    }
    listener->demands_certificates = tls != NULL && tls->client_ca != NULL;
    listener->daemon = start_daemon(listener, tls);
    listener->fd = -1; // whether it worked or not: a failing start may have closed it
    if (listener->daemon == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: cannot start the HTTP library",
                         name_of(listener));
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    base_assert(info != NULL);
    if (uv_poll_init(&listener->http->loop->uv, &listener->poll, info->epoll_fd) != 0) {
        MHD_stop_daemon(listener->daemon); // closes the socket too
        listener->daemon = NULL;
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: cannot watch the HTTP library",
                         name_of(listener));
    }
    listener->http->handles++;
    listener->poll.data = listener;
    int started = uv_poll_start(&listener->poll, UV_READABLE, poll_cb);
    base_assert(started == 0);
    // The listening socket enters the epoll set with the first run.
    srv_http__listener_wake(listener);
    return BASE_OK;
}

void srv_http__listener_wake(struct srv_http__listener *listener)
{
    listener->run_wanted = true;
    srv_http__stay_awake(listener->http);
}

void srv_http__listener_run(struct srv_http__listener *listener)
{
    if (listener->daemon == NULL) {
        return;
    }
    listener->run_wanted = false;
    enum MHD_Result ran = MHD_run(listener->daemon);
    base_assert(ran == MHD_YES);
    if (listener->shaking != NULL) {
        srv_http__handshakes_suspend(listener);
    }
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    // Without its time-outs the only other answer is 0: more to do at once.
    if (MHD_get_timeout(listener->daemon, &timeout_ms) == MHD_YES) {
        srv_http__listener_wake(listener);
    }
}

void srv_http__listener_quiesce(struct srv_http__listener *listener)
{
    if (listener->daemon == NULL) {
        return;
    }
    MHD_socket fd = MHD_quiesce_daemon(listener->daemon);
    if (fd != MHD_INVALID_SOCKET) {
        (void)close(fd);
    }
    srv_http__listener_wake(listener);
}

void srv_http__listener_close(struct srv_http__listener *listener)
{
    if (listener->fd >= 0) {
        (void)close(listener->fd);
        listener->fd = -1;
    }
    srv_http__certificate_leave(listener->certificate); // connections have it for themselves
    listener->certificate = NULL;
    if (listener->daemon == NULL) {
        return;
    }
    for (struct srv_http__connection *c = listener->first; c != NULL; c = c->next) {
        if (c->waits) {
            srv_http__handshake_resume(c); // the library will not stop with any that is suspended
        }
    }
    // Before the daemon closes the descriptor that it watches.
    uv_close(srv_uv_handle(&listener->poll), poll_closed_cb);
    struct MHD_Daemon *daemon = listener->daemon;
    listener->daemon = NULL;
    MHD_stop_daemon(daemon);
    base_assert(listener->first == NULL);
}
