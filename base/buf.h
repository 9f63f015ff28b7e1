/* Growable byte buffer for text and encoded messages. After a failed append the buffer stays
 * failed (bytes unchanged), so a writer checks once at the end. Not thread-safe. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_buf {
    char *data; /* length bytes and a NUL; NULL before the first append */
    size_t length;
    size_t capacity;
    size_t limit; /* appends that would pass it fail */
    bool failed;  /* out of memory or over the limit */
};

void base_buf_init(struct base_buf *buf, size_t limit);
void base_buf_clear(struct base_buf *buf); /* keeps the memory, clears failed */
void base_buf_release(struct base_buf *buf);

void base_buf_add(struct base_buf *buf, const void *bytes, size_t length);
void base_buf_text(struct base_buf *buf, const char *text);
void base_buf_printf(struct base_buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Grows by length bytes and returns where they start (not initialised), or NULL. */
void *base_buf_grow(struct base_buf *buf, size_t length);

/* Appends text as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void base_buf_json_string(struct base_buf *buf, const char *text, size_t length);

#endif
