/* TopK: the largest or smallest elements of a row, and their numbers. Two ops, of which the second
 * takes the elements by what the first has found; what nobody reads is not computed. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

enum { IN_X, IN_K };
enum { OUT_VALUES, OUT_INDICES };

/* Opset in which k became an input. */
#define K_OPSET 10

static enum base_status read_k(struct cell__import *im, const struct cell__node *node, int64_t *k)
{
    if (im->opset < K_OPSET) {
        BASE_TRY(cell__attr_int(im, node, "k", 0, k));
    } else {
        if (!cell__has_input(node, IN_K)) {
            return cell__invalid(im, "without k");
        }
        const struct cell__value *given = cell__input(im, node, IN_K);
        if (given->kind != CELL__CONST) {
            return cell__refuse(im, "k is not constant");
        }
        if (given->dtype != CELL__I64 || given->tensor.count != 1) {
            return cell__invalid(im, "k is no integer");
        }
        const struct cell__sym number = cell__tensor_sym(&given->tensor, 0);
        if (!cell__sym_is_number(&number)) {
            return cell__refuse(im, "k is not constant: it depends on the shape of the request");
        }
        *k = number.add;
    }
    return *k >= 1 ? BASE_OK : cell__refuse(im, "k is %lld; at least 1", (long long)*k);
}

static enum base_status read_axis(struct cell__import *im, const struct cell__node *node,
                                  uint32_t *axis)
{
    int64_t attribute = -1;
    BASE_TRY(cell__attr_int(im, node, "axis", -1, &attribute));
    return cell__axis_index(im, attribute, cell__input(im, node, IN_X)->shape.rank, axis);
}

/* Whether the whole is one element: its own largest. So exporters sort the lengths of a batch of
 * one sequence, integers, before they pack it. */
static bool is_single(const struct cell__import *im, const struct cell__value *in)
{
    bool is = in->kind == CELL__ROWS && in->shape.rank > 0;
    if (in->kind == CELL__CONST) {
        return in->tensor.count == 1 && in->tensor.rank > 0;
    }
    for (uint32_t k = 0; k < in->shape.rank && is; k++) {
        is = cell__axis_size(im, &in->shape.axes[k]) == 1;
    }
    return is;
}

static enum base_status infer_single(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__value *in)
{
    static const int64_t first = 0;
    const uint32_t rank = in->kind == CELL__CONST ? in->tensor.rank : in->shape.rank;
    struct cell__tensor number = {.dtype = CELL__I64, .rank = rank, .count = 1, .data = &first};
    int64_t k = 0;
    BASE_TRY(read_k(im, node, &k));
    if (k != 1) {
        return cell__invalid(im, "k is %lld, on an axis of 1", (long long)k);
    }
    for (uint32_t a = 0; a < number.rank; a++) {
        number.dims[a] = 1;
    }
    cell__set_const(im, node, OUT_INDICES, &number);
    if (in->kind == CELL__CONST) {
        cell__set_const(im, node, OUT_VALUES, &in->tensor);
    } else {
        cell__set_rows(im, node, OUT_VALUES, in->dtype, &in->shape);
    }
    return BASE_OK;
}

enum base_status cell__infer_top(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, IN_X);
    int64_t k = 0;
    uint32_t axis = 0;
    if (is_single(im, in)) {
        return infer_single(im, node, in);
    }
    if (in->kind == CELL__ORDER) {
        return cell__infer_inverse(im, node);
    }
    if (cell__sorts_rows(im, node)) {
        return cell__infer_sort(im, node);
    }
    if (in->kind != CELL__ROWS || in->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(in->dtype));
    }
    BASE_TRY(read_axis(im, node, &axis));
    BASE_TRY(read_k(im, node, &k));
    struct cell__shape out = in->shape;
    const int64_t size = cell__axis_size(im, &out.axes[axis]);
    if (size >= 0 && k > size) {
        return cell__invalid(im, "k is %lld, on an axis of %lld", (long long)k, (long long)size);
    }
    BASE_TRY(cell__axis_new(im, k, &out.axes[axis]));
    cell__set_rows(im, node, OUT_VALUES, CELL__F32, &out);
    cell__set_rows(im, node, OUT_INDICES, CELL__I64, &out);
    return BASE_OK;
}

/* That the axis is the whole of a row. */
static enum base_status check_axis(struct cell__import *im, const struct cell__value *in,
                                   uint32_t axis)
{
    const struct cell__shape taken = {.rank = 1, .axes = {in->shape.axes[axis]}};
    uint32_t width = 0;
    if (cell__shape_has(im, &taken, CELL__ROLE_BATCH)) {
        return cell__refuse(im, "over the batch axis");
    }
    if (cell__shape_has(im, &taken, CELL__ROLE_TIME)) {
        return cell__refuse(im, "over the steps of a sequence");
    }
    BASE_TRY(cell__shape_width(im, &taken, &width));
    return width == im->rows[in->row].value.width
               ? BASE_OK
               : cell__refuse(im, "over a part of a row's features: %u of %u", width,
                              im->rows[in->row].value.width);
}

enum base_status cell__lower_top(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, IN_X);
    struct cell_op top = {.kind = CELL_OP_TOP, .n_operands = 1, .operands = {in->row}};
    struct cell_op take = {.kind = CELL_OP_TAKE, .n_operands = 2, .operands = {in->row}};
    int64_t largest = 1;
    int64_t k = 0;
    uint32_t axis = 0;
    uint32_t values = CELL__NONE;
    if (is_single(im, in)) {
        return cell__lower_identity(im, node);
    }
    if (in->dtype != CELL__F32) {
        return cell__lower_sort(im, node);
    }
    BASE_TRY(read_axis(im, node, &axis));
    BASE_TRY(read_k(im, node, &k));
    BASE_TRY(cell__attr_int(im, node, "largest", 1, &largest));
    BASE_TRY(check_axis(im, in, axis));
    top.variant = largest != 0 ? CELL_TOP_LARGEST : CELL_TOP_SMALLEST;
    uint32_t *numbers = &take.operands[1];
    BASE_TRY(cell__row_op(im, &top, (struct cell_value){CELL_I64, (uint32_t)k}, numbers));
    BASE_TRY(cell__row_op(im, &take, (struct cell_value){CELL_F32, (uint32_t)k}, &values));
    cell__set_row(im, node, OUT_VALUES, values);
    cell__set_row(im, node, OUT_INDICES, *numbers);
    return BASE_OK;
}
