/* Building cell graphs and cutting them into subgraphs. */
#include "base/mem.h"
#include "scheduler/graph.h"
#include "tests/scheduler/graphs.h"
#include "tests/util.h"

#include <string.h>

static struct graphs_types types;
static const struct cell_type *lstm;  /* one input, two states, one output */
static const struct cell_type *leaf;  /* one input, two outputs */
static const struct cell_type *inner; /* four inputs, two outputs: a tree cell */
static const struct cell_type *wide;  /* rows of another width */
static struct recipe recipe;

static void setup(void)
{
    memset(&types, 0, sizeof(types));
    lstm = graphs_type_token(&types, 1, 2, 1, 1);
    leaf = graphs_type_token(&types, 1, 0, 2, 1);
    inner = graphs_type_token(&types, 4, 0, 2, 1);
    wide = graphs_type_token(&types, 1, 0, 1, 2);
}

static const struct sched_node *node_at(uint32_t n)
{
    return &recipe.graph->nodes[n];
}

static const struct sched_subgraph *subgraph_of(uint32_t n)
{
    return &recipe.graph->subgraphs[node_at(n)->subgraph];
}

/* ---- The cut ---- */

START_TEST(test_chain_is_one_subgraph_of_one_node)
{
    recipe_init(&recipe, &types, 1);
    recipe_node(&recipe, lstm, 100);
    recipe_build(&recipe);
    ck_assert_uint_eq(recipe.graph->n_nodes, 1);
    ck_assert_uint_eq(recipe.graph->n_subgraphs, 1);
    ck_assert_uint_eq(recipe.graph->nodes_left, 1);
    ck_assert_uint_eq(subgraph_of(0)->n_ready, 1);
    ck_assert_uint_eq(recipe.graph->n_needs, 1);
    ck_assert_uint_eq(recipe.graph->needs[0].layout, lstm->state_layout);
    ck_assert_uint_eq(recipe.graph->needs[0].rows, 1);
    recipe_release(&recipe);
}
END_TEST

START_TEST(test_single_cells_in_a_row_are_one_subgraph_that_opens_one_by_one)
{
    recipe_init(&recipe, &types, 5);
    for (uint32_t n = 0; n < 5; n++) {
        recipe_node(&recipe, lstm, 1);
        for (uint32_t s = 0; n > 0 && s < 2; s++) {
            recipe_state(&recipe, n, s, n - 1, CELL_EMIT_STATE, s);
        }
    }
    recipe_build(&recipe);
    ck_assert_uint_eq(recipe.graph->n_subgraphs, 1);
    ck_assert_uint_eq(subgraph_of(0)->n_ready, 1);
    ck_assert_ptr_eq(subgraph_of(0)->ready_first, node_at(0));
    // Both states come from the same node: one edge.
    ck_assert_uint_eq(node_at(3)->waits, 1);
    recipe_release(&recipe);
}
END_TEST

START_TEST(test_nodes_that_are_not_connected_are_subgraphs_of_their_own)
{
    recipe_init(&recipe, &types, 3);
    for (uint32_t n = 0; n < 3; n++) {
        recipe_node(&recipe, lstm, 2);
    }
    recipe_build(&recipe);
    ck_assert_uint_eq(recipe.graph->n_subgraphs, 3);
    recipe_release(&recipe);
}
END_TEST

START_TEST(test_rows_of_a_node_without_state_are_all_ready_at_once)
{
    recipe_init(&recipe, &types, 1);
    recipe_node(&recipe, leaf, 7);
    recipe_build(&recipe);
    ck_assert_uint_eq(subgraph_of(0)->n_ready, 7);
    recipe_release(&recipe);
}
END_TEST

/* BatchMaker, section 4.4: a tree of 16 leaves has 17 subgraphs, each leaf and all inner nodes. */
START_TEST(test_tree_of_16_leaves_has_17_subgraphs)
{
    recipe_init(&recipe, &types, 31);
    for (uint32_t n = 0; n < 31; n++) {
        recipe_node(&recipe, n < 16 ? leaf : inner, 1);
        for (uint32_t i = 0; n >= 16 && i < 4; i++) {
            recipe_input(&recipe, n, i, 2 * (n - 16) + i / 2, CELL_EMIT_OUTPUT, i % 2);
        }
    }
    recipe_build(&recipe);
    ck_assert_uint_eq(recipe.graph->n_subgraphs, 17);
    for (uint32_t n = 0; n < 31; n++) {
        ck_assert_ptr_eq(subgraph_of(n)->type, n < 16 ? leaf : inner);
        ck_assert_uint_eq(node_at(n)->subgraph == node_at(30)->subgraph, n >= 16);
    }
    // 16 leaves, of each two values; within it only the lowest eight inner nodes are ready.
    ck_assert_uint_eq(subgraph_of(30)->waits, 16);
    ck_assert_uint_eq(subgraph_of(30)->n_ready, 8);
    ck_assert_uint_eq(subgraph_of(0)->waits, 0);
    recipe_release(&recipe);
}
END_TEST

/* a1 -> b -> a2 and a1 -> a2: as one subgraph the a's and b would wait for each other. */
START_TEST(test_type_that_comes_back_behind_another_is_another_subgraph)
{
    recipe_init(&recipe, &types, 4);
    recipe_node(&recipe, inner, 1);
    recipe_node(&recipe, leaf, 1);
    recipe_node(&recipe, inner, 1);
    recipe_node(&recipe, inner, 1);
    recipe_input(&recipe, 1, 0, 0, CELL_EMIT_OUTPUT, 0);
    recipe_input(&recipe, 2, 0, 0, CELL_EMIT_OUTPUT, 0);
    recipe_input(&recipe, 2, 1, 1, CELL_EMIT_OUTPUT, 0);
    recipe_input(&recipe, 3, 0, 0, CELL_EMIT_OUTPUT, 1);
    recipe_build(&recipe);
    ck_assert_uint_eq(recipe.graph->n_subgraphs, 3);
    ck_assert_uint_eq(node_at(0)->subgraph, node_at(3)->subgraph);
    ck_assert_uint_ne(node_at(0)->subgraph, node_at(2)->subgraph);
    ck_assert_uint_eq(subgraph_of(2)->waits, 2);
    recipe_release(&recipe);
}
END_TEST

START_TEST(test_needs_count_every_slot_and_value_row)
{
    recipe_init(&recipe, &types, 3);
    recipe_node(&recipe, lstm, 3);
    recipe_node(&recipe, lstm, 3);
    recipe_node(&recipe, inner, 1);
    recipe_input(&recipe, 2, 0, 0, CELL_EMIT_OUTPUT, 0);
    recipe_input(&recipe, 2, 1, 1, CELL_EMIT_STATE, 1);
    recipe_input(&recipe, 2, 2, 1, CELL_EMIT_STATE, 1);
    recipe_build(&recipe);
    ck_assert_uint_eq(recipe.graph->n_values, 2);
    ck_assert_uint_eq(recipe.graph->n_needs, 2);
    ck_assert_uint_eq(recipe.graph->needs[0].layout, lstm->state_layout);
    ck_assert_uint_eq(recipe.graph->needs[0].rows, 2);
    ck_assert_uint_eq(recipe.graph->needs[1].layout, inner->input_layouts[0]);
    ck_assert_uint_eq(recipe.graph->needs[1].rows, 2);
    recipe_release(&recipe);
}
END_TEST

/* ---- Random graphs ---- */

/* Takes back what other subgraphs wait for from this one. */
static void take_back(const struct sched_graph *graph, uint32_t s, uint32_t *waits)
{
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const struct sched_node *node = &graph->nodes[n];
        for (uint32_t e = 0; node->subgraph == s && e < node->n_edges; e++) {
            uint32_t to = graph->nodes[graph->edges[node->first_edge + e]].subgraph;
            waits[to] -= to == s ? 0 : 1;
        }
    }
}

/* Whether the subgraphs can be put in an order in which each waits only for earlier ones. */
static bool has_order(const struct sched_graph *graph)
{
    uint32_t waits[64] = {0};
    bool done[64] = {false};
    for (uint32_t s = 0; s < graph->n_subgraphs; s++) {
        waits[s] = graph->subgraphs[s].waits;
    }
    uint32_t left = graph->n_subgraphs;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < graph->n_subgraphs; s++) {
            if (done[s] || waits[s] > 0) {
                continue;
            }
            done[s] = moved = true;
            left--;
            take_back(graph, s, waits);
        }
    }
    return left == 0;
}

/* Numbers that the cut must have counted, counted again from the recipe. */
static uint32_t wrong_counts(const struct recipe *of)
{
    const struct sched_graph *graph = of->graph;
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < of->n_nodes; n++) {
        const struct sched_node *node = &graph->nodes[n];
        const struct sched_subgraph *subgraph = &graph->subgraphs[node->subgraph];
        wrong += subgraph->type == node->type && subgraph->graph == graph ? 0 : 1;
        wrong += node->wiring.state == CELL_ROW_NONE ? 0 : 1;
        for (uint32_t e = 0; e < node->n_edges; e++) {
            wrong += recipe_is_child(of, graph->edges[node->first_edge + e], n) ? 0 : 1;
        }
    }
    for (uint32_t v = 0; v < graph->n_values; v++) {
        wrong += graph->values[v].row == CELL_ROW_NONE && graph->values[v].readers_left > 0 ? 0 : 1;
    }
    return wrong;
}

START_TEST(test_random_graphs_are_cut_without_circles)
{
    struct base_random random = util_random(3);
    struct recipe_shape shape = {.nodes_max = 40, .steps_max = 3};
    uint32_t subgraphs = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        recipe_random(&recipe, &types, &shape, &random);
        recipe_build(&recipe);
        ck_assert(has_order(recipe.graph));
        ck_assert_uint_eq(wrong_counts(&recipe), 0);
        subgraphs += recipe.graph->n_subgraphs;
        recipe_release(&recipe);
    }
    ck_assert_uint_gt(subgraphs, 2000 * 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph");
    TCase *tcase = tcase_create("graph");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_chain_is_one_subgraph_of_one_node);
    tcase_add_test(tcase, test_single_cells_in_a_row_are_one_subgraph_that_opens_one_by_one);
    tcase_add_test(tcase, test_nodes_that_are_not_connected_are_subgraphs_of_their_own);
    tcase_add_test(tcase, test_rows_of_a_node_without_state_are_all_ready_at_once);
    tcase_add_test(tcase, test_tree_of_16_leaves_has_17_subgraphs);
    tcase_add_test(tcase, test_type_that_comes_back_behind_another_is_another_subgraph);
    tcase_add_test(tcase, test_needs_count_every_slot_and_value_row);
    tcase_add_test(tcase, test_random_graphs_are_cut_without_circles);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
