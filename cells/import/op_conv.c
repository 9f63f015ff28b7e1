/* Convolution along the steps of a sequence (ONNX Conv of rank 3), and BatchNormalization. A step
 * reads a window of the steps around it (op_window.c): rows that lie behind each other in memory
 * are one wide row to it, so the convolution is one product and nothing is copied. Of a dilated one
 * the window's steps are read apart; a depthwise one is a sum of products element by element. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

enum { IN_X, IN_W, IN_B };

/* What a Conv node says. */
struct conv {
    int64_t channels, filters; /* of its input and output */
    struct cell__window window;
    bool is_depthwise;
    const float *w, *bias; /* [filters, channels or 1, taps]; [filters] or NULL */
};

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
    conv->window.taps = w->tensor.dims[2];
    conv->w = w->tensor.data;
    conv->is_depthwise = groups > 1;
    if (conv->is_depthwise && (groups != conv->channels || conv->filters != conv->channels)) {
        return cell__refuse(im, "%lld groups", (long long)groups);
    }
    if (conv->window.taps < 1 || conv->filters < 1 || conv->filters > CELL_WIDTH_MAX ||
        w->tensor.dims[1] != (conv->is_depthwise ? 1 : conv->channels)) {
        char name[CELL__TEXT_BYTES];
        char text[CELL__TEXT_BYTES];
        return cell__invalid(im, "weights \"%s\", %s, that do not fit x of %lld channels",
                             cell__quote(name, w->name), cell__tensor_text(text, &w->tensor),
                             (long long)conv->channels);
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
    *conv = (struct conv){.channels = 0};
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank != 3) {
        return cell__refuse(im, "of anything but floats [batch, channels, steps]");
    }
    conv->channels = cell__axis_size(im, &x->shape.axes[1]);
    BASE_TRY(read_weights(im, node, conv));
    return cell__read_window(im, node, conv->window.taps, &conv->window);
}

enum base_status cell__infer_conv(struct cell__import *im, struct cell__node *node)
{
    struct conv conv;
    BASE_TRY(read_conv(im, node, &conv));
    return cell__infer_window(im, node, &conv.window, conv.filters);
}

static enum base_status lower_dense(struct cell__import *im, const struct conv *conv, uint32_t row,
                                    uint32_t *out)
{
    const size_t channels = (size_t)conv->channels;
    const size_t taps = (size_t)conv->window.taps;
    const size_t filters = (size_t)conv->filters;
    uint32_t window = CELL__NONE;
    BASE_TRY(cell__window_row(im, &conv->window, row, &window));
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
    float *w = base_arena_array(im->arena, value.width, sizeof(*w));
    uint32_t weights = CELL__NONE;
    if (w == NULL) {
        return cell__no_memory(im);
    }
    for (size_t c = 0; c < value.width; c++) {
        w[c] = conv->w[c * (size_t)conv->window.taps + k];
    }
    BASE_TRY(cell__row_const(im, value, w, &weights));
    BASE_TRY(cell__window_tap(im, &conv->window, row, k, out));
    return cell__row_pair(im, CELL_OP_MUL, *out, weights, out);
}

static enum base_status lower_depthwise(struct cell__import *im, const struct conv *conv,
                                        uint32_t row, uint32_t *out)
{
    const struct cell_value value = {CELL_F32, (uint32_t)conv->channels};
    uint32_t other = CELL__NONE;
    BASE_TRY(lower_tap(im, conv, row, 0, out));
    for (uint32_t k = 1; k < conv->window.taps; k++) {
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
    struct conv conv;
    uint32_t row = x->row;
    BASE_TRY(read_conv(im, node, &conv));
    BASE_TRY(cell__check_window(im, node, &conv.window));
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
