/* Which panels of an op a member computes. Each has a share of its own, whose weights its core's
 * caches may keep from step to step: of the op where that is long, else of its wave (waves.c).
 * Where the op is long enough, a member that is done takes panels of another's share, from its
 * other end: cores that other machines or processes share are not equally fast, and a fixed share
 * would wait for the slowest, or for the member that has not come yet: the thread that drives the
 * team lets the others begin and comes later. Who computes a panel does not change its bits, and
 * nothing relies on it (program.c places a barrier behind every such op).
 *
 * At the end of an op a panel is long beside what a member may be late: then it is two pieces of
 * work, half of the rows each.
 *
 * Where a step reads what other batches made (a type without states: trees), and rows are many,
 * they are two groups, and shares are of all panels of one group: with two members each computes
 * whole rows, reads the operands of its own rows alone, and leaves the next level of a tree mostly
 * what it will read itself. Both then read all weights.
 *
 *   struct cell_panels panels;
 *   cell_panels_begin(&panels, view, wave, n, rows, flops);
 *   while (cell_panels_next(&panels)) {
 *       ... panels.first .. panels.end - 1, of rows panels.row_first .. panels.row_end - 1 ...
 *   }
 *
 * Threads: the members of one team while they run a batch, all of them for the same ops. Cost: an
 * atomic operation for each piece, of which a share has as many as it can be halved, and two. */
#ifndef CELLS_CPU_PANELS_H
#define CELLS_CPU_PANELS_H

#include "cells/cpu/view.h"

/* Of a panel, in all groups of rows. */
#define CELL_PIECES_MAX 4u

struct cell_panels {
    uint32_t first, end;         /* to be computed now, */
    uint32_t row_first, row_end; /* of these rows */
    const struct cell_view *view;
    uint32_t rows;                        /* of the op */
    uint32_t groups, pieces;              /* of the rows; of a panel of one group: 1 or 2 */
    uint32_t row_at[CELL_PIECES_MAX + 1]; /* where each piece of each group begins */
    uint32_t n;                           /* pieces of the op: [groups][panels][pieces] */
    uint32_t unit;                        /* panels that are best computed together */
    uint32_t round;                       /* 0: the share is fixed */
    uint32_t victim;                      /* whose share is taken from; first the own */
    uint32_t taken_first, taken_end;      /* pieces that are taken and not yet computed */
    bool is_done;
};

/* n panels of one op over so many rows; wave: its place, or NULL where it is shared out alone;
 * flops: of all members; 0: shares are fixed. */
void cell_panels_begin(struct cell_panels *panels, const struct cell_view *view,
                       const struct cell_wave *wave, uint32_t n, uint32_t rows, uint64_t flops);

/* false: nothing is left. */
bool cell_panels_next(struct cell_panels *panels);

/* All panels of a LINEAR; the rows' panels are set here. */
void cell_panels_linear(const struct cell_view *view, const struct cell_wave *wave,
                        const struct cell_linear_rows *whole);

/* All panels of a gated op, in pieces of this step, whose panels are set here. Of int8 weights
 * shares are fixed: each piece would round the rows again. */
void cell_panels_gated(const struct cell_view *view, const struct cell_wave *wave,
                       struct cell_gated_step *step);

/* What the sums over x of so many rows ahead cost: as above. */
uint64_t cell_panels_flops(const struct cell_gated *gated, uint32_t terms, uint32_t rows);

/* Behind a run of some of a queue's members, by one thread: those from `members` on have seen as
 * many ops as the others. */
void cell_panels_align(struct cell_space *spaces, uint32_t members, uint32_t all);

/* This member's share of an op's panels where shares are fixed. */
void cell_panels_share(const struct cell_view *view, const struct cell_wave *wave, uint32_t n,
                       uint32_t *first, uint32_t *end);

#endif
