/* ModelStreamInfer through a real client over a core without cells: order, errors, ends, limits.
 * Lives and deaths of streams are in test_grpc_stream_life.c. */
#include "base/mem.h"
#include "tests/server/grpc_streams.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Answers ---- */

START_TEST(test_stream_one_request_after_the_other)
{
    struct grpc_client_stream *stream = streams_open(0);
    for (uint32_t i = 1; i <= 5; i++) {
        ck_assert(streams_send(stream, "one", i));
        streams_expect(stream, "one", i);
    }
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    struct srv_grpc_counts counts = grpc_fixture_counts(&streams_fixture);
    ck_assert_uint_eq(counts.stream_requests, 5);
    ck_assert_uint_eq(counts.stream_answers, 5);
    ck_assert_uint_eq(counts.answered[BASE_OK], 1);
    ck_assert_uint_eq(streams_fixture.core.counters.requests_total[SRV_PROTOCOL_GRPC][BASE_OK], 5);
}
END_TEST

START_TEST(test_stream_answers_in_the_order_of_requests)
{
    static const char *const ids[] = {"a", "b", "c", "d", "e"};
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert(streams_send(stream, ids[i], i + 1));
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 5));
    // The last is done first, and waits.
    for (uint32_t i = 0; i < 4; i++) {
        grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    struct srv_grpc_counts counts = grpc_fixture_counts(&streams_fixture);
    ck_assert_uint_eq(counts.stream_answers, 0);
    ck_assert_uint_eq(counts.infer_open, 5);
    grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    for (uint32_t i = 0; i < 5; i++) {
        streams_expect(stream, ids[i], i + 1);
    }
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_stream_streams_do_not_wait_for_each_other)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *first = streams_open(0);
    struct grpc_client_stream *second = streams_open(0);
    ck_assert(streams_send(first, "first", 1));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    ck_assert(streams_send(second, "second", 2));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
    grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    streams_expect(second, "second", 2);
    grpc_client_stream_half_close(second);
    streams_expect_end(second, GRPC_STATUS_OK, "");
    grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    streams_expect(first, "first", 1);
    grpc_client_stream_half_close(first);
    streams_expect_end(first, GRPC_STATUS_OK, "");
}
END_TEST

/* Far more than HTTP/2's windows hold. */
START_TEST(test_stream_large_messages_both_ways)
{
    grpc_fixture_on_loop(&streams_fixture, streams_answer_large);
    struct grpc_client_stream *stream = streams_open(0);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(streams_send(stream, "large", 1u << 19));
    }
    grpc_client_stream_half_close(stream);
    for (uint32_t i = 0; i < 3; i++) {
        streams_expect(stream, "large", 1u << 19);
    }
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_stream_many_requests)
{
    enum { REQUESTS = 2000, AHEAD = 100 };
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.threads = 3;
    streams_setup_with(&options);
    struct grpc_client_stream *stream = streams_open(0);
    for (uint32_t i = 0; i < REQUESTS + AHEAD; i++) {
        char id[16];
        if (i < REQUESTS) {
            snprintf(id, sizeof id, "r%u", i);
            ck_assert(streams_send(stream, id, i % 7 + 1));
        }
        if (i >= AHEAD) {
            snprintf(id, sizeof id, "r%u", i - AHEAD);
            streams_expect(stream, id, (i - AHEAD) % 7 + 1);
        }
    }
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    streams_teardown();
}
END_TEST

START_TEST(test_stream_steady_state_allocates_nothing)
{
    struct grpc_client_stream *stream = streams_open(0);
    for (int i = 0; i < 200; i++) {
        ck_assert(streams_send(stream, "r", 3));
        streams_expect(stream, "r", 3);
    }
    uint64_t before = base_alloc_count();
    for (int i = 0; i < 500; i++) {
        ck_assert(streams_send(stream, "r", 3));
        streams_expect(stream, "r", 3);
    }
    // A late end of a batch may bring a fresh request, with its arena, into the round.
    ck_assert_uint_le(base_alloc_count() - before, 4);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* ---- Errors ---- */

START_TEST(test_stream_errors_are_answers)
{
    static const uint8_t malformed[] = {0x2a, 0x05, 'x'};
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(streams_send_unknown(stream, "b"));
    ck_assert(streams_send(stream, "c", 2));
    ck_assert(grpc_client_stream_send(stream, malformed, sizeof malformed));
    ck_assert(grpc_client_stream_send(stream, "", 0));
    ck_assert(streams_send(stream, "d", 3));
    streams_expect(stream, "a", 1);
    streams_expect_error(stream, "b", "som", "[request id: b] fake not found");
    streams_expect(stream, "c", 2);
    streams_expect_error(stream, "", "", "the message is not a ModelInferRequest");
    streams_expect_error(stream, "", "", "fake not found");
    streams_expect(stream, "d", 3);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    const uint64_t *counted = streams_fixture.core.counters.requests_total[SRV_PROTOCOL_GRPC];
    ck_assert_uint_eq(counted[BASE_OK], 3);
    ck_assert_uint_eq(counted[BASE_NOT_FOUND], 2);
    ck_assert_uint_eq(counted[BASE_INVALID_ARGUMENT], 1);
}
END_TEST

static void set_failure(struct grpc_fixture *fixture)
{
    fixture->core.fail = BASE_INTERNAL;
}

START_TEST(test_stream_failed_request)
{
    grpc_fixture_on_loop(&streams_fixture, set_failure);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    streams_expect_error(stream, "a", "sum", "[request id: a] fake internal error");
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* What is wrong within a tensor is found when the id is known. */
START_TEST(test_stream_error_names_the_request)
{
    size_t length;
    uint8_t *bytes = grpc_fixture_request("job-7", 1, 3, &length);
    bytes[length - 25] = 23;
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(grpc_client_stream_send(stream, bytes, length - 1));
    streams_expect_error(stream, "job-7", "sum", "[request id: job-7] input 'tokens':");
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    free(bytes);
}
END_TEST

START_TEST(test_stream_ends_at_the_first_error_when_asked_to)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream =
        grpc_client_stream_open(streams_client, STREAM_PATH, 0, "triton_grpc_error", "true");
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(streams_send(stream, "b", 2));
    ck_assert(streams_send_unknown(stream, "c"));
    ck_assert(streams_send(stream, "d", 3));
    ck_assert(streams_send(stream, "e", 4));
    ck_assert(streams_wait_requests(5));
    // "e" is done already, "d" runs: neither is answered.
    grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_answers, 0);
    grpc_fixture_on_loop(&streams_fixture, streams_release_oldest);
    grpc_fixture_on_loop(&streams_fixture, streams_release_oldest);
    streams_expect(stream, "a", 1);
    streams_expect(stream, "b", 2);
    streams_expect_end(stream, GRPC_STATUS_NOT_FOUND, "[request id: c] fake not found");
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(streams_fixture.core.cancels, 1);
    ck_assert_int_eq(streams_fixture.core.last_cancel, BASE_CANCELLED);
}
END_TEST

START_TEST(test_stream_malformed_message_ends_the_stream_when_asked_to)
{
    static const uint8_t malformed[] = {0x2a, 0x05, 'x'};
    struct grpc_client_stream *stream =
        grpc_client_stream_open(streams_client, STREAM_PATH, 0, "triton_grpc_error", "true");
    ck_assert(grpc_client_stream_send(stream, malformed, sizeof malformed));
    streams_expect_end(stream, GRPC_STATUS_INVALID_ARGUMENT,
                       "the message is not a ModelInferRequest");
}
END_TEST

START_TEST(test_stream_goes_on_when_asked_for_no_status)
{
    struct grpc_client_stream *stream =
        grpc_client_stream_open(streams_client, STREAM_PATH, 0, "triton_grpc_error", "false");
    ck_assert(streams_send_unknown(stream, "a"));
    streams_expect_error(stream, "a", "som", "[request id: a] fake not found");
    ck_assert(streams_send(stream, "b", 1));
    streams_expect(stream, "b", 1);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* ---- The client's half ---- */

START_TEST(test_stream_half_close_before_any_message)
{
    struct grpc_client_stream *stream = streams_open(0);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_stream_half_close_waits_for_the_answers)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(streams_send(stream, "b", 2));
    grpc_client_stream_half_close(stream);
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
    (void)usleep(20000);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).streams_open, 1);
    grpc_fixture_on_loop(&streams_fixture, streams_release_all);
    streams_expect(stream, "a", 1);
    streams_expect(stream, "b", 2);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* ---- Limits ---- */

static void release_for_good(struct grpc_fixture *fixture)
{
    fixture->core.pace = FAKE_AT_ONCE;
    fake_core_release(&fixture->core);
}

START_TEST(test_stream_reading_pauses_at_the_limit)
{
    enum { LIMIT = 64, REQUESTS = 70 };
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    char id[16];
    for (uint32_t i = 0; i < REQUESTS; i++) {
        snprintf(id, sizeof id, "r%u", i);
        ck_assert(streams_send(stream, id, i + 1));
    }
    grpc_client_stream_half_close(stream);
    ck_assert(grpc_fixture_wait_running(&streams_fixture, LIMIT));
    (void)usleep(50000);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_requests, LIMIT);
    // Done, but not answered before its turn: that makes no room.
    grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    (void)usleep(50000);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_requests, LIMIT);
    grpc_fixture_on_loop(&streams_fixture, streams_release_oldest);
    streams_expect(stream, "r0", 1);
    ck_assert(streams_wait_requests(LIMIT + 1));
    (void)usleep(50000);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_requests, LIMIT + 1);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).infer_open, LIMIT);
    grpc_fixture_on_loop(&streams_fixture, release_for_good);
    for (uint32_t i = 1; i < REQUESTS; i++) {
        snprintf(id, sizeof id, "r%u", i);
        streams_expect(stream, id, i + 1);
    }
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_stream_more_requests_than_allowed_are_refused)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.calls_max = 2;
    streams_setup_with(&options);
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(streams_send(stream, "b", 2));
    ck_assert(streams_send(stream, "c", 3));
    ck_assert(streams_wait_requests(3));
    ck_assert_uint_eq(streams_fixture.core.running, 2);
    grpc_fixture_on_loop(&streams_fixture, streams_release_all);
    streams_expect(stream, "a", 1);
    streams_expect(stream, "b", 2);
    streams_expect_error(stream, "c", "sum",
                         "[request id: c] the server is busy: too many calls are open");
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    const uint64_t *counted = streams_fixture.core.counters.requests_total[SRV_PROTOCOL_GRPC];
    ck_assert_uint_eq(counted[BASE_RESOURCE_EXHAUSTED], 1);
    streams_teardown();
}
END_TEST

START_TEST(test_stream_more_bytes_than_allowed_are_refused)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.calls_bytes_max = 10000;
    streams_setup_with(&options);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 2000));
    streams_expect_error(stream, "a", "sum",
                         "[request id: a] the server is busy: open calls hold too many bytes");
    ck_assert(streams_wait_answered());
    ck_assert(streams_send(stream, "b", 1000));
    streams_expect(stream, "b", 1000);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    streams_teardown();
}
END_TEST

START_TEST(test_stream_more_streams_than_allowed_are_refused)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.streams_max = 2;
    options.calls_max = 1;
    streams_setup_with(&options);
    struct grpc_client_stream *open[2];
    for (uint32_t i = 0; i < 2; i++) {
        open[i] = streams_open(0);
        ck_assert(streams_send(open[i], "a", 1));
        streams_expect(open[i], "a", 1);
        ck_assert(streams_wait_answered());
    }
    // More than there are objects, so that accepts run out and come back.
    for (uint32_t i = 0; i < 100; i++) {
        struct grpc_client_stream *refused = streams_open(0);
        streams_expect_end(refused, GRPC_STATUS_RESOURCE_EXHAUSTED,
                           "the server is busy: too many streams are open");
    }
    grpc_client_stream_half_close(open[0]);
    streams_expect_end(open[0], GRPC_STATUS_OK, "");
    struct srv_grpc_counts counts;
    do {
        counts = grpc_fixture_counts(&streams_fixture);
    } while (counts.streams_open > 1);
    open[0] = streams_open(0);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert(streams_send(open[i], "b", 2));
        streams_expect(open[i], "b", 2);
        ck_assert(streams_wait_answered());
        grpc_client_stream_half_close(open[i]);
        streams_expect_end(open[i], GRPC_STATUS_OK, "");
    }
    streams_teardown();
}
END_TEST

START_TEST(test_stream_message_too_large_ends_the_stream)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.message_bytes_max = 65536;
    streams_setup_with(&options);
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    streams_send(stream, "b", 10000);
    streams_expect_end(stream, GRPC_STATUS_RESOURCE_EXHAUSTED, NULL);
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 0));
    ck_assert_uint_eq(streams_fixture.core.cancels, 1);
    streams_teardown();
}
END_TEST

START_TEST(test_stream_compressed_message_is_refused)
{
    struct grpc_client *compressing = grpc_client_create_compressing(streams_fixture.port);
    struct grpc_client_stream *stream =
        grpc_client_stream_open(compressing, STREAM_PATH, 0, NULL, NULL);
    streams_expect_end(stream, GRPC_STATUS_UNIMPLEMENTED, NULL);
    grpc_client_free(compressing);
}
END_TEST

/* Whatever allocation fails, the stream is refused, or each of its requests is answered. */
START_TEST(test_stream_every_failed_allocation)
{
    enum { REQUESTS = 4 };
    for (uint64_t n = 1; n <= 12; n++) {
        base_alloc_fail_at(n);
        struct grpc_client_stream *stream = streams_open(0);
        bool alive = true;
        for (uint32_t i = 0; i < REQUESTS && alive; i++) {
            alive = streams_send(stream, "r", 3);
        }
        if (alive) {
            grpc_client_stream_half_close(stream);
        }
        uint32_t answers = 0;
        struct grpc_client_reply reply;
        while (grpc_client_stream_receive(stream, &reply)) {
            answers++;
            grpc_client_reply_release(&reply);
        }
        int status = grpc_client_stream_finish(stream, &reply);
        base_alloc_fail_at(0);
        if (n == 1) {
            ck_assert_int_eq(status, GRPC_STATUS_RESOURCE_EXHAUSTED);
            ck_assert_str_eq(reply.message, "no memory left for another stream");
        } else {
            ck_assert_int_eq(status, GRPC_STATUS_OK);
            ck_assert_uint_eq(answers, REQUESTS);
        }
    }
}
END_TEST

static void add_answers(Suite *suite)
{
    TCase *tcase = tcase_create("answers");
    tcase_add_checked_fixture(tcase, streams_setup, streams_teardown);
    tcase_add_test(tcase, test_stream_one_request_after_the_other);
    tcase_add_test(tcase, test_stream_answers_in_the_order_of_requests);
    tcase_add_test(tcase, test_stream_streams_do_not_wait_for_each_other);
    tcase_add_test(tcase, test_stream_large_messages_both_ways);
    tcase_add_test(tcase, test_stream_steady_state_allocates_nothing);
    tcase_add_test(tcase, test_stream_errors_are_answers);
    tcase_add_test(tcase, test_stream_failed_request);
    tcase_add_test(tcase, test_stream_error_names_the_request);
    tcase_add_test(tcase, test_stream_ends_at_the_first_error_when_asked_to);
    tcase_add_test(tcase, test_stream_malformed_message_ends_the_stream_when_asked_to);
    tcase_add_test(tcase, test_stream_goes_on_when_asked_for_no_status);
    tcase_add_test(tcase, test_stream_half_close_before_any_message);
    tcase_add_test(tcase, test_stream_half_close_waits_for_the_answers);
    tcase_add_test(tcase, test_stream_reading_pauses_at_the_limit);
    tcase_add_test(tcase, test_stream_compressed_message_is_refused);
    tcase_add_test(tcase, test_stream_every_failed_allocation);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("grpc_stream");
    add_answers(suite);
    TCase *tcase = tcase_create("options");
    tcase_add_test(tcase, test_stream_many_requests);
    tcase_add_test(tcase, test_stream_more_requests_than_allowed_are_refused);
    tcase_add_test(tcase, test_stream_more_bytes_than_allowed_are_refused);
    tcase_add_test(tcase, test_stream_more_streams_than_allowed_are_refused);
    tcase_add_test(tcase, test_stream_message_too_large_ends_the_stream);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
