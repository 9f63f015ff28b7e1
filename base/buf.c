/* Growable bytes with a sticky failure. Capacity doubles, so appending n bytes one by one costs
 * O(n) and log n allocations; one byte more than the capacity is always there for the NUL. One
 * thread at a time. */
#include "base/buf.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CAPACITY_MIN 64u

void base_buf_init(struct base_buf *buf, size_t limit)
{
    base_assert(limit < SIZE_MAX);
    *buf = (struct base_buf){.limit = limit};
}

void base_buf_clear(struct base_buf *buf)
{
    buf->length = 0;
    buf->failed = false;
    if (buf->data != NULL) {
        buf->data[0] = '\0';
    }
}

void base_buf_release(struct base_buf *buf)
{
    base_free(buf->data);
    *buf = (struct base_buf){.limit = buf->limit};
}

/* Makes room for length more bytes and a NUL; false, and failed set, when that cannot be. */
static bool reserve(struct base_buf *buf, size_t length)
{
    size_t wanted;
    if (buf->failed || !base_size_add(buf->length, length, &wanted) || wanted > buf->limit) {
        buf->failed = true;
        return false;
    }
    if (buf->data != NULL && wanted <= buf->capacity) {
        return true;
    }
    size_t capacity = buf->capacity > SIZE_MAX / 2 ? SIZE_MAX : 2 * buf->capacity;
    capacity = capacity < CAPACITY_MIN ? CAPACITY_MIN : capacity;
    capacity = capacity < wanted ? wanted : capacity;
    capacity = capacity > buf->limit ? buf->limit : capacity;
    char *data = base_realloc(buf->data, capacity + 1);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

void *base_buf_grow(struct base_buf *buf, size_t length)
{
    if (!reserve(buf, length)) {
        return NULL;
    }
    char *start = buf->data + buf->length;
    buf->length += length;
    buf->data[buf->length] = '\0';
    return start;
}

void base_buf_add(struct base_buf *buf, const void *bytes, size_t length)
{
    void *start = base_buf_grow(buf, length);
    if (start != NULL && length > 0) {
        memcpy(start, bytes, length);
    }
}

void base_buf_text(struct base_buf *buf, const char *text)
{
    base_buf_add(buf, text, strlen(text));
}

void base_buf_printf(struct base_buf *buf, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buf->failed = true;
        return;
    }
    char *start = base_buf_grow(buf, (size_t)length);
    if (start != NULL) {
        va_start(arguments, format);
        (void)vsnprintf(start, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
}

static void add_json_ascii(struct base_buf *buf, unsigned char byte)
{
    static const char *const escapes[0x20] = {
        ['\b'] = "\\b", ['\f'] = "\\f", ['\n'] = "\\n", ['\r'] = "\\r", ['\t'] = "\\t"};
    if (byte == '"' || byte == '\\') {
        base_buf_add(buf, "\\", 1);
        base_buf_add(buf, &byte, 1);
    } else if (byte >= 0x20) {
        base_buf_add(buf, &byte, 1);
    } else if (escapes[byte] != NULL) {
        base_buf_text(buf, escapes[byte]);
    } else {
        base_buf_printf(buf, "\\u%04x", byte);
    }
}

void base_buf_json_string(struct base_buf *buf, const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t start = buf->length;
    base_buf_add(buf, "\"", 1);
    size_t i = 0;
    while (i < length && !buf->failed) {
        size_t sequence = base_utf8_length(text + i, length - i);
        if (sequence == 0) {
            base_buf_text(buf, "\xEF\xBF\xBD"); // U+FFFD, one for each bad byte
            i++;
        } else if (sequence == 1) {
            add_json_ascii(buf, bytes[i]);
            i++;
        } else {
            base_buf_add(buf, bytes + i, sequence);
            i += sequence;
        }
    }
    base_buf_add(buf, "\"", 1);
    if (buf->failed && buf->data != NULL) {
        buf->length = start; // all or nothing
        buf->data[start] = '\0';
    }
}
