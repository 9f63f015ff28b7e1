/* Models of graphs: requests that are no graphs, and parts that make none, are refused by name and
 * number. */
#include "tests/server/graphs.h"

#include <stdio.h>
#include <string.h>

/* ---- Requests that are no graphs ---------------------------------------------------------- */

static void expect_no_graph(int64_t n_nodes, const int64_t *cells, int64_t n_edges,
                            const int64_t *edges, const char *why)
{
    static struct visit visit;
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, n_nodes, cells, n_edges, edges);
    graphs_refused(&visit, why);
}

START_TEST(test_what_is_no_graph_is_refused_with_its_numbers)
{
    static const int64_t many[65] = {0};
    static const int64_t edges[65 * 32 * CELL_EDGE_NUMBERS] = {0};
    const int64_t cells[] = {GRAPHS_JOIN, GRAPHS_WIDE, GRAPHS_SOURCE};
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(64, 64);
    expect_no_graph(0, many, 0, NULL, "input 'cells': no nodes");
    expect_no_graph(65, many, 0, NULL, "65 nodes, expected 64 at most");
    expect_no_graph(1, (const int64_t[]){4}, 0, NULL, "node 0 is of cell 4, expected 0..3");
    expect_no_graph(3, cells, 1, (const int64_t[]){0, 0, 3, 0}, "edge 0: to node 3");
    expect_no_graph(3, cells, 1, (const int64_t[]){2, 1, 0, 0},
                    "edge 0: output 1 of node 2, whose cell 'source' has 1");
    expect_no_graph(3, cells, 1, (const int64_t[]){2, 0, 0, 2},
                    "edge 0: input 2 of node 0, whose cell 'join' has 2");
    expect_no_graph(3, cells, 1, (const int64_t[]){2, 0, 1, 0},
                    "edge 0: source.v is FP32 of width 2, wide.y takes FP32 of width 3");
    expect_no_graph(3, cells, 2, (const int64_t[]){2, 0, 0, 1, 2, 0, 0, 1},
                    "edges 0 and 1 both lead to input 1 of node 0");
    expect_no_graph(3, cells, 1, (const int64_t[]){0, 1, 0, 1}, "a cycle through node 0");
    expect_no_graph(3, cells, 5, edges, "5 edges, but the nodes have 4 inputs");
    expect_no_graph(1, cells, 33, edges, "33 edges are more than 1 nodes can have");
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_tensors_that_do_not_fit_are_refused)
{
    static struct visit visit;
    const int64_t numbers[8] = {GRAPHS_SOURCE, GRAPHS_WORD};
    const float rows[6] = {0};
    const int64_t beyond[] = {GRAPHS_WORDS};
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(64, 64);
    graphs_begin(&visit, "graph");
    graphs_add(&visit, "cells", "INT64", 2, 0, numbers);
    graphs_refused(&visit, "input 'edges' is missing");
    graphs_begin(&visit, "graph");
    graphs_add(&visit, "cells", "INT64", 2, 0, numbers);
    graphs_add(&visit, "edges", "INT64", 1, 3, numbers);
    graphs_refused(&visit, "input 'edges': shape [1,3], expected [-1,4]");
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, 2, numbers, 0, NULL);
    graphs_add(&visit, "source.x", "FP32", 2, GRAPHS_WIDTH, rows);
    graphs_refused(&visit, "input 'source.x': 2 rows, expected 1: as many as there are nodes of "
                           "cell 0");
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, 2, numbers, 0, NULL);
    graphs_add(&visit, "source.x", "FP32", 1, GRAPHS_WIDTH + 1, rows);
    graphs_refused(&visit, "input 'source.x': shape [1,3], expected [-1,2]");
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, 2, numbers, 0, NULL);
    graphs_add(&visit, "word.id", "INT64", 1, 0, beyond);
    graphs_refused(&visit, "input 'word.id': id 5 at position 0, expected 0..4");
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, 2, numbers, 0, NULL);
    graphs_add(&visit, "x", "FP32", 1, GRAPHS_WIDTH, rows);
    graphs_refused(&visit, "input 'x' is not one of the model's 7 inputs");
    site_close(&graphs_site);
}
END_TEST

/* ---- Parts -------------------------------------------------------------------------------- */

START_TEST(test_check_model_knows_a_graph)
{
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    const char *const lines[] = {"input   cells INT64 [nodes]\n",
                                 "input   edges INT64 [edges, 4]\n",
                                 "input   word.id INT64 [nodes of the cell], ids 0..4, optional\n",
                                 "output  join.product FP32 [nodes of the cell, 2]\n",
                                 "cell 1 join: ADD MUL",
                                 "cell 2 word: GATHER",
                                 NULL};
    parts_expect_lines(graphs_folder, lines);
}
END_TEST

static enum base_status load(const struct cell_parts *parts, struct base_error *error)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    const enum base_status status =
        cell_model_load_graph(registry, parts, "test", NULL, &model, error);
    ck_assert((status == BASE_OK) == (model != NULL));
    cell_model_free(registry, model);
    cell_registry_free(registry); // fails the case when a type is still held
    return status;
}

static void expect_no_model(const struct cell_parts *parts, enum base_status wanted,
                            const char *why)
{
    struct base_error error = {.message = ""};
    const enum base_status status = load(parts, &error);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%s: %s",
                  base_status_name(status), error.message);
}

/* An input of this name, and as many more as are wanted. */
static void write_part(const char *version, const char *part, const char *input, uint32_t more)
{
    char name[320];
    snprintf(name, sizeof(name), "%s %s", input, input);
    onnx_init(&graphs_builder, 17);
    parts_input(&graphs_builder, input, PARTS_FLOAT, GRAPHS_WIDTH);
    onnx_node(&graphs_builder, "Add", name, "sum0");
    for (uint32_t i = 0; i < more; i++) {
        char sums[64];
        snprintf(name, sizeof(name), "in%u", i);
        parts_input(&graphs_builder, name, PARTS_FLOAT, GRAPHS_WIDTH);
        snprintf(sums, sizeof(sums), "sum%u in%u", i, i);
        snprintf(name, sizeof(name), "sum%u", i + 1);
        onnx_node(&graphs_builder, "Add", sums, name);
    }
    snprintf(name, sizeof(name), "sum%u", more);
    parts_output(&graphs_builder, name);
    parts_write(&graphs_builder, version, part);
}

START_TEST(test_parts_that_make_no_graph_are_refused)
{
    enum { MANY = 13 };
    char version[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    char longest[128];
    char many[MANY][16];
    graphs_write(version);
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    write_part(version, "long", longest, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(many[i], sizeof(many[i]), "many%u", i);
        write_part(version, many[i], "x", i + 1 < MANY ? CELL_INPUTS_MAX - 1 : 15);
    }
    write_part(version, "a.b", "c", 0);
    write_part(version, "a", "b.c", 0);
    snprintf(path, sizeof(path), "%s/torn.onnx", version);
    util_write_file(path, "no model");
    struct cell_parts parts = {.folder = version, .n = 0};
    expect_no_model(&parts, BASE_INVALID_ARGUMENT, "a graph of 0 cells, expected 1..256");
    parts.n = CELL_STAGES_MAX + 1;
    expect_no_model(&parts, BASE_INVALID_ARGUMENT, "a graph of 257 cells, expected 1..256");
    parts.n = 2;
    parts.names[0] = "source";
    parts.names[1] = "nowhere";
    expect_no_model(&parts, BASE_NOT_FOUND, "nowhere.onnx: the model file cannot be opened");
    parts.names[1] = "torn";
    expect_no_model(&parts, BASE_INVALID_ARGUMENT, "torn.onnx: ");
    parts.names[1] = "long";
    expect_no_model(&parts, BASE_INVALID_ARGUMENT, "is too long: 132 bytes with the cell's");
    parts.n = MANY;
    for (uint32_t i = 0; i < MANY; i++) {
        parts.names[i] = many[i];
    }
    expect_no_model(&parts, BASE_UNIMPLEMENTED, "the cells have 256 inputs, at most 254 together");
    parts.n = 2;
    parts.names[0] = "a.b";
    parts.names[1] = "a";
    expect_no_model(&parts, BASE_INVALID_ARGUMENT,
                    "two tensors of the model would be called 'a.b.c'");
}
END_TEST

static enum base_status load_part(struct cell_registry *registry, const void *parts,
                                  struct cell_model **out)
{
    return cell_model_load_graph(registry, parts, "test", NULL, out, NULL);
}

START_TEST(test_loading_survives_every_failed_allocation)
{
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    const struct cell_parts parts = {
        .folder = version, .n = 4, .names = {"source", "join", "word", "wide"}};
    parts_fail_allocations(load_part, &parts);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph_refusals");
    TCase *refused = tcase_create("refused");
    tcase_add_checked_fixture(refused, graphs_setup, graphs_teardown);
    tcase_add_test(refused, test_what_is_no_graph_is_refused_with_its_numbers);
    tcase_add_test(refused, test_tensors_that_do_not_fit_are_refused);
    tcase_add_test(refused, test_check_model_knows_a_graph);
    tcase_add_test(refused, test_parts_that_make_no_graph_are_refused);
    tcase_add_test(refused, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, refused);
    return util_run(suite);
}
