/* gRPC over HTTP/2 as bytes and numbers, without a connection: codes, the message prefix,
 * time-outs, the server's words.
 *
 * Specifications: "gRPC over HTTP2" (PROTOCOL-HTTP2.md) and "HTTP to gRPC Status Code Mapping"
 * (http-grpc-status-mapping.md) of the gRPC project; error codes of HTTP/2 as in RFC 9113, 7. No
 * function here blocks, allocates or keeps anything. Any thread. */
#ifndef LOADGEN_GRPC_WIRE_H
#define LOADGEN_GRPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Codes ----------------------------------------------------------------------------------- */

/* A server may send numbers beyond these, so codes travel as uint32_t. */
enum lg_code {
    LG_CODE_OK = 0,
    LG_CODE_CANCELLED = 1,
    LG_CODE_UNKNOWN = 2,
    LG_CODE_INVALID_ARGUMENT = 3,
    LG_CODE_DEADLINE_EXCEEDED = 4,
    LG_CODE_NOT_FOUND = 5,
    LG_CODE_ALREADY_EXISTS = 6,
    LG_CODE_PERMISSION_DENIED = 7,
    LG_CODE_RESOURCE_EXHAUSTED = 8,
    LG_CODE_FAILED_PRECONDITION = 9,
    LG_CODE_ABORTED = 10,
    LG_CODE_OUT_OF_RANGE = 11,
    LG_CODE_UNIMPLEMENTED = 12,
    LG_CODE_INTERNAL = 13,
    LG_CODE_UNAVAILABLE = 14,
    LG_CODE_DATA_LOSS = 15,
    LG_CODE_UNAUTHENTICATED = 16,
};

/* Codes 0..16 have names; the last slot counts all others. */
#define LG_CODE_COUNT 18u

/* The slot of a code: itself, or the last. */
static inline uint32_t lg_code_slot(uint32_t code)
{
    return code < LG_CODE_COUNT - 1 ? code : LG_CODE_COUNT - 1;
}

/* The name of a slot, such as "UNAVAILABLE"; "OTHER" for the last. */
const char *lg_code_name(uint32_t slot);

/* What a call ends with when its server sent this HTTP status and no grpc-status. */
uint32_t lg_code_of_http_status(uint32_t status);

/* What a call ends with when its stream was reset with this HTTP/2 error code. */
uint32_t lg_code_of_reset(uint32_t error_code);

/* ---- Headers --------------------------------------------------------------------------------- */

/* Unsigned decimal digits and nothing else; false for others and for more than 9 digits. */
bool lg_wire_number(const uint8_t *text, size_t length, uint32_t *out);

#define LG_TIMEOUT_BYTES 12u

/* The value of grpc-timeout: at most eight digits and a unit, rounded up. timeout_ns > 0. Returns
 * the length, without the NUL. */
size_t lg_wire_timeout(uint64_t timeout_ns, char out[LG_TIMEOUT_BYTES]);

/* Words from a server made fit for a terminal: %XX decoded where decode is set, control characters
 * replaced, cut to out_bytes with the NUL. out_bytes > 0. */
void lg_wire_words(const uint8_t *text, size_t length, bool decode, char *out, size_t out_bytes);

/* ---- Messages -------------------------------------------------------------------------------- */

/* Before each message: a flag byte (1 = compressed) and the length, big-endian. */
#define LG_PREFIX_BYTES 5u

/* length <= UINT32_MAX. */
void lg_wire_prefix(uint64_t length, uint8_t out[LG_PREFIX_BYTES]);

/* Takes the one message of a unary answer apart, in pieces of any size. Begin with all zero. */
struct lg_reader {
    uint8_t prefix[LG_PREFIX_BYTES];
    uint8_t prefix_bytes;   /* of these, seen */
    uint64_t length;        /* of the message, once the prefix is whole */
    uint64_t message_bytes; /* of these, seen */
};

enum lg_piece {
    LG_PIECE_PREFIX,     /* the piece belonged to the prefix */
    LG_PIECE_MESSAGE,    /* *bytes is part of the message */
    LG_PIECE_COMPRESSED, /* the prefix says so, which nobody asked for */
    LG_PIECE_TOO_MUCH,   /* bytes behind the message */
};

/* Takes the first piece of *bytes, *length > 0 of them, and says what it is; *taken <= *length, > 0
 * unless the answer is wrong. */
enum lg_piece lg_reader_take(struct lg_reader *reader, const uint8_t *bytes, size_t length,
                             size_t *taken);

static inline bool lg_reader_has_prefix(const struct lg_reader *reader)
{
    return reader->prefix_bytes == LG_PREFIX_BYTES;
}

static inline bool lg_reader_is_whole(const struct lg_reader *reader)
{
    return lg_reader_has_prefix(reader) && reader->message_bytes == reader->length;
}

#endif
