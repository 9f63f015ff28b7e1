/* What is taken of a config.pbtxt, what is refused with which words, and the text format itself. */
#include "base/buf.h"
#include "base/mem.h"
#include "config/textproto.h"
#include "config/triton_config.h"
#include "tests/util.h"

#include <string.h>

/* ---- What is taken --------------------------------------------------------------------------- */

/* pbtxt behind yaml, for a model "m". */
static enum base_status read(const char *yaml, const char *pbtxt, struct cfg_model_config *out,
                             struct base_error *error)
{
    *error = (struct base_error){0};
    enum base_status status = cfg_model_config_parse("y", yaml, strlen(yaml), out, error);
    if (status == BASE_OK) {
        status = cfg_triton_config_parse("p", pbtxt, strlen(pbtxt), "m", out, error);
    }
    return status;
}

static struct cfg_model_config must_read(const char *yaml, const char *pbtxt)
{
    struct cfg_model_config config;
    struct base_error error;
    ck_assert_msg(read(yaml, pbtxt, &config, &error) == BASE_OK, "%s", error.message);
    return config;
}

static void assert_shape(const struct cfg_shape *shape, const char *tensor, uint32_t rank,
                         const int64_t *sizes)
{
    ck_assert_str_eq(shape->tensor, tensor);
    ck_assert_uint_eq(shape->rank, rank);
    for (uint32_t k = 0; k < rank; k++) {
        ck_assert_int_eq(shape->sizes[k], sizes[k]);
    }
}

static const char whole[] = "# a model of ours\n"
                            "name: \"m\"\n"
                            "backend: \"onnxruntime\"\n"
                            "max_batch_size: 8\n"
                            "default_model_filename: 'pump.onnx'\n"
                            "input [\n"
                            "  { name: \"x\", data_type: TYPE_FP32, dims: [ -1, 6 ] },\n"
                            "  { name: \"mask\" data_type: TYPE_BOOL dims: -1 }\n"
                            "]\n"
                            "input < name: 'y' dims: 3; dims: 0x10 >\n"
                            "output { name: \"out\" dims: [ 1 ] }\n"
                            "sequence_batching {\n"
                            "  oldest { max_candidate_sequences: 64 }\n"
                            "  state [ { input_name: \"h0\" output_name: \"hn\" dims: [ 2 ] },\n"
                            "          { input_name: \"c0\", output_name: \"cn\",\n"
                            "            initial_state: { zero_data: true } } ]\n"
                            "}\n"
                            "instance_group [ { count: 2 kind: KIND_CPU } ] # ignored\n"
                            "parameters { key: \"a\\tb\" value { string_value: 'x' \"y\" } }";

START_TEST(test_what_is_taken)
{
    const struct cfg_model_config config = must_read("", whole);
    ck_assert_str_eq(config.model_file.name, "pump.onnx");
    ck_assert_uint_eq(config.shapes.count, 2); // of the mask nothing is said
    assert_shape(&config.shapes.items[0], "x", 3, (const int64_t[]){CFG_SIZE_ANY, CFG_SIZE_ANY, 6});
    assert_shape(&config.shapes.items[1], "y", 3, (const int64_t[]){CFG_SIZE_ANY, 3, 16});
    ck_assert_uint_eq(config.states.count, 2);
    ck_assert_str_eq(config.states.items[0].input, "h0");
    ck_assert_str_eq(config.states.items[0].output, "hn");
    ck_assert_str_eq(config.states.items[1].input, "c0");
    ck_assert_str_eq(config.states.items[1].output, "cn");
}
END_TEST

START_TEST(test_without_a_batch_dims_are_all)
{
    const struct cfg_model_config config =
        must_read("", "input { name: \"x\" dims: [ 1, -1, 6 ] }");
    ck_assert_uint_eq(config.shapes.count, 1);
    assert_shape(&config.shapes.items[0], "x", 3, (const int64_t[]){1, CFG_SIZE_ANY, 6});
    ck_assert_str_eq(config.model_file.name, "");
}
END_TEST

START_TEST(test_nothing_is_as_good_as_no_file)
{
    static const char *const files[] = {"", "# nothing\n", " \n;,\n",
                                        ("name: ''\nplatform: \"onnxruntime_onnx\"\n"
                                         "backend: \"\"\ndefault_model_filename: \"\"")};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct cfg_model_config config = must_read("", files[i]);
        ck_assert_uint_eq(config.shapes.count, 0);
        ck_assert_uint_eq(config.states.count, 0);
        ck_assert_str_eq(config.model_file.name, "");
    }
}
END_TEST

START_TEST(test_the_yaml_counts)
{
    const struct cfg_model_config config =
        must_read("states: recurrent\nshapes: x=*x4x6\nconstants: y=3\n", whole);
    ck_assert_uint_eq(config.states.count, 0);
    ck_assert(config.states.recurrent);
    ck_assert_uint_eq(config.shapes.count, 1);
    assert_shape(&config.shapes.items[0], "x", 3, (const int64_t[]){CFG_SIZE_ANY, 4, 6});
}
END_TEST

/* Sizes and states are of a model in one file. */
START_TEST(test_of_models_in_parts_only_whose_it_is)
{
    const struct cfg_model_config config =
        must_read("unfold: seq2seq\nmax-steps: 5\nstart: 1\n", whole);
    ck_assert_uint_eq(config.states.count, 0);
    ck_assert_uint_eq(config.shapes.count, 0);
}
END_TEST

START_TEST(test_a_control_that_is_stated_is_taken)
{
    const struct cfg_model_config config = must_read(
        "constants: START=0\n", "sequence_batching { control_input [ { name: 'START' control [ { "
                                "kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }");
    ck_assert_uint_eq(config.constants.count, 1);
}
END_TEST

/* ---- What is refused ------------------------------------------------------------------------- */

static const struct {
    const char *file, *message;
} refused[] = {
    {"name: \"other\"", "p:1:7: name \"other\" is not the name of the model's folder"},
    {"\nbackend: \"python\"",
     "p:2:10: backend \"python\" is not served: ONNX files are (onnxruntime)"},
    {"platform: 'ensemble'",
     "p:1:11: platform \"ensemble\" is not served: ONNX files are (onnxruntime)"},
    {"ensemble_scheduling { step [ {} ] }",
     "p:1:21: ensemble_scheduling is not served: a model of other models has no file of its own"},
    {"default_model_filename: '../a.onnx'", "p:1:25: default_model_filename \"../a.onnx\" is no "
                                            "ONNX file of the version's folder"},
    {"default_model_filename: 'a.plan'",
     "p:1:25: default_model_filename \"a.plan\" is no ONNX file of the version's folder"},
    {"default_model_filename: 'a\\0.onnx'",
     "p:1:25: default_model_filename \"a?.onnx\" is no ONNX file of the version's folder"},
    {"default_model_filename { }", "p:1:24: default_model_filename is not of this kind"},
    {"max_batch_size: many", "p:1:17: max_batch_size \"many\" is no such number"},
    {"max_batch_size: 99999999999999999999",
     "p:1:17: max_batch_size \"99999999999999999999\" is no such number"},
    {"max_batch_size: '8'", "p:1:17: max_batch_size \"8\" is no such number"},
    {"input: 'x'", "p:1:8: input \"x\" is not of this kind"},
    {"input { dims: 3 }", "p:1:7: input needs a string name"},
    {"input { name: x }", "p:1:7: input needs a string name"},
    {"input { name: '' }", "p:1:15: name \"\" is no tensor's name"},
    {"input { name: 'a\\nb' }", "p:1:15: name \"a?b\" is no tensor's name"},
    {"input { name: 'x' dims: [ 3, 0 ] }", "p:1:30: dims \"0\" is no size: -1, or at least 1"},
    {"input { name: 'x' dims: -2 }", "p:1:25: dims \"-2\" is no such number"},
    {"input { name: 'x' dims: [ 1, 2, 3, 4, 5, 6, 7, 8, 9 ] }",
     "p:1:51: dims \"9\" is one axis too many"},
    {"input { name: 'x' dims: 4 reshape { shape: [ 2, 2 ] } }",
     "p:1:35: reshape is not served: tensors come as the model's file has them"},
    {"sequence_batching { state { input_name: 'h' } }", "p:1:27: state needs a string output_name"},
    {"sequence_batching { state { input_name: 'h' output_name: 'n' initial_state { data_file: 'f' "
     "} } }",
     "p:1:89: data_file \"f\" is not served: a session begins with zeros, or with what its first "
     "request brings"},
    {"sequence_batching { control_input [ { name: 'START' } ] }",
     "p:1:45: name \"START\" tells where a sequence begins, ends, or whose it is, which is not "
     "served; where the model needs it no more, since a session begins with zeros in its states, "
     "config.yaml has what it always is (constants: NAME=0)"},
    // the text format
    {"name", "p:1:5: expected a colon"},
    {"name:", "p:1:6: expected a value"},
    {"name 'm'", "p:1:6: expected a colon"},
    {"name: @", "p:1:7: expected a value"},
    {": 5", "p:1:1: expected a field's name"},
    {"[a.b]: 5", "p:1:1: expected a field's name"},
    {"}", "p:1:1: expected a field's name"},
    {"a { b: 1", "p:1:9: the file ends in a message or a list"},
    {"a { b: [ 1, 2", "p:1:14: the file ends in a message or a list"},
    {"a { b: 1 >", "p:1:10: expected a field's name"},
    {"a: [ 1 2 ]", "p:1:8: expected a comma, or the list's end"},
    {"a: [ 1, ]", "p:1:9: expected a value"},
    {"a: [ , ]", "p:1:6: expected a value"},
    {"a: [ [ 1 ] ]", "p:1:6: expected a value"},
    {"a: 'x\ny'", "p:1:4: a string that does not end in its line"},
    {"a: 'x", "p:1:4: a string that does not end in its line"},
    {"a: '\\q'", "p:1:6: no such escape in a string"},
    {"a: '\\x'", "p:1:7: no such escape in a string"},
    {"a: '\\777'", "p:1:9: no such escape in a string"},
    {"a: '\\", "p:1:6: no such escape in a string"},
};

START_TEST(test_what_is_refused)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct cfg_model_config config;
        struct base_error error;
        ck_assert_msg(read("", refused[i].file, &config, &error) == BASE_INVALID_ARGUMENT,
                      "accepted: %s", refused[i].file);
        ck_assert_str_eq(error.message, refused[i].message);
    }
}
END_TEST

/* n times the pattern, each @ in it the time's number. */
static void assert_too_many(const char *pattern, uint32_t n, const char *message)
{
    struct base_buf file;
    struct cfg_model_config config;
    struct base_error error;
    base_buf_init(&file, 1 << 20);
    for (uint32_t i = 0; i < n; i++) {
        for (const char *at = pattern; *at != '\0'; at++) {
            if (*at == '@') {
                base_buf_printf(&file, "%u", i);
            } else {
                base_buf_add(&file, at, 1);
            }
        }
    }
    ck_assert(!file.failed);
    ck_assert_int_eq(read("", file.data, &config, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, message));
    base_buf_release(&file);
}

START_TEST(test_there_are_bounds)
{
    assert_too_many("a{", 33, "p:1:66: more than 32 messages and lists in each other");
    assert_too_many("a:1 ", 4097, "more than 4096 fields");
    assert_too_many("input{name:'@' dims:1}", 17, "is one more with sizes than the 16");
    assert_too_many("sequence_batching{state{input_name:'i@' output_name:'o@'}}", 33,
                    "is one more than the 32");
}
END_TEST

START_TEST(test_strings_and_words)
{
    static const char file[] = "a: 'x' \"y\\x41\\101\\0\\\"\\\\\" b: -1.5e+3 c: true\r\n\t"
                               "d: [] e: [ { f: <> } , { } ]";
    struct base_arena arena;
    struct cfg_textproto text;
    base_arena_init(&arena, 4096, 1 << 20);
    ck_assert_int_eq(cfg__textproto_parse("p", file, sizeof(file) - 1, &arena, &text, NULL),
                     BASE_OK);
    ck_assert_uint_eq(text.n_fields, 6);
    ck_assert_uint_eq(text.fields[0].length, 7);
    ck_assert_mem_eq(text.fields[0].value, "xyAA\0\"\\", 8);
    ck_assert_int_eq(text.fields[0].kind, CFG_TEXTPROTO_STRING);
    ck_assert_str_eq(text.fields[1].value, "-1.5e+3");
    ck_assert_str_eq(text.fields[2].value, "true");
    ck_assert_str_eq(text.fields[3].name, "e"); // of an empty list there is nothing
    ck_assert_uint_eq(text.fields[3].line, 2);
    ck_assert_uint_eq(text.fields[3].column, 13);
    ck_assert_str_eq(text.fields[4].name, "f");
    ck_assert_uint_eq(text.fields[4].parent, 3);
    ck_assert_uint_eq(text.fields[5].parent, CFG_TEXTPROTO_TOP);
    base_arena_release(&arena);
}
END_TEST

/* ---- Files and memory ------------------------------------------------------------------------ */

START_TEST(test_a_file_that_is_missing_says_nothing)
{
    struct cfg_model_config config = must_read("states: recurrent\n", "");
    struct base_error error = {0};
    ck_assert_int_eq(cfg_triton_config_load("/nowhere/config.pbtxt", "m", &config, &error),
                     BASE_OK);
    ck_assert(config.states.recurrent);
    ck_assert_int_eq(cfg_triton_config_load("/", "m", &config, &error), BASE_INVALID_ARGUMENT);
}
END_TEST

START_TEST(test_memory_that_runs_out_is_said)
{
    for (uint64_t n = 1;; n++) {
        struct cfg_model_config config = must_read("", "");
        struct base_error error = {0};
        base_alloc_fail_at(n);
        const enum base_status status =
            cfg_triton_config_parse("p", whole, strlen(whole), "m", &config, &error);
        base_alloc_fail_at(0);
        if (status == BASE_OK) {
            ck_assert_uint_gt(n, 2);
            break;
        }
        ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
        ck_assert_str_eq(error.message, "p: out of memory");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("triton_config");
    TCase *taken = tcase_create("taken");
    tcase_add_test(taken, test_what_is_taken);
    tcase_add_test(taken, test_without_a_batch_dims_are_all);
    tcase_add_test(taken, test_nothing_is_as_good_as_no_file);
    tcase_add_test(taken, test_the_yaml_counts);
    tcase_add_test(taken, test_of_models_in_parts_only_whose_it_is);
    tcase_add_test(taken, test_a_control_that_is_stated_is_taken);
    suite_add_tcase(suite, taken);
    TCase *errors = tcase_create("errors");
    tcase_add_test(errors, test_what_is_refused);
    tcase_add_test(errors, test_there_are_bounds);
    tcase_add_test(errors, test_strings_and_words);
    tcase_add_test(errors, test_a_file_that_is_missing_says_nothing);
    tcase_add_test(errors, test_memory_that_runs_out_is_said);
    suite_add_tcase(suite, errors);
    return util_run(suite);
}
