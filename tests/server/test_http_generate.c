/* Bodies of generate: how what a person writes becomes tensors, what is refused and how it is said,
 * and how an answer is written. */
#include "base/mem.h"
#include "server/http/json.h"
#include "tests/util.h"

#include <string.h>

static struct srv_http_codec codec;
static struct srv_request request;
static struct base_error error;

/* ids [batch, time], x [time, batch, 2], flag [batch] of BOOL, scale [], text [batch]. */
static const struct srv_signature signature = {
    .n_inputs = 5,
    .inputs = {{.name = "ids", .datatype = "INT64", .rank = 2, .dims = {-1, -1}},
               {.name = "x", .datatype = "FP32", .rank = 3, .dims = {-1, -1, 2}, .batch_axis = 1},
               {.name = "flag", .datatype = "BOOL", .rank = 1, .dims = {-1}},
               {.name = "scale", .datatype = "FP32", .rank = 0, .batch_axis = -1},
               {.name = "text", .datatype = "BYTES", .rank = 1, .dims = {-1}}},
};

static void setup(void)
{
    srv_http_codec_init(&codec, 1u << 20);
    memset(&request, 0, sizeof request);
    memset(&error, 0, sizeof error);
    base_arena_init(&request.arena, 4096, 1u << 22);
}

static void teardown(void)
{
    base_arena_release(&request.arena);
    srv_http_codec_release(&codec);
}

/* Decodes a copy of exactly these bytes, so that ASan sees a read past their end. */
static enum base_status decode_bytes(const struct srv_signature *of, const void *text, size_t bytes)
{
    static uint8_t *copy;
    base_free(copy);
    copy = base_alloc(bytes == 0 ? 1 : bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, bytes);
    base_arena_reset(&request.arena);
    const struct srv_http_body body = {copy, bytes, bytes};
    return srv_http_decode_generate(&codec, &body, of, &request, &error);
}

static enum base_status decode_for(const struct srv_signature *of, const char *text)
{
    return decode_bytes(of, text, strlen(text));
}

static const struct srv_tensor *input(const char *name)
{
    for (uint32_t i = 0; i < request.n_inputs; i++) {
        if (strcmp(request.inputs[i].name, name) == 0) {
            return &request.inputs[i];
        }
    }
    ck_abort_msg("no input '%s'", name);
    return NULL;
}

static void decodes(const char *text)
{
    ck_assert_msg(decode_for(&signature, text) == BASE_OK, "%s: %s", text, error.message);
}

static void refused(const char *text, enum base_status status, const char *why)
{
    ck_assert_msg(decode_for(&signature, text) == status, "%s: %s", text, error.message);
    ck_assert_msg(strstr(error.message, why) != NULL, "%s: \"%s\" is not in \"%s\"", text, why,
                  error.message);
}

static void expect_shape(const char *name, uint32_t rank, const int64_t *shape)
{
    const struct srv_tensor *tensor = input(name);
    ck_assert_uint_eq(tensor->rank, rank);
    for (uint32_t i = 0; i < rank; i++) {
        ck_assert_int_eq(tensor->shape[i], shape[i]);
    }
}

static void expect_ids(const char *text, int64_t batch, int64_t time, const int64_t *ids)
{
    const int64_t shape[] = {batch, time};
    decodes(text);
    expect_shape("ids", 2, shape);
    ck_assert_uint_eq(input("ids")->bytes, (size_t)(batch * time) * sizeof(int64_t));
    ck_assert_mem_eq(input("ids")->data, ids, input("ids")->bytes);
}

START_TEST(test_axis_of_the_batch_may_be_left_out)
{
    static const int64_t ids[] = {7, -1, 9223372036854775807, 9};
    expect_ids("{\"ids\": [7, -1, 9223372036854775807, 9]}", 1, 4, ids);
    expect_ids("{\"ids\": [[7, -1, 9223372036854775807, 9]]}", 1, 4, ids);
    expect_ids("{\"ids\": [[7, -1], [9223372036854775807, 9]]}", 2, 2, ids);
    expect_ids("{\"ids\": [[7], [-1]\n, [ 9223372036854775807 ], [9]]}", 4, 1, ids);
    expect_ids("\t{ \"ids\" : 7 } ", 1, 1, ids);
    expect_ids("{\"ids\": []}", 1, 0, ids);
    expect_ids("{\"ids\": [[],[]]}", 2, 0, ids);
    ck_assert_str_eq(input("ids")->datatype, "INT64");
    ck_assert_uint_eq(request.n_inputs, 1);
}
END_TEST

START_TEST(test_axis_of_the_batch_in_the_middle)
{
    static const float x[] = {1, 2, 3, 4};
    static const int64_t left_out[] = {2, 1, 2};
    static const int64_t given[] = {1, 2, 2};
    decodes("{\"x\": [[1, 2], [3, 4.0]]}");
    expect_shape("x", 3, left_out);
    ck_assert_mem_eq(input("x")->data, x, sizeof x);
    decodes("{\"x\": [[[1, 2], [3, 4e0]]]}");
    expect_shape("x", 3, given);
    ck_assert_mem_eq(input("x")->data, x, sizeof x);
}
END_TEST

START_TEST(test_values_of_all_kinds)
{
    static const int64_t one[] = {1};
    static const int64_t three[] = {3};
    decodes("{\"flag\": [true, false, 1], \"scale\": 0.1, \"text\": \"a\\u00e4\\n\"}");
    expect_shape("flag", 1, three);
    ck_assert_mem_eq(input("flag")->data, "\1\0\1", 3);
    expect_shape("scale", 0, NULL);
    const float tenth = 0.1f;
    ck_assert_mem_eq(input("scale")->data, &tenth, sizeof tenth);
    expect_shape("text", 1, one);
    ck_assert_uint_eq(input("text")->bytes, 8);
    ck_assert_mem_eq(input("text")->data, "\4\0\0\0a\xc3\xa4\n", 8);
    decodes("{\"text\": [\"\", \"b\", \"]\"], \"flag\": false}");
    expect_shape("text", 1, three);
    ck_assert_mem_eq(input("text")->data, "\0\0\0\0\1\0\0\0b\1\0\0\0]", 14);
    expect_shape("flag", 1, one);
}
END_TEST

/* Members that look like what is looked for: in strings, in objects, behind escapes. */
START_TEST(test_where_a_value_stands)
{
    static const int64_t ids[] = {5, 6};
    expect_ids(
        "{\"a\\\"ids\": [1], \"b\": {\"ids\": [2]}, \"c\": \"\\\"ids\\\": [3]\", \"ids\":[5,6]}", 1,
        2, ids);
    expect_ids("{\"a\": 1e5,\"b\":null ,\"c\":[{}, [\"]\"]],\"ids\":[5,6],\"d\":-0.5}", 1, 2, ids);
    refused("{\"\\u0069ds\": [5, 6]}", BASE_INVALID_ARGUMENT, "its name contains an escape");
}
END_TEST

START_TEST(test_parameters)
{
    decodes("{\"ids\": 1, \"id\": \"q\", \"parameters\": {\"max_steps\": 9, \"beam\": 2, "
            "\"timeout\": 5,"
            " \"own\": []}}");
    ck_assert_str_eq(request.id, "q");
    ck_assert_uint_eq(request.steps_max, 9);
    ck_assert_uint_eq(request.beam, 2);
    ck_assert_uint_eq(request.timeout_ns, 5000);
    decodes("{\"ids\": 1, \"max_steps\": 7, \"stream\": true, \"temperature\": 0}");
    ck_assert_uint_eq(request.steps_max, 7);
    ck_assert_uint_eq(request.beam, 0);
    ck_assert(request.in_parts);
    decodes("{\"ids\": 1}"); // as it was
    ck_assert(request.in_parts);
    decodes("{\"ids\": 1, \"stream\": false}");
    ck_assert(!request.in_parts);
    // An input that is called like a parameter is the input.
    struct srv_signature own = signature;
    own.inputs[0].name = "beam";
    ck_assert_int_eq(decode_for(&own, "{\"beam\": [[1, 2], [3, 4]], \"max_steps\": 7}"), BASE_OK);
    ck_assert_uint_eq(request.beam, 0);
    ck_assert_uint_eq(request.steps_max, 0);
    ck_assert_uint_eq(request.n_inputs, 1);
}
END_TEST

START_TEST(test_outputs)
{
    decodes("{\"ids\": 1, \"outputs\": [\"y\", \"z\"]}");
    ck_assert_uint_eq(request.n_wanted, 2);
    ck_assert_str_eq(request.wanted[1], "z");
    decodes("{\"ids\": 1}");
    ck_assert_uint_eq(request.n_wanted, 0);
    struct srv_signature own = signature;
    own.inputs[0].name = "outputs";
    ck_assert_int_eq(decode_for(&own, "{\"outputs\": [[1]]}"), BASE_OK);
    ck_assert_uint_eq(request.n_wanted, 0);
}
END_TEST

/* core says that the model is not there. */
START_TEST(test_no_model)
{
    ck_assert_int_eq(decode_for(NULL, "{\"ids\": [[\"?\"]], \"id\": \"q\"}"), BASE_OK);
    ck_assert_uint_eq(request.n_inputs, 0);
    ck_assert_str_eq(request.id, "q");
}
END_TEST

static const struct {
    const char *text;
    enum base_status status;
    const char *why;
} bad[] = {
    {"", BASE_INVALID_ARGUMENT, "no JSON"},
    {"{", BASE_INVALID_ARGUMENT, "JSON: "},
    {"[1]", BASE_INVALID_ARGUMENT, "a JSON object"},
    {"\"ids\"", BASE_INVALID_ARGUMENT, "JSON: "},
    {"{\"ids\": 1, \"ids\": 2}", BASE_INVALID_ARGUMENT, "duplicate"},
    {"{\"ids\": [1, [2]]}", BASE_INVALID_ARGUMENT, "'ids': data element 1"},
    {"{\"ids\": [[1], [2, 3]]}", BASE_INVALID_ARGUMENT, "'ids': data has"},
    {"{\"ids\": [[1, 2], [3]]}", BASE_INVALID_ARGUMENT, "'ids': data has"},
    {"{\"ids\": [[[1]]]}", BASE_INVALID_ARGUMENT, "'ids': arrays are nested 3 deep"},
    {"{\"ids\": [[[[[[[[[[1]]]]]]]]]]}", BASE_INVALID_ARGUMENT,
     "'ids': data element 0 is an array"},
    {"{\"x\": [1, 2]}", BASE_INVALID_ARGUMENT,
     "'x': arrays are nested 1 deep, the model's tensor has 3"},
    {"{\"scale\": [1]}", BASE_INVALID_ARGUMENT, "'scale': arrays are nested 1 deep"},
    {"{\"ids\": 1.5}", BASE_INVALID_ARGUMENT, "'ids': data element 0"},
    {"{\"ids\": \"one\"}", BASE_INVALID_ARGUMENT, "'ids': data element 0"},
    {"{\"ids\": [1, null]}", BASE_INVALID_ARGUMENT, "'ids': data element 1"},
    {"{\"ids\": null}", BASE_INVALID_ARGUMENT, "'ids' has to be a number"},
    {"{\"ids\": {}}", BASE_INVALID_ARGUMENT, "'ids' has to be a number"},
    {"{\"flag\": 2}", BASE_INVALID_ARGUMENT, "neither true nor false"},
    {"{\"text\": 5}", BASE_INVALID_ARGUMENT, "'text' is text"},
    {"{\"text\": {}}", BASE_INVALID_ARGUMENT, "'text' has to be a string"},
    {"{\"text\": [[\"a\"]]}", BASE_INVALID_ARGUMENT, "'text': data element 0 is not a string"},
    {"{\"text\": [\"a\", 1]}", BASE_INVALID_ARGUMENT, "'text': data element 1 is not a string"},
    {"{\"ids\": 1, \"parameters\": 1}", BASE_INVALID_ARGUMENT, "parameters of the request"},
    {"{\"ids\": 1, \"parameters\": {\"beam\": -1}}", BASE_INVALID_ARGUMENT, "'beam'"},
    {"{\"ids\": 1, \"stream\": 1}", BASE_INVALID_ARGUMENT, "'stream' has to be true or false"},
    {"{\"ids\": 1, \"id\": 1}", BASE_INVALID_ARGUMENT, "id has to be a string"},
    {"{\"ids\": 1, \"outputs\": []}", BASE_INVALID_ARGUMENT, "outputs has to be an array of 1"},
    {"{\"ids\": 1, \"outputs\": \"y\"}", BASE_INVALID_ARGUMENT, "outputs has to be an array of 1"},
    {"{\"ids\": 1, \"outputs\": [{\"name\": \"y\"}]}", BASE_INVALID_ARGUMENT, "an array of names"},
    {"{\"ids\": 1, \"outputs\": [\"y\", \"y\"]}", BASE_INVALID_ARGUMENT, "'y' is requested twice"},
    {"{\"inputs\": [{\"name\": \"ids\", \"data\": [1]}]}", BASE_INVALID_ARGUMENT,
     "by their own names"},
};

START_TEST(test_refusals)
{
    refused(bad[_i].text, bad[_i].status, bad[_i].why);
}
END_TEST

START_TEST(test_error_names_the_request)
{
    refused("{\"id\": \"q7\", \"ids\": null}", BASE_INVALID_ARGUMENT,
            "[request id: q7] input 'ids'");
}
END_TEST

/* Too large for generate: infer's way is told nothing of, but the code says it. */
START_TEST(test_large_bodies)
{
    static char text[2u << 20];
    size_t length = (size_t)snprintf(text, sizeof text, "{\"ids\": [1");
    while (length < (1u << 20) - 10) {
        memcpy(text + length, ",1", 2);
        length += 2;
    }
    memcpy(text + length, "]}", 3);
    refused(text, BASE_RESOURCE_EXHAUSTED, "too large");
    memset(text, '[', 64);
    memcpy(text, "{\"ids\":", 7);
    text[64] = '\0';
    refused(text, BASE_INVALID_ARGUMENT, "nested deeper");
}
END_TEST

/* ---- Answers ---- */

static void expect_answer(const struct srv_tensor *outputs, uint32_t n, const char *want)
{
    struct base_buf json;
    struct srv_request answered = {.model_name = "m", .id = "", .n_outputs = n};
    struct srv_tensor copies[4];
    memcpy(copies, outputs, n * sizeof copies[0]);
    answered.outputs = copies;
    memcpy(answered.version, "3", 2);
    base_buf_init(&json, 4096);
    srv_http_encode_generate(&answered, &json);
    ck_assert(!json.failed);
    ck_assert_str_eq(json.data, want);
    base_buf_release(&json);
}

START_TEST(test_answers)
{
    static const int64_t numbers[] = {1, 2, 3, 4, 5, 6};
    static const uint8_t texts[] = "\1\0\0\0a\2\0\0\0\xc3\xa4";
    const struct srv_tensor rows = {.name = "y",
                                    .datatype = "INT64",
                                    .rank = 2,
                                    .shape = {1, 6},
                                    .data = (const uint8_t *)numbers,
                                    .bytes = sizeof numbers};
    struct srv_tensor outputs[4] = {rows, rows, rows, rows};
    expect_answer(outputs, 1, "{\"model_name\":\"m\",\"model_version\":\"3\",\"y\":[1,2,3,4,5,6]}");
    outputs[0].batch_axis = -1;
    expect_answer(outputs, 1,
                  "{\"model_name\":\"m\",\"model_version\":\"3\",\"y\":[[1,2,3,4,5,6]]}");
    outputs[0] = rows;
    outputs[0].shape[0] = 2;
    outputs[0].shape[1] = 3;
    outputs[1].rank = 3;
    outputs[1].shape[0] = 3;
    outputs[1].shape[1] = 1;
    outputs[1].shape[2] = 2;
    outputs[1].batch_axis = 1;
    outputs[2].rank = 1;
    outputs[2].bytes = 8;
    outputs[3] = (struct srv_tensor){
        .name = "t", .datatype = "BYTES", .rank = 1, .shape = {2}, .data = texts, .bytes = 11};
    expect_answer(outputs, 4,
                  "{\"model_name\":\"m\",\"model_version\":\"3\",\"y\":[[1,2,3],[4,5,6]],"
                  "\"y\":[[1,2],[3,4],[5,6]],\"y\":1,\"t\":[\"a\",\"\xc3\xa4\"]}");
    outputs[3].shape[0] = 1;
    outputs[3].bytes = 5;
    outputs[0].shape[0] = 1;
    outputs[0].shape[1] = 0;
    outputs[0].bytes = 0;
    outputs[1].shape[0] = 0;
    outputs[1].bytes = 0;
    outputs[2].datatype = "FP32";
    outputs[2].batch_axis = -1;
    outputs[2].bytes = 4;
    outputs[2].data = (const uint8_t *)"\0\0\0\x3f";
    expect_answer(outputs, 4,
                  "{\"model_name\":\"m\",\"model_version\":\"3\",\"y\":[],\"y\":[],\"y\":[0.5],"
                  "\"t\":\"a\"}");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_generate");
    TCase *tcase = tcase_create("generate");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_axis_of_the_batch_may_be_left_out);
    tcase_add_test(tcase, test_axis_of_the_batch_in_the_middle);
    tcase_add_test(tcase, test_values_of_all_kinds);
    tcase_add_test(tcase, test_where_a_value_stands);
    tcase_add_test(tcase, test_parameters);
    tcase_add_test(tcase, test_outputs);
    tcase_add_test(tcase, test_no_model);
    tcase_add_loop_test(tcase, test_refusals, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tcase, test_error_names_the_request);
    tcase_add_test(tcase, test_large_bodies);
    tcase_add_test(tcase, test_answers);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
