/* HTTP over TLS: what a client gets, which clients are let in, and handshakes that are never
 * finished. */
#include "base/clock.h"
#include "base/mem.h"
#include "server/tls.h"
#include "tests/certificates.h"
#include "tests/server/http_fixture.h"
#include "tests/util.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TLS_1_1 "+VERS-TLS1.1"
#define TLS_1_2 "+VERS-TLS1.2"
#define TLS_1_3 "+VERS-TLS1.3"

static const char *const versions[] = {TLS_1_2, TLS_1_3};

static struct http_fixture fixture;
static struct srv_tls *tls; /* only until the server has started, as in the daemon */

static struct srv_http_options tls_options(bool demands)
{
    const struct srv_tls_files files = {certificates_path("server.pem"),
                                        certificates_path("server.key"),
                                        demands ? certificates_path("client_ca.pem") : ""};
    struct srv_http_options options;
    struct base_error error;
    srv_http_options_init(&options);
    ck_assert_int_eq(srv_tls_load(&files, &tls, &error), BASE_OK);
    options.tls = tls;
    return options;
}

static void start(const struct srv_http_options *options)
{
    (void)signal(SIGPIPE, SIG_IGN);
    http_fixture_start(&fixture, options);
    srv_tls_free(tls);
}

static void start_tls(bool demands)
{
    struct srv_http_options options = tls_options(demands);
    start(&options);
}

/* A client of this version, without a certificate; NULL: of any. */
static struct tls_wanted client_of(const char *version)
{
    return (struct tls_wanted){.trust = certificates_path("ca.pem"), .versions = version};
}

static struct tls_wanted client_with(const char *version, const char *certificate, const char *key)
{
    struct tls_wanted wanted = client_of(version);
    wanted.certificate = certificates_path(certificate);
    wanted.key = certificates_path(key);
    return wanted;
}

static struct http_client connect_client(void)
{
    struct http_client client;
    struct tls_wanted wanted = client_of(NULL);
    ck_assert(http_connect_tls(&client, fixture.port, &wanted));
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

static void assert_infers(struct http_client *client)
{
    ck_assert_str_eq(
        http_request(client, "POST", "/v2/models/sum/infer", "", HTTP_FIXTURE_BODY).body,
        HTTP_FIXTURE_ANSWER);
}

static void assert_serves(void)
{
    struct http_client client = connect_client();
    assert_infers(&client);
    http_close(&client);
}

/* ---- What a client gets ---- */

START_TEST(test_http_tls_keeps_a_connection)
{
    start_tls(false);
    struct http_client client;
    struct tls_wanted wanted = client_of(versions[_i]);
    ck_assert(http_connect_tls(&client, fixture.port, &wanted));
    for (int i = 0; i < 20; i++) {
        assert_infers(&client);
        ck_assert_int_eq(http_request(&client, "GET", "/v2/health/ready", "", NULL).code, 200);
    }
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.connections, 1);
    char value[32] = "";
    struct http_answer last = http_request(&client, "GET", "/v2", "Connection: close\r\n", NULL);
    ck_assert_int_eq(last.code, 200);
    ck_assert(http_header(&last, "Connection", value, sizeof value));
    ck_assert(http_is_closed(&client, 5000));
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_largest_body)
{
    start_tls(false);
    struct http_client client;
    struct tls_wanted wanted = client_of(versions[_i]);
    ck_assert(http_connect_tls(&client, fixture.port, &wanted));
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

START_TEST(test_http_tls_large_answer)
{
    start_tls(false);
    fixture.core.answer_rows = 2u << 20;
    struct http_client client = connect_client();
    send_infer(&client);
    (void)usleep(20000); // our buffers fill: the server has to wait for us
    struct http_answer answer = http_read(&client, 60000, false);
    ck_assert_int_eq(answer.code, 200);
    ck_assert_uint_gt(answer.body_bytes, (size_t)8 << 20);
    ck_assert_str_eq(answer.body + answer.body_bytes - 4, "]}]}");
    fixture.core.answer_rows = 0;
    assert_infers(&client);
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_requests_in_one_record)
{
    // What is decrypted and not read yet is announced by no event of the socket.
    start_tls(false);
    struct http_client client = connect_client();
    char text[4096];
    size_t length = 0;
    for (int i = 0; i < 10; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\n"
                                   "Content-Length: %zu\r\n\r\n%s",
                                   strlen(HTTP_FIXTURE_BODY), HTTP_FIXTURE_BODY);
    }
    for (int later = 0; later < 2; later++) {
        http_fixture_pace(&fixture, later == 0 ? FAKE_AT_ONCE : FAKE_LATER, 1);
        ck_assert(http_send(&client, text, length));
        for (int i = 0; i < 10; i++) {
            ck_assert_str_eq(http_read(&client, 5000, false).body, HTTP_FIXTURE_ANSWER);
        }
    }
    http_close(&client);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_in_pieces)
{
    // Handshake and records come torn, whatever the size.
    start_tls(false);
    for (size_t piece = 1; piece < 400; piece = piece * 3 + 1) {
        struct http_client client;
        struct tls_wanted wanted = client_of(versions[_i]);
        wanted.piece = piece;
        ck_assert(http_connect_tls(&client, fixture.port, &wanted));
        assert_infers(&client);
        assert_infers(&client);
        http_close(&client);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.timed_out, 0);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_many_connections)
{
    enum { CLIENTS = 200 };
    static struct http_client clients[CLIENTS];
    start_tls(false);
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_client();
        send_infer(&clients[i]);
    }
    ck_assert(http_fixture_wait_running(&fixture, CLIENTS));
    http_fixture_release(&fixture);
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_str_eq(http_read(&clients[i], 5000, false).body, HTTP_FIXTURE_ANSWER);
        http_close(&clients[i]);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_uint_eq(state.counts.answered, CLIENTS);
    ck_assert_uint_eq(state.counts.lost, 0);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_client_that_leaves_cancels)
{
    start_tls(false);
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client client = connect_client();
    send_infer(&client);
    ck_assert(http_fixture_wait_running(&fixture, 1));
    if (_i == 0) {
        tls_link_end(client.tls);
        http_close(&client);
    } else if (_i == 1) {
        http_abort(&client);
    } else {
        tls_link_end(client.tls);
        ck_assert_int_eq(shutdown(client.fd, SHUT_WR), 0);
    }
    ck_assert(http_fixture_wait_running(&fixture, 0));
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    struct http_fixture_state state = http_fixture_state(&fixture);
    ck_assert_int_eq((int)state.last_cancel, BASE_CANCELLED);
    ck_assert_uint_eq(state.counts.lost, 1);
    if (_i == 2) {
        ck_assert(http_is_closed(&client, 5000));
        http_close(&client);
    }
    http_fixture_pace(&fixture, FAKE_AT_ONCE, 0);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

/* ---- Which clients are let in ---- */

/* The code of an answer; 0: the handshake failed, or the connection was closed without one. */
static int ask(const struct tls_wanted *wanted)
{
    struct http_client client;
    if (!http_connect_tls(&client, fixture.port, wanted)) {
        return 0;
    }
    int code = http_request(&client, "GET", "/v2", "", NULL).code;
    http_close(&client);
    return code;
}

START_TEST(test_http_tls_plain_text_is_refused)
{
    static const char *const texts[] = {"GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n", "\r\n",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
    start_tls(false);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct http_client client;
        ck_assert(http_connect(&client, fixture.port));
        ck_assert(http_send_text(&client, texts[i]));
        if (i == 1) {
            ck_assert_int_eq(shutdown(client.fd, SHUT_WR), 0); // too short to be judged
        }
        ck_assert_int_eq(http_read(&client, 5000, false).code, 0);
        http_close(&client);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.begun, 0);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_old_versions_are_refused)
{
    start_tls(false);
    struct tls_wanted old = client_of("+VERS-TLS1.0");
    ck_assert_int_eq(ask(&old), 0);
    old = client_of(TLS_1_1);
    ck_assert_int_eq(ask(&old), 0);
    for (size_t i = 0; i < 2; i++) {
        struct tls_wanted enough = client_of(versions[i]);
        ck_assert_int_eq(ask(&enough), 200);
    }
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.begun, 2);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_clients_certificates)
{
    static const struct {
        const char *name; /* NULL: none */
        int code;
    } cases[] = {{"client", 200}, {NULL, 0}, {"wrong", 0}, {"purpose", 0}, {"late", 0}, {"rsa", 0}};
    start_tls(true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char pem[32];
        char key[32];
        (void)snprintf(pem, sizeof pem, "%s.pem", cases[i].name != NULL ? cases[i].name : "");
        (void)snprintf(key, sizeof key, "%s.key", cases[i].name != NULL ? cases[i].name : "");
        struct tls_wanted wanted =
            cases[i].name != NULL ? client_with(versions[_i], pem, key) : client_of(versions[_i]);
        int code = ask(&wanted);
        ck_assert_msg(code == cases[i].code, "%s: %d", pem, code);
        ck_assert(http_fixture_wait_connections(&fixture, 0));
    }
    // Of those that are refused no request has been looked at.
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.begun, 1);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_metrics)
{
    // Plain text beside TLS unless asked; on the same terms if so.
    for (int over_tls = 0; over_tls < 2; over_tls++) {
        struct srv_http_options options = tls_options(true);
        options.metrics_tls = over_tls != 0 ? tls : NULL;
        start(&options);
        struct http_client client;
        ck_assert(http_connect(&client, fixture.metrics_port));
        ck_assert_int_eq(http_request(&client, "GET", "/metrics", "", NULL).code,
                         over_tls != 0 ? 0 : 200);
        http_close(&client);
        struct tls_wanted known = client_with(NULL, "client.pem", "client.key");
        bool connected = http_connect_tls(&client, fixture.metrics_port, &known);
        ck_assert_int_eq(connected, over_tls);
        if (connected) {
            ck_assert_int_eq(http_request(&client, "GET", "/metrics", "", NULL).code, 200);
            http_close(&client);
        }
        http_fixture_stop(&fixture);
    }
}
END_TEST

/* ---- Another certificate while it serves ---- */

static struct base_error set_error;

static void set_tls(struct http_fixture *f)
{
    set_error = (struct base_error){.status = BASE_OK};
    const enum base_status status = srv_http_set_tls(f->server, tls, &set_error);
    ck_assert_int_eq(status, set_error.status);
}

static void replace(const char *name, const char *ca)
{
    char pem[32];
    char key[32];
    (void)snprintf(pem, sizeof pem, "%s.pem", name);
    (void)snprintf(key, sizeof key, "%s.key", name);
    const struct srv_tls_files files = {certificates_path(pem), certificates_path(key),
                                        certificates_path(ca)};
    ck_assert_int_eq(srv_tls_load(&files, &tls, &set_error), BASE_OK);
    http_fixture_on_loop(&fixture, set_tls);
    srv_tls_free(tls);
}

/* Connections that are there go on, also one whose handshake is half done; others meet the new. */
START_TEST(test_http_tls_is_replaced)
{
    struct srv_http_options options = tls_options(true);
    options.metrics_tls = tls;
    start(&options);
    struct tls_wanted known = client_with(NULL, "client.pem", "client.key");
    struct tls_wanted other = client_with(NULL, "wrong.pem", "wrong.key");
    struct http_client before;
    struct http_client metrics;
    struct http_client shaking;
    ck_assert_int_eq(ask(&other), 0);
    ck_assert(http_connect_tls(&before, fixture.port, &known));
    ck_assert(http_connect_tls(&metrics, fixture.metrics_port, &known));
    ck_assert(http_connect(&shaking, fixture.port));
    struct tls_link *half = tls_link_create(shaking.fd, &known);
    tls_link_begin(half);
    ck_assert(http_fixture_wait_connections(&fixture, 2));
    for (int i = 0; i < 3; i++) {
        replace("rsa", "other_ca.pem");
        ck_assert_int_eq(set_error.status, BASE_OK);
    }
    ck_assert_int_eq(ask(&other), 200);
    ck_assert_int_eq(ask(&known), 0);
    assert_infers(&before);
    ck_assert_int_eq(http_request(&metrics, "GET", "/metrics", "", NULL).code, 200);
    ck_assert(tls_link_shake(half));
    replace("server", "client_ca.pem");
    ck_assert_int_eq(ask(&known), 200);
    ck_assert_int_eq(ask(&other), 0);
    assert_infers(&before);
    tls_link_free(half);
    http_close(&shaking);
    http_close(&before);
    http_close(&metrics);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_stays_where_the_new_is_wrong)
{
    char text[] = "no PEM";
    struct srv_tls wrong = {.certificate = text, .key = text};
    start_tls(false);
    tls = &wrong;
    http_fixture_on_loop(&fixture, set_tls);
    ck_assert_int_eq(set_error.status, BASE_INVALID_ARGUMENT);
    base_alloc_fail_at(1);
    http_fixture_on_loop(&fixture, set_tls);
    base_alloc_fail_at(0);
    ck_assert_int_eq(set_error.status, BASE_RESOURCE_EXHAUSTED);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

/* ---- Handshakes that are never finished ---- */

enum { SILENT, HALF_A_RECORD, HELLO, HANDSHAKES };

/* Begins one and leaves it there. */
static void leave_handshake(struct http_client *client, uint16_t port, int how)
{
    static const char start_of_record[] = {0x16, 3, 1, 2, 0, 1, 0, 1, (char)0xfc, 3, 3};
    ck_assert(http_connect(client, port));
    if (how == HALF_A_RECORD) {
        ck_assert(http_send(client, start_of_record, sizeof start_of_record));
    } else if (how == HELLO) {
        struct tls_wanted wanted = client_of(NULL);
        client->tls = tls_link_create(client->fd, &wanted);
        tls_link_begin(client->tls);
    }
}

/* CPU time of the loop thread. */
static uint64_t loop_cpu_ns(void)
{
    clockid_t clock;
    struct timespec spent;
    ck_assert_int_eq(pthread_getcpuclockid(fixture.thread, &clock), 0);
    ck_assert_int_eq(clock_gettime(clock, &spent), 0);
    return (uint64_t)spent.tv_sec * BASE_NS_PER_S + (uint64_t)spent.tv_nsec;
}

START_TEST(test_http_tls_waiting_handshakes_cost_nothing)
{
    enum { CLIENTS = 30 };
    struct http_client clients[CLIENTS];
    start_tls(false);
    for (int i = 0; i < CLIENTS; i++) {
        leave_handshake(&clients[i], fixture.port, i % HANDSHAKES);
    }
    ck_assert(http_fixture_wait_connections(&fixture, CLIENTS));
    assert_serves(); // whatever they sent is read by now
    uint64_t before_ns = loop_cpu_ns();
    (void)usleep(500000);
    uint64_t spent_ns = loop_cpu_ns() - before_ns;
    // A loop that does not sleep takes all of it.
    ck_assert_msg(spent_ns < 100 * BASE_NS_PER_MS, "%llu ns", (unsigned long long)spent_ns);
    // They may still go on.
    for (int i = HELLO; i < CLIENTS; i += HANDSHAKES) {
        ck_assert(tls_link_shake(clients[i].tls));
        assert_infers(&clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        http_close(&clients[i]);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_waiting_clients_cost_nothing)
{
    // Half a record behind the handshake, and an answer that is not read.
    start_tls(false);
    fixture.core.answer_rows = 2u << 20;
    struct http_client half = connect_client();
    struct http_client deaf = connect_client();
    ck_assert_int_eq(send(half.fd, "\x17\x03\x03", 3, MSG_NOSIGNAL), 3);
    send_infer(&deaf);
    while (http_fixture_state(&fixture).started < 1) {
        (void)usleep(1000);
    }
    (void)usleep(200000); // the sockets' buffers are full by now
    uint64_t before_ns = loop_cpu_ns();
    (void)usleep(500000);
    uint64_t spent_ns = loop_cpu_ns() - before_ns;
    ck_assert_msg(spent_ns < 100 * BASE_NS_PER_MS, "%llu ns", (unsigned long long)spent_ns);
    ck_assert_int_eq(http_read(&deaf, 60000, false).code, 200);
    http_close(&deaf);
    http_close(&half);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_handshakes_end_by_their_time)
{
    struct srv_http_options options = tls_options(true);
    options.head_ms = 200;
    options.connections_max = HANDSHAKES;
    start(&options);
    struct http_client clients[HANDSHAKES];
    for (int i = 0; i < HANDSHAKES; i++) {
        leave_handshake(&clients[i], fixture.port, i);
    }
    // All places are taken, and free again when their time is over.
    struct tls_wanted known = client_with(NULL, "client.pem", "client.key");
    ck_assert_int_eq(ask(&known), 200);
    for (int i = 0; i < HANDSHAKES; i++) {
        // A client that reads goes on with its handshake, which ends as it should not here.
        struct tls_link *link = clients[i].tls;
        clients[i].tls = NULL;
        ck_assert(http_is_closed(&clients[i], 5000));
        clients[i].tls = link;
        http_close(&clients[i]);
    }
    ck_assert(http_fixture_wait_connections(&fixture, 0));
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.timed_out, HANDSHAKES);
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_clients_leave_in_their_handshakes)
{
    start_tls(false);
    for (int i = 0; i < 4 * HANDSHAKES; i++) {
        struct http_client client;
        leave_handshake(&client, fixture.port, i % HANDSHAKES);
        if (i % 2 == 0) {
            ck_assert(http_fixture_wait_connections(&fixture, 1));
        }
        if (i / HANDSHAKES < 2) {
            http_close(&client);
        } else if (i / HANDSHAKES == 2) {
            http_abort(&client);
        } else {
            ck_assert_int_eq(shutdown(client.fd, SHUT_WR), 0);
            ck_assert(http_is_closed(&client, 5000));
            http_close(&client);
        }
        ck_assert(http_fixture_wait_connections(&fixture, 0));
    }
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.timed_out, 0);
    assert_serves();
    http_fixture_stop(&fixture);
}
END_TEST

START_TEST(test_http_tls_drain_waits_for_no_handshake)
{
    // Nor does the end of /metrics.
    struct srv_http_options options = tls_options(false);
    options.metrics_tls = tls;
    start(&options);
    struct http_client clients[2 * HANDSHAKES];
    for (int i = 0; i < 2 * HANDSHAKES; i++) {
        leave_handshake(&clients[i], i < HANDSHAKES ? fixture.port : fixture.metrics_port,
                        i % HANDSHAKES);
    }
    struct http_client idle = connect_client();
    assert_infers(&idle);
    http_fixture_pace(&fixture, FAKE_HOLD, 0);
    struct http_client busy = connect_client();
    send_infer(&busy);
    ck_assert(http_fixture_wait_running(&fixture, 1));
    struct http_client scraper;
    struct tls_wanted wanted = client_of(NULL);
    ck_assert(http_connect_tls(&scraper, fixture.metrics_port, &wanted));

    http_fixture_drain(&fixture);
    ck_assert(http_fixture_wait_connections(&fixture, 1));
    ck_assert(http_is_closed(&idle, 5000));
    http_fixture_release(&fixture);
    ck_assert_str_eq(http_read(&busy, 5000, false).body, HTTP_FIXTURE_ANSWER);
    ck_assert(http_is_closed(&busy, 5000));
    ck_assert(http_fixture_wait_drained(&fixture, 5000));
    ck_assert_int_eq(http_request(&scraper, "GET", "/metrics", "", NULL).code, 200);
    http_fixture_end(&fixture);
    for (int i = 0; i < 2 * HANDSHAKES; i++) {
        ck_assert(http_is_closed(&clients[i], 5000));
        http_close(&clients[i]);
    }
    http_close(&idle);
    http_close(&busy);
    http_close(&scraper);
}
END_TEST

START_TEST(test_http_tls_connection_without_memory)
{
    start_tls(true);
    struct http_client client;
    base_alloc_fail_at(1);
    ck_assert(http_connect(&client, fixture.port));
    ck_assert(http_is_closed(&client, 5000));
    base_alloc_fail_at(0);
    http_close(&client);
    ck_assert_uint_eq(http_fixture_state(&fixture).counts.connections, 0);
    struct tls_wanted known = client_with(NULL, "client.pem", "client.key");
    ck_assert_int_eq(ask(&known), 200);
    http_fixture_stop(&fixture);
}
END_TEST

int main(void)
{
    if (!certificates_make()) {
        return CERTIFICATES_SKIP;
    }
    Suite *suite = suite_create("http_tls");
    TCase *tc = tcase_create("http_tls");
    tcase_add_loop_test(tc, test_http_tls_keeps_a_connection, 0, 2);
    tcase_add_loop_test(tc, test_http_tls_largest_body, 0, 2);
    tcase_add_test(tc, test_http_tls_large_answer);
    tcase_add_test(tc, test_http_tls_requests_in_one_record);
    tcase_add_loop_test(tc, test_http_tls_in_pieces, 0, 2);
    tcase_add_test(tc, test_http_tls_many_connections);
    tcase_add_loop_test(tc, test_http_tls_client_that_leaves_cancels, 0, 3);
    tcase_add_test(tc, test_http_tls_plain_text_is_refused);
    tcase_add_test(tc, test_http_tls_old_versions_are_refused);
    tcase_add_loop_test(tc, test_http_tls_clients_certificates, 0, 2);
    tcase_add_test(tc, test_http_tls_metrics);
    tcase_add_test(tc, test_http_tls_is_replaced);
    tcase_add_test(tc, test_http_tls_stays_where_the_new_is_wrong);
    tcase_add_test(tc, test_http_tls_waiting_handshakes_cost_nothing);
    tcase_add_test(tc, test_http_tls_waiting_clients_cost_nothing);
    tcase_add_test(tc, test_http_tls_handshakes_end_by_their_time);
    tcase_add_test(tc, test_http_tls_clients_leave_in_their_handshakes);
    tcase_add_test(tc, test_http_tls_drain_waits_for_no_handshake);
    tcase_add_test(tc, test_http_tls_connection_without_memory);
    suite_add_tcase(suite, tc);
    int result = util_run(suite);
    certificates_remove();
    return result;
}
