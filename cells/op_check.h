/* Of cell_def_check(): one op. */
#ifndef CELLS_OP_CHECK_H
#define CELLS_OP_CHECK_H

#include "base/status.h"
#include "cells/def.h"

#include <stdint.h>

/* Counts, value numbers, weights, then shapes of op `index`, whose result must have value number
 * `next`. The definition's own counts and values are checked, and so are the ops before.
 * INVALID_ARGUMENT names the op and what is wrong. */
enum base_status cell__op_check(const struct cell_def *def, uint32_t index, uint32_t next,
                                struct base_error *error);

/* The first element of weight w that the op cannot hold: it is not finite, but for infinities that
 * SELECT alone may choose, or not in the op's precision; NULL: none, or it is no weight of floats
 * at all. */
const float *cell__op_bad_element(const struct cell_def *def, const struct cell_op *op, uint32_t w);

#endif
