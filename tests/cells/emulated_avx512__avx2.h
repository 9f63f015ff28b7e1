/* AVX-512's instructions, as far as the kernels use them, for machines that lack them: a vector is
 * two of AVX2's, a mask an integer. `make test-avx512` compiles the AVX-512 kernels with this
 * header before them (-include), in place of the flags that would bring the instructions, and runs
 * their suites: the same source, tiles, panels and bits, slowly. After Intel's "Intrinsics Guide";
 * bf16 after "BFLOAT16 - Hardware Numerics Definition", AMX after "Architecture Instruction Set
 * Extensions and Future Features". */
#ifndef TESTS_CELLS_EMULATED_AVX512_AVX2_H
#define TESTS_CELLS_EMULATED_AVX512_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Vectors of 64 bytes are handed on in memory: between functions of one file. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define EMULATED_LANES 16u

/* Halves: what is a pair stays in two registers, what is one vector of 64 bytes would not. */
typedef struct emulated_floats {
    __m256 low, high;
} emulated_floats;

/* A vector all the same: simd_ints is one, and is cast to it and back. */
typedef long long emulated_ints __attribute__((vector_size(64), aligned(64), may_alias));

/* ---- Halves and lanes ------------------------------------------------------------------------ */

static inline __m256i emulated_low(emulated_ints v)
{
    __m256i half;
    memcpy(&half, &v, sizeof(half));
    return half;
}

static inline __m256i emulated_high(emulated_ints v)
{
    __m256i half;
    memcpy(&half, (const char *)&v + sizeof(half), sizeof(half));
    return half;
}

static inline emulated_ints emulated_pair(__m256i low, __m256i high)
{
    emulated_ints v;
    memcpy(&v, &low, sizeof(low));
    memcpy((char *)&v + sizeof(low), &high, sizeof(high));
    return v;
}

/* 8 lanes, all bits or none, by bits 0 to 7. */
static inline __m256i emulated_lanes(uint32_t mask)
{
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int32_t)mask), bits), bits);
}

static inline __mmask16 emulated_mask(__m256 low, __m256 high)
{
    return (__mmask16)((uint32_t)_mm256_movemask_ps(low) | (uint32_t)_mm256_movemask_ps(high) << 8);
}

/* A function of one, two, three vectors of floats, half by half. */
#define EMULATED_1(name, half)                                                                     \
    static inline emulated_floats name(emulated_floats a)                                          \
    {                                                                                              \
        return (emulated_floats){half(a.low), half(a.high)};                                       \
    }
#define EMULATED_2(name, half)                                                                     \
    static inline emulated_floats name(emulated_floats a, emulated_floats b)                       \
    {                                                                                              \
        return (emulated_floats){half(a.low, b.low), half(a.high, b.high)};                        \
    }
#define EMULATED_3(name, half)                                                                     \
    static inline emulated_floats name(emulated_floats a, emulated_floats b, emulated_floats c)    \
    {                                                                                              \
        return (emulated_floats){half(a.low, b.low, c.low), half(a.high, b.high, c.high)};         \
    }
/* Of one, two vectors of whole numbers. */
#define EMULATED_INTS_1(name, half)                                                                \
    static inline emulated_ints name(emulated_ints a)                                              \
    {                                                                                              \
        return emulated_pair(half(emulated_low(a)), half(emulated_high(a)));                       \
    }
#define EMULATED_INTS_2(name, half)                                                                \
    static inline emulated_ints name(emulated_ints a, emulated_ints b)                             \
    {                                                                                              \
        return emulated_pair(half(emulated_low(a), emulated_low(b)),                               \
                             half(emulated_high(a), emulated_high(b)));                            \
    }

/* ---- Floats ---------------------------------------------------------------------------------- */

EMULATED_2(emulated_add_ps, _mm256_add_ps)
EMULATED_2(emulated_sub_ps, _mm256_sub_ps)
EMULATED_2(emulated_mul_ps, _mm256_mul_ps)
EMULATED_2(emulated_div_ps, _mm256_div_ps)
EMULATED_2(emulated_min_ps, _mm256_min_ps)
EMULATED_2(emulated_max_ps, _mm256_max_ps)
EMULATED_2(emulated_and_ps, _mm256_and_ps)
EMULATED_2(emulated_or_ps, _mm256_or_ps)
EMULATED_3(emulated_fmadd_ps, _mm256_fmadd_ps)
EMULATED_3(emulated_fnmadd_ps, _mm256_fnmadd_ps)
EMULATED_3(emulated_fnmsub_ps, _mm256_fnmsub_ps)
EMULATED_1(emulated_sqrt_ps, _mm256_sqrt_ps)
EMULATED_1(emulated_floor_ps, _mm256_floor_ps)

static inline __m256 emulated_nearest_half(__m256 v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* roundscale, of the one way of rounding that is used. */
EMULATED_1(emulated_nearest_ps, emulated_nearest_half)

static inline __m256 emulated_abs_half(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

EMULATED_1(emulated_abs_ps, emulated_abs_half)

static inline emulated_floats emulated_set1_ps(float x)
{
    return (emulated_floats){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline emulated_floats emulated_loadu_ps(const float *from)
{
    return (emulated_floats){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

static inline void emulated_storeu_ps(float *to, emulated_floats v)
{
    _mm256_storeu_ps(to, v.low);
    _mm256_storeu_ps(to + 8, v.high);
}

/* Lanes that are left out are not touched in memory. */
static inline emulated_floats emulated_maskz_loadu_ps(__mmask16 mask, const float *from)
{
    return (emulated_floats){_mm256_maskload_ps(from, emulated_lanes(mask)),
                             _mm256_maskload_ps(from + 8, emulated_lanes((uint32_t)mask >> 8))};
}

static inline void emulated_mask_storeu_ps(float *to, __mmask16 mask, emulated_floats v)
{
    _mm256_maskstore_ps(to, emulated_lanes(mask), v.low);
    _mm256_maskstore_ps(to + 8, emulated_lanes((uint32_t)mask >> 8), v.high);
}

static inline emulated_floats emulated_mask_mov_ps(emulated_floats otherwise, __mmask16 mask,
                                                   emulated_floats chosen)
{
    __m256 low = _mm256_castsi256_ps(emulated_lanes(mask));
    __m256 high = _mm256_castsi256_ps(emulated_lanes((uint32_t)mask >> 8));
    return (emulated_floats){_mm256_blendv_ps(otherwise.low, chosen.low, low),
                             _mm256_blendv_ps(otherwise.high, chosen.high, high)};
}

static inline emulated_floats emulated_maskz_mov_ps(__mmask16 mask, emulated_floats v)
{
    return emulated_mask_mov_ps(emulated_set1_ps(0.0f), mask, v);
}

#define emulated_cmp_ps_mask(a, b, predicate)                                                      \
    emulated_mask(_mm256_cmp_ps((a).low, (b).low, predicate),                                      \
                  _mm256_cmp_ps((a).high, (b).high, predicate))

static inline __m256 emulated_castps512_ps256(emulated_floats v)
{
    return v.low;
}

/* Half 0 or 1. */
static inline __m256 emulated_extractf32x8_ps(emulated_floats v, int half)
{
    return half == 0 ? v.low : v.high;
}

static inline emulated_ints emulated_castps_si512(emulated_floats v)
{
    return emulated_pair(_mm256_castps_si256(v.low), _mm256_castps_si256(v.high));
}

static inline emulated_floats emulated_castsi512_ps(emulated_ints v)
{
    return (emulated_floats){_mm256_castsi256_ps(emulated_low(v)),
                             _mm256_castsi256_ps(emulated_high(v))};
}

static inline emulated_floats emulated_cvtepi32_ps(emulated_ints v)
{
    return (emulated_floats){_mm256_cvtepi32_ps(emulated_low(v)),
                             _mm256_cvtepi32_ps(emulated_high(v))};
}

static inline emulated_ints emulated_cvtps_epi32(emulated_floats v)
{
    return emulated_pair(_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high));
}

/* ---- Whole numbers --------------------------------------------------------------------------- */

EMULATED_INTS_2(emulated_add_epi32, _mm256_add_epi32)
EMULATED_INTS_2(emulated_and_si512, _mm256_and_si256)
EMULATED_INTS_2(emulated_or_si512, _mm256_or_si256)
EMULATED_INTS_2(emulated_max_epu32, _mm256_max_epu32)
EMULATED_INTS_2(emulated_madd_epi16, _mm256_madd_epi16)

static inline emulated_ints emulated_loadu_si512(const void *from)
{
    emulated_ints v;
    memcpy(&v, from, sizeof(v));
    return v;
}

static inline void emulated_storeu_si512(void *to, emulated_ints v)
{
    memcpy(to, &v, sizeof(v));
}

static inline emulated_ints emulated_set1_epi32(int32_t x)
{
    return emulated_pair(_mm256_set1_epi32(x), _mm256_set1_epi32(x));
}

static inline emulated_ints emulated_slli_epi32(emulated_ints v, int bits)
{
    return emulated_pair(_mm256_slli_epi32(emulated_low(v), bits),
                         _mm256_slli_epi32(emulated_high(v), bits));
}

static inline emulated_ints emulated_srai_epi32(emulated_ints v, int bits)
{
    return emulated_pair(_mm256_srai_epi32(emulated_low(v), bits),
                         _mm256_srai_epi32(emulated_high(v), bits));
}

static inline emulated_ints emulated_sub_epi32(emulated_ints a, emulated_ints b)
{
    return emulated_pair(_mm256_sub_epi32(emulated_low(a), emulated_low(b)),
                         _mm256_sub_epi32(emulated_high(a), emulated_high(b)));
}

static inline emulated_ints emulated_srli_epi32(emulated_ints v, int bits)
{
    return emulated_pair(_mm256_srli_epi32(emulated_low(v), bits),
                         _mm256_srli_epi32(emulated_high(v), bits));
}

static inline emulated_ints emulated_rol_epi32(emulated_ints v, int bits)
{
    return emulated_or_si512(emulated_slli_epi32(v, bits), emulated_srli_epi32(v, 32 - bits));
}

/* All bits of the lanes in which a >= b, of numbers without signs. */
static inline __m256 emulated_at_least(__m256i a, __m256i b)
{
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a));
}

static inline __mmask16 emulated_cmpge_epu32_mask(emulated_ints a, emulated_ints b)
{
    return emulated_mask(emulated_at_least(emulated_low(a), emulated_low(b)),
                         emulated_at_least(emulated_high(a), emulated_high(b)));
}

static inline __mmask16 emulated_cmpgt_epu32_mask(emulated_ints a, emulated_ints b)
{
    return (__mmask16)~emulated_cmpge_epu32_mask(b, a);
}

static inline emulated_ints emulated_chosen(__mmask16 mask, emulated_ints chosen,
                                            emulated_ints otherwise)
{
    return emulated_castps_si512(emulated_mask_mov_ps(emulated_castsi512_ps(otherwise), mask,
                                                      emulated_castsi512_ps(chosen)));
}

static inline emulated_ints emulated_mask_or_epi32(emulated_ints otherwise, __mmask16 mask,
                                                   emulated_ints a, emulated_ints b)
{
    return emulated_chosen(mask, emulated_or_si512(a, b), otherwise);
}

static inline emulated_ints emulated_maskz_and_epi32(__mmask16 mask, emulated_ints a,
                                                     emulated_ints b)
{
    return emulated_chosen(mask, emulated_and_si512(a, b), emulated_set1_epi32(0));
}

static inline uint32_t emulated_reduce_max_epu32(emulated_ints v)
{
    uint32_t lanes[EMULATED_LANES];
    uint32_t most = 0;
    emulated_storeu_si512(lanes, v);
    for (uint32_t i = 0; i < EMULATED_LANES; i++) {
        most = lanes[i] > most ? lanes[i] : most;
    }
    return most;
}

static inline emulated_ints emulated_cvtepu16_epi32(__m256i v)
{
    return emulated_pair(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)),
                         _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}

static inline emulated_ints emulated_cvtepi8_epi16(__m256i v)
{
    return emulated_pair(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)),
                         _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)));
}

/* The lower bits of each. */
static inline __m128i emulated_cvtepi32_epi8(emulated_ints v)
{
    uint32_t lanes[EMULATED_LANES];
    uint8_t bytes[EMULATED_LANES];
    emulated_storeu_si512(lanes, v);
    for (uint32_t i = 0; i < EMULATED_LANES; i++) {
        bytes[i] = (uint8_t)lanes[i];
    }
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

static inline __m256i emulated_cvtepi32_epi16(emulated_ints v)
{
    uint32_t lanes[EMULATED_LANES];
    uint16_t words[EMULATED_LANES];
    emulated_storeu_si512(lanes, v);
    for (uint32_t i = 0; i < EMULATED_LANES; i++) {
        words[i] = (uint16_t)lanes[i];
    }
    return _mm256_loadu_si256((const __m256i *)(const void *)words);
}

/* Four products of bytes, those of x without and those of w with signs; their sum does not wrap. */
static inline __m256i emulated_dpbusd_half(__m256i sum, __m256i x, __m256i w)
{
    // Even and odd bytes as words: maddubs would saturate.
    const __m256i bytes = _mm256_set1_epi16(0xFF);
    __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, bytes),
                                     _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(w, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}

static inline emulated_ints emulated_dpbusd_epi32(emulated_ints sum, emulated_ints x,
                                                  emulated_ints w)
{
    return emulated_pair(
        emulated_dpbusd_half(emulated_low(sum), emulated_low(x), emulated_low(w)),
        emulated_dpbusd_half(emulated_high(sum), emulated_high(x), emulated_high(w)));
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

/* Zero with its sign for what is smaller than the least normal float: factors, sums, results. */
static inline __m256 emulated_flushed(__m256 v)
{
    __m256 counts = _mm256_cmp_ps(emulated_abs_half(v), _mm256_set1_ps(0x1p-126f), _CMP_NLT_UQ);
    return _mm256_or_ps(_mm256_and_ps(v, counts), _mm256_and_ps(v, _mm256_set1_ps(-0.0f)));
}

static inline __m256 emulated_upper(__m256 v)
{
    return emulated_flushed(
        _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32((int32_t)0xFFFF0000u))));
}

static inline __m256 emulated_lower(__m256 v)
{
    return emulated_flushed(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 16)));
}

/* The product of the upper halves first, then that of the lower ones, each sum rounded once. */
static inline __m256 emulated_dpbf16_half(__m256 sum, __m256 a, __m256 b)
{
    sum = emulated_flushed(
        _mm256_fmadd_ps(emulated_upper(a), emulated_upper(b), emulated_flushed(sum)));
    return emulated_flushed(_mm256_fmadd_ps(emulated_lower(a), emulated_lower(b), sum));
}

EMULATED_3(emulated_dpbf16_ps, emulated_dpbf16_half)

/* To the nearest, ties to even; a NaN stays one. */
static inline uint16_t emulated_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if (x != x) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    if (fabsf(x) < 0x1p-126f) {
        return (uint16_t)(bits >> 16 & 0x8000u);
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

static inline emulated_ints emulated_cvtne2ps_pbh(emulated_floats upper, emulated_floats lower)
{
    float lanes[2 * EMULATED_LANES];
    uint16_t halves[2 * EMULATED_LANES];
    emulated_storeu_ps(lanes, lower);
    emulated_storeu_ps(lanes + EMULATED_LANES, upper);
    for (uint32_t i = 0; i < 2 * EMULATED_LANES; i++) {
        halves[i] = emulated_bf16(lanes[i]);
    }
    return emulated_loadu_si512(halves);
}

/* ---- Tiles: AMX ------------------------------------------------------------------------------ */

/* Rows beyond those that a tile has are zero, and are not touched in memory. */
typedef struct emulated_tile {
    uint32_t rows, row_bytes;
    uint8_t bytes[16][64];
} emulated_tile;

static _Thread_local emulated_tile emulated_tiles[8];

/* The operand of LDTILECFG: palette, row to start from, 14 bytes; 16 row lengths; 16 numbers of
 * rows.
 */
static inline void emulated_tile_loadconfig(const void *config)
{
    const uint8_t *bytes = config;
    memset(emulated_tiles, 0, sizeof(emulated_tiles));
    for (uint32_t i = 0; i < 8; i++) {
        emulated_tiles[i].row_bytes = (uint32_t)bytes[16 + 2 * i] + 256u * bytes[17 + 2 * i];
        emulated_tiles[i].rows = bytes[48 + i];
        if (bytes[0] != 1 || emulated_tiles[i].row_bytes > 64 || emulated_tiles[i].rows > 16) {
            abort(); // the processor raises #GP
        }
    }
}

static inline void emulated_tile_release(void)
{
    memset(emulated_tiles, 0, sizeof(emulated_tiles));
}

static inline void emulated_tile_zero(uint32_t number)
{
    memset(emulated_tiles[number].bytes, 0, sizeof(emulated_tiles[number].bytes));
}

static inline void emulated_tile_loadd(uint32_t number, const void *from, size_t stride)
{
    emulated_tile *tile = &emulated_tiles[number];
    emulated_tile_zero(number);
    for (uint32_t r = 0; r < tile->rows; r++) {
        memcpy(tile->bytes[r], (const uint8_t *)from + r * stride, tile->row_bytes);
    }
}

static inline void emulated_tile_stored(uint32_t number, void *to, size_t stride)
{
    const emulated_tile *tile = &emulated_tiles[number];
    for (uint32_t r = 0; r < tile->rows; r++) {
        memcpy((uint8_t *)to + r * stride, tile->bytes[r], tile->row_bytes);
    }
}

/* Unsigned by signed; the sums may pass the ends of int32. */
static inline void emulated_tile_dpbusd(uint32_t to, uint32_t left, uint32_t right)
{
    const emulated_tile *a = &emulated_tiles[left];
    const emulated_tile *b = &emulated_tiles[right];
    emulated_tile *c = &emulated_tiles[to];
    if (a->rows != c->rows || b->row_bytes != c->row_bytes || a->row_bytes != 4 * b->rows) {
        abort(); // the processor raises #UD
    }
    for (uint32_t r = 0; r < c->rows; r++) {
        emulated_ints sums = emulated_loadu_si512(c->bytes[r]);
        for (uint32_t word = 0; word < b->rows; word++) {
            int32_t x;
            memcpy(&x, a->bytes[r] + 4 * word, sizeof(x));
            sums = emulated_dpbusd_epi32(sums, emulated_set1_epi32(x),
                                         emulated_loadu_si512(b->bytes[word]));
        }
        emulated_storeu_si512(c->bytes[r], sums);
    }
}

/* ---- Under the names of the instructions ----------------------------------------------------- */

/* Macros in the header of one compiler or another. */
#undef _mm512_cmp_ps_mask
#undef _mm512_cmpge_epu32_mask
#undef _mm512_cmpgt_epu32_mask
#undef _mm512_extractf32x8_ps
#undef _mm512_rol_epi32
#undef _mm512_roundscale_ps
#undef _mm512_slli_epi32
#undef _mm512_srai_epi32
#undef _mm512_srli_epi32
#undef _tile_dpbusd
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#define __m512                       emulated_floats
#define __m512i                      emulated_ints
#define __m512bh                     emulated_floats
#define _mm512_abs_ps                emulated_abs_ps
#define _mm512_add_epi32             emulated_add_epi32
#define _mm512_add_ps                emulated_add_ps
#define _mm512_and_ps                emulated_and_ps
#define _mm512_and_si512             emulated_and_si512
#define _mm512_castps512_ps256       emulated_castps512_ps256
#define _mm512_extractf32x8_ps       emulated_extractf32x8_ps
#define _mm512_castps_si512          emulated_castps_si512
#define _mm512_castsi512_ps          emulated_castsi512_ps
#define _mm512_cmp_ps_mask           emulated_cmp_ps_mask
#define _mm512_cmpge_epu32_mask      emulated_cmpge_epu32_mask
#define _mm512_cmpgt_epu32_mask      emulated_cmpgt_epu32_mask
#define _mm512_cvtepi32_epi16        emulated_cvtepi32_epi16
#define _mm512_cvtepi32_epi8         emulated_cvtepi32_epi8
#define _mm512_cvtepi32_ps           emulated_cvtepi32_ps
#define _mm512_cvtepi8_epi16         emulated_cvtepi8_epi16
#define _mm512_cvtepu16_epi32        emulated_cvtepu16_epi32
#define _mm512_cvtne2ps_pbh          emulated_cvtne2ps_pbh
#define _mm512_cvtps_epi32           emulated_cvtps_epi32
#define _mm512_div_ps                emulated_div_ps
#define _mm512_dpbf16_ps             emulated_dpbf16_ps
#define _mm512_dpbusd_epi32          emulated_dpbusd_epi32
#define _mm512_floor_ps              emulated_floor_ps
#define _mm512_fmadd_ps              emulated_fmadd_ps
#define _mm512_fnmadd_ps             emulated_fnmadd_ps
#define _mm512_fnmsub_ps             emulated_fnmsub_ps
#define _mm512_loadu_ps              emulated_loadu_ps
#define _mm512_loadu_si512           emulated_loadu_si512
#define _mm512_madd_epi16            emulated_madd_epi16
#define _mm512_mask_mov_ps           emulated_mask_mov_ps
#define _mm512_mask_or_epi32         emulated_mask_or_epi32
#define _mm512_mask_storeu_ps        emulated_mask_storeu_ps
#define _mm512_maskz_and_epi32       emulated_maskz_and_epi32
#define _mm512_maskz_loadu_ps        emulated_maskz_loadu_ps
#define _mm512_maskz_mov_ps          emulated_maskz_mov_ps
#define _mm512_max_epu32             emulated_max_epu32
#define _mm512_max_ps                emulated_max_ps
#define _mm512_min_ps                emulated_min_ps
#define _mm512_mul_ps                emulated_mul_ps
#define _mm512_or_ps                 emulated_or_ps
#define _mm512_reduce_max_epu32      emulated_reduce_max_epu32
#define _mm512_rol_epi32             emulated_rol_epi32
#define _mm512_set1_epi32            emulated_set1_epi32
#define _mm512_set1_ps               emulated_set1_ps
#define _mm512_slli_epi32            emulated_slli_epi32
#define _mm512_srai_epi32            emulated_srai_epi32
#define _mm512_sub_epi32             emulated_sub_epi32
#define _mm512_roundscale_ps(v, how) emulated_nearest_ps(v)
#define _mm512_sqrt_ps               emulated_sqrt_ps
#define _mm512_srli_epi32            emulated_srli_epi32
#define _mm512_storeu_ps             emulated_storeu_ps
#define _mm512_storeu_si512          emulated_storeu_si512
#define _mm512_sub_ps                emulated_sub_ps
#define _tile_dpbusd                 emulated_tile_dpbusd
#define _tile_loadconfig             emulated_tile_loadconfig
#define _tile_loadd                  emulated_tile_loadd
#define _tile_release                emulated_tile_release
#define _tile_stored                 emulated_tile_stored
#define _tile_zero                   emulated_tile_zero

/* What the flags would define. */
#define __AVX512F__  1
#define __AVX512DQ__ 1
#ifdef EMULATED_BF16
#    define __AVX512BF16__ 1
#endif
#ifdef EMULATED_VNNI
#    define __AVX512VNNI__ 1
#endif

/* simd_keep() binds the compiler alone, and to a register of 64 bytes. */
#define __asm__(...)

#endif
