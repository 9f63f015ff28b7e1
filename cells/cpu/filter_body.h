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

/* Places that go together, or vectors of channels of one place: each of their sums waits for itself
 * at every tap. */
#    define FILTER_PLACES  ((uint32_t)8)
#    define FILTER_VECTORS ((size_t)4)

/* Some places, and of each some vectors of channels. */
struct filter_part {
    uint32_t places, first;
    size_t vectors, channel;
    size_t n; /* of a vector that is not full, else 0 */
};

/* Tap by tap. */
CELL_INLINE void filter_some(const struct cell_filter_run *run, const struct cell_bounds bounds,
                             const bool is_sum, const struct filter_part part)
{
    const float *x = run->x + part.first * run->step + part.channel;
    simd_vec value[FILTER_PLACES][FILTER_VECTORS];
    CELL_UNROLL
    for (uint32_t p = 0; p < part.places; p++) {
        CELL_UNROLL
        for (size_t v = 0; v < part.vectors; v++) {
            const size_t c = v * CELL_SIMD_LANES;
            const float *at = x + p * run->step + c;
            value[p][v] = !is_sum             ? filter_load(at + run->offsets[0], part.n)
                          : run->bias == NULL ? simd_set1(0.0f)
                                              : filter_load(run->bias + part.channel + c, part.n);
        }
    }
    for (uint32_t t = is_sum ? 0 : 1; t < run->n_taps; t++) {
        CELL_UNROLL
        for (size_t v = 0; v < part.vectors; v++) {
            const size_t c = v * CELL_SIMD_LANES;
            const float *at = x + run->offsets[t] + c;
            const simd_vec w =
                is_sum ? filter_load(run->weights[t] + part.channel + c, part.n) : simd_set1(0.0f);
            CELL_UNROLL
            for (uint32_t p = 0; p < part.places; p++) {
                const simd_vec tap = filter_load(at + p * run->step, part.n);
                value[p][v] = is_sum ? simd_fma(tap, w, value[p][v]) : max_of(value[p][v], tap);
            }
        }
    }
    float *out = run->out + (size_t)part.first * run->channels + part.channel;
    CELL_UNROLL
    for (uint32_t p = 0; p < part.places; p++) {
        CELL_UNROLL
        for (size_t v = 0; v < part.vectors; v++) {
            float *to = out + (size_t)p * run->channels + v * CELL_SIMD_LANES;
            const simd_vec result = bounded(bounds, value[p][v]);
            if (part.n == 0) {
                simd_store(to, result);
            } else {
                simd_store_part(to, part.n, result);
            }
        }
    }
}

/* All channels of some places. */
CELL_INLINE void filter_all(const struct cell_filter_run *run, const struct cell_bounds bounds,
                            const bool is_sum, const uint32_t places, uint32_t first)
{
    struct filter_part part = {.places = places, .first = first, .vectors = FILTER_VECTORS};
    for (; places == 1 && part.channel + FILTER_VECTORS * CELL_SIMD_LANES <= run->channels;
         part.channel += FILTER_VECTORS * CELL_SIMD_LANES) {
        filter_some(run, bounds, is_sum, part);
    }
    part.vectors = 1;
    for (; part.channel + CELL_SIMD_LANES <= run->channels; part.channel += CELL_SIMD_LANES) {
        filter_some(run, bounds, is_sum, part);
    }
    part.n = run->channels - part.channel;
    if (part.n > 0) {
        filter_some(run, bounds, is_sum, part);
    }
}

CELL_INLINE void filter_ways(const struct cell_filter_run *run, const struct cell_bounds bounds,
                             const bool is_sum)
{
    uint32_t p = 0;
    for (; p + FILTER_PLACES <= run->n_places; p += FILTER_PLACES) {
        filter_all(run, bounds, is_sum, FILTER_PLACES, p);
    }
    if (p + FILTER_PLACES / 2 <= run->n_places) {
        filter_all(run, bounds, is_sum, FILTER_PLACES / 2, p);
        p += FILTER_PLACES / 2;
    }
    for (; p < run->n_places; p++) {
        filter_all(run, bounds, is_sum, 1, p);
    }
}

static void filter_places(const struct cell_filter_run *run)
{
    const struct cell_bounds none = {.are = false};
    if (run->weights == NULL) {
        filter_ways(run, run->bounds, false);
    } else if (run->bounds.are) {
        filter_ways(run, run->bounds, true);
    } else {
        filter_ways(run, none, true);
    }
}

#endif
#endif
