/* Element-wise arithmetic, activations and Softmax. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

/* Our op for an ONNX operator's name; the names differ only in case. */
static enum cell_op_kind op_kind(const struct cell__node *node)
{
    static const struct {
        const char *name;
        enum cell_op_kind kind;
    } kinds[] = {{"Add", CELL_OP_ADD},        {"Sub", CELL_OP_SUB},   {"Mul", CELL_OP_MUL},
                 {"Div", CELL_OP_DIV},        {"Tanh", CELL_OP_TANH}, {"Relu", CELL_OP_RELU},
                 {"Sigmoid", CELL_OP_SIGMOID}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, node->op->name) == 0) {
            return kinds[i].kind;
        }
    }
    base_assert(false);
    return CELL_OP_COPY;
}

static char op_sign(const struct cell__node *node)
{
    switch ((unsigned)op_kind(node)) {
    case CELL_OP_ADD:
        return '+';
    case CELL_OP_SUB:
        return '-';
    case CELL_OP_MUL:
        return '*';
    default:
        return '/';
    }
}

static enum base_status check_f32(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        enum cell__dtype dtype = cell__input(im, node, i)->dtype;
        if (dtype != CELL__F32) {
            return cell__refuse(im, "computes with %s values that depend on the request",
                                cell__dtype_name(dtype));
        }
    }
    return BASE_OK;
}

/* ---- Add, Sub, Mul, Div ------------------------------------------------------------------- */

/* One axis of the result; a constant never fixes the size that a request chooses. */
static enum base_status binary_axis(struct cell__import *im, const struct cell__axis *a,
                                    const struct cell__axis *b, bool is_with_const,
                                    struct cell__axis *out)
{
    int64_t a_size = cell__axis_size(im, a);
    int64_t b_size = cell__axis_size(im, b);
    *out = a_size == 1 ? *b : *a;
    if (a_size == 1 || b_size == 1) {
        return BASE_OK;
    }
    if (is_with_const) {
        return a_size == b_size ? BASE_OK
                                : cell__refuse(im, "a constant that differs along an axis whose "
                                                   "size the request chooses");
    }
    return cell__axis_unite(im, a, b, "operand dimensions");
}

enum base_status cell__infer_binary(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *a = cell__input(im, node, 0);
    const struct cell__value *b = cell__input(im, node, 1);
    if (cell__is_all_const(im, node)) {
        struct cell__tensor folded;
        BASE_TRY(cell__fold_binary(im, op_sign(node), &a->tensor, &b->tensor, &folded));
        cell__set_const(im, node, 0, &folded);
        return BASE_OK;
    }
    struct cell__shape one;
    struct cell__shape two;
    BASE_TRY(check_f32(im, node));
    BASE_TRY(cell__shape_of(im, a, &one));
    BASE_TRY(cell__shape_of(im, b, &two));
    bool is_with_const = a->kind == CELL__CONST || b->kind == CELL__CONST;
    struct cell__shape out = {.rank = one.rank > two.rank ? one.rank : two.rank};
    struct cell__axis none = {.n = 0};
    for (uint32_t behind = 1; behind <= out.rank; behind++) {
        const struct cell__axis *x = behind <= one.rank ? &one.axes[one.rank - behind] : &none;
        const struct cell__axis *y = behind <= two.rank ? &two.axes[two.rank - behind] : &none;
        if (a->kind == CELL__CONST) { // the axis of the rows goes on
            const struct cell__axis *swap = x;
            x = y;
            y = swap;
        }
        BASE_TRY(binary_axis(im, x, y, is_with_const, &out.axes[out.rank - behind]));
    }
    cell__set_rows(im, node, 0, CELL__F32, &out);
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
            bias->kind == CELL__ROW_CONST && bias->value.width == width &&
            linear->value.width == width) {
            struct cell_weight weight = bias->op.weights[0];
            *op = linear->op;
            op->weights[op->n_weights++] = weight;
            return true;
        }
    }
    return false;
}

enum base_status cell__lower_binary(struct cell__import *im, struct cell__node *node)
{
    const struct cell__shape *shape = &cell__output(im, node, 0)->shape;
    struct cell_op op = {.kind = op_kind(node), .n_operands = 2};
    struct cell_value value = {.dtype = CELL_F32};
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__shape_width(im, shape, &value.width));
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(cell__row_of(im, cell__input(im, node, i), shape, true, &op.operands[i]));
        uint32_t width = im->rows[op.operands[i]].value.width;
        if (width != 1 && width != value.width) {
            return cell__refuse(im, "repeats elements inside a row");
        }
    }
    (void)fuse_bias(im, &op, value.width);
    BASE_TRY(cell__row_op(im, &op, value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Sigmoid, Tanh, Relu ------------------------------------------------------------------ */

enum base_status cell__infer_unary(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    BASE_TRY(check_f32(im, node));
    if (in->kind == CELL__CONST) {
        return cell__refuse(im, "of a constant");
    }
    cell__set_rows(im, node, 0, CELL__F32, &in->shape);
    return BASE_OK;
}

enum base_status cell__lower_unary(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = cell__input(im, node, 0)->row;
    struct cell_op op = {.kind = op_kind(node), .n_operands = 1, .operands = {row}};
    BASE_TRY(cell__row_op(im, &op, im->rows[row].value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Softmax ------------------------------------------------------------------------------ */

enum base_status cell__infer_softmax(struct cell__import *im, struct cell__node *node)
{
    return cell__infer_unary(im, node);
}

enum base_status cell__lower_softmax(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    bool is_flat = im->opset < 13; // over all axes from `axis` on
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
    if (cell__shape_has(im, &over, CELL__ROLE_BATCH) ||
        cell__shape_has(im, &over, CELL__ROLE_TIME)) {
        return cell__refuse(im, "over the batch or time axis");
    }
    BASE_TRY(cell__shape_width(im, &over, &group));
    BASE_TRY(cell__shape_width(im, &rest, &behind));
    if (behind != 1) {
        return cell__refuse(im, "over an axis that is not the innermost of a row");
    }
    struct cell_op op = {
        .kind = CELL_OP_SOFTMAX, .n_operands = 1, .operands = {in->row}, .group = group};
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_op(im, &op, im->rows[in->row].value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
