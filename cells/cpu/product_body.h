/* The product: sums of one panel (4 vectors of columns) for some rows, over rows of x and then of
 * h, read where they stand through row pointers.
 *
 *             k ->                         weights of the panel: [k][4 vectors], one stream
 *   row r   x x x x x | h h h h        a tile: up to CELL_TILE_ROWS rows x 4 vectors in registers,
 *   row r+1 x x x x x | h h h h                one fused multiply-add a term, k ascending
 *
 * With more rows than one tile, k goes in blocks: a block of weights is read from L3 or memory by
 * the first tile and from a nearer cache by the others, and the sums wait in scratch meanwhile.
 * Storing and reloading a float changes no bit, so neither does the shape of tiles and blocks. */
#ifndef CELLS_CPU_PRODUCT_BODY_H
#define CELLS_CPU_PRODUCT_BODY_H

#include "cells/cpu/simd.h"

#include <stdbool.h>

#ifdef CELL_SIMD_LANES

#    define PANEL_VECTORS ((size_t)4)
#    define PANEL_COLUMNS (PANEL_VECTORS * CELL_SIMD_LANES)

/* Rows that go through a panel together: their sums, 64 columns wide, take 8 KiB of L1. */
#    define GROUP_ROWS 32u

/* Terms in a block of k, when the rows need more than one tile. A block is read by the first tile
 * and found in L2 by the others; with prefetches, in L1, most of which it takes. */
#    define BLOCK_TERMS(bytes)   ((uint32_t)((bytes) / (PANEL_COLUMNS * sizeof(float))))
#    define BLOCK_TERMS_CACHED   BLOCK_TERMS(64u << 10)
#    define BLOCK_TERMS_STREAMED BLOCK_TERMS(32u << 10)

#    define LINE_FLOATS    ((size_t)16)
#    define LINES_PER_TERM ((uint32_t)(PANEL_COLUMNS / LINE_FLOATS))

/* Weights of a cell beyond this do not stay in a shared L3 between two steps: they are prefetched,
 * since the hardware looks too short a way ahead for memory (1024 inputs and units, 10 rows: 1.7
 * to 2 times as fast; within L3 it gained nothing, and with few rows cost up to a tenth). */
#    define STREAMED_BYTES ((size_t)12 << 20)

/* How far ahead where k does not go in blocks. */
#    define AHEAD_FLOATS 2048u

/* One of the two halves of the sum: x or h. */
struct span {
    const float *const *rows; /* [n_rows] -> [k] */
    uint32_t k;
};

/* Cache lines of weights that a tile asks for with every term. */
enum lines { LINES_NONE = 0, LINES_HALF = LINES_PER_TERM / 2, LINES_ALL = LINES_PER_TERM };

/* What a tile adds: terms at..at+k-1 of its rows; and the weights it asks for meanwhile. */
struct terms {
    const float *weights; /* [k][PANEL_COLUMNS] */
    const float *const *rows;
    uint32_t at, k;
    enum lines lines;
    const float *ahead; /* `lines` cache lines a term from here on */
};

CELL_INLINE void prefetch_lines(const uint32_t lines, const float *from)
{
    CELL_UNROLL
    for (uint32_t l = 0; l < lines; l++) {
        __builtin_prefetch(from + l * LINE_FLOATS);
    }
}

/* sums [rows][PANEL_COLUMNS] = start + terms; start_stride 0: the bias, the same for each row. */
CELL_INLINE void tile(const uint32_t rows, const enum lines lines, const struct terms *terms,
                      const float *start, size_t start_stride, float *sums)
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
    const float *ahead = terms->ahead;
    for (uint32_t k = 0; k < terms->k; k++, weights += PANEL_COLUMNS) {
        simd_vec x[CELL_TILE_ROWS];
        prefetch_lines(lines, ahead);
        ahead += lines * LINE_FLOATS;
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

/* A tile of `rows` rows that asks for `lines` lines: one function each, all loops unrolled. */
#    define TILE_CASE(rows, lines)                                                                 \
    case (rows)*8 + (lines):                                                                       \
        tile(rows, lines, terms, start, start_stride, sums);                                       \
        break;
#    define TILE_CASES(rows)                                                                       \
        TILE_CASE(rows, LINES_NONE)                                                                \
        TILE_CASE(rows, LINES_HALF)                                                                \
        TILE_CASE(rows, LINES_ALL)

static void tile_of(uint32_t rows, const struct terms *terms, const float *start,
                    size_t start_stride, float *sums)
{
    switch (rows * 8 + terms->lines) {
        TILE_CASES(1)
        TILE_CASES(2)
        TILE_CASES(3)
#    if CELL_TILE_ROWS > 3
        TILE_CASES(4)
        TILE_CASES(5)
        TILE_CASES(6)
#    endif
    default:
        break;
    }
}

/* One row alone, two panels at once: 8 sums keep both FMA units busy, 4 would wait for themselves.
 * weights of the second panel stand `next` floats behind the first's. sums [2][PANEL_COLUMNS]. */
CELL_INLINE void tile_pair(const bool is_streamed, const struct terms *terms, size_t next,
                           const float *start, float *sums)
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
        if (is_streamed) {
            prefetch_lines(LINES_ALL, weights + AHEAD_FLOATS);
            prefetch_lines(LINES_ALL, weights + next + AHEAD_FLOATS);
        }
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

/* A cell's weights as the product needs to know them. */
struct weights {
    const float *panel; /* of the panel at hand */
    const float *next;  /* of the panel whose turn is next, wherever that is */
    const float *bias;  /* [PANEL_COLUMNS] of the panel at hand */
    bool is_streamed;   /* they come from memory: prefetch */
};

static bool is_streamed(uint64_t terms, uint32_t panels)
{
    return terms * panels * PANEL_COLUMNS * sizeof(float) > STREAMED_BYTES;
}

/* The sums of both spans for one row and two neighbouring panels. */
static void product_pair(const struct weights *weights, const struct span spans[2], float *sums)
{
    size_t next = ((size_t)spans[0].k + spans[1].k) * PANEL_COLUMNS;
    const float *middle = weights->panel + spans[0].k * PANEL_COLUMNS;
    struct terms x = {weights->panel, spans[0].rows, 0, spans[0].k, LINES_NONE, NULL};
    struct terms h = {middle, spans[1].rows, 0, spans[1].k, LINES_NONE, NULL};
    if (weights->is_streamed) {
        tile_pair(true, &x, next, weights->bias, sums);
        tile_pair(true, &h, next, sums, sums);
    } else {
        tile_pair(false, &x, next, weights->bias, sums);
        tile_pair(false, &h, next, sums, sums);
    }
}

/* One block of k over all rows, tile by tile. bias NULL: the sums go on. ahead: the weights to ask
 * for meanwhile, all of them by the only tile or half each by the first two; NULL: none. */
static void add_block(const struct terms *block, const float *bias, uint32_t n_rows, float *sums,
                      const float *ahead)
{
    uint32_t tiles = (n_rows + CELL_TILE_ROWS - 1) / CELL_TILE_ROWS;
    uint32_t first = 0;
    for (uint32_t t = 0; t < tiles; t++) {
        uint32_t end = n_rows * (t + 1) / tiles; // balanced: 10 rows are 5 + 5, not 6 + 4
        struct terms terms = *block;
        float *own = sums + first * PANEL_COLUMNS;
        terms.rows += first;
        if (ahead != NULL && t < 2) {
            terms.lines = tiles == 1 ? LINES_ALL : LINES_HALF;
            terms.ahead = ahead + t * (size_t)LINES_HALF * block->k * LINE_FLOATS;
        }
        tile_of(end - first, &terms, bias == NULL ? own : bias, bias == NULL ? PANEL_COLUMNS : 0,
                own);
        first = end;
    }
}

/* The sums of both spans for one panel and up to GROUP_ROWS rows; spans[0].k > 0. */
static void product(const struct weights *weights, const struct span spans[2], uint32_t n_rows,
                    float *sums)
{
    bool is_one_tile = n_rows <= CELL_TILE_ROWS;
    uint32_t most = is_one_tile            ? UINT32_MAX
                    : weights->is_streamed ? BLOCK_TERMS_STREAMED
                                           : BLOCK_TERMS_CACHED;
    const float *bias = weights->bias;
    const float *at = weights->panel;
    const float *end = at + ((size_t)spans[0].k + spans[1].k) * PANEL_COLUMNS;
    for (uint32_t s = 0; s < 2; s++) {
        struct terms block = {.rows = spans[s].rows};
        for (; block.at < spans[s].k; block.at += block.k) {
            uint32_t left = spans[s].k - block.at;
            block.k = left < most ? left : most;
            block.weights = at;
            at += block.k * PANEL_COLUMNS;
            const float *ahead = is_one_tile ? block.weights + AHEAD_FLOATS
                                 : at < end  ? at
                                             : weights->next;
            add_block(&block, bias, n_rows, sums, weights->is_streamed ? ahead : NULL);
            bias = NULL;
        }
    }
}

#endif
#endif
