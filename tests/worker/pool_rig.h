/* A pool with its scheduler and a device, and random requests for it: what the pool's tests share.
 * Several threads, the *clients*, post jobs; each waits for its own. */
#ifndef TESTS_WORKER_POOL_RIG_H
#define TESTS_WORKER_POOL_RIG_H

#include "base/event.h"
#include "scheduler/admission.h"
#include "scheduler/scheduler.h"
#include "tests/cells/build.h"
#include "tests/reference_device.h"
#include "tests/scheduler/graphs.h"
#include "worker/pool.h"

#include <pthread.h>

#define POOL_RIG_TYPES   7u
#define POOL_RIG_ROWS    4096u /* of each layout */
#define POOL_RIG_CLIENTS 4u

struct pool_rig_options {
    const struct cell_backend *backend;
    struct reference_options reference;
    bool real_cells; /* LSTM and others in floats; else tokens */
    double tolerance;
    uint32_t beside_rows; /* of every type; 0: no two batches at the same time */
    uint32_t teams, team_threads;
    uint64_t spin_ns;
    bool pin;
    uint64_t watchdog_ns;
    void (*lost)(void *rig);
    struct sched_options sched; /* queues and attention are filled in */
};

struct pool_rig {
    struct pool_rig_options options;
    struct cell_registry *registry; /* of real cells, else NULL */
    struct build builds[POOL_RIG_TYPES];
    struct graphs_types types;
    struct wrk_pool *pool;
    struct sched *sched;
    pthread_mutex_t lock; /* admission, which in the server belongs to the loop thread */
    struct sched_admission admission;
    struct base_event events[POOL_RIG_CLIENTS]; /* something happened to a job of the client */
    _Atomic uint64_t batches;                   /* retired */
    uint64_t beside, followed; /* formed to run beside another, and behind it; pool thread */
    bool started;
};

/* Defaults: the reference device with tokens, one team of one thread. */
void pool_rig_options_init(struct pool_rig_options *options);

/* Creates everything and starts the pool; fails the case when anything does. */
void pool_rig_init(struct pool_rig *rig, const struct pool_rig_options *options);
void pool_rig_stop(struct pool_rig *rig);
void pool_rig_start(struct pool_rig *rig); /* again, after stop */
/* Stops the pool when that is not done, cancels what is left inside, and frees all. */
void pool_rig_release(struct pool_rig *rig);

/* One request. Belongs to its client, but for what the pool thread does until it is done. */
struct pool_job {
    struct base_message add, cancel;
    struct pool_rig *rig;
    uint32_t client;
    struct recipe recipe;
    enum base_status cancel_status;
    enum base_status status; /* once done */
    _Atomic bool done;
    _Atomic uint32_t messages; /* posted and not yet delivered */
};

/* A job with a random graph, or one chain of the rig's first type, or such a chain and over it one
 * of the second type, ready to post. */
void pool_job_random(struct pool_job *job, struct pool_rig *rig, uint32_t client,
                     const struct recipe_shape *shape, struct base_random *random);
void pool_job_chain(struct pool_job *job, struct pool_rig *rig, uint32_t client, uint32_t steps,
                    struct base_random *random);

void pool_job_layers(struct pool_job *job, struct pool_rig *rig, uint32_t client, uint32_t steps,
                     struct base_random *random);

/* Reserves and posts. */
void pool_job_post(struct pool_job *job);
void pool_job_cancel(struct pool_job *job, enum base_status status);

/* Done, and its messages delivered: it may be released. */
bool pool_job_is_done(const struct pool_job *job);
void pool_job_wait(struct pool_job *job);

/* Emitted rows that are wrong for how the job ended. */
uint32_t pool_job_wrong(const struct pool_job *job);
void pool_job_release(struct pool_job *job);

#endif
