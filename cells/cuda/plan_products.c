/* A product's factors as they are multiplied; see plan.h.
 *
 * Weights are rounded here, once; what they are multiplied with by a kernel in the step (ROUND), a
 * matrix once however many products read it. Three bf16 products are one, of three times the
 * inputs: as many bytes of weights are read as by three, what comes of it is written once and not
 * three times, and there is one algorithm to be found for it. */
#include "cells/cuda/plan.h"

#include "cells/cuda/round.h"

#include <math.h>

/* Words of 32 bits that n weights take. */
static size_t words_of(enum cell_products products, size_t n)
{
    const size_t bytes = products == CELL_PRODUCTS_BF16     ? n * sizeof(uint16_t)
                         : products == CELL_PRODUCTS_BF16X3 ? 3 * n * sizeof(uint16_t)
                                                            : n * sizeof(float);
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

static void put_bf16(void *weights, size_t i, uint16_t bf16)
{
    memcpy((uint8_t *)weights + i * sizeof(bf16), &bf16, sizeof(bf16));
}

/* from: [n] floats, to: of words_of() words. Whether all are finite still. */
static bool round_weights(enum cell_products products, const float *from, size_t n, float *to)
{
    bool is_finite = true;
    for (size_t i = 0; i < n && products == CELL_PRODUCTS_TF32; i++) {
        to[i] = cell_tf32_round(from[i]);
        is_finite &= isfinite(to[i]) != 0;
    }
    for (size_t i = 0; i < n && products != CELL_PRODUCTS_TF32; i++) {
        const uint16_t high = cell_bf16_round(from[i]);
        put_bf16(to, i, high);
        is_finite &= isfinite(cell_bf16_widen(high)) != 0;
        if (products == CELL_PRODUCTS_BF16X3) {
            put_bf16(to, n + i, cell_bf16_lost(from[i], high));
            put_bf16(to, 2 * n + i, high);
        }
    }
    return is_finite;
}

float *cell_cuda__factors_begin(struct cell_cuda__plan *plan, uint32_t inputs, uint32_t outputs)
{
    if (!plan->writes_weights || plan->status != BASE_OK) {
        return NULL;
    }
    float *weights = base_alloc_array((size_t)inputs * outputs, sizeof(*weights));
    if (weights == NULL) {
        plan->status = base_fail(plan->error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    return weights;
}

/* Weights to the card; `weights` is given back. */
static cell_step_address weights_end(struct cell_cuda__plan *plan, float *weights, size_t n)
{
    const enum cell_products products = plan->def->products;
    const size_t words = words_of(products, n);
    cell_step_address at = 0;
    float *out = cell_cuda__weights_begin(plan, words, &at);
    if (out != NULL && weights != NULL) {
        if (products == CELL_PRODUCTS_FP32) {
            memcpy(out, weights, n * sizeof(*weights));
        } else if (!round_weights(products, weights, n, out)) {
            plan->status = base_fail(plan->error, BASE_INVALID_ARGUMENT,
                                     "a weight is not finite in %s", cell_products_name(products));
        }
    }
    cell_cuda__weights_end(plan, out, words, at);
    base_free(weights);
    return at;
}

/* A matrix is written before what reads it, and once a step: so it may be rounded once. */
static struct cell_step_place rounded(struct cell_cuda__plan *plan, struct cell_step_place from,
                                      uint32_t width)
{
    const enum cell_products products = plan->def->products;
    for (uint32_t i = 0; i < plan->n_rounded; i++) {
        const struct cell_cuda__rounded *known = &plan->rounded[i];
        if (known->from.at == from.at && known->from.pitch == from.pitch && known->width == width) {
            return known->to;
        }
    }
    const struct cell_step_place to =
        cell_cuda__matrix(plan, words_of(products, width) * sizeof(float));
    cell_cuda__add(plan, CELL_STEP_ROUND, width, "what is multiplied")->round =
        (struct cell_step_round){
            .in = from, .out = to, .width = width, .products = (uint32_t)products};
    if (plan->n_rounded < CELL_CUDA__ROUNDED) {
        plan->rounded[plan->n_rounded++] =
            (struct cell_cuda__rounded){.from = from, .to = to, .width = width};
    }
    return to;
}

struct cell_step_product *cell_cuda__plan_product(struct cell_cuda__plan *plan,
                                                  const struct cell_cuda__factors *factors)
{
    const enum cell_products products = plan->def->products;
    const bool is_three = products == CELL_PRODUCTS_BF16X3;
    const cell_step_address weights =
        weights_end(plan, factors->weights, (size_t)factors->inputs * factors->outputs);
    const struct cell_step_place a =
        products == CELL_PRODUCTS_FP32 ? factors->a : rounded(plan, factors->a, factors->inputs);
    struct cell_step_product *product =
        &cell_cuda__add(plan, CELL_STEP_PRODUCT, 0, factors->about)->product;
    product->a = a;
    product->weights = weights;
    product->inputs = factors->inputs * (is_three ? 3 : 1);
    product->outputs = factors->outputs;
    product->products = (uint32_t)(is_three ? CELL_PRODUCTS_BF16 : products);
    return product;
}
