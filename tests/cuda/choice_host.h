/* How the host's library (driver_host.h) chooses for a product: by cells/cuda/choose.h, among
 * candidates that are made up, over weights in either order. Each is probed with real products; its
 * times and its flaw are what a test says. */
#ifndef TESTS_CUDA_CHOICE_HOST_H
#define TESTS_CUDA_CHOICE_HOST_H

#include "base/status.h"
#include "cells/backend.h"
#include "cells/cuda/step.h"

enum choice_host_flaw {
    CHOICE_HOST_GOOD,
    CHOICE_HOST_VARIES, /* sums otherwise in a matrix of some rows */
    CHOICE_HOST_CANNOT,
};

struct choice_host_candidate {
    enum cell_step_order order;
    enum choice_host_flaw flaw;
    uint64_t ns; /* of a product, however many rows */
};

/* Those of every product from now on, in the library's order; they outlive it. NULL: one of each
 * order, of which this or that is the faster as the shape will have it. While nothing is loaded. */
void choice_host_set(const struct choice_host_candidate *candidates, uint32_t n);

/* What has been asked of candidates so far. */
struct choice_host_counts {
    uint32_t probed, timed;
    uint32_t untrue; /* products whose other weights were not the same ones, turned */
};
struct choice_host_counts choice_host_counts(void);

/* As struct cell_cuda_driver's product_prepare(). cache: NULL allowed. */
enum base_status choice_host(struct cell_step_product *product, cell_step_address turned,
                             const struct cell_device_cache *cache);

#endif
