/* See command.h. */
#include "tests/bench/command.h"

#include "base/mem.h"
#include "tests/util.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 32 };

static char *read_all(FILE *file)
{
    long bytes = ftell(file);
    ck_assert_int_ge(bytes, 0);
    char *text = base_alloc((size_t)bytes + 1);
    ck_assert_ptr_nonnull(text);
    rewind(file);
    ck_assert_uint_eq(fread(text, 1, (size_t)bytes, file), (size_t)bytes);
    return text;
}

char *command_run(int (*run)(int argc, char **argv), const char *words, int *result)
{
    char copy[4 * UTIL_PATH_BYTES];
    char *arguments[ARGUMENTS_MAX + 1] = {NULL};
    int n = 0;
    char *rest = NULL;
    ck_assert_int_lt(snprintf(copy, sizeof(copy), "%s", words), (int)sizeof(copy));
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        ck_assert_int_lt(n, ARGUMENTS_MAX);
        arguments[n++] = word;
    }
    (void)fflush(stdout);
    FILE *to = tmpfile();
    int kept = dup(STDOUT_FILENO);
    ck_assert(kept >= 0 && to != NULL && dup2(fileno(to), STDOUT_FILENO) >= 0);
    optind = 0; // glibc's getopt begins anew
    *result = run(n, arguments);
    (void)fflush(stdout);
    ck_assert_int_ge(dup2(kept, STDOUT_FILENO), 0);
    (void)close(kept);
    (void)fseek(to, 0, SEEK_END);
    char *text = read_all(to);
    (void)fclose(to);
    return text;
}

json_t *command_json(const char *text, uint32_t line)
{
    for (uint32_t l = 0; l < line; l++) {
        text = strchr(text, '\n');
        ck_assert_ptr_nonnull(text);
        text++;
    }
    json_error_t why;
    json_t *object = json_loadb(text, strcspn(text, "\n"), 0, &why);
    ck_assert_msg(object != NULL, "line %u: %s", line, why.text);
    return object;
}

double command_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "%s", key);
    return json_number_value(value);
}
