/* What goes on in a beam search after a step, whichever device computed it: struct cell_beam in
 * beam_state.h says the rules, struct cell_beam_labels a transducer's. Pure but for the beam; one
 * thread at a time. */
#ifndef CELLS_BEAM_H
#define CELLS_BEAM_H

#include "cells/batch.h"

#include <stddef.h>

struct cell_beam_logits {
    const float *rows[CELL_BEAM_MAX]; /* [ids] of each lane */
    void (*log_softmax)(uint32_t n, const float *in, float *out);
};

/* After step `step` of the search: notes tokens and parents of the lanes that go on, their scores,
 * and what is complete. Returns how many lanes go on, the first ones. */
uint32_t cell_beam_choose(struct cell_beam *beam, uint32_t step,
                          const struct cell_beam_logits *logits);

#endif
