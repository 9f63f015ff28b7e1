/* Launching the kernels of a step; see step.h. For driver_cuda.c. */
#ifndef CELLS_CUDA_STEP_KERNELS_H
#define CELLS_CUDA_STEP_KERNELS_H

#include "cells/cuda/step.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In stream order; returns at once. */
cudaError_t cell_step_launch(const struct cell_step *step, uint32_t n_items, cudaStream_t stream);

/* Has every kernel loaded onto the current device, and run once: a first launch while others run
 * could wait for them. Blocks. */
cudaError_t cell_step_load_all(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
