/* Whole sequences of one cell through a backend's device: all rows and steps as one batch, the
 * output of every step written to host memory. The calling thread is member 0 of the team. */
#ifndef BENCH_SEQUENCE_H
#define BENCH_SEQUENCE_H

#include "bench/cell.h"
#include "cells/backend.h"

struct bench_sequence;

enum bench_sequence_ops {
    BENCH_OPS_FUSED, /* the cell as one op */
    BENCH_OPS_SMALL, /* as bench/small_ops.h has it */
};

struct bench_sequence_options {
    const struct cell_backend *backend;
    const char *isa;
    struct cell_team *team; /* outlives the sequence */
    const struct bench_cell *cell;
    struct bench_shape shape;
    enum cell_precision precision; /* of the weights; of small ops fp32 */
    enum bench_sequence_ops ops;
    bool without_windows; /* nothing is computed ahead of its step */
    bool by_steps;        /* a batch, and so a parallel region, for each step */
};

/* Of data the weights are copied; x and y are read and written where they are by every run, from
 * initial states of zeros. INVALID_ARGUMENT (weights that are not finite), UNAVAILABLE,
 * UNIMPLEMENTED (also a cell that is not known in small ops), RESOURCE_EXHAUSTED. */
enum base_status bench_sequence_open(const struct bench_sequence_options *options,
                                     const struct bench_data *data, struct bench_sequence **out,
                                     struct base_error *error);
void bench_sequence_run(struct bench_sequence *sequence);
void bench_sequence_close(struct bench_sequence *sequence); /* NULL is allowed */

/* The same rows in other batches on the same device (bench/course.h). A chain of its own over row
 * number `row` from step `first` on, to the last; emit and refs
 * outlive the wiring. */
void bench_sequence_wire(const struct bench_sequence *sequence, uint32_t row, uint32_t first,
                         struct cell_emit *emit, struct cell_refs *refs, struct cell_wiring *out);
/* A number that no other chain on the device has (struct cell_wiring). */
uint64_t bench_sequence_next_chain(struct bench_sequence *sequence);
/* Of such wirings; the type is set here. */
void bench_sequence_run_batch(struct bench_sequence *sequence, struct cell_batch *batch);

#endif
