/* What follows the sums of a one-SM lane: gates, new state, and where it is written.
 *
 * The gates' bits are those of cells/ref/ref.c: the same functions in the same order. State is
 * written behind every step, so whatever ends a run leaves the rows as they were after a whole
 * step: h in the copy of the next parity, c in place. */
#ifndef CELLS_CUDA_LANE_UPDATE_H
#define CELLS_CUDA_LANE_UPDATE_H

#include "cells/bf16.h"
#include "cells/cuda/lane_shared.h"
#include "cells/ref/math_body.h"

/* A float of memory whose address a row carries. */
CELL_BLOCK_FN float *cell_sm_at(uint64_t address, int64_t bytes, uint32_t i)
{
    return (float *)cell_block_pointer(address + (uint64_t)bytes) + i;
}

/* A part of row `id` as after `step` steps of its chain. */
CELL_BLOCK_FN void *cell_sm_part(const struct cell_sm_args *args, uint32_t id, uint32_t part,
                                 uint32_t step)
{
    return args->memory + cell_lane_rows_at(&args->rows, id, part, step);
}

/* Where c of a state stands whose h is at *h; 0: nowhere. */
CELL_BLOCK_FN uint64_t cell_sm_of_c(const struct cell_sm_args *args, const struct cell_sm_row *row,
                                    const uint64_t *h, const uint64_t *c)
{
    if ((cell_block_load_u32(&row->flags) & CELL_SM_ROW_APART) != 0) {
        return cell_block_load_u64(c);
    }
    const uint64_t both = cell_block_load_u64(h);
    return both == 0 ? 0 : both + (uint64_t)args->units * sizeof(float);
}

/* c of a unit before step `step` of the run. */
CELL_BLOCK_FN float cell_sm_old_c(const struct cell_sm_args *args,
                                  const struct cell_sm_order *order, uint32_t row, uint32_t unit,
                                  uint32_t step)
{
    const struct cell_sm_row *from = &order->rows[row];
    if (step == 0 && cell_block_load_u32(&from->first_step) == 0) {
        const uint64_t init = cell_sm_of_c(args, from, &from->init, &from->init_c);
        return init == 0 ? 0.0f : cell_block_load_f32(cell_sm_at(init, 0, unit));
    }
    const float *c =
        (const float *)cell_sm_part(args, cell_block_load_u32(&order->ids[row]), CELL_SM_PART_C, 0);
    return cell_block_load_f32(&c[unit]);
}

struct cell_sm_state {
    float h, c;
};

/* sums: i, o, f, c. */
CELL_BLOCK_FN struct cell_sm_state cell_sm_lstm(const float sums[CELL_COLUMNS], float old_c)
{
    struct cell_sm_state to;
    const float g = cell_tanh_f32(sums[3]);
    to.c = cell_nan_f32(fmaf(cell_sigmoid_f32(sums[2]), old_c, cell_sigmoid_f32(sums[0]) * g));
    to.h = cell_nan_f32(cell_sigmoid_f32(sums[1]) * cell_tanh_f32(to.c));
    return to;
}

/* sums: z, r, n over x, n over h. */
CELL_BLOCK_FN struct cell_sm_state cell_sm_gru(const float sums[CELL_COLUMNS], float old_h)
{
    struct cell_sm_state to;
    const float z = cell_sigmoid_f32(sums[0]);
    const float n = cell_tanh_f32(fmaf(cell_sigmoid_f32(sums[1]), sums[3], sums[2]));
    to.h = cell_nan_f32(fmaf(z, old_h - n, n));
    to.c = 0.0f;
    return to;
}

/* Where a new value of a row goes. */
struct cell_sm_place {
    const struct cell_sm_args *args;
    const struct cell_sm_order *order;
    uint32_t row, unit, step;
    bool is_lstm;
};

/* h of a bf16 lane is rounded already; it stands as a float, as everywhere but in the tiles, so
 * that whoever else reads rows needs not know which lane wrote them. */
CELL_BLOCK_FN void cell_sm_store(const struct cell_sm_place *at, struct cell_sm_state value)
{
    const struct cell_sm_args *args = at->args;
    const struct cell_sm_row *to = &at->order->rows[at->row];
    const uint32_t id = cell_block_load_u32(&at->order->ids[at->row]);
    const uint32_t after = cell_block_load_u32(&to->first_step) + at->step + 1;
    cell_block_store_f32((float *)cell_sm_part(args, id, CELL_SM_PART_H, after) + at->unit,
                         value.h);
    if (at->is_lstm) {
        cell_block_store_f32((float *)cell_sm_part(args, id, CELL_SM_PART_C, 0) + at->unit,
                             value.c);
    }
    const uint64_t out = cell_block_load_u64(&to->out);
    if (out != 0) {
        const int64_t stride = (int64_t)cell_block_load_u64((const uint64_t *)&to->out_stride);
        cell_block_store_f32(cell_sm_at(out, at->step * stride, at->unit), value.h);
    }
    if ((cell_block_load_u32(&to->flags) & CELL_SM_ROW_LAST) == 0 ||
        at->step + 1 != cell_block_load_u32(&to->steps)) {
        return;
    }
    const uint64_t last = cell_block_load_u64(&to->last);
    if (last != 0) {
        cell_block_store_f32(cell_sm_at(last, 0, at->unit), value.h);
    }
    const uint64_t last_c = cell_sm_of_c(args, to, &to->last, &to->last_c);
    if (at->is_lstm && last_c != 0) {
        cell_block_store_f32(cell_sm_at(last_c, 0, at->unit), value.c);
    }
}

/* For whoever watches that steps go on. */
CELL_BLOCK_FN void cell_sm_count_step(struct cell_sm_words *words)
{
    const uint64_t steps =
        cell_block_word_load(CELL_SM_SITE_STEPS_LOAD, &words->steps, CELL_LANE_RELAXED);
    cell_block_word_store(CELL_SM_SITE_STEPS_STORE, &words->steps, steps + 1, CELL_LANE_RELAXED);
}

#endif
