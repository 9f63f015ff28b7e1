/* Texts as ids of pieces, and ids as texts, by a file that SentencePiece has trained (Kudo,
 * Richardson, EMNLP 2018; https://github.com/google/sentencepiece): unigram models (Kudo, ACL
 * 2018), byte pairs, characters. The ids are those of its own encode(), without options, and texts
 * those of its decode(). Immutable after load, so that any thread may use it; loading is the loop
 * thread's. */
#ifndef SERVER_SENTENCEPIECE_H
#define SERVER_SENTENCEPIECE_H

#include "base/buf.h"
#include "base/status.h"
#include "server/lines.h"

#include <stdbool.h>
#include <stdint.h>

/* Largest file. */
#define SRV_SENTENCEPIECE_BYTES_MAX ((size_t)64 << 20)

struct srv_sentencepiece;

/* Reads path; messages call it name. INVALID_ARGUMENT: it is no such file, or says what cannot be;
 * UNIMPLEMENTED: a model of whole words, pieces of byte pairs that are not used, texts that are
 * spelled anew behind the model; NOT_FOUND, RESOURCE_EXHAUSTED. */
enum base_status srv_sentencepiece_load(const char *path, const char *name,
                                        struct srv_sentencepiece **out, struct base_error *error)
    __attribute__((warn_unused_result));
void srv_sentencepiece_free(struct srv_sentencepiece *model); /* NULL is allowed */

uint32_t srv_sentencepiece_count(const struct srv_sentencepiece *model);

/* Appends the ids of a text to *ids, an int32_t each; what is no UTF-8 counts as U+FFFD. Cost: the
 * text's bytes times those of the longest piece, of byte pairs its bytes times their logarithm.
 * RESOURCE_EXHAUSTED. */
enum base_status srv_sentencepiece_encode(const struct srv_sentencepiece *model,
                                          struct srv_word text, struct base_buf *ids,
                                          struct base_error *error);

/* A text that is put together, id by id: what it has said so far. */
struct srv_sentencepiece_text {
    bool has_text;   /* it has a byte */
    bool had_mark;   /* a blank at its beginning has been left out */
    uint8_t n_bytes; /* of a character that is not complete, */
    char bytes[4];   /* which are these */
};

/* What id, 0..count-1, adds to a text that begins zeroed: its length; written to `to` unless that
 * is NULL. The pieces of a character that come byte by byte add it with the last of them. */
size_t srv_sentencepiece_add(const struct srv_sentencepiece *model,
                             struct srv_sentencepiece_text *text, uint32_t id, char *to);

/* What is left at the end of a text: bytes that are no character. */
size_t srv_sentencepiece_end(struct srv_sentencepiece_text *text, char *to);

/* The byte that a piece stands for, 0..255; -1: it is none. */
int32_t srv_sentencepiece_byte(const struct srv_sentencepiece *model, uint32_t id);

#endif
