/* Integers that a request holds, such as lengths, beside numbers of steps: `arange(T) >= T - n`,
 * `(n - 1).float()`. Those that are to be a step's number are followed as such (op_index.c); what
 * is compared with a step's number, or is a float in the end, is computed in floats, which are
 * exact as far as sequences are long: a larger integer stays one that is larger. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#define NEAR_MAX  (1 << 20) /* what is added to what a request holds */
#define EXACT_MAX (1 << 24) /* exact as floats below */

/* The row of a model's input as it came. */
static uint32_t input_row(const struct cell__import *im, uint32_t input)
{
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        if (row->kind == CELL__ROW_INPUT && row->index == input && row->part == 0 &&
            row->value.width == 1 && row->value.dtype != CELL_F32) {
            return r;
        }
    }
    return CELL__NONE;
}

/* A row of floats and a number. */
static enum base_status with_number(struct cell__import *im, enum cell_op_kind kind, float number,
                                    uint32_t *row)
{
    uint32_t other = CELL__NONE;
    BASE_TRY(cell__row_number(im, number, &other));
    return cell__row_pair(im, kind, *row, other, row);
}

/* Of an index that would be a step's number: what it is a sum of. */
static enum base_status row_of_index(struct cell__import *im, uint32_t index, uint32_t *out)
{
    const struct cell__row row = im->rows[index];
    struct cell_op cast = {
        .kind = CELL_OP_CAST, .n_operands = 1, .operands = {input_row(im, row.index)}};
    const bool is_near = row.offset >= -NEAR_MAX && row.offset <= NEAR_MAX &&
                         row.least <= NEAR_MAX && row.limits.most >= -NEAR_MAX &&
                         row.limits.most <= EXACT_MAX;
    if (!is_near || row.index == CELL__NONE || cast.operands[0] == CELL__NONE || row.stride != 0 ||
        row.part != 0 || row.is_counted || row.is_from_end || row.told.over > 1 ||
        row.limits.below != 0) {
        return cell__refuse(im, "computes with integers that depend on the request, but for an "
                                "input, plus or minus a number");
    }
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, out));
    BASE_TRY(row.offset == 0 ? BASE_OK : with_number(im, CELL_OP_ADD, (float)row.offset, out));
    BASE_TRY(row.is_cut ? with_number(im, CELL_OP_MAX, 0.0f, out) : BASE_OK);
    BASE_TRY(row.least == 0 ? BASE_OK : with_number(im, CELL_OP_ADD, (float)row.least, out));
    return row.limits.has_most ? with_number(im, CELL_OP_MIN, (float)row.limits.most, out)
                               : BASE_OK;
}

enum base_status cell__row_as_float(struct cell__import *im, uint32_t row, uint32_t *out)
{
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {row}};
    const uint32_t index = cell__row_uncast(im, row);
    if (im->rows[index].kind == CELL__ROW_INDEX) {
        return row_of_index(im, index, out);
    }
    return cell__row_op(im, &cast, (struct cell_value){CELL_F32, im->rows[row].value.width}, out);
}

bool cell__row_is_rounded(const struct cell__import *im, uint32_t row)
{
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_CAST &&
           im->rows[row].value.dtype != CELL_F32 && !im->rows[row].is_rounded) {
        row = im->rows[row].op.operands[0];
    }
    return im->rows[row].is_rounded;
}

/* Whether a value is one integer of each row of the batch, and which row that is. */
static bool is_of_request(const struct cell__import *im, const struct cell__value *value)
{
    if (value->kind != CELL__ROWS || im->rows[value->row].times != 0 ||
        im->rows[value->row].value.width != 1) {
        return false;
    }
    const struct cell__row *row = &im->rows[cell__row_uncast(im, value->row)];
    return row->kind == CELL__ROW_INPUT || row->kind == CELL__ROW_INDEX ||
           cell__row_is_rounded(im, value->row);
}

enum base_status cell__row_with_size(struct cell__import *im,
                                     const struct cell__value *const pair[2], bool is_sum,
                                     uint32_t *out)
{
    const uint32_t at = pair[0]->kind == CELL__CONST ? 1 : 0;
    const struct cell__value *size = pair[1 - at];
    uint32_t rows[2] = {CELL__NONE, CELL__NONE};
    *out = CELL__NONE;
    if (im->scan != CELL__NONE || im->feeds_back || im->is_part || size->kind != CELL__CONST ||
        size->dtype == CELL__F32 || size->tensor.count != 1 || !is_of_request(im, pair[at])) {
        return BASE_OK;
    }
    struct cell__value count = {.kind = CELL__COUNTER, .dtype = CELL__F32};
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    count.count = cell__tensor_sym(&size->tensor, 0);
    if (cell__sym_is_number(&count.count) &&
        (!cell__row_is_rounded(im, pair[at]->row) || count.count.add > NEAR_MAX ||
         count.count.add < -NEAR_MAX)) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_as_float(im, pair[at]->row, &rows[at]));
    BASE_TRY(cell__row_of_count(im, &count, &rows[1 - at]));
    BASE_TRY(cell__row_pair(im, is_sum ? CELL_OP_ADD : CELL_OP_SUB, rows[0], rows[1],
                            &cast.operands[0]));
    BASE_TRY(cell__row_op(im, &cast, im->rows[pair[at]->row].value, out));
    im->rows[*out].is_rounded = true;
    return BASE_OK;
}
