/* TopK along the steps of a sequence (cells/import/top_steps.c): what it computes, how many steps
 * it asks for, and where it stays refused. */
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include "base/mem.h"

#include <math.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    IN = 3,
    HIDDEN = 4,
    BATCH = 2,
    TIME = 9,
    K_MAX = 8
};

static struct onnx_builder builder;

/* A TopK of x [time, batch, 3], beside an RNN. */
static void begin(int64_t k, bool is_largest)
{
    const int64_t x[] = {-1, -1, IN};
    onnx_init(&builder, 14);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_add_weights(&builder, "RNN", IN, HIDDEN, 13);
    onnx_node(&builder, "RNN", "x w r b", "- h");
    onnx_constant(&builder, "k", onnx_ints(&builder, 1, 1, &k));
    Onnx__NodeProto *top = onnx_node(&builder, "TopK", "x k", "out at");
    onnx_set_int(&builder, top, "axis", 0);
    onnx_set_int(&builder, top, "largest", is_largest ? 1 : 0);
    onnx_output(&builder, "h", FLOAT, 0, NULL);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

/* How many steps have more (or less) than what stands at place k. */
static void expect_top(const double *x, const double *out, int64_t k, bool is_largest)
{
    for (size_t e = 0; e < (size_t)BATCH * IN; e++) {
        for (int64_t i = 0; i < k; i++) {
            const double at = out[(size_t)i * BATCH * IN + e];
            int64_t before = 0;
            int64_t same = 0;
            for (size_t t = 0; t < TIME; t++) {
                const double other = x[t * BATCH * IN + e];
                before += (is_largest ? other > at : other < at) ? 1 : 0;
                same += other >= at && other <= at ? 1 : 0;
            }
            ck_assert_int_ge(same, 1);
            ck_assert(before <= i && i < before + same);
        }
    }
}

/* Some steps are alike, and some infinite. */
static void run(int64_t k, bool is_largest)
{
    struct built built;
    struct replay_tensor x = {
        .rank = 3, .dims = {TIME, BATCH, IN}, .count = (size_t)TIME * BATCH * IN};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    struct base_random random = util_random((uint64_t)k);
    begin(k, is_largest);
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->sequences[0].steps_min, k == 1 ? 0 : (uint32_t)k);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)roundf(base_random_f32(&random, -4.0f, 4.0f));
    }
    x.data[1] = (double)INFINITY;
    x.data[BATCH * IN + 1] = -(double)INFINITY;
    replay_run(built.model, &x, outputs);
    ck_assert_uint_eq(outputs[1].rank, 3);
    ck_assert_uint_eq(outputs[1].count, (size_t)k * BATCH * IN);
    expect_top(x.data, outputs[1].data, k, is_largest);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
    base_free(x.data);
    free_built(&builder, &built);
}

START_TEST(test_the_largest_and_smallest_steps)
{
    run(1 + _i, true);
    run(1 + _i, false);
}
END_TEST

/* At which steps they stood. */
START_TEST(test_their_numbers_are_refused)
{
    begin(2, true);
    onnx_output(&builder, "at", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 0, NULL);
    builder.graph.output[2]->type = NULL;
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the steps of a sequence");
    begin(K_MAX + 1, true);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the steps of a sequence");
}
END_TEST

/* ONNX would take what stands behind a shorter row. */
START_TEST(test_before_lengths_it_is_of_all_steps)
{
    const int64_t x[] = {-1, -1, IN};
    const int64_t lengths[] = {-1};
    const int64_t k = 2;
    onnx_init(&builder, 14);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_input(&builder, "lengths", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 1, lengths);
    onnx_add_weights(&builder, "RNN", IN, HIDDEN, 13);
    onnx_node(&builder, "RNN", "x w r b lengths", "- h");
    onnx_constant(&builder, "k", onnx_ints(&builder, 1, 1, &k));
    onnx_set_int(&builder, onnx_node(&builder, "TopK", "x k", "out"), "axis", 0);
    onnx_output(&builder, "h", FLOAT, 0, NULL);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
    expect_accepted(&builder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_top_steps");
    TCase *tests = tcase_create("top");
    tcase_add_loop_test(tests, test_the_largest_and_smallest_steps, 0, K_MAX);
    tcase_add_test(tests, test_their_numbers_are_refused);
    tcase_add_test(tests, test_before_lengths_it_is_of_all_steps);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
