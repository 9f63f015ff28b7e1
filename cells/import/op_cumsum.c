/* CumSum of a few features, one addition each; and over the steps: a chain whose state is the sum
 * so far, in the order of the steps or from the last one on. By Kahan's method: what rounding has
 * added is taken off the next step, so the error does not grow with the number of steps, as that of
 * a plain sum does. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* The sum, and by how much it is too large. */
enum { STATE_SUM, STATE_OVER, STATES };

static enum base_status find_axis(struct cell__import *im, const struct cell__node *node,
                                  uint32_t *axis)
{
    struct cell__list given;
    BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 1), "axis", &given));
    if (given.n != 1) {
        return cell__invalid(im, "axis is no integer");
    }
    return cell__axis_index(im, given.at[0], cell__input(im, node, 0)->shape.rank, axis);
}

enum base_status cell__infer_cumsum(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    uint32_t axis = 0;
    if (in->kind != CELL__ROWS || in->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(in->dtype));
    }
    BASE_TRY(find_axis(im, node, &axis));
    cell__set_rows(im, node, 0, CELL__F32, &in->shape);
    return BASE_OK;
}

/* The rows of one step, in the chain's body. Nothing is taken off behind an infinity. */
static enum base_status write_body(struct cell__import *im, uint32_t chain, uint32_t x,
                                   bool is_exclusive)
{
    uint32_t before = CELL__NONE;
    uint32_t over = CELL__NONE;
    uint32_t sum = CELL__NONE;
    uint32_t zero = CELL__NONE;
    struct cell_op keep = {.kind = CELL_OP_SELECT, .n_operands = 3};
    BASE_TRY(cell__row_recurrent(im, CELL__ROW_IN, chain, STATE_SUM, &before));
    BASE_TRY(cell__row_recurrent(im, CELL__ROW_IN, chain, STATE_OVER, &over));
    BASE_TRY(cell__row_number(im, 0.0f, &zero));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, x, over, &x));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, before, x, &sum));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, sum, before, &over));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, over, x, &over));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, over, over, &keep.operands[0])); // 0, or NaN
    BASE_TRY(cell__row_pair(im, CELL_OP_LESS_EQUAL, keep.operands[0], zero, &keep.operands[0]));
    keep.operands[1] = over;
    keep.operands[2] = zero;
    BASE_TRY(cell__row_op(im, &keep, im->rows[sum].value, &over));
    if (is_exclusive) {
        const struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {before}};
        BASE_TRY(cell__row_op(im, &copy, im->rows[before].value, &before));
    }
    struct cell__recurrent *of = &im->recurrents[chain];
    of->next_rows[STATE_SUM] = sum;
    of->next_rows[STATE_OVER] = over;
    of->output_rows[of->n_outputs++] = is_exclusive ? before : sum;
    return BASE_OK;
}

/* Elements of an axis within a row that are added one by one. */
#define ELEMENTS_MAX 32u

/* Of `height` parts of a row that lie behind each other. */
static enum base_status add_parts(struct cell__import *im, uint32_t height, bool is_exclusive,
                                  bool is_reverse, uint32_t *row)
{
    const uint32_t width = im->rows[*row].value.width / height;
    uint32_t sums[ELEMENTS_MAX];
    uint32_t sum = CELL__NONE;
    for (uint32_t i = 0; i < height; i++) {
        const uint32_t at = is_reverse ? height - 1 - i : i;
        uint32_t part = CELL__NONE;
        BASE_TRY(cell__row_slice(im, *row, at * width, width, &part));
        if (is_exclusive && i == 0) {
            BASE_TRY(cell__row_zeros(im, width, &sums[at]));
        } else if (is_exclusive) {
            sums[at] = sum;
        }
        if (i > 0) {
            BASE_TRY(cell__row_pair(im, CELL_OP_ADD, sum, part, &part));
        }
        sum = part;
        sums[at] = is_exclusive ? sums[at] : sum;
    }
    return cell__row_concat(im, sums, height, row);
}

static enum base_status lower_within(struct cell__import *im, struct cell__node *node,
                                     uint32_t axis, bool is_exclusive, bool is_reverse)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__place place;
    uint32_t row = in->row;
    BASE_TRY(cell__axis_in_row(im, &in->shape, axis, "adds up", &place));
    if (place.size > ELEMENTS_MAX) {
        return cell__refuse(im, "over %u features; at most %u", place.size, ELEMENTS_MAX);
    }
    const uint32_t there[3] = {1, place.outer, place.size};
    const uint32_t back[3] = {1, place.size, place.outer};
    BASE_TRY(cell__row_transpose(im, row, there, &row));
    BASE_TRY(add_parts(im, place.size, is_exclusive, is_reverse, &row));
    BASE_TRY(cell__row_transpose(im, row, back, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__lower_cumsum(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell_value value = im->rows[in->row].value;
    int64_t is_exclusive = 0;
    int64_t is_reverse = 0;
    uint32_t axis = 0;
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__attr_int(im, node, "exclusive", 0, &is_exclusive));
    BASE_TRY(cell__attr_int(im, node, "reverse", 0, &is_reverse));
    BASE_TRY(find_axis(im, node, &axis));
    const uint32_t times = cell__axis_times(im, &in->shape.axes[axis]);
    if (times == 0) {
        return lower_within(im, node, axis, is_exclusive != 0, is_reverse != 0);
    }
    const uint32_t own = im->rows[in->row].times; // none: the same is added at each step
    if (cell__is_pair(times) || (own != times && own != 0) || im->scan != CELL__NONE ||
        im->feeds_back) {
        return cell__refuse(im, "over the steps of what has those of two sequences, or of another");
    }
    if (im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "over the steps beside sequence_lens");
    }
    struct cell__recurrent chain = {.node = im->current,
                                    .word = "cumsum",
                                    .sequence = cell__only_sequence(times),
                                    .is_shared = own != 0 && !im->rows[in->row].is_batched,
                                    .is_reverse = is_reverse != 0,
                                    .is_scan = true,
                                    .lengths_value = CELL__NONE,
                                    .n_states = STATES};
    for (uint32_t s = 0; s < STATES; s++) {
        chain.states[s] = value;
        chain.init_values[s] = chain.init_rows[s] = CELL__NONE;
    }
    BASE_TRY(cell__recurrent_new(im, node, &chain));
    im->scan = node->recurrent;
    const enum base_status status = write_body(im, node->recurrent, in->row, is_exclusive != 0);
    im->scan = CELL__NONE;
    BASE_TRY(status);
    BASE_TRY(cell__row_recurrent(im, CELL__ROW_STEP, node->recurrent, 0, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
