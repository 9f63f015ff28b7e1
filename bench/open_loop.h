/* Requests that come by themselves, at a stated mean rate, whatever has become of those before
 * them; under a way of batching (bench/batching.h), on one engine.
 *
 * Whoever may go in does so in the moment in which the last before it is out, on the pool thread:
 * no way of batching waits for a thread to wake up, but for those who come while nothing is inside.
 *
 * Arrivals are a Poisson process drawn before the run. A latency counts from when a request should
 * have come. */
#ifndef BENCH_OPEN_LOOP_H
#define BENCH_OPEN_LOOP_H

#include "base/hist.h"
#include "bench/batching.h"
#include "bench/request.h"
#include "bench/tally.h"

struct bench_open_loop;

struct bench_open_run {
    struct bench_batching_policy policy; /* most: no more than the loop's */
    double rate;                         /* requests a second; 0: as many as `clients` can ask */
    uint32_t clients;                    /* each of which asks again when it has its answer */
    double seconds;
    uint64_t seed;
};

struct bench_open_result {
    struct base_hist latency_ns; /* of those that came after the first tenth of the time */
    uint64_t requests;
    double requests_per_s; /* until the last answer; of clients, until the time was over */
    uint64_t steps;        /* of their sequences and answers, nodes of their trees */
    uint64_t padding;      /* steps that were computed besides */
    struct bench_type_tally types[CELL_TYPES_MAX];
};

/* The engine runs already; it, cells and what load points to outlive the loop. load->present
 * requests can be inside. As of bench_requests_create(). */
enum base_status bench_open_loop_create(struct srv_engine *engine, const struct cell_model *cells,
                                        const struct bench_load *load, struct bench_open_loop **out,
                                        struct base_error *error);
void bench_open_loop_free(struct bench_open_loop *loop); /* NULL is allowed */

/* Blocks; may be called again. INVALID_ARGUMENT: trees are not padded; RESOURCE_EXHAUSTED; the
 * status of a request that failed. */
enum base_status bench_open_loop_run(struct bench_open_loop *loop, const struct bench_open_run *run,
                                     struct bench_open_result *out, struct base_error *error);

#endif
