/* See attend_bounds.h. A bound is a sum of the query's number and a constant, or a constant where
 * there is none. cells/model_attend.c knows them by that when a session asks. */
#include "cells/import/attend_bounds.h"

#include "cells/import/band.h"
#include "cells/import/behind.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <stdlib.h>

#define BOUND_MAX 16777216.0f /* more steps than a sequence has */

/* A bound of the keys: the query's number and a number, or without that one of all keys. */
static enum base_status bound_of(struct cell__import *im, uint32_t number, int32_t add,
                                 uint32_t *out)
{
    if (abs(add) >= CELL__BAND_FAR) {
        return cell__row_number(im, add > 0 ? BOUND_MAX : 0.0f, out);
    }
    BASE_TRY(cell__row_number(im, (float)add, out));
    return cell__row_pair(im, CELL_OP_ADD, number, *out, out);
}

static bool is_number(const struct cell__import *im, uint32_t row, float number)
{
    const struct cell__row *at = &im->rows[row];
    if (at->kind != CELL__ROW_CONST || at->value.dtype != CELL_F32 || at->value.width != 1) {
        return false;
    }
    const float value = *(const float *)at->op.weights[0].data;
    return value <= number && value >= number;
}

/* Whether a row is such a bound, of that sequence's number. */
static bool is_bound(const struct cell__import *im, uint32_t row, uint32_t sequence, int32_t add)
{
    const struct cell__row *at = &im->rows[row];
    if (abs(add) >= CELL__BAND_FAR) {
        return is_number(im, row, add > 0 ? BOUND_MAX : 0.0f);
    }
    if (at->kind != CELL__ROW_OP || at->op.kind != CELL_OP_ADD ||
        !is_number(im, at->op.operands[1], (float)add)) {
        return false;
    }
    const struct cell__row *cast = &im->rows[at->op.operands[0]];
    const bool is_cast = cast->kind == CELL__ROW_OP && cast->op.kind == CELL_OP_CAST;
    const struct cell__row *number = is_cast ? &im->rows[cast->op.operands[0]] : at;
    return number->kind == CELL__ROW_NUMBER && number->index == sequence &&
           number->part == CELL_NUMBER_ATTENDED;
}

/* The row of a table for the distance of the first key, whose number is 0. */
static enum base_status begin_of(struct cell__import *im, uint32_t number, int32_t distances,
                                 uint32_t *out)
{
    BASE_TRY(cell__row_number(im, (float)-distances, out));
    return cell__row_pair(im, CELL_OP_SUB, *out, number, out);
}

/* Whether a row is such a number, of the step whose bounds stand beside it. */
static bool is_begin(const struct cell__import *im, uint32_t row, int32_t distances)
{
    const struct cell__row *at = &im->rows[row];
    return at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_SUB &&
           is_number(im, at->op.operands[0], (float)-distances);
}

/* What a head takes its part of. */
static uint32_t whole_of(const struct cell__import *im, uint32_t row)
{
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_SLICE) {
        row = im->rows[row].op.operands[0];
    }
    return row;
}

/* The bounds of another head of the same attention, or NONE: how far they attend is one. What takes
 * its parts of other rows may be in another stage, which counts for itself. */
static uint32_t find_bounds(const struct cell__import *im, const struct cell_op *op,
                            const struct cell__span *span, uint32_t sequence)
{
    for (uint32_t r = im->n_rows; r-- > 0;) {
        const struct cell__row *at = &im->rows[r];
        bool is_other = at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_ATTEND &&
                        at->op.n_operands > 3 && at->chain == im->scan;
        for (uint32_t i = 0; is_other && i < 3; i++) {
            is_other = whole_of(im, at->op.operands[i]) == whole_of(im, op->operands[i]);
        }
        const uint32_t *bounds = is_other ? im->rows[at->op.operands[3]].op.operands : NULL;
        is_other = is_other && (at->op.n_operands > 4) == span->has_table &&
                   (!span->has_table || is_begin(im, bounds[2], span->distances));
        if (is_other && is_bound(im, bounds[0], sequence, span->first) &&
            is_bound(im, bounds[1], sequence, span->last + 1)) {
            return at->op.operands[3];
        }
    }
    return CELL__NONE;
}

enum base_status cell__attend_bounds(struct cell__import *im, const struct cell_op *op,
                                     const struct cell__span *span, uint32_t *out)
{
    const uint32_t times = im->rows[op->operands[0]].times & ~span->times;
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    uint32_t number = CELL__NONE;
    uint32_t bounds[3] = {CELL__NONE, CELL__NONE, CELL__NONE};
    if (times == 0 || cell__is_pair(times) || span->first > 0 || span->last < 0 ||
        cell__sequence_of_mirror(im, cell__only_sequence(times)) !=
            cell__sequence_of_mirror(im, cell__only_sequence(span->times))) {
        return cell__refuse(im, "a mask that leaves a step without the one of its own number");
    }
    *out = find_bounds(im, op, span, cell__only_sequence(times));
    if (*out != CELL__NONE) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_number_of_step(im, cell__only_sequence(times), &cast.operands[0]));
    im->rows[cast.operands[0]].part = CELL_NUMBER_ATTENDED;
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, &number));
    BASE_TRY(bound_of(im, number, span->first, &bounds[0]));
    BASE_TRY(bound_of(im, number, span->last + 1, &bounds[1]));
    if (span->has_table) {
        BASE_TRY(begin_of(im, number, span->distances, &bounds[2]));
    }
    return cell__row_concat(im, bounds, span->has_table ? 3 : 2, out);
}
