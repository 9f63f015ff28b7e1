/* Element-wise arithmetic, comparisons, activations, and Softmax. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/ref/pointwise.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

/* Our op for an ONNX operator, element by element. A bool is 1 or 0 in a row of floats. */
struct elementwise {
    const char *name;
    enum cell_op_kind kind;
    char sign;         /* what folds it over constants, 0: nothing */
    bool takes_bool;   /* else float32 */
    bool gives_bool;   /* likewise */
    bool is_turned;    /* operands change places */
    bool has_constant; /* it stands before the operand */
    float constant;
};

static const struct elementwise *elementwise_of(const struct cell__node *node)
{
    static const struct elementwise table[] = {
        {.name = "Abs", .kind = CELL_OP_ABS},
        {.name = "Add", .kind = CELL_OP_ADD, .sign = '+'},
        {.name = "And", .kind = CELL_OP_MIN, .takes_bool = true, .gives_bool = true},
        {.name = "Atan", .kind = CELL_OP_ATAN},
        {.name = "Cos", .kind = CELL_OP_COS},
        {.name = "Div", .kind = CELL_OP_DIV, .sign = '/'},
        {.name = "Exp", .kind = CELL_OP_EXP},
        {.name = "Floor", .kind = CELL_OP_FLOOR},
        {.name = "Greater", .kind = CELL_OP_LESS, .gives_bool = true, .is_turned = true},
        {.name = "GreaterOrEqual",
         .kind = CELL_OP_LESS_EQUAL,
         .gives_bool = true,
         .is_turned = true},
        {.name = "Less", .kind = CELL_OP_LESS, .gives_bool = true},
        {.name = "LessOrEqual", .kind = CELL_OP_LESS_EQUAL, .gives_bool = true},
        {.name = "Log", .kind = CELL_OP_LOG},
        {.name = "Max", .kind = CELL_OP_MAX, .sign = '>'},
        {.name = "Min", .kind = CELL_OP_MIN, .sign = '<'},
        {.name = "Mul", .kind = CELL_OP_MUL, .sign = '*'},
        {.name = "Neg", .kind = CELL_OP_MUL, .has_constant = true, .constant = -1.0f},
        {.name = "Not",
         .kind = CELL_OP_SUB,
         .takes_bool = true,
         .gives_bool = true,
         .has_constant = true,
         .constant = 1.0f},
        {.name = "Or", .kind = CELL_OP_MAX, .takes_bool = true, .gives_bool = true},
        {.name = "Pow", .kind = CELL_OP_POW, .sign = '^'},
        {.name = "Reciprocal", .kind = CELL_OP_DIV, .has_constant = true, .constant = 1.0f},
        {.name = "Relu", .kind = CELL_OP_RELU},
        {.name = "Round", .kind = CELL_OP_ROUND},
        {.name = "Sigmoid", .kind = CELL_OP_SIGMOID},
        {.name = "Sin", .kind = CELL_OP_SIN},
        {.name = "Sqrt", .kind = CELL_OP_SQRT},
        {.name = "Sub", .kind = CELL_OP_SUB, .sign = '-'},
        {.name = "Tanh", .kind = CELL_OP_TANH}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, node->op->name) == 0) {
            return &table[i];
        }
    }
    base_assert(false);
    return &table[0];
}

static enum base_status check_dtype(struct cell__import *im, const struct cell__node *node,
                                    uint32_t first, enum cell__dtype wanted)
{
    for (uint32_t i = first; i < node->n_inputs; i++) {
        enum cell__dtype dtype = cell__input(im, node, i)->dtype;
        if (dtype != wanted) {
            return cell__refuse(im, "computes with %s values that depend on the request",
                                cell__dtype_name(dtype));
        }
    }
    return BASE_OK;
}

/* ---- Broadcasting ------------------------------------------------------------------------- */

/* Whether two axes have as many elements, of stated numbers, and are made of other dimensions: as
 * [8, 64] and [16, 32], flattened. Features may be so (check_regrouped()). */
static bool is_regrouped(const struct cell__import *im, const struct cell__axis *a,
                         const struct cell__axis *b)
{
    const int64_t size = cell__axis_size(im, a);
    return size > 1 && size == cell__axis_size(im, b) && !cell__axis_is_alike(im, a, b);
}

/* One axis of the result; a constant never fixes the size that a request chooses. */
static enum base_status binary_axis(struct cell__import *im, const struct cell__axis *a,
                                    const struct cell__axis *b, bool is_with_const,
                                    struct cell__axis *out)
{
    int64_t a_size = cell__axis_size(im, a);
    int64_t b_size = cell__axis_size(im, b);
    struct cell__axis mirror;
    bool is_one = false;
    if (!is_with_const && a_size != 1 && b_size != 1) {
        BASE_TRY(cell__axes_unite_mirror(im, a, b, &is_one));
    }
    // Of one element both: the one of a graph input, which may be the time of one step.
    *out = a_size == 1 && (b_size != 1 || a->n == 0) ? *b : *a;
    if (a_size == 1 || b_size == 1 || cell__axes_mirror(im, a, b, &mirror)) {
        *out = a_size == 1 || b_size == 1 ? *out : mirror;
        return BASE_OK;
    }
    if (is_with_const) {
        return a_size == b_size ? BASE_OK
                                : cell__refuse(im, "a constant that differs along an axis whose "
                                                   "size the request chooses");
    }
    return is_regrouped(im, a, b) ? BASE_OK : cell__axis_unite(im, a, b, "operand dimensions");
}

/* The shape of `out` and another operand together. */
static enum base_status join_shape(struct cell__import *im, const struct cell__value *value,
                                   struct cell__shape *out)
{
    const struct cell__axis none = {.n = 0};
    const struct cell__shape before = *out;
    struct cell__shape other;
    BASE_TRY(cell__shape_of(im, value, &other));
    out->rank = before.rank > other.rank ? before.rank : other.rank;
    for (uint32_t behind = 1; behind <= out->rank; behind++) {
        const struct cell__axis *x =
            behind <= before.rank ? &before.axes[before.rank - behind] : &none;
        const struct cell__axis *y =
            behind <= other.rank ? &other.axes[other.rank - behind] : &none;
        BASE_TRY(binary_axis(im, x, y, value->kind == CELL__CONST, &out->axes[out->rank - behind]));
    }
    return BASE_OK;
}

/* Joins the shapes of those inputs that are constants, or of those that are not. */
static enum base_status join_some(struct cell__import *im, const struct cell__node *node,
                                  bool is_const, struct cell__shape *out)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        if ((value->kind == CELL__CONST) == is_const) {
            BASE_TRY(join_shape(im, value, out));
        }
    }
    return BASE_OK;
}

/* The shape of all inputs together, of which one at least is no constant: axes of rows go on. */
enum base_status cell__join_shapes(struct cell__import *im, const struct cell__node *node,
                                   struct cell__shape *out)
{
    *out = (struct cell__shape){.rank = 0};
    BASE_TRY(join_some(im, node, false, out));
    BASE_TRY(cell__shape_mirror(im, out));
    return join_some(im, node, true, out);
}

enum base_status cell__row_in_pairs(struct cell__import *im, const struct cell__value *value,
                                    const struct cell__shape *out, uint32_t *row)
{
    for (uint32_t behind = 1; value->kind == CELL__ROWS && behind <= value->shape.rank; behind++) {
        const struct cell__axis *own = &value->shape.axes[value->shape.rank - behind];
        const struct cell__axis *axis = &out->axes[out->rank - behind];
        if (cell__axis_times(im, own) != 0 &&
            (cell__axis_is_mirror(im, axis, own) || cell__axis_has_lengths_of(im, axis, own))) {
            return cell__row_mirror(im, axis, row);
        }
    }
    return BASE_OK;
}

/* Of an input that has one step beside others whose axis is not known to be that: the step. */
static enum base_status take_single(struct cell__import *im, const struct cell__value *value,
                                    const struct cell__shape *out, uint32_t *row)
{
    const bool is_single = value->kind == CELL__ROWS && im->rows[*row].times != 0 &&
                           cell__shape_times(im, &value->shape) == im->rows[*row].times &&
                           cell__shape_times(im, out) == 0 && im->scan == CELL__NONE;
    return is_single ? cell__row_at(im, CELL__ROW_LAST, *row, row) : BASE_OK;
}

/* Of batch and time it matters in which order dimensions stand. */
static enum base_status check_regrouped(struct cell__import *im, const struct cell__value *value,
                                        const struct cell__shape *out)
{
    for (uint32_t behind = 1; value->kind == CELL__ROWS && behind <= value->shape.rank; behind++) {
        const struct cell__axis *axes[] = {&value->shape.axes[value->shape.rank - behind],
                                           &out->axes[out->rank - behind]};
        for (uint32_t i = 0; i < 2 && is_regrouped(im, axes[0], axes[1]); i++) {
            if (cell__axis_has(im, axes[i], CELL__ROLE_BATCH) ||
                cell__axis_has(im, axes[i], CELL__ROLE_TIME)) {
                return cell__refuse(im, "operand dimensions: the same number of elements, of batch "
                                        "or time and other dimensions in another order");
            }
        }
    }
    return BASE_OK;
}

/* The rows of all inputs, each as wide as output 0, or of width 1. */
enum base_status cell__joined_rows(struct cell__import *im, const struct cell__node *node,
                                   uint32_t rows[], uint32_t *width)
{
    const struct cell__shape *shape = &cell__output(im, node, 0)->shape;
    BASE_TRY(cell__shape_width(im, shape, width));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        BASE_TRY(check_regrouped(im, value, shape));
        BASE_TRY(cell__row_of(im, value, shape, true, &rows[i]));
        BASE_TRY(take_single(im, value, shape, &rows[i]));
        BASE_TRY(cell__row_in_pairs(im, value, shape, &rows[i]));
        const uint32_t own = im->rows[rows[i]].value.width;
        if (own != 1 && own != *width) { // a constant is as wide as it is wanted
            BASE_TRY(cell__row_spread(im, rows[i], &value->shape, shape, &rows[i]));
        }
        if (im->rows[rows[i]].value.width != 1 && im->rows[rows[i]].value.width != *width) {
            return cell__refuse(im, "of rows that are no longer what their axes say");
        }
    }
    return BASE_OK;
}

/* ---- Of two and more operands ------------------------------------------------------------- */

static enum base_status fold_constants(struct cell__import *im, const struct cell__node *node,
                                       char sign)
{
    struct cell__tensor folded = cell__input(im, node, 0)->tensor;
    if (sign == 0) {
        return cell__refuse(im, "of constants");
    }
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        const struct cell__tensor before = folded;
        BASE_TRY(cell__fold_binary(im, sign, &before, &cell__input(im, node, i)->tensor, &folded));
    }
    cell__set_const(im, node, 0, &folded);
    return BASE_OK;
}

enum base_status cell__infer_binary(struct cell__import *im, struct cell__node *node)
{
    const struct elementwise *like = elementwise_of(node);
    if (cell__is_all_const(im, node)) {
        return fold_constants(im, node, like->sign);
    }
    if (!like->takes_bool && cell__is_of_integers(im, node)) {
        return like->gives_bool ? cell__infer_compared(im, node) : cell__infer_index(im, node);
    }
    struct cell__shape out;
    BASE_TRY(check_dtype(im, node, 0, like->takes_bool ? CELL__BOOL : CELL__F32));
    BASE_TRY(cell__join_shapes(im, node, &out));
    cell__set_rows(im, node, 0, like->gives_bool ? CELL__BOOL : CELL__F32, &out);
    return BASE_OK;
}

/* x W + constant row -> LINEAR with a bias. */
static bool fuse_bias(struct cell__import *im, struct cell_op *op, uint32_t width)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__row *linear = &im->rows[op->operands[i]];
        const struct cell__row *bias = &im->rows[op->operands[1 - i]];
        if (op->kind == CELL_OP_ADD && linear->kind == CELL__ROW_OP &&
            linear->op.kind == CELL_OP_LINEAR && linear->op.n_weights == 1 &&
            linear->op.patches == 0 && bias->kind == CELL__ROW_CONST &&
            bias->value.width == width && linear->value.width == width) {
            struct cell_weight weight = bias->op.weights[0];
            *op = linear->op;
            op->weights[op->n_weights++] = weight;
            return true;
        }
    }
    return false;
}

/* Max and Min may have any number of inputs: they are joined one after the other. */
enum base_status cell__lower_binary(struct cell__import *im, struct cell__node *node)
{
    const struct elementwise *like = elementwise_of(node);
    uint32_t rows[CELL__OPERANDS_MAX] = {CELL__NONE};
    struct cell_value value = {.dtype = CELL_F32};
    if (cell__is_of_integers(im, node)) {
        return like->gives_bool ? cell__lower_compared(im, node, like->kind, like->is_turned)
                                : cell__lower_index(im, node);
    }
    BASE_TRY(cell__joined_rows(im, node, rows, &value.width));
    uint32_t row = rows[0];
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        struct cell_op op = {.kind = like->kind, .n_operands = 2, .operands = {row, rows[i]}};
        uint32_t a = im->rows[row].value.width;
        uint32_t b = im->rows[rows[i]].value.width;
        struct cell_value joined = {CELL_F32, a > b ? a : b};
        if (like->is_turned) {
            op.operands[0] = rows[i];
            op.operands[1] = row;
        }
        (void)fuse_bias(im, &op, value.width);
        BASE_TRY(cell__row_op(im, &op, joined, &row));
    }
    if (im->rows[row].value.width != value.width) {
        return cell__refuse(im, "repeats one element over a row");
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Where --------------------------------------------------------------------------------- */

enum base_status cell__infer_select(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape out;
    if (cell__is_all_const(im, node)) {
        return cell__infer_where(im, node);
    }
    if (cell__input(im, node, 0)->dtype != CELL__BOOL) {
        return cell__invalid(im, "the condition is not bool");
    }
    if (cell__input(im, node, 1)->dtype == cell__input(im, node, 2)->dtype &&
        (cell__input(im, node, 1)->dtype == CELL__I64 ||
         cell__input(im, node, 1)->dtype == CELL__I32)) {
        return cell__infer_index(im, node);
    }
    BASE_TRY(check_dtype(im, node, 1, CELL__F32));
    BASE_TRY(cell__join_shapes(im, node, &out));
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

enum base_status cell__lower_select(struct cell__import *im, struct cell__node *node)
{
    struct cell_op op = {.kind = CELL_OP_SELECT, .n_operands = 3};
    struct cell_value value = {.dtype = CELL_F32};
    uint32_t row = CELL__NONE;
    uint32_t widest = 1;
    if (cell__output(im, node, 0)->dtype != CELL__F32) {
        if (cell__is_of_numbers(im, node)) {
            return cell__lower_numbers(im, node);
        }
        return cell__refuse(im, "computes with %s values that depend on the request",
                            cell__dtype_name(cell__output(im, node, 0)->dtype));
    }
    BASE_TRY(cell__joined_rows(im, node, op.operands, &value.width));
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t width = im->rows[op.operands[i]].value.width;
        widest = width > widest ? width : widest;
    }
    if (widest != value.width) {
        return cell__refuse(im, "repeats one element over a row");
    }
    BASE_TRY(cell__row_op(im, &op, value, &row));
    cell__note_zero_weights(im, node, row);
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Of one operand ----------------------------------------------------------------------- */

/* Neg of integers, which shapes make: nothing less them. */
static enum base_status fold_negative(struct cell__import *im, const struct cell__node *node)
{
    static const int64_t zeros[1] = {0}; // of any type
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    const struct cell__tensor zero = {.dtype = in->dtype, .count = 1, .data = zeros};
    struct cell__tensor out;
    BASE_TRY(cell__fold_binary(im, '-', &zero, in, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* Of a constant of floats, or the negative of integers. */
static enum base_status fold_unary(struct cell__import *im, const struct cell__node *node)
{
    const struct elementwise *like = elementwise_of(node);
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    const float *from = in->data;
    struct cell__tensor out = {.dtype = CELL__F32};
    void *data = NULL;
    struct cell__sym *none = NULL;
    if ((in->dtype == CELL__I64 || in->dtype == CELL__I32) && strcmp(node->op->name, "Neg") == 0) {
        return fold_negative(im, node);
    }
    if (in->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant of type %s", cell__dtype_name(in->dtype));
    }
    BASE_TRY(cell__tensor_shape(im, &out, in->rank, in->dims));
    BASE_TRY(cell__tensor_alloc(im, &out, false, &data, &none));
    for (size_t i = 0; i < out.count; i++) {
        float a = like->has_constant ? like->constant : from[i];
        ((float *)data)[i] = cell_pointwise_f32__scalar(like->kind, a, from[i], 0.0f);
    }
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_unary(struct cell__import *im, struct cell__node *node)
{
    const struct elementwise *like = elementwise_of(node);
    const struct cell__value *in = cell__input(im, node, 0);
    if (in->kind == CELL__CONST) {
        return fold_unary(im, node);
    }
    if (cell__is_of_integers(im, node) && (like->kind == CELL_OP_ABS || like->constant < 0.0f)) {
        return cell__infer_index(im, node); // Abs, Neg
    }
    BASE_TRY(check_dtype(im, node, 0, like->takes_bool ? CELL__BOOL : CELL__F32));
    cell__set_rows(im, node, 0, like->gives_bool ? CELL__BOOL : CELL__F32, &in->shape);
    return BASE_OK;
}

enum base_status cell__lower_unary(struct cell__import *im, struct cell__node *node)
{
    const struct elementwise *like = elementwise_of(node);
    uint32_t row = cell__input(im, node, 0)->row;
    struct cell_op op = {.kind = like->kind, .n_operands = 1, .operands = {row}};
    if (cell__is_of_integers(im, node)) {
        return cell__lower_index(im, node);
    }
    struct cell_value value = im->rows[row].value;
    if (like->has_constant) {
        const struct cell_value one = {CELL_F32, 1};
        BASE_TRY(cell__row_const(im, one, &like->constant, &op.operands[0]));
        op.operands[op.n_operands++] = row;
    }
    BASE_TRY(cell__row_op(im, &op, value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Pow, Clip ---------------------------------------------------------------------------- */

/* A constant of one float: input i. */
static enum base_status one_float(struct cell__import *im, const struct cell__node *node,
                                  uint32_t i, const char *what, float *out)
{
    const struct cell__value *value = cell__input(im, node, i);
    if (value->kind != CELL__CONST || value->tensor.dtype != CELL__F32 ||
        value->tensor.count != 1) {
        return cell__refuse(im, "%s is no constant of one float", what);
    }
    memcpy(out, value->tensor.data, sizeof(*out));
    return BASE_OK;
}

static enum base_status infer_like_first(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    if (in->kind != CELL__ROWS || in->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(in->dtype));
    }
    cell__set_rows(im, node, 0, CELL__F32, &in->shape);
    return BASE_OK;
}

static bool is_constant(struct cell__import *im, const struct cell__node *node)
{
    return cell__input(im, node, 0)->kind == CELL__CONST;
}

static enum base_status fold_each(struct cell__import *im, const struct cell__node *node,
                                  double (*compute)(double, const void *), const void *with)
{
    const struct cell__function function = {.compute = compute, .with = with};
    struct cell__tensor out;
    BASE_TRY(cell__fold_each(im, &cell__input(im, node, 0)->tensor, &function, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* Whether the exponent is a constant of one number, a float or an integer. */
static bool one_exponent(struct cell__import *im, const struct cell__node *node, float *out)
{
    const struct cell__value *base = cell__input(im, node, 0);
    const struct cell__value *value = cell__input(im, node, 1);
    const uint32_t rank = base->kind == CELL__CONST ? base->tensor.rank : base->shape.rank;
    if (value->kind != CELL__CONST || value->tensor.count != 1 || value->tensor.rank > rank) {
        return false;
    }
    if (value->dtype == CELL__F32) {
        memcpy(out, value->tensor.data, sizeof(*out));
        return true;
    }
    const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
    *out = (float)sym.add;
    return (value->dtype == CELL__I64 || value->dtype == CELL__I32) && cell__sym_is_number(&sym);
}

static double power(double x, const void *exponent)
{
    return pow(x, (double)*(const float *)exponent);
}

enum base_status cell__infer_pow(struct cell__import *im, struct cell__node *node)
{
    float exponent = 0.0f;
    if (!one_exponent(im, node, &exponent)) {
        return cell__infer_binary(im, node);
    }
    return is_constant(im, node) ? fold_each(im, node, power, &exponent)
                                 : infer_like_first(im, node);
}

/* x to the power of 0.5, 1, 2 or 3: as exact as one operation or two. */
static enum base_status simple_power(struct cell__import *im, uint32_t x, float exponent,
                                     uint32_t *out)
{
    const struct cell_value value = im->rows[x].value;
    const struct cell_op root = {.kind = CELL_OP_SQRT, .n_operands = 1, .operands = {x}};
    *out = x;
    if (exponent == 0.5f) {
        return cell__row_op(im, &root, value, out);
    }
    for (uint32_t done = 1; done < (uint32_t)exponent; done++) {
        BASE_TRY(cell__row_pair(im, CELL_OP_MUL, *out, x, out));
    }
    return BASE_OK;
}

enum base_status cell__lower_pow(struct cell__import *im, struct cell__node *node)
{
    const uint32_t x = cell__input(im, node, 0)->row;
    uint32_t row = CELL__NONE;
    uint32_t number = CELL__NONE;
    float exponent = 0.0f;
    if (!one_exponent(im, node, &exponent)) {
        return cell__lower_binary(im, node);
    }
    const float size = fabsf(exponent);
    if (size == 0.5f || size == 1.0f || size == 2.0f || size == 3.0f) {
        BASE_TRY(simple_power(im, x, size, &row));
        if (exponent < 0.0f) {
            struct cell_op inverse = {.kind = CELL_OP_DIV, .n_operands = 2, .operands = {0, row}};
            BASE_TRY(cell__row_number(im, 1.0f, &inverse.operands[0]));
            BASE_TRY(cell__row_op(im, &inverse, im->rows[row].value, &row));
        }
    } else {
        BASE_TRY(cell__row_number(im, exponent, &number));
        BASE_TRY(cell__row_pair(im, CELL_OP_POW, x, number, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* Limit i (1: min, 2: max): an input since opset 11, an attribute before. */
static enum base_status clip_limit(struct cell__import *im, const struct cell__node *node,
                                   uint32_t i, bool *is_given, float *out)
{
    const char *name = i == 1 ? "min" : "max";
    *is_given = im->opset >= 11 ? cell__has_input(node, i) : cell__attr(node, name) != NULL;
    if (*is_given && im->opset >= 11) {
        return one_float(im, node, i, name, out);
    }
    return cell__attr_float(im, node, name, 0.0f, out);
}

static double clip(double x, const void *with)
{
    const float *limits = with;
    return fmin(fmax(x, (double)limits[0]), (double)limits[1]);
}

enum base_status cell__infer_clip(struct cell__import *im, struct cell__node *node)
{
    if (cell__is_of_integers(im, node) && cell__input(im, node, 0)->kind == CELL__ROWS) {
        return cell__infer_index(im, node);
    }
    float limits[2] = {0.0f, 0.0f};
    for (uint32_t i = 1; i < 3; i++) {
        bool is_given = false;
        BASE_TRY(clip_limit(im, node, i, &is_given, &limits[i - 1]));
        limits[i - 1] = is_given ? limits[i - 1] : i == 1 ? -INFINITY : INFINITY;
    }
    return is_constant(im, node) ? fold_each(im, node, clip, limits) : infer_like_first(im, node);
}

enum base_status cell__lower_clip(struct cell__import *im, struct cell__node *node)
{
    if (cell__is_of_integers(im, node)) {
        return cell__lower_index(im, node);
    }
    uint32_t row = cell__input(im, node, 0)->row;
    const struct cell_value one = {CELL_F32, 1};
    for (uint32_t i = 1; i < 3; i++) {
        struct cell_op op = {
            .kind = i == 1 ? CELL_OP_MAX : CELL_OP_MIN, .n_operands = 2, .operands = {row}};
        bool is_given = false;
        float *limit = base_arena_alloc(im->arena, sizeof(*limit));
        if (limit == NULL) {
            return cell__no_memory(im);
        }
        BASE_TRY(clip_limit(im, node, i, &is_given, limit));
        if (is_given) {
            BASE_TRY(cell__row_const(im, one, limit, &op.operands[1]));
            BASE_TRY(cell__row_op(im, &op, im->rows[row].value, &row));
        }
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Softplus ----------------------------------------------------------------------------- */

static double softplus(double x, const void *with)
{
    (void)with;
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

enum base_status cell__infer_softplus(struct cell__import *im, struct cell__node *node)
{
    return is_constant(im, node) ? fold_each(im, node, softplus, NULL) : infer_like_first(im, node);
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), of which no exponential is too large. */
enum base_status cell__lower_softplus(struct cell__import *im, struct cell__node *node)
{
    static const float minus = -1.0f;
    static const float one = 1.0f;
    const uint32_t x = cell__input(im, node, 0)->row;
    const struct cell_value value = im->rows[x].value;
    const struct cell_value number = {CELL_F32, 1};
    struct cell_op op = {.kind = CELL_OP_ABS, .n_operands = 1, .operands = {x}};
    uint32_t high = CELL__NONE;
    BASE_TRY(cell__row_op(im, &op, value, &op.operands[0]));
    op.kind = CELL_OP_MUL;
    op.n_operands = 2;
    BASE_TRY(cell__row_const(im, number, &minus, &op.operands[1]));
    BASE_TRY(cell__row_op(im, &op, value, &op.operands[0]));
    op.kind = CELL_OP_EXP;
    op.n_operands = 1;
    BASE_TRY(cell__row_op(im, &op, value, &op.operands[0]));
    op.kind = CELL_OP_ADD;
    op.n_operands = 2;
    BASE_TRY(cell__row_const(im, number, &one, &op.operands[1]));
    BASE_TRY(cell__row_op(im, &op, value, &op.operands[0]));
    op.kind = CELL_OP_LOG;
    op.n_operands = 1;
    BASE_TRY(cell__row_op(im, &op, value, &op.operands[0]));
    const struct cell_op relu = {.kind = CELL_OP_RELU, .n_operands = 1, .operands = {x}};
    BASE_TRY(cell__row_op(im, &relu, value, &high));
    op.kind = CELL_OP_ADD;
    op.n_operands = 2;
    op.operands[1] = high;
    BASE_TRY(cell__row_op(im, &op, value, &op.operands[0]));
    cell__set_row(im, node, 0, op.operands[0]);
    return BASE_OK;
}

/* ---- Softmax ------------------------------------------------------------------------------ */

/* Whether all axes from `axis` on are one. */
static bool is_flat_softmax(const struct cell__import *im)
{
    return im->opset < 13;
}

static bool is_log_softmax(const struct cell__node *node)
{
    return strcmp(node->op->name, "LogSoftmax") == 0;
}

static enum base_status fold_softmax(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    struct cell__tensor whole = *in;
    struct cell__tensor out;
    int64_t attribute = 0;
    uint32_t axis = 0;
    BASE_TRY(cell__attr_int(im, node, "axis", is_flat_softmax(im) ? 1 : -1, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, in->rank, &axis));
    for (uint32_t k = axis + 1; k < in->rank && is_flat_softmax(im); k++) {
        whole.dims[axis] *= in->dims[k];
        whole.dims[k] = 1;
    }
    BASE_TRY(cell__fold_softmax(im, &whole, axis, is_log_softmax(node), &out));
    BASE_TRY(cell__fold_reshape(im, &out, in->rank, in->dims, &whole));
    cell__set_const(im, node, 0, &whole);
    return BASE_OK;
}

enum base_status cell__infer_softmax(struct cell__import *im, struct cell__node *node)
{
    return is_constant(im, node) ? fold_softmax(im, node) : infer_like_first(im, node);
}

/* What has another sequence's steps as well, or is inside a step, is not computed: it is part of an
 * attention, which op_attend.c makes of it. */
static enum base_status softmax_seen_only(struct cell__import *im, const struct cell__node *node,
                                          uint32_t *row)
{
    const uint32_t in = *row;
    const struct cell_op softmax = {
        .kind = CELL_OP_SOFTMAX, .n_operands = 1, .operands = {in}, .group = 1};
    if (is_log_softmax(node)) {
        return cell__refuse(im, "over the steps of a sequence, for each of another");
    }
    return cell__row_op(im, &softmax, im->rows[in].value, row);
}

/* Over the steps of a sequence, or these and all features, as of places of a picture: the axes of
 * the mask, and how many elements of a row are theirs. */
static enum base_status softmax_of_steps(struct cell__import *im, const struct cell__node *node,
                                         uint32_t mask, uint32_t times, uint32_t group)
{
    const struct cell__value *value = cell__input(im, node, 0);
    const uint32_t in = value->row;
    const bool is_seen_only = im->feeds_back || cell__is_pair(im->rows[in].times);
    uint32_t row = in;
    if (cell__is_pair(times) || (im->rows[in].times & times) == 0) {
        return cell__refuse(im, "over the steps of what is the same at each of them");
    }
    if (group != 1 && (is_seen_only || group != im->rows[in].value.width)) {
        return cell__refuse(im, "over the steps and some of the features at once");
    }
    BASE_TRY(is_seen_only
                 ? softmax_seen_only(im, node, &row)
                 : cell__row_softmax_over(im, &value->shape, mask, is_log_softmax(node), &row));
    if (group == 1 && !is_log_softmax(node)) {
        im->rows[row].softmax_of = in;
        im->rows[row].over = cell__only_sequence(times);
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__lower_softmax(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const bool is_flat = is_flat_softmax(im);
    int64_t attribute = 0;
    uint32_t axis = 0;
    uint32_t group = 1;
    uint32_t behind = 1;
    BASE_TRY(cell__attr_int(im, node, "axis", is_flat ? 1 : -1, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, in->shape.rank, &axis));
    struct cell__shape over = {.rank = is_flat ? in->shape.rank - axis : 1};
    struct cell__shape rest = {.rank = in->shape.rank - axis - over.rank};
    memcpy(over.axes, &in->shape.axes[axis], over.rank * sizeof(over.axes[0]));
    memcpy(rest.axes, &in->shape.axes[axis + over.rank], rest.rank * sizeof(rest.axes[0]));
    uint32_t row = CELL__NONE;
    if (cell__shape_has(im, &over, CELL__ROLE_BATCH)) {
        return cell__refuse(im, "over the batch axis");
    }
    BASE_TRY(cell__shape_width(im, &over, &group));
    BASE_TRY(cell__shape_width(im, &rest, &behind));
    if (cell__shape_has(im, &over, CELL__ROLE_TIME)) {
        const uint32_t mask = ((1u << over.rank) - 1) << axis;
        return softmax_of_steps(im, node, mask, cell__shape_times(im, &over), group);
    }
    if (behind != 1) {
        return cell__refuse(im, "over an axis that is not the innermost of a row");
    }
    const bool is_log = is_log_softmax(node);
    struct cell_op op = {.kind = is_log ? CELL_OP_LOG_SOFTMAX : CELL_OP_SOFTMAX,
                         .n_operands = 1,
                         .operands = {in->row},
                         .group = group};
    BASE_TRY(cell__row_op(im, &op, im->rows[in->row].value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
