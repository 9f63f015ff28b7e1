/* See beam.h. Cost a beam and step: two passes over width * ids logits, of which one computes
 * exponentials. */
#include "cells/beam.h"

#include "cells/beam_body.h"
#include "cells/ref/math.h"

#include <string.h>

/* The logarithm of each id's probability, added to the lane's score. A lane whose logits are no
 * numbers has no continuation. */
static void consider_lane(const struct cell_beam *beam, uint32_t lane,
                          const struct cell_beam_logits *logits, struct cell_beam_candidates *all)
{
    logits->log_softmax(beam->ids, logits->rows[lane], beam->room);
    for (uint32_t id = 0; id < beam->ids; id++) {
        const float score = beam->scores[lane] + beam->room[id];
        (void)cell_beam_consider(all, (struct cell_beam_candidate){score, lane, id});
    }
}

/* ---- A transducer's labels ------------------------------------------------------------------- */

/* The hash of labels with another behind them: each step of it can be undone, so that other labels
 * of the same number meet by chance alone. */
static uint64_t say(uint64_t said, uint32_t id)
{
    const uint64_t mixed = (said ^ ((uint64_t)id + 1)) * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 29;
}

/* log(exp(a) + exp(b)) by our own functions, a >= b: the same bits everywhere. */
static float log_of_sum(float a, float b)
{
    return a + cell_log_f32(1.0f + cell_exp_f32(b - a));
}

/* The lane among the first n that has said these; n: none. */
static uint32_t find_lane(const struct cell_beam_labels *labels, uint32_t n, uint64_t said,
                          uint32_t count)
{
    uint32_t lane = 0;
    while (lane < n && (labels->said[lane] != said || labels->counts[lane] != count)) {
        lane++;
    }
    return lane;
}

/* The candidates, best first, become the lanes of the next step. */
static uint32_t go_on(struct cell_beam *beam, const struct cell_beam_candidates *all, size_t at)
{
    struct cell_beam_labels *labels = beam->labels;
    const struct cell_beam_labels before = *labels;
    float scores[CELL_BEAM_MAX];
    uint32_t n = 0;
    memcpy(scores, beam->scores, sizeof(scores));
    for (uint32_t i = 0; i < all->n; i++) {
        const struct cell_beam_candidate *one = &all->best[i];
        const bool is_blank = (int64_t)one->id == labels->blank;
        const uint64_t said =
            is_blank ? before.said[one->lane] : say(before.said[one->lane], one->id);
        const uint32_t count = before.counts[one->lane] + (is_blank ? 0 : 1);
        const uint32_t lane = find_lane(labels, n, said, count);
        if (lane < n) {
            beam->scores[lane] = log_of_sum(beam->scores[lane], one->score);
            continue;
        }
        beam->scores[n] = one->score;
        beam->parents[at + n] = (int32_t)one->lane;
        beam->tokens[at + n] = (int32_t)one->id;
        labels->gains[at + n] = one->score - scores[one->lane];
        labels->said[n] = said;
        labels->counts[n++] = count;
    }
    for (uint32_t lane = n; lane < beam->width; lane++) {
        beam->scores[lane] = -INFINITY;
    }
    return n;
}

static uint32_t advance_labels(struct cell_beam *beam, const struct cell_beam_candidates *all,
                               uint32_t step)
{
    const uint32_t n = go_on(beam, all, (size_t)step * beam->width);
    const bool is_last = step + 1 == beam->steps;
    for (uint32_t lane = 0; lane < n && is_last; lane++) {
        const struct cell_beam_found found = {
            .score = beam->scores[lane], .steps = beam->steps, .lane = lane};
        cell_beam_complete(beam, found, beam->labels->counts[lane] + beam->labels->context);
    }
    beam->is_done = n == 0 || is_last;
    return n;
}

/* ---- Of either kind -------------------------------------------------------------------------- */

uint32_t cell_beam_choose(struct cell_beam *beam, uint32_t step,
                          const struct cell_beam_logits *logits)
{
    const bool has_labels = beam->labels != NULL;
    struct cell_beam_candidates all = {.most = has_labels ? beam->width : 2 * beam->width};
    if (step == 0) {
        cell_beam_begin(beam);
    }
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        if (beam->scores[lane] > -INFINITY) {
            consider_lane(beam, lane, logits, &all);
        }
    }
    const size_t at = (size_t)step * beam->width;
    return has_labels
               ? advance_labels(beam, &all, step)
               : cell_beam_advance_by(beam, &all, step, beam->parents + at, beam->tokens + at);
}
