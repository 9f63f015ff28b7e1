/* `cellbatch-bench cell`: what it says of a model file, and that both forms compute the same. No
 * speed is asserted. */
#include "base/mem.h"
#include "bench/bench.h"
#include "tests/bench/command.h"
#include "tests/util.h"

#include <stdio.h>

/* What the command writes of a model file with these words; *result is what it returned. */
static char *output_of(const char *model, const char *words, int *result)
{
    char file[UTIL_PATH_BYTES];
    char all[2 * UTIL_PATH_BYTES];
    util_repo_path(file, model);
    snprintf(all, sizeof(all), "cell --model=%s %s", file, words);
    return command_run(bench_own_cell, all, result);
}

START_TEST(test_both_forms_compute_the_same)
{
    static const char *const models[] = {
        "tests/data/models/phased/1/model.onnx", "tests/data/models/normed/1/model.onnx",
        "tests/data/onnx/loop_gru-ts1.13-op17/model.onnx", "models/langid/1/model.onnx"};
    int result = 0;
    char *text = output_of(models[_i], "--rows=1,5 --steps=7 --ms=1 --json --threads=2", &result);
    ck_assert_int_eq(result, 0);
    for (uint32_t line = 1; line <= 2; line++) {
        json_t *object = command_json(text, line); // line 0 is the host
        ck_assert_double_eq(command_number(object, "rows"), line == 1 ? 1.0 : 5.0);
        ck_assert_double_le(command_number(object, "difference"), 1e-5);
        ck_assert_double_gt(command_number(object, "us_per_step"), 0.0);
        ck_assert_double_ge(command_number(object, "ops_as_written"),
                            command_number(object, "ops"));
        json_decref(object);
    }
    base_free(text);
}
END_TEST

START_TEST(test_what_cannot_be_measured_is_said)
{
    static const char *const wrong[][2] = {{"tests/data/models/phased/1/model.onnx", "--rows=0"},
                                           {"tests/data/models/phased/1/model.onnx", "--steps=0"},
                                           {"README.md", ""}};
    int result = 0;
    base_free(output_of(wrong[_i][0], wrong[_i][1], &result));
    ck_assert_int_eq(result, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_own_cell");
    TCase *tcase = tcase_create("bench_own_cell");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_both_forms_compute_the_same, 0, 4);
    tcase_add_loop_test(tcase, test_what_cannot_be_measured_is_said, 0, 3);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
