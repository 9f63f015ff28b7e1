#include "loadgen/envelope.h"

#include "base/assert.h"
#include "loadgen/borrow.h"

#include <proto/inference.pb-c.h>

#include <string.h>

/* ModelInferRequest.raw_input_contents: field 7, length-delimited. */
#define RAW_INPUT_TAG ((uint8_t)(7u << 3 | 2u))

#define VARINT_MAX 10u

/* Keeps the sum over all tensors exact; the limit that counts is LG_MESSAGE_MAX. */
#define TENSOR_MAX (UINT64_C(1) << 56)

typedef Inference__ModelInferRequest__InferInputTensor input_message;

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t length = 0;
    while (value >= 0x80) {
        out[length++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[length++] = (uint8_t)value;
    return length;
}

/* Packs message (may be NULL) with the tag and size of data_bytes behind it. */
static bool make_head(const ProtobufCMessage *message, struct base_arena *arena,
                      struct lg_envelope_part *part)
{
    size_t packed = message == NULL ? 0 : protobuf_c_message_get_packed_size(message);
    uint8_t *head = base_arena_alloc(arena, packed + 1 + VARINT_MAX);
    if (head == NULL) {
        return false;
    }
    if (message != NULL) {
        protobuf_c_message_pack(message, head);
    }
    head[packed] = RAW_INPUT_TAG;
    part->head = head;
    part->head_bytes = packed + 1 + put_varint(head + packed + 1, part->data_bytes);
    return true;
}

static enum base_status size_parts(const struct lg_model *model, uint32_t batch, uint32_t length,
                                   int64_t (*dims)[LG_RANK_MAX], struct lg_envelope *envelope,
                                   struct base_error *error)
{
    for (uint32_t i = 0; i < model->input_count; i++) {
        uint64_t bytes = lg_tensor_dims(&model->inputs[i], batch, length, dims[i]);
        if (bytes == 0 || bytes > TENSOR_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input %s: no valid size with batch %u and length %u",
                             model->inputs[i].name, batch, length);
        }
        envelope->parts[i].data_bytes = bytes;
    }
    return BASE_OK;
}

enum base_status lg_envelope_make(const struct lg_model *model, uint32_t batch, uint32_t length,
                                  struct base_arena *arena, struct lg_envelope **out,
                                  struct base_error *error)
{
    base_assert(model->input_count > 0 && model->input_count <= LG_TENSORS_MAX);
    struct lg_envelope *envelope = base_arena_alloc(
        arena, sizeof(*envelope) + model->input_count * sizeof(envelope->parts[0]));
    if (envelope == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the messages");
    }
    int64_t dims[LG_TENSORS_MAX][LG_RANK_MAX];
    BASE_TRY(size_parts(model, batch, length, dims, envelope, error));

    Inference__ModelInferRequest request;
    inference__model_infer_request__init(&request);
    input_message inputs[LG_TENSORS_MAX];
    input_message *input_list[LG_TENSORS_MAX];
    request.model_name = lg_borrow(model->name);
    request.model_version = lg_borrow(model->version);
    request.inputs = input_list;
    request.n_inputs = model->input_count;
    for (uint32_t i = 0; i < model->input_count; i++) {
        inference__model_infer_request__infer_input_tensor__init(&inputs[i]);
        inputs[i].name = lg_borrow(model->inputs[i].name);
        inputs[i].datatype = lg_borrow(model->inputs[i].datatype->name);
        inputs[i].shape = dims[i];
        inputs[i].n_shape = model->inputs[i].rank;
        input_list[i] = &inputs[i];
    }
    for (uint32_t i = 0; i < model->input_count; i++) {
        struct lg_envelope_part *part = &envelope->parts[i];
        if (!make_head(i == 0 ? &request.base : NULL, arena, part)) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the messages");
        }
        envelope->message_bytes += part->head_bytes + part->data_bytes;
    }
    *out = envelope;
    return BASE_OK;
}
