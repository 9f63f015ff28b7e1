/* Shapes from metadata, and the bytes of requests: decoded again by protobuf-c. */
#include "loadgen/payload.h"

#include "base/mem.h"
#include "loadgen/values.h"
#include "tests/util.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <proto/inference.pb-c.h>
#include <stdio.h>
#include <string.h>

static struct lg_model model;
static struct base_error error;
static struct lg_payload *payload;
static char folder[UTIL_PATH_BYTES];

static const int64_t batch_time[] = {-1, -1};
static const int64_t batch_time_4[] = {-1, -1, 4};
static const int64_t batch_3[] = {-1, 3};
static const int64_t too_deep[LG_RANK_MAX + 1] = {-1};
static const int64_t one_time_4[] = {1, -1, 4};

static void begin(void)
{
    payload = NULL;
    util_temp_dir(folder);
}

static void end(void)
{
    lg_payload_free(payload);
    util_remove_tree(folder);
}

static enum base_status init_model(const struct lg_metadata_input *inputs, size_t count,
                                   const char *shape)
{
    struct lg_model_wish wish = {
        .name = "m", .version = "2", .shapes = &shape, .shape_count = shape == NULL ? 0 : 1};
    return lg_model_init(&wish, inputs, count, &model, &error);
}

static void init_ids(void)
{
    struct lg_metadata_input input = {"tokens", "INT64", batch_time, 2};
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
}

static void init_floats(void)
{
    struct lg_metadata_input inputs[] = {{"x", "FP32", batch_time_4, 3},
                                         {"h0", "FP32", batch_3, 2}};
    ck_assert_int_eq(init_model(inputs, 2, NULL), BASE_OK);
}

static Inference__ModelInferRequest *decode(uint64_t index)
{
    size_t length = (size_t)lg_payload_bytes(payload, index);
    uint8_t *bytes = base_alloc(length);
    ck_assert_ptr_nonnull(bytes);
    // In pieces of odd sizes, which must give the same as one piece.
    struct base_random random = util_random(index);
    for (size_t at = 0; at < length;) {
        size_t piece = 1 + base_random_below(&random, (uint32_t)(length - at));
        lg_payload_read(payload, index, at, piece, bytes + at);
        at += piece;
    }
    uint8_t *whole = base_alloc(length);
    ck_assert_ptr_nonnull(whole);
    lg_payload_read(payload, index, 0, length, whole);
    ck_assert_mem_eq(bytes, whole, length);
    base_free(whole);
    Inference__ModelInferRequest *request =
        inference__model_infer_request__unpack(NULL, length, bytes);
    base_free(bytes);
    ck_assert_ptr_nonnull(request);
    return request;
}

static enum base_status create(const char *lengths, const char *text, uint32_t batch,
                               uint64_t vocab)
{
    struct lg_payload_spec spec = {.model = &model,
                                   .lengths = lengths,
                                   .text = text,
                                   .batch = batch,
                                   .vocab = vocab,
                                   .seed = util_seed()};
    return lg_payload_create(&spec, &payload, &error);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

START_TEST(test_model_first_open_dim_is_the_batch)
{
    init_floats();
    ck_assert_int_eq(model.inputs[0].dims[0], LG_DIM_BATCH);
    ck_assert_int_eq(model.inputs[0].dims[1], LG_DIM_LENGTH);
    ck_assert_int_eq(model.inputs[0].dims[2], 4);
    ck_assert_int_eq(model.inputs[1].dims[0], LG_DIM_BATCH);
    ck_assert_int_eq(model.inputs[1].dims[1], 3);
}
END_TEST

START_TEST(test_model_lone_open_dim_is_the_length)
{
    struct lg_metadata_input input = {"x", "FP32", one_time_4, 3};
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    ck_assert_int_eq(model.inputs[0].dims[0], 1);
    ck_assert_int_eq(model.inputs[0].dims[1], LG_DIM_LENGTH);
    input = (struct lg_metadata_input){"x", "FP32", batch_3, 2};
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    ck_assert_int_eq(model.inputs[0].dims[0], LG_DIM_LENGTH);
}
END_TEST

START_TEST(test_model_open_dim_of_a_state_is_the_batch)
{
    static const int64_t state[] = {2, -1, 8};
    struct lg_metadata_input chain[] = {{"x", "FP32", batch_time_4, 3}, {"h", "FP32", state, 3}};
    ck_assert_int_eq(init_model(chain, 2, NULL), BASE_OK);
    ck_assert_int_eq(model.inputs[1].dims[1], LG_DIM_BATCH);
    struct lg_metadata_input step[] = {{"x", "FP32", batch_3, 2}, {"h", "FP32", state, 3}};
    ck_assert_int_eq(init_model(step, 2, NULL), BASE_OK);
    ck_assert_int_eq(model.inputs[0].dims[0], LG_DIM_BATCH);
    ck_assert_int_eq(model.inputs[1].dims[1], LG_DIM_BATCH);
    struct lg_metadata_input two[] = {{"a", "FP32", batch_3, 2}, {"b", "FP32", batch_3, 2}};
    ck_assert_int_eq(init_model(two, 2, NULL), BASE_OK);
    ck_assert_int_eq(model.inputs[1].dims[0], LG_DIM_LENGTH);
}
END_TEST

START_TEST(test_model_shape_of_the_user_wins)
{
    struct lg_metadata_input input = {"a:b", "FP32", batch_time_4, 3};
    ck_assert_int_eq(init_model(&input, 1, "a:b:L,B,4"), BASE_OK);
    ck_assert_int_eq(model.inputs[0].dims[0], LG_DIM_LENGTH);
    ck_assert_int_eq(model.inputs[0].dims[1], LG_DIM_BATCH);
    int64_t dims[LG_RANK_MAX];
    ck_assert_uint_eq(lg_tensor_dims(&model.inputs[0], 2, 5, dims), 160);
    ck_assert_int_eq(dims[0], 5);
    ck_assert_int_eq(dims[1], 2);
    static const char *const wrong[] = {"x:1",   "a:b",      "a:b:",  "a:b:0",
                                        "a:b:C", "a:b:1,,2", "noise", "a:b:1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_msg(init_model(&input, 1, wrong[i]) == BASE_INVALID_ARGUMENT,
                      "%s was not refused", wrong[i]);
    }
}
END_TEST

START_TEST(test_model_that_cannot_be_filled_is_refused)
{
    struct lg_metadata_input strange = {"s", "FP8", batch_time, 2};
    ck_assert_int_eq(init_model(&strange, 1, NULL), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "FP8"));
    ck_assert_int_eq(init_model(&strange, 0, NULL), BASE_INVALID_ARGUMENT);
    struct lg_metadata_input deep = {"d", "FP32", too_deep, LG_RANK_MAX + 1};
    ck_assert_int_eq(init_model(&deep, 1, NULL), BASE_INVALID_ARGUMENT);
}
END_TEST

/* ---- Requests -------------------------------------------------------------------------------- */

START_TEST(test_model_of_graphs_is_refused)
{
    static const int64_t nodes[] = {-1};
    static const int64_t edges[] = {-1, 4};
    struct lg_metadata_input inputs[] = {{"cells", "INT64", nodes, 1},
                                         {"edges", "INT64", edges, 2}};
    ck_assert_int_eq(init_model(inputs, 2, NULL), BASE_UNIMPLEMENTED);
    ck_assert_ptr_nonnull(strstr(error.message, "takes graphs of cells"));
    ck_assert_int_eq(init_model(inputs, 1, NULL), BASE_OK); // "cells" alone may be anything
}
END_TEST

START_TEST(test_payload_decodes_to_what_was_asked)
{
    init_floats();
    ck_assert_int_eq(create("uniform:1:9", NULL, 2, 0), BASE_OK);
    for (uint64_t index = 0; index < 300; index++) {
        Inference__ModelInferRequest *request = decode(index);
        uint32_t length = lg_payload_length(payload, index);
        ck_assert_str_eq(request->model_name, "m");
        ck_assert_str_eq(request->model_version, "2");
        ck_assert_uint_eq(request->n_inputs, 2);
        ck_assert_uint_eq(request->n_raw_input_contents, 2);
        ck_assert_str_eq(request->inputs[0]->name, "x");
        ck_assert_str_eq(request->inputs[1]->name, "h0");
        ck_assert_uint_eq(request->inputs[0]->n_shape, 3);
        ck_assert_int_eq(request->inputs[0]->shape[0], 2);
        ck_assert_int_eq(request->inputs[0]->shape[1], length);
        ck_assert_uint_eq(request->raw_input_contents[0].len, 2u * length * 4 * sizeof(float));
        ck_assert_uint_eq(request->raw_input_contents[1].len, 2 * 3 * sizeof(float));
        inference__model_infer_request__free_unpacked(request, NULL);
    }
}
END_TEST

START_TEST(test_payload_ids_stay_within_the_vocabulary)
{
    init_ids();
    ck_assert_int_eq(create("fixed:1000", NULL, 1, 9), BASE_OK);
    uint32_t seen[10] = {0};
    Inference__ModelInferRequest *request = decode(3);
    for (size_t i = 0; i < 1000; i++) {
        int64_t id = 0;
        memcpy(&id, request->raw_input_contents[0].data + i * sizeof(id), sizeof(id));
        ck_assert_int_ge(id, 0);
        ck_assert_int_le(id, 9);
        seen[id]++;
    }
    for (size_t v = 0; v < 10; v++) {
        ck_assert_uint_gt(seen[v], 50);
    }
    inference__model_infer_request__free_unpacked(request, NULL);
}
END_TEST

/* Least and most of the first input's values, of requests of several lengths. */
static void find_ends(const char *lengths, int64_t *least, int64_t *most)
{
    ck_assert_int_eq(create(lengths, NULL, 40, LG_VOCAB_OF_MODEL), BASE_OK);
    *least = INT64_MAX;
    *most = INT64_MIN;
    for (uint64_t r = 0; r < 50; r++) {
        Inference__ModelInferRequest *request = decode(r);
        const bool is_float = model.inputs[0].datatype->element_bytes == 4;
        const size_t bytes = is_float ? 4 : 8;
        for (size_t at = 0; at < request->raw_input_contents[0].len; at += bytes) {
            int64_t value = 0;
            float number = 0.0f;
            memcpy(is_float ? (void *)&number : (void *)&value,
                   request->raw_input_contents[0].data + at, bytes);
            ck_assert(number == truncf(number));
            value = is_float ? (int64_t)number : value;
            *least = value < *least ? value : *least;
            *most = value > *most ? value : *most;
        }
        inference__model_infer_request__free_unpacked(request, NULL);
    }
    lg_payload_free(payload);
    payload = NULL;
}

START_TEST(test_payload_integers_are_what_the_model_takes)
{
    static const struct {
        const char *datatype, *range, *lengths;
        int64_t least, most;
    } cases[] = {
        {"INT64", "0..59", "fixed:30", 0, 59},
        {"INT64", NULL, "fixed:30", 0, 255},
        {"INT64", "-3..5", "fixed:30", -3, 5},
        {"FP32", "0..7", "fixed:30", 0, 7},
        {"INT64", "1..steps", "fixed:30", 1, 30},
        {"INT64", "1..steps", "uniform:20:40", 1, 20},
        {"INT64", "-3..steps-4", "fixed:30", -3, 26},
        {"INT64", "0..steps-40", "fixed:30", 0, 0}, // none that would do
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lg_metadata_input input = {"x", cases[i].datatype, batch_time, 2};
        int64_t least = 0;
        int64_t most = 0;
        ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
        if (cases[i].range != NULL) {
            ck_assert(lg_tensor_take_range(&model.inputs[0], cases[i].range));
        }
        find_ends(cases[i].lengths, &least, &most);
        ck_assert_msg(least == cases[i].least && most == cases[i].most,
                      "%zu: %" PRId64 "..%" PRId64, i, least, most);
    }
}
END_TEST

START_TEST(test_model_texts_that_are_no_range)
{
    static const char *const texts[] = {"",
                                        "5",
                                        "..5",
                                        "0..",
                                        "0...5",
                                        "0..5x",
                                        "0..steps+",
                                        "0..step",
                                        "a..b",
                                        "0..stepsx",
                                        "0..9999999999999999999",
                                        "0..9000000000000000000"};
    init_ids();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_msg(!lg_tensor_take_range(&model.inputs[0], texts[i]), "%s", texts[i]);
        ck_assert(!model.inputs[0].has_range);
    }
}
END_TEST

START_TEST(test_payload_requests_differ_and_repeat_by_seed)
{
    init_ids();
    ck_assert_int_eq(create("fixed:8", NULL, 1, 255), BASE_OK);
    Inference__ModelInferRequest *a = decode(1);
    Inference__ModelInferRequest *b = decode(2);
    ck_assert_mem_ne(a->raw_input_contents[0].data, b->raw_input_contents[0].data, 64);
    lg_payload_free(payload);
    ck_assert_int_eq(create("fixed:8", NULL, 1, 255), BASE_OK);
    Inference__ModelInferRequest *again = decode(1);
    ck_assert_mem_eq(a->raw_input_contents[0].data, again->raw_input_contents[0].data, 64);
    inference__model_infer_request__free_unpacked(a, NULL);
    inference__model_infer_request__free_unpacked(b, NULL);
    inference__model_infer_request__free_unpacked(again, NULL);
}
END_TEST

START_TEST(test_payload_text_lines_become_byte_ids)
{
    init_ids();
    char path[UTIL_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/t.txt", folder);
    util_write_file(path, "ab\n\n\xc3\xbc\r\nxyz");
    ck_assert_int_eq(create(NULL, path, 1, 255), BASE_OK);
    static const char *const lines[] = {"ab", "\xc3\xbc", "xyz"};
    for (uint64_t index = 0; index < 9; index++) {
        const char *line = lines[index % 3];
        Inference__ModelInferRequest *request = decode(index);
        ck_assert_int_eq(request->inputs[0]->shape[0], 1);
        ck_assert_int_eq(request->inputs[0]->shape[1], (int64_t)strlen(line));
        for (size_t i = 0; i < strlen(line); i++) {
            int64_t id = 0;
            memcpy(&id, request->raw_input_contents[0].data + i * sizeof(id), sizeof(id));
            ck_assert_int_eq(id, (uint8_t)line[i]);
        }
        inference__model_infer_request__free_unpacked(request, NULL);
    }
}
END_TEST

START_TEST(test_payload_text_errors_name_the_file)
{
    init_ids();
    char path[UTIL_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/t.txt", folder);
    ck_assert_int_eq(create(NULL, path, 1, 255), BASE_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    util_write_file(path, "\n\n");
    ck_assert_int_eq(create(NULL, path, 1, 255), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    util_write_file(path, "a\n");
    init_floats();
    ck_assert_int_eq(create(NULL, path, 1, 255), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "does not take text"));
}
END_TEST

/* To a model of text lines go as they are, one text each, behind their lengths. */
START_TEST(test_payload_text_lines_become_texts)
{
    static const char *const lines[] = {"\x03\0\0\0ab ", "\x02\0\0\0\xc3\xa4"};
    char path[UTIL_PATH_BYTES + 16];
    struct lg_metadata_input input = {"text", "BYTES", batch_time, 1};
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    ck_assert_int_eq(model.inputs[0].dims[0], LG_DIM_BATCH);
    ck_assert_int_eq(create("fixed:2", NULL, 1, 255), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "--text FILE"));
    (void)snprintf(path, sizeof(path), "%s/lines.txt", folder);
    util_write_file(path, "ab \n\n\xc3\xa4\n");
    ck_assert_int_eq(create(NULL, path, 1, 255), BASE_OK);
    for (uint64_t index = 0; index < 4; index++) {
        const size_t bytes = index % 2 == 0 ? 7 : 6;
        Inference__ModelInferRequest *request = decode(index);
        ck_assert_str_eq(request->inputs[0]->datatype, "BYTES");
        ck_assert_uint_eq(request->inputs[0]->n_shape, 1);
        ck_assert_int_eq(request->inputs[0]->shape[0], 1);
        ck_assert_uint_eq(request->raw_input_contents[0].len, bytes);
        ck_assert_mem_eq(request->raw_input_contents[0].data, lines[index % 2], bytes);
        inference__model_infer_request__free_unpacked(request, NULL);
    }
    lg_payload_free(payload);
    payload = NULL;
    ck_assert_int_eq(lg_payload_create_text(&model, "xyz", 3, &payload, &error), BASE_OK);
    Inference__ModelInferRequest *request = decode(0);
    ck_assert_mem_eq(request->raw_input_contents[0].data, "\x03\0\0\0xyz", 7);
    inference__model_infer_request__free_unpacked(request, NULL);
    lg_payload_free(payload);
    payload = NULL;
    input.rank = 2;
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    ck_assert_int_eq(create(NULL, path, 1, 255), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "does not take text"));
    payload = NULL;
}
END_TEST

START_TEST(test_payload_too_large_is_refused)
{
    struct lg_metadata_input input = {"x", "FP32", batch_time_4, 3};
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    ck_assert_int_eq(create("fixed:1000000", NULL, 1000, 0), BASE_INVALID_ARGUMENT);
    model.inputs[0].dims[2] = INT64_MAX;
    ck_assert_int_eq(create("fixed:2", NULL, 1, 0), BASE_INVALID_ARGUMENT);
}
END_TEST

START_TEST(test_payload_when_memory_fails_returns_exhausted)
{
    init_floats();
    bool succeeded = false;
    for (uint64_t n = 1; n < 50 && !succeeded; n++) {
        base_alloc_fail_at(n);
        enum base_status status = create("fixed:3", NULL, 1, 255);
        base_alloc_fail_at(0);
        succeeded = status == BASE_OK;
        ck_assert(succeeded || status == BASE_RESOURCE_EXHAUSTED);
    }
    ck_assert(succeeded);
}
END_TEST

START_TEST(test_values_halves_and_floats_are_finite)
{
    struct base_random random = util_random(2);
    struct lg_metadata_input input = {"x", "FP16", batch_time, 2};
    uint16_t halves[256];
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    lg_values_fill(model.inputs[0].datatype, NULL, &random, (uint8_t *)halves, sizeof(halves));
    for (size_t i = 0; i < 256; i++) {
        ck_assert_uint_eq(halves[i] & 0x7c00, 0x3800); // exponent of [0.5, 1)
    }
    input.datatype = "FP64";
    double doubles[256];
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    lg_values_fill(model.inputs[0].datatype, NULL, &random, (uint8_t *)doubles, sizeof(doubles));
    for (size_t i = 0; i < 256; i++) {
        ck_assert(fabs(doubles[i]) <= 1);
    }
    input.datatype = "BOOL";
    uint8_t bools[256];
    ck_assert_int_eq(init_model(&input, 1, NULL), BASE_OK);
    lg_values_fill(model.inputs[0].datatype, NULL, &random, bools, sizeof(bools));
    for (size_t i = 0; i < 256; i++) {
        ck_assert_uint_le(bools[i], 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("payload");
    TCase *tcase = tcase_create("requests");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_model_first_open_dim_is_the_batch);
    tcase_add_test(tcase, test_model_lone_open_dim_is_the_length);
    tcase_add_test(tcase, test_model_open_dim_of_a_state_is_the_batch);
    tcase_add_test(tcase, test_model_shape_of_the_user_wins);
    tcase_add_test(tcase, test_model_that_cannot_be_filled_is_refused);
    tcase_add_test(tcase, test_model_of_graphs_is_refused);
    tcase_add_test(tcase, test_payload_decodes_to_what_was_asked);
    tcase_add_test(tcase, test_payload_ids_stay_within_the_vocabulary);
    tcase_add_test(tcase, test_payload_integers_are_what_the_model_takes);
    tcase_add_test(tcase, test_model_texts_that_are_no_range);
    tcase_add_test(tcase, test_payload_requests_differ_and_repeat_by_seed);
    tcase_add_test(tcase, test_payload_text_lines_become_byte_ids);
    tcase_add_test(tcase, test_payload_text_errors_name_the_file);
    tcase_add_test(tcase, test_payload_text_lines_become_texts);
    tcase_add_test(tcase, test_payload_too_large_is_refused);
    tcase_add_test(tcase, test_payload_when_memory_fails_returns_exhausted);
    tcase_add_test(tcase, test_values_halves_and_floats_are_finite);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
