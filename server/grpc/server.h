/* The gRPC front end: GRPCInferenceService, health and reflection over the gRPC C core.
 *
 * Life: start, [serve], drain, [cancel_all], stop; all on the loop thread. docs/protocol.md says
 * what clients may send and what they get. */
#ifndef SERVER_GRPC_SERVER_H
#define SERVER_GRPC_SERVER_H

#include "base/status.h"
#include "server/loop.h"
#include "server/request.h"
#include "server/tokens.h"

#include <stdint.h>

struct srv_grpc;
struct srv_tls;

struct srv_grpc_options {
    const char *address;       /* an IPv4 or IPv6 address */
    uint16_t port;             /* 0: any free one */
    const struct srv_tls *tls; /* NULL: plain text */
    const struct srv_access
        *access;      /* NULL: everybody; outlives the server, and may change on the loop thread */
    uint32_t threads; /* that read and decode requests */
    uint32_t calls_max;           /* requests at a time, of calls and streams; more are refused */
    uint64_t calls_bytes_max;     /* bytes of their messages at a time; more are refused */
    uint32_t streams_max;         /* calls that stay open, of all methods; more are refused */
    uint32_t stream_requests_max; /* of one stream at a time; more are read later */
    enum base_status busy;        /* the status of such refusals */
    uint64_t message_bytes_max;   /* a larger one is refused before it is read */
    uint64_t request_bytes_max;   /* budget of one request's arena: decoding, cells, outputs */
    uint32_t
        connection_streams_max;    /* calls at a time on one connection; more wait at the client */
    uint32_t handshake_ms;         /* from accept to the end of TLS's and HTTP/2's first words */
    uint32_t keepalive_ms;         /* how often a silent peer is pinged */
    uint32_t keepalive_timeout_ms; /* and how long its answer may take */
};

/* The defaults: 127.0.0.1, any port, 1 thread, and limits as docs/protocol.md lists them. */
void srv_grpc_options_init(struct srv_grpc_options *options);

/* Listens and serves. loop and core outlive the server; strings and TLS's texts are only read
 * during the call. UNAVAILABLE: the address cannot be had, and why. RESOURCE_EXHAUSTED: no memory
 * or threads. */
enum base_status srv_grpc_start(const struct srv_grpc_options *options, struct srv_loop *loop,
                                struct srv_core *core, struct srv_grpc **out,
                                struct base_error *error) __attribute__((warn_unused_result));

uint16_t srv_grpc_port(const struct srv_grpc *server);

/* Of a server that was started with TLS: connections that begin from now on have this certificate
 * and these CAs; clients need a certificate if they did before. tls is only read during the call.
 */
void srv_grpc_set_tls(struct srv_grpc *server, const struct srv_tls *tls);

/* Stops listening and tells every peer to go away, once no new call has come for 75 ms, half a
 * second later at most: core is to refuse by then what is new. Calls that are here finish, streams
 * when all that they have read is answered: with UNAVAILABLE where the client has not ended its
 * half before. Dialogs (Health/Watch, reflection) end at once, likewise. done(context) comes on the
 * loop thread, never from inside this call, when the last one has and every connection is closed.
 * Once. */
void srv_grpc_drain(struct srv_grpc *server, void (*done)(void *context), void *context);

/* After drain: closes all connections, so that unfinished calls end as cancelled. */
void srv_grpc_cancel_all(struct srv_grpc *server);

/* After drain's done: joins the threads and frees all. */
void srv_grpc_stop(struct srv_grpc *server);

/* Exact counts: arrived = finished + open at any time on the loop thread. */
struct srv_grpc_counts {
    uint64_t arrived;                     /* calls handed to us by gRPC */
    uint64_t finished;                    /* of these, those whose last batch is done */
    uint64_t answered[BASE_STATUS_COUNT]; /* terminal statuses sent, one a call */
    uint64_t cancelled;    /* closed by peer, deadline or cancel_all before the end */
    uint32_t open;         /* calls that hold an object */
    uint32_t streams_open; /* those of them that stay open */
    uint32_t
        infer_open; /* requests: ModelInfer calls, and what streams have read and not answered */
    uint64_t infer_bytes;                           /* bytes of their messages */
    uint64_t stream_requests;                       /* messages that streams have read */
    uint64_t stream_answers;                        /* messages that they have begun to send, and */
    uint64_t stream_parts;                          /* parts of answers before those */
    uint32_t objects, objects_free, objects_posted; /* = open + free + posted */
};
void srv_grpc_counts(const struct srv_grpc *server, struct srv_grpc_counts *counts);

#endif
