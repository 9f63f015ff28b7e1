/* What planned stages read of each other, of the request and of memories. Cost: a pass over the
 * operands of the needed rows. */
#include "cells/import/plan.h"

#include "base/assert.h"

/* ---- Sources ------------------------------------------------------------------------------ */

/* Output of a stage that holds this op's result. */
static enum base_status publish(struct cell__plans *plans, uint32_t r)
{
    struct cell__row *row = &plans->im->rows[r];
    struct cell__plan *stage = &plans->stages[row->stage];
    if (row->output != CELL__NONE) {
        return BASE_OK;
    }
    if (stage->n_outputs == CELL_OUTPUTS_MAX) {
        return cell__too_many(plans->im, CELL_OUTPUTS_MAX, "values handed on by one stage");
    }
    row->output = stage->n_outputs;
    stage->output_rows[stage->n_outputs++] = r;
    return BASE_OK;
}

/* Where a row of a recurrent node's output is found: of is its STEP. */
static enum base_status source_of_step(struct cell__plans *plans, enum cell_source_kind kind,
                                       const struct cell__row *of, struct cell_source *out)
{
    const struct cell__recurrent *recurrent = &plans->im->recurrents[of->index];
    *out = (struct cell_source){.kind = kind, .stage = plans->chain_stages[of->index]};
    if (recurrent->is_scan) {
        uint32_t row = recurrent->output_rows[of->part];
        BASE_TRY(publish(plans, row));
        out->index = plans->im->rows[row].output;
    }
    return BASE_OK;
}

/* No stage has their numbers. */
static enum base_status refuse_distance(const struct cell__plans *plans)
{
    return base_fail(plans->im->error, BASE_UNIMPLEMENTED,
                     "the model computes with relative positions elsewhere than in an attention "
                     "that shifts them");
}

/* Of a row that is no window. */
static enum base_status source_of_row(struct cell__plans *plans, uint32_t r,
                                      struct cell_source *out)
{
    const struct cell__row *row = &plans->im->rows[r];
    const struct cell__row *of = row;
    const enum cell_source_kind kind_at =
        row->kind == CELL__ROW_FIRST ? CELL_SOURCE_FIRST : CELL_SOURCE_LAST;
    *out = (struct cell_source){.kind = CELL_SOURCE_ZERO};
    switch (row->kind) {
    case CELL__ROW_CONST:
        base_assert(cell__row_is_zero(plans->im, r)); // others are made ops before
        return BASE_OK;
    case CELL__ROW_INPUT:
        *out = (struct cell_source){
            .kind = CELL_SOURCE_INPUT, .index = row->index, .piece = row->part};
        return BASE_OK;
    case CELL__ROW_INDEX:
        return base_fail(
            plans->im->error, BASE_UNIMPLEMENTED,
            "the model computes with integers of the request that are to be the number "
            "of a step");
    case CELL__ROW_DISTANCE:
        return refuse_distance(plans);
    case CELL__ROW_NUMBER:
        *out = (struct cell_source){.kind = CELL_SOURCE_NUMBER, .index = row->part};
        return BASE_OK;
    case CELL__ROW_STEP:
        return source_of_step(plans, CELL_SOURCE_EACH, row, out);
    case CELL__ROW_STATE:
        *out = (struct cell_source){.kind = CELL_SOURCE_LAST_STATE,
                                    .stage = plans->chain_stages[row->index],
                                    .index = row->part};
        return BASE_OK;
    case CELL__ROW_FIRST:
    case CELL__ROW_LAST:
        of = &plans->im->rows[row->index];
        if (of->kind == CELL__ROW_STEP) {
            return source_of_step(plans, kind_at, of, out);
        }
        if (of->kind == CELL__ROW_DISTANCE) {
            return refuse_distance(plans);
        }
        BASE_TRY(publish(plans, row->index));
        break;
    case CELL__ROW_OP:
        BASE_TRY(publish(plans, r));
        break;
    case CELL__ROW_JOIN:
    case CELL__ROW_WINDOW:
    case CELL__ROW_IN:
        base_assert(false); // of other rows, or a state inside its own chain
        break;
    }
    out->kind = row->times != 0 ? CELL_SOURCE_EACH : kind_at;
    out->stage = of->stage;
    out->index = of->output;
    return BASE_OK;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static bool is_same_source(struct cell_source a, struct cell_source b)
{
    return a.kind == b.kind && a.stage == b.stage && a.index == b.index && a.piece == b.piece &&
           a.offset == b.offset && a.count == b.count && a.stride == b.stride &&
           a.parts == b.parts && a.by == b.by && a.is_clipped == b.is_clipped &&
           a.is_ended == b.is_ended && a.is_from_end == b.is_from_end;
}

static bool is_same_join(const struct cell_join *a, const struct cell_join *b)
{
    bool is_same = a->n_parts == b->n_parts && a->sequence == b->sequence;
    for (uint32_t p = 0; is_same && p < a->n_parts; p++) {
        is_same = is_same_source(a->parts[p].source, b->parts[p].source) &&
                  a->parts[p].count == b->parts[p].count &&
                  a->parts[p].is_turned == b->parts[p].is_turned;
    }
    return is_same;
}

/* The number of the model's join that the row is, added when it is new. */
static enum base_status source_of_join(struct cell__plans *plans, const struct cell__row *row,
                                       struct cell_source *out)
{
    struct cell_join join = {.width = row->value.width,
                             .sequence = cell__only_sequence(row->times),
                             .is_shared = !row->is_batched,
                             .n_parts = row->joined->n};
    for (uint32_t p = 0; p < join.n_parts; p++) {
        const uint32_t number = row->joined->parts[p].row;
        const struct cell__row *part = &plans->im->rows[number];
        struct cell_join_part *to = &join.parts[p];
        BASE_TRY(source_of_row(plans, number, &to->source));
        to->source.kind = part->kind == CELL__ROW_INPUT ? CELL_SOURCE_INPUT : CELL_SOURCE_EACH;
        to->count = part->times == 0 ? part->value.width / join.width : 0;
        to->is_turned = row->joined->parts[p].is_turned && part->times != 0;
    }
    *out = (struct cell_source){.kind = CELL_SOURCE_JOIN};
    for (; out->index < plans->n_joins; out->index++) {
        if (is_same_join(&plans->joins[out->index], &join)) {
            return BASE_OK;
        }
    }
    if (plans->n_joins == CELL_JOINS_MAX) {
        return cell__too_many(plans->im, CELL_JOINS_MAX, "sequences that are joined of others");
    }
    plans->joins[plans->n_joins++] = join;
    return BASE_OK;
}

/* Of a row, or of what a window reads. */
static enum base_status source_of_any(struct cell__plans *plans, uint32_t r,
                                      struct cell_source *out)
{
    const struct cell__row *row = &plans->im->rows[r];
    return row->kind == CELL__ROW_JOIN ? source_of_join(plans, row, out)
                                       : source_of_row(plans, r, out);
}

enum base_status cell__source_of(struct cell__plans *plans, uint32_t r, struct cell_source *out)
{
    const struct cell__row *row = &plans->im->rows[r];
    if (row->kind != CELL__ROW_WINDOW) {
        return source_of_any(plans, r, out);
    }
    BASE_TRY(source_of_any(plans, row->index, out));
    out->offset = row->offset;
    out->count = row->part;
    out->stride = row->stride;
    out->parts = row->parts;
    out->by = row->by;
    out->is_clipped = row->is_clipped;
    out->is_ended = row->is_ended;
    out->is_from_end = row->is_from_end;
    plans->reach = max_u32(plans->reach, row->behind);
    plans->reach =
        max_u32(plans->reach, row->offset < 0 && !row->is_from_end ? (uint32_t)-row->offset : 0);
    return BASE_OK;
}

/* Number of the stage's input that is this source. */
static enum base_status add_input(struct cell__plans *plans, struct cell__plan *stage,
                                  struct cell_source source, uint32_t *out)
{
    for (*out = 0; *out < stage->n_inputs; ++*out) {
        if (is_same_source(stage->inputs[*out], source)) {
            return BASE_OK;
        }
    }
    if (stage->n_inputs == CELL_INPUTS_MAX) {
        return cell__too_many(plans->im, CELL_INPUTS_MAX, "values read by one stage");
    }
    stage->inputs[stage->n_inputs++] = source;
    return BASE_OK;
}

bool cell__is_outside(const struct cell__import *im, uint32_t operand, uint32_t stage)
{
    const struct cell__row *row = &im->rows[operand];
    return row->kind != CELL__ROW_CONST && row->kind != CELL__ROW_IN &&
           (row->kind != CELL__ROW_OP || row->stage != stage);
}

/* Makes the row an input of the stage, which reads it under that number. */
enum base_status cell__connect_input(struct cell__plans *plans, uint32_t row,
                                     struct cell__plan *stage, uint32_t *out)
{
    struct cell_source source;
    BASE_TRY(cell__source_of(plans, row, &source));
    return add_input(plans, stage, source, out);
}

static bool is_same_memory(const struct cell_memory *a, const struct cell_memory *b)
{
    bool is_same = a->pieces == b->pieces;
    for (uint32_t p = 0; is_same && p < a->pieces; p++) {
        is_same = is_same_source(a->sources[p], b->sources[p]);
    }
    return is_same;
}

/* The number of the model's memory that these rows are, added when it is new. */
static enum base_status add_memory(struct cell__plans *plans, const struct cell_memory *memory,
                                   uint32_t *out)
{
    for (*out = 0; *out < plans->n_memories; ++*out) {
        if (is_same_memory(&plans->memories[*out], memory)) {
            return BASE_OK;
        }
    }
    if (plans->n_memories == CELL_MEMORIES_MAX) {
        return cell__too_many(plans->im, CELL_MEMORIES_MAX, "sequences that something attends to");
    }
    plans->memories[plans->n_memories++] = *memory;
    return BASE_OK;
}

/* Makes all steps of the row an input of the stage. */
enum base_status cell__connect_memory(struct cell__plans *plans, uint32_t row,
                                      struct cell__plan *stage, uint32_t *out)
{
    struct cell__part part;
    row = cell__memory_of(plans->im, row, &part);
    const struct cell__row *at = &plans->im->rows[row];
    struct cell_memory memory = {.width = at->value.width,
                                 .sequence = cell__only_sequence(at->times)};
    struct cell_source source = {.kind = CELL_SOURCE_MEMORY};
    const uint32_t *pieces = cell__pieces_of(plans->im, &row, &memory.pieces);
    for (uint32_t p = 0; p < memory.pieces; p++) {
        BASE_TRY(cell__source_of(plans, pieces[p], &memory.sources[p]));
    }
    BASE_TRY(add_memory(plans, &memory, &source.index));
    source.offset = (int32_t)part.start;
    source.count = part.width == memory.width ? 0 : part.width;
    return add_input(plans, stage, source, out);
}

/* Makes operand i of the row's op an input of its stage, unless the stage has it inside. */
static enum base_status connect_operand(struct cell__plans *plans, const struct cell__row *row,
                                        uint32_t i)
{
    const uint32_t operand = row->op.operands[i];
    struct cell__plan *stage = &plans->stages[row->stage];
    uint32_t input = 0;
    if (cell__is_memory(row, i) && !plans->im->is_part) {
        return cell__connect_memory(plans, operand, stage, &input);
    }
    return cell__is_outside(plans->im, operand, row->stage)
               ? cell__connect_input(plans, operand, stage, &input)
               : BASE_OK;
}

static enum base_status connect_chain(struct cell__plans *plans, uint32_t s)
{
    struct cell__import *im = plans->im;
    struct cell__plan *stage = &plans->stages[s];
    const struct cell__recurrent *recurrent = &im->recurrents[stage->recurrent];
    uint32_t n = 0;
    const uint32_t *x = recurrent->is_scan ? NULL : cell__rows_of_x(im, recurrent, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t input = 0;
        BASE_TRY(cell__connect_input(plans, x[i], stage, &input));
    }
    for (uint32_t i = 0; i < recurrent->n_states; i++) {
        if (recurrent->init_rows[i] != CELL__NONE) {
            BASE_TRY(cell__source_of(plans, recurrent->init_rows[i], &stage->init[i]));
        }
        uint32_t input = 0;
        if (recurrent->is_scan && cell__is_outside(im, recurrent->next_rows[i], s)) {
            BASE_TRY(cell__connect_input(plans, recurrent->next_rows[i], stage, &input));
        }
    }
    return BASE_OK;
}

/* Every edge between stages becomes an input here and an output there. */
enum base_status cell__connect_stages(struct cell__plans *plans)
{
    struct cell__import *im = plans->im;
    for (uint32_t s = 0; s < plans->n; s++) {
        if (plans->stages[s].kind == CELL_STAGE_CHAIN) {
            BASE_TRY(connect_chain(plans, s));
        }
    }
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        for (uint32_t i = 0; row->stage != CELL__NONE && i < row->op.n_operands; i++) {
            BASE_TRY(connect_operand(plans, row, i));
        }
    }
    return BASE_OK;
}
