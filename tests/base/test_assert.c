/* Assertions: what stays on in every build and what only in debug builds. */
#include "base/assert.h"

#include "tests/util.h"

static void fail_assertion(void *argument)
{
    base_assert(argument != NULL);
}

static void fail_debug_assertion(void *argument)
{
    base_debug_assert(argument != NULL);
}

START_TEST(test_assert_aborts_only_when_false)
{
    int anything = 0;
    ck_assert(util_aborts(fail_assertion, NULL));
    ck_assert(!util_aborts(fail_assertion, &anything));
}
END_TEST

START_TEST(test_debug_assert_aborts_only_in_debug_builds)
{
#ifdef CELLBATCH_DEBUG
    ck_assert(util_aborts(fail_debug_assertion, NULL));
#else
    ck_assert(!util_aborts(fail_debug_assertion, NULL));
#endif
}
END_TEST

START_TEST(test_release_debug_assert_does_not_evaluate)
{
    int calls = 0;
    base_debug_assert(++calls > 0);
#ifdef CELLBATCH_DEBUG
    ck_assert_int_eq(calls, 1);
#else
    ck_assert_int_eq(calls, 0);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assert");
    TCase *tcase = tcase_create("assert");
    tcase_add_test(tcase, test_assert_aborts_only_when_false);
    tcase_add_test(tcase, test_debug_assert_aborts_only_in_debug_builds);
    tcase_add_test(tcase, test_release_debug_assert_does_not_evaluate);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
