/* The model repository: what lies in the folder, what is made of it, and what is said of a folder
 * that is none. */
#include "server/core_state.h"
#include "tests/server/shelf.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_loaded(uint32_t models)
{
    ck_assert_msg(shelf_load_from(shelf.root, true) == BASE_OK, "%s", shelf.error.message);
    ck_assert_uint_eq(srv_core_models(shelf.core), models);
}

/* ---- Good repositories ---- */

START_TEST(test_models_and_versions_are_loaded_in_order)
{
    shelf_model("b/2/model.onnx");
    shelf_model("b/10/model.onnx");
    shelf_model("a.b-c_D9/1/model.onnx");
    shelf_text("b/config.yaml", "max-sequence-length: 7\n");
    expect_loaded(3);
    const char *const names[] = {"a.b-c_D9", "b", "b"};
    const char *const versions[] = {"1", "2", "10"};
    const uint32_t longest[] = {64, 7, 7};
    for (uint32_t i = 0; i < 3; i++) {
        const struct srv_model *model = srv_core_model_at(shelf.core, i);
        ck_assert_str_eq(model->name, names[i]);
        ck_assert_str_eq(model->version, versions[i]);
        ck_assert_int_eq(model->state, SRV_MODEL_LOADING);
        ck_assert_uint_eq(srv_model_entry_of(model)->limits.sequence_length_max, longest[i]);
    }
}
END_TEST

START_TEST(test_weights_are_held_as_the_model_says)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    static const enum cell_precision held[] = {CELL_FP32, CELL_BF16, CELL_INT8, CELL_FP32};
    shelf_model("a/1/model.onnx");
    shelf_model("b/1/model.onnx");
    shelf_text("b/config.yaml", "weights: bf16\n");
    shelf_model("c/1/model.onnx");
    shelf_text("c/config.yaml", "weights: int8\n");
    shelf_model("d/1/model.onnx");
    shelf_text("d/config.yaml", "weights: fp32\n");
    expect_loaded(4);
    const struct cell_type *types[4] = {NULL};
    for (uint32_t i = 0; i < 4; i++) {
        const struct srv_model *model = srv_core_model_at(shelf.core, i);
        ck_assert_str_eq(model->name, names[i]);
        const struct cell_model *cells = srv_model_entry_of(model)->cells;
        types[i] = cells->stages[0].type;
        ck_assert_int_eq(cells->options.precision, held[i]);
        ck_assert_int_eq(types[i]->def.ops[0].precision, held[i]);
    }
    ck_assert_ptr_eq(types[0], types[3]);
    ck_assert_ptr_ne(types[0], types[1]);
    ck_assert_ptr_ne(types[0], types[2]);
}
END_TEST

START_TEST(test_linear_weights_are_held_as_the_model_says)
{
    char langid[UTIL_PATH_BYTES];
    util_repo_path(langid, "models/langid/1");
    shelf_text("a/config.yaml", "linear-weights: bf16\n");
    shelf_link("a/1", langid);
    shelf_text("b/config.yaml", "linear-weights: int8\nweights: bf16\n");
    shelf_link("b/1", langid);
    expect_loaded(2);
    static const enum cell_precision wanted[2][2] = {{CELL_BF16, CELL_FP32},
                                                     {CELL_INT8, CELL_BF16}};
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell_model *cells =
            srv_model_entry_of(srv_core_model_at(shelf.core, i))->cells;
        uint32_t n[2] = {0};
        for (uint32_t s = 0; s < cells->n_stages; s++) {
            const struct cell_def *def = &cells->stages[s].type->def;
            for (uint32_t o = 0; o < def->n_ops; o++) {
                const bool has_gates = cell_op_gates(def->ops[o].kind) > 0;
                const bool is_linear = def->ops[o].kind == CELL_OP_LINEAR;
                n[has_gates] += has_gates || is_linear ? 1 : 0;
                ck_assert_int_eq(def->ops[o].precision,
                                 has_gates || is_linear ? wanted[i][has_gates] : CELL_FP32);
            }
        }
        ck_assert(n[0] > 0 && n[1] > 0);
    }
}
END_TEST

START_TEST(test_products_are_as_exact_as_the_model_says)
{
    static const enum cell_products wanted[] = {CELL_PRODUCTS_FP32, CELL_PRODUCTS_TF32,
                                                CELL_PRODUCTS_BF16X3};
    shelf_model("a/1/model.onnx");
    shelf_model("b/1/model.onnx");
    shelf_text("b/config.yaml", "products: tf32\n");
    shelf_model("c/1/model.onnx");
    shelf_text("c/config.yaml", "products: bf16x3\n");
    expect_loaded(3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct srv_model *model = srv_core_model_at(shelf.core, i);
        const struct cell_model *cells = srv_model_entry_of(model)->cells;
        for (uint32_t s = 0; s < cells->n_stages; s++) {
            ck_assert_int_eq(cells->stages[s].type->def.products, wanted[i]);
        }
    }
}
END_TEST

/* As Triton has its folders. */
START_TEST(test_a_triton_config_names_the_file)
{
    shelf_model("a/1/net.onnx");
    shelf_text("a/1/model.onnx", "torn");
    shelf_text("a/config.pbtxt", "name: \"a\" backend: \"onnxruntime\"\n"
                                 "default_model_filename: \"net.onnx\"\n");
    shelf_text("a/config.yaml", "max-sequence-length: 7\n");
    expect_loaded(1);
    const struct srv_model *model = srv_core_model_at(shelf.core, 0);
    ck_assert_int_eq(model->state, SRV_MODEL_LOADING);
    ck_assert_uint_eq(srv_model_entry_of(model)->limits.sequence_length_max, 7);
}
END_TEST

START_TEST(test_what_is_no_model_is_passed_over)
{
    shelf_model("good/1/model.onnx");
    shelf_model("good/.2/model.onnx");
    shelf_model("good/two/model.onnx");
    shelf_model("good/03/model.onnx");
    shelf_model("good/0/model.onnx");
    shelf_model("good/-1/model.onnx");
    shelf_model("good/1234567890123456789/model.onnx");
    shelf_text("good/2", "a file in a version's place");
    shelf_text("good/1/labels.txt", "a file beside the model's");
    shelf_text("README.md", "a file in a model's place");
    shelf_model(".hidden/1/model.onnx");
    shelf_model("with blank/1/model.onnx");
    shelf_model("gr\xC3\xBC\xC3\x9F/1/model.onnx");
    shelf_model("new\nline/1/model.onnx");
    shelf_model("quo\"te/1/model.onnx");
    shelf_link("nowhere", "not/there");
    shelf_link("circle", "circle");
    shelf_link("good/4", "not/there");
    expect_loaded(1);
    ck_assert_str_eq(srv_core_model_at(shelf.core, 0)->name, "good");
    ck_assert_str_eq(srv_core_model_at(shelf.core, 0)->version, "1");
}
END_TEST

START_TEST(test_links_are_followed)
{
    shelf_model(".store/model.onnx");
    shelf_folder("linked");
    shelf_link("linked/1", "../.store");
    shelf_link("again", "linked");
    expect_loaded(2);
    ck_assert_str_eq(srv_core_model_at(shelf.core, 0)->name, "again");
    ck_assert_str_eq(srv_core_model_at(shelf.core, 1)->name, "linked");
}
END_TEST

START_TEST(test_only_wanted_models_are_loaded)
{
    shelf_model("a/1/model.onnx");
    shelf_model("b/1/model.onnx");
    shelf_text("torn/1/model.onnx", "torn");
    const char *const names[] = {"b"};
    ck_assert_int_eq(shelf_load_names(1, names, true), BASE_OK);
    ck_assert_uint_eq(srv_core_models(shelf.core), 1);
    ck_assert_str_eq(srv_core_model_at(shelf.core, 0)->name, "b");
}
END_TEST

START_TEST(test_wanted_names_that_cannot_be)
{
    static const struct {
        const char *name;
        enum base_status status;
        const char *text;
    } cases[] = {{"none", BASE_NOT_FOUND, "/none: No such file or directory"},
                 {"../a", BASE_INVALID_ARGUMENT, "'../a' is not a model name"},
                 {"", BASE_INVALID_ARGUMENT, "'' is not a model name"},
                 {".", BASE_INVALID_ARGUMENT, "'.' is not a model name"},
                 {"a b", BASE_INVALID_ARGUMENT, "'a b' is not a model name"}};
    const char *const names[] = {cases[_i].name};
    shelf_model("a/1/model.onnx");
    ck_assert_int_eq(shelf_load_names(1, names, true), cases[_i].status);
    ck_assert_msg(strstr(shelf.error.message, cases[_i].text) != NULL, "%s", shelf.error.message);
}
END_TEST

START_TEST(test_a_name_wanted_twice_is_refused)
{
    shelf_model("a/1/model.onnx");
    const char *const names[] = {"a", "a"};
    ck_assert_int_eq(shelf_load_names(2, names, true), BASE_ALREADY_EXISTS);
    ck_assert_str_eq(shelf.error.message, "model 'a' has version 1 twice");
}
END_TEST

START_TEST(test_names_are_short)
{
    char name[CELL_NAME_BYTES + 1];
    memset(name, 'a', sizeof(name));
    name[CELL_NAME_BYTES - 1] = '\0';
    ck_assert(srv_repository_is_name(name));
    name[CELL_NAME_BYTES - 1] = 'a';
    name[CELL_NAME_BYTES] = '\0';
    ck_assert(!srv_repository_is_name(name));
}
END_TEST

/* ---- Folders ---- */

START_TEST(test_no_such_repository)
{
    ck_assert_int_eq(shelf_load_from(shelf_at("none"), _i == 1), BASE_NOT_FOUND);
    ck_assert_msg(strstr(shelf.error.message, "/none: No such file or directory") != NULL, "%s",
                  shelf.error.message);
}
END_TEST

START_TEST(test_a_file_is_no_repository)
{
    shelf_text("file", "");
    ck_assert_int_eq(shelf_load_from(shelf_at("file"), _i == 1), BASE_NOT_FOUND);
    ck_assert_msg(strstr(shelf.error.message, "/file: Not a directory") != NULL, "%s",
                  shelf.error.message);
}
END_TEST

START_TEST(test_an_unreadable_repository)
{
    shelf_model("a/1/model.onnx");
    ck_assert_int_eq(chmod(shelf.root, 0), 0);
    bool is_root = geteuid() == 0; // whom no mode keeps out
    ck_assert(!is_root || seteuid(65534) == 0);
    enum base_status status = shelf_load_from(shelf.root, false);
    ck_assert(!is_root || seteuid(0) == 0);
    ck_assert_int_eq(chmod(shelf.root, 0700), 0);
    ck_assert_int_eq(status, BASE_NOT_FOUND);
    ck_assert_msg(strstr(shelf.error.message, "Permission denied") != NULL, "%s",
                  shelf.error.message);
    ck_assert_msg(strstr(shelf.error.message, shelf.root) != NULL, "%s", shelf.error.message);
}
END_TEST

START_TEST(test_an_empty_repository)
{
    shelf_text("README.md", "nothing yet");
    ck_assert_int_eq(shelf_load_from(shelf.root, _i == 1), BASE_NOT_FOUND);
    ck_assert_msg(strstr(shelf.error.message, "no model here (NAME/1/model.onnx)") != NULL, "%s",
                  shelf.error.message);
}
END_TEST

START_TEST(test_a_path_that_is_too_long)
{
    static char path[8192];
    memset(path, 'x', sizeof(path) - 1);
    ck_assert_int_eq(shelf_load_from(path, true), BASE_NOT_FOUND);
    const char *const names[] = {"a"};
    const struct srv_repository_options options = {.path = path, .n_names = 1, .names = names};
    ck_assert_int_eq(srv_repository_load(&options, shelf.core, shelf.engine, &shelf.error),
                     BASE_OK);
    ck_assert_str_eq(srv_core_model_at(shelf.core, 0)->reason, "a: path too long");
}
END_TEST

START_TEST(test_more_models_than_are_read_are_an_error)
{
    char name[32];
    for (uint32_t i = 0; i < 4097; i++) {
        snprintf(name, sizeof(name), "m%u", i);
        shelf_folder(name);
    }
    shelf_expect_refused(BASE_RESOURCE_EXHAUSTED, shelf.root, ": more than 4096 folders in it");
    ck_assert_uint_eq(srv_core_models(shelf.core), 0);
}
END_TEST

START_TEST(test_more_versions_than_are_read_are_an_error)
{
    char name[32];
    shelf_folder("deep");
    for (uint32_t i = 1; i <= 4097; i++) {
        snprintf(name, sizeof(name), "deep/%u", i);
        shelf_folder(name);
    }
    shelf_expect_refused(BASE_RESOURCE_EXHAUSTED, "/deep: more than 4096 folders in it", NULL);
    shelf_expect_unavailable("deep", "", "/deep: more than 4096 folders in it");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("repository");
    TCase *tcase = tcase_create("repository");
    tcase_add_checked_fixture(tcase, shelf_setup, shelf_teardown);
    tcase_add_test(tcase, test_models_and_versions_are_loaded_in_order);
    tcase_add_test(tcase, test_weights_are_held_as_the_model_says);
    tcase_add_test(tcase, test_linear_weights_are_held_as_the_model_says);
    tcase_add_test(tcase, test_products_are_as_exact_as_the_model_says);
    tcase_add_test(tcase, test_a_triton_config_names_the_file);
    tcase_add_test(tcase, test_what_is_no_model_is_passed_over);
    tcase_add_test(tcase, test_links_are_followed);
    tcase_add_test(tcase, test_only_wanted_models_are_loaded);
    tcase_add_loop_test(tcase, test_wanted_names_that_cannot_be, 0, 5);
    tcase_add_test(tcase, test_a_name_wanted_twice_is_refused);
    tcase_add_test(tcase, test_names_are_short);
    tcase_add_loop_test(tcase, test_no_such_repository, 0, 2);
    tcase_add_loop_test(tcase, test_a_file_is_no_repository, 0, 2);
    tcase_add_test(tcase, test_an_unreadable_repository);
    tcase_add_loop_test(tcase, test_an_empty_repository, 0, 2);
    tcase_add_test(tcase, test_a_path_that_is_too_long);
    tcase_add_test(tcase, test_more_models_than_are_read_are_an_error);
    tcase_add_test(tcase, test_more_versions_than_are_read_are_an_error);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
