/* Building row expressions. Only what is cheap to see is simplified here: slices of concatenations
 * (how exporters take one layer's state out of all layers'), slices of constants, and one step of
 * step-wise ops. What is not needed in the end is never looked at again. */
#include "cells/import/rows.h"

#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/relative.h"

#include "base/assert.h"
#include "base/checked.h"

#include <math.h>
#include <string.h>

enum base_status cell__row_dtype(struct cell__import *im, enum cell__dtype dtype,
                                 enum cell_dtype *out)
{
    switch (dtype) {
    case CELL__F32:
    case CELL__F64_GIVEN: // by now floats
    case CELL__F64_MADE:
        *out = CELL_F32;
        return BASE_OK;
    case CELL__I64:
        *out = CELL_I64;
        return BASE_OK;
    case CELL__I32:
        *out = CELL_I32;
        return BASE_OK;
    case CELL__BOOL:
    case CELL__U8:
    case CELL__I8:
        break;
    }
    return cell__refuse(im, "computes with %s values that depend on the request",
                        cell__dtype_name(dtype));
}

/* See struct cell__row.is_numbers. */
static bool is_of_numbers(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    if (cell__row_is_mirror(im, row)) {
        return im->rows[im->rows[at->op.operands[0]].index].is_numbers;
    }
    bool is = at->kind == CELL__ROW_NUMBER || at->kind == CELL__ROW_DISTANCE ||
              at->kind == CELL__ROW_CONST ||
              (at->kind == CELL__ROW_OP && cell__is_computed_of_numbers(&at->op));
    for (uint32_t i = 0; at->kind == CELL__ROW_OP && i < at->op.n_operands; i++) {
        is = is && im->rows[at->op.operands[i]].is_numbers;
    }
    return is;
}

static enum base_status row_new(struct cell__import *im, const struct cell__row *row, uint32_t *out)
{
    void *array = im->rows;
    BASE_TRY(cell__grow(im, &array, &im->rows_room, im->n_rows, sizeof(*im->rows),
                        (struct cell__limit){CELL__ROWS_MAX, "row operations"}));
    im->rows = array;
    *out = im->n_rows++;
    im->rows[*out] = *row;
    im->rows[*out].chain =
        row->kind == CELL__ROW_OP && row->times != 0 ? im->scan : (uint32_t)CELL__NONE;
    im->rows[*out].softmax_of = CELL__NONE;
    im->rows[*out].nan_is_zero = false;
    im->rows[*out].none_is_zero = false;
    im->rows[*out].is_numbers = is_of_numbers(im, *out);
    // Where nothing tells rows of a batch from what they share, all is a row's.
    im->rows[*out].is_batched = row->is_batched || im->is_part || !im->has_batch;
    return BASE_OK;
}

uint32_t cell__only_sequence(uint32_t times)
{
    uint32_t sequence = 0;
    base_assert(times != 0 && !cell__is_pair(times));
    while ((times >> sequence & 1) == 0) {
        sequence++;
    }
    return sequence;
}

enum base_status cell__row_input(struct cell__import *im, uint32_t input, uint32_t piece,
                                 const struct cell__row_traits *traits, uint32_t *out)
{
    struct cell__row row = {.kind = CELL__ROW_INPUT,
                            .index = input,
                            .part = piece,
                            .value = traits->value,
                            .times = traits->times,
                            .is_batched = traits->is_batched};
    return row_new(im, &row, out);
}

enum base_status cell__row_index(struct cell__import *im, const struct cell__row *like,
                                 uint32_t *out)
{
    const struct cell__row row = *like; // rows may move
    base_assert(row.kind == CELL__ROW_INDEX);
    return row_new(im, &row, out);
}

enum base_status cell__row_number_of_step(struct cell__import *im, uint32_t sequence, uint32_t *out)
{
    struct cell__row row = {.kind = CELL__ROW_NUMBER,
                            .index = sequence,
                            .value = {CELL_I64, 1},
                            .times = 1u << sequence,
                            .is_batched = true};
    return row_new(im, &row, out);
}

enum base_status cell__row_distance(struct cell__import *im, uint32_t sequence, uint32_t *out)
{
    struct cell__row row = {.kind = CELL__ROW_DISTANCE,
                            .index = sequence,
                            .value = {CELL_I64, 1},
                            .times = 1u << sequence};
    return row_new(im, &row, out);
}

enum base_status cell__row_recurrent(struct cell__import *im, enum cell__row_kind kind,
                                     uint32_t recurrent, uint32_t part, uint32_t *out)
{
    const struct cell__recurrent *of = &im->recurrents[recurrent];
    bool is_scans = kind == CELL__ROW_STEP && of->is_scan;
    struct cell__row row = {.kind = kind,
                            .index = recurrent,
                            .part = part,
                            .times = kind == CELL__ROW_STATE ? 0 : 1u << of->sequence,
                            .is_batched = !of->is_shared,
                            .value = is_scans ? im->rows[of->output_rows[part]].value
                                              : of->states[part]};
    return row_new(im, &row, out);
}

enum base_status cell__row_const(struct cell__import *im, struct cell_value value, const void *data,
                                 uint32_t *out)
{
    struct cell__row row = {.kind = CELL__ROW_CONST, .value = value};
    row.op.kind = CELL_OP_CONST;
    row.op.n_weights = 1;
    row.op.weights[0] = (struct cell_weight){value.dtype, 1, value.width, data};
    return row_new(im, &row, out);
}

enum base_status cell__row_op(struct cell__import *im, const struct cell_op *op,
                              struct cell_value value, uint32_t *out)
{
    bool is_done = false;
    BASE_TRY(cell__row_op_before(im, op, value, out, &is_done));
    return is_done ? BASE_OK : cell__row_op_as_is(im, op, value, out);
}

enum base_status cell__row_op_as_is(struct cell__import *im, const struct cell_op *op,
                                    struct cell_value value, uint32_t *out)
{
    struct cell__row row = {.kind = CELL__ROW_OP, .value = value, .op = *op};
    for (uint32_t i = 0; i < op->n_operands; i++) {
        base_assert(op->operands[i] < im->n_rows);
        const struct cell__row *operand = &im->rows[op->operands[i]];
        row.times |= cell_op_takes_rows(op, i) ? 0 : operand->times;
        row.is_batched = row.is_batched || operand->is_batched;
    }
    return row_new(im, &row, out);
}

enum base_status cell__row_at_steps(struct cell__import *im, uint32_t row, uint32_t sequence,
                                    uint32_t *out)
{
    const struct cell_op op = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {row}};
    base_assert(im->rows[row].times == 0);
    BASE_TRY(cell__row_op_as_is(im, &op, im->rows[row].value, out));
    im->rows[*out].times = 1u << sequence;
    return BASE_OK;
}

enum base_status cell__row_number(struct cell__import *im, float number, uint32_t *out)
{
    float *data = base_arena_alloc(im->arena, sizeof(*data));
    if (data == NULL) {
        return cell__no_memory(im);
    }
    *data = number;
    return cell__row_const(im, (struct cell_value){CELL_F32, 1}, data, out);
}

enum base_status cell__row_pair(struct cell__import *im, enum cell_op_kind kind, uint32_t a,
                                uint32_t b, uint32_t *out)
{
    struct cell_op op = {.kind = kind, .n_operands = 2, .operands = {a, b}};
    return cell__row_op(im, &op, im->rows[a].value, out);
}

/* Looks through SLICE, CONCAT and SPREAD as far as [start, start + width) lies in one part. */
static uint32_t slice_origin(const struct cell__import *im, uint32_t row, uint32_t *start,
                             uint32_t width)
{
    for (;;) {
        const struct cell__row *at = &im->rows[row];
        if (at->kind != CELL__ROW_OP) {
            return row;
        }
        if (at->op.kind == CELL_OP_SLICE) {
            *start += at->op.start;
            row = at->op.operands[0];
            continue;
        }
        if (at->op.kind == CELL_OP_SPREAD && *start % at->op.dims[2] + width <= at->op.dims[2]) {
            *start =
                *start / at->op.dims[2] / at->op.dims[1] * at->op.dims[2] + *start % at->op.dims[2];
            row = at->op.operands[0];
            continue;
        }
        uint32_t i = 0;
        uint32_t before = 0;
        if (at->op.kind != CELL_OP_CONCAT) {
            return row;
        }
        while (before + im->rows[at->op.operands[i]].value.width <= *start) {
            before += im->rows[at->op.operands[i++]].value.width;
        }
        if (*start + width > before + im->rows[at->op.operands[i]].value.width) {
            return row;
        }
        *start -= before;
        row = at->op.operands[i];
    }
}

enum base_status cell__row_slice(struct cell__import *im, uint32_t row, uint32_t start,
                                 uint32_t width, uint32_t *out)
{
    base_assert(width > 0 && start + width <= im->rows[row].value.width);
    row = slice_origin(im, row, &start, width);
    const struct cell__row *from = &im->rows[row];
    struct cell_value value = {from->value.dtype, width};
    if (from->value.width == width) {
        *out = row;
        return BASE_OK;
    }
    if (from->kind == CELL__ROW_CONST) {
        const char *data = from->op.weights[0].data;
        size_t offset = (size_t)start * cell_dtype_bytes(value.dtype);
        return cell__row_const(im, value, data + offset, out);
    }
    struct cell_op op = {.kind = CELL_OP_SLICE, .n_operands = 1, .operands = {row}, .start = start};
    return cell__row_op(im, &op, value, out);
}

/* Where many rows are joined they may be made by many ops, of which a stage has a part: so few
 * wait at a time to be joined (place.c). */
#define CONCAT_FEW 6u

enum base_status cell__row_concat(struct cell__import *im, const uint32_t *rows, uint32_t n,
                                  uint32_t *out)
{
    base_assert(n > 0);
    const uint32_t most = n <= CELL_OPERANDS_MAX ? CELL_OPERANDS_MAX : CONCAT_FEW;
    *out = rows[0];
    for (uint32_t i = 1; i < n;) {
        struct cell_op op = {.kind = CELL_OP_CONCAT, .n_operands = 1, .operands = {*out}};
        struct cell_value value = im->rows[*out].value;
        while (i < n && op.n_operands < most) {
            value.width += im->rows[rows[i]].value.width;
            op.operands[op.n_operands++] = rows[i++];
        }
        if (value.width > CELL_WIDTH_MAX) {
            return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
        }
        BASE_TRY(cell__row_op(im, &op, value, out));
    }
    return BASE_OK;
}

/* What a row is a copy of; NULL: it is none. */
static const struct cell__row *copied_by(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    const bool is_copy = at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_COPY;
    return is_copy ? &im->rows[at->op.operands[0]] : NULL;
}

/* The window that a row is a copy of, one step of it at each step, as padding is, where who reads
 * these steps of it may as well read those of what is padded; or NULL. Where steps are cut off at
 * the end, as of a sequence that is shifted, nobody may read beyond that. */
static const struct cell__row *padding_of(const struct cell__import *im, uint32_t row,
                                          const struct cell__steps *steps)
{
    const struct cell__row *window = copied_by(im, row);
    if (window == NULL) {
        return NULL;
    }
    const bool is_padding = window->kind == CELL__ROW_WINDOW && window->part == 1 &&
                            window->stride == 1 && window->parts == 0 && window->by == 0 &&
                            !window->is_from_end;
    const bool stays_before = !steps->is_once && steps->stride == 1 && steps->parts == 0 &&
                              im->rows[row].times == 1u << steps->sequence &&
                              steps->offset + (int64_t)steps->count <= 1;
    return is_padding && (!window->is_cut || (window->offset <= 0 && stays_before)) ? window : NULL;
}

enum base_status cell__row_window(struct cell__import *im, uint32_t row,
                                  const struct cell__steps *steps, uint32_t *out)
{
    const struct cell__row *padding = padding_of(im, row, steps);
    int32_t offset = steps->offset;
    uint32_t behind = steps->behind;
    if (padding != NULL) { // what lies beyond the ends reads as zeros anyway
        offset += padding->offset;
        behind += padding->behind;
        row = padding->index;
    }
    if (copied_by(im, row) != NULL && copied_by(im, row)->kind == CELL__ROW_JOIN) {
        row = im->rows[row].op.operands[0]; // which is read where it lies
    }
    const struct cell__row *from = &im->rows[row];
    const uint32_t width = from->value.width / (steps->parts > 0 ? steps->parts : 1);
    struct cell__row window = {.kind = CELL__ROW_WINDOW,
                               .index = row,
                               .part = steps->count,
                               .offset = offset,
                               .stride = steps->stride,
                               .behind = behind,
                               .parts = steps->parts,
                               .is_cut = steps->is_cut,
                               .by = steps->by,
                               .told = steps->told,
                               .is_clipped = steps->is_clipped,
                               .is_ended = steps->is_ended,
                               .is_from_end = steps->is_from_end,
                               .value = {from->value.dtype, width * steps->count},
                               .times = steps->is_once ? 0 : 1u << steps->sequence,
                               .is_batched = from->is_batched};
    if (steps->count > CELL_WIDTH_MAX / width) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    return row_new(im, &window, out);
}

enum base_status cell__row_copy_steps(struct cell__import *im, const struct cell__axis *axis,
                                      const struct cell__axis *left, struct cell__steps *steps,
                                      uint32_t *row)
{
    const uint32_t from = cell__axis_times(im, axis);
    const uint32_t to = cell__axis_times(im, left);
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    if (from == 0 || to == 0 || im->rows[*row].times != from || im->scan != CELL__NONE ||
        im->feeds_back) {
        return cell__refuse(im, "along an axis that is not the time of a recurrent node");
    }
    if (im->sequences[cell__only_sequence(from)].uses_lengths) {
        return cell__refuse(im, "beside sequence_lens, where ONNX would read what stands behind a "
                                "shorter sequence");
    }
    steps->sequence = cell__only_sequence(to);
    BASE_TRY(cell__row_window(im, *row, steps, &copy.operands[0]));
    return cell__row_op(im, &copy, im->rows[copy.operands[0]].value, row);
}

/* A row that a stage or the request hands on, of all rows of the batch or of each. */
static enum base_status joinable(struct cell__import *im, bool is_batched, uint32_t *row)
{
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    BASE_TRY(cell__row_as_source(im, *row, row));
    const struct cell__row *at = &im->rows[*row];
    if ((at->kind == CELL__ROW_OP || at->kind == CELL__ROW_STEP || at->kind == CELL__ROW_INPUT) &&
        at->is_batched == is_batched) {
        return BASE_OK;
    }
    copy.operands[0] = *row;
    BASE_TRY(cell__row_op(im, &copy, at->value, row));
    im->rows[*row].is_batched = is_batched;
    return BASE_OK;
}

enum base_status cell__row_join_steps(struct cell__import *im, const struct cell__joined *joined,
                                      const struct cell__axis *left, uint32_t width, uint32_t *out)
{
    const uint32_t times = cell__axis_times(im, left);
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    struct cell__joined *own = base_arena_alloc(im->arena, sizeof(*own));
    if (times == 0 || im->scan != CELL__NONE || im->feeds_back) {
        return cell__refuse(im,
                            "joins steps along an axis that is not the time of a recurrent node");
    }
    if (own == NULL) {
        return cell__no_memory(im);
    }
    struct cell__row join = {
        .kind = CELL__ROW_JOIN, .times = times, .value = {CELL_F32, width}, .joined = own};
    *own = *joined;
    for (uint32_t p = 0; p < own->n; p++) {
        const struct cell__row *part = &im->rows[own->parts[p].row];
        join.is_batched = join.is_batched || part->is_batched;
        if (part->value.dtype != CELL_F32) {
            return cell__refuse(im, "joins, or turns round, steps of integers");
        }
    }
    for (uint32_t p = 0; p < own->n; p++) {
        BASE_TRY(joinable(im, join.is_batched, &own->parts[p].row));
    }
    BASE_TRY(row_new(im, &join, &copy.operands[0]));
    return cell__row_op(im, &copy, join.value, out);
}

/* ---- One step ------------------------------------------------------------------------ */

static enum base_status leaf_at(struct cell__import *im, enum cell__row_kind kind, uint32_t row,
                                uint32_t *out)
{
    const uint32_t sequence = cell__only_sequence(im->rows[row].times);
    if (im->sequences[sequence].uses_lengths && kind == CELL__ROW_LAST) {
        return cell__refuse(im, "takes the last step beside sequence_lens, where shorter sequences "
                                "have nothing; use Y_h");
    }
    const enum cell__row_kind from = im->rows[row].kind;
    if (from == CELL__ROW_INPUT || from == CELL__ROW_WINDOW || from == CELL__ROW_JOIN ||
        from == CELL__ROW_NUMBER) {
        // only a stage has steps
        struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {row}};
        BASE_TRY(cell__row_op(im, &copy, im->rows[row].value, &row));
    }
    struct cell__row at = {.kind = kind,
                           .index = row,
                           .value = im->rows[row].value,
                           .is_batched = im->rows[row].is_batched};
    return row_new(im, &at, out);
}

uint32_t cell__row_ids(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    if (at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_CAST && !im->is_part) {
        row = at->op.operands[0]; // Keras takes ids as floats
        at = &im->rows[row];
    }
    if (at->kind == CELL__ROW_FIRST || at->kind == CELL__ROW_LAST) {
        const struct cell__row *copy = &im->rows[at->index];
        const bool is_copy = copy->kind == CELL__ROW_OP && copy->op.kind == CELL_OP_COPY;
        row = is_copy ? copy->op.operands[0] : row;
    }
    if (at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_COPY &&
        im->rows[at->op.operands[0]].kind == CELL__ROW_WINDOW) { // another step
        row = im->rows[at->op.operands[0]].index;
    }
    return im->rows[row].kind == CELL__ROW_INPUT ? row : CELL__NONE;
}

uint32_t cell__row_element_ids(const struct cell__import *im, uint32_t row, uint32_t *first)
{
    uint32_t at = row;
    uint32_t start = 0;
    *first = CELL__NONE;
    while (im->rows[at].kind == CELL__ROW_OP &&
           (im->rows[at].op.kind == CELL_OP_CAST || im->rows[at].op.kind == CELL_OP_SLICE)) {
        if (im->rows[at].op.kind == CELL_OP_SLICE) {
            start += im->rows[at].op.start;
            *first = start;
        } else if (im->is_part) { // what a step says is no input
            break;
        }
        at = im->rows[at].op.operands[0];
    }
    const uint32_t ids = cell__row_ids(im, *first == CELL__NONE ? row : at);
    const bool is_whole =
        ids != CELL__NONE && im->rows[at].value.width == im->rows[ids].value.width;
    return *first == CELL__NONE || is_whole ? ids : CELL__NONE; // of several steps: no element
}

float cell__row_same(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    const bool is_const = at->kind == CELL__ROW_CONST && at->value.dtype == CELL_F32;
    const float *floats = is_const ? at->op.weights[0].data : NULL;
    for (uint32_t k = 1; floats != NULL && k < at->value.width; k++) {
        floats = floats[k] <= floats[0] && floats[k] >= floats[0] ? floats : NULL;
    }
    return floats == NULL ? NAN : floats[0];
}

uint32_t cell__row_uncast(const struct cell__import *im, uint32_t row)
{
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_CAST) {
        row = im->rows[row].op.operands[0];
    }
    return row;
}

bool cell__row_is_chosen(const struct cell__import *im, uint32_t row, uint32_t *n)
{
    if (im->rows[row].counts_below > 0) {
        *n = im->rows[row].counts_below;
        return true;
    }
    const struct cell__row *at = &im->rows[cell__row_uncast(im, row)];
    if (at->kind != CELL__ROW_OP || (at->op.kind != CELL_OP_ARGMAX && at->op.kind != CELL_OP_TOP)) {
        return false;
    }
    *n = im->rows[at->op.operands[0]].value.width;
    return true;
}

/* The op of `row` over its operands' rows at that step, which stand in map. */
static enum base_status op_at(struct cell__import *im, uint32_t row, const uint32_t *map,
                              uint32_t *out)
{
    struct cell_op op = im->rows[row].op;
    for (uint32_t i = 0; i < op.n_operands; i++) {
        uint32_t operand = op.operands[i];
        const bool is_one = im->rows[operand].times != 0 && !cell_op_takes_rows(&op, i);
        op.operands[i] = is_one ? map[operand] : operand;
    }
    return cell__row_op(im, &op, im->rows[row].value, out);
}

enum base_status cell__row_at(struct cell__import *im, enum cell__row_kind kind, uint32_t row,
                              uint32_t *out)
{
    *out = row;
    if (im->rows[row].times == 0) {
        return BASE_OK;
    }
    if (cell__is_pair(im->rows[row].times)) {
        return cell__refuse(im, "takes one step of what has a value for each pair of steps of two "
                                "sequences");
    }
    // map[r]: NONE, or (marked) 0, later the row that is r at that step.
    uint32_t *map = base_arena_array(im->arena, (size_t)row + 1, sizeof(*map));
    if (map == NULL) {
        return cell__no_memory(im);
    }
    memset(map, 0xff, ((size_t)row + 1) * sizeof(*map));
    map[row] = 0;
    for (uint32_t r = row + 1; r-- > 0;) {
        const struct cell__row *at = &im->rows[r];
        const bool is_op = map[r] == 0 && at->kind == CELL__ROW_OP;
        for (uint32_t i = 0; is_op && i < at->op.n_operands; i++) {
            if (im->rows[at->op.operands[i]].times != 0 && !cell_op_takes_rows(&at->op, i)) {
                map[at->op.operands[i]] = 0;
            }
        }
    }
    for (uint32_t r = 0; r <= row; r++) {
        if (map[r] == 0) {
            bool is_op = im->rows[r].kind == CELL__ROW_OP;
            BASE_TRY(is_op ? op_at(im, r, map, &map[r]) : leaf_at(im, kind, r, &map[r]));
        }
    }
    *out = map[row];
    return BASE_OK;
}

/* ---- Constants as rows -------------------------------------------------------------------- */

enum base_status cell__row_as_source(struct cell__import *im, uint32_t row, uint32_t *out)
{
    const struct cell__row *at = &im->rows[row];
    *out = row;
    return at->kind == CELL__ROW_CONST ? cell__row_op(im, &at->op, at->value, out) : BASE_OK;
}

bool cell__row_is_zero(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    if (at->kind != CELL__ROW_CONST) {
        return false;
    }
    const unsigned char *bytes = at->op.weights[0].data;
    size_t n = (size_t)at->value.width * cell_dtype_bytes(at->value.dtype);
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* A walk over the feature positions of `shape`, giving the element of a constant that is broadcast
 * to it: per axis the size of its features and the constant's stride there. */
struct spread {
    uint32_t rank;
    size_t sizes[CELL_RANK_MAX], strides[CELL_RANK_MAX];
};

static enum base_status spread_init(struct cell__import *im, const struct cell__tensor *tensor,
                                    const struct cell__shape *shape, struct spread *spread)
{
    *spread = (struct spread){.rank = shape->rank};
    size_t stride = 1;
    for (uint32_t k = shape->rank; k-- > 0;) {
        int64_t size = cell__axis_size(im, &shape->axes[k]);
        uint32_t behind = shape->rank - k;
        int64_t dim = behind <= tensor->rank ? tensor->dims[tensor->rank - behind] : 1;
        bool is_mixed = cell__axis_has(im, &shape->axes[k], CELL__ROLE_BATCH) ||
                        cell__axis_has(im, &shape->axes[k], CELL__ROLE_TIME);
        if (dim != 1 && is_mixed) {
            return cell__refuse(im, "a constant that differs along the batch or time axis");
        }
        if (dim != 1 && dim != size) {
            return cell__invalid(im, "a constant of %lld elements on an axis of %lld",
                                 (long long)dim, (long long)size);
        }
        spread->sizes[k] = 1;
        if (is_mixed) {
            struct cell__shape one = {.rank = 1, .axes = {shape->axes[k]}};
            uint32_t width = 1;
            BASE_TRY(cell__shape_width(im, &one, &width));
            spread->sizes[k] = width;
        } else {
            spread->sizes[k] = (size_t)size;
        }
        spread->strides[k] = dim == 1 ? 0 : stride;
        stride *= (size_t)dim;
    }
    return tensor->rank <= shape->rank
               ? BASE_OK
               : cell__refuse(im, "a constant of higher rank than what it is combined with");
}

/* Writes the width elements of the spread constant to out. */
static void spread_copy(const struct spread *spread, const char *data, size_t element, size_t width,
                        char *out)
{
    size_t place[CELL_RANK_MAX] = {0};
    size_t from = 0;
    for (size_t i = 0; i < width; i++) {
        memcpy(out + i * element, data + from * element, element);
        for (uint32_t k = spread->rank; k-- > 0;) {
            from += spread->strides[k];
            if (++place[k] < spread->sizes[k]) {
                break;
            }
            from -= place[k] * spread->strides[k];
            place[k] = 0;
        }
    }
}

static enum base_status row_of_const(struct cell__import *im, const struct cell__tensor *tensor,
                                     const struct cell__shape *shape, bool may_be_scalar,
                                     uint32_t *out)
{
    struct cell_value value = {.width = 1};
    struct cell__tensor floats;
    if (tensor->dtype == CELL__BOOL) { // 1 and 0, as all conditions are in rows
        BASE_TRY(cell__fold_cast(im, tensor, CELL__F32, &floats));
        tensor = &floats;
    }
    BASE_TRY(cell__row_dtype(im, tensor->dtype, &value.dtype));
    if (tensor->syms != NULL) {
        return cell__refuse(im, "computes with the size of the batch or time axis");
    }
    if (tensor->count == 1 && may_be_scalar) {
        return cell__row_const(im, value, tensor->data, out);
    }
    struct spread spread;
    BASE_TRY(spread_init(im, tensor, shape, &spread));
    BASE_TRY(cell__shape_width(im, shape, &value.width));
    size_t element = cell_dtype_bytes(value.dtype);
    char *data = base_arena_array(im->arena, value.width, element);
    if (data == NULL) {
        return cell__no_memory(im);
    }
    spread_copy(&spread, tensor->data, element, value.width, data);
    return cell__row_const(im, value, data, out);
}

enum base_status cell__row_of(struct cell__import *im, const struct cell__value *value,
                              const struct cell__shape *shape, bool may_be_scalar, uint32_t *out)
{
    if (value->kind == CELL__CONST) {
        return row_of_const(im, &value->tensor, shape, may_be_scalar, out);
    }
    if (value->kind == CELL__COUNTER) {
        return cell__row_of_count(im, value, out);
    }
    base_assert(value->kind == CELL__ROWS && value->row != CELL__NONE);
    *out = value->row;
    return BASE_OK;
}

void cell__set_row(struct cell__import *im, const struct cell__node *node, uint32_t i, uint32_t row)
{
    if (cell__has_output(node, i)) {
        cell__output(im, node, i)->row = row;
    }
}
