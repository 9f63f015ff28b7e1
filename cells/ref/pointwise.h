/* The element-wise ops' definition; see kernels.h. */
#ifndef CELLS_REF_POINTWISE_H
#define CELLS_REF_POINTWISE_H

#include "cells/kernels.h"

/* One element; b and c where the op has them. */
float cell_pointwise_f32__scalar(enum cell_op_kind kind, float a, float b, float c);

void cell_pointwise__scalar(const struct cell_pointwise *chain, float *const values[],
                            float *scratch);

void cell_filter__scalar(const struct cell_filter_run *run);

#endif
