/* See grpc_draft.h. */
#include "tests/server/grpc_draft.h"

#include "base/mem.h"
#include "tests/util.h"

#include <string.h>

char draft_text_model[] = "m";
char draft_text_id[] = "r1";
char draft_text_tokens[] = "tokens";
char draft_text_more[] = "more";
char draft_text_int64[] = "INT64";
char draft_text_int32[] = "INT32";
char draft_text_fp32[] = "FP32";

void draft_init(struct draft *draft)
{
    memset(draft, 0, sizeof *draft);
    inference__model_infer_request__init(&draft->message);
    for (size_t i = 0; i < DRAFT_MEMBERS; i++) {
        inference__model_infer_request__infer_input_tensor__init(&draft->inputs[i]);
        inference__infer_tensor_contents__init(&draft->contents[i]);
        inference__model_infer_request__infer_requested_output_tensor__init(&draft->outputs[i]);
        inference__model_infer_request__parameters_entry__init(&draft->parameters[i]);
        inference__infer_parameter__init(&draft->values[i]);
        draft->input_list[i] = &draft->inputs[i];
        draft->output_list[i] = &draft->outputs[i];
        draft->parameter_list[i] = &draft->parameters[i];
        draft->parameters[i].value = &draft->values[i];
        draft->inputs[i].name = draft_text_tokens;
        draft->inputs[i].datatype = draft_text_int64;
        draft->inputs[i].shape = draft->shape;
        draft->inputs[i].n_shape = 2;
    }
    draft->shape[0] = 1;
    draft->shape[1] = 3;
    for (int64_t i = 0; i < 3; i++) {
        draft->tokens[i] = i * 1000 - 1000;
    }
    draft->message.model_name = draft_text_model;
    draft->message.id = draft_text_id;
    draft->message.inputs = draft->input_list;
    draft->message.n_inputs = 1;
    draft->message.outputs = draft->output_list;
    draft->message.parameters = draft->parameter_list;
    draft->message.raw_input_contents = draft->raw;
    draft->message.n_raw_input_contents = 1;
    draft->raw[0] = (ProtobufCBinaryData){sizeof draft->tokens, (uint8_t *)draft->tokens};
}

void decode_bytes(const void *bytes, size_t length, struct decoded *out)
{
    memset(out, 0, sizeof *out);
    base_arena_init(&out->request.arena, 1024, 1 << 20);
    out->bytes = malloc(length == 0 ? 1 : length);
    out->length = length;
    ck_assert_ptr_nonnull(out->bytes);
    memcpy(out->bytes, bytes, length);
    out->status = srv_grpc_decode_infer((struct srv_grpc_bytes){out->bytes, length}, &out->request,
                                        &out->error);
    ck_assert_int_eq(out->status, out->status == BASE_OK ? BASE_OK : out->error.status);
}

void draft_decode(const struct draft *draft, struct decoded *out)
{
    size_t length = inference__model_infer_request__get_packed_size(&draft->message);
    uint8_t *bytes = malloc(length + 1);
    ck_assert_ptr_nonnull(bytes);
    inference__model_infer_request__pack(&draft->message, bytes);
    decode_bytes(bytes, length, out);
    free(bytes);
}

void decoded_release(struct decoded *decoded)
{
    base_arena_release(&decoded->request.arena);
    free(decoded->bytes);
}

void draft_refused(const struct draft *draft, const char *words)
{
    struct decoded decoded;
    draft_decode(draft, &decoded);
    ck_assert_int_eq(decoded.status, BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(decoded.error.message, words) != NULL, "'%s' lacks '%s'",
                  decoded.error.message, words);
    ck_assert_msg(strstr(decoded.error.message, "[request id: r1] ") == decoded.error.message,
                  "'%s' does not name the request", decoded.error.message);
    decoded_release(&decoded);
}

void draft_set_int(struct draft *draft, size_t index, char *key, int64_t value)
{
    draft->parameters[index].key = key;
    draft->values[index].parameter_choice_case =
        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM;
    draft->values[index].int64_param = value;
}

void draft_set_text(struct draft *draft, size_t index, char *key, char *value)
{
    draft->parameters[index].key = key;
    draft->values[index].parameter_choice_case =
        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
    draft->values[index].string_param = value;
}
