/* Models of named layers in a repository: each under tests/data/safetensors answers as PyTorch or
 * Keras does, and the server answers as the interpreter of its stages; and which files, with which
 * config.yaml, are one model. */
#include "base/mem.h"
#include "server/check_model.h"
#include "server/model_files.h"
#include "tests/cells/replay.h"
#include "tests/server/shelf.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "tests/data/safetensors"

enum { MODELS = 22 };

static struct site site;

static int is_model(const struct dirent *entry)
{
    return strchr(entry->d_name, '.') == NULL ? 1 : 0;
}

/* Calls visit with each model's name. */
static void for_each_model(void (*visit)(const char *name, void *argument), void *argument)
{
    char path[UTIL_PATH_BYTES];
    struct dirent **entries = NULL;
    util_repo_path(path, FOLDER);
    const int n = scandir(path, &entries, is_model, alphasort);
    ck_assert_int_eq(n, MODELS);
    for (int i = 0; i < n; i++) {
        visit(entries[i]->d_name, argument);
        base_free(entries[i]);
    }
    base_free((void *)entries);
}

/* ---- Answers ------------------------------------------------------------------------------ */

static void compute_golden(const char *name, void *argument)
{
    struct cell_registry *registry = argument;
    struct srv_model_files files;
    struct base_error error = {.message = ""};
    char relative[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), FOLDER "/%s/1/model.safetensors", name);
    util_repo_path(path, relative);
    ck_assert_msg(srv_model_files_open(registry, path, &files, &error) == BASE_OK, "%s",
                  error.message);
    snprintf(relative, sizeof(relative), FOLDER "/%s/golden.json", name);
    json_t *golden = util_load_json(relative);
    const json_t *cases = json_object_get(golden, "cases");
    ck_assert_uint_eq(json_array_size(cases), 3);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        replay_golden(files.cells, json_array_get(cases, i), name);
    }
    json_decref(golden);
    srv_model_files_release(registry, &files);
}

START_TEST(test_every_model_computes_what_its_library_does)
{
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    for_each_model(compute_golden, registry);
    cell_registry_free(registry);
}
END_TEST

static void ask_model(const char *name, void *argument)
{
    struct base_random *random = argument;
    const struct cell_model *cells = site_find(&site, name);
    for (uint32_t i = 0; i < 3; i++) {
        struct visit visit = {.site = &site};
        ask_init(&visit.ask, cells, 1 + base_random_below(random, 4),
                 1 + base_random_below(random, 9), random, ASK_PLAIN);
        visit.ask.request.model_name = name;
        visit_start(&site, &visit);
        visit_wait(&visit);
        const double difference = ask_error(&visit.ask);
        ck_assert_msg(difference <= 1e-5, "%s: %g", name, difference);
        ask_release(&visit.ask);
    }
}

START_TEST(test_every_model_is_served)
{
    struct base_random random = util_random(1);
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = FOLDER;
    site_open(&site, &options);
    for_each_model(ask_model, &random);
    site_close(&site);
}
END_TEST

/* ---- Files -------------------------------------------------------------------------------- */

/* A model of tests/data/safetensors in the repository. */
static void put_model(const char *name, const char *from)
{
    char relative[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), FOLDER "/%s/1/model.safetensors", from);
    util_repo_path(path, relative);
    snprintf(relative, sizeof(relative), "%s/labels.txt", name);
    shelf_text(relative, "a file beside the model's");
    snprintf(relative, sizeof(relative), "%s/model.safetensors", name);
    shelf_link(relative, path);
}

START_TEST(test_layers_may_be_told_as_a_list)
{
    put_model("m/1", "lstm_last");
    put_model("m/2", "lstm_last");
    shelf_text("m/config.yaml", "weights: bf16\nlayers:\n  - embedding:embed\n  - lstm:rnn\n"
                                "  - last\n  - linear:fc\n  - log_softmax\n");
    ck_assert_msg(shelf_load_from(shelf.root, true) == BASE_OK, "%s", shelf.error.message);
    ck_assert_uint_eq(srv_core_models(shelf.core), 2);
}
END_TEST

START_TEST(test_a_model_without_layers)
{
    put_model("m/1", "lstm_last");
    shelf_expect_refused(BASE_INVALID_ARGUMENT, "m/1/model.safetensors: ",
                         "safetensors tells no layers: name them in config.yaml");
    shelf_expect_unavailable("m", "1", "safetensors tells no layers");
}
END_TEST

START_TEST(test_layers_of_other_files)
{
    shelf_model("m/1/model.onnx");
    shelf_text("m/config.yaml", "layers: lstm:rnn\n");
    shelf_expect_refused(BASE_INVALID_ARGUMENT, "m/1/model.onnx: ",
                         "config.yaml names layers, which are of a model.safetensors");
    shelf_text("m/config.yaml", "layers: lstm:rnn\nunfold: tree\n");
    shelf_expect_refused(BASE_INVALID_ARGUMENT, "config.yaml names layers, and unfold: tree", NULL);
}
END_TEST

START_TEST(test_no_file_and_two)
{
    shelf_text("m/1/labels.txt", "a file beside no model's");
    shelf_text("m/config.yaml", "layers: lstm:rnn\n");
    shelf_expect_refused(BASE_NOT_FOUND, "the model file cannot be opened", NULL);
    put_model("m/1", "lstm_no_bias");
    shelf_model("m/1/model.onnx");
    shelf_expect_refused(BASE_INVALID_ARGUMENT, "there is a model.safetensors and a model.onnx",
                         NULL);
}
END_TEST

START_TEST(test_layers_that_do_not_fit_the_file)
{
    put_model("m/1", "lstm_last");
    shelf_text("m/config.yaml", "layers: embedding:embed,lstm:rnn,last\n");
    shelf_expect_refused(BASE_INVALID_ARGUMENT, "m/1/model.safetensors: ",
                         "tensors that no layer uses: fc.bias, fc.weight");
}
END_TEST

START_TEST(test_a_file_that_is_checked_by_hand)
{
    struct base_buf out;
    struct base_error error = {.message = ""};
    base_buf_init(&out, 1 << 16);
    put_model("m/1", "lstm_last_bf16");
    shelf_text("m/config.yaml", "layers: embedding:embed,lstm:rnn,last,linear:fc,log_softmax\n");
    ck_assert_msg(srv_check_model(shelf_at("m/1/model.safetensors"), &out, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert_ptr_nonnull(strstr(out.data, ": ok, safetensors pt, 1862 bytes\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "input   input INT64 [batch, time], ids 0..19\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "output  output FP32 [batch, 3]\n"));
    base_buf_clear(&out);
    ck_assert_int_eq(srv_check_model(shelf.root, &out, &error), BASE_OK);
    ck_assert_ptr_nonnull(strstr(out.data, "m/1/model.safetensors: ok"));
    base_buf_release(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors_model");
    TCase *answers = tcase_create("answers");
    tcase_set_timeout(answers, 60);
    tcase_add_test(answers, test_every_model_computes_what_its_library_does);
    tcase_add_test(answers, test_every_model_is_served);
    suite_add_tcase(suite, answers);
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, shelf_setup, shelf_teardown);
    tcase_add_test(files, test_layers_may_be_told_as_a_list);
    tcase_add_test(files, test_a_model_without_layers);
    tcase_add_test(files, test_layers_of_other_files);
    tcase_add_test(files, test_no_file_and_two);
    tcase_add_test(files, test_layers_that_do_not_fit_the_file);
    tcase_add_test(files, test_a_file_that_is_checked_by_hand);
    suite_add_tcase(suite, files);
    return util_run(suite);
}
