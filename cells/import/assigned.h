/* Loops that put each step's result at its place of a tensor which they carry, as `out[:, t] = h`
 * does, or behind others in a list: written out as loops that collect results in an empty list. */
#ifndef CELLS_IMPORT_ASSIGNED_H
#define CELLS_IMPORT_ASSIGNED_H

#include "cells/import/graph.h"

/* Nodes that stand for this Loop, whose outputs have its names; NULL: it assigns nothing so. In the
 * import's arena. */
const Onnx__GraphProto *cell__write_assigned(struct cell__import *im, const Onnx__NodeProto *loop);

/* The same for a Loop that carries a list which has elements at first: one that carries an empty
 * list, to which these are added in front when it is done. */
const Onnx__GraphProto *cell__write_headed(struct cell__import *im, const Onnx__NodeProto *loop);

#endif
