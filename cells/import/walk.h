/* From a graph's nodes in the file to those of the import, with what is known of their values.
 * Private to cells/import. */
#ifndef CELLS_IMPORT_WALK_H
#define CELLS_IMPORT_WALK_H

#include "cells/import/graph.h"

/* The graph's constants become values; one that cannot be read is poison. INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED. */
enum base_status cell__walk_constants(struct cell__import *im, const Onnx__GraphProto *graph);

/* Adds and infers all nodes of the model's graph; its inputs and constants are there. */
enum base_status cell__walk(struct cell__import *im);

#endif
