/* What a one-SM lane answers, under random schedules: in fp32 the bits of the scalar kernel, in
 * bf16 the definition within its bound (tests/cuda/fiber_lane_define.c); and the same bits alone
 * and in company. The emulator checks every access besides. */
#include "tests/cuda/fiber_lane.h"
#include "tests/util.h"

#include <string.h>

static const struct fiber_lane_kernel *const kernels[] = {
    &fiber_lane__f32_16, &fiber_lane__f32_64, &fiber_lane__bf16_16, &fiber_lane__bf16_64,
    &fiber_lane__bf16_128};
#define KERNELS ((int)(sizeof(kernels) / sizeof(kernels[0])))

static struct fiber_lane rig;

static void begin(const struct fiber_lane_options *options)
{
    struct fiber_options fibers;
    fiber_options_init(&fibers, options->kernel->threads);
    fibers.seed = util_seed() + options->seed;
    fiber_init(&fibers);
    fiber_lane_init(&rig, options);
}

static void check(const struct fiber_lane_options *options)
{
    begin(options);
    const char *wrong = fiber_lane_run(&rig);
    ck_assert_msg(wrong == NULL, "%u units, %u inputs, %u rows, seed %llu: %s", options->units,
                  options->inputs, options->chains, (unsigned long long)options->seed, wrong);
    fiber_lane_release(&rig);
}

static void options_of(struct fiber_lane_options *options, int i)
{
    fiber_lane_options_init(options, kernels[i % KERNELS]);
    options->kind = i / KERNELS % 2 == 0 ? CELL_SM_LSTM : CELL_SM_GRU;
    options->is_given = i / KERNELS / 2 != 0;
    options->seed = (uint64_t)i + 1;
}

/* Rows that come and go, by attention too: 1, 3, 8, 17 and 32 at a time, of the large kernels 1, 8
 * and 32. */
START_TEST(test_answers_are_as_defined)
{
    static const uint32_t rows[] = {1, 3, 8, 17, 32};
    struct fiber_lane_options options;
    options_of(&options, _i);
    const uint32_t stride = options.units == 16 ? 1 : 2;
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i += stride) {
        options.chains = rows[i];
        options.seed += 100;
        check(&options);
    }
}
END_TEST

/* Units and inputs that do not fill the kernel's tiles. */
START_TEST(test_edges_of_tiles)
{
    struct fiber_lane_options options;
    options_of(&options, _i);
    const uint32_t most = options.units;
    const uint32_t units[] = {1, most / 2 - 1, most / 2 + 1, most - 1};
    const uint32_t inputs[] = {1, 16, 17, CELL_SM_INPUTS_MAX};
    const uint32_t stride = options.units == 16 ? 1 : 2;
    for (uint32_t i = 1 % stride; i < 4; i += stride) {
        options.units = units[i];
        options.inputs = inputs[i];
        options.chains = 5;
        options.steps = 3;
        options.seed += 100;
        check(&options);
    }
}
END_TEST

/* What fills up rows and weights leaves alone sums that are not finite, and -0. */
START_TEST(test_not_finite_inputs_keep_the_scalar_bits)
{
    struct fiber_lane_options options;
    fiber_lane_options_init(&options, kernels[0]);
    options.kind = _i % 2 == 0 ? CELL_SM_LSTM : CELL_SM_GRU;
    options.units = 13;
    options.inputs = 5;
    options.is_wild = true;
    options.chains = 9;
    options.seed = (uint64_t)_i + 1;
    check(&options);
}
END_TEST

static float alone[CELL_SM_ROWS_MAX][FIBER_LANE_STEPS][FIBER_LANE_UNITS];

START_TEST(test_bits_do_not_depend_on_company)
{
    struct fiber_lane_options options;
    options_of(&options, _i);
    options.chains = 17;
    options.steps = 3;
    options.is_calm = true;
    options.is_alone = true;
    begin(&options);
    ck_assert_ptr_null(fiber_lane_run(&rig));
    for (uint32_t i = 0; i < options.chains; i++) {
        memcpy(alone[i], rig.chains[i].out, sizeof(alone[i]));
    }
    fiber_lane_release(&rig);
    options.is_alone = false;
    begin(&options);
    ck_assert_ptr_null(fiber_lane_run(&rig));
    ck_assert_uint_eq(rig.host.settled, 2); // one run, and the exit
    for (uint32_t i = 0; i < options.chains; i++) {
        ck_assert_mem_eq(alone[i], rig.chains[i].out, sizeof(alone[i]));
    }
    fiber_lane_release(&rig);
}
END_TEST

/* Many schedules of the smallest kernels. */
START_TEST(test_many_schedules)
{
    struct fiber_lane_options options;
    const uint32_t seeds = util_is_quick() ? 5 : 60;
    options_of(&options, _i * 2);
    for (uint32_t seed = 0; seed < seeds; seed++) {
        options.kind = seed % 2 == 0 ? CELL_SM_LSTM : CELL_SM_GRU;
        options.is_given = seed % 4 >= 2;
        options.chains = 1 + seed % 12;
        options.seed = 1000 + seed;
        check(&options);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_block");
    TCase *tcase = tcase_create("lane_block");
    tcase_add_loop_test(tcase, test_answers_are_as_defined, 0, 4 * KERNELS);
    tcase_add_loop_test(tcase, test_edges_of_tiles, 0, 4 * KERNELS);
    tcase_add_loop_test(tcase, test_not_finite_inputs_keep_the_scalar_bits, 0, 10);
    tcase_add_loop_test(tcase, test_bits_do_not_depend_on_company, 0, 4 * KERNELS);
    tcase_add_loop_test(tcase, test_many_schedules, 0, 2);
    suite_add_tcase(suite, tcase);
    const int status = util_run(suite);
    fiber_release();
    return status;
}
