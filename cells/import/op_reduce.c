/* Reductions, ArgMax among them: over the whole of a row, or over the steps of a sequence, which is
 * a REDUCE that reads all of them. A softmax over the steps is two of those. */
#include "cells/import/behind.h"
#include "cells/import/conditions.h"
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

enum kind { SUM, MEAN, MAX, MIN, PRODUCT };

/* What is reduced: the elements, their absolute values, or their squares. */
enum measure { PLAIN, ABSOLUTE, SQUARES };

/* The opset in which axes became an input; 0: a pool, whose axes are all behind the second. */
static const struct reduction {
    const char *name;
    enum kind kind;
    int64_t axes_opset;
    enum measure measure;
    bool is_root; /* the square root of it */
} reductions[] = {
    {"GlobalAveragePool", MEAN, 0, PLAIN, false}, {"GlobalMaxPool", MAX, 0, PLAIN, false},
    {"ReduceL1", SUM, 18, ABSOLUTE, false},       {"ReduceL2", SUM, 18, SQUARES, true},
    {"ReduceMax", MAX, 18, PLAIN, false},         {"ReduceMean", MEAN, 18, PLAIN, false},
    {"ReduceMin", MIN, 18, PLAIN, false},         {"ReduceProd", PRODUCT, 18, PLAIN, false},
    {"ReduceSum", SUM, 13, PLAIN, false},         {"ReduceSumSquare", SUM, 18, SQUARES, false},
};

static const struct reduction *reduction_of(const struct cell__node *node)
{
    for (size_t i = 0; i < sizeof(reductions) / sizeof(reductions[0]); i++) {
        if (strcmp(reductions[i].name, node->op->name) == 0) {
            return &reductions[i];
        }
    }
    base_assert(false);
    return &reductions[0];
}

/* ---- Shapes ------------------------------------------------------------------------------- */

/* Bit k: axis k is reduced. */
static enum base_status read_axes(struct cell__import *im, const struct cell__node *node,
                                  uint32_t *mask)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const uint32_t rank = in->kind == CELL__CONST ? in->tensor.rank : in->shape.rank;
    const struct reduction *reduction = reduction_of(node);
    struct cell__list axes;
    *mask = 0;
    if (reduction->axes_opset == 0) {
        for (uint32_t k = 2; k < rank; k++) {
            *mask |= 1u << k;
        }
        return BASE_OK;
    }
    BASE_TRY(cell__ints_or_attr(im, node, 1, reduction->axes_opset, "axes", &axes));
    if (!axes.is_given || axes.n == 0) {
        int64_t is_noop = 0;
        BASE_TRY(cell__attr_int(im, node, "noop_with_empty_axes", 0, &is_noop));
        if (is_noop != 0) {
            return cell__refuse(im, "without axes, which leaves all as it is");
        }
        *mask = (1u << rank) - 1; // all of them
        return BASE_OK;
    }
    for (uint32_t i = 0; i < axes.n; i++) {
        uint32_t k = 0;
        BASE_TRY(cell__axis_index(im, axes.at[i], rank, &k));
        *mask |= 1u << k;
    }
    return BASE_OK;
}

/* What is left of a shape without the axes of the mask; keeps: each is left as one of size 1. */
static struct cell__shape shape_without(const struct cell__shape *in, uint32_t mask, bool keeps)
{
    struct cell__shape out = {.rank = 0};
    for (uint32_t k = 0; k < in->rank; k++) {
        if ((mask >> k & 1) == 0) {
            out.axes[out.rank++] = in->axes[k];
        } else if (keeps) {
            out.axes[out.rank++] = (struct cell__axis){.n = 0};
        }
    }
    return out;
}

/* ---- Of a constant ------------------------------------------------------------------------ */

static double add(double sum, double x)
{
    return sum + x;
}

static double add_absolute(double sum, double x)
{
    return sum + fabs(x);
}

static double add_square(double sum, double x)
{
    return sum + x * x;
}

static double end_sum(double sum, double n)
{
    (void)n;
    return sum;
}

static double end_mean(double sum, double n)
{
    return sum / n;
}

static double end_root(double sum, double n)
{
    (void)n;
    return sqrt(sum);
}

static enum base_status fold(struct cell__import *im, const struct cell__node *node)
{
    const struct reduction *kind = reduction_of(node);
    struct cell__reduction reduction = {.start = 0, .add = add, .end = end_sum};
    struct cell__tensor out;
    int64_t keep = 1;
    uint32_t mask = 0;
    if (kind->kind == MAX || kind->kind == MIN) {
        reduction.start = kind->kind == MAX ? -HUGE_VAL : HUGE_VAL;
        reduction.add = kind->kind == MAX ? fmax : fmin;
    } else if (kind->measure != PLAIN) {
        reduction.add = kind->measure == SQUARES ? add_square : add_absolute;
    }
    reduction.end = kind->is_root ? end_root : kind->kind == MEAN ? end_mean : end_sum;
    BASE_TRY(cell__attr_int(im, node, "keepdims", 1, &keep));
    BASE_TRY(read_axes(im, node, &mask));
    BASE_TRY(cell__fold_reduce(im, &cell__input(im, node, 0)->tensor, mask, keep != 0, &reduction,
                               &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* Integers are summed where they count for how many a condition holds. */
static bool is_count(const struct cell__node *node)
{
    return strcmp(node->op->name, "ReduceSum") == 0;
}

enum base_status cell__infer_reduce(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const bool is_pool = reduction_of(node)->axes_opset == 0;
    if (in->kind == CELL__CONST && in->dtype == CELL__I64 &&
        strcmp(node->op->name, "ReduceMin") == 0) {
        return cell__infer_least(im, node);
    }
    int64_t keep = 1;
    uint32_t mask = 0;
    if (in->kind == CELL__CONST && !is_pool) {
        return fold(im, node);
    }
    const bool counts = is_count(node) && (in->dtype == CELL__I64 || in->dtype == CELL__I32);
    const bool is_float = in->dtype == CELL__F32 || in->dtype == CELL__F64_MADE; // check_double()
    if (in->kind != CELL__ROWS || (!is_float && !counts)) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(in->dtype));
    }
    if (is_pool && in->shape.rank < 3) {
        return cell__invalid(im, "of rank %u; at least 3", in->shape.rank);
    }
    if (!is_pool) {
        BASE_TRY(cell__attr_int(im, node, "keepdims", 1, &keep));
    }
    BASE_TRY(read_axes(im, node, &mask));
    const struct cell__shape out = shape_without(&in->shape, mask, keep != 0);
    cell__set_rows(im, node, 0, in->dtype, &out);
    return BASE_OK;
}

/* ---- Rows --------------------------------------------------------------------------------- */

enum base_status cell__row_mean(struct cell__import *im, uint32_t row, uint32_t *out)
{
    struct cell_op op = {.kind = CELL_OP_MEAN, .n_operands = 1, .operands = {row}};
    return cell__row_op(im, &op, (struct cell_value){CELL_F32, 1}, out);
}

enum base_status cell__row_sum(struct cell__import *im, uint32_t row, uint32_t *out)
{
    const struct cell_op op = {.kind = CELL_OP_SUM, .n_operands = 1, .operands = {row}};
    *out = row;
    return im->rows[row].value.width == 1
               ? BASE_OK
               : cell__row_op(im, &op, (struct cell_value){CELL_F32, 1}, out);
}

/* ---- Over the steps ----------------------------------------------------------------------- */

enum base_status cell__row_memory(struct cell__import *im, uint32_t row, uint32_t *out)
{
    const enum cell__row_kind kind = im->rows[row].kind;
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {row}};
    *out = row;
    if (kind == CELL__ROW_OP || kind == CELL__ROW_STEP || kind == CELL__ROW_INPUT) {
        return BASE_OK;
    }
    return cell__row_op(im, &copy, im->rows[row].value, out);
}

/* The REDUCE that there is of this memory, as exporters of a standard deviation ask for a mean
 * twice, or NONE. */
static uint32_t find_reduce(const struct cell__import *im, uint32_t variant, uint32_t memory)
{
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *at = &im->rows[r];
        if (at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_REDUCE &&
            at->op.operands[0] == memory && at->op.variant == variant) {
            return r;
        }
    }
    return CELL__NONE;
}

static enum base_status reduce_memory(struct cell__import *im, uint32_t variant, uint32_t memory,
                                      uint32_t *out)
{
    const uint32_t width = variant == CELL_REDUCE_COUNT ? 1 : im->rows[memory].value.width;
    const struct cell_op op = {
        .kind = CELL_OP_REDUCE, .n_operands = 1, .operands = {memory}, .variant = variant};
    *out = find_reduce(im, variant, memory);
    return *out == CELL__NONE ? cell__row_op(im, &op, (struct cell_value){CELL_F32, width}, out)
                              : BASE_OK;
}

/* What the row is the squares of, if that is how far a row is from its own mean over the steps;
 * NONE. */
static uint32_t deviating(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *square = &im->rows[row];
    if (square->kind != CELL__ROW_OP || square->op.kind != CELL_OP_MUL ||
        square->op.operands[0] != square->op.operands[1]) {
        return CELL__NONE;
    }
    const struct cell__row *off = &im->rows[square->op.operands[0]];
    if (off->kind != CELL__ROW_OP || off->op.kind != CELL_OP_SUB) {
        return CELL__NONE;
    }
    const uint32_t x = off->op.operands[0];
    const struct cell__row *mean = &im->rows[off->op.operands[1]];
    const bool is_mean = mean->kind == CELL__ROW_OP && mean->op.kind == CELL_OP_REDUCE &&
                         mean->op.variant == CELL_REDUCE_MEAN && mean->op.operands[0] == x &&
                         mean->value.width == im->rows[x].value.width;
    return is_mean ? x : CELL__NONE;
}

/* Beside sequence_lens: whether what stands behind the length counts nothing. */
static enum base_status check_lengths(struct cell__import *im, enum kind kind, uint32_t row,
                                      uint32_t sequence)
{
    static const enum cell__behind nothing[] = {[SUM] = CELL__BEHIND_ZERO,
                                                [MEAN] = CELL__BEHIND_COUNTS,
                                                [MAX] = CELL__BEHIND_LOWEST,
                                                [MIN] = CELL__BEHIND_HIGHEST};
    enum cell__behind behind = CELL__BEHIND_COUNTS;
    if (!cell__sequence_has_lengths(im, sequence)) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_behind(im, row, sequence, &behind));
    return behind != CELL__BEHIND_COUNTS && behind == nothing[kind]
               ? BASE_OK
               : cell__refuse(im, "over the steps beside sequence_lens, where ONNX would take the "
                                  "zeros behind a shorter sequence too; a mask by the same lengths "
                                  "would leave them out");
}

/* The reduction of a timed row of floats over all steps. */
static enum base_status reduce_steps(struct cell__import *im, enum kind kind, uint32_t row,
                                     uint32_t *out)
{
    static const uint32_t variants[] = {[SUM] = CELL_REDUCE_SUM,
                                        [MEAN] = CELL_REDUCE_MEAN,
                                        [MAX] = CELL_REDUCE_MAX,
                                        [MIN] = CELL_REDUCE_MIN};
    const uint32_t sequence = cell__only_sequence(im->rows[row].times);
    uint32_t memory = CELL__NONE;
    uint32_t steps = CELL__NONE;
    BASE_TRY(check_lengths(im, kind, row, sequence));
    const uint32_t of = kind == SUM || kind == MEAN ? deviating(im, row) : CELL__NONE;
    if (of == CELL__NONE) {
        BASE_TRY(cell__row_memory(im, row, &memory));
        return reduce_memory(im, variants[kind], memory, out);
    }
    BASE_TRY(reduce_memory(im, CELL_REDUCE_VARIANCE, of, out));
    if (kind == MEAN) {
        return BASE_OK;
    }
    BASE_TRY(reduce_memory(im, CELL_REDUCE_COUNT, of, &steps));
    return cell__row_pair(im, CELL_OP_MUL, *out, steps, out);
}

enum base_status cell__row_steps(struct cell__import *im, uint32_t sequence, uint32_t *out)
{
    uint32_t row = CELL__NONE;
    uint32_t one = CELL__NONE;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *at = &im->rows[r];
        if (at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_REDUCE &&
            im->rows[at->op.operands[0]].times == 1u << sequence) {
            return reduce_memory(im, CELL_REDUCE_COUNT, at->op.operands[0], out);
        }
    }
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    BASE_TRY(cell__row_number_of_step(im, sequence, &row));
    BASE_TRY(cell__row_at(im, CELL__ROW_LAST, row, &cast.operands[0]));
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, &row));
    BASE_TRY(cell__row_number(im, 1.0f, &one));
    return cell__row_pair(im, CELL_OP_ADD, row, one, out);
}

enum base_status cell__row_sum_of_steps(struct cell__import *im, uint32_t row, uint32_t *out)
{
    return reduce_steps(im, SUM, row, out);
}

/* ---- Lowering ----------------------------------------------------------------------------- */

/* Axes of a row that lie side by side and are reduced: elements before, of, and behind them. */
static enum base_status find_part(struct cell__import *im, const struct cell__shape *shape,
                                  uint32_t mask, uint32_t sizes[3])
{
    uint32_t at = 0; // before, of, behind
    sizes[0] = sizes[1] = sizes[2] = 1;
    for (uint32_t k = 0; k < shape->rank; k++) {
        const struct cell__shape one = {.rank = 1, .axes = {shape->axes[k]}};
        const bool is_taken = (mask >> k & 1) != 0;
        uint32_t width = 0;
        BASE_TRY(cell__shape_width(im, &one, &width));
        if (width > 1 && is_taken != (at == 1)) {
            at++;
        }
        if (at > 2) {
            return cell__refuse(im, "over features of a row that do not lie together");
        }
        sizes[at] *= width;
    }
    return BASE_OK;
}

/* n rows of this width that stand behind each other, to one: the first half with the second until
 * one is left, so that there are few ops and each is wide. */
static enum base_status halve(struct cell__import *im, enum cell_op_kind op, uint32_t n,
                              uint32_t width, uint32_t *row)
{
    uint32_t rest = CELL__NONE; // of odd numbers
    for (uint32_t left = n; left > 1; left /= 2) {
        const uint32_t half = left / 2 * width;
        const uint32_t all = *row;
        uint32_t other = CELL__NONE;
        if (left % 2 != 0) {
            BASE_TRY(cell__row_slice(im, all, 2 * half, width, &other));
            BASE_TRY(rest == CELL__NONE ? BASE_OK : cell__row_pair(im, op, rest, other, &other));
            rest = other;
        }
        BASE_TRY(cell__row_slice(im, all, 0, half, row));
        BASE_TRY(cell__row_slice(im, all, half, half, &other));
        BASE_TRY(cell__row_pair(im, op, *row, other, row));
    }
    return rest == CELL__NONE ? BASE_OK : cell__row_pair(im, op, *row, rest, row);
}

/* Elements of a group from which they are summed up as they stand; fewer are sooner turned, so that
 * sums are made of long rows. */
#define SUMMED_MIN 8u

/* One part of a row's features, such as the height of a picture's columns. */
static enum base_status reduce_part(struct cell__import *im, enum kind kind,
                                    const uint32_t sizes[3], uint32_t *row)
{
    const uint32_t dims[3] = {1, sizes[0], sizes[1]};
    const enum cell_op_kind op = kind == MAX       ? CELL_OP_MAX
                                 : kind == MIN     ? CELL_OP_MIN
                                 : kind == PRODUCT ? CELL_OP_MUL
                                                   : CELL_OP_ADD;
    uint32_t number = CELL__NONE;
    if (sizes[2] == 1 && (kind == MEAN || (kind == SUM && sizes[1] >= SUMMED_MIN))) {
        const struct cell_op groups = {.kind = kind == SUM ? CELL_OP_SUM : CELL_OP_MEAN,
                                       .n_operands = 1,
                                       .operands = {*row},
                                       .group = sizes[1]};
        return cell__row_op(im, &groups, (struct cell_value){CELL_F32, sizes[0]}, row);
    }
    BASE_TRY(cell__row_transpose(im, *row, dims, row));
    BASE_TRY(halve(im, op, sizes[1], sizes[0] * sizes[2], row));
    if (kind != MEAN) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_number(im, (float)sizes[1], &number));
    return cell__row_pair(im, CELL_OP_DIV, *row, number, row);
}

enum base_status cell__row_sum_part(struct cell__import *im, const uint32_t sizes[3], uint32_t *row)
{
    return reduce_part(im, SUM, sizes, row);
}

/* Over the steps of a sequence, by a REDUCE or by an attention; width: of what is reduced besides.
 */
static enum base_status reduce_times(struct cell__import *im, enum kind kind, uint32_t times,
                                     uint32_t width, uint32_t *row)
{
    const uint32_t own = im->rows[*row].times;
    if (kind == PRODUCT) {
        return cell__refuse(im, "the product of the steps of a sequence");
    }
    if (cell__row_is_zero(im, *row)) {
        return BASE_OK; // Keras begins a ConvLSTM so
    }
    if (cell__is_pair(times) || (own & times) == 0) {
        return cell__refuse(im, "over the steps of what is the same at each of them, or of two "
                                "sequences at once");
    }
    const uint32_t over = cell__only_sequence(times);
    const bool is_seen_only = im->feeds_back || cell__is_pair(own);
    if (is_seen_only && width != 1) {
        return cell__refuse(im, "over the steps of a sequence and features at once");
    }
    if (kind == SUM && (is_seen_only || cell__row_is_attend_sum(im, *row, over))) {
        const struct base_error before = *im->error;
        const enum base_status status = cell__row_attend_sum(im, *row, row);
        if (is_seen_only || status != BASE_UNIMPLEMENTED) {
            return status;
        }
        *im->error =
            before; // scores that no attention has, such as a network's, are rows of each step
    }
    if (kind == MAX && is_seen_only) {
        return cell__row_attend_largest(im, *row, over, row);
    }
    if (is_seen_only) {
        return cell__refuse(im, "over the source's steps inside a decoder's step");
    }
    return reduce_steps(im, kind, *row, row);
}

static enum base_status map_row(struct cell__import *im, enum cell_op_kind kind, uint32_t row,
                                uint32_t *out)
{
    const struct cell_op op = {.kind = kind, .n_operands = 1, .operands = {row}};
    return cell__row_op(im, &op, im->rows[row].value, out);
}

/* The elements as they are reduced. */
static enum base_status measure_row(struct cell__import *im, enum measure measure, uint32_t row,
                                    uint32_t *out)
{
    *out = row;
    return measure == PLAIN      ? BASE_OK
           : measure == ABSOLUTE ? map_row(im, CELL_OP_ABS, row, out)
                                 : cell__row_pair(im, CELL_OP_MUL, row, row, out);
}

/* The row of a value of this shape over the axes of the mask. */
static enum base_status reduce_axes(struct cell__import *im, enum kind kind,
                                    const struct cell__shape *shape, uint32_t mask, uint32_t *row)
{
    struct cell__shape taken = {.rank = 0};
    uint32_t width = 0;
    for (uint32_t k = 0; k < shape->rank; k++) {
        if ((mask >> k & 1) != 0) {
            taken.axes[taken.rank++] = shape->axes[k];
        }
    }
    if (cell__shape_has(im, &taken, CELL__ROLE_BATCH)) {
        return cell__refuse(im, "over the batch axis");
    }
    BASE_TRY(cell__shape_width(im, &taken, &width));
    const uint32_t times = cell__shape_times(im, &taken);
    const bool has_op = kind == SUM || kind == MEAN; // of a whole row
    if (width != 1 && (width != im->rows[*row].value.width || !has_op)) {
        uint32_t sizes[3];
        BASE_TRY(find_part(im, shape, mask, sizes));
        BASE_TRY(reduce_part(im, kind, sizes, row));
        width = 1;
    }
    if (times != 0) {
        BASE_TRY(reduce_times(im, kind, times, width, row));
    }
    if (width != 1) {
        BASE_TRY(kind == SUM ? cell__row_sum(im, *row, row) : cell__row_mean(im, *row, row));
    }
    return BASE_OK;
}

enum base_status cell__row_mean_over(struct cell__import *im, const struct cell__shape *shape,
                                     uint32_t mask, uint32_t *row)
{
    return reduce_axes(im, MEAN, shape, mask, row);
}

enum base_status cell__row_softmax_over(struct cell__import *im, const struct cell__shape *shape,
                                        uint32_t mask, bool is_log, uint32_t *row)
{
    uint32_t largest = *row;
    uint32_t lower = CELL__NONE;
    uint32_t sum = CELL__NONE;
    BASE_TRY(reduce_axes(im, MAX, shape, mask, &largest));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, *row, largest, &lower));
    BASE_TRY(map_row(im, CELL_OP_EXP, lower, row));
    sum = *row;
    BASE_TRY(reduce_axes(im, SUM, shape, mask, &sum));
    if (!is_log) {
        return cell__row_pair(im, CELL_OP_DIV, *row, sum, row);
    }
    BASE_TRY(map_row(im, CELL_OP_LOG, sum, &sum)); // a number also where an exponential is 0
    return cell__row_pair(im, CELL_OP_SUB, lower, sum, row);
}

/* For how many elements a condition holds: in floats, which are exact so far, and back. */
static enum base_status count_axes(struct cell__import *im, const struct cell__shape *shape,
                                   uint32_t mask, uint32_t *row)
{
    const struct cell__row *at = &im->rows[*row];
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    const struct cell_value value = {at->value.dtype, 1};
    if (at->kind != CELL__ROW_OP || at->op.kind != CELL_OP_CAST ||
        !cell__row_is_truth(im, NULL, at->op.operands[0])) {
        return cell__refuse(im, "of integers but for the number of those for which a condition "
                                "holds");
    }
    cast.operands[0] = at->op.operands[0];
    BASE_TRY(reduce_axes(im, SUM, shape, mask, &cast.operands[0]));
    if (im->rows[cast.operands[0]].value.width != 1) {
        return cell__refuse(im, "several counts a row");
    }
    BASE_TRY(cell__row_op(im, &cast, value, row));
    im->rows[*row].is_counted = true;
    return BASE_OK;
}

enum base_status cell__lower_reduce(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct reduction *reduction = reduction_of(node);
    uint32_t mask = 0;
    uint32_t row = CELL__NONE;
    BASE_TRY(read_axes(im, node, &mask));
    if (in->dtype != CELL__F32 && !cell__is_double(in->dtype)) {
        row = in->row;
        BASE_TRY(count_axes(im, &in->shape, mask, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    BASE_TRY(measure_row(im, reduction->measure, in->row, &row));
    BASE_TRY(reduce_axes(im, reduction->kind, &in->shape, mask, &row));
    if (reduction->is_root) {
        BASE_TRY(map_row(im, CELL_OP_SQRT, row, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- ArgMax ------------------------------------------------------------------------------- */

static enum base_status argmax_axis(struct cell__import *im, const struct cell__node *node,
                                    uint32_t *axis)
{
    int64_t attribute = 0;
    int64_t last = 0;
    BASE_TRY(cell__attr_int(im, node, "select_last_index", 0, &last));
    if (last != 0) {
        return cell__refuse(im, "select_last_index");
    }
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    return cell__axis_index(im, attribute, cell__input(im, node, 0)->shape.rank, axis);
}

enum base_status cell__infer_argmax(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    int64_t keep = 1;
    uint32_t axis = 0;
    if (in->kind != CELL__ROWS || in->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(in->dtype));
    }
    BASE_TRY(argmax_axis(im, node, &axis));
    BASE_TRY(cell__attr_int(im, node, "keepdims", 1, &keep));
    const struct cell__shape out = shape_without(&in->shape, 1u << axis, keep != 0);
    cell__set_rows(im, node, 0, CELL__I64, &out);
    return BASE_OK;
}

enum base_status cell__lower_argmax(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__shape taken = {.rank = 1};
    struct cell_op op = {.kind = CELL_OP_ARGMAX, .n_operands = 1, .operands = {in->row}};
    uint32_t axis = 0;
    uint32_t width = 0;
    uint32_t row = CELL__NONE;
    BASE_TRY(argmax_axis(im, node, &axis));
    taken.axes[0] = in->shape.axes[axis];
    BASE_TRY(cell__shape_width(im, &taken, &width));
    if (cell__shape_has(im, &taken, CELL__ROLE_BATCH) ||
        cell__shape_has(im, &taken, CELL__ROLE_TIME) || width != im->rows[in->row].value.width) {
        return cell__refuse(im, "over anything but the whole of a row");
    }
    BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_I64, 1}, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
