/* Bodies of the kernels of beam searches; see step.h. What is chosen has the bits of the host's
 * choice (cells/beam.c): the same sums in the same order, and cells/beam_body.h. */
#ifndef CELLS_CUDA_STEP_SEARCH_H
#define CELLS_CUDA_STEP_SEARCH_H

#include "cells/beam_body.h"
#include "cells/cuda/step_ops.h"
#include "cells/cuda/step_rows.h"

/* Of one lane of a search. */
struct cell_step_logits {
    const float *in;
    uint32_t n;      /* ids */
    float score;     /* the lane's */
    float high;      /* the largest */
    float log_most;  /* logarithm of the largest probability */
    float threshold; /* as many continuations as count have this score at least */
};

/* The logarithm of the id's probability, as cell_log_softmax_f32__scalar() has it, added to the
 * lane's score. */
CELL_STEP_FN float cell_step_score_of(const struct cell_step_logits *logits, float logit)
{
    return logits->score + cell_nan_f32((logit - logits->high) + logits->log_most);
}

/* Of the searchers' largest logits the n-th largest: n ids or more have it, or are above it. */
CELL_STEP_FN float cell_step_nth(const float *room, uint32_t n)
{
    float nth = -INFINITY;
    for (uint32_t i = 0; i < CELL_STEP_SEARCHERS; i++) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < CELL_STEP_SEARCHERS; j++) {
            before += room[j] > room[i] || (room[j] == room[i] && j < i) ? 1 : 0;
        }
        nth = before + 1 == n ? room[i] : nth;
    }
    return nth;
}

CELL_STEP_FN float cell_step_highest(const float *room)
{
    float high = -INFINITY;
    for (uint32_t i = 0; i < CELL_STEP_SEARCHERS; i++) {
        high = cell_math_max(room[i], high);
    }
    return high;
}

/* A searcher's continuations so far, best first; of equal ones the lower id. */
CELL_STEP_FN void cell_step_keep(struct cell_step_continued *kept, uint32_t most,
                                 struct cell_step_continued one)
{
    if (!(one.score > kept[most - 1].score)) {
        return;
    }
    uint32_t at = most - 1;
    while (at > 0 && one.score > kept[at - 1].score) {
        kept[at] = kept[at - 1];
        at--;
    }
    kept[at] = one;
}

/* Few are as good as the threshold, but for ids that are all alike. */
CELL_STEP_FN void cell_step_keep_all(const struct cell_step_logits *logits,
                                     struct cell_step_continued *kept, uint32_t most, uint32_t lane)
{
    for (uint32_t i = 0; i < most; i++) {
        kept[i].score = -INFINITY;
        kept[i].id = 0;
    }
    for (uint32_t id = lane; id < logits->n; id += CELL_STEP_SEARCHERS) {
        struct cell_step_continued one;
        one.score = cell_step_score_of(logits, logits->in[id]);
        one.id = id;
        if (one.score >= logits->threshold) { // no NaN
            cell_step_keep(kept, most, one);
        }
    }
}

/* Each of a searcher's continuations to its place among all. */
CELL_STEP_FN void cell_step_place_all(const struct cell_step_continued *room,
                                      struct cell_step_continued *best, uint32_t most,
                                      uint32_t lane)
{
    const struct cell_step_continued *own = room + (uint64_t)lane * CELL_STEP_BEST;
    uint32_t at = 0;
    for (uint32_t i = 0; i < most && at < most && own[i].score > -INFINITY; i++) {
        at = 0;
        for (uint32_t other = 0; other < CELL_STEP_SEARCHERS && at < most; other++) {
            const struct cell_step_continued *one = room + (uint64_t)other * CELL_STEP_BEST;
            for (uint32_t k = 0;
                 k < most && (one[k].score > own[i].score ||
                              (one[k].score == own[i].score && one[k].id < own[i].id));
                 k++) {
                at++;
            }
        }
        if (at < most) {
            best[at] = own[i];
        }
    }
}

/* Phases: each searcher's largest logit; sixteen sums of exponentials; continuations that may be
 * among the best; those to their places. room: the largest, [32], and the sums. */
CELL_STEP_FN void cell_step_search(const struct cell_step_search_lane *p, struct cell_step_at at)
{
    const struct cell_step_row *row = cell_step_row(&p->batch, at.item);
    if (!cell_step_runs(&p->batch, at.item) || row->search == 0) {
        return;
    }
    const struct cell_beam *beam = cell_step_beam(&p->batch, row);
    const uint32_t most = 2 * beam->width;
    struct cell_step_continued *best =
        (struct cell_step_continued *)(void *)cell_step_words(p->best, at.item);
    struct cell_step_continued *room =
        (struct cell_step_continued *)(void *)cell_step_words(p->room, at.item);
    struct cell_step_logits logits;
    logits.in = cell_step_f32(p->outputs[beam->logits], at.item);
    logits.n = beam->ids;
    logits.score = beam->scores[row->lane];
    if (at.phase == 0) {
        float high = -INFINITY;
        for (uint32_t id = at.lane; id < logits.n; id += CELL_STEP_SEARCHERS) {
            high = cell_math_max(logits.in[id], high);
        }
        at.room[at.lane] = high;
        if (at.lane < most) {
            best[at.lane].score = -INFINITY;
            best[at.lane].id = 0;
        }
    }
    if (at.phase == 0 || !(logits.score > -INFINITY)) {
        return; // nobody is there
    }
    float *sums = at.room + CELL_STEP_SEARCHERS;
    logits.high = cell_step_highest(at.room);
    if (at.phase == 1 && at.lane < CELL_SOFTMAX_LANES) {
        float sum = 0.0f;
        for (uint32_t id = at.lane; id < logits.n; id += CELL_SOFTMAX_LANES) {
            sum += cell_exp_f32(logits.in[id] - logits.high);
        }
        sums[at.lane] = sum;
    } else if (at.phase == 2) {
        // The largest exponential is that of 0, and a quotient by the sum no less than others'.
        logits.log_most = cell_log_f32(cell_nan_f32(1.0f / cell_step_fold(sums)));
        logits.threshold = cell_step_score_of(&logits, cell_step_nth(at.room, most));
        cell_step_keep_all(&logits, room + (uint64_t)at.lane * CELL_STEP_BEST, most, at.lane);
    } else if (at.phase == 3) {
        cell_step_place_all(room, best, most, at.lane);
    }
}

CELL_STEP_FN void cell_step_choose(const struct cell_step_choose *p, struct cell_step_at at)
{
    const struct cell_step_row *row = cell_step_row(&p->batch, at.item);
    if (!cell_step_runs(&p->batch, at.item) || row->search == 0 || row->lane != 0) {
        return;
    }
    struct cell_beam *beam = cell_step_beam(&p->batch, row);
    struct cell_beam_candidates all;
    all.n = 0;
    all.most = 2 * beam->width;
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        const struct cell_step_continued *best =
            (const struct cell_step_continued *)(const void *)cell_step_words(p->best,
                                                                              at.item + lane);
        struct cell_beam_candidate one;
        one.lane = lane;
        for (uint32_t i = 0; i < all.most; i++) {
            one.score = best[i].score;
            one.id = best[i].id;
            if (!cell_beam_consider(&all, one)) {
                break;
            }
        }
    }
    int32_t *tokens = cell_step_choices(&p->batch, row, beam->width);
    int32_t *parents = tokens + beam->width;
    const uint32_t n =
        cell_beam_advance_by(beam, &all, cell_step_taken(&p->batch, row), parents, tokens);
    for (uint32_t lane = n; lane < beam->width; lane++) { // nobody is there
        parents[lane] = (int32_t)lane;
        tokens[lane] = 0;
    }
}

#endif
