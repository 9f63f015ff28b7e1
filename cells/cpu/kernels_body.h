/* The kernel table of one instruction set, over product_body.h and math_body.h. Included by
 * kernels__avx2.c and kernels__avx512.c, which define CELL_TABLE (the table's name) and
 * CELL_TABLE_TEXT. Any thread, over the caller's rows and scratch. */
#ifndef CELLS_CPU_KERNELS_BODY_H
#define CELLS_CPU_KERNELS_BODY_H

#include "cells/cpu/math_body.h"
#include "cells/cpu/pointwise_body.h"
#include "cells/cpu/product_body.h"

#if defined(CELL_SIMD_LANES) && defined(CELL_TABLE)

/* ---- Gated cells ---------------------------------------------------------------------------- */

/* Vectors of units in a panel, and so of each gate: a panel is 4 vectors, or a GRU's 3. */
CELL_INLINE uint32_t unit_vectors(enum cell_gated_kind kind)
{
    return kind == CELL_GATED_LSTM || kind == CELL_GATED_GRU ? 1
           : kind == CELL_GATED_GRU_RESET                    ? 2
                                                             : 4;
}

/* (1 - z) * n + z * h. A NaN is made the one NaN where it leaves; on the way any will do. */
CELL_INLINE simd_vec mix(simd_vec z, simd_vec h, simd_vec n)
{
    return one_nan(simd_fma(z, simd_sub(h, n), n));
}

/* Where one row's results of one vector of units go, and what they are made of. */
struct unit {
    const struct cell_gated_step *step;
    uint32_t row;
    size_t at;           /* the first unit */
    const float *sums;   /* [gate][unit], gates `stride` floats apart */
    const float *over_x; /* GRU: the sum of n over x; sums hold that over h */
};

CELL_INLINE void update_lstm(const struct unit *u)
{
    const struct cell_gated_step *step = u->step;
    const struct cell_gated *gated = step->gated;
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
    simd_store(step->out[u->row] + u->at,
               one_nan(simd_mul(sigmoid_any_nan(o), tanh_any_nan(next))));
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

/* Sums of one row and panel to the row's new values; over_x: of the panel, a GRU's. */
CELL_INLINE void update(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                        uint32_t row, uint32_t panel, const float *sums, const float *over_x)
{
    const uint32_t vectors = unit_vectors(kind);
    for (uint32_t v = 0; v < vectors; v++) {
        struct unit u = {.step = step,
                         .row = row,
                         .at = ((size_t)panel * vectors + v) * CELL_SIMD_LANES,
                         .sums = sums + v * CELL_SIMD_LANES,
                         .over_x = over_x + 2 * CELL_SIMD_LANES};
        if (vectors > 1 && u.at >= step->gated->hidden) {
            return; // the row has no room for what lies past a started vector
        }
        switch (kind) {
        case CELL_GATED_LSTM:
            update_lstm(&u);
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
        }
    }
}

/* Panel number i of a step in the order it asks for; past the last one, the last one. */
static uint32_t turn(const struct cell_gated_step *step, uint32_t i)
{
    uint32_t last = step->panel_end - step->panel_first - 1;
    i = i < last ? i : last;
    return step->backwards ? step->panel_end - 1 - i : step->panel_first + i;
}

/* Weights of a panel over x (part 0) or h (part 1). */
static const float *part_of(const struct cell_gated *gated, uint32_t part, uint32_t panel)
{
    size_t terms = part == 0 ? gated->inputs : gated->feedback;
    return gated->packed[part] + panel * terms * gated->columns;
}

/* The sums over x and over h of one panel, for rows from `row` on; next: the panel behind it. */
static void list_spans(const struct cell_gated_step *step, uint32_t row, uint32_t panel,
                       uint32_t next, struct span spans[2])
{
    const struct cell_gated *gated = step->gated;
    bool has_x = step->ahead == NULL;
    spans[0] = (struct span){.rows = has_x ? step->x + row : NULL,
                             .k = gated->inputs,
                             .weights = part_of(gated, 0, panel),
                             .next = part_of(gated, 1, panel),
                             .later = part_of(gated, 0, next)};
    spans[1] = (struct span){.rows = step->h + row,
                             .k = gated->feedback,
                             .weights = part_of(gated, 1, panel),
                             .next = part_of(gated, has_x ? 0 : 1, next),
                             .later = part_of(gated, 1, next)};
}

static bool is_step_streamed(const struct cell_gated_step *step)
{
    const struct cell_gated *gated = step->gated;
    uint64_t terms = gated->feedback + (step->ahead == NULL ? gated->inputs : 0);
    return is_streamed(terms * gated->panels * gated->columns * sizeof(float), step->n_rows);
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

/* The sums over x of one row and panels_of_row() panels, from `panel` on. Returns where they are:
 * in `to`, or where they were computed ahead. */
CELL_INLINE const float *row_over_x(const size_t vectors, const struct cell_gated_step *step,
                                    uint32_t panel, const struct span *x, float *to)
{
    const size_t at = panel * vectors * CELL_SIMD_LANES;
    if (step->ahead != NULL) {
        return step->ahead[0] + at;
    }
    add_row(vectors, x, is_step_streamed(step), step->gated->bias + at, to);
    return to;
}

/* One row, panels_of_row() panels; their lowest is `panel`. */
CELL_INLINE void row_panels(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                            uint32_t panel)
{
    const size_t vectors = kind == CELL_GATED_GRU ? 3 : 4;
    const size_t columns = vectors * CELL_SIMD_LANES;
    const uint32_t panels = panels_of_row(vectors);
    const float *late_bias = step->gated->late_bias;
    float *sums = step->scratch;
    struct span spans[2];
    list_spans(step, 0, panel, panel, spans);
    const float *over_x = row_over_x(vectors, step, panel, &spans[0], sums + panels * columns);
    const float *start = over_x;
    for (uint32_t p = 0; p < panels && kind == CELL_GATED_GRU; p++) {
        begin_gru(over_x + p * columns, late_bias + (panel + p) * CELL_SIMD_LANES,
                  sums + p * columns);
        start = sums;
    }
    add_row(vectors, &spans[1], is_step_streamed(step), start, sums);
    for (uint32_t p = 0; p < panels && !step->products_only; p++) {
        update(kind, step, 0, panel + p, sums + p * columns, over_x + p * columns);
    }
}

/* Some rows of a step and one panel. */
struct group {
    const struct cell_gated_step *step;
    uint32_t row, rows;
    uint32_t panel;
    struct span spans[2];
    float *sums;   /* [rows][vectors], over x and h; a GRU's n over h alone */
    float *over_x; /* a GRU's, likewise, unless they were computed ahead */
};

/* A GRU's sums over x of row number r of the group. */
CELL_INLINE const float *gru_over_x(const struct group *g, uint32_t r)
{
    const size_t columns = 3 * CELL_SIMD_LANES;
    const float *const *ahead = g->step->ahead;
    return ahead != NULL ? ahead[g->row + r] + g->panel * columns : g->over_x + r * columns;
}

/* The sums of a GRU, behind x and h. */
CELL_INLINE void gru_sums(const struct group *g, struct product *product)
{
    const size_t columns = 3 * CELL_SIMD_LANES;
    const struct cell_gated *gated = g->step->gated;
    product->n_spans = 1;
    if (g->step->ahead == NULL) {
        product->end.table = g->over_x;
        multiply(3, product);
        product->end.table = g->sums;
    }
    for (uint32_t r = 0; r < g->rows; r++) {
        begin_gru(gru_over_x(g, r), gated->late_bias + g->panel * CELL_SIMD_LANES,
                  g->sums + r * columns);
    }
    product->spans = g->spans + 1;
    product->start = (struct starts){.table = g->sums, .stride = columns};
    multiply(3, product);
}

/* The sums of up to GROUP_ROWS rows and one panel, behind x and h. */
CELL_INLINE void group_sums(const enum cell_gated_kind kind, const struct group *g)
{
    const size_t columns = (kind == CELL_GATED_GRU ? 3 : 4) * CELL_SIMD_LANES;
    const struct cell_gated_step *step = g->step;
    struct product product = {.spans = g->spans,
                              .n_spans = 2,
                              .n_rows = g->rows,
                              .is_streamed = is_step_streamed(step),
                              .start.table = step->gated->bias + g->panel * columns,
                              .end = {.table = g->sums, .stride = columns}};
    if (kind == CELL_GATED_GRU) {
        gru_sums(g, &product);
        return;
    }
    if (step->ahead != NULL) {
        product.start = (struct starts){.rows = step->ahead + g->row, .at = g->panel * columns};
        product.spans = g->spans + 1;
        product.n_spans = 1;
    }
    multiply(4, &product);
}

/* All rows, for turn number i. */
CELL_INLINE void all_rows(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                          uint32_t i)
{
    const size_t columns = (kind == CELL_GATED_GRU ? 3 : 4) * CELL_SIMD_LANES;
    struct group g = {.step = step, .panel = turn(step, i), .sums = step->scratch};
    g.over_x = g.sums + GROUP_ROWS * COLUMNS_MAX;
    for (; g.row < step->n_rows; g.row += g.rows) {
        uint32_t left = step->n_rows - g.row;
        g.rows = left < GROUP_ROWS ? left : GROUP_ROWS;
        list_spans(step, g.row, g.panel, turn(step, i + 1), g.spans);
        group_sums(kind, &g);
        for (uint32_t r = 0; r < g.rows && !step->products_only; r++) {
            const float *over_x = kind == CELL_GATED_GRU ? gru_over_x(&g, r) : g.sums;
            update(kind, step, g.row + r, g.panel, g.sums + r * columns, over_x);
        }
    }
}

CELL_INLINE void step_of(const enum cell_gated_kind kind, const struct cell_gated_step *step)
{
    const uint32_t together = panels_of_row(kind == CELL_GATED_GRU ? 3 : 4);
    uint32_t panels = step->panel_end - step->panel_first;
    uint32_t i = 0;
    if (step->n_rows == 1) {
        for (; i + together <= panels; i += together) {
            row_panels(kind, step, turn(step, step->backwards ? i + together - 1 : i));
        }
    }
    for (; i < panels; i++) {
        all_rows(kind, step, i);
    }
}

static void gated_step(const struct cell_gated_step *step)
{
    switch (step->gated->kind) {
    case CELL_GATED_LSTM:
        step_of(CELL_GATED_LSTM, step);
        break;
    case CELL_GATED_GRU:
        step_of(CELL_GATED_GRU, step);
        break;
    case CELL_GATED_GRU_RESET:
        step_of(CELL_GATED_GRU_RESET, step);
        break;
    case CELL_GATED_GRU_NEW:
        step_of(CELL_GATED_GRU_NEW, step);
        break;
    case CELL_GATED_TANH:
        step_of(CELL_GATED_TANH, step);
        break;
    case CELL_GATED_RELU:
        step_of(CELL_GATED_RELU, step);
        break;
    }
}

CELL_INLINE void ahead_of(const size_t vectors, const struct cell_gated_ahead *ahead)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    const struct cell_gated *gated = ahead->gated;
    uint64_t bytes = (uint64_t)gated->inputs * gated->panels * gated->columns * sizeof(float);
    for (uint32_t panel = ahead->panel_first; panel < ahead->panel_end; panel++) {
        uint32_t next = panel + 1 < ahead->panel_end ? panel + 1 : panel;
        for (uint32_t row = 0; row < ahead->n_rows; row += GROUP_ROWS) {
            struct span x = {.rows = ahead->x + row,
                             .k = gated->inputs,
                             .weights = part_of(gated, 0, panel),
                             .next = part_of(gated, 0, next),
                             .later = part_of(gated, 0, next)};
            uint32_t left = ahead->n_rows - row;
            uint32_t rows = left < GROUP_ROWS ? left : GROUP_ROWS;
            struct product product = {.spans = &x,
                                      .n_spans = 1,
                                      .n_rows = rows,
                                      .is_streamed = is_streamed(bytes, ahead->n_rows),
                                      .start.table = gated->bias + panel * columns,
                                      .end = {.rows = ahead->out + row, .at = panel * columns}};
            multiply(vectors, &product);
        }
    }
}

static void gated_ahead(const struct cell_gated_ahead *ahead)
{
    if (ahead->gated->kind == CELL_GATED_GRU) {
        ahead_of(3, ahead);
    } else {
        ahead_of(4, ahead);
    }
}

static enum base_status gated_load(struct cell_gated *gated)
{
    return cell_gated_pack(gated, unit_vectors(gated->kind) * (uint32_t)CELL_SIMD_LANES);
}

/* ---- LINEAR --------------------------------------------------------------------------------- */

/* The row has room for whole vectors, but not for those that begin past its width. */
static void linear_store(const struct cell_linear *linear, size_t column, const float *sums,
                         float *out)
{
    for (uint32_t v = 0; v < VECTORS_MAX; v++) {
        size_t at = column + v * CELL_SIMD_LANES;
        if (at < linear->outputs) {
            simd_store(out + at, one_nan(simd_load(sums + v * CELL_SIMD_LANES)));
        }
    }
}

static void linear_rows(const struct cell_linear_rows *step)
{
    const struct cell_linear *linear = step->linear;
    size_t panel_floats = linear->inputs * COLUMNS_MAX;
    bool streamed = is_streamed(panel_floats * linear->panels * sizeof(float), step->n_rows);
    for (uint32_t panel = step->panel_first; panel < step->panel_end; panel++) {
        const float *weights = linear->packed + panel * panel_floats;
        const float *next = panel + 1 < step->panel_end ? weights + panel_floats : weights;
        for (uint32_t row = 0; row < step->n_rows; row += GROUP_ROWS) {
            struct span x = {.rows = step->x + row,
                             .k = linear->inputs,
                             .weights = weights,
                             .next = next,
                             .later = next};
            uint32_t left = step->n_rows - row;
            uint32_t rows = left < GROUP_ROWS ? left : GROUP_ROWS;
            struct product product = {.spans = &x,
                                      .n_spans = 1,
                                      .n_rows = rows,
                                      .is_streamed = streamed,
                                      .start.table = linear->bias + panel * COLUMNS_MAX,
                                      .end = {.table = step->scratch, .stride = COLUMNS_MAX}};
            multiply(VECTORS_MAX, &product);
            for (uint32_t r = 0; r < rows; r++) {
                linear_store(linear, panel * COLUMNS_MAX, step->scratch + r * COLUMNS_MAX,
                             step->out[row + r]);
            }
        }
    }
}

static enum base_status linear_load(struct cell_linear *linear)
{
    return cell_linear_pack(linear, (uint32_t)COLUMNS_MAX);
}

/* ---- Table ---------------------------------------------------------------------------------- */

static size_t scratch_floats(uint32_t inputs, uint32_t outputs, uint32_t rows_max)
{
    (void)inputs;
    (void)outputs;
    (void)rows_max;
    return 2 * (size_t)GROUP_ROWS * COLUMNS_MAX; // sums, and a GRU's over x
}

const struct cell_kernels CELL_TABLE = {
    .name = CELL_TABLE_TEXT,
    .invariant = true,
    .gated_load = gated_load,
    .gated_ahead = gated_ahead,
    .gated_step = gated_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .scratch_floats = scratch_floats,
    .pointwise = pointwise,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = softmax_group,
};

#endif
#endif
