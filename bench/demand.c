/* Plain counting; any thread. */
#include "bench/demand.h"

#include <string.h>

void bench_demand_of_cell(const struct bench_cell *cell, const struct bench_shape *shape,
                          enum cell_precision precision, struct bench_demand *out)
{
    double bytes = cell_precision_bytes(precision);
    *out = (struct bench_demand){
        .sigmoids = (double)cell->sigmoids * shape->hidden,
        .tanhs = (double)cell->tanhs * shape->hidden,
        .step_bytes = (double)bench_tensor_floats(cell, shape, BENCH_R) * bytes,
        .once_bytes = (double)bench_tensor_floats(cell, shape, BENCH_W) * bytes,
    };
    out->flops[precision] = bench_flops(cell, shape) / shape->rows / shape->steps;
    if (bench_cell_is_tree(cell)) { // its input is a child
        out->step_bytes += out->once_bytes;
        out->once_bytes = 0;
    }
}

/* What is known of the values while the ops are gone through in their order. */
struct walk {
    const struct cell_def *def;
    struct bench_demand *out;
    bool is_timeless[CELL_VALUES_MAX]; /* inputs alone make it */
    bool is_looked_up[CELL_VALUES_MAX];
};

static double elements(const struct cell_weight *weight)
{
    return (double)weight->rows * weight->cols;
}

/* Of each patch with the same weights. */
static void add_product(struct walk *walk, const struct cell_op *op, uint32_t w, bool is_timeless)
{
    const struct cell_weight *weight = &op->weights[w];
    const double bytes = elements(weight) * cell_precision_bytes(op->precision);
    walk->out->flops[op->precision] += 2.0 * cell_op_patches(op) * elements(weight);
    *(is_timeless ? &walk->out->once_bytes : &walk->out->step_bytes) += bytes;
}

static void add_gated(struct walk *walk, const struct cell_op *op)
{
    double units = (double)cell_op_patches(op) * op->weights[0].rows / cell_op_gates(op->kind);
    uint32_t x = op->operands[0];
    if (!walk->is_looked_up[x]) {
        add_product(walk, op, 0, walk->is_timeless[x]);
    }
    add_product(walk, op, 1, false);
    bool is_relu = op->kind == CELL_OP_RNN && op->variant == CELL_RNN_RELU;
    walk->out->sigmoids += units * (op->kind == CELL_OP_LSTM  ? 3.0
                                    : op->kind == CELL_OP_GRU ? 2.0
                                                              : 0.0);
    walk->out->tanhs += units * (op->kind == CELL_OP_LSTM ? 2.0 : is_relu ? 0.0 : 1.0);
}

/* A matrix of a child-sum is counted once: its forget gates are needed for each child. */
static void add_tree(struct walk *walk, const struct cell_op *op)
{
    double units = walk->def->values[op->result].width;
    double children = cell_op_children(op);
    for (uint32_t w = 0; w < op->n_weights; w++) {
        if (op->weights[w].rows > 1) { // not B
            add_product(walk, op, w, false);
            walk->out->flops[op->precision] +=
                op->kind == CELL_OP_TREE_SUM ? 2.0 * (children - 1) * units * op->weights[w].cols
                                             : 0.0;
        }
    }
    walk->out->sigmoids += units * (2 + children);
    walk->out->tanhs += units * 2;
}

/* Some twenty operations an element. */
static bool is_like_sigmoid(enum cell_op_kind kind)
{
    return kind == CELL_OP_SIGMOID || kind == CELL_OP_EXP || kind == CELL_OP_LOG ||
           kind == CELL_OP_SIN || kind == CELL_OP_COS || kind == CELL_OP_ATAN ||
           kind == CELL_OP_POW;
}

static void add_op(struct walk *walk, const struct cell_op *op)
{
    double width = walk->def->values[op->result].width;
    if (cell_op_is_tree(op->kind)) {
        add_tree(walk, op);
    } else if (cell_op_gates(op->kind) > 0) {
        add_gated(walk, op);
    } else if (op->kind == CELL_OP_LINEAR) {
        add_product(walk, op, 0, walk->is_timeless[op->operands[0]]);
    } else if (op->kind == CELL_OP_FILTER) {
        walk->out->elements += (double)op->picture.taps[0] * op->picture.taps[1] * width;
    } else if (is_like_sigmoid(op->kind) || cell_op_has_groups(op->kind)) {
        walk->out->sigmoids += width;
    } else if (op->kind == CELL_OP_TANH) {
        walk->out->tanhs += width;
    } else if (op->kind == CELL_OP_MEAN || op->kind == CELL_OP_ARGMAX || op->kind == CELL_OP_TOP) {
        walk->out->elements += walk->def->values[op->operands[0]].width;
    } else if (cell_op_is_pointwise(op->kind)) {
        walk->out->elements += width;
    }
}

void bench_demand_of_def(const struct cell_def *def, struct bench_demand *out)
{
    struct walk walk = {.def = def, .out = out};
    *out = (struct bench_demand){0};
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        walk.is_timeless[i] = true;
    }
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        add_op(&walk, op);
        bool is_timeless = true;
        for (uint32_t i = 0; i < op->n_operands; i++) {
            is_timeless = is_timeless && walk.is_timeless[op->operands[i]];
        }
        for (uint32_t i = 0; i < cell_op_results(op->kind); i++) {
            walk.is_timeless[op->result + i] = is_timeless;
        }
        walk.is_looked_up[op->result] = op->kind == CELL_OP_GATHER;
    }
}
