/* Two batches side by side, each by half of a team: the bits are those of each chain alone, and
 * when one has come to its end the other soon does, too. */
#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/random_cell.h"
#include "tests/cells/rig.h"
#include "tests/cells/team.h"
#include "tests/util.h"

#include <pthread.h>
#include <string.h>

enum { CHAINS = 12, STEPS_MAX = 40, MEMBERS_MAX = 5, LATE_US = 20000, SOON_US = 100 };

/* The chains of one of the two types, and what each gives alone. */
struct side {
    struct build build;
    const struct cell_type *type;
    struct rig_chain chains[CHAINS];
    uint8_t *outputs[CHAINS][CELL_OUTPUTS_MAX];
    uint8_t *finals[CHAINS][CELL_STATES_MAX];
    struct cell_batch_row rows[CHAINS];
    struct cell_batch batch;
    uint32_t of_row[CHAINS]; /* chains of the batch */
};

struct bed {
    struct rig rig;
    struct side sides[2];
};

static size_t value_bytes(const struct side *side, uint32_t value)
{
    const struct cell_value shape = side->type->def.values[value];
    return (size_t)shape.width * cell_dtype_bytes(shape.dtype);
}

/* ---- Running -------------------------------------------------------------------------------- */

static struct cell_batch *batch_of(struct side *side, uint32_t steps)
{
    side->batch = (struct cell_batch){
        .type = side->type, .steps = steps, .rows = side->rows, .status = BASE_INTERNAL};
    return &side->batch;
}

static void add_row(struct side *side, uint32_t chain)
{
    side->of_row[side->batch.n_rows] = chain;
    side->rows[side->batch.n_rows++] = rig_chain_row(&side->chains[chain], side->batch.steps);
}

/* Both, or the first alone. */
static void run(struct bed *bed, struct cell_batch *first, struct cell_batch *second)
{
    first->beside = second;
    bed->rig.backend->submit(bed->rig.device, 0, first);
    bed->rig.submitted += second == NULL ? 1 : 2;
    ck_assert(bed->rig.backend->pump(bed->rig.device, 0));
    ck_assert_uint_eq(atomic_load(bed->rig.backend->completed(bed->rig.device, 0)),
                      bed->rig.submitted);
    ck_assert(!bed->rig.backend->pump(bed->rig.device, 0));
    ck_assert_int_eq(first->status, BASE_OK);
    ck_assert(second == NULL || second->status == BASE_OK);
}

/* The rows of a batch that is back. Returns how many chains have come to their end. */
static uint32_t take_back(struct side *side)
{
    uint32_t n_ended = 0;
    for (uint32_t r = 0; r < side->batch.n_rows; r++) {
        struct rig_chain *chain = &side->chains[side->of_row[r]];
        const uint32_t most = side->rows[r].steps;
        const uint32_t done = side->batch.steps_done < most ? side->batch.steps_done : most;
        ck_assert_uint_ge(side->rows[r].steps_done, side->batch.interruptible ? 1 : most);
        ck_assert_uint_le(side->rows[r].steps_done, done);
        chain->done += side->rows[r].steps_done;
        n_ended += chain->done == chain->wiring.steps ? 1 : 0;
    }
    return n_ended;
}

static void begin_again(struct side *side)
{
    for (uint32_t c = 0; c < CHAINS; c++) {
        rig_chain_reset(&side->chains[c], side->type);
    }
}

/* ---- The bed -------------------------------------------------------------------------------- */

/* Every chain alone, by all of the team. */
static void make_wanted(struct bed *bed, struct side *side)
{
    const struct cell_def *def = &side->type->def;
    for (uint32_t c = 0; c < CHAINS; c++) {
        const uint32_t steps = side->chains[c].wiring.steps;
        (void)batch_of(side, steps);
        add_row(side, c);
        run(bed, &side->batch, NULL);
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            side->outputs[c][o] =
                rig_copy(side->chains[c].outputs[o], steps * value_bytes(side, def->outputs[o]));
        }
        for (uint32_t s = 0; s < def->n_states; s++) {
            side->finals[c][s] =
                rig_copy(side->chains[c].final[s], value_bytes(side, def->n_inputs + s));
        }
    }
}

static void check_chain(const struct side *side, uint32_t c)
{
    const struct cell_def *def = &side->type->def;
    const struct rig_chain *chain = &side->chains[c];
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        ck_assert_mem_eq(chain->outputs[o], side->outputs[c][o],
                         chain->wiring.steps * value_bytes(side, def->outputs[o]));
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        ck_assert_mem_eq(chain->final[s], side->finals[c][s], value_bytes(side, def->n_inputs + s));
    }
}

static void check_side(const struct side *side)
{
    for (uint32_t c = 0; c < CHAINS; c++) {
        check_chain(side, c);
    }
}

/* Of two cells that are built. */
static void bed_open(struct bed *bed, const char *isa, uint32_t members, uint64_t salt)
{
    struct base_random random = util_random(salt);
    rig_init(&bed->rig, "cpu", isa, members, &bed->sides[0].build.def);
    bed->sides[0].type = bed->rig.type;
    bed->sides[1].type = rig_add(&bed->rig, &bed->sides[1].build.def);
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &bed->sides[i];
        memset(side->outputs, 0, sizeof(side->outputs));
        memset(side->finals, 0, sizeof(side->finals));
        side->batch.n_rows = 0;
        for (uint32_t c = 0; c < CHAINS; c++) {
            rig_chain_init(&side->chains[c], side->type, i * RIG_ROWS / 2 + c,
                           1 + base_random_below(&random, STEPS_MAX), &random);
        }
        make_wanted(bed, side);
    }
}

static void bed_close(struct bed *bed)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &bed->sides[i];
        for (uint32_t c = 0; c < CHAINS; c++) {
            rig_chain_release(&side->chains[c]);
            for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
                base_free(side->outputs[c][o]);
            }
            for (uint32_t s = 0; s < CELL_STATES_MAX; s++) {
                base_free(side->finals[c][s]);
            }
        }
    }
    rig_release(&bed->rig);
    build_release(&bed->sides[0].build);
    build_release(&bed->sides[1].build);
}

/* ---- Bits ----------------------------------------------------------------------------------- */

/* Some of the chains that are not at their end, for some steps; NULL: none are. */
static struct cell_batch *draw_batch(struct side *side, _Atomic uint32_t *attention,
                                     struct base_random *random)
{
    struct cell_batch *batch = batch_of(side, 1 + base_random_below(random, STEPS_MAX));
    batch->interruptible = base_random_below(random, 2) == 0;
    batch->attention = attention;
    uint32_t left = 0;
    for (uint32_t c = 0; c < CHAINS; c++) {
        left += side->chains[c].done < side->chains[c].wiring.steps ? 1 : 0;
    }
    for (uint32_t c = 0; c < CHAINS; c++) {
        const bool is_unfinished = side->chains[c].done < side->chains[c].wiring.steps;
        if (is_unfinished && (base_random_below(random, 2) == 0 || left == 1)) {
            add_row(side, c);
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
        run(bed, first == NULL ? second : first, first == NULL ? NULL : second);
        team_delay(bed->rig.team, 0, 0);
        for (uint32_t i = 0; i < 2; i++) {
            if (bed->sides[i].batch.n_rows > 0) {
                (void)take_back(&bed->sides[i]);
            }
        }
    }
}

static void draw_tuning(const struct bed *bed, struct base_random *random)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell_tuning tuning = {.ahead_rows = base_random_below(random, 20),
                                           .fill_steps = base_random_below(random, 12),
                                           .solo_rows = base_random_below(random, 4),
                                           .apart_rows = base_random_below(random, 6)};
        bed->rig.backend->type_tune(bed->rig.device, bed->sides[i].type, &tuning);
    }
}

static void check_bits(struct bed *bed, const char *isa, uint64_t salt)
{
    struct base_random random = util_random(salt + 1);
    const uint32_t members = 2 + base_random_below(&random, MEMBERS_MAX - 1);
    bed_open(bed, isa, members, salt);
    const uint64_t allocations = base_alloc_count();
    for (uint32_t round = 0; round < (util_is_quick() ? 1 : 4); round++) {
        begin_again(&bed->sides[0]);
        begin_again(&bed->sides[1]);
        draw_tuning(bed, &random);
        run_all(bed, &random);
        check_side(&bed->sides[0]);
        check_side(&bed->sides[1]);
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
        for (uint32_t c = 0; c < CHAINS; c++) {
            rig_chain_init(&bed.sides[i].chains[c], bed.sides[i].type, i * RIG_ROWS / 2 + c, LONG,
                           &random);
        }
    }
}

static void close_long(void)
{
    for (uint32_t c = 0; c < CHAINS; c++) {
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
    struct cell_batch *batch = batch_of(&bed.sides[side], steps);
    batch->interruptible = true;
    batch->attention = attention;
    add_row(&bed.sides[side], 0);
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
    run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, 1);
    late->steps_min = 0;

    // Not before it has done so many steps; and not where it cannot be interrupted.
    first = long_batch(0, late_side == 0 ? LONG : 2, &attention);
    second = long_batch(1, late_side == 1 ? LONG : 2, &attention);
    late->steps_min = 9;
    run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, 9);
    first = long_batch(0, late_side == 0 ? LONG : 2, &attention);
    second = long_batch(1, late_side == 1 ? LONG : 2, &attention);
    late->interruptible = false;
    team_delay(bed.rig.team, late_member, SOON_US); // behind each of its barriers
    run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, LONG);

    team_delay(bed.rig.team, late_member, LATE_US);

    // Nor where it has hardly more than that left: 4 steps are less than a million operations.
    ck_assert_uint_lt(4 * bed.rig.type->flops, 1000000);
    ck_assert_uint_gt(8 * bed.rig.type->flops, 1000000);
    first = long_batch(0, late_side == 0 ? 5 : 2, &attention);
    second = long_batch(1, late_side == 1 ? 5 : 2, &attention);
    run(&bed, first, second);
    ck_assert_uint_eq(late->steps_done, 5);

    // Nor where it is one step; of two it is interrupted.
    for (uint32_t steps = 2; steps <= 3; steps++) {
        first = long_batch(0, late_side == 0 ? steps : 2, &attention);
        second = long_batch(1, late_side == 1 ? steps : 2, &attention);
        for (uint32_t r = 1; r < CHAINS; r++) { // so many rows that a step is long
            rig_chain_reset(&bed.sides[late_side].chains[r], bed.sides[late_side].type);
            add_row(&bed.sides[late_side], r);
        }
        run(&bed, first, second);
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
    run(&bed, first, second);
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
