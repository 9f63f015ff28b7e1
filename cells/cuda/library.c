/* What libcellbatch_cuda.so shows: `cuda`, whose products are cuBLASLt's, and `cuda-exact`, whose
 * products are a kernel with the CPU's bits. */
#include "cells/backend_library.h"
#include "cells/cuda/device.h"
#include "cells/cuda/driver_cuda.h"

static enum base_status open_library(const struct cell_device_options *options,
                                     struct cell_device **out, struct base_error *error)
{
    return cell_cuda_open(&cell_cuda_driver, CELL_CUDA_LIBRARY, options, out, error);
}

static enum base_status open_own(const struct cell_device_options *options,
                                 struct cell_device **out, struct base_error *error)
{
    return cell_cuda_open(&cell_cuda_driver, CELL_CUDA_OWN, options, out, error);
}

static const struct cell_backend cuda = CELL_CUDA_BACKEND("cuda", open_library);
static const struct cell_backend cuda_exact = CELL_CUDA_BACKEND("cuda-exact", open_own);

static const struct cell_backend *const backends[] = {&cuda, &cuda_exact, NULL};

extern const struct cell_backend_library cellbatch_backends_1;

__attribute__((visibility("default"))) const struct cell_backend_library cellbatch_backends_1 = {
    .sizes = CELL_LIBRARY_SIZES, .backends = backends};
