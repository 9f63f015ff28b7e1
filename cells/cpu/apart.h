/* Rows apart: each member of a team runs some of a batch's rows alone, from its first step to its
 * last, in place of a part of each step of all rows.
 *
 * Rows do not read one another, so that members that each have rows of their own need no barrier;
 * where steps are short, barriers and what members read of each other's are most of what a team
 * costs. But each then reads all weights: of few rows, or of weights beyond its core's caches, it
 * waits for them longer than it would for the others. (BatchMaker's batch and DeepCPU's partition
 * by columns are the two ends; the bits are the same.)
 *
 * A member without rows (it has done its own: cores that others share are not equally fast) is
 * given half of another's between two of its steps.
 *
 * A row that has ended by itself is noted, and member 0, which is the thread that pumps, tells the
 * scheduler between two of its own steps, or while it waits.
 *
 * Threads: the members of one team while they run a batch. */
#ifndef CELLS_CPU_APART_H
#define CELLS_CPU_APART_H

#include "cells/cpu/view.h"

/* Makes what each member of each queue needs to run rows alone, if the program's rows may be run
 * so; its spaces are there, its windows are not yet. RESOURCE_EXHAUSTED; of the program's arena. */
enum base_status cell_apart_create(struct cell_program *program);

/* Whether these rows are better run apart, if they are enough: their steps are short, and no lanes
 * of a beam must be advanced together. */
bool cell_apart_suits(const struct cell_batch *batch, uint32_t members);

/* From so many rows on that is expected to be faster; 0: never. */
uint32_t cell_apart_rows(const struct cell_program *program);

/* Before the members begin: what they share. */
void cell_apart_begin(struct cell_apart *apart, struct cell_batch *batch, uint32_t members);

/* The member's part of the run: its rows, then what it is given of others'. */
void cell_apart_run(struct cell_run *run, struct cell_team *team, uint32_t member);

/* Between two steps: gives half of the rows that still run to a member that has none; the thread
 * that pumps tells whose end has come. True: the rows have changed. */
bool cell_apart_turn(struct cell_view *view, uint32_t n_active);

/* Rows that the last step has ended leave the batch. */
void cell_apart_let_go(const struct cell_view *view);

/* When all have come to their end, by the thread that pumps: tells whose end has come, and fills in
 * what the device writes of the batch as a whole. */
void cell_apart_end(const struct cell_run *run);

#endif
