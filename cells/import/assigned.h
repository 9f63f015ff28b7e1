/* Loops that put each step's result at its place of a tensor which they carry, as `out[:, t] = h`
 * does: written out as loops that collect results in a list. */
#ifndef CELLS_IMPORT_ASSIGNED_H
#define CELLS_IMPORT_ASSIGNED_H

#include "cells/import/graph.h"

/* Nodes that stand for this Loop, whose outputs have its names; NULL: it assigns nothing so. In the
 * import's arena. */
const Onnx__GraphProto *cell__write_assigned(struct cell__import *im, const Onnx__NodeProto *loop);

#endif
