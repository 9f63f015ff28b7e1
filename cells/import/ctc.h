/* Labels in the place of numbers for each of them: struct cell_labels. */
#ifndef CELLS_IMPORT_CTC_H
#define CELLS_IMPORT_CTC_H

#include "cells/import/graph.h"

/* After all outputs are known: that which `of` names goes, and of it the number of the largest
 * element at each step and that element come behind the others, with their row expressions.
 * INVALID_ARGUMENT: no such output, or it is no row of floats at each step. */
enum base_status cell__ctc_choose(struct cell__import *im, const struct cell_ctc_of *of,
                                  struct cell_model *model, uint32_t (*rows)[CELL_PIECES_MAX]);

/* When the stages stand: the outputs that no cell makes, and the sequence of the labels. */
void cell__ctc_finish(struct cell_model *model);

#endif
