/* Loops over some of the steps of a sequence, as `for t in range(1, n)` and `range(n - 1)` with
 * x[:, t] and x[:, t + 1]: written out as loops over all steps of parts of it. */
#ifndef CELLS_IMPORT_SOME_STEPS_H
#define CELLS_IMPORT_SOME_STEPS_H

#include "cells/import/graph.h"

/* Nodes that stand for this Loop, whose outputs have its names; NULL: it goes over all steps, or
 * over such as cannot be written out. In the import's arena. */
const Onnx__GraphProto *cell__write_some_steps(struct cell__import *im,
                                               const Onnx__NodeProto *loop);

#endif
