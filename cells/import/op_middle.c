/* A step whose number follows from how many there are, as of y[:, y.size(1) // 2]: the one in the
 * middle, or two thirds on. The number is computed of the number of steps, in floats, which hold it
 * exactly, and that step is picked (CELL_OP_PICK). It is one that there is, whatever the request.
 */
#include "cells/import/behind.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/import/select.h"

#include <string.h>

#define NUMBERS_MAX 32u
#define NUMBER_MAX  (1 << 12) /* beside numbers of steps, which floats hold exactly */

/* The axis of the data, and the number. */
struct middle {
    uint32_t axis, rank; /* rank of the index, 0 or 1 */
    struct cell__sym number;
};

static bool read_middle(struct cell__import *im, const struct cell__node *node, struct middle *out)
{
    const struct cell__value *data = cell__input(im, node, 0);
    const struct cell__value *index = cell__input(im, node, 1);
    const Onnx__AttributeProto *attribute = cell__attr(node, "axis");
    const int64_t axis = attribute == NULL ? 0 : attribute->i;
    struct cell__border border;
    if (data->kind != CELL__ROWS || index->kind != CELL__CONST || index->tensor.count != 1 ||
        index->tensor.rank > 1 || (index->dtype != CELL__I64 && index->dtype != CELL__I32)) {
        return false;
    }
    const int64_t rank = data->shape.rank;
    const int64_t from_front = axis < 0 ? axis + rank : axis;
    if (from_front < 0 || from_front >= rank) {
        return false;
    }
    *out = (struct middle){.axis = (uint32_t)from_front,
                           .rank = index->tensor.rank,
                           .number = cell__tensor_sym(&index->tensor, 0)};
    const struct cell__sym size = cell__sym_of_axis(im, &data->shape.axes[out->axis]);
    return !cell__sym_is_number(&size) && !cell__sym_is_number(&out->number) &&
           !cell__find_border(im, &out->number, &size, &border);
}

bool cell__is_middle(struct cell__import *im, const struct cell__node *node)
{
    struct middle middle;
    return read_middle(im, node, &middle);
}

/* The input of a node that integers depend on the request by; NONE: there is none, or several. */
static uint32_t open_input(const struct cell__import *im, const struct cell__node *node)
{
    uint32_t open = CELL__NONE;
    for (uint32_t i = 0; i < node->n_inputs && i < 2; i++) {
        const uint32_t v = node->inputs[i];
        const struct cell__value *value = v == CELL__NONE ? NULL : &im->values[v];
        if (value == NULL || value->kind != CELL__CONST || value->tensor.syms == NULL) {
            continue;
        }
        if (open != CELL__NONE || value->tensor.count != 1) {
            return CELL__NONE;
        }
        open = v;
    }
    return open;
}

/* Whether what divisions round in the number is not below 0: ONNX would round it up. What stands
 * between it and a Shape is followed back. */
static bool is_rounded_down(const struct cell__import *im, const struct cell__node *node,
                            const struct cell__axis *axis)
{
    uint32_t v = node->inputs[1];
    for (uint32_t i = 0; i < NUMBERS_MAX && v != CELL__NONE; i++) {
        const uint32_t maker = im->values[v].node;
        const struct cell__node *at = maker == CELL__NONE ? NULL : &im->nodes[maker];
        const char *name = at == NULL || at->op == NULL ? "" : at->op->name;
        const bool is_of_shape = cell__made_by(im, at, 0, "Shape") != NULL;
        if (strcmp(name, "Shape") == 0 || (strcmp(name, "Gather") == 0 && is_of_shape) ||
            (strcmp(name, "Slice") == 0 && is_of_shape)) {
            return true;
        }
        v = at == NULL ? CELL__NONE : open_input(im, at);
        if (strcmp(name, "Div") == 0 && v != CELL__NONE) {
            const struct cell__sym of = cell__tensor_sym(&im->values[v].tensor, 0);
            v = v == at->inputs[0] && cell__is_never_below(im, &of, axis) ? v : CELL__NONE;
        }
    }
    return false;
}

static enum base_status refuse(struct cell__import *im)
{
    return cell__refuse(im, "takes an element of an axis of unknown size by a number that depends "
                            "on the request, and is no step of it whatever the request");
}

enum base_status cell__infer_middle(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    struct cell__shape out = data->shape;
    struct middle middle;
    uint32_t root = 0;
    if (!read_middle(im, node, &middle) ||
        !cell__is_step_of(im, &middle.number, &out.axes[middle.axis], &root) ||
        !is_rounded_down(im, node, &out.axes[middle.axis])) {
        return refuse(im);
    }
    if (middle.rank == 1) {
        out.axes[middle.axis] = (struct cell__axis){.n = 0};
    } else {
        out.rank--;
        for (uint32_t k = middle.axis; k < out.rank; k++) {
            out.axes[k] = out.axes[k + 1];
        }
    }
    cell__set_rows(im, node, 0, data->dtype, &out);
    return BASE_OK;
}

/* *row: itself by an op and a number, where that changes it. */
static enum base_status by(struct cell__import *im, enum cell_op_kind kind, int64_t number,
                           uint32_t *row)
{
    uint32_t other = CELL__NONE;
    if (number == (kind == CELL_OP_ADD ? 0 : 1)) {
        return BASE_OK;
    }
    if (number > NUMBER_MAX || number < -NUMBER_MAX) {
        return cell__refuse(im, "takes an element by a number of which floats are not sure");
    }
    BASE_TRY(cell__row_number(im, (float)number, &other));
    return cell__row_pair(im, kind, *row, other, row);
}

/* How many steps an atom has, of *row, those of its source. */
static enum base_status steps_of(struct cell__import *im, const struct cell__atom *atom,
                                 uint32_t *row)
{
    struct cell_op floor = {.kind = CELL_OP_FLOOR, .n_operands = 1};
    if (atom->parts != 1) {
        return cell__refuse(im, "takes an element by a number of parts of steps");
    }
    BASE_TRY(by(im, CELL_OP_ADD, atom->add + atom->stride, row));
    if (atom->stride == 1) {
        return BASE_OK;
    }
    BASE_TRY(by(im, CELL_OP_DIV, atom->stride, row));
    floor.operands[0] = *row;
    return cell__row_op(im, &floor, (struct cell_value){CELL_F32, 1}, row);
}

/* The number, of the steps of atom `root`. */
static enum base_status number_of(struct cell__import *im, const struct cell__sym *number,
                                  uint32_t root, uint32_t *row)
{
    const struct cell__axis axis = {.n = 1, .atoms = {root}};
    const uint32_t times = cell__axis_times(im, &axis);
    uint32_t atoms[NUMBERS_MAX];
    uint32_t n = 0;
    if (times == 0) {
        return cell__refuse(im, "takes an element by a number of what are no steps");
    }
    for (uint32_t a = cell__atom_root(im, number->axis.atoms[0]); a != root && n < NUMBERS_MAX;
         a = cell__atom_root(im, im->atoms[a].source)) {
        atoms[n++] = a;
    }
    if (n == NUMBERS_MAX) {
        return refuse(im);
    }
    BASE_TRY(cell__row_steps(im, cell__only_sequence(times), row));
    while (n-- > 0) {
        BASE_TRY(steps_of(im, &im->atoms[atoms[n]], row));
    }
    BASE_TRY(by(im, CELL_OP_MUL, number->factor, row));
    return by(im, CELL_OP_ADD, number->add, row);
}

enum base_status cell__lower_middle(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, 0);
    struct cell_op pick = {.kind = CELL_OP_PICK, .n_operands = 2};
    struct middle middle;
    uint32_t root = 0;
    uint32_t row = CELL__NONE;
    if (!read_middle(im, node, &middle)) {
        return refuse(im);
    }
    const struct cell__axis *axis = &data->shape.axes[middle.axis];
    const uint32_t times = cell__axis_times(im, axis);
    if (times == 0 || cell__is_pair(times) || im->scan != CELL__NONE || im->feeds_back ||
        cell__is_turned_along(im, data, axis) || im->rows[data->row].times != times ||
        data->dtype != CELL__F32 || cell__sequence_has_lengths(im, cell__only_sequence(times))) {
        return cell__refuse(im, "takes a step by a number that depends on the request, of what is "
                                "no sequence of floats, is turned round, or has sequence_lens");
    }
    if (!cell__is_step_of(im, &middle.number, axis, &root)) { // axes may have become one since
        return refuse(im);
    }
    BASE_TRY(number_of(im, &middle.number, root, &pick.operands[1]));
    BASE_TRY(cell__row_memory(im, data->row, &pick.operands[0]));
    BASE_TRY(cell__row_op(im, &pick, im->rows[data->row].value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
