/* Integers that are computed of the numbers of steps: of one step, what a floating-point number
 * holds exactly, whole parts of it too (op_whole.c); of pairs of steps, whatever relative.h
 * computes when the model is loaded. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <math.h>
#include <string.h>

#define NUMBER_MAX (1 << 24) /* exact as floats below */
#define ADDED_MAX  4096.0f   /* to numbers of chunks that are multiplied */

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
                            "smallest, whole part, or, of pairs of steps, product or choice");
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

/* ---- Whole parts ---------------------------------------------------------------------------- */

/* A constant row's number, or 0. */
static float number_of(const struct cell__import *im, uint32_t row)
{
    const float number = cell__row_same(im, row);
    return isnan(number) ? 0.0f : number;
}

/* What a row is a Cast of, or another name for. */
static uint32_t uncast(const struct cell__import *im, uint32_t row)
{
    while (im->rows[row].kind == CELL__ROW_OP &&
           (im->rows[row].op.kind == CELL_OP_CAST || im->rows[row].op.kind == CELL_OP_COPY)) {
        row = im->rows[row].op.operands[0];
    }
    return row;
}

/* A number of a step, or of one behind it. */
static bool is_not_negative(const struct cell__import *im, uint32_t row)
{
    row = uncast(im, row);
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_ADD &&
           number_of(im, im->rows[row].op.operands[1]) > 0.0f) {
        row = uncast(im, im->rows[row].op.operands[0]);
    }
    return im->rows[row].kind == CELL__ROW_NUMBER;
}

enum base_status cell__row_chunk(struct cell__import *im, uint32_t number, int64_t n, uint32_t *out)
{
    struct cell_op floor = {.kind = CELL_OP_FLOOR, .n_operands = 1};
    BASE_TRY(cell__row_number(im, (float)n, out));
    BASE_TRY(cell__row_pair(im, CELL_OP_DIV, number, *out, &floor.operands[0]));
    return cell__row_op(im, &floor, (struct cell_value){CELL_F32, 1}, out);
}

enum base_status cell__row_whole(struct cell__import *im, uint32_t row, int64_t n, uint32_t *out)
{
    const struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {row}};
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    if (n < 1 || n > NUMBER_MAX || !is_not_negative(im, row)) {
        return refuse(im);
    }
    *out = row;
    if (im->rows[row].value.dtype != CELL_F32) {
        BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, out));
    }
    BASE_TRY(cell__row_chunk(im, *out, n, &copy.operands[0]));
    return counted(im, &copy, out);
}

bool cell__row_is_whole(const struct cell__import *im, uint32_t row, struct cell__whole *out)
{
    const struct cell__row *at = &im->rows[uncast(im, row)];
    const uint32_t of =
        at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_FLOOR ? at->op.operands[0] : CELL__NONE;
    if (of == CELL__NONE || im->rows[of].op.kind != CELL_OP_DIV) {
        return false;
    }
    const struct cell_op *div = &im->rows[of].op;
    const struct cell__row *number = &im->rows[uncast(im, div->operands[0])];
    *out = (struct cell__whole){.sequence = number->index,
                                .n = (int64_t)number_of(im, div->operands[1])};
    return number->kind == CELL__ROW_NUMBER && out->n >= 1;
}

/* How many steps there are in each of what a row is the number of: FLOOR(x / n), plus or minus
 * some; 0: it is no such number. */
static float size_of_whole(const struct cell__import *im, uint32_t row)
{
    row = uncast(im, row);
    while (im->rows[row].kind == CELL__ROW_OP &&
           (im->rows[row].op.kind == CELL_OP_ADD || im->rows[row].op.kind == CELL_OP_SUB) &&
           fabsf(number_of(im, im->rows[row].op.operands[1])) < ADDED_MAX) {
        row = uncast(im, im->rows[row].op.operands[0]);
    }
    const struct cell__row *floor = &im->rows[row];
    const uint32_t div = floor->op.operands[0];
    return floor->kind == CELL__ROW_OP && floor->op.kind == CELL_OP_FLOOR &&
                   im->rows[div].op.kind == CELL_OP_DIV
               ? number_of(im, im->rows[div].op.operands[1])
               : 0.0f;
}

/* Whether a product is of the number of a chunk, and not more than what that has of steps: then it
 * is as exact as these. */
static bool is_of_chunks(const struct cell__import *im, const struct cell_op *op)
{
    bool is = false;
    for (uint32_t i = 0; op->kind == CELL_OP_MUL && i < 2; i++) {
        const float by = number_of(im, op->operands[1 - i]);
        is = is || (by >= 1.0f && by <= size_of_whole(im, op->operands[i]));
    }
    return is;
}

/* Of a sum whose other operand is zero, such as torch.full() of a number: the number's row. */
static uint32_t sum_with_zero(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < 2 && node->n_inputs == 2 && strcmp(node->op->name, "Add") == 0; i++) {
        const struct cell__value *zero = cell__input(im, node, i);
        const struct cell__value *other = cell__input(im, node, 1 - i);
        if (zero->kind == CELL__ROWS && other->kind == CELL__ROWS &&
            cell__row_is_zero(im, zero->row) && im->rows[other->row].value.dtype == CELL_I64 &&
            !cell__is_pair(im->rows[other->row].times)) {
            return other->row;
        }
    }
    return CELL__NONE;
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
    const bool is_right =
        !kinds[k].is_of_pairs || is_of_pairs(&im->rows[*out]) || is_of_chunks(im, &op);
    return is_right ? BASE_OK : refuse(im);
}

/* ---- Mod, Div ----------------------------------------------------------------------------- */

/* Constants by which numbers of steps are divided, as floats; *only: of them all, if they are one,
 * else 0. */
static enum base_status divisors(struct cell__import *im, const struct cell__node *node,
                                 uint32_t *row, int64_t *only)
{
    const struct cell__value *by = cell__input(im, node, 1);
    struct cell__value floats = {.kind = CELL__CONST, .dtype = CELL__F32};
    const uint32_t number = cell__input(im, node, 0)->row;
    if (by->kind != CELL__CONST || by->dtype != CELL__I64 || by->tensor.count == 0 ||
        im->rows[number].value.width != 1 || !cell__row_is_counted(im, number)) {
        return refuse(im);
    }
    *only = cell__tensor_sym(&by->tensor, 0).add;
    for (size_t i = 0; i < by->tensor.count; i++) {
        const struct cell__sym sym = cell__tensor_sym(&by->tensor, i);
        if (!cell__sym_is_number(&sym) || sym.add == 0 || sym.add < -NUMBER_MAX ||
            sym.add > NUMBER_MAX) {
            return refuse(im);
        }
        *only = sym.add == *only ? sym.add : 0;
    }
    BASE_TRY(cell__fold_cast(im, &by->tensor, CELL__F32, &floats.tensor));
    return cell__row_of(im, &floats, &cell__output(im, node, 0)->shape, true, row);
}

/* Both as floats, and what comes of one divided by the other. A quotient of integers below 2^24
 * that is no integer is not rounded to one: it is farther from it than half of what two floats
 * there differ by. */
static enum base_status divide(struct cell__import *im, const struct cell__node *node,
                               uint32_t floats[2], uint32_t *out, int64_t *only)
{
    struct cell_op op = {.kind = CELL_OP_DIV, .n_operands = 2};
    BASE_TRY(divisors(im, node, &floats[1], only));
    BASE_TRY(float_of(im, node, 0, &floats[0]));
    op.operands[0] = floats[0];
    op.operands[1] = floats[1];
    return cell__row_op(im, &op, im->rows[floats[1]].value, out);
}

/* Floats that are integers, as what a node makes. */
static enum base_status set_counted(struct cell__import *im, const struct cell__node *node,
                                    uint32_t floats, uint32_t below)
{
    const uint32_t width = im->rows[floats].value.width;
    const struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {floats}};
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_I64, width}, &row));
    im->rows[row].is_counted = true;
    im->rows[row].counts_below = width == 1 ? below : 0;
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* a - floor(a / b) * b: of the sign of b, as ONNX has it of integers. */
enum base_status cell__lower_mod(struct cell__import *im, struct cell__node *node)
{
    uint32_t floats[2] = {CELL__NONE, CELL__NONE};
    struct cell_op op = {.kind = CELL_OP_FLOOR, .n_operands = 1};
    uint32_t row = CELL__NONE;
    int64_t only = 0;
    BASE_TRY(divide(im, node, floats, &op.operands[0], &only));
    const struct cell_value value = im->rows[floats[1]].value;
    BASE_TRY(cell__row_op(im, &op, value, &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, row, floats[1], &row));
    op = (struct cell_op){.kind = CELL_OP_SUB, .n_operands = 2, .operands = {floats[0], row}};
    BASE_TRY(cell__row_op(im, &op, value, &row));
    return set_counted(im, node, row, only > 0 ? (uint32_t)only : 0);
}

/* Towards 0, as a cast to an integer is: of what is not below 0 the whole part. */
static enum base_status lower_div(struct cell__import *im, const struct cell__node *node)
{
    uint32_t floats[2] = {CELL__NONE, CELL__NONE};
    uint32_t row = CELL__NONE;
    int64_t only = 0;
    BASE_TRY(divide(im, node, floats, &row, &only));
    if (only < 1 || im->rows[row].value.width != 1 || !is_not_negative(im, floats[0])) {
        return set_counted(im, node, row, 0);
    }
    BASE_TRY(cell__row_whole(im, floats[0], only, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__lower_numbers(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = CELL__NONE;
    if (strcmp(node->op->name, "Div") == 0) {
        return lower_div(im, node);
    }
    if (strcmp(node->op->name, "Clip") == 0) {
        BASE_TRY(lower_clip(im, node, &row));
    } else {
        row = sum_with_zero(im, node);
        BASE_TRY(row == CELL__NONE ? lower_op(im, node, &row) : BASE_OK);
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
