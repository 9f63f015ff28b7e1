/* The gRPC front end over a core without cells, through a real client: every method, and every way
 * in which a request is wrong. Lives and deaths of calls are in test_grpc_life.c. */
#include "base/mem.h"
#include "server/about.h"
#include "server/grpc/wire.h"
#include "tests/server/grpc_fixture.h"
#include "tests/util.h"

#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"

#include <check.h>
#include <grpc/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct grpc_fixture fixture;
static struct grpc_client *client;

static void setup(void)
{
    grpc_fixture_start(&fixture, NULL);
    client = grpc_client_create(fixture.port);
}

static void teardown(void)
{
    grpc_client_free(client);
    ck_assert(grpc_fixture_wait_idle(&fixture, NULL));
    grpc_fixture_stop(&fixture);
}

/* The bytes of {string 1, string 2 or bool 2}. */
static size_t write_query(uint8_t out[300], const char *first, const char *second, bool flag)
{
    uint8_t *at = srv_grpc_put_bytes(out, 1, first, strlen(first));
    at = srv_grpc_put_bytes(at, 2, second, strlen(second));
    if (flag) {
        at = srv_grpc_put_varint(srv_grpc_put_tag(at, 2, SRV_GRPC_VARINT), 1);
    }
    return (size_t)(at - out);
}

static int ask(const char *path, const char *first, const char *second,
               struct grpc_client_reply *reply)
{
    uint8_t bytes[300];
    size_t length = write_query(bytes, first, second, false);
    return grpc_client_unary(client, path, bytes, length, reply);
}

#define ASK(method, first, second, reply) ask(GRPC_FIXTURE_SERVICE method, first, second, reply)

static void set_not_ready(struct grpc_fixture *f)
{
    f->core.ready = false;
}

START_TEST(test_server_live_and_ready)
{
    struct grpc_client_reply reply;
    ck_assert_int_eq(ASK("ServerLive", "", "", &reply), GRPC_STATUS_OK);
    Inference__ServerLiveResponse *live =
        inference__server_live_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert(live->live);
    inference__server_live_response__free_unpacked(live, NULL);
    grpc_client_reply_release(&reply);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ASK("ServerReady", "", "", &reply), GRPC_STATUS_OK);
        Inference__ServerReadyResponse *ready =
            inference__server_ready_response__unpack(NULL, reply.length, reply.bytes);
        ck_assert_int_eq(ready->ready, i == 0);
        inference__server_ready_response__free_unpacked(ready, NULL);
        grpc_client_reply_release(&reply);
        grpc_fixture_on_loop(&fixture, set_not_ready);
    }
}
END_TEST

START_TEST(test_server_model_ready)
{
    static const struct {
        const char *name, *version;
        bool ready;
    } cases[] = {{"sum", "", true},     {"sum", "1", true},  {"sum", "9", false},
                 {"broken", "", false}, {"none", "", false}, {"", "", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grpc_client_reply reply;
        ck_assert_int_eq(ASK("ModelReady", cases[i].name, cases[i].version, &reply),
                         GRPC_STATUS_OK);
        Inference__ModelReadyResponse *answer =
            inference__model_ready_response__unpack(NULL, reply.length, reply.bytes);
        ck_assert_msg(answer->ready == cases[i].ready, "case %zu", i);
        inference__model_ready_response__free_unpacked(answer, NULL);
        grpc_client_reply_release(&reply);
    }
}
END_TEST

START_TEST(test_server_metadata_lists_what_works)
{
    struct grpc_client_reply reply;
    ck_assert_int_eq(ASK("ServerMetadata", "", "", &reply), GRPC_STATUS_OK);
    Inference__ServerMetadataResponse *answer =
        inference__server_metadata_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_str_eq(answer->name, SRV_ABOUT_NAME);
    ck_assert_str_eq(answer->version, SRV_ABOUT_VERSION);
    uint32_t count;
    const char *const *names = srv_about_extensions(true, &count);
    ck_assert_uint_eq(answer->n_extensions, count);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_str_eq(answer->extensions[i], names[i]);
    }
    inference__server_metadata_response__free_unpacked(answer, NULL);
    grpc_client_reply_release(&reply);
}
END_TEST

START_TEST(test_server_model_metadata)
{
    struct grpc_client_reply reply;
    ck_assert_int_eq(ASK("ModelMetadata", "sum", "1", &reply), GRPC_STATUS_OK);
    Inference__ModelMetadataResponse *answer =
        inference__model_metadata_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_str_eq(answer->name, "sum");
    ck_assert_str_eq(answer->platform, SRV_ABOUT_PLATFORM);
    ck_assert_uint_eq(answer->n_versions, 2);
    ck_assert_str_eq(answer->versions[0], "1");
    ck_assert_str_eq(answer->versions[1], "2");
    ck_assert_uint_eq(answer->n_inputs, 1);
    ck_assert_str_eq(answer->inputs[0]->name, "tokens");
    ck_assert_str_eq(answer->inputs[0]->datatype, "INT64");
    ck_assert_uint_eq(answer->inputs[0]->n_shape, 2);
    ck_assert_int_eq(answer->inputs[0]->shape[0], -1);
    ck_assert_uint_eq(answer->n_outputs, 1);
    ck_assert_str_eq(answer->outputs[0]->datatype, "FP32");
    ck_assert_int_eq(answer->outputs[0]->shape[1], 2);
    inference__model_metadata_response__free_unpacked(answer, NULL);
    grpc_client_reply_release(&reply);
}
END_TEST

START_TEST(test_server_model_config_leaves_out_the_batch)
{
    struct grpc_client_reply reply;
    ck_assert_int_eq(ASK("ModelConfig", "sum", "", &reply), GRPC_STATUS_OK);
    Inference__ModelConfigResponse *answer =
        inference__model_config_response__unpack(NULL, reply.length, reply.bytes);
    const Inference__ModelConfig *config = answer->config;
    ck_assert_str_eq(config->name, "sum");
    ck_assert_str_eq(config->backend, SRV_ABOUT_BACKEND);
    ck_assert_int_gt(config->max_batch_size, 0);
    ck_assert_uint_eq(config->n_input, 1);
    ck_assert_int_eq(config->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_INT64);
    ck_assert_uint_eq(config->input[0]->n_dims, 1);
    ck_assert_int_eq(config->input[0]->dims[0], -1);
    ck_assert_uint_eq(config->output[0]->n_dims, 1);
    ck_assert_int_eq(config->output[0]->dims[0], 2);
    ck_assert_int_eq(config->output[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
    ck_assert_uint_eq(config->n_parameters, 1);
    ck_assert_str_eq(config->parameters[0]->key, "range.tokens");
    ck_assert_str_eq(config->parameters[0]->value->string_value, "0..59");
    inference__model_config_response__free_unpacked(answer, NULL);
    grpc_client_reply_release(&reply);
}
END_TEST

static void set_statistics(struct grpc_fixture *f)
{
    struct srv_model_stats *stats = &f->core.models[2].stats;
    stats->inference_count = 7;
    stats->execution_count = 5;
    stats->last_inference_ms = 1700000000000;
    struct srv_stat five = {5, 50};
    stats->success = stats->queue = stats->compute_input = stats->compute_infer = five;
    stats->compute_output = five;
    stats->fail = (struct srv_stat){2, 20};
}

static size_t count_statistics(const char *name, const char *version)
{
    struct grpc_client_reply reply;
    ck_assert_int_eq(ASK("ModelStatistics", name, version, &reply), GRPC_STATUS_OK);
    Inference__ModelStatisticsResponse *answer =
        inference__model_statistics_response__unpack(NULL, reply.length, reply.bytes);
    size_t count = answer->n_model_stats;
    inference__model_statistics_response__free_unpacked(answer, NULL);
    grpc_client_reply_release(&reply);
    return count;
}

START_TEST(test_server_model_statistics)
{
    grpc_fixture_on_loop(&fixture, set_statistics);
    struct grpc_client_reply reply;
    ck_assert_int_eq(ASK("ModelStatistics", "sum", "2", &reply), GRPC_STATUS_OK);
    Inference__ModelStatisticsResponse *answer =
        inference__model_statistics_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_uint_eq(answer->n_model_stats, 1);
    const Inference__ModelStatistics *stats = answer->model_stats[0];
    ck_assert_str_eq(stats->version, "2");
    ck_assert_uint_eq(stats->last_inference, 1700000000000);
    ck_assert_uint_eq(stats->inference_count, 7);
    ck_assert_uint_eq(stats->execution_count, 5);
    ck_assert_uint_eq(stats->inference_stats->success->count, 5);
    ck_assert_uint_eq(stats->inference_stats->compute_output->ns, 50);
    ck_assert_uint_eq(stats->inference_stats->fail->count, 2);
    ck_assert_ptr_nonnull(stats->inference_stats->cache_hit);
    ck_assert_ptr_nonnull(stats->inference_stats->cache_miss);
    inference__model_statistics_response__free_unpacked(answer, NULL);
    grpc_client_reply_release(&reply);
    ck_assert_uint_eq(count_statistics("", ""), 2);
    ck_assert_uint_eq(count_statistics("sum", ""), 2);
    ck_assert_uint_eq(count_statistics("broken", ""), 0);
}
END_TEST

static size_t count_index(bool ready_only)
{
    uint8_t bytes[300];
    size_t length = write_query(bytes, "", "", ready_only);
    struct grpc_client_reply reply;
    ck_assert_int_eq(
        grpc_client_unary(client, GRPC_FIXTURE_SERVICE "RepositoryIndex", bytes, length, &reply),
        GRPC_STATUS_OK);
    Inference__RepositoryIndexResponse *answer =
        inference__repository_index_response__unpack(NULL, reply.length, reply.bytes);
    size_t count = answer->n_models;
    if (!ready_only) {
        ck_assert_str_eq(answer->models[0]->name, "broken");
        ck_assert_str_eq(answer->models[0]->state, "UNAVAILABLE");
        ck_assert_str_eq(answer->models[0]->reason, "no such operator");
        ck_assert_str_eq(answer->models[1]->state, "READY");
    }
    inference__repository_index_response__free_unpacked(answer, NULL);
    grpc_client_reply_release(&reply);
    return count;
}

START_TEST(test_server_repository_index)
{
    ck_assert_uint_eq(count_index(false), 3);
    ck_assert_uint_eq(count_index(true), 2);
}
END_TEST

static void set_draining(struct grpc_fixture *f)
{
    f->core.draining = true;
}

static int health_of(const char *service, int *serving)
{
    struct grpc_client_reply reply;
    int status = ask("/grpc.health.v1.Health/Check", service, "", &reply);
    if (status == GRPC_STATUS_OK) {
        Grpc__Health__V1__HealthCheckResponse *answer =
            grpc__health__v1__health_check_response__unpack(NULL, reply.length, reply.bytes);
        *serving = (int)answer->status;
        grpc__health__v1__health_check_response__free_unpacked(answer, NULL);
    }
    grpc_client_reply_release(&reply);
    return status;
}

START_TEST(test_server_health)
{
    enum { SERVING = 1, NOT_SERVING = 2 };
    static const struct {
        const char *service;
        int serving;
    } cases[] = {{"", SERVING},
                 {"inference.GRPCInferenceService", SERVING},
                 {"sum", SERVING},
                 {"broken", NOT_SERVING}};
    int serving = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(health_of(cases[i].service, &serving), GRPC_STATUS_OK);
        ck_assert_int_eq(serving, cases[i].serving);
    }
    ck_assert_int_eq(health_of("none", &serving), GRPC_STATUS_NOT_FOUND);
    grpc_fixture_on_loop(&fixture, set_draining);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(health_of(cases[i].service, &serving), GRPC_STATUS_OK);
        ck_assert_int_eq(serving, NOT_SERVING);
    }
}
END_TEST

START_TEST(test_server_unknown_model_is_named)
{
    static const char *const paths[] = {GRPC_FIXTURE_SERVICE "ModelMetadata",
                                        GRPC_FIXTURE_SERVICE "ModelConfig",
                                        GRPC_FIXTURE_SERVICE "ModelStatistics"};
    for (size_t i = 0; i < 3; i++) {
        struct grpc_client_reply reply;
        ck_assert_int_eq(ask(paths[i], "none", "", &reply), GRPC_STATUS_NOT_FOUND);
        ck_assert_str_eq(reply.message, "model 'none' version '' is not here");
        grpc_client_reply_release(&reply);
    }
    struct grpc_client_reply reply;
    ck_assert_int_eq(ASK("ModelMetadata", "broken", "", &reply), GRPC_STATUS_UNAVAILABLE);
    ck_assert_str_eq(reply.message, "model 'broken' version 1 is unavailable: no such operator");
    grpc_client_reply_release(&reply);
}
END_TEST

START_TEST(test_server_methods_that_are_not_there)
{
    static const char *const paths[] = {
        GRPC_FIXTURE_SERVICE "LogSettings",
        GRPC_FIXTURE_SERVICE "TraceSetting",
        GRPC_FIXTURE_SERVICE "SystemSharedMemoryStatus",
        "/grpc.health.v1.Health/List",
        "/grpc.reflection.v1beta.ServerReflection/ServerReflectionInfo",
        "/no.such.Service/AtAll",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct grpc_client_reply reply;
        ck_assert_int_eq(ask(paths[i], "", "", &reply), GRPC_STATUS_UNIMPLEMENTED);
        ck_assert_ptr_nonnull(strstr(reply.message, paths[i]));
        ck_assert_ptr_null(reply.bytes);
        grpc_client_reply_release(&reply);
    }
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&fixture, &counts));
    ck_assert_uint_eq(counts.answered[BASE_UNIMPLEMENTED], sizeof paths / sizeof paths[0]);
}
END_TEST

START_TEST(test_server_malformed_small_messages)
{
    static const uint8_t bad[] = {0x0a, 0x7f, 'x'};
    struct grpc_client_reply reply;
    ck_assert_int_eq(
        grpc_client_unary(client, GRPC_FIXTURE_SERVICE "ModelMetadata", bad, sizeof bad, &reply),
        GRPC_STATUS_INVALID_ARGUMENT);
    ck_assert_str_eq(reply.message, "the message is malformed");
    grpc_client_reply_release(&reply);
}
END_TEST

/* ---- ModelInfer ---- */

static int infer(const void *bytes, size_t length, struct grpc_client_reply *reply)
{
    return grpc_client_unary(client, GRPC_FIXTURE_SERVICE "ModelInfer", bytes, length, reply);
}

static void assert_sums(const struct grpc_client_reply *reply, uint32_t batch, uint32_t time)
{
    Inference__ModelInferResponse *answer =
        inference__model_infer_response__unpack(NULL, reply->length, reply->bytes);
    ck_assert_ptr_nonnull(answer);
    ck_assert_str_eq(answer->model_name, "sum");
    ck_assert_str_eq(answer->model_version, "2");
    ck_assert_uint_eq(answer->n_outputs, 1);
    ck_assert_str_eq(answer->outputs[0]->name, "sums");
    ck_assert_uint_eq(answer->outputs[0]->n_shape, 2);
    ck_assert_int_eq(answer->outputs[0]->shape[0], batch);
    ck_assert_uint_eq(answer->n_raw_output_contents, 1);
    ck_assert_uint_eq(answer->raw_output_contents[0].len, batch * 2 * sizeof(float));
    const uint8_t *at = answer->raw_output_contents[0].data;
    uint32_t wrong = 0;
    for (uint32_t row = 0; row < batch; row++) {
        float pair[2];
        memcpy(pair, at + row * sizeof pair, sizeof pair);
        util_assert_close(pair[0], (double)time * (time + 1) / 2, 0, 1e-4);
        wrong += util_is_close((double)pair[1], time, 0, 0) ? 0 : 1;
    }
    ck_assert_uint_eq(wrong, 0);
    inference__model_infer_response__free_unpacked(answer, NULL);
}

START_TEST(test_server_infer_small_and_large)
{
    static const struct {
        uint32_t batch, time;
    } sizes[] = {{1, 1}, {1, 24}, {3, 100}, {64, 1000}, {8, 65536}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t length;
        uint8_t *bytes = grpc_fixture_request("", sizes[i].batch, sizes[i].time, &length);
        struct grpc_client_reply reply;
        ck_assert_msg(infer(bytes, length, &reply) == GRPC_STATUS_OK, "%s", reply.message);
        assert_sums(&reply, sizes[i].batch, sizes[i].time);
        grpc_client_reply_release(&reply);
        free(bytes);
    }
}
END_TEST

static void set_large_answer(struct grpc_fixture *f)
{
    f->core.answer_rows = 1u << 20;
}

START_TEST(test_server_infer_large_answer)
{
    grpc_fixture_on_loop(&fixture, set_large_answer);
    size_t length;
    uint8_t *bytes = grpc_fixture_request("", 1, 2, &length);
    struct grpc_client_reply reply;
    ck_assert_msg(infer(bytes, length, &reply) == GRPC_STATUS_OK, "%s", reply.message);
    ck_assert_uint_gt(reply.length, 8u << 20);
    grpc_client_reply_release(&reply);
    free(bytes);
}
END_TEST

START_TEST(test_server_infer_malformed_message)
{
    static const uint8_t bad[] = {0x2a, 0x05, 'x'};
    struct grpc_client_reply reply;
    ck_assert_int_eq(infer(bad, sizeof bad, &reply), GRPC_STATUS_INVALID_ARGUMENT);
    ck_assert_str_eq(reply.message, "the message is not a ModelInferRequest");
    grpc_client_reply_release(&reply);
    // An empty message is well formed; core misses the model.
    ck_assert_int_eq(infer("", 0, &reply), GRPC_STATUS_NOT_FOUND);
    grpc_client_reply_release(&reply);
    ck_assert(grpc_fixture_wait_idle(&fixture, NULL));
    uint64_t refused =
        fixture.core.counters.requests_total[SRV_PROTOCOL_GRPC][BASE_INVALID_ARGUMENT];
    ck_assert_uint_eq(refused, 1);
}
END_TEST

START_TEST(test_server_infer_error_names_the_request)
{
    size_t length;
    uint8_t *bytes = grpc_fixture_request("job-7", 1, 3, &length);
    // The last 24 bytes are the raw tensor; cut one and its length byte says so.
    bytes[length - 25] = 23;
    struct grpc_client_reply reply;
    ck_assert_int_eq(infer(bytes, length - 1, &reply), GRPC_STATUS_INVALID_ARGUMENT);
    ck_assert_str_eq(reply.message, "[request id: job-7] input 'tokens': raw_input_contents has 23 "
                                    "bytes, shape [1,3] of INT64 takes 24");
    grpc_client_reply_release(&reply);
    free(bytes);
}
END_TEST

static enum base_status next_failure;

static void set_failure(struct grpc_fixture *f)
{
    f->core.fail = next_failure;
}

START_TEST(test_server_infer_every_status_reaches_the_client)
{
    size_t length;
    uint8_t *bytes = grpc_fixture_request("r", 1, 3, &length);
    for (int status = 1; status < BASE_STATUS_COUNT; status++) {
        next_failure = (enum base_status)status;
        grpc_fixture_on_loop(&fixture, set_failure);
        struct grpc_client_reply reply;
        infer(bytes, length, &reply);
        char want[128];
        snprintf(want, sizeof want, "[request id: r] fake %s", base_status_text(next_failure));
        ck_assert_str_eq(reply.message, want);
        ck_assert_int_ne(reply.status, GRPC_STATUS_OK);
        grpc_client_reply_release(&reply);
    }
    free(bytes);
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&fixture, &counts));
    for (int status = 1; status < BASE_STATUS_COUNT; status++) {
        ck_assert_uint_eq(counts.answered[status], 1);
    }
}
END_TEST

/* ---- Start ---- */

START_TEST(test_server_port_in_use_is_an_error)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.port = fixture.port;
    struct srv_loop loop;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    struct srv_grpc *second = NULL;
    struct base_error error;
    ck_assert_int_eq(srv_grpc_start(&options, &loop, &fixture.core, &second, &error),
                     BASE_UNAVAILABLE);
    char want[96];
    snprintf(want, sizeof want, "gRPC cannot listen on 127.0.0.1:%u: the port is in use",
             fixture.port);
    ck_assert_str_eq(error.message, want);
    options.port = 0;
    options.address = "203.0.113.1"; /* of nobody's machine (RFC 5737) */
    ck_assert_int_eq(srv_grpc_start(&options, &loop, &fixture.core, &second, &error),
                     BASE_UNAVAILABLE);
    ck_assert_str_eq(error.message,
                     "gRPC cannot listen on 203.0.113.1:0: not an address of this machine");
    ck_assert_ptr_null(second);
    srv_loop_release(&loop);
}
END_TEST

/* With gRPC's other way to poll the first call would crash. */
START_TEST(test_server_poll_strategy_is_checked)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    struct srv_loop loop;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    struct srv_grpc *second = NULL;
    struct base_error error;
    ck_assert_int_eq(setenv("GRPC_POLL_STRATEGY", "poll", 1), 0);
    enum base_status status = srv_grpc_start(&options, &loop, &fixture.core, &second, &error);
    ck_assert_int_eq(unsetenv("GRPC_POLL_STRATEGY"), 0);
    ck_assert_int_eq(status, BASE_UNAVAILABLE);
    ck_assert_str_eq(error.message,
                     "GRPC_POLL_STRATEGY=poll is not supported: leave it unset, or epoll1");
    ck_assert_ptr_null(second);
    srv_loop_release(&loop);
}
END_TEST

START_TEST(test_server_every_failed_allocation_at_start)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    struct srv_loop loop;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    for (uint64_t n = 1; n <= 3; n++) {
        struct srv_grpc *second = NULL;
        struct base_error error;
        base_alloc_fail_at(n);
        enum base_status status = srv_grpc_start(&options, &loop, &fixture.core, &second, &error);
        base_alloc_fail_at(0);
        ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
        ck_assert_ptr_null(second);
    }
    srv_loop_release(&loop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_server");
    TCase *tcase = tcase_create("methods");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_server_live_and_ready);
    tcase_add_test(tcase, test_server_model_ready);
    tcase_add_test(tcase, test_server_metadata_lists_what_works);
    tcase_add_test(tcase, test_server_model_metadata);
    tcase_add_test(tcase, test_server_model_config_leaves_out_the_batch);
    tcase_add_test(tcase, test_server_model_statistics);
    tcase_add_test(tcase, test_server_repository_index);
    tcase_add_test(tcase, test_server_health);
    tcase_add_test(tcase, test_server_unknown_model_is_named);
    tcase_add_test(tcase, test_server_methods_that_are_not_there);
    tcase_add_test(tcase, test_server_malformed_small_messages);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("infer");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_server_infer_small_and_large);
    tcase_add_test(tcase, test_server_infer_large_answer);
    tcase_add_test(tcase, test_server_infer_malformed_message);
    tcase_add_test(tcase, test_server_infer_error_names_the_request);
    tcase_add_test(tcase, test_server_infer_every_status_reaches_the_client);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("start");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_server_port_in_use_is_an_error);
    tcase_add_test(tcase, test_server_poll_strategy_is_checked);
    tcase_add_test(tcase, test_server_every_failed_allocation_at_start);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
