/* See unfold_rows.h. */
#include "scheduler/unfold_rows.h"

#include "base/assert.h"

#include <string.h>

const struct cell_history *sched__history_of(const struct sched__unfolding *u,
                                             const struct cell_source *source)
{
    const struct sched_sequences *sequences = u->sequences;
    return sequences->stream == NULL ? NULL : cell_model_history(sequences->model, source);
}

/* Room for the rows of all steps of a source, with zeros for windows before and behind; at the
 * first step. In a session windows read before it what is kept, and behind it only when there is an
 * end. */
static uint8_t *make_rows(struct sched__unfolding *u, const struct cell_source *source,
                          uint32_t steps, size_t stride)
{
    const struct cell_model *model = u->sequences->model;
    const bool is_join = source->kind == CELL_SOURCE_JOIN; // no session has parts of one
    const struct sched_stream *stream = is_join ? NULL : u->sequences->stream;
    const struct cell_history *history = sched__history_of(u, source);
    const size_t kept = history == NULL ? 0 : history->steps;
    const size_t before = stream == NULL ? model->reach : kept;
    const size_t behind = stream == NULL || stream->is_end ? model->reach : 0;
    uint8_t *rows = base_arena_array(u->arena, before + steps + behind, stride);
    if (rows == NULL) {
        u->status = BASE_RESOURCE_EXHAUSTED;
        return NULL;
    }
    return rows + before * stride;
}

/* n steps of an input, which may lie apart, or one before the other. */
static void copy_steps(uint8_t *to, size_t stride, const uint8_t *from, int64_t step_bytes,
                       uint32_t n)
{
    if (step_bytes == (int64_t)stride) {
        memcpy(to, from, n * stride);
        return;
    }
    for (uint32_t t = 0; t < n; t++) {
        memcpy(to + t * stride, from + t * step_bytes, stride);
    }
}

/* What a session has of the steps before: in front of the first one. */
static void bring_history(struct sched__unfolding *u, const struct cell_source *source,
                          uint8_t *rows, size_t stride)
{
    const struct sched_sequences *sequences = u->sequences;
    const struct cell_history *history = sched__history_of(u, source);
    if (history == NULL || rows == NULL) {
        return;
    }
    const size_t bytes = history->steps * stride;
    const size_t n = (size_t)(history - sequences->model->histories);
    const struct sched_tensor *given = &sequences->inputs[history->input];
    const uint32_t steps = sched__steps_there(u, source);
    if (given->data != NULL) {
        memcpy(rows - bytes, sched__piece_of(given, u->own->row, 0), bytes);
    }
    sequences->kept[n * sequences->n_rows + u->own->row] = rows + steps * stride - bytes;
}

uint32_t sched__steps_there(const struct sched__unfolding *u, const struct cell_source *source)
{
    const struct cell_model *model = u->sequences->model;
    const struct sched_stream *stream = u->sequences->stream;
    if (stream == NULL || source->kind == CELL_SOURCE_JOIN) {
        return sched__length_of(u, sched__sequence_of(model, source));
    }
    return source->kind == CELL_SOURCE_INPUT ? stream->given[u->own->row]
                                             : sched__steps_of(u, &model->stages[source->stage]);
}

int64_t sched__steps_before(const struct sched__unfolding *u, const struct cell_source *source)
{
    const struct cell_model *model = u->sequences->model;
    const struct sched_stream *stream = u->sequences->stream;
    return source->kind == CELL_SOURCE_INPUT
               ? stream->given_before[u->own->row]
               : stream->taken_before[sched__place_of(u, &model->stages[source->stage])];
}

int64_t sched__first_attended(const struct sched__unfolding *u, const struct cell_stage *stage)
{
    const struct cell_model *model = u->sequences->model;
    const struct cell_attended *attended = &model->stream.attends[stage - model->stages];
    const int64_t before = u->sequences->stream->taken_before[sched__place_of(u, stage)];
    const int64_t first = cell_attended_first(attended, before);
    return first > 0 ? first : 0;
}

void sched__keep_rows(struct sched__unfolding *u)
{
    const struct cell_model *model = u->sequences->model;
    size_t stride = 0;
    for (uint32_t n = 0; u->sequences->stream != NULL && n < model->n_histories; n++) {
        const struct cell_source *source = &model->histories[n].source;
        if (sched__steps_there(u, source) == 0) {
            continue; // it stays as it is
        }
        if (source->kind == CELL_SOURCE_INPUT) {
            (void)sched__padded_of(u, source, &stride);
        } else {
            (void)sched__spill_of(u, source->stage, source->index, &stride);
        }
    }
}

void sched_sequences_keep(const struct sched_sequences *sequences)
{
    const struct cell_model *model = sequences->model;
    const struct sched_stream *stream = sequences->stream;
    if (stream == NULL) {
        return;
    }
    const struct sched_tensor *count = &sequences->outputs[model->stream.count_output];
    for (uint32_t b = 0; model->stream.counts && count->data != NULL && b < sequences->n_rows;
         b++) {
        const int64_t steps = stream->given_before[b] + stream->given[b];
        memcpy(count->data + b * count->batch_bytes, &steps, sizeof(steps));
    }
    for (uint32_t n = 0; n < model->n_histories; n++) {
        const struct cell_history *history = &model->histories[n];
        const struct cell_tensor *tensor = &model->outputs[history->output];
        const struct sched_tensor *to = &sequences->outputs[history->output];
        const size_t bytes = (size_t)tensor->width * cell_dtype_bytes(tensor->dtype);
        for (uint32_t b = 0; to->data != NULL && b < sequences->n_rows; b++) {
            const uint8_t *from = sequences->kept[(size_t)n * sequences->n_rows + b];
            if (from != NULL) {
                memcpy(to->data + b * to->batch_bytes, from, bytes);
            }
        }
    }
}

uint8_t *sched__spill_of(struct sched__unfolding *u, uint32_t stage, uint32_t output,
                         size_t *stride)
{
    const struct cell_stage *from = &u->sequences->model->stages[stage];
    const struct cell_type *type = from->type;
    const struct cell_value *value = &type->def.values[type->def.outputs[output]];
    const uint32_t steps = sched__steps_of(u, from);
    *stride = (size_t)value->width * cell_dtype_bytes(value->dtype);
    uint8_t **spill = &sched__state_of(u, stage)->spills[stage][output];
    const struct cell_source own = {.kind = CELL_SOURCE_EACH, .stage = stage, .index = output};
    if (*spill == NULL) {
        *spill = make_rows(u, &own, steps, *stride);
        if (*spill == NULL) {
            return NULL;
        }
        if (steps > 0) { // else a session has some of before
            sched_builder_emit(
                &u->builder, sched__node_of(u, stage),
                (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                                   .when = CELL_EMIT_EACH,
                                   .index = output,
                                   .to = sched__rows_for(from, *spill, (int64_t)*stride, steps)});
        }
        bring_history(u, &own, *spill, *stride);
    }
    return *spill;
}

uint32_t sched__memory_steps(const struct sched__unfolding *u, const struct cell_memory *memory)
{
    return u->sequences->stream == NULL ? sched__length_of(u, memory->sequence)
                                        : sched__steps_there(u, &memory->sources[0]);
}

uint8_t *sched__memory_of(struct sched__unfolding *u, uint32_t number)
{
    const struct cell_memory *memory = &u->sequences->model->memories[number];
    const uint32_t steps = sched__memory_steps(u, memory);
    const size_t stride = (size_t)memory->width * sizeof(float);
    uint8_t **made = &sched__state_of(u, memory->sources[0].stage)->memories[number];
    if (*made == NULL && memory->pieces == 1) {
        size_t same = 0; // as those who read it step by step
        *made = sched__spill_of(u, memory->sources[0].stage, memory->sources[0].index, &same);
    }
    if (*made != NULL || u->status != BASE_OK) {
        return *made;
    }
    *made = base_arena_array(u->arena, steps, stride);
    if (*made == NULL) {
        u->status = BASE_RESOURCE_EXHAUSTED;
        return NULL;
    }
    for (uint32_t p = 0; p < memory->pieces; p++) {
        const struct cell_source *source = &memory->sources[p];
        const struct cell_stage *from = &u->sequences->model->stages[source->stage];
        uint8_t *piece = *made + p * (stride / memory->pieces);
        sched_builder_emit(
            &u->builder, sched__node_of(u, source->stage),
            (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                               .when = CELL_EMIT_EACH,
                               .index = source->index,
                               .to = sched__rows_for(from, piece, (int64_t)stride, steps)});
    }
    return *made;
}

const uint8_t *sched__padded_of(struct sched__unfolding *u, const struct cell_source *source,
                                size_t *stride)
{
    const struct cell_tensor *tensor = &u->sequences->model->inputs[source->index];
    const uint32_t steps = sched__steps_there(u, source);
    const struct sched_tensor *given = &u->sequences->inputs[source->index];
    struct sched__row_state *state = tensor->batch_axis < 0 ? u->shared : u->own;
    uint8_t **padded = &state->padded[source->index][source->piece];
    *stride = (size_t)(tensor->width / tensor->pieces) * cell_dtype_bytes(tensor->dtype);
    if (*padded != NULL) {
        return *padded;
    }
    *padded = make_rows(u, source, steps, *stride);
    if (*padded != NULL && given->data != NULL) {
        const uint8_t *from = sched__piece_of(given, u->own->row, source->piece);
        copy_steps(*padded, *stride, from, given->step_bytes, steps);
    }
    bring_history(u, source, *padded, *stride);
    return *padded;
}

uint32_t sched__sequence_of(const struct cell_model *model, const struct cell_source *source)
{
    if (source->kind == CELL_SOURCE_JOIN) {
        return model->joins[source->index].sequence;
    }
    return source->kind == CELL_SOURCE_INPUT ? model->inputs[source->index].sequence
                                             : model->stages[source->stage].sequence;
}

/* Steps of a part, for the row at work. */
static uint32_t part_steps(struct sched__unfolding *u, const struct cell_join_part *part)
{
    const struct cell_model *model = u->sequences->model;
    if (cell_source_is_of_stage(&part->source) &&
        sched__node_of(u, part->source.stage) == SCHED_NONE) {
        return 0;
    }
    return part->count > 0 ? part->count
                           : sched__length_of(u, sched__sequence_of(model, &part->source));
}

/* A stage writes its n steps itself, the first of them at `to`. */
static void emit_part(struct sched__unfolding *u, const struct cell_join_part *part, uint8_t *to,
                      uint32_t n, int64_t stride)
{
    const struct cell_stage *from = &u->sequences->model->stages[part->source.stage];
    struct cell_emit emit = {
        .what = CELL_EMIT_OUTPUT, .when = CELL_EMIT_EACH, .index = part->source.index};
    if (part->count > 0) {
        emit.when = CELL_EMIT_LAST;
        emit.to = sched_host_ref(to, 0);
    } else if (from->is_reverse != part->is_turned) {
        emit.to = sched_host_ref(to + (n - 1) * stride, -stride);
    } else {
        emit.to = sched_host_ref(to, stride);
    }
    sched_builder_emit(&u->builder, sched__node_of(u, part->source.stage), emit);
}

/* Steps of an input are there already. */
static void copy_part(struct sched__unfolding *u, const struct cell_join_part *part, uint8_t *to,
                      uint32_t n, size_t stride)
{
    const struct sched_tensor *given = &u->sequences->inputs[part->source.index];
    const uint8_t *from =
        given->data == NULL ? NULL : sched__piece_of(given, u->own->row, part->source.piece);
    if (from == NULL) {
        return; // reads zeros
    }
    if (part->count > 0) {
        memcpy(to, from, n * stride);
    } else if (part->is_turned) {
        copy_steps(to, stride, from + (n - 1) * given->step_bytes, -given->step_bytes, n);
    } else {
        copy_steps(to, stride, from, given->step_bytes, n);
    }
}

uint8_t *sched__join_of(struct sched__unfolding *u, uint32_t number, size_t *stride)
{
    const struct cell_join *join = &u->sequences->model->joins[number];
    uint8_t **made = &(join->is_shared ? u->shared : u->own)->joins[number];
    uint32_t steps = 0;
    uint32_t at = 0;
    *stride = (size_t)join->width * sizeof(float);
    if (*made != NULL) {
        return *made;
    }
    for (uint32_t p = 0; p < join->n_parts; p++) {
        steps += part_steps(u, &join->parts[p]);
    }
    base_assert(steps >= sched__length_of(u, join->sequence)); // as srv_validate() has found
    const struct cell_source own = {.kind = CELL_SOURCE_JOIN, .index = number};
    *made = make_rows(u, &own, steps, *stride);
    for (uint32_t p = 0; *made != NULL && p < join->n_parts; p++) {
        const struct cell_join_part *part = &join->parts[p];
        const uint32_t n = part_steps(u, part);
        if (n > 0 && cell_source_is_of_stage(&part->source)) {
            emit_part(u, part, *made + at * *stride, n, (int64_t)*stride);
        } else if (n > 0) {
            copy_part(u, part, *made + at * *stride, n, *stride);
        }
        at += n;
    }
    return *made;
}

const int64_t *sched__numbers_of(struct sched__unfolding *u, uint32_t sequence)
{
    uint32_t longest = 1;
    if (u->numbers[sequence] != NULL) {
        return u->numbers[sequence];
    }
    for (uint32_t r = 0; r < u->sequences->n_rows; r++) {
        const uint32_t steps = u->sequences->steps[sequence][r];
        longest = steps > longest ? steps : longest;
    }
    int64_t *numbers = base_arena_array(u->arena, longest, sizeof(*numbers));
    for (uint32_t t = 0; numbers != NULL && t < longest; t++) {
        numbers[t] = t;
    }
    u->status = numbers == NULL ? BASE_RESOURCE_EXHAUSTED : u->status;
    u->numbers[sequence] = numbers;
    return numbers;
}

const int64_t *sched__numbers_in(struct sched__unfolding *u, const struct cell_stage *stage,
                                 bool of_attended)
{
    const int64_t before = u->sequences->stream->taken_before[sched__place_of(u, stage)];
    const int64_t first = before - (of_attended ? sched__first_attended(u, stage) : 0);
    const uint32_t steps = sched__steps_of(u, stage);
    int64_t *numbers = base_arena_array(u->arena, steps, sizeof(*numbers));
    for (uint32_t t = 0; numbers != NULL && t < steps; t++) {
        numbers[t] = first + t;
    }
    u->status = numbers == NULL ? BASE_RESOURCE_EXHAUSTED : u->status;
    return numbers;
}
