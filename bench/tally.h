/* What cell types have done, as an engine's scheduler counts it. */
#ifndef BENCH_TALLY_H
#define BENCH_TALLY_H

#include "cells/model.h"
#include "server/engine.h"

struct bench_type_tally {
    uint64_t cells, steps, batches; /* rows x steps; steps of batches; batches */
};

/* Those of the model's types on the engine's first device so far; of others nothing is written.
 * Any thread; exact on the pool thread, and while nothing is inside. */
void bench_tally_read(const struct srv_engine *engine, const struct cell_model *cells,
                      struct bench_type_tally types[CELL_TYPES_MAX]);

/* *to -= from, of all types. */
void bench_tally_subtract(struct bench_type_tally to[CELL_TYPES_MAX],
                          const struct bench_type_tally from[CELL_TYPES_MAX]);

/* That of the model's types that has most cells: it stands for a run. */
const struct bench_type_tally *
bench_tally_most(const struct cell_model *cells,
                 const struct bench_type_tally types[CELL_TYPES_MAX]);

#endif
