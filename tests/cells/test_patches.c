/* LINEAR over patches of a row, and TRANSPOSE: what a convolution along an axis within a row is
 * made of; and recurrent ops over patches. Beside double precision, beside their own bits, and as a
 * part of a type's identity. */
#include "cells/backend.h"

#include "base/mem.h"
#include "tests/cells/everywhere.h"
#include "tests/cells/isa.h"
#include "tests/cells/split.h"
#include "tests/util.h"

#include <string.h>

enum { STEPS = 2 };

/* ---- Numbers -------------------------------------------------------------------------------- */

/* Of sums of more than a thousand terms more is lost. */
#define ERROR_MOST      2e-6
#define LONG_ERROR_MOST 5e-6

static void assert_everywhere(struct build *build)
{
    const struct cell_op *op = &build->def.ops[0];
    const bool is_long = op->n_weights > 0 && op->weights[0].rows > 1000;
    const struct everywhere how = {
        .members = 2, .steps = STEPS, .tolerance = is_long ? LONG_ERROR_MOST : ERROR_MOST};
    everywhere_check(&build->def, &how);
    build_release(build);
}

/* Of a row: so many patches, one behind the other by `step`, each of so many elements. Side by
 * side, overlapping, apart, one alone, and more than go through a kernel at once; sums that fill
 * cache lines, and such as do not. */
static const struct shape {
    uint32_t patches, step, inputs, outputs;
} shapes[] = {
    {1, 1, 7, 5},
    {2, 1, 1, 1},
    {4, 3, 3, 16},
    {16, 1, 9, 64},
    {7, 2, 6, 33},
    {5, 20, 4, 17},
    {150, 1, 3, 8},
    {145, 2, 5, 32},
    {9, 64, 192, 70},
    {3, 16, 1100, 130},
    // Members share the panels: of some, of more at a time than once, of more weights than both
    // read.
    {4, 192, 576, 128},
    {150, 16, 64, 32},
    {8, 64, 2304, 512},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static uint32_t row_of(const struct shape *shape)
{
    return (shape->patches - 1) * shape->step + shape->inputs;
}

START_TEST(test_patches_come_to_what_double_precision_does)
{
    const struct shape *shape = &shapes[_i];
    struct build build;
    build_init(&build, (uint64_t)_i);
    const uint32_t x = build_input(&build, CELL_F32, row_of(shape));
    build_output(&build, build_patches(&build, x, shape->patches, shape->step, shape->outputs));
    assert_everywhere(&build);
}
END_TEST

/* Without a bias, of a row that has elements behind the last patch, and of what other ops make. */
START_TEST(test_patches_of_a_part_of_a_row)
{
    struct build build;
    build_init(&build, 1);
    const uint32_t x = build_input(&build, CELL_F32, 40);
    const uint32_t y = build_op(&build, CELL_OP_TANH, x, UINT32_MAX, 40);
    const uint32_t part = build_op(&build, CELL_OP_SLICE, y, UINT32_MAX, 31);
    build_last(&build)->start = 3;
    const uint32_t out = build_patches(&build, part, 5, 6, 10);
    struct cell_op *op = build_last(&build);
    op->n_weights = 1;
    op->patches = 4; // 6 elements are no one's
    build.def.values[out].width = 40;
    build_output(&build, build_op(&build, CELL_OP_RELU, out, UINT32_MAX, 40));
    build_output(&build, out);
    assert_everywhere(&build);
}
END_TEST

/* Units that fill cache lines, and such as do not; one patch, and more than go through a kernel at
 * once; so many that members share them. */
static const struct turns {
    uint32_t patches, inputs, hidden;
} turns_of[] = {{1, 5, 7},  {3, 4, 16},  {5, 1, 9},   {2, 33, 32},
                {33, 8, 8}, {150, 3, 4}, {20, 30, 48}};
enum { TURNS = sizeof(turns_of) / sizeof(turns_of[0]) };

static const struct unit {
    enum cell_op_kind kind;
    uint32_t variant;
} units[] = {{CELL_OP_LSTM, 0},
             {CELL_OP_GRU, CELL_GRU_RESET_AFTER},
             {CELL_OP_RNN, CELL_RNN_TANH},
             {CELL_OP_RNN, CELL_RNN_RELU},
             {CELL_OP_GRU, CELL_GRU_RESET_BEFORE}}; // the last apart alone
enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* In a cell whose states the patches have: each its own, or all in turn one of which the last
 * patch's is next. */
static void build_turns_cell(struct build *build, const struct turns *of, const struct unit *unit,
                             enum cell_patch_order order, enum cell_precision precision)
{
    const bool is_apart = order == CELL_PATCHES_APART;
    const bool is_lstm = unit->kind == CELL_OP_LSTM;
    const uint32_t width = of->hidden * (is_apart ? of->patches : 1);
    const uint32_t x = build_input(build, CELL_F32, of->patches * of->inputs);
    const uint32_t h = build_state(build, CELL_F32, width);
    const uint32_t c = is_lstm ? build_state(build, CELL_F32, width) : 0;
    const struct build_turns turns = {.kind = unit->kind,
                                      .variant = unit->variant,
                                      .order = order,
                                      .patches = of->patches,
                                      .hidden = of->hidden,
                                      .x = x,
                                      .h = h,
                                      .c = c,
                                      .has_bias = of->hidden % 2 == 0};
    const uint32_t out = build_gated_patches(build, &turns);
    build_last(build)->precision = precision;
    if (is_lstm && turns.has_bias && is_apart) {
        build_peepholes(build);
    }
    build_output(build, out);
    for (uint32_t s = 0; s < (is_lstm ? 2u : 1u); s++) {
        uint32_t next = out + s;
        if (!is_apart) {
            next = build_op(build, CELL_OP_SLICE, next, UINT32_MAX, width);
            build_last(build)->start =
                order == CELL_PATCHES_FORWARD ? (of->patches - 1) * of->hidden : 0;
        }
        build_next(build, s, next);
    }
}

/* Of one patch c' is the next c where it stands. */
START_TEST(test_recurrent_patches_come_to_what_double_precision_does)
{
    const struct turns *of = &turns_of[_i % TURNS];
    const enum cell_patch_order order = (enum cell_patch_order)(_i / TURNS);
    for (uint32_t u = 0; u < (order == CELL_PATCHES_APART ? UNITS : UNITS - 1); u++) {
        struct build build;
        const bool is_relu = units[u].kind == CELL_OP_RNN && units[u].variant == CELL_RNN_RELU;
        if (is_relu && order != CELL_PATCHES_APART && of->patches > 40) {
            continue; // grows with each patch, beyond what a float holds
        }
        build_init(&build, (uint64_t)_i * UNITS + u);
        build_turns_cell(&build, of, &units[u], order, CELL_FP32);
        assert_everywhere(&build);
    }
}
END_TEST

/* A cell without a state, as of a layer along the bands of each step: constants are what it begins
 * with, and another op reads both results. */
START_TEST(test_recurrent_patches_without_a_state)
{
    for (uint32_t order = CELL_PATCHES_FORWARD; order <= CELL_PATCHES_BACKWARD; order++) {
        struct build build;
        build_init(&build, order);
        const uint32_t x = build_input(&build, CELL_F32, 6 * 10);
        const uint32_t h = build_const(&build, 20);
        const struct build_turns turns = {.kind = CELL_OP_LSTM,
                                          .order = (enum cell_patch_order)order,
                                          .patches = 6,
                                          .hidden = 20,
                                          .x = x,
                                          .h = h,
                                          .c = h};
        const uint32_t out = build_gated_patches(&build, &turns);
        build_output(&build, build_op(&build, CELL_OP_ADD, out, out + 1, 120));
        build_output(&build, out);
        assert_everywhere(&build);
    }
}
END_TEST

START_TEST(test_transpose)
{
    static const uint32_t dims[][3] = {{1, 1, 1},  {1, 7, 1},  {1, 1, 7}, {1, 3, 5},  {2, 3, 5},
                                       {3, 16, 4}, {1, 64, 9}, {5, 2, 2}, {1, 17, 33}};
    static const uint32_t blocks[] = {1, 2, 3, 16, 40};
    for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
        struct build build;
        build_init(&build, b);
        uint32_t of_floats[sizeof(dims) / sizeof(dims[0])];
        uint32_t n = 0;
        for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
            const uint32_t width = dims[i][0] * dims[i][1] * dims[i][2] * blocks[b];
            of_floats[n++] = build_input(&build, CELL_F32, width);
        }
        const uint32_t integers = build_input(&build, CELL_I64, 30 * blocks[b]);
        const uint32_t shorts = build_input(&build, CELL_I32, 30 * blocks[b]);
        for (uint32_t i = 0; i < 8; i++) { // a definition has 8 outputs at most
            (void)build_transpose(&build, of_floats[i], dims[i]);
        }
        build_output(&build, build_transpose(&build, of_floats[8], dims[8]));
        build_output(&build, build_transpose(&build, integers, dims[4]));
        build_output(&build, build_transpose(&build, shorts, dims[4]));
        for (uint32_t i = 3; i < 8; i++) {
            build_output(&build, build.def.ops[i].result);
        }
        assert_everywhere(&build);
    }
}
END_TEST

/* ---- Bits ----------------------------------------------------------------------------------- */

/* A convolution as the import writes it, of so many channels: inside a cell with a state, or in one
 * without. */
static void build_convolution(struct build *build, uint32_t channels, uint32_t outputs,
                              bool has_state, enum cell_precision precision)
{
    const uint32_t x = build_input(build, CELL_F32, 3 * 8 * channels); // taps, height, channels
    const uint32_t h = has_state ? build_state(build, CELL_F32, 20) : x;
    const uint32_t turned = build_transpose(build, x, (const uint32_t[]){1, 3, 8});
    const uint32_t out = build_patches(build, turned, 6, 3 * channels, outputs);
    build_last(build)->precision = precision;
    const uint32_t kept = build_op(build, CELL_OP_RELU, out, UINT32_MAX, 6 * outputs);
    const uint32_t back = build_transpose(build, kept, (const uint32_t[]){1, 6, outputs});
    build_output(build, back);
    if (has_state) {
        const uint32_t next = build_gated(build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, back, h, true);
        build_next(build, 0, next);
        build_output(build, next);
    }
}

/* In each precision, short ones and such as members share by panels: whatever the batch, the
 * instruction set and the team. */
START_TEST(test_patches_have_the_same_bits_everywhere)
{
    for (uint32_t p = 0; p < CELL_PRECISION_COUNT; p++) {
        for (uint32_t kind = 0; kind < 4; kind++) {
            struct build build;
            build_init(&build, p);
            build_convolution(&build, kind < 2 ? 5 : 40, kind < 2 ? 24 : 32, kind % 2 != 0,
                              (enum cell_precision)p);
            struct split_difference difference;
            const struct split_options options = {.def = &build.def,
                                                  .backend = "cpu",
                                                  .isa = isa_name(_i % ISA_COUNT),
                                                  .members = 1 + (uint32_t)_i / ISA_COUNT,
                                                  .n_chains = 12,
                                                  .steps_max = 7,
                                                  .salt = p};
            if (isa_at(_i % ISA_COUNT) != NULL) {
                ck_assert_msg(split_has_the_bits_of_one_run(&options, &difference), "%s: %s",
                              cell_precision_name((enum cell_precision)p), difference.text);
            }
            build_release(&build);
        }
    }
}
END_TEST

/* Whatever the batch, the instruction set, the team and the precision. */
START_TEST(test_recurrent_patches_have_the_same_bits_everywhere)
{
    static const struct turns shapes_of[] = {{3, 4, 9}, {5, 20, 48}};
    const uint32_t order = (uint32_t)_i / ISA_COUNT / 3;
    for (uint32_t i = 0; i < UNITS * CELL_PRECISION_COUNT * 2; i++) {
        const struct unit *unit = &units[i % UNITS];
        const enum cell_precision precision =
            (enum cell_precision)(i / UNITS % CELL_PRECISION_COUNT);
        struct build build;
        struct split_difference difference;
        build_init(&build, i);
        if (i % UNITS == UNITS - 1 && order != CELL_PATCHES_APART) {
            unit = &units[0];
        }
        build_turns_cell(&build, &shapes_of[i / UNITS / CELL_PRECISION_COUNT], unit,
                         (enum cell_patch_order)order, precision);
        const struct split_options options = {.def = &build.def,
                                              .backend = "cpu",
                                              .isa = isa_name(_i % ISA_COUNT),
                                              .members = 1 + (uint32_t)_i / ISA_COUNT % 3,
                                              .n_chains = 12,
                                              .steps_max = 7,
                                              .salt = i};
        if (isa_at(_i % ISA_COUNT) != NULL) {
            ck_assert_msg(split_has_the_bits_of_one_run(&options, &difference), "%s: %s",
                          cell_precision_name(precision), difference.text);
        }
        build_release(&build);
    }
}
END_TEST

/* ---- Identity and work ---------------------------------------------------------------------- */

static const struct cell_type *intern(struct cell_registry *registry, const struct build *build)
{
    const struct cell_type *type = NULL;
    bool is_new = false;
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(cell_registry_intern(registry, &build->def, "model/cell", &type, &is_new,
                                       &error) == BASE_OK,
                  "%s", error.message);
    return type;
}

START_TEST(test_patches_and_dims_make_another_type)
{
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    struct build build;
    build_init(&build, 1);
    const uint32_t x = build_input(&build, CELL_F32, 24);
    const uint32_t turned = build_transpose(&build, x, (const uint32_t[]){1, 4, 3});
    const uint32_t out = build_patches(&build, turned, 3, 2, 5);
    build_output(&build, out);
    const struct cell_type *first = intern(registry, &build);
    ck_assert_ptr_eq(first, intern(registry, &build));
    ck_assert_uint_eq(first->flops, 2u * 20 * 5 * 3);
    build.def.ops[1].step = 1;
    ck_assert_ptr_ne(first, intern(registry, &build));
    build.def.ops[1].step = 2;
    build.def.ops[0].dims[1] = 2;
    ck_assert_ptr_ne(first, intern(registry, &build));
    build.def.ops[0].dims[1] = 4;
    ck_assert_ptr_eq(first, intern(registry, &build));
    build_release(&build);
    cell_registry_free(registry);
}
END_TEST

START_TEST(test_the_order_of_patches_makes_another_type)
{
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    struct build build;
    build_init(&build, 1);
    build_turns_cell(&build, &turns_of[1], &units[1], CELL_PATCHES_FORWARD, CELL_FP32);
    struct cell_op *op = &build.def.ops[0];
    const struct cell_type *first = intern(registry, &build);
    ck_assert_ptr_eq(first, intern(registry, &build));
    ck_assert_uint_eq(first->flops, 3u * 2 * (4 + 16) * 3 * 16);
    op->order = CELL_PATCHES_BACKWARD;
    ck_assert_ptr_ne(first, intern(registry, &build));
    op->order = CELL_PATCHES_FORWARD;
    op->step = 7; // means nothing here
    ck_assert_ptr_eq(first, intern(registry, &build));
    build_release(&build);
    cell_registry_free(registry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("patches");
    TCase *tcase = tcase_create("patches");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_patches_come_to_what_double_precision_does, 0, SHAPES);
    tcase_add_test(tcase, test_patches_of_a_part_of_a_row);
    tcase_add_loop_test(tcase, test_recurrent_patches_come_to_what_double_precision_does, 0,
                        3 * TURNS);
    tcase_add_test(tcase, test_recurrent_patches_without_a_state);
    tcase_add_test(tcase, test_transpose);
    tcase_add_loop_test(tcase, test_patches_have_the_same_bits_everywhere, 0, 3 * ISA_COUNT);
    tcase_add_loop_test(tcase, test_recurrent_patches_have_the_same_bits_everywhere, 0,
                        3 * 3 * ISA_COUNT);
    tcase_add_test(tcase, test_patches_and_dims_make_another_type);
    tcase_add_test(tcase, test_the_order_of_patches_makes_another_type);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
