/* Convolutions over two axes that both lie within a row, such as the frames of a video: each step
 * is a picture [channels][height][width], and each place that is left one row of a product, whose
 * patches LINEAR finds in the picture (cells/op.h, struct cell_picture) once the channels stand
 * innermost. A depthwise one is a FILTER, and so is the largest of a window. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

struct picture {
    const struct cell__conv *conv;
    uint32_t sizes[2], left[2]; /* height and width */
    uint32_t channels, filters;
};

static struct picture picture_of(const struct cell__conv *conv)
{
    const struct cell__windows *windows = &conv->windows;
    struct picture picture = {
        .conv = conv, .channels = windows->channels, .filters = (uint32_t)conv->filters};
    cell__window_sides(windows, picture.sizes, picture.left);
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

/* [taps][taps][channels]. */
static enum base_status read_own_weights(struct cell__import *im, const struct picture *picture,
                                         struct cell_weight *out)
{
    const struct cell__window *at = picture->conv->windows.at;
    const size_t taps = (size_t)(at[0].taps * at[1].taps);
    float *w = base_arena_array(im->arena, taps * picture->channels, sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    *out = (struct cell_weight){CELL_F32, (uint32_t)taps, picture->channels, w};
    for (size_t t = 0; t < taps; t++) {
        for (size_t c = 0; c < picture->channels; c++) {
            *w++ = cell__conv_weight(picture->conv, c, c, t / (size_t)at[1].taps,
                                     t % (size_t)at[1].taps);
        }
    }
    return BASE_OK;
}

/* FILTER of a row [channels][height][width]; op has its weights. */
static enum base_status filter(struct cell__import *im, const struct picture *picture,
                               struct cell_op *op, uint32_t *row)
{
    const uint32_t places = picture->left[0] * picture->left[1];
    const uint32_t inside[3] = {1, picture->channels, picture->sizes[0] * picture->sizes[1]};
    const uint32_t outside[3] = {1, places, picture->channels};
    op->kind = CELL_OP_FILTER;
    op->n_operands = 1;
    set_picture(picture, op);
    BASE_TRY(cell__row_transpose(im, *row, inside, &op->operands[0]));
    BASE_TRY(cell__row_op(im, op, (struct cell_value){CELL_F32, places * picture->channels}, row));
    return cell__row_transpose(im, *row, outside, row);
}

static bool has_too_many_taps(const struct cell__windows *windows)
{
    return windows->at[0].taps * windows->at[1].taps > CELL_FILTER_TAPS_MAX;
}

static enum base_status lower_depthwise(struct cell__import *im, const struct picture *picture,
                                        uint32_t *row)
{
    const struct cell__conv *conv = picture->conv;
    struct cell_op op = {.variant = CELL_FILTER_SUM, .n_weights = 1};
    if (has_too_many_taps(&conv->windows)) {
        return cell__refuse(im, "a kernel of more than %u taps", CELL_FILTER_TAPS_MAX);
    }
    BASE_TRY(read_own_weights(im, picture, &op.weights[0]));
    if (conv->bias != NULL) {
        op.weights[op.n_weights++] =
            (struct cell_weight){CELL_F32, 1, picture->channels, conv->bias};
    }
    return filter(im, picture, &op, row);
}

enum base_status cell__row_picture_largest(struct cell__import *im,
                                           const struct cell__windows *windows, uint32_t *row)
{
    const struct cell__conv as = {.windows = *windows, .filters = windows->channels};
    const struct picture picture = picture_of(&as);
    struct cell_op op = {.variant = CELL_FILTER_LARGEST};
    if (has_too_many_taps(windows)) {
        *row = CELL__NONE;
        return BASE_OK;
    }
    return filter(im, &picture, &op, row);
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
