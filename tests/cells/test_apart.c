/* Rows apart: each member of a team runs some of a batch's rows alone, gives some away to one that
 * has none, and is helped by one that has none: the bits are those of each chain alone. */
#include "base/clock.h"
#include "cells/cpu/ahead.h"
#include "cells/cpu/device.h"
#include "cells/cpu/program.h"
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/cells/split.h"
#include "tests/cells/team.h"
#include "tests/util.h"

#include <pthread.h>
#include <string.h>

enum { CHAINS = 8, MANY = 30, STEPS = 150, LATE_US = 20000 };

static struct rig_chain chains[MANY];

/* ---- Bits in any batches -------------------------------------------------------------------- */

/* From one row on, so that a batch of few is helped; and where a row alone is one member's. */
static const struct cell_tuning tunings[] = {
    {.apart_rows = 1, .ahead_rows = 3},
    {.apart_rows = 2, .ahead_rows = 0},
    {.apart_rows = 3, .ahead_rows = 8, .fill_steps = 5},
    {.apart_rows = 1, .ahead_rows = 32, .solo_rows = 1},
};
enum { TUNINGS = sizeof(tunings) / sizeof(tunings[0]), MEMBERS_MAX = 3 };

START_TEST(test_apart_has_the_bits_of_one_run)
{
    struct build build;
    struct split_difference difference;
    split_build_front(&build);
    const struct split_options options = {.def = &build.def,
                                          .isa = isa_name(_i / (TUNINGS * 2)),
                                          .members = MEMBERS_MAX - (uint32_t)_i % 2,
                                          .n_chains = 8,
                                          .steps_max = util_is_quick() ? 100 : 300,
                                          .tuning = &tunings[_i / 2 % TUNINGS],
                                          .salt = (uint64_t)_i};
    if (isa_at(_i / (TUNINGS * 2)) != NULL) {
        ck_assert_msg(split_has_the_bits_of_one_run(&options, &difference), "%s", difference.text);
    }
    build_release(&build);
}
END_TEST

/* ---- One batch ------------------------------------------------------------------------------ */

struct bed {
    struct build build;
    struct rig rig;
    uint32_t n_chains;
    struct cell_batch_row rows[MANY];
    uint8_t *outputs[MANY]; /* of each chain, run alone */
};

static size_t output_bytes(const struct bed *bed, uint32_t chain)
{
    const struct cell_def *def = &bed->rig.type->def;
    return chains[chain].wiring.steps * def->values[def->outputs[0]].width * sizeof(float);
}

static void tune(const struct bed *bed, uint32_t apart_rows)
{
    const struct cell_tuning tuning = {.apart_rows = apart_rows, .ahead_rows = 2};
    bed->rig.backend->type_tune(bed->rig.device, bed->rig.type, &tuning);
}

static void bed_open_with(struct bed *bed, uint32_t members, uint32_t inputs, uint32_t units,
                          uint32_t n_chains)
{
    bed->n_chains = n_chains;
    struct base_random random = util_random(7);
    build_lstm_cell(&bed->build, inputs, units, 5);
    rig_init(&bed->rig, "cpu", NULL, members, &bed->build.def);
    tune(bed, 0);
    for (uint32_t c = 0; c < bed->n_chains; c++) {
        rig_chain_init(&chains[c], bed->rig.type, c, STEPS, &random);
        bed->rows[0] = rig_chain_row(&chains[c], STEPS);
        struct cell_batch batch = {.n_rows = 1, .steps = STEPS, .rows = bed->rows};
        rig_run(&bed->rig, &batch);
        bed->outputs[c] = rig_copy(chains[c].outputs[0], output_bytes(bed, c));
    }
}

static void bed_open(struct bed *bed, uint32_t members, uint32_t inputs, uint32_t units)
{
    bed_open_with(bed, members, inputs, units, CHAINS);
}

static void bed_close(struct bed *bed)
{
    for (uint32_t c = 0; c < bed->n_chains; c++) {
        base_free(bed->outputs[c]);
        rig_chain_release(&chains[c]);
    }
    rig_release(&bed->rig);
    build_release(&bed->build);
}

static void begin_again(struct bed *bed, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++) {
        rig_chain_reset(&chains[c], bed->rig.type);
    }
}

static void check_outputs(const struct bed *bed, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++) {
        ck_assert_mem_eq(chains[c].outputs[0], bed->outputs[c], output_bytes(bed, c));
    }
}

static uint32_t count(const _Atomic uint32_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static const struct cell_apart *apart_of(const struct bed *bed)
{
    return cell_cpu__program(bed->rig.device, bed->rig.type)->apart[0];
}

/* A batch to which one member comes late. */
static void run_late(struct bed *bed, struct cell_batch *batch, uint32_t member, uint32_t us)
{
    batch->type = bed->rig.type;
    team_delay(bed->rig.team, member, us);
    bed->rig.backend->submit(bed->rig.device, 0, batch);
    bed->rig.submitted++;
    ck_assert(bed->rig.backend->pump(bed->rig.device, 0));
}

/* A member that comes late gives half of what it has left to one that has long been done, and that
 * one, whose are the more steps then, perhaps some of it to the next. */
START_TEST(test_a_late_member_gives_rows_away)
{
    struct bed bed;
    bed_open(&bed, (uint32_t)_i, 40, 64);
    tune(&bed, 2);
    const uint32_t before = count(&apart_of(&bed)->n_given);
    for (uint32_t late = 0; late < (uint32_t)_i; late++) {
        begin_again(&bed, CHAINS);
        for (uint32_t c = 0; c < CHAINS; c++) {
            bed.rows[c] = rig_chain_row(&chains[c], STEPS);
        }
        struct cell_batch batch = {.n_rows = CHAINS, .steps = STEPS, .rows = bed.rows};
        run_late(&bed, &batch, late, LATE_US);
        ck_assert_uint_eq(batch.steps_done, STEPS);
        for (uint32_t c = 0; c < CHAINS; c++) {
            ck_assert_uint_eq(bed.rows[c].steps_done, STEPS);
        }
        check_outputs(&bed, CHAINS);
    }
    ck_assert_uint_ge(count(&apart_of(&bed)->n_given) - before, (uint32_t)_i);
    bed_close(&bed);
}
END_TEST

/* Batches of few steps, in which nobody meets: who is late each time takes fewer rows before long,
 * and every member, with rows that change it on the way, leaves them as they are alone. Where cells
 * take milliseconds, as in an emulator, 200 us are not late (test_shares.c has what is learnt from
 * given times), and on a busy machine others may be later: then it takes more rounds. */
START_TEST(test_a_late_member_takes_fewer_rows)
{
    struct bed bed;
    bed_open_with(&bed, (uint32_t)_i, 40, 64, MANY);
    tune(&bed, 2);
    const struct cell_shares *shares = &apart_of(&bed)->shares;
    const uint32_t late = (uint32_t)_i - 1;
    const uint32_t before = MANY - cell_shares_border(shares, MANY, late);
    const uint64_t deadline_ns = base_deadline_after(base_now_ns(), 30 * BASE_NS_PER_S);
    bool takes_fewer = util_is_quick();
    for (uint32_t round = 0; round < 2 || (!takes_fewer && base_now_ns() < deadline_ns); round++) {
        begin_again(&bed, MANY);
        for (uint32_t done = 0; done < STEPS; done++) {
            for (uint32_t c = 0; c < MANY; c++) {
                bed.rows[c] = rig_chain_row(&chains[c], 1);
            }
            struct cell_batch batch = {.n_rows = MANY, .steps = 1, .rows = bed.rows};
            run_late(&bed, &batch, late, 200);
            for (uint32_t c = 0; c < MANY; c++) {
                ck_assert_uint_eq(bed.rows[c].steps_done, 1);
                chains[c].done++;
            }
        }
        check_outputs(&bed, MANY);
        takes_fewer |= MANY - cell_shares_border(shares, MANY, late) < before;
    }
    ck_assert(takes_fewer);
    bed_close(&bed);
}
END_TEST

/* Who helps is not certain in one batch: the others may not run. In enough of them somebody does.
 */
START_TEST(test_a_row_alone_is_helped)
{
    struct bed bed;
    bed_open(&bed, (uint32_t)_i, 40, 64);
    tune(&bed, 1);
    const uint32_t before = count(&apart_of(&bed)->n_helped);
    const uint64_t deadline_ns = base_deadline_after(base_now_ns(), 30 * BASE_NS_PER_S);
    bool is_helped = false;
    for (uint32_t i = 0; i < 30 || (!is_helped && base_now_ns() < deadline_ns); i++) {
        begin_again(&bed, 1);
        bed.rows[0] = rig_chain_row(&chains[0], STEPS);
        struct cell_batch batch = {.n_rows = 1, .steps = STEPS, .rows = bed.rows};
        rig_run(&bed.rig, &batch);
        ck_assert_uint_eq(batch.steps_done, STEPS);
        ck_assert_uint_eq(bed.rows[0].steps_done, STEPS);
        check_outputs(&bed, 1);
        is_helped = count(&apart_of(&bed)->n_helped) > before;
    }
    ck_assert(is_helped);
    bed_close(&bed);
}
END_TEST

/* Wide inputs make short windows, of a number of steps that pieces do not divide: no piece may take
 * the place of one that is still awaited. */
START_TEST(test_pieces_of_short_windows)
{
    static const uint32_t inputs[] = {2560, 1750, 1100, 900}; // of 9, 14, 23 and 28 steps
    struct bed bed;
    bed_open_with(&bed, 2, inputs[_i], 256, 1);
    tune(&bed, 1);
    for (uint32_t i = 0; i < (util_is_quick() ? 2 : 20); i++) {
        begin_again(&bed, 1);
        bed.rows[0] = rig_chain_row(&chains[0], STEPS);
        struct cell_batch batch = {.n_rows = 1, .steps = STEPS, .rows = bed.rows};
        rig_run(&bed.rig, &batch);
        check_outputs(&bed, 1);
    }
    bed_close(&bed);
}
END_TEST

/* However many steps a run has, pieces of it are as many for each member as they can be. */
START_TEST(test_pieces_of_runs_of_any_length)
{
    struct bed bed;
    bed_open_with(&bed, 2 + (uint32_t)_i, 40, 64, 1);
    tune(&bed, 1);
    for (uint32_t steps = 1; steps <= 50; steps++) {
        begin_again(&bed, 1);
        for (uint32_t done = 0; done < STEPS; done += steps) {
            const uint32_t left = STEPS - done;
            bed.rows[0] = rig_chain_row(&chains[0], left);
            bed.rows[0].first_step = done;
            struct cell_batch batch = {
                .n_rows = 1, .steps = steps < left ? steps : left, .rows = bed.rows};
            rig_run(&bed.rig, &batch);
            ck_assert_uint_eq(batch.steps_done, batch.steps);
        }
        check_outputs(&bed, 1);
    }
    bed_close(&bed);
}
END_TEST

/* By itself the device lets a row of few units be helped, over wide inputs too. */
START_TEST(test_wide_inputs_are_helped)
{
    struct bed bed;
    bed_open_with(&bed, 2, 512, 64, 1);
    const struct cell_program *program = cell_cpu__program(bed.rig.device, bed.rig.type);
    bed.rig.backend->type_tune(bed.rig.device, bed.rig.type, NULL);
    ck_assert_uint_eq(program->solo_rows, 1);
    const uint64_t filled = cell_windows_times_filled(program->windows[0]);
    begin_again(&bed, 1);
    bed.rows[0] = rig_chain_row(&chains[0], STEPS);
    struct cell_batch batch = {.n_rows = 1, .steps = STEPS, .rows = bed.rows};
    rig_run(&bed.rig, &batch);
    check_outputs(&bed, 1);
    // of a run that is not helped they would be
    ck_assert_uint_eq(cell_windows_times_filled(program->windows[0]), filled);
    bed_close(&bed);
}
END_TEST

/* Windows of a wide cell are member 0's alone: as rows change their member from batch to batch,
 * what was made ahead there would be made in vain. Members that all have windows use them. */
START_TEST(test_windows_of_one_member_are_not_used)
{
    static const uint32_t units[] = {64, 300};
    struct bed bed;
    bed_open_with(&bed, 2, 40, units[_i], 3);
    tune(&bed, 2);
    ck_assert_int_eq(apart_of(&bed)->all_have_windows, units[_i] == 64);
    const struct cell_windows *windows =
        cell_cpu__program(bed.rig.device, bed.rig.type)->windows[0];
    const uint64_t before = cell_windows_count(windows);
    begin_again(&bed, 3);
    for (uint32_t c = 0; c < 3; c++) {
        bed.rows[c] = rig_chain_row(&chains[c], STEPS);
    }
    struct cell_batch batch = {.n_rows = 3, .steps = STEPS, .rows = bed.rows};
    rig_run(&bed.rig, &batch);
    ck_assert_uint_eq(batch.steps_done, STEPS);
    check_outputs(&bed, 3);
    ck_assert_int_eq(cell_windows_count(windows) > before, units[_i] == 64);
    bed_close(&bed);
}
END_TEST

/* ---- Interruptions -------------------------------------------------------------------------- */

/* Each member looks at the word by itself, but not before steps_min: so it ends there exactly. */
START_TEST(test_attention_ends_all_parts)
{
    struct bed bed;
    bed_open(&bed, 2, 40, 64);
    tune(&bed, 1);
    const uint32_t n = _i == 0 ? 1 : CHAINS - 1;
    _Atomic uint32_t attention = 1;
    begin_again(&bed, n);
    for (uint32_t c = 0; c < n; c++) {
        bed.rows[c] = rig_chain_row(&chains[c], STEPS);
    }
    struct cell_batch batch = {.n_rows = n,
                               .steps = STEPS,
                               .interruptible = true,
                               .steps_min = 7,
                               .attention = &attention,
                               .rows = bed.rows};
    rig_run(&bed.rig, &batch);
    ck_assert_uint_eq(batch.steps_done, 7);
    for (uint32_t c = 0; c < n; c++) {
        ck_assert_uint_eq(bed.rows[c].steps_done, 7);
    }
    bed_close(&bed);
}
END_TEST

struct caller {
    _Atomic uint32_t attention, is_over;
};

static void *call_now_and_then(void *argument)
{
    struct caller *caller = argument;
    struct base_random random = util_random(99);
    while (atomic_load(&caller->is_over) == 0) {
        const uint64_t until = base_now_ns() + base_random_below(&random, 200 * BASE_NS_PER_US);
        while (base_now_ns() < until) {
        }
        atomic_store(&caller->attention, 1);
    }
    return NULL;
}

/* One batch of all chains that are not at their end. Returns how many come to it. */
static uint32_t run_unfinished(struct bed *bed, uint32_t n_chains, _Atomic uint32_t *attention)
{
    uint32_t of_row[CHAINS] = {0};
    uint32_t n_ended = 0;
    struct cell_batch batch = {
        .steps = STEPS, .interruptible = true, .attention = attention, .rows = bed->rows};
    for (uint32_t c = 0; c < n_chains; c++) {
        if (chains[c].done < STEPS) {
            of_row[batch.n_rows] = c;
            bed->rows[batch.n_rows++] = rig_chain_row(&chains[c], STEPS);
        }
    }
    atomic_store(attention, 0);
    rig_run(&bed->rig, &batch);
    for (uint32_t r = 0; r < batch.n_rows; r++) {
        ck_assert_uint_ge(bed->rows[r].steps_done, 1);
        ck_assert_uint_le(bed->rows[r].steps_done, batch.steps_done);
        struct rig_chain *chain = &chains[of_row[r]];
        chain->done += bed->rows[r].steps_done;
        n_ended += chain->done == STEPS ? 1 : 0;
    }
    return n_ended;
}

/* Rows that come to different steps, for which sums stand in windows, go on as if nothing was. */
START_TEST(test_interrupted_rows_go_on)
{
    struct bed bed;
    struct caller caller = {0};
    pthread_t thread;
    bed_open(&bed, 2, 40, 64);
    tune(&bed, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, call_now_and_then, &caller), 0);
    for (uint32_t round = 0; round < (util_is_quick() ? 4 : 40); round++) {
        const uint32_t n_chains = 1 + round % CHAINS;
        begin_again(&bed, n_chains);
        for (uint32_t left = n_chains; left > 0;) {
            left -= run_unfinished(&bed, n_chains, &caller.attention);
        }
        check_outputs(&bed, n_chains);
    }
    atomic_store(&caller.is_over, 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("apart");
    TCase *tcase = tcase_create("apart");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_apart_has_the_bits_of_one_run, 0, 2 * TUNINGS * ISA_COUNT);
    tcase_add_loop_test(tcase, test_a_late_member_gives_rows_away, 2, MEMBERS_MAX + 1);
    tcase_add_loop_test(tcase, test_a_late_member_takes_fewer_rows, 2, MEMBERS_MAX + 1);
    tcase_add_loop_test(tcase, test_a_row_alone_is_helped, 2, MEMBERS_MAX + 1);
    tcase_add_loop_test(tcase, test_pieces_of_runs_of_any_length, 0, 2);
    tcase_add_test(tcase, test_wide_inputs_are_helped);
    tcase_add_loop_test(tcase, test_pieces_of_short_windows, 0, 4);
    tcase_add_loop_test(tcase, test_windows_of_one_member_are_not_used, 0, 2);
    tcase_add_loop_test(tcase, test_attention_ends_all_parts, 0, 2);
    tcase_add_test(tcase, test_interrupted_rows_go_on);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
