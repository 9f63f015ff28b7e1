/* ModelInferResponse, and what a stream puts around it, written by hand: names and shapes, then
 * each output's bytes copied once from the request's arena into the message. protobuf-c would build
 * a tree of the same and copy it. */
#include "server/grpc/codec.h"

#include "base/assert.h"
#include "server/core.h"

#include <string.h>

/* Field numbers of ModelInferResponse and of its InferOutputTensor, of a map's entry, of
 * InferParameter, and of ModelStreamInferResponse. */
enum {
    RESPONSE_MODEL_NAME = 1,
    RESPONSE_MODEL_VERSION = 2,
    RESPONSE_ID = 3,
    RESPONSE_PARAMETERS = 4,
    RESPONSE_OUTPUTS = 5,
    RESPONSE_RAW_OUTPUTS = 6,
    OUTPUT_NAME = 1,
    OUTPUT_DATATYPE = 2,
    OUTPUT_SHAPE = 3,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    PARAMETER_BOOL = 1,
    STREAM_ERROR = 1,
    STREAM_RESPONSE = 2,
};

static size_t text_bytes(const char *text)
{
    return text[0] == 0 ? 0 : srv_grpc_field_bytes(strlen(text));
}

static uint8_t *put_text(uint8_t *at, uint32_t number, const char *text)
{
    return text[0] == 0 ? at : srv_grpc_put_bytes(at, number, text, strlen(text));
}

static size_t shape_bytes(const struct srv_tensor *tensor)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        bytes += srv_grpc_varint_bytes((uint64_t)tensor->shape[i]);
    }
    return bytes;
}

static size_t tensor_bytes(const struct srv_tensor *tensor)
{
    size_t shape = shape_bytes(tensor);
    return text_bytes(tensor->name) + text_bytes(tensor->datatype) +
           (shape > 0 ? srv_grpc_field_bytes(shape) : 0);
}

static uint8_t *put_tensor(uint8_t *at, const struct srv_tensor *tensor)
{
    at = srv_grpc_put_tag(at, RESPONSE_OUTPUTS, SRV_GRPC_BYTES);
    at = srv_grpc_put_varint(at, tensor_bytes(tensor));
    at = put_text(at, OUTPUT_NAME, tensor->name);
    at = put_text(at, OUTPUT_DATATYPE, tensor->datatype);
    if (tensor->rank > 0) {
        at = srv_grpc_put_tag(at, OUTPUT_SHAPE, SRV_GRPC_BYTES);
        at = srv_grpc_put_varint(at, shape_bytes(tensor));
        for (uint32_t i = 0; i < tensor->rank; i++) {
            at = srv_grpc_put_varint(at, (uint64_t)tensor->shape[i]);
        }
    }
    return at;
}

size_t srv_grpc_infer_bytes(const struct srv_request *request)
{
    base_assert(request->error.status == BASE_OK);
    size_t bytes =
        text_bytes(request->model_name) + text_bytes(request->version) + text_bytes(request->id);
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        bytes += srv_grpc_field_bytes(tensor_bytes(&request->outputs[i]));
        bytes += srv_grpc_field_bytes(request->outputs[i].bytes);
    }
    return bytes;
}

void srv_grpc_encode_infer(const struct srv_request *request, uint8_t *out, size_t bytes)
{
    uint8_t *at = put_text(out, RESPONSE_MODEL_NAME, request->model_name);
    at = put_text(at, RESPONSE_MODEL_VERSION, request->version);
    at = put_text(at, RESPONSE_ID, request->id);
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        at = put_tensor(at, &request->outputs[i]);
    }
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        at = srv_grpc_put_bytes(at, RESPONSE_RAW_OUTPUTS, request->outputs[i].data,
                                request->outputs[i].bytes);
    }
    base_assert(at == out + bytes);
}

/* ---- Streams ---- */

#define FINAL "triton_final_response"

/* {"triton_final_response": whether it is}, as an entry of the response's parameters. */
static size_t final_bytes(void)
{
    return srv_grpc_field_bytes(sizeof FINAL - 1) + srv_grpc_field_bytes(2);
}

static uint8_t *put_final(uint8_t *at, bool is_final)
{
    at = srv_grpc_put_tag(at, RESPONSE_PARAMETERS, SRV_GRPC_BYTES);
    at = srv_grpc_put_varint(at, final_bytes());
    at = srv_grpc_put_bytes(at, ENTRY_KEY, FINAL, sizeof FINAL - 1);
    at = srv_grpc_put_tag(at, ENTRY_VALUE, SRV_GRPC_BYTES);
    at = srv_grpc_put_varint(at, 2);
    at = srv_grpc_put_tag(at, PARAMETER_BOOL, SRV_GRPC_VARINT);
    return srv_grpc_put_varint(at, is_final ? 1 : 0);
}

/* The ModelInferResponse without its parameters. */
static size_t inner_bytes(const struct srv_request *request)
{
    return request->error.status == BASE_OK
               ? srv_grpc_infer_bytes(request)
               : text_bytes(request->model_name) + text_bytes(request->model_version) +
                     text_bytes(request->id);
}

/* A message may quote a name and cut it within a letter. What is no text a client's parser would
 * refuse, and with it the stream. */
static uint8_t *put_error(uint8_t *at, const char *text)
{
    uint8_t *end = put_text(at, STREAM_ERROR, text);
    if (!srv_grpc_wire_is_text((struct srv_grpc_bytes){(const uint8_t *)text, strlen(text)})) {
        for (uint8_t *byte = end - strlen(text); byte < end; byte++) {
            *byte = *byte < 0x80 ? *byte : '?';
        }
    }
    return end;
}

/* An empty text would be none: clients would take the answer for a good one. */
static const char *error_text(const struct srv_request *request)
{
    const struct base_error *error = &request->error;
    return error->message[0] != 0 ? error->message : base_status_text(error->status);
}

size_t srv_grpc_stream_bytes(const struct srv_request *request)
{
    size_t response = inner_bytes(request) + srv_grpc_field_bytes(final_bytes());
    return srv_grpc_field_bytes(response) +
           (request->error.status == BASE_OK ? 0 : text_bytes(error_text(request)));
}

void srv_grpc_encode_stream(const struct srv_request *request, bool is_final, uint8_t *out,
                            size_t bytes)
{
    size_t inner = inner_bytes(request);
    uint8_t *at = out;
    if (request->error.status != BASE_OK) {
        at = put_error(at, error_text(request));
    }
    at = srv_grpc_put_tag(at, STREAM_RESPONSE, SRV_GRPC_BYTES);
    at = srv_grpc_put_varint(at, inner + srv_grpc_field_bytes(final_bytes()));
    if (request->error.status == BASE_OK) {
        srv_grpc_encode_infer(request, at, inner);
        at += inner;
    } else {
        at = put_text(at, RESPONSE_MODEL_NAME, request->model_name);
        at = put_text(at, RESPONSE_MODEL_VERSION, request->model_version);
        at = put_text(at, RESPONSE_ID, request->id);
    }
    at = put_final(at, is_final);
    base_assert(at == out + bytes);
}
