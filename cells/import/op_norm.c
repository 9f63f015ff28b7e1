/* Normalisation over the whole of a row, or over the last axes of it: LayerNormalization, and
 * BatchNormalization by statistics of each row, as Keras 2 writes a layer normalisation: all rows
 * are its channels. And over all steps, or what else stands behind the channels:
 * InstanceNormalization, GroupNormalization. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

enum base_status cell__infer_layer_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    if (in->kind != CELL__ROWS || in->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(in->dtype));
    }
    for (uint32_t i = 1; i < node->n_inputs; i++) {
        if (cell__has_input(node, i) && (cell__input(im, node, i)->kind != CELL__CONST ||
                                         cell__input(im, node, i)->dtype != CELL__F32)) {
            return cell__refuse(im, "scale and bias must be constants of float32");
        }
    }
    cell__set_rows(im, node, 0, CELL__F32, &in->shape);
    return BASE_OK;
}

/* What is normalised together: the elements of a row of this shape, from an axis on. */
struct together {
    const struct cell__shape *shape;
    uint32_t axis;
};

/* The mean of each such part, in a row of its own. */
static enum base_status mean_of(struct cell__import *im, const struct together *parts, uint32_t row,
                                uint32_t *out)
{
    uint32_t mask = 0;
    for (uint32_t k = parts->axis; k < parts->shape->rank; k++) {
        mask |= 1u << k;
    }
    *out = row;
    return cell__row_mean_over(im, parts->shape, mask, out);
}

/* A number of each part, once for each of its elements; the only one there is stays as it is. */
static enum base_status spread(struct cell__import *im, const struct together *parts, uint32_t *row)
{
    struct cell__shape own = *parts->shape;
    for (uint32_t k = parts->axis; k < own.rank; k++) {
        own.axes[k] = (struct cell__axis){.n = 0};
    }
    return im->rows[*row].value.width == 1 ? BASE_OK
                                           : cell__row_spread(im, *row, &own, parts->shape, row);
}

/* (x - mean) / sqrt(mean of the squares of that + epsilon): 1 / sqrt is not taken, the division is
 * the one that ONNX writes. */
static enum base_status normalise(struct cell__import *im, const struct cell__node *node,
                                  const struct together *parts, uint32_t *row)
{
    float epsilon = 0.0f;
    struct cell_op root = {.kind = CELL_OP_SQRT, .n_operands = 1};
    uint32_t other = CELL__NONE;
    uint32_t constant = CELL__NONE;
    BASE_TRY(cell__attr_float(im, node, "epsilon", 1e-5f, &epsilon));
    BASE_TRY(mean_of(im, parts, *row, &other));
    BASE_TRY(spread(im, parts, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, *row, other, row));
    BASE_TRY(cell__row_number(im, epsilon, &constant));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, *row, *row, &other));
    BASE_TRY(mean_of(im, parts, other, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, other, constant, &root.operands[0]));
    BASE_TRY(cell__row_op(im, &root, im->rows[root.operands[0]].value, &other));
    BASE_TRY(spread(im, parts, &other));
    return cell__row_pair(im, CELL_OP_DIV, *row, other, row);
}

enum base_status cell__lower_layer_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct together parts = {.shape = &in->shape};
    int64_t attribute = -1;
    uint32_t row = in->row;
    uint32_t other = CELL__NONE;
    BASE_TRY(cell__attr_int(im, node, "axis", -1, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, in->shape.rank, &parts.axis));
    for (uint32_t k = parts.axis; k < in->shape.rank; k++) {
        if (cell__axis_has(im, &in->shape.axes[k], CELL__ROLE_BATCH) ||
            cell__axis_has(im, &in->shape.axes[k], CELL__ROLE_TIME)) {
            return cell__refuse(im, "over the batch or the time axis");
        }
    }
    BASE_TRY(normalise(im, node, &parts, &row));
    for (uint32_t i = 1; i < 3; i++) {
        if (cell__has_input(node, i)) {
            BASE_TRY(cell__row_of(im, cell__input(im, node, i), &in->shape, true, &other));
            BASE_TRY(cell__row_pair(im, i == 1 ? CELL_OP_MUL : CELL_OP_ADD, row, other, &row));
        }
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- InstanceNormalization, GroupNormalization ---------------------------------------------- */

/* What is normalised together: [batch, channels or groups, ..], over what stands behind those. */
static enum base_status grouped_shape(struct cell__import *im, const struct cell__node *node,
                                      struct cell__shape *out)
{
    const struct cell__shape *shape = &cell__input(im, node, 0)->shape;
    const int64_t channels = cell__axis_size(im, &shape->axes[1]);
    int64_t groups = 0;
    *out = *shape;
    if (strcmp(node->op->name, "GroupNormalization") != 0) {
        return BASE_OK;
    }
    BASE_TRY(cell__attr_int(im, node, "num_groups", 0, &groups));
    if (groups < 1 || channels % groups != 0) {
        return cell__invalid(im, "%lld channels in num_groups=%lld", (long long)channels,
                             (long long)groups);
    }
    if (shape->rank == CELL_RANK_MAX) {
        return cell__refuse(im, "of rank %u", shape->rank);
    }
    memmove(&out->axes[2], &shape->axes[1], (shape->rank - 1) * sizeof(out->axes[0]));
    out->rank++;
    BASE_TRY(cell__axis_new(im, groups, &out->axes[1]));
    return cell__axis_new(im, channels / groups, &out->axes[2]);
}

enum base_status cell__infer_instance_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank < 3) {
        return cell__refuse(im, "of anything but floats [batch, channels, ..]");
    }
    const int64_t channels = cell__axis_size(im, &x->shape.axes[1]);
    if (channels < 1) {
        return cell__refuse(im, "of channels whose number the file leaves open");
    }
    struct cell__shape grouped;
    BASE_TRY(grouped_shape(im, node, &grouped));
    const int64_t groups = cell__axis_size(im, &grouped.axes[1]);
    for (uint32_t i = 1; i < 3; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        if (value->kind != CELL__CONST || value->dtype != CELL__F32 || value->tensor.rank != 1 ||
            (value->tensor.dims[0] != channels && value->tensor.dims[0] != groups)) {
            return cell__refuse(im, "input %u is no constant of floats, one a channel", i);
        }
    }
    cell__set_rows(im, node, 0, CELL__F32, &x->shape);
    return BASE_OK;
}

/* A constant of one float a channel, or a group of them, as a row. */
static enum base_status channels_row(struct cell__import *im, const struct cell__shape *shape,
                                     const struct cell__tensor *of, struct cell_value value,
                                     uint32_t *row)
{
    struct cell__place place;
    const float *from = of->data;
    float *floats = base_arena_array(im->arena, value.width, sizeof(*floats));
    if (floats == NULL) {
        return cell__no_memory(im);
    }
    BASE_TRY(cell__axis_in_row(im, shape, 1, "normalises", &place));
    for (uint32_t i = 0; i < value.width; i++) {
        const uint32_t channel = i / place.inner % place.size;
        floats[i] = from[(uint64_t)channel * (uint64_t)of->dims[0] / place.size];
    }
    return cell__row_const(im, value, floats, row);
}

enum base_status cell__lower_instance_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    const struct cell_value value = im->rows[x->row].value;
    struct cell__shape grouped;
    const struct together parts = {.shape = &grouped, .axis = 2};
    uint32_t row = x->row;
    uint32_t other = CELL__NONE;
    BASE_TRY(grouped_shape(im, node, &grouped));
    BASE_TRY(normalise(im, node, &parts, &row));
    BASE_TRY(channels_row(im, &x->shape, &cell__input(im, node, 1)->tensor, value, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, row, other, &row));
    BASE_TRY(channels_row(im, &x->shape, &cell__input(im, node, 2)->tensor, value, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, row, other, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- BatchNormalization by statistics of each row ----------------------------------------- */

enum { IN_SCALE = 1, IN_BIAS, IN_MEAN, IN_VARIANCE, N_INPUTS };

bool cell__is_row_norm(struct cell__import *im, const struct cell__node *node)
{
    return cell__has_input(node, IN_VARIANCE) &&
           cell__input(im, node, IN_MEAN)->kind == CELL__ROWS &&
           cell__input(im, node, IN_VARIANCE)->kind == CELL__ROWS;
}

enum base_status cell__infer_row_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank < 2) {
        return cell__refuse(im, "of anything but floats [batch, channels, ..]");
    }
    for (uint32_t i = IN_SCALE; i < N_INPUTS; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        if (value->kind != CELL__ROWS || value->dtype != CELL__F32 || value->shape.rank != 1 ||
            cell__axis_size(im, &value->shape.axes[0]) >= 0) {
            return cell__refuse(im, "input %u is neither constant nor one float a row", i);
        }
        BASE_TRY(cell__axis_unite(im, &value->shape.axes[0], &x->shape.axes[1], "channels"));
    }
    cell__set_rows(im, node, 0, CELL__F32, &x->shape);
    return BASE_OK;
}

enum base_status cell__lower_row_norm(struct cell__import *im, struct cell__node *node)
{
    uint32_t rows[N_INPUTS];
    uint32_t row = CELL__NONE;
    uint32_t constant = CELL__NONE;
    float epsilon = 0.0f;
    struct cell_op root = {.kind = CELL_OP_SQRT, .n_operands = 1};
    BASE_TRY(cell__attr_float(im, node, "epsilon", 1e-5f, &epsilon));
    for (uint32_t i = 0; i < N_INPUTS; i++) {
        rows[i] = cell__input(im, node, i)->row;
        if (i > 0 && im->rows[rows[i]].value.width != 1) {
            return cell__refuse(im, "input %u is no longer one float a row", i);
        }
    }
    BASE_TRY(cell__row_number(im, epsilon, &constant));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, rows[IN_VARIANCE], constant, &root.operands[0]));
    BASE_TRY(cell__row_op(im, &root, (struct cell_value){CELL_F32, 1}, &rows[IN_VARIANCE]));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, rows[0], rows[IN_MEAN], &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_DIV, row, rows[IN_VARIANCE], &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, row, rows[IN_SCALE], &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, row, rows[IN_BIAS], &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
