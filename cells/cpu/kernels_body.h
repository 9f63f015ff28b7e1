/* The kernel table of one instruction set, over product_body.h and math_body.h. Included by
 * kernels__avx2.c and kernels__avx512.c, which define CELL_TABLE (the table's name) and
 * CELL_TABLE_TEXT. Any thread, over the caller's rows and scratch. */
#ifndef CELLS_CPU_KERNELS_BODY_H
#define CELLS_CPU_KERNELS_BODY_H

#include "cells/cpu/math_body.h"
#include "cells/cpu/product_body.h"

#if defined(CELL_SIMD_LANES) && defined(CELL_TABLE)

/* ---- LSTM ----------------------------------------------------------------------------------- */

/* Gates of one row and panel [gate i, o, f, c][unit] to its new state. A NaN is made the one NaN
 * where it leaves; on the way any will do. */
CELL_INLINE void lstm_update(const float *gates, const float *c, float *h_out, float *c_out)
{
    simd_vec i = sigmoid_any_nan(simd_load(gates));
    simd_vec o = sigmoid_any_nan(simd_load(gates + CELL_SIMD_LANES));
    simd_vec f = sigmoid_any_nan(simd_load(gates + 2 * CELL_SIMD_LANES));
    simd_vec g = tanh_any_nan(simd_load(gates + 3 * CELL_SIMD_LANES));
    simd_vec next = one_nan(simd_fma(f, simd_load(c), simd_mul(i, g)));
    simd_store(c_out, next);
    simd_store(h_out, one_nan(simd_mul(o, tanh_any_nan(next))));
}

/* Where the rows from `row` on of a step stand. */
static void lstm_spans(const struct cell_lstm_step *step, uint32_t row, struct span spans[2])
{
    spans[0] = (struct span){step->x + row, step->lstm->inputs};
    spans[1] = (struct span){step->h + row, step->lstm->hidden};
}

/* Panel number i of a step in the order it asks for; past the last one, the last one. */
static uint32_t lstm_turn(const struct cell_lstm_step *step, uint32_t i)
{
    uint32_t last = step->panel_end - step->panel_first - 1;
    i = i < last ? i : last;
    return step->backwards ? step->panel_end - 1 - i : step->panel_first + i;
}

/* The weights of a panel, and of the one whose turn is next. */
static struct weights lstm_weights(const struct cell_lstm *lstm, uint32_t rows, uint32_t panel,
                                   uint32_t next)
{
    uint64_t terms = (uint64_t)lstm->inputs + lstm->hidden;
    return (struct weights){.panel = lstm->packed + terms * panel * PANEL_COLUMNS,
                            .next = lstm->packed + terms * next * PANEL_COLUMNS,
                            .bias = lstm->bias + panel * PANEL_COLUMNS,
                            .is_streamed = is_streamed(terms, lstm->panels, rows)};
}

/* All rows, for turn number i. */
static void lstm_rows(const struct cell_lstm_step *step, uint32_t i)
{
    uint32_t panel = lstm_turn(step, i);
    size_t unit = panel * CELL_SIMD_LANES;
    struct weights weights = lstm_weights(step->lstm, step->n_rows, panel, lstm_turn(step, i + 1));
    for (uint32_t row = 0; row < step->n_rows; row += GROUP_ROWS) {
        struct span spans[2];
        uint32_t left = step->n_rows - row;
        uint32_t rows = left < GROUP_ROWS ? left : GROUP_ROWS;
        lstm_spans(step, row, spans);
        product(&weights, spans, rows, step->scratch);
        for (uint32_t r = 0; r < rows && !step->products_only; r++) {
            lstm_update(step->scratch + r * PANEL_COLUMNS, step->c[row + r] + unit,
                        step->h_out[row + r] + unit, step->c_out[row + r] + unit);
        }
    }
}

/* Panels in pairs; the one left over as any other. */
static void lstm_one_row(const struct cell_lstm_step *step)
{
    struct span spans[2];
    uint32_t panels = step->panel_end - step->panel_first;
    uint32_t i = 0;
    lstm_spans(step, 0, spans);
    for (; i + 2 <= panels; i += 2) {
        uint32_t panel = lstm_turn(step, step->backwards ? i + 1 : i);
        size_t unit = panel * CELL_SIMD_LANES;
        struct weights weights = lstm_weights(step->lstm, 1, panel, panel);
        product_pair(&weights, spans, step->scratch);
        for (uint32_t p = 0; p < 2 && !step->products_only; p++, unit += CELL_SIMD_LANES) {
            lstm_update(step->scratch + p * PANEL_COLUMNS, step->c[0] + unit, step->h_out[0] + unit,
                        step->c_out[0] + unit);
        }
    }
    if (i < panels) {
        lstm_rows(step, i);
    }
}

static void lstm_step(const struct cell_lstm_step *step)
{
    if (step->n_rows == 1) {
        lstm_one_row(step);
        return;
    }
    for (uint32_t i = 0; i < step->panel_end - step->panel_first; i++) {
        lstm_rows(step, i);
    }
}

static enum base_status lstm_load(struct cell_lstm *lstm)
{
    return cell_lstm_pack(lstm, (uint32_t)CELL_SIMD_LANES);
}

/* ---- LINEAR --------------------------------------------------------------------------------- */

/* The row has room for whole vectors, but not for those that begin past its width. */
static void linear_store(const struct cell_linear *linear, size_t column, const float *sums,
                         float *out)
{
    for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
        size_t at = column + v * CELL_SIMD_LANES;
        if (at < linear->outputs) {
            simd_store(out + at, one_nan(simd_load(sums + v * CELL_SIMD_LANES)));
        }
    }
}

static void linear_rows(const struct cell_linear_rows *step)
{
    const struct cell_linear *linear = step->linear;
    size_t panel_floats = linear->inputs * PANEL_COLUMNS;
    struct weights weights = {.is_streamed =
                                  is_streamed(linear->inputs, linear->panels, step->n_rows)};
    for (uint32_t panel = step->panel_first; panel < step->panel_end; panel++) {
        weights.panel = linear->packed + panel * panel_floats;
        weights.next = weights.panel + (panel + 1 < step->panel_end ? panel_floats : 0);
        weights.bias = linear->bias + panel * PANEL_COLUMNS;
        for (uint32_t row = 0; row < step->n_rows; row += GROUP_ROWS) {
            const struct span spans[2] = {{step->x + row, linear->inputs}, {NULL, 0}};
            uint32_t left = step->n_rows - row;
            uint32_t rows = left < GROUP_ROWS ? left : GROUP_ROWS;
            product(&weights, spans, rows, step->scratch);
            for (uint32_t r = 0; r < rows; r++) {
                linear_store(linear, panel * PANEL_COLUMNS, step->scratch + r * PANEL_COLUMNS,
                             step->out[row + r]);
            }
        }
    }
}

static enum base_status linear_load(struct cell_linear *linear)
{
    return cell_linear_pack(linear, (uint32_t)PANEL_COLUMNS);
}

/* ---- Table ---------------------------------------------------------------------------------- */

static size_t scratch_floats(uint32_t inputs, uint32_t outputs, uint32_t rows_max)
{
    (void)inputs;
    (void)outputs;
    (void)rows_max;
    return (size_t)GROUP_ROWS * PANEL_COLUMNS;
}

const struct cell_kernels CELL_TABLE = {
    .name = CELL_TABLE_TEXT,
    .invariant = true,
    .lstm_load = lstm_load,
    .lstm_step = lstm_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .scratch_floats = scratch_floats,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = softmax_group,
};

#endif
#endif
