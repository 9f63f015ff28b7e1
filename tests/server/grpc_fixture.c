/* The loop thread of the gRPC tests, and a way to run a function on it. */
#include "tests/server/grpc_fixture.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/event.h"
#include "proto/inference.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *loop_main(void *context)
{
    struct grpc_fixture *fixture = context;
    base_thread_name("loop");
    srv_loop_run(&fixture->loop);
    return NULL;
}

struct task {
    struct base_message message;
    struct grpc_fixture *fixture;
    void (*function)(struct grpc_fixture *fixture);
    struct base_event done;
};

static void deliver_task(struct base_message *message)
{
    struct task *task = (struct task *)(void *)message;
    task->function(task->fixture);
    base_event_signal(&task->done);
}

void grpc_fixture_on_loop(struct grpc_fixture *fixture, void (*function)(struct grpc_fixture *))
{
    struct task task = {
        .message = {.deliver = deliver_task}, .fixture = fixture, .function = function};
    base_event_init(&task.done);
    srv_loop_post(&fixture->loop, &task.message);
    base_event_wait(&task.done, 0, BASE_WAIT_FOREVER);
}

void grpc_fixture_start(struct grpc_fixture *fixture, const struct srv_grpc_options *options)
{
    memset(fixture, 0, sizeof *fixture);
    struct srv_grpc_options defaults;
    srv_grpc_options_init(&defaults);
    base_event_init(&fixture->drained);
    enum base_status status = srv_loop_init(&fixture->loop);
    base_assert(status == BASE_OK);
    fake_core_init(&fixture->core, &fixture->loop);
    struct base_error error;
    status = srv_grpc_start(options != NULL ? options : &defaults, &fixture->loop, &fixture->core,
                            &fixture->server, &error);
    base_assert(status == BASE_OK);
    fixture->port = srv_grpc_port(fixture->server);
    int created = pthread_create(&fixture->thread, NULL, loop_main, fixture);
    base_assert(created == 0);
}

static void on_drained(void *context)
{
    struct grpc_fixture *fixture = context;
    base_event_signal(&fixture->drained);
}

void grpc_fixture_drain_here(struct grpc_fixture *fixture)
{
    fixture->core.draining = true; // refuses what is new, as the daemon's does by then
    srv_grpc_drain(fixture->server, on_drained, fixture);
}

void grpc_fixture_drain(struct grpc_fixture *fixture)
{
    grpc_fixture_on_loop(fixture, grpc_fixture_drain_here);
}

static void cancel_all_task(struct grpc_fixture *fixture)
{
    srv_grpc_cancel_all(fixture->server);
}

void grpc_fixture_cancel_all(struct grpc_fixture *fixture)
{
    grpc_fixture_on_loop(fixture, cancel_all_task);
}

bool grpc_fixture_wait_drained(struct grpc_fixture *fixture, uint64_t timeout_ms)
{
    return base_event_wait(&fixture->drained, 0, timeout_ms * BASE_NS_PER_MS);
}

static void stop_task(struct grpc_fixture *fixture)
{
    srv_grpc_stop(fixture->server);
    srv_loop_stop(&fixture->loop);
}

void grpc_fixture_end(struct grpc_fixture *fixture)
{
    grpc_fixture_on_loop(fixture, stop_task);
    int joined = pthread_join(fixture->thread, NULL);
    base_assert(joined == 0);
    srv_loop_release(&fixture->loop);
}

void grpc_fixture_stop(struct grpc_fixture *fixture)
{
    grpc_fixture_drain(fixture);
    bool drained = grpc_fixture_wait_drained(fixture, 10000);
    base_assert(drained);
    grpc_fixture_end(fixture);
}

struct read_task {
    struct base_message message;
    struct grpc_fixture *fixture;
    struct srv_grpc_counts counts;
    uint32_t running, cancels;
    struct base_event done;
};

static void deliver_read(struct base_message *message)
{
    struct read_task *task = (struct read_task *)(void *)message;
    srv_grpc_counts(task->fixture->server, &task->counts);
    task->running = task->fixture->core.running;
    task->cancels = task->fixture->core.cancels;
    base_event_signal(&task->done);
}

static void read_state(struct grpc_fixture *fixture, struct read_task *task)
{
    *task = (struct read_task){.message = {.deliver = deliver_read}, .fixture = fixture};
    base_event_init(&task->done);
    srv_loop_post(&fixture->loop, &task->message);
    base_event_wait(&task->done, 0, BASE_WAIT_FOREVER);
}

struct srv_grpc_counts grpc_fixture_counts(struct grpc_fixture *fixture)
{
    struct read_task task;
    read_state(fixture, &task);
    return task.counts;
}

bool grpc_fixture_wait_running(struct grpc_fixture *fixture, uint32_t running)
{
    for (uint32_t i = 0; i < 10000; i++) {
        struct read_task task;
        read_state(fixture, &task);
        if (task.running == running) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

bool grpc_fixture_wait_cancels(struct grpc_fixture *fixture, uint32_t cancels)
{
    for (uint32_t i = 0; i < 10000; i++) {
        struct read_task task;
        read_state(fixture, &task);
        if (task.cancels == cancels) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

bool grpc_fixture_wait_idle(struct grpc_fixture *fixture, struct srv_grpc_counts *counts)
{
    for (uint32_t i = 0; i < 10000; i++) {
        struct srv_grpc_counts now = grpc_fixture_counts(fixture);
        if (now.open == 0) {
            if (counts != NULL) {
                *counts = now;
            }
            return true;
        }
        usleep(1000);
    }
    return false;
}

uint8_t *grpc_fixture_request(const char *id, uint32_t batch, uint32_t time, size_t *length)
{
    static char model[] = "sum";
    static char name[] = "tokens";
    static char type[] = "INT64";
    int64_t shape[] = {batch, time};
    size_t count = (size_t)batch * time;
    int64_t *tokens = calloc(count + 1, sizeof tokens[0]);
    char *id_copy = strdup(id);
    base_assert(tokens != NULL && id_copy != NULL);
    for (size_t i = 0; i < count; i++) {
        tokens[i] = (int64_t)(i % time) + 1;
    }
    Inference__ModelInferRequest request;
    inference__model_infer_request__init(&request);
    Inference__ModelInferRequest__InferInputTensor input;
    inference__model_infer_request__infer_input_tensor__init(&input);
    Inference__ModelInferRequest__InferInputTensor *inputs[] = {&input};
    ProtobufCBinaryData raw = {count * sizeof tokens[0], (uint8_t *)tokens};
    request.model_name = model;
    request.id = id_copy;
    input.name = name;
    input.datatype = type;
    input.n_shape = 2;
    input.shape = shape;
    request.n_inputs = 1;
    request.inputs = inputs;
    request.n_raw_input_contents = 1;
    request.raw_input_contents = &raw;
    *length = inference__model_infer_request__get_packed_size(&request);
    uint8_t *bytes = malloc(*length + 1);
    base_assert(bytes != NULL);
    inference__model_infer_request__pack(&request, bytes);
    free(tokens);
    free(id_copy);
    return bytes;
}
