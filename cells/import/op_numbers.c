/* Integers that are computed of the numbers of steps: of one step, what a floating-point number
 * holds exactly; of pairs of steps, whatever relative.h computes when the model is loaded. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

#define NUMBER_MAX (1 << 24) /* exact as floats below */

bool cell__row_is_counted(const struct cell__import *im, uint32_t row)
{
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_CAST &&
           !im->rows[row].is_counted) {
        row = im->rows[row].op.operands[0];
    }
    return im->rows[row].kind == CELL__ROW_NUMBER || im->rows[row].is_counted;
}

static bool is_of_pairs(const struct cell__row *row)
{
    return row->is_numbers && cell__is_pair(row->times);
}

bool cell__is_of_numbers(struct cell__import *im, const struct cell__node *node)
{
    bool is_any = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value =
            cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        if (value == NULL || value->kind == CELL__CONST) {
            continue;
        }
        const struct cell__row *row = value->kind == CELL__ROWS ? &im->rows[value->row] : NULL;
        const bool is_const = row != NULL && row->kind == CELL__ROW_CONST; // repeated
        if (row == NULL || row->value.width != 1 ||
            (!is_const && !cell__row_is_counted(im, value->row) && !is_of_pairs(row))) {
            return false;
        }
        is_any = is_any || !is_const;
    }
    return is_any;
}

static enum base_status refuse(struct cell__import *im)
{
    return cell__refuse(im, "computes with numbers of steps what is no sum, difference, largest or "
                            "smallest, or, of pairs of steps, product or choice");
}

/* Input i as a float, as the result wants it. */
static enum base_status float_of(struct cell__import *im, const struct cell__node *node, uint32_t i,
                                 uint32_t *row)
{
    const struct cell__value *value = cell__input(im, node, i);
    const struct cell__shape *out = &cell__output(im, node, 0)->shape;
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {value->row}};
    if (value->kind == CELL__CONST) {
        if (value->dtype == CELL__F32 || value->tensor.count != 1) {
            return refuse(im);
        }
        const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
        const bool is_small = sym.add >= -NUMBER_MAX && sym.add <= NUMBER_MAX;
        return cell__sym_is_number(&sym) && is_small ? cell__row_number(im, (float)sym.add, row)
                                                     : refuse(im);
    }
    BASE_TRY(cell__row_in_pairs(im, value, out, &cast.operands[0]));
    *row = cast.operands[0];
    return im->rows[*row].value.dtype == CELL_F32
               ? BASE_OK
               : cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, row);
}

/* What floats have come to, as integers again. */
static enum base_status counted(struct cell__import *im, const struct cell_op *op, uint32_t *out)
{
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    BASE_TRY(cell__row_op(im, op, (struct cell_value){CELL_F32, 1}, &cast.operands[0]));
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_I64, 1}, out));
    im->rows[*out].is_counted = true;
    return BASE_OK;
}

enum base_status cell__row_count_from(struct cell__import *im, int64_t first, uint32_t *row)
{
    const struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {*row}};
    struct cell_op add = {.kind = CELL_OP_ADD, .n_operands = 2};
    if (first == 0) {
        return BASE_OK;
    }
    if (first < -NUMBER_MAX || first > NUMBER_MAX) {
        return refuse(im);
    }
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, &add.operands[0]));
    BASE_TRY(cell__row_number(im, (float)first, &add.operands[1]));
    return counted(im, &add, row);
}

/* No less than input 1, and no more than input 2. */
static enum base_status lower_clip(struct cell__import *im, const struct cell__node *node,
                                   uint32_t *out)
{
    struct cell_op op = {.kind = CELL_OP_MAX, .n_operands = 2};
    BASE_TRY(float_of(im, node, 0, out));
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        if (cell__has_input(node, i)) {
            op.kind = i == 1 ? CELL_OP_MAX : CELL_OP_MIN;
            op.operands[0] = *out;
            BASE_TRY(float_of(im, node, i, &op.operands[1]));
            BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, 1}, out));
        }
    }
    const struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {*out}};
    return counted(im, &copy, out);
}

static enum base_status lower_op(struct cell__import *im, const struct cell__node *node,
                                 uint32_t *out)
{
    static const struct {
        const char *name;
        enum cell_op_kind kind;
        uint32_t operands;
        bool is_of_pairs; /* alone: what it makes may be large */
    } kinds[] = {{"Add", CELL_OP_ADD, 2, false}, {"Sub", CELL_OP_SUB, 2, false},
                 {"Max", CELL_OP_MAX, 2, false}, {"Min", CELL_OP_MIN, 2, false},
                 {"Abs", CELL_OP_ABS, 1, false}, {"Neg", CELL_OP_MUL, 1, false},
                 {"Mul", CELL_OP_MUL, 2, true},  {"Where", CELL_OP_SELECT, 3, true}};
    struct cell_op op = {.n_operands = node->n_inputs};
    size_t k = 0;
    while (k < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[k].name, node->op->name) != 0) {
        k++;
    }
    if (k == sizeof(kinds) / sizeof(kinds[0]) || node->n_inputs != kinds[k].operands) {
        return refuse(im);
    }
    op.kind = kinds[k].kind;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        BASE_TRY(float_of(im, node, i, &op.operands[i]));
    }
    if (node->n_inputs == 1 && op.kind == CELL_OP_MUL) {
        BASE_TRY(cell__row_number(im, -1.0f, &op.operands[op.n_operands++]));
    }
    BASE_TRY(counted(im, &op, out));
    return kinds[k].is_of_pairs && !is_of_pairs(&im->rows[*out]) ? refuse(im) : BASE_OK;
}

enum base_status cell__lower_numbers(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = CELL__NONE;
    if (strcmp(node->op->name, "Clip") == 0) {
        BASE_TRY(lower_clip(im, node, &row));
    } else {
        BASE_TRY(lower_op(im, node, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
