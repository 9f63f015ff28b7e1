/* A small blocking HTTP/1.1 client over a raw socket, for tests that need to send what no decent
 * client would. One thread. */
#ifndef TESTS_HTTP_CLIENT_H
#define TESTS_HTTP_CLIENT_H

#include "base/buf.h"
#include "tests/tls_link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_client {
    int fd;
    struct tls_link *tls; /* NULL: plain text */
    struct base_buf in;   /* received and not yet taken */
    struct base_buf text; /* of events that has been taken out of it */
};

/* An answer; valid until the next one is read from the same client. */
struct http_answer {
    int code;         /* 0: there was none: the connection ended, or the time did */
    const char *head; /* status line and headers, NUL-terminated */
    const char *body; /* NUL-terminated too */
    size_t body_bytes;
};

/* To 127.0.0.1. false when refused. */
bool http_connect(struct http_client *client, uint16_t port);
/* The same over TLS, its handshake done; false, and closed, too when that failed. */
bool http_connect_tls(struct http_client *client, uint16_t port, const struct tls_wanted *wanted);
void http_close(struct http_client *client);
/* Ends with a reset instead of an orderly close. */
void http_abort(struct http_client *client);

/* Sends all of it; false when the server has closed the connection. */
bool http_send(struct http_client *client, const void *bytes, size_t length);
bool http_send_text(struct http_client *client, const char *text);

/* Reads one answer, up to timeout_ms. without_body: of a HEAD request. Interim answers (100) count
 * as answers. */
struct http_answer http_read(struct http_client *client, int timeout_ms, bool without_body);

/* The next server-sent event of an answer whose head has been read: what stands behind `data: `,
 * until the next one is read from the same client. NULL: the body has ended (*is_whole), or the
 * connection has, or the time. */
const char *http_read_event(struct http_client *client, int timeout_ms, bool *is_whole);

/* Value of a header without blanks around it, copied into out; false when there is none. */
bool http_header(const struct http_answer *answer, const char *name, char *out, size_t out_bytes);

/* One request and its answer. body may be NULL. head: more header lines, each with \r\n, or "". */
struct http_answer http_request(struct http_client *client, const char *method, const char *path,
                                const char *head, const char *body);

/* true when the server closes the connection within timeout_ms; what it sends before is dropped. */
bool http_is_closed(struct http_client *client, int timeout_ms);

#endif
