/* The rules of an answer: response headers, one message with its prefix (of a stream several),
 * trailers with grpc-status; or trailers alone. What is missing or too much becomes a status of its
 * own. */
#include "loadgen/rpc.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HTTP_OK 200u

void lg_rpc_begin(struct lg_rpc *rpc)
{
    rpc->code = LG_CODE_UNKNOWN;
    rpc->ended_ns = 0;
    rpc->first_ns = 0;
    rpc->n_messages = 0;
    rpc->words[0] = '\0';
    rpc->before = NULL;
    rpc->after = NULL;
    rpc->channel = NULL;
    rpc->connection = NULL;
    rpc->stream_id = 0;
    rpc->sent_bytes = 0;
    rpc->reader = (struct lg_reader){0};
    rpc->http_status = 0;
    rpc->header_bytes = 0;
    rpc->has_code = false;
    rpc->not_grpc = false;
}

void lg_rpc_send(struct lg_rpc *rpc, uint8_t *out, size_t length)
{
    base_assert(length <= lg_rpc_bytes_left(rpc));
    if (rpc->sent_bytes < LG_PREFIX_BYTES) {
        uint8_t prefix[LG_PREFIX_BYTES];
        lg_wire_prefix(rpc->message_bytes, prefix);
        size_t left = LG_PREFIX_BYTES - (size_t)rpc->sent_bytes;
        size_t count = length < left ? length : left;
        memcpy(out, prefix + rpc->sent_bytes, count);
        rpc->sent_bytes += count;
        out += count;
        length -= count;
    }
    if (length > 0) {
        rpc->read(rpc, rpc->sent_bytes - LG_PREFIX_BYTES, length, out);
        rpc->sent_bytes += length;
    }
}

/* ---- The answer ------------------------------------------------------------------------------ */

static bool is(const char *wanted, const uint8_t *text, size_t length)
{
    return strlen(wanted) == length && memcmp(wanted, text, length) == 0;
}

static void take_content_type(struct lg_rpc *rpc, const uint8_t *value, size_t length)
{
    static const char wanted[] = "application/grpc";
    if (length >= sizeof(wanted) - 1 && memcmp(value, wanted, sizeof(wanted) - 1) == 0) {
        return;
    }
    char type[64];
    lg_wire_words(value, length, false, type, sizeof(type));
    lg_rpc_fail(rpc, LG_CODE_UNKNOWN, "the answer is no gRPC but %s", type);
    rpc->not_grpc = true;
}

static void take_code(struct lg_rpc *rpc, const uint8_t *value, size_t length)
{
    if (!lg_wire_number(value, length, &rpc->code)) {
        lg_rpc_fail(rpc, LG_CODE_UNKNOWN, "grpc-status is no number");
    }
    rpc->has_code = true;
}

void lg_rpc_header(struct lg_rpc *rpc, const uint8_t *name, size_t name_length,
                   const uint8_t *value, size_t value_length)
{
    if (is("grpc-status", name, name_length)) {
        take_code(rpc, value, value_length);
    } else if (is("grpc-message", name, name_length)) {
        if (rpc->has_code && rpc->code == LG_CODE_OK) {
            return; // nobody reads it
        }
        lg_wire_words(value, value_length, true, rpc->words, sizeof(rpc->words));
    } else if (is(":status", name, name_length)) {
        (void)lg_wire_number(value, value_length, &rpc->http_status);
    } else if (is("content-type", name, name_length)) {
        take_content_type(rpc, value, value_length);
    }
}

static bool keep(struct lg_rpc *rpc, const uint8_t *bytes, size_t length)
{
    base_buf_add(rpc->reply, bytes, length);
    if (rpc->reply->failed) {
        lg_rpc_fail(rpc, LG_CODE_RESOURCE_EXHAUSTED, "no memory for the answer");
        return false;
    }
    return true;
}

static bool fits(struct lg_rpc *rpc)
{
    if (rpc->reply == NULL || !lg_reader_has_prefix(&rpc->reader) ||
        rpc->reader.length <= rpc->reply->limit - rpc->reply->length) {
        return true;
    }
    lg_rpc_fail(rpc, LG_CODE_RESOURCE_EXHAUSTED, "an answer of %" PRIu64 " bytes is too large",
                rpc->reader.length);
    return false;
}

/* Of a stream another may follow. */
static void count_whole(struct lg_rpc *rpc, uint64_t now_ns)
{
    if (!lg_reader_is_whole(&rpc->reader)) {
        return;
    }
    rpc->first_ns = rpc->n_messages == 0 ? now_ns : rpc->first_ns;
    rpc->n_messages++;
    if (rpc->is_stream) {
        rpc->reader = (struct lg_reader){0};
    }
}

bool lg_rpc_data(struct lg_rpc *rpc, const uint8_t *bytes, size_t length, uint64_t now_ns)
{
    if (rpc->not_grpc || rpc->http_status != HTTP_OK) {
        return true; // somebody's page, which is not looked at
    }
    size_t taken = 0;
    for (size_t at = 0; at < length; at += taken) {
        switch (lg_reader_take(&rpc->reader, bytes + at, length - at, &taken)) {
        case LG_PIECE_PREFIX:
            if (!fits(rpc)) {
                return false;
            }
            break;
        case LG_PIECE_MESSAGE:
            if (rpc->reply != NULL && !keep(rpc, bytes + at, taken)) {
                return false;
            }
            break;
        case LG_PIECE_COMPRESSED:
            lg_rpc_fail(rpc, LG_CODE_INTERNAL, "the answer is compressed, which was not asked for");
            return false;
        case LG_PIECE_TOO_MUCH:
            lg_rpc_fail(rpc, LG_CODE_INTERNAL, "more than one message in the answer");
            return false;
        }
        count_whole(rpc, now_ns);
    }
    return true;
}

void lg_rpc_judge(struct lg_rpc *rpc)
{
    const struct lg_reader *reader = &rpc->reader;
    if (!rpc->has_code) {
        if (rpc->http_status != HTTP_OK) {
            lg_rpc_fail(rpc, lg_code_of_http_status(rpc->http_status), "HTTP status %u",
                        rpc->http_status);
        } else if (!rpc->not_grpc) {
            lg_rpc_fail(rpc, LG_CODE_UNKNOWN, "the answer ends without grpc-status");
        }
    } else if (rpc->code == LG_CODE_OK && rpc->n_messages == 0 && !lg_reader_has_prefix(reader)) {
        lg_rpc_fail(rpc, LG_CODE_INTERNAL, "no message in the answer");
    } else if (rpc->code == LG_CODE_OK && reader->prefix_bytes > 0 && !lg_reader_is_whole(reader)) {
        lg_rpc_fail(rpc, LG_CODE_INTERNAL, "the answer ends after %" PRIu64 " of %" PRIu64 " bytes",
                    reader->message_bytes, reader->length);
    }
}

void lg_rpc_fail(struct lg_rpc *rpc, uint32_t code, const char *format, ...)
{
    base_assert(code != LG_CODE_OK);
    rpc->code = code;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(rpc->words, sizeof(rpc->words), format, arguments);
    va_end(arguments);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

void lg_rpc_list_add(struct lg_rpc_list *list, struct lg_rpc *rpc)
{
    base_debug_assert(rpc->before == NULL && rpc->after == NULL);
    rpc->before = list->last;
    if (list->last == NULL) {
        list->first = rpc;
    } else {
        list->last->after = rpc;
    }
    list->last = rpc;
}

void lg_rpc_list_remove(struct lg_rpc_list *list, struct lg_rpc *rpc)
{
    base_debug_assert(rpc->before != NULL || list->first == rpc);
    if (rpc->before == NULL) {
        list->first = rpc->after;
    } else {
        rpc->before->after = rpc->after;
    }
    if (rpc->after == NULL) {
        list->last = rpc->before;
    } else {
        rpc->after->before = rpc->before;
    }
    rpc->before = NULL;
    rpc->after = NULL;
}

void lg_rpc_end(struct lg_rpc *rpc, struct lg_rpc_list *ended, uint64_t now_ns)
{
    base_assert(rpc->state == LG_RPC_WAITING || rpc->state == LG_RPC_OPEN);
    rpc->state = LG_RPC_ENDED;
    rpc->ended_ns = now_ns;
    lg_rpc_list_add(ended, rpc);
}
