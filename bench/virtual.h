/* Requests through the scheduler in virtual time: the scheduler itself, and in place of a device
 * one queue that computes nothing, whose steps last as long as their operations and weights say. So
 * what a change of the scheduler does to throughput and latencies can be told apart from what the
 * machine does: the same arguments give the same numbers anywhere.
 *
 * It is a team of one thread: a batch at a time, in the scheduler's order, interrupted between two
 * steps by who comes, as the `cpu` backend's, and nothing runs beside it. */
#ifndef BENCH_VIRTUAL_H
#define BENCH_VIRTUAL_H

#include "base/hist.h"
#include "bench/request.h"

/* A step takes the longer of its operations and its weights' reads, and half of the other. Of a
 * type with a state half of the weights are read: what belongs to inputs is for many steps at once.
 */
struct bench_virtual_times {
    double gflops; /* of any number of rows */
    double near_gbytes,
        far_gbytes; /* a second; of a type's weights up to near_bytes, and of more */
    double near_bytes;
    double batch_ns, row_ns; /* to begin and end a batch, and of each of its rows */
};

struct bench_virtual_run {
    struct bench_virtual_times times;
    uint32_t rows_max; /* of a batch */
    double rate;       /* requests a second, a Poisson process; 0: each asks again at once */
    double seconds;    /* of virtual time; the first tenth is not counted */
    uint64_t seed;
};

struct bench_virtual_stage {
    double rows; /* of a step, in the mean */
    double busy; /* part of the time that its steps took */
};

struct bench_virtual_result {
    struct base_hist latency_ns; /* from when a request should have come */
    uint64_t requests;
    double requests_per_s;
    bool is_full; /* an open loop that had no request left for who came: they waited outside */
    struct bench_virtual_stage types[CELL_TYPES_MAX];
};

/* Plausible ones of a core of a server. */
void bench_virtual_times_init(struct bench_virtual_times *times);

/* load->present requests, at most of an open loop. cells is the registry's. The errors of
 * bench_requests_create(); RESOURCE_EXHAUSTED. */
enum base_status bench_virtual_run(const struct cell_registry *registry,
                                   const struct cell_model *cells, const struct bench_load *load,
                                   const struct bench_virtual_run *run,
                                   struct bench_virtual_result *out, struct base_error *error);

#endif
