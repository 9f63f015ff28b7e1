/* Each kind's operands, weights and results against each other. Pure functions over the caller's
 * data; the cost is one look at every weight (is it finite?). */
#include "cells/op_check.h"

#include "base/checked.h"
#include "cells/bf16.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* What a check looks at: op `index` of the definition. */
struct look {
    const struct cell_def *def;
    const struct cell_op *op;
    uint32_t index;
    struct base_error *error;
};

/* `return bad(look, "...")`: INVALID_ARGUMENT with the op's number and kind. */
static enum base_status bad(const struct look *look, const char *what)
{
    return base_fail(look->error, BASE_INVALID_ARGUMENT, "op %u (%s): %s", look->index,
                     cell_op_name(look->op->kind), what);
}

static struct cell_value operand(const struct look *look, uint32_t i)
{
    return look->def->values[look->op->operands[i]];
}

static struct cell_value result(const struct look *look, uint32_t i)
{
    return look->def->values[look->op->result + i];
}

static bool is_same(struct cell_value a, struct cell_value b)
{
    return a.dtype == b.dtype && a.width == b.width;
}

static bool is_f32(struct cell_value value, uint32_t width)
{
    return value.dtype == CELL_F32 && value.width == width;
}

static bool is_weight_f32(const struct cell_weight *weight, uint64_t rows, uint64_t cols)
{
    return weight->dtype == CELL_F32 && weight->rows == rows && weight->cols == cols;
}

/* Weights, from the first on, that are held in the op's precision. */
static uint32_t matrices_of(const struct cell_op *op)
{
    return op->kind == CELL_OP_LINEAR ? 1 : cell_op_matrices(op);
}

/* Whether the op is a constant that SELECT chooses and nothing else reads: what masks put in, which
 * may be infinite. */
static bool is_chosen_only(const struct cell_def *def, const struct cell_op *op)
{
    bool is = op->kind == CELL_OP_CONST;
    for (uint32_t o = 0; o < def->n_ops && is; o++) {
        const struct cell_op *reader = &def->ops[o];
        for (uint32_t i = 0; i < reader->n_operands && i < CELL_OPERANDS_MAX; i++) {
            const bool is_choice = reader->kind == CELL_OP_SELECT && i > 0;
            is = is && (reader->operands[i] != op->result || is_choice);
        }
    }
    for (uint32_t i = 0; i < def->n_states; i++) {
        is = is && def->state_next[i] != op->result;
    }
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        is = is && def->outputs[i] != op->result;
    }
    return is;
}

const float *cell__op_bad_element(const struct cell_def *def, const struct cell_op *op, uint32_t w)
{
    const bool may_be_infinite = is_chosen_only(def, op);
    const struct cell_weight *weight = &op->weights[w];
    size_t elements = 0;
    if (weight->dtype != CELL_F32 || weight->data == NULL ||
        !base_size_mul(weight->rows, weight->cols, &elements)) {
        return NULL;
    }
    const bool is_bf16 = op->precision == CELL_BF16 && w < matrices_of(op);
    const float *data = weight->data;
    for (size_t i = 0; i < elements; i++) {
        if ((!isfinite(data[i]) && !(may_be_infinite && isinf(data[i]))) ||
            (is_bf16 && !isfinite(cell_bf16_widen(cell_bf16_factor(data[i]))))) {
            return &data[i];
        }
    }
    return NULL;
}

/* `return bad_element(look, w, element)`: where it stands, and what it is. */
static enum base_status bad_element(const struct look *look, uint32_t w, const float *element)
{
    const struct cell_weight *weight = &look->op->weights[w];
    const size_t at = (size_t)(element - (const float *)weight->data);
    return base_fail(look->error, BASE_INVALID_ARGUMENT,
                     "op %u (%s): %s: %g in row %zu, column %zu of weight %u, %u x %u", look->index,
                     cell_op_name(look->op->kind),
                     isfinite(*element) ? "bf16 weights: a weight is too large for bf16"
                                        : "a weight is not finite",
                     (double)*element, at / weight->cols, at % weight->cols, w, weight->rows,
                     weight->cols);
}

static enum base_status check_weights(const struct look *look)
{
    for (uint32_t w = 0; w < look->op->n_weights; w++) {
        const struct cell_weight *weight = &look->op->weights[w];
        size_t elements = 0;
        size_t bytes = 0;
        if ((uint32_t)weight->dtype > CELL_I32) {
            return bad(look, "a weight has an unknown dtype");
        }
        if (weight->data == NULL || weight->rows == 0 || weight->cols == 0) {
            return base_fail(look->error, BASE_INVALID_ARGUMENT,
                             "op %u (%s): weight %u is empty: %u x %u", look->index,
                             cell_op_name(look->op->kind), w, weight->rows, weight->cols);
        }
        if (weight->cols > CELL_WIDTH_MAX ||
            !base_size_mul(weight->rows, weight->cols, &elements) ||
            !base_size_mul(elements, cell_dtype_bytes(weight->dtype), &bytes) ||
            bytes > PTRDIFF_MAX) {
            return base_fail(look->error, BASE_INVALID_ARGUMENT,
                             "op %u (%s): weight %u is too large: %u x %u; at most %u columns",
                             look->index, cell_op_name(look->op->kind), w, weight->rows,
                             weight->cols, CELL_WIDTH_MAX);
        }
        const float *element = cell__op_bad_element(look->def, look->op, w);
        if (element != NULL) {
            return bad_element(look, w, element);
        }
    }
    return BASE_OK;
}

/* GATHER, LINEAR, LSTM, CONST: the weights' shapes against the rows'. */
static enum base_status check_gather(const struct look *look)
{
    const struct cell_weight *table = &look->op->weights[0];
    const uint32_t ids = cell_op_patches(look->op);
    struct cell_value id = operand(look, 0);
    if (id.dtype == CELL_F32 || id.width != ids) {
        return bad(look, ids == 1 ? "the id is not one integer" : "the ids are not its patches");
    }
    if (table->dtype != result(look, 0).dtype ||
        (uint64_t)table->cols * ids != result(look, 0).width) {
        return bad(look, "the result is not a row of the table for each id");
    }
    return BASE_OK;
}

/* Whether the matrices can be held as the op asks. */
static enum base_status check_precision(const struct look *look)
{
    const struct cell_op *op = look->op;
    if ((uint32_t)op->precision >= CELL_PRECISION_COUNT) {
        return bad(look, "unknown precision of the weights");
    }
    for (uint32_t w = 0; w < matrices_of(op) && op->precision == CELL_INT8; w++) {
        const struct cell_weight *weight = &op->weights[w];
        const uint32_t terms = op->kind == CELL_OP_LINEAR ? weight->rows : weight->cols;
        if (terms > CELL_INT8_TERMS_MAX) {
            return base_fail(look->error, BASE_INVALID_ARGUMENT,
                             "op %u (%s): int8 weights: %u terms of up to 127 * 127 may overflow "
                             "an int32 sum; at most %u",
                             look->index, cell_op_name(op->kind), terms, CELL_INT8_TERMS_MAX);
        }
    }
    return BASE_OK;
}

static bool is_picture_number(uint32_t number, uint32_t least)
{
    return number >= least && number < CELL_PICTURE_MAX;
}

/* Whether the picture's numbers are within their bounds, and the operand is as many places. */
static bool is_picture(const struct look *look)
{
    const struct cell_picture *picture = &look->op->picture;
    bool fits = true;
    for (uint32_t i = 0; i < 2; i++) {
        fits = fits && is_picture_number(picture->size[i], 1) &&
               is_picture_number(picture->taps[i], 1) &&
               is_picture_number(picture->dilations[i], 1) &&
               is_picture_number(picture->strides[i], 1) &&
               is_picture_number(picture->before[i], 0) && is_picture_number(picture->left[i], 1);
    }
    const uint64_t places = (uint64_t)picture->size[0] * picture->size[1];
    const uint64_t left = (uint64_t)picture->left[0] * picture->left[1];
    return fits && operand(look, 0).width % places == 0 && left <= CELL_WIDTH_MAX &&
           (uint64_t)picture->taps[0] * picture->taps[1] <= CELL_WIDTH_MAX;
}

static uint32_t channels_of(const struct look *look)
{
    const struct cell_picture *picture = &look->op->picture;
    return operand(look, 0).width / (picture->size[0] * picture->size[1]);
}

/* Of a LINEAR the places are its patches, and the terms of W what each reads. */
static bool does_picture_fit(const struct look *look)
{
    const struct cell_op *op = look->op;
    return is_picture(look) && op->step == 0 && cell_op_places(op) == op->patches &&
           (uint64_t)op->picture.taps[0] * op->picture.taps[1] * channels_of(look) ==
               op->weights[0].rows;
}

static enum base_status check_filter(const struct look *look)
{
    const struct cell_op *op = look->op;
    const bool is_sum = op->variant == CELL_FILTER_SUM;
    const uint32_t in = operand(look, 0).width;
    const uint32_t out = result(look, 0).width;
    if (op->variant > CELL_FILTER_LARGEST) {
        return bad(look, "unknown variant");
    }
    if (!is_f32(operand(look, 0), in) || !is_f32(result(look, 0), out) || !is_picture(look) ||
        (uint64_t)cell_op_places(op) * channels_of(look) != out) {
        return bad(look, "a picture that does not fit its row or result");
    }
    const uint32_t taps = op->picture.taps[0] * op->picture.taps[1]; // of a picture, see there
    if (taps > CELL_FILTER_TAPS_MAX) {
        return bad(look, "too many taps");
    }
    if (is_sum != (op->n_weights > 0)) {
        return bad(look, "weights, but of a sum");
    }
    if (is_sum && !is_weight_f32(&op->weights[0], taps, channels_of(look))) {
        return bad(look, "W is not f32 [taps, channels]");
    }
    return op->n_weights > 1 && !is_weight_f32(&op->weights[1], 1, channels_of(look))
               ? bad(look, "b is not f32 [1, channels]")
               : BASE_OK;
}

/* The last patch's elements must be x's too. */
static enum base_status check_patches(const struct look *look)
{
    const struct cell_op *op = look->op;
    if (cell_op_has_picture(op)) {
        return does_picture_fit(look) && result(look, 0).width % op->patches == 0
                   ? BASE_OK
                   : bad(look, "a picture that does not fit its row, W or result");
    }
    const uint64_t last = (uint64_t)(op->patches - 1) * op->step;
    if (op->step == 0 || result(look, 0).width % op->patches != 0 ||
        last + op->weights[0].rows > operand(look, 0).width) {
        return base_fail(look->error, BASE_INVALID_ARGUMENT,
                         "op %u (LINEAR): %u patches, each %u elements behind the other, of %u, do "
                         "not fit a row of %u and a result of %u",
                         look->index, op->patches, op->step, op->weights[0].rows,
                         operand(look, 0).width, result(look, 0).width);
    }
    return BASE_OK;
}

static enum base_status check_linear(const struct look *look)
{
    const struct cell_op *op = look->op;
    uint32_t in = operand(look, 0).width;
    uint32_t out = result(look, 0).width;
    if (!is_f32(operand(look, 0), in) || !is_f32(result(look, 0), out)) {
        return bad(look, "operand and result must be f32");
    }
    if (op->patches > 0) {
        BASE_TRY(check_patches(look));
        in = op->weights[0].rows;
        out /= op->patches;
    }
    if (!is_weight_f32(&op->weights[0], in, out)) {
        return bad(look, "W is not f32 [in, out]");
    }
    if (op->n_weights > 1 && !is_weight_f32(&op->weights[1], 1, out)) {
        return bad(look, "b is not f32 [1, out]");
    }
    return check_precision(look);
}

/* The widths of one patch of an LSTM, GRU or RNN, of x as a whole where it has none. */
struct unit {
    uint32_t in, feedback, hidden;
};

/* All patches' rows must divide by them; in turn each reads the h that another has left. */
static enum base_status find_unit(const struct look *look, struct unit *unit)
{
    const struct cell_op *op = look->op;
    const uint32_t patches = cell_op_patches(op);
    const uint32_t x = operand(look, 0).width;
    const uint32_t h = operand(look, 1).width;
    const uint32_t out = result(look, 0).width;
    const bool is_apart = op->patches == 0 || op->order == CELL_PATCHES_APART;
    if (op->patches > 0 && op->order > CELL_PATCHES_BACKWARD) {
        return bad(look, "unknown order of patches");
    }
    if (x % patches != 0 || out % patches != 0 || (is_apart && h % patches != 0) ||
        (!is_apart && h != out / patches)) {
        return base_fail(look->error, BASE_INVALID_ARGUMENT,
                         "op %u (%s): %u patches%s do not fit rows of %u, an h of %u and a result "
                         "of %u",
                         look->index, cell_op_name(op->kind), op->patches,
                         is_apart ? "" : " in turn", x, h, out);
    }
    *unit = (struct unit){x / patches, is_apart ? h / patches : h, out / patches};
    return BASE_OK;
}

/* W [gates * H, in], R [gates * H, feedback], B [1, 2 * gates * H] of LSTM, GRU and RNN. */
static enum base_status check_gates(const struct look *look, const struct unit *unit)
{
    const struct cell_op *op = look->op;
    uint64_t gates = cell_op_gates(op->kind);
    uint64_t hidden = unit->hidden;
    if (operand(look, 0).dtype != CELL_F32) {
        return bad(look, "x must be f32");
    }
    if (operand(look, 1).dtype != CELL_F32 || result(look, 0).dtype != CELL_F32) {
        return bad(look, "h and the result must be f32 of one width");
    }
    if (!is_weight_f32(&op->weights[0], gates * hidden, unit->in)) {
        return bad(look, "W is not f32 [gates * H, in]");
    }
    if (!is_weight_f32(&op->weights[1], gates * hidden, unit->feedback)) {
        return bad(look, "R is not f32 [gates * H, width of h]");
    }
    if (op->n_weights > 2 && !is_weight_f32(&op->weights[2], 1, 2 * gates * hidden)) {
        return bad(look, "B is not f32 [1, 2 * gates * H]");
    }
    return check_precision(look);
}

static enum base_status check_lstm(const struct look *look)
{
    const struct cell_op *op = look->op;
    struct unit unit = {0};
    BASE_TRY(find_unit(look, &unit));
    BASE_TRY(check_gates(look, &unit));
    const bool is_apart = op->patches == 0 || op->order == CELL_PATCHES_APART;
    const uint32_t width = result(look, 0).width;
    if (!is_f32(operand(look, 2), is_apart ? width : unit.hidden) ||
        !is_f32(result(look, 1), width)) {
        return bad(look, "c and the results must be f32 of one width");
    }
    if (op->n_weights > 3 && !is_weight_f32(&op->weights[3], 1, 3 * (uint64_t)unit.hidden)) {
        return bad(look, "P is not f32 [1, 3H]");
    }
    return BASE_OK;
}

static enum base_status check_gru_or_rnn(const struct look *look)
{
    const struct cell_op *op = look->op;
    struct unit unit = {0};
    if (op->variant > 1) {
        return bad(look, "unknown variant");
    }
    BASE_TRY(find_unit(look, &unit));
    if (unit.feedback != unit.hidden) {
        return bad(look, "h and the result must be f32 of one width");
    }
    if (op->kind == CELL_OP_GRU && op->variant == CELL_GRU_RESET_BEFORE && op->patches > 0 &&
        op->order != CELL_PATCHES_APART) {
        return bad(look, "patches in turn of a GRU that resets before the product");
    }
    return check_gates(look, &unit);
}

/* Weight w must be f32 [rows, cols]; name: of the weight. */
static enum base_status check_tree_weight(const struct look *look, uint32_t w, const char *name,
                                          uint64_t rows, uint64_t cols)
{
    const struct cell_weight *weight = &look->op->weights[w];
    if (is_weight_f32(weight, rows, cols)) {
        return BASE_OK;
    }
    return base_fail(look->error, BASE_INVALID_ARGUMENT,
                     "op %u (%s): %s is [%u, %u], not f32 [%llu, %llu]", look->index,
                     cell_op_name(look->op->kind), name, weight->rows, weight->cols,
                     (unsigned long long)rows, (unsigned long long)cols);
}

static enum base_status check_tree_weights(const struct look *look)
{
    const struct cell_op *op = look->op;
    const uint32_t matrices = cell_op_matrices(op);
    const uint64_t hidden = result(look, 0).width;
    const uint64_t rows = cell_op_gates(op->kind) * hidden;
    const uint32_t of_x = cell_op_has_x(op) ? 1 : 0;
    if (op->n_weights != matrices && op->n_weights != matrices + 1) {
        return base_fail(look->error, BASE_INVALID_ARGUMENT,
                         "op %u (%s): %u weights, but %u matrices and an optional B", look->index,
                         cell_op_name(op->kind), op->n_weights, matrices);
    }
    if (of_x == 1) {
        BASE_TRY(check_tree_weight(look, 0, "W", rows, operand(look, 0).width));
    }
    for (uint32_t w = of_x; w < matrices; w++) {
        const char *name = op->kind == CELL_OP_TREE_SUM ? "U" : w == of_x ? "L" : "R";
        BASE_TRY(check_tree_weight(look, w, name, rows, hidden));
    }
    return op->n_weights == matrices ? BASE_OK : check_tree_weight(look, matrices, "B", 1, rows);
}

static enum base_status check_tree(const struct look *look)
{
    const struct cell_op *op = look->op;
    const uint32_t hidden = result(look, 0).width;
    const uint32_t of_x = cell_op_has_x(op) ? 1 : 0;
    if (!is_f32(result(look, 0), hidden) || !is_f32(result(look, 1), hidden)) {
        return bad(look, "the results must be f32 of one width");
    }
    if (of_x == 1 && operand(look, 0).dtype != CELL_F32) {
        return bad(look, "x must be f32");
    }
    for (uint32_t k = 0; k < cell_op_children(op); k++) {
        struct cell_value h = operand(look, of_x + 2 * k);
        struct cell_value c = operand(look, of_x + 2 * k + 1);
        if (!is_f32(h, hidden) || !is_f32(c, hidden)) {
            return base_fail(look->error, BASE_INVALID_ARGUMENT,
                             "op %u (%s): child %u: h and c are %u and %u wide, not f32 of %u",
                             look->index, cell_op_name(op->kind), k, h.width, c.width, hidden);
        }
    }
    BASE_TRY(check_tree_weights(look));
    return check_precision(look);
}

static enum base_status check_const(const struct look *look)
{
    const struct cell_weight *weight = &look->op->weights[0];
    struct cell_value value = result(look, 0);
    if (weight->dtype != value.dtype || weight->rows != 1 || weight->cols != value.width) {
        return bad(look, "the weight is not [1, width] of the result's dtype");
    }
    return BASE_OK;
}

static enum base_status check_arithmetic(const struct look *look)
{
    uint32_t width = result(look, 0).width;
    uint32_t widest = 1;
    for (uint32_t i = 0; i < look->op->n_operands; i++) {
        struct cell_value value = operand(look, i);
        if (value.dtype != CELL_F32 || (value.width != width && value.width != 1)) {
            return bad(look, "an operand is not f32 of the result's width or of width 1");
        }
        widest = value.width > widest ? value.width : widest;
    }
    if (!is_f32(result(look, 0), widest)) {
        return bad(look, "the result is not f32 as wide as the widest operand");
    }
    return BASE_OK;
}

static enum base_status check_function(const struct look *look)
{
    if (operand(look, 0).dtype != CELL_F32 || !is_same(operand(look, 0), result(look, 0))) {
        return bad(look, "operand and result must be f32 of one width");
    }
    uint32_t group = look->op->group;
    if (cell_op_has_groups(look->op->kind) && (group == 0 || result(look, 0).width % group != 0)) {
        return bad(look, "the group does not divide the width");
    }
    return BASE_OK;
}

/* Of ATTEND: what is added by how far apart steps are. */
static enum base_status check_relative(const struct look *look)
{
    const struct cell_op *op = look->op;
    const struct cell_weight *table = &op->weights[1];
    if ((op->n_operands > 4) != (op->n_weights > 1)) {
        return bad(look, "relative positions without a table, or a table without these");
    }
    if (op->n_operands > 4 &&
        (op->variant != CELL_ATTEND_PRODUCT || !is_weight_f32(table, table->rows, table->cols) ||
         !is_f32(operand(look, 4), table->cols))) {
        return bad(look, "relative positions are not as many floats as their table is wide, or are "
                         "those of another score than a product");
    }
    return BASE_OK;
}

static enum base_status check_attend(const struct look *look)
{
    const uint32_t width = operand(look, 0).width;
    const uint32_t *operands = look->op->operands;
    if (operands[1] >= look->def->n_inputs || operands[2] >= look->def->n_inputs) {
        return bad(look, "K and V are not inputs");
    }
    const bool is_largest = look->op->variant == CELL_ATTEND_LARGEST;
    const uint32_t out = is_largest ? width : result(look, 0).width;
    if (!is_f32(operand(look, 0), width) || !is_f32(operand(look, 1), width) ||
        !is_f32(operand(look, 2), out) || result(look, 0).dtype != CELL_F32 ||
        !is_weight_f32(&look->op->weights[0], 1, width) ||
        look->op->variant > CELL_ATTEND_LARGEST) {
        return bad(look, "q, K and v, or V and the result, differ in width, or one is not f32");
    }
    if (is_largest && (operands[2] != operands[1] || result(look, 0).width != 1)) {
        return bad(look, "the largest score is not one element, or V is not K");
    }
    if (is_largest && look->op->nan_is_zero) {
        return bad(look, "zeros in place of a largest score that is no number");
    }
    const uint32_t bounds = look->op->n_operands > 4 ? 3 : 2;
    if (look->op->n_operands > 3 && (is_largest || !is_f32(operand(look, 3), bounds))) {
        return bad(look, "the rows' bounds are not two floats, three beside relative positions, or "
                         "are those of a largest score");
    }
    return check_relative(look);
}

static enum base_status check_reduce(const struct look *look)
{
    const struct cell_op *op = look->op;
    if (op->operands[0] >= look->def->n_inputs) {
        return bad(look, "K is not an input");
    }
    const uint32_t width = op->variant == CELL_REDUCE_COUNT ? 1 : operand(look, 0).width;
    if (!is_f32(operand(look, 0), operand(look, 0).width) || !is_f32(result(look, 0), width)) {
        return bad(look, "K or the result is not f32, or the result not as wide as the variant's");
    }
    return op->variant <= CELL_REDUCE_COUNT ? BASE_OK : bad(look, "unknown variant");
}

static enum base_status check_pick(const struct look *look)
{
    if (look->op->operands[0] >= look->def->n_inputs) {
        return bad(look, "K is not an input");
    }
    return is_f32(operand(look, 0), result(look, 0).width) &&
                   is_same(operand(look, 0), result(look, 0)) && is_f32(operand(look, 1), 1)
               ? BASE_OK
               : bad(look, "K or the number is not f32, or the result not as wide as K");
}

static enum base_status check_sum(const struct look *look)
{
    const uint32_t width = operand(look, 0).width;
    const uint32_t group = look->op->group > 0 ? look->op->group : width;
    if (width % group != 0) {
        return bad(look, "the group does not divide the width");
    }
    return is_f32(operand(look, 0), width) && is_f32(result(look, 0), width / group)
               ? BASE_OK
               : bad(look, "operand and result must be f32, the result of one element a group");
}

static enum base_status check_top(const struct look *look)
{
    if (!is_f32(operand(look, 0), operand(look, 0).width) || result(look, 0).dtype != CELL_I64 ||
        result(look, 0).width > operand(look, 0).width) {
        return bad(look, "the operand is not f32, or the result not i64 and at most as wide");
    }
    return look->op->variant <= CELL_TOP_SMALLEST ? BASE_OK : bad(look, "unknown variant");
}

/* The numbers are believed when the op is run, so they must be those of elements of x. */
/* Of a TAKE: constant numbers, each of an element that there is. */
static bool are_within(const struct cell_op *numbers, uint32_t width)
{
    const struct cell_weight *weight = &numbers->weights[0];
    bool are = numbers->kind == CELL_OP_CONST && weight->dtype == CELL_I64;
    for (uint32_t i = 0; i < weight->cols && are; i++) {
        const int64_t number = ((const int64_t *)weight->data)[i];
        are = number >= 0 && number < (int64_t)width;
    }
    return are;
}

static enum base_status check_take(const struct look *look)
{
    const struct cell_op *numbers = NULL;
    for (uint32_t o = 0; o < look->index; o++) {
        const struct cell_op *op = &look->def->ops[o];
        numbers = op->result == look->op->operands[1] ? op : numbers;
    }
    const bool is_top = numbers != NULL && numbers->kind == CELL_OP_TOP &&
                        numbers->operands[0] == look->op->operands[0];
    if (numbers == NULL || (!is_top && !are_within(numbers, operand(look, 0).width))) {
        return bad(look, "the numbers are not the result of a TOP of the row that they are of, nor "
                         "constants below its width");
    }
    return is_f32(operand(look, 0), operand(look, 0).width) &&
                   is_f32(result(look, 0), operand(look, 1).width)
               ? BASE_OK
               : bad(look, "row and result are not f32, the result of one element a number");
}

static enum base_status check_concat(const struct look *look)
{
    uint64_t width = 0;
    for (uint32_t i = 0; i < look->op->n_operands; i++) {
        if (operand(look, i).dtype != result(look, 0).dtype) {
            return bad(look, "operands and result differ in dtype");
        }
        width += operand(look, i).width;
    }
    if (width != result(look, 0).width) {
        return bad(look, "the result is not as wide as the operands together");
    }
    return BASE_OK;
}

static enum base_status check_slice(const struct look *look)
{
    struct cell_value from = operand(look, 0);
    struct cell_value to = result(look, 0);
    if (from.dtype != to.dtype || (uint64_t)look->op->start + to.width > from.width) {
        return bad(look, "the slice is not inside its operand");
    }
    return BASE_OK;
}

static enum base_status check_transpose(const struct look *look)
{
    const uint32_t *dims = look->op->dims;
    const uint32_t width = operand(look, 0).width;
    uint64_t product = 1;
    for (uint32_t i = 0; i < 3 && product <= width; i++) {
        product = dims[i] == 0 ? UINT64_MAX : product * dims[i];
    }
    if (product > width || width % product != 0) {
        return base_fail(look->error, BASE_INVALID_ARGUMENT,
                         "op %u (TRANSPOSE): [%u, %u, %u, ..] is not a row of %u", look->index,
                         dims[0], dims[1], dims[2], width);
    }
    return is_same(operand(look, 0), result(look, 0))
               ? BASE_OK
               : bad(look, "operand and result differ in dtype or width");
}

static enum base_status check_spread(const struct look *look)
{
    const uint32_t *dims = look->op->dims;
    const struct cell_value from = operand(look, 0);
    const struct cell_value to = result(look, 0);
    const uint64_t parts = (uint64_t)dims[0] * dims[2];
    const bool fits =
        parts == from.width && dims[1] > 0 && (uint64_t)from.width * dims[1] == to.width;
    if (!fits || from.dtype != to.dtype) {
        return base_fail(look->error, BASE_INVALID_ARGUMENT,
                         "op %u (SPREAD): [%u, %u] of a row of %u %u times is not a row of %u, or "
                         "of another dtype",
                         look->index, dims[0], dims[2], from.width, dims[1], to.width);
    }
    return BASE_OK;
}

static enum base_status check_argmax(const struct look *look)
{
    return operand(look, 0).dtype == CELL_F32 && result(look, 0).dtype != CELL_F32 &&
                   result(look, 0).width == 1
               ? BASE_OK
               : bad(look, "the operand is not of floats, or the result not one integer");
}

static enum base_status check_copy(const struct look *look)
{
    return is_same(operand(look, 0), result(look, 0))
               ? BASE_OK
               : bad(look, "operand and result differ in dtype or width");
}

static enum base_status check_cast(const struct look *look)
{
    return operand(look, 0).width == result(look, 0).width
               ? BASE_OK
               : bad(look, "operand and result differ in width");
}

static enum base_status check_shapes(const struct look *look)
{
    static enum base_status (*const checks[CELL_OP_COUNT])(const struct look *look) = {
        [CELL_OP_GATHER] = check_gather,
        [CELL_OP_LINEAR] = check_linear,
        [CELL_OP_ADD] = check_arithmetic,
        [CELL_OP_SUB] = check_arithmetic,
        [CELL_OP_MUL] = check_arithmetic,
        [CELL_OP_DIV] = check_arithmetic,
        [CELL_OP_POW] = check_arithmetic,
        [CELL_OP_MIN] = check_arithmetic,
        [CELL_OP_MAX] = check_arithmetic,
        [CELL_OP_LESS] = check_arithmetic,
        [CELL_OP_LESS_EQUAL] = check_arithmetic,
        [CELL_OP_SELECT] = check_arithmetic,
        [CELL_OP_SIGMOID] = check_function,
        [CELL_OP_TANH] = check_function,
        [CELL_OP_RELU] = check_function,
        [CELL_OP_EXP] = check_function,
        [CELL_OP_LOG] = check_function,
        [CELL_OP_SIN] = check_function,
        [CELL_OP_COS] = check_function,
        [CELL_OP_ATAN] = check_function,
        [CELL_OP_ABS] = check_function,
        [CELL_OP_FLOOR] = check_function,
        [CELL_OP_ROUND] = check_function,
        [CELL_OP_SQRT] = check_function,
        [CELL_OP_SOFTMAX] = check_function,
        [CELL_OP_LOG_SOFTMAX] = check_function,
        [CELL_OP_SUM] = check_sum,
        [CELL_OP_MEAN] = check_sum,
        [CELL_OP_ARGMAX] = check_argmax,
        [CELL_OP_TOP] = check_top,
        [CELL_OP_TAKE] = check_take,
        [CELL_OP_ATTEND] = check_attend,
        [CELL_OP_REDUCE] = check_reduce,
        [CELL_OP_PICK] = check_pick,
        [CELL_OP_FILTER] = check_filter,
        [CELL_OP_CONCAT] = check_concat,
        [CELL_OP_SLICE] = check_slice,
        [CELL_OP_COPY] = check_copy,
        [CELL_OP_TRANSPOSE] = check_transpose,
        [CELL_OP_SPREAD] = check_spread,
        [CELL_OP_CAST] = check_cast,
        [CELL_OP_CONST] = check_const,
        [CELL_OP_LSTM] = check_lstm,
        [CELL_OP_GRU] = check_gru_or_rnn,
        [CELL_OP_RNN] = check_gru_or_rnn,
        [CELL_OP_TREE_LEAF] = check_tree,
        [CELL_OP_TREE_BINARY] = check_tree,
        [CELL_OP_TREE_SUM] = check_tree,
    };
    const uint32_t kind = (uint32_t)look->op->kind;
    return kind < CELL_OP_COUNT && checks[kind] != NULL ? checks[kind](look)
                                                        : bad(look, "unknown op");
}

/* The fewest operands of an op that takes up to `most`. */
static uint32_t fewest_operands(enum cell_op_kind kind, uint32_t most)
{
    return kind == CELL_OP_CONCAT        ? 1
           : kind == CELL_OP_TREE_SUM    ? 2 // one child, no x
           : kind == CELL_OP_ATTEND      ? most - 2
           : kind == CELL_OP_TREE_BINARY ? most - 1
                                         : most;
}

enum base_status cell__op_check(const struct cell_def *def, uint32_t index, uint32_t next,
                                struct base_error *error)
{
    static const uint8_t operands[] = {
#define CELL_OP_OPERANDS(name, operands, weights, optional) operands,
        CELL_OP_MAP(CELL_OP_OPERANDS)
#undef CELL_OP_OPERANDS
    };
    static const uint8_t weights[] = {
#define CELL_OP_WEIGHTS(name, operands, weights, optional) weights,
        CELL_OP_MAP(CELL_OP_WEIGHTS)
#undef CELL_OP_WEIGHTS
    };
    static const uint8_t optional[] = {
#define CELL_OP_OPTIONAL(name, operands, weights, optional) optional,
        CELL_OP_MAP(CELL_OP_OPTIONAL)
#undef CELL_OP_OPTIONAL
    };
    const struct cell_op *op = &def->ops[index];
    const struct look here = {def, op, index, error};
    const struct look *look = &here;
    if ((uint32_t)op->kind >= CELL_OP_COUNT) {
        return bad(look, "unknown op");
    }
    uint32_t most = operands[op->kind];
    uint32_t fewest = fewest_operands(op->kind, most);
    if (op->n_operands > most || op->n_operands < fewest) {
        return base_fail(look->error, BASE_INVALID_ARGUMENT,
                         "op %u (%s): wrong number of operands: %u, not %u..%u", look->index,
                         cell_op_name(op->kind), op->n_operands, fewest, most);
    }
    if (op->n_weights > weights[op->kind] ||
        op->n_weights + optional[op->kind] < weights[op->kind]) {
        return bad(look, "wrong number of weights");
    }
    if (op->result != next) {
        return bad(look, "the result does not have the next value number");
    }
    for (uint32_t i = 0; i < op->n_operands; i++) {
        if (op->operands[i] >= op->result) {
            return bad(look, "an operand is not an earlier value");
        }
    }
    BASE_TRY(check_weights(look));
    return check_shapes(look);
}
