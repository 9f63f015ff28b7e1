/* Health/Watch: what it says and when, how it ends, and what clients may not do to it. After each
 * case every call object is free again and every call has had exactly one status. */
#include "base/clock.h"
#include "base/mem.h"
#include "proto/health.pb-c.h"
#include "tests/server/grpc_streams.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH    "/grpc.health.v1.Health/Watch"
#define STOPPING "the server is stopping"

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

static struct grpc_client_stream *open_watch(uint32_t timeout_ms)
{
    return grpc_client_stream_open(streams_client, WATCH, timeout_ms, NULL, NULL);
}

/* As clients do: one message, and the end of their half. */
static bool ask(struct grpc_client_stream *stream, const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request;
    grpc__health__v1__health_check_request__init(&request);
    uint8_t bytes[256];
    char name[128];
    snprintf(name, sizeof name, "%s", service);
    request.service = name;
    size_t length = grpc__health__v1__health_check_request__pack(&request, bytes);
    bool sent = grpc_client_stream_send(stream, bytes, length);
    grpc_client_stream_half_close(stream);
    return sent;
}

static struct grpc_client_stream *watch(const char *service)
{
    struct grpc_client_stream *stream = open_watch(0);
    ck_assert(ask(stream, service));
    return stream;
}

/* The next status that is said. */
static int next(struct grpc_client_stream *stream)
{
    struct grpc_client_reply reply;
    ck_assert(grpc_client_stream_receive(stream, &reply));
    Grpc__Health__V1__HealthCheckResponse *answer =
        grpc__health__v1__health_check_response__unpack(NULL, reply.length, reply.bytes);
    ck_assert_ptr_nonnull(answer);
    int status = (int)answer->status;
    grpc__health__v1__health_check_response__free_unpacked(answer, NULL);
    grpc_client_reply_release(&reply);
    return status;
}

static void cancel(struct grpc_client_stream *stream)
{
    grpc_client_stream_cancel(stream);
    streams_expect_end(stream, GRPC_STATUS_CANCELLED, NULL);
}

static void set_not_ready(struct grpc_fixture *fixture)
{
    fixture->core.ready = false;
}

static void set_ready(struct grpc_fixture *fixture)
{
    fixture->core.ready = true;
}

static void set_draining(struct grpc_fixture *fixture)
{
    fixture->core.draining = true;
}

static void set_broken_ready(struct grpc_fixture *fixture)
{
    fixture->core.models[0].state = SRV_MODEL_READY;
}

static void rename_broken(struct grpc_fixture *fixture)
{
    static const char name[] = "later";
    memcpy(fixture->core.models[0].name, name, sizeof name);
    fixture->core.models[0].state = SRV_MODEL_LOADING;
}

/* ---- What is said ---- */

START_TEST(test_watch_says_the_status_at_once)
{
    static const struct {
        const char *service;
        int status;
    } cases[] = {
        {"", STATUS(SERVING)},
        {"inference.GRPCInferenceService", STATUS(SERVING)},
        {"sum", STATUS(SERVING)},
        {"broken", STATUS(NOT_SERVING)},
        {"none", STATUS(SERVICE_UNKNOWN)},
        {"grpc.health.v1.Health", STATUS(SERVICE_UNKNOWN)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct grpc_client_stream *stream = watch(cases[i].service);
        ck_assert_int_eq(next(stream), cases[i].status);
        cancel(stream);
    }
}
END_TEST

START_TEST(test_watch_says_each_change_once)
{
    struct grpc_client_stream *stream = watch("");
    ck_assert_int_eq(next(stream), STATUS(SERVING));
    for (int i = 0; i < 3; i++) {
        grpc_fixture_on_loop(&streams_fixture, set_not_ready);
        ck_assert_int_eq(next(stream), STATUS(NOT_SERVING));
        grpc_fixture_on_loop(&streams_fixture, set_ready);
        ck_assert_int_eq(next(stream), STATUS(SERVING));
    }
    cancel(stream);
}
END_TEST

START_TEST(test_watch_of_a_model_follows_that_model)
{
    struct grpc_client_stream *broken = watch("broken");
    struct grpc_client_stream *later = watch("later");
    ck_assert_int_eq(next(broken), STATUS(NOT_SERVING));
    ck_assert_int_eq(next(later), STATUS(SERVICE_UNKNOWN));
    grpc_fixture_on_loop(&streams_fixture, set_broken_ready);
    ck_assert_int_eq(next(broken), STATUS(SERVING));
    grpc_fixture_on_loop(&streams_fixture, rename_broken);
    ck_assert_int_eq(next(broken), STATUS(SERVICE_UNKNOWN));
    ck_assert_int_eq(next(later), STATUS(NOT_SERVING));
    grpc_fixture_on_loop(&streams_fixture, set_broken_ready);
    ck_assert_int_eq(next(later), STATUS(SERVING));
    cancel(broken);
    cancel(later);
}
END_TEST

START_TEST(test_watch_says_that_a_drain_begins)
{
    static const char *const services[] = {"", "inference.GRPCInferenceService", "sum"};
    struct grpc_client_stream *streams[3];
    for (int i = 0; i < 3; i++) {
        streams[i] = watch(services[i]);
        ck_assert_int_eq(next(streams[i]), STATUS(SERVING));
    }
    grpc_fixture_on_loop(&streams_fixture, set_draining);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(next(streams[i]), STATUS(NOT_SERVING));
        cancel(streams[i]);
    }
}
END_TEST

START_TEST(test_watch_many_watchers_come_and_go)
{
    enum { WATCHERS = 40 };
    struct grpc_client_stream *streams[WATCHERS];
    for (int i = 0; i < WATCHERS; i++) {
        streams[i] = watch(i % 2 == 0 ? "" : "sum");
        ck_assert_int_eq(next(streams[i]), STATUS(SERVING));
    }
    for (int i = 0; i < WATCHERS; i += 4) {
        cancel(streams[i]);
    }
    grpc_fixture_on_loop(&streams_fixture, set_draining);
    for (int i = 0; i < WATCHERS; i++) {
        if (i % 4 != 0) {
            ck_assert_int_eq(next(streams[i]), STATUS(NOT_SERVING));
            cancel(streams[i]);
        }
    }
}
END_TEST

/* When the last watcher has gone, nobody looks any more; and again when one comes. */
START_TEST(test_watch_begins_anew_after_a_pause)
{
    for (int i = 0; i < 2; i++) {
        struct grpc_client_stream *stream = watch("");
        ck_assert_int_eq(next(stream), STATUS(SERVING));
        grpc_fixture_on_loop(&streams_fixture, set_not_ready);
        ck_assert_int_eq(next(stream), STATUS(NOT_SERVING));
        cancel(stream);
        ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
        (void)usleep(120000);
        grpc_fixture_on_loop(&streams_fixture, set_ready);
    }
}
END_TEST

/* A client need not end its half, and what else it sends is not read. */
START_TEST(test_watch_with_an_open_half)
{
    static const uint8_t garbage[] = {0xff, 0xff};
    struct grpc_client_stream *stream = open_watch(0);
    ck_assert(grpc_client_stream_send(stream, NULL, 0));
    ck_assert_int_eq(next(stream), STATUS(SERVING));
    ck_assert(grpc_client_stream_send(stream, garbage, sizeof garbage));
    grpc_fixture_on_loop(&streams_fixture, set_not_ready);
    ck_assert_int_eq(next(stream), STATUS(NOT_SERVING));
    cancel(stream);
}
END_TEST

/* ---- Ends ---- */

/* What is said before is not looked at. */
static void expect_end(struct grpc_client_stream *stream, int status, const char *begins)
{
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_stream_finish(stream, &reply), status);
    ck_assert_msg(strncmp(reply.message, begins, strlen(begins)) == 0, "%s", reply.message);
}

START_TEST(test_watch_deadline)
{
    struct grpc_client_stream *stream = open_watch(300);
    ck_assert(ask(stream, ""));
    expect_end(stream, GRPC_STATUS_DEADLINE_EXCEEDED, "");
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, &counts));
    ck_assert_uint_eq(counts.answered[BASE_DEADLINE_EXCEEDED], 1);
}
END_TEST

START_TEST(test_watch_malformed_messages_end_it)
{
    static const uint8_t cut[] = {1 << 3 | 2, 9, 'a'};
    static const uint8_t no_text[] = {1 << 3 | 2, 1, 0xff};
    static uint8_t long_name[200] = {1 << 3 | 2, 197, 1};
    memset(long_name + 3, 'a', sizeof long_name - 3);
    struct grpc_client_stream *stream = open_watch(0);
    ck_assert(grpc_client_stream_send(stream, cut, sizeof cut));
    expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT, "");
    stream = open_watch(0);
    ck_assert(grpc_client_stream_send(stream, no_text, sizeof no_text));
    expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT, "");
    stream = open_watch(0);
    ck_assert(grpc_client_stream_send(stream, long_name, sizeof long_name));
    expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT, "");
    stream = open_watch(0);
    grpc_client_stream_half_close(stream);
    expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT, "a message is missing");
}
END_TEST

START_TEST(test_watch_long_messages_end_it)
{
    static const size_t lengths[] = {4097, 1u << 20};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *bytes = calloc(1, lengths[i]);
        ck_assert_ptr_nonnull(bytes);
        struct grpc_client_stream *stream = open_watch(0);
        // The call may be over before all of it is written.
        (void)grpc_client_stream_send(stream, bytes, lengths[i]);
        expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT, "the message has ");
        free(bytes);
    }
}
END_TEST

START_TEST(test_watch_ends_at_random_moments)
{
    enum { STREAMS = 16 };
    int rounds = util_is_quick() ? 5 : 30;
    struct base_random random = util_random(1);
    uint32_t odd = 0;
    for (int round = 0; round < rounds; round++) {
        struct grpc_client_stream *streams[STREAMS];
        for (int i = 0; i < STREAMS; i++) {
            streams[i] = open_watch(base_random_below(&random, 4) == 0 ? 3 : 0);
            if (base_random_below(&random, 4) != 0) {
                (void)ask(streams[i], base_random_below(&random, 2) == 0 ? "" : "none");
            }
        }
        usleep(base_random_below(&random, 3000));
        grpc_fixture_on_loop(&streams_fixture, round % 2 == 0 ? set_not_ready : set_ready);
        for (int i = 0; i < STREAMS; i++) {
            grpc_client_stream_cancel(streams[i]);
            struct grpc_client_reply reply;
            int status = grpc_client_stream_finish(streams[i], &reply);
            odd += status != GRPC_STATUS_CANCELLED && status != GRPC_STATUS_DEADLINE_EXCEEDED;
        }
    }
    ck_assert_uint_eq(odd, 0);
    streams_check_accounts();
}
END_TEST

/* ---- Limits ---- */

START_TEST(test_watch_counts_as_a_stream)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.streams_max = 2;
    streams_setup_with(&options);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    streams_expect(stream, "a", 1);
    struct grpc_client_stream *watcher = watch("");
    ck_assert_int_eq(next(watcher), STATUS(SERVING));
    struct grpc_client_stream *refused = open_watch(0);
    (void)ask(refused, "");
    expect_end(refused, GRPC_STATUS_RESOURCE_EXHAUSTED,
               "the server is busy: too many streams are open");
    expect_end(streams_open(0), GRPC_STATUS_RESOURCE_EXHAUSTED,
               "the server is busy: too many streams are open");
    cancel(watcher);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    watcher = watch("");
    ck_assert_int_eq(next(watcher), STATUS(SERVING));
    cancel(watcher);
    streams_teardown();
}
END_TEST

static void fail_next_allocation(struct grpc_fixture *fixture)
{
    (void)fixture;
    base_alloc_fail_at(1);
}

START_TEST(test_watch_without_memory_is_refused)
{
    grpc_fixture_on_loop(&streams_fixture, fail_next_allocation);
    struct grpc_client_stream *stream = open_watch(0);
    (void)ask(stream, "");
    expect_end(stream, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory left for another stream");
    stream = watch("");
    ck_assert_int_eq(next(stream), STATUS(SERVING));
    cancel(stream);
}
END_TEST

/* ---- Drain ---- */

static void end_drained(void)
{
    ck_assert(grpc_fixture_wait_drained(&streams_fixture, 10000));
    streams_check_accounts();
    grpc_client_free(streams_client);
    grpc_fixture_end(&streams_fixture);
}

START_TEST(test_watch_drain_ends_watchers)
{
    streams_setup();
    struct grpc_client_stream *fresh = open_watch(0);
    struct grpc_client_stream *used = watch("");
    ck_assert_int_eq(next(used), STATUS(SERVING));
    do {
    } while (grpc_fixture_counts(&streams_fixture).streams_open < 2);
    grpc_fixture_drain(&streams_fixture);
    streams_expect_end(fresh, GRPC_STATUS_UNAVAILABLE, STOPPING);
    streams_expect_end(used, GRPC_STATUS_UNAVAILABLE, STOPPING);
    end_drained();
}
END_TEST

START_TEST(test_watch_drain_with_requests_that_still_run)
{
    streams_setup();
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *watcher = watch("");
    ck_assert_int_eq(next(watcher), STATUS(SERVING));
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    grpc_fixture_drain(&streams_fixture);
    streams_expect_end(watcher, GRPC_STATUS_UNAVAILABLE, STOPPING);
    ck_assert(!grpc_fixture_wait_drained(&streams_fixture, 50));
    grpc_fixture_on_loop(&streams_fixture, streams_release_all);
    streams_expect(stream, "a", 1);
    streams_expect_end(stream, GRPC_STATUS_UNAVAILABLE, STOPPING);
    end_drained();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_watch");
    TCase *tcase = tcase_create("watch");
    tcase_add_checked_fixture(tcase, streams_setup, streams_teardown);
    tcase_add_test(tcase, test_watch_says_the_status_at_once);
    tcase_add_test(tcase, test_watch_says_each_change_once);
    tcase_add_test(tcase, test_watch_of_a_model_follows_that_model);
    tcase_add_test(tcase, test_watch_says_that_a_drain_begins);
    tcase_add_test(tcase, test_watch_many_watchers_come_and_go);
    tcase_add_test(tcase, test_watch_begins_anew_after_a_pause);
    tcase_add_test(tcase, test_watch_with_an_open_half);
    tcase_add_test(tcase, test_watch_deadline);
    tcase_add_test(tcase, test_watch_malformed_messages_end_it);
    tcase_add_test(tcase, test_watch_long_messages_end_it);
    tcase_add_test(tcase, test_watch_ends_at_random_moments);
    tcase_add_test(tcase, test_watch_without_memory_is_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("options and drain");
    tcase_add_test(tcase, test_watch_counts_as_a_stream);
    tcase_add_test(tcase, test_watch_drain_ends_watchers);
    tcase_add_test(tcase, test_watch_drain_with_requests_that_still_run);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
