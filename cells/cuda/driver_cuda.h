/* The driver over the CUDA runtime and cuBLASLt; its inside, shared by driver_cuda.c and
 * products_cuda.c. */
#ifndef CELLS_CUDA_DRIVER_CUDA_H
#define CELLS_CUDA_DRIVER_CUDA_H

#include "cells/cuda/driver.h"

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

extern const struct cell_cuda_driver cell_cuda_driver;

#define CELL_CUDA__WORKSPACE ((size_t)32 << 20) /* NVIDIA's advice for Hopper; of a stream */
#define CELL_CUDA__SHAPES    2048u              /* products of all types */

/* A product with what cuBLASLt wants of it: one algorithm for all row counts, over weights in one
 * order, product.order. */
struct cell_cuda__shape {
    struct cell_step_product product; /* n_rows is not looked at */
    cublasLtMatmulDesc_t desc[CELL_STEP_ORDERS];
    cublasLtMatrixLayout_t weights[CELL_STEP_ORDERS];
    cublasLtMatmulAlgo_t algo;
};

struct cell_cuda {
    int card;
    struct cell_cuda_room room;
    char name[128];
    cudaStream_t loading; /* of what blocks */
    cublasLtHandle_t blas;
    CUresult (*write64)(CUstream, CUdeviceptr, cuuint64_t, unsigned);
    const struct cell_device_cache *cache; /* NULL: none */
    uint32_t n_shapes;
    struct cell_cuda__shape *shapes; /* [CELL_CUDA__SHAPES] */
};

struct cell_cuda_stream {
    struct cell_cuda *cuda;
    cudaStream_t stream;
    void *workspace; /* of its products */
};

/* A CUDA error in our words: out of memory, or lost. Where it is told, `what` was tried. */
enum base_status cell_cuda__status(cudaError_t status, const char *what, struct base_error *error);

/* ---- products_cuda.c ---- */

enum base_status cell_cuda__product_prepare(struct cell_cuda *cuda,
                                            struct cell_step_product *product,
                                            cell_step_address turned, struct base_error *error);
enum base_status cell_cuda__product(struct cell_cuda_stream *stream,
                                    const struct cell_step_product *product);
void cell_cuda__products_free(struct cell_cuda *cuda);

/* ---- lane_driver_cuda.c ---- */

/* What open() learns of the card. */
struct cell_cuda_room cell_cuda__room(const struct cudaDeviceProp *properties);
enum base_status cell_cuda__lane_open(struct cell_cuda *cuda,
                                      const struct cell_cuda_lane_kernel *kernel,
                                      struct cell_cuda_lane **out, struct base_error *error);
void cell_cuda__lane_close(struct cell_cuda_lane *lane);
enum base_status cell_cuda__lane_launch(struct cell_cuda_lane *lane,
                                        const struct cell_sm_args *args);
enum base_status cell_cuda__lane_wait(struct cell_cuda_lane *lane, uint64_t most_ns);

#endif
