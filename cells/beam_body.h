/* The choice between two steps of a beam search, once for hosts (cells/beam.c) and for the kernels
 * of cells/cuda/: C11 and CUDA C++ at once, as cells/ref/math_body.h is. struct cell_beam in
 * beam_state.h says the rules. Pure but for what it is given; nothing is allocated. */
#ifndef CELLS_BEAM_BODY_H
#define CELLS_BEAM_BODY_H

#include "cells/beam_state.h"
#include "cells/ref/math_body.h"

/* A lane and the id that would continue it. */
struct cell_beam_candidate {
    float score;
    uint32_t lane, id;
};

/* The best so far, best first. */
struct cell_beam_candidates {
    uint32_t n, most; /* most: 2 * width */
    struct cell_beam_candidate best[2 * CELL_BEAM_MAX];
};

/* Before the first step the lanes are all the same. */
CELL_MATH_FN void cell_beam_begin(struct cell_beam *beam)
{
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        beam->scores[lane] = lane == 0 ? 0.0f : -INFINITY;
    }
}

/* Behind equal ones: candidates come in the order of lanes and ids. False: it is not among the
 * best, and none that comes later with no better score would be. */
CELL_MATH_FN bool cell_beam_consider(struct cell_beam_candidates *all,
                                     struct cell_beam_candidate one)
{
    if (!(one.score > -INFINITY)) {
        return false; // impossible, or no number
    }
    if (all->n == all->most && !(one.score > all->best[all->n - 1].score)) {
        return false;
    }
    uint32_t at = all->n < all->most ? all->n++ : all->n - 1;
    while (at > 0 && one.score > all->best[at - 1].score) {
        all->best[at] = all->best[at - 1];
        at--;
    }
    all->best[at] = one;
    return true;
}

CELL_MATH_FN void cell_beam_complete(struct cell_beam *beam, struct cell_beam_found one,
                                     uint32_t length)
{
    // length ^ penalty by our own functions: the same bits everywhere.
    one.rank = one.score / cell_exp_f32(beam->length_penalty * cell_log_f32((float)length));
    uint32_t at = beam->n_found < beam->width ? beam->n_found++ : beam->width;
    while (at > 0 && one.rank > beam->found[at - 1].rank) {
        if (at < beam->width) {
            beam->found[at] = beam->found[at - 1];
        }
        at--;
    }
    if (at < beam->width) {
        beam->found[at] = one;
    }
}

/* The candidates become complete hypotheses and the lanes of the next step: parents and ids,
 * [width], of the first lanes. Returns how many those are. */
CELL_MATH_FN uint32_t cell_beam_go_on(struct cell_beam *beam,
                                      const struct cell_beam_candidates *all, uint32_t step,
                                      int32_t *parents, int32_t *ids)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->n && n < beam->width; i++) {
        const struct cell_beam_candidate *one = &all->best[i];
        if (!beam->has_end || (int64_t)one->id != beam->end) {
            beam->scores[n] = one->score;
            parents[n] = (int32_t)one->lane;
            ids[n++] = (int32_t)one->id;
        } else if (i < beam->width) {
            struct cell_beam_found found;
            found.score = one->score;
            found.rank = 0.0f;
            found.steps = step;
            found.lane = one->lane;
            cell_beam_complete(beam, found, step + 1);
        }
    }
    for (uint32_t lane = n; lane < beam->width; lane++) {
        beam->scores[lane] = -INFINITY;
    }
    return n;
}

/* What is left in the lanes after the last step is complete too. */
CELL_MATH_FN void cell_beam_complete_lanes(struct cell_beam *beam)
{
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        if (beam->scores[lane] > -INFINITY) {
            struct cell_beam_found found;
            found.score = beam->scores[lane];
            found.rank = 0.0f;
            found.steps = beam->steps;
            found.lane = lane;
            cell_beam_complete(beam, found, beam->steps);
        }
    }
}

/* After step `step`, of which these are the best candidates. As cell_beam_go_on(). */
CELL_MATH_FN uint32_t cell_beam_advance_by(struct cell_beam *beam,
                                           const struct cell_beam_candidates *all, uint32_t step,
                                           int32_t *parents, int32_t *ids)
{
    const uint32_t n = cell_beam_go_on(beam, all, step, parents, ids);
    if (step + 1 == beam->steps) {
        cell_beam_complete_lanes(beam);
    }
    beam->is_done = n == 0 || beam->n_found == beam->width || step + 1 == beam->steps;
    return n;
}

#endif
