/* Every page, every refusal, bodies of all forms, over real sockets and the fake core. */
#include "tests/server/exposition.h"
#include "tests/server/http_fixture.h"
#include "tests/util.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct http_fixture fixture;
static struct http_client client;

static void setup(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    http_fixture_start(&fixture, NULL);
    ck_assert(http_connect(&client, fixture.port));
}

static void teardown(void)
{
    http_close(&client);
    http_fixture_stop(&fixture);
}

static struct http_answer get(const char *path)
{
    return http_request(&client, "GET", path, "", NULL);
}

static void assert_answer(struct http_answer answer, int code, const char *body)
{
    ck_assert_msg(answer.code == code, "code %d: %s", answer.code, answer.body);
    ck_assert_str_eq(answer.body, body);
}

static void assert_error(struct http_answer answer, int code, const char *part)
{
    ck_assert_msg(answer.code == code, "code %d: %s", answer.code, answer.body);
    ck_assert_msg(strncmp(answer.body, "{\"error\":\"", 10) == 0 && strstr(answer.body, part), "%s",
                  answer.body);
}

static void assert_header(struct http_answer answer, const char *name, const char *want)
{
    char value[128] = "(none)";
    (void)http_header(&answer, name, value, sizeof value);
    ck_assert_str_eq(value, want);
}

/* The body's members, each of which has to be there in JSON that parses. */
static void assert_members(struct http_answer answer, const char *const members[])
{
    json_error_t why;
    ck_assert_int_eq(answer.code, 200);
    json_t *json = json_loads(answer.body, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(json != NULL, "%s: %s", why.text, answer.body);
    json_decref(json);
    for (; *members != NULL; members++) {
        ck_assert_msg(strstr(answer.body, *members) != NULL, "no %s in %s", *members, answer.body);
    }
}

START_TEST(test_http_health)
{
    struct http_answer answer = get("/v2/health/live");
    assert_answer(answer, 200, "{\"live\":true,\"ready\":true}");
    assert_header(answer, "Content-Type", "application/json");
    assert_answer(get("/v2/health/ready"), 200, "{\"live\":true,\"ready\":true}");
    fixture.core.ready = false;
    assert_answer(get("/v2/health/live"), 200, "{\"live\":true,\"ready\":false}");
    answer = get("/v2/health/ready");
    assert_answer(answer, 503, "{\"live\":true,\"ready\":false}");
    assert_header(answer, "Retry-After", "1");
}
END_TEST

START_TEST(test_http_server_metadata)
{
    static const char *const members[] = {"\"name\":\"cellbatch\"", "\"version\":\"",
                                          "\"extensions\":[", "\"statistics\"", NULL};
    assert_members(get("/v2"), members);
}
END_TEST

START_TEST(test_http_model_metadata)
{
    assert_answer(get("/v2/models/sum"), 200,
                  "{\"name\":\"sum\",\"versions\":[\"1\",\"2\"],\"platform\":\"cellbatch_onnx\","
                  "\"inputs\":[{\"name\":\"tokens\",\"datatype\":\"INT64\",\"shape\":[-1,-1]}],"
                  "\"outputs\":[{\"name\":\"sums\",\"datatype\":\"FP32\",\"shape\":[-1,2]}]}");
    ck_assert_int_eq(get("/v2/models/sum/versions/1").code, 200);
    assert_error(get("/v2/models/none"), 404, "none");
    assert_error(get("/v2/models/sum/versions/9"), 404, "9");
    assert_error(get("/v2/models/broken"), 503, "model 'broken' version 1 is unavailable: no such");
}
END_TEST

START_TEST(test_http_model_config)
{
    assert_answer(get("/v2/models/sum/config"), 200,
                  "{\"name\":\"sum\",\"platform\":\"cellbatch_onnx\",\"backend\":\"cellbatch\","
                  "\"max_batch_size\":128,"
                  "\"input\":[{\"name\":\"tokens\",\"data_type\":\"TYPE_INT64\",\"dims\":[-1]}],"
                  "\"output\":[{\"name\":\"sums\",\"data_type\":\"TYPE_FP32\",\"dims\":[2]}],"
                  "\"parameters\":{\"range.tokens\":{\"string_value\":\"0..59\"}}}");
    ck_assert_int_eq(get("/v2/models/sum/versions/2/config").code, 200);
    assert_error(get("/v2/models/none/config"), 404, "none");
    assert_error(get("/v2/models/broken/config"), 503, "unavailable: no such operator");
}
END_TEST

START_TEST(test_http_model_ready)
{
    assert_answer(get("/v2/models/sum/ready"), 200,
                  "{\"name\":\"sum\",\"version\":\"2\",\"ready\":true}");
    assert_answer(get("/v2/models/sum/versions/1/ready"), 200,
                  "{\"name\":\"sum\",\"version\":\"1\",\"ready\":true}");
    assert_answer(get("/v2/models/broken/ready"), 503,
                  "{\"name\":\"broken\",\"version\":\"1\",\"ready\":false}");
    assert_error(get("/v2/models/none/ready"), 404, "none");
}
END_TEST

START_TEST(test_http_statistics)
{
    static const char *const members[] = {
        "\"name\":\"sum\"",     "\"version\":\"1\"",
        "\"last_inference\":",  "\"inference_count\":",
        "\"execution_count\":", "\"success\":{\"count\":0,\"ns\":0}",
        "\"fail\":{",           "\"queue\":{",
        "\"compute_input\":{",  "\"compute_infer\":{",
        "\"compute_output\":{", "\"cache_hit\":{\"count\":0,\"ns\":0}",
        "\"cache_miss\":{",     NULL};
    assert_members(get("/v2/models/sum/stats"), members);
    assert_members(get("/v2/models/stats"), members);
    struct http_answer answer = get("/v2/models/sum/versions/1/stats");
    assert_members(answer, members);
    ck_assert_ptr_null(strstr(answer.body, "\"version\":\"2\""));
    ck_assert_ptr_null(strstr(get("/v2/models/stats").body, "broken"));
    assert_error(get("/v2/models/none/stats"), 404, "none");
}
END_TEST

#define INDEX_READY                                                                                \
    "{\"name\":\"sum\",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"},"                    \
    "{\"name\":\"sum\",\"version\":\"2\",\"state\":\"READY\",\"reason\":\"\"}]"

START_TEST(test_http_repository_index)
{
    const char *path = "/v2/repository/index";
    const char *all = "[{\"name\":\"broken\",\"version\":\"1\",\"state\":\"UNAVAILABLE\","
                      "\"reason\":\"no such operator\"}," INDEX_READY;
    assert_answer(http_request(&client, "POST", path, "", NULL), 200, all);
    assert_answer(http_request(&client, "POST", path, "", "{}"), 200, all);
    assert_answer(http_request(&client, "POST", path, "", "{\"ready\":true}"), 200,
                  "[" INDEX_READY);
    assert_error(http_request(&client, "POST", path, "", "{\"ready\":1}"), 400, "ready");
    assert_error(http_request(&client, "POST", path, "", "[]"), 400, "object");
    assert_error(http_request(&client, "POST", path, "", "{"), 400, "JSON");
    char large[5000];
    memset(large, ' ', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_error(http_request(&client, "POST", path, "", large), 413, "4096");
}
END_TEST

START_TEST(test_http_wrong_paths_and_methods)
{
    assert_error(get("/"), 404, "no such path");
    assert_error(get("/v2/models/sum/nothing"), 404, "no such path");
    assert_error(get("/v2/models/.sum"), 400, "a model's name");
    assert_error(get("/v2/models/s%75m/versions/a"), 400, "version");
    ck_assert_int_eq(get("/v2/models/s%75m?x=1&y=%zz").code, 200);
    struct http_answer answer = get("/v2/models/sum/infer");
    assert_error(answer, 405, "POST");
    assert_header(answer, "Allow", "POST");
    answer = http_request(&client, "POST", "/v2", "", "{}");
    assert_error(answer, 405, "GET");
    assert_header(answer, "Allow", "GET, HEAD");
    assert_error(http_request(&client, "POST", "/v2/models/sum/trace/setting", "", "{}"), 501,
                 "not served");
    assert_error(get("/metrics"), 404, "no such path"); // it has its own port
}
END_TEST

START_TEST(test_http_head)
{
    struct http_answer answer = http_request(&client, "HEAD", "/v2/health/live", "", NULL);
    ck_assert_int_eq(answer.code, 200);
    assert_header(answer, "Content-Length", "26");
    ck_assert_int_eq(get("/v2/health/live").code, 200); // and no body followed
}
END_TEST

START_TEST(test_http_infer)
{
    struct http_answer answer =
        http_request(&client, "POST", "/v2/models/sum/infer", "", HTTP_FIXTURE_BODY);
    assert_answer(answer, 200, HTTP_FIXTURE_ANSWER);
    assert_header(answer, "Content-Type", "application/json");
    assert_header(answer, "Inference-Header-Content-Length", "(none)");
    answer =
        http_request(&client, "POST", "/v2/models/sum/versions/1/infer", "", HTTP_FIXTURE_BODY);
    ck_assert_int_eq(answer.code, 200);
    ck_assert_ptr_nonnull(strstr(answer.body, "\"model_version\":\"1\""));
    ck_assert_uint_eq(http_fixture_state(&fixture).refused[BASE_OK], 2);
}
END_TEST

START_TEST(test_http_infer_later)
{
    http_fixture_pace(&fixture, FAKE_LATER, 20);
    for (int i = 0; i < 3; i++) {
        assert_answer(http_request(&client, "POST", "/v2/models/sum/infer", "", HTTP_FIXTURE_BODY),
                      200, HTTP_FIXTURE_ANSWER);
    }
    ck_assert(http_fixture_wait_answered(&fixture, 3));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.counts.connections, 1);
    ck_assert_uint_eq(state.counts.bodies_bytes, 0);
}
END_TEST

START_TEST(test_http_infer_errors)
{
    const char *path = "/v2/models/sum/infer";
    assert_error(http_request(&client, "POST", "/v2/models/none/infer", "", HTTP_FIXTURE_BODY), 404,
                 "[request id: r] ");
    assert_error(http_request(&client, "POST", path, "", "{}"), 400, "inputs has to be");
    assert_error(http_request(&client, "POST", path, "", ""), 400, "the body has no JSON");
    assert_error(http_request(&client, "POST", path, "", NULL), 400, "the body has no JSON");
    assert_error(http_request(&client, "POST", path, "Content-Encoding: gzip\r\n", "x"), 415,
                 "compressed");
    ck_assert_uint_eq(http_fixture_state(&fixture).refused[BASE_INVALID_ARGUMENT], 4);
}
END_TEST

static const struct {
    enum base_status status;
    int code;
} codes[] = {
    {BASE_INVALID_ARGUMENT, 400},    {BASE_DEADLINE_EXCEEDED, 504}, {BASE_NOT_FOUND, 404},
    {BASE_RESOURCE_EXHAUSTED, 429},  {BASE_UNIMPLEMENTED, 501},     {BASE_INTERNAL, 500},
    {BASE_FAILED_PRECONDITION, 400}, {BASE_UNAVAILABLE, 503},       {BASE_CANCELLED, 499},
};

START_TEST(test_http_statuses)
{
    fixture.core.fail = codes[_i].status;
    struct http_answer answer =
        http_request(&client, "POST", "/v2/models/sum/infer", "", HTTP_FIXTURE_BODY);
    assert_error(answer, codes[_i].code, "[request id: r] fake ");
    bool retry = codes[_i].code == 429 || codes[_i].code == 503;
    assert_header(answer, "Retry-After", retry ? "1" : "(none)");
}
END_TEST

START_TEST(test_http_timeout_parameter)
{
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    assert_error(http_request(&client, "POST", "/v2/models/sum/infer", "",
                              "{\"parameters\":{\"timeout\":50000},\"inputs\":[{\"name\":"
                              "\"tokens\",\"datatype\":\"INT64\",\"shape\":[1,1],\"data\":[1]}]}"),
                 504, "deadline");
    ck_assert_uint_eq(http_fixture_state(&fixture).last_timeout_ns, 50000000);
}
END_TEST

/* JSON, then the tokens 1, 2, 3 as INT64 bytes; binary outputs. */
#define BINARY_JSON                                                                                \
    "{\"inputs\":[{\"name\":\"tokens\",\"datatype\":\"INT64\",\"shape\":[1,3],\"parameters\":"     \
    "{\"binary_data_size\":24}}],\"parameters\":{\"binary_data_output\":true}}"

static struct http_answer send_binary(const char *json_length, size_t extra)
{
    const int64_t tokens[] = {1, 2, 3, 4};
    char head[512];
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n"
                   "Inference-Header-Content-Length: %s\r\n\r\n%s",
                   strlen(BINARY_JSON) + 24 + extra, json_length, BINARY_JSON);
    ck_assert(http_send_text(&client, head));
    ck_assert(http_send(&client, tokens, 24 + extra));
    return http_read(&client, 10000, false);
}

START_TEST(test_http_binary_tensors)
{
    char length[32];
    (void)snprintf(length, sizeof length, "%zu", strlen(BINARY_JSON));
    struct http_answer answer = send_binary(length, 0);
    const char *json = "{\"model_name\":\"sum\",\"model_version\":\"2\",\"outputs\":[{\"name\":"
                       "\"sums\",\"datatype\":\"FP32\",\"shape\":[1,2],\"parameters\":"
                       "{\"binary_data_size\":8}}]}";
    ck_assert_int_eq(answer.code, 200);
    char want[32];
    (void)snprintf(want, sizeof want, "%zu", strlen(json));
    assert_header(answer, "Inference-Header-Content-Length", want);
    assert_header(answer, "Content-Type", "application/octet-stream");
    ck_assert_uint_eq(answer.body_bytes, strlen(json) + 8);
    ck_assert_mem_eq(answer.body, json, strlen(json));
    float sums[2];
    memcpy(sums, answer.body + strlen(json), sizeof sums);
    ck_assert(sums[0] == 6.0f && sums[1] == 3.0f);
}
END_TEST

START_TEST(test_http_large_binary_answer)
{
    // Sent in pieces, from where the outputs lie.
    fixture.core.answer_rows = 100000;
    char length[32];
    (void)snprintf(length, sizeof length, "%zu", strlen(BINARY_JSON));
    for (int i = 0; i < 3; i++) {
        struct http_answer answer = send_binary(length, 0);
        char json_bytes[32] = "";
        ck_assert_int_eq(answer.code, 200);
        ck_assert(
            http_header(&answer, "Inference-Header-Content-Length", json_bytes, sizeof json_bytes));
        size_t json = strtoul(json_bytes, NULL, 10);
        ck_assert_uint_eq(answer.body_bytes, json + 800000);
        ck_assert_ptr_nonnull(strstr(answer.body, "\"binary_data_size\":800000}}]}"));
        float sums[2];
        memcpy(sums, answer.body + json, sizeof sums);
        ck_assert(sums[0] == 6.0f && sums[1] == 3.0f);
    }
}
END_TEST

START_TEST(test_http_binary_header_is_checked)
{
    static const char *const bad[] = {"100000", "-1", "1x",  "", "99999999999999999999999",
                                      "1.0",    "0",  "5, 5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct http_answer answer = send_binary(bad[i], 0);
        ck_assert_msg(answer.code == 400, "%s: %d %s", bad[i], answer.code, answer.body);
    }
    char length[32];
    (void)snprintf(length, sizeof length, "%zu", strlen(BINARY_JSON));
    assert_error(send_binary(length, 8), 400, "8 bytes of the body belong to no input");
    assert_error(http_request(&client, "POST", "/v2/models/sum/infer",
                              "Inference-Header-Content-Length: 2\r\n"
                              "Inference-Header-Content-Length: 2\r\n",
                              "{}"),
                 400, "one whole number");
    ck_assert_int_eq(send_binary(length, 0).code, 200); // and the connection still works
}
END_TEST

static void send_chunked(const char *body, size_t piece)
{
    char line[32];
    ck_assert(http_send_text(&client, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                      "Transfer-Encoding: chunked\r\n\r\n"));
    size_t length = strlen(body);
    for (size_t at = 0; at < length; at += piece) {
        size_t bytes = length - at < piece ? length - at : piece;
        (void)snprintf(line, sizeof line, "%zx;x=y\r\n", bytes);
        ck_assert(http_send_text(&client, line));
        ck_assert(http_send(&client, body + at, bytes));
        ck_assert(http_send_text(&client, "\r\n"));
    }
    ck_assert(http_send_text(&client, "0\r\nTrailer: x\r\n\r\n"));
}

START_TEST(test_http_chunked_bodies)
{
    static const size_t pieces[] = {1, 7, 1000};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        send_chunked(HTTP_FIXTURE_BODY, pieces[i]);
        assert_answer(http_read(&client, 10000, false), 200, HTTP_FIXTURE_ANSWER);
    }
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.connections, 1);
}
END_TEST

START_TEST(test_http_malformed_requests_close)
{
    static const char *const bad[] = {
        "GET\r\n\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: x\r\n\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: -5\r\n\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: "
        "99999999999999999999999\r\n\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        "ffffffffffffffffff\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n"
        "Content-Length: 3\r\n\r\n{}x",
    };
    struct http_client other;
    ck_assert(http_connect(&other, fixture.port));
    ck_assert(http_send_text(&other, bad[_i]));
    int code = http_read(&other, 10000, false).code;
    ck_assert_msg(code == 0 || (code >= 400 && code < 500), "%d", code);
    ck_assert(http_is_closed(&other, 5000));
    http_close(&other);
    ck_assert_int_eq(get("/v2").code, 200);
}
END_TEST

START_TEST(test_http_pipelined_requests)
{
    http_fixture_pace(&fixture, FAKE_LATER, 5);
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n"
                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n%s"
                   "POST /v2/models/none/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n%s"
                   "GET /v2/models/sum/ready HTTP/1.1\r\nHost: t\r\n\r\n",
                   strlen(HTTP_FIXTURE_BODY), HTTP_FIXTURE_BODY, strlen(HTTP_FIXTURE_BODY),
                   HTTP_FIXTURE_BODY);
    for (int round = 0; round < 3; round++) {
        ck_assert(http_send_text(&client, text));
        ck_assert_int_eq(http_read(&client, 10000, false).code, 200);
        assert_answer(http_read(&client, 10000, false), 200, HTTP_FIXTURE_ANSWER);
        ck_assert_int_eq(http_read(&client, 10000, false).code, 404);
        ck_assert_int_eq(http_read(&client, 10000, false).code, 200);
    }
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.connections, 1);
}
END_TEST

START_TEST(test_http_expect_continue)
{
    char head[256];
    (void)snprintf(head, sizeof head,
                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n"
                   "Expect: 100-continue\r\n\r\n",
                   strlen(HTTP_FIXTURE_BODY));
    ck_assert(http_send_text(&client, head));
    ck_assert_int_eq(http_read(&client, 10000, false).code, 100);
    ck_assert(http_send_text(&client, HTTP_FIXTURE_BODY));
    assert_answer(http_read(&client, 10000, false), 200, HTTP_FIXTURE_ANSWER);

    // What will be refused is refused before it is sent.
    ck_assert(http_send_text(&client, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                      "Content-Length: 999999999\r\nExpect: 100-continue\r\n\r\n"));
    assert_error(http_read(&client, 10000, false), 413, "67108864");
    ck_assert(http_is_closed(&client, 5000));
}
END_TEST

START_TEST(test_http_1_0_closes)
{
    ck_assert(http_send_text(&client, "GET /v2/health/live HTTP/1.0\r\n\r\n"));
    ck_assert_int_eq(http_read(&client, 10000, false).code, 200);
    ck_assert(http_is_closed(&client, 5000));
}
END_TEST

START_TEST(test_http_get_with_a_body)
{
    ck_assert_int_eq(http_request(&client, "GET", "/v2", "", "a body nobody asked for").code, 200);
    ck_assert_int_eq(get("/v2").code, 200);
}
END_TEST

START_TEST(test_http_metrics_port)
{
    struct http_client scraper;
    ck_assert(http_connect(&scraper, fixture.metrics_port));
    ck_assert_int_eq(get("/v2").code, 200);
    ck_assert_int_eq(get("/nothing").code, 404);
    struct http_answer answer = http_request(&scraper, "GET", "/metrics", "", NULL);
    ck_assert_int_eq(answer.code, 200);
    assert_header(answer, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    // After the fake core's line.
    const char *page = strstr(answer.body, "# HELP");
    ck_assert_ptr_nonnull(page);
    char error[EXPOSITION_ERROR_BYTES];
    ck_assert_msg(exposition_check(page, strlen(page), error), "%s in %s", error, page);
    double value = 0;
    ck_assert(exposition_find(page, "cellbatch_http_responses_total{code=\"2xx\"}", &value));
    ck_assert(value == 1.0);
    ck_assert(exposition_find(page, "cellbatch_http_responses_total{code=\"4xx\"}", &value));
    ck_assert(value == 1.0);
    ck_assert(exposition_find(page, "cellbatch_http_connections", &value));
    ck_assert(value == 1.0);
    assert_error(http_request(&scraper, "GET", "/v2", "", NULL), 404, "/metrics");
    assert_error(http_request(&scraper, "POST", "/metrics", "", "x"), 405, "GET");
    ck_assert_int_eq(http_request(&scraper, "HEAD", "/metrics", "", NULL).code, 200);
    http_close(&scraper);
}
END_TEST

START_TEST(test_http_many_connections)
{
    enum { CLIENTS = 64 };
    static struct http_client clients[CLIENTS];
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(HTTP_FIXTURE_BODY), HTTP_FIXTURE_BODY);
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert(http_connect(&clients[i], fixture.port));
        ck_assert(http_send_text(&clients[i], text));
    }
    ck_assert(http_fixture_wait_running(&fixture, CLIENTS));
    ck_assert_int_eq(get("/v2/health/ready").code, 200); // the loop is free meanwhile
    http_fixture_release(&fixture);
    for (int i = 0; i < CLIENTS; i++) {
        assert_answer(http_read(&clients[i], 10000, false), 200, HTTP_FIXTURE_ANSWER);
        http_close(&clients[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_server");
    TCase *tc = tcase_create("http_server");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_http_health);
    tcase_add_test(tc, test_http_server_metadata);
    tcase_add_test(tc, test_http_model_metadata);
    tcase_add_test(tc, test_http_model_config);
    tcase_add_test(tc, test_http_model_ready);
    tcase_add_test(tc, test_http_statistics);
    tcase_add_test(tc, test_http_repository_index);
    tcase_add_test(tc, test_http_wrong_paths_and_methods);
    tcase_add_test(tc, test_http_head);
    tcase_add_test(tc, test_http_infer);
    tcase_add_test(tc, test_http_infer_later);
    tcase_add_test(tc, test_http_infer_errors);
    tcase_add_loop_test(tc, test_http_statuses, 0, (int)(sizeof codes / sizeof codes[0]));
    tcase_add_test(tc, test_http_timeout_parameter);
    tcase_add_test(tc, test_http_binary_tensors);
    tcase_add_test(tc, test_http_large_binary_answer);
    tcase_add_test(tc, test_http_binary_header_is_checked);
    tcase_add_test(tc, test_http_chunked_bodies);
    tcase_add_loop_test(tc, test_http_malformed_requests_close, 0, 9);
    tcase_add_test(tc, test_http_pipelined_requests);
    tcase_add_test(tc, test_http_expect_continue);
    tcase_add_test(tc, test_http_1_0_closes);
    tcase_add_test(tc, test_http_get_with_a_body);
    tcase_add_test(tc, test_http_metrics_port);
    tcase_add_test(tc, test_http_many_connections);
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
