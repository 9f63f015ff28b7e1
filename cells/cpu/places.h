/* Where the rows of a batch are read and written. Found from their wirings: at each step, by each
 * member for itself; or, for a batch of single cells without a state (trees), once, by the thread
 * that submits it, which has just written those wirings. The members then read pointers that stand
 * behind each other in place of wirings that another core has changed. */
#ifndef CELLS_CPU_PLACES_H
#define CELLS_CPU_PLACES_H

#include "cells/batch.h"
#include "cells/cpu/program.h"
#include "cells/cpu/rows.h"

/* A cell's value that is written elsewhere than it was computed. */
struct cell_copy {
    uint32_t value, cell;
    uint8_t *to;
};

/* Of one batch. Read-only while it runs. A *cell* is a row of it, or one step of a row's span. */
struct cell_places {
    uint8_t **inputs[CELL_INPUTS_MAX]; /* [input] -> [n_cells]; NULL: not read through pointers */
    uint8_t **outs[CELL_OUTPUTS_MAX];  /* [output] -> [n_cells]; NULL: not CELL_PLACE_OUT */
    uint8_t **own_outs[CELL_OUTPUTS_MAX]; /* likewise, the queue's own rows: never change */
    uint32_t *rows;                       /* [n_cells]: of the batch */
    uint32_t n_cells;
    struct cell_copy *copies; /* who computes a row by rows copies it, too: no barrier between */
    uint32_t n_copies;
};

/* A reference of this layout at a step; not ZERO. stores: [CELL_LAYOUTS_MAX]. */
uint8_t *cell_place(const struct cell_rows *stores, const struct cell_ref *ref, uint32_t layout,
                    uint32_t step);

/* Input `input` of a row at a step of its chain: zeros where there is none. */
uint8_t *cell_place_input(const struct cell_program *program, const struct cell_rows *stores,
                          const struct cell_wiring *wiring, uint32_t input, uint32_t step);

/* Where output o of a type without states is computed at this step, since it goes there: a value
 * row, or request memory where that will do; NULL: nowhere. */
uint8_t *cell_place_output(const struct cell_program *program, const struct cell_rows *stores,
                           const struct cell_wiring *wiring, uint32_t o, uint32_t step);

/* Room for the places of so many batches of each queue, where the type can use them; while the
 * program is made. RESOURCE_EXHAUSTED. */
enum base_status cell_places_make(struct cell_program *program, uint32_t batches);

/* The places of a batch that is about to be submitted, in room number `slot` of its queue; NULL:
 * its members find their own. They hold while the batch is outstanding. Cost: that of looking at
 * the wirings of all rows once. */
const struct cell_places *cell_places_find(struct cell_program *program,
                                           const struct cell_rows *stores, uint32_t queue,
                                           uint32_t slot, const struct cell_batch *batch);

#endif
