/* The scalar reference: the loops that define what every invariant kernel computes, bit by bit.
 *
 * Weights are read as the definition holds them; a panel is one hidden unit or one column. Pure
 * functions over the caller's memory, any thread. Written to be read, not to be fast: a
 * multiply-add costs a library call on a machine built without FMA. */
#include "cells/kernels.h"

#include "base/mem.h"
#include "cells/ref/math.h"
#include "cells/ref/pointwise.h"

#include <math.h>
#include <string.h>

/* sum + x . w, one fused multiply-add a term; w's elements lie `stride` apart. */
static float dot(float sum, uint32_t n, const float *x, const float *w, size_t stride)
{
    for (uint32_t k = 0; k < n; k++) {
        sum = fmaf(x[k], w[k * stride], sum);
    }
    return sum;
}

/* ---- Gated cells ---- */

/* Place of gate `gate` of a unit in what has a value for each; bias[] and ahead rows are in this
 * order, a panel being a unit. */
static size_t place_of(const struct cell_gated *gated, uint32_t gate, uint32_t unit)
{
    return (size_t)unit * gated->columns + gate;
}

static const float *row_of(const struct cell_gated *gated, const float *weights, uint32_t gate,
                           uint32_t unit, uint32_t terms)
{
    return weights + ((size_t)gate * gated->hidden + unit) * terms;
}

static float sum_over_x(const struct cell_gated *gated, uint32_t gate, uint32_t unit,
                        const float *x)
{
    return dot(gated->bias[place_of(gated, gate, unit)], gated->inputs, x,
               row_of(gated, gated->w, gate, unit, gated->inputs), 1);
}

static float sum_over_h(const struct cell_gated *gated, uint32_t gate, uint32_t unit, float sum,
                        const float *h)
{
    return dot(sum, gated->feedback, h, row_of(gated, gated->r, gate, unit, gated->feedback), 1);
}

static float mix(float z, float h, float n)
{
    return cell_nan_f32__scalar(fmaf(z, h - n, n));
}

static void update_lstm(const struct cell_gated_step *step, uint32_t row, uint32_t unit,
                        const float *sums)
{
    float old = step->old[row][unit];
    const float *p = step->gated->peepholes;
    uint32_t hidden = step->gated->hidden;
    float i = sums[0];
    float o = sums[1];
    float f = sums[2];
    if (p != NULL) {
        i = fmaf(p[unit], old, i);
        f = fmaf(p[2 * hidden + unit], old, f);
    }
    float g = cell_tanh_f32__scalar(sums[3]);
    float c = cell_nan_f32__scalar(
        fmaf(cell_sigmoid_f32__scalar(f), old, cell_sigmoid_f32__scalar(i) * g));
    if (p != NULL) {
        o = fmaf(p[hidden + unit], c, o);
    }
    step->second[row][unit] = c;
    step->out[row][unit] =
        cell_nan_f32__scalar(cell_sigmoid_f32__scalar(o) * cell_tanh_f32__scalar(c));
}

/* sums: over x and h, but of a GRU's n over x alone, followed by that over h. */
static void update(const struct cell_gated_step *step, uint32_t row, uint32_t unit,
                   const float *sums)
{
    float *out = &step->out[row][unit];
    float z;
    float n;
    switch (step->gated->kind) {
    case CELL_GATED_LSTM:
        update_lstm(step, row, unit, sums);
        break;
    case CELL_GATED_GRU:
        z = cell_sigmoid_f32__scalar(sums[0]);
        n = cell_tanh_f32__scalar(fmaf(cell_sigmoid_f32__scalar(sums[1]), sums[3], sums[2]));
        *out = mix(z, step->old[row][unit], n);
        break;
    case CELL_GATED_GRU_RESET:
        *out = cell_sigmoid_f32__scalar(sums[0]);
        step->second[row][unit] =
            cell_nan_f32__scalar(cell_sigmoid_f32__scalar(sums[1]) * step->old[row][unit]);
        break;
    case CELL_GATED_GRU_NEW:
        n = cell_tanh_f32__scalar(sums[0]);
        *out = mix(step->z[row][unit], step->old[row][unit], n);
        break;
    case CELL_GATED_TANH:
        *out = cell_tanh_f32__scalar(sums[0]);
        break;
    case CELL_GATED_RELU:
        *out = cell_relu_f32__scalar(sums[0]);
        break;
    }
}

static void gated_step(const struct cell_gated_step *step)
{
    const struct cell_gated *gated = step->gated;
    bool is_gru = gated->kind == CELL_GATED_GRU;
    for (uint32_t row = 0; row < step->n_rows; row++) {
        for (uint32_t unit = step->panel_first; unit < step->panel_end; unit++) {
            float sums[4] = {0};
            for (uint32_t gate = 0; gate < gated->columns; gate++) {
                float sum = step->ahead != NULL ? step->ahead[row][place_of(gated, gate, unit)]
                                                : sum_over_x(gated, gate, unit, step->x[row]);
                bool is_late = is_gru && gate == 2;
                sums[gate] = is_late ? sum : sum_over_h(gated, gate, unit, sum, step->h[row]);
            }
            if (is_gru) {
                sums[3] = sum_over_h(gated, 2, unit, gated->late_bias[unit], step->h[row]);
            }
            update(step, row, unit, sums);
        }
    }
}

static void gated_ahead(const struct cell_gated_ahead *ahead)
{
    for (uint32_t row = 0; row < ahead->n_rows; row++) {
        for (uint32_t unit = ahead->panel_first; unit < ahead->panel_end; unit++) {
            for (uint32_t gate = 0; gate < ahead->gated->columns; gate++) {
                ahead->out[row][place_of(ahead->gated, gate, unit)] =
                    sum_over_x(ahead->gated, gate, unit, ahead->x[row]);
            }
        }
    }
}

/* Panels of one unit; the weights are read where they are. */
static enum base_status gated_load(struct cell_gated *gated)
{
    BASE_TRY(cell_gated_pack(gated, 1));
    for (uint32_t half = 0; half < 2; half++) {
        base_free(gated->packed[half]);
        gated->packed[half] = NULL;
    }
    return BASE_OK;
}

/* ---- LINEAR ---- */

static void linear_rows(const struct cell_linear_rows *rows)
{
    const struct cell_linear *linear = rows->linear;
    for (uint32_t row = 0; row < rows->n_rows; row++) {
        for (uint32_t col = rows->panel_first; col < rows->panel_end; col++) {
            float sum = dot(linear->bias[col], linear->inputs, rows->x[row], linear->w + col,
                            linear->outputs);
            rows->out[row][col] = cell_nan_f32__scalar(sum);
        }
    }
}

static enum base_status linear_load(struct cell_linear *linear)
{
    linear->panels = linear->outputs;
    linear->packed = NULL;
    linear->bias = base_alloc_array(linear->outputs, sizeof(float));
    if (linear->bias == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    if (linear->b != NULL) {
        memcpy(linear->bias, linear->b, linear->outputs * sizeof(float));
    }
    return BASE_OK;
}

static size_t scratch_floats(uint32_t inputs, uint32_t outputs, uint32_t rows_max)
{
    (void)inputs;
    (void)outputs;
    (void)rows_max;
    return 0;
}

static void sigmoid_all(uint32_t n, const float *in, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_sigmoid_f32__scalar(in[i]);
    }
}

static void tanh_all(uint32_t n, const float *in, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_tanh_f32__scalar(in[i]);
    }
}

const struct cell_kernels cell_kernels__scalar = {
    .name = "scalar",
    .invariant = true,
    .gated_load = gated_load,
    .gated_ahead = gated_ahead,
    .gated_step = gated_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .scratch_floats = scratch_floats,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = cell_softmax_f32__scalar,
    .pointwise = cell_pointwise__scalar,
};
