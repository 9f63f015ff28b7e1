/* Inputs of bytes: booleans, and integers of 8 bits. What becomes floats of them is served, what
 * would compute with integers that wrap round is not. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
    UINT8 = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
    INT8 = ONNX__TENSOR_PROTO__DATA_TYPE__INT8,
    BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
};
enum { WIDTH = 3, HIDDEN = 2, STEPS = 4, BATCH = 2 };

static struct onnx_builder builder;

/* x [time, batch, WIDTH]; the case adds nodes that make floats `f` of it. */
static void begin(int32_t dtype)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const float half = 0.5f;
    const uint8_t seven = 7;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "x", dtype, 3, dims);
    onnx_constant(&builder, "half", onnx_tensor(&builder, FLOAT, 0, NULL, &half, sizeof(half)));
    onnx_constant(&builder, "seven", onnx_tensor(&builder, UINT8, 0, NULL, &seven, 1));
    onnx_constant(&builder, "seven8", onnx_tensor(&builder, INT8, 0, NULL, &seven, 1));
}

static void cast(const char *from, const char *to, int64_t dtype)
{
    onnx_set_int(&builder, onnx_node(&builder, "Cast", from, to), "to", dtype);
}

static void end(void)
{
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "f w r b", "out"), "hidden_size", HIDDEN);
    onnx_output(&builder, "f", FLOAT, 0, NULL);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

/* f(x) of each element: factor * x + add, or whether x is 0. */
static void expect_floats(enum cell_form byte, double factor, double add, bool is_truth)
{
    struct built built;
    struct replay_tensor outputs[2] = {{.rank = 0}};
    double data[STEPS * BATCH * WIDTH];
    end();
    load_built(&builder, &built);
    const struct cell_tensor *input = &built.model->inputs[0];
    ck_assert_int_eq(input->form, byte);
    ck_assert_int_eq(input->dtype, CELL_F32);
    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
        const double bytes[] = {0, 1, byte == CELL_FORM_I8 ? -128 : 255, 127};
        data[i] = byte == CELL_FORM_BOOL ? (double)(i % 3 == 0) : bytes[i % 4];
    }
    const struct replay_tensor x = {.rank = 3,
                                    .dims = {STEPS, BATCH, WIDTH},
                                    .count = sizeof(data) / sizeof(data[0]),
                                    .data = data};
    replay_run(built.model, &x, outputs);
    ck_assert_uint_eq(outputs[0].count, x.count);
    for (size_t i = 0; i < x.count; i++) {
        const double truth = data[i] == 0.0 ? 0.0 : 1.0;
        util_assert_close(outputs[0].data[i], factor * (is_truth ? truth : data[i]) + add, 1e-6, 0);
    }
    base_free(outputs[0].data);
    base_free(outputs[1].data);
    free_built(&builder, &built);
}

START_TEST(test_bytes_become_floats)
{
    begin(UINT8);
    cast("x", "f", FLOAT);
    expect_floats(CELL_FORM_U8, 1, 0, false);
    begin(INT8);
    cast("x", "f", FLOAT);
    expect_floats(CELL_FORM_I8, 1, 0, false);
    begin(BOOL);
    cast("x", "f", FLOAT);
    expect_floats(CELL_FORM_BOOL, 1, 0, false);
    begin(BOOL);
    (void)onnx_node(&builder, "Not", "x", "not");
    cast("not", "f", FLOAT);
    expect_floats(CELL_FORM_BOOL, -1, 1, false);
    begin(UINT8);
    (void)onnx_node(&builder, "DequantizeLinear", "x half seven", "f");
    expect_floats(CELL_FORM_U8, 0.5, -3.5, false);
    begin(INT8);
    (void)onnx_node(&builder, "DequantizeLinear", "x half", "f");
    expect_floats(CELL_FORM_I8, 0.5, 0, false);
}
END_TEST

/* Of bytes and of floats, a NaN among them. */
START_TEST(test_what_is_not_zero_is_true)
{
    begin(INT8);
    cast("x", "truth", BOOL);
    cast("truth", "f", FLOAT);
    expect_floats(CELL_FORM_I8, 1, 0, true);
    begin(UINT8);
    cast("x", "floats", FLOAT);
    cast("floats", "truth", BOOL);
    cast("truth", "f", FLOAT);
    expect_floats(CELL_FORM_U8, 1, 0, true);
}
END_TEST

/* What moves elements about, and what takes them as ids. */
START_TEST(test_bytes_are_moved_and_looked_up)
{
    const int64_t table[] = {256, WIDTH};
    const int64_t ids[] = {-1, -1};
    struct base_random numbers = util_random(1);
    begin(UINT8);
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "x x", "twice"), "axis", 2);
    (void)onnx_node(&builder, "Identity", "twice", "same");
    cast("same", "wide", FLOAT);
    onnx_set_int(&builder, onnx_node(&builder, "Split", "wide", "f g"), "axis", 2);
    end();
    expect_accepted(&builder);
    begin(UINT8);
    onnx_input(&builder, "ids", UINT8, 2, ids);
    onnx_constant(&builder, "table", onnx_random(&builder, 2, table, &numbers, 0.5f));
    cast("ids", "wide", INT64);
    (void)onnx_node(&builder, "Gather", "table wide", "rows");
    cast("x", "floats", FLOAT);
    (void)onnx_node(&builder, "Add", "rows floats", "f");
    struct built built;
    end();
    load_built(&builder, &built);
    ck_assert_int_eq(built.model->inputs[1].id_bound, 256);
    free_built(&builder, &built);
}
END_TEST

START_TEST(test_integers_of_8_bits_are_not_computed_with)
{
    static const struct {
        const char *op, *operands, *why;
    } cases[] = {
        {"Add", "x x", "computes with uint8 values that depend on the request"},
        {"Mul", "x seven", "uint8"},
        {"Relu", "x", "computes with uint8 values"},
        {"Max", "x x", "computes with uint8 values"},
        {"Equal", "x seven", "of uint8 values that depend on the request"},
        {"Less", "x seven", "uint8"},
        {"Clip", "x", "of type uint8"},
        {"ReduceMax", "x", "of type uint8"},
        {"ArgMax", "x", "of type uint8"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(UINT8);
        (void)onnx_node(&builder, cases[i].op, cases[i].operands, "y");
        cast("y", "f", FLOAT);
        end();
        struct base_error error = {.message = ""};
        const enum base_status status = parse_built(&builder, &error);
        ck_assert_msg((status == BASE_UNIMPLEMENTED || status == BASE_INVALID_ARGUMENT) &&
                          strstr(error.message, cases[i].why) != NULL &&
                          strstr(error.message, cases[i].op) != NULL,
                      "%s: %s: %s", cases[i].op, base_status_name(status), error.message);
    }
    begin(UINT8);
    (void)onnx_node(&builder, "DequantizeLinear", "x half seven8", "f");
    end();
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "a zero point of type int8 of uint8 values");
    begin(BOOL); // an answer
    cast("x", "f", FLOAT);
    end();
    builder.graph.n_output = 0;
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    onnx_output(&builder, "x", BOOL, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
    expect_accepted(&builder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_bytes");
    TCase *tcase = tcase_create("bytes");
    tcase_add_test(tcase, test_bytes_become_floats);
    tcase_add_test(tcase, test_what_is_not_zero_is_true);
    tcase_add_test(tcase, test_bytes_are_moved_and_looked_up);
    tcase_add_test(tcase, test_integers_of_8_bits_are_not_computed_with);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
