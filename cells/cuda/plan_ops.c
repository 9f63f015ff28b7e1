/* Chains of element-wise ops, and all ops that are neither products nor a matter of places; see
 * plan.h. */
#include "cells/cuda/plan.h"

#include "base/assert.h"

/* ---- Chains of element-wise ops ------------------------------------------------------------- */

/* A chain while it is made: numbers of the definition's values, and what was computed before. */
struct chain {
    struct cell_step_chain step;
    uint32_t n_values;
    uint32_t values[CELL_STEP_CHAIN_VALUES];
};

static uint32_t chain_value(struct cell_cuda__plan *plan, struct chain *chain, uint32_t value,
                            bool is_result)
{
    for (uint32_t v = 0; v < chain->n_values; v++) {
        if (chain->values[v] == value) {
            return v;
        }
    }
    const uint32_t v = chain->n_values++;
    chain->values[v] = value;
    if (!is_result) {
        chain->step.is_read |= UINT64_C(1) << v;
        chain->step.is_single |= (uint64_t)(plan->def->values[value].width == 1) << v;
        chain->step.values[v] = cell_cuda__place(plan, value);
    }
    return v;
}

/* Whether anything but the ops first..end-1 reads the value. */
static bool is_read_elsewhere(const struct cell_def *def, uint32_t value, uint32_t first,
                              uint32_t end)
{
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        const uint32_t n = o < first || o >= end ? op->n_operands : 0;
        for (uint32_t i = 0; i < n; i++) {
            if (op->operands[i] == value) {
                return true;
            }
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        if (def->state_next[s] == value) {
            return true;
        }
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        if (def->outputs[o] == value) {
            return true;
        }
    }
    return false;
}

uint32_t cell_cuda__plan_chain(struct cell_cuda__plan *plan, uint32_t first)
{
    const struct cell_def *def = plan->def;
    const uint32_t width = def->values[def->ops[first].result].width;
    struct chain chain = {.step = {.width = width}};
    uint32_t end = first;
    while (end < def->n_ops && end - first < CELL_STEP_CHAIN_OPS &&
           cell_op_is_pointwise(def->ops[end].kind) &&
           def->values[def->ops[end].result].width == width &&
           chain.n_values + def->ops[end].n_operands + 1 <= CELL_STEP_CHAIN_VALUES &&
           (end == first || !def->as_written)) {
        const struct cell_op *op = &def->ops[end];
        struct cell_step_chain_op *out = &chain.step.ops[end - first];
        out->kind = (uint8_t)op->kind;
        for (uint32_t i = 0; i < 3; i++) {
            const uint32_t value = op->operands[i < op->n_operands ? i : 0];
            out->in[i] = (uint8_t)chain_value(plan, &chain, value, false);
        }
        out->out = (uint8_t)chain_value(plan, &chain, op->result, true);
        end++;
    }
    chain.step.n_ops = end - first;
    for (uint32_t o = first; o < end; o++) {
        struct cell_step_chain_op *out = &chain.step.ops[o - first];
        if (is_read_elsewhere(def, def->ops[o].result, first, end)) {
            out->is_stored = 1;
            chain.step.values[out->out] = cell_cuda__place(plan, def->ops[o].result);
        }
    }
    cell_cuda__add(plan, CELL_STEP_CHAIN, width, "element by element")->chain = chain.step;
    return end;
}

/* ---- Other ops ------------------------------------------------------------------------------ */

/* Each id of a row is looked up by itself. */
void cell_cuda__plan_lookup(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const struct cell_value *ids = &plan->def->values[op->operands[0]];
    const uint32_t words = cell_cuda__words(&plan->def->values[op->result]) / cell_op_patches(op);
    const cell_step_address table = cell_cuda__weight(plan, &op->weights[0]);
    const struct cell_step_place id = cell_cuda__place(plan, op->operands[0]);
    const struct cell_step_place out = cell_cuda__place(plan, op->result);
    for (uint32_t p = 0; p < cell_op_patches(op); p++) {
        cell_cuda__add(plan, CELL_STEP_LOOKUP, words, "GATHER")->lookup = (struct cell_step_lookup){
            .id = cell_cuda__columns(id, (size_t)p * cell_dtype_bytes(ids->dtype)),
            .out = cell_cuda__columns(out, (size_t)p * words * sizeof(float)),
            .table = table,
            .rows = op->weights[0].rows,
            .words = words,
            .is_long = ids->dtype == CELL_I64};
    }
}

void cell_cuda__plan_softmax(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const struct cell_step_place in = cell_cuda__place(plan, op->operands[0]);
    const struct cell_step_place out = cell_cuda__place(plan, op->result);
    const uint32_t groups = plan->def->values[op->result].width / op->group;
    cell_cuda__add(plan, CELL_STEP_SOFTMAX, groups, cell_op_name(op->kind))->softmax =
        (struct cell_step_softmax){.in = in,
                                   .out = out,
                                   .group = op->group,
                                   .groups = groups,
                                   .is_log = op->kind == CELL_OP_LOG_SOFTMAX ? 1 : 0};
}

void cell_cuda__plan_attend(struct cell_cuda__plan *plan, const struct cell_op *op,
                            const struct cell_step_batch *batch)
{
    const uint32_t width = op->weights[0].cols;
    const uint32_t out_width = plan->def->values[op->result].width;
    struct cell_step_attend attend = {.batch = *batch,
                                      .q = cell_cuda__place(plan, op->operands[0]),
                                      .out = cell_cuda__place(plan, op->result),
                                      .v = cell_cuda__weight(plan, &op->weights[0]),
                                      .width = width,
                                      .out_width = out_width,
                                      .keys = op->operands[1],
                                      .values = op->operands[2],
                                      .variant = op->variant,
                                      .nan_is_zero = op->nan_is_zero ? 1 : 0};
    if (op->n_operands > 3) {
        attend.bounds = cell_cuda__place(plan, op->operands[3]);
        attend.has_bounds = 1;
    }
    if (op->n_operands > 4) {
        attend.relative = cell_cuda__place(plan, op->operands[4]);
        attend.table = cell_cuda__weight(plan, &op->weights[1]);
        attend.table_rows = op->weights[1].rows;
        attend.table_width = op->weights[1].cols;
    }
    cell_cuda__add(plan, CELL_STEP_ATTEND_SCORE, CELL_STEP_SCORERS, "ATTEND")->attend_score =
        attend;
    cell_cuda__add(plan, CELL_STEP_ATTEND_WEIGH, 1, "ATTEND")->attend_weigh = attend;
    if (op->variant != CELL_ATTEND_LARGEST) {
        cell_cuda__add(plan, CELL_STEP_ATTEND, out_width, "ATTEND")->attend = attend;
    }
}

void cell_cuda__plan_reduce(struct cell_cuda__plan *plan, const struct cell_op *op,
                            const struct cell_step_batch *batch)
{
    const uint32_t width = plan->def->values[op->result].width;
    const struct cell_step_reduce reduce = {.batch = *batch,
                                            .out = cell_cuda__place(plan, op->result),
                                            .width = width,
                                            .memory = op->operands[0],
                                            .variant = op->variant};
    cell_cuda__add(plan, CELL_STEP_REDUCE, width, "REDUCE")->reduce = reduce;
}

void cell_cuda__plan_pick(struct cell_cuda__plan *plan, const struct cell_op *op,
                          const struct cell_step_batch *batch)
{
    const uint32_t width = plan->def->values[op->result].width;
    cell_cuda__add(plan, CELL_STEP_PICK, width, "PICK")->pick =
        (struct cell_step_pick){.batch = *batch,
                                .number = cell_cuda__place(plan, op->operands[1]),
                                .out = cell_cuda__place(plan, op->result),
                                .width = width,
                                .memory = op->operands[0]};
}

struct cell_step_picture cell_cuda__picture(const struct cell_cuda__plan *plan,
                                            const struct cell_op *op)
{
    const struct cell_picture *from = &op->picture;
    const uint32_t width = plan->def->values[op->operands[0]].width;
    struct cell_step_picture picture = {.across = from->left[1],
                                        .channels = width / (from->size[0] * from->size[1])};
    for (uint32_t i = 0; i < 2; i++) {
        picture.size[i] = from->size[i];
        picture.taps[i] = from->taps[i];
        picture.dilations[i] = from->dilations[i];
        picture.strides[i] = from->strides[i];
        picture.before[i] = from->before[i];
    }
    return picture;
}

static void plan_filter(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const uint32_t words = cell_cuda__words(&plan->def->values[op->result]);
    const struct cell_step_filter filter = {
        .in = cell_cuda__place(plan, op->operands[0]),
        .out = cell_cuda__place(plan, op->result),
        .picture = cell_cuda__picture(plan, op),
        .weights = op->n_weights > 0 ? cell_cuda__weight(plan, &op->weights[0]) : 0,
        .bias = op->n_weights > 1 ? cell_cuda__weight(plan, &op->weights[1]) : 0,
        .words = words};
    cell_cuda__add(plan, CELL_STEP_FILTER, words, "FILTER")->filter = filter;
}

void cell_cuda__plan_rowwise(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const struct cell_value *from = &plan->def->values[op->operands[0]];
    const struct cell_value *to = &plan->def->values[op->result];
    const struct cell_step_place in = cell_cuda__place(plan, op->operands[0]);
    const struct cell_step_place out = cell_cuda__place(plan, op->result);
    const char *about = cell_op_name(op->kind);
    if (op->kind == CELL_OP_SUM || op->kind == CELL_OP_MEAN) {
        cell_cuda__add(plan, CELL_STEP_MEAN, to->width, about)->mean =
            (struct cell_step_mean){.in = in,
                                    .out = out,
                                    .group = from->width / to->width,
                                    .groups = to->width,
                                    .is_sum = op->kind == CELL_OP_SUM ? 1 : 0};
    } else if (op->kind == CELL_OP_ARGMAX) {
        cell_cuda__add(plan, CELL_STEP_ARGMAX, 1, about)->argmax = (struct cell_step_argmax){
            .in = in, .out = out, .width = from->width, .is_long = to->dtype == CELL_I64 ? 1 : 0};
    } else if (op->kind == CELL_OP_TOP) {
        cell_cuda__add(plan, CELL_STEP_TOP, 1, about)->top =
            (struct cell_step_top){.in = in,
                                   .out = out,
                                   .width = from->width,
                                   .n = to->width,
                                   .is_largest = op->variant == CELL_TOP_LARGEST ? 1 : 0};
    } else if (op->kind == CELL_OP_TAKE) {
        const struct cell_step_place numbers = cell_cuda__place(plan, op->operands[1]);
        cell_cuda__add(plan, CELL_STEP_TAKE, to->width, about)->take = (struct cell_step_take){
            .in = in, .numbers = numbers, .out = out, .width = from->width, .n = to->width};
    } else if (op->kind == CELL_OP_FILTER) {
        plan_filter(plan, op);
    } else if (op->kind == CELL_OP_TRANSPOSE) {
        const uint32_t words = cell_cuda__words(to);
        cell_cuda__add(plan, CELL_STEP_TRANSPOSE, words, about)->transpose =
            (struct cell_step_transpose){.in = in,
                                         .out = out,
                                         .words = words,
                                         .rows = op->dims[1],
                                         .cols = op->dims[2],
                                         .block =
                                             words / (op->dims[0] * op->dims[1] * op->dims[2])};
    } else if (op->kind == CELL_OP_SPREAD) {
        const uint32_t words = cell_cuda__words(to);
        cell_cuda__add(plan, CELL_STEP_SPREAD, words, about)->spread =
            (struct cell_step_spread){.in = in,
                                      .out = out,
                                      .words = words,
                                      .times = op->dims[1],
                                      .block = words / (op->dims[0] * op->dims[1])};
    } else {
        base_assert(op->kind == CELL_OP_CAST);
        cell_cuda__add(plan, CELL_STEP_CAST, to->width, about)->cast =
            (struct cell_step_cast){.in = in,
                                    .out = out,
                                    .width = to->width,
                                    .from = (uint32_t)from->dtype,
                                    .to = (uint32_t)to->dtype};
    }
}
