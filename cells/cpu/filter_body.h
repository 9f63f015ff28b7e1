/* FILTER for one instruction set: channels are lanes, and a lane's taps come in their order, so
 * that its bits are the same whatever the vectors' length. Included by kernels_body.h's files,
 * behind pointwise_body.h. */
#ifndef CELLS_CPU_FILTER_BODY_H
#define CELLS_CPU_FILTER_BODY_H

#include "cells/cpu/pointwise_body.h"

#include <stdbool.h>

#ifdef CELL_SIMD_LANES

/* Channels c.. of a place; n: of a vector that is not full, else 0. */
CELL_INLINE simd_vec filter_load(const float *from, size_t n)
{
    return n == 0 ? simd_load(from) : simd_load_part(from, n);
}

CELL_INLINE simd_vec filter_of(const struct cell_filter_run *run, const float *x, size_t c,
                               size_t n)
{
    simd_vec value = run->bias == NULL ? simd_set1(0.0f) : filter_load(run->bias + c, n);
    for (uint32_t t = 0; t < run->n_taps; t++) {
        const simd_vec tap = filter_load(x + run->offsets[t] + c, n);
        value = simd_fma(tap, filter_load(run->weights[t] + c, n), value);
    }
    return one_nan(value);
}

CELL_INLINE simd_vec largest_of(const struct cell_filter_run *run, const float *x, size_t c,
                                size_t n)
{
    simd_vec value = filter_load(x + run->offsets[0] + c, n);
    for (uint32_t t = 1; t < run->n_taps; t++) {
        value = max_of(value, filter_load(x + run->offsets[t] + c, n));
    }
    return one_nan(value);
}

static void filter_places(const struct cell_filter_run *run)
{
    const bool is_sum = run->weights != NULL;
    const float *x = run->x;
    float *out = run->out;
    for (uint32_t p = 0; p < run->n_places; p++, x += run->step, out += run->channels) {
        size_t c = 0;
        for (; c + CELL_SIMD_LANES <= run->channels; c += CELL_SIMD_LANES) {
            simd_store(out + c, is_sum ? filter_of(run, x, c, 0) : largest_of(run, x, c, 0));
        }
        const size_t rest = run->channels - c;
        if (rest > 0) {
            simd_store_part(out + c, rest,
                            is_sum ? filter_of(run, x, c, rest) : largest_of(run, x, c, rest));
        }
    }
}

#endif
#endif
