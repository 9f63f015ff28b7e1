/* Transducers: an encoder, which is a model of its own, and a decoder whose step is made of two
 * parts, the prediction network and the joint network, found by the names of their tensors. Loop
 * thread. */
#include "cells/model.h"

#include "base/assert.h"
#include "base/mem.h"
#include "cells/transducer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096
#define NONE       UINT32_MAX

/* The model begins as the encoder. */
struct binding {
    const struct cell_model_options *options;
    struct cell_registry *registry;
    const char *label;
    struct cell_model *model, *predictor, *joiner;
    struct cell_model encoder; /* its outputs, which the model does not have any more */
    struct cell_transducer parts;
    struct cell_transducer_cells cells;
    struct cell_source of_frames[CELL_INPUTS_MAX][CELL_PIECES_MAX]; /* by the joiner's input */
    uint32_t pieces[CELL_INPUTS_MAX];
    uint32_t frames; /* their sequence */
    uint32_t labels; /* the predictor's input of labels */
    struct base_error *error;
};

static enum base_status load_part(struct binding *b, const char *folder, const char *part,
                                  struct cell_model **out)
{
    char path[PATH_BYTES];
    char name[64];
    struct base_error why = {.status = BASE_OK};
    struct cell_model_options options = *b->options;
    const bool is_part = out != &b->model;
    options.is_part = is_part;
    options.feeds_back = options.may_feed_none = out == &b->predictor;
    const int length = snprintf(path, sizeof(path), "%s/%s.onnx", folder, part);
    if (length < 0 || length >= PATH_BYTES) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder);
    }
    (void)snprintf(name, sizeof(name), "%.48s/%s", b->label, part);
    const enum base_status status = cell_model_load(b->registry, path, name, &options, out, &why);
    if (status != BASE_OK) {
        return base_fail(b->error, status, "%s.onnx: %s", part, why.message);
    }
    return !is_part || (*out)->n_stages == 1
               ? BASE_OK
               : base_fail(b->error, BASE_UNIMPLEMENTED, "%s.onnx: computes nothing", part);
}

static const struct cell_def *def_of(const struct cell_model *part)
{
    return &part->stages[0].type->def;
}

/* The definition's input that is a piece of the part's; NONE: nothing reads it. */
static uint32_t operand_of(const struct cell_model *part, uint32_t input, uint32_t piece)
{
    uint32_t operand = NONE;
    for (uint32_t i = 0; i < def_of(part)->n_inputs; i++) {
        const struct cell_source *source = &part->stages[0].inputs[i];
        const bool is_it = source->kind == CELL_SOURCE_INPUT && source->index == input;
        operand = is_it && source->piece == piece ? i : operand;
    }
    return operand;
}

/* The definition's value that is a piece of the part's output. */
static uint32_t value_of(const struct cell_model *part, uint32_t output, uint32_t piece)
{
    const struct cell_source *source = &part->output_sources[output][piece];
    return source->kind == CELL_SOURCE_INPUT ? operand_of(part, source->index, source->piece)
                                             : def_of(part)->outputs[source->index];
}

/* ---- The prediction network --------------------------------------------------------------- */

/* Its only input is the labels: the others are states by now. */
static enum base_status bind_predictor(struct binding *b)
{
    const struct cell_model *part = b->predictor;
    const struct cell_def *def = def_of(part);
    const struct cell_source *source = &part->stages[0].inputs[0];
    const struct cell_tensor *labels = &part->inputs[source->index];
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        const struct cell_tensor *input = &part->inputs[part->stages[0].inputs[i].index];
        if (input->dtype == CELL_F32) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "decoder.onnx: input '%.60s' is no labels, and not fed back: no "
                             "output is called '%.60s_next'",
                             input->name, input->name);
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        if (def->values[def->n_inputs + s].dtype != CELL_F32) {
            return base_fail(b->error, BASE_UNIMPLEMENTED,
                             "decoder.onnx: integers are fed back; the labels are by themselves");
        }
    }
    if (def->n_inputs != 1 || labels->width > CELL_CONTEXT_MAX) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "decoder.onnx: reads %u inputs that are not fed back; it has one, the "
                         "last labels, at most %u",
                         def->n_inputs, CELL_CONTEXT_MAX);
    }
    b->labels = source->index;
    return BASE_OK;
}

/* ---- The joint network -------------------------------------------------------------------- */

static enum base_status link_predictor(struct binding *b, uint32_t input, uint32_t output)
{
    const struct cell_tensor *want = &b->joiner->inputs[input];
    const struct cell_tensor *got = &b->predictor->outputs[output];
    struct cell_transducer *parts = &b->parts;
    if (got->dtype != want->dtype || got->width != want->width || got->pieces != 1 ||
        parts->n_links == CELL_OUTPUTS_MAX) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "decoder.onnx: output '%.60s' has width %u, in joiner.onnx it has %u, or "
                         "another type",
                         got->name, got->width, want->width);
    }
    parts->links[parts->n_links].from = value_of(b->predictor, output, 0);
    parts->links[parts->n_links++].input = operand_of(b->joiner, input, 0);
    return BASE_OK;
}

static enum base_status link_encoder(struct binding *b, uint32_t input, uint32_t output)
{
    const struct cell_tensor *want = &b->joiner->inputs[input];
    const struct cell_tensor *got = &b->encoder.outputs[output];
    const uint32_t operand = operand_of(b->joiner, input, 0);
    if (got->time_axis < 0 || got->dtype != CELL_F32 || want->dtype != CELL_F32 ||
        got->width != want->width) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "encoder.onnx: output '%.60s' is no row of width %u for each frame, which "
                         "joiner.onnx reads",
                         got->name, want->width);
    }
    for (uint32_t p = 0; p < got->pieces; p++) {
        const struct cell_source *source = &b->encoder.output_sources[output][p];
        if (source->kind != CELL_SOURCE_EACH ||
            b->model->stages[source->stage].kind == CELL_STAGE_ONCE) {
            return base_fail(b->error, BASE_UNIMPLEMENTED,
                             "encoder.onnx: output '%.60s' is not made step by step", got->name);
        }
        b->of_frames[operand][p] = *source;
    }
    if (b->frames != NONE && b->frames != got->sequence) {
        return base_fail(b->error, BASE_UNIMPLEMENTED,
                         "encoder.onnx: joiner.onnx reads frames of two sequences");
    }
    b->frames = got->sequence;
    b->pieces[operand] = got->pieces;
    b->parts.is_frame[operand] = true;
    return BASE_OK;
}

static enum base_status bind_joiner(struct binding *b)
{
    const struct cell_model *part = b->joiner;
    b->frames = NONE;
    for (uint32_t i = 0; i < part->n_inputs; i++) {
        const char *name = part->inputs[i].name;
        const uint32_t of_encoder =
            cell_tensor_find(b->encoder.outputs, b->encoder.n_outputs, name);
        const uint32_t of_predictor =
            cell_tensor_find(b->predictor->outputs, b->predictor->n_outputs, name);
        const bool is_of_encoder = of_encoder < b->encoder.n_outputs;
        if (operand_of(part, i, 0) == NONE || part->inputs[i].pieces != 1 ||
            is_of_encoder == (of_predictor < b->predictor->n_outputs)) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "joiner.onnx: input '%.60s' is not an output of either encoder.onnx "
                             "or decoder.onnx",
                             name);
        }
        BASE_TRY(is_of_encoder ? link_encoder(b, i, of_encoder)
                               : link_predictor(b, i, of_predictor));
    }
    if (part->n_outputs != 1 || part->outputs[0].dtype != CELL_F32 ||
        part->outputs[0].pieces != 1 || part->outputs[0].width < 2) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "joiner.onnx: its one output is no float for each label");
    }
    b->parts.logits = value_of(part, 0, 0);
    return BASE_OK;
}

/* What comes before the first label. */
static int64_t start_of(const struct cell_decoding *decoding)
{
    return decoding->has_start ? decoding->start : decoding->blank;
}

/* Every label that may be said is looked up by the predictor. */
static enum base_status check_labels(struct binding *b)
{
    const struct cell_decoding *decoding = &b->options->decoding;
    const struct cell_tensor *labels = &b->predictor->inputs[b->labels];
    const int64_t n_ids = b->joiner->outputs[0].width;
    const int64_t last = n_ids - (decoding->blank == n_ids - 1 ? 2 : 1);
    if (decoding->blank < 0 || decoding->blank >= n_ids) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "the blank is %" PRId64 ", and joiner.onnx has %" PRId64 " labels",
                         decoding->blank, n_ids);
    }
    if (labels->id_bound > 0 &&
        (last >= labels->id_bound || start_of(decoding) >= labels->id_bound)) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "decoder.onnx: its embedding has %" PRId64
                         " rows, but labels up to %" PRId64 " may come, and %" PRId64
                         " before the first",
                         labels->id_bound, last, start_of(decoding));
    }
    return BASE_OK;
}

/* ---- The whole ---------------------------------------------------------------------------- */

/* The encoder's frames side by side, where it makes them in pieces. */
static void define_row(uint32_t pieces, const struct cell_value *row, struct cell_def *out)
{
    *out =
        (struct cell_def){.n_inputs = pieces, .n_values = pieces + 1, .n_ops = 1, .n_outputs = 1};
    out->ops[0] = (struct cell_op){.kind = CELL_OP_CONCAT, .n_operands = pieces, .result = pieces};
    for (uint32_t p = 0; p < pieces; p++) {
        out->values[p] = (struct cell_value){row->dtype, row->width / pieces};
        out->ops[0].operands[p] = p;
    }
    out->values[pieces] = *row;
    out->outputs[0] = pieces;
}

/* The last stage of the model, which runs once a frame, without its inputs. */
static enum base_status add_stage(struct binding *b, const struct cell_def *def, const char *word)
{
    char name[64];
    bool is_new = false;
    struct cell_stage *stage = &b->model->stages[b->model->n_stages];
    if (b->model->n_stages == CELL_STAGES_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "more than %u stages", CELL_STAGES_MAX);
    }
    (void)snprintf(name, sizeof(name), "%.48s/%s", b->label, word);
    *stage = (struct cell_stage){.kind = CELL_STAGE_EACH, .sequence = b->frames};
    BASE_TRY(cell_registry_intern(b->registry, def, name, &stage->type, &is_new, b->error));
    b->model->n_stages++;
    return BASE_OK;
}

static struct cell_stage *last_stage(const struct binding *b)
{
    return &b->model->stages[b->model->n_stages - 1];
}

/* Input i of the joiner as one row of each frame. */
static enum base_status join_pieces(struct binding *b, uint32_t i, struct cell_source *out)
{
    *out = b->of_frames[i][0];
    if (b->pieces[i] == 1) {
        return BASE_OK;
    }
    struct cell_def *def = base_alloc(sizeof(*def));
    if (def == NULL) {
        return base_fail(b->error, BASE_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    define_row(b->pieces[i], &def_of(b->joiner)->values[i], def);
    const enum base_status status = add_stage(b, def, "frames");
    base_free(def);
    BASE_TRY(status);
    memcpy(last_stage(b)->inputs, b->of_frames[i], b->pieces[i] * sizeof(struct cell_source));
    *out = (struct cell_source){.kind = CELL_SOURCE_EACH, .stage = b->model->n_stages - 1};
    return BASE_OK;
}

/* Which stage makes the joiner's part of each frame; NONE: it has none. */
static enum base_status add_frame(struct binding *b, uint32_t *number)
{
    struct cell_source inputs[CELL_INPUTS_MAX] = {{.kind = CELL_SOURCE_ZERO}};
    *number = NONE;
    if (b->cells.frame.n_outputs == 0) {
        return BASE_OK;
    }
    for (uint32_t i = 0; i < b->cells.frame.n_inputs; i++) {
        if (b->parts.is_frame[i]) {
            BASE_TRY(join_pieces(b, i, &inputs[i]));
        }
    }
    BASE_TRY(add_stage(b, &b->cells.frame, "frame"));
    memcpy(last_stage(b)->inputs, inputs, sizeof(inputs));
    *number = b->model->n_stages - 1;
    return BASE_OK;
}

static enum base_status add_memories(struct binding *b, uint32_t frame)
{
    struct cell_model *model = b->model;
    for (uint32_t m = 0; m < b->cells.n_memories; m++) {
        const struct cell_transducer_memory *from = &b->cells.memories[m];
        struct cell_memory *memory = &model->memories[model->n_memories];
        if (model->n_memories == CELL_MEMORIES_MAX) {
            return base_fail(b->error, BASE_UNIMPLEMENTED, "more than %u sequences attended to",
                             CELL_MEMORIES_MAX);
        }
        *memory = (struct cell_memory){
            .width = b->cells.step.values[m].width, .pieces = 1, .sequence = b->frames};
        if (from->is_made) {
            memory->sources[0] = (struct cell_source){
                .kind = CELL_SOURCE_EACH, .stage = frame, .index = from->index};
        } else {
            memory->pieces = b->pieces[from->index];
            memcpy(memory->sources, b->of_frames[from->index], sizeof(memory->sources));
        }
        model->n_memories++;
    }
    return BASE_OK;
}

static enum base_status add_decoder(struct binding *b)
{
    struct cell_model *model = b->model;
    const struct cell_decoding *decoding = &b->options->decoding;
    const int64_t start = start_of(decoding);
    const uint32_t first = model->n_memories - b->cells.n_memories;
    const struct cell_value *labels =
        &b->cells.step.values[b->cells.step.n_inputs + CELL_TRANSDUCER_LABELS];
    BASE_TRY(add_stage(b, &b->cells.step, "step"));
    struct cell_stage *stage = last_stage(b);
    stage->kind = CELL_STAGE_DECODER;
    for (uint32_t m = 0; m < b->cells.n_memories; m++) {
        stage->inputs[m] = (struct cell_source){.kind = CELL_SOURCE_MEMORY, .index = first + m};
    }
    stage->init[CELL_TRANSDUCER_LABELS] = (struct cell_source){.kind = CELL_SOURCE_START};
    const size_t bytes = cell_dtype_bytes(labels->dtype);
    for (uint32_t i = 0; i < labels->width; i++) {
        // Of several, those before the last stand for none where the predictor knows such.
        const bool is_none =
            i + 1 < labels->width && b->predictor->inputs[b->labels].ids_below_zero;
        const int64_t id = is_none ? -1 : start;
        memcpy(&model->decoder.start[i * bytes], &id, bytes); // little-endian
    }
    model->decoder.stage = model->n_stages - 1;
    model->decoder.sequence = model->n_sequences++;
    model->decoder.steps_max = CELL_DECODER_STEPS_MAX;
    model->decoder.steps_each = decoding->symbols_max;
    model->decoder.has_end = decoding->beam_width == 0;
    model->decoder.end = (struct cell_end){.state = CELL_TRANSDUCER_OVER, .id = 1};
    model->decoder.token_output = CELL_TENSORS_MAX; // its labels are model->labels
    model->decoder.beam_width = decoding->beam_width;
    model->decoder.length_penalty = decoding->length_penalty;
    model->decoder.token = NONE;
    model->decoder.label_state = CELL_TRANSDUCER_LABELS;
    model->decoder.held_state = CELL_TRANSDUCER_HELD;
    model->decoder.context = labels->width;
    model->decoder.logits = CELL_TRANSDUCER_LOGITS;
    model->decoder.ids = b->joiner->outputs[0].width;
    return BASE_OK;
}

/* Of the encoder's outputs those stay that have no row for each frame, such as its last states. */
static void keep_outputs(struct binding *b)
{
    struct cell_model *model = b->model;
    model->n_outputs = 0;
    for (uint32_t o = 0; o < b->encoder.n_outputs; o++) {
        if (b->encoder.outputs[o].time_axis < 0) {
            const uint32_t n = model->n_outputs++;
            model->outputs[n] = b->encoder.outputs[o];
            memcpy(model->output_sources[n], b->encoder.output_sources[o],
                   sizeof(model->output_sources[n]));
        }
    }
}

static enum base_status set_outputs(struct binding *b)
{
    static const uint32_t of_step[] = {CELL_TRANSDUCER_LABEL, CELL_TRANSDUCER_SCORE,
                                       CELL_TRANSDUCER_AT};
    struct cell_model *model = b->model;
    keep_outputs(b);
    const uint32_t first = model->n_outputs;
    for (uint32_t i = 0; i < CELL_LABELS_OUTPUTS; i++) {
        const uint32_t o = first + i;
        const bool is_timed = i != CELL_LABELS_LENGTHS;
        const bool is_written = is_timed && b->options->decoding.beam_width == 0;
        const struct cell_tensor made = cell_labels_tensor(i, CELL_DIM_ANY);
        if (o == CELL_TENSORS_MAX || cell_tensor_find(model->outputs, o, made.name) < o) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "encoder.onnx: output '%s' would be there twice, or there are more "
                             "than %u",
                             made.name, CELL_TENSORS_MAX - CELL_LABELS_OUTPUTS);
        }
        model->outputs[o] = made;
        model->output_sources[o][0] =
            is_written ? (struct cell_source){.kind = CELL_SOURCE_EACH,
                                              .stage = model->decoder.stage,
                                              .index = of_step[i]}
                       : (struct cell_source){.kind = CELL_SOURCE_TAKEN, .index = i};
        model->outputs[o].sequence = is_timed ? model->decoder.sequence : 0;
        model->n_outputs++;
    }
    const struct cell_tensor *labels = &b->predictor->inputs[b->labels];
    model->labels = (struct cell_labels){.is_on = true,
                                         .first = first,
                                         .sequence = model->decoder.sequence,
                                         .blank = b->options->decoding.blank,
                                         .n_ids = b->joiner->outputs[0].width,
                                         .frames = b->frames,
                                         .id_bound = labels->id_bound,
                                         .ids_below_zero = labels->ids_below_zero};
    return BASE_OK;
}

static enum base_status bind(struct binding *b)
{
    struct cell_model *model = b->model;
    uint32_t frame = NONE;
    if (model->n_sequences == CELL_SEQUENCES_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "encoder.onnx: %u sequences; at most %u",
                         model->n_sequences, CELL_SEQUENCES_MAX - 1);
    }
    b->parts.predictor = def_of(b->predictor);
    b->parts.joiner = def_of(b->joiner);
    b->parts.blank = (float)b->options->decoding.blank;
    b->parts.symbols_max = (float)b->options->decoding.symbols_max;
    b->parts.is_beam = b->options->decoding.beam_width > 0;
    BASE_TRY(bind_predictor(b));
    BASE_TRY(bind_joiner(b));
    BASE_TRY(cell_transducer_write(&b->parts, &b->cells, b->error));
    BASE_TRY(check_labels(b));
    model->unfold = CELL_UNFOLD_SEQ2SEQ;
    BASE_TRY(add_frame(b, &frame));
    BASE_TRY(add_memories(b, frame));
    BASE_TRY(add_decoder(b));
    BASE_TRY(set_outputs(b));
    model->file_bytes += b->predictor->file_bytes + b->joiner->file_bytes;
    return BASE_OK;
}

static enum base_status load_and_bind(struct binding *b, const char *folder)
{
    const struct cell_decoding *decoding = &b->options->decoding;
    const uint32_t symbols_max = decoding->symbols_max;
    if (decoding->beam_width > CELL_BEAM_MAX || !(decoding->length_penalty >= 0.0f)) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "a beam of %u; at most %u, and a length penalty of 0 or more",
                         decoding->beam_width, CELL_BEAM_MAX);
    }
    if (decoding->beam_width > 0 && symbols_max != 1) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "at most %u labels a frame; a beam looks at each once (max-symbols: 1)",
                         symbols_max);
    }
    if (symbols_max == 0 || symbols_max > CELL_SYMBOLS_MAX) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "at most %u labels a frame; expected 1 to %u", symbols_max,
                         CELL_SYMBOLS_MAX);
    }
    BASE_TRY(load_part(b, folder, "decoder", &b->predictor));
    BASE_TRY(load_part(b, folder, "joiner", &b->joiner));
    BASE_TRY(load_part(b, folder, "encoder", &b->model));
    b->encoder = *b->model;
    return bind(b);
}

enum base_status cell_model_load_transducer(struct cell_registry *registry, const char *folder,
                                            const char *label,
                                            const struct cell_model_options *options,
                                            struct cell_model **out, struct base_error *error)
{
    struct base_error own = {.status = BASE_OK};
    struct base_error *why = error == NULL ? &own : error;
    struct binding *b = base_alloc(sizeof(*b));
    *out = NULL;
    if (b == NULL) {
        return base_fail(why, BASE_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    b->options = options;
    b->registry = registry;
    b->label = label;
    b->error = why;
    const enum base_status status = load_and_bind(b, folder);
    cell_model_free(registry, b->predictor);
    cell_model_free(registry, b->joiner);
    if (status == BASE_OK) {
        *out = b->model;
    } else {
        cell_model_free(registry, b->model);
    }
    base_free(b);
    return status;
}
