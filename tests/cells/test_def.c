/* cell_def_check(): one definition with every op passes; each test then breaks one thing. */
#include "cells/def.h"

#include "tests/cells/build.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

static struct build build;

/* Values by name of the definition below. */
static uint32_t x, id, h, c, wide, embedded, linear, lstm, soft, joined, slice, seven, numbers;
static uint32_t patches;

static void setup(void)
{
    build_init(&build, 1);
    x = build_input(&build, CELL_F32, 6);
    id = build_input(&build, CELL_I64, 1);
    h = build_state(&build, CELL_F32, 5);
    c = build_state(&build, CELL_F32, 5);
    embedded = build_gather(&build, id, 10, 6);
    wide = build_op(&build, CELL_OP_ADD, x, embedded, 6);
    lstm = build_lstm(&build, wide, h, c, true);
    linear = build_linear(&build, lstm, 4, true);
    soft = build_op(&build, CELL_OP_SOFTMAX, linear, UINT32_MAX, 4);
    joined = build_concat(&build, 2, (const uint32_t[]){soft, lstm});
    slice = build_op(&build, CELL_OP_SLICE, joined, UINT32_MAX, 3);
    build_last(&build)->start = 6;
    (void)build_cast(&build, slice, CELL_I32);
    (void)build_op(&build, CELL_OP_COPY, slice, UINT32_MAX, 3);
    seven = build_const(&build, 7);
    (void)build_op(&build, CELL_OP_TANH, slice, UINT32_MAX, 3);
    numbers = build_op(&build, CELL_OP_TOP, joined, UINT32_MAX, 2);
    build.def.values[numbers].dtype = CELL_I64;
    (void)build_op(&build, CELL_OP_TAKE, joined, numbers, 2);
    (void)build_transpose(&build, wide, (const uint32_t[]){1, 2, 3});
    (void)build_spread(&build, wide, (const uint32_t[]){2, 4, 3});
    patches = build_patches(&build, wide, 2, 2, 3); // of 4 elements
    build_next(&build, 0, lstm);
    build_next(&build, 1, lstm + 1);
    build_output(&build, soft);
}

static void teardown(void)
{
    build_release(&build);
}

/* The definition must be refused with a message that holds `words`. */
static void assert_refused(const char *words)
{
    struct base_error error = {BASE_OK, ""};
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, words) != NULL, "\"%s\" lacks \"%s\"", error.message,
                  words);
}

static struct cell_op *op_of(enum cell_op_kind kind)
{
    for (uint32_t o = 0; o < build.def.n_ops; o++) {
        if (build.def.ops[o].kind == kind) {
            return &build.def.ops[o];
        }
    }
    ck_abort_msg("no such op");
}

/* What SELECT chooses, and nothing else reads, may be infinite: masks are made so. */
START_TEST(test_a_constant_that_masks_may_be_infinite)
{
    struct build own;
    struct base_error error;
    float number = -INFINITY;
    build_init(&own, 1);
    const uint32_t in = build_input(&own, CELL_F32, 3);
    const uint32_t constant = build_op(&own, CELL_OP_CONST, 0, 0, 1);
    struct cell_op *op = build_last(&own);
    op->n_operands = 0;
    op->n_weights = 1;
    op->weights[0] = (struct cell_weight){CELL_F32, 1, 1, &number};
    const uint32_t chosen = build_op(&own, CELL_OP_SELECT, in, constant, 3);
    op = build_last(&own);
    op->operands[op->n_operands++] = in;
    build_output(&own, chosen);
    ck_assert_msg(cell_def_check(&own.def, &error) == BASE_OK, "%s", error.message);
    number = NAN;
    ck_assert_int_eq(cell_def_check(&own.def, &error), BASE_INVALID_ARGUMENT);
    number = INFINITY;
    ck_assert_int_eq(cell_def_check(&own.def, &error), BASE_OK);
    own.def.outputs[0] = constant; // somebody else reads it
    own.def.values[constant].width = 1;
    ck_assert_int_eq(cell_def_check(&own.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "not finite: inf"));
    own.def.outputs[0] = chosen;
    build_output(&own, build_op(&own, CELL_OP_ADD, in, constant, 3));
    ck_assert_int_eq(cell_def_check(&own.def, &error), BASE_INVALID_ARGUMENT);
    build_release(&own);
}
END_TEST

START_TEST(test_def_with_every_kind_of_op_passes)
{
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(cell_def_check(&build.def, &error) == BASE_OK, "%s", error.message);
}
END_TEST

START_TEST(test_def_with_too_many_of_something_is_refused)
{
    struct cell_def def = build.def;
    build.def.n_inputs = CELL_INPUTS_MAX + 1;
    assert_refused("too many");
    build.def = def;
    build.def.n_values = CELL_VALUES_MAX + 1;
    assert_refused("too many");
    build.def = def;
    build.def.n_ops = CELL_OPS_MAX + 1;
    assert_refused("too many");
    build.def = def;
    build.def.n_values++;
    assert_refused("values, but");
}
END_TEST

START_TEST(test_def_value_width_and_dtype)
{
    build.def.values[0].width = 0;
    assert_refused("width 0");
    build.def.values[0].width = CELL_WIDTH_MAX + 1;
    assert_refused("width");
    build.def.values[0].width = 6;
    build.def.values[0].dtype = (enum cell_dtype)9;
    assert_refused("unknown dtype");
}
END_TEST

START_TEST(test_def_products)
{
    enum cell_products found = CELL_PRODUCTS_FP32;
    for (uint32_t p = 0; p < CELL_PRODUCTS_COUNT; p++) {
        const char *name = cell_products_name((enum cell_products)p);
        ck_assert_int_eq(cell_products_find(name, &found, NULL), BASE_OK);
        ck_assert_uint_eq(found, p);
    }
    ck_assert_int_eq(cell_products_find("fp16", &found, NULL), BASE_INVALID_ARGUMENT);
    build.def.products = (enum cell_products)CELL_PRODUCTS_COUNT;
    assert_refused("precision of products");
}
END_TEST

START_TEST(test_def_op_frame)
{
    struct cell_def def = build.def;
    build.def.ops[0].kind = CELL_OP_COUNT;
    assert_refused("unknown op");
    build.def = def;
    op_of(CELL_OP_ADD)->n_operands = 1;
    assert_refused("number of operands");
    build.def = def;
    op_of(CELL_OP_CONCAT)->n_operands = 0;
    assert_refused("number of operands");
    build.def = def;
    op_of(CELL_OP_LSTM)->n_weights = 1;
    assert_refused("number of weights");
    build.def = def;
    op_of(CELL_OP_ADD)->result++;
    assert_refused("next value number");
    build.def = def;
    op_of(CELL_OP_ADD)->operands[1] = op_of(CELL_OP_ADD)->result;
    assert_refused("not an earlier value");
}
END_TEST

START_TEST(test_def_weights)
{
    struct cell_weight *weight = &op_of(CELL_OP_LINEAR)->weights[0];
    struct cell_weight good = *weight;
    weight->data = NULL;
    assert_refused("empty");
    *weight = good;
    weight->rows = 0;
    assert_refused("empty");
    *weight = good;
    weight->dtype = (enum cell_dtype)7;
    assert_refused("unknown dtype");
    *weight = good;
    weight->cols = CELL_WIDTH_MAX + 1;
    assert_refused("too large");
    *weight = good;
    float *data = build_floats(&build, good.rows, good.cols, 1.0f);
    weight->data = data;
    char words[128];
    (void)snprintf(words, sizeof(words),
                   "not finite: nan in row %u, column %u of weight 0, %u x %u", good.rows - 1,
                   good.cols - 1, good.rows, good.cols);
    data[good.rows * good.cols - 1] = NAN;
    assert_refused(words);
    ck_assert_ptr_eq(cell_def_bad_element(&build.def), &data[good.rows * good.cols - 1]);
    data[good.rows * good.cols - 1] = -INFINITY;
    assert_refused("not finite: -inf in row");
    *weight = good;
    ck_assert_ptr_null(cell_def_bad_element(&build.def));
}
END_TEST

START_TEST(test_def_gather_shapes)
{
    struct cell_def def = build.def;
    build.def.values[id].width = 2;
    assert_refused("one integer");
    build.def = def;
    op_of(CELL_OP_GATHER)->operands[0] = x;
    assert_refused("one integer");
    build.def = def;
    op_of(CELL_OP_GATHER)->weights[0].cols = 5;
    assert_refused("row of the table");
}
END_TEST

START_TEST(test_def_linear_and_lstm_shapes)
{
    struct cell_def def = build.def;
    op_of(CELL_OP_LINEAR)->weights[0].rows--;
    assert_refused("[in, out]");
    build.def = def;
    op_of(CELL_OP_LINEAR)->weights[1].cols--;
    assert_refused("[1, out]");
    build.def = def;
    op_of(CELL_OP_LSTM)->weights[0].cols--;
    assert_refused("[gates * H, in]");
    build.def = def;
    op_of(CELL_OP_LSTM)->weights[1].rows--;
    assert_refused("[gates * H, width of h]");
    build.def = def;
    op_of(CELL_OP_LSTM)->weights[2].cols--;
    assert_refused("[1, 2 * gates * H]");
    build.def = def;
    build.def.values[c].width = 4;
    assert_refused("c and the results");
}
END_TEST

START_TEST(test_def_lstm_with_peepholes)
{
    struct cell_op *peeping = op_of(CELL_OP_LSTM);
    uint32_t hidden = peeping->weights[2].cols / 8;
    float *data = build_floats(&build, 3, hidden, 1.0f);
    peeping->weights[3] = (struct cell_weight){CELL_F32, 1, 3 * hidden, data};
    peeping->n_weights = 4;
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(cell_def_check(&build.def, &error) == BASE_OK, "%s", error.message);
    peeping->weights[3].cols--;
    assert_refused("P is not f32 [1, 3H]");
}
END_TEST

/* A cell of one GRU or RNN: x 5 wide, 6 units. */
static struct cell_op *only_gated(enum cell_op_kind kind)
{
    build_release(&build);
    build_init(&build, 3);
    uint32_t in = build_input(&build, CELL_F32, 5);
    uint32_t state = build_state(&build, CELL_F32, 6);
    build_next(&build, 0, build_gated(&build, kind, 1, in, state, true));
    return build_last(&build);
}

START_TEST(test_def_gru_and_rnn_shapes)
{
    enum cell_op_kind kind = _i == 0 ? CELL_OP_GRU : CELL_OP_RNN;
    struct cell_op *op = only_gated(kind);
    struct cell_op good = *op;
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(cell_def_check(&build.def, &error) == BASE_OK, "%s", error.message);
    op->variant = 2;
    assert_refused("unknown variant");
    *op = good;
    op->weights[0].rows--;
    assert_refused("[gates * H, in]");
    *op = good;
    op->weights[1].cols--;
    assert_refused("width of h");
    *op = good;
    op->weights[2].cols--;
    assert_refused("2 * gates * H");
    *op = good;
    op->n_weights = 2;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    op->n_weights = 1;
    assert_refused("number of weights");
    *op = good;
    build.def.values[1].width = 4; // h
    assert_refused("h and the result");
}
END_TEST

/* Refused before anything is rounded: what could not be held, or not be summed, as asked. */
START_TEST(test_def_precision_of_recurrent_weights)
{
    static const float large[] = {3.3961776e38f, -3.4e38f}; // from here on the nearest is infinite
    static float weights[CELL_INT8_TERMS_MAX + 1];
    static float r[1];
    struct cell_op *op = op_of(CELL_OP_LSTM);
    float *w = build_floats(&build, 20, 6, 1.0f);
    op->weights[0].data = w;
    for (uint32_t p = CELL_FP32; p <= CELL_INT8; p++) {
        op->precision = (enum cell_precision)p;
        ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
    }
    op->precision = (enum cell_precision)(CELL_INT8 + 1);
    assert_refused("unknown precision");
    for (uint32_t i = 0; i < 2; i++) {
        w[119] = large[i];
        op->precision = CELL_INT8;
        ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
        op->precision = CELL_BF16;
        assert_refused("op 2 (LSTM): bf16 weights: a weight is too large for bf16");
    }
    w[119] = 3.3961773e38f; // one float less
    ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
    build_release(&build);
    build_init(&build, 2);
    uint32_t in = build_input(&build, CELL_F32, CELL_INT8_TERMS_MAX + 1);
    uint32_t state = build_state(&build, CELL_F32, 1);
    uint32_t out = build_gated(&build, CELL_OP_RNN, CELL_RNN_TANH, in, state, false);
    build_next(&build, 0, out);
    op = build_last(&build);
    op->weights[0].data = weights;
    op->weights[1].data = r;
    op->precision = CELL_BF16;
    ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
    op->precision = CELL_INT8;
    assert_refused(
        "op 0 (RNN): int8 weights: 133145 terms of up to 127 * 127 may overflow an int32 "
        "sum; at most 133144");
    build.def.values[in].width = op->weights[0].cols = CELL_INT8_TERMS_MAX;
    ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
}
END_TEST

START_TEST(test_def_precision_of_a_linear)
{
    static float weights[CELL_INT8_TERMS_MAX + 1];
    build_release(&build);
    build_init(&build, 2);
    uint32_t in = build_input(&build, CELL_F32, CELL_INT8_TERMS_MAX + 1);
    build_output(&build, build_linear(&build, in, 1, false));
    struct cell_op *op = build_last(&build);
    op->weights[0].data = weights;
    op->precision = CELL_BF16;
    ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
    op->precision = CELL_INT8;
    assert_refused(
        "op 0 (LINEAR): int8 weights: 133145 terms of up to 127 * 127 may overflow an int32 "
        "sum; at most 133144");
    build.def.values[in].width = op->weights[0].rows = CELL_INT8_TERMS_MAX;
    ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
    weights[7] = 3.4e38f;
    ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
    op->precision = CELL_BF16;
    assert_refused("op 0 (LINEAR): bf16 weights: a weight is too large for bf16");
    op->precision = (enum cell_precision)CELL_PRECISION_COUNT;
    assert_refused("unknown precision");
}
END_TEST

/* A definition of one tree op alone, with x. */
static struct cell_op *tree_of(enum cell_op_kind kind, uint32_t n_children)
{
    build_release(&build);
    build_tree_cell(
        &build,
        (struct build_tree){.kind = kind, .hidden = 5, .n_children = n_children, .has_bias = true},
        6, 1);
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(cell_def_check(&build.def, &error) == BASE_OK, "%s", error.message);
    return build_last(&build);
}

START_TEST(test_def_tree_operands)
{
    struct cell_op *op = tree_of(CELL_OP_TREE_BINARY, 2);
    op->n_operands = 3;
    assert_refused("op 0 (TREE_BINARY): wrong number of operands: 3, not 4..5");
    op = tree_of(CELL_OP_TREE_BINARY, 2);
    op->n_operands = 6;
    assert_refused("op 0 (TREE_BINARY): wrong number of operands: 6, not 4..5");
    op = tree_of(CELL_OP_TREE_LEAF, 0);
    op->n_operands = 0;
    assert_refused("op 0 (TREE_LEAF): wrong number of operands: 0, not 1..1");
    op = tree_of(CELL_OP_TREE_SUM, CELL_CHILDREN_MAX);
    op->n_operands = 1;
    assert_refused("op 0 (TREE_SUM): wrong number of operands: 1, not 2..17");
    op->n_operands = 18;
    assert_refused("op 0 (TREE_SUM): wrong number of operands: 18, not 2..17");
    (void)tree_of(CELL_OP_TREE_SUM, 3);
    build.def.values[4].width = 4; // c of the second child
    assert_refused("op 0 (TREE_SUM): child 1: h and c are 5 and 4 wide, not f32 of 5");
    (void)tree_of(CELL_OP_TREE_LEAF, 0);
    build.def.values[0].dtype = CELL_I32;
    assert_refused("op 0 (TREE_LEAF): x must be f32");
    op = tree_of(CELL_OP_TREE_LEAF, 0);
    build.def.values[op->result + 1].width = 4;
    assert_refused("op 0 (TREE_LEAF): the results must be f32 of one width");
}
END_TEST

START_TEST(test_def_tree_weights)
{
    struct cell_op *op = tree_of(CELL_OP_TREE_BINARY, 2);
    op->n_weights = 2;
    assert_refused("op 0 (TREE_BINARY): 2 weights, but 3 matrices and an optional B");
    op = tree_of(CELL_OP_TREE_BINARY, 2);
    op->weights[0].cols = 5;
    assert_refused("op 0 (TREE_BINARY): W is [25, 5], not f32 [25, 6]");
    op = tree_of(CELL_OP_TREE_BINARY, 2);
    op->weights[2].rows = 20;
    assert_refused("op 0 (TREE_BINARY): R is [20, 5], not f32 [25, 5]");
    op = tree_of(CELL_OP_TREE_SUM, 2);
    op->weights[1].rows = 15;
    assert_refused("op 0 (TREE_SUM): U is [15, 5], not f32 [20, 5]");
    op = tree_of(CELL_OP_TREE_SUM, 2);
    op->weights[2].cols = 10;
    assert_refused("op 0 (TREE_SUM): B is [1, 10], not f32 [1, 20]");
    op = tree_of(CELL_OP_TREE_BINARY, 2);
    op->precision = (enum cell_precision)(CELL_INT8 + 1);
    assert_refused("op 0 (TREE_BINARY): unknown precision");
    op = tree_of(CELL_OP_TREE_BINARY, 2);
    float *right = build_floats(&build, 25, 5, 1.0f);
    right[124] = 3.4e38f;
    op->weights[2].data = right;
    op->precision = CELL_BF16;
    assert_refused("op 0 (TREE_BINARY): bf16 weights: a weight is too large for bf16");
}
END_TEST

START_TEST(test_def_names_precisions)
{
    static const char *const names[] = {"fp32", "bf16", "int8"};
    struct base_error error = {BASE_OK, ""};
    enum cell_precision found = CELL_FP32;
    for (uint32_t p = CELL_FP32; p <= CELL_INT8; p++) {
        ck_assert_str_eq(cell_precision_name((enum cell_precision)p), names[p]);
        ck_assert_int_eq(cell_precision_find(names[p], &found, &error), BASE_OK);
        ck_assert_uint_eq((uint32_t)found, p);
        ck_assert_uint_eq(cell_precision_bytes(found), 4u >> p);
    }
    ck_assert_int_eq(cell_precision_find("fp16", &found, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "precision fp16: must be fp32, bf16 or int8");
}
END_TEST

START_TEST(test_def_rowwise_shapes)
{
    struct cell_def def = build.def;
    build.def.values[x].width = 3;
    assert_refused("of width 1");
    build.def = def;
    op_of(CELL_OP_SOFTMAX)->group = 3;
    assert_refused("divide");
    build.def = def;
    op_of(CELL_OP_SOFTMAX)->group = 0;
    assert_refused("divide");
    build.def = def;
    op_of(CELL_OP_CONCAT)->n_operands = 1;
    assert_refused("together");
    build.def = def;
    op_of(CELL_OP_SLICE)->start = UINT32_MAX;
    assert_refused("inside");
    build.def = def;
    build.def.values[op_of(CELL_OP_CAST)->result].width = 2;
    assert_refused("differ in width");
    build.def = def;
    build.def.values[op_of(CELL_OP_COPY)->result].width = 2;
    assert_refused("differ in dtype or width");
    build.def = def;
    op_of(CELL_OP_CONST)->weights[0].cols = 6;
    assert_refused("[1, width]");
    build.def = def;
    build.def.values[op_of(CELL_OP_TANH)->result].dtype = CELL_I32;
    assert_refused("f32 of one width");
}
END_TEST

/* The numbers are believed when the op is run. */
START_TEST(test_def_top_and_take)
{
    struct cell_def def = build.def;
    build.def.values[numbers].dtype = CELL_I32;
    assert_refused("TOP): the operand is not f32, or the result not i64");
    build.def = def;
    build.def.values[numbers].width = 10;
    assert_refused("at most as wide");
    build.def = def;
    op_of(CELL_OP_TOP)->variant = 2;
    assert_refused("unknown variant");
    build.def = def;
    op_of(CELL_OP_TAKE)->operands[0] = linear;
    assert_refused("TAKE): the numbers are not the result of a TOP");
    build.def = def;
    op_of(CELL_OP_TAKE)->operands[1] = id;
    assert_refused("TAKE): the numbers are not the result of a TOP");
    build.def = def;
    build.def.values[numbers + 1].width = 3;
    assert_refused("one element a number");
    build.def = def;
    op_of(CELL_OP_TAKE)->operands[1] = seven; // of floats
    build.def.values[numbers + 1].width = 7;
    assert_refused("nor constants below its width");
    static const int64_t most[7] = {8, 0, 8, 3, 3, 1, 2};
    static const int64_t beyond[7] = {8, 0, 9, 3, 3, 1, 2};
    static const int64_t negative[7] = {8, 0, -1, 3, 3, 1, 2};
    const int64_t *const all[] = {most, beyond, negative};
    for (uint32_t i = 0; i < 3; i++) {
        build.def = def;
        build.def.values[seven].dtype = CELL_I64;
        build.def.values[numbers + 1].width = 7;
        op_of(CELL_OP_CONST)->weights[0] = (struct cell_weight){CELL_I64, 1, 7, all[i]};
        op_of(CELL_OP_TAKE)->operands[1] = seven;
        if (i == 0) { // the row has 9 elements
            struct base_error error = {BASE_OK, ""};
            ck_assert_msg(cell_def_check(&build.def, &error) == BASE_OK, "%s", error.message);
        } else {
            assert_refused("nor constants below its width");
        }
    }
}
END_TEST

START_TEST(test_def_patches)
{
    struct cell_def def = build.def;
    struct cell_op *op = &build.def.ops[build.def.n_ops - 1];
    struct base_error error = {BASE_OK, ""};
    ck_assert_uint_eq(op->result, patches);
    ck_assert_uint_eq(cell_op_patches(op), 2);
    ck_assert_uint_eq(cell_op_patches(op_of(CELL_OP_LINEAR)), 1);
    ck_assert_uint_eq(cell_op_patches(op_of(CELL_OP_TRANSPOSE)), 1);
    op->step = 3;
    assert_refused("LINEAR): 2 patches, each 3 elements behind the other, of 4, do not fit a row "
                   "of 6 and a result of 6");
    op->step = UINT32_MAX;
    assert_refused("do not fit a row");
    op->step = 0;
    assert_refused("do not fit a row");
    op->step = 1;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK); // one element is not read
    op->patches = UINT32_MAX;
    assert_refused("do not fit a row");
    op->patches = 4;
    op->step = 1;
    assert_refused("do not fit a row");
    build.def = def;
    op->patches = 1;
    assert_refused("W is not");
    build.def = def;
    op->weights[1].cols = 2;
    assert_refused("LINEAR): b is not");
}
END_TEST

START_TEST(test_def_spread)
{
    struct cell_def def = build.def;
    struct cell_op *op = op_of(CELL_OP_SPREAD);
    op->dims[0] = 3;
    assert_refused("SPREAD): [3, 3] of a row of 6 4 times is not a row of 24");
    op->dims[0] = 0;
    assert_refused("is not a row of 24");
    op->dims[0] = op->dims[1] = op->dims[2] = UINT32_MAX;
    assert_refused("is not a row of 24");
    build.def = def;
    op->dims[1] = 0;
    assert_refused("6 0 times");
    op->dims[1] = 3;
    assert_refused("6 3 times is not a row of 24");
    build.def = def;
    build.def.values[op->result].dtype = CELL_I32;
    assert_refused("of another dtype");
}
END_TEST

START_TEST(test_def_transpose)
{
    struct cell_def def = build.def;
    struct cell_op *op = op_of(CELL_OP_TRANSPOSE);
    op->dims[0] = 2;
    assert_refused("TRANSPOSE): [2, 2, 3, ..] is not a row of 6");
    op->dims[0] = 0;
    assert_refused("is not a row");
    op->dims[0] = op->dims[1] = op->dims[2] = UINT32_MAX;
    assert_refused("is not a row");
    build.def = def;
    op->dims[2] = 4;
    assert_refused("is not a row");
    build.def = def;
    build.def.values[op->result].width = 3;
    assert_refused("differ in dtype or width");
    build.def = def;
    build.def.values[op->result].dtype = CELL_I32;
    assert_refused("differ in dtype or width");
}
END_TEST

START_TEST(test_def_states_and_outputs)
{
    build.def.outputs[0] = build.def.n_values;
    assert_refused("output 0");
    build.def.outputs[0] = soft;
    build.def.state_next[1] = build.def.n_values;
    assert_refused("state 1");
    build.def.state_next[1] = soft;
    assert_refused("differs in dtype or width");
}
END_TEST

START_TEST(test_def_names_ops)
{
    ck_assert_str_eq(cell_op_name(CELL_OP_GATHER), "GATHER");
    ck_assert_str_eq(cell_op_name(CELL_OP_LSTM), "LSTM");
    ck_assert_str_eq(cell_op_name(CELL_OP_COUNT), "unknown");
    ck_assert_uint_eq(cell_dtype_bytes(CELL_I64), 8);
    ck_assert_uint_eq(cell_dtype_bytes(CELL_F32), 4);
}
END_TEST

/* An LSTM or GRU over patches of x, alone in a definition. */
static void build_turns(struct build *of, enum cell_op_kind kind, enum cell_patch_order order)
{
    build_init(of, 1);
    const uint32_t in = build_input(of, CELL_F32, 12);
    const uint32_t before = build_state(of, CELL_F32, order == CELL_PATCHES_APART ? 15 : 5);
    const struct build_turns turns = {.kind = kind,
                                      .order = order,
                                      .variant = CELL_GRU_RESET_AFTER,
                                      .patches = 3,
                                      .hidden = 5,
                                      .x = in,
                                      .h = before,
                                      .c = before};
    build_output(of, build_gated_patches(of, &turns));
    build_next(of, 0, before);
}

static void assert_refused_in(struct build *of, const char *why)
{
    struct base_error error = {BASE_OK, ""};
    ck_assert_int_eq(cell_def_check(&of->def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, why) != NULL, "%s", error.message);
}

START_TEST(test_def_means_of_groups)
{
    struct build of;
    struct base_error error = {BASE_OK, ""};
    build_init(&of, 1);
    const uint32_t in = build_input(&of, CELL_F32, 12);
    build_output(&of, build_op(&of, CELL_OP_MEAN, in, UINT32_MAX, 3));
    assert_refused_in(&of, "op 0 (MEAN): operand and result must be f32, the result of one "
                           "element a group");
    build_last(&of)->group = 4;
    ck_assert_msg(cell_def_check(&of.def, &error) == BASE_OK, "%s", error.message);
    build_last(&of)->group = 5;
    assert_refused_in(&of, "op 0 (MEAN): the group does not divide the width");
    build_last(&of)->group = 6;
    assert_refused_in(&of, "one element a group");
    build_last(&of)->kind = CELL_OP_SUM;
    assert_refused_in(&of, "op 0 (SUM): operand and result must be f32, the result of one "
                           "element a group");
    build_release(&of);
}
END_TEST

START_TEST(test_def_recurrent_patches)
{
    for (uint32_t order = 0; order <= CELL_PATCHES_BACKWARD; order++) {
        struct build of;
        struct base_error error = {BASE_OK, ""};
        build_turns(&of, CELL_OP_LSTM, (enum cell_patch_order)order);
        struct cell_op *op = build_last(&of);
        ck_assert_msg(cell_def_check(&of.def, &error) == BASE_OK, "%s", error.message);
        ck_assert_uint_eq(cell_op_patches(op), 3);
        op->patches = 5;
        assert_refused_in(&of, "op 0 (LSTM): 5 patches");
        op->patches = 1;
        assert_refused_in(&of, order == CELL_PATCHES_APART ? "W is not" : "do not fit");
        op->patches = UINT32_MAX;
        assert_refused_in(&of, "do not fit rows of 12, an h of");
        op->patches = 3;
        op->order = (enum cell_patch_order)3;
        assert_refused_in(&of, "unknown order");
        op->order = (enum cell_patch_order)order;
        of.def.values[op->result + 1].width = 5;
        assert_refused_in(&of, "c and the results");
        build_release(&of);
    }
}
END_TEST

START_TEST(test_def_patches_in_turn_of_a_gru)
{
    struct build of;
    struct base_error error = {BASE_OK, ""};
    build_turns(&of, CELL_OP_GRU, CELL_PATCHES_BACKWARD);
    struct cell_op *op = build_last(&of);
    ck_assert_msg(cell_def_check(&of.def, &error) == BASE_OK, "%s", error.message);
    op->variant = CELL_GRU_RESET_BEFORE;
    assert_refused_in(&of, "patches in turn of a GRU that resets before the product");
    op->variant = CELL_GRU_RESET_AFTER;
    of.def.values[op->operands[1]].width = 15;
    assert_refused_in(&of, "op 0 (GRU): 3 patches in turn do not fit rows of 12, an h of 15 and "
                           "a result of 15");
    build_release(&of);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("def");
    TCase *tcase = tcase_create("check");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_a_constant_that_masks_may_be_infinite);
    tcase_add_test(tcase, test_def_with_every_kind_of_op_passes);
    tcase_add_test(tcase, test_def_with_too_many_of_something_is_refused);
    tcase_add_test(tcase, test_def_value_width_and_dtype);
    tcase_add_test(tcase, test_def_products);
    tcase_add_test(tcase, test_def_op_frame);
    tcase_add_test(tcase, test_def_weights);
    tcase_add_test(tcase, test_def_gather_shapes);
    tcase_add_test(tcase, test_def_linear_and_lstm_shapes);
    tcase_add_test(tcase, test_def_lstm_with_peepholes);
    tcase_add_loop_test(tcase, test_def_gru_and_rnn_shapes, 0, 2);
    tcase_add_test(tcase, test_def_precision_of_recurrent_weights);
    tcase_add_test(tcase, test_def_precision_of_a_linear);
    tcase_add_test(tcase, test_def_tree_operands);
    tcase_add_test(tcase, test_def_tree_weights);
    tcase_add_test(tcase, test_def_names_precisions);
    tcase_add_test(tcase, test_def_rowwise_shapes);
    tcase_add_test(tcase, test_def_top_and_take);
    tcase_add_test(tcase, test_def_patches);
    tcase_add_test(tcase, test_def_recurrent_patches);
    tcase_add_test(tcase, test_def_means_of_groups);
    tcase_add_test(tcase, test_def_patches_in_turn_of_a_gru);
    tcase_add_test(tcase, test_def_transpose);
    tcase_add_test(tcase, test_def_spread);
    tcase_add_test(tcase, test_def_states_and_outputs);
    tcase_add_test(tcase, test_def_names_ops);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
