/* Parts of models, and the cells of a TreeLSTM among their small operators: recognised however they
 * are written, with the same results as the operators one by one; and left alone where they are
 * something else. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/oracle.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { IN = 3, H = 4, SEED = 5 };

static struct onnx_builder builder;
static struct cell_registry *registry;
static struct base_random numbers;
static struct base_error error;

static void setup(void)
{
    onnx_init(&builder, 17);
    base_random_init(&numbers, SEED);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
}

static void teardown(void)
{
    cell_registry_free(registry);
    onnx_release(&builder);
}

/* ---- Parts -------------------------------------------------------------------------------- */

static void input(const char *name, int64_t width)
{
    const int64_t dims[] = {1, width}; // as an export of one row states it
    onnx_input(&builder, name, FLOAT, 2, dims);
}

static void output(const char *name)
{
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
}

static void constant(const char *name, int64_t rows, int64_t cols)
{
    const int64_t dims[] = {rows, cols};
    onnx_constant(
        &builder, name,
        onnx_random(&builder, rows > 0 ? 2 : 1, rows > 0 ? dims : dims + 1, &numbers, 0.5f));
}

/* out = in W + b, of this many columns. */
static void linear(const char *in, int64_t width, const char *out, int64_t columns)
{
    char w[32];
    char b[32];
    char names[96];
    snprintf(w, sizeof(w), "%s_w", out);
    snprintf(b, sizeof(b), "%s_b", out);
    constant(w, width, columns);
    constant(b, 0, columns);
    snprintf(names, sizeof(names), "%s %s %s", in, w, b);
    onnx_node(&builder, "Gemm", names, out);
}

/* out = op(a b), or op(a). */
static void node(const char *op, const char *inputs, const char *out)
{
    onnx_node(&builder, op, inputs, out);
}

static struct cell_model *load(bool as_written)
{
    const struct cell_model_options options = {
        .precision = CELL_FP32, .is_part = true, .as_written = as_written};
    struct cell_model *model = NULL;
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length, NULL}, "part", &options, &model, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(model->n_stages, 1);
    return model;
}

/* Runs the stage on rows by input name, the same for every way of writing; out: of all outputs. */
static uint32_t run(const struct cell_model *model, double out[])
{
    const struct cell_stage *stage = &model->stages[0];
    const struct cell_def *def = &stage->type->def;
    struct oracle oracle;
    uint32_t n = 0;
    oracle_init(&oracle, def);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        for (uint32_t k = 0; k < def->values[i].width; k++) {
            oracle.values[i][k] = sin((double)(stage->inputs[i].index * 31 + k * 7 + 1));
        }
    }
    oracle_step(&oracle);
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        uint32_t value = def->outputs[model->output_sources[o][0].index];
        memcpy(out + n, oracle.values[value], def->values[value].width * sizeof(double));
        n += def->values[value].width;
    }
    oracle_release(&oracle);
    return n;
}

static bool has_op(const struct cell_model *model, enum cell_op_kind kind)
{
    for (uint32_t o = 0; o < model->stages[0].type->def.n_ops; o++) {
        if (model->stages[0].type->def.ops[o].kind == kind) {
            return true;
        }
    }
    return false;
}

/* The part holds the op, or none of a tree; either way it computes what its operators do. */
static void expect(bool is_found, enum cell_op_kind kind)
{
    double got[64];
    double want[64];
    struct cell_model *found = load(false);
    struct cell_model *written = load(true);
    ck_assert_int_eq(has_op(found, kind), is_found);
    ck_assert(is_found ||
              (!has_op(found, CELL_OP_TREE_LEAF) && !has_op(found, CELL_OP_TREE_BINARY) &&
               !has_op(found, CELL_OP_TREE_SUM)));
    ck_assert(!has_op(written, kind));
    uint32_t n = run(found, got);
    ck_assert_uint_eq(run(written, want), n);
    for (uint32_t i = 0; i < n; i++) {
        util_assert_close(got[i], want[i], 1e-6, 1e-6);
    }
    cell_model_free(registry, found);
    cell_model_free(registry, written);
}

/* ---- Cells -------------------------------------------------------------------------------- */

/* h = s(o) tanh(c) behind the sums i, o, u of a leaf. */
static void leaf_of_sums(void)
{
    node("Sigmoid", "i", "si");
    node("Tanh", "u", "tu");
    node("Mul", "si tu", "c");
    node("Sigmoid", "o", "so");
    node("Tanh", "c", "tc");
    node("Mul", "so tc", "h");
    output("h");
    output("c");
}

START_TEST(test_a_leaf_of_three_products)
{
    input("x", IN);
    linear("x", IN, "i", H);
    linear("x", IN, "o", H);
    linear("x", IN, "u", H);
    leaf_of_sums();
    expect(true, CELL_OP_TREE_LEAF);
}
END_TEST

START_TEST(test_a_leaf_of_one_product_that_is_split)
{
    input("x", IN);
    linear("x", IN, "all", 3 * H);
    onnx_set_int(&builder, onnx_node(&builder, "Split", "all", "i o u"), "axis", 1);
    leaf_of_sums();
    expect(true, CELL_OP_TREE_LEAF);
}
END_TEST

/* What a node's c is made of: the order of the sum, and of each product. */
struct writing {
    const char *first, *second, *last; /* ADD first, second -> both; ADD both, last -> c */
    bool turned;                       /* c s(f) instead of s(f) c */
};

static const struct writing writings[] = {
    {"iu", "fl", "fr", false},
    {"fl", "fr", "iu", false},
    {"fr", "iu", "fl", true},
    {"fl", "iu", "fr", true},
};

static void node_of_sums(const struct writing *writing)
{
    char pair[16];
    node("Sigmoid", "i", "si");
    node("Sigmoid", "o", "so");
    node("Sigmoid", "f0", "sl");
    node("Sigmoid", "f1", "sr");
    node("Tanh", "u", "tu");
    node("Mul", writing->turned ? "tu si" : "si tu", "iu");
    node("Mul", writing->turned ? "c_0 sl" : "sl c_0", "fl");
    node("Mul", writing->turned ? "c_1 sr" : "sr c_1", "fr");
    snprintf(pair, sizeof(pair), "%s %s", writing->first, writing->second);
    node("Add", pair, "both");
    snprintf(pair, sizeof(pair), "both %s", writing->last);
    node("Add", pair, "c");
    node("Tanh", "c", "tc");
    node("Mul", writing->turned ? "tc so" : "so tc", "h");
    output("h");
    output("c");
}

static void node_inputs(void)
{
    input("h_0", H);
    input("c_0", H);
    input("h_1", H);
    input("c_1", H);
}

START_TEST(test_a_node_over_both_children_side_by_side)
{
    node_inputs();
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "h_0 h_1", "both_h"), "axis", 1);
    linear("both_h", 2 * H, "all", 5 * H);
    onnx_set_int(&builder, onnx_node(&builder, "Split", "all", "i o u f0 f1"), "axis", 1);
    node_of_sums(&writings[_i]);
    expect(true, CELL_OP_TREE_BINARY);
}
END_TEST

START_TEST(test_a_node_of_a_product_over_each_child)
{
    node_inputs();
    linear("h_0", H, "left", 5 * H);
    linear("h_1", H, "right", 5 * H);
    node("Add", "right left", "all");
    onnx_set_int(&builder, onnx_node(&builder, "Split", "all", "i o u f0 f1"), "axis", 1);
    node_of_sums(&writings[_i]);
    expect(true, CELL_OP_TREE_BINARY);
}
END_TEST

/* A node with an x of another width, or of the same. */
START_TEST(test_a_node_with_an_input_of_its_own)
{
    const int64_t width = _i == 0 ? IN : H;
    node_inputs();
    input("x", width);
    linear("h_0", H, "left", 5 * H);
    linear("h_1", H, "right", 5 * H);
    linear("x", width, "own", 5 * H);
    node("Add", "own left", "some");
    node("Add", "some right", "all");
    onnx_set_int(&builder, onnx_node(&builder, "Split", "all", "i o u f0 f1"), "axis", 1);
    node_of_sums(&writings[0]);
    expect(true, CELL_OP_TREE_BINARY);
}
END_TEST

/* A forget gate that sees its own child only has zeros for the other. */
START_TEST(test_a_forget_gate_that_sees_one_child)
{
    node_inputs();
    linear("h_0", H, "left", 3 * H);
    linear("h_1", H, "right", 3 * H);
    node("Add", "left right", "all");
    onnx_set_int(&builder, onnx_node(&builder, "Split", "all", "i o u"), "axis", 1);
    linear("h_0", H, "f0", H);
    linear("h_1", H, "f1", H);
    node_of_sums(&writings[0]);
    expect(true, CELL_OP_TREE_BINARY);
}
END_TEST

/* ---- Child-sum nodes ---------------------------------------------------------------------- */

/* How a child-sum node is written, or what is wrong with it. */
struct child_sum {
    uint32_t n;
    int64_t x;            /* its width, 0: none */
    bool is_backwards;    /* the children, where they are added and where c is */
    uint32_t in_sum[3];   /* whose h are added; of three */
    uint32_t in_f[3];     /* whose h each f is over */
    const char *f_last;   /* weights of the last child's f */
    const char *f_last_b; /* and its bias */
};

#define AS_DEFINED .in_sum = {0, 1, 2}, .in_f = {0, 1, 2}, .f_last = "f_w", .f_last_b = "f_b"

static const struct child_sum child_sums[] = {
    {.n = 1, AS_DEFINED},
    {.n = 2, AS_DEFINED},
    {.n = 3, AS_DEFINED},
    {.n = 3, .is_backwards = true, AS_DEFINED},
    {.n = 2, .x = IN, AS_DEFINED},
    {.n = 3, .x = H, AS_DEFINED},
    {.n = 3, .x = IN, .is_backwards = true, AS_DEFINED},
    // Weights that are equal without being one tensor.
    {.n = 3, .in_sum = {0, 1, 2}, .in_f = {0, 1, 2}, .f_last = "f_w_same", .f_last_b = "f_b_same"},
};

static const struct child_sum no_child_sums[] = {
    {.n = 3, .in_sum = {0, 1, 1}, .in_f = {0, 1, 2}, .f_last = "f_w", .f_last_b = "f_b"},
    {.n = 3, .in_sum = {0, 1, 2}, .in_f = {0, 1, 1}, .f_last = "f_w", .f_last_b = "f_b"},
    {.n = 3, .in_sum = {0, 1, 2}, .in_f = {0, 1, 2}, .f_last = "f_w_other", .f_last_b = "f_b"},
    {.n = 3, .in_sum = {0, 1, 2}, .in_f = {0, 1, 2}, .f_last = "f_w", .f_last_b = "f_b_other"},
    {.n = 3, .x = H, .in_sum = {0, 1, 1}, .in_f = {0, 1, 2}, .f_last = "f_w", .f_last_b = "f_b"},
};

static void forget_weights(void)
{
    const int64_t dims[] = {H, H};
    Onnx__TensorProto *w = onnx_random(&builder, 2, dims, &numbers, 0.5f);
    Onnx__TensorProto *b = onnx_random(&builder, 1, dims, &numbers, 0.5f);
    onnx_constant(&builder, "f_w", w);
    onnx_constant(&builder, "f_b", b);
    onnx_constant(&builder, "f_w_same",
                  onnx_tensor(&builder, FLOAT, 2, dims, w->raw_data.data, w->raw_data.len));
    onnx_constant(&builder, "f_b_same",
                  onnx_tensor(&builder, FLOAT, 1, dims, b->raw_data.data, b->raw_data.len));
    constant("f_w_other", H, H);
    constant("f_b_other", 0, H);
}

/* out_k = op(plain, with_k), or op(with_k). */
static void numbered_node(const char *op, const char *plain, const char *with, uint32_t k,
                          const char *out)
{
    char names[48];
    char to[16];
    snprintf(names, sizeof(names), "%s%s%s_%u", plain == NULL ? "" : plain,
             plain == NULL ? "" : " ", with, k);
    snprintf(to, sizeof(to), "%s_%u", out, k);
    node(op, names, to);
}

/* s(f_k) c_k as "fc_k". */
static void forget(const struct child_sum *as, uint32_t k)
{
    const bool is_last = k + 1 == as->n;
    char names[64];
    char to[16];
    snprintf(names, sizeof(names), "h_%u %s %s", as->in_f[k], is_last ? as->f_last : "f_w",
             is_last ? as->f_last_b : "f_b");
    snprintf(to, sizeof(to), "f_%u", k);
    node("Gemm", names, to);
    if (as->x > 0) {
        numbered_node("Add", "xf", "f", k, "xf");
    }
    numbered_node("Sigmoid", NULL, as->x > 0 ? "xf" : "f", k, "sf");
    snprintf(names, sizeof(names), "sf_%u", k);
    numbered_node("Mul", names, "c", k, "fc");
}

/* to = the first + those of the others that `of` names. */
static void add_up(const struct child_sum *as, const char *name, const uint32_t of[3],
                   const char *to)
{

    char sum[16];
    char names[48];
    for (uint32_t i = 0; i < as->n && i < 3; i++) {
        const uint32_t k = of[as->is_backwards ? as->n - 1 - i : i];
        if (i == 0) {
            snprintf(sum, sizeof(sum), "%s_%u", name, k);
            continue;
        }
        snprintf(names, sizeof(names), "%s %s_%u", sum, name, k);
        snprintf(sum, sizeof(sum), "%s_to_%u", name, i);
        node("Add", names, sum);
    }
    node("Identity", sum, to);
}

static void child_sum(const struct child_sum *as)
{
    static const uint32_t all[] = {0, 1, 2};
    char name[16];
    for (uint32_t k = 0; k < as->n; k++) {
        snprintf(name, sizeof(name), "h_%u", k);
        input(name, H);
        snprintf(name, sizeof(name), "c_%u", k);
        input(name, H);
    }
    forget_weights();
    add_up(as, "h", as->in_sum, "below");
    linear("below", H, "iou", 3 * H);
    if (as->x > 0) {
        input("x", as->x);
        linear("x", as->x, "own", 3 * H);
        linear("x", as->x, "xf", H);
        node("Add", "own iou", "iou_x");
    }
    onnx_set_int(&builder, onnx_node(&builder, "Split", as->x > 0 ? "iou_x" : "iou", "i o u"),
                 "axis", 1);
    node("Sigmoid", "i", "si");
    node("Tanh", "u", "tu");
    node("Mul", "si tu", "fresh");
    for (uint32_t k = 0; k < as->n; k++) {
        forget(as, k);
    }
    add_up(as, "fc", all, "kept");
    node("Add", "kept fresh", "c");
    node("Sigmoid", "o", "so");
    node("Tanh", "c", "tc");
    node("Mul", "so tc", "h");
    output("h");
    output("c");
}

START_TEST(test_a_child_sum_node)
{
    child_sum(&child_sums[_i]);
    expect(true, CELL_OP_TREE_SUM);
}
END_TEST

START_TEST(test_what_is_nearly_a_child_sum_stays)
{
    child_sum(&no_child_sums[_i]);
    expect(false, CELL_OP_TREE_SUM);
}
END_TEST

/* ---- What is something else --------------------------------------------------------------- */

START_TEST(test_cells_that_are_something_else_stay)
{
    static const char *const odd[] = {"Relu", "Sigmoid"}; // in the place of tanh(u)
    node_inputs();
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "h_0 h_1", "both_h"), "axis", 1);
    linear("both_h", 2 * H, "all", 5 * H);
    onnx_set_int(&builder, onnx_node(&builder, "Split", "all", "i o u f0 f1"), "axis", 1);
    node("Sigmoid", "i", "si");
    node("Sigmoid", "f0", "sl");
    node("Sigmoid", "f1", "sr");
    node(odd[_i], "u", "tu");
    node("Mul", "si tu", "iu");
    node("Mul", "sl c_0", "fl");
    node("Mul", "sr c_1", "fr");
    node("Add", "iu fl", "both");
    node("Add", "both fr", "c");
    node("Sigmoid", "o", "so");
    node("Tanh", "c", "tc");
    node("Mul", "so tc", "h");
    output("h");
    output("c");
    expect(false, CELL_OP_TREE_BINARY);
}
END_TEST

/* An inner value that is an output, too, must still be there. */
START_TEST(test_what_else_is_read_is_still_computed)
{
    input("x", IN);
    linear("x", IN, "i", H);
    linear("x", IN, "o", H);
    linear("x", IN, "u", H);
    leaf_of_sums();
    output("si");
    struct cell_model *found = load(false);
    struct cell_model *written = load(true);
    double got[64];
    double want[64];
    uint32_t n = run(found, got);
    ck_assert_uint_eq(n, 3 * H);
    ck_assert_uint_eq(run(written, want), n);
    for (uint32_t i = 0; i < n; i++) {
        util_assert_close(got[i], want[i], 1e-6, 1e-6);
    }
    cell_model_free(registry, found);
    cell_model_free(registry, written);
}
END_TEST

/* ---- Parts as such ------------------------------------------------------------------------ */

START_TEST(test_a_part_has_rows_on_its_first_axis)
{
    const int64_t ids[] = {7}; // of seven rows, as exported
    onnx_input(&builder, "id", INT64, 1, ids);
    constant("table", 9, H);
    node("Gather", "table id", "out");
    output("out");
    struct cell_model *model = load(false);
    ck_assert_int_eq(model->stages[0].kind, CELL_STAGE_ONCE);
    ck_assert_str_eq(model->stages[0].type->name, "part");
    ck_assert_int_eq(model->inputs[0].dims[0], CELL_DIM_ANY);
    ck_assert_int_eq(model->inputs[0].batch_axis, 0);
    ck_assert_int_eq(model->inputs[0].time_axis, -1);
    ck_assert_int_eq(model->inputs[0].id_bound, 9);
    ck_assert_int_eq(model->outputs[0].batch_axis, 0);
    ck_assert_uint_eq(model->outputs[0].width, H);
    cell_model_free(registry, model);
}
END_TEST

static void expect_refused(const char *why)
{
    const struct cell_model_options options = {.precision = CELL_FP32, .is_part = true};
    struct cell_model *model = NULL;
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length, NULL}, "part", &options, &model, &error);
    ck_assert_msg(status != BASE_OK && strstr(error.message, why) != NULL, "%s", error.message);
}

START_TEST(test_a_part_without_rows_is_refused)
{
    onnx_input(&builder, "x", FLOAT, 0, NULL);
    node("Tanh", "x", "out");
    output("out");
    expect_refused("input \"x\" has no axis for its rows");
}
END_TEST

START_TEST(test_a_part_with_steps_is_refused)
{
    const int64_t x[] = {-1, -1, IN};
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_add_weights(&builder, "GRU", IN, H, SEED);
    node("GRU", "x w r b", "out");
    output("out");
    expect_refused("of more than one step inside a body or a part of a model");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_tree");
    TCase *cells = tcase_create("cells");
    TCase *parts = tcase_create("parts");
    tcase_add_checked_fixture(cells, setup, teardown);
    tcase_add_checked_fixture(parts, setup, teardown);
    tcase_add_test(cells, test_a_leaf_of_three_products);
    tcase_add_test(cells, test_a_leaf_of_one_product_that_is_split);
    tcase_add_loop_test(cells, test_a_node_over_both_children_side_by_side, 0, 4);
    tcase_add_loop_test(cells, test_a_node_of_a_product_over_each_child, 0, 4);
    tcase_add_loop_test(cells, test_a_node_with_an_input_of_its_own, 0, 2);
    tcase_add_test(cells, test_a_forget_gate_that_sees_one_child);
    tcase_add_loop_test(cells, test_a_child_sum_node, 0,
                        (int)(sizeof(child_sums) / sizeof(child_sums[0])));
    tcase_add_loop_test(cells, test_what_is_nearly_a_child_sum_stays, 0,
                        (int)(sizeof(no_child_sums) / sizeof(no_child_sums[0])));
    tcase_add_loop_test(cells, test_cells_that_are_something_else_stay, 0, 2);
    tcase_add_test(cells, test_what_else_is_read_is_still_computed);
    suite_add_tcase(suite, cells);
    tcase_add_test(parts, test_a_part_has_rows_on_its_first_axis);
    tcase_add_test(parts, test_a_part_without_rows_is_refused);
    tcase_add_test(parts, test_a_part_with_steps_is_refused);
    suite_add_tcase(suite, parts);
    return util_run(suite);
}
