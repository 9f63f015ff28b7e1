/* Scan (opset 9 on) and Loop: a body of nodes that runs once a step. The driver reads it as a node
 * that begins it, the nodes of the body, whose rows make the chain's cell, and a node that ends it.
 *
 * | | Scan | Loop |
 * |---|---|---|
 * | begin reads | states, X | number of steps, condition, states and lists |
 * | begin gives | states, elements of X | number of the step, condition, states and lists |
 * | end reads | states, outputs | condition, states and lists, outputs |
 * | end gives | states, outputs | states and lists, outputs |
 *
 * A Loop takes its elements itself, by Gather or SequenceAt with the number of the step, and runs
 * as many steps as an axis is long. That axis, or the one that is scanned, is time. The batch is
 * the first axis longer than 1 of a state that has another one behind it, as exporters write
 * [batch, units]; a body that mixes rows along it is refused where it does so. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/import/scan.h"

#include "base/assert.h"

#include <string.h>

/* State s as the body reads it, and as it leaves it. */
static struct cell__value *state_in(struct cell__import *im, const struct cell__recurrent *scan,
                                    uint32_t s)
{
    return cell__output(im, &im->nodes[scan->begin_node],
                        cell__scan_begin_first(scan) + scan->carried[s]);
}

static struct cell__value *state_out(struct cell__import *im, const struct cell__node *end,
                                     const struct cell__recurrent *scan, uint32_t s)
{
    return cell__input(im, end, cell__scan_end_first(scan) + scan->carried[s]);
}

/* Whether carried value i is a state, and which; else a list. */
static bool is_state(const struct cell__recurrent *scan, uint32_t i, uint32_t *s)
{
    for (*s = 0; *s < scan->n_states; ++*s) {
        if (scan->carried[*s] == i) {
            return true;
        }
    }
    return false;
}

void cell__recurrent_takes(struct cell__import *im, uint32_t number,
                           const struct cell__value *sequence, bool is_from_end)
{
    struct cell__recurrent *recurrent = &im->recurrents[number];
    const bool is_turned = cell__is_turned_along(im, sequence, &recurrent->time) != is_from_end;
    recurrent->takes_forward = recurrent->takes_forward || !is_turned;
    recurrent->takes_turned = recurrent->takes_turned || is_turned;
}

/* ---- Attributes --------------------------------------------------------------------------- */

/* Whether n sequences are all taken, or given, backwards; some alone would meet others' steps. */
static enum base_status read_directions(struct cell__import *im, const struct cell__node *node,
                                        const char *name, uint32_t n, bool *is_reverse)
{
    struct cell__list directions;
    uint32_t reversed = 0;
    BASE_TRY(cell__attr_ints(im, node, name, &directions));
    for (uint32_t i = 0; directions.is_given && i < directions.n; i++) {
        if (directions.at[i] != 0 && directions.at[i] != 1) {
            return cell__invalid(im, "%s %lld", name, (long long)directions.at[i]);
        }
        reversed += directions.at[i] == 1 ? 1 : 0;
    }
    *is_reverse = reversed == n;
    return reversed == 0 || reversed == n
               ? BASE_OK
               : cell__refuse(im, "%s: some forward and some backward", name);
}

/* Axis number i of a list that may be left out: then 0. */
static enum base_status scan_axis(struct cell__import *im, const struct cell__node *node,
                                  const char *name, uint32_t i, uint32_t rank, uint32_t *out)
{
    struct cell__list axes;
    BASE_TRY(cell__attr_ints(im, node, name, &axes));
    if (axes.is_given && i >= axes.n) {
        return cell__invalid(im, "attribute %s has %u axes", name, axes.n);
    }
    return cell__axis_index(im, axes.is_given ? axes.at[i] : 0, rank, out);
}

/* ---- Begin -------------------------------------------------------------------------------- */

enum base_status cell__scan_check_begin(struct cell__import *im, const struct cell__node *node,
                                        uint32_t first)
{
    if (node->scan != CELL__NONE) {
        return cell__refuse(im, "inside the body of another Scan or Loop");
    }
    if (node->n_outputs != node->n_inputs || node->n_inputs < first) {
        return cell__invalid(im, "%u inputs, and its body %u", node->n_inputs, node->n_outputs);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if ((i >= first && !cell__has_input(node, i)) || !cell__has_output(node, i)) {
            return cell__invalid(im, "input %u is missing", i);
        }
    }
    return BASE_OK;
}

/* The next state, which is carried value i. */
enum base_status cell__scan_begin_state(struct cell__import *im, const struct cell__node *node,
                                        uint32_t i, struct cell__recurrent *scan)
{
    const uint32_t at = cell__scan_begin_first(scan) + i;
    const struct cell__value *init = cell__input(im, node, at);
    struct cell__shape shape;
    if (scan->n_states == CELL_STATES_MAX) {
        return cell__refuse(im, "more than %u state variables", CELL_STATES_MAX);
    }
    BASE_TRY(cell__shape_of(im, init, &shape));
    if (init->kind == CELL__CONST && init->tensor.count == 0) {
        return cell__invalid(im, "state variable %u has no elements", i);
    }
    scan->init_values[scan->n_states] = node->inputs[at];
    scan->carried[scan->n_states++] = i;
    cell__set_rows(im, node, at, init->dtype, &shape);
    return BASE_OK;
}

/* The first of a shape's axes that may be a batch: longer than 1, with another axis behind it or of
 * a size that the request chooses. */
static bool find_batch(const struct cell__import *im, const struct cell__shape *shape,
                       struct cell__axis *out)
{
    for (uint32_t k = 0; k < shape->rank; k++) {
        int64_t size = cell__axis_size(im, &shape->axes[k]);
        if (size < 0 || (size > 1 && k + 1 < shape->rank)) {
            *out = shape->axes[k];
            return true;
        }
    }
    return false;
}

/* By the first of what the body reads that has one. */
void cell__scan_choose_batch(struct cell__import *im, const struct cell__node *node,
                             struct cell__recurrent *scan)
{
    bool is_found = false;
    for (uint32_t i = cell__scan_begin_first(scan); i < node->n_inputs && !is_found; i++) {
        const struct cell__value *value = cell__output(im, node, i);
        is_found = value->kind == CELL__ROWS && find_batch(im, &value->shape, &scan->batch);
    }
}

/* ---- Begin of a Scan ---- */

/* Element of scan input i: X without its scan axis, which all scan inputs share. */
static enum base_status begin_element(struct cell__import *im, const struct cell__node *node,
                                      uint32_t i, struct cell__recurrent *scan)
{
    const struct cell__value *x = cell__input(im, node, scan->n_carried + i);
    uint32_t axis = 0;
    if (x->kind != CELL__ROWS) {
        return cell__refuse(im, "scan input %u does not depend on the request", i);
    }
    if (x->shape.rank == 0) {
        return cell__invalid(im, "scan input %u is a scalar", i);
    }
    BASE_TRY(scan_axis(im, node, "scan_input_axes", i, x->shape.rank, &axis));
    if (i == 0) {
        scan->time = x->shape.axes[axis];
    } else {
        BASE_TRY(cell__axis_unite(im, &x->shape.axes[axis], &scan->time, "scan axes"));
    }
    struct cell__shape element = {.rank = x->shape.rank - 1};
    for (uint32_t k = 0; k < element.rank; k++) {
        element.axes[k] = x->shape.axes[k < axis ? k : k + 1];
    }
    cell__set_rows(im, node, scan->n_carried + i, x->dtype, &element);
    return BASE_OK;
}

enum base_status cell__infer_scan(struct cell__import *im, struct cell__node *node)
{
    struct cell__recurrent scan = {.node = im->current,
                                   .word = "scan",
                                   .begin_node = im->current,
                                   .is_scan = true,
                                   .lengths_value = CELL__NONE};
    int64_t n_scanned = 0;
    if (im->opset < 9) {
        return cell__refuse(im, "as it was before opset 9");
    }
    BASE_TRY(cell__attr_int(im, node, "num_scan_inputs", 0, &n_scanned));
    if (n_scanned < 1 || n_scanned > node->n_inputs) {
        return cell__invalid(im, "num_scan_inputs %lld of %u inputs", (long long)n_scanned,
                             node->n_inputs);
    }
    BASE_TRY(cell__scan_check_begin(im, node, 0));
    BASE_TRY(
        read_directions(im, node, "scan_input_directions", (uint32_t)n_scanned, &scan.is_reverse));
    scan.n_carried = node->n_inputs - (uint32_t)n_scanned;
    for (uint32_t i = 0; i < scan.n_carried; i++) {
        BASE_TRY(cell__scan_begin_state(im, node, i, &scan));
    }
    for (uint32_t i = 0; i < (uint32_t)n_scanned; i++) {
        BASE_TRY(begin_element(im, node, i, &scan));
    }
    cell__scan_choose_batch(im, node, &scan);
    BASE_TRY(cell__recurrent_new(im, node, &scan));
    for (uint32_t i = scan.n_carried; i < node->n_inputs; i++) {
        cell__recurrent_takes(im, node->recurrent, cell__input(im, node, i), false);
    }
    return BASE_OK;
}

/* ---- Lowering the begin ---- */

/* Whether a model's input has the atom among its axes. */
static bool has_input(const struct cell__import *im, uint32_t root)
{
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        const struct cell__shape *shape = &im->values[im->inputs[i]].shape;
        for (uint32_t k = 0; k < shape->rank; k++) {
            if (shape->axes[k].n == 1 && cell__atom_root(im, shape->axes[k].atoms[0]) == root) {
                return true;
            }
        }
    }
    return false;
}

bool cell__is_given(const struct cell__import *im, const struct cell__axis *time)
{
    if (time->n != 1) {
        return false;
    }
    uint32_t root = cell__atom_root(im, time->atoms[0]);
    while (im->atoms[root].source != CELL__NONE) {
        root = cell__atom_root(im, im->atoms[root].source);
    }
    return has_input(im, root);
}

bool cell__has_lengths(const struct cell__import *im, const struct cell__axis *time)
{
    uint32_t at = time->n == 1 ? time->atoms[0] : CELL__NONE;
    while (at != CELL__NONE) {
        const struct cell__atom *atom = &im->atoms[cell__atom_root(im, at)];
        if (atom->role == CELL__ROLE_TIME && im->sequences[atom->sequence].uses_lengths) {
            return true;
        }
        at = atom->source;
    }
    return false;
}

bool cell__is_told(const struct cell__import *im, const struct cell__axis *time)
{
    return (cell__is_given(im, time) || cell__axis_size(im, time) > 1) &&
           !cell__has_lengths(im, time);
}

enum base_status cell__row_of_step(struct cell__import *im, const struct cell__value *value,
                                   uint32_t recurrent, uint32_t *out)
{
    *out = value->row;
    return im->rows[value->row].times != 0 || cell__is_told(im, &im->recurrents[recurrent].time)
               ? BASE_OK
               : cell__refuse(im, "what it takes step by step is the same at every step, so a "
                                  "request cannot tell how many");
}

/* The row of a state's first value; NONE for zeros. */
static enum base_status lower_init(struct cell__import *im, struct cell__recurrent *scan,
                                   uint32_t s, const struct cell__shape *shape)
{
    uint32_t row = CELL__NONE;
    scan->init_rows[s] = CELL__NONE;
    BASE_TRY(cell__row_of(im, &im->values[scan->init_values[s]], shape, false, &row));
    if (im->rows[row].times != 0) {
        return cell__refuse(im, "state variable %u begins with a whole sequence", s);
    }
    scan->states[s] = im->rows[row].value;
    if (cell__row_is_zero(im, row)) {
        return BASE_OK;
    }
    return cell__row_as_source(im, row, &scan->init_rows[s]);
}

/* A request must tell how many steps a Loop runs: by an input that has them as an axis. */
static enum base_status check_time(struct cell__import *im, const struct cell__recurrent *loop)
{
    return cell__is_given(im, &loop->time)
               ? BASE_OK
               : cell__refuse(im, "a number of steps that no input of the model has");
}

enum base_status cell__lower_scan(struct cell__import *im, struct cell__node *node)
{
    struct cell__recurrent *scan = &im->recurrents[node->recurrent];
    uint32_t row = CELL__NONE;
    if (scan->is_loop) {
        BASE_TRY(check_time(im, scan));
    }
    BASE_TRY(cell__recurrent_lengths(im, scan));
    for (uint32_t s = 0; s < scan->n_states; s++) {
        BASE_TRY(lower_init(im, scan, s, &state_in(im, scan, s)->shape));
        BASE_TRY(cell__row_recurrent(im, CELL__ROW_IN, node->recurrent, s, &row));
        cell__set_row(im, node, cell__scan_begin_first(scan) + scan->carried[s], row);
    }
    for (uint32_t i = scan->n_carried; i < node->n_inputs && !scan->is_loop; i++) {
        const struct cell__value *x = cell__input(im, node, i);
        BASE_TRY(cell__row_of_step(im, x, node->recurrent, &row));
        if (scan->takes_forward && cell__is_turned_along(im, x, &scan->time)) {
            BASE_TRY(cell__row_turned_steps(im, x, scan, &row)); // others are not
        }
        cell__set_row(im, node, i, row);
    }
    return BASE_OK;
}

/* ---- End ---------------------------------------------------------------------------------- */

/* A state goes out as it comes in. */
static enum base_status end_state(struct cell__import *im, const struct cell__node *node,
                                  uint32_t s, const struct cell__recurrent *scan)
{
    const struct cell__value *in = state_in(im, scan, s);
    const struct cell__value *next = state_out(im, node, scan, s);
    struct cell__shape shape;
    if (next->kind != CELL__CONST && next->kind != CELL__ROWS) {
        return cell__refuse(im, "state variable %u becomes no tensor", s);
    }
    BASE_TRY(cell__shape_of(im, next, &shape));
    if (next->dtype != in->dtype || shape.rank != in->shape.rank) {
        return cell__invalid(im, "state variable %u changes its type or rank", s);
    }
    for (uint32_t k = 0; k < shape.rank; k++) {
        BASE_TRY(cell__axis_unite(im, &shape.axes[k], &in->shape.axes[k], "of a state variable"));
    }
    cell__set_rows(im, node, scan->carried[s], in->dtype, &in->shape);
    return BASE_OK;
}

/* A carried list: each step puts one element behind it. */
static enum base_status end_list(struct cell__import *im, const struct cell__node *node, uint32_t i,
                                 const struct cell__recurrent *scan)
{
    const struct cell__value *grown = cell__input(im, node, cell__scan_end_first(scan) + i);
    const struct cell__node *begin = &im->nodes[scan->begin_node];
    const struct cell__node *insert = grown->node == CELL__NONE ? NULL : &im->nodes[grown->node];
    if (grown->kind != CELL__LIST || insert == NULL ||
        insert->op->infer != cell__infer_list_insert ||
        insert->inputs[0] != begin->outputs[cell__scan_begin_first(scan) + i]) {
        return cell__refuse(im, "carries a sequence to which not every step adds one element");
    }
    struct cell__shape whole = {.rank = grown->shape.rank + 1};
    if (whole.rank > CELL_RANK_MAX) {
        return cell__refuse(im, "a sequence of tensors of rank %u", grown->shape.rank);
    }
    whole.axes[0] = scan->time;
    memcpy(&whole.axes[1], grown->shape.axes, grown->shape.rank * sizeof(whole.axes[0]));
    cell__set_list(im, node, i, grown->dtype, &whole, 0);
    return BASE_OK;
}

/* Carried value i, which is no state. */
static enum base_status end_carried(struct cell__import *im, const struct cell__node *node,
                                    uint32_t i, const struct cell__recurrent *scan)
{
    const struct cell__node *begin = &im->nodes[scan->begin_node];
    const struct cell__value *in = cell__output(im, begin, cell__scan_begin_first(scan) + i);
    if (in->kind == CELL__CONST) {
        cell__set_const(im, node, i, &in->tensor);
        return BASE_OK;
    }
    return in->kind == CELL__COUNTER ? cell__loop_end_counter(im, node, i, scan)
                                     : end_list(im, node, i, scan);
}

/* Output k behind the carried ones, with the time axis put in. */
static enum base_status end_output(struct cell__import *im, const struct cell__node *node,
                                   uint32_t k, const struct cell__recurrent *scan)
{
    const struct cell__value *value =
        cell__input(im, node, cell__scan_end_first(scan) + scan->n_carried + k);
    struct cell__shape shape = {.rank = value->shape.rank + 1};
    uint32_t axis = 0;
    if (value->kind != CELL__ROWS) {
        return cell__refuse(im, "scan output %u is the same at every step, or no tensor", k);
    }
    if (shape.rank > CELL_RANK_MAX) {
        return cell__refuse(im, "scan output %u of rank %u", k, shape.rank);
    }
    BASE_TRY(scan_axis(im, node, "scan_output_axes", k, shape.rank, &axis));
    for (uint32_t i = 0; i < shape.rank; i++) {
        shape.axes[i] = i == axis ? scan->time : value->shape.axes[i < axis ? i : i - 1];
    }
    cell__set_rows(im, node, scan->n_carried + k, value->dtype, &shape);
    return BASE_OK;
}

/* What it took was turned round: so it runs the other way, and what it gives step by step is
 * turned as well. */
static enum base_status end_turned(struct cell__import *im, const struct cell__node *node,
                                   struct cell__recurrent *scan)
{
    scan->is_reverse = !scan->is_reverse;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct cell__value *out = cell__has_output(node, i) ? cell__output(im, node, i) : NULL;
        if (out != NULL && (i >= scan->n_carried || out->kind == CELL__LIST)) {
            if (scan->time.n != 1) {
                return cell__refuse(im, "turns round several axes");
            }
            out->is_turned = true;
            out->turned = scan->time.atoms[0];
        }
    }
    return BASE_OK;
}

/* Lists to which each step adds an element in front are the other way round, too. */
static enum base_status end_in_front(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__recurrent *scan)
{
    for (uint32_t i = 0; i < scan->n_carried; i++) {
        const struct cell__value *grown = cell__input(im, node, cell__scan_end_first(scan) + i);
        struct cell__value *out = cell__has_output(node, i) ? cell__output(im, node, i) : NULL;
        if (out == NULL || out->kind != CELL__LIST ||
            !cell__has_input(&im->nodes[grown->node], 2)) {
            continue;
        }
        if (scan->time.n != 1) {
            return cell__refuse(im, "turns round several axes");
        }
        out->is_turned = !out->is_turned;
        out->turned = scan->time.atoms[0];
    }
    return BASE_OK;
}

static enum base_status check_end(struct cell__import *im, const struct cell__node *node,
                                  const struct cell__recurrent *scan)
{
    const uint32_t first = cell__scan_end_first(scan);
    if (node->n_inputs < first + scan->n_carried || node->n_outputs > node->n_inputs - first) {
        return cell__invalid(im, "the body has %u outputs, the node %u", node->n_inputs,
                             node->n_outputs);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!cell__has_input(node, i)) {
            return cell__invalid(im, "the body lacks output %u", i);
        }
    }
    return scan->is_loop ? cell__loop_check_end(im, node, scan) : BASE_OK;
}

enum base_status cell__infer_scan_end(struct cell__import *im, struct cell__node *node)
{
    if (node->recurrent == CELL__NONE) {
        return cell__invalid(im, "has no body");
    }
    struct cell__recurrent *scan = &im->recurrents[node->recurrent];
    BASE_TRY(check_end(im, node, scan));
    scan->node = im->current;
    for (uint32_t i = 0; i < scan->n_carried; i++) {
        uint32_t s = 0;
        BASE_TRY(is_state(scan, i, &s) ? end_state(im, node, s, scan)
                                       : end_carried(im, node, i, scan));
    }
    const uint32_t n_outputs = node->n_inputs - cell__scan_end_first(scan) - scan->n_carried;
    bool is_reverse = scan->is_reverse;
    const bool is_from_end = scan->takes_turned && !scan->takes_forward;
    if (n_outputs > 0 && !scan->is_loop) {
        BASE_TRY(read_directions(im, node, "scan_output_directions", n_outputs, &is_reverse));
    }
    if (is_reverse != scan->is_reverse) {
        return cell__refuse(im, "takes its inputs in one direction and gives its outputs in the "
                                "other");
    }
    for (uint32_t k = 0; k < n_outputs; k++) {
        BASE_TRY(end_output(im, node, k, scan));
    }
    BASE_TRY(is_from_end ? end_turned(im, node, scan) : BASE_OK);
    return end_in_front(im, node, scan);
}

/* The row of a state's next value. */
static enum base_status lower_next(struct cell__import *im, const struct cell__node *node,
                                   uint32_t s, struct cell__recurrent *scan)
{
    const struct cell__shape *shape = &state_in(im, scan, s)->shape;
    BASE_TRY(cell__row_of(im, state_out(im, node, scan, s), shape, false, &scan->next_rows[s]));
    struct cell_value value = im->rows[scan->next_rows[s]].value;
    if (value.dtype != scan->states[s].dtype || value.width != scan->states[s].width) {
        return cell__refuse(im, "state variable %u of %u elements becomes one of %u", s,
                            scan->states[s].width, value.width);
    }
    return BASE_OK;
}

/* The row outside of what the body computes at each step. What it only hands on keeps its row. */
static enum base_status lower_output(struct cell__import *im, uint32_t number, uint32_t row,
                                     uint32_t *out)
{
    struct cell__recurrent *scan = &im->recurrents[number];
    if (im->rows[row].kind == CELL__ROW_IN) { // only what a cell computes can be handed out
        struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {row}};
        im->scan = number;
        enum base_status status = cell__row_op(im, &copy, im->rows[row].value, &row);
        im->scan = CELL__NONE;
        BASE_TRY(status);
    }
    *out = row;
    if (im->rows[row].chain != number) {
        return im->rows[row].times != 0 ? BASE_OK
                                        : cell__refuse(im, "repeats one row at every step");
    }
    if (scan->n_outputs == CELL_OUTPUTS_MAX) {
        return cell__refuse(im, "more than %u outputs of a step", CELL_OUTPUTS_MAX);
    }
    scan->output_rows[scan->n_outputs++] = row;
    return cell__row_recurrent(im, CELL__ROW_STEP, number, scan->n_outputs - 1, out);
}

enum base_status cell__lower_scan_end(struct cell__import *im, struct cell__node *node)
{
    struct cell__recurrent *scan = &im->recurrents[node->recurrent];
    for (uint32_t s = 0; s < scan->n_states; s++) {
        BASE_TRY(lower_next(im, node, s, scan));
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        uint32_t row = CELL__NONE;
        uint32_t s = 0;
        if (!cell__has_output(node, i) || cell__output(im, node, i)->kind == CELL__CONST) {
            continue;
        }
        if (is_state(scan, i, &s)) {
            BASE_TRY(cell__row_recurrent(im, CELL__ROW_STATE, node->recurrent, s, &row));
        } else {
            uint32_t computed = cell__input(im, node, cell__scan_end_first(scan) + i)->row;
            BASE_TRY(lower_output(im, node->recurrent, computed, &row));
        }
        cell__set_row(im, node, i, row);
    }
    return BASE_OK;
}
