/* LINEAR over places (kernels.h, struct cell_linear_places) for one instruction set: the tiles of
 * tile_body.h, whose rows go through pieces. Where a row's pieces begin counts from one pointer,
 * and all rows have the same, so that the next piece is one addition.
 *
 *             pieces ->                       weights of a strip: [k][1 to 4 vectors]
 *   place p   . . x x x . . . x x x . .
 *   place p+1 . . . x x x . . . x x x .       places may overlap: a line is read where it stands
 *
 * All places go through some terms of a strip of weights before the next terms: those stay in L2.
 * Between them sums stand where the results will. Included by kernels_body.h's files. */
#ifndef CELLS_CPU_LINEAR_PLACES_BODY_H
#define CELLS_CPU_LINEAR_PLACES_BODY_H

#include "cells/cpu/pointwise_body.h"
#include "cells/cpu/tile_body.h"

#if defined(CELL_SIMD_LANES) && defined(CELL_TABLE)

/* Terms of a strip that all places go through; of few more all. */
#    define PLACES_TERMS     512u
#    define PLACES_TERMS_MAX 1024u

/* Some columns and some terms of all places. */
struct places_part {
    const struct cell_linear_places *places;
    const float *weights;
    const float *bias; /* of those columns; NULL: the sums go on */
    size_t column;
    uint32_t first, end; /* terms */
    bool is_last;        /* results are within their bounds, else sums */
};

/* A tile of places: loops over both are unrolled. */
struct places_kind {
    size_t vectors;
    uint32_t rows;
};

/* Terms that go together: their weights wait in registers, while each row's pointer is found once.
 */
CELL_INLINE uint32_t terms_together(const size_t vectors)
{
    return CELL_SIMD_LANES == 16 && vectors == 1   ? 4
           : CELL_SIMD_LANES == 16 && vectors == 2 ? 2
                                                   : 1;
}

CELL_INLINE void add_terms_of_places(const struct places_kind kind, const uint32_t terms,
                                     const float *weights, const float *const in[], size_t at,
                                     simd_vec sum[][LINEAR_VECTORS])
{
    simd_vec w[4][LINEAR_VECTORS];
    CELL_UNROLL
    for (uint32_t t = 0; t < terms; t++) {
        CELL_UNROLL
        for (size_t v = 0; v < kind.vectors; v++) {
            w[t][v] = simd_keep(simd_load(weights + (t * kind.vectors + v) * CELL_SIMD_LANES));
        }
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < kind.rows; r++) {
        const float *x = in[r] + at;
        CELL_UNROLL
        for (uint32_t t = 0; t < terms; t++) {
            const simd_vec element = simd_set1(x[t]);
            CELL_UNROLL
            for (size_t v = 0; v < kind.vectors; v++) {
                sum[r][v] = add_in_place(w[t][v], element, sum[r][v]);
            }
        }
    }
}

/* All terms of the part, piece by piece. */
CELL_INLINE void add_pieces(const struct places_kind kind, const struct places_part *part,
                            const float *const in[], simd_vec sum[][LINEAR_VECTORS])
{
    const uint32_t together = terms_together(kind.vectors);
    const size_t term = kind.vectors * CELL_SIMD_LANES;
    const uint32_t piece = part->places->piece;
    const size_t *pieces = part->places->pieces + part->first / piece;
    const float *weights = part->weights;
    uint32_t in_piece = part->first % piece;
    for (uint32_t left = part->end - part->first; left > 0; pieces++) {
        const uint32_t n = piece - in_piece < left ? piece - in_piece : left;
        size_t at = *pieces + in_piece;
        const size_t end = at + n;
        for (; at + together <= end; at += together) {
            if (CELL_ASKS_NEAR && kind.vectors > 1 && kind.rows >= NEAR_ROWS) {
                prefetch_lines((size_t)together * lines_of(kind.vectors),
                               weights + NEAR_TERMS * term);
            }
            add_terms_of_places(kind, together, weights, in, at, sum);
            weights += together * term;
        }
        for (; together > 1 && at < end; at++) {
            add_terms_of_places(kind, 1, weights, in, at, sum);
            weights += term;
        }
        left -= n;
        in_piece = 0;
    }
}

/* Vector v of a place: whole, a part of one, or nothing, by how many columns are left. */
CELL_INLINE void store_of_place(float *out, size_t left, simd_vec value)
{
    if (left >= CELL_SIMD_LANES) {
        simd_store(out, value);
    } else if (left > 0) {
        simd_store_part(out, left, value);
    }
}

CELL_INLINE simd_vec load_of_place(const float *out, size_t left)
{
    return left >= CELL_SIMD_LANES ? simd_load(out)
           : left > 0              ? simd_load_part(out, left)
                                   : simd_set1(0.0f);
}

/* Columns from vector v of a part on, of those that are results. */
CELL_INLINE size_t columns_left(const struct places_part *part, size_t v)
{
    const size_t column = part->column + v * CELL_SIMD_LANES;
    const size_t outputs = part->places->linear->outputs;
    return column < outputs ? outputs - column : 0;
}

CELL_INLINE void store_places(const struct cell_bounds bounds, const bool is_last,
                              const struct places_kind kind, const struct places_part *part,
                              float *const out[], simd_vec sum[][LINEAR_VECTORS])
{
    CELL_UNROLL
    for (uint32_t r = 0; r < kind.rows; r++) {
        float *to = out[r] + part->column;
        CELL_UNROLL
        for (size_t v = 0; v < kind.vectors; v++) {
            const simd_vec value = is_last ? bounded(bounds, sum[r][v]) : sum[r][v];
            store_of_place(to + v * CELL_SIMD_LANES, columns_left(part, v), value);
        }
    }
}

/* `rows` places from number `place` on, `vectors` of columns. */
CELL_INLINE void tile_of_places(const struct places_kind kind, const struct places_part *part,
                                uint32_t place)
{
    const struct cell_linear_places *places = part->places;
    const float *const *in = places->x + place;
    float *const *out = places->out + place;
    const struct cell_bounds none = {.are = false};
    const float *x[TILE_ROWS_MAX];
    simd_vec sum[TILE_ROWS_MAX][LINEAR_VECTORS];
    CELL_UNROLL
    for (uint32_t r = 0; r < kind.rows; r++) {
        x[r] = in[r];
        CELL_UNROLL
        for (size_t v = 0; v < kind.vectors; v++) {
            const size_t column = v * CELL_SIMD_LANES;
            sum[r][v] = part->bias != NULL
                            ? simd_load(part->bias + column)
                            : load_of_place(out[r] + part->column + column, columns_left(part, v));
        }
    }
    add_pieces(kind, part, x, sum);
    if (!part->is_last) {
        store_places(none, false, kind, part, out, sum);
    } else if (places->bounds.are) {
        store_places(places->bounds, true, kind, part, out, sum);
    } else {
        store_places(none, true, kind, part, out, sum);
    }
}

#    define PLACES(vectors, rows)                                                                  \
    case rows:                                                                                     \
        tile_of_places((struct places_kind){vectors, rows}, part, place);                          \
        break;

static void places_of_1(uint32_t rows, const struct places_part *part, uint32_t place)
{
    switch (rows) {
        PLACES(1, 1)
        PLACES(1, 2)
        PLACES(1, 3)
        PLACES(1, 4)
        PLACES(1, 5)
        PLACES(1, 6)
        PLACES(1, 7)
        PLACES(1, 8)
        PLACES(1, 9)
        PLACES(1, 10)
        PLACES(1, 11)
        PLACES(1, 12)
    default:
        break;
    }
}

static void places_of_2(uint32_t rows, const struct places_part *part, uint32_t place)
{
    switch (rows) {
        PLACES(2, 1)
        PLACES(2, 2)
        PLACES(2, 3)
        PLACES(2, 4)
        PLACES(2, 5)
        PLACES(2, 6)
#    if CELL_TILE_ROWS_OF_2 >= 12
        PLACES(2, 7)
        PLACES(2, 8)
        PLACES(2, 9)
        PLACES(2, 10)
        PLACES(2, 11)
        PLACES(2, 12)
#    endif
    default:
        break;
    }
}

static void places_of_3(uint32_t rows, const struct places_part *part, uint32_t place)
{
    switch (rows) {
        PLACES(3, 1)
        PLACES(3, 2)
        PLACES(3, 3)
        PLACES(3, 4)
#    if CELL_TILE_ROWS_OF_3 >= 8
        PLACES(3, 5)
        PLACES(3, 6)
        PLACES(3, 7)
        PLACES(3, 8)
#    endif
    default:
        break;
    }
}

static void places_of_4(uint32_t rows, const struct places_part *part, uint32_t place)
{
    switch (rows) {
        PLACES(4, 1)
        PLACES(4, 2)
        PLACES(4, 3)
#    if CELL_TILE_ROWS_OF_4 >= 6
        PLACES(4, 4)
        PLACES(4, 5)
        PLACES(4, 6)
#    endif
    default:
        break;
    }
}

/* All places, in tiles as even as they go. */
static void run_places_part(const size_t vectors, const struct places_part *part)
{
    const uint32_t n = part->places->n_places;
    const uint32_t most = vectors == 1   ? TILE_ROWS_MAX
                          : vectors == 2 ? CELL_TILE_ROWS_OF_2
                          : vectors == 3 ? CELL_TILE_ROWS_OF_3
                                         : CELL_TILE_ROWS_OF_4;
    const uint32_t tiles = (n + most - 1) / most;
    for (uint32_t t = 0, place = 0; t < tiles; t++) {
        const uint32_t end = (uint32_t)((uint64_t)n * (t + 1) / tiles);
        if (vectors == 1) {
            places_of_1(end - place, part, place);
        } else if (vectors == 2) {
            places_of_2(end - place, part, place);
        } else if (vectors == 3) {
            places_of_3(end - place, part, place);
        } else {
            places_of_4(end - place, part, place);
        }
        place = end;
    }
}

/* A strip of a panel's columns. */
static void run_places_strip(const struct cell_linear_places *places, const float *weights,
                             size_t column, size_t vectors)
{
    const uint32_t terms = places->linear->inputs;
    const uint32_t at_once = terms <= PLACES_TERMS_MAX ? terms : PLACES_TERMS;
    for (uint32_t first = 0; first < terms; first += at_once) {
        const uint32_t end = terms - first < at_once ? terms : first + at_once;
        const struct places_part part = {.places = places,
                                         .weights = weights + first * vectors * CELL_SIMD_LANES,
                                         .bias = first == 0 ? places->linear->bias + column : NULL,
                                         .column = column,
                                         .first = first,
                                         .end = end,
                                         .is_last = end == terms};
        run_places_part(vectors, &part);
    }
}

static void linear_places(const struct cell_linear_places *places)
{
    const struct cell_linear *linear = places->linear;
    const size_t panel_floats = linear->inputs * LINEAR_COLUMNS;
    for (uint32_t panel = 0; panel < linear->panels; panel++) {
        const size_t columns = panel + 1 == linear->panels ? linear->last_columns : LINEAR_COLUMNS;
        const size_t vectors = columns / CELL_SIMD_LANES;
        const float *weights = linear->packed + panel * panel_floats;
        for (uint32_t s = 0; s < strips_of(vectors); s++) {
            const size_t before = s * STRIP_WEIGHTS;
            run_places_strip(places, weights + before * linear->inputs,
                             panel * LINEAR_COLUMNS + before, strip_vectors(vectors, s));
        }
    }
}

#endif
#endif
