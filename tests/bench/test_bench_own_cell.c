/* `cellbatch-bench cell`: what it says of a model file, and that both forms compute the same. No
 * speed is asserted. */
#include "base/mem.h"
#include "bench/bench.h"
#include "tests/util.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 16 };

/* Runs the command with `--model FILE` and these, its standard output going to path. */
static int run_into(const char *path, const char *model, int n, char *const *more)
{
    char file[UTIL_PATH_BYTES];
    char name[] = "cell";
    char flag[] = "--model";
    char *arguments[ARGUMENTS_MAX] = {name, flag, file};
    util_repo_path(file, model);
    for (int i = 0; i < n; i++) {
        arguments[3 + i] = more[i];
    }
    (void)fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    FILE *to = fopen(path, "we");
    ck_assert(kept >= 0 && to != NULL && dup2(fileno(to), STDOUT_FILENO) >= 0);
    optind = 1;
    int result = bench_own_cell(3 + n, arguments);
    (void)fflush(stdout);
    ck_assert_int_ge(dup2(kept, STDOUT_FILENO), 0);
    (void)close(kept);
    (void)fclose(to);
    return result;
}

/* Lines 1.. of what was written, one object each; line 0 is the host. */
static json_t *result_at(const char *path, uint32_t line)
{
    size_t length = 0;
    char *text = util_read_file(path, &length);
    ck_assert_ptr_nonnull(text);
    char *at = text;
    for (uint32_t l = 0; l < line; l++) {
        at = strchr(at, '\n');
        ck_assert_ptr_nonnull(at);
        at++;
    }
    *strchr(at, '\n') = '\0';
    json_t *object = json_loads(at, 0, NULL);
    ck_assert_ptr_nonnull(object);
    base_free(text);
    return object;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert(json_is_number(value));
    return json_number_value(value);
}

START_TEST(test_both_forms_compute_the_same)
{
    static const char *const models[] = {
        "tests/data/models/phased/1/model.onnx", "tests/data/models/normed/1/model.onnx",
        "tests/data/onnx/loop_gru-ts1.13-op17/model.onnx", "models/langid/1/model.onnx"};
    char rows[] = "--rows=1,5";
    char steps[] = "--steps=7";
    char ms[] = "--ms=1";
    char json[] = "--json";
    char threads[] = "--threads=2";
    char folder[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES + 16];
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/out", folder);
    ck_assert_int_eq(run_into(path, models[_i], 5, (char *const[]){rows, steps, ms, json, threads}),
                     0);
    for (uint32_t line = 1; line <= 2; line++) {
        json_t *result = result_at(path, line);
        ck_assert_double_eq(number(result, "rows"), line == 1 ? 1.0 : 5.0);
        ck_assert_double_le(number(result, "difference"), 1e-5);
        ck_assert_double_gt(number(result, "us_per_step"), 0.0);
        ck_assert_double_ge(number(result, "ops_as_written"), number(result, "ops"));
        json_decref(result);
    }
    util_remove_tree(folder);
}
END_TEST

START_TEST(test_what_cannot_be_measured_is_said)
{
    char rows[] = "--rows=0";
    char steps[] = "--steps=0";
    char folder[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES + 16];
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/out", folder);
    const char *model = "tests/data/models/phased/1/model.onnx";
    ck_assert_int_eq(run_into(path, model, 1, (char *const[]){rows}), 2);
    ck_assert_int_eq(run_into(path, model, 1, (char *const[]){steps}), 2);
    ck_assert_int_eq(run_into(path, "README.md", 0, NULL), 2);
    util_remove_tree(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_own_cell");
    TCase *tcase = tcase_create("bench_own_cell");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_both_forms_compute_the_same, 0, 4);
    tcase_add_test(tcase, test_what_cannot_be_measured_is_said);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
