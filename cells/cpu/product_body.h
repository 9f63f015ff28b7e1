/* The product: sums of one panel (4 vectors of columns) for some rows, over rows of x and then of
 * h, read where they stand through row pointers.
 *
 *             k ->                         weights of the panel: [k][4 vectors], one stream
 *   row r   x x x x x | h h h h        a tile: up to 6 rows x 4 or 2 vectors in registers, one
 *   row r+1 x x x x x | h h h h                fused multiply-add a term, k ascending
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

/* The most rows of a tile. With 16 registers a tile of more than CELL_TILE_ROWS rows is half as
 * wide and goes over the panel twice: each of the two passes reads the other half of every cache
 * line pair, so that a tile of 6 rows reads no more of the weights than one of 3. */
#    define ROWS_MAX        6u
#    define HALVES_OF(rows) ((rows) > CELL_TILE_ROWS ? 2u : 1u)

/* Rows that go through a panel together: their sums, 64 columns wide, take 8 KiB of L1. */
#    define GROUP_ROWS 32u

/* Terms in a block of k, when the rows need more than one pass. The first pass reads a block, the
 * others find it in a nearer cache; a streamed one has been asked for by then. */
#    define BLOCK_TERMS(bytes) ((uint32_t)((bytes) / (PANEL_COLUMNS * sizeof(float))))

#    define LINE_FLOATS    ((size_t)16)
#    define LINES_PER_TERM ((uint32_t)(PANEL_COLUMNS / LINE_FLOATS))

/* Weights of a cell beyond this do not stay in a shared L3 between two steps; the hardware looks
 * too short a way ahead for memory. */
#    define CELL_SHARED_CACHE_BYTES ((size_t)12 << 20)

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
CELL_INLINE void tile_whole(const uint32_t rows, const enum lines lines, const struct terms *terms,
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

/* The same for the first 2 vectors of the panel's 4 from where weights, start and sums point. */
CELL_INLINE void tile_half(const uint32_t rows, const enum lines lines, const struct terms *terms,
                           const float *start, size_t start_stride, float *sums)
{
    simd_vec sum[ROWS_MAX][2];
    const float *in[ROWS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        in[r] = terms->rows[r] + terms->at;
        sum[r][0] = simd_load(start + r * start_stride);
        sum[r][1] = simd_load(start + r * start_stride + CELL_SIMD_LANES);
    }
    const float *weights = terms->weights;
    const float *ahead = terms->ahead;
    for (uint32_t k = 0; k < terms->k; k++, weights += PANEL_COLUMNS) {
        simd_vec first = simd_load(weights);
        simd_vec second = simd_load(weights + CELL_SIMD_LANES);
        prefetch_lines(lines, ahead);
        ahead += lines * LINE_FLOATS;
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            simd_vec x = simd_set1(in[r][k]);
            sum[r][0] = simd_fma(first, x, sum[r][0]);
            sum[r][1] = simd_fma(second, x, sum[r][1]);
        }
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        simd_store(sums + r * PANEL_COLUMNS, sum[r][0]);
        simd_store(sums + r * PANEL_COLUMNS + CELL_SIMD_LANES, sum[r][1]);
    }
}

/* A tile of `rows` rows that asks for `lines` lines: one function each, all loops unrolled. */
#    define TILE_CASE(tile, rows, lines)                                                           \
    case (rows)*8 + (lines):                                                                       \
        tile(rows, lines, terms, start, start_stride, sums);                                       \
        break;
#    define TILE_CASES(tile, rows)                                                                 \
        TILE_CASE(tile, rows, LINES_NONE)                                                          \
        TILE_CASE(tile, rows, LINES_HALF)                                                          \
        TILE_CASE(tile, rows, LINES_ALL)

static void tile_of(uint32_t rows, const struct terms *terms, const float *start,
                    size_t start_stride, float *sums)
{
    switch (rows * 8 + terms->lines) {
        TILE_CASES(tile_whole, 1)
        TILE_CASES(tile_whole, 2)
        TILE_CASES(tile_whole, 3)
#    if CELL_TILE_ROWS >= 6
        TILE_CASES(tile_whole, 4)
        TILE_CASES(tile_whole, 5)
        TILE_CASES(tile_whole, 6)
#    else
        TILE_CASES(tile_half, 4)
        TILE_CASES(tile_half, 5)
        TILE_CASES(tile_half, 6)
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
    bool is_streamed;   /* they come from afar: prefetch */
};

/* Prefetched are weights that more than one row waits for and the core's own caches do not hold,
 * and those that come from memory. */
static bool is_streamed(uint64_t terms, uint32_t panels, uint32_t rows)
{
    uint64_t most = CELL_SHARED_CACHE_BYTES;
    if (rows > 1) {
        most = CELL_STREAMED_BYTES;
    }
    return terms * panels * PANEL_COLUMNS * sizeof(float) > most;
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
    uint32_t tiles = (n_rows + ROWS_MAX - 1) / ROWS_MAX;
    uint32_t first = 0;
    uint32_t pass = 0;
    for (uint32_t t = 0; t < tiles; t++) {
        uint32_t end = n_rows * (t + 1) / tiles; // balanced: 10 rows are 5 + 5, not 6 + 4
        uint32_t halves = HALVES_OF(end - first);
        for (uint32_t half = 0; half < halves; half++, pass++) {
            size_t column = half * PANEL_COLUMNS / 2;
            struct terms terms = *block;
            float *own = sums + first * PANEL_COLUMNS + column;
            terms.rows += first;
            terms.weights += column;
            if (ahead != NULL && pass < 2) {
                terms.lines = tiles * halves == 1 ? LINES_ALL : LINES_HALF;
                terms.ahead = ahead + pass * (size_t)LINES_HALF * block->k * LINE_FLOATS;
            }
            tile_of(end - first, &terms, bias == NULL ? own : bias + column,
                    bias == NULL ? PANEL_COLUMNS : 0, own);
        }
        first = end;
    }
}

/* The sums of both spans for one panel and up to GROUP_ROWS rows; spans[0].k > 0. */
static void product(const struct weights *weights, const struct span spans[2], uint32_t n_rows,
                    float *sums)
{
    bool is_one_tile = n_rows <= CELL_TILE_ROWS; // in one pass
    uint32_t most = is_one_tile            ? UINT32_MAX
                    : weights->is_streamed ? BLOCK_TERMS(CELL_BLOCK_STREAMED_BYTES)
                                           : BLOCK_TERMS(CELL_BLOCK_CACHED_BYTES);
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
