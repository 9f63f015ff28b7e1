/* Lanes over the CUDA runtime: each kernel of one block on a stream of its own, so that nothing of
 * the device waits for one that stays. See driver.h.
 *
 * All that a launch needs is made by lane_open(), while no lane runs: a call that allocates, loads
 * or frees may wait for all kernels, and one of these does not end. Modules are loaded eagerly
 * (driver_cuda.c); the kernel is touched here all the same. */
#include "cells/cuda/driver_cuda.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cells/cuda/lane_kernels.h"

#include <string.h>

struct cell_cuda_lane {
    struct cell_cuda *cuda;
    cudaStream_t stream;
    const void *kernel;
    uint32_t threads, shared_bytes;
};

struct cell_cuda_room cell_cuda__room(const struct cudaDeviceProp *properties)
{
    return (struct cell_cuda_room){
        .sms = (uint32_t)properties->multiProcessorCount,
        .shared_block = (uint32_t)properties->sharedMemPerBlockOptin,
        .shared_sm = (uint32_t)properties->sharedMemPerMultiprocessor,
    };
}

/* The runtime knows a kernel by the address of the function that nvcc has made for the host. */
static const void *find_kernel(const char *name)
{
    static const struct {
        const char *name;
        void (*function)(struct cell_sm_args args);
    } kernels[] = {
#define CELL_SM_NAMED(kernel) {#kernel, kernel},
        CELL_SM_KERNELS(CELL_SM_NAMED)
#undef CELL_SM_NAMED
    };
    const void *found = NULL;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            memcpy(&found, &kernels[i].function, sizeof(found));
        }
    }
    return found;
}

/* What a block may ask for is the kernel's, not the lane's: so it is as much as the card has, or a
 * lane that asks for less would have those before it fail at their next launch. */
static cudaError_t prepare(struct cell_cuda_lane *lane)
{
    struct cudaFuncAttributes attributes = {0};
    cudaError_t status = cudaSetDevice(lane->cuda->card);
    status = status == cudaSuccess ? cudaFuncGetAttributes(&attributes, lane->kernel) : status;
    const size_t most = lane->cuda->room.shared_block - attributes.sharedSizeBytes;
    if (status == cudaSuccess && lane->shared_bytes > most) {
        status = cudaErrorInvalidValue;
    }
    status = status == cudaSuccess
                 ? cudaFuncSetAttribute(lane->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)most)
                 : status;
    return status == cudaSuccess ? cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking)
                                 : status;
}

enum base_status cell_cuda__lane_open(struct cell_cuda *cuda,
                                      const struct cell_cuda_lane_kernel *kernel,
                                      struct cell_cuda_lane **out, struct base_error *error)
{
    struct cell_cuda_lane *lane = base_alloc(sizeof(*lane));
    if (lane == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "a lane: out of memory");
    }
    *lane = (struct cell_cuda_lane){.cuda = cuda,
                                    .kernel = find_kernel(kernel->name),
                                    .threads = kernel->threads,
                                    .shared_bytes = kernel->shared_bytes};
    const cudaError_t status = lane->kernel == NULL ? cudaErrorInvalidValue : prepare(lane);
    if (status != cudaSuccess) {
        base_free(lane);
        return cell_cuda__status(status, kernel->name, error);
    }
    *out = lane;
    return BASE_OK;
}

void cell_cuda__lane_close(struct cell_cuda_lane *lane)
{
    if (cudaSetDevice(lane->cuda->card) == cudaSuccess) {
        (void)cudaStreamSynchronize(lane->stream);
        (void)cudaStreamDestroy(lane->stream);
    }
    base_free(lane);
}

/* An ordinary launch: one block cannot wait for another of its own. */
enum base_status cell_cuda__lane_launch(struct cell_cuda_lane *lane,
                                        const struct cell_sm_args *args)
{
    struct cell_sm_args copy = *args; // which the runtime takes a copy of before it returns
    void *parameters[] = {&copy};
    const dim3 one = {1, 1, 1};
    const dim3 threads = {lane->threads, 1, 1};
    cudaError_t status = cudaSetDevice(lane->cuda->card);
    if (status == cudaSuccess) {
        status = cudaLaunchKernel(lane->kernel, one, threads, parameters, lane->shared_bytes,
                                  lane->stream);
    }
    return cell_cuda__status(status, "cudaLaunchKernel", NULL);
}

/* Asked and not waited for: a kernel that does not end would hold whoever waits. */
enum base_status cell_cuda__lane_wait(struct cell_cuda_lane *lane, uint64_t most_ns)
{
    const uint64_t from_ns = base_now_ns();
    cudaError_t status = cudaSetDevice(lane->cuda->card);
    do {
        status = status == cudaSuccess || status == cudaErrorNotReady
                     ? cudaStreamQuery(lane->stream)
                     : status;
    } while (status == cudaErrorNotReady && base_now_ns() - from_ns < most_ns);
    return status == cudaErrorNotReady ? BASE_UNAVAILABLE
                                       : cell_cuda__status(status, lane->cuda->name, NULL);
}
