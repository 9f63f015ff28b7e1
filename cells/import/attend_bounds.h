/* The fourth operand of an ATTEND whose mask leaves each step a run of others around it: from which
 * row on it attends, and before which it ends. Pure but for the arena. */
#ifndef CELLS_IMPORT_ATTEND_BOUNDS_H
#define CELLS_IMPORT_ATTEND_BOUNDS_H

#include "cells/import/band.h"

/* Of the keys' sequence, whose bit is in times, steps `first` to `last` from the query's own, 0
 * among them; as far as CELL__BAND_FAR: all on that side. And of these the steps of some chunks. */
struct cell__span {
    uint32_t times;
    int32_t first, last;
    struct cell__chunks chunks;
    bool has_table;    /* of relative positions (attend_relative.h): a third number, the row */
    int32_t distances; /* of the first key; row 0 is of this distance */
};

/* Of an ATTEND with its first three operands. Heads of one attention share theirs. UNIMPLEMENTED:
 * query and keys are not of one sequence, or a step is left without its own. */
enum base_status cell__attend_bounds(struct cell__import *im, const struct cell_op *op,
                                     const struct cell__span *span, uint32_t *out);

#endif
