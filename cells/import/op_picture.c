/* Convolutions over two axes that both lie within a row, such as the frames of a video: each step
 * is a picture [channels][height][width], and each place that is left one row of a product, whose
 * patches LINEAR finds in the picture (cells/op.h, struct cell_picture) once the channels stand
 * innermost. A depthwise one is a sum of products element by element. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

struct picture {
    const struct cell__conv *conv;
    uint32_t sizes[2], left[2]; /* height and width */
    uint32_t channels, filters;
};

static struct picture picture_of(const struct cell__conv *conv)
{
    const struct cell__windows *windows = &conv->windows;
    const uint32_t t = windows->time; // one of both is called the time, the other the height
    struct picture picture = {
        .conv = conv, .channels = windows->channels, .filters = (uint32_t)conv->filters};
    picture.sizes[t] = windows->within;
    picture.sizes[1 - t] = windows->height;
    picture.left[t] = windows->within_left;
    picture.left[1 - t] = windows->height_left;
    return picture;
}

/* ---- All channels to all filters ------------------------------------------------------------ */

/* [taps][taps][channels][filters]. */
static enum base_status read_weights(struct cell__import *im, const struct picture *picture,
                                     struct cell_weight *out)
{
    const struct cell__window *at = picture->conv->windows.at;
    const size_t terms = (size_t)(at[0].taps * at[1].taps) * picture->channels;
    if (terms > CELL_WIDTH_MAX) {
        return cell__refuse(im, "a kernel of more than %u weights a filter", CELL_WIDTH_MAX);
    }
    float *w = base_arena_array(im->arena, terms * picture->filters, sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    *out = (struct cell_weight){CELL_F32, (uint32_t)terms, picture->filters, w};
    for (size_t t = 0; t < terms; t++) {
        const size_t tap = t / picture->channels;
        for (size_t f = 0; f < picture->filters; f++) {
            *w++ = cell__conv_weight(picture->conv, f, t % picture->channels,
                                     tap / (size_t)at[1].taps, tap % (size_t)at[1].taps);
        }
    }
    return BASE_OK;
}

static void set_picture(const struct picture *picture, struct cell_op *op)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__window *window = &picture->conv->windows.at[i];
        op->picture.size[i] = picture->sizes[i];
        op->picture.taps[i] = (uint32_t)window->taps;
        op->picture.dilations[i] = (uint32_t)window->dilation;
        op->picture.strides[i] = (uint32_t)window->stride;
        op->picture.before[i] = (uint32_t)window->before;
        op->picture.left[i] = picture->left[i];
    }
}

static enum base_status lower_dense(struct cell__import *im, const struct picture *picture,
                                    uint32_t *row)
{
    const struct cell__conv *conv = picture->conv;
    const uint32_t places = picture->left[0] * picture->left[1];
    const uint32_t inside[3] = {1, picture->channels, picture->sizes[0] * picture->sizes[1]};
    const uint32_t outside[3] = {1, places, picture->filters};
    struct cell_op op = {
        .kind = CELL_OP_LINEAR, .n_operands = 1, .n_weights = 1, .patches = places};
    const bool is_pointwise =
        cell__window_is_step(&conv->windows.at[0]) && cell__window_is_step(&conv->windows.at[1]);
    BASE_TRY(read_weights(im, picture, &op.weights[0]));
    if (conv->bias != NULL) {
        op.weights[op.n_weights++] =
            (struct cell_weight){CELL_F32, 1, picture->filters, conv->bias};
    }
    if (is_pointwise) {
        op.step = picture->channels;
    } else {
        set_picture(picture, &op);
    }
    BASE_TRY(cell__row_transpose(im, *row, inside, &op.operands[0]));
    BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, places * picture->filters}, row));
    return cell__row_transpose(im, *row, outside, row);
}

/* ---- Each channel for itself ---------------------------------------------------------------- */

/* Of each channel the same, at each place that is left. */
static enum base_status row_of_channels(struct cell__import *im, const struct picture *picture,
                                        const float *values, uint32_t *out)
{
    const size_t channels = picture->channels;
    const size_t places = (size_t)picture->left[0] * picture->left[1];
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

static enum base_status add(struct cell__import *im, uint32_t row, uint32_t *sum)
{
    if (*sum == CELL__NONE) {
        *sum = row;
        return BASE_OK;
    }
    return cell__row_pair(im, CELL_OP_ADD, *sum, row, sum);
}

/* Pads an axis of the row, which is outermost, and splits it by its stride. */
static enum base_status open_side(struct cell__import *im, const struct picture *picture,
                                  uint32_t side, uint32_t row, struct cell__split *out)
{
    const struct cell__window *window = &picture->conv->windows.at[side];
    const uint32_t height = picture->sizes[side];
    struct cell__plane plane = {row, height, im->rows[row].value.width / height};
    BASE_TRY(cell__plane_pad(im, window->before, window->behind, CELL__EDGES_ZERO, &plane));
    return cell__plane_split(im, &plane, window, picture->left[side], out);
}

/* What a tap of both axes reads, at all places, times its weights. */
static enum base_status lower_tap(struct cell__import *im, const struct picture *picture,
                                  const struct cell__split *columns, uint32_t first,
                                  uint32_t second, uint32_t *out)
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
    BASE_TRY(cell__split_tap(im, columns, columns->row, second, out));
    return cell__row_pair(im, CELL_OP_MUL, *out, weights, out);
}

/* The lines that a tap of the height reads are turned to columns, once for all taps of the width.
 */
static enum base_status lower_depthwise(struct cell__import *im, const struct picture *picture,
                                        uint32_t *out)
{
    const struct cell__window *at = picture->conv->windows.at;
    const uint32_t inside[3] = {1, picture->channels, picture->sizes[0] * picture->sizes[1]};
    const uint32_t turned[3] = {1, picture->left[0], picture->sizes[1]};
    const uint32_t back[3] = {1, picture->left[1], picture->left[0]};
    const uint32_t outside[3] = {1, picture->left[0] * picture->left[1], picture->channels};
    struct cell__split lines;
    struct cell__split columns;
    uint32_t sum = CELL__NONE;
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_transpose(im, *out, inside, &row));
    BASE_TRY(open_side(im, picture, 0, row, &lines));
    for (uint32_t first = 0; first < (uint32_t)at[0].taps; first++) {
        BASE_TRY(cell__split_tap(im, &lines, lines.row, first, &row));
        BASE_TRY(cell__row_transpose(im, row, turned, &row));
        BASE_TRY(open_side(im, picture, 1, row, &columns));
        for (uint32_t second = 0; second < (uint32_t)at[1].taps; second++) {
            BASE_TRY(lower_tap(im, picture, &columns, first, second, &row));
            BASE_TRY(add(im, row, &sum));
        }
    }
    if (picture->conv->bias != NULL) {
        BASE_TRY(row_of_channels(im, picture, picture->conv->bias, &row));
        BASE_TRY(add(im, row, &sum));
    }
    BASE_TRY(cell__row_transpose(im, sum, back, &sum));
    return cell__row_transpose(im, sum, outside, out);
}

enum base_status cell__row_picture_conv(struct cell__import *im, const struct cell__conv *conv,
                                        uint32_t *row)
{
    const struct picture picture = picture_of(conv);
    base_assert(conv->windows.n == 2 && conv->windows.within > 0);
    if (picture.filters > CELL_WIDTH_MAX / picture.left[0] / picture.left[1]) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    return conv->is_depthwise ? lower_depthwise(im, &picture, row) : lower_dense(im, &picture, row);
}
