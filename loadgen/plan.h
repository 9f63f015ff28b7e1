/* The arrivals of one open-loop run: a Poisson process drawn completely before the run starts, from
 * a seed that is printed. Times count from the start of the run.
 *
 *   0 ........ window_start ............... window_end ...... end
 *     warm-up               measured                  cool-down
 *
 * A request is measured when its planned time lies in the window. */
#ifndef LOADGEN_PLAN_H
#define LOADGEN_PLAN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Most requests of one plan; 800 MB of memory. */
#define LG_PLAN_MAX 100000000u

/* A send later than this against its plan is missed: 1 ms or 5 % of 100 mean gaps, whichever is
 * more. A run with more than LG_MISSED_SHARE_MAX of its measured sends missed is INVALID. */
#define LG_MISSED_FLOOR_NS  1000000u
#define LG_MISSED_GAPS      5u
#define LG_MISSED_SHARE_MAX 0.01

struct lg_plan {
    uint64_t *planned_ns; /* [count], ascending */
    size_t count;
    size_t measured_first; /* measured are measured_first .. measured_end - 1 */
    size_t measured_end;
    uint64_t window_start_ns, window_end_ns;
    uint64_t end_ns; /* the run sends until then */
};

struct lg_plan_spec {
    double rate; /* requests a second, > 0 */
    uint64_t seed;
    uint64_t warmup_ns, cooldown_ns;
    uint64_t duration_ns; /* of the window, when requests is 0 */
    uint64_t requests;    /* in the window: it ends where the next one would come */
};

/* On BASE_OK *out is owned by the caller: end it with lg_plan_release(). The same spec gives the
 * same plan on every machine. RESOURCE_EXHAUSTED past LG_PLAN_MAX. */
enum base_status lg_plan_create(const struct lg_plan_spec *spec, struct lg_plan *out,
                                struct base_error *error) __attribute__((warn_unused_result));
void lg_plan_release(struct lg_plan *plan);

/* Planned time of request i, BASE_NEVER for i >= count: nothing is read behind the end. */
uint64_t lg_plan_time(const struct lg_plan *plan, size_t i);

/* How late a send may be at this rate before it counts as missed. */
uint64_t lg_missed_limit_ns(double rate);

#endif
