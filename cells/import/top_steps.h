/* The k largest, or smallest, of what the steps of a sequence have, element by element: TopK along
 * the steps, as k-max pooling has it. */
#ifndef CELLS_IMPORT_TOP_STEPS_H
#define CELLS_IMPORT_TOP_STEPS_H

#include "cells/import/graph.h"

/* Nodes that stand for this TopK, whose outputs have its names; NULL: it goes along no axis whose
 * size a request chooses, or k is larger than a few. In the import's arena. */
const Onnx__GraphProto *cell__write_top_steps(struct cell__import *im, const Onnx__NodeProto *top);

#endif
