/* Answers as they are written by hand, read by protobuf-c: of a call, and of a stream. */
#include "proto/inference.pb-c.h"
#include "server/core.h"
#include "server/grpc/codec.h"
#include "tests/util.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(test_reply_is_what_protobuf_reads)
{
    static const float scores[] = {0.25f, 0.75f};
    struct srv_tensor outputs[] = {
        {.name = "scores",
         .datatype = "FP32",
         .rank = 2,
         .shape = {1, 2},
         .data = (const uint8_t *)scores,
         .bytes = sizeof scores},
        {.name = "steps", .datatype = "INT64", .rank = 2, .shape = {0, 300}},
    };
    struct srv_request request = {
        .id = "r1", .model_name = "m", .version = "3", .n_outputs = 2, .outputs = outputs};
    size_t length = srv_grpc_infer_bytes(&request);
    uint8_t *bytes = malloc(length);
    ck_assert_ptr_nonnull(bytes);
    srv_grpc_encode_infer(&request, bytes, length);
    Inference__ModelInferResponse *response =
        inference__model_infer_response__unpack(NULL, length, bytes);
    ck_assert_ptr_nonnull(response);
    ck_assert_str_eq(response->model_name, "m");
    ck_assert_str_eq(response->model_version, "3");
    ck_assert_str_eq(response->id, "r1");
    ck_assert_uint_eq(response->n_outputs, 2);
    ck_assert_str_eq(response->outputs[0]->name, "scores");
    ck_assert_str_eq(response->outputs[0]->datatype, "FP32");
    ck_assert_uint_eq(response->outputs[0]->n_shape, 2);
    ck_assert_int_eq(response->outputs[0]->shape[1], 2);
    ck_assert_int_eq(response->outputs[1]->shape[1], 300);
    ck_assert_uint_eq(response->n_raw_output_contents, 2);
    ck_assert_uint_eq(response->raw_output_contents[0].len, sizeof scores);
    ck_assert_mem_eq(response->raw_output_contents[0].data, scores, sizeof scores);
    ck_assert_uint_eq(response->raw_output_contents[1].len, 0);
    inference__model_infer_response__free_unpacked(response, NULL);
    free(bytes);
}
END_TEST

static Inference__ModelStreamInferResponse *encode_stream(const struct srv_request *request,
                                                          bool is_final)
{
    size_t length = srv_grpc_stream_bytes(request);
    uint8_t *bytes = malloc(length);
    ck_assert_ptr_nonnull(bytes);
    srv_grpc_encode_stream(request, is_final, bytes, length);
    Inference__ModelStreamInferResponse *answer =
        inference__model_stream_infer_response__unpack(NULL, length, bytes);
    ck_assert_ptr_nonnull(answer);
    ck_assert_ptr_nonnull(answer->infer_response);
    ck_assert_uint_eq(answer->infer_response->n_parameters, 1);
    ck_assert_str_eq(answer->infer_response->parameters[0]->key, "triton_final_response");
    const Inference__InferParameter *value = answer->infer_response->parameters[0]->value;
    ck_assert_int_eq(value->parameter_choice_case,
                     INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM);
    ck_assert_int_eq(value->bool_param, is_final);
    free(bytes);
    return answer;
}

START_TEST(test_reply_of_a_stream_is_what_protobuf_reads)
{
    static const float scores[300] = {0.25f, 0.75f};
    struct srv_tensor output = {.name = "scores",
                                .datatype = "FP32",
                                .rank = 2,
                                .shape = {1, 300},
                                .data = (const uint8_t *)scores,
                                .bytes = sizeof scores};
    struct srv_request request = {.id = "r1",
                                  .model_name = "m",
                                  .model_version = "",
                                  .version = "3",
                                  .n_outputs = 1,
                                  .outputs = &output};
    Inference__ModelStreamInferResponse *answer = encode_stream(&request, _i == 0);
    const Inference__ModelInferResponse *response = answer->infer_response;
    ck_assert_str_eq(answer->error_message, "");
    ck_assert_str_eq(response->model_name, "m");
    ck_assert_str_eq(response->model_version, "3");
    ck_assert_str_eq(response->id, "r1");
    ck_assert_uint_eq(response->n_outputs, 1);
    ck_assert_uint_eq(response->n_raw_output_contents, 1);
    ck_assert_uint_eq(response->raw_output_contents[0].len, sizeof scores);
    ck_assert_mem_eq(response->raw_output_contents[0].data, scores, sizeof scores);
    inference__model_stream_infer_response__free_unpacked(answer, NULL);
}
END_TEST

START_TEST(test_reply_of_a_stream_with_an_error)
{
    static const struct {
        const char *message, *want;
    } cases[] = {
        {"no model 'm' here", "no model 'm' here"},
        {"l\xc3\xa4nger", "l\xc3\xa4nger"},
        {"cut within: l\xc3", "cut within: l?"}, /* clients' parsers want UTF-8 */
        {"\xe4 and \xc3\xa4", "? and ??"},
        {"", "not found"}, /* an empty text would be none */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct srv_request request = {.id = "r1", .model_name = "m", .model_version = "7"};
        request.error.status = BASE_NOT_FOUND;
        memcpy(request.error.message, cases[i].message, strlen(cases[i].message) + 1);
        Inference__ModelStreamInferResponse *answer = encode_stream(&request, true);
        const Inference__ModelInferResponse *response = answer->infer_response;
        ck_assert_str_eq(answer->error_message, cases[i].want);
        ck_assert_str_eq(response->id, "r1");
        ck_assert_str_eq(response->model_name, "m");
        ck_assert_str_eq(response->model_version, "7");
        ck_assert_uint_eq(response->n_outputs, 0);
        inference__model_stream_infer_response__free_unpacked(answer, NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_reply");
    TCase *tcase = tcase_create("reply");
    tcase_add_test(tcase, test_reply_is_what_protobuf_reads);
    tcase_add_loop_test(tcase, test_reply_of_a_stream_is_what_protobuf_reads, 0, 2);
    tcase_add_test(tcase, test_reply_of_a_stream_with_an_error);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
