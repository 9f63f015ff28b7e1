/* Sequences of tensors, as far as Loops are written with them: a tensor cut along its time axis
 * (torch.unbind), one element of it, and what a Loop collects (a Python list) and joins behind it
 * (torch.stack, torch.cat). They are only another look at rows: nothing is moved. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* Output 0: the tensor without one axis, whose steps the Loop around the node counts, up or down.
 */
static enum base_status set_element(struct cell__import *im, const struct cell__node *node,
                                    const struct cell__value *whole, uint32_t axis)
{
    struct cell__shape shape = {.rank = whole->shape.rank - 1};
    if (node->scan == CELL__NONE) {
        return cell__refuse(im, "by the number of the step, outside of a Loop's body");
    }
    const struct cell__value *number = cell__input(im, node, 1);
    const struct cell__axis *time = &im->recurrents[node->scan].time;
    BASE_TRY(cell__axis_unite(im, &whole->shape.axes[axis], time, "the axis of the steps"));
    if (!cell__is_step(number) && !cell__is_step_from_end(im, number, time)) {
        return cell__refuse(im, "by anything but the number of the step, from either end");
    }
    cell__recurrent_takes(im, node->scan, whole, !cell__is_step(number));
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
        return cell__refuse(
            im, "takes from a constant, or from a sequence of tensors, by the number of the step");
    }
    BASE_TRY(cell__axis_index(im, attribute, whole->shape.rank, &axis));
    return set_element(im, node, whole, axis);
}

enum base_status cell__row_turned_steps(struct cell__import *im, const struct cell__value *whole,
                                        const struct cell__recurrent *loop, uint32_t *row)
{
    const uint32_t scan = im->scan;
    struct cell__value turned = *whole;
    if (loop->time.n != 1 || whole->dtype != CELL__F32) {
        return cell__refuse(im, "takes other than floats from both ends");
    }
    turned.turned = loop->time.atoms[0];
    im->scan = CELL__NONE;
    const enum base_status status = cell__row_straight(im, &turned, row);
    im->scan = scan;
    return status;
}

/* A Loop that takes sequences from both ends goes from the front; of those that it takes from their
 * end there are copies. */
enum base_status cell__lower_element(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *whole = cell__input(im, node, 0);
    const struct cell__recurrent *loop = &im->recurrents[node->scan];
    const bool is_from_end = !cell__is_step(cell__input(im, node, 1));
    const bool is_turned = cell__is_turned_along(im, whole, &loop->time) != is_from_end;
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_of_step(im, whole, node->scan, &row));
    if (is_turned && loop->takes_forward) {
        BASE_TRY(cell__row_turned_steps(im, whole, loop, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* Parts of a list of them. */
#define CELL__LIST_MAX 4096u

/* ---- SplitToSequence, SequenceLength, SequenceAt ------------------------------------------ */

/* Where each part ends along an axis of so many elements: of parts of one size, of which the last
 * may be shorter, or of stated ones. */
static enum base_status set_parts(struct cell__import *im, const struct cell__node *node,
                                  const struct cell__list *sizes, bool is_one_size, int64_t length)
{
    struct cell__value *list = cell__output(im, node, 0);
    const int64_t part = sizes->at[0];
    if (is_one_size && (part < 1 || length < 1 || (length - 1) / part >= CELL__LIST_MAX)) {
        return cell__refuse(im, "%lld elements into parts of %lld, or more than %u of them",
                            (long long)length, (long long)part, CELL__LIST_MAX);
    }
    const uint32_t n = is_one_size ? (uint32_t)((length - 1) / part + 1) : sizes->n;
    int64_t *ends = base_arena_array(im->arena, n + 1u, sizeof(*ends));
    int64_t end = 0;
    if (ends == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < n; i++) {
        const int64_t size = is_one_size ? part : sizes->at[i];
        if (size < 1 || (!is_one_size && size > INT64_MAX - end)) {
            return cell__refuse(im, "part %u of %lld elements", i, (long long)size);
        }
        end = is_one_size && size > length - end ? length : end + size;
        ends[i] = end;
    }
    if (end != length) {
        return cell__invalid(im, "%u parts of %lld elements of an axis of %lld", n, (long long)end,
                             (long long)length);
    }
    list->n_parts = n;
    list->part_ends = ends;
    return BASE_OK;
}

enum base_status cell__infer_list_split(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__list sizes = {.n = 1, .at = {1}};
    bool is_one_size = true;
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
        const struct cell__value *split = cell__input(im, node, 1);
        BASE_TRY(cell__tensor_ints(im, split, "split", &sizes));
        is_one_size = split->tensor.rank == 0;
        if (sizes.n == 0) {
            return cell__invalid(im, "into no parts");
        }
    }
    const bool is_of_elements = sizes.n == 1 && sizes.at[0] == 1 && keep == 0;
    const int64_t length = cell__axis_size(im, &in->shape.axes[axis]);
    if (!is_of_elements && length < 0) {
        return cell__refuse(im, keep != 0 && !cell__has_input(node, 1)
                                    ? "keeps the axis that it splits, whose size is unknown"
                                    : "into parts of other than one element, of an axis of unknown "
                                      "size");
    }
    cell__set_list(im, node, 0, in->dtype, &in->shape, axis);
    return is_of_elements ? BASE_OK : set_parts(im, node, &sizes, is_one_size, length);
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
    syms[0] = list->n_parts > 0 ? cell__sym_number(list->n_parts)
                                : cell__sym_of_axis(im, &list->shape.axes[list->list_axis]);
    BASE_TRY(cell__tensor_settle(im, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* Which part of a list of them: one that the file states. */
static enum base_status part_of(struct cell__import *im, const struct cell__node *node,
                                uint32_t *part)
{
    const struct cell__value *list = cell__input(im, node, 0);
    struct cell__list number;
    BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 1), "position", &number));
    const int64_t at = number.n == 1 && number.at[0] < 0 ? number.at[0] + list->n_parts
                       : number.n == 1                   ? number.at[0]
                                                         : -1;
    if (at < 0 || at >= list->n_parts) {
        return cell__invalid(im, "part %lld of %u", (long long)at, list->n_parts);
    }
    *part = (uint32_t)at;
    return BASE_OK;
}

static int64_t begin_of(const struct cell__value *list, uint32_t part)
{
    return part > 0 ? list->part_ends[part - 1] : 0;
}

/* ---- Single tensors ----------------------------------------------------------------------- */

/* A list of single tensors alone: no Loop adds to it. */
static bool is_of_heads(const struct cell__value *list)
{
    return list->kind == CELL__LIST && list->n_heads > 0 && list->behind_heads == 0 &&
           list->list_axis == CELL__NONE;
}

/* Which one of n, from 0 or, below 0, from the end on, where the file says; otherwise `end`. */
static enum base_status place_of(struct cell__import *im, const struct cell__node *node,
                                 uint32_t input, uint32_t n, int64_t end, uint32_t *out)
{
    struct cell__list at = {.n = 1, .at = {end}};
    if (cell__has_input(node, input)) {
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, input), "position", &at));
    }
    const int64_t place = at.n == 1 && at.at[0] < 0 ? at.at[0] + n : at.at[0];
    if (at.n != 1 || place < 0 || place > n) {
        return cell__invalid(im, "a place that a sequence of %u tensors has not", n);
    }
    *out = (uint32_t)place;
    return BASE_OK;
}

/* One of them is handed on. */
static const struct cell__operator at_head = {
    "SequenceAt", 1, 2, 1, " ", cell__infer_identity, cell__lower_identity, ""};

/* An element of a list that begins with single tensors. What a Loop has put behind them is found
 * from the end. */
static enum base_status infer_at_head(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    struct cell__list at;
    uint32_t place = 0;
    BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 1), "position", &at));
    if (list->behind_heads != 0 && (at.n != 1 || at.at[0] < 0)) {
        if (at.n != 1 || at.at[0] != -1) { // the steps may be too few
            return cell__refuse(im, "an element that may be of the Loop or from before it");
        }
        node->inputs[0] = list->behind_heads - 1;
        return cell__infer_pick(im, node, 0);
    }
    if (list->behind_heads != 0 && at.at[0] >= list->n_heads) {
        return cell__refuse(im, "an element that may be of the Loop or from before it");
    }
    BASE_TRY(place_of(im, node, 1, list->n_heads, 0, &place));
    if (place == list->n_heads) {
        return cell__invalid(im, "a place that a sequence of %u tensors has not", place);
    }
    node->inputs[0] = list->heads[place];
    node->inputs[1] = CELL__NONE;
    node->op = &at_head;
    return cell__infer_identity(im, node);
}

/* Whether it takes one of all steps or elements by a number that the file states. */
static bool is_picked(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    return list->kind == CELL__LIST && list->list_axis != CELL__NONE &&
           cell__input(im, node, 1)->kind == CELL__CONST;
}

enum base_status cell__infer_list_at(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    if (list->kind == CELL__LIST && list->n_parts > 0) {
        struct cell__shape shape = list->shape;
        uint32_t part = 0;
        BASE_TRY(part_of(im, node, &part));
        BASE_TRY(cell__axis_new(im, list->part_ends[part] - begin_of(list, part),
                                &shape.axes[list->list_axis]));
        cell__set_rows(im, node, 0, list->dtype, &shape);
        return BASE_OK;
    }
    if (is_picked(im, node)) {
        return cell__infer_pick(im, node, list->list_axis);
    }
    if (list->kind == CELL__LIST && list->n_heads > 0 &&
        cell__input(im, node, 1)->kind == CELL__CONST) {
        return infer_at_head(im, node);
    }
    if (list->kind != CELL__LIST || list->list_axis == CELL__NONE ||
        cell__input(im, node, 1)->kind != CELL__COUNTER) {
        return cell__refuse(im, "anything but a sequence by the number of the step");
    }
    return set_element(im, node, list, list->list_axis);
}

enum base_status cell__lower_list_at(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    struct cell__place place;
    uint32_t part = 0;
    uint32_t row = CELL__NONE;
    if (list->n_parts == 0) {
        return is_picked(im, node) ? cell__lower_pick(im, node, list->list_axis)
                                   : cell__lower_element(im, node);
    }
    BASE_TRY(part_of(im, node, &part));
    BASE_TRY(cell__axis_in_row(im, &list->shape, list->list_axis, "splits", &place));
    const int64_t begin = begin_of(list, part);
    BASE_TRY(cell__row_part(im, list->row, &place, (uint32_t)begin,
                            (uint32_t)(list->part_ends[part] - begin), &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
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

/* A list of single tensors; behind: 1 + the list after them, or 0. */
static enum base_status set_heads(struct cell__import *im, const struct cell__node *node,
                                  const uint32_t *heads, uint32_t n, uint32_t behind)
{
    struct cell__value *list = cell__output(im, node, 0);
    const struct cell__value *first = &im->values[heads[0]];
    uint32_t *copy = base_arena_array(im->arena, n, sizeof(*copy));
    if (copy == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct cell__value *head = &im->values[heads[i]];
        if (head->kind != CELL__ROWS || head->dtype != first->dtype) {
            return cell__refuse(im, "a sequence of what is no tensor, or of another type");
        }
        copy[i] = heads[i];
    }
    cell__set_list(im, node, 0, first->dtype, &first->shape, CELL__NONE);
    list->n_heads = n;
    list->heads = copy;
    list->behind_heads = behind;
    return BASE_OK;
}

enum base_status cell__infer_list_construct(struct cell__import *im, struct cell__node *node)
{
    return set_heads(im, node, node->inputs, node->n_inputs, 0);
}

/* One more tensor among single ones. */
static enum base_status put_head(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    const uint32_t n = list->n_heads;
    uint32_t heads[CELL__OPERANDS_MAX];
    uint32_t place = 0;
    BASE_TRY(place_of(im, node, 2, n, n, &place));
    if (n == CELL__OPERANDS_MAX) {
        return cell__refuse(im, "more than %u tensors", CELL__OPERANDS_MAX);
    }
    for (uint32_t i = 0; i < n; i++) {
        heads[i < place ? i : i + 1] = list->heads[i];
    }
    heads[place] = node->inputs[1];
    return set_heads(im, node, heads, n + 1, 0);
}

enum base_status cell__infer_list_erase(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    uint32_t heads[CELL__OPERANDS_MAX];
    uint32_t place = 0;
    if (!is_of_heads(list)) {
        return cell__refuse(im, "of a sequence that a Loop carries, or of parts of a tensor");
    }
    const uint32_t n = list->n_heads;
    BASE_TRY(place_of(im, node, 1, n, -1, &place));
    if (place == n) {
        return cell__invalid(im, "a place that a sequence of %u tensors has not", n);
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        heads[i] = list->heads[i < place ? i : i + 1];
    }
    if (n == 1) { // as SequenceEmpty has it
        const struct cell__shape none = {.rank = 0};
        cell__set_list(im, node, 0, list->dtype, &none, CELL__NONE);
        return BASE_OK;
    }
    return set_heads(im, node, heads, n - 1, 0);
}

/* One more tensor, outside of a Loop: behind others, or in front of what a Loop has collected. */
static enum base_status add_head(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    const bool is_collected = list->list_axis == 0;
    const uint32_t n = list->n_heads;
    uint32_t heads[CELL__OPERANDS_MAX];
    struct cell__list at = {.n = 0};
    if (cell__has_input(node, 2)) {
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 2), "position", &at));
    }
    const bool is_in_front = at.n == 1 && at.at[0] == 0;
    const bool goes_on = is_collected || list->behind_heads != 0;
    if (n == CELL__OPERANDS_MAX || (at.n > 0 && !is_in_front) || goes_on != is_in_front ||
        list->n_parts > 0) {
        return cell__refuse(im, "anything but a step's tensor, at an end of a sequence that a "
                                "Loop carries");
    }
    for (uint32_t i = 0; i < n; i++) {
        heads[i + (is_in_front ? 1 : 0)] = list->heads[i];
    }
    heads[is_in_front ? 0 : n] = node->inputs[1];
    return set_heads(im, node, heads, n + 1,
                     is_collected ? 1 + node->inputs[0] : list->behind_heads);
}

enum base_status cell__infer_list_insert(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *list = cell__input(im, node, 0);
    const struct cell__value *element = cell__input(im, node, 1);
    if (list->kind == CELL__LIST && node->scan == CELL__NONE) {
        return is_of_heads(list) ? put_head(im, node) : add_head(im, node);
    }
    if (list->kind == CELL__LIST && list->n_parts == 0 && list->list_axis == CELL__NONE &&
        list->node != im->recurrents[node->scan].begin_node) { // of the step alone
        return put_head(im, node);
    }
    if (list->kind != CELL__LIST || list->list_axis != CELL__NONE || node->scan == CELL__NONE ||
        element->kind != CELL__ROWS || list->n_heads > 0) {
        return cell__refuse(im, "anything but a step's tensor, at an end of a sequence that a "
                                "Loop carries");
    }
    if (cell__has_input(node, 2)) { // op_scan.c asks whether it has
        struct cell__list at;
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 2), "position", &at));
        if (at.n != 1 || at.at[0] != 0) {
            return cell__refuse(im, "at a place that is neither the first nor the last");
        }
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
    if (list->kind != CELL__LIST || list->list_axis != 0 || list->n_parts > 0 ||
        list->shape.rank < 2) {
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
