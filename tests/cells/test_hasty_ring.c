/* The check of split.h notices sums that are made too early for a row that others help: this
 * program has the device's windows with that fault (mutants/hasty_ring.c). Without it the same
 * check passes, in test_apart. */
#include "cells/backend.h"
#include "tests/cells/isa.h"
#include "tests/cells/split.h"
#include "tests/util.h"

START_TEST(test_hasty_ring_is_caught)
{
    static const struct cell_tuning tuning = {.apart_rows = 1, .ahead_rows = 3};
    struct build build;
    struct split_difference difference;
    split_build_front(&build);
    const struct split_options options = {.def = &build.def,
                                          .isa = isa_name(_i),
                                          .members = 2,
                                          .n_chains = 12,
                                          .steps_max = 300,
                                          .tuning = &tuning};
    if (isa_at(_i) != NULL) {
        ck_assert(!split_has_the_bits_of_one_run(&options, &difference));
    }
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hasty_ring");
    TCase *tcase = tcase_create("bits");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_hasty_ring_is_caught, 0, ISA_COUNT);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
