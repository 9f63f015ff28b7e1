/* Trilu: a triangle of a matrix. Of one with a row and a column for each step of a sequence, as
 * causal masks are made of, it is a value for each pair of steps, of which band.c knows. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* The number of the diagonal from which on, or up to which, elements stay. */
static enum base_status read_diagonal(struct cell__import *im, const struct cell__node *node,
                                      bool *is_upper, int64_t *out)
{
    int64_t upper = 1;
    struct cell__list list = {.n = 0};
    *out = 0;
    BASE_TRY(cell__attr_int(im, node, "upper", 1, &upper));
    if (cell__has_input(node, 1)) {
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, 1), "the diagonal", &list));
        if (list.n != 1 || list.at[0] < -(int64_t)CELL_WIDTH_MAX ||
            list.at[0] > (int64_t)CELL_WIDTH_MAX) {
            return cell__refuse(im, "a diagonal that is not one number of at most %u",
                                CELL_WIDTH_MAX);
        }
        *out = list.at[0];
    }
    *is_upper = upper != 0;
    return BASE_OK;
}

/* The matrices of a constant. */
static enum base_status fold(struct cell__import *im, const struct cell__node *node, bool is_upper,
                             int64_t diagonal)
{
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    const size_t bytes = cell__dtype_bytes(in->dtype);
    const int64_t rows = in->dims[in->rank - 2];
    const int64_t cols = in->dims[in->rank - 1];
    struct cell__tensor out = {.dtype = in->dtype};
    void *data = NULL;
    struct cell__sym *none = NULL;
    if (in->syms != NULL) {
        return cell__refuse(im, "of numbers that depend on the batch or time axis");
    }
    BASE_TRY(cell__tensor_shape(im, &out, in->rank, in->dims));
    BASE_TRY(cell__tensor_alloc(im, &out, false, &data, &none));
    for (size_t i = 0; i < out.count; i++) {
        const int64_t row = (int64_t)i / cols % rows;
        const int64_t col = (int64_t)i % cols;
        char *to = (char *)data + i * bytes;
        if (is_upper ? col >= row + diagonal : col <= row + diagonal) {
            memcpy(to, (const char *)in->data + i * bytes, bytes);
        } else {
            memset(to, 0, bytes);
        }
    }
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_trilu(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    bool is_upper = false;
    int64_t diagonal = 0;
    const uint32_t rank = in->kind == CELL__CONST ? in->tensor.rank : in->shape.rank;
    BASE_TRY(read_diagonal(im, node, &is_upper, &diagonal));
    if (rank < 2) {
        return cell__invalid(im, "of a tensor of rank %u", rank);
    }
    if (in->kind == CELL__CONST) {
        return fold(im, node, is_upper, diagonal);
    }
    if (in->dtype != CELL__F32 && in->dtype != CELL__BOOL) {
        return cell__refuse(im, "of %s values that depend on the request",
                            cell__dtype_name(in->dtype));
    }
    cell__set_rows(im, node, 0, in->dtype, &in->shape);
    return BASE_OK;
}

/* The numbers of an axis' steps, as floats. */
static enum base_status number_of(struct cell__import *im, const struct cell__axis *axis,
                                  uint32_t *row)
{
    const uint32_t times = cell__axis_times(im, axis);
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    if (times == 0 || cell__is_pair(times) || im->scan != CELL__NONE || im->feeds_back) {
        return cell__refuse(im, "of a matrix that has not a row and a column for each step");
    }
    BASE_TRY(cell__row_number_of_step(im, cell__only_sequence(times), &cast.operands[0]));
    return cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, row);
}

enum base_status cell__lower_trilu(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__axis *axes = &in->shape.axes[in->shape.rank - 2];
    struct cell_op keeps = {.kind = CELL_OP_LESS_EQUAL, .n_operands = 2};
    struct cell_op select = {.kind = CELL_OP_SELECT, .n_operands = 3};
    uint32_t numbers[2] = {CELL__NONE, CELL__NONE};
    uint32_t add = CELL__NONE;
    bool is_upper = false;
    int64_t diagonal = 0;
    uint32_t row = CELL__NONE;
    BASE_TRY(read_diagonal(im, node, &is_upper, &diagonal));
    BASE_TRY(number_of(im, &axes[0], &numbers[0]));
    BASE_TRY(number_of(im, &axes[1], &numbers[1]));
    BASE_TRY(cell__row_number(im, (float)diagonal, &add));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, numbers[0], add, &numbers[0]));
    keeps.operands[0] = numbers[is_upper ? 0 : 1];
    keeps.operands[1] = numbers[is_upper ? 1 : 0];
    BASE_TRY(cell__row_op(im, &keeps, (struct cell_value){CELL_F32, 1}, &select.operands[0]));
    select.operands[1] = in->row;
    BASE_TRY(cell__row_number(im, 0.0f, &select.operands[2]));
    BASE_TRY(cell__row_op(im, &select, im->rows[in->row].value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
