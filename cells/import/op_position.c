/* Tables of positions, of which each step takes the row of its own number: a learned embedding of
 * torch.arange(steps), or of the first of such numbers in the file, or the first steps of a
 * constant, as sines and cosines are added (Vaswani et al. 2017, section 3.5). A request may have
 * as many steps as the table has rows: struct cell_sequence. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* Elements of a constant's axes from..end-1. */
static int64_t elements(const struct cell__tensor *tensor, uint32_t from, uint32_t end)
{
    int64_t count = 1;
    for (uint32_t k = from; k < end; k++) {
        count *= tensor->dims[k];
    }
    return count;
}

enum base_status cell__row_lookup(struct cell__import *im, const struct cell__table *table,
                                  uint32_t index, uint32_t *out)
{
    const uint32_t ids = im->rows[index].value.width;
    struct cell_value value = {.width = (uint32_t)table->width * ids};
    BASE_TRY(cell__row_dtype(im, table->dtype, &value.dtype));
    if (table->width < 1 || table->width > CELL_WIDTH_MAX / ids || table->rows > INT32_MAX) {
        return cell__refuse(im, "a table of %lld rows of %lld, for %u ids a row",
                            (long long)table->rows, (long long)table->width, ids);
    }
    struct cell_op op = {.kind = CELL_OP_GATHER,
                         .n_operands = 1,
                         .operands = {index},
                         .n_weights = 1,
                         .patches = ids > 1 ? ids : 0};
    op.weights[0] = (struct cell_weight){value.dtype, (uint32_t)table->rows, (uint32_t)table->width,
                                         table->data};
    return cell__row_op(im, &op, value, out);
}

uint32_t cell__positions_axis(const struct cell__import *im, const struct cell__node *node,
                              uint32_t rank, struct cell__axis *steps)
{
    int64_t bounds[4] = {0, 0, 0, 1}; // starts, -, axes, steps
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        const struct cell__value *value =
            cell__has_input(node, i) ? &im->values[node->inputs[i]] : NULL;
        if (value == NULL) {
            continue;
        }
        if (i > 4 || value->kind != CELL__CONST || value->tensor.count != 1 ||
            (value->dtype != CELL__I64 && value->dtype != CELL__I32)) {
            return CELL__NONE;
        }
        const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
        if (i == 2 && sym.factor == 1 && sym.add == 0 && sym.axis.n == 1) {
            *steps = sym.axis;
        } else if (i == 2 || !cell__sym_is_number(&sym)) {
            return CELL__NONE;
        } else {
            bounds[i - 1] = sym.add;
        }
    }
    const int64_t axis = bounds[2] < 0 ? bounds[2] + rank : bounds[2];
    return bounds[0] == 0 && bounds[3] == 1 && axis >= 0 && axis < (int64_t)rank ? (uint32_t)axis
                                                                                 : CELL__NONE;
}

static uint32_t positions_axis(struct cell__import *im, const struct cell__node *node,
                               struct cell__axis *steps)
{
    return cell__positions_axis(im, node, cell__input(im, node, 0)->tensor.rank, steps);
}

bool cell__is_positions(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__axis steps;
    return im->opset >= 10 && node->n_inputs >= 3 && cell__has_input(node, 2) &&
           in->kind == CELL__CONST && in->tensor.syms == NULL &&
           positions_axis(im, node, &steps) != CELL__NONE;
}

/* 0, 1, 2 and so on. */
static bool are_numbers(const struct cell__tensor *tensor)
{
    bool are = tensor->dtype == CELL__I64;
    for (size_t i = 0; are && i < tensor->count; i++) {
        are = ((const int64_t *)tensor->data)[i] == (int64_t)i;
    }
    return are;
}

enum base_status cell__infer_positions(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__shape shape;
    struct cell__axis steps;
    const uint32_t axis = positions_axis(im, node, &steps);
    BASE_TRY(cell__shape_of(im, in, &shape));
    const bool is_table =
        in->dtype == CELL__F32 && elements(&in->tensor, 0, axis) == 1; // or their own numbers
    if (!is_table &&
        (!are_numbers(&in->tensor) || in->tensor.dims[axis] != (int64_t)in->tensor.count)) {
        return cell__refuse(im,
                            "a range that depends on the request, but of a constant that has one "
                            "row of floats for each step");
    }
    shape.axes[axis] = steps;
    cell__set_rows(im, node, 0, in->dtype, &shape);
    return BASE_OK;
}

enum base_status cell__lower_positions(struct cell__import *im, struct cell__node *node)
{
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    struct cell__axis steps;
    const uint32_t axis = positions_axis(im, node, &steps);
    const uint32_t times = cell__axis_times(im, &steps);
    const struct cell__table table = {.dtype = in->dtype,
                                      .rows = in->dims[axis],
                                      .width = elements(in, axis + 1, in->rank),
                                      .data = in->data};
    uint32_t row = CELL__NONE;
    if (times == 0 || im->scan != CELL__NONE || im->feeds_back) {
        return cell__refuse(im, "a range that depends on the request, and no steps of a recurrent "
                                "node");
    }
    const uint32_t sequence = cell__only_sequence(times);
    BASE_TRY(cell__row_number_of_step(im, sequence, &row));
    if (in->dtype == CELL__F32) {
        BASE_TRY(cell__row_lookup(im, &table, row, &row));
    } else { // what is looked up by them may have more rows
        const int64_t most = im->sequences[sequence].steps_max;
        im->sequences[sequence].steps_max =
            (uint32_t)(most == 0 || table.rows < most ? table.rows : most);
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
