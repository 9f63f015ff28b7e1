/* Models built by hand, with random weights, for the tests of the server. Each is ended with
 * cell_model_free(). A failure to build one ends the program. */
#ifndef TESTS_SERVER_MODELS_H
#define TESTS_SERVER_MODELS_H

#include "cells/model.h"

#define MODELS_TOKENS 32

/* One LSTM over floats, which carries its state and takes lengths:
 *   x FP32 [batch, time, inputs], h0 and c0 FP32 [batch, hidden] (optional),
 *   lengths INT64 [batch] (optional)
 *   -> y FP32 [batch, time, hidden], h and c FP32 [batch, hidden] */
struct cell_model *models_chain(struct cell_registry *registry, uint32_t inputs, uint32_t hidden,
                                uint64_t salt);

/* A classifier of tokens in three stages, EACH, CHAIN, ONCE:
 *   tokens INT64 [batch, time], 0..MODELS_TOKENS-1
 *   -> scores FP32 [batch, 3] (a softmax), embedded FP32 [batch, time, 8] */
struct cell_model *models_tokens(struct cell_registry *registry, uint32_t hidden, uint64_t salt);

/* The same over a lone sequence, time second: x INT32 [1, time], no batch axis -> last FP32 [4]. */
struct cell_model *models_lone(struct cell_registry *registry, uint64_t salt);

/* A graph of two cells, of rows of 3 and of ids that may be any number:
 *   word  id INT64, 0..MODELS_TOKENS-1 -> v FP32 [3]
 *   join  a, b FP32 [3] -> sum FP32 [3], id INT64 */
struct cell_model *models_graph(struct cell_registry *registry, uint64_t salt);

#endif
