/* The fifth operand of an ATTEND and its table: what is added to each score by how far apart query
 * and key are. Pure but for the arena. */
#ifndef CELLS_IMPORT_ATTEND_RELATIVE_H
#define CELLS_IMPORT_ATTEND_RELATIVE_H

#include "cells/import/attend_bounds.h"

/* The sum over k of weights_k row_k, or of weights_k query_k row_k: `row` of numbers of steps
 * alone, of pairs (relative.h). */
struct cell__relative_term {
    uint32_t row, query;  /* query: NONE, none */
    const float *weights; /* [width of row] */
};

/* Gives them and its bounds to an ATTEND with its first three operands, of these steps. Sequences
 * get a bound where their tables have one. UNIMPLEMENTED: query and keys are not of one sequence, a
 * row is of more than the distance, or not finite. */
enum base_status cell__attend_relative(struct cell__import *im, struct cell_op *op,
                                       const struct cell__span *span,
                                       const struct cell__relative_term *terms, uint32_t n);

#endif
