/* Steps of gated cells, and the sums over x ahead of them, over product_body.h: for weights that
 * are floats, or bf16 where CELL_WEIGHTS_BF16 is defined; then x and h have been rounded
 * (bf16_body.h). Any thread, over the caller's rows and scratch. */
#ifndef CELLS_CPU_GATED_BODY_H
#define CELLS_CPU_GATED_BODY_H

#include "base/cpus.h"
#include "base/mem.h"
#include "cells/cpu/product_body.h"

#ifdef CELL_SIMD_LANES

/* Weights of a column over a part, and so the elements of what it is multiplied with. */
static uint32_t weights_of(const struct cell_gated *gated, uint32_t part)
{
    return (cell_gated_terms(gated, part) + WEIGHT_TERMS - 1) / WEIGHT_TERMS;
}

/* Weights of a panel over a part. */
static struct place part_of(const struct cell_gated *gated, uint32_t part, uint32_t panel)
{
    const uint32_t k = weights_of(gated, part);
    const size_t at = (size_t)panel * k * gated->columns;
    return (struct place){.panel = (const weight *)gated->packed[part] + at, .terms = k};
}

/* The sums of one panel over each part that has terms, but over x where they were computed ahead,
 * for rows from `row` on; next: the panel behind it. Returns how many; at least one. */
static uint32_t list_spans(const struct cell_gated_step *step, uint32_t row, uint32_t panel,
                           uint32_t next, struct span spans[CELL_GATED_PARTS])
{
    const struct cell_gated *gated = step->gated;
    const float *const *const rows[] = {step->x, step->h, step->h_right};
    uint32_t n = 0;
    for (uint32_t part = first_part(step); part < CELL_GATED_PARTS; part++) {
        uint32_t k = weights_of(gated, part);
        if (k > 0) {
            spans[n++] = (struct span){.rows = rows[part] + row,
                                       .k = k,
                                       .weights = part_of(gated, part, panel),
                                       .later = part_of(gated, part, next)};
        }
    }
    for (uint32_t s = 0; s < n; s++) {
        spans[s].next = s + 1 < n ? spans[s + 1].weights : spans[0].later;
    }
    return n;
}

static bool is_step_streamed(const struct cell_gated_step *step)
{
    const uint64_t terms = terms_of(step) * step->gated->panels * step->gated->columns;
    const bool is_near = step->gated->l3_is_near;
    return is_beyond(CELL_STREAMED_STEP(is_near), terms / WEIGHT_TERMS * sizeof(weight),
                     step->n_rows, is_near);
}

/* The sums over x, or the first part there is, of one row and `panels` panels, from `panel` on.
 * Returns where they are: in `to`, or where they were computed ahead. */
CELL_INLINE const float *row_over_x(const size_t vectors, const struct cell_gated_step *step,
                                    const uint32_t panels, uint32_t panel, const struct span *x,
                                    float *to)
{
    const size_t at = panel * vectors * CELL_SIMD_LANES;
    if (step->ahead != NULL) {
        return step->ahead[0] + at;
    }
    add_row(panels, vectors, x, is_step_streamed(step),
            (struct row_sums){step->gated->bias + at, to});
    return to;
}

/* ---- The narrow panel ----------------------------------------------------------------------- */

/* How its sums lie side by side, and how they lie elsewhere, as those of any panel. */
struct sides {
    uint32_t gates, units;
    size_t room;         /* of a gate, elsewhere */
    uint32_t n_vectors;  /* that have units of a gate, */
    uint32_t of_vectors; /* of so many that have room for them */
};

static struct sides sides_of(const struct cell_gated *gated)
{
    const uint32_t gates = cell_gated_gates(gated->kind);
    const uint32_t room = gated->columns / gates;
    const uint32_t units = gated->hidden - (gated->panels - 1) * room;
    const uint32_t lanes = (uint32_t)CELL_SIMD_LANES;
    return (struct sides){.gates = gates,
                          .units = units,
                          .room = room,
                          .n_vectors = (units + lanes - 1) / lanes,
                          .of_vectors = room / lanes};
}

/* Puts one row's sums side by side. What is stored past a gate's units the next gate overwrites,
 * which is read behind it: in place they may stay. */
CELL_INLINE void move_together(const struct sides *sides, const float *from, float *to)
{
    for (size_t gate = 0; gate < sides->gates; gate++) {
        for (size_t at = 0; at < sides->n_vectors * CELL_SIMD_LANES; at += CELL_SIMD_LANES) {
            simd_store(to + gate * sides->units + at, simd_load(from + gate * sides->room + at));
        }
    }
}

/* And apart again, in place; zeros past the units. */
CELL_INLINE void move_apart(const struct sides *sides, float *sums)
{
    for (size_t gate = sides->gates; gate-- > 0;) {
        for (size_t v = sides->of_vectors; v-- > 0;) {
            const size_t at = v * CELL_SIMD_LANES;
            const size_t left = sides->units > at ? sides->units - at : 0;
            const float *from = sums + gate * sides->units + at;
            simd_store(sums + gate * sides->room + at,
                       left >= CELL_SIMD_LANES ? simd_load(from) : simd_load_part(from, left));
        }
    }
}

/* The product of the narrow panel, in the rows where its sums go. */
static void multiply_narrow(const struct cell_gated *gated, const struct product *whole)
{
    const struct sides sides = sides_of(gated);
    struct product product = *whole;
    for (uint32_t r = 0; r < whole->n_rows; r++) {
        move_together(&sides, start_of(&whole->start, r), end_of(&whole->end, r));
    }
    product.start = (struct starts){.table = whole->end.table,
                                    .stride = whole->end.stride,
                                    .rows = (const float *const *)whole->end.rows,
                                    .at = whole->end.at};
    multiply_last(gated->narrow / CELL_SIMD_LANES, &product);
    for (uint32_t r = 0; r < whole->n_rows; r++) {
        move_apart(&sides, end_of(&whole->end, r));
    }
}

CELL_INLINE void multiply_panel(const size_t vectors, const struct cell_gated *gated,
                                uint32_t panel, const struct product *product)
{
    if (cell_gated_is_narrow(gated, panel)) {
        multiply_narrow(gated, product);
    } else {
        multiply(vectors, product);
    }
}

/* ---- One row -------------------------------------------------------------------------------- */

/* One row, `panels` panels; their lowest is `panel`. */
CELL_INLINE void row_panels(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                            const uint32_t panels, uint32_t panel)
{
    const size_t vectors = vectors_of(kind);
    const size_t columns = vectors * CELL_SIMD_LANES;
    float *sums = step->scratch;
    struct span spans[CELL_GATED_PARTS];
    const uint32_t n = list_spans(step, 0, panel, panel, spans);
    const float *over_x =
        row_over_x(vectors, step, panels, panel, &spans[0], sums + panels * columns);
    const float *start = over_x;
    for (uint32_t p = 0; p < panels && kind == CELL_GATED_GRU; p++) {
        begin_gru(over_x + p * columns, step->gated, panel + p, sums + p * columns);
        start = sums;
    }
    for (uint32_t s = 1 - first_part(step); s < n; s++) {
        add_row(panels, vectors, &spans[s], is_step_streamed(step), (struct row_sums){start, sums});
        start = sums;
    }
    for (uint32_t p = 0; p < panels && start != sums; p++) {
        copy_vectors(vectors, start + p * columns, sums + p * columns);
    }
    if (!step->products_only) {
        struct complete all = {.step = step,
                               .panel = panel,
                               .rows = 1,
                               .panels = panels,
                               .sums = sums,
                               .over_x = over_x};
        update(kind, &all);
    }
}

/* The sums of one row and the last panels, behind `n` spans; start and end: [panels][columns]. */
static void row_to_end_sums(const struct cell_gated *gated, uint32_t panels,
                            const struct span *spans, uint32_t n, const float *start, float *end)
{
    const size_t vectors = gated->columns / CELL_SIMD_LANES;
    const size_t at = (size_t)panels * gated->columns; // the narrow one's
    const struct sides sides = sides_of(gated);
    move_together(&sides, start + at, end + at);
    for (uint32_t s = 0; s < n; s++) {
        add_row_to_end(panels, vectors, gated->narrow / CELL_SIMD_LANES, &spans[s],
                       (struct row_sums){start, end});
        start = end;
    }
    move_apart(&sides, end + at);
}

/* One row, `panels` panels and the narrow one behind them. */
CELL_INLINE void row_to_end(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                            uint32_t panels)
{
    const size_t columns = vectors_of(kind) * CELL_SIMD_LANES;
    const struct cell_gated *gated = step->gated;
    const uint32_t panel = gated->panels - 1 - panels;
    const size_t at = panel * columns;
    const float *start = step->ahead != NULL ? step->ahead[0] + at : gated->bias + at;
    struct complete all = {
        .step = step, .panel = panel, .rows = 1, .panels = panels + 1, .sums = step->scratch};
    struct span spans[CELL_GATED_PARTS];
    const uint32_t n = list_spans(step, 0, panel, panel, spans);
    uint32_t s = 0;
    if (kind == CELL_GATED_GRU) {
        if (step->ahead == NULL) {
            float *over_x = all.sums + all.panels * columns;
            row_to_end_sums(gated, panels, &spans[s++], 1, start, over_x);
            start = over_x;
        }
        all.over_x = start;
        for (uint32_t p = 0; p < all.panels; p++) {
            begin_gru(start + p * columns, gated, panel + p, all.sums + p * columns);
        }
        start = all.sums;
    }
    row_to_end_sums(gated, panels, &spans[s], n - s, start, all.sums);
    if (!step->products_only) {
        update(kind, &all);
    }
}

/* ---- All rows ------------------------------------------------------------------------------- */

/* Some rows of a step and one panel. */
struct group {
    const struct cell_gated_step *step;
    uint32_t row, rows;
    uint32_t panel;
    struct span spans[CELL_GATED_PARTS];
    uint32_t n_spans;
    float *sums;   /* [rows][vectors], over all parts; a GRU's n over h alone */
    float *over_x; /* a GRU's, likewise, unless they were computed ahead */
};

/* A GRU's sums over x of row number r of the group. */
CELL_INLINE const float *gru_over_x(const struct group *g, uint32_t r)
{
    const size_t columns = vectors_of(CELL_GATED_GRU) * CELL_SIMD_LANES;
    const float *const *ahead = g->step->ahead;
    return ahead != NULL ? ahead[g->row + r] + g->panel * columns : g->over_x + r * columns;
}

/* The sums of a GRU, behind x and h. */
CELL_INLINE void gru_sums(const struct group *g, struct product *product)
{
    const size_t vectors = vectors_of(CELL_GATED_GRU);
    const size_t columns = vectors * CELL_SIMD_LANES;
    const struct cell_gated *gated = g->step->gated;
    product->n_spans = 1;
    if (g->step->ahead == NULL) {
        product->end.table = g->over_x;
        multiply_panel(vectors, gated, g->panel, product);
        product->end.table = g->sums;
    }
    for (uint32_t r = 0; r < g->rows; r++) {
        begin_gru(gru_over_x(g, r), gated, g->panel, g->sums + r * columns);
    }
    product->spans = g->spans + g->n_spans - 1;
    product->start = (struct starts){.table = g->sums, .stride = columns};
    multiply_panel(vectors, gated, g->panel, product);
}

/* The sums of up to GROUP_ROWS rows and one panel, behind all parts. */
CELL_INLINE void group_sums(const enum cell_gated_kind kind, const struct group *g)
{
    const size_t columns = vectors_of(kind) * CELL_SIMD_LANES;
    const struct cell_gated_step *step = g->step;
    struct product product = {.spans = g->spans,
                              .n_spans = g->n_spans,
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
    }
    multiply_panel(vectors_of(kind), step->gated, g->panel, &product);
}

/* Rows that are multiplied next stand apart, each too short for the hardware to run ahead in it;
 * what other cores wrote is far away. The panels behind the first find them near. */
CELL_INLINE void ask_for_terms(const struct group *g)
{
    const uint32_t line = BASE_CACHE_LINE / sizeof(float);
    for (uint32_t s = 0; s < g->n_spans; s++) {
        for (uint32_t r = 0; r < g->rows; r++) {
            for (uint32_t t = 0; t < g->spans[s].k; t += line) {
                __builtin_prefetch(g->spans[s].rows[r] + t, 0, 2);
            }
        }
    }
}

/* Sums that were computed ahead, of the next panel: a tile begins with them, and they have left the
 * near caches. */
CELL_INLINE void ask_for_ahead(const size_t vectors, const struct group *g, uint32_t next)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    const size_t line = BASE_CACHE_LINE / sizeof(float);
    for (uint32_t r = 0; g->step->ahead != NULL && r < g->rows; r++) {
        for (size_t at = next * columns; at < (next + 1) * columns; at += line) {
            __builtin_prefetch(g->step->ahead[g->row + r] + at);
        }
    }
}

/* All rows, for turn number i. */
CELL_INLINE void all_rows(const enum cell_gated_kind kind, const struct cell_gated_step *step,
                          uint32_t i)
{
    struct group g; // not cleared: its spans would be, for each panel
    g.step = step;
    g.panel = turn(step, i);
    g.sums = step->scratch;
    g.over_x = g.sums + GROUP_ROWS * COLUMNS_MAX;
    for (g.row = 0; g.row < step->n_rows; g.row += g.rows) {
        uint32_t left = step->n_rows - g.row;
        g.rows = left < GROUP_ROWS ? left : GROUP_ROWS;
        g.n_spans = list_spans(step, g.row, g.panel, turn(step, i + 1), g.spans);
        const struct complete all = {.step = step,
                                     .row = g.row,
                                     .panel = g.panel,
                                     .rows = g.rows,
                                     .panels = 1,
                                     .next = turn(step, i + 1),
                                     .sums = g.sums,
                                     .over_x = g.over_x};
        ask_for_ahead(vectors_of(kind), &g, turn(step, i + 1));
        if (is_tree(kind)) {
            ask_for_entries(kind, &all, 0, i == 0 ? g.rows : 2 * CELL_TOGETHER);
            if (i == 0) {
                ask_for_terms(&g);
            }
        }
        group_sums(kind, &g);
        if (!step->products_only) {
            update(kind, &all);
        }
    }
}

CELL_INLINE void step_of(const enum cell_gated_kind kind, const struct cell_gated_step *step)
{
    const size_t vectors = vectors_of(kind);
    const uint32_t together = panels_of_row(vectors);
    uint32_t panels = step->panel_end - step->panel_first;
    uint32_t skipped = 0; // turns that have been taken, of panels at the end
    uint32_t i = 0;
    if (step->n_rows == 1 && panels > 0 && cell_gated_is_narrow(step->gated, step->panel_end - 1)) {
        const uint32_t last = panels_to_end(vectors, panels - 1);
        row_to_end(kind, step, last);
        panels -= last + 1;
        skipped = step->backwards ? last + 1 : 0;
    }
    if (step->n_rows == 1) {
        for (; i + together <= panels; i += together) {
            const uint32_t lowest = step->backwards ? i + together - 1 : i;
            row_panels(kind, step, together, turn(step, skipped + lowest));
        }
        for (; together > 2 && i + 2 <= panels; i += 2) {
            row_panels(kind, step, 2, turn(step, skipped + (step->backwards ? i + 1 : i)));
        }
    }
    for (; i < panels; i++) {
        all_rows(kind, step, skipped + i);
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
    case CELL_GATED_TREE:
        step_of(CELL_GATED_TREE, step);
        break;
    case CELL_GATED_TREE_BINARY:
        step_of(CELL_GATED_TREE_BINARY, step);
        break;
    case CELL_GATED_FORGET:
        step_of(CELL_GATED_FORGET, step);
        break;
    case CELL_GATED_SUM:
        step_of(CELL_GATED_SUM, step);
        break;
    }
}

CELL_INLINE void ahead_of(const size_t vectors, const struct cell_gated_ahead *ahead)
{
    const size_t columns = vectors * CELL_SIMD_LANES;
    const struct cell_gated *gated = ahead->gated;
    const uint32_t k = weights_of(gated, 0);
    const uint64_t bytes = (uint64_t)k * gated->panels * gated->columns * sizeof(weight);
    for (uint32_t panel = ahead->panel_first; panel < ahead->panel_end; panel++) {
        uint32_t next = panel + 1 < ahead->panel_end ? panel + 1 : panel;
        for (uint32_t row = 0; row < ahead->n_rows; row += GROUP_ROWS) {
            struct span x = {.rows = ahead->x + row,
                             .k = k,
                             .weights = part_of(gated, 0, panel),
                             .next = part_of(gated, 0, next),
                             .later = part_of(gated, 0, next)};
            uint32_t left = ahead->n_rows - row;
            uint32_t rows = left < GROUP_ROWS ? left : GROUP_ROWS;
            struct product product = {.spans = &x,
                                      .n_spans = 1,
                                      .n_rows = rows,
                                      .is_streamed =
                                          is_streamed(bytes, ahead->n_rows, gated->l3_is_near),
                                      .start.table = gated->bias + panel * columns,
                                      .end = {.rows = ahead->out + row, .at = panel * columns}};
            multiply_panel(vectors, gated, panel, &product);
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
    } else if (vectors == 6) {
        ahead_of(6, ahead);
    } else {
        ahead_of(4, ahead);
    }
}

static enum base_status gated_load(struct cell_gated *gated)
{
    uint32_t lanes = (uint32_t)CELL_SIMD_LANES;
    gated->l3_is_near = base_cpus_l3_is_near();
    return cell_gated_pack(
        gated, &(struct cell_packing){.units = unit_vectors(gated->kind) * lanes,
                                      .lanes = lanes,
                                      .may_narrow = true,
                                      .has_strips = CELL_STRIPS && WEIGHT_TERMS == 1,
                                      .word_terms = WEIGHT_TERMS > 1 ? WEIGHT_TERMS : 0});
}

static size_t gated_scratch(const struct cell_gated *gated, uint32_t rows_max)
{
    (void)gated;
    (void)rows_max;
    return 2 * (size_t)GROUP_ROWS * COLUMNS_MAX; // sums, and a GRU's over x
}

#endif
#endif
