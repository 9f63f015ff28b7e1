/* RepositoryModelLoad and RepositoryModelUnload: their messages; calls that wait for their order,
 * and clients, drains and servers that do not. After each case every call object is free again and
 * every call has had exactly one status. */
#include "base/mem.h"
#include "proto/inference.pb-c.h"
#include "server/grpc/codec.h"
#include "server/orders.h"
#include "tests/server/grpc_fixture.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD   GRPC_FIXTURE_SERVICE "RepositoryModelLoad"
#define UNLOAD GRPC_FIXTURE_SERVICE "RepositoryModelUnload"

/* ---- Messages ---- */

/* Bytes of a message, from texts that begin with each field's tag and length. */
struct message {
    uint8_t bytes[512];
    size_t length;
};

static struct message message_of(const char *bytes, size_t length)
{
    struct message message = {.length = length};
    ck_assert_uint_le(length, sizeof message.bytes);
    memcpy(message.bytes, bytes, length);
    return message;
}

#define MESSAGE(text) message_of((text), sizeof(text) - 1)

static enum base_status decode(const struct message *message, enum srv_control_kind kind,
                               char name[CELL_NAME_BYTES], struct base_error *error)
{
    // Of exactly its size, so that a sanitizer sees a step beyond.
    uint8_t *copy = base_alloc(message->length + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, message->bytes, message->length);
    enum base_status status =
        srv_grpc_decode_order((struct srv_grpc_bytes){copy, message->length}, kind, name, error);
    base_free(copy);
    return status;
}

START_TEST(test_order_names_of_both_numberings)
{
    const struct message messages[] = {
        MESSAGE("\x12\x01m"),                  // Triton's: field 2
        MESSAGE("\x0a\x01m"),                  // KServe's: field 1
        MESSAGE("\x0a\x00\x12\x01m"),          // an empty repository
        MESSAGE("\x0a\x01m\x12\x00"),          // an empty model
        MESSAGE("\x12\x01x\x12\x01m"),         // the last counts
        MESSAGE("\x12\x01m\x22\x01y\x28\x07"), // fields that nobody knows
    };
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        char name[CELL_NAME_BYTES];
        struct base_error error = {.message = ""};
        ck_assert_msg(decode(&messages[i], SRV_CONTROL_LOAD, name, &error) == BASE_OK, "%zu: %s", i,
                      error.message);
        ck_assert_str_eq(name, "m");
    }
}
END_TEST

/* An entry {key 1, value 2 {field}} of parameters (3), behind the model's name. */
#define WITH(key, value) MESSAGE("\x12\x01m\x1a" key "\x12" value)

START_TEST(test_order_parameters)
{
    static const struct {
        const char *words; /* NULL: accepted */
        enum srv_control_kind kind;
    } wanted[] = {
        {NULL, SRV_CONTROL_UNLOAD},
        {NULL, SRV_CONTROL_UNLOAD},
        {"'config' is not", SRV_CONTROL_LOAD},
        {"'file:1/m' is not", SRV_CONTROL_LOAD},
        {"unrecognized load parameter 'configs'", SRV_CONTROL_LOAD},
        {"unrecognized load parameter 'unload_dependents'", SRV_CONTROL_LOAD},
        {"unrecognized load parameter ''", SRV_CONTROL_LOAD},
        {"malformed", SRV_CONTROL_LOAD},
        {"malformed", SRV_CONTROL_UNLOAD},
    };
    const struct message messages[] = {
        WITH("\x17\x0a\x11unload_dependents", "\x02\x08\x01"),
        WITH("\x0a\x0a\x04more", "\x02\x08\x01"),
        WITH("\x0d\x0a\x06"
             "config",
             "\x03\x1a\x01{"),
        WITH("\x0f\x0a\x08"
             "file:1/m",
             "\x03\x22\x01\xff"),
        WITH("\x0d\x0a\x07"
             "configs",
             "\x02\x10\x05"),
        WITH("\x17\x0a\x11unload_dependents", "\x02\x08\x01"),
        WITH("\x04", "\x02\x08\x01"),
        WITH("\x0d\x0a\x07"
             "config\xff",
             "\x02\x08\x01"),
        WITH("\x0d\x0a\x7f"
             "config\xff",
             "\x02\x08\x01"),
    };
    char name[CELL_NAME_BYTES];
    struct base_error error = {.message = ""};
    enum base_status status = decode(&messages[_i], wanted[_i].kind, name, &error);
    if (wanted[_i].words == NULL) {
        ck_assert_msg(status == BASE_OK, "%s", error.message);
        ck_assert_str_eq(name, "m");
    } else {
        ck_assert_int_eq(status, BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, wanted[_i].words) != NULL, "%s", error.message);
    }
}
END_TEST

enum { PARAMETER_CASES = 9 };

START_TEST(test_order_names_that_cannot_be)
{
    static const struct {
        enum base_status status;
        const char *words;
    } wanted[] = {
        {BASE_INVALID_ARGUMENT, "names no model"}, {BASE_INVALID_ARGUMENT, "names no model"},
        {BASE_UNIMPLEMENTED, "repository_name"},   {BASE_INVALID_ARGUMENT, "UTF-8"},
        {BASE_INVALID_ARGUMENT, "UTF-8"},          {BASE_INVALID_ARGUMENT, "malformed"},
        {BASE_INVALID_ARGUMENT, "malformed"},      {BASE_INVALID_ARGUMENT, "128 bytes"},
    };
    struct message messages[] = {
        MESSAGE(""),
        MESSAGE("\x0a\x00\x12\x00"),
        MESSAGE("\x0a\x01r\x12\x01m"),
        MESSAGE("\x12\x01\xff"),
        MESSAGE("\x12\x03m\x00n"),
        MESSAGE("\x12\x05m"),
        MESSAGE("\x10\x01"),
        MESSAGE("\x12\x80\x01"),
    };
    const size_t count = sizeof messages / sizeof messages[0];
    memset(messages[count - 1].bytes + 3, 'm', 128);
    messages[count - 1].length = 131;
    for (size_t i = 0; i < count; i++) {
        char name[CELL_NAME_BYTES];
        struct base_error error = {.message = ""};
        ck_assert_int_eq(decode(&messages[i], SRV_CONTROL_UNLOAD, name, &error), wanted[i].status);
        ck_assert_msg(strstr(error.message, wanted[i].words) != NULL, "%zu: %s", i, error.message);
    }
}
END_TEST

/* ---- Calls ---- */

static struct grpc_fixture fixture;
static struct grpc_client *client;

static void setup(void)
{
    grpc_fixture_start(&fixture, NULL);
    client = grpc_client_create(fixture.port);
}

static void check_accounts(void)
{
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&fixture, &counts));
    uint64_t answered = 0;
    for (int i = 0; i < BASE_STATUS_COUNT; i++) {
        answered += counts.answered[i];
    }
    ck_assert_uint_eq(counts.arrived, counts.finished);
    ck_assert_uint_eq(counts.arrived, answered);
}

static void teardown(void)
{
    check_accounts();
    grpc_client_free(client);
    grpc_fixture_stop(&fixture);
    ck_assert_uint_eq(fixture.core.controls_running, 0);
}

static void set_hold(struct grpc_fixture *f)
{
    f->core.pace = FAKE_HOLD;
}

static void set_later(struct grpc_fixture *f)
{
    f->core.pace = FAKE_LATER;
    f->core.delay_ms = 20;
}

static void set_failing(struct grpc_fixture *f)
{
    f->core.fail = BASE_NOT_FOUND;
}

static void set_off(struct grpc_fixture *f)
{
    f->core.control_off = true;
}

static void set_draining(struct grpc_fixture *f)
{
    f->core.draining = true;
}

static void end_controls(struct grpc_fixture *f)
{
    fake_core_end_controls(&f->core);
}

static uint32_t seen_running;

static void look(struct grpc_fixture *f)
{
    seen_running = f->core.controls_running;
}

static bool wait_controls(uint32_t running)
{
    for (int i = 0; i < 10000; i++) {
        grpc_fixture_on_loop(&fixture, look);
        if (seen_running == running) {
            return true;
        }
        (void)usleep(1000);
    }
    return false;
}

static struct grpc_client_call *start_call(const char *path, uint32_t timeout_ms)
{
    static const uint8_t bytes[] = {0x12, 3, 's', 'u', 'm'};
    return grpc_client_start(client, path, bytes, sizeof bytes, timeout_ms);
}

static int wait_call(struct grpc_client_call *call)
{
    struct grpc_client_reply reply;
    grpc_client_wait(call, &reply);
    grpc_client_reply_release(&reply);
    return reply.status;
}

static void check_refused(const char *path, int status, const char *words)
{
    struct grpc_client_reply reply;
    grpc_client_wait(start_call(path, 0), &reply);
    ck_assert_int_eq(reply.status, status);
    ck_assert_msg(strstr(reply.message, words) != NULL, "%s", reply.message);
    ck_assert_ptr_null(reply.bytes);
    grpc_client_reply_release(&reply);
}

START_TEST(test_order_is_answered_when_it_has_ended)
{
    void (*const paces[])(struct grpc_fixture *) = {NULL, set_later};
    if (paces[_i] != NULL) {
        grpc_fixture_on_loop(&fixture, paces[_i]);
    }
    struct grpc_client_reply reply;
    grpc_client_wait(start_call(LOAD, 0), &reply);
    ck_assert_msg(reply.status == GRPC_STATUS_OK, "%s", reply.message);
    Inference__RepositoryModelLoadResponse *loaded =
        inference__repository_model_load_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_str_eq(loaded->model_name, "sum");
    ck_assert(loaded->isloaded);
    inference__repository_model_load_response__free_unpacked(loaded, NULL);
    grpc_client_reply_release(&reply);
    ck_assert_int_eq((int)fixture.core.control_kind, (int)SRV_CONTROL_LOAD);

    grpc_client_wait(start_call(UNLOAD, 0), &reply);
    ck_assert_int_eq(reply.status, GRPC_STATUS_OK);
    Inference__RepositoryModelUnloadResponse *unloaded =
        inference__repository_model_unload_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_str_eq(unloaded->model_name, "sum");
    ck_assert(unloaded->isunloaded);
    inference__repository_model_unload_response__free_unpacked(unloaded, NULL);
    grpc_client_reply_release(&reply);
    ck_assert_int_eq((int)fixture.core.control_kind, (int)SRV_CONTROL_UNLOAD);
    ck_assert_str_eq(fixture.core.control_name, "sum");
    ck_assert_uint_eq(fixture.core.controls_begun, 2);
}
END_TEST

START_TEST(test_order_errors_are_the_status_of_the_call)
{
    grpc_fixture_on_loop(&fixture, set_failing);
    check_refused(LOAD, GRPC_STATUS_NOT_FOUND, "'sum'");
    grpc_fixture_on_loop(&fixture, set_draining);
    check_refused(UNLOAD, GRPC_STATUS_UNAVAILABLE, "drain");
    grpc_fixture_on_loop(&fixture, set_off);
    check_refused(LOAD, GRPC_STATUS_FAILED_PRECONDITION, "off");
    static const uint8_t bad[] = {0x12, 2, '.', '.'};
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_unary(client, LOAD, bad, 0, &reply), GRPC_STATUS_INVALID_ARGUMENT);
    grpc_client_reply_release(&reply);
    fixture.core.control_off = fixture.core.draining = false;
    ck_assert_int_eq(grpc_client_unary(client, LOAD, bad, sizeof bad, &reply),
                     GRPC_STATUS_INVALID_ARGUMENT);
    grpc_client_reply_release(&reply);
    ck_assert_uint_eq(fixture.core.controls_begun, 1);
}
END_TEST

/* A load with a file of a megabyte, which has to be refused by its name. */
START_TEST(test_order_with_a_file_is_refused)
{
    enum { FILE_BYTES = 1 << 20 };
    static char model[] = "sum";
    static char key[] = "file:1/model.onnx";
    uint8_t *file = calloc(1, FILE_BYTES);
    Inference__ModelRepositoryParameter value;
    Inference__RepositoryModelLoadRequest__ParametersEntry entry;
    Inference__RepositoryModelLoadRequest__ParametersEntry *entries[] = {&entry};
    Inference__RepositoryModelLoadRequest request;
    inference__model_repository_parameter__init(&value);
    inference__repository_model_load_request__parameters_entry__init(&entry);
    inference__repository_model_load_request__init(&request);
    value.parameter_choice_case =
        INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BYTES_PARAM;
    value.bytes_param = (ProtobufCBinaryData){FILE_BYTES, file};
    entry.key = key;
    entry.value = &value;
    request.model_name = model;
    request.n_parameters = 1;
    request.parameters = entries;
    uint8_t *bytes = malloc(FILE_BYTES + 256);
    size_t length = inference__repository_model_load_request__pack(&request, bytes);
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_unary(client, LOAD, bytes, length, &reply),
                     GRPC_STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(reply.message, key));
    grpc_client_reply_release(&reply);
    ck_assert_uint_eq(fixture.core.controls_begun, 0);
    free(file);
    free(bytes);
}
END_TEST

START_TEST(test_order_goes_on_when_its_client_cancels)
{
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *stays = start_call(LOAD, 0);
    struct grpc_client_call *goes = start_call(LOAD, 0);
    ck_assert(wait_controls(2));
    (void)usleep(_i == 0 ? 0 : 50000); // before and after the call is watched
    grpc_client_cancel(goes);
    ck_assert_int_eq(wait_call(goes), GRPC_STATUS_CANCELLED);
    while (grpc_fixture_counts(&fixture).open > 1) {
        (void)usleep(1000);
    }
    ck_assert(wait_controls(2));
    grpc_fixture_on_loop(&fixture, end_controls);
    ck_assert_int_eq(wait_call(stays), GRPC_STATUS_OK);
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).answered[BASE_CANCELLED], 1);
}
END_TEST

START_TEST(test_order_goes_on_when_its_deadline_passes)
{
    grpc_fixture_on_loop(&fixture, set_hold);
    ck_assert_int_eq(wait_call(start_call(UNLOAD, 50)), GRPC_STATUS_DEADLINE_EXCEEDED);
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&fixture, &counts));
    ck_assert_uint_eq(counts.answered[BASE_DEADLINE_EXCEEDED], 1);
    ck_assert(wait_controls(1));
    grpc_fixture_on_loop(&fixture, end_controls);
    ck_assert(wait_controls(0));
}
END_TEST

/* Also those whose clients have left count, until they have ended. */
START_TEST(test_order_more_than_allowed_are_refused)
{
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *calls[SRV_ORDERS_MAX];
    for (uint32_t i = 0; i < SRV_ORDERS_MAX; i++) {
        calls[i] = start_call(i % 2 == 0 ? LOAD : UNLOAD, 0);
    }
    ck_assert(wait_controls(SRV_ORDERS_MAX));
    for (uint32_t i = 0; i < SRV_ORDERS_MAX; i++) {
        grpc_client_cancel(calls[i]);
        ck_assert_int_eq(wait_call(calls[i]), GRPC_STATUS_CANCELLED);
    }
    ck_assert(grpc_fixture_wait_idle(&fixture, NULL));
    check_refused(LOAD, GRPC_STATUS_RESOURCE_EXHAUSTED, "busy");
    grpc_fixture_on_loop(&fixture, end_controls);
    grpc_fixture_on_loop(&fixture, set_later);
    ck_assert_int_eq(wait_call(start_call(LOAD, 0)), GRPC_STATUS_OK);
}
END_TEST

START_TEST(test_order_cancels_at_random_moments)
{
    struct base_random random = util_random(1);
    grpc_fixture_on_loop(&fixture, set_later);
    for (int i = 0; i < 100; i++) {
        struct grpc_client_call *call = start_call(LOAD, 0);
        (void)usleep(base_random_below(&random, 30000));
        grpc_client_cancel(call);
        int status = wait_call(call);
        ck_assert(status == GRPC_STATUS_OK || status == GRPC_STATUS_CANCELLED);
    }
    ck_assert(wait_controls(0));
}
END_TEST

/* ---- Drain ---- */

static void end(void)
{
    ck_assert(grpc_fixture_wait_drained(&fixture, 10000));
    check_accounts();
    grpc_client_free(client);
    grpc_fixture_end(&fixture);
}

START_TEST(test_order_is_awaited_by_a_drain)
{
    setup();
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *call = start_call(LOAD, 0);
    ck_assert(wait_controls(1));
    grpc_fixture_drain(&fixture);
    ck_assert(!grpc_fixture_wait_drained(&fixture, 50));
    grpc_fixture_on_loop(&fixture, end_controls);
    ck_assert_int_eq(wait_call(call), GRPC_STATUS_OK);
    end();
}
END_TEST

/* The server is gone when the order ends. */
START_TEST(test_order_outlives_the_server)
{
    setup();
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *call = start_call(LOAD, 0);
    struct grpc_client_call *gone = start_call(UNLOAD, 0);
    ck_assert(wait_controls(2));
    grpc_client_cancel(gone);
    ck_assert_int_eq(wait_call(gone), GRPC_STATUS_CANCELLED);
    grpc_fixture_drain(&fixture);
    grpc_fixture_cancel_all(&fixture);
    ck_assert_int_ne(wait_call(call), GRPC_STATUS_OK);
    end();
    ck_assert_uint_eq(fixture.core.controls_running, 2);
    fake_core_end_controls(&fixture.core);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_order");
    TCase *tcase = tcase_create("messages");
    tcase_add_test(tcase, test_order_names_of_both_numberings);
    tcase_add_loop_test(tcase, test_order_parameters, 0, PARAMETER_CASES);
    tcase_add_test(tcase, test_order_names_that_cannot_be);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("calls");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_order_is_answered_when_it_has_ended, 0, 2);
    tcase_add_test(tcase, test_order_errors_are_the_status_of_the_call);
    tcase_add_test(tcase, test_order_with_a_file_is_refused);
    tcase_add_loop_test(tcase, test_order_goes_on_when_its_client_cancels, 0, 2);
    tcase_add_test(tcase, test_order_goes_on_when_its_deadline_passes);
    tcase_add_test(tcase, test_order_more_than_allowed_are_refused);
    tcase_add_test(tcase, test_order_cancels_at_random_moments);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("drain");
    tcase_add_test(tcase, test_order_is_awaited_by_a_drain);
    tcase_add_test(tcase, test_order_outlives_the_server);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
