/* See behind.h. Rows are gone through once, operands before what is made of them. */
#include "cells/import/behind.h"

#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/ref/pointwise.h"

#include <math.h>

/* What is known of a row: a number, or what it is about. Of what a step computes nothing is known,
 * and it is taken to be about 0: of a size beside which what is masked counts nothing. NaN: it may
 * be any number. */
struct behind {
    bool is_exact;
    float value;
};

struct walk {
    const struct cell__import *im;
    uint32_t sequence; /* that has the lengths */
    uint32_t source;   /* which has as many steps, and no lengths, or NONE */
    bool is_there;     /* of a step that a row has, in place of one behind */
    struct behind *at;
};

static const struct behind some = {.value = 0.0f};
static const struct behind any = {.value = NAN};

/* Of sizes between these nothing follows: what is about 0 is within the first, a mask is beyond the
 * second. */
#define SMALL (-CELL__MASKED / 2)

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

static struct behind exactly(float value)
{
    return (struct behind){.is_exact = true, .value = value};
}

static struct behind about(float value)
{
    return (struct behind){.value = value};
}

static bool is_low(const struct behind *x)
{
    return x->value <= -SMALL;
}

static bool is_high(const struct behind *x)
{
    return x->value >= SMALL;
}

static bool is_small(const struct behind *x)
{
    return x->value > -SMALL && x->value < SMALL;
}

static bool is_zero(const struct behind *x)
{
    return x->is_exact && x->value <= 0.0f && x->value >= 0.0f;
}

static bool is_same(const struct behind *x, const struct behind *y)
{
    return x->is_exact && y->is_exact && x->value <= y->value && x->value >= y->value;
}

/* ---- Operations ----------------------------------------------------------------------------- */

/* The number of a step. */
static bool is_number(const struct walk *walk, uint32_t row)
{
    const struct cell__row *at = &walk->im->rows[cell__row_uncast(walk->im, row)];
    return at->kind == CELL__ROW_NUMBER &&
           (at->index == walk->source ||
            cell__sequence_of_mirror(walk->im, at->index) == walk->sequence);
}

/* The lengths themselves. */
static bool is_length(const struct walk *walk, uint32_t row)
{
    const struct cell__sequence *of = &walk->im->sequences[walk->sequence];
    struct cell_told told;
    uint32_t input = 0;
    return cell__row_told(walk->im, row, &told, &input) && (int32_t)input == of->lengths_input &&
           cell__told_is_same(told, of->told);
}

/* a < b, or a <= b, of a step's number, which behind is the length at least and of one that is
 * there less, and the length. */
static struct behind compared(const struct walk *walk, const struct cell_op *op)
{
    const uint32_t *operands = op->operands;
    if (op->kind == CELL_OP_LESS && is_number(walk, operands[0]) && is_length(walk, operands[1])) {
        return exactly(walk->is_there ? 1.0f : 0.0f);
    }
    return op->kind == CELL_OP_LESS_EQUAL && is_length(walk, operands[0]) &&
                   is_number(walk, operands[1])
               ? exactly(walk->is_there ? 0.0f : 1.0f)
               : some;
}

/* sign -1: the smaller one. */
static struct behind larger(const struct behind *x, const struct behind *y, float sign)
{
    const float by = sign * (x->value - y->value);
    return isnan(by)      ? any
           : by >= SMALL  ? *x
           : by <= -SMALL ? *y
                          : about(by > 0.0f ? x->value : y->value);
}

static struct behind product(const struct behind *x, const struct behind *y)
{
    if (is_zero(x) || is_zero(y)) {
        return isinf(x->value) || isinf(y->value) ? any : exactly(0.0f);
    }
    return x->is_exact || y->is_exact   ? about(x->value * y->value)
           : is_small(x) && is_small(y) ? some
                                        : any;
}

static struct behind quotient(const struct behind *x, const struct behind *y)
{
    return is_zero(x) ? *x : y->is_exact ? about(x->value / y->value) : is_small(x) ? some : any;
}

/* a < b, or a <= b. */
static struct behind less(const struct walk *walk, const struct cell_op *op,
                          const struct behind in[2])
{
    const float by = in[1].value - in[0].value;
    return by >= SMALL ? exactly(1.0f) : by <= -SMALL ? exactly(0.0f) : compared(walk, op);
}

static struct behind selected(const struct behind in[3])
{
    if (in[0].is_exact || is_low(&in[0]) || is_high(&in[0])) {
        return in[0].value > 0.0f ? in[1] : in[2];
    }
    return is_high(&in[1]) || is_high(&in[2]) || isnan(in[1].value + in[2].value) ? any : some;
}

/* Of operands not all of which are exact. */
static struct behind in_part(const struct walk *walk, const struct cell_op *op,
                             const struct behind in[3])
{
    const bool are_small = is_small(&in[0]) && (op->n_operands == 1 || is_small(&in[1]));
    switch ((unsigned)op->kind) {
    case CELL_OP_ADD:
        return about(in[0].value + in[1].value);
    case CELL_OP_SUB:
        return about(in[0].value - in[1].value);
    case CELL_OP_MUL:
        return product(&in[0], &in[1]);
    case CELL_OP_DIV:
        return quotient(&in[0], &in[1]);
    case CELL_OP_MIN:
    case CELL_OP_MAX:
        return larger(&in[0], &in[1], op->kind == CELL_OP_MAX ? 1.0f : -1.0f);
    case CELL_OP_LESS:
    case CELL_OP_LESS_EQUAL:
        return less(walk, op, in);
    case CELL_OP_SELECT:
        return selected(in);
    case CELL_OP_EXP:
    case CELL_OP_RELU:
        return is_low(&in[0]) ? exactly(0.0f) : are_small ? some : any;
    default:
        return are_small ? some : any;
    }
}

static struct behind pointwise(const struct walk *walk, const struct cell_op *op)
{
    struct behind in[3] = {some, some, some};
    bool is_exact = true;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        in[i] = walk->at[op->operands[i]];
        is_exact = is_exact && in[i].is_exact;
    }
    return is_exact ? exactly(cell_pointwise_f32__scalar(op->kind, in[0].value, in[1].value,
                                                         in[2].value))
                    : in_part(walk, op, in);
}

/* Of elements that are all the same that number. */
static struct behind of_floats(const float *floats, uint32_t n)
{
    struct behind of = exactly(floats[0]);
    for (uint32_t k = 1; k < n; k++) {
        const struct behind other = about(floats[k]);
        if (!(floats[k] <= floats[0] && floats[k] >= floats[0])) {
            of = is_small(&of) && is_small(&other) ? some : any;
        }
    }
    return of;
}

/* Of zeros the bias. */
static struct behind linear(const struct walk *walk, const struct cell_op *op)
{
    const struct behind in = walk->at[op->operands[0]];
    if (!is_zero(&in) || op->weights[0].dtype != CELL_F32) {
        return is_small(&in) ? some : any;
    }
    return op->n_weights > 1 ? of_floats(op->weights[1].data, op->weights[1].cols) : in;
}

static struct behind of_parts(const struct walk *walk, const struct cell_op *op)
{
    struct behind of = walk->at[op->operands[0]];
    for (uint32_t i = 1; i < op->n_operands; i++) {
        const struct behind *other = &walk->at[op->operands[i]];
        if (!is_same(&of, other)) {
            of = is_small(&of) && is_small(other) ? some
                 : is_low(&of) && is_low(other)   ? larger(&of, other, 1.0f)
                                                  : any;
        }
    }
    return of;
}

/* Of zeros 0, of what is far below it so, too. */
static struct behind of_sum(const struct walk *walk, const struct cell_op *op)
{
    const struct behind in = walk->at[op->operands[0]];
    return is_zero(&in) ? in : is_low(&in) ? about(in.value) : is_small(&in) ? some : any;
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
    case CELL_OP_SUM:
        return of_sum(walk, op);
    case CELL_OP_CONCAT:
        return of_parts(walk, op);
    case CELL_OP_CAST:
        return at->value.dtype == CELL_F32 ? walk->at[op->operands[0]] : some;
    case CELL_OP_COPY:
    case CELL_OP_SLICE:
    case CELL_OP_TRANSPOSE:
    case CELL_OP_SPREAD:
    case CELL_OP_MEAN:
        return walk->at[op->operands[0]];
    default:
        return cell_op_is_pointwise(op->kind) ? pointwise(walk, op) : some;
    }
}

static struct behind of_row(const struct walk *walk, uint32_t row)
{
    const struct cell__row *at = &walk->im->rows[row];
    if (at->kind == CELL__ROW_CONST && at->value.dtype == CELL_F32) {
        return of_floats(at->op.weights[0].data, at->value.width);
    }
    if (at->kind == CELL__ROW_STEP && at->times == 1u << walk->sequence) {
        return walk->is_there ? some
                              : exactly(0.0f); // all nodes of a sequence have the same lengths
    }
    if (at->kind == CELL__ROW_WINDOW && walk->source != CELL__NONE && at->part == 1 &&
        at->stride == 1 && at->offset == 0 && at->parts == 0 && at->times == 1u << walk->sequence &&
        walk->im->rows[at->index].times == 1u << walk->source) {
        return walk->at[at->index]; // the same step
    }
    return at->kind == CELL__ROW_OP ? of_op(walk, row) : some;
}

/* The sequence of which that one has the steps. */
static uint32_t source_of(const struct cell__import *im, uint32_t sequence)
{
    const struct cell__axis axis = {.n = 1, .atoms = {im->sequences[sequence].atom}};
    for (uint32_t s = 0; s < im->n_sequences; s++) {
        const struct cell__axis of = {.n = 1, .atoms = {im->sequences[s].atom}};
        if (s != sequence && im->sequences[sequence].atom != CELL__NONE &&
            im->sequences[s].atom != CELL__NONE && cell__axis_has_lengths_of(im, &axis, &of)) {
            return s;
        }
    }
    return CELL__NONE;
}

static struct behind look(struct walk *walk, uint32_t row, bool is_there)
{
    walk->is_there = is_there;
    for (uint32_t r = 0; r <= row; r++) {
        walk->at[r] = of_row(walk, r);
    }
    return walk->at[row];
}

enum base_status cell__row_behind(struct cell__import *im, uint32_t row, uint32_t sequence,
                                  enum cell__behind *out)
{
    struct walk walk = {.im = im, .sequence = cell__sequence_of_mirror(im, sequence)};
    walk.source = source_of(im, walk.sequence);
    const struct cell__sequence *of = &im->sequences[walk.sequence];
    *out = CELL__BEHIND_COUNTS;
    if (!of->has_lengths || of->lengths_input < 0) {
        return BASE_OK;
    }
    walk.at = cell__scratch(im, CELL__SCRATCH_BEHIND, (size_t)row + 1, sizeof(*walk.at));
    if (walk.at == NULL) {
        return cell__no_memory(im);
    }
    const struct behind behind = look(&walk, row, false);
    if (is_zero(&behind)) {
        *out = CELL__BEHIND_ZERO;
        return BASE_OK;
    }
    const struct behind there = look(&walk, row, true); // as low or high: then it is no mask
    if (behind.value <= CELL__MASKED && there.value > -SMALL) {
        *out = CELL__BEHIND_LOWEST;
    } else if (behind.value >= -CELL__MASKED && there.value < SMALL) {
        *out = CELL__BEHIND_HIGHEST;
    }
    return BASE_OK;
}
