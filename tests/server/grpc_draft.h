/* A ModelInfer request under construction, as protobuf-c packs it, and what the codec makes of it.
 */
#ifndef TESTS_SERVER_GRPC_DRAFT_H
#define TESTS_SERVER_GRPC_DRAFT_H

#include "proto/inference.pb-c.h"
#include "server/core.h"
#include "server/grpc/codec.h"

typedef Inference__ModelInferRequest__InferInputTensor draft_input;
typedef Inference__ModelInferRequest__InferRequestedOutputTensor draft_output;
typedef Inference__ModelInferRequest__ParametersEntry draft_parameter;

enum { DRAFT_MEMBERS = 4 };

/* A request under construction: model "m", id "r1", one INT64 input "tokens" of shape [1, 3]. */
struct draft {
    Inference__ModelInferRequest message;
    draft_input inputs[DRAFT_MEMBERS];
    draft_input *input_list[DRAFT_MEMBERS];
    Inference__InferTensorContents contents[DRAFT_MEMBERS];
    draft_output outputs[DRAFT_MEMBERS];
    draft_output *output_list[DRAFT_MEMBERS];
    draft_parameter parameters[DRAFT_MEMBERS];
    draft_parameter *parameter_list[DRAFT_MEMBERS];
    Inference__InferParameter values[DRAFT_MEMBERS];
    ProtobufCBinaryData raw[DRAFT_MEMBERS];
    int64_t shape[DRAFT_MEMBERS];
    int64_t tokens[3];
};

/* What protobuf-c's fields, which are not const, may point to. */
extern char draft_text_model[sizeof("m")];
extern char draft_text_id[sizeof("r1")];
extern char draft_text_tokens[sizeof("tokens")];
extern char draft_text_more[sizeof("more")];
extern char draft_text_int64[sizeof("INT64")];
extern char draft_text_int32[sizeof("INT32")];
extern char draft_text_fp32[sizeof("FP32")];

void draft_init(struct draft *draft);

/* A request decoded from a heap copy of exactly its bytes. */
struct decoded {
    struct srv_request request;
    struct base_error error;
    enum base_status status;
    uint8_t *bytes;
    size_t length;
};

void decode_bytes(const void *bytes, size_t length, struct decoded *out);
void draft_decode(const struct draft *draft, struct decoded *out);
void decoded_release(struct decoded *decoded);

/* Sets parameter number `index`; key and text stay the caller's. */
void draft_set_int(struct draft *draft, size_t index, char *key, int64_t value);
void draft_set_text(struct draft *draft, size_t index, char *key, char *value);

/* Decodes and expects INVALID_ARGUMENT with these words, and the id where there is one. */
void draft_refused(const struct draft *draft, const char *words);

#endif
