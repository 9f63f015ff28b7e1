/* Tiles: some rows by some vectors of sums, in registers from the first term to the last; and one
 * row by several panels. One function for each shape, all of its loops unrolled. product_body.h
 * chooses among them. Any thread, over the caller's rows and sums. */
#ifndef CELLS_CPU_TILE_BODY_H
#define CELLS_CPU_TILE_BODY_H

#include "cells/cpu/strips_body.h"

#ifdef CELL_SIMD_LANES

#    define LINE_WEIGHTS ((size_t)64 / sizeof(weight))

/* How far ahead weights are asked for: enough for L2, and for memory. Of the next panel only a
 * few are asked for at the end of one: L1 has 12 line buffers. */
#    define NEAR_TERMS  8u
#    define FAR_WEIGHTS (8192u / sizeof(weight))
#    define NEXT_TERMS  2u

#    define TILE_ROWS_MAX 12u

/* A panel of LINEAR. */
#    define LINEAR_VECTORS ((size_t)4)
#    define LINEAR_COLUMNS (LINEAR_VECTORS * CELL_SIMD_LANES)

/* The most rows of a tile over all of 4 vectors. */
#    ifdef WEIGHT_HALVES
#        define TILE_ROWS_OF_4 CELL_TILE_ROWS_OF_PAIRS
#    else
#        define TILE_ROWS_OF_4 CELL_TILE_ROWS_OF_4
#    endif

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
    struct place weights; /* of the panel at hand */
    struct place next;    /* what will be read behind them: of the next span, block or panel */
    struct place later;   /* what will be read when all rows have been here */
};

/* A panel's product for up to GROUP_ROWS rows. The first span has terms. */
struct product {
    const struct span *spans;
    uint32_t n_spans, n_rows;
    bool is_streamed;
    struct starts start; /* [vectors] a row */
    struct ends end;
};

CELL_INLINE simd_vec add_product(simd_vec w, simd_vec x, simd_vec sum)
{
#    if WEIGHT_TERMS == 2
    return simd_fma_words(w, x, sum);
#    else
    return simd_fma(w, x, sum);
#    endif
}

/* The same for sums of a tile, which stay where they are. */
CELL_INLINE simd_vec add_in_place(simd_vec w, simd_vec x, simd_vec sum)
{
#    if WEIGHT_TERMS == 2
    return simd_fma_words(w, x, sum);
#    else
    return simd_fma_in_place(w, x, sum);
#    endif
}

/* One term of each row: element k of in[]. The weights of the term wait in registers, the rows'
 * elements come one by one: for many rows of few vectors, and where an element needs no register
 * for all of its lanes. */
CELL_INLINE void add_term_of_few(const size_t vectors, const uint32_t rows,
                                 const weight *const strips[], const float *in[], size_t k,
                                 simd_vec sum[][VECTORS_MAX])
{
    simd_vec w[VECTORS_MAX];
    CELL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        w[v] = simd_keep(load_from_strips(vectors, strips, v));
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        simd_vec x = simd_set1(in[r][k]);
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = add_in_place(w[v], x, sum[r][v]);
        }
    }
}

/* Two terms of each row, one after the other: rows that are many take their pointers from the
 * stack, once for both. */
CELL_INLINE void add_two_terms_of_2(const uint32_t rows, const weight *weights,
                                    const weight *second, const float *in[], size_t k,
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
        sum[r][0] = add_in_place(w[0][0], x, sum[r][0]);
        sum[r][1] = add_in_place(w[0][1], x, sum[r][1]);
        x = simd_set1(at[1]);
        sum[r][0] = add_in_place(w[1][0], x, sum[r][0]);
        sum[r][1] = add_in_place(w[1][1], x, sum[r][1]);
    }
}

#    ifdef WEIGHT_HALVES
/* For 4 or 5 vectors that come in pairs: one pair after the other. */
CELL_INLINE void add_term_of_many(const size_t vectors, const uint32_t rows,
                                  const weight *const strips[], const float *in[], size_t k,
                                  simd_vec sum[][VECTORS_MAX])
{
    CELL_UNROLL
    for (size_t first = 0; first < vectors; first += 2) {
        const size_t n = first + 1 < vectors ? 2 : 1;
        simd_vec w[2];
        CELL_UNROLL
        for (size_t v = 0; v < n; v++) {
            w[v] = simd_keep(load_from_strips(vectors, strips, first + v));
        }
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            simd_vec x = simd_set1(in[r][k]);
            CELL_UNROLL
            for (size_t v = 0; v < n; v++) {
                sum[r][first + v] = add_in_place(w[v], x, sum[r][first + v]);
            }
        }
    }
}
#    else
/* The other way round, for 4 or 5 vectors. */
CELL_INLINE void add_term_of_many(const size_t vectors, const uint32_t rows,
                                  const weight *const strips[], const float *in[], size_t k,
                                  simd_vec sum[][VECTORS_MAX])
{
    simd_vec x[TILE_ROWS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        x[r] = simd_set1(in[r][k]);
    }
    CELL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        simd_vec w = simd_keep(load_from_strips(vectors, strips, v));
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            sum[r][v] = add_in_place(w, x[r], sum[r][v]);
        }
    }
}
#    endif

CELL_INLINE void add_term(const size_t vectors, const uint32_t rows, const weight *const strips[],
                          const float *in[], size_t k, simd_vec sum[][VECTORS_MAX])
{
    if (vectors >= 4 && !CELL_FMA_BY_LANE) {
        add_term_of_many(vectors, rows, strips, in, k, sum);
    } else {
        add_term_of_few(vectors, rows, strips, in, k, sum);
    }
}

/* Weights that a tile asks for while it computes, so that they have come when they are needed: near
 * ones, some terms ahead, where CELL_ASKS_NEAR; far ones, more terms ahead; or near ones and, with
 * each group of CELL_TILE_TERMS terms, 1 to 8 cache lines of those for later. */
enum asks {
    ASKS_NEAR,
    ASKS_FAR,
    ASKS_LATER_1,
    ASKS_LATER_2,
    ASKS_LATER_4,
    ASKS_LATER_8,
    ASKS_COUNT
};

/* Rows from which near weights are asked for; with fewer the loads themselves run ahead. */
#    define NEAR_ROWS 3u

CELL_INLINE uint32_t later_lines(const enum asks asks)
{
    return asks >= ASKS_LATER_1 ? 1u << (asks - ASKS_LATER_1) : 0;
}

/* A kind of tile: `rows` rows, `vectors` of a panel's `of`. */
struct kind {
    size_t vectors, of;
    uint32_t rows;
    enum asks asks;
};

CELL_INLINE void prefetch_lines(const size_t lines, const weight *from)
{
    CELL_UNROLL
    for (size_t l = 0; l < lines; l++) {
        __builtin_prefetch(from + l * LINE_WEIGHTS);
    }
}

/* A tile goes over whole strips, one or some of a panel's. */
CELL_INLINE uint32_t count_strips(const struct kind kind)
{
    return strips_of(kind.vectors);
}

/* From a term of strip number s to the next. */
CELL_INLINE size_t stride_of(const struct kind kind, const uint32_t s)
{
    return (strips_of(kind.of) == 1 ? kind.of : strip_vectors(kind.vectors, s)) * CELL_SIMD_LANES;
}

/* What term t of a group of `terms` asks for of near weights or far ones: of strip number s and the
 * group at `from`, which will be needed some terms from now. Of whole strips a group may have fewer
 * lines than its terms, each by itself, would ask for. */
CELL_INLINE void prefetch_strip(const struct kind kind, const uint32_t s, const uint32_t t,
                                const uint32_t terms, const weight *from)
{
    const size_t columns = stride_of(kind, s);
    const size_t vectors = strip_vectors(kind.vectors, s);
    if (vectors * CELL_SIMD_LANES == columns && terms * columns % LINE_WEIGHTS == 0) {
        const size_t lines = terms * columns / LINE_WEIGHTS;
        const size_t first = lines * t / terms;
        prefetch_lines(lines * (t + 1) / terms - first, from + first * LINE_WEIGHTS);
    } else {
        prefetch_lines(lines_of(vectors), from + t * columns);
    }
}

/* Of all strips that a tile goes over, so many terms ahead. */
CELL_INLINE void prefetch_soon(const struct kind kind, const uint32_t t, const uint32_t terms,
                               const weight *const strips[], const size_t ahead)
{
    if (kind.asks != ASKS_FAR && (!CELL_ASKS_NEAR || kind.rows < NEAR_ROWS)) {
        return;
    }
    CELL_UNROLL
    for (uint32_t s = 0; s < count_strips(kind); s++) {
        prefetch_strip(kind, s, t, terms, strips[s] + ahead * stride_of(kind, s));
    }
}

/* The same of those for later, `lines` a group, `step` weights from one to the next: for a nearer
 * but not the nearest cache. */
CELL_INLINE void prefetch_later(const uint32_t lines, const uint32_t t, const uint32_t terms,
                                const weight *from, size_t step)
{
    const uint32_t first = (lines * t + terms - 1) / terms;
    const uint32_t end = (lines * (t + 1) + terms - 1) / terms;
    CELL_UNROLL
    for (uint32_t l = first; l < end; l++) {
        __builtin_prefetch(from + l * step, 0, 2);
    }
}

/* The rows from `row` on of a product, and the vectors from column `column` on. */
struct tile {
    const struct product *product;
    uint32_t row;
    size_t column;
    /* What has been asked for of those for later, in weights a term; how far apart in them the
     * lines are that it asks for. */
    uint32_t asked, step;
};

/* Where the strips that a tile goes over stand at a place. */
CELL_INLINE void find_strips(const struct kind kind, const struct place *place,
                             const struct tile *tile, const weight *strips[])
{
    CELL_UNROLL
    for (uint32_t s = 0; s < count_strips(kind); s++) {
        strips[s] = column_at(kind.of, place, tile->column + s * STRIP_WEIGHTS);
    }
}

/* Of what is needed later, all that no pass has asked for. */
CELL_INLINE const weight *find_later(const struct kind kind, const struct span *span,
                                     const struct tile *tile)
{
    const size_t strip = strip_of(kind.of, tile->asked / CELL_SIMD_LANES) * STRIP_WEIGHTS;
    return column_at(kind.of, &span->later, strip) + (tile->asked - strip) * span->k;
}

/* The same strips some terms on. */
CELL_INLINE void step_strips(const struct kind kind, const size_t terms,
                             const weight *const strips[], const weight *to[])
{
    CELL_UNROLL
    for (uint32_t s = 0; s < count_strips(kind); s++) {
        to[s] = strips[s] + terms * stride_of(kind, s);
    }
}

/* All terms of one span. What lies past the last terms is asked for as well, and does no harm. */
CELL_INLINE void add_span(const struct kind kind, const struct span *span, const struct tile *tile,
                          simd_vec sum[][VECTORS_MAX])
{
    const size_t ahead =
        kind.asks == ASKS_FAR ? FAR_WEIGHTS / (kind.of * CELL_SIMD_LANES) : NEAR_TERMS;
    const uint32_t lines = later_lines(kind.asks);
    const weight *later = find_later(kind, span, tile);
    const size_t step = tile->step;
    const weight *strips[STRIPS_MAX];
    find_strips(kind, &span->weights, tile, strips);
    const float *in[TILE_ROWS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < kind.rows; r++) {
        in[r] = span->rows[tile->row + r];
    }
    size_t k = 0;
    for (; kind.vectors == 2 && CELL_TILE_TERMS_OF_2 == 2 && k + 1 < span->k; k += 2) {
        CELL_UNROLL
        for (uint32_t t = 0; t < 2; t++) {
            prefetch_soon(kind, 0, 1, strips, ahead + t);
            prefetch_later(lines, 0, 1, later, step);
            later += lines * step;
        }
        add_two_terms_of_2(kind.rows, strips[0], strips[0] + stride_of(kind, 0), in, k, sum);
        step_strips(kind, 2, strips, strips);
    }
    for (; k + CELL_TILE_TERMS <= span->k; k += CELL_TILE_TERMS) {
        CELL_UNROLL
        for (uint32_t t = 0; t < CELL_TILE_TERMS; t++) {
            prefetch_soon(kind, t, CELL_TILE_TERMS, strips, ahead);
            prefetch_later(lines, t, CELL_TILE_TERMS, later, step);
            const weight *term[STRIPS_MAX];
            step_strips(kind, t, strips, term);
            add_term(kind.vectors, kind.rows, term, in, k + t, sum);
        }
        later += lines * step;
        step_strips(kind, CELL_TILE_TERMS, strips, strips);
    }
    for (; CELL_TILE_TERMS > 1 && k < span->k; k++) {
        const uint32_t lines_of_one = (lines + CELL_TILE_TERMS - 1) / CELL_TILE_TERMS;
        prefetch_soon(kind, 0, 1, strips, ahead);
        prefetch_later(lines_of_one, 0, 1, later, step);
        later += lines_of_one * step;
        add_term(kind.vectors, kind.rows, strips, in, k, sum);
        step_strips(kind, 1, strips, strips);
    }
    find_strips(kind, &span->next, tile, strips);
    CELL_UNROLL
    for (uint32_t t = 0; t < NEXT_TERMS; t++) {
        prefetch_soon(kind, 0, 1, strips, t);
    }
}

/* All terms of all spans, for `rows` rows and `vectors` of a panel's `of` vectors. */
CELL_INLINE void add_tile(const size_t vectors, const size_t of, const uint32_t rows,
                          const enum asks asks, const struct tile *tile)
{
    const struct kind kind = {.vectors = vectors, .of = of, .rows = rows, .asks = asks};
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
    if (product->end.rows != NULL) { // sums made ahead: of other steps, and far away
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            __builtin_prefetch(end_of(&product->end, tile->row + r) + tile->column, 1);
        }
    }
    for (uint32_t s = 0; s < product->n_spans; s++) {
        add_span(kind, &product->spans[s], tile, sum);
    }
    /* All are found before one is written to: for all a compiler knows, they stand there. */
    float *to[TILE_ROWS_MAX];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        to[r] = end_of(&product->end, tile->row + r) + tile->column;
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            simd_store(to[r] + v * CELL_SIMD_LANES, sum[r][v]);
        }
    }
}

/* One function for each kind of tile, all loops unrolled. */
#    define TILE_THAT_ASKS(number, vectors, of, rows, asks)                                        \
    case (number)*ASKS_COUNT + (asks):                                                             \
        add_tile(vectors, of, rows, asks, tile);                                                   \
        break;
#    ifdef CELL_SUMS_ALONE // for who compiles the body only for its sums: no bit depends on it
#        define NUMBERED(number, vectors, of, rows)                                                \
        case (number)*ASKS_COUNT:                                                                  \
        case (number)*ASKS_COUNT + 1:                                                              \
        case (number)*ASKS_COUNT + 2:                                                              \
        case (number)*ASKS_COUNT + 3:                                                              \
        case (number)*ASKS_COUNT + 4:                                                              \
        case (number)*ASKS_COUNT + 5:                                                              \
            add_tile(vectors, of, rows, ASKS_NEAR, tile);                                          \
            break;
#    else
#        define NUMBERED(number, vectors, of, rows)                                                \
            TILE_THAT_ASKS(number, vectors, of, rows, ASKS_NEAR)                                   \
            TILE_THAT_ASKS(number, vectors, of, rows, ASKS_FAR)                                    \
            TILE_THAT_ASKS(number, vectors, of, rows, ASKS_LATER_1)                                \
            TILE_THAT_ASKS(number, vectors, of, rows, ASKS_LATER_2)                                \
            TILES_THAT_ASK_MORE(number, vectors, of, rows)
#    endif
#    if CELL_TILE_TERMS > 1
/* There are two passes at the least: only the widest panels have 8 lines for each. */
#        define TILES_THAT_ASK_MORE(number, vectors, of, rows)                                     \
            TILE_THAT_ASKS(number, vectors, of, rows, ASKS_LATER_4)                                \
        case (number)*ASKS_COUNT + ASKS_LATER_8:                                                   \
            if ((of)*CELL_SIMD_LANES * CELL_TILE_TERMS > 8 * LINE_WEIGHTS) {                       \
                add_tile(vectors, of, rows, ASKS_LATER_8, tile);                                   \
            }                                                                                      \
            break;
#    else
#        define TILES_THAT_ASK_MORE(number, vectors, of, rows)
#    endif
#    define TILE(vectors, of, rows) NUMBERED(rows, vectors, of, rows)
#    define PART(vectors, of, rows) NUMBERED((vectors)*TILE_ROWS_MAX + (rows), vectors, of, rows)

static void tile_of_4(uint32_t rows, enum asks asks, const struct tile *tile)
{
    switch (rows * ASKS_COUNT + asks) {
        TILE(4, 4, 1)
        TILE(4, 4, 2)
#    if TILE_ROWS_OF_4 >= 3
        TILE(4, 4, 3)
#    else
        TILE(2, 4, 3)
#    endif
#    if TILE_ROWS_OF_4 >= 6
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

/* Whether so many rows go over two strips of 6 vectors at once, and then over the third. */
static bool is_two_strips(uint32_t rows)
{
    return TILE_ROWS_OF_4 >= 3 && rows == 3;
}

/* A GRU's, where it lies in strips: of one or two rows whole, of 3 two strips and then the third,
 * else strip by strip. */
static void tile_of_6(uint32_t rows, enum asks asks, const struct tile *tile)
{
    const uint32_t vectors = rows <= 2 ? 6 : is_two_strips(rows) && tile->column == 0 ? 4 : 2;
    switch ((vectors * TILE_ROWS_MAX + rows) * ASKS_COUNT + asks) {
#    if CELL_STRIPS
        PART(6, 6, 1)
        PART(6, 6, 2)
#        if TILE_ROWS_OF_4 >= 3
        PART(4, 6, 3)
#        endif
        PART(2, 6, 3)
        PART(2, 6, 4)
        PART(2, 6, 5)
        PART(2, 6, 6)
#    endif
    default:
        (void)tile; // without strips there are none
        break;
    }
}

/* Of 1 or 2 vectors, which are not streamed: nothing is asked for later. */
#    define FEW(vectors, rows) TILE_THAT_ASKS(rows, vectors, vectors, rows, ASKS_NEAR)

static void tile_of_2(uint32_t rows, enum asks asks, const struct tile *tile)
{
    switch (rows * ASKS_COUNT + asks) {
        FEW(2, 1)
        FEW(2, 2)
        FEW(2, 3)
        FEW(2, 4)
        FEW(2, 5)
        FEW(2, 6)
#    if CELL_TILE_ROWS_OF_2 >= 12
        FEW(2, 7)
        FEW(2, 8)
        FEW(2, 9)
        FEW(2, 10)
        FEW(2, 11)
        FEW(2, 12)
#    endif
    default:
        break;
    }
}

static void tile_of_1(uint32_t rows, enum asks asks, const struct tile *tile)
{
    switch (rows * ASKS_COUNT + asks) {
        FEW(1, 1)
        FEW(1, 2)
        FEW(1, 3)
        FEW(1, 4)
        FEW(1, 5)
        FEW(1, 6)
        FEW(1, 7)
        FEW(1, 8)
        FEW(1, 9)
        FEW(1, 10)
        FEW(1, 11)
        FEW(1, 12)
    default:
        break;
    }
}

/* Sums of one row alone: of 3 panels of 3 vectors, 2 of 4 or 6, and a narrow one. */
#    define ROW_SUMS_MAX ((size_t)12)

/* Where they begin and end: [panels][vectors]. */
struct row_sums {
    const float *start;
    float *end;
};

/* Of one row alone. */
CELL_INLINE void prefetch_far(const struct kind kind, const weight *const strips[])
{
    CELL_UNROLL
    for (uint32_t s = 0; s < count_strips(kind); s++) {
        const size_t vectors = strip_vectors(kind.of, s);
        prefetch_lines(lines_of(vectors), strips[s] + FAR_WEIGHTS / kind.of * vectors);
    }
}

/* One row alone, several panels at once: 8 to 10 sums keep both FMA units busy, 3 to 5 would wait
 * for themselves. Behind the panels may stand the narrow one, of `narrow` vectors, whose sums begin
 * where they end. */
CELL_INLINE void tile_row(const size_t panels, const size_t vectors, const size_t narrow,
                          const bool is_streamed, const struct span *span,
                          const struct row_sums *sums)
{
    const struct kind kind = {.vectors = vectors, .of = vectors};
    const struct kind kind_of_last = {.vectors = narrow, .of = narrow};
    const size_t next =
        span->k * vectors * CELL_SIMD_LANES; // the next panel's weights behind these
    const struct place place_of_last = {.panel = span->weights.panel + panels * next,
                                        .terms = span->k};
    const struct tile tile = {.column = 0};
    const float *in = span->rows[0];
    const weight *strips[STRIPS_MAX];
    const weight *last[STRIPS_MAX];
    find_strips(kind, &span->weights, &tile, strips);
    find_strips(kind_of_last, &place_of_last, &tile, last);
    simd_vec sum[ROW_SUMS_MAX];
    CELL_UNROLL
    for (size_t v = 0; v < panels * vectors + narrow; v++) {
        const float *start = v < panels * vectors ? sums->start : sums->end;
        sum[v] = simd_load(start + v * CELL_SIMD_LANES);
    }
    for (uint32_t k = 0; k < span->k; k++) {
        simd_vec x = simd_set1(in[k]);
        CELL_UNROLL
        for (size_t p = 0; p < panels; p++) {
            const weight *of_panel[STRIPS_MAX];
            CELL_UNROLL
            for (uint32_t s = 0; s < count_strips(kind); s++) {
                of_panel[s] = strips[s] + p * next;
            }
            if (is_streamed) {
                prefetch_far(kind, of_panel);
            }
            CELL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                simd_vec *at = &sum[p * vectors + v];
                *at = add_product(load_from_strips(vectors, of_panel, v), x, *at);
            }
        }
        CELL_UNROLL
        for (size_t v = 0; v < narrow; v++) {
            simd_vec *at = &sum[panels * vectors + v];
            *at = add_product(load_from_strips(narrow, last, v), x, *at);
        }
        step_strips(kind, 1, strips, strips);
        step_strips(kind_of_last, 1, last, last);
    }
    CELL_UNROLL
    for (size_t v = 0; v < panels * vectors + narrow; v++) {
        simd_store(sums->end + v * CELL_SIMD_LANES, sum[v]);
    }
}

/* Adds a span for one row and `panels` neighbouring panels. */
CELL_INLINE void add_row(const uint32_t panels, const size_t vectors, const struct span *span,
                         bool is_streamed, struct row_sums sums)
{
    if (is_streamed) {
        tile_row(panels, vectors, 0, true, span, &sums);
    } else {
        tile_row(panels, vectors, 0, false, span, &sums);
    }
}

#    define ROW(panels, vectors, narrow)                                                           \
    case (panels)*100 + (vectors)*10 + (narrow):                                                   \
        tile_row(panels, vectors, narrow, false, span, &sums);                                     \
        break;

/* The same for the last panels, of which one more is narrow. */
static void add_row_to_end(size_t panels, size_t vectors, size_t narrow, const struct span *span,
                           struct row_sums sums)
{
    switch (panels * 100 + (panels > 0 ? vectors : 0) * 10 + narrow) {
        ROW(0, 0, 1)
        ROW(0, 0, 2)
        ROW(0, 0, 3)
        ROW(0, 0, 4)
        ROW(0, 0, 5)
        ROW(1, 3, 1)
        ROW(1, 3, 2)
        ROW(2, 3, 1)
        ROW(2, 3, 2)
        ROW(3, 3, 1)
        ROW(3, 3, 2)
        ROW(1, 4, 1)
        ROW(1, 4, 2)
        ROW(1, 4, 3)
        ROW(2, 4, 1)
        ROW(2, 4, 2)
        ROW(2, 4, 3)
        ROW(1, 5, 1)
        ROW(1, 5, 2)
        ROW(1, 5, 3)
        ROW(1, 5, 4)
        ROW(1, 6, 1)
        ROW(1, 6, 2)
        ROW(1, 6, 3)
        ROW(1, 6, 4)
        ROW(1, 6, 5)
    default:
        break;
    }
}

#endif
#endif
