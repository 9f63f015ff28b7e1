/* Operators that only move or rename axes: nothing is left of them in a row, as long as the
 * elements of a row keep their order; and what is left of a Transpose that changes it. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

bool cell__is_all_const(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (cell__has_input(node, i) && cell__input(im, node, i)->kind != CELL__CONST) {
            return false;
        }
    }
    return true;
}

enum base_status cell__shape_of(struct cell__import *im, const struct cell__value *value,
                                struct cell__shape *out)
{
    if (value->kind == CELL__CONST) {
        return cell__shape_of_tensor(im, &value->tensor, out);
    }
    *out = value->shape;
    return BASE_OK;
}

enum base_status cell__row_under(struct cell__import *im, const struct cell__node *node, uint32_t i,
                                 uint32_t *out)
{
    const struct cell__value *value = cell__input(im, node, i);
    const struct cell__shape *shape = &cell__output(im, node, 0)->shape;
    BASE_TRY(cell__row_of(im, value, shape, false, out));
    // A time axis of size 1 may have been dropped. In a body there is none: all rows are a step's.
    if (im->rows[*out].times != 0 && im->scan == CELL__NONE && cell__shape_times(im, shape) == 0) {
        return cell__row_at(im, CELL__ROW_LAST, *out, out);
    }
    return BASE_OK;
}

enum base_status cell__axis_in_row(struct cell__import *im, const struct cell__shape *shape,
                                   uint32_t axis, const char *verb, struct cell__place *out)
{
    const struct cell__axis *at = &shape->axes[axis];
    if (cell__axis_has(im, at, CELL__ROLE_BATCH) || cell__axis_has(im, at, CELL__ROLE_TIME)) {
        return cell__refuse(im, "%s along the %s axis", verb,
                            cell__axis_has(im, at, CELL__ROLE_BATCH) ? "batch" : "time");
    }
    const struct cell__shape only = {.rank = 1, .axes = {*at}};
    struct cell__shape before = {.rank = axis};
    struct cell__shape behind = {.rank = shape->rank - axis - 1};
    memcpy(before.axes, shape->axes, axis * sizeof(before.axes[0]));
    memcpy(behind.axes, &shape->axes[axis + 1], behind.rank * sizeof(behind.axes[0]));
    BASE_TRY(cell__shape_width(im, &before, &out->outer));
    BASE_TRY(cell__shape_width(im, &only, &out->size));
    return cell__shape_width(im, &behind, &out->inner);
}

/* ---- Identity, Dropout, Cast -------------------------------------------------------------- */

enum base_status cell__infer_identity(struct cell__import *im, struct cell__node *node)
{
    node->hands_on = true;
    const struct cell__value *in = cell__input(im, node, 0);
    if (in->kind == CELL__CONST) {
        cell__set_const(im, node, 0, &in->tensor);
    } else if (in->kind == CELL__ORDER) {
        cell__copy_order(im, node, in->dtype);
    } else {
        cell__set_rows(im, node, 0, in->dtype, &in->shape);
    }
    return BASE_OK;
}

enum base_status cell__lower_identity(struct cell__import *im, struct cell__node *node)
{
    cell__set_row(im, node, 0, cell__input(im, node, 0)->row);
    return BASE_OK;
}

enum base_status cell__infer_dropout(struct cell__import *im, struct cell__node *node)
{
    if (cell__has_output(node, 1)) {
        return cell__refuse(im, "output mask");
    }
    if (cell__has_input(node, 2)) {
        struct cell__list training;
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 2), "training_mode", &training));
        if (training.n > 0 && training.at[0] != 0) {
            return cell__refuse(im, "training_mode");
        }
    }
    return cell__infer_identity(im, node);
}

/* Of floats every value is a double; of integers not every one is a float. */
static enum base_status infer_cast_to_double(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    if (in->dtype != CELL__F32 && !cell__is_double(in->dtype)) {
        return cell__refuse(im, "the result is of type double, of %s", cell__dtype_name(in->dtype));
    }
    if (in->dtype == CELL__F32) {
        cell__output(im, node, 0)->as_double = node->inputs[0] + 1; // IsInf reads these
    }
    const bool is_given = in->dtype == CELL__F64_GIVEN;
    cell__set_rows(im, node, 0, is_given ? CELL__F64_GIVEN : CELL__F64_MADE, &in->shape);
    return BASE_OK;
}

enum base_status cell__infer_cast(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    int64_t to = 0;
    enum cell__dtype dtype;
    BASE_TRY(cell__attr_int(im, node, "to", 0, &to));
    if (to == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE && in->kind == CELL__ROWS) {
        return infer_cast_to_double(im, node);
    }
    BASE_TRY(cell__dtype_of(im, to, "the result", &dtype));
    if (cell__is_double(in->dtype) && dtype != CELL__F32) {
        return cell__refuse(im, "of doubles to %s; they are no more than floats here",
                            cell__dtype_name(dtype));
    }
    if (in->kind == CELL__CONST) {
        struct cell__tensor out;
        BASE_TRY(cell__fold_cast(im, &in->tensor, dtype, &out));
        cell__set_const(im, node, 0, &out);
    } else if (in->kind == CELL__ORDER) {
        cell__copy_order(im, node, dtype);
    } else {
        cell__set_rows(im, node, 0, dtype, &in->shape);
    }
    return BASE_OK;
}

enum base_status cell__lower_cast(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = cell__input(im, node, 0)->row;
    struct cell_value value = im->rows[row].value;
    enum cell_dtype from = value.dtype;
    if (cell__input(im, node, 0)->dtype == cell__output(im, node, 0)->dtype) { // also of bool
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    if (cell__output(im, node, 0)->dtype == CELL__BOOL && from == CELL_F32) {
        BASE_TRY(cell__row_truth(im, row, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    BASE_TRY(cell__row_dtype(im, cell__output(im, node, 0)->dtype, &value.dtype));
    const uint32_t index = cell__row_uncast(im, row);
    if (value.dtype == CELL_F32 && im->rows[index].kind == CELL__ROW_INDEX &&
        im->rows[index].index != CELL__NONE) {
        BASE_TRY(cell__row_as_float(im, index, &row));
    } else if (from != value.dtype) {
        struct cell_op op = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {row}};
        BASE_TRY(cell__row_op(im, &op, value, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Transpose ---------------------------------------------------------------------------- */

static enum base_status read_perm(struct cell__import *im, const struct cell__node *node,
                                  uint32_t rank, int64_t *perm)
{
    struct cell__list given;
    uint32_t seen = 0;
    BASE_TRY(cell__attr_ints(im, node, "perm", &given));
    if (given.is_given && given.n != rank) {
        return cell__invalid(im, "perm of %u axes for a tensor of rank %u", given.n, rank);
    }
    for (uint32_t k = 0; k < rank; k++) {
        perm[k] = given.is_given ? given.at[k] : rank - 1 - k;
        if (perm[k] < 0 || perm[k] >= rank || (seen >> perm[k] & 1) != 0) {
            return cell__invalid(im, "perm is no permutation");
        }
        seen |= 1u << perm[k];
    }
    return BASE_OK;
}

enum base_status cell__infer_transpose(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    bool is_const = in->kind == CELL__CONST;
    uint32_t rank = is_const ? in->tensor.rank : in->shape.rank;
    int64_t perm[CELL_RANK_MAX] = {0};
    BASE_TRY(read_perm(im, node, rank, perm));
    if (is_const) {
        struct cell__view from = cell__view_of(&in->tensor);
        struct cell__view view = from;
        struct cell__tensor out;
        for (uint32_t k = 0; k < rank; k++) {
            view.dims[k] = from.dims[perm[k]];
            view.strides[k] = from.strides[perm[k]];
        }
        BASE_TRY(cell__fold_view(im, &in->tensor, &view, &out));
        cell__set_const(im, node, 0, &out);
        return BASE_OK;
    }
    struct cell__shape shape = {.rank = rank};
    for (uint32_t k = 0; k < rank; k++) {
        shape.axes[k] = in->shape.axes[perm[k]];
    }
    cell__set_rows(im, node, 0, in->dtype, &shape);
    return BASE_OK;
}

/* A dimension of a row: where its axis has it, which tells it from others of the same atom. */
struct feature {
    uint32_t axis, i, size;
};

/* Those longer than 1, of the input's axes in this order. */
static uint32_t list_features(const struct cell__import *im, const struct cell__shape *shape,
                              const int64_t *order, struct feature *out)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < shape->rank; k++) {
        const uint32_t a = order == NULL ? k : (uint32_t)order[k];
        for (uint32_t i = 0; i < shape->axes[a].n; i++) {
            const struct cell__atom *atom =
                &im->atoms[cell__atom_root(im, shape->axes[a].atoms[i])];
            if (atom->role == CELL__ROLE_FEATURE && atom->size != 1) {
                out[n++] = (struct feature){a, i, (uint32_t)atom->size};
            }
        }
    }
    return n;
}

/* Brings number k to place `to`, before those that stand there now. */
static enum base_status bring_forward(struct cell__import *im, struct feature *features, uint32_t k,
                                      uint32_t to, uint32_t *row)
{
    const struct feature moved = features[k];
    uint32_t dims[3] = {1, 1, moved.size};
    for (uint32_t i = 0; i < k; i++) {
        dims[i < to ? 0 : 1] *= features[i].size;
    }
    memmove(&features[to + 1], &features[to], (k - to) * sizeof(features[0]));
    features[to] = moved;
    return cell__row_transpose(im, *row, dims, row);
}

enum base_status cell__lower_transpose(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct feature features[CELL_RANK_MAX * CELL__AXIS_ATOMS_MAX] = {{0}};
    struct feature wanted[CELL_RANK_MAX * CELL__AXIS_ATOMS_MAX] = {{0}};
    int64_t perm[CELL_RANK_MAX] = {0};
    uint32_t row = in->row;
    uint32_t width = 0;
    BASE_TRY(read_perm(im, node, in->shape.rank, perm));
    BASE_TRY(cell__shape_width(im, &in->shape, &width));
    if (width != im->rows[row].value.width) {
        return cell__refuse(im, "of a row that is no longer what its axes say");
    }
    const uint32_t n = list_features(im, &in->shape, NULL, features);
    (void)list_features(im, &in->shape, perm, wanted);
    for (uint32_t to = 0; to < n; to++) {
        uint32_t k = to;
        while (features[k].axis != wanted[to].axis || features[k].i != wanted[to].i) {
            k++;
        }
        if (k != to) {
            BASE_TRY(bring_forward(im, features, k, to, &row));
        }
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Squeeze, Unsqueeze, Flatten, Reshape -------------------------------------------------- */

/* Sets output 0: the input's elements under `shape`, of known numbers for a constant. */
static enum base_status set_reshaped(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__shape *shape)
{
    const struct cell__value *in = cell__input(im, node, 0);
    int64_t dims[CELL_RANK_MAX];
    if (in->kind == CELL__ROWS) {
        cell__set_rows(im, node, 0, in->dtype, shape);
        return BASE_OK;
    }
    for (uint32_t k = 0; k < shape->rank; k++) {
        dims[k] = cell__axis_size(im, &shape->axes[k]);
        if (dims[k] < 0) {
            return cell__refuse(im, "a constant under a shape that depends on the request");
        }
    }
    struct cell__tensor out;
    BASE_TRY(cell__fold_reshape(im, &in->tensor, shape->rank, dims, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__row_stacked(struct cell__import *im, const struct cell__axis *time,
                                   uint32_t atom, int64_t by, uint32_t *row)
{
    const struct cell__axis left = {.n = 1, .atoms = {atom}};
    const uint32_t times = cell__axis_times(im, time);
    struct cell__steps steps = {.count = (uint32_t)by, .stride = (uint32_t)by};
    if (times != 0 && im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "stacks steps beside sequence_lens, of which each row may have "
                                "another number");
    }
    return cell__row_copy_steps(im, time, &left, &steps, row);
}

enum base_status cell__lower_reshaped(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    bool is_done = false;
    uint32_t row = in->row;
    BASE_TRY(cell__row_regrouped(im, in, out, &row, &is_done));
    BASE_TRY(is_done ? BASE_OK : cell__row_under(im, node, 0, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* Bit per axis of a tensor of this rank. */
static enum base_status axes_mask(struct cell__import *im, const struct cell__node *node,
                                  uint32_t rank, uint32_t *mask, bool *given)
{
    struct cell__list axes;
    *mask = 0;
    BASE_TRY(cell__ints_or_attr(im, node, 1, 13, "axes", &axes));
    *given = axes.is_given;
    for (uint32_t i = 0; i < axes.n; i++) {
        uint32_t k = 0;
        BASE_TRY(cell__axis_index(im, axes.at[i], rank, &k));
        if ((*mask >> k & 1) != 0) {
            return cell__invalid(im, "axis %u given twice", k);
        }
        *mask |= 1u << k;
    }
    return BASE_OK;
}

/* Without axes an axis whose size the request chooses stays, of one element too: a model that is
 * exported so means its features. */
enum base_status cell__infer_squeeze(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape in;
    struct cell__shape out = {.rank = 0};
    uint32_t mask = 0;
    bool given = false;
    BASE_TRY(cell__shape_of(im, cell__input(im, node, 0), &in));
    BASE_TRY(axes_mask(im, node, in.rank, &mask, &given));
    for (uint32_t k = 0; k < in.rank; k++) {
        int64_t size = cell__axis_size(im, &in.axes[k]);
        bool is_named = (mask >> k & 1) != 0;
        if (size < 0 && is_named) {
            return cell__refuse(im, "drops axis %u only when a request has size 1 there", k);
        }
        if (is_named && size != 1) {
            return cell__invalid(im, "axis %u has %lld elements", k, (long long)size);
        }
        if (given ? !is_named : size != 1) {
            out.axes[out.rank++] = in.axes[k];
        }
    }
    return set_reshaped(im, node, &out);
}

enum base_status cell__infer_unsqueeze(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape in;
    struct cell__list axes;
    uint32_t mask = 0;
    bool given = false;
    BASE_TRY(cell__shape_of(im, cell__input(im, node, 0), &in));
    BASE_TRY(cell__ints_or_attr(im, node, 1, 13, "axes", &axes));
    struct cell__shape out = {.rank = in.rank + axes.n};
    if (!axes.is_given || out.rank > CELL_RANK_MAX) {
        return cell__refuse(im, "needs axes, and a result of rank %u at most", CELL_RANK_MAX);
    }
    BASE_TRY(axes_mask(im, node, out.rank, &mask, &given));
    uint32_t from = 0;
    for (uint32_t k = 0; k < out.rank; k++) {
        if ((mask >> k & 1) == 0) {
            out.axes[k] = in.axes[from++];
        }
    }
    return set_reshaped(im, node, &out);
}

enum base_status cell__infer_flatten(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape in;
    int64_t axis = 1;
    BASE_TRY(cell__shape_of(im, cell__input(im, node, 0), &in));
    BASE_TRY(cell__attr_int(im, node, "axis", 1, &axis));
    if (axis < -(int64_t)in.rank || axis > (int64_t)in.rank) {
        return cell__invalid(im, "axis %lld of a tensor of rank %u", (long long)axis, in.rank);
    }
    uint32_t middle = (uint32_t)(axis < 0 ? axis + in.rank : axis);
    struct cell__shape out = {.rank = 2};
    for (uint32_t k = 0; k < in.rank; k++) {
        struct cell__axis *to = &out.axes[k < middle ? 0 : 1];
        for (uint32_t i = 0; i < in.axes[k].n; i++) {
            if (to->n == CELL__AXIS_ATOMS_MAX) {
                return cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
            }
            to->atoms[to->n++] = in.axes[k].atoms[i];
        }
    }
    return set_reshaped(im, node, &out);
}

/* Of a constant the new shape is plain arithmetic. */
static enum base_status reshape_const(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__sym *wanted, uint32_t n, bool allow_zero)
{
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    int64_t dims[CELL_RANK_MAX];
    struct cell__tensor out;
    uint32_t open = n;
    size_t known = 1;
    for (uint32_t k = 0; k < n; k++) {
        dims[k] = wanted[k].add;
        if (!cell__sym_is_number(&wanted[k])) {
            return cell__refuse(im, "a constant under a shape that depends on the request");
        }
        if (dims[k] == 0 && !allow_zero) {
            dims[k] = k < in->rank ? in->dims[k] : -2;
        }
        if (dims[k] < -1 || (dims[k] == -1 && open < n) ||
            (dims[k] >= 0 && !base_size_mul(known, (size_t)dims[k], &known))) {
            return cell__invalid(im, "new dimension %u", k);
        }
        open = dims[k] == -1 ? k : open;
    }
    if (open < n) {
        dims[open] = known == 0 ? 0 : (int64_t)(in->count / known);
    }
    BASE_TRY(cell__fold_reshape(im, in, n, dims, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_reshape(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *target = cell__input(im, node, 1);
    int64_t allow_zero = 0;
    BASE_TRY(cell__attr_int(im, node, "allowzero", 0, &allow_zero));
    if (target->kind != CELL__CONST) {
        return cell__refuse(im, "to a shape that is not a constant");
    }
    if (target->tensor.dtype != CELL__I64 || target->tensor.rank != 1 ||
        target->tensor.count > CELL_RANK_MAX) {
        return cell__invalid(im, "the new shape is no list of at most %u int64", CELL_RANK_MAX);
    }
    struct cell__sym wanted[CELL_RANK_MAX];
    for (size_t k = 0; k < target->tensor.count; k++) {
        wanted[k] = cell__tensor_sym(&target->tensor, k);
    }
    uint32_t n = (uint32_t)target->tensor.count;
    const struct cell__value *in = cell__input(im, node, 0);
    if (in->kind == CELL__CONST) {
        return reshape_const(im, node, wanted, n, allow_zero != 0);
    }
    struct cell__shape out;
    BASE_TRY(cell__reshape(im, &in->shape, wanted, n, allow_zero != 0, &out));
    if (in->shape.rank == 3 && n == 3 && cell__is_turned_along(im, in, &in->shape.axes[1]) &&
        !cell__axis_is_same(im, &in->shape.axes[1], &out.axes[1])) {
        return cell__refuse(im, "stacks steps of a sequence that is turned round");
    }
    cell__set_rows(im, node, 0, in->dtype, &out);
    return BASE_OK;
}
