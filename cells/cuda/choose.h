/* Choosing among a library's algorithms for the products of one shape, and how the weights lie: one
 * of each for all row counts, since a row's bits must not depend on how many there are.
 *
 *   ranked by the library -> probed -> timed -> the best -> kept for the next start
 *
 * Pure but for what the trial calls: no CUDA, no clock. Whoever loads a type. */
#ifndef CELLS_CUDA_CHOOSE_H
#define CELLS_CUDA_CHOOSE_H

#include "cells/backend.h"
#include "cells/cuda/step.h"

#define CELL_CUDA_RANKED 16u /* that a library is asked for, of each order of the weights */
#define CELL_CUDA_TIMED  8u  /* of those that pass, of each order, in the library's */
#define CELL_CUDA_ROUNDS 2u  /* each is timed so often, and the shorter time counts */

/* Row counts that they are timed at. */
#define CELL_CUDA_COUNTS 5u
extern const uint32_t cell_cuda_counts[CELL_CUDA_COUNTS];

/* For one shape, all told. */
#define CELL_CUDA_CHOICE_NS UINT64_C(40000000)

/* As a library has it, which knows what the words mean. */
struct cell_cuda_algo {
    uint64_t words[8];
};

struct cell_cuda_candidate {
    enum cell_step_order order;
    struct cell_cuda_algo algo;
};

/* Any of these may say UNIMPLEMENTED of a candidate that cannot do it: it is passed over. Any other
 * failure ends the choice. */
struct cell_cuda_trial {
    void *context;
    const struct cell_device_cache *cache; /* NULL: none */
    const char *name, *key;                /* in it */
    enum base_status (*rank)(void *context, enum cell_step_order order,
                             struct cell_cuda_algo out[CELL_CUDA_RANKED], uint32_t *n);
    /* Whether a row has the same bits in every row count, at the first and the last place. */
    enum base_status (*probe)(void *context, const struct cell_cuda_candidate *candidate,
                              bool *is_invariant);
    /* Time of a product of so many rows; takes about budget_ns, or one product's time. */
    enum base_status (*time)(void *context, const struct cell_cuda_candidate *candidate,
                             uint32_t rows, uint64_t budget_ns, uint64_t *ns);
};

/* Of those that pass the probe, the one whose times over the best at each row count add up to
 * least; of equal ones [k, n] before [n, k], then the library's first. One that was kept is probed
 * again, and not timed. UNIMPLEMENTED: none passes, which is kept too. */
enum base_status cell_cuda_choose(const struct cell_cuda_trial *trial,
                                  struct cell_cuda_candidate *out);

#endif
