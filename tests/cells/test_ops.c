/* Every op, alone in a cell, against the double-precision oracle: both backends, every instruction
 * set, all rows of a batch. */
#include "cells/backend.h"

#include "base/mem.h"
#include "cells/ref/math.h"
#include "tests/cells/everywhere.h"
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { ROWS = 5, STEPS = 3 };

/* Releases build. */
static void assert_everywhere(struct build *build)
{
    everywhere_check(&build->def, &(struct everywhere){.steps = STEPS, .tolerance = 2e-6});
    build_release(build);
}

static const uint32_t widths[] = {1, 15, 16, 17, 33, 64, 65, 130};
enum { WIDTHS = sizeof(widths) / sizeof(widths[0]) };

/* Of all pairs of widths a quick run takes one for each of the first. */
static bool is_left_out(uint32_t first, uint32_t second)
{
    return util_is_quick() && (first + second) % WIDTHS != 0;
}

START_TEST(test_op_linear)
{
    for (uint32_t w = 0; w < WIDTHS; w++) {
        struct build build;
        build_init(&build, w);
        uint32_t x = build_input(&build, CELL_F32, widths[_i]);
        build_output(&build, build_linear(&build, x, widths[w], w % 2 == 0));
        assert_everywhere(&build);
    }
}
END_TEST

START_TEST(test_op_lstm)
{
    for (uint32_t w = 0; w < WIDTHS; w++) {
        struct build build;
        if (is_left_out((uint32_t)_i, w)) {
            continue;
        }
        build_lstm_cell(&build, widths[_i], widths[w], w);
        assert_everywhere(&build);
    }
}
END_TEST

START_TEST(test_op_lstm_without_bias_over_other_values)
{
    // x, h and c are an input, a constant and an input: none of them a state.
    struct build build;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 7);
    uint32_t c = build_input(&build, CELL_F32, 19);
    uint32_t h = build_const(&build, 19);
    uint32_t out = build_lstm(&build, x, h, c, false);
    build_output(&build, out);
    build_output(&build, out + 1);
    build_output(&build, x);
    build_output(&build, h);
    assert_everywhere(&build);
}
END_TEST

START_TEST(test_op_gru_and_rnn)
{
    static const enum cell_op_kind kinds[] = {CELL_OP_GRU, CELL_OP_RNN};
    for (uint32_t w = 0; w < WIDTHS; w++) {
        for (uint32_t k = 0; k < 4 && !is_left_out((uint32_t)_i, w); k++) {
            struct build build;
            build_init(&build, w);
            uint32_t x = build_input(&build, CELL_F32, widths[_i]);
            uint32_t h = build_state(&build, CELL_F32, widths[w]);
            uint32_t out = build_gated(&build, kinds[k / 2], k % 2, x, h, w % 2 == 0);
            build_next(&build, 0, out);
            build_output(&build, out);
            assert_everywhere(&build);
        }
    }
}
END_TEST

/* h is an input, a constant, and a result that comes before the GRU. */
START_TEST(test_op_gru_over_other_values)
{
    struct build build;
    uint32_t variant = (uint32_t)_i;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 7);
    uint32_t h = build_input(&build, CELL_F32, 19);
    uint32_t constant = build_const(&build, 19);
    uint32_t sum = build_op(&build, CELL_OP_ADD, h, constant, 19);
    build_output(&build, build_gated(&build, CELL_OP_GRU, variant, x, h, true));
    build_output(&build, build_gated(&build, CELL_OP_GRU, variant, x, constant, false));
    build_output(&build, build_gated(&build, CELL_OP_GRU, variant, x, sum, true));
    assert_everywhere(&build);
}
END_TEST

/* As many as a definition may have, each of which becomes three ops of the program: h, an input, is
 * copied first, and a reset before the product takes two ops. */
START_TEST(test_op_as_many_grus_as_there_may_be)
{
    struct build build;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 2);
    uint32_t h = build_input(&build, CELL_F32, 3);
    for (uint32_t o = 0; o < CELL_OPS_MAX; o++) {
        uint32_t out = build_gated(&build, CELL_OP_GRU, CELL_GRU_RESET_BEFORE, x, h, true);
        if (o >= CELL_OPS_MAX - CELL_OUTPUTS_MAX) {
            build_output(&build, out);
        }
    }
    assert_everywhere(&build);
}
END_TEST

/* c looks into the gates, and what comes back as h is a projection of h'. */
START_TEST(test_op_lstm_with_peepholes_and_projection)
{
    struct build build;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 6);
    uint32_t h = build_state(&build, CELL_F32, widths[_i]);
    uint32_t c = build_state(&build, CELL_F32, 18);
    uint32_t out = build_lstm(&build, x, h, c, true);
    build_peepholes(&build);
    build_next(&build, 0, build_linear(&build, out, widths[_i], false));
    build_next(&build, 1, out + 1);
    build_output(&build, out);
    assert_everywhere(&build);
}
END_TEST

START_TEST(test_op_arithmetic)
{
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, widths[_i]);
    uint32_t one = build_input(&build, CELL_F32, 1);
    uint32_t b = build_const(&build, widths[_i]);
    build_output(&build, build_op(&build, CELL_OP_ADD, a, b, widths[_i]));
    build_output(&build, build_op(&build, CELL_OP_SUB, a, b, widths[_i]));
    build_output(&build, build_op(&build, CELL_OP_MUL, a, one, widths[_i]));
    build_output(&build, build_op(&build, CELL_OP_DIV, one, a, widths[_i]));
    assert_everywhere(&build);
}
END_TEST

START_TEST(test_op_functions)
{
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, widths[_i] * 3);
    uint32_t soft = 0;
    build_output(&build, build_op(&build, CELL_OP_SIGMOID, a, UINT32_MAX, widths[_i] * 3));
    build_output(&build, build_op(&build, CELL_OP_TANH, a, UINT32_MAX, widths[_i] * 3));
    build_output(&build, build_op(&build, CELL_OP_RELU, a, UINT32_MAX, widths[_i] * 3));
    soft = build_op(&build, CELL_OP_SOFTMAX, a, UINT32_MAX, widths[_i] * 3);
    build_last(&build)->group = widths[_i];
    build_output(&build, soft);
    build_output(&build, build_op(&build, CELL_OP_LOG, soft, UINT32_MAX, widths[_i] * 3));
    soft = build_op(&build, CELL_OP_LOG_SOFTMAX, a, UINT32_MAX, widths[_i] * 3);
    build_last(&build)->group = widths[_i];
    build_output(&build, soft);
    assert_everywhere(&build);
}
END_TEST

START_TEST(test_op_angles_and_powers)
{
    const uint32_t width = widths[_i];
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, width);
    uint32_t one = build_input(&build, CELL_F32, 1);
    uint32_t size = build_op(&build, CELL_OP_ABS, build_const(&build, width), UINT32_MAX, width);
    build_output(&build, build_op(&build, CELL_OP_SIN, a, UINT32_MAX, width));
    build_output(&build, build_op(&build, CELL_OP_COS, a, UINT32_MAX, width));
    build_output(&build, build_op(&build, CELL_OP_ATAN, a, UINT32_MAX, width));
    build_output(&build, build_op(&build, CELL_OP_POW, size, a, width));
    build_output(&build, build_op(&build, CELL_OP_POW, a, one, width));
    build_output(&build, build_op(&build, CELL_OP_SIN, one, UINT32_MAX, 1));
    assert_everywhere(&build);
}
END_TEST

START_TEST(test_op_comparisons)
{
    const uint32_t width = widths[_i];
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, width);
    uint32_t one = build_input(&build, CELL_F32, 1);
    uint32_t b = build_const(&build, width);
    uint32_t less = build_op(&build, CELL_OP_LESS, a, b, width);
    uint32_t most = build_op(&build, CELL_OP_LESS_EQUAL, one, a, width);
    build_output(&build, build_op(&build, CELL_OP_MIN, a, b, width));
    build_output(&build, build_op(&build, CELL_OP_MAX, a, one, width));
    build_output(&build, less);
    build_output(&build, most);
    build_output(&build, build_select(&build, less, a, one, width));
    build_output(&build, build_select(&build, one, a, b, width));
    assert_everywhere(&build);
}
END_TEST

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* What MIN and MAX, a comparison and SELECT say, by their definition: a NaN wins, and of two that
 * are equal, as zeros of both signs are, the second. */
static void assert_pair(const float out[4], float a, float b)
{
    const bool has_nan = isnan(a) || isnan(b);
    ck_assert_uint_eq(bits_of(out[0]), has_nan ? CELL_NAN_BITS : bits_of(a < b ? a : b));
    ck_assert_uint_eq(bits_of(out[1]), has_nan ? CELL_NAN_BITS : bits_of(a > b ? a : b));
    ck_assert_uint_eq(bits_of(out[2]), bits_of(a <= b ? 1.0f : 0.0f));
    uint32_t selected = bits_of(a > 0.0f ? a : b);
    ck_assert_uint_eq(bits_of(out[3]), isnan(a > 0.0f ? a : b) ? CELL_NAN_BITS : selected);
}

/* Each of these beside each. _i: of instruction sets; behind them the card. */
START_TEST(test_op_comparisons_of_special_values)
{
    static const float special[] = {NAN,   -NAN, INFINITY, -INFINITY, 0.0f,
                                    -0.0f, 1.0f, -1.0f,    1e-42f,    -1e-42f};
    enum { N = sizeof(special) / sizeof(special[0]), WIDTH = N * N };
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    struct base_random random = util_random(1);
    const bool is_card = _i == ISA_COUNT;
    if (!is_card && isa_at(_i) == NULL) {
        return;
    }
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, WIDTH);
    uint32_t b = build_input(&build, CELL_F32, WIDTH);
    build_output(&build, build_op(&build, CELL_OP_MIN, a, b, WIDTH));
    build_output(&build, build_op(&build, CELL_OP_MAX, a, b, WIDTH));
    build_output(&build, build_op(&build, CELL_OP_LESS_EQUAL, a, b, WIDTH));
    build_output(&build, build_select(&build, a, a, b, WIDTH));
    rig_init(&rig, is_card ? "cuda-host" : "cpu", is_card ? NULL : isa_name(_i), 0, &build.def);
    rig_chain_init(&chain, rig.type, 0, 1, &random);
    for (uint32_t i = 0; i < WIDTH; i++) {
        memcpy(chain.inputs[0] + i * sizeof(float), &special[i / N], sizeof(float));
        memcpy(chain.inputs[1] + i * sizeof(float), &special[i % N], sizeof(float));
    }
    struct cell_batch_row row = rig_chain_row(&chain, 1);
    struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = &row};
    rig_run(&rig, &batch);
    for (uint32_t i = 0; i < WIDTH; i++) {
        float out[4];
        for (uint32_t o = 0; o < 4; o++) {
            memcpy(&out[o], chain.outputs[o] + i * sizeof(float), sizeof(float));
        }
        assert_pair(out, special[i / N], special[i % N]);
    }
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* Special floats, then such as are near 1, denormal, angles, of any bits. */
static void draw_floats(struct base_random *random, uint32_t n, void *to)
{
    static const float special[] = {NAN,  -NAN,   INFINITY,       -INFINITY,      0.0f,    -0.0f,
                                    1.0f, -1.0f,  1e-42f,         -1e-42f,        FLT_MIN, FLT_MAX,
                                    0.5f, 1e-45f, 0x1.6a09e6p-1f, 0x1.6a09e4p-1f, 2.0f,    -3.0f};
    enum { N = sizeof(special) / sizeof(special[0]) };
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)base_random_u64(random);
        const float angle = base_random_f32(random, -200.0f, 200.0f);
        uint32_t drawn = i % 4 == 0   ? 0x3F800000u + bits % 0x20000u - 0x10000u
                         : i % 4 == 1 ? bits & 0x007FFFFFu
                                      : bits;
        if (i % 4 == 2) {
            memcpy(&drawn, &angle, sizeof(drawn));
        }
        memcpy((char *)to + i * sizeof(float), i < N ? (const void *)&special[i] : &drawn,
               sizeof(float));
    }
}

static float float_at(const void *from, uint32_t i)
{
    float x = 0.0f;
    memcpy(&x, (const char *)from + i * sizeof(x), sizeof(x));
    return x;
}

/* Of every kind of float the bits of the scalar ones. Angles too large for vectors are in some of
 * the tiles, and in others not. _i: of instruction sets. */
START_TEST(test_op_functions_have_the_scalar_bits)
{
    static const struct {
        enum cell_op_kind kind;
        float (*scalar)(float);
    } functions[] = {{CELL_OP_LOG, cell_log_f32__scalar},
                     {CELL_OP_EXP, cell_exp_f32__scalar},
                     {CELL_OP_SIN, cell_sin_f32__scalar},
                     {CELL_OP_COS, cell_cos_f32__scalar},
                     {CELL_OP_ATAN, cell_atan_f32__scalar}};
    enum { N = sizeof(functions) / sizeof(functions[0]), WIDTH = 8195, SMALL = 4099 };
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    struct base_random random = util_random(3);
    if (isa_at(_i) == NULL) {
        return;
    }
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, WIDTH);
    uint32_t b = build_input(&build, CELL_F32, WIDTH);
    for (uint32_t f = 0; f < N; f++) {
        build_output(&build, build_op(&build, functions[f].kind, a, UINT32_MAX, WIDTH));
    }
    build_output(&build, build_op(&build, CELL_OP_POW, a, b, WIDTH));
    rig_init(&rig, "cpu", isa_name(_i), 0, &build.def);
    rig_chain_init(&chain, rig.type, 0, 1, &random);
    draw_floats(&random, WIDTH, chain.inputs[0]);
    draw_floats(&random, WIDTH, chain.inputs[1]);
    for (uint32_t i = 20; i < SMALL; i++) { // tiles without a large one
        const float angle = base_random_f32(&random, -65536.0f, 65536.0f);
        memcpy(chain.inputs[0] + i * sizeof(float), &angle, sizeof(angle));
    }
    for (uint32_t i = 0; i < 18 * 18; i++) { // each special one to the power of each
        const float x = float_at(chain.inputs[1], i / 18);
        memcpy(chain.inputs[0] + (SMALL + i) * sizeof(float), &x, sizeof(x));
        const float y = float_at(chain.inputs[1], i % 18);
        memcpy(chain.inputs[1] + (SMALL + i) * sizeof(float), &y, sizeof(y));
    }
    struct cell_batch_row row = rig_chain_row(&chain, 1);
    struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = &row};
    rig_run(&rig, &batch);
    for (uint32_t i = 0; i < WIDTH; i++) {
        const float x = float_at(chain.inputs[0], i);
        const float y = float_at(chain.inputs[1], i);
        const float power = float_at(chain.outputs[N], i);
        for (uint32_t f = 0; f < N; f++) {
            const float got = float_at(chain.outputs[f], i);
            ck_assert_msg(bits_of(got) == bits_of(functions[f].scalar(x)), "%s(%a) = %a",
                          cell_op_name(functions[f].kind), (double)x, (double)got);
        }
        ck_assert_msg(bits_of(power) == bits_of(cell_pow_f32__scalar(x, y)), "%a^%a = %a",
                      (double)x, (double)y, (double)power);
    }
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

START_TEST(test_op_roots_and_means)
{
    const uint32_t width = widths[_i];
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, width);
    uint32_t size = build_op(&build, CELL_OP_ABS, a, UINT32_MAX, width);
    uint32_t mean = build_op(&build, CELL_OP_MEAN, size, UINT32_MAX, 1);
    uint32_t scaled = build_op(&build, CELL_OP_MUL, size, build_const(&build, width), width);
    build_output(&build, size);
    build_output(&build, mean);
    build_output(&build, build_op(&build, CELL_OP_SQRT, size, UINT32_MAX, width));
    build_output(&build, build_op(&build, CELL_OP_EXP, a, UINT32_MAX, width));
    build_output(&build, build_op(&build, CELL_OP_FLOOR, scaled, UINT32_MAX, width));
    build_output(&build, build_op(&build, CELL_OP_ROUND, scaled, UINT32_MAX, width));
    build_output(&build, build_op(&build, CELL_OP_SUB, a, mean, width));
    build_output(&build, build_op(&build, CELL_OP_SQRT, mean, UINT32_MAX, 1));
    assert_everywhere(&build);
}
END_TEST

/* Of groups of one element, of fewer than the partial sums are, of more, and of all. */
START_TEST(test_op_sums_and_means_of_groups)
{
    const uint32_t width = widths[_i];
    const uint32_t groups[] = {width, 3, 33, 1};
    struct build build;
    build_init(&build, 1);
    for (uint32_t i = 0; i < 4; i++) {
        (void)build_input(&build, CELL_F32, width * groups[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t mean = build_op(&build, CELL_OP_MEAN, i, UINT32_MAX, groups[i]);
        build_last(&build)->group = width;
        build_output(&build, mean);
        build_output(&build, build_op(&build, CELL_OP_TANH, mean, UINT32_MAX, groups[i]));
        const uint32_t size = build_op(&build, CELL_OP_ABS, i, UINT32_MAX, width * groups[i]);
        build_output(&build, build_op(&build, CELL_OP_SUM, size, UINT32_MAX, groups[i]));
        build_last(&build)->group = width;
    }
    assert_everywhere(&build);
}
END_TEST

/* Of equal elements the first, of NaNs the first, wherever they stand; in both kinds of integers.
 */
START_TEST(test_op_argmax)
{
    const uint32_t width = widths[_i];
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, width);
    uint32_t flat = build_op(&build, CELL_OP_FLOOR, a, UINT32_MAX, width); // many are equal
    uint32_t odd = build_op(&build, CELL_OP_SQRT, a, UINT32_MAX, width);   // many are NaN
    const uint32_t of[] = {a, flat, odd};
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t number = build_op(&build, CELL_OP_ARGMAX, of[i], UINT32_MAX, 1);
            build.def.values[number].dtype = k == 0 ? CELL_I64 : CELL_I32;
            build_output(&build, build_op(&build, CELL_OP_CAST, number, UINT32_MAX, 1));
        }
    }
    assert_everywhere(&build);
}
END_TEST

/* From one element to all of them, each with its number. */
static void add_top(struct build *build, uint32_t of, uint32_t variant, uint32_t k)
{
    uint32_t numbers = build_op(build, CELL_OP_TOP, of, UINT32_MAX, k);
    build->def.values[numbers].dtype = CELL_I64;
    build_last(build)->variant = variant;
    build_output(build, numbers);
    build_output(build, build_op(build, CELL_OP_TAKE, of, numbers, k));
}

/* Many equal elements, many NaN, as test_op_argmax. */
START_TEST(test_op_top)
{
    const uint32_t width = widths[_i];
    for (uint32_t way = 0; way < 3; way++) {
        struct build build;
        build_init(&build, way);
        uint32_t of = build_input(&build, CELL_F32, width);
        if (way > 0) {
            of = build_op(&build, way == 1 ? CELL_OP_FLOOR : CELL_OP_SQRT, of, UINT32_MAX, width);
        }
        add_top(&build, of, CELL_TOP_LARGEST, (width + 2) / 3);
        add_top(&build, of, CELL_TOP_SMALLEST, (width + 1) / 2);
        add_top(&build, of, CELL_TOP_LARGEST, width);
        assert_everywhere(&build);
    }
}
END_TEST

/* Elements by constant numbers, some of them more than once. */
START_TEST(test_op_take)
{
    const uint32_t width = widths[_i];
    struct build build;
    build_init(&build, 3);
    const uint32_t x = build_input(&build, CELL_F32, width);
    const uint32_t twice = build_op(&build, CELL_OP_ADD, x, x, width);
    const uint32_t of[] = {x, twice};
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t n = 1; n <= 2 * width; n += width) {
            const uint32_t numbers = build_numbers(&build, n, width);
            build_output(&build, build_op(&build, CELL_OP_TAKE, of[i], numbers, n));
        }
    }
    assert_everywhere(&build);
}
END_TEST

/* ---- Chains of element-wise ops ------------------------------------------------------------- */

START_TEST(test_op_moves)
{
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, widths[_i] + 2);
    uint32_t id = build_input(&build, CELL_I32, 1);
    uint32_t slice = build_op(&build, CELL_OP_SLICE, a, UINT32_MAX, widths[_i]);
    build_last(&build)->start = 1;
    uint32_t row = build_gather(&build, id, 10, widths[_i]);
    uint32_t copy = build_op(&build, CELL_OP_COPY, row, UINT32_MAX, widths[_i]);
    build_output(&build, build_concat(&build, 3, (const uint32_t[]){slice, row, a}));
    build_output(&build, copy);
    assert_everywhere(&build);
}
END_TEST

/* Of elements and of pairs; dimensions around the blocks in which elements are moved. */
START_TEST(test_op_transposes)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 9, 37};
    const uint32_t n = sizeof(sizes) / sizeof(sizes[0]);
    for (uint32_t i = 0; i < 2 * n; i++) {
        const uint32_t dims[3] = {1 + i % 3, sizes[_i], sizes[i / 2]};
        struct build build;
        build_init(&build, 21);
        const uint32_t width = dims[0] * dims[1] * dims[2] * (1 + i % 2);
        const uint32_t x = build_input(&build, CELL_F32, width);
        build_output(&build, build_transpose(&build, x, dims));
        assert_everywhere(&build);
    }
}
END_TEST

/* Alone, and read again by element-wise ops: parts of one element and more, of a row's one element,
 * rows beyond a tile. */
START_TEST(test_op_spreads)
{
    static const uint32_t dims[][3] = {{1, 5, 3},   {7, 1, 1},   {4, 3, 1},   {1, 1, 1},
                                       {1, 9, 1},   {3, 16, 1},  {37, 19, 1}, {1, 33, 17},
                                       {5, 40, 3},  {64, 16, 1}, {1, 64, 16}, {3, 7, 64},
                                       {2, 3, 300}, {300, 2, 1}, {1, 2, 1000}};
    struct build build;
    build_init(&build, 22);
    const uint32_t width = dims[_i][0] * dims[_i][2];
    const uint32_t all = width * dims[_i][1];
    const uint32_t x = build_input(&build, CELL_F32, width);
    const uint32_t y = build_input(&build, CELL_F32, all);
    const uint32_t one = build_input(&build, CELL_F32, 1);
    const uint32_t longs = build_input(&build, CELL_I64, width);
    const uint32_t turned[3] = {1, all, 1};
    const uint32_t spread = build_spread(&build, x, dims[_i]);
    const uint32_t ones = build_spread(&build, one, turned);
    uint32_t product = build_op(&build, CELL_OP_MUL, spread, y, all);
    product = build_op(&build, CELL_OP_SUB, ones, product, all);
    product = build_op(&build, CELL_OP_ADD, product, spread, all);
    build_output(&build, build_op(&build, CELL_OP_TANH, product, UINT32_MAX, all));
    build_output(&build, build_op(&build, CELL_OP_MUL, spread, spread, all));
    const uint32_t shown = build_spread(&build, x, dims[_i]);
    build_output(&build, shown);
    build_output(&build, build_op(&build, CELL_OP_ADD, shown, y, all));
    build_output(&build, build_spread(&build, longs, dims[_i]));
    assert_everywhere(&build);
}
END_TEST

START_TEST(test_op_casts)
{
    struct build build;
    build_init(&build, 1);
    uint32_t a = build_input(&build, CELL_F32, 9);
    uint32_t b = build_input(&build, CELL_I32, 9);
    uint32_t c = build_input(&build, CELL_I64, 9);
    build_output(&build, build_cast(&build, a, CELL_I64));
    build_output(&build, build_cast(&build, a, CELL_I32));
    build_output(&build, build_cast(&build, a, CELL_F32));
    build_output(&build, build_cast(&build, b, CELL_F32));
    build_output(&build, build_cast(&build, b, CELL_I64));
    build_output(&build, build_cast(&build, c, CELL_F32));
    build_output(&build, build_cast(&build, c, CELL_I32));
    assert_everywhere(&build);
}
END_TEST

/* The row of an embedding that an LSTM, a GRU and an RNN read, and another op too. */
START_TEST(test_op_gated_over_an_embedding)
{
    struct build build;
    build_init(&build, 1);
    uint32_t id = build_input(&build, CELL_I64, 1);
    uint32_t h = build_state(&build, CELL_F32, widths[_i]);
    uint32_t c = build_state(&build, CELL_F32, widths[_i]);
    uint32_t row = build_gather(&build, id, 10, widths[_i] + 3);
    uint32_t lstm = build_lstm(&build, row, h, c, true);
    uint32_t before = build_gated(&build, CELL_OP_GRU, CELL_GRU_RESET_BEFORE, row, h, _i % 2 == 0);
    uint32_t after = build_gated(&build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, row, h, true);
    uint32_t rnn = build_gated(&build, CELL_OP_RNN, CELL_RNN_TANH, row, h, false);
    build_next(&build, 0, lstm);
    build_next(&build, 1, lstm + 1);
    build_output(&build, before);
    build_output(&build, after);
    build_output(&build, rnn);
    build_output(&build, build_op(&build, CELL_OP_TANH, row, UINT32_MAX, widths[_i] + 3));
    assert_everywhere(&build);
}
END_TEST

/* What does not depend on the state is computed ahead, unless it is as cheap as reading it again.
 */
START_TEST(test_op_of_inputs_computed_ahead)
{
    struct build build;
    build_own_cell(&build, 3 + widths[_i], widths[_i], 1);
    assert_everywhere(&build);
}
END_TEST

/* States that swap, stand still, count and are fed from an input, next to one another. */
START_TEST(test_op_states_move_together)
{
    struct build build;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 6);
    uint32_t a = build_state(&build, CELL_F32, 6);
    uint32_t b = build_state(&build, CELL_F32, 6);
    uint32_t still = build_state(&build, CELL_F32, 6);
    uint32_t sum = build_state(&build, CELL_F32, 6);
    uint32_t next = build_op(&build, CELL_OP_ADD, sum, x, 6);
    build_next(&build, 0, b);
    build_next(&build, 1, a);
    build_next(&build, 3, next);
    build_output(&build, a);
    build_output(&build, still);
    build_output(&build, sum);
    build_output(&build, next);
    assert_everywhere(&build);
}
END_TEST

/* One result becomes two states, and c is read by more than the LSTM. */
START_TEST(test_op_lstm_states_shared)
{
    struct build build;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 6);
    uint32_t h = build_state(&build, CELL_F32, 18);
    uint32_t c = build_state(&build, CELL_F32, 18);
    (void)build_state(&build, CELL_F32, 18);
    uint32_t lstm = build_lstm(&build, x, h, c, true);
    uint32_t gain = build_op(&build, CELL_OP_SUB, lstm + 1, c, 18);
    build_next(&build, 0, lstm);
    build_next(&build, 1, lstm + 1);
    build_next(&build, 2, lstm + 1);
    build_output(&build, gain);
    assert_everywhere(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops");
    TCase *tcase = tcase_create("ops");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_op_linear, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_lstm, 0, WIDTHS);
    tcase_add_test(tcase, test_op_lstm_without_bias_over_other_values);
    tcase_add_loop_test(tcase, test_op_gru_and_rnn, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_gru_over_other_values, 0, 2);
    tcase_add_test(tcase, test_op_as_many_grus_as_there_may_be);
    tcase_add_loop_test(tcase, test_op_lstm_with_peepholes_and_projection, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_arithmetic, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_functions, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_angles_and_powers, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_comparisons, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_comparisons_of_special_values, 0, ISA_COUNT + 1);
    tcase_add_loop_test(tcase, test_op_functions_have_the_scalar_bits, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_op_roots_and_means, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_sums_and_means_of_groups, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_argmax, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_top, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_take, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_moves, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_transposes, 0, 6);
    tcase_add_loop_test(tcase, test_op_spreads, 0, 15);
    tcase_add_test(tcase, test_op_casts);
    tcase_add_loop_test(tcase, test_op_gated_over_an_embedding, 0, WIDTHS);
    tcase_add_loop_test(tcase, test_op_of_inputs_computed_ahead, 0, WIDTHS);
    tcase_add_test(tcase, test_op_states_move_together);
    tcase_add_test(tcase, test_op_lstm_states_shared);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
