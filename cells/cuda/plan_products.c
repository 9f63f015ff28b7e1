/* A product's factors as they are multiplied; see plan.h.
 *
 * Weights are rounded here, once; what they are multiplied with by a kernel in the step (ROUND), a
 * matrix once however many products read it. Three bf16 products are one, of three times the
 * inputs: as many bytes of weights are read as by three, what comes of it is written once and not
 * three times, and there is one algorithm to be found for it.
 *
 * A library may want weights by inputs or by outputs: it is shown both, one product after the
 * other, and what it does not take is given back before anything runs. */
#include "cells/cuda/plan.h"

#include "base/assert.h"
#include "cells/cuda/round.h"

#include <math.h>
#include <string.h>

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
        const uint16_t high = cell_bf16_high(products == CELL_PRODUCTS_BF16X3, from[i]);
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
static cell_step_address weights_end(struct cell_cuda__plan *plan, enum cell_products products,
                                     float *weights, size_t n)
{
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
static struct cell_step_place rounded(struct cell_cuda__plan *plan, enum cell_products products,
                                      struct cell_step_place from, uint32_t width)
{
    for (uint32_t i = 0; i < plan->n_rounded; i++) {
        const struct cell_cuda__rounded *known = &plan->rounded[i];
        if (known->from.at == from.at && known->from.pitch == from.pitch && known->width == width &&
            known->products == products) {
            return known->to;
        }
    }
    const struct cell_step_place to =
        cell_cuda__matrix(plan, words_of(products, width) * sizeof(float));
    cell_cuda__add(plan, CELL_STEP_ROUND, width, "what is multiplied")->round =
        (struct cell_step_round){
            .in = from, .out = to, .width = width, .products = (uint32_t)products};
    if (plan->n_rounded < CELL_CUDA__ROUNDED) {
        plan->rounded[plan->n_rounded++] = (struct cell_cuda__rounded){
            .from = from, .to = to, .width = width, .products = products};
    }
    return to;
}

struct cell_step_product *cell_cuda__plan_product(struct cell_cuda__plan *plan,
                                                  const struct cell_cuda__factors *factors)
{
    const enum cell_products products = factors->products;
    const bool is_three = products == CELL_PRODUCTS_BF16X3;
    const size_t n = (size_t)factors->inputs * factors->outputs;
    const cell_step_address weights = factors->same != NULL
                                          ? factors->same->weights
                                          : weights_end(plan, products, factors->weights, n);
    const struct cell_step_place a = products == CELL_PRODUCTS_FP32
                                         ? factors->a
                                         : rounded(plan, products, factors->a, factors->inputs);
    struct cell_step_product *product =
        &cell_cuda__add(plan, CELL_STEP_PRODUCT, 0, factors->about)->product;
    product->a = a;
    product->weights = weights;
    product->inputs = factors->inputs * (is_three ? 3 : 1);
    product->outputs = factors->outputs;
    product->products = (uint32_t)(is_three ? CELL_PRODUCTS_BF16 : products);
    return product;
}

/* ---- The order of weights ------------------------------------------------------------------- */

/* Weights of one product, as they are and turned, here; and turned on the card. */
struct turned {
    size_t bytes;
    uint8_t *from, *to; /* [inputs][outputs], [outputs][inputs] */
    cell_step_address at;
};

/* A block of both at a time: one of them is walked against its rows. */
#define BLOCK 32u

static void turn_block(const struct cell_step_product *p, const struct turned *turned, uint32_t k,
                       uint32_t n)
{
    const size_t bytes = turned->bytes / ((size_t)p->inputs * p->outputs);
    for (uint32_t row = k; row < p->inputs && row < k + BLOCK; row++) {
        for (uint32_t column = n; column < p->outputs && column < n + BLOCK; column++) {
            memcpy(turned->to + ((size_t)column * p->inputs + row) * bytes,
                   turned->from + ((size_t)row * p->outputs + column) * bytes, bytes);
        }
    }
}

static enum base_status turned_open(struct cell_device *device, const struct cell_step_product *p,
                                    struct turned *turned)
{
    const struct cell_cuda_driver *driver = device->driver;
    const size_t n = (size_t)p->inputs * p->outputs;
    turned->bytes = n * (p->products == CELL_PRODUCTS_BF16 ? sizeof(uint16_t) : sizeof(float));
    turned->from = base_alloc(turned->bytes);
    turned->to = base_alloc(turned->bytes);
    if (turned->from == NULL || turned->to == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    BASE_TRY(driver->alloc(device->cuda, turned->bytes, &turned->at));
    BASE_TRY(driver->read(device->cuda, turned->from, p->weights, turned->bytes));
    for (uint32_t k = 0; k < p->inputs; k += BLOCK) {
        for (uint32_t column = 0; column < p->outputs; column += BLOCK) {
            turn_block(p, turned, k, column);
        }
    }
    return driver->write(device->cuda, turned->at, turned->to, turned->bytes);
}

static enum base_status product_prepare(struct cell_device *device, struct cell_cuda__op *op,
                                        struct base_error *error)
{
    const struct cell_cuda_driver *driver = device->driver;
    struct cell_step_product *p = &op->step.product;
    struct turned turned = {0};
    enum base_status status = turned_open(device, p, &turned);
    if (status != BASE_OK) {
        status =
            base_fail(error, status, "no %zu bytes for weights in another order", turned.bytes);
    } else {
        status = driver->product_prepare(device->cuda, p, turned.at, error);
    }
    op->is_of_library = status == BASE_OK;
    if (status == BASE_OK && p->order == CELL_STEP_NK) {
        status = driver->write(device->cuda, p->weights, turned.to, turned.bytes);
        status = status == BASE_OK ? BASE_OK : base_fail(error, status, "the device is lost");
    }
    driver->free(device->cuda, turned.at);
    base_free(turned.from);
    base_free(turned.to);
    return status == BASE_UNIMPLEMENTED ? BASE_OK : status;
}

enum base_status cell_cuda__products_prepare(struct cell_device *device,
                                             const struct cell_cuda__program *first,
                                             struct cell_cuda__program *program,
                                             struct base_error *error)
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_cuda__op *op = &program->ops[o];
        if (!op->is_of_library) {
            continue;
        }
        if (first == NULL) {
            BASE_TRY(product_prepare(device, op, error));
            continue;
        }
        base_assert(o < first->n_ops &&
                    first->ops[o].step.product.weights == op->step.product.weights);
        op->is_of_library = first->ops[o].is_of_library;
        op->step.product.order = first->ops[o].step.product.order;
    }
    return BASE_OK;
}
