/* See beam.h. Each beam is one member's. Cost a beam and step: the choice (cells/beam.h), and one
 * copy of the states. */
#include "cells/cpu/beam.h"

#include "base/assert.h"
#include "cells/beam.h"

#include <string.h>

/* State s of a lane that has gone on by this id; copy: of the lane that it continues. */
static void write_state(const struct cell_beam *beam, uint32_t s, const uint8_t *copy, int64_t id,
                        size_t bytes, uint8_t *to)
{
    const struct cell_beam_labels *labels = beam->labels;
    const bool is_blank = labels != NULL && id == labels->blank;
    const float held = is_blank ? 1.0f : 0.0f;
    if (s == beam->token) {
        memcpy(to, &id, bytes); // little-endian
    } else if (labels != NULL && s == labels->held) {
        memcpy(to, &held, bytes);
    } else if (labels != NULL && s == labels->state && !is_blank) {
        const size_t last = bytes - bytes / labels->context;
        memcpy(to, copy + bytes - last, last);
        memcpy(to + last, &id, bytes - last);
    } else {
        memcpy(to, copy, bytes);
    }
}

/* States of lane i become those of lane parents[i], which goes on by ids[i]. first: lane 0 among
 * the view's rows. */
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
            write_state(beam, s, beam->copies + lane * bytes, ids[lane], bytes, rows[lane]);
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
