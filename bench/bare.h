/* Whole sequences of one cell straight through a kernel table: no device, no batch, and no output
 * but the last state. The calling thread is member 0 of the team. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include "bench/cell.h"
#include "cells/backend.h"
#include "cells/kernels.h"

struct bench_bare;

struct bench_bare_options {
    const struct cell_kernels *kernels;
    struct cell_team *team; /* outlives it */
    const struct bench_cell *cell;
    struct bench_shape shape;
    enum cell_precision precision; /* of the weights */
    uint32_t ahead;                /* steps whose sums over x are computed together; 0: none are */
    bool products_only;
};

/* Of data the weights are copied, and x is read where it is. Ends the process without memory. */
void bench_bare_open(const struct bench_bare_options *options, const struct bench_data *data,
                     struct bench_bare **out);
void bench_bare_run(struct bench_bare *bare);
void bench_bare_close(struct bench_bare *bare); /* NULL is allowed */

#endif
