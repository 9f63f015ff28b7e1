/* What windows along the steps hold, alone and behind each other, at all lengths: convolutions,
 * pools and slices against plain loops. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/cells/windows.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { BATCH = 2, STEPS_MAX = 9 };

static void compare(const struct cell_model *model, const struct window *w, const float *weights,
                    int64_t time)
{
    struct replay_tensor x = {.rank = 3, .dims = {BATCH, WINDOW_CHANNELS, time}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    const int64_t left = window_steps_left(w, time);
    x.count = (size_t)(BATCH * WINDOW_CHANNELS * time);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] =
            (double)base_random_f32(&window_numbers, -2.0f, -0.5f); // below the zeros beyond
    }
    replay_run(model, &x, outputs);
    ck_assert_int_eq(outputs[0].dims[2], left);
    for (int64_t row = 0; row < BATCH * WINDOW_CHANNELS; row++) {
        const float *own = weights == NULL ? NULL : weights + row % WINDOW_CHANNELS * w->taps;
        for (int64_t t = 0; t < left; t++) {
            const double want = window_expected(w, x.data + row * time, 1, time, own, t);
            util_assert_close(outputs[0].data[row * left + t], want, 1e-6, 0);
        }
    }
    base_free(x.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

/* A pool that may have nothing to read, or of which PyTorch and others differ. */
static bool may_be_refused(const struct window *w)
{
    const bool has_much = w->before >= w->taps || w->behind >= w->taps;
    const bool has_pads = w->before > 0 || w->behind > 0;
    return strcmp(w->op, "Conv") != 0 &&
           (w->counts_pads && has_pads ? w->rounds_up : has_much || w->dilation > 1);
}

/* One model of the window, at all lengths; true: it is served. */
static bool try_window(const struct window *w)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    uint32_t least[CELL_SEQUENCES_MAX];
    size_t length = 0;
    window_begin(-1);
    (void)window_add(w, "x", "y");
    window_end("turned w r b");
    const bool is_conv = strcmp(w->op, "Conv") == 0;
    const Onnx__TensorProto *constant = is_conv ? constant_of(&window_builder, "wc") : NULL;
    const float *weights = is_conv ? (const float *)(const void *)constant->raw_data.data : NULL;
    const uint8_t *bytes = onnx_pack(&window_builder, &length);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    const enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length, NULL}, "test", NULL, &model, &error);
    if (status == BASE_OK) {
        cell_model_steps_min(model, least);
        const uint32_t given = model->outputs[0].sequence == 0 ? 0 : model->sequences[1].source;
        for (int64_t time = least[given]; time <= STEPS_MAX; time++) {
            compare(model, w, weights, time);
        }
        ck_assert(least[given] == 1 || window_steps_left(w, (int64_t)least[given] - 1) == 0);
    } else {
        ck_assert_msg(status == BASE_UNIMPLEMENTED && may_be_refused(w), "%s", error.message);
    }
    cell_model_free(registry, model);
    cell_registry_free(registry);
    onnx_release(&window_builder);
    return status == BASE_OK;
}

static const char *const ops[] = {"Conv", "MaxPool", "AveragePool"};

/* _i: bits of the padding. */
START_TEST(test_windows_of_all_kinds)
{
    uint32_t served = 0;
    for (uint32_t i = 0; i < 3 * 3 * 2 * 3 * 2 * 2; i++) {
        uint32_t at = i;
        struct window w = {.op = ops[at % 3], .before = _i % 3, .behind = _i / 3};
        at /= 3;
        w.taps = 1 + at % 3;
        at /= 3;
        w.dilation = 1 + at % 2;
        at /= 2;
        w.stride = 1 + at % 3;
        at /= 3;
        w.rounds_up = at % 2 == 1;
        w.counts_pads = at / 2 == 1;
        const bool is_mean = strcmp(w.op, "AveragePool") == 0;
        const bool is_conv = strcmp(w.op, "Conv") == 0;
        if ((w.counts_pads && !is_mean) || (w.rounds_up && is_conv)) {
            continue;
        }
        served += try_window(&w) ? 1 : 0;
    }
    ck_assert_uint_ge(served, 40);
}
END_TEST

START_TEST(test_slices_of_steps)
{
    for (int64_t i = 0; i < 3 * 3 * 3; i++) {
        const struct window w = {.op = "Slice",
                                 .taps = 1,
                                 .dilation = 1,
                                 .stride = 1 + i % 3,
                                 .before = -(i / 3 % 3),
                                 .behind = -(i / 9)};
        if (i > 0) { // all of it is no model of two sequences
            ck_assert(try_window(&w));
        }
    }
}
END_TEST

/* Two windows, of which the second must not see what the first has cut off: y is as of one after
 * the other. */
static const struct window pairs[][2] = {
    // The last step's window reads zeros, not steps that were cut off.
    {{"Slice", 1, 1, 1, 0, -2, false, false}, {"Conv", 3, 1, 1, 1, 1, false, false}},
    {{"Slice", 1, 1, 1, -1, 0, false, false}, {"Conv", 3, 1, 1, 2, 0, false, false}},
    {{"Slice", 1, 1, 2, -1, -1, false, false}, {"Conv", 2, 2, 1, 1, 1, false, false}},
    {{"Slice", 1, 1, 1, -1, 0, false, false}, {"Slice", 1, 1, 2, -1, -1, false, false}},
    // A causal convolution, as it is written.
    {{"Conv", 3, 1, 1, 2, 2, false, false}, {"Slice", 1, 1, 1, 0, -2, false, false}},
    {{"Conv", 3, 2, 1, 4, 4, false, false}, {"Slice", 1, 1, 1, -4, 0, false, false}},
};

/* y of one channel by both windows; its steps. */
static int64_t expected_pair(const struct window w[2], const double *x, int64_t time,
                             const float *weights, double *y)
{
    double between[4 * STEPS_MAX];
    const int64_t middle = window_steps_left(&w[0], time);
    const bool is_first = strcmp(w[0].op, "Conv") == 0;
    for (int64_t t = 0; t < middle; t++) {
        between[t] = window_expected(&w[0], x, 1, time, is_first ? weights : NULL, t);
    }
    const int64_t left = middle < 1 ? 0 : window_steps_left(&w[1], middle);
    for (int64_t t = 0; t < left; t++) {
        y[t] = window_expected(&w[1], between, 1, middle, is_first ? NULL : weights, t);
    }
    return left;
}

START_TEST(test_windows_behind_each_other)
{
    const struct window *w = pairs[_i];
    struct built built;
    uint32_t least[CELL_SEQUENCES_MAX];
    static const float ones[] = {1, 1, 1};
    window_begin(-1);
    (void)window_add(&w[0], "x", "between");
    (void)window_add(&w[1], "between", "y");
    window_end("turned w r b");
    const bool has_conv = strcmp(w[0].op, "Conv") == 0 || strcmp(w[1].op, "Conv") == 0;
    load_built(&window_builder, &built);
    const float *weights =
        has_conv ? (const float *)(const void *)constant_of(&window_builder, "wc")->raw_data.data
                 : ones;
    cell_model_steps_min(built.model, least);
    for (int64_t time = least[0]; time <= STEPS_MAX; time++) {
        struct replay_tensor x = {.rank = 3, .dims = {BATCH, WINDOW_CHANNELS, time}};
        struct replay_tensor outputs[2] = {{.rank = 0}};
        x.count = (size_t)(BATCH * WINDOW_CHANNELS * time);
        x.data = base_alloc_array(x.count, sizeof(double));
        ck_assert_ptr_nonnull(x.data);
        for (size_t i = 0; i < x.count; i++) {
            x.data[i] = (double)base_random_f32(&window_numbers, -2.0f, -0.5f);
        }
        replay_run(built.model, &x, outputs);
        for (int64_t row = 0; row < BATCH * WINDOW_CHANNELS; row++) {
            double y[4 * STEPS_MAX];
            const uint32_t taps = (uint32_t)(strcmp(w[0].op, "Conv") == 0 ? w[0].taps : w[1].taps);
            const int64_t left =
                expected_pair(w, x.data + row * time, time,
                              weights + (has_conv ? row % WINDOW_CHANNELS * taps : 0), y);
            ck_assert_int_eq(outputs[0].dims[2], left);
            for (int64_t t = 0; t < left; t++) {
                util_assert_close(outputs[0].data[row * left + t], y[t], 1e-6, 0);
            }
        }
        base_free(x.data);
        base_free(outputs[0].data);
        base_free(outputs[1].data);
    }
    free_built(&window_builder, &built);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_windows");
    TCase *tests = tcase_create("windows");
    tcase_add_loop_test(tests, test_windows_of_all_kinds, 0, 9);
    tcase_add_test(tests, test_slices_of_steps);
    tcase_add_loop_test(tests, test_windows_behind_each_other, 0,
                        (int)(sizeof(pairs) / sizeof(pairs[0])));
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
