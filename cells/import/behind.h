/* What a row would be at the steps behind the length of its row of the batch, where sequence_lens
 * gives it fewer than the batch has: ONNX has zeros of its recurrent nodes there, and goes on to
 * compute with them; here nothing is computed there. What is gathered over the steps is the same
 * where those behind count nothing: sums of zeros, scores that are masked. Pure. */
#ifndef CELLS_IMPORT_BEHIND_H
#define CELLS_IMPORT_BEHIND_H

#include "cells/import/graph.h"

/* A score of so little counts nothing beside one that is not masked. */
#define CELL__MASKED (-1e4f)

/* The sequence that this one is a mirror of (mirror.c), or itself. */
uint32_t cell__sequence_of_mirror(const struct cell__import *im, uint32_t sequence);

/* Whether rows of the sequence may be shorter than the batch. */
bool cell__sequence_has_lengths(const struct cell__import *im, uint32_t sequence);

enum cell__behind {
    CELL__BEHIND_COUNTS, /* or it is not known */
    CELL__BEHIND_ZERO,   /* of a sum nothing */
    CELL__BEHIND_LOWEST, /* masked: below all that is there */
    CELL__BEHIND_HIGHEST /* and above it */
};

/* What all elements of a row are behind the length. What a row computes of its inputs is taken for
 * less than a mask. */
enum base_status cell__row_behind(struct cell__import *im, uint32_t row, uint32_t sequence,
                                  enum cell__behind *out);

#endif
