/* Ops over patches of a row (cells/op.h): GATHER, LINEAR, and LSTM, GRU and RNN.
 *
 * Apart from one another patches are rows of a product, some of which belong to one row of the
 * batch; in turn they are steps, whose rows are those of the batch. Either way the kernels are
 * those of whole rows, and so are the bits.
 *
 * Threads: the members of one team while they run a batch. */
#ifndef CELLS_CPU_PATCHES_H
#define CELLS_CPU_PATCHES_H

#include "cells/cpu/view.h"

/* Whether the op has patches; asked of every op of a step, most of which have none. */
static inline bool cell_patches_has(const struct cell_program_op *op)
{
    return op->op != NULL && op->op->patches > 0 && cell_op_may_have_patches(op->kind);
}

/* How members share them. */
enum cell_share cell_patches_share(const struct cell_op *op);

/* Floats of scratch behind the kernels' own, and rows that go through a kernel at once. */
size_t cell_patches_floats(const struct cell_program_op *op);
#define CELL_PATCHES_AT_ONCE 144u /* tiles of 6 rows and of 8 */

/* The row of a table that the element at `id` means. The server refuses ids outside the table; one
 * that a cell computed itself is held inside. */
static inline size_t cell_table_row(const struct cell_weight *table, enum cell_dtype dtype,
                                    const void *id)
{
    const int64_t row = cell_integer_at(dtype, id);
    const int64_t last = (int64_t)table->rows - 1;
    return (size_t)(row < 0 ? 0 : row > last ? last : row);
}

/* This member's share of the op. */
void cell_patches_run(const struct cell_view *view, const struct cell_program_op *op);

#endif
