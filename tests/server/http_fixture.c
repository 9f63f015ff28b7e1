/* The loop thread of the HTTP tests, and a way to run a function on it. */
#include "tests/server/http_fixture.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POLL_US    2000u
#define POLL_TIMES 5000u

static void *loop_main(void *context)
{
    struct http_fixture *fixture = context;
    base_thread_name("loop");
    srv_loop_run(&fixture->loop);
    return NULL;
}

struct task {
    struct base_message message;
    struct http_fixture *fixture;
    void (*function)(struct http_fixture *fixture);
    void (*read)(struct http_fixture *fixture, void *out);
    void *out;
    struct base_event done;
};

static void deliver_task(struct base_message *message)
{
    struct task *task = (struct task *)(void *)message;
    if (task->function != NULL) {
        task->function(task->fixture);
    } else {
        task->read(task->fixture, task->out);
    }
    base_event_signal(&task->done);
}

static void run_task(struct task *task)
{
    task->message.deliver = deliver_task;
    base_event_init(&task->done);
    srv_loop_post(&task->fixture->loop, &task->message);
    base_event_wait(&task->done, 0, BASE_WAIT_FOREVER);
}

void http_fixture_on_loop(struct http_fixture *fixture, void (*function)(struct http_fixture *))
{
    struct task task = {.fixture = fixture, .function = function};
    run_task(&task);
}

void http_fixture_start(struct http_fixture *fixture, const struct srv_http_options *options)
{
    memset(fixture, 0, sizeof *fixture);
    struct srv_http_options defaults;
    srv_http_options_init(&defaults);
    base_event_init(&fixture->drained);
    enum base_status status = srv_loop_init(&fixture->loop);
    base_assert(status == BASE_OK);
    fake_core_init(&fixture->core, &fixture->loop);
    struct base_error error;
    status = srv_http_start(options != NULL ? options : &defaults, &fixture->loop, &fixture->core,
                            &fixture->server, &error);
    base_assert(status == BASE_OK);
    fixture->port = srv_http_port(fixture->server);
    fixture->metrics_port = srv_http_metrics_port(fixture->server);
    int created = pthread_create(&fixture->thread, NULL, loop_main, fixture);
    base_assert(created == 0);
}

static void on_drained(void *context)
{
    struct http_fixture *fixture = context;
    base_event_signal(&fixture->drained);
}

void http_fixture_drain_here(struct http_fixture *fixture)
{
    fixture->core.draining = true; // refuses what is new, as the daemon's does by then
    srv_http_drain(fixture->server, on_drained, fixture);
}

void http_fixture_drain(struct http_fixture *fixture)
{
    http_fixture_on_loop(fixture, http_fixture_drain_here);
}

static void cancel_all_task(struct http_fixture *fixture)
{
    srv_http_cancel_all(fixture->server);
}

void http_fixture_cancel_all(struct http_fixture *fixture)
{
    http_fixture_on_loop(fixture, cancel_all_task);
}

bool http_fixture_wait_drained(struct http_fixture *fixture, uint64_t timeout_ms)
{
    return base_event_wait(&fixture->drained, 0, timeout_ms * BASE_NS_PER_MS);
}

static void stop_task(struct http_fixture *fixture)
{
    srv_http_stop(fixture->server);
    srv_loop_stop(&fixture->loop);
}

void http_fixture_end(struct http_fixture *fixture)
{
    http_fixture_on_loop(fixture, stop_task);
    int joined = pthread_join(fixture->thread, NULL);
    base_assert(joined == 0);
    srv_loop_release(&fixture->loop);
}

void http_fixture_stop(struct http_fixture *fixture)
{
    http_fixture_drain(fixture);
    bool drained = http_fixture_wait_drained(fixture, 10000);
    base_assert(drained);
    http_fixture_end(fixture);
}

struct pace {
    enum fake_pace pace;
    uint32_t delay_ms;
};

static void set_pace(struct http_fixture *fixture, void *context)
{
    const struct pace *pace = context;
    fixture->core.pace = pace->pace;
    fixture->core.delay_ms = pace->delay_ms;
}

void http_fixture_pace(struct http_fixture *fixture, enum fake_pace pace, uint32_t delay_ms)
{
    struct pace wanted = {pace, delay_ms};
    struct task task = {.fixture = fixture, .read = set_pace, .out = &wanted};
    run_task(&task);
}

static void release_task(struct http_fixture *fixture)
{
    fake_core_release(&fixture->core);
}

void http_fixture_release(struct http_fixture *fixture)
{
    http_fixture_on_loop(fixture, release_task);
}

static void read_state(struct http_fixture *fixture, void *out)
{
    struct http_fixture_state *state = out;
    srv_http_counts(fixture->server, &state->counts);
    state->started = fixture->core.started;
    state->running = fixture->core.running;
    state->cancels = fixture->core.cancels;
    state->last_cancel = fixture->core.last_cancel;
    state->last_timeout_ns = fixture->core.last_timeout_ns;
    memcpy(state->refused, fixture->core.counters.requests_total[SRV_PROTOCOL_HTTP],
           sizeof state->refused);
}

struct http_fixture_state http_fixture_state(struct http_fixture *fixture)
{
    struct http_fixture_state state = {.started = 0};
    struct task task = {.fixture = fixture, .read = read_state, .out = &state};
    run_task(&task);
    return state;
}

/* Whether what is waited for is there. */
static bool wait_until(struct http_fixture *fixture,
                       bool (*is_so)(const struct http_fixture_state *, uint64_t), uint64_t wanted)
{
    for (uint32_t i = 0; i < POLL_TIMES; i++) {
        struct http_fixture_state state = http_fixture_state(fixture);
        if (is_so(&state, wanted)) {
            return true;
        }
        (void)usleep(POLL_US);
    }
    return false;
}

static bool is_running(const struct http_fixture_state *state, uint64_t wanted)
{
    return state->running == wanted;
}

static bool is_open(const struct http_fixture_state *state, uint64_t wanted)
{
    return state->counts.connections_open == wanted;
}

static bool is_answered(const struct http_fixture_state *state, uint64_t wanted)
{
    return state->counts.answered == wanted;
}

static bool is_lost(const struct http_fixture_state *state, uint64_t wanted)
{
    return state->counts.lost == wanted;
}

bool http_fixture_wait_running(struct http_fixture *fixture, uint32_t running)
{
    return wait_until(fixture, is_running, running);
}

bool http_fixture_wait_connections(struct http_fixture *fixture, uint32_t connections)
{
    return wait_until(fixture, is_open, connections);
}

bool http_fixture_wait_answered(struct http_fixture *fixture, uint64_t answered)
{
    return wait_until(fixture, is_answered, answered);
}

bool http_fixture_wait_lost(struct http_fixture *fixture, uint64_t lost)
{
    return wait_until(fixture, is_lost, lost);
}

/* A body of `bytes`: tokens in binary behind their JSON. */
static char *large_body(size_t bytes, size_t *json_bytes)
{
    size_t tokens = (bytes - 200) / 8;
    *json_bytes = bytes - tokens * 8;
    char *body = base_alloc(bytes);
    base_assert(body != NULL);
    int length =
        snprintf(body, 200,
                 "{\"inputs\":[{\"name\":\"tokens\",\"datatype\":\"INT64\",\"shape\":[1,%zu],"
                 "\"parameters\":{\"binary_data_size\":%zu}}]}",
                 tokens, tokens * 8);
    memset(body + length, ' ', *json_bytes - (size_t)length);
    return body;
}

struct http_answer http_fixture_post_large(struct http_client *client, size_t bytes, bool chunked)
{
    size_t json_bytes;
    char *body = large_body(bytes, &json_bytes);
    char head[256];
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                   "Inference-Header-Content-Length: %zu\r\n",
                   json_bytes);
    bool sent = http_send_text(client, head);
    if (chunked) {
        (void)snprintf(head, sizeof head, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", bytes);
    } else {
        (void)snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", bytes);
    }
    sent = sent && http_send_text(client, head) && http_send(client, body, bytes) &&
           (!chunked || http_send_text(client, "\r\n0\r\n\r\n"));
    base_free(body);
    struct http_answer none = {.head = "", .body = ""};
    return sent ? http_read(client, 60000, false) : none;
}
