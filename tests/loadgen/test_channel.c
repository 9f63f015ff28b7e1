/* Connections that end and come again, and many calls at a time, against a server that speaks
 * HTTP/2 frame by frame. */
#include "loadgen/client.h"

#include "base/clock.h"
#include "tests/loadgen/raw_fixture.h"
#include "tests/util.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* ---- Connections -------------------------------------------------------------------------------
 */

static void answer_ok(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    (void)request;
    raw_answer(peer, stream, "ok", 2);
}

static void goaway_at_second(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 2) {
        raw_goaway(peer, stream - 2, 0, "");
    } else {
        answer_ok(peer, stream, request);
    }
}

START_TEST(test_goaway_ends_what_it_excludes_and_brings_a_new_connection)
{
    raw_serve(&(struct raw_script){.on_request = goaway_at_second});
    ck_assert_int_eq(raw_call(), BASE_OK);
    raw_assert_ends("UNAVAILABLE", "");
    ck_assert_int_eq(raw_call(), BASE_OK);
    ck_assert_uint_eq(raw_server_connections(raw.server), 2);
}
END_TEST

static void goaway_then_answer(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    raw_ok_headers(peer, stream);
    raw_goaway(peer, stream, 0, "moving");
    raw_message(peer, stream, &request, sizeof(request));
    raw_ok_trailers(peer, stream);
}

START_TEST(test_goaway_lets_earlier_calls_finish)
{
    raw_serve(&(struct raw_script){.on_request = goaway_then_answer});
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert_int_eq(raw_call(), BASE_OK);
        ck_assert_mem_eq(raw.reply.data, &i, sizeof(i));
    }
    ck_assert_uint_eq(raw_server_connections(raw.server), 3);
}
END_TEST

static void hang_up_at_second(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 2) {
        raw_ok_headers(peer, stream);
        raw_close(peer);
    } else {
        answer_ok(peer, stream, request);
    }
}

START_TEST(test_lost_connection_is_unavailable_and_made_again)
{
    raw_serve(&(struct raw_script){.on_request = hang_up_at_second});
    ck_assert_int_eq(raw_call(), BASE_OK);
    raw_assert_ends("UNAVAILABLE", "closed the connection");
    ck_assert_int_eq(raw_call(), BASE_OK);
    ck_assert_uint_eq(raw_server_connections(raw.server), 2);
}
END_TEST

START_TEST(test_ipv6_and_names_are_found)
{
    raw_serve(&(struct raw_script){.on_request = answer_ok});
    char target[64];
    (void)snprintf(target, sizeof(target), "localhost%s",
                   strrchr(raw_server_target(raw.server), ':'));
    raw_connect(target); // also when ::1, where nobody listens, comes first
    ck_assert_int_eq(raw_call(), BASE_OK);
    raw_server_stop(raw.server);
    raw.server = raw_server_start(&(struct raw_script){.ipv6 = true, .on_request = answer_ok});
    if (raw.server == NULL) {
        util_skip("no IPv6 on the loopback");
        return;
    }
    raw_connect(raw_server_target(raw.server));
    ck_assert_int_eq(raw_call(), BASE_OK);
}
END_TEST

/* ---- Many at a time ----------------------------------------------------------------------------
 */

static void read_letters(const struct lg_rpc *rpc, uint64_t offset, size_t length, uint8_t *out)
{
    (void)rpc;
    memset(out, 'a' + (int)offset, length);
}

#define RPCS 5u

static struct lg_rpc rpcs[RPCS];

static void start_all(void)
{
    memset(rpcs, 0, sizeof(rpcs));
    uint64_t now_ns = base_now_ns();
    for (uint32_t i = 0; i < RPCS; i++) {
        rpcs[i].path = "/x/Y";
        rpcs[i].read = read_letters;
        rpcs[i].message_bytes = 3;
        rpcs[i].timeout_ns = BASE_NS_PER_S;
        lg_client_start(raw.client, &rpcs[i], i, now_ns);
    }
}

/* Takes count calls; fails the test when they do not end. */
static void take(uint32_t count)
{
    uint64_t now_ns = base_now_ns();
    uint64_t end_ns = now_ns + 10 * BASE_NS_PER_S;
    while (count > 0) {
        ck_assert_uint_lt(now_ns, end_ns);
        now_ns = lg_client_turn(raw.client, now_ns, now_ns + BASE_NS_PER_MS);
        while (lg_client_take(raw.client) != NULL) {
            count--;
        }
    }
}

static void allow_one_stream(struct raw_peer *peer, unsigned connection)
{
    (void)connection;
    static const uint8_t one_stream[] = {0, 3, 0, 0, 0, 1};
    raw_frame(peer, RAW_SETTINGS, 0, 0, one_stream, sizeof(one_stream));
}

START_TEST(test_peers_limit_of_streams_is_obeyed)
{
    raw_serve(&(struct raw_script){
        .mute = true, .on_connect = allow_one_stream, .on_request = answer_ok});
    ck_assert_int_eq(raw_call(), BASE_OK);
    start_all();
    take(RPCS);
    for (uint32_t i = 0; i < RPCS; i++) {
        ck_assert_uint_eq(rpcs[i].code, LG_CODE_OK);
    }
    ck_assert_uint_eq(raw_server_open_max(raw.server), 1);
}
END_TEST

static void answer_first_only(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 1) {
        answer_ok(peer, stream, request);
    }
}

START_TEST(test_cancel_reaches_the_server_wherever_the_call_is)
{
    // One stream: the first call is open, the others wait.
    raw_serve(&(struct raw_script){
        .mute = true, .on_connect = allow_one_stream, .on_request = answer_first_only});
    ck_assert_int_eq(raw_call(), BASE_OK);
    start_all();
    uint64_t now_ns = base_now_ns();
    now_ns = lg_client_turn(raw.client, now_ns, now_ns + 10 * BASE_NS_PER_MS);
    lg_client_cancel(raw.client, &rpcs[0], LG_CODE_CANCELLED, "enough", now_ns);
    lg_client_cancel(raw.client, &rpcs[0], LG_CODE_CANCELLED, "no effect", now_ns);
    lg_client_cancel(raw.client, &rpcs[2], LG_CODE_DEADLINE_EXCEEDED, "late", now_ns);
    take(2);
    ck_assert_uint_eq(rpcs[0].code, LG_CODE_CANCELLED);
    ck_assert_str_eq(rpcs[0].words, "enough");
    ck_assert_uint_eq(rpcs[2].code, LG_CODE_DEADLINE_EXCEEDED);
    raw_wait_for_resets(1);
    for (uint32_t i = 1; i < RPCS; i++) {
        lg_client_cancel(raw.client, &rpcs[i], LG_CODE_CANCELLED, "end", base_now_ns());
    }
    take(RPCS - 2);
}
END_TEST

START_TEST(test_unwritten_call_is_cancelled_before_it_leaves)
{
    raw_serve(&(struct raw_script){.on_request = answer_first_only});
    ck_assert_int_eq(raw_call(), BASE_OK);
    start_all();
    for (uint32_t i = 0; i < RPCS; i++) {
        lg_client_cancel(raw.client, &rpcs[i], LG_CODE_CANCELLED, "at once", base_now_ns());
    }
    take(RPCS);
    uint64_t now_ns = base_now_ns();
    (void)lg_client_turn(raw.client, now_ns, now_ns + 20 * BASE_NS_PER_MS);
    ck_assert_uint_eq(raw_server_open_max(raw.server), 1);
    ck_assert_uint_eq(raw_server_resets(raw.server), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("channel");
    TCase *tcase = tcase_create("raw server");
    tcase_add_checked_fixture(tcase, raw_begin, raw_end);
    tcase_add_test(tcase, test_goaway_ends_what_it_excludes_and_brings_a_new_connection);
    tcase_add_test(tcase, test_goaway_lets_earlier_calls_finish);
    tcase_add_test(tcase, test_lost_connection_is_unavailable_and_made_again);
    tcase_add_test(tcase, test_ipv6_and_names_are_found);
    tcase_add_test(tcase, test_peers_limit_of_streams_is_obeyed);
    tcase_add_test(tcase, test_cancel_reaches_the_server_wherever_the_call_is);
    tcase_add_test(tcase, test_unwritten_call_is_cancelled_before_it_leaves);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
