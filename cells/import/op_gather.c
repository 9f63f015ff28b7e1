/* Gather: embeddings, a step of a sequence, elements of a row. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/import/select.h"

#include "base/assert.h"

#include <string.h>

static enum base_status gather_axis(struct cell__import *im, const struct cell__node *node,
                                    uint32_t rank, uint32_t *axis)
{
    int64_t attribute = 0;
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    return cell__axis_index(im, attribute, rank, axis);
}

/* What ids of this shape select of a constant, along an axis: an embedding. */
static enum base_status infer_lookup(struct cell__import *im, struct cell__node *node,
                                     const struct cell__shape *ids, uint32_t axis)
{
    const struct cell__tensor *table = &cell__input(im, node, 0)->tensor;
    const enum cell__dtype dtype = cell__input(im, node, 1)->dtype;
    struct cell__shape out = {.rank = 0};
    if (table->syms != NULL || table->rank == 0) {
        return cell__refuse(im, "looks up what shapes make, or no table");
    }
    if (dtype != CELL__I64 && dtype != CELL__I32) {
        return cell__invalid(im, "indices of type %s", cell__dtype_name(dtype));
    }
    if (ids->rank + table->rank - 1 > CELL_RANK_MAX) {
        return cell__refuse(im, "a result of rank %u", ids->rank + table->rank - 1);
    }
    for (uint32_t k = 0; k < table->rank; k++) {
        if (k != axis) {
            BASE_TRY(cell__axis_new(im, table->dims[k], &out.axes[out.rank++]));
            continue;
        }
        memcpy(&out.axes[out.rank], ids->axes, ids->rank * sizeof(*out.axes));
        out.rank += ids->rank;
    }
    cell__set_rows(im, node, 0, table->dtype, &out);
    return BASE_OK;
}

/* The number of the element that an index means; of an axis of unknown size from its end on below
 * 0.
 */
static enum base_status find_place(struct cell__import *im, const struct cell__sym *at,
                                   const struct cell__sym *size, int64_t *out)
{
    struct cell__border border;
    if (cell__sym_is_number(size)) {
        *out = at->add + (at->add < 0 ? size->add : 0);
        return cell__sym_is_number(at) && *out >= 0 && *out < size->add
                   ? BASE_OK
                   : cell__invalid(im, "index %lld on an axis of %lld", (long long)at->add,
                                   (long long)size->add);
    }
    if (!cell__find_border(im, at, size, &border) || !cell__is_numbered(&border)) {
        return cell__refuse(im, "takes an element of an axis of unknown size by a number that "
                                "depends on the request");
    }
    *out = border.at;
    return BASE_OK;
}

/* The constant indices of a Gather on an axis: first, count of consecutive ones, and whether they
 * are the first or last of the axis. */
struct pick {
    uint32_t axis;
    uint32_t n_axes;             /* that stand in its place, of these sizes */
    int64_t dims[CELL_RANK_MAX]; /* (of unfold(), [taps, places]) */
    uint32_t n_long;             /* of them that are not of one element, */
    uint32_t long_axis;          /* the last of these, if there is one, else the last */
    bool is_list;                /* not of consecutive ones, or of several axes: at[] */
    bool is_whole;               /* all in their order: nothing is picked */
    int64_t *at;
    int64_t first; /* of an axis of unknown size from its end on below 0 */
    int64_t count;
    bool is_first, is_last;
};

static enum base_status pick_read(struct cell__import *im, const struct cell__node *node,
                                  uint32_t axis, struct pick *pick)
{
    const struct cell__shape *shape = &cell__input(im, node, 0)->shape;
    const struct cell__value *index = cell__input(im, node, 1);
    *pick = (struct pick){.axis = axis};
    if (index->kind != CELL__CONST) {
        return cell__refuse(im, "indices that are not constant");
    }
    const struct cell__tensor *tensor = &index->tensor;
    if (tensor->dtype == CELL__F32 || tensor->count == 0 ||
        shape->rank + tensor->rank > CELL_RANK_MAX + 1) {
        return cell__refuse(im, "indices that are no integers, are none, or of too many axes");
    }
    const struct cell__sym size = cell__sym_of_axis(im, &shape->axes[pick->axis]);
    if (!cell__sym_is_number(&size) && tensor->count > 1) {
        return cell__refuse(im, "takes several elements of an axis of unknown size");
    }
    pick->n_axes = tensor->rank;
    pick->long_axis = pick->axis + (tensor->rank > 0 ? tensor->rank - 1 : 0);
    for (uint32_t k = 0; k < tensor->rank; k++) {
        pick->dims[k] = tensor->dims[k];
        pick->n_long += tensor->dims[k] != 1 ? 1 : 0;
        pick->long_axis = tensor->dims[k] != 1 ? pick->axis + k : pick->long_axis;
    }
    pick->is_list = pick->n_long > 1;
    pick->count = (int64_t)tensor->count;
    pick->at = base_arena_array(im->arena, tensor->count, sizeof(*pick->at));
    if (pick->at == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < tensor->count; i++) {
        const struct cell__sym at = cell__tensor_sym(tensor, i);
        int64_t place = 0;
        BASE_TRY(find_place(im, &at, &size, &place));
        pick->first = i == 0 ? place : pick->first;
        pick->is_list = pick->is_list || place != pick->first + (int64_t)i;
        pick->at[i] = place;
        pick->is_first = place == 0;
        pick->is_last = place == size.add - 1; // of an unknown size 0
    }
    pick->is_whole =
        tensor->rank > 0 && !pick->is_list && cell__sym_is_number(&size) && pick->count == size.add;
    return BASE_OK;
}

/* The axes that stand in place of the one that is picked from. */
static enum base_status pick_shape(struct cell__import *im, const struct pick *pick,
                                   struct cell__shape *out)
{
    const struct cell__axis whole = out->axes[pick->axis];
    const uint32_t behind = out->rank - pick->axis - 1;
    memmove(&out->axes[pick->axis + pick->n_axes], &out->axes[pick->axis + 1],
            behind * sizeof(out->axes[0]));
    out->rank += pick->n_axes - 1;
    for (uint32_t k = 0; k < pick->n_axes; k++) {
        struct cell__axis *axis = &out->axes[pick->axis + k];
        *axis = (struct cell__axis){.n = 0};
        if (pick->is_list && pick->dims[k] != 1) {
            BASE_TRY(cell__axis_new(im, pick->dims[k], axis));
        } else if (pick->axis + k == pick->long_axis && pick->is_whole) {
            *axis = whole;
        } else if (pick->axis + k == pick->long_axis) {
            BASE_TRY(cell__axis_part(im, &whole, pick->count, axis));
        }
    }
    return BASE_OK;
}

enum base_status cell__infer_pick(struct cell__import *im, struct cell__node *node, uint32_t axis)
{
    const struct cell__value *data = cell__input(im, node, 0);
    struct cell__shape out = data->shape;
    struct pick pick;
    BASE_TRY(pick_read(im, node, axis, &pick));
    BASE_TRY(pick_shape(im, &pick, &out));
    cell__set_rows(im, node, 0, data->dtype, &out);
    return BASE_OK;
}

enum base_status cell__infer_gather(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const struct cell__value *index = cell__input(im, node, 1);
    struct pick pick;
    if (index->kind == CELL__COUNTER && (cell__is_step(index) || index->steps < 0)) {
        int64_t axis = 0;
        BASE_TRY(cell__attr_int(im, node, "axis", 0, &axis));
        return cell__infer_element(im, node, axis);
    }
    if (data->kind == CELL__LIST || data->kind == CELL__COUNTER || index->kind == CELL__LIST ||
        index->kind == CELL__COUNTER) {
        return cell__refuse(im,
                            "of a sequence of tensors, of the number of the step, or of what is "
                            "computed with it");
    }
    if (index->kind == CELL__ORDER) {
        BASE_TRY(gather_axis(im, node, data->shape.rank, &pick.axis));
        return cell__infer_reorder(im, node, pick.axis);
    }
    if (data->kind == CELL__CONST && index->kind == CELL__CONST) {
        struct cell__tensor out;
        BASE_TRY(gather_axis(im, node, data->tensor.rank, &pick.axis));
        if (index->dtype != CELL__I64 && index->dtype != CELL__I32) {
            return cell__invalid(im, "indices of type %s", cell__dtype_name(index->dtype));
        }
        BASE_TRY(cell__fold_gather(im, &data->tensor, &index->tensor, pick.axis, &out));
        cell__set_const(im, node, 0, &out);
        return BASE_OK;
    }
    if (data->kind == CELL__CONST) {
        if (data->dtype == CELL__U8 || data->dtype == CELL__I8) { // DequantizeLinear follows
            BASE_TRY(cell__take_whole(im, node, 0));
        }
        BASE_TRY(gather_axis(im, node, data->tensor.rank, &pick.axis));
        return infer_lookup(im, node, &index->shape, pick.axis);
    }
    if (index->kind == CELL__ROWS) {
        return cell__infer_gather_step(im, node);
    }
    if (cell__is_middle(im, node)) {
        return cell__infer_middle(im, node);
    }
    BASE_TRY(gather_axis(im, node, data->shape.rank, &pick.axis));
    return cell__infer_pick(im, node, pick.axis);
}

enum base_status cell__row_embedding(struct cell__import *im, const struct cell__table *table,
                                     uint32_t index, uint32_t *out)
{
    // Integers of another width select the same row.
    while (im->rows[index].kind == CELL__ROW_OP && im->rows[index].op.kind == CELL_OP_CAST &&
           im->rows[im->rows[index].op.operands[0]].value.dtype != CELL_F32) {
        index = im->rows[index].op.operands[0];
    }
    uint32_t first = CELL__NONE;
    uint32_t n = 0;
    struct cell__clipped_ids clipped;
    if (cell__row_clipped_ids(im, index, &clipped)) {
        return cell__row_clipped_lookup(im, table, &clipped, index, out);
    }
    const uint32_t ids = cell__row_element_ids(im, index, &first);
    const bool is_chosen = cell__row_is_chosen(im, index, &n);
    if (is_chosen && (int64_t)n > table->rows) {
        return cell__refuse(im, "looks up one of %u numbers in a table of %lld", n,
                            (long long)table->rows);
    }
    struct cell__whole whole;
    if (cell__row_is_whole(im, index, &whole)) { // tensors.c bounds the steps
        return cell__row_lookup(im, table, index, out);
    }
    const bool is_of_pairs = im->rows[index].is_numbers && (cell__is_pair(im->rows[index].times) ||
                                                            cell__row_is_of_distances(im, index));
    if (!is_chosen && ids == CELL__NONE && im->rows[index].kind != CELL__ROW_NUMBER &&
        !is_of_pairs) { // which relative.h looks up
        return cell__refuse(im, "looks up what is not an input of the model");
    }
    if (first != CELL__NONE && im->rows[ids].value.width > CELL_ID_BOUNDS_MAX) {
        return cell__refuse(im, "looks up an element of a row of more than %u", CELL_ID_BOUNDS_MAX);
    }
    return cell__row_lookup(im, table, index, out);
}

/* A constant whose rows are along axis 0: those of another axis, [before][rows][behind], turned. */
static enum base_status turn_table(struct cell__import *im, const struct cell__tensor *tensor,
                                   uint32_t axis, struct cell__table *table)
{
    const size_t bytes = cell__dtype_bytes(tensor->dtype);
    const size_t rows = (size_t)tensor->dims[axis];
    size_t behind = 1;
    for (uint32_t k = axis + 1; k < tensor->rank; k++) {
        behind *= (size_t)tensor->dims[k];
    }
    const size_t before = rows * behind > 0 ? tensor->count / rows / behind : 0;
    *table = (struct cell__table){.dtype = tensor->dtype,
                                  .rows = tensor->dims[axis],
                                  .width = (int64_t)(before * behind),
                                  .data = tensor->data};
    if (before <= 1 || tensor->count == 0) {
        return BASE_OK;
    }
    char *turned = base_arena_array(im->arena, tensor->count, bytes);
    if (turned == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < before; i++) {
        for (size_t r = 0; r < rows; r++) {
            memcpy(turned + (r * before + i) * behind * bytes,
                   (const char *)tensor->data + (i * rows + r) * behind * bytes, behind * bytes);
        }
    }
    table->data = turned;
    return BASE_OK;
}

static enum base_status lower_lookup(struct cell__import *im, struct cell__node *node,
                                     uint32_t axis)
{
    const uint32_t ids = cell__input(im, node, 1)->row;
    struct cell__table table;
    uint32_t row = CELL__NONE;
    if (axis > 0 && im->rows[ids].value.width != 1) {
        return cell__refuse(im, "looks up several ids a row on axis %u of a constant", axis);
    }
    BASE_TRY(turn_table(im, &cell__input(im, node, 0)->tensor, axis, &table));
    BASE_TRY(cell__row_embedding(im, &table, ids, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__infer_lookup_nd(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape ids = cell__input(im, node, 1)->shape;
    const uint32_t last = ids.rank - 1;
    if (ids.rank == 0 || cell__axis_size(im, &ids.axes[last]) != 1) {
        return cell__refuse(im, "looks up a constant on several axes");
    }
    ids.rank = last;
    return infer_lookup(im, node, &ids, 0);
}

enum base_status cell__lower_lookup_nd(struct cell__import *im, struct cell__node *node)
{
    return lower_lookup(im, node, 0);
}

enum base_status cell__lower_gather(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    struct pick pick;
    if (!cell__has_input(node, 1)) {
        BASE_TRY(gather_axis(im, node, data->shape.rank, &pick.axis));
        return cell__lower_reorder(im, node, pick.axis);
    }
    if (cell__input(im, node, 1)->kind == CELL__COUNTER) {
        return cell__lower_element(im, node);
    }
    if (data->kind == CELL__CONST) {
        BASE_TRY(gather_axis(im, node, data->tensor.rank, &pick.axis));
        return lower_lookup(im, node, pick.axis);
    }
    if (cell__input(im, node, 1)->kind == CELL__ROWS) {
        return cell__lower_gather_step(im, node);
    }
    if (cell__is_middle(im, node)) {
        return cell__lower_middle(im, node);
    }
    BASE_TRY(gather_axis(im, node, data->shape.rank, &pick.axis));
    return cell__lower_pick(im, node, pick.axis);
}

enum base_status cell__lower_pick(struct cell__import *im, struct cell__node *node, uint32_t axis)
{
    const struct cell__value *data = cell__input(im, node, 0);
    struct pick pick;
    struct cell__place place;
    uint32_t row = CELL__NONE;
    BASE_TRY(pick_read(im, node, axis, &pick));
    if (pick.is_whole) {
        row = data->row;
    } else if (cell__axis_has(im, &data->shape.axes[pick.axis], CELL__ROLE_TIME)) {
        const struct cell__taken taken = {pick.first, pick.count, pick.is_first, pick.is_last};
        if (pick.is_list) {
            return cell__refuse(im, "takes steps whose numbers are not consecutive");
        }
        row = data->row;
        BASE_TRY(cell__take_steps(im, data, pick.axis, &taken,
                                  &cell__output(im, node, 0)->shape.axes[pick.long_axis], &row));
    } else {
        BASE_TRY(cell__axis_in_row(im, &data->shape, pick.axis, "takes elements", &place));
        base_assert(pick.first >= 0); // a row's axes have known sizes
        if (pick.is_list) {
            BASE_TRY(
                cell__row_elements(im, data->row, &place, pick.at, (uint32_t)pick.count, &row));
        } else {
            BASE_TRY(cell__row_part(im, data->row, &place, (uint32_t)pick.first,
                                    (uint32_t)pick.count, &row));
        }
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
