/* Transposed convolutions against plain loops that add each input's product to what it makes, along
 * the steps, within a row, and both, at all lengths; and what is refused. Behind each is the mean
 * of what it makes at a step, and a GRU over that. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/cells/windows.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { BATCH = 2, STEPS_MAX = 7 };

static struct onnx_builder builder;
static struct base_random numbers;

struct axis {
    int64_t taps, stride, dilation, before, behind, more;
};

/* x [batch, channels, ..], of n axes behind the channels, of which axis `time` is the steps. */
struct transposed {
    int64_t channels, filters, groups, height;
    uint32_t n, time;
    bool has_bias;
    struct axis axes[2];
};

/* ---- Plain loops ---------------------------------------------------------------------------- */

static int64_t made_of(const struct axis *axis, int64_t n)
{
    return (n - 1) * axis->stride + (axis->taps - 1) * axis->dilation + 1 + axis->more -
           axis->before - axis->behind;
}

/* Along both axes; of one the second has one element, and one tap. */
struct plane {
    int64_t n[2], made[2];
    struct axis axes[2];
};

static void add_product(const struct plane *plane, const int64_t from[2], double x, const float *w,
                        double *out)
{
    for (int64_t a = 0; a < plane->axes[0].taps; a++) {
        for (int64_t b = 0; b < plane->axes[1].taps; b++) {
            const int64_t tap[2] = {a, b};
            int64_t to[2];
            bool is_there = true;
            for (uint32_t i = 0; i < 2; i++) {
                const struct axis *axis = &plane->axes[i];
                to[i] = from[i] * axis->stride + tap[i] * axis->dilation - axis->before;
                is_there = is_there && to[i] >= 0 && to[i] < plane->made[i];
            }
            if (is_there) {
                out[to[0] * plane->made[1] + to[1]] += x * (double)w[a * plane->axes[1].taps + b];
            }
        }
    }
}

static void expect_row(const struct transposed *t, const struct plane *plane, const double *x,
                       const float *w, const float *bias, double *out)
{
    const int64_t size = plane->n[0] * plane->n[1];
    const int64_t made = plane->made[0] * plane->made[1];
    const int64_t taps = plane->axes[0].taps * plane->axes[1].taps;
    const int64_t of_group = t->filters / t->groups;
    for (int64_t i = 0; i < t->filters * made; i++) {
        out[i] = bias == NULL ? 0.0 : (double)bias[i / made];
    }
    for (int64_t c = 0; c < t->channels; c++) {
        const int64_t first = c / (t->channels / t->groups) * of_group;
        for (int64_t f = 0; f < of_group; f++) {
            for (int64_t i = 0; i < size; i++) {
                const int64_t from[2] = {i / plane->n[1], i % plane->n[1]};
                add_product(plane, from, x[c * size + i], w + (c * of_group + f) * taps,
                            out + (first + f) * made);
            }
        }
    }
}

/* ---- The model ------------------------------------------------------------------------------ */

static void begin(const struct transposed *t)
{
    const int64_t one[] = {-1, t->channels, -1};
    const int64_t two[] = {-1, t->channels, t->time == 0 ? -1 : t->height,
                           t->time == 0 ? t->height : -1};
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", 1, WINDOW_HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 2 + t->n, t->n == 1 ? one : two);
}

static Onnx__NodeProto *add_node(const struct transposed *t)
{
    int64_t dims[4] = {t->channels, t->filters / t->groups};
    int64_t strides[2];
    int64_t dilations[2];
    int64_t pads[4];
    int64_t more[2];
    for (uint32_t i = 0; i < t->n; i++) {
        dims[2 + i] = t->axes[i].taps;
        strides[i] = t->axes[i].stride;
        dilations[i] = t->axes[i].dilation;
        pads[i] = t->axes[i].before;
        pads[t->n + i] = t->axes[i].behind;
        more[i] = t->axes[i].more;
    }
    onnx_constant(&builder, "wc", onnx_random(&builder, 2 + t->n, dims, &numbers, 0.5f));
    onnx_constant(&builder, "bc", onnx_random(&builder, 1, &t->filters, &numbers, 0.5f));
    Onnx__NodeProto *node =
        onnx_node(&builder, "ConvTranspose", t->has_bias ? "x wc bc" : "x wc", "y");
    onnx_set_ints(&builder, node, "strides", t->n, strides);
    onnx_set_ints(&builder, node, "dilations", t->n, dilations);
    onnx_set_ints(&builder, node, "pads", 2 * t->n, pads);
    onnx_set_ints(&builder, node, "output_padding", t->n, more);
    onnx_set_int(&builder, node, "group", t->groups);
    return node;
}

/* The mean of a step of y, `n` axes behind its channels, and a GRU over that. */
static void end(uint32_t n, uint32_t time)
{
    const int64_t features[] = {1, time == 0 ? 3 : 2};
    window_mean(&builder, n, features);
    window_answers(&builder, (const char *const[]){"y", "out", NULL});
}

static const float *floats_of(const char *name)
{
    return (const float *)(const void *)constant_of(&builder, name)->raw_data.data;
}

/* ---- All kinds ------------------------------------------------------------------------------ */

static struct axis draw_axis(bool may_part)
{
    struct axis axis = {.taps = 1 + base_random_below(&numbers, 5),
                        .stride = may_part ? 1 + base_random_below(&numbers, 4) : 1,
                        .dilation = 1 + base_random_below(&numbers, 3)};
    const uint32_t reach = (uint32_t)((axis.taps - 1) * axis.dilation) + 1;
    axis.before = base_random_below(&numbers, reach);
    axis.behind = base_random_below(&numbers, reach);
    axis.more = base_random_below(&numbers, (uint32_t)axis.stride);
    return axis;
}

static struct transposed draw(uint32_t n)
{
    struct transposed t = {.n = n, .height = 1};
    t.groups = 1 + base_random_below(&numbers, 2);
    t.channels = t.groups * (1 + base_random_below(&numbers, 2));
    t.filters = t.groups * (1 + base_random_below(&numbers, 2));
    t.has_bias = base_random_below(&numbers, 2) == 0;
    t.time = base_random_below(&numbers, n);
    for (uint32_t i = 0; i < n; i++) {
        t.axes[i] = draw_axis(true);
    }
    while (n == 2 && (t.height == 1 || made_of(&t.axes[1 - t.time], t.height) < 1)) {
        t.height++;
    }
    return t;
}

static void compare(const struct cell_model *model, const struct transposed *t, int64_t time)
{
    static const struct axis step = {.taps = 1, .stride = 1, .dilation = 1};
    struct plane plane = {.n = {time, 1}, .axes = {t->axes[0], t->n == 1 ? step : t->axes[1]}};
    if (t->n == 2) {
        plane.n[t->time] = time;
        plane.n[1 - t->time] = t->height;
    }
    for (uint32_t i = 0; i < 2; i++) {
        plane.made[i] = made_of(&plane.axes[i], plane.n[i]);
    }
    struct replay_tensor x = {.rank = 2 + t->n,
                              .dims = {BATCH, t->channels, plane.n[0], plane.n[1]}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    const int64_t width = t->channels * plane.n[0] * plane.n[1];
    const int64_t made = t->filters * plane.made[0] * plane.made[1];
    x.count = (size_t)(BATCH * width);
    x.data = base_alloc_array(x.count, sizeof(double));
    double *want = base_alloc_array((size_t)made, sizeof(double));
    ck_assert(x.data != NULL && want != NULL);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)base_random_f32(&numbers, -1.0f, 1.0f);
    }
    replay_run(model, &x, outputs);
    ck_assert_uint_eq(outputs[0].count, (size_t)(BATCH * made));
    for (uint32_t i = 0; i < t->n; i++) {
        ck_assert_int_eq(outputs[0].dims[2 + i], plane.made[i]);
    }
    for (int64_t b = 0; b < BATCH; b++) {
        expect_row(t, &plane, x.data + b * width, floats_of("wc"),
                   t->has_bias ? floats_of("bc") : NULL, want);
        for (int64_t i = 0; i < made; i++) {
            util_assert_close(outputs[0].data[b * made + i], want[i], 1e-6, 0);
        }
    }
    base_free(x.data);
    base_free(want);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

START_TEST(test_transposed_convolutions_of_all_kinds)
{
    numbers = util_random((uint64_t)_i);
    for (uint32_t tries = 0; tries < 150; tries++) {
        const struct transposed t = draw(1 + (uint32_t)_i);
        struct built built;
        uint32_t least[CELL_SEQUENCES_MAX];
        begin(&t);
        (void)add_node(&t);
        end(t.n, t.time);
        load_built(&builder, &built);
        cell_model_steps_min(built.model, least);
        ck_assert_int_ge(made_of(&t.axes[t.time], least[0]), 1);
        ck_assert(least[0] == 1 || made_of(&t.axes[t.time], (int64_t)least[0] - 1) < 1 ||
                  t.axes[t.time].stride > 1); // where a block has no output yet
        for (int64_t time = least[0]; time <= STEPS_MAX; time++) {
            compare(built.model, &t, time);
        }
        free_built(&builder, &built);
    }
}
END_TEST

/* What says how much is taken away, other than pads. */
START_TEST(test_padding_by_its_name)
{
    static const struct {
        const char *how;
        struct axis axis;
    } cases[] = {
        {"NOTSET", {.taps = 4, .stride = 2, .dilation = 1}},
        {"VALID", {.taps = 4, .stride = 2, .dilation = 1}},
        {"SAME_UPPER", {.taps = 5, .stride = 2, .dilation = 1, .before = 1, .behind = 2}},
        {"SAME_LOWER", {.taps = 5, .stride = 2, .dilation = 1, .before = 2, .behind = 1}},
        {"SAME_UPPER", {.taps = 2, .stride = 2, .dilation = 3, .before = 1, .behind = 1}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct transposed t = {.channels = 2, .filters = 1, .groups = 1, .n = 1};
        struct built built;
        numbers = util_random(i);
        t.axes[0] = cases[i].axis;
        t.axes[0].before = t.axes[0].behind = 0; // the attribute pads, which is not read then
        begin(&t);
        onnx_set_string(&builder, add_node(&t), "auto_pad", cases[i].how);
        t.axes[0] = cases[i].axis;
        end(1, 0);
        load_built(&builder, &built);
        for (int64_t time = 1; time <= STEPS_MAX; time++) {
            compare(built.model, &t, time);
        }
        free_built(&builder, &built);
    }
}
END_TEST

/* Of an axis within a row, whose size is known. */
START_TEST(test_an_output_shape)
{
    struct transposed t = {.channels = 2, .filters = 2, .groups = 1, .n = 2, .height = 4};
    const int64_t wanted[] = {-1, 9}; // of 4 in steps of 2, and 5 taps: 11
    struct built built;
    numbers = util_random(0);
    t.axes[0] = (struct axis){.taps = 1, .stride = 1, .dilation = 1};
    t.axes[1] = (struct axis){.taps = 5, .stride = 2, .dilation = 1};
    begin(&t);
    onnx_set_ints(&builder, add_node(&t), "output_shape", 2, wanted);
    end(2, 0);
    t.axes[1].before = t.axes[1].behind = 1;
    load_built(&builder, &built);
    compare(built.model, &t, 3);
    free_built(&builder, &built);
    begin(&t);
    onnx_set_ints(&builder, add_node(&t), "output_shape", 1, wanted);
    end(2, 0);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "output_shape of 1 axes");
}
END_TEST

/* ---- Sequences ------------------------------------------------------------------------------ */

/* A convolution of 4 taps and stride 2 over x, as many times, a transposed one each, and x added to
 * what they make. */
static void begin_shortcut(uint32_t times, int64_t taps, int64_t more)
{
    const int64_t dims[] = {1, 1, taps};
    const int64_t x[] = {-1, 1, -1};
    const int64_t two = 2;
    const int64_t pads[] = {1, 1};
    numbers = util_random(0);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", 1, WINDOW_HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_constant(&builder, "wc", onnx_random(&builder, 3, dims, &numbers, 0.5f));
    char wire[32] = "x wc";
    char to[16];
    for (uint32_t i = 0; i < 2 * times; i++) {
        const bool is_down = i < times;
        (void)snprintf(to, sizeof(to), "v%u", i);
        Onnx__NodeProto *node = onnx_node(&builder, is_down ? "Conv" : "ConvTranspose", wire, to);
        onnx_set_ints(&builder, node, "strides", 1, &two);
        onnx_set_ints(&builder, node, "pads", 2, pads);
        if (!is_down) {
            onnx_set_ints(&builder, node, "output_padding", 1, &more);
        }
        (void)snprintf(wire, sizeof(wire), "%s wc", to);
    }
    (void)snprintf(wire, sizeof(wire), "%s x", to);
}

static const int64_t no_more = 0;

/* A convolution and a transposed one by the same weights, and x's first steps added. */
static void expect_shortcut(const struct cell_model *model, const int64_t *taps, const float *w,
                            int64_t time)
{
    struct replay_tensor x = {.rank = 3, .dims = {1, 1, time}, .count = (size_t)time};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    const int64_t left = (time + 2 - *taps) / 2 + 1;
    const int64_t made = (left - 1) * 2 + *taps - 2;
    double want[STEPS_MAX] = {0.0};
    double x_data[STEPS_MAX];
    ck_assert(made >= 1 && made <= time && time <= STEPS_MAX);
    for (int64_t i = 0; i < time; i++) {
        x_data[i] = (double)base_random_f32(&numbers, -1.0f, 1.0f);
        want[i] = x_data[i];
    }
    for (int64_t t = 0; t < left; t++) {
        double sum = 0.0;
        for (int64_t k = 0; k < *taps; k++) {
            const int64_t at = 2 * t + k - 1;
            sum += at >= 0 && at < time ? x_data[at] * (double)w[k] : 0.0;
        }
        for (int64_t k = 0; k < *taps; k++) {
            const int64_t at = 2 * t + k - 1;
            if (at >= 0 && at < made) {
                want[at] += sum * (double)w[k];
            }
        }
    }
    x.data = x_data;
    replay_run(model, &x, outputs);
    ck_assert_int_eq(outputs[0].dims[2], made);
    for (int64_t i = 0; i < made; i++) {
        util_assert_close(outputs[0].data[i], want[i], 1e-6, 0);
    }
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

START_TEST(test_shortcuts_past_strides)
{
    char wire[32];
    for (uint32_t times = 1; times <= 3; times++) {
        struct built built;
        begin_shortcut(times, 4, no_more);
        (void)snprintf(wire, sizeof(wire), _i == 0 ? "v%u x" : "x v%u", 2 * times - 1);
        (void)onnx_node(&builder, "Add", wire, "y");
        end(1, 1);
        load_built(&builder, &built);
        const struct cell_sequence *given = &built.model->sequences[0];
        ck_assert_uint_eq(given->stride, 0);
        ck_assert_uint_eq(given->multiple, 1u << times);
        ck_assert_uint_eq(built.model->outputs[0].sequence, 0);
        free_built(&builder, &built);
    }
    begin_shortcut(1, 5, no_more); // of n steps n - 1
    (void)onnx_node(&builder, "Add", _i == 0 ? "v1 x" : "x v1", "y");
    end(1, 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "a number of steps that follows from another's, by a stride or padding");
}
END_TEST

/* x cut to the steps of v1, which has never more of them, or may have. */
START_TEST(test_shortcuts_that_are_cut_to_size)
{
    static const struct {
        int64_t taps, more;
        bool is_within; // of n steps n or n - 1; n or n - 1 and one more
    } cases[] = {{4, 0, true}, {3, 0, true}, {5, 0, true}, {4, 1, false}, {6, 1, false}};
    const int64_t zero = 0;
    const int64_t two = 2;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_shortcut(1, cases[i].taps, cases[i].more);
        onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, &zero));
        onnx_constant(&builder, "two", onnx_ints(&builder, 1, 1, &two));
        (void)onnx_node(&builder, "Shape", "v1", "shape");
        (void)onnx_node(&builder, "Gather", "shape two", "steps");
        (void)onnx_node(&builder, "Slice", "x zero steps two", "cut");
        (void)onnx_node(&builder, "Add", "v1 cut", "y");
        end(1, 1);
        if (!cases[i].is_within) {
            expect_refused(&builder, BASE_UNIMPLEMENTED,
                           "Slice (node \"cut\", opset 17): takes a part of an axis of unknown");
            continue;
        }
        struct built built;
        load_built(&builder, &built);
        for (uint32_t s = 0; s < built.model->n_sequences; s++) {
            ck_assert_uint_eq(built.model->sequences[s].multiple, 0);
        }
        const float *w = floats_of("wc");
        for (int64_t time = 4; time <= STEPS_MAX; time++) {
            expect_shortcut(built.model, &cases[i].taps, w, time);
        }
        free_built(&builder, &built);
    }
}
END_TEST

/* Of n steps 4 n + 4, cut to factor * (n / by) + add, as exporters write what they have simplified.
 */
struct ending {
    int64_t factor, by, add;
    bool is_within;
};

static void begin_ending(const struct ending *ending)
{
    static const char *const names[] = {"factor", "by", "add", "zero", "two"};
    const int64_t values[] = {ending->factor, ending->by, ending->add, 0, 2};
    const int64_t dims[] = {1, 1, 8};
    const int64_t x[] = {-1, 1, -1};
    const int64_t four = 4;
    numbers = util_random(0);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", 1, WINDOW_HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_constant(&builder, "wc", onnx_random(&builder, 3, dims, &numbers, 0.5f));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        onnx_constant(&builder, names[i], onnx_ints(&builder, 1, 1, &values[i]));
    }
    onnx_set_ints(&builder, onnx_node(&builder, "ConvTranspose", "x wc", "made"), "strides", 1,
                  &four);
    (void)onnx_node(&builder, "Shape", "x", "shape");
    (void)onnx_node(&builder, "Gather", "shape two", "n");
    (void)onnx_node(&builder, "Div", "n by", "divided");
    (void)onnx_node(&builder, "Mul", "divided factor", "times");
    (void)onnx_node(&builder, "Add", "times add", "end");
    (void)onnx_node(&builder, "Slice", "made zero end two", "y");
    end(1, 1);
}

/* Of 1, 2, .. steps. */
static struct replay_tensor run_ending(const struct cell_model *model, int64_t time)
{
    double data[STEPS_MAX];
    struct replay_tensor x = {.rank = 3, .dims = {1, 1, time}, .count = (size_t)time, .data = data};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    for (int64_t i = 0; i < time; i++) {
        data[i] = 0.25 * (double)(i + 1);
    }
    replay_run(model, &x, outputs);
    base_free(outputs[1].data);
    return outputs[0];
}

START_TEST(test_ends_that_follow_from_the_steps)
{
    static const struct ending cases[] = {{4, 1, 4, true},  {4, 1, 0, true},  {2, 1, 0, true},
                                          {1, 1, 3, true},  {4, 2, 4, true},  {3, 3, 1, true},
                                          {4, 1, -3, true}, {7, 2, 4, true},  {5, 1, 0, false},
                                          {4, 1, 5, false}, {9, 2, 4, false}, {8, 2, 5, false}};
    struct built whole;
    begin_ending(&cases[0]);
    load_built(&builder, &whole);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct ending *ending = &cases[i];
        struct onnx_builder kept = builder;
        struct built built;
        begin_ending(ending);
        if (!ending->is_within) {
            expect_refused(&builder, BASE_UNIMPLEMENTED, "takes a part of an axis of unknown size");
            builder = kept;
            continue;
        }
        load_built(&builder, &built);
        for (int64_t time = 3; time <= STEPS_MAX; time++) {
            struct replay_tensor all = run_ending(whole.model, time);
            struct replay_tensor some = run_ending(built.model, time);
            const int64_t steps = ending->factor * (time / ending->by) + ending->add;
            ck_assert_int_eq(all.dims[2], 4 * time + 4);
            ck_assert_int_eq(some.dims[2], steps);
            ck_assert_mem_eq(some.data, all.data, (size_t)steps * sizeof(double));
            base_free(all.data);
            base_free(some.data);
        }
        free_built(&builder, &built);
        builder = kept;
    }
    free_built(&builder, &whole);
}
END_TEST

START_TEST(test_sequences_that_parts_make)
{
    struct transposed t = {.channels = 1, .filters = 1, .groups = 1, .n = 1};
    struct built built;
    numbers = util_random(0);
    t.axes[0] = (struct axis){.taps = 3, .stride = 3, .dilation = 1}; // of each step three
    begin(&t);
    (void)add_node(&t);
    end(1, 1);
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_sequences, 2);
    ck_assert_uint_eq(built.model->sequences[1].parts, 3);
    ck_assert_uint_eq(built.model->sequences[1].source, 0);
    ck_assert_uint_eq(cell_sequence_steps(&built.model->sequences[1], 5), 15);
    free_built(&builder, &built);
    t.axes[0] = (struct axis){.taps = 8, .stride = 3, .dilation = 1, .before = 4, .behind = 1};
    begin(&t);
    (void)add_node(&t);
    end(1, 1);
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_sequences, 3); // blocks between
    ck_assert_uint_eq(built.model->sequences[2].source, 1);
    for (uint32_t n = 1; n <= STEPS_MAX; n++) {
        const uint32_t blocks = cell_sequence_steps(&built.model->sequences[1], n);
        ck_assert_int_eq(cell_sequence_steps(&built.model->sequences[2], blocks),
                         made_of(&t.axes[0], n));
    }
    free_built(&builder, &built);
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------- */

static const struct transposed plain = {
    .channels = 2, .filters = 2, .groups = 1, .n = 1, .axes = {{3, 2, 1, 0, 0, 0}}};

/* Of 2 channels to 2 filters by 3 taps. */
static Onnx__NodeProto *add_plain(void)
{
    const int64_t dims[] = {2, 2, 3};
    numbers = util_random(0);
    begin(&plain);
    onnx_constant(&builder, "wc", onnx_random(&builder, 3, dims, &numbers, 0.5f));
    return onnx_node(&builder, "ConvTranspose", "x wc", "y");
}

START_TEST(test_attributes_that_are_refused)
{
    static const struct {
        const char *name, *why;
        uint32_t n;
        int64_t value; /* of each */
        enum base_status status;
    } cases[] = {
        {"strides", "ConvTranspose (node \"y\", opset 17): strides of 2 axes", 2, 2,
         BASE_INVALID_ARGUMENT},
        {"strides", "a stride of 0; 1 to 4096", 1, 0, BASE_UNIMPLEMENTED},
        {"strides", "a stride of 4097; 1 to 4096", 1, 4097, BASE_UNIMPLEMENTED},
        {"dilations", "a kernel of more than 4096 steps", 1, 3000, BASE_UNIMPLEMENTED},
        {"pads", "pads of 1 numbers", 1, 1, BASE_INVALID_ARGUMENT},
        {"pads", "padding of -1 and -1 steps; 0 to 4096 each", 2, -1, BASE_UNIMPLEMENTED},
        {"output_padding", "output_padding of -1; 0 to 4096", 1, -1, BASE_UNIMPLEMENTED},
        {"output_padding", "output_padding of 5000; 0 to 4096", 1, 5000, BASE_UNIMPLEMENTED},
        {"output_shape", "output_shape, where each request has other steps", 1, 9,
         BASE_UNIMPLEMENTED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t values[] = {cases[i].value, cases[i].value};
        onnx_set_ints(&builder, add_plain(), cases[i].name, cases[i].n, values);
        end(1, 1);
        expect_refused(&builder, cases[i].status, cases[i].why);
    }
    onnx_set_string(&builder, add_plain(), "auto_pad", "SAME");
    end(1, 1);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "auto_pad");
    const int64_t four = 4; // by as many steps as three taps do not reach
    Onnx__NodeProto *node = add_plain();
    onnx_set_ints(&builder, node, "strides", 1, &four);
    onnx_set_string(&builder, node, "auto_pad", "SAME_LOWER");
    end(1, 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "padding of -1 steps");
}
END_TEST

static void refuse(const struct transposed *t, enum base_status status, const char *why)
{
    end(t->n, t->time);
    expect_refused(&builder, status, why);
}

START_TEST(test_nodes_that_are_refused)
{
    struct transposed t = plain;
    const int64_t dims[] = {3, 2, 3};
    numbers = util_random(0);
    begin(&t);
    onnx_constant(&builder, "wc", onnx_random(&builder, 3, dims, &numbers, 0.5f));
    (void)onnx_node(&builder, "ConvTranspose", "x wc", "y");
    refuse(&t, BASE_INVALID_ARGUMENT,
           "weights \"wc\", float32 [3, 2, 3], that do not fit x of 2 channels in 1 groups");
    begin(&t);
    onnx_constant(&builder, "wc", onnx_random(&builder, 2, dims, &numbers, 0.5f));
    (void)onnx_node(&builder, "ConvTranspose", "x wc", "y");
    refuse(&t, BASE_UNIMPLEMENTED, "weights that are no constant of floats, of rank 3");
    onnx_set_int(&builder, add_plain(), "group", 0);
    refuse(&t, BASE_INVALID_ARGUMENT, "in 0 groups");
    begin(&t);
    onnx_constant(&builder, "wc",
                  onnx_random(&builder, 3, (const int64_t[]){2, 2, 3}, &numbers, 1));
    onnx_constant(&builder, "bc", onnx_random(&builder, 1, dims, &numbers, 0.5f));
    (void)onnx_node(&builder, "ConvTranspose", "x wc bc", "y");
    refuse(&t, BASE_UNIMPLEMENTED, "a bias that is no constant of floats, one a filter");
    t.n = 2;
    t.height = 3;
    t.axes[0] = (struct axis){.taps = 1, .stride = 1, .dilation = 1};
    t.axes[1] = (struct axis){.taps = 2, .stride = 1, .dilation = 1, .before = 2, .behind = 2};
    begin(&t);
    (void)add_node(&t);
    refuse(&t, BASE_INVALID_ARGUMENT, "nothing is left of 3 steps");
    t.height = 1 << 18;
    t.axes[1] = (struct axis){.taps = 4, .stride = 4, .dilation = 1};
    begin(&t);
    (void)add_node(&t);
    refuse(&t, BASE_UNIMPLEMENTED, "a row of more than 1048576 elements");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_transposed");
    TCase *tcase = tcase_create("transposed");
    tcase_add_loop_test(tcase, test_transposed_convolutions_of_all_kinds, 0, 2);
    tcase_add_test(tcase, test_padding_by_its_name);
    tcase_add_test(tcase, test_an_output_shape);
    tcase_add_loop_test(tcase, test_shortcuts_past_strides, 0, 2);
    tcase_add_test(tcase, test_shortcuts_that_are_cut_to_size);
    tcase_add_test(tcase, test_ends_that_follow_from_the_steps);
    tcase_add_test(tcase, test_sequences_that_parts_make);
    tcase_add_test(tcase, test_attributes_that_are_refused);
    tcase_add_test(tcase, test_nodes_that_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
