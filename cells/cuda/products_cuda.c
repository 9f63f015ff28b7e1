/* Products by cuBLASLt, with one algorithm for all row counts of a shape.
 *
 * NVIDIA promises the same bits for the same call, not for one row among others: heuristics choose
 * another tile, or split the sum, for each number of rows. So an algorithm is chosen once a shape
 * (kernel, tile, stages; never one that splits the sum over k; choose.h), and before it is taken a
 * probe runs random rows through it in every row count that is recorded, at the head and at the end
 * of the matrix: a row must have the same bits in all. That is seen on this card with this library,
 * not promised; a shape for which no algorithm passes is the device's own kernel's. Those that pass
 * are timed here by events, and the choice is kept for the next start. Weights may lie by inputs or
 * by outputs, of which a tensor core may want the latter: each order has algorithms of its own. */
#include "cells/cuda/driver_cuda.h"

#include "base/mem.h"
#include "base/random.h"
#include "cells/cuda/choose.h"
#include "cells/cuda/device_state.h"
#include "cells/cuda/round.h"

#include <stdio.h>
#include <string.h>

/* Rows for which algorithms are ranked: between a lone request and a full batch. */
#define RANKED_ROWS 64u
#define RANKED      ((int)CELL_CUDA_RANKED)

#define NAME_BYTES 256 /* in the cache */

/* Products that are timed together at most. */
#define TIMED_MAX 20u

/* ---- Descriptions --------------------------------------------------------------------------- */

/* What both factors hold. */
static bool is_bf16(const struct cell_step_product *product)
{
    return product->products == CELL_PRODUCTS_BF16;
}

static uint32_t factor_bytes(const struct cell_step_product *product)
{
    return is_bf16(product) ? 2 : 4;
}

/* cuBLAS counts by columns: our row-major [rows, columns] are its [columns, rows]. */
static cublasLtMatrixLayout_t layout_of(bool is_of_bf16, uint32_t columns, uint32_t rows,
                                        uint32_t pitch_bytes)
{
    cublasLtMatrixLayout_t layout = NULL;
    const int64_t pitch = pitch_bytes / (is_of_bf16 ? 2 : 4);
    return cublasLtMatrixLayoutCreate(&layout, is_of_bf16 ? CUDA_R_16BF : CUDA_R_32F, columns, rows,
                                      pitch) == CUBLAS_STATUS_SUCCESS
               ? layout
               : NULL;
}

static void layout_free(cublasLtMatrixLayout_t layout)
{
    if (layout != NULL) {
        (void)cublasLtMatrixLayoutDestroy(layout);
    }
}

static void shape_free(struct cell_cuda__shape *shape)
{
    for (uint32_t order = 0; order < CELL_STEP_ORDERS; order++) {
        layout_free(shape->weights[order]);
        if (shape->desc[order] != NULL) {
            (void)cublasLtMatmulDescDestroy(shape->desc[order]);
        }
    }
    memset(shape, 0, sizeof(*shape));
}

void cell_cuda__products_free(struct cell_cuda *cuda)
{
    for (uint32_t s = 0; s < cuda->n_shapes; s++) {
        shape_free(&cuda->shapes[s]);
    }
    cuda->n_shapes = 0;
}

/* fp32 in every term, and no TF32 that nobody asked for. What TF32 multiplies is rounded already:
 * what a tensor core leaves out of a float is zeros. */
static cublasComputeType_t compute_type(const struct cell_step_product *product)
{
    return product->products == CELL_PRODUCTS_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                   : CUBLAS_COMPUTE_32F;
}

/* Of weights in this order: the library's first factor, turned by it where they lie by outputs. */
static bool describe(struct cell_cuda__shape *shape, enum cell_step_order order)
{
    const struct cell_step_product *p = &shape->product;
    const bool is_kn = order == CELL_STEP_KN;
    const int32_t turn = is_kn ? CUBLAS_OP_N : CUBLAS_OP_T;
    const uint32_t columns = is_kn ? p->outputs : p->inputs;
    const cublasLtEpilogue_t epilogue =
        p->bias != 0 ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = (const void *)(uintptr_t)p->bias; // NOLINT(performance-no-int-to-ptr)
    cublasLtMatmulDesc_t desc = NULL;
    bool ok =
        cublasLtMatmulDescCreate(&desc, compute_type(p), CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &turn, sizeof(turn)) ==
            CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                       sizeof(epilogue)) == CUBLAS_STATUS_SUCCESS;
    ok = ok && (p->bias == 0 ||
                cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                               sizeof(bias)) == CUBLAS_STATUS_SUCCESS);
    shape->desc[order] = desc;
    shape->weights[order] =
        layout_of(is_bf16(p), columns, is_kn ? p->inputs : p->outputs, columns * factor_bytes(p));
    return ok && shape->weights[order] != NULL;
}

/* One product: matrices of n_rows rows. */
struct call {
    const struct cell_cuda__shape *shape;
    cublasLtMatrixLayout_t a, start, out;
};

static bool call_init(struct call *call, const struct cell_cuda__shape *shape, uint32_t n_rows)
{
    const struct cell_step_product *p = &shape->product;
    const uint32_t start_pitch = p->has_start != 0 ? p->start.pitch : p->out.pitch;
    *call = (struct call){.shape = shape,
                          .a = layout_of(is_bf16(p), p->inputs, n_rows, p->a.pitch),
                          .start = layout_of(false, p->outputs, n_rows, start_pitch),
                          .out = layout_of(false, p->outputs, n_rows, p->out.pitch)};
    return call->a != NULL && call->start != NULL && call->out != NULL;
}

static void call_release(struct call *call)
{
    layout_free(call->a);
    layout_free(call->start);
    layout_free(call->out);
}

/* ---- Multiplying ---------------------------------------------------------------------------- */

static const void *memory_at(cell_step_address at)
{
    return (const void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
}

static void *room_at(cell_step_address at)
{
    return (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
}

static enum base_status multiply(struct cell_cuda *cuda, const struct cell_cuda__shape *shape,
                                 const struct cell_step_product *p, cudaStream_t stream,
                                 void *workspace)
{
    static const float one = 1.0f;
    static const float zero = 0.0f;
    struct call call;
    cublasStatus_t status = CUBLAS_STATUS_ALLOC_FAILED;
    if (call_init(&call, shape, p->n_rows)) {
        const bool has_start = p->has_start != 0;
        status = cublasLtMatmul(
            cuda->blas, shape->desc[p->order], &one, memory_at(p->weights),
            shape->weights[p->order], memory_at(p->a.at), call.a, has_start ? &one : &zero,
            memory_at(has_start ? p->start.at : p->out.at), call.start, room_at(p->out.at),
            call.out, &shape->algo, workspace, CELL_CUDA__WORKSPACE, stream);
    }
    call_release(&call);
    return status == CUBLAS_STATUS_SUCCESS ? BASE_OK
           : status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE
               ? BASE_UNIMPLEMENTED
               : BASE_UNAVAILABLE;
}

static bool is_same_product(const struct cell_step_product *a, const struct cell_step_product *b)
{
    return a->weights == b->weights && a->bias == b->bias && a->inputs == b->inputs &&
           a->outputs == b->outputs && a->has_start == b->has_start && a->products == b->products &&
           a->a.pitch == b->a.pitch && a->out.pitch == b->out.pitch &&
           (a->has_start == 0 || a->start.pitch == b->start.pitch);
}

static struct cell_cuda__shape *shape_find(struct cell_cuda *cuda,
                                           const struct cell_step_product *product)
{
    for (uint32_t s = 0; s < cuda->n_shapes; s++) {
        if (is_same_product(&cuda->shapes[s].product, product)) {
            return &cuda->shapes[s];
        }
    }
    return NULL;
}

/* While a step is recorded, so that looking for the shape costs no batch anything. */
enum base_status cell_cuda__product(struct cell_cuda_stream *stream,
                                    const struct cell_step_product *product)
{
    const struct cell_cuda__shape *shape = shape_find(stream->cuda, product);
    return shape == NULL || shape->product.order != product->order
               ? BASE_INTERNAL
               : multiply(stream->cuda, shape, product, stream->stream, stream->workspace);
}

/* ---- Choosing ------------------------------------------------------------------------------- */

/* Matrices of the probe, as the product has them, and what rows must give. */
struct probe {
    struct cell_cuda *cuda;
    struct cell_cuda__shape *shape;
    struct cell_step_product product; /* over our own rows, and a candidate's weights */
    cell_step_address weights[CELL_STEP_ORDERS];
    cell_step_address memory;
    void *workspace;
    void *row; /* of factors */
    float *wanted, *got;
    cudaEvent_t began, ended;
};

static bool splits_the_sum(const cublasLtMatmulAlgo_t *algo)
{
    int32_t splits = 0;
    uint32_t scheme = 0;
    size_t written = 0;
    const bool ok =
        cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                             sizeof(splits), &written) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                             sizeof(scheme), &written) == CUBLAS_STATUS_SUCCESS;
    return !ok || splits > 1 || scheme != CUBLASLT_REDUCTION_SCHEME_NONE;
}

static bool takes_all_counts(struct cell_cuda *cuda, const struct cell_cuda__shape *shape,
                             enum cell_step_order order)
{
    bool ok = true;
    for (uint32_t b = 0; b < CELL_CUDA__BUCKETS && ok; b++) {
        struct call call;
        cublasLtMatmulHeuristicResult_t result;
        ok = call_init(&call, shape, cell_cuda__buckets[b]) &&
             cublasLtMatmulAlgoCheck(cuda->blas, shape->desc[order], shape->weights[order], call.a,
                                     call.start, call.out, &shape->algo,
                                     &result) == CUBLAS_STATUS_SUCCESS &&
             result.workspaceSize <= CELL_CUDA__WORKSPACE;
        call_release(&call);
    }
    return ok;
}

static void probe_close(struct probe *probe)
{
    (void)cudaFree(room_at(probe->memory));
    (void)cudaFree(probe->workspace);
    if (probe->began != NULL) {
        (void)cudaEventDestroy(probe->began);
    }
    if (probe->ended != NULL) {
        (void)cudaEventDestroy(probe->ended);
    }
    base_free(probe->row);
    base_free(probe->wanted);
    base_free(probe->got);
}

/* As a step's ROUND writes it. */
static void put_factor(const struct cell_step_product *p, void *row, uint32_t k, float x)
{
    const float rounded = p->products == CELL_PRODUCTS_TF32 ? cell_tf32_round(x) : x;
    const uint16_t bf16 = cell_bf16_round(x);
    memcpy((uint8_t *)row + (size_t)k * factor_bytes(p),
           is_bf16(p) ? (const void *)&bf16 : (const void *)&rounded, factor_bytes(p));
}

/* Every row is the same: whatever place it has, its sum must be the first's. */
static enum base_status probe_open(struct probe *probe, struct cell_cuda *cuda,
                                   struct cell_cuda__shape *shape, cell_step_address turned)
{
    const struct cell_step_product *p = &shape->product;
    const size_t a = (size_t)p->a.pitch * CELL_STEP_ROWS_MAX;
    const size_t out = (size_t)p->out.pitch * CELL_STEP_ROWS_MAX;
    const size_t start = (size_t)p->start.pitch * CELL_STEP_ROWS_MAX;
    void *memory = NULL;
    struct base_random random;
    *probe = (struct probe){
        .cuda = cuda, .shape = shape, .product = *p, .weights = {p->weights, turned}};
    base_random_init(&random, 1);
    probe->row = base_alloc_array(p->inputs, factor_bytes(p));
    probe->wanted = base_alloc_array(p->outputs, sizeof(float));
    probe->got = base_alloc_array(p->outputs, sizeof(float));
    if (probe->row == NULL || probe->wanted == NULL || probe->got == NULL ||
        cudaMalloc(&memory, a + out + start) != cudaSuccess ||
        cudaMalloc(&probe->workspace, CELL_CUDA__WORKSPACE) != cudaSuccess ||
        cudaEventCreate(&probe->began) != cudaSuccess ||
        cudaEventCreate(&probe->ended) != cudaSuccess) {
        (void)cudaFree(memory);
        return BASE_RESOURCE_EXHAUSTED;
    }
    probe->memory = (uint64_t)(uintptr_t)memory;
    probe->product.a.at = probe->memory;
    probe->product.out.at = probe->memory + a;
    probe->product.start.at = probe->memory + a + out;
    for (uint32_t k = 0; k < p->inputs; k++) {
        put_factor(p, probe->row, k, base_random_f32(&random, -1.0f, 1.0f));
    }
    cudaError_t status = cudaMemsetAsync(memory, 0, a + out + start, cuda->loading);
    for (uint32_t r = 0; r < CELL_STEP_ROWS_MAX && status == cudaSuccess; r++) {
        status =
            cudaMemcpyAsync((uint8_t *)memory + (size_t)r * p->a.pitch, probe->row,
                            (size_t)p->inputs * factor_bytes(p), cudaMemcpyDefault, cuda->loading);
    }
    return status == cudaSuccess ? BASE_OK : BASE_UNAVAILABLE;
}

static enum base_status probe_row(struct probe *probe, uint32_t r, float *out)
{
    const struct cell_step_product *p = &probe->product;
    const void *from = memory_at(p->out.at + (uint64_t)r * p->out.pitch);
    cudaError_t status = cudaMemcpyAsync(out, from, p->outputs * sizeof(float), cudaMemcpyDefault,
                                         probe->cuda->loading);
    status = status == cudaSuccess ? cudaStreamSynchronize(probe->cuda->loading) : status;
    return cell_cuda__status(status, "probe", NULL);
}

/* Whether the first and the last row have the same bits in every count. */
static enum base_status probe_counts(struct probe *probe, bool *is_invariant)
{
    *is_invariant = true;
    for (uint32_t b = 0; b < CELL_CUDA__BUCKETS && *is_invariant; b++) {
        const uint32_t n = cell_cuda__buckets[b];
        const size_t bytes = probe->product.outputs * sizeof(float);
        probe->product.n_rows = n;
        BASE_TRY(multiply(probe->cuda, probe->shape, &probe->product, probe->cuda->loading,
                          probe->workspace));
        BASE_TRY(probe_row(probe, 0, b == 0 ? probe->wanted : probe->got));
        *is_invariant = b == 0 || memcmp(probe->got, probe->wanted, bytes) == 0;
        BASE_TRY(probe_row(probe, n - 1, probe->got));
        *is_invariant = *is_invariant && memcmp(probe->got, probe->wanted, bytes) == 0;
    }
    return BASE_OK;
}

/* What all matrices of the product are aligned to, in bytes, with weights in this order. */
static uint32_t alignment_of(const struct cell_step_product *p, enum cell_step_order order)
{
    const uint32_t columns = order == CELL_STEP_KN ? p->outputs : p->inputs;
    const uint64_t all = p->a.at | p->a.pitch | p->out.at | p->out.pitch | p->weights |
                         (uint64_t)columns * factor_bytes(p) |
                         (p->has_start != 0 ? p->start.at | p->start.pitch : 0);
    return (all & 15) == 0 ? 16 : factor_bytes(p);
}

static int rank(struct cell_cuda *cuda, const struct cell_cuda__shape *shape,
                enum cell_step_order order, cublasLtMatmulHeuristicResult_t results[RANKED])
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const size_t workspace = CELL_CUDA__WORKSPACE;
    const uint32_t alignment = alignment_of(&shape->product, order);
    cublasLtMatmulPreference_t preference = NULL;
    struct call call = {0};
    int n = 0;
    bool ok = cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS &&
              cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                  sizeof(workspace)) == CUBLAS_STATUS_SUCCESS;
    for (uint32_t i = 0; i < sizeof(aligned) / sizeof(aligned[0]) && ok; i++) {
        ok = cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &alignment,
                                                  sizeof(alignment)) == CUBLAS_STATUS_SUCCESS;
    }
    ok = ok && call_init(&call, shape, RANKED_ROWS) &&
         cublasLtMatmulAlgoGetHeuristic(cuda->blas, shape->desc[order], shape->weights[order],
                                        call.a, call.start, call.out, preference, RANKED, results,
                                        &n) == CUBLAS_STATUS_SUCCESS;
    call_release(&call);
    if (preference != NULL) {
        (void)cublasLtMatmulPreferenceDestroy(preference);
    }
    return ok ? n : 0;
}

/* ---- A choice; see choose.h ------------------------------------------------------------------ */

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(struct cell_cuda_algo), "kept as it is");

static enum base_status trial_rank(void *context, enum cell_step_order order,
                                   struct cell_cuda_algo out[CELL_CUDA_RANKED], uint32_t *n)
{
    const struct probe *probe = context;
    cublasLtMatmulHeuristicResult_t results[RANKED];
    const int ranked = rank(probe->cuda, probe->shape, order, results);
    *n = 0;
    for (int i = 0; i < ranked; i++) {
        if (results[i].state == CUBLAS_STATUS_SUCCESS) {
            memcpy(&out[(*n)++], &results[i].algo, sizeof(out[0]));
        }
    }
    return BASE_OK;
}

static void take(struct probe *probe, const struct cell_cuda_candidate *candidate)
{
    memcpy(&probe->shape->algo, &candidate->algo, sizeof(candidate->algo));
    probe->product.order = candidate->order;
    probe->product.weights = probe->weights[candidate->order];
}

static enum base_status trial_probe(void *context, const struct cell_cuda_candidate *candidate,
                                    bool *is_invariant)
{
    struct probe *probe = context;
    take(probe, candidate);
    if (splits_the_sum(&probe->shape->algo) ||
        !takes_all_counts(probe->cuda, probe->shape, candidate->order)) {
        return BASE_UNIMPLEMENTED;
    }
    return probe_counts(probe, is_invariant);
}

/* n products between two events. */
static enum base_status time_products(struct probe *probe, uint32_t n, uint64_t *ns)
{
    const cudaStream_t stream = probe->cuda->loading;
    float ms = 0;
    cudaError_t status = cudaEventRecord(probe->began, stream);
    for (uint32_t i = 0; i < n; i++) {
        BASE_TRY(multiply(probe->cuda, probe->shape, &probe->product, stream, probe->workspace));
    }
    status = status == cudaSuccess ? cudaEventRecord(probe->ended, stream) : status;
    status = status == cudaSuccess ? cudaEventSynchronize(probe->ended) : status;
    status = status == cudaSuccess ? cudaEventElapsedTime(&ms, probe->began, probe->ended) : status;
    *ns = (uint64_t)((double)ms * 1e6 / (double)n);
    return cell_cuda__status(status, "timing", NULL);
}

/* The first is not counted, but says how many fit. */
static enum base_status trial_time(void *context, const struct cell_cuda_candidate *candidate,
                                   uint32_t rows, uint64_t budget_ns, uint64_t *ns)
{
    struct probe *probe = context;
    take(probe, candidate);
    probe->product.n_rows = rows;
    BASE_TRY(time_products(probe, 1, ns));
    const uint64_t fit = *ns == 0 ? TIMED_MAX : budget_ns / *ns;
    return time_products(probe, (uint32_t)(fit < 1 ? 1 : fit < TIMED_MAX ? fit : TIMED_MAX), ns);
}

/* Of another type or layer with the same shape; the weights' address does not matter to it. */
static bool has_same_shape(const struct cell_step_product *a, const struct cell_step_product *b)
{
    struct cell_step_product like_a = *b;
    like_a.weights = a->weights;
    like_a.bias = (a->bias != 0) == (b->bias != 0) ? a->bias : a->bias + 1;
    return is_same_product(a, &like_a) &&
           alignment_of(a, CELL_STEP_KN) == alignment_of(b, CELL_STEP_KN) &&
           alignment_of(a, CELL_STEP_NK) == alignment_of(b, CELL_STEP_NK);
}

static bool take_known(const struct cell_cuda *cuda, struct cell_cuda__shape *shape)
{
    for (uint32_t s = 0; s < cuda->n_shapes; s++) {
        if (has_same_shape(&cuda->shapes[s].product, &shape->product)) {
            shape->algo = cuda->shapes[s].algo;
            shape->product.order = cuda->shapes[s].product.order;
            return true;
        }
    }
    return false;
}

static void write_names(const struct cell_cuda *cuda, const struct cell_step_product *p,
                        char name[NAME_BYTES], char key[NAME_BYTES])
{
    int driver = 0;
    int runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)snprintf(name, NAME_BYTES,
                   "%s: %s product %u x %u, pitches %u %u %u, %s, aligned to %u, %u", cuda->name,
                   cell_products_name((enum cell_products)p->products), p->inputs, p->outputs,
                   p->a.pitch, p->has_start != 0 ? p->start.pitch : 0, p->out.pitch,
                   p->bias != 0 ? "bias" : "no bias", alignment_of(p, CELL_STEP_KN),
                   alignment_of(p, CELL_STEP_NK));
    (void)snprintf(key, NAME_BYTES, "driver %d, runtime %d, cublasLt %zu\n", driver, runtime,
                   cublasLtGetVersion());
}

/* UNIMPLEMENTED: no algorithm will do. */
static enum base_status choose(struct cell_cuda *cuda, struct cell_cuda__shape *shape,
                               cell_step_address turned)
{
    char name[NAME_BYTES];
    char key[NAME_BYTES];
    struct cell_cuda_candidate chosen;
    struct probe probe;
    if (take_known(cuda, shape)) {
        return BASE_OK;
    }
    write_names(cuda, &shape->product, name, key);
    const struct cell_cuda_trial trial = {.context = &probe,
                                          .cache = cuda->cache,
                                          .name = name,
                                          .key = key,
                                          .rank = trial_rank,
                                          .probe = trial_probe,
                                          .time = trial_time};
    enum base_status status = probe_open(&probe, cuda, shape, turned);
    status = status == BASE_OK ? cell_cuda_choose(&trial, &chosen) : status;
    probe_close(&probe);
    if (status == BASE_OK) {
        memcpy(&shape->algo, &chosen.algo, sizeof(shape->algo));
        shape->product.order = chosen.order;
    }
    return status;
}

enum base_status cell_cuda__product_prepare(struct cell_cuda *cuda,
                                            struct cell_step_product *product,
                                            cell_step_address turned, struct base_error *error)
{
    if (cudaSetDevice(cuda->card) != cudaSuccess) {
        return base_fail(error, BASE_UNAVAILABLE, "%s is lost", cuda->name);
    }
    struct cell_cuda__shape *shape = shape_find(cuda, product);
    if (shape != NULL) {
        product->order = shape->product.order;
        return BASE_OK;
    }
    if (cuda->n_shapes == CELL_CUDA__SHAPES) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "more than %u products",
                         CELL_CUDA__SHAPES);
    }
    shape = &cuda->shapes[cuda->n_shapes];
    *shape = (struct cell_cuda__shape){.product = *product};
    const bool is_described = describe(shape, CELL_STEP_KN) && describe(shape, CELL_STEP_NK);
    const enum base_status status =
        is_described ? choose(cuda, shape, turned) : BASE_RESOURCE_EXHAUSTED;
    if (status != BASE_OK) {
        shape_free(shape);
        return base_fail(error, status, "cuBLASLt has no algorithm for %u x %u", product->inputs,
                         product->outputs);
    }
    cuda->n_shapes++;
    product->order = shape->product.order;
    return BASE_OK;
}
