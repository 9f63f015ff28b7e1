/* Rounding to int8; see quant.h. Pure functions, any thread. */
#include "cells/quant.h"

#include "cells/kernels.h"

#include <math.h>
#include <string.h>

#define INFINITY_BITS 0x7F800000u

float cell_int8_scale_of(uint32_t largest_bits)
{
    uint32_t bits = largest_bits >= INFINITY_BITS ? CELL_NAN_BITS : largest_bits;
    float most;
    memcpy(&most, &bits, sizeof(most));
    return largest_bits >= INFINITY_BITS ? most : most / 127.0f;
}

/* The bits of floats without sign are in the order of the floats, what is not finite last. */
float cell_int8_scale(uint32_t n, const float *x)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        bits &= 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return cell_int8_scale_of(largest);
}

/* A scale that is itself a denormal is a rough one: the quotient may pass 127. */
int8_t cell_int8_of(float x, float scale)
{
    if (!(scale > 0.0f)) {
        return 0;
    }
    float quotient = x / scale;
    quotient = quotient > 127.0f ? 127.0f : quotient < -127.0f ? -127.0f : quotient;
    return (int8_t)lrintf(quotient);
}
