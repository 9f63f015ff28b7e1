/* The unfold program `chain`: one node per stage and row of the batch axis, of a decoder too; one
 * for all rows of a stage that they share.
 *
 * A value that a later stage reads at every step is spilled to request memory, [steps, width], and
 * the reader waits for all of it; a value read once (last step, or of a ONCE stage) goes through a
 * value row. Thread: loop thread. Cost: O(rows x stages x inputs). */
#include "scheduler/unfold.h"

#include "scheduler/unfold_rows.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

/* One emit more of a stage, if the source is of one. */
static void count_emit(struct sched__unfolding *u, const struct cell_source *source)
{
    u->emits_max[source->stage] += cell_source_is_of_stage(source) ? 1 : 0;
}

/* Each stage emits its piece of a memory, and its part of a join, once. */
static void count_shared_emits(struct sched__unfolding *u)
{
    const struct cell_model *model = u->sequences->model;
    for (uint32_t m = 0; m < model->n_memories; m++) {
        for (uint32_t p = 0; p < model->memories[m].pieces; p++) {
            count_emit(u, &model->memories[m].sources[p]);
        }
    }
    for (uint32_t j = 0; j < model->n_joins; j++) {
        for (uint32_t p = 0; p < model->joins[j].n_parts; p++) {
            count_emit(u, &model->joins[j].parts[p].source);
        }
    }
}

/* How many nodes a reader of the source waits for at most. */
static uint32_t count_waits(const struct cell_model *model, const struct cell_source *source)
{
    if (source->kind == CELL_SOURCE_MEMORY) {
        return model->memories[source->index].pieces;
    }
    if (source->kind == CELL_SOURCE_JOIN) {
        return model->joins[source->index].n_parts;
    }
    return cell_source_is_of_stage(source) ? 1 : 0;
}

/* Counts how often each stage is read: a bound of its emits, and in sum of values and edges. */
static uint32_t count_reads(struct sched__unfolding *u)
{
    const struct cell_model *model = u->sequences->model;
    uint32_t reads = 0;
    memset(u->emits_max, 0, sizeof(u->emits_max));
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            count_emit(u, &stage->inputs[i]);
            reads += count_waits(model, &stage->inputs[i]);
        }
        for (uint32_t i = 0; i < stage->type->def.n_states; i++) {
            count_emit(u, &stage->init[i]);
            reads += count_waits(model, &stage->init[i]);
            // What rows without a step begin with is answered too.
            u->emits_max[stage->init[i].stage] += stage->resumes[i] > 0 ? u->sequences->n_rows : 0;
        }
    }
    count_shared_emits(u);
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        for (uint32_t p = 0; p < model->outputs[o].pieces; p++) {
            count_emit(u, &model->output_sources[o][p]);
        }
    }
    return reads;
}

/* When what a stage has at one end of the sequence is made. */
static enum cell_emit_when when_made(const struct sched__unfolding *u,
                                     const struct cell_source *source)
{
    const bool is_reverse = u->sequences->model->stages[source->stage].is_reverse;
    bool is_first = (source->kind == CELL_SOURCE_FIRST && !is_reverse) ||
                    (source->kind == CELL_SOURCE_LAST && is_reverse);
    return is_first ? CELL_EMIT_FIRST : CELL_EMIT_LAST;
}

/* The value row that keeps such an output, or a stage's last state, made on first use. */
static sched_value_id value_of(struct sched__unfolding *u, const struct cell_source *source)
{
    struct sched__row_state *row = sched__state_of(u, source->stage);
    bool is_state = source->kind == CELL_SOURCE_LAST_STATE;
    sched_value_id *value = is_state ? &row->states[source->stage][source->index]
                            : source->kind == CELL_SOURCE_FIRST
                                ? &row->firsts[source->stage][source->index]
                                : &row->outputs[source->stage][source->index];
    if (*value == SCHED_NONE) {
        *value = sched_builder_value(&u->builder, row->nodes[source->stage],
                                     is_state ? CELL_EMIT_STATE : CELL_EMIT_OUTPUT,
                                     when_made(u, source), source->index);
    }
    return *value;
}

/* In a session: where all ends that a stage attends to. Keys may be further than values are, and
 * both have to be as many. */
static int64_t end_of_attended(const struct sched__unfolding *u, const struct cell_stage *stage)
{
    const struct cell_model *model = u->sequences->model;
    int64_t end = INT64_MAX;
    for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
        if (stage->inputs[i].kind == CELL_SOURCE_MEMORY) {
            const struct cell_source *source = &model->memories[stage->inputs[i].index].sources[0];
            const int64_t there = sched__steps_before(u, source) + sched__steps_there(u, source);
            end = there < end ? there : end;
        }
    }
    return end;
}

/* In a session: of what a stage attends to, the rows from the earliest on that one of its steps
 * needs. */
static void bind_attended(struct sched__unfolding *u, uint32_t s, uint32_t input)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_source *part = &model->stages[s].inputs[input];
    const struct cell_source *source = &model->memories[part->index].sources[0];
    const sched_node_id node = sched__node_of(u, s);
    size_t stride = 0;
    const uint8_t *rows = source->kind == CELL_SOURCE_INPUT
                              ? sched__padded_of(u, source, &stride)
                              : sched__spill_of(u, source->stage, source->index, &stride);
    if (rows == NULL) {
        return;
    }
    if (source->kind == CELL_SOURCE_EACH && sched__node_of(u, source->stage) != SCHED_NONE) {
        sched_builder_after(&u->builder, node, sched__node_of(u, source->stage));
    }
    const int64_t first = sched__first_attended(u, &model->stages[s]);
    const int64_t earlier = sched__steps_before(u, source) - first;
    const int64_t steps = end_of_attended(u, &model->stages[s]) - first;
    base_assert(earlier >= 0 && steps > 0 && steps <= UINT32_MAX);
    sched_builder_input_rows(&u->builder, node, input,
                             rows - earlier * (int64_t)stride +
                                 (size_t)part->offset * sizeof(float),
                             (int64_t)stride, (uint32_t)steps);
}

/* What a cell attends to; of a sequence without steps nothing. */
static void bind_memory(struct sched__unfolding *u, const struct cell_source *part,
                        sched_node_id node, uint32_t input)
{
    const struct cell_memory *memory = &u->sequences->model->memories[part->index];
    const size_t skipped = (size_t)part->offset * sizeof(float);
    const struct cell_source *source = &memory->sources[0];
    const uint32_t steps = sched__memory_steps(u, memory);
    if (steps == 0) {
        return;
    }
    if (source->kind == CELL_SOURCE_INPUT) {
        const struct sched_tensor *tensor = &u->sequences->inputs[source->index];
        if (tensor->data != NULL) {
            sched_builder_input_rows(&u->builder, node, input,
                                     sched__piece_of(tensor, u->own->row, source->piece) + skipped,
                                     tensor->step_bytes, steps);
        }
        return;
    }
    const uint8_t *rows = sched__memory_of(u, part->index);
    if (rows == NULL) {
        return;
    }
    for (uint32_t p = 0; p < memory->pieces; p++) {
        sched_builder_after(&u->builder, node, sched__node_of(u, memory->sources[p].stage));
    }
    sched_builder_input_rows(&u->builder, node, input, rows + skipped,
                             (int64_t)memory->width * (int64_t)sizeof(float), steps);
}

/* The node waits for all parts of the join. */
static void wait_for_parts(struct sched__unfolding *u, sched_node_id node, uint32_t number)
{
    const struct cell_join *join = &u->sequences->model->joins[number];
    for (uint32_t p = 0; p < join->n_parts; p++) {
        const struct cell_source *source = &join->parts[p].source;
        if (cell_source_is_of_stage(source) && sched__node_of(u, source->stage) != SCHED_NONE) {
            sched_builder_after(&u->builder, node, sched__node_of(u, source->stage));
        }
    }
}

static void bind_join(struct sched__unfolding *u, uint32_t s, uint32_t input)
{
    const struct cell_stage *stage = &u->sequences->model->stages[s];
    const uint32_t number = stage->inputs[input].index;
    const sched_node_id node = sched__node_of(u, s);
    size_t stride = 0;
    const uint8_t *made = sched__join_of(u, number, &stride);
    if (made != NULL) {
        const struct cell_ref rows =
            sched__rows_for(stage, made, (int64_t)stride, sched__steps_of(u, stage));
        wait_for_parts(u, node, number);
        sched_builder_input_host(&u->builder, node, input, rows.host, rows.stride_bytes);
    }
}

/* The step that an input says; false where there is none such, which no checked request asks for.
 */
static bool told_step(struct sched__unfolding *u, const struct cell_source *source, int64_t *out)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_tensor *tensor = &model->inputs[source->by - 1];
    const struct sched_tensor *given = &u->sequences->inputs[source->by - 1];
    const int64_t said =
        given->data == NULL
            ? 0
            : cell_integer_at(tensor->dtype, sched__piece_of(given, u->own->row, 0));
    const int64_t steps = sched__steps_there(u, source);
    const bool is_small = said >= -(int64_t)INT32_MAX && said <= INT32_MAX;
    const struct cell_told told = {.add = source->offset, .over = tensor->told.over};
    *out = is_small ? cell_told(told, said) : -1;
    *out = source->is_clipped && is_small && *out < 0 ? 0 : *out;
    *out = source->is_ended && *out >= steps ? steps - 1 : *out;
    return *out >= 0 && *out < steps;
}

/* In a session: how far the reader's first step is from that of what it reads, which may have been
 * further when the request came. */
static int64_t steps_behind(const struct sched__unfolding *u, uint32_t s,
                            const struct cell_source *source)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_stage *stage = &model->stages[s];
    const struct sched_stream *stream = u->sequences->stream;
    if (stream == NULL || stage->kind == CELL_STAGE_ONCE) {
        return 0;
    }
    const int64_t parts = cell_source_parts(source);
    return stream->taken_before[sched__place_of(u, stage)] * source->stride -
           sched__steps_before(u, source) * parts;
}

/* What has no steps itself reads some of a number that the model states. Of rows that are parted,
 * stride is that of a part. */
static void bind_window(struct sched__unfolding *u, uint32_t s, uint32_t input)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_stage *stage = &model->stages[s];
    const struct cell_source *source = &stage->inputs[input];
    const sched_node_id node = sched__node_of(u, s);
    size_t stride = 0;
    const uint8_t *rows = NULL;
    if (source->kind == CELL_SOURCE_INPUT && u->sequences->inputs[source->index].data == NULL &&
        sched__history_of(u, source) == NULL) {
        return; // reads zeros
    }
    const bool is_made =
        !cell_source_is_of_stage(source) || sched__node_of(u, source->stage) != SCHED_NONE;
    if (!is_made && sched__history_of(u, source) == NULL) {
        return; // what has no step is zeros too
    }
    if (source->kind == CELL_SOURCE_INPUT) {
        rows = sched__padded_of(u, source, &stride);
    } else if (source->kind == CELL_SOURCE_JOIN) {
        rows = sched__join_of(u, source->index, &stride);
        wait_for_parts(u, node, source->index);
    } else {
        rows = sched__spill_of(u, source->stage, source->index, &stride);
        if (is_made) {
            sched_builder_after(&u->builder, node, sched__node_of(u, source->stage));
        }
    }
    const uint32_t parts = cell_source_parts(source);
    const int64_t steps = (int64_t)sched__steps_there(u, source) * parts;
    int64_t offset = source->offset + (source->is_from_end ? steps : steps_behind(u, s, source));
    stride /= parts;
    // What no checked request asks for reads zeros.
    const int64_t most = steps + model->reach;
    const bool is_there =
        stage->kind != CELL_STAGE_ONCE || source->by > 0 ||
        (offset >= -(int64_t)model->reach && offset + (int64_t)source->count <= most);
    if (rows != NULL && is_there && (source->by == 0 || told_step(u, source, &offset))) {
        const struct cell_ref refs = sched__rows_for(
            stage, rows, (int64_t)(source->stride * stride), sched__steps_of(u, stage));
        sched_builder_input_host(&u->builder, node, input, refs.host + offset * (int64_t)stride,
                                 refs.stride_bytes);
    }
}

static void bind_numbers(struct sched__unfolding *u, const struct cell_stage *stage,
                         sched_node_id node, uint32_t input)
{
    const bool of_attended = stage->inputs[input].index == CELL_NUMBER_ATTENDED;
    const int64_t *numbers = u->sequences->stream == NULL
                                 ? sched__numbers_of(u, stage->sequence)
                                 : sched__numbers_in(u, stage, of_attended);
    if (numbers != NULL) {
        const struct cell_ref rows = sched__rows_for(stage, (const uint8_t *)numbers,
                                                     sizeof(*numbers), sched__steps_of(u, stage));
        sched_builder_input_host(&u->builder, node, input, rows.host, rows.stride_bytes);
    }
}

/* The stage reads each step of another, which it may follow if both go the same way. */
static void read_steps(struct sched__unfolding *u, uint32_t s, uint32_t from)
{
    const struct cell_stage *stage = &u->sequences->model->stages[s];
    const struct cell_stage *producer = &u->sequences->model->stages[from];
    if (stage->kind == CELL_STAGE_CHAIN && producer->kind == CELL_STAGE_CHAIN &&
        stage->sequence == producer->sequence && stage->is_reverse == producer->is_reverse) {
        sched_builder_after_each(&u->builder, sched__node_of(u, s), sched__node_of(u, from));
    } else {
        sched_builder_after(&u->builder, sched__node_of(u, s), sched__node_of(u, from));
    }
}

static void bind_input(struct sched__unfolding *u, uint32_t s, uint32_t input)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_source *source = &model->stages[s].inputs[input];
    const struct cell_stage *stage = &model->stages[s];
    const sched_node_id node = sched__node_of(u, s);
    if (source->kind == CELL_SOURCE_MEMORY) {
        if (u->sequences->stream != NULL && stage->kind != CELL_STAGE_DECODER) {
            bind_attended(u, s, input);
        } else {
            bind_memory(u, source, node, input);
        }
        return;
    }
    if (source->kind == CELL_SOURCE_NUMBER) {
        bind_numbers(u, stage, node, input);
        return;
    }
    if (source->count > 0) {
        bind_window(u, s, input);
        return;
    }
    if (source->kind == CELL_SOURCE_JOIN) {
        bind_join(u, s, input);
        return;
    }
    if (source->kind == CELL_SOURCE_INPUT) {
        const struct sched_tensor *tensor = &u->sequences->inputs[source->index];
        if (tensor->data != NULL) {
            struct cell_ref rows =
                sched__rows_for(stage, sched__piece_of(tensor, u->own->row, source->piece),
                                tensor->step_bytes, sched__steps_of(u, stage));
            sched_builder_input_host(&u->builder, node, input, rows.host, rows.stride_bytes);
        }
        return;
    }
    if (!cell_source_is_of_stage(source) || sched__node_of(u, source->stage) == SCHED_NONE) {
        return; // reads zeros
    }
    bool each =
        source->kind == CELL_SOURCE_EACH && model->stages[source->stage].kind != CELL_STAGE_ONCE;
    if (each) {
        size_t stride = 0;
        const uint8_t *spill = sched__spill_of(u, source->stage, source->index, &stride);
        if (spill == NULL) {
            return;
        }
        struct cell_ref rows =
            sched__rows_for(stage, spill, (int64_t)stride, sched__steps_of(u, stage));
        sched_builder_input_host(&u->builder, node, input, rows.host, rows.stride_bytes);
        read_steps(u, s, source->stage);
    } else {
        sched_builder_input_value(&u->builder, node, input, value_of(u, source));
    }
}

/* What a session that has begun has of the state, for all rows; NULL: it begins. */
static const struct sched_tensor *resumed_of(const struct sched__unfolding *u,
                                             const struct cell_stage *stage, uint32_t state)
{
    const struct sched_tensor *given =
        stage->resumes[state] == 0 ? NULL : &u->sequences->inputs[stage->resumes[state] - 1];
    return given == NULL || given->data == NULL ? NULL : given;
}

static void bind_init(struct sched__unfolding *u, uint32_t s, uint32_t state)
{
    const struct cell_stage *stage = &u->sequences->model->stages[s];
    const struct cell_source *source = &stage->init[state];
    const struct sched_tensor *resumed = resumed_of(u, stage, state);
    const sched_node_id node = sched__node_of(u, s);
    if (resumed != NULL) {
        sched_builder_init_host(&u->builder, node, state, sched__piece_of(resumed, u->own->row, 0));
    } else if (source->kind == CELL_SOURCE_INPUT) {
        const struct sched_tensor *tensor = &u->sequences->inputs[source->index];
        if (tensor->data != NULL) {
            sched_builder_init_host(&u->builder, node, state,
                                    sched__piece_of(tensor, u->own->row, source->piece));
        } else if (source->or_start) {
            sched_builder_init_host(&u->builder, node, state, u->sequences->model->decoder.start);
        }
    } else if (source->kind == CELL_SOURCE_START) {
        sched_builder_init_host(&u->builder, node, state, u->sequences->model->decoder.start);
    } else if (cell_source_is_of_stage(source) && sched__node_of(u, source->stage) != SCHED_NONE) {
        sched_builder_init_value(&u->builder, node, state, value_of(u, source));
    }
}

/* Of a row without a step: the state that a session keeps of it is what it begins with, where cells
 * make that. */
static void emit_begin(struct sched__unfolding *u, uint32_t o)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_source *source = &model->output_sources[o][0];
    const struct cell_stage *stage = &model->stages[source->stage];
    bool is_kept = false;
    for (uint32_t s = 0; s < model->n_states; s++) {
        is_kept = is_kept || (model->states[s].output == o && model->states[s].is_made);
    }
    if (is_kept && resumed_of(u, stage, source->index) == NULL) {
        const struct cell_source *init = &stage->init[source->index];
        uint8_t *to = sched__piece_of(&u->sequences->outputs[o], u->own->row, 0);
        sched_builder_emit(&u->builder, sched__node_of(u, init->stage),
                           (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                                              .when = CELL_EMIT_LAST,
                                              .index = init->index,
                                              .to = sched_host_ref(to, 0)});
    }
}

static void emit_piece(struct sched__unfolding *u, uint32_t o, uint32_t piece)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_source *source = &model->output_sources[o][piece];
    const struct sched_tensor *tensor = &u->sequences->outputs[o];
    if (!cell_source_is_of_stage(source)) {
        return;
    }
    if (sched__node_of(u, source->stage) == SCHED_NONE) {
        emit_begin(u, o);
        return;
    }
    const struct cell_stage *stage = &model->stages[source->stage];
    uint8_t *to = sched__piece_of(tensor, u->own->row, piece);
    bool each = source->kind == CELL_SOURCE_EACH;
    bool is_state = source->kind == CELL_SOURCE_LAST_STATE;
    // Nobody knows before which step is a decoder's last: each writes over what the one before has.
    const bool is_over = is_state && stage->kind == CELL_STAGE_DECODER;
    sched_builder_emit(
        &u->builder, sched__node_of(u, source->stage),
        (struct cell_emit){
            .what = is_state ? CELL_EMIT_STATE : CELL_EMIT_OUTPUT,
            .when = each || is_over ? CELL_EMIT_EACH : when_made(u, source),
            .index = source->index,
            .to = each ? sched__rows_for(stage, to, tensor->step_bytes, sched__steps_of(u, stage))
                       : sched_host_ref(to, 0)});
}

/* Of a transducer's beam; NULL: memory is spent. */
static struct cell_beam_labels *make_labels(struct sched__unfolding *u, uint32_t width,
                                            uint32_t steps)
{
    const struct cell_decoder *decoder = &u->sequences->model->decoder;
    struct cell_beam_labels *labels = base_arena_alloc(u->arena, sizeof(*labels));
    float *gains = base_arena_array(u->arena, (size_t)width * steps, sizeof(*gains));
    if (labels != NULL) {
        *labels = (struct cell_beam_labels){.blank = u->sequences->model->labels.blank,
                                            .state = decoder->label_state,
                                            .held = decoder->held_state,
                                            .context = decoder->context,
                                            .gains = gains};
    }
    return gains == NULL ? NULL : labels;
}

/* A beam search in the request's memory. */
static struct cell_beam *make_beam(struct sched__unfolding *u)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_decoder *decoder = &model->decoder;
    const struct cell_def *def = &model->stages[decoder->stage].type->def;
    const uint32_t width = sched_beam_width(u->sequences);
    const uint32_t n_steps = sched__steps_of(u, &model->stages[decoder->stage]);
    const bool has_labels = model->labels.is_on;
    size_t widest = 0;
    for (uint32_t s = 0; s < def->n_states; s++) {
        const struct cell_value *state = &def->values[def->n_inputs + s];
        const size_t bytes = (size_t)state->width * cell_dtype_bytes(state->dtype);
        widest = bytes > widest ? bytes : widest;
    }
    struct cell_beam *beam = base_arena_alloc(u->arena, sizeof(*beam));
    int32_t *steps = base_arena_array(u->arena, 2 * (size_t)width * n_steps, sizeof(*steps));
    float *room = base_arena_array(u->arena, decoder->ids, sizeof(*room));
    uint8_t *copies = base_arena_array(u->arena, width, widest);
    struct cell_beam_labels *labels = has_labels ? make_labels(u, width, n_steps) : NULL;
    if (beam == NULL || steps == NULL || room == NULL || copies == NULL ||
        (has_labels && labels == NULL)) {
        u->status = BASE_RESOURCE_EXHAUSTED;
        return NULL;
    }
    *beam = (struct cell_beam){.width = width,
                               .steps = n_steps,
                               .token = decoder->token,
                               .logits = decoder->logits,
                               .ids = decoder->ids,
                               .has_end = decoder->has_end,
                               .end = decoder->end.id,
                               .length_penalty = decoder->length_penalty,
                               .tokens = steps,
                               .parents = steps + (size_t)width * n_steps,
                               .room = room,
                               .copies = copies,
                               .labels = labels};
    return beam;
}

static void begin_decoder(struct sched__unfolding *u)
{
    const struct cell_decoder *decoder = &u->sequences->model->decoder;
    const sched_node_id node = u->own->nodes[decoder->stage];
    if (decoder->beam_width > 0) {
        struct cell_beam *beam = make_beam(u);
        if (beam != NULL) {
            sched_builder_beam(&u->builder, node, beam);
        }
    } else if (decoder->has_end) {
        sched_builder_end(&u->builder, node, &decoder->end);
    }
    u->sequences->decoders[u->own->row] = node;
}

/* Only what the model has: a request of a small model is as quick as it is small. */
static void clear(const struct cell_model *model, struct sched__row_state *state, uint32_t row)
{
    const size_t n = model->n_stages;
    state->row = row;
    memset(state->nodes, 0xff, n * sizeof(state->nodes[0]));
    memset(state->firsts, 0xff, n * sizeof(state->firsts[0]));
    memset(state->outputs, 0xff, n * sizeof(state->outputs[0]));
    memset(state->states, 0xff, n * sizeof(state->states[0]));
    memset(state->spills, 0, n * sizeof(state->spills[0]));
    memset(state->memories, 0, model->n_memories * sizeof(state->memories[0]));
    memset(state->joins, 0, model->n_joins * sizeof(state->joins[0]));
    memset(state->padded, 0, model->n_inputs * sizeof(state->padded[0]));
}

/* The row at work, or what all rows share. */
static void unfold_row(struct sched__unfolding *u, bool is_shared)
{
    const struct cell_model *model = u->sequences->model;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_stage *stage = &model->stages[s];
        const uint32_t steps = stage->is_shared == is_shared ? sched__steps_of(u, stage) : 0;
        if (steps == 0) {
            continue;
        }
        sched__state_of(u, s)->nodes[s] =
            sched_builder_node(&u->builder, stage->type, steps, u->emits_max[s]);
        if (stage->kind == CELL_STAGE_DECODER) {
            begin_decoder(u);
        }
        for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
            bind_input(u, s, i);
        }
        for (uint32_t i = 0; i < stage->type->def.n_states; i++) {
            bind_init(u, s, i);
        }
    }
    if (!is_shared) {
        sched__keep_rows(u);
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        for (uint32_t p = 0; u->sequences->outputs[o].data != NULL && p < model->outputs[o].pieces;
             p++) {
            const struct cell_source *source = &model->output_sources[o][p];
            if (cell_source_is_of_stage(source) &&
                model->stages[source->stage].is_shared == is_shared) {
                emit_piece(u, o, p);
            }
        }
    }
}

enum base_status sched_unfold_chain(const struct sched_sequences *sequences,
                                    struct base_arena *arena, struct sched_graph **out,
                                    struct base_error *error)
{
    struct sched__row_state shared;
    struct sched__row_state own;
    struct sched__unfolding u = {
        .sequences = sequences, .arena = arena, .shared = &shared, .own = &own};
    size_t reads = count_reads(&u);
    size_t nodes = 0;
    if (!base_size_mul(sequences->model->n_stages, sequences->n_rows, &nodes) ||
        !base_size_mul(reads, sequences->n_rows, &reads) || nodes >= SCHED_NONE ||
        reads >= SCHED_NONE) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "batch of %u rows is too large",
                         sequences->n_rows);
    }
    sched_builder_init(&u.builder, arena, (uint32_t)nodes, (uint32_t)reads, (uint32_t)reads);
    clear(sequences->model, &shared, 0);
    clear(sequences->model, &own, 0);
    unfold_row(&u, true);
    for (uint32_t b = 0; b < sequences->n_rows && u.builder.status == BASE_OK; b++) {
        clear(sequences->model, &own, b);
        unfold_row(&u, false);
        if (u.status != BASE_OK) {
            break;
        }
    }
    if (u.status != BASE_OK) {
        return base_fail(error, u.status, "cell graph: request memory spent");
    }
    if (u.builder.status == BASE_OK && u.builder.graph->n_nodes == 0) {
        *out = NULL;
        return BASE_OK;
    }
    return sched_builder_finish(&u.builder, out, error);
}
