/* Relative positions in attention: numbers and vectors that follow from how far apart query and key
 * are, drawn at random as exporters write them, tables of distances that are shifted, against the
 * sums that they stand for; how many steps a request may have; and what is refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { BATCH = 2, LONGEST = 21, WIDTH = 4, HIDDEN = 2, NAME = 24 };

/* Of d, the key's number less the query's, so far both ways. */
enum { FAR = 40, ALL = 2 * FAR + 1 };

static struct onnx_builder builder;
static struct base_random numbers;
static uint32_t n_names;

static uint32_t draw(uint32_t below)
{
    return base_random_below(&numbers, below);
}

static void new_name(char out[NAME])
{
    (void)snprintf(out, NAME, "n%u", n_names++);
}

/* A node of up to three operands, "" for none. */
static Onnx__NodeProto *node(const char *op, const char *a, const char *b, const char *c, char *out)
{
    char inputs[4 * NAME];
    const char *blanks[] = {b[0] == '\0' ? "" : " ", c[0] == '\0' ? "" : " "};
    (void)snprintf(inputs, sizeof(inputs), "%s%s%s%s%s", a, blanks[0], b, blanks[1], c);
    new_name(out);
    return onnx_node(&builder, op, inputs, out);
}

static void cast(const char *of, int32_t to, char *out)
{
    onnx_set_int(&builder, node("Cast", of, "", "", out), "to", to);
}

static void integer(int64_t number, char *out)
{
    new_name(out);
    onnx_constant(&builder, out, onnx_ints(&builder, 0, 1, &number));
}

static void number(float number_of, char *out)
{
    new_name(out);
    onnx_constant(&builder, out, onnx_tensor(&builder, FLOAT, 0, NULL, &number_of, sizeof(float)));
}

/* ---- Integers and floats of distances ------------------------------------------------------- */

/* A value's name, and what it is at each distance. */
struct of_distance {
    char name[NAME];
    double at[ALL];
};

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The distance itself: of keys and queries as rows and columns. */
static void distance(struct of_distance *out)
{
    (void)node("Sub", "keys", "queries", "", out->name);
    for (int32_t d = -FAR; d <= FAR; d++) {
        out->at[d + FAR] = d;
    }
}

static double absolute(double x, double c)
{
    (void)c;
    return fabs(x);
}

static double negative(double x, double c)
{
    (void)c;
    return -x;
}

static double within(double x, double c)
{
    return larger(smaller(x, c), -c);
}

static double product(double x, double c)
{
    return x * c;
}

static double if_above(double x, double c)
{
    return x > c ? x : 0.0;
}

static void write_abs(const char *x, const char *c, const char *less, char *out)
{
    (void)c, (void)less;
    (void)node("Abs", x, "", "", out);
}

static void write_neg(const char *x, const char *c, const char *less, char *out)
{
    (void)c, (void)less;
    (void)node("Neg", x, "", "", out);
}

static void write_min(const char *x, const char *c, const char *less, char *out)
{
    (void)less;
    (void)node("Min", x, c, "", out);
}

static void write_max(const char *x, const char *c, const char *less, char *out)
{
    (void)less;
    (void)node("Max", c, x, "", out);
}

static void write_clip(const char *x, const char *c, const char *less, char *out)
{
    (void)node("Clip", x, less, c, out);
}

static void write_mul(const char *x, const char *c, const char *less, char *out)
{
    (void)less;
    (void)node("Mul", x, c, "", out);
}

/* The condition as 0 and 1. */
static void write_above(const char *x, const char *c, const char *less, char *out)
{
    char condition[NAME];
    (void)less;
    (void)node("Greater", x, c, "", condition);
    cast(condition, INT64, condition);
    (void)node("Mul", condition, x, "", out);
}

static void write_where(const char *x, const char *c, const char *less, char *out)
{
    char condition[NAME];
    (void)less;
    (void)node("Less", x, c, "", condition);
    (void)node("Where", condition, x, c, out);
}

/* What makes of integer x and number c another integer. */
static const struct {
    void (*write)(const char *x, const char *c, const char *less, char *out); /* less: -c */
    double (*of)(double x, double c);
} integers[] = {{write_abs, absolute},   {write_neg, negative}, {write_min, smaller},
                {write_max, larger},     {write_clip, within},  {write_mul, product},
                {write_above, if_above}, {write_where, smaller}};

/* Of an integer of distances another one. */
static void next_integer(struct of_distance *x)
{
    const int64_t by = 1 + (int64_t)draw(6);
    const uint32_t way = draw(sizeof(integers) / sizeof(integers[0]));
    const struct of_distance before = *x;
    char constant[NAME];
    char less[NAME];
    integer(by, constant);
    integer(-by, less);
    integers[way].write(before.name, constant, less, x->name);
    for (uint32_t i = 0; i < ALL; i++) {
        x->at[i] = integers[way].of(before.at[i], (double)by);
    }
}

/* Looked up in a table of its own, whose rows are along axis 0 or 1, or by GatherND; below 0 from
 * the end on. */
static void looked_up(struct of_distance *x)
{
    enum { ROWS = 256 };
    float table[ROWS];
    const uint32_t way = draw(3);
    const int64_t dims[] = {way == 1 ? 1 : ROWS, way == 1 ? ROWS : 1};
    char name[NAME];
    char index[NAME];
    struct of_distance before = *x;
    for (uint32_t i = 0; i < ROWS; i++) {
        table[i] = base_random_f32(&numbers, -1.0f, 1.0f);
    }
    new_name(name);
    onnx_constant(&builder, name, onnx_tensor(&builder, FLOAT, 2, dims, table, sizeof(table)));
    if (way == 2) {
        (void)node("Unsqueeze", before.name, "axis_last", "", index);
        (void)node("GatherND", name, index, "", x->name);
    } else {
        onnx_set_int(&builder, node("Gather", name, before.name, "", x->name), "axis",
                     way == 1 ? 1 : 0);
    }
    before = *x;
    (void)node("Squeeze", before.name, way == 1 ? "axis0" : "axis_last", "", x->name);
    for (uint32_t i = 0; i < ALL; i++) {
        const int64_t at = (int64_t)before.at[i];
        ck_assert(at >= -ROWS && at < ROWS);
        x->at[i] = (double)table[at < 0 ? at + ROWS : at];
    }
}

/* As a float, of which a function is computed that stays small. */
static void as_float(struct of_distance *x)
{
    const uint32_t way = draw(3);
    const float by = base_random_f32(&numbers, 0.01f, 0.3f);
    char constant[NAME];
    char scaled[NAME];
    cast(x->name, FLOAT, scaled);
    number(by, constant);
    (void)node("Mul", scaled, constant, "", scaled);
    if (way == 0) {
        (void)snprintf(x->name, NAME, "%s", scaled);
    } else {
        (void)node(way == 1 ? "Tanh" : "Sin", scaled, "", "", x->name);
    }
    for (uint32_t i = 0; i < ALL; i++) {
        const double at = x->at[i] * (double)by;
        x->at[i] = way == 0 ? at : way == 1 ? tanh(at) : sin(at);
    }
}

/* A float for each distance. */
static void any_float(struct of_distance *out)
{
    distance(out);
    for (uint32_t n = draw(3); n > 0; n--) {
        next_integer(out);
    }
    bool is_small = true;
    for (uint32_t i = 0; i < ALL; i++) {
        is_small = is_small && fabs(out->at[i]) < 250.0;
    }
    if (is_small && draw(2) == 0) {
        looked_up(out);
    } else {
        as_float(out);
    }
}

/* ---- Attention ------------------------------------------------------------------------------ */

/* Scores of all pairs, and numbers of steps. */
static void begin(void)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const int64_t axes[] = {0, 1, -1};
    const int64_t perm[] = {0, 2, 1};
    n_names = 0;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "y", FLOAT, 3, dims);
    onnx_constant(&builder, "axis0", onnx_ints(&builder, 1, 1, &axes[0]));
    onnx_constant(&builder, "axis1", onnx_ints(&builder, 1, 1, &axes[1]));
    onnx_constant(&builder, "axis_last", onnx_ints(&builder, 1, 1, &axes[2]));
    onnx_constant(&builder, "zero", onnx_ints(&builder, 0, 1, &axes[0]));
    onnx_constant(&builder, "one", onnx_ints(&builder, 0, 1, &axes[1]));
    onnx_node(&builder, "Shape", "y", "shape");
    onnx_node(&builder, "Gather", "shape axis1", "steps");
    onnx_node(&builder, "Squeeze", "steps axis0", "step_count");
    onnx_node(&builder, "Range", "zero step_count one", "step_numbers");
    onnx_node(&builder, "Unsqueeze", "step_numbers axis0", "keys");
    onnx_node(&builder, "Unsqueeze", "step_numbers axis1", "queries");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "yt"), "perm", 3, perm);
    onnx_node(&builder, "MatMul", "y yt", "scores");
}

/* A GRU says which axis is time. */
static void end(const char *scores)
{
    const int64_t perm[] = {1, 0, 2};
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", scores, "weights"), "axis", -1);
    onnx_node(&builder, "MatMul", "weights y", "o");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "gru"), "hidden_size",
                 HIDDEN);
    onnx_output(&builder, "o", FLOAT, 0, NULL);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

/* What is added to a score: a number of the distance, and a vector's product with the query. */
struct expected {
    const double *bias;   /* of d; NULL: none */
    const float *vectors; /* [2 FAR + 1][WIDTH], of d; NULL: none */
    int32_t last;         /* keys beyond are masked */
};

/* By the plain sums. */
static void expect_attention(const double *y, int32_t steps, const struct expected *expected,
                             const double *got)
{
    for (int32_t query = 0; query < steps; query++) {
        double sums[WIDTH] = {0.0};
        double sum = 0.0;
        for (int32_t key = 0; key < steps; key++) {
            const int32_t d = key - query + FAR;
            double score = expected->bias != NULL ? expected->bias[d] : 0.0;
            for (int32_t k = 0; k < WIDTH; k++) {
                const double vector =
                    expected->vectors != NULL ? (double)expected->vectors[d * WIDTH + k] : 0.0;
                score += y[query * WIDTH + k] * (y[key * WIDTH + k] + vector);
            }
            const double weight = key - query <= expected->last ? exp(score) : 0.0;
            sum += weight;
            for (int32_t k = 0; k < WIDTH; k++) {
                sums[k] += weight * y[key * WIDTH + k];
            }
        }
        for (int32_t k = 0; k < WIDTH; k++) {
            util_assert_close(got[query * WIDTH + k], sums[k] / sum, 1e-5, 0);
        }
    }
}

/* Requests of 1 step up to `longest`. Releases the builder. */
static void run(const struct expected *expected, int64_t longest)
{
    struct built built;
    load_built(&builder, &built);
    for (int64_t steps = 1; steps <= longest; steps += 5) {
        const int64_t dims[] = {BATCH, steps, WIDTH};
        struct replay_tensor y = replay_tensor_random(3, dims, &numbers);
        struct replay_tensor outputs[2] = {{.rank = 0}};
        replay_run(built.model, &y, outputs);
        for (int64_t b = 0; b < BATCH; b++) {
            const size_t at = (size_t)(b * steps * WIDTH);
            expect_attention(y.data + at, (int32_t)steps, expected, outputs[0].data + at);
        }
        base_free(y.data);
        base_free(outputs[0].data);
        base_free(outputs[1].data);
    }
    free_built(&builder, &built);
}

/* _i: seeds. */
START_TEST(test_a_number_for_each_distance)
{
    struct of_distance bias;
    char scores[NAME];
    numbers = util_random((uint64_t)_i + 1);
    begin();
    any_float(&bias);
    (void)node(draw(2) == 0 ? "Add" : "Sub", "scores", bias.name, "", scores);
    const bool is_less = strcmp(builder.graph.node[builder.graph.n_node - 1]->op_type, "Sub") == 0;
    for (uint32_t i = 0; i < ALL && is_less; i++) {
        bias.at[i] = -bias.at[i];
    }
    end(scores);
    run(&(struct expected){.bias = bias.at, .last = FAR}, LONGEST);
}
END_TEST

/* Two of them, and a causal mask among them. */
START_TEST(test_several_beside_a_mask)
{
    struct of_distance bias[2];
    double sum[ALL];
    char scores[NAME];
    char masked[NAME];
    char low[NAME];
    numbers = util_random(5);
    begin();
    any_float(&bias[0]);
    any_float(&bias[1]);
    number(-INFINITY, low);
    onnx_node(&builder, "Greater", "keys queries", "is_after");
    (void)node("Where", "is_after", low, bias[0].name, masked); // a mask within the bias
    (void)node("Add", "scores", masked, "", scores);
    (void)node("Add", bias[1].name, scores, "", scores);
    for (uint32_t i = 0; i < ALL; i++) {
        sum[i] = bias[0].at[i] + bias[1].at[i];
    }
    end(scores);
    run(&(struct expected){.bias = sum, .last = 0}, LONGEST);
}
END_TEST

/* r of distances cut to `reach` both ways; *vectors: of all. */
static void embedding(int32_t reach, float vectors[ALL * WIDTH])
{
    const int64_t dims[] = {2 * reach + 1, WIDTH};
    const size_t bytes = (size_t)(dims[0] * WIDTH) * sizeof(float);
    char low[NAME];
    char high[NAME];
    for (int32_t d = -FAR; d <= FAR; d++) {
        const int32_t at = d < -reach ? -reach : d > reach ? reach : d;
        for (int32_t k = 0; k < WIDTH; k++) {
            float *to = &vectors[(d + FAR) * WIDTH + k];
            *to = d == at ? base_random_f32(&numbers, -1.0f, 1.0f) : 0.0f;
        }
    }
    onnx_constant(&builder, "table",
                  onnx_tensor(&builder, FLOAT, 2, dims, &vectors[(FAR - reach) * WIDTH], bytes));
    for (int32_t d = -FAR; d <= FAR; d++) {
        const int32_t at = d < -reach ? -reach : d > reach ? reach : d;
        memcpy(&vectors[(d + FAR) * WIDTH], &vectors[(at + FAR) * WIDTH], WIDTH * sizeof(float));
    }
    integer(-reach, low);
    integer(reach, high);
    onnx_node(&builder, "Sub", "keys queries", "d");
    char inputs[4 * NAME];
    (void)snprintf(inputs, sizeof(inputs), "d %s %s", low, high);
    onnx_node(&builder, "Clip", inputs, "near");
    (void)snprintf(inputs, sizeof(inputs), "near %s", high);
    onnx_node(&builder, "Add", inputs, "row");
    onnx_node(&builder, "Gather", "table row", "rows"); // [steps, steps, WIDTH]
}

/* Vectors of distances, multiplied by the query. */
START_TEST(test_a_vector_for_each_distance)
{
    float vectors[ALL * WIDTH];
    numbers = util_random(6);
    begin();
    embedding(3, vectors);
    const int64_t two = 2;
    onnx_constant(&builder, "axis2", onnx_ints(&builder, 1, 1, &two));
    onnx_node(&builder, "Unsqueeze", "y axis2", "asked"); // [batch, steps, 1, WIDTH]
    onnx_node(&builder, "Mul", "asked rows", "products");
    onnx_set_int(&builder, onnx_node(&builder, "ReduceSum", "products axis_last", "relative"),
                 "keepdims", 0);
    onnx_node(&builder, "Add", "scores relative", "all");
    end("all");
    run(&(struct expected){.vectors = vectors, .last = FAR}, LONGEST);
}
END_TEST

/* The same by Einsum, beside a number. */
START_TEST(test_vectors_by_einsum)
{
    float vectors[ALL * WIDTH];
    struct of_distance bias;
    char scores[NAME];
    numbers = util_random(7);
    begin();
    embedding(5, vectors);
    any_float(&bias);
    onnx_set_string(&builder, onnx_node(&builder, "Einsum", "y rows", "relative"), "equation",
                    "bid,ijd->bij");
    (void)node("Add", "scores", "relative", "", scores);
    (void)node("Add", scores, bias.name, "", scores);
    end(scores);
    run(&(struct expected){.bias = bias.at, .vectors = vectors, .last = FAR}, LONGEST);
}
END_TEST

/* ---- Tables of distances, shifted ----------------------------------------------------------- */

enum { TABLE_REACH = 30 };

/* What is otherwise than a shift has it. */
enum wrong { NOTHING, FIRST, TURNED, AGAIN, LAST, AXIS, BEHIND, CENTRE, LONGER, WRONGS };

/* The relative scores of y and a table of vectors for distances, the nearest behind first where
 * Transformer-XL has the farthest. is_padded: by Pad, else by Concat. */
static void shifted(bool is_padded, enum wrong wrong, float vectors[ALL * WIDTH])
{
    const int64_t dims[] = {1, 2 * TABLE_REACH + 1, WIDTH};
    const int64_t pads[] = {0, 0, wrong == BEHIND ? 0 : 1, 0, 0, wrong == BEHIND ? 1 : 0};
    const int64_t first = wrong == FIRST ? 2 : 1;
    const int64_t centre = TABLE_REACH + 1;
    const int64_t less = centre - 1 + (wrong == LONGER ? 1 : 0) + (wrong == CENTRE ? 1 : 0);
    const int64_t open = -1;
    const int64_t far = INT64_MAX;
    const int64_t axis = wrong == AXIS ? 2 : 1;
    const int64_t two = 2;
    const int64_t perm[] = {0, 2, 1};
    for (uint32_t i = 0; i < ALL * WIDTH; i++) {
        vectors[i] = base_random_f32(&numbers, -1.0f, 1.0f);
    }
    onnx_constant(&builder, "table",
                  onnx_tensor(&builder, FLOAT, 3, dims, &vectors[(FAR - TABLE_REACH) * WIDTH],
                              (size_t)dims[1] * WIDTH * sizeof(float)));
    onnx_constant(&builder, "centre", onnx_ints(&builder, 1, 1, &centre));
    onnx_constant(&builder, "less", onnx_ints(&builder, 1, 1, &less));
    onnx_constant(&builder, "pads", onnx_ints(&builder, 1, 6, pads));
    onnx_constant(&builder, "open", onnx_ints(&builder, 1, 1, &open));
    onnx_constant(&builder, "first", onnx_ints(&builder, 1, 1, &first));
    onnx_constant(&builder, "far", onnx_ints(&builder, 1, 1, &far));
    onnx_constant(&builder, "axis", onnx_ints(&builder, 1, 1, &axis));
    onnx_constant(&builder, "axis2", onnx_ints(&builder, 1, 1, &two));
    onnx_node(&builder, "Gather", "shape axis0", "batch");
    onnx_node(&builder, "Sub", "centre steps", "from");
    onnx_node(&builder, "Add", "less steps", "to");
    onnx_node(&builder, "Slice", wrong == CENTRE ? "table axis1 to axis1" : "table from to axis1",
              "near"); // [1, 2 steps - 1, WIDTH]
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "near", "near_t"), "perm", 3, perm);
    onnx_node(&builder, "MatMul", "y near_t", "by_distance");
    onnx_node(&builder, "Shape", "by_distance", "by_distance_shape");
    if (is_padded) {
        onnx_node(&builder, "Pad", "by_distance pads", "padded");
    } else {
        const char *inputs = "batch steps axis1";
        onnx_set_int(&builder, onnx_node(&builder, "Concat", inputs, "zeros_shape"), "axis", 0);
        onnx_node(&builder, "ConstantOfShape", "zeros_shape", "zeros");
        onnx_set_int(&builder,
                     onnx_node(&builder, "Concat",
                               wrong == BEHIND ? "by_distance zeros" : "zeros by_distance",
                               "padded"),
                     "axis", -1);
    }
    onnx_set_int(&builder,
                 onnx_node(&builder, "Concat",
                           wrong == TURNED ? "batch steps open" : "batch open steps",
                           "turned_shape"),
                 "axis", 0);
    onnx_node(&builder, "Reshape", "padded turned_shape", "turned_round");
    onnx_node(&builder, "Slice", "turned_round first far axis", "but_first");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "batch open steps", "again_shape"), "axis",
                 0);
    onnx_node(&builder, "Reshape",
              wrong == AGAIN ? "but_first again_shape" : "but_first by_distance_shape", "again");
    onnx_node(&builder, "Sub", "steps axis1", "fewer");
    onnx_node(&builder, "Slice",
              wrong == LAST ? "again axis0 fewer axis2" : "again axis0 steps axis2", "relative");
}

/* _i: by Concat, and by Pad. */
START_TEST(test_shifted_distances)
{
    float vectors[ALL * WIDTH];
    numbers = util_random(8);
    begin();
    shifted(_i == 1, NOTHING, vectors);
    onnx_node(&builder, "Add", "scores relative", "all");
    end("all");
    run(&(struct expected){.vectors = vectors, .last = FAR}, LONGEST);
}
END_TEST

/* _i: what is wrong, of both. */
START_TEST(test_what_is_no_shift)
{
    float vectors[ALL * WIDTH];
    struct base_error error;
    numbers = util_random(9);
    begin();
    shifted(_i % 2 == 1, (enum wrong)(1 + _i / 2), vectors);
    onnx_node(&builder, "Add", "scores relative", "all");
    end("all");
    const enum base_status status = parse_built(&builder, &error);
    ck_assert_msg(status == BASE_UNIMPLEMENTED, "case %d", _i);
}
END_TEST

/* What is not shifted is no attention's. */
START_TEST(test_distances_of_their_own)
{
    static const struct {
        const char *output, *why;
    } cases[] = {{"near", "relative positions elsewhere"},
                 {"farthest", "relative positions elsewhere"},
                 {"by_distance", "for each pair of steps"},
                 {"relative", "for each pair of steps"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        float vectors[ALL * WIDTH];
        numbers = util_random(10);
        begin();
        shifted(false, NOTHING, vectors);
        end("scores");
        onnx_set_int(&builder, onnx_node(&builder, "Gather", "near zero", "farthest"), "axis", 1);
        onnx_output(&builder, cases[i].output, FLOAT, 0, NULL);
        builder.graph.output[2]->type = NULL;
        expect_refused(&builder, BASE_UNIMPLEMENTED, cases[i].why);
    }
}
END_TEST

/* ---- Steps ---------------------------------------------------------------------------------- */

/* As many as a table has rows for; as many as anybody likes where all that are far are alike. */
START_TEST(test_a_table_bounds_the_steps)
{
    struct built built;
    float vectors[ALL * WIDTH];
    numbers = util_random(11);
    begin();
    shifted(false, NOTHING, vectors);
    onnx_node(&builder, "Add", "scores relative", "all");
    end("all");
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->sequences[built.model->inputs[0].sequence].steps_max,
                      TABLE_REACH + 1);
    free_built(&builder, &built);
    begin();
    embedding(3, vectors);
    onnx_set_string(&builder, onnx_node(&builder, "Einsum", "y rows", "relative"), "equation",
                    "bid,ijd->bij");
    onnx_node(&builder, "Add", "scores relative", "all");
    end("all");
    load_built(&builder, &built);
    for (uint32_t s = 0; s < built.model->n_sequences; s++) {
        ck_assert_uint_eq(built.model->sequences[s].steps_max, 0);
    }
    free_built(&builder, &built);
}
END_TEST

/* ---- Refused -------------------------------------------------------------------------------- */

START_TEST(test_what_follows_from_more_than_the_distance)
{
    static const struct {
        const char *op, *inputs, *why;
    } cases[] = {
        {"Mul", "keys_float queries_float", "follows from more than how far apart"},
        {"Add", "keys_float queries_float", "that is no attention"},
        {"Log", "far_float", "that is infinite, or none"},
        {"Sqrt", "d_float", "follows from more than how far apart"}, // no number
        {"Relu", "later", "that is another one"}, // of steps that no table reaches
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        numbers = util_random(12);
        begin();
        onnx_node(&builder, "Sub", "keys queries", "d");
        onnx_node(&builder, "Abs", "d", "far");
        static const char *const casts[] = {"keys", "queries", "d", "far"};
        for (size_t k = 0; k < sizeof(casts) / sizeof(casts[0]); k++) {
            char name[NAME];
            (void)snprintf(name, sizeof(name), "%s_float", casts[k]);
            onnx_set_int(&builder, onnx_node(&builder, "Cast", casts[k], name), "to", FLOAT);
        }
        char inputs[2 * NAME];
        char many[NAME];
        number(100000.0f, many);
        onnx_node(&builder, "Min", "keys_float queries_float", "earlier");
        (void)snprintf(inputs, sizeof(inputs), "earlier %s", many);
        onnx_node(&builder, "Sub", inputs, "later");
        onnx_node(&builder, cases[i].op, cases[i].inputs, "bias");
        onnx_node(&builder, "Tanh", "bias", "bounded");
        onnx_node(&builder, "Add", i == 1 ? "scores bounded" : "scores bias", "all");
        end("all");
        expect_refused(&builder, BASE_UNIMPLEMENTED, i == 1 ? cases[0].why : cases[i].why);
    }
}
END_TEST

/* Tables that have no row for the first steps; integers of one step, which a device would look up.
 */
START_TEST(test_lookups_that_are_refused)
{
    static const struct {
        const char *index, *why;
    } cases[] = {{"beyond", "of which the table has none"},
                 {"doubled", "what is no sum, difference"},
                 {"several", "several ids a row on axis 1"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t dims[] = {i == 2 ? 3 : 8, i == 2 ? 8 : 1};
        const int64_t hundred = 100;
        const int64_t ids[] = {-1, 2};
        numbers = util_random(13);
        begin();
        onnx_constant(&builder, "hundred", onnx_ints(&builder, 0, 1, &hundred));
        onnx_constant(&builder, "table", onnx_random(&builder, 2, dims, &numbers, 1.0f));
        onnx_input(&builder, "several", INT64, 2, ids);
        onnx_node(&builder, "Sub", "keys queries", "d");
        onnx_node(&builder, "Add", "d hundred", "beyond");
        onnx_node(&builder, "Mul", "keys hundred", "doubled");
        char inputs[2 * NAME];
        (void)snprintf(inputs, sizeof(inputs), "table %s", cases[i].index);
        onnx_set_int(&builder, onnx_node(&builder, "Gather", inputs, "found"), "axis",
                     i == 2 ? 1 : 0);
        onnx_node(&builder, "Squeeze", "found axis_last", "bias");
        onnx_node(&builder, "Add", "scores bias", "all");
        end(i == 2 ? "scores" : "all");
        if (i == 2) {
            onnx_output(&builder, "found", FLOAT, 0, NULL);
            builder.graph.output[2]->type = NULL;
        }
        expect_refused(&builder, BASE_UNIMPLEMENTED, cases[i].why);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_relative");
    TCase *tcase = tcase_create("relative");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_a_number_for_each_distance, 0, 60);
    tcase_add_test(tcase, test_several_beside_a_mask);
    tcase_add_test(tcase, test_a_vector_for_each_distance);
    tcase_add_test(tcase, test_vectors_by_einsum);
    tcase_add_loop_test(tcase, test_shifted_distances, 0, 2);
    tcase_add_loop_test(tcase, test_what_is_no_shift, 0, 2 * (WRONGS - 1));
    tcase_add_test(tcase, test_distances_of_their_own);
    tcase_add_test(tcase, test_a_table_bounds_the_steps);
    tcase_add_test(tcase, test_what_follows_from_more_than_the_distance);
    tcase_add_test(tcase, test_lookups_that_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
