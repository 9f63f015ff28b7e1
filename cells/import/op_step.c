/* One step of an LSTM, GRU or RNN in small operators: the equations of cells/op.h, with any of
 * ONNX's activations, clipped, with input and forget gate coupled. So are cells that no kernel has,
 * and those inside the body of a Loop or Scan, as exporters write torch.nn.LSTMCell: recognise.c
 * makes the one op of them again, where nothing else of the body stands between. The activations
 * alone are operators too (op_function.c). */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* What a step is made of while it is written out. */
struct step {
    struct cell__import *im;
    const struct cell__recurrent *recurrent; /* NULL: a function alone */
    uint32_t width;                          /* of a state, or of what the function is of */
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

/* Of rows as wide as a state, as what follows. */
static uint32_t pair(struct step *step, enum cell_op_kind kind, uint32_t a, uint32_t b)
{
    struct cell_op op = {.kind = kind, .n_operands = 2, .operands = {a, b}};
    return emit(step, &op, step->width);
}

static uint32_t apply(struct step *step, enum cell_op_kind kind, uint32_t a)
{
    struct cell_op op = {.kind = kind, .n_operands = 1, .operands = {a}};
    return emit(step, &op, step->width);
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

/* A constant for all units. */
static uint32_t constant(struct step *step, float number)
{
    uint32_t row = CELL__NONE;
    if (step->status == BASE_OK) {
        step->status = cell__row_number(step->im, number, &row);
    }
    return row;
}

/* a where x is above 0, else b. */
static uint32_t choose(struct step *step, uint32_t x, uint32_t a, uint32_t b)
{
    struct cell_op op = {.kind = CELL_OP_SELECT, .n_operands = 3, .operands = {x, a, b}};
    return emit(step, &op, step->width);
}

/* a x + b */
static uint32_t affine(struct step *step, uint32_t x, float a, float b)
{
    uint32_t product = pair(step, CELL_OP_MUL, x, constant(step, a));
    return pair(step, CELL_OP_ADD, product, constant(step, b));
}

/* erf by Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: within 1.5e-7, and what
 * floats round. */
static uint32_t erf_of(struct step *step, uint32_t x)
{
    static const float terms[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f,
                                  0.254829592f};
    const uint32_t size = apply(step, CELL_OP_ABS, x);
    const uint32_t t =
        pair(step, CELL_OP_DIV, constant(step, 1.0f), affine(step, size, 0.3275911f, 1.0f));
    uint32_t sum = affine(step, t, terms[0], terms[1]);
    for (size_t i = 2; i < sizeof(terms) / sizeof(terms[0]); i++) {
        sum = pair(step, CELL_OP_ADD, pair(step, CELL_OP_MUL, sum, t), constant(step, terms[i]));
    }
    const uint32_t square = pair(step, CELL_OP_MUL, x, x);
    const uint32_t bell =
        apply(step, CELL_OP_EXP, pair(step, CELL_OP_MUL, square, constant(step, -1.0f)));
    const uint32_t far = pair(step, CELL_OP_MUL, pair(step, CELL_OP_MUL, sum, t), bell);
    return choose(step, x, affine(step, far, -1.0f, 1.0f), affine(step, far, 1.0f, -1.0f));
}

/* x times the part of the normal distribution below it, exact or by tanh (Hendrycks and Gimpel,
 * Gaussian Error Linear Units, 2016). */
static uint32_t gelu_of(struct step *step, uint32_t x, bool is_tanh)
{
    uint32_t part = CELL__NONE;
    if (is_tanh) {
        const uint32_t cube = pair(step, CELL_OP_MUL, pair(step, CELL_OP_MUL, x, x), x);
        part = pair(step, CELL_OP_ADD, x, pair(step, CELL_OP_MUL, cube, constant(step, 0.044715f)));
        part =
            apply(step, CELL_OP_TANH, pair(step, CELL_OP_MUL, part, constant(step, 0.7978845608f)));
    } else {
        part = erf_of(step, pair(step, CELL_OP_MUL, x, constant(step, 0.7071067812f)));
    }
    return pair(step, CELL_OP_MUL, x, affine(step, part, 0.5f, 0.5f));
}

static uint32_t softplus_of(struct step *step, uint32_t x)
{
    uint32_t sum = pair(step, CELL_OP_MUL, apply(step, CELL_OP_ABS, x), constant(step, -1.0f));
    sum = pair(step, CELL_OP_ADD, apply(step, CELL_OP_EXP, sum), constant(step, 1.0f));
    return pair(step, CELL_OP_ADD, apply(step, CELL_OP_LOG, sum), apply(step, CELL_OP_RELU, x));
}

static uint32_t activate_by(struct step *step, const struct cell__activation *by, uint32_t x)
{
    uint32_t least = CELL__NONE;
    switch (by->kind) {
    case CELL__ACT_SIGMOID:
        return apply(step, CELL_OP_SIGMOID, x);
    case CELL__ACT_TANH:
        return apply(step, CELL_OP_TANH, x);
    case CELL__ACT_RELU:
        return apply(step, CELL_OP_RELU, x);
    case CELL__ACT_LEAKY_RELU:
        return choose(step, x, x, pair(step, CELL_OP_MUL, x, constant(step, by->alpha)));
    case CELL__ACT_THRESHOLDED_RELU:
        least = pair(step, CELL_OP_LESS, constant(step, by->alpha), x);
        return choose(step, least, x, constant(step, 0.0f));
    case CELL__ACT_SCALED_TANH:
        x = apply(step, CELL_OP_TANH, pair(step, CELL_OP_MUL, x, constant(step, by->beta)));
        return pair(step, CELL_OP_MUL, x, constant(step, by->alpha));
    case CELL__ACT_HARD_SIGMOID:
        least = pair(step, CELL_OP_MIN, affine(step, x, by->alpha, by->beta), constant(step, 1.0f));
        return pair(step, CELL_OP_MAX, least, constant(step, 0.0f));
    case CELL__ACT_ELU:
        return choose(step, x, x, affine(step, apply(step, CELL_OP_EXP, x), by->alpha, -by->alpha));
    case CELL__ACT_SOFTSIGN:
        least = pair(step, CELL_OP_ADD, apply(step, CELL_OP_ABS, x), constant(step, 1.0f));
        return pair(step, CELL_OP_DIV, x, least);
    case CELL__ACT_SOFTPLUS: // as the operator, op_math.c
        return softplus_of(step, x);
    case CELL__ACT_ERF:
        return erf_of(step, x);
    case CELL__ACT_GELU:
    case CELL__ACT_GELU_TANH:
        return gelu_of(step, x, by->kind == CELL__ACT_GELU_TANH);
    case CELL__ACT_SELU:
        least = affine(step, apply(step, CELL_OP_EXP, x), by->alpha, -by->alpha);
        return pair(step, CELL_OP_MUL, choose(step, x, x, least), constant(step, by->beta));
    case CELL__ACT_MISH:
        return apply(step, CELL_OP_TANH, softplus_of(step, x));
    case CELL__ACT_AFFINE:
        break;
    }
    return affine(step, x, by->alpha, by->beta);
}

/* Activation number n of a gate's sum, which is clipped first. */
static uint32_t activate(struct step *step, uint32_t n, uint32_t x)
{
    const float clip = step->recurrent->clip;
    if (clip > 0.0f) {
        x = pair(step, CELL_OP_MAX, pair(step, CELL_OP_MIN, x, constant(step, clip)),
                 constant(step, -clip));
    }
    return activate_by(step, &step->recurrent->activations[n], x);
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
    uint32_t i = activate(step, 0, peep(step, gate_of(step, sums, 0), 0, c));
    uint32_t f = step->recurrent->input_forget
                     ? pair(step, CELL_OP_SUB, constant(step, 1.0f), i)
                     : activate(step, 0, peep(step, gate_of(step, sums, 2), 2, c));
    uint32_t g = activate(step, 1, gate_of(step, sums, 3));
    out[1] = pair(step, CELL_OP_ADD, pair(step, CELL_OP_MUL, f, c), pair(step, CELL_OP_MUL, i, g));
    uint32_t o = activate(step, 0, peep(step, gate_of(step, sums, 1), 1, out[1]));
    // The clip is of sums: c goes into its function as it is (decision 53).
    uint32_t squashed = activate_by(step, &step->recurrent->activations[2], out[1]);
    out[0] = pair(step, CELL_OP_MUL, o, squashed);
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
        gates[g] = activate(step, 0, sum);
    }
    uint32_t late =
        is_after ? pair(step, CELL_OP_MUL, gates[1], gate_of(step, over_h, 2))
                 : product(step, pair(step, CELL_OP_MUL, gates[1], h), 1, 2 * hidden, hidden);
    uint32_t n = activate(step, 1, pair(step, CELL_OP_ADD, gate_of(step, over_x, 2), late));
    uint32_t gap = pair(step, CELL_OP_SUB, h, n);
    return pair(step, CELL_OP_ADD, n, pair(step, CELL_OP_MUL, gates[0], gap));
}

static uint32_t rnn(struct step *step, uint32_t x, uint32_t h)
{
    uint32_t hidden = step->recurrent->hidden;
    uint32_t sum =
        pair(step, CELL_OP_ADD, product(step, x, 0, 0, hidden), product(step, h, 1, 0, hidden));
    return activate(step, 0, sum);
}

enum base_status cell__lower_step(struct cell__import *im, const struct cell__recurrent *recurrent,
                                  uint32_t x, const uint32_t states[2], uint32_t out[2])
{
    struct step step = {.im = im, .recurrent = recurrent, .width = recurrent->hidden};
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

enum base_status cell__row_function(struct cell__import *im, const struct cell__activation *by,
                                    uint32_t row, uint32_t *out)
{
    struct step step = {.im = im, .width = im->rows[row].value.width};
    *out = activate_by(&step, by, row);
    return step.status;
}
