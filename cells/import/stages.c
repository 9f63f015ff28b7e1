/* From planned stages to cell definitions and the model's program. One definition is at work at a
 * time; the whole costs a few passes over the row expressions. */
#include "cells/import/stages.h"

#include "cells/import/feed_back.h"
#include "cells/import/plan.h"
#include "cells/import/recognise.h"

#include "base/assert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Definitions -------------------------------------------------------------------------- */

static enum base_status def_value(struct cell__plans *plans, struct cell_value value, uint32_t *out)
{
    struct cell_def *def = &plans->def;
    if (def->n_values == CELL_VALUES_MAX) {
        return cell__too_many(plans->im, CELL_VALUES_MAX, "values in one stage");
    }
    *out = def->n_values;
    def->values[def->n_values++] = value;
    return BASE_OK;
}

/* Appends an op whose operands are value numbers already. */
static enum base_status def_op(struct cell__plans *plans, const struct cell_op *op,
                               struct cell_value value, uint32_t *out)
{
    struct cell_def *def = &plans->def;
    if (def->n_ops == CELL_OPS_MAX) {
        return cell__too_many(plans->im, CELL_OPS_MAX, "operations in one stage");
    }
    BASE_TRY(def_value(plans, value, out));
    def->ops[def->n_ops] = *op;
    def->ops[def->n_ops++].result = *out;
    return BASE_OK;
}

static struct cell_value row_value(const struct cell__plans *plans, const struct cell_model *model,
                                   struct cell_source source)
{
    const struct cell__import *im = plans->im;
    const struct cell__plan *stage = &plans->stages[source.stage];
    switch (source.kind) {
    case CELL_SOURCE_INPUT:
        return (struct cell_value){model->inputs[source.index].dtype,
                                   model->inputs[source.index].width /
                                       model->inputs[source.index].pieces};
    case CELL_SOURCE_EACH:
    case CELL_SOURCE_FIRST:
    case CELL_SOURCE_LAST:
    case CELL_SOURCE_LAST_STATE:
        if (stage->kind == CELL_STAGE_CHAIN && source.kind == CELL_SOURCE_LAST_STATE) {
            return im->recurrents[stage->recurrent].states[source.index];
        }
        if (stage->kind == CELL_STAGE_CHAIN && !im->recurrents[stage->recurrent].is_scan) {
            return im->recurrents[stage->recurrent].states[0];
        }
        return im->rows[stage->output_rows[source.index]].value;
    case CELL_SOURCE_MEMORY:
        return (struct cell_value){
            CELL_F32, source.count > 0 ? source.count : plans->memories[source.index].width};
    case CELL_SOURCE_JOIN:
        return (struct cell_value){CELL_F32, plans->joins[source.index].width};
    case CELL_SOURCE_NUMBER:
        return (struct cell_value){CELL_I64, 1};
    case CELL_SOURCE_ZERO:
    case CELL_SOURCE_CHILD:
    case CELL_SOURCE_START:
    case CELL_SOURCE_TAKEN:
    case CELL_SOURCE_KEPT:
    case CELL_SOURCE_COUNT:
        break;
    }
    base_assert(false);
    return (struct cell_value){CELL_F32, 1};
}

/* The same of a source that may be a window. */
static struct cell_value source_value(const struct cell__plans *plans,
                                      const struct cell_model *model, struct cell_source source)
{
    struct cell_value value = row_value(plans, model, source);
    const bool is_window = source.kind != CELL_SOURCE_MEMORY && source.count > 0;
    value.width /= source.parts > 0 ? source.parts : 1;
    value.width *= is_window ? source.count : 1;
    return value;
}

static enum base_status def_begin(struct cell__plans *plans, const struct cell_model *model,
                                  const struct cell__plan *stage)
{
    uint32_t ignored = 0;
    plans->def =
        (struct cell_def){.n_inputs = stage->n_inputs, .as_written = model->options.as_written};
    for (uint32_t i = 0; i < stage->n_inputs; i++) {
        BASE_TRY(def_value(plans, source_value(plans, model, stage->inputs[i]), &ignored));
    }
    return BASE_OK;
}

static enum base_status define_chain(struct cell__plans *plans, const struct cell_model *model,
                                     struct cell__plan *stage)
{
    const struct cell__recurrent *recurrent = &plans->im->recurrents[stage->recurrent];
    struct cell_def *def = &plans->def;
    const struct cell_value state = recurrent->states[0];
    struct cell_op op = recurrent->op;
    op.operands[0] = 0; // x
    op.n_operands = 1;
    BASE_TRY(def_begin(plans, model, stage));
    def->n_states = recurrent->n_states;
    for (uint32_t s = 0; s < def->n_states; s++) {
        BASE_TRY(def_value(plans, state, &op.operands[op.n_operands++]));
    }
    if (stage->fused != CELL__NONE) {
        const struct cell__row *row = &plans->im->rows[stage->fused];
        struct cell_op fused = row->op;
        for (uint32_t i = 0; i < fused.n_operands; i++) {
            BASE_TRY(cell__connect_input(plans, row->op.operands[i], stage, &fused.operands[i]));
        }
        BASE_TRY(def_op(plans, &fused, row->value, &op.operands[0]));
    }
    BASE_TRY(def_op(plans, &op, state, &def->state_next[0])); // its results are the next states
    for (uint32_t s = 1; s < def->n_states; s++) {
        BASE_TRY(def_value(plans, state, &def->state_next[s]));
    }
    def->n_outputs = 1;
    def->outputs[0] = def->state_next[0];
    return BASE_OK;
}

/* Value number of an operand in the definition at work. */
static enum base_status define_operand(struct cell__plans *plans, uint32_t s, uint32_t operand,
                                       uint32_t *out)
{
    struct cell__import *im = plans->im;
    struct cell__row *row = &im->rows[operand];
    if (row->kind == CELL__ROW_IN) {
        *out = plans->def.n_inputs + row->part; // states stand behind the inputs
        return BASE_OK;
    }
    if (cell__is_outside(im, operand, s)) {
        return cell__connect_input(plans, operand, &plans->stages[s], out);
    }
    if (row->kind == CELL__ROW_CONST && row->stage != s) {
        row->stage = s; // constants belong to the stage that used them last
        BASE_TRY(def_op(plans, &row->op, row->value, &row->number));
    }
    *out = row->number;
    return BASE_OK;
}

/* The same of operand i of an op of the stage. */
static enum base_status define_operand_of(struct cell__plans *plans, const struct cell__row *row,
                                          uint32_t i, uint32_t *out)
{
    const uint32_t operand = row->op.operands[i];
    return cell__is_memory(row, i) && !plans->im->is_part
               ? cell__connect_memory(plans, operand, &plans->stages[row->stage], out)
               : define_operand(plans, row->stage, operand, out);
}

/* The ops of a stage, in their order. */
static enum base_status define_ops(struct cell__plans *plans, uint32_t s)
{
    struct cell__import *im = plans->im;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        struct cell__row *row = &im->rows[r];
        if (row->kind != CELL__ROW_OP || row->stage != s) {
            continue;
        }
        struct cell_op op = row->op;
        for (uint32_t i = 0; i < op.n_operands; i++) {
            BASE_TRY(define_operand_of(plans, row, i, &op.operands[i]));
        }
        BASE_TRY(def_op(plans, &op, row->value, &row->number));
        for (uint32_t i = 1; i < cell_op_results(op.kind); i++) { // which no row is
            BASE_TRY(def_value(plans, row->value, &(uint32_t){0}));
        }
    }
    return BASE_OK;
}

static void define_outputs(struct cell__plans *plans, const struct cell__plan *stage)
{
    plans->def.n_outputs = stage->n_outputs;
    for (uint32_t i = 0; i < stage->n_outputs; i++) {
        plans->def.outputs[i] = plans->im->rows[stage->output_rows[i]].number;
    }
}

static enum base_status define_rows(struct cell__plans *plans, struct cell_model *model, uint32_t s)
{
    struct cell__plan *stage = &plans->stages[s];
    BASE_TRY(def_begin(plans, model, stage));
    BASE_TRY(define_ops(plans, s));
    define_outputs(plans, stage);
    if (model->options.feeds_back) {
        const struct cell__fed fed = {
            .def = &plans->def, .inputs = stage->inputs, .init = stage->init};
        BASE_TRY(cell__feed_back(plans->im, model, &fed));
        stage->kind = CELL_STAGE_DECODER;
    }
    return plans->im->is_part && !model->options.as_written
               ? cell__recognise(plans->im, &plans->def)
               : BASE_OK;
}

/* The body of a Scan. */
static enum base_status define_body(struct cell__plans *plans, const struct cell_model *model,
                                    uint32_t s)
{
    const struct cell__plan *stage = &plans->stages[s];
    const struct cell__recurrent *scan = &plans->im->recurrents[stage->recurrent];
    uint32_t ignored = 0;
    BASE_TRY(def_begin(plans, model, stage));
    plans->def.n_states = scan->n_states;
    for (uint32_t i = 0; i < scan->n_states; i++) {
        BASE_TRY(def_value(plans, scan->states[i], &ignored));
    }
    BASE_TRY(define_ops(plans, s));
    for (uint32_t i = 0; i < scan->n_states; i++) {
        BASE_TRY(define_operand(plans, s, scan->next_rows[i], &plans->def.state_next[i]));
    }
    define_outputs(plans, stage);
    return model->options.as_written ? BASE_OK : cell__recognise(plans->im, &plans->def);
}

static enum base_status define_stage(struct cell__plans *plans, struct cell_model *model,
                                     uint32_t s)
{
    struct cell__plan *plan = &plans->stages[s];
    if (plan->kind != CELL_STAGE_CHAIN) {
        return define_rows(plans, model, s);
    }
    return plans->im->recurrents[plan->recurrent].is_scan ? define_body(plans, model, s)
                                                          : define_chain(plans, model, plan);
}

/* What a stage is called in metrics. */
static const char *stage_word(const struct cell__plans *plans, const struct cell__plan *plan)
{
    if (plan->kind != CELL_STAGE_CHAIN) {
        return plan->kind == CELL_STAGE_ONCE ? "once" : "each";
    }
    return plans->im->recurrents[plan->recurrent].word;
}

/* The constant of the file in which a weight stands that was refused: where it lies, or, where
 * weights were copied from others, the first that holds the like. NULL: none. */
static const struct cell__value *constant_with(const struct cell__import *im, const float *element,
                                               size_t *at)
{
    const struct cell__value *found = NULL;
    for (uint32_t v = 0; v < im->n_values; v++) {
        const struct cell__value *value = &im->values[v];
        const bool is_floats = value->kind == CELL__CONST && value->tensor.dtype == CELL__F32;
        const float *data = value->tensor.data;
        for (size_t i = 0; is_floats && i < value->tensor.count; i++) {
            const bool is_it = &data[i] == element && value->node == CELL__NONE;
            const bool is_like = isnan(*element) ? isnan(data[i]) : data[i] == *element;
            if (is_it || (is_like && found == NULL)) {
                found = value;
                *at = i;
            }
            if (is_it) {
                return found;
            }
        }
    }
    return found;
}

/* An op has numbers for its weights; whoever made the file knows their names. */
static void name_constant(struct cell__import *im, const struct cell_def *def)
{
    char name[CELL__TEXT_BYTES];
    char text[CELL__TEXT_BYTES];
    size_t at = 0;
    const float *element = cell_def_bad_element(def);
    const struct cell__value *value = element == NULL ? NULL : constant_with(im, element, &at);
    if (value != NULL) {
        const struct base_error why = *im->error;
        (void)base_fail(im->error, why.status,
                        "%.230s; constant \"%s\", %s, has such as number %zu", why.message,
                        cell__quote(name, value->name), cell__tensor_text(text, &value->tensor),
                        at);
    }
}

static enum base_status intern_stage(struct cell__plans *plans, struct cell_registry *registry,
                                     struct cell_model *model, uint32_t s)
{
    const struct cell__plan *plan = &plans->stages[s];
    const char *word = stage_word(plans, plan);
    struct cell_stage *stage = &model->stages[s];
    bool is_new = false;
    char name[64];
    BASE_TRY(define_stage(plans, model, s));
    for (uint32_t o = 0; o < plans->def.n_ops; o++) {
        struct cell_op *op = &plans->def.ops[o];
        op->precision = cell_op_gates(op->kind) > 0  ? model->options.precision
                        : op->kind == CELL_OP_LINEAR ? model->options.linear_precision
                                                     : CELL_FP32;
    }
    plans->def.products = model->options.products;
    uint32_t same = 0;
    for (uint32_t i = 0; i < s; i++) {
        same += strcmp(stage_word(plans, &plans->stages[i]), word) == 0 ? 1 : 0;
    }
    if (plans->im->is_part) { // its label says which part of the model it is
        snprintf(name, sizeof(name), "%s", plans->im->label);
    } else if (same == 0) {
        snprintf(name, sizeof(name), "%.48s/%s", plans->im->label, word);
    } else {
        snprintf(name, sizeof(name), "%.48s/%s%u", plans->im->label, word, same + 1);
    }
    const enum base_status status =
        cell_registry_intern(registry, &plans->def, name, &stage->type, &is_new, plans->im->error);
    if (status != BASE_OK) {
        name_constant(plans->im, &plans->def);
        return status;
    }
    model->n_stages = s + 1;
    stage->kind = plan->kind;
    stage->sequence = plan->sequence;
    stage->is_shared = plan->is_shared;
    stage->is_reverse =
        plan->kind == CELL_STAGE_CHAIN && plans->im->recurrents[plan->recurrent].is_reverse;
    memcpy(stage->inputs, plan->inputs, sizeof(stage->inputs));
    memcpy(stage->init, plan->init, sizeof(stage->init));
    return BASE_OK;
}

enum base_status cell__stages_build(struct cell__import *im, struct cell_registry *registry,
                                    uint32_t (*output_rows)[CELL_PIECES_MAX],
                                    struct cell_model *model)
{
    struct cell__plans *plans = base_arena_alloc(im->arena, sizeof(*plans));
    if (plans == NULL) {
        return cell__no_memory(im);
    }
    plans->im = im;
    cell__plan_needed(im, model, output_rows);
    cell__note_empty(im, output_rows, model);
    BASE_TRY(cell__plan_stages(plans));
    if (im->is_part && plans->n > 1) { // only what has steps makes a second one
        return cell__refuse(im, "an output has a row for each step of the source");
    }
    BASE_TRY(cell__connect_stages(plans));
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        for (uint32_t p = 0; p < model->outputs[i].pieces; p++) {
            BASE_TRY(cell__source_of(plans, output_rows[i][p], &model->output_sources[i][p]));
        }
    }
    model->reach = plans->reach;
    model->n_memories = plans->n_memories;
    memcpy(model->memories, plans->memories, sizeof(model->memories));
    model->n_joins = plans->n_joins;
    memcpy(model->joins, plans->joins, sizeof(model->joins));
    enum base_status status = BASE_OK;
    for (uint32_t s = 0; s < plans->n && status == BASE_OK; s++) {
        status = intern_stage(plans, registry, model, s);
    }
    for (uint32_t s = 0; s < model->n_stages && status != BASE_OK; s++) {
        cell_type_unref(registry, model->stages[s].type);
    }
    return status;
}
