/* Pad along the steps of a sequence, with zeros: a copy that begins before the first step. What a
 * convolution reads of it, it reads of the sequence itself (cell__row_window()). */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

enum { IN_X, IN_PADS, IN_VALUE, IN_AXES };

/* Opsets in which pads and the value, and in which axes became inputs. */
#define INPUTS_OPSET 11
#define AXES_OPSET   18

struct padding {
    uint32_t axis; /* the only one that is padded; rank: none is */
    int64_t before, behind;
};

/* That what is padded with is 0. */
static enum base_status check_value(struct cell__import *im, const struct cell__node *node)
{
    const Onnx__AttributeProto *mode = cell__attr(node, "mode");
    float value = 0.0f;
    if (mode != NULL && !cell__is_text(mode->s, "constant")) {
        return cell__refuse(im, "of another mode than constant");
    }
    BASE_TRY(cell__attr_float(im, node, "value", 0.0f, &value));
    if (im->opset >= INPUTS_OPSET && cell__has_input(node, IN_VALUE)) {
        const struct cell__value *given = cell__input(im, node, IN_VALUE);
        if (given->kind != CELL__CONST || given->dtype != CELL__F32 || given->tensor.count != 1) {
            return cell__refuse(im, "a value that is no constant of one float");
        }
        memcpy(&value, given->tensor.data, sizeof(value));
    }
    return value == 0.0f ? BASE_OK : cell__refuse(im, "with another value than 0");
}

/* The padding of axis k, number i of those that are listed. */
static enum base_status add_axis(struct cell__import *im, const struct cell__list *pads, uint32_t i,
                                 uint32_t k, struct padding *out)
{
    const int64_t before = pads->at[i];
    const int64_t behind = pads->at[i + pads->n / 2];
    if (before == 0 && behind == 0) {
        return BASE_OK;
    }
    if (before < 0 || behind < 0 || before > CELL_WINDOW_MAX || behind > CELL_WINDOW_MAX) {
        return cell__refuse(im, "padding of %lld and %lld; 0 to %u each", (long long)before,
                            (long long)behind, CELL_WINDOW_MAX);
    }
    if (out->before + out->behind > 0) {
        return cell__refuse(im, "along axes %u and %u at once", out->axis, k);
    }
    *out = (struct padding){k, before, behind};
    return BASE_OK;
}

static enum base_status read_padding(struct cell__import *im, const struct cell__node *node,
                                     struct padding *out)
{
    const uint32_t rank = cell__input(im, node, IN_X)->shape.rank;
    struct cell__list axes = {.n = 0};
    struct cell__list pads;
    *out = (struct padding){.axis = rank};
    BASE_TRY(check_value(im, node));
    BASE_TRY(cell__ints_or_attr(im, node, IN_PADS, INPUTS_OPSET, "pads", &pads));
    if (im->opset >= AXES_OPSET && cell__has_input(node, IN_AXES)) {
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, IN_AXES), "axes", &axes));
    }
    if (pads.n != 2 * (axes.n > 0 ? axes.n : rank)) {
        return cell__invalid(im, "pads of %u numbers", pads.n);
    }
    for (uint32_t i = 0; i < pads.n / 2; i++) {
        uint32_t k = i;
        if (axes.n > 0) {
            BASE_TRY(cell__axis_index(im, axes.at[i], rank, &k));
        }
        BASE_TRY(add_axis(im, &pads, i, k, out));
    }
    return BASE_OK;
}

enum base_status cell__infer_pad(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    struct padding padding;
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(x->dtype));
    }
    BASE_TRY(read_padding(im, node, &padding));
    struct cell__shape out = x->shape;
    if (padding.axis < out.rank) {
        const struct cell__axis steps = out.axes[padding.axis];
        BASE_TRY(cell__axis_strided(im, &steps, padding.before + padding.behind - 1, 1,
                                    &out.axes[padding.axis]));
    }
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

enum base_status cell__lower_pad(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    struct padding padding;
    uint32_t row = x->row;
    BASE_TRY(read_padding(im, node, &padding));
    if (padding.axis == x->shape.rank) {
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    struct cell__steps steps = {
        .stride = 1, .behind = (uint32_t)padding.behind, .offset = (int32_t)-padding.before};
    BASE_TRY(cell__row_copy_steps(im, &x->shape.axes[padding.axis],
                                  &cell__output(im, node, 0)->shape.axes[padding.axis], &steps,
                                  &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
