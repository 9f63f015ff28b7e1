/* A step of a sequence by a number that follows from how many there are: the one in the middle and
 * others, of the sequence itself and of what strides and windows leave of it; and what is refused.
 */
#include "base/divide.h"
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/cells/windows.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { BATCH = 2, INPUT = 2, HIDDEN = 3, STEPS_MAX = 21 };

static struct onnx_builder builder;

static Onnx__NodeProto *node(const char *op, const char *inputs, const char *output)
{
    return onnx_node(&builder, op, inputs, output);
}

static void number(const char *name, uint32_t rank, int64_t value)
{
    onnx_constant(&builder, name, onnx_ints(&builder, rank, 1, &value));
}

/* Step (T + more) / by * times + add of y, and of what a window of `taps` leaves, where these are
 * not 0, every `stride` steps. */
struct middle {
    int64_t more, by, times, add;
    uint32_t rank;
    int64_t taps, stride;
};

static void begin(const struct middle *middle, bool has_lengths)
{
    const int64_t dims[] = {-1, -1, INPUT};
    const int64_t turned[] = {1, 0, 2};
    const int64_t channels_first[] = {1, 2, 0};
    const int64_t any = -1;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", INPUT, HIDDEN, 1);
    number("axis1", 1, 1);
    number("two", 0, 2);
    number("more", middle->rank, middle->more);
    number("by", 0, middle->by);
    number("times", 0, middle->times);
    number("add", 0, middle->add);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    if (has_lengths) {
        onnx_input(&builder, "lengths", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 1, &any);
    }
    onnx_set_ints(&builder, node("Transpose", "x", "xt"), "perm", 3, turned);
    onnx_set_int(&builder, node("GRU", has_lengths ? "xt w r b lengths" : "xt w r b", "all"),
                 "hidden_size", HIDDEN);
    (void)node("Squeeze", "all axis1", "flat");
    onnx_set_ints(&builder, node("Transpose", "flat", "own"), "perm", 3, channels_first);
    if (middle->taps > 0) {
        Onnx__NodeProto *pool = node("MaxPool", "own", "y");
        onnx_set_ints(&builder, pool, "kernel_shape", 1, &middle->taps);
        onnx_set_ints(&builder, pool, "strides", 1, &middle->stride);
    } else {
        (void)node("Identity", "own", "y");
    }
}

static void end(void)
{
    (void)node("Shape", "y", "shape");
    (void)node("Gather", "shape two", "time");
    (void)node("Add", "time more", "sum");
    (void)node("Div", "sum by", "divided");
    (void)node("Mul", "divided times", "product");
    (void)node("Add", "product add", "number");
    onnx_set_int(&builder, node("Gather", "y number", "z"), "axis", 2);
    window_answers(&builder, (const char *const[]){"y", "z", NULL});
}

static void expect_step(const struct cell_model *model, const struct middle *middle, int64_t time)
{
    struct replay_tensor x = {.rank = 3, .dims = {BATCH, time, INPUT}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    x.count = (size_t)(BATCH * time * INPUT);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = 0.25 * (double)(i * i % 19) - 2.0;
    }
    replay_run(model, &x, outputs);
    const int64_t left = outputs[0].dims[2];
    const int64_t step = (left + middle->more) / middle->by * middle->times + middle->add;
    ck_assert_int_eq(left, middle->taps > 0 ? (time - middle->taps) / middle->stride + 1 : time);
    ck_assert_uint_eq(outputs[1].rank, 2 + middle->rank);
    ck_assert_uint_eq(outputs[1].count, BATCH * HIDDEN);
    for (size_t i = 0; i < outputs[1].count; i++) {
        ck_assert_double_eq(outputs[1].data[i], outputs[0].data[(int64_t)i * left + step]);
    }
    base_free(x.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

START_TEST(test_steps_that_there_are)
{
    static const struct middle cases[] = {
        {0, 2, 1, 0, 0, 0, 0},  {-1, 2, 1, 0, 0, 0, 0}, {0, 2, 1, 0, 1, 0, 0},
        {0, 3, 2, 0, 0, 0, 0},  {2, 4, 1, 0, 0, 0, 0},  {0, 7, 3, 0, 0, 0, 0},
        {-1, 3, 1, 0, 0, 0, 0}, {0, 2, 1, 0, 0, 4, 1},  {0, 2, 1, 0, 0, 3, 2},
        {-1, 2, 1, 0, 1, 5, 3},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct built built;
        begin(&cases[i], false);
        end();
        load_built(&builder, &built);
        for (int64_t time = cases[i].taps > 0 ? cases[i].taps : 1; time <= STEPS_MAX; time++) {
            expect_step(built.model, &cases[i], time);
        }
        free_built(&builder, &built);
    }
}
END_TEST

/* A request of one step, or of some, would have none of that number, or the number is below 0, or
 * what is divided, which ONNX rounds up. */
START_TEST(test_steps_that_there_may_not_be)
{
    static const struct middle cases[] = {
        {1, 2, 1, 0, 0, 0, 0},  {0, 2, 2, 0, 0, 0, 0},  {0, 2, 1, 1, 0, 0, 0},
        {0, 2, 1, -1, 0, 0, 0}, {-2, 2, 1, 1, 0, 0, 0}, {5, 6, 1, 0, 0, 0, 0},
        {0, 2, -1, 0, 0, 0, 0}, {3, 2, 1, -1, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(&cases[i], false);
        end();
        expect_refused(&builder, BASE_UNIMPLEMENTED, "is no step of it whatever the request");
    }
}
END_TEST

START_TEST(test_other_sequences)
{
    static const struct middle half = {0, 2, 1, 0, 0, 0, 0};
    static const int64_t three_times = 3;
    begin(&half, true);
    end();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "is turned round, or has sequence_lens");

    static const struct middle lowest = {0, INT64_MIN, 1, 0, 0, 0, 0};
    begin(&lowest, false);
    end();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "Div (node \"divided\", opset 17)");

    begin(&half, false); // of a step that there is, of half of another input's
    const int64_t dims[] = {-1, -1, INPUT};
    onnx_input(&builder, "other", FLOAT, 3, dims);
    (void)node("Shape", "other", "others");
    number("one", 0, 1);
    (void)node("Gather", "others one", "another");
    (void)node("Div", "another by", "its");
    onnx_set_int(&builder, node("Gather", "y its", "z"), "axis", 2);
    window_answers(&builder, (const char *const[]){"y", "z", NULL});
    expect_refused(&builder, BASE_UNIMPLEMENTED, "is no step of it whatever the request");

    static const struct middle third = {0, 4, 1, 0, 0, 0, 0};
    const int64_t weights[] = {HIDDEN, HIDDEN, 3};
    struct base_random random = util_random(1);
    begin(&third, false); // of three times as many, a fourth
    onnx_constant(&builder, "wt", onnx_random(&builder, 3, weights, &random, 0.5f));
    onnx_set_ints(&builder, node("ConvTranspose", "own wt", "made"), "strides", 1, &three_times);
    (void)node("Shape", "made", "sizes");
    (void)node("Gather", "sizes two", "longer");
    (void)node("Div", "longer by", "its");
    onnx_set_int(&builder, node("Gather", "made its", "z"), "axis", 2);
    window_answers(&builder, (const char *const[]){"made", "z", NULL});
    expect_refused(&builder, BASE_UNIMPLEMENTED, "takes an element by a number of parts of steps");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_middle");
    TCase *tcase = tcase_create("middle");
    tcase_add_test(tcase, test_steps_that_there_are);
    tcase_add_test(tcase, test_steps_that_there_may_not_be);
    tcase_add_test(tcase, test_other_sequences);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
