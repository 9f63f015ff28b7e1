/* bf16: the upper half of a float. Pure functions, host and device. */
#ifndef CELLS_CUDA_BF16_H
#define CELLS_CUDA_BF16_H

#include "cells/lane/word.h"

#include <string.h>

#define CELL_BF16_QUIET 0x0040u

/* The nearest, ties to even; past the largest, infinity. A NaN keeps its sign and the upper bits of
 * its payload, and is quiet: rounding it as a number could end at infinity or zero. */
CELL_LANE_FN uint16_t cell_bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return (uint16_t)(bits >> 16 | CELL_BF16_QUIET);
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

CELL_LANE_FN float cell_bf16_widen(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Two neighbours in a register, the lower index in the lower half. */
CELL_LANE_FN uint32_t cell_bf16_pair(uint16_t low, uint16_t high)
{
    return (uint32_t)low | (uint32_t)high << 16;
}

#endif
