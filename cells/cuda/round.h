/* What factors of products are rounded to (enum cell_products): tf32, and two bf16 in the place of
 * a float. Pure functions, host and device; bf16 itself is bf16.h's. */
#ifndef CELLS_CUDA_ROUND_H
#define CELLS_CUDA_ROUND_H

#include "cells/bf16.h"

#define CELL_TF32_DROPPED 0x1FFFu /* bits of a float's significand */

/* To the nearest with 10 bits behind the point, ties to even; past the largest, infinity. A NaN
 * keeps sign and upper payload, and is quiet. */
CELL_LANE_FN float cell_tf32_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        bits |= 0x00400000u;
    } else {
        bits += (CELL_TF32_DROPPED >> 1) + (bits >> 13 & 1u);
    }
    bits &= ~CELL_TF32_DROPPED;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The bf16 of x, or the first of two (is_of_two), which keep small factors. */
CELL_LANE_FN uint16_t cell_bf16_high(bool is_of_two, float x)
{
    return is_of_two ? cell_bf16_round(x) : cell_bf16_factor(x);
}

/* What bf16 `high`, x rounded, has lost of x; 0 where x has become infinity or is NaN. */
CELL_LANE_FN uint16_t cell_bf16_lost(float x, uint16_t high)
{
    return (high & 0x7FFFu) >= 0x7F80u ? 0 : cell_bf16_round(x - cell_bf16_widen(high));
}

#endif
