/* See integers.h. */
#include "cells/import/integers.h"

#include "cells/import/ops.h"

#include <string.h>

static const char as_it_is[] = "as it is"; /* no matter of this file */

#define LOOK_MAX 16u

/* The node of this operator that made a value, looked at through Identity, or NULL. */
static const struct cell__node *made_by(const struct cell__import *im, uint32_t v, const char *op)
{
    for (uint32_t n = 0; n < LOOK_MAX && v != CELL__NONE; n++) {
        const uint32_t node = im->values[v].node;
        const struct cell__node *made = node == CELL__NONE ? NULL : &im->nodes[node];
        if (made == NULL || made->op == NULL || strcmp(made->op->name, "Identity") != 0) {
            return made != NULL && made->op != NULL && strcmp(made->op->name, op) == 0 ? made
                                                                                       : NULL;
        }
        v = made->n_inputs > 0 ? made->inputs[0] : CELL__NONE;
    }
    return NULL;
}

/* Int64 of a constant float that stands at each place of a shape, as ones_like() of integers has
 * it: of the integer. */
enum base_status cell__write_integer(struct cell__writer *w)
{
    uint32_t v = 0;
    int64_t to = 0;
    int64_t number = 0;
    const char *of = NULL;
    BASE_TRY(cell__writer_int(w, "to", &to));
    if (cell__value_named(w->im, w->proto->input[0], &v) != BASE_OK) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    const struct cell__node *spread = made_by(w->im, v, "Expand");
    if (to != ONNX__TENSOR_PROTO__DATA_TYPE__INT64 || w->im->values[v].kind != CELL__ROWS ||
        spread == NULL || spread->n_inputs != 2 || spread->inputs[1] == CELL__NONE ||
        !cell__value_whole(cell__input_of(w->im, spread, 0), &number)) {
        return cell__unwritten(w, as_it_is);
    }
    BASE_TRY(cell__write_ints(w, &number, 1, &of));
    return cell__write(w, "Expand",
                       (const char *[]){of, w->im->values[spread->inputs[1]].name, NULL}, &w->out);
}

/* Whether a value is ones alone, of whatever shape: a constant of one element, expanded. */
static bool are_ones(const struct cell__import *im, uint32_t v)
{
    const struct cell__node *written = made_by(im, v, "Cast"); // of cell__write_integer()
    const struct cell__node *spread =
        made_by(im, written != NULL && written->n_inputs > 0 ? written->inputs[0] : v, "Expand");
    const uint32_t of = spread == NULL ? CELL__NONE : spread->inputs[0];
    if (of == CELL__NONE || im->values[of].kind != CELL__CONST ||
        im->values[of].dtype != CELL__I64 || im->values[of].tensor.count != 1) {
        return false;
    }
    const struct cell__sym sym = cell__tensor_sym(&im->values[of].tensor, 0);
    return cell__sym_is_number(&sym) && sym.add == 1;
}

/* Whether a CumSum of these operands is one of ones, from the first on; *axis: which one it goes
 * along. */
static bool sums_ones(const struct cell__import *im, const Onnx__NodeProto *proto,
                      const uint32_t values[2], uint32_t *axis)
{
    static const char *const flags[] = {"exclusive", "reverse"};
    const struct cell__node sum = {.proto = proto};
    const struct cell__value *x = &im->values[values[0]];
    const struct cell__value *given = &im->values[values[1]];
    bool sums = x->kind == CELL__ROWS && x->dtype == CELL__I64 && given->kind == CELL__CONST &&
                given->dtype != CELL__F32 && given->tensor.count == 1 && are_ones(im, values[0]);
    for (size_t i = 0; i < 2; i++) {
        const Onnx__AttributeProto *flag = cell__attr(&sum, flags[i]);
        sums = sums && (flag == NULL ||
                        (flag->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT && flag->i == 0));
    }
    if (!sums) {
        return false;
    }
    const struct cell__sym sym = cell__tensor_sym(&given->tensor, 0);
    const int64_t at = sym.add + (sym.add < 0 ? (int64_t)x->shape.rank : 0);
    *axis = (uint32_t)at;
    return cell__sym_is_number(&sym) && at >= 0 && at < (int64_t)x->shape.rank;
}

/* first, first + 1 and so on along an axis, in the shape of x. */
static enum base_status write_count(struct cell__writer *w, const struct cell__value *x,
                                    uint32_t axis, int64_t first)
{
    static const int64_t behind[CELL_RANK_MAX] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int64_t numbers[2] = {0, 1};
    const uint32_t n_behind = x->shape.rank - 1 - axis;
    const int64_t at = axis;
    const char *shape = NULL;
    const char *size = NULL;
    const char *row = NULL;
    const char *names[3];
    BASE_TRY(cell__write(w, "Shape", (const char *[]){x->name, NULL}, &shape));
    BASE_TRY(cell__write_ints(w, &at, 1, &size));
    BASE_TRY(cell__write(w, "Gather", (const char *[]){shape, size, NULL}, &size));
    BASE_TRY(cell__write_axes(w, "Squeeze", size, &numbers[0], 1, &size));
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(cell__write_ints(w, &numbers[i], 1, &names[i]));
        BASE_TRY(cell__write_axes(w, "Squeeze", names[i], &numbers[0], 1, &names[i]));
    }
    BASE_TRY(cell__write(w, "Range", (const char *[]){names[0], size, names[1], NULL}, &row));
    BASE_TRY(cell__write_axes(w, "Unsqueeze", row, behind, n_behind, &row));
    if (first != 0) {
        BASE_TRY(cell__write_ints(w, &first, 1, &names[2]));
        BASE_TRY(cell__write(w, "Add", (const char *[]){row, names[2], NULL}, &row));
    }
    return cell__write(w, "Expand", (const char *[]){row, shape, NULL}, &w->out);
}

/* The values of two operands, as the file names them: a node that was written out has others. */
static enum base_status read_operands(struct cell__writer *w, const Onnx__NodeProto *proto,
                                      uint32_t values[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__value *value = NULL;
        if (proto->input[i][0] == '\0') {
            return cell__unwritten(w, as_it_is);
        }
        BASE_TRY(cell__writer_value(w, proto->input[i], &value));
        values[i] = (uint32_t)(value - w->im->values);
    }
    return BASE_OK;
}

/* The sums of ones: 1, 2 and so on. */
enum base_status cell__write_count_up(struct cell__writer *w)
{
    uint32_t values[2] = {0, 0};
    uint32_t axis = 0;
    BASE_TRY(read_operands(w, w->proto, values));
    return sums_ones(w->im, w->proto, values, &axis)
               ? write_count(w, &w->im->values[values[0]], axis, 1)
               : cell__unwritten(w, as_it_is);
}

/* These less ones, `cumsum(ones) - ones`: the numbers of the steps. */
enum base_status cell__write_count_from_zero(struct cell__writer *w)
{
    uint32_t values[2] = {0, 0};
    uint32_t summed[2] = {0, 0};
    uint32_t axis = 0;
    BASE_TRY(read_operands(w, w->proto, values));
    const struct cell__node *sum = made_by(w->im, values[0], "CumSum");
    if (sum == NULL || sum->proto->n_input != 2 || !are_ones(w->im, values[1])) {
        return cell__unwritten(w, as_it_is);
    }
    BASE_TRY(read_operands(w, sum->proto, summed));
    if (!sums_ones(w->im, sum->proto, summed, &axis)) {
        return cell__unwritten(w, as_it_is);
    }
    const struct cell__value *x = &w->im->values[summed[0]];
    const struct cell__shape *ones = &w->im->values[values[1]].shape;
    bool is_same = w->im->values[values[1]].kind == CELL__ROWS && ones->rank == x->shape.rank;
    for (uint32_t k = 0; is_same && k < ones->rank; k++) {
        is_same = cell__axis_is_same(w->im, &ones->axes[k], &x->shape.axes[k]);
    }
    return is_same ? write_count(w, x, axis, 0) : cell__unwritten(w, as_it_is);
}

/* A Cast to the type of another value, as jax2onnx has it. */
enum base_status cell__write_cast_like(struct cell__writer *w)
{
    uint32_t values[2] = {0, 0};
    int64_t type = 0;
    Onnx__NodeProto *cast = NULL;
    BASE_TRY(read_operands(w, w->proto, values));
    const enum cell__dtype dtype = w->im->values[values[1]].dtype;
    type = dtype == CELL__F32   ? ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT
           : dtype == CELL__I64 ? ONNX__TENSOR_PROTO__DATA_TYPE__INT64
           : dtype == CELL__I32 ? ONNX__TENSOR_PROTO__DATA_TYPE__INT32
                                : ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED;
    if (type == ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED) {
        return cell__unwritten(w, "to another type than float32, int64 and int32");
    }
    BASE_TRY(
        cell__build_node(w->builder, "Cast", (const char *[]){w->proto->input[0], NULL}, 1, &cast));
    w->out = cast->output[0];
    return cell__build_set_int(w->builder, cast, "to", type);
}
