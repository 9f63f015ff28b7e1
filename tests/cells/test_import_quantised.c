/* Quantised tensors: constants are the floats that they stand for, what depends on the request is
 * rounded as QuantizeLinear says, and products of integers are those of floats. Each beside the
 * model that is written with the floats. */
#include "base/mem.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    UINT8 = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
    INT8 = ONNX__TENSOR_PROTO__DATA_TYPE__INT8,
    INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
};
enum { IN = 2, WIDTH = 3, COLUMNS = 4, BATCH = 2, TIME = 3, OUT_MAX = BATCH * TIME * COLUMNS };

static struct onnx_builder builder;
static struct base_error last_error;

/* ---- Models ------------------------------------------------------------------------------- */

/* y [batch, time, WIDTH] of an LSTM. */
static void begin(void)
{
    const struct onnx_lstm lstm = {.input = IN, .hidden = WIDTH, .layers = 1, .seed = 3};
    onnx_init(&builder, 21);
    onnx_add_lstm(&builder, &lstm);
}

static Onnx__NodeProto *node(const char *op, const char *inputs, const char *outputs)
{
    return onnx_node(&builder, op, inputs, outputs);
}

/* `out` alone is what the model answers. */
static void answers_out(void)
{
    builder.graph.n_output = 0;
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

/* Numbers of any of the types. */
static void constant(const char *name, int32_t dtype, uint32_t rank, const int64_t *dims,
                     const double *numbers)
{
    uint8_t bytes[64 * sizeof(float)];
    size_t n = 1;
    for (uint32_t k = 0; k < rank; k++) {
        n *= (size_t)dims[k];
    }
    const size_t each = dtype == FLOAT || dtype == INT32 ? 4 : 1;
    for (size_t i = 0; i < n; i++) {
        const float real = (float)numbers[i];
        const int32_t whole = (int32_t)numbers[i];
        const uint8_t byte = (uint8_t)whole;
        const void *from = dtype == FLOAT ? (const void *)&real
                           : each == 4    ? (const void *)&whole
                                          : &byte;
        memcpy(bytes + i * each, from, each);
    }
    onnx_constant(&builder, name, onnx_tensor(&builder, dtype, rank, dims, bytes, n * each));
}

static void number(const char *name, int32_t dtype, double value)
{
    constant(name, dtype, 0, NULL, &value);
}

/* What `out` is for one request; returns how many. */
static size_t answer(double out[OUT_MAX])
{
    static double x[BATCH * TIME * IN];
    struct replay_tensor input = {
        .rank = 3, .dims = {BATCH, TIME, IN}, .count = BATCH * TIME * IN, .data = x};
    struct replay_tensor output;
    struct built built;
    for (size_t i = 0; i < input.count; i++) {
        x[i] = (double)((i * 5) % 7) / 3.0 - 1.0;
    }
    answers_out();
    load_built(&builder, &built);
    replay_run(built.model, &input, &output);
    ck_assert_uint_le(output.count, OUT_MAX);
    memcpy(out, output.data, output.count * sizeof(out[0]));
    base_free(output.data);
    free_built(&builder, &built);
    return output.count;
}

static void assert_same(const double *a, const double *b, size_t n)
{
    bool differs = false; // a model that answers the same whatever it is given proves nothing
    for (size_t i = 0; i < n; i++) {
        util_assert_close(a[i], b[i], 1e-6, 0);
        differs |= fabs(a[i] - a[0]) > 1e-6;
    }
    ck_assert(differs);
}

/* That the model at hand, which is written with floats, answers the same. */
static void assert_answers(const double *got, size_t count)
{
    double wanted[OUT_MAX];
    ck_assert_uint_eq(answer(wanted), count);
    assert_same(got, wanted, count);
}

/* ---- Constants ------------------------------------------------------------------------------ */

static const int64_t matrix[] = {WIDTH, COLUMNS};

/* Weights of each type, whose scale and zero point are one number, or one for each row or column.
 */
START_TEST(test_constants_are_the_floats_they_stand_for)
{
    static const struct {
        int32_t dtype;
        int64_t axis;
        uint32_t n; // of scales; 0: of rank 0
        bool has_zero;
    } cases[] = {{INT8, 1, 0, true},     {UINT8, 1, 0, true},      {INT8, 1, 0, false},
                 {INT32, 0, 0, false},   {INT8, 1, COLUMNS, true}, {UINT8, -1, COLUMNS, true},
                 {INT8, 0, WIDTH, true}, {UINT8, -2, WIDTH, false}};
    const int64_t axis = cases[_i].axis < 0 ? cases[_i].axis + 2 : cases[_i].axis;
    const int64_t n = cases[_i].n;
    double q[WIDTH * COLUMNS];
    double floats[WIDTH * COLUMNS];
    double scales[COLUMNS];
    double zeros[COLUMNS];
    double got[OUT_MAX];
    for (size_t i = 0; i < COLUMNS; i++) {
        scales[i] = (double)(0.01f * (float)(i + 1));
        zeros[i] = cases[_i].dtype == UINT8 ? 120.0 + (double)i : (double)i - 2.0;
    }
    for (size_t i = 0; i < WIDTH * COLUMNS; i++) {
        q[i] = cases[_i].dtype == UINT8 ? (double)(i * 23 % 256) : (double)(i * 37 % 256) - 128.0;
        const size_t k = n == 0 ? 0 : axis == 0 ? i / COLUMNS : i % COLUMNS;
        floats[i] = (q[i] - (cases[_i].has_zero ? zeros[k] : 0.0)) * scales[k];
    }
    begin();
    constant("q", cases[_i].dtype, 2, matrix, q);
    constant("scale", FLOAT, n > 0 ? 1 : 0, &n, scales);
    if (cases[_i].has_zero) {
        constant("zero", cases[_i].dtype, n > 0 ? 1 : 0, &n, zeros);
    }
    onnx_set_int(&builder,
                 node("DequantizeLinear", cases[_i].has_zero ? "q scale zero" : "q scale", "w"),
                 "axis", cases[_i].axis);
    node("MatMul", "y w", "out");
    const size_t count = answer(got);
    begin();
    constant("w", FLOAT, 2, matrix, floats);
    node("MatMul", "y w", "out");
    assert_answers(got, count);
}
END_TEST

/* Ties go to the even number, and what is beyond 8 bits to the last of them. */
START_TEST(test_constants_are_rounded)
{
    static const int64_t dims[] = {WIDTH};
    static const struct {
        int32_t dtype;
        double zero, x[WIDTH], wanted[WIDTH];
    } cases[] = {{INT8, 0, {0.5, 1.5, -2.5}, {0, 2, -2}},
                 {INT8, 10, {300, -300, 2.4}, {117, -138, 2}},
                 {UINT8, 0, {-3, 300, 254.5}, {0, 255, 254}},
                 {UINT8, 128, {-200, 200, 3.5}, {-128, 127, 4}}};
    double got[OUT_MAX];
    begin();
    constant("x0", FLOAT, 1, dims, cases[_i].x);
    number("scale", FLOAT, 1.0);
    number("zero", cases[_i].dtype, cases[_i].zero);
    node("QuantizeLinear", "x0 scale zero", "q");
    node("DequantizeLinear", "q scale zero", "back");
    node("Mul", "y back", "out");
    const size_t count = answer(got);
    begin();
    constant("back", FLOAT, 1, dims, cases[_i].wanted);
    node("Mul", "y back", "out");
    assert_answers(got, count);
}
END_TEST

/* ---- What depends on the request ------------------------------------------------------------ */

/* Scales with which some are within 8 bits, and some beyond. */
START_TEST(test_rows_are_rounded)
{
    static const struct {
        int32_t dtype;
        float scale, zero;
    } cases[] = {
        {INT8, 0.01f, 0.0f}, {UINT8, 0.001f, 128.0f}, {INT8, 0.0007f, -5.0f}, {UINT8, 0.05f, 3.0f}};
    const double low = cases[_i].dtype == INT8 ? -128.0 : 0.0;
    const double scale = (double)cases[_i].scale;
    const double zero = (double)cases[_i].zero;
    double got[OUT_MAX];
    double y[OUT_MAX];
    double rounded[OUT_MAX];
    begin();
    node("Identity", "y", "out");
    const size_t count = answer(y);
    begin();
    number("scale", FLOAT, scale);
    number("zero", cases[_i].dtype, zero);
    node("QuantizeLinear", "y scale zero", "q");
    node("DequantizeLinear", "q scale zero", "out");
    ck_assert_uint_eq(answer(got), count);
    for (size_t i = 0; i < count; i++) {
        const double q = fmin(fmax(rint(y[i] / scale) + zero, low), low + 255.0);
        rounded[i] = (q - zero) * scale;
    }
    assert_same(got, rounded, count);
}
END_TEST

/* As quantize_dynamic writes a product: the scale is 1, and nothing is rounded. */
START_TEST(test_products_of_integers_are_those_of_floats)
{
    static const int64_t columns[] = {COLUMNS};
    double q[WIDTH * COLUMNS];
    double zeros[COLUMNS] = {1, -2, 3, -4};
    double floats[WIDTH * COLUMNS];
    double got[OUT_MAX];
    for (size_t i = 0; i < WIDTH * COLUMNS; i++) {
        q[i] = (double)(i * 37 % 256) - 128.0;
        floats[i] = (q[i] - (_i == 0 ? zeros[0] : zeros[i % COLUMNS])) * (double)0.02f;
    }
    begin();
    constant("q", INT8, 2, matrix, q);
    constant("zero", INT8, _i == 0 ? 0 : 1, columns, zeros);
    number("scale", FLOAT, 0.02);
    const int64_t to = FLOAT;
    node("DynamicQuantizeLinear", "y", "a a_scale a_zero");
    node("Mul", "a_scale scale", "scales");
    node("MatMulInteger", "a q a_zero zero", "sum");
    onnx_set_int(&builder, node("Cast", "sum", "real"), "to", to);
    node("Mul", "real scales", "out");
    const size_t count = answer(got);
    begin();
    constant("w", FLOAT, 2, matrix, floats);
    node("MatMul", "y w", "out");
    assert_answers(got, count);
}
END_TEST

/* A zero point of x is taken away before the product. */
START_TEST(test_a_product_of_what_has_a_zero_point)
{
    double q[WIDTH * COLUMNS];
    double got[OUT_MAX];
    for (size_t i = 0; i < WIDTH * COLUMNS; i++) {
        q[i] = (double)(i * 37 % 256) - 128.0;
    }
    begin();
    constant("q", INT8, 2, matrix, q);
    number("scale", FLOAT, 0.01);
    number("zero", UINT8, 100);
    const int64_t to = FLOAT;
    node("QuantizeLinear", "y scale zero", "a");
    node("MatMulInteger", "a q zero", "sum");
    onnx_set_int(&builder, node("Cast", "sum", "out"), "to", to);
    const size_t count = answer(got);
    begin();
    constant("w", FLOAT, 2, matrix, q);
    number("scale", FLOAT, 0.01);
    number("zero", UINT8, 100);
    number("hundred", FLOAT, 100);
    node("QuantizeLinear", "y scale zero", "a");
    node("Sub", "a hundred", "less");
    node("MatMul", "less w", "out");
    assert_answers(got, count);
}
END_TEST

/* A table that a layer goes over first, as of embeddings that scores are made of too. */
START_TEST(test_a_product_of_constants)
{
    static const int64_t square[] = {WIDTH, WIDTH};
    double table[WIDTH * WIDTH];
    double q[WIDTH * COLUMNS];
    double products[WIDTH * COLUMNS] = {0};
    double got[OUT_MAX];
    for (size_t i = 0; i < WIDTH * WIDTH; i++) {
        table[i] = (double)(i * 91 % 256);
    }
    for (size_t i = 0; i < WIDTH * COLUMNS; i++) {
        q[i] = (double)(i * 37 % 256) - 128.0;
    }
    for (size_t i = 0; i < WIDTH * WIDTH * COLUMNS; i++) {
        const size_t row = i / COLUMNS / WIDTH;
        const size_t k = i / COLUMNS % WIDTH;
        const size_t column = i % COLUMNS;
        products[row * COLUMNS + column] +=
            (table[row * WIDTH + k] - 100.0) * (q[k * COLUMNS + column] - 3.0);
    }
    begin();
    constant("table", UINT8, 2, square, table);
    constant("q", INT8, 2, matrix, q);
    number("hundred", UINT8, 100);
    number("three", INT8, 3);
    const int64_t to = FLOAT;
    node("MatMulInteger", "table q hundred three", "sum");
    onnx_set_int(&builder, node("Cast", "sum", "w"), "to", to);
    node("MatMul", "y w", "out");
    const size_t count = answer(got);
    begin();
    constant("w", FLOAT, 2, matrix, products);
    node("MatMul", "y w", "out");
    assert_answers(got, count);
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------- */

static void expect(enum base_status wanted, const char *where, const char *why)
{
    answers_out();
    const enum base_status status = parse_built(&builder, &last_error);
    expect_error(status, &last_error, wanted, where, why);
}

static void begin_quantised(void)
{
    static const double q[WIDTH * COLUMNS] = {1};
    begin();
    constant("q", INT8, 2, matrix, q);
    number("scale", FLOAT, 0.5);
    number("zero", INT8, 1);
}

START_TEST(test_what_is_refused)
{
    static const int64_t three[] = {3};
    static const int64_t five[] = {5};
    static const double ones[5] = {1, 1, 1, 1, 1};
    begin_quantised();
    onnx_set_int(&builder, node("DequantizeLinear", "q scale", "out"), "block_size", 2);
    expect(BASE_UNIMPLEMENTED, "DequantizeLinear (node \"out\", opset 21)", "scales of blocks");
    begin_quantised();
    constant("scales", FLOAT, 1, five, ones);
    node("DequantizeLinear", "q scales", "w");
    node("MatMul", "y w", "out");
    expect(BASE_UNIMPLEMENTED, "DequantizeLinear (node \"w\"",
           "float32 [5] for int8 [3, 4] along axis 1");
    begin_quantised();
    node("DequantizeLinear", "q zero", "w");
    node("MatMul", "y w", "out");
    expect(BASE_INVALID_ARGUMENT, "DequantizeLinear (node \"w\"", "a scale that is not of floats");
    begin_quantised();
    node("Sigmoid", "y", "largest");
    node("DequantizeLinear", "q largest", "w");
    node("MatMul", "y w", "out");
    expect(BASE_UNIMPLEMENTED, "DequantizeLinear (node \"w\"", "depends on the request");
    begin_quantised();
    node("DequantizeLinear", "scale scale", "w");
    node("Mul", "y w", "out");
    expect(BASE_INVALID_ARGUMENT, "DequantizeLinear (node \"w\"", "of a constant of type float32");
    begin_quantised();
    constant("scales", FLOAT, 1, three, ones);
    node("QuantizeLinear", "y scales", "out");
    expect(BASE_UNIMPLEMENTED, "QuantizeLinear (node \"out\"", "a scale for each index of an axis");
    begin_quantised();
    number("wide", INT32, 1);
    node("QuantizeLinear", "y scale wide", "out");
    expect(BASE_UNIMPLEMENTED, "QuantizeLinear (node \"out\"", "anything but uint8 and int8");
    begin_quantised();
    number("none", FLOAT, 0.0);
    node("QuantizeLinear", "y none zero", "out");
    expect(BASE_INVALID_ARGUMENT, "QuantizeLinear (node \"out\"", "a scale of 0");
    begin_quantised();
    number("far", FLOAT, (double)INFINITY);
    node("QuantizeLinear", "y far zero", "out");
    expect(BASE_INVALID_ARGUMENT, "QuantizeLinear (node \"out\"", "a scale of inf");
    begin_quantised();
    number("nothing", FLOAT, (double)NAN);
    node("QuantizeLinear", "nothing scale zero", "q0");
    node("DequantizeLinear", "q0 scale zero", "w");
    node("Mul", "y w", "out");
    expect(BASE_INVALID_ARGUMENT, "QuantizeLinear (node \"q0\"", "that is not a number");
    begin_quantised();
    node("MatMulInteger", "y q", "sum");
    node("MatMulInteger", "q sum", "out");
    expect(BASE_UNIMPLEMENTED, "MatMulInteger (node \"out\"", "anything but what was quantised");
    begin_quantised();
    node("DynamicQuantizeLinear", "q", "a b c");
    node("Add", "y b", "out");
    expect(BASE_UNIMPLEMENTED, "DynamicQuantizeLinear (node \"a\"", "of a constant");
}
END_TEST

/* The integers alone, or at another scale, would be other numbers than ours. */
START_TEST(test_what_is_quantised_is_taken_together)
{
    static const char why[] = "without the scale or zero point that DynamicQuantizeLinear gives";
    begin_quantised();
    node("DynamicQuantizeLinear", "y", "a b c");
    node("MatMulInteger", "a q - zero", "out");
    expect(BASE_UNIMPLEMENTED, "MatMulInteger (node \"out\"", why);
    begin_quantised();
    node("DynamicQuantizeLinear", "y", "a b c");
    number("nothing", UINT8, 0);
    node("MatMulInteger", "a q nothing", "out");
    expect(BASE_UNIMPLEMENTED, "MatMulInteger (node \"out\"", why);
    begin_quantised();
    const int64_t perm[] = {0, 1, 2};
    node("DynamicQuantizeLinear", "y", "a b c");
    onnx_set_ints(&builder, node("Transpose", "a", "turned"), "perm", 3, perm);
    node("MatMulInteger", "turned q", "out");
    expect(BASE_UNIMPLEMENTED, "MatMulInteger (node \"out\"", why);
    begin_quantised();
    node("DynamicQuantizeLinear", "y", "a b c");
    node("DequantizeLinear", "a scale c", "out");
    expect(BASE_UNIMPLEMENTED, "DequantizeLinear (node \"out\"", why);
    begin_quantised();
    node("DynamicQuantizeLinear", "y", "a b c");
    node("DequantizeLinear", "a b c", "out");
    answers_out();
    expect_accepted(&builder);
}
END_TEST

/* Nothing else computes with 8 bits: a result of their size would be too small for it. */
START_TEST(test_integers_of_8_bits_are_weights_alone)
{
    begin_quantised();
    node("Add", "zero zero", "sum");
    node("DequantizeLinear", "sum scale", "w");
    node("Mul", "y w", "out");
    expect(BASE_INVALID_ARGUMENT, "Add (node \"sum\"", "operands of type int8 and int8");
    begin_quantised();
    number("start", UINT8, 0);
    number("limit", UINT8, 3);
    number("step", UINT8, 1);
    node("Range", "start limit step", "numbers");
    node("DequantizeLinear", "numbers scale", "w");
    node("Mul", "y w", "out");
    expect(BASE_UNIMPLEMENTED, "Range (node \"numbers\"", "only of integers of one type");
    begin_quantised();
    number("bytes", UINT8, 3);
    node("Mul", "y bytes", "out");
    expect(BASE_UNIMPLEMENTED, "Mul (node \"out\"", "uint8");
}
END_TEST

/* ---- DynamicQuantizeLSTM -------------------------------------------------------------------- */

enum { GATES = 4 * WIDTH };

/* x [time, batch, IN] through one; what is changed is named in the table below. */
static void begin_lstm(int64_t w_rank, int64_t n_scales, int32_t zero_type, const char *inputs)
{
    static char domain[] = "com.microsoft";
    static const double numbers[IN * GATES + WIDTH * GATES] = {3};
    static const int64_t x[] = {-1, -1, IN};
    static const int64_t w[] = {1, IN, GATES};
    static const int64_t r[] = {1, WIDTH, GATES};
    static const double scales[GATES] = {0.1};
    const int64_t one = 1;
    onnx_init(&builder, 14);
    onnx_input(&builder, "x", FLOAT, 3, x);
    constant("w", INT8, (uint32_t)w_rank, w + 3 - w_rank, numbers);
    constant("r", INT8, 3, r, numbers);
    constant("w_scale", FLOAT, 1, &n_scales, scales);
    constant("r_scale", FLOAT, 1, &one, scales);
    constant("zero", zero_type, 1, &one, numbers);
    onnx_node(&builder, "DynamicQuantizeLSTM", inputs, "out")->domain = domain;
}

START_TEST(test_quantised_lstms_are_refused_by_name)
{
    static const char all[] = "x w r - - - - - w_scale zero r_scale zero";
    begin_lstm(3, 1, INT8, all);
    answers_out();
    expect_accepted(&builder);
    begin_lstm(3, 1, INT8, "x w r - - - - - w_scale zero r_scale");
    expect(BASE_INVALID_ARGUMENT, "DynamicQuantizeLSTM (node \"out\"", "input 11 is missing");
    begin_lstm(2, 1, INT8, all);
    expect(BASE_INVALID_ARGUMENT, "DynamicQuantizeLSTM (node \"out\"",
           "\"w\", int8 [2, 12], that are no three-dimensional integers");
    begin_lstm(3, 5, INT8, all);
    expect(BASE_INVALID_ARGUMENT, "DynamicQuantizeLSTM (node \"out\"",
           "\"w\" have a scale or zero point of float32 [5]");
    begin_lstm(3, 1, FLOAT, all);
    expect(BASE_INVALID_ARGUMENT, "DynamicQuantizeLSTM (node \"out\"", "zero point of integers");
    begin_lstm(3, 1, INT8, all);
    builder.graph.node[builder.graph.n_node - 1]->domain = NULL;
    expect(BASE_UNIMPLEMENTED, "DynamicQuantizeLSTM (node \"out\"", "another domain, \"\"");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_quantised");
    TCase *tcase = tcase_create("quantised");
    tcase_add_loop_test(tcase, test_constants_are_the_floats_they_stand_for, 0, 8);
    tcase_add_loop_test(tcase, test_constants_are_rounded, 0, 4);
    tcase_add_loop_test(tcase, test_rows_are_rounded, 0, 4);
    tcase_add_loop_test(tcase, test_products_of_integers_are_those_of_floats, 0, 2);
    tcase_add_test(tcase, test_a_product_of_what_has_a_zero_point);
    tcase_add_test(tcase, test_a_product_of_constants);
    tcase_add_test(tcase, test_what_is_refused);
    tcase_add_test(tcase, test_what_is_quantised_is_taken_together);
    tcase_add_test(tcase, test_integers_of_8_bits_are_weights_alone);
    tcase_add_test(tcase, test_quantised_lstms_are_refused_by_name);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
