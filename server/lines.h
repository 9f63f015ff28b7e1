/* Files of lines: vocabularies, and the merges that cut words. Pure but for the reading. */
#ifndef SERVER_LINES_H
#define SERVER_LINES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest file, and most of its lines. */
#define SRV_LINES_BYTES_MAX ((size_t)64 << 20)
#define SRV_LINES_MAX       (1u << 24)

/* A piece of a text; not terminated. */
struct srv_word {
    const char *text;
    size_t length;
    bool goes_on; /* others of the same word follow (server/bpe.h) */
};

/* The file in *out, which the caller frees, also when it is refused; messages call it name.
 * INVALID_ARGUMENT: it cannot be read, or has not 1 to SRV_LINES_MAX lines; NOT_FOUND,
 * RESOURCE_EXHAUSTED. */
struct srv_lines {
    char *text;
    size_t length;
    uint32_t count; /* what stands behind the last line feed is a line too, unless it is empty */
};
enum base_status srv_lines_read(const char *path, const char *name, struct srv_lines *out,
                                struct base_error *error) __attribute__((warn_unused_result));

/* The line that begins at *at, without its end (\n or \r\n), and *at behind it; false at the end.
 */
bool srv_lines_next(const struct srv_lines *lines, size_t *at, struct srv_word *out);

/* For tables of words: as many slots, a power of two, that n of them fill at most half. */
uint32_t srv_lines_slots(uint32_t n);

#endif
