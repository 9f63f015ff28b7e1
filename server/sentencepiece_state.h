/* A loaded file, between sentencepiece.c (loading, texts of ids), sentencepiece_spell.c (how a text
 * is spelled before it is cut) and sentencepiece_cut.c (its pieces). Internal. */
#ifndef SERVER_SENTENCEPIECE_STATE_H
#define SERVER_SENTENCEPIECE_STATE_H

#include "base/arena.h"
#include "server/sentencepiece.h"

#include "proto/sentencepiece.pb-c.h"

/* What stands for a blank: U+2581. */
#define SRV_SENTENCEPIECE_MARK "\xe2\x96\x81"

#define SRV_SENTENCEPIECE_NONE UINT32_MAX

struct srv_sentencepiece__piece {
    const char *text;
    uint32_t length;
    float score;
    Sentencepiece__ModelProto__SentencePiece__Type type;
    int32_t byte; /* of a piece that is one; else -1 */
};

/* Pieces by their texts: a tree of bytes whose children stand beside each other. */
struct srv_sentencepiece__node {
    uint32_t id;       /* of the piece that ends here; NONE */
    uint32_t children; /* number of the first */
    uint32_t n_children;
};
struct srv_sentencepiece__trie {
    uint32_t n;                            /* 0: it has no pieces */
    struct srv_sentencepiece__node *nodes; /* [n]; 0 is the root */
    uint8_t *bytes;                        /* [n]: what leads to a node */
};

/* Blanks of a text, before it is cut. */
struct srv_sentencepiece__blanks {
    bool begin;  /* a text begins with one, */
    bool end;    /* or ends with one, which it did not have */
    bool trim;   /* those at its ends go, and of several beside each other all but one */
    bool escape; /* they are marks */
};

struct srv_sentencepiece {
    struct base_arena arena; /* all that is pointed to below */
    Sentencepiece__TrainerSpec__ModelType kind;
    uint32_t n_pieces, unknown;
    struct srv_sentencepiece__piece *pieces; /* [n_pieces], by id */
    struct srv_sentencepiece__trie all;      /* of texts */
    struct srv_sentencepiece__trie own;      /* that a user has defined, and are never cut */
    int32_t byte_ids[256];
    bool has_bytes;        /* an unknown character is a piece for each of its bytes */
    float lowest, highest; /* scores */
    struct srv_word unknown_text;

    struct srv_sentencepiece__blanks blanks;
    /* Spellings: a double-array trie, as darts-clone has it, of numbers of bytes in `spellings`. */
    const uint8_t *units; /* [n_units], 4 bytes each, little-endian */
    size_t n_units;
    const char *spellings; /* ends with a zero */
    size_t n_spellings;
};

/* The child that a byte leads to; 0: there is none. */
uint32_t srv_sentencepiece__child(const struct srv_sentencepiece__trie *trie, uint32_t node,
                                  char byte);

/* The longest piece that the text begins with, in *id; its length, 0: none. */
uint32_t srv_sentencepiece__longest(const struct srv_sentencepiece__trie *trie,
                                    struct srv_word text, uint32_t *id);

/* Bytes of the character at the beginning of a text that is not empty; its first byte says it. */
uint32_t srv_sentencepiece__character(struct srv_word text);

/* Appends the text as it is cut to *out, which fails when it runs out of memory. */
void srv_sentencepiece__spell(const struct srv_sentencepiece *model, struct srv_word text,
                              struct base_buf *out);

/* A piece of a text: its id, or the unknown one. */
struct srv_sentencepiece__cut {
    uint32_t id, length;
};

/* Appends the pieces of a text that is spelled and not empty to *out, a cut each.
 * RESOURCE_EXHAUSTED. */
enum base_status srv_sentencepiece__cut(const struct srv_sentencepiece *model, struct srv_word text,
                                        struct base_buf *out, struct base_error *error);

#endif
