/* The product: sums of one panel (3 or 4 vectors of columns) for some rows, over rows of x, of h,
 * or of both, read where they stand through row pointers.
 *
 *             k ->                         weights of the panel: [k][3 or 4 vectors], a stream each
 *   row r   x x x x x | h h h h        a tile: up to 8 rows x 3 vectors or 6 x 4 (or 2) in
 * registers, row r+1 x x x x x | h h h h                one fused multiply-add a term, k ascending
 *
 * With more rows than one tile, k goes in blocks: a block of weights is read from L3 or memory by
 * the first tile and from a nearer cache by the others, and the sums wait in scratch meanwhile.
 * Storing and reloading a float changes no bit, so neither does the shape of tiles and blocks. */
#ifndef CELLS_CPU_PRODUCT_BODY_H
#define CELLS_CPU_PRODUCT_BODY_H

#include "cells/cpu/simd.h"

#include <stdbool.h>

#ifdef CELL_SIMD_LANES

/* Vectors of a panel: 4, but 3 of a GRU. */
#    define VECTORS_MAX ((size_t)4)
#    define COLUMNS_MAX (VECTORS_MAX * CELL_SIMD_LANES)

/* Rows that go through a panel together: their sums, 64 columns wide, take 8 KiB of L1. */
#    define GROUP_ROWS 32u

#    define LINE_FLOATS ((size_t)16)

/* Weights of a cell beyond this do not stay in a shared L3 between two steps; the hardware looks
 * too short a way ahead for memory. */
#    define CELL_SHARED_CACHE_BYTES ((size_t)12 << 20)

/* How far ahead where k does not go in blocks. */
#    define AHEAD_FLOATS 2048u

/* The most rows of a tile. */
CELL_INLINE uint32_t rows_max(const size_t vectors)
{
    return vectors == 3 ? CELL_TILE_ROWS_OF_3 : CELL_TILE_ROWS_OF_2;
}

/* With 16 registers a tile of 4 vectors and more than CELL_TILE_ROWS_OF_4 rows is half as wide and
 * goes over the panel twice: each of the two passes reads the other half of every cache line pair,
 * so that a tile of 6 rows reads no more of the weights than one of 3. */
CELL_INLINE uint32_t halves_of(const size_t vectors, uint32_t rows)
{
    return vectors == 4 && rows > CELL_TILE_ROWS_OF_4 ? 2 : 1;
}

/* Cache lines of one term. */
CELL_INLINE uint32_t lines_of(const size_t vectors)
{
    return (uint32_t)((vectors * CELL_SIMD_LANES + LINE_FLOATS - 1) / LINE_FLOATS);
}

/* One part of the sum: x or h. */
struct span {
    const float *const *rows; /* [n_rows] -> [k] */
    uint32_t k;
    const float *weights; /* of the panel at hand: [k][vectors] */
    const float *next;    /* what will be read behind them: of the next span or panel */
};

/* What a tile adds: terms at..at+k-1 of its rows; and the weights it asks for meanwhile. */
struct terms {
    const float *weights; /* [k][vectors of the panel] */
    const float *const *rows;
    uint32_t at, k;
    uint32_t lines;     /* cache lines of weights to ask for with every term, 0..4 */
    const float *ahead; /* from here on */
};

CELL_INLINE void prefetch_lines(const uint32_t lines, const float *from)
{
    CELL_UNROLL
    for (uint32_t l = 0; l < lines; l++) {
        __builtin_prefetch(from + l * LINE_FLOATS);
    }
}

/* sums [rows][vectors] = start + terms; start_stride 0: the bias, the same for each row. 3 vectors
 * leave room for the weights of a term in registers; with 4 the rows' elements take that room. */
CELL_INLINE void tile_whole(const size_t vectors, const uint32_t rows, const uint32_t lines,
                            const struct terms *terms, const float *start, size_t start_stride,
                            float *sums)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    simd_vec sum[CELL_TILE_ROWS_OF_3][VECTORS_MAX];
    const float *in[CELL_TILE_ROWS_OF_3];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        in[r] = terms->rows[r] + terms->at;
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = simd_load(start + r * start_stride + v * CELL_SIMD_LANES);
        }
    }
    const float *weights = terms->weights;
    const float *ahead = terms->ahead;
    for (uint32_t k = 0; k < terms->k; k++, weights += columns) {
        prefetch_lines(lines, ahead);
        ahead += lines * LINE_FLOATS;
        if (vectors == 3) {
            simd_vec w[3];
            CELL_UNROLL
            for (size_t v = 0; v < 3; v++) {
                w[v] = simd_load(weights + v * CELL_SIMD_LANES);
            }
            CELL_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                simd_vec x = simd_set1(in[r][k]);
                CELL_UNROLL
                for (size_t v = 0; v < 3; v++) {
                    sum[r][v] = simd_fma(w[v], x, sum[r][v]);
                }
            }
            continue;
        }
        simd_vec x[CELL_TILE_ROWS_OF_3];
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            x[r] = simd_set1(in[r][k]);
        }
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
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
        for (size_t v = 0; v < vectors; v++) {
            simd_store(sums + r * columns + v * CELL_SIMD_LANES, sum[r][v]);
        }
    }
}

/* The same for the first 2 vectors of the panel's 4 from where weights, start and sums point. */
CELL_INLINE void tile_half(const uint32_t rows, const uint32_t lines, const struct terms *terms,
                           const float *start, size_t start_stride, float *sums)
{
    simd_vec sum[CELL_TILE_ROWS_OF_2][2];
    const float *in[CELL_TILE_ROWS_OF_2];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        in[r] = terms->rows[r] + terms->at;
        sum[r][0] = simd_load(start + r * start_stride);
        sum[r][1] = simd_load(start + r * start_stride + CELL_SIMD_LANES);
    }
    const float *weights = terms->weights;
    const float *ahead = terms->ahead;
    for (uint32_t k = 0; k < terms->k; k++, weights += COLUMNS_MAX) {
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
        simd_store(sums + r * COLUMNS_MAX, sum[r][0]);
        simd_store(sums + r * COLUMNS_MAX + CELL_SIMD_LANES, sum[r][1]);
    }
}

/* A tile of `rows` rows that asks for `lines` lines a term: one function each, all loops unrolled.
 */
#    define TILE_WHOLE(vectors, rows, lines)                                                       \
    case (rows)*8 + (lines):                                                                       \
        tile_whole(vectors, rows, lines, terms, start, start_stride, sums);                        \
        break;
#    define TILE_HALF(vectors, rows, lines)                                                        \
    case (rows)*8 + (lines):                                                                       \
        tile_half(rows, lines, terms, start, start_stride, sums);                                  \
        break;
#    if CELL_TILE_LINES == 4 /* of a term of 4 vectors */
#        define TILE_CASES(tile, vectors, rows)                                                    \
            tile(vectors, rows, 0) tile(vectors, rows, 1) tile(vectors, rows, 2)                   \
                tile(vectors, rows, 3) tile(vectors, rows, 4)
#    else
#        define TILE_CASES(tile, vectors, rows)                                                    \
            tile(vectors, rows, 0) tile(vectors, rows, 1) tile(vectors, rows, 2)
#    endif

static void tile_of_4(uint32_t rows, const struct terms *terms, const float *start,
                      size_t start_stride, float *sums)
{
    switch (rows * 8 + terms->lines) {
        TILE_CASES(TILE_WHOLE, 4, 1)
        TILE_CASES(TILE_WHOLE, 4, 2)
        TILE_CASES(TILE_WHOLE, 4, 3)
#    if CELL_TILE_ROWS_OF_4 >= 6
        TILE_CASES(TILE_WHOLE, 4, 4)
        TILE_CASES(TILE_WHOLE, 4, 5)
        TILE_CASES(TILE_WHOLE, 4, 6)
#    else
        TILE_CASES(TILE_HALF, 4, 4)
        TILE_CASES(TILE_HALF, 4, 5)
        TILE_CASES(TILE_HALF, 4, 6)
#    endif
    default:
        break;
    }
}

static void tile_of_3(uint32_t rows, const struct terms *terms, const float *start,
                      size_t start_stride, float *sums)
{
    switch (rows * 8 + terms->lines) {
        TILE_CASES(TILE_WHOLE, 3, 1)
        TILE_CASES(TILE_WHOLE, 3, 2)
        TILE_CASES(TILE_WHOLE, 3, 3)
        TILE_CASES(TILE_WHOLE, 3, 4)
#    if CELL_TILE_ROWS_OF_3 >= 8
        TILE_CASES(TILE_WHOLE, 3, 5)
        TILE_CASES(TILE_WHOLE, 3, 6)
        TILE_CASES(TILE_WHOLE, 3, 7)
        TILE_CASES(TILE_WHOLE, 3, 8)
#    endif
    default:
        break;
    }
}

/* One row alone, several panels at once: 8 or 9 sums keep both FMA units busy, 3 or 4 would wait
 * for themselves. Weights of the next panel stand `next` floats behind. sums [panels][vectors]. */
CELL_INLINE void tile_row(const size_t panels, const size_t vectors, const bool is_streamed,
                          const struct terms *terms, size_t next, const float *start, float *sums)
{
    const size_t n = panels * vectors;
    simd_vec sum[3 * 3];
    const float *in = terms->rows[0] + terms->at;
    const float *weights = terms->weights;
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        sum[v] = simd_load(start + v * CELL_SIMD_LANES);
    }
    for (uint32_t k = 0; k < terms->k; k++, weights += vectors * CELL_SIMD_LANES) {
        simd_vec x = simd_set1(in[k]);
        CELL_UNROLL
        for (size_t p = 0; p < panels; p++) {
            if (is_streamed) {
                prefetch_lines(lines_of(vectors), weights + p * next + AHEAD_FLOATS);
            }
            CELL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                simd_vec w = simd_load(weights + p * next + v * CELL_SIMD_LANES);
                sum[p * vectors + v] = simd_fma(w, x, sum[p * vectors + v]);
            }
        }
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        simd_store(sums + v * CELL_SIMD_LANES, sum[v]);
    }
}

/* Panels that one row alone takes at once. */
CELL_INLINE uint32_t panels_of_row(const size_t vectors)
{
    return vectors == 3 ? 3 : 2;
}

/* Adds a span for one row and panels_of_row() neighbouring panels. */
CELL_INLINE void add_row(const size_t vectors, const struct span *span, bool is_streamed,
                         const float *start, float *sums)
{
    struct terms terms = {.weights = span->weights, .rows = span->rows, .k = span->k};
    size_t next = span->k * vectors * CELL_SIMD_LANES;
    if (is_streamed) {
        tile_row(panels_of_row(vectors), vectors, true, &terms, next, start, sums);
    } else {
        tile_row(panels_of_row(vectors), vectors, false, &terms, next, start, sums);
    }
}

/* Prefetched are weights that many rows wait for and the core's own caches do not hold, and those
 * that come from memory. bytes: of what one step reads. */
static bool is_streamed(uint64_t bytes, uint32_t rows)
{
    return bytes > (rows >= CELL_STREAMED_ROWS ? CELL_STREAMED_BYTES : CELL_SHARED_CACHE_BYTES);
}

/* One block of k over all rows, tile by tile. start NULL: the sums go on. ahead: the weights to ask
 * for meanwhile, all of them by the only tile or a part each by the first two; NULL: none. */
CELL_INLINE void add_block(const size_t vectors, const struct terms *block, const float *start,
                           uint32_t n_rows, float *sums, const float *ahead)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    uint32_t tiles = (n_rows + rows_max(vectors) - 1) / rows_max(vectors);
    uint32_t first = 0;
    uint32_t pass = 0;
    for (uint32_t t = 0; t < tiles; t++) {
        uint32_t end = n_rows * (t + 1) / tiles; // balanced: 10 rows are 5 + 5, not 6 + 4
        uint32_t halves = halves_of(vectors, end - first);
        for (uint32_t half = 0; half < halves; half++, pass++) {
            size_t column = half * columns / 2;
            struct terms terms = *block;
            float *own = sums + first * columns + column;
            terms.rows += first;
            terms.weights += column;
            if (ahead != NULL && pass < 2) {
                uint32_t lines = lines_of(vectors);
                uint32_t part = tiles * halves == 1 ? lines : (lines + 1) / 2;
                terms.lines = pass == 0 ? part : lines - part;
                terms.ahead = ahead + pass * (size_t)part * block->k * LINE_FLOATS;
            }
            const float *from = start == NULL ? own : start + column;
            size_t stride = start == NULL ? columns : 0;
            if (vectors == 3) {
                tile_of_3(end - first, &terms, from, stride, own);
            } else {
                tile_of_4(end - first, &terms, from, stride, own);
            }
        }
        first = end;
    }
}

/* Adds the spans for one panel and up to GROUP_ROWS rows to sums [rows][vectors], which begin as
 * they are or, with a bias, as that. The first span has terms. */
CELL_INLINE void product(const size_t vectors, const struct span *spans, uint32_t n_spans,
                         bool is_streamed, const float *bias, uint32_t n_rows, float *sums)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    // In one pass there is nothing to be found in a nearer cache.
    bool is_one_pass = n_rows <= rows_max(vectors) && halves_of(vectors, n_rows) == 1;
    size_t bytes = is_streamed ? CELL_BLOCK_STREAMED_BYTES : CELL_BLOCK_CACHED_BYTES;
    uint32_t most = is_one_pass ? UINT32_MAX : (uint32_t)(bytes / (columns * sizeof(float)));
    for (uint32_t s = 0; s < n_spans; s++) {
        struct terms block = {.rows = spans[s].rows};
        const float *at = spans[s].weights;
        for (; block.at < spans[s].k; block.at += block.k) {
            uint32_t left = spans[s].k - block.at;
            block.k = left < most ? left : most;
            block.weights = at;
            at += block.k * columns;
            const float *ahead = is_one_pass      ? block.weights + AHEAD_FLOATS
                                 : left > block.k ? at
                                                  : spans[s].next;
            add_block(vectors, &block, bias, n_rows, sums, is_streamed ? ahead : NULL);
            bias = NULL;
        }
    }
}

#endif
#endif
