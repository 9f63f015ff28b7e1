/* Lives and deaths of streams: cancelled, late, abandoned by a client that vanished, drained. After
 * each case every call object is free again, every call has had exactly one status, and every
 * request has come back. */
#include "base/clock.h"
#include "tests/server/grpc_streams.h"
#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int finish(struct grpc_client_stream *stream)
{
    struct grpc_client_reply reply;
    return grpc_client_stream_finish(stream, &reply);
}

/* ---- Cancel and deadline ---- */

START_TEST(test_life_cancelled_stream_cancels_its_requests)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stays = streams_open(0);
    struct grpc_client_stream *goes = streams_open(0);
    ck_assert(streams_send(stays, "stays", 1));
    for (int i = 0; i < 3; i++) {
        ck_assert(streams_send(goes, "goes", 1));
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 4));
    grpc_client_stream_cancel(goes);
    ck_assert_int_eq(finish(goes), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    ck_assert_uint_eq(streams_fixture.core.cancels, 3);
    ck_assert_int_eq(streams_fixture.core.last_cancel, BASE_CANCELLED);
    grpc_fixture_on_loop(&streams_fixture, streams_release_all);
    streams_expect(stays, "stays", 1);
    grpc_client_stream_half_close(stays);
    streams_expect_end(stays, GRPC_STATUS_OK, "");
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).cancelled, 1);
}
END_TEST

/* Those that are done and wait for their turn have nothing to cancel. */
START_TEST(test_life_cancel_drops_what_waits_for_its_turn)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    for (int i = 0; i < 5; i++) {
        ck_assert(streams_send(stream, "r", 1));
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 5));
    for (int i = 0; i < 3; i++) {
        grpc_fixture_on_loop(&streams_fixture, streams_release_newest);
    }
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).infer_open, 5);
    grpc_client_stream_cancel(stream);
    ck_assert_int_eq(finish(stream), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(streams_fixture.core.cancels, 2);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_answers, 0);
}
END_TEST

START_TEST(test_life_cancelled_stream_stays_until_core_is_done)
{
    grpc_fixture_on_loop(&streams_fixture, streams_hold_with_slow_cancels);
    struct grpc_client_stream *stream = streams_open(0);
    for (int i = 0; i < 3; i++) {
        ck_assert(streams_send(stream, "r", 1));
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 3));
    grpc_client_stream_cancel(stream);
    ck_assert_int_eq(finish(stream), GRPC_STATUS_CANCELLED);
    struct srv_grpc_counts counts;
    do {
        counts = grpc_fixture_counts(&streams_fixture);
    } while (counts.answered[BASE_CANCELLED] == 0);
    (void)usleep(20000);
    counts = grpc_fixture_counts(&streams_fixture);
    ck_assert_uint_eq(counts.open, 1);
    ck_assert_uint_eq(counts.infer_open, 3);
    for (int i = 0; i < 3; i++) {
        grpc_fixture_on_loop(&streams_fixture, streams_release_oldest);
    }
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).answered[BASE_CANCELLED], 1);
}
END_TEST

START_TEST(test_life_cancel_while_reading_is_paused)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.stream_requests_max = 2;
    streams_setup_with(&options);
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    for (int i = 0; i < 5; i++) {
        ck_assert(streams_send(stream, "r", 1));
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
    grpc_client_stream_cancel(stream);
    ck_assert_int_eq(finish(stream), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(streams_fixture.core.cancels, 2);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_requests, 2);
    streams_teardown();
}
END_TEST

/* The client reads nothing: its answer is on the way when it goes. */
START_TEST(test_life_cancel_while_an_answer_is_being_sent)
{
    grpc_fixture_on_loop(&streams_fixture, streams_answer_large);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(streams_send(stream, "b", 1));
    ck_assert(streams_wait_requests(2));
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_answers, 1);
    grpc_client_stream_cancel(stream);
    ck_assert_int_eq(finish(stream), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_answers, 1);
}
END_TEST

START_TEST(test_life_cancel_of_an_idle_stream)
{
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    streams_expect(stream, "a", 1);
    grpc_client_stream_cancel(stream);
    ck_assert_int_eq(finish(stream), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
}
END_TEST

static void set_hold_without_deadline(struct grpc_fixture *fixture)
{
    fixture->core.pace = FAKE_HOLD;
    fixture->core.ignore_deadlines = true;
}

START_TEST(test_life_deadline_of_the_stream)
{
    grpc_fixture_on_loop(&streams_fixture, set_hold_without_deadline);
    uint64_t before_ns = base_now_ns();
    struct grpc_client_stream *stream = streams_open(1000);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(streams_send(stream, "b", 1));
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2));
    ck_assert_int_eq(finish(stream), GRPC_STATUS_DEADLINE_EXCEEDED);
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(streams_fixture.core.cancels, 2);
    ck_assert_int_eq(streams_fixture.core.last_cancel, BASE_DEADLINE_EXCEEDED);
    uint64_t given_ns = streams_fixture.core.last_deadline_ns - before_ns;
    ck_assert_uint_ge(given_ns, 990 * BASE_NS_PER_MS);
    ck_assert_uint_le(given_ns, 5000 * BASE_NS_PER_MS);
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).answered[BASE_DEADLINE_EXCEEDED], 1);
}
END_TEST

/* The tick that looks for calls' batches rests while only streams are open, and no longer. */
START_TEST(test_life_calls_beside_an_idle_stream)
{
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    streams_expect(stream, "a", 1);
    (void)usleep(30000);
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    size_t length;
    uint8_t *request = grpc_fixture_request("r", 1, 3, &length);
    struct grpc_client_call *call =
        grpc_client_start(streams_client, GRPC_FIXTURE_SERVICE "ModelInfer", request, length, 0);
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 1));
    grpc_client_cancel(call);
    struct grpc_client_reply reply;
    grpc_client_wait(call, &reply);
    ck_assert_int_eq(reply.status, GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 0));
    ck_assert_uint_eq(streams_fixture.core.cancels, 1);
    free(request);
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, "");
}
END_TEST

static void set_later(struct grpc_fixture *fixture)
{
    fixture->core.pace = FAKE_LATER;
    fixture->core.delay_ms = 1;
}

START_TEST(test_life_ends_at_random_moments)
{
    enum { STREAMS = 16 };
    int rounds = util_is_quick() ? 10 : 60;
    struct base_random random = util_random(1);
    grpc_fixture_on_loop(&streams_fixture, set_later);
    uint32_t odd = 0;
    for (int round = 0; round < rounds; round++) {
        struct grpc_client_stream *streams[STREAMS];
        bool alive[STREAMS];
        for (int i = 0; i < STREAMS; i++) {
            streams[i] = grpc_client_stream_open(streams_client, STREAM_PATH,
                                                 base_random_below(&random, 4) == 0 ? 3 : 0,
                                                 i % 2 == 0 ? "triton_grpc_error" : NULL, "true");
            alive[i] = true;
        }
        for (int i = 0; i < 4 * STREAMS; i++) {
            int chosen = (int)base_random_below(&random, STREAMS);
            bool unknown = base_random_below(&random, 8) == 0;
            alive[chosen] = alive[chosen] && (unknown ? streams_send_unknown(streams[chosen], "u")
                                                      : streams_send(streams[chosen], "r", 3));
        }
        usleep(base_random_below(&random, 3000));
        for (int i = 0; i < STREAMS; i++) {
            if (base_random_below(&random, 2) == 0) {
                grpc_client_stream_cancel(streams[i]);
            } else if (alive[i]) {
                grpc_client_stream_half_close(streams[i]);
            }
        }
        for (int i = 0; i < STREAMS; i++) {
            int status = finish(streams[i]);
            odd += status != GRPC_STATUS_OK && status != GRPC_STATUS_CANCELLED &&
                   status != GRPC_STATUS_DEADLINE_EXCEEDED && status != GRPC_STATUS_NOT_FOUND;
        }
    }
    ck_assert_uint_eq(odd, 0);
    streams_check_accounts();
}
END_TEST

/* ---- Clients that vanish ---- */

/* This program again, as a client that holds a stream with two requests. */
static pid_t spawn_client(void)
{
    char port[8];
    static char name[] = "test_grpc_stream_life";
    static char mode[] = "client";
    snprintf(port, sizeof port, "%u", streams_fixture.port);
    char *argv[] = {name, mode, port, NULL};
    pid_t pid;
    ck_assert_int_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return pid;
}

static int client_main(uint16_t port)
{
    streams_client = grpc_client_create(port);
    struct grpc_client_stream *stream = streams_open(0);
    bool sent = streams_send(stream, "a", 1) && streams_send(stream, "b", 1);
    struct grpc_client_reply reply;
    grpc_client_stream_finish(stream, &reply);
    fprintf(stderr, "client: sent %d, status %d: %s\n", sent, reply.status, reply.message);
    return 1; // it is to be killed before
}

START_TEST(test_life_killed_client_cancels_its_stream)
{
    enum { CLIENTS = 3 };
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    pid_t clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = spawn_client();
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 2 * CLIENTS));
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_int_eq(kill(clients[i], SIGKILL), 0);
        ck_assert_int_eq(waitpid(clients[i], NULL, 0), clients[i]);
    }
    ck_assert(grpc_fixture_wait_idle(&streams_fixture, NULL));
    ck_assert_uint_eq(streams_fixture.core.cancels, 2 * CLIENTS);
    ck_assert_int_eq(streams_fixture.core.last_cancel, BASE_CANCELLED);
}
END_TEST

/* ---- Drain ---- */

#define STOPPING "the server is stopping"

static void end(void)
{
    streams_check_accounts();
    grpc_client_free(streams_client);
    grpc_fixture_end(&streams_fixture);
}

static void end_drained(void)
{
    ck_assert(grpc_fixture_wait_drained(&streams_fixture, 10000));
    end();
}

START_TEST(test_life_drain_ends_idle_streams)
{
    streams_setup();
    struct grpc_client_stream *fresh = streams_open(0);
    struct grpc_client_stream *used = streams_open(0);
    ck_assert(streams_send(used, "a", 1));
    streams_expect(used, "a", 1);
    do {
    } while (grpc_fixture_counts(&streams_fixture).streams_open < 2);
    grpc_fixture_drain(&streams_fixture);
    streams_expect_end(fresh, GRPC_STATUS_UNAVAILABLE, STOPPING);
    streams_expect_end(used, GRPC_STATUS_UNAVAILABLE, STOPPING);
    end_drained();
}
END_TEST

START_TEST(test_life_drain_answers_what_has_been_read)
{
    streams_setup();
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *open = streams_open(0);
    struct grpc_client_stream *closed = streams_open(0);
    for (uint32_t i = 1; i <= 2; i++) {
        ck_assert(streams_send(open, "open", i));
        ck_assert(streams_send(closed, "closed", i));
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 4));
    grpc_fixture_drain(&streams_fixture);
    ck_assert(!grpc_fixture_wait_drained(&streams_fixture, 50));
    // What comes now is not read; an end of the client's half is.
    ck_assert(streams_send(open, "late", 3));
    grpc_client_stream_half_close(closed);
    (void)usleep(50000);
    grpc_fixture_on_loop(&streams_fixture, streams_release_all);
    for (uint32_t i = 1; i <= 2; i++) {
        streams_expect(open, "open", i);
        streams_expect(closed, "closed", i);
    }
    streams_expect_end(open, GRPC_STATUS_UNAVAILABLE, STOPPING);
    streams_expect_end(closed, GRPC_STATUS_OK, "");
    ck_assert_uint_eq(grpc_fixture_counts(&streams_fixture).stream_requests, 4);
    end_drained();
}
END_TEST

START_TEST(test_life_cancel_all_ends_streams)
{
    streams_setup();
    grpc_fixture_on_loop(&streams_fixture, streams_hold);
    struct grpc_client_stream *stream = streams_open(0);
    for (int i = 0; i < 3; i++) {
        ck_assert(streams_send(stream, "r", 1));
    }
    ck_assert(grpc_fixture_wait_running(&streams_fixture, 3));
    grpc_fixture_drain(&streams_fixture);
    ck_assert(!grpc_fixture_wait_drained(&streams_fixture, 50));
    grpc_fixture_cancel_all(&streams_fixture);
    ck_assert_int_ne(finish(stream), GRPC_STATUS_OK);
    end_drained();
    ck_assert_uint_eq(streams_fixture.core.cancels, 3);
}
END_TEST

/* A client that reads nothing cannot be told anything. */
START_TEST(test_life_cancel_all_ends_a_stream_that_is_not_read)
{
    streams_setup();
    grpc_fixture_on_loop(&streams_fixture, streams_answer_large);
    struct grpc_client_stream *stream = streams_open(0);
    ck_assert(streams_send(stream, "a", 1));
    ck_assert(streams_send(stream, "b", 1));
    ck_assert(streams_wait_requests(2));
    grpc_fixture_drain(&streams_fixture);
    ck_assert(!grpc_fixture_wait_drained(&streams_fixture, 50));
    grpc_fixture_cancel_all(&streams_fixture);
    ck_assert(grpc_fixture_wait_drained(&streams_fixture, 10000));
    ck_assert_int_ne(finish(stream), GRPC_STATUS_OK);
    end();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "client") == 0) {
        return client_main((uint16_t)strtoul(argv[2], NULL, 10));
    }
    Suite *suite = suite_create("grpc_stream_life");
    TCase *tcase = tcase_create("streams");
    tcase_add_checked_fixture(tcase, streams_setup, streams_teardown);
    tcase_add_test(tcase, test_life_cancelled_stream_cancels_its_requests);
    tcase_add_test(tcase, test_life_cancel_drops_what_waits_for_its_turn);
    tcase_add_test(tcase, test_life_cancelled_stream_stays_until_core_is_done);
    tcase_add_test(tcase, test_life_cancel_while_an_answer_is_being_sent);
    tcase_add_test(tcase, test_life_cancel_of_an_idle_stream);
    tcase_add_test(tcase, test_life_deadline_of_the_stream);
    tcase_add_test(tcase, test_life_calls_beside_an_idle_stream);
    tcase_add_test(tcase, test_life_ends_at_random_moments);
    tcase_add_test(tcase, test_life_killed_client_cancels_its_stream);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("options and drain");
    tcase_add_test(tcase, test_life_cancel_while_reading_is_paused);
    tcase_add_test(tcase, test_life_drain_ends_idle_streams);
    tcase_add_test(tcase, test_life_drain_answers_what_has_been_read);
    tcase_add_test(tcase, test_life_cancel_all_ends_streams);
    tcase_add_test(tcase, test_life_cancel_all_ends_a_stream_that_is_not_read);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
