/* Convolutions over three axes: clips of a video, [batch, channels, frames, height, width]. Frames
 * are the steps, or all of them lie within one. What a frame's results are made of are some frames
 * around it: a picture (op_picture.c) that has each channel as often as there are taps along the
 * frames. Of steps that is a window, one wide row (op_window.c). Of frames within the row there are
 * several such pictures, which stand below each other as one, with rows of zeros between, so that
 * they are one product. One that goes channel by channel is the sum of a picture for each tap. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

struct clip {
    const struct cell__conv *conv;
    struct cell__windows sides;
    uint32_t row;    /* [channels][height][width] at each step, or [frames][channels][..] */
    uint32_t frames; /* within the row, 0: they are the steps */
    uint32_t left;   /* pictures of results in a row */
};

static const struct cell__window *along(const struct clip *clip)
{
    return &clip->conv->windows.at[0];
}

static uint32_t picture_size(const struct clip *clip)
{
    return clip->conv->windows.channels * clip->sides.within * clip->sides.height;
}

/* ---- Weights -------------------------------------------------------------------------------- */

/* Taps within each picture. */
static size_t count_places(const struct clip *clip)
{
    return (size_t)(clip->sides.at[0].taps * clip->sides.at[1].taps);
}

/* Of filter f and channel c, of all, at tap t along the frames; NULL: it reads other channels. */
static const float *weights_of(const struct clip *clip, size_t f, size_t c, size_t t)
{
    const struct cell__conv *conv = clip->conv;
    const size_t channels = (size_t)(conv->channels / conv->groups);
    const size_t filters = (size_t)(conv->filters / conv->groups);
    const size_t first = (f * channels + c % channels) * (size_t)along(clip)->taps + t;
    return c / channels == f / filters ? conv->w + first * count_places(clip) : NULL;
}

static void copy_weights(const struct clip *clip, const float *from, float *to)
{
    for (size_t p = 0; p < count_places(clip); p++) {
        to[p] = from == NULL ? 0.0f : from[p];
    }
}

/* [filters][taps along the frames][channels][taps within]. */
static enum base_status join_weights(struct cell__import *im, const struct clip *clip,
                                     const float **out)
{
    const size_t channels = (size_t)clip->conv->channels;
    const size_t inputs = (size_t)along(clip)->taps * channels;
    const size_t places = count_places(clip);
    if (inputs > CELL_WIDTH_MAX / places) {
        return cell__refuse(im, "a kernel of more than %u weights a filter", CELL_WIDTH_MAX);
    }
    float *w =
        base_arena_array(im->arena, inputs * places, (size_t)clip->conv->filters * sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    *out = w;
    for (size_t f = 0; f < (size_t)clip->conv->filters; f++) {
        for (size_t i = 0; i < inputs; i++, w += places) {
            copy_weights(clip, weights_of(clip, f, i % channels, i / channels), w);
        }
    }
    return BASE_OK;
}

/* [channels][taps within] of one tap along the frames. */
static enum base_status own_weights(struct cell__import *im, const struct clip *clip, size_t t,
                                    const float **out)
{
    const size_t channels = (size_t)clip->conv->channels;
    const size_t places = count_places(clip);
    float *w = base_arena_array(im->arena, channels * places, sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    *out = w;
    for (size_t c = 0; c < channels; c++) {
        copy_weights(clip, weights_of(clip, c, c, t), w + c * places);
    }
    return BASE_OK;
}

/* ---- Frames --------------------------------------------------------------------------------- */

/* What the taps first.. of each picture of results read, of frames within the row; zeros beyond
 * their ends. */
static enum base_status gather_frames(struct cell__import *im, const struct clip *clip,
                                      uint32_t first, uint32_t count, uint32_t *out)
{
    const struct cell__window *window = along(clip);
    const uint32_t size = picture_size(clip);
    uint32_t zeros = CELL__NONE;
    if (clip->left > CELL_WIDTH_MAX / size / count) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    uint32_t *parts = base_arena_array(im->arena, clip->left, count * sizeof(*parts));
    if (parts == NULL) {
        return cell__no_memory(im);
    }
    BASE_TRY(cell__row_zeros(im, size, &zeros));
    for (uint32_t i = 0; i < clip->left * count; i++) {
        const int64_t at = (int64_t)(i / count) * window->stride - window->before +
                           (int64_t)(first + i % count) * window->dilation;
        parts[i] = zeros;
        if (at >= 0 && at < (int64_t)clip->frames) {
            BASE_TRY(cell__row_slice(im, clip->row, (uint32_t)at * size, size, &parts[i]));
        }
    }
    return cell__row_concat(im, parts, clip->left * count, out);
}

/* [left][count][channels][height][width]: all taps, or one of them. */
static enum base_status read_taps(struct cell__import *im, const struct clip *clip, uint32_t first,
                                  uint32_t count, uint32_t *out)
{
    const struct cell__window *window = along(clip);
    *out = clip->row;
    if (cell__window_is_step(window)) {
        return BASE_OK;
    }
    if (clip->frames > 0) {
        return gather_frames(im, clip, first, count, out);
    }
    return count == 1 ? cell__window_tap(im, window, clip->row, first, out)
                      : cell__window_row(im, window, clip->row, out);
}

/* ---- Several pictures as one ---------------------------------------------------------------- */

/* Of pictures below each other: rows from one to the next, and of the results. */
struct stack {
    uint32_t rows, left;
};

/* Zeros around each picture of a row [left][height * width][channels]: [left * rows][..]. */
static enum base_status add_zeros(struct cell__import *im, const struct clip *clip,
                                  const struct stack *stack, uint32_t width, uint32_t *row)
{
    const uint32_t before = (uint32_t)clip->sides.at[0].before;
    const uint32_t behind = stack->rows - before - clip->sides.within;
    const uint32_t size = clip->sides.within * width;
    uint32_t zeros = CELL__NONE;
    uint32_t n = 0;
    uint32_t *parts = base_arena_array(im->arena, clip->left + 1, 2 * sizeof(*parts));
    if (parts == NULL) {
        return cell__no_memory(im);
    }
    if (before + behind == 0) {
        return BASE_OK;
    }
    for (uint32_t i = 0; i <= clip->left; i++) {
        const uint32_t rows = (i > 0 ? behind : 0) + (i < clip->left ? before : 0);
        if (rows > 0) {
            BASE_TRY(cell__row_zeros(im, rows * width, &zeros));
            parts[n++] = zeros;
        }
        if (i < clip->left) {
            BASE_TRY(cell__row_slice(im, *row, i * size, size, &parts[n++]));
        }
    }
    return cell__row_concat(im, parts, n, row);
}

/* Of results [stack->left][width] the rows that are of one picture: [left * height left][width]. */
static enum base_status take_results(struct cell__import *im, const struct clip *clip,
                                     const struct stack *stack, uint32_t width, uint32_t *row)
{
    const uint32_t apart = stack->rows / (uint32_t)clip->sides.at[0].stride;
    const uint32_t left = clip->sides.within_left;
    uint32_t *parts = base_arena_array(im->arena, clip->left, sizeof(*parts));
    if (parts == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < clip->left; i++) {
        BASE_TRY(cell__row_slice(im, *row, i * apart * width, left * width, &parts[i]));
    }
    return cell__row_concat(im, parts, clip->left, row);
}

/* The pictures of a row [left][channels][height][width] as one, [channels][rows][width]. */
static enum base_status stack_up(struct cell__import *im, const struct clip *clip,
                                 struct cell__conv *picture, struct stack *stack, uint32_t *row)
{
    struct cell__windows *sides = &picture->windows;
    struct cell__window *down = &sides->at[0];
    const int64_t rows = sides->within + down->before + down->behind;
    const int64_t stride = down->stride;
    const uint32_t inside[3] = {clip->left, sides->channels, sides->within * sides->height};
    BASE_TRY(cell__row_transpose(im, *row, inside, row));
    stack->rows = (uint32_t)((rows + stride - 1) / stride * stride);
    if (clip->left > CELL_WIDTH_MAX / stack->rows / sides->height / sides->channels) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    BASE_TRY(add_zeros(im, clip, stack, sides->height * sides->channels, row));
    sides->within = clip->left * stack->rows;
    down->before = down->behind = 0;
    down->add = -down->extent;
    stack->left = (uint32_t)((sides->within - down->extent) / stride) + 1;
    sides->within_left = stack->left;
    const uint32_t outside[3] = {1, sides->within * sides->height, sides->channels};
    return cell__row_transpose(im, *row, outside, row);
}

/* A convolution of pictures, [left][channels of it][height][width], to [filters][left][..]. */
static enum base_status convolve(struct cell__import *im, const struct clip *clip,
                                 const struct cell__conv *of, uint32_t *row)
{
    struct cell__conv picture = *of;
    struct stack stack;
    if (clip->left == 1) {
        return cell__row_picture_conv(im, &picture, row);
    }
    BASE_TRY(stack_up(im, clip, &picture, &stack, row));
    BASE_TRY(cell__row_picture_conv(im, &picture, row));
    const uint32_t filters = (uint32_t)of->filters;
    const uint32_t width = clip->sides.height_left;
    const uint32_t inside[3] = {1, filters, stack.left * width};
    const uint32_t outside[3] = {1, clip->left * clip->sides.within_left * width, filters};
    BASE_TRY(cell__row_transpose(im, *row, inside, row));
    BASE_TRY(take_results(im, clip, &stack, width * filters, row));
    return cell__row_transpose(im, *row, outside, row);
}

/* ---- Lowering ------------------------------------------------------------------------------- */

static enum base_status lower_dense(struct cell__import *im, const struct clip *clip, uint32_t *row)
{
    const int64_t taps = along(clip)->taps;
    struct cell__conv picture = *clip->conv;
    picture.windows = clip->sides;
    picture.channels *= taps;
    picture.windows.channels *= (uint32_t)taps;
    picture.groups = 1;
    BASE_TRY(join_weights(im, clip, &picture.w));
    BASE_TRY(read_taps(im, clip, 0, (uint32_t)taps, row));
    return convolve(im, clip, &picture, row);
}

static enum base_status lower_depthwise(struct cell__import *im, const struct clip *clip,
                                        uint32_t *row)
{
    struct cell__conv picture = *clip->conv;
    uint32_t tap = CELL__NONE;
    picture.windows = clip->sides;
    for (uint32_t t = 0; t < along(clip)->taps; t++) {
        BASE_TRY(read_taps(im, clip, t, 1, &tap));
        BASE_TRY(own_weights(im, clip, t, &picture.w));
        picture.bias = t == 0 ? clip->conv->bias : NULL;
        BASE_TRY(convolve(im, clip, &picture, &tap));
        BASE_TRY(t == 0 ? BASE_OK : cell__row_pair(im, CELL_OP_ADD, *row, tap, &tap));
        *row = tap;
    }
    return BASE_OK;
}

enum base_status cell__row_clip_conv(struct cell__import *im, const struct cell__node *node,
                                     struct cell__conv *conv, uint32_t *row)
{
    struct clip clip = {.conv = conv, .row = *row};
    BASE_TRY(cell__check_clip(im, node, &conv->windows, &clip.sides));
    clip.frames = conv->windows.within;
    clip.left = clip.frames > 0 ? conv->windows.within_left : 1;
    if (clip.frames > 0) {
        const uint32_t frames[3] = {1, conv->windows.channels, clip.frames};
        BASE_TRY(cell__row_transpose(im, *row, frames, &clip.row));
    }
    return conv->is_depthwise ? lower_depthwise(im, &clip, row) : lower_dense(im, &clip, row);
}
