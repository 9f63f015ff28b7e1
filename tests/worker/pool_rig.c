/* See pool_rig.h. */
#include "tests/worker/pool_rig.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/cells/team.h"
#include "tests/reference_cells.h"
#include "tests/util.h"

#include <stddef.h>
#include <string.h>

#define WIDTH 48u /* of real cells: some panels of each kernel */
#define IDS   16u

/* ---- Types ---- */

static void token_types(struct graphs_types *types)
{
    graphs_type_token(types, 1, 2, 1, 1);
    graphs_type_token(types, 2, 0, 2, 1);
    graphs_type_token(types, 4, 0, 1, 1);
    graphs_type_token(types, 2, 1, 2, 2);
    graphs_type_token(types, 1, 0, 1, 2);
}

/* s' = tanh(x W + b + s R), put out too. */
static void build_elman(struct build *build)
{
    uint32_t x = build_input(build, CELL_F32, WIDTH);
    uint32_t s = build_state(build, CELL_F32, WIDTH);
    uint32_t from_x = build_linear(build, x, WIDTH, true);
    uint32_t from_s = build_linear(build, s, WIDTH, false);
    uint32_t sum = build_op(build, CELL_OP_ADD, from_x, from_s, WIDTH);
    uint32_t next = build_op(build, CELL_OP_TANH, sum, UINT32_MAX, WIDTH);
    build_next(build, 0, next);
    build_output(build, next);
}

/* a * b, and softmax([a, b] W + c). */
static void build_head(struct build *build)
{
    uint32_t operands[2];
    operands[0] = build_input(build, CELL_F32, WIDTH);
    operands[1] = build_input(build, CELL_F32, WIDTH);
    uint32_t both = build_concat(build, 2, operands);
    uint32_t scores = build_linear(build, both, WIDTH, true);
    build_output(build, build_op(build, CELL_OP_MUL, operands[0], operands[1], WIDTH));
    uint32_t soft = build_op(build, CELL_OP_SOFTMAX, scores, UINT32_MAX, WIDTH);
    build_last(build)->group = WIDTH;
    build_output(build, soft);
}

static void build_embedding(struct build *build)
{
    uint32_t id = build_input(build, CELL_I64, 1);
    build_output(build, build_gather(build, id, IDS, WIDTH));
}

/* Nodes of trees: each reads what its children put out. */
static void tree_types(struct build builds[3])
{
    build_tree_cell(&builds[0], (struct build_tree){.kind = CELL_OP_TREE_LEAF, .hidden = WIDTH},
                    WIDTH, 21);
    build_tree_cell(
        &builds[1],
        (struct build_tree){.kind = CELL_OP_TREE_BINARY, .hidden = WIDTH, .n_children = 2}, 0, 22);
    build_tree_cell(&builds[2],
                    (struct build_tree){.kind = CELL_OP_TREE_SUM, .hidden = WIDTH, .n_children = 3},
                    WIDTH, 23);
}

static void real_type(struct pool_rig *rig, struct build *build)
{
    const struct cell_type *type = NULL;
    bool is_new = false;
    struct base_error error = {.message = ""};
    enum base_status status =
        cell_registry_intern(rig->registry, &build->def, "rig", &type, &is_new, &error);
    ck_assert_msg(status == BASE_OK && is_new, "%s", error.message);
}

static void real_types(struct pool_rig *rig)
{
    void (*const kinds[])(struct build *) = {build_elman, build_head, build_embedding};
    ck_assert_int_eq(cell_registry_create(&rig->registry), BASE_OK);
    build_lstm_cell(&rig->builds[0], WIDTH, WIDTH, 7);
    real_type(rig, &rig->builds[0]);
    for (uint32_t i = 1; i <= 3; i++) {
        build_init(&rig->builds[i], 7 + i);
        kinds[i - 1](&rig->builds[i]);
        real_type(rig, &rig->builds[i]);
    }
    tree_types(&rig->builds[4]);
    for (uint32_t i = 4; i < POOL_RIG_TYPES; i++) {
        real_type(rig, &rig->builds[i]);
    }
    graphs_types_copy(&rig->types, rig->registry);
    rig->types.id_bound = IDS;
}

static void types_release(struct pool_rig *rig)
{
    if (rig->registry == NULL) {
        return;
    }
    for (uint32_t t = 0; t < rig->types.n; t++) {
        cell_type_unref(rig->registry, cell_registry_type(rig->registry, t));
        build_release(&rig->builds[t]);
    }
    cell_registry_free(rig->registry);
}

/* ---- The source: on the pool thread ---- */

static struct cell_batch *source_next(void *context, uint32_t queue, uint64_t now_ns)
{
    struct pool_rig *rig = context;
    struct cell_batch *batch = sched_next(rig->sched, queue, now_ns);
    rig->beside += batch != NULL && batch->beside != NULL ? 1 : 0;
    rig->followed += batch != NULL && batch->beside != NULL && batch->beside->follows ? 1 : 0;
    return batch;
}

static void source_row_ended(void *context, struct cell_batch *batch, uint32_t row, uint64_t now_ns)
{
    struct pool_rig *rig = context;
    sched_row_ended(rig->sched, batch, row, now_ns);
}

static bool source_is_in_way(void *context, uint32_t queue)
{
    const struct pool_rig *rig = context;
    return sched_is_in_way(rig->sched, queue);
}

static bool source_is_pressed(void *context, uint32_t queue)
{
    const struct pool_rig *rig = context;
    return sched_is_pressed(rig->sched, queue);
}

static void source_retire(void *context, struct cell_batch *batch, uint64_t now_ns)
{
    struct pool_rig *rig = context;
    sched_retire(rig->sched, batch, now_ns);
    (void)atomic_fetch_add_explicit(&rig->batches, 1, memory_order_relaxed);
}

static void send_off(struct pool_rig *rig)
{
    struct sched_graph *next = NULL;
    for (struct sched_graph *graph = sched_take_finished(rig->sched); graph != NULL; graph = next) {
        next = graph->next_finished;
        struct pool_job *job = graph->user;
        uint32_t client = job->client;
        pthread_mutex_lock(&rig->lock);
        sched_admission_credit(&rig->admission, graph);
        pthread_mutex_unlock(&rig->lock);
        job->status = graph->status;
        // From here on the client may release the job.
        atomic_store_explicit(&job->done, true, memory_order_release);
        base_event_signal(&rig->events[client]);
    }
}

static void after_turn(void *context, uint64_t now_ns)
{
    struct pool_rig *rig = context;
    base_assert(now_ns > 0);
    sched_check(rig->sched);
    send_off(rig);
}

/* ---- Life ---- */

void pool_rig_options_init(struct pool_rig_options *options)
{
    memset(options, 0, sizeof(*options));
    options->backend = reference_backend();
    options->teams = 1;
    options->team_threads = 1;
    options->spin_ns = 20 * BASE_NS_PER_US;
    sched_options_init(&options->sched);
}

/* Rows of any two types are then as long as there are as many. */
#define SAME_FLOPS 10000u

static void open_types(struct pool_rig *rig)
{
    const struct cell_backend *backend = rig->options.backend;
    struct cell_device *device = wrk_pool_device(rig->pool);
    struct base_error error = {.message = ""};
    for (uint32_t l = 0; l < rig->types.n_layouts; l++) {
        enum base_status status =
            backend->rows_open(device, l, &rig->types.layouts[l], POOL_RIG_ROWS, &error);
        ck_assert_msg(status == BASE_OK, "%s", error.message);
        ck_assert_int_eq(sched_layout_open(rig->sched, l, POOL_RIG_ROWS), BASE_OK);
        rig->admission.capacity[l] = POOL_RIG_ROWS;
    }
    for (uint32_t t = 0; t < rig->types.n; t++) {
        if (rig->options.beside_rows > 0) {
            rig->types.types[t].flops = SAME_FLOPS;
        }
        enum base_status status = backend->type_load(device, &rig->types.types[t], &error);
        ck_assert_msg(status == BASE_OK, "%s", error.message);
        team_share_small(backend, device, &rig->types.types[t]);
        ck_assert_int_eq(sched_type_set(rig->sched, &rig->types.types[t], t, 0), BASE_OK);
        sched_type_set_group(rig->sched, &rig->types.types[t], t % 3);
        sched_type_set_beside(rig->sched, &rig->types.types[t], rig->options.beside_rows,
                              rig->options.beside_rows);
    }
}

void pool_rig_init(struct pool_rig *rig, const struct pool_rig_options *options)
{
    memset(rig, 0, sizeof(*rig));
    rig->options = *options;
    base_log_configure(BASE_LOG_WARN, BASE_LOG_TEXT);
    ck_assert_int_eq(pthread_mutex_init(&rig->lock, NULL), 0);
    for (uint32_t i = 0; i < POOL_RIG_CLIENTS; i++) {
        base_event_init(&rig->events[i]);
    }
    if (options->real_cells) {
        real_types(rig);
    } else {
        token_types(&rig->types);
    }
    reference_configure(&options->reference);
    struct wrk_pool_options pool = {.backend = options->backend,
                                    .isa = "auto",
                                    .teams = options->teams,
                                    .team_threads = options->team_threads,
                                    .batches_queued_max = options->sched.tasks_max,
                                    .spin_ns = options->spin_ns,
                                    .idle_spin_ns = options->spin_ns,
                                    .pin = options->pin,
                                    .watchdog_ns = options->watchdog_ns,
                                    .lost = options->lost,
                                    .lost_context = rig};
    struct base_error error = {.message = ""};
    enum base_status status = wrk_pool_create(&pool, &rig->pool, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    struct sched_options *sched = &rig->options.sched;
    sched->n_queues = wrk_pool_queues(rig->pool);
    for (uint32_t q = 0; q < sched->n_queues; q++) {
        sched->attention[q] = wrk_pool_attention(rig->pool, q);
    }
    struct cell_device_caps caps;
    options->backend->caps(wrk_pool_device(rig->pool), &caps);
    ck_assert(caps.beside || options->beside_rows == 0);
    sched->beside = options->beside_rows > 0;
    ck_assert_int_eq(sched_create(sched, &rig->sched), BASE_OK);
    open_types(rig);
    pool_rig_start(rig);
}

void pool_rig_start(struct pool_rig *rig)
{
    struct cell_batch_source source = {.context = rig,
                                       .next = source_next,
                                       .retire = source_retire,
                                       .is_pressed = source_is_pressed,
                                       .is_in_way = source_is_in_way,
                                       .row_ended = source_row_ended};
    ck_assert_int_eq(wrk_pool_start(rig->pool, source, after_turn), BASE_OK);
    rig->started = true;
}

void pool_rig_stop(struct pool_rig *rig)
{
    wrk_pool_stop(rig->pool);
    rig->started = false;
}

void pool_rig_release(struct pool_rig *rig)
{
    if (rig->started) {
        pool_rig_stop(rig);
    }
    sched_cancel_all(rig->sched, BASE_UNAVAILABLE, base_now_ns());
    sched_check(rig->sched);
    send_off(rig);
    for (uint32_t t = 0; t < rig->types.n; t++) {
        rig->options.backend->type_unload(wrk_pool_device(rig->pool), &rig->types.types[t]);
    }
    wrk_pool_free(rig->pool);
    sched_free(rig->sched);
    types_release(rig);
    ck_assert_int_eq(pthread_mutex_destroy(&rig->lock), 0);
}

/* ---- Jobs ---- */

#define JOB_OF(message, member)                                                                    \
    ((struct pool_job *)(void *)((char *)(message)-offsetof(struct pool_job, member)))

static void delivered(struct pool_job *job)
{
    struct base_event *event = &job->rig->events[job->client];
    // Release: the client may release the job once the count is down.
    (void)atomic_fetch_sub_explicit(&job->messages, 1, memory_order_release);
    base_event_signal(event);
}

static void deliver_add(struct base_message *message)
{
    struct pool_job *job = JOB_OF(message, add);
    sched_add(job->rig->sched, job->recipe.graph, base_now_ns());
    delivered(job);
}

static void deliver_cancel(struct base_message *message)
{
    struct pool_job *job = JOB_OF(message, cancel);
    sched_cancel(job->rig->sched, job->recipe.graph, job->cancel_status, base_now_ns());
    delivered(job);
}

static void job_init(struct pool_job *job, struct pool_rig *rig, uint32_t client)
{
    memset(job, 0, sizeof(*job));
    job->add.deliver = deliver_add;
    job->cancel.deliver = deliver_cancel;
    job->rig = rig;
    job->client = client;
}

static void job_finish(struct pool_job *job)
{
    recipe_build(&job->recipe);
    recipe_evaluate(&job->recipe, reference_cell);
    job->recipe.graph->user = job;
}

void pool_job_random(struct pool_job *job, struct pool_rig *rig, uint32_t client,
                     const struct recipe_shape *shape, struct base_random *random)
{
    job_init(job, rig, client);
    recipe_random(&job->recipe, &rig->types, shape, random);
    job_finish(job);
}

void pool_job_chain(struct pool_job *job, struct pool_rig *rig, uint32_t client, uint32_t steps,
                    struct base_random *random)
{
    job_init(job, rig, client);
    recipe_init(&job->recipe, &rig->types, 1);
    recipe_node(&job->recipe, &rig->types.types[0], steps);
    recipe_fill(&job->recipe, random);
    job_finish(job);
}

void pool_job_layers(struct pool_job *job, struct pool_rig *rig, uint32_t client, uint32_t steps,
                     struct base_random *random)
{
    job_init(job, rig, client);
    recipe_init(&job->recipe, &rig->types, 2);
    recipe_node(&job->recipe, &rig->types.types[0], steps);
    recipe_node(&job->recipe, &rig->types.types[1], steps);
    recipe_steps(&job->recipe, 1, 0, 0, 0, false);
    recipe_fill(&job->recipe, random);
    job_finish(job);
}

void pool_job_post(struct pool_job *job)
{
    struct pool_rig *rig = job->rig;
    pthread_mutex_lock(&rig->lock);
    bool admitted = sched_admission_reserve(&rig->admission, job->recipe.graph);
    pthread_mutex_unlock(&rig->lock);
    base_assert(admitted);
    (void)atomic_fetch_add(&job->messages, 1);
    wrk_pool_post(rig->pool, &job->add);
}

void pool_job_cancel(struct pool_job *job, enum base_status status)
{
    job->cancel_status = status;
    (void)atomic_fetch_add(&job->messages, 1);
    wrk_pool_post(job->rig->pool, &job->cancel);
}

bool pool_job_is_done(const struct pool_job *job)
{
    return atomic_load_explicit(&job->done, memory_order_acquire) &&
           atomic_load_explicit(&job->messages, memory_order_acquire) == 0;
}

void pool_job_wait(struct pool_job *job)
{
    while (!pool_job_is_done(job)) {
        (void)base_event_wait(&job->rig->events[job->client], 0, BASE_WAIT_FOREVER);
    }
}

uint32_t pool_job_wrong(const struct pool_job *job)
{
    return recipe_wrong(&job->recipe, job->rig->options.tolerance, job->status != BASE_OK);
}

void pool_job_release(struct pool_job *job)
{
    recipe_release(&job->recipe);
}
