/* The cells of a transducer (Graves, "Sequence Transduction with Recurrent Neural Networks", 2012),
 * made of the definitions of its prediction network and its joint network. Pure; whoever loads
 * models. */
#ifndef CELLS_TRANSDUCER_H
#define CELLS_TRANSDUCER_H

#include "cells/def.h"

/* What goes between the two, by numbers of values of their definitions. All rows are of one step.
 */
struct cell_transducer {
    /* The predictor has one input, the last labels, integers, the newest behind; its states are
     * those before them. */
    const struct cell_def *predictor, *joiner;
    /* A value of the predictor, and the joiner's input that it is. */
    uint32_t n_links;
    struct {
        uint32_t from, input;
    } links[CELL_OUTPUTS_MAX];
    bool is_frame[CELL_INPUTS_MAX]; /* of the joiner's inputs: the encoder makes it, frame by frame
                                     */
    uint32_t logits;                /* value of the joiner */
    float blank, symbols_max;       /* the label that means none; labels of one frame at most */
    bool is_beam; /* who chooses is a beam search (struct cell_beam_labels), of one look a frame */
};

/* The states of the step before those that it holds; init 0 but for LABELS. OVER is an int64 and 1
 * behind the last step. */
enum {
    CELL_TRANSDUCER_OVER,
    CELL_TRANSDUCER_FRAME,  /* the number of the frame that is read next */
    CELL_TRANSDUCER_SAID,   /* labels that it has said */
    CELL_TRANSDUCER_HELD,   /* 1: the last step has said none, and what the predictor made stays */
    CELL_TRANSDUCER_LABELS, /* the last ones */
    CELL_TRANSDUCER_OWN,
};

/* Its outputs: the label that is said, or the blank, an int64; its logit; the frame, an int64. Of a
 * beam the logits alone; HELD and LABELS are then set between two steps. */
enum { CELL_TRANSDUCER_LABEL, CELL_TRANSDUCER_SCORE, CELL_TRANSDUCER_AT, CELL_TRANSDUCER_OUTPUTS };
enum { CELL_TRANSDUCER_LOGITS };

/* Rows that the step has for each frame: an input of the joiner, or output `output` of the cell of
 * frames. */
struct cell_transducer_memory {
    bool is_made;
    uint32_t index; /* the joiner's input, or that output */
};

/* What of the joiner depends on the encoder alone becomes a cell of its own, which runs once a
 * frame: its inputs are those of the joiner, all of them; n_outputs is 0 where there is no such
 * part. Input m of the step is memory m. The definitions refer to the parts' weights and to t.
 * UNIMPLEMENTED. */
struct cell_transducer_cells {
    struct cell_def frame, step;
    uint32_t n_memories;
    struct cell_transducer_memory memories[CELL_INPUTS_MAX];
};
enum base_status cell_transducer_write(const struct cell_transducer *t,
                                       struct cell_transducer_cells *out, struct base_error *error);

#endif
