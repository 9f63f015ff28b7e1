/* Steps joined to steps: Concat along time, of sequences, of parts of them and of steps that a row
 * holds (a state, a class token, frames kept of before), and Pad along time with what the edges
 * say. Sequences are not moved: each part's stage writes its steps to where they belong. */
#include "cells/import/ops.h"
#include "cells/import/plan.h"
#include "cells/import/rows.h"

#include "base/assert.h"

enum base_status cell__row_turned(struct cell__import *im, const struct cell__place *place,
                                  uint32_t *row)
{
    int64_t *at = base_arena_array(im->arena, place->size, sizeof(*at));
    if (at == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < place->size; i++) {
        at[i] = (int64_t)place->size - 1 - i;
    }
    return cell__row_elements(im, *row, place, at, place->size, row);
}

/* Shorter sequences of a batch would have what ONNX reads as steps behind them in the middle. */
static enum base_status check_lengths(struct cell__import *im, uint32_t times)
{
    return im->sequences[cell__only_sequence(times)].uses_lengths
               ? cell__refuse(im, "joins steps beside sequence_lens, where ONNX would join what "
                                  "stands behind a shorter sequence")
               : BASE_OK;
}

/* ---- Concat ------------------------------------------------------------------------------- */

/* The part of a Concat that value is. width: of a step. */
static enum base_status part_of(struct cell__import *im, const struct cell__value *value,
                                const struct cell__shape *shape, uint32_t axis, uint32_t *width,
                                struct cell__joined_part *part)
{
    const uint32_t times = cell__axis_times(im, &shape->axes[axis]);
    struct cell__place place;
    BASE_TRY(cell__row_of(im, value, shape, false, &part->row));
    const uint32_t own = im->rows[part->row].times;
    if (cell__is_pair(own) || (own != times && times != 0)) {
        return cell__refuse(im, "joins steps that are all the same, or those of several sequences");
    }
    if (times != 0) {
        *width = im->rows[part->row].value.width;
        part->is_turned =
            value->kind == CELL__ROWS && cell__is_turned_along(im, value, &shape->axes[axis]);
        return check_lengths(im, times);
    }
    BASE_TRY(cell__axis_in_row(im, shape, axis, "joins", &place));
    const uint32_t dims[3] = {1, place.outer, place.size};
    *width = place.outer * place.inner;
    part->is_turned = false;
    if (own != 0) {
        return cell__refuse(im, "joins features of each step along the time of others");
    }
    return place.outer == 1 || place.size == 1
               ? BASE_OK
               : cell__row_transpose(im, part->row, dims, &part->row);
}

/* The row of which a part is the first steps; NONE: it is none such. */
static uint32_t beginning_of(const struct cell__import *im, uint32_t part)
{
    const struct cell__row *copy = &im->rows[part];
    if (copy->kind != CELL__ROW_OP || copy->op.kind != CELL_OP_COPY) {
        return CELL__NONE;
    }
    const struct cell__row *window = &im->rows[copy->op.operands[0]];
    const bool is_beginning = window->kind == CELL__ROW_WINDOW && window->part == 1 &&
                              window->stride == 1 && window->offset == 0 && window->parts == 0 &&
                              window->by == 0 && !window->is_from_end && window->times != 0;
    return is_beginning ? window->index : CELL__NONE;
}

/* Zeros before a sequence that lacks as many steps at its end: each step reads one before its own,
 * as of padding. NONE: it is no such join. */
static enum base_status shift(struct cell__import *im, const struct cell__joined *joined,
                              const struct cell__axis *left, uint32_t width, uint32_t *row)
{
    *row = CELL__NONE;
    if (joined->n != 2 || !cell__row_is_zero(im, joined->parts[0].row) ||
        joined->parts[1].is_turned) {
        return BASE_OK;
    }
    const uint32_t n = im->rows[joined->parts[0].row].value.width / width;
    const uint32_t whole = beginning_of(im, joined->parts[1].row);
    // As many steps as the whole: so many are cut at the end as there are zeros.
    if (whole == CELL__NONE || im->rows[whole].times != cell__axis_times(im, left)) {
        return BASE_OK;
    }
    struct cell__steps steps = {.count = 1, .stride = 1, .offset = -(int32_t)n, .is_cut = true};
    *row = whole;
    return cell__row_copy_steps(im, left, left, &steps, row);
}

enum base_status cell__join_steps(struct cell__import *im, struct cell__node *node, uint32_t axis)
{
    const struct cell__value *out = cell__output(im, node, 0);
    struct cell__joined joined = {.n = 0};
    uint32_t width = 0;
    uint32_t row = CELL__NONE;
    if (out->dtype != CELL__F32) {
        return cell__refuse(im, "joins steps of %s", cell__dtype_name(out->dtype));
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value = cell__input(im, node, i);
        struct cell__shape own;
        uint32_t wide = 0;
        BASE_TRY(cell__shape_of(im, value, &own));
        if (cell__axis_size(im, &own.axes[axis]) == 0) {
            continue;
        }
        if (joined.n == CELL_JOIN_PARTS_MAX) {
            return cell__refuse(im, "joins more than %u sequences", CELL_JOIN_PARTS_MAX);
        }
        struct cell__shape shape = out->shape; // batch and time stand only in the result's axes
        shape.axes[axis] = own.axes[axis];
        BASE_TRY(part_of(im, value, &shape, axis, &wide, &joined.parts[joined.n++]));
        if (width != 0 && wide != width) {
            return cell__refuse(im, "joins steps of %u and of %u elements", width, wide);
        }
        width = wide;
    }
    if (joined.n == 0) {
        return cell__refuse(im, "of nothing");
    }
    BASE_TRY(shift(im, &joined, &out->shape.axes[axis], width, &row));
    if (row == CELL__NONE) {
        BASE_TRY(cell__row_join_steps(im, &joined, &out->shape.axes[axis], width, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Pad ---------------------------------------------------------------------------------- */

/* Steps beside one end, in the order in which a step beyond it reads them: all of the first, or
 * last, those that lie mirrored around it, or those at the other end. */
static enum base_status edge_of(struct cell__import *im, const struct cell__axis *axis,
                                bool is_behind, uint32_t n, enum cell__edges edges, uint32_t *row)
{
    const uint32_t width = im->rows[*row].value.width;
    struct cell__place place = {1, 1, width};
    if (edges == CELL__EDGES_REPEATED) {
        int64_t at[CELL_WINDOW_MAX] = {0};
        BASE_TRY(cell__row_at(im, is_behind ? CELL__ROW_LAST : CELL__ROW_FIRST, *row, row));
        return cell__row_elements(im, *row, &place, at, n, row);
    }
    if (edges == CELL__EDGES_WRAPPED) {
        return cell__row_some_steps(im, axis, is_behind ? 0 : -(int64_t)n, n, row);
    }
    place = (struct cell__place){1, n, width};
    BASE_TRY(cell__row_some_steps(im, axis, is_behind ? -1 - (int64_t)n : 1, n, row));
    return cell__row_turned(im, &place, row);
}

enum base_status cell__pad_steps(struct cell__import *im, const struct cell__axis *axis,
                                 const struct cell__around *around, const struct cell__axis *left,
                                 uint32_t *row)
{
    struct cell__joined joined = {.n = 0};
    const uint32_t times = cell__axis_times(im, axis);
    const uint32_t width = im->rows[*row].value.width;
    base_assert(around->before <= CELL_WINDOW_MAX && around->behind <= CELL_WINDOW_MAX);
    if (times == 0 || im->rows[*row].times != times) {
        return cell__refuse(im, "along an axis that is not the time of a recurrent node");
    }
    BASE_TRY(check_lengths(im, times));
    if (around->before > 0) {
        joined.parts[joined.n].row = *row;
        BASE_TRY(
            edge_of(im, axis, false, around->before, around->edges, &joined.parts[joined.n++].row));
    }
    joined.parts[joined.n++].row = *row;
    if (around->behind > 0) {
        joined.parts[joined.n].row = *row;
        BASE_TRY(
            edge_of(im, axis, true, around->behind, around->edges, &joined.parts[joined.n++].row));
    }
    return cell__row_join_steps(im, &joined, left, width, row);
}

/* ---- Parts without steps ------------------------------------------------------------------ */

/* The sequences whose steps a row reads otherwise than step by step, as one of the same sequence,
 * or as a part of a join. */
static uint32_t times_read(const struct cell__import *im, const struct cell__row *row)
{
    uint32_t times = 0;
    switch (row->kind) {
    case CELL__ROW_FIRST:
    case CELL__ROW_LAST:
    case CELL__ROW_WINDOW:
        return im->rows[row->index].times;
    case CELL__ROW_STEP:
    case CELL__ROW_STATE:
    case CELL__ROW_IN:
        return 1u << im->recurrents[row->index].sequence;
    case CELL__ROW_OP:
        for (uint32_t i = 0; i < row->op.n_operands; i++) {
            times |= im->rows[row->op.operands[i]].times & ~row->times;
        }
        return times;
    case CELL__ROW_INPUT:
        return row->times;
    case CELL__ROW_NUMBER:
    case CELL__ROW_DISTANCE:
    case CELL__ROW_INDEX:
    case CELL__ROW_CONST:
    case CELL__ROW_JOIN:
        break;
    }
    return 0;
}

void cell__note_empty(const struct cell__import *im, uint32_t (*output_rows)[CELL_PIECES_MAX],
                      struct cell_model *model)
{
    uint32_t read = 0; // sequences, a bit each
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        read |= row->is_needed ? times_read(im, row) : 0;
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        for (uint32_t p = 0; p < model->outputs[o].pieces; p++) {
            read |= im->rows[output_rows[o][p]].times;
        }
    }
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        struct cell_sequence *sequence = &model->sequences[s];
        sequence->may_be_empty =
            sequence->stride > 0 && sequence->kept == 0 && (read >> s & 1) == 0;
    }
}
