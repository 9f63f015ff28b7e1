/* Equal, and comparisons of integers: of ids with a number, and of the numbers of a sequence's
 * steps with how long it is, which is how masks are made.
 *
 * Integers are compared as floats. That is right where one of the two is exact as a float: a larger
 * number becomes a float that is as large at least. */
#include "cells/import/conditions.h"
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

/* Below, every integer is exact as a float; a sequence has fewer steps. */
#define EXACT_MAX 16777215

static bool is_integer(enum cell__dtype dtype)
{
    return dtype == CELL__I32 || dtype == CELL__I64;
}

bool cell__is_of_integers(struct cell__import *im, const struct cell__node *node)
{
    return is_integer(cell__input(im, node, 0)->dtype);
}

/* The size of an axis, beside the number of a Loop's step. */
static bool is_size_in_body(const struct cell__import *im, const struct cell__value *value)
{
    if (im->scan == CELL__NONE || value->tensor.count != 1) {
        return false;
    }
    const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
    return !cell__sym_is_number(&sym);
}

/* As a float that is the same at every step. */
static enum base_status row_of_size(struct cell__import *im, const struct cell__value *value,
                                    uint32_t *row)
{
    const struct cell__value count = {
        .kind = CELL__COUNTER, .dtype = CELL__F32, .count = cell__tensor_sym(&value->tensor, 0)};
    const uint32_t scan = im->scan;
    im->scan = CELL__NONE;
    const enum base_status status = cell__row_of_count(im, &count, row);
    im->scan = scan;
    return status;
}

static enum base_status check_constant(struct cell__import *im, const struct cell__value *value)
{
    if (is_size_in_body(im, value)) {
        return BASE_OK;
    }
    for (size_t i = 0; i < value->tensor.count; i++) {
        const struct cell__sym sym = cell__tensor_sym(&value->tensor, i);
        if (!cell__sym_is_number(&sym) || sym.add > EXACT_MAX || sym.add < -EXACT_MAX) {
            return cell__refuse(im, "of integers beside one of 2^24 and more, or the size of an "
                                    "axis");
        }
    }
    return BASE_OK;
}

/* As floats: one number, or as many as there are features. */
static enum base_status constant_row(struct cell__import *im, const struct cell__value *value,
                                     const struct cell__shape *shape, uint32_t *row)
{
    struct cell__value floats = {.kind = CELL__CONST, .dtype = CELL__F32};
    BASE_TRY(check_constant(im, value));
    if (is_size_in_body(im, value)) {
        return row_of_size(im, value, row);
    }
    BASE_TRY(cell__fold_cast(im, &value->tensor, CELL__F32, &floats.tensor));
    return cell__row_of(im, &floats, shape, true, row);
}

enum base_status cell__infer_compared(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape out;
    const enum cell__dtype dtype = cell__input(im, node, 0)->dtype;
    if (dtype != cell__input(im, node, 1)->dtype) {
        return cell__invalid(im, "operands of type %s and %s", cell__dtype_name(dtype),
                             cell__dtype_name(cell__input(im, node, 1)->dtype));
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        BASE_TRY(value->kind == CELL__CONST ? check_constant(im, value) : BASE_OK);
    }
    BASE_TRY(cell__join_shapes(im, node, &out));
    cell__set_rows(im, node, 0, CELL__BOOL, &out);
    return BASE_OK;
}

/* Beside sums of what a request holds (lengths.c), which are exact as far as a sequence is long:
 * a step's number, or constants that could be one. */
static bool may_be_number(const struct cell__import *im, const struct cell__value *value)
{
    if (value->kind != CELL__CONST) {
        return im->rows[cell__row_uncast(im, value->row)].kind == CELL__ROW_NUMBER;
    }
    for (size_t i = 0; i < value->tensor.count; i++) {
        const struct cell__sym sym = cell__tensor_sym(&value->tensor, i);
        if (!cell__sym_is_number(&sym) || sym.add < 0 || sym.add > EXACT_MAX / 2) {
            return false;
        }
    }
    return true;
}

/* Whether an operand is such a sum, and what it is compared with is no such number. */
static bool is_rough(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        if (value->kind == CELL__ROWS &&
            (im->rows[value->row].kind == CELL__ROW_INDEX ||
             cell__row_is_rounded(im, value->row)) &&
            !may_be_number(im, cell__input(im, node, 1 - i))) {
            return true;
        }
    }
    return false;
}

/* Both operands as rows of floats. */
static enum base_status rows_of_floats(struct cell__import *im, struct cell__node *node,
                                       uint32_t rows[2], struct cell_value *value)
{
    const struct cell__shape *shape = &cell__output(im, node, 0)->shape;
    bool is_exact = false;
    *value = (struct cell_value){CELL_F32, 1};
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__value *given = cell__input(im, node, i);
        if (given->kind == CELL__CONST) {
            BASE_TRY(constant_row(im, given, shape, &rows[i]));
            const uint32_t own = im->rows[rows[i]].value.width;
            value->width = own > value->width ? own : value->width;
            is_exact = true;
            continue;
        }
        uint32_t row = given->row;
        const uint32_t width = im->rows[given->row].value.width;
        is_exact = is_exact || cell__row_is_counted(im, given->row);
        value->width = width > value->width ? width : value->width;
        BASE_TRY(cell__row_in_pairs(im, given, shape, &row));
        BASE_TRY(cell__row_as_float(im, row, &rows[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t width = im->rows[rows[i]].value.width;
        is_exact = is_exact && (width == 1 || width == value->width);
    }
    return is_exact && !is_rough(im, node)
               ? BASE_OK
               : cell__refuse(im, "of integers that depend on the request, of which neither "
                                  "is the number of a step");
}

enum base_status cell__lower_compared(struct cell__import *im, struct cell__node *node,
                                      enum cell_op_kind kind, bool is_turned)
{
    uint32_t rows[2] = {CELL__NONE, CELL__NONE};
    struct cell_value value;
    uint32_t row = CELL__NONE;
    BASE_TRY(rows_of_floats(im, node, rows, &value));
    const struct cell_op op = {.kind = kind,
                               .n_operands = 2,
                               .operands = {rows[is_turned ? 1 : 0], rows[is_turned ? 0 : 1]}};
    BASE_TRY(cell__row_op(im, &op, value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Equal -------------------------------------------------------------------------------- */

enum base_status cell__infer_same(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape out;
    if (cell__is_all_const(im, node)) {
        return cell__infer_equal(im, node);
    }
    if (cell__is_of_integers(im, node)) {
        return cell__infer_compared(im, node);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (cell__input(im, node, i)->dtype != CELL__F32) {
            return cell__refuse(im, "of %s values that depend on the request",
                                cell__dtype_name(cell__input(im, node, i)->dtype));
        }
    }
    BASE_TRY(cell__join_shapes(im, node, &out));
    cell__set_rows(im, node, 0, CELL__BOOL, &out);
    return BASE_OK;
}

/* 1 where both are equal, each at most the other, else 0: also where one is no number. */
static enum base_status row_of_same(struct cell__import *im, const uint32_t rows[2],
                                    struct cell_value value, uint32_t *out)
{
    struct cell_op op = {
        .kind = CELL_OP_LESS_EQUAL, .n_operands = 2, .operands = {rows[0], rows[1]}};
    uint32_t turned = CELL__NONE;
    BASE_TRY(cell__row_op(im, &op, value, out));
    op.operands[0] = rows[1];
    op.operands[1] = rows[0];
    BASE_TRY(cell__row_op(im, &op, value, &turned));
    return cell__row_pair(im, CELL_OP_MIN, *out, turned, out);
}

/* The truth of which input i is a Cast to integers, or NONE. */
static uint32_t truth_of(struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    const struct cell__value *value = cell__input(im, node, i);
    uint32_t row = value->kind == CELL__ROWS ? value->row : CELL__NONE;
    while (row != CELL__NONE && im->rows[row].kind == CELL__ROW_OP &&
           im->rows[row].op.kind == CELL_OP_CAST) {
        row = im->rows[row].op.operands[0];
    }
    return row != CELL__NONE && im->rows[row].kind == CELL__ROW_OP &&
                   im->rows[row].value.dtype == CELL_F32 && cell__row_is_truth(im, NULL, row)
               ? row
               : CELL__NONE;
}

/* x == 0 of a truth x is what it is not, and x == 1 is x: *out; NONE: it is something else. */
static enum base_status same_as_truth(struct cell__import *im, struct cell__node *node,
                                      uint32_t *out)
{
    *out = CELL__NONE;
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__value *other = cell__input(im, node, 1 - i);
        const uint32_t truth = truth_of(im, node, i);
        const struct cell__sym sym = other->kind == CELL__CONST && other->tensor.count == 1
                                         ? cell__tensor_sym(&other->tensor, 0)
                                         : (struct cell__sym){.add = -1};
        if (truth == CELL__NONE || !cell__sym_is_number(&sym) || (sym.add != 0 && sym.add != 1)) {
            continue;
        }
        struct cell_op op = {.kind = CELL_OP_SUB, .n_operands = 2, .operands = {0, truth}};
        *out = truth;
        if (sym.add == 0) {
            BASE_TRY(cell__row_number(im, 1.0f, &op.operands[0]));
            BASE_TRY(cell__row_op(im, &op, im->rows[truth].value, out));
        }
        return BASE_OK;
    }
    return BASE_OK;
}

enum base_status cell__lower_same(struct cell__import *im, struct cell__node *node)
{
    uint32_t rows[CELL__OPERANDS_MAX];
    struct cell_value value = {.dtype = CELL_F32};
    if (cell__is_of_integers(im, node)) {
        BASE_TRY(same_as_truth(im, node, &rows[0]));
        if (rows[0] != CELL__NONE) {
            cell__set_row(im, node, 0, rows[0]);
            return BASE_OK;
        }
        BASE_TRY(rows_of_floats(im, node, rows, &value));
    } else {
        BASE_TRY(cell__joined_rows(im, node, rows, &value.width));
    }
    uint32_t row = CELL__NONE;
    BASE_TRY(row_of_same(im, rows, value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__row_truth(struct cell__import *im, uint32_t row, uint32_t *out)
{
    const struct cell_value value = im->rows[row].value;
    uint32_t rows[2] = {row};
    uint32_t one = CELL__NONE;
    BASE_TRY(cell__row_number(im, 0.0f, &rows[1]));
    BASE_TRY(row_of_same(im, rows, value, out));
    BASE_TRY(cell__row_number(im, 1.0f, &one));
    const struct cell_op op = {.kind = CELL_OP_SUB, .n_operands = 2, .operands = {one, *out}};
    return cell__row_op(im, &op, value, out);
}
