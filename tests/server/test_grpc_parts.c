/* Answers in parts over ModelStreamInfer, through a real client over a core without cells: when
 * they go, how they grow while they wait, and what becomes of them when a stream ends. */
#include "tests/server/grpc_streams.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <unistd.h>

static void progress(void)
{
    grpc_fixture_on_loop(&streams_fixture, streams_progress);
}

static void release(void)
{
    grpc_fixture_on_loop(&streams_fixture, streams_release_oldest);
}

static int finish(struct grpc_client_stream *stream)
{
    struct grpc_client_reply reply;
    while (grpc_client_stream_receive(stream, &reply)) {
        grpc_client_reply_release(&reply);
    }
    return grpc_client_stream_finish(stream, &reply);
}

START_TEST(test_parts_go_as_they_come)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    for (uint32_t turn = 0; turn < 2; turn++) {
        ck_assert(streams_send_in_parts(stream, "r", 3));
        ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
        for (uint32_t i = 1; i <= 5; i++) {
            progress();
            streams_expect_part(stream, "r", i, 1);
        }
        release();
        streams_expect(stream, "r", 3);
    }
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    struct srv_grpc_counts counts = grpc_fixture_counts(&streams_fixture);
    ck_assert_uint_eq(counts.stream_answers, 2);
    ck_assert_uint_eq(counts.stream_parts, 10);
}
END_TEST

START_TEST(test_others_are_answered_in_one_piece)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "r", 3));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    progress();
    release();
    streams_expect(stream, "r", 3);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_parts, 0);
}
END_TEST

/* Who is second in the line waits; what comes meanwhile is one part. */
START_TEST(test_parts_wait_for_their_turn)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send_in_parts(stream, "a", 1));
    ck_assert(streams_send_in_parts(stream, "b", 2));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
    for (uint32_t i = 1; i <= 3; i++) {
        progress();
        streams_expect_part(stream, "a", i, 1);
    }
    release();
    streams_expect(stream, "a", 1);
    streams_expect_part(stream, "b", 1, 3);
    progress();
    streams_expect_part(stream, "b", 4, 1);
    release();
    streams_expect(stream, "b", 2);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* One that is done before its turn has no parts. */
START_TEST(test_answer_that_is_there_before_its_turn)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send_in_parts(stream, "a", 1));
    ck_assert(streams_send_in_parts(stream, "b", 2));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
    progress();
    grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    release();
    streams_expect_part(stream, "a", 1, 1);
    streams_expect(stream, "a", 1);
    streams_expect(stream, "b", 2);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* Parts of 8 MiB that the client does not read: they grow together, and nothing is kept for them.
 */
START_TEST(test_client_that_does_not_read)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    grpc_fixture_on_loop(&streams_fixture, streams_answer_large);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send_in_parts(stream, "r", 3));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    for (uint32_t i = 0; i < 4; i++) {
        progress();
    }
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_parts, 1);
    release();
    streams_expect_part(stream, "r", 1, 1);
    streams_expect(stream, "r", 3);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

START_TEST(test_error_behind_parts)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send_in_parts(stream, "r", 3));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    progress();
    streams_expect_part(stream, "r", 1, 1);
    streams_fixture.core.fail = BASE_INTERNAL;
    release();
    streams_expect_error(stream, "r", "sum", "[request id: r] fake");
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

/* A part is on the way when the client goes: the request that runs, and one that is done already.
 */
START_TEST(test_cancel_while_a_part_is_being_sent)
{
    grpc_fixture_on_loop(&streams_fixture, _i == 2 ? streams_hold_with_slow_cancels : streams_hold);
    grpc_fixture_on_loop(&streams_fixture, streams_answer_large);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send_in_parts(stream, "r", 3));
    ck_assert(streams_send_in_parts(stream, "s", 3));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
    progress();
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_parts, 1);
    if (_i == 1) {
        release();
    }
    grpc_client_stream_cancel(stream);
    ck_assert_int_eq(finish(stream), GRPC_STATUS_CANCELLED);
    if (_i == 2) {
        ck_assert(grpc_fixture_wait_cancels(&streams_fixture, 2));
        grpc_fixture_on_loop(&streams_fixture, streams_release_all);
    }
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_answers, 0);
}
END_TEST

START_TEST(test_drain_sends_parts_of_what_has_been_read)
{
    streams_setup();
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send_in_parts(stream, "r", 3));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    grpc_fixture_drain(&streams_fixture);
    progress();
    streams_expect_part(stream, "r", 1, 1);
    release();
    streams_expect(stream, "r", 3);
    streams_expect_end(stream, GRPC_STATUS_UNAVAILABLE, "the server is stopping");
    ck_assert(grpc_fixture_wait_drained(&streams_fixture, 10000));
    streams_check_accounts();
    grpc_client_free(streams_client);
    grpc_fixture_end(&streams_fixture);
}
END_TEST

/* Clients that come and go at random moments of a request whose parts never end. */
START_TEST(test_ends_at_random_moments)
{
    struct base_random random = util_random(31);
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    for (uint32_t i = 0; i < 100; i++) {
        struct grpc_client_stream *stream = streams_open(0);
        ck_assert(streams_send_in_parts(stream, "r", 3));
        ck_assert(streams_send_in_parts(stream, "s", 3));
        ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
        for (uint32_t n = base_random_below(&random, 6); n > 0; n--) {
            progress();
        }
        if (base_random_below(&random, 2) == 0) {
            release();
        }
        grpc_client_stream_cancel(stream);
        (void)finish(stream);
        ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_parts");
    TCase *tcase = tcase_create("parts");
    tcase_add_checked_fixture(tcase, streams_setup, streams_teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_parts_go_as_they_come);
    tcase_add_test(tcase, test_others_are_answered_in_one_piece);
    tcase_add_test(tcase, test_parts_wait_for_their_turn);
    tcase_add_test(tcase, test_answer_that_is_there_before_its_turn);
    tcase_add_test(tcase, test_client_that_does_not_read);
    tcase_add_test(tcase, test_error_behind_parts);
    tcase_add_loop_test(tcase, test_cancel_while_a_part_is_being_sent, 0, 3);
    tcase_add_test(tcase, test_ends_at_random_moments);
    suite_add_tcase(suite, tcase);
    TCase *drain = tcase_create("drain");
    tcase_set_timeout(drain, 60);
    tcase_add_test(drain, test_drain_sends_parts_of_what_has_been_read);
    suite_add_tcase(suite, drain);
    return util_run(suite);
}
