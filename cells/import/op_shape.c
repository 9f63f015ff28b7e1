/* Operators that make constants, or compute shapes: after folding nothing is left of them, except
 * of a tensor filled with one value in the shape of the request. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

/* ---- Constant ----------------------------------------------------------------------------- */

/* A constant of `count` elements of this dtype, copied. */
static enum base_status set_list(struct cell__import *im, const struct cell__node *node,
                                 enum cell__dtype dtype, uint32_t rank, size_t count,
                                 const void *elements)
{
    struct cell__tensor out = {.dtype = dtype};
    void *data = NULL;
    struct cell__sym *none = NULL;
    int64_t dims[1] = {(int64_t)count};
    BASE_TRY(cell__tensor_shape(im, &out, rank, dims));
    BASE_TRY(cell__tensor_alloc(im, &out, false, &data, &none));
    if (count > 0) {
        memcpy(data, elements, count * cell__dtype_bytes(dtype));
    }
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_constant(struct cell__import *im, struct cell__node *node)
{
    const Onnx__AttributeProto *tensor = cell__attr(node, "value");
    const Onnx__AttributeProto *number = cell__attr(node, "value_int");
    const Onnx__AttributeProto *real = cell__attr(node, "value_float");
    const Onnx__AttributeProto *numbers = cell__attr(node, "value_ints");
    const Onnx__AttributeProto *reals = cell__attr(node, "value_floats");
    if (node->proto->n_attribute > 1) {
        return cell__invalid(im, "%zu values; it has one", node->proto->n_attribute);
    }
    if (tensor != NULL && tensor->t != NULL) {
        struct cell__tensor out;
        BASE_TRY(cell__tensor_read(im, tensor->t, &out));
        cell__set_const(im, node, 0, &out);
        return BASE_OK;
    }
    if (number != NULL) {
        return set_list(im, node, CELL__I64, 0, 1, &number->i);
    }
    if (real != NULL) {
        return set_list(im, node, CELL__F32, 0, 1, &real->f);
    }
    if (numbers != NULL) {
        return set_list(im, node, CELL__I64, 1, numbers->n_ints, numbers->ints);
    }
    if (reals != NULL) {
        return set_list(im, node, CELL__F32, 1, reals->n_floats, reals->floats);
    }
    return cell__refuse(im, "has no value of a known kind");
}

/* ---- Shape -------------------------------------------------------------------------------- */

enum base_status cell__infer_shape(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape shape;
    BASE_TRY(cell__shape_of(im, cell__input(im, node, 0), &shape));
    int64_t start = 0;
    int64_t end = shape.rank;
    BASE_TRY(cell__attr_int(im, node, "start", 0, &start));
    BASE_TRY(cell__attr_int(im, node, "end", shape.rank, &end));
    int64_t rank = shape.rank;
    start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    int64_t dims[1] = {end > start ? end - start : 0};
    struct cell__tensor out = {.dtype = CELL__I64};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    BASE_TRY(cell__tensor_shape(im, &out, 1, dims));
    BASE_TRY(cell__tensor_alloc(im, &out, true, &data, &syms));
    for (size_t i = 0; i < out.count; i++) {
        syms[i] = cell__sym_of_axis(im, &shape.axes[(size_t)start + i]);
    }
    BASE_TRY(cell__tensor_settle(im, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_size(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape shape;
    struct cell__tensor out = {.dtype = CELL__I64};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    BASE_TRY(cell__shape_of(im, cell__input(im, node, 0), &shape));
    BASE_TRY(cell__tensor_shape(im, &out, 0, NULL));
    BASE_TRY(cell__tensor_alloc(im, &out, true, &data, &syms));
    syms[0] = cell__sym_number(1);
    for (uint32_t k = 0; k < shape.rank; k++) {
        const struct cell__sym before = syms[0];
        const struct cell__sym next = cell__sym_of_axis(im, &shape.axes[k]);
        if (!cell__sym_compute(im, '*', &before, &next, &syms[0])) {
            return cell__refuse(im, "cannot compute a shape this way, or it overflows");
        }
    }
    BASE_TRY(cell__tensor_settle(im, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* ---- ConstantOfShape ---------------------------------------------------------------------- */

/* The one element to fill with: float 0 by default. */
static enum base_status fill_value(struct cell__import *im, const struct cell__node *node,
                                   struct cell__tensor *out)
{
    static const float zero = 0.0f;
    const Onnx__AttributeProto *attribute = cell__attr(node, "value");
    *out = (struct cell__tensor){.dtype = CELL__F32, .count = 1, .data = &zero};
    if (attribute == NULL) {
        return BASE_OK;
    }
    if (attribute->t == NULL) {
        return cell__invalid(im, "attribute value is not a tensor");
    }
    BASE_TRY(cell__tensor_read(im, attribute->t, out));
    if (out->count != 1) {
        return cell__invalid(im, "attribute value has %zu elements", out->count);
    }
    out->rank = 0;
    return BASE_OK;
}

enum base_status cell__infer_constant_of_shape(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *target = cell__input(im, node, 0);
    struct cell__tensor fill;
    if (target->kind != CELL__CONST) {
        return cell__refuse(im, "the shape is not a constant");
    }
    if (target->dtype != CELL__I64 || target->tensor.rank != 1 ||
        target->tensor.count > CELL_RANK_MAX) {
        return cell__invalid(im, "the shape is no list of at most %u int64", CELL_RANK_MAX);
    }
    BASE_TRY(fill_value(im, node, &fill));
    struct cell__shape shape = {.rank = (uint32_t)target->tensor.count};
    int64_t dims[CELL_RANK_MAX];
    bool is_known = true;
    for (uint32_t k = 0; k < shape.rank; k++) {
        struct cell__sym size = cell__tensor_sym(&target->tensor, k);
        BASE_TRY(cell__sym_axis(im, &size, &shape.axes[k]));
        dims[k] = cell__axis_size(im, &shape.axes[k]);
        is_known = is_known && dims[k] >= 0;
    }
    if (!is_known) {
        BASE_TRY(cell__shape_mirror(im, &shape));
        cell__set_rows(im, node, 0, fill.dtype, &shape);
        return BASE_OK;
    }
    struct cell__view view = cell__view_of(&fill);
    struct cell__tensor out;
    view = cell__view_broadcast(&view, shape.rank, dims);
    BASE_TRY(cell__fold_view(im, &fill, &view, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__lower_constant_of_shape(struct cell__import *im, struct cell__node *node)
{
    const struct cell__shape *shape = &cell__output(im, node, 0)->shape;
    struct cell__value fill = {.kind = CELL__CONST};
    uint32_t row = CELL__NONE;
    BASE_TRY(fill_value(im, node, &fill.tensor));
    BASE_TRY(cell__row_of(im, &fill, shape, false, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- ReduceProd --------------------------------------------------------------------------- */

/* Of the numbers of a shape; of rows it is a reduction (op_reduce.c). */
enum base_status cell__infer_product(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__list axes;
    int64_t keeps = 1;
    int64_t dims[1] = {1};
    struct cell__tensor out = {.dtype = in->dtype};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    if (in->kind == CELL__ROWS) {
        return cell__infer_reduce(im, node);
    }
    BASE_TRY(cell__ints_or_attr(im, node, 1, 18, "axes", &axes));
    BASE_TRY(cell__attr_int(im, node, "keepdims", 1, &keeps));
    if (in->kind != CELL__CONST || in->tensor.rank != 1 ||
        (in->dtype != CELL__I64 && in->dtype != CELL__I32) ||
        (axes.is_given && (axes.n != 1 || (axes.at[0] != 0 && axes.at[0] != -1)))) {
        return cell__refuse(im, "only of a list of integers that shapes make");
    }
    BASE_TRY(cell__tensor_shape(im, &out, keeps != 0 ? 1 : 0, dims));
    BASE_TRY(cell__tensor_alloc(im, &out, true, &data, &syms));
    syms[0] = cell__sym_number(1);
    for (size_t i = 0; i < in->tensor.count; i++) {
        const struct cell__sym before = syms[0];
        const struct cell__sym next = cell__tensor_sym(&in->tensor, i);
        if (!cell__sym_compute(im, '*', &before, &next, &syms[0])) {
            return cell__refuse(im, "cannot compute a shape this way, or it overflows");
        }
    }
    BASE_TRY(cell__tensor_settle(im, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* ---- ReduceMin ---------------------------------------------------------------------------- */

/* The smaller of two of a list, where it is known which that is: a size is below any number that
 * stands for none. */
static bool smaller(struct cell__import *im, const struct cell__sym *a, const struct cell__sym *b,
                    struct cell__sym *out)
{
    const bool is_a = cell__sym_is_number(a);
    const bool is_b = cell__sym_is_number(b);
    if (is_a && is_b) {
        *out = a->add < b->add ? *a : *b;
        return true;
    }
    *out = is_a ? *b : *a;
    if ((is_a && a->add == INT64_MAX) || (is_b && b->add == INT64_MAX) ||
        cell__sym_equal(im, a, b) == 1) {
        return true;
    }
    // Of two sequences that a loop goes along side by side: requests have as many steps of both.
    const bool are_sizes = a->add == 0 && b->add == 0 && a->factor == 1 && b->factor == 1;
    return are_sizes && !is_a && !is_b &&
           cell__axis_unite(im, &a->axis, &b->axis, "of sequences side by side") == BASE_OK;
}

/* Of numbers of steps, as enumerate() and zip() have them in a scripted loop. */
enum base_status cell__infer_least(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__list axes;
    int64_t noop = 0;
    int64_t keeps = 1;
    int64_t dims[1] = {1};
    struct cell__tensor out = {.dtype = in->dtype};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    BASE_TRY(cell__ints_or_attr(im, node, 1, 18, "axes", &axes));
    BASE_TRY(cell__attr_int(im, node, "keepdims", 1, &keeps));
    BASE_TRY(cell__attr_int(im, node, "noop_with_empty_axes", 0, &noop));
    if (in->tensor.rank != 1 || in->tensor.count == 0 || (noop != 0 && axes.n == 0) ||
        (axes.is_given && (axes.n != 1 || (axes.at[0] != 0 && axes.at[0] != -1)))) {
        return cell__refuse(im, "of a constant of type %s, other than a list",
                            cell__dtype_name(in->dtype));
    }
    BASE_TRY(cell__tensor_shape(im, &out, keeps != 0 ? 1 : 0, dims));
    BASE_TRY(cell__tensor_alloc(im, &out, true, &data, &syms));
    syms[0] = cell__tensor_sym(&in->tensor, 0);
    for (size_t i = 1; i < in->tensor.count; i++) {
        const struct cell__sym before = syms[0];
        const struct cell__sym next = cell__tensor_sym(&in->tensor, i);
        if (!smaller(im, &before, &next, &syms[0])) {
            return cell__refuse(im, "the smallest of sizes that requests choose");
        }
    }
    BASE_TRY(cell__tensor_settle(im, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* ---- Mod ---------------------------------------------------------------------------------- */

/* Of integers that are known, or that a shape makes whole multiples, or of numbers of steps. */
enum base_status cell__infer_mod(struct cell__import *im, struct cell__node *node)
{
    struct cell__tensor out;
    int64_t fmod = 0;
    BASE_TRY(cell__attr_int(im, node, "fmod", 0, &fmod));
    if (fmod != 0 || !cell__is_of_integers(im, node)) {
        return cell__refuse(im, "only of integers, with fmod 0");
    }
    if (cell__input(im, node, 0)->kind == CELL__ROWS &&
        cell__input(im, node, 1)->kind == CELL__CONST &&
        cell__input(im, node, 0)->dtype == cell__input(im, node, 1)->dtype) {
        return cell__infer_index(im, node); // of numbers of steps: op_numbers.c
    }
    if (!cell__is_all_const(im, node)) {
        return cell__refuse(im, "only of integers that shapes make, or of one and a constant");
    }
    BASE_TRY(cell__fold_binary(im, '%', &cell__input(im, node, 0)->tensor,
                               &cell__input(im, node, 1)->tensor, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* a - a % n, of inputs a and n: a number of steps cut to a multiple. */
static enum base_status infer_multiple(struct cell__import *im, struct cell__node *node)
{
    const struct cell__tensor *n = &cell__input(im, node, 1)->tensor;
    struct cell__tensor parts;
    struct cell__tensor out;
    BASE_TRY(cell__fold_binary(im, '/', &cell__input(im, node, 0)->tensor, n, &parts));
    BASE_TRY(cell__fold_binary(im, '*', &parts, n, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

static const struct cell__operator multiple = {"Sub", 2, 2, 1, " ", infer_multiple, NULL, ""};

/* The Mod of a node that takes its result from something else, or NULL: Sub(a, Mod(..)), or Add(a,
 * Mul(-1, Mod(..))) as PyTorch's newer exporter has it. *a: which input is a. */
static const struct cell__node *rest_of(const struct cell__import *im,
                                        const struct cell__node *node, uint32_t *a)
{
    *a = 0;
    if (node->op != NULL && strcmp(node->op->name, "Sub") == 0) {
        return cell__made_by(im, node, 1, "Mod");
    }
    for (uint32_t i = 0; node->op != NULL && strcmp(node->op->name, "Add") == 0 && i < 2; i++) {
        const struct cell__node *mul = cell__made_by(im, node, i, "Mul");
        for (uint32_t k = 0; mul != NULL && mul->n_inputs == 2 && k < 2; k++) {
            struct cell__sym sign;
            const struct cell__node *mod = cell__made_by(im, mul, k, "Mod");
            if (mod != NULL && cell__value_size(cell__input_of(im, mul, 1 - k), &sign) &&
                cell__sym_is_number(&sign) && sign.add == -1) {
                *a = 1 - i;
                return mod;
            }
        }
    }
    return NULL;
}

void cell__replace_rest(struct cell__import *im, struct cell__node *node)
{
    struct cell__sym a;
    struct cell__sym of;
    struct cell__sym n;
    uint32_t first = 0;
    const struct cell__node *mod = rest_of(im, node, &first);
    const Onnx__AttributeProto *fmod = mod == NULL ? NULL : cell__attr(mod, "fmod");
    if (mod != NULL && node->n_inputs == 2 && mod->n_inputs == 2 &&
        im->values[mod->outputs[0]].kind == CELL__POISON && (fmod == NULL || fmod->i == 0) &&
        cell__value_size(cell__input_of(im, node, first), &a) &&
        cell__value_size(cell__input_of(im, mod, 0), &of) &&
        cell__value_size(cell__input_of(im, mod, 1), &n) && cell__sym_is_number(&n) && n.add > 0 &&
        cell__sym_equal(im, &a, &of) == 1) {
        node->op = &multiple;
        node->inputs[0] = node->inputs[first];
        node->inputs[1] = mod->inputs[1];
    }
}

/* ---- Equal, Where, Range ------------------------------------------------------------------ */

static enum base_status all_const(struct cell__import *im, const struct cell__node *node)
{
    return cell__is_all_const(im, node)
               ? BASE_OK
               : cell__refuse(im, "only of constants and shapes; an operand depends on the data");
}

enum base_status cell__infer_equal(struct cell__import *im, struct cell__node *node)
{
    struct cell__tensor out;
    BASE_TRY(all_const(im, node));
    BASE_TRY(cell__fold_binary(im, '=', &cell__input(im, node, 0)->tensor,
                               &cell__input(im, node, 1)->tensor, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_where(struct cell__import *im, struct cell__node *node)
{
    struct cell__tensor out;
    BASE_TRY(all_const(im, node));
    BASE_TRY(cell__fold_where(im, &cell__input(im, node, 0)->tensor,
                              &cell__input(im, node, 1)->tensor, &cell__input(im, node, 2)->tensor,
                              &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* Whether a Range has numbers of an axis, one for each step from the first on; of which. */
static bool numbered_axis(struct cell__import *im, const struct cell__node *node,
                          struct cell__axis *out)
{
    struct cell__sym length;
    for (uint32_t i = 0; i < 3; i++) {
        const struct cell__value *bound = cell__input(im, node, i);
        if (bound->dtype == CELL__F32 || cell__dtype_bytes(bound->dtype) == 1 ||
            bound->tensor.count != 1) {
            return false;
        }
    }
    const struct cell__sym start = cell__tensor_sym(&cell__input(im, node, 0)->tensor, 0);
    const struct cell__sym step = cell__tensor_sym(&cell__input(im, node, 2)->tensor, 0);
    const struct cell__sym limit = cell__tensor_sym(&cell__input(im, node, 1)->tensor, 0);
    if (!cell__sym_is_number(&start) || !cell__sym_is_number(&step) || step.add != 1 ||
        !cell__sym_compute(im, '-', &limit, &start, &length)) {
        return false;
    }
    cell__axis_settle(im, &length); // of what strides leave, one more is a number of steps itself
    *out = length.axis;
    return length.add == 0 && length.factor == 1 && length.axis.n == 1;
}

/* The numbers of all steps of a sequence: what masks compare with its length. */
enum base_status cell__lower_range(struct cell__import *im, struct cell__node *node)
{
    const struct cell__shape *shape = &cell__output(im, node, 0)->shape;
    const uint32_t times = cell__shape_times(im, shape);
    const struct cell__sym first = cell__tensor_sym(&cell__input(im, node, 0)->tensor, 0);
    uint32_t row = CELL__NONE;
    if (cell__shape_has(im, shape, CELL__ROLE_BATCH)) {
        if (first.add != 0) {
            return cell__refuse(im, "numbers of the batch's rows that do not begin with 0");
        }
        const struct cell__row like = {.kind = CELL__ROW_INDEX,
                                       .index = CELL__NONE,
                                       .value = {CELL_I64, 1},
                                       .is_batched = true};
        BASE_TRY(cell__row_index(im, &like, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    if (times == 0 || im->scan != CELL__NONE || im->feeds_back) {
        return cell__refuse(im, "the numbers of what are no steps of a recurrent node");
    }
    BASE_TRY(cell__row_number_of_step(im, cell__only_sequence(times), &row));
    BASE_TRY(cell__row_count_from(im, first.add, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__infer_range(struct cell__import *im, struct cell__node *node)
{
    int64_t bounds[3] = {0, 0, 0}; // start, limit, step
    struct cell__shape shape = {.rank = 1};
    BASE_TRY(all_const(im, node));
    if (numbered_axis(im, node, &shape.axes[0])) {
        // a mask's numbers by the size of the scores that it is for
        cell__axis_unmirror(im, &shape.axes[0]);
        cell__set_rows(im, node, 0, cell__input(im, node, 1)->dtype, &shape);
        return BASE_OK;
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct cell__list operand;
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, i), "an operand", &operand));
        bounds[i] = operand.n > 0 ? operand.at[0] : 0;
        if (operand.n != 1 || cell__dtype_bytes(cell__input(im, node, i)->dtype) == 1 ||
            cell__input(im, node, i)->dtype != cell__input(im, node, 0)->dtype) {
            return cell__refuse(im, "only of integers of one type");
        }
    }
    int64_t length = 0;
    if (bounds[2] == 0 || __builtin_sub_overflow(bounds[1], bounds[0], &length)) {
        return cell__invalid(im, "a step of 0, or too long a range");
    }
    bool is_empty = length == 0 || (length > 0) != (bounds[2] > 0);
    int64_t steps =
        bounds[2] == -1 ? (length == INT64_MIN ? INT64_MAX : -length) : length / bounds[2];
    steps += bounds[2] != -1 && length % bounds[2] != 0 ? 1 : 0;
    int64_t dims[1] = {is_empty ? 0 : steps};
    struct cell__tensor out = {.dtype = cell__input(im, node, 0)->dtype};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    BASE_TRY(cell__tensor_shape(im, &out, 1, dims));
    BASE_TRY(cell__tensor_alloc(im, &out, true, &data, &syms));
    for (size_t i = 0; i < out.count; i++) {
        syms[i] = cell__sym_number(bounds[0] + (int64_t)i * bounds[2]);
    }
    BASE_TRY(cell__tensor_settle(im, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}
