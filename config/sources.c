/* File, environment and flags into one struct: finds the option, refuses what is unknown or given
 * twice, and leaves the value to config/value.c. Runs once at start on one thread; linear in what
 * is given, times the number of options. */
#include "config/sources.h"

#include "base/assert.h"
#include "config/yaml.h"

#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 64u

/* Long enough for a file name of usual length, its place and a key. */
#define WHERE_BYTES 256

/* Value over the one from an earlier source; NAMES start afresh with each source. */
static enum base_status set(const struct cfg_target *target, int index, enum cfg_source source,
                            const struct cfg_given *given, struct base_error *error)
{
    const struct cfg_option *option = &target->table->options[index];
    if (option->type == CFG_TYPE_NAMES && target->sources != NULL &&
        target->sources[index] != source) {
        struct cfg_names *names = cfg__field(option, target->object);
        *names = (struct cfg_names){0};
    }
    if (target->sources != NULL) {
        target->sources[index] = source;
    }
    return cfg__value_set(option, target->object, target->arena, given, error);
}

/* `; did you mean NAME?` for the nearest option that may be given this way, or "". */
static const char *suggestion(const struct cfg_table *table, const char *key, size_t length,
                              enum cfg_ways ways, char text[CFG_NAME_BYTES + 32])
{
    int near = cfg__table_nearest(table, key, length);
    text[0] = '\0';
    if (near >= 0 && table->options[near].ways <= ways) {
        char name[CFG_NAME_BYTES];
        cfg__option_key(&table->options[near], name);
        (void)snprintf(text, CFG_NAME_BYTES + 32, "; did you mean %s%s?",
                       ways == CFG_WAYS_FLAG ? "--" : "", name);
    }
    return text;
}

static enum base_status fail_unknown_key(const struct cfg_target *target, const char *file,
                                         const struct cfg_yaml_pair *pair, struct base_error *error)
{
    char quoted[CFG_QUOTED_BYTES];
    char hint[CFG_NAME_BYTES + 32];
    return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%u:%u: unknown key %s%s", file,
                     pair->key_line, pair->key_column,
                     cfg__quote(quoted, pair->key, pair->key_length),
                     suggestion(target->table, pair->key, pair->key_length, CFG_WAYS_ALL, hint));
}

static enum base_status apply_pair(const struct cfg_target *target, const char *file,
                                   const struct cfg_yaml_pair *pair,
                                   const struct cfg_yaml_pair *seen[OPTIONS_MAX],
                                   struct base_error *error)
{
    int index = cfg__table_find(target->table, pair->key, pair->key_length, true);
    if (index < 0 || target->table->options[index].ways != CFG_WAYS_ALL) {
        return fail_unknown_key(target, file, pair, error);
    }
    const struct cfg_option *option = &target->table->options[index];
    char name[CFG_NAME_BYTES];
    cfg__option_key(option, name);
    const struct cfg_yaml_pair *before = seen[index];
    bool same_list = before != NULL && pair->in_list && before->key_line == pair->key_line &&
                     before->key_column == pair->key_column;
    if (before != NULL && !same_list) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%s:%u:%u: %s: given twice, first on line %u", file, pair->key_line,
                         pair->key_column, name, before->key_line);
    }
    if (pair->in_list && !cfg__type_is_list(option->type)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%u:%u: %s: takes one value, not a list",
                         file, pair->line, pair->column, name);
    }
    seen[index] = pair;
    char where[WHERE_BYTES];
    (void)snprintf(where, sizeof(where), "%s:%u:%u: %s", file, pair->line, pair->column, name);
    const struct cfg_given given = {pair->value, pair->value_length, where};
    return set(target, index, CFG_SOURCE_FILE, &given, error);
}

enum base_status cfg__from_text(const struct cfg_target *target, const char *file,
                                const void *bytes, size_t length, struct base_error *error)
{
    base_assert(target->table->n_options <= OPTIONS_MAX);
    struct cfg_yaml yaml;
    BASE_TRY(cfg__yaml_parse(file, bytes, length, target->arena, &yaml, error));
    const struct cfg_yaml_pair *seen[OPTIONS_MAX] = {0};
    for (uint32_t i = 0; i < yaml.n_pairs; i++) {
        BASE_TRY(apply_pair(target, file, &yaml.pairs[i], seen, error));
    }
    return BASE_OK;
}

enum base_status cfg__from_file(const struct cfg_target *target, const char *path,
                                struct base_error *error)
{
    const char *bytes = NULL;
    size_t length = 0;
    BASE_TRY(cfg__file_read(path, target->arena, &bytes, &length, error));
    return cfg__from_text(target, path, bytes, length, error);
}

/* Index of the option that the variable of this name sets, or -1. */
static int find_variable(const struct cfg_table *table, const char *name, size_t length)
{
    for (uint32_t i = 0; i < table->n_options; i++) {
        char env[CFG_NAME_BYTES];
        cfg__option_env(&table->options[i], env);
        if (table->options[i].ways != CFG_WAYS_FLAG && strlen(env) == length &&
            memcmp(env, name, length) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static enum base_status apply_variable(const struct cfg_target *target, const char *variable,
                                       bool seen[OPTIONS_MAX], struct base_error *error)
{
    static const char prefix[] = "CELLBATCH_";
    size_t length = strcspn(variable, "=");
    if (strncmp(variable, prefix, sizeof(prefix) - 1) != 0 || variable[length] == '\0' ||
        variable[length + 1] == '\0') {
        return BASE_OK;
    }
    const struct cfg_table *table = target->table;
    int index = find_variable(table, variable, length);
    if (index >= 0 && seen[index]) {
        return BASE_OK; // as getenv(): the first one counts
    }
    char env[CFG_NAME_BYTES];
    if (index >= 0) {
        seen[index] = true;
        const char *value = variable + length + 1;
        const struct cfg_given given = {value, strlen(value), env};
        cfg__option_env(&table->options[index], env);
        return set(target, index, CFG_SOURCE_ENVIRONMENT, &given, error);
    }
    size_t skip = sizeof(prefix) - 1;
    int near = cfg__table_nearest(table, variable + skip, length - skip);
    if (near < 0 || table->options[near].ways == CFG_WAYS_FLAG) {
        return BASE_OK;
    }
    cfg__option_env(&table->options[near], env);
    char quoted[CFG_QUOTED_BYTES];
    return base_fail(error, BASE_INVALID_ARGUMENT, "unknown variable %s; did you mean %s?",
                     cfg__quote(quoted, variable, length), env);
}

enum base_status cfg__from_environment(const struct cfg_target *target,
                                       const char *const *environment, struct base_error *error)
{
    base_assert(target->table->n_options <= OPTIONS_MAX);
    bool seen[OPTIONS_MAX] = {false};
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        BASE_TRY(apply_variable(target, environment[i], seen, error));
    }
    return BASE_OK;
}

static enum base_status fail_not_a_flag(const struct cfg_table *table, const char *argument,
                                        size_t length, struct base_error *error)
{
    char quoted[CFG_QUOTED_BYTES];
    cfg__quote(quoted, argument, length);
    if (strncmp(argument, "--", 2) != 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%s is not a flag; flags start with --, and --help lists them", quoted);
    }
    char hint[CFG_NAME_BYTES + 32];
    suggestion(table, argument + 2, length - 2, CFG_WAYS_FLAG, hint);
    return base_fail(error, BASE_INVALID_ARGUMENT, "unknown flag %s%s", quoted,
                     hint[0] != '\0' ? hint : "; --help lists them");
}

/* The flag at argv[*at], and *at moved to the last argument used. */
static enum base_status apply_flag(const struct cfg_target *target, int argc,
                                   const char *const *argv, int *at, bool seen[OPTIONS_MAX],
                                   struct base_error *error)
{
    const char *argument = argv[*at];
    size_t length = strcspn(argument, "=");
    bool dashed = strncmp(argument, "--", 2) == 0;
    int index = dashed ? cfg__table_find(target->table, argument + 2, length - 2, false) : -1;
    if (index < 0) {
        return fail_not_a_flag(target->table, argument, length, error);
    }
    const struct cfg_option *option = &target->table->options[index];
    char where[CFG_NAME_BYTES + 2] = "--";
    cfg__option_key(option, where + 2);
    if (seen[index] && !cfg__type_is_list(option->type)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: given twice", where);
    }
    seen[index] = true;
    const char *value = argument[length] == '=' ? argument + length + 1 : NULL;
    if (option->type == CFG_TYPE_SWITCH) {
        if (value != NULL) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%s: takes no value", where);
        }
        value = "true";
    } else if (value == NULL) {
        if (*at + 1 == argc) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%s: has no value", where);
        }
        value = argv[++*at];
        if (strncmp(value, "--", 2) == 0) {
            char quoted[CFG_QUOTED_BYTES];
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "%s: has no value, a flag follows: %s (a value with dashes is written "
                             "%s=VALUE)",
                             where, cfg__quote(quoted, value, strlen(value)), where);
        }
    }
    const struct cfg_given given = {value, strlen(value), where};
    return set(target, index, CFG_SOURCE_FLAG, &given, error);
}

enum base_status cfg__from_flags(const struct cfg_target *target, int argc, const char *const *argv,
                                 struct base_error *error)
{
    base_assert(target->table->n_options <= OPTIONS_MAX);
    bool seen[OPTIONS_MAX] = {false};
    for (int at = 1; at < argc; at++) {
        BASE_TRY(apply_flag(target, argc, argv, &at, seen, error));
    }
    return BASE_OK;
}
