/* Answers of generate, and those of generate_stream in parts, over real sockets and the fake core:
 * when events go, what errors look like before and behind the first, and what becomes of a request
 * whose client leaves in the middle of its answer. */
#include "base/random.h"
#include "tests/server/http_fixture.h"
#include "tests/util.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* An event of a million rows is made first; a busy machine takes seconds for it. */
#define PATIENCE_MS 30000

#define ANSWER "{\"model_name\":\"sum\",\"model_version\":\"2\",\"id\":\"r\",\"sums\":[6.0,3.0]}"

static struct http_fixture fixture;

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    http_fixture_start(&fixture, NULL);
}

static void teardown(void)
{
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    const struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.running, 0);
    ck_assert_uint_eq(state.counts.begun, state.counts.answered + state.counts.lost);
    http_fixture_stop(&fixture);
}

static void progress_task(struct http_fixture *of)
{
    fake_core_progress(&of->core);
}

static void progress(void)
{
    http_fixture_on_loop(&fixture, progress_task);
}

static void release_oldest_task(struct http_fixture *of)
{
    fake_core_release_oldest(&of->core);
}

static struct http_client connect_client(void)
{
    struct http_client client;
    ck_assert(http_connect(&client, fixture.port));
    return client;
}

static void post(struct http_client *client, const char *page, const char *body)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "POST /v2/models/sum/%s HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n%s",
                   page, strlen(body), body);
    ck_assert(http_send_text(client, text));
}

/* A client whose request of generate_stream is held by core. */
static struct http_client held_client(void)
{
    const uint32_t running = http_fixture_state(&fixture).running;
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client client = connect_client();
    post(&client, "generate_stream", "{\"id\":\"r\",\"tokens\":[1,2,3]}");
    ck_assert(http_fixture_wait_running(&fixture, running + 1));
    return client;
}

static void expect_head(struct http_client *client)
{
    char value[64] = "";
    struct http_answer head = http_read(client, PATIENCE_MS, false);
    ck_assert_msg(head.code == 200, "%d %s", head.code, head.body);
    ck_assert(http_header(&head, "Content-Type", value, sizeof value));
    ck_assert_str_eq(value, "text/event-stream; charset=utf-8");
    ck_assert(http_header(&head, "Transfer-Encoding", value, sizeof value));
    ck_assert_str_eq(value, "chunked");
}

static void expect_event(struct http_client *client, const char *want)
{
    bool is_whole = false;
    const char *event = http_read_event(client, PATIENCE_MS, &is_whole);
    ck_assert_ptr_nonnull(event);
    ck_assert_str_eq(event, want);
}

/* Steps first .. first + n - 1 in one event. */
static void expect_part(struct http_client *client, uint32_t first, uint32_t n)
{
    char want[512];
    size_t length =
        (size_t)snprintf(want, sizeof want,
                         "{\"model_name\":\"sum\",\"model_version\":\"2\",\"id\":\"r\",\"sums\":");
    const bool is_row = n == 1; // of the batch's axis, to the front end
    length += (size_t)snprintf(want + length, sizeof want - length, "%s", is_row ? "" : "[");
    for (uint32_t i = 0; i < n; i++) {
        length += (size_t)snprintf(want + length, sizeof want - length, "%s[%u.0,%u.0]",
                                   i == 0 ? "" : ",", first + i, n);
    }
    (void)snprintf(want + length, sizeof want - length, "%s}", is_row ? "" : "]");
    expect_event(client, want);
}

static void expect_end(struct http_client *client)
{
    bool is_whole = false;
    ck_assert_ptr_null(http_read_event(client, PATIENCE_MS, &is_whole));
    ck_assert(is_whole);
}

/* ---- generate ---- */

START_TEST(test_generate_answers_once)
{
    struct http_client client = connect_client();
    for (int i = 0; i < 2; i++) {
        struct http_answer answer = http_request(&client, "POST", "/v2/models/sum/generate", "",
                                                 "{\"id\":\"r\",\"tokens\":[1,2,3]}");
        ck_assert_int_eq(answer.code, 200);
        ck_assert_str_eq(answer.body, ANSWER);
    }
    struct http_answer answer = http_request(&client, "POST", "/v2/models/sum/versions/1/generate",
                                             "", "{\"tokens\":[[1,2],[3,4]]}");
    ck_assert_str_eq(answer.body, "{\"model_name\":\"sum\",\"model_version\":\"1\",\"sums\":"
                                  "[[3.0,2.0],[7.0,2.0]]}");
    http_close(&client);
}
END_TEST

START_TEST(test_generate_refuses)
{
    static const struct {
        const char *path, *body, *want;
        int code;
    } cases[] = {
        {"/v2/models/sum/generate", "{\"tokens\":\"a\"}", "input 'tokens': data element 0", 400},
        {"/v2/models/sum/generate", "{}", "fake", 400},
        {"/v2/models/nobody/generate", "{\"tokens\":1}", "fake not found", 404},
        {"/v2/models/nobody/generate_stream", "{\"tokens\":1}", "fake not found", 404},
        {"/v2/models/sum/generate_stream", "{\"tokens\":\"a\"}", "input 'tokens'", 400},
        {"/v2/models/sum/generate_stream", "nothing", "JSON", 400},
    };
    struct http_client client = connect_client();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_answer answer = http_request(&client, "POST", cases[i].path, "", cases[i].body);
        ck_assert_int_eq(answer.code, cases[i].code);
        ck_assert_msg(strstr(answer.body, cases[i].want) != NULL, "%s", answer.body);
        char value[64] = "";
        ck_assert(http_header(&answer, "Content-Type", value, sizeof value));
        ck_assert_str_eq(value, "application/json");
    }
    http_close(&client);
}
END_TEST

/* ---- generate_stream ---- */

START_TEST(test_events_go_as_they_come)
{
    struct http_client client = held_client();
    for (int turn = 0; turn < 2; turn++) { // the connection is kept
        for (uint32_t i = 1; i <= 5; i++) {
            progress();
            if (i == 1) {
                expect_head(&client);
            }
            expect_part(&client, i, 1);
        }
        http_fixture_release(&fixture);
        expect_event(&client, ANSWER);
        expect_end(&client);
        if (turn == 0) {
            post(&client, "generate_stream", "{\"id\":\"r\",\"tokens\":[1,2,3]}");
            ck_assert(http_fixture_wait_running(&fixture, 1));
        }
    }
    http_close(&client);
}
END_TEST

START_TEST(test_answer_in_one_piece_is_one_event)
{
    struct http_client client = connect_client();
    for (int pace = 0; pace < 2; pace++) {
        http_fixture_pace(&fixture, pace == 0 ? FAKE_AT_ONCE : FAKE_LATER, 5);
        post(&client, "generate_stream", "{\"id\":\"r\",\"tokens\":[1,2,3]}");
        expect_head(&client);
        expect_event(&client, ANSWER);
        expect_end(&client);
    }
    // One that wants no parts.
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    post(&client, "generate_stream", "{\"id\":\"r\",\"tokens\":[1,2,3],\"stream\":false}");
    ck_assert(http_fixture_wait_running(&fixture, 1));
    progress();
    http_fixture_release(&fixture);
    expect_head(&client);
    expect_event(&client, ANSWER);
    expect_end(&client);
    http_close(&client);
}
END_TEST

/* Before the first event there is a code to say it with. */
START_TEST(test_error_before_an_event)
{
    struct http_client client = held_client();
    fixture.core.fail = BASE_UNAVAILABLE;
    http_fixture_release(&fixture);
    struct http_answer answer = http_read(&client, PATIENCE_MS, false);
    ck_assert_int_eq(answer.code, 503);
    ck_assert_str_eq(answer.body, "{\"error\":\"[request id: r] fake unavailable\"}");
    http_close(&client);
}
END_TEST

START_TEST(test_error_behind_an_event)
{
    struct http_client client = held_client();
    progress();
    expect_head(&client);
    expect_part(&client, 1, 1);
    fixture.core.fail = BASE_INTERNAL;
    http_fixture_release(&fixture);
    expect_event(&client, "{\"error\":\"[request id: r] fake internal error\"}");
    expect_end(&client);
    http_close(&client);
}
END_TEST

/* Parts of some megabytes: those that come meanwhile are one, and it is sent when there is room. */
START_TEST(test_client_that_does_not_read)
{
    fixture.core.answer_rows = 1u << 20;
    struct http_client client = held_client();
    progress();
    expect_head(&client); // sending has begun
    for (uint32_t i = 0; i < 5; i++) {
        progress();
    }
    uint32_t events = 0;
    bool is_whole = false;
    ck_assert_ptr_nonnull(http_read_event(&client, PATIENCE_MS, &is_whole));
    http_fixture_release(&fixture);
    while (http_read_event(&client, PATIENCE_MS, &is_whole) != NULL) {
        events++;
    }
    ck_assert(is_whole);
    ck_assert_uint_ge(events, 1); // the end, and one part of the five steps where it was in time
    ck_assert_uint_le(events, 2);
    http_close(&client);
}
END_TEST

static void leave(struct http_client *client, int how)
{
    if (how == 0) {
        http_close(client);
    } else if (how == 1) {
        http_abort(client);
    } else {
        ck_assert_int_eq(shutdown(client->fd, SHUT_WR), 0);
    }
}

/* While nothing is there to send: noticed at once. */
START_TEST(test_client_that_leaves_between_events)
{
    struct http_client stays = held_client();
    struct http_client leaves = held_client();
    if (_i >= 3) {
        progress();
        expect_head(&leaves);
        expect_part(&leaves, 1, 1);
        expect_head(&stays);
        expect_part(&stays, 1, 1);
    }
    leave(&leaves, _i % 3);
    ck_assert(http_fixture_wait_running(&fixture, 1));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.cancels, 1);
    ck_assert_int_eq((int)state.last_cancel, BASE_CANCELLED);
    ck_assert(http_fixture_wait_connections(&fixture, 1));
    if (_i % 3 == 2) {
        http_close(&leaves);
    }
    http_fixture_release(&fixture);
    if (_i < 3) {
        expect_head(&stays);
    }
    expect_event(&stays, ANSWER);
    http_close(&stays);
}
END_TEST

/* While its answer goes out: the connection ends first, the request behind it, also one that takes
 * its time to be cancelled. */
START_TEST(test_client_that_leaves_within_an_event)
{
    fixture.core.answer_rows = 1u << 20;
    fixture.core.slow_cancels = _i == 2;
    struct http_client client = held_client();
    progress();
    expect_head(&client); // and it reads no more
    leave(&client, _i % 2);
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    if (_i == 2) {
        ck_assert_uint_eq(http_fixture_state(&fixture).running, 1);
        http_fixture_on_loop(&fixture, release_oldest_task);
    }
    const struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.running, 0);
    ck_assert_uint_eq(state.cancels, 1);
    ck_assert_uint_eq(state.counts.lost, 1);
}
END_TEST

START_TEST(test_clients_come_and_go)
{
    struct base_random random = util_random(5);
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    for (uint32_t i = 0; i < 150; i++) {
        struct http_client client = held_client();
        for (uint32_t n = base_random_below(&random, 4); n > 0; n--) {
            progress();
        }
        if (base_random_below(&random, 3) == 0) {
            http_fixture_release(&fixture);
        }
        leave(&client, (int)base_random_below(&random, 2));
        ck_assert(http_fixture_wait_running(&fixture, 0));
    }
}
END_TEST

/* A time limit meets who takes an event too slowly, and nobody who waits for one. */
START_TEST(test_time_limit)
{
    struct srv_http_options options;
    http_fixture_stop(&fixture);
    srv_http_options_init(&options);
    options.send_ms = 100;
    http_fixture_start(&fixture, &options);
    struct http_client waits = held_client();
    progress();
    expect_head(&waits);
    expect_part(&waits, 1, 1);
    (void)usleep(400000);
    progress();
    expect_part(&waits, 2, 1);
    http_fixture_release(&fixture);
    expect_event(&waits, ANSWER);
    expect_end(&waits);
    http_close(&waits);
    fixture.core.answer_rows = 2u << 20;
    struct http_client slow = held_client();
    progress();
    ck_assert(http_fixture_wait_running(&fixture, 0));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.timed_out, 1);
    http_close(&slow);
}
END_TEST

/* ---- Drain ---- */

START_TEST(test_drain_finishes_answers)
{
    struct http_client client = held_client();
    progress();
    expect_head(&client);
    expect_part(&client, 1, 1);
    http_fixture_drain(&fixture);
    ck_assert(!http_fixture_wait_drained(&fixture, 50));
    progress();
    expect_part(&client, 2, 1);
    http_fixture_release(&fixture);
    expect_event(&client, ANSWER);
    expect_end(&client);
    ck_assert(http_is_closed(&client, PATIENCE_MS));
    ck_assert(http_fixture_wait_drained(&fixture, PATIENCE_MS));
    http_close(&client);
    http_fixture_end(&fixture);
}
END_TEST

START_TEST(test_cancel_all_ends_answers)
{
    struct http_client client = held_client();
    progress();
    expect_head(&client);
    expect_part(&client, 1, 1);
    http_fixture_drain(&fixture);
    http_fixture_cancel_all(&fixture);
    expect_event(&client, "{\"error\":\"[request id: r] fake unavailable\"}");
    expect_end(&client);
    ck_assert(http_fixture_wait_drained(&fixture, PATIENCE_MS));
    http_close(&client);
    http_fixture_end(&fixture);
}
END_TEST

/* The same while an event is being sent to nobody who reads: the connection is closed. */
START_TEST(test_cancel_all_ends_unread_answers)
{
    fixture.core.answer_rows = 2u << 20;
    struct http_client client = held_client();
    progress();
    expect_head(&client);
    http_fixture_drain(&fixture);
    http_fixture_cancel_all(&fixture);
    ck_assert(http_fixture_wait_drained(&fixture, PATIENCE_MS));
    ck_assert(http_fixture_wait_running(&fixture, 0));
    http_close(&client);
    http_fixture_end(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_events");
    TCase *tcase = tcase_create("events");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_generate_answers_once);
    tcase_add_test(tcase, test_generate_refuses);
    tcase_add_test(tcase, test_events_go_as_they_come);
    tcase_add_test(tcase, test_answer_in_one_piece_is_one_event);
    tcase_add_test(tcase, test_error_before_an_event);
    tcase_add_test(tcase, test_error_behind_an_event);
    tcase_add_test(tcase, test_client_that_does_not_read);
    tcase_add_loop_test(tcase, test_client_that_leaves_between_events, 0, 6);
    tcase_add_loop_test(tcase, test_client_that_leaves_within_an_event, 0, 3);
    tcase_add_test(tcase, test_clients_come_and_go);
    tcase_add_test(tcase, test_time_limit);
    suite_add_tcase(suite, tcase);
    TCase *drain = tcase_create("drain");
    tcase_add_checked_fixture(drain, setup, NULL);
    tcase_set_timeout(drain, 60);
    tcase_add_test(drain, test_drain_finishes_answers);
    tcase_add_test(drain, test_cancel_all_ends_answers);
    tcase_add_test(drain, test_cancel_all_ends_unread_answers);
    suite_add_tcase(suite, drain);
    return util_run(suite);
}
