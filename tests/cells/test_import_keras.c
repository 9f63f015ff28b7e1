/* Models of Keras as tf2onnx writes them (tools/train/keras_exports.py): loops on conditions and
 * with counters of their own, sequences that are turned round, ids that count from the end, masks.
 * What they become, and what is refused of files with one thing changed. That they compute what
 * Keras does is test_import_exports' to show. */
#include "base/mem.h"
#include "tests/cells/changed.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

static void begin(const char *name)
{
    char relative[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/onnx/keras_%s-op15/model.onnx", name);
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

/* ---- What it becomes ---------------------------------------------------------------------- */

START_TEST(test_layers_are_kernels)
{
    static const struct {
        const char *name, *ops;
    } cases[] = {
        {"lstm_tagger-tf2.15", "LSTM "},      {"lstm_tagger-tf2.21", "LSTM "},
        {"gru_tagger-tf2.15", "GRU "},        {"gru_tagger-tf2.21", "GRU "},
        {"gru_before-tf2.15", "GRU "},        {"gru_before-tf2.21", "GRU "},
        {"rnn_tagger-tf2.15", "RNN "},        {"rnn_tagger-tf2.21", "RNN "},
        {"embedding-tf2.15", "GATHER LSTM "}, {"embedding-tf2.21", "GATHER LSTM "},
        {"states-tf2.15", "LSTM "},           {"states-tf2.21", "LSTM "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].name);
        changed_expect_ops(0, CELL_STAGE_CHAIN, cases[i].ops);
    }
}
END_TEST

START_TEST(test_masked_steps_keep_the_kernel)
{
    begin("masking-tf2.15");
    changed_expect_ops(1, CELL_STAGE_CHAIN, "CONST SUB MUL CONST SUB MUL GRU MUL ADD MUL ADD ");
}
END_TEST

static void expect_directions(const char *name, bool first, bool second)
{
    struct cell_model *model = NULL;
    begin(name);
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    ck_assert_uint_ge(model->n_stages, 2);
    ck_assert_int_eq(model->stages[0].is_reverse, first);
    ck_assert_int_eq(model->stages[1].is_reverse, second);
    changed_free(model);
}

START_TEST(test_what_is_turned_round_runs_backwards)
{
    expect_directions("bidirectional_gru-tf2.21", false, true);
    expect_directions("bidirectional_rnn-tf2.15", false, true);
    expect_directions("backwards-tf2.15", true, false);
    expect_directions("backwards-tf2.21", true, false);
}
END_TEST

/* ---- Loops -------------------------------------------------------------------------------- */

/* The number that the body adds to its counter. */
static void set_increment(int32_t by)
{
    Onnx__TensorProto *one = changed_constant(body(), "while/add/y");
    ck_assert_uint_eq(one->raw_data.len, sizeof(by));
    memcpy(one->raw_data.data, &by, sizeof(by));
}

START_TEST(test_loops_that_may_end_early_are_refused)
{
    begin("rnn_tagger-tf2.15"); // the counter goes up by 2, so the condition ends it half way
    set_increment(2);
    changed_expect(BASE_UNIMPLEMENTED, "Less (node", "depends on the number of the step");
    begin("rnn_tagger-tf2.15"); // stays where it is: a condition that never ends it, and no number
    set_increment(0);
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "ends on a condition");
    begin("gru_tagger-tf2.21"); // the same beside a number of steps: nothing ends early, ..
    set_increment(0);
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "does not go up by 1 at every step");
    begin("rnn_tagger-tf2.15"); // a condition that holds at no step but the last ones
    changed_rename(&changed_node(body(), "Less")->op_type, "Greater");
    changed_expect(BASE_UNIMPLEMENTED, "Greater (node", "depends on the number of the step");
    begin("rnn_tagger-tf2.15"); // on what the request holds
    changed_rename(&node("Loop")->input[1], "x");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "on a condition that has no axis's size");
    begin("rnn_tagger-tf2.15"); // begins on one that does not hold: 0 > steps
    changed_rename(&node("Less")->op_type, "Greater");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "a condition that may not hold");
}
END_TEST

START_TEST(test_one_more_comparison_ends_a_loop_too)
{
    begin("rnn_tagger-tf2.15"); // i + 1 <= steps holds at the last step as well: a step too many
    changed_rename(&changed_node(body(), "Less")->op_type, "LessOrEqual");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "ends on a condition");
    begin("rnn_tagger-tf2.15"); // steps > i + 1
    Onnx__NodeProto *less = changed_node(body(), "Less");
    char *first = less->input[0];
    less->input[0] = less->input[1];
    less->input[1] = first;
    changed_rename(&less->op_type, "Greater");
    changed_expect_ops(0, CELL_STAGE_CHAIN, "RNN ");
}
END_TEST

START_TEST(test_a_node_of_a_body_without_an_operator_is_refused)
{
    begin("rnn_tagger-tf2.15");
    Onnx__NodeProto *copy = changed_node(body(), "Identity"); // of what a weight is handed on by
    changed_rename(&copy->input[0], body()->input[5]->name);
    changed_rename(&body()->output[4]->name, copy->output[0]);
    base_free(copy->op_type);
    copy->op_type = NULL;
    changed_expect(BASE_UNIMPLEMENTED, "(node", "not supported");
}
END_TEST

START_TEST(test_other_elements_than_the_step_s_are_refused)
{
    begin("rnn_tagger-tf2.15"); // the next step's: what the counter will be
    Onnx__NodeProto *gather = changed_node(body(), "Gather");
    changed_rename(&gather->input[1], changed_node(body(), "Add")->output[0]);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "of what is computed with it");
    begin("rnn_tagger-tf2.15"); // begins with the second
    const int32_t second = 1;
    Onnx__TensorProto *first = changed_constant(changed_model()->graph, "/time");
    ck_assert_uint_eq(first->raw_data.len, sizeof(second));
    memcpy(first->raw_data.data, &second, sizeof(second));
    changed_expect(BASE_UNIMPLEMENTED, "Less (node", "depends on the number of the step");
}
END_TEST

/* ---- Turned round ------------------------------------------------------------------------- */

/* What turns the steps of the backward direction back. */
static Onnx__NodeProto *last_reverse(void)
{
    const Onnx__GraphProto *graph = changed_model()->graph;
    for (size_t i = graph->n_node; i-- > 0;) {
        if (strcmp(graph->node[i]->op_type, "ReverseSequence") == 0) {
            return graph->node[i];
        }
    }
    ck_abort_msg("no ReverseSequence");
    return NULL;
}

/* The only join of the model: one sequence, its last step first. */
static void expect_turned(const struct cell_model *model)
{
    ck_assert_uint_eq(model->n_joins, 1);
    ck_assert_uint_eq(model->joins[0].n_parts, 1);
    ck_assert_int_eq(model->joins[0].parts[0].is_turned, true);
}

/* What such sequences hold: joined_backwards of test_import_exports.c. */
START_TEST(test_what_is_turned_round_may_be_answered)
{
    struct cell_model *model = NULL;
    begin("bidirectional_rnn-tf2.15");
    changed_rename(&changed_model()->graph->output[0]->name, last_reverse()->input[0]);
    Onnx__TypeProto **type = &changed_model()->graph->output[0]->type;
    onnx__type_proto__free_unpacked(*type, NULL);
    *type = NULL; // which is that of the sequence turned back
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    expect_turned(model);
    changed_free(model);
}
END_TEST

START_TEST(test_what_cannot_be_turned_round_is_refused)
{
    begin("bidirectional_rnn-tf2.21"); // the sum of both directions, one of them still turned
    changed_rename(&node("ReverseSequence")->op_type, "Identity");
    changed_expect(BASE_INVALID_ARGUMENT, "Identity (node", "inputs");
    begin("backwards-tf2.21"); // some steps of each row
    const int64_t axis = 2;
    changed_attribute(node("ReverseSequence"), "time_axis")->i = axis;
    changed_expect(BASE_UNIMPLEMENTED, "ReverseSequence (node", "of some of the steps");
}
END_TEST

/* Sequences turned round an even number of times are themselves; beside another that is not turned
 * their steps are put in order. */
START_TEST(test_a_sequence_beside_its_mirror)
{
    struct cell_model *model = NULL;
    begin("bidirectional_rnn-tf2.15");
    Onnx__NodeProto *sum = node("Add");
    const Onnx__NodeProto *last = last_reverse();
    for (size_t i = 0; i < sum->n_input; i++) { // what was turned back, before it was
        if (strcmp(sum->input[i], last->output[0]) == 0) {
            changed_rename(&sum->input[i], last->input[0]);
        }
    }
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    expect_turned(model);
    changed_free(model);
}
END_TEST

/* ---- Ids and masks ------------------------------------------------------------------------ */

START_TEST(test_other_sums_of_ids_are_refused)
{
    begin("embedding-tf2.21"); // not the rest of the ids, but all
    changed_rename(&node("Not")->op_type, "Identity");
    changed_expect(BASE_UNIMPLEMENTED, "Add (node",
                   "computes with integers that depend on the request");
    begin("embedding_masked-tf2.15"); // a mask by an id that no float is exactly
    const int32_t large = 1 << 24;
    changed_rename(&node("Equal")->input[1], changed_add_int32("large", large));
    changed_expect(BASE_UNIMPLEMENTED, "Equal (node", "of 2^24 and more");
    begin("embedding_masked-tf2.15"); // by other ids of the request
    changed_rename(&node("Equal")->input[1], "x");
    changed_expect(BASE_UNIMPLEMENTED, "Equal (node", "of integers that depend on the request");
}
END_TEST

/* ---- Repeated rows ------------------------------------------------------------------------ */

static Onnx__TensorProto *repeats(void)
{
    return changed_constant(changed_model()->graph, node("Tile")->input[1]);
}

START_TEST(test_a_row_is_repeated_for_as_many_steps_as_the_file_states)
{
    struct cell_model *model = NULL;
    begin("autoencoder-tf2.15"); // as many as the input has
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    ck_assert_uint_eq(model->n_sequences, 1);
    changed_free(model);
    begin("forecast-tf2.15"); // 3 and 7 behind 4
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    ck_assert_uint_eq(model->n_sequences, 3);
    uint32_t n_follow = 0;
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        const struct cell_sequence *sequence = &model->sequences[s];
        n_follow += sequence->stride == 1 && (sequence->add == -2 || sequence->add == 2) ? 1 : 0;
    }
    ck_assert_uint_eq(n_follow, 2);
    changed_free(model);
    begin("autoencoder-tf2.15"); // any number of steps go in, as many as the file says come out
    Onnx__TensorShapeProto__Dimension *time =
        changed_model()->graph->input[0]->type->tensor_type->shape->dim[1];
    time->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    ck_assert_uint_eq(model->n_sequences, 2);
    ck_assert_uint_eq(model->sequences[0].stated, 0);
    ck_assert_uint_eq(model->sequences[1].stated, 4);
    ck_assert_uint_eq(model->sequences[1].stride, 0);
    changed_free(model);
}
END_TEST

START_TEST(test_other_repeats_are_refused)
{
    begin("autoencoder-tf2.15");
    ck_assert_uint_eq(repeats()->raw_data.len, 3 * sizeof(int64_t));
    ((int64_t *)(void *)repeats()->raw_data.data)[2] = 2;
    changed_expect(BASE_INVALID_ARGUMENT, "GRU (node", "ask for"); // features, which are too many
    begin("autoencoder-tf2.15");
    ((int64_t *)(void *)repeats()->raw_data.data)[1] = 0;
    changed_expect(BASE_UNIMPLEMENTED, "Tile (node", "takes none of an axis");
    begin("autoencoder-tf2.15"); // of a constant, which is one then
    changed_rename(&node("Tile")->input[0], node("GRU")->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "GRU (node", "X does not depend on the request");
}
END_TEST

START_TEST(test_parts_without_elements_must_not_be_needed)
{
    begin("gru_before-tf2.15");
    Onnx__NodeProto *split = NULL;
    for (size_t i = 0; i < body()->n_node; i++) {
        Onnx__NodeProto *at = body()->node[i];
        split = strcmp(at->op_type, "Split") == 0 && at->n_input == 2 ? at : split;
    }
    ck_assert_ptr_nonnull(split);
    changed_rename(&changed_node(body(), "Sigmoid")->input[0], split->output[split->n_output - 1]);
    changed_expect(BASE_UNIMPLEMENTED, "Split (node", "a part without elements");
}
END_TEST

/* ---- Normalisation ------------------------------------------------------------------------ */

START_TEST(test_statistics_are_one_float_a_row)
{
    begin("norm-tf2.15"); // a layer normalisation: a BatchNormalization whose channels are all rows
    changed_rename(&node("BatchNormalization")->input[1], node("BatchNormalization")->input[0]);
    changed_expect(BASE_UNIMPLEMENTED, "BatchNormalization (node", "nor one float a row");
    begin("norm-tf2.15");
    changed_rename(&node("BatchNormalization")->input[3], node("LSTM")->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "BatchNormalization (node", "no constant of floats");
    begin("norm-tf2.15"); // would take the batch's own
    Onnx__AttributeProto *attribute = changed_attribute(node("BatchNormalization"), "epsilon");
    changed_rename(&attribute->name, "training_mode");
    attribute->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    attribute->has_i = true;
    attribute->i = 1;
    changed_expect(BASE_UNIMPLEMENTED, "BatchNormalization (node", "training_mode");
}
END_TEST

/* ONNX Runtime folds the condition that a Loop begins on: the number of steps is one that it
 * carries, and its end has to go on until that. */
START_TEST(test_a_folded_condition_leaves_the_number_that_is_carried)
{
    static const char path[] = "tests/data/onnx/optimised_forecast-ort1.31-op15/model.onnx";
    static const struct {
        int32_t steps;
        enum base_status status;
        const char *why;
    } cases[] = {
        {6, BASE_INVALID_ARGUMENT, "the axis of the steps: sizes 7 and 6 do not fit"},
        {8, BASE_INVALID_ARGUMENT, "the axis of the steps: sizes 7 and 8 do not fit"},
        {0, BASE_UNIMPLEMENTED, "without a number of steps"},
        {-3, BASE_UNIMPLEMENTED, "without a number of steps"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)changed_begin(path);
        Onnx__TensorProto *carried =
            changed_constant(changed_model()->graph, "simple_rnn/strided_slice_1");
        ck_assert_uint_eq(carried->raw_data.len, sizeof(cases[i].steps));
        memcpy(carried->raw_data.data, &cases[i].steps, sizeof(cases[i].steps));
        changed_expect(cases[i].status, "(node ", cases[i].why);
    }
    (void)changed_begin(path); // compared the other way round, it would end at once
    changed_rename(&changed_node(body(), "Less")->op_type, "Greater");
    changed_expect(BASE_UNIMPLEMENTED, "(node ", "the answer depends on the number of the step");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_keras");
    TCase *tests = tcase_create("keras");
    tcase_add_checked_fixture(tests, changed_setup, changed_teardown);
    tcase_add_test(tests, test_layers_are_kernels);
    tcase_add_test(tests, test_masked_steps_keep_the_kernel);
    tcase_add_test(tests, test_what_is_turned_round_runs_backwards);
    tcase_add_test(tests, test_loops_that_may_end_early_are_refused);
    tcase_add_test(tests, test_one_more_comparison_ends_a_loop_too);
    tcase_add_test(tests, test_a_folded_condition_leaves_the_number_that_is_carried);
    tcase_add_test(tests, test_a_node_of_a_body_without_an_operator_is_refused);
    tcase_add_test(tests, test_other_elements_than_the_step_s_are_refused);
    tcase_add_test(tests, test_what_is_turned_round_may_be_answered);
    tcase_add_test(tests, test_what_cannot_be_turned_round_is_refused);
    tcase_add_test(tests, test_a_sequence_beside_its_mirror);
    tcase_add_test(tests, test_other_sums_of_ids_are_refused);
    tcase_add_test(tests, test_a_row_is_repeated_for_as_many_steps_as_the_file_states);
    tcase_add_test(tests, test_other_repeats_are_refused);
    tcase_add_test(tests, test_parts_without_elements_must_not_be_needed);
    tcase_add_test(tests, test_statistics_are_one_float_a_row);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
