/* Convolutions and pools over two axes that both lie within a row (cells/import/op_picture.c):
 * kernels, strides, dilations, paddings and groups drawn at random, against the sums that they
 * stand for; and what is refused. Exports of whole models are test_import_exports.c's. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { BATCH = 2 };
enum kind { CONV, LARGEST, MEAN, MEAN_OF_ALL, TRANSPOSED };

/* One axis: its size, and how the windows go along it. */
struct side {
    int64_t size, taps, stride, dilation, before, behind, left;
    int64_t more; /* output_padding of what is transposed */
};

static struct onnx_builder builder;
static struct base_random numbers;
static struct side sides[2];
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
        *side = (struct side){.size = draw(1, 14), .taps = draw(1, 4), .stride = draw(1, 3)};
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

static void begin(void)
{
    const int64_t dims[] = {-1, channels, sides[0].size, sides[1].size};
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, dims);
}

static void set_windows(Onnx__NodeProto *node)
{
    const int64_t taps[] = {sides[0].taps, sides[1].taps};
    const int64_t strides[] = {sides[0].stride, sides[1].stride};
    const int64_t dilations[] = {sides[0].dilation, sides[1].dilation};
    const int64_t pads[] = {sides[0].before, sides[1].before, sides[0].behind, sides[1].behind};
    onnx_set_ints(&builder, node, "kernel_shape", 2, taps);
    onnx_set_ints(&builder, node, "strides", 2, strides);
    onnx_set_ints(&builder, node, "pads", 4, pads);
    if (kind == CONV || kind == LARGEST || kind == TRANSPOSED) {
        onnx_set_ints(&builder, node, "dilations", 2, dilations);
    }
    if (kind == TRANSPOSED) {
        const int64_t more[] = {sides[0].more, sides[1].more};
        onnx_set_ints(&builder, node, "output_padding", 2, more);
    }
}

static void build(void)
{
    const bool is_turned = kind == TRANSPOSED;
    const int64_t dims[] = {is_turned ? channels : filters,
                            (is_turned ? filters : channels) / groups, sides[0].taps,
                            sides[1].taps};
    begin();
    if (kind != CONV && !is_turned) {
        Onnx__NodeProto *node =
            onnx_node(&builder, kind == LARGEST ? "MaxPool" : "AveragePool", "x", "y");
        set_windows(node);
        if (kind != LARGEST) {
            onnx_set_int(&builder, node, "count_include_pad", kind == MEAN_OF_ALL);
        }
    } else {
        Onnx__TensorProto *w = onnx_random(&builder, 4, dims, &numbers, 1.0f);
        Onnx__TensorProto *b = onnx_random(&builder, 1, &filters, &numbers, 1.0f);
        weights = floats_of(w);
        bias = floats_of(b);
        onnx_constant(&builder, "w", w);
        onnx_constant(&builder, "b", b);
        Onnx__NodeProto *node =
            onnx_node(&builder, is_turned ? "ConvTranspose" : "Conv", "x w b", "y");
        set_windows(node);
        onnx_set_int(&builder, node, "group", groups);
    }
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

/* ---- What it stands for --------------------------------------------------------------------- */

/* What has been read of a window. */
struct reading {
    double sum, largest;
    uint32_t inside;
};

/* Element (c, at) of one row of the batch; false: in the padding. */
static bool read_at(const double *x, int64_t c, const int64_t at[2], double *out)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (at[i] < 0 || at[i] >= sides[i].size) {
            return false;
        }
    }
    *out = x[(c * sides[0].size + at[0]) * sides[1].size + at[1]];
    return true;
}

/* The window of place `place`, of channel c, times weights where there are. */
static void read_window(const double *x, int64_t c, const int64_t place[2], const float *w,
                        struct reading *reading)
{
    for (int64_t i = 0; i < sides[0].taps; i++) {
        for (int64_t j = 0; j < sides[1].taps; j++) {
            const int64_t at[2] = {
                place[0] * sides[0].stride + i * sides[0].dilation - sides[0].before,
                place[1] * sides[1].stride + j * sides[1].dilation - sides[1].before};
            double value = 0.0;
            if (!read_at(x, c, at, &value)) {
                continue;
            }
            reading->inside++;
            reading->largest = value > reading->largest ? value : reading->largest;
            reading->sum += w == NULL ? value : value * (double)w[i * sides[1].taps + j];
        }
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
static double transposed(const double *x, int64_t f, const int64_t place[2])
{
    const int64_t of_group = filters / groups;
    const int64_t own = channels / groups;
    double sum = (double)bias[f];
    for (int64_t c = f / of_group * own; c < (f / of_group + 1) * own; c++) {
        const float *w = weights + (c * of_group + f % of_group) * sides[0].taps * sides[1].taps;
        for (int64_t tap = 0; tap < sides[0].taps * sides[1].taps; tap++) {
            const int64_t at[2] = {adds_from(&sides[0], place[0], tap / sides[1].taps),
                                   adds_from(&sides[1], place[1], tap % sides[1].taps)};
            double value = 0.0;
            sum += read_at(x, c, at, &value) ? value * (double)w[tap] : 0.0;
        }
    }
    return sum;
}

static double expected(const double *x, int64_t f, const int64_t place[2])
{
    if (kind == TRANSPOSED) {
        return transposed(x, f, place);
    }
    const int64_t taps = sides[0].taps * sides[1].taps;
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
    const int64_t dims[] = {BATCH, channels, sides[0].size, sides[1].size};
    struct replay_tensor x = replay_tensor_random(4, dims, &numbers);
    struct replay_tensor y = {.rank = 0};
    struct built built;
    struct base_error error;
    const enum base_status status = try_built(&builder, &built, &error);
    if (status != BASE_OK && strstr(error.message, "repeats one row") != NULL) { // of padding alone
        base_free(x.data);
        free_built(&builder, &built);
        return;
    }
    ck_assert_msg(status == BASE_OK, "%s: %s", what, error.message);
    replay_run(built.model, &x, &y);
    ck_assert_uint_eq(y.count, (size_t)(BATCH * filters * sides[0].left * sides[1].left));
    size_t n = 0;
    for (int64_t b = 0; b < BATCH; b++) {
        const double *row = x.data + b * channels * sides[0].size * sides[1].size;
        for (int64_t f = 0; f < filters; f++) {
            for (int64_t p = 0; p < sides[0].left * sides[1].left; p++, n++) {
                const int64_t place[2] = {p / sides[1].left, p % sides[1].left};
                const double wanted = expected(row, f, place);
                ck_assert_msg(fabs(y.data[n] - wanted) <= 1e-5, "%s: number %zu: %g, wanted %g",
                              what, n, y.data[n], wanted);
            }
        }
    }
    base_free(x.data);
    base_free(y.data);
    free_built(&builder, &built);
}

START_TEST(test_windows)
{
    char what[256];
    numbers = util_random((uint64_t)_i);
    kind = _i % 2 == 0 ? CONV : (enum kind)draw(LARGEST, TRANSPOSED);
    draw_side(&sides[0]);
    draw_side(&sides[1]);
    groups = draw(0, 2) > 0 ? 1 : draw(1, 3);
    channels = groups * draw(1, 3);
    filters =
        (kind == CONV || kind == TRANSPOSED) && groups < channels ? groups * draw(1, 3) : channels;
    (void)snprintf(what, sizeof(what), "kind %d, %lld channels, %lld filters, %lld groups",
                   (int)kind, (long long)channels, (long long)filters, (long long)groups);
    for (uint32_t i = 0; i < 2; i++) {
        const struct side *side = &sides[i];
        (void)snprintf(what + strlen(what), sizeof(what) - strlen(what),
                       "; %lld by %lld, stride %lld, %lld apart, %lld and %lld",
                       (long long)side->size, (long long)side->taps, (long long)side->stride,
                       (long long)side->dilation, (long long)side->before, (long long)side->behind);
    }
    build();
    run(what);
}
END_TEST

START_TEST(test_pictures_too_large)
{
    kind = CONV;
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

int main(void)
{
    Suite *suite = suite_create("import_frames");
    TCase *tcase = tcase_create("frames");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_windows, 0, 400);
    tcase_add_test(tcase, test_pictures_too_large);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
