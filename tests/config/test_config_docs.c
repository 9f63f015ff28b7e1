/* docs/configuration.md holds exactly the tables that the options make, and its examples of a file
 * and of messages are true. CELLBATCH_UPDATE_DOCS=1 writes the tables into it. */
#include "base/mem.h"
#include "config/internal.h"
#include "config/model_config.h"
#include "tests/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_document(char path[UTIL_PATH_BYTES])
{
    util_repo_path(path, "docs/configuration.md");
    char *document = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(document);
    return document;
}

START_TEST(test_tables_are_those_of_the_options)
{
    struct base_buf made;
    base_buf_init(&made, 1 << 20);
    cfg_write_reference(&made);
    base_buf_text(&made, "\n");
    ck_assert(!made.failed);
    util_expect_made("docs/configuration.md", "options", made.data);
    base_buf_release(&made);
}
END_TEST

START_TEST(test_example_file_is_accepted)
{
    char path[UTIL_PATH_BYTES];
    char *document = read_document(path);
    const char *start = strstr(document, "```yaml\n");
    ck_assert_ptr_nonnull(start);
    start += strlen("```yaml\n");
    const char *end = strstr(start, "```");
    const char *argv[] = {"cellbatchd"};
    const struct cfg_input input = {1, argv, NULL};
    struct cfg_config *config = NULL;
    struct base_error error;
    enum base_status status =
        cfg__load_text(&input, "example", start, (size_t)(end - start), &config, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(config->load_model.count, 2);
    ck_assert_uint_eq(config->drain_delay, 5000 * CFG_MS);
    cfg_free(config);
    base_free(document);
}
END_TEST

START_TEST(test_every_default_is_in_range_and_reads_back)
{
    struct base_arena arena;
    base_arena_init(&arena, 4096, 1 << 16);
    for (uint32_t i = 0; i < cfg__table.n_options; i++) {
        const struct cfg_option *option = &cfg__table.options[i];
        const char *text = option->default_text;
        struct cfg_config scratch = {0};
        const struct cfg_given given = {text, strlen(text), option->field};
        if (text[0] != '\0') {
            struct base_error error;
            ck_assert_msg(cfg__value_set(option, &scratch, &arena, &given, &error) == BASE_OK, "%s",
                          error.message);
        }
        ck_assert_uint_le(option->least, option->most);
        ck_assert_uint_gt(strlen(option->help), 10);
    }
    base_arena_release(&arena);
}
END_TEST

START_TEST(test_model_keys_are_documented)
{
    char path[UTIL_PATH_BYTES];
    char *document = read_document(path);
    static const struct {
        const char *field;
        const char *help;
    } keys[] = {
#define KEY(type, field, def, least, most, values, section, ways, help) {#field, help},
        CFG_MODEL_OPTIONS(KEY)
#undef KEY
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        ck_assert_msg(strstr(document, keys[i].help) != NULL, "%s is behind: %s", keys[i].field,
                      keys[i].help);
    }
    base_free(document);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_docs");
    TCase *docs = tcase_create("docs");
    tcase_add_test(docs, test_tables_are_those_of_the_options);
    tcase_add_test(docs, test_example_file_is_accepted);
    tcase_add_test(docs, test_every_default_is_in_range_and_reads_back);
    tcase_add_test(docs, test_model_keys_are_documented);
    suite_add_tcase(suite, docs);
    return util_run(suite);
}
