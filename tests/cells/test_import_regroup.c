/* Steps that a Reshape groups anew (cells/import/regroup.c): whatever becomes of them, its elements
 * stay in their order, so that what comes out is what has come in. What is made of them is
 * test_import_exports.c's. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { BATCH = 2, HIDDEN = 2, RANK_MAX = 6 };

/* GROWN: steps of several parts each. STACKED: frames of some steps. SPLIT: stated steps in three,
 * of which the middle one is time. ALL: stated steps as features. MADE: features as steps. */
enum form { GROWN, STACKED, SPLIT, ALL, MADE, FORMS };

static struct onnx_builder builder;
static struct base_random numbers;

/* A tensor's sizes, the rows of the batch first; `open` ones are the request's. */
struct sizes {
    uint32_t n;
    int64_t at[RANK_MAX];
    uint32_t time; /* the axis that a layer goes along, 0: none */
};

static int64_t draw(int64_t low, int64_t high)
{
    return low + (int64_t)base_random_below(&numbers, (uint32_t)(high - low + 1));
}

static int64_t product_of(const struct sizes *sizes)
{
    int64_t product = 1;
    for (uint32_t k = 0; k < sizes->n; k++) {
        product *= sizes->at[k];
    }
    return product;
}

/* A layer along the value's axis of time, whose outputs nobody compares. */
static void add_layer(const char *of, const struct sizes *sizes)
{
    const int64_t all[] = {0, 0, -1};
    int64_t perm[RANK_MAX] = {sizes->time, 0};
    uint32_t n = 2;
    char names[6][16];
    char operands[64];
    static const char *const suffixes[] = {"turned", "all", "rows", "w", "r", "out"};
    for (uint32_t k = 1; k < sizes->n; k++) {
        if (k != sizes->time) {
            perm[n++] = k;
        }
    }
    for (uint32_t i = 0; i < 6; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%s_%s", of, suffixes[i]);
    }
    const int64_t width = product_of(sizes) / sizes->at[0] / sizes->at[sizes->time];
    const int64_t w[] = {1, 3 * HIDDEN, width};
    const int64_t r[] = {1, 3 * HIDDEN, HIDDEN};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", of, names[0]), "perm", sizes->n, perm);
    onnx_constant(&builder, names[1], onnx_ints(&builder, 1, 3, all));
    (void)snprintf(operands, sizeof(operands), "%s %s", names[0], names[1]);
    (void)onnx_node(&builder, "Reshape", operands, names[2]);
    onnx_constant(&builder, names[3], onnx_random(&builder, 3, w, &numbers, 0.5f));
    onnx_constant(&builder, names[4], onnx_random(&builder, 3, r, &numbers, 0.5f));
    (void)snprintf(operands, sizeof(operands), "%s %s %s", names[2], names[3], names[4]);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", operands, names[5]), "hidden_size", HIDDEN);
    onnx_output(&builder, names[5], FLOAT, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
}

/* What goes in and what comes out, and what of the former the request chooses; of the shape `open`
 * is what the file leaves open, or 0. */
struct reshape {
    struct sizes in, out;
    uint32_t chosen, open;
};

static void push(struct sizes *sizes, int64_t size)
{
    sizes->at[sizes->n++] = size;
}

static struct reshape draw_reshape(enum form form)
{
    struct reshape reshape = {.chosen = 0};
    struct sizes *in = &reshape.in;
    struct sizes *out = &reshape.out;
    const int64_t before = draw(1, 3);
    const int64_t behind = draw(1, 3);
    const int64_t by = draw(2, 4);
    const int64_t steps = draw(2, 5);
    const int64_t outer = form == STACKED || form == GROWN ? 1 : draw(1, 3);
    push(in, BATCH);
    push(out, BATCH);
    push(in, before);
    push(out, before);
    if (form == GROWN) {
        in->time = reshape.chosen = in->n;
        push(in, steps);
        push(in, by);
        out->time = reshape.open = out->n;
        push(out, steps * by);
    } else {
        in->time = form == MADE ? 0 : in->n;
        reshape.chosen = form == STACKED ? in->n : 0;
        push(in, outer * steps * by);
        if (outer > 1) {
            push(out, outer);
        }
        out->time = form == ALL ? 0 : out->n;
        reshape.open = form == STACKED ? out->n : 0;
        push(out, steps);
        push(out, by);
    }
    push(in, behind);
    push(out, behind);
    return reshape;
}

static void build(const struct reshape *reshape)
{
    int64_t dims[RANK_MAX];
    int64_t target[RANK_MAX];
    memcpy(dims, reshape->in.at, sizeof(dims));
    memcpy(target, reshape->out.at, sizeof(target));
    dims[0] = -1;
    dims[reshape->chosen] = -1; // or the batch's once more
    target[0] = 0;
    if (reshape->open > 0) {
        target[reshape->open] = -1;
    }
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, reshape->in.n, dims);
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, reshape->out.n, target));
    (void)onnx_node(&builder, "Reshape", "x shape", "p");
    (void)onnx_node(&builder, "Neg", "p", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    if (reshape->in.time > 0) {
        add_layer("x", &reshape->in);
    }
    if (reshape->out.time > 0) {
        add_layer("y", &reshape->out);
    }
}

START_TEST(test_elements_stay_in_their_order)
{
    numbers = util_random((uint64_t)_i);
    const struct reshape reshape = draw_reshape((enum form)(_i % FORMS));
    struct replay_tensor x = replay_tensor_random(reshape.in.n, reshape.in.at, &numbers);
    struct replay_tensor outputs[3] = {{.rank = 0}};
    const struct replay_tensor *y = &outputs[0];
    struct built built;
    build(&reshape);
    load_built(&builder, &built);
    replay_run(built.model, &x, outputs);
    ck_assert_uint_eq(y->rank, reshape.out.n);
    ck_assert_uint_eq(y->count, x.count);
    for (uint32_t k = 0; k < y->rank; k++) {
        ck_assert_int_eq(y->dims[k], reshape.out.at[k]);
    }
    for (size_t i = 0; i < x.count; i++) {
        util_assert_close(y->data[i], -x.data[i], 0.0, 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        base_free(outputs[i].data);
    }
    base_free(x.data);
    free_built(&builder, &built);
}
END_TEST

/* The number of steps is one that the frames divide, and each request is held to that. */
START_TEST(test_frames_divide_the_steps)
{
    struct built built;
    numbers = util_random(1);
    const struct reshape reshape = {.in = {.n = 3, .at = {BATCH, 6, 4}, .time = 1},
                                    .out = {.n = 4, .at = {BATCH, 2, 3, 4}, .time = 1},
                                    .chosen = 1,
                                    .open = 1};
    build(&reshape);
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_sequences, 2);
    ck_assert_uint_eq(built.model->sequences[0].multiple, 3);
    free_built(&builder, &built);
}
END_TEST

/* Of steps whose number a request chooses each second one: the inner of both would be time. */
START_TEST(test_what_cannot_be_followed_is_refused)
{
    const struct reshape reshape = {.in = {.n = 3, .at = {BATCH, 6, 4}, .time = 1},
                                    .out = {.n = 4, .at = {BATCH, 2, 3, 4}, .time = 2},
                                    .chosen = 1,
                                    .open = 2};
    numbers = util_random(1);
    build(&reshape);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "the one of 2 elements");
}
END_TEST

START_TEST(test_rows_of_the_batch_are_not_grouped)
{
    const int64_t dims[] = {-1, 6, 4};
    const int64_t target[] = {-1, 2, 6, 4};
    const struct sizes in = {.n = 3, .at = {BATCH, 6, 4}, .time = 1};
    const struct sizes out = {.n = 4, .at = {1, 2, 6, 4}, .time = 2};
    numbers = util_random(1);
    for (uint32_t i = 0; i < 2; i++) {
        onnx_init(&builder, 17);
        onnx_input(&builder, "x", FLOAT, 3, dims);
        onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 4, target));
        (void)onnx_node(&builder, "Reshape", "x shape", "p");
        onnx_output(&builder, "p", FLOAT, 0, NULL);
        builder.graph.output[0]->type = NULL;
        add_layer(i == 0 ? "x" : "p", i == 0 ? &in : &out);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "");
    }
}
END_TEST

/* The last step first. */
START_TEST(test_turned_steps_are_grouped_as_they_stand)
{
    static const int64_t bounds[] = {-1, INT64_MIN, 1, -1};
    static const char *const names[] = {"from", "to", "axis", "step"};
    const int64_t dims[] = {-1, 6, 4};
    const int64_t given[] = {BATCH, 6, 4};
    const int64_t target[] = {0, 2, 3, 4};
    const struct sizes in = {.n = 3, .at = {BATCH, 6, 4}, .time = 1};
    const struct sizes out = {.n = 4, .at = {BATCH, 2, 3, 4}, .time = 1};
    struct replay_tensor outputs[3] = {{.rank = 0}};
    struct built built;
    numbers = util_random(1);
    struct replay_tensor x = replay_tensor_random(3, given, &numbers);
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    for (uint32_t i = 0; i < 4; i++) {
        onnx_constant(&builder, names[i], onnx_ints(&builder, 1, 1, &bounds[i]));
    }
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 4, target));
    (void)onnx_node(&builder, "Slice", "x from to axis step", "back");
    (void)onnx_node(&builder, "Reshape", "back shape", "p");
    onnx_output(&builder, "p", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    add_layer("x", &in);
    add_layer("p", &out);
    load_built(&builder, &built);
    replay_run(built.model, &x, outputs);
    ck_assert_uint_eq(outputs[0].count, x.count);
    for (size_t i = 0; i < x.count; i++) {
        const size_t step = i / 4 % 6;
        util_assert_close(outputs[0].data[i], x.data[i + 4 * (5 - step) - 4 * step], 0.0, 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        base_free(outputs[i].data);
    }
    base_free(x.data);
    free_built(&builder, &built);
}
END_TEST

/* ---- Constants that are repeated --------------------------------------------------------------
 */

enum { LONG = 3, WIDE = 2 };

static const float table[LONG * WIDE] = {1.0f, 2.0f, 4.0f, 8.0f, 16.0f, 32.0f};

static void integers(const char *name, uint32_t n, const int64_t *values)
{
    onnx_constant(&builder, name, onnx_ints(&builder, 1, n, values));
}

/* x [batch, high, wide]; "tiled": the table, so often along its first axis and the second; a shape
 * says how many rows the batch has. */
static void begin_tile(int64_t high, int64_t wide, const char *first, const char *second)
{
    const int64_t none = 0;
    const int64_t one = 1;
    const int64_t two = 2;
    char operands[48];
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, (const int64_t[]){-1, high, wide});
    onnx_constant(
        &builder, "table",
        onnx_tensor(&builder, FLOAT, 2, (const int64_t[]){LONG, WIDE}, table, sizeof(table)));
    integers("zero", 1, &none);
    integers("one", 1, &one);
    integers("two", 1, &two);
    (void)onnx_node(&builder, "Shape", "x", "sizes");
    (void)onnx_node(&builder, "Gather", "sizes zero", "batch");
    (void)onnx_node(&builder, "Mul", "batch two", "twice");
    (void)snprintf(operands, sizeof(operands), "%s %s", first, second);
    onnx_set_int(&builder, onnx_node(&builder, "Concat", operands, "repeats"), "axis", 0);
    (void)onnx_node(&builder, "Tile", "table repeats", "tiled");
}

/* y: x and that, element by element, under the shape of x. */
static void end_tile(int64_t high, int64_t wide)
{
    integers("shape", 3, (const int64_t[]){-1, high, wide});
    (void)onnx_node(&builder, "Reshape", "tiled shape", "rows");
    (void)onnx_node(&builder, "Add", "x rows", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
}

START_TEST(test_constants_are_repeated)
{
    static const struct {
        const char *first, *second;
        int64_t high, wide;
    } cases[] = {{"two", "two", 2 * LONG, 2 * WIDE},
                 {"two", "one", 2 * LONG, WIDE},
                 {"batch", "one", LONG, WIDE}};
    numbers = util_random(1);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const int64_t high = cases[c].high;
        const int64_t wide = cases[c].wide;
        const int64_t given[] = {BATCH, high, wide};
        struct replay_tensor x = replay_tensor_random(3, given, &numbers);
        struct replay_tensor y = {.rank = 0};
        struct built built;
        begin_tile(high, wide, cases[c].first, cases[c].second);
        end_tile(high, wide);
        load_built(&builder, &built);
        replay_run(built.model, &x, &y);
        ck_assert_uint_eq(y.count, x.count);
        for (size_t i = 0; i < x.count; i++) {
            const size_t row = i / (size_t)wide % LONG;
            util_assert_close(y.data[i], x.data[i] + (double)table[row * WIDE + i % WIDE], 1e-6, 0);
        }
        base_free(x.data);
        base_free(y.data);
        free_built(&builder, &built);
    }
}
END_TEST

START_TEST(test_other_repeats_of_constants_are_refused)
{
    begin_tile(LONG, 2 * WIDE, "batch", "two");
    end_tile(LONG, 2 * WIDE);
    expect_refused(
        &builder, BASE_UNIMPLEMENTED,
        "Tile (node \"tiled\", opset 17): of a constant, a number of times and as often");
    begin_tile(2 * LONG, WIDE, "twice", "one");
    end_tile(2 * LONG, WIDE);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "Tile (node \"tiled\", opset 17): a dimension computed from the batch");
    begin_tile(LONG, WIDE, "one", "batch"); // [batch, WIDE] of each row of the table, not the table
    integers("shape", 3, (const int64_t[]){-1, LONG, WIDE});
    (void)onnx_node(&builder, "Reshape", "tiled shape", "rows");
    (void)onnx_node(&builder, "Add", "x rows", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    ck_assert_int_ne(parse_built(&builder, &(struct base_error){.message = ""}), BASE_OK);
}
END_TEST

/* As many of each step as the file says, and steps: one number, however it is written. */
START_TEST(test_parts_of_steps_expand_to_themselves)
{
    enum { PARTS = 3, LEFT = 2 };
    for (int64_t times = PARTS - 1; times <= PARTS + 1; times++) {
        onnx_init(&builder, 17);
        onnx_input(&builder, "x", FLOAT, 3, (const int64_t[]){-1, -1, PARTS * LEFT});
        integers("zero", 1, (const int64_t[]){0});
        integers("one", 1, (const int64_t[]){1});
        integers("times", 1, &times);
        integers("left", 1, (const int64_t[]){LEFT});
        integers("parts", 3, (const int64_t[]){0, -1, LEFT});
        (void)onnx_node(&builder, "Shape", "x", "sizes");
        (void)onnx_node(&builder, "Gather", "sizes zero", "batch");
        (void)onnx_node(&builder, "Gather", "sizes one", "steps");
        (void)onnx_node(&builder, "Mul", "times steps", "rows");
        onnx_set_int(&builder, onnx_node(&builder, "Concat", "batch rows left", "shape"), "axis",
                     0);
        (void)onnx_node(&builder, "Reshape", "x parts", "parted");
        onnx_set_ints(&builder, onnx_node(&builder, "ReduceMax", "parted", "largest"), "axes", 1,
                      (const int64_t[]){2});
        (void)onnx_node(&builder, "Expand", "largest shape", "each");
        (void)onnx_node(&builder, "Sub", "parted each", "y");
        onnx_output(&builder, "y", FLOAT, 0, NULL);
        builder.graph.output[0]->type = NULL;
        if (times == PARTS) {
            expect_accepted(&builder);
        } else {
            expect_refused(&builder, BASE_UNIMPLEMENTED,
                           "Expand (node \"each\", opset 17): an axis of -1 elements to another");
        }
    }
}
END_TEST

/* ---- Steps that are put together again --------------------------------------------------------
 */

/* Along this axis of x: each by-th element from element i on, for n such i, which become the inner
 * part of the axis; and that less x. How: 0: the shape says -1; 1: it is that of x. */
struct zip {
    uint32_t axis, n;
    int64_t by;
    const int64_t *firsts;
    uint32_t how;
};

static void build_zip(const struct zip *zip)
{
    static const int64_t dims[] = {-1, -1, 4};
    int64_t target[] = {0, 0, 4};
    char parts[64] = "";
    size_t used = 0;
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, dims);
    integers("end", 1, (const int64_t[]){INT64_MAX});
    integers("axis", 1, (const int64_t[]){zip->axis});
    integers("by", 1, &zip->by);
    integers("inner", 1, (const int64_t[]){zip->axis + 1});
    for (uint32_t i = 0; i < zip->n; i++) {
        char operands[48];
        char names[3][16];
        (void)snprintf(names[0], sizeof(names[0]), "first%u", i);
        (void)snprintf(names[1], sizeof(names[1]), "cut%u", i);
        (void)snprintf(names[2], sizeof(names[2]), "part%u", i);
        integers(names[0], 1, &zip->firsts[i]);
        (void)snprintf(operands, sizeof(operands), "x %s end axis by", names[0]);
        (void)onnx_node(&builder, "Slice", operands, names[1]);
        (void)snprintf(operands, sizeof(operands), "%s inner", names[1]);
        (void)onnx_node(&builder, "Unsqueeze", operands, names[2]);
        used += (size_t)snprintf(&parts[used], sizeof(parts) - used, " %s", names[2]);
    }
    onnx_set_int(&builder, onnx_node(&builder, "Concat", &parts[1], "stack"), "axis",
                 zip->axis + 1);
    target[zip->axis] = -1;
    integers("open", 3, target);
    (void)onnx_node(&builder, "Shape", "x", "sizes");
    (void)onnx_node(&builder, "Reshape", zip->how == 0 ? "stack open" : "stack sizes", "z");
    (void)onnx_node(&builder, "Sub", "z x", "y");
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    add_layer("y", &(struct sizes){.n = 3, .at = {BATCH, 6, 4}, .time = 1});
}

static const int64_t in_order[] = {0, 1, 2};
static const int64_t back[] = {2, 1, 0};

START_TEST(test_steps_are_put_together)
{
    enum { STEPS = 12, WIDTH = 4 };
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t by = 2 + i % 2;
        const int64_t *firsts = i / 4 == 0 ? in_order : &back[3 - by];
        const struct zip zip = {.axis = 1, .n = by, .by = by, .firsts = firsts, .how = i / 2 % 2};
        const int64_t given[] = {BATCH, STEPS, WIDTH};
        struct replay_tensor outputs[2] = {{.rank = 0}};
        struct built built;
        numbers = util_random(1);
        struct replay_tensor x = replay_tensor_random(3, given, &numbers);
        build_zip(&zip);
        load_built(&builder, &built);
        ck_assert_uint_eq(built.model->sequences[0].multiple, by);
        replay_run(built.model, &x, outputs);
        ck_assert_uint_eq(outputs[0].count, x.count);
        for (size_t k = 0; k < x.count; k++) {
            const size_t step = k / WIDTH;
            const size_t from = step / by * by + (size_t)firsts[step % by];
            util_assert_close(outputs[0].data[k], x.data[from * WIDTH + k % WIDTH] - x.data[k], 0.0,
                              0);
        }
        base_free(outputs[0].data);
        base_free(outputs[1].data);
        base_free(x.data);
        free_built(&builder, &built);
    }
}
END_TEST

/* More of them than a stride has left, fewer, or rows of the batch. */
START_TEST(test_what_is_not_put_together_is_refused)
{
    static const int64_t many[] = {0, 1, 0};
    static const struct zip zips[] = {
        {.axis = 1, .n = 3, .by = 2, .firsts = many}, {.axis = 1, .n = 2, .by = 3, .firsts = many},
        {.axis = 0, .n = 2, .by = 2, .firsts = many}, {.axis = 1, .n = 3, .by = 2, .firsts = many},
        {.axis = 1, .n = 2, .by = 3, .firsts = many}, {.axis = 0, .n = 2, .by = 2, .firsts = many}};
    static const char *const why[] = {"cannot tell that two dimensions are equal",
                                      "cannot tell that two dimensions are equal",
                                      "",
                                      "which axis becomes the one of 4 elements",
                                      "moves the batch or the time axis",
                                      ""};
    for (uint32_t i = 0; i < 6; i++) {
        struct zip zip = zips[i];
        zip.how = i / 3;
        build_zip(&zip);
        expect_refused(&builder, BASE_UNIMPLEMENTED, why[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_regroup");
    TCase *tests = tcase_create("regroup");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_elements_stay_in_their_order, 0, 200);
    tcase_add_test(tests, test_frames_divide_the_steps);
    tcase_add_test(tests, test_what_cannot_be_followed_is_refused);
    tcase_add_test(tests, test_rows_of_the_batch_are_not_grouped);
    tcase_add_test(tests, test_turned_steps_are_grouped_as_they_stand);
    tcase_add_test(tests, test_parts_of_steps_expand_to_themselves);
    tcase_add_test(tests, test_constants_are_repeated);
    tcase_add_test(tests, test_other_repeats_of_constants_are_refused);
    tcase_add_test(tests, test_steps_are_put_together);
    tcase_add_test(tests, test_what_is_not_put_together_is_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
