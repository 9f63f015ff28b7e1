/* Scan (opset 9 on): a body of nodes that runs once a step. The driver reads it as three things:
 *
 *   begin   inputs: the Scan's; outputs: the body's inputs, states without and elements of X
 * without their scan axis body    its nodes, like any others; their rows make the chain's cell end
 * inputs: the body's outputs; outputs: the Scan's
 *
 * The scan axis is time. The batch is the first axis longer than 1 of a state that has another one
 * behind it, as exporters write [batch, units]; a body that mixes rows along it is refused where it
 * does so. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

/* ---- Attributes --------------------------------------------------------------------------- */

static enum base_status check_directions(struct cell__import *im, const struct cell__node *node,
                                         const char *name)
{
    struct cell__list directions;
    BASE_TRY(cell__attr_ints(im, node, name, &directions));
    for (uint32_t i = 0; directions.is_given && i < directions.n; i++) {
        if (directions.at[i] != 0) {
            return cell__refuse(im, "%s other than 0: only forward is supported", name);
        }
    }
    return BASE_OK;
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

/* Element of scan input i: X without its scan axis, which all scan inputs share. */
static enum base_status begin_element(struct cell__import *im, const struct cell__node *node,
                                      uint32_t i, struct cell__recurrent *scan)
{
    const struct cell__value *x = cell__input(im, node, scan->n_states + i);
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
    cell__set_rows(im, node, scan->n_states + i, x->dtype, &element);
    return BASE_OK;
}

static enum base_status begin_state(struct cell__import *im, const struct cell__node *node,
                                    uint32_t s, struct cell__recurrent *scan)
{
    const struct cell__value *init = cell__input(im, node, s);
    struct cell__shape shape;
    BASE_TRY(cell__shape_of(im, init, &shape));
    if (init->kind == CELL__CONST && init->tensor.count == 0) {
        return cell__invalid(im, "state variable %u has no elements", s);
    }
    scan->init_values[s] = node->inputs[s];
    cell__set_rows(im, node, s, init->dtype, &shape);
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

/* num_scan_inputs, and what is left for states. */
static enum base_status count_inputs(struct cell__import *im, const struct cell__node *node,
                                     struct cell__recurrent *scan)
{
    int64_t n_scanned = 0;
    BASE_TRY(cell__attr_int(im, node, "num_scan_inputs", 0, &n_scanned));
    if (n_scanned < 1 || n_scanned > node->n_inputs || node->n_outputs != node->n_inputs) {
        return cell__invalid(im, "num_scan_inputs %lld, %u inputs, of the body %u",
                             (long long)n_scanned, node->n_inputs, node->n_outputs);
    }
    scan->n_states = node->n_inputs - (uint32_t)n_scanned;
    if (scan->n_states > CELL_STATES_MAX) {
        return cell__refuse(im, "%u state variables; at most %u", scan->n_states, CELL_STATES_MAX);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!cell__has_input(node, i) || !cell__has_output(node, i)) {
            return cell__invalid(im, "input %u is missing", i);
        }
    }
    return BASE_OK;
}

enum base_status cell__infer_scan(struct cell__import *im, struct cell__node *node)
{
    struct cell__recurrent scan = {.node = im->current,
                                   .begin_node = im->current,
                                   .is_scan = true,
                                   .lengths_value = CELL__NONE};
    if (im->opset < 9) {
        return cell__refuse(im, "as it was before opset 9");
    }
    if (node->scan != CELL__NONE) {
        return cell__refuse(im, "inside the body of another Scan");
    }
    BASE_TRY(check_directions(im, node, "scan_input_directions"));
    BASE_TRY(check_directions(im, node, "scan_output_directions"));
    BASE_TRY(count_inputs(im, node, &scan));
    for (uint32_t s = 0; s < scan.n_states; s++) {
        BASE_TRY(begin_state(im, node, s, &scan));
    }
    for (uint32_t i = 0; i < node->n_inputs - scan.n_states; i++) {
        BASE_TRY(begin_element(im, node, i, &scan));
    }
    bool is_found = false;
    for (uint32_t i = 0; i < node->n_inputs && !is_found; i++) {
        is_found = find_batch(im, &cell__output(im, node, i)->shape, &scan.batch);
    }
    return cell__recurrent_new(im, node, &scan);
}

/* The row of a state's first value; NONE for zeros. */
static enum base_status lower_init(struct cell__import *im, struct cell__recurrent *scan,
                                   uint32_t s, const struct cell__shape *shape)
{
    uint32_t row = CELL__NONE;
    scan->init_rows[s] = CELL__NONE;
    BASE_TRY(cell__row_of(im, &im->values[scan->init_values[s]], shape, false, &row));
    if (im->rows[row].is_timed) {
        return cell__refuse(im, "state variable %u begins with a whole sequence", s);
    }
    scan->states[s] = im->rows[row].value;
    if (cell__row_is_zero(im, row)) {
        return BASE_OK;
    }
    return cell__row_as_source(im, row, &scan->init_rows[s]);
}

enum base_status cell__lower_scan(struct cell__import *im, struct cell__node *node)
{
    struct cell__recurrent *scan = &im->recurrents[node->recurrent];
    BASE_TRY(cell__recurrent_lengths(im, scan));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t row = CELL__NONE;
        if (i < scan->n_states) {
            BASE_TRY(lower_init(im, scan, i, &cell__output(im, node, i)->shape));
            BASE_TRY(cell__row_recurrent(im, CELL__ROW_IN, node->recurrent, i, &row));
        } else {
            row = cell__input(im, node, i)->row;
            if (!im->rows[row].is_timed) {
                return cell__refuse(im,
                                    "scan input %u is the same at every step, so a request "
                                    "cannot tell how many",
                                    i - scan->n_states);
            }
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
    const struct cell__value *in = cell__output(im, &im->nodes[scan->begin_node], s);
    const struct cell__value *next = cell__input(im, node, s);
    struct cell__shape shape;
    BASE_TRY(cell__shape_of(im, next, &shape));
    if (next->dtype != in->dtype || shape.rank != in->shape.rank) {
        return cell__invalid(im, "state variable %u changes its type or rank", s);
    }
    for (uint32_t k = 0; k < shape.rank; k++) {
        BASE_TRY(cell__axis_unite(im, &shape.axes[k], &in->shape.axes[k], "of a state variable"));
    }
    cell__set_rows(im, node, s, in->dtype, &in->shape);
    return BASE_OK;
}

/* Scan output k, with the time axis put in. */
static enum base_status end_output(struct cell__import *im, const struct cell__node *node,
                                   uint32_t k, const struct cell__recurrent *scan)
{
    const struct cell__value *value = cell__input(im, node, scan->n_states + k);
    struct cell__shape shape = {.rank = value->shape.rank + 1};
    uint32_t axis = 0;
    if (value->kind != CELL__ROWS) {
        return cell__refuse(im, "scan output %u is the same at every step", k);
    }
    if (shape.rank > CELL_RANK_MAX) {
        return cell__refuse(im, "scan output %u of rank %u", k, shape.rank);
    }
    BASE_TRY(scan_axis(im, node, "scan_output_axes", k, shape.rank, &axis));
    for (uint32_t i = 0; i < shape.rank; i++) {
        shape.axes[i] = i == axis ? scan->time : value->shape.axes[i < axis ? i : i - 1];
    }
    cell__set_rows(im, node, scan->n_states + k, value->dtype, &shape);
    return BASE_OK;
}

enum base_status cell__infer_scan_end(struct cell__import *im, struct cell__node *node)
{
    if (node->recurrent == CELL__NONE) {
        return cell__invalid(im, "has no body");
    }
    struct cell__recurrent *scan = &im->recurrents[node->recurrent];
    if (node->n_inputs < scan->n_states || node->n_outputs > node->n_inputs) {
        return cell__invalid(im, "the body has %u outputs, the Scan %u", node->n_inputs,
                             node->n_outputs);
    }
    scan->node = im->current;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!cell__has_input(node, i)) {
            return cell__invalid(im, "the body lacks output %u", i);
        }
        BASE_TRY(i < scan->n_states ? end_state(im, node, i, scan)
                                    : end_output(im, node, i - scan->n_states, scan));
    }
    return BASE_OK;
}

/* The row of a state's next value. */
static enum base_status lower_next(struct cell__import *im, const struct cell__node *node,
                                   uint32_t s, struct cell__recurrent *scan)
{
    const struct cell__value *in = cell__output(im, &im->nodes[scan->begin_node], s);
    BASE_TRY(cell__row_of(im, cell__input(im, node, s), &in->shape, false, &scan->next_rows[s]));
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
        return im->rows[row].is_timed ? BASE_OK : cell__refuse(im, "repeats one row at every step");
    }
    if (scan->n_outputs == CELL_OUTPUTS_MAX) {
        return cell__refuse(im, "more than %u scan outputs", CELL_OUTPUTS_MAX);
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
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint32_t row = CELL__NONE;
        if (!cell__has_output(node, i)) {
            continue;
        }
        if (i < scan->n_states) {
            BASE_TRY(cell__row_recurrent(im, CELL__ROW_STATE, node->recurrent, i, &row));
        } else {
            BASE_TRY(lower_output(im, node->recurrent, cell__input(im, node, i)->row, &row));
        }
        cell__set_row(im, node, i, row);
    }
    return BASE_OK;
}
