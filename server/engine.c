/* Wiring of scheduler, worker and backend.
 *
 * Data: for each device its pool, scheduler and admission; which of the registry's types and
 * layouts are loaded, and what each layout needs per chain. Threads: models and admission on the
 * loop thread; the scheduler is touched by its pool thread alone, through messages embedded in the
 * jobs. */
#include "server/engine.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "server/calibrate.h"
#include "server/device_cache.h"
#include "server/probe.h"
#include "worker/pool.h"

/* The loop and one that reads from the network. */
#define OTHER_BUSY_THREADS 2u

/* Runs of several types take turns. One of less than this, some 50 us of a core or two, would be
 * mostly beginning and ending: 8 steps of a cell of 64 units are over in 5 us. Zen 4, two threads,
 * one request of both directions of an LSTM present, 100 steps, requests a second with runs of 8
 * steps and with this: 64 units 4,487 and 5,018, 128 units 1,405 and 1,572, 256 513 and 527. */
#define SHARED_FLOPS 10000000u

/* A batch that rows leave goes on for less than this, some 50 us of two cores: about what ending it
 * and forming the next takes, and as long as an answer may wait. Zen 3, two threads, LSTMs, 64
 * requests of 5 to 50 steps, requests a second without and with this: 16 units 176,937 and 313,416,
 * 32 units 98,246 and 136,401, 64 units 46,826 and 53,195, 128 units the same. */
#define LEAST_FLOPS 10000000u

struct device {
    struct wrk_pool *pool;
    struct sched *sched;
    struct sched_admission admission; /* loop thread, as inside */
    uint32_t inside;                  /* graphs reserved for */
    bool running;
};

struct srv_engine {
    struct srv_engine_options options;
    struct cell_registry *registry;
    struct device *devices; /* [options.n_devices] */
    uint32_t turn;          /* who comes first of devices with as many graphs inside; loop thread */
    struct cell_device_caps caps; /* all are of one kind */
    bool type_loaded[CELL_TYPES_MAX];
    bool type_recurs[CELL_TYPES_MAX];          /* in some model: these are calibrated */
    uint32_t priority[CELL_TYPES_MAX];         /* the highest place in any model */
    uint32_t n_models;                         /* that have been added */
    uint32_t rows_per_chain[CELL_LAYOUTS_MAX]; /* the most that one chain of any model needs */
    bool running;
    struct srv_device_cache cache;
};

void srv_engine_options_init(struct srv_engine_options *options)
{
    *options = (struct srv_engine_options){.backend = cell_backend_find("cpu"),
                                           .n_devices = 1,
                                           .isa = "auto",
                                           .teams = 1,
                                           .team_threads = 1,
                                           .spin_ns = 20 * BASE_NS_PER_US,
                                           .rows = 4096,
                                           .batch_rows_max = 64,
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
    struct device *device = context;
    return sched_next(device->sched, queue, now_ns);
}

static void source_retire(void *context, struct cell_batch *batch, uint64_t now_ns)
{
    struct device *device = context;
    sched_retire(device->sched, batch, now_ns);
}

static bool source_is_pressed(void *context, uint32_t queue)
{
    const struct device *device = context;
    return sched_is_pressed(device->sched, queue);
}

static bool source_is_in_way(void *context, uint32_t queue)
{
    const struct device *device = context;
    return sched_is_in_way(device->sched, queue);
}

static void source_row_ended(void *context, struct cell_batch *batch, uint32_t row, uint64_t now_ns)
{
    struct device *device = context;
    sched_row_ended(device->sched, batch, row, now_ns);
}

static void after_turn(void *context, uint64_t now_ns)
{
    struct device *device = context;
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

static enum base_status sched_open(struct srv_engine *engine, struct device *device)
{
    const struct srv_engine_options *options = &engine->options;
    struct sched_options sched;
    sched_options_init(&sched);
    sched.n_queues = wrk_pool_queues(device->pool);
    sched.rows_max = options->batch_rows_max;
    // A queue that computes inside pump() is interrupted when somebody comes. One that runs behind
    // our back is kept busy by several short batches instead.
    sched.interruptible = engine->caps.pumped;
    sched.full_behind_runs = engine->caps.pumped;
    sched.run_flops_shared = engine->caps.pumped ? SHARED_FLOPS : 0;
    sched.run_flops_least = engine->caps.pumped ? LEAST_FLOPS : 0;
    sched.tasks_max = engine->caps.pumped ? pumped_tasks(options) : options->tasks_max;
    sched.spans = engine->caps.spans;
    sched.beside = engine->caps.beside && sched.tasks_max > 1;
    uint32_t bound = engine->caps.pumped ? UINT32_MAX : sched.run_steps_shared;
    sched.run_steps_max = options->run_steps_max > 0 && options->run_steps_max < bound
                              ? options->run_steps_max
                              : bound;
    for (uint32_t q = 0; q < sched.n_queues; q++) {
        sched.attention[q] = wrk_pool_attention(device->pool, q);
    }
    return sched_create(&sched, &device->sched);
}

static enum base_status device_open(struct srv_engine *engine, struct device *device,
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

/* Of a type that is loaded on the first n_devices. */
static void type_unload(struct srv_engine *engine, const struct cell_type *type, uint32_t n_devices)
{
    for (uint32_t d = 0; d < n_devices; d++) {
        engine->options.backend->type_unload(wrk_pool_device(engine->devices[d].pool), type);
    }
}

void srv_engine_free(struct srv_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    base_assert(!engine->running);
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        if (engine->type_loaded[t]) {
            const struct cell_type *type = cell_registry_type(engine->registry, t);
            type_unload(engine, type, engine->options.n_devices);
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

/* ---- Models ---- */

/* On every device, or on none. */
static enum base_status type_load(struct srv_engine *engine, const struct cell_type *type,
                                  struct base_error *error)
{
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct cell_device *device = wrk_pool_device(engine->devices[d].pool);
        enum base_status status = engine->options.backend->type_load(device, type, error);
        if (status != BASE_OK) {
            type_unload(engine, type, d);
            return status;
        }
    }
    return BASE_OK;
}

/* As the type is tuned: rows of a batch, and those up to which it may have another beside it. Only
 * cells that wait for one another have a knee: what else is ready is done soonest at once. */
static enum base_status type_set(struct srv_engine *engine, const struct cell_type *type)
{
    const struct cell_backend *backend = engine->options.backend;
    const uint32_t most = engine->options.batch_rows_max;
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct device *device = &engine->devices[d];
        struct cell_tuning tuning = {0};
        if (backend->type_tuning != NULL) {
            (void)backend->type_tuning(wrk_pool_device(device->pool), type, &tuning);
        }
        const bool has_knee = engine->type_recurs[type->id] && tuning.knee_rows > 0;
        BASE_TRY(sched_type_set(device->sched, type, engine->priority[type->id],
                                has_knee && tuning.knee_rows < most ? tuning.knee_rows : most));
        if (engine->caps.beside) {
            sched_type_set_beside(device->sched, type, tuning.beside_rows, tuning.follow_rows);
        }
    }
    return BASE_OK;
}

/* Types of a model take turns with those of others as one; one of several is the first's. */
static void set_group(struct srv_engine *engine, const struct cell_type *type)
{
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        sched_type_set_group(engine->devices[d].sched, type, engine->n_models % CELL_TYPES_MAX);
    }
}

/* The type of a model's stage. */
static enum base_status add_type(struct srv_engine *engine, const struct cell_model *model,
                                 uint32_t stage, struct base_error *error)
{
    const struct cell_type *type = model->stages[stage].type;
    const bool is_new = !engine->type_loaded[type->id];
    if (is_new) {
        BASE_TRY(type_load(engine, type, error));
        // The devices hold it until the engine ends, whatever becomes of the model.
        cell_type_ref(engine->registry, type);
        engine->type_loaded[type->id] = true;
    }
    // Later in the graph first.
    uint32_t *priority = &engine->priority[type->id];
    *priority = stage > *priority ? stage : *priority;
    engine->type_recurs[type->id] |= cell_model_recurs(model, stage);
    if (type_set(engine, type) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (is_new) {
        set_group(engine, type);
    }
    return BASE_OK;
}

enum base_status srv_engine_add_model(struct srv_engine *engine, const struct cell_model *model,
                                      struct base_error *error)
{
    base_assert(!engine->running);
    engine->n_models++;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        BASE_TRY(add_type(engine, model, s, error));
    }
    return srv_probe_rows(model, engine->rows_per_chain, error);
}

static enum base_status rows_open(struct srv_engine *engine, struct device *device,
                                  struct base_error *error)
{
    for (uint32_t l = 0; l < cell_registry_layouts(engine->registry); l++) {
        if (engine->rows_per_chain[l] == 0) {
            continue;
        }
        uint64_t rows = (uint64_t)engine->options.rows * engine->rows_per_chain[l];
        uint32_t capacity = rows < UINT32_MAX / 2 ? (uint32_t)rows : UINT32_MAX / 2;
        BASE_TRY(engine->options.backend->rows_open(wrk_pool_device(device->pool), l,
                                                    cell_registry_layout(engine->registry, l),
                                                    capacity, error));
        enum base_status status = sched_layout_open(device->sched, l, capacity);
        if (status != BASE_OK) {
            return base_fail(error, status, "no memory for %u rows", capacity);
        }
        device->admission.capacity[l] = capacity;
    }
    return BASE_OK;
}

/* Rows that a batch of the type can have at most while it is measured; 0: it is not. A batch of
 * cells that wait for nobody may be as large as it can; of a model that failed to load a type may
 * be there without rows. */
static uint32_t calibration_rows(const struct srv_engine *engine, const struct cell_type *type)
{
    const uint32_t most = engine->options.batch_rows_max;
    if (!engine->type_recurs[type->id]) {
        return 0;
    }
    if (type->state_layout == CELL_LAYOUT_NONE) {
        return most;
    }
    uint32_t rows = engine->devices[0].admission.capacity[type->state_layout];
    return rows < most ? rows : most;
}

static void calibrate(struct srv_engine *engine)
{
    const struct srv_engine_options *options = &engine->options;
    // Only devices that compute inside pump() are measured, and of them there is one.
    struct srv_calibrator calibrator = {.pool = engine->devices[0].pool,
                                        .backend = options->backend,
                                        .folder = options->calibration_cache,
                                        .teams = options->teams,
                                        .team_threads = options->team_threads,
                                        .is_pinned = options->pin};
    srv_calibrator_init(&calibrator);
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        const struct cell_type *type =
            engine->type_loaded[t] ? cell_registry_type(engine->registry, t) : NULL;
        uint32_t rows = type == NULL ? 0 : calibration_rows(engine, type);
        if (rows == 0) {
            continue;
        }
        struct cell_calibration calibration;
        struct cell_tuning choice;
        (void)srv_calibrate(&calibrator, type, rows, &calibration, &choice);
        // It is known already, so no memory is needed.
        enum base_status status = type_set(engine, type);
        base_assert(status == BASE_OK);
    }
}

static void stop_devices(struct srv_engine *engine)
{
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct device *device = &engine->devices[d];
        if (device->running) {
            wrk_pool_stop(device->pool);
        }
        device->running = false;
    }
}

enum base_status srv_engine_start(struct srv_engine *engine, struct base_error *error)
{
    base_assert(!engine->running);
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        BASE_TRY(rows_open(engine, &engine->devices[d], error));
    }
    if (engine->options.calibrate && wrk_pool_can_calibrate(engine->devices[0].pool)) {
        calibrate(engine);
    }
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct device *device = &engine->devices[d];
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

static struct device *device_of(const struct srv_job *job)
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
    struct device *device = &engine->devices[job->device];
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
