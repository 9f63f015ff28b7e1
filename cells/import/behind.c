/* See behind.h. Rows are gone through once, operands before what is made of them. */
#include "cells/import/behind.h"

#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/ref/pointwise.h"

#include <math.h>

/* Of a row; what is not known is some number. */
struct behind {
    bool is_known;
    float value;
};

struct walk {
    const struct cell__import *im;
    uint32_t sequence; /* that has the lengths */
    struct behind *at;
};

static const struct behind unknown = {.is_known = false};

uint32_t cell__sequence_of_mirror(const struct cell__import *im, uint32_t sequence)
{
    const struct cell__axis own = {.n = 1, .atoms = {im->sequences[sequence].atom}};
    for (uint32_t s = 0; s < im->n_sequences; s++) {
        const struct cell__axis axis = {.n = 1, .atoms = {im->sequences[s].atom}};
        if (s != sequence && cell__axis_is_mirror(im, &own, &axis)) {
            return s;
        }
    }
    return sequence;
}

bool cell__sequence_has_lengths(const struct cell__import *im, uint32_t sequence)
{
    return im->sequences[cell__sequence_of_mirror(im, sequence)].uses_lengths;
}

static struct behind known(float value)
{
    return (struct behind){.is_known = true, .value = value};
}

static bool is_masked(const struct behind *x)
{
    return x->is_known && x->value <= CELL__MASKED;
}

static bool is_zero(const struct behind *x)
{
    return x->is_known && x->value <= 0.0f && x->value >= 0.0f;
}

/* ---- Operations ----------------------------------------------------------------------------- */

/* The number of a step that is behind. */
static bool is_number(const struct walk *walk, uint32_t row)
{
    const struct cell__row *at = &walk->im->rows[cell__row_uncast(walk->im, row)];
    return at->kind == CELL__ROW_NUMBER &&
           cell__sequence_of_mirror(walk->im, at->index) == walk->sequence;
}

/* The lengths themselves. */
static bool is_length(const struct walk *walk, uint32_t row)
{
    const struct cell__row *at = &walk->im->rows[cell__row_uncast(walk->im, row)];
    return at->kind == CELL__ROW_INPUT && at->times == 0 &&
           (int32_t)at->index == walk->im->sequences[walk->sequence].lengths_input;
}

/* a < b, or a <= b, of a step's number, which is the length at least, and the length. */
static struct behind compared(const struct walk *walk, const struct cell_op *op)
{
    const uint32_t *operands = op->operands;
    if (op->kind == CELL_OP_LESS && is_number(walk, operands[0]) && is_length(walk, operands[1])) {
        return known(0.0f);
    }
    return op->kind == CELL_OP_LESS_EQUAL && is_length(walk, operands[0]) &&
                   is_number(walk, operands[1])
               ? known(1.0f)
               : unknown;
}

/* Where some operands are not known. */
static struct behind in_part(const struct walk *walk, const struct cell_op *op,
                             const struct behind in[3])
{
    switch ((unsigned)op->kind) {
    case CELL_OP_MUL:
        return is_zero(&in[0]) || is_zero(&in[1]) ? known(0.0f) : unknown;
    case CELL_OP_DIV:
        return is_zero(&in[0]) ? known(0.0f) : unknown;
    case CELL_OP_ADD:
    case CELL_OP_MIN:
        return is_masked(&in[0]) ? in[0] : is_masked(&in[1]) ? in[1] : unknown;
    case CELL_OP_SUB:
        return is_masked(&in[0]) ? in[0] : unknown;
    case CELL_OP_SELECT:
        return !in[0].is_known ? unknown : in[0].value > 0.0f ? in[1] : in[2];
    case CELL_OP_LESS:
    case CELL_OP_LESS_EQUAL:
        return compared(walk, op);
    default:
        return unknown;
    }
}

static struct behind pointwise(const struct walk *walk, const struct cell_op *op)
{
    struct behind in[3] = {unknown, unknown, unknown};
    bool is_known = true;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        in[i] = walk->at[op->operands[i]];
        is_known = is_known && in[i].is_known;
    }
    return is_known
               ? known(cell_pointwise_f32__scalar(op->kind, in[0].value, in[1].value, in[2].value))
               : in_part(walk, op, in);
}

/* Elements that are all the same. */
static struct behind of_floats(const float *floats, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++) {
        if (!(floats[k] <= floats[0] && floats[k] >= floats[0])) {
            return unknown;
        }
    }
    return known(floats[0]);
}

/* Of zeros the bias. */
static struct behind linear(const struct walk *walk, const struct cell_op *op)
{
    const struct behind in = walk->at[op->operands[0]];
    if (!is_zero(&in) || op->weights[0].dtype != CELL_F32) {
        return unknown;
    }
    return op->n_weights > 1 ? of_floats(op->weights[1].data, op->weights[1].cols) : in;
}

static struct behind of_parts(const struct walk *walk, const struct cell_op *op)
{
    const struct behind first = walk->at[op->operands[0]];
    for (uint32_t i = 1; i < op->n_operands; i++) {
        const struct behind other = walk->at[op->operands[i]];
        if (!first.is_known || !other.is_known || !(other.value <= first.value) ||
            !(other.value >= first.value)) {
            return unknown;
        }
    }
    return first;
}

static struct behind of_op(const struct walk *walk, uint32_t row)
{
    const struct cell__row *at = &walk->im->rows[row];
    const struct cell_op *op = &at->op;
    if (cell__row_is_mirror(walk->im, row)) {
        return walk->at[walk->im->rows[op->operands[0]].index];
    }
    switch ((unsigned)op->kind) {
    case CELL_OP_LINEAR:
        return linear(walk, op);
    case CELL_OP_CONCAT:
        return of_parts(walk, op);
    case CELL_OP_CAST:
        return at->value.dtype == CELL_F32 ? walk->at[op->operands[0]] : unknown;
    case CELL_OP_COPY:
    case CELL_OP_SLICE:
    case CELL_OP_TRANSPOSE:
    case CELL_OP_MEAN:
        return walk->at[op->operands[0]];
    default:
        return cell_op_is_pointwise(op->kind) ? pointwise(walk, op) : unknown;
    }
}

static struct behind of_row(const struct walk *walk, uint32_t row)
{
    const struct cell__row *at = &walk->im->rows[row];
    if (at->kind == CELL__ROW_CONST && at->value.dtype == CELL_F32) {
        return of_floats(at->op.weights[0].data, at->value.width);
    }
    if (at->kind == CELL__ROW_STEP && at->times == 1u << walk->sequence) {
        return known(0.0f); // all nodes of a sequence have the same lengths
    }
    return at->kind == CELL__ROW_OP ? of_op(walk, row) : unknown;
}

enum base_status cell__row_behind(struct cell__import *im, uint32_t row, uint32_t sequence,
                                  bool *is_known, float *out)
{
    struct walk walk = {.im = im, .sequence = cell__sequence_of_mirror(im, sequence)};
    const struct cell__sequence *of = &im->sequences[walk.sequence];
    *is_known = false;
    if (!of->has_lengths || of->lengths_input < 0) {
        return BASE_OK;
    }
    walk.at = cell__scratch(im, CELL__SCRATCH_BEHIND, (size_t)row + 1, sizeof(*walk.at));
    if (walk.at == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t r = 0; r <= row; r++) {
        walk.at[r] = of_row(&walk, r);
    }
    *is_known = walk.at[row].is_known;
    *out = walk.at[row].value;
    return BASE_OK;
}
