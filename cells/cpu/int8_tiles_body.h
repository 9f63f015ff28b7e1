/* Whole sums of int8 products by AMX's tiles. Included by int8_body.h, for tables with
 * CELL_INT8_TILES. Any thread, over the caller's rows and scratch.
 *
 * Weights as they are packed for VNNI are tiles as they lie: a row of a tile is a word each of 16
 * columns, the next row the next word. Of rows of x a tile is 16 words of up to 16: a group's rows
 * stand in strips of equal height, and what the last has too many is room whose sums nobody reads.
 * The sums are whole numbers, so these are VNNI's. */
#ifndef CELLS_CPU_INT8_TILES_BODY_H
#define CELLS_CPU_INT8_TILES_BODY_H

#include "cells/cpu/amx.h"

#ifdef CELL_INT8_TILES

/* Whether tiles are faster than vectors for a group of so many rows and words. Emerald Rapids,
 * whose L2 other machines use too, one thread, best of three runs each, times as fast as with
 * vectors, in quiet and other moments: 64 units (16 words) 0.75 to 1.0; 128 units 8 rows 0.7 and
 * 1.1, 16 1.0 to 1.3; 256 units 4 rows 0.5 to 1.2, 8 1.1 to 1.6, 16 1.4 to 1.8, 64 1.7 to 2.0; 512
 * units 4 rows 1.1 to 1.9, 16 1.5 to 1.8, 64 1.5 to 2.4; 1024 units 4 rows 0.9 to 1.4, 16 1.4 to
 * 1.7, 64 1.5 to 2.2. */
static bool are_tiles_faster(uint32_t rows, size_t words)
{
    return rows >= 4 && words >= 32 && rows * words >= 512;
}

/* One panel over one part, for a group's rows. */
struct block {
    uint32_t strips, height;
    const int32_t *words;
    size_t row_bytes; /* from a row's words to the next one's */
    const int8_t *weights;
    size_t word_bytes; /* from a word's weights to the next one's; of a row of sums too */
    size_t n_tiles;    /* that the terms are */
    bool is_streamed;
    uint32_t *sums;
};

/* Compilers want the numbers of tiles as they stand. */
#    define ADD_VECTOR(v, of_weights)                                                              \
        if (vectors > (v)) {                                                                       \
            _tile_loadd(of_weights, weights + (v)*VECTOR_BYTES, word_bytes);                       \
            _tile_dpbusd(v, 5, of_weights);                                                        \
        }
#    define STORE_VECTOR(v)                                                                        \
        if (vectors > (v)) {                                                                       \
            _tile_stored(v, block->sums + (v)*CELL_SIMD_LANES, word_bytes);                        \
        }

/* One strip, all vectors: sums in tiles 0 to 4, rows in 5, weights in 6 and 7. Weights that come
 * from far are asked for as their lines lie (1024 units, 16 rows: 1.07 times as fast; of more rows
 * it costs as much). */
CELL_INLINE void multiply_strip(const size_t vectors, const struct block *block)
{
    const size_t word_bytes = vectors * VECTOR_BYTES;
    const int32_t *words = block->words;
    const int8_t *weights = block->weights;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    for (size_t i = 0; i < block->n_tiles; i++) {
        for (size_t at = 0; block->is_streamed && at < AMX_WORDS * word_bytes; at += LINE_BYTES) {
            __builtin_prefetch(weights + FAR_BYTES + at);
        }
        _tile_loadd(5, words, block->row_bytes);
        ADD_VECTOR(0, 6)
        ADD_VECTOR(1, 7)
        ADD_VECTOR(2, 6)
        ADD_VECTOR(3, 7)
        ADD_VECTOR(4, 6)
        words += AMX_WORDS;
        weights += AMX_WORDS * word_bytes;
    }
    STORE_VECTOR(0)
    STORE_VECTOR(1)
    STORE_VECTOR(2)
    STORE_VECTOR(3)
    STORE_VECTOR(4)
}

/* Two strips, one or two vectors from number v on: sums in tiles 0 to 3, rows in 4 and 5, weights
 * in 6 and 7. */
CELL_INLINE void multiply_two(const size_t vectors, const struct block *block, size_t v)
{
    const size_t row_bytes = block->row_bytes;
    const size_t word_bytes = block->word_bytes;
    const int32_t *words = block->words;
    const int32_t *lower = words + block->height * (row_bytes / sizeof(*words));
    const int8_t *weights = block->weights + v * VECTOR_BYTES;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t i = 0; i < block->n_tiles; i++) {
        _tile_loadd(4, words, row_bytes);
        _tile_loadd(6, weights, word_bytes);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(5, lower, row_bytes);
        _tile_dpbusd(2, 5, 6);
        if (vectors > 1) {
            _tile_loadd(7, weights + VECTOR_BYTES, word_bytes);
            _tile_dpbusd(1, 4, 7);
            _tile_dpbusd(3, 5, 7);
        }
        words += AMX_WORDS;
        lower += AMX_WORDS;
        weights += AMX_WORDS * word_bytes;
    }
    uint32_t *sums = block->sums + v * CELL_SIMD_LANES;
    uint32_t *below = sums + block->height * (word_bytes / sizeof(*sums));
    _tile_stored(0, sums, word_bytes);
    _tile_stored(2, below, word_bytes);
    if (vectors > 1) {
        _tile_stored(1, sums + CELL_SIMD_LANES, word_bytes);
        _tile_stored(3, below + CELL_SIMD_LANES, word_bytes);
    }
}

/* Three or four strips, vector number v: sums in tiles 0 to 3, rows in 4 and 5, weights in 6. */
CELL_INLINE void multiply_most(const uint32_t strips, const struct block *block, size_t v)
{
    const size_t row_bytes = block->row_bytes;
    const size_t word_bytes = block->word_bytes;
    const size_t strip = block->height * (row_bytes / sizeof(*block->words));
    const int32_t *words = block->words;
    const int8_t *weights = block->weights + v * VECTOR_BYTES;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t i = 0; i < block->n_tiles; i++) {
        _tile_loadd(6, weights, word_bytes);
        _tile_loadd(4, words, row_bytes);
        _tile_dpbusd(0, 4, 6);
        _tile_loadd(5, words + strip, row_bytes);
        _tile_dpbusd(1, 5, 6);
        _tile_loadd(4, words + 2 * strip, row_bytes);
        _tile_dpbusd(2, 4, 6);
        if (strips > 3) {
            _tile_loadd(5, words + 3 * strip, row_bytes);
            _tile_dpbusd(3, 5, 6);
        }
        words += AMX_WORDS;
        weights += AMX_WORDS * word_bytes;
    }
    const size_t below = block->height * (word_bytes / sizeof(*block->sums));
    uint32_t *sums = block->sums + v * CELL_SIMD_LANES;
    _tile_stored(0, sums, word_bytes);
    _tile_stored(1, sums + below, word_bytes);
    _tile_stored(2, sums + 2 * below, word_bytes);
    if (strips > 3) {
        _tile_stored(3, sums + 3 * below, word_bytes);
    }
}

#    undef ADD_VECTOR
#    undef STORE_VECTOR

static void multiply_block(size_t vectors, const struct block *block)
{
    if (block->strips == 1) {
        if (vectors == 3) {
            multiply_strip(3, block);
        } else if (vectors == 5) {
            multiply_strip(5, block);
        } else {
            multiply_strip(4, block);
        }
        return;
    }
    size_t v = 0;
    for (; block->strips == 2 && v + 2 <= vectors; v += 2) {
        multiply_two(2, block, v);
    }
    for (; v < vectors; v++) {
        if (block->strips == 2) {
            multiply_two(1, block, v);
        } else if (block->strips == 3) {
            multiply_most(3, block, v);
        } else {
            multiply_most(4, block, v);
        }
    }
}

/* Of `panels` panels, the first of them `panel`, over all parts. */
static void make_whole_sums(const struct group *g, uint32_t panel, uint32_t panels)
{
    const struct whole_sums *whole = &g->whole;
    const struct cell_gated *gated = whole->gated;
    const size_t vectors = gated->columns / CELL_SIMD_LANES;
    const uint32_t strips = (g->rows + AMX_ROWS - 1) / AMX_ROWS;
    struct block block = {.strips = strips,
                          .height = (g->rows + strips - 1) / strips,
                          .word_bytes = vectors * VECTOR_BYTES,
                          .is_streamed = g->is_streamed};
    amx_begin(block.height);
    uint32_t *sums = whole->sums;
    for (uint32_t part = whole->part_first; part < whole->part_end; part++) {
        const size_t words = product_words(gated, part);
        if (words == 0) {
            continue;
        }
        block.words = g->in[part].words;
        block.row_bytes = g->in[part].stride * sizeof(*block.words);
        block.n_tiles = (words + AMX_WORDS - 1) / AMX_WORDS;
        for (uint32_t n = 0; n < panels; n++) {
            block.weights = panel_weights(gated, part, whole->backwards ? panel - n : panel + n);
            block.sums = sums + (size_t)n * whole->n_parts * whole_sums_of(g, vectors);
            multiply_block(vectors, &block);
        }
        sums += whole_sums_of(g, vectors);
    }
    amx_end();
}

#endif
#endif
