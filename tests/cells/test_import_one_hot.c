/* OneHot of ids is a table that is looked up: each beside the embedding that is the same, and what
 * is refused. */
#include "base/mem.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
};
enum { DEPTH = 5, HIDDEN = 3, BATCH = 2, TIME = 4 };

static struct onnx_builder builder;
static struct base_error last_error;

/* ids [time, batch], and values of floats that are not 0 and 1. */
static void begin(int32_t dtype)
{
    static const int64_t any[] = {-1, -1};
    static const int64_t two[] = {2};
    static const float values[] = {-0.25f, 0.75f};
    const int64_t depth = DEPTH;
    onnx_init(&builder, 14);
    onnx_input(&builder, "ids", dtype, 2, any);
    onnx_constant(&builder, "depth", onnx_ints(&builder, 0, 1, &depth));
    onnx_constant(&builder, "values", onnx_tensor(&builder, FLOAT, 1, two, values, sizeof(values)));
}

/* An RNN over x, whose h of all steps is the output. */
static void end(void)
{
    onnx_add_weights(&builder, "RNN", DEPTH, HIDDEN, 7);
    onnx_node(&builder, "RNN", "x w r b", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

static double *answer(size_t *count)
{
    static double ids[TIME * BATCH];
    struct replay_tensor input = {
        .rank = 2, .dims = {TIME, BATCH}, .count = TIME * BATCH, .data = ids};
    struct replay_tensor output;
    struct built built;
    for (size_t i = 0; i < input.count; i++) {
        ids[i] = (double)(i * 3 % DEPTH);
    }
    end();
    load_built(&builder, &built);
    ck_assert_int_eq(built.model->inputs[0].id_bound, DEPTH); // an id beyond is refused
    replay_run(built.model, &input, &output);
    free_built(&builder, &built);
    *count = output.count;
    return output.data;
}

START_TEST(test_one_hot_is_an_embedding)
{
    static const int64_t dims[] = {DEPTH, DEPTH};
    float table[DEPTH * DEPTH];
    size_t counts[2];
    for (size_t i = 0; i < (size_t)DEPTH * DEPTH; i++) {
        table[i] = i / DEPTH == i % DEPTH ? 0.75f : -0.25f;
    }
    begin(_i == 0 ? INT64 : INT32);
    Onnx__NodeProto *node = onnx_node(&builder, "OneHot", "ids depth values", "x");
    if (_i == 2) {
        onnx_set_int(&builder, node, "axis", 2);
    }
    double *got = answer(&counts[0]);
    begin(INT64);
    onnx_constant(&builder, "table", onnx_tensor(&builder, FLOAT, 2, dims, table, sizeof(table)));
    onnx_node(&builder, "Gather", "table ids", "x");
    double *wanted = answer(&counts[1]);
    ck_assert_uint_eq(counts[0], counts[1]);
    for (size_t i = 0; i < counts[0]; i++) {
        util_assert_close(got[i], wanted[i], 0, 0);
    }
    ck_assert(got[0] != got[HIDDEN]);
    base_free(got);
    base_free(wanted);
}
END_TEST

static void expect(enum base_status wanted, const char *why)
{
    end();
    const enum base_status status = parse_built(&builder, &last_error);
    expect_error(status, &last_error, wanted, "OneHot (node \"x\", opset 14)", why);
}

START_TEST(test_what_is_refused)
{
    static const int64_t two[] = {2};
    static const int64_t depths[] = {2, 3};
    const int64_t none = 0;
    begin(INT64);
    onnx_set_int(&builder, onnx_node(&builder, "OneHot", "ids depth values", "x"), "axis", 0);
    expect(BASE_UNIMPLEMENTED, "along axis 0; only the last");
    begin(INT64);
    onnx_constant(&builder, "none", onnx_ints(&builder, 0, 1, &none));
    onnx_node(&builder, "OneHot", "ids none values", "x");
    expect(BASE_UNIMPLEMENTED, "a depth of 0");
    begin(INT64);
    onnx_constant(&builder, "depths", onnx_tensor(&builder, INT64, 1, two, depths, sizeof(depths)));
    onnx_node(&builder, "OneHot", "ids depths values", "x");
    expect(BASE_UNIMPLEMENTED, "a depth of 0");
    begin(INT64);
    onnx_node(&builder, "OneHot", "ids depth depth", "x");
    expect(BASE_UNIMPLEMENTED, "values that are no two constants");
    begin(FLOAT);
    onnx_node(&builder, "OneHot", "ids depth values", "x");
    expect(BASE_UNIMPLEMENTED, "of what are no integers of the request");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_one_hot");
    TCase *tcase = tcase_create("one_hot");
    tcase_add_loop_test(tcase, test_one_hot_is_an_embedding, 0, 3);
    tcase_add_test(tcase, test_what_is_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
