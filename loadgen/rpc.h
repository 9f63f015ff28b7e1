/* One gRPC call with one message to the server and one or, of a stream, several back: what it
 * sends, what has come of its answer, how it ended. It knows the wire's rules (grpc_wire.h), and
 * neither a socket nor HTTP/2's frames: those are in http2.h.
 *
 * The owner embeds a struct lg_rpc, fills the first part, gives it to lg_client_start(), and must
 * not touch it until lg_client_take() hands it back; then it may be used again. Nothing is
 * allocated. One thread, the client's. */
#ifndef LOADGEN_RPC_H
#define LOADGEN_RPC_H

#include "base/buf.h"
#include "loadgen/grpc_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest words of a server that are kept, with the NUL. */
#define LG_WORDS_BYTES 256u

struct lg_rpc;
struct lg_http2;
struct lg_channel;

/* Copies length bytes of the message from offset; they are there. */
typedef void lg_rpc_read(const struct lg_rpc *rpc, uint64_t offset, size_t length, uint8_t *out);

enum lg_rpc_state {
    LG_RPC_FREE,    /* the owner's */
    LG_RPC_WAITING, /* for a connection, or for room on it */
    LG_RPC_OPEN,    /* has a stream */
    LG_RPC_ENDED,   /* waits to be taken */
};

struct lg_rpc {
    /* Set by the owner before the start. */
    const char *path;
    lg_rpc_read *read;
    uint64_t message_bytes;    /* <= UINT32_MAX */
    uint64_t timeout_ns;       /* told to the server; 0 = none. Keeping it is the owner's task. */
    const char *authorization; /* of the client's; NULL: none is sent */
    struct base_buf *reply;    /* the answer's message is appended; NULL = it is only counted */
    /* The answer has any number of messages, one at least; an error is asked for as the status of
     * the call, where a server would send a message (Triton's `triton_grpc_error`). */
    bool is_stream;

    /* How it ended. */
    uint32_t code; /* enum lg_code, or a number that gRPC does not name */
    uint64_t ended_ns;
    uint64_t first_ns;          /* when the first message was whole; 0: none was */
    uint32_t n_messages;        /* that were */
    char words[LG_WORDS_BYTES]; /* fit for a terminal; "" = none */

    /* Private to loadgen/: the call on its way. */
    enum lg_rpc_state state;
    struct lg_rpc *before, *after; /* in one list at a time */
    struct lg_channel *channel;
    struct lg_http2 *connection; /* while open */
    int32_t stream_id;
    uint64_t sent_bytes; /* of prefix and message */
    struct lg_reader reader;
    uint32_t http_status;
    uint32_t header_bytes;
    bool has_code; /* grpc-status has come */
    bool not_grpc; /* another content-type has come */
};

/* Forgets the last use. */
void lg_rpc_begin(struct lg_rpc *rpc);

static inline uint64_t lg_rpc_bytes_left(const struct lg_rpc *rpc)
{
    return LG_PREFIX_BYTES + rpc->message_bytes - rpc->sent_bytes;
}

/* Takes the next length bytes of prefix and message, at most lg_rpc_bytes_left(). */
void lg_rpc_send(struct lg_rpc *rpc, uint8_t *out, size_t length);

/* A header or trailer of the answer. */
void lg_rpc_header(struct lg_rpc *rpc, const uint8_t *name, size_t name_length,
                   const uint8_t *value, size_t value_length);

/* Bytes of the answer, that came at now_ns. false: the answer is wrong, and code and words say how.
 */
bool lg_rpc_data(struct lg_rpc *rpc, const uint8_t *bytes, size_t length, uint64_t now_ns)
    __attribute__((warn_unused_result));

/* The answer is complete: decides code and words. */
void lg_rpc_judge(struct lg_rpc *rpc);

/* Sets code and words. */
void lg_rpc_fail(struct lg_rpc *rpc, uint32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Lists ----------------------------------------------------------------------------------- */

struct lg_rpc_list {
    struct lg_rpc *first, *last;
};

void lg_rpc_list_add(struct lg_rpc_list *list, struct lg_rpc *rpc);
void lg_rpc_list_remove(struct lg_rpc_list *list, struct lg_rpc *rpc);

/* Puts an ended call, which is in no list, behind those that wait to be taken. */
void lg_rpc_end(struct lg_rpc *rpc, struct lg_rpc_list *ended, uint64_t now_ns);

#endif
