/* The protobuf wire format, in place.
 *
 * A reader is three words; nested messages are read by opening another reader over a field's bytes,
 * to a depth the caller's code fixes, so hostile nesting costs nothing. Every length is compared
 * with what is left before it is used. Cost: a few nanoseconds a field. */
#include "server/grpc/wire.h"

#include "base/assert.h"
#include "base/utf8.h"

#include <string.h>

static bool broken(struct srv_grpc_wire *wire)
{
    wire->broken = true;
    wire->at = wire->end;
    return false;
}

bool srv_grpc_wire_varint(struct srv_grpc_wire *wire, uint64_t *value)
{
    uint64_t sum = 0;
    for (uint32_t shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = sum;
            // The tenth byte holds the 64th bit alone.
            return shift < 63 || byte <= 1 ? true : broken(wire);
        }
    }
    return broken(wire);
}

static bool take_fixed(struct srv_grpc_wire *wire, uint32_t bytes, uint64_t *value)
{
    if ((size_t)(wire->end - wire->at) < bytes) {
        return broken(wire);
    }
    *value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        *value |= (uint64_t)wire->at[i] << (8 * i);
    }
    wire->at += bytes;
    return true;
}

bool srv_grpc_wire_next(struct srv_grpc_wire *wire, struct srv_grpc_field *field)
{
    if (wire->at == wire->end) {
        return false;
    }
    uint64_t tag;
    if (!srv_grpc_wire_varint(wire, &tag)) {
        return false;
    }
    // Field numbers have 29 bits; 0 is none.
    if (tag > UINT32_MAX || tag >> 3 == 0) {
        return broken(wire);
    }
    field->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case SRV_GRPC_VARINT:
        field->type = SRV_GRPC_VARINT;
        return srv_grpc_wire_varint(wire, &field->value);
    case SRV_GRPC_FIXED64:
        field->type = SRV_GRPC_FIXED64;
        return take_fixed(wire, 8, &field->value);
    case SRV_GRPC_FIXED32:
        field->type = SRV_GRPC_FIXED32;
        return take_fixed(wire, 4, &field->value);
    case SRV_GRPC_BYTES: {
        uint64_t length;
        if (!srv_grpc_wire_varint(wire, &length)) {
            return false;
        }
        if (length > (size_t)(wire->end - wire->at)) {
            return broken(wire);
        }
        field->type = SRV_GRPC_BYTES;
        field->bytes = (struct srv_grpc_bytes){wire->at, (size_t)length};
        wire->at += length;
        return true;
    }
    default:
        return broken(wire);
    }
}

bool srv_grpc_wire_count_varints(struct srv_grpc_bytes packed, size_t *count)
{
    // Each varint has one byte without the continuation bit, its last.
    *count = 0;
    for (size_t i = 0; i < packed.length; i++) {
        *count += packed.data[i] < 0x80;
    }
    return packed.length == 0 || packed.data[packed.length - 1] < 0x80;
}

bool srv_grpc_wire_is_text(struct srv_grpc_bytes text)
{
    size_t at = 0;
    while (at < text.length) {
        size_t bytes = base_utf8_length((const char *)text.data + at, text.length - at);
        if (bytes == 0 || text.data[at] == 0) {
            return false;
        }
        at += bytes;
    }
    return true;
}

bool srv_grpc_bytes_equal(struct srv_grpc_bytes bytes, const char *text)
{
    size_t length = strlen(text);
    return bytes.length == length && (length == 0 || memcmp(bytes.data, text, length) == 0);
}

size_t srv_grpc_varint_bytes(uint64_t value)
{
    size_t bytes = 1;
    while (value >= 0x80) {
        value >>= 7;
        bytes++;
    }
    return bytes;
}

size_t srv_grpc_field_bytes(size_t length)
{
    return 1 + srv_grpc_varint_bytes(length) + length;
}

uint8_t *srv_grpc_put_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

uint8_t *srv_grpc_put_tag(uint8_t *at, uint32_t number, enum srv_grpc_wire_type type)
{
    base_debug_assert(number >= 1 && number <= 15);
    *at++ = (uint8_t)(number << 3 | type);
    return at;
}

uint8_t *srv_grpc_put_bytes(uint8_t *at, uint32_t number, const void *bytes, size_t length)
{
    at = srv_grpc_put_tag(at, number, SRV_GRPC_BYTES);
    at = srv_grpc_put_varint(at, length);
    if (length > 0) {
        memcpy(at, bytes, length);
    }
    return at + length;
}
