/* Checking a request of sequences against its model: the batch extent must agree between all of its
 * tensors, the time extent between all of one sequence. */
#include "server/validate.h"

#include "base/divide.h"
#include "server/labels.h"
#include "server/tensors.h"
#include "server/text.h"

#include <inttypes.h>
#include <stdio.h>

static enum base_status check_steps(int64_t steps, const char *of, const struct srv_limits *limits,
                                    struct base_error *error)
{
    if (steps == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': an empty sequence, expected 1..%u steps", of,
                         limits->sequence_length_max);
    }
    if (steps > (int64_t)limits->sequence_length_max) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': a sequence of %" PRId64 " steps, expected 1..%u", of, steps,
                         limits->sequence_length_max);
    }
    return BASE_OK;
}

/* may_be_empty: the end of a session, of which some steps may still be due. */
static enum base_status check_extents(const struct srv_extents *extents,
                                      const struct srv_limits *limits, bool may_be_empty,
                                      struct base_error *error)
{
    if (extents->batch == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': a batch of no rows",
                         extents->batch_of);
    }
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        const bool is_fine = may_be_empty && extents->steps[s] == 0;
        BASE_TRY(is_fine ? BASE_OK
                         : check_steps(extents->steps[s], extents->steps_of[s], limits, error));
    }
    if (extents->batch > INT32_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': a batch of %" PRId64 " rows",
                         extents->batch_of, extents->batch);
    }
    return BASE_OK;
}

/* The given sequence that those of this one follow from; itself when it is given. */
static uint32_t origin_of(const struct cell_model *model, uint32_t sequence)
{
    while (model->sequences[sequence].stride > 0) {
        sequence = model->sequences[sequence].source;
    }
    return sequence;
}

/* Of a sequence that has no step, since the one that it follows from has too few, or not those that
 * are taken by their number. */
static enum base_status fail_short(const struct cell_model *model,
                                   const struct srv_extents *extents, uint32_t sequence,
                                   int64_t given, struct base_error *error)
{
    const uint32_t origin = origin_of(model, sequence);
    const char *name = extents->steps_of[origin];
    uint32_t least[CELL_SEQUENCES_MAX];
    cell_model_steps_min(model, least);
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "input '%s': a sequence of %" PRId64 " steps, of which %s, expected at least "
                     "%u",
                     name == NULL ? "" : name, given,
                     model->sequences[sequence].steps_min > 0
                         ? "the model takes some by their number"
                         : "the model's strides and windows leave none",
                     least[origin]);
}

/* Of a sequence that has more steps than a table of positions has rows. */
static enum base_status fail_long(const struct cell_model *model, const struct srv_extents *extents,
                                  uint32_t sequence, struct base_error *error)
{
    const char *name = extents->steps_of[origin_of(model, sequence)];
    return base_fail(
        error, BASE_INVALID_ARGUMENT,
        "input '%s': %" PRId64 " steps, where the model has a table of positions of %u",
        name == NULL ? "" : name, extents->steps[sequence], model->sequences[sequence].steps_max);
}

/* Of a sequence of so many steps that nobody could hold them. */
static enum base_status fail_many(const struct cell_model *model, const struct srv_extents *extents,
                                  uint32_t sequence, struct base_error *error)
{
    const uint32_t origin = origin_of(model, sequence);
    const char *name = extents->steps_of[origin];
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "input '%s': a sequence of %" PRId64 " steps, of which the model makes more "
                     "than %d",
                     name == NULL ? "" : name, extents->steps[origin], INT32_MAX);
}

/* Of a sequence whose steps are parted, and some would be left over: what must divide the steps
 * that it follows from, `given`. */
static enum base_status fail_uneven(const struct cell_model *model,
                                    const struct srv_extents *extents, uint32_t sequence,
                                    int64_t given, struct base_error *error)
{
    uint64_t multiple = model->sequences[sequence].multiple;
    const char *name = extents->steps_of[origin_of(model, sequence)];
    for (uint32_t s = sequence; model->sequences[s].stride > 0; s = model->sequences[s].source) {
        multiple *= model->sequences[s].stride;
        multiple /= base_greatest_divisor(multiple, cell_sequence_parts(&model->sequences[s]));
    }
    return base_fail(
        error, BASE_INVALID_ARGUMENT,
        "input '%s': a sequence of %" PRId64
        " steps, which the model does not part evenly, expected a multiple of %" PRIu64,
        name == NULL ? "" : name, given, multiple);
}

/* The extents of what follows from others. is_part: of a session, where the rest may come later. */
static enum base_status derive_extents(const struct cell_model *model, bool is_part,
                                       struct srv_extents *extents, struct base_error *error)
{
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        const struct cell_sequence *sequence = &model->sequences[s];
        if (sequence->stride > 0) {
            extents->steps[s] =
                cell_sequence_steps(sequence, (uint32_t)extents->steps[sequence->source]);
        }
        if (extents->steps[s] > INT32_MAX) {
            return fail_many(model, extents, s, error);
        }
        const int64_t source = sequence->stride > 0 ? extents->steps[sequence->source] : 0;
        if (!is_part &&
            !cell_sequence_is_met(sequence, (uint32_t)source, (uint32_t)extents->steps[s])) {
            return fail_short(model, extents, s, extents->steps[origin_of(model, s)], error);
        }
        if (!is_part && sequence->multiple > 0 && extents->steps[s] % sequence->multiple != 0) {
            return fail_uneven(model, extents, s, extents->steps[origin_of(model, s)], error);
        }
        if (sequence->steps_max > 0 && extents->steps[s] > (int64_t)sequence->steps_max) {
            return fail_long(model, extents, s, error);
        }
    }
    return BASE_OK;
}

/* A sequence, as a request tells of it. */
struct told {
    const struct cell_tensor *tensor; /* that holds lengths; NULL: none */
    struct sched_tensor lengths;
    uint32_t steps;
    const uint32_t *words; /* of texts, [n_words]; NULL: no text */
    uint32_t n_words;
    const struct cell_sequence *sequence;
    const uint32_t *source; /* [n_rows], of the sequence that it follows from, if it does */
};

static uint32_t length_of(const struct told *told, uint32_t row)
{
    if (told->source != NULL) {
        return cell_sequence_steps(told->sequence, told->source[row]);
    }
    return told->words == NULL ? told->steps : told->words[told->n_words == 1 ? 0 : row];
}

/* The number of steps of each row: the time extent, what its text says, what follows from another
 * sequence, or what the lengths input says. */
static enum base_status take_lengths(const struct told *told, uint32_t n_rows, uint32_t *lengths,
                                     struct base_error *error)
{
    for (uint32_t b = 0; b < n_rows; b++) {
        lengths[b] = length_of(told, b);
    }
    for (uint32_t b = 0; told->tensor != NULL && b < n_rows; b++) {
        const uint8_t *at = told->lengths.data + b * told->lengths.batch_bytes;
        const int64_t said = srv_tensor_integer(told->tensor, at, 0);
        const int64_t least = cell_telling(told->tensor->told, 0);
        const int64_t most = cell_telling(told->tensor->told, (int64_t)lengths[b] + 1) - 1;
        if (said < least || said > most) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input '%s': length %" PRId64 " of row %u, expected %" PRId64
                             "..%" PRId64,
                             told->tensor->name, said, b, least, most);
        }
        lengths[b] = (uint32_t)cell_told(told->tensor->told, said);
    }
    return BASE_OK;
}

/* Texts of one request differ in length, and one of them may be too short. */
static enum base_status check_rows(const struct told *told, const struct sched_sequences *sequences,
                                   const struct srv_extents *extents, uint32_t sequence,
                                   struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    for (uint32_t b = 0; b < sequences->n_rows; b++) {
        const uint32_t source = told->source == NULL ? 0 : told->source[b];
        if (!cell_sequence_is_met(told->sequence, source, length_of(told, b))) {
            return fail_short(model, extents, sequence,
                              sequences->steps[origin_of(model, sequence)][b], error);
        }
        if (model->sequences[sequence].multiple > 0 &&
            length_of(told, b) % model->sequences[sequence].multiple != 0) {
            return fail_uneven(model, extents, sequence,
                               told->source == NULL
                                   ? length_of(told, b)
                                   : sequences->steps[origin_of(model, sequence)][b],
                               error);
        }
    }
    return BASE_OK;
}

/* Lengths of all sequences. Needs the inputs placed and n_rows set. */
static enum base_status take_sequences(struct srv_request *request,
                                       struct sched_sequences *sequences,
                                       const struct srv_extents *extents,
                                       const struct srv_text_rows *rows, bool is_part,
                                       struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    struct told told[CELL_SEQUENCES_MAX];
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        told[s] = (struct told){
            .steps = (uint32_t)extents->steps[s],
            .words = rows->steps[s],
            .n_words = rows->n[s],
            .sequence = &model->sequences[s],
        };
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (model->inputs[i].is_lengths && sequences->inputs[i].data != NULL) {
            told[model->inputs[i].sequence].tensor = &model->inputs[i];
            told[model->inputs[i].sequence].lengths = sequences->inputs[i];
        }
    }
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        uint32_t *lengths = base_arena_array(&request->arena, sequences->n_rows, sizeof(*lengths));
        if (lengths == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
        sequences->steps[s] = lengths;
        if (model->sequences[s].stride > 0) {
            told[s].source = sequences->steps[model->sequences[s].source];
        }
        if (!is_part && (model->sequences[s].stride > 0 || model->sequences[s].steps_min > 0 ||
                         model->sequences[s].multiple > 0)) {
            BASE_TRY(check_rows(&told[s], sequences, extents, s, error));
        }
        BASE_TRY(take_lengths(&told[s], sequences->n_rows, lengths, error));
    }
    return BASE_OK;
}

/* That row r's number of a step is one of its steps. */
static enum base_status check_told_step(const struct sched_sequences *sequences, uint32_t input,
                                        uint32_t r, struct base_error *error)
{
    const struct cell_tensor *tensor = &sequences->model->inputs[input];
    const struct sched_tensor *given = &sequences->inputs[input];
    const int64_t said = cell_integer_at(tensor->dtype, given->data + r * given->batch_bytes);
    const int64_t steps = sequences->steps[tensor->sequence][r];
    const int64_t least = tensor->step_is_clipped ? INT32_MIN : cell_telling(tensor->told, 0);
    const int64_t last = cell_telling(tensor->told, steps) - 1;
    const int64_t most = tensor->step_is_ended ? INT32_MAX : last;
    char from[32] = "at most ";
    if (said >= least && said <= most) {
        return BASE_OK;
    }
    if (!tensor->step_is_clipped) {
        (void)snprintf(from, sizeof(from), "%" PRId64 "..", least);
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "input '%s': %" PRId64 " of row %u, expected %s%" PRId64, tensor->name, said,
                     r, from, most);
}

/* Each that an input says. */
static enum base_status check_told_steps(const struct sched_sequences *sequences,
                                         struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const bool says = model->inputs[i].is_step && sequences->inputs[i].data != NULL;
        for (uint32_t r = 0; says && r < sequences->n_rows; r++) {
            BASE_TRY(check_told_step(sequences, i, r, error));
        }
    }
    return BASE_OK;
}

/* Hypotheses that are asked for. */
static enum base_status take_beam(const struct srv_request *request,
                                  struct sched_sequences *sequences, struct srv_extents *extents,
                                  struct base_error *error)
{
    const uint32_t most = sequences->model->decoder.beam_width;
    if (request->beam > most) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "parameter 'beam' is %" PRIu64 "; the model has at most %u", request->beam,
                         most);
    }
    sequences->beam_width = (uint32_t)request->beam;
    extents->beam = sequences->model->labels.is_on ? 0 : sched_beam_width(sequences); // the best
    return BASE_OK;
}

/* Of a transducer as many as its frames may have. */
static enum base_status take_steps(const struct srv_request *request,
                                   struct sched_sequences *sequences,
                                   const struct srv_extents *extents, struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    const uint64_t each = model->decoder.steps_each;
    const uint64_t frames = each > 0 ? (uint64_t)extents->steps[model->labels.frames] : 0;
    const uint64_t steps = each == 0 ? request->steps_max : frames > 0 ? frames * each : 1;
    if (each > 0 && request->steps_max > 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "parameter 'max_steps': a transducer has as many steps as its frames ask "
                         "for");
    }
    if (each > 0 && steps > CELL_DECODER_STEPS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%" PRIu64 " frames of at most %" PRIu64 " labels each; all together at "
                         "most %u",
                         frames, each, CELL_DECODER_STEPS_MAX);
    }
    sequences->decoder_steps = steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX;
    return BASE_OK;
}

/* How many steps the session of row r has had, as it says. */
static enum base_status count_of(const struct sched_sequences *sequences, uint32_t r, int64_t *out,
                                 struct base_error *error)
{
    const struct cell_stream *stream = &sequences->model->stream;
    const struct sched_tensor *count = &sequences->inputs[stream->count_input];
    *out = 0;
    if (!stream->counts || count->data == NULL) {
        return BASE_OK;
    }
    *out = cell_integer_at(CELL_I64, count->data + r * count->batch_bytes);
    return *out >= 0 && *out <= CELL_STREAM_STEPS_MAX
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT,
                           "input '%s': %" PRId64 " steps of row %u, expected 0..%" PRId64,
                           sequences->model->inputs[stream->count_input].name, *out, r,
                           CELL_STREAM_STEPS_MAX);
}

/* That row r's whole sequence, which ends here, is one that the model takes. */
static enum base_status check_end(const struct sched_sequences *sequences, uint32_t r,
                                  int64_t steps, struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    const uint32_t unmet = cell_stream_unmet(model, steps);
    if (unmet == CELL_SEQUENCES_MAX) {
        return BASE_OK;
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "the session ends with %" PRId64 " steps of row %u, %s", steps, r,
                     model->sequences[unmet].multiple > 0
                         ? "which the model does not part evenly"
                         : "of which the model's strides and windows leave none");
}

/* That row r's sequence, which has had so many steps, is no longer than what the model looks up in
 * tables, or attends to. */
static enum base_status check_length(const struct sched_sequences *sequences, uint32_t r,
                                     int64_t steps, struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    const uint32_t over = cell_stream_over(model, steps);
    if (over < CELL_SEQUENCES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "the session has %" PRId64
                         " steps of row %u, where the model has a table of positions of %u",
                         steps, r, model->sequences[over].steps_max);
    }
    if (model->stream.steps_max > 0 && steps > (int64_t)model->stream.steps_max) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "the session has %" PRId64
                         " steps of row %u, at most %u, all of which the model attends to",
                         steps, r, model->stream.steps_max);
    }
    return BASE_OK;
}

/* What the stages take of row r. is_empty: of a request that brings no row any step. */
static enum base_status take_row(const struct sched_sequences *sequences, uint32_t r, bool is_empty,
                                 const struct sched_stream *stream, struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    int64_t before[CELL_STAGES_MAX];
    int64_t after[CELL_STAGES_MAX];
    const int64_t given = stream->given[r];
    const int64_t had = stream->given_before[r];
    if (stream->is_end && model->stream.counts) { // else any number of steps is a whole
        BASE_TRY(check_end(sequences, r, had + given, error));
    }
    BASE_TRY(check_length(sequences, r, had + given, error));
    cell_stream_steps(model, had, false, before);
    cell_stream_steps(model, had + given, stream->is_end, after);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const size_t at = (size_t)s * sequences->n_rows + r;
        stream->taken[at] = (uint32_t)(after[s] - before[s]);
        stream->taken_before[at] = before[s];
        if (model->stream.has_last[s] && (given > 0 || is_empty) && stream->taken[at] == 0) {
            return base_fail(
                error, BASE_INVALID_ARGUMENT,
                "%" PRId64 " steps behind %" PRId64
                " of the session, of which the model's strides and windows leave none, "
                "where it answers something of the last",
                given, had);
        }
    }
    return BASE_OK;
}

/* So many steps of each row are answered of a sequence. */
static void set_answered(struct sched_sequences *sequences, uint32_t sequence,
                         const uint32_t *steps, struct srv_extents *extents)
{
    sequences->steps[sequence] = steps;
    extents->steps[sequence] = 0;
    for (uint32_t r = 0; r < sequences->n_rows; r++) {
        const bool is_more = (int64_t)steps[r] > extents->steps[sequence];
        extents->steps[sequence] = is_more ? steps[r] : extents->steps[sequence];
    }
}

/* Of a request of a session: the steps that the stages take, which are those of what it answers. */
static enum base_status take_stream(struct srv_request *request, struct sched_sequences *sequences,
                                    struct srv_extents *extents, struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    const uint32_t n = sequences->n_rows;
    const size_t n_taken = (size_t)model->n_stages * n;
    const bool is_empty = extents->steps[model->stream.base] == 0;
    struct sched_stream *stream = base_arena_alloc(&request->arena, sizeof(*stream));
    struct sched_stream made = {
        .is_end = request->sequence.is_end,
        .given = sequences->steps[model->stream.base],
        .taken = base_arena_array(&request->arena, n_taken, sizeof(*made.taken)),
        .given_before = base_arena_array(&request->arena, n, sizeof(*made.given_before)),
        .taken_before = base_arena_array(&request->arena, n_taken, sizeof(*made.taken_before))};
    sequences->kept =
        base_arena_array(&request->arena, (size_t)model->n_histories * n, sizeof(const uint8_t *));
    if (stream == NULL || made.taken == NULL || made.given_before == NULL ||
        made.taken_before == NULL || sequences->kept == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    for (uint32_t r = 0; r < n; r++) {
        BASE_TRY(count_of(sequences, r, &made.given_before[r], error));
        BASE_TRY(take_row(sequences, r, is_empty, &made, error));
    }
    for (uint32_t s = 0; s < model->n_stages; s++) {
        if (model->stream.is_answered[s]) {
            set_answered(sequences, model->stages[s].sequence, &made.taken[(size_t)s * n], extents);
        }
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) { // labels have a sequence of their own
        const struct cell_source *source = &model->output_sources[o][0];
        if (model->outputs[o].time_axis >= 0 && source->kind == CELL_SOURCE_EACH &&
            model->stream.is_answered[source->stage]) {
            set_answered(sequences, model->outputs[o].sequence,
                         &made.taken[(size_t)source->stage * n], extents);
        }
    }
    *stream = made;
    sequences->stream = stream;
    return BASE_OK;
}

/* Of a decoder: how long an answer may be. */
static enum base_status take_decoding(struct srv_request *request,
                                      struct sched_sequences *sequences,
                                      struct srv_extents *extents, struct base_error *error)
{
    BASE_TRY(take_beam(request, sequences, extents, error));
    BASE_TRY(take_steps(request, sequences, extents, error));
    extents->steps[sequences->model->decoder.sequence] = sched_decoder_steps(sequences);
    sequences->decoders =
        base_arena_array(&request->arena, sequences->n_rows, sizeof(*sequences->decoders));
    return sequences->decoders != NULL
               ? BASE_OK
               : base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
}

enum base_status srv_validate(struct srv_request *request, const struct cell_model *model,
                              const struct srv_limits *limits, const struct srv_text_rows *rows,
                              struct sched_sequences *sequences, struct base_error *error)
{
    struct srv_extents extents = srv_extents_none();
    const bool is_part = model->stream.is_on && request->sequence.id != NULL;
    struct sched_tensor *inputs =
        base_arena_array(&request->arena, model->n_inputs, sizeof(*inputs));
    struct sched_tensor *outputs =
        base_arena_array(&request->arena, model->n_outputs, sizeof(*outputs));
    if (inputs == NULL || outputs == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    BASE_TRY(srv_tensors_known(request, model, error));
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        BASE_TRY(srv_tensor_take(request, &model->inputs[i], &extents, &inputs[i], error));
    }
    BASE_TRY(check_extents(&extents, limits, is_part && request->sequence.is_end, error));
    // A model without such an axis: one row, one step.
    extents.batch = extents.batch < 0 ? 1 : extents.batch;
    for (uint32_t q = 0; q < CELL_SEQUENCES_MAX; q++) {
        const uint32_t stated = model->sequences[q].stated; // which no input may have
        extents.steps[q] = extents.steps[q] >= 0 ? extents.steps[q] : stated > 0 ? stated : 1;
    }
    BASE_TRY(derive_extents(model, is_part, &extents, error));
    sequences->model = model;
    sequences->stream = NULL;
    sequences->kept = NULL;
    sequences->n_rows = (uint32_t)extents.batch;
    sequences->inputs = inputs;
    sequences->outputs = outputs;
    BASE_TRY(take_sequences(request, sequences, &extents, rows, is_part, error));
    BASE_TRY(check_told_steps(sequences, error));
    BASE_TRY(is_part ? take_stream(request, sequences, &extents, error) : BASE_OK);
    if (model->unfold == CELL_UNFOLD_SEQ2SEQ) {
        BASE_TRY(take_decoding(request, sequences, &extents, error));
    }
    BASE_TRY(srv_tensors_place(request, model, &extents, outputs, error));
    return model->labels.is_on
               ? srv_labels_place(request, sequences,
                                  (uint32_t)extents.steps[model->labels.sequence], outputs, error)
               : BASE_OK;
}
