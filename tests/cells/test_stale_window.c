/* The check of split.h notices a window that is taken for another chain's: this program has the
 * device's windows with that fault (mutants/stale_window.c). Without it the same check passes, in
 * test_device. */
#include "tests/cells/isa.h"
#include "tests/cells/split.h"
#include "tests/util.h"

START_TEST(test_stale_window_is_caught)
{
    struct build build;
    struct split_difference difference;
    split_build_front(&build);
    struct split_options options = {.def = &build.def,
                                    .isa = isa_name(_i / 2),
                                    .members = 1 + (uint32_t)_i % 2,
                                    .n_chains = SPLIT_CHAINS_MAX,
                                    .steps_max = 75};
    if (isa_at(_i / 2) != NULL) {
        ck_assert(!split_has_the_bits_of_one_run(&options, &difference));
    }
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stale_window");
    TCase *tcase = tcase_create("bits");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_stale_window_is_caught, 0, 2 * ISA_COUNT);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
