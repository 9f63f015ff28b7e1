/* A vocabulary: the text of each id, and the id of each text. Immutable after load, so that any
 * thread may look; loading is the loop thread's.
 *
 *   bytes       256 ids, each the byte of that value
 *   words       a file, the text of id i on line i + 1; in a text, words stand between blanks
 *   characters  the same, but a text is taken character by character (UTF-8) */
#ifndef SERVER_VOCABULARY_H
#define SERVER_VOCABULARY_H

#include "base/status.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest file, and most of its lines. */
#define SRV_VOCABULARY_BYTES_MAX ((size_t)64 << 20)
#define SRV_VOCABULARY_LINES_MAX (1u << 24)

#define SRV_VOCABULARY_NONE (-1)

struct srv_vocabulary;

/* A piece of a text; not terminated. */
struct srv_word {
    const char *text;
    size_t length;
};

/* Reads path, which BYTES has none of (NULL); messages call it name. A line ends with \n or \r\n
 * and holds at least one byte; no two are alike. INVALID_ARGUMENT names the line; NOT_FOUND,
 * RESOURCE_EXHAUSTED. */
enum base_status srv_vocabulary_load(enum cfg_vocabulary_kind kind, const char *path,
                                     const char *name, struct srv_vocabulary **out,
                                     struct base_error *error) __attribute__((warn_unused_result));
void srv_vocabulary_free(struct srv_vocabulary *vocabulary); /* NULL is allowed */

enum cfg_vocabulary_kind srv_vocabulary_kind(const struct srv_vocabulary *vocabulary);
uint32_t srv_vocabulary_count(const struct srv_vocabulary *vocabulary);

/* The id of a word, or SRV_VOCABULARY_NONE. */
int64_t srv_vocabulary_find(const struct srv_vocabulary *vocabulary, struct srv_word word);

/* The text of id, 0..count-1. */
struct srv_word srv_vocabulary_word(const struct srv_vocabulary *vocabulary, uint32_t id);

/* Takes the next word of *rest into *out and moves *rest behind it; false at its end. What is no
 * UTF-8 comes byte by byte. */
bool srv_vocabulary_next(const struct srv_vocabulary *vocabulary, struct srv_word *rest,
                         struct srv_word *out);

/* Whether words of a text, but not the first, have a blank before them. */
bool srv_vocabulary_has_blanks(const struct srv_vocabulary *vocabulary);

/* A blank between words: space, tab, line feed, carriage return. */
bool srv_vocabulary_is_blank(char c);

#endif
