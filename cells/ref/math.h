/* The activations, one float at a time: the definition of their bits. The vector forms in
 * cells/cpu/math_body.h do the same operations in the same order. */
#ifndef CELLS_REF_MATH_H
#define CELLS_REF_MATH_H

#include <stdint.h>

/* Over all floats within 2e-7 relative or 1e-7 absolute of the true value; a NaN gives a NaN. */
float cell_exp_f32__scalar(float x);
float cell_log_f32__scalar(float x); /* of 0 -Inf, of what is below a NaN */
float cell_sigmoid_f32__scalar(float x);
float cell_tanh_f32__scalar(float x);
float cell_sin_f32__scalar(float x);
float cell_cos_f32__scalar(float x);
float cell_atan_f32__scalar(float x);

/* a^b, with C's special values; within 2e-7 + 1e-8 |ln(a^b)| relative;
 * what is below 2^-125 may be 0. */
float cell_pow_f32__scalar(float a, float b);

/* 0 for what is not above 0, so never -0. */
float cell_relu_f32__scalar(float x);

/* Any NaN becomes the one of CELL_NAN_BITS: which payload survives an operation with two NaN is
 * up to the compiler's choice of operands, and must not show. */
float cell_nan_f32__scalar(float x);

/* Halves are added to halves: CELL_SOFTMAX_LANES partial sums to 8, 4, 2, 1. Overwrites them. */
float cell_fold_f32__scalar(float *lanes);

/* Softmax over n elements; see math.c for the order of the sum. in == out is allowed. */
void cell_softmax_f32__scalar(uint32_t n, const float *in, float *out);

/* Its logarithm; in and out do not overlap. */
void cell_log_softmax_f32__scalar(uint32_t n, const float *in, float *out);

/* The number of the first of the largest elements, or of the first NaN. */
uint32_t cell_argmax_f32__scalar(uint32_t n, const float *in);

/* The sum of n elements; see math.c for its order. */
float cell_sum_f32__scalar(uint32_t n, const float *in);

/* Of what cell_kernels.dots, weigh and divide say: of one row. */
float cell_dot_f32__scalar(uint32_t n, const float *a, const float *b);
void cell_add_scaled_f32__scalar(uint32_t n, float factor, const float *in, float *out);
void cell_divide_f32__scalar(uint32_t n, float by, float *out);

#endif
