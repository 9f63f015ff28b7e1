/* What stands behind a shorter row of a batch (cells/import/behind.c): chains of element-wise
 * operators over masks by the lengths, gathered over the steps, against what ONNX gathers of all
 * steps. Some are drawn at random; what is served has to be right. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
};
enum { STEPS = 6, BATCH = 3, WIDTH = 2, ROWS = BATCH * WIDTH, COUNT = STEPS * ROWS };
enum { CHAINS = 3000, VALUES = 24 };

static const double lengths[BATCH] = {2, STEPS, 4};
static bool is_last; /* the RNN, of all nodes: then x is not of it, and has steps of its own */

/* A value of the graph, [time, batch, WIDTH] or what is spread to that. */
struct value {
    char name[16];
    bool is_free;  /* computed of x */
    bool is_large; /* computed of a mask */
    double at[COUNT];
    float rounded[COUNT]; /* the same in floats */
};

static struct onnx_builder builder;
static struct base_random numbers;
static struct value values[VALUES];
static uint32_t n_values;
static double x[COUNT];
static char chain[512]; /* as it is applied, for messages */
static bool is_odd;     /* something computed of x is not small beside a mask */

static uint32_t draw(uint32_t below)
{
    return base_random_below(&numbers, below);
}

static bool is_there(size_t i)
{
    const size_t step = i / ROWS;
    return (double)step < lengths[i / WIDTH % BATCH];
}

/* The next value, whose numbers are to be set. name: NULL for one of its own. */
static struct value *push(const char *name)
{
    ck_assert_uint_lt(n_values, VALUES);
    struct value *value = &values[n_values];
    *value = (struct value){.is_free = false};
    if (name == NULL) {
        (void)snprintf(value->name, sizeof(value->name), "v%u", n_values);
    } else {
        (void)snprintf(value->name, sizeof(value->name), "%s", name);
    }
    n_values++;
    return value;
}

static void push_mask(const char *name, double there, double behind)
{
    struct value *value = push(name);
    value->is_large = fabs(there) > 2.0 || fabs(behind) > 2.0;
    for (size_t i = 0; i < COUNT; i++) {
        value->at[i] = is_there(i) ? there : behind;
        value->rounded[i] = (float)value->at[i];
    }
}

static void push_constant(const char *name, float number)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, FLOAT, 0, NULL, &number, sizeof(number)));
    push_mask(name, (double)number, (double)number);
}

/* x, drawn anew, plus what is 0 of an RNN over it that has the lengths; masks by them. */
static void begin(float mask)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const int64_t any[] = {-1};
    const int64_t ints[] = {0, 1, 2};
    n_values = 0;
    chain[0] = '\0';
    is_odd = false;
    onnx_init(&builder, 17);
    onnx_input(&builder, "given", FLOAT, 3, dims);
    onnx_input(&builder, "lengths", INT32, 1, any);
    onnx_add_weights(&builder, "RNN", WIDTH, WIDTH, 3);
    onnx_constant(&builder, "axis0", onnx_ints(&builder, 1, 1, &ints[0]));
    onnx_constant(&builder, "axis1", onnx_ints(&builder, 1, 1, &ints[1]));
    onnx_constant(&builder, "axis2", onnx_ints(&builder, 1, 1, &ints[2]));
    onnx_constant(&builder, "first", onnx_ints(&builder, 0, 1, &ints[0]));
    onnx_constant(&builder, "each", onnx_ints(&builder, 0, 1, &ints[1]));
    push_constant("low", mask);
    push_constant("high", -mask);
    push_constant("zero", 0.0f);
    push_constant("one", 1.0f);
    push_constant("two", 2.0f);
    push_constant("less", -2.0f);
    onnx_set_int(&builder, onnx_node(&builder, "RNN", "given w r b lengths", "directions"),
                 "hidden_size", WIDTH);
    onnx_node(&builder, "Squeeze", "directions axis1", "h");
    onnx_node(&builder, "Mul", is_last ? "given zero" : "h zero", "nothing");
    onnx_node(&builder, "Add", "given nothing", "x");
    onnx_node(&builder, "Shape", "given", "shape");
    onnx_node(&builder, "Gather", "shape first", "steps");
    onnx_node(&builder, "Range", "first steps each", "range");
    onnx_node(&builder, "Unsqueeze", "range axis1", "numbers");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "lengths", "long"), "to", INT64);
    onnx_node(&builder, "Less", "numbers long", "of_rows");
    onnx_node(&builder, "Unsqueeze", "of_rows axis2", "there");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "there", "ones"), "to", FLOAT);
    push_mask("ones", 1.0, 0.0);
    onnx_node(&builder, "Where", "there zero low", "masks");
    push_mask("masks", 0.0, (double)mask);
    struct value *of_input = push("x");
    of_input->is_free = true;
    for (size_t i = 0; i < COUNT; i++) {
        of_input->rounded[i] = base_random_f32(&numbers, -1.0f, 1.0f);
        of_input->at[i] = (double)of_input->rounded[i];
    }
    memcpy(x, of_input->at, sizeof(x));
}

/* ---- Chains --------------------------------------------------------------------------------- */

/* NaN wins. */
static double larger(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static double add(double a, double b)
{
    return a + b;
}

static double subtract(double a, double b)
{
    return a - b;
}

static double multiply(double a, double b)
{
    return a * b;
}

static double divide(double a, double b)
{
    return a / b;
}

static double smaller(double a, double b)
{
    return -larger(-a, -b);
}

static double exponential(double a, double b)
{
    (void)b;
    return exp(a);
}

static double negative(double a, double b)
{
    (void)b;
    return -a;
}

static double rectified(double a, double b)
{
    (void)b;
    return larger(a, 0.0);
}

static double size_of(double a, double b)
{
    (void)b;
    return fabs(a);
}

static double tangent(double a, double b)
{
    (void)b;
    return tanh(a);
}

static double root(double a, double b)
{
    (void)b;
    return sqrt(a);
}

static double sigmoid(double a, double b)
{
    (void)b;
    return 1.0 / (1.0 + exp(-a));
}

/* Operators; those of two operands first. Where: by "there", see apply(). */
enum { PAIRS = 7, OPS = 14 };

static const struct {
    const char *name;
    double (*of)(double a, double b);
} ops[OPS] = {
    {"Add", add},      {"Sub", subtract},    {"Mul", multiply}, {"Div", divide},
    {"Min", smaller},  {"Max", larger},      {"Where", NULL},   {"Exp", exponential},
    {"Neg", negative}, {"Relu", rectified},  {"Abs", size_of},  {"Tanh", tangent},
    {"Sqrt", root},    {"Sigmoid", sigmoid},
};

static uint32_t find_op(const char *name)
{
    uint32_t op = 0;
    while (op < OPS && strcmp(ops[op].name, name) != 0) {
        op++;
    }
    ck_assert_uint_lt(op, OPS);
    return op;
}

static double computed(uint32_t op, double a, double b, bool there)
{
    return ops[op].of == NULL ? (there ? a : b) : ops[op].of(a, b);
}

/* b: NULL for an operator of one operand. */
static void apply(uint32_t op, const struct value *a, const struct value *b)
{
    static const struct value none = {.is_free = false};
    const struct value *other = b == NULL ? &none : b;
    struct value *out = push(NULL);
    char inputs[64];
    (void)snprintf(inputs, sizeof(inputs), "%s%.15s%s%.15s", ops[op].of == NULL ? "there " : "",
                   a->name, b == NULL ? "" : " ", other->name);
    onnx_node(&builder, ops[op].name, inputs, out->name);
    (void)snprintf(chain + strlen(chain), sizeof(chain) - strlen(chain), "%s = %s(%s); ", out->name,
                   ops[op].name, inputs);
    out->is_free = a->is_free || other->is_free;
    out->is_large = a->is_large || other->is_large;
    for (size_t i = 0; i < COUNT; i++) {
        out->at[i] = computed(op, a->at[i], other->at[i], is_there(i));
        out->rounded[i] =
            (float)computed(op, (double)a->rounded[i], (double)other->rounded[i], is_there(i));
        is_odd = is_odd || (out->is_free && !out->is_large && fabs(out->at[i]) > 1e3);
    }
}

/* What is computed of x stays small beside a mask. */
static void draw_pair(uint32_t op, const struct value *a, const struct value *b)
{
    const bool is_scaled = (a->is_free && b->is_large) || (a->is_large && b->is_free);
    const bool is_open = b->is_free || b->at[0] * b->at[COUNT - 1] == 0.0; // over 0, or nearly
    const bool is_odd_one =
        (ops[op].of == multiply && is_scaled) || (ops[op].of == divide && is_open);
    apply(is_odd_one ? find_op("Sub") : op, a, b);
}

static void draw_chain(void)
{
    const uint32_t n = 1 + draw(6);
    for (uint32_t i = 0; i < n; i++) {
        const struct value *a = &values[draw(2) == 0 ? n_values - 1 : draw(n_values)];
        const struct value *b = &values[draw(n_values)];
        const uint32_t pair = draw(3) == 0 ? 0 : draw(PAIRS); // many sums
        if (draw(3) == 0) {
            apply(PAIRS + draw(OPS - PAIRS), a, NULL);
        } else if (draw(2) == 0) {
            draw_pair(pair, a, b);
        } else {
            draw_pair(pair, b, a);
        }
    }
}

static const struct value *find(const char *name)
{
    for (uint32_t i = 0; i < n_values; i++) {
        if (strcmp(values[i].name, name) == 0) {
            return &values[i];
        }
    }
    ck_abort_msg("no %s", name);
    return NULL;
}

/* Operators with their operands, one behind the other; "." is the result of the one before. */
static void apply_all(const char *text)
{
    char op[16];
    char a[16];
    char b[16];
    for (int n = 0, got = 0; (got = sscanf(text, "%15s %15[^ ;] %15[^ ;]%n", op, a, b, &n)) >= 2;) {
        const struct value *last = &values[n_values - 1];
        const struct value *first = a[0] == '.' ? last : find(a);
        apply(find_op(op), first, got == 2 ? NULL : b[0] == '.' ? last : find(b));
        text = strchr(text, ';');
        if (text == NULL) {
            return;
        }
        text++;
    }
}

/* ---- What is gathered ----------------------------------------------------------------------- */

/* "y", of the last value spread over x's features. how: ReduceSum, ReduceMax or ReduceMin. */
static void finish(const char *how)
{
    char inputs[64];
    const int64_t first = 0;
    (void)snprintf(inputs, sizeof(inputs), "%s spread", values[n_values - 1].name);
    onnx_node(&builder, "Mul", "x zero", "spread");
    onnx_node(&builder, "Add", inputs, "whole");
    const bool is_sum = strcmp(how, "ReduceSum") == 0; // whose axes are an input
    Onnx__NodeProto *node = onnx_node(&builder, how, is_sum ? "whole axis0" : "whole", "y");
    if (!is_sum) {
        onnx_set_ints(&builder, node, "axes", 1, &first);
    }
    onnx_set_int(&builder, node, "keepdims", 0);
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    onnx_output(&builder, "h", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
    if (is_last) {
        Onnx__NodeProto **nodes = builder.graph.node;
        Onnx__NodeProto *const rnn[] = {nodes[0], nodes[1]};
        const size_t n = builder.graph.n_node - 2;
        memmove(nodes, nodes + 2, n * sizeof(void *));
        memcpy(nodes + n, rnn, sizeof(rnn));
    }
}

/* is_rounded: in floats. */
static double gathered(const char *how, size_t row, bool is_rounded)
{
    const struct value *of = &values[n_values - 1];
    double result = is_rounded ? (double)of->rounded[row] : of->at[row];
    for (size_t i = row + ROWS; i < COUNT; i += ROWS) {
        const double at = is_rounded ? (double)of->rounded[i] : of->at[i];
        result = strcmp(how, "ReduceSum") == 0   ? result + at
                 : strcmp(how, "ReduceMax") == 0 ? larger(result, at)
                                                 : -larger(-result, -at);
    }
    return result;
}

static bool is_close(double a, double b)
{
    return fabs(a - b) <= 2e-3 * (1.0 + fabs(b));
}

/* What is served has to be as ONNX has it, but where floats are too coarse to say. */
static void expect_right(const struct cell_model *model, const char *how)
{
    double of_lengths[BATCH];
    double of_x[COUNT];
    memcpy(of_lengths, lengths, sizeof(lengths));
    memcpy(of_x, x, sizeof(x));
    const struct replay_tensor inputs[] = {
        {.rank = 3, .dims = {STEPS, BATCH, WIDTH}, .count = COUNT, .data = of_x},
        {.rank = 1, .dims = {BATCH}, .count = BATCH, .data = of_lengths}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    replay_run(model, inputs, outputs);
    ck_assert_uint_eq(outputs[0].count, ROWS);
    for (size_t row = 0; row < ROWS; row++) {
        const double wanted = gathered(how, row, false);
        const double got = outputs[0].data[row];
        ck_assert_msg(!is_close(gathered(how, row, true), wanted) || is_close(got, wanted),
                      "%s%s: %g, wanted %g", chain, how, got, wanted);
    }
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

/* Whether it is served. */
static bool serve(const char *how)
{
    struct base_error error;
    struct built built;
    finish(how);
    const enum base_status status = try_built(&builder, &built, &error);
    if (status == BASE_OK) {
        expect_right(built.model, how);
    }
    free_built(&builder, &built);
    return status == BASE_OK;
}

START_TEST(test_chains)
{
    static const char *const ways[] = {"ReduceSum", "ReduceMax", "ReduceMin"};
    static const float masks[] = {-1e9f, -1e4f, -INFINITY, -1e30f};
    uint32_t n_served = 0;
    numbers = util_random(17);
    for (uint32_t i = 0; i < CHAINS; i++) {
        is_last = draw(2) == 0;
        begin(masks[draw(4)]);
        draw_chain();
        if (is_odd) {
            onnx_release(&builder);
            continue;
        }
        n_served += serve(ways[draw(3)]) ? 1 : 0;
    }
    ck_assert_uint_ge(n_served, CHAINS / 20); // most of them gather what has no mask
}
END_TEST

static const struct fixed {
    const char *how, *chain;
    bool is_served;
} fixed[] = {
    {"ReduceMax", "Add x masks", true},
    {"ReduceMax", "Where x low", true},
    {"ReduceMax", "Add x masks; Sub . x", true},
    {"ReduceMax", "Sub x masks; Neg .", true},
    {"ReduceMax", "Where zero high; Sub x .", true},
    {"ReduceMax", "Add x masks; Add . masks; Min . x", true},
    {"ReduceMin", "Where x high", true},
    {"ReduceSum", "Add x masks; Exp .", true},
    {"ReduceSum", "Add x masks; Div . high; Exp .", false}, // -1, or so
    {"ReduceMax", "Add x masks; Div . two", true},
    {"ReduceSum", "Add x masks; Relu .", true},
    {"ReduceSum", "Min x masks; Sub . masks", true},
    {"ReduceSum", "Exp x; Mul . ones", true},
    // The mask is taken off again, or turned.
    {"ReduceSum", "Add x masks; Sub . masks", false},
    {"ReduceSum", "Add x masks; Add . high", false},
    {"ReduceSum", "Add x masks; Add . high; Where x .", false},
    {"ReduceSum", "Sub masks x; Sub . masks", false},
    {"ReduceMax", "Sub x masks; Add . masks", false},
    {"ReduceMax", "Sub x masks; Abs .; Min . low", false},
    {"ReduceMax", "Add x masks; Mul . less", false},
    {"ReduceMin", "Add x masks; Abs .", false},
    // All that is there is as low.
    {"ReduceMax", "Add x low", false},
    {"ReduceMin", "Add x high", false},
    {"ReduceMax", "Add x low; Where . low", false},
};

START_TEST(test_fixed_chains)
{
    const struct fixed *at = &fixed[_i / 2];
    numbers = util_random(1);
    is_last = _i % 2 != 0;
    begin(-1e9f);
    apply_all(at->chain);
    const bool is_served = serve(at->how);
    ck_assert_msg(is_served == (at->is_served || is_last), "%s%s", chain, at->how);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_behind");
    TCase *tcase = tcase_create("behind");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_chains);
    tcase_add_loop_test(tcase, test_fixed_chains, 0, 2 * sizeof(fixed) / sizeof(fixed[0]));
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
