/* Sequence-to-sequence models: an encoder, which is a model of its own, and behind it one step of a
 * decoder, bound to it by the names of their tensors. Loop thread. */
#include "cells/model.h"

#include "base/assert.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

/* The output that says how many steps each row took. */
#define LENGTHS "lengths"

/* What is bound: the model begins as the encoder. */
struct binding {
    const struct cell_model_options *options;
    const struct cell_decoding *decoding;
    struct cell_registry *registry;
    struct cell_model *model;
    struct cell_model *step; /* decoder.onnx */
    struct base_error *error;
};

static enum base_status load_part(struct binding *b, const char *folder, const char *part,
                                  const char *label, struct cell_model **out)
{
    char path[PATH_BYTES];
    char name[64];
    struct base_error why = {.status = BASE_OK};
    struct cell_model_options options = *b->options;
    options.is_part = options.feeds_back = out == &b->step;
    const int length = snprintf(path, sizeof(path), "%s/%s.onnx", folder, part);
    if (length < 0 || length >= PATH_BYTES) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder);
    }
    (void)snprintf(name, sizeof(name), "%.48s/%s", label, part);
    const enum base_status status = cell_model_load(b->registry, path, name, &options, out, &why);
    return status == BASE_OK ? BASE_OK
                             : base_fail(b->error, status, "%s.onnx: %s", part, why.message);
}

/* ---- Inputs of the step ------------------------------------------------------------------- */

static enum base_status check_same(const struct binding *b, const struct cell_tensor *want,
                                   const struct cell_tensor *got, const char *of)
{
    if ((got->time_axis >= 0) != (want->time_axis >= 0)) {
        return base_fail(b->error, BASE_UNIMPLEMENTED,
                         "%s '%.60s' has a row for each step, decoder.onnx reads one, or the other "
                         "way round",
                         of, got->name);
    }
    if (got->pieces != 1) {
        return base_fail(b->error, BASE_UNIMPLEMENTED,
                         "%s '%.60s' has %u layers or directions before its batch axis; "
                         "decoder.onnx needs each on its own",
                         of, got->name, got->pieces);
    }
    if (got->dtype != want->dtype || got->width != want->width) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "%s '%.60s' has width %u, in decoder.onnx it has %u, or another type", of,
                         got->name, got->width, want->width);
    }
    return BASE_OK;
}

/* An input of the model: the encoder's of this name, or a new one. */
static enum base_status bind_request(const struct binding *b, const struct cell_tensor *tensor,
                                     bool is_optional, struct cell_source *out)
{
    struct cell_model *model = b->model;
    const uint32_t i = cell_tensor_find(model->inputs, model->n_inputs, tensor->name);
    *out = (struct cell_source){.kind = CELL_SOURCE_INPUT, .index = i};
    if (i < model->n_inputs) {
        BASE_TRY(check_same(b, tensor, &model->inputs[i], "input"));
        return tensor->form == model->inputs[i].form
                   ? BASE_OK
                   : base_fail(b->error, BASE_INVALID_ARGUMENT,
                               "input '%.60s' is of one type in encoder.onnx and of another in "
                               "decoder.onnx",
                               tensor->name);
    }
    if (model->n_inputs == CELL_TENSORS_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "more than %u inputs", CELL_TENSORS_MAX);
    }
    model->inputs[i] = *tensor;
    model->inputs[i].optional = is_optional;
    model->n_inputs++;
    return BASE_OK;
}

/* An id of the decoding, below the rows of the table that it chooses from. */
static enum base_status check_id(const struct binding *b, const struct cell_tensor *token,
                                 const char *what, int64_t id)
{
    if (id < 0 || (token->id_bound > 0 && id >= token->id_bound) ||
        (token->dtype == CELL_I32 && id > INT32_MAX)) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "%s: %" PRId64 " is no id of the embedding that '" CELL_TOKEN
                         "' chooses from (%" PRId64 " rows)",
                         what, id, token->id_bound);
    }
    return BASE_OK;
}

static enum base_status bind_start(const struct binding *b, const struct cell_tensor *token,
                                   struct cell_source *out)
{
    const int64_t start = b->decoding->start;
    BASE_TRY(check_id(b, token, "start", start));
    memcpy(b->model->decoder.start, &start, cell_dtype_bytes(token->dtype)); // little-endian
    *out = (struct cell_source){.kind = CELL_SOURCE_START};
    return BASE_OK;
}

static bool is_token(const struct cell_tensor *tensor)
{
    return strcmp(tensor->name, CELL_TOKEN) == 0 && tensor->dtype != CELL_F32 && tensor->width == 1;
}

/* Keys and values of an attention have as many rows as each other. */
static enum base_status check_sequence(const struct binding *b, const struct cell_memory *first,
                                       const struct cell_memory *memory, const char *name)
{
    return memory->sequence == first->sequence
               ? BASE_OK
               : base_fail(b->error, BASE_UNIMPLEMENTED,
                           "decoder.onnx: input '%.60s' has the steps of another sequence of the "
                           "encoder than what else the step attends to",
                           name);
}

/* What the step attends to: an output of the encoder, or of the request's inputs. */
static enum base_status bind_memory(const struct binding *b, const struct cell_model *encoder,
                                    struct cell_source *source)
{
    const struct cell_tensor *tensor = &b->step->inputs[source->index];
    const uint32_t number = b->model->n_memories;
    struct cell_memory *memory = &b->model->memories[number];
    const uint32_t o = cell_tensor_find(encoder->outputs, encoder->n_outputs, tensor->name);
    if (number == CELL_MEMORIES_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "more than %u sequences attended to",
                         CELL_MEMORIES_MAX);
    }
    b->model->n_memories++;
    *memory = (struct cell_memory){.width = tensor->width, .pieces = 1};
    if (o == encoder->n_outputs) {
        BASE_TRY(bind_request(b, tensor, false, &memory->sources[0]));
    } else {
        const struct cell_tensor *got = &encoder->outputs[o];
        if (got->time_axis < 0 || got->dtype != CELL_F32 || got->width != tensor->width) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "encoder.onnx: output '%.60s' is no row of width %u for each step, "
                             "which decoder.onnx attends to",
                             got->name, tensor->width);
        }
        memory->pieces = got->pieces;
        memory->sequence = got->sequence;
        memcpy(memory->sources, encoder->output_sources[o], sizeof(memory->sources));
    }
    *source = (struct cell_source){.kind = CELL_SOURCE_MEMORY, .index = number};
    for (uint32_t p = 0; p < memory->pieces; p++) {
        const struct cell_source *from = &memory->sources[p];
        const bool is_made =
            from->kind == CELL_SOURCE_EACH && b->model->stages[from->stage].kind != CELL_STAGE_ONCE;
        if (!is_made && !(from->kind == CELL_SOURCE_INPUT && memory->pieces == 1)) {
            return base_fail(b->error, BASE_UNIMPLEMENTED,
                             "encoder.onnx: output '%.60s' is not made step by step", tensor->name);
        }
    }
    return check_sequence(b, &b->model->memories[encoder->n_memories], memory, tensor->name);
}

/* encoder: the encoder's outputs and where each comes from, which the model does not have any more.
 */
static enum base_status bind_input(const struct binding *b, const struct cell_model *encoder,
                                   bool is_state, struct cell_source *source)
{
    const struct cell_tensor *tensor = &b->step->inputs[source->index];
    const uint32_t o = cell_tensor_find(encoder->outputs, encoder->n_outputs, tensor->name);
    if (o < encoder->n_outputs) {
        BASE_TRY(check_same(b, tensor, &encoder->outputs[o], "encoder.onnx: output"));
        *source = encoder->output_sources[o][0];
        return BASE_OK;
    }
    if (is_state && is_token(tensor) && b->decoding->has_start) {
        return bind_start(b, tensor, source);
    }
    return bind_request(b, tensor, is_state && !is_token(tensor), source);
}

static enum base_status bind_inputs(const struct binding *b, const struct cell_model *encoder)
{
    struct cell_stage *stage = &b->step->stages[0];
    const struct cell_def *def = &stage->type->def;
    for (uint32_t i = 0; i < def->n_inputs + def->n_states; i++) {
        const bool is_state = i >= def->n_inputs;
        struct cell_source *source = is_state ? &stage->init[i - def->n_inputs] : &stage->inputs[i];
        base_assert(source->kind == CELL_SOURCE_INPUT && source->piece == 0);
        BASE_TRY(!is_state && cell_def_input_has_rows(def, i)
                     ? bind_memory(b, encoder, source)
                     : bind_input(b, encoder, is_state, source));
    }
    return BASE_OK;
}

/* ---- Its end and what it answers ---------------------------------------------------------- */

static enum base_status set_end(const struct binding *b)
{
    const struct cell_stage *stage = &b->step->stages[0];
    struct cell_decoder *decoder = &b->model->decoder;
    uint32_t token = 0;
    while (token < stage->type->def.n_states &&
           !is_token(&b->step->inputs[stage->init[token].index])) {
        token++;
    }
    const bool has_token = token < stage->type->def.n_states;
    if (!has_token && (b->decoding->has_start || b->decoding->has_end)) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "decoder.onnx: start and end are ids, but no output '" CELL_TOKEN
                         "_next' of one integer is fed back");
    }
    if (b->decoding->has_end) {
        const struct cell_tensor *tensor = &b->step->inputs[stage->init[token].index];
        BASE_TRY(check_id(b, tensor, "end", b->decoding->end));
    }
    decoder->steps_max = b->decoding->steps_max;
    decoder->has_end = b->decoding->has_end;
    decoder->end = (struct cell_end){.state = token, .id = decoder->has_end ? b->decoding->end : 0};
    return BASE_OK;
}

/* A row becomes a row for each step. */
static enum base_status add_time(const struct binding *b, struct cell_tensor *tensor)
{
    if (tensor->rank == CELL_RANK_MAX || tensor->pieces != 1) {
        return base_fail(b->error, BASE_UNIMPLEMENTED,
                         "decoder.onnx: output '%.60s' has too many axes", tensor->name);
    }
    base_assert(tensor->batch_axis == 0);
    memmove(&tensor->dims[2], &tensor->dims[1], (tensor->rank - 1) * sizeof(tensor->dims[0]));
    tensor->dims[1] = CELL_DIM_ANY;
    tensor->time_axis = 1;
    tensor->sequence = b->model->decoder.sequence;
    tensor->rank++;
    return BASE_OK;
}

static enum base_status set_outputs(const struct binding *b)
{
    struct cell_model *model = b->model;
    const struct cell_model *step = b->step;
    if (step->n_outputs == CELL_TENSORS_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "decoder.onnx: more than %u outputs",
                         CELL_TENSORS_MAX - 1);
    }
    model->decoder.token_output = CELL_TENSORS_MAX;
    model->n_outputs = step->n_outputs + 1;
    for (uint32_t o = 0; o < step->n_outputs; o++) {
        const struct cell_source *source = &step->output_sources[o][0];
        model->outputs[o] = step->outputs[o];
        BASE_TRY(add_time(b, &model->outputs[o]));
        base_assert(source->kind == CELL_SOURCE_EACH && source->stage == 0);
        model->output_sources[o][0] = *source;
        model->output_sources[o][0].stage = model->decoder.stage;
        if (strcmp(step->outputs[o].name, LENGTHS) == 0) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "decoder.onnx: output '" LENGTHS "' would be there twice");
        }
        if (strcmp(step->outputs[o].name, CELL_TOKEN) == 0) {
            model->decoder.token_output = o;
        }
    }
    model->outputs[step->n_outputs] = (struct cell_tensor){.name = LENGTHS,
                                                           .dtype = CELL_I64,
                                                           .rank = 1,
                                                           .dims = {CELL_DIM_ANY},
                                                           .time_axis = -1,
                                                           .piece_axis = -1,
                                                           .pieces = 1,
                                                           .width = 1};
    model->output_sources[step->n_outputs][0] = (struct cell_source){.kind = CELL_SOURCE_TAKEN};
    return BASE_OK;
}

/* ---- Beam search -------------------------------------------------------------------------- */

/* [batch, width], or [batch, width, steps]. */
static struct cell_tensor beam_tensor(const char *name, enum cell_dtype dtype, uint32_t width,
                                      bool is_timed)
{
    struct cell_tensor tensor = {.dtype = dtype,
                                 .rank = is_timed ? 3 : 2,
                                 .dims = {CELL_DIM_ANY, width, CELL_DIM_ANY},
                                 .time_axis = is_timed ? 2 : -1,
                                 .piece_axis = -1,
                                 .pieces = 1,
                                 .width = width};
    (void)snprintf(tensor.name, sizeof(tensor.name), "%s", name);
    return tensor;
}

/* Needs set_end(). */
static enum base_status set_beam(const struct binding *b)
{
    struct cell_model *model = b->model;
    struct cell_decoder *decoder = &model->decoder;
    const struct cell_stage *stage = &b->step->stages[0];
    const uint32_t width = b->decoding->beam_width;
    const uint32_t logits = cell_tensor_find(b->step->outputs, b->step->n_outputs, CELL_LOGITS);
    if (width > CELL_BEAM_MAX) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT, "a beam of %u; at most %u", width,
                         CELL_BEAM_MAX);
    }
    if (!(b->decoding->length_penalty >= 0.0f)) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT, "a length penalty below 0");
    }
    if (decoder->end.state == stage->type->def.n_states) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "decoder.onnx: a beam chooses '" CELL_TOKEN "', but no output '" CELL_TOKEN
                         "_next' of one integer is fed back");
    }
    if (logits == b->step->n_outputs || b->step->outputs[logits].dtype != CELL_F32) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "decoder.onnx: a beam chooses by an output '" CELL_LOGITS
                         "' of floats, which is not there");
    }
    decoder->beam_width = width;
    decoder->length_penalty = b->decoding->length_penalty;
    decoder->token = decoder->end.state;
    decoder->logits = b->step->output_sources[logits][0].index;
    decoder->ids = b->step->outputs[logits].width;
    decoder->token_output = CELL_BEAM_TOKENS;
    model->n_outputs = CELL_BEAM_OUTPUTS;
    model->outputs[CELL_BEAM_TOKENS] = beam_tensor(CELL_TOKEN, CELL_I64, width, true);
    model->outputs[CELL_BEAM_TOKENS].sequence = decoder->sequence;
    model->outputs[CELL_BEAM_SCORES] = beam_tensor("scores", CELL_F32, width, false);
    model->outputs[CELL_BEAM_LENGTHS] = beam_tensor(LENGTHS, CELL_I64, width, false);
    for (uint32_t o = 0; o < CELL_BEAM_OUTPUTS; o++) {
        model->output_sources[o][0] = (struct cell_source){.kind = CELL_SOURCE_TAKEN, .index = o};
    }
    return BASE_OK;
}

/* ---- The whole ---------------------------------------------------------------------------- */

static enum base_status bind(const struct binding *b, const struct cell_model *encoder)
{
    struct cell_model *model = b->model;
    base_assert(model != NULL && b->step != NULL);
    if (b->step->n_stages != 1) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "decoder.onnx: computes nothing");
    }
    if (model->n_stages == CELL_STAGES_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "more than %u stages", CELL_STAGES_MAX);
    }
    if (model->n_sequences == CELL_SEQUENCES_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "encoder.onnx: %u sequences; at most %u",
                         model->n_sequences, CELL_SEQUENCES_MAX - 1);
    }
    base_assert(b->step->stages[0].kind == CELL_STAGE_DECODER);
    model->unfold = CELL_UNFOLD_SEQ2SEQ;
    model->decoder.stage = model->n_stages;
    model->decoder.sequence = model->n_sequences++;
    BASE_TRY(set_end(b));
    BASE_TRY(b->decoding->beam_width > 0 ? set_beam(b) : set_outputs(b));
    BASE_TRY(bind_inputs(b, encoder));
    model->stages[model->n_stages++] = b->step->stages[0];
    cell_type_ref(b->registry, b->step->stages[0].type);
    model->file_bytes += b->step->file_bytes;
    memcpy(model->producer, b->step->producer, sizeof(model->producer));
    return BASE_OK;
}

/* A model without an encoder: nothing yet. */
static enum base_status create_empty(struct binding *b)
{
    b->model = base_alloc(sizeof(*b->model));
    if (b->model == NULL) {
        return base_fail(b->error, BASE_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    b->model->options = *b->options;
    b->model->n_sequences = 1;
    return BASE_OK;
}

static enum base_status load_and_bind(struct binding *b, const char *folder, const char *label)
{
    if (b->decoding->steps_max == 0 || b->decoding->steps_max > CELL_DECODER_STEPS_MAX) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "a decoder needs a bound of its steps: max-steps, 1 to %u",
                         CELL_DECODER_STEPS_MAX);
    }
    BASE_TRY(load_part(b, folder, "decoder", label, &b->step));
    enum base_status status = load_part(b, folder, "encoder", label, &b->model);
    if (status == BASE_NOT_FOUND) {
        status = create_empty(b);
    }
    if (status != BASE_OK) {
        return status;
    }
    base_assert(b->model != NULL);
    struct cell_model *encoder = base_alloc(sizeof(*encoder));
    if (encoder == NULL) {
        return base_fail(b->error, BASE_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    *encoder = *b->model;
    status = bind(b, encoder);
    base_free(encoder);
    return status;
}

enum base_status cell_model_load_decoder(struct cell_registry *registry, const char *folder,
                                         const char *label,
                                         const struct cell_model_options *options,
                                         struct cell_model **out, struct base_error *error)
{
    struct base_error own = {.status = BASE_OK};
    struct binding b = {.options = options,
                        .decoding = &options->decoding,
                        .registry = registry,
                        .error = error == NULL ? &own : error};
    *out = NULL;
    const enum base_status status = load_and_bind(&b, folder, label);
    cell_model_free(registry, b.step);
    if (status != BASE_OK) {
        cell_model_free(registry, b.model);
        return status;
    }
    *out = b.model;
    return BASE_OK;
}
