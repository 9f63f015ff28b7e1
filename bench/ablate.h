/* What each step of DeepCPU (USENIX ATC 2018, sections 5.2 and 5.3, figures 3c and 4a) is worth
 * here: whole sequences of one cell through the CPU device in four forms, each with what the one
 * before it has, in turns.
 *
 * plain           each gate's products over x and over h on their own, then element-wise ops one by
 *                 one; a parallel region a step, in which each member has the weights that another
 *                 had the step before
 * fused           the same with all products, activations and the update of the state as one op
 * partitioned     and the products over x of steps to come ahead, where the device does that
 * weight-centric  and all steps in one parallel region, in which weights stay with their member: as
 *                 the server runs it */
#ifndef BENCH_ABLATE_H
#define BENCH_ABLATE_H

#include "bench/cell.h"
#include "cells/backend.h"

struct bench_ablate_options {
    const char *cells;                /* a list with commas between */
    const struct bench_shape *shapes; /* [n_shapes] */
    uint32_t n_shapes;
    const char *isa;
    struct cell_team *team;
    uint64_t seed; /* of the data */
    uint64_t ms;   /* for each shape */
    bool is_json;  /* an object a form */
};

/* Prints as it goes. NOT_FOUND, UNIMPLEMENTED (a cell that is not lstm or gru), RESOURCE_EXHAUSTED.
 */
enum base_status bench_ablate(const struct bench_ablate_options *options, struct base_error *error);

#endif
