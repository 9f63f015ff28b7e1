/* Products of what depends on the request with what depends on the request: of two rows, element by
 * element and summed, of two matrices of each row, or of attention's weights with the steps of a
 * sequence (op_attend.c). */
#include "cells/import/behind.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/import/scores.h"

#define HEADS_MAX 32u

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
    const struct cell__axis *left = &a->shape.axes[last - 1];
    const struct cell__axis *right = &b->shape.axes[last];
    if ((cell__axis_size(im, taken[0]) < 0) != (cell__axis_size(im, taken[1]) < 0)) {
        return cell__refuse(im, "only x times constant weights, or an attention, is supported");
    }
    if (!cell__axis_is_mirror(im, taken[0], taken[1])) { // weights of a sequence's own steps
        BASE_TRY(cell__axis_unite(im, taken[0], taken[1], "operand dimensions"));
    }
    out.axes[last] = *right;
    if (left->n == 1 && cell__axis_is_same(im, left, right)) { // pairs of steps of one sequence
        BASE_TRY(cell__axis_mirror(im, left, &out.axes[last]));
    }
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* Whether a Softmax is of scores of which a Where that has the same condition masks some. */
static bool is_masked_alike(struct cell__import *im, const struct cell__node *softmax,
                            const struct cell__node *node)
{
    const struct cell__node *masked = cell__made_by(im, softmax, 0, "Where");
    const struct cell__value *condition = cell__input(im, node, 0);
    const struct cell__value *number = masked == NULL ? NULL : cell__input(im, masked, 1);
    if (number == NULL || number->kind != CELL__CONST || number->dtype != CELL__F32 ||
        number->tensor.count != 1 || *(const float *)number->tensor.data > CELL__MASKED) {
        return false;
    }
    const struct cell__value *before = cell__input(im, masked, 0);
    return condition->kind == CELL__ROWS && before->kind == CELL__ROWS &&
           condition->row == before->row;
}

/* Whether it is where the weights are no numbers. */
static bool is_where_nan(const struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *is_nan = cell__made_by(im, node, 0, "IsNaN"); // written out
    const struct cell__node *same =
        cell__made_by(im, cell__made_by(im, is_nan, 0, "Not"), 0, "Equal");
    return same != NULL && same->inputs[0] == node->inputs[2];
}

void cell__note_zero_weights(struct cell__import *im, const struct cell__node *node, uint32_t row)
{
    const struct cell__node *softmax = cell__made_by(im, node, 2, "Softmax");
    const struct cell__value *zero = cell__input(im, node, 1);
    if (softmax == NULL || cell__input(im, node, 2)->kind != CELL__ROWS ||
        zero->kind != CELL__CONST || zero->dtype != CELL__F32 || zero->tensor.count != 1 ||
        !cell__are_zeros(zero->tensor.data, 1)) {
        return;
    }
    const bool is_nan = is_where_nan(im, node);
    if (is_nan || is_masked_alike(im, softmax, node)) {
        const struct cell__row *weights = &im->rows[cell__input(im, node, 2)->row];
        im->rows[row].softmax_of = weights->softmax_of;
        im->rows[row].over = weights->over;
        im->rows[row].nan_is_zero = is_nan;
        im->rows[row].none_is_zero = !is_nan;
    }
}

/* Of several heads: part h of n equal ones; of 1 the whole, which all heads share. */
static enum base_status head_of(struct cell__import *im, uint32_t row, uint32_t h, uint32_t n,
                                uint32_t *out)
{
    if (n == 1) {
        *out = row;
        return BASE_OK;
    }
    const uint32_t width = im->rows[row].value.width / n;
    return cell__row_slice(im, row, h * width, width, out);
}

/* The weights of head h: the softmax over the steps of its scores. */
static enum base_status weights_of(struct cell__import *im, uint32_t weights, uint32_t h,
                                   uint32_t n, uint32_t *out)
{
    const uint32_t of = im->rows[weights].softmax_of;
    const uint32_t over = im->rows[weights].over;
    struct cell_op softmax = {.kind = CELL_OP_SOFTMAX, .n_operands = 1, .group = 1};
    BASE_TRY(head_of(im, of, h, n, &softmax.operands[0]));
    BASE_TRY(cell__row_op(im, &softmax, (struct cell_value){CELL_F32, 1}, out));
    im->rows[*out].softmax_of = softmax.operands[0];
    im->rows[*out].over = over;
    im->rows[*out].nan_is_zero = im->rows[weights].nan_is_zero;
    im->rows[*out].none_is_zero = im->rows[weights].none_is_zero;
    return BASE_OK;
}

/* The sum over the steps of values by weights, a number at each: as an attention, or else by a
 * chain where no other sequence's steps ask for it. weights: computed; of: as an attention's. */
static enum base_status weigh(struct cell__import *im, uint32_t of, uint32_t weights,
                              uint32_t values, uint32_t *out)
{
    const struct base_error before = *im->error;
    const uint32_t times = im->rows[weights].times | im->rows[values].times;
    const enum base_status status = cell__row_attend(im, of, values, out);
    if (status != BASE_UNIMPLEMENTED || im->feeds_back || cell__is_pair(times) ||
        im->rows[weights].value.width != 1) {
        return status;
    }
    *im->error = before;
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, values, weights, out));
    return cell__row_sum_of_steps(im, *out, out);
}

/* What each of n heads takes of its part of the values, or of all of them where the result is as
 * wide, beside each other. */
static enum base_status attend_by_heads(struct cell__import *im, uint32_t weights, uint32_t values,
                                        uint32_t n, uint32_t width, uint32_t *out)
{
    uint32_t heads[HEADS_MAX];
    const uint32_t wide = im->rows[values].value.width;
    const uint32_t parts = width / n == wide && width % n == 0 ? 1 : n;
    if (n > HEADS_MAX || wide % parts != 0) {
        return cell__refuse(
            im, "attention of %u heads, at most %u, whose values share a row evenly", n, HEADS_MAX);
    }
    for (uint32_t h = 0; h < n; h++) {
        uint32_t of = CELL__NONE;
        uint32_t own = CELL__NONE;
        uint32_t part = CELL__NONE;
        BASE_TRY(weights_of(im, weights, h, n, &of));
        BASE_TRY(head_of(im, weights, h, n, &own));
        BASE_TRY(head_of(im, values, h, parts, &part));
        BASE_TRY(weigh(im, of, own, part, &heads[h]));
    }
    return cell__row_concat(im, heads, n, out);
}

/* The product of a query and a key of each head, or of the key of all. */
static enum base_status product_by_heads(struct cell__import *im, uint32_t a, uint32_t b,
                                         uint32_t n, uint32_t parts, uint32_t *out)
{
    uint32_t heads[HEADS_MAX];
    if (n > HEADS_MAX) {
        return cell__refuse(im, "attention of %u heads; at most %u", n, HEADS_MAX);
    }
    for (uint32_t h = 0; h < n; h++) {
        uint32_t query = CELL__NONE;
        uint32_t key = CELL__NONE;
        BASE_TRY(head_of(im, a, h, n, &query));
        BASE_TRY(head_of(im, b, h, parts, &key));
        BASE_TRY(cell__row_pair(im, CELL_OP_MUL, query, key, &heads[h]));
        BASE_TRY(cell__row_sum(im, heads[h], &heads[h]));
    }
    return cell__row_concat(im, heads, n, out);
}

/* Summed over the steps of a sequence. width: of the result. */
static enum base_status product_over_steps(struct cell__import *im, uint32_t a, uint32_t b,
                                           uint32_t over, uint32_t width, uint32_t *out)
{
    const struct cell__row *first = &im->rows[a];
    const bool is_softmax = first->softmax_of != CELL__NONE && first->over == over;
    const bool is_first = is_softmax || (im->rows[b].softmax_of == CELL__NONE &&
                                         first->value.width == 1 && first->times != 0);
    const uint32_t weights = is_first ? a : b;
    const uint32_t values = is_first ? b : a;
    const uint32_t heads = im->rows[weights].value.width;
    return heads > 1 && im->rows[weights].softmax_of != CELL__NONE
               ? attend_by_heads(im, weights, values, heads, width, out)
               : weigh(im, weights, weights, values, out);
}

/* Rows of the operands; where these have the same steps, but what they make has a second axis for
 * them, the second one's are its. */
static enum base_status rows_of(struct cell__import *im, const struct cell__node *node, uint32_t *a,
                                uint32_t *b)
{
    const struct cell__value *first = cell__input(im, node, 0);
    const struct cell__value *second = cell__input(im, node, 1);
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    const uint32_t last = out->rank - 1;
    const struct cell__axis *taken = &first->shape.axes[last];
    const struct cell__axis *right = &second->shape.axes[last];
    *a = first->row;
    *b = second->row;
    const struct cell__axis *mirror = NULL;
    if (cell__axis_is_mirror(im, &out->axes[last], right)) {
        mirror = &out->axes[last];
    } else if (cell__axis_is_mirror(im, taken, &second->shape.axes[last - 1])) {
        mirror = taken;
    }
    return mirror == NULL ? BASE_OK : cell__row_mirror(im, mirror, b);
}

/* Whether the result has a matrix in each row: features on the left, or on the right. With steps on
 * the right those on the left are heads, all of which ask for the same. */
static bool has_rows(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    const bool has_steps = cell__axis_times(im, &out->axes[out->rank - 1]) != 0;
    bool has = false;
    for (uint32_t k = out->rank - 2; k < out->rank && !has_steps; k++) {
        const struct cell__axis *axis = &out->axes[k];
        has =
            has || (cell__axis_size(im, axis) != 1 && !cell__axis_has(im, axis, CELL__ROLE_TIME) &&
                    !cell__axis_has(im, axis, CELL__ROLE_BATCH));
    }
    return has;
}

/* Elements of the products of two matrices of a row, before they are summed. */
#define PRODUCTS_MAX (1u << 18)

/* A matrix's shape [.., n, k] or [.., k, m] as [.., k, n, 1] or [.., k, 1, m]; the row likewise. */
static enum base_status place_matrix(struct cell__import *im, const struct cell__value *value,
                                     bool is_first, struct cell__shape *shape, uint32_t *row)
{
    const uint32_t rank = value->shape.rank;
    const struct cell__axis *last = &value->shape.axes[rank - 1];
    const struct cell__axis *before = &value->shape.axes[rank - 2];
    const struct cell__shape pair = {.rank = 2, .axes = {*before, *last}};
    const struct cell__axis one = {.n = 0};
    struct cell__place place;
    *shape = value->shape;
    shape->rank = rank + 1;
    shape->axes[rank - 2] = is_first ? *last : *before;
    shape->axes[rank - 1] = is_first ? *before : one;
    shape->axes[rank] = is_first ? one : *last;
    BASE_TRY(cell__axis_in_row(im, &pair, 1, "multiplies", &place));
    const uint32_t dims[3] = {im->rows[*row].value.width / place.outer / place.size, place.outer,
                              place.size};
    return is_first ? cell__row_transpose(im, *row, dims, row) : BASE_OK;
}

/* Of each row two matrices: such as of a cell whose state is one, by what asks it. Elements times
 * elements, [.., k, n, m], summed over k. */
static enum base_status product_within(struct cell__import *im, const struct cell__node *node,
                                       uint32_t rows[2], uint32_t *out)
{
    const struct cell__value *values[] = {cell__input(im, node, 0), cell__input(im, node, 1)};
    const struct cell__shape *left = &cell__output(im, node, 0)->shape;
    const uint32_t last = left->rank - 1;
    struct cell__shape shapes[2];
    struct cell__shape all = *left;
    struct cell__shape inner = {.rank = 2, .axes = {left->axes[last - 1], left->axes[last]}};
    uint32_t sizes[3];
    uint32_t width = 0;
    if (left->rank == CELL_RANK_MAX || cell__shape_times(im, &inner) != 0 ||
        cell__shape_has(im, &inner, CELL__ROLE_BATCH)) {
        return cell__refuse(im, "a product of two matrices of a row");
    }
    all.rank++;
    all.axes[last + 1] = left->axes[last];
    all.axes[last] = left->axes[last - 1];
    all.axes[last - 1] = values[1]->shape.axes[last - 1];
    BASE_TRY(cell__shape_width(im, &all, &width));
    if (width > PRODUCTS_MAX) {
        return cell__refuse(im, "two matrices of a row whose product is more than %u products",
                            PRODUCTS_MAX);
    }
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(place_matrix(im, values[i], i == 0, &shapes[i], &rows[i]));
        BASE_TRY(cell__row_spread(im, rows[i], &shapes[i], &all, &rows[i]));
    }
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, rows[0], rows[1], out));
    const struct cell__shape taken = {.rank = 1, .axes = {all.axes[last - 1]}};
    BASE_TRY(cell__shape_width(im, &taken, &sizes[1]));
    BASE_TRY(cell__shape_width(im, &inner, &sizes[2]));
    sizes[0] = width / sizes[1] / sizes[2];
    return cell__row_sum_part(im, sizes, out);
}

enum base_status cell__lower_rows_product(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *a = cell__input(im, node, 0);
    const struct cell__axis *taken = &a->shape.axes[a->shape.rank - 1];
    const struct cell__shape over = {.rank = 1, .axes = {*taken}};
    const uint32_t times = cell__axis_times(im, taken);
    uint32_t rows[2] = {CELL__NONE, CELL__NONE};
    uint32_t row = CELL__NONE;
    uint32_t width = 0;
    if (cell__shape_has(im, &over, CELL__ROLE_BATCH)) {
        return cell__refuse(im, "over the batch axis");
    }
    BASE_TRY(rows_of(im, node, &rows[0], &rows[1]));
    if (times != 0) {
        BASE_TRY(cell__shape_width(im, &cell__output(im, node, 0)->shape, &width));
        BASE_TRY(product_over_steps(im, rows[0], rows[1], cell__only_sequence(times), width, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    BASE_TRY(cell__shape_width(im, &over, &width));
    const uint32_t own = im->rows[rows[0]].value.width;
    const uint32_t other = im->rows[rows[1]].value.width;
    if (own % width != 0 || (other != own && other != width) || has_rows(im, node)) {
        BASE_TRY(product_within(im, node, rows, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    BASE_TRY(product_by_heads(im, rows[0], rows[1], own / width, other / width, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
