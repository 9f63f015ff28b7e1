/* See oracle.h. */
#include "tests/cells/oracle.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

void oracle_init(struct oracle *oracle, const struct cell_def *def)
{
    memset(oracle, 0, sizeof(*oracle));
    oracle->def = def;
    for (uint32_t v = 0; v < def->n_values; v++) {
        oracle->values[v] = base_alloc_array(def->values[v].width, sizeof(double));
        base_assert(oracle->values[v] != NULL);
    }
}

void oracle_release(struct oracle *oracle)
{
    for (uint32_t v = 0; v < oracle->def->n_values; v++) {
        base_free(oracle->values[v]);
    }
}

static double weight_at(const struct cell_weight *weight, uint32_t row, uint32_t col)
{
    size_t at = (size_t)row * weight->cols + col;
    const float *data = weight->data;
    return (double)data[at];
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Bias `at` of the biases of W (r = 0) or of R. */
static double bias(const struct cell_op *op, uint32_t r, uint32_t at)
{
    return op->n_weights > 2 ? weight_at(&op->weights[2], 0, r * op->weights[0].rows + at) : 0.0;
}

static double over(const struct cell_weight *weight, uint32_t row, const double *x)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < weight->cols; k++) {
        sum += x[k] * weight_at(weight, row, k);
    }
    return sum;
}

static double gate(const struct cell_op *op, uint32_t row, const double *x, const double *h)
{
    return bias(op, 0, row) + bias(op, 1, row) + over(&op->weights[0], row, x) +
           over(&op->weights[1], row, h);
}

static double peephole(const struct cell_op *op, uint32_t at, double c)
{
    return op->n_weights > 3 ? weight_at(&op->weights[3], 0, at) * c : 0.0;
}

static void lstm(const struct cell_op *op, double **values, uint32_t hidden)
{
    const double *x = values[op->operands[0]];
    const double *h = values[op->operands[1]];
    const double *c = values[op->operands[2]];
    for (uint32_t u = 0; u < hidden; u++) {
        double i = sigmoid(gate(op, u, x, h) + peephole(op, u, c[u]));
        double f = sigmoid(gate(op, 2 * hidden + u, x, h) + peephole(op, 2 * hidden + u, c[u]));
        double g = tanh(gate(op, 3 * hidden + u, x, h));
        double next = f * c[u] + i * g;
        double o = sigmoid(gate(op, hidden + u, x, h) + peephole(op, hidden + u, next));
        values[op->result + 1][u] = next;
        values[op->result][u] = o * tanh(next);
    }
}

/* Unit u of the new h before it is mixed with the old. */
static double gru_new(const struct cell_op *op, uint32_t hidden, uint32_t u, const double *x,
                      const double *h)
{
    uint32_t row = 2 * hidden + u;
    double sum = bias(op, 0, row) + over(&op->weights[0], row, x);
    if (op->variant == CELL_GRU_RESET_AFTER) {
        double r = sigmoid(gate(op, hidden + u, x, h));
        return tanh(sum + r * (bias(op, 1, row) + over(&op->weights[1], row, h)));
    }
    sum += bias(op, 1, row);
    for (uint32_t k = 0; k < hidden; k++) {
        double r = sigmoid(gate(op, hidden + k, x, h));
        sum += r * h[k] * weight_at(&op->weights[1], row, k);
    }
    return tanh(sum);
}

static void gru_or_rnn(const struct cell_op *op, double **values, uint32_t hidden)
{
    const double *x = values[op->operands[0]];
    const double *h = values[op->operands[1]];
    for (uint32_t u = 0; u < hidden; u++) {
        if (op->kind == CELL_OP_GRU) {
            double z = sigmoid(gate(op, u, x, h));
            values[op->result][u] = (1.0 - z) * gru_new(op, hidden, u, x, h) + z * h[u];
        } else {
            double sum = gate(op, u, x, h);
            values[op->result][u] = op->variant == CELL_RNN_RELU ? fmax(sum, 0.0) : tanh(sum);
        }
    }
}

static void linear(const struct cell_op *op, const double *x, double *out)
{
    for (uint32_t j = 0; j < op->weights[0].cols; j++) {
        out[j] = op->n_weights > 1 ? weight_at(&op->weights[1], 0, j) : 0.0;
        for (uint32_t k = 0; k < op->weights[0].rows; k++) {
            out[j] += x[k] * weight_at(&op->weights[0], k, j);
        }
    }
}

static void softmax(uint32_t n, const double *x, double *out)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        sum += exp(x[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = exp(x[i]) / sum;
    }
}

static double arithmetic(enum cell_op_kind kind, double a, double b)
{
    return kind == CELL_OP_ADD          ? a + b
           : kind == CELL_OP_SUB        ? a - b
           : kind == CELL_OP_MUL        ? a * b
           : kind == CELL_OP_MIN        ? fmin(a, b)
           : kind == CELL_OP_MAX        ? fmax(a, b)
           : kind == CELL_OP_LESS       ? (a < b ? 1.0 : 0.0)
           : kind == CELL_OP_LESS_EQUAL ? (a <= b ? 1.0 : 0.0)
                                        : a / b;
}

static double function(enum cell_op_kind kind, double x)
{
    return kind == CELL_OP_SIGMOID ? sigmoid(x)
           : kind == CELL_OP_TANH  ? tanh(x)
           : kind == CELL_OP_EXP   ? exp(x)
           : kind == CELL_OP_ABS   ? fabs(x)
           : kind == CELL_OP_FLOOR ? floor(x)
           : kind == CELL_OP_SQRT  ? sqrt(x)
                                   : fmax(x, 0.0);
}

static double cast(enum cell_dtype dtype, double x)
{
    return dtype == CELL_F32 ? x : trunc(x);
}

/* Everything that fills out[0..n-1] from its operands alone. */
static void rowwise(const struct oracle *oracle, const struct cell_op *op, double *out, uint32_t n)
{
    const struct cell_value *shapes = oracle->def->values;
    const double *a = op->n_operands > 0 ? oracle->values[op->operands[0]] : NULL;
    const double *b = op->n_operands > 1 ? oracle->values[op->operands[1]] : NULL;
    base_assert(a != NULL || op->kind == CELL_OP_CONST);
    for (uint32_t i = 0; i < n; i++) {
        if (op->kind == CELL_OP_GATHER) {
            out[i] = weight_at(&op->weights[0], (uint32_t)a[0], i);
        } else if (op->kind == CELL_OP_CONST) {
            out[i] = weight_at(&op->weights[0], 0, i);
        } else if (op->kind == CELL_OP_SLICE) {
            out[i] = a[op->start + i];
        } else if (op->kind == CELL_OP_COPY) {
            out[i] = a[i];
        } else if (op->kind == CELL_OP_CAST) {
            out[i] = cast(shapes[op->result].dtype, a[i]);
        } else if (op->kind == CELL_OP_SELECT) {
            const double *c = oracle->values[op->operands[2]];
            out[i] = a[shapes[op->operands[0]].width == 1 ? 0 : i] > 0.0
                         ? b[shapes[op->operands[1]].width == 1 ? 0 : i]
                         : c[shapes[op->operands[2]].width == 1 ? 0 : i];
        } else if (op->kind == CELL_OP_MEAN) {
            uint32_t n_in = shapes[op->operands[0]].width;
            out[i] = 0.0;
            for (uint32_t k = 0; k < n_in; k++) {
                out[i] += a[k] / n_in;
            }
        } else if (op->n_operands == 2) {
            out[i] = arithmetic(op->kind, a[shapes[op->operands[0]].width == 1 ? 0 : i],
                                b[shapes[op->operands[1]].width == 1 ? 0 : i]);
        } else {
            out[i] = function(op->kind, a[i]);
        }
    }
}

static void concat(const struct oracle *oracle, const struct cell_op *op, double *out)
{
    for (uint32_t i = 0; i < op->n_operands; i++) {
        uint32_t width = oracle->def->values[op->operands[i]].width;
        memcpy(out, oracle->values[op->operands[i]], width * sizeof(double));
        out += width;
    }
}

void oracle_step(struct oracle *oracle)
{
    for (uint32_t o = 0; o < oracle->def->n_ops; o++) {
        const struct cell_op *op = &oracle->def->ops[o];
        double *out = oracle->values[op->result];
        uint32_t width = oracle->def->values[op->result].width;
        if (op->kind == CELL_OP_LSTM) {
            lstm(op, oracle->values, width);
        } else if (op->kind == CELL_OP_GRU || op->kind == CELL_OP_RNN) {
            gru_or_rnn(op, oracle->values, width);
        } else if (op->kind == CELL_OP_LINEAR) {
            linear(op, oracle->values[op->operands[0]], out);
        } else if (op->kind == CELL_OP_SOFTMAX) {
            for (uint32_t at = 0; at < width; at += op->group) {
                softmax(op->group, oracle->values[op->operands[0]] + at, out + at);
            }
        } else if (op->kind == CELL_OP_CONCAT) {
            concat(oracle, op, out);
        } else {
            rowwise(oracle, op, out, width);
        }
    }
}

void oracle_advance(struct oracle *oracle)
{
    const struct cell_def *def = oracle->def;
    double *next[CELL_STATES_MAX];
    for (uint32_t s = 0; s < def->n_states; s++) {
        size_t bytes = def->values[def->n_inputs + s].width * sizeof(double);
        next[s] = base_alloc(bytes);
        base_assert(next[s] != NULL);
        memcpy(next[s], oracle->values[def->state_next[s]], bytes);
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        base_free(oracle->values[def->n_inputs + s]);
        oracle->values[def->n_inputs + s] = next[s];
    }
}
