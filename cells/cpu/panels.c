/* See panels.h. A member's share is one word, [round:32 | first:16 | end:16]: what of it nobody has
 * taken yet. The round says which op it is about; whoever comes first, the owner or another, begins
 * a share, whose panels all know. Nobody goes on to the next op before all panels of this one are
 * taken, so that a share of a later round than one's own has nothing left. Taking is relaxed: what
 * is read was written before the run, or before a barrier that all have reached, and what is
 * computed is read behind the next one. */
#include "cells/cpu/panels.h"

#include <stdatomic.h>

/* Below this many operations a member, some microseconds, taking costs more than waiting. */
#define TAKE_FLOPS 400000u

/* More panels, of so many pieces each, do not fit the word. */
#define PANELS_MAX (UINT16_MAX / CELL_PIECES_MAX)

/* Fewer rows are not cut in two; and what is cut off are whole tiles of so many. */
#define SPLIT_ROWS_MIN 24u
#define SPLIT_TILE     6u

/* Fewer rows are not shared out by rows: a piece is a quarter of them, and a tile has 8 at most. */
#define GROUPS_ROWS_MIN 32u

/* Nor where both members would read more weights than this: from memory, once for each. */
#define GROUPS_BYTES_MAX ((uint64_t)4 << 20)

static uint64_t word_of(uint32_t round, uint32_t first, uint32_t end)
{
    return (uint64_t)round << 32 | first << 16 | end;
}

static uint32_t round_of(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

/* Rounds are counted over and over. */
static bool is_before(uint32_t round, uint32_t other)
{
    return (int32_t)(round - other) < 0;
}

/* The whole share of a member. */
static uint64_t share_of(const struct cell_panels *panels, uint32_t member)
{
    const uint64_t n = panels->n;
    const uint32_t members = panels->view->run->members;
    return word_of(panels->round, (uint32_t)(n * member / members),
                   (uint32_t)(n * (member + 1) / members));
}

/* The panel at which member m's part of the wave begins: the nearest to m of `members` parts. */
static uint32_t part_at(const struct cell_wave *wave, uint32_t n, uint32_t m, uint32_t members)
{
    const uint64_t at = wave->total * m / members + wave->panel / 2;
    const uint64_t panel = at < wave->before ? 0 : (at - wave->before) / wave->panel;
    return panel < n ? (uint32_t)panel : n;
}

void cell_panels_share(const struct cell_view *view, const struct cell_wave *wave, uint32_t n,
                       uint32_t *first, uint32_t *end)
{
    const uint32_t members = view->run->members;
    if (wave == NULL || members == 1) {
        cell_view_share(view, n, first, end);
        return;
    }
    *first = part_at(wave, n, view->member, members);
    *end = view->member + 1 == members ? n : part_at(wave, n, view->member + 1, members);
}

/* Unless another was faster. Even a share of nothing is begun: no word falls far behind, so that it
 * is always clear which round is the later. */
static void begin_own(const struct cell_panels *panels)
{
    const struct cell_view *view = panels->view;
    uint64_t word = atomic_load_explicit(view->space->share, memory_order_relaxed);
    if (is_before(round_of(word), panels->round)) {
        (void)atomic_compare_exchange_strong_explicit(view->space->share, &word,
                                                      share_of(panels, view->member),
                                                      memory_order_relaxed, memory_order_relaxed);
    }
}

void cell_panels_align(struct cell_space *spaces, uint32_t members, uint32_t all)
{
    for (uint32_t m = members; m < all; m++) {
        spaces[m].round = spaces[0].round;
        // Relaxed: the next run's start publishes it.
        atomic_store_explicit(spaces[m].share, word_of(spaces[0].round, 0, 0),
                              memory_order_relaxed);
    }
}

/* Where the rows are cut in two: whole tiles of 6 (or of 5, where 5 are the best) before it. Of few
 * rows the weights would be read twice for little. */
static uint32_t split_of(uint32_t rows)
{
    return rows < SPLIT_ROWS_MIN ? rows : rows / 2 / SPLIT_TILE * SPLIT_TILE;
}

/* Groups and pieces, and where each begins. */
static void cut_rows(struct cell_panels *panels, bool by_rows)
{
    const uint32_t rows = panels->rows;
    const uint32_t split = split_of(rows);
    panels->groups = by_rows && rows >= GROUPS_ROWS_MIN ? 2 : 1;
    panels->pieces = panels->groups == 2 || split < rows ? 2 : 1;
    const uint32_t n = panels->groups * panels->pieces;
    for (uint32_t i = 0; i <= n; i++) {
        panels->row_at[i] = rows * i / n;
    }
    if (n == 2) {
        panels->row_at[1] = split;
    }
}

void cell_panels_begin(struct cell_panels *panels, const struct cell_view *view,
                       const struct cell_wave *wave, uint32_t n, uint32_t rows, uint64_t flops)
{
    const uint32_t members = view->run->members;
    *panels = (struct cell_panels){.view = view,
                                   .rows = rows,
                                   .row_end = rows,
                                   .groups = 1,
                                   .pieces = 1,
                                   .n = n,
                                   .unit = 1,
                                   .victim = view->member};
    if (members == 1 || n > PANELS_MAX || flops / members < TAKE_FLOPS) {
        cell_panels_share(view, wave, n, &panels->first, &panels->end);
        return;
    }
    // A weight of four bytes is a multiply-add for each row.
    cut_rows(panels, view->run->by_rows && 2 * flops / rows <= GROUPS_BYTES_MAX);
    panels->n = n * panels->groups * panels->pieces;
    // 0 says that a share is fixed.
    view->space->round = view->space->round == UINT32_MAX ? 1 : view->space->round + 1;
    panels->round = view->space->round;
    begin_own(panels);
}

/* Pieces to take of `left`. Of the own share the near half, in whole panels while there are
 * several; of another's the least, from the far end. */
static uint32_t pieces_of(const struct cell_panels *panels, uint32_t left, bool is_own, bool is_cut)
{
    const uint32_t panel = panels->pieces * panels->unit;
    uint32_t n = is_own ? left / 2 / panel * panel : left > 2 * panel && !is_cut ? panel : 0;
    n = n == 0 ? (panels->pieces == 2 ? 1 : panel) : n;
    return n > left ? left : n;
}

static bool take(struct cell_panels *panels)
{
    const struct cell_view *view = panels->view;
    const bool is_own = panels->victim == view->member;
    const bool is_low = is_own != cell_view_is_backwards(view);
    _Atomic uint64_t *share = view->run->spaces[panels->victim].share;
    uint64_t word = atomic_load_explicit(share, memory_order_relaxed);
    for (;;) {
        const uint64_t now =
            is_before(round_of(word), panels->round) ? share_of(panels, panels->victim) : word;
        const uint32_t first = (uint32_t)(now >> 16) & UINT16_MAX;
        const uint32_t end = (uint32_t)now & UINT16_MAX;
        const uint32_t left = end - first;
        if (round_of(now) != panels->round || left == 0) {
            return false;
        }
        const bool is_cut = (is_low ? first : end) % panels->pieces != 0;
        const uint32_t n = pieces_of(panels, left, is_own, is_cut);
        const uint64_t rest =
            word_of(panels->round, is_low ? first + n : first, is_low ? end : end - n);
        if (atomic_compare_exchange_weak_explicit(share, &word, rest, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            panels->taken_first = is_low ? first : end - n;
            panels->taken_end = panels->taken_first + n;
            return true;
        }
    }
}

/* The next of the pieces that were taken: whole panels of one group of rows, or one piece. */
static void compute(struct cell_panels *panels)
{
    const uint32_t pieces = panels->pieces;
    const uint32_t in_group = panels->n / panels->groups;
    const uint32_t group = panels->taken_first / in_group;
    const uint32_t before = group * in_group;
    const uint32_t at = panels->taken_first - before;
    const uint32_t taken = panels->taken_end - before;
    const uint32_t end = taken < in_group ? taken : in_group;
    const uint32_t piece = at % pieces;
    const bool is_one = pieces > 1 && (piece > 0 || end - at == 1);
    const uint32_t *row_at = panels->row_at + (size_t)group * pieces;
    panels->first = at / pieces;
    panels->end = is_one ? panels->first + 1 : end / pieces;
    panels->row_first = row_at[piece];
    panels->row_end = row_at[is_one ? piece + 1 : pieces];
    panels->taken_first = before + (is_one ? at + 1 : panels->end * pieces);
}

bool cell_panels_next(struct cell_panels *panels)
{
    if (panels->is_done) {
        return false;
    }
    if (panels->round == 0) {
        panels->is_done = true;
        return panels->first < panels->end;
    }
    const uint32_t members = panels->view->run->members;
    uint32_t visited = 0;
    while (panels->taken_first == panels->taken_end && visited < members && !take(panels)) {
        panels->victim = (panels->victim + 1) % members;
        visited++;
    }
    panels->is_done = panels->taken_first == panels->taken_end;
    if (!panels->is_done) {
        compute(panels);
    }
    return !panels->is_done;
}

uint64_t cell_panels_flops(const struct cell_gated *gated, uint32_t terms, uint32_t rows)
{
    const uint64_t sums = (uint64_t)cell_gated_gates(gated->kind) * gated->hidden * rows;
    return gated->precision == CELL_INT8 ? 0 : 2 * (uint64_t)terms * sums;
}

void cell_panels_linear(const struct cell_view *view, const struct cell_wave *wave,
                        const struct cell_linear_rows *whole)
{
    const struct cell_linear *linear = whole->linear;
    struct cell_linear_rows rows = *whole;
    const bool is_int8 = linear->precision == CELL_INT8; // its members' shares are fixed
    uint64_t flops = is_int8 ? 0 : 2ull * linear->inputs * linear->outputs * whole->n_rows;
    struct cell_panels panels;
    cell_panels_begin(&panels, view, wave, linear->panels, whole->n_rows, flops);
    while (cell_panels_next(&panels)) {
        rows.panel_first = panels.first;
        rows.panel_end = panels.end;
        rows.n_rows = panels.row_end - panels.row_first;
        rows.x = whole->x + panels.row_first;
        rows.out = whole->out + panels.row_first;
        view->program->kernels->linear_rows(&rows);
    }
}

void cell_panels_gated(const struct cell_view *view, const struct cell_wave *wave,
                       struct cell_gated_step *step)
{
    const struct cell_gated *gated = step->gated;
    const uint32_t gates = cell_gated_gates(gated->kind);
    const uint32_t terms = gated->feedback + gated->right + (step->x != NULL ? gated->inputs : 0);
    const float *const *children[CELL_CHILDREN_MAX];
    struct cell_panels panels;
    cell_panels_begin(&panels, view, wave, gated->panels, step->n_rows,
                      cell_panels_flops(gated, terms, step->n_rows));
    // One row goes through several panels at once (product_body.h).
    panels.unit = step->n_rows > 1 ? 1 : gates == 3 ? 3 : 2;
    while (cell_panels_next(&panels)) {
        step->panel_first = panels.first;
        step->panel_end = panels.end;
        if (panels.row_end - panels.row_first == panels.rows) {
            view->program->kernels->gated_step(step);
            continue;
        }
        const struct cell_gated_step half =
            cell_gated_step_of_rows(step, panels.row_first, panels.row_end, children);
        view->program->kernels->gated_step(&half);
    }
}
