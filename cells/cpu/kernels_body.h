/* The kernel table of one instruction set, over gated_body.h and math_body.h. Included by
 * kernels__avx2.c and kernels__avx512.c, which define CELL_TABLE (the table's name),
 * CELL_TABLE_TEXT and CELL_REDUCED (reduced.h). Any thread, over the caller's rows and scratch. */
#ifndef CELLS_CPU_KERNELS_BODY_H
#define CELLS_CPU_KERNELS_BODY_H

#include "cells/cpu/attend_body.h"
#include "cells/cpu/gated_body.h"
#include "cells/cpu/pointwise_body.h"
#include "cells/cpu/reduced.h"
#ifndef CELL_SUMS_ALONE // whose table has none of these: a third of what there is to compile
#    include "cells/cpu/filter_body.h"
#    include "cells/cpu/linear_places_body.h"
#endif

#if defined(CELL_SIMD_LANES) && defined(CELL_TABLE)

/* ---- Gated cells: fp32 here, fewer bits elsewhere ------------------------------------------- */

static enum base_status any_load(struct cell_gated *gated)
{
    gated->reduced = CELL_REDUCED(gated->precision);
    return gated->reduced == NULL ? gated_load(gated) : gated->reduced->load(gated);
}

static void any_ahead(const struct cell_gated_ahead *ahead)
{
    if (ahead->gated->reduced == NULL) {
        gated_ahead(ahead);
    } else {
        ahead->gated->reduced->ahead(ahead);
    }
}

static void any_step(const struct cell_gated_step *step)
{
    if (step->gated->reduced == NULL) {
        gated_step(step);
    } else {
        step->gated->reduced->step(step);
    }
}

static size_t any_scratch(const struct cell_gated *gated, uint32_t rows_max)
{
    return gated->reduced == NULL ? gated_scratch(gated, rows_max)
                                  : gated->reduced->scratch(gated, rows_max);
}

/* ---- LINEAR --------------------------------------------------------------------------------- */

/* The row has room for whole vectors, but not for those that begin past its width. */
CELL_INLINE void linear_store(const struct cell_bounds bounds, const struct cell_linear *linear,
                              size_t column, const float *sums, float *out)
{
    for (uint32_t v = 0; v < LINEAR_VECTORS; v++) {
        size_t at = column + v * CELL_SIMD_LANES;
        if (at < linear->outputs) {
            simd_store(out + at, bounded(bounds, simd_load(sums + v * CELL_SIMD_LANES)));
        }
    }
}

/* A panel of some rows. */
static void linear_store_rows(const struct cell_linear_rows *step, uint32_t first, uint32_t n,
                              size_t column)
{
    for (uint32_t r = 0; r < n; r++) {
        linear_store(step->bounds, step->linear, column, step->scratch + r * LINEAR_COLUMNS,
                     step->out[first + r]);
    }
}

static void linear_rows(const struct cell_linear_rows *step)
{
    const struct cell_linear *linear = step->linear;
    if (linear->precision != CELL_FP32) {
        const struct cell_gated_step sums = cell_linear_sums_step(step);
        any_step(&sums);
        return;
    }
    size_t panel_floats = linear->inputs * LINEAR_COLUMNS;
    bool streamed = is_streamed(panel_floats * linear->panels * sizeof(float), step->n_rows,
                                linear->l3_is_near);
    for (uint32_t panel = step->panel_first; panel < step->panel_end; panel++) {
        const struct place weights = {.panel = linear->packed + panel * panel_floats,
                                      .terms = linear->inputs};
        struct place next = weights;
        next.panel += panel + 1 < step->panel_end ? panel_floats : 0;
        const bool is_last = panel + 1 == linear->panels;
        const size_t columns = is_last ? linear->last_columns : LINEAR_COLUMNS;
        for (uint32_t row = 0; row < step->n_rows; row += GROUP_ROWS) {
            struct span x = {.rows = step->x + row,
                             .k = linear->inputs,
                             .weights = weights,
                             .next = next,
                             .later = next};
            uint32_t left = step->n_rows - row;
            uint32_t rows = left < GROUP_ROWS ? left : GROUP_ROWS;
            struct product product = {.spans = &x,
                                      .n_spans = 1,
                                      .n_rows = rows,
                                      .is_streamed = streamed,
                                      .start.table = linear->bias + panel * LINEAR_COLUMNS,
                                      .end = {.table = step->scratch, .stride = LINEAR_COLUMNS}};
            if (columns < LINEAR_COLUMNS) {
                multiply_last(columns / CELL_SIMD_LANES, &product);
            } else {
                multiply(LINEAR_VECTORS, &product);
            }
            linear_store_rows(step, row, rows, panel * LINEAR_COLUMNS);
        }
    }
}

static enum base_status linear_load(struct cell_linear *linear)
{
    linear->l3_is_near = base_cpus_l3_is_near();
    return linear->precision == CELL_FP32
               ? cell_linear_pack(linear, &(struct cell_packing){.units = (uint32_t)LINEAR_COLUMNS,
                                                                 .lanes = CELL_SIMD_LANES,
                                                                 .has_strips = CELL_STRIPS})
               : cell_linear_load_sums(linear, any_load);
}

/* ---- Table ---------------------------------------------------------------------------------- */

static size_t linear_scratch(const struct cell_linear *linear, uint32_t rows_max)
{
    return linear->precision == CELL_FP32 ? (size_t)GROUP_ROWS * LINEAR_COLUMNS // sums
                                          : any_scratch(&linear->sums, rows_max);
}

const struct cell_kernels CELL_TABLE = {
    .name = CELL_TABLE_TEXT,
    .invariant = true,
    .has_reduced = true,
    .takes_bounds = true,
    .gated_load = any_load,
    .gated_ahead = any_ahead,
    .gated_step = any_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .gated_scratch = any_scratch,
    .linear_scratch = linear_scratch,
    .pointwise = pointwise,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = softmax_group,
    .log_softmax = log_softmax_group,
    .argmax = argmax_of,
    .sums = sums,
    .dots = dots,
    .exp = exp_all,
    .rises = rises,
    .weigh = weigh,
    .divide = divide_all,
#    ifndef CELL_SUMS_ALONE
    .linear_places = linear_places,
    .filter = filter_places,
#    endif
};

#endif
#endif
