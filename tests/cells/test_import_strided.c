/* Convolutions, pools and padding that leave another number of steps than there were: how many,
 * what they hold (against plain loops), which sequences a model then has, and what is refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32 };
enum { CHANNELS = 2, HIDDEN = 3, BATCH = 2, STEPS_MAX = 9 };

static struct onnx_builder builder;
static struct base_random numbers;

/* x [batch, channels, time]; the case adds nodes that make `y` of it, of as many channels. */
static void begin(int64_t time)
{
    const int64_t dims[] = {-1, CHANNELS, time};
    numbers = util_random(1);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", CHANNELS, HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
}

/* A GRU over the steps of y; outputs y and its. */
static void end(const char *operands)
{
    const int64_t perm[] = {2, 0, 1};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", operands, "out"), "hidden_size", HIDDEN);
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

static void refuse(enum base_status status, const char *why)
{
    end("turned w r b");
    expect_refused(&builder, status, why);
}

/* ---- Windows of all kinds ------------------------------------------------------------------ */

/* What a node does along the steps. */
struct window {
    const char *op;
    int64_t taps, dilation, stride, before, behind;
    bool rounds_up, counts_pads;
};

static Onnx__NodeProto *add_window(const struct window *w, const char *from, const char *to)
{
    const int64_t pads[] = {w->before, w->behind};
    const int64_t dims[] = {CHANNELS, 1, w->taps};
    char operands[32];
    const bool is_conv = strcmp(w->op, "Conv") == 0;
    (void)snprintf(operands, sizeof(operands), is_conv ? "%s wc" : "%s", from);
    if (is_conv) {
        onnx_constant(&builder, "wc", onnx_random(&builder, 3, dims, &numbers, 0.5f));
    }
    Onnx__NodeProto *node = onnx_node(&builder, w->op, operands, to);
    onnx_set_ints(&builder, node, "kernel_shape", 1, &w->taps);
    onnx_set_ints(&builder, node, "strides", 1, &w->stride);
    onnx_set_ints(&builder, node, "dilations", 1, &w->dilation);
    onnx_set_ints(&builder, node, "pads", 2, pads);
    if (is_conv) {
        onnx_set_int(&builder, node, "group", CHANNELS);
        return node;
    }
    onnx_set_int(&builder, node, "ceil_mode", w->rounds_up ? 1 : 0);
    if (strcmp(w->op, "AveragePool") == 0) {
        onnx_set_int(&builder, node, "count_include_pad", w->counts_pads ? 1 : 0);
    }
    return node;
}

/* As PyTorch has it. */
static int64_t steps_left(const struct window *w, int64_t time)
{
    const int64_t rest = time + w->before + w->behind - w->dilation * (w->taps - 1) - 1;
    const int64_t up = w->rounds_up ? w->stride - 1 : 0;
    const int64_t left = rest + up < 0 ? 0 : (rest + up) / w->stride + 1;
    return w->rounds_up && (left - 1) * w->stride >= time + w->before ? left - 1 : left;
}

/* What a window gives at step t of a channel, whose steps are at[0], at[step] and so on. */
static double expected(const struct window *w, const double *at, size_t step, int64_t time,
                       const float *weights, int64_t t)
{
    double sum = 0.0;
    double largest = -INFINITY;
    int64_t inside = 0;
    for (int64_t k = 0; k < w->taps; k++) {
        const int64_t from = t * w->stride + k * w->dilation - w->before;
        if (from >= 0 && from < time) {
            const double x = at[(size_t)from * step];
            sum += weights == NULL ? x : x * (double)weights[k];
            largest = fmax(largest, x);
            inside++;
        }
    }
    if (strcmp(w->op, "AveragePool") == 0) {
        return sum / (double)(w->counts_pads ? w->taps : inside);
    }
    return strcmp(w->op, "MaxPool") == 0 ? largest : sum;
}

/* Runs the model on sequences of so many steps, and compares y. */
static void compare(const struct cell_model *model, const struct window *w, const float *weights,
                    int64_t time)
{
    struct replay_tensor x = {.rank = 3, .dims = {BATCH, CHANNELS, time}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    const int64_t left = steps_left(w, time);
    x.count = (size_t)(BATCH * CHANNELS * time);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)base_random_f32(&numbers, -2.0f, -0.5f); // below the zeros beyond
    }
    replay_run(model, &x, outputs);
    ck_assert_int_eq(outputs[0].dims[2], left);
    for (int64_t row = 0; row < BATCH * CHANNELS; row++) {
        const float *own = weights == NULL ? NULL : weights + row % CHANNELS * w->taps;
        for (int64_t t = 0; t < left; t++) {
            const double want = expected(w, x.data + row * time, 1, time, own, t);
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
    return strcmp(w->op, "Conv") != 0 &&
           (w->counts_pads ? w->rounds_up : has_much || w->dilation > 1);
}

/* One model of the window, at all lengths; true: it is served. */
static bool try_window(const struct window *w)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    uint32_t least[CELL_SEQUENCES_MAX];
    size_t length = 0;
    begin(-1);
    (void)add_window(w, "x", "y");
    end("turned w r b");
    const bool is_conv = strcmp(w->op, "Conv") == 0;
    const Onnx__TensorProto *constant = is_conv ? constant_of(&builder, "wc") : NULL;
    const float *weights = is_conv ? (const float *)(const void *)constant->raw_data.data : NULL;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    const enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length}, "test", NULL, &model, &error);
    if (status == BASE_OK) {
        cell_model_steps_min(model, least);
        const uint32_t given = model->outputs[0].sequence == 0 ? 0 : model->sequences[1].source;
        for (int64_t time = least[given]; time <= STEPS_MAX; time++) {
            compare(model, w, weights, time);
        }
        ck_assert(least[given] == 1 || steps_left(w, (int64_t)least[given] - 1) == 0);
    } else {
        ck_assert_msg(status == BASE_UNIMPLEMENTED && may_be_refused(w), "%s", error.message);
    }
    cell_model_free(registry, model);
    cell_registry_free(registry);
    onnx_release(&builder);
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

/* ---- Sequences ------------------------------------------------------------------------------ */

static void expect_sequences(uint32_t n, const struct cell_sequence *wanted)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    const enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length}, "test", NULL, &model, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(model->n_sequences, n);
    for (uint32_t s = 0; s < n; s++) {
        ck_assert_uint_eq(model->sequences[s].stride, wanted[s].stride);
        ck_assert_int_eq(model->sequences[s].add, wanted[s].add);
        ck_assert_uint_eq(model->sequences[s].source, wanted[s].source);
    }
    cell_model_free(registry, model);
    cell_registry_free(registry);
    onnx_release(&builder);
}

static const struct window half = {.op = "MaxPool", .taps = 2, .dilation = 1, .stride = 2};
static const struct window valid = {.op = "MaxPool", .taps = 3, .dilation = 1, .stride = 1};

START_TEST(test_strided_layers_follow_from_each_other)
{
    const struct cell_sequence wanted[] = {{0, 0, 0}, {2, -2, 0}, {2, -2, 1}};
    begin(-1);
    (void)add_window(&half, "x", "once");
    (void)add_window(&half, "once", "y");
    end("turned w r b");
    expect_sequences(3, wanted);
}
END_TEST

START_TEST(test_equal_strides_are_one_sequence)
{
    const struct cell_sequence wanted[] = {{0, 0, 0}, {2, -2, 0}};
    begin(-1);
    (void)add_window(&half, "x", "one");
    (void)add_window(&half, "x", "other");
    onnx_node(&builder, "Add", "one other", "y");
    end("turned w r b");
    expect_sequences(2, wanted);
}
END_TEST

START_TEST(test_what_padding_adds_a_window_takes)
{
    const struct cell_sequence wanted[] = {{0, 0, 0}, {1, 1, 0}};
    const int64_t pads[] = {0, 0, 2, 0, 0, 0};
    begin(-1);
    onnx_constant(&builder, "pads", onnx_ints(&builder, 1, 6, pads));
    onnx_node(&builder, "Pad", "x pads", "padded");
    (void)add_window(&valid, "padded", "back");
    onnx_node(&builder, "Add", "back x", "y");
    end("turned w r b");
    expect_sequences(2, wanted);
}
END_TEST

/* Of files that state a number of steps. */
START_TEST(test_known_numbers_of_steps)
{
    const struct cell_sequence wanted[] = {{0, 0, 0}, {2, -2, 0}};
    begin(7);
    (void)add_window(&half, "x", "y");
    end("turned w r b");
    expect_sequences(2, wanted);
    begin(1);
    (void)add_window(&half, "x", "y");
    refuse(BASE_INVALID_ARGUMENT, "MaxPool (node \"y\", opset 17): nothing is left of 1 steps");
}
END_TEST

/* Lengths are of the sequence that the recurrent node runs over, not of what it follows from. */
START_TEST(test_lengths_of_what_is_left)
{
    const struct cell_sequence wanted[] = {{0, 0, 0}, {2, -2, 0}};
    const int64_t any = -1;
    begin(-1);
    onnx_input(&builder, "lengths", INT32, 1, &any);
    (void)add_window(&half, "x", "y");
    end("turned w r b lengths");
    expect_sequences(2, wanted);
    begin(-1);
    onnx_input(&builder, "lengths", INT32, 1, &any);
    (void)add_window(&half, "x", "once");
    const int64_t perm[] = {2, 0, 1};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "once", "before"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "before w r b lengths", "other"),
                 "hidden_size", HIDDEN);
    (void)add_window(&half, "once", "y");
    onnx_output(&builder, "other", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    const int64_t turned[] = {2, 0, 1};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, turned);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "out"), "hidden_size",
                 HIDDEN);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "MaxPool (node \"y\", opset 17): beside sequence_lens");
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------- */

START_TEST(test_lengths_that_may_differ_are_refused)
{
    const int64_t dims[] = {-1, CHANNELS, -1};
    begin(-1);
    (void)add_window(&half, "x", "less");
    onnx_node(&builder, "Add", "x less", "y");
    refuse(BASE_UNIMPLEMENTED, "a number of steps that follows from another's");
    begin(-1);
    onnx_input(&builder, "z", FLOAT, 3, dims);
    (void)add_window(&half, "x", "one");
    (void)add_window(&half, "z", "other");
    onnx_node(&builder, "Add", "one other", "y");
    refuse(BASE_UNIMPLEMENTED, "a number of steps that follows from another's");
    begin(-1);
    (void)add_window(&half, "x", "one");
    (void)add_window(&valid, "x", "other");
    onnx_node(&builder, "Add", "one other", "y");
    refuse(BASE_UNIMPLEMENTED, "a number of steps that follows from another's");
}
END_TEST

START_TEST(test_too_many_strides_are_refused)
{
    static const char *const values[] = {"x", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "y"};
    begin(-1);
    for (uint32_t i = 0; i < CELL_SEQUENCES_MAX; i++) {
        (void)add_window(&half, values[i], values[i + 1]);
    }
    refuse(BASE_UNIMPLEMENTED, "more than 8 time axes of different lengths");
}
END_TEST

static void pad(int64_t opset, size_t n, const int64_t *pads, float value)
{
    begin(-1);
    builder.opset.version = opset;
    onnx_constant(&builder, "pads", onnx_ints(&builder, 1, n, pads));
    onnx_constant(&builder, "value", onnx_tensor(&builder, FLOAT, 0, NULL, &value, sizeof(value)));
    onnx_node(&builder, "Pad", "x pads value", "y");
}

START_TEST(test_padding_of_another_kind_is_refused)
{
    const int64_t behind[] = {0, 0, 0, 0, 0, 1};
    const int64_t features[] = {0, 1, 0, 0, 0, 0};
    const int64_t batch[] = {1, 0, 0, 0, 0, 0};
    const int64_t both[] = {0, 1, 1, 0, 0, 0};
    const int64_t less[] = {0, 0, -1, 0, 0, 0};
    const int64_t none[] = {0, 0, 0, 0, 0, 0};
    const struct cell_sequence wanted[] = {{0, 0, 0}, {1, 0, 0}};
    pad(17, 6, behind, 0.0f);
    end("turned w r b");
    expect_sequences(2, wanted);
    pad(17, 6, none, 0.0f);
    end("turned w r b");
    expect_sequences(1, wanted);
    pad(17, 6, behind, 1.0f);
    refuse(BASE_UNIMPLEMENTED, "Pad (node \"y\", opset 17): with another value than 0");
    pad(17, 6, features, 0.0f); // one channel more than the GRU reads
    refuse(BASE_INVALID_ARGUMENT, "W is not a float tensor of the shape");
    pad(17, 6, batch, 0.0f);
    refuse(BASE_UNIMPLEMENTED, "input \"x\": axis 0 is of unknown size");
    pad(17, 6, both, 0.0f);
    refuse(BASE_UNIMPLEMENTED, "along axes 1 and 2 at once");
    pad(17, 6, less, 0.0f);
    refuse(BASE_UNIMPLEMENTED, "padding of -1 and 0; 0 to 256 each");
    pad(17, 4, behind, 0.0f);
    refuse(BASE_INVALID_ARGUMENT, "pads of 4 numbers");
    begin(-1);
    onnx_constant(&builder, "pads", onnx_ints(&builder, 1, 6, behind));
    onnx_set_string(&builder, onnx_node(&builder, "Pad", "x pads", "y"), "mode", "reflect");
    refuse(BASE_UNIMPLEMENTED, "of another mode than constant");
}
END_TEST

/* pads as PyTorch writes them: a constant, cut in steps of its own. */
static void pad_sliced(int64_t start, int64_t stop, int64_t step, const int64_t *pads, size_t n)
{
    begin(-1);
    onnx_constant(&builder, "all", onnx_ints(&builder, 1, n, pads));
    onnx_constant(&builder, "start", onnx_ints(&builder, 1, 1, &start));
    onnx_constant(&builder, "stop", onnx_ints(&builder, 1, 1, &stop));
    onnx_constant(&builder, "axes", onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    onnx_constant(&builder, "step", onnx_ints(&builder, 1, 1, &step));
    onnx_node(&builder, "Slice", "all start stop axes step", "pads");
    onnx_node(&builder, "Pad", "x pads", "y");
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
        const struct cell_sequence wanted[] = {{0, 0, 0}, {1, 2, 0}};
        pad_sliced(cuts[i].start, cuts[i].stop, cuts[i].step, pads, cuts[i].n);
        end("turned w r b");
        expect_sequences(2, wanted);
    }
    pad_sliced(cuts[4].start, cuts[4].stop, cuts[4].step, behind, 6);
    refuse(BASE_INVALID_ARGUMENT, "pads of 3 numbers");
    pad_sliced(2, 5, -1, behind, 6);
    refuse(BASE_INVALID_ARGUMENT, "pads of 0 numbers");
    pad_sliced(0, 5, 0, behind, 6);
    refuse(BASE_UNIMPLEMENTED, "Slice (node \"pads\", opset 17): steps of 0");
    pad_sliced(0, INT64_MAX, INT64_MAX, behind, 6);
    refuse(BASE_INVALID_ARGUMENT, "pads of 1 numbers");
    pad_sliced(5, INT64_MIN, INT64_MIN, behind, 6);
    refuse(BASE_INVALID_ARGUMENT, "pads of 1 numbers");
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
    tcase_add_loop_test(tests, test_windows_of_all_kinds, 0, 9);
    tcase_add_test(tests, test_strided_layers_follow_from_each_other);
    tcase_add_test(tests, test_equal_strides_are_one_sequence);
    tcase_add_test(tests, test_what_padding_adds_a_window_takes);
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
