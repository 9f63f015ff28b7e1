/* Loop: what it has beside a Scan (op_scan.c): a number of steps, a condition, and values that it
 * carries and that are no states. tf2onnx (github.com/onnx/tensorflow-onnx) makes a Loop of each
 * `while` of TensorFlow: it carries weights, which each step hands on, and counters of its own. */
#include "cells/import/ops.h"
#include "cells/import/scan.h"

#include <string.h>

/* ---- Begin -------------------------------------------------------------------------------- */

/* The number of a constant of one, where it may be one of steps; else 0. */
static int64_t steps_of(const struct cell__value *value)
{
    float real = 0;
    if (value->kind != CELL__CONST || value->tensor.count != 1 || value->tensor.syms != NULL) {
        return 0;
    }
    if (value->dtype != CELL__F32) {
        return cell__tensor_sym(&value->tensor, 0).add;
    }
    memcpy(&real, value->tensor.data, sizeof(real));
    return real >= 1.0f && real < 16777216.0f ? (int64_t)real : 0;
}

static bool is_true(const struct cell__value *value)
{
    return value->kind == CELL__CONST && value->dtype == CELL__BOOL && value->tensor.count == 1 &&
           *(const uint8_t *)value->tensor.data != 0;
}

static const Onnx__GraphProto *body_of(const struct cell__node *node)
{
    const Onnx__AttributeProto *body = cell__attr(node, "body");
    return body == NULL ? NULL : body->g;
}

/* Whether the body hands carried value i on as it is, through nothing but Identity. */
static bool is_kept(const struct cell__node *node, uint32_t i)
{
    const Onnx__GraphProto *body = body_of(node);
    if (body == NULL || i + 2 >= body->n_input || i + 1 >= body->n_output) {
        return false;
    }
    const char *name = body->output[i + 1]->name;
    for (size_t n = body->n_node; n-- > 0 && name != NULL;) {
        const Onnx__NodeProto *proto = body->node[n];
        const bool makes = proto->n_output == 1 && strcmp(proto->output[0], name) == 0;
        if (makes && proto->n_input == 1 && proto->op_type != NULL &&
            strcmp(proto->op_type, "Identity") == 0) {
            name = proto->input[0];
        }
    }
    return name != NULL && body->input[i + 2]->name != NULL &&
           strcmp(name, body->input[i + 2]->name) == 0;
}

/* The number that a Loop carries as it is, where the condition it begins on is known to hold, as
 * ONNX Runtime folds it; 0: none. */
static int64_t carried_steps(struct cell__import *im, const struct cell__node *node)
{
    int64_t steps = 0;
    const bool holds = cell__has_input(node, 1) && is_true(cell__input(im, node, 1));
    for (uint32_t i = 0; holds && steps == 0 && i + 2 < node->n_inputs; i++) {
        const struct cell__value *init =
            cell__has_input(node, 2 + i) ? cell__input(im, node, 2 + i) : NULL;
        const bool is_whole =
            init != NULL && (init->dtype == CELL__I64 || init->dtype == CELL__I32);
        steps = is_whole && is_kept(node, i) ? steps_of(init) : 0;
    }
    return steps > 0 ? steps : 0;
}

/* The axis whose size the condition that a Loop begins on is computed with; the end of the body has
 * to end by it. */
static enum base_status condition_time(struct cell__import *im, const struct cell__node *node,
                                       struct cell__axis *out)
{
    uint32_t next[2] = {cell__has_input(node, 1) ? node->inputs[1] : CELL__NONE, CELL__NONE};
    while (next[0] != CELL__NONE) {
        const struct cell__value *value = &im->values[next[0]];
        if (value->kind == CELL__COUNTER && value->steps == 0 && value->count.add == 0 &&
            value->count.factor == 1) {
            *out = value->count.axis;
            return BASE_OK;
        }
        if (value->dtype != CELL__BOOL && steps_of(value) > 0) {
            return cell__axis_new(im, steps_of(value), out);
        }
        const struct cell__node *made = value->node == CELL__NONE ? NULL : &im->nodes[value->node];
        next[0] = next[1];
        next[1] = CELL__NONE;
        if (made != NULL && made->n_inputs == 2 && next[0] == CELL__NONE) {
            next[0] = made->inputs[0]; // of an And or a comparison
            next[1] = made->inputs[1];
        }
    }
    const int64_t steps = carried_steps(im, node);
    if (steps > 0) {
        return cell__axis_new(im, steps, out);
    }
    return cell__refuse(im, "without a number of steps, on a condition that has no axis's size");
}

/* The number of steps: the size of an axis. */
static enum base_status loop_time(struct cell__import *im, const struct cell__node *node,
                                  struct cell__axis *out)
{
    if (!cell__has_input(node, 0)) {
        return condition_time(im, node, out);
    }
    const struct cell__value *trips = cell__input(im, node, 0);
    const bool is_count =
        trips->kind == CELL__COUNTER && trips->steps == 0; // of range(n - 1, -1, -1)
    if (!is_count && (trips->kind != CELL__CONST || trips->tensor.count != 1)) {
        return cell__refuse(im, "a number of steps that is not the size of an axis");
    }
    if (trips->dtype != CELL__I64) {
        return cell__refuse(im, "a number of steps that is not the size of an axis");
    }
    struct cell__sym sym = is_count ? trips->count : cell__tensor_sym(&trips->tensor, 0);
    return cell__sym_axis(im, &sym, out);
}

/* The number of the step, and a condition that always holds. */
static enum base_status begin_counters(struct cell__import *im, const struct cell__node *node)
{
    static const uint8_t yes = 1;
    const struct cell__sym none = cell__sym_number(0);
    struct cell__tensor condition = {.dtype = CELL__BOOL, .count = 1, .data = &yes};
    if (cell__has_input(node, 1) && !is_true(cell__input(im, node, 1))) {
        return cell__refuse(im, "on a condition that may not hold");
    }
    cell__set_count(im, node, 0, CELL__I64, 1, &none);
    cell__set_const(im, node, 1, &condition);
    return BASE_OK;
}

/* A carried integer is a counter of the body's own, which the end checks. */
static bool is_counter(const struct cell__value *init)
{
    return init->kind == CELL__CONST && init->tensor.count == 1 &&
           (init->dtype == CELL__I64 || init->dtype == CELL__I32);
}

enum base_status cell__infer_loop(struct cell__import *im, struct cell__node *node)
{
    const struct cell__shape none = {.rank = 0};
    struct cell__recurrent loop = {.node = im->current,
                                   .begin_node = im->current,
                                   .word = "scan",
                                   .is_scan = true,
                                   .is_loop = true,
                                   .lengths_value = CELL__NONE};
    BASE_TRY(cell__scan_check_begin(im, node, 2));
    BASE_TRY(loop_time(im, node, &loop.time));
    BASE_TRY(begin_counters(im, node));
    loop.n_carried = node->n_inputs - 2;
    for (uint32_t i = 0; i < loop.n_carried; i++) {
        const struct cell__value *init = cell__input(im, node, 2 + i);
        if (init->kind == CELL__LIST && init->list_axis == CELL__NONE && init->n_heads == 0) {
            cell__set_list(im, node, 2 + i, init->dtype, &none, CELL__NONE);
        } else if (init->kind == CELL__CONST && is_kept(node, i)) {
            cell__set_const(im, node, 2 + i, &init->tensor);
        } else if (is_counter(init)) {
            const struct cell__sym first = cell__tensor_sym(&init->tensor, 0);
            const uint32_t rank = init->tensor.rank;
            cell__set_count(im, node, 2 + i, init->dtype, 1, &first);
            cell__output(im, node, 2 + i)->shape = (struct cell__shape){.rank = rank};
        } else if (init->kind == CELL__CONST || init->kind == CELL__ROWS) {
            BASE_TRY(cell__scan_begin_state(im, node, i, &loop));
        } else {
            return cell__refuse(im, "carries a sequence that is not empty at first");
        }
    }
    cell__scan_choose_batch(im, node, &loop);
    return cell__recurrent_new(im, node, &loop);
}

/* ---- End ---------------------------------------------------------------------------------- */

enum base_status cell__loop_check_end(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__recurrent *loop)
{
    const struct cell__value *goes_on = cell__input(im, node, 0);
    const bool is_until_last = goes_on->kind == CELL__COUNTER && goes_on->dtype == CELL__BOOL;
    const bool is_counted = cell__has_input(&im->nodes[loop->begin_node], 0);
    return is_until_last || (is_counted && is_true(goes_on))
               ? BASE_OK
               : cell__refuse(im, "ends on a condition");
}

enum base_status cell__loop_end_counter(struct cell__import *im, const struct cell__node *node,
                                        uint32_t i, const struct cell__recurrent *scan)
{
    const struct cell__node *begin = &im->nodes[scan->begin_node];
    const struct cell__value *in = cell__output(im, begin, cell__scan_begin_first(scan) + i);
    const struct cell__value *next = cell__input(im, node, cell__scan_end_first(scan) + i);
    const struct cell__sym one = cell__sym_number(1);
    const struct cell__sym steps = cell__sym_of_axis(im, &scan->time);
    struct cell__sym wanted;
    struct cell__tensor last = {.dtype = in->dtype};
    void *data = NULL;
    struct cell__sym *syms = NULL;
    if (next->kind != CELL__COUNTER || next->dtype != in->dtype || next->steps != 1 ||
        !cell__sym_compute(im, '+', &in->count, &one, &wanted) ||
        cell__sym_equal(im, &next->count, &wanted) != 1) {
        return cell__refuse(im, "carries a number that does not go up by 1 at every step");
    }
    BASE_TRY(cell__tensor_shape(im, &last, 0, NULL));
    BASE_TRY(cell__tensor_alloc(im, &last, true, &data, &syms));
    if (!cell__sym_compute(im, '+', &in->count, &steps, &syms[0])) {
        return cell__refuse(im, "carries a number that cannot be computed");
    }
    BASE_TRY(cell__tensor_settle(im, &last));
    cell__set_const(im, node, i, &last);
    return BASE_OK;
}
