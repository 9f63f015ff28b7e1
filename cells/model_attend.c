/* See model_attend.h. Bounds are sums of the step's number, or of where its chunk begins, and of
 * constants, whoever wrote the mask (cells/import/attend_bounds.c), and so is where relative
 * positions begin (attend_relative.c): so a cell's ops are gone through once, in their order. */
#include "cells/model_attend.h"

#include "base/divide.h"

#include <math.h>

/* Of the number of a step: it, its part of a chunk's length, or the number of its chunk. */
enum form { FORM_SUM, FORM_QUOTIENT, FORM_WHOLE };

/* What is known of a value: of n elements, up to 3, that each is a constant, plus the step's
 * number, of what is attended to, or less it: counts 1 or -1. Or, where there are chunks of so many
 * steps, plus the number of its chunk's first step. */
struct known {
    uint32_t n; /* 0: nothing */
    enum form form;
    int32_t counts[3];
    uint32_t chunks[3]; /* 1: of the step itself */
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
    struct known known = {.n = is_number ? 1 : 0, .chunks = {1}};
    if (is_number) {
        known.add[0] = (double)((const float *)weight->data)[0];
    }
    return known;
}

/* sign: of b. */
static struct known known_sum(const struct known *a, const struct known *b, int32_t sign)
{
    if (a->n != 1 || b->n != 1 || (a->counts[0] != 0 && b->counts[0] != 0) || a->form != FORM_SUM ||
        b->form != FORM_SUM) {
        return (struct known){.n = 0};
    }
    return (struct known){.n = 1,
                          .counts = {a->counts[0] + sign * b->counts[0]},
                          .chunks = {a->counts[0] != 0 ? a->chunks[0] : b->chunks[0]},
                          .add = {a->add[0] + sign * b->add[0]}};
}

/* A constant that is a whole number above 0, else 0. */
static uint32_t whole_of(const struct known *known)
{
    const bool is_whole = known->n == 1 && known->counts[0] == 0 && known->add[0] >= 1.0 &&
                          known->add[0] <= INT32_MAX && floor(known->add[0]) == known->add[0];
    return is_whole ? (uint32_t)known->add[0] : 0;
}

/* The step's number over the length of its chunk, rounded down, and times that again. */
static struct known known_chunk(enum cell_op_kind kind, const struct known *a,
                                const struct known *by)
{
    struct known out = *a;
    const uint32_t length = kind == CELL_OP_FLOOR ? a->chunks[0] : whole_of(by);
    const bool is_number = a->n == 1 && a->counts[0] == 1 && a->add[0] == 0.0;
    const bool is_divided = kind == CELL_OP_DIV && a->form == FORM_SUM && a->chunks[0] == 1;
    const bool is_floored = kind == CELL_OP_FLOOR && a->form == FORM_QUOTIENT;
    const bool is_first = kind == CELL_OP_MUL && a->form == FORM_WHOLE && a->chunks[0] == length;
    if (!is_number || length == 0 || (!is_divided && !is_floored && !is_first)) {
        return (struct known){.n = 0};
    }
    out.form = is_divided ? FORM_QUOTIENT : is_floored ? FORM_WHOLE : FORM_SUM;
    out.chunks[0] = length;
    return out;
}

/* Side by side, each of one element. */
static struct known known_row(const struct look *look, const struct cell_op *op)
{
    struct known row = {.n = 0};
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct known *part = &look->values[op->operands[i]];
        if (part->n != 1 || part->form != FORM_SUM || op->n_operands > 3) {
            return (struct known){.n = 0};
        }
        row.counts[row.n] = part->counts[0];
        row.chunks[row.n] = part->chunks[0];
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
    case CELL_OP_DIV:
    case CELL_OP_FLOOR:
    case CELL_OP_MUL:
        return known_chunk(op->kind, first, second);
    case CELL_OP_CONCAT:
        return known_row(look, op);
    default:
        return (struct known){.n = 0};
    }
}

/* What one attention reads, beside others of the stage. */
static void join(struct look *look, const struct cell_attended *one)
{
    struct cell_attended *all = &look->attended;
    if (all->is_on && (all->from_chunk != one->from_chunk || all->to_chunk != one->to_chunk)) {
        look->why = "attends to steps and to chunks, or to chunks of two lengths";
        return;
    }
    const bool is_first = !all->is_on;
    const int64_t from = is_first || one->from < all->from ? one->from : all->from;
    const int64_t to = is_first || one->to > all->to ? one->to : all->to;
    *all = *one;
    all->from = from;
    all->to = to;
    all->is_on = true;
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
    const uint32_t of_from = bounds->counts[0] != 0 ? bounds->chunks[0] : 1;
    const uint32_t of_to = bounds->chunks[1];
    if (of_from > 1 && of_to > 1 && of_from != of_to) {
        look->why = "attends to chunks of two lengths";
        return;
    }
    const uint32_t chunk = of_from > of_to ? of_from : of_to;
    int64_t from = CELL_ATTENDED_ALL;
    if (bounds->counts[0] != 0) {
        from = base_floor_divide((int64_t)bounds->add[0], chunk) * chunk;
    }
    join(look, &(struct cell_attended){.from_chunk = chunk,
                                       .to_chunk = of_to,
                                       .from = from,
                                       .to = (int64_t)bounds->add[1] - 1});
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
    struct look look = {.why = NULL, .attended = {.from_chunk = 1, .to_chunk = 1}};
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        const bool is_number =
            of->inputs[i].kind == CELL_SOURCE_NUMBER && of->inputs[i].index == CELL_NUMBER_ATTENDED;
        look.values[i] =
            (struct known){.n = is_number ? 1 : 0, .counts = {is_number ? 1 : 0}, .chunks = {1}};
    }
    for (uint32_t k = 0; k < def->n_ops && look.why == NULL; k++) {
        take_op(&look, &def->ops[k]);
    }
    *out = look.attended;
    return look.why;
}
