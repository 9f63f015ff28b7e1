/* What of LSTM, GRU and RNN is refused, by name: attributes, inputs, weights and states, also of
 * sizes that mean harm. Each case changes one thing in a model that is accepted. */
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
};
enum { IN = 2, HIDDEN = 3 };

static const char *const units[] = {"LSTM", "GRU", "RNN"};
enum { UNITS = 3, LSTM = 0, GRU = 1, RNN = 2 };

static struct onnx_builder builder;
static struct base_error last_error;

/* One node "y" of the unit over x, w, r, b and a state s. Returns it. */
static Onnx__NodeProto *begin(int unit)
{
    const int64_t x[] = {-1, -1, IN};
    const int64_t state[] = {1, -1, HIDDEN};
    onnx_init(&builder, 14);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_input(&builder, "s", FLOAT, 3, state);
    onnx_add_weights(&builder, units[unit], IN, HIDDEN, 1);
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    const char *inputs = unit == LSTM ? "x w r b - s s p" : "x w r b - s";
    return onnx_node(&builder, units[unit], inputs, "y");
}

/* The end of a case: refused with this status, naming the unit's node, and why. */
static void expect(enum base_status wanted, int unit, const char *why)
{
    char where[64];
    enum base_status status = parse_built(&builder, &last_error);
    snprintf(where, sizeof(where), "%s (node \"y\", opset 14): ", units[unit]);
    ck_assert_msg(status == wanted && strncmp(last_error.message, where, strlen(where)) == 0 &&
                      strstr(last_error.message, why) != NULL,
                  "%s, wanted %s%s: %s", base_status_name(status), where, why, last_error.message);
}

/* ---- Attributes --------------------------------------------------------------------------- */

START_TEST(test_directions_that_onnx_does_not_know_are_refused)
{
    begin(_i);
    expect_accepted(&builder);
    onnx_set_string(&builder, begin(_i), "direction", "Forward");
    expect_accepted(&builder);
    onnx_set_string(&builder, begin(_i), "direction", "Reverse");
    expect_accepted(&builder);
    onnx_set_string(&builder, begin(_i), "direction", "sideways");
    expect(BASE_INVALID_ARGUMENT, _i, "direction \"sideways\"");
    onnx_set_string(&builder, begin(_i), "direction", "bidirectional"); // the weights are of one
    expect(BASE_INVALID_ARGUMENT, _i, "; direction, input and hidden size ask for float32 [");
}
END_TEST

START_TEST(test_activations_are_a_list_of_names)
{
    onnx_set_strings(&builder, begin(_i), "activations", "Sigmoid Tanh Tanh Sigmoid");
    expect(BASE_INVALID_ARGUMENT, _i, "4 activations; at most");
    onnx_set_string(&builder, begin(_i), "activations", "Relu");
    expect(BASE_INVALID_ARGUMENT, _i, "activations is no list of names");
}
END_TEST

START_TEST(test_unknown_layouts_are_refused)
{
    onnx_set_int(&builder, begin(_i), "layout", 2);
    expect(BASE_INVALID_ARGUMENT, _i, "layout 2");
}
END_TEST

START_TEST(test_attributes_of_another_operator_are_refused)
{
    onnx_set_int(&builder, begin(LSTM), "linear_before_reset", 1);
    expect(BASE_UNIMPLEMENTED, LSTM, "attribute \"linear_before_reset\"");
    onnx_set_int(&builder, begin(RNN), "linear_before_reset", 1);
    expect(BASE_UNIMPLEMENTED, RNN, "attribute \"linear_before_reset\"");
    onnx_set_int(&builder, begin(GRU), "input_forget", 0);
    expect(BASE_UNIMPLEMENTED, GRU, "attribute \"input_forget\"");
}
END_TEST

START_TEST(test_linear_before_reset_is_0_or_1)
{
    onnx_set_int(&builder, begin(GRU), "linear_before_reset", 2);
    expect(BASE_INVALID_ARGUMENT, GRU, "attribute \"linear_before_reset\" of 2; 0 or 1");
    onnx_set_int(&builder, begin(GRU), "linear_before_reset", INT64_MIN);
    expect(BASE_INVALID_ARGUMENT, GRU, "attribute \"linear_before_reset\" of -9223372036854775808");
    onnx_set_float(&builder, begin(GRU), "linear_before_reset", 1.0f);
    expect(BASE_INVALID_ARGUMENT, GRU, "linear_before_reset is not an integer");
}
END_TEST

/* ---- Inputs and outputs ------------------------------------------------------------------- */

START_TEST(test_only_an_lstm_has_a_cell_state_and_peepholes)
{
    static char s[] = "s";
    static char n[] = "n";
    static char m[] = "m";
    for (int unit = GRU; unit <= RNN; unit++) {
        Onnx__NodeProto *node = begin(unit);
        char *inputs[7];
        memcpy(inputs, node->input, 6 * sizeof(inputs[0]));
        inputs[6] = s;
        node->input = inputs;
        node->n_input = 7;
        expect(BASE_INVALID_ARGUMENT, unit, "7 inputs");
        node = begin(unit);
        char *outputs[] = {node->output[0], n, m};
        node->output = outputs;
        node->n_output = 3;
        expect(BASE_INVALID_ARGUMENT, unit, "3 outputs");
    }
}
END_TEST

START_TEST(test_states_of_another_size_are_refused)
{
    const int64_t wide[] = {1, -1, HIDDEN + 1};
    const int64_t flat[] = {-1, HIDDEN};
    const int64_t both[] = {2, -1, HIDDEN};
    const struct {
        uint32_t rank;
        const int64_t *dims;
    } shapes[] = {{3, wide}, {2, flat}, {3, both}};
    static char other[] = "other";
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        Onnx__NodeProto *node = begin(_i);
        onnx_input(&builder, "other", FLOAT, shapes[i].rank, shapes[i].dims);
        node->input[5] = other;
        expect(BASE_INVALID_ARGUMENT, _i, "initial_h is no float tensor of 1 direction");
    }
    Onnx__NodeProto *node = begin(_i);
    const int64_t right[] = {1, -1, HIDDEN};
    onnx_input(&builder, "other", INT32, 3, right);
    node->input[5] = other;
    expect(BASE_INVALID_ARGUMENT, _i, "initial_h is no float tensor of 1 direction");
}
END_TEST

START_TEST(test_a_constant_state_without_rows_is_refused)
{
    static char other[] = "other";
    const int64_t none[] = {1, 0, HIDDEN};
    Onnx__NodeProto *node = begin(_i);
    builder.graph.n_input = _i == LSTM ? 2 : 1; // nothing else reads s
    onnx_constant(&builder, "other", onnx_tensor(&builder, FLOAT, 3, none, NULL, 0));
    node->input[5] = other;
    expect(BASE_INVALID_ARGUMENT, _i, "initial_h has no rows");
}
END_TEST

/* ---- Weights ------------------------------------------------------------------------------ */

/* The weights of the unit: w, r, b, and an LSTM's p. */
static const char *weight_name(int unit, size_t i)
{
    static const char *const names[] = {"w", "r", "b", "p"};
    return i == 3 && unit != LSTM ? NULL : i > 3 ? NULL : names[i];
}

START_TEST(test_weights_of_another_shape_are_refused)
{
    for (size_t i = 0; weight_name(_i, i) != NULL; i++) {
        const char *name = weight_name(_i, i);
        begin(_i);
        Onnx__TensorProto *tensor =
            constant_of(&builder, name); // one column less, and the data to match
        int64_t cols = tensor->dims[tensor->n_dims - 1]--;
        tensor->raw_data.len -= tensor->raw_data.len / (size_t)cols;
        expect(BASE_INVALID_ARGUMENT, _i, "; direction, input and hidden size ask for float32 [");
        onnx_set_int(&builder, begin(_i), "hidden_size", HIDDEN);
        tensor = constant_of(&builder, name); // the same elements on one axis
        tensor->dims[0] = tensor->dims[1] * (tensor->n_dims == 3 ? tensor->dims[2] : 1);
        tensor->n_dims = 1;
        expect(BASE_INVALID_ARGUMENT, _i, "; direction, input and hidden size ask for float32 [");
        begin(_i);
        constant_of(&builder, name)->data_type = INT32;
        expect(BASE_INVALID_ARGUMENT, _i, ") is int32 [");
    }
}
END_TEST

START_TEST(test_weights_of_two_directions_are_refused)
{
    for (size_t i = 0; weight_name(_i, i) != NULL; i++) {
        begin(_i);
        Onnx__TensorProto *tensor = constant_of(&builder, weight_name(_i, i));
        uint8_t *twice = base_arena_alloc(&builder.arena, 2 * tensor->raw_data.len);
        ck_assert_ptr_nonnull(twice);
        memcpy(twice, tensor->raw_data.data, tensor->raw_data.len);
        tensor->raw_data.data = twice;
        tensor->raw_data.len *= 2;
        tensor->dims[0] = 2;
        expect(BASE_INVALID_ARGUMENT, _i, "; direction, input and hidden size ask for float32 [");
    }
}
END_TEST

START_TEST(test_weights_that_are_not_finite_are_refused)
{
    static const uint32_t bits[] = {0x7fc00000, 0x7f800000, 0xff800000}; // NaN, +inf, -inf
    for (size_t i = 0; weight_name(_i, i) != NULL; i++) {
        for (size_t k = 0; k < sizeof(bits) / sizeof(bits[0]); k++) {
            begin(_i);
            Onnx__TensorProto *tensor = constant_of(&builder, weight_name(_i, i));
            memcpy(tensor->raw_data.data + tensor->raw_data.len - sizeof(bits[k]), &bits[k],
                   sizeof(bits[k]));
            ck_assert_int_eq(parse_built(&builder, &last_error), BASE_INVALID_ARGUMENT);
            ck_assert_ptr_nonnull(strstr(last_error.message, units[_i]));
            ck_assert_ptr_nonnull(strstr(last_error.message, "not finite"));
            char named[64];
            (void)snprintf(named, sizeof(named), "constant \"%s\", float32 [1, ",
                           weight_name(_i, i));
            ck_assert_msg(strstr(last_error.message, named) != NULL, "%s", last_error.message);
        }
    }
}
END_TEST

START_TEST(test_weights_that_come_with_the_request_are_refused)
{
    for (size_t i = 0; weight_name(_i, i) != NULL; i++) {
        char why[64];
        const char *name = weight_name(_i, i);
        begin(_i);
        Onnx__TensorProto *tensor = constant_of(&builder, name);
        onnx_input(&builder, name, FLOAT, (uint32_t)tensor->n_dims, tensor->dims);
        tensor->name[0] = 'v'; // no constant of this name any more
        snprintf(why, sizeof(why), "the weights %c depend on the request", name[0] - 'a' + 'A');
        expect(BASE_UNIMPLEMENTED, _i, why);
    }
}
END_TEST

START_TEST(test_hidden_sizes_that_fit_nothing_are_refused)
{
    static const int64_t absurd[] = {0, -1, 1 << 20, INT64_MAX, INT64_MIN, INT64_MAX / 4 + 1};
    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
        onnx_set_int(&builder, begin(_i), "hidden_size", absurd[i]);
        expect(BASE_UNIMPLEMENTED, _i, "hidden size");
    }
    onnx_set_int(&builder, begin(_i), "hidden_size", HIDDEN + 1);
    expect(BASE_INVALID_ARGUMENT, _i, "W (\"w\") is float32 [1, ");
}
END_TEST

START_TEST(test_sizes_beyond_the_budget_are_refused)
{
    for (size_t i = 0; weight_name(_i, i) != NULL; i++) {
        begin(_i);
        constant_of(&builder, weight_name(_i, i))->dims[1] = INT64_MAX;
        ck_assert_int_ne(parse_built(&builder, &last_error), BASE_OK);
        ck_assert_str_ne(last_error.message, "");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_recurrent_refusals");
    TCase *attributes = tcase_create("attributes");
    TCase *inputs = tcase_create("inputs");
    TCase *weights = tcase_create("weights");
    tcase_add_loop_test(attributes, test_directions_that_onnx_does_not_know_are_refused, 0, UNITS);
    tcase_add_loop_test(attributes, test_activations_are_a_list_of_names, 0, UNITS);
    tcase_add_loop_test(attributes, test_unknown_layouts_are_refused, 0, UNITS);
    tcase_add_test(attributes, test_attributes_of_another_operator_are_refused);
    tcase_add_test(attributes, test_linear_before_reset_is_0_or_1);
    suite_add_tcase(suite, attributes);
    tcase_add_test(inputs, test_only_an_lstm_has_a_cell_state_and_peepholes);
    tcase_add_loop_test(inputs, test_states_of_another_size_are_refused, 0, UNITS);
    tcase_add_loop_test(inputs, test_a_constant_state_without_rows_is_refused, 0, UNITS);
    suite_add_tcase(suite, inputs);
    tcase_add_loop_test(weights, test_weights_of_another_shape_are_refused, 0, UNITS);
    tcase_add_loop_test(weights, test_weights_of_two_directions_are_refused, 0, UNITS);
    tcase_add_loop_test(weights, test_weights_that_are_not_finite_are_refused, 0, UNITS);
    tcase_add_loop_test(weights, test_weights_that_come_with_the_request_are_refused, 0, UNITS);
    tcase_add_loop_test(weights, test_hidden_sizes_that_fit_nothing_are_refused, 0, UNITS);
    tcase_add_loop_test(weights, test_sizes_beyond_the_budget_are_refused, 0, UNITS);
    suite_add_tcase(suite, weights);
    return util_run(suite);
}
