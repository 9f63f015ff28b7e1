/* See stream_steps.h. Stage by stage, in the order in which they read one another. */
#include "cells/stream_steps.h"

#include "base/assert.h"
#include "base/divide.h"

bool cell__stage_is_timed(const struct cell_stage *stage)
{
    return stage->kind == CELL_STAGE_EACH || stage->kind == CELL_STAGE_CHAIN;
}

bool cell__has_steps(const struct cell_model *model, const struct cell_source *source)
{
    return source->kind == CELL_SOURCE_INPUT
               ? model->inputs[source->index].time_axis >= 0
               : source->kind == CELL_SOURCE_EACH &&
                     cell__stage_is_timed(&model->stages[source->stage]);
}

int64_t cell__length_of(const struct cell_model *model, uint32_t sequence, int64_t given)
{
    const struct cell_sequence *way[CELL_SEQUENCES_MAX];
    uint32_t n = 0;
    while (model->sequences[sequence].stride > 0) {
        base_assert(n < CELL_SEQUENCES_MAX);
        way[n++] = &model->sequences[sequence];
        sequence = model->sequences[sequence].source;
    }
    while (n > 0) {
        const struct cell_sequence *step = way[--n];
        const int64_t made = given * cell_sequence_parts(step);
        const int64_t steps = base_floor_divide(made + step->add, step->stride) + 1;
        given = steps > 0 ? steps : 0;
    }
    return given;
}

bool cell__find_reading(const struct cell_model *model, uint32_t stage, uint32_t input,
                        struct cell__reading *out)
{
    const struct cell_source *source = &model->stages[stage].inputs[input];
    if (source->kind == CELL_SOURCE_MEMORY) {
        const struct cell_attended *attended = &model->stream.attends[stage];
        *out = (struct cell__reading){.of = &model->memories[source->index].sources[0],
                                      .stride = 1,
                                      .parts = 1,
                                      .first = attended->from,
                                      .last = attended->to,
                                      .first_chunk = attended->from_chunk,
                                      .last_chunk = attended->to_chunk};
        return attended->is_on;
    }
    *out = (struct cell__reading){.of = source,
                                  .stride = 1,
                                  .parts = cell_source_parts(source),
                                  .first_chunk = 1,
                                  .last_chunk = 1};
    if (source->count > 0) {
        out->stride = source->stride;
        out->first = source->offset;
        out->last = source->offset + (int64_t)source->count - 1;
    }
    return cell__has_steps(model, source);
}

int64_t cell__rows_there(const struct cell__reading *reading, int64_t given, const int64_t *steps)
{
    return reading->of->kind == CELL_SOURCE_INPUT ? given : steps[reading->of->stage];
}

int64_t cell__first_row(const struct cell__reading *reading, int64_t t)
{
    const int64_t of = t - t % reading->first_chunk;
    return base_floor_divide(of * reading->stride + reading->first, reading->parts);
}

void cell_stream_steps(const struct cell_model *model, int64_t given, bool is_end,
                       int64_t steps[CELL_STAGES_MAX])
{
    // What is made of padding alone is not taken before a session has begun.
    const bool has_begun = given > 0 || is_end;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        const bool has_some = has_begun && cell__stage_is_timed(stage);
        steps[s] = has_some ? cell__length_of(model, stage->sequence, given) : 0;
        for (uint32_t i = 0; i < stage->type->def.n_inputs && steps[s] > 0 && !is_end; i++) {
            struct cell__reading reading;
            if (cell__find_reading(model, s, i, &reading)) {
                const int64_t there = cell__rows_there(&reading, given, steps) * reading.parts;
                const int64_t chunk = reading.last_chunk;
                const int64_t reach =
                    (base_floor_divide(there - reading.last - 1, reading.stride * chunk) + 1) *
                    chunk;
                steps[s] = reach < 0 ? 0 : reach < steps[s] ? reach : steps[s];
            }
        }
    }
}

uint32_t cell_stream_unmet(const struct cell_model *model, int64_t given)
{
    for (uint32_t q = 0; q < model->n_sequences; q++) {
        const struct cell_sequence *sequence = &model->sequences[q];
        const int64_t steps = cell__length_of(model, q, given);
        const int64_t source =
            sequence->stride > 0 ? cell__length_of(model, sequence->source, given) : 0;
        const bool is_few = steps < INT32_MAX && source < INT32_MAX &&
                            !cell_sequence_is_met(sequence, (uint32_t)source, (uint32_t)steps);
        if (is_few || (sequence->multiple > 0 && steps % sequence->multiple != 0)) {
            return q;
        }
    }
    return CELL_SEQUENCES_MAX;
}

uint32_t cell_stream_over(const struct cell_model *model, int64_t given)
{
    for (uint32_t q = 0; q < model->n_sequences; q++) {
        const uint32_t most = model->sequences[q].steps_max;
        if (most > 0 && cell__length_of(model, q, given) > (int64_t)most) {
            return q;
        }
    }
    return CELL_SEQUENCES_MAX;
}
