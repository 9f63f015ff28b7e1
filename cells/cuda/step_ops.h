/* Bodies of the kernels of all other ops; see step.h. Sums over a row are the sixteen partial sums
 * that define their bits (cells/ref/math.c), a lane each. */
#ifndef CELLS_CUDA_STEP_OPS_H
#define CELLS_CUDA_STEP_OPS_H

#include "cells/cuda/step.h"
#include "cells/ref/pointwise_body.h"

CELL_STEP_FN void cell_step_chain(const struct cell_step_chain *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->width;
    const uint32_t i = at.item % p->width;
    float kept[CELL_STEP_CHAIN_VALUES];
    for (uint32_t o = 0; o < p->n_ops; o++) {
        const struct cell_step_chain_op *op = &p->ops[o];
        float in[3];
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t v = op->in[k];
            in[k] = (p->is_read >> v & 1) != 0
                        ? cell_step_f32(p->values[v], r)[(p->is_single >> v & 1) != 0 ? 0 : i]
                        : kept[v];
        }
        kept[op->out] = cell_pointwise_f32(op->kind, in[0], in[1], in[2]);
        if (op->is_stored != 0) {
            cell_step_f32(p->values[op->out], r)[i] = kept[op->out];
        }
    }
}

/* Halves to halves: 8, 4, 2, 1. */
CELL_STEP_FN float cell_step_fold(const float *room)
{
    float lanes[CELL_SOFTMAX_LANES];
    for (uint32_t i = 0; i < CELL_SOFTMAX_LANES; i++) {
        lanes[i] = room[i];
    }
    for (uint32_t half = CELL_SOFTMAX_LANES / 2; half > 0; half /= 2) {
        for (uint32_t i = 0; i < half; i++) {
            lanes[i] = lanes[i] + lanes[i + half];
        }
    }
    return lanes[0];
}

/* Largest of the lanes' numbers; a NaN wins where it is asked to. */
CELL_STEP_FN float cell_step_largest(const float *room, bool with_nan)
{
    float most = room[0];
    for (uint32_t i = 1; i < CELL_SOFTMAX_LANES; i++) {
        most = room[i] > most || (with_nan && isnan(room[i])) ? room[i] : most;
    }
    return most;
}

/* Phases: each lane's largest; exponentials and partial sums; divided; and of LOG_SOFTMAX the
 * logarithms. room: of each lane the largest, the sum, the largest quotient. */
CELL_STEP_FN void cell_step_softmax(const struct cell_step_softmax *p, struct cell_step_at at)
{
    const uint64_t first = (uint64_t)(at.item % p->groups) * p->group;
    const float *in = cell_step_f32(p->in, at.item / p->groups) + first;
    float *out = cell_step_f32(p->out, at.item / p->groups) + first;
    float *highs = at.room;
    float *sums = highs + CELL_SOFTMAX_LANES;
    float *quotients = sums + CELL_SOFTMAX_LANES;
    if (at.phase == 3 && p->is_log == 0) {
        return;
    }
    const float high = at.phase == 0 ? -INFINITY : cell_step_largest(highs, false);
    const float sum = at.phase == 2 ? cell_step_fold(sums) : 0.0f;
    const float log_most = at.phase == 3 ? cell_log_f32(cell_step_largest(quotients, true)) : 0.0f;
    float kept = at.phase == 0 ? high : 0.0f;
    for (uint32_t i = at.lane; i < p->group; i += CELL_SOFTMAX_LANES) {
        if (at.phase == 0) {
            kept = cell_math_max(in[i], kept);
        } else if (at.phase == 1) {
            out[i] = cell_exp_f32(in[i] - high);
            kept += out[i];
        } else if (at.phase == 2) {
            out[i] = cell_nan_f32(out[i] / sum);
            kept = out[i] > kept || isnan(out[i]) ? out[i] : kept;
        } else {
            out[i] = cell_nan_f32((in[i] - high) + log_most);
        }
    }
    if (at.phase < 3) {
        at.room[at.phase * CELL_SOFTMAX_LANES + at.lane] = kept;
    }
}

CELL_STEP_FN void cell_step_mean(const struct cell_step_mean *p, struct cell_step_at at)
{
    const uint32_t row = at.item / p->groups;
    const uint32_t group = at.item % p->groups;
    const float *in = cell_step_f32(p->in, row) + (size_t)group * p->group;
    if (at.phase == 0) {
        float sum = 0.0f;
        for (uint32_t i = at.lane; i < p->group; i += CELL_SOFTMAX_LANES) {
            sum += in[i];
        }
        at.room[at.lane] = sum;
    } else if (at.lane == 0) {
        const float sum = cell_step_fold(at.room);
        cell_step_f32(p->out, row)[group] =
            cell_nan_f32(p->is_sum != 0 ? sum : sum / (float)p->group);
    }
}

/* Whether element b is to be taken for element a: a NaN is larger than all, of equal ones the first
 * counts. */
CELL_STEP_FN bool cell_step_is_better(const float *in, uint32_t b, uint32_t a)
{
    const bool is_nan_a = isnan(in[a]);
    const bool is_nan_b = isnan(in[b]);
    if (is_nan_a || is_nan_b) {
        return is_nan_b && (!is_nan_a || b < a);
    }
    return in[b] > in[a] || (in[b] == in[a] && b < a);
}

/* Phases: each lane's best; the best of all. Numbers below 2^20 are floats. */
CELL_STEP_FN void cell_step_argmax(const struct cell_step_argmax *p, struct cell_step_at at)
{
    const float *in = cell_step_f32(p->in, at.item);
    uint32_t best = at.phase == 0 && at.lane < p->width ? at.lane : 0;
    if (at.phase == 0) {
        for (uint32_t i = best; i < p->width; i += 32) {
            best = cell_step_is_better(in, i, best) ? i : best;
        }
        at.room[at.lane] = (float)best;
    } else if (at.lane == 0) {
        for (uint32_t lane = 0; lane < 32; lane++) {
            const uint32_t i = (uint32_t)at.room[lane];
            best = cell_step_is_better(in, i, best) ? i : best;
        }
        cell_step_set_integer(cell_step_words(p->out, at.item), p->is_long, best);
    }
}

/* Numbers of rows that do not run may be anything. */
CELL_STEP_FN void cell_step_take(const struct cell_step_take *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->n;
    const uint32_t i = at.item % p->n;
    const uint32_t number = cell_step_words(p->numbers, r)[2 * (uint64_t)i];
    cell_step_f32(p->out, r)[i] =
        cell_step_f32(p->in, r)[number < p->width ? number : p->width - 1];
}

CELL_STEP_FN void cell_step_transpose(const struct cell_step_transpose *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    const uint32_t word = at.item % p->words;
    const uint32_t b = word % p->block;
    const uint32_t row = word / p->block % p->rows;
    const uint32_t outer = word / p->block / p->rows;
    const uint32_t col = outer % p->cols;
    const uint32_t first = outer / p->cols * p->rows;
    cell_step_words(p->out, r)[word] =
        cell_step_words(p->in, r)[((first + row) * p->cols + col) * p->block + b];
}

CELL_STEP_FN void cell_step_spread(const struct cell_step_spread *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    const uint32_t word = at.item % p->words;
    const uint32_t part = word / p->block / p->times;
    cell_step_words(p->out, r)[word] = cell_step_words(p->in, r)[part * p->block + word % p->block];
}

/* Where a tap of a place stands in its row; -1: beyond the edges. */
CELL_STEP_FN int64_t cell_step_tap(const struct cell_step_picture *p, uint32_t place, uint32_t tap)
{
    const int64_t y = (int64_t)(place / p->across) * p->strides[0] +
                      (int64_t)(tap / p->taps[1]) * p->dilations[0] - p->before[0];
    const int64_t x = (int64_t)(place % p->across) * p->strides[1] +
                      (int64_t)(tap % p->taps[1]) * p->dilations[1] - p->before[1];
    const bool is_inside = y >= 0 && y < p->size[0] && x >= 0 && x < p->size[1];
    return is_inside ? (y * p->size[1] + x) * p->channels : -1;
}

CELL_STEP_FN void cell_step_places(const struct cell_step_places *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    const uint32_t word = at.item % p->words;
    const uint32_t k = word % p->terms;
    const uint32_t c = k % p->picture.channels;
    const int64_t from = cell_step_tap(&p->picture, word / p->terms, k / p->picture.channels);
    cell_step_f32(p->out, r)[word] = from < 0 ? 0.0f : cell_step_f32(p->in, r)[from + c];
}

CELL_STEP_FN void cell_step_filter(const struct cell_step_filter *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    const uint32_t word = at.item % p->words;
    const uint32_t channels = p->picture.channels;
    const uint32_t place = word / channels;
    const uint32_t c = word % channels;
    const uint32_t taps = p->picture.taps[0] * p->picture.taps[1];
    const float *in = cell_step_f32(p->in, r);
    const float *w = (const float *)cell_step_pointer(p->weights);
    float value = p->bias == 0 ? 0.0f : ((const float *)cell_step_pointer(p->bias))[c];
    bool is_first = true;
    for (uint32_t t = 0; t < taps; t++) {
        const int64_t from = cell_step_tap(&p->picture, place, t);
        if (from < 0) {
            continue;
        }
        const float tap = in[from + c];
        value = p->weights != 0 ? fmaf(tap, w[(uint64_t)t * channels + c], value)
                : is_first      ? tap
                                : cell_pointwise_f32(CELL_OP_MAX, value, tap, 0.0f);
        is_first = false;
    }
    cell_step_f32(p->out, r)[word] = cell_nan_f32(value);
}

/* Toward zero; outside the range its end; NaN is 0. */
CELL_STEP_FN int64_t cell_step_integer_of(float x, int64_t low, int64_t high)
{
    if (isnan(x)) {
        return 0;
    }
    // 2^63 and 2^31 are floats, the ends below them are not: compare before the conversion.
    const double wide = (double)x;
    if (wide >= -(double)low) {
        return high;
    }
    return wide <= (double)low ? low : (int64_t)x;
}

CELL_STEP_FN void cell_step_cast(const struct cell_step_cast *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->width;
    const uint64_t i = at.item % p->width;
    const uint32_t is_long = p->to == CELL_I64;
    const uint32_t *in = cell_step_words(p->in, r) + i * (p->from == CELL_I64 ? 2 : 1);
    uint32_t *out = cell_step_words(p->out, r) + i * (is_long != 0 ? 2 : 1);
    if (p->to == CELL_F32) {
        *out =
            cell_math_bits(p->from == CELL_F32 ? cell_nan_f32(cell_math_float(*in))
                                               : (float)cell_step_integer(in, p->from == CELL_I64));
        return;
    }
    const int64_t low = is_long != 0 ? INT64_MIN : INT32_MIN;
    const int64_t high = is_long != 0 ? INT64_MAX : INT32_MAX;
    const int64_t value = p->from == CELL_F32
                              ? cell_step_integer_of(cell_math_float(*in), low, high)
                              : cell_step_integer(in, p->from == CELL_I64);
    cell_step_set_integer(out, is_long, value); // I64 to I32 keeps the low bits
}

#endif
