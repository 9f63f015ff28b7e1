/* Requests in virtual time: the same numbers again, what follows from the times that were stated,
 * and what the command refuses. */
#include "base/mem.h"
#include "bench/bench.h"
#include "tests/bench/command.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static char *run(const char *words)
{
    int result = -1;
    char *text = command_run(bench_simulate, words, &result);
    ck_assert_msg(result == 0, "%s: %d", words, result);
    return text;
}

static json_t *run_json(const char *words)
{
    char *text = run(words);
    json_t *object = command_json(text, 0);
    base_free(text);
    return object;
}

static const struct {
    const char *what, *lengths;
    bool is_of_trees;
} kinds[] = {
    {"--lstm 16x16 --json", "uniform:1:20", false},
    {"--lstm 16x16 --rate 5000 --json", "uniform:1:20", false},
    {"--tree 16x16 --json", "trees:", true},
    {"--seq2seq 20x16 --answers uniform:1:20 --json", "uniform:1:20", false},
    {"--lstm 16x16", "uniform:1:20", false},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

START_TEST(test_the_same_numbers_again)
{
    char folder[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    char words[4 * UTIL_PATH_BYTES];
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/trees", folder);
    util_write_file(path, "SSR\nS\nSSRSSRR\n");
    snprintf(words, sizeof(words), "simulate %s --lengths %s%s --seconds 0.05", kinds[_i].what,
             kinds[_i].lengths, kinds[_i].is_of_trees ? path : "");
    char *first = run(words);
    char *second = run(words);
    util_remove_tree(folder);
    ck_assert_str_eq(first, second);
    ck_assert_uint_gt(strlen(first), 0);
    base_free(first);
    base_free(second);
}
END_TEST

/* Little's law: as many are inside as come a second, times how long each stays. */
START_TEST(test_as_many_are_inside_as_was_said)
{
    static const struct {
        const char *words;
        double present;
    } loads[] = {
        {"simulate --lstm 64x64 --lengths uniform:5:50 --seconds 1 --requests-present 24 --json",
         24},
        {"simulate --seq2seq 50x32 --lengths uniform:5:9 --answers uniform:5:30 --seconds 1 "
         "--requests-present 12 --json",
         12},
    };
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        json_t *object = run_json(loads[i].words);
        const double inside =
            command_number(object, "requests_per_s") * command_number(object, "mean_ms") * 1e-3;
        ck_assert_double_le(fabs(inside - loads[i].present), loads[i].present * 0.02);
        json_decref(object);
    }
}
END_TEST

/* One alone, whose steps last as long as their operations: 10 of 2 * 4 * 32 * 64 multiply-adds and
 * some activations. */
START_TEST(test_times_are_those_that_were_stated)
{
    const char words[] = "simulate --lstm 32x32 --lengths fixed:10 --requests-present 1 --gflops 1 "
                         "--near-gbytes 1e8 --batch-us 5 --row-us 2 --seconds 0.1 --json";
    json_t *object = run_json(words);
    const double least_ms = (10 * 2 * 4 * 32 * 64 + 7000) * 1e-6;
    ck_assert_double_ge(command_number(object, "mean_ms"), least_ms);
    ck_assert_double_le(command_number(object, "mean_ms"), least_ms * 1.2);
    ck_assert_double_le(
        fabs(command_number(object, "requests_per_s") * command_number(object, "mean_ms") - 1e3),
        10);
    json_decref(object);
}
END_TEST

START_TEST(test_an_open_loop_answers_all_or_says_so)
{
    json_t *object = run_json("simulate --lstm 64x64 --rate 2000 --seconds 2 --json");
    ck_assert_double_le(fabs(command_number(object, "requests_per_s") - 2000), 100);
    ck_assert(json_is_false(json_object_get(object, "full")));
    json_decref(object);
    object = run_json("simulate --lstm 64x64 --rate 1000000 --seconds 0.2 --json");
    ck_assert_double_le(command_number(object, "requests_per_s"), 500000);
    ck_assert(json_is_true(json_object_get(object, "full")));
    json_decref(object);
    char *text = run("simulate --lstm 64x64 --rate 1000000 --seconds 0.2");
    ck_assert_ptr_nonnull(strstr(text, "more than can be answered"));
    base_free(text);
}
END_TEST

/* Whatever its length, a request's graph fits its memory, outputs and all. */
START_TEST(test_convolutions_of_any_length)
{
    for (uint32_t steps = 100; steps <= 400; steps += 50) {
        char words[UTIL_PATH_BYTES];
        snprintf(words, sizeof(words),
                 "simulate --model tests/data/onnx/conv_deep-ts1.13-op17/model.onnx --lengths "
                 "fixed:%u --seconds 0.001 --requests-present 1 --json",
                 steps);
        json_decref(run_json(words));
    }
}
END_TEST

START_TEST(test_bad_options)
{
    static const struct {
        const char *words;
        int result;
    } bad[] = {
        {"simulate --gflops 0", 2},
        {"simulate --gflops x", 2},
        {"simulate --rate 0", 2},
        {"simulate --rate 1e9", 2},
        {"simulate --near-kib -1", 2},
        {"simulate --batch-us 1us", 2},
        {"simulate --row-us nan", 2},
        {"simulate --seconds 0", 2},
        {"simulate --requests-present 0", 2},
        {"simulate --nothing", 2},
        {"simulate --model /nowhere/model.onnx", 2},
        {"simulate --lstm 0x5", 2},
        {"simulate --lengths trees:/nowhere/trees --tree 4x4", 2},
        {"simulate --help", 0},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int result = -1;
        base_free(command_run(bench_simulate, bad[i].words, &result));
        ck_assert_msg(result == bad[i].result, "%s: %d", bad[i].words, result);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench simulate");
    TCase *tcase = tcase_create("bench simulate");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_the_same_numbers_again, 0, KINDS);
    tcase_add_test(tcase, test_as_many_are_inside_as_was_said);
    tcase_add_test(tcase, test_times_are_those_that_were_stated);
    tcase_add_test(tcase, test_an_open_loop_answers_all_or_says_so);
    tcase_add_test(tcase, test_convolutions_of_any_length);
    tcase_add_test(tcase, test_bad_options);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
