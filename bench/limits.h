/* What the machine allows: limits measured by the loops of bench/peak.c, and the shortest time that
 * a sequence could take within them (the formula stands in bench/README.md). */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include "base/buf.h"
#include "bench/demand.h"
#include "cells/backend.h"
#include "cells/kernels.h"

#define BENCH_LEVELS_MAX 4u

/* A level of memory, nearest first. */
struct bench_level {
    const char *name; /* "L1", "L2", "L3", "memory" */
    double bytes;     /* a thread's share; of memory without bound */
    double gbytes;    /* 10^9 bytes a second that one thread reads from it */
};

/* All threads together, but for the levels. A rate is 0 where nothing could be measured. */
struct bench_limits {
    uint32_t threads;
    double gflops[CELL_PRECISION_COUNT]; /* multiply-adds, which are 2 */
    double gsigmoids, gtanhs;            /* 10^9 elements a second */
    uint32_t n_levels;
    struct bench_level levels[BENCH_LEVELS_MAX];
};

/* All members of the team measure at the same time, each rate for about ns; a rate is the sum of
 * the members' best pieces. Cache sizes are what the C library says; a level without a size is left
 * out. The largest memory touched is 256 MiB or 4 times L3. */
void bench_limits_measure(struct cell_team *team, const struct cell_kernels *kernels, uint64_t ns,
                          struct bench_limits *out);

/* One line of text, or the member "limits" of a JSON object. */
void bench_limits_text(struct base_buf *out, const struct bench_limits *limits);
void bench_limits_json(struct base_buf *out, const struct bench_limits *limits);

/* Milliseconds of a sequence of so many rows and steps; 0 when not known. */
double bench_roofline_ms(const struct bench_limits *limits, const struct bench_demand *demand,
                         uint32_t rows, uint32_t steps);

#endif
