/* Products of what depends on the request with what depends on the request: of two rows, element by
 * element and summed, or of attention's weights with the steps of a sequence (op_attend.c). */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

enum base_status cell__infer_rows_product(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *a = cell__input(im, node, 0);
    const struct cell__value *b = cell__input(im, node, 1);
    if (a->dtype != CELL__F32 || b->dtype != CELL__F32 || a->shape.rank != b->shape.rank ||
        a->shape.rank < 2) {
        return cell__refuse(im, "only x times constant weights is supported");
    }
    struct cell__shape out = a->shape;
    const uint32_t last = out.rank - 1;
    for (uint32_t k = 0; k + 2 < out.rank; k++) {
        const int64_t a_size = cell__axis_size(im, &a->shape.axes[k]);
        if (a_size == 1) {
            out.axes[k] = b->shape.axes[k];
        } else if (cell__axis_size(im, &b->shape.axes[k]) != 1) {
            BASE_TRY(
                cell__axis_unite(im, &a->shape.axes[k], &b->shape.axes[k], "operand dimensions"));
        }
    }
    const struct cell__axis *taken[2] = {&a->shape.axes[last], &b->shape.axes[last - 1]};
    if ((cell__axis_size(im, taken[0]) < 0) != (cell__axis_size(im, taken[1]) < 0)) {
        return cell__refuse(im, "only x times constant weights, or an attention, is supported");
    }
    BASE_TRY(cell__axis_unite(im, taken[0], taken[1], "operand dimensions"));
    out.axes[last] = b->shape.axes[last];
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* Summed over the steps of a sequence. */
static enum base_status product_over_steps(struct cell__import *im, uint32_t a, uint32_t b,
                                           uint32_t over, uint32_t *out)
{
    const struct cell__row *first = &im->rows[a];
    const bool is_first = first->softmax_of != CELL__NONE && first->over == over;
    const uint32_t weights = is_first ? a : b;
    const uint32_t values = is_first ? b : a;
    const uint32_t times = im->rows[a].times | im->rows[b].times;
    const struct base_error before = *im->error;
    const enum base_status status = cell__row_attend(im, weights, values, out);
    if (status != BASE_UNIMPLEMENTED || im->feeds_back || cell__is_pair(times) ||
        im->rows[weights].value.width != 1) {
        return status;
    }
    *im->error = before; // a chain over the steps
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, values, weights, out));
    return cell__row_sum_of_steps(im, *out, out);
}

enum base_status cell__lower_rows_product(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *a = cell__input(im, node, 0);
    const struct cell__value *b = cell__input(im, node, 1);
    const struct cell__axis *taken = &a->shape.axes[a->shape.rank - 1];
    const struct cell__axis *left = &a->shape.axes[a->shape.rank - 2];
    const struct cell__axis *right = &b->shape.axes[b->shape.rank - 1];
    const struct cell__shape over = {.rank = 1, .axes = {*taken}};
    const uint32_t times = cell__axis_times(im, taken);
    uint32_t row = CELL__NONE;
    uint32_t width = 0;
    if (cell__shape_has(im, &over, CELL__ROLE_BATCH)) {
        return cell__refuse(im, "over the batch axis");
    }
    if ((cell__axis_times(im, left) & cell__axis_times(im, right)) != 0) {
        return cell__refuse(im, "attention of a sequence over its own steps");
    }
    if (times != 0) {
        BASE_TRY(product_over_steps(im, a->row, b->row, cell__only_sequence(times), &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    BASE_TRY(cell__shape_width(im, &over, &width));
    if (im->rows[a->row].value.width != width || im->rows[b->row].value.width != width) {
        return cell__refuse(im, "a product of two matrices of a row");
    }
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, a->row, b->row, &row));
    BASE_TRY(cell__row_sum(im, row, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
