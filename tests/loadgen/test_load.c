/* The whole program against the echo server: every way a run can go. */
#include "loadgen/program.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/loadgen/echo_server.h"
#include "tests/util.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARGS_MAX 32

static struct echo_server *server;
static struct echo_stats stats;
static _Atomic bool stop;
static char *out_text, *err_text;
static char folder[UTIL_PATH_BYTES];

static void begin(void)
{
    util_temp_dir(folder);
    server = NULL;
    stop = false;
    out_text = NULL;
    err_text = NULL;
}

static void forget_texts(void)
{
    // From open_memstream(), so not base_free().
    free(out_text);
    free(err_text);
    out_text = NULL;
    err_text = NULL;
}

static void stop_server(void)
{
    if (server != NULL) {
        echo_server_stop(server, &stats);
        server = NULL;
    }
}

static void end(void)
{
    stop_server();
    forget_texts();
    util_remove_tree(folder);
}

/* Runs the program with words separated by blanks; a word of the form @NAME is a file in folder.
 * The server's address comes first. Returns the exit status; the texts are out_text and err_text.
 */
static int run(const char *words)
{
    static char text[1024];
    static char paths[4][UTIL_PATH_BYTES + 64];
    char *argv[ARGS_MAX] = {text};
    int argc = 1;
    size_t path_count = 0;
    static char target[128];
    if (server != NULL) {
        (void)snprintf(target, sizeof(target), "--target=%s", echo_server_target(server));
        argv[argc++] = target;
    }
    ck_assert_uint_lt(strlen(words), sizeof(text));
    memcpy(text, words, strlen(words) + 1);
    char *rest = text;
    for (char *word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " ")) {
        ck_assert_int_lt(argc, ARGS_MAX);
        argv[argc++] = word;
        char *at = strchr(word, '@');
        if (at != NULL) {
            ck_assert_uint_lt(path_count, 4);
            (void)snprintf(paths[path_count], sizeof(paths[0]), "%.*s%s/%s", (int)(at - word), word,
                           folder, at + 1);
            argv[argc - 1] = paths[path_count++];
        }
    }
    forget_texts();
    size_t out_length = 0;
    size_t err_length = 0;
    FILE *out = open_memstream(&out_text, &out_length);
    FILE *err = open_memstream(&err_text, &err_length);
    int status = lg_program(argc, argv, out, err, &stop);
    (void)fclose(out);
    (void)fclose(err);
    return status;
}

/* run() with --json; the first line's object. A busy machine may make any open loop INVALID, so
 * that status passes too; the cases about the schedule look at the object. */
static json_t *run_json(const char *words, int want_status)
{
    char with_json[1024];
    (void)snprintf(with_json, sizeof(with_json), "--json %s", words);
    int status = run(with_json);
    bool late = status == LG_EXIT_INVALID && strstr(words, "--rate") != NULL;
    ck_assert_msg(status == want_status || late, "exit status %d, wanted %d\n%s%s", status,
                  want_status, out_text, err_text);
    json_t *json = json_loads(out_text, JSON_DISABLE_EOF_CHECK, NULL);
    ck_assert_ptr_nonnull(json);
    return json;
}

static void serve(const struct echo_config *config)
{
    server = echo_server_start(config);
}

static int64_t whole(const json_t *json, const char *name)
{
    const json_t *member = json_object_get(json, name);
    ck_assert_msg(json_is_integer(member), "no integer %s", name);
    return json_integer_value(member);
}

static double real(const json_t *json, const char *group, const char *name)
{
    const json_t *holder = group == NULL ? json : json_object_get(json, group);
    const json_t *member = json_object_get(holder, name);
    ck_assert_msg(json_is_number(member), "no number %s", name);
    return json_number_value(member);
}

static int64_t errors_of(const json_t *json, const char *code)
{
    return json_integer_value(json_object_get(json_object_get(json, "errors"), code));
}

static bool truth(const json_t *json, const char *name)
{
    return json_is_true(json_object_get(json, name));
}

static void assert_adds_up(const json_t *json)
{
    ck_assert_int_eq(whole(json, "sent"),
                     whole(json, "ok") + whole(json, "failed") + whole(json, "cancelled"));
    ck_assert_int_ge(whole(json, "planned"), whole(json, "sent"));
}

/* ---- Runs that go well ----------------------------------------------------------------------- */

START_TEST(test_closed_loop_counts_every_answer)
{
    serve(&(struct echo_config){.check = true});
    json_t *json = run_json(
        "--concurrency 8 --duration 0.3 --warmup 0.05 --cooldown 0.05 --lengths uniform:1:50", 0);
    ck_assert_str_eq(json_string_value(json_object_get(json, "mode")), "closed");
    assert_adds_up(json);
    ck_assert_int_gt(whole(json, "ok"), 20);
    ck_assert_int_eq(whole(json, "failed"), 0);
    util_assert_close(real(json, NULL, "window_s"), 0.3, 0.15, 0);
    ck_assert_double_gt(real(json, NULL, "rate_achieved"), 0);
    ck_assert_double_gt(real(json, NULL, "cpu_us_each"), 0);
    json_decref(json);
    stop_server();
    ck_assert_uint_eq(stats.wrong, 0);
}
END_TEST

START_TEST(test_open_loop_keeps_its_schedule)
{
    serve(&(struct echo_config){.check = true});
    json_t *json = run_json("--rate 20 --duration 1 --warmup 0.1 --cooldown 0.1 --seed 3", 0);
    assert_adds_up(json);
    ck_assert(truth(json, "valid"));
    ck_assert_int_gt(whole(json, "ok"), 5);
    ck_assert_int_lt(whole(json, "ok"), 40);
    ck_assert_int_eq(whole(json, "ok"), whole(json, "planned"));
    util_assert_close(real(json, NULL, "missed_limit_ms"), 250, 1e-9, 0);
    ck_assert_double_ge(real(json, "latency_ms", "p50"), real(json, "service_ms", "p50") * 0.99);
    json_decref(json);
}
END_TEST

START_TEST(test_requests_end_a_run_after_exactly_so_many)
{
    serve(&(struct echo_config){0});
    json_t *json = run_json("--concurrency 4 --requests 100 --warmup 0.05 --cooldown 0", 0);
    ck_assert_int_eq(whole(json, "ok"), 100);
    json_decref(json);
}
END_TEST

START_TEST(test_open_loop_by_requests_plans_exactly_so_many)
{
    serve(&(struct echo_config){0});
    json_t *json = run_json("--rate 100 --requests 60 --warmup 0.05 --cooldown 0.05", 0);
    ck_assert_int_eq(whole(json, "planned"), 60);
    ck_assert_int_eq(whole(json, "ok"), 60);
    json_decref(json);
}
END_TEST

START_TEST(test_two_inputs_and_a_batch_have_right_sizes)
{
    serve(&(struct echo_config){.check = true, .floats = true});
    json_t *json =
        run_json("--concurrency 2 --requests 50 --warmup 0 --lengths uniform:1:20 --batch 3", 0);
    json_decref(json);
    json =
        run_json("--concurrency 2 --requests 20 --warmup 0 --shape x:L,B,4 --lengths fixed:9", 0);
    json_decref(json);
    stop_server();
    ck_assert_uint_ge(stats.requests, 70);
    ck_assert_uint_eq(stats.wrong, 0);
}
END_TEST

START_TEST(test_large_requests_pass_the_servers_windows)
{
    serve(&(struct echo_config){.check = true});
    json_decref(run_json("--concurrency 3 --requests 30 --warmup 0 --lengths fixed:100000", 0));
    stop_server();
    ck_assert_uint_ge(stats.requests, 30);
    ck_assert_uint_eq(stats.wrong, 0);
}
END_TEST

START_TEST(test_text_and_trace_feed_requests)
{
    serve(&(struct echo_config){.check = true});
    char path[UTIL_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/t", folder);
    util_write_file(path, "one\nthree\n");
    json_decref(run_json("--concurrency 2 --requests 20 --warmup 0 --text @t", 0));
    util_write_file(path, "5\t6\n7\t8\n");
    json_decref(run_json("--concurrency 2 --requests 20 --warmup 0 --lengths trace:@t", 0));
    util_write_file(path, "5\t6\nx\t8\n");
    ck_assert_int_eq(run("--concurrency 2 --lengths trace:@t"), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "t:2:"));
    stop_server();
    ck_assert_uint_eq(stats.wrong, 0);
}
END_TEST

START_TEST(test_connections_are_separate)
{
    serve(&(struct echo_config){.check = true});
    json_decref(run_json("--concurrency 6 --requests 60 --warmup 0.05 --connections 3", 0));
    stop_server();
    ck_assert_uint_eq(stats.connections, 3);
}
END_TEST

START_TEST(test_sweep_writes_table_and_picture)
{
    serve(&(struct echo_config){0});
    int status =
        run("--rates 50,100 --duration 0.2 --warmup 0.05 --cooldown 0.05 --csv @c --png @p");
    char path[UTIL_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/c", folder);
    char *csv = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(csv);
    size_t lines = 0;
    for (const char *c = csv; *c != '\0'; c++) {
        lines += *c == '\n';
    }
    ck_assert_uint_eq(lines, 3);
    base_free(csv);
    ck_assert_ptr_nonnull(strstr(out_text, "100 requests/s asked"));
    if (status == 1 && strstr(err_text, "gnuplot is not installed") != NULL) {
        util_skip("no gnuplot");
        return;
    }
    ck_assert_int_ne(status, LG_EXIT_START);
    (void)snprintf(path, sizeof(path), "%s/p", folder);
    char *png = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(png);
    base_free(png);
}
END_TEST

START_TEST(test_ask_prints_labels_by_probability)
{
    serve(&(struct echo_config){.check = true});
    char path[UTIL_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/labels", folder);
    util_write_file(path, "English\nGerman\n");
    ck_assert_int_eq(run("--labels @labels --ask Guten"), 0);
    ck_assert_str_eq(out_text, "German   0.9987\nEnglish  0.0013\n");
    ck_assert_int_eq(run("--labels @labels --ask Guten --ask Hello"), 0);
    ck_assert_str_eq(out_text, "Guten\nGerman   0.9987\nEnglish  0.0013\n\n"
                               "Hello\nEnglish  0.7500\nGerman   0.2500\n");
    util_write_file(path, "only one\n");
    ck_assert_int_eq(run("--labels @labels --ask Guten"), 1);
    ck_assert_int_eq(run("--labels @nothing --ask Guten"), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "nothing"));
}
END_TEST

/* ---- Slow and failing servers ---------------------------------------------------------------- */

START_TEST(test_stall_of_the_server_shows_in_p99)
{
    serve(&(struct echo_config){.stall_at = 300, .stall_ns = 200 * BASE_NS_PER_MS});
    json_t *json = run_json("--rate 1000 --duration 1 --warmup 0.1 --cooldown 0.1", 0);
    // A tenth of the requests was planned during the stall's first half.
    ck_assert_double_gt(real(json, "latency_ms", "p99"), 100);
    ck_assert_double_gt(real(json, "latency_ms", "max"), 180);
    ck_assert_double_lt(real(json, "latency_ms", "p50"), 100);
    json_decref(json);
}
END_TEST

START_TEST(test_late_sends_carry_their_wait_and_make_the_run_invalid)
{
    // With one request in flight the client itself is stuck while the server stalls: only the one
    // request that met the stall has a long service time, but all that were due then waited.
    serve(&(struct echo_config){.stall_at = 300, .stall_ns = 200 * BASE_NS_PER_MS});
    json_t *json =
        run_json("--rate 1000 --duration 1 --warmup 0.1 --cooldown 0.1 --max-in-flight 1", 4);
    ck_assert(!truth(json, "valid"));
    ck_assert_int_gt(whole(json, "missed"), 50);
    ck_assert_double_gt(real(json, "latency_ms", "p90"), 50);
    ck_assert_double_gt(real(json, "latency_ms", "p90"), 2 * real(json, "service_ms", "p90"));
    ck_assert_double_gt(real(json, NULL, "lateness_max_ms"), 100);
    json_decref(json);
}
END_TEST

START_TEST(test_overload_ends_in_time_and_is_invalid)
{
    // 10 answers a second with one in flight, 1000 asked: most are never sent.
    serve(&(struct echo_config){.delay_ns = 100 * BASE_NS_PER_MS});
    uint64_t start_ns = base_now_ns();
    json_t *json = run_json(
        "--rate 1000 --duration 0.3 --warmup 0 --cooldown 0 --drain 0.3 --max-in-flight 1", 4);
    ck_assert_uint_lt(base_now_ns() - start_ns, 5 * BASE_NS_PER_S);
    ck_assert_int_gt(whole(json, "planned"), whole(json, "sent") * 10);
    assert_adds_up(json);
    json_decref(json);
}
END_TEST

START_TEST(test_failures_are_counted_by_code)
{
    serve(&(struct echo_config){.fail_every = 4});
    json_t *json = run_json("--concurrency 4 --requests 200 --warmup 0", 3);
    assert_adds_up(json);
    ck_assert_int_eq(whole(json, "sent"), 200);
    util_assert_close(errors_of(json, "RESOURCE_EXHAUSTED"), 50, 3, 0);
    ck_assert_int_eq(errors_of(json, "RESOURCE_EXHAUSTED"), whole(json, "failed"));
    ck_assert_str_eq(json_string_value(json_object_get(json, "first_error")), "asked to fail");
    json_decref(json);
}
END_TEST

START_TEST(test_deadline_ends_requests_that_are_not_answered)
{
    serve(&(struct echo_config){.silent = true});
    json_t *json = run_json("--rate 100 --duration 0.3 --warmup 0 --deadline-ms 50", 3);
    ck_assert_int_gt(errors_of(json, "DEADLINE_EXCEEDED"), 5);
    ck_assert_int_eq(errors_of(json, "DEADLINE_EXCEEDED"), whole(json, "sent"));
    ck_assert_int_eq(whole(json, "unfinished"), 0);
    json_decref(json);
}
END_TEST

START_TEST(test_deadlines_count_from_the_planned_send)
{
    // Most requests find no room until their deadline is near: they leave with what is left of it.
    serve(&(struct echo_config){.delay_ns = 100 * BASE_NS_PER_MS});
    json_t *json = run_json("--rate 2000 --duration 0.3 --warmup 0 --cooldown 0 --deadline-ms 20 "
                            "--max-in-flight 8",
                            4);
    assert_adds_up(json);
    ck_assert_int_gt(errors_of(json, "DEADLINE_EXCEEDED"), 100);
    ck_assert_int_eq(errors_of(json, "DEADLINE_EXCEEDED"), whole(json, "sent"));
    json_decref(json);
}
END_TEST

START_TEST(test_unanswered_requests_end_with_the_drain)
{
    serve(&(struct echo_config){.silent = true});
    json_t *json = run_json("--concurrency 5 --duration 0.2 --warmup 0 --drain 0.1", 3);
    ck_assert_int_eq(whole(json, "unfinished"), 5);
    json_decref(json);
    json = run_json("--rate 100 --duration 0.2 --warmup 0 --cooldown 0 --drain 0.1", 3);
    ck_assert_int_gt(whole(json, "unfinished"), 0);
    ck_assert_int_eq(whole(json, "unfinished"), whole(json, "sent"));
    assert_adds_up(json);
    json_decref(json);
}
END_TEST

START_TEST(test_cancel_fraction_reaches_the_server)
{
    serve(&(struct echo_config){.delay_ns = 300 * BASE_NS_PER_MS});
    static const char *const loads[] = {
        "--rate 100 --duration 0.3 --warmup 0 --cancel-fraction 1 --cancel-after-ms 20",
        "--concurrency 4 --duration 0.3 --warmup 0.05 --cancel-fraction 1 --cancel-after-ms 20"};
    for (size_t i = 0; i < 2; i++) {
        json_t *json = run_json(loads[i], 0);
        ck_assert_int_gt(whole(json, "cancelled"), 5);
        ck_assert_int_eq(whole(json, "cancelled"), whole(json, "sent"));
        json_decref(json);
    }
    json_t *json = run_json("--rate 200 --duration 0.5 --warmup 0 --cancel-fraction 0.5 "
                            "--cancel-after-ms 20",
                            0);
    util_assert_close((double)whole(json, "cancelled") / (double)whole(json, "sent"), 0.5, 0.25, 0);
    ck_assert_int_gt(whole(json, "ok"), 0);
    json_decref(json);
    stop_server();
    ck_assert_uint_gt(stats.cancelled, 20);
}
END_TEST

START_TEST(test_server_that_dies_ends_the_run_with_errors)
{
    static const char *const loads[] = {
        "--rate 500 --duration 20 --warmup 0 --give-up 0.3",
        "--concurrency 8 --duration 20 --warmup 0 --give-up 0.3",
    };
    for (size_t i = 0; i < 2; i++) {
        serve(&(struct echo_config){.die_at = 100});
        uint64_t start_ns = base_now_ns();
        json_t *json = run_json(loads[i], 3);
        ck_assert_uint_lt(base_now_ns() - start_ns, 10 * BASE_NS_PER_S);
        ck_assert(truth(json, "gave_up"));
        assert_adds_up(json);
        ck_assert_int_gt(whole(json, "ok"), 0);
        ck_assert_int_gt(errors_of(json, "UNAVAILABLE"), 0);
        json_decref(json);
        stop_server();
    }
}
END_TEST

static void *set_stop(void *arg)
{
    (void)arg;
    struct timespec pause = {.tv_nsec = 400 * (long)BASE_NS_PER_MS};
    (void)nanosleep(&pause, NULL);
    stop = true;
    return NULL;
}

START_TEST(test_signal_ends_a_run_with_its_results)
{
    static const char *const loads[] = {"--rates 100,200 --duration 30 --warmup 0.05",
                                        "--concurrency 4 --duration 30 --warmup 0.05"};
    serve(&(struct echo_config){0});
    for (size_t i = 0; i < 2; i++) {
        stop = false;
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, set_stop, NULL), 0);
        uint64_t start_ns = base_now_ns();
        json_t *json = run_json(loads[i], 0);
        ck_assert_uint_lt(base_now_ns() - start_ns, 5 * BASE_NS_PER_S);
        ck_assert(truth(json, "interrupted"));
        ck_assert_int_gt(whole(json, "ok"), 5);
        ck_assert_double_lt(real(json, NULL, "window_s"), 5);
        ck_assert_ptr_eq(strchr(out_text, '\n'), out_text + strlen(out_text) - 1); // one run
        json_decref(json);
        (void)pthread_join(thread, NULL);
    }
}
END_TEST

/* ---- Runs that cannot start ------------------------------------------------------------------ */

START_TEST(test_without_a_server_says_whom_it_asked)
{
    ck_assert_int_eq(run("--target 127.0.0.1:1 --concurrency 1"), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "127.0.0.1:1"));
    ck_assert_ptr_nonnull(strstr(err_text, "UNAVAILABLE"));
    ck_assert_int_eq(run("--target 127.0.0.1:1 --wait-ready 0.2"), 1);
}
END_TEST

START_TEST(test_wait_ready_waits)
{
    serve(&(struct echo_config){.unready_first = 3});
    uint64_t start_ns = base_now_ns();
    ck_assert_int_eq(run("--wait-ready 20"), 0);
    ck_assert_uint_ge(base_now_ns() - start_ns, 100 * BASE_NS_PER_MS);
    stop_server();
    serve(&(struct echo_config){.unready_first = 1000});
    ck_assert_int_eq(run("--wait-ready 0.2"), 1);
    ck_assert_ptr_nonnull(strstr(err_text, "not ready"));
}
END_TEST

START_TEST(test_usage_errors_exit_2)
{
    ck_assert_int_eq(run("--rate"), 2);
    ck_assert_int_eq(run("--help"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "--cancel-fraction"));
    ck_assert_int_eq(run("--version"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "cellbatch-load "));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("load");
    TCase *tcase = tcase_create("end to end");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_closed_loop_counts_every_answer);
    tcase_add_test(tcase, test_open_loop_keeps_its_schedule);
    tcase_add_test(tcase, test_requests_end_a_run_after_exactly_so_many);
    tcase_add_test(tcase, test_open_loop_by_requests_plans_exactly_so_many);
    tcase_add_test(tcase, test_two_inputs_and_a_batch_have_right_sizes);
    tcase_add_test(tcase, test_large_requests_pass_the_servers_windows);
    tcase_add_test(tcase, test_text_and_trace_feed_requests);
    tcase_add_test(tcase, test_connections_are_separate);
    tcase_add_test(tcase, test_sweep_writes_table_and_picture);
    tcase_add_test(tcase, test_ask_prints_labels_by_probability);
    tcase_add_test(tcase, test_stall_of_the_server_shows_in_p99);
    tcase_add_test(tcase, test_late_sends_carry_their_wait_and_make_the_run_invalid);
    tcase_add_test(tcase, test_overload_ends_in_time_and_is_invalid);
    tcase_add_test(tcase, test_failures_are_counted_by_code);
    tcase_add_test(tcase, test_deadline_ends_requests_that_are_not_answered);
    tcase_add_test(tcase, test_deadlines_count_from_the_planned_send);
    tcase_add_test(tcase, test_unanswered_requests_end_with_the_drain);
    tcase_add_test(tcase, test_cancel_fraction_reaches_the_server);
    tcase_add_test(tcase, test_server_that_dies_ends_the_run_with_errors);
    tcase_add_test(tcase, test_signal_ends_a_run_with_its_results);
    tcase_add_test(tcase, test_without_a_server_says_whom_it_asked);
    tcase_add_test(tcase, test_wait_ready_waits);
    tcase_add_test(tcase, test_usage_errors_exit_2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
