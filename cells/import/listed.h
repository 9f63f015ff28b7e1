/* Loops whose body reads a list that they carry: `hs[-1]` of what the steps before have put there,
 * or a list of states, one for each layer, of which each step puts others in their places. Written
 * out as loops that carry these as states. */
#ifndef CELLS_IMPORT_LISTED_H
#define CELLS_IMPORT_LISTED_H

#include "cells/import/graph.h"

/* Nodes that stand for this Loop, whose outputs have its names; NULL: it reads no list so. In the
 * import's arena. */
const Onnx__GraphProto *cell__write_listed(struct cell__import *im, const Onnx__NodeProto *loop);

#endif
