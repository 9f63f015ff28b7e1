/* See choice_host.h. */
#include "tests/cuda/choice_host.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/random.h"
#include "cells/cuda/choose.h"
#include "cells/cuda/round.h"
#include "tests/cuda/kernels_host.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Rows of the probe's matrices, and from how many on a flawed candidate sums otherwise. */
enum { ROWS = 5, VARIES_FROM = 3 };

static struct {
    const struct choice_host_candidate *candidates;
    uint32_t n;
    _Atomic uint32_t probed, timed, untrue;
} script;

struct trial {
    const struct choice_host_candidate *candidates;
    uint32_t n;
    struct cell_step_product product; /* over our own rows, and a candidate's weights */
    cell_step_address weights[CELL_STEP_ORDERS];
    void *a;
    float *out;
};

void choice_host_set(const struct choice_host_candidate *candidates, uint32_t n)
{
    script.candidates = candidates;
    script.n = candidates == NULL ? 0 : n;
}

struct choice_host_counts choice_host_counts(void)
{
    return (struct choice_host_counts){.probed = atomic_load(&script.probed),
                                       .timed = atomic_load(&script.timed),
                                       .untrue = atomic_load(&script.untrue)};
}

/* ---- A product ------------------------------------------------------------------------------ */

static cell_step_address address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer + CELL_STEP_HOST_BIAS;
}

static uint32_t factor_bytes(const struct cell_step_product *product)
{
    return product->products == CELL_PRODUCTS_BF16 ? 2 : sizeof(float);
}

/* All rows are the same. */
static enum base_status trial_open(struct trial *trial, const struct cell_step_product *product,
                                   cell_step_address turned)
{
    const size_t pitch = (size_t)product->inputs * factor_bytes(product);
    struct base_random random;
    base_random_init(&random, 1);
    trial->product = *product;
    trial->weights[CELL_STEP_KN] = product->weights;
    trial->weights[CELL_STEP_NK] = turned;
    trial->a = base_alloc(ROWS * pitch);
    trial->out = base_alloc((size_t)ROWS * product->outputs * sizeof(float));
    if (trial->a == NULL || trial->out == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t k = 0; k < product->inputs; k++) {
        const float x = base_random_f32(&random, -1.0f, 1.0f);
        const uint16_t bf16 = cell_bf16_round(x);
        for (uint32_t r = 0; r < ROWS; r++) {
            memcpy((uint8_t *)trial->a + r * pitch + (size_t)k * factor_bytes(product),
                   factor_bytes(product) == 2 ? (const void *)&bf16 : (const void *)&x,
                   factor_bytes(product));
        }
    }
    trial->product.a =
        (struct cell_step_place){.at = address_of(trial->a), .pitch = (uint32_t)pitch};
    trial->product.out = (struct cell_step_place){
        .at = address_of(trial->out), .pitch = product->outputs * (uint32_t)sizeof(float)};
    trial->product.has_start = 0;
    trial->product.bias = 0;
    return BASE_OK;
}

static void multiply(struct trial *trial, enum cell_step_order order, uint32_t n_rows)
{
    trial->product.order = order;
    trial->product.weights = trial->weights[order];
    trial->product.n_rows = n_rows;
    kernels_host_product(&trial->product);
}

/* ---- See choose.h --------------------------------------------------------------------------- */

static enum base_status trial_rank(void *context, enum cell_step_order order,
                                   struct cell_cuda_algo out[CELL_CUDA_RANKED], uint32_t *n)
{
    const struct trial *trial = context;
    *n = 0;
    for (uint32_t i = 0; i < trial->n && *n < CELL_CUDA_RANKED; i++) {
        if (trial->candidates[i].order == order) {
            out[(*n)++] = (struct cell_cuda_algo){.words = {i}};
        }
    }
    return BASE_OK;
}

static const struct choice_host_candidate *one_of(const struct trial *trial,
                                                  const struct cell_cuda_candidate *candidate)
{
    base_assert(candidate->algo.words[0] < trial->n);
    const struct choice_host_candidate *one = &trial->candidates[candidate->algo.words[0]];
    base_assert(one->order == candidate->order);
    return one;
}

static enum base_status trial_probe(void *context, const struct cell_cuda_candidate *candidate,
                                    bool *is_invariant)
{
    struct trial *trial = context;
    const struct choice_host_candidate *one = one_of(trial, candidate);
    const size_t width = trial->product.outputs;
    atomic_fetch_add(&script.probed, 1);
    *is_invariant = true;
    for (uint32_t n = 1; n <= ROWS; n++) {
        multiply(trial, candidate->order, n);
        if (one->flaw == CHOICE_HOST_VARIES && n >= VARIES_FROM) {
            trial->out[(n - 1) * width] += 1.0f;
        }
        *is_invariant = *is_invariant && memcmp(trial->out, trial->out + (n - 1) * width,
                                                width * sizeof(float)) == 0;
    }
    return one->flaw == CHOICE_HOST_CANNOT ? BASE_UNIMPLEMENTED : BASE_OK;
}

static enum base_status trial_time(void *context, const struct cell_cuda_candidate *candidate,
                                   uint32_t rows, uint64_t budget_ns, uint64_t *ns)
{
    (void)rows;
    (void)budget_ns;
    atomic_fetch_add(&script.timed, 1);
    *ns = one_of(context, candidate)->ns;
    return BASE_OK;
}

/* A product has the same bits over weights in either order: the sums are the same. */
static void check_turned(struct trial *trial)
{
    const size_t width = trial->product.outputs;
    const struct cell_step_place out = trial->product.out;
    multiply(trial, CELL_STEP_KN, 1);
    trial->product.out.at += width * sizeof(float);
    multiply(trial, CELL_STEP_NK, 1);
    trial->product.out = out;
    if (memcmp(trial->out, trial->out + width, width * sizeof(float)) != 0) {
        atomic_fetch_add(&script.untrue, 1);
    }
}

enum base_status choice_host(struct cell_step_product *product, cell_step_address turned,
                             const struct cell_device_cache *cache)
{
    const bool is_nk = ((product->inputs * 7 + product->outputs * 3) / 4) % 2 == 1;
    const struct choice_host_candidate both[] = {
        {.order = CELL_STEP_KN, .ns = 10},
        {.order = CELL_STEP_NK, .ns = is_nk ? 9 : 11},
    };
    const bool is_told = script.candidates != NULL;
    struct trial trial = {.candidates = is_told ? script.candidates : both,
                          .n = is_told ? script.n : 2};
    struct cell_cuda_candidate chosen;
    char name[64];
    (void)snprintf(name, sizeof(name), "cuda-host: product %u x %u", product->inputs,
                   product->outputs);
    const struct cell_cuda_trial trials = {.context = &trial,
                                           .cache = cache,
                                           .name = name,
                                           .key = "cuda-host\n",
                                           .rank = trial_rank,
                                           .probe = trial_probe,
                                           .time = trial_time};
    enum base_status status = trial_open(&trial, product, turned);
    if (status == BASE_OK) {
        check_turned(&trial);
        status = cell_cuda_choose(&trials, &chosen);
    }
    if (status == BASE_OK) {
        product->order = chosen.order;
    }
    base_free(trial.a);
    base_free(trial.out);
    return status;
}
