/* Checks a definition before anything else looks at it: every later part of the program may then
 * index, multiply sizes and cast without asking again. Here what its parts say of each other; of
 * each op, op_check.c. Pure functions over the caller's data. */
#include "cells/def.h"

#include "cells/op_check.h"

#include <stdbool.h>
#include <stddef.h>

/* Counts and values: everything an index may later be compared with. */
static enum base_status check_frame(const struct cell_def *def, struct base_error *error)
{
    if (def->n_inputs > CELL_INPUTS_MAX || def->n_states > CELL_STATES_MAX ||
        def->n_outputs > CELL_OUTPUTS_MAX || def->n_ops > CELL_OPS_MAX ||
        def->n_values > CELL_VALUES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "too many inputs, states, outputs, ops or values");
    }
    if ((uint32_t)def->products >= CELL_PRODUCTS_COUNT) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "unknown precision of products");
    }
    uint32_t values = def->n_inputs + def->n_states;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        values += cell_op_results(def->ops[o].kind);
    }
    if (values != def->n_values) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%u values, but inputs, states and results make %u", def->n_values,
                         values);
    }
    for (uint32_t v = 0; v < def->n_values; v++) {
        if ((uint32_t)def->values[v].dtype > CELL_I32) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "value %u: unknown dtype", v);
        }
        if (def->values[v].width == 0 || def->values[v].width > CELL_WIDTH_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "value %u: width %u is not in 1..%u", v,
                             def->values[v].width, CELL_WIDTH_MAX);
        }
    }
    return BASE_OK;
}

static enum base_status check_ends(const struct cell_def *def, struct base_error *error)
{
    for (uint32_t s = 0; s < def->n_states; s++) {
        if (def->state_next[s] >= def->n_values) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "state %u: its next value does not exist", s);
        }
        const struct cell_value *state = &def->values[def->n_inputs + s];
        const struct cell_value *state_next = &def->values[def->state_next[s]];
        if (state->dtype != state_next->dtype || state->width != state_next->width) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "state %u: its next value differs in dtype or width", s);
        }
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        if (def->outputs[o] >= def->n_values) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "output %u: its value does not exist",
                             o);
        }
    }
    return BASE_OK;
}

bool cell_def_input_has_rows(const struct cell_def *def, uint32_t input)
{
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        for (uint32_t i = 0; i < op->n_operands; i++) {
            if (cell_op_takes_rows(op, i) && op->operands[i] == input) {
                return true;
            }
        }
    }
    return false;
}

/* The value that a value is made of by taking elements, or their type, alone. */
static uint32_t taken_from(const struct cell_def *def, uint32_t value)
{
    for (uint32_t o = def->n_ops; o-- > 0;) {
        const struct cell_op *op = &def->ops[o];
        const bool takes = op->kind == CELL_OP_SLICE || op->kind == CELL_OP_CAST ||
                           op->kind == CELL_OP_COPY || op->kind == CELL_OP_TRANSPOSE ||
                           op->kind == CELL_OP_SPREAD;
        value = takes && op->result == value ? op->operands[0] : value;
    }
    return value;
}

uint32_t cell_def_id_bound(const struct cell_def *def, uint32_t input)
{
    uint32_t bound = 0;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        if (op->kind == CELL_OP_GATHER && taken_from(def, op->operands[0]) == input) {
            const uint32_t rows = op->weights[0].rows;
            bound = bound == 0 || rows < bound ? rows : bound;
        }
    }
    return bound;
}

/* Whether anything takes the value for one row. */
static bool is_read_as_row(const struct cell_def *def, uint32_t value)
{
    bool is_read = false;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        for (uint32_t i = 0; i < op->n_operands; i++) {
            is_read |= !cell_op_takes_rows(op, i) && op->operands[i] == value;
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        is_read |= def->state_next[s] == value;
    }
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        is_read |= def->outputs[i] == value;
    }
    return is_read;
}

static enum base_status check_many_rows(const struct cell_def *def, struct base_error *error)
{
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (cell_def_input_has_rows(def, i) && is_read_as_row(def, i)) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input %u: one op takes it for many rows, another for one", i);
        }
    }
    return BASE_OK;
}

enum base_status cell_def_check(const struct cell_def *def, struct base_error *error)
{
    BASE_TRY(check_frame(def, error));
    uint32_t next = def->n_inputs + def->n_states;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        BASE_TRY(cell__op_check(def, o, next, error));
        next += cell_op_results(def->ops[o].kind);
    }
    BASE_TRY(check_many_rows(def, error));
    return check_ends(def, error);
}

const float *cell_def_bad_element(const struct cell_def *def)
{
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        for (uint32_t w = 0; w < op->n_weights; w++) {
            const float *element = cell__op_bad_element(def, op, w);
            if (element != NULL) {
                return element;
            }
        }
    }
    return NULL;
}
