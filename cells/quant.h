/* Weights and rows in fewer bits: what rounding is, in one place. docs/kernels.md, "Weights in
 * fewer bits". Pure functions, any thread. */
#ifndef CELLS_QUANT_H
#define CELLS_QUANT_H

#include <stdint.h>
#include <string.h>

/* The nearest bf16, ties to even; the upper half of a float. x is not a NaN. */
static inline uint16_t cell_bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline float cell_bf16_float(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The scale of n values as int8: max|x| / 127; CELL_NAN_BITS when one is not finite. 0 where that
 * is less than the least float: then every value is 0. */
float cell_int8_scale(uint32_t n, const float *x);

/* The same from the largest of the values' bits without their signs. */
float cell_int8_scale_of(uint32_t largest_bits);

/* x / scale, rounded to the nearest, ties to even, in -127..127; 0 when the scale is 0 or NaN. */
int8_t cell_int8_of(float x, float scale);

#endif
