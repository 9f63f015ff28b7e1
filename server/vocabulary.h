/* A vocabulary: the text of each id, and the id of each text. Immutable after load, so that any
 * thread may look; loading is the loop thread's.
 *
 *   bytes       256 ids, each the byte of that value
 *   words       a file, the text of id i on line i + 1; in a text, words stand between blanks
 *   characters  the same, but a text is taken character by character (UTF-8)
 *   bpe         the same, but words are cut into pieces (server/bpe.h); those that others of their
 *               word follow have @@ behind them in the file
 *   sentencepiece  a file of SentencePiece's, which says all of it (server/sentencepiece.h) */
#ifndef SERVER_VOCABULARY_H
#define SERVER_VOCABULARY_H

#include "base/status.h"
#include "config/config.h"
#include "server/bpe.h"
#include "server/lines.h"
#include "server/sentencepiece.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SRV_VOCABULARY_NONE (-1)

struct srv_vocabulary;

/* BYTES has no files; messages call them by name. */
struct srv_vocabulary_source {
    enum cfg_vocabulary_kind kind;
    const char *path, *name;
    const char *codes_path, *codes_name; /* of BPE: its merges */
};

/* A line of the file ends with \n or \r\n and holds at least one byte; no two are alike.
 * INVALID_ARGUMENT names the line; NOT_FOUND, RESOURCE_EXHAUSTED. */
enum base_status srv_vocabulary_load(const struct srv_vocabulary_source *source,
                                     struct srv_vocabulary **out, struct base_error *error)
    __attribute__((warn_unused_result));
void srv_vocabulary_free(struct srv_vocabulary *vocabulary); /* NULL is allowed */

enum cfg_vocabulary_kind srv_vocabulary_kind(const struct srv_vocabulary *vocabulary);
uint32_t srv_vocabulary_count(const struct srv_vocabulary *vocabulary);

/* What cuts its texts and puts them together; NULL of the other kinds, which alone have what is
 * below. */
const struct srv_sentencepiece *
srv_vocabulary_sentencepiece(const struct srv_vocabulary *vocabulary);

/* The id of a word, or of a piece that goes on; or SRV_VOCABULARY_NONE. */
int64_t srv_vocabulary_find(const struct srv_vocabulary *vocabulary, struct srv_word word);

/* The text of id, 0..count-1. */
struct srv_word srv_vocabulary_word(const struct srv_vocabulary *vocabulary, uint32_t id);

/* The words of a text, of BPE their pieces, one after the other. What is no UTF-8 comes byte by
 * byte. */
struct srv_words {
    const struct srv_vocabulary *vocabulary;
    struct srv_word rest; /* of the text */
    struct srv_word word; /* of BPE: what is left of the one at hand, */
    uint32_t n, next;     /* its pieces, */
    uint16_t ends[SRV_BPE_CHARACTERS_MAX];
};
void srv_words_begin(struct srv_words *words, const struct srv_vocabulary *vocabulary,
                     struct srv_word text);
bool srv_words_next(struct srv_words *words, struct srv_word *out); /* false at the end */

/* Whether words of a text, but not the first, have a blank before them; of a word's pieces the
 * first alone. */
bool srv_vocabulary_has_blanks(const struct srv_vocabulary *vocabulary);

/* A blank between words: space, tab, line feed, carriage return. */
bool srv_vocabulary_is_blank(char c);

#endif
