/* Steps that the request tells by their number: `y[arange(batch), lengths - 1]` and
 * `y.gather(1, lengths - 1)`, as models of padded sequences take the last step that a row has.
 *
 * Integers of an input, to which a number is added, that may be cut off at 0, are followed as such
 * (CELL__ROW_INDEX) and computed by nobody: the scheduler reads the input when a request is
 * unfolded and takes the row of that step. Exporters write such an index as a list of pairs, a row
 * of the batch and its step, or as one number, the row's number times the steps plus the step. */
#include "cells/import/behind.h"
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

#define ADD_MAX (1 << 24) /* to the number */

/* ---- Integers ------------------------------------------------------------------------------ */

enum base_status cell__infer_index(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape out = cell__input(im, node, 0)->shape;
    if (node->n_inputs >= 2 && strcmp(node->op->name, "Clip") != 0) {
        BASE_TRY(cell__join_shapes(im, node, &out));
    }
    const uint32_t last = node->n_inputs - 1; // Where's first is a bool
    const bool is_clip = strcmp(node->op->name, "Clip") == 0;
    cell__set_rows(im, node, 0, cell__input(im, node, is_clip ? 0 : last)->dtype, &out);
    return BASE_OK;
}

static enum base_status refuse(struct cell__import *im)
{
    return cell__refuse(im, "computes with integers that depend on the request, but for the number "
                            "of a step: an input, plus or minus a number");
}

/* The row of an index, which may be an input's as it came, or computed of one (op_told.c). False:
 * it is none. */
static bool read_index(const struct cell__import *im, uint32_t row, struct cell__row *out)
{
    struct cell_told told;
    uint32_t input = 0;
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_CAST &&
           im->rows[row].value.dtype != CELL_F32 &&
           im->rows[im->rows[row].op.operands[0]].value.dtype != CELL_F32) {
        row = im->rows[row].op.operands[0];
    }
    *out = im->rows[row];
    if (out->kind != CELL__ROW_INDEX && cell__row_told(im, row, &told, &input)) {
        *out = (struct cell__row){.kind = CELL__ROW_INDEX,
                                  .index = input,
                                  .value = {CELL_I64, 1},
                                  .offset = told.add,
                                  .told = told,
                                  .is_batched = out->is_batched};
    }
    return out->kind == CELL__ROW_INDEX;
}

/* An index that an input tells, of this many rows' steps. */
static bool is_step(const struct cell__row *row)
{
    return row->index != CELL__NONE && row->stride == 0 && row->part == 0;
}

enum base_status cell__row_from_end(struct cell__import *im, uint32_t row, uint32_t *out)
{
    struct cell__row index;
    *out = CELL__NONE;
    if (im->rows[row].kind == CELL__ROW_INPUT || !read_index(im, row, &index) || !is_step(&index)) {
        return BASE_OK;
    }
    index.is_from_end = true;
    return cell__row_index(im, &index, out);
}

/* The steps of an axis and some more, or less. */
static bool read_steps(const struct cell__value *value, struct cell__axis *time, int64_t *add)
{
    if (value->kind != CELL__CONST || value->dtype == CELL__F32 || value->tensor.count != 1) {
        return false;
    }
    const struct cell__sym steps = cell__tensor_sym(&value->tensor, 0);
    *time = steps.axis;
    *add = steps.add;
    return !cell__sym_is_number(&steps) && steps.factor == 1 && steps.axis.n == 1 &&
           steps.add >= -ADD_MAX && steps.add <= ADD_MAX;
}

bool cell__is_last_step(const struct cell__value *value, struct cell__axis *time)
{
    int64_t add = 0;
    return read_steps(value, time, &add) && add == -1;
}

enum base_status cell__row_last_step(struct cell__import *im, const struct cell__axis *time,
                                     uint32_t *out)
{
    const uint32_t times = cell__axis_times(im, time);
    uint32_t number = CELL__NONE;
    if (times == 0 || im->scan != CELL__NONE || im->feeds_back ||
        im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "computes with the last step of what is no sequence, or beside "
                                "sequence_lens");
    }
    BASE_TRY(cell__row_number_of_step(im, cell__only_sequence(times), &number));
    return cell__row_at(im, CELL__ROW_LAST, number, out);
}

/* The number of the batch's row times the steps of an axis: `by` says which. */
static bool read_factor(const struct cell__value *value, struct cell__sym *by)
{
    if (value->kind != CELL__CONST || value->dtype == CELL__F32 || value->tensor.count != 1) {
        return false;
    }
    *by = cell__tensor_sym(&value->tensor, 0);
    return cell__sym_is_number(by) ? by->add > 0
                                   : by->add == 0 && by->factor == 1 && by->axis.n == 1;
}

static enum base_status multiply(struct cell__import *im, const struct cell__value *number,
                                 const struct cell__value *by, uint32_t *out)
{
    struct cell__row row;
    struct cell__sym factor;
    if (!read_index(im, number->row, &row) || row.index != CELL__NONE || row.offset != 0 ||
        row.stride != 0 || row.part != 0 || !read_factor(by, &factor)) {
        return refuse(im);
    }
    row.stride = cell__sym_is_number(&factor) ? (uint32_t)factor.add : 0;
    row.part = cell__sym_is_number(&factor) ? 0 : 1 + cell__atom_root(im, factor.axis.atoms[0]);
    return cell__row_index(im, &row, out);
}

/* Whether the row is a number that the model counts, the same at all steps. */
static bool is_count(const struct cell__import *im, uint32_t row)
{
    return im->rows[row].times == 0 && im->rows[row].value.width == 1 &&
           cell__row_is_counted(im, row);
}

/* The step of a row, and where the row's steps begin. */
static enum base_status add_rows(struct cell__import *im, const struct cell__value *const pair[2],
                                 uint32_t *out)
{
    struct cell__row rows[2];
    for (uint32_t i = 0; i < 2; i++) {
        if (is_count(im, pair[i]->row) && read_index(im, pair[1 - i]->row, &rows[0]) &&
            rows[0].index == CELL__NONE && (rows[0].stride != 0 || rows[0].part != 0)) {
            rows[0].is_counted = true; // the step is what the model counts
            rows[0].op.operands[0] = pair[i]->row;
            return cell__row_index(im, &rows[0], out);
        }
    }
    if (!read_index(im, pair[0]->row, &rows[0]) || !read_index(im, pair[1]->row, &rows[1])) {
        return refuse(im);
    }
    const uint32_t base = rows[0].index == CELL__NONE ? 0 : 1;
    struct cell__row sum = rows[1 - base];
    if (rows[base].index != CELL__NONE || sum.index == CELL__NONE || sum.is_from_end ||
        (rows[base].stride == 0 && rows[base].part == 0) || sum.stride != 0 || sum.part != 0) {
        return refuse(im);
    }
    sum.stride = rows[base].stride;
    sum.part = rows[base].part;
    return cell__row_index(im, &sum, out);
}

/* What is no step's number any more, or is refused. */
static enum base_status add_size(struct cell__import *im, const struct cell__value *const pair[2],
                                 int64_t sign, uint32_t *out)
{
    BASE_TRY(cell__row_with_size(im, pair, sign > 0, out));
    return *out != CELL__NONE ? BASE_OK : refuse(im);
}

static enum base_status add(struct cell__import *im, const struct cell__value *const pair[2],
                            int64_t sign, uint32_t *out)
{
    struct cell__row row;
    struct cell__axis time;
    int64_t number = 0;
    const uint32_t at = pair[0]->kind == CELL__CONST ? 1 : 0; // of what the request says
    if (pair[0]->kind == CELL__ROWS && pair[1]->kind == CELL__ROWS && sign > 0) {
        return add_rows(im, pair, out);
    }
    if (sign > 0 && pair[at]->kind == CELL__ROWS && cell__row_is_zero(im, pair[at]->row) &&
        cell__is_last_step(pair[1 - at], &time)) {
        return cell__row_last_step(im, &time, out);
    }
    if (!cell__value_integer(pair[1 - at], ADD_MAX, &number) || (sign < 0 && at == 1) ||
        !read_index(im, pair[at]->row, &row) || !is_step(&row) || row.is_from_end ||
        row.told.over > 1) {
        return add_size(im, pair, sign, out);
    }
    const int64_t sum = (row.is_cut ? (int64_t)row.least : row.offset) + sign * number;
    const int64_t most = row.limits.most + sign * number;
    const int64_t end = row.limits.add + sign * number;
    if (sum < (row.is_cut ? 0 : -ADD_MAX) || sum > ADD_MAX || most < -ADD_MAX || most > ADD_MAX ||
        end < -ADD_MAX || end > ADD_MAX) {
        return refuse(im);
    }
    row.offset = row.is_cut ? row.offset : (int32_t)sum;
    row.least = row.is_cut ? (uint32_t)sum : 0;
    row.limits.most = row.limits.has_most ? (int32_t)most : 0;
    row.limits.add = row.limits.below != 0 ? (int32_t)end : 0;
    return cell__row_index(im, &row, out);
}

/* Not below a number, of 0 at least: as what is not below 0, and so many more, of which later nodes
 * take as many away. */
static enum base_status cut_below(struct cell__import *im, const struct cell__value *low,
                                  struct cell__row *row)
{
    int64_t number = 0;
    if (!cell__value_integer(low, ADD_MAX, &number) || number < 0) {
        return refuse(im);
    }
    if (row->is_cut && number <= (int64_t)row->least) {
        return BASE_OK;
    }
    const int64_t offset = row->offset + (int64_t)row->least - number;
    if (offset < -ADD_MAX) {
        return refuse(im);
    }
    row->is_cut = true;
    row->offset = (int32_t)offset;
    row->least = (uint32_t)number;
    return BASE_OK;
}

/* The same, or the last step as the same of all rows of the batch. */
static bool read_end(const struct cell__import *im, const struct cell__value *value,
                     struct cell__axis *time, int64_t *add)
{
    const struct cell__row *row = value->kind == CELL__ROWS ? &im->rows[value->row] : NULL;
    if (row == NULL || row->kind != CELL__ROW_LAST) {
        return read_steps(value, time, add);
    }
    *add = -1;
    row = &im->rows[row->index];
    row = row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_COPY ? &im->rows[row->op.operands[0]]
                                                                    : row;
    if (row->kind != CELL__ROW_NUMBER) {
        return false;
    }
    *time = (struct cell__axis){.n = 1, .atoms = {im->sequences[row->index].atom}};
    return time->atoms[0] != CELL__NONE;
}

/* Not above a number, or the steps of an axis. */
static enum base_status cut_above(struct cell__import *im, const struct cell__value *high,
                                  struct cell__row *row)
{
    struct cell__limits *limits = &row->limits;
    struct cell__axis time;
    int64_t number = 0;
    if (cell__value_integer(high, ADD_MAX, &number)) {
        limits->most = limits->has_most && limits->most < number ? limits->most : (int32_t)number;
        limits->has_most = true;
        return BASE_OK;
    }
    if (limits->below != 0 || !read_end(im, high, &time, &number)) {
        return refuse(im);
    }
    limits->below = 1 + time.atoms[0];
    limits->add = (int32_t)number;
    return BASE_OK;
}

/* Of Max, Min and Clip. */
static enum base_status clip(struct cell__import *im, const struct cell__value *index,
                             const struct cell__value *low, const struct cell__value *high,
                             uint32_t *out)
{
    struct cell__row row;
    if (!read_index(im, index->row, &row) || !is_step(&row) || row.is_from_end ||
        row.told.over > 1) {
        return refuse(im);
    }
    BASE_TRY(low != NULL ? cut_below(im, low, &row) : BASE_OK);
    BASE_TRY(high != NULL ? cut_above(im, high, &row) : BASE_OK);
    return cell__row_index(im, &row, out);
}

static enum base_status lower_clip(struct cell__import *im, const struct cell__node *node,
                                   uint32_t *out)
{
    const bool has_low = cell__has_input(node, 1);
    const bool has_high = node->n_inputs == 3 && cell__has_input(node, 2);
    if (node->n_inputs < 2 || cell__input(im, node, 0)->kind != CELL__ROWS) {
        return refuse(im);
    }
    return clip(im, cell__input(im, node, 0), has_low ? cell__input(im, node, 1) : NULL,
                has_high ? cell__input(im, node, 2) : NULL, out);
}

/* ---- What is computed of them --------------------------------------------------------------- */

enum base_status cell__lower_index(struct cell__import *im, struct cell__node *node)
{
    const char *name = node->op->name;
    uint32_t row = CELL__NONE;
    if (cell__is_of_numbers(im, node)) {
        return cell__lower_numbers(im, node);
    }
    if (cell__is_ids_clip(im, node)) {
        return cell__lower_ids_clip(im, node);
    }
    if (cell__is_of_told(im, node)) {
        BASE_TRY(cell__lower_told(im, node, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    if (strcmp(name, "Clip") == 0) {
        BASE_TRY(lower_clip(im, node, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    if (node->n_inputs != 2 || !cell__has_input(node, 1)) {
        return refuse(im);
    }
    const struct cell__value *const pair[2] = {cell__input(im, node, 0), cell__input(im, node, 1)};
    struct cell__row read;
    const bool is_first = pair[1]->kind == CELL__ROWS && read_index(im, pair[1]->row, &read);
    const uint32_t constant = pair[0]->kind == CELL__CONST || is_first ? 0 : 1;
    if (strcmp(name, "Add") == 0) {
        BASE_TRY(add(im, pair, 1, &row));
    } else if (strcmp(name, "Sub") == 0) {
        BASE_TRY(add(im, pair, -1, &row));
    } else if (strcmp(name, "Mul") == 0) {
        BASE_TRY(multiply(im, pair[1 - constant], pair[constant], &row));
    } else if (strcmp(name, "Max") == 0) {
        BASE_TRY(clip(im, pair[1 - constant], pair[constant], NULL, &row));
    } else if (strcmp(name, "Min") == 0) {
        BASE_TRY(clip(im, pair[1 - constant], NULL, pair[constant], &row));
    } else {
        return refuse(im);
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- The step ------------------------------------------------------------------------------ */

/* Of what is repeated over the features of a row, or joined of what is, the one; NONE: they differ.
 */
static uint32_t the_one(const struct cell__import *im, uint32_t row)
{
    uint32_t one = CELL__NONE;
    while (im->rows[row].kind == CELL__ROW_OP &&
           (im->rows[row].op.kind == CELL_OP_CONCAT || im->rows[row].op.kind == CELL_OP_SPREAD)) {
        const struct cell_op *op = &im->rows[row].op;
        if (op->kind == CELL_OP_SPREAD) {
            one = one == row ? CELL__NONE : one;
            row = op->operands[0];
            continue;
        }
        for (uint32_t i = 1; i < op->n_operands; i++) {
            one = one == CELL__NONE ? op->operands[i] : one;
            if (op->operands[i] != one) {
                return CELL__NONE;
            }
        }
        row = op->operands[0];
    }
    return one == CELL__NONE || one == row ? row : CELL__NONE;
}

/* What an index is cut to, beside its low end: to the last step, or to a number that is nothing to
 * a request whose steps are no more, which each is held to. */
static enum base_status keep_limits(struct cell__import *im, const struct cell__axis *time,
                                    const struct cell__row *index)
{
    const struct cell__limits *limits = &index->limits;
    uint32_t *most = &im->sequences[cell__only_sequence(cell__axis_times(im, time))].steps_max;
    const struct cell__axis below = {.n = 1, .atoms = {limits->below - 1}};
    if (index->least != 0) {
        return cell__refuse(im, "takes a step that a Max or a Clip keeps above 0");
    }
    if ((limits->below != 0 && (limits->add != -1 || !cell__axis_is_same(im, &below, time))) ||
        (limits->has_most && limits->most < 0)) {
        return cell__refuse(im, "takes a step that a Min or a Clip keeps below another");
    }
    if (limits->has_most && (*most == 0 || (int64_t)limits->most + 1 < *most)) {
        *most = (uint32_t)limits->most + 1;
    }
    return BASE_OK;
}

/* The row of the data at that step. */
static enum base_status take_step(struct cell__import *im, const struct cell__value *data,
                                  const struct cell__axis *time, const struct cell__row *index,
                                  uint32_t *out)
{
    const uint32_t times = cell__axis_times(im, time);
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    *out = data->row;
    if (times == 0 || cell__is_pair(times) || im->scan != CELL__NONE || im->feeds_back ||
        cell__is_turned_along(im, data, time)) {
        return cell__refuse(im, "takes what is no step of a sequence, or one of a sequence that is "
                                "turned round");
    }
    const struct cell__sequence *of = &im->sequences[cell__only_sequence(times)];
    const bool is_over = of->told.over > 1 || index->told.over > 1;
    const bool is_last = index->told.over == of->told.over && // (n + a) / b - 1
                         index->offset == of->told.add - (is_over ? (int32_t)of->told.over : 1);
    const bool is_within = of->has_lengths && of->lengths_input == (int32_t)index->index &&
                           (is_last || (!is_over && index->offset < 0 && index->is_cut));
    if (of->uses_lengths && !is_within) {
        return cell__refuse(im, "takes steps by their number beside sequence_lens");
    }
    if (im->rows[data->row].times != times) {
        return im->rows[data->row].times == 0 ? BASE_OK : refuse(im);
    }
    BASE_TRY(keep_limits(im, time, index));
    const struct cell__steps steps = {.is_once = true,
                                      .count = 1,
                                      .stride = 1,
                                      .offset = index->offset,
                                      .by = 1 + index->index,
                                      .told = index->told,
                                      .is_clipped = index->is_cut,
                                      .is_ended = index->limits.below != 0};
    BASE_TRY(cell__row_window(im, data->row, &steps, &copy.operands[0]));
    return cell__row_op(im, &copy, im->rows[data->row].value, out);
}

/* The row of the data at the step of that number: from the end, where it is below 0. */
static enum base_status take_counted(struct cell__import *im, const struct cell__value *data,
                                     const struct cell__axis *time, uint32_t number, uint32_t *out)
{
    const uint32_t times = cell__axis_times(im, time);
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {number}};
    struct cell_op select = {.kind = CELL_OP_SELECT, .n_operands = 3};
    struct cell_op pick = {.kind = CELL_OP_PICK, .n_operands = 2};
    uint32_t steps = CELL__NONE;
    uint32_t zero = CELL__NONE;
    if (times == 0 || cell__is_pair(times) || im->scan != CELL__NONE || im->feeds_back ||
        cell__is_turned_along(im, data, time) || im->rows[data->row].times != times ||
        cell__sequence_has_lengths(im, cell__only_sequence(times))) {
        return cell__refuse(im, "takes a step by a number that is counted, of what is no sequence, "
                                "is turned round, or has sequence_lens");
    }
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, &select.operands[2]));
    BASE_TRY(cell__row_steps(im, cell__only_sequence(times), &steps));
    BASE_TRY(cell__row_number(im, 0.0f, &zero));
    BASE_TRY(cell__row_pair(im, CELL_OP_LESS, select.operands[2], zero, &select.operands[0]));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, select.operands[2], steps, &select.operands[1]));
    BASE_TRY(cell__row_op(im, &select, (struct cell_value){CELL_F32, 1}, &pick.operands[1]));
    BASE_TRY(cell__row_memory(im, data->row, &pick.operands[0]));
    return cell__row_op(im, &pick, im->rows[data->row].value, out);
}

/* ---- GatherElements: an index as wide as the row -------------------------------------------- */

static enum base_status elements_axis(struct cell__import *im, const struct cell__node *node,
                                      uint32_t rank, uint32_t *out)
{
    int64_t axis = 0;
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &axis));
    return cell__axis_index(im, axis, rank, out);
}

enum base_status cell__infer_gather_elements(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const struct cell__value *index = cell__input(im, node, 1);
    uint32_t axis = 0;
    if (data->kind != CELL__ROWS || index->kind != CELL__ROWS || data->dtype != CELL__F32 ||
        index->dtype == CELL__F32 || data->shape.rank != index->shape.rank) {
        return cell__refuse(im, "of other things than rows of floats, by integers of the request");
    }
    BASE_TRY(elements_axis(im, node, data->shape.rank, &axis));
    struct cell__shape out = data->shape;
    for (uint32_t k = 0; k < out.rank; k++) {
        const struct cell__axis *own = &index->shape.axes[k];
        const int64_t size = cell__axis_size(im, own);
        if (k == axis ? size != 1 : size == 1 && cell__axis_size(im, &out.axes[k]) != 1) {
            return cell__refuse(im, "takes %lld elements along axis %u", (long long)size, k);
        }
        BASE_TRY(k == axis ? BASE_OK : cell__axis_unite(im, own, &out.axes[k], "indices"));
    }
    out.axes[axis] = (struct cell__axis){.n = 0};
    cell__set_rows(im, node, 0, data->dtype, &out);
    return BASE_OK;
}

/* What input 0 has along the axis at the one place that input 1 says. */
static enum base_status lower_at_axis(struct cell__import *im, struct cell__node *node,
                                      const struct cell__axis *axis)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const uint32_t row = the_one(im, cell__input(im, node, 1)->row);
    struct cell__row index;
    uint32_t out = CELL__NONE;
    if (row != CELL__NONE && is_count(im, row)) {
        BASE_TRY(take_counted(im, data, axis, row, &out));
        cell__set_row(im, node, 0, out);
        return BASE_OK;
    }
    if (row == CELL__NONE || !read_index(im, row, &index) || !is_step(&index)) {
        return refuse(im);
    }
    BASE_TRY(take_step(im, data, axis, &index, &out));
    cell__set_row(im, node, 0, out);
    return BASE_OK;
}

enum base_status cell__lower_gather_elements(struct cell__import *im, struct cell__node *node)
{
    uint32_t axis = 0;
    BASE_TRY(elements_axis(im, node, cell__input(im, node, 0)->shape.rank, &axis));
    return lower_at_axis(im, node, &cell__input(im, node, 0)->shape.axes[axis]);
}

/* ---- GatherND: pairs of a row of the batch and its step -------------------------------------- */

/* Of a list: elements by their numbers, as MXNet takes sizes out of a shape. */
static enum base_status fold_gather_nd(struct cell__import *im, struct cell__node *node)
{
    const struct cell__tensor *data = &cell__input(im, node, 0)->tensor;
    const struct cell__tensor *indices = &cell__input(im, node, 1)->tensor;
    struct cell__tensor numbers;
    struct cell__tensor out;
    if (data->rank != 1 || indices->rank < 1 || indices->dims[indices->rank - 1] != 1 ||
        indices->dtype == CELL__F32) {
        return cell__refuse(im, "of a constant that is no list");
    }
    BASE_TRY(cell__fold_reshape(im, indices, indices->rank - 1, indices->dims, &numbers));
    BASE_TRY(cell__fold_gather(im, data, &numbers, 0, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* With batch_dims=1: of each row of the batch a step, data [batch, steps, ..] by [batch, 1, .., 1].
 */
static enum base_status infer_step_of_each(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const struct cell__value *index = cell__input(im, node, 1);
    const uint32_t beside = index->shape.rank - 1; // the last axis counts the axes of a place: one
    bool is_one = data->dtype == CELL__F32 && index->dtype == CELL__I64 && data->shape.rank >= 2 &&
                  index->shape.rank >= 2;
    for (uint32_t k = 1; is_one && k <= beside; k++) {
        is_one = cell__axis_size(im, &index->shape.axes[k]) == 1;
    }
    if (!is_one || beside + data->shape.rank - 2 > CELL_RANK_MAX) {
        return cell__refuse(im, "by anything but a step of each row of the batch");
    }
    struct cell__shape out = {.rank = beside + data->shape.rank - 2};
    memcpy(out.axes, index->shape.axes, beside * sizeof(out.axes[0]));
    memcpy(&out.axes[beside], &data->shape.axes[2], (data->shape.rank - 2) * sizeof(out.axes[0]));
    BASE_TRY(cell__axis_unite(im, &index->shape.axes[0], &data->shape.axes[0], "indices"));
    cell__set_rows(im, node, 0, data->dtype, &out);
    return BASE_OK;
}

enum base_status cell__infer_gather_nd(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const struct cell__value *index = cell__input(im, node, 1);
    int64_t batch_dims = 0;
    BASE_TRY(cell__attr_int(im, node, "batch_dims", 0, &batch_dims));
    if (data->kind == CELL__CONST && index->kind == CELL__ROWS && batch_dims == 0) {
        return cell__infer_lookup_nd(im, node);
    }
    if (data->kind == CELL__CONST && index->kind == CELL__CONST && batch_dims == 0) {
        return fold_gather_nd(im, node);
    }
    if (batch_dims == 1 && data->kind == CELL__ROWS && index->kind == CELL__ROWS) {
        return infer_step_of_each(im, node);
    }
    if (data->kind != CELL__ROWS || index->kind != CELL__ROWS || data->dtype != CELL__F32 ||
        index->dtype != CELL__I64 || batch_dims != 0 || data->shape.rank < 2 ||
        index->shape.rank != 2 || cell__axis_size(im, &index->shape.axes[1]) != 2) {
        return cell__refuse(im, "by anything but pairs of a row of the batch and its step");
    }
    struct cell__shape out = {.rank = data->shape.rank - 1};
    out.axes[0] = index->shape.axes[0];
    memcpy(&out.axes[1], &data->shape.axes[2], (out.rank - 1) * sizeof(out.axes[0]));
    cell__set_rows(im, node, 0, data->dtype, &out);
    return BASE_OK;
}

enum base_status cell__lower_gather_nd(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    if (data->kind == CELL__CONST) {
        return cell__lower_lookup_nd(im, node);
    }
    const struct cell__row *pair = &im->rows[cell__input(im, node, 1)->row];
    struct cell__row rows[2];
    uint32_t out = CELL__NONE;
    int64_t batch_dims = 0;
    BASE_TRY(cell__attr_int(im, node, "batch_dims", 0, &batch_dims));
    if (batch_dims == 1) {
        return lower_at_axis(im, node, &data->shape.axes[1]);
    }
    for (uint32_t i = 0; i < 2 && pair->kind == CELL__ROW_OP && pair->op.kind == CELL_OP_CONCAT &&
                         pair->op.n_operands == 2;
         i++) {
        const uint32_t other = pair->op.operands[1 - i];
        const uint32_t number = pair->op.operands[i];
        if (is_count(im, number) && read_index(im, other, &rows[0]) &&
            rows[0].index == CELL__NONE && rows[0].stride == 0 && rows[0].part == 0) {
            BASE_TRY(take_counted(im, data, &data->shape.axes[i], number, &out));
            cell__set_row(im, node, 0, out);
            return BASE_OK;
        }
    }
    if (pair->kind != CELL__ROW_OP || pair->op.kind != CELL_OP_CONCAT || pair->op.n_operands != 2 ||
        !read_index(im, pair->op.operands[0], &rows[0]) ||
        !read_index(im, pair->op.operands[1], &rows[1])) {
        return refuse(im);
    }
    const uint32_t step = is_step(&rows[0]) ? 0 : 1; // of the two axes, the one of time
    const struct cell__axis *batch = &data->shape.axes[1 - step];
    if (!is_step(&rows[step]) || rows[1 - step].index != CELL__NONE || rows[1 - step].stride != 0 ||
        rows[1 - step].part != 0 ||
        !cell__axis_is_same(im, batch, &cell__output(im, node, 0)->shape.axes[0])) {
        return refuse(im);
    }
    BASE_TRY(take_step(im, data, &data->shape.axes[step], &rows[step], &out));
    cell__set_row(im, node, 0, out);
    return BASE_OK;
}

/* ---- Gather of what batch and steps are one axis of ------------------------------------------ */

enum base_status cell__infer_gather_step(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const struct cell__value *index = cell__input(im, node, 1);
    int64_t axis = 0;
    BASE_TRY(cell__attr_int(im, node, "axis", 0, &axis));
    if (axis != 0 || data->dtype != CELL__F32 || index->dtype == CELL__F32 ||
        index->shape.rank != 1 || data->shape.rank < 1 || data->shape.axes[0].n != 2) {
        return cell__refuse(im, "indices that are not constant");
    }
    struct cell__shape out = data->shape;
    out.axes[0] = index->shape.axes[0];
    cell__set_rows(im, node, 0, data->dtype, &out);
    return BASE_OK;
}

enum base_status cell__lower_gather_step(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const struct cell__axis *both = &data->shape.axes[0];
    const struct cell__axis batch = {.n = 1, .atoms = {both->atoms[0]}};
    const struct cell__axis time = {.n = 1, .atoms = {both->atoms[1]}};
    struct cell__row index;
    uint32_t out = CELL__NONE;
    if (!read_index(im, cell__input(im, node, 1)->row, &index) ||
        (index.index == CELL__NONE && !index.is_counted) ||
        !cell__axis_is_same(im, &batch, &cell__output(im, node, 0)->shape.axes[0])) {
        return refuse(im);
    }
    const bool is_of_axis =
        index.part > 0 && cell__atom_root(im, index.part - 1) == cell__atom_root(im, time.atoms[0]);
    const bool is_of_number =
        index.stride > 0 && cell__axis_size(im, &time) == (int64_t)index.stride;
    if (!is_of_axis && !is_of_number) {
        return refuse(im);
    }
    if (index.is_counted) {
        const struct cell__value steps = {
            .kind = CELL__ROWS, .dtype = data->dtype, .shape = data->shape, .row = data->row};
        BASE_TRY(take_counted(im, &steps, &time, index.op.operands[0], &out));
        cell__set_row(im, node, 0, out);
        return BASE_OK;
    }
    BASE_TRY(take_step(im, data, &time, &index, &out));
    cell__set_row(im, node, 0, out);
    return BASE_OK;
}
