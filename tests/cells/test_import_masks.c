/* Masks of attention over pairs of steps: conditions on the steps' numbers and triangles drawn at
 * random, put together and applied as exporters do, against the sums that they stand for; and what
 * is refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/changed.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL };
enum { BATCH = 2, STEPS = 9, WIDTH = 4, HIDDEN = 2 };

/* Of d, the key's number less the query's: all steps of the longest request, and some more, which
 * say what becomes of longer ones. */
enum { FAR = 24, TABLE = 2 * FAR + 1 };

static struct onnx_builder builder;
static struct base_random numbers;
static uint32_t n_names;
static bool is_turned; /* keys along the axis before the last */
static uint32_t
    numbered_by; /* steps are numbered by the size of y, or of this axis of the scores */

/* A condition: its value's name, and where it holds. */
struct condition {
    char name[16];
    bool holds[TABLE];
};

static uint32_t draw(uint32_t below)
{
    return base_random_below(&numbers, below);
}

static int32_t draw_between(int32_t low, int32_t high)
{
    return low + (int32_t)draw((uint32_t)(high - low + 1));
}

static void new_name(char out[16])
{
    (void)snprintf(out, 16, "n%u", n_names++);
}

/* A node of one or two operands; "" for b: of one. */
static Onnx__NodeProto *node(const char *op, const char *a, const char *b, char out[16])
{
    char inputs[64];
    (void)snprintf(inputs, sizeof(inputs), "%s %s", a, b);
    inputs[strlen(inputs) - (b[0] == '\0' ? 1 : 0)] = '\0';
    new_name(out);
    return onnx_node(&builder, op, inputs, out);
}

static void integer(int64_t number, char out[16])
{
    new_name(out);
    onnx_constant(&builder, out, onnx_ints(&builder, 0, 1, &number));
}

static void number(float number_of, char out[16])
{
    new_name(out);
    onnx_constant(&builder, out, onnx_tensor(&builder, FLOAT, 0, NULL, &number_of, sizeof(float)));
}

/* ---- Conditions -------------------------------------------------------------------------------
 */

static bool compared(uint32_t how, double a, double b)
{
    return how == 0 ? a < b : how == 1 ? a <= b : how == 2 ? a > b : a >= b;
}

static const char *const comparisons[] = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"};

/* An integer value, to which a number is added, or from which one is taken, or neither. */
static int32_t shifted(const char *of, char out[16])
{
    const int32_t by = draw_between(-3, 3);
    char constant[16];
    if (draw(3) == 0) {
        (void)snprintf(out, 16, "%s", of);
        return 0;
    }
    integer(abs(by), constant);
    (void)node(by < 0 ? "Sub" : "Add", of, constant, out);
    return by;
}

/* Numbers of both, perhaps as floats, one of them perhaps shifted. */
static void compare_numbers(struct condition *out)
{
    const bool is_swapped = draw(2) == 0;
    const bool is_float = draw(2) == 0;
    const uint32_t how = draw(4);
    char sides[2][16];
    const int32_t key = shifted("keys", sides[0]);
    const int32_t query = shifted("queries", sides[1]);
    for (uint32_t i = 0; i < 2 && is_float; i++) {
        char cast[16];
        onnx_set_int(&builder, node("Cast", sides[i], "", cast), "to", FLOAT);
        memcpy(sides[i], cast, sizeof(cast));
    }
    (void)node(comparisons[how], sides[is_swapped ? 1 : 0], sides[is_swapped ? 0 : 1], out->name);
    for (int32_t d = -FAR; d <= FAR; d++) {
        const double a = d + key;
        const double b = query;
        out->holds[d + FAR] = is_swapped ? compared(how, b, a) : compared(how, a, b);
    }
}

/* How far they are apart. */
static void compare_distance(struct condition *out)
{
    const bool is_swapped = draw(2) == 0;
    const bool is_back = draw(2) == 0;
    const uint32_t how = draw(4);
    const int32_t than = draw_between(-1, 4);
    char far[16];
    char shift[16];
    char size_of[16];
    char constant[16];
    (void)node("Sub", is_back ? "queries" : "keys", is_back ? "keys" : "queries", far);
    const int32_t by = shifted(far, shift);
    (void)node("Abs", shift, "", size_of);
    integer(than, constant);
    (void)node(comparisons[how], is_swapped ? constant : size_of, is_swapped ? size_of : constant,
               out->name);
    for (int32_t d = -FAR; d <= FAR; d++) {
        const double size = abs((is_back ? -d : d) + by);
        out->holds[d + FAR] = is_swapped ? compared(how, than, size) : compared(how, size, than);
    }
}

/* A triangle of true, or of ones that are compared with 0. */
static void triangle(struct condition *out)
{
    const bool is_upper = draw(2) == 0;
    const bool is_bool = draw(2) == 0;
    const int32_t diagonal = draw_between(-3, 3);
    const float one = 1.0f;
    const uint8_t yes = 1;
    const int64_t single = 1;
    char constant[16];
    char value[16];
    onnx_set_tensor(&builder, node("ConstantOfShape", "square", "", value), "value",
                    is_bool ? onnx_tensor(&builder, BOOL, 1, &single, &yes, 1)
                            : onnx_tensor(&builder, FLOAT, 1, &single, &one, sizeof(one)));
    integer(diagonal, constant);
    const bool is_plain = diagonal == 0 && draw(2) == 0;
    Onnx__NodeProto *trilu = node("Trilu", value, is_plain ? "" : constant, value);
    if (!is_upper || draw(2) == 0) {
        onnx_set_int(&builder, trilu, "upper", is_upper ? 1 : 0);
    }
    const bool is_inverse = !is_bool && draw(2) == 0;
    if (is_bool) {
        memcpy(out->name, value, sizeof(value));
    } else if (is_inverse) {
        number(0.0f, constant);
        (void)node("Equal", value, constant, out->name);
    } else {
        onnx_set_int(&builder, node("Cast", value, "", out->name), "to", BOOL);
    }
    for (int32_t d = -FAR; d <= FAR; d++) {
        const int32_t off = is_turned ? -d : d; // the column less the row
        out->holds[d + FAR] = (is_upper ? off >= diagonal : off <= diagonal) != is_inverse;
    }
}

static void simple_condition(struct condition *out)
{
    const uint32_t kind = draw(3);
    if (kind == 0) {
        compare_numbers(out);
    } else if (kind == 1) {
        compare_distance(out);
    } else {
        triangle(out);
    }
    if (draw(3) == 0) {
        char before[16];
        memcpy(before, out->name, sizeof(before));
        (void)node("Not", before, "", out->name);
        for (uint32_t i = 0; i < TABLE; i++) {
            out->holds[i] = !out->holds[i];
        }
    }
}

static void any_condition(struct condition *out)
{
    simple_condition(out);
    if (draw(3) == 0) {
        const bool is_and = draw(2) == 0;
        struct condition other;
        char before[16];
        memcpy(before, out->name, sizeof(before));
        simple_condition(&other);
        (void)node(is_and ? "And" : "Or", before, other.name, out->name);
        for (uint32_t i = 0; i < TABLE; i++) {
            out->holds[i] =
                is_and ? out->holds[i] && other.holds[i] : out->holds[i] || other.holds[i];
        }
    }
}

/* ---- Attention --------------------------------------------------------------------------------
 */

/* Scores of all pairs, keys along the last axis or, turned, along the one before it. */
static void begin(bool turns)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const int64_t axes[] = {0, 1};
    const int64_t perm[] = {0, 2, 1};
    int64_t integers[1];
    n_names = 0;
    is_turned = turns;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "y", FLOAT, 3, dims);
    onnx_constant(&builder, "axis0", onnx_ints(&builder, 1, 1, &axes[0]));
    onnx_constant(&builder, "axis1", onnx_ints(&builder, 1, 1, &axes[1]));
    onnx_constant(&builder, "zero", onnx_ints(&builder, 0, 1, &axes[0]));
    onnx_constant(&builder, "one", onnx_ints(&builder, 0, 1, &axes[1]));
    onnx_node(&builder, "Shape", "y", "shape");
    onnx_node(&builder, "Gather", "shape axis1", "steps");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "steps steps", "square"), "axis", 0);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "yt"), "perm", 3, perm);
    onnx_node(&builder, "MatMul", "y yt", "scores");
    integers[0] = numbered_by > 0 ? numbered_by : 1;
    onnx_constant(&builder, "numbered", onnx_ints(&builder, 1, 1, integers));
    onnx_node(&builder, "Shape", numbered_by > 0 ? "scores" : "y", "sizes");
    onnx_node(&builder, "Gather", "sizes numbered", "count");
    onnx_node(&builder, "Squeeze", "count axis0", "step_count");
    onnx_node(&builder, "Range", "zero step_count one", "step_numbers");
    onnx_node(&builder, "Unsqueeze", "step_numbers axis0", is_turned ? "queries" : "keys");
    onnx_node(&builder, "Unsqueeze", "step_numbers axis1", is_turned ? "keys" : "queries");
}

/* A GRU says which axis is time; o is there. */
static void finish(void)
{
    const int64_t perm[] = {1, 0, 2};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "gru"), "hidden_size",
                 HIDDEN);
    onnx_output(&builder, "o", FLOAT, 0, NULL);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

static void end(const char *scores)
{
    const int64_t turn[] = {0, 2, 1};
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", scores, "weights"), "axis",
                 is_turned ? 1 : -1);
    if (is_turned) {
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "weights", "by_query"), "perm", 3,
                      turn);
    }
    onnx_node(&builder, "MatMul", is_turned ? "by_query y" : "weights y", "o");
    finish();
}

/* Masked where the condition holds, or where it does not: *is_masked says which. */
static void apply(const struct condition *condition, char out[16], bool *is_masked)
{
    static const float masks[] = {-INFINITY, -1e9f, -10000.0f};
    const uint32_t way = draw(6);
    char constant[16];
    char zero[16];
    char value[16];
    number(masks[draw(way == 2 || way == 3 ? 1 : 3)], constant); // 0 times an infinity is no number
    number(0.0f, zero);
    *is_masked = way != 1 && way != 5;
    if (way < 2) {
        char inputs[64];
        (void)snprintf(inputs, sizeof(inputs), "%s %s %s", condition->name,
                       way == 0 ? constant : "scores", way == 0 ? "scores" : constant);
        new_name(out);
        onnx_node(&builder, "Where", inputs, out);
        return;
    }
    if (way < 4) {
        number(way == 2 ? -1e9f : 1e9f, constant);
        onnx_set_int(&builder, node("Cast", condition->name, "", value), "to", FLOAT);
        (void)node("Mul", value, constant, value);
    } else {
        char inputs[64];
        (void)snprintf(inputs, sizeof(inputs), "%s %s %s", condition->name,
                       way == 4 ? constant : zero, way == 4 ? zero : constant);
        new_name(value);
        onnx_node(&builder, "Where", inputs, value);
    }
    (void)node(way == 3 ? "Sub" : "Add", "scores", value, out);
}

/* By the plain sums. allowed: of d. */
static void expect_attention(const double *y, uint32_t steps, const bool *allowed,
                             const double *got)
{
    for (uint32_t query = 0; query < steps; query++) {
        double sums[WIDTH] = {0.0};
        double sum = 0.0;
        for (uint32_t key = 0; key < steps; key++) {
            double score = 0.0;
            for (uint32_t k = 0; k < WIDTH; k++) {
                score += y[query * WIDTH + k] * y[key * WIDTH + k];
            }
            const bool is_there = allowed[(int32_t)key - (int32_t)query + FAR];
            const double weight = is_there ? exp(score) : 0.0;
            sum += weight;
            for (uint32_t k = 0; k < WIDTH; k++) {
                sums[k] += weight * y[key * WIDTH + k];
            }
        }
        for (uint32_t k = 0; k < WIDTH; k++) {
            util_assert_close(got[query * WIDTH + k], sums[k] / sum, 1e-6, 0);
        }
    }
}

static void run(const bool *allowed)
{
    struct built built;
    load_built(&builder, &built);
    for (int64_t steps = 1; steps <= STEPS; steps += 4) {
        const int64_t dims[] = {BATCH, steps, WIDTH};
        struct replay_tensor y = replay_tensor_random(3, dims, &numbers);
        struct replay_tensor outputs[2] = {{.rank = 0}};
        replay_run(built.model, &y, outputs);
        for (int64_t b = 0; b < BATCH; b++) {
            const size_t at = (size_t)(b * steps * WIDTH);
            expect_attention(y.data + at, (uint32_t)steps, allowed, outputs[0].data + at);
        }
        base_free(y.data);
        base_free(outputs[0].data);
        base_free(outputs[1].data);
    }
    free_built(&builder, &built);
}

/* Whether steps in one piece are left, the step itself among them. */
static bool is_band(const bool *allowed)
{
    uint32_t changes = 0;
    for (uint32_t i = 1; i < TABLE; i++) {
        changes += allowed[i] != allowed[i - 1] ? 1 : 0;
    }
    const bool is_open = allowed[0] || allowed[TABLE - 1];
    return allowed[FAR] && (changes < 2 || (changes == 2 && !is_open));
}

START_TEST(test_masks)
{
    struct condition condition;
    bool allowed[TABLE];
    bool is_masked = false;
    char scores[16];
    numbers = util_random((uint64_t)_i + 1);
    numbered_by = (uint32_t)_i / 2 % 3;
    begin(_i % 2 == 1);
    numbered_by = 0;
    any_condition(&condition);
    apply(&condition, scores, &is_masked);
    for (uint32_t i = 0; i < TABLE; i++) {
        allowed[i] = condition.holds[i] != is_masked;
    }
    end(scores);
    if (is_band(allowed)) {
        run(allowed);
        return;
    }
    // Others are numbers of each distance (test_import_relative.c), where they are no infinities.
    struct base_error error = {.message = ""};
    struct built built;
    const enum base_status status = try_built(&builder, &built, &error);
    cell_model_free(built.registry, built.model);
    cell_registry_free(built.registry);
    if (status == BASE_OK && allowed[FAR]) {
        run(allowed);
        return;
    }
    onnx_release(&builder);
    ck_assert(status == BASE_OK || status == BASE_UNIMPLEMENTED);
}
END_TEST

/* Steps so far that are there, by numbers of the scores' steps and of y's. */
START_TEST(test_masks_by_the_size_of_scores)
{
    bool allowed[TABLE];
    char value[16];
    numbers = util_random(1);
    for (uint32_t i = 0; i < 6; i++) {
        numbered_by = i % 3;
        begin(i / 3 == 1);
        numbered_by = 0;
        onnx_node(&builder, "Squeeze", "steps axis0", "there_count");
        onnx_node(&builder, "Range", "zero there_count one", "there_numbers");
        onnx_node(&builder, "Unsqueeze", is_turned ? "there_numbers axis1" : "there_numbers axis0",
                  "there");
        onnx_node(&builder, "GreaterOrEqual", "there zero", "is_there");
        onnx_node(&builder, "LessOrEqual", "keys queries", "is_so_far");
        onnx_node(&builder, "And", "is_so_far is_there", "is_seen");
        number(-1e9f, value);
        char inputs[64];
        (void)snprintf(inputs, sizeof(inputs), "is_seen scores %s", value);
        onnx_node(&builder, "Where", inputs, "masked");
        end("masked");
        for (int32_t d = -FAR; d <= FAR; d++) {
            allowed[d + FAR] = d <= 0;
        }
        run(allowed);
    }
}
END_TEST

/* Two masks, one after the other: what both leave. */
START_TEST(test_masks_upon_masks)
{
    bool allowed[TABLE];
    numbers = util_random(1);
    begin(false);
    onnx_constant(&builder, "two", onnx_ints(&builder, 0, 1, (const int64_t[]){2}));
    char masked[16];
    char number_of[16];
    char inputs[64];
    number(-1e9f, number_of);
    onnx_node(&builder, "Add", "queries two", "ahead");
    onnx_node(&builder, "Greater", "keys ahead", "is_ahead");
    onnx_node(&builder, "Sub", "queries two", "back");
    onnx_node(&builder, "Less", "keys back", "is_back");
    (void)snprintf(inputs, sizeof(inputs), "is_ahead %s scores", number_of);
    onnx_node(&builder, "Where", inputs, "once");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "is_back", "back_as_float"), "to", FLOAT);
    (void)node("Mul", "back_as_float", number_of, masked);
    (void)node("Add", "once", masked, masked);
    end(masked);
    for (int32_t d = -FAR; d <= FAR; d++) {
        allowed[d + FAR] = abs(d) <= 2;
    }
    run(allowed);
}
END_TEST

START_TEST(test_what_is_no_mask)
{
    static const struct {
        const char *op, *inputs, *why;
    } cases[] = {
        {"Mul", "scores mask", "that is no attention"},
        {"Where", "is_after number scores", "that is no attention"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const float floats[] = {-5.0f};
        begin(false);
        onnx_constant(&builder, "number",
                      onnx_tensor(&builder, FLOAT, 0, NULL, &floats[0], sizeof(float)));
        onnx_node(&builder, "Greater", "keys queries", "is_after");
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "is_after", "mask"), "to", FLOAT);
        onnx_node(&builder, cases[i].op, cases[i].inputs, "masked");
        end("masked");
        expect_refused(&builder, BASE_UNIMPLEMENTED, cases[i].why);
    }
}
END_TEST

/* A mask as the product of two conditions as numbers, one of them of the request, that is scaled
 * with its scores. */
START_TEST(test_products_that_are_scaled)
{
    static const struct {
        float number, root;
        bool is_mask;
    } cases[] = {
        {-1e4f, 1.0f, true},   {-1e4f, 2.83f, true}, {-1e4f, 20.0f, true},
        {-1e4f, 25.0f, false}, {-1e9f, 25.0f, true}, {-600.0f, 1.0f, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char one[16];
        char by[16];
        char root[16];
        char inputs[64];
        begin(false);
        number(1.0f, one);
        number(cases[i].number, by);
        number(cases[i].root, root);
        onnx_input(&builder, "there", BOOL, 2, (const int64_t[]){-1, -1});
        onnx_node(&builder, "Unsqueeze", "there axis1", "of_keys");
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "of_keys", "key"), "to", FLOAT);
        onnx_node(&builder, "LessOrEqual", "keys queries", "is_so_far");
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "is_so_far", "so_far"), "to", FLOAT);
        onnx_node(&builder, "Mul", "so_far key", "both");
        (void)snprintf(inputs, sizeof(inputs), "%s both", one);
        onnx_node(&builder, "Sub", inputs, "missing");
        (void)snprintf(inputs, sizeof(inputs), "missing %s", by);
        onnx_node(&builder, "Mul", inputs, "mask");
        onnx_node(&builder, "Add", "scores mask", "masked");
        (void)snprintf(inputs, sizeof(inputs), "masked %s", root);
        onnx_node(&builder, "Div", inputs, "scaled");
        end("scaled");
        if (cases[i].is_mask) {
            expect_accepted(&builder);
        } else {
            expect_refused(&builder, BASE_UNIMPLEMENTED,
                           "a sum over the source's steps that is no");
        }
    }
}
END_TEST

START_TEST(test_triangles_that_are_refused)
{
    static const struct {
        const char *inputs, *why;
        enum base_status status;
    } cases[] = {
        {"y", "of a matrix that has not a row and a column for each step", BASE_UNIMPLEMENTED},
        {"step_numbers", "of a tensor of rank 1", BASE_INVALID_ARGUMENT},
        {"scores several", "a diagonal that is not one number", BASE_UNIMPLEMENTED},
        {"scores far", "a diagonal that is not one number", BASE_UNIMPLEMENTED},
        {"scores least", "a diagonal that is not one number", BASE_UNIMPLEMENTED},
        {"pairs", "int64 values that depend on the request", BASE_UNIMPLEMENTED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t several[] = {1, 2};
        const int64_t far = 1 << 21;
        const int64_t least = INT64_MIN;
        begin(false);
        onnx_constant(&builder, "several", onnx_ints(&builder, 1, 2, several));
        onnx_constant(&builder, "far", onnx_ints(&builder, 0, 1, &far));
        onnx_constant(&builder, "least", onnx_ints(&builder, 0, 1, &least));
        onnx_node(&builder, "Sub", "keys queries", "pairs");
        onnx_node(&builder, "Trilu", cases[i].inputs, "o");
        finish();
        expect_refused(&builder, cases[i].status, cases[i].why);
    }
}
END_TEST

/* ---- Beside sequence_lens ---------------------------------------------------------------------
 */

static const Onnx__GraphProto *begin_packed(const char *name)
{
    char relative[UTIL_PATH_BYTES];
    (void)snprintf(relative, sizeof(relative),
                   "tests/data/onnx/mask_packed_%s-ts1.13-op17/model.onnx", name);
    return changed_begin(relative)->graph;
}

/* What ONNX computes behind a shorter row would count: a mask that leaves the step there, or none.
 * (That masks by the lengths are served is test_import_exports.c's.) */
START_TEST(test_what_stands_behind_is_not_taken_for_nothing)
{
    const Onnx__GraphProto *graph = begin_packed("own");
    changed_rename(&changed_node(graph, "Less")->op_type, "LessOrEqual");
    changed_expect(BASE_UNIMPLEMENTED, "MatMul (node",
                   "attends to a sequence beside sequence_lens");
    graph = begin_packed("causal");
    changed_rename(&changed_node(graph, "Softmax")->input[0],
                   changed_node(graph, "Where")->input[2]);
    changed_expect(BASE_UNIMPLEMENTED, "MatMul (node",
                   "attends to a sequence beside sequence_lens");
    graph = begin_packed("largest");
    changed_rename(&changed_node(graph, "Less")->op_type, "LessOrEqual");
    changed_expect(BASE_UNIMPLEMENTED, "ReduceMax (node", "over the steps beside sequence_lens");
    graph = begin_packed("largest");
    changed_rename(&changed_node(graph, "ReduceMax")->input[0],
                   changed_node(graph, "Where")->input[2]);
    changed_expect(BASE_UNIMPLEMENTED, "ReduceMax (node", "over the steps beside sequence_lens");
    graph = begin_packed("attended");
    changed_rename(&changed_node(graph, "Less")->op_type, "Greater");
    changed_expect(BASE_UNIMPLEMENTED, "Softmax (node", "over the steps beside sequence_lens");
    graph = begin_packed("weighed");
    changed_rename(&changed_node(graph, "Less")->op_type, "LessOrEqual");
    changed_expect(BASE_UNIMPLEMENTED, "ReduceSum (node", "over the steps beside sequence_lens");
}
END_TEST

/* Sums of other integers may be larger than floats tell apart. */
START_TEST(test_only_conditions_are_counted)
{
    const Onnx__GraphProto *graph =
        changed_begin("tests/data/onnx/mask_counted_gathered-ts1.13-op17/model.onnx")->graph;
    changed_rename(&changed_node(graph, "ReduceSum")->input[0], "ids");
    changed_expect(BASE_UNIMPLEMENTED, "ReduceSum (node", "for which a condition holds");
    graph = changed_begin("tests/data/onnx/mask_counted_gathered-ts1.13-op17/model.onnx")->graph;
    changed_rename(&changed_node(graph, "ReduceSum")->op_type, "ReduceMax");
    changed_expect(BASE_UNIMPLEMENTED, "ReduceMax (node", "of type int64");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_masks");
    TCase *tcase = tcase_create("masks");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_masks, 0, 400);
    tcase_add_test(tcase, test_masks_by_the_size_of_scores);
    tcase_add_test(tcase, test_masks_upon_masks);
    tcase_add_test(tcase, test_what_is_no_mask);
    tcase_add_test(tcase, test_products_that_are_scaled);
    tcase_add_test(tcase, test_triangles_that_are_refused);
    suite_add_tcase(suite, tcase);
    TCase *packed = tcase_create("packed");
    tcase_add_checked_fixture(packed, changed_setup, changed_teardown);
    tcase_add_test(packed, test_what_stands_behind_is_not_taken_for_nothing);
    tcase_add_test(packed, test_only_conditions_are_counted);
    suite_add_tcase(suite, packed);
    return util_run(suite);
}
