/* docs/operators.md lists the operators that the importer knows. */
#include "base/buf.h"
#include "cells/import/graph.h"
#include "tests/util.h"

START_TEST(test_the_table_of_operators_is_the_importers)
{
    struct base_buf made;
    base_buf_init(&made, 1 << 20);
    base_buf_text(&made, "| operator | limits |\n|---|---|\n");
    uint32_t n = 0;
    for (; cell__operator_at(n) != NULL; n++) {
        const struct cell__operator *op = cell__operator_at(n);
        base_buf_printf(&made, "| %s | %s |\n", op->name, op->notes);
        ck_assert_ptr_eq(cell__operator_find(op->name), op);
    }
    ck_assert_uint_gt(n, 0);
    ck_assert(!made.failed);
    util_expect_made("docs/operators.md", "operators", made.data);
    base_buf_release(&made);
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
