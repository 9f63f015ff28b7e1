/* The messages of a run, prepared before it: sending one touches no allocator and copies its bytes
 * once, to where they are sent from.
 *
 * A ModelInferRequest is the packed envelope (model, shapes; one for each distinct length) followed
 * by raw_input_contents, which are windows into one block of values an input. Which window a
 * request gets depends on its index only, so a run with the same seed sends the same bytes. */
#ifndef LOADGEN_PAYLOAD_H
#define LOADGEN_PAYLOAD_H

#include "base/status.h"
#include "loadgen/lengths.h"
#include "loadgen/model.h"

#include <stddef.h>
#include <stdint.h>

/* Largest message, in bytes. */
#define LG_MESSAGE_MAX (512u << 20)

struct lg_payload;

/* Integer values are drawn from what the model says of its inputs, or 0..255. */
#define LG_VOCAB_OF_MODEL UINT64_MAX

struct lg_payload_spec {
    const struct lg_model *model;
    const char *lengths; /* see lengths.h; used when text is NULL */
    const char *text;    /* file: line i becomes the text of request i, and so on in turn */
    uint32_t batch;
    uint64_t vocab; /* integer values are drawn from 0..vocab, or what the type holds */
    uint64_t seed;
};

/* On BASE_OK end *out with lg_payload_free(), after all calls that use it have ended. */
enum base_status lg_payload_create(const struct lg_payload_spec *spec, struct lg_payload **out,
                                   struct base_error *error) __attribute__((warn_unused_result));

/* The one message that carries length bytes of text; for --ask. Same rules. */
enum base_status lg_payload_create_text(const struct lg_model *model, const char *text,
                                        size_t length, struct lg_payload **out,
                                        struct base_error *error)
    __attribute__((warn_unused_result));

void lg_payload_free(struct lg_payload *payload); /* NULL is allowed */

/* Copies length bytes of the message of request index, from offset; offset + length must not be
 * more than lg_payload_bytes(). Any thread. */
void lg_payload_read(const struct lg_payload *payload, uint64_t index, uint64_t offset,
                     size_t length, uint8_t *out);

/* Steps of request index (of BYTES: of the tensor), and bytes of its whole message. */
uint32_t lg_payload_length(const struct lg_payload *payload, uint64_t index);
uint64_t lg_payload_bytes(const struct lg_payload *payload, uint64_t index);

#endif
