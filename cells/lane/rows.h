/* Where the rows of one layout stand in a device's memory; host and device code share it.
 *
 * A *state slot* holds each part of a chain's state once, or twice by parity of the step where a
 * step reads the old while it writes the new; a *value row* holds one part once. The memory is one
 * block, part after part and copy after copy, each a matrix [count, pitch_bytes]: a kernel reads
 * the h of scattered rows by one base, one pitch and their ids. */
#ifndef CELLS_LANE_ROWS_H
#define CELLS_LANE_ROWS_H

#include "cells/lane/word.h"

/* Of a row and of each copy's start: one transaction of a GPU, and two cache lines of a CPU. */
#define CELL_LANE_ROW_ALIGN 128u
#define CELL_LANE_PARTS_MAX 14u /* CELL_STATES_MAX */

struct cell_lane_part {
    uint64_t at;          /* of row 0, as after an even number of steps */
    uint32_t value_bytes; /* that carry its value */
    uint32_t pitch_bytes; /* from one row to the next */
    uint32_t twice;       /* 1: the copy of odd steps follows behind the last row */
    uint32_t reserved;
};

struct cell_lane_rows {
    uint32_t count;
    uint32_t n_parts;
    uint64_t bytes; /* of the block */
    struct cell_lane_part parts[CELL_LANE_PARTS_MAX];
};

CELL_LANE_STATIC_ASSERT(sizeof(struct cell_lane_part) == 24, "no gap");
CELL_LANE_STATIC_ASSERT(offsetof(struct cell_lane_rows, parts) == 16, "no gap");

CELL_LANE_FN void cell_lane_rows_init(struct cell_lane_rows *rows, uint32_t count)
{
    rows->count = count;
    rows->n_parts = 0;
    rows->bytes = 0;
}

/* Adds a part; at most CELL_LANE_PARTS_MAX. */
CELL_LANE_FN void cell_lane_rows_add(struct cell_lane_rows *rows, uint32_t value_bytes, bool twice)
{
    struct cell_lane_part *part = &rows->parts[rows->n_parts++];
    part->at = rows->bytes;
    part->value_bytes = value_bytes;
    part->pitch_bytes = (value_bytes + CELL_LANE_ROW_ALIGN - 1) & ~(CELL_LANE_ROW_ALIGN - 1);
    part->twice = twice ? 1 : 0;
    part->reserved = 0;
    rows->bytes += (uint64_t)part->pitch_bytes * rows->count * (twice ? 2 : 1);
}

/* Where a part of a row stands as after `step` steps; any step of a part that is held once. */
CELL_LANE_FN uint64_t cell_lane_rows_at(const struct cell_lane_rows *rows, uint32_t row,
                                        uint32_t part, uint32_t step)
{
    const struct cell_lane_part *at = &rows->parts[part];
    const uint64_t copy = at->twice != 0 ? step & 1 : 0;
    return at->at + (copy * rows->count + row) * at->pitch_bytes;
}

#endif
