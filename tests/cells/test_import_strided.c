/* Convolutions, pools, padding and slices that leave another number of steps than there were: how
 * many, which sequences a model then has, and what is refused. */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/windows.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32 };

/* ---- Sequences ------------------------------------------------------------------------------ */

static void expect_sequences(uint32_t n, const struct cell_sequence *wanted)
{
    struct built built;
    load_built(&window_builder, &built);
    ck_assert_uint_eq(built.model->n_sequences, n);
    for (uint32_t s = 0; s < n; s++) {
        ck_assert_uint_eq(built.model->sequences[s].stride, wanted[s].stride);
        ck_assert_int_eq(built.model->sequences[s].add, wanted[s].add);
        ck_assert_uint_eq(built.model->sequences[s].source, wanted[s].source);
    }
    free_built(&window_builder, &built);
}

static const struct window half = {.op = "MaxPool", .taps = 2, .dilation = 1, .stride = 2};
static const struct window valid = {.op = "MaxPool", .taps = 3, .dilation = 1, .stride = 1};

START_TEST(test_strided_layers_follow_from_each_other)
{
    const struct cell_sequence wanted[] = {{.stride = 0},
                                           {.stride = 2, .add = -2, .source = 0},
                                           {.stride = 2, .add = -2, .source = 1}};
    window_begin(-1);
    (void)window_add(&half, "x", "once");
    (void)window_add(&half, "once", "y");
    window_end("turned w r b");
    expect_sequences(3, wanted);
}
END_TEST

START_TEST(test_equal_strides_are_one_sequence)
{
    const struct cell_sequence wanted[] = {{.stride = 0}, {.stride = 2, .add = -2, .source = 0}};
    window_begin(-1);
    (void)window_add(&half, "x", "one");
    (void)window_add(&half, "x", "other");
    onnx_node(&window_builder, "Add", "one other", "y");
    window_end("turned w r b");
    expect_sequences(2, wanted);
}
END_TEST

/* "shape": [0, WINDOW_CHANNELS, (steps of x + add) / by], as exporters compute a view's. */
static void add_divided_shape(int64_t add, int64_t by)
{
    const int64_t axis = 2;
    const int64_t before[] = {0, WINDOW_CHANNELS};
    onnx_constant(&window_builder, "axis", onnx_ints(&window_builder, 1, 1, &axis));
    onnx_constant(&window_builder, "add", onnx_ints(&window_builder, 1, 1, &add));
    onnx_constant(&window_builder, "by", onnx_ints(&window_builder, 1, 1, &by));
    onnx_constant(&window_builder, "before", onnx_ints(&window_builder, 1, 2, before));
    onnx_node(&window_builder, "Shape", "x", "sizes");
    onnx_node(&window_builder, "Gather", "sizes axis", "steps");
    onnx_node(&window_builder, "Add", "steps add", "more");
    onnx_node(&window_builder, "Div", "more by", "divided");
    onnx_set_int(&window_builder, onnx_node(&window_builder, "Concat", "before divided", "shape"),
                 "axis", 0);
}

/* Of n steps two strides of 2 leave n / 4, which PyTorch's exporter writes before the layers that
 * do so; or it stands behind them. */
START_TEST(test_strides_leave_what_a_shape_is_divided_to)
{
    const struct cell_sequence before[] = {{.stride = 0},
                                           {.stride = 4, .add = -4, .source = 0},
                                           {.stride = 2, .add = -2, .source = 0}};
    const struct cell_sequence behind[] = {{.stride = 0},
                                           {.stride = 2, .add = -2, .source = 0},
                                           {.stride = 2, .add = -2, .source = 1}};
    for (int is_before = 0; is_before < 2; is_before++) {
        window_begin(-1);
        if (is_before) {
            add_divided_shape(0, 4);
        }
        (void)window_add(&half, "x", "once");
        (void)window_add(&half, "once", "twice");
        if (!is_before) {
            add_divided_shape(0, 4);
        }
        onnx_node(&window_builder, "Reshape", "twice shape", "y");
        window_end("turned w r b");
        expect_sequences(3, is_before ? before : behind);
    }
}
END_TEST

START_TEST(test_a_shape_divided_to_other_numbers_is_refused)
{
    static const struct {
        int64_t add, by;
    } others[] = {{1, 4}, {-4, 4}, {0, 2}, {0, 3}, {2, 4}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        window_begin(-1);
        add_divided_shape(others[i].add, others[i].by);
        (void)window_add(&half, "x", "once");
        (void)window_add(&half, "once", "twice");
        onnx_node(&window_builder, "Reshape", "twice shape", "y");
        window_refuse(BASE_UNIMPLEMENTED, "Reshape (node \"y\"");
    }
}
END_TEST

START_TEST(test_what_padding_adds_a_window_takes)
{
    const struct cell_sequence wanted[] = {{.stride = 0}, {.stride = 1, .add = 1, .source = 0}};
    const int64_t pads[] = {0, 0, 2, 0, 0, 0};
    window_begin(-1);
    onnx_constant(&window_builder, "pads", onnx_ints(&window_builder, 1, 6, pads));
    onnx_node(&window_builder, "Pad", "x pads", "padded");
    (void)window_add(&valid, "padded", "back");
    onnx_node(&window_builder, "Add", "back x", "y");
    window_end("turned w r b");
    expect_sequences(2, wanted);
}
END_TEST

static const struct window causal = {
    .op = "Conv", .taps = 3, .dilation = 1, .stride = 1, .before = 2, .behind = 2};
static const struct window cut_off = {
    .op = "Slice", .taps = 1, .dilation = 1, .stride = 1, .behind = -2};
static const struct window but_last = {
    .op = "Slice", .taps = 1, .dilation = 1, .stride = 1, .behind = -1};

/* A block that adds what it has convolved to what it got, and one that looks one step back. */
START_TEST(test_a_causal_convolution_keeps_the_sequence)
{
    const struct cell_sequence padded[] = {{.stride = 0}, {.stride = 1, .add = 1, .source = 0}};
    const struct cell_sequence shifted[] = {{.stride = 0}, {.stride = 1, .add = -2, .source = 0}};
    const int64_t pads[] = {0, 0, 1, 0, 0, 0};
    window_begin(-1);
    (void)window_add(&causal, "x", "long");
    (void)window_add(&cut_off, "long", "back");
    onnx_node(&window_builder, "Add", "back x", "y");
    window_end("turned w r b");
    expect_sequences(2, padded);
    window_begin(-1);
    onnx_constant(&window_builder, "pads", onnx_ints(&window_builder, 1, 6, pads));
    (void)window_add(&but_last, "x", "but_last");
    onnx_node(&window_builder, "Pad", "but_last pads", "shifted");
    onnx_node(&window_builder, "Add", "shifted x", "y");
    window_end("turned w r b");
    expect_sequences(2, shifted);
}
END_TEST

START_TEST(test_parts_of_steps_that_are_refused)
{
    static const struct {
        int64_t start, stop, axis, step;
        const char *why;
    } cases[] = {
        {-3, 5, 2, 1, "a part of an axis of unknown size"}, // from both ends
        {3, -2, 2, 0, "steps of 0 along an axis of unknown size"},
        {-3, -3, 2, 1, "a part of an axis of unknown size"},
        {-(1 << 21), INT64_MAX, 2, 1, "a part of an axis of unknown size"},
        {0, 1 << 21, 2, 1, "of more than 1048576 steps"},
        {-3, INT64_MAX, 0, 1, "axis 0 is of unknown size"},
        {0, 0, 2, 1, "a part of an axis of unknown size"},
        {5000, INT64_MAX, 2, 1, "a part of an axis of unknown size"},
        {0, -5000, 2, 1, "a part of an axis of unknown size"},
        {0, INT64_MIN, 2, 1, "a part of an axis of unknown size"},
        {INT64_MAX, INT64_MIN, 2, -1, "steps of -1 along an axis of unknown size"},
        {0, INT64_MAX, 2, 0, "steps of 0 along an axis of unknown size"},
        {0, INT64_MAX, 2, INT64_MAX, "steps of 9223372036854775807 along an axis of unknown size"},
        {1, INT64_MAX, 0, 1, "axis 0 is of unknown size"},
    };
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        window_begin(-1);
        onnx_constant(&window_builder, "start", onnx_ints(&window_builder, 1, 1, &cases[i].start));
        onnx_constant(&window_builder, "stop", onnx_ints(&window_builder, 1, 1, &cases[i].stop));
        onnx_constant(&window_builder, "axis", onnx_ints(&window_builder, 1, 1, &cases[i].axis));
        onnx_constant(&window_builder, "step", onnx_ints(&window_builder, 1, 1, &cases[i].step));
        onnx_node(&window_builder, "Slice", "x start stop axis step", "y");
        window_refuse(BASE_UNIMPLEMENTED, cases[i].why);
    }
}
END_TEST

static void numbers(const char *name, int64_t value)
{
    onnx_constant(&window_builder, name, onnx_ints(&window_builder, 1, 1, &value));
}

/* Steps of x that are `by` apart, from number `first` on. */
static void every(const char *out, const char *first, const char *by)
{
    char inputs[32];
    (void)snprintf(inputs, sizeof(inputs), "x %s far axis %s", first, by);
    onnx_node(&window_builder, "Slice", inputs, out);
}

static void begin_every(void)
{
    window_begin(-1);
    numbers("far", INT64_MAX);
    numbers("axis", 2);
    numbers("n0", 0);
    numbers("n1", 1);
    numbers("n2", 2);
    numbers("n3", 3);
}

/* Where the stride divides the number of steps there are as many even ones as odd. */
START_TEST(test_numbers_that_are_equal_where_the_stride_divides)
{
    for (uint32_t by = 2; by <= 3; by++) {
        struct built built;
        begin_every();
        every("even", "n0", by == 2 ? "n2" : "n3");
        every("odd", "n1", by == 2 ? "n2" : "n3");
        onnx_node(&window_builder, "Add", "even odd", "y");
        window_end("turned w r b");
        load_built(&window_builder, &built);
        ck_assert_uint_eq(built.model->n_sequences, 2);
        ck_assert_uint_eq(built.model->sequences[0].multiple, by);
        ck_assert_uint_eq(built.model->sequences[1].stride, by);
        free_built(&window_builder, &built);
    }
    begin_every(); // of other strides
    every("even", "n0", "n2");
    every("third", "n0", "n3");
    onnx_node(&window_builder, "Add", "even third", "y");
    window_refuse(BASE_UNIMPLEMENTED, "one that may differ from it");
    begin_every(); // three steps further
    every("even", "n0", "n2");
    every("later", "n3", "n2");
    onnx_node(&window_builder, "Add", "even later", "y");
    window_refuse(BASE_UNIMPLEMENTED, "one that may differ from it");
}
END_TEST

/* "steps": of `of`. */
static void steps_of(const char *of)
{
    numbers("axis", 2);
    onnx_node(&window_builder, "Shape", of, "sizes");
    onnx_node(&window_builder, "Gather", "sizes axis", "steps");
}

/* "y": x from -n on, or up to there, where `w` leaves n steps, "less". */
static void begin_last(const struct window *w, bool is_end)
{
    window_begin(-1);
    (void)window_add(w, "x", "less");
    steps_of("less");
    onnx_node(&window_builder, "Neg", "steps", "from_end");
    numbers("begin", 0);
    numbers("far", INT64_MAX);
    onnx_node(&window_builder, "Slice", is_end ? "x begin from_end axis" : "x from_end far axis",
              "last");
}

/* As what an unpadded convolution leaves is added to the last steps of what it reads. */
START_TEST(test_last_steps_as_many_as_another_sequence_has)
{
    const struct cell_sequence wanted[] = {{.stride = 0}, {.stride = 1, .add = -3, .source = 0}};
    const struct window padded = {
        .op = "MaxPool", .taps = 3, .dilation = 1, .stride = 1, .before = 2, .behind = 2};
    struct built built;
    begin_last(&valid, false);
    onnx_node(&window_builder, "Add", "last less", "y");
    window_end("turned w r b");
    expect_sequences(2, wanted);
    begin_last(&valid, false); // of none left ONNX takes all: it must not be empty in a join
    onnx_set_int(&window_builder, onnx_node(&window_builder, "Concat", "last last", "y"), "axis",
                 2);
    window_end("turned w r b");
    load_built(&window_builder, &built);
    ck_assert_uint_eq(built.model->n_sequences, 3);
    ck_assert_uint_eq(built.model->sequences[1].steps_min, 1);
    free_built(&window_builder, &built);
    begin_last(&padded, false); // more than there are: all
    onnx_node(&window_builder, "Add", "last x", "y");
    window_end("turned w r b");
    expect_sequences(1, wanted);
    begin_last(&half, false); // of n steps n / 2: where they begin follows from n
    onnx_node(&window_builder, "Add", "last less", "y");
    window_refuse(BASE_UNIMPLEMENTED, "Slice (node \"last\", opset 17): takes a part of an axis of "
                                      "unknown size");
    begin_last(&half, true); // all but as many
    onnx_node(&window_builder, "Add", "last less", "y");
    window_refuse(BASE_UNIMPLEMENTED, "Slice (node \"last\", opset 17): takes a part of an axis of "
                                      "unknown size");
    begin_last(&valid, true); // two, or none of two
    onnx_node(&window_builder, "Add", "last last", "y");
    window_refuse(BASE_UNIMPLEMENTED, "Slice (node \"last\", opset 17): takes a part of an axis of "
                                      "unknown size");
}
END_TEST

/* The same, the start given as how many more there are; -2 of one that has more counts from the
 * end. */
START_TEST(test_a_start_that_is_the_difference_of_two_numbers)
{
    const struct cell_sequence left[] = {{.stride = 0}, {.stride = 1, .add = -3, .source = 0}};
    const struct cell_sequence kept[] = {{.stride = 0}, {.stride = 1, .add = -2, .source = 0}};
    static const char *const orders[] = {"all steps", "steps all"};
    for (int i = 0; i < 2; i++) {
        window_begin(-1);
        (void)window_add(&valid, "x", "less");
        steps_of("less");
        onnx_node(&window_builder, "Shape", "x", "all_sizes");
        onnx_node(&window_builder, "Gather", "all_sizes axis", "all");
        onnx_node(&window_builder, "Sub", orders[i], "start");
        numbers("far", INT64_MAX);
        onnx_node(&window_builder, "Slice", "x start far axis", "last");
        onnx_node(&window_builder, i == 0 ? "Add" : "Identity", i == 0 ? "last less" : "last", "y");
        window_end("turned w r b");
        expect_sequences(2, i == 0 ? left : kept);
    }
    window_begin(-1); // it varies
    (void)window_add(&half, "x", "less");
    steps_of("less");
    onnx_node(&window_builder, "Shape", "x", "all_sizes");
    onnx_node(&window_builder, "Gather", "all_sizes axis", "all");
    onnx_node(&window_builder, "Sub", "all steps", "start");
    numbers("far", INT64_MAX);
    onnx_node(&window_builder, "Slice", "x start far axis", "y");
    window_refuse(BASE_UNIMPLEMENTED, "Sub (node \"start\", opset 17): cannot compute a shape");
}
END_TEST

/* "y": what a pool of three steps leaves, each repeated three times, up to as many steps as x has.
 */
static void begin_segments(bool rounds_up)
{
    const struct window third = {.op = "AveragePool",
                                 .taps = 3,
                                 .dilation = 1,
                                 .stride = 3,
                                 .rounds_up = rounds_up,
                                 .counts_pads = true};
    const int64_t repeated[] = {1, 1, 1, 3};
    const int64_t joined[] = {0, 0, -1};
    window_begin(-1);
    (void)window_add(&third, "x", "means");
    onnx_constant(&window_builder, "repeated", onnx_ints(&window_builder, 1, 4, repeated));
    onnx_constant(&window_builder, "joined", onnx_ints(&window_builder, 1, 3, joined));
    numbers("behind", 3);
    numbers("begin", 0);
    steps_of("x");
    onnx_node(&window_builder, "Unsqueeze", "means behind", "each");
    onnx_node(&window_builder, "Expand", "each repeated", "three");
    onnx_node(&window_builder, "Reshape", "three joined", "all");
    onnx_node(&window_builder, "Slice", "all begin steps axis", "y");
}

/* As CAM++ takes the mean of each segment for all its steps. */
START_TEST(test_segments_are_cut_to_the_steps_that_they_are_of)
{
    const struct cell_sequence wanted[] = {{.stride = 0},
                                           {.stride = 3, .add = -1, .source = 0},
                                           {.stride = 1, .add = -1, .source = 1}};
    struct built built;
    begin_segments(true);
    window_end("turned w r b");
    load_built(&window_builder, &built);
    ck_assert_uint_eq(built.model->sequences[2].parts, 3);
    free_built(&window_builder, &built);
    begin_segments(true);
    window_end("turned w r b");
    expect_sequences(3, wanted);
    begin_segments(false); // without the last segment there are fewer
    window_refuse(BASE_UNIMPLEMENTED, "Slice (node \"y\", opset 17): takes a part of an axis of "
                                      "unknown size");
}
END_TEST

/* As exporters compute what -1 stands for: all elements, divided by the known dimensions. */
START_TEST(test_a_product_of_sizes_divided_by_one_of_them)
{
    static const char *const divided[] = {"all batch", "steps batch", "all all"};
    const int64_t first = 0;
    for (uint32_t i = 0; i < 3; i++) {
        window_begin(-1);
        steps_of("x");
        onnx_constant(&window_builder, "first", onnx_ints(&window_builder, 1, 1, &first));
        numbers("channels", WINDOW_CHANNELS);
        onnx_node(&window_builder, "Gather", "sizes first", "batch");
        onnx_node(&window_builder, "Mul", "batch steps", "all");
        onnx_node(&window_builder, "Div", divided[i], "left");
        onnx_set_int(&window_builder,
                     onnx_node(&window_builder, "Concat", "batch channels left", "shape"), "axis",
                     0);
        onnx_node(&window_builder, "Reshape", "x shape", "y");
        if (i == 0) {
            window_end("turned w r b");
            expect_sequences(1, &(struct cell_sequence){.stride = 0});
        } else if (i == 1) {
            window_refuse(BASE_UNIMPLEMENTED, "Div (node \"left\", opset 17): cannot compute a "
                                              "shape this way");
        } else { // 1
            window_refuse(BASE_INVALID_ARGUMENT, "the new shape has fewer elements than the old");
        }
    }
}
END_TEST

/* Of files that state a number of steps. */
START_TEST(test_known_numbers_of_steps)
{
    const struct cell_sequence wanted[] = {{.stride = 0}, {.stride = 2, .add = -2, .source = 0}};
    window_begin(7);
    (void)window_add(&half, "x", "y");
    window_end("turned w r b");
    expect_sequences(2, wanted);
    window_begin(1);
    (void)window_add(&half, "x", "y");
    window_refuse(BASE_INVALID_ARGUMENT,
                  "MaxPool (node \"y\", opset 17): nothing is left of 1 steps");
}
END_TEST

/* Lengths are of the sequence that the recurrent node runs over, not of what it follows from. */
START_TEST(test_lengths_of_what_is_left)
{
    const struct cell_sequence wanted[] = {{.stride = 0}, {.stride = 2, .add = -2, .source = 0}};
    const int64_t any = -1;
    window_begin(-1);
    onnx_input(&window_builder, "lengths", INT32, 1, &any);
    (void)window_add(&half, "x", "y");
    window_end("turned w r b lengths");
    expect_sequences(2, wanted);
    window_begin(-1);
    onnx_input(&window_builder, "lengths", INT32, 1, &any);
    (void)window_add(&half, "x", "once");
    const int64_t perm[] = {2, 0, 1};
    onnx_set_ints(&window_builder, onnx_node(&window_builder, "Transpose", "once", "before"),
                  "perm", 3, perm);
    onnx_set_int(&window_builder,
                 onnx_node(&window_builder, "GRU", "before w r b lengths", "other"), "hidden_size",
                 WINDOW_HIDDEN);
    (void)window_add(&half, "once", "y");
    onnx_output(&window_builder, "other", FLOAT, 0, NULL);
    window_builder.graph.output[0]->type = NULL;
    const int64_t turned[] = {2, 0, 1};
    onnx_set_ints(&window_builder, onnx_node(&window_builder, "Transpose", "y", "turned"), "perm",
                  3, turned);
    onnx_set_int(&window_builder, onnx_node(&window_builder, "GRU", "turned w r b", "out"),
                 "hidden_size", WINDOW_HIDDEN);
    onnx_output(&window_builder, "out", FLOAT, 0, NULL);
    window_builder.graph.output[1]->type = NULL;
    const struct cell_sequence four[] = {{.stride = 0},
                                         {.stride = 2, .add = -2, .source = 0},
                                         {.stride = 1, .add = -1, .source = 1},
                                         {.stride = 2, .add = -2, .source = 1}};
    expect_sequences(4, four); // what has lengths has steps of its own
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------- */

START_TEST(test_lengths_that_may_differ_are_refused)
{
    const int64_t dims[] = {-1, WINDOW_CHANNELS, -1};
    window_begin(-1);
    (void)window_add(&half, "x", "less");
    onnx_node(&window_builder, "Add", "x less", "y");
    window_refuse(BASE_UNIMPLEMENTED, "a number of steps that follows from another's");
    window_begin(-1);
    onnx_input(&window_builder, "z", FLOAT, 3, dims);
    (void)window_add(&half, "x", "one");
    (void)window_add(&half, "z", "other");
    onnx_node(&window_builder, "Add", "one other", "y");
    window_refuse(BASE_UNIMPLEMENTED, "a number of steps that follows from another's");
    window_begin(-1);
    (void)window_add(&half, "x", "one");
    (void)window_add(&valid, "x", "other");
    onnx_node(&window_builder, "Add", "one other", "y");
    window_refuse(BASE_UNIMPLEMENTED, "a number of steps that follows from another's");
}
END_TEST

START_TEST(test_too_many_strides_are_refused)
{
    char from[16] = "x";
    window_begin(-1);
    for (uint32_t i = 0; i < CELL_SEQUENCES_MAX; i++) {
        char to[16] = "y";
        if (i + 1 < CELL_SEQUENCES_MAX) {
            (void)snprintf(to, sizeof(to), "v%u", i);
        }
        (void)window_add(&half, from, to);
        memcpy(from, to, sizeof(from));
    }
    window_refuse(BASE_UNIMPLEMENTED, "more than 32 time axes of different lengths");
}
END_TEST

static void pad(int64_t opset, size_t n, const int64_t *pads, float value)
{
    window_begin(-1);
    window_builder.opset.version = opset;
    onnx_constant(&window_builder, "pads", onnx_ints(&window_builder, 1, n, pads));
    onnx_constant(&window_builder, "value",
                  onnx_tensor(&window_builder, FLOAT, 0, NULL, &value, sizeof(value)));
    onnx_node(&window_builder, "Pad", "x pads value", "y");
}

/* The node of the window's builder that makes the value. */
static Onnx__NodeProto *node_called(const char *value)
{
    for (size_t i = 0; i < window_builder.graph.n_node; i++) {
        if (strcmp(window_builder.graph.node[i]->output[0], value) == 0) {
            return window_builder.graph.node[i];
        }
    }
    ck_abort_msg("no node makes %s", value);
    return NULL;
}

START_TEST(test_padding_of_another_kind_is_refused)
{
    const int64_t behind[] = {0, 0, 0, 0, 0, 1};
    const int64_t features[] = {0, 1, 0, 0, 0, 0};
    const int64_t batch[] = {1, 0, 0, 0, 0, 0};
    const int64_t both[] = {0, 1, 1, 0, 0, 0};
    const int64_t less[] = {0, 0, -1, 0, 0, 0};
    const int64_t far[] = {0, 0, -5000, 0, 0, 0};
    const int64_t empty[] = {0, -1, 0, 0, -1, 0};
    const int64_t none[] = {0, 0, 0, 0, 0, 0};
    const struct cell_sequence wanted[] = {{.stride = 0}, {.stride = 1, .add = 0, .source = 0}};
    pad(17, 6, behind, 0.0f);
    window_end("turned w r b");
    expect_sequences(2, wanted);
    pad(17, 6, none, 0.0f);
    window_end("turned w r b");
    expect_sequences(1, wanted);
    pad(17, 6, behind, 1.0f);
    window_refuse(BASE_UNIMPLEMENTED, "Pad (node \"y\", opset 17): with another value than 0");
    pad(17, 6, features, 0.0f); // one channel more than the GRU reads
    window_refuse(BASE_INVALID_ARGUMENT, "W (\"w\") is float32 [1, 9, 2]; direction, input and");
    pad(17, 6, batch, 0.0f);
    window_refuse(BASE_UNIMPLEMENTED, "input \"x\": axis 0 is of unknown size");
    pad(17, 6, both, 0.0f); // what it computes: picture_dilated in test_import_exports.c
    window_refuse(BASE_INVALID_ARGUMENT, "W (\"w\") is float32 [1, 9, 2]; direction, input and");
    pad(17, 6, less, 0.0f); // the first step left out; what it computes: loop_mixed
    window_end("turned w r b");
    expect_sequences(
        2, (const struct cell_sequence[]){{.stride = 0}, {.stride = 1, .add = -2, .source = 0}});
    pad(17, 6, far, 0.0f);
    window_refuse(BASE_UNIMPLEMENTED, "padding of -5000 and 0; -4096 to 4096 each");
    pad(17, 6, empty, 0.0f);
    window_refuse(BASE_INVALID_ARGUMENT, "nothing is left of 2 steps");
    pad(17, 6, less, 0.0f);
    onnx_set_string(&window_builder, node_called("y"), "mode", "edge");
    window_refuse(BASE_UNIMPLEMENTED, "padding of -1 and 0; 0 to 4096 each");
    pad(17, 4, behind, 0.0f);
    window_refuse(BASE_INVALID_ARGUMENT, "pads of 4 numbers");
    window_begin(-1);
    onnx_constant(&window_builder, "pads", onnx_ints(&window_builder, 1, 6, behind));
    onnx_set_string(&window_builder, onnx_node(&window_builder, "Pad", "x pads", "y"), "mode",
                    "symmetric");
    window_refuse(BASE_UNIMPLEMENTED, "of another mode than constant, edge, reflect and wrap");
}
END_TEST

/* pads as PyTorch writes them: a constant, cut in steps of its own. */
static void pad_sliced(int64_t start, int64_t stop, int64_t step, const int64_t *pads, size_t n)
{
    window_begin(-1);
    onnx_constant(&window_builder, "all", onnx_ints(&window_builder, 1, n, pads));
    onnx_constant(&window_builder, "start", onnx_ints(&window_builder, 1, 1, &start));
    onnx_constant(&window_builder, "stop", onnx_ints(&window_builder, 1, 1, &stop));
    onnx_constant(&window_builder, "axes", onnx_ints(&window_builder, 1, 1, (const int64_t[]){0}));
    onnx_constant(&window_builder, "step", onnx_ints(&window_builder, 1, 1, &step));
    onnx_node(&window_builder, "Slice", "all start stop axes step", "pads");
    onnx_node(&window_builder, "Pad", "x pads", "y");
}

START_TEST(test_slices_of_constants_may_have_any_step)
{
    static const int64_t pads[] = {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const int64_t behind[] = {0, 0, 0, 0, 0, 3};
    static const struct {
        int64_t start, stop, step;
        size_t n;
    } cuts[] = {{-1, INT64_MIN, -1, 6},
                {5, -7, -1, 6},
                {100, INT64_MIN + 1, -1, 6},
                {10, INT64_MIN, -2, 12},
                {0, INT64_MAX, 2, 6}};
    for (size_t i = 0; i < 4; i++) {
        const struct cell_sequence wanted[] = {{.stride = 0}, {.stride = 1, .add = 2, .source = 0}};
        pad_sliced(cuts[i].start, cuts[i].stop, cuts[i].step, pads, cuts[i].n);
        window_end("turned w r b");
        expect_sequences(2, wanted);
    }
    pad_sliced(cuts[4].start, cuts[4].stop, cuts[4].step, behind, 6);
    window_refuse(BASE_INVALID_ARGUMENT, "pads of 3 numbers");
    pad_sliced(2, 5, -1, behind, 6);
    window_refuse(BASE_INVALID_ARGUMENT, "pads of 0 numbers");
    pad_sliced(0, 5, 0, behind, 6);
    window_refuse(BASE_UNIMPLEMENTED, "Slice (node \"pads\", opset 17): steps of 0");
    pad_sliced(0, INT64_MAX, INT64_MAX, behind, 6);
    window_refuse(BASE_INVALID_ARGUMENT, "pads of 1 numbers");
    pad_sliced(5, INT64_MIN, INT64_MIN, behind, 6);
    window_refuse(BASE_INVALID_ARGUMENT, "pads of 1 numbers");
}
END_TEST

/* ---- Numbers of steps ----------------------------------------------------------------------- */

START_TEST(test_steps_that_follow)
{
    const struct cell_sequence sequence = {.stride = 3, .add = -4};
    const uint32_t wanted[] = {0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3};
    for (uint32_t n = 0; n < sizeof(wanted) / sizeof(wanted[0]); n++) {
        ck_assert_uint_eq(cell_sequence_steps(&sequence, n), wanted[n]);
    }
    struct cell_model model = {.n_sequences = 3};
    uint32_t steps[CELL_SEQUENCES_MAX];
    model.sequences[1] = (struct cell_sequence){.stride = 2, .add = -3, .source = 0};
    model.sequences[2] = (struct cell_sequence){.stride = 2, .add = -3, .source = 1};
    cell_model_steps_min(&model, steps);
    ck_assert_uint_eq(steps[0], 7);
    ck_assert_uint_eq(steps[1], 3);
    ck_assert_uint_eq(steps[2], 1);
    cell_model_steps(&model, 7, steps);
    ck_assert_uint_eq(steps[2], 1);
    cell_model_steps(&model, 6, steps);
    ck_assert_uint_eq(steps[2], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_strided");
    TCase *tests = tcase_create("strided");
    tcase_add_test(tests, test_a_causal_convolution_keeps_the_sequence);
    tcase_add_test(tests, test_parts_of_steps_that_are_refused);
    tcase_add_test(tests, test_strided_layers_follow_from_each_other);
    tcase_add_test(tests, test_equal_strides_are_one_sequence);
    tcase_add_test(tests, test_strides_leave_what_a_shape_is_divided_to);
    tcase_add_test(tests, test_a_shape_divided_to_other_numbers_is_refused);
    tcase_add_test(tests, test_what_padding_adds_a_window_takes);
    tcase_add_test(tests, test_numbers_that_are_equal_where_the_stride_divides);
    tcase_add_test(tests, test_last_steps_as_many_as_another_sequence_has);
    tcase_add_test(tests, test_a_start_that_is_the_difference_of_two_numbers);
    tcase_add_test(tests, test_segments_are_cut_to_the_steps_that_they_are_of);
    tcase_add_test(tests, test_a_product_of_sizes_divided_by_one_of_them);
    tcase_add_test(tests, test_known_numbers_of_steps);
    tcase_add_test(tests, test_lengths_of_what_is_left);
    tcase_add_test(tests, test_lengths_that_may_differ_are_refused);
    tcase_add_test(tests, test_too_many_strides_are_refused);
    tcase_add_test(tests, test_padding_of_another_kind_is_refused);
    tcase_add_test(tests, test_slices_of_constants_may_have_any_step);
    tcase_add_test(tests, test_steps_that_follow);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
