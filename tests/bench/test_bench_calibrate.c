/* `cellbatch-bench calibrate`: what it says of given cells and of a model file. No speed is
 * asserted. */
#include "base/mem.h"
#include "bench/bench.h"
#include "cells/calibration.h"
#include "tests/bench/command.h"
#include "tests/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the command writes with these words. */
static char *output_of(const char *words)
{
    char all[4 * UTIL_PATH_BYTES];
    int result = 0;
    snprintf(all, sizeof(all), "calibrate %s", words);
    char *text = command_run(bench_calibrate, all, &result);
    ck_assert_int_eq(result, 0);
    return text;
}

START_TEST(test_json_has_every_point)
{
    char *text = output_of("--lstm=3x4 --gru=5x6 --threads=2 --rows=10 --ms=20000 --json");
    static const char *const names[] = {"lstm 3x4", "gru 5x6"};
    for (uint32_t i = 0; i < 2; i++) {
        json_t *object = command_json(text, i + 1); // the first line is the host
        ck_assert_str_eq(json_string_value(json_object_get(object, "cell")), names[i]);
        ck_assert(json_is_true(json_object_get(object, "has_windows")));
        const json_t *points = json_object_get(object, "points");
        ck_assert_uint_eq(json_array_size(points), 6); // 1, 2, 4, 6, 8, 10
        for (size_t p = 0; p < 6; p++) {
            const json_t *point = json_array_get(points, p);
            ck_assert_double_eq(command_number(point, "rows"), cell_calibration_rows[p]);
            ck_assert_double_gt(command_number(point, "plain_us"), 0.0);
            ck_assert_double_gt(command_number(point, "ahead_us"), 0.0);
            ck_assert_double_gt(command_number(point, "solo_us"), 0.0);
        }
        json_decref(object);
    }
    base_free(text);
}
END_TEST

START_TEST(test_table_tells_of_a_model_and_what_is_chosen)
{
    char words[2 * UTIL_PATH_BYTES];
    char file[UTIL_PATH_BYTES];
    util_repo_path(file, "models/langid/1/model.onnx");
    snprintf(words, sizeof(words), "--model=%s --precision=int8 --rows=4 --ms=200", file);
    char *text = output_of(words);
    ck_assert_ptr_nonnull(strstr(text, "model/lstm, us a step of all rows"));
    ck_assert_ptr_nonnull(strstr(text, "no windows to choose")); // it looks its sums up
    ck_assert_ptr_nonnull(strstr(text, "b_max: none (own rule: "));
    ck_assert_ptr_null(strstr(text, "\n     6 ")); // no more rows than asked for
    base_free(text);
}
END_TEST

START_TEST(test_picture_is_drawn)
{
    static const char *const starts[] = {"\x89PNG", "<?xml"};
    char words[2 * UTIL_PATH_BYTES];
    char folder[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES + 16];
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/a.%s", folder, _i == 0 ? "png" : "svg");
    snprintf(words, sizeof(words), "--lstm=3x4,4x3 --ms=20000 --plot=%s", path);
    if (system("command -v gnuplot >/dev/null") != 0) { // NOLINT(cert-env33-c): a constant
        util_remove_tree(folder);
        util_skip("gnuplot is not installed");
        return;
    }
    base_free(output_of(words));
    char *picture = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(picture);
    ck_assert_int_eq(strncmp(picture, starts[_i], strlen(starts[_i])), 0);
    base_free(picture);
    util_remove_tree(folder);
}
END_TEST

START_TEST(test_what_cannot_be_measured_is_said)
{
    static const char *const words[] = {"--lstm=3",      "--lstm=3x4x5x6x7", "--rows=65 --lstm=3x4",
                                        "--rows=0",      "--model=/no/such", "--precision=fp4",
                                        "--backend=gpu", "--threads=0",      "more",
                                        "--isa=mmx"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char all[64];
        int result = 0;
        snprintf(all, sizeof(all), "calibrate %s", words[i]);
        base_free(command_run(bench_calibrate, all, &result));
        ck_assert_msg(result == 2, "%s", words[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_calibrate");
    TCase *tcase = tcase_create("bench_calibrate");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_json_has_every_point);
    tcase_add_test(tcase, test_table_tells_of_a_model_and_what_is_chosen);
    tcase_add_loop_test(tcase, test_picture_is_drawn, 0, 2);
    tcase_add_test(tcase, test_what_cannot_be_measured_is_said);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
