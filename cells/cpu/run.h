/* Runs one batch on one team: the inner life of a CPU device. */
#ifndef CELLS_CPU_RUN_H
#define CELLS_CPU_RUN_H

#include "cells/backend.h"
#include "cells/cpu/program.h"
#include "cells/cpu/rows.h"
#include "cells/cpu/view.h"

/* What the queue of a device holds. */
struct cell_submitted {
    struct cell_batch *batch;
    const struct cell_places *places; /* NULL: members find their own */
};

/* Begins the batch: the team's other members compute from now on, unless the batch is one member's.
 * team NULL: the caller alone. stores: [CELL_LAYOUTS_MAX]. *run stays where it is until
 * cell_run_end(), by the same thread, has computed the caller's part, waited for the others and
 * filled in what the device writes. No allocation. */
void cell_run_begin(struct cell_run *run, struct cell_program *program,
                    const struct cell_rows *stores, uint32_t queue, struct cell_team *team,
                    const struct cell_submitted *submitted);
void cell_run_end(struct cell_run *run);

/* The parts of both, for batches side by side (beside.h): the run of a team of so many; what one of
 * its members computes; what the device writes of the batch when all have. */
void cell_run_prepare(struct cell_run *run, struct cell_program *program,
                      const struct cell_rows *stores, uint32_t queue, uint32_t members,
                      const struct cell_submitted *submitted);
void cell_run_member(struct cell_run *run, struct cell_team *team, uint32_t member);
void cell_run_note(const struct cell_run *run);

/* What a member must know of its run's rows before their first step, which it finds out here. */
void cell_run_start(struct cell_view *view);

/* All cells of the first step; and this member's share of some of these through all ops. */
uint32_t cell_run_select(const struct cell_view *view);
void cell_run_cells(struct cell_view *view, uint32_t first, uint32_t n);

/* Runs them from view->step on, to the end of the batch, or of the rows, or until it is
 * interrupted; view->step is then how far they came. */
void cell_run_steps(struct cell_view *view);

/* Which batches member 0 runs alone from now on: none in a program just made; NULL: those of which
 * that is expected to be faster. While no batch of the type is outstanding. */
void cell_run_tune(struct cell_program *program, const struct cell_tuning *tuning);

#endif
