/* The pool thread and the drivers of further teams.
 *
 * Data: per queue a FIFO of the batches in flight (the scheduler's memory), an attention word on a
 * cache line of its own, and the count of batches retired, compared with the device's counter.
 * Threads: the pool thread owns all of it but the attention words, which any poster raises. Cost
 * of a turn without news: a look at the inbox and at each counter. */
#include "worker/pool.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/event.h"
#include "base/log.h"
#include "base/mem.h"
#include "worker/calibrate.h"
#include "worker/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <string.h>

/* More than cell_lane_host_look() wants, so that it is never the one that is late. */
#define LOOKS_PER_WATCHDOG 8u

struct attention {
    alignas(BASE_CACHE_LINE) _Atomic uint32_t word;
};

/* Runs pump() of one queue when the pool thread does not. */
struct driver {
    alignas(BASE_CACHE_LINE) struct base_event wake;
    _Atomic bool stop;
    struct wrk_pool *pool;
    uint32_t queue;
    pthread_t thread;
};

struct queue {
    const _Atomic uint64_t *completed; /* the device's counter */
    uint64_t submitted, retired;       /* batches, ever */
    uint64_t attended;                 /* attention stays up until so many are retired */
    uint64_t busy_from_ns;             /* start of the time not yet counted as busy */
    struct cell_batch **in_flight;     /* ring of batches_queued_max, by submitted % max */
};

struct wrk_pool {
    struct wrk_pool_options options;
    struct cell_device *device;
    struct cell_device_caps caps;
    struct cell_team *teams[WRK_QUEUES_MAX];
    struct queue queues[WRK_QUEUES_MAX];
    uint32_t n_queues;
    struct cell_batch_source source;
    void (*after_turn)(void *context, uint64_t now_ns);
    struct driver *drivers; /* [n_queues] when several teams compute, else NULL */
    uint32_t n_drivers;
    bool started;
    pthread_t thread;
    struct attention *attention; /* [n_queues]; of queues whose device has no word of its own */
    _Atomic uint32_t *attention_of[WRK_QUEUES_MAX];
    bool is_lost;
    struct base_inbox inbox;
    alignas(BASE_CACHE_LINE) struct base_event wake;
    _Atomic bool stop;
    _Atomic uint64_t busy_ns;
};

static void wake_pool(void *context)
{
    struct wrk_pool *pool = context;
    base_event_signal(&pool->wake);
}

/* ---- Life cycle ---- */

static enum base_status teams_create(struct wrk_pool *pool, struct base_error *error)
{
    const struct wrk_pool_options *options = &pool->options;
    for (uint32_t t = 0; t < options->teams; t++) {
        struct wrk_team_options team = {.members = options->team_threads,
                                        .spin_ns = options->spin_ns,
                                        .first_cpu = t * options->team_threads,
                                        .pin = options->pin,
                                        .name = "cb-team"};
        enum base_status status = wrk_team_create(&team, &pool->teams[t]);
        if (status != BASE_OK) {
            return base_fail(error, status, "cannot start the %u threads of CPU team %u",
                             options->team_threads, t);
        }
    }
    return BASE_OK;
}

static enum base_status queues_create(struct wrk_pool *pool, struct base_error *error)
{
    pool->n_queues = pool->options.teams;
    pool->attention =
        base_alloc_aligned(pool->n_queues * sizeof(*pool->attention), BASE_CACHE_LINE);
    if (pool->attention == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        struct queue *queue = &pool->queues[q];
        const struct cell_backend *backend = pool->options.backend;
        queue->completed = backend->completed(pool->device, q);
        pool->attention_of[q] =
            backend->attention == NULL ? NULL : backend->attention(pool->device, q);
        if (pool->attention_of[q] == NULL) {
            pool->attention_of[q] = &pool->attention[q].word;
        }
        queue->in_flight =
            base_alloc_array(pool->options.batches_queued_max, sizeof(struct cell_batch *));
        if (queue->in_flight == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
        }
    }
    return BASE_OK;
}

enum base_status wrk_pool_create(const struct wrk_pool_options *options, struct wrk_pool **out,
                                 struct base_error *error)
{
    base_assert(options->teams >= 1 && options->teams <= WRK_QUEUES_MAX);
    base_assert(options->team_threads >= 1 && options->batches_queued_max >= 1);
    struct wrk_pool *pool = base_alloc_aligned(sizeof(*pool), BASE_CACHE_LINE);
    if (pool == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    pool->options = *options;
    base_inbox_init(&pool->inbox);
    base_event_init(&pool->wake);
    enum base_status status = teams_create(pool, error);
    if (status == BASE_OK) {
        struct cell_device_options device = {.n_queues = options->teams,
                                             .teams = pool->teams,
                                             .isa = options->isa,
                                             .card = options->card,
                                             .batches_queued_max = options->batches_queued_max,
                                             .wake = wake_pool,
                                             .wake_context = pool,
                                             .watchdog_ns = options->watchdog_ns,
                                             .cache = options->cache,
                                             .lanes_off = options->lanes_off};
        status = options->backend->open(&device, &pool->device, error);
    }
    if (status == BASE_OK) {
        options->backend->caps(pool->device, &pool->caps);
        status = queues_create(pool, error);
    }
    if (status != BASE_OK) {
        wrk_pool_free(pool);
        return status;
    }
    *out = pool;
    return BASE_OK;
}

void wrk_pool_free(struct wrk_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    base_assert(!pool->started);
    if (pool->device != NULL) {
        pool->options.backend->close(pool->device);
    }
    for (uint32_t t = 0; t < pool->options.teams; t++) {
        wrk_team_free(pool->teams[t]);
        base_free((void *)pool->queues[t].in_flight);
    }
    base_free(pool->attention);
    base_free(pool);
}

struct cell_device *wrk_pool_device(struct wrk_pool *pool)
{
    return pool->device;
}

uint32_t wrk_pool_queues(const struct wrk_pool *pool)
{
    return pool->n_queues;
}

const _Atomic uint32_t *wrk_pool_attention(const struct wrk_pool *pool, uint32_t queue)
{
    base_assert(queue < pool->n_queues);
    return pool->attention_of[queue];
}

uint64_t wrk_pool_busy_ns(const struct wrk_pool *pool)
{
    return atomic_load_explicit(&pool->busy_ns, memory_order_relaxed);
}

/* ---- Calibration ---- */

struct calibrating {
    struct wrk_pool *pool;
    const struct cell_type *type;
    uint32_t rows_limit;
    struct cell_calibration *out;
    struct base_error *error;
    enum base_status status;
};

static void *calibrate_main(void *argument)
{
    struct calibrating *run = argument;
    const struct wrk_pool *pool = run->pool;
    const struct wrk_calibrate_options options = {.backend = pool->options.backend,
                                                  .device = pool->device,
                                                  .rows_limit = run->rows_limit,
                                                  .is_alone = pool->options.team_threads == 1,
                                                  .budget_ns = WRK_CALIBRATE_BUDGET_NS};
    base_thread_name("cb-calibrate");
    if (pool->options.pin) {
        (void)base_cpus_pin_self(0); // who refuses says so at start
    }
    run->status = wrk_calibrate(&options, run->type, run->out, run->error);
    return NULL;
}

bool wrk_pool_can_calibrate(const struct wrk_pool *pool)
{
    return pool->caps.pumped;
}

enum base_status wrk_pool_calibrate(struct wrk_pool *pool, const struct cell_type *type,
                                    uint32_t rows_limit, struct cell_calibration *out,
                                    struct base_error *error)
{
    base_assert(!pool->started && pool->caps.pumped);
    struct calibrating run = {
        .pool = pool, .type = type, .rows_limit = rows_limit, .out = out, .error = error};
    pthread_t thread;
    if (pthread_create(&thread, NULL, calibrate_main, &run) != 0) {
        return base_fail(error, BASE_UNAVAILABLE, "cannot start a thread to calibrate");
    }
    pthread_join(thread, NULL);
    // The device has counted batches that were none of the scheduler's.
    struct queue *queue = &pool->queues[0];
    queue->retired = atomic_load_explicit(queue->completed, memory_order_relaxed);
    queue->submitted = queue->retired;
    return run.status;
}

/* ---- Posting ---- */

void wrk_pool_post(struct wrk_pool *pool, struct base_message *message)
{
    if (!base_inbox_post(&pool->inbox, message)) {
        return; // whoever posted onto the empty inbox has called for attention
    }
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        atomic_store_explicit(pool->attention_of[q], 1, memory_order_release);
    }
    base_event_signal(&pool->wake);
}

/* Takes the attention of a queue back, unless a run that stands in somebody's way may still look. A
 * post that raised it before the exchange is seen by who looks into the inbox after it (acquire);
 * one that raises it after leaves it up, and at worst the next run ends early for nothing. */
static void attention_lower(struct wrk_pool *pool, uint32_t q)
{
    _Atomic uint32_t *word = pool->attention_of[q];
    if (pool->queues[q].retired < pool->queues[q].attended ||
        atomic_load_explicit(word, memory_order_relaxed) == 0) {
        return;
    }
    (void)atomic_exchange_explicit(word, 0, memory_order_acquire);
    if (atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        atomic_store_explicit(word, 1, memory_order_relaxed); // it was the stop's: that stays up
    }
}

/* The runs that are on the device now, or wait there, end after their next step. */
static void call_attention(struct wrk_pool *pool, uint32_t q)
{
    pool->queues[q].attended = pool->queues[q].submitted;
    atomic_store_explicit(pool->attention_of[q], 1, memory_order_relaxed);
}

static bool is_in_way(const struct wrk_pool *pool, uint32_t q)
{
    return pool->source.is_in_way == NULL || pool->source.is_in_way(pool->source.context, q);
}

/* Delivers what was posted. The runs that are on the device now began, or were formed, without it:
 * where they stand in its way each ends after its next step. */
static bool deliver(struct wrk_pool *pool)
{
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        attention_lower(pool, q);
    }
    if (base_inbox_is_empty(&pool->inbox)) {
        return false;
    }
    (void)base_inbox_deliver(&pool->inbox);
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        if (pool->queues[q].submitted != pool->queues[q].retired && is_in_way(pool, q)) {
            call_attention(pool, q);
        }
    }
    return true;
}

/* ---- The pool thread ---- */

static bool retire(struct wrk_pool *pool, uint32_t q, uint64_t now_ns)
{
    struct queue *queue = &pool->queues[q];
    if (pool->options.backend->poll != NULL && queue->submitted != queue->retired) {
        pool->options.backend->poll(pool->device, q, now_ns);
    }
    // Acquire: results, status and steps_done of the batches counted are visible.
    uint64_t completed = atomic_load_explicit(queue->completed, memory_order_acquire);
    if (queue->retired == completed) {
        return false;
    }
    base_assert(completed <= queue->submitted);
    uint64_t busy_ns = now_ns - queue->busy_from_ns;
    atomic_store_explicit(&pool->busy_ns,
                          atomic_load_explicit(&pool->busy_ns, memory_order_relaxed) + busy_ns,
                          memory_order_relaxed);
    queue->busy_from_ns = now_ns;
    while (queue->retired < completed) {
        uint64_t slot = queue->retired++ % pool->options.batches_queued_max;
        struct cell_batch *batch = queue->in_flight[slot];
        queue->in_flight[slot] = NULL;
        pool->source.retire(pool->source.context, batch, now_ns);
    }
    if (queue->submitted != queue->retired && pool->source.is_pressed != NULL &&
        pool->source.is_pressed(pool->source.context, q)) {
        call_attention(pool, q);
    }
    return true;
}

static void look_for_loss(struct wrk_pool *pool)
{
    const struct cell_backend *backend = pool->options.backend;
    if (pool->is_lost || backend->is_lost == NULL || !backend->is_lost(pool->device)) {
        return;
    }
    pool->is_lost = true;
    log_error("pool", "the device is lost device=\"%s\"%s%s", pool->caps.description,
              backend->why_lost == NULL ? "" : " why=",
              backend->why_lost == NULL ? "" : backend->why_lost(pool->device));
    if (pool->options.lost != NULL) {
        pool->options.lost(pool->options.lost_context);
    }
}

static void send_off(struct wrk_pool *pool, uint64_t now_ns)
{
    if (pool->after_turn != NULL) {
        pool->after_turn(pool->source.context, now_ns);
    }
}

/* A row leaves a run that goes on: who waits for it is told at once. Called inside pump(). */
static void row_ended(struct cell_batch *batch, uint32_t row, void *context)
{
    struct wrk_pool *pool = context;
    const uint64_t now_ns = base_now_ns();
    pool->source.row_ended(pool->source.context, batch, row, now_ns);
    send_off(pool, now_ns);
}

static bool pumps_here(const struct wrk_pool *pool)
{
    return pool->caps.pumped && pool->drivers == NULL;
}

/* The team's other threads begin what was submitted while this one looks after the rest. */
static void begin(struct wrk_pool *pool)
{
    if (pumps_here(pool) && pool->options.backend->begin != NULL) {
        pool->options.backend->begin(pool->device, 0);
    }
}

static bool submit(struct wrk_pool *pool, uint32_t q, uint64_t now_ns)
{
    struct queue *queue = &pool->queues[q];
    bool any = false;
    while (queue->submitted - queue->retired < pool->options.batches_queued_max) {
        struct cell_batch *batch = pool->source.next(pool->source.context, q, now_ns);
        if (batch == NULL) {
            break;
        }
        if (queue->submitted == queue->retired) {
            queue->busy_from_ns = now_ns;
        }
        // Elsewhere than on this thread the batch ends with a row instead.
        batch->row_ended = pumps_here(pool) ? row_ended : NULL;
        batch->row_ended_context = pool;
        queue->in_flight[queue->submitted++ % pool->options.batches_queued_max] = batch;
        if (batch->beside != NULL) {
            batch->beside->row_ended = NULL;
            queue->in_flight[queue->submitted++ % pool->options.batches_queued_max] = batch->beside;
        }
        pool->options.backend->submit(pool->device, q, batch);
        begin(pool);
        any = true;
    }
    if (any && pool->drivers != NULL) {
        base_event_signal(&pool->drivers[q].wake);
    }
    return any;
}

static bool has_in_flight(const struct wrk_pool *pool)
{
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        if (pool->queues[q].submitted != pool->queues[q].retired) {
            return true;
        }
    }
    return false;
}

/* One turn. true when anything happened, so that another turn follows at once. What was formed in
 * the turn before begins first; then comes retiring, so that what has ended is not asked for
 * attention. */
static bool turn(struct wrk_pool *pool)
{
    begin(pool);
    uint64_t now_ns = base_now_ns();
    bool news = false;
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        news |= retire(pool, q, now_ns);
    }
    look_for_loss(pool);
    news |= deliver(pool);
    if (news) {
        // The clock behind the messages: no batch starts before the requests in it have come.
        now_ns = base_now_ns();
        send_off(pool, now_ns);
        // What it made its listeners post at once joins the batches that are formed now.
        if (deliver(pool)) {
            now_ns = base_now_ns();
            send_off(pool, now_ns);
        }
    }
    bool moved = news;
    if (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
        for (uint32_t q = 0; q < pool->n_queues; q++) {
            moved |= submit(pool, q, now_ns);
        }
    }
    if (pumps_here(pool)) {
        moved |= pool->options.backend->pump(pool->device, 0);
    }
    return moved;
}

/* A device under a watchdog is looked at while it works, though nothing wakes us. */
static uint64_t sleep_ns(const struct wrk_pool *pool)
{
    const bool is_watched = pool->options.backend->poll != NULL && pool->options.watchdog_ns > 0;
    return is_watched && has_in_flight(pool) ? pool->options.watchdog_ns / LOOKS_PER_WATCHDOG
                                             : BASE_WAIT_FOREVER;
}

static void *pool_main(void *argument)
{
    struct wrk_pool *pool = argument;
    base_thread_name("cb-pool");
    // With drivers CPU 0 is the first one's, and the pool thread goes where there is room.
    if (pool->options.pin && pool->drivers == NULL && base_cpus_pin_self(0) != BASE_OK) {
        log_warn("pool", "the kernel refused to pin the pool thread");
    }
    for (;;) {
        if (turn(pool)) {
            continue;
        }
        if (atomic_load_explicit(&pool->stop, memory_order_acquire) && !has_in_flight(pool) &&
            base_inbox_is_empty(&pool->inbox)) {
            return NULL;
        }
        if (has_in_flight(pool) && !pool->caps.pumped && !pool->caps.wakes) {
            sched_yield(); // a device that cannot wake us is polled while it has work
            continue;
        }
        base_event_wait(&pool->wake,
                        pumps_here(pool) ? pool->options.idle_spin_ns : pool->options.spin_ns,
                        sleep_ns(pool));
    }
}

/* ---- Drivers of further teams ---- */

static void *driver_main(void *argument)
{
    struct driver *driver = argument;
    struct wrk_pool *pool = driver->pool;
    base_thread_name("cb-team-0");
    if (pool->options.pin) {
        (void)base_cpus_pin_self(driver->queue * pool->options.team_threads);
    }
    while (!atomic_load_explicit(&driver->stop, memory_order_acquire)) {
        if (pool->options.backend->pump(pool->device, driver->queue)) {
            wake_pool(pool);
        } else {
            base_event_wait(&driver->wake, pool->options.spin_ns, BASE_WAIT_FOREVER);
        }
    }
    return NULL;
}

static enum base_status drivers_start(struct wrk_pool *pool)
{
    pool->drivers = base_alloc_aligned(pool->n_queues * sizeof(*pool->drivers), BASE_CACHE_LINE);
    if (pool->drivers == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        struct driver *driver = &pool->drivers[q];
        driver->pool = pool;
        driver->queue = q;
        base_event_init(&driver->wake);
        if (pthread_create(&driver->thread, NULL, driver_main, driver) != 0) {
            return BASE_UNAVAILABLE;
        }
        pool->n_drivers++;
    }
    return BASE_OK;
}

static void drivers_stop(struct wrk_pool *pool)
{
    for (uint32_t q = 0; q < pool->n_drivers; q++) {
        atomic_store_explicit(&pool->drivers[q].stop, true, memory_order_release);
        base_event_signal(&pool->drivers[q].wake);
        pthread_join(pool->drivers[q].thread, NULL);
    }
    pool->n_drivers = 0;
    base_free(pool->drivers);
    pool->drivers = NULL;
}

enum base_status wrk_pool_start(struct wrk_pool *pool, struct cell_batch_source source,
                                void (*after_turn)(void *context, uint64_t now_ns))
{
    base_assert(!pool->started);
    atomic_store_explicit(&pool->stop, false, memory_order_relaxed);
    pool->source = source;
    pool->after_turn = after_turn;
    if (pool->caps.pumped && pool->n_queues > 1) {
        enum base_status status = drivers_start(pool);
        if (status != BASE_OK) {
            drivers_stop(pool);
            return status;
        }
    }
    if (pthread_create(&pool->thread, NULL, pool_main, pool) != 0) {
        drivers_stop(pool);
        return BASE_UNAVAILABLE;
    }
    pool->started = true;
    log_info("pool", "started device=\"%s\" queues=%u", pool->caps.description, pool->n_queues);
    return BASE_OK;
}

void wrk_pool_stop(struct wrk_pool *pool)
{
    base_assert(pool->started);
    atomic_store_explicit(&pool->stop, true, memory_order_release);
    for (uint32_t q = 0; q < pool->n_queues; q++) {
        atomic_store_explicit(pool->attention_of[q], 1, memory_order_release);
    }
    base_event_signal(&pool->wake);
    pthread_join(pool->thread, NULL);
    drivers_stop(pool);
    pool->started = false;
    log_info("pool", "stopped");
}
