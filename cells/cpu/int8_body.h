/* Steps of gated cells with int8 weights. Included by int8__*.c, which define CELL_INT8_TABLE. Any
 * thread, over the caller's rows and scratch.
 *
 * Rows of x and h are rounded to words of CELL_WORD_TERMS terms, once for all panels; a product is
 * a sum of whole numbers, whose order does not matter, and becomes floats when it is complete. So
 * each part is a product, and between them the sums wait in L1. Every member of a team rounds all
 * rows for itself, which costs less than a barrier. */
#ifndef CELLS_CPU_INT8_BODY_H
#define CELLS_CPU_INT8_BODY_H

#include "base/cpus.h"
#include "cells/cpu/reduced.h"
#include "cells/cpu/update_body.h"
#include "cells/quant.h"

#if defined(CELL_SIMD_LANES) && defined(CELL_INT8_TABLE)

#    ifdef CELL_INT8_TILES
#        include "cells/cpu/amx.h"

/* Rows that are rounded, and go through all panels, together: four strips of tiles. The strips are
 * equally high, so that there has to be room for some rows more. */
#        define GROUP_ROWS  64u
#        define ROWS_BEHIND ((size_t)3)

/* Words of a row are filled up to those of whole tiles; and rows of a tile lie in different sets of
 * L1. */
#        define ROW_WORDS(words) (((words) + AMX_WORDS - 1) / AMX_WORDS * AMX_WORDS + AMX_WORDS)

/* Words of a column that a last tile may read behind those of the last panel. */
#        define WORDS_BEHIND (AMX_WORDS - 1)

/* Sums of so many panels are made before the first is used: tiles are waited for once for all of
 * them. Three parts of a widest panel have room. */
#        define WHOLE_SUMS ((size_t)16384)
_Static_assert(WHOLE_SUMS >= CELL_GATED_PARTS * (GROUP_ROWS + ROWS_BEHIND) * 5 * CELL_SIMD_LANES,
               "the whole sums of one panel");
#    else
#        define GROUP_ROWS       24u
#        define ROWS_BEHIND      ((size_t)0)
#        define ROW_WORDS(words) (words)
#        define WORDS_BEHIND     0u
#        define WHOLE_SUMS       ((size_t)0)
#    endif

/* Of 5 vectors 5 x 5 sums fill 32 registers. */
#    define TILE_ROWS(vectors)                                                                     \
        ((vectors) == 5 && CELL_TILE_ROWS_OF_WORDS > 5 ? 5u : CELL_TILE_ROWS_OF_WORDS)

/* Sums of one row alone, of 2 or 3 panels. */
#    define ROW_VECTORS 10u

#    define LINE_BYTES ((size_t)64)

/* How far ahead weights that come from memory are asked for. */
#    define FAR_BYTES ((size_t)8192)

/* Bytes of a word of a vector of columns. */
#    define VECTOR_BYTES (CELL_SIMD_LANES * CELL_WORD_TERMS)

/* ---- Rows ----------------------------------------------------------------------------------- */

/* Words of one row, rounded up to what is written at once. */
static size_t words_of(uint32_t terms)
{
    return ROW_WORDS((terms + CELL_SIMD_LANES - 1) / CELL_SIMD_LANES *
                     (CELL_SIMD_LANES / CELL_WORD_TERMS));
}

/* Rounded rows of a part. */
struct operand {
    int32_t *words; /* [rows][stride] */
    size_t stride;
    float *scales; /* [rows] */
};

CELL_INLINE void store_rounded(simd_vec v, simd_vec scale, int32_t *to)
{
    simd_vec quotient = simd_div(v, scale);
    quotient = simd_max(simd_min(quotient, simd_set1(127.0f)), simd_set1(-127.0f));
    simd_store_words(to, simd_round(quotient));
}

static float round_row(const float *row, uint32_t n, int32_t *to)
{
    const size_t step = CELL_SIMD_LANES / CELL_WORD_TERMS;
    const uint32_t lanes = (uint32_t)CELL_SIMD_LANES;
    const uint32_t whole = n / lanes * lanes;
    simd_ints most = simd_ints_set1(0);
    for (uint32_t i = 0; i < whole; i += lanes) {
        most = simd_largest_bits(most, simd_load(row + i));
    }
    if (whole < n) {
        most = simd_largest_bits(most, simd_load_part(row + whole, n - whole));
    }
    const float scale = cell_int8_scale_of(simd_largest_lane(most));
    if (!(scale > 0.0f)) {
        for (uint32_t i = 0; i < n; i += lanes, to += step) {
            simd_store_words(to, simd_ints_set1(0));
        }
        return scale;
    }
    for (uint32_t i = 0; i < whole; i += lanes, to += step) {
        store_rounded(simd_load(row + i), simd_set1(scale), to);
    }
    if (whole < n) {
        store_rounded(simd_load_part(row + whole, n - whole), simd_set1(scale), to);
    }
    return scale;
}

#    ifdef CELL_INT8_TILES
/* Behind a row's last word tiles multiply with what follows the panel's weights. */
CELL_INLINE void end_row(uint32_t terms, int32_t *words)
{
    for (size_t i = (terms + CELL_WORD_TERMS - 1) / CELL_WORD_TERMS; i % AMX_WORDS != 0; i++) {
        words[i] = 0;
    }
}
#    else
CELL_INLINE void end_row(uint32_t terms, const int32_t *words)
{
    (void)terms;
    (void)words;
}
#    endif

static void round_rows(const float *const *rows, uint32_t n_rows, uint32_t terms,
                       const struct operand *to)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        int32_t *words = to->words + r * to->stride;
        to->scales[r] = round_row(rows[r], terms, words);
        end_row(terms, words);
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Some rows and panels over one part. */
struct tile {
    const int32_t *words; /* of the first row */
    size_t stride;
    const float *row_scales;
    size_t n_words;
    const int8_t *weights; /* of the first panel: [n_words][vectors] */
    const uint32_t *offsets;
    const float *scales;
    const float *start[6];
    float *end[6];
};

/* A row's complete sums become floats. */
CELL_INLINE void add_whole_sums(const size_t vectors, const simd_ints *sums, float row_scale,
                                const float *scales, const float *start, float *end)
{
    CELL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        const size_t at = v * CELL_SIMD_LANES;
        simd_vec scale = simd_mul(simd_set1(row_scale), simd_load(scales + at));
        simd_store(end + at, simd_fma(scale, simd_of_ints(sums[v]), simd_load(start + at)));
    }
}

/* rows x vectors of each of some panels, which lie behind each other. */
CELL_INLINE void add_tile(const size_t panels, const size_t vectors, const uint32_t rows,
                          const bool is_streamed, const struct tile *tile)
{
    const size_t all = panels * vectors;
    const size_t step = vectors * VECTOR_BYTES;
    const size_t next = tile->n_words * step;
    const int8_t *weights = tile->weights;
    simd_ints sum[6][ROW_VECTORS];
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        CELL_UNROLL
        for (size_t v = 0; v < all; v++) {
            sum[r][v] = simd_ints_load(tile->offsets + v * CELL_SIMD_LANES);
        }
    }
    for (size_t i = 0; i < tile->n_words; i++, weights += step) {
        simd_ints x[6];
        CELL_UNROLL
        for (uint32_t r = 0; r < rows; r++) {
            x[r] = simd_ints_set1(tile->words[r * tile->stride + i]);
        }
        CELL_UNROLL
        for (size_t v = 0; v < all; v++) {
            const int8_t *from = weights + v / vectors * next + v % vectors * VECTOR_BYTES;
            if (is_streamed && v % vectors * VECTOR_BYTES % LINE_BYTES == 0) {
                __builtin_prefetch(from + FAR_BYTES);
            }
            simd_ints w = simd_load_words(from);
            w = rows > 1 ? simd_ints_keep(w) : w;
            CELL_UNROLL
            for (uint32_t r = 0; r < rows; r++) {
                sum[r][v] = simd_dot(sum[r][v], x[r], w);
            }
        }
    }
    CELL_UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        add_whole_sums(all, sum[r], tile->row_scales[r], tile->scales, tile->start[r],
                       tile->end[r]);
    }
}

/* One function for each kind of tile, all loops unrolled. */
#    define TILE(panels, vectors, rows)                                                            \
    case (panels)*100 + (vectors)*10 + (rows):                                                     \
        if (is_streamed) {                                                                         \
            add_tile(panels, vectors, rows, true, tile);                                           \
        } else {                                                                                   \
            add_tile(panels, vectors, rows, false, tile);                                          \
        }                                                                                          \
        break;

static void add_any_tile(uint32_t shape, bool is_streamed, const struct tile *tile)
{
    switch (shape) {
        TILE(2, 5, 1)
        TILE(2, 4, 1)
        TILE(3, 3, 1)
        TILE(1, 5, 1)
        TILE(1, 5, 2)
        TILE(1, 4, 1)
        TILE(1, 4, 2)
        TILE(1, 3, 1)
        TILE(1, 3, 2)
#    if CELL_TILE_ROWS_OF_WORDS >= 6
        TILE(1, 5, 3)
        TILE(1, 5, 4)
        TILE(1, 5, 5)
        TILE(1, 4, 3)
        TILE(1, 4, 4)
        TILE(1, 4, 5)
        TILE(1, 4, 6)
        TILE(1, 3, 3)
        TILE(1, 3, 4)
        TILE(1, 3, 5)
        TILE(1, 3, 6)
#    endif
    default:
        break;
    }
}

/* Rows of one group, and panels: which, and what their sums begin with. */
struct product {
    const struct cell_gated *gated;
    const struct operand *in;
    uint32_t part, n_rows;
    uint32_t panel;
    bool is_streamed;
    const uint32_t *whole; /* one panel's whole sums, where they have been made, or NULL */
    struct starts start;
    struct ends end;
};

static size_t product_words(const struct cell_gated *gated, uint32_t part)
{
    return (cell_gated_terms(gated, part) + CELL_WORD_TERMS - 1) / CELL_WORD_TERMS;
}

static const int8_t *panel_weights(const struct cell_gated *gated, uint32_t part, uint32_t panel)
{
    return (const int8_t *)gated->packed[part] +
           panel * product_words(gated, part) * gated->columns * CELL_WORD_TERMS;
}

CELL_INLINE void add_whole_vectors(const size_t vectors, const struct product *p)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    const uint32_t *offsets = p->gated->offsets[p->part] + p->panel * columns;
    const float *scales = p->gated->scales[p->part] + p->panel * columns;
    for (uint32_t r = 0; r < p->n_rows; r++) {
        simd_ints sums[ROW_VECTORS];
        CELL_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            const size_t at = v * CELL_SIMD_LANES;
            sums[v] = simd_ints_load(p->whole + r * columns + at) + simd_ints_load(offsets + at);
        }
        add_whole_sums(vectors, sums, p->in->scales[r], scales, start_of(&p->start, r),
                       end_of(&p->end, r));
    }
}

/* Adds whole sums [n_rows][vectors] to all rows; once for all kinds of cells. */
__attribute__((noinline)) static void add_whole_rows(size_t vectors, const struct product *p)
{
    if (vectors == 3) {
        add_whole_vectors(3, p);
    } else if (vectors == 5) {
        add_whole_vectors(5, p);
    } else {
        add_whole_vectors(4, p);
    }
}

/* Adds the product to all rows, in tiles of even shares. */
CELL_INLINE void multiply(const uint32_t panels, const size_t vectors, const struct product *p)
{
    const struct cell_gated *gated = p->gated;
    const size_t columns = vectors * CELL_SIMD_LANES;
    if (WHOLE_SUMS > 0 && p->whole != NULL) {
        add_whole_rows(vectors, p);
        return;
    }
    struct tile tile = {.stride = p->in->stride,
                        .n_words = product_words(gated, p->part),
                        .weights = panel_weights(gated, p->part, p->panel),
                        .offsets = gated->offsets[p->part] + p->panel * columns,
                        .scales = gated->scales[p->part] + p->panel * columns};
    bool is_streamed = p->is_streamed;
    for (uint32_t row = 0, rows = 0; row < p->n_rows; row += rows, is_streamed = false) {
        uint32_t left = p->n_rows - row;
        uint32_t tiles = (left + TILE_ROWS(vectors) - 1) / TILE_ROWS(vectors);
        rows = (left + tiles - 1) / tiles;
        tile.words = p->in->words + row * p->in->stride;
        tile.row_scales = p->in->scales + row;
        for (uint32_t r = 0; r < rows; r++) {
            tile.start[r] = start_of(&p->start, row + r);
            tile.end[r] = end_of(&p->end, row + r);
        }
        add_any_tile(panels * 100 + (uint32_t)vectors * 10 + rows, is_streamed, &tile);
    }
}

/* ---- Scratch: [sums][over_x][whole][scales of each part][words of each part] ----------------- */

/* Whole sums of some panels, made before the first of them is used. */
struct whole_sums {
    const struct cell_gated *gated;
    uint32_t part_first, part_end, n_parts; /* over those that have terms */
    bool backwards;                         /* the next panel is the one before */
    bool are_made;
    uint32_t *sums;       /* [panel][part][rows][vectors] */
    const uint32_t *next; /* those of the next panel, or NULL */
};

struct group {
    const struct cell_gated_step *step;
    uint32_t row, rows;
    bool is_streamed;
    struct operand in[CELL_GATED_PARTS];
    float *sums;   /* [rows][panels][vectors] */
    float *over_x; /* a GRU's, likewise */
    struct whole_sums whole;
};

/* Of so many terms a byte each. Few rows hardly wait for words, of which there are a quarter: where
 * L3 is near, 3 to 12 rows that asked for them were 2 to 7 % slower (Zen 4, 1024 units). */
static bool are_words_streamed(const struct cell_gated *gated, uint64_t terms, uint32_t rows)
{
    const uint64_t bytes = terms * gated->panels * gated->columns;
    return is_beyond(CELL_STREAMED_WORDS, bytes, rows, gated->l3_is_near && rows == 1);
}

static uint32_t group_rows(uint32_t rows_max)
{
    return rows_max < GROUP_ROWS ? rows_max : GROUP_ROWS;
}

static size_t gated_scratch(const struct cell_gated *gated, uint32_t rows_max)
{
    size_t words = 0;
    for (uint32_t part = 0; part < CELL_GATED_PARTS; part++) {
        words += words_of(cell_gated_terms(gated, part));
    }
    return WHOLE_SUMS + (size_t)GROUP_ROWS * (2 * COLUMNS_MAX + CELL_GATED_PARTS) +
           (group_rows(rows_max) + ROWS_BEHIND) * words;
}

/* rows: of the largest group. */
static void place(struct group *g, const struct cell_gated *gated, uint32_t rows, float *scratch)
{
    const size_t sums = (size_t)GROUP_ROWS * COLUMNS_MAX;
    float *scales = scratch + 2 * sums + WHOLE_SUMS;
    int32_t *words = (int32_t *)(void *)(scales + (size_t)CELL_GATED_PARTS * GROUP_ROWS);
    g->sums = scratch;
    g->over_x = scratch + sums;
    g->whole.sums = (uint32_t *)(void *)(scratch + 2 * sums);
    for (uint32_t part = 0; part < CELL_GATED_PARTS; part++) {
        size_t stride = words_of(cell_gated_terms(gated, part));
        g->in[part] = (struct operand){words, stride, scales + (size_t)part * GROUP_ROWS};
        words += (rows + ROWS_BEHIND) * stride;
    }
}

/* ---- Whole sums ------------------------------------------------------------------------------ */

/* Of one panel over one part. */
CELL_INLINE size_t whole_sums_of(const struct group *g, size_t vectors)
{
    return (g->rows + ROWS_BEHIND) * vectors * CELL_SIMD_LANES;
}

#    ifdef CELL_INT8_TILES
#        include "cells/cpu/int8_tiles_body.h"

/* Once the rows are rounded. */
static void plan_whole_sums(struct group *g)
{
    struct whole_sums *whole = &g->whole;
    size_t words = 0;
    whole->n_parts = 0;
    for (uint32_t part = whole->part_first; part < whole->part_end; part++) {
        const size_t n = product_words(whole->gated, part);
        whole->n_parts += n > 0 ? 1 : 0;
        words = n > words ? n : words;
    }
    whole->are_made = are_tiles_faster(g->rows, words);
    whole->next = NULL;
}

/* Before turn number i, of `panels` in all, for which comes `panel`. */
CELL_INLINE void next_whole_sums(const size_t vectors, struct group *g, uint32_t i, uint32_t panels,
                                 uint32_t panel)
{
    struct whole_sums *whole = &g->whole;
    if (whole->are_made) {
        const size_t sums = whole->n_parts * whole_sums_of(g, vectors);
        const uint32_t most = (uint32_t)(WHOLE_SUMS / sums);
        if (i % most == 0) {
            make_whole_sums(g, panel, panels - i < most ? panels - i : most);
        }
        whole->next = whole->sums + i % most * sums;
    }
}

#    else

static void plan_whole_sums(struct group *g)
{
    g->whole.next = NULL;
}

CELL_INLINE void next_whole_sums(const size_t vectors, const struct group *g, uint32_t i,
                                 uint32_t panels, uint32_t panel)
{
    (void)vectors;
    (void)g;
    (void)i;
    (void)panels;
    (void)panel;
}

#    endif

/* ---- Steps ---------------------------------------------------------------------------------- */

/* A GRU's sums over x of row number r of the group. */
CELL_INLINE const float *gru_over_x(const struct group *g, uint32_t r, uint32_t panel,
                                    size_t columns)
{
    const float *const *ahead = g->step->ahead;
    return ahead != NULL ? ahead[g->row + r] + (size_t)panel * 3 * CELL_SIMD_LANES
                         : g->over_x + r * columns;
}

/* A GRU's sums over h begin behind those over x. */
CELL_INLINE void begin_gru_rows(const uint32_t panels, const struct group *g, uint32_t panel)
{
    const size_t columns = 3 * CELL_SIMD_LANES;
    for (uint32_t r = 0; r < g->rows; r++) {
        const float *over_x = gru_over_x(g, r, panel, panels * columns);
        for (uint32_t n = 0; n < panels; n++) {
            begin_gru(over_x + n * columns, g->step->gated, panel + n,
                      g->sums + (r * panels + n) * columns);
        }
    }
}

/* The sums over all parts of a group's rows and some panels, of which `panel` is the lowest. */
CELL_INLINE void group_sums(const enum cell_gated_kind kind, const uint32_t panels,
                            const struct group *g, uint32_t panel)
{
    const bool is_gru = kind == CELL_GATED_GRU;
    const size_t vectors = vectors_of(kind);
    const size_t stride = panels * vectors * CELL_SIMD_LANES;
    const size_t at = panel * vectors * CELL_SIMD_LANES;
    const struct cell_gated_step *step = g->step;
    struct product p = {
        .gated = step->gated, .n_rows = g->rows, .panel = panel, .is_streamed = g->is_streamed};
    p.start = step->ahead != NULL ? (struct starts){.rows = step->ahead + g->row, .at = at}
                                  : (struct starts){.table = step->gated->bias + at};
    const uint32_t *whole = g->whole.next;
    for (p.part = first_part(step); p.part < CELL_GATED_PARTS; p.part++) {
        if (cell_gated_terms(step->gated, p.part) == 0) {
            continue;
        }
        if (is_gru && p.part == 1) {
            begin_gru_rows(panels, g, panel);
            p.start = (struct starts){.table = g->sums, .stride = stride};
        }
        p.in = &g->in[p.part];
        p.whole = whole;
        whole += whole != NULL ? whole_sums_of(g, vectors) : 0;
        p.end =
            (struct ends){.table = is_gru && p.part == 0 ? g->over_x : g->sums, .stride = stride};
        multiply(panels, vectors, &p);
        p.start = (struct starts){.table = p.end.table, .stride = stride};
    }
}

/* All rows of a group and some panels, of which `panel` is the lowest. */
CELL_INLINE void group_panels(const enum cell_gated_kind kind, const uint32_t panels,
                              const struct group *g, uint32_t panel)
{
    group_sums(kind, panels, g, panel);
    if (!g->step->products_only) {
        struct complete all = {.step = g->step,
                               .row = g->row,
                               .panel = panel,
                               .rows = g->rows,
                               .panels = panels,
                               .sums = g->sums,
                               .over_x = g->over_x};
        update(kind, &all);
    }
}

CELL_INLINE void all_panels(const enum cell_gated_kind kind, struct group *g)
{
    const struct cell_gated_step *step = g->step;
    const uint32_t together = panels_of_row(vectors_of(kind));
    const uint32_t panels = step->panel_end - step->panel_first;
    uint32_t i = 0;
    for (; g->rows == 1 && i + together <= panels; i += together) {
        group_panels(kind, together, g, turn(step, step->backwards ? i + together - 1 : i));
    }
    for (; i < panels; i++) {
        next_whole_sums(vectors_of(kind), g, i, panels, turn(step, i));
        group_panels(kind, 1, g, turn(step, i));
    }
}

static void panels_of_group(struct group *g)
{
    switch (g->step->gated->kind) {
    case CELL_GATED_LSTM:
        all_panels(CELL_GATED_LSTM, g);
        break;
    case CELL_GATED_GRU:
        all_panels(CELL_GATED_GRU, g);
        break;
    case CELL_GATED_GRU_RESET:
        all_panels(CELL_GATED_GRU_RESET, g);
        break;
    case CELL_GATED_GRU_NEW:
        all_panels(CELL_GATED_GRU_NEW, g);
        break;
    case CELL_GATED_TANH:
        all_panels(CELL_GATED_TANH, g);
        break;
    case CELL_GATED_RELU:
        all_panels(CELL_GATED_RELU, g);
        break;
    case CELL_GATED_TREE:
        all_panels(CELL_GATED_TREE, g);
        break;
    case CELL_GATED_TREE_BINARY:
        all_panels(CELL_GATED_TREE_BINARY, g);
        break;
    case CELL_GATED_FORGET:
        all_panels(CELL_GATED_FORGET, g);
        break;
    case CELL_GATED_SUM:
        all_panels(CELL_GATED_SUM, g);
        break;
    }
}

static void gated_step(const struct cell_gated_step *step)
{
    const struct cell_gated *gated = step->gated;
    const float *const *const rows[] = {step->x, step->h, step->h_right};
    const uint32_t most = group_rows(step->n_rows);
    struct group g = {.step = step,
                      .whole = {.gated = gated,
                                .part_first = first_part(step),
                                .part_end = CELL_GATED_PARTS,
                                .backwards = step->backwards}};
    if (step->panel_first == step->panel_end) {
        return;
    }
    place(&g, gated, most, step->scratch);
    g.is_streamed = are_words_streamed(gated, terms_of(step), step->n_rows);
    for (; g.row < step->n_rows; g.row += g.rows) {
        uint32_t left = step->n_rows - g.row;
        g.rows = left < most ? left : most;
        for (uint32_t part = first_part(step); part < CELL_GATED_PARTS; part++) {
            uint32_t terms = cell_gated_terms(gated, part);
            if (terms > 0) {
                round_rows(rows[part] + g.row, g.rows, terms, &g.in[part]);
            }
        }
        plan_whole_sums(&g);
        panels_of_group(&g);
    }
}

CELL_INLINE void ahead_of(const size_t vectors, const struct cell_gated_ahead *ahead)
{
    const struct cell_gated *gated = ahead->gated;
    const uint32_t most = group_rows(ahead->n_rows);
    const uint32_t panels = ahead->panel_end - ahead->panel_first;
    struct group g = {.is_streamed = are_words_streamed(gated, gated->inputs, ahead->n_rows),
                      .whole = {.gated = gated, .part_end = 1}};
    place(&g, gated, most, ahead->scratch);
    for (; g.row < ahead->n_rows; g.row += g.rows) {
        uint32_t left = ahead->n_rows - g.row;
        g.rows = left < most ? left : most;
        round_rows(ahead->x + g.row, g.rows, gated->inputs, &g.in[0]);
        plan_whole_sums(&g);
        for (uint32_t i = 0; i < panels; i++) {
            const uint32_t panel = ahead->panel_first + i;
            const size_t at = panel * vectors * CELL_SIMD_LANES;
            next_whole_sums(vectors, &g, i, panels, panel);
            struct product p = {.gated = gated,
                                .in = &g.in[0],
                                .n_rows = g.rows,
                                .panel = panel,
                                .is_streamed = g.is_streamed,
                                .whole = g.whole.next,
                                .start.table = gated->bias + at,
                                .end = {.rows = ahead->out + g.row, .at = at}};
            multiply(1, vectors, &p);
        }
    }
}

static void gated_ahead(const struct cell_gated_ahead *ahead)
{
    const size_t vectors = vectors_of(ahead->gated->kind);
    if (vectors == 3) {
        ahead_of(3, ahead);
    } else if (vectors == 5) {
        ahead_of(5, ahead);
    } else {
        ahead_of(4, ahead);
    }
}

static enum base_status gated_load(struct cell_gated *gated)
{
    uint32_t lanes = (uint32_t)CELL_SIMD_LANES;
    gated->l3_is_near = base_cpus_l3_is_near();
    return cell_gated_pack(gated, &(struct cell_packing){.units = unit_vectors(gated->kind) * lanes,
                                                         .word_terms = (uint32_t)CELL_WORD_TERMS,
                                                         .words_behind = WORDS_BEHIND,
                                                         .has_offset = CELL_X_OFFSET != 0});
}

const struct cell_reduced_kernels CELL_INT8_TABLE = {gated_load, gated_ahead, gated_step,
                                                     gated_scratch};

#endif
#endif
