/* Wiring of scheduler, worker and backend.
 *
 * Data: for each device its pool, scheduler and admission; which of the registry's types and
 * layouts are loaded, and what each layout needs per chain (engine_state.h). Threads: models and
 * admission on the loop thread; the scheduler is touched by its pool thread alone, through messages
 * embedded in the jobs. */
#include "server/engine_state.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "server/batch_rows.h"

/* The loop and one that reads from the network. */
#define OTHER_BUSY_THREADS 2u

/* Who reads an answer while it is made gets some more of it this often: a millisecond or two of a
 * core. */
#define SHOWN_FLOPS 100000000u

void srv_engine_options_init(struct srv_engine_options *options)
{
    *options = (struct srv_engine_options){.backend = cell_backend_find("cpu"),
                                           .n_devices = 1,
                                           .isa = "auto",
                                           .teams = 1,
                                           .team_threads = 1,
                                           .spin_ns = 20 * BASE_NS_PER_US,
                                           .rows = 4096,
                                           .batch_rows_max = SRV_BATCH_ROWS,
                                           .tasks_max = 5,
                                           .calibration_cache = ""};
}

/* An idle pool thread that spins saves the next request a wake-up, but where every CPU has a thread
 * it takes the time from those that would bring the request. */
static uint64_t idle_spin(const struct srv_engine_options *options)
{
    uint32_t busy = options->teams * options->team_threads + OTHER_BUSY_THREADS;
    return base_cpus_allowed() > busy ? options->spin_ns : 0;
}

/* ---- Batch source: what the pool pulls from ---- */

static struct cell_batch *source_next(void *context, uint32_t queue, uint64_t now_ns)
{
    struct srv_device *device = context;
    return sched_next(device->sched, queue, now_ns);
}

static void source_retire(void *context, struct cell_batch *batch, uint64_t now_ns)
{
    struct srv_device *device = context;
    sched_retire(device->sched, batch, now_ns);
}

static bool source_is_pressed(void *context, uint32_t queue)
{
    const struct srv_device *device = context;
    return sched_is_pressed(device->sched, queue);
}

static bool source_is_in_way(void *context, uint32_t queue)
{
    const struct srv_device *device = context;
    return sched_is_in_way(device->sched, queue);
}

static void source_row_ended(void *context, struct cell_batch *batch, uint32_t row, uint64_t now_ns)
{
    struct srv_device *device = context;
    sched_row_ended(device->sched, batch, row, now_ns);
}

static void after_turn(void *context, uint64_t now_ns)
{
    struct srv_device *device = context;
    for (struct sched_graph *graph = sched_take_news(device->sched); graph != NULL;
         graph = graph->next_news) {
        struct srv_job *job = graph->user;
        job->progressed(job);
    }
    struct sched_graph *next = NULL;
    for (struct sched_graph *graph = sched_take_finished(device->sched); graph != NULL;
         graph = next) {
        // finished() gives the graph's memory to another thread, so its link is read before.
        next = graph->next_finished;
        struct srv_job *job = graph->user;
        job->finished(job);
    }
    (void)now_ns;
}

/* ---- Life cycle ---- */

/* The next batch is formed while the other threads of the team begin the one before. A thread alone
 * gains nothing by it. */
static uint32_t pumped_tasks(const struct srv_engine_options *options)
{
    const bool has_others = options->teams == 1 && options->team_threads > 1;
    return has_others && options->tasks_max > 1 ? 2 : 1;
}

static enum base_status sched_open(struct srv_engine *engine, struct srv_device *device)
{
    const struct srv_engine_options *options = &engine->options;
    struct sched_options sched;
    if (engine->caps.pumped) {
        sched_options_init_pumped(&sched);
        sched.tasks_max = pumped_tasks(options);
    } else {
        sched_options_init(&sched);
        sched.interruptible = false;
        sched.tasks_max = options->tasks_max;
        sched.run_steps_max = sched.run_steps_shared;
    }
    sched.n_queues = wrk_pool_queues(device->pool);
    sched.rows_max = options->batch_rows_max;
    sched.run_flops_shown = SHOWN_FLOPS;
    sched.spans = engine->caps.spans;
    sched.beside = engine->caps.beside && sched.tasks_max > 1;
    if (options->run_steps_max > 0 && options->run_steps_max < sched.run_steps_max) {
        sched.run_steps_max = options->run_steps_max;
    }
    for (uint32_t q = 0; q < sched.n_queues; q++) {
        sched.attention[q] = wrk_pool_attention(device->pool, q);
    }
    return sched_create(&sched, &device->sched);
}

static enum base_status device_open(struct srv_engine *engine, struct srv_device *device,
                                    struct base_error *error)
{
    const struct srv_engine_options *options = &engine->options;
    const struct wrk_pool_options pool = {.backend = options->backend,
                                          .card = options->cards[device - engine->devices],
                                          .isa = options->isa,
                                          .teams = options->teams,
                                          .team_threads = options->team_threads,
                                          .batches_queued_max = options->tasks_max,
                                          .spin_ns = options->spin_ns,
                                          .idle_spin_ns = idle_spin(options),
                                          .pin = options->pin,
                                          .watchdog_ns = options->watchdog_ns,
                                          .cache = srv_device_cache_of(&engine->cache),
                                          .lanes_off = options->lanes_off,
                                          .lost = options->lost,
                                          .lost_context = options->lost_context};
    BASE_TRY(wrk_pool_create(&pool, &device->pool, error));
    options->backend->caps(wrk_pool_device(device->pool), &engine->caps);
    if (engine->caps.pumped && options->n_devices > 1) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "there is one device '%s', not %u",
                         options->backend->name, options->n_devices);
    }
    enum base_status status = sched_open(engine, device);
    return status == BASE_OK ? BASE_OK : base_fail(error, status, "out of memory");
}

enum base_status srv_engine_create(const struct srv_engine_options *options,
                                   struct srv_engine **out, struct base_error *error)
{
    base_assert(options->n_devices >= 1 && options->n_devices <= SRV_DEVICES_MAX);
    struct srv_engine *engine = base_alloc(sizeof(*engine));
    if (engine == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    engine->options = *options;
    srv_device_cache_init(&engine->cache, options->calibration_cache);
    engine->devices = base_alloc_array(options->n_devices, sizeof(*engine->devices));
    enum base_status status =
        engine->devices == NULL ? BASE_RESOURCE_EXHAUSTED : cell_registry_create(&engine->registry);
    if (status != BASE_OK) {
        base_fail(error, status, "out of memory");
    }
    for (uint32_t d = 0; d < options->n_devices && status == BASE_OK; d++) {
        status = device_open(engine, &engine->devices[d], error);
    }
    if (status != BASE_OK) {
        srv_engine_free(engine);
        return status;
    }
    *out = engine;
    return BASE_OK;
}

void srv_engine_free(struct srv_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    base_assert(!engine->running);
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        const struct cell_type *type = engine->types[t].type;
        if (type != NULL) {
            srv_engine__type_unload(engine, type, engine->options.n_devices);
            cell_type_unref(engine->registry, type);
        }
    }
    for (uint32_t d = 0; engine->devices != NULL && d < engine->options.n_devices; d++) {
        sched_free(engine->devices[d].sched);
        wrk_pool_free(engine->devices[d].pool);
    }
    cell_registry_free(engine->registry);
    base_free(engine->devices);
    base_free(engine);
}

struct cell_registry *srv_engine_registry(struct srv_engine *engine)
{
    return engine->registry;
}

/* ---- Start, stop ---- */

static void stop_devices(struct srv_engine *engine)
{
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct srv_device *device = &engine->devices[d];
        if (device->running) {
            wrk_pool_stop(device->pool);
        }
        device->running = false;
    }
}

enum base_status srv_engine_start(struct srv_engine *engine, struct base_error *error)
{
    base_assert(!engine->running);
    BASE_TRY(srv_engine__open(engine, error));
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct srv_device *device = &engine->devices[d];
        struct cell_batch_source source = {.context = device,
                                           .next = source_next,
                                           .retire = source_retire,
                                           .is_pressed = source_is_pressed,
                                           .is_in_way = source_is_in_way,
                                           .row_ended = source_row_ended};
        enum base_status status = wrk_pool_start(device->pool, source, after_turn);
        if (status != BASE_OK) {
            stop_devices(engine);
            return base_fail(error, status, "cannot start the pool's threads");
        }
        device->running = true;
    }
    engine->running = true;
    return BASE_OK;
}

void srv_engine_stop(struct srv_engine *engine)
{
    base_assert(engine->running);
    stop_devices(engine);
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        base_assert(sched_graphs_inside(engine->devices[d].sched) == 0);
    }
    engine->running = false;
}

/* ---- Jobs ---- */

static struct srv_device *device_of(const struct srv_job *job)
{
    base_assert(job->device < job->engine->options.n_devices);
    return &job->engine->devices[job->device];
}

static void deliver_add(struct base_message *message)
{
    struct srv_job *job =
        (struct srv_job *)(void *)((char *)message - offsetof(struct srv_job, add));
    sched_add(device_of(job)->sched, job->graph, base_now_ns());
}

static void deliver_cancel(struct base_message *message)
{
    struct srv_job *job =
        (struct srv_job *)(void *)((char *)message - offsetof(struct srv_job, cancel));
    // After it has finished the graph is no longer inside, and this does nothing.
    sched_cancel(device_of(job)->sched, job->graph, job->cancel_status, base_now_ns());
    job->cancelled(job);
}

bool srv_engine_fits(const struct srv_engine *engine, const struct sched_graph *graph)
{
    return sched_admission_fits(&engine->devices[0].admission, graph); // all have as many rows
}

enum base_status srv_engine_check(const struct srv_engine *engine, const struct sched_graph *graph,
                                  struct base_error *error)
{
    const struct cell_backend *backend = engine->options.backend;
    const struct cell_device *device = wrk_pool_device(engine->devices[0].pool);
    for (uint32_t n = 0; n < graph->n_nodes && backend->wiring_check != NULL; n++) {
        const struct sched_node *node = &graph->nodes[n];
        BASE_TRY(backend->wiring_check(device, node->type, &node->wiring, error));
    }
    return BASE_OK;
}

bool srv_engine_reserve(struct srv_engine *engine, struct srv_job *job)
{
    const uint32_t n = engine->options.n_devices;
    bool was_tried[SRV_DEVICES_MAX] = {false};
    for (uint32_t tries = 0; tries < n; tries++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t d = (engine->turn + i) % n;
            if (!was_tried[d] &&
                (best == n || engine->devices[d].inside < engine->devices[best].inside)) {
                best = d;
            }
        }
        if (sched_admission_reserve(&engine->devices[best].admission, job->graph)) {
            engine->devices[best].inside++;
            job->device = best;
            engine->turn = (best + 1) % n;
            return true;
        }
        was_tried[best] = true;
    }
    return false;
}

void srv_engine_credit(struct srv_engine *engine, struct srv_job *job)
{
    struct srv_device *device = &engine->devices[job->device];
    base_assert(device->inside > 0);
    device->inside--;
    sched_admission_credit(&device->admission, job->graph);
}

void srv_engine_submit(struct srv_engine *engine, struct srv_job *job)
{
    job->engine = engine;
    job->graph->user = job;
    job->add.deliver = deliver_add;
    wrk_pool_post(device_of(job)->pool, &job->add);
}

void srv_engine_cancel(struct srv_engine *engine, struct srv_job *job, enum base_status status)
{
    job->cancel_status = status;
    job->cancel.deliver = deliver_cancel;
    base_assert(job->engine == engine);
    wrk_pool_post(device_of(job)->pool, &job->cancel);
}

/* ---- Inspect ---- */

const struct cell_type *srv_engine_type(const struct srv_engine *engine, cell_type_id id)
{
    base_assert(id < CELL_TYPES_MAX);
    return engine->types[id].is_known ? engine->types[id].type : NULL;
}

const struct cell_layout *srv_engine_layout(const struct srv_engine *engine, uint32_t layout)
{
    base_assert(layout < CELL_LAYOUTS_MAX);
    return engine->layouts[layout];
}

const char *srv_engine_description(const struct srv_engine *engine)
{
    return engine->caps.description;
}

uint32_t srv_engine_devices(const struct srv_engine *engine)
{
    return engine->options.n_devices;
}

const struct sched *srv_engine_scheduler(const struct srv_engine *engine, uint32_t device)
{
    base_assert(device < engine->options.n_devices);
    return engine->devices[device].sched;
}

uint64_t srv_engine_busy_ns(const struct srv_engine *engine, uint32_t device)
{
    base_assert(device < engine->options.n_devices);
    return wrk_pool_busy_ns(engine->devices[device].pool);
}

const struct sched_admission *srv_engine_admission(const struct srv_engine *engine, uint32_t device)
{
    base_assert(device < engine->options.n_devices);
    return &engine->devices[device].admission;
}
