/* See conditions.h. */
#include "cells/import/conditions.h"

#include "cells/import/ops.h"
#include "cells/import/scores.h"

/* Deeper ones are none; a file may hand on one condition many times. */
#define DEPTH_MAX 8u

static bool is_one(float number)
{
    return number >= 1.0f && number <= 1.0f;
}

static bool is_band_of_truths(const struct cell__band *band)
{
    bool is = true;
    for (uint32_t k = 0; k <= band->n; k++) {
        is = is && (cell__are_zeros(&band->value[k], 1) || is_one(band->value[k]));
    }
    return is;
}

/* Truths that a request brings become 0 and 1 on their way to a cell. */
static bool is_input_of_truths(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    return at->kind == CELL__ROW_INPUT && im->values[im->inputs[at->index]].dtype == CELL__BOOL;
}

/* What must be 0 or 1 that an op is, of which that is not known by itself: *n of them. false: it
 * may be anything. */
static bool truth_parts(const struct cell__import *im, uint32_t row, uint32_t out[2], uint32_t *n)
{
    const struct cell_op *op = &im->rows[row].op;
    *n = 0;
    switch ((unsigned)op->kind) {
    case CELL_OP_LESS:
    case CELL_OP_LESS_EQUAL:
        return true;
    case CELL_OP_MIN:
    case CELL_OP_MAX:
    case CELL_OP_MUL:
        out[(*n)++] = op->operands[0];
        out[(*n)++] = op->operands[1];
        return true;
    case CELL_OP_SUB:
        out[(*n)++] = op->operands[1];
        return is_one(cell__row_same(im, op->operands[0]));
    case CELL_OP_COPY:
        out[(*n)++] = op->operands[0];
        return true;
    default:
        return false;
    }
}

bool cell__row_is_truth(const struct cell__import *im, const struct cell__band *bands, uint32_t row)
{
    uint32_t left[DEPTH_MAX + 2] = {row};
    for (uint32_t n = 1; n > 0;) {
        const uint32_t one = left[--n];
        const struct cell__band *band =
            bands != NULL && bands[one].kind == CELL__BAND_PARTS ? &bands[one] : NULL;
        uint32_t more = 0;
        bool is = is_input_of_truths(im, one);
        if (band != NULL) {
            is = is_band_of_truths(band);
        } else if (im->rows[one].kind == CELL__ROW_WINDOW &&
                   n < DEPTH_MAX) { // zeros beyond its ends
            is = true;
            left[n] = im->rows[one].index;
            more = 1;
        } else if (im->rows[one].kind == CELL__ROW_OP && n < DEPTH_MAX) {
            is = truth_parts(im, one, &left[n], &more);
        }
        if (!is) {
            return false;
        }
        n += more;
    }
    return true;
}

uint32_t cell__condition_parts(const struct cell__import *im, const struct cell__band *bands,
                               struct cell__condition condition, struct cell__condition out[2])
{
    const struct cell__row *at = &im->rows[condition.row];
    const enum cell_op_kind joins = condition.is_where ? CELL_OP_MAX : CELL_OP_MIN; // Or, And
    if (at->kind != CELL__ROW_OP) {
        return 0;
    }
    if (at->op.kind == CELL_OP_SUB) { // Not
        out[0] = (struct cell__condition){at->op.operands[1], !condition.is_where};
        return is_one(cell__row_same(im, at->op.operands[0])) ? 1 : 0;
    }
    out[0] = (struct cell__condition){at->op.operands[0], condition.is_where};
    out[1] = (struct cell__condition){at->op.operands[1], condition.is_where};
    const bool is_product = at->op.kind == CELL_OP_MUL && !condition.is_where;
    return at->op.kind == joins || (is_product && cell__row_is_truth(im, bands, condition.row)) ? 2
                                                                                                : 0;
}
