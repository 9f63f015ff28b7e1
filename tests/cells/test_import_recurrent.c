/* LSTM, GRU and RNN as definitions: operands, weights, variant, states and wiring of the chain that
 * each becomes; and that variants of one node compute the same. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { IN = 3, HIDDEN = 4, BATCH = 2, TIME = 5, SEED = 7 };

/* The three operators; loop tests take them by number. */
static const struct {
    const char *name;
    enum cell_op_kind kind;
    uint32_t n_states;
    const char *type_name;
} units[] = {
    {"LSTM", CELL_OP_LSTM, 2, "test/lstm"},
    {"GRU", CELL_OP_GRU, 1, "test/gru"},
    {"RNN", CELL_OP_RNN, 1, "test/rnn"},
};
enum { UNITS = 3, LSTM = 0, GRU = 1, RNN = 2 };

static struct onnx_builder builder;
static struct cell_registry *registry;
static struct cell_model *model;

/* ---- Models ------------------------------------------------------------------------------- */

/* x [time, batch, IN] and the weights of a unit; nodes are the case's. */
static void begin_opset(int unit, int64_t opset)
{
    const int64_t x[] = {-1, -1, IN};
    onnx_init(&builder, opset);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_add_weights(&builder, units[unit].name, IN, HIDDEN, SEED);
}

static void begin(int unit)
{
    begin_opset(unit, 17);
}

static void output(const char *name)
{
    const size_t n = builder.graph.n_output;
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[n]->type = NULL;
}

static void load(void)
{
    struct base_error error = {.message = ""};
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length, NULL}, "test", NULL, &model, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
}

static void end(void)
{
    cell_model_free(registry, model);
    cell_registry_free(registry);
    onnx_release(&builder);
}

/* The model of one node with these inputs, loaded; its outputs are y and, of each state, n<i>. */
static Onnx__NodeProto *add_node(int unit, const char *inputs)
{
    Onnx__NodeProto *node =
        onnx_node(&builder, units[unit].name, inputs, unit == LSTM ? "y n0 n1" : "y n0");
    output("y");
    output("n0");
    if (unit == LSTM) {
        output("n1");
    }
    return node;
}

static const struct cell_op *only_op(void)
{
    ck_assert_uint_eq(model->n_stages, 1);
    ck_assert_int_eq(model->stages[0].kind, CELL_STAGE_CHAIN);
    ck_assert_uint_eq(model->stages[0].type->def.n_ops, 1);
    return &model->stages[0].type->def.ops[0];
}

/* The weight is this constant of the file, element by element. */
static void expect_weight(const struct cell_weight *weight, const char *name, uint32_t rows,
                          uint32_t cols)
{
    const Onnx__TensorProto *found = NULL;
    for (size_t i = 0; i < builder.graph.n_initializer; i++) {
        if (strcmp(builder.graph.initializer[i]->name, name) == 0) {
            found = builder.graph.initializer[i];
        }
    }
    ck_assert_ptr_nonnull(found);
    ck_assert_int_eq(weight->dtype, CELL_F32);
    ck_assert_uint_eq(weight->rows, rows);
    ck_assert_uint_eq(weight->cols, cols);
    ck_assert_uint_eq(found->raw_data.len, (size_t)rows * cols * sizeof(float));
    ck_assert_mem_eq(weight->data, found->raw_data.data, found->raw_data.len);
}

/* ---- Definitions -------------------------------------------------------------------------- */

START_TEST(test_a_node_becomes_a_chain_of_its_operator)
{
    const uint32_t n = units[_i].n_states;
    const uint32_t rows = onnx_gates(units[_i].name) * HIDDEN;
    begin(_i);
    add_node(_i, "x w r b");
    load();
    const struct cell_op *op = only_op();
    const struct cell_def *def = &model->stages[0].type->def;
    ck_assert_str_eq(model->stages[0].type->name, units[_i].type_name);
    ck_assert_int_eq(op->kind, units[_i].kind);
    ck_assert_uint_eq(op->variant, 0);
    ck_assert_uint_eq(op->n_operands, 1 + n);
    ck_assert_uint_eq(op->n_weights, 3);
    expect_weight(&op->weights[0], "w", rows, IN);
    expect_weight(&op->weights[1], "r", rows, HIDDEN);
    expect_weight(&op->weights[2], "b", 1, 2 * rows);
    ck_assert_uint_eq(def->n_inputs, 1);
    ck_assert_uint_eq(def->n_states, n);
    ck_assert_uint_eq(def->n_values, 1 + 2 * n);
    ck_assert_uint_eq(def->values[0].width, IN);
    ck_assert_uint_eq(def->n_outputs, 1);
    ck_assert_uint_eq(def->outputs[0], op->result);
    ck_assert_uint_eq(op->operands[0], 0);
    for (uint32_t s = 0; s < n; s++) {
        ck_assert_uint_eq(def->values[1 + s].width, HIDDEN);
        ck_assert_uint_eq(op->operands[1 + s], 1 + s);
        ck_assert_uint_eq(def->state_next[s], op->result + s);
        ck_assert_int_eq(model->stages[0].init[s].kind, CELL_SOURCE_ZERO);
        ck_assert_int_eq(model->output_sources[1 + s][0].kind, CELL_SOURCE_LAST_STATE);
        ck_assert_uint_eq(model->output_sources[1 + s][0].index, s);
    }
    ck_assert_int_eq(model->output_sources[0][0].kind, CELL_SOURCE_EACH);
    end();
}
END_TEST

START_TEST(test_a_node_without_bias_has_two_weights)
{
    begin(_i);
    add_node(_i, "x w r");
    load();
    ck_assert_uint_eq(only_op()->n_weights, 2);
    end();
}
END_TEST

START_TEST(test_every_opset_reads_the_same)
{
    for (int64_t opset = 7; opset <= 22; opset++) {
        begin_opset(_i, opset);
        onnx_set_int(&builder, add_node(_i, "x w r b"), "hidden_size", HIDDEN);
        load();
        ck_assert_int_eq(only_op()->kind, units[_i].kind);
        end();
    }
}
END_TEST

/* A number for linear_before_reset, below 0 for none, and what becomes of it. */
static void expect_gru_variant(int64_t linear_before_reset, uint32_t wanted)
{
    begin(GRU);
    Onnx__NodeProto *node = add_node(GRU, "x w r b");
    onnx_set_strings(&builder, node, "activations", "sigmoid TANH");
    if (linear_before_reset >= 0) {
        onnx_set_int(&builder, node, "linear_before_reset", linear_before_reset);
    }
    load();
    ck_assert_uint_eq(only_op()->variant, wanted);
    end();
}

START_TEST(test_linear_before_reset_is_the_variant_of_a_gru)
{
    expect_gru_variant(-1, CELL_GRU_RESET_BEFORE);
    expect_gru_variant(0, CELL_GRU_RESET_BEFORE);
    expect_gru_variant(1, CELL_GRU_RESET_AFTER);
}
END_TEST

static void expect_rnn_variant(const char *activation, uint32_t wanted)
{
    begin(RNN);
    Onnx__NodeProto *node = add_node(RNN, "x w r b");
    onnx_set_strings(&builder, node, "activations", activation);
    onnx_set_float(&builder, node, "activation_alpha", 0.5f); // tanh and relu have none
    load();
    ck_assert_uint_eq(only_op()->variant, wanted);
    end();
}

START_TEST(test_the_activation_is_the_variant_of_an_rnn)
{
    expect_rnn_variant("Tanh", CELL_RNN_TANH);
    expect_rnn_variant("tanh", CELL_RNN_TANH);
    expect_rnn_variant("Relu", CELL_RNN_RELU);
    expect_rnn_variant("relu", CELL_RNN_RELU);
}
END_TEST

START_TEST(test_variants_are_types_of_their_own)
{
    begin(GRU);
    onnx_node(&builder, "GRU", "x w r b", "y n0");
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "x w r b", "z"), "linear_before_reset", 1);
    output("y");
    output("z");
    load();
    ck_assert_uint_eq(model->n_stages, 2);
    ck_assert_ptr_ne(model->stages[0].type, model->stages[1].type);
    ck_assert_str_eq(model->stages[0].type->name, "test/gru");
    ck_assert_str_eq(model->stages[1].type->name, "test/gru2");
    end();
}
END_TEST

START_TEST(test_peepholes_are_the_fourth_weight)
{
    begin(LSTM);
    add_node(LSTM, "x w r b - - - p");
    load();
    const struct cell_op *op = only_op();
    ck_assert_uint_eq(op->n_weights, 4);
    expect_weight(&op->weights[2], "b", 1, 8 * HIDDEN);
    expect_weight(&op->weights[3], "p", 1, 3 * HIDDEN);
    end();
}
END_TEST

START_TEST(test_peepholes_without_bias_bring_one_of_zeros)
{
    static const float zeros[8 * HIDDEN] = {0};
    begin(LSTM);
    add_node(LSTM, "x w r - - - - p");
    load();
    const struct cell_op *op = only_op();
    ck_assert_uint_eq(op->n_weights, 4);
    ck_assert_uint_eq(op->weights[2].rows, 1);
    ck_assert_uint_eq(op->weights[2].cols, 8 * HIDDEN);
    ck_assert_mem_eq(op->weights[2].data, zeros, sizeof(zeros));
    expect_weight(&op->weights[3], "p", 1, 3 * HIDDEN);
    end();
}
END_TEST

/* ---- Wiring ------------------------------------------------------------------------------- */

START_TEST(test_states_come_in_and_go_out)
{
    const int64_t state[] = {1, -1, HIDDEN};
    begin(_i);
    onnx_input(&builder, "s0", FLOAT, 3, state);
    onnx_input(&builder, "s1", FLOAT, 3, state);
    if (_i != LSTM) {
        builder.graph.n_input--;
    }
    add_node(_i, _i == LSTM ? "x w r b - s0 s1" : "x w r b - s0");
    load();
    (void)only_op();
    for (uint32_t s = 0; s < units[_i].n_states; s++) {
        ck_assert_int_eq(model->stages[0].init[s].kind, CELL_SOURCE_INPUT);
        ck_assert_uint_eq(model->stages[0].init[s].index, 1 + s);
        ck_assert_int_eq(model->inputs[1 + s].batch_axis, 1);
        ck_assert_int_eq(model->inputs[1 + s].time_axis, -1);
        ck_assert_int_eq(model->outputs[1 + s].batch_axis, 1);
        ck_assert_uint_eq(model->outputs[1 + s].width, HIDDEN);
    }
    end();
}
END_TEST

START_TEST(test_constant_states_come_from_a_stage_and_zeros_do_not)
{
    static const float zeros[BATCH * HIDDEN] = {0};
    const int64_t one[] = {1, 1, HIDDEN};
    const int64_t several[] = {1, BATCH, HIDDEN};
    struct base_random random;
    base_random_init(&random, 1);
    begin(_i);
    onnx_constant(&builder, "s", onnx_random(&builder, 3, one, &random, 0.5f));
    add_node(_i, "x w r b - s");
    load();
    ck_assert_uint_eq(model->n_stages, 2);
    ck_assert_int_eq(model->stages[0].kind, CELL_STAGE_ONCE);
    ck_assert_int_eq(model->stages[1].init[0].kind, CELL_SOURCE_LAST);
    end();
    begin(_i);
    onnx_constant(&builder, "s", onnx_tensor(&builder, FLOAT, 3, several, zeros, sizeof(zeros)));
    add_node(_i, "x w r b - s");
    load();
    (void)only_op();
    ck_assert_int_eq(model->stages[0].init[0].kind, CELL_SOURCE_ZERO);
    end();
}
END_TEST

START_TEST(test_sequence_lengths_are_an_input)
{
    const int64_t lengths[] = {-1};
    begin(_i);
    onnx_input(&builder, "lengths", INT64, 1, lengths);
    add_node(_i, "x w r b lengths");
    load();
    ck_assert(model->inputs[1].is_lengths);
    ck_assert_int_eq(model->inputs[1].batch_axis, 0);
    end();
}
END_TEST

START_TEST(test_an_embedding_stands_inside_the_chain)
{
    const int64_t tokens[] = {-1, -1};
    const int64_t table[] = {6, IN};
    struct base_random random;
    base_random_init(&random, 1);
    begin(_i);
    builder.graph.n_input = 0;
    onnx_input(&builder, "tokens", INT64, 2, tokens);
    onnx_constant(&builder, "table", onnx_random(&builder, 2, table, &random, 1.0f));
    onnx_node(&builder, "Gather", "table tokens", "embedded");
    add_node(_i, "embedded w r b");
    load();
    const struct cell_def *def = &model->stages[0].type->def;
    ck_assert_uint_eq(model->n_stages, 1);
    ck_assert_uint_eq(def->n_ops, 2);
    ck_assert_int_eq(def->ops[0].kind, CELL_OP_GATHER);
    ck_assert_int_eq(def->ops[1].kind, units[_i].kind);
    ck_assert_uint_eq(def->ops[1].operands[0], def->ops[0].result);
    ck_assert_uint_eq(def->ops[1].operands[1], 1);
    ck_assert_uint_eq(def->state_next[0], def->ops[1].result);
    ck_assert_int_eq(model->inputs[0].id_bound, 6);
    end();
}
END_TEST

/* Constants of one unit under other names, for a node that reads rows of HIDDEN. */
static void rename_weights(size_t from, const char *const *names)
{
    for (size_t i = from; i < builder.graph.n_initializer; i++) {
        size_t bytes = strlen(names[i - from]) + 1;
        char *name = base_arena_alloc(&builder.arena, bytes);
        ck_assert_ptr_nonnull(name);
        memcpy(name, names[i - from], bytes);
        builder.graph.initializer[i]->name = name;
    }
}

START_TEST(test_operators_may_be_mixed_in_one_model)
{
    static const char *const gru[] = {"gw", "gr", "gb"};
    static const char *const rnn[] = {"rw", "rr", "rb"};
    const int64_t axis = 1;
    begin(LSTM);
    onnx_constant(&builder, "axis", onnx_ints(&builder, 1, 1, &axis));
    size_t n = builder.graph.n_initializer;
    onnx_add_weights(&builder, "GRU", HIDDEN, HIDDEN, SEED);
    rename_weights(n, gru);
    n = builder.graph.n_initializer;
    onnx_add_weights(&builder, "RNN", HIDDEN, HIDDEN, SEED);
    rename_weights(n, rnn);
    onnx_node(&builder, "LSTM", "x w r b - - - p", "a - c");
    onnx_node(&builder, "Squeeze", "a axis", "as");
    onnx_node(&builder, "GRU", "as gw gr gb - c", "b2");
    onnx_node(&builder, "Squeeze", "b2 axis", "bs");
    onnx_node(&builder, "RNN", "bs rw rr rb", "- h");
    output("h");
    load();
    ck_assert_uint_eq(model->n_stages, 3);
    for (uint32_t s = 0; s < 3; s++) {
        ck_assert_str_eq(model->stages[s].type->name, units[s].type_name);
        ck_assert_uint_eq(model->stages[s].type->def.n_states, units[s].n_states);
    }
    ck_assert_int_eq(model->stages[1].inputs[0].kind, CELL_SOURCE_EACH);
    ck_assert_int_eq(model->stages[1].init[0].kind, CELL_SOURCE_LAST_STATE); // the LSTM's c
    ck_assert_uint_eq(model->stages[1].init[0].stage, 0);
    ck_assert_uint_eq(model->stages[1].init[0].index, 1);
    ck_assert_int_eq(model->output_sources[0][0].kind, CELL_SOURCE_LAST_STATE);
    ck_assert_uint_eq(model->output_sources[0][0].stage, 2);
    end();
}
END_TEST

/* ---- Directions --------------------------------------------------------------------------- */

/* The weights of two directions, under names of their own; both are as random as one. */
static void add_two_directions(int unit, uint32_t in, const char *w, const char *r, const char *b)
{
    const int64_t rows = (int64_t)onnx_gates(units[unit].name) * HIDDEN;
    const int64_t w_dims[] = {2, rows, in};
    const int64_t r_dims[] = {2, rows, HIDDEN};
    const int64_t b_dims[] = {2, 2 * rows};
    struct base_random random;
    base_random_init(&random, SEED);
    onnx_constant(&builder, w, onnx_random(&builder, 3, w_dims, &random, 0.5f));
    onnx_constant(&builder, r, onnx_random(&builder, 3, r_dims, &random, 0.5f));
    onnx_constant(&builder, b, onnx_random(&builder, 2, b_dims, &random, 0.5f));
}

START_TEST(test_a_reverse_node_is_a_chain_that_runs_backwards)
{
    begin(_i);
    onnx_set_string(&builder, add_node(_i, "x w r b"), "direction", "reverse");
    load();
    (void)only_op();
    ck_assert(model->stages[0].is_reverse);
    end();
    begin(_i);
    add_node(_i, "x w r b");
    load();
    ck_assert(!model->stages[0].is_reverse);
    end();
}
END_TEST

/* Both directions are chains with weights of their own; Y, h and c stand in two pieces. */
START_TEST(test_a_bidirectional_node_is_two_chains)
{
    const uint32_t rows = onnx_gates(units[_i].name) * HIDDEN;
    begin(_i);
    add_two_directions(_i, IN, "w2", "r2", "b2");
    onnx_set_string(&builder, add_node(_i, "x w2 r2 b2"), "direction", "bidirectional");
    load();
    ck_assert_uint_eq(model->n_stages, 2);
    const struct cell_op *forward = &model->stages[0].type->def.ops[0];
    const struct cell_op *reverse = &model->stages[1].type->def.ops[0];
    ck_assert(!model->stages[0].is_reverse && model->stages[1].is_reverse);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(reverse->weights[i].rows, forward->weights[i].rows);
        ck_assert_uint_eq(reverse->weights[i].cols, forward->weights[i].cols);
    }
    ck_assert_uint_eq(forward->weights[0].rows, rows);
    ck_assert_mem_ne(forward->weights[0].data, reverse->weights[0].data, IN * sizeof(float));
    ck_assert_int_eq(model->outputs[0].piece_axis, 1); // [time, directions, batch, hidden]
    ck_assert_int_eq(model->outputs[1].piece_axis, 0); // [directions, batch, hidden]
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        ck_assert_uint_eq(model->outputs[o].pieces, 2);
        ck_assert_uint_eq(model->outputs[o].width, 2 * HIDDEN);
        for (uint32_t d = 0; d < 2; d++) {
            ck_assert_uint_eq(model->output_sources[o][d].stage, d);
            ck_assert_int_eq(model->output_sources[o][d].kind,
                             o == 0 ? CELL_SOURCE_EACH : CELL_SOURCE_LAST_STATE);
        }
    }
    end();
}
END_TEST

/* Initial states [2, batch, hidden] are read piece by piece, each by its own direction. */
START_TEST(test_each_direction_has_its_own_initial_state)
{
    const int64_t state[] = {2, -1, HIDDEN};
    begin(GRU);
    add_two_directions(GRU, IN, "w2", "r2", "b2");
    onnx_input(&builder, "s0", FLOAT, 3, state);
    onnx_set_string(&builder, add_node(GRU, "x w2 r2 b2 - s0"), "direction", "bidirectional");
    load();
    ck_assert_int_eq(model->inputs[1].piece_axis, 0);
    ck_assert_uint_eq(model->inputs[1].pieces, 2);
    for (uint32_t d = 0; d < 2; d++) {
        ck_assert_int_eq(model->stages[d].init[0].kind, CELL_SOURCE_INPUT);
        ck_assert_uint_eq(model->stages[d].init[0].index, 1);
        ck_assert_uint_eq(model->stages[d].init[0].piece, d);
    }
    end();
}
END_TEST

/* The second layer's chains join both outputs of the first themselves: no stage stands between. */
START_TEST(test_a_second_layer_reads_both_directions_of_the_first)
{
    const int64_t perm[] = {0, 2, 1, 3};
    const int64_t shape[] = {0, 0, 2 * HIDDEN};
    begin(LSTM);
    add_two_directions(LSTM, IN, "w2", "r2", "b2");
    add_two_directions(LSTM, 2 * HIDDEN, "w3", "r3", "b3");
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 3, shape));
    Onnx__NodeProto *first = onnx_node(&builder, "LSTM", "x w2 r2 b2", "a");
    onnx_set_string(&builder, first, "direction", "bidirectional");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "a", "at"), "perm", 4, perm);
    onnx_node(&builder, "Reshape", "at shape", "as");
    Onnx__NodeProto *second = onnx_node(&builder, "LSTM", "as w3 r3 b3", "y");
    onnx_set_string(&builder, second, "direction", "bidirectional");
    output("y");
    load();
    ck_assert_uint_eq(model->n_stages, 4);
    for (uint32_t s = 2; s < 4; s++) {
        const struct cell_def *def = &model->stages[s].type->def;
        ck_assert_uint_eq(def->n_inputs, 2);
        ck_assert_uint_eq(def->n_ops, 2);
        ck_assert_int_eq(def->ops[0].kind, CELL_OP_CONCAT);
        ck_assert_int_eq(def->ops[1].kind, CELL_OP_LSTM);
        for (uint32_t d = 0; d < 2; d++) {
            ck_assert_int_eq(model->stages[s].inputs[d].kind, CELL_SOURCE_EACH);
            ck_assert_uint_eq(model->stages[s].inputs[d].stage, d);
        }
    }
    end();
}
END_TEST

/* ---- What they compute -------------------------------------------------------------------- */

/* Runs the model on x [TIME, BATCH, IN], or [BATCH, TIME, IN] where the batch stands first; the
 * last h of both is to be the same. */
static void run_last(double *out)
{
    struct replay_tensor x = {.rank = 3, .count = (size_t)TIME * BATCH * IN};
    struct replay_tensor outputs[CELL_TENSORS_MAX] = {{.rank = 0}};
    const bool is_batch_first = model->inputs[0].batch_axis == 0;
    x.dims[0] = is_batch_first ? BATCH : TIME;
    x.dims[1] = is_batch_first ? TIME : BATCH;
    x.dims[2] = IN;
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        size_t row = i / IN;
        size_t b = is_batch_first ? row / TIME : row % BATCH;
        size_t t = is_batch_first ? row % TIME : row / BATCH;
        x.data[i] = (double)((b * 31 + t * 17 + i % IN * 7) % 13) / 13.0 - 0.5;
    }
    replay_run(model, &x, outputs);
    ck_assert_uint_eq(outputs[1].count, (size_t)BATCH * HIDDEN);
    memcpy(out, outputs[1].data, outputs[1].count * sizeof(*out));
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        base_free(outputs[o].data);
    }
    base_free(x.data);
}

START_TEST(test_layout_1_computes_the_same_with_the_batch_first)
{
    double wanted[BATCH * HIDDEN];
    double got[BATCH * HIDDEN];
    begin(_i);
    add_node(_i, "x w r b");
    load();
    run_last(wanted);
    end();
    begin(_i);
    onnx_set_int(&builder, add_node(_i, "x w r b"), "layout", 1);
    load();
    ck_assert_int_eq(model->inputs[0].batch_axis, 0);
    ck_assert_int_eq(model->inputs[0].time_axis, 1);
    ck_assert_int_eq(model->outputs[0].batch_axis, 0);
    ck_assert_int_eq(model->outputs[0].time_axis, 1);
    ck_assert_int_eq(model->outputs[1].batch_axis, 0);
    run_last(got);
    end();
    for (size_t i = 0; i < (size_t)BATCH * HIDDEN; i++) {
        util_assert_close(got[i], wanted[i], 0, 0);
    }
}
END_TEST

START_TEST(test_peepholes_of_zeros_change_nothing)
{
    double wanted[BATCH * HIDDEN];
    double got[BATCH * HIDDEN];
    begin(LSTM);
    add_node(LSTM, "x w r");
    load();
    run_last(wanted);
    end();
    begin(LSTM);
    Onnx__TensorProto *p = builder.graph.initializer[builder.graph.n_initializer - 1];
    memset(p->raw_data.data, 0, p->raw_data.len);
    add_node(LSTM, "x w r - - - - p");
    load();
    run_last(got);
    end();
    for (size_t i = 0; i < (size_t)BATCH * HIDDEN; i++) {
        util_assert_close(got[i], wanted[i], 0, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_recurrent");
    TCase *definitions = tcase_create("definitions");
    TCase *wiring = tcase_create("wiring");
    TCase *directions = tcase_create("directions");
    TCase *results = tcase_create("results");
    tcase_add_loop_test(definitions, test_a_node_becomes_a_chain_of_its_operator, 0, UNITS);
    tcase_add_loop_test(definitions, test_a_node_without_bias_has_two_weights, 0, UNITS);
    tcase_add_loop_test(definitions, test_every_opset_reads_the_same, 0, UNITS);
    tcase_add_test(definitions, test_linear_before_reset_is_the_variant_of_a_gru);
    tcase_add_test(definitions, test_the_activation_is_the_variant_of_an_rnn);
    tcase_add_test(definitions, test_variants_are_types_of_their_own);
    tcase_add_test(definitions, test_peepholes_are_the_fourth_weight);
    tcase_add_test(definitions, test_peepholes_without_bias_bring_one_of_zeros);
    suite_add_tcase(suite, definitions);
    tcase_add_loop_test(wiring, test_states_come_in_and_go_out, 0, UNITS);
    tcase_add_loop_test(wiring, test_constant_states_come_from_a_stage_and_zeros_do_not, 0, UNITS);
    tcase_add_loop_test(wiring, test_sequence_lengths_are_an_input, 0, UNITS);
    tcase_add_loop_test(wiring, test_an_embedding_stands_inside_the_chain, 0, UNITS);
    tcase_add_test(wiring, test_operators_may_be_mixed_in_one_model);
    suite_add_tcase(suite, wiring);
    tcase_add_loop_test(directions, test_a_reverse_node_is_a_chain_that_runs_backwards, 0, UNITS);
    tcase_add_loop_test(directions, test_a_bidirectional_node_is_two_chains, 0, UNITS);
    tcase_add_test(directions, test_each_direction_has_its_own_initial_state);
    tcase_add_test(directions, test_a_second_layer_reads_both_directions_of_the_first);
    suite_add_tcase(suite, directions);
    tcase_add_loop_test(results, test_layout_1_computes_the_same_with_the_batch_first, 0, UNITS);
    tcase_add_test(results, test_peepholes_of_zeros_change_nothing);
    suite_add_tcase(suite, results);
    return util_run(suite);
}
