/* Random weights for the models that measurements make without a file. */
#ifndef BENCH_WEIGHTS_H
#define BENCH_WEIGHTS_H

#include "base/arena.h"
#include "base/random.h"
#include "cells/model.h"

/* Where weights come from. A registry copies what it interns, so they may go behind it. */
struct bench_weights {
    struct base_arena arena;
    struct base_random random;
    float scale;
    bool failed; /* there was no memory for one */
};

/* Weights are even in -scale..scale, as frameworks begin: 1 / sqrt(hidden). */
void bench_weights_init(struct bench_weights *weights, uint32_t hidden);
void bench_weights_release(struct bench_weights *weights);

/* [rows, cols]; data is NULL where it failed. */
struct cell_weight bench_weights_draw(struct bench_weights *weights, uint32_t rows, uint32_t cols);

/* The types of all stages of a model, from defs with these weights, under these names: both one for
 * each stage. RESOURCE_EXHAUSTED, where a weight is missing too; the registry's errors. */
enum base_status bench_weights_intern(const struct bench_weights *weights,
                                      struct cell_registry *registry, struct cell_def *defs,
                                      const char *const *names, struct cell_model *model,
                                      struct base_error *error);

#endif
