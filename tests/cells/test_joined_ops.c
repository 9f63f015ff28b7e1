/* Cells whose ops the CPU device puts together, chains of element-wise ones and a RELU with the
 * product before it, have the bits of the scalar reference, which takes them one by one: on every
 * instruction set, with a team, and on the CUDA device over the host's driver. */
#include "cells/backend.h"

#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { ROWS = 5, STEPS = 3 };

static const uint32_t widths[] = {1, 15, 16, 17, 33, 64, 65, 130};
enum { WIDTHS = sizeof(widths) / sizeof(widths[0]) };

/* Element-wise ops at random over each other's results, some of them over a mean or a part of
 * another row, so that chains begin, end and share values in all ways. Two states, and outputs from
 * anywhere. */
static void build_tangle(struct build *build, uint32_t width, uint32_t n_ops, uint64_t salt)
{
    uint32_t wide[CELL_VALUES_MAX];
    uint32_t single[CELL_VALUES_MAX];
    uint32_t n_wide = 0;
    uint32_t n_single = 0;
    build_init(build, salt);
    struct base_random *random = &build->random;
    wide[n_wide++] = build_input(build, CELL_F32, width);
    single[n_single++] = build_input(build, CELL_F32, 1);
    uint32_t longer = build_input(build, CELL_F32, width + 5);
    wide[n_wide++] = build_state(build, CELL_F32, width);
    wide[n_wide++] = build_state(build, CELL_F32, width);
    wide[n_wide++] = build_const(build, width);
    for (uint32_t o = 0; o < n_ops; o++) {
        uint32_t a = wide[base_random_below(random, n_wide)];
        uint32_t b = base_random_below(random, 4) == 0 ? single[base_random_below(random, n_single)]
                                                       : wide[base_random_below(random, n_wide)];
        uint32_t c = wide[base_random_below(random, n_wide)];
        uint32_t kind = CELL_OP_ADD + base_random_below(random, CELL_OP_SQRT - CELL_OP_ADD + 3);
        if (kind == CELL_OP_SQRT + 1) {
            single[n_single++] = build_op(build, CELL_OP_MEAN, a, UINT32_MAX, 1);
        } else if (kind == CELL_OP_SQRT + 2) {
            wide[n_wide++] = build_op(build, CELL_OP_SLICE, longer, UINT32_MAX, width);
            build_last(build)->start = base_random_below(random, 6);
        } else if (kind == CELL_OP_SELECT) {
            wide[n_wide++] = build_select(build, b, a, c, width);
        } else {
            bool is_binary = kind <= CELL_OP_SELECT;
            wide[n_wide++] =
                build_op(build, (enum cell_op_kind)kind, a, is_binary ? b : UINT32_MAX, width);
        }
    }
    build_next(build, 0, wide[n_wide - 1]);
    build_next(build, 1, wide[base_random_below(random, n_wide)]);
    for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
        build_output(build, wide[base_random_below(random, n_wide)]);
    }
}

/* Runs some chains; what they wrote, all behind each other, ended with base_free(). The inputs hold
 * what may go wrong: NaN, infinities, zeros of both signs, denormals. */
static uint8_t *run(const struct build *build, const char *isa, uint32_t members, size_t *bytes)
{
    static const float nasty[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-42f, -3e38f};
    const struct cell_def *def = &build->def;
    struct rig rig;
    struct rig_chain chains[ROWS];
    struct cell_batch_row rows[ROWS];
    struct base_random random = util_random(5);
    const size_t row_bytes = def->values[def->outputs[0]].width * sizeof(float);
    const size_t output_bytes = STEPS * row_bytes;
    *bytes = ROWS * def->n_outputs * output_bytes;
    uint8_t *all = base_alloc(*bytes);
    ck_assert_ptr_nonnull(all);
    rig_init(&rig, isa == NULL ? "cuda-host" : "cpu", isa, members, def);
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_init(&chains[r], rig.type, r, STEPS, &random);
        for (uint32_t n = 0; r % 2 == 1 && n < sizeof(nasty) / sizeof(nasty[0]); n++) {
            uint32_t at = base_random_below(&random, STEPS * def->values[0].width);
            memcpy(chains[r].inputs[0] + at * sizeof(float), &nasty[n], sizeof(float));
        }
        rows[r] = rig_chain_row(&chains[r], STEPS);
    }
    struct cell_batch batch = {.n_rows = ROWS, .steps = STEPS, .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            memcpy(all + (r * def->n_outputs + o) * output_bytes, chains[r].outputs[o],
                   output_bytes);
        }
        rig_chain_release(&chains[r]);
    }
    rig_release(&rig);
    return all;
}

/* Releases build. */
static void assert_scalar_bits(struct build *build, uint32_t width, uint32_t salt)
{
    struct base_error error;
    size_t bytes = 0;
    ck_assert_msg(cell_def_check(&build->def, &error) == BASE_OK, "%s", error.message);
    uint8_t *wanted = run(build, "scalar", 0, &bytes);
    for (uint32_t i = 0; i < 2 * ISA_COUNT; i++) {
        if (isa_at((int)i / 2) == NULL) {
            continue;
        }
        uint8_t *got = run(build, isa_name((int)i / 2), 2 * (i % 2), &bytes);
        ck_assert_msg(memcmp(got, wanted, bytes) == 0, "%s, width %u, salt %u",
                      isa_name((int)i / 2), width, salt);
        base_free(got);
    }
    uint8_t *got = run(build, NULL, 0, &bytes);
    ck_assert_msg(memcmp(got, wanted, bytes) == 0, "card, width %u, salt %u", width, salt);
    base_free(got);
    base_free(wanted);
    build_release(build);
}

/* _i: of widths; below, at and beyond a tile too. */
START_TEST(test_chains_have_the_scalar_bits)
{
    static const uint32_t more[] = {255, 256, 257, 700};
    const uint32_t width = _i < WIDTHS ? widths[_i] : more[_i - WIDTHS];
    const uint32_t salts = util_is_quick() ? 2 : 6;
    for (uint32_t salt = 0; salt < salts; salt++) {
        struct build build;
        build_tangle(&build, width, salt % 2 == 0 ? 12 : 100, 100 * width + salt);
        assert_scalar_bits(&build, width, salt);
    }
}
END_TEST

/* ---- Operands that are read again ---- */

/* Of rows of [outer, n] elements what is the same along either axis: an outer product of both, as a
 * state that is a matrix. One of them is made by a chain, one a state's, one a part of another row;
 * and the sums of the rows. */
static void build_matrix(struct build *build, uint32_t outer, uint32_t n)
{
    const uint32_t all = outer * n;
    const uint32_t down[] = {outer, n, 1};
    const uint32_t across[] = {1, outer, n};
    build_init(build, 500 + all);
    const uint32_t x = build_input(build, CELL_F32, outer + n);
    const uint32_t state = build_state(build, CELL_F32, all);
    const uint32_t gate = build_state(build, CELL_F32, outer);
    const uint32_t key = build_op(build, CELL_OP_SLICE, x, UINT32_MAX, n);
    build_last(build)->start = outer;
    const uint32_t value = build_op(build, CELL_OP_SLICE, x, UINT32_MAX, outer);
    const uint32_t new_gate = build_op(build, CELL_OP_SIGMOID, value, UINT32_MAX, outer);
    const uint32_t kept = build_op(build, CELL_OP_MUL, build_spread(build, gate, down), state, all);
    const uint32_t more = build_op(build, CELL_OP_MUL, build_spread(build, new_gate, down),
                                   build_spread(build, key, across), all);
    const uint32_t next = build_op(build, CELL_OP_ADD, kept, more, all);
    const uint32_t read = build_op(build, CELL_OP_MUL, next, build_spread(build, key, across), all);
    build_next(build, 0, next);
    build_next(build, 1, new_gate);
    build_output(build, next);
    build_output(build, read);
}

static bool explains(const struct cell_def *def, const char *what)
{
    struct base_buf text;
    struct rig rig;
    base_buf_init(&text, 1 << 16);
    rig_init(&rig, "cpu", isa_name(ISA_COUNT > 1 ? 1 : 0), 0, def);
    rig.backend->type_explain(rig.device, rig.type, &text);
    const bool is_there = strstr(text.data, what) != NULL;
    rig_release(&rig);
    base_buf_release(&text);
    return is_there;
}

START_TEST(test_operands_that_are_read_again_have_the_scalar_bits)
{
    static const uint32_t sizes[][2] = {{1, 7},  {7, 1},   {3, 5},   {16, 16}, {5, 64},
                                        {64, 3}, {17, 33}, {33, 17}, {4, 300}, {300, 4}};
    struct build build;
    build_matrix(&build, sizes[_i][0], sizes[_i][1]);
    ck_assert(!explains(&build.def, "SPREAD"));
    build.def.as_written = true;
    ck_assert(explains(&build.def, "SPREAD"));
    build.def.as_written = false;
    assert_scalar_bits(&build, sizes[_i][0] * sizes[_i][1], (uint32_t)_i);
}
END_TEST

/* What is answered, or what another op reads, is copied. */
START_TEST(test_copies_that_others_read_stay)
{
    const uint32_t dims[] = {4, 3, 1};
    struct build build;
    build_init(&build, 7);
    const uint32_t x = build_input(&build, CELL_F32, 4);
    const uint32_t y = build_input(&build, CELL_F32, 12);
    const uint32_t spread = build_spread(&build, x, dims);
    build_output(&build, build_op(&build, CELL_OP_ADD, spread, y, 12));
    ck_assert(!explains(&build.def, "SPREAD"));
    build_output(&build, build_op(&build, CELL_OP_SUM, spread, UINT32_MAX, 1));
    ck_assert(explains(&build.def, "SPREAD"));
    build.def.outputs[1] = spread;
    ck_assert(explains(&build.def, "SPREAD"));
    build_release(&build);
}
END_TEST

/* ---- RELU of LINEAR ---- */

static uint32_t relu(struct build *build, uint32_t of, uint32_t width)
{
    return build_op(build, CELL_OP_RELU, of, UINT32_MAX, width);
}

/* Those that may go along with their product: alone, before other ops, as a state; and those that
 * may not: of a product that is answered too, that another op or another RELU reads. */
START_TEST(test_relus_of_products_have_the_scalar_bits)
{
    const uint32_t width = widths[_i];
    struct build build;
    build_init(&build, 300 + width);
    const uint32_t x = build_input(&build, CELL_F32, width);
    const uint32_t state = build_state(&build, CELL_F32, width);
    const uint32_t alone = relu(&build, build_linear(&build, x, width, true), width);
    const uint32_t before = relu(&build, build_linear(&build, x, width, false), width);
    const uint32_t shown = build_linear(&build, x, width, true);
    const uint32_t read = build_linear(&build, x, width, true);
    const uint32_t twice = build_linear(&build, x, width, true);
    const uint32_t next = relu(&build, build_linear(&build, state, width, true), width);
    build_next(&build, 0, next);
    build_output(&build, alone);
    build_output(&build, build_op(&build, CELL_OP_SUB, before, x, width));
    build_output(&build, shown);
    build_output(&build, relu(&build, shown, width));
    build_output(&build, build_op(&build, CELL_OP_ADD, relu(&build, read, width), read, width));
    build_output(&build, build_op(&build, CELL_OP_ADD, relu(&build, twice, width),
                                  relu(&build, twice, width), width));
    build_output(&build, next);
    assert_scalar_bits(&build, width, 0);
}
END_TEST

/* Without a state outputs go straight to where they belong, if their products are whole lines. */
START_TEST(test_relus_of_patches_have_the_scalar_bits)
{
    const uint32_t width = widths[_i];
    struct build build;
    build_init(&build, 400 + width);
    const uint32_t x = build_input(&build, CELL_F32, 3 * width);
    const uint32_t of = build_patches(&build, x, 3, width, width);
    build_output(&build, relu(&build, of, 3 * width));
    build_output(&build, build_linear(&build, x, 3 * width, true));
    assert_scalar_bits(&build, width, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("joined_ops");
    TCase *tcase = tcase_create("joined_ops");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_chains_have_the_scalar_bits, 0, WIDTHS + 4);
    tcase_add_loop_test(tcase, test_operands_that_are_read_again_have_the_scalar_bits, 0, 10);
    tcase_add_test(tcase, test_copies_that_others_read_stay);
    tcase_add_loop_test(tcase, test_relus_of_products_have_the_scalar_bits, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_relus_of_patches_have_the_scalar_bits, 0, WIDTHS);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
