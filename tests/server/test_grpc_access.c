/* Tokens over gRPC: what is refused without one, with which status, for each kind of method; and
 * that nothing of what was refused is left. */
#include "proto/health.pb-c.h"
#include "tests/server/access.h"
#include "tests/server/grpc_fixture.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USE     "a-token-of-those-who-ask"
#define CONTROL "a-token-of-those-who-load"

static struct grpc_fixture fixture;
static struct grpc_client *client;
static struct srv_access sets;

static void setup(void)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    sets = (struct srv_access){access_tokens(USE "\n"), access_tokens(CONTROL "\n")};
    options.access = &sets;
    grpc_fixture_start(&fixture, &options);
    client = grpc_client_create(fixture.port);
}

static void teardown(void)
{
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&fixture, &counts));
    ck_assert_uint_eq(counts.arrived, counts.finished);
    ck_assert_uint_eq(counts.infer_open, 0);
    ck_assert_uint_eq(counts.infer_bytes, 0);
    ck_assert_uint_eq(counts.streams_open, 0);
    grpc_client_free(client);
    grpc_fixture_stop(&fixture);
    srv_tokens_free(sets.use);
    srv_tokens_free(sets.control);
}

/* A call of one message, with this token or none; returns its status. */
static int call(const char *path, const char *token, const void *bytes, size_t length)
{
    char header[300];
    struct grpc_client_reply reply;
    (void)snprintf(header, sizeof header, "Bearer %s", token == NULL ? "" : token);
    struct grpc_client_stream *stream = grpc_client_stream_open(
        client, path, 10000, token == NULL ? NULL : "authorization", header);
    (void)grpc_client_stream_send(stream, bytes, length);
    grpc_client_stream_half_close(stream);
    return grpc_client_stream_finish(stream, &reply);
}

static int infer(const char *token)
{
    size_t length;
    uint8_t *bytes = grpc_fixture_request("r", 1, 3, &length);
    const int status = call(GRPC_FIXTURE_SERVICE "ModelInfer", token, bytes, length);
    free(bytes);
    return status;
}

START_TEST(test_inference)
{
    ck_assert_int_eq(infer(NULL), GRPC_STATUS_UNAUTHENTICATED);
    ck_assert_int_eq(infer("a-token-of-nobody-at-all"), GRPC_STATUS_UNAUTHENTICATED);
    ck_assert_int_eq(infer(USE), GRPC_STATUS_OK);
    ck_assert_int_eq(infer(CONTROL), GRPC_STATUS_OK);
    ck_assert_uint_eq(fixture.core.started, 2);
    const uint64_t *totals = fixture.core.counters.requests_total[SRV_PROTOCOL_GRPC];
    ck_assert_uint_eq(totals[BASE_UNAUTHENTICATED], 2);
}
END_TEST

static int infer_by_stream(const char *token)
{
    size_t length;
    uint8_t *bytes = grpc_fixture_request("r", 1, 3, &length);
    const int status = call(GRPC_FIXTURE_SERVICE "ModelStreamInfer", token, bytes, length);
    free(bytes);
    return status;
}

START_TEST(test_streams)
{
    ck_assert_int_eq(infer_by_stream(NULL), GRPC_STATUS_UNAUTHENTICATED);
    ck_assert_int_eq(infer_by_stream(USE "x"), GRPC_STATUS_UNAUTHENTICATED);
    ck_assert_uint_eq(fixture.core.started, 0);
    ck_assert_int_eq(infer_by_stream(USE), GRPC_STATUS_OK);
    ck_assert_uint_eq(fixture.core.started, 1);
}
END_TEST

START_TEST(test_questions)
{
    static const char *const guarded[] = {"ModelReady", "ServerMetadata", "RepositoryIndex"};
    static const char *const free_for_all[] = {"ServerLive", "ServerReady"};
    char path[128];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, GRPC_FIXTURE_SERVICE "%s", guarded[i]);
        ck_assert_int_eq(call(path, NULL, "", 0), GRPC_STATUS_UNAUTHENTICATED);
        ck_assert_int_eq(call(path, USE, "", 0), GRPC_STATUS_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, GRPC_FIXTURE_SERVICE "%s", free_for_all[i]);
        ck_assert_int_eq(call(path, NULL, "", 0), GRPC_STATUS_OK);
        ck_assert_int_eq(call(path, "a-token-of-nobody-at-all", "", 0), GRPC_STATUS_OK);
    }
    ck_assert_int_eq(call("/grpc.health.v1.Health/Check", NULL, "", 0), GRPC_STATUS_OK);
    ck_assert_int_eq(call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", NULL, "", 0),
                     GRPC_STATUS_UNAUTHENTICATED);
}
END_TEST

START_TEST(test_watch_is_free)
{
    struct grpc_client_reply reply;
    struct grpc_client_stream *stream =
        grpc_client_stream_open(client, "/grpc.health.v1.Health/Watch", 10000, NULL, NULL);
    ck_assert(grpc_client_stream_send(stream, "", 0));
    ck_assert(grpc_client_stream_receive(stream, &reply));
    grpc_client_reply_release(&reply);
    grpc_client_stream_cancel(stream);
    ck_assert_int_eq(grpc_client_stream_finish(stream, &reply), GRPC_STATUS_CANCELLED);
}
END_TEST

START_TEST(test_loads)
{
    static const char load[] = "\x12\x03sum"; // field 2
    const char *path = GRPC_FIXTURE_SERVICE "RepositoryModelLoad";
    ck_assert_int_eq(call(path, NULL, load, 5), GRPC_STATUS_UNAUTHENTICATED);
    ck_assert_int_eq(call(path, USE, load, 5), GRPC_STATUS_PERMISSION_DENIED);
    ck_assert_uint_eq(fixture.core.controls_begun, 0);
    ck_assert_int_eq(call(path, CONTROL, load, 5), GRPC_STATUS_OK);
    ck_assert_uint_eq(fixture.core.controls_begun, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_access");
    TCase *tcase = tcase_create("access");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_inference);
    tcase_add_test(tcase, test_streams);
    tcase_add_test(tcase, test_questions);
    tcase_add_test(tcase, test_watch_is_free);
    tcase_add_test(tcase, test_loads);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
