/* Two batches side by side, each by half of a team: the bits are those of each chain alone, and
 * when one has come to its end the other soon does, too. */
#include "base/mem.h"
#include "tests/cells/bed.h"
#include "tests/cells/isa.h"
#include "tests/cells/random_cell.h"
#include "tests/cells/team.h"
#include "tests/util.h"

#include <pthread.h>
#include <string.h>

enum { MEMBERS_MAX = 5, LATE_US = 20000, SOON_US = 100 };

/* ---- Bits ----------------------------------------------------------------------------------- */

/* Some of the chains that are not at their end, for some steps; NULL: none are. */
static struct cell_batch *draw_batch(struct side *side, _Atomic uint32_t *attention,
                                     struct base_random *random)
{
    struct cell_batch *batch = bed_batch(side, 1 + base_random_below(random, BED_STEPS_MAX));
    batch->interruptible = base_random_below(random, 2) == 0;
    batch->attention = attention;
    uint32_t left = 0;
    for (uint32_t c = 0; c < BED_CHAINS; c++) {
        left += bed_is_done(side, c) ? 0 : 1;
    }
    for (uint32_t c = 0; c < BED_CHAINS; c++) {
        const bool is_unfinished = !bed_is_done(side, c);
        if (is_unfinished && (base_random_below(random, 2) == 0 || left == 1)) {
            bed_add_row(side, c);
        }
        left -= is_unfinished && batch->n_rows == 0 ? 1 : 0; // the last one, if no other
    }
    return batch->n_rows == 0 ? NULL : batch;
}

/* Random batches of both until all chains are done; while one side has some, it runs alone. */
static void run_all(struct bed *bed, struct base_random *random)
{
    _Atomic uint32_t attention = 0;
    for (;;) {
        struct cell_batch *first = draw_batch(&bed->sides[0], &attention, random);
        struct cell_batch *second = draw_batch(&bed->sides[1], &attention, random);
        if (first == NULL && second == NULL) {
            return;
        }
        if (base_random_below(random, 2) == 0) {
            struct cell_batch *other = first;
            first = second;
            second = other;
        }
        atomic_store(&attention, base_random_below(random, 4) == 0 ? 1 : 0);
        if (base_random_below(random, 4) == 0) {
            team_delay(bed->rig.team, base_random_below(random, bed->rig.team->members), 5);
        }
        bed_run(bed, first == NULL ? second : first, first == NULL ? NULL : second);
        team_delay(bed->rig.team, 0, 0);
        for (uint32_t i = 0; i < 2; i++) {
            if (bed->sides[i].batch.n_rows > 0) {
                bed_take_back(&bed->sides[i]);
            }
        }
    }
}

static void check_bits(struct bed *bed, const char *isa, uint64_t salt)
{
    struct base_random random = util_random(salt + 1);
    const uint32_t members = 2 + base_random_below(&random, MEMBERS_MAX - 1);
    bed_open(bed, isa, members, false, salt);
    const uint64_t allocations = base_alloc_count();
    for (uint32_t round = 0; round < (util_is_quick() ? 1 : 4); round++) {
        bed_begin_again(bed);
        bed_draw_tuning(bed, &random);
        run_all(bed, &random);
        bed_check(bed);
    }
    ck_assert_uint_eq(base_alloc_count(), allocations);
    bed_close(bed);
}

static struct bed bed;

START_TEST(test_lstms_of_two_sizes)
{
    const char *isa = isa_name(_i % ISA_COUNT);
    if (isa_at(_i % ISA_COUNT) != NULL) {
        build_lstm_cell(&bed.sides[0].build, 20, 40, 3);
        build_lstm_cell(&bed.sides[1].build, 50, 17, 4);
        check_bits(&bed, isa, 500 + (uint64_t)_i);
    }
}
END_TEST

/* Of cells that are long enough for members to take panels from one another, which all of a team
 * must count alike, also those that had no part in the batches before. */
START_TEST(test_large_cells)
{
    build_lstm_cell(&bed.sides[0].build, 150, 200, 3);
    build_lstm_cell(&bed.sides[1].build, 200, 180, 4);
    check_bits(&bed, NULL, 700 + (uint64_t)_i);
}
END_TEST

/* With states or without, in any precision, of many rows. */
START_TEST(test_random_cells)
{
    const char *isa = isa_name(_i % ISA_COUNT);
    if (isa_at(_i % ISA_COUNT) != NULL) {
        for (uint32_t i = 0; i < 2; i++) {
            random_cell_build(&bed.sides[i].build, RANDOM_CELL_ANY, 900 + 2 * (uint64_t)_i + i);
        }
        check_bits(&bed, isa, 600 + (uint64_t)_i);
    }
}
END_TEST

/* ---- Ends ----------------------------------------------------------------------------------- */

enum { LONG = 300 };

/* Chains of LONG steps on each side, of cells of which some steps are a million operations. */
static void open_long(uint32_t members)
{
    struct base_random random = util_random(7);
    for (uint32_t i = 0; i < 2; i++) {
        build_lstm_cell(&bed.sides[i].build, 100, 100, 20 + i);
    }
    rig_init(&bed.rig, "cpu", NULL, members, &bed.sides[0].build.def);
    bed.sides[0].type = bed.rig.type;
    bed.sides[1].type = rig_add(&bed.rig, &bed.sides[1].build.def);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t c = 0; c < BED_CHAINS; c++) {
            rig_chain_init(&bed.sides[i].chains[c], bed.sides[i].type, i * RIG_ROWS / 2 + c, LONG,
                           &random);
        }
    }
}

static void close_long(void)
{
    for (uint32_t c = 0; c < BED_CHAINS; c++) {
        rig_chain_release(&bed.sides[0].chains[c]);
        rig_chain_release(&bed.sides[1].chains[c]);
    }
    rig_release(&bed.rig);
    build_release(&bed.sides[0].build);
    build_release(&bed.sides[1].build);
}

/* A batch of the side's long chain from its start. */
static struct cell_batch *long_batch(uint32_t side, uint32_t steps, _Atomic uint32_t *attention)
{
    rig_chain_reset(&bed.sides[side].chains[0], bed.sides[side].type);
    struct cell_batch *batch = bed_batch(&bed.sides[side], steps);
    batch->interruptible = true;
    batch->attention = attention;
    bed_add_row(&bed.sides[side], 0);
    return batch;
}

/* The member that begins late finds the other batch at its end. */
START_TEST(test_the_other_ends_with_the_first)
{
    const uint32_t members = 2 + (uint32_t)_i / 2;
    const uint32_t late_side = (uint32_t)_i % 2;
    const uint32_t late_member = late_side == 0 ? 0 : cell_team_first_half(members);
    _Atomic uint32_t attention = 0;
    open_long(members);
    struct cell_batch *first = long_batch(0, late_side == 0 ? LONG : 2, &attention);
    struct cell_batch *second = long_batch(1, late_side == 1 ? LONG : 2, &attention);
    struct cell_batch *late = late_side == 0 ? first : second;
    team_delay(bed.rig.team, late_member, LATE_US);
    bed_run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, 1);
    late->steps_min = 0;

    // Not before it has done so many steps; and not where it cannot be interrupted.
    first = long_batch(0, late_side == 0 ? LONG : 2, &attention);
    second = long_batch(1, late_side == 1 ? LONG : 2, &attention);
    late->steps_min = 9;
    bed_run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, 9);
    first = long_batch(0, late_side == 0 ? LONG : 2, &attention);
    second = long_batch(1, late_side == 1 ? LONG : 2, &attention);
    late->interruptible = false;
    team_delay(bed.rig.team, late_member, SOON_US); // behind each of its barriers
    bed_run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, LONG);

    team_delay(bed.rig.team, late_member, LATE_US);

    // Nor where it has hardly more than that left: 4 steps are less than a million operations.
    ck_assert_uint_lt(4 * bed.rig.type->flops, 1000000);
    ck_assert_uint_gt(8 * bed.rig.type->flops, 1000000);
    first = long_batch(0, late_side == 0 ? 5 : 2, &attention);
    second = long_batch(1, late_side == 1 ? 5 : 2, &attention);
    bed_run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, 5);

    // Nor where it is one step; of two it is interrupted.
    for (uint32_t steps = 2; steps <= 3; steps++) {
        first = long_batch(0, late_side == 0 ? steps : 2, &attention);
        second = long_batch(1, late_side == 1 ? steps : 2, &attention);
        for (uint32_t r = 1; r < BED_CHAINS; r++) { // so many rows that a step is long
            rig_chain_reset(&bed.sides[late_side].chains[r], bed.sides[late_side].type);
            bed_add_row(&bed.sides[late_side], r);
        }
        bed_run(&bed, first, second);
        ck_assert_uint_eq(late->steps_done, steps == 2 ? 2 : 1);
    }
    close_long();
}
END_TEST

START_TEST(test_attention_ends_both)
{
    _Atomic uint32_t attention = 1;
    open_long(2 + (uint32_t)_i);
    struct cell_batch *first = long_batch(0, LONG, &attention);
    struct cell_batch *second = long_batch(1, LONG, &attention);
    first->steps_min = 5;
    second->steps_min = 7;
    bed_run(&bed, first, second);
    ck_assert_uint_eq(first->steps_done, 5);
    ck_assert_uint_eq(second->steps_done, 7);
    close_long();
}
END_TEST

/* ---- What the device says of itself ---------------------------------------------------------- */

static bool runs_beside(const char *backend, uint32_t members, const struct cell_def *def,
                        uint32_t *rows)
{
    struct rig rig;
    struct cell_device_caps caps;
    struct cell_tuning tuning;
    rig_init(&rig, backend, NULL, members, def);
    rig.backend->type_tune(rig.device, rig.type, NULL);
    const uint32_t tunable = rig.backend->type_tuning(rig.device, rig.type, &tuning);
    rig.backend->caps(rig.device, &caps);
    *rows = tuning.beside_rows;
    ck_assert(((tunable & CELL_TUNABLE_BESIDE) != 0) == (*rows > 0 && members == 2));
    tuning.beside_rows = 3;
    rig.backend->type_tune(rig.device, rig.type, &tuning);
    (void)rig.backend->type_tuning(rig.device, rig.type, &tuning);
    ck_assert_uint_eq(tuning.beside_rows, caps.invariant_bits ? 3 : 0);
    rig_release(&rig);
    return caps.beside;
}

START_TEST(test_what_the_device_says)
{
    struct build small;
    struct build large;
    struct build stateless;
    uint32_t rows = 0;
    uint32_t more_rows = 0;
    build_lstm_cell(&small, 100, 200, 1);
    build_lstm_cell(&large, 1500, 1500, 1);
    build_init(&stateless, 1);
    build_output(&stateless,
                 build_linear(&stateless, build_input(&stateless, CELL_F32, 8), 8, true));
    ck_assert(!runs_beside("cpu", 0, &small.def, &rows));
    ck_assert_uint_eq(rows, 0);
    ck_assert(!runs_beside("cpu", 1, &small.def, &rows));
    ck_assert_uint_eq(rows, 0);
    ck_assert(!runs_beside("blas", 2, &small.def, &rows));
    ck_assert_uint_eq(rows, 0);
    ck_assert(runs_beside("cpu", 2, &small.def, &rows));
    ck_assert_uint_gt(rows, 8);
    ck_assert(runs_beside("cpu", 4, &small.def, &more_rows));
    ck_assert_uint_gt(more_rows, rows);
    ck_assert(runs_beside("cpu", 2, &large.def, &rows));
    ck_assert_uint_eq(rows, 0);
    ck_assert(runs_beside("cpu", 2, &stateless.def, &rows));
    ck_assert_uint_eq(rows, 0);
    build_release(&small);
    build_release(&large);
    build_release(&stateless);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("beside");
    TCase *tcase = tcase_create("beside");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_lstms_of_two_sizes, 0, 4 * ISA_COUNT);
    tcase_add_loop_test(tcase, test_large_cells, 0, 6);
    tcase_add_loop_test(tcase, test_random_cells, 0, 8 * ISA_COUNT);
    tcase_add_loop_test(tcase, test_the_other_ends_with_the_first, 0, 6);
    tcase_add_loop_test(tcase, test_attention_ends_both, 0, 3);
    tcase_add_test(tcase, test_what_the_device_says);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
