/* See site.h. */
#include "tests/server/site.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/core_state.h"
#include "server/repository.h"
#include "tests/cuda/driver_host.h"
#include "tests/reference_device.h"
#include "tests/server/gate.h"
#include "tests/server/models.h"
#include "tests/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_NS (30 * BASE_NS_PER_S)

static void nap(void)
{
    const struct timespec time = {.tv_nsec = 200000};
    nanosleep(&time, NULL);
}

bool site_until(bool (*is_true)(void *argument), void *argument)
{
    uint64_t end_ns = base_now_ns() + PATIENCE_NS;
    while (!is_true(argument)) {
        if (base_now_ns() > end_ns) {
            return false;
        }
        nap();
    }
    return true;
}

/* ---- Calls onto the loop thread ---- */

struct call {
    struct base_message message; /* first */
    struct site *site;
    void (*function)(struct site *site, void *argument);
    void *argument;
    _Atomic bool done;
};

static void call_deliver(struct base_message *message)
{
    struct call *call = (struct call *)message;
    base_assert(srv_loop_is_owner(&call->site->loop));
    call->function(call->site, call->argument);
    atomic_store(&call->done, true);
}

static bool call_is_done(void *argument)
{
    const struct call *call = argument;
    return atomic_load(&call->done);
}

void site_call(struct site *site, void (*function)(struct site *site, void *argument),
               void *argument)
{
    struct call call = {.site = site, .function = function, .argument = argument};
    call.message.deliver = call_deliver;
    srv_loop_post(&site->loop, &call.message);
    base_assert(site_until(call_is_done, &call));
}

/* ---- Life ---- */

void site_options_init(struct site_options *options)
{
    memset(options, 0, sizeof(*options));
    srv_engine_options_init(&options->engine);
    options->engine.backend = &gate_backend;
    options->engine.rows = 64;
    options->engine.spin_ns = 0;
    options->core = (struct srv_core_options){.queue_max = 100,
                                              .session_bytes_max = (size_t)1 << 20,
                                              .queue_full_status = BASE_RESOURCE_EXHAUSTED,
                                              .sequence_length_max = 64,
                                              .strict_readiness = true};
}

static struct cell_model *add(struct site *site, struct cell_model *cells, const char *version)
{
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(srv_engine_add_model(site->engine, cells, &error) == BASE_OK, "%s",
                  error.message);
    struct srv_model_source source = {
        .name = cells->producer, .version = version, .cells = cells, .reason = ""};
    ck_assert_msg(srv_core_add_model(site->core, &source, &error) == BASE_OK, "%s", error.message);
    return cells;
}

static struct cell_model *keeping(struct cell_model *cells, const struct site_options *options)
{
    static const struct cell_kept_state pairs[] = {{"h0", "h"}, {"c0", "c"}};
    const bool has_pairs = strcmp(cells->producer, "chain") == 0;
    const struct cell_kept_states kept = {
        .recurrent = !has_pairs, .n = has_pairs ? 2 : 0, .items = pairs};
    struct base_error error = {BASE_OK, ""};
    if (options->keeps) {
        ck_assert_msg(cell_model_keep_states(cells, &kept, &error) == BASE_OK, "%s", error.message);
    }
    return cells;
}

static void add_repository(struct site *site, const char *relative, bool allow_plugins)
{
    char path[UTIL_PATH_BYTES];
    struct base_error error = {BASE_OK, ""};
    util_repo_path(path, relative);
    const struct srv_repository_options options = {.path = relative[0] == '/' ? relative : path,
                                                   .allow_plugins = allow_plugins,
                                                   .exit_on_error = true};
    ck_assert_msg(srv_repository_load(&options, site->core, site->engine, &error) == BASE_OK, "%s",
                  error.message);
}

static void *loop_main(void *argument)
{
    struct site *site = argument;
    srv_loop_run(&site->loop);
    return NULL;
}

static bool is_warmed(void *argument)
{
    const struct site *site = argument;
    return atomic_load(&site->warmed);
}

/* CELLBATCH_SITE_DEVICES=N (make test-reference): what would run on the CPU runs on N of the tests'
 * devices instead, on whose lanes the CPU device computes; =cuda-host: on two CUDA devices over the
 * host's driver. */
static struct srv_engine_options engine_options(const struct site_options *options)
{
    struct srv_engine_options engine = options->engine;
    const char *devices = getenv("CELLBATCH_SITE_DEVICES");
    if (devices == NULL || options->gated || engine.backend == reference_backend() ||
        engine.backend == cell_backend_find("blas")) {
        return engine;
    }
    if (strcmp(devices, "cuda-host") == 0) {
        engine.backend = cuda_host_backend();
        engine.n_devices = 2;
        engine.cards[1] = 1;
        return engine;
    }
    reference_configure(&(struct reference_options){.seed = util_seed(),
                                                    .pause_ns_max = 50 * BASE_NS_PER_US,
                                                    .form = CELL_LANE_FORM_TAGGED,
                                                    .inner = cell_backend_find("cpu")});
    engine.backend = reference_backend();
    engine.n_devices = (uint32_t)strtoul(devices, NULL, 10);
    return engine;
}

void site_open(struct site *site, const struct site_options *options)
{
    struct base_error error = {BASE_OK, ""};
    const struct srv_engine_options engine = engine_options(options);
    memset(site, 0, sizeof(*site));
    ck_assert_int_eq(srv_loop_init(&site->loop), BASE_OK);
    ck_assert_msg(srv_engine_create(&engine, &site->engine, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert_int_eq(srv_core_create(&site->loop, site->engine, &options->core, &site->core),
                     BASE_OK);
    struct cell_registry *registry = srv_engine_registry(site->engine);
    site->chain = add(site, keeping(models_chain(registry, 3, 8, 1), options), "1");
    site->tokens2 = add(site, keeping(models_tokens(registry, 8, 3), options), "2");
    site->tokens = add(site, models_tokens(registry, 8, 2), "1");
    site->lone = add(site, keeping(models_lone(registry, 4), options), "1");
    struct srv_model_source broken = {
        .name = "broken", .version = "1", .reason = "its file is torn"};
    ck_assert_int_eq(srv_core_add_model(site->core, &broken, &error), BASE_OK);
    for (uint32_t i = 0; i < 2 && options->repositories[i] != NULL; i++) {
        add_repository(site, options->repositories[i], options->allow_plugins);
    }
    ck_assert_int_eq(srv_engine_start(site->engine, &error), BASE_OK);
    ck_assert_int_eq(pthread_create(&site->thread, NULL, loop_main, site), 0);
    if (!options->cold) {
        site_warm(site);
        ck_assert(site_until(is_warmed, site));
    }
}

static void close_on_loop(struct site *site, void *argument)
{
    (void)argument;
    srv_core_close(site->core);
    srv_loop_stop(&site->loop);
}

static bool is_idle(void *argument)
{
    return atomic_load((_Atomic uint32_t *)argument) > 0;
}

void site_close(struct site *site)
{
    static _Atomic uint32_t idle;
    atomic_store(&idle, 0);
    gate_open();
    site_refuse_new(site);
    site_when_idle(site, &idle);
    ck_assert(site_until(is_idle, &idle));
    struct srv_counters counters = site_counters(site);
    ck_assert_uint_eq(counters.requests_running, 0);
    ck_assert_uint_eq(counters.requests_waiting, 0);
    ck_assert_uint_eq(site_reserved(site), 0);
    ck_assert_uint_eq(site_rows(site), 0);
    site_call(site, close_on_loop, NULL);
    ck_assert_int_eq(pthread_join(site->thread, NULL), 0);
    srv_engine_stop(site->engine);
    srv_loop_release(&site->loop);
    srv_core_free(site->core);
    srv_engine_free(site->engine);
}

/* ---- The core's functions ---- */

static void warmed(void *context)
{
    struct site *site = context;
    atomic_store(&site->warmed, true);
}

void site_warm_here(struct site *site)
{
    srv_core_warm(site->core, warmed, site);
}

static void warm(struct site *site, void *argument)
{
    (void)argument;
    site_warm_here(site);
}

void site_warm(struct site *site)
{
    site_call(site, warm, NULL);
}

static void read_ready(struct site *site, void *argument)
{
    *(bool *)argument = srv_core_is_ready(site->core);
}

bool site_is_ready(struct site *site)
{
    bool ready = false;
    site_call(site, read_ready, &ready);
    return ready;
}

static void read_counters(struct site *site, void *argument)
{
    *(struct srv_counters *)argument = *srv_core_counters(site->core);
}

struct srv_counters site_counters(struct site *site)
{
    struct srv_counters counters;
    site_call(site, read_counters, &counters);
    return counters;
}

struct stats_of {
    const char *model, *version;
    struct srv_model_stats stats;
};

static void read_stats(struct site *site, void *argument)
{
    struct stats_of *of = argument;
    const struct srv_model *model = NULL;
    enum base_status status = srv_core_find_model(site->core, of->model, of->version, &model, NULL);
    base_assert(status == BASE_OK);
    of->stats = model->stats;
}

struct srv_model_stats site_stats(struct site *site, const char *model, const char *version)
{
    struct stats_of of = {.model = model, .version = version};
    site_call(site, read_stats, &of);
    return of.stats;
}

static void set_stopping(struct site *site, void *argument)
{
    (void)argument;
    srv_core_set_stopping(site->core);
}

void site_set_stopping(struct site *site)
{
    site_call(site, set_stopping, NULL);
}

static void refuse_new(struct site *site, void *argument)
{
    (void)argument;
    srv_core_refuse_new(site->core);
}

void site_refuse_new(struct site *site)
{
    site_call(site, refuse_new, NULL);
}

static void cancel_all(struct site *site, void *argument)
{
    (void)argument;
    srv_core_cancel_all(site->core);
}

void site_cancel_all(struct site *site)
{
    site_call(site, cancel_all, NULL);
}

static void count_idle(void *context)
{
    atomic_fetch_add((_Atomic uint32_t *)context, 1);
}

static void when_idle(struct site *site, void *argument)
{
    srv_core_when_idle(site->core, count_idle, argument);
}

void site_when_idle(struct site *site, _Atomic uint32_t *idle)
{
    site_call(site, when_idle, idle);
}

const struct cell_model *site_find(struct site *site, const char *model)
{
    const struct srv_model *found = NULL;
    struct base_error error;
    ck_assert_int_eq(srv_core_find_model(site->core, model, "", &found, &error), BASE_OK);
    ck_assert_msg(found->signature != NULL, "%s", found->reason);
    return srv_model_entry_of(found)->cells;
}

uint32_t site_rows(struct site *site)
{
    uint32_t rows = 0;
    for (uint32_t l = 0; l < cell_registry_layouts(srv_engine_registry(site->engine)); l++) {
        for (uint32_t d = 0; d < srv_engine_devices(site->engine); d++) {
            rows += sched_rows_in_use(sched_rows_of(srv_engine_scheduler(site->engine, d)), l);
        }
    }
    return rows;
}

static void read_reserved(struct site *site, void *argument)
{
    uint32_t *reserved = argument;
    *reserved = 0;
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        for (uint32_t d = 0; d < srv_engine_devices(site->engine); d++) {
            *reserved += srv_engine_admission(site->engine, d)->reserved[l];
        }
    }
}

uint32_t site_reserved(struct site *site)
{
    uint32_t reserved = 0;
    site_call(site, read_reserved, &reserved);
    return reserved;
}

/* ---- Wishes ---- */

static void wish_done(struct srv_control *control)
{
    struct wish *wish = (struct wish *)control;
    base_assert(srv_loop_is_owner(&wish->site->loop));
    atomic_fetch_add(&wish->done, 1);
}

static void deliver_wish(struct base_message *message)
{
    struct wish *wish = (struct wish *)(void *)((char *)message - offsetof(struct wish, start));
    srv_core_control(wish->site->core, &wish->control);
}

void wish_start(struct site *site, struct wish *wish, enum srv_control_kind kind, const char *name)
{
    memset(wish, 0, sizeof(*wish));
    wish->site = site;
    wish->control.kind = kind;
    wish->control.done = wish_done;
    snprintf(wish->control.name, sizeof(wish->control.name), "%s", name);
    wish->start.deliver = deliver_wish;
    srv_loop_post(&site->loop, &wish->start);
}

static bool is_wish_done(void *argument)
{
    const struct wish *wish = argument;
    return atomic_load(&wish->done) > 0;
}

enum base_status wish_wait(struct wish *wish)
{
    ck_assert_msg(site_until(is_wish_done, wish), "no answer");
    ck_assert_uint_eq(atomic_load(&wish->done), 1);
    return wish->control.error.status;
}

static void fulfil(struct site *site, enum srv_control_kind kind, const char *name)
{
    struct wish wish;
    wish_start(site, &wish, kind, name);
    ck_assert_msg(wish_wait(&wish) == BASE_OK, "%s", wish.control.error.message);
}

void site_load(struct site *site, const char *name)
{
    fulfil(site, SRV_CONTROL_LOAD, name);
}

void site_unload(struct site *site, const char *name)
{
    fulfil(site, SRV_CONTROL_UNLOAD, name);
}

/* ---- Visits ---- */

static void visit_answered(struct srv_request *request)
{
    struct visit *visit = (struct visit *)request;
    visit->wrong += !srv_loop_is_owner(&visit->site->loop);
    visit->wrong += request->flight != NULL;
    atomic_fetch_add(&visit->site->done, 1);
    void (*then)(struct visit * visit) = visit->then;
    atomic_fetch_add(&visit->done, 1);
    if (then != NULL) {
        then(visit);
    }
}

static void deliver_start(struct base_message *message)
{
    struct visit *visit = (struct visit *)(void *)((char *)message - offsetof(struct visit, start));
    srv_request_start(visit->site->core, &visit->ask.request);
}

static void deliver_cancel(struct base_message *message)
{
    struct visit *visit =
        (struct visit *)(void *)((char *)message - offsetof(struct visit, cancel));
    if (!visit_is_done(visit)) {
        srv_request_cancel(visit->site->core, &visit->ask.request, visit->cancel_why);
    }
    atomic_store(&visit->cancel_seen, true);
}

void visit_start(struct site *site, struct visit *visit)
{
    visit->site = site;
    visit->start.deliver = deliver_start;
    visit->cancel.deliver = deliver_cancel;
    visit->wrong = 0;
    visit->cancel_posted = false;
    atomic_store(&visit->cancel_seen, false);
    atomic_store(&visit->done, 0);
    visit->ask.request.done = visit_answered;
    visit->ask.request.times.arrived_ns = base_now_ns();
    srv_loop_post(&site->loop, &visit->start);
}

void visit_cancel(struct visit *visit, enum base_status why)
{
    visit->cancel_why = why;
    visit->cancel_posted = true;
    srv_loop_post(&visit->site->loop, &visit->cancel);
}

bool visit_is_done(const struct visit *visit)
{
    return atomic_load(&visit->done) > 0;
}

static bool is_over(void *argument)
{
    const struct visit *visit = argument;
    return visit_is_done(visit) && (!visit->cancel_posted || atomic_load(&visit->cancel_seen));
}

bool visit_try_wait(struct visit *visit)
{
    return site_until(is_over, visit);
}

void visit_wait(struct visit *visit)
{
    ck_assert_msg(visit_try_wait(visit), "not answered");
    ck_assert_uint_eq(atomic_load(&visit->done), 1);
    ck_assert_uint_eq(visit->wrong, 0);
}

void visit_expect(struct visit *visit, enum base_status status, const char *message)
{
    visit_wait(visit);
    ck_assert_int_eq(visit->ask.request.error.status, status);
    ck_assert_str_eq(visit->ask.request.error.message, message);
    ask_release(&visit->ask);
}

void visit_expect_ok(struct visit *visit)
{
    visit_wait(visit);
    ck_assert_double_le(ask_error(&visit->ask), 1e-5);
    ask_release(&visit->ask);
}
