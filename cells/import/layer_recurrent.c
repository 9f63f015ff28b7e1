/* LSTM, GRU and RNN layers: stacked ones and both directions are found by the tensors that are
 * there. Each becomes one ONNX node, whose gates stand in another order than PyTorch's and Keras';
 * an LSTM that projects its state, which ONNX does not have, becomes a Scan for each direction. */
#include "cells/import/layer.h"

#include "base/assert.h"
#include "base/checked.h"
#include "cells/import/graph.h"

#include <stdio.h>
#include <string.h>

enum { GATES_MAX = 4, DIRECTIONS_MAX = 2 };

/* A kind of layer. Gate g of ONNX is gate torch[g] or keras[g] of the libraries:
 *
 *     | | ONNX | PyTorch | Keras |
 *     | LSTM | i o f c | i f g o | i f c o |
 *     | GRU | z r h | r z n | z r h |
 */
struct unit {
    const char *kind, *op;
    uint32_t gates;
    uint8_t torch[GATES_MAX], keras[GATES_MAX];
};

/* The tensors of one direction of one layer. */
struct half {
    struct cell__stored *w, *r;    /* of the input and of the state */
    struct cell__stored *b[2];     /* their biases, NULL without; Keras': b[0] alone */
    struct cell__stored *p;        /* of the projection, or NULL */
    int64_t input, hidden, output; /* output: hidden, or as wide as the projection */
    bool is_keras;                 /* matrices are [inputs, gates * hidden] */
    bool is_reset_before;          /* of a GRU: the state is reset before the product */
};

/* A layer of the stack. */
struct level {
    const struct unit *unit;
    uint32_t directions;
    struct half halves[DIRECTIONS_MAX]; /* of one shape */
};

static const struct unit *unit_of(const char *kind)
{
    static const struct unit units[] = {
        {"lstm", "LSTM", 4, {0, 3, 1, 2}, {0, 3, 1, 2}},
        {"gru", "GRU", 3, {1, 0, 2}, {0, 1, 2}},
        {"rnn", "RNN", 1, {0}, {0}},
        {"rnn_relu", "RNN", 1, {0}, {0}},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(units[i].kind, kind) == 0) {
            return &units[i];
        }
    }
    base_assert(false);
    return &units[0];
}

/* ---- PyTorch's tensors -------------------------------------------------------------------- */

static struct cell__stored *torch_tensor(const struct cell__making *making, const char *what,
                                         uint32_t level, bool is_reverse)
{
    char name[CELL__TEXT_BYTES];
    (void)snprintf(name, sizeof(name), "%s_l%u%s", what, level, is_reverse ? "_reverse" : "");
    return cell__layer_torch(making, name);
}

/* One that must be there. */
static enum base_status torch_needed(const struct cell__making *making, const char *what,
                                     uint32_t level, bool is_reverse, struct cell__stored **out)
{
    char name[CELL__TEXT_BYTES];
    *out = torch_tensor(making, what, level, is_reverse);
    if (*out != NULL) {
        return BASE_OK;
    }
    (void)snprintf(name, sizeof(name), "%s_l%u%s", what, level, is_reverse ? "_reverse" : "");
    return cell__layer_missing(making, &(struct cell__variable){.torch = name});
}

static enum base_status read_torch(struct cell__making *making, const struct unit *unit,
                                   uint32_t level, bool is_reverse, struct half *half)
{
    const int64_t gates = unit->gates;
    *half = (struct half){0};
    BASE_TRY(torch_needed(making, "weight_ih", level, is_reverse, &half->w));
    BASE_TRY(torch_needed(making, "weight_hh", level, is_reverse, &half->r));
    BASE_TRY(cell__layer_matrix(making, half->w));
    BASE_TRY(cell__layer_matrix(making, half->r));
    half->input = half->w->dims[1];
    half->hidden = half->w->dims[0] / gates;
    half->output = half->hidden;
    half->p = unit->gates == 4 ? torch_tensor(making, "weight_hr", level, is_reverse) : NULL;
    if (half->p != NULL) {
        BASE_TRY(cell__layer_matrix(making, half->p));
        half->output = half->p->dims[0];
        BASE_TRY(cell__layer_shape(making, half->p, half->output, half->hidden));
    }
    BASE_TRY(cell__layer_shape(making, half->w, gates * half->hidden, half->input));
    BASE_TRY(cell__layer_shape(making, half->r, gates * half->hidden, half->output));
    half->b[0] = torch_tensor(making, "bias_ih", level, is_reverse);
    if (half->b[0] == NULL) {
        return BASE_OK;
    }
    BASE_TRY(torch_needed(making, "bias_hh", level, is_reverse, &half->b[1]));
    BASE_TRY(cell__layer_shape(making, half->b[0], gates * half->hidden, 0));
    return cell__layer_shape(making, half->b[1], gates * half->hidden, 0);
}

/* ---- Keras' tensors ----------------------------------------------------------------------- */

static const struct cell__variable keras_kernel = {
    .torch = "weight_ih_l0", .keras = "kernel", .number = 0, .is_in_cell = true};
static const struct cell__variable keras_state = {
    .keras = "recurrent_kernel", .number = 1, .is_in_cell = true};
static const struct cell__variable keras_bias = {.keras = "bias", .number = 2, .is_in_cell = true};

/* Of a GRU the bias tells whether it resets the state after the product: then each half has its
 * own. */
static enum base_status read_keras_bias(struct cell__making *making, const struct unit *unit,
                                        struct half *half)
{
    const int64_t rows = unit->gates * half->hidden;
    const struct cell__stored *bias = half->b[0];
    if (unit->gates != 3) {
        return bias == NULL ? BASE_OK : cell__layer_shape(making, bias, rows, 0);
    }
    if (bias == NULL) {
        return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                                "a Keras GRU without a bias does not tell whether reset_after is "
                                "set; give it a bias of zeros, [2, %lld] if it is, else [%lld]",
                                (long long)rows, (long long)rows);
    }
    half->is_reset_before = bias->rank == 1;
    return half->is_reset_before ? cell__layer_shape(making, bias, rows, 0)
                                 : cell__layer_shape(making, bias, 2, rows);
}

static enum base_status read_keras(struct cell__making *making, const struct unit *unit,
                                   enum cell__way way, struct half *half)
{
    const int64_t gates = unit->gates;
    *half = (struct half){.is_keras = true};
    BASE_TRY(cell__layer_find(making, &keras_kernel, way, &half->w));
    BASE_TRY(cell__layer_find(making, &keras_state, way, &half->r));
    BASE_TRY(cell__layer_find(making, &keras_bias, way, &half->b[0]));
    if (half->w == NULL || half->r == NULL) {
        return cell__layer_missing(making, half->w == NULL ? &keras_kernel : &keras_state);
    }
    BASE_TRY(cell__layer_matrix(making, half->w));
    half->input = half->w->dims[0];
    half->hidden = half->w->dims[1] / gates;
    half->output = half->hidden;
    BASE_TRY(cell__layer_shape(making, half->w, half->input, gates * half->hidden));
    BASE_TRY(cell__layer_shape(making, half->r, half->hidden, gates * half->hidden));
    return read_keras_bias(making, unit, half);
}

/* ---- Weights in ONNX's order -------------------------------------------------------------- */

/* The gates of a matrix with `cols` columns (a bias: 1), or of its transpose. */
static void copy_gates(const struct level *level, const struct half *half, const float *from,
                       int64_t cols, float *to)
{
    const size_t hidden = (size_t)half->hidden;
    const size_t width = (size_t)cols;
    const size_t rows = level->unit->gates * hidden;
    const uint8_t *order = half->is_keras ? level->unit->keras : level->unit->torch;
    for (uint32_t g = 0; g < level->unit->gates; g++) {
        const size_t first = order[g] * hidden;
        float *gate = to + g * hidden * width;
        if (!half->is_keras || width == 1) {
            memcpy(gate, from + first * width, hidden * width * sizeof(*gate));
            continue;
        }
        for (size_t c = 0; c < width; c++) {
            for (size_t r = 0; r < hidden; r++) {
                gate[r * width + c] = from[c * rows + first + r];
            }
        }
    }
}

/* Room for a matrix of every direction. */
static enum base_status new_floats(const struct cell__making *making, const struct level *level,
                                   int64_t rows, int64_t cols, float **out)
{
    size_t count = 0;
    *out = NULL;
    if (base_size_mul((size_t)rows, (size_t)cols, &count) &&
        base_size_mul(count, level->directions, &count)) {
        *out = base_arena_array(making->arena, count, sizeof(**out));
    }
    return *out != NULL ? BASE_OK : cell__layer_no_memory(making);
}

/* W or R: [directions, gates * hidden, cols]. */
static enum base_status add_matrices(const struct cell__making *making, const struct level *level,
                                     bool is_state, const char **out)
{
    const int64_t cols = is_state ? level->halves[0].hidden : level->halves[0].input;
    const int64_t rows = level->unit->gates * level->halves[0].hidden;
    struct cell__constant matrices = {.rank = 3, .dims = {level->directions, rows, cols}};
    float *all = NULL;
    BASE_TRY(new_floats(making, level, rows, cols, &all));
    for (uint32_t d = 0; d < level->directions; d++) {
        const struct half *half = &level->halves[d];
        const float *floats = NULL;
        BASE_TRY(cell__layer_floats(making, is_state ? half->r : half->w, &floats));
        copy_gates(level, half, floats, cols, all + (size_t)(d * rows) * (size_t)cols);
    }
    matrices.data = all;
    return cell__build_floats(making->builder, &matrices, out);
}

/* B: [directions, 2 * gates * hidden], the input's and then the state's; *out NULL without any. */
static enum base_status add_biases(const struct cell__making *making, const struct level *level,
                                   const char **out)
{
    const size_t rows = level->unit->gates * (size_t)level->halves[0].hidden;
    struct cell__constant biases = {.rank = 2, .dims = {level->directions, 2 * (int64_t)rows}};
    float *all = NULL;
    *out = NULL;
    if (level->halves[0].b[0] == NULL && level->halves[level->directions - 1].b[0] == NULL) {
        return BASE_OK;
    }
    BASE_TRY(new_floats(making, level, 2, (int64_t)rows, &all));
    for (uint32_t d = 0; d < level->directions; d++) {
        const struct half *half = &level->halves[d];
        for (uint32_t i = 0; i < 2 && half->b[i] != NULL; i++) {
            const float *floats = NULL;
            BASE_TRY(cell__layer_floats(making, half->b[i], &floats));
            copy_gates(level, half, floats, 1, all + (d * 2 + i) * rows);
            if (half->b[i]->rank == 2) { // both of a Keras GRU, side by side
                copy_gates(level, half, floats + rows, 1, all + (d * 2 + 1) * rows);
            }
        }
    }
    biases.data = all;
    return cell__build_floats(making->builder, &biases, out);
}

/* ---- A level as one node ------------------------------------------------------------------ */

static enum base_status set_attributes(const struct cell__making *making, const struct level *level,
                                       Onnx__NodeProto *node)
{
    struct cell__builder *builder = making->builder;
    BASE_TRY(cell__build_set_int(builder, node, "hidden_size", level->halves[0].hidden));
    BASE_TRY(cell__build_set_int(builder, node, "layout", 1)); // the batch first
    BASE_TRY(cell__build_set_text(builder, node, "direction",
                                  level->directions == 2 ? "bidirectional" : "forward"));
    if (strcmp(level->unit->kind, "rnn_relu") == 0) {
        BASE_TRY(cell__build_set_texts(builder, node, "activations", level->directions, "Relu"));
    }
    return level->unit->gates == 3 && !level->halves[0].is_reset_before
               ? cell__build_set_int(builder, node, "linear_before_reset", 1)
               : BASE_OK;
}

/* Directions side by side in a row. kept: how many axes stand before them. */
static enum base_status flatten(const struct cell__making *making, const struct level *level,
                                uint32_t kept, const char *value, const char **out)
{
    int64_t dims[] = {0, 0, 0};
    const char *shape = NULL;
    dims[kept] = level->directions * level->halves[0].output;
    BASE_TRY(cell__build_ints(making->builder, kept + 1, dims, &shape));
    return cell__build_op(making->builder, "Reshape", (const char *[]){value, shape, NULL}, out);
}

static enum base_status add_node(struct cell__making *making, const struct level *level)
{
    const char *inputs[5] = {making->value, NULL, NULL, NULL, NULL};
    Onnx__NodeProto *node = NULL;
    BASE_TRY(add_matrices(making, level, false, &inputs[1]));
    BASE_TRY(add_matrices(making, level, true, &inputs[2]));
    BASE_TRY(add_biases(making, level, &inputs[3]));
    BASE_TRY(cell__build_node(making->builder, level->unit->op, inputs, 2, &node));
    BASE_TRY(set_attributes(making, level, node));
    BASE_TRY(flatten(making, level, 2, node->output[0], &making->value));
    return flatten(making, level, 1, node->output[1], &making->last);
}

/* ---- A level that projects its state ------------------------------------------------------ */

/* Constants of one direction, as the products of its body take them. */
struct projected {
    const char *w, *r, *p; /* [input, 4 * hidden], [output, 4 * hidden], [hidden, output] */
    const char *b;         /* [4 * hidden], or NULL */
};

static enum base_status add_transposed(const struct cell__making *making,
                                       const struct cell__stored *tensor, const char **out)
{
    BASE_TRY(cell__layer_constant(making, tensor, out));
    return cell__build_op(making->builder, "Transpose", (const char *[]){*out, NULL}, out);
}

static enum base_status add_sum(const struct cell__making *making, const struct half *half,
                                const char **out)
{
    struct cell__constant sum = {.rank = 1, .dims = {4 * half->hidden}};
    const float *biases[2] = {NULL, NULL};
    float *both = base_arena_array(making->arena, (size_t)sum.dims[0], sizeof(*both));
    if (both == NULL) {
        return cell__layer_no_memory(making);
    }
    BASE_TRY(cell__layer_floats(making, half->b[0], &biases[0]));
    BASE_TRY(cell__layer_floats(making, half->b[1], &biases[1]));
    for (int64_t i = 0; i < sum.dims[0]; i++) {
        both[i] = biases[0][i] + biases[1][i];
    }
    sum.data = both;
    return cell__build_floats(making->builder, &sum, out);
}

/* Zeros [batch, width], as a state begins. */
static enum base_status add_zeros(const struct cell__making *making, int64_t width,
                                  const char **out)
{
    Onnx__NodeProto *shape = NULL;
    Onnx__NodeProto *dims = NULL;
    const char *constant = NULL;
    BASE_TRY(cell__build_node(making->builder, "Shape", (const char *[]){making->value, NULL}, 1,
                              &shape));
    BASE_TRY(cell__build_set_int(making->builder, shape, "end", 1));
    BASE_TRY(cell__build_ints(making->builder, 1, &width, &constant));
    BASE_TRY(cell__build_node(making->builder, "Concat",
                              (const char *[]){shape->output[0], constant, NULL}, 1, &dims));
    BASE_TRY(cell__build_set_int(making->builder, dims, "axis", 0));
    return cell__build_op(making->builder, "ConstantOfShape",
                          (const char *[]){dims->output[0], NULL}, out);
}

/* The four gates of h and x before their functions, in PyTorch's order. */
static enum base_status add_gates(const struct cell__making *making,
                                  const struct projected *constants, const char *h, const char *x,
                                  Onnx__NodeProto **out)
{
    struct cell__builder *builder = making->builder;
    const char *sum = NULL;
    const char *term = NULL;
    BASE_TRY(cell__build_op(builder, "MatMul", (const char *[]){x, constants->w, NULL}, &sum));
    BASE_TRY(cell__build_op(builder, "MatMul", (const char *[]){h, constants->r, NULL}, &term));
    BASE_TRY(cell__build_op(builder, "Add", (const char *[]){sum, term, NULL}, &sum));
    if (constants->b != NULL) {
        BASE_TRY(cell__build_op(builder, "Add", (const char *[]){sum, constants->b, NULL}, &sum));
    }
    BASE_TRY(cell__build_node(builder, "Split", (const char *[]){sum, NULL}, 4, out));
    return cell__build_set_int(builder, *out, "axis", -1);
}

/* A body that reads h, c and x, and leaves h, c and y, which is h. */
static enum base_status add_body(const struct cell__making *making,
                                 const struct projected *constants, Onnx__GraphProto **out)
{
    static const char *const functions[] = {"Sigmoid", "Sigmoid", "Tanh", "Sigmoid"};
    struct cell__builder *builder = making->builder;
    Onnx__NodeProto *gates = NULL;
    const char *g[4];
    const char *c = NULL;
    const char *h = NULL;
    const char *y = NULL;
    BASE_TRY(cell__build_begin_body(builder, 3, out));
    Onnx__ValueInfoProto **in = (*out)->input;
    BASE_TRY(add_gates(making, constants, in[0]->name, in[2]->name, &gates));
    for (uint32_t i = 0; i < 4; i++) {
        BASE_TRY(
            cell__build_op(builder, functions[i], (const char *[]){gates->output[i], NULL}, &g[i]));
    }
    BASE_TRY(cell__build_op(builder, "Mul", (const char *[]){g[1], in[1]->name, NULL}, &c));
    BASE_TRY(cell__build_op(builder, "Mul", (const char *[]){g[0], g[2], NULL}, &h));
    BASE_TRY(cell__build_op(builder, "Add", (const char *[]){c, h, NULL}, &c));
    BASE_TRY(cell__build_op(builder, "Tanh", (const char *[]){c, NULL}, &h));
    BASE_TRY(cell__build_op(builder, "Mul", (const char *[]){g[3], h, NULL}, &h));
    BASE_TRY(cell__build_op(builder, "MatMul", (const char *[]){h, constants->p, NULL}, &h));
    BASE_TRY(cell__build_op(builder, "Identity", (const char *[]){h, NULL}, &y));
    return cell__build_end_body(builder, (const char *[]){h, c, y, NULL});
}

/* What one direction makes: h at each step, and at the last. */
struct scanned {
    const char *steps, *last;
};

static enum base_status add_scan(struct cell__making *making, const struct half *half,
                                 bool is_reverse, struct scanned *out)
{
    static const int64_t steps_axis = 1;
    struct cell__builder *builder = making->builder;
    const int64_t direction = is_reverse ? 1 : 0;
    const char *inputs[4] = {NULL, NULL, making->value, NULL};
    struct projected constants = {.b = NULL};
    Onnx__GraphProto *body = NULL;
    Onnx__NodeProto *node = NULL;
    BASE_TRY(add_transposed(making, half->w, &constants.w));
    BASE_TRY(add_transposed(making, half->r, &constants.r));
    BASE_TRY(add_transposed(making, half->p, &constants.p));
    if (half->b[0] != NULL) {
        BASE_TRY(add_sum(making, half, &constants.b));
    }
    BASE_TRY(add_zeros(making, half->output, &inputs[0]));
    BASE_TRY(add_zeros(making, half->hidden, &inputs[1]));
    BASE_TRY(add_body(making, &constants, &body));
    BASE_TRY(cell__build_node(builder, "Scan", inputs, 3, &node));
    *out = (struct scanned){.steps = node->output[2], .last = node->output[0]};
    BASE_TRY(cell__build_set_graph(builder, node, "body", body));
    BASE_TRY(cell__build_set_int(builder, node, "num_scan_inputs", 1));
    BASE_TRY(cell__build_set_ints(builder, node, "scan_input_axes", 1, &steps_axis));
    BASE_TRY(cell__build_set_ints(builder, node, "scan_output_axes", 1, &steps_axis));
    BASE_TRY(cell__build_set_ints(builder, node, "scan_input_directions", 1, &direction));
    return cell__build_set_ints(builder, node, "scan_output_directions", 1, &direction);
}

/* Both directions side by side in a row. */
static enum base_status join(const struct cell__making *making, const char *forward,
                             const char *backward, const char **out)
{
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(making->builder, "Concat", (const char *[]){forward, backward, NULL},
                              1, &node));
    *out = node->output[0];
    return cell__build_set_int(making->builder, node, "axis", -1);
}

static enum base_status add_projected(struct cell__making *making, const struct level *level)
{
    struct scanned forward = {NULL, NULL};
    struct scanned backward = {NULL, NULL};
    BASE_TRY(add_scan(making, &level->halves[0], false, &forward));
    if (level->directions == 2) {
        BASE_TRY(add_scan(making, &level->halves[1], true, &backward));
        BASE_TRY(join(making, forward.steps, backward.steps, &forward.steps));
        BASE_TRY(join(making, forward.last, backward.last, &forward.last));
    }
    making->value = forward.steps;
    making->last = forward.last;
    return BASE_OK;
}

/* ---- Levels ------------------------------------------------------------------------------- */

/* Both directions are of one shape, and what goes in is as wide as they need it. */
static enum base_status check_level(struct cell__making *making, const struct level *level)
{
    const struct half *first = &level->halves[0];
    const struct half *other = &level->halves[level->directions - 1];
    if (first->input != other->input || first->hidden != other->hidden ||
        first->output != other->output || first->is_reset_before != other->is_reset_before ||
        (first->p == NULL) != (other->p == NULL)) {
        return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                                "its two directions are of different sizes or kinds");
    }
    return cell__layer_width(making, first->w, first->input);
}

static enum base_status add_level(struct cell__making *making, const struct level *level)
{
    BASE_TRY(check_level(making, level));
    BASE_TRY(level->halves[0].p != NULL ? add_projected(making, level) : add_node(making, level));
    making->width = level->directions * level->halves[0].output;
    return BASE_OK;
}

static enum base_status add_torch(struct cell__making *making, struct level *level)
{
    level->directions = torch_tensor(making, "weight_ih", 0, true) != NULL ? 2 : 1;
    for (uint32_t k = 0; k == 0 || torch_tensor(making, "weight_ih", k, false) != NULL; k++) {
        for (uint32_t d = 0; d < level->directions; d++) {
            BASE_TRY(read_torch(making, level->unit, k, d == 1, &level->halves[d]));
        }
        BASE_TRY(add_level(making, level));
    }
    return BASE_OK;
}

static enum base_status add_keras(struct cell__making *making, struct level *level)
{
    struct cell__stored *forward = NULL;
    BASE_TRY(cell__layer_find(making, &keras_kernel, CELL__WAY_FORWARD, &forward));
    if (forward == NULL) {
        level->directions = 1;
        BASE_TRY(read_keras(making, level->unit, CELL__WAY_ONLY, &level->halves[0]));
        return add_level(making, level);
    }
    level->directions = 2;
    BASE_TRY(read_keras(making, level->unit, CELL__WAY_FORWARD, &level->halves[0]));
    BASE_TRY(read_keras(making, level->unit, CELL__WAY_BACKWARD, &level->halves[1]));
    return add_level(making, level);
}

enum base_status cell__layer_recurrent(struct cell__making *making)
{
    struct level level = {.unit = unit_of(making->layer->kind)};
    return torch_tensor(making, "weight_ih", 0, false) != NULL ? add_torch(making, &level)
                                                               : add_keras(making, &level);
}
