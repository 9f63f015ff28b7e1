/* Every refusal of the configuration with its exact message: values, keys, flags, variables, YAML
 * that is not read. */
#include "base/mem.h"
#include "config/internal.h"
#include "config/model_config.h"
#include "config/yaml.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

struct refusal {
    const char *given; /* argument, variable or file */
    const char *message;
};

/* Where the text is given. */
enum way { BY_FLAG, BY_ENVIRONMENT, BY_FILE };

static enum base_status try_one(enum way way, const char *given, size_t length,
                                struct base_error *error)
{
    const char *argv[] = {"cellbatchd", "--model-repository=m", given};
    const char *environment[] = {"CELLBATCH_HTTP_ADDRESS=", given, NULL};
    const struct cfg_input input = {
        .argc = way == BY_FLAG ? 3 : 2,
        .argv = argv,
        .environment = way == BY_ENVIRONMENT ? environment : NULL,
    };
    struct cfg_config *config = NULL;
    *error = (struct base_error){0};
    enum base_status status =
        cfg__load_text(&input, "c.yaml", way == BY_FILE ? given : NULL, length, &config, error);
    ck_assert((status == BASE_OK) == (config != NULL));
    cfg_free(config);
    return status;
}

static void assert_refusals(enum way way, const struct refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct base_error error;
        enum base_status status = try_one(way, cases[i].given, strlen(cases[i].given), &error);
        ck_assert_msg(status == BASE_INVALID_ARGUMENT, "accepted: %s", cases[i].given);
        ck_assert_str_eq(error.message, cases[i].message);
    }
}

#define ASSERT_REFUSALS(way, cases) assert_refusals(way, cases, sizeof(cases) / sizeof((cases)[0]))

/* prefix, then pattern over and over. */
static void fill(char *file, size_t bytes, const char *prefix, const char *pattern)
{
    size_t start = strlen(prefix);
    for (size_t i = 0; i < bytes; i++) {
        const char *from = i < start ? prefix + i : pattern + (i - start) % strlen(pattern);
        file[i] = *from;
    }
}

START_TEST(test_values_that_are_refused)
{
    static const struct refusal cases[] = {
        {"--grpc-port=80x", "--grpc-port: \"80x\" is not a whole number"},
        {"--grpc-port=x80", "--grpc-port: \"x80\" is not a whole number"},
        {"--grpc-port=-1", "--grpc-port: \"-1\" is not a whole number"},
        {"--grpc-port=+1", "--grpc-port: \"+1\" is not a whole number"},
        {"--grpc-port=8001 ", "--grpc-port: \"8001 \" is not a whole number"},
        {"--grpc-port=1.0", "--grpc-port: \"1.0\" is not a whole number"},
        {"--grpc-port=0x1F", "--grpc-port: \"0x1F\" is not a whole number"},
        {"--grpc-port=08001", "--grpc-port: \"08001\" starts with a zero"},
        {"--grpc-port=00", "--grpc-port: \"00\" starts with a zero"},
        {"--grpc-port=65536", "--grpc-port: \"65536\" is not in 0 to 65535"},
        {"--grpc-port=18446744073709551616",
         "--grpc-port: \"18446744073709551616\" is not in 0 to 65535"},
        {"--rows=0", "--rows: \"0\" is not in 1 to 1048576"},
        {"--grpc-port=", "--grpc-port: has no value"},
        {"--http-max-input-size=64mib",
         "--http-max-input-size: \"64mib\" is not a size such as 4096, 512KiB or 64MiB"},
        {"--http-max-input-size=64 MiB",
         "--http-max-input-size: \"64 MiB\" is not a size such as 4096, 512KiB or 64MiB"},
        {"--http-max-input-size=MiB",
         "--http-max-input-size: \"MiB\" is not a size such as 4096, 512KiB or 64MiB"},
        {"--http-max-input-size=1.5MiB",
         "--http-max-input-size: \"1.5MiB\" is not a size such as 4096, 512KiB or 64MiB"},
        {"--http-max-input-size=1kB", "--http-max-input-size: \"1kB\" is not in 1KiB to 1GiB"},
        {"--http-max-input-size=1B", "--http-max-input-size: \"1B\" is not in 1KiB to 1GiB"},
        {"--http-max-input-size=99999999999GiB",
         "--http-max-input-size: \"99999999999GiB\" is not in 1KiB to 1GiB"},
        {"--drain-delay=1h", "--drain-delay: \"1h\" is not a time such as 30, 30s, 500ms or 2min"},
        {"--drain-delay=61min", "--drain-delay: \"61min\" is not in 0 to 60min"},
        {"--exit-on-error=yes", "--exit-on-error: \"yes\" is neither true nor false"},
        {"--exit-on-error=True", "--exit-on-error: \"True\" is neither true nor false"},
        {"--exit-on-error=1", "--exit-on-error: \"1\" is neither true nor false"},
        {"--backend=gpu", "--backend: \"gpu\" is not one of cpu, blas"},
        {"--backend=cp", "--backend: \"cp\" is not one of cpu, blas"},
        {"--isa=avx", "--isa: \"avx\" is not one of auto, scalar, avx2, avx512, neon"},
        {"--grpc-address=a\nb", "--grpc-address: holds a control character"},
        {"--grpc-address=a\x7f", "--grpc-address: holds a control character"},
        {"--grpc-address=a\xC2\x85", "--grpc-address: holds a control character"},
        {"--grpc-address=a\xE2\x80\xA8", "--grpc-address: holds a control character"},
        {"--grpc-address=\xEF\xBB\xBFx", "--grpc-address: holds a control character"},
        {"--grpc-address=\xEF\xBF\xBE", "--grpc-address: holds a control character"},
        {"--load-model=../x",
         "--load-model: \"../x\" is not a model name (letters, digits, _, - and ., not starting "
         "with . or -)"},
        {"--load-model=a b",
         "--load-model: \"a b\" is not a model name (letters, digits, _, - and ., not starting "
         "with . or -)"},
        {"--load-model=a,,b",
         "--load-model: \"\" is not a model name (letters, digits, _, - and ., not starting "
         "with . or -)"},
        {"--load-model=a,b,a", "--load-model: \"a\" is named twice"},
        {"--log-level=\x01\xff", "--log-level: \"??\" is not one of error, warn, info, debug"},
    };
    ASSERT_REFUSALS(BY_FLAG, cases);
}
END_TEST

START_TEST(test_values_at_the_border_are_accepted)
{
    static const char *const accepted[] = {
        "--grpc-port=0",           "--grpc-port=65535",
        "--rows=1048576",          "--http-max-input-size=1KiB",
        "--drain-delay=60min",     "--drain-delay=3600000ms",
        "--exit-timeout-secs=30s", "--http-max-input-size=1073741824",
        "--grpc-address=::1",      "--grpc-address=\xC2\xA0\xE2\x80\xA7\xEF\xBB\xBE",
        "--load-model=A.b-c_9",
    };
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        struct base_error error;
        enum base_status status = try_one(BY_FLAG, accepted[i], 0, &error);
        ck_assert_msg(status == BASE_OK, "%s: %s", accepted[i], error.message);
    }
}
END_TEST

START_TEST(test_long_values)
{
    char flag[5000];
    struct base_error error;
    static const char address[] = "--grpc-address=";
    fill(flag, sizeof(flag), address, "a");
    flag[strlen(address) + 4095] = '\0';
    ck_assert_int_eq(try_one(BY_FLAG, flag, 0, &error), BASE_OK);
    flag[strlen(address) + 4095] = 'a';
    flag[strlen(address) + 4096] = '\0';
    ck_assert_int_eq(try_one(BY_FLAG, flag, 0, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "--grpc-address: longer than 4095 bytes");
    fill(flag, 200, "--isa=", "0123456789");
    flag[200] = '\0';
    ck_assert_int_eq(try_one(BY_FLAG, flag, 0, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(
        error.message,
        "--isa: "
        "\"01234567890123456789012345678901234567890123456789012345678901234567890123..."
        "\" is not one of auto, scalar, avx2, avx512, neon");
}
END_TEST

START_TEST(test_too_many_names)
{
    struct base_buf flag;
    base_buf_init(&flag, 1 << 16);
    base_buf_text(&flag, "--load-model=m");
    for (int i = 1; i < 1024; i++) {
        base_buf_printf(&flag, ",m%d", i);
    }
    struct base_error error;
    ck_assert_int_eq(try_one(BY_FLAG, flag.data, 0, &error), BASE_OK);
    base_buf_text(&flag, ",last");
    ck_assert_int_eq(try_one(BY_FLAG, flag.data, 0, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "--load-model: more than 1024 names");
    base_buf_release(&flag);
}
END_TEST

START_TEST(test_flags_that_are_refused)
{
    static const struct refusal cases[] = {
        {"--grpc-prot=1", "unknown flag \"--grpc-prot\"; did you mean --grpc-port?"},
        {"--GRPC_PORT=1", "unknown flag \"--GRPC_PORT\"; did you mean --grpc-port?"},
        {"--grpc_port=1", "unknown flag \"--grpc_port\"; did you mean --grpc-port?"},
        {"--verison", "unknown flag \"--verison\"; did you mean --version?"},
        {"--rowss=1", "unknown flag \"--rowss\"; did you mean --rows?"},
        {"--r=1", "unknown flag \"--r\"; --help lists them"},
        {"--banana", "unknown flag \"--banana\"; --help lists them"},
        {"--", "unknown flag \"--\"; --help lists them"},
        {"-p", "\"-p\" is not a flag; flags start with --, and --help lists them"},
        {"models", "\"models\" is not a flag; flags start with --, and --help lists them"},
        {"", "\"\" is not a flag; flags start with --, and --help lists them"},
        {"--grpc-port", "--grpc-port: has no value"},
        {"--check-config=true", "--check-config: takes no value"},
        {"--model-repository=again", "--model-repository: given twice"},
    };
    ASSERT_REFUSALS(BY_FLAG, cases);
    const char *argv[] = {"cellbatchd", "--grpc-port", "--http-port"};
    const struct cfg_input input = {3, argv, NULL};
    struct cfg_config *config = NULL;
    struct base_error error;
    ck_assert_int_eq(cfg_load(&input, &config, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "--grpc-port: has no value, a flag follows: \"--http-port\" (a "
                                    "value with dashes is written --grpc-port=VALUE)");
}
END_TEST

START_TEST(test_variables_that_are_refused)
{
    static const struct refusal cases[] = {
        {"CELLBATCH_GRPC_PORT=80x", "CELLBATCH_GRPC_PORT: \"80x\" is not a whole number"},
        {"CELLBATCH_GRPC_PROT=1",
         "unknown variable \"CELLBATCH_GRPC_PROT\"; did you mean CELLBATCH_GRPC_PORT?"},
        {"CELLBATCH_GRPC-PORT=1",
         "unknown variable \"CELLBATCH_GRPC-PORT\"; did you mean CELLBATCH_GRPC_PORT?"},
        {"CELLBATCH_CONFGI=x",
         "unknown variable \"CELLBATCH_CONFGI\"; did you mean CELLBATCH_CONFIG?"},
    };
    ASSERT_REFUSALS(BY_ENVIRONMENT, cases);
}
END_TEST

START_TEST(test_variables_that_are_passed_over)
{
    // Of the tests, of an orchestrator that links services, empty, without `=`, of tasks.
    static const char *const others[] = {
        "CELLBATCH_DATA=/x",
        "CELLBATCH_SEED=3",
        "CELLBATCH_PORT=tcp://10.0.0.1:8000",
        "CELLBATCH_GRPC_PORT=",
        "CELLBATCH_GRPC_PORT",
        "CELLBATCH_SERVICE_HOST=10.0.0.1",
        "CELLBATCH_=1",
        "CELLBATCH",
        "CELLBATCH_PORT_8001_TCP_PORT=8001",
        "CELLBATCH_VERSION=1",
        "CELLBATCH_CHECK_CONFIG=true",
        "CELLBATCH_SERVICE_PORT_GRPC=8001",
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct base_error error;
        enum base_status status = try_one(BY_ENVIRONMENT, others[i], 0, &error);
        ck_assert_msg(status == BASE_OK, "%s: %s", others[i], error.message);
    }
}
END_TEST

START_TEST(test_keys_and_values_of_files_that_are_refused)
{
    static const struct refusal cases[] = {
        {"rows: 1\ngrpc-port: 80x\n", "c.yaml:2:12: grpc-port: \"80x\" is not a whole number"},
        {"rows: 1\n\n# x\ngrpc-prot: 1\n",
         "c.yaml:4:1: unknown key \"grpc-prot\"; did you mean grpc-port?"},
        {"banana: 1\n", "c.yaml:1:1: unknown key \"banana\""},
        {"config: other.yaml\n", "c.yaml:1:1: unknown key \"config\""},
        {"check-config: true\n", "c.yaml:1:1: unknown key \"check-config\""},
        {"versoin: 1\n", "c.yaml:1:1: unknown key \"versoin\""},
        {"rows: 1\ngrpc-port: 1\nrows: 2\n", "c.yaml:3:1: rows: given twice, first on line 1"},
        {"grpc-port: 1\ngrpc_port: 1\n", "c.yaml:2:1: grpc-port: given twice, first on line 1"},
        {"load-model: a\nload-model: b\n", "c.yaml:2:1: load-model: given twice, first on line 1"},
        {"load-model: [a]\nload-model: [b]\n",
         "c.yaml:2:1: load-model: given twice, first on line 1"},
        {"load-model:\n  - a\n  - ../b\n",
         "c.yaml:3:5: load-model: \"../b\" is not a model name (letters, digits, _, - and ., not "
         "starting with . or -)"},
        {"load-model: []\n", "c.yaml:1:14: an empty list"},
        {"rows: [1]\n", "c.yaml:1:8: rows: takes one value, not a list"},
        {"rows:\n", "c.yaml:1:6: rows: has no value"},
        {"rows: ~\n", "c.yaml:1:7: rows: has no value"},
        {"rows: null\n", "c.yaml:1:7: rows: has no value"},
        {"rows: ''\n", "c.yaml:1:7: rows: has no value"},
        {"rows: 010\n", "c.yaml:1:7: rows: \"010\" starts with a zero"},
        {"allow-http: no\n", "c.yaml:1:13: allow-http: \"no\" is neither true nor false"},
        {"backend: \"cpu\\0\"\n", "c.yaml:1:10: backend: \"cpu?\" is not one of cpu, blas"},
        {"rows: \"1\\0\"\n", "c.yaml:1:7: rows: \"1?\" is not a whole number"},
        {"grpc-address: |\n  a\n", "c.yaml:1:15: grpc-address: holds a control character"},
    };
    ASSERT_REFUSALS(BY_FILE, cases);
}
END_TEST

START_TEST(test_yaml_that_is_refused)
{
    static const struct refusal cases[] = {
        {"- rows\n", "c.yaml:1:1: expected lines of `key: value`"},
        {"rows\n", "c.yaml:1:1: expected lines of `key: value`"},
        {"rows: &a 1\n", "c.yaml:1:7: anchors (&) are not known here"},
        {"&a rows: 1\n", "c.yaml:1:1: anchors (&) are not known here"},
        {"rows: *a\n", "c.yaml:1:7: aliases (*) are not known here"},
        {"rows: !!int 1\n", "c.yaml:1:7: tags (!) are not known here"},
        {"rows: ! 1\n", "c.yaml:1:7: tags (!) are not known here"},
        {"!!map\nrows: 1\n", "c.yaml:1:1: tags (!) are not known here"},
        {"load-model: !!seq [a]\n", "c.yaml:1:13: tags (!) are not known here"},
        {"load-model: &a [a]\n", "c.yaml:1:13: anchors (&) are not known here"},
        {"rows: 1\n---\nrows: 2\n", "c.yaml:2:1: a second document is not known here"},
        {"%YAML 1.1\n---\nrows: 1\n", "c.yaml:1:1: directives (%) are not known here"},
        {"%TAG ! tag:x,1:\n---\nrows: 1\n", "c.yaml:1:1: directives (%) are not known here"},
        {"rows: {a: 1}\n", "c.yaml:1:7: keys inside a value are not known here"},
        {"server:\n  rows: 1\n", "c.yaml:2:3: keys inside a value are not known here"},
        {"load-model: [[a]]\n", "c.yaml:1:14: a list inside a list is not known here"},
        {"load-model: [{a: b}]\n", "c.yaml:1:14: keys inside a value are not known here"},
        {"? [a]\n: 1\n", "c.yaml:1:3: a key must be a word"},
        {"? {a: b}\n: 1\n", "c.yaml:1:3: a key must be a word"},
        {"rows: 1\n  x: 2\n", "c.yaml:2:4: mapping values are not allowed in this context"},
        {"rows: [1\n", "c.yaml:2:1: did not find expected ',' or ']'"},
        {"rows: \"1\n", "c.yaml:2:1: found unexpected end of stream"},
        {"\trows: 1\n", "c.yaml:1:1: found character that cannot start any token"},
        {"rows: \xff\n", "c.yaml: at byte 6: invalid leading UTF-8 octet"},
        {"rows: \x01\n", "c.yaml: at byte 6: control characters are not allowed"},
    };
    ASSERT_REFUSALS(BY_FILE, cases);
}
END_TEST

START_TEST(test_files_that_say_nothing_are_accepted)
{
    static const char *const files[] = {"", "# only this\n", "---\n", "---\n# x\n...\n", "{}\n"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct base_error error;
        enum base_status status = try_one(BY_FILE, files[i], strlen(files[i]), &error);
        ck_assert_msg(status == BASE_OK, "%s: %s", files[i], error.message);
    }
}
END_TEST

START_TEST(test_deep_and_long_files_end_early)
{
    enum { BYTES = 1 << 20 };
    char *file = base_alloc(BYTES);
    ck_assert_ptr_nonnull(file);
    struct base_error error;
    fill(file, BYTES, "rows: ", "[");
    ck_assert_int_eq(try_one(BY_FILE, file, BYTES, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "c.yaml:1:8: a list inside a list is not known here");
    fill(file, BYTES, "load-model: [", "a,");
    ck_assert_int_eq(try_one(BY_FILE, file, BYTES, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "c.yaml:1:8206: more than 4096 values");
    base_free(file);
}
END_TEST

START_TEST(test_model_config)
{
    struct cfg_model_config config;
    struct base_error error;
    const char good[] = "max_sequence_length: 12\n";
    ck_assert_int_eq(cfg_model_config_parse("m", good, strlen(good), &config, &error), BASE_OK);
    ck_assert_uint_eq(config.max_sequence_length, 12);
    ck_assert_str_eq(config.weights, "fp32");
    static const char *const weights[] = {"fp32", "bf16", "int8"};
    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "weights: %s\n", weights[i]);
        ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error), BASE_OK);
        ck_assert_str_eq(config.weights, weights[i]);
    }
    static const char *const products[] = {"fp32", "tf32", "bf16", "bf16x3"};
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        char text[64];
        ck_assert_str_eq(config.products, "fp32");
        snprintf(text, sizeof(text), "products: %s\n", products[i]);
        ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error), BASE_OK);
        ck_assert_str_eq(config.products, products[i]);
        config.products = "fp32";
    }
    const char other[] = "# ours\nweights: fp16\n";
    ck_assert_int_eq(cfg_model_config_parse("m/config.yaml", other, strlen(other), &config, &error),
                     BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message,
                     "m/config.yaml:2:10: weights: \"fp16\" is not one of fp32, bf16, int8");
    const char bad[] = "\nmax-sequence-lenght: 1\n";
    ck_assert_int_eq(cfg_model_config_parse("m/config.yaml", bad, strlen(bad), &config, &error),
                     BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "m/config.yaml:2:1: unknown key \"max-sequence-lenght\"; did "
                                    "you mean max-sequence-length?");
    ck_assert_int_eq(cfg_model_config_load("/nonexistent/config.yaml", &config, &error), BASE_OK);
    ck_assert_uint_eq(config.max_sequence_length, 0);
    ck_assert_int_eq(cfg_model_config_load("/", &config, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "/: Is a directory");
}
END_TEST

START_TEST(test_model_config_of_a_decoder)
{
    static const struct {
        const char *text;
        const char *message;
    } mistakes[] = {
        {"start: -1\n", "m:1:8: start: \"-1\" is neither an id nor none"},
        {"start: 1x\n", "m:1:8: start: \"1x\" is neither an id nor none"},
        {"end: 07\n", "m:1:6: end: \"07\" starts with a zero"},
        {"end: 2147483648\n", "m:1:6: end: \"2147483648\" is not in 0 to 2147483647"},
        {"end: 99999999999999999999\n",
         "m:1:6: end: \"99999999999999999999\" is not in 0 to 2147483647"},
        {"beam: 9\n", "m:1:7: beam: \"9\" is not in 0 to 8"},
        {"length-penalty: 1.2345\n",
         "m:1:17: length-penalty: \"1.2345\" is not a number such as 2 or 0.75"},
        {"length-penalty: .5\n",
         "m:1:17: length-penalty: \".5\" is not a number such as 2 or 0.75"},
        {"length-penalty: 1.\n",
         "m:1:17: length-penalty: \"1.\" is not a number such as 2 or 0.75"},
        {"length-penalty: 00.5\n", "m:1:17: length-penalty: \"00.5\" starts with a zero"},
        {"length-penalty: 10.001\n", "m:1:17: length-penalty: \"10.001\" is not in 0 to 10"},
        {"max-steps: none\n", "m:1:12: max-steps: \"none\" is not a whole number"},
    };
    struct cfg_model_config config;
    struct base_error error;
    const char good[] = "unfold: seq2seq\nstart: 0\nend: none\nmax-steps: 20\n";
    ck_assert_int_eq(cfg_model_config_parse("m", "", 0, &config, &error), BASE_OK);
    ck_assert_int_eq(config.start, CFG_ID_NONE);
    ck_assert_int_eq(config.end, CFG_ID_NONE);
    ck_assert_int_eq(cfg_model_config_parse("m", good, strlen(good), &config, &error), BASE_OK);
    ck_assert_str_eq(config.unfold, "seq2seq");
    ck_assert_int_eq(config.start, 0);
    ck_assert_int_eq(config.end, CFG_ID_NONE);
    ck_assert_uint_eq(config.max_steps, 20);
    ck_assert_uint_eq(config.beam, 0);
    ck_assert_double_eq(config.length_penalty, 1.0);
    const char beam[] = "beam: 8\nlength-penalty: 0.625\n";
    ck_assert_int_eq(cfg_model_config_parse("m", beam, strlen(beam), &config, &error), BASE_OK);
    ck_assert_uint_eq(config.beam, 8);
    ck_assert_double_eq(config.length_penalty, 0.625);
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        const char *text = mistakes[i].text;
        ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error),
                         BASE_INVALID_ARGUMENT);
        ck_assert_str_eq(error.message, mistakes[i].message);
    }
}
END_TEST

static void assert_vocabulary(const struct cfg_vocabulary *got, const char *tensor,
                              enum cfg_vocabulary_kind kind, const char *file, const char *codes)
{
    ck_assert_str_eq(got->tensor, tensor);
    ck_assert_int_eq(got->kind, kind);
    ck_assert_str_eq(got->file, file);
    ck_assert_str_eq(got->codes, codes);
}

START_TEST(test_model_config_of_text)
{
    static const char grammar[] =
        "is not TENSOR=bytes, TENSOR=words:FILE, TENSOR=characters:FILE, TENSOR=bpe:FILE:CODES or "
        "TENSOR=sentencepiece:FILE";
    static const char *const mistakes[][2] = {
        {"letters", grammar},
        {"=bytes", grammar},
        {"a=byte", grammar},
        {"a=bytes:f", grammar},
        {"a=words", grammar},
        {"a=bpe", grammar},
        {"a=bpe:f", grammar},
        {"\"a=bpe:f:\"", "names no file beside config.yaml"},
        {"a=bpe::c", "names no file beside config.yaml"},
        {"a=bpe:f:c:d", "names no file beside config.yaml"},
        {"a=bpe:f:../c", "names no file beside config.yaml"},
        {"a=words:f:c", "names no file beside config.yaml"},
        {"\"a=words:\"", "names no file beside config.yaml"},
        {"a=words:../f", "names no file beside config.yaml"},
        {"a=words:/etc/passwd", "names no file beside config.yaml"},
        {"[a=bytes, a=words:f]", "is the tensor's second vocabulary"},
        {"a=sentencepiece", grammar},
        {"a=sentencepiece:m:n", "names no file beside config.yaml"},
        {"a=bytes,", "\"\" is not TENSOR=bytes"},
        {"[a=bytes,b=bytes,c=bytes,d=bytes,e=bytes,f=bytes,g=bytes,h=bytes,i=bytes]",
         "more than 8 vocabularies"},
    };
    static const char by_lines[] =
        "unknown: 3\nvocabularies:\n  - a b=bytes\n  - c=words:some.txt\n"
        "  - d=characters:d-1\n  - e=bpe:p:m\n  - f=sentencepiece:x.model\n"
        "text-start: 4\ntext-end: 5\n";
    static const char *const good[] = {
        "text-start: 4\ntext-end: 5\nunknown: 3\n"
        "vocabularies: a b=bytes,c=words:some.txt,d=characters:d-1,e=bpe:p:m,"
        "f=sentencepiece:x.model\n",
        "text-start: 4\ntext-end: 5\nunknown: 3\n"
        "vocabularies: [a b=bytes, c=words:some.txt, d=characters:d-1, e=bpe:p:m, "
        "f=sentencepiece:x.model]\n",
        by_lines,
    };
    struct cfg_model_config config;
    struct base_error error;
    ck_assert_int_eq(cfg_model_config_parse("m", "", 0, &config, &error), BASE_OK);
    ck_assert_uint_eq(config.vocabularies.count, 0);
    ck_assert_int_eq(config.unknown, CFG_ID_NONE);
    ck_assert_int_eq(config.text_start, CFG_ID_NONE);
    ck_assert_int_eq(config.text_end, CFG_ID_NONE);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_int_eq(cfg_model_config_parse("m", good[i], strlen(good[i]), &config, &error),
                         BASE_OK);
        ck_assert_uint_eq(config.vocabularies.count, 5);
        ck_assert_int_eq(config.unknown, 3);
        ck_assert_int_eq(config.text_start, 4);
        ck_assert_int_eq(config.text_end, 5);
        assert_vocabulary(&config.vocabularies.items[0], "a b", CFG_VOCABULARY_BYTES, "", "");
        assert_vocabulary(&config.vocabularies.items[1], "c", CFG_VOCABULARY_WORDS, "some.txt", "");
        assert_vocabulary(&config.vocabularies.items[2], "d", CFG_VOCABULARY_CHARACTERS, "d-1", "");
        assert_vocabulary(&config.vocabularies.items[3], "e", CFG_VOCABULARY_BPE, "p", "m");
        assert_vocabulary(&config.vocabularies.items[4], "f", CFG_VOCABULARY_SENTENCEPIECE,
                          "x.model", "");
    }
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "vocabularies: %s\n", mistakes[i][0]);
        ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error),
                         BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, mistakes[i][1]) != NULL, "%s", error.message);
    }
}
END_TEST

START_TEST(test_model_config_of_inputs)
{
    static const char *const mistakes[][2] = {
        {"constants: sr", "is not TENSOR=NUMBER, such as sr=16000"},
        {"constants: =1", "is not TENSOR=NUMBER"},
        {"constants: sr=", "is not TENSOR=NUMBER"},
        {"constants: sr=1e3", "is not TENSOR=NUMBER"},
        {"constants: sr=+1", "is not TENSOR=NUMBER"},
        {"constants: sr=1.", "is not TENSOR=NUMBER"},
        {"constants: sr=-", "is not TENSOR=NUMBER"},
        {"constants: sr=1.2.3", "is not TENSOR=NUMBER"},
        {"constants: sr=1234567890123456789012345678901234567890", "is not TENSOR=NUMBER"},
        {"constants: \"s\\tr=1\"", "is not TENSOR=NUMBER"},
        {"constants: sr=1,sr=2", "is the tensor's second number"},
        {"constants: a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "more than 8 constants"},
        {"shapes: x", "is not TENSOR=SIZExSIZE.., such as x=*x576"},
        {"shapes: x=", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=0", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=-1x2", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=2x", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=x2", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=**x2", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=99999999999999999999", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=1x1x1x1x1x1x1x1x1", "is not TENSOR=SIZExSIZE"},
        {"shapes: x=1,x=2", "is the tensor's second shape"},
        {"states: h0", "is not INPUT=OUTPUT, such as h0=hn, nor recurrent"},
        {"states: =hn", "is not INPUT=OUTPUT"},
        {"states: h0=", "is not INPUT=OUTPUT"},
        {"states: h0=hn,h0=cn", "names a tensor that is a state already"},
        {"states: [h0=hn, c0=hn]", "names a tensor that is a state already"},
    };
    static const char text[] = "constants: [a=b=16000, c=-0.5]\nshapes: in=*x576,out=2x*x3\n"
                               "states: [h0=hn, recurrent, c=0=cn]\n";
    struct cfg_model_config config;
    struct base_error error;
    ck_assert_int_eq(cfg_model_config_parse("m", "", 0, &config, &error), BASE_OK);
    ck_assert_uint_eq(config.constants.count + config.shapes.count + config.states.count, 0);
    ck_assert(!config.states.recurrent);
    ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error), BASE_OK);
    ck_assert_uint_eq(config.constants.count, 2);
    ck_assert_str_eq(config.constants.items[0].tensor, "a=b");
    ck_assert_double_eq(config.constants.items[0].number, 16000.0);
    ck_assert_double_eq(config.constants.items[1].number, -0.5);
    ck_assert_uint_eq(config.shapes.count, 2);
    ck_assert_uint_eq(config.shapes.items[0].rank, 2);
    ck_assert_int_eq(config.shapes.items[0].sizes[0], CFG_SIZE_ANY);
    ck_assert_int_eq(config.shapes.items[0].sizes[1], 576);
    ck_assert_uint_eq(config.shapes.items[1].rank, 3);
    ck_assert_int_eq(config.shapes.items[1].sizes[1], CFG_SIZE_ANY);
    ck_assert(config.states.recurrent);
    ck_assert_uint_eq(config.states.count, 2);
    ck_assert_str_eq(config.states.items[0].output, "hn");
    ck_assert_str_eq(config.states.items[1].input, "c=0");
    static const char spaced[] = "states: h0=hn,  c0=cn \n"; // in one text too
    ck_assert_int_eq(cfg_model_config_parse("m", spaced, strlen(spaced), &config, &error), BASE_OK);
    ck_assert_str_eq(config.states.items[1].input, "c0");
    ck_assert_str_eq(config.states.items[1].output, "cn");
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        ck_assert_msg(cfg_model_config_parse("m", mistakes[i][0], strlen(mistakes[i][0]), &config,
                                             &error) == BASE_INVALID_ARGUMENT,
                      "%s", mistakes[i][0]);
        ck_assert_msg(strstr(error.message, mistakes[i][1]) != NULL, "%s", error.message);
    }
}
END_TEST

START_TEST(test_model_config_of_layers)
{
    static const char grammar[] = "is not KIND or KIND:PREFIX, such as lstm:rnn";
    static const char *const mistakes[] = {
        "LSTM",         "lstm-1",         "\":rnn\"",      "\"lstm:\"",  "lstm:rnn,",
        "\"lstm : a\"", "\"lstm:a\\tb\"", "\"lstm:a\\0\"", "\", lstm\"", "abcdefghijklmnop",
    };
    static const char *const good[] = {
        "layers: embedding:e.m/b-1:0,last,log_softmax\n",
        "layers: [embedding:e.m/b-1:0, last, log_softmax]\n",
        "layers:\n  - embedding:e.m/b-1:0\n  - last\n  - log_softmax\n",
    };
    struct cfg_model_config config;
    struct base_error error;
    ck_assert_int_eq(cfg_model_config_parse("m", "", 0, &config, &error), BASE_OK);
    ck_assert_uint_eq(config.layers.count, 0);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_int_eq(cfg_model_config_parse("m", good[i], strlen(good[i]), &config, &error),
                         BASE_OK);
        ck_assert_uint_eq(config.layers.count, 3);
        ck_assert_str_eq(config.layers.items[0].kind, "embedding");
        ck_assert_str_eq(config.layers.items[0].prefix, "e.m/b-1:0");
        ck_assert_str_eq(config.layers.items[1].kind, "last");
        ck_assert_str_eq(config.layers.items[1].prefix, "");
        ck_assert_str_eq(config.layers.items[2].kind, "log_softmax");
    }
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "layers: %s\n", mistakes[i]);
        ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error),
                         BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, grammar) != NULL, "%s", error.message);
    }
}
END_TEST

START_TEST(test_model_config_of_a_graph)
{
    static const char *const good[] = {"unfold: graph\ncells: leaf,a.b-c\n",
                                       "cells: [leaf, a.b-c]\nunfold: graph\n"};
    struct cfg_model_config config;
    struct base_error error;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_int_eq(cfg_model_config_parse("m", good[i], strlen(good[i]), &config, &error),
                         BASE_OK);
        ck_assert_str_eq(config.unfold, "graph");
        ck_assert_uint_eq(config.cells.count, 2);
        ck_assert_str_eq(config.cells.names[0], "leaf");
        ck_assert_str_eq(config.cells.names[1], "a.b-c");
    }
    char many[256] = "cells: c0";
    for (uint32_t i = 1; i <= CFG_PARTS_MAX; i++) {
        snprintf(many + strlen(many), sizeof(many) - strlen(many), ",c%u", i);
    }
    const char *const mistakes[][2] = {
        {"cells: ../leaf", "\"../leaf\" is not the name of a part"},
        {"cells: leaf,", "\"\" is not the name of a part"},
        {"cells: leaf,node,leaf", "\"leaf\" is named twice"},
        {"cells: "
         "a123456789b123456789c123456789d123456789e123456789f123456789g123",
         "is not the name of a part"},
        {many, "more than 32 parts"}};
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        const char *text = mistakes[i][0];
        ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error),
                         BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, mistakes[i][1]) != NULL, "%s", error.message);
    }
}
END_TEST

START_TEST(test_model_config_of_long_layers)
{
    char text[1024] = "layers: lstm:";
    struct cfg_model_config config;
    struct base_error error;
    memset(text + strlen(text), 'x', 127);
    ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error), BASE_OK);
    ck_assert_uint_eq(strlen(config.layers.items[0].prefix), 127);
    text[strlen(text)] = 'x';
    ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error),
                     BASE_INVALID_ARGUMENT);
    snprintf(text, sizeof(text), "layers: relu");
    for (uint32_t i = 1; i < 64; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ",relu");
    }
    ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error), BASE_OK);
    ck_assert_uint_eq(config.layers.count, 64);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), ",relu");
    ck_assert_int_eq(cfg_model_config_parse("m", text, strlen(text), &config, &error),
                     BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "more than 64 layers"));
}
END_TEST

START_TEST(test_model_config_when_allocations_fail)
{
    struct cfg_model_config config;
    struct base_error error;
    enum base_status status = BASE_INTERNAL;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 100);
        base_alloc_fail_at(n);
        const char text[] = "max-sequence-length: 3\nweights: int8";
        status = cfg_model_config_parse("m", text, strlen(text), &config, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
    }
    ck_assert_uint_eq(config.max_sequence_length, 3);
    ck_assert_str_eq(config.weights, "int8");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_errors");
    TCase *values = tcase_create("values");
    tcase_add_test(values, test_values_that_are_refused);
    tcase_add_test(values, test_values_at_the_border_are_accepted);
    tcase_add_test(values, test_long_values);
    tcase_add_test(values, test_too_many_names);
    tcase_add_test(values, test_flags_that_are_refused);
    tcase_add_test(values, test_variables_that_are_refused);
    tcase_add_test(values, test_variables_that_are_passed_over);
    suite_add_tcase(suite, values);
    TCase *files = tcase_create("files");
    tcase_add_test(files, test_keys_and_values_of_files_that_are_refused);
    tcase_add_test(files, test_yaml_that_is_refused);
    tcase_add_test(files, test_files_that_say_nothing_are_accepted);
    tcase_add_test(files, test_deep_and_long_files_end_early);
    tcase_add_test(files, test_model_config);
    tcase_add_test(files, test_model_config_of_a_decoder);
    tcase_add_test(files, test_model_config_of_text);
    tcase_add_test(files, test_model_config_of_inputs);
    tcase_add_test(files, test_model_config_of_layers);
    tcase_add_test(files, test_model_config_of_long_layers);
    tcase_add_test(files, test_model_config_of_a_graph);
    tcase_add_test(files, test_model_config_when_allocations_fail);
    suite_add_tcase(suite, files);
    return util_run(suite);
}
