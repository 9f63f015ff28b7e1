/* A cell's definition: a small op graph over rows, with its weights.
 *
 * A *row* is a vector of `width` elements of one dtype: what one request contributes to one batch.
 * There is no batch and no time axis here; they are what the scheduler adds. Values are numbered:
 * first the inputs, then the states as they come in, then one result (two of some) per op, in
 * the order of the ops, which is topological. Plain data; built by cells/import or by hand in
 * tests, checked by cell_def_check(), owned by whoever built it. */
#ifndef CELLS_DEF_H
#define CELLS_DEF_H

#include "base/status.h"
#include "cells/op.h"

#include <stdbool.h>
#include <stdint.h>

/* Limits of a definition; one beyond them is refused. */
#define CELL_VALUES_MAX  256u
#define CELL_OPS_MAX     128u
#define CELL_INPUTS_MAX  20u
#define CELL_STATES_MAX  14u /* a transducer's own six, and h and c of four layers */
#define CELL_OUTPUTS_MAX 16u

struct cell_def {
    uint32_t n_inputs, n_states, n_values, n_ops, n_outputs;
    struct cell_value values[CELL_VALUES_MAX]; /* inputs, states, results */
    struct cell_op ops[CELL_OPS_MAX];
    uint32_t state_next[CELL_STATES_MAX]; /* value that becomes state s of the next step */
    uint32_t outputs[CELL_OUTPUTS_MAX];   /* values that may be emitted */
    enum cell_products products;          /* of all ops */
    /* For measurements: a device computes each op on its own, and joins none to another. */
    bool as_written;
};

/* Whether an input is K or V of an ATTEND, or K of a REDUCE: many rows at every step. */
bool cell_def_input_has_rows(const struct cell_def *def, uint32_t input);

/* The elements of an input that are looked up, wherever they are taken from it, must be below this:
 * the rows of the smallest of their tables. 0: none is looked up. */
uint32_t cell_def_id_bound(const struct cell_def *def, uint32_t input);

/* Checks every number, shape, dtype and weight (finite, and so in its precision) above.
 * INVALID_ARGUMENT names the op and what is wrong; an unused op or value is allowed. */
enum base_status cell_def_check(const struct cell_def *def, struct base_error *error);

/* Of a definition that was refused: the first element of a weight that its op cannot hold, or NULL
 * where that was not why. */
const float *cell_def_bad_element(const struct cell_def *def);

#endif
