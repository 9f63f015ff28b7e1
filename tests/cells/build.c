/* See build.h. One thread. */
#include "tests/cells/build.h"

#include "base/assert.h"
#include "tests/seed.h"

#include <math.h>
#include <string.h>

void build_init(struct build *build, uint64_t salt)
{
    memset(&build->def, 0, sizeof(build->def));
    base_arena_init(&build->arena, 1u << 16, 1u << 30);
    build->random = util_random(salt);
}

void build_release(struct build *build)
{
    base_arena_release(&build->arena);
}

static uint32_t add_value(struct build *build, enum cell_dtype dtype, uint32_t width)
{
    base_assert(build->def.n_values < CELL_VALUES_MAX);
    build->def.values[build->def.n_values] = (struct cell_value){dtype, width};
    return build->def.n_values++;
}

uint32_t build_input(struct build *build, enum cell_dtype dtype, uint32_t width)
{
    base_assert(build->def.n_states == 0 && build->def.n_ops == 0);
    build->def.n_inputs++;
    return add_value(build, dtype, width);
}

uint32_t build_state(struct build *build, enum cell_dtype dtype, uint32_t width)
{
    base_assert(build->def.n_ops == 0);
    build->def.state_next[build->def.n_states] = build->def.n_values; // itself, until told
    build->def.n_states++;
    return add_value(build, dtype, width);
}

struct cell_op *build_last(struct build *build)
{
    return &build->def.ops[build->def.n_ops - 1];
}

static struct cell_op *add_op(struct build *build, enum cell_op_kind kind)
{
    base_assert(build->def.n_ops < CELL_OPS_MAX);
    struct cell_op *op = &build->def.ops[build->def.n_ops++];
    op->kind = kind;
    op->result = build->def.n_values;
    return op;
}

uint32_t build_op(struct build *build, enum cell_op_kind kind, uint32_t a, uint32_t b,
                  uint32_t width)
{
    struct cell_op *op = add_op(build, kind);
    op->n_operands = b == UINT32_MAX ? 1 : 2;
    op->operands[0] = a;
    op->operands[1] = b == UINT32_MAX ? 0 : b;
    op->group = cell_op_has_groups(kind) ? width : 0;
    return add_value(build, build->def.values[a].dtype, width);
}

uint32_t build_select(struct build *build, uint32_t condition, uint32_t a, uint32_t b,
                      uint32_t width)
{
    uint32_t value = build_op(build, CELL_OP_SELECT, condition, a, width);
    struct cell_op *op = build_last(build);
    op->operands[op->n_operands++] = b;
    return value;
}

uint32_t build_cast(struct build *build, uint32_t a, enum cell_dtype dtype)
{
    uint32_t value = build_op(build, CELL_OP_CAST, a, UINT32_MAX, build->def.values[a].width);
    build->def.values[value].dtype = dtype;
    return value;
}

uint32_t build_concat(struct build *build, uint32_t n, const uint32_t *operands)
{
    struct cell_op *op = add_op(build, CELL_OP_CONCAT);
    uint32_t width = 0;
    op->n_operands = n;
    for (uint32_t i = 0; i < n; i++) {
        op->operands[i] = operands[i];
        width += build->def.values[operands[i]].width;
    }
    return add_value(build, build->def.values[operands[0]].dtype, width);
}

float *build_floats(struct build *build, uint32_t rows, uint32_t cols, float scale)
{
    size_t n = (size_t)rows * cols;
    float *floats = base_arena_array(&build->arena, n, sizeof(float));
    base_assert(floats != NULL);
    for (size_t i = 0; i < n; i++) {
        floats[i] = base_random_f32(&build->random, -scale, scale);
    }
    return floats;
}

static void add_weight(struct build *build, struct cell_op *op, uint32_t rows, uint32_t cols,
                       float scale)
{
    op->weights[op->n_weights++] =
        (struct cell_weight){CELL_F32, rows, cols, build_floats(build, rows, cols, scale)};
}

uint32_t build_linear(struct build *build, uint32_t x, uint32_t width, bool has_bias)
{
    uint32_t inputs = build->def.values[x].width;
    struct cell_op *op = add_op(build, CELL_OP_LINEAR);
    op->n_operands = 1;
    op->operands[0] = x;
    add_weight(build, op, inputs, width, 2.0f / sqrtf((float)inputs));
    if (has_bias) {
        add_weight(build, op, 1, width, 1.0f);
    }
    return add_value(build, CELL_F32, width);
}

uint32_t build_patches(struct build *build, uint32_t x, uint32_t patches, uint32_t step,
                       uint32_t width)
{
    const uint32_t inputs = build->def.values[x].width - (patches - 1) * step;
    struct cell_op *op = add_op(build, CELL_OP_LINEAR);
    op->n_operands = 1;
    op->operands[0] = x;
    op->patches = patches;
    op->step = step;
    add_weight(build, op, inputs, width, 2.0f / sqrtf((float)inputs));
    add_weight(build, op, 1, width, 1.0f);
    return add_value(build, CELL_F32, patches * width);
}

uint32_t build_picture(struct build *build, uint32_t x, const struct cell_picture *picture,
                       uint32_t width)
{
    const uint32_t channels = build->def.values[x].width / (picture->size[0] * picture->size[1]);
    const uint32_t inputs = picture->taps[0] * picture->taps[1] * channels;
    struct cell_op *op = add_op(build, CELL_OP_LINEAR);
    op->n_operands = 1;
    op->operands[0] = x;
    op->picture = *picture;
    op->patches = picture->left[0] * picture->left[1];
    const uint32_t patches = op->patches;
    add_weight(build, op, inputs, width, 2.0f / sqrtf((float)inputs));
    add_weight(build, op, 1, width, 1.0f);
    return add_value(build, CELL_F32, patches * width);
}

uint32_t build_filter(struct build *build, uint32_t x, const struct cell_picture *picture,
                      uint32_t variant, bool has_bias)
{
    const uint32_t channels = build->def.values[x].width / (picture->size[0] * picture->size[1]);
    const uint32_t taps = picture->taps[0] * picture->taps[1];
    struct cell_op *op = add_op(build, CELL_OP_FILTER);
    op->n_operands = 1;
    op->operands[0] = x;
    op->picture = *picture;
    op->variant = variant;
    if (variant == CELL_FILTER_SUM) {
        add_weight(build, op, taps, channels, 2.0f / sqrtf((float)taps));
    }
    if (variant == CELL_FILTER_SUM && has_bias) {
        add_weight(build, op, 1, channels, 1.0f);
    }
    return add_value(build, CELL_F32, picture->left[0] * picture->left[1] * channels);
}

uint32_t build_transpose(struct build *build, uint32_t x, const uint32_t dims[3])
{
    struct cell_op *op = add_op(build, CELL_OP_TRANSPOSE);
    op->n_operands = 1;
    op->operands[0] = x;
    memcpy(op->dims, dims, sizeof(op->dims));
    return add_value(build, build->def.values[x].dtype, build->def.values[x].width);
}

uint32_t build_spread(struct build *build, uint32_t x, const uint32_t dims[3])
{
    struct cell_op *op = add_op(build, CELL_OP_SPREAD);
    op->n_operands = 1;
    op->operands[0] = x;
    memcpy(op->dims, dims, sizeof(op->dims));
    return add_value(build, build->def.values[x].dtype, build->def.values[x].width * dims[1]);
}

uint32_t build_gather(struct build *build, uint32_t id, uint32_t rows, uint32_t width)
{
    struct cell_op *op = add_op(build, CELL_OP_GATHER);
    op->n_operands = 1;
    op->operands[0] = id;
    const uint32_t ids = build->def.values[id].width;
    op->patches = ids > 1 ? ids : 0;
    add_weight(build, op, rows, width, 1.0f);
    return add_value(build, CELL_F32, ids * width);
}

uint32_t build_const(struct build *build, uint32_t width)
{
    struct cell_op *op = add_op(build, CELL_OP_CONST);
    add_weight(build, op, 1, width, 1.0f);
    return add_value(build, CELL_F32, width);
}

uint32_t build_numbers(struct build *build, uint32_t width, uint32_t below)
{
    struct cell_op *op = add_op(build, CELL_OP_CONST);
    int64_t *numbers = base_arena_array(&build->arena, width, sizeof(*numbers));
    base_assert(numbers != NULL);
    for (uint32_t i = 0; i < width; i++) {
        numbers[i] = (int64_t)base_random_below(&build->random, below);
    }
    op->n_weights = 1;
    op->weights[0] = (struct cell_weight){CELL_I64, 1, width, numbers};
    return add_value(build, CELL_I64, width);
}

uint32_t build_lstm(struct build *build, uint32_t x, uint32_t h, uint32_t c, bool has_bias)
{
    uint32_t inputs = build->def.values[x].width;
    uint32_t hidden = build->def.values[c].width;
    uint32_t feedback = build->def.values[h].width;
    float scale = 2.0f / sqrtf((float)(inputs + feedback));
    struct cell_op *op = add_op(build, CELL_OP_LSTM);
    op->n_operands = 3;
    op->operands[0] = x;
    op->operands[1] = h;
    op->operands[2] = c;
    add_weight(build, op, 4 * hidden, inputs, scale);
    add_weight(build, op, 4 * hidden, feedback, scale);
    if (has_bias) {
        add_weight(build, op, 1, 8 * hidden, 1.0f);
    }
    uint32_t h_out = add_value(build, CELL_F32, hidden);
    (void)add_value(build, CELL_F32, hidden);
    return h_out;
}

void build_peepholes(struct build *build)
{
    struct cell_op *op = build_last(build);
    base_assert(op->kind == CELL_OP_LSTM && op->n_weights == 3);
    add_weight(build, op, 1, op->weights[0].rows / 4 * 3, 1.0f);
}

uint32_t build_gated(struct build *build, enum cell_op_kind kind, uint32_t variant, uint32_t x,
                     uint32_t h, bool has_bias)
{
    uint32_t inputs = build->def.values[x].width;
    uint32_t hidden = build->def.values[h].width;
    uint32_t gates = cell_op_gates(kind);
    float scale = 2.0f / sqrtf((float)(inputs + hidden));
    struct cell_op *op = add_op(build, kind);
    op->variant = variant;
    op->n_operands = 2;
    op->operands[0] = x;
    op->operands[1] = h;
    add_weight(build, op, gates * hidden, inputs, scale);
    add_weight(build, op, gates * hidden, hidden, scale);
    if (has_bias) {
        add_weight(build, op, 1, 2 * gates * hidden, 1.0f);
    }
    return add_value(build, CELL_F32, hidden);
}

uint32_t build_gated_patches(struct build *build, const struct build_turns *turns)
{
    const bool is_lstm = turns->kind == CELL_OP_LSTM;
    const bool is_apart = turns->order == CELL_PATCHES_APART;
    const uint32_t inputs = build->def.values[turns->x].width / turns->patches;
    const uint32_t feedback = build->def.values[turns->h].width / (is_apart ? turns->patches : 1);
    const uint32_t rows = cell_op_gates(turns->kind) * turns->hidden;
    const float scale = 2.0f / sqrtf((float)(inputs + feedback));
    struct cell_op *op = add_op(build, turns->kind);
    op->variant = turns->variant;
    op->patches = turns->patches;
    op->order = turns->order;
    op->n_operands = is_lstm ? 3 : 2;
    op->operands[0] = turns->x;
    op->operands[1] = turns->h;
    op->operands[2] = is_lstm ? turns->c : 0;
    add_weight(build, op, rows, inputs, scale);
    add_weight(build, op, rows, feedback, scale);
    if (turns->has_bias) {
        add_weight(build, op, 1, 2 * rows, 1.0f);
    }
    const uint32_t out = add_value(build, CELL_F32, turns->patches * turns->hidden);
    if (is_lstm) {
        (void)add_value(build, CELL_F32, turns->patches * turns->hidden);
    }
    return out;
}

uint32_t build_tree(struct build *build, const struct build_tree *tree)
{
    const uint32_t gates = cell_op_gates(tree->kind);
    const uint32_t of_h = tree->kind == CELL_OP_TREE_BINARY ? 2 : tree->n_children > 0 ? 1 : 0;
    const float scale = 2.0f / sqrtf((float)tree->hidden);
    struct cell_op *op = add_op(build, tree->kind);
    if (tree->x != UINT32_MAX) {
        op->operands[op->n_operands++] = tree->x;
        add_weight(build, op, gates * tree->hidden, build->def.values[tree->x].width, scale);
    }
    for (uint32_t i = 0; i < 2 * tree->n_children; i++) {
        op->operands[op->n_operands++] = tree->children[i];
    }
    for (uint32_t i = 0; i < of_h; i++) {
        add_weight(build, op, gates * tree->hidden, tree->hidden, scale);
    }
    if (tree->has_bias) {
        add_weight(build, op, 1, gates * tree->hidden, 1.0f);
    }
    uint32_t h_out = add_value(build, CELL_F32, tree->hidden);
    (void)add_value(build, CELL_F32, tree->hidden);
    return h_out;
}

void build_tree_cell(struct build *build, struct build_tree tree, uint32_t inputs, uint64_t salt)
{
    build_init(build, salt);
    tree.x = inputs == 0 ? UINT32_MAX : build_input(build, CELL_F32, inputs);
    for (uint32_t i = 0; i < 2 * tree.n_children; i++) {
        tree.children[i] = build_input(build, CELL_F32, tree.hidden);
    }
    uint32_t h_out = build_tree(build, &tree);
    build_output(build, h_out);
    build_output(build, h_out + 1);
}

void build_next(struct build *build, uint32_t state, uint32_t value)
{
    build->def.state_next[state] = value;
}

void build_output(struct build *build, uint32_t value)
{
    base_assert(build->def.n_outputs < CELL_OUTPUTS_MAX);
    build->def.outputs[build->def.n_outputs++] = value;
}

void build_lstm_cell(struct build *build, uint32_t inputs, uint32_t hidden, uint64_t salt)
{
    build_init(build, salt);
    uint32_t x = build_input(build, CELL_F32, inputs);
    uint32_t h = build_state(build, CELL_F32, hidden);
    uint32_t c = build_state(build, CELL_F32, hidden);
    uint32_t h_out = build_lstm(build, x, h, c, true);
    build_next(build, 0, h_out);
    build_next(build, 1, h_out + 1);
    build_output(build, h_out);
}

static uint32_t slice(struct build *build, uint32_t of, uint32_t start, uint32_t width)
{
    uint32_t value = build_op(build, CELL_OP_SLICE, of, UINT32_MAX, width);
    build_last(build)->start = start;
    return value;
}

void build_own_cell(struct build *build, uint32_t inputs, uint32_t hidden, uint64_t salt)
{
    build_init(build, salt);
    uint32_t x = build_input(build, CELL_F32, inputs);
    uint32_t h = build_state(build, CELL_F32, hidden);
    uint32_t c = build_state(build, CELL_F32, hidden);
    uint32_t r = build_state(build, CELL_F32, hidden);
    uint32_t of_x = build_linear(build, x, 3 * hidden, true);
    uint32_t mean = build_op(build, CELL_OP_MEAN, of_x, UINT32_MAX, 1);
    uint32_t centred = build_op(build, CELL_OP_SUB, of_x, mean, 3 * hidden);
    uint32_t of_h = build_linear(build, h, 3 * hidden, false);
    uint32_t sum = build_op(build, CELL_OP_ADD, centred, of_h, 3 * hidden);
    uint32_t squashed = build_op(build, CELL_OP_SIGMOID, centred, UINT32_MAX, 3 * hidden);
    uint32_t rnn = build_gated(build, CELL_OP_RNN, CELL_RNN_TANH,
                               slice(build, squashed, hidden, hidden), r, true);
    uint32_t gate =
        build_op(build, CELL_OP_SIGMOID, slice(build, sum, 0, hidden), UINT32_MAX, hidden);
    uint32_t part = build_op(build, CELL_OP_ADD, slice(build, of_x, hidden, hidden),
                             slice(build, sum, 2 * hidden, hidden), hidden);
    uint32_t fresh = build_op(build, CELL_OP_SIGMOID, part, UINT32_MAX, hidden);
    uint32_t kept = build_op(build, CELL_OP_MUL, gate, c, hidden);
    uint32_t next = build_op(build, CELL_OP_ADD, kept, fresh, hidden);
    uint32_t out = build_op(build, CELL_OP_MUL, next, rnn, hidden);
    uint32_t alone = build_linear(build, x, 5, true);
    build_next(build, 0, out);
    build_next(build, 1, next);
    build_next(build, 2, rnn);
    build_output(build, build_concat(build, 2, (const uint32_t[]){of_x, out}));
    build_output(build, alone);
    build_output(build, next);
}
