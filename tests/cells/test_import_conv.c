/* Convolutions along the steps of a sequence: what is refused, and how (what is served computes
 * what PyTorch does: test_import_exports.c, tests/server/test_readers.c). Each case changes one
 * thing. */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { CHANNELS = 4, FILTERS = 4, HIDDEN = 3 };

static struct onnx_builder builder;
static struct base_random numbers;

static void weights(const char *name, int64_t filters, int64_t channels, int64_t taps)
{
    const int64_t dims[] = {filters, channels, taps};
    onnx_constant(&builder, name, onnx_random(&builder, 3, dims, &numbers, 0.5f));
}

/* x [batch, channels, time]; the case adds the node that makes `y` of it. */
static void begin(void)
{
    const int64_t dims[] = {-1, CHANNELS, -1};
    numbers = util_random(1);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", FILTERS, HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
}

static Onnx__NodeProto *convolve(int64_t before, int64_t behind)
{
    const int64_t pads[] = {before, behind};
    Onnx__NodeProto *conv = onnx_node(&builder, "Conv", "x wc", "y");
    onnx_set_ints(&builder, conv, "pads", 2, pads);
    return conv;
}

static void set_only(Onnx__NodeProto *node, const char *name, int64_t value)
{
    onnx_set_ints(&builder, node, name, 1, &value);
}

/* A GRU over the steps of y, with these lengths. */
static void end(const char *lengths)
{
    const int64_t perm[] = {2, 0, 1};
    char operands[32] = "turned w r b ";
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, perm);
    strncat(operands, lengths, 16);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", operands, "out"), "hidden_size", HIDDEN);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

static void refuse(enum base_status status, const char *why)
{
    end("-");
    expect_refused(&builder, status, why);
}

START_TEST(test_windows_around_a_step_are_served)
{
    static const int64_t pads[][2] = {{1, 1}, {2, 0}, {0, 2}};
    for (size_t i = 0; i < sizeof(pads) / sizeof(pads[0]); i++) {
        begin();
        weights("wc", FILTERS, CHANNELS, 3);
        (void)convolve(pads[i][0], pads[i][1]);
        end("-");
        expect_accepted(&builder);
    }
    static const char *const same[] = {"SAME_UPPER", "SAME_LOWER"};
    for (size_t i = 0; i < 2; i++) {
        begin();
        weights("wc", FILTERS, CHANNELS, 4);
        onnx_set_string(&builder, onnx_node(&builder, "Conv", "x wc", "y"), "auto_pad", same[i]);
        end("-");
        expect_accepted(&builder);
    }
    begin();
    weights("wc", FILTERS, 1, 3);
    onnx_set_int(&builder, convolve(1, 1), "group", CHANNELS);
    end("-");
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_windows_out_of_bounds_are_refused)
{
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    (void)convolve(3, -1);
    refuse(BASE_UNIMPLEMENTED,
           "Conv (node \"y\", opset 17): padding of 3 and -1 steps; 0 to 4096 each");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    (void)convolve(4097, 0);
    refuse(BASE_UNIMPLEMENTED, "padding of 4097 and 0 steps");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    set_only(convolve(1, 1), "strides", 0);
    refuse(BASE_UNIMPLEMENTED, "a stride of 0; 1 to 4096");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    set_only(convolve(1, 1), "strides", 4097);
    refuse(BASE_UNIMPLEMENTED, "a stride of 4097; 1 to 4096");
    begin();
    weights("wc", FILTERS, CHANNELS, 4);
    Onnx__NodeProto *same = onnx_node(&builder, "Conv", "x wc", "y");
    onnx_set_string(&builder, same, "auto_pad", "SAME_UPPER");
    set_only(same, "strides", 2);
    refuse(BASE_UNIMPLEMENTED, "auto_pad with a stride of 2");
    begin();
    weights("wc", FILTERS, CHANNELS, CELL_WINDOW_MAX + 1);
    (void)convolve(CELL_WINDOW_MAX, 0);
    refuse(BASE_UNIMPLEMENTED, "a kernel of more than 4096 steps");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    set_only(convolve(1, 1), "dilations", INT64_MAX / 2);
    refuse(BASE_UNIMPLEMENTED, "a kernel of more than 4096 steps");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    set_only(convolve(1, 1), "dilations", 0);
    refuse(BASE_UNIMPLEMENTED, "a kernel of more than 4096 steps");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    onnx_set_string(&builder, convolve(1, 1), "auto_pad", "SOMEHOW");
    refuse(BASE_INVALID_ARGUMENT, "auto_pad");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    set_only(convolve(1, 1), "kernel_shape", 5);
    refuse(BASE_UNIMPLEMENTED, "Conv (node \"y\"");
}
END_TEST

START_TEST(test_weights_that_do_not_fit_are_refused)
{
    begin();
    weights("wc", FILTERS, CHANNELS + 1, 3);
    (void)convolve(1, 1);
    refuse(BASE_INVALID_ARGUMENT,
           "weights \"wc\", float32 [4, 5, 3], that do not fit x of 4 channels");
    begin();
    weights("wc", FILTERS, CHANNELS / 2, 3);
    onnx_set_int(&builder, convolve(1, 1), "group", 3);
    refuse(BASE_INVALID_ARGUMENT, "that do not fit x of 4 channels in groups");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    onnx_set_int(&builder, convolve(1, 1), "group", 0);
    refuse(BASE_INVALID_ARGUMENT, "0 groups");
    begin();
    weights("wc", FILTERS, CHANNELS, 3);
    const int64_t few[] = {FILTERS - 1};
    onnx_constant(&builder, "bias", onnx_random(&builder, 1, few, &numbers, 0.5f));
    const int64_t pads[] = {1, 1};
    onnx_set_ints(&builder, onnx_node(&builder, "Conv", "x wc bias", "y"), "pads", 2, pads);
    refuse(BASE_UNIMPLEMENTED, "a bias that is no constant");
    begin();
    onnx_set_ints(&builder, onnx_node(&builder, "Conv", "x x", "y"), "pads", 2, pads);
    refuse(BASE_UNIMPLEMENTED, "weights that are no constant");
}
END_TEST

static void add_lengths(void)
{
    const int64_t any = -1;
    onnx_input(&builder, "lengths", INT64, 1, &any);
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "lengths", "l32"), "to",
                 ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
}

/* What stands before a layer with lengths reads what the client sent behind them, as in ONNX: the
 * layer has as many steps of its own. */
START_TEST(test_before_lengths_it_reads_all)
{
    struct built built;
    begin();
    add_lengths();
    weights("wc", FILTERS, CHANNELS, 3);
    (void)convolve(1, 1);
    end("l32");
    load_built(&builder, &built);
    const struct cell_tensor *inputs = built.model->inputs;
    const struct cell_sequence *own = &built.model->sequences[inputs[1].sequence];
    ck_assert(inputs[1].is_lengths);
    ck_assert_uint_eq(own->stride, 1);
    ck_assert_int_eq(own->add, -1);
    ck_assert_uint_eq(own->source, inputs[0].sequence);
    free_built(&builder, &built);
}
END_TEST

/* Behind it the steps are zeros that ONNX would read. */
START_TEST(test_behind_lengths_it_is_refused)
{
    const int64_t perm[] = {1, 2, 0};
    const int64_t axis = 1;
    const int64_t pads[] = {1, 1};
    begin();
    add_lengths();
    weights("wc", FILTERS, CHANNELS, 3);
    weights("wb", FILTERS, HIDDEN, 3);
    (void)convolve(1, 1);
    end("l32");
    onnx_constant(&builder, "axis", onnx_ints(&builder, 1, 1, &axis));
    onnx_node(&builder, "Squeeze", "out axis", "flat");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "flat", "channels"), "perm", 3, perm);
    onnx_set_ints(&builder, onnx_node(&builder, "Conv", "channels wb", "z"), "pads", 2, pads);
    onnx_output(&builder, "z", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
    expect_refused(&builder, BASE_UNIMPLEMENTED, "beside sequence_lens");
}
END_TEST

/* Along the features of a step, or of what is the same at every step. */
START_TEST(test_only_time_is_convolved)
{
    const int64_t dims[] = {-1, -1, 6};
    begin();
    onnx_input(&builder, "z", FLOAT, 3, dims); // its steps as channels
    weights("wc", FILTERS, CHANNELS, 3);
    const int64_t pads[] = {1, 1};
    onnx_set_ints(&builder, onnx_node(&builder, "Conv", "z wc", "y"), "pads", 2, pads);
    end("-");
    ck_assert_int_ne(parse_built(&builder, &(struct base_error){.message = ""}), BASE_OK);
}
END_TEST

static void reshape(const char *from, const char *to, size_t n, const int64_t *dims)
{
    char shape[24];
    char operands[48];
    (void)snprintf(shape, sizeof(shape), "%s_shape", to);
    (void)snprintf(operands, sizeof(operands), "%s %s", from, shape);
    onnx_constant(&builder, shape, onnx_ints(&builder, 1, n, dims));
    (void)onnx_node(&builder, "Reshape", operands, to);
}

/* Two halves of the channels are rows of the batch, with the same weights. */
START_TEST(test_parts_of_a_row_as_rows_of_the_batch)
{
    const int64_t halves[] = {-1, CHANNELS / 2, 0};
    const int64_t whole[] = {-1, FILTERS, 0};
    const int64_t height = 2;
    begin();
    reshape("x", "halves", 3, halves);
    weights("wc", FILTERS / 2, CHANNELS / 2, 3);
    (void)onnx_node(&builder, "Conv", "halves wc", "convolved");
    reshape("convolved", "y", 3, whole);
    end("-");
    expect_accepted(&builder);
    begin(); // of pictures
    reshape("x", "halves", 3, halves);
    weights("wc", FILTERS / 2, CHANNELS / 2, 3);
    onnx_constant(&builder, "height", onnx_ints(&builder, 1, 1, &height));
    (void)onnx_node(&builder, "Unsqueeze", "halves height", "high");
    (void)onnx_node(&builder, "Unsqueeze", "wc height", "wide");
    (void)onnx_node(&builder, "Conv", "high wide", "pictures");
    (void)onnx_node(&builder, "Squeeze", "pictures height", "convolved");
    reshape("convolved", "y", 3, whole);
    refuse(BASE_UNIMPLEMENTED,
           "Conv (node \"pictures\", opset 17): of a row that has more features "
           "than its channels");
}
END_TEST

/* Of a file that states as many steps as a row has parts. */
START_TEST(test_steps_are_no_channels)
{
    enum { STEPS = 3 };
    const int64_t dims[] = {-1, STEPS, STEPS * STEPS};
    const int64_t parted[] = {-1, STEPS, STEPS, STEPS};
    const int64_t perm[] = {0, 2, 1, 3};
    const int64_t turned[] = {1, 0, 2};
    const int64_t rows[] = {-1, STEPS, STEPS, 1};
    const int64_t taps[] = {STEPS, STEPS, 1, 1};
    numbers = util_random(1);
    onnx_init(&builder, 17);
    onnx_input(&builder, "z", FLOAT, 3, dims);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "z", "steps"), "perm", 3, turned);
    onnx_add_weights(&builder, "GRU", STEPS * STEPS, HIDDEN, 1);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "steps w r b", "hidden"), "hidden_size",
                 HIDDEN);
    reshape("z", "parts", 4, parted);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "parts", "parts_first"), "perm", 4,
                  perm);
    reshape("parts_first", "rows", 4, rows);
    onnx_constant(&builder, "wc", onnx_random(&builder, 4, taps, &numbers, 0.5f));
    (void)onnx_node(&builder, "Conv", "rows wc", "out");
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    onnx_output(&builder, "hidden", FLOAT, 0, NULL);
    builder.graph.output[0]->type = builder.graph.output[1]->type = NULL;
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "Conv (node \"out\", opset 17): of a row that has "
                   "more features than its channels");
}
END_TEST

static Onnx__NodeProto *pool(const char *op, int64_t taps, int64_t before, int64_t behind)
{
    const int64_t pads[] = {before, behind};
    begin();
    Onnx__NodeProto *node = onnx_node(&builder, op, "x", "y");
    set_only(node, "kernel_shape", taps);
    onnx_set_ints(&builder, node, "pads", 2, pads);
    return node;
}

static const char *const pools[] = {"MaxPool", "AveragePool"};

START_TEST(test_pools_around_a_step_are_served)
{
    for (size_t i = 0; i < 2; i++) {
        (void)pool(pools[i], 3, 1, 1);
        end("-");
        expect_accepted(&builder);
        onnx_set_int(&builder, pool(pools[i], 2, 0, 1), "ceil_mode", 1);
        end("-");
        expect_accepted(&builder);
        set_only(pool(pools[i], 3, 2, 2), "dilations", 2);
        end("-");
        expect_accepted(&builder);
        (void)pool(pools[i], 1, 0, 0);
        end("-");
        expect_accepted(&builder);
    }
    onnx_set_int(&builder, pool("AveragePool", 3, 1, 1), "count_include_pad", 1);
    end("-");
    expect_accepted(&builder);
    Onnx__NodeProto *mean = pool("AveragePool", 3, 0, 0); // without any the last one has none, too
    set_only(mean, "strides", 2);
    onnx_set_int(&builder, mean, "count_include_pad", 1);
    onnx_set_int(&builder, mean, "ceil_mode", 1);
    end("-");
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_other_pools_are_refused)
{
    for (size_t i = 0; i < 2; i++) {
        begin();
        (void)onnx_node(&builder, pools[i], "x", "y");
        refuse(BASE_INVALID_ARGUMENT, "without kernel_shape");
        (void)pool(pools[i], 2, 2, 0);
        refuse(BASE_UNIMPLEMENTED, "a window that may lie beyond the ends: 2 steps, 1 apart, with "
                                   "2 and 0 of padding");
        set_only(pool(pools[i], 2, 1, 1), "dilations", 4);
        refuse(BASE_UNIMPLEMENTED, "a window that may lie beyond the ends");
        (void)pool(pools[i], 0, 0, 0);
        refuse(BASE_UNIMPLEMENTED, "a kernel of more than 4096 steps");
    }
    for (int64_t before = 0; before < 2; before++) {
        Onnx__NodeProto *mean = pool("AveragePool", 3, before, 1);
        set_only(mean, "strides", 2);
        onnx_set_int(&builder, mean, "count_include_pad", 1);
        onnx_set_int(&builder, mean, "ceil_mode", 1);
        refuse(BASE_UNIMPLEMENTED, "ceil_mode beside count_include_pad");
    }
    onnx_set_int(&builder, pool("MaxPool", 2, 0, 1), "ceil_mode", 2); // which others take for 0
    refuse(BASE_INVALID_ARGUMENT, "attribute \"ceil_mode\" of 2; 0 or 1");
    onnx_set_int(&builder, pool("MaxPool", 2, 0, 2), "ceil_mode", 1);
    refuse(BASE_UNIMPLEMENTED, "ceil_mode with 2 steps of padding behind windows of 2");
    begin();
    set_only(onnx_node(&builder, "MaxPool", "x", "y numbers"), "kernel_shape", 1);
    refuse(BASE_UNIMPLEMENTED, "MaxPool (node \"y\", opset 17): output Indices");
}
END_TEST

static void normalise(const char *names, uint32_t outputs, int64_t channels)
{
    static const char *const constants[] = {"scale", "shift", "mean"};
    static const float variances[CHANNELS + 1] = {0.5f, 1.0f, 2.0f, 0.25f, 1.0f};
    begin();
    for (size_t i = 0; i < 3; i++) {
        onnx_constant(&builder, constants[i], onnx_random(&builder, 1, &channels, &numbers, 0.5f));
    }
    onnx_constant(
        &builder, "variance",
        onnx_tensor(&builder, FLOAT, 1, &channels, variances, (size_t)channels * sizeof(float)));
    (void)onnx_node(&builder, "BatchNormalization", names, outputs == 1 ? "y" : "y m");
}

START_TEST(test_batch_normalisation_is_of_inference)
{
    normalise("x scale shift mean variance", 1, CHANNELS);
    end("-");
    expect_accepted(&builder);
    normalise("x scale shift mean variance", 1, CHANNELS + 1);
    refuse(BASE_UNIMPLEMENTED, "BatchNormalization (node \"y\", opset 17): input 1 is no constant");
    normalise("x scale shift mean x", 1, CHANNELS);
    refuse(BASE_UNIMPLEMENTED, "input 4 is no constant");
    normalise("x scale shift mean variance", 2, CHANNELS);
    refuse(BASE_UNIMPLEMENTED, "BatchNormalization (node \"y\"");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_conv");
    TCase *tests = tcase_create("conv");
    tcase_add_test(tests, test_windows_around_a_step_are_served);
    tcase_add_test(tests, test_windows_out_of_bounds_are_refused);
    tcase_add_test(tests, test_weights_that_do_not_fit_are_refused);
    tcase_add_test(tests, test_before_lengths_it_reads_all);
    tcase_add_test(tests, test_behind_lengths_it_is_refused);
    tcase_add_test(tests, test_only_time_is_convolved);
    tcase_add_test(tests, test_parts_of_a_row_as_rows_of_the_batch);
    tcase_add_test(tests, test_steps_are_no_channels);
    tcase_add_test(tests, test_pools_around_a_step_are_served);
    tcase_add_test(tests, test_other_pools_are_refused);
    tcase_add_test(tests, test_batch_normalisation_is_of_inference);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
