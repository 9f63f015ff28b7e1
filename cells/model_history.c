/* See model_history.h. */
#include "cells/model_history.h"

#include "base/assert.h"
#include "base/divide.h"

#include <inttypes.h>

/* What may divide the steps of requests. */
#define PART_STEPS_MAX (1u << 20)

/* Every `rate` steps of the request are one here; behind them are so many more, which a padding has
 * made and which nobody before them reads. */
struct course {
    bool is_there;
    uint32_t base; /* the sequence that requests have */
    uint64_t rate;
    int64_t behind;
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

static struct course course_of(const struct cell_model *model, uint32_t sequence)
{
    const struct cell_sequence *way[CELL_SEQUENCES_MAX];
    struct course course = {.is_there = true, .base = sequence, .rate = 1};
    uint32_t n = 0;
    while (model->sequences[course.base].stride > 0) {
        base_assert(n < CELL_SEQUENCES_MAX);
        way[n++] = &model->sequences[course.base];
        course.base = model->sequences[course.base].source;
    }
    while (n > 0 && course.is_there) {
        const struct cell_sequence *step = way[--n];
        course.behind = floor_div(course.behind + step->add, step->stride) + 1;
        course.rate *= step->stride;
        course.is_there = step->kept == 0 && cell_sequence_parts(step) == 1 && course.behind >= 0 &&
                          course.rate <= CELL_WINDOW_MAX;
    }
    return course;
}

const struct cell_history *cell_model_history(const struct cell_model *model,
                                              const struct cell_source *source)
{
    for (uint32_t n = 0; n < model->n_histories; n++) {
        const struct cell_source *of = &model->histories[n].source;
        const bool is_same = of->index == source->index &&
                             (of->kind == CELL_SOURCE_EACH ? of->stage == source->stage
                                                           : of->piece == source->piece);
        if (of->kind == source->kind && is_same) {
            return &model->histories[n];
        }
    }
    return NULL;
}

/* Rows of the source as a session would keep them; false: it cannot, since all rows of the batch
 * share them, or since they are numbers that a stage makes, which nobody could check when a client
 * brings them. */
static bool describe(const struct cell_model *model, const struct cell_source *source,
                     struct cell_history *out)
{
    *out = (struct cell_history){.source = {.kind = source->kind,
                                            .stage = source->stage,
                                            .index = source->index,
                                            .piece = source->piece}};
    if (source->kind == CELL_SOURCE_INPUT) {
        const struct cell_tensor *tensor = &model->inputs[source->index];
        bool has_batch = false;
        for (uint32_t i = 0; i < model->n_inputs; i++) {
            has_batch = has_batch || model->inputs[i].batch_axis >= 0;
        }
        out->width = tensor->width / tensor->pieces;
        return has_batch == (tensor->batch_axis >= 0) &&
               (tensor->pieces == 1 || tensor->n_id_bounds == 0);
    }
    const struct cell_stage *stage = &model->stages[source->stage];
    const struct cell_def *def = &stage->type->def;
    const struct cell_value *value = &def->values[def->outputs[source->index]];
    out->width = value->width;
    return !stage->is_shared && value->dtype == CELL_F32;
}

/* Of requests but the last as many steps as are whole ones of a sequence. */
static enum base_status divide(struct cell_model *model, const struct course *course,
                               struct base_error *error)
{
    uint32_t *multiple = &model->sequences[course->base].part_multiple;
    const uint64_t known = *multiple > 0 ? *multiple : 1;
    const uint64_t both = known / base_greatest_divisor(known, course->rate) * course->rate;
    if (both > PART_STEPS_MAX) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "states: recurrent: requests of a multiple of %" PRIu64 " steps", both);
    }
    *multiple = (uint32_t)both;
    return BASE_OK;
}

static enum base_status refuse(const char *reader, const char *why, struct base_error *error)
{
    return base_fail(error, BASE_UNIMPLEMENTED, "states: recurrent: cell %s %s", reader, why);
}

static enum base_status refuse_behind(const struct cell_model *model, uint32_t stage,
                                      struct base_error *error)
{
    return refuse(model->stages[stage].type->name,
                  "reads steps behind its own, which may be in later requests", error);
}

/* Keeps so many steps of the source. */
static enum base_status keep(struct cell_model *model, const struct cell_source *source,
                             uint32_t steps, const struct course *course, const char *reader,
                             struct base_error *error)
{
    struct cell_history found;
    if (!describe(model, source, &found)) {
        return refuse(reader,
                      "reads earlier steps of what all rows share, or of numbers that a cell makes",
                      error);
    }
    found.sequence = course->base;
    found.rate = (uint32_t)course->rate;
    found.steps = steps;
    for (uint32_t n = 0; n < model->n_histories; n++) {
        struct cell_history *other = &model->histories[n];
        if (cell_model_history(model, source) == other) {
            other->steps = steps > other->steps ? steps : other->steps;
            return BASE_OK;
        }
    }
    if (model->n_histories == CELL_TENSORS_MAX) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "states: windows over more than %u inputs and outputs of stages",
                         CELL_TENSORS_MAX);
    }
    model->histories[model->n_histories++] = found;
    return BASE_OK;
}

/* Of what has no steps there is no end. */
#define ENDLESS INT32_MAX

static struct course course_of_source(const struct cell_model *model,
                                      const struct cell_source *source)
{
    return course_of(model, source->kind == CELL_SOURCE_INPUT
                                ? model->inputs[source->index].sequence
                                : model->stages[source->stage].sequence);
}

static bool has_steps(const struct cell_model *model, const struct cell_source *source)
{
    return source->kind == CELL_SOURCE_INPUT
               ? model->inputs[source->index].time_axis >= 0
               : source->kind == CELL_SOURCE_EACH &&
                     model->stages[source->stage].kind != CELL_STAGE_ONCE;
}

static void go_as_far(struct cell__history_stages *stages, uint32_t stage, int64_t ahead,
                      uint32_t culprit)
{
    if (ahead < stages->ahead[stage]) {
        stages->ahead[stage] = ahead;
        stages->culprit[stage] = culprit;
    }
}

/* A window of other steps than the reader's own. */
static enum base_status read_window(struct cell_model *model, struct cell__history_stages *stages,
                                    uint32_t stage, const struct cell_source *source,
                                    struct base_error *error)
{
    const struct cell_stage *reader = &model->stages[stage];
    const char *name = reader->type->name;
    const bool is_input = source->kind == CELL_SOURCE_INPUT;
    if (!has_steps(model, source) || reader->kind == CELL_STAGE_ONCE || source->parts > 0 ||
        source->by > 0 || source->is_from_end) {
        return refuse(name, "reads steps beside its own, which may be in other requests", error);
    }
    const struct course to = course_of(model, reader->sequence);
    const struct course from = course_of_source(model, source);
    if (!from.is_there || !to.is_there || from.base != to.base ||
        from.rate * source->stride != to.rate) {
        return refuse(name,
                      "reads steps beside its own, of a sequence that has others than the request",
                      error);
    }
    BASE_TRY(divide(model, &to, error));
    const int64_t ahead = is_input ? 0 : stages->ahead[source->stage];
    const int64_t last = source->offset + (int64_t)source->count - 1;
    // The last step whose window ends before what is not there.
    const int64_t own = floor_div(ahead - last - 1, source->stride) + 1;
    const bool is_own_fault = own < 0 && ahead >= 0;
    go_as_far(stages, stage, own,
              is_own_fault || is_input ? stage : stages->culprit[source->stage]);
    if (source->offset >= 0) {
        return BASE_OK;
    }
    return ahead < 0 ? refuse_behind(model, stages->culprit[source->stage], error)
                     : keep(model, source, (uint32_t)-source->offset, &from, name, error);
}

enum base_status cell__history_read(struct cell_model *model, struct cell__history_stages *stages,
                                    uint32_t stage, uint32_t input, struct base_error *error)
{
    const struct cell_stage *reader = &model->stages[stage];
    const struct cell_source *source = &reader->inputs[input];
    if (input == 0) {
        stages->ahead[stage] = ENDLESS;
        stages->culprit[stage] = stage;
    }
    if (source->count > 0) {
        BASE_TRY(read_window(model, stages, stage, source, error));
    } else if (has_steps(model, source)) {
        const bool is_input = source->kind == CELL_SOURCE_INPUT;
        go_as_far(stages, stage, is_input ? 0 : stages->ahead[source->stage],
                  is_input ? stage : stages->culprit[source->stage]);
    }
    return BASE_OK;
}

enum base_status cell__history_check(const struct cell_model *model,
                                     const struct cell__history_stages *stages,
                                     const struct cell_source *source, const char *reader,
                                     struct base_error *error)
{
    const struct course course = course_of_source(model, source);
    const bool is_input = source->kind == CELL_SOURCE_INPUT;
    if (!course.is_there || course.behind != 0) {
        return refuse(reader, "is of a sequence that has other steps than the request", error);
    }
    return is_input || stages->ahead[source->stage] >= 0
               ? BASE_OK
               : refuse_behind(model, stages->culprit[source->stage], error);
}
