/* Bodies of the kernels of ATTEND; see step.h. One pass over the scores for each element, as
 * cells/cpu/attend.c makes one for all: the sums so far are scaled down when a larger score comes.
 * No operation is fused, and element i of a score adds to partial sum i mod 16. */
#ifndef CELLS_CUDA_STEP_ATTEND_H
#define CELLS_CUDA_STEP_ATTEND_H

#include "cells/cuda/step_ops.h"
#include "cells/cuda/step_rows.h"

CELL_STEP_FN const float *cell_step_memory_row(const struct cell_step_source *source, uint32_t t)
{
    return cell_step_floats(source->at + (uint64_t)((int64_t)t * source->stride));
}

/* Element i of the score's sum. */
CELL_STEP_FN float cell_step_score_term(const struct cell_step_attend *p, const float *q,
                                        const float *key, uint32_t i)
{
    const float v = cell_step_floats(p->v)[i];
    return p->variant == CELL_ATTEND_TANH ? cell_tanh_f32(key[i] + q[i]) * v : v * q[i] * key[i];
}

CELL_STEP_FN float cell_step_score(const struct cell_step_attend *p, const float *q,
                                   const float *key)
{
    float lanes[CELL_SOFTMAX_LANES];
    for (uint32_t lane = 0; lane < CELL_SOFTMAX_LANES; lane++) {
        float sum = 0.0f;
        for (uint32_t i = lane; i < p->width; i += CELL_SOFTMAX_LANES) {
            sum += cell_step_score_term(p, q, key, i);
        }
        lanes[lane] = sum;
    }
    return cell_step_fold(lanes);
}

CELL_STEP_FN void cell_step_attend_score(const struct cell_step_attend *p, struct cell_step_at at)
{
    const uint32_t r = at.item / CELL_STEP_SCORERS;
    if (!cell_step_runs(&p->batch, r)) {
        return;
    }
    const struct cell_step_source *keys = cell_step_source_of(&p->batch, p->keys, r);
    float *room = (float *)cell_step_pointer(keys->room);
    for (uint32_t t = at.item % CELL_STEP_SCORERS; t < keys->rows; t += CELL_STEP_SCORERS) {
        room[t] = cell_step_score(p, cell_step_f32(p->q, r), cell_step_memory_row(keys, t));
    }
}

/* A NaN, too, from then on; 0 without rows. */
CELL_STEP_FN float cell_step_largest_score(const float *scores, uint32_t n)
{
    float high = n == 0 ? 0.0f : -INFINITY;
    for (uint32_t t = 0; t < n && !isnan(high); t++) {
        high = scores[t] <= high ? high : scores[t];
    }
    return cell_nan_f32(high);
}

CELL_STEP_FN void cell_step_attend(const struct cell_step_attend *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->out_width;
    const uint32_t k = at.item % p->out_width;
    if (!cell_step_runs(&p->batch, r)) {
        return;
    }
    const struct cell_step_source *keys = cell_step_source_of(&p->batch, p->keys, r);
    const struct cell_step_source *values = cell_step_source_of(&p->batch, p->values, r);
    const float *scores = cell_step_floats(keys->room);
    float *result = cell_step_f32(p->out, r) + k;
    if (p->variant == CELL_ATTEND_LARGEST) {
        *result = cell_step_largest_score(scores, keys->rows);
        return;
    }
    float high = -INFINITY;
    float sum = 0.0f;
    float out = 0.0f;
    for (uint32_t t = 0; t < keys->rows; t++) {
        const float score = scores[t];
        if (score > high) {
            const float less = cell_exp_f32(high - score);
            high = score;
            sum *= less;
            out *= less;
        }
        const float weight = cell_exp_f32(score - high);
        sum += weight;
        out += weight * cell_step_memory_row(values, t)[k];
    }
    *result = keys->rows == 0 ? 0.0f : cell_nan_f32(out / sum);
}

#endif
