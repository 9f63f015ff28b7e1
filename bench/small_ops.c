/* Gates stand in ONNX's order: i, o, f, c of an LSTM; z, r, h of a GRU. */
#include "bench/small_ops.h"

#include "base/mem.h"

struct builder {
    const struct bench_cell *cell;
    const struct bench_shape *shape;
    const struct bench_data *data;
    float *next; /* room for transposed weights */
    struct cell_def *def;
};

enum { X, H, C }; // values: the input, then the states

static uint32_t add_op(const struct builder *builder, enum cell_op_kind kind, uint32_t first,
                       uint32_t second)
{
    struct cell_def *def = builder->def;
    struct cell_op *op = &def->ops[def->n_ops++];
    bool has_two = kind == CELL_OP_ADD || kind == CELL_OP_SUB || kind == CELL_OP_MUL;
    *op = (struct cell_op){.kind = kind,
                           .n_operands = has_two ? 2 : 1,
                           .operands = {first, has_two ? second : 0},
                           .result = def->n_values};
    def->values[def->n_values] = (struct cell_value){CELL_F32, builder->shape->hidden};
    return def->n_values++;
}

/* A gate's sum over x or h. Of a LINEAR the weights stand [in, out], in ONNX's matrices [out, in].
 */
static uint32_t add_product(struct builder *builder, uint32_t gate, uint32_t value)
{
    const uint32_t hidden = builder->shape->hidden;
    const uint32_t in = value == X ? builder->shape->inputs : hidden;
    const float *matrix = builder->data->tensors[value == X ? BENCH_W : BENCH_R];
    matrix += (size_t)gate * hidden * in;
    for (size_t o = 0; o < hidden; o++) {
        for (size_t i = 0; i < in; i++) {
            builder->next[i * hidden + o] = matrix[o * in + i];
        }
    }
    uint32_t half = value == X ? 0 : cell_op_gates(builder->cell->op);
    const float *bias = builder->data->tensors[BENCH_B] + (size_t)(half + gate) * hidden;
    uint32_t result = add_op(builder, CELL_OP_LINEAR, value, 0);
    struct cell_op *op = &builder->def->ops[builder->def->n_ops - 1];
    op->n_weights = 2;
    op->weights[0] = (struct cell_weight){CELL_F32, in, hidden, builder->next};
    op->weights[1] = (struct cell_weight){CELL_F32, 1, hidden, bias};
    builder->next += (size_t)in * hidden;
    return result;
}

static uint32_t add_gate(struct builder *builder, uint32_t gate, enum cell_op_kind activation)
{
    uint32_t of_x = add_product(builder, gate, X);
    uint32_t of_h = add_product(builder, gate, H);
    return add_op(builder, activation, add_op(builder, CELL_OP_ADD, of_x, of_h), 0);
}

static void add_lstm(struct builder *builder)
{
    uint32_t i = add_gate(builder, 0, CELL_OP_SIGMOID);
    uint32_t o = add_gate(builder, 1, CELL_OP_SIGMOID);
    uint32_t f = add_gate(builder, 2, CELL_OP_SIGMOID);
    uint32_t g = add_gate(builder, 3, CELL_OP_TANH);
    uint32_t kept = add_op(builder, CELL_OP_MUL, f, C);
    uint32_t added = add_op(builder, CELL_OP_MUL, i, g);
    uint32_t c = add_op(builder, CELL_OP_ADD, kept, added);
    uint32_t h = add_op(builder, CELL_OP_MUL, o, add_op(builder, CELL_OP_TANH, c, 0));
    builder->def->state_next[0] = h;
    builder->def->state_next[1] = c;
}

/* (1 - z) * n + z * h as n + z * (h - n). */
static void add_gru(struct builder *builder)
{
    uint32_t z = add_gate(builder, 0, CELL_OP_SIGMOID);
    uint32_t r = add_gate(builder, 1, CELL_OP_SIGMOID);
    uint32_t of_x = add_product(builder, 2, X);
    uint32_t of_h = add_op(builder, CELL_OP_MUL, r, add_product(builder, 2, H));
    uint32_t n = add_op(builder, CELL_OP_TANH, add_op(builder, CELL_OP_ADD, of_x, of_h), 0);
    uint32_t step = add_op(builder, CELL_OP_MUL, z, add_op(builder, CELL_OP_SUB, H, n));
    builder->def->state_next[0] = add_op(builder, CELL_OP_ADD, n, step);
}

enum base_status bench_small_ops_def(const struct bench_cell *cell, const struct bench_shape *shape,
                                     const struct bench_data *data, float **weights,
                                     struct cell_def *out, struct base_error *error)
{
    if (cell->op != CELL_OP_LSTM && cell->op != CELL_OP_GRU) {
        return base_fail(error, BASE_UNIMPLEMENTED, "%s is not known in small ops", cell->name);
    }
    size_t floats = bench_tensor_floats(cell, shape, BENCH_W);
    floats += bench_tensor_floats(cell, shape, BENCH_R);
    *weights = base_alloc_aligned(floats * sizeof(float), BASE_CACHE_LINE);
    if (*weights == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory for %zu weights", floats);
    }
    struct builder builder = {
        .cell = cell, .shape = shape, .data = data, .next = *weights, .def = out};
    *out = (struct cell_def){.n_inputs = 1,
                             .n_states = cell->states,
                             .n_values = 1 + cell->states,
                             .n_outputs = 1,
                             .as_written = true};
    out->values[X] = (struct cell_value){CELL_F32, shape->inputs};
    for (uint32_t s = 0; s < cell->states; s++) {
        out->values[H + s] = (struct cell_value){CELL_F32, shape->hidden};
    }
    if (cell->op == CELL_OP_LSTM) {
        add_lstm(&builder);
    } else {
        add_gru(&builder);
    }
    out->outputs[0] = out->state_next[0];
    return BASE_OK;
}
