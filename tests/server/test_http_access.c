/* Tokens over HTTP: what is refused without one, with which code, and that the connection goes on.
 */
#include "tests/server/access.h"
#include "tests/server/http_fixture.h"
#include "tests/util.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define USE     "a-token-of-those-who-ask"
#define CONTROL "a-token-of-those-who-load"

static struct http_fixture fixture;
static struct http_client client;
static struct srv_access sets;

static void setup(void)
{
    struct srv_http_options options;
    (void)signal(SIGPIPE, SIG_IGN);
    srv_http_options_init(&options);
    sets = (struct srv_access){access_tokens(USE "\n"), access_tokens(CONTROL "\n")};
    options.access = &sets;
    http_fixture_start(&fixture, &options);
    ck_assert(http_connect(&client, fixture.port));
}

static void teardown(void)
{
    http_close(&client);
    http_fixture_stop(&fixture);
    srv_tokens_free(sets.use);
    srv_tokens_free(sets.control);
}

static int ask(const char *method, const char *path, const char *token, const char *body)
{
    char head[300] = "";
    if (token != NULL) {
        (void)snprintf(head, sizeof head, "Authorization: Bearer %s\r\n", token);
    }
    struct http_answer answer = http_request(&client, method, path, head, body);
    char value[64] = "";
    ck_assert((answer.code == 401) ==
              http_header(&answer, "WWW-Authenticate", value, sizeof value));
    ck_assert(answer.code != 401 || strcmp(value, "Bearer") == 0);
    ck_assert(answer.code < 400 || strncmp(answer.body, "{\"error\":\"", 10) == 0);
    return answer.code;
}

START_TEST(test_pages)
{
    static const struct {
        const char *method, *path, *body;
        int without, with_use, with_control;
    } cases[] = {
        {"GET", "/v2/health/live", NULL, 200, 200, 200},
        {"GET", "/v2/health/ready", NULL, 200, 200, 200},
        {"GET", "/v2", NULL, 401, 200, 200},
        {"GET", "/v2/models/sum", NULL, 401, 200, 200},
        {"GET", "/v2/models/sum/ready", NULL, 401, 200, 200},
        {"GET", "/v2/models/stats", NULL, 401, 200, 200},
        {"POST", "/v2/repository/index", "{}", 401, 200, 200},
        {"POST", "/v2/models/sum/infer", HTTP_FIXTURE_BODY, 401, 200, 200},
        {"POST", "/v2/models/sum/generate", "{\"tokens\":[1,2]}", 401, 200, 200},
        {"POST", "/v2/models/sum/generate_stream", "", 401, 400, 400},
        {"POST", "/v2/repository/models/sum/load", "{}", 401, 403, 200},
        {"POST", "/v2/repository/models/sum/unload", "{}", 401, 403, 200},
        {"GET", "/nowhere", NULL, 404, 404, 404},
        {"GET", "/v2/models/sum/infer", NULL, 405, 405, 405},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const tokens[] = {NULL, "a-token-of-nobody-at-all", USE, CONTROL};
        const int codes[] = {cases[i].without, cases[i].without, cases[i].with_use,
                             cases[i].with_control};
        for (size_t t = 0; t < 4; t++) { // all on one connection
            const int code = ask(cases[i].method, cases[i].path, tokens[t], cases[i].body);
            ck_assert_msg(code == codes[t], "%s %s, token %zu: %d", cases[i].method, cases[i].path,
                          t, code);
        }
    }
    const struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.started, 4);
    ck_assert_uint_eq(state.refused[BASE_UNAUTHENTICATED], 6);
    ck_assert_uint_eq(fixture.core.controls_begun, 2);
}
END_TEST

/* A body that is not wanted is thrown away; one that is asked about first is not even sent. */
START_TEST(test_bodies)
{
    ck_assert_int_eq(http_fixture_post_large(&client, 1u << 20, false).code, 401);
    ck_assert_int_eq(http_fixture_post_large(&client, 1u << 20, true).code, 401);
    ck_assert_int_eq(ask("GET", "/v2", USE, NULL), 200);
    ck_assert(http_send_text(&client, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                      "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"));
    ck_assert_int_eq(http_read(&client, 5000, false).code, 401);
}
END_TEST

/* Which of two counts nobody could say. */
START_TEST(test_two_headers)
{
    struct http_answer answer =
        http_request(&client, "GET", "/v2",
                     "Authorization: Bearer " USE "\r\nAuthorization: Bearer " USE "\r\n", NULL);
    ck_assert_int_eq(answer.code, 401);
}
END_TEST

START_TEST(test_metrics_need_none)
{
    struct http_client scraper;
    ck_assert(http_connect(&scraper, fixture.metrics_port));
    ck_assert_int_eq(http_request(&scraper, "GET", "/metrics", "", NULL).code, 200);
    http_close(&scraper);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_access");
    TCase *tcase = tcase_create("access");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_pages);
    tcase_add_test(tcase, test_bodies);
    tcase_add_test(tcase, test_two_headers);
    tcase_add_test(tcase, test_metrics_need_none);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
