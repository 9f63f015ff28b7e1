/* A model's tensors as clients see them: its own, or BYTES where they are text, and without what
 * the text of a tree says already, and the states that sessions keep. Both front ends tell it; made
 * once, when the model is loaded. */
#ifndef SERVER_SIGNATURE_H
#define SERVER_SIGNATURE_H

#include "cells/model.h"

struct srv_texts;

struct srv_signature_tensor {
    const char *name;     /* the model's */
    const char *datatype; /* "FP32", "INT64", "INT32" or "BYTES" */
    uint32_t rank;
    int64_t dims[CELL_RANK_MAX]; /* -1: each request chooses */
    int32_t batch_axis;          /* -1: none */
    bool optional;               /* an input that may be left out */
    /* What an input of integers may hold: least..most, of a number of steps reckoned from the steps
     * that its row has. */
    bool has_range, is_of_steps;
    int64_t least, most;
};

/* Longest text of a range. */
#define SRV_RANGE_BYTES 64

struct srv_signature {
    uint32_t n_inputs, n_outputs;
    /* 0 unless the batch is the first axis of every tensor. Then it stands for "many": rows decide,
     * and a request that needs more of them than there are is answered RESOURCE_EXHAUSTED. */
    uint32_t max_batch_size;
    bool has_sessions; /* it keeps states between requests, which are not among its tensors */
    struct srv_signature_tensor inputs[CELL_TENSORS_MAX], outputs[CELL_TENSORS_MAX];
};

/* The range of a tensor that has one, such as "0..59", "1..steps" or "-3..steps-4"; returns out. */
const char *srv_signature_range(const struct srv_signature_tensor *tensor,
                                char out[SRV_RANGE_BYTES]);

/* texts: NULL where all are numbers. out refers to model, which outlives it. */
void srv_signature_make(const struct cell_model *model, const struct srv_texts *texts,
                        struct srv_signature *out);

#endif
