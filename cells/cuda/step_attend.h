/* Bodies of the kernels of ATTEND; see step.h. Sums over the memory are in the order of
 * cells/cpu/attend.c, which makes one pass: the sums so far are scaled down when a larger score
 * comes. By what, is known of all positions before the pass. Element i of a score is added to
 * partial sum i mod 16 by a fused multiply-add; what is added to it is a sum of its own. */
#ifndef CELLS_CUDA_STEP_ATTEND_H
#define CELLS_CUDA_STEP_ATTEND_H

#include "cells/cuda/step_ops.h"
#include "cells/cuda/step_rows.h"

CELL_STEP_FN const float *cell_step_memory_row(const struct cell_step_source *source, uint32_t t)
{
    return cell_step_floats(source->at + (uint64_t)((int64_t)t * source->stride));
}

/* The sum with element i of the score's. */
CELL_STEP_FN float cell_step_add_term(const struct cell_step_attend *p, const float *q,
                                      const float *key, uint32_t i, float sum)
{
    const float v = cell_step_floats(p->v)[i];
    return p->variant == CELL_ATTEND_TANH ? fmaf(cell_tanh_f32(key[i] + q[i]), v, sum)
                                          : fmaf(v * q[i], key[i], sum);
}

/* A row's room: its scores, or what they count; and behind them partial sums, or by what the sums
 * so far are multiplied. */
struct cell_step_weights {
    float *scores; /* [n] */
    float *behind; /* [n][1 or 2][CELL_SOFTMAX_LANES], or [n] */
    uint32_t n;
    uint32_t first, end; /* of n: those that there are for this row */
};

CELL_STEP_FN struct cell_step_weights cell_step_weights(const struct cell_step_attend *p,
                                                        uint32_t r)
{
    const struct cell_step_source *keys = cell_step_source_of(&p->batch, p->keys, r);
    struct cell_step_weights weights;
    weights.scores = (float *)cell_step_pointer(keys->room);
    weights.behind = weights.scores + keys->rows;
    weights.n = keys->rows;
    weights.first = 0;
    weights.end = keys->rows;
    if (p->has_bounds != 0) {
        const float *bounds = cell_step_f32(p->bounds, r);
        weights.first = CELL_ATTEND_BOUND(bounds[0], keys->rows);
        weights.end = CELL_ATTEND_BOUND(bounds[1], keys->rows);
    }
    return weights;
}

/* A lane's partial sum of what is added to the score of position t. */
CELL_STEP_FN float cell_step_relative(const struct cell_step_attend *p, uint32_t r, uint32_t t,
                                      uint32_t lane)
{
    const float *relative = cell_step_f32(p->relative, r);
    const uint32_t n = CELL_PICK_ROW(cell_step_f32(p->bounds, r)[2] + (float)t, p->table_rows);
    const float *row = cell_step_floats(p->table) + (uint64_t)n * p->table_width;
    float sum = 0.0f;
    for (uint32_t i = lane; i < p->table_width; i += CELL_SOFTMAX_LANES) {
        sum = fmaf(relative[i], row[i], sum);
    }
    return sum;
}

/* Phases: a partial sum of every score, for each lane; a score. */
CELL_STEP_FN void cell_step_attend_score(const struct cell_step_attend *p, struct cell_step_at at)
{
    const uint32_t r = at.item / CELL_STEP_SCORERS;
    if (!cell_step_runs(&p->batch, r)) {
        return;
    }
    const struct cell_step_source *keys = cell_step_source_of(&p->batch, p->keys, r);
    const struct cell_step_weights weights = cell_step_weights(p, r);
    const float *q = cell_step_f32(p->q, r);
    const uint32_t first = at.item % CELL_STEP_SCORERS;
    const uint32_t lanes = CELL_SOFTMAX_LANES * (p->table_width > 0 ? 2 : 1);
    for (uint32_t t = first; t < weights.n && at.phase == 0; t += CELL_STEP_SCORERS) {
        const float *key = cell_step_memory_row(keys, t);
        float sum = 0.0f;
        for (uint32_t i = at.lane; i < p->width; i += CELL_SOFTMAX_LANES) {
            sum = cell_step_add_term(p, q, key, i, sum);
        }
        weights.behind[(uint64_t)t * lanes + at.lane] = sum;
    }
    for (uint32_t t = first; t < weights.n && at.phase == 0 && p->table_width > 0;
         t += CELL_STEP_SCORERS) {
        weights.behind[(uint64_t)t * lanes + CELL_SOFTMAX_LANES + at.lane] =
            cell_step_relative(p, r, t, at.lane);
    }
    for (uint32_t t = first + at.lane * CELL_STEP_SCORERS; t < weights.n && at.phase == 1;
         t += CELL_SOFTMAX_LANES * CELL_STEP_SCORERS) {
        const float *sums = weights.behind + (uint64_t)t * lanes;
        const bool is_there = t >= weights.first && t < weights.end;
        float score = cell_step_fold(sums);
        score += p->table_width > 0 ? cell_step_fold(sums + CELL_SOFTMAX_LANES) : 0.0f;
        weights.scores[t] = is_there ? score : -INFINITY; // counts nothing
    }
}

/* The larger of a score and the largest before; the first of equal ones, and no NaN. */
CELL_STEP_FN float cell_step_higher(float high, float score)
{
    return score > high ? score : high;
}

/* Of CELL_ATTEND_LARGEST: a NaN, too, from then on. */
CELL_STEP_FN float cell_step_higher_or_nan(float high, float score)
{
    return isnan(high) || score <= high ? high : score;
}

/* The largest of the lanes' parts before number n. */
CELL_STEP_FN float cell_step_high_before(const struct cell_step_attend *p, const float *room,
                                         uint32_t n)
{
    float high = -INFINITY;
    for (uint32_t lane = 0; lane < n; lane++) {
        high = p->variant == CELL_ATTEND_LARGEST ? cell_step_higher_or_nan(high, room[lane])
                                                 : cell_step_higher(high, room[lane]);
    }
    return high;
}

/* What the positions of a lane's part count, where `high` is the largest score before. Where none
 * is larger, the sums so far stay: times 1. */
CELL_STEP_FN void cell_step_weigh(const struct cell_step_weights *weights, uint32_t first,
                                  uint32_t end, float high)
{
    for (uint32_t t = first; t < end; t++) {
        const float score = weights->scores[t];
        weights->behind[t] = score > high ? cell_exp_f32(high - score) : 1.0f;
        high = cell_step_higher(high, score);
        weights->scores[t] = score == -INFINITY ? 0.0f : cell_exp_f32(score - high);
    }
}

/* Phases: the largest of each lane's part; then of all, the result; or what each position counts.
 */
CELL_STEP_FN void cell_step_attend_weigh(const struct cell_step_attend *p, struct cell_step_at at)
{
    if (!cell_step_runs(&p->batch, at.item)) {
        return;
    }
    const struct cell_step_weights weights = cell_step_weights(p, at.item);
    const bool is_largest = p->variant == CELL_ATTEND_LARGEST;
    const uint32_t part = (weights.n + CELL_STEP_LANES_MAX - 1) / CELL_STEP_LANES_MAX;
    const uint32_t first = at.lane * part < weights.n ? at.lane * part : weights.n;
    const uint32_t end = first + part < weights.n ? first + part : weights.n;
    if (at.phase == 0) {
        float high = -INFINITY;
        for (uint32_t t = first; t < end; t++) {
            const float score = weights.scores[t];
            high =
                is_largest ? cell_step_higher_or_nan(high, score) : cell_step_higher(high, score);
        }
        at.room[at.lane] = high;
    } else if (!is_largest && first < end) {
        cell_step_weigh(&weights, first, end, cell_step_high_before(p, at.room, at.lane));
    } else if (is_largest && at.lane == 0) { // 0 without rows
        const float high = cell_step_high_before(p, at.room, CELL_STEP_LANES_MAX);
        *cell_step_f32(p->out, at.item) = weights.n == 0 ? 0.0f : cell_nan_f32(high);
    }
}

CELL_STEP_FN void cell_step_attend(const struct cell_step_attend *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->out_width;
    const uint32_t k = at.item % p->out_width;
    if (!cell_step_runs(&p->batch, r)) {
        return;
    }
    const struct cell_step_source *values = cell_step_source_of(&p->batch, p->values, r);
    const struct cell_step_weights weights = cell_step_weights(p, r);
    cell_step_address row = values->at + (uint64_t)((int64_t)weights.first * values->stride);
    float sum = 0.0f;
    float out = 0.0f;
    for (uint32_t t = weights.first; t < weights.end; t++) {
        const float weight = weights.scores[t];
        sum = sum * weights.behind[t] + weight;
        out = fmaf(weight, cell_step_floats(row)[k], out * weights.behind[t]);
        row += (uint64_t)values->stride;
    }
    const bool is_none = weights.first >= weights.end || (p->nan_is_zero != 0 && !(sum > 0.0f));
    cell_step_f32(p->out, r)[k] = is_none ? 0.0f : cell_nan_f32(out / sum);
}

#endif
