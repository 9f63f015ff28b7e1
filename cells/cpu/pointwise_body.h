/* Chains of element-wise ops, tile by tile: between two ops of a chain a value stays in L1, and
 * only what others read goes to its row (EcoRNN, section 5: point-wise operators are fused). The
 * operations are those of cells/ref/pointwise.c, a lane each. Included once by each instruction
 * set's kernels. Cost: a switch a tile and op beside the vectors. */
#ifndef CELLS_CPU_POINTWISE_BODY_H
#define CELLS_CPU_POINTWISE_BODY_H

#include "cells/cpu/math_body.h"

#include <math.h>
#include <stdbool.h>

#ifdef CELL_SIMD_LANES

/* One op over one tile. */
struct tile_op {
    const float *in[3];
    bool is_single[3]; /* one element for all */
    float *out;
    bool leaves; /* to a row, where a NaN is the one NaN */
    size_t n;
};

CELL_INLINE simd_vec min_of(simd_vec a, simd_vec b)
{
    return simd_if_nan(a, a, simd_min(a, b));
}

CELL_INLINE simd_vec max_of(simd_vec a, simd_vec b)
{
    return simd_if_nan(a, a, simd_max(a, b));
}

/* A result within its bounds, any NaN as the one: MIN of MAX, whose numbers are none. A RELU's bits
 * are those of a MAX with 0. */
CELL_INLINE simd_vec bounded(const struct cell_bounds bounds, simd_vec x)
{
    if (!bounds.are) {
        return one_nan(x);
    }
    const simd_vec above = simd_max(x, simd_set1(bounds.least));
    return simd_if_nan(x, one_nan(x), simd_min(above, simd_set1(bounds.most)));
}

CELL_INLINE simd_vec pointwise_of(const enum cell_op_kind kind, simd_vec a, simd_vec b, simd_vec c)
{
    const simd_vec zero = simd_set1(0.0f);
    const simd_vec one = simd_set1(1.0f);
    switch ((unsigned)kind) {
    case CELL_OP_ADD:
        return simd_add(a, b);
    case CELL_OP_SUB:
        return simd_sub(a, b);
    case CELL_OP_MUL:
        return simd_mul(a, b);
    case CELL_OP_DIV:
        return simd_div(a, b);
    case CELL_OP_POW:
        return power_of(a, b);
    case CELL_OP_MIN:
        return min_of(a, b);
    case CELL_OP_MAX:
        return max_of(a, b);
    case CELL_OP_LESS:
        return simd_if_greater(b, a, one, zero);
    case CELL_OP_LESS_EQUAL:
        return simd_if_at_least(b, a, one, zero);
    case CELL_OP_SELECT:
        return simd_if_greater(a, zero, b, c);
    case CELL_OP_SIGMOID:
        return sigmoid_any_nan(a);
    case CELL_OP_TANH:
        return tanh_any_nan(a);
    case CELL_OP_RELU:
        return relu_any_nan(a);
    case CELL_OP_EXP:
        return exponential(a);
    case CELL_OP_LOG:
        return logarithm(a);
    case CELL_OP_SIN:
        return sine_of(a, 0.0f);
    case CELL_OP_COS:
        return sine_of(a, 1.0f);
    case CELL_OP_ATAN:
        return arc_tangent(a);
    case CELL_OP_ABS:
        return simd_abs(a);
    case CELL_OP_FLOOR:
        return simd_floor(a);
    case CELL_OP_ROUND:
        return simd_rint(a);
    default:
        return simd_sqrt(a);
    }
}

CELL_INLINE simd_vec tile_load(const struct tile_op *op, uint32_t k, size_t i, size_t n)
{
    if (op->is_single[k]) {
        return simd_set1(op->in[k][0]);
    }
    return n == CELL_SIMD_LANES ? simd_load(op->in[k] + i) : simd_load_part(op->in[k] + i, n);
}

/* Elements i .. i+n-1, n <= CELL_SIMD_LANES. */
CELL_INLINE void tile_vector(const enum cell_op_kind kind, const uint32_t n_in,
                             const struct tile_op *op, size_t i, size_t n)
{
    simd_vec a = tile_load(op, 0, i, n);
    simd_vec b = n_in > 1 ? tile_load(op, 1, i, n) : a;
    simd_vec c = n_in > 2 ? tile_load(op, 2, i, n) : a;
    simd_vec result = pointwise_of(kind, a, b, c);
    result = op->leaves ? one_nan(result) : result;
    if (n == CELL_SIMD_LANES) {
        simd_store(op->out + i, result);
    } else {
        simd_store_part(op->out + i, n, result);
    }
}

/* What is told is copied: in registers no store of a vector can change it. */
CELL_INLINE void tile_loop(const enum cell_op_kind kind, const uint32_t n_in,
                           const struct tile_op *told)
{
    const struct tile_op op = *told;
    size_t i = 0;
    for (; i + CELL_SIMD_LANES <= op.n; i += CELL_SIMD_LANES) {
        tile_vector(kind, n_in, &op, i, CELL_SIMD_LANES);
    }
    if (i < op.n) {
        tile_vector(kind, n_in, &op, i, op.n - i);
    }
}

/* Angles beyond CELL_SIN_LIMIT: one element after the other. */
static bool pointwise_of_large(enum cell_op_kind kind, const struct tile_op *op)
{
    bool is_large = false;
    for (size_t i = 0; i < op->n && (kind == CELL_OP_SIN || kind == CELL_OP_COS); i++) {
        is_large = is_large || fabsf(op->in[0][op->is_single[0] ? 0 : i]) > CELL_SIN_LIMIT;
    }
    for (size_t i = 0; i < op->n && is_large; i++) {
        const float x = op->in[0][op->is_single[0] ? 0 : i];
        op->out[i] = kind == CELL_OP_SIN ? cell_sin_f32__scalar(x) : cell_cos_f32__scalar(x);
    }
    return is_large;
}

#    define POINTWISE_CASE(name, n_in)                                                             \
    case CELL_OP_##name:                                                                           \
        tile_loop(CELL_OP_##name, n_in, op);                                                       \
        break;

static void pointwise_tile(enum cell_op_kind kind, const struct tile_op *op)
{
    if (pointwise_of_large(kind, op)) {
        return;
    }
    switch ((unsigned)kind) {
        POINTWISE_CASE(ADD, 2)
        POINTWISE_CASE(SUB, 2)
        POINTWISE_CASE(MUL, 2)
        POINTWISE_CASE(DIV, 2)
        POINTWISE_CASE(POW, 2)
        POINTWISE_CASE(MIN, 2)
        POINTWISE_CASE(MAX, 2)
        POINTWISE_CASE(LESS, 2)
        POINTWISE_CASE(LESS_EQUAL, 2)
        POINTWISE_CASE(SELECT, 3)
        POINTWISE_CASE(SIGMOID, 1)
        POINTWISE_CASE(TANH, 1)
        POINTWISE_CASE(RELU, 1)
        POINTWISE_CASE(EXP, 1)
        POINTWISE_CASE(LOG, 1)
        POINTWISE_CASE(SIN, 1)
        POINTWISE_CASE(COS, 1)
        POINTWISE_CASE(ATAN, 1)
        POINTWISE_CASE(ABS, 1)
        POINTWISE_CASE(FLOOR, 1)
        POINTWISE_CASE(ROUND, 1)
        POINTWISE_CASE(SQRT, 1)
    default:
        break;
    }
}

/* n elements of a chain's values, from `at` on. */
struct chain_tile {
    const struct cell_pointwise *chain;
    float *const *values;
    float *scratch;
    size_t at, n;
};

/* Where they stand of one. */
CELL_INLINE float *tile_of_value(const struct chain_tile *tile, uint32_t number)
{
    const struct cell_pointwise_value *value = &tile->chain->values[number];
    if (value->tile != CELL_POINTWISE_ROW) {
        return tile->scratch + value->tile * CELL_POINTWISE_TILE;
    }
    return value->is_single ? tile->values[number] : tile->values[number] + tile->at;
}

/* Elements from `at` on of a value that is read again, n of them: of parts of one element, .. */
CELL_INLINE void spread_elements(const struct cell_pointwise_value *value, const float *row,
                                 size_t at, size_t n, float *out)
{
    const float *from = row + at / value->times;
    size_t left = value->times - at % value->times; // times that this one still has
    for (size_t i = 0; i < n; from++, left = value->times) {
        const size_t end = left < n - i ? i + left : n;
        const simd_vec x = simd_set1(*from);
        for (; i + CELL_SIMD_LANES <= end; i += CELL_SIMD_LANES) {
            simd_store(out + i, x);
        }
        if (i < end) {
            simd_store_part(out + i, end - i, x);
            i = end;
        }
    }
}

/* .. and of longer ones. */
CELL_INLINE void spread_parts(const struct cell_pointwise_value *value, const float *row, size_t at,
                              size_t n, float *out)
{
    const size_t part = value->part;
    size_t time = at / part % value->times;
    const float *first = row + at / part / value->times * part; // of the part at hand
    const float *from = first + at % part;
    for (size_t i = 0; i < n; from = first) {
        const size_t left = (size_t)(first + part - from);
        const size_t end = left < n - i ? i + left : n;
        for (; i + CELL_SIMD_LANES <= end; i += CELL_SIMD_LANES, from += CELL_SIMD_LANES) {
            simd_store(out + i, simd_load(from));
        }
        if (i < end) {
            simd_store_part(out + i, end - i, simd_load_part(from, end - i));
            i = end;
        }
        if (++time == value->times) {
            time = 0;
            first += part;
        }
    }
}

/* The same of operand k of an op, which may be put together first. */
CELL_INLINE const float *tile_of_operand(const struct chain_tile *tile,
                                         const struct cell_pointwise_op *op, uint32_t k)
{
    const struct cell_pointwise_value *value = &tile->chain->values[op->in[k]];
    if (value->times <= 1 || value->is_single) {
        return tile_of_value(tile, op->in[k]);
    }
    float *out = tile->scratch + (CELL_POINTWISE_TILES_MAX + k) * CELL_POINTWISE_TILE;
    const float *row = tile->values[op->in[k]];
    (value->part == 1 ? spread_elements : spread_parts)(value, row, tile->at, tile->n, out);
    return out;
}

static void pointwise(const struct cell_pointwise *chain, float *const values[],
                      float *scratch) // NOLINT(readability-non-const-parameter): a table's
{
    struct chain_tile tile = {.chain = chain, .values = values, .scratch = scratch};
    for (; tile.at < chain->width; tile.at += CELL_POINTWISE_TILE) {
        const size_t left = chain->width - tile.at;
        tile.n = left < CELL_POINTWISE_TILE ? left : CELL_POINTWISE_TILE;
        for (uint32_t o = 0; o < chain->n_ops; o++) {
            const struct cell_pointwise_op *op = &chain->ops[o];
            struct tile_op told = {.n = tile.n};
            for (uint32_t k = 0; k < op->n_in; k++) {
                told.in[k] = tile_of_operand(&tile, op, k);
                told.is_single[k] = chain->values[op->in[k]].is_single;
            }
            told.out = tile_of_value(&tile, op->out);
            told.leaves = chain->values[op->out].tile == CELL_POINTWISE_ROW;
            pointwise_tile(op->kind, &told);
        }
    }
}

#endif
#endif
