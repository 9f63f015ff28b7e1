/* What of a model goes from one request of a session to the next: pairs of an input and an output
 * that the user names, or the states of recurrent layers, which become such a pair each. Loop
 * thread; at load. */
#include "cells/model.h"

#include "base/assert.h"
#include "cells/model_stream.h"
#include "cells/transducer.h"

#include <stdio.h>
#include <string.h>

static bool is_alike(const struct cell_tensor *input, const struct cell_tensor *output)
{
    bool is_alike = input->dtype == output->dtype && input->form == output->form &&
                    input->rank == output->rank && input->batch_axis == output->batch_axis;
    for (uint32_t k = 0; is_alike && k < input->rank; k++) {
        is_alike = input->dims[k] == output->dims[k];
    }
    return is_alike;
}

static void add(struct cell_model *model, uint32_t input, uint32_t output)
{
    base_assert(model->n_states < CELL_TENSORS_MAX);
    model->states[model->n_states++] = (struct cell_model_state){.input = input, .output = output};
    model->inputs[input].optional = true; // the first request of a session has none
}

/* Whether it has as many rows as each request has steps; some of a stated number may be a state. */
static bool is_open(const struct cell_tensor *tensor)
{
    return tensor->time_axis >= 0 && tensor->dims[tensor->time_axis] == CELL_DIM_ANY;
}

/* A pair that the user has named. */
static enum base_status add_pair(struct cell_model *model, const struct cell_kept_state *kept,
                                 struct base_error *error)
{
    const uint32_t input = cell_tensor_find(model->inputs, model->n_inputs, kept->input);
    const uint32_t output = cell_tensor_find(model->outputs, model->n_outputs, kept->output);
    if (input == model->n_inputs || output == model->n_outputs) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "states: the model has no %s \"%.100s\"",
                         input == model->n_inputs ? "input" : "output",
                         input == model->n_inputs ? kept->input : kept->output);
    }
    for (uint32_t s = 0; s < model->n_states; s++) {
        if (model->states[s].input == input || model->states[s].output == output) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "states: \"%.100s\" and \"%.100s\" are not the only pair of one of "
                             "them",
                             kept->input, kept->output);
        }
    }
    const struct cell_tensor *from = &model->inputs[input];
    const struct cell_tensor *to = &model->outputs[output];
    if (is_open(from) || is_open(to)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "states: %s \"%.100s\" has a value for each step, and is no state",
                         is_open(from) ? "input" : "output",
                         is_open(from) ? kept->input : kept->output);
    }
    if (!is_alike(from, to) || from->is_lengths || from->is_step) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "states: input \"%.100s\" and output \"%.100s\" are not of one type and "
                         "shape",
                         kept->input, kept->output);
    }
    add(model, input, output);
    return BASE_OK;
}

/* ---- Recurrent layers ---- */

static enum base_status refuse(const struct cell_type *type, const char *why,
                               struct base_error *error)
{
    return base_fail(error, BASE_UNIMPLEMENTED, "states: recurrent: cell %s %s", type->name, why);
}

/* Whether a source is what the sequence has at its end. ends: of earlier stages of kind ONCE. */
static bool is_of_end(const struct cell_model *model, const struct cell_source *source,
                      const bool *ends)
{
    if (cell_source_is_of_stage(source) && model->stages[source->stage].kind == CELL_STAGE_ONCE) {
        return ends[source->stage];
    }
    return source->kind == CELL_SOURCE_LAST || source->kind == CELL_SOURCE_LAST_STATE ||
           source->is_from_end;
}

/* A sequence in parts gives other results than as a whole where it reads what only the first or
 * last is; what steps read beside their own, and attend to, is looked at as one
 * (cells/model_stream.h). */
static enum base_status check_source(const struct cell_type *reader,
                                     const struct cell_source *source, struct base_error *error)
{
    if (source->kind == CELL_SOURCE_FIRST) {
        return refuse(reader, "reads the first step, which may be in an earlier request", error);
    }
    if (source->kind == CELL_SOURCE_JOIN) {
        return refuse(
            reader, "reads steps that are joined to others, which may be in other requests", error);
    }
    return BASE_OK;
}

/* ends[s] := whether stage s is of kind ONCE and made of what the sequence has at its end. */
static enum base_status check_stage(const struct cell_model *model, uint32_t s, bool *ends,
                                    struct base_error *error)
{
    const struct cell_stage *stage = &model->stages[s];
    const struct cell_def *def = &stage->type->def;
    if (stage->is_reverse) {
        return refuse(stage->type, "begins at the end of the sequence", error);
    }
    if (stage->kind == CELL_STAGE_CHAIN && stage->is_shared) {
        return refuse(stage->type, "has one state for all rows", error);
    }
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        // Who keeps states under names of their own may keep what windows read, too.
        const bool is_kept = model->n_states > 0;
        BASE_TRY(is_kept ? BASE_OK : check_source(stage->type, &stage->inputs[i], error));
        const bool is_end = is_of_end(model, &stage->inputs[i], ends);
        if (is_end && stage->kind != CELL_STAGE_ONCE) {
            return refuse(stage->type, "reads the last step, which may be in a later request",
                          error);
        }
        ends[s] = ends[s] || is_end;
    }
    return BASE_OK;
}

static enum base_status check_outputs(const struct cell_model *model, struct base_error *error)
{
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        for (uint32_t p = 0; p < model->outputs[o].pieces; p++) {
            if (model->output_sources[o][p].kind == CELL_SOURCE_FIRST) {
                return base_fail(error, BASE_UNIMPLEMENTED,
                                 "states: recurrent: output \"%.100s\" is of the first step, which "
                                 "may be in an earlier request",
                                 model->outputs[o].name);
            }
        }
    }
    return BASE_OK;
}

/* Gives it a name that no tensor has. */
static void name_state(const struct cell_model *model, struct cell_tensor *tensor)
{
    uint32_t number = model->n_states;
    do {
        snprintf(tensor->name, sizeof(tensor->name), "state.%u", number++);
    } while (cell_tensor_find(model->inputs, model->n_inputs, tensor->name) < model->n_inputs ||
             cell_tensor_find(model->outputs, model->n_outputs, tensor->name) < model->n_outputs);
}

/* A tensor of rows of such a state. */
static struct cell_tensor tensor_of(const struct cell_model *model, const struct cell_value *value)
{
    struct cell_tensor made = {.dtype = value->dtype,
                               .rank = 1,
                               .dims = {value->width},
                               .batch_axis = -1,
                               .time_axis = -1,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = value->width};
    for (uint32_t i = 0; i < model->n_inputs && made.batch_axis < 0; i++) {
        const struct cell_tensor *input = &model->inputs[i];
        if (input->batch_axis >= 0) {
            made.rank = 2;
            made.batch_axis = 0;
            made.dims[0] = input->dims[input->batch_axis];
            made.dims[1] = value->width;
        }
    }
    name_state(model, &made);
    return made;
}

static bool is_kept(const struct cell_model *model, const struct cell_source *init)
{
    bool is_kept = false;
    for (uint32_t s = 0; init->kind == CELL_SOURCE_INPUT && s < model->n_states; s++) {
        is_kept = is_kept || model->states[s].input == init->index;
    }
    return is_kept;
}

/* Whether the output is, piece by piece, the last state of those chains that begin with the input.
 */
static bool goes_on_from(const struct cell_model *model, uint32_t input, uint32_t output)
{
    const struct cell_tensor *from = &model->inputs[input];
    const struct cell_tensor *to = &model->outputs[output];
    bool goes_on = is_alike(from, to) && to->time_axis < 0 && from->pieces == to->pieces;
    for (uint32_t p = 0; goes_on && p < to->pieces; p++) {
        const struct cell_source *last = &model->output_sources[output][p];
        goes_on = last->kind == CELL_SOURCE_LAST_STATE;
        const struct cell_source *init = &model->stages[last->stage].init[last->index];
        goes_on =
            goes_on && init->kind == CELL_SOURCE_INPUT && init->index == input && init->piece == p;
    }
    return goes_on;
}

/* The last state of the one chain that begins with this piece of an input; false: there is none, or
 * several. */
static bool find_last(const struct cell_model *model, uint32_t input, uint32_t piece,
                      struct cell_source *out)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        for (uint32_t k = 0; k < stage->type->def.n_states; k++) {
            if (stage->init[k].kind == CELL_SOURCE_INPUT && stage->init[k].index == input &&
                stage->init[k].piece == piece) {
                *out = (struct cell_source){.kind = CELL_SOURCE_LAST_STATE, .stage = s, .index = k};
                n++;
            }
        }
    }
    return n == 1;
}

static bool has_room(const struct cell_model *model)
{
    return model->n_inputs < CELL_TENSORS_MAX && model->n_outputs < CELL_TENSORS_MAX;
}

static enum base_status fail_room(struct base_error *error)
{
    return base_fail(error, BASE_UNIMPLEMENTED,
                     "states: more than %u inputs or outputs with all states", CELL_TENSORS_MAX);
}

/* Of a chain that begins with an input: the output that is its last state, made if it is not there.
 */
static enum base_status add_own(struct cell_model *model, const struct cell_type *type,
                                uint32_t input, struct base_error *error)
{
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        if (goes_on_from(model, input, o)) {
            add(model, input, o);
            return BASE_OK;
        }
    }
    const uint32_t o = model->n_outputs;
    if (!has_room(model)) {
        return fail_room(error);
    }
    model->outputs[o] = model->inputs[input];
    for (uint32_t p = 0; p < model->inputs[input].pieces; p++) {
        if (!find_last(model, input, p, &model->output_sources[o][p])) {
            return base_fail(error, BASE_UNIMPLEMENTED,
                             "states: recurrent: input \"%.100s\" is a state of cell %s, and not "
                             "all of it is of one cell",
                             model->inputs[input].name, type->name);
        }
    }
    model->outputs[o].optional = false;
    name_state(model, &model->outputs[o]);
    model->n_outputs++;
    add(model, input, o);
    return BASE_OK;
}

/* Whether the cell depends on no step, and so makes the same in each request of a session that
 * brings the same. */
static bool is_of_no_step(const struct cell_model *model, uint32_t s)
{
    bool is_so[CELL_STAGES_MAX];
    for (uint32_t k = 0; k <= s; k++) {
        const struct cell_stage *stage = &model->stages[k];
        is_so[k] = stage->kind == CELL_STAGE_ONCE;
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            const struct cell_source *source = &stage->inputs[i];
            const bool is_row =
                source->kind == CELL_SOURCE_INPUT && model->inputs[source->index].time_axis < 0;
            const bool is_made = cell_source_is_of_stage(source) && is_so[source->stage];
            is_so[k] = is_so[k] && (source->kind == CELL_SOURCE_ZERO || is_row || is_made);
        }
    }
    return is_so[s];
}

static enum base_status add_state(struct cell_model *model, uint32_t s, uint32_t state,
                                  struct base_error *error)
{
    struct cell_stage *stage = &model->stages[s];
    const struct cell_def *def = &stage->type->def;
    struct cell_source *init = &stage->init[state];
    if (is_kept(model, init)) {
        return BASE_OK;
    }
    if (init->kind == CELL_SOURCE_INPUT) {
        return add_own(model, stage->type, init->index, error);
    }
    const bool is_made = cell_source_is_of_stage(init) && is_of_no_step(model, init->stage);
    if (init->kind != CELL_SOURCE_ZERO && !is_made) {
        return refuse(stage->type, "begins with a state that is made of steps", error);
    }
    if (!has_room(model)) {
        return fail_room(error);
    }
    const struct cell_tensor tensor = tensor_of(model, &def->values[def->n_inputs + state]);
    if (is_made) {
        stage->resumes[state] = model->n_inputs + 1;
    } else {
        *init = (struct cell_source){.kind = CELL_SOURCE_INPUT, .index = model->n_inputs};
    }
    model->output_sources[model->n_outputs][0] =
        (struct cell_source){.kind = CELL_SOURCE_LAST_STATE, .stage = s, .index = state};
    model->inputs[model->n_inputs++] = tensor;
    model->outputs[model->n_outputs++] = tensor;
    add(model, model->n_inputs - 1, model->n_outputs - 1);
    model->states[model->n_states - 1].is_made = is_made;
    return BASE_OK;
}

/* Such rows as an input and an output of the model, which `made` says where it comes from. */
static enum base_status add_made(struct cell_model *model, const struct cell_tensor *tensor,
                                 struct cell_source made, struct base_error *error)
{
    if (!has_room(model)) {
        return fail_room(error);
    }
    model->output_sources[model->n_outputs][0] = made;
    model->inputs[model->n_inputs++] = *tensor;
    model->outputs[model->n_outputs++] = *tensor;
    add(model, model->n_inputs - 1, model->n_outputs - 1);
    return BASE_OK;
}

static enum base_status add_history(struct cell_model *model, uint32_t n, struct base_error *error)
{
    struct cell_history *history = &model->histories[n];
    const struct cell_source *source = &history->source;
    struct cell_value value = {CELL_F32, history->steps * history->width};
    if (source->kind == CELL_SOURCE_INPUT) {
        value.dtype = model->inputs[source->index].dtype;
    }
    struct cell_tensor tensor = tensor_of(model, &value);
    tensor.dims[tensor.rank - 1] = history->steps;
    tensor.dims[tensor.rank++] = history->width;
    if (source->kind == CELL_SOURCE_INPUT) { // ids are ids there too
        const struct cell_tensor *from = &model->inputs[source->index];
        tensor.id_bound = from->id_bound;
        tensor.ids_below_zero = from->ids_below_zero;
        tensor.n_id_bounds = from->n_id_bounds;
        memcpy(tensor.id_bounds, from->id_bounds, sizeof(tensor.id_bounds));
    }
    history->input = model->n_inputs;
    history->output = model->n_outputs;
    return add_made(model, &tensor, (struct cell_source){.kind = CELL_SOURCE_KEPT, .index = n},
                    error);
}

/* What stages read beside their own steps, and how many steps there have been. */
static enum base_status add_stream(struct cell_model *model, struct base_error *error)
{
    static const struct cell_value count = {CELL_I64, 1};
    for (uint32_t n = 0; n < model->n_histories; n++) {
        BASE_TRY(add_history(model, n, error));
    }
    if (!model->stream.counts) {
        return BASE_OK;
    }
    const struct cell_tensor tensor = tensor_of(model, &count);
    model->stream.count_input = model->n_inputs;
    model->stream.count_output = model->n_outputs;
    return add_made(model, &tensor, (struct cell_source){.kind = CELL_SOURCE_COUNT}, error);
}

static enum base_status add_recurrent(struct cell_model *model, uint32_t steps_max,
                                      struct base_error *error)
{
    bool is_recurrent = false;
    bool ends[CELL_STAGES_MAX] = {false};
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const bool is_decoder = model->stages[s].kind == CELL_STAGE_DECODER; // its own affair
        BASE_TRY(is_decoder ? BASE_OK : check_stage(model, s, ends, error));
        is_recurrent = is_recurrent || is_decoder || model->stages[s].kind == CELL_STAGE_CHAIN;
    }
    BASE_TRY(check_outputs(model, error));
    BASE_TRY(model->n_states > 0 ? BASE_OK : cell__stream_find(model, steps_max, error));
    if (!is_recurrent && model->n_histories == 0 && !model->stream.counts) {
        return base_fail(
            error, BASE_INVALID_ARGUMENT,
            "states: recurrent, and the model has no recurrent layer, reads no earlier "
            "steps and counts none");
    }
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const bool is_chain = model->stages[s].kind == CELL_STAGE_CHAIN;
        const uint32_t n_states = is_chain ? model->stages[s].type->def.n_states : 0;
        for (uint32_t k = 0; k < n_states; k++) {
            BASE_TRY(add_state(model, s, k, error));
        }
    }
    return add_stream(model, error);
}

/* Of a transducer's decoder: what it has heard is the next request's too, but frames are counted
 * anew. */
static enum base_status add_search(struct cell_model *model, struct base_error *error)
{
    const uint32_t s = model->decoder.stage;
    for (uint32_t k = CELL_TRANSDUCER_HELD; k < model->stages[s].type->def.n_states; k++) {
        const bool is_labels = k == CELL_TRANSDUCER_LABELS;
        struct cell_source *init = &model->stages[s].init[k];
        *init = (struct cell_source){.kind = CELL_SOURCE_ZERO};
        BASE_TRY(add_state(model, s, k, error));
        init->or_start = is_labels;
        model->states[model->n_states - 1].or_start = is_labels;
        model->inputs[init->index].id_bound = is_labels ? model->labels.id_bound : 0;
        model->inputs[init->index].ids_below_zero = is_labels && model->labels.ids_below_zero;
    }
    return BASE_OK;
}

/* A label that begins where a request does is another one than the last of the request before it,
 * or the same that goes on. */
static enum base_status add_last_label(struct cell_model *model, struct base_error *error)
{
    const uint32_t input = model->n_inputs;
    const uint32_t output = model->n_outputs;
    if (!has_room(model)) {
        return fail_room(error);
    }
    struct cell_tensor label = model->outputs[model->labels.first + CELL_LABELS_LENGTHS];
    name_state(model, &label);
    model->inputs[model->n_inputs++] = label;
    model->outputs[model->n_outputs++] = label;
    model->output_sources[output][0] =
        (struct cell_source){.kind = CELL_SOURCE_TAKEN, .index = CELL_LABELS_OUTPUTS};
    model->labels.has_last = true;
    model->labels.last_input = input;
    model->labels.last_output = output;
    add(model, input, output);
    return BASE_OK;
}

enum base_status cell_model_keep_states(struct cell_model *model,
                                        const struct cell_kept_states *kept,
                                        struct base_error *error)
{
    const bool is_transducer = model->labels.is_on && !model->labels.is_ctc;
    base_assert((model->unfold == CELL_UNFOLD_CHAIN || is_transducer) && model->n_states == 0);
    if (is_transducer && model->decoder.beam_width > 0 && (kept->recurrent || kept->n > 0)) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "states: a beam's hypotheses are over with the request; sessions need the "
                         "search without one");
    }
    for (uint32_t i = 0; i < kept->n; i++) {
        BASE_TRY(add_pair(model, &kept->items[i], error));
    }
    BASE_TRY(kept->recurrent ? add_recurrent(model, kept->steps_max, error) : BASE_OK);
    if (!model->labels.is_on || model->n_states == 0) {
        return BASE_OK;
    }
    return is_transducer ? add_search(model, error) : add_last_label(model, error);
}
