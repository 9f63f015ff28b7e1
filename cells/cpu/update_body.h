/* What the sums of gated cells have in common, however the weights are held: where they begin and
 * end, in what order panels are taken, and what follows when they are complete. Any thread, over
 * the caller's rows and scratch. */
#ifndef CELLS_CPU_UPDATE_BODY_H
#define CELLS_CPU_UPDATE_BODY_H

#include "cells/cpu/math_body.h"

#include <stdbool.h>

#ifdef CELL_SIMD_LANES

/* Vectors of a panel: vectors_of(). */
#    define VECTORS_MAX ((size_t)5)
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
 * rows. bytes: of what one step reads. */
static bool is_streamed(uint64_t bytes, uint32_t rows)
{
    return bytes > (rows >= CELL_STREAMED_ROWS ? CELL_STREAMED_BYTES : CELL_SHARED_CACHE_BYTES);
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

/* A GRU's sums over h begin with those of z and r over x, and with n's own bias. */
CELL_INLINE void begin_gru(const float *over_x, const float *late_bias, float *sums)
{
    copy_vectors(2, over_x, sums);
    copy_vectors(1, late_bias, sums + 2 * CELL_SIMD_LANES);
}

/* Vectors of a panel: 4, but 3 or 5 where a cell has so many gates. */
CELL_INLINE size_t vectors_of(enum cell_gated_kind kind)
{
    return kind == CELL_GATED_GRU || kind == CELL_GATED_TREE ? 3
           : kind == CELL_GATED_TREE_BINARY                  ? 5
                                                             : 4;
}

/* Vectors of units in a panel, and so of each gate. */
CELL_INLINE uint32_t unit_vectors(enum cell_gated_kind kind)
{
    return kind == CELL_GATED_GRU_RESET                       ? 2
           : kind == CELL_GATED_LSTM || vectors_of(kind) != 4 ? 1
                                                              : 4;
}

/* (1 - z) * n + z * h. A NaN is made the one NaN where it leaves; on the way any will do. */
CELL_INLINE simd_vec mix(simd_vec z, simd_vec h, simd_vec n)
{
    return one_nan(simd_fma(z, simd_sub(h, n), n));
}

/* The sums of one row and panel. */
struct row_sums {
    uint32_t row, panel;
    const float *sums;
    const float *over_x; /* a GRU's */
    float *kept;         /* a vector, from one part of an update to the other; may be one of sums */
};

/* An LSTM's h waits for the tanh of its new c, which waits for three other activations: as long as
 * a core can look ahead. So c of all rows comes first, and then h of all rows. Of other cells the
 * first part is everything. */
enum update_part { UPDATE_FIRST, UPDATE_REST };

/* Where one row's results of one vector of units go, and what they are made of. */
struct unit {
    const struct cell_gated_step *step;
    uint32_t row;
    size_t at;           /* the first unit */
    const float *sums;   /* [gate][unit], gates `stride` floats apart */
    const float *over_x; /* GRU: the sum of n over x; sums hold that over h */
    float *kept;
};

CELL_INLINE void update_lstm(const enum update_part part, const struct unit *u)
{
    const struct cell_gated_step *step = u->step;
    const struct cell_gated *gated = step->gated;
    if (part == UPDATE_REST) {
        simd_vec tanh_c = tanh_any_nan(simd_load(step->second[u->row] + u->at));
        simd_store(step->out[u->row] + u->at, one_nan(simd_mul(simd_load(u->kept), tanh_c)));
        return;
    }
    simd_vec i = simd_load(u->sums);
    simd_vec o = simd_load(u->sums + CELL_SIMD_LANES);
    simd_vec f = simd_load(u->sums + 2 * CELL_SIMD_LANES);
    simd_vec g = tanh_any_nan(simd_load(u->sums + 3 * CELL_SIMD_LANES));
    simd_vec c = simd_load(step->old[u->row] + u->at);
    size_t room = gated->panels * CELL_SIMD_LANES;
    if (gated->peepholes != NULL) {
        i = simd_fma(simd_load(gated->peepholes + u->at), c, i);
        f = simd_fma(simd_load(gated->peepholes + 2 * room + u->at), c, f);
    }
    simd_vec next = one_nan(simd_fma(sigmoid_any_nan(f), c, simd_mul(sigmoid_any_nan(i), g)));
    if (gated->peepholes != NULL) {
        o = simd_fma(simd_load(gated->peepholes + room + u->at), next, o);
    }
    simd_store(step->second[u->row] + u->at, next);
    simd_store(u->kept, sigmoid_any_nan(o));
}

CELL_INLINE void update_gru(const struct unit *u)
{
    simd_vec z = sigmoid_any_nan(simd_load(u->sums));
    simd_vec r = sigmoid_any_nan(simd_load(u->sums + CELL_SIMD_LANES));
    simd_vec over_h = simd_load(u->sums + 2 * CELL_SIMD_LANES);
    simd_vec n = tanh_any_nan(simd_fma(r, over_h, simd_load(u->over_x)));
    simd_store(u->step->out[u->row] + u->at, mix(z, simd_load(u->step->old[u->row] + u->at), n));
}

CELL_INLINE void update_gru_reset(const struct unit *u)
{
    const struct cell_gated_step *step = u->step;
    simd_vec r = sigmoid_any_nan(simd_load(u->sums + 2 * CELL_SIMD_LANES));
    simd_store(step->out[u->row] + u->at, one_nan(sigmoid_any_nan(simd_load(u->sums))));
    simd_store(step->second[u->row] + u->at,
               one_nan(simd_mul(r, simd_load(step->old[u->row] + u->at))));
}

CELL_INLINE void update_gru_new(const struct unit *u)
{
    const struct cell_gated_step *step = u->step;
    simd_vec z = simd_load(step->z[u->row] + u->at);
    simd_vec n = tanh_any_nan(simd_load(u->sums));
    simd_store(step->out[u->row] + u->at, mix(z, simd_load(step->old[u->row] + u->at), n));
}

/* A vector of a row that has no room behind its width: what lies past it is zeros. */
CELL_INLINE simd_vec load_within(const float *row, size_t at, size_t width)
{
    return at + CELL_SIMD_LANES <= width ? simd_load(row + at)
                                         : simd_load_part(row + at, width - at);
}

/* i, o, u, and a TREE_BINARY's f_l, f_r. */
CELL_INLINE void update_tree(const bool is_binary, const struct unit *u)
{
    const struct cell_gated_step *step = u->step;
    const size_t hidden = step->gated->hidden;
    const uint32_t n_children = is_binary ? 2 : step->n_children;
    simd_vec i = sigmoid_any_nan(simd_load(u->sums));
    simd_vec o = sigmoid_any_nan(simd_load(u->sums + CELL_SIMD_LANES));
    simd_vec next = simd_mul(i, tanh_any_nan(simd_load(u->sums + 2 * CELL_SIMD_LANES)));
    for (uint32_t k = 0; k < n_children; k++) {
        simd_vec c = load_within(step->children[k][u->row], u->at, hidden);
        simd_vec f = is_binary
                         ? sigmoid_any_nan(simd_load(u->sums + (3 + k) * CELL_SIMD_LANES))
                         : simd_load(step->forget[u->row] + k * CELL_ROW_FLOATS(hidden) + u->at);
        next = simd_fma(f, c, next);
    }
    next = one_nan(next);
    simd_store(step->second[u->row] + u->at, next);
    simd_store(step->out[u->row] + u->at, one_nan(simd_mul(o, tanh_any_nan(next))));
}

/* Sums of one row and panel to the row's new values. */
CELL_INLINE void update(const enum cell_gated_kind kind, const enum update_part part,
                        const struct cell_gated_step *step, const struct row_sums *of)
{
    const uint32_t vectors = unit_vectors(kind);
    const uint32_t row = of->row;
    for (uint32_t v = 0; v < vectors && (part == UPDATE_FIRST || kind == CELL_GATED_LSTM); v++) {
        struct unit u = {.step = step,
                         .row = row,
                         .at = ((size_t)of->panel * vectors + v) * CELL_SIMD_LANES,
                         .sums = of->sums + v * CELL_SIMD_LANES,
                         .over_x = of->over_x + 2 * CELL_SIMD_LANES,
                         .kept = of->kept};
        if (vectors > 1 && u.at >= step->gated->hidden) {
            return; // the row has no room for what lies past a started vector
        }
        switch (kind) {
        case CELL_GATED_LSTM:
            update_lstm(part, &u);
            break;
        case CELL_GATED_GRU:
            update_gru(&u);
            break;
        case CELL_GATED_GRU_RESET:
            update_gru_reset(&u);
            break;
        case CELL_GATED_GRU_NEW:
            update_gru_new(&u);
            break;
        case CELL_GATED_TANH:
            simd_store(step->out[row] + u.at, one_nan(tanh_any_nan(simd_load(u.sums))));
            break;
        case CELL_GATED_RELU:
            simd_store(step->out[row] + u.at, one_nan(relu_any_nan(simd_load(u.sums))));
            break;
        case CELL_GATED_TREE:
            update_tree(false, &u);
            break;
        case CELL_GATED_TREE_BINARY:
            update_tree(true, &u);
            break;
        case CELL_GATED_FORGET:
            simd_store(step->out[row] + u.at, one_nan(sigmoid_any_nan(simd_load(u.sums))));
            break;
        }
    }
}

#endif
#endif
