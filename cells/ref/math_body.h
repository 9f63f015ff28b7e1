/* The activations, one float at a time: the definition of their bits, as C11 and CUDA C++ both
 * compile it (cells/ref/math.c for hosts, the kernels of cells/cuda/ for a GPU).
 *
 * Each is a straight line of IEEE operations with explicit fused multiply-adds. No compiler may
 * make others (-ffp-contract=off, nvcc -fmad=false), flush denormals or approximate a division. The
 * vector forms in cells/cpu/math_body.h do the same operations in the same order. Pure functions;
 * about 20 operations and one division a value. */
#ifndef CELLS_REF_MATH_BODY_H
#define CELLS_REF_MATH_BODY_H

#include "cells/math_constants.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#    define CELL_MATH_FN static inline __host__ __device__
#else
#    define CELL_MATH_FN static inline
#endif

CELL_MATH_FN uint32_t cell_math_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

CELL_MATH_FN float cell_math_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* As the vector minimum and maximum: the second when either is NaN. */
CELL_MATH_FN float cell_math_min(float a, float b)
{
    return a < b ? a : b;
}

CELL_MATH_FN float cell_math_max(float a, float b)
{
    return a > b ? a : b;
}

/* exp(r) - 1 for |r| <= ln 2 / 2. */
CELL_MATH_FN float cell_math_expm1(float r)
{
    float q = CELL_EXP_Q4;
    q = fmaf(q, r, CELL_EXP_Q3);
    q = fmaf(q, r, CELL_EXP_Q2);
    q = fmaf(q, r, CELL_EXP_Q1);
    q = fmaf(q, r, CELL_EXP_Q0);
    return fmaf(q, r * r, r);
}

/* 2^n for -127 < n < 128, 0 for n = -127; rounded = n + CELL_ROUND_MAGIC. */
CELL_MATH_FN float cell_math_power(float rounded)
{
    return cell_math_float((cell_math_bits(rounded) << 23) + 0x3F800000u);
}

CELL_MATH_FN float cell_nan_f32(float x)
{
    return isnan(x) ? cell_math_float(CELL_NAN_BITS) : x;
}

CELL_MATH_FN float cell_exp_f32(float x)
{
    float y = cell_math_min(CELL_EXP_HIGH, cell_math_max(CELL_EXP_LOW, x));
    float rounded = fmaf(y, CELL_LOG2E, CELL_ROUND_MAGIC);
    float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_LN2_HIGH, y);
    r = fmaf(-n, CELL_LN2_LOW, r);
    // n may be 128, whose power is not a float: half of it, doubled at the end.
    float half = cell_math_float((cell_math_bits(rounded) << 23) + 0x3F000000u);
    float result = fmaf(half, cell_math_expm1(r), half);
    result = result + result;
    result = x > CELL_EXP_HIGH ? INFINITY : result;
    result = x < CELL_EXP_LOW ? 0.0f : result;
    return cell_nan_f32(result);
}

/* Of a positive float, also of a denormal one. */
CELL_MATH_FN float cell_math_log_positive(float x)
{
    const bool is_small = x < 0x1p-126f;
    const uint32_t bits = cell_math_bits(is_small ? x * 0x1p+23f : x);
    // The power of two by which m is at least sqrt(1/2), and the rest.
    const int32_t n = (int32_t)(bits - CELL_SQRT_HALF_BITS) >> 23;
    const float f = cell_math_float(bits - ((uint32_t)n << 23)) - 1.0f;
    const float power = (float)(is_small ? n - 23 : n);
    float q = CELL_LOG_L8;
    q = fmaf(q, f, CELL_LOG_L7);
    q = fmaf(q, f, CELL_LOG_L6);
    q = fmaf(q, f, CELL_LOG_L5);
    q = fmaf(q, f, CELL_LOG_L4);
    q = fmaf(q, f, CELL_LOG_L3);
    q = fmaf(q, f, CELL_LOG_L2);
    q = fmaf(q, f, CELL_LOG_L1);
    q = fmaf(q, f, CELL_LOG_L0);
    const float square = f * f;
    const float rest = fmaf(q * f, square, fmaf(square, -0.5f, power * CELL_LN2_LOW));
    return fmaf(power, CELL_LN2_HIGH, f + rest);
}

CELL_MATH_FN float cell_log_f32(float x)
{
    if (x > 0.0f) {
        return x == INFINITY ? x : cell_math_log_positive(x);
    }
    return x == 0.0f ? -INFINITY : cell_math_float(CELL_NAN_BITS);
}

/* 1 / (1 + exp(-x)). The product with 2^n, not an addition to the exponent, so that NaN stays. */
CELL_MATH_FN float cell_sigmoid_f32(float x)
{
    float y = cell_math_min(CELL_SIGMOID_LIMIT, cell_math_max(-CELL_SIGMOID_LIMIT, x));
    float rounded = fmaf(y, -CELL_LOG2E, CELL_ROUND_MAGIC);
    float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_LN2, -y);
    float s = cell_math_power(rounded);
    float e = fmaf(s, cell_math_expm1(r), s);
    return cell_nan_f32(1.0f / (1.0f + e));
}

/* With y = exp(2 |x|) - 1: y / (y + 2), and the sign of x. */
CELL_MATH_FN float cell_tanh_f32(float x)
{
    float a = cell_math_float(cell_math_bits(x) & 0x7FFFFFFFu);
    a = cell_math_min(CELL_TANH_LIMIT, a + a);
    float rounded = fmaf(a, CELL_LOG2E, CELL_ROUND_MAGIC);
    float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_LN2, a);
    float s = cell_math_power(rounded);
    float y = fmaf(s, cell_math_expm1(r), s - 1.0f);
    float t = y / (y + 2.0f);
    t = cell_math_float(cell_math_bits(t) | (cell_math_bits(x) & 0x80000000u));
    return cell_nan_f32(t);
}

CELL_MATH_FN float cell_relu_f32(float x)
{
    return x <= 0.0f ? 0.0f : cell_nan_f32(x);
}

#endif
