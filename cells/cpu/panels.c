/* See panels.h. A member's share is one word, [round:32 | first:16 | end:16]: what of it nobody has
 * taken yet. The round says which op it is about, so that nobody takes from a share of an op that
 * its owner has not begun. Taking is relaxed: whoever takes has passed the same barrier as the
 * owner, and what is computed is read behind the next one. */
#include "cells/cpu/panels.h"

#include <stdatomic.h>

/* Below this many operations a member, some microseconds, taking costs more than waiting. */
#define TAKE_FLOPS 400000u

/* More panels do not fit the word. */
#define PANELS_MAX UINT16_MAX

static uint64_t word_of(uint32_t round, uint32_t first, uint32_t end)
{
    return (uint64_t)round << 32 | first << 16 | end;
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

void cell_panels_begin(struct cell_panels *panels, const struct cell_view *view,
                       const struct cell_wave *wave, uint32_t n, uint64_t flops, uint32_t unit)
{
    const uint32_t members = view->run->members;
    *panels = (struct cell_panels){.view = view, .unit = unit, .victim = view->member};
    if (members == 1 || n > PANELS_MAX || flops / members < TAKE_FLOPS) {
        cell_panels_share(view, wave, n, &panels->first, &panels->end);
        return;
    }
    cell_view_share(view, n, &panels->first, &panels->end);
    // 0 says that a share is fixed.
    view->space->round = view->space->round == UINT32_MAX ? 1 : view->space->round + 1;
    panels->round = view->space->round;
    atomic_store_explicit(view->space->share, word_of(panels->round, panels->first, panels->end),
                          memory_order_relaxed);
}

void cell_panels_begin_gated(struct cell_panels *panels, const struct cell_view *view,
                             const struct cell_wave *wave, const struct cell_gated *gated,
                             uint32_t terms)
{
    const uint32_t gates = cell_gated_gates(gated->kind);
    uint64_t flops = 2ull * terms * gates * gated->hidden * view->n_rows;
    // One row goes through several panels at once (product_body.h).
    uint32_t unit = view->n_rows > 1 ? 1 : gates == 3 ? 3 : 2;
    cell_panels_begin(panels, view, wave, gated->panels, gated->precision == CELL_INT8 ? 0 : flops,
                      unit);
}

/* Of the own share the near half, of another's one unit from the far end. */
static bool take(struct cell_panels *panels)
{
    const struct cell_view *view = panels->view;
    const bool is_own = panels->victim == view->member;
    const bool is_low = is_own != cell_view_is_backwards(view);
    _Atomic uint64_t *share = view->run->spaces[panels->victim].share;
    uint64_t word = atomic_load_explicit(share, memory_order_relaxed);
    for (;;) {
        const uint32_t first = (uint32_t)(word >> 16) & UINT16_MAX;
        const uint32_t end = (uint32_t)word & UINT16_MAX;
        const uint32_t left = end - first;
        if ((uint32_t)(word >> 32) != panels->round || left == 0) {
            return false;
        }
        uint32_t n = is_own ? left / 2 / panels->unit * panels->unit : panels->unit;
        n = n < panels->unit ? panels->unit : n;
        n = n > left ? left : n;
        panels->first = is_low ? first : end - n;
        panels->end = panels->first + n;
        uint64_t rest = word_of(panels->round, is_low ? first + n : first, is_low ? end : end - n);
        if (atomic_compare_exchange_weak_explicit(share, &word, rest, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return true;
        }
    }
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
    do {
        if (take(panels)) {
            return true;
        }
        panels->victim = (panels->victim + 1) % members;
    } while (panels->victim != panels->view->member);
    panels->is_done = true;
    return false;
}
