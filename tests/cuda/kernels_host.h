/* The kernels of a step on a host: loops over items, phases and lanes, forwards or backwards. */
#ifndef TESTS_CUDA_KERNELS_HOST_H
#define TESTS_CUDA_KERNELS_HOST_H

#include "cells/cuda/step.h"

typedef void kernels_host_fn(const struct cell_step *step, uint32_t n_items, bool is_backwards);

/* Another function for a kernel from now on; NULL: its own. While no stream has work. */
void kernels_host_replace(enum cell_step_kernel kernel, kernels_host_fn *run);

void kernels_host_run(const struct cell_step *step, uint32_t n_items, bool is_backwards);

/* As a library may: from the last term to the first, and no operation fused. */
void kernels_host_product(const struct cell_step_product *product);

#endif
