/* Bodies of the kernels of gated cells, and of the product that has the bits of the CPU's; see
 * step.h. Each is, operation by operation, what cells/ref/ref.c does. */
#ifndef CELLS_CUDA_STEP_CELLS_H
#define CELLS_CUDA_STEP_CELLS_H

#include "cells/bf16.h"
#include "cells/cuda/step.h"
#include "cells/ref/math_body.h"

/* A column of n rows, n a constant at each call: sums stay in registers. */
CELL_STEP_FN void cell_step_column_f32(const struct cell_step_product *p, uint32_t column,
                                       uint32_t first, uint32_t n)
{
    const float *weights = cell_step_floats(p->weights) + column;
    const float bias = p->bias != 0 ? cell_step_floats(p->bias)[column] : 0.0f;
    const float *a[CELL_STEP_PRODUCT_ROWS];
    float sums[CELL_STEP_PRODUCT_ROWS];
    for (uint32_t i = 0; i < n; i++) {
        a[i] = cell_step_f32(p->a, first + i);
        sums[i] = p->has_start != 0 ? cell_step_f32(p->start, first + i)[column] : bias;
    }
    for (uint32_t k = 0; k < p->inputs; k++) {
        const float weight = weights[(uint64_t)k * p->outputs];
        for (uint32_t i = 0; i < n; i++) {
            sums[i] = fmaf(a[i][k], weight, sums[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        cell_step_f32(p->out, first + i)[column] = cell_nan_f32(sums[i]);
    }
}

/* The same of bf16 factors: their product is exact in a float. */
CELL_STEP_FN void cell_step_column_bf16(const struct cell_step_product *p, uint32_t column,
                                        uint32_t first, uint32_t n)
{
    const uint16_t *weights = (const uint16_t *)cell_step_pointer(p->weights) + column;
    const float bias = p->bias != 0 ? cell_step_floats(p->bias)[column] : 0.0f;
    const uint16_t *a[CELL_STEP_PRODUCT_ROWS];
    float sums[CELL_STEP_PRODUCT_ROWS];
    for (uint32_t i = 0; i < n; i++) {
        a[i] = cell_step_bf16(p->a, first + i);
        sums[i] = p->has_start != 0 ? cell_step_f32(p->start, first + i)[column] : bias;
    }
    for (uint32_t k = 0; k < p->inputs; k++) {
        const float weight = cell_bf16_widen(weights[(uint64_t)k * p->outputs]);
        for (uint32_t i = 0; i < n; i++) {
            sums[i] = fmaf(cell_bf16_widen(a[i][k]), weight, sums[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        cell_step_f32(p->out, first + i)[column] = cell_nan_f32(sums[i]);
    }
}

CELL_STEP_FN void cell_step_column(const struct cell_step_product *p, uint32_t column,
                                   uint32_t first, uint32_t n)
{
    if (p->products == CELL_PRODUCTS_BF16) {
        cell_step_column_bf16(p, column, first, n);
    } else {
        cell_step_column_f32(p, column, first, n);
    }
}

/* Neighbouring items read neighbouring weights, and each weight is read once for all rows of an
 * item. Row counts are buckets': 1, 2, 4 or many times 8. */
CELL_STEP_FN void cell_step_product(const struct cell_step_product *p, struct cell_step_at at)
{
    const uint32_t column = at.item % p->outputs;
    uint32_t first = at.item / p->outputs * CELL_STEP_PRODUCT_ROWS;
    const uint32_t left = p->n_rows - first;
    if (left >= CELL_STEP_PRODUCT_ROWS) {
        cell_step_column(p, column, first, CELL_STEP_PRODUCT_ROWS);
        return;
    }
    if ((left & 4) != 0) {
        cell_step_column(p, column, first, 4);
        first += 4;
    }
    if ((left & 2) != 0) {
        cell_step_column(p, column, first, 2);
        first += 2;
    }
    if ((left & 1) != 0) {
        cell_step_column(p, column, first, 1);
    }
}

CELL_STEP_FN void cell_step_lstm(const struct cell_step_lstm *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->hidden;
    const uint32_t unit = at.item % p->hidden;
    const float *sums = cell_step_f32(p->sums, r) + unit;
    const float old = cell_step_f32(p->c, r)[unit];
    const float *peepholes = p->peepholes != 0 ? cell_step_floats(p->peepholes) + unit : 0;
    float i = sums[0];
    float o = sums[p->hidden];
    float f = sums[2 * (uint64_t)p->hidden];
    if (peepholes) {
        i = fmaf(peepholes[0], old, i);
        f = fmaf(peepholes[2 * (uint64_t)p->hidden], old, f);
    }
    const float g = cell_tanh_f32(sums[3 * (uint64_t)p->hidden]);
    const float c = cell_nan_f32(fmaf(cell_sigmoid_f32(f), old, cell_sigmoid_f32(i) * g));
    if (peepholes) {
        o = fmaf(peepholes[p->hidden], c, o);
    }
    cell_step_f32(p->c_out, r)[unit] = c;
    cell_step_f32(p->h_out, r)[unit] = cell_nan_f32(cell_sigmoid_f32(o) * cell_tanh_f32(c));
}

CELL_STEP_FN float cell_step_mix(float z, float h, float n)
{
    return cell_nan_f32(fmaf(z, h - n, n));
}

CELL_STEP_FN void cell_step_gru(const struct cell_step_gru *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->hidden;
    const uint32_t unit = at.item % p->hidden;
    const float *sums = cell_step_f32(p->sums, r) + unit;
    const float z = cell_sigmoid_f32(sums[0]);
    const float reset = cell_sigmoid_f32(sums[p->hidden]);
    const float over_x = sums[2 * (uint64_t)p->hidden];
    const float over_h = sums[3 * (uint64_t)p->hidden];
    const float n = cell_tanh_f32(fmaf(reset, over_h, over_x));
    cell_step_f32(p->out, r)[unit] = cell_step_mix(z, cell_step_f32(p->h, r)[unit], n);
}

CELL_STEP_FN void cell_step_gru_reset(const struct cell_step_gru_reset *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->hidden;
    const uint32_t unit = at.item % p->hidden;
    float *sums = cell_step_f32(p->sums, r) + unit;
    const float reset = cell_sigmoid_f32(sums[p->hidden]);
    sums[0] = cell_sigmoid_f32(sums[0]);
    cell_step_f32(p->reset, r)[unit] = cell_nan_f32(reset * cell_step_f32(p->h, r)[unit]);
}

CELL_STEP_FN void cell_step_gru_new(const struct cell_step_gru_new *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->hidden;
    const uint32_t unit = at.item % p->hidden;
    const float *sums = cell_step_f32(p->sums, r) + unit;
    const float n = cell_tanh_f32(sums[2 * (uint64_t)p->hidden]);
    cell_step_f32(p->out, r)[unit] = cell_step_mix(sums[0], cell_step_f32(p->h, r)[unit], n);
}

CELL_STEP_FN void cell_step_rnn(const struct cell_step_rnn *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->hidden;
    const uint32_t unit = at.item % p->hidden;
    const float sum = cell_step_f32(p->sums, r)[unit];
    cell_step_f32(p->out, r)[unit] = p->is_relu != 0 ? cell_relu_f32(sum) : cell_tanh_f32(sum);
}

CELL_STEP_FN void cell_step_tree(const struct cell_step_tree *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->hidden;
    const uint32_t unit = at.item % p->hidden;
    const float *sums = cell_step_f32(p->sums, r) + unit;
    float c = cell_sigmoid_f32(sums[0]) * cell_tanh_f32(sums[2 * (uint64_t)p->hidden]);
    for (uint32_t k = 0; k < p->n_children; k++) {
        const float f = cell_sigmoid_f32(cell_step_f32(p->forget[k], r)[unit]);
        c = fmaf(f, cell_step_f32(p->c[k], r)[unit], c);
    }
    c = cell_nan_f32(c);
    cell_step_f32(p->c_out, r)[unit] = c;
    cell_step_f32(p->h_out, r)[unit] =
        cell_nan_f32(cell_sigmoid_f32(sums[p->hidden]) * cell_tanh_f32(c));
}

#endif
