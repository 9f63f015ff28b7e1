/* Normalisation over the whole of a row: LayerNormalization, and BatchNormalization by statistics
 * of each row, as Keras 2 writes a layer normalisation: all rows are its channels. */
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

/* 1 / sqrt(mean(d d) + epsilon) is not taken: the division is the one that ONNX writes. */
static enum base_status deviation(struct cell__import *im, const struct cell__node *node,
                                  uint32_t d, uint32_t *out)
{
    float epsilon = 0.0f;
    struct cell_op root = {.kind = CELL_OP_SQRT, .n_operands = 1};
    uint32_t row = CELL__NONE;
    uint32_t constant = CELL__NONE;
    BASE_TRY(cell__attr_float(im, node, "epsilon", 1e-5f, &epsilon));
    BASE_TRY(cell__row_number(im, epsilon, &constant));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, d, d, &row));
    BASE_TRY(cell__row_mean(im, row, &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, row, constant, &root.operands[0]));
    return cell__row_op(im, &root, (struct cell_value){CELL_F32, 1}, out);
}

enum base_status cell__lower_layer_norm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__shape *shape = &in->shape;
    int64_t attribute = -1;
    uint32_t axis = 0;
    uint32_t inner = 0;
    uint32_t row = CELL__NONE;
    uint32_t other = CELL__NONE;
    BASE_TRY(cell__attr_int(im, node, "axis", -1, &attribute));
    BASE_TRY(cell__axis_index(im, attribute, shape->rank, &axis));
    struct cell__shape over = {.rank = shape->rank - axis};
    memcpy(over.axes, &shape->axes[axis], over.rank * sizeof(over.axes[0]));
    BASE_TRY(cell__shape_width(im, &over, &inner));
    if (cell__shape_has(im, &over, CELL__ROLE_BATCH) ||
        cell__shape_has(im, &over, CELL__ROLE_TIME) || inner != im->rows[in->row].value.width) {
        return cell__refuse(im, "over anything but the whole of a row");
    }
    BASE_TRY(cell__row_mean(im, in->row, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, in->row, other, &row));
    BASE_TRY(deviation(im, node, row, &other));
    BASE_TRY(cell__row_pair(im, CELL_OP_DIV, row, other, &row));
    for (uint32_t i = 1; i < 3; i++) {
        if (cell__has_input(node, i)) {
            BASE_TRY(cell__row_of(im, cell__input(im, node, i), shape, true, &other));
            BASE_TRY(cell__row_pair(im, i == 1 ? CELL_OP_MUL : CELL_OP_ADD, row, other, &row));
        }
    }
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
