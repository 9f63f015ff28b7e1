/* Models in a repository that cannot be loaded: with exit_on_error the start ends with file and
 * reason, without it that model alone is unavailable and says why. */
#include "base/mem.h"
#include "server/about.h"
#include "server/core.h"
#include "tests/server/shelf.h"

#include <string.h>

struct broken {
    void (*put)(void);
    enum base_status status;
    const char *text, *more; /* with exit_on_error */
    const char *version, *reason;
};

static void put_no_version(void)
{
    shelf_text("bad/one/model.onnx", "");
    shelf_text("bad/config.yaml", "max-sequence-length: 7\n");
}

static void put_no_file(void)
{
    shelf_folder("bad");
    shelf_folder("bad/1");
}

static void put_torn(void)
{
    shelf_text("bad/1/model.onnx", "\b\b\b\b");
}

static void put_empty(void)
{
    shelf_text("bad/1/model.onnx", "");
}

static void put_folder_as_file(void)
{
    shelf_folder("bad");
    shelf_folder("bad/1");
    shelf_folder("bad/1/model.onnx");
}

static void put_pipe_as_file(void)
{
    put_no_file();
    shelf_pipe("bad/1/model.onnx");
}

static void put_config(const char *text)
{
    shelf_model("bad/1/model.onnx");
    shelf_text("bad/config.yaml", text);
}

static void put_unknown_key(void)
{
    put_config("# ours\nmax-sequence-lenght: 5\n");
}

static void put_other_weights(void)
{
    put_config("max-sequence-length: 5\nweights: fp16\n");
}

static void put_key_twice(void)
{
    put_config("max-sequence-length: 5\nmax-sequence-length: 6\n");
}

static void put_bad_value(void)
{
    put_config("max-sequence-length: 80x\n");
}

static void put_bad_yaml(void)
{
    put_config("max-sequence-length: [5\n");
}

static void put_config_folder(void)
{
    shelf_model("bad/1/model.onnx");
    shelf_folder("bad/config.yaml");
}

static void put_config_pipe(void)
{
    shelf_model("bad/1/model.onnx");
    shelf_pipe("bad/config.yaml");
}

static void put_other_name(void)
{
    shelf_model("bad/1/model.onnx");
    shelf_text("bad/config.pbtxt", "# Triton's\nname: 'good'\n");
}

static void put_missing_file(void)
{
    shelf_model("bad/1/model.onnx");
    shelf_text("bad/config.pbtxt", "default_model_filename: 'net.onnx'\n");
}

static void put_triton_pipe(void)
{
    shelf_model("bad/1/model.onnx");
    shelf_pipe("bad/config.pbtxt");
}

static const struct broken broken[] = {
    {put_no_version, BASE_NOT_FOUND, "/bad: no version folder", "bad/1/model.onnx", "",
     "no version folder"},
    {put_no_file, BASE_NOT_FOUND, "/bad/1/model.onnx: ", "No such file or directory", "1",
     "No such file or directory"},
    {put_torn, BASE_INVALID_ARGUMENT, "/bad/1/model.onnx: ", NULL, "1", "not an ONNX model"},
    {put_empty, BASE_INVALID_ARGUMENT, "/bad/1/model.onnx: ", "is empty", "1", "is empty"},
    {put_folder_as_file, BASE_INVALID_ARGUMENT, "/bad/1/model.onnx: ", "not a regular file", "1",
     "not a regular file"},
    {put_pipe_as_file, BASE_INVALID_ARGUMENT, "/bad/1/model.onnx: ", "not a regular file", "1",
     "not a regular file"},
    {put_unknown_key, BASE_INVALID_ARGUMENT, "/bad/config.yaml:2:1: ",
     "unknown key \"max-sequence-lenght\"; did you mean max-sequence-length?", "1",
     "/bad/config.yaml:2:1: unknown key \"max-sequence-lenght\""},
    {put_other_weights, BASE_INVALID_ARGUMENT, "/bad/config.yaml:2:10: weights: ",
     "is not one of fp32, bf16, int8", "1", "is not one of fp32, bf16, int8"},
    {put_key_twice, BASE_INVALID_ARGUMENT, "/bad/config.yaml:2:1: max-sequence-length: ",
     "given twice, first on line 1", "1", "given twice, first on line 1"},
    {put_bad_value, BASE_INVALID_ARGUMENT, "/bad/config.yaml:1:22: max-sequence-length: ", "80x",
     "1", "80x"},
    {put_bad_yaml, BASE_INVALID_ARGUMENT, "/bad/config.yaml:", NULL, "1", "/bad/config.yaml:"},
    {put_config_folder, BASE_INVALID_ARGUMENT, "/bad/config.yaml: ", "not a regular file", "1",
     "not a regular file"},
    {put_config_pipe, BASE_INVALID_ARGUMENT, "/bad/config.yaml: ", "not a regular file", "1",
     "not a regular file"},
    {put_other_name, BASE_INVALID_ARGUMENT, "/bad/config.pbtxt:2:7: ",
     "name \"good\" is not the name of the model's folder", "1", "is not the name"},
    {put_missing_file, BASE_NOT_FOUND, "/bad/1/net.onnx: ", "No such file or directory", "1",
     "No such file or directory"},
    {put_triton_pipe, BASE_INVALID_ARGUMENT, "/bad/config.pbtxt: ", "not a regular file", "1",
     "not a regular file"},
};

enum { BROKEN = sizeof(broken) / sizeof(broken[0]) };

START_TEST(test_a_broken_model_ends_the_start_with_file_and_reason)
{
    broken[_i].put();
    shelf_expect_refused(broken[_i].status, broken[_i].text, broken[_i].more);
}
END_TEST

START_TEST(test_a_broken_model_alone_is_unavailable)
{
    broken[_i].put();
    shelf_expect_unavailable("bad", broken[_i].version, broken[_i].reason);
}
END_TEST

START_TEST(test_a_broken_version_leaves_the_others)
{
    shelf_model("m/1/model.onnx");
    shelf_text("m/2/model.onnx", "torn");
    shelf_model("m/3/model.onnx");
    ck_assert_int_eq(shelf_load_from(shelf.root, false), BASE_OK);
    ck_assert_uint_eq(srv_core_models(shelf.core), 3);
    const enum srv_model_state states[] = {SRV_MODEL_LOADING, SRV_MODEL_UNAVAILABLE,
                                           SRV_MODEL_LOADING};
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(srv_core_model_at(shelf.core, i)->state, states[i]);
    }
}
END_TEST

START_TEST(test_a_bad_config_is_said_of_every_version)
{
    put_unknown_key();
    shelf_model("bad/2/model.onnx");
    ck_assert_int_eq(shelf_load_from(shelf.root, false), BASE_OK);
    ck_assert_uint_eq(srv_core_models(shelf.core), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct srv_model *model = srv_core_model_at(shelf.core, i);
        ck_assert_int_eq(model->state, SRV_MODEL_UNAVAILABLE);
        ck_assert_ptr_nonnull(strstr(model->reason, "unknown key"));
    }
}
END_TEST

START_TEST(test_a_wanted_model_that_is_missing_may_be_unavailable)
{
    const char *const names[] = {"good", "none"};
    shelf_model("good/1/model.onnx");
    ck_assert_int_eq(shelf_load_names(2, names, false), BASE_OK);
    ck_assert_uint_eq(srv_core_models(shelf.core), 2);
    const struct srv_model *model = srv_core_model_at(shelf.core, 1);
    ck_assert_str_eq(model->name, "none");
    ck_assert_ptr_nonnull(strstr(model->reason, "No such file or directory"));
    ck_assert_int_eq(srv_about_not_ready(model, &shelf.error), BASE_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(shelf.error.message, "model 'none' is unavailable: /"));
}
END_TEST

START_TEST(test_memory_that_runs_out_is_said)
{
    shelf_model("m/1/model.onnx");
    shelf_text("m/config.yaml", "max-sequence-length: 7\n");
    for (uint64_t n = 1;; n++) {
        base_alloc_fail_at(n);
        enum base_status status = shelf_load_from(shelf.root, true);
        base_alloc_fail_at(0);
        if (status == BASE_OK) {
            ck_assert_uint_gt(n, 10);
            break;
        }
        ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
        ck_assert_uint_eq(srv_core_models(shelf.core), 0);
    }
    ck_assert_uint_eq(srv_core_models(shelf.core), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("repository_errors");
    TCase *tcase = tcase_create("repository_errors");
    tcase_add_checked_fixture(tcase, shelf_setup, shelf_teardown);
    tcase_add_loop_test(tcase, test_a_broken_model_ends_the_start_with_file_and_reason, 0, BROKEN);
    tcase_add_loop_test(tcase, test_a_broken_model_alone_is_unavailable, 0, BROKEN);
    tcase_add_test(tcase, test_a_broken_version_leaves_the_others);
    tcase_add_test(tcase, test_a_bad_config_is_said_of_every_version);
    tcase_add_test(tcase, test_a_wanted_model_that_is_missing_may_be_unavailable);
    tcase_add_test(tcase, test_memory_that_runs_out_is_said);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
