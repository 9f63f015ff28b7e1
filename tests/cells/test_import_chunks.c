/* Chunks of so many steps: which one a step is in and its place there, in all the ways in which
 * exporters write the division; masks that leave a step the keys of some chunks, against the sums
 * that they stand for; what is looked up by either number; and what is refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
    BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL
};
enum { BATCH = 2, LONGEST = 13, WIDTH = 3, HIDDEN = 2, FAR = 1000 };

static struct onnx_builder builder;
static struct base_random numbers;

/* How a step's number becomes its chunk's. */
enum division {
    TRUNCATED, /* Div of integers */
    WHERE,     /* TorchScript's // */
    LESS_ONE,  /* // of PyTorch's newer exporter */
    SIGNED,    /* torch.div(rounding_mode="trunc") of that */
    FLOORED,   /* torch.floor(x / n).long() */
    CAST,      /* (x / n).long() */
    DIVISIONS
};

/* What of the way in which a division is written is otherwise. */
enum wrong { NOTHING, OTHER_NUMBER, OTHER_BORDER, OTHER_REST, OTHER_ONE, OTHER_SIGN, WRONGS };

static void cast(const char *from, int32_t to, const char *name)
{
    onnx_set_int(&builder, onnx_node(&builder, "Cast", from, name), "to", to);
}

static void integer(const char *name, uint32_t rank, int64_t number)
{
    onnx_constant(&builder, name, onnx_ints(&builder, rank, 1, &number));
}

static void number(const char *name, float value)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, FLOAT, 0, NULL, &value, sizeof(value)));
}

static void truth(const char *name, uint8_t value)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, BOOL, 0, NULL, &value, sizeof(value)));
}

/* y [batch, steps, WIDTH], and the numbers of its steps. */
static void begin(int64_t chunk)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "y", FLOAT, 3, dims);
    integer("zero", 0, 0);
    integer("one", 0, 1);
    integer("two", 0, 2);
    integer("n", 0, chunk);
    integer("next", 0, chunk + 1);
    integer("axis_0", 1, 0);
    integer("axis_1", 1, 1);
    number("n_float", (float)chunk);
    truth("true", 1);
    truth("false", 0);
    onnx_node(&builder, "Shape", "y", "shape");
    onnx_node(&builder, "Gather", "shape one", "steps");
    onnx_node(&builder, "Range", "zero steps one", "numbers");
    cast("numbers", FLOAT, "numbers_float");
    onnx_node(&builder, "Add", "numbers one", "later");
}

static void divide_where(enum wrong wrong)
{
    onnx_node(&builder, "Div", "numbers n", "quotient");
    onnx_node(&builder, "Less", wrong == OTHER_NUMBER ? "later zero" : "numbers zero", "below");
    onnx_node(&builder, "Xor", wrong == OTHER_SIGN ? "below true" : "below false", "unlike");
    onnx_node(&builder, "Mod", wrong == OTHER_REST ? "numbers next" : "numbers n", "rest");
    onnx_node(&builder, "Equal", wrong == OTHER_BORDER ? "rest one" : "rest zero", "even");
    onnx_node(&builder, "Not", "even", "uneven");
    onnx_node(&builder, "And", "unlike uneven", "both");
    onnx_node(&builder, "Sub", wrong == OTHER_ONE ? "quotient two" : "quotient one", "less");
    onnx_node(&builder, "Where", "both less quotient", "chunks");
}

static void divide_less(enum wrong wrong)
{
    onnx_node(&builder, "Div", "numbers n", "quotient");
    onnx_node(&builder, "Less", wrong == OTHER_BORDER ? "numbers one" : "numbers zero", "below");
    onnx_node(&builder, "Equal", wrong == OTHER_SIGN ? "below false" : "below true", "unlike");
    onnx_node(&builder, "Mod", wrong == OTHER_REST ? "numbers next" : "numbers n", "rest");
    cast(wrong == OTHER_NUMBER ? "later" : "rest", wrong == OTHER_ONE ? INT64 : BOOL, "uneven");
    onnx_node(&builder, "And", "unlike uneven", "both");
    cast("both", INT64, "less");
    onnx_node(&builder, "Sub", "quotient less", "chunks");
}

static void divide_floats(enum division division, enum wrong wrong)
{
    const char *of = "quotient";
    onnx_node(&builder, "Div", "numbers_float n_float", "quotient");
    if (division == SIGNED) {
        onnx_node(&builder, "Abs", "quotient", "size");
        onnx_node(&builder, "Floor", "size", "floor");
        onnx_node(&builder, "Sign", wrong == OTHER_SIGN ? "numbers_float" : "quotient", "sign");
        onnx_node(&builder, "Mul", "floor sign", "whole");
        of = "whole";
    } else if (division == FLOORED) {
        onnx_node(&builder, "Floor", "quotient", "whole");
        of = "whole";
    }
    cast(of, INT64, "chunks");
}

static void divide(enum division division, enum wrong wrong)
{
    switch ((unsigned)division) {
    case TRUNCATED:
        onnx_node(&builder, "Div", "numbers n", "chunks");
        break;
    case WHERE:
        divide_where(wrong);
        break;
    case LESS_ONE:
        divide_less(wrong);
        break;
    default:
        divide_floats(division, wrong);
        break;
    }
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* A mask: how it is written, of chunks of n steps, and of `left` before the own one. */
struct mask {
    enum way { NUMBERS, ENDS, TURNED, NEAR, SAME, KEPT, CAUSAL, WAYS } way;
    int64_t n, left;
};

static void columns(const char *name, const char *queries, const char *keys)
{
    char inputs[64];
    (void)snprintf(inputs, sizeof(inputs), "%s axis_1", name);
    onnx_node(&builder, "Unsqueeze", inputs, queries);
    (void)snprintf(inputs, sizeof(inputs), "%s axis_0", name);
    onnx_node(&builder, "Unsqueeze", inputs, keys);
}

static bool is_left(const struct mask *mask, int64_t query, int64_t key)
{
    const int64_t d = key / mask->n - query / mask->n;
    switch ((unsigned)mask->way) {
    case NEAR:
        return d <= mask->left && d >= -mask->left;
    case SAME:
        return d == 0;
    case CAUSAL:
        return key <= query && d >= -mask->left;
    default:
        return d <= 0 && d >= -mask->left;
    }
}

static void write_kept(const struct mask *mask)
{
    const int64_t dims[] = {LONGEST, LONGEST};
    uint8_t truths[LONGEST * LONGEST];
    for (int64_t i = 0; i < LONGEST * LONGEST; i++) {
        truths[i] = is_left(mask, i / LONGEST, i % LONGEST) ? 1 : 0;
    }
    onnx_constant(&builder, "kept", onnx_tensor(&builder, BOOL, 2, dims, truths, sizeof(truths)));
    onnx_node(&builder, "Gather", "shape axis_1", "end");
    onnx_node(&builder, "Slice", "kept axis_0 end axis_0", "lines");
    onnx_node(&builder, "Slice", "lines axis_0 end axis_1", "left");
}

static void write_mask(const struct mask *mask)
{
    integer("before", 0, mask->left);
    columns("numbers", "queries", "keys");
    columns("chunks", "queries_chunk", "keys_chunk");
    switch ((unsigned)mask->way) {
    case ENDS:
        onnx_node(&builder, "Add", "chunks one", "chunks_after");
        onnx_node(&builder, "Mul", "chunks_after n", "ends");
        onnx_node(&builder, "Sub", "chunks before", "chunks_before");
        onnx_node(&builder, "Mul", "n chunks_before", "sooner");
        onnx_node(&builder, "Max", "sooner zero", "starts");
        columns("ends", "queries_end", "unread_end");
        columns("starts", "queries_start", "unread_start");
        onnx_node(&builder, "Less", "keys queries_end", "is_before");
        onnx_node(&builder, "GreaterOrEqual", "keys queries_start", "is_behind");
        onnx_node(&builder, "And", "is_before is_behind", "left");
        break;
    case TURNED: // by where the key's chunk begins and ends
        onnx_node(&builder, "Mul", "chunks n", "starts");
        onnx_node(&builder, "Add", "chunks before", "chunks_last");
        onnx_node(&builder, "Add", "chunks_last one", "chunks_after");
        onnx_node(&builder, "Mul", "chunks_after n", "ends");
        columns("ends", "unread_end", "keys_end");
        columns("starts", "unread_start", "keys_start");
        onnx_node(&builder, "Less", "queries keys_end", "is_before");
        onnx_node(&builder, "GreaterOrEqual", "queries keys_start", "is_behind");
        onnx_node(&builder, "And", "is_before is_behind", "left");
        break;
    case NEAR:
        onnx_node(&builder, "Sub", "keys_chunk queries_chunk", "apart");
        onnx_node(&builder, "Abs", "apart", "far");
        onnx_node(&builder, "LessOrEqual", "far before", "left");
        break;
    case SAME:
        onnx_node(&builder, "Equal", "queries_chunk keys_chunk", "left");
        break;
    case KEPT:
        write_kept(mask);
        break;
    default:
        onnx_node(&builder, "Sub", "queries_chunk before", "first");
        onnx_node(&builder, "Greater",
                  mask->way == CAUSAL ? "keys queries" : "keys_chunk queries_chunk", "is_behind");
        onnx_node(&builder, "Less", "keys_chunk first", "is_before");
        onnx_node(&builder, "Or", "is_behind is_before", "masked");
        onnx_node(&builder, "Not", "masked", "left");
        break;
    }
}

/* Attention of y to itself; left: what a query attends to. again: where a mask has made a weight
 * zero, it is so once more. */
static void attend(bool again)
{
    const int64_t perm[] = {0, 2, 1};
    number("lowest", -INFINITY);
    number("nothing", 0.0f);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "yt"), "perm", 3, perm);
    onnx_node(&builder, "MatMul", "y yt", "scores");
    onnx_node(&builder, "Not", "left", "gone");
    onnx_node(&builder, "Where", "gone lowest scores", "those");
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "those", again ? "some" : "weights"),
                 "axis", -1);
    if (again) {
        onnx_node(&builder, "Where", "gone nothing some", "weights");
    }
    onnx_node(&builder, "MatMul", "weights y", "o");
}

static void end(const char *output)
{
    const int64_t perm[] = {1, 0, 2};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "gru"), "hidden_size",
                 HIDDEN);
    onnx_output(&builder, output, FLOAT, 0, NULL);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

static void expect_sums(const double *rows, const struct mask *mask, int64_t query, int64_t steps,
                        const double *got)
{
    double sums[WIDTH] = {0.0};
    double sum = 0.0;
    for (int64_t key = 0; key < steps; key++) {
        double score = 0.0;
        for (int64_t k = 0; k < WIDTH; k++) {
            score += rows[query * WIDTH + k] * rows[key * WIDTH + k];
        }
        const double weight = is_left(mask, query, key) ? exp(score) : 0.0;
        sum += weight;
        for (int64_t k = 0; k < WIDTH; k++) {
            sums[k] += weight * rows[key * WIDTH + k];
        }
    }
    for (int64_t k = 0; k < WIDTH; k++) {
        util_assert_close(got[k], sums[k] / sum, 1e-5, 0);
    }
}

static void expect_attention(const struct cell_model *model, const struct mask *mask)
{
    for (int64_t steps = 1; steps <= LONGEST; steps++) {
        const int64_t dims[] = {BATCH, steps, WIDTH};
        struct replay_tensor y = replay_tensor_random(3, dims, &numbers);
        struct replay_tensor outputs[2] = {{.rank = 0}};
        replay_run(model, &y, outputs);
        for (int64_t r = 0; r < BATCH * steps; r++) {
            expect_sums(y.data + r / steps * steps * WIDTH, mask, r % steps, steps,
                        &outputs[0].data[r * WIDTH]);
        }
        base_free(y.data);
        base_free(outputs[0].data);
        base_free(outputs[1].data);
    }
}

/* Of all ways the same sums, with and without weights that are made zeros again. */
START_TEST(test_masks_of_all_ways)
{
    for (uint32_t i = 0; i < (uint32_t)DIVISIONS * WAYS; i++) {
        const struct mask mask = {.way = (enum way)(i / DIVISIONS),
                                  .n = 2 + (int64_t)base_random_below(&numbers, 4),
                                  .left = (int64_t)base_random_below(&numbers, 3)};
        struct built built;
        begin(mask.n);
        divide((enum division)(i % DIVISIONS), NOTHING);
        write_mask(&mask);
        attend(i % 2 != 0);
        end("o");
        load_built(&builder, &built);
        expect_attention(built.model, &mask);
        free_built(&builder, &built);
    }
}
END_TEST

/* Bounds are of the step's own chunk, so that a request of any length is served. */
START_TEST(test_masks_bound_no_steps)
{
    const struct mask mask = {.way = ENDS, .n = 4, .left = 1};
    struct built built;
    begin(mask.n);
    divide(WHERE, NOTHING);
    write_mask(&mask);
    attend(false);
    end("o");
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->sequences[built.model->inputs[0].sequence].steps_max, 0);
    free_built(&builder, &built);
}
END_TEST

/* What is written otherwise is no division: it is refused, or is what the operators make of it. */
START_TEST(test_what_is_no_division)
{
    for (uint32_t i = 0; i < 2 * (WRONGS - 1); i++) {
        const struct mask mask = {.way = NUMBERS, .n = 3, .left = 1};
        begin(mask.n);
        divide(i % 2 == 0 ? WHERE : LESS_ONE, (enum wrong)(1 + i / 2));
        write_mask(&mask);
        attend(false);
        end("o");
        struct base_error error = {BASE_OK, ""};
        const enum base_status status = parse_built(&builder, &error);
        ck_assert_msg(status == BASE_UNIMPLEMENTED || status == BASE_INVALID_ARGUMENT, "%u: %s", i,
                      error.message);
    }
}
END_TEST

START_TEST(test_a_sign_of_something_else)
{
    const struct mask mask = {.way = NUMBERS, .n = 3, .left = 1};
    begin(mask.n);
    divide(SIGNED, OTHER_SIGN);
    write_mask(&mask);
    attend(false);
    end("o");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "");
}
END_TEST

START_TEST(test_divisors_that_are_none)
{
    static const int64_t divisors[] = {0, -2, (int64_t)1 << 40};
    for (size_t i = 0; i < sizeof(divisors) / sizeof(divisors[0]); i++) {
        for (uint32_t d = 0; d < 3; d++) {
            const struct mask mask = {.way = NUMBERS, .n = divisors[i], .left = 1};
            begin(divisors[i]);
            divide((enum division)d, NOTHING);
            write_mask(&mask);
            attend(false);
            end("o");
            expect_refused(&builder, BASE_UNIMPLEMENTED, "");
        }
    }
}
END_TEST

/* Of chunks that begin elsewhere, borders within a chunk, two lengths, a chunk that is not its own.
 */
START_TEST(test_masks_that_are_refused)
{
    static const struct {
        const char *op, *inputs;
    } conditions[] = {{"LessOrEqual", "moved_keys moved_queries"}, // (i + 1) / n
                      {"Less", "keys within"},                     // n c + 1
                      {"Less", "within keys"},
                      {"LessOrEqual", "keys_chunk earlier_chunk"}, // none before the own
                      {"GreaterOrEqual", "keys floored"},          // max(n c - n, 1)
                      {"And", "by_three by_four"}};
    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
        begin(3);
        integer("four", 0, 4);
        divide(TRUNCATED, NOTHING);
        columns("numbers", "queries", "keys");
        columns("chunks", "queries_chunk", "keys_chunk");
        onnx_node(&builder, "Div", "later n", "moved");
        columns("moved", "moved_queries", "moved_keys");
        onnx_node(&builder, "Mul", "queries_chunk n", "starts");
        onnx_node(&builder, "Add", "starts one", "within");
        onnx_node(&builder, "Sub", "queries_chunk one", "earlier_chunk");
        onnx_node(&builder, "Mul", "earlier_chunk n", "earlier");
        onnx_node(&builder, "Max", "earlier one", "floored");
        onnx_node(&builder, "Div", "numbers four", "fours");
        columns("fours", "queries_four", "keys_four");
        onnx_node(&builder, "LessOrEqual", "keys_chunk queries_chunk", "by_three");
        onnx_node(&builder, "LessOrEqual", "keys_four queries_four", "by_four");
        onnx_node(&builder, conditions[i].op, conditions[i].inputs, "left");
        attend(false);
        end("o");
        expect_refused(&builder, BASE_UNIMPLEMENTED, "");
    }
}
END_TEST

/* A number for each distance of chunks is nothing that a distance of steps tells, however long the
 * chunks: longer ones than any pairs of steps are compared by. */
START_TEST(test_numbers_of_chunks_apart)
{
    static const int64_t chunks[] = {3, 100, 5000};
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        const int64_t perm[] = {0, 2, 1};
        begin(chunks[i]);
        divide(TRUNCATED, NOTHING);
        columns("chunks", "queries_chunk", "keys_chunk");
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "yt"), "perm", 3, perm);
        onnx_node(&builder, "MatMul", "y yt", "scores");
        onnx_node(&builder, "Sub", "keys_chunk queries_chunk", "apart");
        cast("apart", FLOAT, "apart_float");
        onnx_node(&builder, "Tanh", "apart_float", "bias");
        onnx_node(&builder, "Add", "scores bias", "those");
        onnx_set_int(&builder, onnx_node(&builder, "Softmax", "those", "weights"), "axis", -1);
        onnx_node(&builder, "MatMul", "weights y", "o");
        end("o");
        expect_refused(&builder, BASE_UNIMPLEMENTED, "follows from more than how far apart");
    }
}
END_TEST

/* ---- What is looked up ------------------------------------------------------------------------
 */

enum { ROWS = 4 };

static float table[ROWS * WIDTH];

static void look_up(int64_t chunk, bool is_place)
{
    const int64_t dims[] = {ROWS, WIDTH};
    begin(chunk);
    onnx_constant(&builder, "table", onnx_tensor(&builder, FLOAT, 2, dims, table, sizeof(table)));
    if (is_place) {
        onnx_node(&builder, "Mod", "numbers n", "index");
    } else {
        divide(LESS_ONE, NOTHING);
        onnx_node(&builder, "Identity", "chunks", "index");
    }
    onnx_node(&builder, "Gather", "table index", "found");
    onnx_node(&builder, "Add", "y found", "o");
    end("o");
}

START_TEST(test_places_and_chunks_are_looked_up)
{
    for (uint32_t i = 0; i < 6; i++) {
        const int64_t chunk = 2 + (int64_t)(i / 2);
        const bool is_place = i % 2 != 0;
        struct built built;
        look_up(chunk, is_place);
        load_built(&builder, &built);
        const uint32_t most = built.model->sequences[built.model->inputs[0].sequence].steps_max;
        ck_assert_uint_eq(most, is_place ? 0 : (uint32_t)chunk * ROWS);
        for (int64_t steps = 1; steps <= (is_place ? LONGEST : chunk * ROWS); steps++) {
            const int64_t dims[] = {1, steps, WIDTH};
            struct replay_tensor y = replay_tensor_random(3, dims, &numbers);
            struct replay_tensor outputs[2] = {{.rank = 0}};
            replay_run(built.model, &y, outputs);
            for (int64_t k = 0; k < steps * WIDTH; k++) {
                const int64_t step = k / WIDTH;
                const int64_t row = is_place ? step % chunk : step / chunk;
                const double wanted = y.data[k] + (double)table[row * WIDTH + k % WIDTH];
                util_assert_close(outputs[0].data[k], wanted, 1e-6, 0);
            }
            base_free(y.data);
            base_free(outputs[0].data);
            base_free(outputs[1].data);
        }
        free_built(&builder, &built);
    }
}
END_TEST

START_TEST(test_places_that_the_table_has_not)
{
    look_up(ROWS + 1, true);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "looks up one of 5 numbers in a table of 4");
}
END_TEST

int main(void)
{
    numbers = util_random(1);
    for (uint32_t i = 0; i < ROWS * WIDTH; i++) {
        table[i] = base_random_f32(&numbers, -1.0f, 1.0f);
    }
    Suite *suite = suite_create("import_chunks");
    TCase *tcase = tcase_create("chunks");
    tcase_add_test(tcase, test_masks_of_all_ways);
    tcase_add_test(tcase, test_masks_bound_no_steps);
    tcase_add_test(tcase, test_what_is_no_division);
    tcase_add_test(tcase, test_a_sign_of_something_else);
    tcase_add_test(tcase, test_divisors_that_are_none);
    tcase_add_test(tcase, test_masks_that_are_refused);
    tcase_add_test(tcase, test_numbers_of_chunks_apart);
    tcase_add_test(tcase, test_places_and_chunks_are_looked_up);
    tcase_add_test(tcase, test_places_that_the_table_has_not);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
