/* Sums of a one-SM lane in fp32: a part of lane_body.h, which has its macros.
 *
 * A thread has one column of one unit: its weights over h in registers, its sum for each row. A
 * sum takes its terms in the order of cells/kernels.h, one fused multiply-add each, so its bits are
 * those of the CPU. What fills up the weights is -0: a sum that takes the term -0 x 0 keeps its
 * bits, whatever they are. */
#include "cells/cuda/lane_shared.h"

#ifdef CELL_SM_UNITS

#    define CELL_SM_CHUNK 8u /* rows whose sums a thread has at a time */

/* What a thread keeps of the weights. */
struct CELL_SM_NAME(own) {
    float late[CELL_SM_LATE_WORDS];
};

CELL_BLOCK_FN void CELL_SM_NAME(load_own)(const struct CELL_SM_NAME(math) * m,
                                          struct CELL_SM_NAME(own) * own)
{
    const float *late = (const float *)(const void *)m->args->weights;
    CELL_BLOCK_UNROLL
    for (uint32_t i = 0; i < CELL_SM_LATE_WORDS; i++) {
        own->late[i] = cell_block_load_f32(&late[i * CELL_SM_MATH_THREADS + m->thread]);
    }
}

CELL_BLOCK_FN float CELL_SM_NAME(add4)(float sum, const float values[4], const float weights[4])
{
    sum = fmaf(values[0], weights[0], sum);
    sum = fmaf(values[1], weights[1], sum);
    sum = fmaf(values[2], weights[2], sum);
    return fmaf(values[3], weights[3], sum);
}

/* What the sums of n rows from `first` on start from, and their terms over x. */
CELL_BLOCK_FN void CELL_SM_NAME(sum_x)(const struct CELL_SM_NAME(math) * m, float bias,
                                       uint32_t first, uint32_t n, uint32_t step,
                                       float sums[CELL_SM_CHUNK])
{
    const float *x = &m->shared->x[step % 2][first * CELL_SM_X_PITCH];
    const struct cell_f32x4 *weights =
        (const struct cell_f32x4 *)(const void *)CELL_SM_NAME(weights_of)(m->shared);
    const uint32_t column = cell_fma_column(m->thread);
    const bool is_given = m->args->inputs == 0 && (m->is_lstm || column != CELL_COLUMN_LATE);
    CELL_BLOCK_UNROLL
    for (uint32_t r = 0; r < n; r++) {
        sums[r] =
            is_given ? CELL_SM_NAME(given_sum)(m, first + r, step, column, cell_fma_unit(m->thread))
                     : bias;
    }
    CELL_BLOCK_ROLLED
    for (uint32_t k = 0; k < m->k_inputs; k += 4) {
        const struct cell_f32x4 w =
            cell_block_load_f32x4(&weights[k / 4 * CELL_SM_MATH_THREADS + m->thread]);
        CELL_BLOCK_UNROLL
        for (uint32_t r = 0; r < n; r++) {
            const struct cell_f32x4 v = cell_block_load_f32x4(
                (const struct cell_f32x4 *)(const void *)&x[r * CELL_SM_X_PITCH + k]);
            sums[r] = CELL_SM_NAME(add4)(sums[r], v.v, w.v);
        }
    }
}

/* And those over h. */
CELL_BLOCK_FN void CELL_SM_NAME(sum_h)(const float *h, const float *late, uint32_t n,
                                       float sums[CELL_SM_CHUNK])
{
    CELL_BLOCK_UNROLL
    for (uint32_t k = 0; k < CELL_SM_UNITS; k += 4) {
        CELL_BLOCK_UNROLL
        for (uint32_t r = 0; r < n; r++) {
            const struct cell_f32x4 v = cell_block_load_f32x4(
                (const struct cell_f32x4 *)(const void *)&h[r * CELL_SM_H_PITCH + k]);
            sums[r] = CELL_SM_NAME(add4)(sums[r], v.v, &late[k]);
        }
    }
}

/* The sums of this thread's column for n rows. Of a GRU the column of n over x takes no terms over
 * h, and that of n over h none over x. */
CELL_BLOCK_FN void CELL_SM_NAME(sum)(const struct CELL_SM_NAME(math) * m,
                                     const struct CELL_SM_NAME(own) * own, uint32_t first,
                                     uint32_t n, uint32_t step, float sums[CELL_SM_CHUNK])
{
    const uint32_t column = cell_fma_column(m->thread);
    const bool is_early = !m->is_lstm && column + 1 == CELL_COLUMN_LATE;
    const bool is_late = !m->is_lstm && column == CELL_COLUMN_LATE;
    float over_x[CELL_SM_CHUNK];
    const float bias = CELL_SM_NAME(bias)(m, column, cell_fma_unit(m->thread));
    CELL_SM_NAME(sum_x)(m, bias, first, n, step, over_x);
    CELL_BLOCK_UNROLL
    for (uint32_t r = 0; r < n; r++) {
        sums[r] = is_late ? bias : over_x[r];
    }
    CELL_SM_NAME(sum_h)(&m->shared->h[step % 2][first * CELL_SM_H_PITCH], own->late, n, sums);
    CELL_BLOCK_UNROLL
    for (uint32_t r = 0; r < n; r++) {
        sums[r] = is_early ? over_x[r] : sums[r];
    }
}

/* One of four registers by a number that is not a constant. */
CELL_BLOCK_FN float CELL_SM_NAME(pick)(const float of[4], uint32_t i)
{
    const float low = (i & 1) != 0 ? of[1] : of[0];
    const float high = (i & 1) != 0 ? of[3] : of[2];
    return (i & 2) != 0 ? high : low;
}

/* Four threads have a column each of four rows; then a row each of four columns. In turn t each
 * gives to the neighbour whose number differs from its own by the bits of t. */
CELL_BLOCK_FN void CELL_SM_NAME(transpose)(const float mine[4], float columns[CELL_COLUMNS])
{
    const uint32_t column = cell_warp_lane() % CELL_COLUMNS;
    float got[CELL_COLUMNS];
    CELL_BLOCK_UNROLL
    for (uint32_t t = 0; t < CELL_COLUMNS; t++) {
        const uint32_t other = column ^ t;
        got[t] = cell_warp_shfl_f32(CELL_SM_NAME(pick)(mine, other), cell_warp_lane() ^ t);
    }
    CELL_BLOCK_UNROLL
    for (uint32_t c = 0; c < CELL_COLUMNS; c++) {
        columns[c] = CELL_SM_NAME(pick)(got, c ^ column);
    }
}

/* n rows from `first` on, n a constant: a thread updates every fourth of them. */
CELL_BLOCK_FN void CELL_SM_NAME(chunk)(const struct CELL_SM_NAME(math) * m,
                                       const struct CELL_SM_NAME(own) * own, uint32_t first,
                                       uint32_t n, uint32_t step)
{
    const uint32_t unit = cell_fma_unit(m->thread);
    float sums[CELL_SM_CHUNK] = {0.0f};
    float old[CELL_SM_CHUNK / CELL_COLUMNS];
    CELL_BLOCK_UNROLL
    for (uint32_t q = 0; q < (n + 3) / 4; q++) {
        old[q] = CELL_SM_NAME(old)(m, first + 4 * q + cell_fma_column(m->thread), unit, step);
    }
    CELL_SM_NAME(sum)(m, own, first, n, step, sums);
    CELL_BLOCK_UNROLL
    for (uint32_t q = 0; q < (n + 3) / 4; q++) {
        float columns[CELL_COLUMNS];
        CELL_SM_NAME(transpose)(&sums[4 * q], columns);
        CELL_SM_NAME(update)
        (m, first + 4 * q + cell_fma_column(m->thread), unit, step, columns, old[q]);
    }
}

/* One step of all rows, in chunks; the row's bits do not depend on which it is in. */
CELL_BLOCK_FN void CELL_SM_NAME(step)(const struct CELL_SM_NAME(math) * m,
                                      const struct CELL_SM_NAME(own) * own, uint32_t step)
{
    CELL_BLOCK_ROLLED
    for (uint32_t first = 0; first < m->n_rows; first += CELL_SM_CHUNK) {
        bool is_wanted = false;
        uint32_t end = first + CELL_SM_CHUNK;
        for (uint32_t row = first; row < end; row++) {
            is_wanted = is_wanted || CELL_SM_NAME(is_active)(m, row, step);
        }
        end = end < m->n_rows ? end : m->n_rows;
        if (!is_wanted) {
            continue;
        }
        if (end - first == 1) {
            CELL_SM_NAME(chunk)(m, own, first, 1, step);
        } else if (end - first <= 4) {
            CELL_SM_NAME(chunk)(m, own, first, 4, step);
        } else {
            CELL_SM_NAME(chunk)(m, own, first, CELL_SM_CHUNK, step);
        }
    }
}

#endif
