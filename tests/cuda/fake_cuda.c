/* The driver on a card (cells/cuda/driver_cuda.c, lane_driver_cuda.c) over a CUDA runtime that is
 * made up: what it asks of the runtime, in which order. Only what is called here is there; the
 * runtime's own headers say how it looks (test_driver.sh). The arguments: what the environment is
 * to have told the runtime at its first call.
 *
 * A kernel's largest dynamic shared memory is the kernel's, as on a card: the last value counts for
 * all its launches. */
#include "cells/cuda/driver_cuda.h"

#include "cells/cuda/lane_kernels.h"
#include "cells/cuda/step_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_BLOCK  (227u << 10) /* as on sm_90 */
#define SHARED_STATIC 1024u        /* of each kernel */

static struct {
    char loading[16]; /* of the environment, as the first call found it */
    char connections[16];
    int dynamic_max; /* one kernel's */
    int handles;     /* open */
    int failed;
} fake;

static void want(int is_so, const char *what)
{
    if (!is_so) {
        (void)printf("%s\n", what);
        fake.failed = 1;
    }
}

static void note_environment(const char *name, char out[16])
{
    const char *value = getenv(name);
    (void)snprintf(out, 16, "%s", value == NULL ? "" : value);
}

/* ---- The runtime ---- */

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): its names are not ours

cudaError_t cudaGetDeviceCount(int *count)
{
    note_environment("CUDA_MODULE_LOADING", fake.loading);
    note_environment("CUDA_DEVICE_MAX_CONNECTIONS", fake.connections);
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int card)
{
    (void)card;
    memset(properties, 0, sizeof(*properties));
    (void)snprintf(properties->name, sizeof(properties->name), "none");
    properties->major = 9;
    properties->multiProcessorCount = 132;
    properties->sharedMemPerBlockOptin = SHARED_BLOCK;
    properties->sharedMemPerMultiprocessor = SHARED_BLOCK + 1024;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int card)
{
    return card == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t status)
{
    (void)status;
    return "an error";
}

const char *cudaGetErrorName(cudaError_t status)
{
    (void)status;
    return "cudaError";
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    (void)version;
    (void)flags;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): something that nobody calls
    *out = (void *)(size_t)(strcmp(name, "cuStreamWriteValue64") == 0);
    *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    want(flags == cudaStreamNonBlocking, "a stream waits for the legacy one");
    fake.handles++;
    *out = (cudaStream_t)(void *)&fake;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    fake.handles--;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    (void)kernel;
    memset(attributes, 0, sizeof(*attributes));
    attributes->sharedSizeBytes = SHARED_STATIC;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    (void)kernel;
    want(attribute == cudaFuncAttributeMaxDynamicSharedMemorySize, "another attribute");
    if (value < 0 || (unsigned)value > SHARED_BLOCK - SHARED_STATIC) {
        return cudaErrorInvalidValue;
    }
    fake.dynamic_max = value;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t bytes,
                             cudaStream_t stream)
{
    (void)kernel;
    (void)block;
    (void)args;
    (void)stream;
    want(grid.x == 1, "a lane of several blocks");
    return bytes <= (size_t)fake.dynamic_max ? cudaSuccess : cudaErrorInvalidValue;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    fake.handles++;
    *out = (cublasLtHandle_t)(void *)&fake;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    (void)handle;
    fake.handles--;
    return CUBLAS_STATUS_SUCCESS;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* ---- The rest of the driver ---- */

#define KERNEL(name)                                                                               \
    void name(struct cell_sm_args args)                                                            \
    {                                                                                              \
        (void)args;                                                                                \
    }
CELL_SM_KERNELS(KERNEL)
#undef KERNEL

cudaError_t cell_step_load_all(cudaStream_t stream)
{
    want(stream != NULL, "kernels are loaded through the legacy stream");
    return cudaSuccess;
}

void cell_cuda__products_free(struct cell_cuda *cuda)
{
    (void)cuda;
}

/* ---- What is wanted ---- */

/* The larger lane of a kernel is opened first, and both are launched again. */
static void test_lanes_of_one_kernel(struct cell_cuda *cuda)
{
    const struct cell_cuda_driver *driver = &cell_cuda_driver;
    static const struct cell_sm_args args;
    struct cell_cuda_lane_kernel kernel = {
        .name = "cell_sm_lstm__f32_64", .threads = 320, .shared_bytes = 200 << 10};
    struct cell_cuda_lane *lanes[2] = {NULL};
    struct cell_cuda_lane *none = NULL;
    struct base_error error = {BASE_OK, ""};
    for (int i = 0; i < 2; i++) {
        want(driver->lane_open(cuda, &kernel, &lanes[i], &error) == BASE_OK, error.message);
        kernel.shared_bytes = 120 << 10;
    }
    for (int i = 0; i < 4 && fake.failed == 0; i++) {
        want(driver->lane_launch(lanes[i % 2], &args) == BASE_OK, "a lane cannot be launched");
    }
    kernel.shared_bytes = SHARED_BLOCK - SHARED_STATIC + 16;
    want(driver->lane_open(cuda, &kernel, &none, &error) != BASE_OK,
         "a lane that no block has room for");
    for (int i = 0; i < 2 && lanes[i] != NULL; i++) {
        driver->lane_close(lanes[i]);
    }
}

int main(int argc, char **argv)
{
    const char *loading = argc > 1 ? argv[1] : "";
    const char *connections = argc > 2 ? argv[2] : "";
    const struct cell_device_options options = {.n_queues = 1, .batches_queued_max = 1};
    struct cell_cuda *cuda = NULL;
    struct base_error error = {BASE_OK, ""};
    want(cell_cuda_driver.open(&options, &cuda, &error) == BASE_OK, error.message);
    if (cuda != NULL) {
        test_lanes_of_one_kernel(cuda);
        cell_cuda_driver.close(cuda, false);
    }
    want(fake.handles == 0, "something is left");
    want(strcmp(fake.loading, loading) == 0, "CUDA_MODULE_LOADING is another");
    want(strcmp(fake.connections, connections) == 0, "CUDA_DEVICE_MAX_CONNECTIONS is another");
    return fake.failed;
}
