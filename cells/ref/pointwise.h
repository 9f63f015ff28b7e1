/* The element-wise ops' definition; see kernels.h. */
#ifndef CELLS_REF_POINTWISE_H
#define CELLS_REF_POINTWISE_H

#include "cells/kernels.h"

void cell_pointwise__scalar(const struct cell_pointwise *chain, float *const values[],
                            float *scratch);

#endif
