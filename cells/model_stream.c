/* See model_stream.h. What has to be kept follows from how far readers lag behind what they read
 * (stream_steps.h) when a session has had N steps, for every N until it repeats itself. */
#include "cells/model_stream.h"

#include "base/assert.h"
#include "base/divide.h"
#include "cells/model_attend.h"
#include "cells/stream_steps.h"

#include <inttypes.h>
#include <string.h>

/* Steps after which strides begin anew, and steps that are tried. */
#define PERIOD_MAX 16384u
#define TRIED_MAX  (1u << 17)

bool cell__stream_is_window(const struct cell_source *source)
{
    const bool is_told = source->count == 1 && source->by > 0;
    const bool is_last = source->count == 1 && source->is_from_end && source->offset == -1;
    return source->kind != CELL_SOURCE_MEMORY && source->count > 0 && !is_told && !is_last;
}

/* ---- What may be streamed ---- */

static enum base_status refuse(const struct cell_model *model, uint32_t stage, const char *why,
                               struct base_error *error)
{
    return base_fail(error, BASE_UNIMPLEMENTED, "states: recurrent: cell %s %s",
                     model->stages[stage].type->name, why);
}

/* How many steps of a sequence come with how many of that which it follows from, by strides and
 * parts alone; base CELL_SEQUENCES_MAX: it follows otherwise. */
struct rate {
    uint32_t base;
    uint64_t given, made;
};

static void find_rates(const struct cell_model *model, struct rate rates[CELL_SEQUENCES_MAX])
{
    for (uint32_t q = 0; q < CELL_SEQUENCES_MAX; q++) {
        const struct cell_sequence *at = &model->sequences[q];
        rates[q] = (struct rate){.base = q, .given = 1, .made = 1};
        if (at->stride == 0) {
            continue;
        }
        base_assert(at->source < q);
        const struct rate *of = &rates[at->source];
        const uint64_t parts = of->made * cell_sequence_parts(at);
        const uint64_t common = base_greatest_divisor(parts, at->stride);
        rates[q].made = parts / common;
        rates[q].given = of->given * (at->stride / common);
        const bool is_even = at->kept == 0 && of->base < CELL_SEQUENCES_MAX &&
                             parts <= PERIOD_MAX && rates[q].given <= PERIOD_MAX;
        rates[q].base = is_even ? of->base : CELL_SEQUENCES_MAX;
    }
}

static bool has_batch(const struct cell_model *model)
{
    bool has = false;
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        has = has || model->inputs[i].batch_axis >= 0;
    }
    return has;
}

/* Rows of a session need not have had equally many steps, so that none is taken for all of them at
 * once, nor what is made of such. */
static void part_rows(struct cell_model *model)
{
    for (uint32_t s = 0; s < model->n_stages; s++) {
        struct cell_stage *stage = &model->stages[s];
        bool is_timed = cell__stage_is_timed(stage);
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            const struct cell_source *source = &stage->inputs[i];
            if (source->kind == CELL_SOURCE_MEMORY) {
                source = &model->memories[source->index].sources[0];
            }
            is_timed = is_timed ||
                       (cell_source_is_of_stage(source) && !model->stages[source->stage].is_shared);
        }
        stage->is_shared = stage->is_shared && !is_timed;
    }
}

/* One sequence is the base of all stages; *period: the steps of it after which all begin anew. */
static enum base_status find_base(struct cell_model *model, uint64_t *period,
                                  struct base_error *error)
{
    struct rate rates[CELL_SEQUENCES_MAX];
    find_rates(model, rates);
    model->stream.base = CELL_SEQUENCES_MAX;
    *period = 1;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct rate *rate = &rates[model->stages[s].sequence];
        if (!cell__stage_is_timed(&model->stages[s])) {
            continue;
        }
        const bool is_first = model->stream.base == CELL_SEQUENCES_MAX;
        const bool is_same = is_first || rate->base == model->stream.base;
        *period = *period / base_greatest_divisor(*period, rate->given) * rate->given;
        if (rate->base == CELL_SEQUENCES_MAX || !is_same || *period > PERIOD_MAX) {
            return refuse(model, s,
                          "has steps of a sequence that does not follow from the request's", error);
        }
        model->stream.base = rate->base;
        // Its first steps may be as many as the request's, and later ones not.
        model->stream.counts = model->stream.counts || rate->given > 1 || rate->made > 1;
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const struct cell_tensor *input = &model->inputs[i];
        const bool is_same = rates[input->sequence].base == model->stream.base &&
                             has_batch(model) == (input->batch_axis >= 0);
        if ((input->is_lengths || input->is_step) && model->sequences[input->sequence].stride > 0) {
            return base_fail(error, BASE_UNIMPLEMENTED,
                             "states: recurrent: input \"%.100s\" tells of steps that "
                             "follow from the request's, of which one may bring none",
                             input->name);
        }
        if (input->time_axis >= 0 && !is_same) {
            return base_fail(error, BASE_UNIMPLEMENTED,
                             "states: recurrent: input \"%.100s\" is another sequence than that "
                             "which cells read earlier steps of, or that of all rows",
                             input->name);
        }
    }
    return BASE_OK;
}

static enum base_status check_window(const struct cell_model *model, uint32_t stage, uint32_t input,
                                     struct base_error *error)
{
    const struct cell_stage *reader = &model->stages[stage];
    const struct cell_source *source = &reader->inputs[input];
    const bool is_whole = source->parts == 0 || source->kind == CELL_SOURCE_EACH;
    if (cell__has_steps(model, source) && cell__stage_is_timed(reader) && is_whole &&
        source->by == 0 && !source->is_from_end) {
        return BASE_OK;
    }
    return refuse(model, stage, "reads steps beside its own, which may be in other requests",
                  error);
}

/* Rows that a stage attends to are those of one source. */
static enum base_status check_memory(const struct cell_model *model, uint32_t stage, uint32_t input,
                                     struct base_error *error)
{
    const struct cell_memory *memory = &model->memories[model->stages[stage].inputs[input].index];
    if (!cell__stage_is_timed(&model->stages[stage]) ||
        !cell__has_steps(model, &memory->sources[0])) {
        return refuse(model, stage, "reads all steps, of which some may be in other requests",
                      error);
    }
    return memory->pieces == 1
               ? BASE_OK
               : refuse(model, stage, "attends to what several cells make, side by side", error);
}

/* Rows of the table of positions of either sequence, which are equally long; 0: none has one. */
static int64_t positions_of(const struct cell_model *model, uint32_t a, uint32_t b)
{
    const uint32_t of_a = model->sequences[a].steps_max;
    const uint32_t of_b = model->sequences[b].steps_max;
    return of_a == 0 || (of_b > 0 && of_b < of_a) ? of_b : of_a;
}

/* Who attends to all earlier steps needs a bound for them: a table of positions, or that of the
 * session's steps, the smaller one of both. */
static enum base_status bound_attended(struct cell_model *model, uint32_t stage, uint32_t input,
                                       uint32_t steps_max, struct base_error *error)
{
    const struct cell_stage *of = &model->stages[stage];
    const uint32_t memory = model->memories[of->inputs[input].index].sequence;
    struct cell_attended *attended = &model->stream.attends[stage];
    int64_t most = positions_of(model, of->sequence, memory);
    const int64_t stated = steps_max > 0 ? cell__length_of(model, of->sequence, steps_max) : 0;
    if (attended->from != CELL_ATTENDED_ALL) {
        return BASE_OK;
    }
    if (most == 0 && steps_max == 0) {
        return refuse(model, stage,
                      "attends to all earlier steps, however many: max-sequence-length, or a mask "
                      "that leaves the last of them, would bound what a session keeps",
                      error);
    }
    if (steps_max > 0 && (most == 0 || stated < most)) {
        model->stream.steps_max = steps_max;
        most = stated;
    }
    attended->from = most > 0 ? 1 - most : 0;
    attended->from = base_floor_divide(attended->from, attended->from_chunk) * attended->from_chunk;
    return BASE_OK;
}

static enum base_status find_attended_of(struct cell_model *model, uint32_t stage,
                                         uint32_t steps_max, struct base_error *error)
{
    const struct cell_stage *of = &model->stages[stage];
    const char *why = cell__attend_find(model, stage, &model->stream.attends[stage]);
    if (why != NULL) {
        return refuse(model, stage, why, error);
    }
    for (uint32_t i = 0; i < of->type->def.n_inputs; i++) {
        if (of->inputs[i].kind == CELL_SOURCE_MEMORY) {
            BASE_TRY(check_memory(model, stage, i, error));
            BASE_TRY(bound_attended(model, stage, i, steps_max, error));
        }
    }
    return BASE_OK;
}

static enum base_status find_attended(struct cell_model *model, uint32_t steps_max,
                                      struct base_error *error)
{
    for (uint32_t s = 0; s < model->n_stages; s++) {
        model->stream.attends[s] = (struct cell_attended){.from_chunk = 1, .to_chunk = 1};
        if (model->stages[s].kind != CELL_STAGE_DECODER) { // whose memories are its own affair
            BASE_TRY(find_attended_of(model, s, steps_max, error));
        }
    }
    return BASE_OK;
}

/* Chunks begin anew after as many steps of the base as make whole ones. */
static enum base_status add_chunks(const struct cell_model *model, uint64_t *period,
                                   struct base_error *error)
{
    struct rate rates[CELL_SEQUENCES_MAX];
    find_rates(model, rates);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_attended *attended = &model->stream.attends[s];
        const struct rate *rate = &rates[model->stages[s].sequence];
        if (!attended->is_on || attended->from_chunk == 1) {
            continue;
        }
        const uint64_t chunk = attended->from_chunk;
        const uint64_t given =
            chunk > PERIOD_MAX ? chunk
                               : rate->given * (chunk / base_greatest_divisor(rate->made, chunk));
        *period = *period / base_greatest_divisor(*period, given) * given;
        if (given > PERIOD_MAX || *period > PERIOD_MAX) {
            return refuse(model, s, "attends to chunks of too many steps", error);
        }
    }
    return BASE_OK;
}

static enum base_status check_windows(const struct cell_model *model, struct base_error *error)
{
    for (uint32_t s = 0; s < model->n_stages; s++) {
        for (uint32_t i = 0; i < model->stages[s].type->def.n_inputs; i++) {
            const bool is_window = cell__stream_is_window(&model->stages[s].inputs[i]);
            BASE_TRY(is_window ? check_window(model, s, i, error) : BASE_OK);
        }
    }
    return BASE_OK;
}

/* ---- What is kept ---- */

/* Rows of the source as a session would keep them; false: it cannot, since they are numbers that a
 * stage makes, which nobody could check when a client brings them, or ids of several tables of
 * which only a part is one. */
static bool describe(const struct cell_model *model, const struct cell_source *source,
                     struct cell_history *out)
{
    *out = (struct cell_history){.source = {.kind = source->kind,
                                            .stage = source->stage,
                                            .index = source->index,
                                            .piece = source->piece}};
    if (source->kind == CELL_SOURCE_INPUT) {
        const struct cell_tensor *tensor = &model->inputs[source->index];
        out->width = tensor->width / tensor->pieces;
        return tensor->pieces == 1 || tensor->n_id_bounds == 0;
    }
    const struct cell_stage *stage = &model->stages[source->stage];
    const struct cell_def *def = &stage->type->def;
    const struct cell_value *value = &def->values[def->outputs[source->index]];
    out->width = value->width;
    return value->dtype == CELL_F32;
}

static enum base_status keep(struct cell_model *model, uint32_t stage, uint32_t input,
                             int64_t steps, struct base_error *error)
{
    struct cell__reading reading;
    struct cell_history found;
    if (!cell__find_reading(model, stage, input, &reading) ||
        !describe(model, reading.of, &found)) {
        return refuse(model, stage, "reads earlier steps of numbers that nobody could check",
                      error);
    }
    if (steps > INT32_MAX / (int64_t)found.width) {
        return refuse(model, stage, "reads too many earlier steps", error);
    }
    found.steps = (uint32_t)steps;
    for (uint32_t n = 0; n < model->n_histories; n++) {
        struct cell_history *other = &model->histories[n];
        if (cell_model_history(model, reading.of) == other) {
            other->steps = found.steps > other->steps ? found.steps : other->steps;
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

/* ---- All that a session may have had ---- */

static void note_answered(struct cell_model *model, const struct cell_source *source)
{
    if (source->kind == CELL_SOURCE_EACH && cell__stage_is_timed(&model->stages[source->stage])) {
        model->stream.is_answered[source->stage] = true;
    }
}

/* What a decoder reads by its input of that number; NULL: there is none, or no memory. */
static const struct cell_memory *memory_of_decoder(const struct cell_model *model, uint32_t input)
{
    const struct cell_stage *decoder =
        model->unfold == CELL_UNFOLD_SEQ2SEQ ? &model->stages[model->decoder.stage] : NULL;
    return decoder != NULL && input < decoder->type->def.n_inputs &&
                   decoder->inputs[input].kind == CELL_SOURCE_MEMORY
               ? &model->memories[decoder->inputs[input].index]
               : NULL;
}

/* What is answered step by step, and what a decoder reads. */
static void find_answered(struct cell_model *model)
{
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        for (uint32_t p = 0; p < model->outputs[o].pieces; p++) {
            note_answered(model, &model->output_sources[o][p]);
        }
    }
    for (uint32_t i = 0; i < CELL_INPUTS_MAX; i++) {
        const struct cell_memory *memory = memory_of_decoder(model, i);
        for (uint32_t p = 0; memory != NULL && p < memory->pieces; p++) {
            note_answered(model, &memory->sources[p]);
        }
    }
}

/* Of each input of each stage: how many steps it reads before those that the request has, most. */
struct lags {
    int64_t most[CELL_STAGES_MAX][CELL_INPUTS_MAX];
    /* Outputs of one sequence that are answered at other times; and of which some pieces are. */
    bool is_apart[CELL_TENSORS_MAX][CELL_TENSORS_MAX];
    bool is_torn[CELL_TENSORS_MAX];
    bool is_read_apart[CELL_STAGES_MAX]; /* by a decoder that reads another at other times */
    bool counts;                         /* how many steps the session has had matters */
};

/* Whether it has steps of stages; those have an output's time axis. */
static bool has_steps_of_stage(const struct cell_model *model, uint32_t output)
{
    const struct cell_source *source = &model->output_sources[output][0];
    return model->outputs[output].time_axis >= 0 && source->kind == CELL_SOURCE_EACH &&
           cell__stage_is_timed(&model->stages[source->stage]);
}

static void measure_output(const struct cell_model *model, uint32_t output, const int64_t *steps,
                           struct lags *lags)
{
    const struct cell_source *pieces = model->output_sources[output];
    const int64_t own = steps[pieces[0].stage];
    if (!has_steps_of_stage(model, output)) {
        return;
    }
    for (uint32_t p = 1; p < model->outputs[output].pieces; p++) {
        lags->is_torn[output] = lags->is_torn[output] || steps[pieces[p].stage] != own;
    }
    for (uint32_t other = 0; other < output; other++) {
        if (has_steps_of_stage(model, other)) {
            bool *is_apart = &lags->is_apart[output][other];
            *is_apart = *is_apart || steps[model->output_sources[other][0].stage] != own;
        }
    }
}

/* What a decoder reads has to come together. */
static void measure_memory(const struct cell_model *model, const struct cell_memory *memory,
                           const int64_t *steps, struct lags *lags)
{
    for (uint32_t p = 0; p < memory->pieces; p++) {
        const uint32_t stage = memory->sources[p].stage;
        for (uint32_t other = 0; other < model->n_stages; other++) {
            const bool is_one = memory->sources[p].kind == CELL_SOURCE_EACH &&
                                model->stream.is_answered[other] &&
                                model->stages[other].sequence == model->stages[stage].sequence;
            lags->is_read_apart[stage] =
                lags->is_read_apart[stage] || (is_one && steps[other] != steps[stage]);
        }
    }
}

static void measure(const struct cell_model *model, int64_t given, const int64_t *steps,
                    struct lags *lags)
{
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        if (!cell__stage_is_timed(stage)) {
            continue;
        }
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            struct cell__reading reading;
            if (cell__find_reading(model, s, i, &reading)) {
                const int64_t first = cell__first_row(&reading, steps[s]);
                const int64_t lag = cell__rows_there(&reading, given, steps) - first;
                lags->most[s][i] = lag > lags->most[s][i] ? lag : lags->most[s][i];
            }
            lags->counts = lags->counts || stage->inputs[i].kind == CELL_SOURCE_NUMBER ||
                           model->stream.attends[s].is_on;
        }
        lags->counts = lags->counts || steps[s] != given;
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        measure_output(model, o, steps, lags);
    }
    for (uint32_t i = 0; i < CELL_INPUTS_MAX; i++) {
        const struct cell_memory *memory = memory_of_decoder(model, i);
        if (memory != NULL) {
            measure_memory(model, memory, steps, lags);
        }
    }
}

static bool has_all_begun(const struct cell_model *model, const int64_t *steps)
{
    bool has_begun = true;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        has_begun = has_begun && (!cell__stage_is_timed(&model->stages[s]) || steps[s] > 0);
    }
    return has_begun;
}

/* Until all stages have begun, and a period longer: from then on lags repeat themselves. False:
 * they do not, or not so soon. */
static bool try_all(const struct cell_model *model, uint64_t period, struct lags *lags)
{
    int64_t steps[CELL_STAGES_MAX];
    struct lags again;
    int64_t left = (int64_t)period;
    memset(lags, 0, sizeof(*lags));
    int64_t n = 0;
    for (; left > 0 && n < TRIED_MAX; n++) {
        cell_stream_steps(model, n, false, steps);
        measure(model, n, steps, lags);
        left -= has_all_begun(model, steps) ? 1 : 0;
    }
    again = *lags;
    for (int64_t k = 0; k < (int64_t)period; k++) {
        cell_stream_steps(model, n + k, false, steps);
        measure(model, n + k, steps, &again);
    }
    return left == 0 && memcmp(again.most, lags->most, sizeof(again.most)) == 0;
}

/* Who reads the last step of a stage needs one. */
static void note_last(struct cell_model *model, const struct cell_source *source)
{
    const bool is_last =
        source->kind == CELL_SOURCE_LAST || source->kind == CELL_SOURCE_LAST_STATE ||
        (source->kind == CELL_SOURCE_EACH && (source->is_from_end || source->by > 0));
    if (is_last && cell__stage_is_timed(&model->stages[source->stage])) {
        model->stream.has_last[source->stage] = true;
    }
}

static void note_lasts(struct cell_model *model)
{
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            note_last(model, &stage->inputs[i]);
        }
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        for (uint32_t p = 0; p < model->outputs[o].pieces; p++) {
            note_last(model, &model->output_sources[o][p]);
        }
    }
}

static enum base_status keep_all(struct cell_model *model, const struct lags *lags,
                                 struct base_error *error)
{
    for (uint32_t s = 0; s < model->n_stages; s++) {
        struct cell_stage *stage = &model->stages[s];
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            struct cell_source *source = &stage->inputs[i];
            if (lags->most[s][i] <= 0) {
                continue;
            }
            BASE_TRY(keep(model, s, i, lags->most[s][i], error));
            if (source->kind == CELL_SOURCE_MEMORY) {
                continue; // nothing beyond the ends is read
            }
            if (source->count == 0) { // its own step, of what is further than it is
                source->count = 1;
                source->stride = 1;
                source->offset = 0;
            }
            model->reach =
                lags->most[s][i] > model->reach ? (uint32_t)lags->most[s][i] : model->reach;
        }
    }
    return BASE_OK;
}

/* Whether some steps are others than the request's, or are read beside a stage's own, or counted.
 */
static bool has_others(const struct cell_model *model)
{
    bool has = false;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        has = has || (cell__stage_is_timed(stage) && model->sequences[stage->sequence].stride > 0);
        for (uint32_t i = 0; i < model->stages[s].type->def.n_inputs; i++) {
            const struct cell_source *source = &model->stages[s].inputs[i];
            const bool is_memory =
                source->kind == CELL_SOURCE_MEMORY && stage->kind != CELL_STAGE_DECODER;
            has = has || is_memory || source->kind == CELL_SOURCE_NUMBER ||
                  cell__stream_is_window(source);
        }
    }
    return has;
}

/* A sequence that is as long as another, of an output that has other steps of it in a session's
 * requests. */
static enum base_status add_sequence(struct cell_model *model, uint32_t of, uint32_t *out,
                                     struct base_error *error)
{
    if (model->n_sequences == CELL_SEQUENCES_MAX) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "states: recurrent: more than %u sequences, with those of outputs that "
                         "come at other times than others",
                         CELL_SEQUENCES_MAX);
    }
    *out = model->n_sequences++;
    model->sequences[*out] = (struct cell_sequence){.stride = 1, .add = -1, .source = of};
    return BASE_OK;
}

/* Outputs of one sequence that come at unlike times have sequences of their own. */
static enum base_status part_outputs(struct cell_model *model, const struct lags *lags,
                                     struct base_error *error)
{
    uint32_t of[CELL_TENSORS_MAX];
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        uint32_t *sequence = &model->outputs[o].sequence;
        bool is_apart = false;
        bool is_found = false;
        of[o] = *sequence;
        for (uint32_t other = 0; other < o && has_steps_of_stage(model, o) && !is_found; other++) {
            const bool is_one = has_steps_of_stage(model, other) && of[other] == of[o];
            is_found = is_one && !lags->is_apart[o][other];
            is_apart = is_apart || is_one;
            *sequence = is_found ? model->outputs[other].sequence : *sequence;
        }
        BASE_TRY(is_apart && !is_found ? add_sequence(model, of[o], sequence, error) : BASE_OK);
    }
    return BASE_OK;
}

static enum base_status check_times(const struct cell_model *model, const struct lags *lags,
                                    struct base_error *error)
{
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        if (lags->is_torn[o]) {
            return base_fail(error, BASE_UNIMPLEMENTED,
                             "states: recurrent: output \"%.100s\" has steps of several cells, of "
                             "which one comes later",
                             model->outputs[o].name);
        }
    }
    for (uint32_t s = 0; s < model->n_stages; s++) {
        if (lags->is_read_apart[s]) {
            return refuse(model, s,
                          "makes steps that the decoder reads beside others, which come "
                          "at other times",
                          error);
        }
    }
    return BASE_OK;
}

enum base_status cell__stream_find(struct cell_model *model, uint32_t steps_max,
                                   struct base_error *error)
{
    struct lags lags;
    uint64_t period = 1;
    if (!has_others(model)) {
        return BASE_OK;
    }
    part_rows(model);
    BASE_TRY(check_windows(model, error));
    BASE_TRY(find_base(model, &period, error));
    BASE_TRY(find_attended(model, steps_max, error));
    BASE_TRY(add_chunks(model, &period, error));
    find_answered(model);
    if (!try_all(model, period, &lags)) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "states: recurrent: strides and windows of the model do not repeat "
                         "themselves within %u steps",
                         TRIED_MAX);
    }
    BASE_TRY(check_times(model, &lags, error));
    BASE_TRY(part_outputs(model, &lags, error));
    note_lasts(model);
    BASE_TRY(keep_all(model, &lags, error));
    model->stream.is_on = true;
    model->stream.counts = model->stream.counts || lags.counts;
    return BASE_OK;
}
