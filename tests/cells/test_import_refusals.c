/* What the importer refuses, and how: every refusal names the operator and the node, or the tensor,
 * and the reason. Each case changes one thing in a model that is accepted. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
    BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
};

static struct onnx_builder builder;
static struct base_error last_error;

static void begin(uint32_t classes)
{
    struct onnx_lstm lstm = {.input = 2, .hidden = 2, .classes = classes, .layers = 1, .seed = 1};
    onnx_init(&builder, 17);
    onnx_add_lstm(&builder, &lstm);
}

/* The end of a case: refused with this status, where and why. */
static void expect(enum base_status wanted, const char *where, const char *why)
{
    enum base_status status = parse_built(&builder, &last_error);
    expect_error(status, &last_error, wanted, where, why);
}

static Onnx__NodeProto *node_of(const char *op)
{
    for (size_t i = 0; i < builder.graph.n_node; i++) {
        if (strcmp(builder.graph.node[i]->op_type, op) == 0) {
            return builder.graph.node[i];
        }
    }
    ck_abort_msg("no %s", op);
    return NULL;
}

/* A node behind the sequence s0 [time, batch, 2] whose result is the model's only output. */
static Onnx__NodeProto *behind(const char *op, const char *inputs)
{
    const int64_t any[1] = {-1};
    builder.graph.n_output = 0;
    onnx_output(&builder, "out", FLOAT, 0, any);
    builder.graph.output[0]->type = NULL; // says nothing about the shape
    return onnx_node(&builder, op, inputs, "out");
}

/* ---- LSTM --------------------------------------------------------------------------------- */

START_TEST(test_lstm_has_no_more_activations_than_functions)
{
    begin(0);
    onnx_set_strings(&builder, node_of("LSTM"), "activations", "sigmoid TANH tanh");
    expect_accepted(&builder);
    begin(0);
    onnx_set_strings(&builder, node_of("LSTM"), "activations", "Sigmoid");
    expect_accepted(&builder);
    begin(0);
    onnx_set_strings(&builder, node_of("LSTM"), "activations", "Sigmoid Relu Tanh");
    expect_accepted(&builder);
    begin(0);
    onnx_set_strings(&builder, node_of("LSTM"), "activations", "Sigmoid Tanh Tanh Sigmoid");
    expect(BASE_INVALID_ARGUMENT, "LSTM (node \"y0\"", "4 activations; at most 3");
}
END_TEST

START_TEST(test_lstm_variations_are_refused_by_name)
{
    begin(0);
    onnx_set_int(&builder, node_of("LSTM"), "layout", 2);
    expect(BASE_INVALID_ARGUMENT, "LSTM (node \"y0\"", "layout 2");
    begin(0);
    onnx_set_int(&builder, node_of("LSTM"), "colour", 2);
    expect(BASE_UNIMPLEMENTED, "LSTM (node \"y0\"", "attribute \"colour\"");
    begin(0);
    onnx_set_string(&builder, node_of("LSTM"), "input_forget", "no");
    expect(BASE_INVALID_ARGUMENT, "LSTM (node \"y0\"", "input_forget is not an integer");
}
END_TEST

START_TEST(test_lstm_inputs_are_checked)
{
    static char bias[] = "b0"; // 8 times the hidden size, where P has 3 times
    static char none[] = "";
    char *with_p[8] = {NULL};
    begin(0);
    Onnx__NodeProto *node = node_of("LSTM");
    memcpy(with_p, node->input, 4 * sizeof(with_p[0]));
    with_p[4] = with_p[5] = with_p[6] = none;
    with_p[7] = bias;
    node->input = with_p;
    node->n_input = 8;
    expect(
        BASE_INVALID_ARGUMENT, "LSTM (node \"y0\"",
        "P (\"b0\") is float32 [1, 16]; direction, input and hidden size ask for float32 [1, 6]");
    begin(0);
    constant_of(&builder, "r0")->dims[1] = 4;
    constant_of(&builder, "r0")->dims[2] = 4;
    expect(BASE_INVALID_ARGUMENT, "LSTM (node \"y0\"",
           "R (\"r0\") is float32 [1, 4, 4]; direction, input and");
    begin(0);
    node_of("LSTM")->n_input = 2;
    expect(BASE_INVALID_ARGUMENT, "LSTM (node \"y0\"", "2 inputs");
}
END_TEST

START_TEST(test_weights_that_come_with_the_request_are_refused)
{
    const int64_t w[] = {1, 8, 2};
    begin(0);
    constant_of(&builder, "w0")->name[0] = 'v'; // no constant of this name any more
    onnx_input(&builder, "w0", FLOAT, 3, w);
    expect(BASE_UNIMPLEMENTED, "LSTM (node \"y0\"", "the weights W depend on the request");
}
END_TEST

START_TEST(test_constant_sequence_lengths_are_refused)
{
    const int64_t lengths[] = {3};
    struct onnx_lstm lstm = {.input = 2, .hidden = 2, .layers = 1, .has_states = true, .seed = 1};
    onnx_init(&builder, 17);
    onnx_add_lstm(&builder, &lstm);
    onnx_constant(&builder, "lengths", onnx_ints(&builder, 1, 1, lengths));
    static char name[] = "lengths";
    node_of("LSTM")->input[4] = name;
    expect(BASE_UNIMPLEMENTED, "LSTM (node \"y0\"", "sequence_lens is a constant");
}
END_TEST

START_TEST(test_the_last_step_beside_sequence_lengths_is_refused)
{
    const int64_t lengths[] = {-1};
    const int64_t last = -1;
    begin(3);
    onnx_input(&builder, "lengths", INT64, 1, lengths);
    static char name[] = "lengths";
    Onnx__NodeProto *node = node_of("LSTM");
    char *inputs[5] = {node->input[0], node->input[1], node->input[2], node->input[3], name};
    node->input = inputs;
    node->n_input = 5;
    expect(BASE_UNIMPLEMENTED, "Gather (node \"last_step\"", "beside sequence_lens");
    begin(0);
    onnx_input(&builder, "lengths", INT64, 1, lengths);
    node = node_of("LSTM");
    memcpy(inputs, node->input, 4 * sizeof(inputs[0]));
    node->input = inputs;
    node->n_input = 5;
    onnx_constant(&builder, "last", onnx_ints(&builder, 0, 1, &last));
    onnx_node(&builder, "Gather", "time_major last", "x_last");
    onnx_output(&builder, "x_last", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
    expect_accepted(&builder); // of x, whose steps have no lengths
}
END_TEST

/* An LSTM over what rows with lengths of their own are not: turned round whole, or one row repeated
 * for as many steps as the file states. */
static void over_lengths(const char *op, const char *inputs)
{
    static char lens[] = "lengths";
    static char over[] = "over";
    const int64_t lengths[] = {-1};
    Onnx__NodeProto *node = node_of("LSTM");
    char **all = base_arena_array(&builder.arena, 5, sizeof(*all));
    ck_assert_ptr_nonnull(all);
    memcpy(all, node->input, 4 * sizeof(*all));
    onnx_input(&builder, lens, INT64, 1, lengths);
    onnx_node(&builder, op, inputs, over);
    Onnx__NodeProto *second = onnx_node(&builder, "LSTM", "over - -", "over_y");
    onnx_set_int(&builder, second, "hidden_size", 2);
    memcpy(&second->input[1], &node->input[1], 2 * sizeof(*all));
    all[4] = lens;
    node->input = all;
    node->n_input = 5;
    onnx_output(&builder, "over_y", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
}

START_TEST(test_turning_and_repeating_beside_sequence_lengths_is_refused)
{
    const int64_t turn[] = {-1, INT64_MIN, 0};
    const int64_t repeat[] = {5, 1, 2};
    begin(0);
    onnx_constant(&builder, "minus", onnx_ints(&builder, 1, 1, &turn[0]));
    onnx_constant(&builder, "all", onnx_ints(&builder, 1, 1, &turn[1]));
    onnx_constant(&builder, "time", onnx_ints(&builder, 1, 1, &turn[2]));
    over_lengths("Slice", "time_major minus all time minus");
    expect_accepted(&builder);                    // of x, whose steps have no lengths
    for (int64_t steps = 5; steps < 7; steps++) { // as many as are repeated, and one more
        begin(0);
        Onnx__TensorShapeProto__Dimension *time =
            builder.graph.input[0]->type->tensor_type->shape->dim[1];
        time->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        time->dim_value = steps;
        builder.graph.n_output = 0;
        onnx_output(&builder, "s0", FLOAT, 0, NULL);
        builder.graph.output[0]->type = NULL;
        static char last[] = "last_h";
        char *outputs[2] = {node_of("LSTM")->output[0], last};
        node_of("LSTM")->output = outputs;
        node_of("LSTM")->n_output = 2;
        onnx_constant(&builder, "repeat", onnx_ints(&builder, 1, 3, repeat));
        over_lengths("Expand", "last_h repeat");
        expect(BASE_UNIMPLEMENTED, "LSTM (node \"over_y\"",
               steps == 5 ? "another sequence_lens" : "the same at every step");
    }
}
END_TEST

/* LSTMs over n inputs of their own, beside the one that is there. */
static void add_sequences(uint32_t n, int64_t batch)
{
    const int64_t z[] = {-1, batch, 2};
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        char operands[32];
        char result[16];
        snprintf(name, sizeof(name), "z%u", i);
        snprintf(operands, sizeof(operands), "z%u w0 r0", i);
        snprintf(result, sizeof(result), "other%u", i);
        onnx_input(&builder, name, FLOAT, 3, z);
        onnx_node(&builder, "LSTM", operands, result);
        onnx_output(&builder, result, FLOAT, 3, z);
        builder.graph.output[builder.graph.n_output - 1]->type = NULL;
    }
}

static void set_name(uint32_t input, uint32_t k, char *name)
{
    Onnx__TensorShapeProto__Dimension *dim =
        builder.graph.input[input]->type->tensor_type->shape->dim[k];
    dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    dim->dim_param = name;
}

/* An input of which nothing says what its axes are, but that they have the names of another's. */
START_TEST(test_axes_of_one_name_are_equal)
{
    static char batch[] = "rows";
    static char time[] = "steps";
    static char other[] = "others";
    const int64_t z[] = {-1, -1, 2};
    for (uint32_t i = 0; i < 2; i++) {
        struct built built;
        begin(0);
        set_name(0, 0, batch);
        set_name(0, 1, time);
        onnx_input(&builder, "z", FLOAT, 3, z);
        set_name(1, 0, batch);
        set_name(1, 1, i == 0 ? time : other);
        onnx_node(&builder, "Tanh", "z", "beside");
        onnx_output(&builder, "beside", FLOAT, 3, z);
        builder.graph.output[builder.graph.n_output - 1]->type = NULL;
        load_built(&builder, &built);
        ck_assert_uint_eq(built.model->n_sequences, i == 0 ? 1 : 2); // another one is its own
        ck_assert_int_eq(built.model->inputs[1].sequence, (int)i);
        ck_assert_int_eq(built.model->inputs[1].batch_axis, 0);
        ck_assert_int_eq(built.model->inputs[1].time_axis, 1);
        free_built(&builder, &built);
    }
}
END_TEST

/* A shape that takes the number of rows from an input of theirs, as PyTorch's newer exporter does
 * with lengths, where names alone tell that it is that. */
START_TEST(test_sizes_of_one_name_are_equal)
{
    static char batch[] = "rows";
    static char other[] = "others";
    const int64_t lengths[] = {-1};
    const int64_t rest[] = {-1, 2};
    for (uint32_t i = 0; i < 2; i++) {
        begin(0);
        set_name(0, 0, batch);
        onnx_input(&builder, "lengths", FLOAT, 1, lengths);
        set_name(1, 0, i == 0 ? batch : other);
        onnx_constant(&builder, "rest", onnx_ints(&builder, 1, 2, rest));
        onnx_node(&builder, "Shape", "lengths", "rows");
        onnx_set_int(&builder, onnx_node(&builder, "Concat", "rows rest", "sizes"), "axis", 0);
        onnx_node(&builder, "Reshape", "x sizes", "shaped");
        onnx_node(&builder, "Tanh", "shaped", "beside");
        onnx_output(&builder, "beside", FLOAT, 0, NULL);
        builder.graph.output[builder.graph.n_output - 1]->type = NULL;
        if (i == 0) {
            expect_accepted(&builder);
        } else {
            expect(BASE_UNIMPLEMENTED, "Reshape (node \"shaped\"", "moves the batch or the time");
        }
    }
}
END_TEST

START_TEST(test_time_axes_are_sequences_of_their_own)
{
    begin(0);
    add_sequences(CELL_SEQUENCES_MAX - 1, -1);
    expect_accepted(&builder);
    begin(0);
    add_sequences(CELL_SEQUENCES_MAX, -1);
    expect(BASE_UNIMPLEMENTED, "LSTM (node \"other31\"", "more than 32 time axes");
    begin(0);
    add_sequences(1, 5); // a batch of 5, beside one that each request chooses
    expect(BASE_UNIMPLEMENTED, "LSTM (node \"other0\"", "batch axis is another one");
}
END_TEST

/* ---- Around it ---------------------------------------------------------------------------- */

START_TEST(test_unknown_operators_matter_only_when_they_are_needed)
{
    begin(0);
    behind("Det", "s0");
    expect(BASE_UNIMPLEMENTED, "Det (node \"out\", opset 17)", "not supported");
    begin(0);
    onnx_node(&builder, "Det", "s0", "unused");
    onnx_node(&builder, "Relu", "unused", "unused_too");
    expect_accepted(&builder);
    begin(0);
    static char domain[] = "com.microsoft";
    behind("Relu", "s0")->domain = domain;
    expect(BASE_UNIMPLEMENTED, "Relu (node \"out\"", "another domain, \"com.microsoft\"");
    begin(0);
    static char standard[] = "ai.onnx";
    behind("Relu", "s0")->domain = standard;
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_time_and_batch_may_not_be_mixed_into_rows)
{
    const int64_t second = 1;
    const int64_t split[] = {0, 0, 2, 2};
    const int64_t perm[] = {2, 3, 0, 1};
    begin(0);
    onnx_constant(&builder, "second", onnx_ints(&builder, 0, 1, &second));
    onnx_set_int(&builder, behind("Gather", "s0 second"), "axis", 1);
    expect(BASE_UNIMPLEMENTED, "Gather (node \"out\"", "takes elements along the batch axis");
    begin(0);
    onnx_set_int(&builder, behind("Softmax", "s0"), "axis", 1);
    expect(BASE_UNIMPLEMENTED, "Softmax (node \"out\"", "over the batch axis");
    begin(0);
    onnx_set_int(&builder, behind("Concat", "s0 s0"), "axis", 1);
    expect(BASE_UNIMPLEMENTED, "Concat (node \"out\"", "joins along the batch axis");
    begin(0);
    onnx_constant(&builder, "split", onnx_ints(&builder, 1, 4, split));
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "s0 s0", "wide"), "axis", -1);
    onnx_node(&builder, "Reshape", "wide split", "halves");
    onnx_set_ints(&builder, behind("Transpose", "halves"), "perm", 4, perm);
    expect_accepted(&builder); // its rows are turned: test_turn.c
}
END_TEST

START_TEST(test_rows_may_be_permuted)
{
    const int64_t shape[] = {0, 0, 2, 1, 1};
    const int64_t split[] = {0, 0, 2, 2};
    const int64_t perm[] = {0, 1, 3, 2};
    begin(0);
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "s0 s0", "wide"), "axis", -1);
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 4, split));
    onnx_node(&builder, "Reshape", "wide shape", "halves");
    onnx_set_ints(&builder, behind("Transpose", "halves"), "perm", 4, perm);
    expect_accepted(&builder); // what it computes: test_import_exports.c
    begin(0);
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 5, shape));
    behind("Reshape", "s0 shape");
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_products_need_constant_weights)
{
    begin(0);
    behind("MatMul", "s0 s0");
    expect(BASE_UNIMPLEMENTED, "MatMul (node \"out\"", "constant weights");
    begin(3);
    onnx_set_int(&builder, node_of("Gemm"), "transA", 1);
    expect(BASE_UNIMPLEMENTED, "Gemm (node \"scores\"", "transA");
    begin(3);
    constant_of(&builder, "head_w")->dims[1] = 1;
    constant_of(&builder, "head_w")->dims[0] = 6;
    expect(BASE_INVALID_ARGUMENT, "Gemm (node \"scores\"", "2 elements on its last axis");
}
END_TEST

START_TEST(test_reshapes_that_cannot_be_followed_are_refused)
{
    const int64_t seven[] = {7, -1};
    const int64_t twice[] = {-1, -1};
    begin(0);
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 2, seven));
    behind("Reshape", "s0 shape");
    expect(BASE_UNIMPLEMENTED, "Reshape (node \"out\"", "cannot follow");
    begin(0);
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 2, twice));
    behind("Reshape", "s0 shape");
    expect(BASE_INVALID_ARGUMENT, "Reshape (node \"out\"", "two dimensions of -1");
    begin(0);
    const int64_t merged[] = {-1, 2};
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 2, merged));
    behind("Reshape", "s0 shape");
    expect(BASE_UNIMPLEMENTED, "output \"out\"", "merges its batch or time axis");
}
END_TEST

/* Whose s0 is [time 4, batch 3, 2], stated. */
static void begin_stated(void)
{
    begin(0);
    Onnx__TensorShapeProto *shape = builder.graph.input[0]->type->tensor_type->shape;
    for (uint32_t k = 0; k < 2; k++) {
        shape->dim[k]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        shape->dim[k]->dim_value = 3 + k;
    }
}

/* Features may be grouped anew, and added to others that are; batch and time may not be among them.
 */
START_TEST(test_batch_and_time_are_not_regrouped)
{
    const int64_t anew[] = {8, 3};
    const int64_t flat[] = {4, 6};
    const int64_t z[] = {4, 2, 3};
    begin_stated();
    onnx_constant(&builder, "anew", onnx_ints(&builder, 1, 2, anew));
    behind("Reshape", "s0 anew");
    expect(BASE_UNIMPLEMENTED, "Reshape (node \"out\"", "splits the batch or time axis");
    begin_stated();
    onnx_input(&builder, "z", FLOAT, 3, z);
    onnx_constant(&builder, "flat", onnx_ints(&builder, 1, 2, flat));
    onnx_node(&builder, "Reshape", "s0 flat", "rows");
    onnx_node(&builder, "Reshape", "z flat", "others");
    behind("Add", "rows others");
    expect(BASE_UNIMPLEMENTED, "Add (node \"out\"", "of batch or time and other dimensions");
}
END_TEST

START_TEST(test_splitting_the_batch_is_refused)
{
    const int64_t halves[] = {4, 2, 2, 2};
    begin_stated();
    builder.graph.input[0]->type->tensor_type->shape->dim[0]->dim_value = 4;
    onnx_constant(&builder, "halves", onnx_ints(&builder, 1, 4, halves));
    behind("Reshape", "s0 halves"); // [time 4, batch 4, 2]
    expect(BASE_UNIMPLEMENTED, "Reshape (node \"out\"", "splits the batch or time axis");
}
END_TEST

START_TEST(test_if_needs_a_constant_condition)
{
    const int64_t any[1] = {1};
    begin(0);
    onnx_input(&builder, "flag", BOOL, 1, any);
    Onnx__GraphProto *then_graph = onnx_graph(&builder, "a");
    Onnx__GraphProto *else_graph = onnx_graph(&builder, "b");
    onnx_node_in(&builder, then_graph, "Relu", "s0", "a");
    onnx_node_in(&builder, else_graph, "Tanh", "s0", "b");
    Onnx__NodeProto *node = behind("If", "flag");
    onnx_set_graph(&builder, node, "then_branch", then_graph);
    onnx_set_graph(&builder, node, "else_branch", else_graph);
    expect(BASE_UNIMPLEMENTED, "If (node \"out\"", "depends on the request");
}
END_TEST

/* ---- The file ----------------------------------------------------------------------------- */

START_TEST(test_opsets_outside_of_what_is_known_are_refused)
{
    begin(0);
    builder.opset.version = 6;
    expect(BASE_UNIMPLEMENTED, "opset 6", "7 to 28");
    begin(0);
    builder.opset.version = 29;
    expect(BASE_UNIMPLEMENTED, "opset 29", "7 to 28");
    begin(0);
    builder.model.n_opset_import = 0;
    expect(BASE_UNIMPLEMENTED, "opset 0", "7 to 28");
    begin(0);
    builder.model.graph = NULL;
    expect(BASE_INVALID_ARGUMENT, "not an ONNX model", "no graph");
}
END_TEST

START_TEST(test_constants_that_lie_elsewhere_or_do_not_fit_are_refused)
{
    begin(0);
    constant_of(&builder, "w0")->has_data_location = true;
    constant_of(&builder, "w0")->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    expect(BASE_UNIMPLEMENTED, "constant \"w0\"", "external data");
    begin(0);
    constant_of(&builder, "w0")->raw_data.len -= 1;
    expect(BASE_INVALID_ARGUMENT, "constant \"w0\"", "bytes of data");
    begin(0);
    constant_of(&builder, "w0")->has_raw_data = false; // and it has no float_data
    expect(BASE_INVALID_ARGUMENT, "constant \"w0\" has 0 elements, its shape 16", "");
    begin(0);
    constant_of(&builder, "w0")->dims[0] = INT64_MAX;
    expect(BASE_RESOURCE_EXHAUSTED, "constant \"w0\" has the shape [9223372036854775807, 8, 2]",
           "more memory than there is");
    begin(0);
    constant_of(&builder, "w0")->dims[0] = -1;
    expect(BASE_INVALID_ARGUMENT, "constant \"w0\"", "dimension of -1");
    begin(0);
    constant_of(&builder, "w0")->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__UINT32;
    expect(BASE_UNIMPLEMENTED, "w0", "uint32");
    begin(0);
    ((float *)(void *)constant_of(&builder, "w0")->raw_data.data)[1] = (float)(1e30 * 1e30);
    expect(BASE_INVALID_ARGUMENT,
           "LSTM): a weight is not finite: inf in row 0, column 1 of weight 0",
           "constant \"w0\", float32 [1, 8, 2], has such as number 1");
    begin(0); // of two constants the one that holds it, and not a mask of infinities before it
    const float mask[1] = {-INFINITY};
    const int64_t one[1] = {1};
    onnx_constant(&builder, "mask", onnx_tensor(&builder, FLOAT, 1, one, mask, sizeof(mask)));
    ((float *)(void *)constant_of(&builder, "r0")->raw_data.data)[3] = NAN;
    expect(BASE_INVALID_ARGUMENT,
           "LSTM): a weight is not finite: nan in row 1, column 1 of weight 1",
           "constant \"r0\", float32 [1, 8, 2], has such as number 3");
}
END_TEST

START_TEST(test_graphs_that_are_no_graphs_are_refused)
{
    static char later[] = "s0";
    begin(0);
    node_of("LSTM")->input[0] = later;
    expect(BASE_INVALID_ARGUMENT, "LSTM (node \"y0\"", "\"s0\" is not computed by any node before");
    begin(0);
    onnx_node(&builder, "Relu", "s0", "y0");
    expect(BASE_INVALID_ARGUMENT, "Relu (node \"y0\"", "computed twice");
    begin(0);
    onnx_output(&builder, "nothing", FLOAT, 0, NULL);
    expect(BASE_INVALID_ARGUMENT, "output \"nothing\"", "not computed");
    begin(0);
    builder.graph.n_output = 0;
    expect(BASE_UNIMPLEMENTED, "", "0 outputs");
    begin(0);
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    expect(BASE_INVALID_ARGUMENT, "output \"y\"", "given twice");
}
END_TEST

/* y of inputs a and b by this operator, both of one int64 a row; b a constant where it is given. */
static void compare(const char *op, const int64_t *b)
{
    const int64_t any[] = {-1, 1};
    onnx_init(&builder, 17);
    onnx_input(&builder, "a", INT64, 2, any);
    if (b == NULL) {
        onnx_input(&builder, "b", INT64, 2, any);
    } else {
        onnx_constant(&builder, "b", onnx_ints(&builder, 0, 1, b));
    }
    onnx_node(&builder, op, "a b", "is");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "is", "y"), "to", FLOAT);
    onnx_output(&builder, "y", FLOAT, 2, any);
}

/* They are compared as floats: one of them must be exact as one. */
START_TEST(test_integers_are_compared_where_that_is_exact)
{
    static const char *const ops[] = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"};
    const int64_t small = -16777215;
    const int64_t large = 16777216;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        compare(ops[i], &small);
        expect_accepted(&builder);
        compare(ops[i], &large);
        expect(BASE_UNIMPLEMENTED, ops[i], "2^24 and more");
        compare(ops[i], NULL);
        expect(BASE_UNIMPLEMENTED, ops[i], "neither is the number of a step");
    }
    const int64_t x[] = {-1, 4};
    const int64_t zero = 0;
    const int64_t one = 1;
    onnx_init(&builder, 17); // rows of a batch have no numbers
    onnx_input(&builder, "x", FLOAT, 2, x);
    onnx_constant(&builder, "zero", onnx_ints(&builder, 0, 1, &zero));
    onnx_constant(&builder, "one", onnx_ints(&builder, 0, 1, &one));
    onnx_node(&builder, "Shape", "x", "shape");
    onnx_node(&builder, "Gather", "shape zero", "n");
    onnx_node(&builder, "Range", "zero n one", "numbers");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "numbers", "y"), "to", FLOAT);
    onnx_output(&builder, "y", FLOAT, 1, x);
    expect(BASE_UNIMPLEMENTED, "integers of the request", "the number of a step");
}
END_TEST

/* What it computes for each row, as long as a row's size is known. */
START_TEST(test_models_without_an_lstm_are_of_rows)
{
    const int64_t x[] = {-1, 4};
    const int64_t open[] = {-1, -1, 4};
    const int64_t wide[] = {-1, -1, -1, 4};
    const int64_t first = 0;
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 2, x);
    onnx_node(&builder, "Relu", "x", "y");
    onnx_output(&builder, "y", FLOAT, 2, x);
    expect_accepted(&builder);
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, open);
    onnx_node(&builder, "Relu", "x", "y");
    onnx_output(&builder, "y", FLOAT, 3, open);
    expect_accepted(&builder); // and of steps
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, wide);
    onnx_node(&builder, "Relu", "x", "y");
    onnx_output(&builder, "y", FLOAT, 4, wide);
    expect(BASE_UNIMPLEMENTED, "input \"x\"", "axis 2 is of unknown size");
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 2, x);
    onnx_set_ints(&builder, onnx_node(&builder, "ReduceMean", "x", "y"), "axes", 1, &first);
    onnx_output(&builder, "y", FLOAT, 2, x);
    expect(BASE_UNIMPLEMENTED, "ReduceMean (node \"y\"", "batch");
}
END_TEST

START_TEST(test_inputs_of_other_types_are_refused)
{
    begin(0);
    builder.graph.input[0]->type->tensor_type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    expect(BASE_UNIMPLEMENTED, "time_major", "double");
    begin(0);
    builder.graph.input[0]->type->tensor_type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__STRING;
    expect(BASE_UNIMPLEMENTED, "x", "string");
    begin(0);
    builder.graph.input[0]->type->tensor_type->shape = NULL;
    expect(BASE_UNIMPLEMENTED, "input \"x\"", "rank is not stated");
    begin(0);
    builder.graph.output[0]->type->tensor_type->shape->dim[2]->dim_value = 3;
    expect(BASE_INVALID_ARGUMENT, "output \"y\"", "the file states");
    begin(0);
    builder.graph.output[0]->type->tensor_type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    expect(BASE_INVALID_ARGUMENT, "output \"y\"", "the file states");
}
END_TEST

/* As exporters write it who are told names of axes that they do not count. */
START_TEST(test_an_output_of_another_rank_is_as_the_graph_has_it)
{
    begin(0);
    builder.graph.output[0]->type->tensor_type->shape->n_dim = 2;
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_a_constant_of_two_values_is_refused)
{
    begin(0);
    Onnx__NodeProto *node = onnx_node(&builder, "Constant", "", "two");
    onnx_set_int(&builder, node, "value_int", 1);
    onnx_set_float(&builder, node, "value_float", 2.0f);
    onnx_node(&builder, "Add", "y two", "sum");
    onnx_output(&builder, "sum", FLOAT, 0, NULL);
    expect(BASE_INVALID_ARGUMENT, "Constant (node \"two\"", "2 values; it has one");
}
END_TEST

START_TEST(test_names_are_cut_and_cleaned_in_errors)
{
    static char name[] = "a\nb\"c\\d\x7f"
                         "0123456789012345678901234567890123456789012345678901234567890123456789";
    begin(0);
    Onnx__NodeProto *node = node_of("LSTM");
    node->name = name;
    onnx_set_float(&builder, node, "clip", -1.0f);
    expect(BASE_INVALID_ARGUMENT, "LSTM (node \"a?b?c?d?0123456789", "...\", opset 17): clip");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_refusals");
    TCase *lstm = tcase_create("lstm");
    TCase *around = tcase_create("around");
    TCase *file = tcase_create("file");
    tcase_add_test(lstm, test_lstm_has_no_more_activations_than_functions);
    tcase_add_test(lstm, test_lstm_variations_are_refused_by_name);
    tcase_add_test(lstm, test_lstm_inputs_are_checked);
    tcase_add_test(lstm, test_weights_that_come_with_the_request_are_refused);
    tcase_add_test(lstm, test_constant_sequence_lengths_are_refused);
    tcase_add_test(lstm, test_the_last_step_beside_sequence_lengths_is_refused);
    tcase_add_test(lstm, test_time_axes_are_sequences_of_their_own);
    tcase_add_test(lstm, test_axes_of_one_name_are_equal);
    tcase_add_test(lstm, test_sizes_of_one_name_are_equal);
    suite_add_tcase(suite, lstm);
    tcase_add_test(around, test_an_output_of_another_rank_is_as_the_graph_has_it);
    tcase_add_test(around, test_a_constant_of_two_values_is_refused);
    tcase_add_test(around, test_unknown_operators_matter_only_when_they_are_needed);
    tcase_add_test(around, test_time_and_batch_may_not_be_mixed_into_rows);
    tcase_add_test(around, test_rows_may_be_permuted);
    tcase_add_test(around, test_products_need_constant_weights);
    tcase_add_test(around, test_reshapes_that_cannot_be_followed_are_refused);
    tcase_add_test(around, test_batch_and_time_are_not_regrouped);
    tcase_add_test(around, test_splitting_the_batch_is_refused);
    tcase_add_test(around, test_turning_and_repeating_beside_sequence_lengths_is_refused);
    tcase_add_test(around, test_if_needs_a_constant_condition);
    suite_add_tcase(suite, around);
    tcase_add_test(file, test_opsets_outside_of_what_is_known_are_refused);
    tcase_add_test(file, test_constants_that_lie_elsewhere_or_do_not_fit_are_refused);
    tcase_add_test(file, test_graphs_that_are_no_graphs_are_refused);
    tcase_add_test(file, test_integers_are_compared_where_that_is_exact);
    tcase_add_test(file, test_models_without_an_lstm_are_of_rows);
    tcase_add_test(file, test_inputs_of_other_types_are_refused);
    tcase_add_test(file, test_names_are_cut_and_cleaned_in_errors);
    suite_add_tcase(suite, file);
    return util_run(suite);
}
