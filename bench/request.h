/* Requests of a model that stand ready for an engine: inputs, outputs, and an arena for the graph,
 * all of it there before anything is measured. No network, no validation, no copy. */
#ifndef BENCH_REQUEST_H
#define BENCH_REQUEST_H

#include "bench/batching.h"
#include "bench/shapes.h"
#include "loadgen/lengths.h"
#include "server/engine.h"

/* One at a time is in it. Whoever has submitted it owns it until job.finished(). */
struct bench_request {
    struct srv_job job; /* first: what finished() gets */
    void *owner;        /* of whoever submits it */
    uint32_t number;    /* which of the lengths or trees it has */
    struct base_arena arena;
    uint32_t steps[CELL_SEQUENCES_MAX];
    sched_node_id decoder;
    struct sched_sequences sequences;
    struct sched_forest forest;
    struct sched_tensor inputs[CELL_TENSORS_MAX], outputs[CELL_TENSORS_MAX];
};

/* What requests there are: sequences of these lengths, or for a model of trees these. */
struct bench_load {
    const struct lg_lengths *lengths;
    const struct lg_lengths *answers; /* of decoders: when the end comes; request i has the ith */
    const struct bench_shapes *shapes;
    uint32_t present; /* at a time, or at most */
};

struct bench_requests {
    const struct cell_model *cells;
    const struct lg_lengths *lengths, *answers;
    const struct bench_shapes *shapes;
    uint32_t count;
    struct bench_request *all;
};

/* load->present of them, with inputs drawn at random, each with room for the longest or largest.
 * cells and what load points to outlive them. INVALID_ARGUMENT when the model's tensors are not for
 * one sequence of any length, or a decoder's are not those of seq2seq_model.h; RESOURCE_EXHAUSTED;
 * then *out needs no release. */
enum base_status bench_requests_create(const struct cell_model *cells,
                                       const struct bench_load *load, struct bench_requests *out,
                                       struct base_error *error);
void bench_requests_release(struct bench_requests *requests); /* zeros are allowed */

/* How many lengths or trees there are: numbers repeat behind them. */
uint32_t bench_requests_kinds(const struct bench_requests *requests);

/* Of the request of this number. */
struct bench_extent bench_requests_extent(const struct bench_requests *requests, uint32_t number);

/* A fresh graph of this length or tree in the request's arena, the one before being over. padded:
 * what it is longer than its own extent by is computed too; zeros: nothing. At most the longest. */
void bench_request_unfold(const struct bench_requests *requests, struct bench_request *request,
                          uint32_t number, struct bench_extent padded);

/* Rows of the model's tensor in the longest sequence, or the leaves of the largest tree. */
uint32_t bench_requests_rows(const struct bench_requests *requests,
                             const struct cell_tensor *tensor);

#endif
