/* What the files of this folder share: the server's state and the steps of a connection's life.
 *
 *   listener.c    libmicrohttpd's daemon on the libuv loop; sockets
 *   connection.c  accept to close: time limits, a client that leaves
 *   handshake.c   of TLS: clients' certificates; one that waits costs nothing
 *   certificate.c what a listener shows, and whom it trusts; replaced while it serves
 *   exchange.c    one request: head, body, core, answer
 *   events.c      an answer that goes in parts: server-sent events
 *   pages.c       the JSON of everything but inference
 *   server.c      start, drain, stop
 *
 * Everything belongs to the loop thread. */
#ifndef SERVER_HTTP_INTERNAL_H
#define SERVER_HTTP_INTERNAL_H

#include "server/core.h"
#include "server/http/json.h"
#include "server/http/route.h"
#include "server/http/server.h"
#include "server/orders.h"

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdbool.h>

/* Memory that a connection keeps from one request to the next. */
#define SRV_HTTP__KEEP_BYTES (64u << 10)

enum srv_http__phase {
    SRV_HTTP__HEAD,    /* waits for a whole head */
    SRV_HTTP__BODY,    /* for the body */
    SRV_HTTP__RUNNING, /* core has the request, or the order; of an answer in parts: nothing to send
                        */
    SRV_HTTP__SENDING, /* the answer goes out */
    SRV_HTTP__CUT,     /* the socket is shut down; libmicrohttpd is about to notice */
};

/* One request of a connection; the memory is used again for the next. */
struct srv_http__exchange {
    bool open; /* between begin and end */
    struct srv_http_route route;
    int code;          /* of the answer; 0 while it is not known */
    const char *allow; /* header of a 405 */
    struct base_error error;
    uint64_t json_bytes; /* Inference-Header-Content-Length; UINT64_MAX = none */
    struct base_buf body;
    bool running; /* core has the request, or somebody waits for the order */
    bool suspended;
    struct srv_order_wait order;     /* of a page that is one */
    struct srv_http__events *events; /* of an answer in parts, until the exchange ends; else NULL */
    struct srv_request request;
    struct srv_http_form form;
    struct base_buf json; /* of the answer */
};

struct srv_http__connection {
    struct srv_http__listener *listener;
    struct MHD_Connection *mhd;
    struct srv_http__connection *next, *previous;
    int fd;
    uv_poll_t watch; /* for the client's end of the connection */
    bool gone;       /* seen by it */
    bool waits;      /* in its handshake: suspended until the socket is ready */
    struct srv_http__certificate *certificate; /* that it began with; NULL without TLS */
    gnutls_session_t shaking;                  /* until its handshake is over; NULL without TLS */
    struct srv_http__connection *next_shaking;
    enum srv_http__phase phase;
    uint64_t deadline_ns; /* of the phase */
    struct srv_http__exchange exchange;
};

struct srv_http__listener {
    struct srv_http *http;
    struct MHD_Daemon *daemon; /* NULL: not wanted, or closed */
    bool is_metrics;
    struct srv_http__certificate *certificate; /* NULL: plain text */
    bool demands_certificates;                 /* of clients */
    bool run_wanted; /* libmicrohttpd has something to do before the loop sleeps */
    int fd;          /* -1 once libmicrohttpd has it */
    uint16_t port;
    uv_poll_t poll;                       /* on the daemon's epoll descriptor */
    struct srv_http__connection *first;   /* newest first */
    struct srv_http__connection *shaking; /* whose handshakes the next run may go on with */
    uint32_t n_connections;
};

enum { SRV_HTTP__INFER, SRV_HTTP__METRICS, SRV_HTTP__LISTENERS };

struct srv_http {
    struct srv_http_options options;
    struct srv_loop *loop;
    struct srv_core *core;
    struct srv_http_codec codec;
    struct srv_orders orders;
    struct srv_http__listener listeners[SRV_HTTP__LISTENERS];
    uv_prepare_t prepare; /* runs libmicrohttpd before the loop sleeps */
    uv_idle_t idle;       /* active while it must not sleep */
    uv_timer_t sweep;     /* looks for connections past their deadline */
    uint32_t handles;     /* not yet closed, of all kinds */
    struct srv_http_counts counts;
    uint64_t responses[6]; /* by the code's first digit */
    bool draining, stopping;
    uint32_t drain_looks;           /* at connections, since the drain began */
    void (*drained)(void *context); /* NULL once called */
    void *drained_context;
};

/* ---- listener.c ---- */

/* Opens the socket; the port in fact is then in listener->port. */
enum base_status srv_http__listener_open(struct srv_http__listener *listener, const char *address,
                                         uint16_t port, struct base_error *error);
/* Starts the daemon on an open socket; tls NULL: plain text. */
enum base_status srv_http__listener_start(struct srv_http__listener *listener,
                                          const struct srv_tls *tls, struct base_error *error);
/* Accepts no more. */
void srv_http__listener_quiesce(struct srv_http__listener *listener);
/* Closes everything; its connections end within the call. */
void srv_http__listener_close(struct srv_http__listener *listener);
/* Has libmicrohttpd run before the loop sleeps. */
void srv_http__listener_wake(struct srv_http__listener *listener);
void srv_http__listener_run(struct srv_http__listener *listener);

/* ---- connection.c ---- */

void srv_http__connection_opened(struct srv_http__listener *listener, struct MHD_Connection *mhd,
                                 void **context);
void srv_http__connection_closed(void **context);
/* Enters a phase and starts its time. */
void srv_http__connection_enter(struct srv_http__connection *connection,
                                enum srv_http__phase phase);
/* Shuts the socket down; libmicrohttpd then closes the connection. */
void srv_http__connection_cut(struct srv_http__connection *connection);
/* Watches the socket for its peer's end and for these events (UV_READABLE, UV_WRITABLE) too, which
 * a handshake that waits is resumed by. */
void srv_http__connection_watch(struct srv_http__connection *connection, int events);
/* Cuts connections whose phase has lasted too long. */
void srv_http__connections_sweep(struct srv_http__listener *listener, uint64_t now_ns);

/* ---- certificate.c ---- */

/* A certificate with its key, and the CAs of clients where there are some, for as long as somebody
 * uses it. */
struct srv_http__certificate {
    gnutls_certificate_credentials_t credentials;
    uint32_t users;
};

/* With one user. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
enum base_status srv_http__certificate_create(const struct srv_tls *tls,
                                              struct srv_http__certificate **out,
                                              struct base_error *error);
void srv_http__certificate_leave(struct srv_http__certificate *certificate); /* NULL is allowed */

/* ---- handshake.c ---- */

/* A connection was accepted, and no byte of it read. */
void srv_http__handshake_begin(struct srv_http__connection *connection);
/* After each run of libmicrohttpd: suspends those that wait for their peer. */
void srv_http__handshakes_suspend(struct srv_http__listener *listener);
/* The socket is ready, or closed: has libmicrohttpd go on. */
void srv_http__handshake_resume(struct srv_http__connection *connection);
/* The connection was closed, its handshake over or not. */
void srv_http__handshake_end(struct srv_http__connection *connection);

/* ---- exchange.c ---- */

/* libmicrohttpd's MHD_AccessHandlerCallback; cls is the listener. */
enum MHD_Result srv_http__handle(void *cls, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_bytes, void **context);
/* The answer was sent whole, or the connection ended before. */
void srv_http__exchange_end(struct srv_http__connection *connection, bool sent);
/* The client left, or the server stops: cancels the request if core has it, and waits no longer for
 * an order. */
void srv_http__exchange_cancel(struct srv_http__connection *connection, enum base_status why);
/* Frees what exchanges keep between requests. */
void srv_http__exchange_release(struct srv_http__exchange *exchange);

/* ---- Between exchange.c and events.c ---- */

/* Makes the body a request, whose arena is initialised; false with code and error set. */
bool srv_http__exchange_decode(struct srv_http__connection *connection,
                               struct srv_request *request);
/* What is to go into a request before its body is read, and done. */
void srv_http__exchange_prepare(struct srv_http__connection *connection,
                                struct srv_request *request,
                                void (*done)(struct srv_request *request));
/* The answer that exchange->code and ->error say. */
enum MHD_Result srv_http__exchange_refuse(struct srv_http__connection *connection);
/* Begins to send the response, and gives it away; its headers are added to. */
enum MHD_Result srv_http__exchange_send(struct srv_http__connection *connection,
                                        const char *content_type, struct MHD_Response *response);
/* The connection waits for core, and goes on. */
void srv_http__exchange_suspend(struct srv_http__connection *connection);
void srv_http__exchange_resume(struct srv_http__connection *connection);

/* Starts the request of an answer in parts. */
enum MHD_Result srv_http__events_begin(struct srv_http__connection *connection);
/* The connection was resumed before anything was sent. */
enum MHD_Result srv_http__events_answer(struct srv_http__connection *connection);
/* The client left, or the server stops. */
void srv_http__events_cancel(struct srv_http__events *events, enum base_status why);
/* The exchange has ended: what still runs is cancelled, and goes when it is done. */
void srv_http__events_end(struct srv_http__events *events);

/* ---- pages.c ---- */

/* Appends the body of a GET route, or of the index; returns the HTTP code. An error's message goes
 * to error. */
int srv_http__page(struct srv_http *http, const struct srv_http_route *route, bool ready_only,
                   struct base_buf *out, struct base_error *error);

/* What the front end adds to /metrics. */
void srv_http__write_metrics(const struct srv_http *http, struct base_buf *out);

/* ---- server.c ---- */

/* Keeps the loop from sleeping before the prepare handle has run. */
void srv_http__stay_awake(struct srv_http *http);
/* One of the handles counted in `handles` is closed. */
void srv_http__handle_closed(struct srv_http *http);

#endif
