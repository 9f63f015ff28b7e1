/* Ways in which people write loops over time (tools/train/loop_idioms.py, loop_habits.py): what of
 * them is no loop over all steps, or takes parts that there are not, is refused. What they compute,
 * test_import_exports compares. */
#include "tests/cells/changed.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

static const Onnx__GraphProto *begin(const char *name)
{
    char relative[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s/model.onnx", name);
    return changed_begin(relative)->graph;
}

/* The body of the nth Loop. */
static const Onnx__GraphProto *body_of(const Onnx__GraphProto *graph, uint32_t nth)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        if (strcmp(graph->node[i]->op_type, "Loop") == 0 && nth-- == 0) {
            return changed_attribute(graph->node[i], "body")->g;
        }
    }
    ck_abort_msg("so many Loops there are not");
    return NULL;
}

static Onnx__NodeProto *node_of(const Onnx__GraphProto *graph, const char *op, uint32_t nth)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        if (strcmp(graph->node[i]->op_type, op) == 0 && nth-- == 0) {
            return graph->node[i];
        }
    }
    ck_abort_msg("so many nodes %s there are not", op);
    return NULL;
}

/* The integer of the Constant that makes a value. */
static int64_t *integer_of(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        if (strcmp(node->op_type, "Constant") == 0 && strcmp(node->output[0], name) == 0) {
            Onnx__TensorProto *tensor = changed_attribute(node, "value")->t;
            ck_assert_uint_ge(tensor->raw_data.len, sizeof(int64_t));
            return (int64_t *)(void *)tensor->raw_data.data;
        }
    }
    ck_abort_msg("no Constant makes %s", name);
    return NULL;
}

static void set_integer(const Onnx__GraphProto *graph, const char *name, int64_t value)
{
    memcpy(integer_of(graph, name), &value, sizeof(value));
}

/* ---- Assigned step by step --------------------------------------------------------------------
 */

/* A tensor of which not every element is assigned to keeps what it had. */
START_TEST(test_parts_that_are_assigned_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_both_ways-ts1.13-op17");
    const Onnx__NodeProto *range = node_of(body_of(graph, 0), "Range", 0);
    set_integer(body_of(graph, 0), range->input[0], 1); // not the batch's first
    changed_expect(BASE_UNIMPLEMENTED, "(node", "batch or time axis");
    graph = begin("loop_both_ways-ts1.13-op17");
    range = node_of(body_of(graph, 0), "Range", 0);
    set_integer(body_of(graph, 0), range->input[2], 2); // every other one
    changed_expect(BASE_UNIMPLEMENTED, "(node", "the batch or the time axis");
    graph = begin("loop_both_ways-ts1.13-op17"); // as many as another axis has
    range = node_of(body_of(graph, 1), "Range", 1);
    changed_rename(&range->input[1], node_of(body_of(graph, 1), "Range", 0)->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "(node", "the number of the step");
    graph = begin("loop_both_ways-ts1.13-op17"); // added to what was there
    changed_add_ints(node_of(body_of(graph, 0), "ScatterND", 0), "reduction", 1,
                     (const int64_t[]){1});
    changed_expect(BASE_UNIMPLEMENTED, "(node", "with a reduction");
}
END_TEST

/* As many steps as the tensor has, from one end of it to the other. */
START_TEST(test_other_numbers_of_steps_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_both_ways-ts1.13-op17"); // the batch twice
    const Onnx__NodeProto *sizes = node_of(graph, "Concat", 1);
    changed_rename(&sizes->input[1], sizes->input[0]);
    changed_expect(BASE_UNIMPLEMENTED, "Loop", "");
    graph = begin("loop_both_ways-ts1.13-op17"); // from one behind the last
    const Onnx__NodeProto *index = node_of(body_of(graph, 1), "Add", 0);
    changed_rename(&index->input[0], node_of(graph, "Sub", 0)->input[0]);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "from either end");
    graph = begin("loop_both_ways-ts1.13-op17"); // what is assigned to is read
    const Onnx__GraphProto *body = body_of(graph, 1);
    changed_rename(&node_of(body, "Gather", 1)->input[0], body->input[3]->name);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "a sequence of tensors");
}
END_TEST

/* ---- Some of the steps ------------------------------------------------------------------------
 */

/* Steps beyond the end, or a step that is no number from the front. */
START_TEST(test_steps_that_there_are_not_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_between-ts1.13-op17");
    const Onnx__GraphProto *body = body_of(graph, 0);
    set_integer(body, node_of(body, "Add", 0)->input[1], 2); // x[:, t + 2] of all but one
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "the number of the step");
    graph = begin("loop_between-ts1.13-op17");
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Add", 0)->input[1], -1); // below the first
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "the number of the step");
    graph = begin("loop_between-ts1.13-op17"); // as far as a sum may go
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Add", 0)->input[1], INT64_MAX);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "the number of the step");
    graph = begin("loop_between-ts1.13-op17"); // more steps than there are
    set_integer(graph, node_of(graph, "Sub", 0)->input[1], -1);
    changed_expect(BASE_UNIMPLEMENTED, "(node", "");
    graph = begin("loop_between-ts1.13-op17"); // of what the request does not have
    body = body_of(graph, 0);
    changed_rename(&node_of(body, "Gather", 0)->input[0], "over_h.weight");
    changed_rename(&node_of(body, "Gather", 1)->input[0], "over_h.weight");
    changed_expect(BASE_UNIMPLEMENTED, "Loop (node", "a dimension computed from the batch or time");
}
END_TEST

/* The sizes of the parts of split(). */
static const char *sizes_of(const Onnx__GraphProto *graph)
{
    return node_of(body_of(graph, 0), "SplitToSequence", 1)->input[1];
}

/* ---- Lists ------------------------------------------------------------------------------------
 */

START_TEST(test_elements_go_to_an_end_of_a_list)
{
    const Onnx__GraphProto *graph = begin("loop_down-ts1.13-op17");
    set_integer(graph, node_of(body_of(graph, 0), "SequenceInsert", 0)->input[2], 1);
    changed_expect(BASE_UNIMPLEMENTED, "SequenceInsert (node", "neither the first nor the last");
}
END_TEST

/* Before a loop at the end, behind it in front: elsewhere they would not be where a list has them.
 */
START_TEST(test_lists_that_have_begun)
{
    const Onnx__GraphProto *graph = begin("loop_begun-ts1.13-op17");
    changed_rename(&node_of(graph, "SequenceConstruct", 0)->input[0],
                   "over_h.weight"); // a constant
    changed_expect(BASE_UNIMPLEMENTED, "SequenceConstruct (node", "no tensor, or of another type");
    graph = begin("loop_begun-ts1.13-op17"); // what is no list that a Loop has collected
    changed_rename(&node_of(graph, "ConcatFromSequence", 0)->input[0], "x");
    changed_expect(BASE_UNIMPLEMENTED, "ConcatFromSequence (node", "no Loop has collected");
    graph = begin("loop_begun-ts1.13-op17"); // one of a list of which the first are others
    Onnx__NodeProto *join = node_of(graph, "ConcatFromSequence", 0);
    changed_rename(&join->op_type, "SequenceLength");
    while (join->n_attribute > 0) {
        onnx__attribute_proto__free_unpacked(join->attribute[--join->n_attribute], NULL);
    }
    changed_expect(BASE_UNIMPLEMENTED, "SequenceLength (node", "no whole sequence");
}
END_TEST

START_TEST(test_parts_that_there_are_not_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_parts-ts1.13-op17");
    set_integer(graph, sizes_of(graph), 1);
    changed_expect(BASE_INVALID_ARGUMENT, "SplitToSequence (node",
                   "2 parts of 4 elements of an axis of 5");
    graph = begin("loop_parts-ts1.13-op17");
    set_integer(graph, sizes_of(graph), 0);
    changed_expect(BASE_UNIMPLEMENTED, "SplitToSequence (node", "part 0 of 0 elements");
    graph = begin("loop_parts-ts1.13-op17");
    set_integer(graph, sizes_of(graph), INT64_MAX);
    changed_expect(BASE_UNIMPLEMENTED, "SplitToSequence (node", "part 1 of 3 elements");
    graph = begin("loop_parts-ts1.13-op17"); // the last but three, of two
    set_integer(graph, node_of(body_of(graph, 0), "SequenceAt", 2)->input[1], -4);
    changed_expect(BASE_INVALID_ARGUMENT, "SequenceAt (node", "part -2 of 2");
    graph = begin("loop_parts-ts1.13-op17"); // another one at every step
    const Onnx__GraphProto *body = body_of(graph, 0);
    changed_rename(&node_of(body, "SequenceAt", 0)->input[1], body->input[0]->name);
    changed_expect(BASE_UNIMPLEMENTED, "SequenceAt (node", "position");
}
END_TEST

/* ---- The number of the step -------------------------------------------------------------------
 */

/* The nth graph that an If of a body has: what holds, and what does not. */
static Onnx__GraphProto *branch_of(const Onnx__GraphProto *graph, const char *name)
{
    return changed_attribute(node_of(body_of(graph, 0), "If", 0), name)->g;
}

START_TEST(test_remainders_that_there_are_not_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_numbered-ts1.13-op17");
    const Onnx__GraphProto *body = body_of(graph, 0);
    set_integer(body, node_of(body, "Mod", 0)->input[1], 0);
    changed_expect(BASE_UNIMPLEMENTED, "Mod (node", "computes with numbers of steps");
    graph = begin("loop_numbered-ts1.13-op17"); // beyond the table
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Mod", 0)->input[1], 4);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "one of 4 numbers in a table of 3");
    graph = begin("loop_numbered-ts1.13-op17"); // from -3 to 0
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Mod", 0)->input[1], -4);
    changed_expect(BASE_UNIMPLEMENTED, "Gather (node", "looks up what is not an input");
    graph = begin("loop_numbered-ts1.13-op17"); // of the sign of the other
    changed_attribute(node_of(body_of(graph, 0), "Mod", 0), "fmod")->i = 1;
    changed_expect(BASE_UNIMPLEMENTED, "Mod (node", "the number of the step");
    graph = begin("loop_numbered-ts1.13-op17"); // no float is as exact
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Mod", 0)->input[1], (1 << 24) + 1);
    changed_expect(BASE_UNIMPLEMENTED, "Mod (node", "computes with numbers of steps");
    graph = begin("loop_numbered-ts1.13-op17"); // of integers, t / 0
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Div", 2)->input[1], 0);
    changed_expect(BASE_UNIMPLEMENTED, "Div (node", "computes with numbers of steps");
    graph = begin("loop_numbered-ts1.13-op17"); // a product may be too large for a float
    changed_rename(&node_of(body_of(graph, 0), "Div", 2)->op_type, "Mul");
    changed_expect(BASE_UNIMPLEMENTED, "Mul (node", "computes with numbers of steps");
}
END_TEST

/* The table has 40 rows, and step t takes row t. */
START_TEST(test_a_table_bounds_the_steps)
{
    static const char *const names[] = {"loop_numbered-ts1.13-op17", "loop_spans-ts1.13-op17"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct cell_model *model = NULL;
        (void)begin(names[i]);
        ck_assert_int_eq(changed_parse(&model), BASE_OK);
        ck_assert_uint_eq(model->sequences[0].steps_max, 40);
        changed_free(model);
    }
}
END_TEST

START_TEST(test_branches_that_differ_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_clocks-ts1.13-op17"); // [15] and [batch, 5]
    changed_rename(&node_of(branch_of(graph, "else_branch"), "Identity", 0)->input[0],
                   "over_h.bias");
    changed_expect(BASE_UNIMPLEMENTED, "If (node", "tensors of other shapes");
    graph = begin("loop_clocks-ts1.13-op17"); // integers
    changed_rename(&node_of(branch_of(graph, "else_branch"), "Identity", 0)->input[0], "periods");
    changed_expect(BASE_UNIMPLEMENTED, "If (node", "makes other than floats");
    graph = begin("loop_clocks-ts1.13-op17"); // a value of either by one name
    const Onnx__GraphProto *then = branch_of(graph, "then_branch");
    const Onnx__GraphProto *other = branch_of(graph, "else_branch");
    changed_rename(&node_of(other, "Identity", 0)->output[0], then->output[0]->name);
    changed_rename(&other->output[0]->name, then->output[0]->name);
    changed_expect(BASE_UNIMPLEMENTED, "If (node", "branches on a value that depends");
    graph = begin("loop_clocks-ts1.13-op17"); // a whole sequence
    changed_rename(&node_of(branch_of(graph, "else_branch"), "Identity", 0)->input[0], "x");
    changed_expect(BASE_UNIMPLEMENTED, "If (node", "tensors of other shapes");
}
END_TEST

/* ---- Both ends --------------------------------------------------------------------------------
 */

/* What is taken from the end is a copy that is the other way round. */
START_TEST(test_a_loop_from_both_ends_goes_from_the_front)
{
    struct cell_model *model = NULL;
    uint32_t chains = 0;
    (void)begin("loop_both_ends-ts1.13-op17");
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        chains += model->stages[s].kind == CELL_STAGE_CHAIN ? 1 : 0;
        ck_assert(!model->stages[s].is_reverse);
    }
    ck_assert_uint_eq(chains, 1);
    changed_free(model);
}
END_TEST

/* ---- Lists that a body reads ------------------------------------------------------------------
 */

START_TEST(test_elements_that_a_list_may_not_have_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_listed-ts1.13-op17");
    const Onnx__GraphProto *body = body_of(graph, 0);
    set_integer(graph, node_of(body, "SequenceAt", 0)->input[1], -4); // it begins with three
    changed_expect(BASE_UNIMPLEMENTED, "SequenceAt (node", "by the number of the step");
    graph = begin("loop_listed-ts1.13-op17");
    set_integer(graph, node_of(graph, "SequenceAt", 1)->input[1], 3); // the first of the loop's
    changed_expect(BASE_UNIMPLEMENTED, "SequenceAt (node", "of the Loop or from before it");
    graph = begin("loop_listed-ts1.13-op17");
    set_integer(graph, node_of(graph, "SequenceAt", 1)->input[1], -2);
    changed_expect(BASE_UNIMPLEMENTED, "SequenceAt (node", "of the Loop or from before it");
    graph = begin("loop_listed-ts1.13-op17"); // from the front, where all but the first moves
    body = body_of(graph, 0);
    changed_rename(&node_of(body, "SequenceAt", 0)->input[1],
                   node_of(graph, "SequenceAt", 1)->input[1]);
    changed_expect(BASE_UNIMPLEMENTED, "SequenceAt (node", "by the number of the step");
}
END_TEST

/* Lists whose length no step changes are states. */
START_TEST(test_lists_of_states)
{
    struct cell_model *model = NULL;
    uint32_t states = 0;
    (void)begin("loop_layered-ts1.13-op17");
    ck_assert_int_eq(changed_parse(&model), BASE_OK);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const bool is_chain = model->stages[s].kind == CELL_STAGE_CHAIN;
        states += is_chain ? model->stages[s].type->def.n_states : 0;
    }
    ck_assert_uint_eq(states, 6);
    changed_free(model);
    const Onnx__GraphProto *graph = begin("loop_layered-ts1.13-op17");
    const Onnx__GraphProto *body = body_of(graph, 0);
    set_integer(graph, node_of(body, "SequenceErase", 0)->input[1], 2); // of two
    changed_expect(BASE_INVALID_ARGUMENT, "SequenceErase (node", "a sequence of 2 tensors");
    graph = begin("loop_layered-ts1.13-op17"); // four, then five, then six
    body = body_of(graph, 0);
    changed_rename(&node_of(body, "SequenceInsert", 2)->input[0],
                   node_of(body, "SequenceErase", 2)->input[0]);
    changed_expect(BASE_UNIMPLEMENTED, "SequenceAt (node", "by the number of the step");
    graph = begin("loop_layered-ts1.13-op17"); // what is erased from a whole sequence
    body = body_of(graph, 0);
    changed_rename(&node_of(body, "SequenceErase", 2)->input[0], body->input[4]->name);
    changed_expect(BASE_UNIMPLEMENTED, "SequenceErase (node", "a sequence that a Loop carries");
}
END_TEST

/* ---- Parts of what is assigned to -------------------------------------------------------------
 */

START_TEST(test_assignments_to_unlike_parts_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_features-ts1.13-op17");
    const Onnx__GraphProto *body = body_of(graph, 0);
    set_integer(body, node_of(body, "Slice", 2)->input[1], 2); // as wide as another part
    changed_expect(BASE_UNIMPLEMENTED, "Reshape (node", "the number of the step");
    graph = begin("loop_features-ts1.13-op17"); // every other one
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Slice", 3)->input[4], 2);
    changed_expect(BASE_UNIMPLEMENTED, "Reshape (node", "the number of the step");
    graph = begin("loop_spans-ts1.13-op17"); // two steps at once
    body = body_of(graph, 0);
    set_integer(body, node_of(body, "Add", 0)->input[1], 2);
    changed_expect(BASE_UNIMPLEMENTED, "Slice (node", "the number of the step");
}
END_TEST

/* ---- Side by side -----------------------------------------------------------------------------
 */

START_TEST(test_the_most_steps_of_two_sequences_are_refused)
{
    const Onnx__GraphProto *graph = begin("loop_beside-ts1.13-op17");
    changed_rename(&node_of(graph, "ReduceMin", 0)->op_type, "ReduceMax");
    changed_expect(BASE_UNIMPLEMENTED, "ReduceMax (node", "of a constant of type int64");
}
END_TEST

/* ---- Blocks of places -------------------------------------------------------------------------
 */

START_TEST(test_blocks_that_there_are_not_are_refused)
{
    static const struct {
        int64_t size;
        const char *why;
    } cases[] = {{3, "channels that are no blocks"},
                 {0, "a blocksize beyond 1 .. 1024"},
                 {INT64_MAX, "a blocksize beyond 1 .. 1024"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const Onnx__GraphProto *graph = begin("frames_shuffled-ts1.13-op17");
        changed_attribute(node_of(graph, "DepthToSpace", 0), "blocksize")->i = cases[i].size;
        changed_expect(BASE_UNIMPLEMENTED, "DepthToSpace (node", cases[i].why);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_idioms");
    TCase *tcase = tcase_create("idioms");
    tcase_add_checked_fixture(tcase, changed_setup, changed_teardown);
    tcase_add_test(tcase, test_parts_that_are_assigned_are_refused);
    tcase_add_test(tcase, test_other_numbers_of_steps_are_refused);
    tcase_add_test(tcase, test_steps_that_there_are_not_are_refused);
    tcase_add_test(tcase, test_elements_go_to_an_end_of_a_list);
    tcase_add_test(tcase, test_lists_that_have_begun);
    tcase_add_test(tcase, test_parts_that_there_are_not_are_refused);
    tcase_add_test(tcase, test_remainders_that_there_are_not_are_refused);
    tcase_add_test(tcase, test_a_table_bounds_the_steps);
    tcase_add_test(tcase, test_branches_that_differ_are_refused);
    tcase_add_test(tcase, test_a_loop_from_both_ends_goes_from_the_front);
    tcase_add_test(tcase, test_elements_that_a_list_may_not_have_are_refused);
    tcase_add_test(tcase, test_lists_of_states);
    tcase_add_test(tcase, test_assignments_to_unlike_parts_are_refused);
    tcase_add_test(tcase, test_the_most_steps_of_two_sequences_are_refused);
    tcase_add_test(tcase, test_blocks_that_there_are_not_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
