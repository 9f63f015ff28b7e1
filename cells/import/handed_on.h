/* Loops that carry what no step changes, such as the sequence that their steps take elements of, as
 * jax2onnx writes them: written out as loops that read it from outside. */
#ifndef CELLS_IMPORT_HANDED_ON_H
#define CELLS_IMPORT_HANDED_ON_H

#include "cells/import/graph.h"

/* Nodes that stand for this Loop, whose outputs have its names; NULL: each step changes all that it
 * carries, constants aside. In the import's arena. */
const Onnx__GraphProto *cell__write_handed_on(struct cell__import *im, const Onnx__NodeProto *loop);

#endif
