/* What a client may take of the server: bytes, time, connections. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/server/http_fixture.h"
#include "tests/util.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct http_fixture fixture;

static void start(const struct srv_http_options *options)
{
    (void)signal(SIGPIPE, SIG_IGN);
    http_fixture_start(&fixture, options);
}

static struct http_client connect_client(void)
{
    struct http_client client;
    ck_assert(http_connect(&client, fixture.port));
    return client;
}

static void assert_serves(void)
{
    struct http_client client = connect_client();
    ck_assert_int_eq(http_request(&client, "GET", "/v2/health/live", "", NULL).code, 200);
    http_close(&client);
}

#define SHORT_MS 300u

/* Short times, which a slow client meets; the others stay long. */
static struct srv_http_options options_with(uint32_t head_ms, uint32_t idle_ms, uint32_t body_ms,
                                            uint32_t send_ms)
{
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.head_ms = head_ms;
    options.idle_ms = idle_ms;
    options.body_ms = body_ms;
    options.send_ms = send_ms;
    return options;
}

/* Sends text byte by byte, faster than any inactivity limit would notice, until the server closes
 * the connection; returns after how many milliseconds. */
static uint64_t drip(struct http_client *client, const char *text)
{
    uint64_t start_ns = base_now_ns();
    char dropped[64];
    for (size_t i = 0; base_now_ns() - start_ns < 10 * BASE_NS_PER_S; i++) {
        const char *byte = i < strlen(text) ? text + i : "a";
        if (!http_send(client, byte, 1) ||
            recv(client->fd, dropped, sizeof dropped, MSG_DONTWAIT) == 0) {
            break;
        }
        (void)usleep(10000);
    }
    return (base_now_ns() - start_ns) / BASE_NS_PER_MS;
}

static void assert_about(uint64_t got_ms, uint32_t limit_ms)
{
    // Other work on this machine may delay it, nothing may hasten it.
    ck_assert_msg(got_ms >= limit_ms * 8 / 10 && got_ms < limit_ms + 3000, "%llu ms",
                  (unsigned long long)got_ms);
}

START_TEST(test_http_slow_head_is_closed)
{
    struct srv_http_options options = options_with(SHORT_MS, 60000, 60000, 60000);
    start(&options);
    struct http_client client = connect_client();
    assert_about(drip(&client, "GET /v2/health/live HTTP/1.1\r\nHost: "), SHORT_MS);
    http_close(&client);
    client = connect_client(); // nothing at all
    uint64_t start_ns = base_now_ns();
    ck_assert(http_is_closed(&client, 5000));
    assert_about((base_now_ns() - start_ns) / BASE_NS_PER_MS, SHORT_MS);
    http_close(&client);
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.timed_out, 2);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_slow_body_is_closed)
{
    struct srv_http_options options = options_with(60000, 60000, SHORT_MS, 60000);
    start(&options);
    struct http_client client = connect_client();
    ck_assert(http_send_text(&client, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                      "Content-Length: 100000\r\n\r\n"));
    assert_about(drip(&client, "{"), SHORT_MS);
    http_close(&client);
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.counts.timed_out, 1);
    ck_assert_uint_eq(state.counts.lost, 1);
    ck_assert_uint_eq(state.counts.bodies_bytes, 0);
    ck_assert_uint_eq(state.started, 0);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_idle_connection_is_closed)
{
    struct srv_http_options options = options_with(60000, SHORT_MS, 60000, 60000);
    start(&options);
    struct http_client client = connect_client();
    ck_assert_int_eq(http_request(&client, "GET", "/v2", "", NULL).code, 200);
    uint64_t start_ns = base_now_ns();
    ck_assert(http_is_closed(&client, 5000));
    assert_about((base_now_ns() - start_ns) / BASE_NS_PER_MS, SHORT_MS);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_running_request_has_no_time_limit)
{
    struct srv_http_options options = options_with(100, 100, 100, 100);
    start(&options);
    http_fixture_pace(&fixture, FAKE_LATER, 600);
    struct http_client client = connect_client();
    ck_assert_str_eq(
        http_request(&client, "POST", "/v2/models/sum/infer", "", HTTP_FIXTURE_BODY).body,
        HTTP_FIXTURE_ANSWER);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_unread_answer_is_closed)
{
    struct srv_http_options options = options_with(60000, 60000, 60000, SHORT_MS);
    start(&options);
    fixture.core.answer_rows = 2u << 20; // 16 MiB of floats, 16 MiB of JSON and more
    struct http_client client = connect_client();
    char head[512];
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(HTTP_FIXTURE_BODY), HTTP_FIXTURE_BODY);
    ck_assert(http_send_text(&client, head));
    ck_assert(http_fixture_wait_lost(&fixture, 1)); // we do not read
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.timed_out, 1);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_largest_body_is_served)
{
    start(NULL);
    struct http_client client = connect_client();
    for (int chunked = 0; chunked < 2; chunked++) {
        struct http_answer answer =
            http_fixture_post_large(&client, (size_t)64 << 20, chunked != 0);
        ck_assert_msg(answer.code == 200, "%d %s", answer.code, answer.body);
        ck_assert_ptr_nonnull(strstr(answer.body, "\"data\":[0.0,8388583.0]"));
    }
    ck_assert(http_fixture_wait_answered(&fixture, 2));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.bodies_bytes, 0);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_larger_body_is_refused)
{
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.body_bytes_max = 1u << 20;
    start(&options);
    struct http_client client = connect_client();
    for (int chunked = 0; chunked < 2; chunked++) {
        // It is read to its end, so that the client gets to read why.
        struct http_answer answer = http_fixture_post_large(&client, (2u << 20) + 1, chunked != 0);
        ck_assert_int_eq(answer.code, 413);
        ck_assert_str_eq(answer.body,
                         "{\"error\":\"the body is larger than the limit of 1048576 bytes\"}");
    }
    ck_assert_int_eq(http_fixture_post_large(&client, 1u << 20, false).code,
                     200); // the connection is alive
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.refused[BASE_RESOURCE_EXHAUSTED], 2);
    ck_assert_uint_eq(state.started, 1);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_larger_json_is_refused)
{
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.json_bytes_max = 100;
    start(&options);
    struct http_client client = connect_client();
    struct http_answer answer =
        http_request(&client, "POST", "/v2/models/sum/infer", "",
                     HTTP_FIXTURE_BODY "                                                        ");
    ck_assert_int_eq(answer.code, 413);
    ck_assert_ptr_nonnull(strstr(answer.body, "the limit is 100"));
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_json_depth_bomb_is_refused)
{
    start(NULL);
    struct http_client client = connect_client();
    size_t bytes = 4u << 20;
    char *body = base_alloc(bytes + 1);
    memset(body, '[', bytes);
    struct http_answer answer = http_request(&client, "POST", "/v2/models/sum/infer", "", body);
    ck_assert_int_eq(answer.code, 400);
    ck_assert_ptr_nonnull(strstr(answer.body, "nested deeper"));
    base_free(body);
    http_close(&client);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_all_bodies_are_bounded)
{
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.body_bytes_max = 1u << 20;
    options.bodies_bytes_max = 1u << 20;
    options.busy = BASE_UNAVAILABLE;
    start(&options);
    // One client holds most of it.
    struct http_client holder = connect_client();
    char *bytes = base_alloc(900u << 10);
    ck_assert(http_send_text(&holder, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                      "Content-Length: 1000000\r\n\r\n"));
    ck_assert(http_send(&holder, bytes, 900u << 10));
    while (http_fixture_state(&fixture).counts.bodies_bytes < 900u << 10) {
        (void)usleep(1000);
    }
    struct http_client client = connect_client();
    struct http_answer answer = http_fixture_post_large(&client, 200u << 10, false);
    ck_assert_int_eq(answer.code, 503);
    ck_assert_ptr_nonnull(strstr(answer.body, "too many request bodies"));
    ck_assert_int_eq(http_fixture_post_large(&client, 50u << 10, false).code, 200);
    base_free(bytes);
    http_close(&holder);
    ck_assert(http_fixture_wait_connections(&fixture, 1));
    ck_assert_int_eq(http_fixture_post_large(&client, 200u << 10, false).code, 200);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_long_answer_is_refused)
{
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.response_bytes_max = 1000;
    start(&options);
    fixture.core.answer_rows = 1000;
    struct http_client client = connect_client();
    struct http_answer answer =
        http_request(&client, "POST", "/v2/models/sum/infer", "", HTTP_FIXTURE_BODY);
    ck_assert_int_eq(answer.code, 400);
    ck_assert_ptr_nonnull(strstr(answer.body, "ask for binary outputs"));
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_connections_are_bounded)
{
    struct srv_http_options options;
    srv_http_options_init(&options);
    options.connections_max = 3;
    start(&options);
    struct http_client clients[4];
    for (int i = 0; i < 4; i++) {
        clients[i] = connect_client();
        ck_assert(http_send_text(&clients[i], "GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n"));
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(http_read(&clients[i], 5000, false).code, 200);
    }
    ck_assert_int_eq(http_read(&clients[3], 200, false).code, 0); // waits for its turn
    http_close(&clients[0]);
    ck_assert_int_eq(http_read(&clients[3], 5000, false).code, 200);
    for (int i = 1; i < 4; i++) {
        http_close(&clients[i]);
    }
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_large_head_is_refused)
{
    start(NULL);
    struct http_client client = connect_client();
    char *head = base_alloc(100001);
    memset(head, 'a', 100000);
    memcpy(head, "X: ", 3);
    memcpy(head + 99998, "\r\n", 3);
    struct http_answer answer = http_request(&client, "GET", "/v2", head, NULL);
    ck_assert(answer.code == 431 || answer.code == 0);
    http_close(&client);
    client = connect_client();
    memcpy(head, "/v2", 3);
    head[99998] = '\0';
    answer = http_request(&client, "GET", head, "", NULL);
    ck_assert(answer.code == 414 || answer.code == 0);
    http_close(&client);
    base_free(head);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_limits");
    TCase *tc = tcase_create("http_limits");
    tcase_add_test(tc, test_http_slow_head_is_closed);
    tcase_add_test(tc, test_http_slow_body_is_closed);
    tcase_add_test(tc, test_http_idle_connection_is_closed);
    tcase_add_test(tc, test_http_running_request_has_no_time_limit);
    tcase_add_test(tc, test_http_unread_answer_is_closed);
    tcase_add_test(tc, test_http_largest_body_is_served);
    tcase_add_test(tc, test_http_larger_body_is_refused);
    tcase_add_test(tc, test_http_larger_json_is_refused);
    tcase_add_test(tc, test_http_json_depth_bomb_is_refused);
    tcase_add_test(tc, test_http_all_bodies_are_bounded);
    tcase_add_test(tc, test_http_long_answer_is_refused);
    tcase_add_test(tc, test_http_connections_are_bounded);
    tcase_add_test(tc, test_http_large_head_is_refused);
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
