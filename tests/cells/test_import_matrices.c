/* Products of two matrices of a row (cells/import/op_product.c), as of a cell whose state is one:
 * sizes drawn at random, against the sums that they stand for; constants of doubles, as scripted
 * modules have them; and what is refused. Cells that are made of these are
 * test_import_exports.c's. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    DOUBLE = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE
};
enum { BATCH = 3 };

static struct onnx_builder builder;
static struct base_random numbers;

/* Heads of each operand, one of which may be 1; rows, terms and columns. */
struct product {
    int64_t heads[2], rows, terms, columns;
};

static int64_t draw(int64_t low, int64_t high)
{
    return low + (int64_t)base_random_below(&numbers, (uint32_t)(high - low + 1));
}

/* a [batch, heads, rows, terms] times b [batch, heads, terms, columns]. */
static void build(const struct product *of)
{
    const int64_t a[] = {-1, of->heads[0], of->rows, of->terms};
    const int64_t b[] = {-1, of->heads[1], of->terms, of->columns};
    onnx_init(&builder, 17);
    onnx_input(&builder, "a", FLOAT, 4, a);
    onnx_input(&builder, "b", FLOAT, 4, b);
    onnx_node(&builder, "MatMul", "a b", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

/* Element (row, column) of a head. */
static double expected(const struct product *of, const double *a, const double *b, int64_t row,
                       int64_t column)
{
    double sum = 0.0;
    for (int64_t k = 0; k < of->terms; k++) {
        sum += a[row * of->terms + k] * b[k * of->columns + column];
    }
    return sum;
}

static void compare(const struct product *of, const struct replay_tensor inputs[2],
                    const struct replay_tensor *y)
{
    const int64_t heads = of->heads[0] > of->heads[1] ? of->heads[0] : of->heads[1];
    size_t n = 0;
    ck_assert_uint_eq(y->count, (size_t)(BATCH * heads * of->rows * of->columns));
    for (int64_t b = 0; b < BATCH; b++) {
        for (int64_t h = 0; h < heads; h++) {
            const double *parts[2];
            for (uint32_t i = 0; i < 2; i++) {
                const int64_t size = i == 0 ? of->rows * of->terms : of->terms * of->columns;
                const int64_t head = of->heads[i] > 1 ? h : 0;
                parts[i] = inputs[i].data + (b * of->heads[i] + head) * size;
            }
            for (int64_t e = 0; e < of->rows * of->columns; e++, n++) {
                util_assert_close(
                    y->data[n], expected(of, parts[0], parts[1], e / of->columns, e % of->columns),
                    1e-5, 0);
            }
        }
    }
}

START_TEST(test_products_of_matrices)
{
    numbers = util_random((uint64_t)_i);
    const int64_t heads = draw(1, 3);
    struct product of = {
        .heads = {heads, heads}, .rows = draw(1, 5), .terms = draw(1, 6), .columns = draw(1, 5)};
    struct replay_tensor y = {.rank = 0};
    struct built built;
    if (_i % 4 == 0) {
        of.heads[draw(0, 1)] = 1;
    }
    const int64_t a[] = {BATCH, of.heads[0], of.rows, of.terms};
    const int64_t b[] = {BATCH, of.heads[1], of.terms, of.columns};
    struct replay_tensor inputs[2] = {replay_tensor_random(4, a, &numbers),
                                      replay_tensor_random(4, b, &numbers)};
    build(&of);
    load_built(&builder, &built);
    replay_run(built.model, inputs, &y);
    compare(&of, inputs, &y);
    base_free(inputs[0].data);
    base_free(inputs[1].data);
    base_free(y.data);
    free_built(&builder, &built);
}
END_TEST

START_TEST(test_too_many_products_are_refused)
{
    const struct product of = {.heads = {1, 1}, .rows = 64, .terms = 65, .columns = 64};
    build(&of);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "MatMul (node \"y\", opset 17): two matrices of a row whose product is more "
                   "than 262144 products");
}
END_TEST

/* ---- Constants on the left --------------------------------------------------------------------
 */

enum { LINES = 5, TERMS = 3 };

/* y: x [batch, TERMS], turned, behind a matrix of so many columns, turned back. */
static void build_left(int64_t columns, const float *matrix)
{
    const int64_t turned[] = {1, 0};
    const size_t bytes = (size_t)(LINES * columns) * sizeof(*matrix);
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 2, (const int64_t[]){-1, TERMS});
    onnx_constant(
        &builder, "matrix",
        onnx_tensor(&builder, FLOAT, 2, (const int64_t[]){LINES, columns}, matrix, bytes));
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "columns"), "perm", 2, turned);
    onnx_node(&builder, "MatMul", "matrix columns", "scores");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "scores", "y"), "perm", 2, turned);
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

START_TEST(test_a_constant_matrix_before_rows_of_the_batch)
{
    const int64_t dims[] = {BATCH, TERMS};
    float matrix[LINES * (TERMS + 1)];
    struct replay_tensor y = {.rank = 0};
    struct built built;
    numbers = util_random(1);
    struct replay_tensor x = replay_tensor_random(2, dims, &numbers);
    for (size_t i = 0; i < LINES * (TERMS + 1); i++) {
        matrix[i] = (float)draw(-8, 8);
    }
    build_left(TERMS, matrix);
    load_built(&builder, &built);
    replay_run(built.model, &x, &y);
    ck_assert_uint_eq(y.count, BATCH * LINES);
    for (size_t i = 0; i < y.count; i++) {
        double sum = 0.0;
        for (size_t k = 0; k < TERMS; k++) {
            sum += (double)matrix[i % LINES * TERMS + k] * x.data[i / LINES * TERMS + k];
        }
        util_assert_close(y.data[i], sum, 1e-5, 0);
    }
    base_free(x.data);
    base_free(y.data);
    free_built(&builder, &built);
    build_left(TERMS + 1, matrix);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "x has 3 elements on its last axis");
}
END_TEST

/* ---- Doubles -------------------------------------------------------------------------------- */

/* x times a constant of doubles that a Cast makes floats of. */
static void scale(double *number, bool is_raw)
{
    const int64_t dims[] = {-1, 2};
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 2, dims);
    Onnx__TensorProto *tensor = onnx_tensor(&builder, DOUBLE, 0, NULL, number, sizeof(*number));
    if (!is_raw) {
        tensor->has_raw_data = false;
        tensor->raw_data = (ProtobufCBinaryData){.len = 0};
        tensor->n_double_data = 1;
        tensor->double_data = number;
    }
    onnx_constant(&builder, "number", tensor);
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "number", "factor"), "to", FLOAT);
    onnx_node(&builder, "Mul", "x factor", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

START_TEST(test_doubles_are_floats)
{
    static double number = 0.1;
    const int64_t dims[] = {BATCH, 2};
    for (uint32_t i = 0; i < 2; i++) {
        struct replay_tensor y = {.rank = 0};
        struct built built;
        numbers = util_random(1);
        struct replay_tensor x = replay_tensor_random(2, dims, &numbers);
        scale(&number, i == 0);
        load_built(&builder, &built);
        replay_run(built.model, &x, &y);
        for (size_t n = 0; n < x.count; n++) {
            util_assert_close(y.data[n], x.data[n] * number, 1e-7, 0);
        }
        base_free(x.data);
        base_free(y.data);
        free_built(&builder, &built);
    }
}
END_TEST

START_TEST(test_doubles_that_no_float_is_are_refused)
{
    static double number = 1e300;
    static int64_t two = 2;
    scale(&number, true);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "constant \"number\" has 1e+300, which no float is");
    scale(&number, true);
    Onnx__TensorProto *tensor = constant_of(&builder, "number");
    tensor->n_dims = 1;
    tensor->dims = &two;
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "has 1 elements, its shape 2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_matrices");
    TCase *tests = tcase_create("matrices");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_products_of_matrices, 0, 120);
    tcase_add_test(tests, test_too_many_products_are_refused);
    tcase_add_test(tests, test_a_constant_matrix_before_rows_of_the_batch);
    tcase_add_test(tests, test_doubles_are_floats);
    tcase_add_test(tests, test_doubles_that_no_float_is_are_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
