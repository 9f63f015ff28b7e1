/* A recurrent cell as frameworks without a fused one run it: each gate's products over x and over h
 * on their own, then one element-wise op after the other. The baseline of `kernels --ablate`. */
#ifndef BENCH_SMALL_OPS_H
#define BENCH_SMALL_OPS_H

#include "bench/cell.h"

/* The definition of lstm or gru with the values of bench_cell_def() within rounding. It points into
 * data and into *weights, which the caller frees with base_free() once the type is interned.
 * UNIMPLEMENTED for another cell, RESOURCE_EXHAUSTED. */
enum base_status bench_small_ops_def(const struct bench_cell *cell, const struct bench_shape *shape,
                                     const struct bench_data *data, float **weights,
                                     struct cell_def *out, struct base_error *error);

#endif
