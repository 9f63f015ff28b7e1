/* Activations, clip and coupled gates of LSTM, GRU and RNN: each against the equations of the ONNX
 * specification in double precision, written down here once more; and when the one op still does.
 */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { IN = 3, HIDDEN = 4, BATCH = 2, TIME = 5, SEED = 11, GATES_MAX = 4 };

static struct onnx_builder builder;
static struct cell_registry *registry;
static struct cell_model *model;
static struct base_error last_error;

/* ---- Models ------------------------------------------------------------------------------- */

/* x [time, batch, IN] and one node whose h of all steps is the output. */
static Onnx__NodeProto *begin(const char *op)
{
    const int64_t x[] = {-1, -1, IN};
    onnx_init(&builder, 14);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_add_weights(&builder, op, IN, HIDDEN, SEED);
    onnx_output(&builder, "y", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    bool is_lstm = strcmp(op, "LSTM") == 0;
    return onnx_node(&builder, op, is_lstm ? "x w r b - - - p" : "x w r b", "y");
}

static void load(void)
{
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length, NULL}, "test", NULL, &model, &last_error);
    ck_assert_msg(status == BASE_OK, "%s", last_error.message);
}

static void end(void)
{
    cell_model_free(registry, model);
    cell_registry_free(registry);
    onnx_release(&builder);
}

/* Whether the node is the one op of its name, and not a body of small ones. */
static bool is_one_op(void)
{
    const struct cell_def *def = &model->stages[0].type->def;
    ck_assert_uint_eq(model->n_stages, 1);
    return def->n_ops == 1 && cell_op_gates(def->ops[0].kind) > 0;
}

static const float *weights(const char *name)
{
    for (size_t i = 0; i < builder.graph.n_initializer; i++) {
        if (strcmp(builder.graph.initializer[i]->name, name) == 0) {
            return (const float *)(const void *)builder.graph.initializer[i]->raw_data.data;
        }
    }
    ck_abort_msg("no weights %s", name);
    return NULL;
}

/* ---- The specification -------------------------------------------------------------------- */

/* A function, and what its factors are. */
struct function {
    const char *name;
    double alpha, beta;
};

static double apply(const struct function *f, double x)
{
    if (strcmp(f->name, "Sigmoid") == 0) {
        return 1.0 / (1.0 + exp(-x));
    }
    if (strcmp(f->name, "Tanh") == 0) {
        return tanh(x);
    }
    if (strcmp(f->name, "Relu") == 0) {
        return x > 0 ? x : 0;
    }
    if (strcmp(f->name, "LeakyRelu") == 0) {
        return x >= 0 ? x : f->alpha * x;
    }
    if (strcmp(f->name, "ThresholdedRelu") == 0) {
        return x > f->alpha ? x : 0;
    }
    if (strcmp(f->name, "ScaledTanh") == 0) {
        return f->alpha * tanh(f->beta * x);
    }
    if (strcmp(f->name, "HardSigmoid") == 0) {
        return fmin(fmax(f->alpha * x + f->beta, 0), 1);
    }
    if (strcmp(f->name, "Elu") == 0) {
        return x >= 0 ? x : f->alpha * (exp(x) - 1);
    }
    if (strcmp(f->name, "Softsign") == 0) {
        return x / (1 + fabs(x));
    }
    if (strcmp(f->name, "Softplus") == 0) {
        return log(1 + exp(x));
    }
    ck_assert_str_eq(f->name, "Affine");
    return f->alpha * x + f->beta;
}

/* What a node is asked to be. */
struct wanted {
    const char *op;
    struct function f, g, h;
    double clip; /* 0: none */
    bool input_forget, reset_after;
};

static double activate(const struct wanted *wanted, const struct function *f, double x)
{
    double clipped = wanted->clip > 0 ? fmin(fmax(x, -wanted->clip), wanted->clip) : x;
    return apply(f, clipped);
}

/* Row `row` of a matrix [rows, cols] times v. */
static double dot(const float *matrix, size_t row, const double *v, size_t cols)
{
    double sum = 0;
    for (size_t k = 0; k < cols; k++) {
        sum += (double)matrix[row * cols + k] * v[k];
    }
    return sum;
}

static void lstm_step(const struct wanted *wanted, size_t u, const double *a, const double *c,
                      double *h_next, double *c_next)
{
    const float *p = weights("p");
    double i = activate(wanted, &wanted->f, a[0] + (double)p[u] * c[u]);
    double f = wanted->input_forget
                   ? 1 - i
                   : activate(wanted, &wanted->f, a[2] + (double)p[2 * HIDDEN + u] * c[u]);
    double g = activate(wanted, &wanted->g, a[3]);
    c_next[u] = f * c[u] + i * g;
    double o = activate(wanted, &wanted->f, a[1] + (double)p[HIDDEN + u] * c_next[u]);
    h_next[u] = o * apply(&wanted->h, c_next[u]); // not clipped, as in ONNX Runtime
}

/* n of a GRU that resets before the product: its z and r of all units come first. */
static double late_sum(const struct wanted *wanted, size_t u, const double *h, const double *r)
{
    const float *b = weights("b");
    double reset[HIDDEN];
    for (size_t k = 0; k < HIDDEN; k++) {
        reset[k] = wanted->reset_after ? h[k] : r[k] * h[k];
    }
    double sum = dot(weights("r"), 2 * HIDDEN + u, reset, HIDDEN) + (double)b[5 * HIDDEN + u];
    return wanted->reset_after ? r[u] * sum : sum;
}

/* One step of one row: h and c become those behind it. */
static void step(const struct wanted *wanted, const double *x, double *h, double *c)
{
    const uint32_t gates = onnx_gates(wanted->op);
    const float *b = weights("b");
    double over_x[GATES_MAX][HIDDEN] = {{0}};
    double sums[GATES_MAX][HIDDEN] = {{0}};
    double z[HIDDEN] = {0};
    double r[HIDDEN] = {0};
    double h_next[HIDDEN] = {0};
    double c_next[HIDDEN] = {0};
    for (size_t g = 0; g < gates; g++) {
        for (size_t u = 0; u < HIDDEN; u++) {
            size_t row = g * HIDDEN + u;
            over_x[g][u] = dot(weights("w"), row, x, IN) + (double)b[row];
            sums[g][u] = over_x[g][u] + dot(weights("r"), row, h, HIDDEN) +
                         (double)b[(size_t)gates * HIDDEN + row];
        }
    }
    for (size_t u = 0; u < HIDDEN && gates == 3; u++) {
        z[u] = activate(wanted, &wanted->f, sums[0][u]);
        r[u] = activate(wanted, &wanted->f, sums[1][u]);
    }
    for (size_t u = 0; u < HIDDEN; u++) {
        if (gates == 4) {
            const double a[] = {sums[0][u], sums[1][u], sums[2][u], sums[3][u]};
            lstm_step(wanted, u, a, c, h_next, c_next);
        } else if (gates == 3) {
            double late = late_sum(wanted, u, h, r);
            double n = activate(wanted, &wanted->g, over_x[2][u] + late);
            h_next[u] = (1 - z[u]) * n + z[u] * h[u];
        } else {
            h_next[u] = activate(wanted, &wanted->f, sums[0][u]);
        }
    }
    memcpy(h, h_next, sizeof(h_next));
    memcpy(c, c_next, sizeof(c_next));
}

/* The loaded model on random x computes what is wanted, at each step of each row. */
static void expect_computed(const struct wanted *wanted)
{
    struct replay_tensor x = {
        .rank = 3, .dims = {TIME, BATCH, IN}, .count = (size_t)TIME * BATCH * IN};
    struct replay_tensor y = {.rank = 0};
    struct base_random random = util_random(1);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)base_random_f32(&random, -2.0f, 2.0f);
    }
    replay_run(model, &x, &y);
    ck_assert_uint_eq(y.count, (size_t)TIME * BATCH * HIDDEN);
    for (size_t row = 0; row < BATCH; row++) {
        double h[HIDDEN] = {0};
        double c[HIDDEN] = {0};
        for (size_t t = 0; t < TIME; t++) {
            step(wanted, x.data + (t * BATCH + row) * IN, h, c);
            for (size_t u = 0; u < HIDDEN; u++) {
                util_assert_close(y.data[(t * BATCH + row) * HIDDEN + u], h[u], 1e-6, 1e-6);
            }
        }
    }
    base_free(x.data);
    base_free(y.data);
}

/* ---- Functions ---------------------------------------------------------------------------- */

/* With their default factors, and with others; is_own: the kernel of an RNN has it. */
static const struct {
    const char *name;
    double alpha, beta;
    bool has_alpha, has_beta, is_own;
} functions[] = {
    {"Sigmoid", 0, 0, false, false, false},
    {"Tanh", 0, 0, false, false, true},
    {"Relu", 0, 0, false, false, true},
    {"LeakyRelu", 0.01, 0, true, false, false},
    {"ThresholdedRelu", 1, 0, true, false, false},
    {"ScaledTanh", 1, 1, true, true, false},
    {"HardSigmoid", 0.2, 0.5, true, true, false},
    {"Elu", 1, 0, true, false, false},
    {"Softsign", 0, 0, false, false, false},
    {"Softplus", 0, 0, false, false, false},
    {"Affine", 1, 0, true, true, false},
};
enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

static struct function function_at(size_t i)
{
    return (struct function){functions[i].name, functions[i].alpha, functions[i].beta};
}

START_TEST(test_each_function_computes_as_the_specification_says)
{
    const float alpha = 0.375f;
    const float beta = 0.75f;
    struct wanted wanted = {.op = "RNN", .f = function_at((size_t)_i)};
    onnx_set_strings(&builder, begin("RNN"), "activations", functions[_i].name);
    load();
    ck_assert_int_eq(is_one_op(), functions[_i].is_own);
    expect_computed(&wanted);
    end();
    Onnx__NodeProto *node = begin("RNN");
    onnx_set_strings(&builder, node, "activations", functions[_i].name);
    onnx_set_floats(&builder, node, "activation_alpha", 1, &alpha);
    onnx_set_float(&builder, node, "activation_beta", beta); // older exporters: a number
    wanted.f.alpha = functions[_i].has_alpha ? (double)alpha : 0;
    wanted.f.beta = functions[_i].has_beta ? (double)beta : 0;
    load();
    expect_computed(&wanted);
    end();
}
END_TEST

/* ONNX Runtime states the default of two directions where there is one. */
START_TEST(test_a_default_that_is_stated_is_the_default)
{
    const struct wanted wanted = {.op = "RNN", .f = {.name = "Tanh"}};
    onnx_set_strings(&builder, begin("RNN"), "activations", "Tanh Tanh");
    load();
    ck_assert_int_eq(is_one_op(), true);
    expect_computed(&wanted);
    end();
    onnx_set_strings(&builder, begin("RNN"), "activations", "Tanh Relu");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "2 activations; at most 1");
    onnx_set_strings(&builder, begin("RNN"), "activations", "Relu Tanh");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "2 activations; at most 1");
}
END_TEST

/* A factor goes to the next function that takes one; what is left over has its default. */
START_TEST(test_factors_go_to_the_functions_that_take_them)
{
    const float alphas[] = {0.25f, 1.5f};
    const float betas[] = {0.5f};
    Onnx__NodeProto *node = begin("LSTM");
    onnx_set_strings(&builder, node, "activations", "hardsigmoid LEAKYRELU ScaledTanh");
    onnx_set_floats(&builder, node, "activation_alpha", 2, alphas);
    onnx_set_floats(&builder, node, "activation_beta", 1, betas);
    const struct wanted wanted = {.op = "LSTM",
                                  .f = {"HardSigmoid", 0.25, 0.5},
                                  .g = {"LeakyRelu", 1.5, 0},
                                  .h = {"ScaledTanh", 1, 1}};
    load();
    ck_assert(!is_one_op());
    expect_computed(&wanted);
    end();
}
END_TEST

START_TEST(test_a_gru_takes_any_function_in_both_forms)
{
    for (int reset_after = 0; reset_after < 2; reset_after++) {
        Onnx__NodeProto *node = begin("GRU");
        onnx_set_strings(&builder, node, "activations", "Softsign Elu");
        onnx_set_int(&builder, node, "linear_before_reset", reset_after);
        const struct wanted wanted = {
            .op = "GRU", .f = {"Softsign", 0, 0}, .g = {"Elu", 1, 0}, .reset_after = reset_after};
        load();
        ck_assert(!is_one_op());
        expect_computed(&wanted);
        end();
    }
}
END_TEST

/* ---- Functions that are operators alone --------------------------------------------------- */

static double normal_below(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2)));
}

static double own_operator(const char *name, double x)
{
    if (strcmp(name, "Erf") == 0) {
        return erf(x);
    }
    if (strcmp(name, "Gelu") == 0) {
        return x * normal_below(x);
    }
    if (strcmp(name, "Gelu tanh") == 0) {
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    }
    if (strcmp(name, "Mish") == 0) {
        return x * tanh(log1p(exp(x)));
    }
    ck_assert_str_eq(name, "Selu");
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (exp(x) - 1));
}

static const char *const own_operators[] = {"Erf", "Gelu", "Gelu tanh", "Mish", "Selu"};
enum { OWN_OPERATORS = sizeof(own_operators) / sizeof(own_operators[0]), SPAN = 2001 };

/* Of -10 to 10 and of what is no number, beside an RNN that says what time is. */
START_TEST(test_operators_of_each_element_compute_as_the_specification_says)
{
    const char *name = own_operators[_i];
    const bool is_tanh = strcmp(name, "Gelu tanh") == 0;
    struct replay_tensor x = {.rank = 3, .dims = {SPAN, 1, IN}, .count = (size_t)SPAN * IN};
    struct replay_tensor y[2] = {{.rank = 0}};
    (void)begin("RNN");
    builder.opset.version = 20;
    Onnx__NodeProto *node = onnx_node(&builder, is_tanh ? "Gelu" : name, "x", "z");
    if (is_tanh) {
        onnx_set_string(&builder, node, "approximate", "tanh");
    }
    onnx_output(&builder, "z", FLOAT, 0, NULL);
    builder.graph.output[1]->type = NULL;
    load();
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)(float)(((double)i / (double)x.count - 0.5) * 20);
    }
    x.data[0] = (double)NAN;
    replay_run(model, &x, y);
    ck_assert_uint_eq(y[1].count, x.count);
    ck_assert(isnan(y[1].data[0]));
    for (size_t i = 1; i < x.count; i++) {
        util_assert_close(y[1].data[i], own_operator(name, x.data[i]), 1e-6, 1e-6);
    }
    base_free(x.data);
    base_free(y[0].data);
    base_free(y[1].data);
    end();
}
END_TEST

/* ---- Clip and coupled gates --------------------------------------------------------------- */

static const struct wanted own_lstm = {
    .op = "LSTM", .f = {"Sigmoid", 0, 0}, .g = {"Tanh", 0, 0}, .h = {"Tanh", 0, 0}};

START_TEST(test_clip_bounds_the_sums_of_gates)
{
    struct wanted wanted = own_lstm;
    wanted.clip = 0.125;
    onnx_set_float(&builder, begin("LSTM"), "clip", 0.125f);
    load();
    ck_assert(!is_one_op());
    expect_computed(&wanted);
    end();
}
END_TEST

/* Sigmoid and tanh do not change any more where such a clip begins; Relu does. */
START_TEST(test_a_clip_that_changes_nothing_leaves_the_op)
{
    static const float clips[] = {87.0f, 9999.0f, INFINITY};
    for (size_t i = 0; i < sizeof(clips) / sizeof(clips[0]); i++) {
        onnx_set_float(&builder, begin("LSTM"), "clip", clips[i]);
        load();
        ck_assert(is_one_op());
        expect_computed(&own_lstm);
        end();
    }
    Onnx__NodeProto *node = begin("RNN");
    onnx_set_strings(&builder, node, "activations", "Relu");
    onnx_set_float(&builder, node, "clip", 9999.0f);
    load();
    ck_assert(!is_one_op());
    end();
}
END_TEST

START_TEST(test_input_forget_couples_the_gates)
{
    struct wanted wanted = own_lstm;
    wanted.input_forget = true;
    onnx_set_int(&builder, begin("LSTM"), "input_forget", 1);
    load();
    ck_assert(!is_one_op());
    expect_computed(&wanted);
    end();
    onnx_set_int(&builder, begin("LSTM"), "input_forget", 0);
    load();
    ck_assert(is_one_op());
    end();
}
END_TEST

/* The stage is still called by its operator, and still takes part in batches under that name. */
START_TEST(test_a_cell_that_is_written_out_keeps_its_name)
{
    onnx_set_int(&builder, begin("LSTM"), "input_forget", 1);
    load();
    ck_assert_str_eq(model->stages[0].type->name, "test/lstm");
    end();
}
END_TEST

/* ---- Refusals ----------------------------------------------------------------------------- */

START_TEST(test_what_no_function_can_be_is_refused)
{
    const float factors[] = {0.5f, NAN};
    onnx_set_strings(&builder, begin("RNN"), "activations", "Tan");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "RNN (node \"y\", opset 14): activation \"Tan\"");
    onnx_set_floats(&builder, begin("RNN"), "activation_alpha", 2, factors);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "activation_alpha is not finite");
    onnx_set_string(&builder, begin("RNN"), "activation_beta", "much");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "activation_beta is no list of numbers");
    (void)begin("RNN");
    builder.opset.version = 20;
    onnx_set_string(&builder, onnx_node(&builder, "Gelu", "x", "z"), "approximate", "erf");
    builder.graph.output[0]->name = builder.graph.node[1]->output[0];
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "approximate is neither none nor tanh");
    onnx_set_float(&builder, begin("RNN"), "clip", 0.0f);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "clip 0; it must be above 0");
    onnx_set_float(&builder, begin("RNN"), "clip", NAN);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "it must be above 0");
    onnx_set_int(&builder, begin("LSTM"), "input_forget", 2);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "attribute \"input_forget\" of 2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_activations");
    TCase *served = tcase_create("served");
    TCase *refused = tcase_create("refused");
    tcase_add_loop_test(served, test_each_function_computes_as_the_specification_says, 0,
                        FUNCTIONS);
    tcase_add_loop_test(served, test_operators_of_each_element_compute_as_the_specification_says, 0,
                        OWN_OPERATORS);
    tcase_add_test(served, test_factors_go_to_the_functions_that_take_them);
    tcase_add_test(served, test_a_gru_takes_any_function_in_both_forms);
    tcase_add_test(served, test_clip_bounds_the_sums_of_gates);
    tcase_add_test(served, test_a_clip_that_changes_nothing_leaves_the_op);
    tcase_add_test(served, test_input_forget_couples_the_gates);
    tcase_add_test(served, test_a_default_that_is_stated_is_the_default);
    tcase_add_test(served, test_a_cell_that_is_written_out_keeps_its_name);
    suite_add_tcase(suite, served);
    tcase_add_test(refused, test_what_no_function_can_be_is_refused);
    suite_add_tcase(suite, refused);
    return util_run(suite);
}
