/* Transposed convolutions (ONNX ConvTranspose of rank 3 and 4): each element adds its product with
 * the kernel to what is made, every `stride` elements further on. Read the other way round, outputs
 * lie in blocks of `stride`, and each block is made of the few inputs before it: an ordinary
 * convolution with `stride` times as many filters. Blocks of an axis within a row lie behind each
 * other as its elements do. Those of steps are the steps of a sequence of their own, whose rows
 * have parts, and the parts are the steps that are made (struct cell_source).
 *
 * Cost: as the ordinary convolution; kernels that strides or dilation do not fill, and groups, are
 * filled with zeros. Steps that are made are copied once, and so are pictures within a step, whose
 * both axes lie within a row. Without a stride it is an ordinary convolution with the kernel turned
 * round, and done as one. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"
#include "base/divide.h"

#include <string.h>

enum { IN_X, IN_W };

/* Of one axis. Block b makes outputs b * stride .. of those that would be there without padding,
 * from inputs b - taps + 1 .. b. */
struct blocks {
    int64_t taps;  /* inputs that a block reads */
    int64_t first; /* the first block that is needed */
    int64_t more;  /* blocks of n inputs: n + more */
    int64_t cut;   /* outputs of the first block that padding takes away */
    int64_t add;   /* outputs of n inputs: n * stride + add */
};

/* What a ConvTranspose node says. */
struct transposed {
    int64_t channels, filters, groups;
    struct cell__windows windows;
    const float *w,
        *bias; /* [channels, filters of a group, taps of each axis]; [filters] or NULL */
};

static struct blocks blocks_of(const struct cell__window *window)
{
    const int64_t stride = window->stride;
    const int64_t last = window->extent - 1 - window->behind + window->more; // of input 0
    const int64_t first = window->before / stride;
    return (struct blocks){
        .taps = (window->extent - 1) / stride + 1,
        .first = first,
        .more = base_floor_divide(last, stride) - first,
        .cut = window->before % stride,
        .add = last + 1 - stride - window->before,
    };
}

/* ---- The node ------------------------------------------------------------------------------- */

static enum base_status check_weights(struct cell__import *im, const struct cell__value *w,
                                      const struct transposed *conv)
{
    bool fits = conv->channels >= 1 && w->tensor.dims[0] == conv->channels && conv->groups >= 1 &&
                conv->channels % conv->groups == 0;
    for (uint32_t k = 1; k < w->tensor.rank; k++) {
        fits = fits && w->tensor.dims[k] >= 1;
    }
    if (!fits) {
        char name[CELL__TEXT_BYTES];
        char text[CELL__TEXT_BYTES];
        return cell__invalid(im,
                             "weights \"%s\", %s, that do not fit x of %lld channels in %lld "
                             "groups",
                             cell__quote(name, w->name), cell__tensor_text(text, &w->tensor),
                             (long long)conv->channels, (long long)conv->groups);
    }
    return w->tensor.dims[1] <= CELL_WIDTH_MAX / conv->groups
               ? BASE_OK
               : cell__refuse(im, "more than %u filters", CELL_WIDTH_MAX);
}

static enum base_status read_node(struct cell__import *im, const struct cell__node *node,
                                  struct transposed *conv)
{
    const struct cell__value *w = cell__input(im, node, IN_W);
    *conv = (struct transposed){.channels = 0};
    BASE_TRY(cell__conv_operands(im, node, 4, &conv->channels, &conv->groups));
    BASE_TRY(check_weights(im, w, conv));
    conv->w = w->tensor.data;
    conv->filters = w->tensor.dims[1] * conv->groups;
    BASE_TRY(cell__conv_bias(im, node, conv->filters, &conv->bias));
    return cell__read_transposed(im, node, &w->tensor.dims[2], &conv->windows);
}

/* What is made along an axis: where a stride parts blocks, of a sequence of these. */
static enum base_status infer_axis(struct cell__import *im, const struct cell__axis *axis,
                                   const struct cell__window *window, struct cell__axis *out)
{
    const struct blocks blocks = blocks_of(window);
    struct cell__axis whole;
    if (window->stride == 1) {
        return cell__axis_strided(im, axis, blocks.add - 1, 1, out);
    }
    BASE_TRY(cell__axis_strided(im, axis, blocks.more - 1, 1, &whole));
    return cell__axis_parted(im, &whole, window->stride, blocks.add - blocks.more * window->stride,
                             out);
}

enum base_status cell__infer_conv_transpose(struct cell__import *im, struct cell__node *node)
{
    struct transposed conv;
    struct cell__shape out = cell__input(im, node, IN_X)->shape;
    BASE_TRY(read_node(im, node, &conv));
    BASE_TRY(cell__axis_new(im, conv.filters, &out.axes[1]));
    for (uint32_t i = 0; i < conv.windows.n; i++) {
        const struct cell__axis axis = out.axes[2 + i];
        BASE_TRY(infer_axis(im, &axis, &conv.windows.at[i], &out.axes[2 + i]));
    }
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* ---- Its product ---------------------------------------------------------------------------- */

/* Both axes of the windows, as checked: [0] of the steps, [1] of the height. */
struct axes {
    struct cell__window window[2];
    struct blocks blocks[2];
    uint32_t height, height_left; /* within a row */
};

static void read_axes(const struct transposed *conv, struct axes *axes)
{
    static const struct cell__window step = {
        .taps = 1, .dilation = 1, .extent = 1, .stride = 1, .add = -1};
    const uint32_t time = conv->windows.time;
    axes->window[0] = conv->windows.at[time];
    axes->window[1] = conv->windows.n == 1 ? step : conv->windows.at[1 - time];
    axes->height = conv->windows.height;
    axes->height_left = conv->windows.height_left;
    for (uint32_t i = 0; i < 2; i++) {
        axes->blocks[i] = blocks_of(&axes->window[i]);
    }
}

/* The tap of the kernel by which an input adds to output `part` of the block `before` blocks behind
 * it; -1: by none. */
static int64_t tap_of(const struct cell__window *window, int64_t before, int64_t part)
{
    const int64_t place = before * window->stride + part;
    const bool is_one = place % window->dilation == 0 && place / window->dilation < window->taps;
    return is_one ? place / window->dilation : -1;
}

/* Of channel c to filter f at these taps of time and height. */
static float weight_at(const struct transposed *conv, const struct axes *axes, int64_t c, int64_t f,
                       const int64_t taps[2])
{
    const int64_t of_group = conv->filters / conv->groups;
    const int64_t times = axes->window[0].taps;
    const int64_t heights = axes->window[1].taps;
    if (taps[0] < 0 || taps[1] < 0 || c / (conv->channels / conv->groups) != f / of_group) {
        return 0.0f;
    }
    const int64_t tap =
        conv->windows.time == 0 ? taps[0] * heights + taps[1] : taps[1] * times + taps[0];
    return conv->w[(c * of_group + f % of_group) * times * heights + tap];
}

/* Of channel c of an input that stands so many blocks before: [parts of height][parts of time]
 * [filters]. */
static void copy_channel(const struct transposed *conv, const struct axes *axes, int64_t c,
                         const int64_t before[2], float *out)
{
    const int64_t parts = axes->window[0].stride * axes->window[1].stride;
    for (int64_t i = 0; i < parts; i++) {
        const int64_t part[2] = {i % axes->window[0].stride, i / axes->window[0].stride};
        const int64_t taps[2] = {tap_of(&axes->window[0], before[0], part[0]),
                                 tap_of(&axes->window[1], before[1], part[1])};
        for (int64_t f = 0; f < conv->filters; f++) {
            *out++ = weight_at(conv, axes, c, f, taps);
        }
    }
}

/* The weights of a block: of inputs [height][time][channels] to outputs [parts of height][parts of
 * time][filters]. */
static enum base_status read_weights(struct cell__import *im, const struct transposed *conv,
                                     const struct axes *axes, struct cell_op *op)
{
    const size_t times = (size_t)axes->blocks[0].taps;
    const size_t heights = (size_t)axes->blocks[1].taps;
    const size_t parts = (size_t)(axes->window[0].stride * axes->window[1].stride);
    const size_t filters = (size_t)conv->filters;
    const uint32_t inputs = (uint32_t)(heights * times) * (uint32_t)conv->channels;
    const uint32_t outputs = (uint32_t)(parts * filters);
    float *w = base_arena_array(im->arena, (size_t)inputs * outputs, sizeof(*w));
    float *bias = base_arena_array(im->arena, outputs, sizeof(*bias));
    if (w == NULL || bias == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < inputs; i++) {
        const int64_t place = i / conv->channels;
        const int64_t before[2] = {axes->blocks[0].taps - 1 - place % axes->blocks[0].taps,
                                   axes->blocks[1].taps - 1 - place / axes->blocks[0].taps};
        copy_channel(conv, axes, i % conv->channels, before, w + (size_t)i * outputs);
    }
    for (size_t i = 0; conv->bias != NULL && i < parts; i++) {
        memcpy(bias + i * filters, conv->bias, filters * sizeof(*bias));
    }
    op->kind = CELL_OP_LINEAR;
    op->n_weights = conv->bias != NULL ? 2 : 1;
    op->weights[0] = (struct cell_weight){CELL_F32, inputs, outputs, w};
    op->weights[1] = (struct cell_weight){CELL_F32, 1, outputs, bias};
    return BASE_OK;
}

/* Whether what so many blocks make is more than a row may have. */
static enum base_status check_size(struct cell__import *im, const struct transposed *conv,
                                   const struct axes *axes, uint64_t n_blocks)
{
    const uint64_t parts = (uint64_t)(axes->window[0].stride * axes->window[1].stride);
    return parts * n_blocks <= CELL_WIDTH_MAX / (uint64_t)conv->filters
               ? BASE_OK
               : cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
}

/* Blocks of the height, whose inputs lie behind each other in plane->row. */
static enum base_status multiply(struct cell__import *im, const struct transposed *conv,
                                 const struct axes *axes, uint32_t n_blocks,
                                 struct cell__plane *plane)
{
    struct cell_op op = {.n_operands = 1,
                         .operands = {plane->row},
                         .patches = n_blocks > 1 ? n_blocks : 0,
                         .step = n_blocks > 1 ? plane->width : 0};
    BASE_TRY(check_size(im, conv, axes, n_blocks));
    BASE_TRY(read_weights(im, conv, axes, &op));
    const uint32_t outputs = op.weights[0].cols;
    plane->height = n_blocks * (uint32_t)axes->window[1].stride;
    plane->width = outputs / (uint32_t)axes->window[1].stride;
    return cell__row_op(im, &op, (struct cell_value){CELL_F32, outputs * n_blocks}, &plane->row);
}

/* ---- What it reads and makes ---------------------------------------------------------------- */

/* The steps that a block of steps reads, side by side in each place: [height][time][channels]. */
static enum base_status gather_steps(struct cell__import *im, const struct axes *axes,
                                     uint32_t sequence, struct cell__plane *plane)
{
    const struct blocks *blocks = &axes->blocks[0];
    const int64_t behind = blocks->more + blocks->first;
    const struct cell__steps steps = {.sequence = sequence,
                                      .count = (uint32_t)blocks->taps,
                                      .stride = 1,
                                      .behind = (uint32_t)(behind < 0 ? 0 : behind),
                                      .offset = (int32_t)(blocks->first - blocks->taps + 1)};
    const uint32_t dims[3] = {1, steps.count, plane->height};
    if (steps.count == 1 && steps.offset == 0 && blocks->more == 0) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_window(im, plane->row, &steps, &plane->row));
    BASE_TRY(cell__row_transpose(im, plane->row, dims, &plane->row));
    plane->width *= steps.count;
    return BASE_OK;
}

/* Places of a plane from `first` on, which may be before the first one: zeros, as behind the last.
 */
static enum base_status take_places(struct cell__import *im, int64_t first, int64_t count,
                                    struct cell__plane *plane)
{
    const int64_t behind = first + count - plane->height;
    const int64_t before = first < 0 ? -first : 0;
    BASE_TRY(cell__plane_pad(im, before, behind > 0 ? behind : 0, CELL__EDGES_ZERO, plane));
    plane->height = (uint32_t)count;
    return cell__row_slice(im, plane->row, (uint32_t)(first + before) * plane->width,
                           (uint32_t)count * plane->width, &plane->row);
}

/* Each step, with what is made of it by other steps beside it, as a row. */
static enum base_status lower(struct cell__import *im, const struct transposed *conv,
                              const struct axes *axes, uint32_t sequence, uint32_t *row)
{
    const struct blocks *blocks = &axes->blocks[1];
    const int64_t n_blocks = axes->height + blocks->more;
    struct cell__plane plane;
    base_assert(n_blocks > 0);
    BASE_TRY(cell__plane_of(im, *row, conv->windows.channels, &plane));
    BASE_TRY(gather_steps(im, axes, sequence, &plane));
    BASE_TRY(
        take_places(im, blocks->first - blocks->taps + 1, n_blocks + blocks->taps - 1, &plane));
    BASE_TRY(multiply(im, conv, axes, (uint32_t)n_blocks, &plane));
    BASE_TRY(take_places(im, blocks->cut, axes->height_left, &plane));
    return cell__plane_row(im, &plane, row);
}

/* ---- Over a picture ------------------------------------------------------------------------- */

/* What padding leaves of an axis, which is outermost. */
static enum base_status crop(struct cell__import *im, int64_t first, uint32_t count,
                             struct cell__plane *plane)
{
    plane->height = count;
    return cell__row_slice(im, plane->row, (uint32_t)first * plane->width, count * plane->width,
                           &plane->row);
}

/* A row [channels][height][width], both within it: blocks of both axes are the places of a picture,
 * and what they make is put in order. */
static enum base_status lower_picture(struct cell__import *im, struct transposed *conv,
                                      uint32_t *row)
{
    const uint32_t channels = conv->windows.channels;
    const uint32_t filters = (uint32_t)conv->filters;
    uint32_t sizes[2];
    uint32_t left[2];
    uint32_t blocks[2];
    uint32_t strides[2];
    struct axes axes;
    struct cell_op op = {.n_operands = 1};
    cell__window_sides(&conv->windows, sizes, left);
    conv->windows.time = 1; // inputs and parts [height][width], as a picture's
    read_axes(conv, &axes);
    for (uint32_t i = 0; i < 2; i++) {
        const struct blocks *of = &axes.blocks[1 - i];
        if (of->first >= of->taps) {
            return cell__refuse(im, "padding that takes away more than the kernel adds");
        }
        blocks[i] = sizes[i] + (uint32_t)of->more;
        strides[i] = (uint32_t)axes.window[1 - i].stride;
        op.picture.size[i] = sizes[i];
        op.picture.taps[i] = (uint32_t)of->taps;
        op.picture.before[i] = (uint32_t)(of->taps - 1 - of->first);
        op.picture.dilations[i] = op.picture.strides[i] = 1;
        op.picture.left[i] = blocks[i];
    }
    BASE_TRY(check_size(im, conv, &axes, (uint64_t)blocks[0] * blocks[1]));
    BASE_TRY(read_weights(im, conv, &axes, &op));
    const uint32_t width = blocks[1] * strides[1];
    const uint32_t inside[3] = {1, channels, sizes[0] * sizes[1]};
    const uint32_t lines[3] = {blocks[0], blocks[1], strides[0]};
    const uint32_t columns[3] = {1, left[0], width};
    const uint32_t back[3] = {1, left[1], left[0]};
    const uint32_t outside[3] = {1, left[0] * left[1], filters};
    struct cell__plane plane = {.height = blocks[0] * strides[0], .width = width * filters};
    op.patches = blocks[0] * blocks[1];
    BASE_TRY(cell__row_transpose(im, *row, inside, &op.operands[0]));
    BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, op.patches * op.weights[0].cols},
                          &plane.row));
    BASE_TRY(cell__row_transpose(im, plane.row, lines, &plane.row));
    BASE_TRY(crop(im, axes.blocks[1].cut, left[0], &plane));
    if (left[1] != width) {
        BASE_TRY(cell__row_transpose(im, plane.row, columns, &plane.row));
        plane = (struct cell__plane){plane.row, width, left[0] * filters};
        BASE_TRY(crop(im, axes.blocks[0].cut, left[1], &plane));
        BASE_TRY(cell__row_transpose(im, plane.row, back, &plane.row));
    }
    return cell__row_transpose(im, plane.row, outside, row);
}

/* ---- Without a stride ----------------------------------------------------------------------- */

/* Each output reads the inputs that add to it; false where padding takes away more than a kernel
 * adds. */
static bool turn_windows(const struct transposed *conv, struct cell__windows *out)
{
    *out = conv->windows;
    for (uint32_t i = 0; i < out->n; i++) {
        struct cell__window *window = &out->at[i];
        window->before = window->extent - 1 - window->before;
        window->behind = window->extent - 1 - window->behind + window->more;
        window->add = window->before + window->behind - window->extent;
        window->more = 0;
        if (window->stride != 1 || window->before < 0 || window->behind < 0) {
            return false;
        }
    }
    return true;
}

/* [channels, filters of a group, taps] as [filters, channels of a group, taps], the last one first.
 */
static enum base_status turn_kernel(struct cell__import *im, const struct transposed *conv,
                                    const float **out)
{
    const size_t taps = (size_t)conv->windows.at[0].taps *
                        (conv->windows.n > 1 ? (size_t)conv->windows.at[1].taps : 1);
    const size_t channels = (size_t)(conv->channels / conv->groups);
    const size_t filters = (size_t)(conv->filters / conv->groups);
    float *w = base_arena_array(im->arena, (size_t)conv->channels * filters * taps, sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    for (size_t c = 0; c < (size_t)conv->channels; c++) {
        for (size_t f = 0; f < filters; f++) {
            const size_t of = c / channels * filters + f;
            float *to = w + (of * channels + c % channels) * taps;
            for (size_t t = 0; t < taps; t++) {
                to[t] = conv->w[(c * filters + f) * taps + taps - 1 - t];
            }
        }
    }
    *out = w;
    return BASE_OK;
}

static enum base_status lower_turned(struct cell__import *im, struct cell__node *node,
                                     const struct transposed *conv,
                                     const struct cell__windows *windows)
{
    struct cell__conv as = {.channels = conv->channels,
                            .filters = conv->filters,
                            .groups = conv->groups,
                            .windows = *windows,
                            .bias = conv->bias};
    BASE_TRY(turn_kernel(im, conv, &as.w));
    return cell__lower_as_conv(im, node, &as);
}

/* Steps of a sequence, and what is made of each: where a stride parts it, steps of another. */
static enum base_status lower_steps(struct cell__import *im, const struct cell__node *node,
                                    const struct transposed *conv, uint32_t *row)
{
    const uint32_t axis = 2 + conv->windows.time - (conv->windows.parts > 1 ? 1 : 0);
    const struct cell__axis *left = &cell__output(im, node, 0)->shape.axes[axis];
    struct axes axes;
    struct cell__axis whole;
    read_axes(conv, &axes);
    const int64_t parts = axes.window[0].stride;
    if (parts == 1) {
        return lower(im, conv, &axes, axes.window[0].sequence, row);
    }
    struct cell__steps steps = {.count = 1,
                                .stride = 1,
                                .parts = (uint32_t)parts,
                                .offset = (int32_t)axes.blocks[0].cut,
                                .is_cut = true};
    const bool is_parted = cell__axis_whole(im, left, &whole);
    base_assert(is_parted);
    BASE_TRY(lower(im, conv, &axes, cell__only_sequence(cell__axis_times(im, &whole)), row));
    return cell__row_copy_steps(im, &whole, left, &steps, row);
}

enum base_status cell__lower_conv_transpose(struct cell__import *im, struct cell__node *node)
{
    struct transposed conv;
    struct cell__windows turned;
    uint32_t row = cell__input(im, node, IN_X)->row;
    BASE_TRY(read_node(im, node, &conv));
    if (turn_windows(&conv, &turned)) {
        return lower_turned(im, node, &conv, &turned);
    }
    conv.windows.takes_within = true;
    BASE_TRY(cell__check_windows(im, node, &conv.windows, &row));
    BASE_TRY(conv.windows.within > 0 ? lower_picture(im, &conv, &row)
                                     : lower_steps(im, node, &conv, &row));
    BASE_TRY(cell__window_parts(im, &conv.windows, (uint32_t)conv.filters, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
