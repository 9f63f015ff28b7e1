/* `cellbatch-bench layouts`: both layouts have the same bits, which the command itself checks
 * before it measures, for any sizes. No speed is asserted. */
#include "base/mem.h"
#include "bench/bench.h"
#include "tests/bench/command.h"
#include "tests/cells/isa.h"
#include "tests/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* _i: of instruction sets. */
START_TEST(test_both_layouts_have_the_same_bits)
{
    char words[256];
    int result = 0;
    if (isa_at(_i) == NULL) {
        return;
    }
    (void)snprintf(words, sizeof(words),
                   "layouts --isa=%s --shapes=1x1,7x5,33x50,20x97 --rows=1,8,9,17,33,48,63,64 "
                   "--ms=1 --json",
                   isa_name(_i));
    char *text = command_run(bench_layouts, words, &result);
    const char *name = isa_name(_i);
    if (strcmp(name, "avx2") != 0 && strcmp(name, "avx512") != 0) {
        ck_assert_int_eq(result, 2); // columns are not known to it
    } else {
        ck_assert_int_eq(result, EXIT_SUCCESS);
        json_decref(command_json(text, 0)); // the host
        for (uint32_t line = 1; line <= 32; line++) {
            json_t *object = command_json(text, line);
            ck_assert_double_gt(command_number(object, "rows_us"), 0.0);
            ck_assert_double_gt(command_number(object, "columns_us"), 0.0);
            ck_assert_double_gt(command_number(object, "speedup_of_columns"), 0.0);
            json_decref(object);
        }
    }
    base_free(text);
}
END_TEST

START_TEST(test_what_cannot_be_measured_is_said)
{
    static const char *const words[] = {"layouts --shapes=3",      "layouts --shapes=0x4",
                                        "layouts --shapes=4x8193", "layouts --rows=0",
                                        "layouts --rows=65",       "layouts --isa=mmx"};
    int result = 0;
    base_free(command_run(bench_layouts, words[_i], &result));
    ck_assert_int_eq(result, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_layouts");
    TCase *tcase = tcase_create("bench_layouts");
    tcase_add_loop_test(tcase, test_both_layouts_have_the_same_bits, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_what_cannot_be_measured_is_said, 0, 6);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
