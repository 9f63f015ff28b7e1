/* One step of an LSTM, GRU or RNN inside the body of a Loop or Scan, as exporters write
 * torch.nn.LSTMCell: the equations of cells/def.h in small operators. recognise.c makes the one op
 * of them again, where nothing else of the body stands between. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* What a step is made of while it is written out. */
struct step {
    struct cell__import *im;
    const struct cell__recurrent *recurrent;
    enum base_status status; /* the first error; what comes behind it does nothing */
};

static uint32_t emit(struct step *step, const struct cell_op *op, uint32_t width)
{
    uint32_t row = CELL__NONE;
    if (step->status == BASE_OK) {
        step->status = cell__row_op(step->im, op, (struct cell_value){CELL_F32, width}, &row);
    }
    return row;
}

/* Both as wide as a state. */
static uint32_t pair(struct step *step, enum cell_op_kind kind, uint32_t a, uint32_t b)
{
    struct cell_op op = {.kind = kind, .n_operands = 2, .operands = {a, b}};
    return emit(step, &op, step->recurrent->hidden);
}

static uint32_t apply(struct step *step, enum cell_op_kind kind, uint32_t a)
{
    struct cell_op op = {.kind = kind, .n_operands = 1, .operands = {a}};
    return emit(step, &op, step->recurrent->hidden);
}

static uint32_t gate_of(struct step *step, uint32_t sums, uint32_t gate)
{
    uint32_t row = CELL__NONE;
    uint32_t hidden = step->recurrent->hidden;
    if (step->status == BASE_OK) {
        step->status = cell__row_slice(step->im, sums, gate * hidden, hidden, &row);
    }
    return row;
}

/* x times rows first.. of weights [rows, in]', plus the part of B that is theirs. */
static uint32_t product(struct step *step, uint32_t x, uint32_t half, uint32_t first, uint32_t rows)
{
    const struct cell_op *op = &step->recurrent->op;
    const struct cell_weight *weight = &op->weights[half];
    const float *from = weight->data;
    struct cell_op linear = {
        .kind = CELL_OP_LINEAR, .n_operands = 1, .operands = {x}, .n_weights = 1};
    float *turned = base_arena_array(step->im->arena, (size_t)rows * weight->cols, sizeof(float));
    if (turned == NULL) {
        step->status = cell__no_memory(step->im);
        return CELL__NONE;
    }
    for (uint32_t k = 0; k < weight->cols; k++) {
        for (uint32_t r = 0; r < rows; r++) {
            turned[(size_t)k * rows + r] = from[(size_t)(first + r) * weight->cols + k];
        }
    }
    linear.weights[0] = (struct cell_weight){CELL_F32, weight->cols, rows, turned};
    if (op->n_weights > 2) {
        const float *bias = op->weights[2].data;
        linear.weights[linear.n_weights++] =
            (struct cell_weight){CELL_F32, 1, rows, bias + (size_t)half * weight->rows + first};
    }
    return emit(step, &linear, rows);
}

/* gate + P c, where there is a P; its order is i, o, f. */
static uint32_t peep(struct step *step, uint32_t gate, uint32_t number, uint32_t c)
{
    const struct cell_op *op = &step->recurrent->op;
    uint32_t hidden = step->recurrent->hidden;
    uint32_t row = CELL__NONE;
    if (op->n_weights < 4 || step->status != BASE_OK) {
        return gate;
    }
    const float *p = op->weights[3].data;
    step->status = cell__row_const(step->im, (struct cell_value){CELL_F32, hidden},
                                   p + (size_t)number * hidden, &row);
    return pair(step, CELL_OP_ADD, gate, pair(step, CELL_OP_MUL, row, c));
}

static void lstm(struct step *step, uint32_t x, uint32_t h, uint32_t c, uint32_t out[2])
{
    uint32_t hidden = step->recurrent->hidden;
    struct cell_op add = {.kind = CELL_OP_ADD, .n_operands = 2};
    add.operands[0] = product(step, x, 0, 0, 4 * hidden);
    add.operands[1] = product(step, h, 1, 0, 4 * hidden);
    uint32_t sums = emit(step, &add, 4 * hidden);
    uint32_t i = apply(step, CELL_OP_SIGMOID, peep(step, gate_of(step, sums, 0), 0, c));
    uint32_t f = apply(step, CELL_OP_SIGMOID, peep(step, gate_of(step, sums, 2), 2, c));
    uint32_t g = apply(step, CELL_OP_TANH, gate_of(step, sums, 3));
    out[1] = pair(step, CELL_OP_ADD, pair(step, CELL_OP_MUL, f, c), pair(step, CELL_OP_MUL, i, g));
    uint32_t o = apply(step, CELL_OP_SIGMOID, peep(step, gate_of(step, sums, 1), 1, out[1]));
    out[0] = pair(step, CELL_OP_MUL, o, apply(step, CELL_OP_TANH, out[1]));
}

static uint32_t gru(struct step *step, uint32_t x, uint32_t h)
{
    uint32_t hidden = step->recurrent->hidden;
    bool is_after = step->recurrent->op.variant == CELL_GRU_RESET_AFTER;
    uint32_t gates[2];
    uint32_t over_x = product(step, x, 0, 0, 3 * hidden);
    uint32_t over_h = product(step, h, 1, 0, (is_after ? 3 : 2) * hidden);
    for (uint32_t g = 0; g < 2; g++) { // z, r
        uint32_t sum = pair(step, CELL_OP_ADD, gate_of(step, over_x, g), gate_of(step, over_h, g));
        gates[g] = apply(step, CELL_OP_SIGMOID, sum);
    }
    uint32_t late =
        is_after ? pair(step, CELL_OP_MUL, gates[1], gate_of(step, over_h, 2))
                 : product(step, pair(step, CELL_OP_MUL, gates[1], h), 1, 2 * hidden, hidden);
    uint32_t n = apply(step, CELL_OP_TANH, pair(step, CELL_OP_ADD, gate_of(step, over_x, 2), late));
    uint32_t gap = pair(step, CELL_OP_SUB, h, n);
    return pair(step, CELL_OP_ADD, n, pair(step, CELL_OP_MUL, gates[0], gap));
}

static uint32_t rnn(struct step *step, uint32_t x, uint32_t h)
{
    uint32_t hidden = step->recurrent->hidden;
    uint32_t sum =
        pair(step, CELL_OP_ADD, product(step, x, 0, 0, hidden), product(step, h, 1, 0, hidden));
    bool is_relu = step->recurrent->op.variant == CELL_RNN_RELU;
    return apply(step, is_relu ? CELL_OP_RELU : CELL_OP_TANH, sum);
}

/* The row of initial_h or initial_c; zeros where it is not given. */
static enum base_status state_row(struct cell__import *im, const struct cell__recurrent *recurrent,
                                  uint32_t direction, uint32_t s, uint32_t *out)
{
    struct cell_value value = {CELL_F32, recurrent->hidden};
    uint32_t v = recurrent->init_values[s];
    if (v == CELL__NONE) {
        const float *zeros = base_arena_array(im->arena, value.width, sizeof(*zeros));
        return zeros == NULL ? cell__no_memory(im) : cell__row_const(im, value, zeros, out);
    }
    const struct cell__value *given = &im->values[v];
    const uint32_t width = value.width * recurrent->directions;
    if (given->kind == CELL__CONST && given->tensor.count == width) {
        const float *data = given->tensor.data;
        return cell__row_const(im, value, data + (size_t)direction * value.width, out);
    }
    if (given->kind == CELL__CONST) {
        return cell__refuse(im, "a constant state of several rows");
    }
    if (im->rows[given->row].value.width != width) {
        return cell__refuse(im, "a state of another width");
    }
    return cell__row_slice(im, given->row, direction * value.width, value.width, out);
}

enum base_status cell__lower_step(struct cell__import *im, const struct cell__recurrent *recurrent,
                                  uint32_t direction, uint32_t out[2])
{
    struct step step = {.im = im, .recurrent = recurrent};
    uint32_t x = im->values[recurrent->x_value].row;
    uint32_t states[2] = {CELL__NONE, CELL__NONE};
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        BASE_TRY(state_row(im, recurrent, direction, s, &states[s]));
    }
    if (im->rows[x].value.width != recurrent->width) {
        return cell__refuse(im, "X of another width");
    }
    if (recurrent->op.kind == CELL_OP_LSTM) {
        lstm(&step, x, states[0], states[1], out);
    } else {
        out[0] =
            recurrent->op.kind == CELL_OP_GRU ? gru(&step, x, states[0]) : rnn(&step, x, states[0]);
    }
    return step.status;
}
