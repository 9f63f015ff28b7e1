/* Row stores: see rows.h. Opened once per layout by the thread that loads; afterwards only read
 * and written through row pointers. */
#include "cells/cpu/rows.h"

#include "base/checked.h"
#include "base/mem.h"

/* Left free behind each row. Where neighbouring rows are different members', one that reads a row
 * to its end makes its core ask for the lines behind, too, which the other has just written and
 * will write again: these went there and back at each step, though nobody had asked for them. Zen
 * 4, two members with 5 rows of 64 units each, every second slot the other's, ms of 100 steps of an
 * LSTM with 0, 2, 4 and 8 such lines: 0.410, 0.382, 0.370, 0.367 where the members share no L3,
 * 0.371, 0.365, 0.364, 0.365 where they do; 0.366 with their rows far apart. */
#define FREE_LINES ((size_t)4)

static size_t part_bytes(struct cell_value part)
{
    size_t bytes = (size_t)part.width * cell_dtype_bytes(part.dtype);
    return (bytes + BASE_CACHE_LINE - 1) / BASE_CACHE_LINE * BASE_CACHE_LINE;
}

size_t cell_rows_bytes(const struct cell_layout *layout)
{
    size_t bytes = 0;
    for (uint32_t p = 0; p < layout->n_parts; p++) {
        bytes += part_bytes(layout->parts[p]) * (layout->twice[p] ? 2 : 1);
    }
    // An odd number of lines: the elements that a product reads together, one of each row, would
    // share a set of L1 if rows were a multiple of 4 KiB apart.
    return ((bytes / BASE_CACHE_LINE | 1) + FREE_LINES) * BASE_CACHE_LINE;
}

enum base_status cell_rows_open(struct cell_rows *rows, const struct cell_layout *layout,
                                uint32_t count)
{
    base_assert(rows->count == 0 && count > 0);
    size_t bytes = 0;
    if (!base_size_mul(cell_rows_bytes(layout), count, &bytes)) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    rows->data = base_alloc_aligned(bytes, BASE_CACHE_LINE);
    if (rows->data == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    rows->layout = *layout;
    rows->count = count;
    rows->row_bytes = cell_rows_bytes(layout);
    size_t at = 0;
    for (uint32_t p = 0; p < layout->n_parts; p++) {
        rows->part_at[p] = at;
        rows->part_bytes[p] = part_bytes(layout->parts[p]);
        at += rows->part_bytes[p] * (layout->twice[p] ? 2 : 1);
    }
    return BASE_OK;
}

void cell_rows_close(struct cell_rows *rows)
{
    base_free(rows->data);
    rows->data = NULL;
    rows->count = 0;
}
