/* Operators that are others, written out: a small graph stands for the node, which the importer
 * then walks as a branch. Their operators' infer is cell__infer_written, their lower
 * cell__lower_branch. */
#ifndef CELLS_IMPORT_WRITE_OUT_H
#define CELLS_IMPORT_WRITE_OUT_H

#include "cells/import/graph.h"

/* The graph of this node, whose operands' values are known as far as they are computed; NULL where
 * it is none of those operators, or cannot be written out: im->unwritten then says why. In the
 * import's arena. */
const Onnx__GraphProto *cell__write_out(struct cell__import *im, const Onnx__NodeProto *proto);

#endif
