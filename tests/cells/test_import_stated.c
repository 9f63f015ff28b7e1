/* Sequences of a stated number of steps: steps by their number, all of them as features; steps of
 * any number near an end, and stacked; and what is refused. That what comes of it is computed as
 * PyTorch and Keras do, test_import_exports shows (own_flat, keras_flat, keras_tail,
 * keras_each_apart). */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <stdio.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { INPUT = 5, HIDDEN = 6, STEPS = 7 };

static struct onnx_builder builder;

static Onnx__NodeProto *node(const char *op, const char *inputs, const char *output)
{
    return onnx_node(&builder, op, inputs, output);
}

static void numbers(const char *name, uint32_t rank, size_t n, const int64_t *values)
{
    onnx_constant(&builder, name, onnx_ints(&builder, rank, n, values));
}

static void answer(const char *name)
{
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
}

/* y [batch, steps, HIDDEN] of a GRU; with lengths an input has those of the rows. */
static void begin(int64_t steps, bool has_lengths)
{
    const int64_t dims[] = {-1, steps, INPUT};
    const int64_t time_first[] = {1, 0, 2};
    const int64_t one = 1;
    const int64_t any = -1;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", INPUT, HIDDEN, 1);
    numbers("axis1", 1, 1, &one);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    if (has_lengths) {
        onnx_input(&builder, "lengths", INT64, 1, &any);
        onnx_set_int(&builder, node("Cast", "lengths", "l32"), "to",
                     ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    }
    onnx_set_ints(&builder, node("Transpose", "x", "xt"), "perm", 3, time_first);
    onnx_set_int(&builder, node("GRU", has_lengths ? "xt w r b l32" : "xt w r b", "all"),
                 "hidden_size", HIDDEN);
    node("Squeeze", "all axis1", "flat");
    onnx_set_ints(&builder, node("Transpose", "flat", "y"), "perm", 3, time_first);
}

static void take(int64_t k)
{
    numbers("k", 0, 1, &k);
    onnx_set_int(&builder, node("Gather", "y k", "one"), "axis", 1);
    answer("one");
}

static void slice(int64_t first, int64_t end)
{
    numbers("first", 1, 1, &first);
    numbers("end", 1, 1, &end);
    node("Slice", "y first end axis1", "some");
}

START_TEST(test_a_step_by_its_number)
{
    begin(STEPS, false);
    take(3);
    expect_accepted(&builder);
    begin(STEPS, false);
    take(-2);
    expect_accepted(&builder);
    begin(STEPS, false);
    take(STEPS);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "index 7 on an axis of 7");
    begin(-1, false);
    take(1 << 21);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "by a number that depends on the request");
    begin(-1, true);
    take(3);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "takes steps by their number beside sequence_lens");
    begin(STEPS, true);
    take(3);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "takes steps by their number beside sequence_lens");
}
END_TEST

/* Of any number of steps too, where a request must have that one. */
START_TEST(test_a_step_of_any_number)
{
    static const int64_t taken[] = {3, -3, 1, -2};
    static const uint32_t least[] = {4, 3, 2, 2};
    uint32_t steps[CELL_SEQUENCES_MAX];
    for (uint32_t i = 0; i < 4; i++) {
        struct built built;
        begin(-1, false);
        take(taken[i]);
        load_built(&builder, &built);
        ck_assert_uint_eq(built.model->n_sequences, 1);
        ck_assert_uint_eq(built.model->sequences[0].steps_min, least[i]);
        cell_model_steps_min(built.model, steps);
        ck_assert_uint_eq(steps[0], least[i]);
        free_built(&builder, &built);
    }
}
END_TEST

static void expect_kept(int64_t first, int64_t end, uint32_t kept, int32_t add)
{
    struct built built;
    uint32_t steps[CELL_SEQUENCES_MAX];
    begin(-1, false);
    slice(first, end);
    node("Relu", "some", "p");
    answer("p");
    load_built(&builder, &built);
    const struct cell_sequence *sequence = &built.model->sequences[1];
    ck_assert_uint_eq(built.model->n_sequences, 2);
    ck_assert_uint_eq(sequence->kept, kept);
    ck_assert_int_eq(sequence->add, add);
    ck_assert_int_eq(built.model->outputs[0].dims[1], kept);
    ck_assert_uint_eq(cell_sequence_steps(sequence, 1000), kept);
    ck_assert_uint_eq(cell_sequence_steps(sequence, (uint32_t)-add), kept);
    ck_assert_uint_eq(cell_sequence_steps(sequence, (uint32_t)-add - 1), 0);
    cell_model_steps_min(built.model, steps);
    ck_assert_uint_eq(steps[0], (uint32_t)-add);
    ck_assert_uint_eq(steps[1], 1);
    free_built(&builder, &built);
}

/* Some steps near one end of any number: as many in every request, of which others are refused. */
START_TEST(test_steps_near_an_end_are_kept)
{
    expect_kept(-3, INT64_MAX, 3, -3);
    expect_kept(-5, -2, 3, -5);
    expect_kept(0, 4, 4, -4);
    expect_kept(2, 6, 4, -6);
    begin(-1, true);
    slice(-3, INT64_MAX);
    node("Relu", "some", "p");
    answer("p");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "beside sequence_lens");
}
END_TEST

/* The value `of`, of HIDDEN features, in frames as wide as that. */
static void stack(const char *of, int64_t width)
{
    static const int64_t last = -1;
    static const int64_t none = INT64_MIN;
    const int64_t shape[] = {0, -1, width};
    char inputs[32];
    numbers("last", 1, 1, &last);
    numbers("none", 1, 1, &none);
    numbers("frames", 1, 3, shape);
    node("Slice", "y last none axis1 last", "turned");
    (void)snprintf(inputs, sizeof(inputs), "%s frames", of);
    node("Reshape", inputs, "p");
    answer("p");
}

/* Frames of three steps each, of a number that three divides. */
START_TEST(test_frames_are_stacked)
{
    struct built built;
    uint32_t steps[CELL_SEQUENCES_MAX];
    begin(-1, false);
    stack("y", 3 * HIDDEN);
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_sequences, 2);
    ck_assert_uint_eq(built.model->sequences[0].multiple, 3);
    ck_assert_uint_eq(built.model->sequences[1].stride, 3);
    ck_assert_int_eq(built.model->sequences[1].add, -3);
    ck_assert_uint_eq(built.model->outputs[0].width, 3 * HIDDEN);
    cell_model_steps_min(built.model, steps);
    ck_assert_uint_eq(steps[0], 3);
    free_built(&builder, &built);
    begin(-1, true);
    stack("y", 2 * HIDDEN);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "stacks steps beside sequence_lens");
    begin(-1, false); // the rows of the batch
    stack("flat", 2 * HIDDEN);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "p");
    begin(-1, false); // 251 * 241 * 239 must divide the steps
    stack("y", 251 * HIDDEN);
    numbers("others", 1, 3, (const int64_t[]){0, -1, 241 * HIDDEN});
    numbers("more", 1, 3, (const int64_t[]){0, -1, 239 * HIDDEN});
    node("Reshape", "y others", "q");
    answer("q");
    node("Reshape", "y more", "s");
    answer("s");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "more than 1048576 must divide them");
    begin(-1, false);
    stack("turned", 2 * HIDDEN);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "turned round");
}
END_TEST

/* x's steps less some, and 0 if there were fewer: what PyTorch's default exporter computes of a
 * slice. Of the batch nobody may ask for so many rows. */
START_TEST(test_a_shape_computed_for_long_requests)
{
    static const int64_t axes[] = {1, 0};
    static const int64_t dims[] = {4 * HIDDEN, 2};
    struct base_random random = util_random(1);
    for (uint32_t i = 0; i < 2; i++) {
        const int64_t none = 0;
        const int64_t less = -4;
        const int64_t minus = -1;
        begin(-1, false);
        numbers("none", 0, 1, &none);
        numbers("less", 0, 1, &less);
        numbers("minus", 0, 1, &minus);
        numbers("which", 0, 1, &axes[i]);
        numbers("rows", 1, 1, &(const int64_t){0});
        node("Shape", "x", "shape");
        node("Gather", "shape which", "size");
        node("Add", "size less", "begin");
        node("Max", "begin none", "border");
        node("Mul", "border minus", "back");
        node("Add", "size back", "left"); // 4
        node("Unsqueeze", "left rows", "left1");
        numbers("hidden", 1, 1, &(const int64_t){HIDDEN});
        node("Mul", "left1 hidden", "wide");
        onnx_set_int(&builder, node("Concat", "rows wide", "to"), "axis", 0);
        slice(-4, INT64_MAX);
        node("Reshape", "some to", "flat_some");
        onnx_constant(&builder, "matrix", onnx_random(&builder, 2, dims, &random, 1.0f));
        node("MatMul", "flat_some matrix", "p");
        answer("p");
        if (i == 1) {
            expect_refused(&builder, BASE_UNIMPLEMENTED, "at least 4 rows of the batch");
            continue;
        }
        struct built built;
        load_built(&builder, &built);
        ck_assert_uint_eq(built.model->sequences[0].steps_min, 4);
        ck_assert_int_eq(built.model->outputs[0].dims[1], 2);
        free_built(&builder, &built);
    }
}
END_TEST

/* A part of the steps is a sequence of its own, as what a convolution leaves is. */
START_TEST(test_some_steps_follow_from_all)
{
    begin(STEPS, false);
    slice(2, -1);
    node("Relu", "some", "p");
    answer("p");
    expect_accepted(&builder);
    begin(STEPS, false);
    slice(4, 4);
    node("Relu", "some", "p");
    answer("p");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "Slice (node \"some\"");
    begin(STEPS, true);
    slice(2, -1);
    node("Relu", "some", "p");
    answer("p");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "beside sequence_lens");
}
END_TEST

static void flatten(int64_t steps, bool has_lengths)
{
    const int64_t dims[] = {STEPS * HIDDEN, 2};
    struct base_random random;
    base_random_init(&random, 1);
    begin(steps, has_lengths);
    node("Flatten", "y", "wide");
    onnx_constant(&builder, "matrix", onnx_random(&builder, 2, dims, &random, 1.0f));
    node("MatMul", "wide matrix", "z");
    answer("z");
}

/* Elements of a row may be taken in any order (chosen, of test_import_exports), steps may not. */
START_TEST(test_steps_in_any_order_are_refused)
{
    static const int64_t list[] = {3, 1, 1};
    static const int64_t by = 3;
    const int64_t first = 0;
    const int64_t end = STEPS;
    begin(STEPS, false);
    numbers("list", 1, 3, list);
    onnx_set_int(&builder, node("Gather", "y list", "some"), "axis", 1);
    answer("some");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "takes steps whose numbers are not consecutive");
    begin(STEPS, false);
    numbers("first", 1, 1, &first);
    numbers("end", 1, 1, &end);
    numbers("by", 1, 1, &by);
    node("Slice", "y first end axis1 by", "some");
    answer("some");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "steps of 3 along the time of a recurrent node");
    begin(STEPS, false);
    numbers("list", 1, 3, list);
    onnx_set_int(&builder, node("Gather", "y list", "some"), "axis", 2);
    answer("some");
    expect_accepted(&builder);
}
END_TEST

/* Along the features of a row; a sequence of a stated number of steps is turned too, but not both
 * in one file. (What is computed: conv_reflected, of test_import_exports.) */
START_TEST(test_what_a_slice_turns_round)
{
    const int64_t last = -1;
    const int64_t end = INT64_MIN + 1;
    for (int64_t axis = 1; axis <= 3; axis++) { // 3: both
        const int64_t features = axis == 1 ? 1 : 2;
        begin(STEPS, false);
        numbers("last", 1, 1, &last);
        numbers("end", 1, 1, &end);
        numbers("axis", 1, 1, &features);
        node("Slice", "y last end axis last", "turned");
        if (axis == 2) {
            node("Add", "turned y", "some");
            answer("some");
            expect_accepted(&builder);
        } else if (axis == 1) {
            answer("turned");
            expect_accepted(&builder);
        } else {
            node("Slice", "turned last end axis1 last", "both");
            answer("both");
            expect_refused(&builder, BASE_UNIMPLEMENTED, "turn");
        }
    }
}
END_TEST

START_TEST(test_all_steps_as_features)
{
    flatten(STEPS, false);
    expect_accepted(&builder);
    flatten(-1, false);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "MatMul (node \"z\"");
    flatten(STEPS, true);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "takes steps by their number beside sequence_lens");
    const int64_t more[] = {-1, 3};
    begin(STEPS, false); // beside what a request brings
    onnx_input(&builder, "more", FLOAT, 2, more);
    node("Flatten", "y", "wide");
    onnx_set_int(&builder, node("Concat", "wide more", "both"), "axis", 1);
    answer("both");
    expect_accepted(&builder);
}
END_TEST

/* Whoever makes a request up, such as the warm-up, takes as many steps as the file states. */
START_TEST(test_stated_numbers_are_the_models)
{
    char path[UTIL_PATH_BYTES];
    uint32_t steps[CELL_SEQUENCES_MAX];
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    util_repo_path(path, "tests/data/onnx/own_flat-ts1.13-op17/model.onnx");
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    ck_assert_msg(cell_model_load(registry, path, "test", NULL, &model, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert_uint_eq(model->n_sequences, 2); // the last 3 of 6 are the second
    ck_assert_uint_eq(model->sequences[0].stated, 6);
    ck_assert_uint_eq(model->sequences[1].stride, 1);
    ck_assert_int_eq(model->sequences[1].add, -4);
    cell_model_steps_min(model, steps);
    ck_assert_uint_eq(steps[0], 6);
    cell_model_steps(model, 100, steps);
    ck_assert_uint_eq(steps[0], 6);
    ck_assert_uint_eq(steps[1], 3);
    cell_model_free(registry, model);
    cell_registry_free(registry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_stated");
    TCase *tests = tcase_create("stated");
    tcase_add_test(tests, test_a_step_by_its_number);
    tcase_add_test(tests, test_a_step_of_any_number);
    tcase_add_test(tests, test_steps_near_an_end_are_kept);
    tcase_add_test(tests, test_a_shape_computed_for_long_requests);
    tcase_add_test(tests, test_frames_are_stacked);
    tcase_add_test(tests, test_some_steps_follow_from_all);
    tcase_add_test(tests, test_steps_in_any_order_are_refused);
    tcase_add_test(tests, test_what_a_slice_turns_round);
    tcase_add_test(tests, test_all_steps_as_features);
    tcase_add_test(tests, test_stated_numbers_are_the_models);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
