/* What ATTEND does with some rows at a time (cells/kernels.h, struct cell_dots and cell_weighing),
 * in vectors: products, exponentials, sums that stay in registers. Included once by each
 * instruction set's kernels. Pure functions. */
#ifndef CELLS_CPU_ATTEND_BODY_H
#define CELLS_CPU_ATTEND_BODY_H

#include "cells/cpu/math_body.h"
#include "cells/kernels.h"

#if defined(CELL_SIMD_LANES) && defined(CELL_TABLE)

/* Queries, and rows, whose sums go side by side; rows of one query. */
#    define DOTS_SIDE  ((uint32_t)(CELL_SIMD_LANES == CELL_SOFTMAX_LANES ? 4 : 2))
#    define DOTS_ALONE ((uint32_t)4)
#    define DOTS_MOST  ((size_t)4)

/* What goes side by side. */
struct dots_side {
    const float *a[DOTS_MOST], *b[DOTS_MOST];
    size_t width;
};

/* Adds CELL_SOFTMAX_LANES terms of `queries` by `rows`, constants, from term i on; is_rest: those
 * that are left. */
CELL_INLINE void dots_add(const size_t queries, const size_t rows, const bool is_rest,
                          const struct dots_side *side, size_t i, simd_vec sums[])
{
    enum { VECTORS = CELL_SOFTMAX_LANES / CELL_SIMD_LANES };
    CELL_UNROLL
    for (size_t v = 0; v < VECTORS; v++) {
        const size_t at = i + v * CELL_SIMD_LANES;
        simd_vec x[DOTS_MOST];
        CELL_UNROLL
        for (size_t k = 0; k < queries; k++) {
            x[k] = is_rest ? load_rest(side->a[k], i, side->width, v) : simd_load(side->a[k] + at);
        }
        CELL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const simd_vec y =
                is_rest ? load_rest(side->b[r], i, side->width, v) : simd_load(side->b[r] + at);
            CELL_UNROLL
            for (size_t k = 0; k < queries; k++) {
                const size_t sum = (k * rows + r) * VECTORS + v;
                sums[sum] = simd_fma(x[k], y, sums[sum]);
            }
        }
    }
}

/* Of `queries` by `rows`, constants. */
CELL_INLINE void dots_of(const size_t queries, const size_t rows, const struct cell_dots *dots,
                         uint32_t q, uint32_t t)
{
    enum { VECTORS = CELL_SOFTMAX_LANES / CELL_SIMD_LANES };
    simd_vec sums[DOTS_MOST * DOTS_MOST * VECTORS];
    struct dots_side side = {.width = dots->width};
    size_t i = 0;
    CELL_UNROLL
    for (size_t k = 0; k < queries; k++) {
        side.a[k] = dots->a[q + k];
    }
    CELL_UNROLL
    for (size_t r = 0; r < rows; r++) {
        side.b[r] = cell_some_row(&dots->b, t + (uint32_t)r);
    }
    CELL_UNROLL
    for (size_t k = 0; k < queries * rows * VECTORS; k++) {
        sums[k] = simd_set1(0.0f);
    }
    for (; i + CELL_SOFTMAX_LANES <= dots->width; i += CELL_SOFTMAX_LANES) {
        dots_add(queries, rows, false, &side, i, sums);
    }
    if (i < dots->width) {
        dots_add(queries, rows, true, &side, i, sums);
    }
#    ifdef CELL_SIMD_FOLDS_PAIRS
    if (rows == 4 && queries % 2 == 0) {
        CELL_UNROLL
        for (size_t k = 0; k < queries; k += 2) {
            simd_fold_pair(sums + k * 4, sums + (k + 1) * 4, dots->out[q + k] + t,
                           dots->out[q + k + 1] + t);
        }
        return;
    }
#    endif
    CELL_UNROLL
    for (size_t k = 0; k < queries; k++) {
        CELL_UNROLL
        for (size_t r = 0; r < rows; r++) {
            dots->out[q + k][t + r] = simd_fold(sums + (k * rows + r) * VECTORS);
        }
    }
}

static void dots(const struct cell_dots *dots)
{
    const uint32_t n = dots->b.n;
    uint32_t q = 0;
    for (; q + DOTS_SIDE <= dots->n_queries; q += DOTS_SIDE) {
        uint32_t t = 0;
        for (; t + DOTS_SIDE <= n; t += DOTS_SIDE) {
            dots_of(DOTS_SIDE, DOTS_SIDE, dots, q, t);
        }
        for (; t < n; t++) {
            dots_of(DOTS_SIDE, 1, dots, q, t);
        }
    }
    for (; q < dots->n_queries; q++) {
        uint32_t t = 0;
        for (; t + DOTS_ALONE <= n; t += DOTS_ALONE) {
            dots_of(1, DOTS_ALONE, dots, q, t);
        }
        for (; t < n; t++) {
            dots_of(1, 1, dots, q, t);
        }
    }
}

static void exp_all(uint32_t n, const float *in, float less, float *out)
{
    const simd_vec subtracted = simd_set1(less);
    size_t i = 0;
    for (; i + CELL_SIMD_LANES <= n; i += CELL_SIMD_LANES) {
        simd_store(out + i, exponential(simd_sub(simd_load(in + i), subtracted)));
    }
    if (i < n) {
        const simd_vec x = simd_sub(simd_load_part(in + i, n - i), subtracted);
        simd_store_part(out + i, n - i, exponential(x));
    }
}

/* Lanes behind the last element are 0: they may be above it. */
static bool rises(uint32_t n, const float *in, float high)
{
    enum { VECTORS = CELL_SOFTMAX_LANES / CELL_SIMD_LANES };
    const simd_vec most = simd_set1(high);
    const simd_vec zero = simd_set1(0.0f);
    const simd_vec one = simd_set1(1.0f);
    simd_vec above[VECTORS];
    CELL_UNROLL
    for (size_t v = 0; v < VECTORS; v++) {
        above[v] = zero;
    }
    for (size_t i = 0; i < n; i += CELL_SOFTMAX_LANES) {
        CELL_UNROLL
        for (size_t v = 0; v < VECTORS; v++) {
            const simd_vec x = load_rest(in, i, n, v);
            above[v] = simd_add(above[v], simd_if_at_least(most, x, zero, one));
        }
    }
    return simd_fold(above) > 0.0f;
}

/* Vectors of a query's sums that stay in registers while rows are added; of queries side by side,
 * and of one. */
#    define WEIGH_QUERIES ((uint32_t)(CELL_SIMD_LANES == CELL_SOFTMAX_LANES ? 4 : 2))
#    define WEIGH_VECTORS ((size_t)4)

/* The sums so far, before row t is added. */
CELL_INLINE void weigh_scale(const size_t queries, const size_t count,
                             const struct cell_weighing *w, uint32_t q, uint32_t t,
                             simd_vec (*sums)[WEIGH_VECTORS])
{
    CELL_UNROLL
    for (size_t k = 0; k < queries; k++) {
        const bool is_scaled = (w->scaled[q + k] >> t & 1) != 0;
        const simd_vec scale = simd_set1(is_scaled ? w->scales[q + k][t] : 1.0f);
        CELL_UNROLL
        for (size_t v = 0; v < count; v++) {
            sums[k][v] = simd_mul(sums[k][v], scale);
        }
    }
}

/* Of `queries` by `count` vectors, constants, from element `first` on; is_part: of the last of the
 * row. */
CELL_INLINE void weigh_vectors(const size_t queries, const size_t count, const bool is_part,
                               const struct cell_weighing *w, uint32_t q, size_t first)
{
    const size_t left = w->width - first;
    simd_vec sums[WEIGH_QUERIES][WEIGH_VECTORS];
    uint32_t scaled = 0;
    CELL_UNROLL
    for (size_t k = 0; k < queries; k++) {
        scaled |= w->scaled[q + k];
        CELL_UNROLL
        for (size_t v = 0; v < count; v++) {
            const float *out = w->out[q + k] + first + v * CELL_SIMD_LANES;
            sums[k][v] = is_part ? simd_load_part(out, left) : simd_load(out);
        }
    }
    for (uint32_t t = 0; t < w->rows.n; t++) {
        const float *row = cell_some_row(&w->rows, t) + first;
        simd_vec x[WEIGH_VECTORS];
        CELL_UNROLL
        for (size_t v = 0; v < count; v++) {
            const float *in = row + v * CELL_SIMD_LANES;
            x[v] = is_part ? simd_load_part(in, left) : simd_load(in);
        }
        if ((scaled >> t & 1) != 0) {
            weigh_scale(queries, count, w, q, t, sums);
        }
        CELL_UNROLL
        for (size_t k = 0; k < queries; k++) {
            const simd_vec factor = simd_set1(w->weights[q + k][t]);
            CELL_UNROLL
            for (size_t v = 0; v < count; v++) {
                sums[k][v] = simd_fma(factor, x[v], sums[k][v]);
            }
        }
    }
    CELL_UNROLL
    for (size_t k = 0; k < queries; k++) {
        CELL_UNROLL
        for (size_t v = 0; v < count; v++) {
            float *out = w->out[q + k] + first + v * CELL_SIMD_LANES;
            if (is_part) {
                simd_store_part(out, left, sums[k][v]);
            } else {
                simd_store(out, sums[k][v]);
            }
        }
    }
}

CELL_INLINE void weigh_queries(const size_t queries, const struct cell_weighing *w, uint32_t q)
{
    const size_t together = WEIGH_VECTORS * CELL_SIMD_LANES;
    size_t i = 0;
    for (; i + together <= w->width; i += together) {
        weigh_vectors(queries, WEIGH_VECTORS, false, w, q, i);
    }
    for (; i + CELL_SIMD_LANES <= w->width; i += CELL_SIMD_LANES) {
        weigh_vectors(queries, 1, false, w, q, i);
    }
    if (i < w->width) {
        weigh_vectors(queries, 1, true, w, q, i);
    }
}

static void weigh(const struct cell_weighing *w)
{
    uint32_t q = 0;
    for (; q + WEIGH_QUERIES <= w->n_queries; q += WEIGH_QUERIES) {
        weigh_queries(WEIGH_QUERIES, w, q);
    }
    for (; q < w->n_queries; q++) {
        weigh_queries(1, w, q);
    }
}

static void divide_all(uint32_t n, float by, float *out)
{
    const simd_vec divisor = simd_set1(by);
    size_t i = 0;
    for (; i + CELL_SIMD_LANES <= n; i += CELL_SIMD_LANES) {
        simd_store(out + i, one_nan(simd_div(simd_load(out + i), divisor)));
    }
    if (i < n) {
        const simd_vec x = simd_load_part(out + i, n - i);
        simd_store_part(out + i, n - i, one_nan(simd_div(x, divisor)));
    }
}

#endif
#endif
