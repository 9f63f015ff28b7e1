/* Convolution along the steps of a sequence (ONNX Conv of rank 3, stride 1, as many steps behind it
 * as before), and BatchNormalization. A step reads a window of the steps around it, zeros beyond
 * the ends: rows that lie behind each other in memory are one wide row to it, so the convolution is
 * one product and nothing is copied. Of a dilated one the window's steps are read apart; a
 * depthwise one is a sum of products element by element. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

enum { IN_X, IN_W, IN_B };

/* What a Conv node says. */
struct conv {
    int64_t channels, filters, taps; /* of its input and output; steps that one reads */
    int64_t dilation, before;        /* steps between them; from the first of them to its own */
    bool is_depthwise;
    const float *w, *bias; /* [filters, channels or 1, taps]; [filters] or NULL */
};

/* Attribute of one integer for the only axis. */
static enum base_status read_only_int(struct cell__import *im, const struct cell__node *node,
                                      const char *name, int64_t otherwise, int64_t *out)
{
    struct cell__list list;
    BASE_TRY(cell__attr_ints(im, node, name, &list));
    *out = list.n == 0 ? otherwise : list.at[0];
    return list.n <= 1 ? BASE_OK : cell__invalid(im, "%s of %u axes", name, list.n);
}

/* Steps of zeros before and behind. */
static enum base_status read_pads(struct cell__import *im, const struct cell__node *node,
                                  int64_t reach, int64_t pads[2])
{
    const Onnx__AttributeProto *how = cell__attr(node, "auto_pad");
    struct cell__list list;
    BASE_TRY(cell__attr_ints(im, node, "pads", &list));
    if (list.n != 0 && list.n != 2) {
        return cell__invalid(im, "pads of %u numbers", list.n);
    }
    pads[0] = list.n == 2 ? list.at[0] : 0;
    pads[1] = list.n == 2 ? list.at[1] : 0;
    if (how != NULL && cell__is_text(how->s, "same_upper")) {
        pads[0] = reach / 2;
        pads[1] = reach - pads[0];
    } else if (how != NULL && cell__is_text(how->s, "same_lower")) {
        pads[1] = reach / 2;
        pads[0] = reach - pads[1];
    } else if (how != NULL && !cell__is_text(how->s, "notset") && !cell__is_text(how->s, "valid")) {
        return cell__invalid(im, "auto_pad");
    }
    if (pads[0] < 0 || pads[1] < 0 || pads[0] + pads[1] != reach) {
        return cell__refuse(im,
                            "over a window of %lld steps with %lld and %lld of padding, so that "
                            "there are others behind it than before",
                            (long long)reach + 1, (long long)pads[0], (long long)pads[1]);
    }
    return BASE_OK;
}

static enum base_status read_weights(struct cell__import *im, const struct cell__node *node,
                                     struct conv *conv)
{
    const struct cell__value *w = cell__input(im, node, IN_W);
    int64_t groups = 1;
    BASE_TRY(cell__attr_int(im, node, "group", 1, &groups));
    if (w->kind != CELL__CONST || w->dtype != CELL__F32 || w->tensor.rank != 3) {
        return cell__refuse(im, "weights that are no constant of floats, of rank 3");
    }
    conv->filters = w->tensor.dims[0];
    conv->taps = w->tensor.dims[2];
    conv->w = w->tensor.data;
    conv->is_depthwise = groups > 1;
    if (conv->is_depthwise && (groups != conv->channels || conv->filters != conv->channels)) {
        return cell__refuse(im, "%lld groups", (long long)groups);
    }
    if (conv->taps < 1 || conv->filters < 1 || conv->filters > CELL_WIDTH_MAX ||
        w->tensor.dims[1] != (conv->is_depthwise ? 1 : conv->channels)) {
        return cell__invalid(im, "weights that do not fit x");
    }
    if (!cell__has_input(node, IN_B)) {
        return BASE_OK;
    }
    const struct cell__value *b = cell__input(im, node, IN_B);
    if (b->kind != CELL__CONST || b->dtype != CELL__F32 || b->tensor.rank != 1 ||
        b->tensor.dims[0] != conv->filters) {
        return cell__refuse(im, "a bias that is no constant of floats, one a filter");
    }
    conv->bias = b->tensor.data;
    return BASE_OK;
}

static enum base_status read_conv(struct cell__import *im, const struct cell__node *node,
                                  struct conv *conv)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    int64_t stride = 1;
    int64_t taps = 0;
    int64_t pads[2];
    *conv = (struct conv){.channels = 0};
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank != 3) {
        return cell__refuse(im, "of anything but floats [batch, channels, steps]");
    }
    conv->channels = cell__axis_size(im, &x->shape.axes[1]);
    BASE_TRY(read_weights(im, node, conv));
    BASE_TRY(read_only_int(im, node, "strides", 1, &stride));
    BASE_TRY(read_only_int(im, node, "dilations", 1, &conv->dilation));
    BASE_TRY(read_only_int(im, node, "kernel_shape", conv->taps, &taps));
    if (taps != conv->taps || conv->dilation < 1 || conv->dilation > CELL_WINDOW_MAX ||
        conv->taps > CELL_WINDOW_MAX || (conv->taps - 1) * conv->dilation >= CELL_WINDOW_MAX) {
        return cell__refuse(im, "a kernel of more than %u steps", CELL_WINDOW_MAX);
    }
    if (stride != 1) {
        return cell__refuse(im, "a stride of %lld", (long long)stride);
    }
    BASE_TRY(read_pads(im, node, (conv->taps - 1) * conv->dilation, pads));
    conv->before = pads[0];
    return BASE_OK;
}

enum base_status cell__infer_conv(struct cell__import *im, struct cell__node *node)
{
    struct conv conv;
    BASE_TRY(read_conv(im, node, &conv));
    struct cell__shape out = cell__input(im, node, IN_X)->shape;
    BASE_TRY(cell__axis_new(im, conv.filters, &out.axes[1]));
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* The row that the product reads: all taps, each channel's beside the others'. */
static enum base_status window_of(struct cell__import *im, const struct conv *conv, uint32_t row,
                                  uint32_t *out)
{
    uint32_t taps[CELL_WINDOW_MAX];
    if (conv->dilation == 1) {
        return cell__row_window(im, row, (int32_t)-conv->before, (uint32_t)conv->taps, out);
    }
    for (uint32_t i = 0; i < conv->taps; i++) {
        const int64_t at = (int64_t)i * conv->dilation - conv->before;
        BASE_TRY(cell__row_window(im, row, (int32_t)at, 1, &taps[i]));
    }
    return cell__row_concat(im, taps, (uint32_t)conv->taps, out);
}

static enum base_status lower_dense(struct cell__import *im, const struct conv *conv, uint32_t row,
                                    uint32_t *out)
{
    const size_t channels = (size_t)conv->channels;
    const size_t taps = (size_t)conv->taps;
    const size_t filters = (size_t)conv->filters;
    uint32_t window = CELL__NONE;
    BASE_TRY(window_of(im, conv, row, &window));
    float *w = base_arena_array(im->arena, taps * channels * filters, sizeof(*w));
    if (w == NULL) {
        return cell__no_memory(im);
    }
    for (size_t f = 0; f < filters; f++) {
        for (size_t c = 0; c < channels; c++) {
            for (size_t k = 0; k < taps; k++) {
                w[(k * channels + c) * filters + f] = conv->w[(f * channels + c) * taps + k];
            }
        }
    }
    const struct cell_value value = {CELL_F32, (uint32_t)filters};
    struct cell_op op = {
        .kind = CELL_OP_LINEAR, .n_operands = 1, .operands = {window}, .n_weights = 1};
    op.weights[0] = (struct cell_weight){CELL_F32, (uint32_t)(taps * channels), value.width, w};
    if (conv->bias != NULL) {
        op.weights[op.n_weights++] = (struct cell_weight){CELL_F32, 1, value.width, conv->bias};
    }
    return cell__row_op(im, &op, value, out);
}

/* Tap k of all channels times their weights. */
static enum base_status lower_tap(struct cell__import *im, const struct conv *conv, uint32_t row,
                                  uint32_t k, uint32_t *out)
{
    const struct cell_value value = {CELL_F32, (uint32_t)conv->channels};
    const int64_t at = (int64_t)k * conv->dilation - conv->before;
    float *w = base_arena_array(im->arena, value.width, sizeof(*w));
    uint32_t weights = CELL__NONE;
    if (w == NULL) {
        return cell__no_memory(im);
    }
    for (size_t c = 0; c < value.width; c++) {
        w[c] = conv->w[c * (size_t)conv->taps + k];
    }
    BASE_TRY(cell__row_const(im, value, w, &weights));
    BASE_TRY(cell__row_window(im, row, (int32_t)at, 1, out));
    return cell__row_pair(im, CELL_OP_MUL, *out, weights, out);
}

static enum base_status lower_depthwise(struct cell__import *im, const struct conv *conv,
                                        uint32_t row, uint32_t *out)
{
    const struct cell_value value = {CELL_F32, (uint32_t)conv->channels};
    uint32_t other = CELL__NONE;
    BASE_TRY(lower_tap(im, conv, row, 0, out));
    for (uint32_t k = 1; k < conv->taps; k++) {
        BASE_TRY(lower_tap(im, conv, row, k, &other));
        BASE_TRY(cell__row_pair(im, CELL_OP_ADD, *out, other, out));
    }
    if (conv->bias == NULL) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_const(im, value, conv->bias, &other));
    return cell__row_pair(im, CELL_OP_ADD, *out, other, out);
}

enum base_status cell__lower_conv(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    const uint32_t times = cell__axis_times(im, &x->shape.axes[2]);
    struct conv conv;
    uint32_t row = x->row;
    BASE_TRY(read_conv(im, node, &conv));
    if (times == 0 || im->rows[row].times != times || im->scan != CELL__NONE || im->feeds_back ||
        (int64_t)im->rows[row].value.width != conv.channels) {
        return cell__refuse(im, "over an axis that is not the time of a recurrent node");
    }
    if (im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "beside sequence_lens, where ONNX would read what stands behind a "
                                "shorter sequence");
    }
    BASE_TRY(conv.is_depthwise ? lower_depthwise(im, &conv, row, &row)
                               : lower_dense(im, &conv, row, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
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
    BASE_TRY(cell__attr_float(im, node, "epsilon", 1e-5f, &epsilon));
    const struct cell_value value = im->rows[x->row].value;
    for (uint32_t i = SCALE; i < BN_INPUTS; i++) {
        in[i] = cell__input(im, node, i)->tensor.data;
    }
    if ((int64_t)value.width != cell__axis_size(im, &x->shape.axes[1])) {
        return cell__refuse(im, "of a row that is more than its channels");
    }
    float *factor = base_arena_array(im->arena, value.width, sizeof(*factor));
    float *added = base_arena_array(im->arena, value.width, sizeof(*added));
    if (factor == NULL || added == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t c = 0; c < value.width; c++) {
        const double root = sqrt((double)in[VARIANCE][c] + (double)epsilon);
        const double by = (double)in[SCALE][c] / root;
        factor[c] = (float)by;
        added[c] = (float)((double)in[BIAS][c] - (double)in[MEAN][c] * by);
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
