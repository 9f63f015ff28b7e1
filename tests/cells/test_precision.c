/* Weights in fewer bits: what rounding is, case by case, and how far whole sequences end up from
 * those in double precision. That all kernels do the same to the bit stands in test_kernels.c. */
#include "cells/quant.h"

#include "cells/bf16.h"
#include "cells/kernels.h"
#include "tests/cells/oracle.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Rounding ------------------------------------------------------------------------------- */

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

START_TEST(test_precision_bf16_is_the_nearest_ties_to_even)
{
    static const struct {
        uint32_t bits;
        uint16_t want;
    } cases[] = {
        {0x00000000, 0x0000}, {0x80000000, 0x0000}, // both zeros
        {0x3F800000, 0x3F80}, {0xBF800000, 0xBF80}, // +-1
        {0x3F807FFF, 0x3F80}, {0x3F808000, 0x3F80}, // below the middle, and in it: to the even one
        {0x3F808001, 0x3F81}, {0x3F818000, 0x3F82}, // above it; in the middle, upwards to the even
        {0xBF818000, 0xBF82}, {0x3FFFFFFF, 0x4000}, // by sign; into the next power of two
        {0x00000001, 0x0000}, {0x807FFFFF, 0x0000}, // denormals
        {0x23FFFFFF, 0x0000}, {0xA4000000, 0xA400}, // below 2^-55, before anything is rounded
        {0x7F7F7FFF, 0x7F7F}, {0x7F7F8000, 0x7F80}, // the largest that stays finite, and the next
        {0xFF800000, 0xFF80}, {0x7F800001, 0x7FC0}, // infinity; a NaN, which is quiet then
        {0xFFFFFFFF, 0xFFFF},                       // another, whose bits have no room above
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_uint_eq(cell_bf16_factor(of_bits(cases[i].bits)), cases[i].want);
    }
    ck_assert(cell_bf16_widen(0x3F81) == 1.0078125f);
}
END_TEST

START_TEST(test_precision_bf16_sums_begin_with_what_is_no_denormal_later)
{
    ck_assert(cell_bf16_start(0x1p-100f) == 0x1p-100f);
    ck_assert(cell_bf16_start(-0x1p-100f) == -0x1p-100f);
    ck_assert(cell_bf16_start(nextafterf(0x1p-100f, 0.0f)) == 0.0f);
    ck_assert(cell_bf16_start(-0x1p-149f) == 0.0f);
    ck_assert(isnan(cell_bf16_start(NAN)) && isinf(cell_bf16_start(INFINITY)));
}
END_TEST

START_TEST(test_precision_int8_is_the_nearest_ties_to_even)
{
    static const float x[] = {-254.0f, 1.0f, 3.0f, 5.0f, -1.0f, -3.0f, 0.9999f, 254.0f, -0.0f};
    static const int8_t want[] = {-127, 0, 2, 2, 0, -2, 0, 127, 0};
    float scale = cell_int8_scale(9, x);
    ck_assert(scale == 2.0f);
    for (uint32_t i = 0; i < 9; i++) {
        ck_assert_int_eq(cell_int8_of(x[i], scale), want[i]);
    }
}
END_TEST

START_TEST(test_precision_int8_of_rows_out_of_the_ordinary)
{
    const float zeros[] = {0.0f, -0.0f};
    const float least[] = {1e-45f, -1e-45f};          // a 127th of it is nothing
    const float small[] = {of_bits(190), of_bits(1)}; // a scale of 1 instead of 1.496 denormals
    const float large[] = {FLT_MAX, -FLT_MAX};
    ck_assert(cell_int8_scale(2, zeros) == 0.0f);
    ck_assert_int_eq(cell_int8_of(0.0f, 0.0f), 0);
    ck_assert(cell_int8_scale(2, least) == 0.0f);
    ck_assert_int_eq(cell_int8_of(least[0], 0.0f), 0);
    ck_assert(cell_int8_scale(2, small) == of_bits(1));
    ck_assert_int_eq(cell_int8_of(small[0], of_bits(1)), 127);
    ck_assert_int_eq(cell_int8_of(-small[0], of_bits(1)), -127);
    ck_assert_int_eq(cell_int8_of(small[1], of_bits(1)), 1);
    ck_assert(cell_int8_scale(2, large) == FLT_MAX / 127.0f);
    ck_assert_int_eq(cell_int8_of(large[1], FLT_MAX / 127.0f), -127);
    const float odd[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < 3; i++) {
        const float row[] = {1.0f, odd[i], -2.0f};
        float scale = cell_int8_scale(3, row);
        ck_assert_mem_eq(&scale, &(uint32_t){CELL_NAN_BITS}, sizeof(scale));
        ck_assert_int_eq(cell_int8_of(1.0f, scale), 0);
    }
}
END_TEST

/* A row that is not finite is NaN in all its results, and its neighbours do not notice. */
START_TEST(test_precision_int8_row_that_is_not_finite)
{
    struct build build;
    struct rig rig;
    static struct rig_chain chains[3];
    struct cell_batch_row rows[3];
    float alone[130];
    build_lstm_cell(&build, 70, 130, 5);
    build_last(&build)->precision = CELL_INT8;
    rig_init(&rig, "cpu", NULL, 0, &build.def);
    struct base_random random = util_random(6);
    for (uint32_t i = 0; i < 3; i++) {
        rig_chain_init(&chains[i], rig.type, i, 1, &random);
    }
    rows[0] = rig_chain_row(&chains[1], 1);
    struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = rows};
    rig_run(&rig, &batch);
    memcpy(alone, chains[1].outputs[0], sizeof(alone));
    float bad[] = {INFINITY, NAN};
    memcpy(chains[0].inputs[0] + 69 * sizeof(float), &bad[0], sizeof(float)); // of x
    memcpy(chains[2].init[0], &bad[1], sizeof(float));                        // of h
    batch.n_rows = 3;
    for (uint32_t i = 0; i < 3; i++) {
        rig_chain_reset(&chains[i], rig.type);
        rows[i] = rig_chain_row(&chains[i], 1);
    }
    rig_run(&rig, &batch);
    ck_assert_mem_eq(chains[1].outputs[0], alone, sizeof(alone));
    for (uint32_t i = 0; i < 130; i++) {
        const uint32_t want = CELL_NAN_BITS;
        ck_assert_mem_eq(chains[0].outputs[0] + i * sizeof(want), &want, sizeof(want));
        ck_assert_mem_eq(chains[2].outputs[0] + i * sizeof(want), &want, sizeof(want));
    }
    for (uint32_t i = 0; i < 3; i++) {
        rig_chain_release(&chains[i]);
    }
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* ---- How far from double precision ---------------------------------------------------------- */

enum { CELLS = 4, MARKS = 3, CHAINS = 3, STEPS = 1000 };
static const uint32_t marks[MARKS] = {1, 100, STEPS};

static uint32_t steps(void)
{
    return util_is_quick() ? 20 : STEPS;
}

static const char *const cells[CELLS] = {"LSTM", "GRU, reset after", "GRU, reset before", "RNN"};

/* Four times the largest that was measured after 1, 100 and 1000 steps (docs/kernels.md). */
static const double bounds[3][CELLS] = {
    [CELL_FP32] = {1.1e-6, 1.5e-6, 1.6e-6, 2.6e-6},
    [CELL_BF16] = {0.014, 0.015, 0.014, 0.022},
    [CELL_INT8] = {0.027, 0.052, 0.048, 0.064},
};

static void build_cell(struct build *build, uint32_t cell, enum cell_precision precision)
{
    static const uint32_t variants[CELLS] = {0, CELL_GRU_RESET_AFTER, CELL_GRU_RESET_BEFORE,
                                             CELL_RNN_TANH};
    const uint32_t inputs = 48;
    const uint32_t hidden = 64;
    if (cell == 0) {
        build_lstm_cell(build, inputs, hidden, 77);
    } else {
        build_init(build, 77 + cell);
        uint32_t x = build_input(build, CELL_F32, inputs);
        uint32_t h = build_state(build, CELL_F32, hidden);
        uint32_t out =
            build_gated(build, cell == 3 ? CELL_OP_RNN : CELL_OP_GRU, variants[cell], x, h, true);
        build_next(build, 0, out);
        build_output(build, out);
    }
    build_last(build)->precision = precision;
}

static void read_floats(const uint8_t *from, uint32_t n, double *to)
{
    for (uint32_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, from + i * sizeof(x), sizeof(x));
        to[i] = (double)x;
    }
}

/* Adds to worst[] what the outputs of one chain are off after so many steps. */
static void compare(const struct rig *rig, const struct rig_chain *chain, double worst[MARKS])
{
    const struct cell_def *def = &rig->type->def;
    const uint32_t inputs = def->values[0].width;
    const uint32_t hidden = def->values[def->outputs[0]].width;
    double got[64];
    struct oracle oracle;
    oracle_init(&oracle, def);
    for (uint32_t s = 0; s < def->n_states; s++) {
        read_floats(chain->init[s], def->values[1 + s].width, oracle.values[1 + s]);
    }
    for (uint32_t step = 0; step < steps(); step++) {
        read_floats(chain->inputs[0] + step * inputs * sizeof(float), inputs, oracle.values[0]);
        oracle_step(&oracle);
        read_floats(chain->outputs[0] + step * hidden * sizeof(float), hidden, got);
        for (uint32_t m = 0; m < MARKS; m++) {
            for (uint32_t i = 0; i < hidden && step + 1 == marks[m]; i++) {
                double off = fabs(got[i] - oracle.values[def->outputs[0]][i]);
                worst[m] = off <= worst[m] ? worst[m] : off; // a NaN is the worst
            }
        }
        oracle_advance(&oracle);
    }
    oracle_release(&oracle);
}

START_TEST(test_precision_sequences_stay_near_double_precision)
{
    const enum cell_precision precision = (enum cell_precision)(_i / CELLS);
    const uint32_t cell = (uint32_t)_i % CELLS;
    struct build build;
    struct rig rig;
    static struct rig_chain chains[CHAINS];
    struct cell_batch_row rows[CHAINS];
    double worst[MARKS] = {0};
    build_cell(&build, cell, precision);
    rig_init(&rig, "cpu", NULL, 0, &build.def);
    struct base_random random;
    base_random_init(&random, 1); // always the same, as the bounds are
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_init(&chains[i], rig.type, i, steps(), &random);
        rows[i] = rig_chain_row(&chains[i], steps());
    }
    struct cell_batch batch = {.n_rows = CHAINS, .steps = steps(), .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t i = 0; i < CHAINS; i++) {
        compare(&rig, &chains[i], worst);
        rig_chain_release(&chains[i]);
    }
    printf("%s, %s: %.2g %.2g %.2g\n", cell_precision_name(precision), cells[cell], worst[0],
           worst[1], worst[2]);
    for (uint32_t m = 0; m < MARKS; m++) {
        ck_assert_double_le(worst[m], bounds[precision][cell]);
    }
    rig_release(&rig);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("precision");
    TCase *tcase = tcase_create("precision");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_precision_bf16_is_the_nearest_ties_to_even);
    tcase_add_test(tcase, test_precision_bf16_sums_begin_with_what_is_no_denormal_later);
    tcase_add_test(tcase, test_precision_int8_is_the_nearest_ties_to_even);
    tcase_add_test(tcase, test_precision_int8_of_rows_out_of_the_ordinary);
    tcase_add_test(tcase, test_precision_int8_row_that_is_not_finite);
    tcase_add_loop_test(tcase, test_precision_sequences_stay_near_double_precision, 0, 3 * CELLS);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
