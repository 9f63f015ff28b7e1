/* Waits are polls of the socket; the socket itself is never made non-blocking, GnuTLS asks so each
 * time. */
#include "tests/tls_link.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_NS (10 * BASE_NS_PER_S)
#define PAUSE_US 200u

struct tls_link {
    int fd;
    size_t piece;
    bool is_deaf; /* reads nothing, whatever has come */
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
};

static void ok(int code)
{
    if (code < 0) {
        (void)fprintf(stderr, "GnuTLS: %s\n", gnutls_strerror(code));
    }
    base_assert(code >= 0);
}

static ssize_t push(gnutls_transport_ptr_t context, const void *bytes, size_t length)
{
    const struct tls_link *link = context;
    if (link->piece != 0) {
        length = length < link->piece ? length : link->piece;
        (void)usleep(PAUSE_US);
    }
    return send(link->fd, bytes, length, MSG_NOSIGNAL | (link->piece == 0 ? MSG_DONTWAIT : 0));
}

static ssize_t pull(gnutls_transport_ptr_t context, void *bytes, size_t length)
{
    const struct tls_link *link = context;
    if (link->is_deaf) {
        errno = EAGAIN;
        return -1;
    }
    return recv(link->fd, bytes, length, MSG_DONTWAIT);
}

static int pull_timeout(gnutls_transport_ptr_t context, unsigned timeout_ms)
{
    const struct tls_link *link = context;
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLIN};
    return poll(&poll_fd, 1, (int)timeout_ms);
}

struct tls_link *tls_link_create(int fd, const struct tls_wanted *wanted)
{
    struct tls_link *link = base_alloc(sizeof *link);
    base_assert(link != NULL);
    link->fd = fd;
    link->piece = wanted->piece;
    ok(gnutls_certificate_allocate_credentials(&link->credentials));
    ok(gnutls_certificate_set_x509_trust_file(link->credentials, wanted->trust,
                                              GNUTLS_X509_FMT_PEM));
    if (wanted->certificate != NULL) {
        ok(gnutls_certificate_set_x509_key_file(link->credentials, wanted->certificate, wanted->key,
                                                GNUTLS_X509_FMT_PEM));
    }
    char priorities[128];
    (void)snprintf(priorities, sizeof priorities, "NORMAL:-VERS-ALL:%s",
                   wanted->versions != NULL ? wanted->versions : "+VERS-TLS1.2:+VERS-TLS1.3");
    // A certificate is sent whether or not it is of a CA that the server has named.
    ok(gnutls_init(&link->session,
                   GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_FORCE_CLIENT_CERT));
    ok(gnutls_priority_set_direct(link->session, priorities, NULL));
    ok(gnutls_credentials_set(link->session, GNUTLS_CRD_CERTIFICATE, link->credentials));
    gnutls_session_set_verify_cert(link->session, "localhost", 0);
    int on = 1;
    ok(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    gnutls_transport_set_ptr(link->session, link);
    gnutls_transport_set_push_function(link->session, push);
    gnutls_transport_set_pull_function(link->session, pull);
    gnutls_transport_set_pull_timeout_function(link->session, pull_timeout);
    return link;
}

void tls_link_free(struct tls_link *link)
{
    if (link != NULL) {
        gnutls_deinit(link->session);
        gnutls_certificate_free_credentials(link->credentials);
        base_free(link);
    }
}

void tls_link_begin(struct tls_link *link)
{
    link->is_deaf = true;
    int code = gnutls_handshake(link->session);
    base_assert(code == GNUTLS_E_AGAIN);
    link->is_deaf = false;
}

/* Until the socket is ready for what GnuTLS waits for; false after the deadline. */
static bool wait_ready(const struct tls_link *link, uint64_t deadline_ns)
{
    bool sends = gnutls_record_get_direction(link->session) == 1;
    struct pollfd poll_fd = {.fd = link->fd, .events = sends ? POLLOUT : POLLIN};
    uint64_t now_ns = base_now_ns();
    return now_ns < deadline_ns &&
           poll(&poll_fd, 1, (int)((deadline_ns - now_ns) / BASE_NS_PER_MS) + 1) > 0;
}

bool tls_link_shake(struct tls_link *link)
{
    uint64_t deadline_ns = base_deadline_after(base_now_ns(), LIMIT_NS);
    int code;
    do {
        code = gnutls_handshake(link->session);
    } while ((code == GNUTLS_E_AGAIN && wait_ready(link, deadline_ns)) ||
             code == GNUTLS_E_INTERRUPTED);
    return code == GNUTLS_E_SUCCESS;
}

bool tls_link_send(struct tls_link *link, const void *bytes, size_t length)
{
    const char *at = bytes;
    uint64_t deadline_ns = base_deadline_after(base_now_ns(), 6 * LIMIT_NS);
    while (length > 0) {
        ssize_t sent = gnutls_record_send(link->session, at, length);
        if (sent == GNUTLS_E_AGAIN && wait_ready(link, deadline_ns)) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

bool tls_link_has_bytes(const struct tls_link *link)
{
    return gnutls_record_check_pending(link->session) > 0;
}

ssize_t tls_link_receive(struct tls_link *link, void *bytes, size_t length)
{
    ssize_t got = gnutls_record_recv(link->session, bytes, length);
    if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED) {
        errno = EAGAIN;
        return -1;
    }
    errno = EPROTO;
    return got < 0 ? -1 : got;
}

void tls_link_end(struct tls_link *link)
{
    (void)gnutls_bye(link->session, GNUTLS_SHUT_WR);
}
