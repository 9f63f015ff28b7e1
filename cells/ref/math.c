/* Scalar activations: see math.h; their bodies are in math_body.h. Pure functions. */
#include "cells/ref/math.h"

#include "cells/ref/math_body.h"

float cell_exp_f32__scalar(float x)
{
    return cell_exp_f32(x);
}

float cell_log_f32__scalar(float x)
{
    return cell_log_f32(x);
}

float cell_pow_f32__scalar(float a, float b)
{
    return cell_pow_f32(a, b);
}

float cell_sin_f32__scalar(float x)
{
    return cell_sin_f32(x);
}

float cell_cos_f32__scalar(float x)
{
    return cell_cos_f32(x);
}

float cell_atan_f32__scalar(float x)
{
    return cell_atan_f32(x);
}

float cell_sigmoid_f32__scalar(float x)
{
    return cell_sigmoid_f32(x);
}

float cell_tanh_f32__scalar(float x)
{
    return cell_tanh_f32(x);
}

float cell_relu_f32__scalar(float x)
{
    return cell_relu_f32(x);
}

float cell_nan_f32__scalar(float x)
{
    return cell_nan_f32(x);
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
        high = cell_math_max(in[i], high);
    }
    float lanes[CELL_SOFTMAX_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_exp_f32(in[i] - high);
        lanes[i % CELL_SOFTMAX_LANES] += out[i];
    }
    float sum = cell_fold_f32__scalar(lanes);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_nan_f32(out[i] / sum);
    }
}

/* Its largest is 1 over the sum of the exponentials, so no probability is too small for a
 * logarithm. A NaN anywhere makes all NaN. */
void cell_log_softmax_f32__scalar(uint32_t n, const float *in, float *out)
{
    cell_softmax_f32__scalar(n, in, out);
    float high = -INFINITY;
    float most = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        high = in[i] > high ? in[i] : high;
        most = out[i] > most || isnan(out[i]) ? out[i] : most;
    }
    const float log_most = cell_log_f32(most);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_nan_f32((in[i] - high) + log_most);
    }
}

uint32_t cell_argmax_f32__scalar(uint32_t n, const float *in)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n && !isnan(in[best]); i++) {
        best = in[i] > in[best] || isnan(in[i]) ? i : best;
    }
    return best;
}

float cell_sum_f32__scalar(uint32_t n, const float *in)
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
    return cell_nan_f32(cell_fold_f32__scalar(lanes));
}

float cell_dot_f32__scalar(uint32_t n, const float *a, const float *b)
{
    float lanes[CELL_SOFTMAX_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        float *lane = &lanes[i % CELL_SOFTMAX_LANES];
        *lane = fmaf(a[i], b[i], *lane);
    }
    return cell_fold_f32__scalar(lanes);
}

void cell_add_scaled_f32__scalar(uint32_t n, float factor, const float *in, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = fmaf(factor, in[i], out[i]);
    }
}

void cell_divide_f32__scalar(uint32_t n, float by, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_nan_f32(out[i] / by);
    }
}
