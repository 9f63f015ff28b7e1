/* Attention inside a step: of a part whose inputs have a row for each step of a source (a time axis
 * within the step). There are no stages there, so what exporters write of it, products over the
 * source's steps, a softmax over them and a weighted sum, is seen as row expressions that are timed
 * and become one ATTEND where the sum is. Anything else over these steps is refused. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

/* Scores taken apart. */
struct scores {
    uint32_t query, keys;
    uint32_t variant;
    const float *v; /* [width] */
    float scale;
};

static const struct cell__row *op_row(const struct cell__import *im, uint32_t row,
                                      enum cell_op_kind kind)
{
    const struct cell__row *at = &im->rows[row];
    return at->kind == CELL__ROW_OP && at->op.kind == kind ? at : NULL;
}

/* A constant of one element. */
static const float *number_of(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    return at->kind == CELL__ROW_CONST && at->value.width == 1 && at->value.dtype == CELL_F32
               ? at->op.weights[0].data
               : NULL;
}

/* Leaves away what a softmax does not see, and takes factors out. */
static uint32_t unscaled(const struct cell__import *im, uint32_t row, float *scale)
{
    for (;;) {
        const struct cell__row *at = &im->rows[row];
        const enum cell_op_kind kind = at->op.kind;
        if (at->kind != CELL__ROW_OP || at->op.n_operands != 2) {
            return row;
        }
        const float *first = number_of(im, at->op.operands[0]);
        const float *second = number_of(im, at->op.operands[1]);
        if (kind == CELL_OP_MUL && (first != NULL || second != NULL)) {
            *scale *= first != NULL ? *first : *second;
        } else if (kind == CELL_OP_DIV && second != NULL) {
            *scale /= *second;
        } else if (!(kind == CELL_OP_ADD && (first != NULL || second != NULL)) &&
                   !(kind == CELL_OP_SUB && second != NULL)) {
            return row;
        }
        row = at->op.operands[first != NULL ? 1 : 0];
    }
}

/* One operand has the source's steps, the other is of this step. */
static bool take_pair(const struct cell__import *im, const struct cell_op *op, struct scores *out)
{
    const bool is_first = im->rows[op->operands[0]].is_timed;
    out->keys = op->operands[is_first ? 0 : 1];
    out->query = op->operands[is_first ? 1 : 0];
    return im->rows[out->keys].is_timed && !im->rows[out->query].is_timed;
}

static bool take_scores(const struct cell__import *im, uint32_t row, struct scores *out)
{
    out->scale = 1.0f;
    const struct cell__row *sum = op_row(im, unscaled(im, row, &out->scale), CELL_OP_LINEAR);
    if (sum == NULL || sum->value.width != 1) {
        return false;
    }
    const uint32_t of = sum->op.operands[0];
    const struct cell__row *energy = op_row(im, of, CELL_OP_TANH);
    const struct cell__row *pair = energy == NULL ? op_row(im, of, CELL_OP_MUL)
                                                  : op_row(im, energy->op.operands[0], CELL_OP_ADD);
    out->variant = energy == NULL ? CELL_ATTEND_PRODUCT : CELL_ATTEND_TANH;
    out->v = sum->op.weights[0].data;
    return pair != NULL && take_pair(im, &pair->op, out);
}

enum base_status cell__row_attend(struct cell__import *im, uint32_t weights, uint32_t values,
                                  uint32_t *out)
{
    struct scores scores = {.scale = 1.0f};
    const struct cell__row *softmax = op_row(im, weights, CELL_OP_SOFTMAX);
    if (softmax == NULL || !take_scores(im, softmax->op.operands[0], &scores)) {
        return cell__refuse(im, "a sum over the source's steps that is no attention: q K_t or "
                                "v tanh(K_t + q), softmax, times V_t");
    }
    if (im->rows[scores.keys].kind != CELL__ROW_INPUT || im->rows[values].kind != CELL__ROW_INPUT) {
        return cell__refuse(im, "attention over what the step itself makes of the source's steps; "
                                "let the encoder make it");
    }
    const uint32_t width = im->rows[scores.keys].value.width;
    float *v = base_arena_array(im->arena, width, sizeof(*v));
    if (v == NULL) {
        return cell__no_memory(im);
    }
    if (im->rows[scores.query].value.width != width) {
        return cell__refuse(im, "attention of a query of width %u over keys of width %u",
                            im->rows[scores.query].value.width, width);
    }
    for (uint32_t k = 0; k < width; k++) {
        v[k] = scores.v[k] * scores.scale;
    }
    struct cell_op op = {.kind = CELL_OP_ATTEND,
                         .n_operands = 3,
                         .operands = {scores.query, scores.keys, values},
                         .n_weights = 1,
                         .weights = {{CELL_F32, 1, width, v}},
                         .variant = scores.variant};
    BASE_TRY(cell__row_op(im, &op, im->rows[values].value, out));
    im->rows[*out].is_timed = false; // one row, of all steps of the source
    return BASE_OK;
}

enum base_status cell__row_attend_sum(struct cell__import *im, uint32_t row, uint32_t *out)
{
    const struct cell__row *product = op_row(im, row, CELL_OP_MUL);
    if (product == NULL) {
        return cell__row_attend(im, row, row, out); // refuses it
    }
    const uint32_t *operands = product->op.operands;
    const bool is_first = op_row(im, operands[0], CELL_OP_SOFTMAX) != NULL;
    return cell__row_attend(im, operands[is_first ? 0 : 1], operands[is_first ? 1 : 0], out);
}

/* ---- Products of two rows ----------------------------------------------------------------- */

enum base_status cell__infer_rows_product(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *a = cell__input(im, node, 0);
    const struct cell__value *b = cell__input(im, node, 1);
    if (!im->feeds_back || a->dtype != CELL__F32 || b->dtype != CELL__F32 ||
        a->shape.rank != b->shape.rank || a->shape.rank < 2) {
        return cell__refuse(im, "only x times constant weights is supported");
    }
    struct cell__shape out = a->shape;
    const uint32_t last = out.rank - 1;
    for (uint32_t k = 0; k + 2 < out.rank; k++) {
        BASE_TRY(cell__axis_unite(im, &a->shape.axes[k], &b->shape.axes[k], "operand dimensions"));
    }
    BASE_TRY(
        cell__axis_unite(im, &a->shape.axes[last], &b->shape.axes[last - 1], "operand dimensions"));
    out.axes[last] = b->shape.axes[last];
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

enum base_status cell__lower_rows_product(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *a = cell__input(im, node, 0);
    const struct cell__value *b = cell__input(im, node, 1);
    const struct cell__shape over = {.rank = 1, .axes = {a->shape.axes[a->shape.rank - 1]}};
    uint32_t row = CELL__NONE;
    uint32_t width = 0;
    if (cell__shape_has(im, &over, CELL__ROLE_BATCH)) {
        return cell__refuse(im, "over the batch axis");
    }
    if (cell__shape_has(im, &over, CELL__ROLE_TIME)) {
        const bool is_first = op_row(im, a->row, CELL_OP_SOFTMAX) != NULL;
        BASE_TRY(
            cell__row_attend(im, is_first ? a->row : b->row, is_first ? b->row : a->row, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    BASE_TRY(cell__shape_width(im, &over, &width));
    if (im->rows[a->row].value.width != width || im->rows[b->row].value.width != width) {
        return cell__refuse(im, "a product of two matrices of a row");
    }
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, a->row, b->row, &row));
    BASE_TRY(cell__row_sum(im, row, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
