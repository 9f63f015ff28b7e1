/* The protobuf wire format: a reader that walks the fields of one message in place, and a writer
 * for memory whose size was computed before. Pure; nothing is copied, allocated or trusted. */
#ifndef SERVER_GRPC_WIRE_H
#define SERVER_GRPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A slice of a message; data may be NULL while length is 0. */
struct srv_grpc_bytes {
    const uint8_t *data;
    size_t length;
};

/* Wire types by their numbers on the wire. Groups (3 and 4) are refused. */
enum srv_grpc_wire_type {
    SRV_GRPC_VARINT = 0,
    SRV_GRPC_FIXED64 = 1,
    SRV_GRPC_BYTES = 2,
    SRV_GRPC_FIXED32 = 5,
};

struct srv_grpc_field {
    uint32_t number;
    enum srv_grpc_wire_type type;
    uint64_t value;              /* VARINT, FIXED64, FIXED32 */
    struct srv_grpc_bytes bytes; /* BYTES: text, bytes, a message, packed numbers */
};

struct srv_grpc_wire {
    const uint8_t *at, *end;
    bool broken;
};

static inline struct srv_grpc_wire srv_grpc_wire_open(struct srv_grpc_bytes message)
{
    const uint8_t *end = message.length > 0 ? message.data + message.length : message.data;
    return (struct srv_grpc_wire){.at = message.data, .end = end};
}

/* The next field of the message. false at its end, and for good where it is malformed: `broken` is
 * then set. Every field must lie wholly inside the message. */
bool srv_grpc_wire_next(struct srv_grpc_wire *wire, struct srv_grpc_field *field);

/* One varint of a packed list; false (and broken) when there is none. */
bool srv_grpc_wire_varint(struct srv_grpc_wire *wire, uint64_t *value);

/* How many varints a packed list holds; false when the last one does not end. */
bool srv_grpc_wire_count_varints(struct srv_grpc_bytes packed, size_t *count);

/* Text as protobuf demands it, and as C can hold it: UTF-8 without a NUL. */
bool srv_grpc_wire_is_text(struct srv_grpc_bytes text);

bool srv_grpc_bytes_equal(struct srv_grpc_bytes bytes, const char *text);

/* Writing: sizes first, then each function returns the place behind what it wrote. Field numbers
 * 1..15, so a tag is one byte. */
size_t srv_grpc_varint_bytes(uint64_t value);
size_t srv_grpc_field_bytes(size_t length); /* tag, length, and length bytes */
uint8_t *srv_grpc_put_varint(uint8_t *at, uint64_t value);
uint8_t *srv_grpc_put_tag(uint8_t *at, uint32_t number, enum srv_grpc_wire_type type);
uint8_t *srv_grpc_put_bytes(uint8_t *at, uint32_t number, const void *bytes, size_t length);

#endif
