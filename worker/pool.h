/* The pool thread: the only owner of a pool's scheduler, and the driver of its device's queues.
 *
 *   for (;;) { begin; poll completion counters, retire; deliver messages; form, submit; pump }
 *
 * It pulls batches from a batch source (cells/batch.h) and knows nothing of requests. Whoever wants
 * something of the scheduler posts a message, whose deliver() runs here. A post raises the
 * attention words of all queues: runs on the device end after their current step, and a newcomer
 * joins. They come down again when the batches that were on the device at delivery have retired.
 *
 * With one CPU team the pool thread is itself its member 0 and computes inside pump(); the other
 * members begin before, while it retires and forms (docs/decisions.md, 35). With several
 * teams each has a driver thread of its own and the pool thread only schedules. */
#ifndef WORKER_POOL_H
#define WORKER_POOL_H

#include "base/inbox.h"
#include "cells/backend.h"
#include "cells/calibration.h"

#define WRK_QUEUES_MAX 64u

struct wrk_pool_options {
    const struct cell_backend *backend;
    const char *isa;       /* passed to the backend */
    uint32_t card;         /* likewise */
    uint32_t teams;        /* queues of a CPU device, >= 1 */
    uint32_t team_threads; /* per team, >= 1 */
    uint32_t batches_queued_max;
    uint64_t spin_ns;      /* waiting for work before sleeping */
    uint64_t idle_spin_ns; /* the same of a pool thread that computes, and so has none at all */
    bool pin;              /* pin threads to CPUs */
    uint64_t watchdog_ns;  /* passed to the backend; 0: none */
    const struct cell_device_cache *cache; /* likewise; NULL: none */
    bool lanes_off;                        /* likewise */
    /* NULL, or called once on the pool thread when the device is lost (backend.is_lost). */
    void (*lost)(void *context);
    void *lost_context;
};

struct wrk_pool;

/* Opens the device with its teams; no thread of the pool's own yet. */
enum base_status wrk_pool_create(const struct wrk_pool_options *options, struct wrk_pool **out,
                                 struct base_error *error);

/* For loading types and opening rows before start. */
struct cell_device *wrk_pool_device(struct wrk_pool *pool);
uint32_t wrk_pool_queues(const struct wrk_pool *pool);
const _Atomic uint32_t *wrk_pool_attention(const struct wrk_pool *pool, uint32_t queue);

/* Whether wrk_pool_calibrate() can: the device computes inside pump(). */
bool wrk_pool_can_calibrate(const struct wrk_pool *pool);

/* Measures a loaded type that has a state on queue 0, before start (worker/calibrate.h): on a
 * thread that stands where the team's member 0 will, waits for it. rows_limit rows of the state's
 * layout are open. As wrk_calibrate(), and UNAVAILABLE when the thread cannot be started. */
enum base_status wrk_pool_calibrate(struct wrk_pool *pool, const struct cell_type *type,
                                    uint32_t rows_limit, struct cell_calibration *out,
                                    struct base_error *error);

/* Starts the threads; again after a stop, too. after_turn (may be NULL) is called on the pool
 * thread in each turn that retired or delivered something: the place to send off what has finished,
 * coalesced. UNAVAILABLE when a thread cannot be started, RESOURCE_EXHAUSTED out of memory. */
enum base_status wrk_pool_start(struct wrk_pool *pool, struct cell_batch_source source,
                                void (*after_turn)(void *context, uint64_t now_ns));

/* Any thread. The message is delivered on the pool thread, between two batches. */
void wrk_pool_post(struct wrk_pool *pool, struct base_message *message);

/* Not from the pool thread. Batches in flight end first (their runs are interrupted), so a dead
 * device makes it wait for ever; then the threads are joined. Messages already posted are
 * delivered. What the source still has to run is left inside it. */
void wrk_pool_stop(struct wrk_pool *pool);
void wrk_pool_free(struct wrk_pool *pool); /* after stop, or before start; NULL allowed */

/* Any thread: nanoseconds the device's queues were busy with batches, summed. */
uint64_t wrk_pool_busy_ns(const struct wrk_pool *pool);

#endif
