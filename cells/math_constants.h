/* Constants of the activations, shared by the scalar reference and the vector kernels.
 *
 * exp(x) = 2^n * exp(r) with n = round(x / ln 2), |r| <= ln 2 / 2. With q = exp(r) - 1:
 *   q = r + r^2 * (Q0 + Q1 r + Q2 r^2 + Q3 r^3 + Q4 r^4)
 * Q is a minimax fit by Remez exchange, weighted so that the relative error of exp(r) is below
 * 3.1e-9, far under a float's 6e-8; that leaves only rounding. */
#ifndef CELLS_MATH_CONSTANTS_H
#define CELLS_MATH_CONSTANTS_H

#define CELL_EXP_Q0 0x1.fffffcp-2f
#define CELL_EXP_Q1 0x1.555492p-3f
#define CELL_EXP_Q2 0x1.5558f2p-5f
#define CELL_EXP_Q3 0x1.123a20p-7f
#define CELL_EXP_Q4 0x1.6a23cap-10f

/* log(m) = f - f^2 / 2 + f^3 * (L0 + L1 f + .. + L8 f^8) with f = m - 1, sqrt(1/2) <= m < sqrt(2):
 * a minimax fit, weighted so that its relative error is below 7.5e-10. */
#define CELL_LOG_L0 0x1.555548p-2f
#define CELL_LOG_L1 (-0x1.000006p-2f)
#define CELL_LOG_L2 0x1.99a4b6p-3f
#define CELL_LOG_L3 (-0x1.555c4ep-3f)
#define CELL_LOG_L4 0x1.233768p-3f
#define CELL_LOG_L5 (-0x1.fc220ap-4f)
#define CELL_LOG_L6 0x1.e6f06ap-4f
#define CELL_LOG_L7 (-0x1.de3c04p-4f)
#define CELL_LOG_L8 0x1.145796p-4f

/* With r = x - n pi / 2, |r| <= 0.79, and z = r^2:
 *   sin(r) = r + r z (S0 + S1 z + S2 z^2 + S3 z^3)      relative error below 1.7e-10
 *   cos(r) = 1 - z / 2 + z^2 (C0 + C1 z + C2 z^2)       1.3e-10 */
#define CELL_SIN_S0 (-0x1.555556p-3f)
#define CELL_SIN_S1 0x1.111174p-7f
#define CELL_SIN_S2 (-0x1.a0590ep-13f)
#define CELL_SIN_S3 0x1.7c090ep-19f
#define CELL_COS_C0 0x1.55554ap-5f
#define CELL_COS_C1 (-0x1.6c0c1ep-10f)
#define CELL_COS_C2 0x1.99e336p-16f

/* Up to here x - n pi / 2 is found with pi / 2 in three floats: the first multiply-add is exact. */
#define CELL_SIN_LIMIT   0x1p+16f
#define CELL_TWO_OVER_PI 0x1.45f306p-1f
#define CELL_PI2_HIGH    0x1.921fb6p+0f
#define CELL_PI2_MIDDLE  (-0x1.777a5cp-25f)
#define CELL_PI2_LOW     (-0x1.ee59dap-50f)

/* atan(t) = t + t z (A0 + A1 z + .. + A7 z^7) with z = t^2, 0 <= t <= 1: relative error below
 * 1.8e-8. */
#define CELL_ATAN_A0 (-0x1.5554dcp-2f)
#define CELL_ATAN_A1 0x1.9978ecp-3f
#define CELL_ATAN_A2 (-0x1.230a94p-3f)
#define CELL_ATAN_A3 0x1.b4deb2p-4f
#define CELL_ATAN_A4 (-0x1.355128p-4f)
#define CELL_ATAN_A5 0x1.61f136p-5f
#define CELL_ATAN_A6 (-0x1.0c1e94p-6f)
#define CELL_ATAN_A7 0x1.7ebdb8p-9f

#define CELL_SQRT_HALF_BITS 0x3F3504F3u

#define CELL_LOG2E 0x1.715476p+0f /* 1 / ln 2 */
#define CELL_LN2   0x1.62e430p-1f /* ln 2 in one float, 1.9e-9 too large */

/* ln 2 in two floats, for where n is large and the result is not small. */
#define CELL_LN2_HIGH 0x1.62e400p-1f
#define CELL_LN2_LOW  0x1.7f7d1cp-20f

/* 1.5 * 2^23: a float of size < 2^22 added to it is rounded to an integer (nearest, ties to even),
 * and the low bits of the sum are that integer. */
#define CELL_ROUND_MAGIC 0x1.8p+23f

/* Past these sigmoid and tanh are constant: 1.6e-38, or 1 to the last bit. */
#define CELL_SIGMOID_LIMIT 87.0f
#define CELL_TANH_LIMIT    20.0f /* of 2 |x| */

/* Past these exp is +Inf, or is given as 0 (no denormal results). */
#define CELL_EXP_HIGH 0x1.62e42ep+6f    /* 88.722835 */
#define CELL_EXP_LOW  (-0x1.5d589ep+6f) /* -87.336540 */

/* A NaN that leaves a kernel is always this one. */
#define CELL_NAN_BITS 0x7FC00000u

/* Partial sums of a softmax: element i goes to sum i mod 16, whatever the vector width. */
enum { CELL_SOFTMAX_LANES = 16 };

#endif
