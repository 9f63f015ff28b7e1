/* Windows: the sums over x of a chain's next steps, and other products that do not depend on the
 * state, computed together before they are needed.
 *
 * What does not depend on the state is a phase of its own (DeepCPU, USENIX ATC'18, section 4): as
 * one product over many steps it reads its weights once for all of them, and each step then reads
 * less than half. A window belongs to a chain and stays when the chain leaves a batch and comes
 * back. The bits are those of a step that does it all, since a sum takes the same terms in the same
 * order.
 *
 * Threads: the members of one team while they run a batch. */
#ifndef CELLS_CPU_AHEAD_H
#define CELLS_CPU_AHEAD_H

#include "cells/cpu/view.h"

/* Chains of a queue that have a window at a time, and rows of a batch that may use them. */
#define CELL_WINDOWS 32u

struct cell_windows;

/* Makes the windows of every queue and decides which batches use them; the program's spaces are
 * there. RESOURCE_EXHAUSTED; out of the program's arena. */
enum base_status cell_windows_create(struct cell_program *program);

/* Which batches use them from now on, and how far a fill goes; NULL: as cell_windows_create()
 * decides. While no batch of the type is outstanding. */
void cell_windows_tune(struct cell_program *program, const struct cell_tuning *tuning);

/* Whether view->rows use windows from this step on. Computes the sums they lack; every member calls
 * it at the same steps: whenever the rows change, and at view->ahead_until. */
void cell_windows_fill(struct cell_view *view);

/* Whether a member that has no rows could make some of a helped run's sums; and making them, with a
 * view whose run has those windows: false when another has been faster. */
bool cell_windows_has_work(const struct cell_windows *windows);
bool cell_windows_help(const struct cell_view *view);

/* The end of a helped run: what was made for later steps is kept. */
void cell_windows_close(const struct cell_view *view);

/* How often a row was given a window, ever: for who wants to know. */
uint64_t cell_windows_count(const struct cell_windows *windows);

/* How often sums were made for some rows, ever, but for a helped run's. */
uint64_t cell_windows_times_filled(const struct cell_windows *windows);

/* Lets the step's row pointers of every windowed op and every kept value point into the windows. */
void cell_windows_resolve(const struct cell_view *view);

#endif
