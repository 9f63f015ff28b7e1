/* A model of one binary TreeLSTM with random weights, made without files. */
#ifndef BENCH_TREE_MODEL_H
#define BENCH_TREE_MODEL_H

#include "cells/model.h"

/* x FP32 [leaves, inputs], children -> h FP32 [roots, hidden]. Ended with cell_model_free().
 * RESOURCE_EXHAUSTED. */
enum base_status bench_tree_model(struct cell_registry *registry, uint32_t inputs, uint32_t hidden,
                                  struct cell_model **out, struct base_error *error);

#endif
