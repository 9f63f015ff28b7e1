/* See beam.h. Cost a beam and step: two passes over width * ids logits, of which one computes
 * exponentials. */
#include "cells/beam.h"

#include "cells/ref/math.h"

#include <math.h>

/* A lane and the id that would continue it. */
struct candidate {
    float score;
    uint32_t lane, id;
};

/* The best so far, best first. */
struct candidates {
    uint32_t n, most;
    struct candidate best[2 * CELL_BEAM_MAX];
};

/* Behind equal ones: candidates come in the order of lanes and ids. */
static void consider(struct candidates *all, struct candidate one)
{
    if (!(one.score > -INFINITY)) {
        return; // impossible, or no number
    }
    if (all->n == all->most && !(one.score > all->best[all->n - 1].score)) {
        return;
    }
    uint32_t at = all->n < all->most ? all->n++ : all->n - 1;
    while (at > 0 && one.score > all->best[at - 1].score) {
        all->best[at] = all->best[at - 1];
        at--;
    }
    all->best[at] = one;
}

/* The logarithm of each id's probability, added to the lane's score. A lane whose logits are no
 * numbers has no continuation. */
static void consider_lane(const struct cell_beam *beam, uint32_t lane,
                          const struct cell_beam_logits *logits, struct candidates *all)
{
    logits->softmax(beam->ids, logits->rows[lane], beam->room);
    cell_log_of_softmax_f32__scalar(beam->ids, logits->rows[lane], beam->room);
    for (uint32_t id = 0; id < beam->ids; id++) {
        const float score = beam->scores[lane] + beam->room[id];
        consider(all, (struct candidate){score, lane, id});
    }
}

static void complete(struct cell_beam *beam, struct cell_beam_found one, uint32_t length)
{
    // length ^ penalty by our own functions: the same bits everywhere.
    one.rank = one.score /
               cell_exp_f32__scalar(beam->length_penalty * cell_log_f32__scalar((float)length));
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

/* The candidates become complete hypotheses and the lanes of the next step. Returns how many lanes
 * there are; parents and ids, of the lanes. */
static uint32_t choose(struct cell_beam *beam, const struct candidates *all, uint32_t step,
                       int32_t *parents, int32_t *ids)
{
    float scores[CELL_BEAM_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->n && n < beam->width; i++) {
        const struct candidate *one = &all->best[i];
        if (beam->has_end && (int64_t)one->id == beam->end) {
            if (i < beam->width) {
                complete(
                    beam,
                    (struct cell_beam_found){.score = one->score, .steps = step, .lane = one->lane},
                    step + 1);
            }
            continue;
        }
        scores[n] = one->score;
        parents[n] = (int32_t)one->lane;
        ids[n++] = (int32_t)one->id;
    }
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        beam->scores[lane] = lane < n ? scores[lane] : -INFINITY;
    }
    return n;
}

/* What is left in the lanes after the last step is complete too. */
static void complete_lanes(struct cell_beam *beam)
{
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        if (beam->scores[lane] > -INFINITY) {
            complete(beam,
                     (struct cell_beam_found){
                         .score = beam->scores[lane], .steps = beam->steps, .lane = lane},
                     beam->steps);
        }
    }
}

uint32_t cell_beam_choose(struct cell_beam *beam, uint32_t step,
                          const struct cell_beam_logits *logits)
{
    struct candidates all = {.most = 2 * beam->width};
    if (step == 0) { // the lanes are all the same
        for (uint32_t lane = 0; lane < beam->width; lane++) {
            beam->scores[lane] = lane == 0 ? 0.0f : -INFINITY;
        }
    }
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        if (beam->scores[lane] > -INFINITY) {
            consider_lane(beam, lane, logits, &all);
        }
    }
    const size_t at = (size_t)step * beam->width;
    const uint32_t n = choose(beam, &all, step, beam->parents + at, beam->tokens + at);
    if (step + 1 == beam->steps) {
        complete_lanes(beam);
    }
    beam->is_done = n == 0 || beam->n_found == beam->width || step + 1 == beam->steps;
    return n;
}
