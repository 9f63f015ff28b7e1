/* Which panels of an op a member computes. Each has a share of its own, whose weights its core's
 * caches may keep from step to step: of the op where that is long, else of its wave (waves.c).
 * Where the op is long enough, a member that is done takes panels of another's share, from its
 * other end: cores that other machines or processes share are not equally fast, and a fixed share
 * would wait for the slowest. Who computes a panel does not change its bits, and nothing relies on
 * it (program.c places a barrier behind every such op).
 *
 *   struct cell_panels panels;
 *   cell_panels_begin(&panels, view, wave, n, flops, unit);
 *   while (cell_panels_next(&panels)) { ... panels.first .. panels.end - 1 ... }
 *
 * Threads: the members of one team while they run a batch, all of them for the same ops. Cost: an
 * atomic operation for each piece, of which a share has as many as it can be halved, and two. */
#ifndef CELLS_CPU_PANELS_H
#define CELLS_CPU_PANELS_H

#include "cells/cpu/view.h"

struct cell_panels {
    uint32_t first, end; /* to be computed now */
    const struct cell_view *view;
    uint32_t unit;   /* panels that are best computed together */
    uint32_t round;  /* 0: the share is fixed */
    uint32_t victim; /* whose share is taken from; first the own */
    bool is_done;
};

/* n panels of one op over the view's rows; wave: its place, or NULL where it is shared out alone;
 * flops: of all members. */
void cell_panels_begin(struct cell_panels *panels, const struct cell_view *view,
                       const struct cell_wave *wave, uint32_t n, uint64_t flops, uint32_t unit);

/* Likewise of a gated op's sums over so many terms. Of int8 weights shares are fixed: each piece
 * would round the rows again. */
void cell_panels_begin_gated(struct cell_panels *panels, const struct cell_view *view,
                             const struct cell_wave *wave, const struct cell_gated *gated,
                             uint32_t terms);

/* This member's share of an op's panels where shares are fixed. */
void cell_panels_share(const struct cell_view *view, const struct cell_wave *wave, uint32_t n,
                       uint32_t *first, uint32_t *end);

/* false: nothing is left. */
bool cell_panels_next(struct cell_panels *panels);

#endif
