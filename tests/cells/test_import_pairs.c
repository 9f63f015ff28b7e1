/* Attention with a constant of a value for each pair of steps, cut to as many as there are: biases
 * that follow from the distance of both, or from more, and masks, against the sums that they stand
 * for; how many steps a request may have; and what is refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL };
enum { BATCH = 2, MOST = 9, WIDTH = 3, HIDDEN = 2 };

static struct onnx_builder builder;
static struct base_random numbers;

/* y [batch, steps, WIDTH], all products of its steps, and how many there are. */
static void begin(void)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const int64_t perm[] = {0, 2, 1};
    const int64_t constants[] = {0, 1, 2};
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "y", FLOAT, 3, dims);
    onnx_constant(&builder, "n0", onnx_ints(&builder, 1, 1, &constants[0]));
    onnx_constant(&builder, "n1", onnx_ints(&builder, 1, 1, &constants[1]));
    onnx_constant(&builder, "n2", onnx_ints(&builder, 1, 1, &constants[2]));
    onnx_node(&builder, "Shape", "y", "shape");
    onnx_node(&builder, "Gather", "shape n1", "steps");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "yt"), "perm", 3, perm);
    onnx_node(&builder, "MatMul", "y yt", "products");
}

/* Attention with `scores`; a GRU says which axis is time. */
static void end(void)
{
    const int64_t perm[] = {1, 0, 2};
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "scores", "weights"), "axis", -1);
    onnx_node(&builder, "MatMul", "weights y", "o");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "gru"), "hidden_size",
                 HIDDEN);
    onnx_output(&builder, "o", FLOAT, 0, NULL);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

/* ---- What is in the constant ---------------------------------------------------------------- */

typedef float fill(int32_t query, int32_t key);

static float any(int32_t query, int32_t key)
{
    (void)query, (void)key;
    return base_random_f32(&numbers, -2.0f, 2.0f);
}

static float sloping(int32_t query, int32_t key)
{
    return 0.25f * (float)(key - query) + (key == query + 1 ? 1.0f : 0.0f);
}

static float near(int32_t query, int32_t key)
{
    return key - query > 2 || query - key > 1 ? -0.5f : 1.5f;
}

static float causal(int32_t query, int32_t key)
{
    return key <= query ? 1.0f : 0.0f;
}

static float infinite(int32_t query, int32_t key)
{
    return key <= query ? 0.0f : -INFINITY;
}

/* Distances but for one pair, near the end. */
static float nearly(int32_t query, int32_t key)
{
    return query == MOST - 1 && key == MOST - 2 ? 7.0f : 0.125f * (float)(key - query);
}

/* table [MOST][MOST], and the numbers of it. */
static void add_table(fill *of, bool is_bool, float out[MOST][MOST])
{
    const int64_t dims[] = {1, MOST, MOST};
    uint8_t bools[MOST * MOST];
    for (int32_t i = 0; i < MOST; i++) {
        for (int32_t j = 0; j < MOST; j++) {
            out[i][j] = of(i, j);
            bools[i * MOST + j] = out[i][j] != 0.0f;
        }
    }
    const void *data = is_bool ? (const void *)bools : (const void *)out;
    const size_t bytes = MOST * MOST * (is_bool ? sizeof(bools[0]) : sizeof(float));
    onnx_constant(&builder, "table",
                  onnx_tensor(&builder, is_bool ? BOOL : FLOAT, 3, dims, data, bytes));
}

static void cut(bool is_last_first)
{
    onnx_node(&builder, "Slice", is_last_first ? "table n0 steps n2" : "table n0 steps n1", "some");
    onnx_node(&builder, "Slice", is_last_first ? "some n0 steps n1" : "some n0 steps n2", "pairs");
}

/* Both axes by one Slice, as simplifiers join two. */
static void cut_at_once(bool is_last_first)
{
    const int64_t axes[] = {is_last_first ? 2 : 1, is_last_first ? 1 : 2};
    const int64_t starts[] = {0, 0};
    onnx_constant(&builder, "axes", onnx_ints(&builder, 1, 2, axes));
    onnx_constant(&builder, "starts", onnx_ints(&builder, 1, 2, starts));
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "steps steps", "ends"), "axis", 0);
    onnx_node(&builder, "Slice", "table starts ends axes", "pairs");
}

/* ---- By the plain sums ---------------------------------------------------------------------- */

static void expect_attention(const struct cell_model *model, float added[MOST][MOST], int64_t steps)
{
    struct replay_tensor y = {.rank = 3, .dims = {BATCH, steps, WIDTH}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    y.count = (size_t)(BATCH * steps * WIDTH);
    y.data = base_alloc_array(y.count, sizeof(double));
    ck_assert_ptr_nonnull(y.data);
    for (size_t i = 0; i < y.count; i++) {
        y.data[i] = (double)base_random_f32(&numbers, -1.0f, 1.0f);
    }
    replay_run(model, &y, outputs);
    ck_assert_uint_eq(outputs[0].count, y.count);
    for (int64_t r = 0; r < BATCH * steps; r++) {
        const double *rows = y.data + r / steps * steps * WIDTH;
        double sums[WIDTH] = {0.0};
        double sum = 0.0;
        for (int64_t key = 0; key < steps; key++) {
            double score = (double)added[r % steps][key];
            for (int64_t k = 0; k < WIDTH; k++) {
                score += rows[r % steps * WIDTH + k] * rows[key * WIDTH + k];
            }
            sum += exp(score);
            for (int64_t k = 0; k < WIDTH; k++) {
                sums[k] += exp(score) * rows[key * WIDTH + k];
            }
        }
        for (int64_t k = 0; k < WIDTH; k++) {
            util_assert_close(outputs[0].data[r * WIDTH + k], sums[k] / sum, 1e-5, 0);
        }
    }
    base_free(y.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

static void expect_pairs(float added[MOST][MOST])
{
    struct built built;
    end();
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->sequences[built.model->inputs[0].sequence].steps_max, MOST);
    for (int64_t steps = 1; steps <= MOST; steps++) {
        expect_attention(built.model, added, steps);
    }
    free_built(&builder, &built);
}

START_TEST(test_numbers_of_pairs_are_added)
{
    static fill *const fills[] = {any, sloping, near, causal, infinite, nearly};
    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
        for (uint32_t is_last_first = 0; is_last_first < 2; is_last_first++) {
            float added[MOST][MOST];
            begin();
            add_table(fills[i], false, added);
            cut(is_last_first != 0);
            onnx_node(&builder, "Add", "products pairs", "scores");
            expect_pairs(added);
        }
    }
}
END_TEST

START_TEST(test_both_axes_are_cut_at_once)
{
    static fill *const fills[] = {any, sloping};
    for (size_t i = 0; i < 4; i++) {
        float added[MOST][MOST];
        begin();
        add_table(fills[i / 2], false, added);
        cut_at_once(i % 2 != 0);
        onnx_node(&builder, "Add", "products pairs", "scores");
        expect_pairs(added);
    }
}
END_TEST

/* Half of them, taken away. */
START_TEST(test_numbers_of_pairs_are_scaled)
{
    const float half = 0.5f;
    static fill *const fills[] = {any, sloping};
    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
        float added[MOST][MOST];
        begin();
        add_table(fills[i], false, added);
        onnx_constant(&builder, "half", onnx_tensor(&builder, FLOAT, 0, NULL, &half, sizeof(half)));
        cut(false);
        onnx_node(&builder, "Mul", "pairs half", "less");
        onnx_node(&builder, "Sub", "products less", "scores");
        for (int32_t k = 0; k < MOST * MOST; k++) {
            added[k / MOST][k % MOST] *= -0.5f;
        }
        expect_pairs(added);
    }
}
END_TEST

START_TEST(test_masks_of_pairs)
{
    const float zero = 0.0f;
    const float lowest = -INFINITY;
    for (uint32_t is_bool = 0; is_bool < 2; is_bool++) {
        float added[MOST][MOST];
        begin();
        add_table(causal, is_bool != 0, added);
        onnx_constant(&builder, "zero", onnx_tensor(&builder, FLOAT, 0, NULL, &zero, sizeof(zero)));
        onnx_constant(&builder, "lowest",
                      onnx_tensor(&builder, FLOAT, 0, NULL, &lowest, sizeof(lowest)));
        cut(false);
        if (is_bool != 0) {
            onnx_node(&builder, "Not", "pairs", "masked");
        } else {
            onnx_node(&builder, "Equal", "pairs zero", "masked");
        }
        onnx_node(&builder, "Where", "masked lowest products", "scores");
        for (int32_t k = 0; k < MOST * MOST; k++) {
            added[k / MOST][k % MOST] = k % MOST > k / MOST ? -INFINITY : 0.0f;
        }
        expect_pairs(added);
    }
}
END_TEST

/* The smaller of the number of steps and of a constant, as exporters ask for behind such a cut, is
 * the number of steps, and a request may have no more: where what is made of it is needed. */
START_TEST(test_the_smaller_of_steps_and_a_number)
{
    const int64_t numbers_of[] = {0, 7, -1};
    for (uint32_t is_needed = 0; is_needed < 2; is_needed++) {
        float added[MOST][MOST];
        struct built built;
        begin();
        add_table(sloping, false, added);
        onnx_constant(&builder, "same", onnx_ints(&builder, 1, 1, &numbers_of[0]));
        onnx_constant(&builder, "seven", onnx_ints(&builder, 1, 1, &numbers_of[1]));
        onnx_constant(&builder, "rest", onnx_ints(&builder, 1, 1, &numbers_of[2]));
        cut(false);
        onnx_node(&builder, "Add", "products pairs", "scores");
        onnx_node(&builder, "Min", "seven steps", "fewer");
        onnx_set_int(&builder, onnx_node(&builder, "Concat", "same fewer rest", "target"), "axis",
                     0);
        onnx_node(&builder, "Reshape", "y target", "again");
        end();
        if (is_needed != 0) {
            onnx_output(&builder, "again", FLOAT, 0, NULL);
            builder.graph.output[2]->type = NULL;
        }
        load_built(&builder, &built);
        ck_assert_uint_eq(built.model->sequences[built.model->inputs[0].sequence].steps_max,
                          is_needed != 0 ? 7 : MOST);
        free_built(&builder, &built);
    }
}
END_TEST

START_TEST(test_the_smaller_of_rows_and_a_number)
{
    const int64_t three = 3;
    const int64_t rest[] = {-1, WIDTH};
    float added[MOST][MOST];
    begin();
    add_table(sloping, false, added);
    onnx_constant(&builder, "three", onnx_ints(&builder, 1, 1, &three));
    onnx_constant(&builder, "rest", onnx_ints(&builder, 1, 2, rest));
    cut(false);
    onnx_node(&builder, "Add", "products pairs", "scores");
    onnx_node(&builder, "Gather", "shape n0", "rows");
    onnx_node(&builder, "Min", "rows three", "fewer");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "fewer rest", "target"), "axis", 0);
    onnx_node(&builder, "Reshape", "y target", "again");
    onnx_output(&builder, "again", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    end();
    builder.graph.output[2]->type = NULL;
    expect_refused(&builder, BASE_UNIMPLEMENTED, "computes with at most 3 rows of the batch");
}
END_TEST

/* ---- What is refused ------------------------------------------------------------------------- */

static float holes(int32_t query, int32_t key)
{
    return key * query == 6 ? -INFINITY : 0.5f;
}

static void refuse(const char *why)
{
    end();
    expect_refused(&builder, BASE_UNIMPLEMENTED, why);
}

START_TEST(test_other_numbers_of_pairs)
{
    float added[MOST][MOST];
    begin();
    add_table(holes, false, added);
    cut(false);
    onnx_node(&builder, "Add", "products pairs", "scores");
    refuse("that is infinite, or none, and follows from more than");

    begin(); // a mask that is none of distances
    add_table(any, true, added);
    constant_of(&builder, "table")->raw_data.data[5] = 0;
    cut(false);
    onnx_node(&builder, "Where", "pairs products products", "scores");
    refuse("that is no attention");

    begin();
    add_table(any, false, added);
    cut(false);
    onnx_node(&builder, "Exp", "pairs", "more");
    onnx_node(&builder, "Add", "products more", "scores");
    refuse("that is no attention");
}
END_TEST

START_TEST(test_other_cuts)
{
    const int64_t long_dims[] = {1025, 1025};
    const int64_t wide_dims[] = {MOST, MOST + 1};
    float added[MOST][MOST];
    begin(); // of half as many keys
    add_table(any, false, added);
    onnx_node(&builder, "Add", "steps n1", "longer");
    onnx_node(&builder, "Slice", "table n0 steps n1", "some");
    onnx_node(&builder, "Slice", "some n0 longer n2", "pairs");
    onnx_node(&builder, "Add", "products pairs", "scores");
    refuse("Slice (node \"pairs\", opset 17): a range that depends on the request");

    begin(); // the same at once
    add_table(any, false, added);
    onnx_node(&builder, "Add", "steps n1", "longer");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "steps longer", "ends"), "axis", 0);
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "n0 n0", "starts"), "axis", 0);
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "n1 n2", "axes"), "axis", 0);
    onnx_node(&builder, "Slice", "table starts ends axes", "pairs");
    onnx_node(&builder, "Add", "products pairs", "scores");
    refuse("a range that depends on the request");

    begin(); // from the second on
    add_table(any, false, added);
    onnx_node(&builder, "Slice", "table n0 steps n1", "some");
    onnx_node(&builder, "Slice", "some n1 steps n2", "pairs");
    onnx_node(&builder, "Add", "products pairs", "scores");
    refuse("Slice (node \"pairs\", opset 17): a range that depends on the request");

    for (uint32_t i = 0; i < 2; i++) {
        begin();
        onnx_constant(&builder, "table",
                      onnx_random(&builder, 2, i == 0 ? long_dims : wide_dims, &numbers, 1.0f));
        onnx_node(&builder, "Slice", "table n0 steps n0", "some");
        onnx_node(&builder, "Slice", "some n0 steps n1", "pairs");
        onnx_node(&builder, "Add", "products pairs", "scores");
        refuse(i == 0 ? "for up to 1024 times as many"
                      : "Slice (node \"pairs\", opset 17): a range that depends on the request");
    }

    begin(); // nobody makes pairs for themselves
    add_table(any, false, added);
    cut(false);
    onnx_node(&builder, "Add", "products pairs", "scores");
    onnx_output(&builder, "pairs", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    end();
    builder.graph.output[1]->type = NULL;
    builder.graph.output[2]->type = NULL;
    expect_refused(&builder, BASE_UNIMPLEMENTED, "");
}
END_TEST

int main(void)
{
    numbers = util_random(1);
    Suite *suite = suite_create("import_pairs");
    TCase *tcase = tcase_create("pairs");
    tcase_add_test(tcase, test_numbers_of_pairs_are_added);
    tcase_add_test(tcase, test_both_axes_are_cut_at_once);
    tcase_add_test(tcase, test_numbers_of_pairs_are_scaled);
    tcase_add_test(tcase, test_masks_of_pairs);
    tcase_add_test(tcase, test_the_smaller_of_steps_and_a_number);
    tcase_add_test(tcase, test_the_smaller_of_rows_and_a_number);
    tcase_add_test(tcase, test_other_numbers_of_pairs);
    tcase_add_test(tcase, test_other_cuts);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
