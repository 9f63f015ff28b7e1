/* The socket of a connection: connecting, one write and one read a turn, and how it ends. What
 * nghttp2 wants to send is gathered in one buffer; a full socket leaves the rest for the next turn.
 */
#include "loadgen/http2.h"

#include "base/assert.h"
#include "base/mem.h"
#include "loadgen/file.h"
#include "loadgen/http2_private.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Written in one turn at most, so that a peer who takes everything cannot hold the loop up. */
#define FLUSH_BYTES (4u << 20)

/* ---- Life cycle ------------------------------------------------------------------------------ */

void lg_http2_fail(struct lg_http2 *h, const char *why)
{
    if (h->state == LG_HTTP2_FAILED) {
        return;
    }
    if (h->why[0] == '\0') { // else the peer or nghttp2 has said it better
        (void)snprintf(h->why, sizeof(h->why), "%s", why);
    }
    h->state = LG_HTTP2_FAILED;
    lg_tls_end(h->link);
    h->link = NULL;
    if (h->fd >= 0) {
        (void)close(h->fd);
        h->fd = -1;
    }
}

static void fail_errno(struct lg_http2 *h, const char *what, int number)
{
    char why[128];
    (void)snprintf(why, sizeof(why), "%s: %s", what, lg_errno_text(number));
    lg_http2_fail(h, why);
}

/* The handshake, as far as it comes now. */
static void shake(struct lg_http2 *h)
{
    char why[LG_WORDS_BYTES] = "TLS";
    switch (lg_tls_shake(h->link, why, sizeof(why))) {
    case LG_TLS_DONE:
        h->state = LG_HTTP2_GREETING;
        break;
    case LG_TLS_AGAIN:
        break;
    case LG_TLS_FAILED:
        lg_http2_fail(h, why);
        break;
    }
}

/* TCP is connected. */
static void begin_speaking(struct lg_http2 *h)
{
    if (h->tls == NULL) {
        h->state = LG_HTTP2_GREETING;
        return;
    }
    h->state = LG_HTTP2_SHAKING;
    h->link = lg_tls_begin(h->tls, h->fd, h->authority);
    if (h->link == NULL) {
        lg_http2_fail(h, "no memory for TLS");
    } else {
        shake(h);
    }
}

static void begin_connect(struct lg_http2 *h, const struct lg_address *address)
{
    h->fd = socket(address->name.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (h->fd < 0) {
        fail_errno(h, "cannot make a socket", errno);
        return;
    }
    int on = 1;
    (void)setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(h->fd, &address->name.any, address->bytes) == 0) {
        begin_speaking(h);
    } else if (errno != EINPROGRESS) {
        fail_errno(h, "cannot connect", errno);
    }
}

struct lg_http2 *lg_http2_create(const struct lg_address *address, const struct lg_tls *tls,
                                 const char *authority, struct lg_rpc_list *ended)
{
    struct lg_http2 *h = base_alloc(sizeof(*h));
    if (h == NULL) {
        return NULL;
    }
    h->fd = -1;
    h->tls = tls;
    h->authority = authority;
    h->ended = ended;
    h->state = LG_HTTP2_CONNECTING;
    if (!lg__http2_begin_session(h)) {
        lg_http2_free(h);
        return NULL;
    }
    begin_connect(h, address);
    return h;
}

void lg_http2_free(struct lg_http2 *h)
{
    if (h == NULL) {
        return;
    }
    base_assert(h->calls.first == NULL);
    nghttp2_session_del(h->session);
    lg_tls_end(h->link);
    if (h->fd >= 0) {
        (void)close(h->fd);
    }
    base_free(h);
}

/* ---- The socket ------------------------------------------------------------------------------ */

/* Moves frames into the buffer until it is full or there are none. */
static bool gather(struct lg_http2 *h)
{
    while (h->out_end < LG_OUT_FULL_BYTES) {
        const uint8_t *bytes = NULL;
        ssize_t count = nghttp2_session_mem_send(h->session, &bytes);
        if (count < 0 || (size_t)count > LG_OUT_BYTES - h->out_end) {
            lg_http2_fail(h, count < 0 ? nghttp2_strerror((int)count) : "a frame is too large");
            return false;
        }
        if (count == 0) {
            break;
        }
        memcpy(h->out + h->out_end, bytes, (size_t)count);
        h->out_end += (size_t)count;
    }
    return true;
}

static ssize_t send_some(struct lg_http2 *h)
{
    const uint8_t *bytes = h->out + h->out_start;
    const size_t length = h->out_end - h->out_start;
    return h->link != NULL ? lg_tls_send(h->link, bytes, length)
                           : send(h->fd, bytes, length, MSG_NOSIGNAL);
}

/* Writes the buffer; true when all of it has left. */
static bool write_out(struct lg_http2 *h)
{
    ssize_t count;
    do { // TLS takes a record at a time
        count = send_some(h);
        if (count < 0 && errno != EAGAIN && errno != EINTR) {
            fail_errno(h, "the connection is lost", errno);
            return false;
        }
        h->out_start += count < 0 ? 0 : (size_t)count;
    } while (h->link != NULL && count > 0 && h->out_start < h->out_end);
    if (h->out_start < h->out_end) {
        return false;
    }
    h->out_start = 0;
    h->out_end = 0;
    return true;
}

void lg_http2_flush(struct lg_http2 *h, uint64_t now_ns)
{
    h->now_ns = now_ns;
    if (h->state < LG_HTTP2_GREETING || h->state == LG_HTTP2_FAILED) {
        return;
    }
    h->more = true;
    for (size_t written = 0; written < FLUSH_BYTES && h->more;) {
        h->more = gather(h) && h->out_end >= LG_OUT_FULL_BYTES;
        written += h->out_end - h->out_start;
        if (h->out_end > 0 && h->state != LG_HTTP2_FAILED && !write_out(h)) {
            break;
        }
    }
    if (h->state != LG_HTTP2_FAILED && h->out_end == 0 &&
        nghttp2_session_want_read(h->session) == 0 && nghttp2_session_want_write(h->session) == 0) {
        lg_http2_fail(h, "the connection is over");
    }
}

static void end_connect(struct lg_http2 *h)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    (void)getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) {
        fail_errno(h, "cannot connect", error);
    } else {
        begin_speaking(h);
    }
}

/* What there is, up to LG_RECEIVE_BYTES; as recv(). */
static ssize_t receive_some(struct lg_http2 *h, uint8_t *memory)
{
    if (h->link == NULL) {
        return recv(h->fd, memory, LG_RECEIVE_BYTES, 0);
    }
    size_t length = 0;
    while (length < LG_RECEIVE_BYTES) { // a record at a time
        const ssize_t count = lg_tls_receive(h->link, memory + length, LG_RECEIVE_BYTES - length);
        if (count <= 0) {
            return length > 0 ? (ssize_t)length : count;
        }
        length += (size_t)count;
    }
    return (ssize_t)length;
}

void lg_http2_receive(struct lg_http2 *h, uint8_t *memory, uint64_t now_ns)
{
    h->now_ns = now_ns;
    if (h->state == LG_HTTP2_CONNECTING) {
        end_connect(h);
        return;
    }
    if (h->state == LG_HTTP2_SHAKING) {
        shake(h);
        return;
    }
    ssize_t count = receive_some(h, memory);
    if (count < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            fail_errno(h, "the connection is lost", errno);
        }
        return;
    }
    if (count == 0) {
        lg_http2_fail(h, "the server closed the connection");
        return;
    }
    ssize_t handled = nghttp2_session_mem_recv(h->session, memory, (size_t)count);
    if (handled < 0) {
        lg_http2_fail(h, nghttp2_strerror((int)handled));
    }
}

/* ---- Inspect --------------------------------------------------------------------------------- */

enum lg_http2_state lg_http2_state(const struct lg_http2 *h)
{
    return h->state;
}

const char *lg_http2_why(const struct lg_http2 *h)
{
    return h->why;
}

bool lg_http2_is_idle(const struct lg_http2 *h)
{
    return h->calls.first == NULL;
}

bool lg_http2_was_useful(const struct lg_http2 *h)
{
    return h->useful;
}

int lg_http2_fd(const struct lg_http2 *h)
{
    return h->fd;
}

short lg_http2_events(const struct lg_http2 *h)
{
    if (h->state == LG_HTTP2_CONNECTING) {
        return POLLOUT;
    }
    if (h->state == LG_HTTP2_SHAKING) {
        return lg_tls_waits_to_write(h->link) ? POLLOUT : POLLIN;
    }
    return h->out_end > 0 || h->more ? POLLIN | POLLOUT : POLLIN;
}
