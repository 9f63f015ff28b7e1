/* See step_number.h. Whoever counts steps, or takes one by its number, sees a COUNTER (op_count.c)
 * and nothing is computed. Where an operator of a body refuses that, it gets an integer or a float
 * that each step has: the number of the step in its sequence, which a cell may read as it reads an
 * element (op_position.c). A Loop that takes its sequences from their end runs the other way, and
 * counts from there. */
#include "cells/import/step_number.h"

#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"
#include "base/checked.h"

/* ---- While nodes are read ----------------------------------------------------------------- */

/* The same for each row of the batch, and of as many axes as it would have. */
static enum base_status number_value(struct cell__import *im, uint32_t counter, uint32_t *out)
{
    const struct cell__tensor none = {.dtype = im->values[counter].dtype};
    BASE_TRY(cell__value_constant(im, im->values[counter].name, &none, out));
    const struct cell__value *from = &im->values[counter];
    struct cell__value *value = &im->values[*out];
    value->kind = CELL__ROWS;
    value->shape = from->shape;
    value->number_of = 1 + counter;
    return BASE_OK;
}

enum base_status cell__number_inputs(struct cell__import *im, struct cell__node *node, bool *is_any)
{
    *is_any = false;
    for (uint32_t i = 0; i < node->n_inputs && node->scan != CELL__NONE; i++) {
        if (cell__has_input(node, i) && cell__input(im, node, i)->kind == CELL__COUNTER) {
            BASE_TRY(number_value(im, node->inputs[i], &node->inputs[i]));
            *is_any = true;
        }
    }
    return BASE_OK;
}

/* ---- One step, and its axis --------------------------------------------------------------- */

/* Operand i, where it is one integer: a COUNTER, or a constant as such. */
static bool read_count(struct cell__writer *w, size_t i, struct cell__value *out)
{
    uint32_t v = 0;
    if (cell__value_named(w->im, w->proto->input[i], &v) != BASE_OK) {
        return false;
    }
    *out = w->im->values[v];
    if (out->kind == CELL__CONST && out->dtype == CELL__I64 && out->tensor.count == 1) {
        out->count = cell__tensor_sym(&out->tensor, 0);
        out->steps = 0;
        return true;
    }
    return out->kind == CELL__COUNTER && out->dtype == CELL__I64;
}

enum base_status cell__write_step_slice(struct cell__writer *w)
{
    const struct cell__sym one = cell__sym_number(1);
    const int64_t first = 0;
    struct cell__value at[4]; // starts, ends, axes, steps
    struct cell__sym end;
    Onnx__NodeProto *gather = NULL;
    const char *number = NULL;
    bool is_read = true;
    at[3] = (struct cell__value){.count = one};
    for (size_t i = 0; i < 4 && is_read; i++) {
        is_read = cell__writer_has(w, i + 1) ? read_count(w, i + 1, &at[i]) : i == 3;
    }
    if (!is_read || at[0].steps == 0 || at[1].steps != at[0].steps || at[2].steps != 0 ||
        at[3].steps != 0 || !cell__sym_is_number(&at[2].count) ||
        cell__sym_equal(w->im, &at[3].count, &one) != 1 ||
        !cell__sym_compute(w->im, '+', &at[0].count, &one, &end) ||
        cell__sym_equal(w->im, &at[1].count, &end) != 1) {
        return cell__unwritten(w, "of more than one step of a body, or of another than its own");
    }
    // -1 less the step's number ends at 0, which is no element, at the first step.
    if (at[0].steps < 0 && cell__sym_is_number(&at[0].count)) {
        return cell__unwritten(w, "to an end that is counted from the last step on");
    }
    const int64_t axis = at[2].count.add;
    BASE_TRY(cell__write_axes(w, "Squeeze", w->proto->input[1], &first, 1, &number));
    BASE_TRY(cell__build_node(w->builder, "Gather",
                              (const char *[]){w->proto->input[0], number, NULL}, 1, &gather));
    BASE_TRY(cell__build_set_int(w->builder, gather, "axis", axis));
    return cell__write_axes(w, "Unsqueeze", gather->output[0], &axis, 1, &w->out);
}

/* ---- When they are lowered ---------------------------------------------------------------- */

/* What is added to the number of the step in its sequence, times *sign. */
static enum base_status read_sum(struct cell__import *im, const struct cell__recurrent *loop,
                                 const struct cell__value *counter, int32_t *sign,
                                 struct cell__sym *add)
{
    const struct cell__sym one = cell__sym_number(1);
    struct cell__sym last = cell__sym_of_axis(im, &loop->time);
    *sign = loop->is_reverse ? -counter->steps : counter->steps;
    *add = counter->count;
    if (!loop->is_reverse || counter->steps == 0) {
        return BASE_OK;
    }
    const struct cell__sym count = counter->count;
    return cell__sym_compute(im, '-', &last, &one, &last) &&
                   cell__sym_compute(im, counter->steps > 0 ? '+' : '-', &count, &last, add)
               ? BASE_OK
               : cell__refuse(im, "computes with the number of the step from the end");
}

/* The number as a float: exact, since sequences are shorter than 2^24. */
static enum base_status row_of_sum(struct cell__import *im, const struct cell__recurrent *loop,
                                   int32_t sign, const struct cell__sym *add, uint32_t *out)
{
    const struct cell__value count = {.kind = CELL__COUNTER, .dtype = CELL__F32, .count = *add};
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    const uint32_t scan = im->scan;
    uint32_t row = CELL__NONE;
    im->scan = CELL__NONE; // it is no step's
    enum base_status status = cell__row_of_count(im, &count, out);
    im->scan = scan;
    BASE_TRY(status);
    if (sign == 0) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_number_of_step(im, loop->sequence, &cast.operands[0]));
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, &row));
    const bool is_alone = cell__sym_is_number(add) && add->add == 0;
    if (sign < 0) {
        return cell__row_pair(im, CELL_OP_SUB, *out, row, out);
    }
    if (is_alone) {
        *out = row;
        return BASE_OK;
    }
    return cell__row_pair(im, CELL_OP_ADD, row, *out, out);
}

/* Whether it is not the last step: 1 or 0. */
static enum base_status lower_until_last(struct cell__import *im,
                                         const struct cell__recurrent *loop, uint32_t *out)
{
    const struct cell__value number = {.steps = 1, .count = cell__sym_number(0)};
    const struct cell__sym steps = cell__sym_of_axis(im, &loop->time);
    const struct cell__sym one = cell__sym_number(1);
    struct cell__sym last;
    struct cell__sym add;
    int32_t sign = 0;
    uint32_t end = CELL__NONE;
    BASE_TRY(read_sum(im, loop, &number, &sign, &add));
    BASE_TRY(row_of_sum(im, loop, sign, &add, out));
    if (!cell__sym_compute(im, '-', &steps, &one, &last)) {
        return cell__refuse(im, "computes with the number of the last step");
    }
    BASE_TRY(row_of_sum(im, loop, 0, &last, &end));
    return cell__row_pair(im, CELL_OP_LESS, *out, end, out);
}

static enum base_status lower_number(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__value *counter, uint32_t *out)
{
    const struct cell__recurrent *loop = &im->recurrents[node->scan];
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    struct cell_value value = {.width = 1};
    struct cell__sym add;
    int32_t sign = 0;
    if (counter->dtype == CELL__BOOL) {
        return lower_until_last(im, loop, out);
    }
    BASE_TRY(cell__row_dtype(im, counter->dtype, &value.dtype));
    BASE_TRY(read_sum(im, loop, counter, &sign, &add));
    if (value.dtype == CELL_I64 && sign == 1 && cell__sym_is_number(&add) && add.add == 0) {
        return cell__row_number_of_step(im, loop->sequence, out); // as it is
    }
    BASE_TRY(row_of_sum(im, loop, sign, &add, out));
    if (value.dtype != CELL_F32) {
        cast.operands[0] = *out;
        BASE_TRY(cell__row_op(im, &cast, value, out));
        im->rows[*out].is_counted = true;
    }
    return BASE_OK;
}

enum base_status cell__lower_number_inputs(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t v = node->inputs[i];
        if (v == CELL__NONE || im->values[v].number_of == 0) {
            continue;
        }
        const struct cell__value *counter = &im->values[im->values[v].number_of - 1];
        base_assert(node->scan != CELL__NONE);
        BASE_TRY(lower_number(im, node, counter, &im->values[v].row));
    }
    return BASE_OK;
}
