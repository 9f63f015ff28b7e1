/* Convolutions and pools over two axes that both lie within a row (cells/import/op_picture.c), and
 * over three of which the first is the steps or lies there too (op_clip.c): kernels, strides,
 * dilations, paddings and groups drawn at random, against the sums that they stand for; and what is
 * refused. Exports of whole models are test_import_exports.c's. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { BATCH = 2, SIDES_MAX = 3, HIDDEN = 2 };
enum kind { CONV, LARGEST, MEAN, MEAN_OF_ALL, TRANSPOSED };

/* One axis: its size, and how the windows go along it. */
struct side {
    int64_t size, taps, stride, dilation, before, behind, left;
    int64_t more; /* output_padding of what is transposed */
};

static struct onnx_builder builder;
static struct base_random numbers;
static struct side sides[SIDES_MAX];
static uint32_t n_sides;
static bool is_timed; /* of three: the first is the steps */
static enum kind kind;
static int64_t channels, filters, groups;
static const float *weights; /* [filters, channels / groups, taps, taps] */
static const float *bias;

static int64_t draw(int64_t low, int64_t high)
{
    return low + (int64_t)base_random_below(&numbers, (uint32_t)(high - low + 1));
}

static void draw_side(struct side *side)
{
    do {
        *side = (struct side){
            .size = draw(1, n_sides == 2 ? 14 : 7), .taps = draw(1, 4), .stride = draw(1, 3)};
        side->dilation = draw(0, 3) == 0 ? draw(1, 3) : 1;
        side->more = kind == TRANSPOSED ? draw(0, side->stride - 1) : 0;
        side->before = draw(0, side->taps - 1);
        side->behind = draw(0, side->taps - 1);
        if (kind == MEAN || kind == MEAN_OF_ALL ||
            (kind == LARGEST && side->before + side->behind > 0)) {
            side->dilation = 1;
        }
        const int64_t extent = (side->taps - 1) * side->dilation + 1;
        const int64_t room = side->size + side->before + side->behind - extent;
        side->left = room < 0 ? 0 : room / side->stride + 1;
        if (kind == TRANSPOSED) {
            side->left =
                (side->size - 1) * side->stride + extent + side->more - side->before - side->behind;
        }
    } while (side->left <= 0);
}

static const float *floats_of(Onnx__TensorProto *tensor)
{
    return (const float *)(const void *)tensor->raw_data.data;
}

/* What each of the sides has, and their product. */
static int64_t product_of(int64_t (*of)(const struct side *))
{
    int64_t product = 1;
    for (uint32_t i = 0; i < n_sides; i++) {
        product *= of(&sides[i]);
    }
    return product;
}

static int64_t size_of(const struct side *side)
{
    return side->size;
}

static int64_t taps_of(const struct side *side)
{
    return side->taps;
}

static int64_t left_of(const struct side *side)
{
    return side->left;
}

/* Number `at` of a product of these, along each axis. */
static void part(int64_t at, int64_t (*of)(const struct side *), int64_t out[SIDES_MAX])
{
    for (uint32_t i = n_sides; i-- > 0;) {
        out[i] = at % of(&sides[i]);
        at /= of(&sides[i]);
    }
}

static void begin(void)
{
    int64_t dims[2 + SIDES_MAX] = {-1, channels};
    for (uint32_t i = 0; i < n_sides; i++) {
        dims[2 + i] = is_timed && i == 0 ? -1 : sides[i].size;
    }
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 2 + n_sides, dims);
}

static void set_windows(Onnx__NodeProto *node)
{
    int64_t taps[SIDES_MAX];
    int64_t strides[SIDES_MAX];
    int64_t dilations[SIDES_MAX];
    int64_t more[SIDES_MAX];
    int64_t pads[2 * SIDES_MAX];
    for (uint32_t i = 0; i < n_sides; i++) {
        taps[i] = sides[i].taps;
        strides[i] = sides[i].stride;
        dilations[i] = sides[i].dilation;
        more[i] = sides[i].more;
        pads[i] = sides[i].before;
        pads[n_sides + i] = sides[i].behind;
    }
    onnx_set_ints(&builder, node, "kernel_shape", n_sides, taps);
    onnx_set_ints(&builder, node, "strides", n_sides, strides);
    onnx_set_ints(&builder, node, "pads", 2 * n_sides, pads);
    if (kind == CONV || kind == LARGEST || kind == TRANSPOSED) {
        onnx_set_ints(&builder, node, "dilations", n_sides, dilations);
    }
    if (kind == TRANSPOSED) {
        onnx_set_ints(&builder, node, "output_padding", n_sides, more);
    }
}

/* A layer whose steps are the first axis of y. */
static void add_layer(void)
{
    const int64_t perm[] = {2, 0, 1, 3, 4};
    const int64_t all[] = {0, 0, -1};
    const uint32_t width = (uint32_t)(filters * sides[1].left * sides[2].left);
    onnx_add_weights(&builder, "GRU", width, HIDDEN, 1);
    onnx_constant(&builder, "all", onnx_ints(&builder, 1, 3, all));
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 5, perm);
    (void)onnx_node(&builder, "Reshape", "turned all", "rows");
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "rows w r b", "out"), "hidden_size", HIDDEN);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
}

static void build(void)
{
    const bool is_turned = kind == TRANSPOSED;
    const int64_t dims[] = {is_turned ? channels : filters,
                            (is_turned ? filters : channels) / groups, sides[0].taps, sides[1].taps,
                            sides[2].taps};
    begin();
    if (kind != CONV && !is_turned) {
        Onnx__NodeProto *node =
            onnx_node(&builder, kind == LARGEST ? "MaxPool" : "AveragePool", "x", "y");
        set_windows(node);
        if (kind != LARGEST) {
            onnx_set_int(&builder, node, "count_include_pad", kind == MEAN_OF_ALL);
        }
    } else {
        Onnx__TensorProto *w = onnx_random(&builder, 2 + n_sides, dims, &numbers, 1.0f);
        Onnx__TensorProto *b = onnx_random(&builder, 1, &filters, &numbers, 1.0f);
        weights = floats_of(w);
        bias = floats_of(b);
        onnx_constant(&builder, "kernel", w);
        onnx_constant(&builder, "bias", b);
        Onnx__NodeProto *node =
            onnx_node(&builder, is_turned ? "ConvTranspose" : "Conv", "x kernel bias", "y");
        set_windows(node);
        onnx_set_int(&builder, node, "group", groups);
    }
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    if (is_timed) {
        add_layer();
    }
}

/* ---- What it stands for --------------------------------------------------------------------- */

/* What has been read of a window. */
struct reading {
    double sum, largest;
    uint32_t inside;
};

/* Element (c, at) of one row of the batch; false: in the padding. */
static bool read_at(const double *x, int64_t c, const int64_t at[], double *out)
{
    int64_t element = c;
    for (uint32_t i = 0; i < n_sides; i++) {
        if (at[i] < 0 || at[i] >= sides[i].size) {
            return false;
        }
        element = element * sides[i].size + at[i];
    }
    *out = x[element];
    return true;
}

/* The window of place `place`, of channel c, times weights where there are. */
static void read_window(const double *x, int64_t c, const int64_t place[], const float *w,
                        struct reading *reading)
{
    for (int64_t k = 0; k < product_of(taps_of); k++) {
        int64_t at[SIDES_MAX];
        double value = 0.0;
        part(k, taps_of, at);
        for (uint32_t i = 0; i < n_sides; i++) {
            at[i] = place[i] * sides[i].stride + at[i] * sides[i].dilation - sides[i].before;
        }
        if (!read_at(x, c, at, &value)) {
            continue;
        }
        reading->inside++;
        reading->largest = value > reading->largest ? value : reading->largest;
        reading->sum += w == NULL ? value : value * (double)w[k];
    }
}

/* The input, along one axis, that adds to output `place` by this tap; -1: none. */
static int64_t adds_from(const struct side *side, int64_t place, int64_t tap)
{
    const int64_t at = place + side->before - tap * side->dilation;
    const bool is_one = at >= 0 && at % side->stride == 0 && at / side->stride < side->size;
    return is_one ? at / side->stride : -1;
}

/* Of a transposed one: weights [channels, filters of a group, taps, taps]. */
static double transposed(const double *x, int64_t f, const int64_t place[])
{
    const int64_t of_group = filters / groups;
    const int64_t own = channels / groups;
    const int64_t taps = product_of(taps_of);
    double sum = (double)bias[f];
    for (int64_t c = f / of_group * own; c < (f / of_group + 1) * own; c++) {
        const float *w = weights + (c * of_group + f % of_group) * taps;
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t at[SIDES_MAX];
            double value = 0.0;
            part(tap, taps_of, at);
            for (uint32_t i = 0; i < n_sides; i++) {
                at[i] = adds_from(&sides[i], place[i], at[i]);
            }
            sum += read_at(x, c, at, &value) ? value * (double)w[tap] : 0.0;
        }
    }
    return sum;
}

static double expected(const double *x, int64_t f, const int64_t place[])
{
    if (kind == TRANSPOSED) {
        return transposed(x, f, place);
    }
    const int64_t taps = product_of(taps_of);
    struct reading reading = {.largest = -(double)INFINITY};
    if (kind != CONV) {
        read_window(x, f, place, NULL, &reading);
        return kind == LARGEST ? reading.largest
               : kind == MEAN  ? reading.sum / reading.inside
                               : reading.sum / (double)taps;
    }
    const int64_t own = channels / groups;
    const int64_t first = f / (filters / groups) * own;
    for (int64_t c = 0; c < own; c++) {
        read_window(x, first + c, place, weights + (f * own + c) * taps, &reading);
    }
    return reading.sum + (double)bias[f];
}

static void run(const char *what)
{
    int64_t dims[2 + SIDES_MAX] = {BATCH, channels};
    for (uint32_t i = 0; i < n_sides; i++) {
        dims[2 + i] = sides[i].size;
    }
    struct replay_tensor x = replay_tensor_random(2 + n_sides, dims, &numbers);
    struct replay_tensor outputs[2] = {{.rank = 0}};
    const struct replay_tensor *y = &outputs[0];
    struct built built;
    struct base_error error;
    const enum base_status status = try_built(&builder, &built, &error);
    if (status != BASE_OK && strstr(error.message, "repeats one row") != NULL) { // of padding alone
        base_free(x.data);
        free_built(&builder, &built);
        return;
    }
    ck_assert_msg(status == BASE_OK, "%s: %s", what, error.message);
    replay_run(built.model, &x, outputs);
    ck_assert_uint_eq(y->count, (size_t)(BATCH * filters * product_of(left_of)));
    size_t n = 0;
    for (int64_t b = 0; b < BATCH; b++) {
        const double *row = x.data + b * channels * product_of(size_of);
        for (int64_t f = 0; f < filters; f++) {
            for (int64_t p = 0; p < product_of(left_of); p++, n++) {
                int64_t place[SIDES_MAX];
                part(p, left_of, place);
                const double wanted = expected(row, f, place);
                ck_assert_msg(fabs(y->data[n] - wanted) <= 1e-5, "%s: number %zu: %g, wanted %g",
                              what, n, y->data[n], wanted);
            }
        }
    }
    base_free(x.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
    free_built(&builder, &built);
}

/* Windows along these axes, drawn by the number of the test, and what they are. */
static void try_windows(int seed, enum kind last)
{
    char what[384];
    numbers = util_random((uint64_t)seed);
    kind = seed % 2 == 0 ? CONV : (enum kind)draw(LARGEST, (int64_t)last);
    groups = draw(0, 2) > 0 ? 1 : draw(1, 3);
    channels = groups * draw(1, 3);
    filters =
        (kind == CONV || kind == TRANSPOSED) && groups < channels ? groups * draw(1, 3) : channels;
    (void)snprintf(what, sizeof(what), "kind %d, %lld channels, %lld filters, %lld groups%s",
                   (int)kind, (long long)channels, (long long)filters, (long long)groups,
                   is_timed ? ", steps" : "");
    for (uint32_t i = 0; i < n_sides; i++) {
        const struct side *side = &sides[i];
        draw_side(&sides[i]);
        (void)snprintf(what + strlen(what), sizeof(what) - strlen(what),
                       "; %lld by %lld, stride %lld, %lld apart, %lld and %lld",
                       (long long)side->size, (long long)side->taps, (long long)side->stride,
                       (long long)side->dilation, (long long)side->before, (long long)side->behind);
    }
    build();
    run(what);
}

START_TEST(test_windows)
{
    n_sides = 2;
    try_windows(_i, TRANSPOSED);
}
END_TEST

START_TEST(test_clips)
{
    n_sides = 3;
    is_timed = _i % 4 < 2;
    try_windows(_i, MEAN_OF_ALL);
}
END_TEST

START_TEST(test_pictures_too_large)
{
    kind = CONV;
    n_sides = 2;
    channels = 4;
    filters = 4;
    groups = 1;
    for (uint32_t i = 0; i < 2; i++) {
        sides[i] = (struct side){.size = 513, .taps = 3, .stride = 1, .dilation = 1};
    }
    build();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "of more than 1048576 elements");
    channels = 1;
    filters = 8;
    build();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "a row of more than 1048576 elements");
    sides[0].taps = sides[1].taps = 1;
    build();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "a row of more than 1048576 elements");
}
END_TEST

START_TEST(test_clips_refused)
{
    kind = CONV;
    n_sides = 3;
    channels = filters = groups = 1;
    sides[0] = (struct side){.size = 100, .taps = 50, .stride = 1, .dilation = 1, .left = 51};
    sides[1] = (struct side){.size = 40, .taps = 3, .stride = 1, .dilation = 1, .left = 38};
    sides[2] = (struct side){.size = 13, .taps = 13, .stride = 1, .dilation = 1, .left = 1};
    build();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "a row of more than 1048576 elements");
    sides[0] = (struct side){.size = 60000, .taps = 1, .stride = 1, .dilation = 1, .left = 60000};
    sides[1] = (struct side){
        .size = 2, .taps = 3, .stride = 1, .dilation = 1, .before = 4000, .left = 4000};
    sides[2] = (struct side){.size = 2, .taps = 1, .stride = 1, .dilation = 1, .left = 2};
    build();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "a row of more than 1048576 elements");
    kind = TRANSPOSED;
    build();
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "ConvTranspose (node \"y\", opset 17): of "
                   "anything but floats [batch, channels, steps], or "
                   "with up to 1 more axes");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_frames");
    TCase *tcase = tcase_create("frames");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_windows, 0, 400);
    tcase_add_loop_test(tcase, test_clips, 0, 400);
    tcase_add_test(tcase, test_pictures_too_large);
    tcase_add_test(tcase, test_clips_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
