/* Nodes that stand before those they read: the model is the one whose nodes are in order, whatever
 * the order, inside of branches too; circles are refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL };
enum { WIDTH = 3, HIDDEN = 2, STEPS = 4, BATCH = 2, ROUNDS = 40 };

static struct onnx_builder builder;
static struct base_random numbers;

/* A GRU over x [time, batch, WIDTH], behind some operators and a branch, which reads what is
 * computed around it. */
static Onnx__GraphProto *build(void)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const int64_t square[] = {WIDTH, WIDTH};
    const bool truth = true;
    struct base_random weights = util_random(3);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    onnx_constant(&builder, "m", onnx_random(&builder, 2, square, &weights, 1.0f));
    onnx_constant(&builder, "truth", onnx_tensor(&builder, BOOL, 0, NULL, &truth, sizeof(truth)));
    onnx_node(&builder, "MatMul", "x m", "a");
    onnx_node(&builder, "Tanh", "a", "t");
    onnx_node(&builder, "Sigmoid", "a", "c");
    onnx_node(&builder, "Mul", "t c", "d");
    Onnx__GraphProto *branches[2] = {onnx_graph(&builder, "h"), onnx_graph(&builder, "d")};
    onnx_node_in(&builder, branches[0], "Add", "d c", "e");
    onnx_node_in(&builder, branches[0], "Relu", "e", "f");
    onnx_node_in(&builder, branches[0], "Sub", "f a", "h");
    Onnx__NodeProto *choice = onnx_node(&builder, "If", "truth", "y");
    onnx_set_graph(&builder, choice, "then_branch", branches[0]);
    onnx_set_graph(&builder, choice, "else_branch", branches[1]);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "y w r b", "out"), "hidden_size", HIDDEN);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    return branches[0];
}

static void shuffle(Onnx__GraphProto *graph)
{
    for (size_t i = graph->n_node; i > 1; i--) {
        const size_t k = base_random_below(&numbers, (uint32_t)i);
        Onnx__NodeProto *node = graph->node[k];
        graph->node[k] = graph->node[i - 1];
        graph->node[i - 1] = node;
    }
}

/* What the model answers; to be freed. */
static struct replay_tensor answer(void)
{
    const int64_t dims[] = {STEPS, BATCH, WIDTH};
    struct base_random random = util_random(7);
    struct replay_tensor x = replay_tensor_random(3, dims, &random);
    struct replay_tensor out = {.rank = 0};
    struct built built;
    load_built(&builder, &built);
    replay_run(built.model, &x, &out);
    free_built(&builder, &built);
    base_free(x.data);
    return out;
}

START_TEST(test_any_order)
{
    (void)build();
    struct replay_tensor wanted = answer();
    numbers = util_random(1);
    for (int round = 0; round < ROUNDS; round++) {
        Onnx__GraphProto *branch = build();
        shuffle(&builder.graph);
        shuffle(branch);
        struct replay_tensor got = answer();
        ck_assert_uint_eq(got.count, wanted.count);
        ck_assert_mem_eq(got.data, wanted.data, wanted.count * sizeof(*wanted.data));
        base_free(got.data);
    }
    base_free(wanted.data);
}
END_TEST

START_TEST(test_circles_are_refused)
{
    (void)build(); // of itself
    builder.graph.node[1]->input[0] = builder.graph.node[1]->output[0];
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "\"t\" is not computed by any node before");
    (void)build(); // of others: a reads d, which reads t and c, which read a
    builder.graph.node[0]->input[0] = builder.graph.node[3]->output[0];
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "is not computed by any node before");
    Onnx__GraphProto *branch = build(); // in a branch
    branch->node[0]->input[0] = branch->node[2]->output[0];
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "is not computed by any node before");
    (void)build(); // two make one value
    builder.graph.node[2]->output[0] = builder.graph.node[1]->output[0];
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "\"t\" is computed twice");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_order");
    TCase *tests = tcase_create("order");
    tcase_add_test(tests, test_any_order);
    tcase_add_test(tests, test_circles_are_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
