/* AVX2 with FMA: 8 lanes, 16 registers. See simd.h. */
#ifndef CELLS_CPU_SIMD_AVX2_H
#define CELLS_CPU_SIMD_AVX2_H

#include "cells/bf16.h"
#include "cells/math_constants.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define CELL_SIMD_LANES ((size_t)8)

/* Rows of a tile. 4 vectors: 3 x 4 accumulators, a broadcast for each row and one vector of weights
 * make 16 registers; with more rows a tile takes half of them: 6 x 2, one and two. 3 vectors: 4 x
 * 3, one and three. 5 vectors: 2 x 5, one of weights and two; with more rows 2 and then 3. int8: 2
 * x 4 sums, 2 words of x and one vector of weights. 4 vectors in bf16, a pair of them a load: 3 x 4
 * sums leave no room for both of a pair and the mask that parts them. */
#define CELL_TILE_ROWS_OF_5     2u
#define CELL_TILE_ROWS_OF_4     3u
#define CELL_TILE_ROWS_OF_3     4u
#define CELL_TILE_ROWS_OF_2     6u
#define CELL_TILE_TERMS_OF_2    1u
#define CELL_TILE_ROWS_OF_WORDS 2u
#define CELL_TILE_ROWS_OF_PAIRS 2u

/* Terms that a tile's loop takes between two branches. Of 6 rows and 2 vectors a term needs 20
 * instructions; with one, counters and addresses are 4 more, with four one and a half. A core that
 * has itself to itself hides them behind 12 multiply-adds; one whose other hardware thread belongs
 * to somebody takes some 3 instructions a cycle. */
#define CELL_TILE_TERMS 4u

/* Activations computed together, 3 registers each. */
#define CELL_TOGETHER ((size_t)4)

#define CELL_FMA_BY_LANE 0

/* Weights that are asked for before they are needed. In strips they come fast enough by themselves
 * as long as there are few of them; int8's, without, from where an L2 of 512 KiB does not hold them
 * beside the rows. */
#define CELL_STREAMED_ROWS(l3_is_near) 2u
#define CELL_STREAMED_BYTES            ((size_t)4 << 20)
#define CELL_STREAMED_WORDS            ((size_t)512 << 10)
#define CELL_STREAMED_STEP(l3_is_near) CELL_STREAMED_BYTES

/* Whether panels of 4 and 5 vectors lie in strips (kernels.h): a tile of 4 rows and more
 * has registers for half of one, and reads it as one stream. (Zen 3, 1 MiB of weights, 5 and 10
 * rows, bare tiles: 87 and 91 GFLOP/s of 99 without, 97 with.) */
#define CELL_STRIPS 1

/* Whether what is asked for later is shared out to all passes: 512 KiB of L2 wait for L3 with few
 * lines on their way, and a pass that asks for one with each term waits for them. */
#define CELL_PASSES_SHARE_ASKS 1

/* Whether weights that a tile will need in a moment are asked for: Zen 3 finds them by itself, and
 * an instruction more a term costs up to 6 %. */
#define CELL_ASKS_NEAR 0

typedef __m256 simd_vec;

static inline simd_vec simd_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

/* The same in a register: else a compiler may read it again for every use, which costs as many
 * accesses to a line that is still on its way. */
static inline simd_vec simd_keep(simd_vec v)
{
    __asm__("" : "+x"(v));
    return v;
}

static inline void simd_store(float *to, simd_vec v)
{
    _mm256_storeu_ps(to, v);
}

static inline __m256i simd_mask__avx2(size_t n)
{
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n), lanes);
}

/* The first n lanes, n < CELL_SIMD_LANES; the others are zero, and are not touched in memory. */
static inline simd_vec simd_load_part(const float *from, size_t n)
{
    return _mm256_maskload_ps(from, simd_mask__avx2(n));
}

static inline void simd_store_part(float *to, size_t n, simd_vec v)
{
    _mm256_maskstore_ps(to, simd_mask__avx2(n), v);
}

static inline simd_vec simd_first(simd_vec v, size_t n)
{
    return _mm256_and_ps(v, _mm256_castsi256_ps(simd_mask__avx2(n)));
}

/* Partial sums, CELL_SOFTMAX_LANES of them, to one: l and l + 8, then l + 4, l + 2, l + 1. */
static inline float simd_fold(const simd_vec sums[2])
{
    __m256 eight = _mm256_add_ps(sums[0], sums[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline simd_vec simd_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline simd_vec simd_add(simd_vec a, simd_vec b)
{
    return _mm256_add_ps(a, b);
}

static inline simd_vec simd_sub(simd_vec a, simd_vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline simd_vec simd_mul(simd_vec a, simd_vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline simd_vec simd_div(simd_vec a, simd_vec b)
{
    return _mm256_div_ps(a, b);
}

static inline simd_vec simd_min(simd_vec a, simd_vec b)
{
    return _mm256_min_ps(a, b);
}

static inline simd_vec simd_max(simd_vec a, simd_vec b)
{
    return _mm256_max_ps(a, b);
}

/* a * b + c, -(a * b) + c, -(a * b) - c, rounded once. */
static inline simd_vec simd_fma(simd_vec a, simd_vec b, simd_vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* a * b + c in c's own register: gcc moves the sums of a loop of many from one register to another,
 * and some to memory and back. */
static inline simd_vec simd_fma_in_place(simd_vec a, simd_vec b, simd_vec c)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}

static inline simd_vec simd_fnma(simd_vec a, simd_vec b, simd_vec c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

static inline simd_vec simd_fnms(simd_vec a, simd_vec b, simd_vec c)
{
    return _mm256_fnmsub_ps(a, b, c);
}

static inline simd_vec simd_abs(simd_vec v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

/* size with the sign bit of `sign` set where it is set there. */
static inline simd_vec simd_or_sign(simd_vec size, simd_vec sign)
{
    return _mm256_or_ps(size, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}

/* The bits of v shifted left by 23, plus `bits`: a power of two from a rounded float. */
static inline simd_vec simd_exponent(simd_vec v, uint32_t bits)
{
    __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(v), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(shifted, _mm256_set1_epi32((int32_t)bits)));
}

/* The power of two by which a positive normal v is at least sqrt(1/2), and to *rest what is left.
 */
static inline simd_vec simd_split_power(simd_vec v, simd_vec *rest)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i over = _mm256_sub_epi32(bits, _mm256_set1_epi32(CELL_SQRT_HALF_BITS));
    __m256i power = _mm256_srai_epi32(over, 23);
    *rest = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(power, 23)));
    return _mm256_cvtepi32_ps(power);
}

/* chosen where a > b, else otherwise. */
static inline simd_vec simd_if_greater(simd_vec a, simd_vec b, simd_vec chosen, simd_vec otherwise)
{
    return _mm256_blendv_ps(otherwise, chosen, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

/* chosen where a >= b, else otherwise. */
static inline simd_vec simd_if_at_least(simd_vec a, simd_vec b, simd_vec chosen, simd_vec otherwise)
{
    return _mm256_blendv_ps(otherwise, chosen, _mm256_cmp_ps(a, b, _CMP_GE_OQ));
}

/* chosen where v is a NaN, else otherwise. */
static inline simd_vec simd_if_nan(simd_vec v, simd_vec chosen, simd_vec otherwise)
{
    return _mm256_blendv_ps(otherwise, chosen, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

static inline simd_vec simd_sqrt(simd_vec v)
{
    return _mm256_sqrt_ps(v);
}

static inline simd_vec simd_floor(simd_vec v)
{
    return _mm256_floor_ps(v);
}

/* To the nearest whole number, of two the even one. */
static inline simd_vec simd_rint(simd_vec v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Any NaN becomes the one whose bits are given. */
static inline simd_vec simd_one_nan(simd_vec v, uint32_t bits)
{
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int32_t)bits));
    return _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

/* ---- Weights in fewer bits ---- */

/* Each of the lanes' bf16 as a float. */
static inline simd_vec simd_load_bf16(const uint16_t *from)
{
    __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}

static inline __m256i simd_load_bits__avx2(const void *from)
{
    return _mm256_loadu_si256(from);
}

/* Words of two bf16: the lower, the upper ones. */
static inline simd_vec simd_load_low_bf16(const uint16_t *from)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(simd_load_bits__avx2(from), 16));
}

static inline simd_vec simd_load_high_bf16(const uint16_t *from)
{
    __m256i upper = _mm256_set1_epi32((int32_t)0xFFFF0000u);
    return _mm256_castsi256_ps(_mm256_and_si256(simd_load_bits__avx2(from), upper));
}

/* Each lane as a float of what cell_bf16_factor() makes of it. */
static inline simd_vec simd_bf16_factor(simd_vec v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)); // never negative
    __m256i least = _mm256_set1_epi32(CELL_BF16_FACTOR_LEAST - 1);
    __m256i is_nan = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7F800000));
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    sum = _mm256_blendv_epi8(sum, quiet, is_nan);
    sum = _mm256_and_si256(sum, _mm256_set1_epi32((int32_t)0xFFFF0000u));
    return _mm256_castsi256_ps(_mm256_and_si256(sum, _mm256_cmpgt_epi32(size, least)));
}

typedef __m256i simd_ints;

static inline simd_ints simd_ints_load(const uint32_t *from)
{
    return simd_load_bits__avx2(from);
}

static inline simd_ints simd_ints_set1(int32_t x)
{
    return _mm256_set1_epi32(x);
}

static inline simd_ints simd_ints_keep(simd_ints v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* As floats, and back: rounded to the nearest, ties to even. */
static inline simd_vec simd_of_ints(simd_ints v)
{
    return _mm256_cvtepi32_ps(v);
}

static inline simd_ints simd_round(simd_vec v)
{
    return _mm256_cvtps_epi32(v);
}

/* The larger of a and the bits of v without signs. */
static inline simd_ints simd_largest_bits(simd_ints a, simd_vec v)
{
    return _mm256_max_epu32(a, _mm256_castps_si256(simd_abs(v)));
}

static inline uint32_t simd_largest_lane(simd_ints v)
{
    __m128i most = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4E));
    most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(most);
}

/* int8 products. simd_dot() adds to each lane the products of a word of x with a word of the lane's
 * weights; simd_store_words() makes words of x of the lanes' whole numbers in -127..127. */
#define CELL_WORD_TERMS ((size_t)2)
#define CELL_X_OFFSET   0

static inline simd_ints simd_load_words(const int8_t *from)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static inline simd_ints simd_dot(simd_ints sum, simd_ints x, simd_ints w)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}

static inline void simd_store_words(void *to, simd_ints v)
{
    _mm_storeu_si128(to,
                     _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

#endif
