/* A constant with a value for each pair of steps, cut to as many as there are: `b[:, :t, :t]`, two
 * Slices behind each other, as causal masks and learned biases are kept. Where values follow from
 * how far apart steps are, which most do, they are a few stretches, as band.h has them, or rows of
 * a table by distance (relative.h); so are those that follow from how far apart the chunks are that
 * steps are in. Others are looked up by both numbers, which attention takes apart (scores.c). A
 * request may have as many steps as the constant. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

enum { IN_TABLE, IN_AXES, IN_STEPS };

#define BORDERS_MAX 4u /* band.h */
#define PAIRS_MAX   1024

/* ---- The two Slices ------------------------------------------------------------------------- */

/* Which axes of which constant they cut. */
struct cut {
    uint32_t table;
    int64_t axes[2];
};

static bool read_cut(const struct cell__import *im, const struct cell__node *node, struct cut *out)
{
    const struct cell__node *first = cell__made_by(im, node, 0, "Slice");
    struct cell__axis steps[2];
    if (first == NULL || !cell__has_input(first, 0) || !cell__has_input(first, 2) ||
        !cell__has_input(node, 2)) {
        return false;
    }
    const struct cell__value *table = &im->values[first->inputs[0]];
    const uint32_t rank = table->kind == CELL__CONST ? table->tensor.rank : 0;
    if ((table->dtype != CELL__F32 && table->dtype != CELL__BOOL) || rank < 2 ||
        table->tensor.syms != NULL) {
        return false;
    }
    const uint32_t a = cell__positions_axis(im, first, rank, &steps[0]);
    const uint32_t b = cell__positions_axis(im, node, rank, &steps[1]);
    *out = (struct cut){.table = first->inputs[0], .axes = {a < b ? a : b, a < b ? b : a}};
    return a != CELL__NONE && b != CELL__NONE && a != b &&
           cell__axis_is_same(im, &steps[0], &steps[1]) &&
           table->tensor.dims[a] == table->tensor.dims[b];
}

static enum base_status infer_pairs(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *table = cell__input(im, node, IN_TABLE);
    const struct cell__tensor *axes = &cell__input(im, node, IN_AXES)->tensor;
    const struct cell__sym steps = cell__tensor_sym(&cell__input(im, node, IN_STEPS)->tensor, 0);
    struct cell__shape shape;
    BASE_TRY(cell__shape_of(im, table, &shape));
    shape.axes[cell__tensor_sym(axes, 0).add] = steps.axis;
    BASE_TRY(cell__axis_mirror(im, &steps.axis, &shape.axes[cell__tensor_sym(axes, 1).add]));
    cell__set_rows(im, node, 0, table->dtype, &shape);
    return BASE_OK;
}

/* ---- Its values ----------------------------------------------------------------------------- */

/* [steps][steps][width] */
struct pairs {
    uint32_t steps, width;
    float *values;
};

static const float *pair_at(const struct pairs *pairs, size_t first, size_t second)
{
    return pairs->values + (first * pairs->steps + second) * pairs->width;
}

/* The axes of the constant are [before][steps][between][steps][behind]. */
static enum base_status read_pairs(struct cell__import *im, const struct cell__node *node,
                                   struct pairs *out)
{
    const struct cell__tensor *in = &cell__input(im, node, IN_TABLE)->tensor;
    const struct cell__tensor *axes = &cell__input(im, node, IN_AXES)->tensor;
    const uint32_t a = (uint32_t)cell__tensor_sym(axes, 0).add;
    const uint32_t b = (uint32_t)cell__tensor_sym(axes, 1).add;
    size_t sizes[3] = {1, 1, 1};
    for (uint32_t k = 0; k < in->rank; k++) {
        sizes[k < a ? 0 : k < b ? 1 : 2] *= k == a || k == b ? 1 : (size_t)in->dims[k];
    }
    const size_t steps = (size_t)in->dims[a];
    const size_t width = sizes[0] * sizes[1] * sizes[2];
    if (steps < 1 || steps > PAIRS_MAX || width < 1 || width > CELL_WIDTH_MAX) {
        return cell__refuse(im,
                            "a value for each of %zu pairs of steps; for up to %u times as many",
                            steps, PAIRS_MAX);
    }
    *out = (struct pairs){.steps = (uint32_t)steps, .width = (uint32_t)width};
    out->values = base_arena_array(im->arena, in->count, sizeof(*out->values));
    if (out->values == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < in->count; i++) {
        const size_t behind = i % sizes[2];
        const size_t second = i / sizes[2] % steps;
        const size_t between = i / sizes[2] / steps % sizes[1];
        const size_t first = i / sizes[2] / steps / sizes[1] % steps;
        const size_t before = i / sizes[2] / steps / sizes[1] / steps;
        const size_t k = (before * sizes[1] + between) * sizes[2] + behind;
        out->values[(first * steps + second) * width + k] =
            in->dtype == CELL__F32 ? ((const float *)in->data)[i]
                                   : (float)(((const uint8_t *)in->data)[i] != 0);
    }
    return BASE_OK;
}

static bool are_equal(const float *a, const float *b, uint32_t width)
{
    bool are = true;
    for (uint32_t k = 0; k < width; k++) {
        are = are && a[k] <= b[k] && a[k] >= b[k];
    }
    return are;
}

static bool is_of_distance(const struct pairs *pairs)
{
    bool is = true;
    for (size_t i = 1; is && i < pairs->steps; i++) {
        for (size_t j = 1; is && j < pairs->steps; j++) {
            is = are_equal(pair_at(pairs, i, j), pair_at(pairs, i - 1, j - 1), pairs->width);
        }
    }
    return is;
}

/* How many steps a chunk has, where values are those of the first steps of both chunks, *out of the
 * chunks; 0: they are not. */
static enum base_status find_chunks(struct cell__import *im, const struct pairs *pairs,
                                    struct pairs *out, uint32_t *chunk)
{
    const uint32_t steps = pairs->steps;
    uint32_t n = 1;
    while (n < steps &&
           are_equal(pair_at(pairs, 0, 0), pair_at(pairs, n, 0), steps * pairs->width)) {
        n++;
    }
    bool is_of = n > 1 && n < steps;
    for (size_t i = 0; is_of && i < steps; i++) {
        for (size_t j = 0; is_of && j < steps; j++) {
            is_of =
                are_equal(pair_at(pairs, i, j), pair_at(pairs, i - i % n, j - j % n), pairs->width);
        }
    }
    *chunk = is_of ? n : 0;
    if (!is_of) {
        return BASE_OK;
    }
    *out = (struct pairs){.steps = (steps + n - 1) / n, .width = pairs->width};
    out->values = base_arena_array(im->arena, (size_t)out->steps * out->steps * out->width,
                                   sizeof(*out->values));
    if (out->values == NULL) {
        return cell__no_memory(im);
    }
    for (size_t p = 0; p < (size_t)out->steps * out->steps; p++) {
        memcpy(out->values + p * out->width, pair_at(pairs, p / out->steps * n, p % out->steps * n),
               out->width * sizeof(*out->values));
    }
    return BASE_OK;
}

/* The values of distance d, from -(steps - 1) on. */
static const float *at_distance(const struct pairs *pairs, int64_t d)
{
    return pair_at(pairs, d < 0 ? (size_t)-d : 0, d < 0 ? 0 : (size_t)d);
}

/* ---- Its rows ------------------------------------------------------------------------------- */

/* The number of the step of an axis, as a float. */
static enum base_status number_of(struct cell__import *im, uint32_t sequence, uint32_t *row)
{
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1};
    BASE_TRY(cell__row_number_of_step(im, sequence, &cast.operands[0]));
    return cell__row_op(im, &cast, (struct cell_value){CELL_F32, 1}, row);
}

/* Distances from which on there is another value, where it is one for all of a row; false: there
 * are too many, or several in a row. */
static bool find_borders(const struct pairs *pairs, int64_t borders[BORDERS_MAX], uint32_t *n)
{
    const int64_t reach = (int64_t)pairs->steps - 1;
    const float *before = at_distance(pairs, -reach);
    *n = 0;
    for (int64_t d = -reach; d <= reach; d++) {
        const float *values = at_distance(pairs, d);
        if (pairs->width > 1 && !are_equal(values, values + 1, pairs->width - 1)) {
            return false;
        }
        if (are_equal(values, before, 1)) {
            continue;
        }
        if (*n == BORDERS_MAX) {
            return false;
        }
        borders[(*n)++] = d;
        before = values;
    }
    return true;
}

/* The first value below the first border, and so on. */
static enum base_status lower_stretches(struct cell__import *im, const struct pairs *pairs,
                                        uint32_t distance, const int64_t *borders, uint32_t n,
                                        uint32_t *out)
{
    const struct cell_value one = {CELL_F32, 1};
    BASE_TRY(cell__row_number(im, at_distance(pairs, 1 - (int64_t)pairs->steps)[0], out));
    for (uint32_t k = 0; k < n; k++) {
        struct cell_op select = {.kind = CELL_OP_SELECT, .n_operands = 3};
        uint32_t border = CELL__NONE;
        BASE_TRY(cell__row_number(im, (float)borders[k], &border));
        BASE_TRY(cell__row_pair(im, CELL_OP_LESS, distance, border, &select.operands[0]));
        select.operands[1] = *out;
        BASE_TRY(cell__row_number(im, at_distance(pairs, borders[k])[0], &select.operands[2]));
        BASE_TRY(cell__row_op(im, &select, one, out));
    }
    const struct cell_op spread = {
        .kind = CELL_OP_SPREAD, .n_operands = 1, .operands = {*out}, .dims = {1, pairs->width, 1}};
    return pairs->width == 1
               ? BASE_OK
               : cell__row_op(im, &spread, (struct cell_value){CELL_F32, pairs->width}, out);
}

static enum base_status look_up(struct cell__import *im, const struct cell__table *table,
                                uint32_t index, uint32_t *out)
{
    const struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {index}};
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_I64, 1}, out));
    return cell__row_lookup(im, table, *out, out);
}

/* Rows by how far the second step is from the first. */
static enum base_status lower_distances(struct cell__import *im, const struct pairs *pairs,
                                        uint32_t distance, uint32_t *out)
{
    const int64_t reach = (int64_t)pairs->steps - 1;
    struct cell__table table = {.dtype = CELL__F32, .rows = 2 * reach + 1, .width = pairs->width};
    uint32_t add = CELL__NONE;
    float *rows = base_arena_array(im->arena, (size_t)table.rows * pairs->width, sizeof(*rows));
    if (rows == NULL) {
        return cell__no_memory(im);
    }
    for (int64_t d = -reach; d <= reach; d++) {
        memcpy(rows + (size_t)(d + reach) * pairs->width, at_distance(pairs, d),
               pairs->width * sizeof(*rows));
    }
    table.data = rows;
    BASE_TRY(cell__row_number(im, (float)reach, &add));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, distance, add, &add));
    return look_up(im, &table, add, out);
}

/* Rows by both numbers. */
static enum base_status lower_each(struct cell__import *im, const struct pairs *pairs,
                                   const uint32_t numbers[2], uint32_t *out)
{
    const struct cell__table table = {.dtype = CELL__F32,
                                      .rows = (int64_t)pairs->steps * pairs->steps,
                                      .width = pairs->width,
                                      .data = pairs->values};
    uint32_t index = CELL__NONE;
    BASE_TRY(cell__row_number(im, (float)pairs->steps, &index));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, numbers[0], index, &index));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, index, numbers[1], &index));
    BASE_TRY(look_up(im, &table, index, out));
    im->rows[*out].is_numbers = false; // of more than relative.h computes
    im->rows[*out].pairs = pairs->steps;
    return BASE_OK;
}

/* What follows from how far apart steps are, or chunks. */
static enum base_status lower_apart(struct cell__import *im, const struct pairs *pairs,
                                    const uint32_t numbers[2], uint32_t *row)
{
    int64_t borders[BORDERS_MAX] = {0};
    uint32_t n = 0;
    uint32_t distance = CELL__NONE;
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, numbers[1], numbers[0], &distance));
    return find_borders(pairs, borders, &n) ? lower_stretches(im, pairs, distance, borders, n, row)
                                            : lower_distances(im, pairs, distance, row);
}

static enum base_status lower_values(struct cell__import *im, const struct pairs *pairs,
                                     const uint32_t numbers[2], uint32_t *row)
{
    struct pairs chunks;
    uint32_t chunk = 0;
    uint32_t of_chunks[2];
    if (is_of_distance(pairs)) {
        return lower_apart(im, pairs, numbers, row);
    }
    BASE_TRY(find_chunks(im, pairs, &chunks, &chunk));
    if (chunk == 0 || !is_of_distance(&chunks)) {
        return lower_each(im, pairs, numbers, row);
    }
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(cell__row_chunk(im, numbers[i], chunk, &of_chunks[i]));
    }
    return lower_apart(im, &chunks, of_chunks, row);
}

static enum base_status lower_pairs(struct cell__import *im, struct cell__node *node)
{
    const struct cell__tensor *axes = &cell__input(im, node, IN_AXES)->tensor;
    const struct cell__shape *shape = &cell__output(im, node, 0)->shape;
    uint32_t sequences[2];
    uint32_t numbers[2];
    struct pairs pairs;
    uint32_t row = CELL__NONE;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t times = cell__axis_times(im, &shape->axes[cell__tensor_sym(axes, i).add]);
        if (times == 0 || cell__is_pair(times) || im->scan != CELL__NONE || im->feeds_back) {
            return cell__refuse(im, "a range that depends on the request, and no steps of a "
                                    "recurrent node");
        }
        sequences[i] = cell__only_sequence(times);
        BASE_TRY(number_of(im, sequences[i], &numbers[i]));
    }
    BASE_TRY(read_pairs(im, node, &pairs));
    uint32_t *most = &im->sequences[sequences[0]].steps_max;
    *most = *most == 0 || pairs.steps < *most ? pairs.steps : *most;
    BASE_TRY(lower_values(im, &pairs, numbers, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- What stands for both ------------------------------------------------------------------- */

static const struct cell__operator pairs_of = {"Slice", 3, 5, 1, " ", infer_pairs, lower_pairs, ""};

enum base_status cell__replace_pairs(struct cell__import *im, struct cell__node *node)
{
    struct cut cut;
    if (node->op == NULL || strcmp(node->op->name, "Slice") != 0 || im->opset < 10 ||
        !read_cut(im, node, &cut)) {
        return BASE_OK;
    }
    const int64_t two = 2;
    struct cell__tensor tensor = {.dtype = CELL__I64};
    void *data = NULL;
    struct cell__sym *none = NULL;
    BASE_TRY(cell__tensor_shape(im, &tensor, 1, &two));
    BASE_TRY(cell__tensor_alloc(im, &tensor, false, &data, &none));
    memcpy(data, cut.axes, sizeof(cut.axes));
    node->op = &pairs_of;
    node->inputs[IN_TABLE] = cut.table;
    node->n_inputs = 3;
    return cell__value_constant(im, "", &tensor, &node->inputs[IN_AXES]);
}
