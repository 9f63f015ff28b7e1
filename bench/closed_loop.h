/* A closed loop over the engine: a number of requests is always present, and one that finishes is
 * replaced at once, on the pool thread, from memory that is there already.
 *
 * No network, no validation, no copy: what is measured is the scheduler, the pool and the device.
 * The replacement draws the next length and unfolds its graph anew, as a server has to. */
#ifndef BENCH_CLOSED_LOOP_H
#define BENCH_CLOSED_LOOP_H

#include "bench/request.h"
#include "bench/tally.h"

/* What was done in the time measured. */
struct bench_tally {
    uint64_t ns; /* from one completion to another */
    uint64_t requests;
    uint64_t allocations; /* by all threads */
    uint64_t busy_ns;     /* that the device's queues had work, summed (srv_engine_busy_ns()) */
    struct bench_type_tally types[CELL_TYPES_MAX];
};

struct bench_loop;

/* The engine runs already; it, cells and what load points to outlive the loop. INVALID_ARGUMENT
 * when the model's tensors are not for one sequence of any length. */
enum base_status bench_loop_create(struct srv_engine *engine, const struct cell_model *cells,
                                   const struct bench_load *load, struct bench_loop **out,
                                   struct base_error *error);
void bench_loop_free(struct bench_loop *loop);

/* Starts all requests, measures for about ns once each was replaced for the first time, and lets
 * them end. Blocks; may be called again. Another status than BASE_OK: that of a request that
 * failed, and *out means nothing. */
enum base_status bench_loop_run(struct bench_loop *loop, uint64_t ns, struct bench_tally *out);

/* Behind a run: some of its last requests once more, each alone. *out: the largest difference of an
 * output from what it was in company; NaN where one of both is no number. Blocks. A status as of
 * bench_loop_run(). */
enum base_status bench_loop_check(struct bench_loop *loop, double *out);

#endif
