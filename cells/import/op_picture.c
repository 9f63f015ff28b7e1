/* Convolutions over two axes that both lie within a row, such as the frames of a video: each step
 * is a picture [channels][height][width]. It is padded and turned to [width][height][channels].
 * There the taps of one column that a place reads lie together, and so do the columns: the products
 * of all places with one column of the kernel are one LINEAR whose patches begin a place apart, and
 * the convolution is the sum of as many as the kernel is wide. Patches that begin in one column and
 * end in the next are computed for nothing, and dropped when the result is turned back. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

/* One of both axes. */
struct side {
    const struct cell__window *window;
    uint32_t size, left; /* places of the input, and of the result */
    uint32_t padded;     /* a multiple of the stride */
};

/* As it is read: [stride][columns][height.padded][channels], of whose columns each `stride`-th lie
 * together. */
struct picture {
    const struct cell__conv *conv;
    struct side height, width;
    uint32_t row, channels, filters;
};

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* more: places behind those that windows read. */
static struct side side_of(const struct cell__window *window, uint32_t size, uint32_t left,
                           int64_t more)
{
    const int64_t read = (int64_t)(left - 1) * window->stride + window->extent;
    const int64_t has = window->before + size;
    const int64_t all = round_up(read > has ? read : has, window->stride) + more * window->stride;
    return (struct side){.window = window, .size = size, .left = left, .padded = (uint32_t)all};
}

static uint32_t columns_of(const struct picture *picture)
{
    return picture->width.padded / (uint32_t)picture->width.window->stride;
}

/* Places of a column that patches begin at. */
static uint32_t places_of(const struct picture *picture)
{
    return picture->height.padded / (uint32_t)picture->height.window->stride;
}

static uint32_t column_width(const struct picture *picture)
{
    return picture->height.padded * picture->channels;
}

/* Where the column of a tap of the first place begins. */
static uint32_t start_of(const struct picture *picture, uint32_t tap)
{
    const struct cell__window *window = picture->width.window;
    const uint32_t at = tap * (uint32_t)window->dilation;
    const uint32_t stride = (uint32_t)window->stride;
    return (at % stride * columns_of(picture) + at / stride) * column_width(picture);
}

static enum base_status refuse_size(struct cell__import *im)
{
    return cell__refuse(im, "a picture of more than %u elements within a row", CELL_WIDTH_MAX);
}

static enum base_status check_size(struct cell__import *im, const struct picture *picture)
{
    const uint64_t in = (uint64_t)picture->width.padded * picture->height.padded;
    const uint64_t out = (uint64_t)picture->width.left * picture->height.padded;
    return in <= CELL_WIDTH_MAX / picture->channels && out <= CELL_WIDTH_MAX / picture->filters
               ? BASE_OK
               : refuse_size(im);
}

static enum base_status pad(struct cell__import *im, const struct side *side,
                            struct cell__plane *plane)
{
    const int64_t before = side->window->before;
    const int64_t behind = (int64_t)side->padded - before - side->size;
    if (before > CELL_WINDOW_MAX || behind > CELL_WINDOW_MAX) {
        return cell__refuse(im, "padding of %lld and %lld places", (long long)before,
                            (long long)behind);
    }
    return cell__plane_pad(im, before, behind, CELL__EDGES_ZERO, plane);
}

static enum base_status open_picture(struct cell__import *im, const struct cell__conv *conv,
                                     uint32_t row, struct picture *out)
{
    const struct cell__windows *windows = &conv->windows;
    const struct cell__window *at = windows->at;
    const bool is_first = windows->time == 0; // the steps within the row are its height
    const uint32_t sizes[2] = {is_first ? windows->within : windows->height,
                               is_first ? windows->height : windows->within};
    const uint32_t left[2] = {is_first ? windows->within_left : windows->height_left,
                              is_first ? windows->height_left : windows->within_left};
    const bool goes_on = at[0].extent > at[0].stride; // the last patches of a column in the next
    *out = (struct picture){.conv = conv,
                            .height = side_of(&at[0], sizes[0], left[0], 0),
                            .width = side_of(&at[1], sizes[1], left[1], goes_on ? 1 : 0),
                            .channels = windows->channels,
                            .filters = (uint32_t)conv->filters};
    BASE_TRY(check_size(im, out));
    struct cell__plane plane = {row, sizes[0], sizes[1] * windows->channels};
    const uint32_t inside[3] = {1, windows->channels, sizes[0] * sizes[1]};
    BASE_TRY(cell__row_transpose(im, row, inside, &plane.row));
    BASE_TRY(pad(im, &out->height, &plane));
    const uint32_t turned[3] = {1, plane.height, sizes[1]};
    BASE_TRY(cell__row_transpose(im, plane.row, turned, &plane.row));
    plane = (struct cell__plane){plane.row, sizes[1], column_width(out)};
    BASE_TRY(pad(im, &out->width, &plane));
    const uint32_t parted[3] = {1, columns_of(out), (uint32_t)at[1].stride};
    return cell__row_transpose(im, plane.row, parted, &out->row);
}

/* A result [width.left][places][filters], of each column's places those that are left. */
static enum base_status close_picture(struct cell__import *im, const struct picture *picture,
                                      uint32_t row, uint32_t places, uint32_t *out)
{
    const uint32_t width = picture->width.left;
    const uint32_t height = picture->height.left;
    const uint32_t turned[3] = {1, width, places};
    const uint32_t outside[3] = {1, height * width, picture->filters};
    BASE_TRY(cell__row_transpose(im, row, turned, &row));
    BASE_TRY(cell__row_slice(im, row, 0, height * width * picture->filters, &row));
    return cell__row_transpose(im, row, outside, out);
}

static enum base_status add(struct cell__import *im, uint32_t row, uint32_t *sum)
{
    if (*sum == CELL__NONE) {
        *sum = row;
        return BASE_OK;
    }
    return cell__row_pair(im, CELL_OP_ADD, *sum, row, sum);
}

/* ---- All channels to all filters ------------------------------------------------------------ */

/* Taps `first`.. of the height, `taps` of them, and tap k of the width: [taps][channels][filters].
 */
static enum base_status read_weights(struct cell__import *im, const struct picture *picture,
                                     size_t first, size_t taps, size_t k, struct cell_weight *out)
{
    const size_t terms = taps * picture->channels;
    float *w = base_arena_array(im->arena, terms * picture->filters, sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    *out = (struct cell_weight){CELL_F32, (uint32_t)terms, picture->filters, w};
    for (size_t t = 0; t < terms; t++) {
        for (size_t f = 0; f < picture->filters; f++) {
            *w++ = cell__conv_weight(picture->conv, f, t % picture->channels,
                                     first + t / picture->channels, k);
        }
    }
    return BASE_OK;
}

static void add_bias(const struct cell__conv *conv, struct cell_op *op)
{
    if (conv->bias != NULL) {
        op->weights[op->n_weights++] =
            (struct cell_weight){CELL_F32, 1, (uint32_t)conv->filters, conv->bias};
    }
}

/* The products with those weights, of all places. */
static enum base_status multiply(struct cell__import *im, const struct picture *picture,
                                 uint32_t first, uint32_t taps, uint32_t k, bool has_bias,
                                 uint32_t *out)
{
    const struct cell__window *window = picture->height.window;
    const uint32_t patches = picture->width.left * places_of(picture);
    const uint32_t start =
        start_of(picture, k) + first * (uint32_t)window->dilation * picture->channels;
    struct cell_op op = {.kind = CELL_OP_LINEAR,
                         .n_operands = 1,
                         .n_weights = 1,
                         .patches = patches,
                         .step = (uint32_t)window->stride * picture->channels};
    BASE_TRY(read_weights(im, picture, first, taps, k, &op.weights[0]));
    if (has_bias) {
        add_bias(picture->conv, &op);
    }
    BASE_TRY(cell__row_slice(im, picture->row, start,
                             (patches - 1) * op.step + taps * picture->channels, &op.operands[0]));
    return cell__row_op(im, &op, (struct cell_value){CELL_F32, patches * picture->filters}, out);
}

/* Taps of the height that are dilated do not lie together. */
static enum base_status lower_dense(struct cell__import *im, const struct picture *picture,
                                    uint32_t *out)
{
    const struct cell__window *height = picture->height.window;
    const uint32_t together = height->dilation == 1 ? (uint32_t)height->taps : 1;
    uint32_t sum = CELL__NONE;
    uint32_t row = CELL__NONE;
    for (uint32_t k = 0; k < (uint32_t)picture->width.window->taps; k++) {
        for (uint32_t first = 0; first < (uint32_t)height->taps; first += together) {
            const bool has_bias = sum == CELL__NONE;
            BASE_TRY(multiply(im, picture, first, together, k, has_bias, &row));
            BASE_TRY(add(im, row, &sum));
        }
    }
    return close_picture(im, picture, sum, places_of(picture), out);
}

/* ---- Each channel for itself ---------------------------------------------------------------- */

/* Of each channel the same, at each place that is left. */
static enum base_status row_of_channels(struct cell__import *im, const struct picture *picture,
                                        const float *values, uint32_t *out)
{
    const size_t channels = picture->channels;
    const size_t places = (size_t)picture->width.left * picture->height.left;
    float *all = base_arena_array(im->arena, channels * places, sizeof(*all));
    if (all == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < places; i++) {
        memcpy(all + i * channels, values, channels * sizeof(*all));
    }
    return cell__row_const(im, (struct cell_value){CELL_F32, (uint32_t)(channels * places)}, all,
                           out);
}

/* What a tap of both axes reads, at all places, times its weights. */
static enum base_status lower_tap(struct cell__import *im, const struct picture *picture,
                                  const struct cell__split *split, uint32_t first, uint32_t second,
                                  uint32_t *out)
{
    float *w = base_arena_array(im->arena, picture->channels, sizeof(*w));
    uint32_t weights = CELL__NONE;
    if (w == NULL) {
        return cell__no_memory(im);
    }
    for (size_t c = 0; c < picture->channels; c++) {
        w[c] = cell__conv_weight(picture->conv, c, c, first, second);
    }
    BASE_TRY(row_of_channels(im, picture, w, &weights));
    BASE_TRY(cell__split_tap(im, split, split->row, first, out));
    return cell__row_pair(im, CELL_OP_MUL, *out, weights, out);
}

/* The columns that a tap of the width reads are turned, so that rows lie together, once. */
static enum base_status lower_depthwise(struct cell__import *im, const struct picture *picture,
                                        uint32_t *out)
{
    const struct side *height = &picture->height;
    const uint32_t left = picture->width.left;
    const uint32_t turned[3] = {1, left, height->padded};
    uint32_t sum = CELL__NONE;
    uint32_t row = CELL__NONE;
    for (uint32_t k = 0; k < (uint32_t)picture->width.window->taps; k++) {
        struct cell__plane plane = {CELL__NONE, height->padded, left * picture->channels};
        struct cell__split split;
        BASE_TRY(cell__row_slice(im, picture->row, start_of(picture, k),
                                 left * column_width(picture), &row));
        BASE_TRY(cell__row_transpose(im, row, turned, &plane.row));
        BASE_TRY(cell__plane_split(im, &plane, height->window, height->left, &split));
        for (uint32_t first = 0; first < (uint32_t)height->window->taps; first++) {
            BASE_TRY(lower_tap(im, picture, &split, first, k, &row));
            BASE_TRY(add(im, row, &sum));
        }
    }
    if (picture->conv->bias != NULL) {
        BASE_TRY(row_of_channels(im, picture, picture->conv->bias, &row));
        BASE_TRY(add(im, row, &sum));
    }
    const uint32_t outside[3] = {1, height->left * left, picture->channels};
    return cell__row_transpose(im, sum, outside, out);
}

/* ---- Of one place each ---------------------------------------------------------------------- */

static enum base_status lower_pointwise(struct cell__import *im, const struct cell__conv *conv,
                                        uint32_t *row)
{
    const uint32_t places = conv->windows.within * conv->windows.height;
    const uint32_t channels = conv->windows.channels;
    const uint32_t filters = (uint32_t)conv->filters;
    const struct picture picture = {.conv = conv, .channels = channels, .filters = filters};
    const uint32_t inside[3] = {1, channels, places};
    const uint32_t outside[3] = {1, places, filters};
    struct cell_op op = {.kind = CELL_OP_LINEAR,
                         .n_operands = 1,
                         .n_weights = 1,
                         .patches = places,
                         .step = channels};
    if (filters > CELL_WIDTH_MAX / places) {
        return refuse_size(im);
    }
    BASE_TRY(read_weights(im, &picture, 0, 1, 0, &op.weights[0]));
    add_bias(conv, &op);
    BASE_TRY(cell__row_transpose(im, *row, inside, &op.operands[0]));
    BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, places * filters}, row));
    return cell__row_transpose(im, *row, outside, row);
}

enum base_status cell__row_picture_conv(struct cell__import *im, const struct cell__conv *conv,
                                        uint32_t *row)
{
    const struct cell__windows *windows = &conv->windows;
    struct picture picture;
    base_assert(windows->n == 2 && windows->within > 0);
    if (!conv->is_depthwise && cell__window_is_step(&windows->at[0]) &&
        cell__window_is_step(&windows->at[1])) {
        return lower_pointwise(im, conv, row);
    }
    BASE_TRY(open_picture(im, conv, *row, &picture));
    return conv->is_depthwise ? lower_depthwise(im, &picture, row) : lower_dense(im, &picture, row);
}
