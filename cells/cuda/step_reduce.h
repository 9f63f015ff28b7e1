/* Bodies of the kernels of REDUCE and PICK; see step.h. A lane of a REDUCE has one of the parts
 * that the op's sums are made of (CELL_REDUCE_PART), so the order is that of cells/cpu/reduce.c.
 * Sums are in double precision, and no operation is fused. */
#ifndef CELLS_CUDA_STEP_REDUCE_H
#define CELLS_CUDA_STEP_REDUCE_H

#include "cells/cuda/step_attend.h"

#include <string.h>

/* The room of an item: a sum of each part, and behind them the mean. */
CELL_STEP_FN void cell_step_put_double(float *room, uint32_t i, double x)
{
    memcpy(room + 2 * i, &x, sizeof(x));
}

CELL_STEP_FN double cell_step_double_of(const float *room, uint32_t i)
{
    double x;
    memcpy(&x, room + 2 * i, sizeof(x));
    return x;
}

/* What is best so far, of elements that come in their order. */
CELL_STEP_FN float cell_step_better(uint32_t variant, float best, float x)
{
    const bool is_better = variant == CELL_REDUCE_MAX ? x > best : x < best;
    return is_better || isnan(x) ? x : best;
}

/* A lane's part of element k. */
CELL_STEP_FN void cell_step_reduce_part(const struct cell_step_reduce *p,
                                        const struct cell_step_source *memory, uint32_t k,
                                        struct cell_step_at at)
{
    const uint32_t part = CELL_REDUCE_PART(memory->rows);
    const uint64_t first = (uint64_t)at.lane * part;
    const uint64_t end = first + part < memory->rows ? first + part : memory->rows;
    const bool picks = p->variant == CELL_REDUCE_MAX || p->variant == CELL_REDUCE_MIN;
    const double mean = at.phase == 0 ? 0.0 : cell_step_double_of(at.room, CELL_REDUCE_PARTS);
    double sum = 0.0;
    float best = 0.0f;
    for (uint64_t t = first; t < end; t++) {
        const float x = cell_step_memory_row(memory, (uint32_t)t)[k];
        if (picks) {
            best = t == first ? x : cell_step_better(p->variant, best, x);
        } else {
            const double off = (double)x - mean;
            sum += at.phase == 0 ? (double)x : off * off;
        }
    }
    cell_step_put_double(at.room, at.lane, picks ? (double)best : sum);
}

/* Of all parts. */
CELL_STEP_FN double cell_step_reduce_all(const struct cell_step_reduce *p, uint32_t steps,
                                         const float *room)
{
    const uint32_t n = (steps + CELL_REDUCE_PART(steps) - 1) / CELL_REDUCE_PART(steps);
    const bool picks = p->variant == CELL_REDUCE_MAX || p->variant == CELL_REDUCE_MIN;
    double all = picks && n > 0 ? cell_step_double_of(room, 0) : 0.0;
    for (uint32_t i = picks ? 1 : 0; i < n; i++) {
        const double x = cell_step_double_of(room, i);
        all = picks ? (double)cell_step_better(p->variant, (float)all, (float)x) : all + x;
    }
    return p->variant == CELL_REDUCE_MEAN || p->variant == CELL_REDUCE_VARIANCE ? all / steps : all;
}

/* Phases: the parts; the result, or the mean; of a variance the parts' squares; and the result. */
CELL_STEP_FN void cell_step_reduce(const struct cell_step_reduce *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->width;
    const uint32_t k = at.item % p->width;
    const bool is_variance = p->variant == CELL_REDUCE_VARIANCE;
    if (!cell_step_runs(&p->batch, r) || (at.phase > 1 && !is_variance)) {
        return;
    }
    const struct cell_step_source *memory = cell_step_source_of(&p->batch, p->memory, r);
    if (p->variant == CELL_REDUCE_COUNT) {
        if (at.phase == 0 && at.lane == 0) {
            cell_step_f32(p->out, r)[k] = (float)memory->rows;
        }
    } else if (at.phase % 2 == 0) {
        cell_step_reduce_part(p, memory, k, at);
    } else if (at.lane == 0) {
        const double all = cell_step_reduce_all(p, memory->rows, at.room);
        cell_step_put_double(at.room, CELL_REDUCE_PARTS, all);
        cell_step_f32(p->out, r)[k] = cell_nan_f32((float)all);
    }
}

CELL_STEP_FN void cell_step_pick(const struct cell_step_pick *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->width;
    const uint32_t k = at.item % p->width;
    if (!cell_step_runs(&p->batch, r)) {
        return;
    }
    const struct cell_step_source *memory = cell_step_source_of(&p->batch, p->memory, r);
    const float number = *cell_step_f32(p->number, r);
    cell_step_f32(p->out, r)[k] =
        memory->rows == 0 ? 0.0f
                          : cell_step_memory_row(memory, CELL_PICK_ROW(number, memory->rows))[k];
}

#endif
