/* InstanceNormalization and GroupNormalization: over the steps of a sequence, over a part of each
 * step's features besides, or within a row; each against plain loops over the input. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { CHANNELS = 6, BINS = 4, HIDDEN = 4, BATCH = 2, TIME = 5, SEED = 13 };

static struct onnx_builder builder;

/* x [batch, CHANNELS, BINS, time] and an RNN over it, which says what the axes are. The case adds
 * what makes "out". */
static void begin(int64_t opset)
{
    const int64_t x[] = {-1, CHANNELS, BINS, -1};
    const int64_t perm[] = {3, 0, 1, 2};
    const int64_t flat[] = {0, 0, (int64_t)CHANNELS * BINS};
    onnx_init(&builder, opset);
    onnx_input(&builder, "x", FLOAT, 4, x);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "steps"), "perm", 4, perm);
    onnx_constant(&builder, "flat", onnx_ints(&builder, 1, 3, flat));
    onnx_node(&builder, "Reshape", "steps flat", "rows");
    onnx_add_weights(&builder, "RNN", CHANNELS * BINS, HIDDEN, SEED);
    onnx_node(&builder, "RNN", "rows w r b", "- h");
    onnx_output(&builder, "h", FLOAT, 0, NULL);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

static float scale_of(int64_t channel)
{
    return 0.5f + (float)channel;
}

static float bias_of(int64_t channel)
{
    return 0.25f * (float)channel - 1.0f;
}

/* n scales and as many biases, "scale" and "bias". */
static void add_constants(int64_t n)
{
    const int64_t dims[] = {n};
    float scales[CHANNELS + 1];
    float biases[CHANNELS + 1];
    for (int64_t i = 0; i < n; i++) {
        scales[i] = scale_of(i);
        biases[i] = bias_of(i);
    }
    onnx_constant(&builder, "scale",
                  onnx_tensor(&builder, FLOAT, 1, dims, scales, (size_t)n * sizeof(float)));
    onnx_constant(&builder, "bias",
                  onnx_tensor(&builder, FLOAT, 1, dims, biases, (size_t)n * sizeof(float)));
}

static Onnx__NodeProto *group_norm(int64_t groups, int64_t constants)
{
    add_constants(constants);
    Onnx__NodeProto *node = onnx_node(&builder, "GroupNormalization", "x scale bias", "out");
    onnx_set_int(&builder, node, "num_groups", groups);
    return node;
}

/* Element (channel, bin, t) of a request's row. */
static size_t at(size_t row, size_t channel, size_t bin, size_t t)
{
    return ((row * CHANNELS + channel) * BINS + bin) * TIME + t;
}

/* Channels first..end-1 of a row: over bins and steps. */
static void moments(const double *x, size_t row, size_t first, size_t end, double *mean,
                    double *variance)
{
    const double n = (double)((end - first) * BINS * TIME);
    double sum = 0;
    double squares = 0;
    for (size_t i = at(row, first, 0, 0); i < at(row, end, 0, 0); i++) {
        sum += x[i];
    }
    *mean = sum / n;
    for (size_t i = at(row, first, 0, 0); i < at(row, end, 0, 0); i++) {
        squares += (x[i] - *mean) * (x[i] - *mean);
    }
    *variance = squares / n;
}

/* constants: scales and biases that there are, one a channel or one a group. */
static void expect_normed(const double *x, const struct replay_tensor *out, size_t groups,
                          size_t constants)
{
    const size_t together = CHANNELS / groups;
    ck_assert_uint_eq(out->count, (size_t)BATCH * CHANNELS * BINS * TIME);
    for (size_t row = 0; row < BATCH; row++) {
        for (size_t c = 0; c < CHANNELS; c++) {
            const size_t first = c / together * together;
            const int64_t constant = (int64_t)(c * constants / CHANNELS);
            double mean = 0;
            double variance = 0;
            moments(x, row, first, first + together, &mean, &variance);
            for (size_t i = at(row, c, 0, 0); i < at(row, c + 1, 0, 0); i++) {
                const double normed = (x[i] - mean) / sqrt(variance + 1e-3);
                util_assert_close(out->data[i],
                                  normed * (double)scale_of(constant) + (double)bias_of(constant),
                                  1e-9, 1e-7);
            }
        }
    }
}

/* Runs the model on random x. */
static void run(size_t groups, size_t constants)
{
    struct built built;
    struct replay_tensor x = {.rank = 4,
                              .dims = {BATCH, CHANNELS, BINS, TIME},
                              .count = (size_t)BATCH * CHANNELS * BINS * TIME};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    struct base_random random = util_random(1);
    load_built(&builder, &built);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)base_random_f32(&random, -2.0f, 3.0f);
    }
    replay_run(built.model, &x, outputs);
    expect_normed(x.data, &outputs[1], groups, constants);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
    base_free(x.data);
    free_built(&builder, &built);
}

START_TEST(test_each_channel_over_bins_and_steps)
{
    begin(17);
    add_constants(CHANNELS);
    Onnx__NodeProto *node = onnx_node(&builder, "InstanceNormalization", "x scale bias", "out");
    onnx_set_float(&builder, node, "epsilon", 1e-3f);
    run(CHANNELS, CHANNELS);
}
END_TEST

/* Up to opset 20 scale and bias are one a group, from 21 on one a channel. */
START_TEST(test_groups_of_channels)
{
    static const int64_t groups[] = {1, 2, 3, CHANNELS};
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        begin(18);
        onnx_set_float(&builder, group_norm(groups[i], groups[i]), "epsilon", 1e-3f);
        run((size_t)groups[i], (size_t)groups[i]);
        begin(21);
        onnx_set_float(&builder, group_norm(groups[i], CHANNELS), "epsilon", 1e-3f);
        run((size_t)groups[i], CHANNELS);
    }
}
END_TEST

START_TEST(test_what_cannot_be_normalised_is_refused)
{
    begin(21);
    group_norm(4, CHANNELS);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "6 channels in num_groups=4");
    begin(21);
    group_norm(0, CHANNELS);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "6 channels in num_groups=0");
    begin(21);
    group_norm(2, CHANNELS + 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "input 1 is no constant of floats");
    begin(17);
    onnx_node(&builder, "InstanceNormalization", "x h h", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "input 1 is no constant of floats");
    begin(17);
    add_constants(CHANNELS);
    onnx_node(&builder, "InstanceNormalization", "scale scale bias", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "of anything but floats [batch, channels, ..]");
    begin(17);
    add_constants(1); // channels would be the batch
    onnx_node(&builder, "InstanceNormalization", "steps scale bias", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "of channels whose number the file leaves open");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_norm");
    TCase *tests = tcase_create("norm");
    tcase_add_test(tests, test_each_channel_over_bins_and_steps);
    tcase_add_test(tests, test_groups_of_channels);
    tcase_add_test(tests, test_what_cannot_be_normalised_is_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
