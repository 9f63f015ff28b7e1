/* What the user knows of inputs and the file does not say: constants, and sizes that are left open.
 * Branches by a constant are docs/streams.md's to show (tests/docs/test_streams.sh). */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { INPUT = 5, HIDDEN = 6 };

static struct onnx_builder builder;

/* x [batch, time, features] through a GRU, times k, a tensor of one int64: the features are open.
 */
static void build(void)
{
    const int64_t dims[] = {-1, -1, -1};
    const int64_t perm[] = {1, 0, 2};
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", INPUT, HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    onnx_input(&builder, "k", INT64, 0, NULL);
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "k", "number"), "to", FLOAT);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "xt"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "xt w r b", "- last"), "hidden_size", HIDDEN);
    onnx_node(&builder, "Mul", "last number", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
}

/* Loads it with this knowledge; *model: to be freed with the registry, if it is wanted. */
static enum base_status parse(const struct cell_known_inputs *known,
                              struct cell_registry **registry, struct cell_model **model,
                              struct base_error *error)
{
    const struct cell_model_options options = {.known = known};
    size_t length = 0;
    build();
    const uint8_t *bytes = onnx_pack(&builder, &length);
    ck_assert_int_eq(cell_registry_create(registry), BASE_OK);
    const enum base_status status = cell_model_parse(
        *registry, (struct cell_model_file){bytes, length, NULL}, "test", &options, model, error);
    onnx_release(&builder);
    return status;
}

static const struct cell_known_input x_is_known = {
    .name = "x", .rank = 3, .dims = {CELL_DIM_ANY, CELL_DIM_ANY, INPUT}};
static const struct cell_known_input k_is_known = {.name = "k", .is_constant = true, .number = -2};

START_TEST(test_a_constant_is_no_input)
{
    const struct cell_known_input items[] = {k_is_known, x_is_known};
    const struct cell_known_inputs known = {2, items};
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    ck_assert_msg(parse(&known, &registry, &model, &error) == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(model->n_inputs, 1);
    ck_assert_str_eq(model->inputs[0].name, "x");
    ck_assert_int_eq(model->inputs[0].dims[2], INPUT);
    ck_assert_int_eq(model->inputs[0].dims[1], CELL_DIM_ANY);
    ck_assert_ptr_null(model->options.known); // the caller's
    const struct cell_def *def = &model->stages[model->n_stages - 1].type->def;
    ck_assert_int_eq(def->ops[0].kind, CELL_OP_CONST);
    ck_assert_double_eq((double)*(const float *)def->ops[0].weights[0].data, -2.0);
    cell_model_free(registry, model);
    cell_registry_free(registry);
}
END_TEST

static void expect(struct cell_known_input item, enum base_status wanted, const char *why)
{
    const bool is_x = strcmp(item.name, "x") == 0;
    const struct cell_known_input items[] = {item, is_x ? k_is_known : x_is_known};
    const struct cell_known_inputs known = {2, items};
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    const enum base_status status = parse(&known, &registry, &model, &error);
    ck_assert_ptr_null(model);
    expect_error(status, &error, wanted, "", why);
    cell_registry_free(registry);
}

START_TEST(test_wrong_knowledge_is_refused)
{
    const struct cell_known_input none = {.name = "none", .is_constant = true};
    const struct cell_known_input half = {.name = "k", .is_constant = true, .number = 0.5};
    const struct cell_known_input large = {.name = "k", .is_constant = true, .number = 1e30};
    const struct cell_known_input open = {.name = "x", .is_constant = true, .number = 1};
    const struct cell_known_input flat = {.name = "x", .rank = 2, .dims = {CELL_DIM_ANY, INPUT}};
    const struct cell_known_input wide = {
        .name = "x", .rank = 3, .dims = {CELL_DIM_ANY, CELL_DIM_ANY, INPUT + 1}};
    expect(none, BASE_INVALID_ARGUMENT, "the model has no input \"none\"");
    expect(half, BASE_INVALID_ARGUMENT, "input \"k\" is of integers, and 0.5 is none");
    expect(large, BASE_INVALID_ARGUMENT, "input \"k\" is of integers, and 1e+30 is none");
    expect(open, BASE_UNIMPLEMENTED, "how many elements it has on axis 0 is not known");
    expect(flat, BASE_INVALID_ARGUMENT, "input \"x\" has rank 3, and its shape is to have 2");
    expect(wide, BASE_INVALID_ARGUMENT, "W (\"w\")");
}
END_TEST

/* Without it the model is refused for what it needs: whole numbers that depend on the request. */
START_TEST(test_without_knowledge_the_graph_decides)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    const enum base_status status = parse(NULL, &registry, &model, &error);
    expect_error(status, &error, BASE_UNIMPLEMENTED, "GRU (node", "input size -1");
    cell_registry_free(registry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_known");
    TCase *tests = tcase_create("known");
    tcase_add_test(tests, test_a_constant_is_no_input);
    tcase_add_test(tests, test_wrong_knowledge_is_refused);
    tcase_add_test(tests, test_without_knowledge_the_graph_decides);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
