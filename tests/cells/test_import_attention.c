/* Attention of opset 23: in all its forms against the sums that ONNX says, and what is refused of
 * it; and weights that are no numbers, where exporters write that these are zeros. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { BATCH = 2, LONGEST = 9, WIDTH = 4, KEY = 2, VALUE = 3, HEADS = 4, HIDDEN = 2 };

static struct onnx_builder builder;
static struct base_random numbers;

/* ---- The model ----------------------------------------------------------------------------- */

enum mask { NO_MASK, FLOATS, TRUTHS, CAUSAL, CAUSAL_TRUTHS };

static const struct form {
    bool by_rows; /* operands of rank 3 */
    uint32_t heads, kv_heads;
    enum mask mask;
    float scale; /* 0: as it is by itself */
} forms[] = {
    {false, 1, 1, NO_MASK, 0.0f},      {true, 1, 1, NO_MASK, 0.0f}, {false, 2, 2, CAUSAL, 0.0f},
    {true, 2, 2, CAUSAL, 0.4f},        {false, 4, 2, FLOATS, 0.0f}, {true, 4, 2, TRUTHS, 0.0f},
    {false, 4, 1, CAUSAL, 2.0f},       {true, 4, 1, FLOATS, 0.3f},  {false, 2, 2, TRUTHS, 0.0f},
    {true, 4, 4, CAUSAL_TRUTHS, 0.0f},
};

/* Queries, keys and values: y times weights, [batch, steps, heads * width], and as heads. */
static struct operand {
    const char *name, *weights, *product, *flat, *shape, *reshaped, *parted;
    uint32_t width; /* of a head */
    float data[WIDTH * HEADS * VALUE];
} operands[] = {{"q",
                 "q_weights",
                 "y q_weights",
                 "q_flat",
                 "q_shape",
                 "q_flat q_shape",
                 "q_parted",
                 KEY,
                 {0.0f}},
                {"k",
                 "k_weights",
                 "y k_weights",
                 "k_flat",
                 "k_shape",
                 "k_flat k_shape",
                 "k_parted",
                 KEY,
                 {0.0f}},
                {"v",
                 "v_weights",
                 "y v_weights",
                 "v_flat",
                 "v_shape",
                 "v_flat v_shape",
                 "v_parted",
                 VALUE,
                 {0.0f}}};

static void constant_ints(const char *name, size_t n, const int64_t *ints)
{
    onnx_constant(&builder, name, onnx_ints(&builder, 1, n, ints));
}

static void constant_float(const char *name, float number)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, FLOAT, 0, NULL, &number, sizeof(number)));
}

static void make_operand(struct operand *operand, uint32_t heads, bool by_rows)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    const int64_t dims[] = {WIDTH, heads * operand->width};
    const int64_t shape[] = {0, 0, heads, operand->width};
    for (uint32_t i = 0; i < WIDTH * heads * operand->width; i++) {
        operand->data[i] = base_random_f32(&numbers, -1.0f, 1.0f);
    }
    onnx_constant(&builder, operand->weights,
                  onnx_tensor(&builder, FLOAT, 2, dims, operand->data,
                              (size_t)(dims[0] * dims[1]) * sizeof(float)));
    onnx_node(&builder, "MatMul", operand->product, by_rows ? operand->name : operand->flat);
    if (!by_rows) {
        constant_ints(operand->shape, 4, shape);
        onnx_node(&builder, "Reshape", operand->reshaped, operand->parted);
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", operand->parted, operand->name),
                      "perm", 4, perm);
    }
}

/* Inputs y, and a number m for each step, which a mask is made of: as it is, or where it is above
 * -0.5. A GRU over y says which axes are which. */
static void begin(int64_t opset, uint32_t heads, uint32_t kv_heads, bool by_rows)
{
    static const int64_t rows[] = {-1, -1, WIDTH};
    static const int64_t steps[] = {-1, -1};
    static const int64_t axes[] = {1, 2};
    static const int64_t perm[] = {1, 0, 2};
    numbers = util_random(7);
    onnx_init(&builder, opset);
    onnx_input(&builder, "y", FLOAT, 3, rows);
    onnx_input(&builder, "m", FLOAT, 2, steps);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    constant_ints("axes", 2, axes);
    constant_ints("last", 1, (const int64_t[]){2});
    constant_float("least", -0.5f);
    onnx_node(&builder, "Unsqueeze", "m axes", "floats");
    onnx_node(&builder, "Greater", "floats least", "truths");
    onnx_node(&builder, "Unsqueeze", "m last", "each");
    onnx_node(&builder, "Add", "y each", "all"); // one sequence
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "all", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "gru"), "hidden_size",
                 HIDDEN);
    make_operand(&operands[0], heads, by_rows);
    make_operand(&operands[1], kv_heads, by_rows);
    make_operand(&operands[2], kv_heads, by_rows);
}

/* o, of heads or of rows, and the GRU's answer. */
static void end(bool by_rows)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    if (!by_rows) {
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "o", "answer"), "perm", 4, perm);
    }
    onnx_output(&builder, by_rows ? "o" : "answer", FLOAT, 0, NULL);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

static Onnx__NodeProto *attention(const struct form *form)
{
    const bool has_mask = form->mask != NO_MASK && form->mask != CAUSAL;
    Onnx__NodeProto *node = onnx_node(&builder, "Attention",
                                      !has_mask              ? "q k v"
                                      : form->mask == FLOATS ? "q k v floats"
                                                             : "q k v truths",
                                      "o");
    if (form->by_rows) {
        onnx_set_int(&builder, node, "q_num_heads", form->heads);
        onnx_set_int(&builder, node, "kv_num_heads", form->kv_heads);
    }
    if (form->mask == CAUSAL || form->mask == CAUSAL_TRUTHS) {
        onnx_set_int(&builder, node, "is_causal", 1);
    }
    if (form->scale > 0.0f) {
        onnx_set_float(&builder, node, "scale", form->scale);
    }
    return node;
}

/* ---- What ONNX says ------------------------------------------------------------------------ */

static double element(const struct operand *operand, const struct replay_tensor *y, uint32_t row,
                      uint32_t head, uint32_t k, uint32_t heads)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < WIDTH; i++) {
        sum += y->data[row * WIDTH + i] *
               (double)operand->data[(i * heads + head) * operand->width + k];
    }
    return sum;
}

/* Of rows q and k, [batch * steps], whose steps are these of `steps`. */
static double score(const struct form *form, const struct replay_tensor *inputs, uint32_t q,
                    uint32_t k, uint32_t head)
{
    const uint32_t shared = head / (form->heads / form->kv_heads);
    const double scale = form->scale > 0.0f ? (double)form->scale : 1.0 / sqrt(KEY);
    const double m = inputs[1].data[k];
    double sum = 0.0;
    for (uint32_t i = 0; i < KEY; i++) {
        sum += element(&operands[0], &inputs[0], q, head, i, form->heads) *
               element(&operands[1], &inputs[0], k, shared, i, form->kv_heads);
    }
    const bool is_causal = form->mask == CAUSAL || form->mask == CAUSAL_TRUTHS;
    const bool is_masked = (form->mask == TRUTHS || form->mask == CAUSAL_TRUTHS) && !(m > -0.5);
    return is_masked || (is_causal && k > q) ? (double)-INFINITY
                                             : sum * scale + (form->mask == FLOATS ? m : 0.0);
}

static double expected(const struct form *form, const struct replay_tensor *inputs, uint32_t q,
                       uint32_t head, uint32_t e)
{
    const uint32_t steps = (uint32_t)inputs[0].dims[1];
    const uint32_t first = q / steps * steps;
    const uint32_t shared = head / (form->heads / form->kv_heads);
    double sum = 0.0;
    double weights = 0.0;
    for (uint32_t k = first; k < first + steps; k++) {
        const double weight = exp(score(form, inputs, q, k, head));
        weights += weight;
        sum += weight * element(&operands[2], &inputs[0], k, shared, e, form->kv_heads);
    }
    return sum / weights;
}

/* Of which the first step is not masked. */
static void draw_inputs(uint32_t steps, struct replay_tensor inputs[2])
{
    inputs[0] = replay_tensor_random(3, (const int64_t[]){BATCH, steps, WIDTH}, &numbers);
    inputs[1] = replay_tensor_random(2, (const int64_t[]){BATCH, steps}, &numbers);
    for (uint32_t b = 0; b < BATCH; b++) {
        inputs[1].data[b * steps] = 0.25;
    }
}

static void expect_sums(const struct form *form, const struct cell_model *model, uint32_t steps)
{
    struct replay_tensor inputs[2];
    struct replay_tensor outputs[2] = {{.rank = 0}};
    draw_inputs(steps, inputs);
    replay_run(model, inputs, outputs);
    ck_assert_uint_eq(outputs[0].count, (size_t)BATCH * steps * form->heads * VALUE);
    for (uint32_t i = 0; i < outputs[0].count; i++) {
        const uint32_t head = i / VALUE % form->heads;
        ck_assert_double_eq_tol(outputs[0].data[i],
                                expected(form, inputs, i / (VALUE * form->heads), head, i % VALUE),
                                1e-5);
    }
    for (int i = 0; i < 2; i++) {
        base_free(inputs[i].data);
        base_free(outputs[i].data);
    }
}

START_TEST(test_all_forms)
{
    const struct form *form = &forms[_i];
    struct built built;
    begin(_i % 2 == 0 ? 23 : 24, form->heads, form->kv_heads, form->by_rows);
    (void)attention(form);
    end(form->by_rows);
    load_built(&builder, &built);
    for (uint32_t steps = 1; steps <= LONGEST; steps += 4) {
        expect_sums(form, built.model, steps);
    }
    free_built(&builder, &built);
}
END_TEST

/* ---- Masks of several conditions ----------------------------------------------------------- */

/* Nodes that make o of q, k and v, of one head each. */
static void begin_scores(void)
{
    static const int64_t perm[] = {0, 1, 3, 2};
    begin(18, 1, 1, false);
    constant_float("zero", 0.0f);
    constant_float("one", 1.0f);
    constant_float("none", -INFINITY);
    constant_float("far", -10000.0f);
    constant_float("near", 10000.0f);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "k", "k_turned"), "perm", 4, perm);
    onnx_node(&builder, "MatMul", "q k_turned", "scores");
}

static void end_scores(void)
{
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "masked", "weights"), "axis", -1);
    onnx_node(&builder, "MatMul", "weights v", "o");
    end(false);
}

/* Keys up to the query's own number: as truths and as floats, like those of each key. */
static void add_numbers(void)
{
    static const int64_t ints[] = {0, 1};
    constant_ints("front", 1, &ints[0]);
    constant_ints("back", 1, &ints[1]);
    onnx_constant(&builder, "from", onnx_ints(&builder, 0, 1, &ints[0]));
    onnx_constant(&builder, "by", onnx_ints(&builder, 0, 1, &ints[1]));
    onnx_node(&builder, "Shape", "y", "shape");
    onnx_node(&builder, "Gather", "shape by", "steps");
    onnx_node(&builder, "Range", "from steps by", "numbers");
    onnx_node(&builder, "Unsqueeze", "numbers front", "keys");
    onnx_node(&builder, "Unsqueeze", "numbers back", "queries");
    onnx_node(&builder, "LessOrEqual", "keys queries", "before");
    onnx_node(&builder, "And", "before truths", "both");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "before", "before_float"), "to", FLOAT);
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "truths", "truths_float"), "to", FLOAT);
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "both", "both_float"), "to", FLOAT);
}

struct written {
    const char *op, *inputs, *output;
};

#define WRITTEN_MAX 5
static const struct written ways[][WRITTEN_MAX] = {
    {{"Where", "both scores none", "masked"}},
    {{"Not", "both", "not"}, {"Where", "not none scores", "masked"}},
    {{"Not", "before", "behind"},
     {"Not", "truths", "untrue"},
     {"Or", "behind untrue", "either"},
     {"Where", "either far scores", "masked"}},
    {{"Where", "both zero none", "mask"}, {"Add", "scores mask", "masked"}},
    {{"Sub", "one both_float", "not"},
     {"Mul", "not far", "mask"},
     {"Add", "mask scores", "masked"}},
    {{"Mul", "truths_float before_float", "product"},
     {"Sub", "one product", "not"},
     {"Mul", "far not", "mask"},
     {"Add", "scores mask", "masked"}},
    {{"Mul", "before_float truths_float", "product"},
     {"Mul", "product near", "mask"},
     {"Sub", "mask near", "shifted"},
     {"Add", "scores shifted", "masked"}},
    {{"And", "both before", "again"}, // the same twice
     {"And", "truths again", "more"},
     {"Where", "more scores none", "masked"}},
};

static void write_ways(const struct written *nodes)
{
    begin_scores();
    add_numbers();
    for (int i = 0; i < WRITTEN_MAX && nodes[i].op != NULL; i++) {
        onnx_node(&builder, nodes[i].op, nodes[i].inputs, nodes[i].output);
    }
    end_scores();
}

START_TEST(test_masks_of_several_conditions)
{
    static const struct form form = {false, 1, 1, CAUSAL_TRUTHS, 1.0f};
    struct built built;
    write_ways(ways[_i]);
    load_built(&builder, &built);
    for (uint32_t steps = 1; steps <= LONGEST; steps += 4) {
        expect_sums(&form, built.model, steps);
    }
    free_built(&builder, &built);
}
END_TEST

/* Where only both together mask, or where a factor is no truth. */
START_TEST(test_conditions_that_are_refused)
{
    static const struct written cases[][WRITTEN_MAX] = {
        {{"Or", "before truths", "either"}, {"Where", "either scores none", "masked"}},
        {{"Xor", "before truths", "either"}, {"Where", "either scores none", "masked"}},
        {{"Where", "both none scores", "masked"}},
        {{"Mul", "before_float floats", "product"},
         {"Sub", "one product", "not"},
         {"Mul", "not far", "mask"},
         {"Add", "scores mask", "masked"}},
        {{"Sub", "near both_float", "not"},
         {"Mul", "not far", "mask"},
         {"Mul", "mask both_float", "twice"},
         {"Add", "scores twice", "masked"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_ways(cases[i]);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "that is no attention");
    }
}
END_TEST

/* Conditions deeper than anybody writes are none: one that is handed on twice at each of 64 levels
 * would be gone through as often as 2 to the power of that. */
START_TEST(test_conditions_of_conditions)
{
    char inputs[32];
    char name[16];
    begin_scores();
    add_numbers();
    onnx_node(&builder, "Or", "before truths", "c0");
    for (int i = 0; i < 63; i++) {
        (void)snprintf(inputs, sizeof(inputs), "c%d c%d", i, i);
        (void)snprintf(name, sizeof(name), "c%d", i + 1);
        onnx_node(&builder, "And", inputs, name);
    }
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "c63", "many"), "to", FLOAT);
    onnx_node(&builder, "Mul", "many near", "mask");
    onnx_node(&builder, "Add", "scores mask", "masked");
    end_scores();
    expect_refused(&builder, BASE_UNIMPLEMENTED, "that is no attention");
}
END_TEST

/* ---- Weights that are no numbers ----------------------------------------------------------- */

/* Attention as exporters write it out, with minus infinity where a mask is false; zeros where that
 * leaves no weights that are numbers, or `instead`. */
static void write_out(const char *of, float instead)
{
    begin_scores();
    constant_float("instead", instead);
    onnx_node(&builder, "Where", "truths zero none", "mask");
    onnx_node(&builder, "Add", "scores mask", "masked");
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "masked", "weights"), "axis", -1);
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "scores", "others"), "axis", -1);
    onnx_node(&builder, "IsNaN", of, "is_nan");
    onnx_node(&builder, "Where", "is_nan instead weights", "numbers");
    onnx_node(&builder, "MatMul", "numbers v", "o");
    end(false);
}

START_TEST(test_weights_that_are_no_numbers_are_zeros)
{
    static const struct form form = {false, 1, 1, TRUTHS, 1.0f};
    struct built built;
    struct replay_tensor inputs[2];
    struct replay_tensor outputs[2] = {{.rank = 0}};
    write_out("weights", 0.0f);
    load_built(&builder, &built);
    draw_inputs(LONGEST, inputs);
    for (uint32_t t = 0; t < LONGEST; t++) { // of row 1 all are masked
        inputs[1].data[LONGEST + t] = -1.0;
    }
    replay_run(built.model, inputs, outputs);
    for (uint32_t i = 0; i < outputs[0].count; i++) {
        const uint32_t q = i / VALUE;
        const double wanted = q < LONGEST ? expected(&form, inputs, q, 0, i % VALUE) : 0.0;
        ck_assert_double_eq_tol(outputs[0].data[i], wanted, 1e-5);
    }
    for (int i = 0; i < 2; i++) {
        base_free(inputs[i].data);
        base_free(outputs[i].data);
    }
    free_built(&builder, &built);
}
END_TEST

/* Something else in place of such weights, or where other weights are none. */
START_TEST(test_what_is_not_the_same_is_refused)
{
    write_out("weights", 0.5f);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "that is no attention");
    write_out("others", 0.0f);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "that is no attention");
}
END_TEST

/* ---- Refused ------------------------------------------------------------------------------- */

static void expect_attention_refused(bool by_rows, const char *why)
{
    end(by_rows);
    expect_refused(&builder, BASE_UNIMPLEMENTED, why);
}

START_TEST(test_attributes_that_are_refused)
{
    static const struct form form = {.by_rows = true, .heads = 2, .kv_heads = 2};
    static const struct {
        const char *name;
        float is;
        const char *why;
    } cases[] = {
        {"softcap", 2.0f, "with softcap"},
        {"scale", -1.0f, "with a scale that has no root"},
        {"scale", NAN, "with a scale that has no root"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(23, 2, 2, true);
        onnx_set_float(&builder, attention(&form), cases[i].name, cases[i].is);
        expect_attention_refused(true, cases[i].why);
    }
    begin(23, 2, 2, true);
    onnx_set_int(&builder, attention(&form), "softmax_precision",
                 ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    expect_attention_refused(true, "a softmax of less than floats");
}
END_TEST

START_TEST(test_heads_that_are_refused)
{
    static const struct {
        int64_t heads, kv_heads;
        const char *why;
    } cases[] = {
        {0, 2, "no whole number for each head"},      {3, 2, "no whole number for each head"},
        {2, -1, "no whole number for each head"},     {-2, 2, "no whole number for each head"},
        {2, 4, "that share no whole number of keys"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(23, 4, 4, true);
        Onnx__NodeProto *node = onnx_node(&builder, "Attention", "q k v", "o");
        onnx_set_int(&builder, node, "q_num_heads", cases[i].heads);
        onnx_set_int(&builder, node, "kv_num_heads", cases[i].kv_heads);
        expect_attention_refused(true, cases[i].why);
    }
    begin(23, 4, 4, true); // none are said
    onnx_node(&builder, "Attention", "q k v", "o");
    expect_attention_refused(true, "no whole number for each head");
    begin(23, 2, 2, false);
    constant_ints("some", 1, (const int64_t[]){0});
    onnx_set_int(&builder, onnx_node(&builder, "Gather", "v some", "one"), "axis", 1);
    onnx_node(&builder, "Attention", "q k one", "o");
    expect_attention_refused(false, "of unlike numbers of heads");
}
END_TEST

START_TEST(test_operands_that_are_refused)
{
    static const struct {
        const char *operands, *why;
    } cases[] = {
        {"q k v - k v", "with keys and values of before"},
        {"q k v - - - m", "with keys and values of before"},
        {"q m v", "of queries, keys and values that are no floats of as many axes"},
        {"q k q_weights", "of queries, keys and values that are no floats of as many axes"},
        {"m k v", "of queries, keys and values that are no floats of as many axes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(24, 2, 2, false);
        onnx_node(&builder, "Attention", cases[i].operands, "o");
        expect_attention_refused(false, cases[i].why);
    }
    begin(23, 2, 2, false);
    onnx_node(&builder, "Attention", "q k v", "o of_keys");
    expect_attention_refused(false, "operands that there are not");
    begin(23, 2, 2, false);
    onnx_node(&builder, "Attention", "q k -", "o");
    end(false);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "input 2 is missing");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_attention");
    TCase *tcase = tcase_create("attention");
    tcase_add_loop_test(tcase, test_all_forms, 0, (int)(sizeof(forms) / sizeof(forms[0])));
    tcase_add_loop_test(tcase, test_masks_of_several_conditions, 0,
                        (int)(sizeof(ways) / sizeof(ways[0])));
    tcase_add_test(tcase, test_conditions_that_are_refused);
    tcase_add_test(tcase, test_conditions_of_conditions);
    tcase_add_test(tcase, test_weights_that_are_no_numbers_are_zeros);
    tcase_add_test(tcase, test_what_is_not_the_same_is_refused);
    tcase_add_test(tcase, test_attributes_that_are_refused);
    tcase_add_test(tcase, test_heads_that_are_refused);
    tcase_add_test(tcase, test_operands_that_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
