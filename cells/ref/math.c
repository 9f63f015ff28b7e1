/* Scalar activations: see math.h. Each is a straight line of IEEE operations with explicit fused
 * multiply-adds; -ffp-contract=off keeps the compiler from making others. Pure functions; about
 * 20 operations and one division a value (more where fmaf() is a library call). */
#include "cells/ref/math.h"

#include "cells/kernels.h"
#include "cells/math_constants.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* As the vector minimum and maximum: the second when either is NaN. */
static float min_f32(float a, float b)
{
    return a < b ? a : b;
}

static float max_f32(float a, float b)
{
    return a > b ? a : b;
}

/* exp(r) - 1 for |r| <= ln 2 / 2. */
static float expm1_small(float r)
{
    float q = CELL_EXP_Q4;
    q = fmaf(q, r, CELL_EXP_Q3);
    q = fmaf(q, r, CELL_EXP_Q2);
    q = fmaf(q, r, CELL_EXP_Q1);
    q = fmaf(q, r, CELL_EXP_Q0);
    return fmaf(q, r * r, r);
}

/* 2^n for -127 < n < 128, 0 for n = -127; rounded = n + CELL_ROUND_MAGIC. */
static float power_of_two(float rounded)
{
    return float_of((bits_of(rounded) << 23) + 0x3F800000u);
}

float cell_nan_f32__scalar(float x)
{
    return isnan(x) ? float_of(CELL_NAN_BITS) : x;
}

float cell_exp_f32__scalar(float x)
{
    float y = min_f32(CELL_EXP_HIGH, max_f32(CELL_EXP_LOW, x));
    float rounded = fmaf(y, CELL_LOG2E, CELL_ROUND_MAGIC);
    float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_LN2_HIGH, y);
    r = fmaf(-n, CELL_LN2_LOW, r);
    // n may be 128, whose power is not a float: half of it, doubled at the end.
    float half = float_of((bits_of(rounded) << 23) + 0x3F000000u);
    float result = fmaf(half, expm1_small(r), half);
    result = result + result;
    result = x > CELL_EXP_HIGH ? INFINITY : result;
    result = x < CELL_EXP_LOW ? 0.0f : result;
    return cell_nan_f32__scalar(result);
}

/* Of a positive float, also of a denormal one. */
static float log_positive(float x)
{
    const bool is_small = x < 0x1p-126f;
    const uint32_t bits = bits_of(is_small ? x * 0x1p+23f : x);
    // The power of two by which m is at least sqrt(1/2), and the rest.
    const int32_t n = (int32_t)(bits - CELL_SQRT_HALF_BITS) >> 23;
    const float f = float_of(bits - ((uint32_t)n << 23)) - 1.0f;
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

float cell_log_f32__scalar(float x)
{
    if (x > 0.0f) {
        return x == INFINITY ? x : log_positive(x);
    }
    return x == 0.0f ? -INFINITY : float_of(CELL_NAN_BITS);
}

/* 1 / (1 + exp(-x)). The product with 2^n, not an addition to the exponent, so that NaN stays. */
float cell_sigmoid_f32__scalar(float x)
{
    float y = min_f32(CELL_SIGMOID_LIMIT, max_f32(-CELL_SIGMOID_LIMIT, x));
    float rounded = fmaf(y, -CELL_LOG2E, CELL_ROUND_MAGIC);
    float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_LN2, -y);
    float s = power_of_two(rounded);
    float e = fmaf(s, expm1_small(r), s);
    return cell_nan_f32__scalar(1.0f / (1.0f + e));
}

/* With y = exp(2 |x|) - 1: y / (y + 2), and the sign of x. */
float cell_tanh_f32__scalar(float x)
{
    float a = float_of(bits_of(x) & 0x7FFFFFFFu);
    a = min_f32(CELL_TANH_LIMIT, a + a);
    float rounded = fmaf(a, CELL_LOG2E, CELL_ROUND_MAGIC);
    float n = rounded - CELL_ROUND_MAGIC;
    float r = fmaf(-n, CELL_LN2, a);
    float s = power_of_two(rounded);
    float y = fmaf(s, expm1_small(r), s - 1.0f);
    float t = y / (y + 2.0f);
    t = float_of(bits_of(t) | (bits_of(x) & 0x80000000u));
    return cell_nan_f32__scalar(t);
}

float cell_relu_f32__scalar(float x)
{
    return x <= 0.0f ? 0.0f : cell_nan_f32__scalar(x);
}

float cell_fold_f32__scalar(float *lanes)
{
    for (uint32_t half = CELL_SOFTMAX_LANES / 2; half > 0; half /= 2) {
        for (uint32_t i = 0; i < half; i++) {
            lanes[i] = lanes[i] + lanes[i + half];
        }
    }
    return lanes[0];
}

/* exp(x - max) over the sum of them. Which of two equal maxima is taken, and whether a NaN is seen
 * by the maximum, does not matter: a NaN anywhere makes the sum and so every result NaN. */
void cell_softmax_f32__scalar(uint32_t n, const float *in, float *out)
{
    float high = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        high = max_f32(in[i], high);
    }
    float lanes[CELL_SOFTMAX_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_exp_f32__scalar(in[i] - high);
        lanes[i % CELL_SOFTMAX_LANES] += out[i];
    }
    float sum = cell_fold_f32__scalar(lanes);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_nan_f32__scalar(out[i] / sum);
    }
}

float cell_mean_f32__scalar(uint32_t n, const float *in)
{
    float lanes[CELL_SOFTMAX_LANES] = {0};
    uint32_t i = 0;
    for (; i + CELL_SOFTMAX_LANES <= n; i += CELL_SOFTMAX_LANES) {
        for (uint32_t l = 0; l < CELL_SOFTMAX_LANES; l++) { // unlike i % 16, a loop of vectors
            lanes[l] += in[i + l];
        }
    }
    for (; i < n; i++) {
        lanes[i % CELL_SOFTMAX_LANES] += in[i];
    }
    return cell_nan_f32__scalar(cell_fold_f32__scalar(lanes) / (float)n);
}

float cell_dot_f32__scalar(uint32_t n, const float *a, const float *b)
{
    float lanes[CELL_SOFTMAX_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        lanes[i % CELL_SOFTMAX_LANES] += a[i] * b[i];
    }
    return cell_fold_f32__scalar(lanes);
}

void cell_add_scaled_f32__scalar(uint32_t n, float factor, const float *in, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] += factor * in[i];
    }
}

void cell_divide_f32__scalar(uint32_t n, float by, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_nan_f32__scalar(out[i] / by);
    }
}
