/* Jobs for an engine without a server, with the requests that they come from. */
#ifndef TESTS_SERVER_WORK_H
#define TESTS_SERVER_WORK_H

#include "server/engine.h"
#include "server/validate.h"
#include "tests/server/ask.h"

#include <stdatomic.h>

struct work {
    struct srv_job job; /* first */
    struct ask ask;
    struct sched_sequences sequences;
    _Atomic uint32_t finished, cancelled; /* how often; where a test sets no other callback */
    uint32_t again;                       /* for callbacks of tests */
};

/* A request of random numbers, validated, unfolded, with its rows reserved; not submitted. */
void work_init(struct srv_engine *engine, struct work *work, const struct cell_model *model,
               uint32_t n_rows, uint32_t steps, struct base_random *random);
/* After it has finished. */
void work_release(struct srv_engine *engine, struct work *work);

/* Until another thread has counted so far. */
void work_wait(_Atomic uint32_t *count, uint32_t at_least);

#endif
