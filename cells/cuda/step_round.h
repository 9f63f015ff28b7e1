/* Body of the kernel that rounds a product's factor; see step.h. */
#ifndef CELLS_CUDA_STEP_ROUND_H
#define CELLS_CUDA_STEP_ROUND_H

#include "cells/cuda/round.h"
#include "cells/cuda/step.h"

CELL_STEP_FN void cell_step_round(const struct cell_step_round *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->width;
    const uint32_t k = at.item % p->width;
    const float x = cell_step_f32(p->in, r)[k];
    if (p->products == CELL_PRODUCTS_TF32) {
        cell_step_f32(p->out, r)[k] = cell_tf32_round(x);
        return;
    }
    uint16_t *out = cell_step_bf16(p->out, r) + k;
    const bool is_of_two = p->products == CELL_PRODUCTS_BF16X3;
    const uint16_t high = cell_bf16_high(is_of_two, x);
    out[0] = high;
    if (is_of_two) {
        out[p->width] = high;
        out[2 * (uint64_t)p->width] = cell_bf16_lost(x, high);
    }
}

#endif
