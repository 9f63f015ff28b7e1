/* See ops.h. A sequence whose steps are turned round, the last one first: what exporters make of a
 * layer that runs backwards (tf2onnx: ReverseSequence, torch.flip: Slice by -1). Nothing is moved:
 * the value keeps the rows of what it was made of and is marked, and so is all that is computed of
 * it step by step. A recurrent node that takes such a value runs the other way round, its first
 * step is the last one, and turned once more it is what it was. Where others want the steps in
 * their order, beside those of a sequence that is not turned, as neighbours or as an output, they
 * are moved after all: a join of one part (joined.c). */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

bool cell__is_turned_along(const struct cell__import *im, const struct cell__value *value,
                           const struct cell__axis *axis)
{
    const struct cell__shape alone = {.rank = 1, .axes = {*axis}};
    return value->is_turned && cell__shape_has_atom(im, &alone, value->turned);
}

enum base_status cell__turn(struct cell__import *im, const struct cell__node *node,
                            const struct cell__value *in, const struct cell__axis *axis)
{
    struct cell__value *out = cell__output(im, node, 0);
    if (axis->n == 0) {
        return BASE_OK; // one step alone
    }
    if (axis->n > 1 || (in->is_turned && !cell__is_turned_along(im, in, axis))) {
        return cell__refuse(im, "turns round several axes");
    }
    out->is_turned = !in->is_turned;
    out->turned = axis->atoms[0];
    return BASE_OK;
}

enum base_status cell__check_turned(struct cell__import *im, const struct cell__axis *axis)
{
    if (axis->n == 0) {
        return BASE_OK;
    }
    if (!cell__axis_has(im, axis, CELL__ROLE_TIME)) {
        return cell__refuse(im, "turns round an axis that is not the time of a recurrent node");
    }
    return cell__has_lengths(im, axis)
               ? cell__refuse(im, "beside sequence_lens, where ONNX would begin with what stands "
                                  "behind a shorter sequence")
               : BASE_OK;
}

/* ---- What is computed of it --------------------------------------------------------------- */

/* Each step of its outputs is made of the same step of its inputs. */
static bool is_stepwise(const struct cell__node *node)
{
    static cell__op_fn *const table[] = {
        cell__infer_identity,  cell__infer_dropout,    cell__infer_cast,
        cell__infer_transpose, cell__infer_squeeze,    cell__infer_unsqueeze,
        cell__infer_flatten,   cell__infer_reshape,    cell__infer_concat,
        cell__infer_split,     cell__infer_gather,     cell__infer_slice,
        cell__infer_binary,    cell__infer_unary,      cell__infer_softmax,
        cell__infer_softplus,  cell__infer_select,     cell__infer_same,
        cell__infer_pow,       cell__infer_clip,       cell__infer_function,
        cell__infer_prelu,     cell__infer_batch_norm, cell__infer_matmul,
        cell__infer_gemm,      cell__infer_layer_norm, cell__infer_list_split,
        cell__infer_list_join, cell__infer_reduce,     cell__infer_argmax,
        cell__infer_top,       cell__infer_quantise,   cell__infer_dequantise,
        cell__infer_dynamic};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (node->op->infer == table[i]) {
            return true;
        }
    }
    return false;
}

static bool is_tensor(const struct cell__value *value)
{
    return value->kind == CELL__ROWS || value->kind == CELL__LIST;
}

/* A Concat along the axis that is turned round in each of its inputs that has such an axis. It puts
 * the steps into their order when it is lowered, so that what it makes is not turned. */
static bool joins_turned(struct cell__import *im, const struct cell__node *node)
{
    int64_t attribute = 0;
    if (node->op->infer != cell__infer_concat ||
        cell__attr_int(im, node, "axis", 0, &attribute) != BASE_OK) {
        return false;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *in = cell__input(im, node, i);
        uint32_t axis = 0;
        if (is_tensor(in) && in->is_turned &&
            (cell__axis_index(im, attribute, in->shape.rank, &axis) != BASE_OK ||
             !cell__is_turned_along(im, in, &in->shape.axes[axis]))) {
            return false;
        }
    }
    return true;
}

/* They have looked at their inputs themselves. */
static bool looks_itself(struct cell__import *im, const struct cell__node *node)
{
    return node->op->infer == cell__infer_reverse || node->op->infer == cell__infer_recurrent ||
           node->op->infer == cell__infer_scan || node->op->infer == cell__infer_scan_end ||
           node->op->infer == cell__infer_loop || joins_turned(im, node);
}

static const struct cell__value *turned_input(struct cell__import *im,
                                              const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (cell__has_input(node, i) && is_tensor(cell__input(im, node, i)) &&
            cell__input(im, node, i)->is_turned) {
            return cell__input(im, node, i);
        }
    }
    return NULL;
}

/* A Gather or Slice that takes one step, or a part, of the turned axis itself: the step is found
 * when it is lowered, what turns is marked already. */
static bool takes_step(const struct cell__import *im, const struct cell__node *node,
                       const struct cell__shape *out, uint32_t atom)
{
    return (node->op->infer == cell__infer_gather || node->op->infer == cell__infer_slice) &&
           !cell__shape_has_atom(im, out, atom);
}

/* Of floats only, which joins are. */
static bool may_be_straight(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *in = cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        if (in != NULL && is_tensor(in) && in->is_turned &&
            (in->kind != CELL__ROWS || in->dtype != CELL__F32)) {
            return false;
        }
    }
    return node->scan == CELL__NONE;
}

static enum base_status straighten(struct cell__import *im, struct cell__node *node)
{
    node->takes_straight = may_be_straight(im, node);
    return node->takes_straight ? BASE_OK
                                : cell__refuse(im, "of a sequence whose steps are turned round");
}

enum base_status cell__infer_turned(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *turned = turned_input(im, node);
    bool is_const = true;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        is_const = is_const &&
                   (!cell__has_output(node, i) || cell__output(im, node, i)->kind == CELL__CONST);
    }
    if (turned == NULL || is_const || node->takes_straight || looks_itself(im, node) ||
        (node->op->infer == cell__infer_slice && cell__output(im, node, 0)->is_by_slice)) {
        return BASE_OK;
    }
    const uint32_t atom = turned->turned;
    for (uint32_t i = 0; i < node->n_inputs && is_stepwise(node); i++) {
        const struct cell__value *in = cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        if (in != NULL && is_tensor(in) && cell__shape_has_atom(im, &in->shape, atom) &&
            !in->is_turned) {
            return straighten(im, node);
        }
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct cell__value *out = cell__has_output(node, i) ? cell__output(im, node, i) : NULL;
        if (out == NULL || !is_tensor(out)) {
            continue;
        }
        const bool has = cell__shape_has_atom(im, &out->shape, atom);
        if (!is_stepwise(node) || (!has && !takes_step(im, node, &out->shape, atom))) {
            return straighten(im, node);
        }
        out->is_turned = has;
        out->turned = atom;
    }
    return BASE_OK;
}

/* ---- In their order ----------------------------------------------------------------------- */

enum base_status cell__row_straight(struct cell__import *im, const struct cell__value *value,
                                    uint32_t *row)
{
    const struct cell__axis axis = {.n = 1, .atoms = {value->turned}};
    const uint32_t times = cell__axis_times(im, &axis);
    const struct cell__joined joined = {.n = 1, .parts = {{value->row, true}}};
    *row = value->row;
    if (times != 0 && (im->rows[value->row].times & times) == 0) {
        return BASE_OK; // it is the same at every step
    }
    if (cell__is_pair(im->rows[value->row].times)) {
        return cell__refuse(im, "turns round pairs of steps");
    }
    BASE_TRY(cell__check_turned(im, &axis));
    return cell__row_join_steps(im, &joined, &axis, im->rows[value->row].value.width, row);
}

enum base_status cell__lower_straight(struct cell__import *im, struct cell__node *node)
{
    uint32_t rows[CELL__OPERANDS_MAX];
    bool are_turned[CELL__OPERANDS_MAX] = {false};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        struct cell__value *value = cell__has_input(node, i) ? &im->values[node->inputs[i]] : NULL;
        if (value == NULL || value->kind != CELL__ROWS || !value->is_turned) {
            continue;
        }
        are_turned[i] = true;
        rows[i] = value->row;
        BASE_TRY(cell__row_straight(im, value, &value->row));
        value->is_turned = false;
    }
    const enum base_status status = node->op->lower(im, node);
    for (uint32_t i = node->n_inputs; i-- > 0;) {
        if (are_turned[i]) {
            im->values[node->inputs[i]].row = rows[i];
            im->values[node->inputs[i]].is_turned = true;
        }
    }
    return status;
}

/* ---- ReverseSequence ---------------------------------------------------------------------- */

/* Whether input 1 says that all steps are turned: the size of the axis, once or for each row. */
static bool is_of_all(struct cell__import *im, const struct cell__node *node,
                      const struct cell__axis *axis)
{
    const struct cell__value *lengths = cell__input(im, node, 1);
    const struct cell__sym size = cell__sym_of_axis(im, axis);
    const struct cell__node *made = lengths->node == CELL__NONE ? NULL : &im->nodes[lengths->node];
    if (lengths->kind == CELL__ROWS && made != NULL && made->op->infer == cell__infer_expand) {
        lengths = cell__input(im, made, 0);
    }
    bool is_all = lengths->kind == CELL__CONST && lengths->dtype == CELL__I64;
    for (size_t i = 0; is_all && i < lengths->tensor.count; i++) {
        const struct cell__sym own = cell__tensor_sym(&lengths->tensor, i);
        is_all = cell__sym_equal(im, &own, &size) == 1;
    }
    return is_all;
}

static enum base_status reversed_axis(struct cell__import *im, const struct cell__node *node,
                                      int64_t *axis)
{
    const bool is_gather = strcmp(node->op->name, "Gather") == 0;
    return cell__attr_int(im, node, is_gather ? "axis" : "time_axis", 0, axis);
}

enum base_status cell__infer_reverse(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    int64_t attribute = 0;
    uint32_t axis = 0;
    BASE_TRY(reversed_axis(im, node, &attribute));
    if (in->kind != CELL__ROWS) {
        return cell__refuse(im, "of a constant");
    }
    BASE_TRY(cell__axis_index(im, attribute, in->shape.rank, &axis));
    if (cell__has_input(node, 1) && !is_of_all(im, node, &in->shape.axes[axis])) {
        return cell__refuse(im, "of some of the steps; only all of them are turned round");
    }
    node->inputs[1] = CELL__NONE; // nothing is computed with it
    cell__set_rows(im, node, 0, in->dtype, &in->shape);
    return cell__turn(im, node, in, &in->shape.axes[axis]);
}

enum base_status cell__lower_reverse(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    int64_t attribute = 0;
    uint32_t axis = 0;
    BASE_TRY(reversed_axis(im, node, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, in->shape.rank, &axis));
    BASE_TRY(cell__check_turned(im, &in->shape.axes[axis]));
    return cell__lower_identity(im, node);
}

/* ---- Gather -------------------------------------------------------------------------------------
 */

/* Whether input i of a node is one integer, what shapes make included. */
static bool read_integer(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                         struct cell__sym *out)
{
    const uint32_t v = i < node->n_inputs ? node->inputs[i] : CELL__NONE;
    if (v == CELL__NONE || im->values[v].kind != CELL__CONST || im->values[v].dtype != CELL__I64 ||
        im->values[v].tensor.count != 1) {
        return false;
    }
    *out = cell__tensor_sym(&im->values[v].tensor, 0);
    return true;
}

/* Whether its indices are (size - 1) - Range(0, size, 1) of the axis. */
static bool counts_down(struct cell__import *im, const struct cell__node *gather,
                        const struct cell__axis *axis)
{
    const struct cell__node *sub = cell__made_by(im, gather, 1, "Sub");
    const struct cell__node *range = cell__made_by(im, sub, 1, "Range");
    const struct cell__sym size = cell__sym_of_axis(im, axis);
    const struct cell__sym one = cell__sym_number(1);
    struct cell__sym last;
    struct cell__sym of[4]; // what is subtracted from, and the Range's
    if (range == NULL || !read_integer(im, sub, 0, &of[0]) || !read_integer(im, range, 0, &of[1]) ||
        !read_integer(im, range, 1, &of[2]) || !read_integer(im, range, 2, &of[3])) {
        return false;
    }
    return cell__sym_is(&of[1], 0) && cell__sym_is(&of[3], 1) &&
           cell__sym_equal(im, &of[2], &size) == 1 &&
           cell__sym_compute(im, '-', &size, &one, &last) &&
           cell__sym_equal(im, &of[0], &last) == 1;
}

static const struct cell__operator by_numbers = {
    "Gather", 1, 2, 1, " axis ", cell__infer_reverse, cell__lower_reverse, ""};

void cell__replace_reversed(struct cell__import *im, struct cell__node *node)
{
    int64_t attribute = 0;
    if (node->op == NULL || strcmp(node->op->name, "Gather") != 0 || node->n_inputs != 2 ||
        node->inputs[0] == CELL__NONE || im->values[node->inputs[0]].kind != CELL__ROWS) {
        return;
    }
    const struct cell__shape *shape = &im->values[node->inputs[0]].shape;
    const Onnx__AttributeProto *given = cell__attr(node, "axis");
    attribute = given == NULL ? 0 : given->i;
    attribute += attribute < 0 ? shape->rank : 0;
    if (attribute >= 0 && attribute < shape->rank &&
        counts_down(im, node, &shape->axes[attribute])) {
        node->op = &by_numbers;
        node->inputs[1] = CELL__NONE; // nothing is computed with it
    }
}
