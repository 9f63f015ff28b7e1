/* The driver on a card: every call checked, streams that do not wait for the legacy one, pinned
 * memory only, all modules loaded before anything runs. See driver.h.
 *
 * The runtime's current device is each thread's own, and the pool thread is not the one that
 * opened: so every function says first which card it means (some ten nanoseconds). */
#include "cells/cuda/driver_cuda.h"

#include "base/mem.h"
#include "cells/cuda/step_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest that there are kernels for: sm_80. */
#define MAJOR_MIN 8

#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        const cudaError_t try_status_ = (call);                                                    \
        if (try_status_ != cudaSuccess) {                                                          \
            return cell_cuda__status(try_status_, #call, NULL);                                    \
        }                                                                                          \
    } while (0)

enum base_status cell_cuda__status(cudaError_t status, const char *what, struct base_error *error)
{
    if (status == cudaSuccess) {
        return BASE_OK;
    }
    (void)cudaGetLastError(); // an error that is not sticky must not be taken for the next call's
    return base_fail(
        error, status == cudaErrorMemoryAllocation ? BASE_RESOURCE_EXHAUSTED : BASE_UNAVAILABLE,
        "%s: %s (%s)", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

static enum base_status use(const struct cell_cuda *cuda)
{
    TRY_CUDA(cudaSetDevice(cuda->card));
    return BASE_OK;
}

/* ---- Life ----------------------------------------------------------------------------------- */

/* Why there is no card to be had, in words for who starts the server. */
static enum base_status no_card(cudaError_t status, struct base_error *error)
{
    switch ((int)status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
        return base_fail(
            error, BASE_UNAVAILABLE,
            "no CUDA driver that CUDA %d.%d can use: is libcuda.so.1 of NVIDIA's driver "
            "installed? (%s)",
            CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, cudaGetErrorName(status));
    case cudaErrorNoDevice:
    case cudaErrorDevicesUnavailable:
        return base_fail(error, BASE_UNAVAILABLE, "no CUDA device (%s)", cudaGetErrorName(status));
    default:
        return cell_cuda__status(status, "no CUDA device", error);
    }
}

static enum base_status find_write64(struct cell_cuda *cuda, struct base_error *error)
{
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    void *found = NULL;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &found,
                                                                12000, cudaEnableDefault, &result);
    if (status != cudaSuccess || result != cudaDriverEntryPointSuccess || found == NULL) {
        return base_fail(error, BASE_UNAVAILABLE, "the CUDA driver has no cuStreamWriteValue64");
    }
    memcpy(&cuda->write64, &found, sizeof(cuda->write64)); // a function through an object pointer
    return BASE_OK;
}

static enum base_status look_at(struct cell_cuda *cuda, uint32_t card, struct base_error *error)
{
    int n_cards = 0;
    const cudaError_t status = cudaGetDeviceCount(&n_cards);
    if (status != cudaSuccess) {
        return no_card(status, error);
    }
    if (card >= (uint32_t)n_cards) {
        return base_fail(error, BASE_UNAVAILABLE, "no CUDA device %u: there %s %d", card,
                         n_cards == 1 ? "is" : "are", n_cards);
    }
    struct cudaDeviceProp properties;
    cuda->card = (int)card;
    const cudaError_t looked = cudaGetDeviceProperties(&properties, cuda->card);
    if (looked != cudaSuccess) {
        return no_card(looked, error);
    }
    cuda->room = cell_cuda__room(&properties);
    (void)snprintf(cuda->name, sizeof(cuda->name), "%.64s (sm_%d%d)", properties.name,
                   properties.major, properties.minor);
    if (properties.major < MAJOR_MIN) {
        return base_fail(error, BASE_UNAVAILABLE, "CUDA device %u, %s, is older than sm_%d0", card,
                         cuda->name, MAJOR_MIN);
    }
    return BASE_OK;
}

static enum base_status begin(struct cell_cuda *cuda, struct base_error *error)
{
    cudaError_t status = cudaSetDevice(cuda->card);
    status = status == cudaSuccess
                 ? cudaStreamCreateWithFlags(&cuda->loading, cudaStreamNonBlocking)
                 : status;
    status = status == cudaSuccess ? cell_step_load_all(cuda->loading) : status;
    if (status != cudaSuccess) {
        return cell_cuda__status(status, cuda->name, error);
    }
    if (cublasLtCreate(&cuda->blas) != CUBLAS_STATUS_SUCCESS) {
        cuda->blas = NULL;
        return base_fail(error, BASE_UNAVAILABLE, "%s: cuBLASLt does not start", cuda->name);
    }
    return find_write64(cuda, error);
}

static void cuda_close(struct cell_cuda *cuda, bool is_lost)
{
    if (!is_lost && use(cuda) == BASE_OK) {
        cell_cuda__products_free(cuda);
        if (cuda->blas != NULL) {
            (void)cublasLtDestroy(cuda->blas);
        }
        if (cuda->loading != NULL) {
            (void)cudaStreamDestroy(cuda->loading);
        }
    }
    base_free(cuda->shapes);
    base_free(cuda);
}

/* Read at the first call of the process; what whoever started it has set stays.
 *
 * A kernel that is loaded at its first launch waits for all that runs, and a lane does not end. A
 * stream has one of 8 queues of the card unless it is told otherwise: more streams share them, and
 * what stands behind a lane's kernel in one waits for it. 16 lanes, the queues and what loads are
 * fewer than 32. */
static void tell_runtime(void)
{
    // NOLINTBEGIN(concurrency-mt-unsafe): devices are opened before other threads read it
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    // NOLINTEND(concurrency-mt-unsafe)
}

static enum base_status cuda_open(const struct cell_device_options *options, struct cell_cuda **out,
                                  struct base_error *error)
{
    tell_runtime();
    struct cell_cuda *cuda = base_alloc(sizeof(*cuda));
    if (cuda != NULL) {
        cuda->shapes = base_alloc_array(CELL_CUDA__SHAPES, sizeof(*cuda->shapes));
    }
    if (cuda == NULL || cuda->shapes == NULL) {
        base_free(cuda);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "cuda: out of memory");
    }
    cuda->cache = options->cache;
    enum base_status status = look_at(cuda, options->card, error);
    const bool is_there = status == BASE_OK;
    status = is_there ? begin(cuda, error) : status;
    if (status != BASE_OK) {
        cuda_close(cuda, !is_there);
        return status;
    }
    *out = cuda;
    return BASE_OK;
}

static const char *description(const struct cell_cuda *cuda)
{
    return cuda->name;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void *pointer_of(cell_step_address at)
{
    return (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr): an address is a number here
}

static enum base_status card_alloc(struct cell_cuda *cuda, size_t bytes, cell_step_address *out)
{
    void *memory = NULL;
    BASE_TRY(use(cuda));
    TRY_CUDA(cudaMalloc(&memory, bytes));
    *out = (uint64_t)(uintptr_t)memory;
    return BASE_OK;
}

static void card_free(struct cell_cuda *cuda, cell_step_address memory)
{
    if (memory != 0 && use(cuda) == BASE_OK) {
        (void)cudaFree(pointer_of(memory));
    }
}

static enum base_status pin(struct cell_cuda *cuda, size_t bytes, struct cell_cuda_pinned *out)
{
    void *host = NULL;
    void *at = NULL;
    BASE_TRY(use(cuda));
    TRY_CUDA(cudaHostAlloc(&host, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    const cudaError_t status = cudaHostGetDevicePointer(&at, host, 0);
    if (status != cudaSuccess) {
        (void)cudaFreeHost(host);
        return cell_cuda__status(status, "cudaHostGetDevicePointer", NULL);
    }
    memset(host, 0, bytes);
    *out = (struct cell_cuda_pinned){.host = host, .at = (uint64_t)(uintptr_t)at};
    return BASE_OK;
}

static void unpin(struct cell_cuda *cuda, const struct cell_cuda_pinned *pinned)
{
    if (use(cuda) == BASE_OK) {
        (void)cudaFreeHost(pinned->host);
    }
}

/* Not by the legacy stream, which waits for all others. */
static enum base_status copy_now(struct cell_cuda *cuda, void *to, const void *from, size_t bytes)
{
    BASE_TRY(use(cuda));
    TRY_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda->loading));
    TRY_CUDA(cudaStreamSynchronize(cuda->loading));
    return BASE_OK;
}

static enum base_status write_now(struct cell_cuda *cuda, cell_step_address to, const void *from,
                                  size_t bytes)
{
    return copy_now(cuda, pointer_of(to), from, bytes);
}

static enum base_status read_now(struct cell_cuda *cuda, void *to, cell_step_address from,
                                 size_t bytes)
{
    return copy_now(cuda, to, pointer_of(from), bytes);
}

/* ---- Streams and graphs --------------------------------------------------------------------- */

static void stream_close(struct cell_cuda_stream *stream)
{
    if (use(stream->cuda) == BASE_OK) {
        (void)cudaStreamSynchronize(stream->stream);
        (void)cudaStreamDestroy(stream->stream);
        (void)cudaFree(stream->workspace);
    }
    base_free(stream);
}

static enum base_status stream_open(struct cell_cuda *cuda, struct cell_cuda_stream **out)
{
    struct cell_cuda_stream *stream = base_alloc(sizeof(*stream));
    if (stream == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    stream->cuda = cuda;
    cudaError_t status = cudaSetDevice(cuda->card);
    status = status == cudaSuccess
                 ? cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking)
                 : status;
    if (status != cudaSuccess) {
        base_free(stream);
        return cell_cuda__status(status, "cudaStreamCreateWithFlags", NULL);
    }
    status = cudaMalloc(&stream->workspace, CELL_CUDA__WORKSPACE);
    if (status != cudaSuccess) {
        stream->workspace = NULL;
        stream_close(stream);
        return cell_cuda__status(status, "cudaMalloc", NULL);
    }
    *out = stream;
    return BASE_OK;
}

static enum base_status wait_for(struct cell_cuda_stream *stream)
{
    BASE_TRY(use(stream->cuda));
    TRY_CUDA(cudaStreamSynchronize(stream->stream));
    return BASE_OK;
}

static enum base_status record(struct cell_cuda_stream *stream)
{
    BASE_TRY(use(stream->cuda));
    TRY_CUDA(cudaStreamBeginCapture(stream->stream, cudaStreamCaptureModeThreadLocal));
    return BASE_OK;
}

/* Uploaded at once: the first replay must not allocate. */
static enum base_status recorded(struct cell_cuda_stream *stream, struct cell_cuda_graph **out)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    BASE_TRY(use(stream->cuda));
    TRY_CUDA(cudaStreamEndCapture(stream->stream, &graph));
    cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
    (void)cudaGraphDestroy(graph);
    if (status == cudaSuccess) {
        status = cudaGraphUpload(made, stream->stream);
    }
    if (status == cudaSuccess) {
        status = cudaStreamSynchronize(stream->stream);
    }
    if (status != cudaSuccess) {
        return cell_cuda__status(status, "cudaGraphInstantiate", NULL);
    }
    *out = (struct cell_cuda_graph *)(void *)made;
    return BASE_OK;
}

static void graph_free(struct cell_cuda *cuda, struct cell_cuda_graph *graph)
{
    if (graph != NULL && use(cuda) == BASE_OK) {
        (void)cudaGraphExecDestroy((cudaGraphExec_t)(void *)graph);
    }
}

/* ---- Appending ------------------------------------------------------------------------------ */

static enum base_status copy(struct cell_cuda_stream *stream, void *to, const void *from,
                             size_t bytes)
{
    BASE_TRY(use(stream->cuda));
    TRY_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->stream));
    return BASE_OK;
}

static enum base_status copy_in(struct cell_cuda_stream *stream, cell_step_address to,
                                const struct cell_cuda_pinned *from, size_t bytes)
{
    return copy(stream, pointer_of(to), from->host, bytes);
}

static enum base_status copy_out(struct cell_cuda_stream *stream, const struct cell_cuda_pinned *to,
                                 cell_step_address from, size_t bytes)
{
    return copy(stream, to->host, pointer_of(from), bytes);
}

static enum base_status launch(struct cell_cuda_stream *stream, const struct cell_step *step,
                               uint32_t n_items)
{
    BASE_TRY(use(stream->cuda));
    TRY_CUDA(cell_step_launch(step, n_items, stream->stream));
    return BASE_OK;
}

static enum base_status replay(struct cell_cuda_stream *stream, const struct cell_cuda_graph *graph)
{
    void *made = NULL; // the runtime's handle, which has no const
    BASE_TRY(use(stream->cuda));
    memcpy(&made, &graph, sizeof(made));
    TRY_CUDA(cudaGraphLaunch((cudaGraphExec_t)made, stream->stream));
    return BASE_OK;
}

/* By default the driver makes all that came before visible first. */
static enum base_status write64(struct cell_cuda_stream *stream,
                                const struct cell_cuda_pinned *word, uint64_t value)
{
    BASE_TRY(use(stream->cuda));
    const CUresult result = stream->cuda->write64((CUstream)stream->stream, (CUdeviceptr)word->at,
                                                  value, CU_STREAM_WRITE_VALUE_DEFAULT);
    return result == CUDA_SUCCESS ? BASE_OK : BASE_UNAVAILABLE;
}

static enum base_status error_of(struct cell_cuda *cuda, struct cell_cuda_stream *stream,
                                 struct base_error *error)
{
    BASE_TRY(use(cuda));
    const cudaError_t status = cudaStreamQuery(stream->stream);
    return status == cudaErrorNotReady ? BASE_OK : cell_cuda__status(status, cuda->name, error);
}

static void room(const struct cell_cuda *cuda, struct cell_cuda_room *out)
{
    *out = cuda->room;
}

const struct cell_cuda_driver cell_cuda_driver = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .description = description,
    .alloc = card_alloc,
    .free = card_free,
    .pin = pin,
    .unpin = unpin,
    .write = write_now,
    .read = read_now,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .wait = wait_for,
    .record = record,
    .recorded = recorded,
    .graph_free = graph_free,
    .product_prepare = cell_cuda__product_prepare,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .launch = launch,
    .product = cell_cuda__product,
    .replay = replay,
    .write64 = write64,
    .room = room,
    .lane_open = cell_cuda__lane_open,
    .lane_close = cell_cuda__lane_close,
    .lane_launch = cell_cuda__lane_launch,
    .lane_wait = cell_cuda__lane_wait,
    .error = error_of,
};
