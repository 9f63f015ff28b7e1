/* REDUCE on the CPU device and the CUDA device over a host's driver: rows that each read a memory
 * of their own length, against double precision; the same bits on every instruction set, device and
 * number of threads; numbers that are none; and what is no definition. */
#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/oracle_chain.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VARIANTS = CELL_REDUCE_COUNT + 1 };

/* Steps around the ends of parts, none, and what is longer than any part of a line. */
static const uint32_t lengths[] = {0, 1, 2, 17, 255, 256, 257, 511, 600, 3000};
enum { ROWS = sizeof(lengths) / sizeof(lengths[0]) };

static const uint32_t widths[] = {1, 3, 15, 16, 17, 80};
enum { WIDTHS = sizeof(widths) / sizeof(widths[0]) };

/* Input 0 reduced in all ways, output v by variant v. */
static void build_reduces(struct build *build, uint32_t width)
{
    build_init(build, 5);
    const uint32_t memory = build_input(build, CELL_F32, width);
    for (uint32_t v = 0; v < VARIANTS; v++) {
        const uint32_t out =
            build_op(build, CELL_OP_REDUCE, memory, UINT32_MAX, v == CELL_REDUCE_COUNT ? 1 : width);
        build_last(build)->variant = v;
        build_output(build, out);
    }
}

static uint32_t width_of(const struct build *build, uint32_t variant)
{
    return build->def.values[build->def.outputs[variant]].width;
}

static const float *output(const struct rig_chain *chain, uint32_t variant)
{
    return (const float *)(const void *)chain->outputs[variant];
}

/* One step of a batch of rows that have so many rows to read each; chains: its rows. */
static void run(struct rig *rig, struct rig_chain *chains, uint32_t n)
{
    struct cell_batch_row rows[ROWS];
    for (uint32_t r = 0; r < n; r++) {
        rows[r] = rig_chain_row(&chains[r], 1);
    }
    struct cell_batch batch = {.n_rows = n, .steps = 1, .rows = rows};
    rig_run(rig, &batch);
}

/* Random rows, of another mean in each element. */
static void fill(struct rig_chain *chain, const struct cell_type *type, uint32_t length,
                 struct base_random *random)
{
    const uint32_t width = type->def.values[0].width;
    rig_chain_init(chain, type, 0, length + 1, random);
    float *rows = (float *)(void *)chain->inputs[0];
    for (uint32_t i = 0; i < length * width; i++) {
        rows[i] += (float)(i % width) * 3.0f;
    }
    chain->wiring.steps = 1;
    chain->wiring.inputs[0].rows = length;
}

/* Whether the chains' outputs are those of others, bit by bit. */
static void expect_same(const struct build *build, const struct rig_chain *a,
                        const struct rig_chain *b)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t v = 0; v < VARIANTS; v++) {
            ck_assert_msg(
                memcmp(a[r].outputs[v], b[r].outputs[v], width_of(build, v) * sizeof(float)) == 0,
                "%u rows, variant %u", lengths[r], v);
        }
    }
}

static void run_lengths(const char *backend, const char *isa, uint32_t members,
                        const struct build *build, struct rig_chain *chains)
{
    struct base_random random = util_random(4);
    struct rig rig;
    rig_init(&rig, backend, isa, members, &build->def);
    for (uint32_t r = 0; r < ROWS; r++) {
        fill(&chains[r], rig.type, lengths[r], &random);
    }
    run(&rig, chains, ROWS);
    rig_release(&rig);
}

static void release(struct rig_chain *chains)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_release(&chains[r]);
    }
}

/* _i: of widths. */
START_TEST(test_rows_reduce_their_own)
{
    static struct rig_chain wanted[ROWS];
    static struct rig_chain got[ROWS];
    struct build build;
    build_reduces(&build, widths[_i]);
    run_lengths("cpu", "scalar", 0, &build, wanted);
    for (uint32_t r = 0; r < ROWS; r++) {
        if (lengths[r] > 0) {
            oracle_check_chain(&build.def, &wanted[r], 1e-6);
            continue;
        }
        for (uint32_t v = 0; v < VARIANTS; v++) {
            const float x = output(&wanted[r], v)[0];
            ck_assert(v == CELL_REDUCE_MEAN || v == CELL_REDUCE_VARIANCE
                          ? isnan(x)
                          : fpclassify(x) == FP_ZERO);
        }
    }
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (uint32_t members = 0; members <= 2 && isa_at(isa) != NULL; members += 2) {
            run_lengths("cpu", isa_name(isa), members, &build, got);
            expect_same(&build, got, wanted);
            release(got);
        }
    }
    run_lengths("cuda-host", NULL, 0, &build, got);
    expect_same(&build, got, wanted);
    release(got);
    release(wanted);
    build_release(&build);
}
END_TEST

static void expect(float got, double wanted)
{
    ck_assert_double_eq((double)got, wanted);
}

/* What single precision would lose: a small spread far from zero, over many steps. */
START_TEST(test_sums_do_not_lose_what_is_small)
{
    enum { STEPS = 200000 };
    struct base_random random = util_random(6);
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    build_reduces(&build, 1);
    rig_init(&rig, "cpu", NULL, 0, &build.def);
    fill(&chain, rig.type, STEPS, &random);
    float *rows = (float *)(void *)chain.inputs[0];
    for (uint32_t i = 0; i < STEPS; i++) {
        rows[i] = 4096.0f + (i % 2 == 0 ? 1.0f : -1.0f) / 1024.0f;
    }
    run(&rig, &chain, 1);
    expect(*output(&chain, CELL_REDUCE_SUM), 4096.0 * STEPS);
    expect(*output(&chain, CELL_REDUCE_MEAN), 4096.0);
    expect(*output(&chain, CELL_REDUCE_VARIANCE), 1.0 / 1024.0 / 1024.0);
    expect(*output(&chain, CELL_REDUCE_COUNT), (double)STEPS);
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* Elements of a memory of 300 rows of which one is `odd`, and what comes of it. */
static void reduce_odd(const char *backend, float odd, float got[VARIANTS])
{
    struct base_random random = util_random(6);
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    build_reduces(&build, 2);
    rig_init(&rig, backend, NULL, 0, &build.def);
    fill(&chain, rig.type, 300, &random);
    float *rows = (float *)(void *)chain.inputs[0];
    rows[2 * 150] = odd;
    run(&rig, &chain, 1);
    for (uint32_t v = 0; v < VARIANTS; v++) {
        got[v] = output(&chain, v)[0];
        ck_assert(isfinite(output(&chain, v)[v == CELL_REDUCE_COUNT ? 0 : 1])); // the other element
    }
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}

/* _i: the device. */
START_TEST(test_what_is_no_number_wins_in_its_element_alone)
{
    const char *backend = _i == 0 ? "cpu" : "cuda-host";
    const uint32_t one_nan = 0x7fc00000;
    float got[VARIANTS];
    float nan;
    memcpy(&nan, &one_nan, sizeof(nan));
    reduce_odd(backend, -nan, got);
    for (uint32_t v = 0; v < CELL_REDUCE_COUNT; v++) {
        ck_assert_mem_eq(&got[v], &one_nan, sizeof(one_nan));
    }
    reduce_odd(backend, INFINITY, got);
    ck_assert(isinf(got[CELL_REDUCE_SUM]) && isinf(got[CELL_REDUCE_MEAN]));
    ck_assert(isnan(got[CELL_REDUCE_VARIANCE]));
    ck_assert(isinf(got[CELL_REDUCE_MAX]) && isfinite(got[CELL_REDUCE_MIN]));
    reduce_odd(backend, -FLT_MAX, got);
    ck_assert(isfinite(got[CELL_REDUCE_MEAN]) && isinf(got[CELL_REDUCE_VARIANCE]));
    expect(got[CELL_REDUCE_MIN], -(double)FLT_MAX);
    expect(got[CELL_REDUCE_COUNT], 300.0);
}
END_TEST

/* Zeros of both signs are equal: the first counts. _i: the device. */
START_TEST(test_of_equal_ones_the_first_counts)
{
    struct base_random random = util_random(6);
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    build_reduces(&build, 1);
    rig_init(&rig, _i == 0 ? "cpu" : "cuda-host", NULL, 0, &build.def);
    fill(&chain, rig.type, 600, &random);
    float *rows = (float *)(void *)chain.inputs[0];
    for (uint32_t i = 0; i < 600; i++) {
        rows[i] = i == 0 ? -0.0f : 0.0f;
    }
    run(&rig, &chain, 1);
    ck_assert(signbit(*output(&chain, CELL_REDUCE_MAX)) != 0);
    ck_assert(signbit(*output(&chain, CELL_REDUCE_MIN)) != 0);
    rows[0] = 0.0f;
    rows[300] = -0.0f;
    run(&rig, &chain, 1);
    ck_assert(signbit(*output(&chain, CELL_REDUCE_MAX)) == 0);
    ck_assert(signbit(*output(&chain, CELL_REDUCE_MIN)) == 0);
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

START_TEST(test_what_is_no_reduction_is_no_definition)
{
    struct build build;
    struct base_error error;
    build_reduces(&build, 4);
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    ck_assert(cell_def_input_has_rows(&build.def, 0));
    build.def.ops[0].variant = VARIANTS;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "op 0 (REDUCE): unknown variant");
    build.def.ops[0].variant = CELL_REDUCE_COUNT; // one element, not as wide as K
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    build.def.ops[0].variant = CELL_REDUCE_MAX;
    build.def.values[0].dtype = CELL_I32;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    build.def.values[0].dtype = CELL_F32;
    build.def.ops[1].operands[0] = 1; // what another op has made
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "op 1 (REDUCE): K is not an input");
    build.def.ops[1].operands[0] = 0;
    build.def.outputs[0] = 0; // a row, and many
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "input 0: one op takes it for many rows, another for one");
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reduce");
    TCase *tcase = tcase_create("device");
    tcase_add_loop_test(tcase, test_rows_reduce_their_own, 0, WIDTHS);
    tcase_add_test(tcase, test_sums_do_not_lose_what_is_small);
    tcase_add_loop_test(tcase, test_what_is_no_number_wins_in_its_element_alone, 0, 2);
    tcase_add_loop_test(tcase, test_of_equal_ones_the_first_counts, 0, 2);
    tcase_add_test(tcase, test_what_is_no_reduction_is_no_definition);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
