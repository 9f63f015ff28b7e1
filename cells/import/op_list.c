/* Sequences of tensors, as far as Loops are written with them: a tensor cut along its time axis
 * (torch.unbind), one element of it, and what a Loop collects (a Python list) and joins behind it
 * (torch.stack, torch.cat). They are only another look at rows: nothing is moved. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* Output 0: the tensor without one axis, whose steps the Loop around the node counts. */
static enum base_status set_element(struct cell__import *im, const struct cell__node *node,
                                    const struct cell__value *whole, uint32_t axis)
{
    struct cell__shape shape = {.rank = whole->shape.rank - 1};
    if (node->scan == CELL__NONE) {
        return cell__refuse(im, "by the number of the step, outside of a Loop's body");
    }
    BASE_TRY(cell__axis_unite(im, &whole->shape.axes[axis], &im->recurrents[node->scan].time,
                              "the axis of the steps"));
    cell__recurrent_takes(im, node->scan, whole);
    for (uint32_t k = 0; k < shape.rank; k++) {
        shape.axes[k] = whole->shape.axes[k < axis ? k : k + 1];
    }
    cell__set_rows(im, node, 0, whole->dtype, &shape);
    return BASE_OK;
}

enum base_status cell__infer_element(struct cell__import *im, const struct cell__node *node,
                                     int64_t attribute)
{
    const struct cell__value *whole = cell__input(im, node, 0);
    uint32_t axis = 0;
    if (whole->kind != CELL__ROWS) {
        return cell__refuse(im, "takes from a constant by the number of the step");
    }
    BASE_TRY(cell__axis_index(im, attribute, whole->shape.rank, &axis));
    return set_element(im, node, whole, axis);
}

enum base_status cell__lower_element(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_of_step(im, cell__input(im, node, 0), node->scan, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- SplitToSequence, SequenceLength, SequenceAt ------------------------------------------ */

enum base_status cell__infer_list_split(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    int64_t attribute = 0;
    int64_t keep = 1;
    uint32_t axis = 0;
    if (in->kind != CELL__ROWS || in->shape.rank == 0) {
        return cell__refuse(im, "of a constant or a scalar");
    }
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    BASE_TRY(cell__attr_int(im, node, "keepdims", 1, &keep));
    BASE_TRY(cell__axis_index(im, attribute, in->shape.rank, &axis));
    if (cell__has_input(node, 1)) {
        struct cell__list size;
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 1), "split", &size));
        if (size.n != 1 || size.at[0] != 1) {
            return cell__refuse(im, "into parts of other than one element");
        }
    }
    if (keep != 0) {
        return cell__refuse(im, "keeps the axis that it splits");
    }
    cell__set_list(im, node, 0, in->dtype, &in->shape, axis);
    return BASE_OK;
}

enum base_status cell__infer_list_length(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    struct cell__tensor out = {.dtype = CELL__I64};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    if (list->kind != CELL__LIST || list->list_axis == CELL__NONE) {
        return cell__refuse(im, "of what is no whole sequence");
    }
    BASE_TRY(cell__tensor_shape(im, &out, 0, NULL));
    BASE_TRY(cell__tensor_alloc(im, &out, true, &data, &syms));
    syms[0] = cell__sym_of_axis(im, &list->shape.axes[list->list_axis]);
    BASE_TRY(cell__tensor_settle(im, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_list_at(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    if (list->kind != CELL__LIST || list->list_axis == CELL__NONE ||
        !cell__is_step(cell__input(im, node, 1))) {
        return cell__refuse(im, "anything but a sequence by the number of the step");
    }
    return set_element(im, node, list, list->list_axis);
}

/* ---- SequenceEmpty, SequenceInsert, ConcatFromSequence ------------------------------------ */

enum base_status cell__infer_list_empty(struct cell__import *im, struct cell__node *node)
{
    const struct cell__shape none = {.rank = 0};
    int64_t onnx = 1;
    enum cell__dtype dtype = CELL__F32;
    BASE_TRY(cell__attr_int(im, node, "dtype", 1, &onnx));
    BASE_TRY(cell__dtype_of(im, onnx, "a sequence", &dtype));
    cell__set_list(im, node, 0, dtype, &none, CELL__NONE);
    return BASE_OK;
}

enum base_status cell__infer_list_insert(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    const struct cell__value *element = cell__input(im, node, 1);
    if (list->kind != CELL__LIST || list->list_axis != CELL__NONE || node->scan == CELL__NONE ||
        element->kind != CELL__ROWS || cell__has_input(node, 2)) {
        return cell__refuse(im, "anything but a step's tensor, at the end of a sequence that a "
                                "Loop carries");
    }
    if (element->dtype != list->dtype) {
        return cell__invalid(im, "the sequence is of another type");
    }
    cell__set_list(im, node, 0, element->dtype, &element->shape, CELL__NONE);
    return BASE_OK;
}

enum base_status cell__lower_list_insert(struct cell__import *im, struct cell__node *node)
{
    cell__set_row(im, node, 0, cell__input(im, node, 1)->row);
    return BASE_OK;
}

enum base_status cell__infer_list_join(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    int64_t attribute = 0;
    int64_t is_new = 0;
    uint32_t axis = 0;
    if (list->kind != CELL__LIST || list->list_axis != 0 || list->shape.rank < 2) {
        return cell__refuse(im, "of what no Loop has collected");
    }
    const struct cell__shape *whole = &list->shape; // the steps first
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    BASE_TRY(cell__attr_int(im, node, "new_axis", 0, &is_new));
    struct cell__shape out = {.rank = is_new != 0 ? whole->rank : whole->rank - 1};
    BASE_TRY(cell__axis_index(im, attribute, out.rank, &axis));
    if (is_new == 0 && cell__axis_size(im, &whole->axes[1 + axis]) != 1) {
        return cell__refuse(im, "joins tensors along an axis that is longer than 1");
    }
    for (uint32_t k = 0; k < out.rank; k++) {
        uint32_t from = is_new == 0 || k < axis ? k + 1 : k;
        out.axes[k] = k == axis ? whole->axes[0] : whole->axes[from];
    }
    cell__set_rows(im, node, 0, list->dtype, &out);
    return BASE_OK;
}
