/* Products in fewer bits (enum cell_products) on the CUDA device over a host's driver: what is
 * rounded and to what, how far answers are from double precision, and that a row's bits are its
 * own. */
#include "base/mem.h"
#include "cells/cuda/round.h"
#include "tests/cells/oracle.h"
#include "tests/cells/rig.h"
#include "tests/cuda/driver_host.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

/* ---- What is rounded ------------------------------------------------------------------------ */

/* To so many significant bits, ties to even; of numbers a float is exact about. */
static float nearest(float x, int bits)
{
    int exponent = 0;
    const double fraction = frexp((double)x, &exponent);
    return (float)ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* Every sign, exponent and upper bit, below, at and above what is dropped is worth. */
START_TEST(test_tf32_is_the_nearest_ties_to_even)
{
    static const uint32_t lower[] = {0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF};
    uint32_t wrong = 0;
    for (uint32_t upper = 0; upper < 1u << 19; upper++) {
        for (size_t i = 0; i < sizeof(lower) / sizeof(lower[0]); i++) {
            const float x = of_bits(upper << 13 | lower[i]);
            if (isnormal(x)) {
                wrong += bits_of(cell_tf32_round(x)) != bits_of(nearest(x, 11));
            }
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(bits_of(cell_tf32_round(of_bits(0x7F7FFFFFu))), 0x7F800000u);
    ck_assert_uint_eq(bits_of(cell_tf32_round(-INFINITY)), 0xFF800000u);
    ck_assert_uint_eq(bits_of(cell_tf32_round(of_bits(0xFF800001u))), 0xFFC00000u);
    ck_assert_uint_eq(bits_of(cell_tf32_round(of_bits(0x80001000u))), 0x80000000u);
    ck_assert_uint_eq(bits_of(cell_tf32_round(of_bits(0x00003000u))), 0x00004000u);
}
END_TEST

START_TEST(test_two_bf16_hold_sixteen_bits)
{
    struct base_random random = util_random(3);
    for (uint32_t i = 0; i < 100000; i++) {
        const float x = base_random_f32(&random, -3.0f, 3.0f);
        const uint16_t high = cell_bf16_round(x);
        const float both = cell_bf16_widen(high) + cell_bf16_widen(cell_bf16_lost(x, high));
        ck_assert(fabsf(x - both) <= ldexpf(fabsf(x), -16));
    }
    ck_assert_uint_eq(cell_bf16_lost(INFINITY, cell_bf16_round(INFINITY)), 0);
    ck_assert_uint_eq(cell_bf16_lost(NAN, cell_bf16_round(NAN)), 0);
    const float largest = of_bits(0x7F7FFFFFu); // its high half is infinite
    ck_assert_uint_eq(cell_bf16_lost(largest, cell_bf16_round(largest)), 0);
}
END_TEST

/* ---- A product's bits ----------------------------------------------------------------------- */

enum { IN = 37, OUT = 21 };

/* Adds terms of factors a and w, whose parts are to be found by number. */
static float add_terms(float sum, const float a[IN], const float *w, uint32_t column)
{
    for (uint32_t k = 0; k < IN; k++) {
        sum = fmaf(a[k], w[k * OUT + column], sum);
    }
    return sum;
}

static void split(const float *from, uint32_t n, float *high, float *lost)
{
    for (uint32_t i = 0; i < n; i++) {
        high[i] = nearest(from[i], 8);
        lost[i] = nearest(from[i] - high[i], 8);
    }
}

static float wanted_of(enum cell_products products, const float x[IN], const struct cell_op *op,
                       uint32_t column)
{
    float a[2][IN];
    float w[2][IN * OUT];
    const float *weights = op->weights[0].data;
    const float bias = ((const float *)op->weights[1].data)[column];
    if (products == CELL_PRODUCTS_FP32 || products == CELL_PRODUCTS_TF32) {
        const int bits = products == CELL_PRODUCTS_FP32 ? 24 : 11;
        for (uint32_t i = 0; i < IN * OUT; i++) {
            a[0][i % IN] = nearest(x[i % IN], bits);
            w[0][i] = nearest(weights[i], bits);
        }
        return add_terms(bias, a[0], w[0], column);
    }
    split(x, IN, a[0], a[1]);
    split(weights, IN * OUT, w[0], w[1]);
    const float sum = add_terms(bias, a[0], w[0], column);
    return products == CELL_PRODUCTS_BF16
               ? sum
               : add_terms(add_terms(sum, a[0], w[1], column), a[1], w[0], column);
}

START_TEST(test_a_product_has_the_bits_that_are_written_down)
{
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    struct base_random random = util_random(11);
    build_init(&build, 8);
    build_output(&build, build_linear(&build, build_input(&build, CELL_F32, IN), OUT, true));
    build.def.products = (enum cell_products)_i;
    rig_init(&rig, "cuda-host", NULL, 0, &build.def);
    rig_chain_init(&chain, rig.type, 0, 1, &random);
    struct cell_batch_row row = rig_chain_row(&chain, 1);
    struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = &row};
    rig_run(&rig, &batch);
    const float *x = (const float *)(const void *)chain.inputs[0];
    const float *y = (const float *)(const void *)chain.outputs[0];
    for (uint32_t c = 0; c < OUT; c++) {
        ck_assert_uint_eq(bits_of(y[c]),
                          bits_of(wanted_of(build.def.products, x, build.def.ops, c)));
    }
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* ---- How far from double precision ---------------------------------------------------------- */

enum { CELLS = 3, MARKS = 3, CHAINS = 3, STEPS = 1000, HIDDEN = 64 };
static const uint32_t marks[MARKS] = {1, 100, STEPS};

static const char *const cells[CELLS] = {"LSTM", "GRU, reset after", "GRU, reset before"};

/* GPU.md's gates are those of 100 steps; they are kept at all marks. */
static const double gates[CELL_PRODUCTS_COUNT] = {1e-5, 4e-3, 2e-2, 1e-4};

static void build_cell(struct build *build, uint32_t cell, enum cell_products products)
{
    if (cell == 0) {
        build_lstm_cell(build, HIDDEN, HIDDEN, 77);
    } else {
        build_init(build, 77 + cell);
        const uint32_t x = build_input(build, CELL_F32, HIDDEN);
        const uint32_t h = build_state(build, CELL_F32, HIDDEN);
        const uint32_t out =
            build_gated(build, CELL_OP_GRU,
                        cell == 1 ? CELL_GRU_RESET_AFTER : CELL_GRU_RESET_BEFORE, x, h, true);
        build_next(build, 0, out);
        build_output(build, out);
    }
    build->def.products = products;
}

static void read_floats(const uint8_t *from, uint32_t n, double *to)
{
    for (uint32_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, from + i * sizeof(x), sizeof(x));
        to[i] = (double)x;
    }
}

static uint32_t steps(void)
{
    return util_is_quick() ? 20 : STEPS;
}

/* Adds to worst[] what h of one chain is off after so many steps. */
static void compare(const struct cell_def *def, const struct rig_chain *chain, double worst[MARKS])
{
    double got[HIDDEN];
    struct oracle oracle;
    oracle_init(&oracle, def);
    for (uint32_t s = 0; s < def->n_states; s++) {
        read_floats(chain->init[s], HIDDEN, oracle.values[1 + s]);
    }
    for (uint32_t step = 0; step < steps(); step++) {
        read_floats(chain->inputs[0] + step * HIDDEN * sizeof(float), HIDDEN, oracle.values[0]);
        oracle_step(&oracle);
        read_floats(chain->outputs[0] + step * HIDDEN * sizeof(float), HIDDEN, got);
        for (uint32_t m = 0; m < MARKS; m++) {
            for (uint32_t i = 0; i < HIDDEN && step + 1 == marks[m]; i++) {
                const double off = fabs(got[i] - oracle.values[def->outputs[0]][i]);
                worst[m] = off <= worst[m] ? worst[m] : off; // a NaN is the worst
            }
        }
        oracle_advance(&oracle);
    }
    oracle_release(&oracle);
}

static void measure(const char *backend, const struct cell_def *def, double worst[MARKS])
{
    static struct rig_chain chains[CHAINS];
    struct cell_batch_row rows[CHAINS];
    struct rig rig;
    struct base_random random;
    rig_init(&rig, backend, NULL, 0, def);
    base_random_init(&random, 1); // always the same, as the gates are
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_init(&chains[i], rig.type, i, steps(), &random);
        rows[i] = rig_chain_row(&chains[i], steps());
    }
    struct cell_batch batch = {.n_rows = CHAINS, .steps = steps(), .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t i = 0; i < CHAINS; i++) {
        compare(def, &chains[i], worst);
        rig_chain_release(&chains[i]);
    }
    rig_release(&rig);
}

/* Each stays within its gate, and is not more exact than it can be: then nothing was rounded. */
START_TEST(test_h_stays_near_double_precision)
{
    static const char *const backends[] = {"cuda-host", "cuda-host-library"};
    static const double least[CELL_PRODUCTS_COUNT] = {0, 3e-5, 3e-4, 1e-7};
    const uint32_t cell = (uint32_t)_i % CELLS;
    const enum cell_products products = (enum cell_products)(_i / CELLS);
    struct build build;
    build_cell(&build, cell, products);
    for (uint32_t b = 0; b < 2; b++) {
        double worst[MARKS] = {0};
        measure(backends[b], &build.def, worst);
        printf("%s %s %s: %.2g %.2g %.2g\n", cells[cell], cell_products_name(products), backends[b],
               worst[0], worst[1], worst[2]);
        for (uint32_t m = 0; m < MARKS; m++) {
            ck_assert_double_le(worst[m], gates[products]);
        }
        ck_assert_double_ge(worst[0], least[products]);
    }
    build_release(&build);
}
END_TEST

/* ---- A row among others --------------------------------------------------------------------- */

enum { LONE_STEPS = 9, COMPANY = 21 };

/* The first of many rows, and alone: the same bits. */
START_TEST(test_a_row_has_its_bits_in_any_company)
{
    static struct rig_chain chains[COMPANY];
    struct cell_batch_row rows[COMPANY];
    struct build build;
    struct rig rig;
    struct base_random random = util_random(17);
    build_cell(&build, (uint32_t)_i % CELLS, (enum cell_products)(1 + _i / CELLS));
    rig_init(&rig, "cuda-host", NULL, 0, &build.def);
    for (uint32_t i = 0; i < COMPANY; i++) {
        rig_chain_init(&chains[i], rig.type, i, LONE_STEPS, &random);
        rows[i] = rig_chain_row(&chains[i], LONE_STEPS);
    }
    struct cell_batch batch = {.n_rows = COMPANY, .steps = LONE_STEPS, .rows = rows};
    rig_run(&rig, &batch);
    const size_t bytes = LONE_STEPS * HIDDEN * sizeof(float);
    for (uint32_t i = 0; i < COMPANY; i += COMPANY - 1) {
        uint8_t *kept = rig_copy(chains[i].outputs[0], bytes);
        rig_chain_reset(&chains[i], rig.type);
        rows[0] = rig_chain_row(&chains[i], LONE_STEPS);
        batch = (struct cell_batch){.n_rows = 1, .steps = LONE_STEPS, .rows = rows};
        rig_run(&rig, &batch);
        ck_assert_mem_eq(chains[i].outputs[0], kept, bytes);
        base_free(kept);
    }
    for (uint32_t i = 0; i < COMPANY; i++) {
        rig_chain_release(&chains[i]);
    }
    rig_release(&rig);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
    build_release(&build);
}
END_TEST

/* ---- Others --------------------------------------------------------------------------------- */

/* A CPU multiplies in fp32 whatever is asked for: more exactly. */
START_TEST(test_a_cpu_multiplies_in_fp32)
{
    double worst[2][MARKS] = {{0}};
    for (uint32_t p = 0; p < 2; p++) {
        struct build build;
        build_cell(&build, 0, p == 0 ? CELL_PRODUCTS_FP32 : CELL_PRODUCTS_BF16);
        measure("cpu", &build.def, worst[p]);
        build_release(&build);
    }
    ck_assert_mem_eq(worst[0], worst[1], sizeof(worst[0]));
    ck_assert_double_le(worst[1][0], gates[CELL_PRODUCTS_FP32]);
}
END_TEST

/* A factor of two products is rounded once: GRU's h, and the explanation tells of it. */
START_TEST(test_a_factor_is_rounded_once)
{
    struct build build;
    struct rig rig;
    struct base_buf text;
    build_cell(&build, 1, CELL_PRODUCTS_BF16X3);
    rig_init(&rig, "cuda-host-library", NULL, 0, &build.def);
    base_buf_init(&text, 4096);
    rig.backend->type_explain(rig.device, rig.type, &text);
    uint32_t rounded = 0;
    for (const char *at = text.data; (at = strstr(at, "  round ")) != NULL; at++) {
        rounded++;
    }
    ck_assert_uint_eq(rounded, 2); // x, and h for both of its products
    ck_assert_ptr_nonnull(strstr(text.data, ", 192 x 128 bf16, by the library"));
    base_buf_release(&text);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* Loading: every allocation of the host's that fails is reported, and nothing is left. */
START_TEST(test_every_failed_allocation_is_reported)
{
    struct build build;
    struct rig rig;
    struct base_error error;
    build_cell(&build, 0, CELL_PRODUCTS_BF16X3);
    rig_init(&rig, "cuda-host", NULL, 0, &build.def);
    rig.backend->type_unload(rig.device, rig.type);
    uint64_t failed = 0;
    for (uint64_t n = 1;; n++) {
        base_alloc_fail_at(n);
        const enum base_status status = rig.backend->type_load(rig.device, rig.type, &error);
        base_alloc_fail_at(0);
        if (status == BASE_OK) {
            break;
        }
        ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
        failed++;
    }
    ck_assert_uint_ge(failed, 5);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* A product with infinity would be NaN at the first zero. */
START_TEST(test_a_weight_that_rounds_to_infinity_is_refused)
{
    struct build build;
    struct rig rig;
    struct base_error error = {BASE_OK, ""};
    build_cell(&build, 0, (enum cell_products)_i);
    rig_init(&rig, "cuda-host", NULL, 0, &build.def);
    rig.backend->type_unload(rig.device, rig.type);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the definition's weights are const
    float *first = (float *)(uintptr_t)rig.type->def.ops[0].weights[0].data;
    const float kept = *first;
    *first = of_bits(0x7F7FFFFFu);
    const bool is_refused = _i != CELL_PRODUCTS_FP32;
    ck_assert_int_eq(rig.backend->type_load(rig.device, rig.type, &error),
                     is_refused ? BASE_INVALID_ARGUMENT : BASE_OK);
    ck_assert_str_eq(error.message, _i == CELL_PRODUCTS_BF16   ? "a weight is not finite in bf16"
                                    : _i == CELL_PRODUCTS_TF32 ? "a weight is not finite in tf32"
                                    : is_refused               ? "a weight is not finite in bf16x3"
                                                               : "");
    *first = kept;
    if (is_refused) {
        ck_assert_int_eq(rig.backend->type_load(rig.device, rig.type, &error), BASE_OK);
    }
    rig_release(&rig);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_products");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, test_tf32_is_the_nearest_ties_to_even);
    tcase_add_test(tcase, test_two_bf16_hold_sixteen_bits);
    tcase_add_loop_test(tcase, test_a_product_has_the_bits_that_are_written_down, 0,
                        CELL_PRODUCTS_COUNT);
    tcase_add_loop_test(tcase, test_h_stays_near_double_precision, 0, CELL_PRODUCTS_COUNT * CELLS);
    tcase_add_loop_test(tcase, test_a_row_has_its_bits_in_any_company, 0,
                        (CELL_PRODUCTS_COUNT - 1) * CELLS);
    tcase_add_test(tcase, test_a_cpu_multiplies_in_fp32);
    tcase_add_test(tcase, test_a_factor_is_rounded_once);
    tcase_add_test(tcase, test_every_failed_allocation_is_reported);
    tcase_add_loop_test(tcase, test_a_weight_that_rounds_to_infinity_is_refused, 0,
                        CELL_PRODUCTS_COUNT);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
