/* Row stores of a CPU device: the memory behind row ids, one store a layout.
 *
 * A row is its parts in the layout's order, each on cache lines of its own; a part that is held
 * twice has its two copies behind each other. Copy `step & 1` is the state as after `step` steps.
 */
#ifndef CELLS_CPU_ROWS_H
#define CELLS_CPU_ROWS_H

#include "base/assert.h"
#include "cells/type.h"

#include <stddef.h>
#include <stdint.h>

struct cell_rows {
    struct cell_layout layout;
    uint32_t count; /* 0: not opened */
    size_t row_bytes;
    size_t part_at[CELL_STATES_MAX];    /* within the row */
    size_t part_bytes[CELL_STATES_MAX]; /* one copy, whole cache lines */
    uint8_t *data;
};

size_t cell_rows_bytes(const struct cell_layout *layout);

/* Fills *rows, whose memory is zeroed. RESOURCE_EXHAUSTED. Ended with cell_rows_close(), which may
 * also be called on zeroed memory. */
enum base_status cell_rows_open(struct cell_rows *rows, const struct cell_layout *layout,
                                uint32_t count);
void cell_rows_close(struct cell_rows *rows);

/* Where a part of a row stands as after `step` steps (any step for a part held once). */
static inline uint8_t *cell_rows_part(const struct cell_rows *rows, uint32_t row, uint32_t part,
                                      uint32_t step)
{
    base_assert(row < rows->count && part < rows->layout.n_parts);
    size_t copy = rows->layout.twice[part] ? (step & 1) * rows->part_bytes[part] : 0;
    return rows->data + row * rows->row_bytes + rows->part_at[part] + copy;
}

/* Bytes of a part that carry its value. */
static inline size_t cell_rows_value_bytes(const struct cell_rows *rows, uint32_t part)
{
    return (size_t)rows->layout.parts[part].width *
           cell_dtype_bytes(rows->layout.parts[part].dtype);
}

#endif
