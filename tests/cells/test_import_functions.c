/* Functions that a file itself defines: a model is the one with their nodes written in their place,
 * wherever they are called from, and what stands for itself or for too much is refused. */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL };
enum { WIDTH = 3, HIDDEN = 2 };

static struct onnx_builder builder;
static struct cell_registry *registry;
static struct cell_model *plain; /* the same without functions */

static void setup(void)
{
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
}

static void teardown(void)
{
    cell_model_free(registry, plain);
    plain = NULL;
    cell_registry_free(registry);
}

/* x [time, batch, WIDTH], and matrices m and k. */
static void begin(void)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const int64_t square[] = {WIDTH, WIDTH};
    struct base_random numbers = util_random(1);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    onnx_constant(&builder, "m", onnx_random(&builder, 2, square, &numbers, 1.0f));
    onnx_constant(&builder, "k", onnx_random(&builder, 2, square, &numbers, 1.0f));
}

/* A GRU over `from`. */
static void end(const char *from)
{
    char inputs[64];
    (void)snprintf(inputs, sizeof(inputs), "%s w r b", from);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", inputs, "gru"), "hidden_size", HIDDEN);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    onnx_output(&builder, from, FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

static struct cell_model *load(void)
{
    struct base_error error = {.message = ""};
    struct cell_model *model = NULL;
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    const struct cell_model_file file = {bytes, length, NULL};
    const enum base_status status = cell_model_parse(registry, file, "model", NULL, &model, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    onnx_release(&builder);
    return model;
}

/* Equal cells are one type. */
static void expect_plain(void)
{
    struct cell_model *model = load();
    ck_assert_uint_eq(model->n_stages, plain->n_stages);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        ck_assert_ptr_eq(model->stages[s].type, plain->stages[s].type);
    }
    cell_model_free(registry, model);
}

static Onnx__AttributeProto *ask_for(Onnx__NodeProto *node, const char *own, const char *name)
{
    onnx_set_float(&builder, node, own, 0.0f);
    Onnx__AttributeProto *made = node->attribute[node->n_attribute - 1];
    made->has_f = false;
    made->ref_attr_name = base_arena_text(&builder.arena, name, strlen(name));
    ck_assert_ptr_nonnull(made->ref_attr_name);
    return made;
}

/* a M, twice, with a slope of its own each: one given, one by default. Names inside are those of
 * the graph, on purpose. */
START_TEST(test_calls_are_their_nodes)
{
    begin();
    onnx_node(&builder, "MatMul", "x m", "one");
    onnx_set_float(&builder, onnx_node(&builder, "LeakyRelu", "one", "two"), "alpha", 0.25f);
    onnx_node(&builder, "MatMul", "two k", "three");
    onnx_set_float(&builder, onnx_node(&builder, "LeakyRelu", "three", "y"), "alpha", 0.5f);
    end("y");
    plain = load();
    begin();
    Onnx__FunctionProto *layer = onnx_function(&builder, "Layer", "x m unused", "y");
    onnx_node_of(&builder, layer, "MatMul", "x m", "one");
    (void)ask_for(onnx_node_of(&builder, layer, "LeakyRelu", "one", "y"), "alpha", "slope");
    Onnx__NodeProto holder = ONNX__NODE_PROTO__INIT; // only for its list
    onnx_set_float(&builder, &holder, "slope", 0.5f);
    layer->attribute_proto = holder.attribute;
    layer->n_attribute_proto = holder.n_attribute;
    onnx_set_float(&builder, onnx_call(onnx_node(&builder, "Layer", "x m", "two")), "slope", 0.25f);
    onnx_call(onnx_node(&builder, "Layer", "two k -", "y"));
    end("y");
    expect_plain();
}
END_TEST

/* Without the attribute, and without a default, the node inside has none. */
START_TEST(test_what_nobody_gives_is_absent)
{
    begin();
    onnx_node(&builder, "LeakyRelu", "x", "y");
    end("y");
    plain = load();
    begin();
    Onnx__FunctionProto *bent = onnx_function(&builder, "Bent", "a", "b");
    (void)ask_for(onnx_node_of(&builder, bent, "LeakyRelu", "a", "b"), "alpha", "slope");
    onnx_call(onnx_node(&builder, "Bent", "x", "y"));
    end("y");
    expect_plain();
}
END_TEST

/* Functions inside functions; what is not asked for of several outputs; an output that is an input;
 * an input that is not given. */
START_TEST(test_functions_call_each_other)
{
    begin();
    onnx_node(&builder, "MatMul", "x m", "a");
    onnx_node(&builder, "Clip", "a", "c");
    onnx_node(&builder, "Add", "c x", "y");
    end("y");
    plain = load();
    begin();
    Onnx__FunctionProto *inner = onnx_function(&builder, "Inner", "p q low", "r s p");
    onnx_node_of(&builder, inner, "MatMul", "p q", "t");
    onnx_node_of(&builder, inner, "Clip", "t low", "r");
    onnx_node_of(&builder, inner, "Neg", "t", "s");
    Onnx__FunctionProto *outer = onnx_function(&builder, "Outer", "p q", "r");
    onnx_call(onnx_node_of(&builder, outer, "Inner", "p q", "t - same"));
    onnx_node_of(&builder, outer, "Add", "t same", "r");
    onnx_call(onnx_node(&builder, "Outer", "x m", "y"));
    end("y");
    expect_plain();
}
END_TEST

/* In the branch of an If, whose branches see what is around them: the function's names, and, of a
 * call in the graph's own branch, the graph's. */
START_TEST(test_calls_in_branches)
{
    const bool truth = true;
    begin();
    onnx_node(&builder, "MatMul", "x m", "a");
    onnx_node(&builder, "Tanh", "a", "y");
    end("y");
    plain = load();
    for (int is_inside = 0; is_inside < 2; is_inside++) {
        begin();
        onnx_constant(&builder, "truth",
                      onnx_tensor(&builder, BOOL, 0, NULL, &truth, sizeof(truth)));
        Onnx__FunctionProto *bend = onnx_function(&builder, "Bend", "v", "w");
        onnx_node_of(&builder, bend, "Tanh", "v", "w");
        Onnx__GraphProto *branches[2] = {onnx_graph(&builder, "u"), onnx_graph(&builder, "u")};
        Onnx__FunctionProto *choose = onnx_function(&builder, "Choose", "which a", "y");
        const char *from = is_inside != 0 ? "z" : "a";
        onnx_call(onnx_node_in(&builder, branches[0], "Bend", from, "u"));
        onnx_node_in(&builder, branches[1], "Neg", from, "u");
        Onnx__NodeProto *choice = NULL;
        onnx_node(&builder, "MatMul", "x m", "a");
        if (is_inside != 0) {
            onnx_node_of(&builder, choose, "Identity", "a", "z");
            choice = onnx_node_of(&builder, choose, "If", "which", "y");
            onnx_call(onnx_node(&builder, "Choose", "truth a", "y"));
        } else {
            builder.model.n_functions = 1;
            choice = onnx_node(&builder, "If", "truth", "y");
        }
        onnx_set_graph(&builder, choice, "then_branch", branches[0]);
        onnx_set_graph(&builder, choice, "else_branch", branches[1]);
        end("y");
        expect_plain();
    }
}
END_TEST

static void refuse(enum base_status status, const char *why)
{
    end("y");
    expect_refused(&builder, status, why);
}

START_TEST(test_what_is_refused)
{
    begin(); // without end
    Onnx__FunctionProto *own = onnx_function(&builder, "Own", "a", "b");
    onnx_call(onnx_node_of(&builder, own, "Own", "a", "b"));
    onnx_call(onnx_node(&builder, "Own", "x", "y"));
    refuse(BASE_UNIMPLEMENTED, "inside each other more than 64 deep");

    begin(); // 2^20 nodes
    for (int f = 0; f < 20; f++) {
        char name[16];
        char next[16];
        (void)snprintf(name, sizeof(name), "F%d", f);
        (void)snprintf(next, sizeof(next), "F%d", f + 1);
        own = onnx_function(&builder, name, "a", "b");
        onnx_call(onnx_node_of(&builder, own, next, "a", "c"));
        onnx_call(onnx_node_of(&builder, own, next, "c", "b"));
    }
    own = onnx_function(&builder, "F20", "a", "b");
    onnx_node_of(&builder, own, "Neg", "a", "b");
    onnx_call(onnx_node(&builder, "F0", "x", "y"));
    refuse(BASE_RESOURCE_EXHAUSTED, "stand for more than 16384 nodes");

    begin();
    own = onnx_function(&builder, "Own", "a", "b");
    onnx_node_of(&builder, own, "Neg", "a", "b");
    onnx_call(onnx_node(&builder, "Own", "x m", "y"));
    refuse(BASE_INVALID_ARGUMENT, "a node of function \"Own\" has 2 inputs and 1 outputs; it takes "
                                  "1 and gives 1");

    begin();
    own = onnx_function(&builder, "Own", "a", "b");
    onnx_node_of(&builder, own, "Neg", "a", "b");
    onnx_call(onnx_node(&builder, "Own", "x", "y z"));
    refuse(BASE_INVALID_ARGUMENT, "1 inputs and 2 outputs");

    begin();
    own = onnx_function(&builder, "Own", "a", "b");
    onnx_node_of(&builder, own, "Neg", "a", "b");
    static char slope[] = "slope";
    static char *needed[] = {slope};
    own->attribute = needed;
    own->n_attribute = 1;
    onnx_call(onnx_node(&builder, "Own", "x", "y"));
    refuse(BASE_INVALID_ARGUMENT, "a node of function \"Own\" lacks its attribute \"slope\"");

    begin();
    own = onnx_function(&builder, "Own", "a", "b");
    onnx_node_of(&builder, own, "Neg", "a", "b");
    Onnx__OperatorSetIdProto other = *builder.model.opset_import[0];
    Onnx__OperatorSetIdProto *others[] = {&other};
    other.version = 13;
    own->opset_import = others;
    onnx_call(onnx_node(&builder, "Own", "x", "y"));
    refuse(BASE_UNIMPLEMENTED, "function \"Own\" is of opset 13, and the graph of 17");

    begin(); // another overload, and a function that the body does not make
    own = onnx_function(&builder, "Own", "a", "b");
    onnx_node_of(&builder, own, "Neg", "a", "c");
    static char overload[] = "other";
    own->overload = overload;
    onnx_call(onnx_node(&builder, "Own", "x", "y"));
    refuse(BASE_UNIMPLEMENTED, "operator of another domain");

    begin();
    own = onnx_function(&builder, "Own", "a", "b");
    onnx_node_of(&builder, own, "Neg", "a", "c");
    onnx_call(onnx_node(&builder, "Own", "x", "y"));
    refuse(BASE_INVALID_ARGUMENT, "\"y\" is not computed by any node before");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_functions");
    TCase *tests = tcase_create("functions");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_calls_are_their_nodes);
    tcase_add_test(tests, test_what_nobody_gives_is_absent);
    tcase_add_test(tests, test_functions_call_each_other);
    tcase_add_test(tests, test_calls_in_branches);
    tcase_add_test(tests, test_what_is_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
