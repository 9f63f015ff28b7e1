/* Wiring and shutdown order. All on the loop thread; each step of the drain is one callback. */
#include "server/daemon.h"

#include "base/assert.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "server/about.h"
#include "server/core.h"
#include "server/device.h"
#include "server/engine.h"
#include "server/grpc/server.h"
#include "server/http/server.h"
#include "server/loop.h"
#include "server/repository.h"
#include "server/secrets.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* How long clients may take to read their last answers once all are given. */
#define CLOSE_GRACE_MS 2000

enum daemon_phase { SERVING, DELAYING, DRAINING, CLOSING };

struct daemon {
    const struct cfg_config *config;
    struct srv_loop loop;
    struct srv_engine *engine;
    struct srv_core *core;
    struct srv_grpc *grpc; /* NULL when not allowed */
    struct srv_http *http;
    struct srv_secrets secrets; /* tls until the front ends have it: they have their own copies */
    char tls_until[SRV_SECRETS_UNTIL_BYTES];
    uv_signal_t sigterm, sigint, sighup;
    uv_work_t reading;        /* the files of secrets anew */
    struct srv_secrets fresh; /* of it, */
    enum base_status fresh_status;
    struct base_error fresh_error; /* and what is wrong with them */
    bool is_reading, read_again;   /* another SIGHUP came meanwhile */
    uv_timer_t timer;              /* drain_delay, then exit_timeout */
    enum daemon_phase phase;
    uint32_t front_ends_open;
    bool engine_running;
    struct base_message lost;
    _Atomic bool lost_posted; /* by the pool thread that saw it first */
    bool is_lost;
};

/* ---- The start block ---- */

static void print_models(const struct daemon *daemon)
{
    for (uint32_t i = 0; i < srv_core_models(daemon->core); i++) {
        const struct srv_model *model = srv_core_model_at(daemon->core, i);
        fprintf(stderr, "  model     %s%s%s: %s%s%s\n", model->name,
                model->version[0] != '\0' ? " version " : "", model->version,
                model->state == SRV_MODEL_READY ? "ready" : "unavailable",
                model->reason[0] != '\0' ? ": " : "", model->reason);
    }
}

static void print_listeners(const struct daemon *daemon)
{
    const struct cfg_config *config = daemon->config;
    bool is_tls = config->tls_cert_file[0] != '\0';
    if (daemon->grpc != NULL) {
        fprintf(stderr, "  grpc      %s:%u\n", config->grpc_address, srv_grpc_port(daemon->grpc));
    }
    if (daemon->http != NULL && config->allow_http) {
        fprintf(stderr, "  http      %s://%s:%u\n", is_tls ? "https" : "http", config->http_address,
                srv_http_port(daemon->http));
    }
    if (daemon->http != NULL && config->allow_metrics) {
        fprintf(stderr, "  metrics   %s://%s:%u/metrics\n", config->metrics_tls ? "https" : "http",
                config->metrics_address, srv_http_metrics_port(daemon->http));
    }
    if (is_tls) {
        bool demands = config->tls_client_ca_file[0] != '\0';
        fprintf(stderr, "  tls       %s until %s%s%s\n", config->tls_cert_file, daemon->tls_until,
                demands ? ", clients have to be known to " : "",
                demands ? config->tls_client_ca_file : "");
    }
    if (daemon->secrets.access.use != NULL) {
        fprintf(stderr, "  tokens    %s\n", config->auth_token_file);
    }
    if (daemon->secrets.access.control != NULL) {
        fprintf(stderr, "  tokens    %s, to load and unload models\n", config->control_token_file);
    }
}

static void print_block(const struct daemon *daemon)
{
    const struct cfg_config *config = daemon->config;
    char build[BASE_BUILD_ID_BYTES];
    base_build_id(build);
    fprintf(stderr, "%s %s, build %s\n", SRV_ABOUT_NAME, SRV_ABOUT_VERSION, build);
    fprintf(stderr, "  cpus      %u allowed\n", base_cpus_allowed());
    const uint32_t n_devices = srv_engine_devices(daemon->engine);
    fprintf(stderr, "  device    %s", srv_engine_description(daemon->engine));
    if (n_devices > 1) {
        fprintf(stderr, ", %u of them", n_devices);
    }
    fprintf(stderr, "\n");
    fprintf(stderr, "  threads   %u computing in %u team%s, 1 loop, %u gRPC\n", cfg_threads(config),
            config->teams, config->teams > 1 ? "s" : "", config->grpc_threads);
    print_models(daemon);
    print_listeners(daemon);
}

static void warmed(void *context)
{
    struct daemon *daemon = context;
    if (daemon->phase != SERVING) {
        return; // a signal came first
    }
    print_block(daemon);
    log_info("daemon", "%s", srv_core_is_ready(daemon->core) ? "ready" : "serving, not ready");
}

/* ---- Stopping ---- */

static void closed_all(struct daemon *daemon)
{
    if (daemon->http != NULL) {
        srv_http_stop(daemon->http); // ends once its handles are closed, so before the loop's end
    }
    if (daemon->core != NULL) {
        srv_core_close(daemon->core);
    }
    uv_close(srv_uv_handle(&daemon->sigterm), NULL);
    uv_close(srv_uv_handle(&daemon->sigint), NULL);
    uv_close(srv_uv_handle(&daemon->sighup), NULL);
    signal(SIGHUP, SIG_IGN); // what libuv leaves behind would end us before our last line
    uv_close(srv_uv_handle(&daemon->timer), NULL);
    srv_loop_stop(&daemon->loop);
}

static void front_end_closed(void *context)
{
    struct daemon *daemon = context;
    base_assert(daemon->front_ends_open > 0);
    if (--daemon->front_ends_open == 0) {
        closed_all(daemon);
    }
}

static void grace_over(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    log_warn("daemon", "closing connections that are still open");
    if (daemon->http != NULL) {
        srv_http_cancel_all(daemon->http);
    }
    if (daemon->grpc != NULL) {
        srv_grpc_cancel_all(daemon->grpc);
    }
}

/* Nothing is inside any more: only connections are left. */
static void core_idle(void *context)
{
    struct daemon *daemon = context;
    daemon->phase = CLOSING;
    log_info("daemon", "closing connections");
    uv_timer_start(&daemon->timer, grace_over, CLOSE_GRACE_MS, CLOSE_GRACE_MS);
    daemon->front_ends_open = (daemon->grpc != NULL ? 1u : 0u) + (daemon->http != NULL ? 1u : 0u);
    if (daemon->front_ends_open == 0) {
        closed_all(daemon);
        return;
    }
    if (daemon->http != NULL) {
        srv_http_drain(daemon->http, front_end_closed, daemon);
    }
    if (daemon->grpc != NULL) {
        srv_grpc_drain(daemon->grpc, front_end_closed, daemon);
    }
}

static void exit_timeout(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    const struct srv_counters *counters = srv_core_counters(daemon->core);
    log_warn("daemon", "time is up: failing %u running and %u waiting requests",
             counters->requests_running, counters->requests_waiting);
    srv_core_cancel_all(daemon->core);
}

static uint64_t ms_of(uint64_t ns)
{
    return (ns + BASE_NS_PER_MS - 1) / BASE_NS_PER_MS;
}

static void start_draining(struct daemon *daemon)
{
    daemon->phase = DRAINING;
    srv_core_refuse_new(daemon->core);
    const struct srv_counters *counters = srv_core_counters(daemon->core);
    log_info("daemon", "draining running=%u waiting=%u", counters->requests_running,
             counters->requests_waiting);
    uv_timer_start(&daemon->timer, exit_timeout, ms_of(daemon->config->exit_timeout_secs), 0);
    srv_core_when_idle(daemon->core, core_idle, daemon);
}

static void delay_over(uv_timer_t *timer)
{
    start_draining(timer->data);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    log_info("daemon", "signal %s", number == SIGTERM ? "SIGTERM" : "SIGINT");
    switch (daemon->phase) {
    case SERVING:
        srv_core_set_stopping(daemon->core);
        daemon->phase = DELAYING;
        if (number == SIGTERM && daemon->config->drain_delay > 0) {
            uv_timer_start(&daemon->timer, delay_over, ms_of(daemon->config->drain_delay), 0);
        } else {
            start_draining(daemon);
        }
        break;
    case DELAYING:
        start_draining(daemon);
        srv_core_cancel_all(daemon->core);
        break;
    case DRAINING:
        srv_core_cancel_all(daemon->core);
        break;
    case CLOSING:
        grace_over(&daemon->timer);
        break;
    }
}

/* A device that cannot be stopped may still write into its memory, and nothing in this process can
 * end it: we tell everybody and leave, and who watches over us starts us anew. */
static void deliver_lost(struct base_message *message)
{
    struct daemon *daemon =
        (struct daemon *)(void *)((char *)message - offsetof(struct daemon, lost));
    log_error("daemon", "a device was lost: failing what is inside, then leaving");
    daemon->is_lost = true;
    if (daemon->phase == SERVING || daemon->phase == DELAYING) {
        srv_core_set_stopping(daemon->core);
        start_draining(daemon);
    }
    if (daemon->phase == DRAINING) {
        srv_core_cancel_all(daemon->core);
    }
}

/* Pool threads. */
static void device_lost(void *context)
{
    struct daemon *daemon = context;
    if (!atomic_exchange(&daemon->lost_posted, true)) {
        daemon->lost.deliver = deliver_lost;
        srv_loop_post(&daemon->loop, &daemon->lost);
    }
}

/* ---- New secrets ---- */

/* The files are read on a thread of libuv's: they may lie on a slow disk. */
static void read_secrets(uv_work_t *work)
{
    struct daemon *daemon = work->data;
    daemon->fresh_status = srv_secrets_load(daemon->config, &daemon->fresh, &daemon->fresh_error);
}

/* Puts them in force: all, or none. */
static enum base_status take_secrets(struct daemon *daemon, struct base_error *error)
{
    if (daemon->fresh.tls != NULL) {
        if (daemon->http != NULL) {
            BASE_TRY(srv_http_set_tls(daemon->http, daemon->fresh.tls, error));
        }
        if (daemon->grpc != NULL) {
            srv_grpc_set_tls(daemon->grpc, daemon->fresh.tls);
        }
        srv_secrets_until(&daemon->fresh, daemon->tls_until);
        srv_core_set_certificate_end(daemon->core, daemon->fresh.tls->until_wall_s);
    }
    const struct srv_access before = daemon->secrets.access;
    daemon->secrets.access = daemon->fresh.access;
    daemon->fresh.access = before; // released with it
    return BASE_OK;
}

static void tell_of_reload(const struct daemon *daemon)
{
    const struct srv_access *access = &daemon->secrets.access;
    const bool is_taken = daemon->fresh_status == BASE_OK;
    srv_core_count_reload(daemon->core, is_taken);
    if (is_taken) {
        log_info("daemon", "reloaded%s%s%s",
                 daemon->tls_until[0] != '\0' ? " certificate until=" : "", daemon->tls_until,
                 access->use != NULL || access->control != NULL ? ", tokens" : "");
    } else {
        log_error("daemon", "reload refused, what was read before stays in force: %s",
                  daemon->fresh_error.message);
    }
}

static void reload(struct daemon *daemon);

static void have_read_secrets(uv_work_t *work, int status)
{
    struct daemon *daemon = work->data;
    bool again = false;
    base_assert(status == 0); // nobody cancels it
    daemon->is_reading = false;
    if (daemon->phase != CLOSING) {
        if (daemon->fresh_status == BASE_OK) {
            daemon->fresh_status = take_secrets(daemon, &daemon->fresh_error);
        }
        tell_of_reload(daemon);
        again = daemon->read_again;
    }
    srv_secrets_release(&daemon->fresh);
    if (again) {
        reload(daemon);
    }
}

static void reload(struct daemon *daemon)
{
    daemon->read_again = daemon->is_reading;
    if (!daemon->is_reading) {
        daemon->is_reading = true;
        daemon->reading.data = daemon;
        const int failed =
            uv_queue_work(&daemon->loop.uv, &daemon->reading, read_secrets, have_read_secrets);
        base_assert(failed == 0); // both functions are there
    }
}

static void on_hangup(uv_signal_t *handle, int number)
{
    (void)number;
    log_info("daemon", "signal SIGHUP");
    reload(handle->data);
}

/* ---- Starting ---- */

static void handles_init(struct daemon *daemon)
{
    uv_timer_init(&daemon->loop.uv, &daemon->timer);
    uv_signal_init(&daemon->loop.uv, &daemon->sigterm);
    uv_signal_init(&daemon->loop.uv, &daemon->sigint);
    uv_signal_init(&daemon->loop.uv, &daemon->sighup);
    daemon->timer.data = daemon;
    daemon->sigterm.data = daemon;
    daemon->sigint.data = daemon;
    daemon->sighup.data = daemon;
    uv_signal_start(&daemon->sigterm, on_signal, SIGTERM);
    uv_signal_start(&daemon->sigint, on_signal, SIGINT);
    uv_signal_start(&daemon->sighup, on_hangup, SIGHUP);
}

static enum base_status engine_open(struct daemon *daemon, struct base_error *error)
{
    const struct cfg_config *config = daemon->config;
    struct srv_engine_options options;
    struct srv_devices devices;
    srv_engine_options_init(&options);
    BASE_TRY(srv_device_choose(config, &devices, error));
    options.backend = devices.backend;
    options.n_devices = devices.n;
    memcpy(options.cards, devices.cards, sizeof(options.cards));
    options.isa = config->isa;
    options.teams = config->teams;
    options.team_threads = cfg_threads(config) / config->teams;
    options.spin_ns = config->spin_us * BASE_NS_PER_US;
    options.pin = config->pin_threads;
    options.rows = config->rows;
    options.batch_rows_max = config->max_batch_rows;
    options.tasks_max = config->max_tasks_to_submit;
    options.run_steps_max = config->max_run_steps;
    options.calibrate = cfg_calibrates(config);
    options.calibration_cache = config->calibration_cache;
    options.watchdog_ns = config->watchdog;
    options.lanes_off = !config->lanes;
    options.lost = device_lost;
    options.lost_context = daemon;
    return srv_engine_create(&options, &daemon->engine, error);
}

static enum base_status core_open(struct daemon *daemon, struct base_error *error)
{
    const struct cfg_config *config = daemon->config;
    const bool loads_all = cfg_loads_every_model(config);
    const struct srv_repository_options repository = {.path = config->model_repository,
                                                      .n_names =
                                                          loads_all ? 0 : config->load_model.count,
                                                      .only_names = !loads_all,
                                                      .may_be_empty = cfg_controls_models(config),
                                                      .names = config->load_model.names,
                                                      .allow_plugins = config->allow_plugins,
                                                      .exit_on_error = config->exit_on_error};
    struct srv_core_options options = {.queue_max = config->queue_max,
                                       .repository = repository,
                                       .session_idle_ns = config->session_idle_timeout,
                                       .session_bytes_max = (size_t)config->session_memory_max,
                                       .queue_full_status = cfg_queue_full_status(config),
                                       .sequence_length_max = config->max_sequence_length,
                                       .strict_readiness = config->strict_readiness,
                                       .model_control = cfg_controls_models(config)};
    if (srv_core_create(&daemon->loop, daemon->engine, &options, &daemon->core) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (daemon->secrets.tls != NULL) {
        srv_core_set_certificate_end(daemon->core, daemon->secrets.tls->until_wall_s);
    }
    return srv_repository_load(&repository, daemon->core, daemon->engine, error);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static enum base_status secrets_open(struct daemon *daemon, struct base_error *error)
{
    const struct cfg_config *config = daemon->config;
    const bool is_alone = (!config->allow_grpc || is_loopback(config->grpc_address)) &&
                          (!config->allow_http || is_loopback(config->http_address));
    BASE_TRY(srv_secrets_load(config, &daemon->secrets, error));
    srv_secrets_until(&daemon->secrets, daemon->tls_until);
    const struct srv_access *access = &daemon->secrets.access;
    const bool has_tokens = access->use != NULL || access->control != NULL;
    if (has_tokens && daemon->secrets.tls == NULL && !is_alone) {
        log_warn("tokens", "without TLS others on the network may read the tokens");
    }
    return BASE_OK;
}

static enum base_status grpc_open(struct daemon *daemon, struct base_error *error)
{
    const struct cfg_config *config = daemon->config;
    if (!config->allow_grpc) {
        return BASE_OK;
    }
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.address = config->grpc_address;
    options.port = (uint16_t)config->grpc_port;
    options.threads = config->grpc_threads;
    options.message_bytes_max = config->grpc_max_message_size;
    options.request_bytes_max = config->request_memory_max;
    options.busy = cfg_queue_full_status(config);
    options.tls = daemon->secrets.tls;
    options.access = &daemon->secrets.access;
    return srv_grpc_start(&options, &daemon->loop, daemon->core, &daemon->grpc, error);
}

static enum base_status http_open(struct daemon *daemon, struct base_error *error)
{
    const struct cfg_config *config = daemon->config;
    if (!config->allow_http && !config->allow_metrics) {
        return BASE_OK;
    }
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.address = config->allow_http ? config->http_address : NULL;
    options.port = (uint16_t)config->http_port;
    options.metrics_address = config->allow_metrics ? config->metrics_address : NULL;
    options.metrics_port = (uint16_t)config->metrics_port;
    options.body_bytes_max = config->http_max_input_size;
    options.json_bytes_max = config->http_max_json_size;
    options.request_bytes_max = config->request_memory_max;
    options.busy = cfg_queue_full_status(config);
    options.tls = daemon->secrets.tls;
    options.metrics_tls = config->metrics_tls ? daemon->secrets.tls : NULL;
    options.access = &daemon->secrets.access;
    return srv_http_start(&options, &daemon->loop, daemon->core, &daemon->http, error);
}

/* A start that failed half-way: the front ends that are open are closed as in a drain. */
static void close_early(struct daemon *daemon)
{
    if (daemon->core != NULL) {
        srv_core_refuse_new(daemon->core);
    }
    core_idle(daemon);
    srv_loop_run(&daemon->loop);
}

static void release(struct daemon *daemon)
{
    if (daemon->grpc != NULL) {
        srv_grpc_stop(daemon->grpc);
    }
    srv_loop_release(&daemon->loop);
    if (daemon->engine_running) {
        srv_engine_stop(daemon->engine);
    }
    if (daemon->core != NULL) {
        srv_core_free(daemon->core);
    }
    srv_engine_free(daemon->engine);
    srv_secrets_release(&daemon->secrets);
}

/* In order; what is open is closed by the caller, whatever the outcome. */
static enum base_status start(struct daemon *daemon, struct base_error *error)
{
    BASE_TRY(secrets_open(daemon, error)); // first: to load models may take long
    BASE_TRY(engine_open(daemon, error));
    BASE_TRY(core_open(daemon, error));
    BASE_TRY(srv_engine_start(daemon->engine, error));
    daemon->engine_running = true;
    BASE_TRY(grpc_open(daemon, error));
    return http_open(daemon, error);
}

enum base_status srv_daemon_run(const struct cfg_config *config, struct base_error *error)
{
    struct daemon *daemon = base_alloc(sizeof(*daemon));
    if (daemon == NULL || srv_loop_init(&daemon->loop) != BASE_OK) {
        base_free(daemon);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory or descriptors to start");
    }
    daemon->config = config;
    (void)base_process_start_s(); // remembered for the metrics
    signal(SIGPIPE, SIG_IGN);     // a client that leaves is an error of its connection only
    handles_init(daemon); // before models are loaded: a signal meanwhile is seen right after
    enum base_status status = start(daemon, error);
    srv_tls_free(daemon->secrets.tls); // what is left of it is a key
    daemon->secrets.tls = NULL;
    if (status == BASE_OK) {
        srv_core_warm(daemon->core, warmed, daemon);
        srv_loop_run(&daemon->loop);
        if (daemon->is_lost) {
            status = base_fail(error, BASE_UNAVAILABLE, "a device was lost");
        }
    } else {
        close_early(daemon);
    }
    release(daemon);
    base_free(daemon);
    return status;
}
