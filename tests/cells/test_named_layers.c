/* Models of named layers: which tensors a layer finds, what it makes of them, and what is said of
 * tensors that are missing, too many, or do not fit. That the numbers are right is told by
 * tests/server/test_safetensors_model.c. */
#include "base/mem.h"
#include "cells/import/layer.h"
#include "tests/cells/parse.h"
#include "tests/cells/stored.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LSTM_6_4  "rnn.weight_ih_l0=16 6;rnn.weight_hh_l0=16 4"
#define BIAS_4    ";rnn.bias_ih_l0=16;rnn.bias_hh_l0=16"
#define KERAS_6_4 "rnn/kernel=6 12;rnn/recurrent_kernel=4 12"

static struct cell_registry *registry;
static struct stored_file file;
static struct cell_model *model;
static struct base_error error;

static void setup(void)
{
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    stored_init(&file);
    model = NULL;
}

static void teardown(void)
{
    cell_model_free(registry, model);
    cell_registry_free(registry);
    stored_release(&file);
}

/* Adds tensors NAME=SHAPE, with ; between. */
static void add_tensors(const char *tensors)
{
    while (*tensors != '\0') {
        char text[192];
        const size_t length = strcspn(tensors, ";");
        ck_assert_uint_lt(length, sizeof(text));
        memcpy(text, tensors, length);
        text[length] = '\0';
        char *shape = strchr(text, '=');
        ck_assert_ptr_nonnull(shape);
        *shape = '\0';
        stored_add(&file, text, shape + 1);
        tensors += length + (tensors[length] == ';' ? 1 : 0);
    }
}

static enum base_status load(const char *tensors, const char *layers)
{
    stored_release(&file);
    stored_init(&file);
    add_tensors(tensors);
    cell_model_free(registry, model);
    model = NULL;
    error.message[0] = '\0';
    return stored_load(registry, stored_file(&file), layers, &model, &error);
}

static void expect_loaded(const char *tensors, const char *layers)
{
    ck_assert_msg(load(tensors, layers) == BASE_OK, "%s of %s: %s", layers, tensors, error.message);
}

/* ---- What is made ------------------------------------------------------------------------- */

START_TEST(test_a_classifier_of_ids)
{
    expect_loaded("embed.weight=20 6;" LSTM_6_4 BIAS_4 ";fc.weight=3 4;fc.bias=3",
                  "embedding:embed,lstm:rnn,last,linear:fc,log_softmax");
    ck_assert_uint_eq(model->n_inputs, 1);
    const struct cell_tensor *input = &model->inputs[0];
    ck_assert_str_eq(input->name, "input");
    ck_assert_int_eq(input->dtype, CELL_I64);
    ck_assert_uint_eq(input->rank, 2);
    ck_assert_int_eq(input->batch_axis, 0);
    ck_assert_int_eq(input->time_axis, 1);
    ck_assert_int_eq(input->id_bound, 20);
    ck_assert_uint_eq(model->n_outputs, 1);
    const struct cell_tensor *output = &model->outputs[0];
    ck_assert_str_eq(output->name, "output");
    ck_assert_int_eq(output->dtype, CELL_F32);
    ck_assert_uint_eq(output->rank, 2);
    ck_assert_int_eq(output->dims[0], CELL_DIM_ANY);
    ck_assert_int_eq(output->dims[1], 3);
    ck_assert_str_eq(model->producer, "safetensors");
    ck_assert_uint_eq(model->n_stages, 2);
    const struct cell_def *chain = &model->stages[0].type->def;
    ck_assert_int_eq(model->stages[0].kind, CELL_STAGE_CHAIN);
    ck_assert_uint_eq(chain->n_ops, 2);
    ck_assert_int_eq(chain->ops[0].kind, CELL_OP_GATHER);
    ck_assert_int_eq(chain->ops[1].kind, CELL_OP_LSTM);
    const struct cell_def *head = &model->stages[1].type->def;
    ck_assert_int_eq(model->stages[1].kind, CELL_STAGE_ONCE);
    ck_assert_uint_eq(head->n_ops, 2);
    ck_assert_int_eq(head->ops[0].kind, CELL_OP_LINEAR);
    ck_assert_int_eq(head->ops[1].kind, CELL_OP_LOG_SOFTMAX);
    ck_assert_ptr_null(model->options.layers); // the caller's
}
END_TEST

/* A state_dict of a bare nn.LSTM: names that stand alone. */
START_TEST(test_stacks_and_directions_are_found_by_the_tensors)
{
    expect_loaded("weight_ih_l0=16 6;weight_hh_l0=16 4;weight_ih_l0_reverse=16 6;"
                  "weight_hh_l0_reverse=16 4;weight_ih_l1=16 8;weight_hh_l1=16 4;"
                  "weight_ih_l1_reverse=16 8;weight_hh_l1_reverse=16 4",
                  "lstm");
    uint32_t n_reverse = 0;
    uint32_t n_chains = 0;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        n_chains += model->stages[s].kind == CELL_STAGE_CHAIN ? 1 : 0;
        n_reverse += model->stages[s].is_reverse ? 1 : 0;
    }
    ck_assert_uint_eq(n_chains, 4);
    ck_assert_uint_eq(n_reverse, 2);
    ck_assert_int_eq(model->inputs[0].dtype, CELL_F32);
    ck_assert_uint_eq(model->inputs[0].rank, 3);
    ck_assert_int_eq(model->inputs[0].dims[2], 6);
    ck_assert_int_eq(model->outputs[0].dims[2], 8);
}
END_TEST

START_TEST(test_each_kind_of_layer)
{
    static const struct {
        const char *tensors, *layers;
        uint32_t rank;
        int64_t width;
    } good[] = {
        {LSTM_6_4, "lstm:rnn", 3, 4},
        {LSTM_6_4 BIAS_4, "lstm:rnn,relu,tanh,sigmoid,softmax", 3, 4},
        {LSTM_6_4, "relu,lstm:rnn,last", 2, 4},
        {LSTM_6_4, "lstm:rnn,mean,softmax", 2, 4},
        {LSTM_6_4, "lstm:rnn,max", 2, 4},
        {LSTM_6_4, "lstm:rnn,tanh,last,tanh", 2, 4},
        {"rnn.weight_ih_l0=16 6;rnn.weight_hh_l0=16 3;rnn.weight_hr_l0=3 4", "lstm:rnn,last", 2, 3},
        {"rnn.weight_ih_l0=12 6;rnn.weight_hh_l0=12 4", "gru:rnn", 3, 4},
        {"rnn.weight_ih_l0=4 6;rnn.weight_hh_l0=4 4", "rnn:rnn", 3, 4},
        {"rnn.weight_ih_l0=4 6;rnn.weight_hh_l0=4 4", "rnn_relu:rnn", 3, 4},
        {"a.weight=6 5;" LSTM_6_4, "linear:a,lstm:rnn", 3, 4},
        {"a.weight=6;" LSTM_6_4, "layer_norm:a,lstm:rnn,layer_norm", 3, 4},
        {"a.weight=6;a.bias=6;" LSTM_6_4, "layer_norm:a,lstm:rnn", 3, 4},
        {LSTM_6_4 ";a/kernel=4 9;a/bias=9", "lstm:rnn,linear:a", 3, 9},
        {LSTM_6_4 ";a.b/c.weight=9 4", "lstm:rnn,linear:a.b/c", 3, 9},
        {KERAS_6_4 ";rnn/bias=12", "gru:rnn", 3, 4},
        {KERAS_6_4 ";rnn/bias=2 12", "gru:rnn,last", 2, 4},
        {"rnn/kernel=6 4;rnn/recurrent_kernel=4 4", "rnn:rnn", 3, 4},
        {"x.cell.kernel=6 16;x.cell.recurrent_kernel=4 16;x.cell.bias=16", "lstm:x", 3, 4},
        {"x/lstm_cell_12/kernel:0=6 16;x/lstm_cell_12/recurrent_kernel:0=4 16", "lstm:x", 3, 4},
        {"x/cell/vars/0=6 16;x/cell/vars/1=4 16;x/cell/vars/2=16", "lstm:x", 3, 4},
        {"x/forward_a/kernel=6 16;x/forward_a/recurrent_kernel=4 16;"
         "x/backward_a/kernel=6 16;x/backward_a/recurrent_kernel=4 16",
         "lstm:x,last", 2, 8},
        {"w/embeddings=9 6;" LSTM_6_4, "embedding:w,lstm:rnn", 3, 4},
        {"n/gamma=6;n/beta=6;" LSTM_6_4, "layer_norm:n,lstm:rnn", 3, 4},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        expect_loaded(good[i].tensors, good[i].layers);
        ck_assert_uint_eq(model->outputs[0].rank, good[i].rank);
        ck_assert_int_eq(model->outputs[0].dims[good[i].rank - 1], good[i].width);
    }
}
END_TEST

/* What PyTorch would call this part of an ONNX constant: gates in its own order. */
static void add_gates(const Onnx__TensorProto *constant, size_t first_gate, const uint8_t *torch,
                      size_t gates, const char *name, const char *shape)
{
    const size_t bytes = constant->raw_data.len / (constant->n_dims == 2 ? 2 * gates : gates);
    uint8_t *ordered = base_alloc(gates * bytes);
    for (size_t g = 0; g < gates; g++) {
        memcpy(ordered + torch[g] * bytes, constant->raw_data.data + (first_gate + g) * bytes,
               bytes);
    }
    stored_add_bytes(&file, name, "F32", shape, ordered, gates * bytes);
    base_free(ordered);
}

START_TEST(test_a_model_saved_both_ways_has_one_cell)
{
    static const struct {
        const char *op, *layers;
        uint32_t gates;
        uint8_t torch[4];
        const char *shapes[3];
    } units[] = {{"LSTM", "lstm:rnn", 4, {0, 3, 1, 2}, {"16 6", "16 4", "16"}},
                 {"GRU", "gru:rnn", 3, {1, 0, 2}, {"12 6", "12 4", "12"}},
                 {"RNN", "rnn:rnn", 1, {0}, {"4 6", "4 4", "4"}}};
    const uint32_t gates = units[_i].gates;
    const uint8_t *torch = units[_i].torch;
    struct onnx_builder builder;
    size_t length = 0;
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 3, (int64_t[]){-1, -1, 6});
    onnx_add_weights(&builder, units[_i].op, 6, 4, 1);
    Onnx__NodeProto *node = onnx_node(&builder, units[_i].op, "x w r b", "y");
    onnx_set_int(&builder, node, "hidden_size", 4);
    if (gates == 3) {
        onnx_set_int(&builder, node, "linear_before_reset", 1);
    }
    onnx_output(&builder, "y", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 4, (int64_t[]){-1, 1, -1, 4});
    const uint8_t *bytes = onnx_pack(&builder, &length);
    struct cell_model *exported = NULL;
    ck_assert_int_eq(cell_model_parse(registry, (struct cell_model_file){bytes, length, NULL},
                                      "onnx", NULL, &exported, &error),
                     BASE_OK);
    add_gates(constant_of(&builder, "w"), 0, torch, gates, "rnn.weight_ih_l0", units[_i].shapes[0]);
    add_gates(constant_of(&builder, "r"), 0, torch, gates, "rnn.weight_hh_l0", units[_i].shapes[1]);
    add_gates(constant_of(&builder, "b"), 0, torch, gates, "rnn.bias_ih_l0", units[_i].shapes[2]);
    add_gates(constant_of(&builder, "b"), gates, torch, gates, "rnn.bias_hh_l0",
              units[_i].shapes[2]);
    ck_assert_msg(stored_load(registry, stored_file(&file), units[_i].layers, &model, &error) ==
                      BASE_OK,
                  "%s", error.message);
    ck_assert_ptr_eq(model->stages[0].type, exported->stages[0].type);
    cell_model_free(registry, exported);
    onnx_release(&builder);
}
END_TEST

START_TEST(test_a_tensor_may_be_of_two_layers)
{
    expect_loaded("embed.weight=20 4;rnn.weight_ih_l0=16 4;rnn.weight_hh_l0=16 4",
                  "embedding:embed,lstm:rnn,linear:embed");
    ck_assert_int_eq(model->outputs[0].dims[2], 20);
}
END_TEST

/* ---- Types -------------------------------------------------------------------------------- */

static double value_of_half(uint32_t half)
{
    const int exponent = (int)(half >> 10 & 0x1f);
    const double fraction = half & 0x3ff;
    const double size =
        exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25);
    return (half & 0x8000) != 0 ? -size : size;
}

START_TEST(test_every_half_is_widened_exactly)
{
    static uint16_t halves[1 << 16];
    struct base_arena arena;
    const struct cell__stored stored[2] = {
        {.name = "h", .encoding = CELL__ENCODING_F16, .count = 1 << 16, .bytes = (void *)halves},
        {.name = "b", .encoding = CELL__ENCODING_BF16, .count = 1 << 16, .bytes = (void *)halves}};
    const struct cell_layer layer = {"linear", "x"};
    base_arena_init(&arena, 1 << 16, 1 << 20);
    const struct cell__making making = {.arena = &arena, .error = &error, .layer = &layer};
    const float *floats[2] = {NULL, NULL};
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 1 << 16; i++) {
        halves[i] = (uint16_t)i;
    }
    ck_assert_int_eq(cell__layer_floats(&making, &stored[0], &floats[0]), BASE_OK);
    ck_assert_int_eq(cell__layer_floats(&making, &stored[1], &floats[1]), BASE_OK);
    for (uint32_t i = 0; i < 1 << 16; i++) {
        uint32_t bits[2];
        memcpy(&bits[0], &floats[0][i], sizeof(bits[0]));
        memcpy(&bits[1], &floats[1][i], sizeof(bits[1]));
        const bool is_finite = (i >> 10 & 0x1f) != 0x1f;
        const bool is_sign_kept = bits[0] >> 31 == i >> 15;
        const bool is_same = is_finite          ? (double)floats[0][i] == value_of_half(i)
                             : (i & 0x3ff) == 0 ? isinf(floats[0][i]) != 0
                                                : isnan(floats[0][i]) != 0;
        wrong += is_sign_kept && is_same && bits[1] == i << 16 ? 0 : 1;
    }
    ck_assert_uint_eq(wrong, 0);
    base_arena_release(&arena);
}
END_TEST

START_TEST(test_states_of_random_generators_are_passed_over)
{
    add_tensors("x/cell/vars/0=6 16;x/cell/vars/1=4 16");
    stored_add_bytes(&file, "x/cell/seed_generator/vars/0", "U32", "2", "\0\0\0\0\0\0\0\0", 8);
    stored_add_bytes(&file, "seed_generator.state", "U32", "", "\0\0\0\0", 4);
    ck_assert_msg(stored_load(registry, stored_file(&file), "lstm:x", &model, &error) == BASE_OK,
                  "%s", error.message);
    ck_assert_int_eq(load("x/cell/vars/0=6 16;x/cell/vars/1=4 16;my_seed_generator/x=2;"
                          "x/seed_generators/y=1;seed_generator=1",
                          "lstm:x"),
                     BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "uses: my_seed_generator/x, x/seed_generators/y, "
                                                "seed_generator"));
}
END_TEST

START_TEST(test_other_types_are_refused_by_name)
{
    static const char zeros[16 * 8];
    stored_add(&file, "rnn.weight_ih_l0", "16 6");
    stored_add(&file, "rnn.weight_hh_l0", "16 4");
    stored_add(&file, "rnn.bias_ih_l0", "16");
    stored_add_bytes(&file, "rnn.bias_hh_l0", "F64", "16", zeros, sizeof(zeros));
    ck_assert_int_eq(stored_load(registry, stored_file(&file), "lstm:rnn", &model, &error),
                     BASE_UNIMPLEMENTED);
    ck_assert_str_eq(error.message, "layer 1 (lstm:rnn): tensor \"rnn.bias_hh_l0\" is of type F64; "
                                    "read are F32, F16 and BF16");
}
END_TEST

START_TEST(test_weights_that_are_not_finite)
{
    static const uint16_t infinite[4 * 3] = {0x7c00};
    stored_add(&file, "rnn.weight_ih_l0", "16 6");
    stored_add(&file, "rnn.weight_hh_l0", "16 4");
    stored_add_bytes(&file, "fc.weight", "F16", "3 4", infinite, sizeof(infinite));
    ck_assert_int_eq(
        stored_load(registry, stored_file(&file), "lstm:rnn,linear:fc", &model, &error),
        BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "finite") != NULL, "%s", error.message);
}
END_TEST

/* ---- Refusals ----------------------------------------------------------------------------- */

START_TEST(test_what_is_refused)
{
    static const char *const bad[][3] = {
        // Layers.
        {LSTM_6_4, "", "0 layers; from 1 to 64"},
        {LSTM_6_4, "lsmt:rnn", "layer 1 (lsmt:rnn): no such layer; there are embedding, lstm, gru"},
        {LSTM_6_4, "LSTM:rnn", "no such layer"},
        {LSTM_6_4, "lstm:rnn,relu:rnn", "layer 2 (relu:rnn): has no tensors to be named"},
        {LSTM_6_4, "lstm:rnn,last,last", "layer 3 (last): there are no steps behind last, mean or"},
        {LSTM_6_4, "lstm:rnn,mean,lstm:rnn", "layer 3 (lstm:rnn): there are no steps"},
        {"e.weight=9 6;" LSTM_6_4, "lstm:rnn,embedding:e", "layer 2 (embedding:e): takes ids, so"},
        {"", "relu", "no layer has tensors, which would tell how wide rows of the input are"},
        {"", "layer_norm", "neither its tensors nor a layer before tell how wide rows are"},
        // Names.
        {LSTM_6_4, "lstm:rrn",
         "layer 1 (lstm:rrn): there is no tensor \"rrn.weight_ih_l0\" (PyTorch) or \"rrn/kernel\" "
         "(Keras); there are: rnn.weight_ih_l0, rnn.weight_hh_l0"},
        {LSTM_6_4, "lstm", "there is no tensor \"weight_ih_l0\" (PyTorch) or \"kernel\" (Keras)"},
        {LSTM_6_4, "lstm:rn", "no tensor \"rn.weight_ih_l0\""},
        {"rnn.weight_ih_l0=16 6", "lstm:rnn", "there is no tensor \"rnn.weight_hh_l0\"; there are"},
        {LSTM_6_4 ";rnn.bias_ih_l0=16", "lstm:rnn", "there is no tensor \"rnn.bias_hh_l0\""},
        {LSTM_6_4 ";rnn.weight_ih_l0_reverse=16 6", "lstm:rnn",
         "there is no tensor \"rnn.weight_hh_l0_reverse\""},
        {LSTM_6_4 ";rnn.weight_ih_l1=16 4", "lstm:rnn", "there is no tensor \"rnn.weight_hh_l1\""},
        {"rnn/kernel=6 16", "lstm:rnn", "there is no tensor \"rnn.recurrent_kernel\""},
        {LSTM_6_4, "lstm:rnn,linear:fc", "no tensor \"fc.weight\" (PyTorch) or \"fc/kernel\""},
        {LSTM_6_4, "lstm:rnn,layer_norm:n", "no tensor \"n.weight\" (PyTorch) or \"n/gamma\""},
        {"x/a_cell/kernel=6 16;x/b_cell/kernel=6 16", "lstm:x",
         "both \"x/a_cell/kernel\" and \"x/b_cell/kernel\" could be its kernel"},
        {LSTM_6_4 ";fc.weight=3 4;fc/kernel=4 3", "lstm:rnn,linear:fc", "could be its kernel"},
        // What nobody uses.
        {LSTM_6_4 BIAS_4 ";fc.weight=3 4", "lstm:rnn", "tensors that no layer uses: fc.weight"},
        {LSTM_6_4 ";rnn.weight_ih_l2=16 4;more=1", "lstm:rnn",
         "tensors that no layer uses: rnn.weight_ih_l2, more"},
        {LSTM_6_4 ";rnn.bias_hh_l0=16", "lstm:rnn", "no layer uses: rnn.bias_hh_l0"},
        {"rnn.weight_ih_l0=12 6;rnn.weight_hh_l0=12 4;rnn.weight_hr_l0=3 4", "gru:rnn",
         "no layer uses: rnn.weight_hr_l0"},
        // Shapes.
        {"rnn.weight_ih_l0=18 6;rnn.weight_hh_l0=18 4", "lstm:rnn",
         "tensor \"rnn.weight_ih_l0\" is [18, 6]; the others ask for [16, 6]"},
        {"rnn.weight_ih_l0=16 6;rnn.weight_hh_l0=16 5", "lstm:rnn",
         "tensor \"rnn.weight_hh_l0\" is [16, 5]; the others ask for [16, 4]"},
        {"rnn.weight_ih_l0=16;rnn.weight_hh_l0=16 4", "lstm:rnn",
         "tensor \"rnn.weight_ih_l0\" is [16]; needed are two dimensions above 0"},
        {"rnn.weight_ih_l0=16 0;rnn.weight_hh_l0=16 4", "lstm:rnn", "two dimensions above 0"},
        {"rnn.weight_ih_l0=3 6;rnn.weight_hh_l0=3 4", "lstm:rnn", "is [3, 6]; the others ask"},
        {LSTM_6_4 ";rnn.bias_ih_l0=15;rnn.bias_hh_l0=16", "lstm:rnn",
         "tensor \"rnn.bias_ih_l0\" is [15]; the others ask for [16]"},
        {LSTM_6_4 ";rnn.bias_ih_l0=16;rnn.bias_hh_l0=1 16", "lstm:rnn",
         "\"rnn.bias_hh_l0\" is [1,"},
        {LSTM_6_4 ";rnn.weight_hr_l0=3 4", "lstm:rnn",
         "tensor \"rnn.weight_hh_l0\" is [16, 4]; the others ask for [16, 3]"},
        {LSTM_6_4, "gru:rnn", "tensor \"rnn.weight_ih_l0\" is [16, 6]; the others ask for [15, 6]"},
        {LSTM_6_4 ";rnn.weight_ih_l1=16 5;rnn.weight_hh_l1=16 4", "lstm:rnn",
         "tensor \"rnn.weight_ih_l1\" takes rows of 5, and the layers before make rows of 4"},
        {LSTM_6_4 ";rnn.weight_ih_l0_reverse=8 6;rnn.weight_hh_l0_reverse=8 2", "lstm:rnn",
         "its two directions are of different sizes"},
        {"e.weight=9 5;" LSTM_6_4, "embedding:e,lstm:rnn",
         "layer 2 (lstm:rnn): tensor \"rnn.weight_ih_l0\" takes rows of 6, and the layers before "
         "make rows of 5"},
        {"e.weight=9;" LSTM_6_4, "embedding:e,lstm:rnn", "\"e.weight\" is [9]; needed are two"},
        {LSTM_6_4 ";fc.weight=3 5", "lstm:rnn,linear:fc", "\"fc.weight\" takes rows of 5"},
        {LSTM_6_4 ";fc.weight=3 4;fc.bias=4", "lstm:rnn,linear:fc", "\"fc.bias\" is [4]; the"},
        {LSTM_6_4 ";n.weight=5", "lstm:rnn,layer_norm:n", "\"n.weight\" takes rows of 5"},
        {LSTM_6_4 ";n.weight=2 2", "lstm:rnn,layer_norm:n", "\"n.weight\" is [2, 2]; the others"},
        {LSTM_6_4 ";n.weight=4;n.bias=5", "lstm:rnn,layer_norm:n", "\"n.bias\" is [5]"},
        {LSTM_6_4 ";n.bias=4", "lstm:rnn,layer_norm:n", "there is no tensor \"n.weight\""},
        // Keras.
        {KERAS_6_4, "gru:rnn", "a Keras GRU without a bias does not tell whether reset_after"},
        {KERAS_6_4 ";rnn/bias=2 11", "gru:rnn",
         "\"rnn/bias\" is [2, 11]; the others ask for [2, 12]"},
        {"rnn/kernel=6 16;rnn/recurrent_kernel=4 16;rnn/bias=2 16", "lstm:rnn",
         "\"rnn/bias\" is [2,"},
        {"x/forward_a/kernel=6 16;x/forward_a/recurrent_kernel=4 16", "lstm:x", "no tensor \"x."},
        // What the importer says.
        {"fc.weight=1 1048577", "linear:fc", "a row of 0, or of more than"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const enum base_status status = load(bad[i][0], bad[i][1]);
        const bool is_refused = status == BASE_INVALID_ARGUMENT || status == BASE_UNIMPLEMENTED;
        ck_assert_msg(is_refused && strstr(error.message, bad[i][2]) != NULL, "%s of %s: %s",
                      bad[i][1], bad[i][0], error.message);
    }
}
END_TEST

START_TEST(test_every_kind_is_documented)
{
    static const char begin[] = "there are ";
    char path[UTIL_PATH_BYTES];
    uint32_t n = 0;
    util_repo_path(path, "docs/safetensors.md");
    char *document = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(document);
    ck_assert_int_eq(load(LSTM_6_4, "none"), BASE_INVALID_ARGUMENT);
    const char *at = strstr(error.message, begin);
    ck_assert_ptr_nonnull(at);
    for (at += strlen(begin); *at != '\0'; n++) {
        char word[32];
        const int length = (int)strcspn(at, ", ");
        snprintf(word, sizeof(word), "`%.*s`", length, at);
        ck_assert_msg(strstr(document, word) != NULL, "docs/safetensors.md does not tell %s", word);
        at += length;
        at += strspn(at, ", ");
    }
    ck_assert_uint_eq(n, 15);
    base_free(document);
}
END_TEST

START_TEST(test_names_of_strangers_are_cut_in_messages)
{
    char name[1024];
    char layers[] = "lstm:rnn";
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (uint32_t i = 0; i < 40; i++) {
        char other[32];
        snprintf(other, sizeof(other), "extra\n%u", i);
        stored_add(&file, other, "1");
    }
    stored_add(&file, name, "1");
    add_tensors(LSTM_6_4);
    ck_assert_int_eq(stored_load(registry, stored_file(&file), layers, &model, &error),
                     BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "no layer uses: extra?0, extra?1, "));
    ck_assert_ptr_nonnull(strstr(error.message, " more"));
    ck_assert_uint_lt(strlen(error.message), 300);
}
END_TEST

START_TEST(test_too_many_layers)
{
    char layers[1024] = "lstm:rnn";
    for (uint32_t i = 1; i < 65; i++) {
        strncat(layers, ",relu", sizeof(layers) - strlen(layers) - 1);
    }
    ck_assert_int_eq(load(LSTM_6_4, layers), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "65 layers; from 1 to 64");
    layers[strlen(layers) - strlen(",relu")] = '\0';
    expect_loaded(LSTM_6_4, layers);
}
END_TEST

/* The same layer again and again makes more of a small file than its size allows. */
START_TEST(test_memory_follows_the_size_of_the_file)
{
    char layers[1024] = "linear:a";
    for (uint32_t i = 1; i < 64; i++) {
        strncat(layers, ",linear:a", sizeof(layers) - strlen(layers) - 1);
    }
    ck_assert_int_eq(load("a.weight=700 700", layers), BASE_RESOURCE_EXHAUSTED);
    ck_assert_str_ne(error.message, "");
}
END_TEST

START_TEST(test_when_allocations_fail)
{
    enum base_status status = BASE_INTERNAL;
    add_tensors("embed.weight=20 6;" LSTM_6_4 BIAS_4 ";fc.weight=3 4;fc.bias=3");
    const struct cell_model_file bytes = stored_file(&file);
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 1000);
        base_alloc_fail_at(n);
        status =
            stored_load(registry, bytes, "embedding:embed,lstm:rnn,last,linear:fc", &model, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert(status == BASE_OK || model == NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("named_layers");
    TCase *good = tcase_create("good");
    tcase_add_checked_fixture(good, setup, teardown);
    tcase_add_test(good, test_a_classifier_of_ids);
    tcase_add_test(good, test_stacks_and_directions_are_found_by_the_tensors);
    tcase_add_test(good, test_each_kind_of_layer);
    tcase_add_loop_test(good, test_a_model_saved_both_ways_has_one_cell, 0, 3);
    tcase_add_test(good, test_a_tensor_may_be_of_two_layers);
    tcase_add_test(good, test_every_half_is_widened_exactly);
    suite_add_tcase(suite, good);
    TCase *bad = tcase_create("bad");
    tcase_add_checked_fixture(bad, setup, teardown);
    tcase_add_test(bad, test_states_of_random_generators_are_passed_over);
    tcase_add_test(bad, test_other_types_are_refused_by_name);
    tcase_add_test(bad, test_weights_that_are_not_finite);
    tcase_add_test(bad, test_what_is_refused);
    tcase_add_test(bad, test_every_kind_is_documented);
    tcase_add_test(bad, test_names_of_strangers_are_cut_in_messages);
    tcase_add_test(bad, test_too_many_layers);
    tcase_add_test(bad, test_memory_follows_the_size_of_the_file);
    tcase_add_test(bad, test_when_allocations_fail);
    suite_add_tcase(suite, bad);
    return util_run(suite);
}
