/* What both protocols say of the server and of a model. */
#include "server/about.h"

#include "server/core.h"
#include "tests/util.h"

#include <check.h>
#include <stdio.h>

START_TEST(test_about_extensions_are_those_that_work)
{
    uint32_t count = 0;
    const char *const *names = srv_about_extensions(false, &count);
    ck_assert_uint_eq(count, 5);
    ck_assert_str_eq(names[0], "binary_tensor_data");
    ck_assert_str_eq(names[1], "model_configuration");
    ck_assert_str_eq(names[2], "sequence");
    ck_assert_str_eq(names[3], "sequence(string_id)");
    ck_assert_str_eq(names[4], "statistics");
    names = srv_about_extensions(true, &count);
    ck_assert_uint_eq(count, 6);
    ck_assert_str_eq(names[5], "model_repository");
}
END_TEST

START_TEST(test_about_datatype_names)
{
    ck_assert_str_eq(srv_about_datatype(CELL_F32), "FP32");
    ck_assert_str_eq(srv_about_datatype(CELL_I64), "INT64");
    ck_assert_str_eq(srv_about_datatype(CELL_I32), "INT32");
    const struct cell_tensor bytes = {.form = CELL_FORM_U8};
    const struct cell_tensor wide = {.dtype = CELL_I64};
    ck_assert_str_eq(srv_about_datatype_of(&bytes)->name, "UINT8");
    ck_assert_uint_eq(srv_about_datatype_of(&bytes)->bytes, 1);
    ck_assert_str_eq(srv_about_datatype_of(&wide)->name, "INT64");
    ck_assert_uint_eq(srv_about_datatype_named("BOOL")->form, CELL_FORM_BOOL);
    ck_assert_uint_eq(srv_about_datatype_named("FP16")->form, CELL_FORM_F16);
    ck_assert_uint_eq(srv_about_datatype_named("BF16")->bytes, 2);
    ck_assert_uint_eq(srv_about_datatype_named("FP64")->bytes, 8);
    ck_assert_ptr_null(srv_about_datatype_named("UINT64"));
}
END_TEST

static uint32_t max_batch_size(const struct cell_model *model)
{
    struct srv_signature signature;
    srv_signature_make(model, NULL, &signature);
    return signature.max_batch_size;
}

START_TEST(test_about_max_batch_size_needs_the_batch_first_everywhere)
{
    static struct cell_model model = {.n_inputs = 2, .n_outputs = 1};
    ck_assert_uint_gt(max_batch_size(&model), 0);
    model.inputs[1].batch_axis = 1;
    ck_assert_uint_eq(max_batch_size(&model), 0);
    model.inputs[1].batch_axis = 0;
    model.outputs[0].batch_axis = -1;
    ck_assert_uint_eq(max_batch_size(&model), 0);
}
END_TEST

START_TEST(test_about_says_why_a_model_does_not_answer)
{
    static struct srv_model model = {.name = "m", .version = "2", .state = SRV_MODEL_LOADING};
    struct base_error error;
    ck_assert_int_eq(srv_about_not_ready(&model, &error), BASE_UNAVAILABLE);
    ck_assert_str_eq(error.message, "model 'm' version 2 is loading");
    model.state = SRV_MODEL_UNAVAILABLE;
    snprintf(model.reason, sizeof(model.reason), "its file is torn");
    ck_assert_int_eq(srv_about_not_ready(&model, &error), BASE_UNAVAILABLE);
    ck_assert_str_eq(error.message, "model 'm' version 2 is unavailable: its file is torn");
    model.version[0] = '\0';
    ck_assert_int_eq(srv_about_not_ready(&model, &error), BASE_UNAVAILABLE);
    ck_assert_str_eq(error.message, "model 'm' is unavailable: its file is torn");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("about");
    TCase *tcase = tcase_create("about");
    tcase_add_test(tcase, test_about_extensions_are_those_that_work);
    tcase_add_test(tcase, test_about_datatype_names);
    tcase_add_test(tcase, test_about_max_batch_size_needs_the_batch_first_everywhere);
    tcase_add_test(tcase, test_about_says_why_a_model_does_not_answer);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
