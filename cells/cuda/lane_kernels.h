/* The kernels of one-SM lanes, as who launches them knows them; they are in lane__*.cu. */
#ifndef CELLS_CUDA_LANE_KERNELS_H
#define CELLS_CUDA_LANE_KERNELS_H

#include "cells/cuda/lane_args.h"

/* X(NAME). */
#define CELL_SM_KERNELS(X)                                                                         \
    X(cell_sm_lstm__f32_64)                                                                        \
    X(cell_sm_gru__f32_64)                                                                         \
    X(cell_sm_lstm__bf16_64)                                                                       \
    X(cell_sm_gru__bf16_64)                                                                        \
    X(cell_sm_lstm__bf16_128)                                                                      \
    X(cell_sm_gru__bf16_128)

#define CELL_SM_DECLARE(kernel) void kernel(struct cell_sm_args args);
CELL_SM_KERNELS(CELL_SM_DECLARE)
#undef CELL_SM_DECLARE

#endif
