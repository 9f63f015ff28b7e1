/* The calls of model.h: readiness and metadata, through protobuf-c. */
#include "loadgen/model.h"

#include "base/clock.h"
#include "loadgen/borrow.h"

#include <proto/inference.pb-c.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define CALL_TIMEOUT_NS (5 * BASE_NS_PER_S)
#define POLL_NS         (50 * BASE_NS_PER_MS)

/* Packs message, calls, and leaves the answer's bytes in *reply (initialised here; release it). */
static enum base_status call(struct lg_client *client, const char *method,
                             const ProtobufCMessage *message, uint64_t timeout_ns,
                             struct base_buf *reply, struct base_error *error)
{
    base_buf_init(reply, LG_REPLY_MAX);
    struct base_buf request;
    base_buf_init(&request, 1u << 20);
    size_t length = protobuf_c_message_get_packed_size(message);
    enum base_status status = BASE_OK;
    uint8_t *bytes = length == 0 ? NULL : base_buf_grow(&request, length);
    if (length > 0 && bytes == NULL) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: request too large", method);
    } else {
        if (length > 0) {
            protobuf_c_message_pack(message, bytes);
        }
        status = lg_client_call(client, method, &request, timeout_ns, reply, error);
    }
    base_buf_release(&request);
    return status;
}

static const uint8_t *bytes_of(const struct base_buf *buf)
{
    static const uint8_t nothing;
    return buf->length == 0 ? &nothing : (const uint8_t *)buf->data;
}

static enum base_status undecodable(const char *method, struct base_error *error)
{
    return base_fail(error, BASE_INTERNAL, "%s: the answer cannot be decoded", method);
}

/* ---- Readiness ------------------------------------------------------------------------------- */

static enum base_status ask_server_ready(struct lg_client *client, struct base_error *error)
{
    Inference__ServerReadyRequest request;
    inference__server_ready_request__init(&request);
    struct base_buf reply;
    enum base_status status =
        call(client, "ServerReady", &request.base, CALL_TIMEOUT_NS, &reply, error);
    if (status == BASE_OK) {
        Inference__ServerReadyResponse *answer =
            inference__server_ready_response__unpack(NULL, reply.length, bytes_of(&reply));
        if (answer == NULL) {
            status = undecodable("ServerReady", error);
        } else if (!answer->ready) {
            status =
                base_fail(error, BASE_UNAVAILABLE, "%s is not ready", lg_client_target(client));
        }
        inference__server_ready_response__free_unpacked(answer, NULL);
    }
    base_buf_release(&reply);
    return status;
}

static enum base_status ask_model_ready(struct lg_client *client, const struct lg_model_wish *wish,
                                        struct base_error *error)
{
    Inference__ModelReadyRequest request;
    inference__model_ready_request__init(&request);
    request.name = lg_borrow(wish->name);
    request.version = lg_borrow(wish->version);
    struct base_buf reply;
    enum base_status status =
        call(client, "ModelReady", &request.base, CALL_TIMEOUT_NS, &reply, error);
    if (status == BASE_OK) {
        Inference__ModelReadyResponse *answer =
            inference__model_ready_response__unpack(NULL, reply.length, bytes_of(&reply));
        if (answer == NULL) {
            status = undecodable("ModelReady", error);
        } else if (!answer->ready) {
            status = base_fail(error, BASE_UNAVAILABLE, "model %s is not ready", wish->name);
        }
        inference__model_ready_response__free_unpacked(answer, NULL);
    }
    base_buf_release(&reply);
    return status;
}

enum base_status lg_model_wait_ready(struct lg_client *client, const struct lg_model_wish *wish,
                                     uint64_t timeout_ns, const _Atomic bool *stop,
                                     struct base_error *error)
{
    uint64_t end_ns = base_deadline_after(base_now_ns(), timeout_ns);
    for (;;) {
        enum base_status status = ask_server_ready(client, error);
        if (status == BASE_OK) {
            status = ask_model_ready(client, wish, error);
        }
        if (status == BASE_OK || base_now_ns() >= end_ns) {
            return status;
        }
        if (atomic_load_explicit(stop, memory_order_relaxed)) {
            return base_fail(error, BASE_CANCELLED, "interrupted");
        }
        struct timespec pause = {.tv_nsec = (long)POLL_NS};
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static enum base_status take_metadata(const Inference__ModelMetadataResponse *answer,
                                      const struct lg_model_wish *wish, struct lg_model *out,
                                      struct base_error *error)
{
    struct lg_metadata_input inputs[LG_TENSORS_MAX];
    if (answer->n_inputs > LG_TENSORS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "model %s has %zu inputs: want 1 to %u",
                         wish->name, answer->n_inputs, LG_TENSORS_MAX);
    }
    for (size_t i = 0; i < answer->n_inputs; i++) {
        const Inference__ModelMetadataResponse__TensorMetadata *tensor = answer->inputs[i];
        inputs[i] = (struct lg_metadata_input){.name = tensor->name,
                                               .datatype = tensor->datatype,
                                               .shape = tensor->shape,
                                               .rank = tensor->n_shape};
    }
    return lg_model_init(wish, inputs, answer->n_inputs, out, error);
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static void take_ranges(const Inference__ModelConfig *config, struct lg_model *model)
{
    static const char prefix[] = "range.";
    for (size_t p = 0; config != NULL && p < config->n_parameters; p++) {
        const Inference__ModelConfig__ParametersEntry *entry = config->parameters[p];
        if (strncmp(entry->key, prefix, sizeof(prefix) - 1) != 0 || entry->value == NULL) {
            continue;
        }
        for (uint32_t i = 0; i < model->input_count; i++) {
            if (strcmp(model->inputs[i].name, entry->key + sizeof(prefix) - 1) == 0) {
                (void)lg_tensor_take_range(&model->inputs[i], entry->value->string_value);
            }
        }
    }
}

/* A server that has no configuration of the model, or cannot say, is asked with what is usual. */
static void fetch_ranges(struct lg_client *client, const struct lg_model_wish *wish,
                         struct lg_model *model)
{
    Inference__ModelConfigRequest request;
    inference__model_config_request__init(&request);
    request.name = lg_borrow(wish->name);
    request.version = lg_borrow(wish->version);
    struct base_buf reply;
    struct base_error ignored;
    if (call(client, "ModelConfig", &request.base, CALL_TIMEOUT_NS, &reply, &ignored) == BASE_OK) {
        Inference__ModelConfigResponse *answer =
            inference__model_config_response__unpack(NULL, reply.length, bytes_of(&reply));
        if (answer != NULL) {
            take_ranges(answer->config, model);
        }
        inference__model_config_response__free_unpacked(answer, NULL);
    }
    base_buf_release(&reply);
}

enum base_status lg_model_fetch(struct lg_client *client, const struct lg_model_wish *wish,
                                struct lg_model *out, struct base_error *error)
{
    Inference__ModelMetadataRequest request;
    inference__model_metadata_request__init(&request);
    request.name = lg_borrow(wish->name);
    request.version = lg_borrow(wish->version);
    struct base_buf reply;
    enum base_status status =
        call(client, "ModelMetadata", &request.base, CALL_TIMEOUT_NS, &reply, error);
    if (status == BASE_OK) {
        Inference__ModelMetadataResponse *answer =
            inference__model_metadata_response__unpack(NULL, reply.length, bytes_of(&reply));
        status = answer == NULL ? undecodable("ModelMetadata", error)
                                : take_metadata(answer, wish, out, error);
        inference__model_metadata_response__free_unpacked(answer, NULL);
    }
    base_buf_release(&reply);
    if (status == BASE_OK) {
        fetch_ranges(client, wish, out);
    }
    return status;
}
