/* bf16: the upper half of a float; and what is multiplied as bf16 with sums of floats, of one
 * definition for all devices (docs/kernels.md, "Weights in fewer bits"). Pure functions, host and
 * device. */
#ifndef CELLS_BF16_H
#define CELLS_BF16_H

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

/* Factors below the least are 0, and so are sums that begin below theirs. All others are whole
 * multiples of 2^-62 and of 2^-123; products then are of 2^-124, and so is every sum: none is a
 * denormal, whatever cancels. So an instruction that takes denormals for 0 (VDPBF16PS) gives the
 * bits that fused multiply-adds of floats give. */
#define CELL_BF16_FACTOR_LEAST 0x24000000u /* 2^-55 */
#define CELL_BF16_START_LEAST  0x0D800000u /* 2^-100 */

/* What is multiplied, a weight or an element of a row. */
CELL_LANE_FN uint16_t cell_bf16_factor(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (bits & 0x7FFFFFFFu) < CELL_BF16_FACTOR_LEAST ? 0 : cell_bf16_round(x);
}

/* What a sum of their products begins with. */
CELL_LANE_FN float cell_bf16_start(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (bits & 0x7FFFFFFFu) < CELL_BF16_START_LEAST ? 0.0f : x;
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
