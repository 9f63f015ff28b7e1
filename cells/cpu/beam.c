/* See beam.h. Each beam is one member's. Cost a beam and step: the choice (cells/beam.h), and one
 * copy of the states. */
#include "cells/cpu/beam.h"

#include "base/assert.h"
#include "cells/beam.h"

#include <string.h>

/* States of lane i become those of lane parents[i]; its token is ids[i]. first: lane 0 among the
 * view's rows. */
static void move_states(const struct cell_view *view, const struct cell_beam *beam, uint32_t first,
                        uint32_t n, const int32_t *parents, const int32_t *ids)
{
    const struct cell_program *program = view->program;
    for (uint32_t s = 0; s < program->type->def.n_states; s++) {
        const uint32_t value = program->next_value[s];
        uint8_t *const *rows = view->space->rows[value] + first;
        const struct cell_value shape = program->values[value].shape;
        const size_t bytes = (size_t)shape.width * cell_dtype_bytes(shape.dtype);
        for (uint32_t lane = 0; lane < n; lane++) {
            memcpy(beam->copies + lane * bytes, rows[parents[lane]], bytes);
        }
        for (uint32_t lane = 0; lane < n; lane++) {
            const int64_t id = ids[lane];
            memcpy(rows[lane], s == beam->token ? (const void *)&id : beam->copies + lane * bytes,
                   bytes); // little-endian
        }
    }
}

static void advance(const struct cell_view *view, uint32_t first)
{
    struct cell_beam *beam = cell_view_row(view, first)->wiring->beam;
    const uint32_t value = view->program->type->def.outputs[beam->logits];
    const uint32_t step = cell_view_step(view, first);
    const size_t at = (size_t)step * beam->width;
    struct cell_beam_logits logits = {.log_softmax = view->program->kernels->log_softmax};
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        logits.rows[lane] = (const float *)(const void *)view->space->rows[value][first + lane];
    }
    const uint32_t n = cell_beam_choose(beam, step, &logits);
    move_states(view, beam, first, n, beam->parents + at, beam->tokens + at);
}

void cell_beam_advance(const struct cell_view *view)
{
    uint32_t number = 0;
    for (uint32_t r = 0; r < view->n_rows; r++) {
        const struct cell_wiring *wiring = cell_view_row(view, r)->wiring;
        if (wiring->beam != NULL && wiring->lane == 0) {
            base_assert(r + wiring->beam->width <= view->n_rows);
            if (number++ % view->run->members == view->member) {
                advance(view, r);
            }
        }
    }
    cell_view_barrier(view);
}
