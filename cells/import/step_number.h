/* The number of a Loop's step, as far as a body computes with it: `h * 0.9 ** t`, `t % 2 == 0`, a
 * row of a table for each step. */
#ifndef CELLS_IMPORT_STEP_NUMBER_H
#define CELLS_IMPORT_STEP_NUMBER_H

#include "cells/import/graph.h"
#include "cells/import/writer.h"

/* Puts, for a node of a body, values that have rows in the place of its inputs that are numbers of
 * steps. *is_any: whether there was one. */
enum base_status cell__number_inputs(struct cell__import *im, struct cell__node *node,
                                     bool *is_any);

/* Sets the rows of such inputs, before the node is lowered. */
enum base_status cell__lower_number_inputs(struct cell__import *im, const struct cell__node *node);

/* A Slice of the one element whose number is that of the step, as `x[:, t : t + 1]` has it: the
 * element, and its axis. */
enum base_status cell__write_step_slice(struct cell__writer *w);

#endif
