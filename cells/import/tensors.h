/* The model's inputs and outputs as the outside sees them. */
#ifndef CELLS_IMPORT_TENSORS_H
#define CELLS_IMPORT_TENSORS_H

#include "cells/import/graph.h"

/* Before inference: a value with fresh atoms for every graph input that is no constant. */
enum base_status cell__tensors_declare(struct cell__import *im);

/* After roles are known: model->inputs, and their row expressions. */
enum base_status cell__tensors_inputs(struct cell__import *im, struct cell_model *model);

/* After lowering: model->outputs and the row expression of each piece; id bounds of the inputs. */
enum base_status cell__tensors_outputs(struct cell__import *im, struct cell_model *model,
                                       uint32_t (*rows)[CELL_PIECES_MAX]);

#endif
