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

#    define TILE_ROWS_MAX 8u

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

/* Where the sums of a tile come from and go. start_stride 0: from the bias, the same for each row.
 */
struct sums {
    const float *start;
    size_t start_stride;
    float *to; /* [rows][vectors of the panel] */
};

CELL_INLINE void load_sums(const size_t vectors, const uint32_t rows, const struct sums *sums,
                           simd_vec sum[][VECTORS_MAX])
{
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = simd_load(sums->start + r * sums->start_stride + v * CELL_SIMD_LANES);
        }
    }
}

CELL_INLINE void store_sums(const size_t vectors, const uint32_t rows, size_t stride,
                            simd_vec sum[][VECTORS_MAX], float *to)
{
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            simd_store(to + r * stride + v * CELL_SIMD_LANES, sum[r][v]);
        }
    }
}

/* One term of each row: element k of in[]. The weights of the term wait in registers, the rows'
 * elements come one by one: for many rows of few vectors. */
CELL_INLINE void add_term_of_few(const size_t vectors, const uint32_t rows, const float *weights,
                                 const float *in[], uint32_t k, simd_vec sum[][VECTORS_MAX])
{
    simd_vec w[VECTORS_MAX];
    CELL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        w[v] = simd_load(weights + v * CELL_SIMD_LANES);
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        simd_vec x = simd_set1(in[r][k]);
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = simd_fma(w[v], x, sum[r][v]);
        }
    }
}

/* The other way round, for 4 vectors. */
CELL_INLINE void add_term_of_4(const uint32_t rows, const float *weights, const float *in[],
                               uint32_t k, simd_vec sum[][VECTORS_MAX])
{
    simd_vec x[TILE_ROWS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        x[r] = simd_set1(in[r][k]);
    }
    CELL_UNROLL
    for (size_t v = 0; v < 4; v++) {
        simd_vec w = simd_load(weights + v * CELL_SIMD_LANES);
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            sum[r][v] = simd_fma(w, x[r], sum[r][v]);
        }
    }
}

/* Adds the terms to the sums of `vectors` vectors, from where weights and sums point, of a panel's
 * `of`. */
CELL_INLINE void tile(const size_t vectors, const size_t of, const uint32_t rows,
                      const uint32_t lines, const struct terms *terms, const struct sums *sums)
{
    simd_vec sum[TILE_ROWS_MAX][VECTORS_MAX];
    const float *in[TILE_ROWS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        in[r] = terms->rows[r] + terms->at;
    }
    load_sums(vectors, rows, sums, sum);
    const float *weights = terms->weights;
    const float *ahead = terms->ahead;
    for (uint32_t k = 0; k < terms->k; k++, weights += of * CELL_SIMD_LANES) {
        prefetch_lines(lines, ahead);
        ahead += lines * LINE_FLOATS;
        if (vectors == 4) {
            add_term_of_4(rows, weights, in, k, sum);
        } else {
            add_term_of_few(vectors, rows, weights, in, k, sum);
        }
    }
    store_sums(vectors, rows, of * CELL_SIMD_LANES, sum, sums->to);
}

/* A tile of `rows` rows that asks for `lines` lines a term: one function each, all loops unrolled.
 */
#    define TILE_WHOLE(vectors, rows, lines)                                                       \
    case (rows)*8 + (lines):                                                                       \
        tile(vectors, vectors, rows, lines, terms, sums);                                          \
        break;
#    define TILE_HALF(vectors, rows, lines)                                                        \
    case (rows)*8 + (lines):                                                                       \
        tile((vectors) / 2, vectors, rows, lines, terms, sums);                                    \
        break;
#    if CELL_TILE_LINES == 4 /* of a term of 4 vectors */
#        define TILE_CASES(one, vectors, rows)                                                     \
            one(vectors, rows, 0) one(vectors, rows, 1) one(vectors, rows, 2)                      \
                one(vectors, rows, 3) one(vectors, rows, 4)
#    else
#        define TILE_CASES(one, vectors, rows)                                                     \
            one(vectors, rows, 0) one(vectors, rows, 1) one(vectors, rows, 2)
#    endif

static void tile_of_4(uint32_t rows, const struct terms *terms, const struct sums *sums)
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

static void tile_of_3(uint32_t rows, const struct terms *terms, const struct sums *sums)
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
 * for themselves. Sums and their start lie behind each other, [panels][vectors]. */
CELL_INLINE void tile_row(const size_t panels, const size_t vectors, const bool is_streamed,
                          const struct span *span, const struct sums *sums)
{
    const size_t next =
        span->k * vectors * CELL_SIMD_LANES; // the next panel's weights behind these
    const float *in = span->rows[0];
    const float *weights = span->weights;
    simd_vec sum[3 * 3];
    CELL_UNROLL
    for (size_t v = 0; v < panels * vectors; v++) {
        sum[v] = simd_load(sums->start + v * CELL_SIMD_LANES);
    }
    for (uint32_t k = 0; k < span->k; k++, weights += vectors * CELL_SIMD_LANES) {
        simd_vec x = simd_set1(in[k]);
        CELL_UNROLL
        for (size_t v = 0; v < panels * vectors; v++) {
            const float *w = weights + v / vectors * next + v % vectors * CELL_SIMD_LANES;
            if (is_streamed && v % vectors == 0) {
                prefetch_lines(lines_of(vectors), w + AHEAD_FLOATS);
            }
            sum[v] = simd_fma(simd_load(w), x, sum[v]);
        }
    }
    CELL_UNROLL
    for (size_t v = 0; v < panels * vectors; v++) {
        simd_store(sums->to + v * CELL_SIMD_LANES, sum[v]);
    }
}

/* Panels that one row alone takes at once. */
CELL_INLINE uint32_t panels_of_row(const size_t vectors)
{
    return vectors == 3 ? 3 : 2;
}

/* Adds a span for one row and panels_of_row() neighbouring panels. */
CELL_INLINE void add_row(const size_t vectors, const struct span *span, bool is_streamed,
                         const struct sums *sums)
{
    if (is_streamed) {
        tile_row(panels_of_row(vectors), vectors, true, span, sums);
    } else {
        tile_row(panels_of_row(vectors), vectors, false, span, sums);
    }
}

/* Prefetched are weights that many rows wait for and the core's own caches do not hold, and those
 * that come from memory. bytes: of what one step reads. */
static bool is_streamed(uint64_t bytes, uint32_t rows)
{
    return bytes > (rows >= CELL_STREAMED_ROWS ? CELL_STREAMED_BYTES : CELL_SHARED_CACHE_BYTES);
}

/* A panel's product for up to GROUP_ROWS rows. The first span has terms. */
struct product {
    const struct span *spans;
    uint32_t n_spans, n_rows;
    bool is_streamed;
    const float *bias; /* [vectors]; NULL: the sums begin as they are */
    float *sums;       /* [n_rows][vectors] */
};

/* One block of k over all rows, tile by tile. ahead: the weights to ask for meanwhile, all of them
 * by the only tile or a part each by the first two; NULL: none. */
CELL_INLINE void add_block(const size_t vectors, const struct product *product,
                           const struct terms *block, const float *bias, const float *ahead)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    uint32_t tiles = (product->n_rows + rows_max(vectors) - 1) / rows_max(vectors);
    uint32_t first = 0;
    uint32_t pass = 0;
    for (uint32_t t = 0; t < tiles; t++) {
        uint32_t end = product->n_rows * (t + 1) / tiles; // balanced: 10 rows are 5 + 5, not 6 + 4
        uint32_t halves = halves_of(vectors, end - first);
        for (uint32_t half = 0; half < halves; half++, pass++) {
            size_t column = half * columns / 2;
            struct terms terms = *block;
            float *own = product->sums + first * columns + column;
            terms.rows += first;
            terms.weights += column;
            if (ahead != NULL && pass < 2) {
                uint32_t lines = lines_of(vectors);
                uint32_t part = tiles * halves == 1 ? lines : (lines + 1) / 2;
                terms.lines = pass == 0 ? part : lines - part;
                terms.ahead = ahead + pass * (size_t)part * block->k * LINE_FLOATS;
            }
            struct sums sums = {bias == NULL ? own : bias + column, bias == NULL ? columns : 0,
                                own};
            if (vectors == 3) {
                tile_of_3(end - first, &terms, &sums);
            } else {
                tile_of_4(end - first, &terms, &sums);
            }
        }
        first = end;
    }
}

CELL_INLINE void multiply(const size_t vectors, const struct product *product)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    // In one pass there is nothing to be found in a nearer cache.
    bool is_one_pass =
        product->n_rows <= rows_max(vectors) && halves_of(vectors, product->n_rows) == 1;
    size_t bytes = product->is_streamed ? CELL_BLOCK_STREAMED_BYTES : CELL_BLOCK_CACHED_BYTES;
    uint32_t most = is_one_pass ? UINT32_MAX : (uint32_t)(bytes / (columns * sizeof(float)));
    const float *bias = product->bias;
    for (uint32_t s = 0; s < product->n_spans; s++) {
        const struct span *span = &product->spans[s];
        struct terms block = {.rows = span->rows};
        const float *at = span->weights;
        for (; block.at < span->k; block.at += block.k) {
            uint32_t left = span->k - block.at;
            block.k = left < most ? left : most;
            block.weights = at;
            at += block.k * columns;
            const float *ahead = is_one_pass      ? block.weights + AHEAD_FLOATS
                                 : left > block.k ? at
                                                  : span->next;
            add_block(vectors, product, &block, bias, product->is_streamed ? ahead : NULL);
            bias = NULL;
        }
    }
}

#endif
#endif
