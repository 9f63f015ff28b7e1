/* Which element of a matrix stands where in a warp, and which gate of which unit and row a thread
 * owns. Pure index maps, host and device: the host packs weights by them, the kernels read and
 * write by them, tests/cuda/test_fragment.c holds them to plain definitions.
 *
 * mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"): A is 16 x
 * 16 by rows, B 16 x 8 by columns, C and D 16 x 8. A register of A or B holds two neighbours along
 * k, a register of C one float. With g = thread / 4 and q = thread % 4:
 *
 *   A register i   row g + 8 (i % 2), k 2 q + 8 (i / 2) and the next
 *   B register i   k 2 q + 8 i and the next, column g
 *   C register i   row g + 8 (i / 2), column 2 q + i % 2
 *
 * Weights are A, rows of the batch are columns of B. Two tiles of A, one above the other, hold the
 * four columns of 8 hidden units, so that a thread has all sums of its units and rows in registers
 * of its own:
 *
 *   tile 0   rows 0..7 column 0, rows 8..15 column 1
 *   tile 1   rows 0..7 column 2, rows 8..15 column 3 of units first .. first + 7
 *
 * A *column* is one of the sums of a unit: the gates of an LSTM (i, o, f, c); of a GRU z, r, and n
 * over x, n over h. */
#ifndef CELLS_CUDA_FRAGMENT_H
#define CELLS_CUDA_FRAGMENT_H

#include "cells/lane/word.h"

#define CELL_MMA_M     16u
#define CELL_MMA_N     8u
#define CELL_MMA_K     16u
#define CELL_MMA_UNITS 8u /* of two tiles */

#define CELL_COLUMNS     4u
#define CELL_COLUMN_LATE 3u /* of a GRU: n over h */

/* ---- mma.m16n8k16 ---- */

CELL_LANE_FN uint32_t cell_mma_a_row(uint32_t thread, uint32_t i)
{
    return thread / 4 + 8 * (i % 2);
}

/* The lower of two. */
CELL_LANE_FN uint32_t cell_mma_a_k(uint32_t thread, uint32_t i)
{
    return thread % 4 * 2 + 8 * (i / 2);
}

CELL_LANE_FN uint32_t cell_mma_b_k(uint32_t thread, uint32_t i)
{
    return thread % 4 * 2 + 8 * i;
}

CELL_LANE_FN uint32_t cell_mma_b_column(uint32_t thread)
{
    return thread / 4;
}

CELL_LANE_FN uint32_t cell_mma_c_row(uint32_t thread, uint32_t i)
{
    return thread / 4 + 8 * (i / 2);
}

CELL_LANE_FN uint32_t cell_mma_c_column(uint32_t thread, uint32_t i)
{
    return thread % 4 * 2 + i % 2;
}

/* ---- Gates on mma ---- */

/* Of row `row` of tile `tile` of a group. */
CELL_LANE_FN uint32_t cell_mma_gate(uint32_t tile, uint32_t row)
{
    return 2 * tile + row / CELL_MMA_UNITS;
}

/* The unit of group `group` that a thread owns, all four columns of it. Groups are of 8 units; a
 * warp has `groups` of them side by side. */
CELL_LANE_FN uint32_t cell_mma_unit(uint32_t warp, uint32_t groups, uint32_t group, uint32_t thread)
{
    return (warp * groups + group) * CELL_MMA_UNITS + thread / 4;
}

/* ---- Gates on plain multiply-adds ---- */

/* Four threads side by side have the columns of a unit, one each, for all rows; behind the sums
 * they change what they have, and each has all columns of every fourth row. */

CELL_LANE_FN uint32_t cell_fma_unit(uint32_t thread)
{
    return thread / CELL_COLUMNS;
}

CELL_LANE_FN uint32_t cell_fma_column(uint32_t thread)
{
    return thread % CELL_COLUMNS;
}

/* ---- Weights ---- */

/* The gate in the order of the definition whose weights over h (is_late) or over x stand in a
 * column; gates: 4 of an LSTM, 3 of a GRU. CELL_COLUMNS: none do. */
CELL_LANE_FN uint32_t cell_column_gate(uint32_t gates, uint32_t column, bool is_late)
{
    if (gates == CELL_COLUMNS || column < 2) {
        return column;
    }
    return (column == CELL_COLUMN_LATE) == is_late ? 2 : CELL_COLUMNS;
}

#endif
