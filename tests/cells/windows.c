/* See windows.h. */
#include "tests/cells/windows.h"

#include "tests/cells/parse.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };

struct onnx_builder window_builder;
struct base_random window_numbers;

void window_begin(int64_t time)
{
    const int64_t dims[] = {-1, WINDOW_CHANNELS, time};
    window_numbers = util_random(1);
    onnx_init(&window_builder, 17);
    onnx_add_weights(&window_builder, "GRU", WINDOW_CHANNELS, WINDOW_HIDDEN, 1);
    onnx_input(&window_builder, "x", FLOAT, 3, dims);
}

void window_end(const char *operands)
{
    const int64_t perm[] = {2, 0, 1};
    onnx_set_ints(&window_builder, onnx_node(&window_builder, "Transpose", "y", "turned"), "perm",
                  3, perm);
    onnx_set_int(&window_builder, onnx_node(&window_builder, "GRU", operands, "out"), "hidden_size",
                 WINDOW_HIDDEN);
    window_answers(&window_builder, (const char *const[]){"y", "out", NULL});
}

/* A node whose axes are an attribute up to an opset, from there on an input. */
struct with_axes {
    const char *op, *from, *to;
    int64_t since;
    uint32_t n;
    const int64_t *axes;
};

static Onnx__NodeProto *add_with_axes(struct onnx_builder *builder, const struct with_axes *of)
{
    char operands[32];
    char name[24];
    const bool is_input = builder->opset.version >= of->since;
    (void)snprintf(name, sizeof(name), "%s_axes", of->to);
    (void)snprintf(operands, sizeof(operands), is_input ? "%s %s" : "%s", of->from, name);
    if (is_input) {
        onnx_constant(builder, name, onnx_ints(builder, 1, of->n, of->axes));
    }
    Onnx__NodeProto *node = onnx_node(builder, of->op, operands, of->to);
    if (!is_input) {
        onnx_set_ints(builder, node, "axes", of->n, of->axes);
    }
    return node;
}

void window_mean(struct onnx_builder *builder, uint32_t n, const int64_t *features)
{
    const int64_t perm[] = {1, 0, 2};
    const int64_t last = 2;
    const struct with_axes mean = {"ReduceMean", "y", "means", 18, n, features};
    const struct with_axes rows = {"Unsqueeze", "means", "rows", 13, 1, &last};
    onnx_set_int(builder, add_with_axes(builder, &mean), "keepdims", 0);
    (void)add_with_axes(builder, &rows);
    onnx_set_ints(builder, onnx_node(builder, "Transpose", "rows", "turned"), "perm", 3, perm);
    onnx_set_int(builder, onnx_node(builder, "GRU", "turned w r b", "out"), "hidden_size",
                 WINDOW_HIDDEN);
}

void window_answers(struct onnx_builder *builder, const char *const *names)
{
    for (; *names != NULL; names++) {
        onnx_output(builder, *names, FLOAT, 0, NULL);
        builder->graph.output[builder->graph.n_output - 1]->type = NULL;
    }
}

void window_refuse(enum base_status status, const char *why)
{
    window_end("turned w r b");
    expect_refused(&window_builder, status, why);
}

/* A Slice is a window of one tap with less than no padding. */
static Onnx__NodeProto *add_slice(const struct window *w, const char *from, const char *to)
{
    const int64_t start = -w->before;
    const int64_t stop = w->behind == 0 ? INT64_MAX : w->behind;
    const int64_t axis = 2;
    const int64_t *const numbers_of[] = {&start, &stop, &axis, &w->stride};
    char operands[96];
    int n = snprintf(operands, sizeof(operands), "%s", from);
    for (uint32_t i = 0; i < 4; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "%s_%u", to, i);
        onnx_constant(&window_builder, name, onnx_ints(&window_builder, 1, 1, numbers_of[i]));
        n += snprintf(operands + n, sizeof(operands) - (size_t)n, " %s", name);
    }
    return onnx_node(&window_builder, "Slice", operands, to);
}

Onnx__NodeProto *window_add(const struct window *w, const char *from, const char *to)
{
    if (strcmp(w->op, "Slice") == 0) {
        return add_slice(w, from, to);
    }
    const int64_t pads[] = {w->before, w->behind};
    const int64_t dims[] = {WINDOW_CHANNELS, 1, w->taps};
    char operands[32];
    const bool is_conv = strcmp(w->op, "Conv") == 0;
    (void)snprintf(operands, sizeof(operands), is_conv ? "%s wc" : "%s", from);
    if (is_conv) {
        onnx_constant(&window_builder, "wc",
                      onnx_random(&window_builder, 3, dims, &window_numbers, 0.5f));
    }
    Onnx__NodeProto *node = onnx_node(&window_builder, w->op, operands, to);
    onnx_set_ints(&window_builder, node, "kernel_shape", 1, &w->taps);
    onnx_set_ints(&window_builder, node, "strides", 1, &w->stride);
    onnx_set_ints(&window_builder, node, "dilations", 1, &w->dilation);
    onnx_set_ints(&window_builder, node, "pads", 2, pads);
    if (is_conv) {
        onnx_set_int(&window_builder, node, "group", WINDOW_CHANNELS);
        return node;
    }
    onnx_set_int(&window_builder, node, "ceil_mode", w->rounds_up ? 1 : 0);
    if (strcmp(w->op, "AveragePool") == 0) {
        onnx_set_int(&window_builder, node, "count_include_pad", w->counts_pads ? 1 : 0);
    }
    return node;
}

int64_t window_steps_left(const struct window *w, int64_t time)
{
    const int64_t rest = time + w->before + w->behind - w->dilation * (w->taps - 1) - 1;
    const int64_t up = w->rounds_up ? w->stride - 1 : 0;
    const int64_t left = rest + up < 0 ? 0 : (rest + up) / w->stride + 1;
    return w->rounds_up && (left - 1) * w->stride >= time + w->before ? left - 1 : left;
}

double window_expected(const struct window *w, const double *at, size_t step, int64_t time,
                       const float *weights, int64_t t)
{
    double sum = 0.0;
    double largest = -(double)INFINITY;
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
        const bool has_pads = w->before > 0 || w->behind > 0; // what rounding adds is none
        return sum / (double)(w->counts_pads && has_pads ? w->taps : inside);
    }
    return strcmp(w->op, "MaxPool") == 0 ? largest : sum;
}

/* Runs the model on sequences of so many steps, and compares y. */
