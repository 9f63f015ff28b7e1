/* What the sums of gated cells have in common, however the weights are held: where they begin and
 * end, in what order panels are taken, and what follows when they are complete. Any thread, over
 * the caller's rows and scratch. */
#ifndef CELLS_CPU_UPDATE_BODY_H
#define CELLS_CPU_UPDATE_BODY_H

#include "cells/cpu/math_body.h"

#include <stdbool.h>

#ifdef CELL_SIMD_LANES

/* Vectors of units in a GRU's panel: 3 gates of 2 are strips of 2 vectors each. int8 has none. */
#    if CELL_STRIPS && !defined(CELL_INT8_TABLE)
#        define GRU_UNITS 2u
#    else
#        define GRU_UNITS 1u
#    endif

/* Vectors of a panel: vectors_of(). */
#    define VECTORS_MAX ((size_t)6)
#    define COLUMNS_MAX (VECTORS_MAX * CELL_SIMD_LANES)

/* Weights of a cell beyond this do not stay in a shared L3 between two steps; the hardware looks
 * too short a way ahead for memory. */
#    define CELL_SHARED_CACHE_BYTES ((size_t)12 << 20)

/* What the sums of some rows begin with: a table [rows][stride], whose rows are one with a stride
 * of 0; or, where given, rows that stand apart, each from column `at` on. */
struct starts {
    const float *table;
    size_t stride;
    const float *const *rows;
    size_t at;
};

/* Where they go, likewise. */
struct ends {
    float *table;
    size_t stride;
    float *const *rows;
    size_t at;
};

CELL_INLINE const float *start_of(const struct starts *start, uint32_t row)
{
    return start->rows != NULL ? start->rows[row] + start->at : start->table + row * start->stride;
}

CELL_INLINE float *end_of(const struct ends *end, uint32_t row)
{
    return end->rows != NULL ? end->rows[row] + end->at : end->table + row * end->stride;
}

/* Panels that one row alone takes at once. */
CELL_INLINE uint32_t panels_of_row(const size_t vectors)
{
    return vectors == 3 ? 3 : 2;
}

/* Whether weights do not stay near from one step to the next, as far as that matters to so many
 * rows. most: what stays near; bytes: of what one step reads. l3_is_near: one row alone reads at
 * the rate of the last cache as it is, and what it asks for only takes that cache's time. Zen 4,
 * LSTM, 1 row, ms with one thread and with two, asked for and not: 64 inputs and 1024 units 25.8
 * and 22.8, 13.9 and 10.4; 1024 inputs 35.3 and 31.6, 17.2 and 14.9; 2048 both, 8 steps, 21.2
 * and 23.8, 18.4 and 16.1. There, too, rows that wait for L3 do so from a few on: a GRU of 1024
 * units asks for what comes later with 3 to 12 rows and is 2 to 7 % faster, an LSTM in bf16 2 to 10
 * %. */
static bool is_beyond(size_t most, uint64_t bytes, uint32_t rows, bool l3_is_near)
{
    if (rows == 1 && l3_is_near) {
        return false;
    }
    return bytes > (rows >= CELL_STREAMED_ROWS(l3_is_near) ? most : CELL_SHARED_CACHE_BYTES);
}

/* The first part that a step sums over: what was computed ahead is x. */
static uint32_t first_part(const struct cell_gated_step *step)
{
    return step->ahead == NULL ? 0 : 1;
}

/* Terms of one gate that a step adds. */
static uint64_t terms_of(const struct cell_gated_step *step)
{
    uint64_t terms = 0;
    for (uint32_t part = first_part(step); part < CELL_GATED_PARTS; part++) {
        terms += cell_gated_terms(step->gated, part);
    }
    return terms;
}

/* Panel number i of a step in the order it asks for; past the last one, the last one. */
static uint32_t turn(const struct cell_gated_step *step, uint32_t i)
{
    uint32_t last = step->panel_end - step->panel_first - 1;
    i = i < last ? i : last;
    return step->backwards ? step->panel_end - 1 - i : step->panel_first + i;
}

CELL_INLINE void copy_vectors(const size_t vectors, const float *from, float *to)
{
    CELL_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        simd_store(to + v * CELL_SIMD_LANES, simd_load(from + v * CELL_SIMD_LANES));
    }
}

/* A GRU's sums over h of panel number `panel` begin with those of z and r over x, and with n's own
 * bias. */
CELL_INLINE void begin_gru(const float *over_x, const struct cell_gated *gated, uint32_t panel,
                           float *sums)
{
    const size_t units = GRU_UNITS * CELL_SIMD_LANES;
    copy_vectors((size_t)2 * GRU_UNITS, over_x, sums);
    copy_vectors(GRU_UNITS, gated->late_bias + panel * units, sums + 2 * units);
}

/* Vectors of a panel: 4, but 3 or 5 where a cell has so many gates. */
CELL_INLINE size_t vectors_of(enum cell_gated_kind kind)
{
    return kind == CELL_GATED_GRU           ? (size_t)3 * GRU_UNITS
           : kind == CELL_GATED_TREE        ? 3
           : kind == CELL_GATED_TREE_BINARY ? 5
                                            : 4;
}

/* Vectors of units in a panel, and so of each gate. */
CELL_INLINE uint32_t unit_vectors(enum cell_gated_kind kind)
{
    return kind == CELL_GATED_GRU                             ? GRU_UNITS
           : kind == CELL_GATED_GRU_RESET                     ? 2
           : kind == CELL_GATED_LSTM || vectors_of(kind) != 4 ? 1
                                                              : 4;
}

/* (1 - z) * n + z * h. A NaN is made the one NaN where it leaves; on the way any will do. */
CELL_INLINE simd_vec mix(simd_vec z, simd_vec h, simd_vec n)
{
    return one_nan(simd_fma(z, simd_sub(h, n), n));
}

/* Sums that are complete: of some panels of one row, or of one panel of some rows. An entry is one
 * row's panel. */
struct complete {
    const struct cell_gated_step *step;
    uint32_t row, panel;   /* the lowest */
    uint32_t rows, panels; /* one of them is 1 */
    uint32_t next;         /* a tree's: the panel whose turn comes behind this one, or this one */
    float *sums;           /* [entry][vectors]; activations take their place */
    const float *over_x;   /* a GRU's, likewise, but for sums computed ahead */
};

/* One row's vector of units. */
struct unit {
    uint32_t row;
    size_t at;     /* the first unit */
    size_t column; /* in a row of all panels: of the first gate */
    float *sums;   /* [gate][vector of units] */
};

CELL_INLINE uint32_t entries_of(const struct complete *all)
{
    return all->rows * all->panels;
}

/* Entry number e of `all`, and of its vectors of units number v. */
CELL_INLINE struct unit unit_of(const enum cell_gated_kind kind, const struct complete *all,
                                uint32_t e, uint32_t v)
{
    const size_t columns = vectors_of(kind) * CELL_SIMD_LANES;
    const uint32_t panel = all->panel + (all->rows > 1 ? 0 : e);
    return (struct unit){.row = all->row + (all->rows > 1 ? e : 0),
                         .at = ((size_t)panel * unit_vectors(kind) + v) * CELL_SIMD_LANES,
                         .column = panel * columns + v * CELL_SIMD_LANES,
                         .sums = all->sums + e * columns + v * CELL_SIMD_LANES};
}

/* The same for vector number p of all entries'. */
CELL_INLINE struct unit piece_of(const enum cell_gated_kind kind, const struct complete *all,
                                 uint32_t p)
{
    return unit_of(kind, all, p / unit_vectors(kind), p % unit_vectors(kind));
}

/* Runs part(kind, n, all, first) for the vectors of units of all entries, as many at once as are
 * computed together. */
#    define FOR_PIECES(kind, all, part)                                                            \
        do {                                                                                       \
            const uint32_t end_ = entries_of(all) * unit_vectors(kind);                            \
            uint32_t e_ = 0;                                                                       \
            for (; e_ + CELL_TOGETHER <= end_; e_ += CELL_TOGETHER) {                              \
                part((kind), CELL_TOGETHER, (all), e_);                                            \
            }                                                                                      \
            if (end_ - e_ >= 2) {                                                                  \
                part((kind), 2, (all), e_);                                                        \
                e_ += 2;                                                                           \
            }                                                                                      \
            if (end_ > e_) {                                                                       \
                part((kind), 1, (all), e_);                                                        \
            }                                                                                      \
        } while (false)

/* From a gate's sums to the next one's. */
CELL_INLINE size_t gate_floats(const enum cell_gated_kind kind)
{
    return unit_vectors(kind) * CELL_SIMD_LANES;
}

/* Of n pieces from `first` on, their vectors of gate number `gate`. */
CELL_INLINE void load_gate(const enum cell_gated_kind kind, const size_t n,
                           const struct complete *all, uint32_t first, size_t gate, simd_vec to[])
{
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        to[v] = simd_load(piece_of(kind, all, first + (uint32_t)v).sums + gate * gate_floats(kind));
    }
}

/* Puts what a gate's sums have become in their place. */
CELL_INLINE void keep_gate(const enum cell_gated_kind kind, const size_t n,
                           const struct complete *all, uint32_t first, size_t gate,
                           const simd_vec from[])
{
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        simd_store(piece_of(kind, all, first + (uint32_t)v).sums + gate * gate_floats(kind),
                   from[v]);
    }
}

/* ---- Kinds of cells ---- */

/* Number of gate o, of the kinds whose h is o * tanh(c). */
#    define GATE_O ((size_t)1)

/* h of n pieces, from the c that is written and o's activation. */
CELL_INLINE void h_of_c(const enum cell_gated_kind kind, const size_t n, const struct complete *all,
                        uint32_t first)
{
    simd_vec o[CELL_TOGETHER];
    simd_vec c[CELL_TOGETHER];
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(kind, all, first + (uint32_t)v);
        c[v] = simd_load(all->step->second[u.row] + u.at);
    }
    tanh_each(n, c);
    load_gate(kind, n, all, first, GATE_O, o);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(kind, all, first + (uint32_t)v);
        simd_store(all->step->out[u.row] + u.at, one_nan(simd_mul(o[v], c[v])));
    }
}

/* Adds one gate's peepholes: their products with c. */
CELL_INLINE void add_peepholes(const size_t n, const struct complete *all, uint32_t first,
                               size_t gate, const simd_vec c[], simd_vec sums[])
{
    const struct cell_gated *gated = all->step->gated;
    const float *peepholes = gated->peepholes + gate * gated->panels * CELL_SIMD_LANES;
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(CELL_GATED_LSTM, all, first + (uint32_t)v);
        sums[v] = simd_fma(simd_load(peepholes + u.at), c[v], sums[v]);
    }
}

/* c' of n pieces, from i, o, f, g; the activation of o stays where its sum was. */
CELL_INLINE void lstm_c(const enum cell_gated_kind kind, const size_t n, const struct complete *all,
                        uint32_t first)
{
    const bool has_peepholes = all->step->gated->peepholes != NULL;
    simd_vec i[CELL_TOGETHER];
    simd_vec f[CELL_TOGETHER];
    simd_vec g[CELL_TOGETHER];
    simd_vec o[CELL_TOGETHER];
    simd_vec c[CELL_TOGETHER];
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(kind, all, first + (uint32_t)v);
        c[v] = simd_load(all->step->old[u.row] + u.at);
    }
    load_gate(kind, n, all, first, 0, i);
    if (has_peepholes) {
        add_peepholes(n, all, first, 0, c, i);
    }
    sigmoid_each(n, i);
    load_gate(kind, n, all, first, 3, g);
    tanh_each(n, g);
    load_gate(kind, n, all, first, 2, f);
    if (has_peepholes) {
        add_peepholes(n, all, first, 2, c, f);
    }
    sigmoid_each(n, f);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(kind, all, first + (uint32_t)v);
        c[v] = one_nan(simd_fma(f[v], c[v], simd_mul(i[v], g[v])));
        simd_store(all->step->second[u.row] + u.at, c[v]);
    }
    load_gate(kind, n, all, first, GATE_O, o);
    if (has_peepholes) {
        add_peepholes(n, all, first, GATE_O, c, o);
    }
    sigmoid_each(n, o);
    keep_gate(kind, n, all, first, GATE_O, o);
}

/* A GRU's n before its activation, from r, the sum of n over h, and that over x. */
CELL_INLINE void gru_n(const enum cell_gated_kind kind, const size_t n, const struct complete *all,
                       uint32_t first)
{
    const struct cell_gated_step *step = all->step;
    const size_t late = 2 * gate_floats(kind);
    simd_vec r[CELL_TOGETHER];
    load_gate(kind, n, all, first, 1, r);
    sigmoid_each(n, r);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(kind, all, first + (uint32_t)v);
        const float *over_x = step->ahead != NULL ? step->ahead[u.row] + u.column
                                                  : all->over_x + (u.sums - all->sums);
        float *sum = u.sums + late;
        simd_store(sum, simd_fma(r[v], simd_load(sum), simd_load(over_x + late)));
    }
}

CELL_INLINE void gru_h(const enum cell_gated_kind kind, const size_t n, const struct complete *all,
                       uint32_t first)
{
    simd_vec z[CELL_TOGETHER];
    simd_vec next[CELL_TOGETHER];
    load_gate(kind, n, all, first, 0, z);
    sigmoid_each(n, z);
    load_gate(kind, n, all, first, 2, next);
    tanh_each(n, next);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(kind, all, first + (uint32_t)v);
        simd_vec h = simd_load(all->step->old[u.row] + u.at);
        simd_store(all->step->out[u.row] + u.at, mix(z[v], h, next[v]));
    }
}

/* A vector of a row that has no room behind its width: what lies past it is zeros. */
CELL_INLINE simd_vec load_within(const float *row, size_t at, size_t width)
{
    return at + CELL_SIMD_LANES <= width ? simd_load(row + at)
                                         : simd_load_part(row + at, width - at);
}

CELL_INLINE bool is_tree(enum cell_gated_kind kind)
{
    return kind == CELL_GATED_TREE || kind == CELL_GATED_TREE_BINARY;
}

/* Asks for what the update of one row's units from `at` on touches besides their sums: a line each
 * of rows far apart. What is written is asked for alone, since other cores have read it. */
CELL_INLINE void ask_for_unit(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                              uint32_t row, size_t at)
{
    const uint32_t n_children = kind == CELL_GATED_TREE_BINARY ? 2 : step->n_children;
    for (uint32_t k = 0; k < n_children; k++) {
        __builtin_prefetch(step->children[k][row] + at);
    }
    __builtin_prefetch(step->second[row] + at, 1);
    __builtin_prefetch(step->out[row] + at, 1);
}

/* Of n entries from `first` on, as far as there are so many. */
CELL_INLINE void ask_for_entries(const enum cell_gated_kind kind, const struct complete *all,
                                 uint32_t first, uint32_t n)
{
    const uint32_t end = first + n < entries_of(all) ? first + n : entries_of(all);
    for (uint32_t e = first; e < end; e++) {
        const struct unit u = unit_of(kind, all, e, 0);
        ask_for_unit(kind, all->step, u.row, u.at);
    }
}

/* Of the same rows and the panel behind this one: what another core has had is half a microsecond
 * away where the two share no cache, as long as some rows' updates take, and a product lies
 * between. */
CELL_INLINE void ask_for_next(const enum cell_gated_kind kind, const struct complete *all,
                              uint32_t first, uint32_t n)
{
    for (uint32_t e = first; e < first + n && all->rows > 1 && all->next != all->panel; e++) {
        ask_for_unit(kind, all->step, all->row + e, (size_t)all->next * CELL_SIMD_LANES);
    }
}

/* c of n pieces, from i, o, u, and a TREE_BINARY's f_l, f_r; the activation of o stays where its
 * sum was. */
CELL_INLINE void tree_c(const enum cell_gated_kind kind, const size_t n, const struct complete *all,
                        uint32_t first)
{
    const bool is_binary = kind == CELL_GATED_TREE_BINARY;
    const struct cell_gated_step *step = all->step;
    const size_t hidden = step->gated->hidden;
    const uint32_t n_children = is_binary ? 2 : step->n_children;
    simd_vec i[CELL_TOGETHER];
    simd_vec c[CELL_TOGETHER];
    simd_vec f[CELL_TOGETHER];
    simd_vec o[CELL_TOGETHER];
    ask_for_entries(kind, all, first + 2 * CELL_TOGETHER, CELL_TOGETHER);
    ask_for_next(kind, all, first, (uint32_t)n);
    load_gate(kind, n, all, first, 0, i);
    sigmoid_each(n, i);
    load_gate(kind, n, all, first, 2, c);
    tanh_each(n, c);
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        c[v] = simd_mul(i[v], c[v]);
    }
    for (uint32_t k = 0; k < n_children; k++) {
        if (is_binary) {
            load_gate(kind, n, all, first, 3 + k, f);
            sigmoid_each(n, f);
        }
        CELL_UNROLL
        for (size_t v = 0; v < n; v++) {
            struct unit u = piece_of(kind, all, first + (uint32_t)v);
            simd_vec child = load_within(step->children[k][u.row], u.at, hidden);
            if (!is_binary) {
                f[v] = simd_load(step->forget[u.row] + k * CELL_ROW_FLOATS(hidden) + u.at);
            }
            c[v] = simd_fma(f[v], child, c[v]);
        }
    }
    CELL_UNROLL
    for (size_t v = 0; v < n; v++) {
        struct unit u = piece_of(kind, all, first + (uint32_t)v);
        simd_store(step->second[u.row] + u.at, one_nan(c[v]));
    }
    load_gate(kind, n, all, first, GATE_O, o);
    sigmoid_each(n, o);
    keep_gate(kind, n, all, first, GATE_O, o);
}

/* What one row's vector of units leaves, of the kinds that have several of them in a panel: of
 * these a row has no room for what lies past a started vector. */
CELL_INLINE void finish_unit(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                             const struct unit *u)
{
    float *out = step->out[u->row] + u->at;
    simd_vec sum = simd_load(u->sums);
    if (kind == CELL_GATED_GRU_NEW) {
        simd_vec z = simd_load(step->z[u->row] + u->at);
        simd_store(out, mix(z, simd_load(step->old[u->row] + u->at), sum));
        return;
    }
    simd_store(out, one_nan(kind == CELL_GATED_RELU ? relu_any_nan(sum) : sum));
    if (kind == CELL_GATED_GRU_RESET) {
        simd_vec r = simd_load(u->sums + 2 * CELL_SIMD_LANES);
        simd_vec h = simd_load(step->old[u->row] + u->at);
        simd_store(step->second[u->row] + u->at, one_nan(simd_mul(r, h)));
    }
}

/* All vectors of their panels have the same activation. */
CELL_INLINE void finish_units(const enum cell_gated_kind kind, const struct complete *all)
{
    _Static_assert(CELL_TOGETHER >= 4, "the vectors of such a panel are computed together");
    const size_t vectors = vectors_of(kind);
    const bool is_tanh = kind == CELL_GATED_TANH || kind == CELL_GATED_GRU_NEW;
    for (uint32_t e = 0; e < entries_of(all); e++) {
        float *sums = unit_of(kind, all, e, 0).sums;
        simd_vec x[CELL_TOGETHER];
        if (kind != CELL_GATED_RELU && kind != CELL_GATED_SUM) {
            CELL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                x[v] = simd_load(sums + v * CELL_SIMD_LANES);
            }
            activate_each(is_tanh, vectors, x);
            CELL_UNROLL
            for (size_t v = 0; v < vectors; v++) {
                simd_store(sums + v * CELL_SIMD_LANES, x[v]);
            }
        }
        for (uint32_t v = 0; v < unit_vectors(kind); v++) {
            struct unit u = unit_of(kind, all, e, v);
            if (u.at < all->step->gated->hidden) {
                finish_unit(kind, all->step, &u);
            }
        }
    }
}

/* Sums to the rows' new values. An LSTM's h waits for the tanh of its new c, which waits for other
 * activations, as long as a core can look ahead: so c of all rows comes first, and then h of all.
 */
#    ifdef CELL_SUMS_ALONE // see tile_body.h: once for all kinds, which compiles in half of the
                           // time
static __attribute__((noinline)) void update(enum cell_gated_kind kind, const struct complete *all)
#    else
CELL_INLINE void update(const enum cell_gated_kind kind, const struct complete *all)
#    endif
{
    if (kind == CELL_GATED_LSTM) {
        FOR_PIECES(kind, all, lstm_c);
        FOR_PIECES(kind, all, h_of_c);
    } else if (kind == CELL_GATED_GRU) {
        FOR_PIECES(kind, all, gru_n);
        FOR_PIECES(kind, all, gru_h);
    } else if (is_tree(kind)) {
        FOR_PIECES(kind, all, tree_c);
        FOR_PIECES(kind, all, h_of_c);
    } else {
        finish_units(kind, all);
    }
}

#endif
#endif
