/* Gated cells with bf16 weights: rows of x and h are rounded, and then gated_body.h takes them as
 * it takes those of fp32, as floats or as words of two bf16. Included by bf16__*.c, which define
 * CELL_BF16_TABLE. Any thread, over the caller's rows and scratch.
 *
 * Every member of a team rounds all rows for itself, which costs less than a barrier. */
#ifndef CELLS_CPU_BF16_BODY_H
#define CELLS_CPU_BF16_BODY_H

#define CELL_WEIGHTS_BF16

#include "cells/cpu/gated_body.h"
#include "cells/cpu/reduced.h"

#if defined(CELL_SIMD_LANES) && defined(CELL_BF16_TABLE)

/* ---- Rows: scratch is [part][rows][element], and behind it what the steps need --------------- */

static uint32_t rounded_rows(uint32_t rows_max)
{
    return rows_max < GROUP_ROWS ? rows_max : GROUP_ROWS;
}

/* Floats of a rounded row, up to the next cache line. */
static size_t rounded_floats(const struct cell_gated *gated, uint32_t part)
{
    const size_t floats = weights_of(gated, part);
    return CELL_ROW_FLOATS(floats);
}

/* Lanes i.. of a row of n elements; past its end zeros. */
CELL_INLINE simd_vec row_lanes(const float *row, uint32_t i, uint32_t n)
{
    const uint32_t lanes = (uint32_t)CELL_SIMD_LANES;
    return i + lanes <= n ? simd_load(row + i)
           : i < n        ? simd_load_part(row + i, n - i)
                          : simd_set1(0.0f);
}

static void round_row(const float *row, uint32_t n, float *to)
{
    const uint32_t lanes = (uint32_t)CELL_SIMD_LANES;
    for (uint32_t i = 0; i < n; i += WEIGHT_TERMS * lanes, to += lanes) {
        simd_vec v = row_lanes(row, i, n);
#    if WEIGHT_TERMS == 2
        simd_store_bf16_words(to, v, row_lanes(row, i + lanes, n));
#    else
        simd_store(to, simd_bf16_factor(v));
#    endif
    }
}

/* A part's rows to scratch, rounded; out: where each is. */
static void round_rows(const struct cell_gated *gated, uint32_t part, const float *const *rows,
                       uint32_t n_rows, const float *out[GROUP_ROWS], float *scratch)
{
    const uint32_t terms = cell_gated_terms(gated, part);
    const size_t stride = rounded_floats(gated, part);
    for (uint32_t r = 0; r < n_rows; r++) {
        out[r] = scratch + r * stride;
        round_row(rows[r], terms, scratch + r * stride);
    }
}

static size_t rounded_scratch(const struct cell_gated *gated, uint32_t rows_max)
{
    size_t floats = gated_scratch(gated, rows_max);
    for (uint32_t part = 0; part < CELL_GATED_PARTS; part++) {
        floats += rounded_rows(rows_max) * rounded_floats(gated, part);
    }
    return floats;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static void rounded_step(const struct cell_gated_step *step)
{
    const struct cell_gated *gated = step->gated;
    const uint32_t most = rounded_rows(step->n_rows);
    const float *rounded[CELL_GATED_PARTS][GROUP_ROWS];
    const float *const *children[CELL_CHILDREN_MAX];
    if (step->panel_first == step->panel_end) {
        return;
    }
    for (uint32_t row = 0; row < step->n_rows; row += most) {
        const uint32_t left = step->n_rows - row;
        struct cell_gated_step group =
            cell_gated_step_of_rows(step, row, row + (left < most ? left : most), children);
        const float *const *const given[] = {group.x, group.h, group.h_right};
        for (uint32_t part = first_part(step); part < CELL_GATED_PARTS; part++) {
            if (cell_gated_terms(gated, part) > 0) {
                round_rows(gated, part, given[part], group.n_rows, rounded[part], group.scratch);
                group.scratch += group.n_rows * rounded_floats(gated, part);
            }
        }
        group.x = rounded[0];
        group.h = rounded[1];
        group.h_right = rounded[2];
        gated_step(&group);
    }
}

static void rounded_ahead(const struct cell_gated_ahead *ahead)
{
    const struct cell_gated *gated = ahead->gated;
    const uint32_t most = rounded_rows(ahead->n_rows);
    const float *rows[GROUP_ROWS];
    struct cell_gated_ahead group = *ahead;
    group.x = rows;
    for (uint32_t row = 0; row < ahead->n_rows; row += group.n_rows) {
        const uint32_t left = ahead->n_rows - row;
        group.n_rows = left < most ? left : most;
        round_rows(gated, 0, ahead->x + row, group.n_rows, rows, ahead->scratch);
        gated_ahead(&group);
        group.out += group.n_rows;
    }
}

const struct cell_reduced_kernels CELL_BF16_TABLE = {gated_load, rounded_ahead, rounded_step,
                                                     rounded_scratch};

#endif
#endif
