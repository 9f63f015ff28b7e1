/* The activations in vectors: the operations of cells/ref/math.c in the same order, a lane each.
 * Included once by each instruction set's kernels. Pure functions. */
#ifndef CELLS_CPU_MATH_BODY_H
#define CELLS_CPU_MATH_BODY_H

#include "cells/cpu/simd.h"
#include "cells/ref/math.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#ifdef CELL_SIMD_LANES

/* Functions of n vectors go operation by operation: one vector is a chain of some 20 operations
 * that wait for each other, and a core does not look far enough ahead to fill the gaps with the
 * next vector's. n is a constant, at most CELL_TOGETHER. */

/* exp(r) - 1 for each |r| <= ln 2 / 2, to q. */
CELL_INLINE void expm1_each(const size_t n, const simd_vec r[], simd_vec q[])
{
    const simd_vec factors[] = {simd_set1(CELL_EXP_Q3), simd_set1(CELL_EXP_Q2),
                                simd_set1(CELL_EXP_Q1), simd_set1(CELL_EXP_Q0)};
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        q[v] = simd_set1(CELL_EXP_Q4);
    }
    CELL_UNROLL
    for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
        CELL_UNROLL
        for (size_t v = 0; v < n; v++) {
            q[v] = simd_fma(q[v], r[v], factors[f]);
        }
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        q[v] = simd_fma(q[v], simd_mul(r[v], r[v]), r[v]);
    }
}

/* Of each x, or of -x, what is left beside the nearest multiple of ln 2, in its place, and that
 * power of two, to s. */
CELL_INLINE void split_each(const size_t n, const bool is_negated, simd_vec x[], simd_vec s[])
{
    const simd_vec magic = simd_set1(CELL_ROUND_MAGIC);
    const simd_vec ln2 = simd_set1(CELL_LN2);
    const simd_vec log2e = simd_set1(is_negated ? -CELL_LOG2E : CELL_LOG2E);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        s[v] = simd_fma(x[v], log2e, magic);
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        simd_vec whole = simd_sub(s[v], magic);
        x[v] = is_negated ? simd_fnms(whole, ln2, x[v]) : simd_fnma(whole, ln2, x[v]);
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        s[v] = simd_exponent(s[v], 0x3F800000u);
    }
}

CELL_INLINE simd_vec one_nan(simd_vec v)
{
    return simd_one_nan(v, CELL_NAN_BITS);
}

/* exp(x + low); without has_low, a constant, exp(x). */
CELL_INLINE simd_vec exponential_of_sum(simd_vec x, const bool has_low, simd_vec low)
{
    simd_vec magic = simd_set1(CELL_ROUND_MAGIC);
    simd_vec y = simd_min(simd_set1(CELL_EXP_HIGH), simd_max(simd_set1(CELL_EXP_LOW), x));
    simd_vec rounded = simd_fma(y, simd_set1(CELL_LOG2E), magic);
    simd_vec n = simd_sub(rounded, magic);
    simd_vec r = simd_fnma(n, simd_set1(CELL_LN2_HIGH), y);
    r = simd_fnma(n, simd_set1(CELL_LN2_LOW), r);
    r = has_low ? simd_add(r, low) : r;
    simd_vec half = simd_exponent(rounded, 0x3F000000u);
    simd_vec q;
    expm1_each(1, &r, &q);
    simd_vec result = simd_fma(half, q, half);
    result = simd_add(result, result);
    result = simd_if_greater(x, simd_set1(CELL_EXP_HIGH), simd_set1(INFINITY), result);
    result = simd_if_greater(simd_set1(CELL_EXP_LOW), x, simd_set1(0.0f), result);
    return one_nan(result);
}

CELL_INLINE simd_vec exponential(simd_vec x)
{
    return exponential_of_sum(x, false, x);
}

/* log(m) - f + f^2 / 2 over f^3, with f = m - 1. */
CELL_INLINE simd_vec log_polynomial(simd_vec f)
{
    const simd_vec factors[] = {simd_set1(CELL_LOG_L7), simd_set1(CELL_LOG_L6),
                                simd_set1(CELL_LOG_L5), simd_set1(CELL_LOG_L4),
                                simd_set1(CELL_LOG_L3), simd_set1(CELL_LOG_L2),
                                simd_set1(CELL_LOG_L1), simd_set1(CELL_LOG_L0)};
    simd_vec q = simd_set1(CELL_LOG_L8);
    CELL_UNROLL
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        q = simd_fma(q, f, factors[i]);
    }
    return q;
}

/* Of a positive x: as struct cell_math_log. */
struct log_parts {
    simd_vec power, f, q;
};

CELL_INLINE struct log_parts log_parts_of(simd_vec x)
{
    const simd_vec least = simd_set1(0x1p-126f); // what is less is made normal first
    simd_vec m;
    simd_vec power =
        simd_split_power(simd_if_greater(least, x, simd_mul(x, simd_set1(0x1p+23f)), x), &m);
    power = simd_if_greater(least, x, simd_sub(power, simd_set1(23.0f)), power);
    const simd_vec f = simd_sub(m, simd_set1(1.0f));
    return (struct log_parts){power, f, log_polynomial(f)};
}

CELL_INLINE simd_vec logarithm(simd_vec x)
{
    const simd_vec zero = simd_set1(0.0f);
    const struct log_parts log = log_parts_of(x);
    const simd_vec square = simd_mul(log.f, log.f);
    simd_vec rest =
        simd_fma(square, simd_set1(-0.5f), simd_mul(log.power, simd_set1(CELL_LN2_LOW)));
    rest = simd_fma(simd_mul(log.q, log.f), square, rest);
    simd_vec result = simd_fma(log.power, simd_set1(CELL_LN2_HIGH), simd_add(log.f, rest));
    result = simd_if_greater(x, simd_set1(FLT_MAX), x, result);
    const simd_vec others = simd_if_at_least(x, zero, simd_set1(-INFINITY), simd_set1(NAN));
    return simd_if_greater(x, zero, result, others);
}

CELL_INLINE simd_vec power_of_size(simd_vec size, simd_vec b)
{
    const simd_vec zero = simd_set1(0.0f);
    const simd_vec one = simd_set1(1.0f);
    const simd_vec infinite = simd_set1(INFINITY);
    simd_vec normal = simd_if_greater(size, zero, size, one);
    normal = simd_if_greater(infinite, normal, normal, one);
    const struct log_parts log = log_parts_of(normal);
    const simd_vec most = simd_mul(log.power, simd_set1(CELL_LN2_HIGH));
    const simd_vec square = simd_mul(log.f, log.f);
    const simd_vec half_square = simd_mul(square, simd_set1(-0.5f));
    const simd_vec sum = simd_add(most, log.f);
    const simd_vec all = simd_add(sum, half_square);
    simd_vec high = simd_if_greater(infinite, size, all, infinite);
    high = simd_if_greater(size, zero, high, simd_set1(-INFINITY));
    const simd_vec lost_square =
        simd_mul(simd_fma(log.f, log.f, simd_sub(zero, square)), simd_set1(-0.5f));
    const simd_vec rest = simd_fma(simd_mul(log.q, log.f), square,
                                   simd_fma(log.power, simd_set1(CELL_LN2_LOW), lost_square));
    const simd_vec low = simd_add(
        simd_add(simd_add(simd_sub(sum, all), half_square), simd_add(simd_sub(most, sum), log.f)),
        rest);
    const simd_vec product = simd_mul(b, high);
    const simd_vec lost = simd_add(simd_fma(b, high, simd_sub(zero, product)), simd_mul(b, low));
    const simd_vec both = simd_add(product, lost);
    const simd_vec left = simd_add(simd_sub(product, both), lost);
    const simd_vec far = simd_abs(product);
    return exponential_of_sum(simd_if_greater(infinite, far, both, product), true,
                              simd_if_greater(infinite, far, left, zero));
}

CELL_INLINE simd_vec power_of(simd_vec a, simd_vec b)
{
    const simd_vec zero = simd_set1(0.0f);
    const simd_vec one = simd_set1(1.0f);
    const simd_vec infinite = simd_set1(INFINITY);
    const simd_vec size = simd_abs(a);
    const simd_vec half = simd_mul(b, simd_set1(0.5f));
    simd_vec result = power_of_size(size, b);
    // floor(b) >= b where b is whole.
    const simd_vec special = simd_if_at_least(
        simd_abs(b), infinite,
        simd_if_at_least(size, one, simd_if_at_least(one, size, one, result), result), result);
    const simd_vec whole =
        simd_if_at_least(simd_floor(half), half, special, simd_or_sign(special, a));
    const simd_vec is_broken = simd_if_greater(zero, a, simd_set1(NAN), special);
    const simd_vec other = simd_if_greater(infinite, size, is_broken, special);
    result = simd_if_at_least(simd_floor(b), b, whole, other);
    result = simd_if_nan(a, a, result);
    const simd_vec is_zero =
        simd_if_at_least(b, zero, simd_if_at_least(zero, b, one, result), result);
    return simd_if_at_least(a, one, simd_if_at_least(one, a, one, is_zero), is_zero);
}

/* The sine of r + k pi / 2, k whole. */
CELL_INLINE simd_vec sine_of_rest(simd_vec r, simd_vec k)
{
    const simd_vec z = simd_mul(r, r);
    simd_vec s = simd_fma(simd_set1(CELL_SIN_S3), z, simd_set1(CELL_SIN_S2));
    s = simd_fma(s, z, simd_set1(CELL_SIN_S1));
    s = simd_fma(s, z, simd_set1(CELL_SIN_S0));
    s = simd_fma(simd_mul(s, z), r, r);
    simd_vec c = simd_fma(simd_set1(CELL_COS_C2), z, simd_set1(CELL_COS_C1));
    c = simd_fma(c, z, simd_set1(CELL_COS_C0));
    c = simd_fma(simd_mul(z, z), c, simd_fma(z, simd_set1(-0.5f), simd_set1(1.0f)));
    const simd_vec turns = simd_floor(simd_mul(k, simd_set1(0.25f)));
    const simd_vec quarter = simd_fnma(turns, simd_set1(4.0f), k); // 0 to 3
    const simd_vec halves = simd_floor(simd_mul(quarter, simd_set1(0.5f)));
    const simd_vec is_odd = simd_fnma(halves, simd_set1(2.0f), quarter);
    const simd_vec sign = simd_fnma(halves, simd_set1(2.0f), simd_set1(1.0f));
    return simd_mul(simd_if_greater(is_odd, simd_set1(0.5f), c, s), sign);
}

/* The sine of x + quarters pi / 2, |x| <= CELL_SIN_LIMIT. */
CELL_INLINE simd_vec sine_of(simd_vec x, const float quarters)
{
    const simd_vec magic = simd_set1(CELL_ROUND_MAGIC);
    const simd_vec n = simd_sub(simd_fma(x, simd_set1(CELL_TWO_OVER_PI), magic), magic);
    simd_vec r = simd_fnma(n, simd_set1(CELL_PI2_HIGH), x);
    r = simd_fnma(n, simd_set1(CELL_PI2_MIDDLE), r);
    r = simd_fnma(n, simd_set1(CELL_PI2_LOW), r);
    return sine_of_rest(r, simd_add(n, simd_set1(quarters)));
}

CELL_INLINE simd_vec arc_tangent(simd_vec x)
{
    const simd_vec factors[] = {simd_set1(CELL_ATAN_A6), simd_set1(CELL_ATAN_A5),
                                simd_set1(CELL_ATAN_A4), simd_set1(CELL_ATAN_A3),
                                simd_set1(CELL_ATAN_A2), simd_set1(CELL_ATAN_A1),
                                simd_set1(CELL_ATAN_A0)};
    const simd_vec one = simd_set1(1.0f);
    const simd_vec size = simd_abs(x);
    const simd_vec t = simd_if_greater(size, one, simd_div(one, size), size);
    const simd_vec z = simd_mul(t, t);
    simd_vec q = simd_set1(CELL_ATAN_A7);
    CELL_UNROLL
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        q = simd_fma(q, z, factors[i]);
    }
    const simd_vec a = simd_fma(simd_mul(q, z), t, t);
    const simd_vec far =
        simd_add(simd_sub(simd_set1(CELL_PI2_HIGH), a), simd_set1(CELL_PI2_MIDDLE));
    return simd_or_sign(simd_if_greater(size, one, far, a), x);
}

/* A NaN gives some NaN: the caller makes it the one where it leaves. */
CELL_INLINE void sigmoid_each(const size_t n, simd_vec x[])
{
    const simd_vec one = simd_set1(1.0f);
    simd_vec s[CELL_TOGETHER];
    simd_vec q[CELL_TOGETHER];
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        x[v] = simd_max(simd_set1(-CELL_SIGMOID_LIMIT), x[v]);
        x[v] = simd_min(simd_set1(CELL_SIGMOID_LIMIT), x[v]);
    }
    split_each(n, true, x, s);
    expm1_each(n, x, q);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        x[v] = simd_add(one, simd_fma(s[v], q[v], s[v]));
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        x[v] = simd_div(one, x[v]);
    }
}

CELL_INLINE void tanh_each(const size_t n, simd_vec x[])
{
    simd_vec y[CELL_TOGETHER];
    simd_vec s[CELL_TOGETHER];
    simd_vec q[CELL_TOGETHER];
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        y[v] = simd_abs(x[v]);
        y[v] = simd_min(simd_set1(CELL_TANH_LIMIT), simd_add(y[v], y[v]));
    }
    split_each(n, false, y, s);
    expm1_each(n, y, q);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        y[v] = simd_fma(s[v], q[v], simd_sub(s[v], simd_set1(1.0f)));
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        y[v] = simd_div(y[v], simd_add(y[v], simd_set1(2.0f)));
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        x[v] = simd_or_sign(y[v], x[v]);
    }
}

/* is_tanh is a constant: else the sigmoid. */
CELL_INLINE void activate_each(const bool is_tanh, const size_t n, simd_vec x[])
{
    if (is_tanh) {
        tanh_each(n, x);
    } else {
        sigmoid_each(n, x);
    }
}

CELL_INLINE simd_vec sigmoid_any_nan(simd_vec x)
{
    sigmoid_each(1, &x);
    return x;
}

CELL_INLINE simd_vec tanh_any_nan(simd_vec x)
{
    tanh_each(1, &x);
    return x;
}

/* Not above 0 is +0: the maximum may give -0, and the sum makes it +0. */
CELL_INLINE simd_vec relu_any_nan(simd_vec x)
{
    simd_vec zero = simd_set1(0.0f);
    return simd_add(simd_max(zero, x), zero);
}

/* ---- Whole rows: of the files that hold a table of kernels ---- */

#    ifdef CELL_TABLE

CELL_INLINE void activate_all(const bool is_tanh, uint32_t n, const float *in, float *out)
{
    const size_t together = CELL_TOGETHER * CELL_SIMD_LANES;
    size_t i = 0;
    for (; i + together <= n; i += together) {
        simd_vec x[CELL_TOGETHER];
        CELL_UNROLL
        for (size_t v = 0; v < CELL_TOGETHER; v++) {
            x[v] = simd_load(in + i + v * CELL_SIMD_LANES);
        }
        activate_each(is_tanh, CELL_TOGETHER, x);
        CELL_UNROLL
        for (size_t v = 0; v < CELL_TOGETHER; v++) {
            simd_store(out + i + v * CELL_SIMD_LANES, one_nan(x[v]));
        }
    }
    for (; i + CELL_SIMD_LANES <= n; i += CELL_SIMD_LANES) {
        simd_vec x = simd_load(in + i);
        activate_each(is_tanh, 1, &x);
        simd_store(out + i, one_nan(x));
    }
    if (i < n) {
        simd_vec x = simd_load_part(in + i, n - i);
        activate_each(is_tanh, 1, &x);
        simd_store_part(out + i, n - i, one_nan(x));
    }
}

static void sigmoid_all(uint32_t n, const float *in, float *out)
{
    activate_all(false, n, in, out);
}

static void tanh_all(uint32_t n, const float *in, float *out)
{
    activate_all(true, n, in, out);
}

/* Without the NaN; which of +0 and -0 is the larger does not show in exp(x - largest). */
static float largest(uint32_t n, const float *in)
{
    simd_vec high = simd_set1(-INFINITY);
    float lanes[CELL_SIMD_LANES];
    size_t i = 0;
    for (; i + CELL_SIMD_LANES <= n; i += CELL_SIMD_LANES) {
        high = simd_max(simd_load(in + i), high);
    }
    simd_store(lanes, high);
    float result = lanes[0];
    for (size_t l = 1; l < CELL_SIMD_LANES; l++) {
        result = lanes[l] > result ? lanes[l] : result;
    }
    for (; i < n; i++) {
        result = in[i] > result ? in[i] : result;
    }
    return result;
}

/* exp(in - high) to out; returns the sum. Vector number v of a row adds to lanes of number
 * v mod (16 / lanes). */
static float softmax_exponentials(uint32_t n, const float *in, float *out)
{
    enum { VECTORS = CELL_SOFTMAX_LANES / CELL_SIMD_LANES };
    simd_vec high = simd_set1(largest(n, in));
    simd_vec sums[VECTORS];
    CELL_UNROLL
    for (size_t v = 0; v < VECTORS; v++) {
        sums[v] = simd_set1(0.0f);
    }
    size_t i = 0;
    size_t v = 0;
    for (; i + CELL_SIMD_LANES <= n; i += CELL_SIMD_LANES) {
        simd_vec e = exponential(simd_sub(simd_load(in + i), high));
        simd_store(out + i, e);
        sums[v] = simd_add(sums[v], e);
        v = (v + 1) % VECTORS;
    }
    if (i < n) {
        simd_vec e = exponential(simd_sub(simd_load_part(in + i, n - i), high));
        simd_store_part(out + i, n - i, e);
        sums[v] = simd_add(sums[v], simd_first(e, n - i));
    }
    return simd_fold(sums);
}

/* Elements i .. n-1, fewer than CELL_SOFTMAX_LANES, of vector v; the others are zero, which a sum
 * that began with +0 does not notice. */
CELL_INLINE simd_vec load_rest(const float *in, size_t i, size_t n, size_t v)
{
    const size_t at = i + v * CELL_SIMD_LANES;
    return at >= n                     ? simd_set1(0.0f)
           : at + CELL_SIMD_LANES <= n ? simd_load(in + at)
                                       : simd_load_part(in + at, n - at);
}

static void sums(uint32_t groups, uint32_t n, const float *in, float *out)
{
    enum { VECTORS = CELL_SOFTMAX_LANES / CELL_SIMD_LANES };
    for (uint32_t g = 0; g < groups; g++, in += n) {
        simd_vec parts[VECTORS];
        CELL_UNROLL
        for (size_t v = 0; v < VECTORS; v++) {
            parts[v] = simd_set1(0.0f);
        }
        size_t i = 0;
        for (; i + CELL_SOFTMAX_LANES <= n; i += CELL_SOFTMAX_LANES) {
            CELL_UNROLL
            for (size_t v = 0; v < VECTORS; v++) {
                parts[v] = simd_add(parts[v], simd_load(in + i + v * CELL_SIMD_LANES));
            }
        }
        if (i < n) {
            CELL_UNROLL
            for (size_t v = 0; v < VECTORS; v++) {
                parts[v] = simd_add(parts[v], load_rest(in, i, n, v));
            }
        }
        out[g] = simd_fold(parts);
    }
    size_t g = 0;
    for (; g + CELL_SIMD_LANES <= groups; g += CELL_SIMD_LANES) {
        simd_store(out + g, one_nan(simd_load(out + g)));
    }
    if (g < groups) {
        simd_store_part(out + g, groups - g, one_nan(simd_load_part(out + g, groups - g)));
    }
}

/* Vectors side by side, so that none waits for the one before it. */
#        define ARGMAX_VECTORS ((size_t)4)
#        define ARGMAX_FLOATS  (ARGMAX_VECTORS * CELL_SIMD_LANES)

/* Of some vectors of a row the largest of each lane, the first of several, and the number of its
 * vector's first element: exact up to ARGMAX_MAX. */
struct argmax {
    simd_vec high, first;
};

#        define ARGMAX_MAX (1u << 24)

/* b's may come earlier. */
CELL_INLINE struct argmax argmax_join(struct argmax a, struct argmax b)
{
    const simd_vec earlier = simd_min(a.first, b.first);
    const simd_vec if_equal = simd_if_at_least(b.high, a.high, earlier, a.first);
    return (struct argmax){.high = simd_max(b.high, a.high),
                           .first = simd_if_greater(b.high, a.high, b.first, if_equal)};
}

struct argmax_block {
    struct argmax of[ARGMAX_VECTORS];
    simd_vec nan; /* 1 where there was one */
};

CELL_INLINE void argmax_take(struct argmax_block *all, const float *in, simd_vec begin)
{
    CELL_UNROLL
    for (size_t v = 0; v < ARGMAX_VECTORS; v++) {
        struct argmax *own = &all->of[v];
        const simd_vec x = simd_load(in + v * CELL_SIMD_LANES);
        own->first = simd_if_greater(x, own->high, begin, own->first);
        own->high = simd_max(x, own->high);
        all->nan = simd_if_nan(x, simd_set1(1.0f), all->nan);
    }
}

/* Of a row of at least ARGMAX_FLOATS, in blocks of so many, of which the last two may overlap. */
static struct argmax argmax_of_blocks(size_t n, const float *in, simd_vec *nan)
{
    const simd_vec width = simd_set1((float)ARGMAX_FLOATS);
    const simd_vec zero = simd_set1(0.0f);
    struct argmax_block all;
    CELL_UNROLL
    for (size_t v = 0; v < ARGMAX_VECTORS; v++) {
        all.of[v] = (struct argmax){simd_set1(-INFINITY), zero};
    }
    all.nan = zero;
    simd_vec begin = zero;
    size_t i = 0;
    for (; i + ARGMAX_FLOATS <= n; i += ARGMAX_FLOATS) {
        argmax_take(&all, in + i, begin);
        begin = simd_add(begin, width);
    }
    if (i < n) {
        i = n - ARGMAX_FLOATS;
        argmax_take(&all, in + i, simd_set1((float)i));
    }
    *nan = all.nan;
    CELL_UNROLL
    for (size_t v = 1; v < ARGMAX_VECTORS; v++) {
        const simd_vec offset = simd_set1((float)(v * CELL_SIMD_LANES));
        all.of[v].first = simd_add(all.of[v].first, offset);
        all.of[0] = argmax_join(all.of[0], all.of[v]);
    }
    return all.of[0];
}

static uint32_t argmax_of(uint32_t n, const float *in)
{
    if (n < ARGMAX_FLOATS || n > ARGMAX_MAX) {
        return cell_argmax_f32__scalar(n, in);
    }
    simd_vec nan;
    float high[CELL_SIMD_LANES];
    float first[CELL_SIMD_LANES];
    float has_nan[CELL_SIMD_LANES];
    const struct argmax all = argmax_of_blocks(n, in, &nan);
    simd_store(high, all.high);
    simd_store(first, all.first);
    simd_store(has_nan, nan);
    float most = high[0];
    uint32_t best = (uint32_t)first[0];
    for (uint32_t l = 1; l < CELL_SIMD_LANES; l++) {
        const uint32_t at = (uint32_t)first[l] + l;
        best = high[l] > most || (high[l] == most && at < best) ? at : best;
        most = high[l] > most ? high[l] : most;
        has_nan[0] += has_nan[l];
    }
    return has_nan[0] > 0.0f ? cell_argmax_f32__scalar(n, in) : best;
}

static void softmax_group(uint32_t n, const float *in, float *out)
{
    simd_vec sum = simd_set1(softmax_exponentials(n, in, out));
    size_t i = 0;
    for (; i + CELL_SIMD_LANES <= n; i += CELL_SIMD_LANES) {
        simd_store(out + i, one_nan(simd_div(simd_load(out + i), sum)));
    }
    if (i < n) {
        simd_vec x = simd_load_part(out + i, n - i);
        simd_store_part(out + i, n - i, one_nan(simd_div(x, sum)));
    }
}

/* Its largest is 1 over the sum of the exponentials, so no probability is too small for a
 * logarithm. A NaN anywhere has made all NaN. */
static void log_softmax_group(uint32_t n, const float *in, float *out)
{
    softmax_group(n, in, out);
    const simd_vec high = simd_set1(largest(n, in));
    const float most = isnan(out[0]) ? out[0] : largest(n, out);
    const simd_vec log_most = simd_set1(cell_log_f32__scalar(most));
    size_t i = 0;
    for (; i + CELL_SIMD_LANES <= n; i += CELL_SIMD_LANES) {
        const simd_vec x = simd_sub(simd_load(in + i), high);
        simd_store(out + i, one_nan(simd_add(x, log_most)));
    }
    if (i < n) {
        const simd_vec x = simd_sub(simd_load_part(in + i, n - i), high);
        simd_store_part(out + i, n - i, one_nan(simd_add(x, log_most)));
    }
}

#    endif
#endif
#endif
