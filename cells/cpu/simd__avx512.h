/* AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers. See simd.h. */
#ifndef CELLS_CPU_SIMD_AVX512_H
#define CELLS_CPU_SIMD_AVX512_H

#include "cells/bf16.h"
#include "cells/math_constants.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define CELL_SIMD_LANES ((size_t)16)

/* Rows of a tile. 4 vectors: 6 x 4 accumulators, a broadcast for each row and one vector of weights
 * make 31 registers. 3 vectors: 8 x 3, one broadcast and three. 2 vectors: 12 x 2, one broadcast
 * and four for two terms. 5 vectors: 5 x 5, one of weights and five; with more rows 2 and then 3.
 * int8: 6 x 4 sums, 6 words of x and one vector of weights. */
#define CELL_TILE_ROWS_OF_5     5u
#define CELL_TILE_ROWS_OF_4     6u
#define CELL_TILE_ROWS_OF_3     8u
#define CELL_TILE_ROWS_OF_2     12u
#define CELL_TILE_TERMS_OF_2    2u
#define CELL_TILE_ROWS_OF_WORDS 6u
#define CELL_TILE_ROWS_OF_PAIRS CELL_TILE_ROWS_OF_4

/* Terms that a tile's loop takes between two branches: with more it is as fast (docs/kernels.md).
 */
#define CELL_TILE_TERMS 1u

/* Activations computed together, 3 registers each. */
#define CELL_TOGETHER ((size_t)4)

#define CELL_FMA_BY_LANE 0

/* Weights that an L2 of 1 MiB does not hold beside the rows. */
#define CELL_STREAMED_ROWS(l3_is_near) ((l3_is_near) ? 3u : 13u)
#define CELL_STREAMED_BYTES            ((size_t)768 << 10)
#define CELL_STREAMED_WORDS            CELL_STREAMED_BYTES

/* The same of a gated cell's step where L3 is near: weights of less come fast enough by themselves.
 * Zen 5, one thread, times as fast without asking, LSTM and GRU: 256 units (2 MiB) 3 rows 1.05 and
 * 1.06, 10 rows 1.03 and 1.06; 512 (8 and 6) 3 rows 1.07 and 1.07, 10 rows 1.03 and 1.07, 20 rows
 * 1.01; 768 (18 and 13) 1.00 and 1.00; 1024 5 rows 0.98 and 0.98; a binary tree's node of 512 (10)
 * 4 rows 1.04, 12 rows 1.11. A LINEAR of 4 MiB 1.00 to 1.02, of 8 0.95. */
#define CELL_STREAMED_STEP(l3_is_near) ((l3_is_near) ? (size_t)12 << 20 : CELL_STREAMED_BYTES)

/* Whether panels of 4 and 5 vectors lie in strips (kernels.h): they gain nothing
 * (docs/kernels.md). */
#define CELL_STRIPS 0

/* Whether what is asked for later is shared out to all passes: it gains nothing (docs/kernels.md).
 */
#define CELL_PASSES_SHARE_ASKS 0

/* Whether weights that a tile will need in a moment are asked for. */
#define CELL_ASKS_NEAR 1

typedef __m512 simd_vec;

static inline simd_vec simd_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

/* The same in a register: else a compiler may read it again for every use, which costs as many
 * accesses to a line that is still on its way. */
static inline simd_vec simd_keep(simd_vec v)
{
    __asm__("" : "+v"(v));
    return v;
}

static inline void simd_store(float *to, simd_vec v)
{
    _mm512_storeu_ps(to, v);
}

static inline __mmask16 simd_mask__avx512(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}

/* The first n lanes, n < CELL_SIMD_LANES; the others are zero, and are not touched in memory. */
static inline simd_vec simd_load_part(const float *from, size_t n)
{
    return _mm512_maskz_loadu_ps(simd_mask__avx512(n), from);
}

static inline void simd_store_part(float *to, size_t n, simd_vec v)
{
    _mm512_mask_storeu_ps(to, simd_mask__avx512(n), v);
}

static inline simd_vec simd_first(simd_vec v, size_t n)
{
    return _mm512_maskz_mov_ps(simd_mask__avx512(n), v);
}

/* Partial sums, CELL_SOFTMAX_LANES of them, to one: l and l + 8, then l + 4, l + 2, l + 1. */
static inline float simd_fold(const simd_vec sums[1])
{
    __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(sums[0]), _mm512_extractf32x8_ps(sums[0], 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The same of two by four of them: the sums of each step stand side by side. */
#define CELL_SIMD_FOLDS_PAIRS

static inline __m256 simd_eight__avx512(simd_vec sums)
{
    return _mm256_add_ps(_mm512_castps512_ps256(sums), _mm512_extractf32x8_ps(sums, 1));
}

/* Of two, of four and of eight sums; a's stand first, or where even numbers are. */
static inline __m256 simd_fours__avx512(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static inline __m256 simd_twos__avx512(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
}

static inline __m256 simd_ones__avx512(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
}

static inline void simd_fold_pair(const simd_vec first[4], const simd_vec second[4],
                                  float *out_first, float *out_second)
{
    const __m256 a =
        simd_fours__avx512(simd_eight__avx512(first[0]), simd_eight__avx512(second[0]));
    const __m256 b =
        simd_fours__avx512(simd_eight__avx512(first[1]), simd_eight__avx512(second[1]));
    const __m256 c =
        simd_fours__avx512(simd_eight__avx512(first[2]), simd_eight__avx512(second[2]));
    const __m256 d =
        simd_fours__avx512(simd_eight__avx512(first[3]), simd_eight__avx512(second[3]));
    const __m256 all = simd_ones__avx512(simd_twos__avx512(a, b), simd_twos__avx512(c, d));
    _mm_storeu_ps(out_first, _mm256_castps256_ps128(all));
    _mm_storeu_ps(out_second, _mm256_extractf128_ps(all, 1));
}

static inline simd_vec simd_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline simd_vec simd_add(simd_vec a, simd_vec b)
{
    return _mm512_add_ps(a, b);
}

static inline simd_vec simd_sub(simd_vec a, simd_vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline simd_vec simd_mul(simd_vec a, simd_vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline simd_vec simd_div(simd_vec a, simd_vec b)
{
    return _mm512_div_ps(a, b);
}

static inline simd_vec simd_min(simd_vec a, simd_vec b)
{
    return _mm512_min_ps(a, b);
}

static inline simd_vec simd_max(simd_vec a, simd_vec b)
{
    return _mm512_max_ps(a, b);
}

/* a * b + c, -(a * b) + c, -(a * b) - c, rounded once. */
static inline simd_vec simd_fma(simd_vec a, simd_vec b, simd_vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline simd_vec simd_fma_in_place(simd_vec a, simd_vec b, simd_vec c)
{
    return simd_fma(a, b, c);
}

static inline simd_vec simd_fnma(simd_vec a, simd_vec b, simd_vec c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

static inline simd_vec simd_fnms(simd_vec a, simd_vec b, simd_vec c)
{
    return _mm512_fnmsub_ps(a, b, c);
}

static inline simd_vec simd_abs(simd_vec v)
{
    return _mm512_abs_ps(v);
}

/* size with the sign bit of `sign` set where it is set there. */
static inline simd_vec simd_or_sign(simd_vec size, simd_vec sign)
{
    return _mm512_or_ps(size, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}

/* The bits of v shifted left by 23, plus `bits`: a power of two from a rounded float. */
static inline simd_vec simd_exponent(simd_vec v, uint32_t bits)
{
    __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(v), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(shifted, _mm512_set1_epi32((int32_t)bits)));
}

/* The power of two by which a positive normal v is at least sqrt(1/2), and to *rest what is left.
 */
static inline simd_vec simd_split_power(simd_vec v, simd_vec *rest)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i over = _mm512_sub_epi32(bits, _mm512_set1_epi32(CELL_SQRT_HALF_BITS));
    __m512i power = _mm512_srai_epi32(over, 23);
    *rest = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(power, 23)));
    return _mm512_cvtepi32_ps(power);
}

/* chosen where a > b, else otherwise. */
static inline simd_vec simd_if_greater(simd_vec a, simd_vec b, simd_vec chosen, simd_vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), chosen);
}

/* chosen where a >= b, else otherwise. */
static inline simd_vec simd_if_at_least(simd_vec a, simd_vec b, simd_vec chosen, simd_vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), chosen);
}

/* chosen where v is a NaN, else otherwise. */
static inline simd_vec simd_if_nan(simd_vec v, simd_vec chosen, simd_vec otherwise)
{
    return _mm512_mask_mov_ps(otherwise, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), chosen);
}

static inline simd_vec simd_sqrt(simd_vec v)
{
    return _mm512_sqrt_ps(v);
}

static inline simd_vec simd_floor(simd_vec v)
{
    return _mm512_floor_ps(v);
}

/* To the nearest whole number, of two the even one. */
static inline simd_vec simd_rint(simd_vec v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Any NaN becomes the one whose bits are given. */
static inline simd_vec simd_one_nan(simd_vec v, uint32_t bits)
{
    __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)bits));
    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
}

/* ---- Weights in fewer bits ---- */

/* Each of the lanes' bf16 as a float. */
static inline simd_vec simd_load_bf16(const uint16_t *from)
{
    __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}

/* Words of two bf16: the lower, the upper ones. */
static inline simd_vec simd_load_low_bf16(const uint16_t *from)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(from), 16));
}

static inline simd_vec simd_load_high_bf16(const uint16_t *from)
{
    __m512i upper = _mm512_set1_epi32((int32_t)0xFFFF0000u);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(from), upper));
}

/* Each lane as a float of what cell_bf16_factor() makes of it. */
static inline simd_vec simd_bf16_factor(simd_vec v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i size = _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF));
    __mmask16 counts = _mm512_cmpge_epu32_mask(size, _mm512_set1_epi32(CELL_BF16_FACTOR_LEAST));
    __mmask16 is_nan = _mm512_cmpgt_epu32_mask(size, _mm512_set1_epi32(0x7F800000));
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    sum = _mm512_mask_or_epi32(sum, is_nan, bits, _mm512_set1_epi32(0x00400000));
    __m512i upper = _mm512_set1_epi32((int32_t)0xFFFF0000u);
    return _mm512_castsi512_ps(_mm512_maskz_and_epi32(counts, sum, upper));
}

#ifdef __AVX512BF16__
/* bf16 products of words of two. simd_fma_words() adds that of the upper halves and then that of
 * the lower ones, each rounded once; simd_store_bf16_words() makes words of the lanes of two
 * vectors, of neighbours the first in the upper half. */
#    define CELL_BF16_WORDS 1

static inline simd_vec simd_fma_words(simd_vec w, simd_vec x, simd_vec sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x);
}

static inline simd_vec simd_bf16_counted__avx512(simd_vec v)
{
    __m512 least = _mm512_castsi512_ps(_mm512_set1_epi32(CELL_BF16_FACTOR_LEAST));
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(v), least, _CMP_NLT_UQ), v);
}

static inline void simd_store_bf16_words(float *to, simd_vec first, simd_vec second)
{
    __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(simd_bf16_counted__avx512(second),
                                                  simd_bf16_counted__avx512(first));
    _mm512_storeu_si512(to, _mm512_rol_epi32(halves, 16));
}
#endif

/* Of 32 bits each: as __m512i, which holds numbers of 64, gcc 12 copies every sum of a loop once a
 * term. */
typedef int32_t simd_ints __attribute__((vector_size(64)));

static inline simd_ints simd_ints_load(const uint32_t *from)
{
    return (simd_ints)_mm512_loadu_si512(from);
}

static inline simd_ints simd_ints_set1(int32_t x)
{
    return (simd_ints)_mm512_set1_epi32(x);
}

static inline simd_ints simd_ints_keep(simd_ints v)
{
    __asm__("" : "+v"(v));
    return v;
}

/* As floats, and back: rounded to the nearest, ties to even. */
static inline simd_vec simd_of_ints(simd_ints v)
{
    return _mm512_cvtepi32_ps((__m512i)v);
}

static inline simd_ints simd_round(simd_vec v)
{
    return (simd_ints)_mm512_cvtps_epi32(v);
}

/* The larger of a and the bits of v without signs. */
static inline simd_ints simd_largest_bits(simd_ints a, simd_vec v)
{
    return (simd_ints)_mm512_max_epu32((__m512i)a, _mm512_castps_si512(simd_abs(v)));
}

static inline uint32_t simd_largest_lane(simd_ints v)
{
    return _mm512_reduce_max_epu32((__m512i)v);
}

/* int8 products. simd_dot() adds to each lane the products of a word of x with a word of the lane's
 * weights; simd_store_words() makes words of x of the lanes' whole numbers in -127..127. */
#ifdef __AVX512VNNI__
#    define CELL_WORD_TERMS ((size_t)4)
#    define CELL_X_OFFSET   128 /* the instruction multiplies unsigned by signed */

static inline simd_ints simd_load_words(const int8_t *from)
{
    return (simd_ints)_mm512_loadu_si512(from);
}

static inline simd_ints simd_dot(simd_ints sum, simd_ints x, simd_ints w)
{
    return (simd_ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
}

static inline void simd_store_words(void *to, simd_ints v)
{
    _mm_storeu_si128(to,
                     _mm512_cvtepi32_epi8(_mm512_add_epi32((__m512i)v, _mm512_set1_epi32(128))));
}
#else
#    define CELL_WORD_TERMS ((size_t)2)
#    define CELL_X_OFFSET   0

static inline simd_ints simd_load_words(const int8_t *from)
{
    return (simd_ints)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

static inline simd_ints simd_dot(simd_ints sum, simd_ints x, simd_ints w)
{
    return (simd_ints)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16((__m512i)x, (__m512i)w));
}

static inline void simd_store_words(void *to, simd_ints v)
{
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16((__m512i)v));
}
#endif

#endif
