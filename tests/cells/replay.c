/* See replay.h. Every stage keeps all its outputs of all steps; nothing is clever here. */
#include "tests/cells/replay.h"

#include "base/divide.h"
#include "base/mem.h"
#include "tests/cells/oracle.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

/* What a stage has made for one row of the batch. */
struct made {
    uint32_t steps;
    uint32_t taken;                    /* of a decoder: without the step that ended it */
    double *outputs[CELL_OUTPUTS_MAX]; /* [time, width], zeros behind the last step */
    double *states[CELL_STATES_MAX];   /* after the last step */
};

struct replay {
    const struct cell_model *model;
    const struct replay_tensor *inputs;
    int64_t batch, times[CELL_SEQUENCES_MAX]; /* of a decoder's answer: the longest */
    double start;                             /* a decoder's token */
    double *taken;                            /* [batch] steps of a decoder that are answered */
    struct made made[CELL_STAGES_MAX];
    /* Of a request of a session: steps before it and behind it, of the request's sequence and of
     * each stage. */
    bool is_part;
    int64_t given_before, given, before[CELL_STAGES_MAX], behind[CELL_STAGES_MAX];
};

static double *numbers(size_t count)
{
    double *data = base_alloc_array(count > 0 ? count : 1, sizeof(*data));
    ck_assert_ptr_nonnull(data);
    return data;
}

/* ---- Places in tensors -------------------------------------------------------------------- */

/* First element of the row at (b, t). What is turned has rows behind each other here. */
static size_t row_offset(const struct cell_tensor *shape, const int64_t *dims, int64_t b, int64_t t)
{
    size_t offset = 0;
    if (shape->is_turned) {
        const int64_t steps = shape->time_axis < 0 ? 1 : dims[shape->time_axis];
        return (size_t)(b * steps + t) * shape->width;
    }
    for (uint32_t k = 0; k < shape->rank; k++) {
        int64_t at = (int32_t)k == shape->batch_axis ? b : (int32_t)k == shape->time_axis ? t : 0;
        offset = offset * (size_t)dims[k] + (size_t)at;
    }
    return offset;
}

/* Elements from one piece of a row to the next. */
static size_t piece_stride(const struct cell_tensor *shape, const int64_t *dims)
{
    size_t stride = 1;
    if (shape->piece_axis < 0) {
        return shape->width / shape->pieces;
    }
    for (uint32_t k = (uint32_t)shape->piece_axis + 1; k < shape->rank; k++) {
        stride *= (size_t)dims[k];
    }
    return stride;
}

/* Elements in another order: [batch][time][all other axes] of those of the tensor, or back. */
static void turn(const struct cell_tensor *shape, const struct replay_tensor *tensor, bool is_back)
{
    const int64_t steps = shape->time_axis < 0 ? 1 : tensor->dims[shape->time_axis];
    double *turned = numbers(tensor->count);
    ck_assert_ptr_nonnull(tensor->data);
    for (size_t i = 0; i < tensor->count; i++) {
        int64_t b = 0;
        int64_t t = 0;
        size_t feature = 0;
        size_t weight = 1;
        size_t left = i;
        for (uint32_t k = shape->rank; k-- > 0;) {
            const int64_t at = (int64_t)(left % (size_t)tensor->dims[k]);
            left /= (size_t)tensor->dims[k];
            if ((int32_t)k == shape->batch_axis) {
                b = at;
            } else if ((int32_t)k == shape->time_axis) {
                t = at;
            } else {
                feature += weight * (size_t)at;
                weight *= (size_t)tensor->dims[k];
            }
        }
        const size_t row = (size_t)(b * steps + t) * shape->width + feature;
        turned[is_back ? i : row] = tensor->data[is_back ? row : i];
    }
    memcpy(tensor->data, turned, tensor->count * sizeof(*turned));
    base_free(turned);
}

/* is_whole: what follows from others has enough steps. */
static void read_sizes(struct replay *replay, bool is_whole)
{
    replay->batch = 1;
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        const uint32_t stated = replay->model->sequences[s].stated;
        replay->times[s] = stated > 0 ? stated : 1;
    }
    for (uint32_t i = 0; i < replay->model->n_inputs; i++) {
        const struct cell_tensor *shape = &replay->model->inputs[i];
        const struct replay_tensor *tensor = &replay->inputs[i];
        ck_assert_uint_eq(tensor->rank, shape->rank);
        for (uint32_t k = 0; k < shape->rank; k++) {
            ck_assert(shape->dims[k] == CELL_DIM_ANY || shape->dims[k] == tensor->dims[k]);
        }
        replay->batch = shape->batch_axis >= 0 ? tensor->dims[shape->batch_axis] : replay->batch;
        if (shape->time_axis >= 0) {
            replay->times[shape->sequence] = tensor->dims[shape->time_axis];
        }
    }
    for (uint32_t s = 0; s < replay->model->n_sequences; s++) {
        const struct cell_sequence *sequence = &replay->model->sequences[s];
        if (sequence->stride > 0) {
            const int64_t parts = cell_sequence_parts(sequence);
            const double reach = (double)(replay->times[sequence->source] * parts + sequence->add);
            const int64_t steps = (int64_t)floor(reach / sequence->stride) + 1;
            ck_assert(!is_whole || steps >= 0);
            ck_assert(!is_whole ||
                      cell_sequence_is_met(sequence, (uint32_t)replay->times[sequence->source],
                                           (uint32_t)steps));
            replay->times[s] = sequence->kept > 0 ? sequence->kept : steps;
        }
    }
}

/* Steps of row b of a sequence that has `time`, or fewer of rows whose length an input tells. */
static uint32_t told_length(const struct cell_model *model, const struct replay_tensor *inputs,
                            int64_t b, uint32_t sequence, int64_t time)
{
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (model->inputs[i].is_lengths && model->inputs[i].sequence == sequence) {
            ck_assert_ptr_nonnull(inputs[i].data);
            const double said = inputs[i].data[model->inputs[i].batch_axis < 0 ? 0 : b];
            const int64_t length = cell_told(model->inputs[i].told, (int64_t)said);
            ck_assert(length >= 0 && length <= time);
            return (uint32_t)length;
        }
    }
    return (uint32_t)time;
}

/* Steps that n of its source leave a sequence. */
static int64_t steps_left(const struct cell_sequence *sequence, int64_t n)
{
    const double reach = (double)(n * cell_sequence_parts(sequence) + sequence->add);
    return sequence->kept > 0 ? sequence->kept : (int64_t)floor(reach / sequence->stride) + 1;
}

static uint32_t length_of(const struct replay *replay, int64_t b, uint32_t sequence)
{
    uint32_t way[CELL_SEQUENCES_MAX];
    uint32_t n = 0;
    uint32_t s = sequence;
    while (replay->model->sequences[s].stride > 0) {
        way[n++] = s;
        s = replay->model->sequences[s].source;
    }
    int64_t length = told_length(replay->model, replay->inputs, b, s, replay->times[s]);
    while (n > 0) {
        length = steps_left(&replay->model->sequences[way[--n]], length);
        length = told_length(replay->model, replay->inputs, b, way[n], length);
    }
    return (uint32_t)length;
}

/* Steps of what a source has, or a stage takes. */
static int64_t steps_there(const struct replay *replay, const struct cell_source *source, int64_t b)
{
    const struct cell_model *model = replay->model;
    if (source->kind == CELL_SOURCE_JOIN) {
        return length_of(replay, b, model->joins[source->index].sequence);
    }
    if (source->kind == CELL_SOURCE_INPUT) {
        return replay->is_part ? replay->given
                               : length_of(replay, b, model->inputs[source->index].sequence);
    }
    return replay->is_part ? replay->behind[source->stage] - replay->before[source->stage]
                           : length_of(replay, b, model->stages[source->stage].sequence);
}

/* ---- Stages ------------------------------------------------------------------------------- */

/* The row a source has at step t of row b, but of a join; NULL: zeros. */
static const double *read_row(const struct replay *replay, const struct cell_source *source,
                              int64_t b, int64_t t)
{
    const struct made *made = &replay->made[source->stage];
    const struct cell_stage *stage = &replay->model->stages[source->stage];
    int64_t at = t;
    switch (source->kind) {
    case CELL_SOURCE_ZERO:
        return NULL;
    case CELL_SOURCE_INPUT: {
        const struct replay_tensor *tensor = &replay->inputs[source->index];
        const struct cell_tensor *shape = &replay->model->inputs[source->index];
        return tensor->data + row_offset(shape, tensor->dims, b, t) +
               source->piece * piece_stride(shape, tensor->dims);
    }
    case CELL_SOURCE_LAST_STATE:
        return made->states[source->index];
    case CELL_SOURCE_FIRST:
        at = 0;
        break;
    case CELL_SOURCE_LAST:
        at = made->steps == 0 ? 0 : (int64_t)made->steps - 1;
        break;
    case CELL_SOURCE_EACH:
        break;
    case CELL_SOURCE_START:
        return &replay->start;
    case CELL_SOURCE_TAKEN:
        return &replay->taken[b];
    case CELL_SOURCE_NUMBER: // see number_of()
    case CELL_SOURCE_JOIN:   // see read_source()
    case CELL_SOURCE_COUNT:  // see copy_row()
    case CELL_SOURCE_KEPT:
    case CELL_SOURCE_MEMORY:
        return NULL; // see set_memories()
    case CELL_SOURCE_CHILD:
        ck_abort_msg("a tree has no steps");
    }
    uint32_t width = stage->type->def.values[stage->type->def.outputs[source->index]].width;
    return made->outputs[source->index] + at * width;
}

static int64_t part_steps(const struct replay *replay, const struct cell_join_part *part, int64_t b)
{
    if (part->count > 0) {
        return part->count;
    }
    if (part->source.kind != CELL_SOURCE_INPUT) {
        return replay->made[part->source.stage].steps;
    }
    const uint32_t of = replay->model->inputs[part->source.index].sequence;
    return length_of(replay, b, of);
}

/* Step t of what is joined, part by part. */
static const double *read_join(const struct replay *replay, const struct cell_join *join, int64_t b,
                               int64_t t)
{
    for (uint32_t p = 0; p < join->n_parts; p++) {
        const struct cell_join_part *part = &join->parts[p];
        const int64_t n = part_steps(replay, part, b);
        if (t < n && part->count > 0) {
            return read_row(replay, &part->source, b, 0) + t * join->width;
        }
        if (t < n) {
            return read_row(replay, &part->source, b, part->is_turned ? n - 1 - t : t);
        }
        t -= n;
    }
    ck_abort_msg("a join has fewer steps than its sequence");
    return NULL;
}

static const double *read_source(const struct replay *replay, const struct cell_source *source,
                                 int64_t b, int64_t t)
{
    return source->kind == CELL_SOURCE_JOIN
               ? read_join(replay, &replay->model->joins[source->index], b, t)
               : read_row(replay, source, b, t);
}

/* Row `at`, below 0, of what a session has of the steps before; NULL: zeros. */
static const double *read_history(const struct replay *replay, const struct cell_history *history,
                                  int64_t b, int64_t at)
{
    const int64_t place = (int64_t)history->steps + at;
    const struct cell_tensor *shape = &replay->model->inputs[history->input];
    const int64_t row = shape->batch_axis < 0 ? 0 : b;
    return place < 0 ? NULL
                     : replay->inputs[history->input].data +
                           (size_t)(row * (int64_t)history->steps + place) * history->width;
}

/* Of a request of a session: steps of an INPUT or an EACH in those before. */
static int64_t steps_before(const struct replay *replay, const struct cell_source *source)
{
    return source->kind == CELL_SOURCE_INPUT ? replay->given_before : replay->before[source->stage];
}

/* The rows of a window, zeros beyond the ends, to the oracle's value. */
static void set_window(const struct replay *replay, const struct cell_stage *stage, uint32_t input,
                       int64_t b, int64_t t, struct oracle *oracle)
{
    const struct cell_source *source = &stage->inputs[input];
    const uint32_t width = oracle->def->values[input].width / source->count;
    const int64_t steps = steps_there(replay, source, b);
    const int64_t parts = cell_source_parts(source);
    int64_t first = t * source->stride + source->offset + (source->is_from_end ? steps : 0);
    ck_assert(!source->is_from_end || first >= 0);
    if (replay->is_part && stage->kind != CELL_STAGE_ONCE) {
        const int64_t own = replay->before[stage - replay->model->stages];
        first += own * source->stride - steps_before(replay, source) * parts;
    }
    if (source->by > 0) {
        const struct replay_tensor *tensor = &replay->inputs[source->by - 1];
        const struct cell_tensor *shape = &replay->model->inputs[source->by - 1];
        const struct cell_told told = {.add = source->offset, .over = shape->told.over};
        first = cell_told(told, (int64_t)tensor->data[row_offset(shape, tensor->dims, b, 0)]);
        first = source->is_clipped && first < 0 ? 0 : first;
        first = source->is_ended && first >= steps ? steps - 1 : first;
        ck_assert(first >= 0 && first < steps);
    }
    const struct cell_history *history =
        replay->is_part ? cell_model_history(replay->model, source) : NULL;
    for (uint32_t i = 0; i < source->count; i++) {
        const int64_t at = first + i;
        double *to = oracle->values[input] + (size_t)i * width;
        memset(to, 0, width * sizeof(*to));
        const int64_t place = base_floor_divide(at, parts);
        const double *row = NULL;
        ck_assert(source->parts == 0 || (place >= 0 && place < steps) || history != NULL);
        if (place >= 0 && place < steps) {
            row = read_source(replay, source, b, place);
        } else if (place < 0 && history != NULL) {
            row = read_history(replay, history, b, place);
            ck_assert_ptr_nonnull(row);
        }
        if (row != NULL) {
            memcpy(to, row + (size_t)(at - place * parts) * width, width * sizeof(*to));
        }
    }
}

static void set_value(struct oracle *oracle, uint32_t v, const double *row)
{
    if (row == NULL) {
        memset(oracle->values[v], 0, oracle->def->values[v].width * sizeof(*row));
    } else {
        memcpy(oracle->values[v], row, oracle->def->values[v].width * sizeof(*row));
    }
}

/* Steps that the stage takes at most. */
static uint32_t steps_of(const struct replay *replay, const struct cell_stage *stage, int64_t b)
{
    switch (stage->kind) {
    case CELL_STAGE_ONCE:
        return 1;
    case CELL_STAGE_DECODER:
        return replay->model->decoder.steps_max;
    case CELL_STAGE_EACH:
    case CELL_STAGE_CHAIN:
        break;
    }
    return (uint32_t)steps_there(
        replay,
        &(struct cell_source){.kind = CELL_SOURCE_EACH,
                              .stage = (uint32_t)(stage - replay->model->stages)},
        b);
}

static bool has_ended(const struct replay *replay, const struct cell_stage *stage,
                      const struct oracle *oracle)
{
    const struct cell_decoder *decoder = &replay->model->decoder;
    const uint32_t value = stage->type->def.n_inputs + decoder->end.state;
    return stage->kind == CELL_STAGE_DECODER && decoder->has_end &&
           oracle->values[value][0] == (double)decoder->end.id;
}

/* Of a request of a session: the first step that one of the stage's attends to, of the session. */
static int64_t first_attended(const struct replay *replay, uint32_t s)
{
    const struct cell_attended *attended = &replay->model->stream.attends[s];
    const int64_t first = attended->is_on ? replay->before[s] + attended->from : 0;
    return first > 0 ? first : 0;
}

/* The number of step t, as the source counts. */
static double number_of(const struct replay *replay, uint32_t s, const struct cell_source *source,
                        int64_t t)
{
    const bool of_attended = source->index == CELL_NUMBER_ATTENDED;
    const int64_t first = of_attended ? first_attended(replay, s) : 0;
    return (double)(replay->is_part ? replay->before[s] + t - first : t);
}

/* All rows of what a stage attends to; the copies are the oracle's user's to free. */
static void set_memories(const struct replay *replay, uint32_t s, int64_t b, struct oracle *oracle,
                         double *copies[CELL_INPUTS_MAX])
{
    const struct cell_stage *stage = &replay->model->stages[s];
    for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
        copies[i] = NULL;
        if (stage->inputs[i].kind != CELL_SOURCE_MEMORY) {
            continue;
        }
        const struct cell_source *part = &stage->inputs[i];
        const struct cell_memory *memory = &replay->model->memories[part->index];
        const uint32_t width = part->count > 0 ? part->count : memory->width;
        const uint32_t piece = memory->width / memory->pieces;
        const struct cell_source *first = &memory->sources[0];
        const bool is_part = replay->is_part && stage->kind != CELL_STAGE_DECODER;
        const int64_t from = is_part ? first_attended(replay, s) - steps_before(replay, first) : 0;
        const int64_t there = replay->is_part ? steps_there(replay, first, b)
                                              : length_of(replay, b, memory->sequence);
        const uint32_t n = (uint32_t)(there - from);
        oracle->n_rows[i] = n;
        copies[i] = numbers((size_t)n * memory->width);
        ck_assert_uint_le((uint32_t)part->offset + width, memory->width);
        for (uint32_t t = 0; t < n; t++) {
            for (uint32_t p = 0; p < memory->pieces; p++) {
                const struct cell_source *source = &memory->sources[p];
                const double *row =
                    t + from < 0 ? read_history(replay, cell_model_history(replay->model, source),
                                                b, t + from)
                                 : read_source(replay, source, b, t + from);
                memcpy(copies[i] + (size_t)t * memory->width + (size_t)p * piece, row,
                       piece * sizeof(double));
            }
        }
        for (uint32_t t = 0; t < n; t++) { // a part of each row, behind each other
            memmove(copies[i] + (size_t)t * width,
                    copies[i] + (size_t)t * memory->width + part->offset, width * sizeof(double));
        }
        oracle->rows[i] = copies[i];
    }
}

/* The states before the first step: what a session brings, if it does. */
static void set_init(const struct replay *replay, const struct cell_stage *stage, int64_t b,
                     struct oracle *oracle)
{
    const struct cell_def *def = &stage->type->def;
    for (uint32_t i = 0; i < def->n_states; i++) {
        const uint32_t resumed = stage->resumes[i];
        const struct cell_source given = {.kind = CELL_SOURCE_INPUT, .index = resumed - 1};
        const bool is_given = resumed > 0 && replay->inputs[resumed - 1].data != NULL;
        set_value(oracle, def->n_inputs + i,
                  read_source(replay, is_given ? &given : &stage->init[i], b, 0));
    }
}

static void run_stage(struct replay *replay, uint32_t s, int64_t b)
{
    const struct cell_stage *stage = &replay->model->stages[s];
    const struct cell_def *def = &stage->type->def;
    struct made *made = &replay->made[s];
    struct oracle oracle;
    oracle_init(&oracle, def);
    double *copies[CELL_INPUTS_MAX] = {NULL};
    set_memories(replay, s, b, &oracle, copies);
    made->steps = steps_of(replay, stage, b);
    made->taken = made->steps;
    set_init(replay, stage, b, &oracle);
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        const size_t time = stage->kind == CELL_STAGE_DECODER ? made->steps
                            : replay->is_part                 ? made->steps
                                              : (size_t)replay->times[stage->sequence];
        made->outputs[o] = numbers(time * def->values[def->outputs[o]].width);
    }
    for (uint32_t n = 0; n < made->steps; n++) {
        const uint32_t t = stage->is_reverse ? made->steps - 1 - n : n;
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            if (stage->inputs[i].count > 0 && stage->inputs[i].kind != CELL_SOURCE_MEMORY) {
                set_window(replay, stage, i, b, t, &oracle);
            } else if (stage->inputs[i].kind == CELL_SOURCE_NUMBER) {
                const double number = number_of(replay, s, &stage->inputs[i], t);
                set_value(&oracle, i, &number);
            } else {
                set_value(&oracle, i, read_source(replay, &stage->inputs[i], b, t));
            }
        }
        oracle_step(&oracle);
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            uint32_t v = def->outputs[o];
            uint32_t width = def->values[v].width;
            memcpy(made->outputs[o] + (size_t)t * width, oracle.values[v], width * sizeof(double));
        }
        oracle_advance(&oracle);
        if (has_ended(replay, stage, &oracle)) {
            made->taken = n;
            made->steps = n + 1;
        }
    }
    for (uint32_t i = 0; i < def->n_states; i++) {
        uint32_t width = def->values[def->n_inputs + i].width;
        made->states[i] = numbers(width);
        memcpy(made->states[i], oracle.values[def->n_inputs + i], width * sizeof(double));
    }
    oracle_release(&oracle);
    for (uint32_t i = 0; i < CELL_INPUTS_MAX; i++) {
        base_free(copies[i]);
    }
}

static void free_made(struct replay *replay)
{
    for (uint32_t s = 0; s < replay->model->n_stages; s++) {
        for (uint32_t i = 0; i < CELL_OUTPUTS_MAX; i++) {
            base_free(replay->made[s].outputs[i]);
        }
        for (uint32_t i = 0; i < CELL_STATES_MAX; i++) {
            base_free(replay->made[s].states[i]);
        }
        replay->made[s] = (struct made){.steps = 0};
    }
}

/* ---- Outputs ------------------------------------------------------------------------------ */

static void make_outputs(const struct replay *replay, struct replay_tensor *outputs)
{
    for (uint32_t o = 0; o < replay->model->n_outputs; o++) {
        const struct cell_tensor *shape = &replay->model->outputs[o];
        outputs[o] = (struct replay_tensor){.rank = shape->rank, .count = 1};
        for (uint32_t k = 0; k < shape->rank; k++) {
            int64_t size = (int32_t)k == shape->batch_axis  ? replay->batch
                           : (int32_t)k == shape->time_axis ? replay->times[shape->sequence]
                                                            : shape->dims[k];
            ck_assert(shape->dims[k] == CELL_DIM_ANY || shape->dims[k] == size);
            outputs[o].dims[k] = size;
            outputs[o].count *= (size_t)size;
        }
        outputs[o].data = numbers(outputs[o].count);
    }
}

/* The last steps of those before and the request's own. */
static void copy_history(const struct replay *replay, const struct cell_history *history, int64_t b,
                         double *to)
{
    const int64_t steps = steps_there(replay, &history->source, b);
    for (uint32_t i = 0; i < history->steps; i++) {
        const int64_t at = steps - history->steps + i;
        const double *row = at < 0 ? read_history(replay, history, b, at)
                                   : read_row(replay, &history->source, b, at);
        ck_assert_ptr_nonnull(row);
        memcpy(to + (size_t)i * history->width, row, history->width * sizeof(*to));
    }
}

static void copy_row(const struct replay *replay, uint32_t output, const struct replay_tensor *to,
                     int64_t b, int64_t t)
{
    const struct cell_tensor *shape = &replay->model->outputs[output];
    const struct cell_source *source = &replay->model->output_sources[output][0];
    if (source->kind == CELL_SOURCE_COUNT) {
        to->data[row_offset(shape, to->dims, b, t)] =
            (double)(replay->given_before + replay->given);
        return;
    }
    if (source->kind == CELL_SOURCE_KEPT) {
        copy_history(replay, &replay->model->histories[source->index], b,
                     to->data + row_offset(shape, to->dims, b, t));
        return;
    }
    for (uint32_t p = 0; p < shape->pieces; p++) {
        const double *row = read_source(replay, &replay->model->output_sources[output][p], b, t);
        ck_assert_ptr_nonnull(row);
        ck_assert_ptr_nonnull(to->data);
        memcpy(to->data + row_offset(shape, to->dims, b, t) + p * piece_stride(shape, to->dims),
               row, shape->width / shape->pieces * sizeof(double));
    }
}

static void copy_outputs(const struct replay *replay, struct replay_tensor *outputs, int64_t b)
{
    for (uint32_t o = 0; o < replay->model->n_outputs; o++) {
        const struct cell_tensor *shape = &replay->model->outputs[o];
        int64_t steps = shape->time_axis >= 0 ? replay->times[shape->sequence] : 1;
        ck_assert_ptr_nonnull(outputs[o].data);
        for (int64_t t = 0; t < steps; t++) {
            if (shape->time_axis < 0 || replay->taken == NULL || (double)t < replay->taken[b]) {
                copy_row(replay, o, &outputs[o], b, t);
            } else if (o == replay->model->decoder.token_output) {
                outputs[o].data[row_offset(shape, outputs[o].dims, b, t)] =
                    (double)replay->model->decoder.end.id;
            }
        }
    }
}

/* Runs a decoder's requests once before, for the length of the answer. */
static void find_lengths(struct replay *replay)
{
    const struct cell_model *model = replay->model;
    const struct cell_decoder *decoder = &model->decoder;
    const struct cell_stage *stage = &model->stages[decoder->stage];
    replay->taken = numbers((size_t)replay->batch);
    int64_t *longest = &replay->times[decoder->sequence];
    *longest = 0;
    for (uint32_t s = 0; s < stage->type->def.n_states; s++) {
        if (stage->init[s].kind == CELL_SOURCE_START) {
            replay->start = (double)cell_integer_at(
                stage->type->def.values[stage->type->def.n_inputs + s].dtype, decoder->start);
        }
    }
    for (int64_t b = 0; b < replay->batch; b++) {
        for (uint32_t s = 0; s < model->n_stages; s++) {
            run_stage(replay, s, b);
        }
        const int64_t taken = replay->made[decoder->stage].taken;
        replay->taken[b] = (double)taken;
        *longest = taken > *longest ? taken : *longest;
        free_made(replay);
    }
}

struct replay_tensor replay_tensor_random(uint32_t rank, const int64_t *dims,
                                          struct base_random *random)
{
    struct replay_tensor made = {.rank = rank, .count = 1};
    for (uint32_t k = 0; k < rank; k++) {
        made.dims[k] = dims[k];
        made.count *= (size_t)dims[k];
    }
    made.data = base_alloc_array(made.count, sizeof(*made.data));
    ck_assert_ptr_nonnull(made.data);
    for (size_t i = 0; i < made.count && random != NULL; i++) {
        made.data[i] = (double)base_random_f32(random, -1.0f, 1.0f);
    }
    return made;
}

/* All steps that the request has, where it is one of a session. */
static void set_part(struct replay *replay, bool is_end)
{
    const struct cell_model *model = replay->model;
    replay->is_part = true;
    replay->given = replay->times[model->stream.base];
    if (model->stream.counts) {
        replay->given_before = (int64_t)replay->inputs[model->stream.count_input].data[0];
    }
    cell_stream_steps(model, replay->given_before, false, replay->before);
    cell_stream_steps(model, replay->given_before + replay->given, is_end, replay->behind);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        if (model->stream.is_answered[s]) {
            replay->times[model->stages[s].sequence] = replay->behind[s] - replay->before[s];
        }
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        const struct cell_source *source = &model->output_sources[o][0];
        if (model->outputs[o].time_axis >= 0 && source->kind == CELL_SOURCE_EACH) {
            replay->times[model->outputs[o].sequence] =
                replay->behind[source->stage] - replay->before[source->stage];
        }
    }
}

static void run(struct replay *replay, struct replay_tensor *outputs)
{
    const struct cell_model *model = replay->model;
    const struct replay_tensor *inputs = replay->inputs;
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (model->inputs[i].is_turned) {
            turn(&model->inputs[i], &inputs[i], false);
        }
    }
    if (model->unfold == CELL_UNFOLD_SEQ2SEQ) {
        find_lengths(replay);
    }
    make_outputs(replay, outputs);
    for (int64_t b = 0; b < replay->batch; b++) {
        for (uint32_t s = 0; s < model->n_stages; s++) {
            run_stage(replay, s, b);
        }
        copy_outputs(replay, outputs, b);
        free_made(replay);
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (model->inputs[i].is_turned) { // they are the caller's
            turn(&model->inputs[i], &inputs[i], true);
        }
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        if (model->outputs[o].is_turned) {
            turn(&model->outputs[o], &outputs[o], true);
        }
    }
    base_free(replay->taken);
}

void replay_run(const struct cell_model *model, const struct replay_tensor *inputs,
                struct replay_tensor *outputs)
{
    struct replay replay = {.model = model, .inputs = inputs};
    read_sizes(&replay, true);
    run(&replay, outputs);
}

void replay_run_part(const struct cell_model *model, const struct replay_tensor *inputs,
                     bool is_end, struct replay_tensor *outputs)
{
    struct replay replay = {.model = model, .inputs = inputs};
    read_sizes(&replay, !model->stream.is_on);
    if (model->stream.is_on) {
        set_part(&replay, is_end);
    }
    run(&replay, outputs);
}

/* ---- Golden files ------------------------------------------------------------------------- */

static struct replay_tensor read_tensor(const json_t *tensors, const char *name)
{
    const json_t *found = json_is_object(tensors) ? json_object_get(tensors, name) : NULL;
    for (size_t i = 0; json_is_array(tensors) && i < json_array_size(tensors); i++) {
        const json_t *entry = json_array_get(tensors, i);
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0) {
            found = entry;
        }
    }
    ck_assert_msg(found != NULL, "no golden tensor %s", name);
    const json_t *shape = json_object_get(found, "shape");
    const json_t *data = json_object_get(found, "data");
    struct replay_tensor tensor = {.rank = (uint32_t)json_array_size(shape)};
    for (uint32_t k = 0; k < tensor.rank; k++) {
        tensor.dims[k] = json_integer_value(json_array_get(shape, k));
    }
    tensor.count = json_array_size(data);
    tensor.data = numbers(tensor.count);
    for (size_t i = 0; i < tensor.count; i++) {
        tensor.data[i] = json_number_value(json_array_get(data, i));
    }
    return tensor;
}

/* Are the elements from `offset` on behind the end of their row's sequence? */
static bool is_padding(const struct cell_model *model, const struct replay_tensor *inputs,
                       const struct cell_tensor *shape, const int64_t *dims, size_t offset)
{
    int64_t place[CELL_RANK_MAX] = {0};
    for (uint32_t k = shape->rank; k-- > 0;) {
        place[k] = (int64_t)(offset % (size_t)dims[k]);
        offset /= (size_t)dims[k];
    }
    if (shape->time_axis < 0 || shape->batch_axis < 0) {
        return false;
    }
    int64_t time = dims[shape->time_axis];
    return place[shape->time_axis] >=
           (int64_t)told_length(model, inputs, place[shape->batch_axis], shape->sequence, time);
}

static void compare(const struct cell_model *model, const struct replay_tensor *inputs, uint32_t o,
                    const struct replay_tensor *got, const struct replay_tensor *wanted,
                    const char *what)
{
    const struct cell_tensor *shape = &model->outputs[o];
    ck_assert_msg(got->rank == wanted->rank && got->count == wanted->count, "%s: %s: shape", what,
                  shape->name);
    for (uint32_t k = 0; k < got->rank; k++) {
        ck_assert_msg(got->dims[k] == wanted->dims[k], "%s: %s: axis %u", what, shape->name, k);
    }
    for (size_t i = 0; i < got->count; i++) {
        ck_assert_msg(is_padding(model, inputs, shape, got->dims, i) ||
                          util_is_close(got->data[i], wanted->data[i], 1e-5, 0),
                      "%s: %s[%zu] is %.9g, wanted %.9g", what, shape->name, i, got->data[i],
                      wanted->data[i]);
    }
}

void replay_golden(const struct cell_model *model, const json_t *golden_case, const char *what)
{
    struct replay_tensor inputs[CELL_TENSORS_MAX] = {{.rank = 0}};
    struct replay_tensor outputs[CELL_TENSORS_MAX] = {{.rank = 0}};
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        inputs[i] = read_tensor(json_object_get(golden_case, "inputs"), model->inputs[i].name);
    }
    replay_run(model, inputs, outputs);
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        struct replay_tensor wanted =
            read_tensor(json_object_get(golden_case, "outputs"), model->outputs[o].name);
        compare(model, inputs, o, &outputs[o], &wanted, what);
        base_free(wanted.data);
        base_free(outputs[o].data);
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        base_free(inputs[i].data);
    }
}
