/* Cells taken one by one: of a type without states whose values fill a core's cache, as those of a
 * picture do, each member runs whole cells alone, in place of a part of every op of all cells. No
 * member waits for another within a cell, what an op leaves is in the cache of who reads it, and a
 * member whose core others share takes fewer.
 *
 * Where a batch has fewer cells than there are members, they share out each op's places.
 *
 * Threads: the members of one team while they run a batch. Cost: an atomic operation a cell. */
#ifndef CELLS_CPU_TAKING_H
#define CELLS_CPU_TAKING_H

#include "cells/cpu/view.h"

/* Makes what members of each queue need for that, if the program takes cells; its spaces are there.
 * RESOURCE_EXHAUSTED; of the program's arena. */
enum base_status cell_taking_create(struct cell_program *program);

/* Before the members begin; false: they share out the ops of this batch. */
bool cell_taking_begin(struct cell_run *run, uint32_t queue);

/* The member's part of the run. */
void cell_taking_run(const struct cell_run *run, struct cell_team *team, uint32_t member);

#endif
