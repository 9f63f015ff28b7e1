/* The build's id is the one that the file on disk has. */
#include "base/build.h"

#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

START_TEST(test_id_is_that_of_the_file)
{
    char id[BASE_BUILD_ID_BYTES];
    char again[BASE_BUILD_ID_BYTES];
    char command[128];
    char line[256];
    bool is_found = false;
    base_build_id(id);
    base_build_id(again);
    ck_assert_str_eq(id, again);
    ck_assert_uint_eq(strspn(id, "0123456789abcdef"), strlen(id));
    ck_assert_uint_ge(strlen(id), 16);
    if (system("command -v readelf >/dev/null") != 0) { // NOLINT(cert-env33-c): a constant
        util_skip("readelf is not installed");
        return;
    }
    snprintf(command, sizeof(command), "readelf -n /proc/%ld/exe", (long)getpid());
    FILE *output = popen(command, "r"); // NOLINT(cert-env33-c): of a number
    ck_assert_ptr_nonnull(output);
    while (fgets(line, sizeof(line), output) != NULL) {
        is_found |= strstr(line, "Build ID") != NULL && strstr(line, id) != NULL;
    }
    ck_assert_int_eq(pclose(output), 0);
    ck_assert_msg(is_found, "%s is not the file's", id);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("build");
    TCase *tcase = tcase_create("id");
    tcase_add_test(tcase, test_id_is_that_of_the_file);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
