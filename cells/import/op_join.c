/* Operators that put rows together or take them apart along a feature axis, and Expand. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

/* ---- Concat ------------------------------------------------------------------------------- */

static enum base_status fold_concat(struct cell__import *im, const struct cell__node *node,
                                    int64_t axis)
{
    const struct cell__tensor *parts[CELL__OPERANDS_MAX] = {NULL};
    struct cell__tensor out;
    uint32_t k = 0;
    base_assert(node->n_inputs > 0);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        parts[i] = &cell__input(im, node, i)->tensor;
    }
    BASE_TRY(cell__axis_index(im, axis, parts[0]->rank, &k));
    BASE_TRY(cell__fold_concat(im, parts, node->n_inputs, k, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* The sizes of the inputs' axes together: of those that are known, and of one of open size, which
 * several may have. */
struct size {
    int64_t known;
    uint32_t n_open;
    struct cell__axis open;
};

static enum base_status add_size(struct cell__import *im, const struct cell__axis *axis,
                                 struct size *size)
{
    const int64_t own = cell__axis_size(im, axis);
    if (own >= 0) {
        return base_i64_add(size->known, own, &size->known)
                   ? BASE_OK
                   : cell__refuse(im, "joins more elements than can be counted");
    }
    if (size->n_open > 0 && !cell__axis_is_same(im, axis, &size->open)) {
        return cell__refuse(im, "joins two axes of unknown size");
    }
    size->open = *axis;
    size->n_open++;
    return BASE_OK;
}

static enum base_status axis_of(struct cell__import *im, const struct size *size,
                                struct cell__axis *out)
{
    if (size->n_open == 0) {
        return cell__axis_new(im, size->known, out);
    }
    if (size->known > CELL__STEPS_ADD_MAX) {
        return cell__refuse(im, "joins more than %d steps to others", CELL__STEPS_ADD_MAX);
    }
    return size->n_open == 1 ? cell__axis_strided(im, &size->open, size->known - 1, 1, out)
                             : cell__axis_parted(im, &size->open, size->n_open, size->known, out);
}

/* Joins the shape of input i to what stands in out; *size grows by its axis. */
static enum base_status concat_shape(struct cell__import *im, const struct cell__node *node,
                                     uint32_t i, uint32_t axis, struct cell__shape *out,
                                     struct size *size)
{
    const struct cell__value *in = cell__input(im, node, i);
    struct cell__shape shape;
    BASE_TRY(cell__shape_of(im, in, &shape));
    if (in->dtype != cell__input(im, node, 0)->dtype || shape.rank != out->rank) {
        return cell__invalid(im, "input %u does not fit input 0", i);
    }
    BASE_TRY(add_size(im, &shape.axes[axis], size));
    for (uint32_t k = 0; k < out->rank; k++) {
        if (k != axis) {
            BASE_TRY(cell__axis_unite(im, &shape.axes[k], &out->axes[k], "input dimensions"));
        }
    }
    return BASE_OK;
}

enum base_status cell__infer_concat(struct cell__import *im, struct cell__node *node)
{
    int64_t attribute = 0;
    struct size size = {.known = 0};
    uint32_t axis = 0;
    struct cell__shape out;
    if (cell__attr(node, "axis") == NULL) {
        return cell__invalid(im, "axis is missing");
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!cell__has_input(node, i)) {
            return cell__invalid(im, "input %u is missing", i);
        }
    }
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    if (cell__is_all_const(im, node)) {
        return fold_concat(im, node, attribute);
    }
    BASE_TRY(cell__shape_of(im, cell__input(im, node, 0), &out));
    BASE_TRY(cell__axis_index(im, attribute, out.rank, &axis));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        BASE_TRY(concat_shape(im, node, i, axis, &out, &size));
    }
    if (node->n_inputs > 1) {
        BASE_TRY(axis_of(im, &size, &out.axes[axis]));
    }
    cell__set_rows(im, node, 0, cell__input(im, node, 0)->dtype, &out);
    return BASE_OK;
}

enum base_status cell__lower_concat(struct cell__import *im, struct cell__node *node)
{
    int64_t attribute = 0;
    uint32_t axis = 0;
    struct cell__place places[CELL__OPERANDS_MAX];
    uint32_t rows[CELL__OPERANDS_MAX] = {0};
    uint32_t row = CELL__NONE;
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, out->rank, &axis));
    if (node->n_inputs > 1 && cell__axis_has(im, &out->axes[axis], CELL__ROLE_TIME)) {
        return cell__join_steps(im, node, axis);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        if (value->kind == CELL__ROWS &&
            cell__axis_has(im, &value->shape.axes[axis], CELL__ROLE_BATCH)) {
            return cell__refuse(im, "joins along the batch axis");
        }
    }
    BASE_TRY(cell__axis_in_row(im, out, axis, "joins", &places[0]));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        struct cell__shape own;
        BASE_TRY(cell__shape_of(im, value, &own));
        struct cell__shape shape = *out; // batch and time stand only in the result's axes
        shape.axes[axis] = own.axes[axis];
        BASE_TRY(cell__row_of(im, value, &shape, false, &rows[i]));
        BASE_TRY(cell__row_of_steps(im, &shape, axis, "joins", &rows[i], &places[i]));
        if (value->kind == CELL__ROWS && cell__is_turned_along(im, value, &own.axes[axis])) {
            BASE_TRY(cell__row_turned(im, &places[i], &rows[i]));
        }
    }
    BASE_TRY(cell__row_join(im, rows, places, node->n_inputs, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Split -------------------------------------------------------------------------------- */

/* The sizes of the parts, one per output. */
static enum base_status split_sizes(struct cell__import *im, const struct cell__node *node,
                                    int64_t size, struct cell__list *sizes)
{
    BASE_TRY(cell__ints_or_attr(im, node, 1, 13, "split", sizes));
    if (size < 0) {
        return cell__refuse(im, "splits an axis of unknown size");
    }
    if (!sizes->is_given) {
        sizes->n = node->n_outputs;
        int64_t part = (size + sizes->n - 1) / sizes->n;
        for (uint32_t i = 0; i < sizes->n; i++) {
            int64_t left = size - part * i;
            sizes->at[i] = left < part ? left : part;
        }
    }
    int64_t sum = 0;
    for (uint32_t i = 0; i < sizes->n; i++) {
        if (sizes->at[i] < 0 || !base_i64_add(sum, sizes->at[i], &sum)) {
            return cell__invalid(im, "part %u has %lld elements", i, (long long)sizes->at[i]);
        }
    }
    if (sizes->n != node->n_outputs || sum != size) {
        return cell__invalid(im, "%u parts of %lld elements for %u outputs and an axis of %lld",
                             sizes->n, (long long)sum, node->n_outputs, (long long)size);
    }
    return BASE_OK;
}

enum base_status cell__infer_split(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__shape shape;
    int64_t attribute = 0;
    uint32_t axis = 0;
    struct cell__list sizes;
    int64_t before = 0;
    BASE_TRY(cell__shape_of(im, in, &shape));
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, shape.rank, &axis));
    BASE_TRY(split_sizes(im, node, cell__axis_size(im, &shape.axes[axis]), &sizes));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (sizes.at[i] == 0 && cell__has_output(node, i)) { // tf2onnx, of a GRU; nobody reads it
            BASE_TRY(cell__leave_out(im, node, i, "a part without elements"));
        } else if (in->kind == CELL__CONST) {
            struct cell__view view = cell__view_of(&in->tensor);
            struct cell__tensor out;
            view.dims[axis] = sizes.at[i];
            view.start = before * view.strides[axis];
            BASE_TRY(cell__fold_view(im, &in->tensor, &view, &out));
            cell__set_const(im, node, i, &out);
        } else {
            BASE_TRY(cell__axis_new(im, sizes.at[i], &shape.axes[axis]));
            cell__set_rows(im, node, i, in->dtype, &shape);
        }
        before += sizes.at[i];
    }
    return BASE_OK;
}

enum base_status cell__lower_split(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    int64_t attribute = 0;
    uint32_t axis = 0;
    struct cell__place place;
    struct cell__list sizes;
    uint32_t start = 0;
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, in->shape.rank, &axis));
    BASE_TRY(cell__axis_in_row(im, &in->shape, axis, "splits", &place));
    BASE_TRY(split_sizes(im, node, cell__axis_size(im, &in->shape.axes[axis]), &sizes));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        uint32_t row = CELL__NONE;
        const uint32_t size = (uint32_t)sizes.at[i];
        if (size == 0) {
            continue;
        }
        BASE_TRY(cell__row_part(im, in->row, &place, start, size, &row));
        cell__set_row(im, node, i, row);
        start += size;
    }
    return BASE_OK;
}

/* ---- Expand ------------------------------------------------------------------------------- */

/* The axis that `in` (from behind) becomes under target. */
static enum base_status expand_axis(struct cell__import *im, const struct cell__axis *in,
                                    const struct cell__sym *target, struct cell__axis *out)
{
    int64_t size = cell__axis_size(im, in);
    *out = *in;
    if (cell__sym_is_number(target) && target->add == 1) {
        return BASE_OK;
    }
    if (size == 1 && target->add == 0 && target->factor > 1 && target->axis.n > 0) {
        // all of it is one element over and over, so that the order does not matter
        BASE_TRY(cell__axis_new(im, target->factor, out));
        for (uint32_t i = 0; i < target->axis.n; i++) {
            if (out->n == CELL__AXIS_ATOMS_MAX) {
                return cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
            }
            out->atoms[out->n++] = target->axis.atoms[i];
        }
        return BASE_OK;
    }
    if (size == 1) {
        return cell__sym_axis(im, target, out);
    }
    if (target->add == 0 && target->factor == 1 && cell__axis_is_mirror(im, &target->axis, in)) {
        *out = target->axis; // numbers of steps, by the size of scores
        return BASE_OK;
    }
    struct cell__sym own = cell__sym_of_axis(im, in);
    if (cell__sym_equal(im, &own, target) != 1) {
        return cell__refuse(im, "an axis of %lld elements to another size", (long long)size);
    }
    return BASE_OK;
}

static enum base_status expand_shape(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__tensor *target, struct cell__shape *out)
{
    struct cell__shape in;
    struct cell__sym one = cell__sym_number(1);
    BASE_TRY(cell__shape_of(im, cell__input(im, node, 0), &in));
    uint32_t n = (uint32_t)target->count;
    *out = (struct cell__shape){.rank = in.rank > n ? in.rank : n};
    for (uint32_t behind = 1; behind <= out->rank; behind++) {
        struct cell__axis none = {.n = 0};
        const struct cell__axis *from = behind <= in.rank ? &in.axes[in.rank - behind] : &none;
        struct cell__sym to = behind <= n ? cell__tensor_sym(target, n - behind) : one;
        BASE_TRY(expand_axis(im, from, &to, &out->axes[out->rank - behind]));
    }
    return BASE_OK;
}

/* A constant whose axes of one element become such of these sizes. */
static enum base_status set_broadcast(struct cell__import *im, const struct cell__node *node,
                                      uint32_t rank, const int64_t *dims)
{
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    struct cell__view view = cell__view_of(in);
    struct cell__tensor out;
    view = cell__view_broadcast(&view, rank, dims);
    BASE_TRY(cell__fold_view(im, in, &view, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_expand(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__value *target = cell__input(im, node, 1);
    struct cell__shape shape;
    if (target->kind != CELL__CONST) {
        return cell__refuse(im, "to a shape that is not a constant");
    }
    if (target->tensor.dtype != CELL__I64 || target->tensor.rank != 1 ||
        target->tensor.count > CELL_RANK_MAX) {
        return cell__invalid(im, "the shape is no list of at most %u int64", CELL_RANK_MAX);
    }
    BASE_TRY(expand_shape(im, node, &target->tensor, &shape));
    int64_t dims[CELL_RANK_MAX];
    bool is_known = in->kind == CELL__CONST;
    for (uint32_t k = 0; k < shape.rank; k++) {
        dims[k] = cell__axis_size(im, &shape.axes[k]);
        is_known = is_known && dims[k] >= 0;
    }
    if (is_known) {
        return set_broadcast(im, node, shape.rank, dims);
    }
    BASE_TRY(cell__shape_mirror(im, &shape));
    cell__set_rows(im, node, 0, in->dtype, &shape);
    return BASE_OK;
}

enum base_status cell__lower_expand(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    struct cell__axis time;
    uint32_t row = CELL__NONE;
    if (cell__is_last_step(in, &time)) {
        BASE_TRY(cell__row_last_step(im, &time, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    BASE_TRY(cell__row_under(im, node, 0, &row));
    if (in->kind == CELL__ROWS) {
        BASE_TRY(cell__row_in_pairs(im, in, out, &row));
        BASE_TRY(cell__row_spread(im, row, &in->shape, out, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Tile --------------------------------------------------------------------------------- */

/* Of an axis that has one element it is an Expand; of one within a row elements are taken again. */
static bool repeats_elements(const struct cell__import *im, const struct cell__axis *axis,
                             const struct cell__sym *repeats)
{
    return cell__axis_size(im, axis) != 1 && !(cell__sym_is_number(repeats) && repeats->add == 1);
}

static enum base_status read_repeats(struct cell__import *im, const struct cell__node *node,
                                     uint32_t rank, struct cell__sym *repeats)
{
    const struct cell__value *given = cell__input(im, node, 1);
    if (given->kind != CELL__CONST) {
        return cell__refuse(im, "repeats that are not constant");
    }
    if (given->dtype != CELL__I64 || given->tensor.rank != 1 || given->tensor.count != rank) {
        return cell__invalid(im, "repeats are %zu, of %u axes", given->tensor.count, rank);
    }
    for (uint32_t k = 0; k < rank; k++) {
        repeats[k] = cell__tensor_sym(&given->tensor, k);
        if (cell__sym_is_number(&repeats[k]) && repeats[k].add < 1) {
            return cell__refuse(im, "takes none of an axis");
        }
    }
    return BASE_OK;
}

/* All elements of a constant's axis for each of a number that the request says, such as of rows of
 * the batch: of each these are features. */
static enum base_status repeat_for_each(struct cell__import *im, const struct cell__axis *in,
                                        const struct cell__sym *repeats, struct cell__axis *out)
{
    BASE_TRY(cell__sym_axis(im, repeats, out));
    if (in->n != 1 || out->n == CELL__AXIS_ATOMS_MAX) {
        return cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
    }
    out->atoms[out->n++] = in->atoms[0];
    return BASE_OK;
}

static enum base_status repeat_axis(struct cell__import *im, const struct cell__axis *in,
                                    const struct cell__sym *repeats, bool is_const,
                                    struct cell__axis *out)
{
    const int64_t size = cell__axis_size(im, in);
    int64_t made = 0;
    if (!repeats_elements(im, in, repeats)) {
        return expand_axis(im, in, repeats, out);
    }
    if (is_const && !cell__sym_is_number(repeats)) {
        return repeat_for_each(im, in, repeats, out);
    }
    if (!cell__sym_is_number(repeats) || size < 0) {
        return cell__refuse(im, "repeats an axis of more than one element as often as the request "
                                "has it, or one of unknown size");
    }
    if (!base_i64_mul(size, repeats->add, &made) || made > CELL_WIDTH_MAX) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    return cell__axis_new(im, made, out);
}

/* A constant's elements, so often along each axis. */
static enum base_status fold_tile(struct cell__import *im, const struct cell__node *node,
                                  const struct cell__sym *repeats)
{
    struct cell__tensor out = cell__input(im, node, 0)->tensor;
    for (uint32_t k = 0; k < out.rank; k++) {
        struct cell__tensor numbers = {.dtype = CELL__I64};
        const struct cell__tensor in = out;
        const int64_t count = in.dims[k] * repeats[k].add;
        void *data = NULL;
        struct cell__sym *none = NULL;
        if (repeats[k].add == 1) {
            continue;
        }
        BASE_TRY(cell__tensor_shape(im, &numbers, 1, &count));
        BASE_TRY(cell__tensor_alloc(im, &numbers, false, &data, &none));
        for (int64_t i = 0; i < count; i++) {
            ((int64_t *)data)[i] = i % in.dims[k];
        }
        BASE_TRY(cell__fold_gather(im, &in, &numbers, k, &out));
    }
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_tile(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const bool is_const = in->kind == CELL__CONST;
    struct cell__sym repeats[CELL_RANK_MAX] = {{0}};
    struct cell__shape shape;
    bool is_known = is_const;
    bool takes_more = false; // than one element of some axis, a number of times
    BASE_TRY(cell__shape_of(im, in, &shape));
    BASE_TRY(read_repeats(im, node, shape.rank, repeats));
    for (uint32_t k = 0; k < shape.rank; k++) {
        const struct cell__axis own = shape.axes[k];
        is_known = is_known && cell__sym_is_number(&repeats[k]);
        takes_more = takes_more ||
                     (cell__sym_is_number(&repeats[k]) && repeats_elements(im, &own, &repeats[k]));
        BASE_TRY(repeat_axis(im, &own, &repeats[k], is_const, &shape.axes[k]));
    }
    if (is_known) {
        return fold_tile(im, node, repeats);
    }
    if (is_const && takes_more) {
        return cell__refuse(im, "of a constant, a number of times and as often as the request has "
                                "it");
    }
    cell__set_rows(im, node, 0, in->dtype, &shape);
    return BASE_OK;
}

/* Of a constant: its elements, of each row that the request has. */
static enum base_status lower_const_tile(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    struct cell__sym repeats[CELL_RANK_MAX] = {{0}};
    struct cell__shape shape = *out;
    uint32_t width = 0;
    uint32_t row = CELL__NONE;
    BASE_TRY(read_repeats(im, node, shape.rank, repeats));
    for (uint32_t k = 0; k < shape.rank; k++) {
        struct cell__axis *axis = &shape.axes[k];
        if (in->tensor.dims[k] > 1 && !cell__sym_is_number(&repeats[k])) {
            *axis = (struct cell__axis){.n = 1, .atoms = {axis->atoms[axis->n - 1]}};
        }
    }
    BASE_TRY(cell__row_of(im, in, &shape, false, &row));
    BASE_TRY(cell__shape_width(im, out, &width));
    if (im->rows[row].value.width != width) {
        return cell__refuse(im, "a constant that differs along the batch or time axis");
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* All elements of the axis, and then all of them again. */
static enum base_status repeat_within(struct cell__import *im, const struct cell__shape *shape,
                                      uint32_t axis, int64_t times, uint32_t *row)
{
    struct cell__place place;
    BASE_TRY(cell__axis_in_row(im, shape, axis, "repeats", &place));
    const uint32_t n = place.size * (uint32_t)times;
    int64_t *at = base_arena_array(im->arena, n, sizeof(*at));
    if (at == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < n; i++) {
        at[i] = i % place.size;
    }
    return cell__row_elements(im, *row, &place, at, n, row);
}

enum base_status cell__lower_tile(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    struct cell__sym repeats[CELL_RANK_MAX] = {{0}};
    struct cell__shape shape = in->shape;
    uint32_t row = CELL__NONE;
    if (in->kind == CELL__CONST) {
        return lower_const_tile(im, node);
    }
    BASE_TRY(read_repeats(im, node, shape.rank, repeats));
    BASE_TRY(cell__row_under(im, node, 0, &row));
    for (uint32_t k = 0; k < shape.rank; k++) {
        if (repeats_elements(im, &shape.axes[k], &repeats[k])) {
            BASE_TRY(repeat_within(im, &shape, k, repeats[k].add, &row));
            shape.axes[k] = out->axes[k];
        }
    }
    BASE_TRY(cell__row_spread(im, row, &shape, out, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
