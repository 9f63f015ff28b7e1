/* A blocking gRPC client: each call has a completion queue of its own, which its waiters poll. */
#include "tests/grpc_client.h"

#include "base/assert.h"
#include "base/mem.h"
#include "tests/util.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct grpc_client {
    grpc_channel *channel;
};

struct grpc_client_call {
    grpc_completion_queue *queue;
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *request, *response;
    grpc_status_code status;
    grpc_slice details;
};

static grpc_arg int_arg(const char *name, int value)
{
    grpc_arg arg = {.type = GRPC_ARG_INTEGER};
    memcpy(&arg.key, &name, sizeof name);
    arg.value.integer = value;
    return arg;
}

/* Takes over the credentials. */
static struct grpc_client *create(uint16_t port, grpc_compression_algorithm algorithm,
                                  grpc_channel_credentials *credentials)
{
    struct grpc_client *client = calloc(1, sizeof *client);
    base_assert(client != NULL);
    char target[64];
    snprintf(target, sizeof target, "127.0.0.1:%u", port);
    grpc_arg list[] = {
        int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1),
        int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1),
        int_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        int_arg(GRPC_ARG_ENABLE_RETRIES, 0),
        int_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        int_arg(GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM, (int)algorithm),
    };
    grpc_channel_args args = {sizeof list / sizeof list[0], list};
    client->channel = grpc_channel_create(target, credentials, &args);
    grpc_channel_credentials_release(credentials);
    base_assert(client->channel != NULL);
    return client;
}

struct grpc_client *grpc_client_create(uint16_t port)
{
    grpc_init();
    return create(port, GRPC_COMPRESS_NONE, grpc_insecure_credentials_create());
}

struct grpc_client *grpc_client_create_compressing(uint16_t port)
{
    grpc_init();
    return create(port, GRPC_COMPRESS_GZIP, grpc_insecure_credentials_create());
}

struct grpc_client *grpc_client_create_tls(uint16_t port, const struct grpc_client_tls *tls)
{
    char *trust = util_read_file(tls->trust, NULL);
    char *certificate = tls->certificate == NULL ? NULL : util_read_file(tls->certificate, NULL);
    char *key = tls->certificate == NULL ? NULL : util_read_file(tls->key, NULL);
    grpc_ssl_pem_key_cert_pair pair = {key, certificate};
    grpc_init();
    struct grpc_client *client = create(
        port, GRPC_COMPRESS_NONE,
        grpc_ssl_credentials_create_ex(trust, certificate == NULL ? NULL : &pair, NULL, NULL));
    base_free(trust);
    base_free(certificate);
    base_free(key);
    return client;
}

void grpc_client_free(struct grpc_client *client)
{
    grpc_channel_destroy(client->channel);
    free(client);
    grpc_shutdown();
}

static grpc_call *create_call(struct grpc_client *client, const char *path, uint32_t timeout_ms,
                              grpc_completion_queue *queue)
{
    gpr_timespec deadline = timeout_ms == 0
                                ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
                                : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                               gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
    grpc_slice method = grpc_slice_from_copied_string(path);
    grpc_call *call = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                               queue, method, NULL, deadline, NULL);
    grpc_slice_unref(method);
    base_assert(call != NULL);
    return call;
}

struct grpc_client_call *grpc_client_start(struct grpc_client *client, const char *path,
                                           const void *bytes, size_t length, uint32_t timeout_ms)
{
    struct grpc_client_call *call = calloc(1, sizeof *call);
    base_assert(call != NULL);
    call->queue = grpc_completion_queue_create_for_pluck(NULL);
    call->call = create_call(client, path, timeout_ms, call->queue);
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes, length);
    call->request = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    grpc_op ops[6] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},  {.op = GRPC_OP_SEND_MESSAGE},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, {.op = GRPC_OP_RECV_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_MESSAGE},           {.op = GRPC_OP_RECV_STATUS_ON_CLIENT},
    };
    ops[1].data.send_message.send_message = call->request;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[4].data.recv_message.recv_message = &call->response;
    ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[5].data.recv_status_on_client.status = &call->status;
    ops[5].data.recv_status_on_client.status_details = &call->details;
    grpc_call_error error = grpc_call_start_batch(call->call, ops, 6, call, NULL);
    base_assert(error == GRPC_CALL_OK);
    return call;
}

void grpc_client_cancel(struct grpc_client_call *call)
{
    grpc_call_cancel(call->call, NULL);
}

static void take_response(grpc_byte_buffer *response, struct grpc_client_reply *reply)
{
    grpc_byte_buffer_reader reader;
    int readable = grpc_byte_buffer_reader_init(&reader, response);
    base_assert(readable != 0);
    grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
    reply->length = GRPC_SLICE_LENGTH(slice);
    reply->bytes = malloc(reply->length + 1);
    base_assert(reply->bytes != NULL);
    memcpy(reply->bytes, GRPC_SLICE_START_PTR(slice), reply->length);
    grpc_slice_unref(slice);
    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(response);
}

static void take_status(grpc_status_code status, grpc_slice details,
                        struct grpc_client_reply *reply)
{
    *reply = (struct grpc_client_reply){.status = (int)status};
    size_t length = GRPC_SLICE_LENGTH(details);
    length = length < sizeof reply->message ? length : sizeof reply->message - 1;
    if (length > 0) {
        memcpy(reply->message, GRPC_SLICE_START_PTR(details), length);
    }
}

void grpc_client_wait(struct grpc_client_call *call, struct grpc_client_reply *reply)
{
    grpc_event event =
        grpc_completion_queue_pluck(call->queue, call, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    base_assert(event.type == GRPC_OP_COMPLETE);
    take_status(call->status, call->details, reply);
    if (call->response != NULL) {
        take_response(call->response, reply);
    }
    grpc_slice_unref(call->details);
    grpc_byte_buffer_destroy(call->request);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_call_unref(call->call);
    grpc_completion_queue_shutdown(call->queue);
    grpc_completion_queue_destroy(call->queue);
    free(call);
}

int grpc_client_unary(struct grpc_client *client, const char *path, const void *bytes,
                      size_t length, struct grpc_client_reply *reply)
{
    grpc_client_wait(grpc_client_start(client, path, bytes, length, 0), reply);
    return reply->status;
}

/* ---- Streams ---- */

/* The tags of batches are the addresses of what they concern. */
struct grpc_client_stream {
    grpc_completion_queue *queue;
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *response;
    grpc_status_code status;
    grpc_slice details;
};

static void start_batch(struct grpc_client_stream *stream, const grpc_op *ops, size_t count,
                        void *tag)
{
    grpc_call_error error = grpc_call_start_batch(stream->call, ops, count, tag, NULL);
    base_assert(error == GRPC_CALL_OK);
}

static bool wait_for(struct grpc_client_stream *stream, void *tag)
{
    grpc_event event =
        grpc_completion_queue_pluck(stream->queue, tag, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    base_assert(event.type == GRPC_OP_COMPLETE);
    return event.success != 0;
}

struct grpc_client_stream *grpc_client_stream_open(struct grpc_client *client, const char *path,
                                                   uint32_t timeout_ms, const char *key,
                                                   const char *value)
{
    struct grpc_client_stream *stream = calloc(1, sizeof *stream);
    base_assert(stream != NULL);
    stream->queue = grpc_completion_queue_create_for_pluck(NULL);
    stream->call = create_call(client, path, timeout_ms, stream->queue);
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    grpc_metadata metadata;
    memset(&metadata, 0, sizeof metadata);
    if (key != NULL) {
        metadata.key = grpc_slice_from_copied_string(key);
        metadata.value = grpc_slice_from_copied_string(value);
    }
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_RECV_INITIAL_METADATA},
                      {.op = GRPC_OP_RECV_STATUS_ON_CLIENT}};
    ops[0].data.send_initial_metadata.metadata = &metadata;
    ops[0].data.send_initial_metadata.count = key == NULL ? 0 : 1;
    ops[1].data.recv_initial_metadata.recv_initial_metadata = &stream->initial;
    ops[2].data.recv_status_on_client.trailing_metadata = &stream->trailing;
    ops[2].data.recv_status_on_client.status = &stream->status;
    ops[2].data.recv_status_on_client.status_details = &stream->details;
    start_batch(stream, &ops[1], 1, &stream->initial);
    start_batch(stream, &ops[2], 1, &stream->status);
    start_batch(stream, &ops[0], 1, &metadata);
    wait_for(stream, &metadata);
    if (key != NULL) {
        grpc_slice_unref(metadata.key);
        grpc_slice_unref(metadata.value);
    }
    return stream;
}

bool grpc_client_stream_send(struct grpc_client_stream *stream, const void *bytes, size_t length)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes, length);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    op.data.send_message.send_message = message;
    start_batch(stream, &op, 1, message);
    bool sent = wait_for(stream, message);
    grpc_byte_buffer_destroy(message);
    return sent;
}

void grpc_client_stream_half_close(struct grpc_client_stream *stream)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    start_batch(stream, &op, 1, &op);
    wait_for(stream, &op);
}

void grpc_client_stream_cancel(struct grpc_client_stream *stream)
{
    grpc_call_cancel(stream->call, NULL);
}

bool grpc_client_stream_receive(struct grpc_client_stream *stream, struct grpc_client_reply *reply)
{
    *reply = (struct grpc_client_reply){.status = 0};
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &stream->response;
    start_batch(stream, &op, 1, &stream->response);
    if (!wait_for(stream, &stream->response) || stream->response == NULL) {
        return false;
    }
    take_response(stream->response, reply);
    stream->response = NULL;
    return true;
}

int grpc_client_stream_finish(struct grpc_client_stream *stream, struct grpc_client_reply *reply)
{
    struct grpc_client_reply dropped;
    while (grpc_client_stream_receive(stream, &dropped)) {
        grpc_client_reply_release(&dropped);
    }
    wait_for(stream, &stream->status);
    wait_for(stream, &stream->initial);
    take_status(stream->status, stream->details, reply);
    grpc_slice_unref(stream->details);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_metadata_array_destroy(&stream->trailing);
    grpc_call_unref(stream->call);
    grpc_completion_queue_shutdown(stream->queue);
    grpc_completion_queue_destroy(stream->queue);
    free(stream);
    return reply->status;
}

void grpc_client_reply_release(struct grpc_client_reply *reply)
{
    free(reply->bytes);
    reply->bytes = NULL;
}
