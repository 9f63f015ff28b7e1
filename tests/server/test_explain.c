/* --explain-model: what it says of real models, and what it refuses. */
#include "server/explain.h"

#include "base/mem.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct base_buf text;
static struct base_error error;

static void setup(void)
{
    base_buf_init(&text, 1 << 20);
}

static void teardown(void)
{
    base_buf_release(&text);
}

/* --explain-model path, and another flag. */
static enum base_status explain(const char *path, const char *flag)
{
    char model[UTIL_PATH_BYTES + 32];
    struct cfg_config *config = NULL;
    snprintf(model, sizeof(model), "--explain-model=%s", path);
    const char *const flags[] = {"cellbatchd", model, flag};
    const struct cfg_input input = {.argc = 3, .argv = flags};
    ck_assert_msg(cfg_load(&input, &config, &error) == BASE_OK, "%s", error.message);
    base_buf_clear(&text);
    enum base_status status = srv_explain_model(config, &text, &error);
    cfg_free(config);
    return status;
}

static enum base_status explain_ours(const char *path, const char *flag)
{
    char full[UTIL_PATH_BYTES];
    util_repo_path(full, path);
    return explain(full, flag);
}

static void expect(const char *what)
{
    ck_assert_msg(strstr(text.data, what) != NULL, "no '%s' in:\n%s", what, text.data);
}

START_TEST(test_phases_weights_and_times_are_told)
{
    ck_assert_msg(explain_ours("models/langid/1/model.onnx", "--threads=1") == BASE_OK, "%s",
                  error.message);
    expect("2 stages on cpu ");
    expect("stage 0 model/lstm (chain), 462848 weight bytes");
    expect("256 ids -> 512     fp32, 524288 bytes     at each step");
    expect("64 + 128 -> 128    fp32, 262144 bytes     at each step; its sums over x are looked up");
    expect("stage 1 model/once (once)");
    expect("a step takes ");
    expect(" us with 1 row");
    expect(" (measured now"); // perhaps disturbed
    expect("    batches of up to ");
}
END_TEST

START_TEST(test_what_was_chosen_is_told_beside_the_rule)
{
    ck_assert_msg(explain_ours("tests/data/models/phased/1/model.onnx", "--threads=1") == BASE_OK,
                  "%s", error.message);
    expect("the device's own rule: ");
}
END_TEST

START_TEST(test_without_calibration_nothing_is_measured)
{
    ck_assert_int_eq(explain_ours("tests/data/models/phased/1/model.onnx", "--calibrate=off"),
                     BASE_OK);
    expect("18 joined  8 ");
    expect("SUB DIV FLOOR");
    expect("at each step; its sums over x ahead of the steps, where windows are used");
    ck_assert_ptr_null(strstr(text.data, "a step takes"));
    ck_assert_ptr_null(strstr(text.data, "batches of up to"));
}
END_TEST

/* The settings beside the version folders count. */
START_TEST(test_config_of_the_model_is_read)
{
    char folder[UTIL_PATH_BYTES];
    char file[UTIL_PATH_BYTES + 64];
    char model[UTIL_PATH_BYTES];
    util_temp_dir(folder);
    util_repo_path(model, "models/langid/1/model.onnx");
    snprintf(file, sizeof(file), "%s/m/config.yaml", folder);
    util_write_file(file, "weights: int8\n");
    snprintf(file, sizeof(file), "%s/m/1", folder);
    ck_assert_int_eq(mkdir(file, 0700), 0);
    snprintf(file, sizeof(file), "%s/m/1/model.onnx", folder);
    ck_assert_int_eq(symlink(model, file), 0);
    ck_assert_msg(explain(file, "--calibrate=off") == BASE_OK, "%s", error.message);
    expect("int8, 65536 bytes");
    ck_assert_int_eq(explain(file, "--backend=blas"), BASE_UNIMPLEMENTED); // and says so
    snprintf(file, sizeof(file), "%s/m/config.yaml", folder);
    util_write_file(file, "weights: fp4\n");
    snprintf(file, sizeof(file), "%s/m/1/model.onnx", folder);
    ck_assert_int_eq(explain(file, "--calibrate=off"), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "config.yaml:1:10"));
    util_remove_tree(folder);
}
END_TEST

START_TEST(test_what_cannot_be_explained_is_said)
{
    ck_assert_int_eq(explain("/no/such.onnx", "--threads=1"), BASE_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "/no/such.onnx"));
    ck_assert_int_eq(explain_ours("README.md", "--threads=1"), BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(explain("no-folder.onnx", "--threads=1"), BASE_NOT_FOUND);
    ck_assert_int_eq(explain_ours("models/langid/1/model.onnx", "--backend=reference"),
                     BASE_INVALID_ARGUMENT);
}
END_TEST

/* Each of the first allocations fails in turn: an error, and nothing is left. */
START_TEST(test_without_memory_it_says_so)
{
    for (uint64_t n = 1; n < 400; n += 7) {
        char full[UTIL_PATH_BYTES];
        struct cfg_config *config = NULL;
        util_repo_path(full, "tests/data/models/order/1/model.onnx");
        const char *const flags[] = {"cellbatchd", "--explain-model", full, "--calibrate=off"};
        const struct cfg_input input = {.argc = 4, .argv = flags};
        ck_assert_int_eq(cfg_load(&input, &config, &error), BASE_OK);
        base_buf_clear(&text);
        base_alloc_fail_at(n);
        enum base_status status = srv_explain_model(config, &text, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        cfg_free(config);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("explain");
    TCase *tcase = tcase_create("explain");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_phases_weights_and_times_are_told);
    tcase_add_test(tcase, test_what_was_chosen_is_told_beside_the_rule);
    tcase_add_test(tcase, test_without_calibration_nothing_is_measured);
    tcase_add_test(tcase, test_config_of_the_model_is_read);
    tcase_add_test(tcase, test_what_cannot_be_explained_is_said);
    tcase_add_test(tcase, test_without_memory_it_says_so);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
