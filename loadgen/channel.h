/* A connection to the server that is made again when it is lost. Calls wait here for a connection
 * and for room on it, in their order.
 *
 * The first attempt begins with the first call, and each later one with a call too: at once when
 * the connection before had answered anything, else after a pause of 100 ms, doubled to at most 1
 * s. While an attempt is made calls wait for its end; in a pause they end as UNAVAILABLE, with the
 * reason of the last attempt. After a GOAWAY the calls that the server still answers stay on the
 * old connection, and new ones go to a new one. One thread at a time, the client's. */
#ifndef LOADGEN_CHANNEL_H
#define LOADGEN_CHANNEL_H

#include "loadgen/address.h"
#include "loadgen/http2.h"
#include "loadgen/rpc.h"

#include <stdint.h>

struct lg_channel {
    const struct lg_addresses *addresses;
    const struct lg_tls *tls; /* NULL: clear text */
    const char *authority;
    struct lg_rpc_list *ended;
    struct lg_http2 *current;  /* NULL: none */
    struct lg_http2 *draining; /* had a GOAWAY; NULL: none */
    struct lg_rpc_list waiting;
    uint32_t address_at;     /* of the attempt */
    uint64_t attempt_end_ns; /* an attempt may last until then */
    uint64_t retry_ns;       /* no attempt before */
    uint64_t pause_ns;       /* the next one */
    char why[LG_WORDS_BYTES];
};

/* All pointers must outlive the channel. Takes no memory yet. */
void lg_channel_init(struct lg_channel *channel, const struct lg_addresses *addresses,
                     const char *authority, struct lg_rpc_list *ended);

/* Closes the connections. No call is left: all have been cancelled, or have ended. */
void lg_channel_release(struct lg_channel *channel);

void lg_channel_start(struct lg_channel *channel, struct lg_rpc *rpc, uint64_t now_ns);

/* Ends a call that has not ended, whose code and words are set. */
void lg_channel_cancel(struct lg_channel *channel, struct lg_rpc *rpc, uint64_t now_ns);

/* Gives waiting calls their streams, as far as there is room, and writes. */
void lg_channel_flush(struct lg_channel *channel, uint64_t now_ns);

/* One of the two connections is ready to be read, or written to. */
void lg_channel_receive(struct lg_channel *channel, struct lg_http2 *connection, uint8_t *memory,
                        uint64_t now_ns);

#endif
