/* Scan and Loop: what a body becomes, which cells in small operators are recognised, and what is
 * refused. Each case is a file of tests/data/onnx, or one of them with one thing changed. That they
 * compute what they should is test_import_exports' and test_real_models' to show. */
#include "base/mem.h"
#include "cells/import/recognise.h"
#include "cells/model.h"
#include "tests/cells/build.h"
#include "tests/cells/changed.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

/* A model that tools/train/scans.py writes. */
static void begin(const char *name)
{
    char relative[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s-parser1.12-op17/model.onnx", name);
    (void)changed_begin(relative);
}

static Onnx__NodeProto *scan(void)
{
    return changed_node(changed_model()->graph, "Scan");
}

static Onnx__GraphProto *body(void)
{
    return changed_attribute(scan(), "body")->g;
}

/* ---- What it becomes ---------------------------------------------------------------------- */

START_TEST(test_cells_in_small_operators_are_recognised)
{
    begin("scan_lstm");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
    begin("scan_lstm_cell");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
    begin("scan_lstm_sums");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
    begin("scan_gru_cell");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "GRU ");
}
END_TEST

/* The standard's domain has two names, also where a body is to be looked for. */
START_TEST(test_a_scan_of_the_domain_by_its_other_name)
{
    begin("scan_lstm");
    changed_rename(&scan()->domain, "ai.onnx");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
}
END_TEST

/* C of a Gemm may be rows, with alpha and beta as ever; not of another width. */
START_TEST(test_a_sum_of_rows_in_a_gemm)
{
    begin("scan_weighted");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LINEAR LINEAR CONST MUL ADD TANH ");
    begin("scan_lstm_sums");
    changed_rename(&changed_node(body(), "Gemm")->input[2], "h");
    changed_expect(BASE_UNIMPLEMENTED, "Gemm (node", "no rows of 32 elements");
    begin("scan_lstm_sums"); // an output that nobody names
    changed_rename(&changed_node(body(), "Gemm")->output[0], "");
    changed_expect(BASE_INVALID_ARGUMENT, "Add (node", "\"sum0\" is not computed");
}
END_TEST

START_TEST(test_a_cell_inside_another_is_recognised)
{
    begin("scan_phased_lstm");
    changed_expect_ops(
        0, CELL_STAGE_CHAIN,
        "LSTM CONST SUB CONST DIV FLOOR SUB CONST MUL CONST DIV CONST SUB CONST MUL CONST "
        "LESS CONST LESS SELECT SELECT SUB SUB MUL MUL ADD ADD ");
}
END_TEST

START_TEST(test_a_cell_whose_sum_is_read_by_others_stays_as_it_is)
{
    begin("scan_two"); // Relu reads what Tanh reads
    changed_expect_ops(0, CELL_STAGE_CHAIN, "GATHER LINEAR LINEAR ADD TANH RELU ");
    begin("scan_two");
    changed_rename(&changed_node(body(), "Relu")->op_type, "Identity");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "GATHER LINEAR LINEAR ADD TANH ");
    begin("scan_two");
    changed_rename(&changed_node(body(), "Relu")->input[0], "h1");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "GATHER RNN RELU ");
}
END_TEST

START_TEST(test_a_cell_with_another_gate_stays_as_it_is)
{
    begin("scan_lstm");
    changed_rename(&changed_node(body(), "Sigmoid")->op_type, "Relu"); // of i
    changed_expect_ops(
        0, CELL_STAGE_CHAIN,
        "LINEAR LINEAR ADD CONST ADD SLICE SLICE SLICE SLICE RELU SIGMOID SIGMOID TANH MUL "
        "MUL ADD TANH MUL ");
}
END_TEST

START_TEST(test_what_surrounds_scans_has_stages_of_its_own)
{
    begin("scan_two");
    changed_expect_ops(1, CELL_STAGE_CHAIN, "LINEAR LINEAR ADD ADD SIGMOID MUL ");
    begin("scan_two");
    changed_expect_ops(2, CELL_STAGE_ONCE, "LINEAR SOFTMAX ");
}
END_TEST

/* ---- Backwards ---------------------------------------------------------------------------- */

/* A tensor of the model's shape with time and batch as long as this; the steps the other way round
 * where asked for. */
enum { TIME = 5, BATCH = 2 };

static void reverse_steps(const struct cell_tensor *shape, const struct replay_tensor *from,
                          struct replay_tensor *to)
{
    size_t behind = 1;
    *to = *from;
    to->data = base_alloc_array(from->count, sizeof(double));
    ck_assert_ptr_nonnull(to->data);
    memcpy(to->data, from->data, from->count * sizeof(double));
    if (shape->time_axis < 0) {
        return;
    }
    for (uint32_t k = (uint32_t)shape->time_axis + 1; k < shape->rank; k++) {
        behind *= (size_t)from->dims[k];
    }
    const size_t steps = (size_t)from->dims[shape->time_axis];
    for (size_t i = 0; i < from->count / behind; i++) {
        size_t t = i % steps;
        memcpy(to->data + i * behind, from->data + (i - t + steps - 1 - t) * behind,
               behind * sizeof(double));
    }
}

static struct replay_tensor random_input(const struct cell_tensor *shape,
                                         struct base_random *random)
{
    struct replay_tensor made = {.rank = shape->rank, .count = 1};
    for (uint32_t k = 0; k < shape->rank; k++) {
        made.dims[k] = (int32_t)k == shape->batch_axis  ? BATCH
                       : (int32_t)k == shape->time_axis ? TIME
                                                        : shape->dims[k];
        made.count *= (size_t)made.dims[k];
    }
    made.data = base_alloc_array(made.count, sizeof(double));
    ck_assert_ptr_nonnull(made.data);
    for (size_t i = 0; i < made.count; i++) {
        made.data[i] = (double)base_random_f32(random, -1.0f, 1.0f);
    }
    return made;
}

/* A Scan that takes and gives its sequences backwards computes on the reversed sequence what the
 * one that runs forwards computes, reversed. */
START_TEST(test_a_scan_may_run_backwards)
{
    struct cell_model *forward = NULL;
    struct cell_model *backward = NULL;
    struct replay_tensor inputs[2][CELL_TENSORS_MAX];
    struct replay_tensor outputs[2][CELL_TENSORS_MAX] = {{{.rank = 0}}};
    struct base_random random = util_random(1);
    begin("scan_lstm");
    ck_assert_int_eq(changed_parse(&forward), BASE_OK);
    begin("scan_lstm");
    changed_add_ints(scan(), "scan_input_directions", 1, (const int64_t[]){1});
    changed_add_ints(scan(), "scan_output_directions", 1, (const int64_t[]){1});
    ck_assert_int_eq(changed_parse(&backward), BASE_OK);
    ck_assert(!forward->stages[0].is_reverse && backward->stages[0].is_reverse);
    for (uint32_t i = 0; i < forward->n_inputs; i++) {
        inputs[0][i] = random_input(&forward->inputs[i], &random);
        reverse_steps(&forward->inputs[i], &inputs[0][i], &inputs[1][i]);
    }
    replay_run(forward, inputs[0], outputs[0]);
    replay_run(backward, inputs[1], outputs[1]);
    for (uint32_t o = 0; o < forward->n_outputs; o++) {
        struct replay_tensor turned;
        reverse_steps(&forward->outputs[o], &outputs[0][o], &turned);
        ck_assert_uint_eq(turned.count, outputs[1][o].count);
        ck_assert_mem_eq(turned.data, outputs[1][o].data, turned.count * sizeof(double));
        base_free(turned.data);
        base_free(outputs[0][o].data);
        base_free(outputs[1][o].data);
    }
    for (uint32_t i = 0; i < forward->n_inputs; i++) {
        base_free(inputs[0][i].data);
        base_free(inputs[1][i].data);
    }
    changed_free(forward);
    changed_free(backward);
}
END_TEST

/* ---- What is refused ---------------------------------------------------------------------- */

START_TEST(test_directions_and_axes)
{
    begin("scan_lstm");
    changed_add_ints(scan(), "scan_input_directions", 1, (const int64_t[]){1});
    changed_expect(BASE_UNIMPLEMENTED, "Scan (node",
                   "in one direction and gives its outputs in the other");
    begin("scan_lstm");
    changed_add_ints(scan(), "scan_output_directions", 1, (const int64_t[]){1});
    changed_expect(BASE_UNIMPLEMENTED, "Scan (node",
                   "in one direction and gives its outputs in the other");
    begin("scan_phased_lstm");
    changed_add_ints(scan(), "scan_input_directions", 2, (const int64_t[]){0, 1});
    changed_expect(BASE_UNIMPLEMENTED, "Scan (node",
                   "scan_input_directions: some forward and some backward");
    begin("scan_lstm");
    changed_add_ints(scan(), "scan_input_directions", 1, (const int64_t[]){2});
    changed_expect(BASE_INVALID_ARGUMENT, "Scan (node", "scan_input_directions 2");
    begin("scan_lstm");
    changed_add_ints(scan(), "scan_input_axes", 1, (const int64_t[]){3});
    changed_expect(BASE_INVALID_ARGUMENT, "Scan (node", "axis");
    begin("scan_lstm");
    changed_add_ints(scan(), "scan_output_axes", 1, (const int64_t[]){-4});
    changed_expect(BASE_INVALID_ARGUMENT, "Scan (node", "axis");
    begin("scan_phased_lstm");
    changed_add_ints(scan(), "scan_input_axes", 1, (const int64_t[]){0}); // of two
    changed_expect(BASE_INVALID_ARGUMENT, "Scan (node", "scan_input_axes has 1 axes");
    begin("scan_lstm");
    changed_add_ints(scan(), "scan_input_directions", 1, (const int64_t[]){0});
    changed_expect(BASE_OK, "", "");
}
END_TEST

START_TEST(test_numbers_of_inputs_and_outputs)
{
    static const int64_t numbers[] = {0, -1, 4, INT64_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        begin("scan_lstm");
        changed_attribute(scan(), "num_scan_inputs")->i = numbers[i];
        changed_expect(BASE_INVALID_ARGUMENT, "Scan (node", "num_scan_inputs");
    }
    begin("scan_lstm");
    changed_attribute(scan(), "num_scan_inputs")->i = 3; // its batch is the time: another model
    changed_expect(BASE_OK, "", "");
    begin("scan_lstm");
    changed_rename(&changed_attribute(scan(), "body")->name, "nobody");
    changed_expect(BASE_UNIMPLEMENTED, "Scan (node", "attribute \"nobody\"");
    begin("scan_lstm");
    changed_rename(&body()->output[1]->name, "nowhere");
    changed_expect(BASE_INVALID_ARGUMENT, "", "nowhere");
    begin("scan_lstm");
    changed_model()->opset_import[0]->version = 8;
    changed_expect(BASE_UNIMPLEMENTED, "Scan (node", "before opset 9");
}
END_TEST

START_TEST(test_operators_inside)
{
    begin("scan_lstm");
    changed_rename(&changed_node(body(), "Tanh")->op_type, "Det");
    changed_expect(BASE_UNIMPLEMENTED, "Det (node", "not supported");
    begin("scan_layer_norm_lstm");
    changed_add_ints(changed_node(body(), "ReduceMean"), "unknown", 1, (const int64_t[]){0});
    changed_expect(BASE_UNIMPLEMENTED, "ReduceMean (node", "unknown");
    begin("scan_layer_norm_lstm"); // over the batch
    changed_attribute(changed_node(body(), "ReduceMean"), "axes")->ints[0] = 0;
    changed_expect(BASE_UNIMPLEMENTED, "ReduceMean (node", "over the batch");
    begin("scan_operators");
    changed_rename(&changed_node(body(), "Not")->input[0], "a");
    changed_expect(BASE_UNIMPLEMENTED, "Not (node", "float");
    begin("scan_operators");
    changed_rename(&changed_node(body(), "And")->input[0], "b");
    changed_expect(BASE_UNIMPLEMENTED, "And (node", "float");
    begin("scan_operators");
    changed_rename(&changed_node(body(), "Where")->input[0], "k");
    changed_expect(BASE_INVALID_ARGUMENT, "Where (node", "not bool");
    begin("scan_operators");
    changed_rename(&changed_node(body(), "Pow")->input[1], changed_node(body(), "Not")->output[0]);
    changed_expect(BASE_UNIMPLEMENTED, "Pow (node", "values that depend on the request");
    begin("scan_operators");
    changed_rename(&changed_node(body(), "Clip")->input[1], "u");
    changed_expect(BASE_UNIMPLEMENTED, "Clip (node", "constant of one float");
}
END_TEST

START_TEST(test_whole_sequences_inside_are_refused)
{
    begin("scan_two"); // y is the first Scan's sequence
    Onnx__GraphProto *second = NULL;
    for (size_t i = 0; i < changed_model()->graph->n_node; i++) {
        if (strcmp(changed_model()->graph->node[i]->op_type, "Scan") == 0) {
            second = changed_attribute(changed_model()->graph->node[i], "body")->g;
        }
    }
    ck_assert_ptr_nonnull(second);
    changed_rename(&changed_node(second, "Mul")->input[1], "y");
    changed_expect(BASE_UNIMPLEMENTED, "Mul (node", "a whole sequence inside the body");
}
END_TEST

/* A module that tools/train/loops.py exports. */
static void begin_loop(const char *name)
{
    char relative[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s-ts1.13-op17/model.onnx", name);
    (void)changed_begin(relative);
}

START_TEST(test_loops_are_cells)
{
    begin_loop("loop_lstm_cell");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
    begin_loop("loop_two_cells");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM LSTM ");
    begin_loop("loop_gru"); // the reset before the product, which is over x and h side by side
    changed_expect_ops(0, CELL_STAGE_CHAIN, "GRU ");
    begin_loop("loop_leaky");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "CONST MUL RNN CONST MUL ADD ");
}
END_TEST

static Onnx__NodeProto *loop(void)
{
    return changed_node(changed_model()->graph, "Loop");
}

static Onnx__GraphProto *loop_body(void)
{
    return changed_attribute(loop(), "body")->g;
}

START_TEST(test_loops_that_are_no_chains_are_refused)
{
    begin_loop("loop_lstm_cell"); // more steps than x has
    changed_rename(&loop()->input[0], "h");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "not the size of an axis");
    begin_loop("loop_lstm_cell");
    changed_rename(&loop()->input[0], "");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "without a number of steps");
    begin_loop("loop_lstm_cell"); // a condition that is no bool
    changed_rename(&loop()->input[1], "x");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "a condition that may not hold");
    begin_loop("loop_lstm_cell");
    changed_rename(&loop_body()->output[0]->name, loop_body()->output[1]->name);
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "ends on a condition");
    begin_loop("loop_lstm_cell"); // arithmetic with the number of the step
    Onnx__NodeProto *gather = changed_node(loop_body(), "Gather");
    ck_assert_uint_eq(gather->n_attribute, 1);
    onnx__attribute_proto__free_unpacked(gather->attribute[--gather->n_attribute], NULL);
    changed_rename(&gather->op_type, "Add");
    changed_expect(BASE_UNIMPLEMENTED, "Add (node", "the number of the step");
    begin_loop("loop_lstm_cell"); // the sequence is handed on as it came
    changed_rename(&loop_body()->output[3]->name, loop_body()->input[4]->name);
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "not every step adds one element");
    begin_loop("loop_lstm_cell"); // a state takes the place of the sequence
    changed_rename(&loop()->input[4], "h");
    changed_expect(BASE_UNIMPLEMENTED, "SequenceInsert (node", "at an end of a sequence");
    begin_loop("loop_lstm_cell");
    changed_rename(&changed_node(changed_model()->graph, "ConcatFromSequence")->input[0], "h");
    changed_expect(BASE_UNIMPLEMENTED, "ConcatFromSequence (node", "no Loop has collected");
}
END_TEST

/* Names of a graph's inputs or outputs, without types. */
static void name_values(struct onnx_builder *builder, Onnx__ValueInfoProto ***infos, size_t *n,
                        char *const *names, size_t n_names)
{
    *infos = base_arena_array(&builder->arena, n_names, sizeof(Onnx__ValueInfoProto *));
    ck_assert_ptr_nonnull(*infos);
    for (size_t i = 0; i < n_names; i++) {
        (*infos)[i] = base_arena_alloc(&builder->arena, sizeof(Onnx__ValueInfoProto));
        ck_assert_ptr_nonnull((*infos)[i]);
        onnx__value_info_proto__init((*infos)[i]);
        (*infos)[i]->name = names[i];
    }
    *n = n_names;
}

/* Five steps, whatever the request: there is no axis of time that a server could ask for. */
START_TEST(test_loops_of_a_fixed_number_of_steps_are_refused)
{
    static char inputs[3][4] = {"i", "go", "h"};
    static char outputs[2][4] = {"on", "h1"};
    const int64_t state[2] = {-1, 4};
    const int64_t five = 5;
    const uint8_t yes = 1;
    const int64_t one[1] = {1};
    struct onnx_builder builder;
    onnx_init(&builder, 17);
    onnx_input(&builder, "h0", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 2, state);
    onnx_output(&builder, "hn", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 2, state);
    onnx_constant(&builder, "five", onnx_ints(&builder, 0, 1, &five));
    onnx_constant(&builder, "yes",
                  onnx_tensor(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, one, &yes, 1));
    Onnx__GraphProto *graph = onnx_graph(&builder, "on");
    name_values(&builder, &graph->input, &graph->n_input,
                (char *const[]){inputs[0], inputs[1], inputs[2]}, 3);
    name_values(&builder, &graph->output, &graph->n_output, (char *const[]){outputs[0], outputs[1]},
                2);
    (void)onnx_node_in(&builder, graph, "Identity", "go", "on");
    (void)onnx_node_in(&builder, graph, "Tanh", "h", "h1");
    onnx_set_graph(&builder, onnx_node(&builder, "Loop", "five yes h0", "hn"), "body", graph);
    struct base_error error = {.message = ""};
    enum base_status status = parse_built(&builder, &error);
    ck_assert_msg(status == BASE_UNIMPLEMENTED, "%s", error.message);
    ck_assert_msg(strstr(error.message, "that no input of the model has") != NULL, "%s",
                  error.message);
}
END_TEST

/* c' = f * c + s(i) tanh(g), where f is one element for all units: no LSTM has that. */
START_TEST(test_a_gate_of_one_element_stays_as_it_is)
{
    for (uint32_t is_slice = 0; is_slice < 2; is_slice++) {
        struct build build;
        build_init(&build, 3);
        uint32_t x = build_input(&build, CELL_F32, 5);
        uint32_t h = build_state(&build, CELL_F32, 6);
        uint32_t c = build_state(&build, CELL_F32, 6);
        uint32_t gates[4];
        for (uint32_t g = 0; g < 4; g++) {
            uint32_t width = g == 2 && is_slice == 0 ? 1 : 6;
            uint32_t sum = build_op(&build, CELL_OP_ADD, build_linear(&build, x, width, true),
                                    build_linear(&build, h, width, false), width);
            gates[g] =
                build_op(&build, g == 3 ? CELL_OP_TANH : CELL_OP_SIGMOID, sum, UINT32_MAX, width);
        }
        if (is_slice == 1) {
            gates[2] = build_op(&build, CELL_OP_SLICE, gates[2], UINT32_MAX, 1);
        }
        uint32_t kept = build_op(&build, CELL_OP_MUL, gates[2], c, 6);
        build.def.values[kept].width = 6;
        uint32_t fresh = build_op(&build, CELL_OP_MUL, gates[0], gates[3], 6);
        uint32_t next = build_op(&build, CELL_OP_ADD, kept, fresh, 6);
        uint32_t out = build_op(&build, CELL_OP_MUL, gates[1],
                                build_op(&build, CELL_OP_TANH, next, UINT32_MAX, 6), 6);
        build_next(&build, 0, out);
        build_next(&build, 1, next);
        build_output(&build, out);
        struct base_error error;
        ck_assert_msg(cell_def_check(&build.def, &error) == BASE_OK, "%s", error.message);
        struct cell__import im = {.arena = &build.arena, .error = &error};
        ck_assert_int_eq(cell__recognise(&im, &build.def), BASE_OK);
        for (uint32_t o = 0; o < build.def.n_ops; o++) {
            ck_assert_int_ne(build.def.ops[o].kind, CELL_OP_LSTM); // tanh(g) is an RNN
        }
        build_release(&build);
    }
}
END_TEST

START_TEST(test_recurrent_nodes_inside_are_of_one_step)
{
    begin_loop("loop_lstm_cell"); // x[t] with its batch as time
    Onnx__NodeProto *node = changed_node(loop_body(), "Unsqueeze");
    Onnx__TensorProto *axes = changed_attribute(changed_node(loop_body(), "Constant"), "value")->t;
    ck_assert_uint_eq(axes->raw_data.len, sizeof(int64_t));
    ck_assert_str_eq(node->input[1], changed_node(loop_body(), "Constant")->output[0]);
    memcpy(axes->raw_data.data, (const int64_t[]){1}, sizeof(int64_t));
    changed_expect(BASE_UNIMPLEMENTED, "LSTM (node", "more than one step inside");
}
END_TEST

START_TEST(test_states_keep_their_shape)
{
    begin("scan_lstm"); // a state of 32 units instead of 8
    changed_rename(&body()->output[0]->name, "sum");
    changed_expect(BASE_INVALID_ARGUMENT, "Scan (node", "state variable");
    begin("scan_lstm"); // a sequence as initial state
    changed_rename(&scan()->input[0], "x");
    changed_expect(BASE_INVALID_ARGUMENT, "", "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_scan");
    TCase *tests = tcase_create("scan");
    tcase_add_checked_fixture(tests, changed_setup, changed_teardown);
    tcase_add_test(tests, test_cells_in_small_operators_are_recognised);
    tcase_add_test(tests, test_a_scan_of_the_domain_by_its_other_name);
    tcase_add_test(tests, test_a_sum_of_rows_in_a_gemm);
    tcase_add_test(tests, test_a_cell_inside_another_is_recognised);
    tcase_add_test(tests, test_a_cell_whose_sum_is_read_by_others_stays_as_it_is);
    tcase_add_test(tests, test_a_cell_with_another_gate_stays_as_it_is);
    tcase_add_test(tests, test_what_surrounds_scans_has_stages_of_its_own);
    tcase_add_test(tests, test_a_scan_may_run_backwards);
    tcase_add_test(tests, test_directions_and_axes);
    tcase_add_test(tests, test_numbers_of_inputs_and_outputs);
    tcase_add_test(tests, test_operators_inside);
    tcase_add_test(tests, test_whole_sequences_inside_are_refused);
    tcase_add_test(tests, test_loops_are_cells);
    tcase_add_test(tests, test_loops_that_are_no_chains_are_refused);
    tcase_add_test(tests, test_loops_of_a_fixed_number_of_steps_are_refused);
    tcase_add_test(tests, test_a_gate_of_one_element_stays_as_it_is);
    tcase_add_test(tests, test_recurrent_nodes_inside_are_of_one_step);
    tcase_add_test(tests, test_states_keep_their_shape);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
