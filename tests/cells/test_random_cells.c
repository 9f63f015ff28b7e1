/* Cells drawn at random, of all ops: what the devices make of one, fused, computed ahead, looked
 * up, shared out to a team, in any batches, has the bits that its ops have one by one; and those
 * are what double precision comes to. Other cells come with another CELLBATCH_SEED. */
#include "tests/cells/isa.h"
#include "tests/cells/oracle_chain.h"
#include "tests/cells/random_cell.h"
#include "tests/cells/split.h"
#include "tests/util.h"

enum { ROUNDS = 60, CELLS = 3, STEPS = 4, MEMBERS_MAX = 3 };

/* ---- Bits ----------------------------------------------------------------------------------- */

static void check_split(const struct split_options *options)
{
    struct split_difference difference;
    if (!split_has_the_bits_of_one_run(options, &difference)) {
        random_cell_print(options->def);
        ck_abort_msg("%s, %s, %u members, salt %u: %s", options->backend,
                     options->isa == NULL ? "" : options->isa, options->members,
                     (uint32_t)options->salt, difference.text);
    }
}

/* A device of this machine, drawn with all that may be chosen about it. */
static void check_somewhere(const struct cell_def *def, struct base_random *random, uint64_t salt)
{
    const struct cell_tuning tuning = {.ahead_rows = base_random_below(random, 30),
                                       .fill_steps = base_random_below(random, 12),
                                       .solo_rows = base_random_below(random, 8),
                                       .apart_rows = base_random_below(random, 6)};
    const struct split_options options = {
        .def = def,
        .backend = "cpu",
        .isa = isa_name((int)base_random_below(random, ISA_COUNT)),
        .members = base_random_below(random, MEMBERS_MAX + 1),
        .n_chains = 6 + base_random_below(random, 20),
        .steps_max = 1 + base_random_below(random, 9),
        .tuning = base_random_below(random, 2) == 0 ? &tuning : NULL,
        .salt = salt,
    };
    const struct cell_kernels *kernels = NULL;
    if (cell_kernels_choose(options.isa, &kernels, NULL) == BASE_OK) {
        check_split(&options);
    }
}

static bool has_int8(const struct cell_def *def)
{
    bool has = false;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        has |= def->ops[o].precision == CELL_INT8;
    }
    return has;
}

/* It has no kernels for weights in int8. */
static void check_card(const struct cell_def *def, uint64_t salt)
{
    if (has_int8(def)) {
        return;
    }
    const struct split_options options = {
        .def = def, .backend = "cuda-host", .n_chains = 8, .steps_max = STEPS, .salt = salt};
    check_split(&options);
}

START_TEST(test_random_cells_have_the_bits_of_their_ops)
{
    for (uint64_t c = 0; c < (util_is_quick() ? 1 : CELLS); c++) {
        struct build build;
        const uint64_t salt = 1000 + (uint64_t)_i * CELLS + c;
        const enum random_cell_manner manner = salt % 4 == 0 ? RANDOM_CELL_SMOOTH : RANDOM_CELL_ANY;
        random_cell_build(&build, manner, salt);
        check_somewhere(&build.def, &build.random, salt);
        check_somewhere(&build.def, &build.random, salt);
        check_card(&build.def, salt);
        build_release(&build);
    }
}
END_TEST

/* ---- Cells that such tests have found -------------------------------------------------------- */

/* What is computed ahead is also what a state becomes. */
START_TEST(test_states_made_of_what_runs_ahead)
{
    struct build build;
    build_init(&build, 41);
    const uint32_t x = build_input(&build, CELL_F32, 20);
    const uint32_t last = build_state(&build, CELL_F32, 30);
    const uint32_t h = build_state(&build, CELL_F32, 40);
    const uint32_t of_x = build_linear(&build, x, 30, true);
    const uint32_t squashed = build_op(&build, CELL_OP_TANH, of_x, UINT32_MAX, 30);
    const uint32_t out = build_gated(&build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, squashed, h, true);
    build_next(&build, 0, _i / ISA_COUNT == 0 ? of_x : squashed);
    build_next(&build, 1, out);
    build_output(&build, build_op(&build, CELL_OP_SUB, of_x, last, 30));
    build_output(&build, out);
    const struct split_options options = {.def = &build.def,
                                          .backend = "cpu",
                                          .isa = isa_name(_i % ISA_COUNT),
                                          .members = 2,
                                          .n_chains = 12,
                                          .steps_max = 9};
    if (isa_at(_i % ISA_COUNT) != NULL) {
        check_split(&options);
    }
    build_release(&build);
}
END_TEST

/* ---- Numbers -------------------------------------------------------------------------------- */

/* Products of libraries differ in their bits, so here they have their turn too. */
static void check_numbers(const struct cell_def *def, const char *backend, uint64_t salt)
{
    struct rig rig;
    struct rig_chain chain;
    struct base_random random = util_random(salt);
    rig_init(&rig, backend, NULL, 2, def);
    rig_chain_init(&chain, rig.type, 0, STEPS, &random);
    struct cell_batch_row row = rig_chain_row(&chain, STEPS);
    struct cell_batch batch = {.n_rows = 1, .steps = STEPS, .rows = &row};
    rig_run(&rig, &batch);
    oracle_check_chain(def, &chain, 1e-3);
    rig_chain_release(&chain);
    rig_release(&rig);
}

START_TEST(test_random_cells_come_to_what_double_precision_does)
{
    static const char *const backends[] = {"cpu", "cuda-host-library", "blas"};
    const uint32_t n_backends = util_is_quick() ? 1 : 3; // an emulator has no others' products
    for (uint64_t c = 0; c < (util_is_quick() ? 1 : CELLS); c++) {
        struct build build;
        const uint64_t salt = 5000 + (uint64_t)_i * CELLS + c;
        random_cell_build(&build, RANDOM_CELL_SMOOTH, salt);
        check_numbers(&build.def, backends[c % n_backends], salt);
        build_release(&build);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random_cells");
    TCase *tcase = tcase_create("cells");
    const int rounds = util_is_quick() ? 4 : ROUNDS;
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_random_cells_have_the_bits_of_their_ops, 0, rounds);
    tcase_add_loop_test(tcase, test_states_made_of_what_runs_ahead, 0, 2 * ISA_COUNT);
    tcase_add_loop_test(tcase, test_random_cells_come_to_what_double_precision_does, 0, rounds);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
