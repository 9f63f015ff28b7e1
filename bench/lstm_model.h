/* A model of one LSTM with random weights, made without a file. */
#ifndef BENCH_LSTM_MODEL_H
#define BENCH_LSTM_MODEL_H

#include "cells/model.h"

/* x FP32 [batch, time, inputs] -> h FP32 [batch, hidden], the state after the last step. Ended with
 * cell_model_free(). RESOURCE_EXHAUSTED. */
enum base_status bench_lstm_model(struct cell_registry *registry, uint32_t inputs, uint32_t hidden,
                                  struct cell_model **out, struct base_error *error);

#endif
