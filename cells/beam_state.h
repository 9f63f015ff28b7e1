/* A beam search between two steps, for host and device code. */
#ifndef CELLS_BEAM_STATE_H
#define CELLS_BEAM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define CELL_BEAM_MAX 8u /* lanes */

/* A hypothesis that is complete: the ids on the way back from `lane` after `steps` steps. */
struct cell_beam_found {
    float score;    /* sum of the logarithms of its ids' probabilities, its end's too */
    float rank;     /* score / steps ^ length_penalty: what hypotheses are compared by */
    uint32_t steps; /* ids in it, without its end */
    uint32_t lane;
};

/* Of a transducer's search, which has a step for each frame: an id is a label, or the blank, which
 * adds none. Of the `width` best continuations those that say the same labels are one, as likely as
 * all of them together, on the way of the best of them; they end with the last frame. (Graves,
 * "Sequence Transduction with Recurrent Neural Networks", 2012, of at most one label a frame.) */
struct cell_beam_labels {
    int64_t blank;
    uint32_t state, held; /* states: the last labels, the newest behind; 1: the blank was chosen */
    uint32_t context;     /* labels in that state; and what the number of those said is added to
                             where hypotheses are compared */
    float *gains;         /* [steps][width]: logarithms of the chosen ids' probabilities */
    uint32_t counts[CELL_BEAM_MAX]; /* of each lane: labels, */
    uint64_t said[CELL_BEAM_MAX];   /* and a hash of them all */
};

/* Beam search: `width` rows, the lanes of one node, run next to each other in every batch. Before
 * the first step all are the same, and only lane 0 counts. After each step the 2 * width best
 * continuations of all lanes are taken in order (of equal ones the lower lane, then the lower id,
 * first): an end id among the first `width` is a complete hypothesis, others become the lanes of
 * the next step, their states those of the lane that they continue. The search ends with `width`
 * complete hypotheses, or with the last step, when the lanes count as complete.
 * Memory: the request's, the device's from submit on. A card that chooses itself has a copy, whose
 * pointers mean nothing there. */
struct cell_beam {
    uint32_t width;       /* 1..CELL_BEAM_MAX */
    uint32_t steps;       /* of the node */
    uint32_t token;       /* state; UINT32_MAX: none */
    uint32_t logits, ids; /* output, and how wide it is */
    bool has_end;
    int64_t end;
    float length_penalty;
    float scores[CELL_BEAM_MAX];     /* of the lanes; -Inf: nobody is there */
    int32_t *tokens, *parents;       /* [steps][width] */
    float *room;                     /* [ids] */
    uint8_t *copies;                 /* width rows of the widest state */
    struct cell_beam_labels *labels; /* of a transducer, or NULL; no card has these */
    uint32_t n_found;
    struct cell_beam_found found[CELL_BEAM_MAX]; /* best rank first */
    bool is_done;
};

#endif
