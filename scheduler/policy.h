/* The choice of the next cell type: the seam behind which policies stand.
 *
 * `cellular` is BatchMaker's order (Algorithm 1, lines 5-10), but that groups of types which
 * all have something ready share the device evenly, and that of types which do not run the one goes
 * first whose rows have waited longest, all together. Ways of batching whole requests (padding by
 * buckets, merging by depth) are not here but before the scheduler: bench/batching.h. Pure. */
#ifndef SCHEDULER_POLICY_H
#define SCHEDULER_POLICY_H

#include "cells/type.h"

#include <stdint.h>

/* A cell type with at least one ready row for the queue that asks. */
struct sched_candidate {
    cell_type_id type;
    uint32_t ready;    /* rows this queue may take now */
    uint32_t running;  /* batches of the type in flight, on any queue; and the one that a queue with
                          nothing in flight has had back last */
    uint32_t rows_max; /* Bsizes.Max() of the type */
    uint32_t priority; /* larger = later in the graph = first */
    uint64_t turns;    /* batches, of any type, from its last one to this: >= 1 */
    uint64_t finish_tag; /* of its first ready subgraph (scheduler.h), */
    uint64_t order;      /* and when that was released */
    uint64_t served;     /* work that the group has had, but for what it was not there for */
};

struct sched_policy {
    const char *name;
    /* Index of the chosen candidate; n >= 1. */
    uint32_t (*choose)(const struct sched_candidate *candidates, uint32_t n);
};

extern const struct sched_policy sched_policy_cellular;

#endif
