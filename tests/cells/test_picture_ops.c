/* LINEAR over the places of a picture (cells/op.h, struct cell_picture), and FILTER: beside
 * convolutions and pools in double precision, beside their own bits, as a part of a type's
 * identity, and what does not fit. */
#include "cells/backend.h"

#include "tests/cells/everywhere.h"
#include "tests/cells/isa.h"
#include "tests/cells/split.h"
#include "tests/util.h"

#include <string.h>

enum { STEPS = 2 };

static const struct shape {
    struct cell_picture picture;
    uint32_t channels, outputs;
} shapes[] = {
    // One place; all of one line; strides and taps that differ; dilations; padding alone.
    {{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, 3, 5},
    {{{5, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {5, 7}}, 2, 8},
    {{{5, 7}, {1, 7}, {1, 1}, {1, 1}, {0, 0}, {5, 1}}, 4, 17},
    {{{6, 5}, {2, 3}, {1, 1}, {3, 2}, {1, 0}, {2, 2}}, 1, 16},
    {{{8, 6}, {3, 2}, {2, 3}, {1, 1}, {2, 0}, {6, 3}}, 3, 33},
    {{{3, 3}, {2, 2}, {1, 1}, {4, 4}, {4, 4}, {3, 3}}, 2, 4},
    {{{2, 2}, {7, 5}, {1, 1}, {1, 1}, {3, 2}, {2, 2}}, 5, 6},
    // More than go through a kernel at once; such as members share, of whole lines and not.
    {{{13, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {13, 11}}, 3, 16},
    {{{13, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {13, 11}}, 4, 21},
    // Of many terms, so that few places are gathered at once.
    {{{4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {4, 4}}, 700, 24},
    // Read where they stand: each place once, some of them, lines of taps.
    {{{9, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {9, 9}}, 3, 70},
    {{{9, 9}, {1, 1}, {1, 1}, {2, 3}, {0, 0}, {5, 3}}, 5, 30},
    {{{12, 10}, {3, 4}, {2, 1}, {2, 2}, {0, 0}, {4, 4}}, 2, 100},
    // Padding that is wider than what is read.
    {{{4, 3}, {2, 2}, {1, 1}, {1, 1}, {6, 5}, {3, 3}}, 2, 9},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static uint32_t width_of(const struct shape *shape)
{
    return shape->picture.size[0] * shape->picture.size[1] * shape->channels;
}

static uint32_t terms_of(const struct shape *shape)
{
    return shape->picture.taps[0] * shape->picture.taps[1] * shape->channels;
}

static void build_shape(struct build *build, const struct shape *shape)
{
    const uint32_t x = build_input(build, CELL_F32, width_of(shape));
    build_output(build, build_picture(build, x, &shape->picture, shape->outputs));
}

START_TEST(test_places_come_to_what_double_precision_does)
{
    const struct shape *shape = &shapes[_i];
    struct build build;
    build_init(&build, (uint64_t)_i);
    build_shape(&build, shape);
    const struct everywhere how = {
        .members = 2, .steps = STEPS, .tolerance = terms_of(shape) > 1000 ? 1e-5 : 2e-6};
    everywhere_check(&build.def, &how);
    build_release(&build);
}
END_TEST

/* Sums with a bias and without, and the largest. */
START_TEST(test_filters_come_to_what_double_precision_does)
{
    const struct shape *shape = &shapes[_i / 3];
    const uint32_t way = (uint32_t)_i % 3;
    struct build build;
    build_init(&build, (uint64_t)_i);
    const uint32_t x = build_input(&build, CELL_F32, width_of(shape));
    build_output(&build, build_filter(&build, x, &shape->picture,
                                      way == 2 ? CELL_FILTER_LARGEST : CELL_FILTER_SUM, way == 0));
    const struct everywhere how = {.members = 2, .steps = STEPS, .tolerance = 2e-6};
    everywhere_check(&build.def, &how);
    build_release(&build);
}
END_TEST

/* Within a cell: behind other ops, before a RELU, and as a part of the state. */
static void build_cell(struct build *build, const struct shape *shape,
                       enum cell_precision precision)
{
    const uint32_t x = build_input(build, CELL_F32, width_of(shape));
    const uint32_t h = build_state(build, CELL_F32, 20);
    const uint32_t bent = build_op(build, CELL_OP_TANH, x, UINT32_MAX, width_of(shape));
    const uint32_t out = build_picture(build, bent, &shape->picture, shape->outputs);
    build_last(build)->precision = precision;
    const uint32_t bent_again =
        build_op(build, CELL_OP_RELU, out, UINT32_MAX, build->def.values[out].width);
    const struct cell_picture after = {
        .size = {shape->picture.left[0], shape->picture.left[1]},
        .taps = {2, 3},
        .dilations = {1, 1},
        .strides = {2, 1},
        .before = {1, 1},
        .left = {1 + shape->picture.left[0] / 2, shape->picture.left[1]}};
    const uint32_t sums = build_filter(build, bent_again, &after, CELL_FILTER_SUM, true);
    const struct cell_picture last = {.size = {after.left[0], after.left[1]},
                                      .taps = {2, 2},
                                      .dilations = {1, 1},
                                      .strides = {1, 1},
                                      .left = {after.left[0], after.left[1]}};
    const uint32_t kept = build_filter(build, sums, &last, CELL_FILTER_LARGEST, false);
    const uint32_t next = build_gated(build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, kept, h, true);
    build_next(build, 0, next);
    build_output(build, kept);
    build_output(build, next);
}

/* In each precision, whatever the batch, the instruction set and the team. */
START_TEST(test_places_have_the_same_bits_everywhere)
{
    static const uint32_t some[] = {1, 3, 4, 7, 8};
    for (uint32_t i = 0; i < CELL_PRECISION_COUNT * 5; i++) {
        const enum cell_precision precision = (enum cell_precision)(i / 5);
        struct build build;
        struct split_difference difference;
        build_init(&build, i);
        build_cell(&build, &shapes[some[i % 5]], precision);
        const struct split_options options = {.def = &build.def,
                                              .backend = "cpu",
                                              .isa = isa_name(_i % ISA_COUNT),
                                              .members = 1 + (uint32_t)_i / ISA_COUNT,
                                              .n_chains = 7,
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

/* Whether a cell without a state has the bits of the scalar kernels; _i: isa and members. */
static void check_bits(const struct build *build, int i, uint64_t salt)
{
    struct split_difference difference;
    const struct split_options options = {.def = &build->def,
                                          .isa = isa_name(i % ISA_COUNT),
                                          .members = 1 + (uint32_t)i / ISA_COUNT,
                                          .n_chains = 7,
                                          .steps_max = 3,
                                          .salt = salt};
    if (isa_at(i % ISA_COUNT) != NULL) {
        ck_assert_msg(split_has_the_bits_of_one_run(&options, &difference), "%llu: %s",
                      (unsigned long long)salt, difference.text);
    }
}

/* Patches that are as many as places, apart, behind each other and over each other. */
START_TEST(test_many_patches_have_the_same_bits_everywhere)
{
    for (uint32_t i = 0; i < 6; i++) {
        static const uint32_t outputs[] = {5, 16, 100};
        struct build build;
        build_init(&build, i);
        const uint32_t x = build_input(&build, CELL_F32, 79 * 6 + (i < 3 ? 4 : 9));
        build_output(&build, build_patches(&build, x, 80, 6, outputs[i % 3]));
        check_bits(&build, _i, i);
        build_release(&build);
    }
}
END_TEST

/* More lines than are copied at once, and one that takes several turns of the kernel. */
START_TEST(test_large_pictures_have_the_same_bits_everywhere)
{
    static const struct shape large[] = {
        {{{32, 33}, {2, 1}, {1, 1}, {1, 1}, {1, 0}, {32, 33}}, 64, 4},
        {{{1, 1250}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1250}}, 1, 20},
        {{{3, 600}, {2, 3}, {1, 1}, {1, 1}, {0, 0}, {2, 598}}, 3, 33},
    };
    for (uint32_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        struct build build;
        build_init(&build, i);
        build_shape(&build, &large[i]);
        check_bits(&build, _i, i);
        build_release(&build);
    }
}
END_TEST

START_TEST(test_a_picture_makes_another_type)
{
    struct cell_registry *registry = NULL;
    struct build build;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    build_init(&build, 1);
    build_shape(&build, &shapes[1]);
    const struct cell_type *first = intern(registry, &build);
    ck_assert_ptr_eq(first, intern(registry, &build));
    ck_assert_uint_eq(first->flops, 2u * 18 * 8 * 35);
    build.def.ops[0].picture.before[1] = 0;
    ck_assert_ptr_ne(first, intern(registry, &build));
    build.def.ops[0].picture.before[1] = 1;
    ck_assert_ptr_eq(first, intern(registry, &build));
    build_release(&build);
    cell_registry_free(registry);
}
END_TEST

static void assert_refused(const struct build *build)
{
    struct base_error error = {BASE_OK, ""};
    ck_assert_int_eq(cell_def_check(&build->def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "LINEAR): ") != NULL, "%s", error.message);
}

/* Each number of the picture set to what does not fit. */
START_TEST(test_pictures_that_do_not_fit)
{
    struct build build;
    struct base_error error = {BASE_OK, ""};
    build_init(&build, 1);
    build_shape(&build, &shapes[1]);
    struct cell_op *op = &build.def.ops[0];
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    const struct cell_picture picture = op->picture;
    uint32_t *numbers[] = {op->picture.size + 1,  op->picture.taps,        op->picture.taps + 1,
                           op->picture.dilations, op->picture.strides + 1, op->picture.left,
                           op->picture.left + 1};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        static const uint32_t wrong[] = {0, CELL_PICTURE_MAX, UINT32_MAX};
        for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
            *numbers[i] = wrong[k];
            assert_refused(&build);
            op->picture = picture;
        }
    }
    op->picture.before[0] = CELL_PICTURE_MAX;
    assert_refused(&build);
    op->picture = picture;
    op->picture.size[0] = 6; // 84 elements are no 42 places
    op->picture.size[1] = 8;
    assert_refused(&build);
    op->picture = picture;
    op->picture.taps[0] = 2; // fewer terms than W has
    assert_refused(&build);
    op->picture = picture;
    op->step = 1;
    assert_refused(&build);
    op->step = 0;
    op->patches = 34;
    assert_refused(&build);
    build_release(&build);
}
END_TEST

START_TEST(test_filters_that_do_not_fit)
{
    struct build build;
    struct base_error error = {BASE_OK, ""};
    build_init(&build, 1);
    const uint32_t x = build_input(&build, CELL_F32, width_of(&shapes[1]));
    build_output(&build, build_filter(&build, x, &shapes[1].picture, CELL_FILTER_SUM, true));
    struct cell_op *op = &build.def.ops[0];
    const struct cell_op right = *op;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    for (uint32_t way = 0; way < 8; way++) {
        static const char *const why[] = {"unknown variant", "weights, but of a sum",
                                          "weights, but of", "W is not f32 [taps, channels]",
                                          "b is not f32",    "does not fit its row or result",
                                          "too many taps",   "does not fit its row or result"};
        *op = right;
        op->variant = way == 0 ? 2 : way == 1 ? CELL_FILTER_LARGEST : CELL_FILTER_SUM;
        op->n_weights = way == 2 ? 0 : 2;
        op->weights[0].rows -= way == 3 ? 1 : 0;
        op->weights[1].cols -= way == 4 ? 1 : 0;
        op->picture.left[0] -= way == 5 ? 1 : 0;
        op->picture.taps[1] = way == 6 ? 500 : op->picture.taps[1];
        op->picture.size[0] = way == 7 ? 0 : op->picture.size[0];
        ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, why[way]) != NULL, "%u: %s", way, error.message);
    }
    *op = right;
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("picture_ops");
    TCase *tcase = tcase_create("picture_ops");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_places_come_to_what_double_precision_does, 0, SHAPES);
    tcase_add_loop_test(tcase, test_places_have_the_same_bits_everywhere, 0, 3 * ISA_COUNT);
    tcase_add_loop_test(tcase, test_many_patches_have_the_same_bits_everywhere, 0, 3 * ISA_COUNT);
    tcase_add_loop_test(tcase, test_large_pictures_have_the_same_bits_everywhere, 0, 3 * ISA_COUNT);
    tcase_add_test(tcase, test_a_picture_makes_another_type);
    tcase_add_test(tcase, test_pictures_that_do_not_fit);
    tcase_add_loop_test(tcase, test_filters_come_to_what_double_precision_does, 0, 3 * SHAPES);
    tcase_add_test(tcase, test_filters_that_do_not_fit);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
