/* Body of the kernel of TOP; see step.h. The n best elements are those whose key is above the n-th
 * key, which is found bit by bit, and the first of those that have it; a place is the number of
 * those before. Cost a row: 33 passes of `width`, and n^2 comparisons, by 256 threads. */
#ifndef CELLS_CUDA_STEP_TOP_H
#define CELLS_CUDA_STEP_TOP_H

#include "cells/cuda/step_ops.h"

#define CELL_STEP_TOP_BITS 32u /* of a key: phases that find it */

/* Keys have the order of elements: equal ones the same, a NaN the largest. */
CELL_STEP_FN uint32_t cell_step_key(const struct cell_step_top *p, float x)
{
    const uint32_t bits = cell_math_bits(x == 0.0f ? 0.0f : x);
    uint32_t key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    key = isnan(x) ? UINT32_MAX : key;
    return p->is_largest != 0 ? key : ~key;
}

/* What is as large as a key, or above it, of the lane's part of a row: every 256th element. */
CELL_STEP_FN uint32_t cell_step_count_from(const struct cell_step_top *p, const float *in,
                                           uint32_t lane, uint32_t key)
{
    uint32_t n = 0;
    for (uint32_t i = lane; i < p->width; i += CELL_STEP_LANES_MAX) {
        n += cell_step_key(p, in[i]) >= key ? 1 : 0;
    }
    return n;
}

/* Numbers below 2^24 are floats, and their sums have no order. */
CELL_STEP_FN uint32_t cell_step_sum(const float *room, uint32_t n)
{
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (uint32_t k = 0; k < 4; k++) {
            sums[k] += room[i + k];
        }
    }
    for (; i < n; i++) {
        sums[0] += room[i];
    }
    return (uint32_t)(sums[0] + sums[1] + sums[2] + sums[3]);
}

/* The n-th key as far as bits were looked at before this phase: its lower bits are 0. Counts come
 * and go in two rooms by turns; each lane keeps the key itself. */
CELL_STEP_FN uint32_t cell_step_nth_key(const struct cell_step_top *p, struct cell_step_at at)
{
    if (at.phase == 0) {
        return 0;
    }
    const uint32_t key = cell_math_bits(at.room[2 * CELL_STEP_LANES_MAX + at.lane]);
    const uint32_t bit = UINT32_C(1) << (CELL_STEP_TOP_BITS - at.phase);
    const float *counts = at.room + ((at.phase - 1) & 1) * CELL_STEP_LANES_MAX;
    return cell_step_sum(counts, CELL_STEP_LANES_MAX) >= p->n ? key | bit : key;
}

/* Elements of the lane's part, which is one piece of the row here. */
CELL_STEP_FN void cell_step_part(const struct cell_step_top *p, uint32_t lane, uint32_t *first,
                                 uint32_t *end)
{
    const uint32_t part = (p->width + CELL_STEP_LANES_MAX - 1) / CELL_STEP_LANES_MAX;
    *first = lane * part < p->width ? lane * part : p->width;
    *end = *first + part < p->width ? *first + part : p->width;
}

/* How many of the lane's part are above the n-th key, and have it. */
CELL_STEP_FN void cell_step_count_part(const struct cell_step_top *p, const float *in,
                                       struct cell_step_at at)
{
    const uint32_t nth = cell_math_bits(at.room[2 * CELL_STEP_LANES_MAX + at.lane]);
    uint32_t above = 0;
    uint32_t same = 0;
    uint32_t i;
    uint32_t end;
    for (cell_step_part(p, at.lane, &i, &end); i < end; i++) {
        const uint32_t key = cell_step_key(p, in[i]);
        above += key > nth ? 1 : 0;
        same += key == nth ? 1 : 0;
    }
    at.room[at.lane] = (float)above;
    at.room[CELL_STEP_LANES_MAX + at.lane] = (float)same;
}

/* The numbers of those of the lane's part that are taken, side by side with the others'. */
CELL_STEP_FN void cell_step_take_part(const struct cell_step_top *p, const float *in,
                                      uint32_t *numbers, struct cell_step_at at)
{
    const float *sames = at.room + CELL_STEP_LANES_MAX;
    const uint32_t nth = cell_math_bits(sames[CELL_STEP_LANES_MAX + at.lane]);
    uint32_t above = cell_step_sum(at.room, at.lane);
    uint32_t same = cell_step_sum(at.room, CELL_STEP_LANES_MAX) + cell_step_sum(sames, at.lane);
    uint32_t i;
    uint32_t end;
    for (cell_step_part(p, at.lane, &i, &end); i < end; i++) {
        const uint32_t key = cell_step_key(p, in[i]);
        const uint32_t to = key > nth ? above++ : key == nth ? same++ : p->n;
        if (to < p->n) {
            numbers[2 * (uint64_t)to + 1] = i;
        }
    }
}

/* Whether element number a comes before number b. */
CELL_STEP_FN bool cell_step_is_before(const struct cell_step_top *p, const float *in, uint32_t a,
                                      uint32_t b)
{
    const uint32_t x = cell_step_key(p, in[a]);
    const uint32_t y = cell_step_key(p, in[b]);
    return x == y ? a < b : x > y;
}

/* Phases: a bit of the n-th key each; what is left of it; what each lane has of those that are
 * taken; their numbers, in any order; these in theirs; the room is a number's half again. */
CELL_STEP_FN void cell_step_top(const struct cell_step_top *p, struct cell_step_at at)
{
    const float *in = cell_step_f32(p->in, at.item);
    uint32_t *numbers = cell_step_words(p->out, at.item);
    if (at.phase <= CELL_STEP_TOP_BITS) {
        const uint32_t key = cell_step_nth_key(p, at);
        at.room[2 * CELL_STEP_LANES_MAX + at.lane] = cell_math_float(key);
        if (at.phase < CELL_STEP_TOP_BITS) {
            const uint32_t bit = UINT32_C(1) << (CELL_STEP_TOP_BITS - 1 - at.phase);
            at.room[(at.phase & 1) * CELL_STEP_LANES_MAX + at.lane] =
                (float)cell_step_count_from(p, in, at.lane, key | bit);
        }
    } else if (at.phase == CELL_STEP_TOP_BITS + 1) {
        cell_step_count_part(p, in, at);
    } else if (at.phase == CELL_STEP_TOP_BITS + 2) {
        cell_step_take_part(p, in, numbers, at);
    }
    for (uint32_t i = at.lane; i < p->n && at.phase > CELL_STEP_TOP_BITS + 2;
         i += CELL_STEP_LANES_MAX) {
        uint32_t before = 0;
        for (uint32_t k = 0; k < p->n && at.phase == CELL_STEP_TOP_BITS + 3; k++) {
            before += cell_step_is_before(p, in, numbers[2 * (uint64_t)k + 1],
                                          numbers[2 * (uint64_t)i + 1])
                          ? 1
                          : 0;
        }
        if (at.phase == CELL_STEP_TOP_BITS + 3) {
            numbers[2 * (uint64_t)before] = numbers[2 * (uint64_t)i + 1];
        } else {
            numbers[2 * (uint64_t)i + 1] = 0;
        }
    }
}

#endif
