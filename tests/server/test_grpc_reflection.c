/* Server reflection: what it tells, that this is what the server does, and what clients may not do
 * to it. After each case every call object is free again and every call has had exactly one status.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "proto/reflection.pb-c.h"
#include "server/grpc/methods.h"
#include "tests/server/grpc_streams.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define V1       "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define V1ALPHA  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
#define STOPPING "the server is stopping"

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

#define ASKS(name)    GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWERS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

static struct grpc_client_stream *open_path(const char *path)
{
    return grpc_client_stream_open(streams_client, path, 0, NULL, NULL);
}

/* ---- Questions ---- */

static bool send_bytes(struct grpc_client_stream *stream, const reflection_request *request)
{
    uint8_t bytes[512];
    size_t length = grpc__reflection__v1__server_reflection_request__get_packed_size(request);
    ck_assert_uint_le(length, sizeof bytes);
    grpc__reflection__v1__server_reflection_request__pack(request, bytes);
    return grpc_client_stream_send(stream, bytes, length);
}

/* what: one of those whose value is a text. */
static bool ask(struct grpc_client_stream *stream, int what, const char *text)
{
    static char host[] = "here";
    char value[256];
    snprintf(value, sizeof value, "%s", text);
    reflection_request request;
    grpc__reflection__v1__server_reflection_request__init(&request);
    request.host = host;
    request.message_request_case =
        (Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase)what;
    request.list_services = value;
    return send_bytes(stream, &request);
}

/* To be freed by free_unpacked. */
static reflection_response *receive(struct grpc_client_stream *stream)
{
    struct grpc_client_reply reply;
    ck_assert(grpc_client_stream_receive(stream, &reply));
    reflection_response *response =
        grpc__reflection__v1__server_reflection_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_ptr_nonnull(response);
    ck_assert_str_eq(response->valid_host, "here");
    ck_assert_ptr_nonnull(response->original_request);
    grpc_client_reply_release(&reply);
    return response;
}

static void release(reflection_response *response)
{
    grpc__reflection__v1__server_reflection_response__free_unpacked(response, NULL);
}

static void expect_error(struct grpc_client_stream *stream, int code)
{
    reflection_response *response = receive(stream);
    ck_assert_int_eq(response->message_response_case, ANSWERS(ERROR_RESPONSE));
    ck_assert_int_eq(response->error_response->error_code, code);
    ck_assert_str_ne(response->error_response->error_message, "");
    release(response);
}

/* ---- Descriptors ---- */

/* The first field of that number; data NULL: there is none. */
static struct srv_grpc_bytes bytes_of(struct srv_grpc_bytes message, uint32_t number)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number == number) {
            return field.bytes;
        }
    }
    ck_assert(!wire.broken);
    return (struct srv_grpc_bytes){NULL, 0};
}

static bool flag_of(struct srv_grpc_bytes message, uint32_t number)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(message);
    struct srv_grpc_field field;
    bool flag = false;
    while (srv_grpc_wire_next(&wire, &field)) {
        flag = field.number == number ? field.value != 0 : flag;
    }
    ck_assert(!wire.broken);
    return flag;
}

/* The one file of an answer. */
static struct srv_grpc_bytes file_of(const reflection_response *response)
{
    ck_assert_int_eq(response->message_response_case, ANSWERS(FILE_DESCRIPTOR_RESPONSE));
    ck_assert_uint_eq(response->file_descriptor_response->n_file_descriptor_proto, 1);
    ProtobufCBinaryData *proto = response->file_descriptor_response->file_descriptor_proto;
    return (struct srv_grpc_bytes){proto->data, proto->len};
}

static void expect_file(struct grpc_client_stream *stream, const char *name)
{
    reflection_response *response = receive(stream);
    ck_assert(srv_grpc_bytes_equal(bytes_of(file_of(response), 1), name));
    release(response);
}

/* Whether the table has it, and streams as it says. */
static bool is_method(const char *path, struct srv_grpc_bytes method)
{
    for (uint32_t i = 0; i < SRV_GRPC__METHODS; i++) {
        const struct srv_grpc__method *row = &srv_grpc__methods[i];
        if (strcmp(row->path, path) == 0) {
            ck_assert_msg(flag_of(method, 6) == srv_grpc__stays_open(row), "%s", path);
            ck_assert_msg(flag_of(method, 5) ==
                              (srv_grpc__stays_open(row) && strstr(path, "Watch") == NULL),
                          "%s", path);
            return true;
        }
    }
    return false;
}

/* Counts a service's methods; each must be in the table. */
static uint32_t count_methods(struct srv_grpc_bytes package, struct srv_grpc_bytes service)
{
    struct srv_grpc_bytes name = bytes_of(service, 1);
    struct srv_grpc_wire wire = srv_grpc_wire_open(service);
    struct srv_grpc_field field;
    uint32_t count = 0;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number == 2) {
            struct srv_grpc_bytes method = bytes_of(field.bytes, 1);
            char path[256];
            snprintf(path, sizeof path, "/%.*s.%.*s/%.*s", (int)package.length,
                     (const char *)package.data, (int)name.length, (const char *)name.data,
                     (int)method.length, (const char *)method.data);
            ck_assert_msg(is_method(path, field.bytes), "%s", path);
            count++;
        }
    }
    ck_assert(!wire.broken);
    return count;
}

static uint32_t count_methods_of_file(struct srv_grpc_bytes file)
{
    struct srv_grpc_wire wire = srv_grpc_wire_open(file);
    struct srv_grpc_field field;
    uint32_t count = 0;
    while (srv_grpc_wire_next(&wire, &field)) {
        if (field.number == 6) {
            count += count_methods(bytes_of(file, 2), field.bytes);
        }
    }
    ck_assert(!wire.broken);
    ck_assert(srv_grpc_bytes_equal(bytes_of(file, 12), "proto3"));
    return count;
}

/* ---- What is told ---- */

#define N_SERVICES 4
static const char *const services[N_SERVICES] = {
    "grpc.health.v1.Health",
    "inference.GRPCInferenceService",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
};

static const char *const files[N_SERVICES] = {
    "proto/health.proto",
    "proto/inference.proto",
    "proto/reflection.proto",
    "proto/reflection_v1alpha.proto",
};

START_TEST(test_reflection_lists_services)
{
    static const char *const paths[] = {V1, V1ALPHA};
    for (int i = 0; i < 2; i++) {
        struct grpc_client_stream *stream = open_path(paths[i]);
        ck_assert(ask(stream, ASKS(LIST_SERVICES), "*"));
        grpc_client_stream_half_close(stream);
        reflection_response *response = receive(stream);
        ck_assert_int_eq(response->message_response_case, ANSWERS(LIST_SERVICES_RESPONSE));
        ck_assert_str_eq(response->original_request->list_services, "*");
        ck_assert_uint_eq(response->list_services_response->n_service, N_SERVICES);
        for (int j = 0; j < N_SERVICES; j++) {
            ck_assert_str_eq(response->list_services_response->service[j]->name, services[j]);
        }
        release(response);
        streams_expect_end(stream, GRPC_STATUS_OK, "");
    }
}
END_TEST

/* The methods of all services are those of the table. */
START_TEST(test_reflection_tells_the_methods_that_work)
{
    struct grpc_client_stream *stream = open_path(V1);
    uint32_t methods = 0;
    for (int i = 0; i < N_SERVICES; i++) {
        ck_assert(ask(stream, ASKS(FILE_CONTAINING_SYMBOL), services[i]));
        reflection_response *by_symbol = receive(stream);
        ck_assert(ask(stream, ASKS(FILE_BY_FILENAME), files[i]));
        reflection_response *by_name = receive(stream);
        struct srv_grpc_bytes file = file_of(by_symbol);
        ck_assert_uint_eq(file.length, file_of(by_name).length);
        ck_assert_mem_eq(file.data, file_of(by_name).data, file.length);
        ck_assert(srv_grpc_bytes_equal(bytes_of(file, 1), files[i]));
        // No file needs another.
        ck_assert_ptr_null(bytes_of(file, 3).data);
        methods += count_methods_of_file(file);
        release(by_symbol);
        release(by_name);
    }
    ck_assert_uint_eq(methods, SRV_GRPC__METHODS);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_reflection_finds_symbols)
{
    static const struct {
        const char *symbol;
        int file;
    } cases[] = {
        {"inference.GRPCInferenceService", 1},
        {"inference.GRPCInferenceService.ModelInfer", 1},
        {"inference.ModelInferRequest", 1},
        {"inference.ModelInferRequest.model_name", 1},
        {"inference.ModelInferRequest.InferInputTensor", 1},
        {"inference.ModelInferRequest.InferInputTensor.shape", 1},
        {"inference.ModelInferRequest.ParametersEntry", 1},
        {"inference.ModelInferRequest.ParametersEntry.value", 1},
        {"inference.InferParameter.parameter_choice", 1},
        {"inference.DataType", 1},
        {"inference.TYPE_FP32", 1},
        {"grpc.health.v1.Health.Watch", 0},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus", 0},
        {"grpc.health.v1.HealthCheckResponse.SERVING", 0},
        {"grpc.reflection.v1.ServerReflectionRequest", 2},
        {"grpc.reflection.v1alpha.ServerReflectionRequest", 3},
        {"grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo", 3},
    };
    struct grpc_client_stream *stream = open_path(V1ALPHA);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert(ask(stream, ASKS(FILE_CONTAINING_SYMBOL), cases[i].symbol));
        expect_file(stream, files[cases[i].file]);
    }
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_reflection_unknown_symbols)
{
    static const char *const symbols[] = {
        "",
        ".",
        "inference",
        "inference.",
        "inference..",
        ".inference.ModelInferRequest",
        "inference.ModelInferReques",
        "inference.ModelInferRequestt",
        "inference.ModelInferRequest.",
        "inference.ModelInferRequest.none",
        "inference.ModelInferRequest.model_name.",
        "inference.ModelInferRequest.model_name.more",
        "inference.GRPCInferenceService.TraceSetting", // is there, but does not work
        "inference.GRPCInferenceService.ModelInfer.more",
        "inference.DataType.TYPE_FP32",
        "grpc.health.v1.HealthCheckResponse.ServingStatus.SERVING",
        "grpc.health.v1.SERVING",
        "grpc.health.v1",
        "grpc.health.v1x.Health",
        "onnx.ModelProto",
        "\xc3\xa4",
    };
    struct grpc_client_stream *stream = open_path(V1);
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        ck_assert(ask(stream, ASKS(FILE_CONTAINING_SYMBOL), symbols[i]));
        expect_error(stream, GRPC_STATUS_NOT_FOUND);
    }
    ck_assert(ask(stream, ASKS(FILE_CONTAINING_SYMBOL), "inference.DataType"));
    expect_file(stream, "proto/inference.proto");
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_reflection_unknown_files)
{
    static const char *const names[] = {"", "health.proto", "proto/onnx.proto",
                                        "proto/health.protoo", "../proto/health.proto"};
    struct grpc_client_stream *stream = open_path(V1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert(ask(stream, ASKS(FILE_BY_FILENAME), names[i]));
        expect_error(stream, GRPC_STATUS_NOT_FOUND);
    }
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_reflection_has_no_extensions)
{
    static char host[] = "here";
    static char type[] = "inference.ModelInferRequest";
    Grpc__Reflection__V1__ExtensionRequest extension;
    grpc__reflection__v1__extension_request__init(&extension);
    extension.containing_type = type;
    extension.extension_number = -1;
    reflection_request request;
    grpc__reflection__v1__server_reflection_request__init(&request);
    request.host = host;
    struct grpc_client_stream *stream = open_path(V1);
    ck_assert(send_bytes(stream, &request)); // asks nothing
    expect_error(stream, GRPC_STATUS_INVALID_ARGUMENT);
    request.message_request_case = ASKS(FILE_CONTAINING_EXTENSION);
    request.file_containing_extension = &extension;
    ck_assert(send_bytes(stream, &request));
    expect_error(stream, GRPC_STATUS_NOT_FOUND);
    ck_assert(ask(stream, ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE), type));
    expect_error(stream, GRPC_STATUS_UNIMPLEMENTED);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* Answers come in the order of the questions, however late they are read. */
START_TEST(test_reflection_many_questions_before_any_answer)
{
    enum { QUESTIONS = 100 };
    struct grpc_client_stream *stream = open_path(V1);
    for (int i = 0; i < QUESTIONS; i++) {
        ck_assert(ask(stream, ASKS(FILE_BY_FILENAME), files[i % N_SERVICES]));
    }
    grpc_client_stream_half_close(stream);
    (void)usleep(20000);
    for (int i = 0; i < QUESTIONS; i++) {
        expect_file(stream, files[i % N_SERVICES]);
    }
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* ---- What is malformed ---- */

static void expect_end(struct grpc_client_stream *stream, int status, const char *begins)
{
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_stream_finish(stream, &reply), status);
    ck_assert_msg(strncmp(reply.message, begins, strlen(begins)) == 0, "%s", reply.message);
}

START_TEST(test_reflection_malformed_messages_end_it)
{
    static const struct {
        uint8_t bytes[8];
        size_t length;
    } cases[] = {
        {{0x3a, 9, 'a'}, 3},                 // cut off
        {{0x22, 1, 0xff}, 3},                // a symbol that is no text
        {{0x0a, 1, 0xff, 0x3a, 0}, 5},       // a host that is none
        {{0x38, 1}, 2},                      // list_services as a number
        {{0x2a, 2, 0x0a, 9}, 4},             // an extension whose type is cut off
        {{0x22, 3, 'a', 0, 'b', 0x3a, 0}, 7} // a NUL in a text
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grpc_client_stream *stream = open_path(V1);
        ck_assert(ask(stream, ASKS(LIST_SERVICES), ""));
        release(receive(stream));
        (void)grpc_client_stream_send(stream, cases[i].bytes, cases[i].length);
        expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT,
                   "the message is not a ServerReflectionRequest");
    }
}
END_TEST

START_TEST(test_reflection_long_messages)
{
    static const size_t lengths[] = {4096, 4097, 1u << 20};
    for (size_t i = 0; i < 3; i++) {
        size_t text = lengths[i] - (lengths[i] > (1u << 14) ? 4 : 3);
        uint8_t *bytes = malloc(lengths[i]);
        ck_assert_ptr_nonnull(bytes);
        memset(bytes, 'a', lengths[i]);
        srv_grpc_put_varint(srv_grpc_put_tag(bytes, 4, SRV_GRPC_BYTES), text);
        struct grpc_client_stream *stream = open_path(V1);
        // The call may be over before all of it is written.
        (void)grpc_client_stream_send(stream, bytes, lengths[i]);
        if (lengths[i] <= 4096) {
            struct grpc_client_reply reply;
            ck_assert(grpc_client_stream_receive(stream, &reply));
            ck_assert_uint_gt(reply.length, lengths[i]);
            grpc_client_reply_release(&reply);
            grpc_client_stream_half_close(stream);
            streams_expect_end(stream, GRPC_STATUS_OK, "");
        } else {
            expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT, "the message has ");
        }
        free(bytes);
    }
}
END_TEST

/* Each message has an answer, or ends the stream. */
START_TEST(test_reflection_random_messages)
{
    int rounds = util_is_quick() ? 100 : 1000;
    struct base_random random = util_random(1);
    struct grpc_client_stream *stream = NULL;
    uint32_t answered = 0;
    uint32_t ended = 0;
    for (int i = 0; i < rounds; i++) {
        static const uint8_t tags[] = {0x0a, 0x1a, 0x22, 0x2a, 0x32, 0x3a};
        uint8_t bytes[24];
        size_t length = base_random_below(&random, sizeof bytes);
        for (size_t j = 0; j < length; j++) {
            bytes[j] = (uint8_t)base_random_below(&random, 256);
        }
        if (length > 2 && base_random_below(&random, 4) != 0) {
            bytes[0] = tags[base_random_below(&random, sizeof tags)];
            bytes[1] = (uint8_t)(length - 2);
            memset(bytes + 2, 'a', base_random_below(&random, 2) * (length - 2));
        }
        stream = stream == NULL ? open_path(V1) : stream;
        (void)grpc_client_stream_send(stream, bytes, length);
        struct grpc_client_reply reply;
        if (grpc_client_stream_receive(stream, &reply)) {
            grpc_client_reply_release(&reply);
            answered++;
        } else {
            expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT, "");
            stream = NULL;
            ended++;
        }
    }
    ck_assert_uint_gt(answered, 0);
    ck_assert_uint_gt(ended, 0);
    if (stream != NULL) {
        grpc_client_stream_half_close(stream);
        streams_expect_end(stream, GRPC_STATUS_OK, "");
    }
}
END_TEST

/* ---- Ends and limits ---- */

START_TEST(test_reflection_half_close_alone)
{
    struct grpc_client_stream *stream = open_path(V1);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_reflection_cancel)
{
    struct grpc_client_stream *idle = open_path(V1);
    struct grpc_client_stream *blocked = open_path(V1ALPHA);
    ck_assert(ask(idle, ASKS(LIST_SERVICES), ""));
    release(receive(idle));
    for (int i = 0; i < 50; i++) {
        ck_assert(ask(blocked, ASKS(FILE_BY_FILENAME), files[1]));
    }
    grpc_client_stream_cancel(idle);
    grpc_client_stream_cancel(blocked);
    expect_end(idle, GRPC_STATUS_CANCELLED, "");
    expect_end(blocked, GRPC_STATUS_CANCELLED, "");
}
END_TEST

START_TEST(test_reflection_counts_as_a_stream)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.streams_max = 1;
    streams_setup_with(&options);
    struct grpc_client_stream *stream = open_path(V1);
    ck_assert(ask(stream, ASKS(LIST_SERVICES), ""));
    release(receive(stream));
    expect_end(open_path(V1ALPHA), GRPC_STATUS_RESOURCE_EXHAUSTED,
               "the server is busy: too many streams are open");
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    streams_teardown();
}
END_TEST

/* The largest file does not fit into the memory of this server's requests. */
START_TEST(test_reflection_without_memory_for_an_answer)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.request_bytes_max = 8192;
    streams_setup_with(&options);
    struct grpc_client_stream *stream = open_path(V1);
    ck_assert(ask(stream, ASKS(FILE_BY_FILENAME), files[0]));
    expect_file(stream, files[0]);
    ck_assert(ask(stream, ASKS(FILE_BY_FILENAME), files[1]));
    expect_end(stream, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory left for the answer");
    streams_teardown();
}
END_TEST

static uint64_t fail_at;

static void fail_allocation(struct grpc_fixture *fixture)
{
    (void)fixture;
    base_alloc_fail_at(fail_at);
}

START_TEST(test_reflection_without_memory)
{
    uint32_t refused = 0;
    for (fail_at = 1; fail_at <= 4; fail_at++) {
        grpc_fixture_on_loop(&streams_fixture, fail_allocation);
        struct grpc_client_stream *stream = open_path(V1);
        (void)ask(stream, ASKS(FILE_BY_FILENAME), files[1]);
        grpc_client_stream_half_close(stream);
        struct grpc_client_reply reply;
        int status = grpc_client_stream_finish(stream, &reply);
        ck_assert_msg(status == GRPC_STATUS_OK || status == GRPC_STATUS_RESOURCE_EXHAUSTED, "%d %s",
                      status, reply.message);
        refused += status != GRPC_STATUS_OK;
    }
    base_alloc_fail_at(0);
    ck_assert_uint_gt(refused, 0);
}
END_TEST

/* ---- Drain ---- */

static void end_drained(void)
{
    streams_check_accounts();
    grpc_client_free(streams_client);
    grpc_fixture_end(&streams_fixture);
}

START_TEST(test_reflection_drain_ends_it)
{
    streams_setup();
    struct grpc_client_stream *stream = open_path(V1);
    ck_assert(ask(stream, ASKS(LIST_SERVICES), ""));
    release(receive(stream));
    grpc_fixture_drain(&streams_fixture);
    streams_expect_end(stream, GRPC_STATUS_UNAVAILABLE, STOPPING);
    ck_assert(grpc_fixture_wait_drained(&streams_fixture, 10000));
    end_drained();
}
END_TEST

/* Some 13 MB of answers, of which gRPC takes a few for a client that reads nothing. It does not
 * hold up a drain: nobody cancels it but the server. */
START_TEST(test_reflection_drain_beside_a_client_that_does_not_read)
{
    streams_setup();
    struct grpc_client_stream *stream = open_path(V1);
    for (int i = 0; i < 1000; i++) {
        ck_assert(ask(stream, ASKS(FILE_BY_FILENAME), files[1]));
    }
    (void)usleep(100000);
    grpc_fixture_drain(&streams_fixture);
    ck_assert(!grpc_fixture_wait_drained(&streams_fixture, 100));
    ck_assert(grpc_fixture_wait_drained(&streams_fixture, 10000));
    expect_end(stream, GRPC_STATUS_UNAVAILABLE, "");
    end_drained();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_reflection");
    TCase *tcase = tcase_create("reflection");
    tcase_add_checked_fixture(tcase, streams_setup, streams_teardown);
    tcase_add_test(tcase, test_reflection_lists_services);
    tcase_add_test(tcase, test_reflection_tells_the_methods_that_work);
    tcase_add_test(tcase, test_reflection_finds_symbols);
    tcase_add_test(tcase, test_reflection_unknown_symbols);
    tcase_add_test(tcase, test_reflection_unknown_files);
    tcase_add_test(tcase, test_reflection_has_no_extensions);
    tcase_add_test(tcase, test_reflection_many_questions_before_any_answer);
    tcase_add_test(tcase, test_reflection_malformed_messages_end_it);
    tcase_add_test(tcase, test_reflection_long_messages);
    tcase_add_test(tcase, test_reflection_random_messages);
    tcase_add_test(tcase, test_reflection_half_close_alone);
    tcase_add_test(tcase, test_reflection_cancel);
    tcase_add_test(tcase, test_reflection_without_memory);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("options and drain");
    tcase_add_test(tcase, test_reflection_counts_as_a_stream);
    tcase_add_test(tcase, test_reflection_without_memory_for_an_answer);
    tcase_add_test(tcase, test_reflection_drain_ends_it);
    tcase_add_test(tcase, test_reflection_drain_beside_a_client_that_does_not_read);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
