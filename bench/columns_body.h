/* One instruction set's kernel of bench/columns.h, under the name COLUMNS_KERNEL. Each sum starts
 * from its bias and takes one fused multiply-add a term, k ascending: the bits are those of LINEAR.
 *
 *   packed [panel][k][units]        a tile: `units` outputs by `vectors` vectors of rows
 */
#ifndef BENCH_COLUMNS_BODY_H
#define BENCH_COLUMNS_BODY_H

#include "bench/columns.h"
#include "cells/cpu/simd.h"

#if defined(CELL_SIMD_LANES) && defined(COLUMNS_KERNEL)

/* Outputs of a tile by its vectors: as many sums as there are registers for. */
static const uint32_t units_of[BENCH_COLUMNS_VECTORS_MAX + 1] = {
    0, COLUMNS_UNITS_1, COLUMNS_UNITS_2, COLUMNS_UNITS_3, COLUMNS_UNITS_4};

CELL_INLINE void tile(const size_t vectors, const uint32_t units, const struct bench_columns *c,
                      uint32_t first, uint32_t row)
{
    simd_vec sum[BENCH_COLUMNS_UNITS_MAX][BENCH_COLUMNS_VECTORS_MAX];
    const float *w = c->packed + (size_t)first * c->inputs;
    const float *x = c->x + row;
    CELL_UNROLL
    for (uint32_t u = 0; u < units; u++) {
        float bias = first + u < c->outputs ? c->bias[first + u] : 0.0f;
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[u][v] = simd_set1(bias);
        }
    }
    for (uint32_t k = 0; k < c->inputs; k++, w += units, x += c->rows) {
        simd_vec in[BENCH_COLUMNS_VECTORS_MAX];
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            in[v] = simd_load(x + v * CELL_SIMD_LANES);
        }
        _Pragma("GCC unroll 32") for (uint32_t u = 0; u < units; u++)
        {
            simd_vec one = simd_set1(w[u]);
            CELL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                sum[u][v] = simd_fma(one, in[v], sum[u][v]);
            }
        }
    }
    for (uint32_t u = 0; u < units && first + u < c->outputs; u++) {
        for (size_t v = 0; v < vectors; v++) {
            simd_store(c->out + (size_t)(first + u) * c->rows + row + v * CELL_SIMD_LANES,
                       sum[u][v]);
        }
    }
}

/* Of a group of rows. */
static uint32_t vectors_of_group(const struct bench_columns *c)
{
    uint32_t vectors = c->rows / CELL_SIMD_LANES;
    uint32_t groups = (vectors + BENCH_COLUMNS_VECTORS_MAX - 1) / BENCH_COLUMNS_VECTORS_MAX;
    return vectors / groups;
}

static void pack(const struct bench_columns *c)
{
    const uint32_t units = units_of[vectors_of_group(c)];
    float *to = c->packed;
    for (uint32_t first = 0; first < c->outputs; first += units) {
        for (uint32_t k = 0; k < c->inputs; k++) {
            for (uint32_t u = 0; u < units; u++) {
                bool is_there = first + u < c->outputs;
                *to++ = is_there ? c->w[(size_t)k * c->outputs + first + u] : 0.0f;
            }
        }
    }
}

static void multiply_tile(const struct bench_columns *c, uint32_t vectors, uint32_t first,
                          uint32_t row)
{
    switch (vectors) {
    case 1:
        tile(1, COLUMNS_UNITS_1, c, first, row);
        break;
    case 2:
        tile(2, COLUMNS_UNITS_2, c, first, row);
        break;
    case 3:
        tile(3, COLUMNS_UNITS_3, c, first, row);
        break;
    default:
        tile(4, COLUMNS_UNITS_4, c, first, row);
        break;
    }
}

/* All groups of rows for a tile's outputs, whose weights then lie near. */
static void multiply_columns(const struct bench_columns *c)
{
    const uint32_t vectors = vectors_of_group(c);
    for (uint32_t first = 0; first < c->outputs; first += units_of[vectors]) {
        for (uint32_t row = 0; row < c->rows; row += vectors * (uint32_t)CELL_SIMD_LANES) {
            multiply_tile(c, vectors, first, row);
        }
    }
}

const struct bench_columns_kernel COLUMNS_KERNEL = {
    .isa = COLUMNS_ISA, .lanes = CELL_SIMD_LANES, .pack = pack, .multiply = multiply_columns};

#endif
#endif
