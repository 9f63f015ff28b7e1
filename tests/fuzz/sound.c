/* See sound.h. */
#include "tests/fuzz/sound.h"

#include "base/assert.h"

/* Lengths that windows are tried with: more than most of them are wide. */
#define GIVEN_MAX 64u

/* A source is made before stage `before`, and is a row of this width. */
static void check_source(const struct cell_model *model, struct cell_source source, uint32_t before,
                         uint32_t width)
{
    if (source.kind == CELL_SOURCE_INPUT) {
        base_assert(source.index < model->n_inputs);
        const struct cell_tensor *tensor = &model->inputs[source.index];
        base_assert(source.piece < tensor->pieces && tensor->width == width * tensor->pieces);
    } else if (source.kind == CELL_SOURCE_NUMBER) {
        base_assert(source.index <= CELL_NUMBER_ATTENDED && width == 1);
    } else if (source.kind != CELL_SOURCE_ZERO) {
        base_assert(source.kind >= CELL_SOURCE_EACH && source.kind <= CELL_SOURCE_LAST_STATE);
        base_assert(source.stage < before);
        const struct cell_def *def = &model->stages[source.stage].type->def;
        bool is_state = source.kind == CELL_SOURCE_LAST_STATE;
        base_assert(source.index < (is_state ? def->n_states : def->n_outputs));
        uint32_t v = is_state ? def->n_inputs + source.index : def->outputs[source.index];
        base_assert(def->values[v].width == width);
    }
}

/* All pieces of a memory are made before the stage. */
static void check_memory(const struct cell_model *model, const struct cell_source *part,
                         uint32_t before, uint32_t width)
{
    base_assert(part->index < model->n_memories && part->offset >= 0);
    const struct cell_memory *memory = &model->memories[part->index];
    base_assert(part->count == 0 ? part->offset == 0 && memory->width == width
                                 : part->count == width);
    base_assert((uint32_t)part->offset + width <= memory->width && memory->pieces >= 1);
    base_assert(memory->pieces <= CELL_PIECES_MAX && memory->sequence < model->n_sequences);
    for (uint32_t p = 0; p < memory->pieces; p++) {
        check_source(model, memory->sources[p], before, memory->width / memory->pieces);
    }
}

/* Where all parts have the steps that they must have, these are those of the join. */
static void check_parts(const struct cell_model *model, const struct cell_join *join,
                        uint32_t given)
{
    uint32_t steps[CELL_SEQUENCES_MAX];
    uint64_t all = 0;
    bool are_met = true;
    cell_model_steps(model, given, steps);
    for (uint32_t p = 0; p < join->n_parts; p++) {
        const struct cell_join_part *part = &join->parts[p];
        const uint32_t s = part->source.kind == CELL_SOURCE_INPUT
                               ? model->inputs[part->source.index].sequence
                               : model->stages[part->source.stage].sequence;
        const struct cell_sequence *sequence = &model->sequences[s];
        are_met = are_met && (part->count > 0 ||
                              cell_sequence_is_met(sequence, steps[sequence->source], steps[s]));
        all += part->count > 0 ? part->count : steps[s];
    }
    base_assert(!are_met || all == steps[join->sequence]);
}

/* All parts of a join are made before the stage, or given, and are as many steps as it has. */
static void check_join(const struct cell_model *model, const struct cell_source *source,
                       uint32_t before, uint32_t width)
{
    base_assert(source->index < model->n_joins);
    const struct cell_join *join = &model->joins[source->index];
    base_assert(join->width == width && join->sequence < model->n_sequences);
    base_assert(join->n_parts >= 1 && join->n_parts <= CELL_JOIN_PARTS_MAX);
    for (uint32_t p = 0; p < join->n_parts; p++) {
        const struct cell_join_part *part = &join->parts[p];
        check_source(model, part->source, before, width * (part->count > 0 ? part->count : 1));
        if (part->source.kind == CELL_SOURCE_INPUT) {
            const struct cell_tensor *tensor = &model->inputs[part->source.index];
            base_assert((tensor->time_axis < 0) == (part->count > 0));
            base_assert(!join->is_shared || tensor->batch_axis < 0);
            continue;
        }
        const struct cell_stage *stage = &model->stages[part->source.stage];
        base_assert(part->source.kind == CELL_SOURCE_EACH && stage->is_shared == join->is_shared);
        base_assert((stage->kind == CELL_STAGE_ONCE) == (part->count > 0));
    }
    for (uint32_t given = 1; given <= GIVEN_MAX; given++) {
        check_parts(model, join, given);
    }
}

/* Whether a request with these steps is not refused. */
static bool is_met(const struct cell_model *model, const uint32_t steps[CELL_SEQUENCES_MAX])
{
    bool is_met = true;
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        const struct cell_sequence *sequence = &model->sequences[s];
        const uint32_t of = sequence->stride > 0 ? steps[sequence->source] : 0;
        is_met = is_met && cell_sequence_is_met(sequence, of, steps[s]) &&
                 (sequence->multiple == 0 || steps[s] % sequence->multiple == 0);
    }
    return is_met;
}

/* No step reads further beyond the ends than the model says, whatever the request's lengths. */
static void check_window(const struct cell_model *model, const struct cell_stage *stage,
                         const struct cell_source *source)
{
    const uint32_t of = source->kind == CELL_SOURCE_JOIN    ? model->joins[source->index].sequence
                        : source->kind == CELL_SOURCE_INPUT ? model->inputs[source->index].sequence
                                                            : model->stages[source->stage].sequence;
    const bool is_once = stage->kind == CELL_STAGE_ONCE; // reads some steps of a stated number
    if (source->by > 0) {
        base_assert(is_once && source->by <= model->n_inputs && source->count == 1);
        const struct cell_tensor *tensor = &model->inputs[source->by - 1];
        base_assert(tensor->is_step || tensor->is_lengths);
        return; // the request says which, and is checked
    }
    base_assert(is_once || stage->kind == CELL_STAGE_EACH || stage->kind == CELL_STAGE_CHAIN);
    const bool is_parted = source->parts > 0;
    const int64_t parts = is_parted ? source->parts : 1;
    const int64_t reach = is_parted ? 0 : model->reach;
    base_assert(!is_parted || source->kind == CELL_SOURCE_EACH);
    base_assert(source->stride >= 1 && (source->is_from_end || source->offset >= -reach));
    for (uint32_t given = 1; given <= GIVEN_MAX; given++) {
        uint32_t steps[CELL_SEQUENCES_MAX];
        cell_model_steps(model, given, steps);
        const uint32_t own = is_once ? 1 : steps[stage->sequence];
        const int64_t all = (int64_t)steps[of] * parts;
        const int64_t first = source->offset + (source->is_from_end ? all : 0);
        const int64_t last = first + ((int64_t)own - 1) * source->stride + source->count - 1;
        base_assert(!is_met(model, steps) || own == 0 || steps[of] == 0 ||
                    (first >= -reach && last < all + reach));
    }
}

static void check_sequences(const struct cell_model *model)
{
    base_assert(model->n_sequences <= CELL_SEQUENCES_MAX);
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        base_assert(model->sequences[s].stride == 0 || model->sequences[s].source < s);
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const struct cell_tensor *tensor = &model->inputs[i];
        base_assert(tensor->time_axis < 0 || model->sequences[tensor->sequence].stride == 0);
    }
}

static void check_input(const struct cell_model *model, uint32_t s, uint32_t input)
{
    const struct cell_stage *stage = &model->stages[s];
    const struct cell_source *source = &stage->inputs[input];
    const uint32_t width = stage->type->def.values[input].width;
    if (source->kind == CELL_SOURCE_MEMORY) {
        check_memory(model, source, s, width);
        return;
    }
    if (source->count > 0) {
        base_assert(width % source->count == 0);
        check_window(model, stage, source);
    }
    if (source->kind == CELL_SOURCE_JOIN) {
        base_assert(source->parts == 0);
        check_join(model, source, s, source->count > 0 ? width / source->count : width);
        return;
    }
    const uint32_t parts = cell_source_parts(source);
    base_assert(source->count > 0 || source->parts == 0);
    check_source(model, *source, s, (source->count > 0 ? width / source->count : width) * parts);
}

void sound_model(const struct cell_model *model)
{
    check_sequences(model);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_def *def = &model->stages[s].type->def;
        const struct cell_stage *stage = &model->stages[s];
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            check_input(model, s, i);
        }
        for (uint32_t i = 0; i < def->n_states; i++) {
            check_source(model, stage->init[i], s, def->values[def->n_inputs + i].width);
        }
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        const struct cell_tensor *tensor = &model->outputs[o];
        base_assert(tensor->pieces >= 1 && tensor->pieces <= CELL_PIECES_MAX);
        for (uint32_t p = 0; p < tensor->pieces; p++) {
            check_source(model, model->output_sources[o][p], model->n_stages,
                         tensor->width / tensor->pieces);
        }
    }
}
