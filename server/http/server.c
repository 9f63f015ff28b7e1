/* Start, drain and stop of the HTTP front end.
 *
 * Two listeners share one set of handles: the prepare handle runs libmicrohttpd where something is
 * due before the loop sleeps, the idle handle keeps the loop from sleeping meanwhile, the sweep
 * timer ends connections past their time. All memory of a connection is freed when its handle is
 * closed, and the server itself with the last handle. Loop thread only. */
#include "server/http/server.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/http/internal.h"

#include <string.h>

#define SWEEP_MS_MIN 10u
#define SWEEP_MS_MAX 1000u

/* A drain looks at connections this often. The first time it stops listening, so that none begins
 * and is cut before it is heard; the last time it cuts those that wait for their next request: what
 * has been sent by then has been read and refused, in the turns of the loop that are between. */
#define DRAIN_LOOK_MS 25u
#define DRAIN_LOOKS   3u

void srv_http_options_init(struct srv_http_options *options)
{
    *options = (struct srv_http_options){
        .address = "127.0.0.1",
        .metrics_address = "127.0.0.1",
        .connections_max = 1024,
        .body_bytes_max = 64u << 20,
        .json_bytes_max = 8u << 20,
        .bodies_bytes_max = 256u << 20,
        .request_bytes_max = 256u << 20,
        .response_bytes_max = 64u << 20,
        .busy = BASE_RESOURCE_EXHAUSTED,
        .head_ms = 10000,
        .idle_ms = 60000,
        .body_ms = 60000,
        .send_ms = 60000,
    };
}

void srv_http__handle_closed(struct srv_http *http)
{
    base_assert(http->handles > 0);
    http->handles--;
    if (http->handles == 0 && http->stopping) {
        srv_http_codec_release(&http->codec);
        srv_orders_release(&http->orders);
        base_free(http);
    }
}

static void closed_cb(uv_handle_t *handle)
{
    srv_http__handle_closed(handle->data);
}

static void idle_cb(uv_idle_t *idle)
{
    (void)idle; // its being active is what matters
}

void srv_http__stay_awake(struct srv_http *http)
{
    if (!http->stopping) {
        uv_idle_start(&http->idle, idle_cb);
    }
}

static bool is_empty(const struct srv_http *http)
{
    return http->draining && http->listeners[SRV_HTTP__INFER].n_connections == 0;
}

/* Before each sleep of the loop. */
static void prepare_cb(uv_prepare_t *prepare)
{
    struct srv_http *http = prepare->data;
    uv_idle_stop(&http->idle); // unless a run below asks for more
    for (int i = 0; i < SRV_HTTP__LISTENERS; i++) {
        if (http->listeners[i].run_wanted) {
            srv_http__listener_run(&http->listeners[i]);
        }
    }
    if (is_empty(http) && http->drain_looks == DRAIN_LOOKS && http->drained != NULL) {
        void (*drained)(void *context) = http->drained;
        http->drained = NULL;
        drained(http->drained_context);
    }
}

static void drain_look(struct srv_http *http)
{
    struct srv_http__listener *infer = &http->listeners[SRV_HTTP__INFER];
    if (http->drain_looks == 1) {
        srv_http__listener_quiesce(infer);
    }
    for (struct srv_http__connection *c = infer->first; c != NULL; c = c->next) {
        if (c->phase == SRV_HTTP__HEAD && http->drain_looks == DRAIN_LOOKS) {
            srv_http__connection_cut(c);
        }
    }
}

static void sweep_cb(uv_timer_t *timer)
{
    struct srv_http *http = timer->data;
    uint64_t now_ns = srv_loop_update(http->loop);
    for (int i = 0; i < SRV_HTTP__LISTENERS; i++) {
        srv_http__connections_sweep(&http->listeners[i], now_ns);
    }
    if (http->draining && http->drain_looks < DRAIN_LOOKS) {
        http->drain_looks++;
        drain_look(http);
    }
}

/* A quarter of the shortest limit. */
static uint64_t sweep_ms(const struct srv_http_options *options)
{
    const uint32_t limits[] = {options->head_ms, options->idle_ms, options->body_ms,
                               options->send_ms};
    uint32_t shortest = SWEEP_MS_MAX * 4;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        shortest = limits[i] < shortest ? limits[i] : shortest;
    }
    return shortest / 4 < SWEEP_MS_MIN ? SWEEP_MS_MIN : shortest / 4;
}

static void init_handles(struct srv_http *http)
{
    uv_loop_t *uv = &http->loop->uv;
    int failed = uv_prepare_init(uv, &http->prepare) | uv_idle_init(uv, &http->idle) |
                 uv_timer_init(uv, &http->sweep);
    base_assert(failed == 0); // these take no descriptors
    http->handles = 3;
    http->prepare.data = http;
    http->idle.data = http;
    http->sweep.data = http;
    uint64_t every_ms = sweep_ms(&http->options);
    failed = uv_prepare_start(&http->prepare, prepare_cb) |
             uv_timer_start(&http->sweep, sweep_cb, every_ms, every_ms);
    base_assert(failed == 0);
}

/* Closes what there is; memory goes with the last handle. */
static void close_all(struct srv_http *http)
{
    http->stopping = true;
    for (int i = 0; i < SRV_HTTP__LISTENERS; i++) {
        srv_http__listener_close(&http->listeners[i]);
    }
    uv_close(srv_uv_handle(&http->prepare), closed_cb);
    uv_close(srv_uv_handle(&http->idle), closed_cb);
    uv_close(srv_uv_handle(&http->sweep), closed_cb);
}

static enum base_status start_listeners(struct srv_http *http,
                                        const struct srv_http_options *options,
                                        struct base_error *error)
{
    struct srv_http__listener *infer = &http->listeners[SRV_HTTP__INFER];
    struct srv_http__listener *metrics = &http->listeners[SRV_HTTP__METRICS];
    // Both ports before either serves: a server that cannot start must not have answered.
    if (options->address != NULL) {
        BASE_TRY(srv_http__listener_open(infer, options->address, options->port, error));
    }
    if (options->metrics_address != NULL) {
        BASE_TRY(srv_http__listener_open(metrics, options->metrics_address, options->metrics_port,
                                         error));
    }
    if (options->address != NULL) {
        BASE_TRY(srv_http__listener_start(infer, options->tls, error));
    }
    return options->metrics_address == NULL
               ? BASE_OK
               : srv_http__listener_start(metrics, options->metrics_tls, error);
}

enum base_status srv_http_start(const struct srv_http_options *options, struct srv_loop *loop,
                                struct srv_core *core, struct srv_http **out,
                                struct base_error *error)
{
    base_assert(srv_loop_is_owner(loop));
    struct srv_http *http = base_alloc(sizeof *http);
    *out = NULL;
    if (http == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "http: out of memory");
    }
    http->options = *options;
    http->options.address = NULL; // the caller's
    http->options.metrics_address = NULL;
    http->options.tls = NULL;
    http->options.metrics_tls = NULL;
    // One body of the greatest size has to fit.
    if (options->bodies_bytes_max < options->body_bytes_max) {
        http->options.bodies_bytes_max = options->body_bytes_max;
    }
    http->loop = loop;
    http->core = core;
    http->orders.core = core;
    srv_http_codec_init(&http->codec, (size_t)options->json_bytes_max);
    for (int i = 0; i < SRV_HTTP__LISTENERS; i++) {
        http->listeners[i].http = http;
        http->listeners[i].is_metrics = i == SRV_HTTP__METRICS;
        http->listeners[i].fd = -1;
    }
    init_handles(http);
    enum base_status status = start_listeners(http, options, error);
    if (status != BASE_OK) {
        close_all(http);
        return status;
    }
    *out = http;
    return BASE_OK;
}

enum base_status srv_http_set_tls(struct srv_http *http, const struct srv_tls *tls,
                                  struct base_error *error)
{
    struct srv_http__certificate *fresh = NULL;
    base_assert(srv_loop_is_owner(http->loop));
    BASE_TRY(srv_http__certificate_create(tls, &fresh, error));
    for (int i = 0; i < SRV_HTTP__LISTENERS; i++) {
        struct srv_http__listener *listener = &http->listeners[i];
        if (listener->certificate != NULL) {
            srv_http__certificate_leave(listener->certificate);
            listener->certificate = fresh;
            fresh->users++;
        }
    }
    srv_http__certificate_leave(fresh);
    return BASE_OK;
}

uint16_t srv_http_port(const struct srv_http *http)
{
    return http->listeners[SRV_HTTP__INFER].port;
}

uint16_t srv_http_metrics_port(const struct srv_http *http)
{
    return http->listeners[SRV_HTTP__METRICS].port;
}

void srv_http_drain(struct srv_http *http, void (*done)(void *context), void *context)
{
    base_assert(srv_loop_is_owner(http->loop));
    base_assert(!http->draining);
    http->draining = true;
    http->drained = done;
    http->drained_context = context;
    uv_timer_start(&http->sweep, sweep_cb, DRAIN_LOOK_MS, DRAIN_LOOK_MS);
}

void srv_http_cancel_all(struct srv_http *http)
{
    base_assert(srv_loop_is_owner(http->loop));
    base_assert(http->draining);
    struct srv_http__listener *infer = &http->listeners[SRV_HTTP__INFER];
    for (struct srv_http__connection *c = infer->first; c != NULL; c = c->next) {
        if (c->phase == SRV_HTTP__RUNNING) {
            srv_http__exchange_cancel(c, BASE_UNAVAILABLE);
        } else if (c->phase != SRV_HTTP__CUT) {
            srv_http__connection_cut(c);
        }
    }
}

void srv_http_stop(struct srv_http *http)
{
    base_assert(srv_loop_is_owner(http->loop));
    base_assert(is_empty(http) && http->drained == NULL);
    close_all(http);
}

void srv_http_counts(const struct srv_http *http, struct srv_http_counts *counts)
{
    *counts = http->counts;
    counts->connections_open = http->listeners[SRV_HTTP__INFER].n_connections;
    counts->open = (uint32_t)(counts->begun - counts->answered - counts->lost);
}
