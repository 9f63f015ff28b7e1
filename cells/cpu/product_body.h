/* The product: sums of one panel (4 vectors of columns) for some rows, over rows of x and then of
 * h, read where they stand through row pointers.
 *
 *             k ->                         weights of the panel: [k][4 vectors], one stream
 *   row r   x x x x x | h h h h        a tile: up to CELL_TILE_ROWS rows x 4 vectors in registers,
 *   row r+1 x x x x x | h h h h                one fused multiply-add a term, k ascending
 *
 * With more rows than one tile, k goes in blocks: a block of weights is read from L2 or L3 by the
 * first tile and from L1 by the others, and the sums wait in scratch meanwhile. Storing and
 * reloading a float changes no bit, so neither does the shape of tiles and blocks. */
#ifndef CELLS_CPU_PRODUCT_BODY_H
#define CELLS_CPU_PRODUCT_BODY_H

#include "cells/cpu/simd.h"

#ifdef CELL_SIMD_LANES

#    define PANEL_VECTORS 4u
#    define PANEL_COLUMNS (PANEL_VECTORS * CELL_SIMD_LANES)

/* Rows that go through a panel together: their sums, 64 columns wide, take 8 KiB of L1. */
#    define GROUP_ROWS 32u

/* A block of weights takes a third of a 48 KiB L1; the next one is on its way meanwhile. */
#    define BLOCK_K (16384u / (PANEL_COLUMNS * (uint32_t)sizeof(float)))

/* One of the two halves of the sum: x or h. */
struct span {
    const float *const *rows; /* [n_rows] -> [k] */
    uint32_t k;
};

/* What a tile adds: terms at..at+k-1 of its rows. */
struct terms {
    const float *weights; /* [k][PANEL_COLUMNS] */
    const float *const *rows;
    uint32_t at, k;
};

/* sums [rows][PANEL_COLUMNS] = start + terms; start_stride 0: the bias, the same for each row. */
CELL_INLINE void tile(const uint32_t rows, const struct terms *terms, const float *start,
                      size_t start_stride, float *sums)
{
    simd_vec sum[CELL_TILE_ROWS][PANEL_VECTORS];
    const float *in[CELL_TILE_ROWS];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        in[r] = terms->rows[r] + terms->at;
        CELL_UNROLL
        for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
            sum[r][v] = simd_load(start + r * start_stride + v * CELL_SIMD_LANES);
        }
    }
    const float *weights = terms->weights;
    for (uint32_t k = 0; k < terms->k; k++, weights += PANEL_COLUMNS) {
        simd_vec x[CELL_TILE_ROWS];
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            x[r] = simd_set1(in[r][k]);
        }
        CELL_UNROLL
        for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
            simd_vec w = simd_load(weights + v * CELL_SIMD_LANES);
            CELL_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                sum[r][v] = simd_fma(w, x[r], sum[r][v]);
            }
        }
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        CELL_UNROLL
        for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
            simd_store(sums + r * PANEL_COLUMNS + v * CELL_SIMD_LANES, sum[r][v]);
        }
    }
}

static void tile_of(uint32_t rows, const struct terms *terms, const float *start,
                    size_t start_stride, float *sums)
{
    switch (rows) {
    case 1:
        tile(1, terms, start, start_stride, sums);
        break;
    case 2:
        tile(2, terms, start, start_stride, sums);
        break;
    case 3:
        tile(3, terms, start, start_stride, sums);
        break;
#    if CELL_TILE_ROWS > 3
    case 4:
        tile(4, terms, start, start_stride, sums);
        break;
    case 5:
        tile(5, terms, start, start_stride, sums);
        break;
    case 6:
        tile(6, terms, start, start_stride, sums);
        break;
#    endif
    default:
        break;
    }
}

/* One row alone, two panels at once: 8 sums keep both FMA units busy, 4 would wait for themselves.
 * weights of the second panel stand `next` floats behind the first's. sums [2][PANEL_COLUMNS]. */
static void tile_pair(const struct terms *terms, size_t next, const float *start, float *sums)
{
    simd_vec sum[2 * PANEL_VECTORS];
    const float *in = terms->rows[0] + terms->at;
    const float *weights = terms->weights;
    CELL_UNROLL
    for (uint32_t v = 0; v < 2 * PANEL_VECTORS; v++) {
        sum[v] = simd_load(start + v * CELL_SIMD_LANES);
    }
    for (uint32_t k = 0; k < terms->k; k++, weights += PANEL_COLUMNS) {
        simd_vec x = simd_set1(in[k]);
        CELL_UNROLL
        for (uint32_t v = 0; v < PANEL_VECTORS; v++) {
            const float *w = weights + v * CELL_SIMD_LANES;
            sum[v] = simd_fma(simd_load(w), x, sum[v]);
            sum[PANEL_VECTORS + v] = simd_fma(simd_load(w + next), x, sum[PANEL_VECTORS + v]);
        }
    }
    CELL_UNROLL
    for (uint32_t v = 0; v < 2 * PANEL_VECTORS; v++) {
        simd_store(sums + v * CELL_SIMD_LANES, sum[v]);
    }
}

/* The sums of both spans for one row and two neighbouring panels. */
static void product_pair(const float *weights, const float *bias, const struct span spans[2],
                         float *sums)
{
    size_t next = ((size_t)spans[0].k + spans[1].k) * PANEL_COLUMNS;
    struct terms x = {weights, spans[0].rows, 0, spans[0].k};
    struct terms h = {weights + (size_t)spans[0].k * PANEL_COLUMNS, spans[1].rows, 0, spans[1].k};
    tile_pair(&x, next, bias, sums);
    tile_pair(&h, next, sums, sums);
}

/* One span of one panel; *weights moves behind it. is_first: sums start from the bias. */
static void add_span(const float **weights, const float *bias, const struct span *span,
                     uint32_t n_rows, float *sums)
{
    uint32_t tiles = (n_rows + CELL_TILE_ROWS - 1) / CELL_TILE_ROWS;
    uint32_t block = tiles == 1 ? span->k : BLOCK_K;
    for (uint32_t at = 0; at < span->k; at += block) {
        uint32_t k = span->k - at < block ? span->k - at : block;
        uint32_t first = 0;
        for (uint32_t t = 0; t < tiles; t++) {
            uint32_t end = n_rows * (t + 1) / tiles; // balanced: 10 rows are 5 + 5, not 6 + 4
            struct terms terms = {*weights, span->rows + first, at, k};
            float *own = sums + (size_t)first * PANEL_COLUMNS;
            tile_of(end - first, &terms, bias == NULL ? own : bias,
                    bias == NULL ? PANEL_COLUMNS : 0, own);
            first = end;
        }
        *weights += (size_t)k * PANEL_COLUMNS;
        bias = NULL;
    }
}

/* The sums of both spans for one panel and up to GROUP_ROWS rows; spans[0].k > 0. */
static void product(const float *weights, const float *bias, const struct span spans[2],
                    uint32_t n_rows, float *sums)
{
    add_span(&weights, bias, &spans[0], n_rows, sums);
    add_span(&weights, NULL, &spans[1], n_rows, sums);
}

#endif
#endif
