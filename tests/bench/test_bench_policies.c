/* Ways of batching beside each other: who goes in when, that everybody is answered under each, and
 * what the command prints. No speed is asserted. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/lstm_model.h"
#include "bench/open_loop.h"
#include "bench/seq2seq_model.h"
#include "bench/tree_model.h"
#include "tests/bench/command.h"
#include "tests/cuda/driver_host.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

#define NOBODY UINT32_MAX

static struct base_error error;

/* ---- Who goes in ---- */

static struct bench_batching *batching;

static void begin(const char *policy, uint32_t most)
{
    struct bench_batching_policy parsed = {.most = most};
    ck_assert_msg(bench_batching_parse(policy, &parsed, &error) == BASE_OK, "%s", error.message);
    ck_assert_int_eq(bench_batching_create(&parsed, 16, 30, &batching, &error), BASE_OK);
}

/* Requests 0, 1, .. of these lengths come. */
static void add_all(uint32_t n, const uint32_t *lengths)
{
    for (uint32_t i = 0; i < n; i++) {
        bench_batching_add(batching, i, (struct bench_extent){.steps = lengths[i]});
    }
}

/* The next to go in, and what it is padded to. */
static void check_next(uint32_t id, uint32_t steps)
{
    struct bench_extent got = {0};
    ck_assert_uint_eq(bench_batching_next(batching, &got), id);
    if (id != NOBODY) {
        ck_assert_uint_eq(got.steps, steps);
    }
}

static void leave(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bench_batching_leave(batching);
    }
}

START_TEST(test_cellular_lets_in_whoever_comes_while_there_is_room)
{
    begin("cellular", 3);
    add_all(4, (const uint32_t[]){5, 1, 9, 2});
    check_next(0, 0);
    check_next(1, 0);
    check_next(2, 0);
    check_next(NOBODY, 0);
    ck_assert_uint_eq(bench_batching_waiting(batching), 1);
    leave(1);
    check_next(3, 0);
    check_next(NOBODY, 0);
    ck_assert_uint_eq(bench_batching_inside(batching), 3);
    ck_assert(!bench_batching_is_grouped(batching));
    bench_batching_free(batching);
}
END_TEST

START_TEST(test_merge_waits_until_all_are_out)
{
    begin("merge", 2);
    add_all(4, (const uint32_t[]){5, 1, 9, 2});
    check_next(0, 0);
    check_next(1, 0);
    check_next(NOBODY, 0);
    leave(1);
    check_next(NOBODY, 0);
    leave(1);
    check_next(2, 0);
    check_next(3, 0);
    check_next(NOBODY, 0);
    ck_assert(bench_batching_is_grouped(batching));
    bench_batching_free(batching);
}
END_TEST

/* Buckets 1..10, 11..20, 21..30: one after the other where somebody waits. */
START_TEST(test_graph_takes_a_bucket_at_a_time_padded_to_its_longest)
{
    begin("graph:10", 2);
    add_all(7, (const uint32_t[]){21, 10, 1, 25, 11, 7, 8});
    check_next(1, 10);
    check_next(2, 10);
    check_next(NOBODY, 0);
    leave(2);
    check_next(4, 11);
    check_next(NOBODY, 0);
    leave(1);
    check_next(0, 25);
    check_next(3, 25);
    check_next(NOBODY, 0);
    bench_batching_add(batching, 8, (struct bench_extent){.steps = 12});
    leave(2);
    check_next(5, 8); // those behind its group's end come with the bucket's next turn
    check_next(6, 8);
    check_next(NOBODY, 0);
    leave(2);
    check_next(8, 12);
    check_next(NOBODY, 0);
    bench_batching_free(batching);
}
END_TEST

/* By steps they are put together, so answers that are far from each other meet. */
START_TEST(test_graph_pads_answers_to_the_longest_of_the_group)
{
    static const struct bench_extent extents[] = {{8, 3}, {1, 12}, {15, 50}, {9, 5}};
    begin("graph:10", 3);
    for (uint32_t i = 0; i < 4; i++) {
        bench_batching_add(batching, i, extents[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct bench_extent got = {0};
        ck_assert_uint_eq(bench_batching_next(batching, &got), i == 2 ? 3 : i);
        ck_assert_uint_eq(got.steps, 9);
        ck_assert_uint_eq(got.answer, 12);
    }
    check_next(NOBODY, 0);
    bench_batching_free(batching);
}
END_TEST

START_TEST(test_single_lets_in_one_at_a_time)
{
    begin("single", 64);
    add_all(2, (const uint32_t[]){5, 1});
    check_next(0, 0);
    check_next(NOBODY, 0);
    leave(1);
    check_next(1, 0);
    check_next(NOBODY, 0);
    leave(1);
    check_next(NOBODY, 0);
    bench_batching_free(batching);
}
END_TEST

START_TEST(test_policies_that_are_none_are_refused)
{
    static const char *const texts[] = {"",         "graph",    "graph:0",        "graph:x",
                                        "graph:1x", "graph:-1", "graph:99999999", "cellularly",
                                        "padding"};
    struct bench_batching_policy policy = {.most = 1};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_int_eq(bench_batching_parse(texts[i], &policy, &error), BASE_INVALID_ARGUMENT);
    }
}
END_TEST

/* ---- Loops ---- */

enum { INSIDE = 16 };

static struct srv_engine_options options;
static struct srv_engine *engine;
static struct cell_model *cells;
static struct lg_lengths lengths, answers;
static struct bench_shapes shapes;
static struct bench_open_loop *loop;
static struct bench_open_result result;

static void setup(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    srv_engine_options_init(&options);
    options.rows = 2 * INSIDE;
    ck_assert_int_eq(lg_lengths_create("uniform:1:20", 1, &lengths, &error), BASE_OK);
    ck_assert_int_eq(lg_lengths_create("uniform:1:9", 2, &answers, &error), BASE_OK);
}

static void open_engine(void)
{
    ck_assert_int_eq(srv_engine_create(&options, &engine, &error), BASE_OK);
}

static void open_loop(void)
{
    ck_assert_int_eq(srv_engine_add_model(engine, cells, &error), BASE_OK);
    const struct bench_load load = {
        .lengths = &lengths, .answers = &answers, .shapes = &shapes, .present = INSIDE};
    ck_assert_int_eq(bench_open_loop_create(engine, cells, &load, &loop, &error), BASE_OK);
    ck_assert_int_eq(srv_engine_start(engine, &error), BASE_OK);
}

static void open_lstm(void)
{
    open_engine();
    ck_assert_int_eq(bench_lstm_model(srv_engine_registry(engine), 8, 8, &cells, &error), BASE_OK);
    open_loop();
}

static void open_seq2seq(void)
{
    open_engine();
    ck_assert_int_eq(
        bench_seq2seq_model(srv_engine_registry(engine), 30, 8, answers.max, &cells, &error),
        BASE_OK);
    open_loop();
}

static void release(void)
{
    bench_open_loop_free(loop);
    cell_model_free(srv_engine_registry(engine), cells);
    srv_engine_free(engine);
    lg_lengths_release(&lengths);
    lg_lengths_release(&answers);
}

static void teardown(void)
{
    srv_engine_stop(engine);
    release();
}

static struct bench_open_run run_of(const char *policy, uint32_t most, double rate)
{
    struct bench_open_run run = {
        .policy = {.most = most}, .rate = rate, .clients = 24, .seconds = 0.05, .seed = 1};
    ck_assert_int_eq(bench_batching_parse(policy, &run.policy, &error), BASE_OK);
    return run;
}

static void run_loop(const struct bench_open_run *run)
{
    ck_assert_msg(bench_open_loop_run(loop, run, &result, &error) == BASE_OK, "%s", error.message);
}

/* Again where the machine was elsewhere for the whole of the time that counts. */
static void run_until_counted(const struct bench_open_run *run)
{
    result.latency_ns.count = 0;
    for (int i = 0; i < 50 && result.latency_ns.count == 0; i++) {
        run_loop(run);
    }
    ck_assert_uint_gt(result.latency_ns.count, 0);
}

/* Steps of the first n requests. */
static uint64_t steps_of(uint32_t n)
{
    uint64_t steps = 0;
    for (uint32_t i = 0; i < n; i++) {
        steps += lengths.values[i % lengths.count];
    }
    return steps;
}

static const char *const policies[] = {"cellular", "graph:10", "merge", "single"};

/* Every arrival is answered once, and computed as far as it goes: no cell more but padding. */
START_TEST(test_all_that_come_are_answered)
{
    const struct bench_open_run run = run_of(policies[_i], 4, 10000);
    open_lstm();
    for (int again = 0; again < 2; again++) {
        run_until_counted(&run);
        const struct bench_type_tally *lstm = bench_tally_most(cells, result.types);
        ck_assert_uint_eq(result.requests, 500);
        ck_assert_uint_eq(result.steps, steps_of(500));
        ck_assert_uint_eq(lstm->cells, result.steps + result.padding);
        ck_assert_uint_le(lstm->cells, 4 * lstm->steps);
        ck_assert_uint_lt(result.latency_ns.count, 500);
        ck_assert_double_gt(result.requests_per_s, 0);
        ck_assert(run.policy.kind == BENCH_GRAPH || result.padding == 0);
        ck_assert(run.policy.kind != BENCH_SINGLE || lstm->cells == lstm->steps);
    }
    teardown();
}
END_TEST

/* Buckets of one length need no padding; a bucket of all lengths does, with two in a group. */
START_TEST(test_padding_is_computed_and_counted)
{
    const struct bench_open_run narrow = run_of("graph:1", INSIDE, 0);
    const struct bench_open_run wide = run_of("graph:20", INSIDE, 0);
    open_lstm();
    run_loop(&narrow);
    ck_assert_uint_gt(result.requests, 0);
    ck_assert_uint_eq(result.padding, 0);
    run_loop(&wide);
    ck_assert_uint_gt(result.padding, 0);
    ck_assert_uint_eq(bench_tally_most(cells, result.types)->cells, result.steps + result.padding);
    teardown();
}
END_TEST

START_TEST(test_clients_ask_again_until_the_time_is_over)
{
    struct bench_open_run run = run_of(policies[_i], INSIDE, 0);
    open_lstm();
    run_until_counted(&run);
    ck_assert_uint_ge(result.requests, run.clients);
    ck_assert_double_gt(result.requests_per_s, 0);
    ck_assert_uint_eq(bench_tally_most(cells, result.types)->cells, result.steps + result.padding);
    teardown();
}
END_TEST

/* The device ends each at its own step, or where its group is padded to; the scheduler does not
 * know before. */
START_TEST(test_answers_end_where_they_should)
{
    const struct bench_open_run run = run_of(policies[_i], 4, 10000);
    uint64_t words[2] = {0};
    struct bench_type_tally types[CELL_TYPES_MAX];
    open_seq2seq();
    run_loop(&run);
    srv_engine_stop(engine); // a batch that rows have left early counts when it is done itself
    bench_tally_read(engine, cells, types);
    ck_assert_uint_eq(result.requests, 500);
    for (uint32_t i = 0; i < 500; i++) {
        words[0] += lengths.values[i];
        words[1] += answers.values[i];
    }
    ck_assert_uint_eq(result.steps, words[0] + words[1]);
    uint64_t done = 0;
    for (uint32_t s = 0; s < 2; s++) {
        const uint64_t own = types[cells->stages[s].type->id].cells;
        done += own;
        if (run.policy.kind != BENCH_GRAPH) {
            ck_assert_uint_eq(own, words[s]);
        }
    }
    ck_assert_uint_eq(done, result.steps + result.padding);
    ck_assert((result.padding > 0) == (run.policy.kind == BENCH_GRAPH));
    release();
}
END_TEST

START_TEST(test_decoders_of_others_are_refused)
{
    open_engine();
    ck_assert_int_eq(
        bench_seq2seq_model(srv_engine_registry(engine), 30, 8, answers.max, &cells, &error),
        BASE_OK);
    const struct bench_load load = {.lengths = &lengths, .answers = &lengths, .present = INSIDE};
    ck_assert_int_eq(bench_open_loop_create(engine, cells, &load, &loop, &error),
                     BASE_INVALID_ARGUMENT); // of up to 20 steps
    ck_assert_ptr_nonnull(strstr(error.message, "20 steps"));
    cells->inputs[BENCH_SEQ2SEQ_ANSWER].name[0] = 'A';
    const struct bench_load right = {.lengths = &lengths, .answers = &answers, .present = INSIDE};
    ck_assert_int_eq(bench_open_loop_create(engine, cells, &right, &loop, &error),
                     BASE_INVALID_ARGUMENT);
    cell_model_free(srv_engine_registry(engine), cells);
    srv_engine_free(engine);
    lg_lengths_release(&lengths);
    lg_lengths_release(&answers);
}
END_TEST

START_TEST(test_trees_are_merged_and_not_padded)
{
    char folder[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/shapes", folder);
    util_write_file(path, "SSSRR\nS\nSSRSSRR\nSSRSRSRSR\n");
    ck_assert_int_eq(bench_shapes_read(path, &shapes, &error), BASE_OK);
    util_remove_tree(folder);
    options.calibrate = true; // inner nodes too, which have no state
    open_engine();
    ck_assert_int_eq(bench_tree_model(srv_engine_registry(engine), 8, 8, &cells, &error), BASE_OK);
    ck_assert(cell_model_recurs(cells, CELL_TREE_NODE));
    ck_assert(!cell_model_recurs(cells, CELL_TREE_LEAF));
    open_loop();
    const struct bench_open_run merge = run_of("merge", INSIDE, 10000);
    const struct bench_open_run graph = run_of("graph:10", INSIDE, 10000);
    run_loop(&merge);
    ck_assert_uint_eq(result.requests, 500);
    ck_assert_uint_eq(result.steps, 125 * (5 + 1 + 7 + 9));
    ck_assert_int_eq(bench_open_loop_run(loop, &graph, &result, &error), BASE_INVALID_ARGUMENT);
    run_loop(&merge);
    teardown();
    bench_shapes_release(&shapes);
}
END_TEST

START_TEST(test_too_many_arrivals_are_refused)
{
    const struct bench_open_run run = run_of("cellular", INSIDE, 1e12);
    open_lstm();
    ck_assert_int_eq(bench_open_loop_run(loop, &run, &result, &error), BASE_INVALID_ARGUMENT);
    teardown();
}
END_TEST

/* Nobody waits for answers that never come. */
START_TEST(test_a_card_that_is_lost_is_told)
{
    struct bench_open_run run = run_of(policies[_i], INSIDE, 0);
    run.seconds = 60;
    options.backend = cuda_host_backend();
    open_lstm();
    cuda_host_fail_at(500);
    ck_assert_int_eq(bench_open_loop_run(loop, &run, &result, &error), BASE_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.message, "the device failed"));
    cuda_host_fail_at(0);
    teardown();
}
END_TEST

/* ---- The command ---- */

#define SHORT " --lstm 8x8 --lengths uniform:1:20 --seconds 0.02 --rounds 1 --clients 8"

START_TEST(test_command_prints_every_policy_at_every_load)
{
    int status = 1;
    char *text = command_run(bench_policies, "policies" SHORT " --rates 0.1,200 --json", &status);
    ck_assert_int_eq(status, 0);
    for (uint32_t line = 0; line < 12; line++) {
        json_t *object = command_json(text, line);
        ck_assert_str_eq(json_string_value(json_object_get(object, "policy")), policies[line % 4]);
        ck_assert_double_gt(command_number(object, "answered_per_s"), 0);
        ck_assert_double_ge(command_number(object, "p99_ms"), command_number(object, "p50_ms"));
        ck_assert(json_object_get(object, line < 4 ? "clients" : "offered_per_s") != NULL);
        ck_assert(json_is_boolean(json_object_get(object, "overloaded")));
        json_decref(object);
    }
    base_free(text);
}
END_TEST

START_TEST(test_command_prints_a_table)
{
    int status = 1;
    char *text = command_run(bench_policies,
                             "policies" SHORT " --rates 0.1 --policies single,graph:3", &status);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(strstr(text, "8 clients"));
    ck_assert_ptr_nonnull(strstr(text, "0.10 of what single can"));
    ck_assert_ptr_nonnull(strstr(text, "\ngraph:3 "));
    ck_assert_ptr_null(strstr(text, "cellular"));
    base_free(text);
}
END_TEST

START_TEST(test_command_measures_decoders)
{
    int status = 1;
    char *text = command_run(bench_policies,
                             "policies --seq2seq 30x8 --lengths uniform:1:9 --answers uniform:2:8"
                             " --seconds 0.02 --rounds 1 --clients 8 --rates 0.1",
                             &status);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(strstr(text, "30x8"));
    ck_assert_ptr_nonnull(strstr(text, "\ngraph:10 "));
    base_free(text);
}
END_TEST

START_TEST(test_command_says_what_is_wrong)
{
    static const char *const refused[] = {
        "policies --policies nothing", "policies --policies ,",
        "policies --rates 0",          "policies --rates x",
        "policies --rates -1",         "policies --clients 0",
        "policies --group 0",          "policies --seconds 0",
        "policies --device nobody",    "policies --lengths trees:none",
        "policies --tree 8x8",         "policies --answers fixed:0",
        "policies --seq2seq 8",        "policies --seq2seq 0x8",
        "policies --unknown"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        int status = 0;
        base_free(command_run(bench_policies, refused[i], &status));
        ck_assert_msg(status != 0, "%s", refused[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_policies");
    TCase *queue = tcase_create("batching");
    tcase_add_test(queue, test_cellular_lets_in_whoever_comes_while_there_is_room);
    tcase_add_test(queue, test_merge_waits_until_all_are_out);
    tcase_add_test(queue, test_graph_takes_a_bucket_at_a_time_padded_to_its_longest);
    tcase_add_test(queue, test_graph_pads_answers_to_the_longest_of_the_group);
    tcase_add_test(queue, test_single_lets_in_one_at_a_time);
    tcase_add_test(queue, test_policies_that_are_none_are_refused);
    suite_add_tcase(suite, queue);
    TCase *loops = tcase_create("loops");
    tcase_add_checked_fixture(loops, setup, NULL);
    tcase_add_loop_test(loops, test_all_that_come_are_answered, 0, 4);
    tcase_add_test(loops, test_padding_is_computed_and_counted);
    tcase_add_loop_test(loops, test_clients_ask_again_until_the_time_is_over, 0, 4);
    tcase_add_loop_test(loops, test_answers_end_where_they_should, 0, 4);
    tcase_add_test(loops, test_decoders_of_others_are_refused);
    tcase_add_test(loops, test_trees_are_merged_and_not_padded);
    tcase_add_test(loops, test_too_many_arrivals_are_refused);
    tcase_add_loop_test(loops, test_a_card_that_is_lost_is_told, 0, 4);
    suite_add_tcase(suite, loops);
    TCase *command = tcase_create("command");
    tcase_add_test(command, test_command_prints_every_policy_at_every_load);
    tcase_add_test(command, test_command_prints_a_table);
    tcase_add_test(command, test_command_measures_decoders);
    tcase_add_test(command, test_command_says_what_is_wrong);
    suite_add_tcase(suite, command);
    return util_run(suite);
}
