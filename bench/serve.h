/* Sequences on demand: lines in, lines out, so that a driver can alternate this process with others
 * that speak the same (bench/peers/).
 *
 *   open CELL INPUTxHIDDENxROWSxSTEPS DIR   reads DIR/w.f32, r.f32, b.f32, x.f32
 *   run N                                   N sequences, each timed by the clock
 *   write                                   writes DIR/y.f32: what the last one gave
 *   close                                   frees the cell
 *   round_trip                              how far the first two CPUs are from each other just now
 *
 * Files are raw little-endian floats with the layouts of bench/cell.h. Each line is answered by one
 * line: a JSON object, or `error: ` and the reason; an error changes nothing. */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include "cells/backend.h"

#include <stdio.h>

struct bench_serve_options {
    const struct cell_backend *backend;
    const char *isa;
    struct cell_team *team;
};

/* Until the end of `in`, or until nothing can be written to `out`. The calling thread computes. */
void bench_serve(FILE *in, FILE *out, const struct bench_serve_options *options);

#endif
