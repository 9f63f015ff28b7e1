/* A model that translates, with random weights, made without files: an LSTM over the source, then
 * one that is fed its own ids until their end (Sutskever, Vinyals, Le, NIPS 2014). */
#ifndef BENCH_SEQ2SEQ_MODEL_H
#define BENCH_SEQ2SEQ_MODEL_H

#include "cells/model.h"

/* Its inputs, by number. */
enum { BENCH_SEQ2SEQ_SOURCE, BENCH_SEQ2SEQ_ANSWER };

/* source INT64 [batch, time], ids below vocabulary; answer FP32 [batch, 1], the step at which the
 * end comes -> token INT64 [batch, steps], lengths INT64 [batch]. As wherever a decoder has an end,
 * only its device sees that it has come. steps_max: of answers. Ended with cell_model_free().
 * RESOURCE_EXHAUSTED. */
enum base_status bench_seq2seq_model(struct cell_registry *registry, uint32_t vocabulary,
                                     uint32_t hidden, uint32_t steps_max, struct cell_model **out,
                                     struct base_error *error);

#endif
