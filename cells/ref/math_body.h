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

/* exp(x + low), where low is at most half of x's last place, or is not there. */
CELL_MATH_FN float cell_math_exp(float x, bool has_low, float low)
{
    float y = cell_math_min(CELL_EXP_HIGH, cell_math_max(CELL_EXP_LOW, x));
    float rounded = fmaf(y, CELL_LOG2E, CELL_ROUND_MAGIC);
    float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_LN2_HIGH, y);
    r = fmaf(-n, CELL_LN2_LOW, r);
    r = has_low ? r + low : r;
    // n may be 128, whose power is not a float: half of it, doubled at the end.
    float half = cell_math_float((cell_math_bits(rounded) << 23) + 0x3F000000u);
    float result = fmaf(half, cell_math_expm1(r), half);
    result = result + result;
    result = x > CELL_EXP_HIGH ? INFINITY : result;
    result = x < CELL_EXP_LOW ? 0.0f : result;
    return cell_nan_f32(result);
}

CELL_MATH_FN float cell_exp_f32(float x)
{
    return cell_math_exp(x, false, 0.0f);
}

/* Of a positive float, also of a denormal one: 2^power * (1 + f), whose logarithm is power * ln 2 +
 * f - f^2 / 2 + q f^3. */
struct cell_math_log {
    float power, f, q;
};

CELL_MATH_FN struct cell_math_log cell_math_log_parts(float x)
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
    return (struct cell_math_log){power, f, q};
}

CELL_MATH_FN float cell_log_f32(float x)
{
    if (x > 0.0f) {
        const struct cell_math_log log = cell_math_log_parts(x);
        const float square = log.f * log.f;
        const float rest =
            fmaf(log.q * log.f, square, fmaf(square, -0.5f, log.power * CELL_LN2_LOW));
        return x == INFINITY ? x : fmaf(log.power, CELL_LN2_HIGH, log.f + rest);
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

/* ---- Powers -------------------------------------------------------------------------------------
 */

CELL_MATH_FN bool cell_math_is_whole(float x)
{
    return floorf(x) == x;
}

/* |a|^b, but where one of them is NaN, a is 1 or b is 0: the logarithm, and its product with b, are
 * sums of two floats each, so that the result is no further off for being large or small. */
CELL_MATH_FN float cell_math_power_of_size(float size, float b)
{
    const bool is_normal = size > 0.0f && size < INFINITY;
    const struct cell_math_log log = cell_math_log_parts(is_normal ? size : 1.0f);
    const float most = log.power * CELL_LN2_HIGH; // exact
    const float square = log.f * log.f;
    const float half = square * -0.5f;
    const float sum = most + log.f;
    const float all = sum + half;
    const float high = is_normal ? all : size > 0.0f ? INFINITY : -INFINITY;
    const float lost_square = fmaf(log.f, log.f, -square) * -0.5f;
    const float rest = fmaf(log.q * log.f, square, fmaf(log.power, CELL_LN2_LOW, lost_square));
    const float low = (((sum - all) + half) + ((most - sum) + log.f)) + rest;
    const float product = b * high;
    const float lost = fmaf(b, high, -product) + b * low;
    const float both = product + lost;
    const float left = (product - both) + lost;
    const bool is_finite = fabsf(product) < INFINITY;
    return cell_math_exp(is_finite ? both : product, true, is_finite ? left : 0.0f);
}

/* As C's pow. */
CELL_MATH_FN float cell_pow_f32(float a, float b)
{
    const float size = fabsf(a);
    const bool is_whole = cell_math_is_whole(b);
    const bool is_odd = is_whole && !cell_math_is_whole(b * 0.5f);
    float result = cell_math_power_of_size(size, b);
    // Of -1 an infinite b is even; a logarithm of 0 times infinity has given NaN.
    result = size == 1.0f && fabsf(b) == INFINITY ? 1.0f : result;
    result = a < 0.0f && size < INFINITY && !is_whole ? cell_math_float(CELL_NAN_BITS) : result;
    result = is_odd ? cell_math_float(cell_math_bits(result) | (cell_math_bits(a) & 0x80000000u))
                    : result;
    result = isnan(a) ? a : result;
    return b == 0.0f || a == 1.0f ? 1.0f : cell_nan_f32(result);
}

/* ---- Sine, cosine, arc tangent ------------------------------------------------------------------
 */

/* The sine of r + quarters * pi / 2, |r| <= 0.79; of quarters the last two bits. */
CELL_MATH_FN float cell_math_sine_of_rest(float r, uint32_t quarters)
{
    const float z = r * r;
    float s = CELL_SIN_S3;
    s = fmaf(s, z, CELL_SIN_S2);
    s = fmaf(s, z, CELL_SIN_S1);
    s = fmaf(s, z, CELL_SIN_S0);
    s = fmaf(s * z, r, r);
    float c = CELL_COS_C2;
    c = fmaf(c, z, CELL_COS_C1);
    c = fmaf(c, z, CELL_COS_C0);
    c = fmaf(z * z, c, fmaf(z, -0.5f, 1.0f));
    return (quarters & 1u) != 0 ? c * ((quarters & 2u) != 0 ? -1.0f : 1.0f)
                                : s * ((quarters & 2u) != 0 ? -1.0f : 1.0f);
}

/* Of what is beyond CELL_SIN_LIMIT (Payne and Hanek, SIGNUM Newsletter 18, 1983): x is m 2^e, and
 * of the bits of 2 / pi those are multiplied by m that neither count whole turns nor are too small
 * to be seen. */
CELL_MATH_FN float cell_math_sine_of_large(float x, uint32_t quarters)
{
    const uint32_t bits = cell_math_bits(x);
    const uint64_t m = (bits & 0x7FFFFFu) | 0x800000u;
    const uint32_t skipped = ((bits >> 23) & 0xFFu) - 150u + 62u; // e - 2, and 64 zeros before
    const uint64_t w0 = 0xA2F9836E4E441529u;                      // 2 / pi
    const uint64_t w1 = 0xFC2757D1F534DDC0u;
    const uint64_t w2 = 0xDB6295993C439041u;
    const uint64_t w3 = 0xFE5163ABDEBBC561u;
    const uint32_t word = skipped / 64;
    const uint32_t shift = skipped % 64;
    const uint64_t first = word == 0 ? 0 : word == 1 ? w0 : w1;
    const uint64_t second = word == 0 ? w0 : word == 1 ? w1 : w2;
    const uint64_t third = word == 0 ? w1 : word == 1 ? w2 : w3;
    const uint64_t high = shift == 0 ? first : first << shift | second >> (64 - shift);
    const uint64_t low = (shift == 0 ? second : second << shift | third >> (64 - shift)) >> 32;
    const uint64_t turns = m * high + (m * low >> 32); // in quarters, 62 bits behind the point
    const uint32_t n = (uint32_t)((turns + ((uint64_t)1 << 61)) >> 62);
    const double rest = (double)(int64_t)(turns - ((uint64_t)n << 62)) * 0x1p-62;
    const float r = (float)(rest * 0x1.921fb54442d18p+0);
    if (!(fabsf(x) < INFINITY)) {
        return cell_math_float(CELL_NAN_BITS);
    }
    return x > 0.0f ? cell_math_sine_of_rest(r, n + quarters)
                    : cell_math_sine_of_rest(-r, quarters - n);
}

CELL_MATH_FN float cell_math_sine(float x, uint32_t quarters)
{
    if (fabsf(x) > CELL_SIN_LIMIT) {
        return cell_math_sine_of_large(x, quarters);
    }
    const float rounded = fmaf(x, CELL_TWO_OVER_PI, CELL_ROUND_MAGIC);
    const float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_PI2_HIGH, x);
    r = fmaf(-n, CELL_PI2_MIDDLE, r);
    r = fmaf(-n, CELL_PI2_LOW, r);
    return cell_nan_f32(cell_math_sine_of_rest(r, cell_math_bits(rounded) + quarters));
}

CELL_MATH_FN float cell_sin_f32(float x)
{
    return cell_math_sine(x, 0);
}

CELL_MATH_FN float cell_cos_f32(float x)
{
    return cell_math_sine(x, 1);
}

/* Of what is above 1 pi / 2 less that of its reciprocal. */
CELL_MATH_FN float cell_atan_f32(float x)
{
    const float size = fabsf(x);
    const bool is_far = size > 1.0f;
    const float t = is_far ? 1.0f / size : size;
    const float z = t * t;
    float q = CELL_ATAN_A7;
    q = fmaf(q, z, CELL_ATAN_A6);
    q = fmaf(q, z, CELL_ATAN_A5);
    q = fmaf(q, z, CELL_ATAN_A4);
    q = fmaf(q, z, CELL_ATAN_A3);
    q = fmaf(q, z, CELL_ATAN_A2);
    q = fmaf(q, z, CELL_ATAN_A1);
    q = fmaf(q, z, CELL_ATAN_A0);
    float a = fmaf(q * z, t, t);
    a = is_far ? (CELL_PI2_HIGH - a) + CELL_PI2_MIDDLE : a;
    return cell_nan_f32(cell_math_float(cell_math_bits(a) | (cell_math_bits(x) & 0x80000000u)));
}

#endif
