/* What is taken as a file of tokens, every refusal with its message, and who may do what. */
#include "base/mem.h"
#include "server/tokens.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ONE   "one-token-of-more-than-16"
#define OTHER "OTHER.token_0~9+/===="

static char folder[UTIL_PATH_BYTES];
static char path[UTIL_PATH_BYTES + 16];

static void setup(void)
{
    util_temp_dir(folder);
    (void)snprintf(path, sizeof path, "%s/tokens", folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

static struct srv_tokens *load(const char *text)
{
    struct srv_tokens *tokens = NULL;
    struct base_error error = {.status = BASE_OK};
    util_write_file(path, text);
    ck_assert_msg(srv_tokens_load(path, &tokens, &error) == BASE_OK, "%s", error.message);
    return tokens;
}

static void refused(const char *text, enum base_status status, const char *what)
{
    struct srv_tokens *tokens = NULL;
    struct base_error error = {.status = BASE_OK};
    char want[BASE_ERROR_BYTES];
    util_write_file(path, text);
    ck_assert_int_eq(srv_tokens_load(path, &tokens, &error), status);
    ck_assert_ptr_null(tokens);
    (void)snprintf(want, sizeof want, "%.200s: %s", path, what);
    ck_assert_msg(strncmp(error.message, want, strlen(want)) == 0, "%s", error.message);
}

static enum base_status ask(const struct srv_access *access, enum srv_access_need need,
                            const char *header)
{
    struct base_error error = {.status = BASE_OK};
    const size_t length = header == NULL ? 0 : strlen(header);
    // A copy of exactly these bytes, so that ASan sees a read past their end.
    char *copy = base_alloc(length + 1);
    memcpy(copy, header == NULL ? "" : header, length);
    const enum base_status status =
        srv_access_check(access, need, header == NULL ? NULL : copy, length, &error);
    ck_assert(status == BASE_OK || strstr(error.message, "token") != NULL);
    ck_assert_ptr_null(strstr(error.message, ONE));
    base_free(copy);
    return status;
}

START_TEST(test_files)
{
    static const char *const texts[] = {
        ONE,
        ONE "\n" OTHER "\n",
        "# ours\n\n  " ONE "  \r\n\t" OTHER "\n# the end",
        "#" ONE "\n" OTHER "\n" ONE "\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct srv_tokens *tokens = load(texts[i]);
        const struct srv_access access = {.use = tokens};
        ck_assert_int_eq(ask(&access, SRV_ACCESS_USE, "Bearer " ONE), BASE_OK);
        ck_assert_int_eq(ask(&access, SRV_ACCESS_USE, "Bearer " OTHER),
                         i == 0 ? BASE_UNAUTHENTICATED : BASE_OK);
        srv_tokens_free(tokens);
    }
    srv_tokens_free(NULL);
}
END_TEST

START_TEST(test_files_that_are_refused)
{
    static char text[(SRV_TOKENS_MAX + 2) * 24];
    struct srv_tokens *tokens = NULL;
    struct base_error error;
    ck_assert_int_eq(srv_tokens_load("no/such/file", &tokens, &error), BASE_NOT_FOUND);
    ck_assert_str_eq(error.message, "no/such/file: no such file or directory");
    ck_assert_int_eq(srv_tokens_load(folder, &tokens, &error), BASE_INVALID_ARGUMENT);
    refused("", BASE_INVALID_ARGUMENT, "holds no token");
    refused("# nothing\n\n", BASE_INVALID_ARGUMENT, "holds no token");
    refused("short\n", BASE_INVALID_ARGUMENT, "line 1: a token has 16 to 256");
    refused(ONE "\n\nwith a blank in between\n", BASE_INVALID_ARGUMENT, "line 3: a token has");
    refused(ONE "\xc3\xa4\n", BASE_INVALID_ARGUMENT, "line 1: a token has");
    refused(ONE "\n" OTHER "\n" ONE "\n", BASE_INVALID_ARGUMENT,
            "line 3: the token is there twice");
    memset(text, 'a', 257);
    text[257] = '\0';
    refused(text, BASE_INVALID_ARGUMENT, "line 1: a token has");
    memset(text, 'a', 2000); // longer than what is read at a time, and another line behind it
    (void)snprintf(text + 2000, 100, "\n" ONE "\n");
    refused(text, BASE_INVALID_ARGUMENT, "line 1: a token has");
    size_t length = 0;
    for (uint32_t i = 0; i <= SRV_TOKENS_MAX; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "token-number-%07u\n", i);
    }
    refused(text, BASE_RESOURCE_EXHAUSTED, "more than 1024 tokens");
}
END_TEST

/* The longest token, the most of them, and a remark that is longer than any token. */
START_TEST(test_limits)
{
    static char text[(SRV_TOKENS_MAX + 2) * 24 + 4096];
    static char header[300] = "Bearer ";
    memset(text, '#', 3000);
    text[3000] = '\n';
    memset(text + 3001, 'b', SRV_TOKEN_BYTES_MAX);
    memset(header + 7, 'b', SRV_TOKEN_BYTES_MAX);
    size_t length = 3001 + SRV_TOKEN_BYTES_MAX;
    length += (size_t)snprintf(text + length, sizeof text - length, "\n");
    for (uint32_t i = 1; i < SRV_TOKENS_MAX; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "token-number-%07u\n", i);
    }
    struct srv_tokens *tokens = load(text);
    const struct srv_access access = {.use = tokens};
    ck_assert_int_eq(ask(&access, SRV_ACCESS_USE, header), BASE_OK);
    ck_assert_int_eq(ask(&access, SRV_ACCESS_USE, "Bearer token-number-0001023"), BASE_OK);
    ck_assert_int_eq(ask(&access, SRV_ACCESS_USE, "Bearer token-number-0001024"),
                     BASE_UNAUTHENTICATED);
    srv_tokens_free(tokens);
}
END_TEST

START_TEST(test_headers)
{
    static const struct {
        const char *header;
        bool is_good;
    } cases[] = {
        {"Bearer " ONE, true},
        {"bearer " ONE, true},
        {"BEARER   " ONE, true},
        {NULL, false},
        {"", false},
        {"Bearer", false},
        {"Bearer ", false},
        {"Bearer    ", false},
        {ONE, false},
        {"Basic " ONE, false},
        {"Bearer" ONE, false},
        {"Bearer\t" ONE, false},
        {"Bearer " ONE " ", false},
        {"Bearer " ONE "x", false},
        {"Bearer one-token-of-more-than-1", false},
        {"Bearer Xne-token-of-more-than-16", false},
        {"Bearer one-token-of-more-than-17", false},
        {" Bearer " ONE, false},
    };
    struct srv_tokens *tokens = load(ONE "\n");
    const struct srv_access access = {.use = tokens};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(ask(&access, SRV_ACCESS_USE, cases[i].header) ==
                          (cases[i].is_good ? BASE_OK : BASE_UNAUTHENTICATED),
                      "%zu", i);
    }
    srv_tokens_free(tokens);
}
END_TEST

/* Both sets, one of them, none. */
START_TEST(test_who_may_do_what)
{
    struct srv_tokens *one = load(ONE "\n");
    struct srv_tokens *other = load(OTHER "\n");
    const enum base_status ok = BASE_OK;
    const enum base_status unknown = BASE_UNAUTHENTICATED;
    const struct {
        struct srv_access access;
        enum base_status use[3], control[3]; // without a token, with ONE, with OTHER
    } cases[] = {
        {{NULL, NULL}, {ok, ok, ok}, {ok, ok, ok}},
        {{one, NULL}, {unknown, ok, unknown}, {unknown, ok, unknown}},
        {{NULL, other}, {ok, ok, ok}, {unknown, unknown, ok}},
        {{one, other}, {unknown, ok, ok}, {unknown, BASE_PERMISSION_DENIED, ok}},
    };
    static const char *const headers[] = {NULL, "Bearer " ONE, "Bearer " OTHER};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t h = 0; h < 3; h++) {
            ck_assert_int_eq(ask(&cases[i].access, SRV_ACCESS_USE, headers[h]), cases[i].use[h]);
            ck_assert_int_eq(ask(&cases[i].access, SRV_ACCESS_CONTROL, headers[h]),
                             cases[i].control[h]);
        }
    }
    srv_tokens_free(one);
    srv_tokens_free(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokens");
    TCase *tcase = tcase_create("tokens");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_files);
    tcase_add_test(tcase, test_files_that_are_refused);
    tcase_add_test(tcase, test_limits);
    tcase_add_test(tcase, test_headers);
    tcase_add_test(tcase, test_who_may_do_what);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
