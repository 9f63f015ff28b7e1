/* ModelInferResponse, written by hand: names and shapes, then each output's bytes copied once from
 * the request's arena into the message. protobuf-c would build a tree of the same and copy it. */
#include "server/grpc/codec.h"

#include "base/assert.h"
#include "server/core.h"

#include <string.h>

/* Field numbers of ModelInferResponse and of its InferOutputTensor. */
enum {
    RESPONSE_MODEL_NAME = 1,
    RESPONSE_MODEL_VERSION = 2,
    RESPONSE_ID = 3,
    RESPONSE_OUTPUTS = 5,
    RESPONSE_RAW_OUTPUTS = 6,
    OUTPUT_NAME = 1,
    OUTPUT_DATATYPE = 2,
    OUTPUT_SHAPE = 3,
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
    size_t bytes = text_bytes(request->model->name) + text_bytes(request->model->version) +
                   text_bytes(request->id);
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        bytes += srv_grpc_field_bytes(tensor_bytes(&request->outputs[i]));
        bytes += srv_grpc_field_bytes(request->outputs[i].bytes);
    }
    return bytes;
}

void srv_grpc_encode_infer(const struct srv_request *request, uint8_t *out, size_t bytes)
{
    uint8_t *at = put_text(out, RESPONSE_MODEL_NAME, request->model->name);
    at = put_text(at, RESPONSE_MODEL_VERSION, request->model->version);
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
