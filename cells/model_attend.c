/* See model_attend.h. Bounds are sums of the step's number and of constants, whoever wrote the
 * mask (cells/import/attend_bounds.c), and so is where relative positions begin
 * (attend_relative.c): so a cell's ops are gone through once, in their order. */
#include "cells/model_attend.h"

/* What is known of a value: of n elements, up to 3, that each is a constant, plus the step's
 * number, of what is attended to, or less it: counts 1 or -1. */
struct known {
    uint32_t n; /* 0: nothing */
    int32_t counts[3];
    double add[3];
};

struct look {
    struct known values[CELL_VALUES_MAX];
    struct cell_attended attended;
    const char *why;
};

static struct known known_constant(const struct cell_op *op)
{
    const struct cell_weight *weight = &op->weights[0];
    const bool is_number = weight->dtype == CELL_F32 && weight->cols == 1;
    struct known known = {.n = is_number ? 1 : 0};
    if (is_number) {
        known.add[0] = (double)((const float *)weight->data)[0];
    }
    return known;
}

/* sign: of b. */
static struct known known_sum(const struct known *a, const struct known *b, int32_t sign)
{
    if (a->n != 1 || b->n != 1 || (a->counts[0] != 0 && b->counts[0] != 0)) {
        return (struct known){.n = 0};
    }
    return (struct known){.n = 1,
                          .counts = {a->counts[0] + sign * b->counts[0]},
                          .add = {a->add[0] + sign * b->add[0]}};
}

/* Side by side, each of one element. */
static struct known known_row(const struct look *look, const struct cell_op *op)
{
    struct known row = {.n = 0};
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct known *part = &look->values[op->operands[i]];
        if (part->n != 1 || op->n_operands > 3) {
            return (struct known){.n = 0};
        }
        row.counts[row.n] = part->counts[0];
        row.add[row.n++] = part->add[0];
    }
    return row;
}

static struct known known_result(const struct look *look, const struct cell_op *op)
{
    const struct known *first = &look->values[op->operands[0]];
    const struct known *second = &look->values[op->operands[1]];
    switch ((int)op->kind) {
    case CELL_OP_CONST:
        return known_constant(op);
    case CELL_OP_CAST:
        return *first;
    case CELL_OP_ADD:
        return known_sum(first, second, 1);
    case CELL_OP_SUB:
        return known_sum(first, second, -1);
    case CELL_OP_CONCAT:
        return known_row(look, op);
    default:
        return (struct known){.n = 0};
    }
}

static void take_bounds(struct look *look, const struct cell_op *op)
{
    const struct known *bounds = op->n_operands > 3 ? &look->values[op->operands[3]] : NULL;
    const uint32_t n = op->n_operands > 4 ? 3 : 2;
    if (bounds == NULL || bounds->n != n || bounds->counts[0] < 0 || bounds->counts[1] < 0 ||
        (bounds->counts[0] == 0 && bounds->add[0] > 0.0)) {
        look->why = "attends to all steps, of which some may be in other requests";
        return;
    }
    if (bounds->counts[1] == 0) {
        look->why = "attends to all steps behind its own, which may be in later requests";
        return;
    }
    if (n == 3 && bounds->counts[2] != -1) {
        look->why = "attends by something else than how far apart steps are";
        return;
    }
    const int64_t from = bounds->counts[0] != 0 ? (int64_t)bounds->add[0] : CELL_ATTENDED_ALL;
    const int64_t to = (int64_t)bounds->add[1] - 1;
    struct cell_attended *all = &look->attended;
    all->from = !all->is_on || from < all->from ? from : all->from;
    all->to = !all->is_on || to > all->to ? to : all->to;
    all->is_on = true;
}

static void take_op(struct look *look, const struct cell_op *op)
{
    look->values[op->result] = known_result(look, op);
    if (op->kind == CELL_OP_ATTEND) {
        take_bounds(look, op);
    } else if (op->n_operands > 0 && cell_op_takes_rows(op, 0)) {
        look->why = "reads all steps, of which some may be in other requests";
    }
}

const char *cell__attend_find(const struct cell_model *model, uint32_t stage,
                              struct cell_attended *out)
{
    const struct cell_stage *of = &model->stages[stage];
    const struct cell_def *def = &of->type->def;
    struct look look = {.why = NULL};
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        const bool is_number =
            of->inputs[i].kind == CELL_SOURCE_NUMBER && of->inputs[i].index == CELL_NUMBER_ATTENDED;
        look.values[i] = (struct known){.n = is_number ? 1 : 0, .counts = {is_number ? 1 : 0}};
    }
    for (uint32_t k = 0; k < def->n_ops && look.why == NULL; k++) {
        take_op(&look, &def->ops[k]);
    }
    *out = look.attended;
    return look.why;
}
