/* See grpc_streams.h. */
#include "tests/server/grpc_streams.h"

#include "proto/inference.pb-c.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct grpc_fixture streams_fixture;
struct grpc_client *streams_client;

void streams_setup_with(const struct srv_grpc_options *options)
{
    grpc_fixture_start(&streams_fixture, options);
    streams_client = grpc_client_create(streams_fixture.port);
}

void streams_setup(void)
{
    streams_setup_with(NULL);
}

void streams_check_accounts(void)
{
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, &counts));
    uint64_t answered = 0;
    for (int i = 0; i < BASE_STATUS_COUNT; i++) {
        answered += counts.answered[i];
    }
    ck_assert_uint_eq(counts.arrived, counts.finished);
    ck_assert_uint_eq(counts.arrived, answered);
    ck_assert_uint_eq(counts.streams_open, 0);
    ck_assert_uint_eq(counts.infer_open, 0);
    ck_assert_uint_eq(counts.infer_bytes, 0);
    ck_assert_uint_eq(streams_fixture.core.running, 0);
}

void streams_teardown(void)
{
    streams_check_accounts();
    grpc_client_free(streams_client);
    grpc_fixture_stop(&streams_fixture);
}

void streams_hold(struct grpc_fixture *fixture)
{
    fixture->core.pace = FAKE_HOLD;
}

void streams_hold_with_slow_cancels(struct grpc_fixture *fixture)
{
    fixture->core.pace = FAKE_HOLD;
    fixture->core.slow_cancels = true;
}

void streams_answer_large(struct grpc_fixture *fixture)
{
    fixture->core.answer_rows = 1u << 20;
}

void streams_progress(struct grpc_fixture *fixture)
{
    fake_core_progress(&fixture->core);
}

void streams_release_all(struct grpc_fixture *fixture)
{
    fake_core_release(&fixture->core);
}

void streams_release_oldest(struct grpc_fixture *fixture)
{
    fake_core_release_oldest(&fixture->core);
}

void streams_release_newest(struct grpc_fixture *fixture)
{
    fake_core_release_newest(&fixture->core);
}

bool streams_wait_requests(uint64_t requests)
{
    for (uint32_t i = 0; i < 10000; i++) {
        if (grpc_fixture_counts(&streams_fixture).stream_requests == requests) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

bool streams_wait_answered(void)
{
    for (uint32_t i = 0; i < 10000; i++) {
        if (grpc_fixture_counts(&streams_fixture).infer_open == 0) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

struct grpc_client_stream *streams_open(uint32_t timeout_ms)
{
    return grpc_client_stream_open(streams_client, STREAM_PATH, timeout_ms, NULL, NULL);
}

bool streams_send(struct grpc_client_stream *stream, const char *id, uint32_t time)
{
    size_t length;
    uint8_t *bytes = grpc_fixture_request(id, 1, time, &length);
    bool sent = grpc_client_stream_send(stream, bytes, length);
    free(bytes);
    return sent;
}

bool streams_send_in_parts(struct grpc_client_stream *stream, const char *id, uint32_t time)
{
    static const char parameter[] = "\x22\x0c\x0a\x06stream\x12\x02\x08\x01"; // true
    const size_t parameter_bytes = sizeof parameter - 1;
    size_t length;
    uint8_t *request = grpc_fixture_request(id, 1, time, &length);
    uint8_t *bytes = malloc(length + parameter_bytes);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, request, length);
    memcpy(bytes + length, parameter, parameter_bytes);
    bool sent = grpc_client_stream_send(stream, bytes, length + parameter_bytes);
    free(request);
    free(bytes);
    return sent;
}

bool streams_send_unknown(struct grpc_client_stream *stream, const char *id)
{
    size_t length;
    uint8_t *bytes = grpc_fixture_request(id, 1, 3, &length);
    // The model's name is the first field.
    ck_assert_mem_eq(bytes, "\n\003sum", 5);
    bytes[3] = 'o';
    bool sent = grpc_client_stream_send(stream, bytes, length);
    free(bytes);
    return sent;
}

/* Every answer says whether it is the last of its request. */
static void assert_final(const Inference__ModelInferResponse *response, bool is_final)
{
    ck_assert_uint_eq(response->n_parameters, 1);
    ck_assert_str_eq(response->parameters[0]->key, "triton_final_response");
    const Inference__InferParameter *value = response->parameters[0]->value;
    ck_assert_int_eq(value->parameter_choice_case,
                     INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM);
    ck_assert_int_eq(value->bool_param, is_final);
}

static Inference__ModelStreamInferResponse *receive(struct grpc_client_stream *stream,
                                                    bool is_final)
{
    struct grpc_client_reply reply;
    ck_assert(grpc_client_stream_receive(stream, &reply));
    Inference__ModelStreamInferResponse *answer =
        inference__model_stream_infer_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_ptr_nonnull(answer);
    ck_assert_ptr_nonnull(answer->infer_response);
    assert_final(answer->infer_response, is_final);
    grpc_client_reply_release(&reply);
    return answer;
}

void streams_expect(struct grpc_client_stream *stream, const char *id, uint32_t time)
{
    Inference__ModelStreamInferResponse *answer = receive(stream, true);
    const Inference__ModelInferResponse *response = answer->infer_response;
    ck_assert_str_eq(answer->error_message, "");
    ck_assert_str_eq(response->id, id);
    ck_assert_str_eq(response->model_name, "sum");
    ck_assert_str_eq(response->model_version, "2");
    ck_assert_uint_eq(response->n_outputs, 1);
    ck_assert_str_eq(response->outputs[0]->name, "sums");
    ck_assert_uint_eq(response->n_raw_output_contents, 1);
    float pair[2];
    ck_assert_uint_ge(response->raw_output_contents[0].len, sizeof pair);
    memcpy(pair, response->raw_output_contents[0].data, sizeof pair);
    util_assert_close(pair[0], (double)time * (time + 1) / 2, 0, 1e-4);
    util_assert_close(pair[1], time, 0, 0);
    inference__model_stream_infer_response__free_unpacked(answer, NULL);
}

void streams_expect_part(struct grpc_client_stream *stream, const char *id, uint32_t first,
                         uint32_t steps)
{
    Inference__ModelStreamInferResponse *answer = receive(stream, false);
    const Inference__ModelInferResponse *response = answer->infer_response;
    ck_assert_str_eq(answer->error_message, "");
    ck_assert_str_eq(response->id, id);
    ck_assert_str_eq(response->model_name, "sum");
    ck_assert_str_eq(response->model_version, "2");
    ck_assert_uint_eq(response->n_raw_output_contents, 1);
    float pair[2];
    ck_assert_uint_ge(response->raw_output_contents[0].len, steps * sizeof pair);
    for (uint32_t i = 0; i < steps; i++) {
        memcpy(pair, response->raw_output_contents[0].data + i * sizeof pair, sizeof pair);
        ck_assert_uint_eq((uint32_t)pair[0], first + i);
        ck_assert_uint_eq((uint32_t)pair[1], steps);
    }
    inference__model_stream_infer_response__free_unpacked(answer, NULL);
}

void streams_expect_error(struct grpc_client_stream *stream, const char *id, const char *model,
                          const char *message)
{
    Inference__ModelStreamInferResponse *answer = receive(stream, true);
    const Inference__ModelInferResponse *response = answer->infer_response;
    ck_assert_msg(strstr(answer->error_message, message) == answer->error_message,
                  "'%s' does not begin with '%s'", answer->error_message, message);
    ck_assert_str_eq(response->id, id);
    ck_assert_str_eq(response->model_name, model);
    ck_assert_uint_eq(response->n_outputs, 0);
    ck_assert_uint_eq(response->n_raw_output_contents, 0);
    inference__model_stream_infer_response__free_unpacked(answer, NULL);
}

void streams_expect_end(struct grpc_client_stream *stream, int status, const char *message)
{
    struct grpc_client_reply reply;
    ck_assert(!grpc_client_stream_receive(stream, &reply));
    ck_assert_msg(grpc_client_stream_finish(stream, &reply) == status, "%d %s", reply.status,
                  reply.message);
    if (message != NULL) {
        ck_assert_str_eq(reply.message, message);
    }
}
