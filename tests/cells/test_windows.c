/* Windows of a cell whose weights come from memory: one row that joins has W read, and the others'
 * windows are filled up with it. */
#include "cells/cpu/ahead.h"
#include "cells/cpu/device.h"
#include "cells/cpu/program.h"
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/cells/split.h"
#include "tests/util.h"

/* 12.2 MiB of weights. Windows have room for 36 steps, and a fill tops others up to 24 in all. */
enum { INPUTS = 1600, UNITS = 400, ROOM = 36, TOP_UP = 24, STEPS = 100, FEW = 3 };

static void build_wide(struct build *build)
{
    build_lstm_cell(build, INPUTS, UNITS, 5);
}

/* ---- How often ------------------------------------------------------------------------------ */

struct bed {
    struct build build;
    struct rig rig;
    struct rig_chain chains[2]; /* the second has FEW steps */
};

static void bed_open(struct bed *bed, uint32_t members)
{
    struct base_random random = util_random(7);
    build_wide(&bed->build);
    rig_init(&bed->rig, "cpu", NULL, members, &bed->build.def);
    rig_chain_init(&bed->chains[0], bed->rig.type, 0, STEPS, &random);
    rig_chain_init(&bed->chains[1], bed->rig.type, 1, FEW, &random);
}

static void bed_close(struct bed *bed)
{
    rig_chain_release(&bed->chains[0]);
    rig_chain_release(&bed->chains[1]);
    rig_release(&bed->rig);
    build_release(&bed->build);
}

/* The first n chains together. */
static void run(struct bed *bed, uint32_t n, uint32_t steps)
{
    struct cell_batch_row rows[2];
    for (uint32_t r = 0; r < n; r++) {
        rows[r] = rig_chain_row(&bed->chains[r], steps);
    }
    struct cell_batch batch = {.n_rows = n, .steps = steps, .rows = rows};
    rig_run(&bed->rig, &batch);
    ck_assert_uint_eq(batch.steps_done, steps);
    for (uint32_t r = 0; r < n; r++) {
        bed->chains[r].done += rows[r].steps_done;
    }
}

static uint64_t times_filled(const struct bed *bed)
{
    const struct cell_program *program = cell_cpu__program(bed->rig.device, bed->rig.type);
    return cell_windows_times_filled(program->windows[0]);
}

/* The first chain's window is empty at step ROOM, or, when another has come for FEW steps at step
 * `joined`, by so much later as that left room for. */
START_TEST(test_a_window_is_topped_up_when_another_is_filled)
{
    static const uint32_t joins[] = {4, 12, 30};
    const uint32_t joined = joins[_i / 2];
    const uint32_t room = TOP_UP - FEW;
    struct bed bed;
    bed_open(&bed, 1 + (uint32_t)_i % 2);
    run(&bed, 1, joined);
    ck_assert_uint_eq(times_filled(&bed), 1);
    run(&bed, 2, FEW);
    ck_assert_uint_eq(times_filled(&bed), 2);
    run(&bed, 1, ROOM - joined - FEW + (joined < room ? joined : room));
    ck_assert_uint_eq(times_filled(&bed), 2);
    run(&bed, 1, 1);
    ck_assert_uint_eq(times_filled(&bed), 3);
    bed_close(&bed);
}
END_TEST

/* Alone it is filled when it is empty, and not before. */
START_TEST(test_a_window_is_filled_when_it_is_empty)
{
    struct bed bed;
    bed_open(&bed, 1 + (uint32_t)_i);
    run(&bed, 1, 20);
    run(&bed, 1, ROOM - 20);
    ck_assert_uint_eq(times_filled(&bed), 1);
    run(&bed, 1, 1);
    ck_assert_uint_eq(times_filled(&bed), 2);
    bed_close(&bed);
}
END_TEST

/* ---- Bits ----------------------------------------------------------------------------------- */

START_TEST(test_topped_up_windows_have_the_bits_of_one_run)
{
    struct build build;
    struct split_difference difference;
    build_wide(&build);
    const struct split_options options = {.def = &build.def,
                                          .isa = isa_name(_i / 2),
                                          .members = 1 + (uint32_t)_i % 2,
                                          .n_chains = 8,
                                          .steps_max = 45};
    if (isa_at(_i / 2) != NULL) {
        ck_assert_msg(split_has_the_bits_of_one_run(&options, &difference), "%s", difference.text);
    }
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("windows");
    TCase *tcase = tcase_create("from_memory");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_a_window_is_topped_up_when_another_is_filled, 0, 6);
    tcase_add_loop_test(tcase, test_a_window_is_filled_when_it_is_empty, 0, 2);
    tcase_add_loop_test(tcase, test_topped_up_windows_have_the_bits_of_one_run, 0, 2 * ISA_COUNT);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
