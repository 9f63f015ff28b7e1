/* An If in a body whose condition follows from the number of the step, as `if t % 2 == 0`: both
 * branches are computed, and each step takes what its condition says. */
#ifndef CELLS_IMPORT_CHOICE_H
#define CELLS_IMPORT_CHOICE_H

#include "cells/import/graph.h"

/* The nodes of both branches; its outputs are the condition and those of either. NULL: the If has
 * no such condition, or its branches name values alike. In the import's arena. */
const Onnx__GraphProto *cell__write_choice(struct cell__import *im, const Onnx__NodeProto *proto);

/* Stands behind them, for the If. */
extern const struct cell__operator cell__choice_end;

#endif
