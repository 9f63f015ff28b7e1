/* Advanced SIMD of AArch64: 4 lanes, 32 registers. See simd.h. */
#ifndef CELLS_CPU_SIMD_NEON_H
#define CELLS_CPU_SIMD_NEON_H

#include "cells/bf16.h"
#include "cells/math_constants.h"

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define CELL_SIMD_LANES ((size_t)4)

/* Rows of a tile. 4 vectors: 6 x 4 accumulators, four vectors of weights and an element of x make
 * 29 registers. 3 vectors: 8 x 3, three and one. 5 vectors: 5 x 5, five and one; with more rows 2
 * and then 3. There are no tiles of 2 of 4 vectors: the 4 of a term are one cache line, of which
 * half a tile would leave half unread. int8: 6 x 4 sums, 6 words of x and one vector of weights. */
#define CELL_TILE_ROWS_OF_5     5u
#define CELL_TILE_ROWS_OF_4     6u
#define CELL_TILE_ROWS_OF_3     8u
#define CELL_TILE_ROWS_OF_2     6u
#define CELL_TILE_TERMS_OF_2    1u
#define CELL_TILE_ROWS_OF_WORDS 6u
#define CELL_TILE_ROWS_OF_PAIRS CELL_TILE_ROWS_OF_4

/* Terms that a tile's loop takes between two branches: more are not measured. */
#define CELL_TILE_TERMS 1u

/* Activations computed together, 3 registers each. */
#define CELL_TOGETHER ((size_t)4)

/* A multiply-add takes one lane of a register for all of its own. */
#define CELL_FMA_BY_LANE 1

/* Weights that an L2 of 1 MiB does not hold beside the rows, when they are read more than once: not
 * measured. */
#define CELL_STREAMED_ROWS(l3_is_near) 7u
#define CELL_STREAMED_BYTES            ((size_t)768 << 10)
#define CELL_STREAMED_WORDS            CELL_STREAMED_BYTES
#define CELL_STREAMED_STEP(l3_is_near) CELL_STREAMED_BYTES

/* Whether panels of 4 and 5 vectors lie in strips (kernels.h): a tile takes
 * whole ones. */
#define CELL_STRIPS 0

/* Whether what is asked for later is shared out to all passes: not measured. */
#define CELL_PASSES_SHARE_ASKS 0

/* Whether weights that a tile will need in a moment are asked for. */
#define CELL_ASKS_NEAR 1

typedef float32x4_t simd_vec;

static inline simd_vec simd_load(const float *from)
{
    return vld1q_f32(from);
}

/* The same in a register: else a compiler may read it again for every use, which costs as many
 * accesses to a line that is still on its way. */
static inline simd_vec simd_keep(simd_vec v)
{
    __asm__("" : "+w"(v));
    return v;
}

static inline void simd_store(float *to, simd_vec v)
{
    vst1q_f32(to, v);
}

/* The first n lanes, n < CELL_SIMD_LANES; the others are zero, and are not touched in memory. */
static inline simd_vec simd_load_part(const float *from, size_t n)
{
    simd_vec v = vdupq_n_f32(0.0f);
    v = n > 0 ? vld1q_lane_f32(from, v, 0) : v;
    v = n > 1 ? vld1q_lane_f32(from + 1, v, 1) : v;
    return n > 2 ? vld1q_lane_f32(from + 2, v, 2) : v;
}

static inline void simd_store_part(float *to, size_t n, simd_vec v)
{
    if (n > 0) {
        vst1q_lane_f32(to, v, 0);
    }
    if (n > 1) {
        vst1q_lane_f32(to + 1, v, 1);
    }
    if (n > 2) {
        vst1q_lane_f32(to + 2, v, 2);
    }
}

static inline simd_vec simd_first(simd_vec v, size_t n)
{
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    uint32x4_t mask = vcltq_u32(vld1q_u32(lanes), vdupq_n_u32((uint32_t)n));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), mask));
}

/* Partial sums, CELL_SOFTMAX_LANES of them, to one: l and l + 8, then l + 4, l + 2, l + 1. */
static inline float simd_fold(const simd_vec sums[4])
{
    float32x4_t four = vaddq_f32(vaddq_f32(sums[0], sums[2]), vaddq_f32(sums[1], sums[3]));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static inline simd_vec simd_set1(float x)
{
    return vdupq_n_f32(x);
}

static inline simd_vec simd_add(simd_vec a, simd_vec b)
{
    return vaddq_f32(a, b);
}

static inline simd_vec simd_sub(simd_vec a, simd_vec b)
{
    return vsubq_f32(a, b);
}

static inline simd_vec simd_mul(simd_vec a, simd_vec b)
{
    return vmulq_f32(a, b);
}

static inline simd_vec simd_div(simd_vec a, simd_vec b)
{
    return vdivq_f32(a, b);
}

/* Not vminq and vmaxq: they give a NaN when either is one, and -0 is less than +0 to them. */
static inline simd_vec simd_min(simd_vec a, simd_vec b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

static inline simd_vec simd_max(simd_vec a, simd_vec b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* a * b + c, -(a * b) + c, -(a * b) - c, rounded once. */
static inline simd_vec simd_fma(simd_vec a, simd_vec b, simd_vec c)
{
    return vfmaq_f32(c, a, b);
}

static inline simd_vec simd_fma_in_place(simd_vec a, simd_vec b, simd_vec c)
{
    return simd_fma(a, b, c);
}

static inline simd_vec simd_fnma(simd_vec a, simd_vec b, simd_vec c)
{
    return vfmsq_f32(c, a, b);
}

/* c is negated, not the result: a sum of 0 is +0. */
static inline simd_vec simd_fnms(simd_vec a, simd_vec b, simd_vec c)
{
    return vfmsq_f32(vnegq_f32(c), a, b);
}

static inline simd_vec simd_abs(simd_vec v)
{
    return vabsq_f32(v);
}

/* size with the sign bit of `sign` set where it is set there. */
static inline simd_vec simd_or_sign(simd_vec size, simd_vec sign)
{
    uint32x4_t bit = vandq_u32(vreinterpretq_u32_f32(sign), vdupq_n_u32(0x80000000u));
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(size), bit));
}

/* The bits of v shifted left by 23, plus `bits`: a power of two from a rounded float. */
static inline simd_vec simd_exponent(simd_vec v, uint32_t bits)
{
    uint32x4_t shifted = vshlq_n_u32(vreinterpretq_u32_f32(v), 23);
    return vreinterpretq_f32_u32(vaddq_u32(shifted, vdupq_n_u32(bits)));
}

/* The power of two by which a positive normal v is at least sqrt(1/2), and to *rest what is left.
 */
static inline simd_vec simd_split_power(simd_vec v, simd_vec *rest)
{
    int32x4_t bits = vreinterpretq_s32_f32(v);
    int32x4_t power = vshrq_n_s32(vsubq_s32(bits, vdupq_n_s32(CELL_SQRT_HALF_BITS)), 23);
    *rest = vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(power, 23)));
    return vcvtq_f32_s32(power);
}

/* chosen where a > b, else otherwise. */
static inline simd_vec simd_if_greater(simd_vec a, simd_vec b, simd_vec chosen, simd_vec otherwise)
{
    return vbslq_f32(vcgtq_f32(a, b), chosen, otherwise);
}

/* chosen where a >= b, else otherwise. */
static inline simd_vec simd_if_at_least(simd_vec a, simd_vec b, simd_vec chosen, simd_vec otherwise)
{
    return vbslq_f32(vcgeq_f32(a, b), chosen, otherwise);
}

/* chosen where v is a NaN, else otherwise. */
static inline simd_vec simd_if_nan(simd_vec v, simd_vec chosen, simd_vec otherwise)
{
    return vbslq_f32(vceqq_f32(v, v), otherwise, chosen);
}

static inline simd_vec simd_sqrt(simd_vec v)
{
    return vsqrtq_f32(v);
}

static inline simd_vec simd_floor(simd_vec v)
{
    return vrndmq_f32(v);
}

/* To the nearest whole number, of two the even one. */
static inline simd_vec simd_rint(simd_vec v)
{
    return vrndnq_f32(v);
}

/* Any NaN becomes the one whose bits are given. */
static inline simd_vec simd_one_nan(simd_vec v, uint32_t bits)
{
    return simd_if_nan(v, vreinterpretq_f32_u32(vdupq_n_u32(bits)), v);
}

/* ---- Weights in fewer bits ---- */

/* Each of the lanes' bf16 as a float. */
static inline simd_vec simd_load_bf16(const uint16_t *from)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
}

static inline uint32x4_t simd_load_bits__neon(const uint16_t *from)
{
    return vreinterpretq_u32_u16(vld1q_u16(from));
}

/* Words of two bf16: the lower, the upper ones. */
static inline simd_vec simd_load_low_bf16(const uint16_t *from)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(simd_load_bits__neon(from), 16));
}

static inline simd_vec simd_load_high_bf16(const uint16_t *from)
{
    uint32x4_t upper = vdupq_n_u32(0xFFFF0000u);
    return vreinterpretq_f32_u32(vandq_u32(simd_load_bits__neon(from), upper));
}

/* Each lane as a float of what cell_bf16_factor() makes of it. */
static inline simd_vec simd_bf16_factor(simd_vec v)
{
    uint32x4_t bits = vreinterpretq_u32_f32(v);
    uint32x4_t size = vandq_u32(bits, vdupq_n_u32(0x7FFFFFFFu));
    uint32x4_t counts = vcgeq_u32(size, vdupq_n_u32(CELL_BF16_FACTOR_LEAST));
    uint32x4_t is_nan = vcgtq_u32(size, vdupq_n_u32(0x7F800000u));
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t sum = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFFu)));
    sum = vbslq_u32(is_nan, vorrq_u32(bits, vdupq_n_u32(0x00400000u)), sum);
    sum = vandq_u32(sum, vdupq_n_u32(0xFFFF0000u));
    return vreinterpretq_f32_u32(vandq_u32(sum, counts));
}

typedef int32x4_t simd_ints;

static inline simd_ints simd_ints_load(const uint32_t *from)
{
    return vreinterpretq_s32_u32(vld1q_u32(from));
}

static inline simd_ints simd_ints_set1(int32_t x)
{
    return vdupq_n_s32(x);
}

static inline simd_ints simd_ints_keep(simd_ints v)
{
    __asm__("" : "+w"(v));
    return v;
}

/* As floats, and back: rounded to the nearest, ties to even. What is no int32 would come back
 * otherwise than on x86-64; only whole numbers in -127..127 are asked for. */
static inline simd_vec simd_of_ints(simd_ints v)
{
    return vcvtq_f32_s32(v);
}

static inline simd_ints simd_round(simd_vec v)
{
    return vcvtnq_s32_f32(v);
}

/* The larger of a and the bits of v without signs. */
static inline simd_ints simd_largest_bits(simd_ints a, simd_vec v)
{
    uint32x4_t bits = vreinterpretq_u32_f32(vabsq_f32(v));
    return vreinterpretq_s32_u32(vmaxq_u32(vreinterpretq_u32_s32(a), bits));
}

static inline uint32_t simd_largest_lane(simd_ints v)
{
    return vmaxvq_u32(vreinterpretq_u32_s32(v));
}

/* int8 products. simd_dot() adds to each lane the products of a word of x with a word of the lane's
 * weights; simd_store_words() makes words of x of the lanes' whole numbers in -127..127. */
#define CELL_WORD_TERMS 4u
#define CELL_X_OFFSET   0

static inline simd_ints simd_load_words(const int8_t *from)
{
    return vreinterpretq_s32_s8(vld1q_s8(from));
}

#ifdef __ARM_FEATURE_DOTPROD
static inline simd_ints simd_dot(simd_ints sum, simd_ints x, simd_ints w)
{
    return vdotq_s32(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w));
}
#else
/* Two products fit an int16: 2 x 127 x 127 < 2^15. */
static inline simd_ints simd_dot(simd_ints sum, simd_ints x, simd_ints w)
{
    int8x16_t of_x = vreinterpretq_s8_s32(x);
    int8x16_t of_w = vreinterpretq_s8_s32(w);
    int16x8_t lower = vmull_s8(vget_low_s8(of_x), vget_low_s8(of_w));
    int16x8_t upper = vmull_high_s8(of_x, of_w);
    return vpadalq_s16(sum, vpaddq_s16(lower, upper));
}
#endif

static inline void simd_store_words(void *to, simd_ints v)
{
    int16x4_t halves = vmovn_s32(v);
    int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
    vst1_lane_s32(to, vreinterpret_s32_s8(bytes), 0);
}

#endif
