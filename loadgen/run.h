/* One run: load by a plan (open loop) or with a fixed number in flight (closed loop), measured. */
#ifndef LOADGEN_RUN_H
#define LOADGEN_RUN_H

#include "base/status.h"
#include "loadgen/client.h"
#include "loadgen/payload.h"
#include "loadgen/plan.h"
#include "loadgen/result.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lg_run_spec {
    struct lg_client *client;
    const struct lg_payload *payload;
    uint64_t seed;

    const struct lg_plan *plan; /* open loop; NULL = closed loop */
    double rate;                /* of the plan */
    uint32_t in_flight_max;     /* open loop: a send that finds no room waits, and is then late */

    uint32_t concurrency;      /* closed loop, > 0 */
    uint32_t session_requests; /* closed loop: of each session; 0: of none, */
    bool in_parts;             /* or: each answer while it is made, by a stream of its own */
    uint64_t warmup_ns, duration_ns, cooldown_ns;
    uint64_t requests; /* > 0: measure so many instead of a duration */

    uint64_t drain_ns;    /* after the last send, answers are awaited so long */
    uint64_t give_up_ns;  /* the run ends when for so long all that came was UNAVAILABLE */
    uint64_t deadline_ns; /* from the planned send; 0 = none */
    double cancel_fraction;
    uint64_t cancel_after_ns;

    const _Atomic bool *stop; /* set by a signal handler: the run ends with what it has */
    bool progress;            /* draw a bar on stderr */
};

/* Blocks until the run is over. *result is filled when the status is BASE_OK, whatever the server
 * did; it is large (two histograms), so not for the stack. RESOURCE_EXHAUSTED when the run cannot
 * be set up. Uses one thread besides the calling one, which has the client meanwhile. */
enum base_status lg_run(const struct lg_run_spec *spec, struct lg_result *result,
                        struct base_error *error) __attribute__((warn_unused_result));

#endif
