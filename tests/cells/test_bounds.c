/* A RELU, or a MAX and a MIN with numbers, behind a LINEAR or FILTER, which computes it along
 * (struct cell_bounds): the same bits as by itself, of NaN and negative zeros too, and which are
 * joined. */
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/cells/split.h"
#include "tests/util.h"

#include <string.h>

/* What is bounded. Of one tap and channel, so that each element has a NaN or a sign of its own. */
enum { OF_LINEAR, OF_PLACES, OF_SUM, OF_LARGEST, OF_COUNT };

static const struct cell_picture picture = {
    .size = {6, 7}, .taps = {1, 1}, .dilations = {1, 1}, .strides = {1, 1}, .left = {6, 7}};
enum { PLACES = 42 };

/* A place without taps at either end of the lines. */
static const struct cell_picture around = {.size = {6, 7},
                                           .taps = {1, 1},
                                           .dilations = {1, 1},
                                           .strides = {1, 1},
                                           .before = {1, 1},
                                           .left = {8, 9}};

static uint32_t build_number(struct build *build, float number)
{
    const uint32_t value = build_const(build, 1);
    float *floats = base_arena_array(&build->arena, 1, sizeof(float));
    *floats = number;
    build_last(build)->weights[0].data = floats;
    return value;
}

/* x: what is bounded comes of its logarithm, NaN half of the time, or of zeros with a sign. */
static uint32_t build_bounded(struct build *build, uint32_t of, bool has_nan)
{
    const uint32_t x = build_input(build, CELL_F32, PLACES);
    uint32_t from = build_op(build, has_nan ? CELL_OP_LOG : CELL_OP_RELU, x, UINT32_MAX, PLACES);
    from = has_nan ? from : build_op(build, CELL_OP_MUL, from, build_number(build, -1.0f), PLACES);
    if (of == OF_LINEAR) {
        return build_linear(build, from, 21, true);
    }
    if (of == OF_PLACES) {
        return build_picture(build, from, &picture, 5);
    }
    return build_filter(build, from, &around, of == OF_SUM ? CELL_FILTER_SUM : CELL_FILTER_LARGEST,
                        has_nan);
}

static uint32_t build_with(struct build *build, enum cell_op_kind kind, uint32_t of, float number)
{
    const uint32_t width = build->def.values[of].width;
    return build_op(build, kind, of, build_number(build, number), width);
}

static uint32_t build_relu(struct build *build, uint32_t of)
{
    return build_op(build, CELL_OP_RELU, of, UINT32_MAX, build->def.values[of].width);
}

/* How it is bounded, and what an explanation says of that; "": not joined. */
enum {
    BY_RELU,
    BY_MAX,
    BY_MIN,
    BY_MAX_AND_MIN,
    BY_RELU_AND_MIN,
    BY_MIN_AND_MAX,
    BY_TWO_MAXES,
    BY_ZERO,
    BY_NUMBER_FIRST,
    BY_VALUE,
    READ_TWICE,
    BY_COUNT
};
static const char *const said[BY_COUNT] = {
    [BY_RELU] = "; RELU\n",
    [BY_MAX] = "; from -0.25 to inf\n",
    [BY_MIN] = "; from -inf to 0.5\n",
    [BY_MAX_AND_MIN] = "; from -0.25 to 0.5\n",
    [BY_RELU_AND_MIN] = "; from 0 to 0.5\n",
    [BY_MIN_AND_MAX] = "; from -inf to 0.5\n",
    [BY_TWO_MAXES] = "; from -0.25 to inf\n",
    [BY_ZERO] = "; RELU\n",
    [BY_NUMBER_FIRST] = "",
    [BY_VALUE] = "",
    [READ_TWICE] = "",
};

static uint32_t build_bounds(struct build *build, uint32_t way, uint32_t of)
{
    const uint32_t width = build->def.values[of].width;
    switch (way) {
    case BY_RELU:
        return build_relu(build, of);
    case BY_MAX:
        return build_with(build, CELL_OP_MAX, of, -0.25f);
    case BY_MIN:
        return build_with(build, CELL_OP_MIN, of, 0.5f);
    case BY_MAX_AND_MIN:
        return build_with(build, CELL_OP_MIN, build_with(build, CELL_OP_MAX, of, -0.25f), 0.5f);
    case BY_RELU_AND_MIN:
        return build_with(build, CELL_OP_MIN, build_relu(build, of), 0.5f);
    case BY_MIN_AND_MAX: // of which the MAX, behind the MIN, stays
        return build_with(build, CELL_OP_MAX, build_with(build, CELL_OP_MIN, of, 0.5f), 1.0f);
    case BY_TWO_MAXES:
        return build_with(build, CELL_OP_MAX, build_with(build, CELL_OP_MAX, of, -0.25f), 0.25f);
    case BY_ZERO:
        return build_with(build, CELL_OP_MAX, of, 0.0f);
    case BY_NUMBER_FIRST:
        return build_op(build, CELL_OP_MAX, build_number(build, 0.0f), of, width);
    case BY_VALUE:
        return build_op(build, CELL_OP_MAX, of, build_const(build, width), width);
    default: // READ_TWICE
        return build_op(build, CELL_OP_ADD, build_relu(build, of), of, width);
    }
}

static void build_cell(struct build *build, uint32_t i, bool has_nan)
{
    build_init(build, i);
    const uint32_t of = build_bounded(build, i % OF_COUNT, has_nan);
    build_output(build, build_bounds(build, i / OF_COUNT, of));
}

/* _i: way and what. */
START_TEST(test_bounds_have_the_bits_of_the_ops)
{
    for (uint32_t i = 0; i < 4 * ISA_COUNT; i++) {
        struct build build;
        struct split_difference difference;
        build_cell(&build, (uint32_t)_i, i % 2 == 0);
        const int isa = (int)i / 4;
        const struct split_options options = {.def = &build.def,
                                              .isa = isa_name(isa),
                                              .members = 1 + i / 2 % 2,
                                              .n_chains = 9,
                                              .steps_max = 4,
                                              .salt = i};
        if (isa_at(isa) != NULL) {
            ck_assert_msg(split_has_the_bits_of_one_run(&options, &difference), "%s: %s",
                          isa_name(isa), difference.text);
        }
        build_release(&build);
    }
}
END_TEST

/* The explanation of a cell, by the fastest kernels or the scalar ones; released by the caller. */
static struct base_buf explain(const struct cell_def *def, const char *isa)
{
    struct base_buf text;
    struct rig rig;
    base_buf_init(&text, 1 << 16);
    rig_init(&rig, "cpu", isa, 0, def);
    rig.backend->type_explain(rig.device, rig.type, &text);
    rig_release(&rig);
    return text;
}

START_TEST(test_which_bounds_are_joined)
{
    struct build build;
    const char *bounds = said[_i / OF_COUNT];
    build_cell(&build, (uint32_t)_i, false);
    struct base_buf text = explain(&build.def, isa_name(ISA_COUNT > 1 ? 1 : 0));
    if (bounds[0] != '\0') {
        ck_assert_msg(strstr(text.data, bounds) != NULL, "%s", text.data);
    } else {
        ck_assert_msg(strstr(text.data, "; RELU") == NULL && strstr(text.data, "; from") == NULL,
                      "%s", text.data);
    }
    base_buf_release(&text);
    // Neither where the kernels take none, nor as written.
    text = explain(&build.def, "scalar");
    ck_assert_msg(strstr(text.data, "; RELU") == NULL && strstr(text.data, "; from") == NULL, "%s",
                  text.data);
    base_buf_release(&text);
    build.def.as_written = true;
    text = explain(&build.def, isa_name(ISA_COUNT > 1 ? 1 : 0));
    ck_assert_msg(strstr(text.data, "; RELU") == NULL && strstr(text.data, "; from") == NULL, "%s",
                  text.data);
    base_buf_release(&text);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bounds");
    TCase *tcase = tcase_create("bounds");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_bounds_have_the_bits_of_the_ops, 0, BY_COUNT * OF_COUNT);
    tcase_add_loop_test(tcase, test_which_bounds_are_joined, 0, BY_COUNT * OF_COUNT);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
