/* Steps joined to steps: what the program says of them, and what is refused, and how (what is
 * served computes what PyTorch does: test_import_exports.c, tests/server/test_readers.c). */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { WIDTH = 4, HIDDEN = 3, KEPT = 2 };

static struct onnx_builder builder;

/* x [time, batch, WIDTH]; the case adds the node that makes `y` of it. */
static void begin_with(int64_t time)
{
    const int64_t dims[] = {time, -1, WIDTH};
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "LSTM", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
}

static void begin(void)
{
    begin_with(-1);
}

static void more(const char *name, int32_t dtype, int64_t time)
{
    const int64_t dims[] = {time, -1, WIDTH};
    onnx_input(&builder, name, dtype, 3, dims);
}

static void join(const char *inputs)
{
    onnx_set_int(&builder, onnx_node(&builder, "Concat", inputs, "y"), "axis", 0);
}

static void pad(const char *mode, int64_t before, int64_t behind)
{
    const int64_t pads[] = {before, 0, 0, behind, 0, 0};
    onnx_constant(&builder, "pads", onnx_ints(&builder, 1, 6, pads));
    onnx_set_string(&builder, onnx_node(&builder, "Pad", "x pads", "y"), "mode", mode);
}

/* Steps first.. of x up to `end`, as `name`. */
static void slice(const char *name, int64_t first, int64_t end, int64_t step)
{
    char inputs[64];
    char names[3][16];
    const int64_t numbers[] = {first, end, step};
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(names[i], sizeof(names[i]), "%s_%u", name, i);
        onnx_constant(&builder, names[i], onnx_ints(&builder, 1, 1, &numbers[i]));
    }
    onnx_constant(&builder, strcmp(name, "part") == 0 ? "axis" : "axis_too",
                  onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    snprintf(inputs, sizeof(inputs), "x %s %s %s %s", names[0], names[1],
             strcmp(name, "part") == 0 ? "axis" : "axis_too", names[2]);
    onnx_node(&builder, "Slice", inputs, name);
}

/* An LSTM over the steps of y, with these lengths. */
static void end_with(const char *lengths)
{
    char operands[32] = "y w r b ";
    strncat(operands, lengths, 16);
    onnx_set_int(&builder, onnx_node(&builder, "LSTM", operands, "out"), "hidden_size", HIDDEN);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

static void end(void)
{
    end_with("-");
}

static void refuse(enum base_status status, const char *why)
{
    end();
    expect_refused(&builder, status, why);
}

/* The only join of the model, whose parts these are. */
static void expect_join(const struct cell_model *model, uint32_t n,
                        const struct cell_join_part *parts)
{
    ck_assert_uint_eq(model->n_joins, 1);
    const struct cell_join *found = &model->joins[0];
    ck_assert_uint_eq(found->width, WIDTH);
    ck_assert_uint_eq(found->n_parts, n);
    for (uint32_t p = 0; p < n; p++) {
        ck_assert_uint_eq(found->parts[p].count, parts[p].count);
        ck_assert_int_eq(found->parts[p].is_turned, parts[p].is_turned);
        ck_assert_int_eq(found->parts[p].source.kind, parts[p].source.kind);
    }
}

START_TEST(test_steps_of_a_request_before_a_sequence)
{
    const struct cell_source given = {.kind = CELL_SOURCE_INPUT};
    const struct cell_source pieces = {.kind = CELL_SOURCE_EACH}; // a step before the batch is one
    const struct cell_join_part parts[] = {
        {pieces, .count = KEPT}, {given, .count = 0}, {given, .count = 1}};
    struct built built;
    begin();
    more("kept", FLOAT, KEPT);
    more("last", FLOAT, 1);
    join("kept x last");
    end();
    load_built(&builder, &built);
    expect_join(built.model, 3, parts);
    ck_assert_uint_eq(built.model->n_sequences, 2);
    const struct cell_sequence *sequence = &built.model->sequences[built.model->joins[0].sequence];
    ck_assert_uint_eq(sequence->stride, 1);
    ck_assert_int_eq(sequence->add, KEPT); // n + KEPT + 1 steps
    ck_assert_int_eq(built.model->inputs[1].time_axis, -1);
    free_built(&builder, &built);
}
END_TEST

START_TEST(test_a_sequence_twice_and_turned_round)
{
    const struct cell_source given = {.kind = CELL_SOURCE_INPUT};
    const struct cell_join_part parts[] = {{given, .is_turned = true}, {given, .is_turned = false}};
    struct built built;
    begin();
    slice("part", -1, INT64_MIN, -1);
    join("part x");
    end();
    load_built(&builder, &built);
    expect_join(built.model, 2, parts);
    const struct cell_sequence *sequence = &built.model->sequences[built.model->joins[0].sequence];
    ck_assert_uint_eq(cell_sequence_parts(sequence), 2);
    ck_assert_uint_eq(cell_sequence_steps(sequence, 7), 14);
    free_built(&builder, &built);
}
END_TEST

/* All steps but the last one may be none; whoever reads them elsewhere needs one. */
START_TEST(test_a_part_may_have_no_steps)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct built built;
        uint32_t least[CELL_SEQUENCES_MAX];
        begin();
        more("first", FLOAT, 1);
        slice("part", 0, -1, 1);
        join("first part");
        end();
        if (i == 1) {
            onnx_node(&builder, "Tanh", "part", "too");
            onnx_output(&builder, "too", FLOAT, 0, NULL);
            builder.graph.output[1]->type = NULL;
        }
        load_built(&builder, &built);
        cell_model_steps_min(built.model, least);
        ck_assert_uint_eq(built.model->n_sequences, 2); // what is joined is as long as x
        ck_assert_uint_eq(least[0], i == 0 ? 1 : 2);
        ck_assert_int_eq(built.model->sequences[1].may_be_empty, i == 0);
        free_built(&builder, &built);
    }
}
END_TEST

/* All but the last three, of which there may be none, but not fewer: then they are not those that
 * the sequence of all parts is made of. */
START_TEST(test_a_part_may_not_lack_steps)
{
    struct built built;
    uint32_t least[CELL_SEQUENCES_MAX];
    begin();
    more("first", FLOAT, 5);
    slice("part", 0, -3, 1);
    join("first part");
    end();
    load_built(&builder, &built);
    const struct cell_join *found = &built.model->joins[0];
    const struct cell_sequence *part =
        &built.model->sequences[built.model->stages[found->parts[1].source.stage].sequence];
    ck_assert_int_eq(part->may_be_empty, true);
    ck_assert_uint_eq(cell_sequence_steps(part, 3), 0);
    ck_assert_int_eq(cell_sequence_is_met(part, 3, 0), true);
    ck_assert_int_eq(cell_sequence_is_met(part, 2, 0), false);
    cell_model_steps_min(built.model, least);
    ck_assert_uint_eq(least[0], 3);
    free_built(&builder, &built);
    begin(); // two by their numbers, which ONNX would read fewer of
    more("first", FLOAT, 5);
    slice("part", 1, 3, 1);
    join("first part x");
    end();
    load_built(&builder, &built);
    cell_model_steps_min(built.model, least);
    ck_assert_uint_eq(least[0], 3);
    free_built(&builder, &built);
}
END_TEST

/* Lengths that come with a request are those of all parts together. */
START_TEST(test_lengths_of_what_is_joined)
{
    begin();
    more("first", FLOAT, 1);
    onnx_input(&builder, "lengths", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 1, (const int64_t[]){-1});
    join("first x");
    end_with("lengths");
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_reflections_ask_for_steps)
{
    const struct cell_source edge = {.kind = CELL_SOURCE_EACH};
    const struct cell_source given = {.kind = CELL_SOURCE_INPUT};
    const struct cell_join_part parts[] = {
        {edge, .count = 2}, {given, .count = 0}, {edge, .count = 3}};
    static const char *const modes[] = {"reflect", "edge", "wrap"};
    static const uint32_t wanted[] = {4, 1, 3};
    for (uint32_t i = 0; i < 3; i++) {
        struct built built;
        uint32_t least[CELL_SEQUENCES_MAX];
        begin();
        pad(modes[i], 2, 3);
        end();
        load_built(&builder, &built);
        expect_join(built.model, 3, parts);
        cell_model_steps_min(built.model, least);
        ck_assert_uint_eq(least[0], wanted[i]);
        free_built(&builder, &built);
    }
    for (int64_t steps = 3; steps < 5; steps++) {
        begin_with(steps);
        pad("reflect", 0, 3);
        if (steps == 3) {
            refuse(BASE_INVALID_ARGUMENT, "Pad (node \"y\", opset 17): reflects 0 and 3 of 3");
        } else {
            end();
            expect_accepted(&builder);
        }
    }
    begin_with(3);
    pad("wrap", 0, 4);
    refuse(BASE_INVALID_ARGUMENT, "Pad (node \"y\", opset 17): goes round 0 and 4 of 3");
    begin_with(3);
    pad("wrap", 3, 0);
    end();
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_two_read_what_is_joined_once)
{
    struct built built;
    begin();
    more("kept", FLOAT, KEPT);
    join("kept x");
    end();
    onnx_node(&builder, "Tanh", "y", "too");
    onnx_output(&builder, "too", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_joins, 1);
    free_built(&builder, &built);
}
END_TEST

START_TEST(test_what_cannot_be_joined_is_refused)
{
    begin();
    more("other", FLOAT, -1);
    join("x other");
    refuse(BASE_UNIMPLEMENTED, "Concat (node \"y\", opset 17): joins two axes of unknown size");
    begin();
    join("x x x x x x x x x x x x x x x x x");
    refuse(BASE_UNIMPLEMENTED, "joins more than 16 sequences");
    begin();
    more("lengths", INT64, 1);
    builder.graph.input[1]->type->tensor_type->shape->n_dim = 1;
    builder.graph.input[1]->type->tensor_type->shape->dim[0]->value_case =
        ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    more("first", FLOAT, 1);
    onnx_node(&builder, "LSTM", "x w r b lengths", "under");
    builder.graph.node[0]->attribute = NULL;
    onnx_set_int(&builder, builder.graph.node[0], "hidden_size", HIDDEN);
    join("first x");
    end();
    onnx_output(&builder, "under", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
    expect_accepted(&builder); // steps of x, which have no lengths: those of the LSTM have
}
END_TEST

/* Ids have bounds, which are checked where they come in. */
START_TEST(test_ids_are_not_joined)
{
    const int64_t dims[] = {-1, -1};
    const int64_t table[] = {5, WIDTH};
    struct base_random numbers = util_random(1);
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "LSTM", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "ids", INT64, 2, dims);
    onnx_input(&builder, "begin", INT64, 2, (const int64_t[]){1, -1});
    onnx_constant(&builder, "table", onnx_random(&builder, 2, table, &numbers, 0.5f));
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "begin ids", "all"), "axis", 0);
    onnx_node(&builder, "Gather", "table all", "y");
    refuse(BASE_UNIMPLEMENTED, "Concat (node \"all\", opset 17): joins steps of int64");
}
END_TEST

/* ---- Rolled -------------------------------------------------------------------------------- */

/* Steps from number `first` modulo the size of an axis on, and then those before it, as PyTorch's
 * newer exporter has torch.roll. */
static void roll(int64_t first, int64_t axis)
{
    begin();
    onnx_constant(&builder, "number", onnx_ints(&builder, 1, 1, &first));
    onnx_constant(&builder, "axis", onnx_ints(&builder, 1, 1, &axis));
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    (void)onnx_node(&builder, "Shape", "x", "shape");
    (void)onnx_node(&builder, "Gather", "shape axis", "size");
    (void)onnx_node(&builder, "Mod", "number size", "at");
    (void)onnx_node(&builder, "Slice", "x zero at axis", "before");
    (void)onnx_node(&builder, "Slice", "x at size axis", "behind");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "behind before", "y"), "axis", axis);
}

static void expect_rolled(const struct cell_model *model, int64_t first, int64_t time)
{
    struct replay_tensor x = {.rank = 3, .dims = {time, 2, WIDTH}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    const int64_t step = 2 * WIDTH;
    x.count = (size_t)(time * step);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)i;
    }
    replay_run(model, &x, outputs);
    ck_assert_uint_eq(outputs[1].count, x.count);
    for (int64_t i = 0; i < time * step; i++) {
        const int64_t t = (i / step + first + 8 * time) % time;
        ck_assert_double_eq(outputs[1].data[i], x.data[t * step + i % step]);
    }
    base_free(x.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

/* A request with fewer steps would go round more than once, or have no such step. */
START_TEST(test_steps_rolled_to_the_other_end)
{
    static const struct {
        int64_t first, least;
    } cases[] = {{-1, 1}, {-3, 3}, {1, 2}, {2, 3}, {-4, 4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct built built;
        roll(cases[i].first, 0);
        end();
        onnx_output(&builder, "y", FLOAT, 0, NULL);
        builder.graph.output[1]->type = NULL;
        load_built(&builder, &built);
        const uint32_t least = built.model->sequences[built.model->inputs[0].sequence].steps_min;
        ck_assert_int_eq(least < 1 ? 1 : least, cases[i].least);
        for (int64_t time = cases[i].least; time <= 9; time++) {
            expect_rolled(built.model, cases[i].first, time);
        }
        free_built(&builder, &built);
    }
}
END_TEST

START_TEST(test_what_is_not_rolled)
{
    roll(-2, 1);
    end();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "along an axis that is not the time of");
    roll(-1, 0);
    onnx_set_int(&builder, builder.graph.node[2], "fmod", 1);
    refuse(BASE_UNIMPLEMENTED, "only of integers, with fmod 0");
    roll((int64_t)1 << 40, 0);
    refuse(BASE_UNIMPLEMENTED, "Mod (node \"at\", opset 17): cannot compute a shape this way");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("joined");
    TCase *tests = tcase_create("joined");
    tcase_add_test(tests, test_steps_of_a_request_before_a_sequence);
    tcase_add_test(tests, test_a_sequence_twice_and_turned_round);
    tcase_add_test(tests, test_a_part_may_have_no_steps);
    tcase_add_test(tests, test_a_part_may_not_lack_steps);
    tcase_add_test(tests, test_lengths_of_what_is_joined);
    tcase_add_test(tests, test_reflections_ask_for_steps);
    tcase_add_test(tests, test_two_read_what_is_joined_once);
    tcase_add_test(tests, test_what_cannot_be_joined_is_refused);
    tcase_add_test(tests, test_ids_are_not_joined);
    tcase_add_test(tests, test_steps_rolled_to_the_other_end);
    tcase_add_test(tests, test_what_is_not_rolled);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
