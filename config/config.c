/* Precedence, and the rules between options.
 *
 * Flags are read first, since they name the file, and again last, since they win: reading them
 * twice is simpler than keeping them. The texts live in one arena that ends with the result. One
 * thread; blocks only to read the file. */
#include "config/config.h"

#include "base/assert.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "config/internal.h"
#include "config/sources.h"

#include <string.h>

/* File, its pairs and all texts, several times over. */
#define ARENA_CHUNK_BYTES  ((size_t)16 << 10)
#define ARENA_BUDGET_BYTES ((size_t)16 << 20)

static const struct cfg_option rows[] = {
#define ROW(type, field, def, least, most, values, section, ways, help)                            \
    CFG_OPTION_ROW(cfg_config, type, field, def, least, most, values, section, ways, help)
    CFG_OPTIONS(ROW)
#undef ROW
};

const struct cfg_table cfg__table = {rows, CFG_OPTION_COUNT};

const char *cfg__section_title(enum cfg_section section)
{
    static const char *const titles[] = {
#define SECTION_TITLE(name, title) [CFG_SECTION_##name] = (title),
        CFG_SECTIONS(SECTION_TITLE)
#undef SECTION_TITLE
    };
    base_assert((unsigned)section < CFG_SECTION_COUNT);
    return titles[section];
}

const char *cfg__type_grammar(enum cfg_type type)
{
    static const char *const grammars[] = {
#define TYPE_GRAMMAR(name, grammar) [CFG_TYPE_##name] = (grammar),
        CFG_TYPES(TYPE_GRAMMAR)
#undef TYPE_GRAMMAR
    };
    base_assert((unsigned)type < sizeof(grammars) / sizeof(grammars[0]));
    return grammars[type];
}

static enum base_status check_ports(const struct cfg_config *config, struct base_error *error)
{
    const struct {
        bool on;
        const char *name;
        const char *address;
        uint32_t port;
    } ports[] = {
        {config->allow_grpc, "grpc-port", config->grpc_address, config->grpc_port},
        {config->allow_http, "http-port", config->http_address, config->http_port},
        {config->allow_metrics, "metrics-port", config->metrics_address, config->metrics_port},
    };
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = i + 1; j < 3; j++) {
            if (ports[i].on && ports[j].on && ports[i].port != 0 &&
                ports[i].port == ports[j].port && strcmp(ports[i].address, ports[j].address) == 0) {
                return base_fail(error, BASE_INVALID_ARGUMENT, "%s and %s are both %u",
                                 ports[i].name, ports[j].name, ports[i].port);
            }
        }
    }
    return BASE_OK;
}

/* What is asked for half is refused: plain text must never come of it. */
static enum base_status check_tls(const struct cfg_config *config, struct base_error *error)
{
    bool has_cert = config->tls_cert_file[0] != '\0';
    bool has_key = config->tls_key_file[0] != '\0';
    if (has_cert != has_key) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s is given without %s",
                         has_cert ? "tls-cert-file" : "tls-key-file",
                         has_cert ? "tls-key-file" : "tls-cert-file");
    }
    if (!has_cert && config->tls_client_ca_file[0] != '\0') {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "tls-client-ca-file is given without tls-cert-file and tls-key-file");
    }
    if (!has_cert && config->metrics_tls) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "metrics-tls is true without tls-cert-file and tls-key-file");
    }
    return BASE_OK;
}

/* Rules between options, checked on the result, whichever way they came. */
static enum base_status check_together(const struct cfg_config *config, struct base_error *error)
{
    bool checks_model = config->check_model[0] != '\0';
    bool explains_model = config->explain_model[0] != '\0';
    if (config->check_config && checks_model) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "check-config and check-model are two tasks; give one");
    }
    if (explains_model && (config->check_config || checks_model)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%s and explain-model are two tasks; give one",
                         config->check_config ? "check-config" : "check-model");
    }
    if (!checks_model && !explains_model && config->model_repository[0] == '\0') {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "model-repository is missing: the folder of models, as in "
                         "--model-repository models");
    }
    if (!config->allow_grpc && !config->allow_http) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "allow-grpc and allow-http are both false: nothing to serve on");
    }
    if (config->threads != 0 && config->threads < config->teams) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "teams is %u, more than threads, which is %u", config->teams,
                         config->threads);
    }
    BASE_TRY(check_tls(config, error));
    return check_ports(config, error);
}

static bool is_on_command_line(const struct cfg_input *input, const char *flag)
{
    for (int i = 1; i < input->argc; i++) {
        if (strcmp(input->argv[i], flag) == 0) {
            return true;
        }
    }
    return false;
}

/* Everything over the defaults; text NULL = the file that `config` names, if any. */
static enum base_status read_sources(struct cfg_config *config, const struct cfg_input *input,
                                     const char *file, const void *text, size_t length,
                                     struct base_error *error)
{
    const struct cfg_target target = {&cfg__table, config, config->sources, &config->arena};
    BASE_TRY(cfg__from_environment(&target, input->environment, error));
    BASE_TRY(cfg__from_flags(&target, input->argc, input->argv, error));
    const char *path = config->config;
    enum cfg_source path_source = config->sources[CFG_ID_config];
    cfg__table_defaults(&cfg__table, config);
    memset(config->sources, 0, sizeof(config->sources));
    if (text != NULL) {
        BASE_TRY(cfg__from_text(&target, file, text, length, error));
    } else if (path[0] != '\0') {
        BASE_TRY(cfg__from_file(&target, path, error));
    }
    config->config = path;
    config->sources[CFG_ID_config] = path_source;
    BASE_TRY(cfg__from_environment(&target, input->environment, error));
    BASE_TRY(cfg__from_flags(&target, input->argc, input->argv, error));
    return check_together(config, error);
}

enum base_status cfg__load_text(const struct cfg_input *input, const char *file, const void *bytes,
                                size_t length, struct cfg_config **out, struct base_error *error)
{
    base_assert(input->argc == 0 || input->argv != NULL);
    *out = NULL;
    struct cfg_config *config = base_alloc(sizeof(*config));
    if (config == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "configuration: out of memory");
    }
    base_arena_init(&config->arena, ARENA_CHUNK_BYTES, ARENA_BUDGET_BYTES);
    cfg__table_defaults(&cfg__table, config);
    config->help = is_on_command_line(input, "--help");
    config->version = !config->help && is_on_command_line(input, "--version");
    if (!config->help && !config->version) {
        enum base_status status = read_sources(config, input, file, bytes, length, error);
        if (status != BASE_OK) {
            cfg_free(config);
            return status;
        }
    }
    *out = config;
    return BASE_OK;
}

enum base_status cfg_load(const struct cfg_input *input, struct cfg_config **out,
                          struct base_error *error)
{
    return cfg__load_text(input, NULL, NULL, 0, out, error);
}

void cfg_free(struct cfg_config *config)
{
    if (config != NULL) {
        base_arena_release(&config->arena);
        base_free(config);
    }
}

uint32_t cfg_threads(const struct cfg_config *config)
{
    if (config->threads != 0) {
        return config->threads;
    }
    uint32_t allowed = base_cpus_allowed();
    uint32_t threads = allowed > 1 ? allowed - 1 : 1;
    return threads < config->teams ? config->teams : threads;
}

enum base_log_level cfg_log_level(const struct cfg_config *config)
{
    switch (config->log_level[0]) {
    case 'e':
        return BASE_LOG_ERROR;
    case 'w':
        return BASE_LOG_WARN;
    case 'd':
        return BASE_LOG_DEBUG;
    default:
        return BASE_LOG_INFO;
    }
}

enum base_log_format cfg_log_format(const struct cfg_config *config)
{
    return strcmp(config->log_format, "json") == 0 ? BASE_LOG_JSON : BASE_LOG_TEXT;
}

bool cfg_controls_models(const struct cfg_config *config)
{
    return strcmp(config->model_control_mode, "explicit") == 0;
}

bool cfg_loads_every_model(const struct cfg_config *config)
{
    const struct cfg_names *names = &config->load_model;
    for (uint32_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], CFG_NAME_ANY) == 0) {
            return true;
        }
    }
    return names->count == 0 && !cfg_controls_models(config);
}

bool cfg_calibrates(const struct cfg_config *config)
{
    return strcmp(config->calibrate, "on") == 0 ||
           (strcmp(config->calibrate, "auto") == 0 && config->calibration_cache[0] != '\0');
}

enum base_status cfg_queue_full_status(const struct cfg_config *config)
{
    return strcmp(config->queue_full_status, "unavailable") == 0 ? BASE_UNAVAILABLE
                                                                 : BASE_RESOURCE_EXHAUSTED;
}
