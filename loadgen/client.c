#include "loadgen/client.h"

#include "base/assert.h"
#include "base/mem.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SERVICE "/inference.GRPCInferenceService/"

static const char *const code_names[LG_CODE_COUNT] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    "OTHER",
};

const char *lg_code_name(uint32_t code)
{
    return code_names[code < LG_CODE_COUNT ? code : LG_CODE_COUNT - 1];
}

static enum base_status status_of(grpc_status_code code)
{
    switch ((uint32_t)code) {
    case GRPC_STATUS_OK:
        return BASE_OK;
    case GRPC_STATUS_CANCELLED:
        return BASE_CANCELLED;
    case GRPC_STATUS_INVALID_ARGUMENT:
        return BASE_INVALID_ARGUMENT;
    case GRPC_STATUS_DEADLINE_EXCEEDED:
        return BASE_DEADLINE_EXCEEDED;
    case GRPC_STATUS_NOT_FOUND:
        return BASE_NOT_FOUND;
    case GRPC_STATUS_RESOURCE_EXHAUSTED:
        return BASE_RESOURCE_EXHAUSTED;
    case GRPC_STATUS_FAILED_PRECONDITION:
        return BASE_FAILED_PRECONDITION;
    case GRPC_STATUS_UNIMPLEMENTED:
        return BASE_UNIMPLEMENTED;
    case GRPC_STATUS_UNAVAILABLE:
        return BASE_UNAVAILABLE;
    default:
        return BASE_INTERNAL;
    }
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

static grpc_arg option(const char *key, int value)
{
    // gRPC's struct wants char *, and does not write to it.
    union {
        const char *in;
        char *out;
    } name = {.in = key};
    grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = name.out, .value = {.integer = value}};
    return arg;
}

static grpc_channel *open_channel(const char *target)
{
    grpc_arg args[] = {
        option(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1), // else all channels share one connection
        option(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        option(GRPC_ARG_ENABLE_RETRIES, 0),
        option(GRPC_ARG_ENABLE_CHANNELZ, 0),
        option(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        option(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, INT_MAX),
        option(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
        option(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000), // in truth: how long an attempt may last
        option(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000),
    };
    grpc_channel_args list = {.num_args = sizeof(args) / sizeof(args[0]), .args = args};
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, plain, &list);
    grpc_channel_credentials_release(plain);
    return channel;
}

enum base_status lg_client_create(const char *target, uint32_t connections, struct lg_client **out,
                                  struct base_error *error)
{
    base_assert(connections > 0 && connections <= LG_CONNECTIONS_MAX);
    struct lg_client *client = base_alloc(sizeof(*client));
    if (client == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the client");
    }
    grpc_init();
    client->target = target;
    for (uint32_t i = 0; i < connections; i++) {
        struct lg_channel *channel = &client->channels[i];
        channel->channel = open_channel(target);
        channel->infer =
            grpc_channel_register_call(channel->channel, SERVICE "ModelInfer", NULL, NULL);
        client->count++;
    }
    *out = client;
    return BASE_OK;
}

void lg_client_free(struct lg_client *client)
{
    if (client == NULL) {
        return;
    }
    for (uint32_t i = 0; i < client->count; i++) {
        grpc_channel_destroy(client->channels[i].channel);
    }
    grpc_shutdown();
    base_free(client);
}

/* ---- One call that waits --------------------------------------------------------------------- */

struct waiting_call {
    grpc_call *call;
    grpc_byte_buffer *request, *reply;
    grpc_metadata_array initial, trailing;
    grpc_status_code code;
    grpc_slice details;
};

static void exchange(struct waiting_call *w, grpc_completion_queue *queue)
{
    grpc_op ops[6];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = w->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &w->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &w->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &w->trailing;
    ops[5].data.recv_status_on_client.status = &w->code;
    ops[5].data.recv_status_on_client.status_details = &w->details;
    grpc_call_error started = grpc_call_start_batch(w->call, ops, 6, w, NULL);
    base_assert(started == GRPC_CALL_OK);
    // The call's own deadline ends the wait.
    grpc_event event =
        grpc_completion_queue_pluck(queue, w, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    base_assert(event.type == GRPC_OP_COMPLETE);
}

static void append_message(grpc_byte_buffer *message, struct base_buf *out)
{
    grpc_byte_buffer_reader reader;
    if (grpc_byte_buffer_reader_init(&reader, message) == 0) {
        return;
    }
    grpc_slice slice;
    while (grpc_byte_buffer_reader_next(&reader, &slice) != 0) {
        base_buf_add(out, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
        grpc_slice_unref(slice);
    }
    grpc_byte_buffer_reader_destroy(&reader);
}

static enum base_status judge(const struct lg_client *client, const char *method,
                              const struct waiting_call *w, const struct base_buf *reply,
                              struct base_error *error)
{
    if (w->code != GRPC_STATUS_OK) {
        size_t length = GRPC_SLICE_LENGTH(w->details);
        return base_fail(error, status_of(w->code), "%s %s: %s: %.*s", client->target, method,
                         lg_code_name(lg_code_slot((int)w->code)), length > 256 ? 256 : (int)length,
                         (const char *)GRPC_SLICE_START_PTR(w->details));
    }
    if (w->reply == NULL || reply->failed) {
        return base_fail(error, BASE_INTERNAL, "%s %s: no message in the answer", client->target,
                         method);
    }
    return BASE_OK;
}

static void release(struct waiting_call *w)
{
    grpc_call_unref(w->call);
    grpc_slice_unref(w->details);
    grpc_byte_buffer_destroy(w->request);
    if (w->reply != NULL) {
        grpc_byte_buffer_destroy(w->reply);
    }
    grpc_metadata_array_destroy(&w->initial);
    grpc_metadata_array_destroy(&w->trailing);
}

enum base_status lg_client_call(struct lg_client *client, const char *method,
                                const struct base_buf *request, uint64_t timeout_ns,
                                struct base_buf *reply, struct base_error *error)
{
    char path[128];
    int length = snprintf(path, sizeof(path), "%s%s", SERVICE, method);
    base_assert(length > 0 && (size_t)length < sizeof(path));

    struct waiting_call w = {.details = grpc_empty_slice()};
    grpc_metadata_array_init(&w.initial);
    grpc_metadata_array_init(&w.trailing);
    grpc_slice bytes = grpc_slice_from_copied_buffer(request->data, request->length);
    w.request = grpc_raw_byte_buffer_create(&bytes, 1);
    grpc_slice_unref(bytes);
    grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_slice name = grpc_slice_from_copied_string(path);
    uint64_t deadline_ns = base_deadline_after(base_now_ns(), timeout_ns);
    w.call = grpc_channel_create_call(client->channels[0].channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                      queue, name, NULL, lg_timespec(deadline_ns), NULL);
    grpc_slice_unref(name);

    exchange(&w, queue);
    if (w.code == GRPC_STATUS_OK && w.reply != NULL) {
        append_message(w.reply, reply);
    }
    enum base_status status = judge(client, method, &w, reply, error);
    release(&w);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_destroy(queue);
    return status;
}
