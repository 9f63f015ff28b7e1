/* AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers. See simd.h. */
#ifndef CELLS_CPU_SIMD_AVX512_H
#define CELLS_CPU_SIMD_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define CELL_SIMD_LANES ((size_t)16)

/* Rows of a tile. 4 vectors: 6 x 4 accumulators, a broadcast for each row and one vector of weights
 * make 31 registers. 3 vectors: 8 x 3, one broadcast and three. 2 vectors: 12 x 2, one broadcast
 * and four for two terms. */
#define CELL_TILE_ROWS_OF_4  6u
#define CELL_TILE_ROWS_OF_3  8u
#define CELL_TILE_ROWS_OF_2  12u
#define CELL_TILE_TERMS_OF_2 2u

/* Weights that an L2 of 1 MiB does not hold beside the rows. */
#define CELL_STREAMED_ROWS  13u
#define CELL_STREAMED_BYTES ((size_t)768 << 10)

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
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* Any NaN becomes the one whose bits are given. */
static inline simd_vec simd_one_nan(simd_vec v, uint32_t bits)
{
    __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)bits));
    return _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
}

#endif
