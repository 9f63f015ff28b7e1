/* A CPU team: threads that compute one batch together (struct cell_team of cells/backend.h).
 *
 * Members wait for work by spinning up to spin_ns, then sleep in a futex; inside a batch they meet
 * at a barrier that spins, and yields when a member is late (preempted): a spinning thread starves
 * its neighbours on a busy machine. Nobody spins while the team is idle. */
#ifndef WORKER_TEAM_H
#define WORKER_TEAM_H

#include "cells/backend.h"

struct wrk_team_options {
    uint32_t members;   /* >= 1, the driving thread included */
    uint64_t spin_ns;   /* of waiting for work */
    uint32_t first_cpu; /* members 1.. are pinned to CPUs first_cpu + 1.. when pin is set */
    bool pin;
    const char *name; /* of the threads, short */
};

/* Starts members - 1 threads. The thread that calls start() is member 0, always the same one
 * (another may follow it once it has ended, as one that calibrates is followed by the pool thread).
 * UNAVAILABLE when a thread cannot be started, RESOURCE_EXHAUSTED out of memory. */
enum base_status wrk_team_create(const struct wrk_team_options *options, struct cell_team **out);

/* Not during a run. Joins the threads. */
void wrk_team_free(struct cell_team *cell_team);

#endif
