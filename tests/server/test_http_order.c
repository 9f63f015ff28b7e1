/* Loads and unloads over HTTP: their bodies, answers and errors; clients that leave, requests that
 * follow on the connection, drain and stop while one is under way. */
#include "base/mem.h"
#include "server/http/json.h"
#include "server/orders.h"
#include "tests/server/http_fixture.h"
#include "tests/util.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOAD   "/v2/repository/models/sum/load"
#define UNLOAD "/v2/repository/models/sum/unload"

/* ---- Bodies ---- */

static const struct {
    enum srv_control_kind kind;
    const char *body, *words; /* words NULL: accepted */
} bodies[] = {
    {SRV_CONTROL_LOAD, "", NULL},
    {SRV_CONTROL_LOAD, "{}", NULL},
    {SRV_CONTROL_LOAD, "{\"parameters\":{}}", NULL},
    {SRV_CONTROL_LOAD, "{\"more\":[1,{}]}", NULL},
    {SRV_CONTROL_UNLOAD, "{\"parameters\":{\"unload_dependents\":false}}", NULL},
    {SRV_CONTROL_UNLOAD, "{\"parameters\":{\"unload_dependents\":true,\"more\":1}}", NULL},
    {SRV_CONTROL_LOAD, "{\"parameters\":{\"config\":\"{}\"}}", "'config' is not implemented"},
    {SRV_CONTROL_LOAD, "{\"parameters\":{\"file:1/m.onnx\":\"AA==\"}}",
     "'file:1/m.onnx' is not implemented"},
    {SRV_CONTROL_LOAD, "{\"parameters\":{\"unload_dependents\":true}}",
     "unrecognized load parameter 'unload_dependents'"},
    {SRV_CONTROL_LOAD, "{\"parameters\":[]}", "parameters"},
    {SRV_CONTROL_UNLOAD, "{\"parameters\":null}", "parameters"},
    {SRV_CONTROL_LOAD, "[]", "JSON object"},
    {SRV_CONTROL_LOAD, "{", "JSON"},
    {SRV_CONTROL_UNLOAD, "{}{}", "JSON"},
};

START_TEST(test_http_order_bodies)
{
    struct srv_http_codec codec;
    struct base_error error = {.message = ""};
    srv_http_codec_init(&codec, 1 << 16);
    enum base_status status = srv_http_decode_order(
        &codec, (const uint8_t *)bodies[_i].body, strlen(bodies[_i].body), bodies[_i].kind, &error);
    if (bodies[_i].words == NULL) {
        ck_assert_msg(status == BASE_OK, "%s", error.message);
    } else {
        ck_assert_int_eq(status, BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, bodies[_i].words) != NULL, "%s", error.message);
    }
    srv_http_codec_release(&codec);
}
END_TEST

/* ---- Requests ---- */

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

static uint32_t seen_running;

static void look(struct http_fixture *f)
{
    seen_running = f->core.controls_running;
}

static bool wait_controls(uint32_t running)
{
    for (int i = 0; i < 10000; i++) {
        http_fixture_on_loop(&fixture, look);
        if (seen_running == running) {
            return true;
        }
        (void)usleep(1000);
    }
    return false;
}

static void end_controls(struct http_fixture *f)
{
    fake_core_end_controls(&f->core);
}

static void send_post(struct http_client *client, const char *path)
{
    char text[256];
    (void)snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n",
                   path);
    ck_assert(http_send_text(client, text));
}

/* A client whose order is under way. */
static struct http_client waiting_client(const char *path)
{
    http_fixture_on_loop(&fixture, look);
    uint32_t running = seen_running;
    struct http_client client = connect_client();
    send_post(&client, path);
    ck_assert(wait_controls(running + 1));
    return client;
}

static void check_answer(struct http_answer answer, int code, const char *body)
{
    ck_assert_msg(answer.code == code, "%d %s", answer.code, answer.body);
    ck_assert_msg(strstr(answer.body, body) != NULL, "%s", answer.body);
}

START_TEST(test_http_order_is_answered_when_it_has_ended)
{
    http_fixture_pace(&fixture, _i == 0 ? FAKE_AT_ONCE : FAKE_LATER, 20);
    struct http_client client = connect_client();
    struct http_answer answer = http_request(&client, "POST", LOAD, "", NULL);
    ck_assert_int_eq(answer.code, 200);
    ck_assert_str_eq(answer.body, "{}");
    ck_assert_int_eq((int)fixture.core.control_kind, (int)SRV_CONTROL_LOAD);
    answer =
        http_request(&client, "POST", UNLOAD, "", "{\"parameters\":{\"unload_dependents\":false}}");
    ck_assert_int_eq(answer.code, 200);
    ck_assert_str_eq(answer.body, "{}");
    ck_assert_int_eq((int)fixture.core.control_kind, (int)SRV_CONTROL_UNLOAD);
    ck_assert_str_eq(fixture.core.control_name, "sum");
    ck_assert_uint_eq(fixture.core.controls_begun, 2);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

static void set_failing(struct http_fixture *f)
{
    f->core.fail = BASE_NOT_FOUND;
}

static void set_off(struct http_fixture *f)
{
    f->core.fail = BASE_OK;
    f->core.control_off = true;
}

static void set_draining(struct http_fixture *f)
{
    f->core.control_off = false;
    f->core.draining = true;
}

START_TEST(test_http_order_errors)
{
    struct http_client client = connect_client();
    http_fixture_on_loop(&fixture, set_failing);
    check_answer(http_request(&client, "POST", LOAD, "", "{}"), 404, "{\"error\":\"fake not found");
    check_answer(http_request(&client, "POST", UNLOAD, "", NULL), 404, "'sum'");
    http_fixture_on_loop(&fixture, set_off);
    check_answer(http_request(&client, "POST", LOAD, "", NULL), 400, "off");
    check_answer(http_request(&client, "POST", LOAD, "", "{\"parameters\":{\"config\":\"\"}}"), 400,
                 "config");
    check_answer(http_request(&client, "POST", "/v2/repository/models/.x/load", "", NULL), 400,
                 "name");
    check_answer(http_request(&client, "PUT", LOAD, "", "{}"), 405, "POST");
    struct http_answer answer = http_request(&client, "GET", LOAD, "", NULL);
    char value[32] = "";
    check_answer(answer, 405, "POST");
    ck_assert(http_header(&answer, "Allow", value, sizeof value));
    ck_assert_str_eq(value, "POST");
    ck_assert_uint_eq(fixture.core.controls_begun, 2);
    http_fixture_on_loop(&fixture, set_draining);
    check_answer(http_request(&client, "POST", UNLOAD, "", NULL), 503, "drain");
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_order_with_a_large_body_is_refused)
{
    enum { BODY_BYTES = 128 << 10 };
    char *body = base_alloc(BODY_BYTES + 1);
    ck_assert_ptr_nonnull(body);
    memset(body, ' ', BODY_BYTES);
    struct http_client client = connect_client();
    check_answer(http_request(&client, "POST", LOAD, "", body), 413, "as it lies");
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.bodies_bytes, 0);
    ck_assert_uint_eq(fixture.core.controls_begun, 0);
    base_free(body);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

/* A close, a reset, and the end of the client's half. */
START_TEST(test_http_order_goes_on_when_its_client_leaves)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client stays = waiting_client(LOAD);
    struct http_client leaves = waiting_client(LOAD);
    if (_i == 0) {
        http_close(&leaves);
    } else if (_i == 1) {
        http_abort(&leaves);
    } else {
        ck_assert_int_eq(shutdown(leaves.fd, SHUT_WR), 0);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 1));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.lost, 1);
    if (_i == 2) {
        ck_assert(http_is_closed(&leaves, 5000));
        http_close(&leaves);
    }
    ck_assert(wait_controls(2));
    http_fixture_on_loop(&fixture, end_controls);
    check_answer(http_read(&stays, 5000, false), 200, "{}");
    http_close(&stays);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_order_holds_back_what_follows)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client client = waiting_client(LOAD);
    send_post(&client, UNLOAD);
    ck_assert(http_send_text(&client, "GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n"));
    (void)usleep(20000);
    ck_assert(wait_controls(1));
    http_fixture_on_loop(&fixture, end_controls);
    check_answer(http_read(&client, 5000, false), 200, "{}");
    ck_assert(wait_controls(1));
    ck_assert_int_eq((int)fixture.core.control_kind, (int)SRV_CONTROL_UNLOAD);
    http_fixture_on_loop(&fixture, end_controls);
    check_answer(http_read(&client, 5000, false), 200, "{}");
    check_answer(http_read(&client, 5000, false), 200, "\"live\":true");
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

/* Others are served while it lasts, and those whose clients have left count. */
START_TEST(test_http_order_more_than_allowed_are_refused)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    for (uint32_t i = 0; i < SRV_ORDERS_MAX; i++) {
        struct http_client leaves = waiting_client(LOAD);
        http_close(&leaves);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    struct http_client client = connect_client();
    check_answer(http_request(&client, "POST", LOAD, "", NULL), 429, "busy");
    http_fixture_on_loop(&fixture, end_controls);
    http_fixture_pace(&fixture, FAKE_AT_ONCE, 0);
    check_answer(http_request(&client, "POST", LOAD, "", NULL), 200, "{}");
    check_answer(http_request(&client, "POST", "/v2/models/sum/infer", "", HTTP_FIXTURE_BODY), 200,
                 "sums");
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_order_is_awaited_by_a_drain)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client client = waiting_client(LOAD);
    http_fixture_drain(&fixture);
    ck_assert(!http_fixture_wait_drained(&fixture, 50));
    http_fixture_on_loop(&fixture, end_controls);
    char value[32] = "";
    struct http_answer answer = http_read(&client, 5000, false);
    check_answer(answer, 200, "{}");
    ck_assert(http_header(&answer, "Connection", value, sizeof value));
    ck_assert_str_eq(value, "close");
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    http_close(&client);
    http_fixture_end(&fixture);
}
END_TEST

/* The server is gone when the order ends. */
START_TEST(test_http_order_outlives_the_server)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client client = waiting_client(UNLOAD);
    struct http_client gone = waiting_client(LOAD);
    http_close(&gone);
    http_fixture_drain(&fixture);
    http_fixture_cancel_all(&fixture);
    check_answer(http_read(&client, 5000, false), 503, "the server is stopping");
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.answered, 1);
    http_close(&client);
    http_fixture_end(&fixture);
    ck_assert_uint_eq(fixture.core.controls_running, 2);
    fake_core_end_controls(&fixture.core);
}
END_TEST

START_TEST(test_http_order_clients_come_and_go)
{
    struct base_random random = util_random(1);
    http_fixture_pace(&fixture, FAKE_LATER, 2);
    for (int i = 0; i < 200; i++) {
        struct http_client client = connect_client();
        send_post(&client, LOAD);
        send_post(&client, UNLOAD);
        (void)usleep(base_random_below(&random, 4000));
        if (base_random_below(&random, 2) == 0) {
            http_abort(&client);
        } else {
            http_close(&client);
        }
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    ck_assert(wait_controls(0));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.counts.open, 0);
    ck_assert_uint_eq(state.counts.begun, state.counts.answered + state.counts.lost);
    http_fixture_stop(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_order");
    TCase *tc = tcase_create("bodies");
    tcase_add_loop_test(tc, test_http_order_bodies, 0, (int)(sizeof bodies / sizeof bodies[0]));
    suite_add_tcase(suite, tc);
    tc = tcase_create("requests");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc, test_http_order_is_answered_when_it_has_ended, 0, 2);
    tcase_add_test(tc, test_http_order_errors);
    tcase_add_test(tc, test_http_order_with_a_large_body_is_refused);
    tcase_add_loop_test(tc, test_http_order_goes_on_when_its_client_leaves, 0, 3);
    tcase_add_test(tc, test_http_order_holds_back_what_follows);
    tcase_add_test(tc, test_http_order_more_than_allowed_are_refused);
    tcase_add_test(tc, test_http_order_is_awaited_by_a_drain);
    tcase_add_test(tc, test_http_order_outlives_the_server);
    tcase_add_test(tc, test_http_order_clients_come_and_go);
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
