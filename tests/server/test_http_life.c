/* Clients that leave, drain and stop, ports that are taken. */
#include "base/mem.h"
#include "tests/server/http_fixture.h"
#include "tests/util.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static struct http_fixture fixture;

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    http_fixture_start(&fixture, NULL);
}

static struct http_client connect_client(void)
{
    struct http_client client;
    ck_assert(http_connect(&client, fixture.port));
    return client;
}

static void send_infer(struct http_client *client)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(HTTP_FIXTURE_BODY), HTTP_FIXTURE_BODY);
    ck_assert(http_send_text(client, text));
}

/* A client whose request runs. */
static struct http_client running_client(void)
{
    uint32_t running = http_fixture_state(&fixture).running;
    struct http_client client = connect_client();
    send_infer(&client);
    ck_assert(http_fixture_wait_running(&fixture, running + 1));
    return client;
}

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

START_TEST(test_http_client_that_leaves_cancels)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client stays = running_client();
    struct http_client leaves = running_client();
    leave(&leaves, _i);
    ck_assert(http_fixture_wait_running(&fixture, 1));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.cancels, 1);
    ck_assert_int_eq((int)state.last_cancel, BASE_CANCELLED);
    ck_assert(http_fixture_wait_connections(&fixture, 1));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.lost, 1);
    if (_i == 2) {
        ck_assert(http_is_closed(&leaves, 5000));
        http_close(&leaves);
    }
    http_fixture_release(&fixture); // the other is served
    ck_assert_str_eq(http_read(&stays, 5000, false).body, HTTP_FIXTURE_ANSWER);
    http_close(&stays);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_client_that_leaves_early)
{
    // In the head, in the body, and with more requests behind the one that runs.
    static const char *const texts[] = {
        "GET /v2 HT",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 99\r\n\r\n{"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (int how = 0; how < 3; how++) {
            struct http_client client = connect_client();
            ck_assert(http_send_text(&client, texts[i]));
            (void)usleep(5000);
            leave(&client, how);
            ck_assert(http_fixture_wait_connections(&fixture, 0));
            if (how == 2) {
                http_close(&client);
            }
        }
    }
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.bodies_bytes, 0);
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client client = running_client();
    send_infer(&client);
    send_infer(&client);
    http_close(&client);
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.running, 0);
    ck_assert_uint_eq(state.counts.begun, state.counts.lost);
    http_fixture_stop(&fixture);
}
END_TEST

/* What a client sends at once: all of it, and its end, is there before the loop looks. */
static const char *sent_at_once;
static int left_how;
static struct http_client left;

static void send_and_leave(struct http_fixture *on_loop)
{
    (void)on_loop;
    left = connect_client();
    ck_assert(http_send_text(&left, sent_at_once));
    leave(&left, left_how);
}

static bool wait_accepted(uint64_t connections)
{
    for (int i = 0; i < 5000; i++) {
        if (http_fixture_state(&fixture).counts.connections >= connections) {
            return true;
        }
        (void)usleep(2000);
    }
    return false;
}

START_TEST(test_http_client_whose_end_comes_with_what_it_sends)
{
    static const char *const texts[] = {
        "", "GET /v2 HT",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 99\r\n\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 99\r\n\r\n{",
        "GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\nGET /v2 HT"};
    http_fixture_stop(&fixture);
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.head_ms = options.idle_ms = options.body_ms = 60000;
    options.send_ms = 200; // or connections are looked at every second
    http_fixture_start(&fixture, &options);
    uint64_t accepted = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (left_how = 0; left_how < 3; left_how++) {
            sent_at_once = texts[i];
            http_fixture_on_loop(&fixture, send_and_leave);
            ck_assert(wait_accepted(++accepted));
            ck_assert_msg(http_fixture_wait_connections(&fixture, 0), "text %zu, left by %d", i,
                          left_how);
            if (left_how == 2) {
                http_close(&left);
            }
        }
    }
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.counts.bodies_bytes, 0);
    ck_assert_uint_eq(state.counts.begun, state.counts.answered + state.counts.lost);
    ck_assert_uint_eq(state.counts.timed_out, 0); // nobody was too slow
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_half_closed_page_is_answered)
{
    sent_at_once = "GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n";
    left_how = 2;
    http_fixture_on_loop(&fixture, send_and_leave);
    ck_assert_int_eq(http_read(&left, 5000, false).code, 200);
    ck_assert(http_is_closed(&left, 5000));
    http_close(&left);
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_clients_come_and_go)
{
    // Random leaving at random times; in the end every request has exactly one end.
    struct base_random random = util_random(1);
    http_fixture_pace(&fixture, FAKE_LATER, 1);
    for (int i = 0; i < 300; i++) {
        struct http_client client = connect_client();
        uint32_t requests = base_random_below(&random, 3);
        for (uint32_t r = 0; r <= requests; r++) {
            send_infer(&client);
        }
        if (base_random_below(&random, 2) == 0) {
            ck_assert_int_eq(http_read(&client, 5000, false).code, 200);
        } else {
            (void)usleep(base_random_below(&random, 2000));
        }
        uint32_t how = base_random_below(&random, 2);
        leave(&client, (int)how);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.running, 0);
    ck_assert_uint_eq(state.counts.open, 0);
    ck_assert_uint_eq(state.counts.begun, state.counts.answered + state.counts.lost);
    ck_assert_uint_eq(state.counts.bodies_bytes, 0);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_drain_finishes_what_runs)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client idle = connect_client();
    ck_assert_int_eq(http_request(&idle, "GET", "/v2", "", NULL).code, 200);
    struct http_client busy = running_client();
    struct http_client half = connect_client();
    ck_assert(http_send_text(&half, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                    "Content-Length: 2\r\n\r\n{"));
    while (http_fixture_state(&fixture).counts.begun < 3) {
        (void)usleep(1000);
    }
    http_fixture_drain(&fixture);
    ck_assert(http_is_closed(&idle, 5000));
    struct http_client late;
    ck_assert(!http_connect(&late, fixture.port));
    ck_assert(!http_fixture_wait_drained(&fixture, 100));

    char value[32] = "";
    ck_assert(http_send_text(&half, "}"));
    struct http_answer answer = http_read(&half, 5000, false);
    ck_assert_int_eq(answer.code, 400);
    ck_assert(http_header(&answer, "Connection", value, sizeof value));
    ck_assert_str_eq(value, "close");
    ck_assert(!http_fixture_wait_drained(&fixture, 100));

    http_fixture_release(&fixture);
    answer = http_read(&busy, 5000, false);
    ck_assert_str_eq(answer.body, HTTP_FIXTURE_ANSWER);
    ck_assert(http_header(&answer, "Connection", value, sizeof value));
    ck_assert(http_is_closed(&busy, 5000));
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    http_close(&idle);
    http_close(&busy);
    http_close(&half);
    http_fixture_end(&fixture);
}
END_TEST

/* A request that has come when the drain begins and nobody has read yet. */
static void send_and_drain(struct http_fixture *on_loop)
{
    send_infer(&left);
    http_fixture_drain_here(on_loop);
}

START_TEST(test_http_drain_answers_what_has_been_sent)
{
    left = connect_client();
    ck_assert_int_eq(http_request(&left, "GET", "/v2", "", NULL).code, 200);
    http_fixture_on_loop(&fixture, send_and_drain);
    char value[32] = "";
    struct http_answer answer = http_read(&left, 5000, false);
    ck_assert_int_eq(answer.code, 503); // core refuses it
    ck_assert(http_header(&answer, "Connection", value, sizeof value));
    ck_assert_str_eq(value, "close");
    ck_assert(http_is_closed(&left, 5000));
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.counts.begun, 2);
    ck_assert_uint_eq(state.counts.answered, 2);
    ck_assert_uint_eq(state.counts.timed_out, 0);
    http_close(&left);
    http_fixture_end(&fixture);
}
END_TEST

START_TEST(test_http_drain_keeps_metrics)
{
    struct http_client scraper;
    http_fixture_drain(&fixture);
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    ck_assert(http_connect(&scraper, fixture.metrics_port));
    ck_assert_int_eq(http_request(&scraper, "GET", "/metrics", "", NULL).code, 200);
    http_fixture_end(&fixture); // with the scraper's connection open
    ck_assert(http_is_closed(&scraper, 5000));
    http_close(&scraper);
}
END_TEST

START_TEST(test_http_cancel_all_answers_and_closes)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client busy = running_client();
    struct http_client half = connect_client();
    ck_assert(http_send_text(&half, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                    "Content-Length: 2\r\n\r\n{"));
    while (http_fixture_state(&fixture).counts.begun < 2) {
        (void)usleep(1000);
    }
    http_fixture_drain(&fixture);
    http_fixture_cancel_all(&fixture);
    struct http_answer answer = http_read(&busy, 5000, false);
    ck_assert_int_eq(answer.code, 503);
    ck_assert(http_is_closed(&half, 5000));
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_int_eq((int)state.last_cancel, BASE_UNAVAILABLE);
    ck_assert_uint_eq(state.counts.answered, 1);
    ck_assert_uint_eq(state.counts.lost, 1);
    http_close(&busy);
    http_close(&half);
    http_fixture_end(&fixture);
}
END_TEST

START_TEST(test_http_cancel_all_ends_unread_answers)
{
    fixture.core.answer_rows = 2u << 20; // more than the sockets' buffers hold
    struct http_client client = connect_client();
    send_infer(&client);
    while (http_fixture_state(&fixture).started < 1) {
        (void)usleep(1000);
    }
    http_fixture_drain(&fixture);
    ck_assert(!http_fixture_wait_drained(&fixture, 50));
    http_fixture_cancel_all(&fixture);
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    http_close(&client);
    http_fixture_end(&fixture);
}
END_TEST

START_TEST(test_http_core_draining_closes_connections)
{
    struct http_client client = connect_client();
    fixture.core.draining = true;
    char value[32] = "";
    struct http_answer answer = http_request(&client, "GET", "/v2/health/ready", "", NULL);
    ck_assert_int_eq(answer.code, 503);
    ck_assert(http_header(&answer, "Connection", value, sizeof value));
    ck_assert(http_is_closed(&client, 5000));
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

/* ---- Starting ---- */

static enum base_status try_start(const struct srv_http_options *options, struct base_error *error)
{
    struct srv_loop loop;
    struct srv_core core;
    struct srv_http *http;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    fake_core_init(&core, &loop);
    enum base_status status = srv_http_start(options, &loop, &core, &http, error);
    if (status == BASE_OK) {
        srv_http_drain(http, NULL, NULL);
        srv_http_stop(http);
    }
    srv_loop_stop(&loop);
    srv_loop_run(&loop);
    srv_loop_release(&loop);
    return status;
}

START_TEST(test_http_taken_ports_are_named)
{
    struct srv_http_options options;
    struct base_error error;
    char want[64];
    srv_http_options_init(&options);
    options.port = fixture.port;
    ck_assert_int_eq(try_start(&options, &error), BASE_UNAVAILABLE);
    (void)snprintf(want, sizeof want, "http: cannot listen on 127.0.0.1 port %u: address already",
                   fixture.port);
    ck_assert_msg(strncmp(error.message, want, strlen(want)) == 0, "%s", error.message);

    // The first port is given back when the second cannot be had.
    options.port = 0;
    options.metrics_port = fixture.metrics_port;
    ck_assert_int_eq(try_start(&options, &error), BASE_UNAVAILABLE);
    ck_assert_msg(strncmp(error.message, "metrics: cannot listen", 22) == 0, "%s", error.message);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_port_is_free_after_stop)
{
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.port = fixture.port;
    struct http_client client = connect_client();
    ck_assert_int_eq(http_request(&client, "GET", "/v2", "", NULL).code, 200);
    http_fixture_stop(&fixture); // our side closes first: TIME_WAIT is here
    http_close(&client);
    http_fixture_start(&fixture, &options);
    ck_assert_uint_eq(fixture.port, options.port);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_addresses)
{
    static const struct {
        const char *address;
        enum base_status status;
    } addresses[] = {{"127.0.0.1", BASE_OK},
                     {"0.0.0.0", BASE_OK},
                     {"localhost", BASE_INVALID_ARGUMENT},
                     {"", BASE_INVALID_ARGUMENT},
                     {"127.0.0.1:80", BASE_INVALID_ARGUMENT},
                     {"192.0.2.1", BASE_UNAVAILABLE}}; // of documentation, nobody has it
    struct srv_http_options options;
    struct base_error error;
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        srv_http_options_init(&options);
        options.address = addresses[i].address;
        ck_assert_msg(try_start(&options, &error) == addresses[i].status, "%s: %s",
                      addresses[i].address, error.message);
    }
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_only_one_listener)
{
    http_fixture_stop(&fixture);
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.metrics_address = NULL;
    http_fixture_start(&fixture, &options);
    ck_assert_uint_eq(fixture.metrics_port, 0);
    struct http_client client = connect_client();
    ck_assert_int_eq(http_request(&client, "GET", "/v2", "", NULL).code, 200);
    http_close(&client);
    http_fixture_stop(&fixture);

    srv_http_options_init(&options);
    options.address = NULL;
    http_fixture_start(&fixture, &options);
    ck_assert_uint_eq(fixture.port, 0);
    ck_assert(http_connect(&client, fixture.metrics_port));
    ck_assert_int_eq(http_request(&client, "GET", "/metrics", "", NULL).code, 200);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

/* The code of the answer that comes within 300 ms, 0 when there is none; allocates nothing. */
static int read_code(int fd)
{
    struct timeval limit = {.tv_usec = 300000};
    char start[16] = "";
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    ssize_t got = recv(fd, start, sizeof start - 1, 0);
    return got > 12 ? (int)strtol(start + 9, NULL, 10) : 0;
}

START_TEST(test_http_without_memory)
{
    // One allocation fails, at each place in turn: a request is answered, refused or dropped, and
    // the server goes on.
    int code = 0;
    uint32_t failures = 0;
    for (uint64_t n = 1; code != 200 || n < 20; n++) {
        ck_assert_uint_lt(n, 200);
        struct http_client client = connect_client();
        base_alloc_fail_at(n);
        send_infer(&client);
        code = read_code(client.fd);
        base_alloc_fail_at(0);
        // 400: the answer's JSON found no room.
        ck_assert_msg(code == 0 || code == 200 || code == 400 || code == 413 || code == 429, "%d",
                      code);
        failures += code != 200 ? 1 : 0;
        http_close(&client);
        ck_assert(http_fixture_wait_connections(&fixture, 0));
    }
    ck_assert_uint_gt(failures, 0);
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.bodies_bytes, 0);
    http_fixture_stop(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_life");
    TCase *tc = tcase_create("http_life");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc, test_http_client_that_leaves_cancels, 0, 3);
    tcase_add_test(tc, test_http_client_that_leaves_early);
    tcase_add_test(tc, test_http_client_whose_end_comes_with_what_it_sends);
    tcase_add_test(tc, test_http_half_closed_page_is_answered);
    tcase_add_test(tc, test_http_clients_come_and_go);
    tcase_add_test(tc, test_http_drain_finishes_what_runs);
    tcase_add_test(tc, test_http_drain_answers_what_has_been_sent);
    tcase_add_test(tc, test_http_drain_keeps_metrics);
    tcase_add_test(tc, test_http_cancel_all_answers_and_closes);
    tcase_add_test(tc, test_http_cancel_all_ends_unread_answers);
    tcase_add_test(tc, test_http_core_draining_closes_connections);
    tcase_add_test(tc, test_http_taken_ports_are_named);
    tcase_add_test(tc, test_http_port_is_free_after_stop);
    tcase_add_test(tc, test_http_addresses);
    tcase_add_test(tc, test_http_only_one_listener);
    tcase_add_test(tc, test_http_without_memory);
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
