/* What the exporters of JAX, MXNet and PaddlePaddle write (tools/train/jax_exports.py and others
 * beside it): loops that carry the sequence they read, cells that are matrices times columns,
 * lengths that say nothing, shapes that are moved about as lists. Each case is a file of
 * tests/data/onnx, or one with one thing changed. That they compute what they should is
 * test_import_exports' to show. */
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };

/* ---- PaddlePaddle ---------------------------------------------------------------------------- */

/* y, a matrix for each row of another shape's axis `of`, a product with x of 3 elements. */
static void build_spread(struct onnx_builder *builder, const char *op, int64_t of, int64_t first)
{
    const int64_t x[3] = {-1, -1, 3};
    const int64_t y[3] = {-1, -1, 2};
    const int64_t dims[3] = {first, 3, 2};
    const int64_t sizes[2] = {strcmp(op, "Tile") == 0 ? 1 : 3, strcmp(op, "Tile") == 0 ? 1 : 2};
    struct base_random random;
    base_random_init(&random, 3);
    onnx_init(builder, 17);
    onnx_input(builder, "x", FLOAT, 3, x);
    onnx_output(builder, "y", FLOAT, 3, y);
    onnx_add_weights(builder, "GRU", 3, 3, 1);
    onnx_constant(builder, "matrix", onnx_random(builder, 3, dims, &random, 1.0f));
    onnx_constant(builder, "at", onnx_ints(builder, 1, 1, &of));
    onnx_constant(builder, "sizes", onnx_ints(builder, 1, 2, sizes));
    onnx_constant(builder, "one", onnx_ints(builder, 1, 1, (const int64_t[]){1}));
    onnx_set_int(builder, onnx_node(builder, "GRU", "x w r b", "g"), "hidden_size", 3);
    (void)onnx_node(builder, "Squeeze", "g one", "s");
    (void)onnx_node(builder, "Shape", "s", "shape");
    (void)onnx_node(builder, "Gather", "shape at", "rows");
    onnx_set_int(builder, onnx_node(builder, "Concat", "rows sizes", "target"), "axis", 0);
    (void)onnx_node(builder, op, "matrix target", "each");
    (void)onnx_node(builder, "MatMul", "s each", "y");
}

START_TEST(test_weights_that_stand_once_for_each_row)
{
    struct onnx_builder builder;
    build_spread(&builder, "Expand", 0, 1);
    expect_accepted(&builder);
    build_spread(&builder, "Tile", 0, 1);
    expect_accepted(&builder);
    build_spread(&builder, "Expand", 1, 1); // once for each step, along another axis
    expect_refused(&builder, BASE_UNIMPLEMENTED, "");
    build_spread(&builder, "Tile", 0, 2); // two matrices by turns
    expect_refused(&builder, BASE_UNIMPLEMENTED, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_frameworks");
    TCase *tests = tcase_create("frameworks");
    tcase_add_test(tests, test_weights_that_stand_once_for_each_row);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
