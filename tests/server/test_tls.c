/* What is taken as certificate, key and client CAs, and every refusal with its message. */
#include "base/buf.h"
#include "base/mem.h"
#include "server/tls.h"
#include "tests/certificates.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static enum base_status load(const char *certificate, const char *key, const char *client_ca,
                             struct srv_tls **out, struct base_error *error)
{
    const struct srv_tls_files files = {certificate, key, client_ca};
    *error = (struct base_error){.status = BASE_OK};
    enum base_status status = srv_tls_load(&files, out, error);
    ck_assert((status == BASE_OK) == (*out != NULL));
    return status;
}

static void assert_loads(const char *certificate, const char *key, const char *client_ca)
{
    struct srv_tls *tls;
    struct base_error error;
    enum base_status status = load(certificate, key, client_ca, &tls, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    srv_tls_free(tls);
}

/* The message begins with `path: what`; behind it may be GnuTLS's own words. */
static void assert_refused(const struct srv_tls_files *files, enum base_status want,
                           const char *path, const char *what)
{
    struct srv_tls *tls;
    struct base_error error;
    char message[BASE_ERROR_BYTES];
    (void)snprintf(message, sizeof message, "%.200s: %.160s", path, what);
    enum base_status status = load(files->certificate, files->key, files->client_ca, &tls, &error);
    ck_assert_msg(status == want, "%d: %s", (int)status, error.message);
    ck_assert_msg(strncmp(error.message, message, strlen(message)) == 0, "%s", error.message);
}

START_TEST(test_tls_pairs_that_fit)
{
    const char *ca = certificates_path("client_ca.pem");
    assert_loads(certificates_path("server.pem"), certificates_path("server.key"), "");
    assert_loads(certificates_path("server.pem"), certificates_path("server.key"), ca);
    assert_loads(certificates_path("rsa.pem"), certificates_path("rsa.key"), ca);
    // One file may hold all, as some tools write it.
    size_t n_key;
    size_t n_chain;
    char *key = util_read_file(certificates_path("server.key"), &n_key);
    char *chain = util_read_file(certificates_path("server.pem"), &n_chain);
    struct base_buf both;
    base_buf_init(&both, SRV_TLS_FILE_BYTES_MAX);
    base_buf_printf(&both, "%s%s", chain, key);
    util_write_file(certificates_path("both.pem"), both.data);
    assert_loads(certificates_path("both.pem"), certificates_path("both.pem"), "");
    base_buf_release(&both);
    base_free(key);
    base_free(chain);
}
END_TEST

START_TEST(test_tls_holds_what_the_files_hold)
{
    struct srv_tls *tls;
    struct base_error error;
    ck_assert_int_eq(load(certificates_path("server.pem"), certificates_path("server.key"),
                          certificates_path("client_ca.pem"), &tls, &error),
                     BASE_OK);
    static const char *const names[] = {"server.pem", "server.key", "client_ca.pem"};
    const char *const texts[] = {tls->certificate, tls->key, tls->client_ca};
    for (size_t i = 0; i < 3; i++) {
        char *want = util_read_file(certificates_path(names[i]), NULL);
        ck_assert_str_eq(texts[i], want);
        base_free(want);
    }
    // Made for a day, a moment ago.
    int64_t left_s = tls->until_wall_s - (int64_t)time(NULL);
    ck_assert_int_gt(left_s, 23 * 3600);
    ck_assert_int_le(left_s, 24 * 3600);
    srv_tls_free(tls);
    srv_tls_free(NULL);

    ck_assert_int_eq(
        load(certificates_path("server.pem"), certificates_path("server.key"), "", &tls, &error),
        BASE_OK);
    ck_assert_ptr_null(tls->client_ca);
    srv_tls_free(tls);
}
END_TEST

START_TEST(test_tls_time_over_is_a_warning)
{
    assert_loads(certificates_path("late_server.pem"), certificates_path("late_server.key"), "");
}
END_TEST

/* Each of the three files in turn is one that cannot be read. */
START_TEST(test_tls_files_that_cannot_be_read)
{
    static const struct {
        const char *path; /* of the tests' folder, unless it starts with `/` */
        enum base_status status;
        const char *what;
    } cases[] = {
        {"missing.pem", BASE_NOT_FOUND, "no such file or directory"},
        {"server.pem/x", BASE_INVALID_ARGUMENT, "not a directory"},
        {"", BASE_INVALID_ARGUMENT, "illegal operation on a directory"},
        {"empty.pem", BASE_INVALID_ARGUMENT, "is empty"},
        {"binary.pem", BASE_INVALID_ARGUMENT, "not PEM, which is text"},
        {"/dev/zero", BASE_RESOURCE_EXHAUSTED, "longer than 1 MiB"},
    };
    util_write_file(certificates_path("empty.pem"), "");
    FILE *file = fopen(certificates_path("binary.pem"), "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite("0\0", 1, 2, file), 2);
    ck_assert_int_eq(fclose(file), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path =
            cases[i].path[0] == '/' ? cases[i].path : certificates_path(cases[i].path);
        struct srv_tls_files files[3];
        for (int wrong = 0; wrong < 3; wrong++) {
            files[wrong] = (struct srv_tls_files){
                wrong == 0 ? path : certificates_path("server.pem"),
                wrong == 1 ? path : certificates_path("server.key"),
                wrong == 2 ? path : certificates_path("client_ca.pem"),
            };
            assert_refused(&files[wrong], cases[i].status, path, cases[i].what);
        }
    }
}
END_TEST

START_TEST(test_tls_file_without_permission)
{
    if (geteuid() == 0) {
        util_skip("root may read every file");
        return;
    }
    const char *path = certificates_path("closed.key");
    util_write_file(path, "x");
    ck_assert_int_eq(chmod(path, 0), 0);
    const struct srv_tls_files files = {certificates_path("server.pem"), path, ""};
    assert_refused(&files, BASE_INVALID_ARGUMENT, path, "permission denied");
}
END_TEST

START_TEST(test_tls_files_that_hold_something_else)
{
    const char *chain = certificates_path("server.pem");
    const char *key = certificates_path("server.key");
    const char *ca = certificates_path("client_ca.pem");
    const char *text = certificates_path("text.pem");
    const char *torn = certificates_path("torn.pem");
    const char *none = "no certificates in PEM: ";
    util_write_file(text, "server.pem\n");
    char *whole = util_read_file(chain, NULL);
    whole[strlen(whole) / 4] = '\0';
    util_write_file(torn, whole);
    base_free(whole);
    char mismatch[BASE_ERROR_BYTES];
    (void)snprintf(mismatch, sizeof mismatch, "not the key of the certificate in %s", chain);
    const struct {
        struct srv_tls_files files;
        const char *path, *what;
    } cases[] = {
        {{text, key, ""}, text, none},
        {{torn, key, ""}, torn, none},
        {{key, key, ""}, key, none},
        {{certificates_path("unsorted.pem"), key, ""},
         certificates_path("unsorted.pem"),
         "not in order: first the server's certificate, then each one's issuer"},
        {{chain, text, ""}, text, "no private key in PEM: "},
        {{chain, chain, ""}, chain, "no private key in PEM: "},
        {{chain, certificates_path("locked.key"), ""},
         certificates_path("locked.key"),
         "the key has a password"},
        {{chain, certificates_path("rsa.key"), ""}, certificates_path("rsa.key"), mismatch},
        {{chain, certificates_path("client.key"), ""}, certificates_path("client.key"), mismatch},
        {{chain, key, text}, text, none},
        {{chain, key, key}, key, none},
    };
    ck_assert_ptr_nonnull(ca);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_refused(&cases[i].files, BASE_INVALID_ARGUMENT, cases[i].path, cases[i].what);
    }
}
END_TEST

START_TEST(test_tls_without_memory)
{
    struct srv_tls *tls;
    struct base_error error;
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 0;
    while (status != BASE_OK) {
        base_alloc_fail_at(++n);
        status = load(certificates_path("server.pem"), certificates_path("server.key"),
                      certificates_path("client_ca.pem"), &tls, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert(status == BASE_OK || strstr(error.message, ": out of memory") != NULL);
    }
    ck_assert_uint_eq(n, 5); // three texts, what holds them, and one more than fails
    srv_tls_free(tls);
}
END_TEST

int main(void)
{
    if (!certificates_make()) {
        return CERTIFICATES_SKIP;
    }
    Suite *suite = suite_create("tls");
    TCase *tc = tcase_create("tls");
    tcase_add_test(tc, test_tls_pairs_that_fit);
    tcase_add_test(tc, test_tls_holds_what_the_files_hold);
    tcase_add_test(tc, test_tls_time_over_is_a_warning);
    tcase_add_test(tc, test_tls_files_that_cannot_be_read);
    tcase_add_test(tc, test_tls_file_without_permission);
    tcase_add_test(tc, test_tls_files_that_hold_something_else);
    tcase_add_test(tc, test_tls_without_memory);
    suite_add_tcase(suite, tc);
    int result = util_run(suite);
    certificates_remove();
    return result;
}
