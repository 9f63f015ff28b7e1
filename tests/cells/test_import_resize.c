/* Resize and Upsample: each element a whole number of times, or elements between two, along the
 * steps, within a row, and both; how files say so; and what is refused. Behind each is a GRU over
 * the mean of a step. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/cells/windows.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { BATCH = 2, CHANNELS = 2, HEIGHT = 3, STEPS_MAX = 4 };

static struct onnx_builder builder;

/* x [batch, channels, steps, height]. */
static void begin(int64_t opset)
{
    const int64_t dims[] = {-1, CHANNELS, -1, HEIGHT};
    onnx_init(&builder, opset);
    onnx_add_weights(&builder, "GRU", 1, WINDOW_HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 4, dims);
}

static Onnx__NodeProto *add(const char *op, const char *inputs, const float *scales, size_t n)
{
    const int64_t dims[] = {(int64_t)n};
    onnx_constant(&builder, "scales",
                  onnx_tensor(&builder, FLOAT, 1, dims, scales, n * sizeof(*scales)));
    return onnx_node(&builder, op, inputs, "y");
}

static void end(void)
{
    const int64_t features[] = {1, 3};
    window_mean(&builder, 2, features);
    window_answers(&builder, (const char *const[]){"y", "out", NULL});
}

static void refuse(enum base_status status, const char *why)
{
    end();
    expect_refused(&builder, status, why);
}

/* Each step `steps` times, each element of the height `heights` times. */
static void expect_repeated(int64_t steps, int64_t heights)
{
    struct built built;
    end();
    load_built(&builder, &built);
    for (int64_t time = 1; time <= STEPS_MAX; time++) {
        struct replay_tensor x = {.rank = 4, .dims = {BATCH, CHANNELS, time, HEIGHT}};
        struct replay_tensor outputs[2] = {{.rank = 0}};
        x.count = (size_t)(BATCH * CHANNELS * time * HEIGHT);
        x.data = base_alloc_array(x.count, sizeof(double));
        ck_assert_ptr_nonnull(x.data);
        for (size_t i = 0; i < x.count; i++) {
            x.data[i] = 0.125 * (double)i;
        }
        replay_run(built.model, &x, outputs);
        const int64_t made = time * steps;
        const int64_t high = HEIGHT * heights;
        ck_assert_int_eq(outputs[0].dims[2], made);
        ck_assert_int_eq(outputs[0].dims[3], high);
        ck_assert_uint_eq(outputs[0].count, (size_t)(BATCH * CHANNELS * made * high));
        for (size_t i = 0; i < outputs[0].count; i++) {
            const int64_t h = (int64_t)i % high / heights;
            const int64_t t = (int64_t)i / high % made / steps;
            const int64_t c = (int64_t)i / high / made;
            ck_assert_double_eq(outputs[0].data[i], x.data[(c * time + t) * HEIGHT + h]);
        }
        base_free(x.data);
        base_free(outputs[0].data);
        base_free(outputs[1].data);
    }
    free_built(&builder, &built);
}

static const float both[] = {1, 1, 3, 2};

START_TEST(test_elements_are_repeated)
{
    const float steps[] = {1, 1, 4, 1};
    const float heights[] = {1, 1, 1, 5};
    const float none[] = {1, 1, 1, 1};
    const struct {
        const float *scales;
        int64_t steps, heights;
    } cases[] = {{both, 3, 2}, {steps, 4, 1}, {heights, 1, 5}, {none, 1, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(17);
        (void)add("Resize", "x - scales", cases[i].scales, 4);
        expect_repeated(cases[i].steps, cases[i].heights);
    }
}
END_TEST

/* As older files have it. */
START_TEST(test_scales_of_all_times)
{
    begin(9);
    (void)add("Upsample", "x scales", both, 4);
    expect_repeated(3, 2);
    begin(7);
    onnx_set_floats(&builder, add("Upsample", "x", both, 4), "scales", 4, both);
    expect_repeated(3, 2);
    begin(10);
    (void)add("Resize", "x scales", both, 4);
    expect_repeated(3, 2);
    begin(18); // of some axes alone
    const float some[] = {2, 3};
    const int64_t axes[] = {-1, 2};
    onnx_set_ints(&builder, add("Resize", "x - scales", some, 2), "axes", 2, axes);
    expect_repeated(3, 2);
}
END_TEST

/* Twice the steps that there are, as exporters compute it. */
START_TEST(test_sizes)
{
    const int64_t two = 2;
    const int64_t time = 2;
    const int64_t few[] = {BATCH, CHANNELS};
    const int64_t high = 2 * HEIGHT;
    begin(17);
    (void)onnx_node(&builder, "Shape", "x", "shape");
    onnx_constant(&builder, "time", onnx_ints(&builder, 1, 1, &time));
    onnx_constant(&builder, "two", onnx_ints(&builder, 1, 1, &two));
    onnx_constant(&builder, "high", onnx_ints(&builder, 1, 1, &high));
    const int64_t ends[] = {0};
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, ends));
    (void)onnx_node(&builder, "Slice", "shape zero time", "front");
    (void)onnx_node(&builder, "Gather", "shape time", "steps");
    (void)onnx_node(&builder, "Mul", "steps two", "more");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "front more high", "sizes"), "axis", 0);
    (void)onnx_node(&builder, "Resize", "x - - sizes", "y");
    expect_repeated(2, 2);
    begin(17);
    onnx_constant(&builder, "sizes", onnx_ints(&builder, 1, 2, few));
    (void)onnx_node(&builder, "Resize", "x - - sizes", "y");
    refuse(BASE_INVALID_ARGUMENT, "Resize (node \"y\", opset 17): scales or sizes of 2 axes");
    begin(17);
    const int64_t other[] = {BATCH, CHANNELS, 7, HEIGHT};
    onnx_constant(&builder, "sizes", onnx_ints(&builder, 1, 4, other));
    (void)onnx_node(&builder, "Resize", "x - - sizes", "y");
    refuse(BASE_UNIMPLEMENTED, "by anything but whole numbers of 1 to 4096");
}
END_TEST

/* Which element is the nearest, of three made of each and of two. */
START_TEST(test_ways_to_say_the_nearest)
{
    static const struct {
        const char *where, *which;
        bool of_three, of_two;
    } cases[] = {
        {"half_pixel", "round_prefer_floor", true, true},
        {"half_pixel", "round_prefer_ceil", true, true},
        {"half_pixel_symmetric", "round_prefer_floor", true, true},
        {"pytorch_half_pixel", "round_prefer_floor", true, true},
        {"half_pixel", "floor", false, false},
        {"half_pixel", "ceil", false, false},
        {"asymmetric", "floor", true, true},
        {"asymmetric", "round_prefer_floor", false, true},
        {"asymmetric", "round_prefer_ceil", false, false},
        {"asymmetric", "ceil", false, false},
        {"tf_half_pixel_for_nn", "floor", true, true},
        {"align_corners", "round_prefer_floor", false, false},
        {"tf_crop_and_resize", "floor", false, false},
        {"asymmetric", "somehow", false, false},
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t by = i % 2 == 0 ? 3 : 2;
        const bool is_served = i % 2 == 0 ? cases[i / 2].of_three : cases[i / 2].of_two;
        const float scales[] = {1, 1, (float)by, 1};
        begin(17);
        Onnx__NodeProto *node = add("Resize", "x - scales", scales, 4);
        onnx_set_string(&builder, node, "coordinate_transformation_mode", cases[i / 2].where);
        onnx_set_string(&builder, node, "nearest_mode", cases[i / 2].which);
        if (is_served) {
            expect_repeated(by, 1);
        } else {
            refuse(BASE_UNIMPLEMENTED, "another nearest element than that of which");
        }
    }
}
END_TEST

/* Without a recurrent node: an axis of which several steps are made of each is time, also where it
 * is the first; one that stays as it is, is not. */
START_TEST(test_steps_by_what_is_made_of_them)
{
    enum { FEATURES = 2 };
    static const float along[] = {1, 1, 3};
    static const float within[] = {1, 3, 1};
    static const int64_t taps[] = {FEATURES, FEATURES, 3};
    static const int64_t first_last[] = {1, 2, 0};
    static const int64_t last_first[] = {2, 0, 1};
    static const int64_t three = 3;
    static const struct {
        const char *op, *inputs;
        const float *scales;
        int64_t opset;
        int32_t time;
    } cases[] = {{"Resize", "turned - scales", along, 17, 0},
                 {"Upsample", "turned scales", along, 9, 0},
                 {"ConvTranspose", "turned w", along, 17, 0},
                 {"Resize", "turned - scales", within, 17, -1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t dims[] = {-1, cases[i].time < 0 ? FEATURES : -1, FEATURES};
        struct base_random random = util_random(1);
        struct built built;
        onnx_init(&builder, cases[i].opset);
        onnx_input(&builder, "x", FLOAT, 3, dims);
        onnx_constant(&builder, "w", onnx_random(&builder, 3, taps, &random, 0.5f));
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "turned"), "perm", 3,
                      first_last);
        Onnx__NodeProto *node = add(cases[i].op, cases[i].inputs, cases[i].scales, 3);
        if (strcmp(cases[i].op, "ConvTranspose") == 0) {
            onnx_set_ints(&builder, node, "strides", 1, &three);
        }
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "out"), "perm", 3,
                      last_first);
        window_answers(&builder, (const char *const[]){"out", NULL});
        load_built(&builder, &built);
        ck_assert_int_eq(built.model->inputs[0].time_axis, cases[i].time);
        ck_assert_int_eq(built.model->inputs[0].batch_axis, cases[i].time < 0 ? 0 : 1);
        free_built(&builder, &built);
    }
}
END_TEST

START_TEST(test_what_is_refused)
{
    static const struct {
        float scales[4];
        const char *why;
    } cases[] = {
        {{1, 1, 1.5f, 1}, "by anything but whole numbers of 1 to 4096"},
        {{1, 1, 0.5f, 1}, "by anything but whole numbers of 1 to 4096"},
        {{1, 1, 4097, 1}, "by anything but whole numbers of 1 to 4096"},
        {{1, 1, NAN, 1}, "by anything but whole numbers of 1 to 4096"},
        {{2, 1, 1, 1}, "axis 0 is of unknown size, and neither the batch nor the time of"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(17);
        (void)add("Resize", "x - scales", cases[i].scales, 4);
        refuse(BASE_UNIMPLEMENTED, cases[i].why);
    }
    begin(17);
    onnx_set_string(&builder, add("Resize", "x - scales", both, 4), "mode", "cubic");
    refuse(BASE_UNIMPLEMENTED, "a mode other than nearest and linear");
    begin(18);
    onnx_set_string(&builder, add("Resize", "x - scales", both, 4), "keep_aspect_ratio_policy",
                    "not_larger");
    refuse(BASE_UNIMPLEMENTED, "antialias, exclude_outside or another keep_aspect_ratio_policy");
    begin(17);
    (void)add("Resize", "x", both, 4);
    refuse(BASE_UNIMPLEMENTED, "scales and sizes that are no constant");
    begin(18);
    const int64_t axes[] = {2, 4, 0, 1};
    onnx_set_ints(&builder, add("Resize", "x - scales", both, 4), "axes", 4, axes);
    refuse(BASE_INVALID_ARGUMENT, "axis 4 of rank 4");
    begin(17);
    const float many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    (void)add("Resize", "x - scales", many, 9);
    refuse(BASE_INVALID_ARGUMENT, "scales or sizes of 9 axes");
    begin(17); // what lies between two integers would be one
    const float half = 0.5f;
    const uint8_t zero = 3;
    onnx_constant(&builder, "half", onnx_tensor(&builder, FLOAT, 0, NULL, &half, sizeof(half)));
    onnx_constant(&builder, "zero",
                  onnx_tensor(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 0, NULL, &zero, 1));
    onnx_node(&builder, "QuantizeLinear", "x half zero", "q");
    Onnx__NodeProto *between = add("Resize", "q - scales", both, 4);
    onnx_set_string(&builder, between, "mode", "linear");
    between->output[0] = base_arena_text(&builder.arena, "more", 4);
    onnx_node(&builder, "DequantizeLinear", "more half zero", "y");
    refuse(BASE_UNIMPLEMENTED, "between integers, which would be integers again");
}
END_TEST

/* ---- Elements between two --------------------------------------------------------------------
 */

/* How many times the steps, how high, and by which scale of the height; 0: as high says. */
struct between {
    const char *where;
    int64_t steps, high;
    float scale;
};

/* Where element r of `size` lies among n, by ONNX's Resize. */
static double place_of(const struct between *how, double r, double n, double size, double scale)
{
    const double middle = (r + 0.5) / scale - 0.5;
    double place = middle;
    if (strcmp(how->where, "asymmetric") == 0) {
        place = r / scale;
    } else if (strcmp(how->where, "half_pixel_symmetric") == 0) {
        place = n / 2 * (1 - size / (scale * n)) + middle;
    } else if (strcmp(how->where, "align_corners") == 0) {
        place = size > 1 ? r * (n - 1) / (size - 1) : 0;
    } else if (strcmp(how->where, "pytorch_half_pixel") == 0 && size <= 1) {
        place = 0;
    }
    return place < 0 ? 0 : place > n - 1 ? n - 1 : place;
}

/* Between two of x[n], `stride` apart. */
static double between_of(const double *x, int64_t n, int64_t stride, double place)
{
    const int64_t first = (int64_t)place;
    const int64_t second = first + 1 < n ? first + 1 : first;
    const double share = place - (double)first;
    return (1 - share) * x[first * stride] + share * x[second * stride];
}

static void compare_between(const struct between *how, const struct replay_tensor *x,
                            const struct replay_tensor *y)
{
    const int64_t time = x->dims[2];
    const int64_t made = time * how->steps;
    const double scale = how->scale > 0 ? (double)how->scale : (double)how->high / HEIGHT;
    ck_assert_int_eq(y->dims[2], made);
    ck_assert_int_eq(y->dims[3], how->high);
    for (int64_t i = 0; i < (int64_t)y->count; i++) {
        const double h = place_of(how, (double)(i % how->high), HEIGHT, (double)how->high, scale);
        const double t = place_of(how, (double)(i / how->high % made), (double)time, (double)made,
                                  (double)how->steps);
        const double *from = x->data + i / how->high / made * time * HEIGHT;
        double along[STEPS_MAX];
        for (int64_t k = 0; k < time; k++) {
            along[k] = between_of(from + k * HEIGHT, HEIGHT, 1, h);
        }
        util_assert_close(y->data[i], between_of(along, time, 1, t), 1e-6, 1e-6);
    }
}

static void expect_between(const struct between *how)
{
    struct base_random random = util_random(2);
    struct built built;
    end();
    load_built(&builder, &built);
    for (int64_t time = 1; time <= STEPS_MAX; time++) {
        struct replay_tensor x = {.rank = 4, .dims = {BATCH, CHANNELS, time, HEIGHT}};
        struct replay_tensor outputs[2] = {{.rank = 0}};
        x.count = (size_t)(BATCH * CHANNELS * time * HEIGHT);
        x.data = base_alloc_array(x.count, sizeof(double));
        ck_assert_ptr_nonnull(x.data);
        for (size_t i = 0; i < x.count; i++) {
            x.data[i] = (double)base_random_f32(&random, -2.0f, 2.0f);
        }
        replay_run(built.model, &x, outputs);
        compare_between(how, &x, &outputs[0]);
        base_free(x.data);
        base_free(outputs[0].data);
        base_free(outputs[1].data);
    }
    free_built(&builder, &built);
}

/* The node, by scales, or where there is none of the height by sizes; of the height alone. */
static Onnx__NodeProto *add_between(const struct between *how)
{
    const float scales[] = {1, 1, (float)how->steps, how->scale};
    const int64_t axis = 3;
    Onnx__NodeProto *node = NULL;
    if (how->scale > 0) {
        node = add("Resize", "x - scales", scales, 4);
    } else {
        onnx_constant(&builder, "sizes", onnx_ints(&builder, 1, 1, &how->high));
        node = onnx_node(&builder, "Resize", "x - - sizes", "y");
        onnx_set_ints(&builder, node, "axes", 1, &axis);
    }
    onnx_set_string(&builder, node, "mode", "linear");
    onnx_set_string(&builder, node, "coordinate_transformation_mode", how->where);
    return node;
}

START_TEST(test_elements_between_two)
{
    static const struct between ways[] = {
        {"half_pixel", 2, 3, 1},
        {"half_pixel", 3, 3, 1},
        {"half_pixel", 1, 6, 2},
        {"half_pixel", 4, 9, 3},
        {"pytorch_half_pixel", 2, 7, 2.5f},
        {"pytorch_half_pixel", 1, 1, 0.4f},
        {"half_pixel_symmetric", 2, 4, 1.5f},
        {"asymmetric", 3, 6, 2},
        {"asymmetric", 1, 5, 0},
        {"align_corners", 1, 7, 0},
        {"align_corners", 1, 1, 0},
        {"align_corners", 1, 2, 0.7f},
        {"half_pixel", 1, 8, 0},
        {"half_pixel", 1, 2, 0},
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        begin(18);
        (void)add_between(&ways[i]);
        expect_between(&ways[i]);
    }
    // As older files have it.
    const struct between old = {"asymmetric", 3, 6, 2};
    begin(9);
    const float scales[] = {1, 1, 3, 2};
    onnx_set_string(&builder, add("Upsample", "x scales", scales, 4), "mode", "linear");
    expect_between(&old);
}
END_TEST

START_TEST(test_elements_between_two_that_are_refused)
{
    static const struct {
        struct between how;
        const char *why;
    } cases[] = {
        {{"align_corners", 2, 3, 1}, "along the steps by anything but whole numbers of them"},
        {{"tf_half_pixel_for_nn", 1, 6, 2}, "by another coordinate_transformation_mode than"},
        {{"tf_crop_and_resize", 1, 6, 2}, "by another coordinate_transformation_mode than"},
        {{"half_pixel", 1, 0, 1e-3f}, "to nothing, or to more than 1048576 elements"},
        {{"half_pixel", 1, 0, -1}, "by anything but whole numbers of 1 to 4096"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(18);
        const float scales[] = {1, 1, (float)cases[i].how.steps, cases[i].how.scale};
        Onnx__NodeProto *node = add("Resize", "x - scales", scales, 4);
        onnx_set_string(&builder, node, "mode", "linear");
        onnx_set_string(&builder, node, "coordinate_transformation_mode", cases[i].how.where);
        refuse(BASE_UNIMPLEMENTED, cases[i].why);
    }
    static const char *const flags[] = {"antialias", "exclude_outside"};
    for (size_t i = 0; i < 2; i++) {
        const struct between how = {"half_pixel", 2, 3, 1};
        begin(18);
        onnx_set_int(&builder, add_between(&how), flags[i], 1);
        refuse(BASE_UNIMPLEMENTED, "antialias, exclude_outside or another");
    }
    const float scales[] = {1, 1, 1.5f, 1};
    begin(18);
    onnx_set_string(&builder, add("Resize", "x - scales", scales, 4), "mode", "linear");
    refuse(BASE_UNIMPLEMENTED, "by anything but whole numbers of 1 to 4096");
}
END_TEST

/* ---- The same in small operators --------------------------------------------------------------
 */

/* What a chain of PyTorch's newer exporter says; each field is looked at. */
struct chain {
    float half, scale, low, high;
    int64_t times, start, step, more, less, unsqueezed, back[3];
    bool is_swapped, by_ratio;
    bool is_front;    /* steps stand in front before, so that there is no first Transpose */
    int64_t saturate; /* of a Cast, where it is not 0 */
    bool is_late;     /* the difference is turned back, as ONNX Runtime has it */
};

static const struct chain straight = {.half = 0.5f,
                                      .scale = 1.0f / 3.0f,
                                      .high = 1.0f,
                                      .times = 3,
                                      .step = 1,
                                      .more = 1,
                                      .less = 1,
                                      .unsqueezed = -1,
                                      .back = {1, 2, 0}};

static void number(const char *name, float value)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, FLOAT, 0, NULL, &value, sizeof(value)));
}

static void integer(const char *name, uint32_t rank, int64_t value)
{
    onnx_constant(&builder, name, onnx_ints(&builder, rank, 1, &value));
}

static void cast(const char *from, const char *to, int64_t type)
{
    onnx_set_int(&builder, onnx_node(&builder, "Cast", from, to), "to", type);
}

/* A row of x for each number of a list, whose operands these are. */
static void take(const struct chain *chain, const char *list, const char *pairs, const char *to)
{
    const bool is_first = to[0] == 'o';
    (void)onnx_node(&builder, "Unsqueeze", list, is_first ? "pairs" : "others");
    (void)onnx_node(&builder, "GatherND", pairs, is_first ? "taken" : "beside");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", is_first ? "taken" : "beside", to),
                  "perm", 3, chain->back);
}

static void add_chain(const struct chain *chain)
{
    static const int64_t in_front[] = {2, 0, 1};
    static const int64_t dims[] = {-1, CHANNELS, -1};
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", 1, WINDOW_HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    number("half", 0.5f);
    number("added", chain->half);
    number("scale", chain->scale);
    number("zero", 0.0f);
    number("low", chain->low);
    number("high", chain->high);
    integer("axis", 0, 2);
    integer("times", 0, chain->times);
    integer("start", 0, chain->start);
    integer("step", 0, chain->step);
    integer("more", 0, chain->more);
    integer("less", 0, chain->less);
    integer("unsqueezed", 1, chain->unsqueezed);
    integer("all", 1, -1);
    (void)onnx_node(&builder, "Shape", "x", "shape");
    (void)onnx_node(&builder, "Gather", "shape axis", "time");
    (void)onnx_node(&builder, "Mul", "time times", "made");
    (void)onnx_node(&builder, "Range", "start made step", "range");
    Onnx__NodeProto *steps = onnx_node(&builder, "Cast", "range", "steps");
    onnx_set_int(&builder, steps, "to", FLOAT);
    if (chain->saturate != 0) {
        onnx_set_int(&builder, steps, "saturate", chain->saturate);
    }
    cast("time", "some", FLOAT);
    cast("made", "every", FLOAT);
    (void)onnx_node(&builder, "Div", "some every", "ratio");
    (void)onnx_node(&builder, "Add", "steps added", "middles");
    (void)onnx_node(&builder, "Mul", chain->by_ratio ? "middles ratio" : "middles scale", "scaled");
    (void)onnx_node(&builder, "Sub", "scaled half", "places");
    (void)onnx_node(&builder, "Clip", "places low", "cut");
    (void)onnx_node(&builder, "Reshape", "cut all", "list");
    cast("list", "first", ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
    (void)onnx_node(&builder, "Add", "first more", "next");
    (void)onnx_node(&builder, "Sub", "time less", "last");
    (void)onnx_node(&builder, "Clip", "next - last", "second");
    onnx_set_ints(&builder,
                  onnx_node(&builder, "Transpose", "x", chain->is_front ? "front" : "there"),
                  "perm", 3, in_front);
    if (chain->is_front) {
        (void)onnx_node(&builder, "Identity", "front", "there");
    }
    take(chain, "first unsqueezed", "there pairs", "one");
    take(chain, "second unsqueezed", "there others", "two");
    cast("first", "whole", FLOAT);
    (void)onnx_node(&builder, "Sub", "list whole", "rest");
    (void)onnx_node(&builder, "Clip", "rest zero high", "share");
    if (chain->is_late) {
        (void)onnx_node(&builder, "Sub", chain->is_swapped ? "taken beside" : "beside taken",
                        "gap");
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "gap", "between"), "perm", 3,
                      chain->back);
    } else {
        (void)onnx_node(&builder, "Sub", chain->is_swapped ? "one two" : "two one", "between");
    }
    (void)onnx_node(&builder, "Mul", "between share", "part");
    (void)onnx_node(&builder, "Add", "one part", "y");
    window_mean(&builder, 1, (const int64_t[]){1});
    window_answers(&builder, (const char *const[]){"y", "out", NULL});
}

/* Of `time` steps. */
static void expect_interpolated(const struct cell_model *model, int64_t time, int64_t by)
{
    struct replay_tensor x = {.rank = 3, .dims = {BATCH, CHANNELS, time}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    x.count = (size_t)(BATCH * CHANNELS * time);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = 0.125 * (double)(i * i % 17);
    }
    replay_run(model, &x, outputs);
    ck_assert_int_eq(outputs[0].dims[2], time * by);
    for (size_t i = 0; i < outputs[0].count; i++) {
        const double *row = x.data + (int64_t)i / (time * by) * time;
        const int64_t r = (int64_t)i % (time * by);
        const double middle = ((double)r + 0.5) / (double)by - 0.5;
        const double place = middle < 0.0 ? 0.0 : middle;
        const int64_t first = (int64_t)place;
        const int64_t second = first + 1 < time ? first + 1 : first;
        const double wanted = row[first] + (row[second] - row[first]) * (place - (double)first);
        util_assert_close(outputs[0].data[i], wanted, 1e-5, 0);
    }
    base_free(x.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

START_TEST(test_small_operators_that_interpolate)
{
    for (int64_t by = 2; by <= 5; by++) {
        for (uint32_t way = 0; way < 8; way++) {
            struct chain chain = straight;
            struct built built;
            chain.times = by;
            chain.by_ratio = (way & 1) != 0;
            chain.is_front = (way & 2) != 0;
            chain.is_late = (way & 4) != 0;
            chain.scale = chain.by_ratio ? 7.0f : 1.0f / (float)by;
            add_chain(&chain);
            load_built(&builder, &built);
            for (int64_t time = 1; time <= STEPS_MAX; time++) {
                expect_interpolated(built.model, time, by);
            }
            free_built(&builder, &built);
        }
    }
}
END_TEST

/* Each number and order is looked at: another one is no interpolation that is known. */
START_TEST(test_small_operators_that_do_otherwise)
{
    struct chain cases[25];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cases[i] = straight;
    }
    cases[24].saturate = 2;
    for (size_t i = 12; i < 24; i++) { // in either other way
        cases[i].is_front = i % 2 == 0;
        cases[i].is_late = i < 16 || i % 2 == 1;
    }
    cases[12].is_swapped = cases[13].is_swapped = true;
    cases[14].back[0] = cases[15].back[0] = cases[16].back[0] = cases[17].back[0] = 2;
    cases[14].back[1] = cases[15].back[1] = cases[16].back[1] = cases[17].back[1] = 1;
    cases[18].more = cases[19].more = 2;
    cases[20].scale = cases[21].scale = 0.5f;
    cases[22].half = cases[23].half = 0.25f;
    cases[0].half = 0.25f;
    cases[1].scale = 0.5f;
    cases[2].low = -1.0f;
    cases[3].high = 0.5f;
    cases[4].start = 1;
    cases[5].step = 2;
    cases[6].more = 2;
    cases[7].less = 2;
    cases[8].unsqueezed = 0;
    cases[9].is_swapped = true;
    cases[10].back[0] = 2;
    cases[10].back[1] = 1;
    cases[11].times = 4097;
    cases[11].scale = 1.0f / 4097.0f;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        add_chain(&cases[i]);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "Range (node \"range\", opset 17)");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_resize");
    TCase *tcase = tcase_create("resize");
    tcase_add_test(tcase, test_elements_are_repeated);
    tcase_add_test(tcase, test_scales_of_all_times);
    tcase_add_test(tcase, test_sizes);
    tcase_add_test(tcase, test_ways_to_say_the_nearest);
    tcase_add_test(tcase, test_steps_by_what_is_made_of_them);
    tcase_add_test(tcase, test_what_is_refused);
    tcase_add_test(tcase, test_elements_between_two);
    tcase_add_test(tcase, test_elements_between_two_that_are_refused);
    tcase_add_test(tcase, test_small_operators_that_interpolate);
    tcase_add_test(tcase, test_small_operators_that_do_otherwise);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
