/* Integers of a request that tell steps of a sequence that strides have left: lengths, and numbers
 * of steps, are divided as the steps are, `(n - 1) // 2 + 1`. As integers or floats, they are
 * computed by whoever wants the number (a mask); where the server itself has to know it, it is
 * found again in what is computed: what was added, and over what, in one. With b and d whole
 * numbers,
 *
 *     floor((floor((n + a) / b) + c) / d) = floor((n + a + b c) / (b d))
 *
 * A division that rounds to 0 is that only of what is not below 0, which is then asked of n. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <math.h>
#include <string.h>

#define ADD_MAX  (1 << 24)
#define OVER_MAX (1 << 16)

/* ---- What a row tells ----------------------------------------------------------------------- */

#define NO_LEAST INT32_MIN

/* Of the value y of a row: the number is floor((y + add) / over), and y is no less than `least`. */
struct look {
    int64_t add, over, least;
    bool is_rounded; /* behind the row */
    bool is_cut;     /* to 0, which is not down where y is below cut */
    int64_t cut;
};

static bool is_whole(float number)
{
    return fabsf(number) < ADD_MAX && floorf(number) == number;
}

/* The constant operand of two, and which is the other; NaN: none is. */
static float constant_of(const struct cell__import *im, const struct cell_op *op, uint32_t *other)
{
    const float second = cell__row_same(im, op->operands[1]);
    *other = op->operands[isnan(second) ? 1 : 0];
    return isnan(second) ? cell__row_same(im, op->operands[0]) : second;
}

static bool look_sum(struct look *look, float number)
{
    const bool is = is_whole(number);
    look->add += is ? (int64_t)number : 0;
    look->least -= is && look->least > NO_LEAST ? (int64_t)number : 0;
    look->cut -= is ? (int64_t)number : 0;
    return is && look->add >= -ADD_MAX && look->add <= ADD_MAX;
}

/* y = x / by, which is rounded. */
static bool look_quotient(struct look *look, float by)
{
    if (!look->is_rounded || !is_whole(by) || by < 1.0f || by * (float)look->over > OVER_MAX) {
        return false;
    }
    const int64_t n = (int64_t)by;
    look->add *= n;
    look->over *= n;
    look->least = look->is_cut && look->cut > look->least ? look->cut : look->least;
    look->least = look->least > NO_LEAST ? look->least * n : NO_LEAST;
    look->is_rounded = false;
    look->is_cut = false;
    return look->add >= -ADD_MAX && look->add <= ADD_MAX && look->least <= ADD_MAX;
}

/* -floor(-(x / n)), rounded up: floor((x + n - 1) / n). *row: x's. */
static bool look_ceil(const struct cell__import *im, struct look *look, uint32_t *row)
{
    const struct cell__row *floor = &im->rows[*row];
    const struct cell__row *minus = &im->rows[floor->op.operands[0]];
    uint32_t other = 0;
    if (floor->kind != CELL__ROW_OP || floor->op.kind != CELL_OP_FLOOR ||
        minus->kind != CELL__ROW_OP || minus->op.kind != CELL_OP_MUL ||
        !(constant_of(im, &minus->op, &other) == -1.0f) || im->rows[other].kind != CELL__ROW_OP ||
        im->rows[other].op.kind != CELL_OP_DIV) {
        return false;
    }
    const struct cell_op *div = &im->rows[other].op;
    const float by = cell__row_same(im, div->operands[1]);
    look->is_rounded = true;
    look->is_cut = false;
    *row = div->operands[0];
    return look_quotient(look, by) && look_sum(look, by - 1.0f);
}

static bool look_product(const struct cell__import *im, struct look *look, float by, uint32_t *row)
{
    const float over = by > 0.0f ? 1.0f / by : 0.0f;
    const bool is_exact = is_whole(over) && ((uint32_t)over & ((uint32_t)over - 1)) == 0;
    if (by == 1.0f) {
        return true;
    }
    return by == -1.0f ? look_ceil(im, look, row) : is_exact && look_quotient(look, over);
}

/* Of what is rounded twice the first one counts, which is found last. */
static void look_rounded(struct look *look, bool is_floor)
{
    look->is_rounded = true;
    look->is_cut = !is_floor;
    look->cut = 0;
}

/* *row: of an op, that which it is made of. */
static bool look_op(const struct cell__import *im, struct look *look, uint32_t *row)
{
    const struct cell__row *at = &im->rows[*row];
    const uint32_t operand = at->op.operands[0];
    const float second = at->op.n_operands > 1 ? cell__row_same(im, at->op.operands[1]) : 0.0f;
    float number = 0.0f;
    *row = operand;
    switch ((unsigned)at->op.kind) {
    case CELL_OP_CAST:
        if (at->value.dtype != CELL_F32 && im->rows[operand].value.dtype == CELL_F32) {
            look_rounded(look, false);
        }
        return true;
    case CELL_OP_COPY:
        return true;
    case CELL_OP_FLOOR:
        look_rounded(look, true);
        return true;
    case CELL_OP_ADD:
        number = constant_of(im, &at->op, row);
        return look_sum(look, number);
    case CELL_OP_SUB:
        return look_sum(look, -second);
    case CELL_OP_DIV:
        return look_quotient(look, second);
    case CELL_OP_MUL:
        number = constant_of(im, &at->op, row);
        return look_product(im, look, number, row);
    default:
        return false;
    }
}

static bool is_plain(const struct cell__row *index)
{
    return index->index != CELL__NONE && index->stride == 0 && index->part == 0 && !index->is_cut &&
           !index->limits.has_most && index->limits.below == 0 && !index->is_counted &&
           !index->is_from_end && index->told.over <= 1;
}

static bool is_input(const struct cell__row *at)
{
    return at->kind == CELL__ROW_INPUT && at->value.dtype != CELL_F32 && at->times == 0 &&
           at->value.width == 1 && at->part == 0;
}

bool cell__row_told(const struct cell__import *im, uint32_t row, struct cell_told *told,
                    uint32_t *input)
{
    struct look look = {.over = 1, .least = NO_LEAST};
    while (im->rows[row].kind == CELL__ROW_OP) {
        if (!look_op(im, &look, &row)) {
            return false;
        }
    }
    const struct cell__row *at = &im->rows[row];
    if (at->kind == CELL__ROW_INDEX && is_plain(at)) {
        (void)look_sum(&look, (float)at->offset);
    } else if (!is_input(at)) {
        return false;
    }
    const int64_t least = look.least < 0 ? 0 : look.least;
    *input = at->index;
    *told = (struct cell_told){.add = (int32_t)look.add,
                               .over = look.over > 1 ? (uint32_t)look.over : 0,
                               .least = look.over > 1 ? (int32_t)least : 0};
    return look.add >= -ADD_MAX && look.add <= ADD_MAX;
}

bool cell__told_is_same(struct cell_told a, struct cell_told b)
{
    return a.add == b.add && (a.over > 1 ? a.over : 1) == (b.over > 1 ? b.over : 1) &&
           a.least == b.least;
}

/* ---- What is computed of it ----------------------------------------------------------------- */

enum base_status cell__row_told_over(struct cell__import *im, uint32_t row, int64_t n,
                                     bool is_floor, uint32_t *out)
{
    struct cell_op op = {.kind = CELL_OP_FLOOR, .n_operands = 1};
    uint32_t number = CELL__NONE;
    BASE_TRY(cell__row_as_float(im, row, out));
    BASE_TRY(cell__row_number(im, (float)n, &number));
    BASE_TRY(cell__row_pair(im, CELL_OP_DIV, *out, number, &op.operands[0]));
    if (is_floor) {
        BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, 1}, &op.operands[0]));
    }
    op.kind = CELL_OP_CAST;
    return cell__row_op(im, &op, (struct cell_value){CELL_I64, 1}, out);
}

/* Which input is told, and the constant beside it; false: none, or it tells of no division, but
 * that this is one. */
static bool read_told(struct cell__import *im, const struct cell__node *node, uint32_t *i,
                      int64_t *number)
{
    const bool is_division = strcmp(node->op->name, "Div") == 0;
    struct cell_told told;
    uint32_t input = 0;
    if (node->n_inputs != 2 || !cell__has_input(node, 0) || !cell__has_input(node, 1)) {
        return false;
    }
    *i = cell__input(im, node, 0)->kind == CELL__CONST ? 1 : 0;
    const struct cell__value *value = cell__input(im, node, *i);
    return value->kind == CELL__ROWS && value->dtype != CELL__F32 &&
           cell__value_integer(cell__input(im, node, 1 - *i), ADD_MAX, number) &&
           cell__row_told(im, value->row, &told, &input) && (is_division || told.over > 1);
}

bool cell__is_of_told(struct cell__import *im, const struct cell__node *node)
{
    const char *name = node->op->name;
    uint32_t i = 0;
    int64_t number = 0;
    const bool is = read_told(im, node, &i, &number);
    return is && (strcmp(name, "Add") == 0 ||
                  (i == 0 && (strcmp(name, "Sub") == 0 ||
                              (strcmp(name, "Div") == 0 && number >= 1 && number <= OVER_MAX))));
}

enum base_status cell__lower_told(struct cell__import *im, const struct cell__node *node,
                                  uint32_t *out)
{
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    uint32_t added = CELL__NONE;
    uint32_t i = 0;
    int64_t number = 0;
    (void)read_told(im, node, &i, &number);
    const uint32_t row = cell__input(im, node, i)->row;
    if (strcmp(node->op->name, "Div") == 0) {
        return cell__row_told_over(im, row, number, false, out);
    }
    number = strcmp(node->op->name, "Sub") == 0 ? -number : number;
    BASE_TRY(cell__row_as_float(im, row, out));
    BASE_TRY(cell__row_number(im, (float)number, &added));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, *out, added, &cast.operands[0]));
    return cell__row_op(im, &cast, (struct cell_value){CELL_I64, 1}, out);
}
