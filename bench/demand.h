/* What a cell asks of a machine, whoever computes it: products, activations, element-wise work and
 * the reading of weights. bench/limits.h makes the shortest possible time of it. */
#ifndef BENCH_DEMAND_H
#define BENCH_DEMAND_H

#include "bench/cell.h"
#include "cells/def.h"

/* Of one step of one row, but for the bytes, which all rows share. */
struct bench_demand {
    /* Of products, a multiply-add being 2, by how their weights are held. */
    double flops[CELL_PRECISION_COUNT];
    double sigmoids, tanhs; /* elements; an exp counts as a sigmoid */
    double elements;        /* of other element-wise ops and of means */
    double step_bytes;      /* weights that every step needs */
    double once_bytes;      /* weights whose products inputs alone make: once a sequence */
};

/* A cell of the benchmark, W and R in the given precision. */
void bench_demand_of_cell(const struct bench_cell *cell, const struct bench_shape *shape,
                          enum cell_precision precision, struct bench_demand *out);

/* Any definition. Rows of an embedding that a gated op reads need no product: the sums over them
 * could be looked up. What only moves values (slices, copies, lookups) is not counted. */
void bench_demand_of_def(const struct cell_def *def, struct bench_demand *out);

#endif
