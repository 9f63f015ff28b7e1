/* One HTTP/2 connection, over TLS or in clear text with prior knowledge (RFC 9113, 3.2 and 3.3): a
 * non-blocking socket, an nghttp2 session, and the calls that have streams on it. It never connects
 * again: channel.h does.
 *
 *   CONNECTING --> SHAKING --> GREETING --> READY --> DRAINING
 *       TCP      TLS, if any  our preface,  SETTINGS    GOAWAY has come; or
 *                             no SETTINGS   have come   no stream id is left
 *   any of them --> FAILED: lost, refused, or no HTTP/2; lg_http2_why()
 *
 * A call that ends leaves the connection and goes to the list given at create. Its own functions
 * never block. One thread at a time, the client's. The peer's windows and its limit of streams are
 * obeyed; our own windows are 64 MiB, since what comes is counted and not kept. */
#ifndef LOADGEN_HTTP2_H
#define LOADGEN_HTTP2_H

#include "loadgen/address.h"
#include "loadgen/rpc.h"
#include "loadgen/tls.h"

#include <stdbool.h>
#include <stdint.h>

struct lg_http2;

enum lg_http2_state {
    LG_HTTP2_CONNECTING,
    LG_HTTP2_SHAKING,
    LG_HTTP2_GREETING,
    LG_HTTP2_READY,
    LG_HTTP2_DRAINING,
    LG_HTTP2_FAILED,
};

/* Memory for what one lg_http2_receive() reads; one serves all connections. */
#define LG_RECEIVE_BYTES (64u << 10)

/* ---- Life cycle ------------------------------------------------------------------------------ */

/* Begins to connect; an address that refuses at once shows as FAILED. tls NULL: in clear text. tls,
 * authority (HOST:PORT) and ended must outlive the connection. NULL when out of memory. */
struct lg_http2 *lg_http2_create(const struct lg_address *address, const struct lg_tls *tls,
                                 const char *authority, struct lg_rpc_list *ended)
    __attribute__((warn_unused_result));

/* Closes it. It has no calls any more (lg_http2_end_all()). */
void lg_http2_free(struct lg_http2 *h); /* NULL is allowed */

/* ---- Use ------------------------------------------------------------------------------------- */

/* true when one more call can be started: READY, and the peer's limit of streams allows it. */
bool lg_http2_has_room(const struct lg_http2 *h);

/* Gives a begun call a stream; nothing is written before lg_http2_flush(). Only with room. */
void lg_http2_start(struct lg_http2 *h, struct lg_rpc *rpc);

/* Resets the stream of an open call (CANCEL) and lets go of the call, whose code and words are set:
 * it is ended. */
void lg_http2_cancel(struct lg_http2 *h, struct lg_rpc *rpc, uint64_t now_ns);

/* Ends all calls as UNAVAILABLE. */
void lg_http2_end_all(struct lg_http2 *h, uint64_t now_ns);

/* Writes what there is to write, up to what the socket takes. */
void lg_http2_flush(struct lg_http2 *h, uint64_t now_ns);

/* The socket is ready: ends the connecting, or reads once, up to LG_RECEIVE_BYTES into memory, and
 * handles what came. now_ns is the time that ended calls get. */
void lg_http2_receive(struct lg_http2 *h, uint8_t *memory, uint64_t now_ns);

/* Gives the connection up: FAILED, with the reason. */
void lg_http2_fail(struct lg_http2 *h, const char *why);

/* ---- Inspect --------------------------------------------------------------------------------- */

enum lg_http2_state lg_http2_state(const struct lg_http2 *h);
const char *lg_http2_why(const struct lg_http2 *h); /* FAILED: fit for a terminal */
bool lg_http2_is_idle(const struct lg_http2 *h);    /* has no calls */
bool lg_http2_was_useful(const struct lg_http2 *h); /* a call got an answer here */
int lg_http2_fd(const struct lg_http2 *h);          /* -1 when FAILED */
short lg_http2_events(const struct lg_http2 *h);    /* what to poll it for */

#endif
