/* See rows.h: elements of a row in any order. */
#include "cells/import/rows.h"

#include "base/assert.h"

/* The numbers that they have in the row: of each of the places before the axis, and behind it. */
static void number(const struct cell__place *place, const int64_t *at, uint32_t n, int64_t *out)
{
    for (int64_t outer = 0; outer < place->outer; outer++) {
        for (uint32_t i = 0; i < n; i++) {
            base_assert(at[i] >= 0 && at[i] < place->size);
            const int64_t first = (outer * place->size + at[i]) * place->inner;
            for (int64_t inner = 0; inner < place->inner; inner++) {
                *out++ = first + inner;
            }
        }
    }
}

/* Of a constant: another one. */
static enum base_status fold(struct cell__import *im, uint32_t row, const int64_t *numbers,
                             uint32_t width, uint32_t *out)
{
    const float *from = im->rows[row].op.weights[0].data;
    float *data = base_arena_array(im->arena, width, sizeof(*data));
    if (data == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < width; i++) {
        data[i] = from[numbers[i]];
    }
    return cell__row_const(im, (struct cell_value){CELL_F32, width}, data, out);
}

enum base_status cell__row_elements(struct cell__import *im, uint32_t row,
                                    const struct cell__place *place, const int64_t *at, uint32_t n,
                                    uint32_t *out)
{
    const uint64_t width = (uint64_t)place->outer * n * place->inner;
    struct cell_op take = {.kind = CELL_OP_TAKE, .n_operands = 2, .operands = {row}};
    if (im->rows[row].value.dtype != CELL_F32) {
        return cell__refuse(im, "takes integers of the request");
    }
    if (width > CELL_WIDTH_MAX) {
        return cell__refuse(im, "a result of %llu elements", (unsigned long long)width);
    }
    base_assert(im->rows[row].value.width == place->outer * place->size * place->inner);
    int64_t *numbers = base_arena_array(im->arena, (size_t)width, sizeof(*numbers));
    if (numbers == NULL) {
        return cell__no_memory(im);
    }
    number(place, at, n, numbers);
    if (im->rows[row].kind == CELL__ROW_CONST) {
        return fold(im, row, numbers, (uint32_t)width, out);
    }
    const struct cell_value of_numbers = {CELL_I64, (uint32_t)width};
    BASE_TRY(cell__row_const(im, of_numbers, numbers, &take.operands[1]));
    return cell__row_op(im, &take, (struct cell_value){CELL_F32, (uint32_t)width}, out);
}
