/* The product: sums of one panel (3 to 5 vectors of columns) for some rows, over rows of x, of h,
 * or of both, read where they stand through row pointers.
 *
 *             k ->                       weights of the panel: [k][3 to 5 vectors], a stream each
 *   row r   x x x x x | h h h h
 *   row r+1 x x x x x | h h h h          a tile: some rows by some vectors of sums in registers,
 *   row r+2 x x x x x | h h h h          one fused multiply-add a term, k ascending
 *
 * Rows that fit one tile go through a panel at once; more go tile by tile, and all but the first
 * find the panel in the core's own caches. The terms of a sum never leave their order, so the shape
 * of tiles changes no bit. */
#ifndef CELLS_CPU_PRODUCT_BODY_H
#define CELLS_CPU_PRODUCT_BODY_H

#include "cells/cpu/update_body.h"

#ifdef CELL_SIMD_LANES

/* Rows that go through a panel together: their sums, 64 columns wide, take 9 KiB of L1 (80: 12). */
#    define GROUP_ROWS 36u

/* A weight as it is held, and how many terms of a sum it is: with bf16 one, widened to a float; or,
 * where an instruction multiplies words of two, such a word, for which a float stands. */
#    ifdef CELL_WEIGHTS_BF16
#        ifdef CELL_BF16_WORDS
typedef float weight;
#            define WEIGHT_TERMS 2u
#        else
typedef uint16_t weight;
#            define WEIGHT_TERMS 1u
#            define WEIGHT_HALVES
#        endif
#    else
typedef float weight;
#        define WEIGHT_TERMS 1u
#    endif

#    define LINE_WEIGHTS ((size_t)64 / sizeof(weight))

/* With more rows than a tile has: a panel of up to so many terms stays in L2 until all tiles have
 * been there; one of more goes in blocks. */
#    define PANEL_TERMS_MAX (4096u / (uint32_t)sizeof(weight))
#    define BLOCK_TERMS     64u

/* How far ahead weights are asked for: enough for L2, and for memory. Of the next panel only a
 * few are asked for at the end of one: L1 has 12 line buffers. */
#    define NEAR_TERMS  8u
#    define FAR_WEIGHTS (8192u / sizeof(weight))
#    define NEXT_TERMS  2u

/* Rows from which near weights are asked for; with fewer the loads themselves run ahead. */
#    define NEAR_ROWS 3u

#    define TILE_ROWS_MAX 12u

/* The most rows that go through a panel at once: of 5 vectors the wider part takes 3. */
CELL_INLINE uint32_t rows_at_once(const size_t vectors)
{
    return vectors == 4 ? CELL_TILE_ROWS_OF_2 : CELL_TILE_ROWS_OF_3;
}

/* Rows of the next tile when more than rows_at_once() are to be shared out, of which `left` are
 * left. With 32 registers a tile of 6 rows and 4 vectors is the fastest of all; what is left over
 * goes at once. With 16 no tile stands out: even shares. */
CELL_INLINE uint32_t next_rows(const size_t vectors, uint32_t left)
{
    const uint32_t most = rows_at_once(vectors);
    if (vectors == 4 && most > CELL_TILE_ROWS_OF_4 && CELL_SIMD_LANES == 16) {
        return left >= most ? CELL_TILE_ROWS_OF_4 : left;
    }
    uint32_t tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

/* A tile of 4 vectors and more than CELL_TILE_ROWS_OF_4 rows is half as wide and goes over the
 * panel twice: each of the two passes reads other cache lines, so that it reads no more of the
 * weights than a tile of few rows. One of 5 likewise, 2 vectors and then 3. */
CELL_INLINE uint32_t halves_of(const size_t vectors, uint32_t rows)
{
    return vectors == 4   ? (rows > CELL_TILE_ROWS_OF_4 ? 2 : 1)
           : vectors == 5 ? (rows > CELL_TILE_ROWS_OF_5 ? 2 : 1)
                          : 1;
}

/* Cache lines of one term. */
CELL_INLINE uint32_t lines_of(const size_t vectors)
{
    return (uint32_t)((vectors * CELL_SIMD_LANES + LINE_WEIGHTS - 1) / LINE_WEIGHTS);
}

/* One part of the sum: x or h. An element of a row is what is multiplied with a weight: of words
 * another word. */
struct span {
    const float *const *rows; /* [n_rows] -> [k] */
    uint32_t k;
    const weight *weights; /* of the panel at hand: [k][vectors] */
    const weight *next;    /* what will be read behind them: of the next span, block or panel */
    const weight *later;   /* what will be read when all rows have been here: [k][vectors] */
};

/* A panel's product for up to GROUP_ROWS rows. The first span has terms. */
struct product {
    const struct span *spans;
    uint32_t n_spans, n_rows;
    bool is_streamed;
    struct starts start; /* [vectors] a row */
    struct ends end;
};

CELL_INLINE void prefetch_lines(const uint32_t lines, const weight *from)
{
    CELL_UNROLL
    for (uint32_t l = 0; l < lines; l++) {
        __builtin_prefetch(from + l * LINE_WEIGHTS);
    }
}

/* The same for a nearer but not the nearest cache. */
CELL_INLINE void prefetch_later(const size_t lines, const weight *from)
{
    CELL_UNROLL
    for (size_t l = 0; l < lines; l++) {
        __builtin_prefetch(from + l * LINE_WEIGHTS, 0, 2);
    }
}

CELL_INLINE simd_vec add_product(simd_vec w, simd_vec x, simd_vec sum)
{
#    if WEIGHT_TERMS == 2
    return simd_fma_words(w, x, sum);
#    else
    return simd_fma(w, x, sum);
#    endif
}

/* Vector v of the `vectors` that one term has at `from`. */
#    ifdef WEIGHT_HALVES
CELL_INLINE simd_vec load_weights(const size_t vectors, const weight *from, size_t v)
{
    const weight *pair = from + v / 2 * 2 * CELL_SIMD_LANES;
    return (v | 1) >= vectors ? simd_load_bf16(pair)
           : v % 2 == 0       ? simd_load_low_bf16(pair)
                              : simd_load_high_bf16(pair);
}
#    else
CELL_INLINE simd_vec load_weights(const size_t vectors, const weight *from, size_t v)
{
    (void)vectors;
    return simd_load(from + v * CELL_SIMD_LANES);
}
#    endif

/* One term of each row: element k of in[]. The weights of the term wait in registers, the rows'
 * elements come one by one: for many rows of few vectors, and where an element needs no register
 * for all of its lanes. */
CELL_INLINE void add_term_of_few(const size_t vectors, const uint32_t rows, const weight *weights,
                                 const float *in[], uint32_t k, simd_vec sum[][VECTORS_MAX])
{
    simd_vec w[VECTORS_MAX];
    CELL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        w[v] = simd_keep(load_weights(vectors, weights, v));
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        simd_vec x = simd_set1(in[r][k]);
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = add_product(w[v], x, sum[r][v]);
        }
    }
}

/* Two terms of each row, one after the other: rows that are many take their pointers from the
 * stack, once for both. */
CELL_INLINE void add_two_terms_of_2(const uint32_t rows, const weight *weights,
                                    const weight *second, const float *in[], uint32_t k,
                                    simd_vec sum[][VECTORS_MAX])
{
    simd_vec w[2][2];
    CELL_UNROLL
    for (size_t v = 0; v < 2; v++) {
        w[0][v] = load_weights(2, weights, v);
        w[1][v] = load_weights(2, second, v);
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        const float *at = in[r] + k;
        simd_vec x = simd_set1(at[0]);
        sum[r][0] = add_product(w[0][0], x, sum[r][0]);
        sum[r][1] = add_product(w[0][1], x, sum[r][1]);
        x = simd_set1(at[1]);
        sum[r][0] = add_product(w[1][0], x, sum[r][0]);
        sum[r][1] = add_product(w[1][1], x, sum[r][1]);
    }
}

#    ifdef WEIGHT_HALVES
/* For 4 or 5 vectors that come in pairs: one pair after the other. */
CELL_INLINE void add_term_of_many(const size_t vectors, const uint32_t rows, const weight *weights,
                                  const float *in[], uint32_t k, simd_vec sum[][VECTORS_MAX])
{
    CELL_UNROLL
    for (size_t first = 0; first < vectors; first += 2) {
        const size_t n = first + 1 < vectors ? 2 : 1;
        simd_vec w[2];
        CELL_UNROLL
        for (size_t v = 0; v < n; v++) {
            w[v] = simd_keep(load_weights(vectors, weights, first + v));
        }
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            simd_vec x = simd_set1(in[r][k]);
            CELL_UNROLL
            for (size_t v = 0; v < n; v++) {
                sum[r][first + v] = add_product(w[v], x, sum[r][first + v]);
            }
        }
    }
}
#    else
/* The other way round, for 4 or 5 vectors. */
CELL_INLINE void add_term_of_many(const size_t vectors, const uint32_t rows, const weight *weights,
                                  const float *in[], uint32_t k, simd_vec sum[][VECTORS_MAX])
{
    simd_vec x[TILE_ROWS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        x[r] = simd_set1(in[r][k]);
    }
    CELL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        simd_vec w = simd_keep(load_weights(vectors, weights, v));
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            sum[r][v] = add_product(w, x[r], sum[r][v]);
        }
    }
}
#    endif

/* Weights that a tile asks for while it computes, so that they have come when they are needed: near
 * ones, some terms ahead; far ones, more terms ahead; or near ones and one or two cache lines a
 * term of those for later. */
enum asks { ASKS_NOTHING, ASKS_NEAR, ASKS_FAR, ASKS_LATER, ASKS_LATER_2, ASKS_COUNT };

/* The rows from `row` on of a product, and the vectors from column `column` on. */
struct tile {
    const struct product *product;
    uint32_t row;
    size_t column;
    uint32_t asked; /* lines of a later term that have been asked for */
};

/* All terms of all spans, for `rows` rows and `vectors` of a panel's `of` vectors. What lies past
 * the last terms is asked for as well, and does no harm. */
CELL_INLINE void add_tile(const size_t vectors, const size_t of, const uint32_t rows,
                          const enum asks asks, const struct tile *tile)
{
    const size_t columns = of * CELL_SIMD_LANES;
    const uint32_t lines = asks == ASKS_NOTHING ? 0 : lines_of(vectors);
    const size_t distance = asks == ASKS_FAR ? FAR_WEIGHTS / columns : NEAR_TERMS;
    const size_t later_lines = asks == ASKS_LATER ? 1 : asks == ASKS_LATER_2 ? 2 : 0;
    const struct product *product = tile->product;
    simd_vec sum[TILE_ROWS_MAX][VECTORS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        const float *start = start_of(&product->start, tile->row + r) + tile->column;
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = simd_load(start + v * CELL_SIMD_LANES);
        }
    }
    for (uint32_t s = 0; s < product->n_spans; s++) {
        const struct span *span = &product->spans[s];
        const float *in[TILE_ROWS_MAX];
        const weight *weights = span->weights + tile->column;
        const weight *later = span->later + (size_t)tile->asked * span->k * LINE_WEIGHTS;
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            in[r] = span->rows[tile->row + r];
        }
        uint32_t k = 0;
        for (; vectors == 2 && CELL_TILE_TERMS_OF_2 == 2 && k + 1 < span->k; k += 2) {
            prefetch_lines(lines, weights + distance * columns);
            prefetch_lines(lines, weights + (distance + 1) * columns);
            prefetch_later(2 * later_lines, later);
            later += 2 * later_lines * LINE_WEIGHTS;
            add_two_terms_of_2(rows, weights, weights + columns, in, k, sum);
            weights += 2 * columns;
        }
        for (; k < span->k; k++, weights += columns) {
            prefetch_lines(lines, weights + distance * columns);
            prefetch_later(later_lines, later);
            later += later_lines * LINE_WEIGHTS;
            if (vectors >= 4 && !CELL_FMA_BY_LANE) {
                add_term_of_many(vectors, rows, weights, in, k, sum);
            } else {
                add_term_of_few(vectors, rows, weights, in, k, sum);
            }
        }
        CELL_UNROLL
        for (uint32_t t = 0; t < NEXT_TERMS; t++) {
            prefetch_lines(lines, span->next + tile->column + t * columns);
        }
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        float *to = end_of(&product->end, tile->row + r) + tile->column;
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            simd_store(to + v * CELL_SIMD_LANES, sum[r][v]);
        }
    }
}

/* One function for each kind of tile, all loops unrolled. */
#    define TILE_THAT_ASKS(number, vectors, of, rows, asks)                                        \
    case (number)*ASKS_COUNT + (asks):                                                             \
        add_tile(vectors, of, rows, asks, tile);                                                   \
        break;
#    define NUMBERED(number, vectors, of, rows)                                                    \
        TILE_THAT_ASKS(number, vectors, of, rows, ASKS_NOTHING)                                    \
        TILE_THAT_ASKS(number, vectors, of, rows, ASKS_NEAR)                                       \
        TILE_THAT_ASKS(number, vectors, of, rows, ASKS_FAR)                                        \
        TILE_THAT_ASKS(number, vectors, of, rows, ASKS_LATER)                                      \
        TILE_THAT_ASKS(number, vectors, of, rows, ASKS_LATER_2)
#    define TILE(vectors, of, rows) NUMBERED(rows, vectors, of, rows)
#    define PART(vectors, of, rows) NUMBERED((vectors)*TILE_ROWS_MAX + (rows), vectors, of, rows)

static void tile_of_4(uint32_t rows, enum asks asks, const struct tile *tile)
{
    switch (rows * ASKS_COUNT + asks) {
        TILE(4, 4, 1)
        TILE(4, 4, 2)
        TILE(4, 4, 3)
#    if CELL_TILE_ROWS_OF_4 >= 6
        TILE(4, 4, 4)
        TILE(4, 4, 5)
        TILE(4, 4, 6)
#    else
        TILE(2, 4, 4)
        TILE(2, 4, 5)
        TILE(2, 4, 6)
#    endif
#    if CELL_TILE_ROWS_OF_2 >= 12
        TILE(2, 4, 7)
        TILE(2, 4, 8)
        TILE(2, 4, 9)
        TILE(2, 4, 10)
        TILE(2, 4, 11)
        TILE(2, 4, 12)
#    endif
    default:
        break;
    }
}

static void tile_of_3(uint32_t rows, enum asks asks, const struct tile *tile)
{
    switch (rows * ASKS_COUNT + asks) {
        TILE(3, 3, 1)
        TILE(3, 3, 2)
        TILE(3, 3, 3)
        TILE(3, 3, 4)
#    if CELL_TILE_ROWS_OF_3 >= 8
        TILE(3, 3, 5)
        TILE(3, 3, 6)
        TILE(3, 3, 7)
        TILE(3, 3, 8)
#    endif
    default:
        break;
    }
}

/* Of a panel taken in two parts, that of the first 2 vectors or that of the other 3. */
static void part_of_5(uint32_t rows, enum asks asks, const struct tile *tile)
{
    const uint32_t vectors = tile->column == 0 ? 2 : 3;
    switch ((vectors * TILE_ROWS_MAX + rows) * ASKS_COUNT + asks) {
#    if CELL_TILE_ROWS_OF_3 >= 8
        PART(2, 5, 6)
        PART(2, 5, 7)
        PART(2, 5, 8)
        PART(3, 5, 6)
        PART(3, 5, 7)
        PART(3, 5, 8)
#    else
        PART(2, 5, 3)
        PART(2, 5, 4)
        PART(3, 5, 3)
        PART(3, 5, 4)
#    endif
    default:
        break;
    }
}

static void tile_of_5(uint32_t rows, enum asks asks, const struct tile *tile)
{
    switch (rows * ASKS_COUNT + asks) {
        TILE(5, 5, 1)
        TILE(5, 5, 2)
#    if CELL_TILE_ROWS_OF_5 >= 5
        TILE(5, 5, 3)
        TILE(5, 5, 4)
        TILE(5, 5, 5)
#    endif
    default:
        part_of_5(rows, asks, tile);
        break;
    }
}

/* One row alone, several panels at once: 8 to 10 sums keep both FMA units busy, 3 to 5 would wait
 * for themselves. start and end: [panels][vectors]. */
CELL_INLINE void tile_row(const size_t panels, const size_t vectors, const bool is_streamed,
                          const struct span *span, const float *start, float *end)
{
    const size_t next =
        span->k * vectors * CELL_SIMD_LANES; // the next panel's weights behind these
    const float *in = span->rows[0];
    const weight *weights = span->weights;
    simd_vec sum[2 * VECTORS_MAX];
    CELL_UNROLL
    for (size_t v = 0; v < panels * vectors; v++) {
        sum[v] = simd_load(start + v * CELL_SIMD_LANES);
    }
    for (uint32_t k = 0; k < span->k; k++, weights += vectors * CELL_SIMD_LANES) {
        simd_vec x = simd_set1(in[k]);
        CELL_UNROLL
        for (size_t v = 0; v < panels * vectors; v++) {
            const weight *w = weights + v / vectors * next;
            if (is_streamed && v % vectors == 0) {
                prefetch_lines(lines_of(vectors), w + FAR_WEIGHTS);
            }
            sum[v] = add_product(load_weights(vectors, w, v % vectors), x, sum[v]);
        }
    }
    CELL_UNROLL
    for (size_t v = 0; v < panels * vectors; v++) {
        simd_store(end + v * CELL_SIMD_LANES, sum[v]);
    }
}

/* Adds a span for one row and `panels` neighbouring panels. */
CELL_INLINE void add_row(const uint32_t panels, const size_t vectors, const struct span *span,
                         bool is_streamed, const float *start, float *end)
{
    if (is_streamed) {
        tile_row(panels, vectors, true, span, start, end);
    } else {
        tile_row(panels, vectors, false, span, start, end);
    }
}

/* One tile, or half of one. */
CELL_INLINE void add_pass(const size_t vectors, uint32_t rows, enum asks asks, struct tile *tile)
{
    if (vectors == 3) {
        tile_of_3(rows, asks, tile);
    } else if (vectors == 5) {
        tile_of_5(rows, asks, tile);
    } else {
        tile_of_4(rows, asks, tile);
    }
    tile->asked += asks == ASKS_LATER ? 1 : asks == ASKS_LATER_2 ? 2 : 0;
    tile->column += vectors / 2 * CELL_SIMD_LANES;
}

CELL_INLINE uint32_t count_passes(const size_t vectors, uint32_t n_rows)
{
    uint32_t passes = 0;
    for (uint32_t row = 0, rows = 0; row < n_rows; row += rows) {
        rows = next_rows(vectors, n_rows - row);
        passes += halves_of(vectors, rows);
    }
    return passes;
}

/* All rows, tile by tile. The first passes ask for what comes later. */
CELL_INLINE void add_tiles(const size_t vectors, const struct product *product)
{
    const uint32_t lines = product->is_streamed ? lines_of(vectors) : 0;
    const bool two = count_passes(vectors, product->n_rows) < lines;
    struct tile tile = {.product = product};
    for (uint32_t rows = 0; tile.row < product->n_rows; tile.row += rows) {
        rows = next_rows(vectors, product->n_rows - tile.row);
        tile.column = 0;
        for (uint32_t half = 0; half < halves_of(vectors, rows); half++) {
            enum asks asks = tile.asked < lines  ? (two ? ASKS_LATER_2 : ASKS_LATER)
                             : rows >= NEAR_ROWS ? ASKS_NEAR
                                                 : ASKS_NOTHING;
            add_pass(vectors, rows, asks, &tile);
        }
    }
}

/* Terms k.. of one span. */
CELL_INLINE void add_block(const size_t vectors, const struct product *product,
                           const struct span *whole, uint32_t k)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    const float *rows[GROUP_ROWS];
    struct product block = *product;
    struct span span = {.rows = rows, .k = whole->k - k, .weights = whole->weights + k * columns};
    span.next = whole->next;
    if (span.k > BLOCK_TERMS) {
        span.k = BLOCK_TERMS;
        span.next = span.weights + BLOCK_TERMS * columns;
    }
    span.later = span.next;
    for (uint32_t r = 0; r < product->n_rows; r++) {
        rows[r] = whole->rows[r] + k;
    }
    block.spans = &span;
    block.n_spans = 1;
    add_tiles(vectors, &block);
}

CELL_INLINE void multiply_in_blocks(const size_t vectors, const struct product *product)
{
    struct product rest = *product;
    for (uint32_t s = 0; s < product->n_spans; s++) {
        for (uint32_t k = 0; k < product->spans[s].k; k += BLOCK_TERMS) {
            add_block(vectors, &rest, &product->spans[s], k);
            rest.start = (struct starts){.table = rest.end.table,
                                         .stride = rest.end.stride,
                                         .rows = (const float *const *)rest.end.rows,
                                         .at = rest.end.at};
        }
    }
}

CELL_INLINE void multiply(const size_t vectors, const struct product *product)
{
    uint32_t terms = 0;
    for (uint32_t s = 0; s < product->n_spans; s++) {
        terms += product->spans[s].k;
    }
    uint32_t halves = halves_of(vectors, product->n_rows);
    if (product->n_rows > rows_at_once(vectors) || (product->is_streamed && halves > 1)) {
        if (terms <= PANEL_TERMS_MAX) {
            add_tiles(vectors, product);
        } else {
            multiply_in_blocks(vectors, product);
        }
        return;
    }
    struct tile tile = {.product = product};
    for (uint32_t half = 0; half < halves; half++) {
        enum asks near = product->n_rows >= NEAR_ROWS ? ASKS_NEAR : ASKS_NOTHING;
        add_pass(vectors, product->n_rows, product->is_streamed ? ASKS_FAR : near, &tile);
    }
}

#endif
#endif
