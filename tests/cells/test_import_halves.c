/* Models whose floats are halves: they are the models with floats of the same values, and say how
 * what comes and goes is written. */
#include "base/mem.h"
#include "cells/bf16.h"
#include "cells/f16.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    HALF = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
    BRAIN = ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16,
    DOUBLE = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
    BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
};
enum { WIDTH = 3, HIDDEN = 2, STEPS = 4, BATCH = 2 };

static struct onnx_builder builder;

static uint16_t narrow(int32_t dtype, float x)
{
    return dtype == HALF ? cell_f16_round(x) : cell_bf16_round(x);
}

/* Its floats become what halves of this kind are nearest. */
static void round_floats(int32_t dtype, Onnx__TensorProto *tensor)
{
    for (size_t i = 0; i < tensor->raw_data.len; i += sizeof(float)) {
        float x;
        memcpy(&x, tensor->raw_data.data + i, sizeof(x));
        const uint16_t half = narrow(dtype, x);
        x = dtype == HALF ? cell_f16_widen(half) : cell_bf16_widen(half);
        memcpy(tensor->raw_data.data + i, &x, sizeof(x));
    }
}

/* Floats that are halves, written as these; typed: in the field of integers. */
static void make_halves(int32_t dtype, bool is_typed, Onnx__TensorProto *tensor)
{
    const size_t n = tensor->raw_data.len / sizeof(float);
    uint16_t *halves = base_arena_array(&builder.arena, n, sizeof(*halves));
    int32_t *typed = base_arena_array(&builder.arena, n, sizeof(*typed));
    ck_assert(halves != NULL && typed != NULL);
    for (size_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, tensor->raw_data.data + i * sizeof(x), sizeof(x));
        halves[i] = narrow(dtype, x);
        typed[i] = halves[i];
    }
    tensor->data_type = dtype;
    tensor->raw_data = (ProtobufCBinaryData){n * sizeof(*halves), (uint8_t *)halves};
    if (is_typed) {
        tensor->has_raw_data = false;
        tensor->int32_data = typed;
        tensor->n_int32_data = n;
    }
}

/* A GRU over x [time, batch, WIDTH], whose weights are halves of the kind. */
static void begin(int32_t dtype, int32_t written)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    for (size_t i = 0; i < builder.graph.n_initializer; i++) {
        round_floats(dtype, builder.graph.initializer[i]);
    }
    onnx_input(&builder, "x", written, 3, dims);
}

static void end(const char *from, int32_t written)
{
    char inputs[64];
    const int64_t dims[] = {-1, 1, -1, HIDDEN};
    (void)snprintf(inputs, sizeof(inputs), "%s w r b", from);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", inputs, "out"), "hidden_size", HIDDEN);
    onnx_output(&builder, "out", written, 4, dims);
}

/* One registry: equal weights make equal types, which are one. */
static void expect_twin(int32_t dtype, bool is_typed)
{
    struct cell_registry *registry = NULL;
    struct cell_model *models[2] = {NULL, NULL};
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    for (int m = 0; m < 2; m++) {
        struct base_error error = {.message = ""};
        size_t length = 0;
        begin(dtype, m == 0 ? FLOAT : dtype);
        for (size_t i = 0; i < builder.graph.n_initializer && m == 1; i++) {
            make_halves(dtype, is_typed, builder.graph.initializer[i]);
        }
        end("x", m == 0 ? FLOAT : dtype);
        const uint8_t *bytes = onnx_pack(&builder, &length);
        const struct cell_model_file file = {bytes, length, NULL};
        const enum base_status status =
            cell_model_parse(registry, file, "model", NULL, &models[m], &error);
        ck_assert_msg(status == BASE_OK, "%s", error.message);
        onnx_release(&builder);
    }
    const enum cell_form form = dtype == HALF ? CELL_FORM_F16 : CELL_FORM_BF16;
    ck_assert_ptr_eq(models[0]->stages[0].type, models[1]->stages[0].type);
    ck_assert_int_eq(models[0]->inputs[0].form, CELL_FORM_OWN);
    ck_assert_int_eq(models[1]->inputs[0].form, form);
    ck_assert_int_eq(models[1]->outputs[0].form, form);
    ck_assert_int_eq(models[1]->inputs[0].dtype, CELL_F32);
    ck_assert_int_eq(models[1]->outputs[0].dtype, CELL_F32);
    for (int m = 0; m < 2; m++) {
        cell_model_free(registry, models[m]);
    }
    cell_registry_free(registry);
}

START_TEST(test_halves_are_floats_of_their_values)
{
    expect_twin(HALF, false);
    expect_twin(HALF, true);
    expect_twin(BRAIN, false);
    expect_twin(BRAIN, true);
}
END_TEST

/* There and back nothing is rounded, integers are numbers, and what the file does not say of an
 * output is taken for floats. */
START_TEST(test_casts_round_nothing)
{
    const int32_t kinds[] = {HALF, BRAIN};
    for (size_t k = 0; k < 2; k++) {
        struct built built;
        struct replay_tensor outputs[2] = {{.rank = 0}};
        double data[STEPS * BATCH * WIDTH];
        begin(kinds[k], INT64);
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "x", "halves"), "to", kinds[k]);
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "halves", "f"), "to", FLOAT);
        end("f", FLOAT);
        onnx_output(&builder, "halves", kinds[k], 0, NULL);
        builder.graph.output[1]->type = NULL;
        load_built(&builder, &built);
        ck_assert_int_eq(built.model->outputs[1].form, CELL_FORM_OWN);
        for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
            data[i] = 65537.0 + (double)i; // neither kind has them
        }
        const struct replay_tensor x = {.rank = 3,
                                        .dims = {STEPS, BATCH, WIDTH},
                                        .count = sizeof(data) / sizeof(data[0]),
                                        .data = data};
        replay_run(built.model, &x, outputs);
        ck_assert_mem_eq(outputs[1].data, data, sizeof(data));
        base_free(outputs[0].data);
        base_free(outputs[1].data);
        free_built(&builder, &built);
    }
}
END_TEST

/* Conditions are answered as such, too. */
START_TEST(test_truths_are_answered)
{
    struct built built;
    struct replay_tensor outputs[2] = {{.rank = 0}};
    struct base_random numbers = util_random(1);
    const int64_t dims[] = {STEPS, BATCH, WIDTH};
    const float zero = 0.0f;
    begin(HALF, FLOAT);
    onnx_constant(&builder, "zero", onnx_tensor(&builder, FLOAT, 0, NULL, &zero, sizeof(zero)));
    (void)onnx_node(&builder, "Greater", "x zero", "is_above");
    end("x", FLOAT);
    onnx_output(&builder, "is_above", BOOL, 3, (const int64_t[]){-1, -1, WIDTH});
    load_built(&builder, &built);
    ck_assert_int_eq(built.model->outputs[1].form, CELL_FORM_BOOL);
    struct replay_tensor x = replay_tensor_random(3, dims, &numbers);
    replay_run(built.model, &x, outputs);
    for (size_t i = 0; i < x.count; i++) {
        ck_assert(outputs[1].data[i] == (x.data[i] > 0.0 ? 1.0 : 0.0));
    }
    base_free(x.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
    free_built(&builder, &built);
}
END_TEST

static void cast(const char *from, const char *to, int32_t dtype)
{
    onnx_set_int(&builder, onnx_node(&builder, "Cast", from, to), "to", dtype);
}

/* Doubles of a request that are moved until a Cast makes floats of them, and floats that are
 * answered as doubles: the model with floats of both. */
START_TEST(test_doubles_at_the_doors)
{
    struct built built;
    const int64_t dims[] = {-1, 1, -1, HIDDEN};
    for (int32_t by_half = 0; by_half < 2; by_half++) {
        onnx_init(&builder, 17);
        onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
        onnx_input(&builder, "x", DOUBLE, 3, (const int64_t[]){-1, -1, WIDTH});
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "turned"), "perm", 3,
                      (const int64_t[]){1, 0, 2});
        cast("turned", "again", DOUBLE);
        cast("again", "f", by_half == 1 ? HALF : FLOAT);
        onnx_set_int(&builder, onnx_node(&builder, "GRU", "f w r b", "y"), "hidden_size", HIDDEN);
        cast("y", "wide", DOUBLE);
        onnx_node(&builder, "Identity", "wide", "out");
        onnx_output(&builder, "out", DOUBLE, 4, dims);
        if (by_half == 1) {
            builder.graph.output[0]->type = NULL; // what the graph says holds
        }
        load_built(&builder, &built);
        ck_assert_int_eq(built.model->inputs[0].form, CELL_FORM_F64);
        ck_assert_int_eq(built.model->inputs[0].dtype, CELL_F32);
        ck_assert_int_eq(built.model->outputs[0].form, CELL_FORM_F64);
        free_built(&builder, &built);
    }
}
END_TEST

/* The variance of a layer norm as jax2onnx takes it: the mean of squares in doubles. Of what may be
 * of either sign it would be another number. */
START_TEST(test_means_of_squares_in_doubles)
{
    static const char *const factors[] = {"x x", "x y"};
    static const char *const reductions[] = {"ReduceMean", "ReduceSum", "ReduceMax"};
    for (size_t i = 0; i < 6; i++) {
        begin(HALF, FLOAT);
        onnx_node(&builder, "Neg", "x", "y");
        onnx_node(&builder, "Mul", factors[i % 2], "square");
        cast("square", "wide", DOUBLE);
        onnx_set_ints(&builder, onnx_node(&builder, reductions[i / 2], "wide", "mean"), "axes", 1,
                      (const int64_t[]){2});
        cast("mean", "f", FLOAT);
        onnx_node(&builder, "Add", "x f", "sum");
        builder.opset.version = 12; // axes are attributes
        end("sum", FLOAT);
        if (i == 0 || i == 2) {
            expect_accepted(&builder);
        } else {
            expect_refused(&builder, BASE_UNIMPLEMENTED, "wide is of type double");
        }
    }
}
END_TEST

/* What computes with doubles would not be what floats give, nor are floats what came. */
START_TEST(test_doubles_that_are_refused)
{
    static const char *const computing[] = {"Neg", "Exp", "Relu"};
    for (size_t i = 0; i < 3; i++) {
        begin(HALF, DOUBLE);
        (void)onnx_node(&builder, computing[i], "x", "n");
        cast("n", "f", FLOAT);
        end("f", FLOAT);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "x is of type double, which nothing computes");
    }
    begin(HALF, FLOAT);
    cast("x", "wide", DOUBLE);
    (void)onnx_node(&builder, "Exp", "wide", "n");
    cast("n", "f", FLOAT);
    end("f", FLOAT);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "wide is of type double, which nothing computes");
    const int32_t others[] = {INT64, BOOL};
    for (size_t i = 0; i < 2; i++) {
        begin(HALF, DOUBLE);
        cast("x", "n", others[i]);
        cast("n", "f", FLOAT);
        end("f", FLOAT);
        expect_refused(&builder, BASE_UNIMPLEMENTED,
                       i == 0 ? "of doubles to int64" : "of doubles to bool");
    }
    begin(HALF, INT64);
    cast("x", "wide", DOUBLE);
    cast("wide", "f", FLOAT);
    end("f", FLOAT);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "the result is of type double, of int64");
    for (int32_t is_stated = 0; is_stated < 2; is_stated++) { // there and back
        begin(HALF, DOUBLE);
        onnx_node(&builder, "Identity", "x", "same");
        cast("x", "f", FLOAT);
        end("f", FLOAT);
        onnx_output(&builder, "same", DOUBLE, 3, (const int64_t[]){-1, -1, WIDTH});
        if (is_stated == 0) {
            builder.graph.output[1]->type = NULL;
        }
        expect_refused(&builder, BASE_UNIMPLEMENTED,
                       "output \"same\" is of doubles of the request");
    }
    begin(HALF, FLOAT);
    end("x", DOUBLE);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "out is of type double");
}
END_TEST

START_TEST(test_what_is_refused)
{
    begin(HALF, HALF);
    make_halves(HALF, false, constant_of(&builder, "r"));
    constant_of(&builder, "r")->raw_data.len -= 2;
    end("x", HALF);
    expect_refused(&builder, BASE_INVALID_ARGUMENT,
                   "constant \"r\" has 22 bytes of data, its shape 24");
    begin(BRAIN, BRAIN);
    make_halves(BRAIN, true, constant_of(&builder, "r"));
    constant_of(&builder, "r")->n_int32_data--;
    end("x", BRAIN);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "constant \"r\" has 11 elements, its shape 12");
    begin(HALF, HALF);
    make_halves(HALF, false, constant_of(&builder, "r"));
    constant_of(&builder, "r")->raw_data.data[1] = 0x7E; // NaN
    end("x", HALF);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "\"r\"");
    begin(HALF, HALF);
    Onnx__NodeProto *cast = onnx_node(&builder, "Cast", "x", "f");
    onnx_set_int(&builder, cast, "to", FLOAT);
    onnx_set_int(&builder, cast, "saturate", -1);
    end("f", FLOAT);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "attribute \"saturate\" of -1; 0 or 1");
    begin(HALF, DOUBLE);
    end("x", FLOAT);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "x is of type double");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_halves");
    TCase *tests = tcase_create("halves");
    tcase_add_test(tests, test_halves_are_floats_of_their_values);
    tcase_add_test(tests, test_casts_round_nothing);
    tcase_add_test(tests, test_truths_are_answered);
    tcase_add_test(tests, test_doubles_at_the_doors);
    tcase_add_test(tests, test_means_of_squares_in_doubles);
    tcase_add_test(tests, test_doubles_that_are_refused);
    tcase_add_test(tests, test_what_is_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
