/* How many steps there are, as a float beside others: of a standard deviation, say, which exporters
 * divide by one less; tables of positions, of which each step takes its own row; and what is
 * refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32 };
enum { IN = 3, HIDDEN = 4, BATCH = 2, STEPS_MAX = 6, SEED = 13 };

static struct onnx_builder builder;

/* x [time, batch, IN], an RNN over it, and "count": the size of this axis of x as a float. */
static void begin(int64_t axis, const char *rnn_inputs)
{
    const int64_t x[] = {-1, -1, IN};
    onnx_init(&builder, 14);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_add_weights(&builder, "RNN", IN, HIDDEN, SEED);
    onnx_node(&builder, "RNN", rnn_inputs, "- h");
    onnx_output(&builder, "h", FLOAT, 0, NULL);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
    onnx_constant(&builder, "axis", onnx_ints(&builder, 0, 1, &axis));
    onnx_node(&builder, "Shape", "x", "sizes");
    onnx_node(&builder, "Gather", "sizes axis", "size");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "size", "count"), "to", FLOAT);
}

static void add_float(const char *name, float number)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, FLOAT, 0, NULL, &number, sizeof(number)));
}

static void add_sum_of_steps(void)
{
    const int64_t axis = 0;
    onnx_constant(&builder, "axes", onnx_ints(&builder, 1, 1, &axis));
    onnx_set_int(&builder, onnx_node(&builder, "ReduceSum", "x axes", "sum"), "keepdims", 0);
}

/* What "out" is to be at x[t][b][i], or of a sum over the steps at [b][i], t being 0. */
typedef double expected_fn(const double *x, size_t steps, size_t t, size_t b, size_t i);

static double at(const double *x, size_t t, size_t b, size_t i)
{
    return x[(t * BATCH + b) * IN + i];
}

static double sum_of(const double *x, size_t steps, size_t b, size_t i)
{
    double sum = 0;
    for (size_t t = 0; t < steps; t++) {
        sum += at(x, t, b, i);
    }
    return sum;
}

static double sum_by_one_less(const double *x, size_t steps, size_t t, size_t b, size_t i)
{
    (void)t;
    return sum_of(x, steps, b, i) / ((double)steps - 1);
}

static double step_by_count(const double *x, size_t steps, size_t t, size_t b, size_t i)
{
    return at(x, t, b, i) / (double)steps;
}

static double count_less_step(const double *x, size_t steps, size_t t, size_t b, size_t i)
{
    return (double)steps + 2 - at(x, t, b, i);
}

static void check(const struct cell_model *model, size_t steps, expected_fn *expected)
{
    struct replay_tensor x = {
        .rank = 3, .dims = {(int64_t)steps, BATCH, IN}, .count = steps * BATCH * IN};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    struct base_random random = util_random(steps);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)base_random_f32(&random, -2.0f, 2.0f);
    }
    replay_run(model, &x, outputs);
    const size_t times = outputs[1].count / ((size_t)BATCH * IN);
    ck_assert(times == 1 || times == steps);
    for (size_t k = 0; k < outputs[1].count; k++) {
        const double want = expected(x.data, steps, k / (BATCH * IN), k / IN % BATCH, k % IN);
        util_assert_close(outputs[1].data[k], want, 1e-6, 1e-6);
    }
    base_free(outputs[0].data);
    base_free(outputs[1].data);
    base_free(x.data);
}

/* Runs the model over some numbers of steps. */
static void run(size_t least, expected_fn *expected)
{
    struct built built;
    load_built(&builder, &built);
    for (size_t steps = least; steps <= STEPS_MAX; steps++) {
        check(built.model, steps, expected);
    }
    free_built(&builder, &built);
}

START_TEST(test_a_sum_is_divided_by_one_less_than_its_steps)
{
    begin(0, "x w r b");
    add_sum_of_steps();
    add_float("one", 1.0f);
    onnx_node(&builder, "Sub", "count one", "less");
    onnx_node(&builder, "Div", "sum less", "out");
    run(2, sum_by_one_less);
}
END_TEST

/* Where nothing is summed over the steps, nothing has counted them. */
START_TEST(test_each_step_beside_how_many_there_are)
{
    begin(0, "x w r b");
    onnx_node(&builder, "Div", "x count", "out");
    run(1, step_by_count);
    begin(0, "x w r b");
    add_float("two", 2.0f);
    onnx_node(&builder, "Add", "two count", "more");
    onnx_node(&builder, "Sub", "more x", "out");
    run(1, count_less_step);
}
END_TEST

static int64_t first_number;

static double numbered_step(const double *x, size_t steps, size_t t, size_t b, size_t i)
{
    (void)steps;
    return at(x, t, b, i) + (double)t + (double)first_number;
}

/* Numbers of steps that are floats from the first on, `torch.arange(steps, dtype=torch.float)`. */
static void number_steps(float first, float by, const char *limit)
{
    static const int64_t axes[] = {1, 2};
    const int64_t more = (int64_t)first;
    begin(0, "x w r b");
    add_float("first", first);
    add_float("by", by);
    onnx_constant(&builder, "behind", onnx_ints(&builder, 1, 2, axes));
    onnx_constant(&builder, "more", onnx_ints(&builder, 0, 1, &more));
    onnx_node(&builder, "Add", "size more", "end");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "end", "end_float"), "to", FLOAT);
    onnx_node(&builder, "Range", limit, "numbers");
    onnx_node(&builder, "Unsqueeze", "numbers behind", "each");
    onnx_node(&builder, "Add", "x each", "out");
}

START_TEST(test_numbers_of_steps_that_are_floats)
{
    for (first_number = -2; first_number <= 2; first_number++) {
        number_steps((float)first_number, 1.0f, "first end_float by");
        run(1, numbered_step);
    }
}
END_TEST

START_TEST(test_other_numbers_of_floats_are_refused)
{
    static const struct {
        float first, by;
        const char *limit;
    } cases[] = {
        {0.5f, 1.0f, "first end_float by"},     {1.0f, 2.0f, "first end_float by"},
        {0.0f, -1.0f, "first end_float by"},    {0.0f, 1.5f, "first end_float by"},
        {0x1p+24f, 1.0f, "first end_float by"}, {0.0f, 1.0f, "end_float count by"},
        {0.0f, 1.0f, "first count count"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        number_steps(cases[i].first, cases[i].by, cases[i].limit);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "Range (node \"numbers\", opset 14)");
    }
}
END_TEST

START_TEST(test_other_counts_are_refused)
{
    const int64_t lengths[] = {-1};
    begin(1, "x w r b");
    onnx_node(&builder, "Div", "x count", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "computes with the size of the batch");
    begin(0, "x w r b lengths");
    onnx_input(&builder, "lengths", INT32, 1, lengths);
    onnx_node(&builder, "Div", "x count", "out"); // of which there are as many in all rows
    expect_accepted(&builder);
    begin(0, "x w r b");
    onnx_node(&builder, "Concat", "x count", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "computes with the number of the step");
}
END_TEST

/* ---- Tables of positions ------------------------------------------------------------------ */

enum { POSITIONS = 9 };

static float positions[2 * POSITIONS * IN];

/* "table", and "taken": of its axis `along` as many as "size" says. */
static void take_positions(uint32_t rank, const int64_t *dims, int64_t along)
{
    const int64_t first = 0;
    const int64_t one = 1;
    size_t count = 1;
    struct base_random random = util_random(3);
    for (uint32_t k = 0; k < rank; k++) {
        count *= (size_t)dims[k];
    }
    for (size_t i = 0; i < count; i++) {
        positions[i] = base_random_f32(&random, -1.0f, 1.0f);
    }
    onnx_constant(&builder, "table",
                  onnx_tensor(&builder, FLOAT, rank, dims, positions, count * sizeof(float)));
    onnx_constant(&builder, "from", onnx_ints(&builder, 1, 1, &first));
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, &one));
    onnx_constant(&builder, "along", onnx_ints(&builder, 1, 1, &along));
    onnx_node(&builder, "Reshape", "size one", "to");
    onnx_node(&builder, "Slice", "table from to along", "taken");
}

static double step_and_position(const double *x, size_t steps, size_t t, size_t b, size_t i)
{
    (void)steps;
    return at(x, t, b, i) + (double)positions[t * IN + i];
}

START_TEST(test_each_step_beside_its_position)
{
    const int64_t dims[] = {POSITIONS, 1, IN};
    begin(0, "x w r b");
    take_positions(3, dims, 0);
    onnx_node(&builder, "Add", "x taken", "out");
    run(1, step_and_position);
    begin(0, "x w r b"); // of whose axes none stands before that of the steps but one of size 1
    const int64_t behind[] = {1, POSITIONS, 1, IN};
    const int64_t axis = 0;
    take_positions(4, behind, -3);
    onnx_constant(&builder, "first", onnx_ints(&builder, 1, 1, &axis));
    onnx_node(&builder, "Squeeze", "taken first", "rows");
    onnx_node(&builder, "Add", "x rows", "out");
    run(1, step_and_position);
}
END_TEST

/* The numbers of the steps stand in the file, from `first` on; a larger table is looked up by them.
 */
static void take_numbers(int64_t first)
{
    enum { ROWS = 2 * POSITIONS };
    const int64_t dims[] = {ROWS, IN};
    const int64_t zero = 0;
    const int64_t one = 1;
    int64_t numbers[POSITIONS];
    struct base_random random = util_random(3);
    for (int64_t i = 0; i < POSITIONS; i++) {
        numbers[i] = first + i;
    }
    for (size_t i = 0; i < (size_t)ROWS * IN; i++) {
        positions[i] = base_random_f32(&random, -1.0f, 1.0f);
    }
    begin(0, "x w r b");
    onnx_constant(&builder, "numbers", onnx_ints(&builder, 1, POSITIONS, numbers));
    onnx_constant(&builder, "embedding",
                  onnx_tensor(&builder, FLOAT, 2, dims, positions, sizeof(positions)));
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, &zero));
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, &one));
    onnx_node(&builder, "Reshape", "size one", "to");
    onnx_node(&builder, "Slice", "numbers zero to zero", "ids");
    onnx_node(&builder, "Gather", "embedding ids", "rows");
    onnx_node(&builder, "Unsqueeze", "rows one", "taken");
    onnx_node(&builder, "Add", "x taken", "out");
}

START_TEST(test_positions_that_stand_in_the_file_as_integers)
{
    struct built built;
    take_numbers(0);
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->sequences[0].steps_max, POSITIONS);
    cell_model_free(built.registry, built.model);
    cell_registry_free(built.registry);
    run(1, step_and_position);
    take_numbers(2);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "of a constant that has one row of floats");
}
END_TEST

START_TEST(test_other_parts_of_constants_are_refused)
{
    const int64_t dims[] = {2, POSITIONS, 1, IN};
    begin(0, "x w r b");
    take_positions(4, dims, 1);
    onnx_node(&builder, "Identity", "taken", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "of a constant that has one row of floats");
    begin(1, "x w r b");
    take_positions(2, (const int64_t[]){POSITIONS, IN}, 0); // of the batch
    onnx_node(&builder, "Add", "x taken", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "no steps of a recurrent node");
}
END_TEST

/* y @ q without a matrix: a number for each row. */
START_TEST(test_vectors_of_other_lengths_are_refused)
{
    const float q[IN + 1] = {0};
    const int64_t dims[] = {IN + 1};
    begin(0, "x w r b");
    onnx_constant(&builder, "q", onnx_tensor(&builder, FLOAT, 1, dims, q, sizeof(q)));
    onnx_node(&builder, "MatMul", "x q", "out");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "x has 3 elements on its last axis");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_count");
    TCase *tests = tcase_create("count");
    tcase_add_test(tests, test_a_sum_is_divided_by_one_less_than_its_steps);
    tcase_add_test(tests, test_each_step_beside_how_many_there_are);
    tcase_add_test(tests, test_numbers_of_steps_that_are_floats);
    tcase_add_test(tests, test_other_numbers_of_floats_are_refused);
    tcase_add_test(tests, test_other_counts_are_refused);
    tcase_add_test(tests, test_each_step_beside_its_position);
    tcase_add_test(tests, test_positions_that_stand_in_the_file_as_integers);
    tcase_add_test(tests, test_other_parts_of_constants_are_refused);
    tcase_add_test(tests, test_vectors_of_other_lengths_are_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
