/* How many ModelInfer calls a second the gRPC front end carries when core answers at once: the cost
 * of the front end alone. A tool, run by hand:
 *
 *   make build/release/tests/server/grpc_rate
 *   build/release/tests/server/grpc_rate [-s SECONDS] [-n OUTSTANDING] [-c CONNECTIONS]
 *                                        [-t TOKENS] [-r ANSWER_ROWS] [-p THREADS]
 *
 * The client is a process of its own on the same machine: one thread that keeps OUTSTANDING calls
 * open over CONNECTIONS connections, each answered call followed by a new one (closed loop). Prints
 * the rate, and the CPU microseconds a call of either process. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/hist.h"
#include "tests/server/grpc_fixture.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct settings {
    uint32_t seconds, outstanding, connections, tokens, rows, threads;
};

struct slot {
    grpc_channel *channel;
    void *method;
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *request, *response;
    grpc_status_code status;
    grpc_slice details;
    uint64_t started_ns;
};

struct load {
    grpc_completion_queue *queue;
    grpc_slice request;
    struct base_hist latency_ns;
    uint64_t failed;
};

static void slot_start(struct load *load, struct slot *slot)
{
    slot->started_ns = base_now_ns();
    slot->call =
        grpc_channel_create_registered_call(slot->channel, NULL, 0, load->queue, slot->method,
                                            gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    slot->request = grpc_raw_byte_buffer_create(&load->request, 1);
    grpc_op ops[6] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},  {.op = GRPC_OP_SEND_MESSAGE},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, {.op = GRPC_OP_RECV_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_MESSAGE},           {.op = GRPC_OP_RECV_STATUS_ON_CLIENT},
    };
    ops[1].data.send_message.send_message = slot->request;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &slot->initial;
    ops[4].data.recv_message.recv_message = &slot->response;
    ops[5].data.recv_status_on_client.trailing_metadata = &slot->trailing;
    ops[5].data.recv_status_on_client.status = &slot->status;
    ops[5].data.recv_status_on_client.status_details = &slot->details;
    grpc_call_error error = grpc_call_start_batch(slot->call, ops, 6, slot, NULL);
    base_assert(error == GRPC_CALL_OK);
}

static void slot_finish(struct load *load, struct slot *slot)
{
    base_hist_add(&load->latency_ns, base_now_ns() - slot->started_ns);
    load->failed += slot->status != GRPC_STATUS_OK || slot->response == NULL;
    grpc_byte_buffer_destroy(slot->request);
    grpc_byte_buffer_destroy(slot->response);
    slot->response = NULL;
    grpc_slice_unref(slot->details);
    grpc_call_unref(slot->call);
}

static grpc_channel *connect_to(uint16_t port)
{
    char target[64];
    snprintf(target, sizeof target, "127.0.0.1:%u", port);
    grpc_arg local = {.type = GRPC_ARG_INTEGER};
    static char key[] = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL;
    local.key = key;
    local.value.integer = 1;
    grpc_channel_args args = {1, &local};
    grpc_channel_credentials *open = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, open, &args);
    grpc_channel_credentials_release(open);
    return channel;
}

/* Drives the load and writes its line. */
static void client_run(const struct settings *settings, uint16_t port)
{
    base_thread_name("client");
    grpc_init();
    static struct load load;
    base_hist_init(&load.latency_ns);
    load.queue = grpc_completion_queue_create_for_next(NULL);
    size_t length;
    uint8_t *bytes = grpc_fixture_request("", 1, settings->tokens, &length);
    load.request = grpc_slice_from_copied_buffer((const char *)bytes, length);
    struct slot *slots = calloc(settings->outstanding, sizeof slots[0]);
    grpc_channel **channels = calloc(settings->connections, sizeof(grpc_channel *));
    base_assert(slots != NULL && channels != NULL);
    for (uint32_t i = 0; i < settings->connections; i++) {
        channels[i] = connect_to(port);
    }
    uint64_t cpu_ns = base_process_cpu_ns();
    uint64_t start_ns = base_now_ns();
    uint64_t end_ns = start_ns + settings->seconds * BASE_NS_PER_S;
    for (uint32_t i = 0; i < settings->outstanding; i++) {
        struct slot *slot = &slots[i];
        slot->channel = channels[i % settings->connections];
        slot->method = grpc_channel_register_call(slot->channel, GRPC_FIXTURE_SERVICE "ModelInfer",
                                                  NULL, NULL);
        grpc_metadata_array_init(&slot->initial);
        grpc_metadata_array_init(&slot->trailing);
        slot_start(&load, slot);
    }
    uint64_t calls = 0;
    uint32_t open = settings->outstanding;
    while (open > 0) {
        grpc_event event =
            grpc_completion_queue_next(load.queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        struct slot *slot = event.tag;
        slot_finish(&load, slot);
        calls++;
        if (slot->started_ns < end_ns) {
            slot_start(&load, slot);
        } else {
            open--;
        }
    }
    uint64_t wall_ns = base_now_ns() - start_ns;
    cpu_ns = base_process_cpu_ns() - cpu_ns;
    printf("%llu calls, %llu failed, %.0f calls/s, latency us p50 %.0f p99 %.0f, client %.1f us "
           "CPU a call\n",
           (unsigned long long)calls, (unsigned long long)load.failed,
           (double)calls * 1e9 / (double)wall_ns,
           (double)base_hist_quantile(&load.latency_ns, 0.5) / 1e3,
           (double)base_hist_quantile(&load.latency_ns, 0.99) / 1e3,
           (double)cpu_ns / 1e3 / (double)calls);
    free((void *)channels);
    free(slots);
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .seconds = 5, .outstanding = 64, .connections = 1, .tokens = 24, .threads = 1};
    int option;
    while ((option = getopt(argc, argv, "s:n:c:t:r:p:")) != -1) {
        uint32_t number = (uint32_t)strtoul(optarg, NULL, 10);
        switch (option) {
        case 's':
            settings.seconds = number;
            break;
        case 'n':
            settings.outstanding = number;
            break;
        case 'c':
            settings.connections = number;
            break;
        case 't':
            settings.tokens = number;
            break;
        case 'r':
            settings.rows = number;
            break;
        case 'p':
            settings.threads = number;
            break;
        default:
            return 2;
        }
    }
    // The client is forked before gRPC starts any thread, and learns the port through a pipe.
    int ends[2];
    base_assert(pipe(ends) == 0);
    pid_t child = fork();
    base_assert(child >= 0);
    if (child == 0) {
        uint16_t port;
        base_assert(read(ends[0], &port, sizeof port) == sizeof port);
        client_run(&settings, port);
        fflush(stdout);
        _exit(0);
    }
    static struct grpc_fixture fixture;
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.threads = settings.threads;
    grpc_fixture_start(&fixture, &options);
    fixture.core.answer_rows = settings.rows;
    uint64_t cpu_ns = base_process_cpu_ns();
    base_assert(write(ends[1], &fixture.port, sizeof fixture.port) == sizeof fixture.port);
    int status;
    base_assert(waitpid(child, &status, 0) == child);
    cpu_ns = base_process_cpu_ns() - cpu_ns;
    struct srv_grpc_counts counts;
    base_assert(grpc_fixture_wait_idle(&fixture, &counts));
    printf("server %.1f us CPU a call, %llu calls answered\n",
           (double)cpu_ns / 1e3 / (double)counts.finished,
           (unsigned long long)counts.answered[BASE_OK]);
    grpc_fixture_stop(&fixture);
    return status == 0 ? 0 : 1;
}
