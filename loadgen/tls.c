/* See tls.h. The session reads its socket by itself, a record at a time, so that what it has not
 * handed on is in the socket: poll() knows of it. */
#include "loadgen/tls.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>

#define HOST_BYTES 256u

struct lg_tls {
    gnutls_certificate_credentials_t credentials;
};

struct lg_tls_link {
    gnutls_session_t session;
    char host[HOST_BYTES]; /* GnuTLS looks at it when the certificate comes */
};

static enum base_status fail(const char *what, int code, struct base_error *error)
{
    return base_fail(
        error, code == GNUTLS_E_MEMORY_ERROR ? BASE_RESOURCE_EXHAUSTED : BASE_INVALID_ARGUMENT,
        "%s: %s", what, gnutls_strerror(code));
}

static enum base_status read_files(struct lg_tls *tls, const struct lg_tls_files *files,
                                   struct base_error *error)
{
    int code = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (code < 0) {
        return fail("TLS", code, error);
    }
    code = files->ca == NULL ? gnutls_certificate_set_x509_system_trust(tls->credentials)
                             : gnutls_certificate_set_x509_trust_file(tls->credentials, files->ca,
                                                                      GNUTLS_X509_FMT_PEM);
    if (code < 0) {
        return fail(files->ca == NULL ? "the system's CAs" : files->ca, code, error);
    }
    if (code == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: no certificates in PEM",
                         files->ca == NULL ? "the system's CAs" : files->ca);
    }
    if (files->certificate != NULL) {
        code = gnutls_certificate_set_x509_key_file(tls->credentials, files->certificate,
                                                    files->key, GNUTLS_X509_FMT_PEM);
        if (code < 0) {
            char both[512];
            (void)snprintf(both, sizeof both, "%s and %s", files->certificate, files->key);
            return fail(both, code, error);
        }
    }
    return BASE_OK;
}

enum base_status lg_tls_load(const struct lg_tls_files *files, struct lg_tls **out,
                             struct base_error *error)
{
    struct lg_tls *tls = base_alloc(sizeof *tls);
    *out = NULL;
    if (tls == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for TLS");
    }
    const enum base_status status = read_files(tls, files, error);
    if (status != BASE_OK) {
        lg_tls_free(tls);
        return status;
    }
    *out = tls;
    return BASE_OK;
}

void lg_tls_free(struct lg_tls *tls)
{
    if (tls != NULL) {
        if (tls->credentials != NULL) {
            gnutls_certificate_free_credentials(tls->credentials);
        }
        base_free(tls);
    }
}

/* HOST of HOST:PORT, without the brackets of an IPv6 address. */
static void host_of(const char *target, char host[HOST_BYTES])
{
    const bool is_bracketed = target[0] == '[';
    const char *end = strrchr(target, is_bracketed ? ']' : ':');
    const char *start = target + (is_bracketed ? 1 : 0);
    const size_t length = end == NULL || end < start ? strlen(start) : (size_t)(end - start);
    (void)snprintf(host, HOST_BYTES, "%.*s", (int)length, start);
}

static bool is_address(const char *host)
{
    unsigned char memory[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, memory) == 1 || inet_pton(AF_INET6, host, memory) == 1;
}

static int prepare(gnutls_session_t session, const struct lg_tls *tls, const char *host)
{
    static unsigned char h2[] = "h2";
    gnutls_datum_t protocol = {h2, 2};
    int code =
        gnutls_priority_set_direct(session, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL);
    code =
        code < 0 ? code : gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    code = code < 0 ? code : gnutls_alpn_set_protocols(session, &protocol, 1, 0);
    if (code >= 0 && !is_address(host)) {
        code = gnutls_server_name_set(session, GNUTLS_NAME_DNS, host, strlen(host));
    }
    return code;
}

struct lg_tls_link *lg_tls_begin(const struct lg_tls *tls, int fd, const char *target)
{
    struct lg_tls_link *link = base_alloc(sizeof *link);
    if (link == NULL) {
        return NULL;
    }
    host_of(target, link->host);
    // A certificate is sent whether or not it is of a CA that the server has named.
    const int code = gnutls_init(&link->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK |
                                                     GNUTLS_NO_SIGNAL | GNUTLS_FORCE_CLIENT_CERT);
    if (code < 0) {
        base_free(link);
        return NULL;
    }
    if (prepare(link->session, tls, link->host) < 0) {
        lg_tls_end(link);
        return NULL;
    }
    gnutls_session_set_verify_cert(link->session, link->host, 0);
    gnutls_transport_set_int(link->session, fd);
    return link;
}

void lg_tls_end(struct lg_tls_link *link)
{
    if (link != NULL) {
        gnutls_deinit(link->session);
        base_free(link);
    }
}

/* Why the server's certificate is not taken. */
static void write_verdict(const struct lg_tls_link *link, char *why, size_t why_bytes)
{
    gnutls_datum_t text = {NULL, 0};
    const unsigned status = gnutls_session_get_verify_cert_status(link->session);
    if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) == 0) {
        (void)snprintf(why, why_bytes, "TLS: %s", (const char *)text.data);
        gnutls_free(text.data);
    }
}

enum lg_tls_turn lg_tls_shake(struct lg_tls_link *link, char *why, size_t why_bytes)
{
    int code;
    do {
        code = gnutls_handshake(link->session);
    } while (code == GNUTLS_E_INTERRUPTED || code == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (code == GNUTLS_E_AGAIN) {
        return LG_TLS_AGAIN;
    }
    if (code < 0) {
        (void)snprintf(why, why_bytes, "TLS: %s", gnutls_strerror(code));
        if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR) {
            write_verdict(link, why, why_bytes);
        }
        return LG_TLS_FAILED;
    }
    return LG_TLS_DONE;
}

bool lg_tls_waits_to_write(const struct lg_tls_link *link)
{
    return gnutls_record_get_direction(link->session) == 1;
}

static ssize_t result_of(ssize_t code)
{
    if (code < 0) {
        errno = code == GNUTLS_E_AGAIN                                       ? EAGAIN
                : code == GNUTLS_E_INTERRUPTED                               ? EINTR
                : code == GNUTLS_E_PUSH_ERROR || code == GNUTLS_E_PULL_ERROR ? ECONNRESET
                                                                             : EPROTO;
    }
    return code < 0 ? -1 : code;
}

ssize_t lg_tls_send(struct lg_tls_link *link, const void *bytes, size_t length)
{
    return result_of(gnutls_record_send(link->session, bytes, length));
}

ssize_t lg_tls_receive(struct lg_tls_link *link, void *bytes, size_t length)
{
    ssize_t code = gnutls_record_recv(link->session, bytes, length);
    while (code == GNUTLS_E_REHANDSHAKE) { // asked for in TLS 1.2, and declined
        code = gnutls_record_recv(link->session, bytes, length);
    }
    // Who hangs up without a word has ended the connection all the same.
    return code == GNUTLS_E_PREMATURE_TERMINATION ? 0 : result_of(code);
}
