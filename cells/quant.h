/* Weights and rows as int8: what rounding is, in one place (of bf16 it is in bf16.h).
 * docs/kernels.md, "Weights in fewer bits". Pure functions, any thread. */
#ifndef CELLS_QUANT_H
#define CELLS_QUANT_H

#include <stdint.h>

/* The scale of n values as int8: max|x| / 127; CELL_NAN_BITS when one is not finite. 0 where that
 * is less than the least float: then every value is 0. */
float cell_int8_scale(uint32_t n, const float *x);

/* The same from the largest of the values' bits without their signs. */
float cell_int8_scale_of(uint32_t largest_bits);

/* x / scale, rounded to the nearest, ties to even, in -127..127; 0 when the scale is 0 or NaN. */
int8_t cell_int8_of(float x, float scale);

#endif
