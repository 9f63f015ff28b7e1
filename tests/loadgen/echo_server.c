#include "tests/loadgen/echo_server.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loadgen/borrow.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <proto/inference.pb-c.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CALLS       512u /* calls that wait for a request at any time */
#define OTHER_CALLS 4u   /* of these, for methods other than ModelInfer */
#define PEERS_MAX   16u
#define TICK_NS     (5 * BASE_NS_PER_MS)

struct echo_call;

/* What a completion is about. */
struct tag {
    struct echo_call *call; /* NULL: the server's shutdown */
    bool is_close;
};

/* One call: first it waits for a request; then its two batches, the answer and the close, end in
 * any order, and it waits again. */
struct echo_call {
    struct echo_server *server;
    struct tag tag, close_tag;
    bool infer;    /* on the registered method; else any other method */
    bool begun;    /* a request has come */
    bool silent;   /* it gets its answer only when it is closed */
    bool answered; /* the answer batch has ended */
    bool closed;   /* the close batch has ended */
    int cancelled;
    uint64_t due_ns;
    struct echo_call *next; /* in the list of delayed ones */
    grpc_call *call;
    grpc_call_details details;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *request;
};

struct echo_server {
    struct echo_config config;
    struct echo_stats stats;
    grpc_server *server;
    grpc_completion_queue *queue;
    void *infer;
    char target[64];
    pthread_t thread;
    _Atomic bool stop;
    bool dying;
    bool queue_down;
    bool down;      /* shutdown has been asked for */
    uint32_t calls; /* alive */
    struct tag shutdown_tag;
    struct echo_call *delayed_first, *delayed_last;
    char peers[PEERS_MAX][64];
};

/* ---- Messages -------------------------------------------------------------------------------- */

static grpc_byte_buffer *pack(const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    grpc_slice slice = grpc_slice_malloc(length);
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

static grpc_byte_buffer *pack_ready(struct echo_server *server)
{
    Inference__ServerReadyResponse answer;
    inference__server_ready_response__init(&answer);
    answer.ready = server->config.unready_first == 0;
    if (!answer.ready) {
        server->config.unready_first--;
    }
    return pack(&answer.base); // ServerLive and ModelReady answers look the same
}

static grpc_byte_buffer *pack_metadata(const struct echo_server *server)
{
    int64_t ids_shape[] = {-1, -1};
    int64_t x_shape[] = {-1, -1, 4};
    int64_t h_shape[] = {-1, 3};
    Inference__ModelMetadataResponse__TensorMetadata tensors[2];
    Inference__ModelMetadataResponse__TensorMetadata *inputs[] = {&tensors[0], &tensors[1]};
    for (size_t i = 0; i < 2; i++) {
        inference__model_metadata_response__tensor_metadata__init(&tensors[i]);
        tensors[i].name = lg_borrow(!server->config.floats ? "tokens" : i == 0 ? "x" : "h0");
        tensors[i].datatype = lg_borrow(server->config.floats ? "FP32" : "INT64");
        tensors[i].shape = !server->config.floats ? ids_shape : i == 0 ? x_shape : h_shape;
        tensors[i].n_shape = server->config.floats && i == 0 ? 3 : 2;
    }
    Inference__ModelMetadataResponse answer;
    inference__model_metadata_response__init(&answer);
    answer.name = lg_borrow("langid");
    answer.inputs = inputs;
    answer.n_inputs = server->config.floats ? 2 : 1;
    return pack(&answer.base);
}

/* One FP32 output [1, 2]: the second column is likely when the request's first byte is 'G'. */
static grpc_byte_buffer *pack_answer(bool second)
{
    static const float likely[] = {0.0013F, 0.9987F};
    static const float unlikely[] = {0.75F, 0.25F};
    float values[2];
    memcpy(values, second ? likely : unlikely, sizeof(values));
    int64_t shape[] = {1, 2};
    Inference__ModelInferResponse__InferOutputTensor output;
    inference__model_infer_response__infer_output_tensor__init(&output);
    output.name = lg_borrow("probabilities");
    output.datatype = lg_borrow("FP32");
    output.shape = shape;
    output.n_shape = 2;
    Inference__ModelInferResponse__InferOutputTensor *outputs[] = {&output};
    ProtobufCBinaryData raw = {.len = sizeof(values), .data = (uint8_t *)values};
    Inference__ModelInferResponse answer;
    inference__model_infer_response__init(&answer);
    answer.model_name = lg_borrow("langid");
    answer.outputs = outputs;
    answer.n_outputs = 1;
    answer.raw_output_contents = &raw;
    answer.n_raw_output_contents = 1;
    return pack(&answer.base);
}

static size_t wanted_bytes(const Inference__ModelInferRequest__InferInputTensor *input)
{
    int64_t bytes = strcmp(input->datatype, "FP32") == 0 ? 4 : 8;
    for (size_t i = 0; i < input->n_shape; i++) {
        bytes *= input->shape[i];
    }
    return (size_t)bytes;
}

static bool is_right(const struct echo_server *server, const Inference__ModelInferRequest *request)
{
    size_t inputs = server->config.floats ? 2 : 1;
    if (request == NULL || strcmp(request->model_name, "langid") != 0 ||
        request->n_inputs != inputs || request->n_raw_input_contents != inputs) {
        return false;
    }
    for (size_t i = 0; i < inputs; i++) {
        const Inference__ModelInferRequest__InferInputTensor *input = request->inputs[i];
        const char *name = !server->config.floats ? "tokens" : i == 0 ? "x" : "h0";
        if (strcmp(input->name, name) != 0 ||
            request->raw_input_contents[i].len != wanted_bytes(input)) {
            return false;
        }
    }
    return true;
}

/* Decodes a request; *second gets what pack_answer() wants. */
static bool look(const struct echo_server *server, grpc_byte_buffer *message, bool *second)
{
    grpc_byte_buffer_reader reader;
    if (grpc_byte_buffer_reader_init(&reader, message) == 0) {
        return false;
    }
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    Inference__ModelInferRequest *request = inference__model_infer_request__unpack(
        NULL, GRPC_SLICE_LENGTH(all), GRPC_SLICE_START_PTR(all));
    bool right = is_right(server, request);
    *second = right && request->raw_input_contents[0].len > 0 &&
              request->raw_input_contents[0].data[0] == 'G';
    inference__model_infer_request__free_unpacked(request, NULL);
    grpc_slice_unref(all);
    return right;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void wait_for_request(struct echo_call *call)
{
    struct echo_server *server = call->server;
    call->begun = false;
    call->silent = false;
    call->answered = false;
    call->closed = false;
    call->call = NULL;
    call->request = NULL;
    grpc_metadata_array_init(&call->metadata);
    grpc_call_details_init(&call->details);
    grpc_call_error error =
        call->infer
            ? grpc_server_request_registered_call(server->server, server->infer, &call->call,
                                                  &call->deadline, &call->metadata, &call->request,
                                                  server->queue, server->queue, &call->tag)
            : grpc_server_request_call(server->server, &call->call, &call->details, &call->metadata,
                                       server->queue, server->queue, &call->tag);
    base_assert(error == GRPC_CALL_OK);
}

static void release(struct echo_call *call)
{
    if (call->call != NULL) {
        grpc_call_unref(call->call);
    }
    if (call->request != NULL) {
        grpc_byte_buffer_destroy(call->request);
    }
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
}

static void forget(struct echo_call *call)
{
    call->server->calls--;
    base_free(call);
}

static void recycle_when_over(struct echo_call *call)
{
    if (!call->answered || !call->closed) {
        return;
    }
    release(call);
    if (call->server->down) {
        forget(call);
    } else {
        wait_for_request(call);
    }
}

static void answer(struct echo_call *call, grpc_status_code code, grpc_byte_buffer *message)
{
    grpc_slice words = grpc_slice_from_static_string("asked to fail");
    grpc_op ops[3];
    memset(ops, 0, sizeof(ops));
    size_t count = 0;
    ops[count++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (message != NULL) {
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = message;
    }
    ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[count].data.send_status_from_server.status = code;
    ops[count++].data.send_status_from_server.status_details = &words;
    grpc_call_error error = grpc_call_start_batch(call->call, ops, count, &call->tag, NULL);
    base_assert(error == GRPC_CALL_OK);
    if (message != NULL) {
        grpc_byte_buffer_destroy(message);
    }
}

static void watch_close(struct echo_call *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    op.data.recv_close_on_server.cancelled = &call->cancelled;
    grpc_call_error error = grpc_call_start_batch(call->call, &op, 1, &call->close_tag, NULL);
    base_assert(error == GRPC_CALL_OK);
}

static void note_peer(struct echo_call *call)
{
    struct echo_server *server = call->server;
    char *peer = grpc_call_get_peer(call->call);
    uint64_t i = 0;
    while (i < server->stats.connections && strcmp(server->peers[i], peer) != 0) {
        i++;
    }
    if (i == server->stats.connections && i < PEERS_MAX) {
        (void)snprintf(server->peers[i], sizeof(server->peers[i]), "%s", peer);
        server->stats.connections++;
    }
    gpr_free(peer);
}

static void answer_infer(struct echo_call *call)
{
    struct echo_server *server = call->server;
    bool second = false;
    if (server->config.check && (call->request == NULL || !look(server, call->request, &second))) {
        server->stats.wrong++;
        answer(call, GRPC_STATUS_INVALID_ARGUMENT, NULL);
        return;
    }
    answer(call, GRPC_STATUS_OK, pack_answer(second));
}

static void delay(struct echo_call *call)
{
    struct echo_server *server = call->server;
    call->due_ns = base_now_ns() + server->config.delay_ns;
    call->next = NULL;
    if (server->delayed_last == NULL) {
        server->delayed_first = call;
    } else {
        server->delayed_last->next = call;
    }
    server->delayed_last = call;
}

static void stall(const struct echo_server *server)
{
    struct timespec pause = {.tv_sec = (time_t)(server->config.stall_ns / BASE_NS_PER_S),
                             .tv_nsec = (long)(server->config.stall_ns % BASE_NS_PER_S)};
    (void)nanosleep(&pause, NULL);
}

static void begin_infer(struct echo_call *call)
{
    struct echo_server *server = call->server;
    const struct echo_config *config = &server->config;
    uint64_t number = ++server->stats.requests;
    server->stats.bytes += call->request == NULL ? 0 : grpc_byte_buffer_length(call->request);
    if (config->check) {
        note_peer(call);
    }
    if (number == config->stall_at) {
        stall(server);
    }
    if (number == config->die_at) {
        server->dying = true;
    }
    if (config->silent) {
        call->silent = true;
    } else if (config->fail_every > 0 && number % config->fail_every == 0) {
        answer(call, GRPC_STATUS_RESOURCE_EXHAUSTED, NULL);
    } else if (config->delay_ns > 0) {
        delay(call);
    } else {
        answer_infer(call);
    }
}

static void begin_other(struct echo_call *call)
{
    char method[96] = {0};
    size_t length = GRPC_SLICE_LENGTH(call->details.method);
    length = length < sizeof(method) ? length : sizeof(method) - 1;
    memcpy(method, GRPC_SLICE_START_PTR(call->details.method), length);
    if (strstr(method, "/ModelMetadata") != NULL) {
        answer(call, GRPC_STATUS_OK, pack_metadata(call->server));
    } else if (strstr(method, "Ready") != NULL || strstr(method, "Live") != NULL) {
        answer(call, GRPC_STATUS_OK, pack_ready(call->server));
    } else {
        answer(call, GRPC_STATUS_UNIMPLEMENTED, NULL);
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

static gpr_timespec timespec_of(uint64_t time_ns)
{
    gpr_timespec time = {.tv_sec = (int64_t)(time_ns / BASE_NS_PER_S),
                         .tv_nsec = (int32_t)(time_ns % BASE_NS_PER_S),
                         .clock_type = GPR_CLOCK_MONOTONIC};
    return time;
}

static void on_request(struct echo_call *call, bool success)
{
    if (!success) { // the server is going down
        release(call);
        forget(call);
        return;
    }
    call->begun = true;
    watch_close(call);
    if (call->infer) {
        begin_infer(call);
    } else {
        begin_other(call);
    }
}

static void on_close(struct echo_call *call)
{
    call->closed = true;
    if (call->infer && call->cancelled != 0) {
        call->server->stats.cancelled++;
    }
    if (call->silent) {
        answer(call, GRPC_STATUS_CANCELLED, NULL);
    }
    recycle_when_over(call);
}

static void on_event(const struct tag *tag, bool success)
{
    if (tag->call == NULL) {
        return; // the shutdown is complete
    }
    if (tag->is_close) {
        on_close(tag->call);
    } else if (!tag->call->begun) {
        on_request(tag->call, success);
    } else {
        tag->call->answered = true;
        recycle_when_over(tag->call);
    }
}

static void answer_delayed(struct echo_server *server, uint64_t now_ns)
{
    while (server->delayed_first != NULL && server->delayed_first->due_ns <= now_ns) {
        struct echo_call *call = server->delayed_first;
        server->delayed_first = call->next;
        if (server->delayed_first == NULL) {
            server->delayed_last = NULL;
        }
        answer_infer(call);
    }
}

/* Drops all connections. Completions go on until every call is over. */
static void go_down(struct echo_server *server)
{
    server->down = true;
    grpc_server_shutdown_and_notify(server->server, server->queue, &server->shutdown_tag);
    grpc_server_cancel_all_calls(server->server);
    answer_delayed(server, BASE_NEVER);
}

static void *serve(void *arg)
{
    struct echo_server *server = arg;
    for (;;) {
        uint64_t wake_ns = base_now_ns() + TICK_NS;
        if (server->delayed_first != NULL && server->delayed_first->due_ns < wake_ns) {
            wake_ns = server->delayed_first->due_ns;
        }
        grpc_event event = grpc_completion_queue_next(server->queue, timespec_of(wake_ns), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        if (event.type == GRPC_OP_COMPLETE) {
            on_event(event.tag, event.success != 0);
        }
        if (server->delayed_first != NULL) {
            answer_delayed(server, base_now_ns());
        }
        bool wanted = !server->dying && !atomic_load_explicit(&server->stop, memory_order_relaxed);
        if (!wanted && !server->down) {
            go_down(server);
        }
        if (server->down && server->calls == 0 && !server->queue_down) {
            server->queue_down = true; // the last events: that shutdown is over, and the queue's
            grpc_completion_queue_shutdown(server->queue);
        }
    }
}

static void listen_on(struct echo_server *server, int port)
{
    char address[64];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    server->server = grpc_server_create(NULL, NULL);
    server->queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server->server, server->queue, NULL);
    server->infer =
        grpc_server_register_method(server->server, "/inference.GRPCInferenceService/ModelInfer",
                                    NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    int bound = grpc_server_add_http2_port(server->server, address, plain);
    grpc_server_credentials_release(plain);
    base_assert(bound > 0);
    (void)snprintf(server->target, sizeof(server->target), "127.0.0.1:%d", bound);
    grpc_server_start(server->server);
}

struct echo_server *echo_server_start(const struct echo_config *config)
{
    struct echo_server *server = base_alloc(sizeof(*server));
    base_assert(server != NULL);
    server->config = *config;
    grpc_init();
    listen_on(server, config->port);
    for (uint32_t i = 0; i < CALLS; i++) {
        struct echo_call *call = base_alloc(sizeof(*call));
        base_assert(call != NULL);
        call->server = server;
        call->tag = (struct tag){.call = call};
        call->close_tag = (struct tag){.call = call, .is_close = true};
        call->infer = i >= OTHER_CALLS;
        server->calls++;
        wait_for_request(call);
    }
    int failed = pthread_create(&server->thread, NULL, serve, server);
    base_assert(failed == 0);
    return server;
}

const char *echo_server_target(const struct echo_server *server)
{
    return server->target;
}

void echo_server_stop(struct echo_server *server, struct echo_stats *stats)
{
    atomic_store_explicit(&server->stop, true, memory_order_relaxed);
    (void)pthread_join(server->thread, NULL);
    if (stats != NULL) {
        *stats = server->stats;
    }
    grpc_server_destroy(server->server);
    grpc_completion_queue_destroy(server->queue);
    grpc_shutdown();
    base_free(server);
}
