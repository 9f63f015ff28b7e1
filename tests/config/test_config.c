/* The configuration's result: each option by each way, precedence, rules between options, the
 * round trip through the effective file, and every allocation failing in turn. */
#include "config/config.h"

#include "base/mem.h"
#include "config/internal.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

#define ARGS_MAX 8

/* What one case gives; NULL-ended lists. */
struct given {
    const char *file;
    const char *environment[ARGS_MAX];
    const char *flags[ARGS_MAX];
};

static enum base_status load(const struct given *given, struct cfg_config **out,
                             struct base_error *error)
{
    const char *argv[ARGS_MAX + 1] = {"cellbatchd"};
    int argc = 1;
    for (; argc <= ARGS_MAX && given->flags[argc - 1] != NULL; argc++) {
        argv[argc] = given->flags[argc - 1];
    }
    const struct cfg_input input = {argc, argv, given->environment};
    *error = (struct base_error){0};
    size_t length = given->file == NULL ? 0 : strlen(given->file);
    return cfg__load_text(&input, "c.yaml", given->file, length, out, error);
}

static struct cfg_config *load_ok(const struct given *given)
{
    struct cfg_config *config = NULL;
    struct base_error error;
    enum base_status status = load(given, &config, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    return config;
}

static void assert_fails(const struct given *given, const char *message)
{
    struct cfg_config *config = NULL;
    struct base_error error;
    ck_assert_int_eq(load(given, &config, &error), BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(error.status, BASE_INVALID_ARGUMENT);
    ck_assert_ptr_null(config);
    ck_assert_str_eq(error.message, message);
}

/* A value other than the default, as text. */
static const char *other_value(const struct cfg_option *option)
{
    switch (option->type) {
    case CFG_TYPE_BOOL:
        return strcmp(option->default_text, "true") == 0 ? "false" : "true";
    case CFG_TYPE_ID:
    case CFG_TYPE_DECIMAL:
    case CFG_TYPE_COUNT:
        return "7";
    case CFG_TYPE_SIZE:
        return "3MiB";
    case CFG_TYPE_TIME:
        return "1500ms";
    case CFG_TYPE_TEXT:
        return "some where";
    case CFG_TYPE_NAMES:
        return "one,two-2";
    case CFG_TYPE_VOCABULARIES: // of models
    case CFG_TYPE_LAYERS:
    case CFG_TYPE_PARTS:
    case CFG_TYPE_CONSTANTS:
    case CFG_TYPE_STATES:
    case CFG_TYPE_SHAPES:
    case CFG_TYPE_TENSOR:
    case CFG_TYPE_WORD:
        break;
    case CFG_TYPE_SWITCH:
        return "true";
    }
    static const char *const words[] = {"blas", "scalar", "unavailable", "debug",
                                        "json", "off",    "explicit"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(option->values, words[i]) != NULL) {
            return words[i];
        }
    }
    ck_abort_msg("no other word for %s", option->field);
}

static void assert_value(const struct cfg_config *config, uint32_t index, const char *text,
                         enum cfg_source source)
{
    const struct cfg_option *option = &cfg__table.options[index];
    struct base_buf buf;
    base_buf_init(&buf, 4096);
    cfg__value_write(option, config, &buf);
    char yaml[128];
    (void)snprintf(yaml, sizeof(yaml), option->type == CFG_TYPE_TEXT ? "\"%s\"" : "%s", text);
    ck_assert_str_eq(buf.data, option->type == CFG_TYPE_NAMES ? "[\"one\", \"two-2\"]" : yaml);
    ck_assert_int_eq(config->sources[index], source);
    base_buf_release(&buf);
}

/* What a file says besides, so that the option may stand. */
static const char *file_beside(uint32_t index)
{
    switch (index) {
    case CFG_ID_model_repository:
        return "";
    case CFG_ID_tls_cert_file:
        return "model_repository: m\ntls_key_file: k\n";
    case CFG_ID_tls_key_file:
        return "model_repository: m\ntls_cert_file: c\n";
    case CFG_ID_tls_client_ca_file:
    case CFG_ID_metrics_tls:
        return "model_repository: m\ntls_cert_file: c\ntls_key_file: k\n";
    default:
        return "model_repository: m\n";
    }
}

START_TEST(test_every_option_by_flag)
{
    for (uint32_t i = 0; i < CFG_OPTION_COUNT; i++) {
        const struct cfg_option *option = &cfg__table.options[i];
        if (option->type == CFG_TYPE_SWITCH || i == CFG_ID_config) {
            continue;
        }
        char key[CFG_NAME_BYTES];
        cfg__option_key(option, key);
        char joined[256];
        char name[CFG_NAME_BYTES + 2];
        const char *value = other_value(option);
        (void)snprintf(joined, sizeof(joined), "--%s=%s", key, value);
        (void)snprintf(name, sizeof(name), "--%s", key);
        struct cfg_config *config =
            load_ok(&(struct given){.flags = {joined}, .file = file_beside(i)});
        assert_value(config, i, value, CFG_SOURCE_FLAG);
        cfg_free(config);
        config = load_ok(&(struct given){.flags = {name, value}, .file = file_beside(i)});
        assert_value(config, i, value, CFG_SOURCE_FLAG);
        cfg_free(config);
    }
}
END_TEST

START_TEST(test_every_option_by_environment)
{
    for (uint32_t i = 0; i < CFG_OPTION_COUNT; i++) {
        const struct cfg_option *option = &cfg__table.options[i];
        if (option->ways != CFG_WAYS_ALL) {
            continue;
        }
        char name[CFG_NAME_BYTES];
        char variable[256];
        cfg__option_env(option, name);
        (void)snprintf(variable, sizeof(variable), "%s=%s", name, other_value(option));
        struct cfg_config *config =
            load_ok(&(struct given){.environment = {"HOME=/", variable}, .file = file_beside(i)});
        assert_value(config, i, other_value(option), CFG_SOURCE_ENVIRONMENT);
        cfg_free(config);
    }
}
END_TEST

START_TEST(test_every_option_by_file)
{
    for (uint32_t i = 0; i < CFG_OPTION_COUNT; i++) {
        const struct cfg_option *option = &cfg__table.options[i];
        if (option->ways != CFG_WAYS_ALL) {
            continue;
        }
        char key[CFG_NAME_BYTES];
        char file[256];
        cfg__option_key(option, key);
        (void)snprintf(file, sizeof(file), "# a file\n%s%s: %s\n", file_beside(i), key,
                       other_value(option));
        struct cfg_config *config = load_ok(&(struct given){.file = file});
        assert_value(config, i, other_value(option), CFG_SOURCE_FILE);
        // The same with underscores for dashes.
        (void)snprintf(file, sizeof(file), "%s%s: %s\n", file_beside(i), option->field,
                       other_value(option));
        cfg_free(config);
        config = load_ok(&(struct given){.file = file});
        assert_value(config, i, other_value(option), CFG_SOURCE_FILE);
        cfg_free(config);
    }
}
END_TEST

START_TEST(test_defaults)
{
    struct cfg_config *config = load_ok(&(struct given){.flags = {"--model-repository", "m"}});
    ck_assert_str_eq(config->model_repository, "m");
    ck_assert_str_eq(config->grpc_address, "127.0.0.1");
    ck_assert_uint_eq(config->grpc_port, 8001);
    ck_assert_uint_eq(config->http_port, 8000);
    ck_assert_uint_eq(config->metrics_port, 8002);
    ck_assert_uint_eq(config->queue_max, 4096);
    ck_assert_uint_eq(config->max_sequence_length, 4096);
    ck_assert_uint_eq(config->grpc_max_message_size, 64 << 20);
    ck_assert_uint_eq(config->http_max_input_size, 64 << 20);
    ck_assert_uint_eq(config->http_max_json_size, 8 << 20);
    ck_assert_uint_eq(config->drain_delay, 0);
    ck_assert_uint_eq(config->exit_timeout_secs, 30000 * CFG_MS);
    ck_assert_uint_eq(config->load_model.count, 0);
    ck_assert(config->exit_on_error);
    ck_assert(!cfg_calibrates(config));
    ck_assert(!cfg_controls_models(config));
    ck_assert(cfg_loads_every_model(config));
    ck_assert_int_eq(cfg_queue_full_status(config), BASE_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(cfg_log_level(config), BASE_LOG_INFO);
    ck_assert_int_eq(cfg_log_format(config), BASE_LOG_TEXT);
    ck_assert_uint_ge(cfg_threads(config), 1);
    for (uint32_t i = 0; i < CFG_OPTION_COUNT; i++) {
        bool is_default = config->sources[i] == CFG_SOURCE_DEFAULT;
        ck_assert(is_default == (i != CFG_ID_model_repository));
    }
    cfg_free(config);
}
END_TEST

START_TEST(test_models_loaded_at_the_start)
{
    static const struct {
        struct given given;
        bool controls, every;
    } cases[] = {
        {{.flags = {"--model-repository=m", "--load-model=a"}}, false, false},
        {{.flags = {"--model-repository=m", "--load-model=*"}}, false, true},
        {{.flags = {"--model-repository=m", "--model-control-mode=none"}}, false, true},
        {{.flags = {"--model-repository=m", "--model-control-mode=explicit"}}, true, false},
        {{.flags = {"--model-repository=m", "--model-control-mode=explicit", "--load-model=a,*"}},
         true,
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cfg_config *config = load_ok(&cases[i].given);
        ck_assert(cfg_controls_models(config) == cases[i].controls);
        ck_assert(cfg_loads_every_model(config) == cases[i].every);
        cfg_free(config);
    }
}
END_TEST

START_TEST(test_resolved_values)
{
    struct cfg_config *config = load_ok(&(struct given){
        .flags = {"--model-repository=m", "--threads=3", "--teams=2", "--log-level=warn",
                  "--log-format=json", "--queue-full-status=unavailable"}});
    ck_assert_uint_eq(cfg_threads(config), 3);
    ck_assert_int_eq(cfg_log_level(config), BASE_LOG_WARN);
    ck_assert_int_eq(cfg_log_format(config), BASE_LOG_JSON);
    ck_assert_int_eq(cfg_queue_full_status(config), BASE_UNAVAILABLE);
    cfg_free(config);
    static const enum base_log_level levels[] = {BASE_LOG_ERROR, BASE_LOG_WARN, BASE_LOG_INFO,
                                                 BASE_LOG_DEBUG};
    static const char *const words[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < 4; i++) {
        config =
            load_ok(&(struct given){.flags = {"--model-repository=m", "--log-level", words[i]}});
        ck_assert_int_eq(cfg_log_level(config), levels[i]);
        cfg_free(config);
    }
    config = load_ok(&(struct given){.flags = {"--model-repository=m", "--teams=64"}});
    ck_assert_uint_ge(cfg_threads(config), 64);
    cfg_free(config);
}
END_TEST

START_TEST(test_types_are_measured_where_that_is_kept)
{
    static const struct {
        const char *flag;
        bool without, with_cache;
    } cases[] = {{"--calibrate=auto", false, true},
                 {"--calibrate=on", true, true},
                 {"--calibrate=off", false, false}};
    for (size_t i = 0; i < 3; i++) {
        struct cfg_config *config =
            load_ok(&(struct given){.flags = {"--model-repository=m", cases[i].flag}});
        ck_assert_int_eq(cfg_calibrates(config), cases[i].without);
        cfg_free(config);
        config = load_ok(&(struct given){
            .flags = {"--model-repository=m", cases[i].flag, "--calibration-cache=c"}});
        ck_assert_int_eq(cfg_calibrates(config), cases[i].with_cache);
        cfg_free(config);
    }
}
END_TEST

START_TEST(test_flags_win_over_environment_over_file)
{
    struct given given = {
        .file = "model-repository: f\ngrpc-port: 1\nhttp-port: 2\nrows: 3\nload-model: [a, b]\n",
        .environment = {"CELLBATCH_HTTP_PORT=12", "CELLBATCH_ROWS=13", "CELLBATCH_LOAD_MODEL=c"},
        .flags = {"--rows=23", "--load-model=d", "--load-model=e"},
    };
    struct cfg_config *config = load_ok(&given);
    ck_assert_uint_eq(config->grpc_port, 1);
    ck_assert_uint_eq(config->http_port, 12);
    ck_assert_uint_eq(config->rows, 23);
    ck_assert_int_eq(config->sources[CFG_ID_grpc_port], CFG_SOURCE_FILE);
    ck_assert_int_eq(config->sources[CFG_ID_http_port], CFG_SOURCE_ENVIRONMENT);
    ck_assert_int_eq(config->sources[CFG_ID_rows], CFG_SOURCE_FLAG);
    ck_assert_uint_eq(config->load_model.count, 2);
    ck_assert_str_eq(config->load_model.names[0], "d");
    ck_assert_str_eq(config->load_model.names[1], "e");
    cfg_free(config);
}
END_TEST

START_TEST(test_config_file_is_named_by_flag_or_environment)
{
    char path[UTIL_PATH_BYTES];
    util_temp_dir(path);
    size_t end = strlen(path);
    memcpy(path + end, "/c.yaml", sizeof("/c.yaml"));
    util_write_file(path, "model-repository: here\n");
    char variable[UTIL_PATH_BYTES + 32];
    (void)snprintf(variable, sizeof(variable), "CELLBATCH_CONFIG=%s", path);
    struct cfg_config *config = load_ok(&(struct given){.environment = {variable}});
    ck_assert_str_eq(config->model_repository, "here");
    ck_assert_str_eq(config->config, path);
    ck_assert_int_eq(config->sources[CFG_ID_config], CFG_SOURCE_ENVIRONMENT);
    cfg_free(config);
    config = load_ok(
        &(struct given){.environment = {"CELLBATCH_CONFIG=/none"}, .flags = {"--config", path}});
    ck_assert_str_eq(config->model_repository, "here");
    cfg_free(config);
    path[end] = '\0';
    util_remove_tree(path);
}
END_TEST

START_TEST(test_missing_file_is_not_found)
{
    const char *argv[] = {"cellbatchd", "--config=/nonexistent/c.yaml"};
    const struct cfg_input input = {2, argv, NULL};
    struct cfg_config *config = NULL;
    struct base_error error;
    ck_assert_int_eq(cfg_load(&input, &config, &error), BASE_NOT_FOUND);
    ck_assert_str_eq(error.message, "/nonexistent/c.yaml: No such file or directory");
    argv[1] = "--config=/";
    ck_assert_int_eq(cfg_load(&input, &config, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "/: Is a directory");
    argv[1] = "--config=/dev/zero";
    ck_assert_int_eq(cfg_load(&input, &config, &error), BASE_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(error.message, "/dev/zero: longer than 1 MiB");
}
END_TEST

START_TEST(test_rules_between_options)
{
    const struct {
        const char *flags[4];
        const char *message;
    } cases[] = {
        {{NULL},
         "model-repository is missing: the folder of models, as in --model-repository models"},
        {{"--model-repository=m", "--allow-grpc=false", "--allow-http=false"},
         "allow-grpc and allow-http are both false: nothing to serve on"},
        {{"--model-repository=m", "--threads=2", "--teams=3"},
         "teams is 3, more than threads, which is 2"},
        {{"--model-repository=m", "--grpc-port=8000"}, "grpc-port and http-port are both 8000"},
        {{"--model-repository=m", "--metrics-port=8001"},
         "grpc-port and metrics-port are both 8001"},
        {{"--model-repository=m", "--tls-cert-file=c"},
         "tls-cert-file is given without tls-key-file"},
        {{"--model-repository=m", "--tls-key-file=k", "--tls-client-ca-file=a"},
         "tls-key-file is given without tls-cert-file"},
        {{"--model-repository=m", "--tls-client-ca-file=a"},
         "tls-client-ca-file is given without tls-cert-file and tls-key-file"},
        {{"--model-repository=m", "--metrics-tls=true"},
         "metrics-tls is true without tls-cert-file and tls-key-file"},
        {{"--check-model=x", "--check-config"},
         "check-config and check-model are two tasks; give one"},
        {{"--explain-model=x", "--check-config"},
         "check-config and explain-model are two tasks; give one"},
        {{"--explain-model=x", "--check-model=x"},
         "check-model and explain-model are two tasks; give one"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct given given = {0};
        memcpy(given.flags, cases[i].flags, sizeof(cases[i].flags));
        assert_fails(&given, cases[i].message);
    }
    // Not a clash: any port, other addresses, a front end that is off, nothing served at all.
    cfg_free(load_ok(&(struct given){
        .flags = {"--model-repository=m", "--grpc-port=0", "--http-port=0", "--metrics-port=0"}}));
    cfg_free(load_ok(&(struct given){
        .flags = {"--model-repository=m", "--grpc-port=8000", "--grpc-address=127.0.0.2"}}));
    cfg_free(load_ok(&(struct given){
        .flags = {"--model-repository=m", "--grpc-port=8000", "--allow-http=false"}}));
    cfg_free(load_ok(&(struct given){.flags = {"--check-model=x"}}));
    cfg_free(load_ok(&(struct given){.flags = {"--explain-model=x"}}));
}
END_TEST

START_TEST(test_help_and_version_need_nothing_else)
{
    struct cfg_config *config = load_ok(&(struct given){
        .file = "broken: [", .environment = {"CELLBATCH_ROWS=x"}, .flags = {"--what", "--help"}});
    ck_assert(config->help && !config->version);
    cfg_free(config);
    config = load_ok(&(struct given){.flags = {"--version"}});
    ck_assert(config->version && !config->help);
    cfg_free(config);
}
END_TEST

START_TEST(test_hidden_word_is_accepted)
{
    struct cfg_config *config =
        load_ok(&(struct given){.flags = {"--model-repository=m", "--backend=reference"}});
    ck_assert_str_eq(config->backend, "reference");
    cfg_free(config);
}
END_TEST

START_TEST(test_effective_configuration_reads_back_the_same)
{
    struct given given = {.environment = {"CELLBATCH_DRAIN_DELAY=90s"},
                          .flags = {"--model-repository=a \"b\" \\ ü: #", "--load-model=x,y",
                                    "--request-memory-max=1234kB", "--isa=scalar"}};
    struct cfg_config *config = load_ok(&given);
    struct base_buf first;
    struct base_buf second;
    base_buf_init(&first, 1 << 20);
    base_buf_init(&second, 1 << 20);
    cfg_write_effective(config, &first);
    cfg_free(config);
    ck_assert_ptr_nonnull(strstr(first.data, "drain-delay: 90s # environment\n"));
    ck_assert_ptr_nonnull(strstr(first.data, "request-memory-max: 1234kB # flag\n"));
    ck_assert_ptr_nonnull(strstr(first.data, "load-model: [\"x\", \"y\"] # flag\n"));
    ck_assert_ptr_nonnull(strstr(first.data, "rows: 4096 # default\n"));
    config = load_ok(&(struct given){.file = first.data});
    cfg_write_effective(config, &second);
    cfg_free(config);
    for (const char *c = first.data, *d = second.data; *c != '\0' || *d != '\0';) {
        size_t length = (size_t)(strstr(c, " # ") - c);
        ck_assert_int_eq(strncmp(c, d, length), 0);
        c = strchr(c, '\n') + 1;
        d = strchr(d, '\n') + 1;
    }
    base_buf_release(&first);
    base_buf_release(&second);
}
END_TEST

/* Loads again and again, the n-th allocation failing, until none does. Returns how often. */
static uint64_t walk_failures(const struct given *given)
{
    bool succeeded = false;
    uint64_t n = 0;
    while (!succeeded) {
        n++;
        ck_assert_uint_lt(n, 1000);
        struct cfg_config *config = NULL;
        struct base_error error;
        base_alloc_fail_at(n);
        enum base_status status = load(given, &config, &error);
        base_alloc_fail_at(0);
        succeeded = status == BASE_OK;
        ck_assert(succeeded || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert(succeeded == (config != NULL));
        ck_assert(succeeded || strstr(error.message, "out of memory") != NULL);
        cfg_free(config);
    }
    return n - 1;
}

START_TEST(test_every_allocation_may_fail)
{
    ck_assert_uint_ge(walk_failures(&(struct given){
                          .file = "model-repository: m\nload-model: [a, b, c]\n",
                          .environment = {"CELLBATCH_BACKEND=blas"},
                          .flags = {"--load-model=a,b", "--grpc-address=0.0.0.0"},
                      }),
                      2);
}
END_TEST

/* Texts of all kinds that need many chunks of the arena. */
START_TEST(test_every_allocation_of_a_large_file_may_fail)
{
    struct base_buf file;
    base_buf_init(&file, 1 << 20);
    static const char *const keys[] = {"model-repository", "grpc-address", "http-address"};
    for (size_t i = 0; i < 3; i++) {
        base_buf_printf(&file, "%s: \"%04000d\"\n", keys[i], 0);
    }
    base_buf_text(&file, "load-model:\n");
    for (int i = 0; i < 300; i++) {
        base_buf_printf(&file, "  - model_%0100d\n", i);
    }
    char path[UTIL_PATH_BYTES];
    util_temp_dir(path);
    size_t end = strlen(path);
    (void)snprintf(path + end, sizeof(path) - end, "/c.yaml");
    util_write_file(path, file.data);
    ck_assert_uint_ge(walk_failures(&(struct given){.file = file.data}), 10);
    ck_assert_uint_ge(walk_failures(&(struct given){.flags = {"--config", path}}), 10);
    base_buf_release(&file);
    path[end] = '\0';
    util_remove_tree(path);
}
END_TEST

START_TEST(test_help_is_80_columns_wide_and_names_every_option)
{
    struct base_buf help;
    base_buf_init(&help, 1 << 20);
    cfg_write_help(&help);
    ck_assert(!help.failed);
    for (uint32_t i = 0; i < CFG_OPTION_COUNT; i++) {
        char flag[CFG_NAME_BYTES + 8] = "\n  --";
        cfg__option_key(&cfg__table.options[i], flag + 5);
        ck_assert_ptr_nonnull(strstr(help.data, flag));
    }
    ck_assert_ptr_null(strstr(help.data, "reference"));
    for (const char *line = help.data; *line != '\0'; line = strchr(line, '\n') + 1) {
        size_t length = strcspn(line, "\n");
        ck_assert_msg(length <= 80, "%.*s", (int)length, line);
        ck_assert(length == 0 || line[length - 1] != ' ');
    }
    base_buf_release(&help);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *ways = tcase_create("ways");
    tcase_add_test(ways, test_every_option_by_flag);
    tcase_add_test(ways, test_every_option_by_environment);
    tcase_add_test(ways, test_every_option_by_file);
    tcase_add_test(ways, test_defaults);
    tcase_add_test(ways, test_models_loaded_at_the_start);
    tcase_add_test(ways, test_resolved_values);
    tcase_add_test(ways, test_types_are_measured_where_that_is_kept);
    tcase_add_test(ways, test_flags_win_over_environment_over_file);
    tcase_add_test(ways, test_config_file_is_named_by_flag_or_environment);
    tcase_add_test(ways, test_missing_file_is_not_found);
    tcase_add_test(ways, test_hidden_word_is_accepted);
    suite_add_tcase(suite, ways);
    TCase *whole = tcase_create("whole");
    tcase_add_test(whole, test_rules_between_options);
    tcase_add_test(whole, test_help_and_version_need_nothing_else);
    tcase_add_test(whole, test_effective_configuration_reads_back_the_same);
    tcase_add_test(whole, test_every_allocation_may_fail);
    tcase_add_test(whole, test_every_allocation_of_a_large_file_may_fail);
    tcase_add_test(whole, test_help_is_80_columns_wide_and_names_every_option);
    suite_add_tcase(suite, whole);
    return util_run(suite);
}
