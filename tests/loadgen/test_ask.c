/* Answers to --ask out of encoded responses, and the gnuplot script and its failures. */
#include "loadgen/ask.h"

#include "base/mem.h"
#include "loadgen/borrow.h"
#include "loadgen/plot.h"
#include "tests/util.h"

#include <check.h>
#include <proto/inference.pb-c.h>
#include <stdio.h>
#include <string.h>

typedef Inference__ModelInferResponse__InferOutputTensor output_message;

static struct base_error error;
static uint8_t bytes[512];
static double *values;

/* Packs a response with an INT64 output and an FP32 one of count values, raw or typed. */
static size_t pack(float *floats, size_t count, bool raw)
{
    output_message outputs[2];
    output_message *list[2] = {&outputs[0], &outputs[1]};
    Inference__InferTensorContents contents;
    inference__infer_tensor_contents__init(&contents);
    int64_t whole[2] = {1, 2};
    for (size_t i = 0; i < 2; i++) {
        inference__model_infer_response__infer_output_tensor__init(&outputs[i]);
        outputs[i].datatype = lg_borrow(i == 0 ? "INT64" : "FP32");
    }
    ProtobufCBinaryData data[2] = {{.len = sizeof(whole), .data = (uint8_t *)whole},
                                   {.len = count * sizeof(float), .data = (uint8_t *)floats}};
    Inference__ModelInferResponse response;
    inference__model_infer_response__init(&response);
    response.outputs = list;
    response.n_outputs = 2;
    if (raw) {
        response.raw_output_contents = data;
        response.n_raw_output_contents = 2;
    } else {
        contents.fp32_contents = floats;
        contents.n_fp32_contents = count;
        outputs[1].contents = &contents;
    }
    size_t length = inference__model_infer_response__get_packed_size(&response);
    ck_assert_uint_le(length, sizeof(bytes));
    return inference__model_infer_response__pack(&response, bytes);
}

START_TEST(test_ask_takes_probabilities_as_they_are)
{
    float floats[] = {0.25F, 0.75F};
    for (int raw = 0; raw < 2; raw++) {
        size_t length = pack(floats, 2, raw != 0);
        ck_assert_int_eq(lg_ask_decode(bytes, length, 2, &values, &error), BASE_OK);
        util_assert_close(values[0], 0.25, 0, 0);
        util_assert_close(values[1], 0.75, 0, 0);
        base_free(values);
    }
}
END_TEST

START_TEST(test_ask_turns_scores_into_probabilities)
{
    float floats[] = {-1, 1, 1000};
    size_t length = pack(floats, 2, true);
    ck_assert_int_eq(lg_ask_decode(bytes, length, 2, &values, &error), BASE_OK);
    util_assert_close(values[1], 0.8807970779778823, 1e-12, 0); // 1 / (1 + exp(-2))
    util_assert_close(values[0] + values[1], 1, 1e-12, 0);
    base_free(values);
    length = pack(floats, 3, true);
    ck_assert_int_eq(lg_ask_decode(bytes, length, 3, &values, &error), BASE_OK);
    util_assert_close(values[2], 1, 1e-12, 0); // no overflow
    base_free(values);
}
END_TEST

/* The first BYTES output, raw or typed; none, or one that is cut off, is no text. */
START_TEST(test_ask_prints_texts)
{
    static uint8_t raw[] = "\2\0\0\0ab\0\0\0\0\1\0\0\0c";
    output_message output;
    output_message *list[] = {&output};
    Inference__InferTensorContents contents;
    Inference__ModelInferResponse response;
    struct base_buf out;
    base_buf_init(&out, 1024);
    inference__infer_tensor_contents__init(&contents);
    inference__model_infer_response__infer_output_tensor__init(&output);
    inference__model_infer_response__init(&response);
    output.datatype = lg_borrow("BYTES");
    response.outputs = list;
    response.n_outputs = 1;
    for (size_t n = 0; n < sizeof(raw); n++) {
        ProtobufCBinaryData data = {.len = n, .data = raw};
        response.raw_output_contents = &data;
        response.n_raw_output_contents = 1;
        size_t length = inference__model_infer_response__pack(&response, bytes);
        const bool is_whole = n == 0 || n == 6 || n == 10 || n == 15;
        base_buf_clear(&out);
        ck_assert(lg_ask_texts(bytes, length, &out) == is_whole);
        ck_assert_str_eq(out.length == 0 ? "" : out.data, n == 15   ? "ab\n\nc\n"
                                                          : n == 10 ? "ab\n\n"
                                                          : n == 6  ? "ab\n"
                                                                    : "");
    }
    ProtobufCBinaryData typed[] = {{.len = 2, .data = raw + 4}, {.len = 0}};
    contents.bytes_contents = typed;
    contents.n_bytes_contents = 2;
    output.contents = &contents;
    response.n_raw_output_contents = 0;
    size_t length = inference__model_infer_response__pack(&response, bytes);
    base_buf_clear(&out);
    ck_assert(lg_ask_texts(bytes, length, &out));
    ck_assert_str_eq(out.data, "ab\n\n");
    float floats[] = {0.25F, 0.75F};
    ck_assert(!lg_ask_texts(bytes, pack(floats, 2, true), &out));
    base_buf_release(&out);
}
END_TEST

START_TEST(test_ask_without_a_fitting_output_is_refused)
{
    float floats[] = {0.25F, 0.75F};
    size_t length = pack(floats, 2, true);
    ck_assert_int_eq(lg_ask_decode(bytes, length, 3, &values, &error), BASE_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(error.message, "3 values"));
    ck_assert_int_eq(lg_ask_decode((const uint8_t *)"\x07", 1, 2, &values, &error), BASE_INTERNAL);
}
END_TEST

/* ---- Pictures -------------------------------------------------------------------------------- */

static struct base_buf script;

static void begin(void)
{
    base_buf_init(&script, 1u << 20);
}

static void end(void)
{
    base_buf_release(&script);
}

START_TEST(test_plot_script_quotes_what_the_user_gave)
{
    struct lg_point points[] = {{.rate = 100, .p50_ms = 1, .p99_ms = 2, .valid = true},
                                {.rate = 200}};
    ck_assert(lg_plot_script("it's.png", "a\n'b", points, 2, &script));
    ck_assert_ptr_nonnull(strstr(script.data, "set output 'it''s.png'\n"));
    ck_assert_ptr_nonnull(strstr(script.data, "set title 'a''b'\n"));
    ck_assert_ptr_nonnull(strstr(script.data, "\n100 1.0"));
    ck_assert_ptr_null(strstr(script.data, "\n200 ")); // no answer, no point
    base_buf_clear(&script);
    ck_assert(!lg_plot_script("p", "t", &points[1], 1, &script));
}
END_TEST

START_TEST(test_plot_without_its_program_says_which)
{
    base_buf_text(&script, "x");
    ck_assert_int_eq(lg_plot_run((const char *const[]){"no-such-plotter", NULL}, &script, &error),
                     BASE_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "no-such-plotter"));
    ck_assert_ptr_nonnull(strstr(error.message, "not installed"));
}
END_TEST

START_TEST(test_plot_program_that_fails_is_an_error)
{
    for (size_t i = 0; i < 100000; i++) { // more than a pipe holds: the write meets its end
        base_buf_text(&script, "x");
    }
    ck_assert_int_eq(lg_plot_run((const char *const[]){"false", NULL}, &script, &error),
                     BASE_INTERNAL);
    base_buf_clear(&script);
    base_buf_text(&script, "(printed by the program)\n");
    ck_assert_int_eq(lg_plot_run((const char *const[]){"cat", NULL}, &script, &error), BASE_OK);
}
END_TEST

START_TEST(test_plot_draws_a_png)
{
    char folder[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES + 16];
    util_temp_dir(folder);
    (void)snprintf(path, sizeof(path), "%s/p.png", folder);
    struct lg_point points[] = {
        {.rate = 100, .p50_ms = 1, .p90_ms = 2, .p99_ms = 3, .p999_ms = 4, .valid = true},
        {.rate = 200, .p50_ms = 2, .p90_ms = 3, .p99_ms = 9, .p999_ms = 20, .valid = false}};
    ck_assert(lg_plot_script(path, "t", points, 2, &script));
    enum base_status status = lg_plot_run((const char *const[]){"gnuplot", NULL}, &script, &error);
    if (status == BASE_NOT_FOUND) {
        util_remove_tree(folder);
        util_skip("no gnuplot");
        return;
    }
    ck_assert_int_eq(status, BASE_OK);
    size_t length = 0;
    char *png = util_read_file(path, &length);
    ck_assert_ptr_nonnull(png);
    ck_assert_uint_gt(length, 1000);
    ck_assert_mem_eq(png, "\x89PNG", 4);
    base_free(png);
    util_remove_tree(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ask");
    TCase *tcase = tcase_create("answers");
    tcase_add_test(tcase, test_ask_takes_probabilities_as_they_are);
    tcase_add_test(tcase, test_ask_turns_scores_into_probabilities);
    tcase_add_test(tcase, test_ask_prints_texts);
    tcase_add_test(tcase, test_ask_without_a_fitting_output_is_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("pictures");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_plot_script_quotes_what_the_user_gave);
    tcase_add_test(tcase, test_plot_without_its_program_says_which);
    tcase_add_test(tcase, test_plot_program_that_fails_is_an_error);
    tcase_add_test(tcase, test_plot_draws_a_png);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
