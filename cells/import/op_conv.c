/* Convolutions along the steps of a sequence (ONNX Conv of rank 3), also of pictures whose columns
 * or rows are the steps (rank 4), of clips (rank 5, op_clip.c), and BatchNormalization. A step
 * reads a window of the steps around it (op_window.c): rows that lie behind each other in memory
 * are one wide row to it, so the convolution is one product and nothing is copied. Along the other
 * axis of a picture each place of a row is one more row of that product (LINEAR's patches), once
 * the window is turned so that the steps of a place lie together. Of a dilated one the window's
 * steps are read apart; a depthwise one is a sum of products element by element. Between groups of
 * several channels stand zeros. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

enum { IN_X, IN_W, IN_B };

/* What a Conv node says. */
struct conv {
    struct cell__conv of;
    // Of steps that lie within the row.
    const uint32_t *steps; /* rows [channels][height] of each */
    uint32_t place;        /* of those that are left, the one at work */
};

static const struct cell__window *along_time(const struct conv *conv)
{
    return &conv->of.windows.at[conv->of.windows.time];
}

/* Of rank 3 there is one element of it, and one tap. */
static const struct cell__window *along_height(const struct conv *conv)
{
    static const struct cell__window step = {
        .taps = 1, .dilation = 1, .extent = 1, .stride = 1, .add = -1};
    return conv->of.windows.n == 1 ? &step : &conv->of.windows.at[1 - conv->of.windows.time];
}

float cell__conv_weight(const struct cell__conv *conv, size_t f, size_t c, size_t first,
                        size_t second)
{
    const struct cell__window *at = conv->windows.at;
    const size_t channels = (size_t)(conv->channels / conv->groups);
    const size_t inner = conv->windows.n > 1 ? (size_t)at[1].taps : 1;
    const size_t taps = (size_t)at[0].taps * inner;
    if (c / channels != f / (size_t)(conv->filters / conv->groups)) {
        return 0.0f;
    }
    return conv->w[(f * channels + c % channels) * taps + first * inner + second];
}

/* Of filter f and channel c, of all, at these taps of time and height. */
static float weight_at(const struct conv *conv, size_t f, size_t c, size_t t, size_t h)
{
    const bool is_first = conv->of.windows.time == 0;
    return cell__conv_weight(&conv->of, f, c, is_first ? t : h, is_first ? h : t);
}

static enum base_status check_weights(struct cell__import *im, const struct cell__value *w,
                                      const struct conv *conv)
{
    const struct cell__tensor *tensor = &w->tensor;
    bool fits = conv->of.filters >= 1 && conv->of.filters <= CELL_WIDTH_MAX &&
                conv->of.filters % conv->of.groups == 0 &&
                conv->of.channels % conv->of.groups == 0 &&
                tensor->dims[1] == conv->of.channels / conv->of.groups;
    for (uint32_t k = 2; k < tensor->rank; k++) {
        fits = fits && tensor->dims[k] >= 1;
    }
    if (!fits) {
        char name[CELL__TEXT_BYTES];
        char text[CELL__TEXT_BYTES];
        return cell__invalid(im, "weights \"%s\", %s, that do not fit x of %lld channels%s",
                             cell__quote(name, w->name), cell__tensor_text(text, tensor),
                             (long long)conv->of.channels, conv->of.groups > 1 ? " in groups" : "");
    }
    return BASE_OK;
}

enum base_status cell__conv_operands(struct cell__import *im, const struct cell__node *node,
                                     uint32_t rank_most, int64_t *channels, int64_t *groups)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    const struct cell__value *w = cell__input(im, node, IN_W);
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank < 3 ||
        x->shape.rank > rank_most) {
        return cell__refuse(im,
                            "of anything but floats [batch, channels, steps], or with up to %u "
                            "more axes",
                            rank_most - 3);
    }
    if (w->kind != CELL__CONST || w->dtype != CELL__F32 || w->tensor.rank != x->shape.rank) {
        return cell__refuse(im, "weights that are no constant of floats, of rank %u",
                            x->shape.rank);
    }
    *channels = cell__axis_size(im, &x->shape.axes[1]);
    return cell__attr_int(im, node, "group", 1, groups);
}

enum base_status cell__conv_bias(struct cell__import *im, const struct cell__node *node,
                                 int64_t filters, const float **out)
{
    *out = NULL;
    if (!cell__has_input(node, IN_B)) {
        return BASE_OK;
    }
    const struct cell__value *b = cell__input(im, node, IN_B);
    if (b->kind != CELL__CONST || b->dtype != CELL__F32 || b->tensor.rank != 1 ||
        b->tensor.dims[0] != filters) {
        return cell__refuse(im, "a bias that is no constant of floats, one a filter");
    }
    *out = b->tensor.data;
    return BASE_OK;
}

static enum base_status read_conv(struct cell__import *im, const struct cell__node *node,
                                  struct conv *conv)
{
    const struct cell__value *w = cell__input(im, node, IN_W);
    *conv = (struct conv){.place = 0};
    BASE_TRY(cell__conv_operands(im, node, 5, &conv->of.channels, &conv->of.groups));
    conv->of.filters = w->tensor.dims[0];
    conv->of.w = w->tensor.data;
    if (conv->of.groups < 1) {
        return cell__invalid(im, "%lld groups", (long long)conv->of.groups);
    }
    BASE_TRY(check_weights(im, w, conv));
    BASE_TRY(cell__conv_bias(im, node, conv->of.filters, &conv->of.bias));
    return cell__read_windows(im, node, &w->tensor.dims[2], &conv->of.windows);
}

enum base_status cell__infer_conv(struct cell__import *im, struct cell__node *node)
{
    struct conv conv;
    BASE_TRY(read_conv(im, node, &conv));
    return cell__infer_windows(im, node, &conv.of.windows, conv.of.filters);
}

/* ---- All channels to all filters ------------------------------------------------------------ */

/* Of one tap of both axes: [channels][filters]. */
static void copy_tap(const struct conv *conv, size_t t, size_t h, float *out)
{
    for (size_t c = 0; c < (size_t)conv->of.channels; c++) {
        for (size_t f = 0; f < (size_t)conv->of.filters; f++) {
            *out++ = weight_at(conv, f, c, t, h);
        }
    }
}

/* The product with the weights [height, time, channels] or, of one place that has all of the
 * height, [time, height, channels]. */
static enum base_status multiply(struct cell__import *im, const struct conv *conv,
                                 struct cell_op *op, uint32_t *out)
{
    const size_t channels = (size_t)conv->of.channels;
    const size_t times = (size_t)along_time(conv)->taps;
    const size_t heights = (size_t)along_height(conv)->taps;
    const size_t filters = (size_t)conv->of.filters;
    const struct cell_value value = {CELL_F32, (uint32_t)filters * cell_op_patches(op)};
    float *w = base_arena_array(im->arena, times * heights * channels * filters, sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    for (size_t tap = 0; tap < times * heights; tap++) {
        const size_t t = op->patches > 0 ? tap % times : tap / heights;
        const size_t h = op->patches > 0 ? tap / times : tap % heights;
        copy_tap(conv, t, h, w + tap * channels * filters);
    }
    op->kind = CELL_OP_LINEAR;
    op->n_operands = op->n_weights = 1;
    op->weights[0] = (struct cell_weight){CELL_F32, (uint32_t)(times * heights * channels),
                                          (uint32_t)filters, w};
    if (conv->of.bias != NULL) {
        op->weights[op->n_weights++] =
            (struct cell_weight){CELL_F32, 1, (uint32_t)filters, conv->of.bias};
    }
    return cell__row_op(im, op, value, out);
}

/* What the taps of each place read, place behind place: [height left][taps][taps of time *
 * channels]. */
static enum base_status gather_taps(struct cell__import *im, const struct conv *conv,
                                    const struct cell__plane *plane, uint32_t *out)
{
    const struct cell__window *window = along_height(conv);
    const uint32_t taps = (uint32_t)window->taps;
    const uint32_t dims[3] = {1, taps, conv->of.windows.height_left};
    uint32_t rows[CELL_WINDOW_MAX];
    struct cell__split split;
    base_assert(taps <= CELL_WINDOW_MAX);
    BASE_TRY(cell__plane_split(im, plane, window, conv->of.windows.height_left, &split));
    for (uint32_t k = 0; k < taps; k++) {
        BASE_TRY(cell__split_tap(im, &split, split.row, k, &rows[k]));
    }
    BASE_TRY(cell__row_concat(im, rows, taps, out));
    return cell__row_transpose(im, *out, dims, out);
}

/* The window of steps, the steps of each place side by side: [height][time][channels]. */
static enum base_status turn_window(struct cell__import *im, const struct conv *conv,
                                    struct cell__plane *plane)
{
    const uint32_t times = (uint32_t)along_time(conv)->taps;
    const uint32_t dims[3] = {1, times, plane->height};
    BASE_TRY(cell__row_transpose(im, plane->row, dims, &plane->row));
    plane->width *= times;
    return BASE_OK;
}

/* The step within the row that a tap reads; NONE beyond its ends. */
static uint32_t step_of_tap(const struct conv *conv, uint32_t tap)
{
    const struct cell__window *time = along_time(conv);
    const int64_t at = (int64_t)conv->place * time->stride + tap * time->dilation - time->before;
    return at >= 0 && at < conv->of.windows.within ? conv->steps[at] : CELL__NONE;
}

/* The planes of all taps behind each other, of steps that lie within the row. */
static enum base_status gather_steps(struct cell__import *im, const struct conv *conv,
                                     struct cell__plane *plane)
{
    const uint32_t taps = (uint32_t)along_time(conv)->taps;
    uint32_t rows[CELL_WINDOW_MAX];
    base_assert(taps <= CELL_WINDOW_MAX);
    for (uint32_t k = 0; k < taps; k++) {
        const uint32_t step = step_of_tap(conv, k);
        struct cell__plane one;
        if (step == CELL__NONE) {
            BASE_TRY(cell__row_zeros(im, plane->height * plane->width, &rows[k]));
            continue;
        }
        BASE_TRY(cell__plane_of(im, step, conv->of.windows.channels, &one));
        rows[k] = one.row;
    }
    return cell__row_concat(im, rows, taps, &plane->row);
}

static enum base_status lower_dense(struct cell__import *im, const struct conv *conv, uint32_t row,
                                    uint32_t *out)
{
    const struct cell__window *time = along_time(conv);
    const struct cell__window *window = along_height(conv);
    const uint32_t left = conv->of.windows.height_left;
    const bool is_all = left == 1 && window->taps == conv->of.windows.height &&
                        window->dilation == 1 && window->before == 0 && window->behind == 0;
    struct cell_op op = {.kind = CELL_OP_LINEAR};
    struct cell__plane plane;
    if (conv->of.filters > CELL_WIDTH_MAX / left) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    BASE_TRY(cell__plane_of(im, row, conv->of.windows.channels, &plane));
    if (conv->of.windows.within > 0) {
        BASE_TRY(gather_steps(im, conv, &plane));
    } else if (!cell__window_is_step(time)) {
        BASE_TRY(cell__window_row(im, time, plane.row, &plane.row));
    }
    if (is_all) {
        op.operands[0] = plane.row;
        return multiply(im, conv, &op, out);
    }
    BASE_TRY(turn_window(im, conv, &plane));
    BASE_TRY(cell__plane_pad(im, window->before, window->behind, CELL__EDGES_ZERO, &plane));
    op.patches = left;
    op.step = plane.width * (uint32_t)window->stride;
    op.operands[0] = plane.row;
    if (window->dilation != 1) {
        op.step = plane.width * (uint32_t)window->taps;
        BASE_TRY(gather_taps(im, conv, &plane, &op.operands[0]));
    }
    BASE_TRY(multiply(im, conv, &op, out));
    const struct cell__plane result = {*out, left, (uint32_t)conv->of.filters};
    return cell__plane_row(im, &result, out);
}

/* ---- Each channel for itself ---------------------------------------------------------------- */

/* What channels times height have in common: of each channel the same, at each place. */
static enum base_status row_of_channels(struct cell__import *im, const struct conv *conv,
                                        const float *values, uint32_t *out)
{
    const size_t channels = (size_t)conv->of.channels;
    const size_t left = conv->of.windows.height_left;
    const struct cell_value value = {CELL_F32, (uint32_t)(channels * left)};
    float *all = base_arena_array(im->arena, channels * left, sizeof(*all));
    if (all == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < left; i++) {
        memcpy(all + i * channels, values, channels * sizeof(*all));
    }
    return cell__row_const(im, value, all, out);
}

/* Tap t of the steps and h of the height, of all channels, times their weights. */
static enum base_status lower_tap(struct cell__import *im, const struct conv *conv,
                                  const struct cell__split *split, uint32_t t, uint32_t h,
                                  uint32_t *out)
{
    const struct cell__window *time = along_time(conv);
    const size_t channels = (size_t)conv->of.channels;
    float *w = base_arena_array(im->arena, channels, sizeof(*w));
    uint32_t weights = CELL__NONE;
    if (w == NULL) {
        return cell__no_memory(im);
    }
    for (size_t c = 0; c < channels; c++) {
        w[c] = weight_at(conv, c, c, t, h);
    }
    BASE_TRY(row_of_channels(im, conv, w, &weights));
    *out = split->row;
    if (conv->of.windows.within == 0 && !cell__window_is_step(time)) {
        BASE_TRY(cell__window_tap(im, time, split->row, t, out));
    }
    BASE_TRY(cell__split_tap(im, split, *out, h, out));
    return cell__row_pair(im, CELL_OP_MUL, *out, weights, out);
}

/* The row, or of those within it the step that tap t reads, padded and split. */
static enum base_status split_step(struct cell__import *im, const struct conv *conv, uint32_t row,
                                   struct cell__split *out)
{
    const struct cell__window *window = along_height(conv);
    struct cell__plane plane;
    BASE_TRY(cell__plane_of(im, row, conv->of.windows.channels, &plane));
    BASE_TRY(cell__plane_pad(im, window->before, window->behind, CELL__EDGES_ZERO, &plane));
    return cell__plane_split(im, &plane, window, conv->of.windows.height_left, out);
}

/* Taps of steps beyond the ends of those within the row add nothing. */
static enum base_status lower_depthwise(struct cell__import *im, const struct conv *conv,
                                        uint32_t row, uint32_t *out)
{
    const uint32_t heights = (uint32_t)along_height(conv)->taps;
    const uint32_t times = (uint32_t)along_time(conv)->taps;
    const uint32_t width = conv->of.windows.channels * conv->of.windows.height_left;
    struct cell__split split;
    uint32_t other = CELL__NONE;
    *out = CELL__NONE;
    BASE_TRY(split_step(im, conv, row, &split));
    for (uint32_t t = 0; t < times; t++) {
        const uint32_t step = conv->of.windows.within > 0 ? step_of_tap(conv, t) : row;
        if (step != row && step != CELL__NONE) {
            BASE_TRY(split_step(im, conv, step, &split));
        }
        for (uint32_t h = 0; h < heights && step != CELL__NONE; h++) {
            BASE_TRY(lower_tap(im, conv, &split, t, h, &other));
            BASE_TRY(*out == CELL__NONE ? BASE_OK
                                        : cell__row_pair(im, CELL_OP_ADD, *out, other, &other));
            *out = other;
        }
    }
    if (*out == CELL__NONE) {
        BASE_TRY(cell__row_zeros(im, width, out));
    }
    if (conv->of.bias != NULL) {
        BASE_TRY(row_of_channels(im, conv, conv->of.bias, &other));
        BASE_TRY(cell__row_pair(im, CELL_OP_ADD, *out, other, out));
    }
    const struct cell__plane result = {*out, conv->of.windows.height_left,
                                       (uint32_t)conv->of.channels};
    return cell__plane_row(im, &result, out);
}

static enum base_status lower_place(struct cell__import *im, const struct conv *conv, uint32_t row,
                                    uint32_t *out)
{
    return conv->of.is_depthwise ? lower_depthwise(im, conv, row, out)
                                 : lower_dense(im, conv, row, out);
}

/* Along steps that lie within the row, such as a stream's last ones and the one that has come: each
 * that is left is a convolution along the other axis, and all are joined. */
static enum base_status lower_within(struct cell__import *im, const struct cell__node *node,
                                     struct conv *conv, uint32_t *row)
{
    const struct cell__windows *windows = &conv->of.windows;
    const uint32_t axis = 2 + windows->time;
    const struct cell__place left = {.outer = (uint32_t)conv->of.filters *
                                              (windows->time == 1 ? windows->height_left : 1),
                                     .size = 1,
                                     .inner = windows->time == 1 ? 1 : windows->height_left};
    struct cell__place place;
    struct cell__place places[CELL__WITHIN_LEFT_MAX];
    uint32_t left_rows[CELL__WITHIN_LEFT_MAX];
    uint32_t *steps = base_arena_array(im->arena, windows->within, sizeof(*steps));
    if (steps == NULL) {
        return cell__no_memory(im);
    }
    BASE_TRY(cell__axis_in_row(im, &cell__input(im, node, IN_X)->shape, axis, "goes", &place));
    for (uint32_t s = 0; s < windows->within; s++) {
        BASE_TRY(cell__row_part(im, *row, &place, s, 1, &steps[s]));
    }
    base_assert(windows->within_left <= CELL__WITHIN_LEFT_MAX);
    conv->steps = steps;
    for (conv->place = 0; conv->place < windows->within_left; conv->place++) {
        BASE_TRY(lower_place(im, conv, steps[0], &left_rows[conv->place]));
        places[conv->place] = left;
    }
    return cell__row_join(im, left_rows, places, windows->within_left, row);
}

/* Along one axis or two, of which one may be the steps. */
static enum base_status lower_windows(struct cell__import *im, const struct cell__node *node,
                                      struct conv *conv, uint32_t *row)
{
    BASE_TRY(cell__check_windows(im, node, &conv->of.windows, row));
    BASE_TRY(conv->of.windows.is_picture   ? cell__row_picture_conv(im, &conv->of, row)
             : conv->of.windows.within > 0 ? lower_within(im, node, conv, row)
                                           : lower_place(im, conv, *row, row));
    return cell__window_parts(im, &conv->of.windows, (uint32_t)conv->of.filters, row);
}

static enum base_status lower(struct cell__import *im, struct cell__node *node, struct conv *conv)
{
    uint32_t row = cell__input(im, node, IN_X)->row;
    conv->of.is_depthwise = conv->of.groups > 1 && conv->of.groups == conv->of.channels &&
                            conv->of.filters == conv->of.channels;
    conv->of.windows.takes_within = true;
    BASE_TRY(conv->of.windows.n == 3 ? cell__row_clip_conv(im, node, &conv->of, &row)
                                     : lower_windows(im, node, conv, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__lower_conv(struct cell__import *im, struct cell__node *node)
{
    struct conv conv;
    BASE_TRY(read_conv(im, node, &conv));
    return lower(im, node, &conv);
}

enum base_status cell__lower_as_conv(struct cell__import *im, struct cell__node *node,
                                     const struct cell__conv *as)
{
    struct conv conv = {.of = *as};
    return lower(im, node, &conv);
}

/* ---- BatchNormalization ------------------------------------------------------------------- */

enum { SCALE = 1, BIAS, MEAN, VARIANCE, BN_INPUTS };

enum base_status cell__infer_batch_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    int64_t training = 0;
    BASE_TRY(cell__attr_int(im, node, "training_mode", 0, &training));
    if (training != 0 || cell__has_output(node, 1)) {
        return cell__refuse(im, "training_mode");
    }
    if (cell__is_row_norm(im, node)) {
        return cell__infer_row_norm(im, node);
    }
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank < 2) {
        return cell__refuse(im, "of anything but floats [batch, channels, ..]");
    }
    const int64_t channels = cell__axis_size(im, &x->shape.axes[1]);
    for (uint32_t i = SCALE; i < BN_INPUTS; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        if (value->kind != CELL__CONST || value->dtype != CELL__F32 || value->tensor.rank != 1 ||
            value->tensor.dims[0] != channels) {
            return cell__refuse(im, "input %u is no constant of floats, one a channel", i);
        }
    }
    cell__set_rows(im, node, 0, CELL__F32, &x->shape);
    return BASE_OK;
}

/* (x - mean) / sqrt(variance + epsilon) * scale + bias, the constants folded to two. */
enum base_status cell__lower_batch_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    const float *in[BN_INPUTS] = {NULL};
    float epsilon = 0.0f;
    if (cell__is_row_norm(im, node)) {
        return cell__lower_row_norm(im, node);
    }
    BASE_TRY(cell__attr_float(im, node, "epsilon", 1e-5f, &epsilon));
    const struct cell_value value = im->rows[x->row].value;
    struct cell__place place;
    BASE_TRY(cell__axis_in_row(im, &x->shape, 1, "normalises", &place));
    for (uint32_t i = SCALE; i < BN_INPUTS; i++) {
        in[i] = cell__input(im, node, i)->tensor.data;
    }
    float *factor = base_arena_array(im->arena, value.width, sizeof(*factor));
    float *added = base_arena_array(im->arena, value.width, sizeof(*added));
    if (factor == NULL || added == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < value.width; i++) {
        const uint32_t c = i / place.inner % place.size;
        const double root = sqrt((double)in[VARIANCE][c] + (double)epsilon);
        const double by = (double)in[SCALE][c] / root;
        factor[i] = (float)by;
        added[i] = (float)((double)in[BIAS][c] - (double)in[MEAN][c] * by);
    }
    uint32_t row = CELL__NONE;
    uint32_t other = CELL__NONE;
    BASE_TRY(cell__row_const(im, value, factor, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, x->row, other, &row));
    BASE_TRY(cell__row_const(im, value, added, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, row, other, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
