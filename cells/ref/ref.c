/* The scalar reference: the loops that define what every invariant kernel computes, bit by bit.
 *
 * Weights are read as the definition holds them; a panel is one hidden unit or one column. Pure
 * functions over the caller's memory, any thread. Written to be read, not to be fast: a
 * multiply-add costs a library call on a machine built without FMA. */
#include "cells/kernels.h"

#include "base/mem.h"
#include "cells/ref/math.h"

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

/* Gate `gate` of hidden unit `unit` before its activation. */
static float gate_sum(const struct cell_lstm *lstm, uint32_t gate, uint32_t unit, const float *x,
                      const float *h)
{
    size_t at = (size_t)gate * lstm->hidden + unit;
    float sum = lstm->bias[at];
    sum = dot(sum, lstm->inputs, x, lstm->w + at * lstm->inputs, 1);
    return dot(sum, lstm->hidden, h, lstm->r + at * lstm->hidden, 1);
}

static void lstm_step(const struct cell_lstm_step *step)
{
    const struct cell_lstm *lstm = step->lstm;
    for (uint32_t row = 0; row < step->n_rows; row++) {
        for (uint32_t unit = step->panel_first; unit < step->panel_end; unit++) {
            float gates[4];
            for (uint32_t gate = 0; gate < 4; gate++) {
                gates[gate] = gate_sum(lstm, gate, unit, step->x[row], step->h[row]);
            }
            float i = cell_sigmoid_f32__scalar(gates[0]);
            float o = cell_sigmoid_f32__scalar(gates[1]);
            float f = cell_sigmoid_f32__scalar(gates[2]);
            float g = cell_tanh_f32__scalar(gates[3]);
            float c = cell_nan_f32__scalar(fmaf(f, step->c[row][unit], i * g));
            step->c_out[row][unit] = c;
            step->h_out[row][unit] = cell_nan_f32__scalar(o * cell_tanh_f32__scalar(c));
        }
    }
}

static enum base_status lstm_load(struct cell_lstm *lstm)
{
    uint32_t gates = 4 * lstm->hidden;
    lstm->panels = lstm->hidden;
    lstm->packed = NULL;
    lstm->bias = base_alloc_array(gates, sizeof(float));
    if (lstm->bias == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t j = 0; j < gates && lstm->b != NULL; j++) {
        lstm->bias[j] = lstm->b[j] + lstm->b[gates + j];
    }
    return BASE_OK;
}

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
    .lstm_load = lstm_load,
    .lstm_step = lstm_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .scratch_floats = scratch_floats,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = cell_softmax_f32__scalar,
};
