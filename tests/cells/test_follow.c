/* Two batches of which one follows the other, a layer over a layer: the bits are those of each
 * layer alone, whoever is late; and where the first stops so does the second. */
#include "base/mem.h"
#include "tests/cells/bed.h"
#include "tests/cells/isa.h"
#include "tests/cells/random_cell.h"
#include "tests/cells/team.h"
#include "tests/util.h"

#include <string.h>

enum { MEMBERS_MAX = 5, LONG = 300, LATE_US = 5000 };

static struct bed bed;

/* ---- Bits ----------------------------------------------------------------------------------- */

/* Rows of some chains that have steps left; NULL: none has. */
static struct cell_batch *draw_batch(struct side *side, uint32_t steps, struct base_random *random)
{
    struct cell_batch *batch = bed_batch(side, steps);
    const uint32_t certain = base_random_below(random, BED_CHAINS); // this, or the next that can
    for (uint32_t i = 0; i < BED_CHAINS; i++) {
        const uint32_t c = (certain + i) % BED_CHAINS;
        if (!bed_is_done(side, c) && (batch->n_rows == 0 || base_random_below(random, 2) == 0)) {
            bed_add_row(side, c);
        }
    }
    return batch->n_rows == 0 ? NULL : batch;
}

/* Rows of the upper layer behind some of those of `first`; NULL: none. */
static struct cell_batch *draw_followers(const struct cell_batch *first, struct base_random *random)
{
    struct side *below = &bed.sides[0];
    struct side *side = &bed.sides[1];
    struct cell_batch *batch = bed_batch(side, BED_STEPS_MAX);
    batch->follows = true;
    batch->lead = UINT32_MAX;
    for (uint32_t r = 0; r < first->n_rows; r++) {
        const uint32_t c = below->of_row[r];
        if (base_random_below(random, 4) > 0) {
            const uint32_t lead = below->chains[c].done - side->chains[c].done;
            batch->lead = lead < batch->lead ? lead : batch->lead;
            bed_add_row(side, c);
        }
    }
    if (batch->n_rows == 0) {
        return NULL;
    }
    const uint32_t most = batch->lead + first->steps;
    batch->steps = base_random_below(random, 3) > 0 ? most : 1 + base_random_below(random, most);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        side->rows[r] = rig_chain_row(&side->chains[side->of_row[r]], batch->steps);
    }
    return batch;
}

/* Both layers to their ends, the upper one mostly behind the lower. */
static void run_all(struct base_random *random)
{
    _Atomic uint32_t attention = 0;
    for (;;) {
        const uint32_t steps = 1 + base_random_below(random, BED_STEPS_MAX);
        struct cell_batch *first = draw_batch(&bed.sides[0], steps, random);
        struct cell_batch *second = NULL;
        if (first != NULL && base_random_below(random, 4) > 0) {
            second = draw_followers(first, random);
        } else if (first == NULL) {
            first = draw_batch(&bed.sides[1], steps, random);
        }
        if (first == NULL) {
            return;
        }
        first->interruptible = base_random_below(random, 4) > 0;
        first->attention = &attention;
        if (second != NULL) {
            second->interruptible = true;
            second->attention = &attention;
        }
        atomic_store(&attention, base_random_below(random, 4) == 0 ? 1 : 0);
        first->steps_min = base_random_below(random, 12);
        if (base_random_below(random, 3) == 0) {
            team_delay(bed.rig.team, base_random_below(random, bed.rig.team->members), 5);
        }
        bed_run(&bed, first, second);
        team_delay(bed.rig.team, 0, 0);
        if (second != NULL) {
            ck_assert_uint_le(second->steps_done, second->lead + first->steps_done);
            bed_take_back(&bed.sides[1]);
        }
        bed_take_back(first == &bed.sides[0].batch ? &bed.sides[0] : &bed.sides[1]);
    }
}

static void check_bits(const char *isa, uint64_t salt)
{
    struct base_random random = util_random(salt + 1);
    const uint32_t members = 2 + base_random_below(&random, MEMBERS_MAX - 1);
    bed_open(&bed, isa, members, true, salt);
    const uint64_t allocations = base_alloc_count();
    for (uint32_t round = 0; round < (util_is_quick() ? 1 : 4); round++) {
        bed_begin_again(&bed);
        bed_draw_tuning(&bed, &random);
        run_all(&random);
        bed_check(&bed);
    }
    ck_assert_uint_eq(base_alloc_count(), allocations);
    bed_close(&bed);
}

START_TEST(test_lstms)
{
    const char *isa = isa_name(_i % ISA_COUNT);
    if (isa_at(_i % ISA_COUNT) != NULL) {
        build_lstm_cell(&bed.sides[0].build, 20, 40, 3);
        build_lstm_cell(&bed.sides[1].build, 40, 17, 4);
        check_bits(isa, 500 + (uint64_t)_i);
    }
}
END_TEST

/* Of cells that are long enough for members to take panels from one another. */
START_TEST(test_large_cells)
{
    build_lstm_cell(&bed.sides[0].build, 150, 200, 3);
    build_lstm_cell(&bed.sides[1].build, 200, 180, 4);
    check_bits(NULL, 700 + (uint64_t)_i);
}
END_TEST

/* Below, any cell: also such whose members do not meet in a step. */
START_TEST(test_over_random_cells)
{
    struct build *below = &bed.sides[0].build;
    random_cell_build(below, RANDOM_CELL_ANY, 900 + (uint64_t)_i);
    const struct cell_def *def = &below->def;
    const struct cell_value out = def->values[def->n_outputs == 0 ? 0 : def->outputs[0]];
    if (def->n_outputs == 0 || def->n_states == 0 || out.dtype != CELL_F32) {
        build_release(below);
        return;
    }
    build_lstm_cell(&bed.sides[1].build, out.width, 33, 4);
    check_bits(NULL, 600 + (uint64_t)_i);
}
END_TEST

/* Whose members share its rows, and meet only behind what they emit. */
START_TEST(test_over_a_cell_without_products)
{
    struct build *below = &bed.sides[0].build;
    build_init(below, 5);
    const uint32_t x = build_input(below, CELL_F32, 40);
    const uint32_t h = build_state(below, CELL_F32, 40);
    const uint32_t sum = build_op(below, CELL_OP_ADD, x, h, 40);
    const uint32_t next = build_op(below, CELL_OP_TANH, sum, UINT32_MAX, 40);
    build_next(below, h, next);
    build_output(below, next);
    build_lstm_cell(&bed.sides[1].build, 40, 17, 4);
    check_bits(NULL, 800 + (uint64_t)_i);
}
END_TEST

/* ---- Ends ----------------------------------------------------------------------------------- */

/* A chain of LONG steps on each side, of small or of large steps. */
static void open_long(uint32_t members, uint32_t units)
{
    struct base_random random = util_random(7);
    build_lstm_cell(&bed.sides[0].build, units, units, 20);
    build_lstm_cell(&bed.sides[1].build, units, units, 21);
    rig_init(&bed.rig, "cpu", NULL, members, &bed.sides[0].build.def);
    bed.sides[0].type = bed.rig.type;
    bed.sides[1].type = rig_add(&bed.rig, &bed.sides[1].build.def);
    for (uint32_t i = 0; i < 2; i++) {
        rig_chain_init(&bed.sides[i].chains[0], bed.sides[i].type, i, LONG, &random);
    }
}

static void close_long(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        rig_chain_release(&bed.sides[i].chains[0]);
    }
    rig_release(&bed.rig);
    build_release(&bed.sides[0].build);
    build_release(&bed.sides[1].build);
}

/* Where nobody else stops it, who follows comes as far as the other leads to: it was interrupted
 * after 5 steps. */
START_TEST(test_ends_with_the_first)
{
    _Atomic uint32_t attention = 1;
    _Atomic uint32_t nobody = 0;
    const uint32_t members = 2 + (uint32_t)_i / 2;
    open_long(members, _i % 2 == 0 ? 20 : 100);
    for (uint32_t late = 0; late < members; late++) {
        for (uint32_t lead = 0; lead < 12; lead += 4) {
            bed.sides[0].chains[0].done = lead;
            bed.sides[1].chains[0].done = 0;
            struct cell_batch *first = bed_batch(&bed.sides[0], LONG - lead);
            struct cell_batch *second = bed_batch(&bed.sides[1], LONG);
            bed_add_row(&bed.sides[0], 0);
            bed_add_row(&bed.sides[1], 0);
            first->interruptible = true;
            first->attention = &attention;
            first->steps_min = 5;
            second->interruptible = true;
            second->attention = &nobody;
            second->steps_min = LONG; // nor the other's end
            second->follows = true;
            second->lead = lead;
            team_delay(bed.rig.team, late, LATE_US / 10);
            bed_run(&bed, first, second);
            team_delay(bed.rig.team, 0, 0);
            ck_assert_uint_eq(first->steps_done, 5);
            ck_assert_uint_eq(second->steps_done, lead + 5);
        }
    }
    close_long();
}
END_TEST

/* It makes room when the first has come to its end, and much is left to compute. */
START_TEST(test_makes_room_behind_the_first)
{
    _Atomic uint32_t nobody = 0;
    open_long(2, 100);
    bed.sides[0].chains[0].done = LONG - 1;
    bed.sides[1].chains[0].done = 0;
    struct cell_batch *first = bed_batch(&bed.sides[0], 1);
    struct cell_batch *second = bed_batch(&bed.sides[1], LONG);
    bed_add_row(&bed.sides[0], 0);
    bed_add_row(&bed.sides[1], 0);
    first->attention = second->attention = &nobody;
    second->interruptible = true;
    second->follows = true;
    second->lead = LONG - 1;
    team_delay(bed.rig.team, 1, LATE_US);
    bed_run(&bed, first, second);
    ck_assert_uint_eq(first->steps_done, 1);
    ck_assert_uint_lt(second->steps_done, LONG);
    close_long();
}
END_TEST

/* ---- What the device says of itself ---------------------------------------------------------- */

/* Of one type with so many units on this device, by its own rule: rows. */
static uint32_t follow_rows(const char *backend, uint32_t members, uint32_t units)
{
    struct rig rig;
    struct build build;
    struct cell_tuning own = {0};
    struct cell_tuning now = {.follow_rows = 3};
    build_lstm_cell(&build, units, units, 1);
    rig_init(&rig, backend, NULL, members, &build.def);
    rig.backend->type_tune(rig.device, rig.type, NULL);
    (void)rig.backend->type_tuning(rig.device, rig.type, &own);
    rig.backend->type_tune(rig.device, rig.type, &now);
    (void)rig.backend->type_tuning(rig.device, rig.type, &now);
    ck_assert_uint_eq(now.follow_rows, strcmp(backend, "cpu") == 0 ? 3 : 0);
    rig_release(&rig);
    build_release(&build);
    return own.follow_rows;
}

START_TEST(test_what_the_device_says)
{
    ck_assert_uint_ge(follow_rows("cpu", 2, 64), 4);
    ck_assert_uint_ge(follow_rows("cpu", 4, 64), 4);
    ck_assert_uint_eq(follow_rows("cpu", 1, 64), 0);
    ck_assert_uint_eq(follow_rows("blas", 2, 64), 0);
    ck_assert_uint_eq(follow_rows("cpu", 2, 1024), 0); // 32 MiB: more than L2
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("follow");
    TCase *tcase = tcase_create("follow");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_lstms, 0, 4 * ISA_COUNT);
    tcase_add_loop_test(tcase, test_large_cells, 0, 6);
    tcase_add_loop_test(tcase, test_over_random_cells, 0, 40);
    tcase_add_loop_test(tcase, test_over_a_cell_without_products, 0, 10);
    tcase_add_loop_test(tcase, test_ends_with_the_first, 0, 8);
    tcase_add_test(tcase, test_makes_room_behind_the_first);
    tcase_add_test(tcase, test_what_the_device_says);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
