/* See beam.h. Cost a beam and step: two passes over width * ids logits, of which one computes
 * exponentials. */
#include "cells/beam.h"

#include "cells/beam_body.h"
#include "cells/ref/math.h"

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

uint32_t cell_beam_choose(struct cell_beam *beam, uint32_t step,
                          const struct cell_beam_logits *logits)
{
    struct cell_beam_candidates all = {.most = 2 * beam->width};
    if (step == 0) {
        cell_beam_begin(beam);
    }
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        if (beam->scores[lane] > -INFINITY) {
            consider_lane(beam, lane, logits, &all);
        }
    }
    const size_t at = (size_t)step * beam->width;
    return cell_beam_advance_by(beam, &all, step, beam->parents + at, beam->tokens + at);
}
