/* Cells of one type, one at a time, in double precision by plain loops (tests/cells/oracle.h), over
 * rows as a device keeps them. A type without ops computes tokens (tests/scheduler/graphs.h). */
#ifndef TESTS_REFERENCE_CELLS_H
#define TESTS_REFERENCE_CELLS_H

#include "cells/type.h"
#include "tests/cells/oracle.h"

/* One thread's; all zero before init. */
struct reference_cells {
    const struct cell_type *type;
    struct oracle oracle;
    uint8_t *outputs[CELL_OUTPUTS_MAX]; /* room for a row each */
};

/* false when out of memory; release in any case. */
bool reference_cells_init(struct reference_cells *cells, const struct cell_type *type);
void reference_cells_release(struct reference_cells *cells);

/* One cell: rows of inputs; of states, advanced in place; of outputs. Never allocates. */
void reference_cells_run(struct reference_cells *cells, const void *const *inputs,
                         void *const *states, void *const *outputs);

/* The same at once: a graphs_cell. */
void reference_cell(const struct cell_type *type, const void *const *inputs, void *const *states,
                    void *const *outputs);

#endif
