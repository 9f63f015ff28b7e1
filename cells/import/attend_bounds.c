/* See attend_bounds.h. A bound is a sum of the query's number, or of where its chunk starts, and a
 * constant, or a constant where there is none. cells/model_attend.c knows them by that when a
 * session asks. */
#include "cells/import/attend_bounds.h"

#include "cells/import/behind.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <stdlib.h>

#define BOUND_MAX 16777216 /* more steps than a sequence has */

/* Of one side: of the query's number, `add` further on, and of the chunk that is in, `chunks`
 * further on; NONE: neither. is_first: the later one counts, else the earlier one. */
struct side {
    int64_t add, chunks;
    bool is_first;
};

/* Further than any sequence has steps. */
static bool is_far(int64_t steps)
{
    return steps >= BOUND_MAX || steps <= -BOUND_MAX;
}

/* The first step of a chunk, of n steps each. */
static enum base_status start_of_chunk(struct cell__import *im, uint32_t number, uint32_t n,
                                       uint32_t *out)
{
    uint32_t chunk = CELL__NONE;
    BASE_TRY(cell__row_chunk(im, number, n, &chunk));
    BASE_TRY(cell__row_number(im, (float)n, out));
    return cell__row_pair(im, CELL_OP_MUL, chunk, *out, out);
}

static enum base_status plus(struct cell__import *im, uint32_t row, int64_t add, uint32_t *out)
{
    BASE_TRY(cell__row_number(im, (float)add, out));
    return cell__row_pair(im, CELL_OP_ADD, row, *out, out);
}

/* A bound of the keys: sums of the query's number, or of where its chunk starts, and a number; or
 * one that leaves all keys. */
static enum base_status bound_of(struct cell__import *im, uint32_t number, uint32_t start,
                                 const struct side *side, uint32_t *out)
{
    uint32_t of_chunk = CELL__NONE;
    *out = CELL__NONE;
    if (!is_far(side->add)) {
        BASE_TRY(plus(im, number, side->add, out));
    }
    if (!is_far(side->chunks)) {
        BASE_TRY(plus(im, start, side->chunks, &of_chunk));
    }
    if (*out != CELL__NONE && of_chunk != CELL__NONE) {
        const enum cell_op_kind both = side->is_first ? CELL_OP_MAX : CELL_OP_MIN;
        return cell__row_pair(im, both, *out, of_chunk, out);
    }
    *out = of_chunk != CELL__NONE ? of_chunk : *out;
    return *out != CELL__NONE ? BASE_OK
                              : cell__row_number(im, side->is_first ? 0.0f : BOUND_MAX, out);
}

/* Both sides. What any step of a chunk may reach says nothing of its own. */
static void sides_of(const struct cell__span *span, struct side *from, struct side *to)
{
    const int64_t n = span->chunks.steps;
    const int64_t most = BOUND_MAX;
    *from = (struct side){.add = span->first, .chunks = -most, .is_first = true};
    *to = (struct side){.add = (int64_t)span->last + 1, .chunks = most};
    if (n > 0 && span->chunks.first > -CELL__BAND_FAR) {
        from->chunks = span->chunks.first * n;
        from->add = from->add > from->chunks - (n - 1) ? from->add : -most;
    }
    if (n > 0 && span->chunks.last < CELL__BAND_FAR) {
        to->chunks = (span->chunks.last + 1) * n;
        to->add = to->add < to->chunks ? to->add : most;
    }
}

/* The row of a table for the distance of the first key, whose number is 0. */
static enum base_status begin_of(struct cell__import *im, uint32_t number, int32_t distances,
                                 uint32_t *out)
{
    BASE_TRY(cell__row_number(im, (float)-distances, out));
    return cell__row_pair(im, CELL_OP_SUB, *out, number, out);
}

static bool is_same_span(const struct cell__span *a, const struct cell__span *b)
{
    return a != NULL && a->times == b->times && a->first == b->first && a->last == b->last &&
           a->chunks.steps == b->chunks.steps && a->chunks.first == b->chunks.first &&
           a->chunks.last == b->chunks.last && a->has_table == b->has_table &&
           (!a->has_table || a->distances == b->distances);
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
                            const struct cell__span *span)
{
    for (uint32_t r = im->n_rows; r-- > 0;) {
        const struct cell__row *at = &im->rows[r];
        bool is_other = at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_ATTEND &&
                        at->op.n_operands > 3 && at->chain == im->scan;
        for (uint32_t i = 0; is_other && i < 3; i++) {
            is_other = whole_of(im, at->op.operands[i]) == whole_of(im, op->operands[i]);
        }
        if (is_other && is_same_span(im->rows[at->op.operands[3]].span, span)) {
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
    const uint32_t n = span->chunks.steps;
    uint32_t number = CELL__NONE;
    uint32_t start = CELL__NONE;
    uint32_t bounds[3] = {CELL__NONE, CELL__NONE, CELL__NONE};
    struct side from;
    struct side to;
    if (times == 0 || cell__is_pair(times) || span->first > 0 || span->last < 0 ||
        cell__sequence_of_mirror(im, cell__only_sequence(times)) !=
            cell__sequence_of_mirror(im, cell__only_sequence(span->times))) {
        return cell__refuse(im, "a mask that leaves a step without the one of its own number");
    }
    *out = find_bounds(im, op, span);
    if (*out != CELL__NONE) {
        return BASE_OK;
    }
    struct cell__span *kept = base_arena_array(im->arena, 1, sizeof(*kept));
    if (kept == NULL) {
        return cell__no_memory(im);
    }
    *kept = *span;
    sides_of(span, &from, &to);
    BASE_TRY(cell__row_number_of_step(im, cell__only_sequence(times), &cast.operands[0]));
    im->rows[cast.operands[0]].part = CELL_NUMBER_ATTENDED;
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, &number));
    BASE_TRY(n == 0 ? BASE_OK : start_of_chunk(im, number, n, &start));
    BASE_TRY(bound_of(im, number, start, &from, &bounds[0]));
    BASE_TRY(bound_of(im, number, start, &to, &bounds[1]));
    if (span->has_table) {
        BASE_TRY(begin_of(im, number, span->distances, &bounds[2]));
    }
    BASE_TRY(cell__row_concat(im, bounds, span->has_table ? 3 : 2, out));
    im->rows[*out].span = kept;
    return BASE_OK;
}
