/* The packed part of a ModelInferRequest that is the same for all requests of one length. */
#ifndef LOADGEN_ENVELOPE_H
#define LOADGEN_ENVELOPE_H

#include "base/arena.h"
#include "base/status.h"
#include "loadgen/model.h"

#include <stdint.h>

/* On the wire: head 0, data 0, head 1, data 1, ... Head 0 holds all fields but the data, then the
 * tag and size of the first raw_input_contents entry; the other heads only tag and size. */
struct lg_envelope_part {
    const uint8_t *head;
    size_t head_bytes;
    uint64_t data_bytes;
};

struct lg_envelope {
    uint64_t message_bytes;          /* all heads and data */
    struct lg_envelope_part parts[]; /* one an input */
};

/* *out lives in arena. INVALID_ARGUMENT when a tensor's size overflows or is 0. */
enum base_status lg_envelope_make(const struct lg_model *model, uint32_t batch, uint32_t length,
                                  struct base_arena *arena, struct lg_envelope **out,
                                  struct base_error *error) __attribute__((warn_unused_result));

#endif
