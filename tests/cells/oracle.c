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
    return weight->dtype == CELL_I64 ? (double)((const int64_t *)weight->data)[at]
                                     : (double)data[at];
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

/* What an LSTM, GRU or RNN reads and writes, or one patch of it. */
struct unit {
    const double *x, *h, *c;
    double *out, *c_out;
};

static void lstm(const struct cell_op *op, const struct unit *unit, uint32_t hidden)
{
    const double *x = unit->x;
    const double *h = unit->h;
    const double *c = unit->c;
    for (uint32_t u = 0; u < hidden; u++) {
        double i = sigmoid(gate(op, u, x, h) + peephole(op, u, c[u]));
        double f = sigmoid(gate(op, 2 * hidden + u, x, h) + peephole(op, 2 * hidden + u, c[u]));
        double g = tanh(gate(op, 3 * hidden + u, x, h));
        double next = f * c[u] + i * g;
        double o = sigmoid(gate(op, hidden + u, x, h) + peephole(op, hidden + u, next));
        unit->c_out[u] = next;
        unit->out[u] = o * tanh(next);
    }
}

/* Unit u of the new h before it is mixed with the old; r: all units' reset gates. */
static double gru_new(const struct cell_op *op, uint32_t u, const struct unit *unit,
                      const double *r)
{
    const uint32_t hidden = op->weights[1].cols;
    const uint32_t row = 2 * hidden + u;
    double sum = bias(op, 0, row) + over(&op->weights[0], row, unit->x);
    if (op->variant == CELL_GRU_RESET_AFTER) {
        return tanh(sum + r[u] * (bias(op, 1, row) + over(&op->weights[1], row, unit->h)));
    }
    sum += bias(op, 1, row);
    for (uint32_t k = 0; k < hidden; k++) {
        sum += r[k] * unit->h[k] * weight_at(&op->weights[1], row, k);
    }
    return tanh(sum);
}

static void gru(const struct cell_op *op, const struct unit *unit, uint32_t hidden)
{
    double *r = base_alloc_array(hidden, sizeof(*r));
    base_assert(r != NULL);
    for (uint32_t u = 0; u < hidden; u++) {
        r[u] = sigmoid(gate(op, hidden + u, unit->x, unit->h));
    }
    for (uint32_t u = 0; u < hidden; u++) {
        const double z = sigmoid(gate(op, u, unit->x, unit->h));
        unit->out[u] = (1.0 - z) * gru_new(op, u, unit, r) + z * unit->h[u];
    }
    base_free(r);
}

static void rnn(const struct cell_op *op, const struct unit *unit, uint32_t hidden)
{
    for (uint32_t u = 0; u < hidden; u++) {
        const double sum = gate(op, u, unit->x, unit->h);
        unit->out[u] = op->variant == CELL_RNN_RELU ? fmax(sum, 0.0) : tanh(sum);
    }
}

/* Patches one after the other in their order; apart each begins with rows of its own. */
static void recurrent(const struct cell_op *op, double **values)
{
    const uint32_t patches = cell_op_patches(op);
    const uint32_t hidden = op->weights[0].rows / cell_op_gates(op->kind);
    const bool is_lstm = op->kind == CELL_OP_LSTM;
    const bool is_apart = op->patches == 0 || op->order == CELL_PATCHES_APART;
    struct unit unit = {.h = values[op->operands[1]], .c = values[op->operands[2]]};
    for (uint32_t i = 0; i < patches; i++) {
        const size_t p = op->order == CELL_PATCHES_BACKWARD && !is_apart ? patches - 1 - i : i;
        if (i > 0) {
            unit.h = is_apart ? unit.h + op->weights[1].cols : unit.out;
            unit.c = is_apart ? unit.c + hidden : unit.c_out;
        }
        unit.x = values[op->operands[0]] + p * op->weights[0].cols;
        unit.out = values[op->result] + p * hidden;
        unit.c_out = is_lstm ? values[op->result + 1] + p * hidden : NULL;
        if (is_lstm) {
            lstm(op, &unit, hidden);
        } else if (op->kind == CELL_OP_GRU) {
            gru(op, &unit, hidden);
        } else {
            rnn(op, &unit, hidden);
        }
    }
}

/* A tree's cell by the equations of the paper, with weights, operands and gates in the order of
 * op.h: i, o, u, then the forget gates. */
struct tree {
    const struct cell_op *op;
    double **values;
    uint32_t hidden, n_children;
    const double *x; /* NULL: without */
};

static const double *child_row(const struct tree *tree, uint32_t child, uint32_t is_c)
{
    uint32_t first = tree->x != NULL ? 1 : 0;
    return tree->values[tree->op->operands[first + 2 * child + is_c]];
}

/* Gate `gate` of unit u, without what children add. */
static double tree_gate(const struct tree *tree, uint32_t gate, uint32_t u)
{
    const struct cell_op *op = tree->op;
    const uint32_t row = gate * tree->hidden + u;
    const struct cell_weight *last = &op->weights[op->n_weights - 1];
    double sum = last->rows == 1 && op->n_weights > 1 ? weight_at(last, 0, row) : 0.0;
    return tree->x == NULL ? sum : sum + over(&op->weights[0], row, tree->x);
}

/* What one child adds to a gate of unit u. */
static double tree_child(const struct tree *tree, uint32_t gate, uint32_t u, uint32_t child)
{
    const uint32_t of_x = tree->x != NULL ? 1 : 0;
    const uint32_t matrix = tree->op->kind == CELL_OP_TREE_BINARY ? child : 0;
    return over(&tree->op->weights[of_x + matrix], gate * tree->hidden + u,
                child_row(tree, child, 0));
}

static double tree_all_children(const struct tree *tree, uint32_t gate, uint32_t u)
{
    double sum = tree_gate(tree, gate, u);
    for (uint32_t k = 0; k < tree->n_children; k++) {
        sum += tree_child(tree, gate, u, k);
    }
    return sum;
}

static void tree_cell(const struct cell_op *op, double **values, uint32_t hidden)
{
    struct tree tree = {.op = op,
                        .values = values,
                        .hidden = hidden,
                        .n_children = op->n_operands / 2,
                        .x = op->n_operands % 2 == 1 ? values[op->operands[0]] : NULL};
    for (uint32_t u = 0; u < hidden; u++) {
        double c = sigmoid(tree_all_children(&tree, 0, u)) * tanh(tree_all_children(&tree, 2, u));
        for (uint32_t k = 0; k < tree.n_children; k++) {
            double f = op->kind == CELL_OP_TREE_BINARY
                           ? tree_all_children(&tree, 3 + k, u)
                           : tree_gate(&tree, 3, u) + tree_child(&tree, 3, u, k);
            c += sigmoid(f) * child_row(&tree, k, 1)[u];
        }
        values[op->result + 1][u] = c;
        values[op->result][u] = sigmoid(tree_all_children(&tree, 1, u)) * tanh(c);
    }
}

static void linear_of(const struct cell_op *op, const double *x, double *out)
{
    for (uint32_t j = 0; j < op->weights[0].cols; j++) {
        out[j] = op->n_weights > 1 ? weight_at(&op->weights[1], 0, j) : 0.0;
        for (uint32_t k = 0; k < op->weights[0].rows; k++) {
            out[j] += x[k] * weight_at(&op->weights[0], k, j);
        }
    }
}

/* Element (y, x, c) of a picture; zeros around it. */
static double pixel(const struct cell_picture *picture, const double *row, uint32_t channels,
                    const int64_t at[2], uint32_t c)
{
    const bool is_inside =
        at[0] >= 0 && at[0] < picture->size[0] && at[1] >= 0 && at[1] < picture->size[1];
    return is_inside ? row[(size_t)(at[0] * picture->size[1] + at[1]) * channels + c] : 0.0;
}

/* The sums of one place, written as a convolution. */
static void place_of(const struct cell_op *op, const double *x, const uint32_t place[2],
                     double *out)
{
    const struct cell_picture *picture = &op->picture;
    const uint32_t channels = op->weights[0].rows / (picture->taps[0] * picture->taps[1]);
    for (uint32_t j = 0; j < op->weights[0].cols; j++) {
        out[j] = op->n_weights > 1 ? weight_at(&op->weights[1], 0, j) : 0.0;
        for (uint32_t k = 0; k < op->weights[0].rows; k++) {
            const uint32_t tap = k / channels;
            const uint32_t taps[2] = {tap / picture->taps[1], tap % picture->taps[1]};
            int64_t at[2];
            for (uint32_t i = 0; i < 2; i++) {
                at[i] = (int64_t)place[i] * picture->strides[i] +
                        (int64_t)taps[i] * picture->dilations[i] - picture->before[i];
            }
            out[j] +=
                pixel(picture, x, channels, at, k % channels) * weight_at(&op->weights[0], k, j);
        }
    }
}

static void linear(const struct cell_op *op, const double *x, double *out)
{
    for (uint32_t p = 0; cell_op_has_picture(op) && p < op->patches; p++) {
        const uint32_t place[2] = {p / op->picture.left[1], p % op->picture.left[1]};
        place_of(op, x, place, out + (size_t)p * op->weights[0].cols);
    }
    for (uint32_t p = 0; !cell_op_has_picture(op) && p < cell_op_patches(op); p++) {
        linear_of(op, x + (size_t)p * op->step, out + (size_t)p * op->weights[0].cols);
    }
}

static void softmax(const struct cell_op *op, const double *x, double *out)
{
    double sum = 0.0;
    double largest = x[0];
    for (uint32_t i = 1; i < op->group; i++) {
        largest = fmax(largest, x[i]);
    }
    for (uint32_t i = 0; i < op->group; i++) {
        sum += exp(x[i] - largest);
    }
    for (uint32_t i = 0; i < op->group; i++) {
        const double own = x[i] - largest;
        out[i] = op->kind == CELL_OP_LOG_SOFTMAX ? own - log(sum) : exp(own) / sum;
    }
}

static double relative(const struct oracle *oracle, const struct cell_op *op, uint32_t t)
{
    const struct cell_weight *table = &op->weights[1];
    const double *r = oracle->values[op->operands[4]];
    const float begin = (float)oracle->values[op->operands[3]][2];
    const uint32_t row = CELL_PICK_ROW(begin + (float)t, table->rows);
    double sum = 0.0;
    for (uint32_t k = 0; k < table->cols; k++) {
        sum += r[k] * weight_at(table, row, k);
    }
    return sum;
}

static void attend(const struct oracle *oracle, const struct cell_op *op, double *out, uint32_t n)
{
    const uint32_t width = op->weights[0].cols;
    const double *q = oracle->values[op->operands[0]];
    const bool is_largest = op->variant == CELL_ATTEND_LARGEST;
    double sum = 0.0;
    uint32_t first = 0;
    uint32_t end = oracle->n_rows[op->operands[1]];
    memset(out, 0, n * sizeof(*out));
    if (op->n_operands > 3) {
        const double *bounds = oracle->values[op->operands[3]];
        const uint32_t rows = end;
        first = CELL_ATTEND_BOUND((float)bounds[0], rows);
        end = CELL_ATTEND_BOUND((float)bounds[1], rows);
    }
    for (uint32_t t = first; t < end; t++) {
        const double *key = oracle->rows[op->operands[1]] + (size_t)t * width;
        double score = 0.0;
        for (uint32_t k = 0; k < width; k++) {
            const double term =
                op->variant == CELL_ATTEND_TANH ? tanh(key[k] + q[k]) : key[k] * q[k];
            score += weight_at(&op->weights[0], 0, k) * term;
        }
        score += op->n_operands > 4 ? relative(oracle, op, t) : 0.0;
        sum += exp(score);
        if (is_largest) {
            out[0] = t == 0 || score > out[0] ? score : out[0];
        }
        for (uint32_t k = 0; k < n && !is_largest; k++) {
            out[k] += exp(score) * oracle->rows[op->operands[2]][(size_t)t * n + k];
        }
    }
    for (uint32_t k = 0; k < n && first < end && !is_largest; k++) {
        out[k] = op->nan_is_zero && !(sum > 0.0) ? 0.0 : out[k] / sum;
    }
}

/* Element k of all rows. */
static double reduce_element(const double *rows, uint32_t steps, uint32_t n, uint32_t variant)
{
    double sum = 0.0;
    double squares = 0.0;
    double low = steps == 0 ? 0.0 : rows[0];
    double high = low;
    for (size_t t = 0; t < steps; t++) {
        sum += rows[t * n];
        low = rows[t * n] < low ? rows[t * n] : low;
        high = rows[t * n] > high ? rows[t * n] : high;
    }
    for (size_t t = 0; t < steps; t++) {
        const double off = rows[t * n] - sum / steps;
        squares += off * off;
    }
    return variant == CELL_REDUCE_SUM        ? sum
           : variant == CELL_REDUCE_MEAN     ? sum / steps
           : variant == CELL_REDUCE_VARIANCE ? squares / steps
           : variant == CELL_REDUCE_MAX      ? high
                                             : low;
}

static void reduce(const struct oracle *oracle, const struct cell_op *op, double *out, uint32_t n)
{
    const uint32_t steps = oracle->n_rows[op->operands[0]];
    const double *rows = oracle->rows[op->operands[0]];
    for (uint32_t k = 0; k < n; k++) {
        out[k] = op->variant == CELL_REDUCE_COUNT ? steps
                                                  : reduce_element(rows + k, steps, n, op->variant);
    }
}

static void pick(const struct oracle *oracle, const struct cell_op *op, double *out, uint32_t n)
{
    const uint32_t rows = oracle->n_rows[op->operands[0]];
    const float number = (float)oracle->values[op->operands[1]][0];
    const double *from = oracle->rows[op->operands[0]];
    for (uint32_t k = 0; k < n; k++) {
        out[k] = rows == 0 ? 0.0 : from[(size_t)CELL_PICK_ROW(number, rows) * n + k];
    }
}

static double arithmetic(enum cell_op_kind kind, double a, double b)
{
    switch ((unsigned)kind) {
    case CELL_OP_ADD:
        return a + b;
    case CELL_OP_SUB:
        return a - b;
    case CELL_OP_MUL:
        return a * b;
    case CELL_OP_MIN:
        return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
    case CELL_OP_MAX:
        return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
    case CELL_OP_POW:
        return pow(a, b);
    case CELL_OP_LESS:
        return a < b ? 1.0 : 0.0;
    case CELL_OP_LESS_EQUAL:
        return a <= b ? 1.0 : 0.0;
    default:
        return a / b;
    }
}

static double function(enum cell_op_kind kind, double x)
{
    switch ((unsigned)kind) {
    case CELL_OP_SIGMOID:
        return sigmoid(x);
    case CELL_OP_TANH:
        return tanh(x);
    case CELL_OP_EXP:
        return exp(x);
    case CELL_OP_LOG:
        return log(x);
    case CELL_OP_SIN:
        return sin(x);
    case CELL_OP_COS:
        return cos(x);
    case CELL_OP_ATAN:
        return atan(x);
    case CELL_OP_ABS:
        return fabs(x);
    case CELL_OP_FLOOR:
        return floor(x);
    case CELL_OP_ROUND:
        return rint(x);
    case CELL_OP_SQRT:
        return sqrt(x);
    default:
        return fmax(x, 0.0);
    }
}

static double cast(enum cell_dtype dtype, double x)
{
    return dtype == CELL_F32 ? x : trunc(x);
}

/* Element i of operand k; of one of width 1 the only one. */
static double at(const struct oracle *oracle, const struct cell_op *op, uint32_t k, uint32_t i)
{
    uint32_t value = op->operands[k];
    return oracle->values[value][oracle->def->values[value].width == 1 ? 0 : i];
}

/* Of group number `of`. */
static double sum_or_mean(const struct oracle *oracle, const struct cell_op *op, uint32_t of)
{
    const uint32_t width = oracle->def->values[op->operands[0]].width;
    const uint32_t n = op->group > 0 ? op->group : width;
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        sum += at(oracle, op, 0, of * n + i);
    }
    return op->kind == CELL_OP_SUM ? sum : sum / n;
}

/* The first NaN, or else the first of the largest. */
static double argmax(const struct oracle *oracle, const struct cell_op *op)
{
    uint32_t n = oracle->def->values[op->operands[0]].width;
    uint32_t best = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (isnan(at(oracle, op, 0, i))) {
            return i;
        }
        best = at(oracle, op, 0, i) > at(oracle, op, 0, best) ? i : best;
    }
    return best;
}

/* Whether element i of the first operand comes before element k among the largest or smallest. */
static bool is_before(const struct oracle *oracle, const struct cell_op *op, uint32_t i, uint32_t k)
{
    const double a = at(oracle, op, 0, i);
    const double b = at(oracle, op, 0, k);
    const bool is_largest = op->variant == CELL_TOP_LARGEST;
    if (isnan(a) != isnan(b)) {
        return isnan(a) == is_largest;
    }
    return isnan(a) || a == b ? i < k : (a > b) == is_largest;
}

/* The number of the element that has `place` others before it. */
static double top(const struct oracle *oracle, const struct cell_op *op, uint32_t place)
{
    const uint32_t n = oracle->def->values[op->operands[0]].width;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t before = 0;
        for (uint32_t k = 0; k < n; k++) {
            before += k != i && is_before(oracle, op, k, i) ? 1 : 0;
        }
        if (before == place) {
            return i;
        }
    }
    base_assert(false);
    return 0.0;
}

/* Element [i, c, r, b] of the result is [i, r, c, b] of the operand. */
static double transposed(const struct oracle *oracle, const struct cell_op *op, uint32_t at_result)
{
    const uint32_t rows = op->dims[1];
    const uint32_t cols = op->dims[2];
    const uint32_t block = oracle->def->values[op->result].width / (op->dims[0] * rows * cols);
    const uint32_t b = at_result % block;
    const uint32_t r = at_result / block % rows;
    const uint32_t c = at_result / block / rows % cols;
    const uint32_t i = at_result / block / rows / cols;
    return at(oracle, op, 0, ((i * rows + r) * cols + c) * block + b);
}

/* Element [i, k, b] of the result is [i, b] of the operand. */
static double spread(const struct oracle *oracle, const struct cell_op *op, uint32_t at_result)
{
    const uint32_t b = at_result % op->dims[2];
    const uint32_t i = at_result / op->dims[2] / op->dims[1];
    return at(oracle, op, 0, i * op->dims[2] + b);
}

/* Of several ids the rows lie behind each other. */
static double looked_up(const struct oracle *oracle, const struct cell_op *op, uint32_t i)
{
    const struct cell_weight *table = &op->weights[0];
    const uint32_t id = (uint32_t)oracle->values[op->operands[0]][i / table->cols];
    return weight_at(table, id, i % table->cols);
}

/* Element i of a FILTER's result. */
static double filtered(const struct oracle *oracle, const struct cell_op *op, uint32_t i)
{
    const struct cell_picture *picture = &op->picture;
    const uint32_t width = oracle->def->values[op->operands[0]].width;
    const uint32_t channels = width / (picture->size[0] * picture->size[1]);
    const uint32_t c = i % channels;
    const uint32_t place[2] = {i / channels / picture->left[1], i / channels % picture->left[1]};
    const bool is_sum = op->variant == CELL_FILTER_SUM;
    double value = op->n_weights > 1 ? weight_at(&op->weights[1], 0, c) : 0.0;
    bool is_first = true;
    for (uint32_t t = 0; t < picture->taps[0] * picture->taps[1]; t++) {
        const uint32_t taps[2] = {t / picture->taps[1], t % picture->taps[1]};
        int64_t from[2];
        bool is_inside = true;
        for (uint32_t k = 0; k < 2; k++) {
            from[k] = (int64_t)place[k] * picture->strides[k] +
                      (int64_t)taps[k] * picture->dilations[k] - picture->before[k];
            is_inside = is_inside && from[k] >= 0 && from[k] < picture->size[k];
        }
        if (!is_inside) {
            continue;
        }
        const double tap =
            at(oracle, op, 0, (uint32_t)(from[0] * picture->size[1] + from[1]) * channels + c);
        value = is_sum ? value + tap * weight_at(&op->weights[0], t, c)
                : is_first || isnan(tap) || tap > value ? tap
                                                        : value;
        is_first = false;
    }
    return value;
}

/* Element i of what is filled from the operands alone. */
static double element(const struct oracle *oracle, const struct cell_op *op, uint32_t i)
{
    switch ((unsigned)op->kind) {
    case CELL_OP_GATHER:
        return looked_up(oracle, op, i);
    case CELL_OP_CONST:
        return weight_at(&op->weights[0], 0, i);
    case CELL_OP_SLICE:
        return at(oracle, op, 0, op->start + i);
    case CELL_OP_COPY:
        return at(oracle, op, 0, i);
    case CELL_OP_TRANSPOSE:
        return transposed(oracle, op, i);
    case CELL_OP_SPREAD:
        return spread(oracle, op, i);
    case CELL_OP_CAST:
        return cast(oracle->def->values[op->result].dtype, at(oracle, op, 0, i));
    case CELL_OP_SELECT:
        return at(oracle, op, 0, i) > 0.0 ? at(oracle, op, 1, i) : at(oracle, op, 2, i);
    case CELL_OP_SUM:
    case CELL_OP_MEAN:
        return sum_or_mean(oracle, op, i);
    case CELL_OP_FILTER:
        return filtered(oracle, op, i);
    case CELL_OP_ARGMAX:
        return argmax(oracle, op);
    case CELL_OP_TOP:
        return top(oracle, op, i);
    case CELL_OP_TAKE:
        return at(oracle, op, 0, (uint32_t)at(oracle, op, 1, i));
    default:
        return op->n_operands == 2
                   ? arithmetic(op->kind, at(oracle, op, 0, i), at(oracle, op, 1, i))
                   : function(op->kind, at(oracle, op, 0, i));
    }
}

static void rowwise(const struct oracle *oracle, const struct cell_op *op, double *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = element(oracle, op, i);
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
        if (op->kind == CELL_OP_LSTM || op->kind == CELL_OP_GRU || op->kind == CELL_OP_RNN) {
            recurrent(op, oracle->values);
        } else if (op->kind >= CELL_OP_TREE_LEAF && op->kind <= CELL_OP_TREE_SUM) {
            tree_cell(op, oracle->values, width);
        } else if (op->kind == CELL_OP_LINEAR) {
            linear(op, oracle->values[op->operands[0]], out);
        } else if (cell_op_has_groups(op->kind)) {
            for (uint32_t at = 0; at < width; at += op->group) {
                softmax(op, oracle->values[op->operands[0]] + at, out + at);
            }
        } else if (op->kind == CELL_OP_ATTEND) {
            attend(oracle, op, out, width);
        } else if (op->kind == CELL_OP_REDUCE) {
            reduce(oracle, op, out, width);
        } else if (op->kind == CELL_OP_PICK) {
            pick(oracle, op, out, width);
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
