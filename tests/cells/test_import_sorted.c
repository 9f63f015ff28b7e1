/* Rows of a batch that are sorted inside a model and put back (cells/import/sorted.c): what is
 * refused, beside the exports of packed sequences that test_import_exports.c computes. */
#include "tests/cells/parse.h"
#include "tests/util.h"

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
};

static struct onnx_builder builder;
static struct base_error last_error;

static void gather(const char *data, const char *order, int64_t axis, const char *to)
{
    char inputs[64];
    (void)snprintf(inputs, sizeof(inputs), "%s %s", data, order);
    onnx_set_int(&builder, onnx_node(&builder, "Gather", inputs, to), "axis", axis);
}

/* An LSTM over s0 [time, batch, 2], whose places by their lengths are "order", and "back". */
static void begin(void)
{
    const struct onnx_lstm lstm = {.input = 2, .hidden = 2, .layers = 1, .seed = 1};
    const int64_t any[] = {-1};
    const int64_t numbers[] = {0, 1};
    onnx_init(&builder, 17);
    onnx_add_lstm(&builder, &lstm);
    onnx_input(&builder, "lengths", INT64, 1, any);
    onnx_constant(&builder, "zero", onnx_ints(&builder, 0, 1, numbers));
    onnx_constant(&builder, "one", onnx_ints(&builder, 0, 1, numbers + 1));
    (void)onnx_node(&builder, "Shape", "lengths", "size");
    (void)onnx_node(&builder, "Squeeze", "size", "count");
    (void)onnx_node(&builder, "TopK", "lengths size", "sorted order");
    (void)onnx_node(&builder, "Range", "zero count one", "numbers");
    (void)onnx_node(&builder, "ScatterElements", "lengths order numbers", "back");
    gather("s0", "order", 1, "packed");
}

/* "out" is the only output, of any shape. */
static void answer(int32_t dtype)
{
    const int64_t any[] = {-1};
    builder.graph.n_output = 0;
    onnx_output(&builder, "out", dtype, 0, any);
    builder.graph.output[0]->type = NULL;
}

static void refuse(enum base_status status, const char *where, const char *why)
{
    const enum base_status was = parse_built(&builder, &last_error);
    expect_error(was, &last_error, status, where, why);
}

START_TEST(test_rows_that_are_put_back_are_as_they_were)
{
    begin();
    (void)onnx_node(&builder, "Tanh", "packed", "computed");
    gather("computed", "back", 1, "unpacked");
    (void)onnx_node(&builder, "Add", "unpacked s0", "out");
    answer(FLOAT);
    expect_accepted(&builder);
    begin(); // rows that are all alike are in any order
    (void)onnx_node(&builder, "Shape", "packed", "sizes");
    (void)onnx_node(&builder, "ConstantOfShape", "sizes", "zeros");
    (void)onnx_node(&builder, "Add", "packed zeros", "computed");
    gather("computed", "back", 1, "out");
    answer(FLOAT);
    expect_accepted(&builder);
    begin(); // the inverse as an argsort
    onnx_set_int(&builder, onnx_node(&builder, "TopK", "order size", "places inverse"), "largest",
                 0);
    gather("packed", "inverse", 1, "out");
    answer(FLOAT);
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_sorted_rows_are_not_answered)
{
    begin();
    (void)onnx_node(&builder, "Tanh", "packed", "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "output \"out\"", "in the order of their lengths");
    begin();
    (void)onnx_node(&builder, "Identity", "order", "out");
    answer(INT64);
    refuse(BASE_UNIMPLEMENTED, "output \"out\"", "in the order of their lengths");
    begin();
    (void)onnx_node(&builder, "Identity", "sorted", "out");
    answer(INT64);
    refuse(BASE_UNIMPLEMENTED, "output \"out\"", "in the order of their lengths");
}
END_TEST

START_TEST(test_sorted_rows_do_not_meet_others)
{
    begin();
    (void)onnx_node(&builder, "Add", "packed s0", "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "Add (node \"out\"", "sorted beside rows that are not");
    begin();
    gather("s0", "back", 1, "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "Gather (node \"out\"", "puts rows back that have not been");
    begin();
    gather("packed", "order", 1, "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "Gather (node \"out\"", "sorts rows that are sorted");
    begin(); // by another sort of the same
    (void)onnx_node(&builder, "TopK", "lengths size", "sorted2 order2");
    gather("s0", "order2", 1, "packed2");
    (void)onnx_node(&builder, "Add", "packed packed2", "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "Add (node \"out\"", "sorted beside rows that are not");
}
END_TEST

START_TEST(test_only_whole_batches_are_sorted)
{
    begin();
    gather("s0", "order", 0, "turned");
    gather("turned", "back", 0, "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "", "batch");
    begin();
    (void)onnx_node(&builder, "TopK", "lengths one", "longest which");
    (void)onnx_node(&builder, "Identity", "longest", "out");
    answer(INT64);
    refuse(BASE_UNIMPLEMENTED, "TopK (node \"longest\"", "of type int64");
    begin();
    onnx_set_int(&builder, onnx_node(&builder, "TopK", "order size", "places inverse"), "largest",
                 1);
    gather("packed", "inverse", 1, "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "TopK (node \"places\"", "all of them from the first");
}
END_TEST

START_TEST(test_orders_are_for_rows_alone)
{
    begin();
    (void)onnx_node(&builder, "Add", "order order", "out");
    answer(INT64);
    refuse(BASE_UNIMPLEMENTED, "Add (node \"out\"", "the places of a batch's rows");
    begin();
    (void)onnx_node(&builder, "ScatterElements", "lengths order lengths", "other");
    gather("packed", "other", 1, "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "ScatterElements (node \"other\"", "not all places");
    begin();
    onnx_set_string(&builder,
                    onnx_node(&builder, "ScatterElements", "lengths order numbers", "other"),
                    "reduction", "add");
    gather("packed", "other", 1, "out");
    answer(FLOAT);
    refuse(BASE_UNIMPLEMENTED, "ScatterElements (node \"other\"", "with a reduction");
}
END_TEST

START_TEST(test_lists_are_scattered)
{
    static char sum[] = "sum";
    const int64_t data[] = {7, 8, 9};
    const int64_t indices[] = {2, -3, 3};
    for (uint32_t i = 0; i < 2; i++) { // the second one beyond the list
        begin();
        onnx_constant(&builder, "data", onnx_ints(&builder, 1, 3, data));
        onnx_constant(&builder, "indices", onnx_ints(&builder, 1, 2, indices + i));
        onnx_constant(&builder, "updates", onnx_ints(&builder, 1, 2, data));
        (void)onnx_node(&builder, "ScatterElements", "data indices updates", "list");
        (void)onnx_node(&builder, "Expand", "zero list", "filled");
        gather("packed", "back", 1, "out");
        answer(FLOAT);
        if (i == 0) {
            expect_accepted(&builder);
            continue;
        }
        (void)onnx_node(&builder, "Add", "out filled", "sum");
        builder.graph.output[0]->name = sum;
        refuse(BASE_INVALID_ARGUMENT, "ScatterElements (node \"list\"", "index 3 of 3 elements");
    }
}
END_TEST

/* A node may leave its outputs without names: then it makes nothing, and nothing is asked of it. */
START_TEST(test_outputs_without_names)
{
    const int64_t ends[] = {-1, INT64_MIN, -1, 0};
    begin();
    (void)onnx_node(&builder, "TopK", "lengths size", "- order_alone");
    (void)onnx_node(&builder, "Tanh", "packed", "computed");
    gather("computed", "back", 1, "-");
    gather("computed", "back", 1, "unpacked");
    for (uint32_t i = 0; i < 4; i++) {
        static const char *const names[] = {"starts", "ends", "step", "axis"};
        onnx_constant(&builder, names[i], onnx_ints(&builder, 1, 1, &ends[i]));
    }
    (void)onnx_node(&builder, "Slice", "unpacked starts ends axis step", "-");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "unpacked", "-"), "to",
                 ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE);
    (void)onnx_node(&builder, "Unheard", "unpacked", "-");
    (void)onnx_node(&builder, "Add", "unpacked s0", "out");
    answer(FLOAT);
    expect_accepted(&builder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_sorted");
    TCase *tests = tcase_create("sorted");
    tcase_add_test(tests, test_rows_that_are_put_back_are_as_they_were);
    tcase_add_test(tests, test_outputs_without_names);
    tcase_add_test(tests, test_sorted_rows_are_not_answered);
    tcase_add_test(tests, test_sorted_rows_do_not_meet_others);
    tcase_add_test(tests, test_only_whole_batches_are_sorted);
    tcase_add_test(tests, test_orders_are_for_rows_alone);
    tcase_add_test(tests, test_lists_are_scattered);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
