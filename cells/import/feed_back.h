/* Outputs of a part that are its inputs at the next step. Private to cells/import. */
#ifndef CELLS_IMPORT_FEED_BACK_H
#define CELLS_IMPORT_FEED_BACK_H

#include "cells/import/graph.h"

/* What stages.c knows of the part's only stage. */
struct cell__fed {
    struct cell_def *def;
    struct cell_source *inputs; /* [CELL_INPUTS_MAX], of the definition's inputs */
    struct cell_source *init;   /* [CELL_STATES_MAX] */
};

/* Of the part's outputs each that is called like an input with "_next" behind it becomes a state:
 * the input goes from the definition's inputs to its states, and the output from the model's, but
 * for CELL_TOKEN's, which stays under the input's name. INVALID_ARGUMENT, UNIMPLEMENTED. */
enum base_status cell__feed_back(struct cell__import *im, struct cell_model *model,
                                 const struct cell__fed *fed);

#endif
