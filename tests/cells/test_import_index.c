/* Steps whose number an input says: what is refused of them. That they are taken as PyTorch does,
 * test_import_exports shows (mask_indexed, mask_gathered). */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { INPUT = 5, HIDDEN = 3 };

static struct onnx_builder builder;

static Onnx__NodeProto *node(const char *op, const char *inputs, const char *output)
{
    return onnx_node(&builder, op, inputs, output);
}

static void number(const char *name, uint32_t rank, int64_t value)
{
    onnx_constant(&builder, name, onnx_ints(&builder, rank, 1, &value));
}

static void answer(const char *name, int32_t dtype)
{
    onnx_output(&builder, name, dtype, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
}

/* y [batch, time, HIDDEN] of a GRU, n [batch]; one is 1, its last step less one `at`. */
static void begin(bool has_lengths)
{
    const int64_t dims[] = {-1, -1, INPUT};
    const int64_t time_first[] = {1, 0, 2};
    const int64_t any = -1;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", INPUT, HIDDEN, 1);
    number("axis1", 1, 1);
    number("axis2", 1, 2);
    number("zero", 0, 0);
    number("one", 0, 1);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    onnx_input(&builder, "n", INT64, 1, &any);
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

/* The step of y that `of` says, by GatherElements. */
static void take(const char *of, const char *to)
{
    const int64_t shape[] = {-1, 1, 1};
    const int64_t wide[] = {1, 1, HIDDEN};
    char text[160];
    snprintf(text, sizeof(text), "%s_shape", to);
    onnx_constant(&builder, text, onnx_ints(&builder, 1, 3, shape));
    snprintf(text, sizeof(text), "%s_wide", to);
    onnx_constant(&builder, text, onnx_ints(&builder, 1, 3, wide));
    char view[64];
    char spread[64];
    snprintf(view, sizeof(view), "%s_view", to);
    snprintf(spread, sizeof(spread), "%s_spread", to);
    snprintf(text, sizeof(text), "%s %s_shape", of, to);
    node("Reshape", text, view);
    snprintf(text, sizeof(text), "%s_view %s_wide", to, to);
    node("Expand", text, spread);
    snprintf(text, sizeof(text), "y %s", spread);
    onnx_set_int(&builder, node("GatherElements", text, to), "axis", 1);
    answer(to, FLOAT);
}

START_TEST(test_a_step_that_an_input_says)
{
    begin(false);
    take("n", "z");
    expect_accepted(&builder);
    begin(false);
    node("Add", "one n", "at");
    take("at", "z");
    expect_accepted(&builder);
    begin(false);
    node("Sub", "n one", "before");
    node("Max", "before zero", "at");
    take("at", "z");
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_other_arithmetic_is_refused)
{
    static const char *const nodes[][2] = {
        {"Sub", "one n"}, {"Mul", "n one"}, {"Div", "one n"}, {"Add", "n n"}, {"Max", "n one"},
    };
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        begin(false);
        node(nodes[i][0], nodes[i][1], "at");
        take("at", "z");
        expect_refused(&builder, BASE_UNIMPLEMENTED, nodes[i][0]);
    }
    begin(false); // cut off, then moved
    node("Max", "n zero", "cut");
    node("Sub", "cut one", "at");
    take("at", "z");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "Sub (node \"at\"");
    begin(false);
    number("large", 0, (int64_t)1 << 40);
    node("Sub", "n large", "at");
    take("at", "z");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "Sub (node \"at\"");
}
END_TEST

/* steps, rows: of x, last: the number of its last step; two, nine, below: numbers. */
static void begin_cuts(void)
{
    begin(false);
    number("two", 0, 2);
    number("nine", 0, 9);
    number("below", 0, -1);
    node("Shape", "x", "sizes");
    node("Gather", "sizes one", "steps");
    node("Gather", "sizes zero", "rows");
    node("Sub", "steps one", "last");
}

/* Of a number that is cut, before something is taken from it or behind. */
START_TEST(test_steps_that_are_cut)
{
    static const struct {
        const char *nodes[3][2];
        int32_t add;
        bool is_clipped, is_cut;
        uint32_t steps_max;
    } cases[] = {
        {{{"Clip", "n one"}, {"Sub", "a one"}}, -1, true, false, 0},
        {{{"Max", "one n"}, {"Sub", "a one"}}, -1, true, false, 0},
        {{{"Add", "n one"}, {"Clip", "a two nine"}, {"Sub", "m two"}}, -1, true, false, 8},
        {{{"Clip", "n one"}, {"Max", "a two"}, {"Sub", "m two"}}, -2, true, false, 0},
        {{{"Clip", "n two"}, {"Max", "a one"}, {"Sub", "m two"}}, -2, true, false, 0},
        {{{"Clip", "n  nine"}, {"Min", "a nine"}, {"Sub", "m two"}}, -2, false, false, 8},
        {{{"Sub", "n one"}, {"Clip", "a zero last"}}, -1, true, true, 0},
        {{{"Clip", "n one steps"}, {"Sub", "a one"}}, -1, true, true, 0},
        {{{"Min", "steps n"}, {"Max", "a one"}, {"Sub", "m one"}}, -1, true, true, 0},
        {{{"Expand", "last sizes0"}, {"Min", "n a"}}, 0, false, true, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static const char *const names[] = {"a", "m", "c"};
        struct built built;
        uint32_t n = 0;
        begin_cuts();
        node("Shape", "n", "sizes0");
        for (; n < 3 && cases[i].nodes[n][0] != NULL; n++) {
            node(cases[i].nodes[n][0], cases[i].nodes[n][1], names[n]);
        }
        take(names[n - 1], "z");
        load_built(&builder, &built);
        const struct cell_tensor *said = &built.model->inputs[1];
        ck_assert(said->is_step);
        ck_assert_int_eq(said->told.add, cases[i].add);
        ck_assert_int_eq(said->step_is_clipped, cases[i].is_clipped);
        ck_assert_int_eq(said->step_is_ended, cases[i].is_cut);
        ck_assert_uint_eq(built.model->sequences[said->sequence].steps_max, cases[i].steps_max);
        free_built(&builder, &built);
    }
}
END_TEST

START_TEST(test_other_cuts_are_refused)
{
    static const char *const low = "keeps above 0";
    static const char *const high = "a Min or a Clip keeps below another";
    static const struct {
        const char *nodes[2][2];
        const char *why;
    } cases[] = {
        {{{"Clip", "n one"}}, low},
        {{{"Clip", "n two"}, {"Sub", "a one"}}, low},
        {{{"Clip", "n zero"}, {"Add", "a one"}}, low},
        {{{"Clip", "n one"}, {"Sub", "a two"}}, "Sub (node \"m\""},
        {{{"Clip", "n below"}}, "Clip (node \"a\""},
        {{{"Clip", "n zero steps"}}, high},
        {{{"Min", "n last"}, {"Sub", "a one"}}, high},
        {{{"Min", "n last"}, {"Add", "a one"}}, high},
        {{{"Min", "n zero"}, {"Sub", "a one"}}, high},
        {{{"Sub", "rows one"}, {"Min", "n a"}}, high},
        {{{"Min", "n last"}, {"Min", "a last"}}, "Min (node \"m\""},
        {{{"Sub", "n one"}, {"Min", "a n"}}, "Min (node \"m\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool has_two = cases[i].nodes[1][0] != NULL;
        begin_cuts();
        node(cases[i].nodes[0][0], cases[i].nodes[0][1], "a");
        if (has_two) {
            node(cases[i].nodes[1][0], cases[i].nodes[1][1], "m");
        }
        take(has_two ? "m" : "a", "z");
        expect_refused(&builder, BASE_UNIMPLEMENTED, cases[i].why);
    }
}
END_TEST

/* Of integers that tell a step others may be computed: as floats, or answered where they are
 * divided. One that is a sum alone is answered by nobody. */
START_TEST(test_an_index_is_computed)
{
    begin(false);
    node("Sub", "n one", "at");
    take("at", "z");
    answer("at", INT64);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "integers of the request");
    begin(false);
    node("Sub", "n one", "at");
    onnx_set_int(&builder, node("Cast", "at", "real"), "to", FLOAT);
    take("at", "z");
    answer("real", FLOAT); // a float is another matter
    expect_accepted(&builder);
    begin(false);
    number("large", 0, (1 << 20) + 1); // which may be none of a step's
    node("Sub", "n large", "at");
    onnx_set_int(&builder, node("Cast", "at", "real"), "to", FLOAT);
    answer("real", FLOAT);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "computes with integers");
    begin(false);
    number("two", 0, 2);
    node("Div", "n two", "half");
    answer("half", INT64);
    take("half", "z");
    expect_accepted(&builder);
}
END_TEST

/* What is answered alone is exact of integers below 2^24, and of others refused. */
START_TEST(test_answered_quotients_are_bounded)
{
    struct built built;
    begin(false);
    number("two", 0, 2);
    node("Div", "n two", "half");
    answer("half", INT64);
    onnx_set_int(&builder, node("Cast", "half", "real"), "to", FLOAT);
    node("Unsqueeze", "real axis1", "column");
    onnx_set_int(&builder, node("ReduceSum", "y axis1", "sums"), "keepdims", 0);
    node("Mul", "sums column", "z");
    answer("z", FLOAT);
    load_built(&builder, &built);
    ck_assert_int_eq(built.model->inputs[1].id_bound, 1 << 24);
    free_built(&builder, &built);
}
END_TEST

/* An operator of n and a number. */
struct division {
    const char *op;
    int64_t by;
};

/* The step that n tells behind a chain of them; a float chain is floored at its end. */
static void divide(const struct division *chain, size_t n, bool is_float)
{
    char from[24] = "n";
    begin(false);
    if (is_float) {
        onnx_set_int(&builder, node("Cast", "n", "real"), "to", FLOAT);
        snprintf(from, sizeof(from), "real");
    }
    for (size_t i = 0; i < n; i++) {
        char by[24];
        char to[24];
        char inputs[56];
        const float real = (float)chain[i].by;
        snprintf(by, sizeof(by), "by%zu", i);
        snprintf(to, sizeof(to), "to%zu", i);
        snprintf(inputs, sizeof(inputs), "%s %s", from, by);
        if (is_float) {
            onnx_constant(&builder, by, onnx_tensor(&builder, FLOAT, 0, NULL, &real, sizeof(real)));
        } else {
            number(by, 0, chain[i].by);
        }
        node(chain[i].op, strcmp(chain[i].op, "Floor") == 0 ? from : inputs, to);
        snprintf(from, sizeof(from), "%s", to);
    }
    if (is_float) {
        node("Floor", from, "floored");
        onnx_set_int(&builder, node("Cast", "floored", "last"), "to", INT64);
    } else {
        node("Identity", from, "last");
    }
    take("last", "z");
}

/* What a chain computes of n; integers are rounded to 0. */
static int64_t compute(const struct division *chain, size_t n, bool is_float, int64_t of)
{
    double real = (double)of;
    for (size_t k = 0; k < n; k++) {
        const double by = (double)chain[k].by;
        real = strcmp(chain[k].op, "Add") == 0     ? real + by
               : strcmp(chain[k].op, "Sub") == 0   ? real - by
               : strcmp(chain[k].op, "Floor") == 0 ? floor(real)
                                                   : real / by;
        real = is_float ? real : trunc(real);
    }
    return (int64_t)floor(real);
}

/* What chains tell, against what they compute: for all n from the least on. */
START_TEST(test_steps_that_are_divided)
{
    static const struct {
        struct division chain[6];
        size_t n;
        bool is_float;
        int32_t add;
        uint32_t over;
        int32_t least;
    } cases[] = {
        {{{"Div", 2}}, 1, false, 0, 2, 0},
        {{{"Sub", 1}, {"Div", 2}, {"Add", 1}}, 3, false, 1, 2, 1},
        {{{"Sub", 1}, {"Div", 2}, {"Add", 1}, {"Sub", 1}, {"Div", 2}}, 5, false, -1, 4, 1},
        {{{"Add", 1}, {"Div", 3}, {"Sub", 2}, {"Div", 2}}, 4, false, -5, 6, 5},
        {{{"Sub", 3}, {"Div", 2}, {"Add", 1}}, 3, true, -1, 2, 0},
        {{{"Div", 4}, {"Floor", 0}, {"Div", 2}, {"Sub", 1}}, 4, true, -8, 8, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct built built;
        divide(cases[i].chain, cases[i].n, cases[i].is_float);
        load_built(&builder, &built);
        const struct cell_tensor *said = &built.model->inputs[1];
        ck_assert(said->is_step);
        ck_assert_int_eq(said->told.add, cases[i].add);
        ck_assert_uint_eq(said->told.over, cases[i].over);
        ck_assert_int_eq(said->told.least, cases[i].least);
        for (int64_t n = cases[i].least; n < 100; n++) {
            ck_assert_int_eq(cell_told(said->told, n),
                             compute(cases[i].chain, cases[i].n, cases[i].is_float, n));
        }
        for (int64_t step = 0; step < 20; step++) {
            const int64_t n = cell_telling(said->told, step);
            ck_assert_int_ge(cell_told(said->told, n), step);
            ck_assert(n == cases[i].least || cell_told(said->told, n - 1) < step);
        }
        free_built(&builder, &built);
    }
}
END_TEST

/* Not rounded, by what is no whole number above 0, too much, or by a part that is no power of two.
 */
START_TEST(test_divisions_that_tell_nothing)
{
    static const struct {
        struct division chain[3];
        size_t n;
    } cases[] = {{{{"Div", 0}}, 1},
                 {{{"Div", -2}}, 1},
                 {{{"Div", 40000}, {"Div", 40000}}, 2},
                 {{{"Add", 1 << 24}, {"Div", 2}, {"Add", 1 << 24}}, 3},
                 {{{"Div", 2}, {"Mul", 3}}, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int is_float = 0; is_float < 2; is_float++) {
            divide(cases[i].chain, cases[i].n, is_float != 0);
            expect_refused(&builder, BASE_UNIMPLEMENTED, "");
        }
    }
}
END_TEST

/* What stands before a sequence of so many steps: compared with steps' numbers, or a float. */
START_TEST(test_numbers_of_steps_less_what_a_request_holds)
{
    static const struct {
        const char *compared;
        bool is_accepted;
    } cases[] = {
        {"left two", true}, {"below left", false}, {"left n", false}, {"left huge", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_cuts();
        take("n", "of_batch");
        number("huge", 0, (1 << 23) + 1);
        node("Sub", "steps n", "left");
        node("Less", cases[i].compared, "is");
        onnx_set_int(&builder, node("Cast", "is", "real"), "to", FLOAT);
        answer("real", FLOAT);
        if (cases[i].is_accepted) {
            expect_accepted(&builder);
        } else {
            expect_refused(&builder, BASE_UNIMPLEMENTED, "neither is the number of a step");
        }
    }
    begin_cuts();
    take("n", "of_batch");
    node("Sub", "steps n", "left");
    node("Add", "left two", "more");
    onnx_set_int(&builder, node("Cast", "more", "real"), "to", FLOAT);
    answer("real", FLOAT);
    expect_accepted(&builder);
    begin_cuts();
    take("n", "of_batch"); // integers that may be too large for a float
    node("Add", "n steps", "more");
    answer("more", INT64);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "computed of integers that the request holds");
    begin_cuts();
    take("n", "of_batch"); // a step that nobody knows
    node("Sub", "steps n", "left");
    take("left", "z");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "GatherElements (node");
}
END_TEST

START_TEST(test_one_input_says_one_step)
{
    begin(false);
    node("Sub", "n one", "at");
    take("at", "z");
    take("n", "other");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "input \"n\" tells steps in more than one way");
    begin(true);
    take("n", "z");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "takes steps by their number beside sequence_lens");
}
END_TEST

/* [batch, 2] of pairs: numbers of this axis of y, then n. */
static void pairs(int64_t axis)
{
    begin(false);
    number("which", 0, axis);
    node("Shape", "y", "shape");
    node("Gather", "shape which", "limit");
    node("Range", "zero limit one", "numbers");
    node("Unsqueeze", "numbers axis1", "first");
    node("Unsqueeze", "n axis1", "second");
    onnx_set_int(&builder, node("Concat", "first second", "both"), "axis", 1);
    node("GatherND", "y both", "z");
    answer("z", FLOAT);
}

START_TEST(test_pairs_are_of_rows_and_their_steps)
{
    pairs(0);
    expect_accepted(&builder);
    pairs(1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "(node \"");
}
END_TEST

/* As jax2onnx writes take_along_axis(): n less one, which counts from the end where it is below 0,
 * as [batch, 1, 1]; `at` is it. */
static void begin_from_end(void)
{
    const int64_t shape[] = {-1, 1, 1};
    begin_cuts();
    onnx_constant(&builder, "column", onnx_ints(&builder, 1, 3, shape));
    node("Sub", "n one", "before");
    node("Reshape", "before column", "each");
    node("Less", "each zero", "is_below");
    node("Add", "each steps", "from_end");
    node("Where", "is_below from_end each", "at");
}

static void take_of_each(const char *inputs, int64_t batch_dims)
{
    onnx_set_int(&builder, node("GatherND", inputs, "z"), "batch_dims", batch_dims);
    answer("z", FLOAT);
}

START_TEST(test_a_step_of_each_row)
{
    struct built built;
    begin_from_end();
    take_of_each("y at", 1);
    load_built(&builder, &built);
    ck_assert(built.model->inputs[1].is_step);
    ck_assert_int_eq(built.model->inputs[1].told.add, -1);
    ck_assert(!built.model->inputs[1].step_is_clipped);
    ck_assert_uint_eq(built.model->outputs[0].rank, 3);
    ck_assert_int_eq(built.model->outputs[0].dims[1], 1);
    ck_assert_int_eq(built.model->outputs[0].dims[2], HIDDEN);
    free_built(&builder, &built);
}
END_TEST

/* What is cut or moved behind its end would be another step; and places of more than one axis. */
START_TEST(test_other_steps_of_each_are_refused)
{
    static const char *const moved[][2] = {
        {"Max", "at zero"}, {"Clip", "at zero"}, {"Min", "at nine"},
        {"Sub", "at one"},  {"Add", "at one"},
    };
    for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
        begin_from_end();
        node(moved[i][0], moved[i][1], "late");
        take_of_each("y late", 1);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "(node \"late\"");
    }
    begin_from_end();
    take_of_each("y at", 2);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "by anything but pairs");
    begin_from_end();
    onnx_set_int(&builder, node("Concat", "at at", "doubled"), "axis", 2);
    take_of_each("y doubled", 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "by anything but a step of each row");
    begin_from_end();
    onnx_set_int(&builder, node("Concat", "at at", "doubled"), "axis", 1);
    take_of_each("y doubled", 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "by anything but a step of each row");
    begin_from_end();
    node("Squeeze", "at axis1", "flat_at");
    node("Squeeze", "flat_at axis1", "bare");
    take_of_each("y bare", 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "by anything but a step of each row");
}
END_TEST

START_TEST(test_more_than_one_step_is_refused)
{
    const int64_t dims[] = {-1, 2, HIDDEN};
    const int64_t narrow[] = {-1, 1, 1};
    begin(false);
    onnx_input(&builder, "two", INT64, 3, dims);
    onnx_set_int(&builder, node("GatherElements", "y two", "z"), "axis", 1);
    answer("z", FLOAT);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "takes 2 elements along axis 1");
    begin(false);
    onnx_input(&builder, "first", INT64, 3, narrow);
    onnx_set_int(&builder, node("GatherElements", "y first", "z"), "axis", 1);
    answer("z", FLOAT);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "takes 1 elements along axis 2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_index");
    TCase *tests = tcase_create("index");
    tcase_add_test(tests, test_a_step_that_an_input_says);
    tcase_add_test(tests, test_other_arithmetic_is_refused);
    tcase_add_test(tests, test_steps_that_are_cut);
    tcase_add_test(tests, test_other_cuts_are_refused);
    tcase_add_test(tests, test_an_index_is_computed);
    tcase_add_test(tests, test_answered_quotients_are_bounded);
    tcase_add_test(tests, test_steps_that_are_divided);
    tcase_add_test(tests, test_divisions_that_tell_nothing);
    tcase_add_test(tests, test_a_step_of_each_row);
    tcase_add_test(tests, test_other_steps_of_each_are_refused);
    tcase_add_test(tests, test_numbers_of_steps_less_what_a_request_holds);
    tcase_add_test(tests, test_one_input_says_one_step);
    tcase_add_test(tests, test_pairs_are_of_rows_and_their_steps);
    tcase_add_test(tests, test_more_than_one_step_is_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
