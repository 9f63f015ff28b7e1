/* docs/model-files.md lists the operators that the importer knows, in the same words. */
#include "base/mem.h"
#include "cells/import/graph.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

START_TEST(test_the_table_of_operators_is_the_importers)
{
    char path[UTIL_PATH_BYTES];
    char line[512];
    util_repo_path(path, "docs/model-files.md");
    char *text = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(text);
    const char *at = strstr(text, "| operator | limits |\n|---|---|\n");
    ck_assert_ptr_nonnull(at);
    at += strlen("| operator | limits |\n|---|---|\n");
    uint32_t n = 0;
    for (; cell__operator_at(n) != NULL; n++) {
        const struct cell__operator *op = cell__operator_at(n);
        snprintf(line, sizeof(line), "| %s | %s |\n", op->name, op->notes);
        ck_assert_msg(strncmp(at, line, strlen(line)) == 0, "wanted in model-files.md: %s", line);
        at += strlen(line);
        ck_assert_ptr_eq(cell__operator_find(op->name), op);
    }
    ck_assert_uint_gt(n, 0);
    ck_assert_msg(at[0] == '\n', "model-files.md lists more operators than there are");
    base_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_docs");
    TCase *tests = tcase_create("docs");
    tcase_add_test(tests, test_the_table_of_operators_is_the_importers);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
