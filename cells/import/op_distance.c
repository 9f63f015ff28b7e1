/* Relative positions as Transformer-XL and the speech recognisers after it write them (Dai et al.,
 * ACL 2019, appendix B; Gulati et al., Interspeech 2020). Of a table with a row for each distance,
 * from the farthest behind to the farthest before or the other way round, those are taken that
 * there are between T steps: 2 T - 1, a sequence of its own, *distances*. What they are
 * multiplied by has a value for each step and distance, [T, 2 T - 1], of which each step i wants
 * those from number T - 1 - i on:
 *
 *     pad by 1 in front -> [T, 2 T] -> [2 T, T] -> but the first -> [T, 2 T - 1] -> [T, T]
 *
 * which is what it was, at pairs of steps: a row of distances is asked for by how far the second
 * step is from the first (relative.h). No node of these is computed.
 *
 * As Transformer-XL itself has it there are T positions alone, Range(T - 1, -1, -1), of the first
 * step to the last one: distances of steps that are not behind the query, *behind*. The same shift,
 *
 *     pad by 1 in front -> [T, T + 1] -> [T + 1, T] -> but the first
 *
 * leaves them where a step is behind, or the same; elsewhere stands what a mask must take away. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* ---- Distances ----------------------------------------------------------------------------- */

/* What their atom has: (n * parts + add) / stride + 1 is 2 n - 1. */
enum { DISTANCES_PARTS = 2, DISTANCES_ADD = -2, DISTANCES_STRIDE = 1 };

static bool is_distances(const struct cell__import *im, uint32_t root)
{
    const struct cell__atom *atom = &im->atoms[root];
    return atom->source != CELL__NONE && atom->parts == DISTANCES_PARTS &&
           atom->add == DISTANCES_ADD && atom->stride == DISTANCES_STRIDE && !atom->is_kept;
}

bool cell__axis_is_behind(const struct cell__import *im, const struct cell__axis *axis,
                          const struct cell__axis *of)
{
    const struct cell__atom *atom =
        axis->n == 1 ? &im->atoms[cell__atom_root(im, axis->atoms[0])] : NULL;
    return atom != NULL && of->n == 1 && atom->is_behind && atom->source != CELL__NONE &&
           cell__atom_root(im, atom->source) == cell__atom_root(im, of->atoms[0]);
}

bool cell__axis_is_distances(const struct cell__import *im, const struct cell__axis *axis,
                             const struct cell__axis *of)
{
    if (axis->n != 1 || of->n != 1) {
        return false;
    }
    const uint32_t root = cell__atom_root(im, axis->atoms[0]);
    return is_distances(im, root) &&
           cell__atom_root(im, im->atoms[root].source) == cell__atom_root(im, of->atoms[0]);
}

bool cell__row_is_of_distances(const struct cell__import *im, uint32_t row)
{
    const uint32_t times = im->rows[row].times;
    const uint32_t atom = times == 0 || cell__is_pair(times)
                              ? CELL__NONE
                              : im->sequences[cell__only_sequence(times)].atom;
    const uint32_t root = atom == CELL__NONE ? CELL__NONE : cell__atom_root(im, atom);
    return root != CELL__NONE && (is_distances(im, root) || im->atoms[root].is_behind);
}

/* A Slice of a constant by the number of steps of an axis: [c - T : c + T - 1]. */
struct cut {
    uint32_t axis;
    struct cell__axis steps;
    int64_t first; /* c */
};

/* Element k of a constant list of integers; false: it is none. */
static bool read_sym(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                     uint32_t k, struct cell__sym *out)
{
    if (!cell__has_input(node, i)) {
        return false;
    }
    const struct cell__value *value = &im->values[node->inputs[i]];
    if (value->kind != CELL__CONST || value->tensor.count <= k ||
        (value->dtype != CELL__I64 && value->dtype != CELL__I32)) {
        return false;
    }
    *out = cell__tensor_sym(&value->tensor, k);
    return true;
}

/* Of a Slice along one axis in order. */
static bool read_slice(const struct cell__import *im, const struct cell__node *node, uint32_t rank,
                       struct cell__sym bounds[2], uint32_t *axis)
{
    struct cell__sym number;
    if (node->n_inputs < 4 || !read_sym(im, node, 1, 0, &bounds[0]) ||
        !read_sym(im, node, 2, 0, &bounds[1]) || !read_sym(im, node, 3, 0, &number) ||
        im->values[node->inputs[3]].tensor.count != 1 || !cell__sym_is_number(&number)) {
        return false;
    }
    const int64_t at = number.add < 0 ? number.add + rank : number.add;
    if (at < 0 || at >= (int64_t)rank) {
        return false;
    }
    *axis = (uint32_t)at;
    return !cell__has_input(node, 4) ||
           (read_sym(im, node, 4, 0, &number) && cell__sym_is_number(&number) && number.add == 1);
}

/* Whether two numbers are one in every request, however they are written. */
static bool is_same_number(const struct cell__import *im, const struct cell__sym *a,
                           const struct cell__sym *b)
{
    int64_t more = 1;
    return cell__sym_equal(im, a, b) == 1 || (cell__steps_more(im, a, b, &more) && more == 0);
}

static bool read_cut(const struct cell__import *im, const struct cell__node *node, struct cut *cut)
{
    const struct cell__value *in = &im->values[node->inputs[0]];
    struct cell__sym bounds[2];
    *cut = (struct cut){.axis = 0};
    if (in->kind != CELL__CONST || in->dtype != CELL__F32 ||
        !read_slice(im, node, in->tensor.rank, bounds, &cut->axis)) {
        return false;
    }
    cut->steps = bounds[0].axis;
    cut->first = bounds[0].add;
    if (bounds[0].factor != -1 || cut->steps.n != 1 || cut->first < 1 || cut->first > INT32_MAX) {
        return false;
    }
    const struct cell__sym end = {.add = cut->first - 1, .factor = 1, .axis = cut->steps};
    return is_same_number(im, &bounds[1], &end);
}

bool cell__is_distances(struct cell__import *im, const struct cell__node *node)
{
    struct cut cut;
    return im->opset >= 10 && cell__has_input(node, 0) && read_cut(im, node, &cut);
}

enum base_status cell__infer_distances(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__shape shape;
    struct cut cut;
    (void)read_cut(im, node, &cut);
    BASE_TRY(cell__shape_of(im, in, &shape));
    for (uint32_t k = 0; k < cut.axis; k++) {
        if (in->tensor.dims[k] != 1) {
            return cell__refuse(im, "relative positions that are not the first axis of a table");
        }
    }
    struct cell__axis *axis = &shape.axes[cut.axis];
    axis->n = 1;
    BASE_TRY(cell__atom_new(im, -1, &axis->atoms[0]));
    struct cell__atom *atom = &im->atoms[axis->atoms[0]];
    atom->source = cell__atom_root(im, cut.steps.atoms[0]);
    atom->parts = DISTANCES_PARTS;
    atom->add = DISTANCES_ADD;
    atom->stride = DISTANCES_STRIDE;
    cell__set_rows(im, node, 0, in->dtype, &shape);
    return BASE_OK;
}

enum base_status cell__lower_distances(struct cell__import *im, struct cell__node *node)
{
    const struct cell__tensor *in = &cell__input(im, node, 0)->tensor;
    struct cut cut;
    uint32_t row = CELL__NONE;
    (void)read_cut(im, node, &cut);
    const struct cell__axis *axis = &cell__output(im, node, 0)->shape.axes[cut.axis];
    const uint32_t times = cell__axis_times(im, axis);
    const struct cell__table table = {.dtype = in->dtype,
                                      .rows = in->dims[cut.axis],
                                      .width = (int64_t)in->count / in->dims[cut.axis],
                                      .data = in->data};
    if (times == 0 || im->scan != CELL__NONE || im->feeds_back) {
        return cell__refuse(im, "a range that depends on the request, and no distances of steps");
    }
    BASE_TRY(cell__row_distance(im, cell__only_sequence(times), &row));
    BASE_TRY(cell__row_count_from(im, cut.first - 1, &row));
    BASE_TRY(cell__row_lookup(im, &table, row, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Positions from the last step down ------------------------------------------------------ */

/* The number of a Range's bound: an integer, or the float of a size of axes. */
static bool read_bound(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                       struct cell__sym *out)
{
    const struct cell__value *value =
        cell__has_input(node, i) ? &im->values[node->inputs[i]] : NULL;
    if (value != NULL && value->kind == CELL__COUNTER && value->dtype == CELL__F32 &&
        value->steps == 0) {
        *out = value->count;
        return true;
    }
    if (value != NULL && value->kind == CELL__CONST && value->dtype == CELL__F32 &&
        value->tensor.count == 1) {
        const float number = *(const float *)value->tensor.data;
        *out = cell__sym_number(number <= -1.0f && number >= -1.0f ? -1 : 0);
        return true;
    }
    return value != NULL && read_sym(im, node, i, 0, out) && value->tensor.count == 1;
}

/* Whether a Range has them, of the steps of an axis. */
static bool read_down(const struct cell__import *im, const struct cell__node *node,
                      struct cell__sym *start)
{
    struct cell__sym limit;
    struct cell__sym step;
    return node->n_inputs == 3 && read_bound(im, node, 0, start) &&
           read_bound(im, node, 1, &limit) && read_bound(im, node, 2, &step) &&
           start->factor == 1 && start->add == -1 && start->axis.n == 1 &&
           cell__sym_is_number(&limit) && limit.add == -1 && cell__sym_is_number(&step) &&
           step.add == -1 && im->values[node->inputs[1]].dtype == im->values[node->inputs[2]].dtype;
}

static enum base_status infer_down(struct cell__import *im, struct cell__node *node)
{
    const struct cell__sym start = cell__tensor_sym(&cell__input(im, node, 0)->tensor, 0);
    struct cell__shape shape = {.rank = 1, .axes = {{.n = 1}}};
    BASE_TRY(cell__atom_new(im, -1, &shape.axes[0].atoms[0]));
    struct cell__atom *atom = &im->atoms[shape.axes[0].atoms[0]];
    atom->source = cell__atom_root(im, start.axis.atoms[0]);
    atom->parts = 1;
    atom->add = -1;
    atom->stride = 1;
    atom->is_behind = true;
    cell__set_rows(im, node, 0, cell__input(im, node, 1)->dtype, &shape);
    return BASE_OK;
}

/* How far the first step is from the second. */
static enum base_status lower_down(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *out = cell__output(im, node, 0);
    const uint32_t times = cell__shape_times(im, &out->shape);
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    uint32_t back = CELL__NONE;
    uint32_t row = CELL__NONE;
    if (times == 0 || cell__is_pair(times) || im->scan != CELL__NONE || im->feeds_back) {
        return cell__refuse(im, "positions of what are no steps of a recurrent node");
    }
    BASE_TRY(cell__row_distance(im, cell__only_sequence(times), &cast.operands[0]));
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, &row));
    BASE_TRY(cell__row_number(im, -1.0f, &back));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, row, back, &row));
    if (out->dtype != CELL__F32) {
        cast.operands[0] = row;
        BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_I64, 1}, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

static const struct cell__operator down = {"Range", 2, 3, 1, " ", infer_down, lower_down, ""};

enum base_status cell__replace_down(struct cell__import *im, struct cell__node *node)
{
    struct cell__sym start;
    struct cell__tensor tensor = {.dtype = CELL__I64};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    if (node->op == NULL || strcmp(node->op->name, "Range") != 0 || !read_down(im, node, &start)) {
        return BASE_OK;
    }
    BASE_TRY(cell__tensor_shape(im, &tensor, 0, NULL));
    BASE_TRY(cell__tensor_alloc(im, &tensor, true, &data, &syms));
    syms[0] = start;
    node->op = &down;
    node->n_inputs = 2;
    return cell__value_constant(im, "", &tensor, &node->inputs[0]);
}

/* ---- The shift ----------------------------------------------------------------------------- */

/* Whether a Reshape's target is the leading axes of x, then these two numbers of elements; each may
 * be -1. */
static bool is_target(const struct cell__import *im, const struct cell__node *node,
                      const struct cell__shape *x, const struct cell__sym last[2])
{
    const struct cell__value *target =
        cell__has_input(node, 1) ? &im->values[node->inputs[1]] : NULL;
    uint32_t n_open = 0;
    if (target == NULL || target->kind != CELL__CONST || target->tensor.count != x->rank ||
        x->rank < 2) {
        return false;
    }
    for (uint32_t k = 0; k < x->rank; k++) {
        struct cell__sym sym;
        const bool is_last = k + 2 >= x->rank;
        const struct cell__sym own =
            is_last ? last[k + 2 - x->rank] : cell__sym_of_axis(im, &x->axes[k]);
        if (!read_sym(im, node, 1, k, &sym)) {
            return false;
        }
        if (cell__sym_is_number(&sym) && (sym.add == -1 || (sym.add == 0 && !is_last))) {
            n_open += sym.add == -1 ? 1 : 0;
        } else if (!is_same_number(im, &sym, &own)) {
            return false;
        }
    }
    return n_open <= 1;
}

/* Whether an axis gets 1 element more in front of it: x is input *of. */
static bool is_padded(const struct cell__import *im, const struct cell__node *node, uint32_t *of)
{
    struct cell__sym sym;
    *of = strcmp(node->op->name, "Concat") == 0 ? 1 : 0;
    if (*of == 1) {
        return node->n_inputs == 2 && cell__has_input(node, 0) && cell__has_input(node, 1);
    }
    const struct cell__value *x = &im->values[node->inputs[0]];
    const uint32_t rank = x->shape.rank;
    if (strcmp(node->op->name, "Pad") != 0 || x->kind != CELL__ROWS || cell__has_input(node, 3) ||
        read_sym(im, node, 1, 2 * rank, &sym)) {
        return false;
    }
    for (uint32_t k = 0; k < 2 * rank; k++) {
        if (!read_sym(im, node, 1, k, &sym) || !cell__sym_is_number(&sym) ||
            sym.add != (k + 1 == rank ? 1 : 0)) {
            return false;
        }
    }
    return true;
}

/* What makes input 0, of whatever operator. */
static const struct cell__node *maker_of(const struct cell__import *im,
                                         const struct cell__node *node)
{
    const uint32_t maker = cell__has_input(node, 0) ? im->values[node->inputs[0]].node : CELL__NONE;
    return maker == CELL__NONE || im->nodes[maker].op == NULL ? NULL : &im->nodes[maker];
}

/* Whether a Slice, the last node, cuts T of 2 T - 1 from the first on. */
static bool is_end(const struct cell__import *im, const struct cell__node *node,
                   const struct cell__shape *x)
{
    const struct cell__axis *steps = &x->axes[x->rank - 2];
    const struct cell__sym size = cell__sym_of_axis(im, steps);
    struct cell__sym bounds[2];
    uint32_t axis = 0;
    return read_slice(im, node, x->rank, bounds, &axis) && axis == x->rank - 1 &&
           cell__sym_is_number(&bounds[0]) && bounds[0].add == 0 &&
           (is_same_number(im, &bounds[1], &size) ||
            (bounds[1].add == 0 && bounds[1].factor == 1 &&
             cell__axis_is_mirror(im, &bounds[1].axis, steps)));
}

/* What a Reshape turns once it has been padded in front: floats, by its number of value; or NONE.
 */
static uint32_t padded_value(const struct cell__import *im, const struct cell__node *turned)
{
    const struct cell__node *padded = turned == NULL ? NULL : maker_of(im, turned);
    uint32_t of = 0;
    if (padded == NULL || !is_padded(im, padded, &of)) {
        return CELL__NONE;
    }
    const struct cell__value *x = &im->values[padded->inputs[of]];
    const bool is = x->kind == CELL__ROWS && x->shape.rank >= 2 && x->dtype == CELL__F32;
    return is ? padded->inputs[of] : CELL__NONE;
}

/* Whether a Slice leaves all but the first of the last axis but one. */
static bool is_but_first(const struct cell__import *im, const struct cell__node *node,
                         uint32_t rank)
{
    struct cell__sym bounds[2];
    uint32_t axis = 0;
    return read_slice(im, node, rank, bounds, &axis) && axis == rank - 2 &&
           cell__sym_is_number(&bounds[0]) && bounds[0].add == 1 &&
           cell__sym_is_number(&bounds[1]) && bounds[1].add >= INT32_MAX;
}

/* The value that a Slice is the end of a shift of, or NONE. */
static uint32_t shifted_by(const struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *again = cell__made_by(im, node, 0, "Reshape");
    const struct cell__node *but_first = cell__made_by(im, again, 0, "Slice");
    const struct cell__node *turned = cell__made_by(im, but_first, 0, "Reshape");
    const uint32_t of = padded_value(im, turned);
    if (of == CELL__NONE) {
        return CELL__NONE;
    }
    const struct cell__value *x = &im->values[of];
    const uint32_t rank = x->shape.rank;
    if (!cell__axis_is_distances(im, &x->shape.axes[rank - 1], &x->shape.axes[rank - 2])) {
        return CELL__NONE;
    }
    const struct cell__sym steps = cell__sym_of_axis(im, &x->shape.axes[rank - 2]);
    struct cell__sym distances = cell__sym_of_axis(im, &x->shape.axes[rank - 1]);
    const struct cell__sym shape[2] = {steps, distances};
    distances.add++;
    const struct cell__sym turned_shape[2] = {distances, steps};
    const bool is = is_target(im, turned, &x->shape, turned_shape) &&
                    is_target(im, again, &x->shape, shape) && is_end(im, node, &x->shape) &&
                    is_but_first(im, but_first, rank);
    return is ? of : CELL__NONE;
}

static enum base_status infer_shift(struct cell__import *im, struct cell__node *node)
{
    struct cell__shape shape = cell__input(im, node, 0)->shape;
    const struct cell__axis steps = shape.axes[shape.rank - 2];
    BASE_TRY(cell__axis_mirror(im, &steps, &shape.axes[shape.rank - 1]));
    cell__set_rows(im, node, 0, CELL__F32, &shape);
    return BASE_OK;
}

/* The row has the distances' times: now it is one of pairs. */
static enum base_status lower_shift(struct cell__import *im, struct cell__node *node)
{
    const uint32_t of = cell__input(im, node, 0)->row;
    const struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {of}};
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_op_as_is(im, &copy, im->rows[of].value, &row));
    im->rows[row].times = cell__shape_times(im, &cell__output(im, node, 0)->shape);
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

static const struct cell__operator shift = {"Slice", 1, 5, 1, " ", infer_shift, lower_shift, ""};

/* The value that a Slice is the end of a shift of, by positions of steps behind; or NONE. */
static uint32_t shifted_behind(const struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *turned = cell__made_by(im, node, 0, "Reshape");
    const uint32_t of = padded_value(im, turned);
    if (of == CELL__NONE) {
        return CELL__NONE;
    }
    const struct cell__value *x = &im->values[of];
    const uint32_t rank = x->shape.rank;
    if (!cell__axis_is_behind(im, &x->shape.axes[rank - 1], &x->shape.axes[rank - 2])) {
        return CELL__NONE;
    }
    const struct cell__sym steps = cell__sym_of_axis(im, &x->shape.axes[rank - 2]);
    struct cell__sym more = steps;
    more.add++;
    const struct cell__sym turned_shape[2] = {more, steps};
    const bool is = is_target(im, turned, &x->shape, turned_shape) && is_but_first(im, node, rank);
    return is ? of : CELL__NONE;
}

/* A Reshape behind it to the shape that it has. */
static const struct cell__operator same = {
    "Reshape", 1, 2, 1, " allowzero ", cell__infer_identity, cell__lower_identity, ""};

static bool is_same_shape(const struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *end = cell__made_by(im, node, 0, "Slice");
    const struct cell__value *in = end == NULL ? NULL : &im->values[node->inputs[0]];
    if (end == NULL || end->op != &shift || in->kind != CELL__ROWS) {
        return false;
    }
    const struct cell__sym steps = cell__sym_of_axis(im, &in->shape.axes[in->shape.rank - 2]);
    const struct cell__sym last[2] = {steps, steps};
    return is_target(im, node, &in->shape, last);
}

/* ---- Gathered ------------------------------------------------------------------------------- */

/* Whether an input is T - 1 - i of each step i, as many times as there are rows of `before`. */
static bool is_down_repeated(const struct cell__import *im, const struct cell__node *node,
                             uint32_t i, const struct cell__shape *before,
                             const struct cell__axis *steps)
{
    const struct cell__node *column = cell__made_by(im, node, i, "Unsqueeze");
    const struct cell__node *tile = cell__made_by(im, column, 0, "Tile");
    const struct cell__node *list = cell__made_by(im, tile, 0, "Expand");
    const struct cell__node *range = cell__made_by(im, list == NULL ? tile : list, 0, "Range");
    struct cell__sym sym;
    struct cell__sym rows = cell__sym_number(1);
    for (uint32_t k = 0; k < before->rank; k++) {
        const struct cell__sym size = cell__sym_of_axis(im, &before->axes[k]);
        const struct cell__sym those = rows;
        if (!cell__sym_compute(im, '*', &those, &size, &rows)) {
            return false;
        }
    }
    const bool is_column = column != NULL && read_sym(im, column, 1, 0, &sym) &&
                           cell__sym_is_number(&sym) && (sym.add == -1 || sym.add == 1);
    const bool is_list = list == NULL || (read_sym(im, list, 1, 0, &sym) &&
                                          im->values[list->inputs[1]].tensor.count == 1 &&
                                          cell__sym_is_number(&sym) && sym.add == 1);
    return is_column && is_list && range != NULL && range->op == &down &&
           read_sym(im, range, 0, 0, &sym) && cell__axis_is_same(im, &sym.axis, steps) &&
           read_sym(im, tile, 1, 0, &sym) && im->values[tile->inputs[1]].tensor.count == 1 &&
           cell__sym_equal(im, &sym, &rows) == 1;
}

/* Whether an input is j of each step j. */
static bool is_up(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                  const struct cell__sym *steps)
{
    const struct cell__node *range = cell__made_by(im, node, i, "Range");
    struct cell__sym bounds[3];
    for (uint32_t k = 0; k < 3; k++) {
        if (range == NULL || range->n_inputs != 3 || !read_sym(im, range, k, 0, &bounds[k])) {
            return false;
        }
    }
    return cell__sym_is_number(&bounds[0]) && bounds[0].add == 0 &&
           cell__sym_is_number(&bounds[2]) && bounds[2].add == 1 &&
           is_same_number(im, &bounds[1], steps);
}

/* Whether a Reshape's target is all before the last axis, and that. */
static bool is_flat_target(const struct cell__import *im, const struct cell__node *node,
                           const struct cell__shape *x)
{
    const struct cell__sym distances = cell__sym_of_axis(im, &x->axes[x->rank - 1]);
    struct cell__sym sym[2];
    return cell__has_input(node, 1) && im->values[node->inputs[1]].tensor.count == 2 &&
           read_sym(im, node, 1, 0, &sym[0]) && read_sym(im, node, 1, 1, &sym[1]) &&
           cell__sym_is_number(&sym[0]) && sym[0].add == -1 &&
           is_same_number(im, &sym[1], &distances);
}

/* The value with one for each step and distance of which a Reshape ends what gathers those of each
 * pair of steps, as Zipformer has it (Yao et al., ICLR 2024): of step i the numbers T - 1 - i + j.
 * NONE: it is none. */
static uint32_t gathered_of(const struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *gather = cell__made_by(im, node, 0, "GatherElements");
    const struct cell__node *flat = cell__made_by(im, gather, 0, "Reshape");
    const struct cell__node *add = cell__made_by(im, gather, 1, "Add");
    const Onnx__AttributeProto *along = gather == NULL ? NULL : cell__attr(gather, "axis");
    if (flat == NULL || add == NULL || add->n_inputs != 2 || along == NULL ||
        (along->i != 1 && along->i != -1) || !cell__has_input(flat, 0)) {
        return CELL__NONE;
    }
    const struct cell__value *x = &im->values[flat->inputs[0]];
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank < 2) {
        return CELL__NONE;
    }
    const uint32_t rank = x->shape.rank;
    const struct cell__axis *steps = &x->shape.axes[rank - 2];
    const struct cell__sym size = cell__sym_of_axis(im, steps);
    const struct cell__sym last[2] = {size, size};
    struct cell__shape before = x->shape;
    before.rank = rank - 2;
    const bool is = cell__axis_is_distances(im, &x->shape.axes[rank - 1], steps) &&
                    is_flat_target(im, flat, &x->shape) &&
                    is_down_repeated(im, add, 0, &before, steps) && is_up(im, add, 1, &size) &&
                    is_target(im, node, &x->shape, last);
    return is ? flat->inputs[0] : CELL__NONE;
}

static const struct cell__operator gathered = {"Reshape",     1,           2,           1,
                                               " allowzero ", infer_shift, lower_shift, ""};

/* ---- What stands for all of it --------------------------------------------------------------- */

static void replace_reshape(struct cell__import *im, struct cell__node *node)
{
    const uint32_t of = gathered_of(im, node);
    const bool is_same = of == CELL__NONE && is_same_shape(im, node);
    if (of != CELL__NONE) {
        node->op = &gathered;
        node->inputs[0] = of;
    } else if (is_same) {
        node->op = &same;
    }
    node->n_inputs = of != CELL__NONE || is_same ? 1 : node->n_inputs;
}

void cell__replace_shift(struct cell__import *im, struct cell__node *node)
{
    if (node->op == NULL || im->opset < 10) {
        return;
    }
    if (strcmp(node->op->name, "Reshape") == 0) {
        replace_reshape(im, node);
        return;
    }
    if (strcmp(node->op->name, "Slice") != 0) {
        return;
    }
    const uint32_t all = shifted_by(im, node);
    const uint32_t of = all != CELL__NONE ? all : shifted_behind(im, node);
    if (of != CELL__NONE) {
        node->op = &shift;
        node->inputs[0] = of;
        node->n_inputs = 1;
    }
}
