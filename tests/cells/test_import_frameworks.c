/* What the exporters of JAX, MXNet and PaddlePaddle write (tools/train/jax_exports.py and others
 * beside it): loops that carry the sequence they read, cells that are matrices times columns,
 * lengths that say nothing, shapes that are moved about as lists. Each case is a file of
 * tests/data/onnx, or one with one thing changed. That they compute what they should is
 * test_import_exports' to show. */
#include "cells/model.h"
#include "tests/cells/changed.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };

static void begin(const char *name)
{
    char relative[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s/model.onnx", name);
    (void)changed_begin(relative);
}

static Onnx__NodeProto *node(const char *op)
{
    return changed_node(changed_model()->graph, op);
}

static Onnx__GraphProto *body(void)
{
    return changed_attribute(node("Loop"), "body")->g;
}

/* The first node of this operator that has the output of one of another as that input. */
static Onnx__NodeProto *node_behind(const char *op, size_t input, const char *before)
{
    const Onnx__GraphProto *graph = changed_model()->graph;
    const char *made = node(before)->output[0];
    for (size_t i = 0; i < graph->n_node; i++) {
        Onnx__NodeProto *found = graph->node[i];
        if (strcmp(found->op_type, op) == 0 && found->n_input > input &&
            strcmp(found->input[input], made) == 0) {
            return found;
        }
    }
    ck_abort_msg("no %s behind %s", op, before);
}

/* The node of the body that makes this output of it. */
static Onnx__NodeProto *body_maker(size_t output)
{
    const Onnx__GraphProto *graph = body();
    for (size_t i = 0; i < graph->n_node; i++) {
        if (strcmp(graph->node[i]->output[0], graph->output[output]->name) == 0) {
            return graph->node[i];
        }
    }
    ck_abort_msg("output %zu is made by no node", output);
}

/* ---- JAX ------------------------------------------------------------------------------------- */

START_TEST(test_cells_of_jax_are_kernels)
{
    begin("jax_lstm_apart-jx0.17-op21"); // of which one gate alone would be an RNN
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
    begin("jax_lstm_optimised-jx0.17-op21");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
    begin("jax_lstm_equinox-jx0.17-op21"); // weights times columns
    changed_expect_ops(0, CELL_STAGE_CHAIN, "LSTM ");
    begin("jax_gru_lone-jx0.17-op21");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "GRU ");
    begin("jax_gru_tagger-jx0.17-op21");
    changed_expect_ops(1, CELL_STAGE_CHAIN, "GRU ");
}
END_TEST

START_TEST(test_what_is_turned_round_by_numbers_runs_backwards)
{
    struct cell_model *model = NULL;
    begin("jax_gru_tagger-jx0.17-op21");
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    ck_assert(!model->stages[1].is_reverse);
    ck_assert(model->stages[2].is_reverse);
    changed_free(model);
}
END_TEST

START_TEST(test_what_a_step_changes_is_not_handed_on)
{
    begin("jax_gru_linen-jx0.17-op21");
    const size_t last = body()->n_output - 2; // x, before what each step gives
    changed_rename(&body_maker(last)->op_type, "Neg");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "begins with a whole sequence");
    begin("jax_gru_linen-jx0.17-op21"); // it hands on the state before it
    changed_rename(&body_maker(last)->input[0], body()->input[last]->name);
    changed_expect(BASE_INVALID_ARGUMENT, "Loop (node", "changes its type or rank");
}
END_TEST

START_TEST(test_other_numbers_turn_nothing_round)
{
    static const char why[] = "indices that are not constant";
    begin("jax_gru_tagger-jx0.17-op21"); // T - t: one too many
    changed_rename(&node_behind("Sub", 1, "Range")->input[0], node("Range")->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", why);
    begin("jax_gru_tagger-jx0.17-op21"); // from 1 on
    changed_rename(&node("Range")->input[0], node("Range")->input[2]);
    changed_expect(BASE_UNIMPLEMENTED, "Range (node", "depends on the batch or time axis");
    begin("jax_gru_tagger-jx0.17-op21"); // t - (T - 1)
    Onnx__NodeProto *sub = node_behind("Sub", 1, "Range");
    char *first = sub->input[0];
    sub->input[0] = sub->input[1];
    sub->input[1] = first;
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", why);
}
END_TEST

START_TEST(test_weights_on_the_left_take_nothing_beside_them)
{
    static const char why[] = "only x times constant weights";
    begin("jax_lstm_equinox-jx0.17-op21");
    changed_attribute(changed_node(body(), "Gemm"), "beta")->f = 1.0f;
    changed_expect(BASE_UNIMPLEMENTED, "Gemm (node", why);
    begin("jax_lstm_equinox-jx0.17-op21");
    Onnx__AttributeProto *alpha = changed_attribute(changed_node(body(), "Gemm"), "alpha");
    changed_rename(&alpha->name, "transA");
    alpha->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    alpha->has_i = true;
    alpha->i = 1;
    changed_expect(BASE_UNIMPLEMENTED, "Gemm (node", why);
}
END_TEST

/* Of a variance of no elements it would be a NaN. */
START_TEST(test_a_choice_that_no_request_changes)
{
    begin("jax_scan_norm-jx0.17-op21");
    changed_rename(&changed_node(body(), "Greater")->op_type, "Less");
    changed_expect(BASE_INVALID_ARGUMENT, "a weight is not finite", "nan");
}
END_TEST

START_TEST(test_a_cast_to_the_type_of_truths_is_refused)
{
    begin("jax_gru_scaled-jx0.17-op21");
    changed_rename(&node("CastLike")->input[1], node("Loop")->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "CastLike (node", "to another type than float32");
}
END_TEST

/* ---- MXNet ----------------------------------------------------------------------------------- */

START_TEST(test_lengths_of_all_steps_say_nothing)
{
    struct cell_model *model = NULL;
    begin("mxnet_lstm_tagger-mx1.9-op13");
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    ck_assert_uint_eq(model->n_inputs, 1);
    changed_free(model);
    begin("mxnet_lstm_tagger-mx1.9-op13"); // of as many steps as there are rows
    changed_rename(&node("Tile")->input[0], node("Tile")->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "Tile (node", "the size of the batch or time axis");
    begin("mxnet_lstm_tagger-mx1.9-op13"); // as often as there are steps
    changed_rename(&node("Tile")->input[1], node("Tile")->input[0]);
    changed_expect(BASE_UNIMPLEMENTED, "LSTM (node", "batch axis is also its time axis");
}
END_TEST

/* Three steps and two rows, which the file states. */
static void build_stated(struct onnx_builder *builder, int32_t dtype, size_t n, const int32_t *lens)
{
    const int64_t x[3] = {3, 2, 4};
    const int64_t y[4] = {3, 1, 2, 5};
    const int64_t dims[1] = {(int64_t)n};
    onnx_init(builder, 17);
    onnx_input(builder, "x", FLOAT, 3, x);
    onnx_output(builder, "y", FLOAT, 4, y);
    onnx_add_weights(builder, "GRU", 4, 5, 1);
    onnx_constant(builder, "lens", onnx_tensor(builder, dtype, 1, dims, lens, n * sizeof(*lens)));
    onnx_set_int(builder, onnx_node(builder, "GRU", "x w r b lens", "y"), "hidden_size", 5);
}

START_TEST(test_constant_lengths_of_all_steps_say_nothing)
{
    static const char why[] = "sequence_lens is a constant";
    const int32_t lens[3] = {3, 3, 3};
    const int32_t shorter[2] = {3, 2};
    struct onnx_builder builder;
    build_stated(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 2, lens);
    expect_accepted(&builder);
    build_stated(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 2, shorter);
    expect_refused(&builder, BASE_UNIMPLEMENTED, why);
    build_stated(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 3, lens); // of three rows
    expect_refused(&builder, BASE_UNIMPLEMENTED, why);
}
END_TEST

/* Whose axes MXNet swaps by lists: a Pad, a ScatterND and a GatherND of the shape. */
START_TEST(test_lists_that_are_no_plain_ones_are_refused)
{
    static const char name[] = "mxnet_lstm_two-mx1.9-op13";
    begin(name);
    changed_rename(&node("Pad")->input[2], "data");
    changed_expect(BASE_UNIMPLEMENTED, "Pad (node", "a value that is no constant of one integer");
    begin(name);
    changed_rename(&node("Pad")->input[1], node("Pad")->input[2]);
    changed_expect(BASE_UNIMPLEMENTED, "Pad (node", "with other numbers than two");
    begin(name);
    changed_rename(&node("Pad")->input[1], node("ScatterND")->input[2]); // 1 and 0: one more
    changed_expect(BASE_INVALID_ARGUMENT, "Transpose (node", "");
    begin(name);
    changed_rename(&node_behind("ScatterND", 2, "GatherND")->input[1], node("ScatterND")->input[2]);
    changed_expect(BASE_UNIMPLEMENTED, "ScatterND (node", "one for each");
    begin(name);
    changed_rename(&node("GatherND")->input[1], node("ScatterND")->input[0]); // no [.., 1]
    changed_expect(BASE_UNIMPLEMENTED, "GatherND (node", "of a constant that is no list");
    begin(name);
    changed_rename(&node("GatherND")->input[1], node("Sub")->input[0]); // number 8
    changed_expect(BASE_INVALID_ARGUMENT, "GatherND (node", "");
}
END_TEST

/* ---- PaddlePaddle ---------------------------------------------------------------------------- */

/* y, a matrix for each row of another shape's axis `of`, a product with x of 3 elements. */
static void build_spread(struct onnx_builder *builder, const char *op, int64_t of, int64_t first)
{
    const int64_t x[3] = {-1, -1, 3};
    const int64_t y[3] = {-1, -1, 2};
    const int64_t dims[3] = {first, 3, 2};
    const int64_t sizes[2] = {strcmp(op, "Tile") == 0 ? 1 : 3, strcmp(op, "Tile") == 0 ? 1 : 2};
    struct base_random random;
    base_random_init(&random, 3);
    onnx_init(builder, 17);
    onnx_input(builder, "x", FLOAT, 3, x);
    onnx_output(builder, "y", FLOAT, 3, y);
    onnx_add_weights(builder, "GRU", 3, 3, 1);
    onnx_constant(builder, "matrix", onnx_random(builder, 3, dims, &random, 1.0f));
    onnx_constant(builder, "at", onnx_ints(builder, 1, 1, &of));
    onnx_constant(builder, "sizes", onnx_ints(builder, 1, 2, sizes));
    onnx_constant(builder, "one", onnx_ints(builder, 1, 1, (const int64_t[]){1}));
    onnx_set_int(builder, onnx_node(builder, "GRU", "x w r b", "g"), "hidden_size", 3);
    (void)onnx_node(builder, "Squeeze", "g one", "s");
    (void)onnx_node(builder, "Shape", "s", "shape");
    (void)onnx_node(builder, "Gather", "shape at", "rows");
    onnx_set_int(builder, onnx_node(builder, "Concat", "rows sizes", "target"), "axis", 0);
    (void)onnx_node(builder, op, "matrix target", "each");
    (void)onnx_node(builder, "MatMul", "s each", "y");
}

START_TEST(test_weights_that_stand_once_for_each_row)
{
    struct onnx_builder builder;
    build_spread(&builder, "Expand", 0, 1);
    expect_accepted(&builder);
    build_spread(&builder, "Tile", 0, 1);
    expect_accepted(&builder);
    build_spread(&builder, "Expand", 1, 1); // once for each step, along another axis
    expect_refused(&builder, BASE_UNIMPLEMENTED, "");
    build_spread(&builder, "Tile", 0, 2); // two matrices by turns
    expect_refused(&builder, BASE_UNIMPLEMENTED, "");
}
END_TEST

/* Int64(Float(n) * 1.0 - 1.0), as PaddlePaddle writes n - 1. */
START_TEST(test_other_sums_of_integers_are_refused)
{
    static const char name[] = "paddle_gru_lengths-pd3.3-op17";
    begin(name); // n * -1.0 - 1.0
    changed_rename(&node("Mul")->input[1], node("Add")->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "", "");
    begin(name); // half a step more
    Onnx__TensorProto *less = changed_constant(changed_model()->graph, node("Add")->input[1]);
    const float half = -0.5f;
    ck_assert_uint_eq(less->raw_data.len, sizeof(half));
    memcpy(less->raw_data.data, &half, sizeof(half));
    changed_expect(BASE_UNIMPLEMENTED, "", "");
}
END_TEST

START_TEST(test_other_sums_of_ones_are_refused)
{
    static const char name[] = "paddle_gru_positions-pd3.3-op17";
    const int64_t one = 1;
    begin(name); // the numbers of the steps from the last one on
    changed_add_ints(node("CumSum"), "reverse", 1, &one);
    Onnx__AttributeProto *flag = changed_attribute(node("CumSum"), "reverse");
    flag->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    flag->has_i = true;
    flag->i = one;
    changed_expect(BASE_UNIMPLEMENTED, "CumSum (node", "of type int64");
    begin(name); // of ids, not of ones
    changed_rename(&node("CumSum")->input[0], "x");
    changed_expect(BASE_UNIMPLEMENTED, "CumSum (node", "of type int64");
    begin(name); // less ids
    changed_rename(&node("Sub")->input[1], "x");
    changed_expect(BASE_UNIMPLEMENTED, "Sub (node", "");
    begin(name); // numbers from 1 on: the table's rows would not do for all
    changed_rename(&node_behind("Identity", 0, "Sub")->input[0], node("CumSum")->output[0]);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "not an input of the model");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_frameworks");
    TCase *tests = tcase_create("frameworks");
    tcase_add_checked_fixture(tests, changed_setup, changed_teardown);
    tcase_add_test(tests, test_cells_of_jax_are_kernels);
    tcase_add_test(tests, test_what_is_turned_round_by_numbers_runs_backwards);
    tcase_add_test(tests, test_what_a_step_changes_is_not_handed_on);
    tcase_add_test(tests, test_other_numbers_turn_nothing_round);
    tcase_add_test(tests, test_weights_on_the_left_take_nothing_beside_them);
    tcase_add_test(tests, test_a_choice_that_no_request_changes);
    tcase_add_test(tests, test_a_cast_to_the_type_of_truths_is_refused);
    tcase_add_test(tests, test_lengths_of_all_steps_say_nothing);
    tcase_add_test(tests, test_constant_lengths_of_all_steps_say_nothing);
    tcase_add_test(tests, test_lists_that_are_no_plain_ones_are_refused);
    tcase_add_test(tests, test_weights_that_stand_once_for_each_row);
    tcase_add_test(tests, test_other_sums_of_integers_are_refused);
    tcase_add_test(tests, test_other_sums_of_ones_are_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
