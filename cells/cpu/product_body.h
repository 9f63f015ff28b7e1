/* The product: sums of one panel (3 to 5 vectors of columns) for some rows, over rows of x, of h,
 * or of both, read where they stand through row pointers.
 *
 *             k ->                       weights of the panel: [k][3 to 5 vectors], a stream each
 *   row r   x x x x x | h h h h
 *   row r+1 x x x x x | h h h h          a tile: some rows by some vectors of sums in registers,
 *   row r+2 x x x x x | h h h h          one fused multiply-add a term, k ascending
 *
 * The last panel may have 1 or 2 vectors too (kernels.h: narrow).
 *
 * Rows that fit one tile go through a panel at once; more go tile by tile, and all but the first
 * find the panel in the core's own caches. The terms of a sum never leave their order, so the shape
 * of tiles changes no bit. */
#ifndef CELLS_CPU_PRODUCT_BODY_H
#define CELLS_CPU_PRODUCT_BODY_H

#include "cells/cpu/tile_body.h"

#ifdef CELL_SIMD_LANES

/* Whether so many bytes of weights, which one step reads, are asked for ahead. */
static bool is_streamed(uint64_t bytes, uint32_t rows, bool l3_is_near)
{
    return is_beyond(CELL_STREAMED_BYTES, bytes, rows, l3_is_near);
}

/* Rows that go through a panel together: their sums, 64 columns wide, take 9 KiB of L1 (80: 12). */
#    define GROUP_ROWS 36u

/* With more rows than a tile has: a panel of up to so many terms stays in L2 until all tiles have
 * been there; one of more goes in blocks. */
#    define PANEL_TERMS_MAX (4096u / (uint32_t)sizeof(weight))
#    define BLOCK_TERMS     (CELL_SIMD_LANES == 16 ? 64u : 256u)

/* The most rows that go through a panel at once: of 5 vectors the wider part takes 3. */
CELL_INLINE uint32_t rows_at_once(const size_t vectors)
{
    return vectors == 1       ? TILE_ROWS_MAX
           : vectors % 2 == 0 ? CELL_TILE_ROWS_OF_2
                              : CELL_TILE_ROWS_OF_3;
}

/* Rows of the next tile when more than rows_at_once() are to be shared out, of which `left` are
 * left. With 32 registers a tile of 6 rows and 4 vectors is the fastest of all; what is left over
 * goes at once. With 16 no tile stands out: even shares. But 3 rows of a strip are 6 sums, too few
 * for two units with 4 cycles of latency: of 6 vectors 7 rows are 5 and 2. */
CELL_INLINE uint32_t next_rows(const size_t vectors, uint32_t left)
{
    const uint32_t most = rows_at_once(vectors);
    if (vectors == 4 && most > TILE_ROWS_OF_4 && CELL_SIMD_LANES == 16) {
        return left >= most ? TILE_ROWS_OF_4 : left;
    }
    if (vectors == 6 && left == 7) {
        return 5;
    }
    uint32_t tiles = (left + most - 1) / most;
    return (left + tiles - 1) / tiles;
}

/* A tile of 4 vectors and more than TILE_ROWS_OF_4 rows is half as wide and goes over the
 * panel twice: each of the two passes reads other cache lines, so that it reads no more of the
 * weights than a tile of few rows. One of 5 likewise, 2 vectors and then 3; one of 6 three times 2,
 * or 4 and then 2. */
CELL_INLINE uint32_t passes_of(const size_t vectors, uint32_t rows)
{
    if (vectors == 6) {
        return rows <= 2 ? 1 : is_two_strips(rows) ? 2 : 3;
    }
    const bool is_too_many_of_4 = vectors == 4 && rows > TILE_ROWS_OF_4;
    const bool is_too_many_of_5 = vectors == 5 && rows > CELL_TILE_ROWS_OF_5;
    return is_too_many_of_4 || is_too_many_of_5 ? 2 : 1;
}

/* Vectors of each of those passes but the last. */
CELL_INLINE size_t first_vectors(const size_t vectors, uint32_t rows)
{
    if (vectors == 6) {
        return is_two_strips(rows) ? 4 : 2;
    }
    return vectors / 2;
}

/* Of `panels` panels before the narrow one, those that go together with it. */
CELL_INLINE uint32_t panels_to_end(const size_t vectors, uint32_t panels)
{
    const uint32_t together = panels_of_row(vectors);
    return panels % together > 0 || vectors >= 5 ? panels % together : panels > 0 ? together : 0;
}

/* One tile, or half of one. */
CELL_INLINE void add_pass(const size_t vectors, uint32_t rows, enum asks asks, struct tile *tile)
{
    if (vectors == 1) {
        tile_of_1(rows, asks, tile);
    } else if (vectors == 2) {
        tile_of_2(rows, asks, tile);
    } else if (vectors == 3) {
        tile_of_3(rows, asks, tile);
    } else if (vectors == 5) {
        tile_of_5(rows, asks, tile);
    } else if (vectors == 6) {
        tile_of_6(rows, asks, tile);
    } else {
        tile_of_4(rows, asks, tile);
    }
    tile->asked += later_lines(asks) * tile->step / CELL_TILE_TERMS;
    tile->column += first_vectors(vectors, rows) * CELL_SIMD_LANES;
}

CELL_INLINE uint32_t count_passes(const size_t vectors, uint32_t n_rows)
{
    uint32_t passes = 0;
    for (uint32_t row = 0, rows = 0; row < n_rows; row += rows) {
        rows = next_rows(vectors, n_rows - row);
        passes += passes_of(vectors, rows);
    }
    return passes;
}

/* What the passes of a panel ask for of the next one: the first ones a line or two with each term,
 * until all has been asked for, or each pass the same part of it. */
CELL_INLINE enum asks share_asks(const size_t vectors, uint32_t passes, struct tile *tile)
{
    const uint32_t line = (uint32_t)LINE_WEIGHTS;
    const uint32_t part = CELL_PASSES_SHARE_ASKS
                              ? ((uint32_t)(vectors * CELL_SIMD_LANES) + passes - 1) / passes
                          : lines_of(vectors) > passes ? 2 * line
                                                       : line; // weights a term
    enum asks asks = ASKS_LATER_1;
    while (later_lines(asks) * line < part * CELL_TILE_TERMS) {
        asks++;
    }
    tile->step = (part * CELL_TILE_TERMS + later_lines(asks) - 1) / later_lines(asks);
    return asks;
}

/* All rows, tile by tile. */
CELL_INLINE void add_tiles(const size_t vectors, const struct product *product)
{
    const uint32_t all = product->is_streamed ? (uint32_t)(vectors * CELL_SIMD_LANES) : 0;
    struct tile tile = {.product = product};
    const enum asks later = share_asks(vectors, count_passes(vectors, product->n_rows), &tile);
    for (uint32_t rows = 0; tile.row < product->n_rows; tile.row += rows) {
        rows = next_rows(vectors, product->n_rows - tile.row);
        tile.column = 0;
        for (uint32_t pass = 0; pass < passes_of(vectors, rows); pass++) {
            add_pass(vectors, rows, tile.asked < all ? later : ASKS_NEAR, &tile);
        }
    }
}

/* Terms k.. of one span. */
CELL_INLINE void add_block(const size_t vectors, const struct product *product,
                           const struct span *whole, uint32_t k)
{
    const float *rows[GROUP_ROWS];
    struct product block = *product;
    struct span span = *whole;
    span.rows = rows;
    span.k -= k;
    span.weights.term += k;
    if (span.k > BLOCK_TERMS) {
        span.k = BLOCK_TERMS;
        span.next = span.weights;
        span.next.term += BLOCK_TERMS;
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
    /* Passes that go through every second line ask for what comes behind the panel; a strip, which
     * one pass reads in its order, is asked for as any stream. */
    uint32_t n_passes = passes_of(vectors, product->n_rows);
    if (product->n_rows > next_rows(vectors, product->n_rows) ||
        (product->is_streamed && n_passes > 1 && strips_of(vectors) == 1)) {
        if (terms <= PANEL_TERMS_MAX) {
            add_tiles(vectors, product);
        } else {
            multiply_in_blocks(vectors, product);
        }
        return;
    }
    struct tile tile = {.product = product};
    for (uint32_t pass = 0; pass < n_passes; pass++) {
        add_pass(vectors, product->n_rows, product->is_streamed ? ASKS_FAR : ASKS_NEAR, &tile);
    }
}

/* Of the last panel, whose weights have fewer vectors than the others': too few to be streamed. */
static void multiply_last(size_t vectors, const struct product *product)
{
    struct product last = *product;
    last.is_streamed = false;
    if (vectors == 1) {
        multiply(1, &last);
    } else if (vectors == 2) {
        multiply(2, &last);
    } else if (vectors == 3) {
        multiply(3, &last);
    } else if (vectors == 5) {
        multiply(5, &last);
    } else {
        multiply(4, &last);
    }
}

#endif
#endif
