#include "loadgen/grpc_wire.h"

#include "base/assert.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Codes ----------------------------------------------------------------------------------- */

static const char *const code_names[LG_CODE_COUNT] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    "OTHER",
};

const char *lg_code_name(uint32_t slot)
{
    return code_names[slot < LG_CODE_COUNT ? slot : LG_CODE_COUNT - 1];
}

uint32_t lg_code_of_http_status(uint32_t status)
{
    switch (status) {
    case 400:
        return LG_CODE_INTERNAL;
    case 401:
        return LG_CODE_UNAUTHENTICATED;
    case 403:
        return LG_CODE_PERMISSION_DENIED;
    case 404:
        return LG_CODE_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return LG_CODE_UNAVAILABLE;
    default:
        return LG_CODE_UNKNOWN;
    }
}

uint32_t lg_code_of_reset(uint32_t error_code)
{
    switch (error_code) {
    case 0x7: // REFUSED_STREAM
        return LG_CODE_UNAVAILABLE;
    case 0x8: // CANCEL
        return LG_CODE_CANCELLED;
    case 0xb: // ENHANCE_YOUR_CALM
        return LG_CODE_RESOURCE_EXHAUSTED;
    case 0xc: // INADEQUATE_SECURITY
        return LG_CODE_PERMISSION_DENIED;
    default:
        return LG_CODE_INTERNAL;
    }
}

/* ---- Headers --------------------------------------------------------------------------------- */

bool lg_wire_number(const uint8_t *text, size_t length, uint32_t *out)
{
    if (length == 0 || length > 9) {
        return false;
    }
    uint32_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *out = value;
    return true;
}

size_t lg_wire_timeout(uint64_t timeout_ns, char out[LG_TIMEOUT_BYTES])
{
    static const struct {
        char name;
        uint64_t ns;
    } units[] = {
        {'n', 1},
        {'u', BASE_NS_PER_US},
        {'m', BASE_NS_PER_MS},
        {'S', BASE_NS_PER_S},
    };
    base_assert(timeout_ns > 0);
    size_t at = 0;
    uint64_t value = timeout_ns;
    while (value > 99999999 && at + 1 < sizeof(units) / sizeof(units[0])) {
        at++;
        value = timeout_ns / units[at].ns + (timeout_ns % units[at].ns != 0);
    }
    value = value > 99999999 ? 99999999 : value; // three years, as good as none
    int length = snprintf(out, LG_TIMEOUT_BYTES, "%" PRIu64 "%c", value, units[at].name);
    base_assert(length > 0 && (size_t)length < LG_TIMEOUT_BYTES);
    return (size_t)length;
}

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One character from text[*at], which moves behind it. Broken escapes stand for themselves, as the
 * protocol asks. */
static uint8_t decode_at(const uint8_t *text, size_t length, size_t *at)
{
    uint8_t c = text[(*at)++];
    if (c == '%' && length - *at >= 2 && hex_digit(text[*at]) >= 0 &&
        hex_digit(text[*at + 1]) >= 0) {
        c = (uint8_t)(hex_digit(text[*at]) * 16 + hex_digit(text[*at + 1]));
        *at += 2;
    }
    return c;
}

void lg_wire_words(const uint8_t *text, size_t length, bool decode, char *out, size_t out_bytes)
{
    base_assert(out_bytes > 0);
    size_t at = 0;
    size_t count = 0;
    uint8_t before = 0;
    while (at < length && count + 1 < out_bytes) {
        uint8_t c = decode ? decode_at(text, length, &at) : text[at++];
        // Also those of the upper half, which UTF-8 writes as C2 80 to C2 9F.
        bool control = c < 0x20 || c == 0x7f || (before == 0xc2 && c >= 0x80 && c <= 0x9f);
        before = c;
        out[count++] = (char)(control ? '?' : c);
    }
    out[count] = '\0';
}

/* ---- Messages -------------------------------------------------------------------------------- */

void lg_wire_prefix(uint64_t length, uint8_t out[LG_PREFIX_BYTES])
{
    base_assert(length <= UINT32_MAX);
    out[0] = 0;
    for (uint32_t i = 0; i < 4; i++) {
        out[1 + i] = (uint8_t)(length >> (24 - 8 * i));
    }
}

static size_t smaller(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

enum lg_piece lg_reader_take(struct lg_reader *reader, const uint8_t *bytes, size_t length,
                             size_t *taken)
{
    base_debug_assert(length > 0);
    *taken = 0;
    if (!lg_reader_has_prefix(reader)) {
        *taken = smaller(LG_PREFIX_BYTES - reader->prefix_bytes, length);
        memcpy(reader->prefix + reader->prefix_bytes, bytes, *taken);
        reader->prefix_bytes = (uint8_t)(reader->prefix_bytes + *taken);
        if (reader->prefix[0] != 0) {
            return LG_PIECE_COMPRESSED;
        }
        for (uint32_t i = 0; i < 4 && lg_reader_has_prefix(reader); i++) {
            reader->length = reader->length << 8 | reader->prefix[1 + i];
        }
        return LG_PIECE_PREFIX;
    }
    if (reader->message_bytes == reader->length) {
        return LG_PIECE_TOO_MUCH;
    }
    *taken = smaller(reader->length - reader->message_bytes, length);
    reader->message_bytes += *taken;
    return LG_PIECE_MESSAGE;
}
