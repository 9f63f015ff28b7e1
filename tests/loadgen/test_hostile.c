/* Whole runs against a raw server: each wrong answer is counted under its code, answers larger than
 * any buffer are counted and not kept, lost connections are replaced, and nothing hangs. */
#include "loadgen/borrow.h"
#include "loadgen/program.h"

#include "base/clock.h"
#include "tests/loadgen/raw_server.h"
#include "tests/util.h"

#include <check.h>
#include <proto/inference.pb-c.h>
#include <stdlib.h>
#include <string.h>

static struct raw_server *server;
static uint8_t metadata[256];
static size_t metadata_bytes;
static uint8_t large[1u << 20];
static char *out_text, *err_text;

static void pack_metadata(void)
{
    int64_t shape[] = {-1, -1};
    Inference__ModelMetadataResponse__TensorMetadata tensor;
    inference__model_metadata_response__tensor_metadata__init(&tensor);
    tensor.name = lg_borrow("x");
    tensor.datatype = lg_borrow("INT64");
    tensor.shape = shape;
    tensor.n_shape = 2;
    Inference__ModelMetadataResponse__TensorMetadata *inputs[] = {&tensor};
    Inference__ModelMetadataResponse answer;
    inference__model_metadata_response__init(&answer);
    answer.name = lg_borrow("langid");
    answer.inputs = inputs;
    answer.n_inputs = 1;
    metadata_bytes = inference__model_metadata_response__get_packed_size(&answer);
    ck_assert_uint_le(metadata_bytes, sizeof(metadata));
    (void)inference__model_metadata_response__pack(&answer, metadata);
}

static void begin(void)
{
    server = NULL;
    pack_metadata();
}

static void end(void)
{
    raw_server_stop(server);
    // From open_memstream(), so not base_free().
    free(out_text);
    free(err_text);
    out_text = NULL;
    err_text = NULL;
}

/* Runs against on_request; the last words of the command line are up to four. Returns the report.
 */
static json_t *run(void (*on_request)(struct raw_peer *, uint32_t, unsigned),
                   const char *const words[4], int want_status)
{
    server = raw_server_start(&(struct raw_script){.on_request = on_request});
    ck_assert_ptr_nonnull(server);
    const char *args[] = {"load",     "--json", "--target",  raw_server_target(server),
                          "--warmup", "0",      "--lengths", "fixed:2",
                          words[0],   words[1], words[2],    words[3]};
    char *argv[sizeof(args) / sizeof(args[0])];
    int argc = 0;
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]) && args[i] != NULL; i++) {
        argv[argc++] = lg_borrow(args[i]);
    }
    static _Atomic bool stop;
    size_t lengths[2];
    FILE *out = open_memstream(&out_text, &lengths[0]);
    FILE *err = open_memstream(&err_text, &lengths[1]);
    int status = lg_program(argc, argv, out, err, &stop);
    (void)fclose(out);
    (void)fclose(err);
    ck_assert_msg(status == want_status, "exit status %d, wanted %d\n%s%s", status, want_status,
                  out_text, err_text);
    json_t *json = json_loads(out_text, JSON_DISABLE_EOF_CHECK, NULL);
    ck_assert_ptr_nonnull(json);
    return json;
}

static int64_t whole(const json_t *json, const char *name)
{
    return json_integer_value(json_object_get(json, name));
}

static int64_t errors_of(const json_t *json, const char *code)
{
    return whole(json_object_get(json, "errors"), code);
}

/* ---- Wrong answers -----------------------------------------------------------------------------
 */

static void answer_wrongly(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 1) {
        raw_answer(peer, stream, metadata, metadata_bytes);
        return;
    }
    // The second asks for the model's configuration, and does without.
    switch (request % 5) {
    case 0:
        raw_answer(peer, stream, "fine", 4);
        break;
    case 1: // cut off
        raw_ok_headers(peer, stream);
        raw_frame(peer, RAW_DATA, 0, stream, "\0\0\0\1\0half", 9);
        raw_ok_trailers(peer, stream);
        break;
    case 2: // no trailers
        raw_ok_headers(peer, stream);
        raw_frame(peer, RAW_DATA, RAW_END_STREAM, stream, "\0\0\0\0\0", 5);
        break;
    case 3:
        raw_reset(peer, stream, 8);
        break;
    default:
        raw_headers(peer, RAW_END_HEADERS | RAW_END_STREAM, stream, ":status: 503\n");
        break;
    }
}

START_TEST(test_wrong_answers_are_counted_by_code)
{
    json_t *json = run(answer_wrongly, (const char *[4]){"--concurrency", "4", "--requests", "100"},
                       LG_EXIT_FAILED);
    ck_assert_int_eq(whole(json, "sent"), 100);
    ck_assert_int_eq(whole(json, "ok"), 20);
    ck_assert_int_eq(errors_of(json, "INTERNAL"), 20);
    ck_assert_int_eq(errors_of(json, "UNKNOWN"), 20);
    ck_assert_int_eq(errors_of(json, "CANCELLED"), 20); // not our doing
    ck_assert_int_eq(errors_of(json, "UNAVAILABLE"), 20);
    ck_assert_str_eq(json_string_value(json_object_get(json, "first_error")),
                     "the stream was reset: CANCEL");
    json_decref(json);
}
END_TEST

/* Streams: of each six requests three parts in odd pieces, one part, none, a second that is cut
 * off, a status, and one behind a part. */
static void answer_in_parts(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    static const char three[] = "\0\0\0\0\1a\0\0\0\0\0\0\0\0\0\2bc";
    if (request == 1) {
        raw_answer(peer, stream, metadata, metadata_bytes);
        return;
    }
    raw_ok_headers(peer, stream);
    switch (request % 6) {
    case 0:
        for (size_t at = 0; at < sizeof(three) - 1;) {
            const size_t left = sizeof(three) - 1 - at;
            const size_t bytes = left < 3 ? left : 3;
            raw_frame(peer, RAW_DATA, 0, stream, three + at, bytes);
            at += bytes;
        }
        break;
    case 1:
        raw_message(peer, stream, "fine", 4);
        break;
    case 2:
        break;
    case 3:
        raw_frame(peer, RAW_DATA, 0, stream, "\0\0\0\0\1a\0\0\0\0\2b", 12);
        break;
    case 4:
        raw_headers(peer, RAW_END_HEADERS | RAW_END_STREAM, stream, "grpc-status: 5\n");
        return;
    default:
        raw_message(peer, stream, "fine", 4);
        raw_headers(peer, RAW_END_HEADERS | RAW_END_STREAM, stream, "grpc-status: 14\n");
        return;
    }
    raw_ok_trailers(peer, stream);
}

START_TEST(test_answers_in_parts)
{
    json_t *json =
        run(answer_in_parts, (const char *[4]){"--stream", "--concurrency=3", "--requests", "60"},
            LG_EXIT_FAILED);
    ck_assert_int_eq(whole(json, "sent"), 60);
    ck_assert_int_eq(whole(json, "ok"), 20);
    ck_assert_int_eq(errors_of(json, "INTERNAL"), 20);
    ck_assert_int_eq(errors_of(json, "NOT_FOUND"), 10);
    ck_assert_int_eq(errors_of(json, "UNAVAILABLE"), 10);
    util_assert_close(json_number_value(json_object_get(json, "parts_each")), 2, 1e-9, 0);
    const json_t *first = json_object_get(json, "first_ms");
    ck_assert(json_number_value(json_object_get(first, "max")) > 0);
    json_decref(json);
}
END_TEST

/* Where one message is due, a second is wrong. */
static void answer_twice(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 1) {
        raw_answer(peer, stream, metadata, metadata_bytes);
        return;
    }
    raw_ok_headers(peer, stream);
    raw_message(peer, stream, "fine", 4);
    raw_message(peer, stream, "more", 4);
    raw_ok_trailers(peer, stream);
}

START_TEST(test_a_second_message_is_counted_as_wrong)
{
    json_t *json = run(answer_twice, (const char *[4]){"--concurrency", "2", "--requests", "10"},
                       LG_EXIT_FAILED);
    ck_assert_int_eq(errors_of(json, "INTERNAL"), 10);
    ck_assert_ptr_null(json_object_get(json, "first_ms"));
    json_decref(json);
}
END_TEST

static void answer_largely(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 1) {
        raw_answer(peer, stream, metadata, metadata_bytes);
    } else {
        raw_answer(peer, stream, large, sizeof(large));
    }
}

START_TEST(test_answers_are_counted_and_not_kept)
{
    // 100 MB, more than the windows of the connection: they have to be given again.
    json_t *json = run(answer_largely, (const char *[4]){"--concurrency", "4", "--requests", "100"},
                       LG_EXIT_OK);
    ck_assert_int_eq(whole(json, "ok"), 100);
    json_decref(json);
}
END_TEST

static void hang_up_often(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 1) {
        raw_answer(peer, stream, metadata, metadata_bytes);
    } else if (request % 10 == 0) {
        raw_close(peer);
    } else {
        raw_answer(peer, stream, "fine", 4);
    }
}

START_TEST(test_lost_connections_are_replaced)
{
    json_t *json = run(hang_up_often, (const char *[4]){"--concurrency", "1", "--requests", "50"},
                       LG_EXIT_FAILED);
    ck_assert_int_eq(whole(json, "sent"), 50);
    ck_assert_int_eq(errors_of(json, "UNAVAILABLE"), 5);
    ck_assert_int_eq(whole(json, "ok"), 45);
    ck_assert_uint_eq(raw_server_connections(server), 6);
    json_decref(json);
}
END_TEST

static void say_nothing(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 1) {
        raw_answer(peer, stream, metadata, metadata_bytes);
    } else if (request % 2 == 0) {
        raw_ok_headers(peer, stream); // and no more
    }
}

START_TEST(test_deadlines_are_kept_by_the_client)
{
    json_t *json = run(
        say_nothing, (const char *[4]){"--concurrency=4", "--duration=0.3", "--deadline-ms", "50"},
        LG_EXIT_FAILED);
    ck_assert_int_gt(errors_of(json, "DEADLINE_EXCEEDED"), 8);
    ck_assert_int_eq(errors_of(json, "DEADLINE_EXCEEDED"), whole(json, "sent"));
    ck_assert_uint_gt(raw_server_resets(server), 8);
    json_decref(json);
}
END_TEST

static void garbage_after_metadata(struct raw_peer *peer, uint32_t stream, unsigned request)
{
    if (request == 1) {
        raw_answer(peer, stream, metadata, metadata_bytes);
    } else {
        raw_send(peer, "garbage garbage garbage garbage", 31);
    }
}

START_TEST(test_garbage_ends_a_run_that_gives_up)
{
    uint64_t start_ns = base_now_ns();
    json_t *json = run(garbage_after_metadata,
                       (const char *[4]){"--concurrency=4", "--duration=30", "--give-up", "0.5"},
                       LG_EXIT_FAILED);
    ck_assert_uint_lt(base_now_ns() - start_ns, 10 * BASE_NS_PER_S);
    ck_assert(json_is_true(json_object_get(json, "gave_up")));
    ck_assert_int_gt(errors_of(json, "UNAVAILABLE"), 0);
    ck_assert_int_eq(errors_of(json, "UNAVAILABLE"), whole(json, "sent"));
    json_decref(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hostile");
    TCase *tcase = tcase_create("runs");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_wrong_answers_are_counted_by_code);
    tcase_add_test(tcase, test_answers_in_parts);
    tcase_add_test(tcase, test_a_second_message_is_counted_as_wrong);
    tcase_add_test(tcase, test_answers_are_counted_and_not_kept);
    tcase_add_test(tcase, test_lost_connections_are_replaced);
    tcase_add_test(tcase, test_deadlines_are_kept_by_the_client);
    tcase_add_test(tcase, test_garbage_ends_a_run_that_gives_up);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
