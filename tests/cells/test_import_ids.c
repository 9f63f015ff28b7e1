/* Ids that a model cuts to a range before it looks them up: which of them a request may have, and
 * what is refused. What is computed: ids_cut in test_import_exports.c. */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { ROWS = 6, WIDTH = 3, HIDDEN = 2 };

static struct onnx_builder builder;

/* A constant of one integer; limits of Clip are such. */
static void integer(const char *name, int64_t number)
{
    onnx_constant(&builder, name, onnx_ints(&builder, 0, 1, &number));
}

/* ids [batch, steps], and a table; what comes between is the case's, "cut" is looked up. */
static void begin(void)
{
    static const int64_t steps[] = {-1, -1};
    static const int64_t dims[] = {ROWS, WIDTH};
    struct base_random random = util_random(3);
    onnx_init(&builder, 17);
    onnx_input(&builder, "ids", INT64, 2, steps);
    onnx_constant(&builder, "table", onnx_random(&builder, 2, dims, &random, 1.0f));
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    integer("zero", 0);
    integer("one", 1);
    integer("last", ROWS - 1);
    integer("beyond", ROWS);
    integer("far", INT64_MAX);
    integer("below", -1);
}

static void end(const char *rows)
{
    static const int64_t perm[] = {1, 0, 2};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", rows, "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "o"), "hidden_size", HIDDEN);
    onnx_output(&builder, "o", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

static void look_up(const char *clip)
{
    begin();
    onnx_node(&builder, "Clip", clip, "cut");
    onnx_node(&builder, "Gather", "table cut", "rows");
}

/* Of ids that are cut from below those beyond the table are refused; who cuts them above as well
 * takes any. */
START_TEST(test_bounds_of_ids)
{
    static const struct {
        const char *clip;
        int64_t bound;
    } cases[] = {{"ids zero", ROWS},        {"ids one", ROWS},    {"ids zero far", ROWS},
                 {"ids zero beyond", ROWS}, {"ids zero last", 0}, {"ids one last", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct built built;
        look_up(cases[i].clip);
        end("rows");
        load_built(&builder, &built);
        ck_assert_int_eq(built.model->inputs[0].id_bound, cases[i].bound);
        ck_assert(built.model->inputs[0].ids_below_zero == (cases[i].bound > 0));
        free_built(&builder, &built);
    }
}
END_TEST

/* Beside another lookup of the same ids, as they are, none may be below 0. */
START_TEST(test_ids_that_are_looked_up_as_they_are_too)
{
    struct built built;
    look_up("ids zero");
    onnx_node(&builder, "Gather", "table ids", "others");
    onnx_node(&builder, "Add", "rows others", "both");
    end("both");
    load_built(&builder, &built);
    ck_assert_int_eq(built.model->inputs[0].id_bound, ROWS);
    ck_assert(!built.model->inputs[0].ids_below_zero);
    free_built(&builder, &built);
}
END_TEST

/* Where(x < 0, x + n, x), as JAX writes any index. */
static void count_from_end(const char *x, const char *to)
{
    char inputs[64];
    (void)snprintf(inputs, sizeof(inputs), "%s zero", x);
    onnx_node(&builder, "Less", inputs, "is_below");
    (void)snprintf(inputs, sizeof(inputs), "%s beyond", x);
    onnx_node(&builder, "Add", inputs, "moved");
    (void)snprintf(inputs, sizeof(inputs), "is_below moved %s", x);
    onnx_node(&builder, "Where", inputs, to);
}

/* They are as they came, since none below 0 is let in. */
START_TEST(test_ids_that_may_count_from_the_end)
{
    struct built built;
    begin();
    count_from_end("ids", "own");
    onnx_node(&builder, "Gather", "table own", "rows");
    end("rows");
    load_built(&builder, &built);
    ck_assert_int_eq(built.model->inputs[0].id_bound, ROWS);
    ck_assert(!built.model->inputs[0].ids_below_zero);
    ck_assert_uint_eq(built.model->stages[0].type->def.n_ops, 2); // and the GRU
    free_built(&builder, &built);
    // Of what a layer has chosen none is below 0.
    begin();
    onnx_node(&builder, "Gather", "table ids", "first");
    Onnx__NodeProto *chosen = onnx_node(&builder, "ArgMax", "first", "label");
    onnx_set_int(&builder, chosen, "axis", -1);
    onnx_set_int(&builder, chosen, "keepdims", 0);
    count_from_end("label", "own");
    onnx_node(&builder, "Gather", "table own", "rows");
    end("rows");
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_what_counts_from_no_known_end)
{
    begin(); // numbers, of which some may be below 0
    count_from_end("ids", "own");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "own", "real"), "to", FLOAT);
    onnx_node(&builder, "Gather", "table zero", "row");
    onnx_constant(&builder, "below1", onnx_ints(&builder, 1, 1, (const int64_t[]){-1}));
    onnx_node(&builder, "Unsqueeze", "real below1", "wide");
    onnx_node(&builder, "Mul", "wide row", "rows");
    end("rows");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "input \"ids\" has integers that may count from an end, and no table says");
    begin(); // and let in below 0, which the other look-up cuts
    count_from_end("ids", "own");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "own", "real"), "to", FLOAT);
    onnx_constant(&builder, "below1", onnx_ints(&builder, 1, 1, (const int64_t[]){-1}));
    onnx_node(&builder, "Unsqueeze", "real below1", "wide");
    onnx_node(&builder, "Clip", "ids zero", "cut");
    onnx_node(&builder, "Gather", "table cut", "row");
    onnx_node(&builder, "Mul", "wide row", "rows");
    end("rows");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "no table says from which");
}
END_TEST

START_TEST(test_ranges_that_are_refused)
{
    static const struct {
        const char *clip, *why;
    } cases[] = {
        {"ids below", "to other limits than constants from 0 on"},
        {"ids - last", "to other limits than constants from 0 on"},
        {"ids last zero", "to other limits than constants from 0 on"},
        {"ids one one", "to other limits than constants from 0 on"},
        {"ids several", "to other limits than constants from 0 on"},
        {"ids beyond", "looks up ids that are cut to others than a table's"},
        {"ids far", "to other limits than constants from 0 on"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        onnx_constant(&builder, "several", onnx_ints(&builder, 1, 2, (const int64_t[]){0, 0}));
        onnx_node(&builder, "Clip", cases[i].clip, "cut");
        onnx_node(&builder, "Gather", "table cut", "rows");
        end("rows");
        expect_refused(&builder, BASE_UNIMPLEMENTED, cases[i].why);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_ids");
    TCase *tcase = tcase_create("ids");
    tcase_add_test(tcase, test_bounds_of_ids);
    tcase_add_test(tcase, test_ids_that_are_looked_up_as_they_are_too);
    tcase_add_test(tcase, test_ids_that_may_count_from_the_end);
    tcase_add_test(tcase, test_what_counts_from_no_known_end);
    tcase_add_test(tcase, test_ranges_that_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
