/* Calls that wait, against a server that speaks HTTP/2 frame by frame: answers of every kind, right
 * and wrong, and servers of another kind. */
#include "loadgen/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/loadgen/raw_fixture.h"
#include "tests/util.h"

#include <check.h>
#include <string.h>

#define BIG_BYTES (20u << 20)

/* ---- Servers of another kind -------------------------------------------------------------------
 */

static void say_garbage(struct raw_peer *peer, unsigned connection)
{
    (void)connection;
    char garbage[300];
    memset(garbage, 'x', sizeof(garbage));
    raw_send(peer, garbage, sizeof(garbage));
}

START_TEST(test_garbage_is_no_server)
{
    raw_serve(&(struct raw_script){.mute = true, .on_connect = say_garbage});
    raw_assert_ends("UNAVAILABLE", "HTTP/2");
}
END_TEST

static void say_http1(struct raw_peer *peer)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    raw_send(peer, answer, sizeof(answer) - 1);
    raw_close(peer);
}

START_TEST(test_http1_is_no_server)
{
    raw_serve(&(struct raw_script){.mute = true, .on_bytes = say_http1});
    raw_assert_ends("UNAVAILABLE", "HTTP/2");
}
END_TEST

static void close_now(struct raw_peer *peer, unsigned connection)
{
    (void)connection;
    raw_close(peer);
}

START_TEST(test_closing_server_is_unavailable)
{
    raw_serve(&(struct raw_script){.mute = true, .on_connect = close_now});
    raw_assert_ends("UNAVAILABLE", "");
    raw_assert_ends("UNAVAILABLE", ""); // in the pause, without another attempt
    ck_assert_uint_eq(raw_server_connections(raw.server), 1);
}
END_TEST

START_TEST(test_mute_server_costs_no_more_than_the_timeout)
{
    raw_serve(&(struct raw_script){.mute = true});
    uint64_t start_ns = base_now_ns();
    ck_assert_int_eq(raw_call_for(50 * BASE_NS_PER_MS), BASE_DEADLINE_EXCEEDED);
    ck_assert_uint_lt(base_now_ns() - start_ns, 3 * BASE_NS_PER_S);
}
END_TEST

START_TEST(test_targets_of_wrong_form_are_refused)
{
    static const char *const wrong[] = {"host",   "host:",   ":1",    "host:port",
                                        "::1:80", "[::1:80", "[]:80", "host:1234567890"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        raw_connect(wrong[i]);
        ck_assert_msg(raw_call() == BASE_INVALID_ARGUMENT, "%s was not refused", wrong[i]);
    }
}
END_TEST

/* ---- Answers -----------------------------------------------------------------------------------
 */

/* What the next requests get. */
static const struct answer *answers;

struct answer {
    const char *headers; /* NULL = the usual ones */
    const char *data;    /* with its prefix; NULL = none */
    size_t data_bytes;
    const char *trailers; /* NULL = the data ends the stream, or the headers when there is none */
    const char *code, *words;
};

static void give_answer(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    const struct answer *answer = &answers[request - 1];
    bool only_headers = answer->data == NULL && answer->trailers == NULL;
    raw_headers(peer, RAW_END_HEADERS | (only_headers ? RAW_END_STREAM : 0), stream,
                answer->headers != NULL ? answer->headers
                                        : ":status: 200\ncontent-type: application/grpc+proto\n");
    if (answer->data != NULL) {
        raw_frame(peer, RAW_DATA, answer->trailers == NULL ? RAW_END_STREAM : 0, stream,
                  answer->data, answer->data_bytes);
    }
    if (answer->trailers != NULL) {
        raw_headers(peer, RAW_END_HEADERS | RAW_END_STREAM, stream, answer->trailers);
    }
}

#define BYTES(text) (text), sizeof(text) - 1

START_TEST(test_answers_get_the_codes_of_the_protocol)
{
    static const struct answer table[] = {
        {NULL, BYTES("\0\0\0\0\2ab"), "grpc-status: 0\n", NULL, NULL},
        {NULL, BYTES("\0\0\0\0\0"), "grpc-status: 0\n", NULL, NULL},
        {NULL, BYTES("\0\0\0\0\x64shorter"), "grpc-status: 0\n", "INTERNAL", "7 of 100"},
        {NULL, BYTES("\0\0\0"), "grpc-status: 0\n", "INTERNAL", "no message"},
        {NULL, NULL, 0, "grpc-status: 0\n", "INTERNAL", "no message"},
        {NULL, BYTES("\0\0\0\0\1a"), NULL, "UNKNOWN", "without grpc-status"},
        {NULL, BYTES("\1\0\0\0\1a"), "grpc-status: 0\n", "INTERNAL", "compressed"},
        {NULL, BYTES("\0\0\0\0\1a\0\0\0\0\1b"), "grpc-status: 0\n", "INTERNAL", "more than one"},
        {NULL, NULL, 0, "grpc-status: 13\ngrpc-message: a%20b%zz%0a%1B[1m\n", "INTERNAL",
         "a b%zz??[1m"},
        {NULL, NULL, 0, "grpc-status: 77\n", "OTHER", ""},
        {NULL, NULL, 0, "grpc-status: x\n", "UNKNOWN", "no number"},
        {":status: 200\ncontent-type: application/grpc\ngrpc-status: 5\ngrpc-message: nowhere\n",
         NULL, 0, NULL, "NOT_FOUND", "nowhere"},
        {":status: 200\ncontent-type: text/html\n", BYTES("<p>"), NULL, "UNKNOWN", "text/html"},
        {":status: 400\n", BYTES("<p>"), NULL, "INTERNAL", "HTTP status 400"},
        {":status: 401\n", NULL, 0, NULL, "UNAUTHENTICATED", "401"},
        {":status: 403\n", NULL, 0, NULL, "PERMISSION_DENIED", "403"},
        {":status: 404\n", NULL, 0, NULL, "UNIMPLEMENTED", "404"},
        {":status: 429\n", NULL, 0, NULL, "UNAVAILABLE", "429"},
        {":status: 503\ncontent-type: text/html\n", BYTES("<p>"), NULL, "UNAVAILABLE", "503"},
        {":status: 500\n", NULL, 0, NULL, "UNKNOWN", "500"},
    };
    answers = table;
    raw_serve(&(struct raw_script){.on_request = give_answer});
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].code == NULL) {
            ck_assert_int_eq(raw_call(), BASE_OK);
            ck_assert_uint_eq(raw.reply.length, table[i].data_bytes - LG_PREFIX_BYTES);
        } else {
            raw_assert_ends(table[i].code, table[i].words);
        }
    }
    ck_assert_uint_eq(raw_server_connections(raw.server), 1);
}
END_TEST

static const struct {
    uint32_t reset;
    const char *code;
} resets[] = {
    {0x0, "INTERNAL"},          {0x1, "INTERNAL"},  {0x2, "INTERNAL"},
    {0x7, "UNAVAILABLE"},       {0x8, "CANCELLED"}, {0xb, "RESOURCE_EXHAUSTED"},
    {0xc, "PERMISSION_DENIED"},
};

static void reset_request(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    raw_reset(peer, stream, resets[request - 1].reset);
}

START_TEST(test_resets_get_the_codes_of_the_protocol)
{
    raw_serve(&(struct raw_script){.on_request = reset_request});
    for (size_t i = 0; i < sizeof(resets) / sizeof(resets[0]); i++) {
        raw_assert_ends(resets[i].code, "reset");
    }
    ck_assert_uint_eq(raw_server_connections(raw.server), 1);
}
END_TEST

static void flood_headers(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    (void)request;
    static uint8_t block[16384]; // one name and 80 values of 200 bytes
    size_t at = 0;
    while (at + 206 <= sizeof(block)) {
        static const uint8_t head[] = {0, 1, 'x', 127, 73}; // the lengths are 1 and 127 + 73
        memcpy(block + at, head, sizeof(head));
        memset(block + at + sizeof(head), 'v', 200);
        at += sizeof(head) + 200;
    }
    raw_frame(peer, RAW_HEADERS, 0, stream, block, at);
    for (size_t i = 0; i < 1000; i++) {
        raw_frame(peer, RAW_MORE, 0, stream, block, at);
    }
}

START_TEST(test_endless_headers_end_the_connection)
{
    raw_serve(&(struct raw_script){.on_request = flood_headers});
    raw_assert_ends("UNAVAILABLE", "headers");
}
END_TEST

static uint8_t *big; /* [BIG_BYTES] */

static void answer_big(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    (void)request;
    raw_answer(peer, stream, big, BIG_BYTES);
}

START_TEST(test_large_answers_are_kept_up_to_the_limit)
{
    big = base_alloc(BIG_BYTES);
    ck_assert_ptr_nonnull(big);
    memset(big, 'b', BIG_BYTES);
    raw_serve(&(struct raw_script){.on_request = answer_big});
    ck_assert_int_eq(raw_call(), BASE_OK);
    ck_assert_uint_eq(raw.reply.length, BIG_BYTES);
    ck_assert_mem_eq(raw.reply.data, big, BIG_BYTES);
    base_buf_release(&raw.reply);
    base_buf_init(&raw.reply, BIG_BYTES - 1);
    raw_assert_ends("RESOURCE_EXHAUSTED", "too large");
    raw_wait_for_resets(1);
    raw_connect(raw_server_target(raw.server)); // the server has let go of the bytes then
    raw_server_stop(raw.server);
    raw.server = NULL;
    base_free(big);
}
END_TEST

static void answer_early(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    (void)request;
    raw_headers(peer, RAW_END_HEADERS | RAW_END_STREAM, stream,
                ":status: 200\ncontent-type: application/grpc\ngrpc-status: 8\n");
}

START_TEST(test_answer_before_the_end_of_the_request_counts)
{
    // No windows are given, so that a request of a megabyte cannot have left.
    struct base_buf request;
    base_buf_init(&request, 2u << 20);
    ck_assert_ptr_nonnull(base_buf_grow(&request, 1u << 20));
    memset(request.data, 'r', request.length);
    raw_serve(&(struct raw_script){.early = true, .on_request = answer_early});
    ck_assert_int_eq(
        lg_client_call(raw.client, "M", &request, 10 * BASE_NS_PER_S, &raw.reply, &raw.error),
        BASE_RESOURCE_EXHAUSTED);
    base_buf_release(&request);
    raw_wait_for_resets(1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *tcase = tcase_create("raw server");
    tcase_add_checked_fixture(tcase, raw_begin, raw_end);
    tcase_add_test(tcase, test_garbage_is_no_server);
    tcase_add_test(tcase, test_http1_is_no_server);
    tcase_add_test(tcase, test_closing_server_is_unavailable);
    tcase_add_test(tcase, test_mute_server_costs_no_more_than_the_timeout);
    tcase_add_test(tcase, test_targets_of_wrong_form_are_refused);
    tcase_add_test(tcase, test_answers_get_the_codes_of_the_protocol);
    tcase_add_test(tcase, test_resets_get_the_codes_of_the_protocol);
    tcase_add_test(tcase, test_endless_headers_end_the_connection);
    tcase_add_test(tcase, test_large_answers_are_kept_up_to_the_limit);
    tcase_add_test(tcase, test_answer_before_the_end_of_the_request_counts);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
