/* Convolutions, pools and padding over two axes, and rows in another order: what is refused, and
 * how (what is served computes what PyTorch does: test_import_exports.c,
 * tests/server/test_readers.c). Behind each is the mean of what it leaves at a step, and a GRU over
 * that. */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/windows.h"
#include "tests/util.h"

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { CHANNELS = 2, HEIGHT = 6 };

static struct onnx_builder builder;
static struct base_random numbers;

static void begin_with(int64_t channels, int64_t height, int64_t width)
{
    const int64_t dims[] = {-1, channels, height, width};
    numbers = util_random(1);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", 1, WINDOW_HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 4, dims);
}

static void begin(void)
{
    begin_with(CHANNELS, HEIGHT, -1);
}

static Onnx__NodeProto *convolve(int64_t filters, int64_t channels, int64_t high, int64_t wide)
{
    const int64_t dims[] = {filters, channels, high, wide};
    onnx_constant(&builder, "wc", onnx_random(&builder, 4, dims, &numbers, 0.5f));
    return onnx_node(&builder, "Conv", "x wc", "y");
}

static Onnx__NodeProto *pool(const char *op, int64_t high, int64_t wide)
{
    const int64_t kernel[] = {high, wide};
    Onnx__NodeProto *node = onnx_node(&builder, op, "x", "y");
    onnx_set_ints(&builder, node, "kernel_shape", 2, kernel);
    return node;
}

static void set_two(Onnx__NodeProto *node, const char *name, int64_t first, int64_t second)
{
    const int64_t values[] = {first, second};
    onnx_set_ints(&builder, node, name, 2, values);
}

static void set_pads(Onnx__NodeProto *node, int64_t above, int64_t left, int64_t below,
                     int64_t right)
{
    const int64_t pads[] = {above, left, below, right};
    onnx_set_ints(&builder, node, "pads", 4, pads);
}

static void end(void)
{
    const int64_t features[] = {1, 2};
    window_mean(&builder, 2, features);
    window_answers(&builder, (const char *const[]){"out", NULL});
}

static void accept(void)
{
    end();
    expect_accepted(&builder);
}

static void refuse(enum base_status status, const char *why)
{
    end();
    expect_refused(&builder, status, why);
}

START_TEST(test_both_axes_have_kernels_of_their_own)
{
    begin();
    (void)convolve(3, CHANNELS, 3, 2);
    accept();
    begin();
    Onnx__NodeProto *node = convolve(3, CHANNELS, 4, 5);
    set_two(node, "strides", 2, 3);
    set_pads(node, 1, 2, 3, 0);
    accept();
    begin();
    set_two(convolve(3, CHANNELS, 2, 2), "dilations", 5, 3);
    accept();
    begin(); // of a known height it may have a stride
    node = convolve(3, CHANNELS, 3, 3);
    set_two(node, "strides", 4, 1);
    onnx_set_string(&builder, node, "auto_pad", "SAME_UPPER");
    accept();
    begin();
    onnx_set_int(&builder, convolve(CHANNELS, 1, 3, 3), "group", CHANNELS);
    accept();
}
END_TEST

START_TEST(test_attributes_of_another_number_of_axes)
{
    const int64_t three[] = {1, 1, 1};
    begin();
    onnx_set_ints(&builder, convolve(3, CHANNELS, 3, 3), "strides", 3, three);
    refuse(BASE_INVALID_ARGUMENT, "Conv (node \"y\", opset 17): strides of 3 axes");
    begin();
    onnx_set_ints(&builder, convolve(3, CHANNELS, 3, 3), "dilations", 1, three);
    refuse(BASE_INVALID_ARGUMENT, "dilations of 1 axes");
    begin();
    set_two(convolve(3, CHANNELS, 3, 3), "pads", 1, 1);
    refuse(BASE_INVALID_ARGUMENT, "pads of 2 numbers");
    begin();
    set_two(convolve(3, CHANNELS, 3, 3), "kernel_shape", 3, 5);
    refuse(BASE_UNIMPLEMENTED, "Conv (node \"y\"");
}
END_TEST

START_TEST(test_weights_that_do_not_fit_a_picture)
{
    const int64_t dims[] = {3, CHANNELS, 3};
    begin();
    (void)convolve(3, CHANNELS + 1, 3, 3);
    refuse(BASE_INVALID_ARGUMENT,
           "weights \"wc\", float32 [3, 3, 3, 3], that do not fit x of 2 channels");
    begin();
    onnx_constant(&builder, "wc", onnx_random(&builder, 3, dims, &numbers, 0.5f));
    (void)onnx_node(&builder, "Conv", "x wc", "y");
    refuse(BASE_UNIMPLEMENTED, "weights that are no constant of floats, of rank 4");
    begin_with(4, HEIGHT, -1);
    onnx_set_int(&builder, convolve(4, 2, 3, 3), "group", 2);
    accept();
    begin_with(4, HEIGHT, -1);
    onnx_set_int(&builder, convolve(5, 2, 3, 3), "group", 2);
    refuse(BASE_INVALID_ARGUMENT,
           "float32 [5, 2, 3, 3], that do not fit x of 4 channels in groups");
}
END_TEST

START_TEST(test_heights_that_do_not_fit)
{
    begin();
    (void)convolve(3, CHANNELS, HEIGHT + 1, 1);
    refuse(BASE_INVALID_ARGUMENT, "nothing is left of 6 steps");
    begin_with(CHANNELS, -1, -1);
    (void)convolve(3, CHANNELS, 3, 3);
    refuse(BASE_UNIMPLEMENTED, "input \"x\": axis 2 is of unknown size");
    begin_with(1, 2048, -1); // of 1024 filters: 2 million elements
    (void)convolve(1024, 1, 1, 3);
    refuse(BASE_UNIMPLEMENTED, "of more than 1048576 elements");
    begin_with(1, 1, -1); // padding makes a height of its own
    set_pads(convolve(3, 1, 1, 1), 2, 0, 2, 0);
    accept();
}
END_TEST

START_TEST(test_pools_of_pictures)
{
    begin();
    Onnx__NodeProto *node = pool("MaxPool", 3, 3);
    set_two(node, "strides", 2, 2);
    set_pads(node, 1, 1, 1, 1);
    onnx_set_int(&builder, node, "ceil_mode", 1);
    accept();
    begin();
    set_two(pool("MaxPool", 2, 2), "dilations", 3, 2);
    accept();
    begin();
    node = pool("MaxPool", 3, 1);
    set_two(node, "dilations", 2, 1);
    set_pads(node, 1, 0, 1, 0);
    refuse(BASE_UNIMPLEMENTED, "MaxPool (node \"y\", opset 17): padding beside dilations, along");
    begin();
    set_pads(pool("AveragePool", 2, 2), 2, 0, 0, 0);
    refuse(BASE_UNIMPLEMENTED, "a window that may lie beyond the ends: 2 steps, 1 apart, with 2 "
                               "and 0 of padding");
    for (int64_t right = 0; right < 2; right++) { // without padding there is none to count
        begin();
        node = pool("AveragePool", 3, 3);
        set_two(node, "strides", 2, 1);
        set_pads(node, 0, 0, 0, right);
        onnx_set_int(&builder, node, "count_include_pad", 1);
        onnx_set_int(&builder, node, "ceil_mode", 1);
        if (right == 0) {
            accept();
        } else {
            refuse(BASE_UNIMPLEMENTED, "ceil_mode beside count_include_pad");
        }
    }
}
END_TEST

/* No axis of it is the time: along the height only, of what has no steps. */
START_TEST(test_a_picture_without_steps)
{
    const int64_t steps[] = {-1, -1, 1};
    for (uint32_t way = 0; way < 3; way++) {
        begin_with(CHANNELS, HEIGHT, way == 0 ? 1 : 4);
        onnx_input(&builder, "z", FLOAT, 3, steps);
        (void)convolve(1, CHANNELS, HEIGHT, way < 2 ? 1 : 4);
        const int64_t shape[] = {1, -1, 1};
        onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 3, shape));
        (void)onnx_node(&builder, "GlobalAveragePool", "y", "mean");
        (void)onnx_node(&builder, "Reshape", "mean shape", "flat");
        (void)onnx_node(&builder, "Add", "z flat", "sum");
        onnx_set_int(&builder, onnx_node(&builder, "GRU", "sum w r b", "out"), "hidden_size",
                     WINDOW_HIDDEN);
        onnx_output(&builder, "out", FLOAT, 0, NULL);
        builder.graph.output[0]->type = NULL;
        expect_accepted(&builder); // the last two: four places within the row
    }
}
END_TEST

START_TEST(test_functions)
{
    static const char *const names[] = {"Elu",       "HardSigmoid", "HardSwish",
                                        "LeakyRelu", "Softsign",    "ThresholdedRelu"};
    const int64_t slopes[] = {CHANNELS, 1, 1};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        begin();
        (void)onnx_node(&builder, names[i], "x", "y");
        accept();
    }
    begin();
    onnx_constant(&builder, "slope", onnx_random(&builder, 3, slopes, &numbers, 0.5f));
    (void)onnx_node(&builder, "PRelu", "x slope", "y");
    accept();
    begin();
    (void)onnx_node(&builder, "PRelu", "x x", "y");
    refuse(BASE_UNIMPLEMENTED, "PRelu (node \"y\", opset 17): a slope that is no constant");
    begin();
    onnx_set_float(&builder, onnx_node(&builder, "LeakyRelu", "x", "y"), "alpha", INFINITY);
    refuse(BASE_INVALID_ARGUMENT, "alpha or beta is not finite");
}
END_TEST

/* Each reads two steps of the one before: a stage of its own. */
static void stack(uint32_t convolutions)
{
    char wire[48];
    begin_with(1, 1, -1);
    const int64_t dims[] = {1, 1, 1, 2};
    const int64_t unused = 16384; // a file may take memory as it is long, under asan more of it
    onnx_constant(&builder, "wc", onnx_random(&builder, 4, dims, &numbers, 0.5f));
    onnx_constant(&builder, "unused", onnx_random(&builder, 1, &unused, &numbers, 0.5f));
    for (uint32_t i = 0; i < convolutions; i++) {
        char from[16] = "x";
        char to[16] = "y";
        if (i > 0) {
            snprintf(from, sizeof(from), "y%u", i - 1);
        }
        if (i + 1 < convolutions) {
            snprintf(to, sizeof(to), "y%u", i);
        }
        snprintf(wire, sizeof(wire), "%s wc", from);
        set_pads(onnx_node(&builder, "Conv", wire, to), 0, 0, 0, 1);
    }
}

START_TEST(test_as_many_stages_as_there_may_be)
{
    stack(CELL_STAGES_MAX - 1); // and the GRU
    accept();
    stack(CELL_STAGES_MAX);
    refuse(BASE_UNIMPLEMENTED, "more than 256 stages");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_pictures");
    TCase *tests = tcase_create("pictures");
    tcase_add_test(tests, test_both_axes_have_kernels_of_their_own);
    tcase_add_test(tests, test_attributes_of_another_number_of_axes);
    tcase_add_test(tests, test_weights_that_do_not_fit_a_picture);
    tcase_add_test(tests, test_heights_that_do_not_fit);
    tcase_add_test(tests, test_pools_of_pictures);
    tcase_add_test(tests, test_a_picture_without_steps);
    tcase_add_test(tests, test_functions);
    tcase_add_test(tests, test_as_many_stages_as_there_may_be);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
