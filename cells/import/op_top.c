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

enum base_status cell__infer_top(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, IN_X);
    int64_t k = 0;
    uint32_t axis = 0;
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
    BASE_TRY(read_axis(im, node, &axis));
    BASE_TRY(read_k(im, node, &k));
    BASE_TRY(cell__attr_int(im, node, "largest", 1, &largest));
    if (largest != 0 && largest != 1) {
        return cell__invalid(im, "largest is %lld; it is 0 or 1", (long long)largest);
    }
    BASE_TRY(check_axis(im, in, axis));
    top.variant = largest != 0 ? CELL_TOP_LARGEST : CELL_TOP_SMALLEST;
    uint32_t *numbers = &take.operands[1];
    BASE_TRY(cell__row_op(im, &top, (struct cell_value){CELL_I64, (uint32_t)k}, numbers));
    BASE_TRY(cell__row_op(im, &take, (struct cell_value){CELL_F32, (uint32_t)k}, &values));
    cell__set_row(im, node, OUT_VALUES, values);
    cell__set_row(im, node, OUT_INDICES, *numbers);
    return BASE_OK;
}
