/* The two parts of a model of an encoder and a decoder, written by ONNX builders: what cases serve,
 * or break in one thing. */
#ifndef TESTS_SERVER_DECODER_PARTS_H
#define TESTS_SERVER_DECODER_PARTS_H

#include "tests/util.h"

#include <stdbool.h>
#include <stdint.h>

/* Words that the encoder reads, ids that the decoder chooses from, widths, and what
 * decoder_parts_whole.config says. */
enum {
    DECODER_WORDS = 13,
    DECODER_IDS = 17,
    DECODER_HIDDEN = 24,
    DECODER_STYLE = 2,
    DECODER_STEPS_MAX = 20,
    DECODER_START = 2,
    DECODER_END = 5
};

/* What a case changes in the parts and their binding. */
struct decoder_parts {
    const char *config;
    const char *encoder_output; /* the decoder's first state */
    const char *token, *token_next, *h_next, *logits;
    int64_t decoder_hidden;
    bool has_encoder, is_timed, is_narrow; /* encoder hands over each step's; ids of 32 bits */
    bool is_token_unread;
    bool attends; /* the decoder to every step of the encoder, both of its directions */
};

/* Nothing changed. */
extern const struct decoder_parts decoder_parts_whole;

/* Writes the model `name` with random weights, the same in every run, into the folder; version:
 * where its parts stand. */
void decoder_parts_write(const char *folder, const char *name, const struct decoder_parts *parts,
                         char version[UTIL_PATH_BYTES]);

#endif
