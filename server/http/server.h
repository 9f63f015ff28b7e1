/* The HTTP front end: the Open Inference Protocol over REST, and /metrics on a port of its own,
 * through libmicrohttpd on the loop thread.
 *
 * Life: start, [serve], drain, [cancel_all], stop; all on the loop thread. docs/http.md says what
 * clients may send and what they get. Whoever starts it ignores SIGPIPE. */
#ifndef SERVER_HTTP_SERVER_H
#define SERVER_HTTP_SERVER_H

#include "base/buf.h"
#include "base/status.h"
#include "server/loop.h"
#include "server/request.h"
#include "server/tokens.h"

#include <stddef.h>
#include <stdint.h>

struct srv_http;
struct srv_tls;

struct srv_http_options {
    const char *address; /* an IPv4 or IPv6 address; NULL: no inference here, only metrics */
    uint16_t port;       /* 0: any free one */
    const char *metrics_address; /* the same for /metrics; NULL: none */
    uint16_t metrics_port;
    const struct srv_tls *tls;         /* NULL: plain text */
    const struct srv_tls *metrics_tls; /* the same for /metrics */
    const struct srv_access
        *access; /* NULL: everybody; outlives the server, and may change on the loop thread */

    uint32_t connections_max;   /* of the inference port; more wait in the kernel's queue */
    uint64_t body_bytes_max;    /* a larger body is refused (413) */
    uint64_t json_bytes_max;    /* the same for its JSON */
    uint64_t bodies_bytes_max;  /* bytes of all bodies held at a time, at least body_bytes_max; more
                                   are refused */
    uint64_t request_bytes_max; /* budget of one request's arena: numbers, cells, outputs */
    uint64_t response_bytes_max; /* an answer whose JSON is longer is refused */
    enum base_status busy;       /* status of refusals for bodies_bytes_max */

    /* A connection that takes longer is closed. Whole times, not inactivity. */
    uint32_t head_ms; /* from the first byte that a connection could send to a whole head, a TLS
                         handshake included */
    uint32_t idle_ms; /* from an answer to the next whole head */
    uint32_t body_ms; /* from the head to the body's end */
    uint32_t send_ms; /* to take an answer */
};

/* The defaults: 127.0.0.1 and any port for both, limits as docs/http.md lists them. */
void srv_http_options_init(struct srv_http_options *options);

/* Listens and serves. loop and core outlive the server; strings and TLS's texts are only read
 * during the call. UNAVAILABLE: an address cannot be had (in use, not permitted, not of this
 * machine). INVALID_ARGUMENT: not an address. RESOURCE_EXHAUSTED: no memory or descriptors. */
enum base_status srv_http_start(const struct srv_http_options *options, struct srv_loop *loop,
                                struct srv_core *core, struct srv_http **out,
                                struct base_error *error) __attribute__((warn_unused_result));

/* Of a server that was started with TLS: connections that begin from now on have this certificate
 * and these CAs; clients need a certificate if they did before. tls is only read during the call.
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED: all stays as it is. */
enum base_status srv_http_set_tls(struct srv_http *http, const struct srv_tls *tls,
                                  struct base_error *error) __attribute__((warn_unused_result));

/* The ports in fact; 0 where there is no listener. */
uint16_t srv_http_port(const struct srv_http *http);
uint16_t srv_http_metrics_port(const struct srv_http *http);

/* Stops listening for inference, and in 75 ms closes idle connections: core is to refuse by now
 * what is new, and what was on its way is told so. Requests that are here finish, and their
 * connections with them. done(context) comes once, never from inside this call, when the last
 * connection is closed. /metrics goes on until stop. */
void srv_http_drain(struct srv_http *http, void (*done)(void *context), void *context);

/* After drain: cancels all running requests, which are answered with UNAVAILABLE, and closes all
 * other connections. A second call closes those that still take their answers. */
void srv_http_cancel_all(struct srv_http *http);

/* After drain's done: closes the rest and frees all; the last memory goes when the loop has closed
 * the handles, so the loop has to run once more. */
void srv_http_stop(struct srv_http *http);

/* Exact counts of the inference port: begun = answered + lost + open. */
struct srv_http_counts {
    uint64_t connections; /* accepted so far */
    uint32_t connections_open;
    uint64_t begun;     /* requests whose head was complete */
    uint64_t answered;  /* whose answer was sent whole */
    uint64_t lost;      /* whose connection ended before */
    uint32_t open;      /* begun, neither answered nor lost */
    uint64_t timed_out; /* connections closed for a time limit */
    uint64_t bodies_bytes;
};
void srv_http_counts(const struct srv_http *http, struct srv_http_counts *counts);

#endif
