/* Runs one batch on one team: the inner life of a CPU device. */
#ifndef CELLS_CPU_RUN_H
#define CELLS_CPU_RUN_H

#include "cells/backend.h"
#include "cells/cpu/program.h"
#include "cells/cpu/rows.h"

/* Runs the batch to its end and fills in what the device writes. team NULL: the caller alone.
 * stores: [CELL_LAYOUTS_MAX]. No allocation. */
void cell_run_batch(struct cell_program *program, const struct cell_rows *stores, uint32_t queue,
                    struct cell_team *team, struct cell_batch *batch);

/* Which batches member 0 runs alone from now on: none in a program just made; NULL: those of which
 * that is expected to be faster. While no batch of the type is outstanding. */
void cell_run_tune(struct cell_program *program, const struct cell_tuning *tuning);

#endif
