/* Lives and deaths of gRPC calls: concurrent, cancelled, late, abandoned by a client that vanished,
 * too large, too many; drain in its order. After each case every call object is free again and
 * every call has had exactly one status. */
#include "base/clock.h"
#include "base/mem.h"
#include "server/grpc/wire.h"
#include "tests/server/grpc_fixture.h"
#include "tests/util.h"

#include <arpa/inet.h>
#include <check.h>
#include <grpc/status.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define INFER GRPC_FIXTURE_SERVICE "ModelInfer"

static struct grpc_fixture fixture;
static struct grpc_client *client;
static uint8_t *request; /* one row of three tokens, id "r" */
static size_t request_length;

static void start_with(const struct srv_grpc_options *options)
{
    grpc_fixture_start(&fixture, options);
    client = grpc_client_create(fixture.port);
    request = grpc_fixture_request("r", 1, 3, &request_length);
}

static void setup(void)
{
    start_with(NULL);
}

/* Every arrived call got one status. */
static void check_accounts(void)
{
    struct srv_grpc_counts counts;
    ck_assert(grpc_fixture_wait_idle(&fixture, &counts));
    uint64_t answered = 0;
    for (int i = 0; i < BASE_STATUS_COUNT; i++) {
        answered += counts.answered[i];
    }
    ck_assert_uint_eq(counts.arrived, counts.finished);
    ck_assert_uint_eq(counts.arrived, answered);
    ck_assert_uint_eq(counts.infer_open, 0);
    ck_assert_uint_eq(counts.infer_bytes, 0);
    ck_assert_uint_eq(fixture.core.running, 0);
}

static void teardown(void)
{
    check_accounts();
    grpc_client_free(client);
    grpc_fixture_stop(&fixture);
    free(request);
}

static struct grpc_client_call *start_call(uint32_t timeout_ms)
{
    return grpc_client_start(client, INFER, request, request_length, timeout_ms);
}

static int wait_call(struct grpc_client_call *call)
{
    struct grpc_client_reply reply;
    grpc_client_wait(call, &reply);
    grpc_client_reply_release(&reply);
    return reply.status;
}

static void set_hold(struct grpc_fixture *f)
{
    f->core.pace = FAKE_HOLD;
}

static void set_hold_with_slow_cancels(struct grpc_fixture *f)
{
    f->core.pace = FAKE_HOLD;
    f->core.slow_cancels = true;
}

static void set_hold_without_deadline(struct grpc_fixture *f)
{
    f->core.pace = FAKE_HOLD;
    f->core.ignore_deadlines = true;
}

static void set_later(struct grpc_fixture *f)
{
    f->core.pace = FAKE_LATER;
    f->core.delay_ms = 1;
}

static void release_all(struct grpc_fixture *f)
{
    fake_core_release(&f->core);
}

/* ---- Many at a time ---- */

START_TEST(test_life_64_calls_at_a_time)
{
    enum { CALLS = 64 };
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        calls[i] = start_call(0);
    }
    ck_assert(grpc_fixture_wait_running(&fixture, CALLS));
    struct srv_grpc_counts counts = grpc_fixture_counts(&fixture);
    ck_assert_uint_eq(counts.infer_open, CALLS);
    ck_assert_uint_eq(counts.infer_bytes, CALLS * request_length);
    grpc_fixture_on_loop(&fixture, release_all);
    for (int i = 0; i < CALLS; i++) {
        ck_assert_int_eq(wait_call(calls[i]), GRPC_STATUS_OK);
    }
}
END_TEST

START_TEST(test_life_more_calls_than_allowed_are_refused)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.calls_max = 4;
    start_with(&options);
    grpc_fixture_on_loop(&fixture, set_hold);
    // More than there are objects, so that accepts run out and come back.
    enum { CALLS = 200 };
    struct grpc_client_call *calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        calls[i] = start_call(0);
        ck_assert(i != 3 || grpc_fixture_wait_running(&fixture, 4));
    }
    int refused = 0;
    for (int i = CALLS - 1; i >= 4; i--) {
        struct grpc_client_reply reply;
        grpc_client_wait(calls[i], &reply);
        refused += reply.status == GRPC_STATUS_RESOURCE_EXHAUSTED;
        ck_assert_str_eq(reply.message,
                         "[request id: r] the server is busy: too many calls are open");
        grpc_client_reply_release(&reply);
    }
    ck_assert_int_eq(refused, CALLS - 4);
    // Other methods are still answered.
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_unary(client, GRPC_FIXTURE_SERVICE "ServerLive", "", 0, &reply),
                     GRPC_STATUS_OK);
    grpc_client_reply_release(&reply);
    grpc_fixture_on_loop(&fixture, release_all);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(wait_call(calls[i]), GRPC_STATUS_OK);
    }
    uint64_t counted =
        fixture.core.counters.requests_total[SRV_PROTOCOL_GRPC][BASE_RESOURCE_EXHAUSTED];
    ck_assert_uint_eq(counted, CALLS - 4);
    teardown();
}
END_TEST

START_TEST(test_life_more_bytes_than_allowed_are_refused)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    size_t length;
    uint8_t *large = grpc_fixture_request("large", 1, 1000, &length);
    options.calls_bytes_max = 2 * length;
    options.busy = BASE_UNAVAILABLE;
    start_with(&options);
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = grpc_client_start(client, INFER, large, length, 0);
    }
    ck_assert(grpc_fixture_wait_running(&fixture, 2));
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_unary(client, INFER, large, length, &reply),
                     GRPC_STATUS_UNAVAILABLE);
    ck_assert_str_eq(reply.message,
                     "[request id: large] the server is busy: open calls hold too many bytes");
    grpc_client_reply_release(&reply);
    grpc_fixture_on_loop(&fixture, release_all);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(wait_call(calls[i]), GRPC_STATUS_OK);
    }
    free(large);
    teardown();
}
END_TEST

START_TEST(test_life_message_too_large_never_arrives)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.message_bytes_max = 65536;
    start_with(&options);
    size_t length;
    uint8_t *large = grpc_fixture_request("", 1, 10000, &length);
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_unary(client, INFER, large, length, &reply),
                     GRPC_STATUS_RESOURCE_EXHAUSTED);
    grpc_client_reply_release(&reply);
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).arrived, 0);
    ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK);
    free(large);
    teardown();
}
END_TEST

START_TEST(test_life_compressed_message_is_refused)
{
    struct grpc_client *compressing = grpc_client_create_compressing(fixture.port);
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_unary(compressing, INFER, request, request_length, &reply),
                     GRPC_STATUS_UNIMPLEMENTED);
    grpc_client_reply_release(&reply);
    grpc_client_free(compressing);
}
END_TEST

START_TEST(test_life_steady_state_allocates_nothing)
{
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK);
    }
    ck_assert(grpc_fixture_wait_idle(&fixture, NULL));
    uint64_t before = base_alloc_count();
    for (int i = 0; i < 500; i++) {
        ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK);
    }
    ck_assert(grpc_fixture_wait_idle(&fixture, NULL));
    // An object takes its arena's first chunk at its first use, and a late end of a call may bring
    // a fresh object into the round.
    ck_assert_uint_le(base_alloc_count() - before, 5);
}
END_TEST

/* ---- Cancel and deadline ---- */

START_TEST(test_life_cancelled_call_is_cancelled_in_core)
{
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *stays = start_call(0);
    struct grpc_client_call *goes = start_call(0);
    ck_assert(grpc_fixture_wait_running(&fixture, 2));
    grpc_client_cancel(goes);
    ck_assert_int_eq(wait_call(goes), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_running(&fixture, 1));
    ck_assert_uint_eq(fixture.core.cancels, 1);
    ck_assert_int_eq(fixture.core.last_cancel, BASE_CANCELLED);
    grpc_fixture_on_loop(&fixture, release_all);
    ck_assert_int_eq(wait_call(stays), GRPC_STATUS_OK);
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).cancelled, 1);
}
END_TEST

/* Clients are watched some milliseconds after the call has begun to run. */
START_TEST(test_life_cancel_of_a_watched_call)
{
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *stays = start_call(0);
    struct grpc_client_call *goes = start_call(0);
    ck_assert(grpc_fixture_wait_running(&fixture, 2));
    (void)usleep(50000);
    ck_assert_uint_eq(fixture.core.cancels, 0);
    grpc_client_cancel(goes);
    ck_assert_int_eq(wait_call(goes), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_running(&fixture, 1));
    ck_assert_uint_eq(fixture.core.cancels, 1);
    grpc_fixture_on_loop(&fixture, release_all);
    ck_assert_int_eq(wait_call(stays), GRPC_STATUS_OK);
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).cancelled, 1);
}
END_TEST

/* gRPC is through with the client before the device is through with the request. */
START_TEST(test_life_cancelled_call_stays_until_core_is_done)
{
    grpc_fixture_on_loop(&fixture, set_hold_with_slow_cancels);
    struct grpc_client_call *goes = start_call(0);
    ck_assert(grpc_fixture_wait_running(&fixture, 1));
    grpc_client_cancel(goes);
    ck_assert_int_eq(wait_call(goes), GRPC_STATUS_CANCELLED);
    ck_assert(grpc_fixture_wait_cancels(&fixture, 1));
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).open, 1);
    grpc_fixture_on_loop(&fixture, release_all);
    ck_assert(grpc_fixture_wait_idle(&fixture, NULL));
    ck_assert_uint_eq(grpc_fixture_counts(&fixture).answered[BASE_CANCELLED], 1);
}
END_TEST

START_TEST(test_life_deadline_reaches_core)
{
    grpc_fixture_on_loop(&fixture, set_hold);
    uint64_t before_ns = base_now_ns();
    ck_assert_int_eq(wait_call(start_call(200)), GRPC_STATUS_DEADLINE_EXCEEDED);
    ck_assert(grpc_fixture_wait_running(&fixture, 0));
    uint64_t given_ns = fixture.core.last_deadline_ns - before_ns;
    ck_assert_uint_ge(given_ns, 190 * BASE_NS_PER_MS);
    ck_assert_uint_le(given_ns, 2000 * BASE_NS_PER_MS);
    ck_assert_uint_eq(fixture.core.last_timeout_ns, 0);
}
END_TEST

START_TEST(test_life_close_at_the_deadline_is_no_cancel)
{
    ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK);
    grpc_fixture_on_loop(&fixture, set_hold_without_deadline);
    static const uint32_t timeouts_ms[] = {300, 1500};
    for (size_t i = 0; i < 2; i++) {
        struct grpc_client_call *call = start_call(timeouts_ms[i]);
        ck_assert(grpc_fixture_wait_running(&fixture, 1));
        ck_assert_int_eq(wait_call(call), GRPC_STATUS_DEADLINE_EXCEEDED);
        ck_assert(grpc_fixture_wait_running(&fixture, 0));
        ck_assert_uint_eq(fixture.core.cancels, i + 1);
        ck_assert_int_eq(fixture.core.last_cancel, BASE_DEADLINE_EXCEEDED);
    }
}
END_TEST

START_TEST(test_life_timeout_parameter_reaches_core)
{
    /* parameters: {"timeout": int64 50000} */
    static const uint8_t entry[] = {0x0a, 7,    't', 'i',  'm',  'e',  'o', 'u',
                                    't',  0x12, 4,   0x10, 0xd0, 0x86, 0x03};
    uint8_t *with = malloc(request_length + sizeof entry + 2);
    ck_assert_ptr_nonnull(with);
    memcpy(with, request, request_length);
    srv_grpc_put_bytes(with + request_length, 4, entry, sizeof entry);
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_reply reply;
    ck_assert_int_eq(
        grpc_client_unary(client, INFER, with, request_length + sizeof entry + 2, &reply),
        GRPC_STATUS_DEADLINE_EXCEEDED);
    ck_assert_str_eq(reply.message, "[request id: r] fake deadline exceeded");
    ck_assert_uint_eq(fixture.core.last_timeout_ns, 50 * BASE_NS_PER_MS);
    ck_assert_uint_eq(fixture.core.last_deadline_ns, BASE_NEVER);
    grpc_client_reply_release(&reply);
    free(with);
}
END_TEST

START_TEST(test_life_cancels_at_random_moments)
{
    enum { ROUNDS = 60, CALLS = 32 };
    struct base_random random = util_random(1);
    grpc_fixture_on_loop(&fixture, set_later);
    uint32_t odd = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct grpc_client_call *calls[CALLS];
        for (int i = 0; i < CALLS; i++) {
            calls[i] = start_call(base_random_below(&random, 4) == 0 ? 2 : 0);
        }
        usleep(base_random_below(&random, 3000));
        for (int i = 0; i < CALLS; i++) {
            if (base_random_below(&random, 2) == 0) {
                grpc_client_cancel(calls[i]);
            }
        }
        for (int i = 0; i < CALLS; i++) {
            int status = wait_call(calls[i]);
            odd += status != GRPC_STATUS_OK && status != GRPC_STATUS_CANCELLED &&
                   status != GRPC_STATUS_DEADLINE_EXCEEDED;
        }
    }
    ck_assert_uint_eq(odd, 0);
    check_accounts();
}
END_TEST

/* ---- Clients that vanish ---- */

/* This program again, as a client that makes one call and waits for it. */
static pid_t spawn_client(void)
{
    char port[8];
    static char name[] = "test_grpc_life";
    static char mode[] = "client";
    snprintf(port, sizeof port, "%u", fixture.port);
    char *argv[] = {name, mode, port, NULL};
    char *environment[] = {NULL};
    pid_t pid;
    ck_assert_int_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environment), 0);
    return pid;
}

static int client_main(uint16_t port)
{
    struct grpc_client *own = grpc_client_create(port);
    size_t length;
    uint8_t *bytes = grpc_fixture_request("child", 1, 3, &length);
    struct grpc_client_reply reply;
    int status = grpc_client_unary(own, INFER, bytes, length, &reply);
    return status == GRPC_STATUS_OK ? 0 : 1;
}

START_TEST(test_life_killed_client_cancels_its_calls)
{
    enum { CLIENTS = 3 };
    grpc_fixture_on_loop(&fixture, set_hold);
    pid_t clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = spawn_client();
    }
    ck_assert(grpc_fixture_wait_running(&fixture, CLIENTS));
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_int_eq(kill(clients[i], SIGKILL), 0);
        ck_assert_int_eq(waitpid(clients[i], NULL, 0), clients[i]);
    }
    ck_assert(grpc_fixture_wait_running(&fixture, 0));
    ck_assert_uint_eq(fixture.core.cancels, CLIENTS);
    ck_assert_int_eq(fixture.core.last_cancel, BASE_CANCELLED);
}
END_TEST

static int connect_raw(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(fixture.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    void *generic = &address;
    ck_assert_int_eq(connect(fd, generic, sizeof address), 0);
    return fd;
}

START_TEST(test_life_connections_that_speak_no_http2)
{
    static const char *const texts[] = {"", "GET / HTTP/1.1\r\n\r\n",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int fd = connect_raw();
        ck_assert_int_eq(send(fd, texts[i], strlen(texts[i]), MSG_NOSIGNAL),
                         (ssize_t)strlen(texts[i]));
        close(fd);
    }
    ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK);
}
END_TEST

/* ---- Drain ---- */

START_TEST(test_life_drain_lets_open_calls_finish)
{
    start_with(NULL);
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *calls[3];
    for (int i = 0; i < 3; i++) {
        calls[i] = start_call(0);
    }
    ck_assert(grpc_fixture_wait_running(&fixture, 3));
    grpc_fixture_drain(&fixture);
    ck_assert(!grpc_fixture_wait_drained(&fixture, 100));
    // No new connection.
    struct grpc_client *late = grpc_client_create(fixture.port);
    struct grpc_client_reply reply;
    ck_assert_int_eq(grpc_client_unary(late, INFER, request, request_length, &reply),
                     GRPC_STATUS_UNAVAILABLE);
    grpc_client_reply_release(&reply);
    grpc_client_free(late);
    grpc_fixture_on_loop(&fixture, release_all);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(wait_call(calls[i]), GRPC_STATUS_OK);
    }
    ck_assert(grpc_fixture_wait_drained(&fixture, 10000));
    check_accounts();
    grpc_client_free(client);
    grpc_fixture_end(&fixture);
    free(request);
}
END_TEST

/* More than there are accepts. */
enum { ON_THEIR_WAY = 200 };
static struct grpc_client_call *on_their_way[ON_THEIR_WAY];

/* All of them wait inside gRPC when the drain begins: the loop, which takes them, stands still. */
static void start_and_drain(struct grpc_fixture *on_loop)
{
    for (int i = 0; i < ON_THEIR_WAY; i++) {
        on_their_way[i] = start_call(0);
    }
    (void)usleep(300000);
    grpc_fixture_drain_here(on_loop);
}

START_TEST(test_life_drain_refuses_calls_on_their_way)
{
    start_with(NULL);
    ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK); // it is connected
    grpc_fixture_on_loop(&fixture, start_and_drain);
    for (int i = 0; i < ON_THEIR_WAY; i++) {
        ck_assert_int_eq(wait_call(on_their_way[i]), GRPC_STATUS_UNAVAILABLE);
    }
    ck_assert(grpc_fixture_wait_drained(&fixture, 10000));
    check_accounts();
    ck_assert_uint_eq(fixture.core.counters.requests_total[SRV_PROTOCOL_GRPC][BASE_UNAVAILABLE],
                      ON_THEIR_WAY);
    grpc_client_free(client);
    grpc_fixture_end(&fixture);
    free(request);
}
END_TEST

START_TEST(test_life_drain_ends_though_calls_keep_coming)
{
    start_with(NULL);
    ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK);
    grpc_fixture_drain(&fixture);
    while (!grpc_fixture_wait_drained(&fixture, 1)) {
        ck_assert_int_ne(wait_call(start_call(0)), GRPC_STATUS_OK);
    }
    check_accounts();
    grpc_client_free(client);
    grpc_fixture_end(&fixture);
    free(request);
}
END_TEST

START_TEST(test_life_cancel_all_ends_what_does_not_finish)
{
    start_with(NULL);
    grpc_fixture_on_loop(&fixture, set_hold);
    struct grpc_client_call *calls[3];
    for (int i = 0; i < 3; i++) {
        calls[i] = start_call(0);
    }
    ck_assert(grpc_fixture_wait_running(&fixture, 3));
    grpc_fixture_drain(&fixture);
    ck_assert(!grpc_fixture_wait_drained(&fixture, 50));
    grpc_fixture_cancel_all(&fixture);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ne(wait_call(calls[i]), GRPC_STATUS_OK);
    }
    ck_assert(grpc_fixture_wait_drained(&fixture, 10000));
    ck_assert_uint_eq(fixture.core.cancels, 3);
    check_accounts();
    grpc_client_free(client);
    grpc_fixture_end(&fixture);
    free(request);
}
END_TEST

START_TEST(test_life_drain_while_idle)
{
    // Without a connection, and with one that does nothing.
    grpc_fixture_start(&fixture, NULL);
    grpc_fixture_stop(&fixture);
    start_with(NULL);
    ck_assert_int_eq(wait_call(start_call(0)), GRPC_STATUS_OK);
    grpc_fixture_drain(&fixture);
    ck_assert(grpc_fixture_wait_drained(&fixture, 10000));
    check_accounts();
    grpc_client_free(client);
    grpc_fixture_end(&fixture);
    free(request);
}
END_TEST

START_TEST(test_life_several_completion_threads)
{
    struct srv_grpc_options options;
    srv_grpc_options_init(&options);
    options.threads = 3;
    start_with(&options);
    enum { CALLS = 100 };
    for (int round = 0; round < 10; round++) {
        struct grpc_client_call *calls[CALLS];
        for (int i = 0; i < CALLS; i++) {
            calls[i] = start_call(0);
        }
        for (int i = 0; i < CALLS; i++) {
            ck_assert_int_eq(wait_call(calls[i]), GRPC_STATUS_OK);
        }
    }
    teardown();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "client") == 0) {
        return client_main((uint16_t)strtoul(argv[2], NULL, 10));
    }
    Suite *suite = suite_create("grpc_life");
    TCase *tcase = tcase_create("calls");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_life_64_calls_at_a_time);
    tcase_add_test(tcase, test_life_compressed_message_is_refused);
    tcase_add_test(tcase, test_life_steady_state_allocates_nothing);
    tcase_add_test(tcase, test_life_cancelled_call_is_cancelled_in_core);
    tcase_add_test(tcase, test_life_cancel_of_a_watched_call);
    tcase_add_test(tcase, test_life_cancelled_call_stays_until_core_is_done);
    tcase_add_test(tcase, test_life_deadline_reaches_core);
    tcase_add_test(tcase, test_life_close_at_the_deadline_is_no_cancel);
    tcase_add_test(tcase, test_life_timeout_parameter_reaches_core);
    tcase_add_test(tcase, test_life_cancels_at_random_moments);
    tcase_add_test(tcase, test_life_killed_client_cancels_its_calls);
    tcase_add_test(tcase, test_life_connections_that_speak_no_http2);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("limits and drain");
    tcase_add_test(tcase, test_life_more_calls_than_allowed_are_refused);
    tcase_add_test(tcase, test_life_more_bytes_than_allowed_are_refused);
    tcase_add_test(tcase, test_life_message_too_large_never_arrives);
    tcase_add_test(tcase, test_life_drain_lets_open_calls_finish);
    tcase_add_test(tcase, test_life_cancel_all_ends_what_does_not_finish);
    tcase_add_test(tcase, test_life_drain_refuses_calls_on_their_way);
    tcase_add_test(tcase, test_life_drain_ends_though_calls_keep_coming);
    tcase_add_test(tcase, test_life_drain_while_idle);
    tcase_add_test(tcase, test_life_several_completion_threads);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
