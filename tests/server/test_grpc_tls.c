/* gRPC over TLS: what a client gets, which clients are let in, handshakes that are never finished.
 */
#include "base/clock.h"
#include "server/tls.h"
#include "tests/certificates.h"
#include "tests/http_client.h"
#include "tests/server/grpc_streams.h"
#include "tests/util.h"

#include <grpc/status.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define INFER GRPC_FIXTURE_SERVICE "ModelInfer"

static struct grpc_fixture fixture;
static uint8_t *request; /* one row of three tokens */
static size_t request_length;

static void start_with(struct srv_grpc_options *options, bool demands)
{
    const struct srv_tls_files files = {certificates_path("server.pem"),
                                        certificates_path("server.key"),
                                        demands ? certificates_path("client_ca.pem") : ""};
    struct srv_tls *tls;
    struct base_error error;
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(srv_tls_load(&files, &tls, &error), BASE_OK);
    options->tls = tls;
    grpc_fixture_start(&fixture, options);
    srv_tls_free(tls); // as in the daemon
    request = grpc_fixture_request("r", 1, 3, &request_length);
}

static void start(bool demands)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    start_with(&options, demands);
}

static void stop(void)
{
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&fixture, &counts));
    ck_assert_uint_eq(counts.arrived, counts.finished);
    grpc_fixture_stop(&fixture);
    free(request);
}

static struct grpc_client *create_client(void)
{
    const struct grpc_client_tls tls = {.trust = certificates_path("ca.pem")};
    return grpc_client_create_tls(fixture.port, &tls);
}

/* The status of a call; a client that is let in is answered. */
static int ask(struct grpc_client *client)
{
    struct grpc_client_reply reply;
    int status = grpc_client_unary(client, INFER, request, request_length, &reply);
    ck_assert(status != GRPC_STATUS_OK || reply.length > 0);
    grpc_client_reply_release(&reply);
    return status;
}

/* The same by a client that is made for it. */
static int ask_once(struct grpc_client *client)
{
    int status = ask(client);
    grpc_client_free(client);
    return status;
}

static void assert_serves(void)
{
    ck_assert_int_eq(ask_once(create_client()), GRPC_STATUS_OK);
}

static void set_hold(struct grpc_fixture *f)
{
    f->core.pace = FAKE_HOLD;
}

static void release_all(struct grpc_fixture *f)
{
    fake_core_release(&f->core);
}

/* ---- What a client gets ---- */

START_TEST(test_grpc_tls_serves)
{
    enum { CALLS = 64 };
    start(false);
    struct grpc_client *client = create_client();
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(ask(client), GRPC_STATUS_OK);
    }
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        calls[i] = grpc_client_start(client, INFER, request, request_length, 0);
    }
    ck_assert(grpc_fixture_wait_running(&fixture, CALLS));
    grpc_fixture_on_loop(&fixture, release_all);
    for (int i = 0; i < CALLS; i++) {
        struct grpc_client_reply reply;
        grpc_client_wait(calls[i], &reply);
        ck_assert_int_eq(reply.status, GRPC_STATUS_OK);
        grpc_client_reply_release(&reply);
    }
    grpc_client_free(client);
    stop();
}
END_TEST

START_TEST(test_grpc_tls_large_message)
{
    start(false);
    size_t length;
    struct grpc_client_reply reply;
    uint8_t *large = grpc_fixture_request("large", 1, 8000000, &length);
    struct grpc_client *client = create_client();
    ck_assert_uint_gt(length, 60000000);
    ck_assert_int_eq(grpc_client_unary(client, INFER, large, length, &reply), GRPC_STATUS_OK);
    grpc_client_reply_release(&reply);
    grpc_client_free(client);
    free(large);
    stop();
}
END_TEST

START_TEST(test_grpc_tls_stream)
{
    start(true);
    const struct grpc_client_tls known = {certificates_path("ca.pem"),
                                          certificates_path("client.pem"),
                                          certificates_path("client.key")};
    streams_client = grpc_client_create_tls(fixture.port, &known);
    struct grpc_client_stream *stream = streams_open(0);
    for (uint32_t i = 1; i <= 50; i++) {
        ck_assert(streams_send(stream, "r", i));
        streams_expect(stream, "r", i);
    }
    grpc_client_stream_half_close(stream);
    streams_expect_end(stream, GRPC_STATUS_OK, NULL);
    grpc_client_free(streams_client);
    stop();
}
END_TEST

/* ---- Which clients are let in ---- */

START_TEST(test_grpc_tls_clients_certificates)
{
    static const struct {
        const char *name; /* NULL: none */
        int status;
    } cases[] = {{"client", GRPC_STATUS_OK},         {NULL, GRPC_STATUS_UNAVAILABLE},
                 {"wrong", GRPC_STATUS_UNAVAILABLE}, {"purpose", GRPC_STATUS_UNAVAILABLE},
                 {"late", GRPC_STATUS_UNAVAILABLE},  {"rsa", GRPC_STATUS_UNAVAILABLE}};
    start(true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char pem[32];
        char key[32];
        struct grpc_client_tls tls = {.trust = certificates_path("ca.pem")};
        if (cases[i].name != NULL) {
            (void)snprintf(pem, sizeof pem, "%s.pem", cases[i].name);
            (void)snprintf(key, sizeof key, "%s.key", cases[i].name);
            tls.certificate = certificates_path(pem);
            tls.key = certificates_path(key);
        }
        int status = ask_once(grpc_client_create_tls(fixture.port, &tls));
        ck_assert_msg(status == cases[i].status, "%s: %d",
                      cases[i].name != NULL ? cases[i].name : "none", status);
    }
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).arrived, 1);
    stop();
}
END_TEST

static struct srv_tls *fresh;

static void set_tls(struct grpc_fixture *f)
{
    srv_grpc_set_tls(f->server, fresh);
}

static void replace(const char *certificate, const char *key, const char *ca)
{
    const struct srv_tls_files files = {certificates_path(certificate), certificates_path(key),
                                        certificates_path(ca)};
    struct base_error error;
    ck_assert_int_eq(srv_tls_load(&files, &fresh, &error), BASE_OK);
    grpc_fixture_on_loop(&fixture, set_tls);
    srv_tls_free(fresh);
}

static int ask_as(const char *certificate, const char *key)
{
    const struct grpc_client_tls tls = {certificates_path("ca.pem"), certificates_path(certificate),
                                        certificates_path(key)};
    return ask_once(grpc_client_create_tls(fixture.port, &tls));
}

/* Connections that are there go on; others meet the new. One that nobody has met is left over. */
START_TEST(test_grpc_tls_is_replaced)
{
    start(true);
    const struct grpc_client_tls known = {certificates_path("ca.pem"),
                                          certificates_path("client.pem"),
                                          certificates_path("client.key")};
    struct grpc_client *before = grpc_client_create_tls(fixture.port, &known);
    ck_assert_int_eq(ask(before), GRPC_STATUS_OK);
    ck_assert_int_eq(ask_as("wrong.pem", "wrong.key"), GRPC_STATUS_UNAVAILABLE);
    for (int i = 0; i < 3; i++) {
        replace("rsa.pem", "rsa.key", "other_ca.pem");
    }
    ck_assert_int_eq(ask_as("wrong.pem", "wrong.key"), GRPC_STATUS_OK);
    ck_assert_int_eq(ask_as("client.pem", "client.key"), GRPC_STATUS_UNAVAILABLE);
    ck_assert_int_eq(ask(before), GRPC_STATUS_OK);
    replace("server.pem", "server.key", "client_ca.pem");
    ck_assert_int_eq(ask_as("client.pem", "client.key"), GRPC_STATUS_OK);
    ck_assert_int_eq(ask_as("wrong.pem", "wrong.key"), GRPC_STATUS_UNAVAILABLE);
    ck_assert_int_eq(ask(before), GRPC_STATUS_OK);
    replace("rsa.pem", "rsa.key", "other_ca.pem");
    grpc_client_free(before);
    stop();
}
END_TEST

START_TEST(test_grpc_tls_clients_that_cannot_connect)
{
    start(false);
    const struct grpc_client_tls distrustful = {.trust = certificates_path("client_ca.pem")};
    ck_assert_int_eq(ask_once(grpc_client_create_tls(fixture.port, &distrustful)),
                     GRPC_STATUS_UNAVAILABLE);
    ck_assert_int_eq(ask_once(grpc_client_create(fixture.port)), GRPC_STATUS_UNAVAILABLE);
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).arrived, 0);
    assert_serves();
    stop();
}
END_TEST

START_TEST(test_grpc_tls_old_versions_are_refused)
{
    static const struct {
        const char *versions;
        bool connects;
    } cases[] = {{"+VERS-TLS1.0", false},
                 {"+VERS-TLS1.1", false},
                 {"+VERS-TLS1.2", true},
                 {"+VERS-TLS1.3", true}};
    start(false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_client client;
        const struct tls_wanted wanted = {.trust = certificates_path("ca.pem"),
                                          .versions = cases[i].versions};
        bool connects = http_connect_tls(&client, fixture.port, &wanted);
        ck_assert_msg(connects == cases[i].connects, "%s", cases[i].versions);
        if (connects) {
            http_close(&client);
        }
    }
    stop();
}
END_TEST

/* ---- Handshakes that are never finished; drain ---- */

enum { SILENT, HALF_A_RECORD, HELLO, HANDSHAKES };

static void leave_handshakes(struct http_client *clients)
{
    static const char start_of_record[] = {0x16, 3, 1, 2, 0, 1, 0, 1, (char)0xfc, 3, 3};
    const struct tls_wanted wanted = {.trust = certificates_path("ca.pem")};
    for (int i = 0; i < HANDSHAKES; i++) {
        ck_assert(http_connect(&clients[i], fixture.port));
    }
    ck_assert(http_send(&clients[HALF_A_RECORD], start_of_record, sizeof start_of_record));
    clients[HELLO].tls = tls_link_create(clients[HELLO].fd, &wanted);
    tls_link_begin(clients[HELLO].tls);
}

static void assert_ended(struct http_client *clients)
{
    for (int i = 0; i < HANDSHAKES; i++) {
        ck_assert_msg(http_is_closed(&clients[i], 10000), "%d", i);
        http_close(&clients[i]);
    }
}

START_TEST(test_grpc_tls_handshakes_end_by_their_time)
{
    struct http_client clients[HANDSHAKES];
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.handshake_ms = 300;
    start_with(&options, false);
    leave_handshakes(clients);
    assert_serves();
    assert_ended(clients);
    stop();
}
END_TEST

START_TEST(test_grpc_tls_drain_waits_for_no_handshake)
{
    struct http_client clients[HANDSHAKES];
    start(false);
    struct grpc_client *idle = create_client();
    ck_assert_int_eq(ask(idle), GRPC_STATUS_OK);
    leave_handshakes(clients);
    struct grpc_client *busy = create_client();
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *call = grpc_client_start(busy, INFER, request, request_length, 0);
    ck_assert(grpc_fixture_wait_running(&fixture, 1));

    grpc_fixture_drain(&fixture);
    assert_ended(clients);
    ck_assert(!grpc_fixture_wait_drained(&fixture, 50));
    grpc_fixture_on_loop(&fixture, release_all);
    struct grpc_client_reply reply;
    grpc_client_wait(call, &reply);
    ck_assert_int_eq(reply.status, GRPC_STATUS_OK);
    grpc_client_reply_release(&reply);
    ck_assert(grpc_fixture_wait_drained(&fixture, 10000));
    grpc_client_free(idle);
    grpc_client_free(busy);
    grpc_fixture_end(&fixture);
    free(request);
}
END_TEST

/* What only gRPC would not take is refused at start too. */
START_TEST(test_grpc_tls_refused_by_grpc)
{
    static char text[] = "-----BEGIN CERTIFICATE-----\n";
    struct srv_tls torn = {.certificate = text, .key = text};
    struct srv_grpc_options options;
    struct srv_grpc *server = NULL;
    struct base_error error;
    struct srv_loop loop;
    struct srv_core core;
    srv_grpc_options_init(&options);
    options.tls = &torn;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    fake_core_init(&core, &loop);
    ck_assert_int_eq(srv_grpc_start(&options, &loop, &core, &server, &error), BASE_UNAVAILABLE);
    ck_assert_str_eq(
        error.message,
        "gRPC cannot listen on 127.0.0.1:0: refused by the system, or by its TLS library");
    ck_assert_ptr_null(server);
    srv_loop_release(&loop);
}
END_TEST

int main(void)
{
    if (!certificates_make()) {
        return CERTIFICATES_SKIP;
    }
    Suite *suite = suite_create("grpc_tls");
    TCase *tc = tcase_create("grpc_tls");
    tcase_add_test(tc, test_grpc_tls_serves);
    tcase_add_test(tc, test_grpc_tls_large_message);
    tcase_add_test(tc, test_grpc_tls_stream);
    tcase_add_test(tc, test_grpc_tls_clients_certificates);
    tcase_add_test(tc, test_grpc_tls_is_replaced);
    tcase_add_test(tc, test_grpc_tls_clients_that_cannot_connect);
    tcase_add_test(tc, test_grpc_tls_old_versions_are_refused);
    tcase_add_test(tc, test_grpc_tls_handshakes_end_by_their_time);
    tcase_add_test(tc, test_grpc_tls_drain_waits_for_no_handshake);
    tcase_add_test(tc, test_grpc_tls_refused_by_grpc);
    suite_add_tcase(suite, tc);
    int result = util_run(suite);
    certificates_remove();
    return result;
}
