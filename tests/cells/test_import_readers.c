/* Models of several sequences: what the importer makes of PyTorch's exports
 * (tests/data/onnx/reader_*; that they compute what PyTorch does, test_import_exports.c and
 * tests/server/test_readers.c show), and what it refuses, by name. */
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { INPUT = 5, HIDDEN = 6 };

/* ---- What is made of exports ---------------------------------------------------------------- */

static uint32_t count_ops(const struct cell_model *model, enum cell_op_kind kind)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_def *def = &model->stages[s].type->def;
        for (uint32_t o = 0; o < def->n_ops; o++) {
            n += def->ops[o].kind == kind ? 1 : 0;
        }
    }
    return n;
}

static uint32_t count_chains(const struct cell_model *model)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        n += model->stages[s].kind == CELL_STAGE_CHAIN ? 1 : 0;
    }
    return n;
}

static const struct {
    const char *name;
    uint32_t sequences, chains, attends, memories;
} exports[] = {
    {"reader_additive", 2, 4, 1, 2}, // keys and values
    {"reader_apart", 2, 4, 0, 0},
    {"reader_attention_sum", 2, 4, 1, 3}, // of the weights that are answered the
                                          // largest and the sum
    {"reader_bidaf", 2, 10, 4, 9}, // u, h, m and scores that are the steps' own, and two softmaxes
    {"reader_both", 2, 4, 2, 3},
    {"reader_concatenated", 2, 5, 1, 1},
    {"reader_embedded", 2, 2, 0, 0},
    {"reader_lengths", 2, 4, 0, 0},
    {"reader_pooled", 2, 4, 2, 3}, // scores of either network, and what they
                                   // weigh
    {"reader_products", 2, 4, 1, 1},
    {"reader_similarity", 2, 4, 0, 0},
    // Of its own steps, of which the second of a pair is a sequence too:
    {"own_additive", 2, 2, 1, 2},
    {"own_encoder", 2, 1, 2, 1}, // heads read parts of rows that hold queries, keys and values
    {"own_heads", 2, 2, 2, 2},
    {"own_multihead", 2, 2, 2, 1},
    {"own_multihead_stated", 2, 2, 2, 1},
    {"own_products", 2, 2, 1, 1},
    {"own_projected", 2, 2, 1, 3}, // and a mean over the steps
};
enum { EXPORTS = sizeof(exports) / sizeof(exports[0]) };

/* Whatever way it is written in, an attention is one op over memories that nobody copies. */
START_TEST(test_attention_is_one_op_however_it_is_written)
{
    char relative[128];
    char path[UTIL_PATH_BYTES];
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    const char *name = exports[_i].name;
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s-ts1.13-op17/model.onnx", name);
    util_repo_path(path, relative);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    ck_assert_msg(cell_model_load(registry, path, "test", NULL, &model, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert_msg(model->n_sequences == exports[_i].sequences, "%s", name);
    ck_assert_msg(count_chains(model) == exports[_i].chains, "%s: %u chains", name,
                  count_chains(model));
    ck_assert_msg(count_ops(model, CELL_OP_ATTEND) == exports[_i].attends, "%s: %u", name,
                  count_ops(model, CELL_OP_ATTEND));
    ck_assert_msg(model->n_memories == exports[_i].memories, "%s: %u memories", name,
                  model->n_memories);
    const bool has_mirror = model->n_inputs == 1;
    ck_assert_uint_eq(model->sequences[1].stride, has_mirror ? 1 : 0);
    ck_assert(has_mirror || model->inputs[0].sequence != model->inputs[1].sequence);
    cell_model_free(registry, model);
    cell_registry_free(registry);
}
END_TEST

/* ---- What is refused ------------------------------------------------------------------------ */

static struct onnx_builder builder;

static Onnx__NodeProto *node(const char *op, const char *inputs, const char *output)
{
    return onnx_node(&builder, op, inputs, output);
}

static void turn(const char *from, const char *to, int64_t a, int64_t b, int64_t c)
{
    const int64_t perm[] = {a, b, c};
    onnx_set_ints(&builder, node("Transpose", from, to), "perm", 3, perm);
}

static void answer(const char *name)
{
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
}

/* [batch, time, HIDDEN] under this name, of an input of the same name with _in behind. */
static void encode(const char *name, const char *lengths)
{
    const int64_t dims[] = {-1, -1, INPUT};
    char in[16];
    char turned[16];
    char operands[64];
    char y[16];
    char flat[16];
    snprintf(in, sizeof(in), "%s_in", name);
    snprintf(turned, sizeof(turned), "%s_x", name);
    snprintf(operands, sizeof(operands), "%s w r b %s", turned, lengths);
    snprintf(y, sizeof(y), "%s_y", name);
    snprintf(flat, sizeof(flat), "%s_flat", name);
    onnx_input(&builder, in, FLOAT, 3, dims);
    turn(in, turned, 1, 0, 2);
    onnx_set_int(&builder, node("GRU", operands, y), "hidden_size", HIDDEN);
    char squeezed[32];
    snprintf(squeezed, sizeof(squeezed), "%s axis1", y);
    node("Squeeze", squeezed, flat);
    turn(flat, name, 1, 0, 2);
}

/* c and q, both [batch, time, HIDDEN], of two inputs; the scores of their pairs, s, and q' as qt.
 */
static void begin(const char *lengths_of_q)
{
    const int64_t one = 1;
    const int64_t any = -1;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", INPUT, HIDDEN, 1);
    onnx_constant(&builder, "axis1", onnx_ints(&builder, 1, 1, &one));
    if (lengths_of_q[0] != '-') {
        onnx_input(&builder, lengths_of_q, INT64, 1, &any);
        onnx_set_int(&builder, node("Cast", lengths_of_q, "l32"), "to",
                     ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    }
    encode("c", "-");
    encode("q", lengths_of_q[0] == '-' ? "-" : "l32");
    turn("q", "qt", 0, 2, 1);
    node("MatMul", "c qt", "s");
}

static void softmax(const char *of, const char *to, int64_t axis)
{
    onnx_set_int(&builder, node("Softmax", of, to), "axis", axis);
}

START_TEST(test_an_attention_is_accepted)
{
    begin("-");
    softmax("s", "p", 2);
    node("MatMul", "p q", "y");
    answer("y");
    expect_accepted(&builder);
}
END_TEST

START_TEST(test_pairs_of_steps_that_are_no_attention_are_refused)
{
    begin("-");
    answer("s");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "output \"s\" has a value for each pair of steps of two sequences");
    begin("-");
    softmax("s", "p", 2);
    answer("p");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "output \"p\" has a value for each pair");
    begin("-");
    node("Sigmoid", "s", "p");
    node("MatMul", "p q", "y");
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "MatMul (node \"y\", opset 17): a sum over");
    begin("-"); // over both at once
    const int64_t both[] = {1, 2};
    onnx_constant(&builder, "both", onnx_ints(&builder, 1, 2, both));
    node("ReduceSum", "s both", "y");
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "ReduceSum (node \"y\", opset 17)");
    begin("-");
    onnx_set_ints(&builder, node("ReduceMean", "s", "y"), "axes", 1, &both[1]);
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "ReduceMean (node \"y\", opset 17)");
    begin("-"); // a sigmoid's largest
    node("Sigmoid", "s", "p");
    onnx_set_ints(&builder, node("ReduceMax", "p", "y"), "axes", 1, &both[1]);
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "ReduceMax (node \"y\", opset 17)");
    begin("-");
    onnx_set_int(&builder, node("LogSoftmax", "s", "p"), "axis", 2);
    node("MatMul", "p q", "y");
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "LogSoftmax (node \"p\", opset 17)");
}
END_TEST

START_TEST(test_one_step_of_pairs_is_refused)
{
    const int64_t last = -1;
    begin("-");
    onnx_constant(&builder, "last", onnx_ints(&builder, 0, 1, &last));
    onnx_set_int(&builder, node("Gather", "s last", "y"), "axis", 2);
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "Gather (node \"y\", opset 17): takes one step of");
}
END_TEST

/* c c' of the steps of c alone. */
static void begin_own(void)
{
    begin("-");
    turn("c", "ct", 0, 2, 1);
    node("MatMul", "c ct", "own");
    answer("q");
}

START_TEST(test_pairs_of_own_steps_that_are_no_attention_are_refused)
{
    const int64_t both[] = {1, 2};
    begin_own();
    answer("own");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "output \"own\" has a value for each pair");
    begin_own();
    onnx_set_ints(&builder, node("ReduceMean", "own", "y"), "axes", 2, both);
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "ReduceMean (node \"y\", opset 17)");
    begin_own();
    softmax("own", "p", 1); // over the first of both
    node("MatMul", "p c", "y");
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "MatMul (node \"y\", opset 17): a sum over");
}
END_TEST

/* A value for each pair of steps by broadcasting, too: never one for each step, as if both were
 * the same. */
START_TEST(test_pairs_of_own_steps_by_broadcasting_are_refused)
{
    static const char *const ops[] = {"Add", "Sub", "Mul"};
    const int64_t first = 1;
    const int64_t second = 2;
    const int64_t both[] = {1, 2};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        begin("-");
        onnx_constant(&builder, "first", onnx_ints(&builder, 1, 1, &first));
        onnx_constant(&builder, "second", onnx_ints(&builder, 1, 1, &second));
        node("Unsqueeze", "c second", "rows");
        node("Unsqueeze", "c first", "cols");
        node(ops[i], "rows cols", "pairs");
        onnx_set_ints(&builder, node("ReduceMean", "pairs", "y"), "axes", 2, both);
        answer("y");
        answer("q");
        expect_refused(&builder, BASE_UNIMPLEMENTED, "ReduceMean (node \"y\", opset 17)");
    }
}
END_TEST

/* The softmax is taken over one sequence, the sum over the other. */
START_TEST(test_weights_of_one_sequence_over_another_are_refused)
{
    begin("-");
    softmax("s", "p", 1);
    node("MatMul", "p q", "y");
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "MatMul (node \"y\", opset 17): a sum over");
}
END_TEST

START_TEST(test_attention_beside_lengths_is_refused)
{
    begin("lengths");
    softmax("s", "p", 2);
    node("MatMul", "p q", "y");
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "MatMul (node \"y\", opset 17): attends to a sequence beside sequence_lens");
    begin("lengths"); // of the other sequence: what attends is as long as it is
    softmax("s", "p", 1);
    turn("p", "pt", 0, 2, 1);
    node("MatMul", "pt c", "y");
    answer("y");
    expect_accepted(&builder);
}
END_TEST

/* sequence_lens of both by one input: whose? */
START_TEST(test_one_input_of_lengths_is_of_one_sequence)
{
    begin("lengths");
    onnx_set_int(&builder, node("GRU", "c_x w r b l32", "again"), "hidden_size", HIDDEN);
    answer("again");
    answer("q_y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "sequence_lens");
}
END_TEST

/* q attends to c with so many heads, of which each has values of its own, or all the same. */
static void attend_by_heads(int64_t n, bool is_shared)
{
    const int64_t heads[] = {0, 0, n, HIDDEN / n};
    const int64_t perm[] = {0, 2, 1, 3};
    const int64_t turned[] = {0, 2, 3, 1};
    begin("-");
    onnx_constant(&builder, "heads", onnx_ints(&builder, 1, 4, heads));
    node("Reshape", "c heads", "c4");
    node("Reshape", "q heads", "q4");
    onnx_set_ints(&builder, node("Transpose", "c4", "ch"), "perm", 4, perm);
    onnx_set_ints(&builder, node("Transpose", "q4", "qh"), "perm", 4, turned);
    node("MatMul", "ch qh", "sh");
    softmax("sh", "p", 3);
    if (!is_shared) {
        onnx_set_ints(&builder, node("Transpose", "q4", "vh"), "perm", 4, perm);
    } else {
        const int64_t one = 1;
        onnx_constant(&builder, "at", onnx_ints(&builder, 1, 1, &one));
        node("Unsqueeze", "q at", "vh");
    }
    node("MatMul", "p vh", "y");
    answer("y");
}

START_TEST(test_heads_share_a_row_evenly_or_take_all_of_it)
{
    attend_by_heads(2, false);
    expect_accepted(&builder);
    attend_by_heads(HIDDEN, false); // of one element each
    expect_accepted(&builder);
    attend_by_heads(2, true);
    expect_accepted(&builder);
}
END_TEST

/* A row that is repeated at every step: its mean over the steps is itself, and not that of its
 * features; nothing like it is computed. */
START_TEST(test_reductions_of_what_has_no_steps_are_refused)
{
    static const char *const ops[] = {"ReduceMean", "ReduceSum", "ReduceMax", "Softmax"};
    const int64_t zero = 0;
    const int64_t one = 1;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        begin("-");
        onnx_constant(&builder, "axis0", onnx_ints(&builder, 1, 1, &zero));
        onnx_set_int(&builder, node("GRU", "q_x w r b", "- last"), "hidden_size", HIDDEN);
        node("Squeeze", "last axis0", "flat");
        node("Unsqueeze", "flat axis1", "line");
        node("Shape", "c", "shape");
        node("Expand", "line shape", "repeated");
        if (i == 1) {
            node(ops[i], "repeated axis1", "y");
        } else if (i == 3) {
            softmax("repeated", "y", 1);
        } else {
            onnx_set_ints(&builder, node(ops[i], "repeated", "y"), "axes", 1, &one);
        }
        answer("y");
        answer("c");
        expect_refused(&builder, BASE_UNIMPLEMENTED, "of what is the same at each");
    }
}
END_TEST

/* More terms than a score may have. */
START_TEST(test_scores_of_too_many_terms_are_refused)
{
    char last[16] = "s";
    begin("-");
    for (uint32_t i = 0; i < 9; i++) {
        char next[16];
        char operands[64];
        char product[16];
        snprintf(product, sizeof(product), "s%u", i);
        snprintf(next, sizeof(next), "sum%u", i);
        snprintf(operands, sizeof(operands), "%s %s", last, product);
        node("MatMul", "c qt", product);
        node("Add", operands, next);
        snprintf(last, sizeof(last), "%s", next);
    }
    softmax(last, "p", 2);
    node("MatMul", "p q", "y");
    answer("y");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "more than 8 terms");
}
END_TEST

START_TEST(test_what_all_rows_share_is_no_answer_of_each)
{
    const int64_t dims[] = {1, -1, INPUT};
    const int64_t one = 1;
    for (uint32_t is_expanded = 0; is_expanded < 2; is_expanded++) {
        onnx_init(&builder, 17);
        onnx_add_weights(&builder, "GRU", INPUT, HIDDEN, 1);
        onnx_constant(&builder, "axis1", onnx_ints(&builder, 1, 1, &one));
        encode("c", "-");
        onnx_input(&builder, "shared", FLOAT, 3, dims);
        turn("shared", "x", 1, 0, 2);
        onnx_set_int(&builder, node("GRU", "x w r b", "- last"), "hidden_size", HIDDEN);
        answer("c");
        if (is_expanded == 0) { // [1, 1, HIDDEN], of all rows
            answer("last");
            expect_accepted(&builder);
            continue;
        }
        const int64_t zero = 0;
        onnx_constant(&builder, "first", onnx_ints(&builder, 1, 1, &zero));
        onnx_constant(&builder, "ones", onnx_ints(&builder, 1, 1, &one));
        onnx_constant(&builder, "wide", onnx_ints(&builder, 1, 1, &(const int64_t){HIDDEN}));
        node("Shape", "c", "shape");
        node("Gather", "shape first", "n");
        onnx_set_int(&builder, node("Concat", "ones n wide", "target"), "axis", 0);
        node("Expand", "last target", "repeated");
        answer("repeated");
        expect_refused(&builder, BASE_UNIMPLEMENTED,
                       "output \"repeated\" repeats one row for all of the batch");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_readers");
    TCase *tests = tcase_create("readers");
    tcase_add_loop_test(tests, test_attention_is_one_op_however_it_is_written, 0, EXPORTS);
    tcase_add_test(tests, test_an_attention_is_accepted);
    tcase_add_test(tests, test_pairs_of_steps_that_are_no_attention_are_refused);
    tcase_add_test(tests, test_one_step_of_pairs_is_refused);
    tcase_add_test(tests, test_pairs_of_own_steps_that_are_no_attention_are_refused);
    tcase_add_test(tests, test_pairs_of_own_steps_by_broadcasting_are_refused);
    tcase_add_test(tests, test_weights_of_one_sequence_over_another_are_refused);
    tcase_add_test(tests, test_attention_beside_lengths_is_refused);
    tcase_add_test(tests, test_one_input_of_lengths_is_of_one_sequence);
    tcase_add_test(tests, test_heads_share_a_row_evenly_or_take_all_of_it);
    tcase_add_test(tests, test_reductions_of_what_has_no_steps_are_refused);
    tcase_add_test(tests, test_scores_of_too_many_terms_are_refused);
    tcase_add_test(tests, test_what_all_rows_share_is_no_answer_of_each);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
