/* Infer bodies: what is accepted, what is refused and how it is said, what is written. */
#include "server/http/json.h"

#include "base/mem.h"
#include "server/about.h"
#include "server/core.h"
#include "server/http/json_cut.h"
#include "server/http/json_data.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

#define REQUEST_BYTES (16u << 20)

static struct srv_http_codec codec;
static struct srv_request request;
static struct srv_http_form form;
static struct base_error error;

static void setup(void)
{
    srv_http_codec_init(&codec, 1u << 20);
    memset(&request, 0, sizeof request);
    memset(&error, 0, sizeof error);
    base_arena_init(&request.arena, 4096, REQUEST_BYTES);
}

static void teardown(void)
{
    base_arena_release(&request.arena);
    srv_http_codec_release(&codec);
}

/* Decodes a copy of exactly these bytes, so that ASan sees a read past their end. */
static enum base_status decode_bytes(const void *body, size_t bytes, size_t json_bytes)
{
    static uint8_t *copy;
    base_free(copy);
    copy = base_alloc(bytes == 0 ? 1 : bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, body, bytes);
    base_arena_reset(&request.arena);
    struct srv_http_body whole = {copy, bytes, json_bytes};
    return srv_http_decode(&codec, &whole, &request, &form, &error);
}

static enum base_status decode(const char *text)
{
    return decode_bytes(text, strlen(text), strlen(text));
}

static void assert_decodes(const char *text)
{
    ck_assert_msg(decode(text) == BASE_OK, "%.200s: %s", text, error.message);
}

static void assert_refused(const char *text, enum base_status status, const char *why)
{
    ck_assert_msg(decode(text) == status, "%.200s: %s", text, error.message);
    ck_assert_msg(strstr(error.message, why) != NULL, "%.200s: \"%s\" is not in \"%s\"", text, why,
                  error.message);
}

/* A body with one input of the given JSON members. */
static const char *with_input(const char *members)
{
    static char text[4096];
    int length = snprintf(text, sizeof text, "{\"inputs\":[{\"name\":\"x\",%s}]}", members);
    ck_assert(length > 0 && (size_t)length < sizeof text);
    return text;
}

static float f32_at(uint32_t input, size_t index)
{
    float value;
    ck_assert_uint_lt((index + 1) * sizeof value - 1, request.inputs[input].bytes);
    memcpy(&value, request.inputs[input].data + index * sizeof value, sizeof value);
    return value;
}

static int64_t i64_at(uint32_t input, size_t index)
{
    int64_t value;
    ck_assert_uint_lt((index + 1) * sizeof value - 1, request.inputs[input].bytes);
    memcpy(&value, request.inputs[input].data + index * sizeof value, sizeof value);
    return value;
}

START_TEST(test_json_whole_request)
{
    assert_decodes(
        "{\"id\":\"a1\",\"parameters\":{\"max_steps\":9,\"beam\":2,\"timeout\":1500,\"priority\":2,"
        "\"mine\":[1]},"
        "\"inputs\":[{\"data\":[1,2.5,-3e0],\"shape\":[1,3],\"datatype\":\"FP32\","
        "\"name\":\"x\"},{\"name\":\"n\",\"shape\":[1],\"datatype\":\"INT64\","
        "\"parameters\":{},\"data\":[3]}],"
        "\"outputs\":[{\"name\":\"y\"},{\"name\":\"z\",\"parameters\":"
        "{\"binary_data\":true,\"classification\":0}}],\"extra\":null}");
    ck_assert_str_eq(request.id, "a1");
    ck_assert_uint_eq(request.timeout_ns, 1500000);
    ck_assert_uint_eq(request.steps_max, 9);
    ck_assert_uint_eq(request.beam, 2);
    ck_assert_uint_eq(request.n_inputs, 2);
    ck_assert_str_eq(request.inputs[0].name, "x");
    ck_assert_str_eq(request.inputs[0].datatype, "FP32");
    ck_assert_uint_eq(request.inputs[0].rank, 2);
    ck_assert_int_eq(request.inputs[0].shape[1], 3);
    ck_assert_uint_eq(request.inputs[0].bytes, 12);
    ck_assert(f32_at(0, 1) == 2.5f && f32_at(0, 2) == -3.0f);
    ck_assert_int_eq(i64_at(1, 0), 3);
    ck_assert_uint_eq(request.n_wanted, 2);
    ck_assert_str_eq(request.wanted[1], "z");
    ck_assert(!form.binary[0] && form.binary[1] && !form.binary[2]);
}
END_TEST

START_TEST(test_json_nested_data_and_white_space)
{
    assert_decodes(with_input("\"datatype\":\"INT32\",\"shape\":[2,1,2],\"data\" : "
                              "\r\n[ [[1,\t2]] ,[[ 3,-4 ]]]"));
    int32_t want[] = {1, 2, 3, -4};
    ck_assert_uint_eq(request.inputs[0].bytes, sizeof want);
    ck_assert_mem_eq(request.inputs[0].data, want, sizeof want);
}
END_TEST

START_TEST(test_json_empty_tensors_and_scalars)
{
    assert_decodes(with_input("\"datatype\":\"FP32\",\"shape\":[0,3],\"data\":[]"));
    ck_assert_uint_eq(request.inputs[0].bytes, 0);
    assert_decodes(with_input("\"datatype\":\"FP32\",\"shape\":[2,0],\"data\":[[],[]]"));
    assert_decodes(with_input("\"datatype\":\"FP32\",\"shape\":[],\"data\":[7]"));
    ck_assert(f32_at(0, 0) == 7);
    ck_assert_uint_eq(request.inputs[0].rank, 0);
}
END_TEST

START_TEST(test_json_integers_are_exact)
{
    assert_decodes(with_input("\"datatype\":\"INT64\",\"shape\":[4],\"data\":"
                              "[9007199254740993,-9223372036854775808,9223372036854775807,0]"));
    ck_assert_int_eq(i64_at(0, 0), 9007199254740993);
    ck_assert_int_eq(i64_at(0, 1), INT64_MIN);
    ck_assert_int_eq(i64_at(0, 2), INT64_MAX);
    assert_decodes(with_input("\"datatype\":\"INT32\",\"shape\":[2],\"data\":"
                              "[2147483647,-2147483648]"));
}
END_TEST

START_TEST(test_json_elements_of_a_byte)
{
    static const uint8_t truths[] = {1, 0, 1, 0};
    static const uint8_t bytes[] = {0, 255, 0x80, 127};
    assert_decodes(with_input("\"datatype\":\"BOOL\",\"shape\":[2,2],\"data\":"
                              "[[true, false],[1,0 ]]"));
    ck_assert_uint_eq(request.inputs[0].bytes, sizeof truths);
    ck_assert_mem_eq(request.inputs[0].data, truths, sizeof truths);
    assert_decodes(with_input("\"datatype\":\"UINT8\",\"shape\":[4],\"data\":[0,255,128,127]"));
    ck_assert_uint_eq(request.inputs[0].bytes, sizeof bytes);
    ck_assert_mem_eq(request.inputs[0].data, bytes, sizeof bytes);
    assert_decodes(with_input("\"datatype\":\"INT8\",\"shape\":[4],\"data\":[0,-1,-128,127]"));
    ck_assert_mem_eq(request.inputs[0].data, bytes, sizeof bytes);
}
END_TEST

/* The nearest halves, and as few digits as give the float that they are. */
START_TEST(test_json_halves)
{
    static const uint16_t halves[] = {0x3C00, 0xC000, 0x2E66, 0x7BFF, 0x0001};
    static const uint16_t brains[] = {0x3F80, 0xC000, 0x3DCD, 0x4780, 0x3380};
    struct base_buf text;
    base_buf_init(&text, 1u << 12);
    assert_decodes(
        with_input("\"datatype\":\"FP16\",\"shape\":[5],\"data\":[1,-2.0,0.1,65519,5e-8]"));
    ck_assert_uint_eq(request.inputs[0].bytes, sizeof halves);
    ck_assert_mem_eq(request.inputs[0].data, halves, sizeof halves);
    srv_http_data_write(&text, srv_about_datatype_named("FP16"), request.inputs[0].data,
                        sizeof halves);
    ck_assert_str_eq(text.data, "[1.0,-2.0,0.099975586,65504.0,5.9604645e-8]");
    base_buf_clear(&text);
    assert_decodes(
        with_input("\"datatype\":\"BF16\",\"shape\":[5],\"data\":[1,-2.0,0.1,65519,5.97e-8]"));
    ck_assert_mem_eq(request.inputs[0].data, brains, sizeof brains);
    srv_http_data_write(&text, srv_about_datatype_named("BF16"), request.inputs[0].data,
                        sizeof brains);
    ck_assert_str_eq(text.data, "[1.0,-2.0,0.100097656,65536.0,5.9604645e-8]");
    base_buf_release(&text);
}
END_TEST

/* The nearest floats, as doubles, and digits that give the same doubles. */
START_TEST(test_json_doubles)
{
    static const double doubles[] = {1, -2, (double)0.1f, 16777216, INFINITY, (double)1e-30f};
    struct base_buf text;
    base_buf_init(&text, 1u << 12);
    assert_decodes(with_input("\"datatype\":\"FP64\",\"shape\":[6],\"data\":"
                              "[1,-2.0,0.1,16777217,Infinity,1e-30]"));
    ck_assert_uint_eq(request.inputs[0].bytes, sizeof doubles);
    ck_assert_mem_eq(request.inputs[0].data, doubles, sizeof doubles);
    srv_http_data_write(&text, srv_about_datatype_named("FP64"), request.inputs[0].data,
                        sizeof doubles);
    ck_assert_str_eq(text.data, "[1.0,-2.0,0.10000000149011612,16777216.0,Infinity,"
                                "1.0000000031710769e-30]");
    base_buf_release(&text);
}
END_TEST

START_TEST(test_json_float_specials)
{
    assert_decodes(with_input("\"datatype\":\"FP32\",\"shape\":[3],\"data\":"
                              "[NaN, Infinity,-Infinity]"));
    ck_assert(isnan(f32_at(0, 0)) && isinf(f32_at(0, 1)) && f32_at(0, 2) < 0);
}
END_TEST

#define I64(data) "\"datatype\":\"INT64\",\"shape\":[2],\"data\":" data
#define F32(data) "\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":" data

static const struct {
    const char *members, *why;
} bad_inputs[] = {
    {I64("[1.0,2]"), "element 0 has a fraction"},
    {I64("[1,2e3]"), "element 1 has a fraction or an exponent"},
    {I64("[1,9223372036854775808]"), "does not fit 64 bits"},
    {I64("[1,true]"), "is not an integer"},
    {I64("[1,\"2\"]"), "is not an integer"},
    {I64("[1,null]"), "is not an integer"},
    {I64("[1,NaN]"), "is not an integer"},
    {I64("[1]"), "fewer elements than its shape"},
    {I64("[1   ]"), "data has 1 elements, its shape 2"},
    {I64("[1,2,3]"), "more than the 2 elements"},
    {I64("[]"), "fewer elements than its shape"},
    {I64("[1 2]"), "not preceded by a comma"},
    {I64("[1,,2]"), "is not an integer"},
    {I64("[,1]"), "is not an integer"},
    {I64("[1,2,]"), "more than the 2"},
    {I64("[[1,2]]"), "deeper than the shape"},
    {I64("[1,{}]"), "is not an integer"},
    {I64("5"), "data of an input has to be an array"},
    {I64("\"[1,2]\""), "data of an input has to be an array"},
    {I64("0"), "data of an input has to be an array"},
    {"\"datatype\":\"INT32\",\"shape\":[1],\"data\":[2147483648]", "does not fit INT32"},
    {"\"datatype\":\"INT32\",\"shape\":[1],\"data\":[-2147483649]", "does not fit INT32"},
    {"\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[256]", "element 0 does not fit UINT8"},
    {"\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[-1]", "does not fit UINT8"},
    {"\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[true]", "is not an integer"},
    {"\"datatype\":\"INT8\",\"shape\":[2],\"data\":[1,128]", "element 1 does not fit INT8"},
    {"\"datatype\":\"INT8\",\"shape\":[1],\"data\":[-129]", "does not fit INT8"},
    {"\"datatype\":\"FP16\",\"shape\":[2],\"data\":[1,65520]", "element 1 is too large for FP16"},
    {"\"datatype\":\"BF16\",\"shape\":[1],\"data\":[-3.4e38]", "is too large for BF16"},
    {"\"datatype\":\"FP16\",\"shape\":[1],\"data\":[true]", "is not a number"},
    {"\"datatype\":\"FP64\",\"shape\":[2],\"data\":[1,1e39]", "element 1 is too large"},
    {"\"datatype\":\"FP64\",\"shape\":[1],\"data\":[true]", "is not a number"},
    {"\"datatype\":\"BOOL\",\"shape\":[1],\"data\":[2]", "is neither true nor false"},
    {"\"datatype\":\"BOOL\",\"shape\":[1],\"data\":[tru]", "is not an integer"},
    {"\"datatype\":\"BOOL\",\"shape\":[1],\"data\":[truee]", "not preceded by a comma"},
    {"\"datatype\":\"BOOL\",\"shape\":[1],\"data\":[0.5]", "has a fraction"},
    {F32("[1e39,0,0,0]"), "too large for FP32"},
    {F32("[[1,2],[3]]"), "1 elements in dimension 1, its shape 2"},
    {F32("[[1,2],3,4]"), "another depth"},
    {F32("[[1,2],[3,4],[]]"), "dimension 1"},
    {F32("[[[1,2],[3,4]]]"), "deeper than the shape"},
    {F32("[[1,2],[3,4]"), "JSON"},
    {F32("[[1,2,3],[4]]"), "dimension 1"},
    {F32("[[1,2]]"), "fewer elements"},
    {F32("[[1,2.5]        ]"), "1 elements in dimension 0, its shape 2"},
    {"\"datatype\":\"UINT64\",\"shape\":[1],\"data\":[1]", "datatype UINT64 is not supported"},
    {"\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"a]b\",\"c\"]",
     "data has 2 elements, its shape another number"},
    {"\"datatype\":\"BYTES\",\"shape\":[4294967296,4294967296],\"data\":[]", "its shape another"},
    {"\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[5]", "data element 0 is not a string"},
    {"\"datatype\":\"BYTES\",\"shape\":[2],\"data\":[\"a\",[\"b\"]]", "data element 1 is not a"},
    {"\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"\\ud800\"]", "JSON: "},
    {"\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"a\" \"b\"]", "near '\"b\"' at byte 69"},
    {"\"datatype\":3,\"shape\":[1],\"data\":[1]", "datatype of an input has to be a string"},
    {"\"shape\":[1],\"data\":[1]", "datatype of an input"},
    {"\"datatype\":\"FP32\",\"data\":[1]", "shape has to be an array"},
    {"\"datatype\":\"FP32\",\"shape\":1,\"data\":[1]", "shape has to be an array"},
    {"\"datatype\":\"FP32\",\"shape\":[-1],\"data\":[1]", "integers not below 0"},
    {"\"datatype\":\"FP32\",\"shape\":[1.0],\"data\":[1]", "integers not below 0"},
    {"\"datatype\":\"FP32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data\":[1]", "at most 8"},
    {"\"datatype\":\"FP32\",\"shape\":[4294967296,4294967296],\"data\":[1]", "fewer elements"},
    {"\"datatype\":\"FP32\",\"shape\":[9223372036854775807],\"data\":[1]", "fewer elements"},
    {"\"datatype\":\"FP32\",\"shape\":[99999999999999999999],\"data\":[1]", "too big integer"},
    {"\"datatype\":\"FP32\",\"shape\":[1]", "needs either data or binary_data_size"},
    {"\"datatype\":\"FP32\",\"shape\":[1],\"d\\u0061ta\":0", "contains an escape"},
    {"\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":{\"shared_memory_region\":\"r\"}",
     "'shared_memory_region' is not implemented"},
    {"\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":1", "have to be an object"},
    {"\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":{\"binary_data_size\":4}",
     "the body has 0 bytes left"},
    {"\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":{\"binary_data_size\":-4}", "not below 0"},
    {"\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1],\"parameters\":{\"binary_data_size\":4}",
     "needs either"},
    {"\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1],\"data\":[1]", "duplicate object key"},
};

START_TEST(test_json_refuses_input)
{
    assert_refused(with_input(bad_inputs[_i].members), BASE_INVALID_ARGUMENT, bad_inputs[_i].why);
}
END_TEST

#define ONE "{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}"

static const struct {
    const char *text, *why;
} bad_bodies[] = {
    {"", "JSON"},
    {"5", "JSON"},
    {"[]", "the body has to be a JSON object"},
    {"{}", "inputs has to be an array"},
    {"{\"inputs\":[]}", "inputs has to be an array of 1"},
    {"{\"inputs\":[5]}", "inputs have to be objects"},
    {"{\"inputs\":[" ONE "," ONE "]}", "input 'x' is given twice"},
    {"{\"inputs\":[" ONE "]} x", "JSON: end of file expected near 'x' at byte 68"},
    {"{\"inputs\":[" ONE "],}", "JSON"},
    {"{\"inputs\":[" ONE "]", "JSON"},
    {"{\"id\":5,\"inputs\":[" ONE "]}", "id has to be a string"},
    {"{\"id\":\"a\\u0000b\",\"inputs\":[" ONE "]}", "JSON"},
    {"{\"id\":\"\xff\",\"inputs\":[" ONE "]}", "JSON"},
    {"{\"inputs\":[" ONE "],\"inputs\":[" ONE "]}", "duplicate object key"},
    {"{\"\\u0069nputs\":[" ONE "]}", "data is not a plain array"},
    {"{\"inputs\":[" ONE "],\"outputs\":{}}", "outputs has to be an array"},
    {"{\"inputs\":[" ONE "],\"outputs\":[\"y\"]}", "outputs have to be objects"},
    {"{\"inputs\":[" ONE "],\"outputs\":[{}]}", "name of an output"},
    {"{\"inputs\":[" ONE "],\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}]}",
     "output 'y' is requested twice"},
    {"{\"inputs\":[" ONE "],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":3}}]}",
     "'classification' is not implemented"},
    {"{\"inputs\":[" ONE "],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":1}}]}",
     "'binary_data' has to be true or false"},
    {"{\"inputs\":[" ONE "],\"parameters\":[]}", "have to be an object"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"timeout\":-1}}", "'timeout' has to be an integer"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"timeout\":1.5}}", "'timeout' has to be an integer"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"max_steps\":-1}}",
     "'max_steps' has to be an integer"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"beam\":\"wide\"}}", "'beam' has to be an integer"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"sequence_id\":-7}}",
     "'sequence_id' has to be an integer not below 0 or a string"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"sequence_id\":true}}",
     "'sequence_id' has to be an integer not below 0 or a string"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"sequence_id\":7,\"sequence_start\":1}}",
     "'sequence_start' has to be true or false"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"sequence_id\":7,\"sequence_step\":-1}}",
     "'sequence_step' has to be an integer"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"sequence_end\":true}}",
     "parameter 'sequence_end' without a 'sequence_id' that is neither 0 nor empty"},
    {"{\"inputs\":[" ONE "],\"parameters\":{\"sequence_id\":\"\",\"sequence_step\":0}}",
     "parameter 'sequence_step' without a 'sequence_id'"},
    {"{\"id\":\"q\",\"inputs\":[" ONE "],\"outputs\":3}", "[request id: q] outputs"},
};

START_TEST(test_json_refuses_body)
{
    assert_refused(bad_bodies[_i].text, BASE_INVALID_ARGUMENT, bad_bodies[_i].why);
    ck_assert_ptr_nonnull(request.id);
}
END_TEST

START_TEST(test_json_unused_parameters_are_accepted)
{
    assert_decodes("{\"parameters\":{\"sequence_id\":0,\"sequence_start\":false,\"headers\":\"\","
                   "\"timeout\":9223372036854775807},\"outputs\":[],\"inputs\":[" ONE "]}");
    ck_assert_uint_eq(request.timeout_ns, 0); // beyond any clock
    ck_assert_uint_eq(request.n_wanted, 0);
}
END_TEST

START_TEST(test_json_sessions)
{
    assert_decodes("{\"parameters\":{\"sequence_id\":7,\"sequence_start\":true,"
                   "\"sequence_step\":0},\"inputs\":[" ONE "]}");
    ck_assert_str_eq(request.sequence.id, "7");
    ck_assert(request.sequence.is_start && !request.sequence.is_end);
    ck_assert(request.sequence.has_step);
    ck_assert_uint_eq(request.sequence.step, 0);
    assert_decodes("{\"parameters\":{\"sequence_id\":\"a b\",\"sequence_end\":true},"
                   "\"inputs\":[" ONE "]}");
    ck_assert_str_eq(request.sequence.id, "a b");
    ck_assert(!request.sequence.is_start && request.sequence.is_end);
    ck_assert(!request.sequence.has_step);
    assert_decodes("{\"inputs\":[" ONE "]}");
    ck_assert_ptr_null(request.sequence.id);
    ck_assert(!request.sequence.is_end);
    char text[400];
    char id[130];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    snprintf(text, sizeof text, "{\"parameters\":{\"sequence_id\":\"%s\"},\"inputs\":[" ONE "]}",
             id);
    assert_refused(text, BASE_INVALID_ARGUMENT, "has 129 bytes, more than 128, or a NUL");
    assert_refused("{\"parameters\":{\"sequence_id\":\"a\\u0000b\"},\"inputs\":[" ONE "]}",
                   BASE_INVALID_ARGUMENT, "");
}
END_TEST

START_TEST(test_json_depth_is_bounded)
{
    // Deep arrays where a tree would be built, within data, and in an unknown member.
    static char text[900000];
    static const char *const heads[] = {
        "", "{\"x\":", "{\"inputs\":[{\"data\":", "{\"inputs\":[{\"shape\":", "{\"parameters\":"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t head = strlen(heads[i]);
        memcpy(text, heads[i], head);
        memset(text + head, '[', sizeof text - 1 - head);
        assert_refused(text, BASE_INVALID_ARGUMENT, "nested deeper than 32 levels");
    }
    memset(text, '{', sizeof text - 1);
    assert_refused(text, BASE_INVALID_ARGUMENT, "nested deeper than 32 levels");
}
END_TEST

START_TEST(test_json_size_is_bounded)
{
    size_t bytes = (1u << 20) + 1;
    char *text = base_alloc(bytes + 1);
    memset(text, ' ', bytes);
    assert_refused(text, BASE_RESOURCE_EXHAUSTED, "the limit is 1048576");
    base_free(text);
}
END_TEST

/* `head`, then as many `unit` as fit the limit, then `tail`. */
static char *fill(const char *head, const char *unit, const char *tail)
{
    size_t limit = 1u << 20;
    struct base_buf text;
    base_buf_init(&text, limit);
    base_buf_text(&text, head);
    while (text.length + strlen(unit) + strlen(tail) <= limit) {
        base_buf_text(&text, unit);
    }
    base_buf_text(&text, tail);
    ck_assert(!text.failed);
    return text.data;
}

START_TEST(test_json_tree_memory_is_bounded)
{
    // Small values outside of data: 46 times the text as a tree, more than the budget.
    char *text = fill("{\"x\":[1", ",1", "],\"inputs\":[" ONE "]}");
    assert_refused(text, BASE_RESOURCE_EXHAUSTED, "JSON around the data is too large");
    ck_assert_uint_le(codec.scratch.used_bytes, (1u << 20) + (4u << 20));
    base_free(text);
    assert_decodes("{\"inputs\":[" ONE "]}"); // and the codec goes on working
    ck_assert_uint_le(codec.scratch.used_bytes, 64u << 10);
}
END_TEST

/* With ",1" between them, MANY numbers fill the codec's limit of 1 MiB. */
#define MANY_HEAD "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT64\",\"data\":[1"
#define MANY_TAIL "],\"shape\":[524253]}]}"
#define MANY      524253u

START_TEST(test_json_data_takes_no_tree)
{
    // Half a million numbers of 8 bytes: their memory and nothing else.
    char *text = fill(MANY_HEAD, ",1", MANY_TAIL);
    assert_decodes(text);
    ck_assert_uint_eq(request.inputs[0].bytes, MANY * 8);
    ck_assert_uint_le(codec.scratch.used_bytes, (1u << 20) + (64u << 10));
    base_free(text);
}
END_TEST

START_TEST(test_json_request_memory_is_bounded)
{
    base_arena_release(&request.arena);
    base_arena_init(&request.arena, 4096, 64u << 10);
    char *text = fill(MANY_HEAD, ",1", MANY_TAIL);
    assert_refused(text, BASE_RESOURCE_EXHAUSTED, "out of memory");
    base_free(text);
}
END_TEST

START_TEST(test_json_too_many_tensors)
{
    struct base_buf text;
    base_buf_init(&text, 1u << 16);
    for (int outputs = 0; outputs < 2; outputs++) {
        base_buf_clear(&text);
        base_buf_text(&text, outputs ? "{\"outputs\":[" : "{\"inputs\":[");
        for (int i = 0; i < 257; i++) {
            base_buf_printf(&text,
                            "%s{\"name\":\"%d\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}",
                            i == 0 ? "" : ",", i);
        }
        base_buf_text(&text, outputs ? "],\"inputs\":[" ONE "]}" : "]}");
        assert_refused(text.data, BASE_INVALID_ARGUMENT,
                       outputs ? "at most 256" : "more than 100 inputs with data");
    }
    base_buf_release(&text);
}
END_TEST

START_TEST(test_json_error_positions_count_the_data)
{
    const char *text = "{\"inputs\":[{\"name\":\"x\",\"data\":[1,2,3,4,5,6,7,8,9]!}]}";
    ck_assert_int_eq(decode(text), BASE_INVALID_ARGUMENT);
    char want[32];
    (void)snprintf(want, sizeof want, "at byte %zu", strcspn(text, "!") + 1);
    ck_assert_msg(strstr(error.message, want) != NULL, "%s: %s", want, error.message);
}
END_TEST

/* Text with tensors' bytes behind it. */
static enum base_status decode_mixed(const char *text, const void *binary, size_t bytes)
{
    struct base_buf body;
    base_buf_init(&body, 1u << 16);
    base_buf_text(&body, text);
    size_t length = body.length;
    base_buf_add(&body, binary, bytes);
    enum base_status status = decode_bytes(body.data, body.length, length);
    base_buf_release(&body);
    return status;
}

#define BINARY(name, size)                                                                         \
    "{\"name\":\"" name "\",\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":"                   \
    "{\"binary_data_size\":" size "}}"

START_TEST(test_json_binary_and_mixed_inputs)
{
    const float values[] = {1.5f, 2.5f};
    enum base_status status =
        decode_mixed("{\"parameters\":{\"binary_data_output\":true},\"inputs\":[" BINARY(
                         "a", "4") "," ONE "," BINARY("b", "4") "]}",
                     values, sizeof values);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    ck_assert(f32_at(0, 0) == 1.5f && f32_at(1, 0) == 1.0f && f32_at(2, 0) == 2.5f);
    for (uint32_t i = 0; i < CELL_TENSORS_MAX; i++) { // a session names what it wants later
        ck_assert(form.binary[i]);
    }

    // Any data type and size passes here: core knows what the model takes.
    status = decode_mixed("{\"inputs\":[{\"name\":\"a\",\"datatype\":\"BYTES\",\"shape\":[1],"
                          "\"parameters\":{\"binary_data_size\":8}}]}",
                          values, sizeof values);
    ck_assert_int_eq(status, BASE_OK);
}
END_TEST

/* Texts in any spelling that JSON has, each behind its length; and back. */
START_TEST(test_json_texts)
{
    static const char wanted[] = "\2\0\0\0a]\0\0\0\0\5\0\0\0\xc3\xa4\n\"\\";
    assert_decodes(with_input("\"datatype\":\"BYTES\",\"shape\":[3],\"data\":"
                              "[\"a]\",\"\",\"\\u00e4\\n\\\"\\\\\"]"));
    ck_assert_uint_eq(request.inputs[0].bytes, sizeof(wanted) - 1);
    ck_assert_mem_eq(request.inputs[0].data, wanted, sizeof(wanted) - 1);
    assert_decodes(with_input("\"datatype\":\"BYTES\",\"shape\":[0],\"data\":[]"));
    ck_assert_uint_eq(request.inputs[0].bytes, 0);
}
END_TEST

START_TEST(test_json_binary_sizes_have_to_add_up)
{
    const float values[] = {1.5f, 2.5f};
    ck_assert_int_eq(decode_mixed("{\"inputs\":[" BINARY("a", "4") "]}", values, 8),
                     BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "4 bytes of the body belong to no input");
    ck_assert_int_eq(decode_mixed("{\"inputs\":[" BINARY("a", "9") "]}", values, 8),
                     BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(
        decode_mixed("{\"inputs\":[" BINARY("a", "4") "," BINARY("b", "9223372036854775807") "]}",
                     values, 8),
        BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(
        decode_mixed("{\"inputs\":[" BINARY("a", "99999999999999999999") "]}", values, 8),
        BASE_INVALID_ARGUMENT);
}
END_TEST

/* An answer with an FP32 and an INT64 output, ready to be encoded. */
static void answer(void)
{
    static const float y[] = {0.1f, -2.0f, 3.0e-20f};
    static const int64_t z[] = {INT64_MIN, 42};
    static struct srv_tensor outputs[] = {
        {.name = "y", .datatype = "FP32", .rank = 2, .shape = {1, 3}, .bytes = sizeof y},
        {.name = "z\"", .datatype = "INT64", .rank = 1, .shape = {2}, .bytes = sizeof z},
    };
    outputs[0].data = (const uint8_t *)y;
    outputs[1].data = (const uint8_t *)z;
    request.model_name = "m";
    (void)snprintf(request.version, sizeof request.version, "3");
    request.id = "";
    request.n_outputs = 2;
    request.outputs = outputs;
}

START_TEST(test_json_answer_in_json)
{
    answer();
    struct base_buf json;
    struct srv_http_answer parts;
    base_buf_init(&json, 1u << 16);
    srv_http_encode(&request, &form, &json, &parts);
    ck_assert_str_eq(json.data, "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":["
                                "{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[1,3],"
                                "\"data\":[0.1,-2.0,3e-20]},"
                                "{\"name\":\"z\\\"\",\"datatype\":\"INT64\",\"shape\":[2],"
                                "\"data\":[-9223372036854775808,42]}]}");
    ck_assert(!parts.binary && parts.n_parts == 0);
    base_buf_release(&json);
}
END_TEST

START_TEST(test_json_answer_mixed)
{
    answer();
    request.id = "i\n";
    request.n_wanted = 2;
    form.binary[0] = true;
    struct base_buf json;
    struct srv_http_answer parts;
    base_buf_init(&json, 1u << 16);
    srv_http_encode(&request, &form, &json, &parts);
    ck_assert_str_eq(json.data,
                     "{\"model_name\":\"m\",\"model_version\":\"3\",\"id\":\"i\\n\",\"outputs\":["
                     "{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[1,3],"
                     "\"parameters\":{\"binary_data_size\":12}},"
                     "{\"name\":\"z\\\"\",\"datatype\":\"INT64\",\"shape\":[2],"
                     "\"data\":[-9223372036854775808,42]}]}");
    ck_assert(parts.binary && parts.n_parts == 1 && parts.parts[0].bytes == 12);
    ck_assert_ptr_eq(parts.parts[0].data, request.outputs[0].data);
    base_buf_release(&json);
}
END_TEST

/* What is no UTF-8 comes as U+FFFD in JSON, and as it is in binary. */
START_TEST(test_json_answer_of_texts)
{
    static const char texts[] = "\2\0\0\0\"a\0\0\0\0\3\0\0\0\xc3\xa4\xff";
    answer();
    request.outputs[0] = (struct srv_tensor){.name = "t",
                                             .datatype = "BYTES",
                                             .rank = 1,
                                             .shape = {3},
                                             .data = (const uint8_t *)texts,
                                             .bytes = sizeof(texts) - 1};
    request.n_outputs = 1;
    struct base_buf json;
    struct srv_http_answer parts;
    base_buf_init(&json, 1u << 16);
    srv_http_encode(&request, &form, &json, &parts);
    ck_assert_str_eq(json.data, "{\"model_name\":\"m\",\"model_version\":\"3\",\"outputs\":["
                                "{\"name\":\"t\",\"datatype\":\"BYTES\",\"shape\":[3],"
                                "\"data\":[\"\\\"a\",\"\",\"\xc3\xa4\xef\xbf\xbd\"]}]}");
    form.binary[0] = true;
    base_buf_clear(&json);
    srv_http_encode(&request, &form, &json, &parts);
    ck_assert(parts.binary && parts.parts[0].bytes == sizeof(texts) - 1);
    base_buf_release(&json);
}
END_TEST

START_TEST(test_json_answer_limit)
{
    answer();
    struct base_buf json;
    struct srv_http_answer parts;
    base_buf_init(&json, 100);
    srv_http_encode(&request, &form, &json, &parts);
    ck_assert(json.failed);
    base_buf_release(&json);
}
END_TEST

START_TEST(test_json_decode_without_memory)
{
    // Each allocation of a decode fails once: refused as too large or wrong, never crashed.
    const char *text = "{\"id\":\"a\",\"parameters\":{\"k\":{\"l\":[1,2.5,\"s\",null]}},"
                       "\"inputs\":[" ONE ",{\"name\":\"t\",\"datatype\":\"BYTES\",\"shape\":[2],"
                       "\"data\":[\"a\",\"b\"]}],\"outputs\":[{\"name\":\"y\"}]}";
    enum base_status status = BASE_INTERNAL;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 100);
        base_arena_release(&request.arena);
        base_arena_init(&request.arena, 4096, REQUEST_BYTES);
        srv_http_codec_release(&codec);
        srv_http_codec_init(&codec, 1u << 20);
        base_alloc_fail_at(n + 1); // the first is the body's copy
        status = decode(text);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
    }
}
END_TEST

START_TEST(test_json_truncations_are_refused)
{
    const char *text = "{\"id\":\"a\",\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\","
                       "\"shape\":[2],\"data\":[1.5,-2e3]}],\"outputs\":[{\"name\":\"y\"}]}";
    for (size_t length = 0; length < strlen(text); length++) {
        ck_assert_int_eq(decode_bytes(text, length, length), BASE_INVALID_ARGUMENT);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_json");
    TCase *tc = tcase_create("http_json");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_json_whole_request);
    tcase_add_test(tc, test_json_nested_data_and_white_space);
    tcase_add_test(tc, test_json_empty_tensors_and_scalars);
    tcase_add_test(tc, test_json_integers_are_exact);
    tcase_add_test(tc, test_json_elements_of_a_byte);
    tcase_add_test(tc, test_json_halves);
    tcase_add_test(tc, test_json_doubles);
    tcase_add_test(tc, test_json_float_specials);
    tcase_add_loop_test(tc, test_json_refuses_input, 0,
                        (int)(sizeof bad_inputs / sizeof bad_inputs[0]));
    tcase_add_loop_test(tc, test_json_refuses_body, 0,
                        (int)(sizeof bad_bodies / sizeof bad_bodies[0]));
    tcase_add_test(tc, test_json_unused_parameters_are_accepted);
    tcase_add_test(tc, test_json_sessions);
    tcase_add_test(tc, test_json_depth_is_bounded);
    tcase_add_test(tc, test_json_size_is_bounded);
    tcase_add_test(tc, test_json_tree_memory_is_bounded);
    tcase_add_test(tc, test_json_data_takes_no_tree);
    tcase_add_test(tc, test_json_request_memory_is_bounded);
    tcase_add_test(tc, test_json_too_many_tensors);
    tcase_add_test(tc, test_json_error_positions_count_the_data);
    tcase_add_test(tc, test_json_binary_and_mixed_inputs);
    tcase_add_test(tc, test_json_binary_sizes_have_to_add_up);
    tcase_add_test(tc, test_json_answer_in_json);
    tcase_add_test(tc, test_json_answer_mixed);
    tcase_add_test(tc, test_json_texts);
    tcase_add_test(tc, test_json_answer_of_texts);
    tcase_add_test(tc, test_json_answer_limit);
    tcase_add_test(tc, test_json_decode_without_memory);
    tcase_add_test(tc, test_json_truncations_are_refused);
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
