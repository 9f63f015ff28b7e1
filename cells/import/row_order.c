/* The order of the elements within a row: TRANSPOSE, as late as it may come.
 *
 * A convolution along an axis of a row wants its channels innermost, [height][channels], and ONNX
 * has them outermost. So it transposes its input and its result; what stands between two of them
 * works element by element, and is computed of the row before it is turned back: then the next one
 * undoes that, and nothing is left to be done of either. */
#include "cells/import/fold.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

static bool is_transpose(const struct cell__row *row)
{
    return row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_TRANSPOSE;
}

/* Whether one turns back what the other has turned. */
static bool is_opposite(const uint32_t a[3], const uint32_t b[3])
{
    return a[0] == b[0] && a[1] == b[2] && a[2] == b[1];
}

static enum base_status transpose_const(struct cell__import *im, const struct cell__row *row,
                                        const uint32_t dims[3], uint32_t *out)
{
    const struct cell_value value = row->value;
    const int64_t block = value.width / ((int64_t)dims[0] * dims[1] * dims[2]);
    const struct cell__view view = {
        .rank = 4,
        .dims = {dims[0], dims[2], dims[1], block},
        .strides = {dims[1] * (dims[2] * block), block, dims[2] * block, 1}};
    const struct cell__tensor from = {.dtype = value.dtype == CELL_F32   ? CELL__F32
                                               : value.dtype == CELL_I64 ? CELL__I64
                                                                         : CELL__I32,
                                      .rank = 1,
                                      .dims = {value.width},
                                      .count = value.width,
                                      .data = row->op.weights[0].data};
    struct cell__tensor turned;
    BASE_TRY(cell__fold_view(im, &from, &view, &turned));
    return cell__row_const(im, value, turned.data, out);
}

static enum base_status spread_const(struct cell__import *im, const struct cell__row *row,
                                     const uint32_t dims[3], uint32_t *out)
{
    const size_t element = cell_dtype_bytes(row->value.dtype);
    const size_t part = dims[2] * element;
    const struct cell_value value = {row->value.dtype, row->value.width * dims[1]};
    const char *from = row->op.weights[0].data;
    char *data = base_arena_array(im->arena, value.width, element);
    if (data == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < dims[0] * dims[1]; i++) {
        memcpy(data + i * part, from + i / dims[1] * part, part);
    }
    return cell__row_const(im, value, data, out);
}

enum base_status cell__row_transpose(struct cell__import *im, uint32_t row, const uint32_t dims[3],
                                     uint32_t *out)
{
    const struct cell__row *from = &im->rows[row];
    base_assert(from->value.width % ((size_t)dims[0] * dims[1] * dims[2]) == 0);
    *out = row;
    if (dims[1] == 1 || dims[2] == 1) {
        return BASE_OK;
    }
    if (from->kind == CELL__ROW_CONST) {
        return transpose_const(im, from, dims, out);
    }
    if (is_transpose(from) && is_opposite(from->op.dims, dims)) {
        *out = from->op.operands[0];
        return BASE_OK;
    }
    struct cell_op op = {.kind = CELL_OP_TRANSPOSE, .n_operands = 1, .operands = {row}};
    memcpy(op.dims, dims, sizeof(op.dims));
    return cell__row_op_as_is(im, &op, from->value, out);
}

/* Of copies that are a row [p, q, r, b] turned to [p, r, q, b]: those before, where all of r or all
 * of q are copies; else NONE. */
static enum base_status spread_before(struct cell__import *im, const struct cell__row *row,
                                      const uint32_t turned[3], uint32_t *out)
{
    const uint32_t *dims = row->op.dims;
    const uint32_t block = row->value.width / (turned[0] * turned[1] * turned[2]);
    struct cell_op op = row->op;
    if (dims[1] == turned[1] && dims[2] == block) {
        op.dims[0] = turned[0];
        op.dims[2] = turned[2] * block;
    } else if (dims[1] == turned[2] && dims[0] == turned[0]) {
        op.dims[0] = turned[0] * turned[1];
        op.dims[2] = block;
    } else {
        return BASE_OK;
    }
    return cell__row_op_as_is(im, &op, row->value, out);
}

/* The operand as it is before `dims` are turned; NONE: it is in another order. */
static enum base_status operand_before(struct cell__import *im, uint32_t operand,
                                       const uint32_t dims[3], uint32_t *out)
{
    const struct cell__row *row = &im->rows[operand];
    const uint32_t opposite[3] = {dims[0], dims[2], dims[1]};
    *out = CELL__NONE;
    if (row->value.width == 1) {
        *out = operand;
    } else if (is_transpose(row) && memcmp(row->op.dims, dims, sizeof(row->op.dims)) == 0) {
        *out = row->op.operands[0];
    } else if (row->kind == CELL__ROW_CONST) {
        return cell__row_transpose(im, operand, opposite, out);
    } else if (row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_SPREAD) {
        return spread_before(im, row, dims, out);
    }
    return BASE_OK;
}

enum base_status cell__row_op_before(struct cell__import *im, const struct cell_op *op,
                                     struct cell_value value, uint32_t *out, bool *is_done)
{
    const struct cell__row *turned = NULL;
    *is_done = false;
    for (uint32_t i = 0; i < op->n_operands && cell_op_is_pointwise(op->kind); i++) {
        const struct cell__row *row = &im->rows[op->operands[i]];
        turned = turned == NULL && is_transpose(row) ? row : turned;
    }
    if (turned == NULL) {
        return BASE_OK;
    }
    uint32_t dims[3];
    struct cell_op before = *op;
    memcpy(dims, turned->op.dims, sizeof(dims)); // rows may move
    for (uint32_t i = 0; i < op->n_operands; i++) {
        BASE_TRY(operand_before(im, op->operands[i], dims, &before.operands[i]));
        if (before.operands[i] == CELL__NONE) {
            return BASE_OK;
        }
    }
    BASE_TRY(cell__row_op_as_is(im, &before, value, out));
    *is_done = true;
    return cell__row_transpose(im, *out, dims, out);
}

enum base_status cell__row_part(struct cell__import *im, uint32_t row,
                                const struct cell__place *place, uint32_t first, uint32_t count,
                                uint32_t *out)
{
    const uint32_t step = place->outer * place->inner;
    const uint32_t there[3] = {1, place->outer, place->size};
    const uint32_t back[3] = {1, count, place->outer};
    BASE_TRY(cell__row_transpose(im, row, there, out));
    BASE_TRY(cell__row_slice(im, *out, first * step, count * step, out));
    return cell__row_transpose(im, *out, back, out);
}

enum base_status cell__row_join(struct cell__import *im, const uint32_t *rows,
                                const struct cell__place *places, uint32_t n, uint32_t *out)
{
    uint32_t turned[CELL__OPERANDS_MAX];
    uint32_t back[3] = {1, 0, places[0].outer};
    base_assert(n > 0 && n <= CELL__OPERANDS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t there[3] = {1, places[i].outer, places[i].size};
        base_assert(places[i].outer == places[0].outer);
        BASE_TRY(cell__row_transpose(im, rows[i], there, &turned[i]));
        back[1] += places[i].size;
    }
    BASE_TRY(cell__row_concat(im, turned, n, out));
    return cell__row_transpose(im, *out, back, out);
}

/* Features along an axis of `shape`, counted from behind; 1 where it has none. */
static enum base_status features_at(struct cell__import *im, const struct cell__shape *shape,
                                    uint32_t behind, uint32_t *out)
{
    *out = 1;
    if (behind > shape->rank) {
        return BASE_OK;
    }
    const struct cell__shape only = {.rank = 1, .axes = {shape->axes[shape->rank - behind]}};
    return cell__shape_width(im, &only, out);
}

/* [outer, 1, inner] to [outer, n, inner]. */
static enum base_status repeat(struct cell__import *im, uint32_t outer, uint32_t n, uint32_t *row)
{
    const struct cell__row *from = &im->rows[*row];
    const uint32_t width = from->value.width;
    if (n > CELL_WIDTH_MAX / width) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    const struct cell_op op = {.kind = CELL_OP_SPREAD,
                               .n_operands = 1,
                               .operands = {*row},
                               .dims = {outer, n, width / outer}};
    if (from->kind == CELL__ROW_CONST) {
        return spread_const(im, from, op.dims, row);
    }
    return cell__row_op(im, &op, (struct cell_value){from->value.dtype, n * width}, row);
}

enum base_status cell__row_spread(struct cell__import *im, uint32_t row,
                                  const struct cell__shape *own, const struct cell__shape *out,
                                  uint32_t *spread)
{
    uint32_t inner = 1; // of out, behind the axis
    *spread = row;
    for (uint32_t behind = 1; behind <= out->rank; behind++) {
        uint32_t has = 0;
        uint32_t wanted = 0;
        BASE_TRY(features_at(im, own, behind, &has));
        BASE_TRY(features_at(im, out, behind, &wanted));
        if (has == 1 && wanted > 1) {
            const uint32_t outer = im->rows[*spread].value.width / inner;
            BASE_TRY(repeat(im, outer, wanted, spread));
        }
        inner *= wanted;
    }
    return BASE_OK;
}
