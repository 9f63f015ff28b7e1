/* Models of graphs: parts on disk, served. What simple cells make of a graph is known by hand, and
 * a TreeLSTM (models/listops) answers the same bits as a tree and as a graph, over both protocols
 * and as a test asks. */
#include "base/mem.h"
#include "proto/inference.pb-c.h"
#include "server/grpc/codec.h"
#include "server/http/json.h"
#include "tests/server/graphs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NODES_MAX = 100000 };

/* The output has these rows and no others. */
static void expect_rows(const struct visit *visit, const char *name, int64_t rows,
                        const float *wanted)
{
    const struct srv_tensor *output = ask_output(&visit->ask, name);
    ck_assert_msg(output != NULL, "no output %s", name);
    ck_assert_int_eq(output->shape[0], rows);
    for (size_t i = 0; i < (size_t)rows * GRAPHS_WIDTH; i++) {
        float got = 0;
        memcpy(&got, output->data + i * sizeof(got), sizeof(got));
        ck_assert_msg(got == wanted[i], "%s, number %zu: %f, wanted %f", name, i, (double)got,
                      (double)wanted[i]);
    }
}

/* ---- A graph known by hand ---------------------------------------------------------------- */

/* Node 1 is read by two others, one of them twice; nodes come in no order. */
static const int64_t diamond_cells[] = {GRAPHS_JOIN, GRAPHS_SOURCE, GRAPHS_JOIN, GRAPHS_JOIN,
                                        GRAPHS_WORD};
static const int64_t diamond_edges[][CELL_EDGE_NUMBERS] = {
    {2, 0, 0, 0}, {3, 1, 0, 1}, {1, 0, 2, 0}, {1, 0, 2, 1}, {1, 0, 3, 0}, {4, 0, 3, 1}};
static const float diamond_x[] = {1, 2};
static const int64_t diamond_id[] = {1};
static const float diamond_sums[] = {8, 48, 4, 8, 4, 14};
static const float diamond_products[] = {16, 320, 4, 16, 4, 40};

static void add_diamond(struct visit *visit)
{
    graphs_add_shape(visit, 5, diamond_cells, 6, diamond_edges[0]);
    graphs_add(visit, "source.x", "FP32", 1, GRAPHS_WIDTH, diamond_x);
    graphs_add(visit, "word.id", "INT64", 1, 0, diamond_id);
}

static void expect_diamond(const struct visit *visit)
{
    const float v[] = {2, 4};
    const float word[] = {2, 10};
    ck_assert_uint_eq(visit->ask.request.n_outputs, 5);
    expect_rows(visit, "join.sum", 3, diamond_sums);
    expect_rows(visit, "join.product", 3, diamond_products);
    expect_rows(visit, "source.v", 1, v);
    expect_rows(visit, "word.v", 1, word);
    ck_assert_int_eq(ask_output(&visit->ask, "wide.z")->shape[0], 0);
}

static void never(struct srv_request *request)
{
    (void)request;
    ck_abort_msg("a graph has no parts");
}

/* The second time the answer is wanted in parts, and comes in one piece. */
START_TEST(test_an_output_that_many_read)
{
    static struct visit visit;
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(64, 64);
    graphs_begin(&visit, "graph");
    add_diamond(&visit);
    visit.ask.request.in_parts = _i == 1;
    visit.ask.request.progressed = never;
    graphs_answer(&visit);
    expect_diamond(&visit);
    ck_assert_uint_eq(site_stats(&graphs_site, "graph", "1").inference_count, 1);
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_outputs_by_name)
{
    static struct visit visit;
    static const char *wanted[] = {"join.product"};
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(64, 64);
    graphs_begin(&visit, "graph");
    add_diamond(&visit);
    visit.ask.request.wanted = wanted;
    visit.ask.request.n_wanted = 1;
    graphs_answer(&visit);
    ck_assert_uint_eq(visit.ask.request.n_outputs, 1);
    expect_rows(&visit, "join.product", 3, diamond_products);
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

/* What neither an edge nor a row gives is zeros, of an id 0; beside an edge no row is read. */
START_TEST(test_inputs_that_are_left_out)
{
    static struct visit visit;
    const int64_t cells[] = {GRAPHS_WORD, GRAPHS_JOIN, GRAPHS_JOIN};
    const int64_t edges[] = {0, 0, 1, 0};
    const float a[] = {7, 7, 3, 4};
    const float sums[] = {1, 0, 3, 4};
    const float words[] = {1, 0};
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(64, 64);
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, 3, cells, 1, edges);
    graphs_add(&visit, "join.a", "FP32", 2, GRAPHS_WIDTH, a);
    graphs_answer(&visit);
    expect_rows(&visit, "join.sum", 2, sums);
    expect_rows(&visit, "word.v", 1, words);
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_a_node_alone)
{
    static struct visit visit;
    const int64_t cells[] = {GRAPHS_SOURCE};
    const float x[] = {1, 2};
    const float v[] = {2, 4};
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(64, 64);
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, 1, cells, 0, NULL);
    graphs_add(&visit, "source.x", "FP32", 1, GRAPHS_WIDTH, x);
    graphs_answer(&visit);
    expect_rows(&visit, "source.v", 1, v);
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

/* ---- Both protocols ----------------------------------------------------------------------- */

/* The diamond as gRPC has it; released by the caller. */
static uint8_t *pack_diamond(size_t *length)
{
    struct visit visit;
    Inference__ModelInferRequest message;
    Inference__ModelInferRequest__InferInputTensor tensors[GRAPHS_INPUTS_MAX];
    Inference__ModelInferRequest__InferInputTensor *inputs[GRAPHS_INPUTS_MAX];
    ProtobufCBinaryData raw[GRAPHS_INPUTS_MAX];
    char name[] = "graph";
    graphs_begin(&visit, name);
    add_diamond(&visit);
    inference__model_infer_request__init(&message);
    message.model_name = name;
    for (uint32_t i = 0; i < visit.ask.request.n_inputs; i++) {
        struct srv_tensor *given = &visit.ask.request.inputs[i];
        union {
            const void *in;
            void *out;
        } own_name = {given->name}, datatype = {given->datatype}, data = {given->data};
        inference__model_infer_request__infer_input_tensor__init(&tensors[i]);
        tensors[i].name = own_name.out;
        tensors[i].datatype = datatype.out;
        tensors[i].shape = given->shape;
        tensors[i].n_shape = given->rank;
        raw[i] = (ProtobufCBinaryData){.data = data.out, .len = given->bytes};
        inputs[i] = &tensors[i];
    }
    message.inputs = inputs;
    message.raw_input_contents = raw;
    message.n_inputs = message.n_raw_input_contents = visit.ask.request.n_inputs;
    *length = inference__model_infer_request__get_packed_size(&message);
    uint8_t *bytes = base_alloc(*length);
    ck_assert_ptr_nonnull(bytes);
    inference__model_infer_request__pack(&message, bytes);
    graphs_end(&visit);
    return bytes;
}

START_TEST(test_a_graph_over_grpc)
{
    static struct visit visit;
    struct base_error error = {.message = ""};
    char version[UTIL_PATH_BYTES];
    size_t length = 0;
    uint8_t *bytes = pack_diamond(&length);
    graphs_write(version);
    graphs_open(64, 64);
    graphs_begin(&visit, "graph");
    ck_assert_msg(srv_grpc_decode_infer((struct srv_grpc_bytes){bytes, length}, &visit.ask.request,
                                        &error) == BASE_OK,
                  "%s", error.message);
    graphs_answer(&visit);
    expect_diamond(&visit);
    const size_t answered = srv_grpc_infer_bytes(&visit.ask.request);
    uint8_t *out = base_alloc(answered);
    srv_grpc_encode_infer(&visit.ask.request, out, answered);
    Inference__ModelInferResponse *response =
        inference__model_infer_response__unpack(NULL, answered, out);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->n_raw_output_contents, 5);
    inference__model_infer_response__free_unpacked(response, NULL);
    base_free(out);
    base_free(bytes);
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_a_graph_in_json)
{
    static struct visit visit;
    static const char text[] =
        "{\"inputs\":[{\"name\":\"cells\",\"datatype\":\"INT64\",\"shape\":[5],"
        "\"data\":[1,0,1,1,2]},"
        "{\"name\":\"edges\",\"datatype\":\"INT64\",\"shape\":[6,4],"
        "\"data\":[[2,0,0,0],[3,1,0,1],[1,0,2,0],[1,0,2,1],[1,0,3,0],[4,0,3,1]]},"
        "{\"name\":\"source.x\",\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[1,2]},"
        "{\"name\":\"word.id\",\"datatype\":\"INT64\",\"shape\":[1],\"data\":[1]}]}";
    const struct srv_http_body body = {(const uint8_t *)text, strlen(text), strlen(text)};
    struct srv_http_codec codec;
    struct srv_http_form form;
    struct srv_http_answer made;
    struct base_buf json;
    struct base_error error = {.message = ""};
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(64, 64);
    graphs_begin(&visit, "graph");
    srv_http_codec_init(&codec, 1 << 16);
    ck_assert_msg(srv_http_decode(&codec, &body, &visit.ask.request, &form, &error) == BASE_OK,
                  "%s", error.message);
    graphs_answer(&visit);
    expect_diamond(&visit);
    base_buf_init(&json, 1 << 16);
    srv_http_encode(&visit.ask.request, &form, &json, &made);
    ck_assert_ptr_nonnull(strstr(json.data, "\"shape\":[3,2]"));
    ck_assert_ptr_nonnull(strstr(json.data, "\"shape\":[0,3]"));
    base_buf_release(&json);
    srv_http_codec_release(&codec);
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

/* ---- Large -------------------------------------------------------------------------------- */

/* A line of nodes, each adding its row: nothing recurses, and rows are given back as it goes. */
START_TEST(test_a_line_of_nodes)
{
    static struct visit visit;
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(NODES_MAX, NODES_MAX);
    graphs_begin(&visit, "graph");
    struct base_arena *arena = &visit.ask.request.arena;
    int64_t *cells = base_arena_array(arena, NODES_MAX, sizeof(*cells));
    int64_t(*edges)[CELL_EDGE_NUMBERS] = base_arena_array(arena, NODES_MAX, sizeof(*edges));
    float(*ones)[GRAPHS_WIDTH] = base_arena_array(arena, NODES_MAX, sizeof(*ones));
    ck_assert(cells != NULL && edges != NULL && ones != NULL);
    for (int64_t n = 0; n < NODES_MAX; n++) { // the last named is the first to run
        const int64_t edge[] = {n + 1, 0, n, 1};
        cells[n] = GRAPHS_JOIN;
        memcpy(edges[n], edge, sizeof(edge));
        ones[n][0] = 1;
        ones[n][1] = 2;
    }
    graphs_add_shape(&visit, NODES_MAX, cells, NODES_MAX - 1, edges[0]);
    graphs_add(&visit, "join.a", "FP32", NODES_MAX, GRAPHS_WIDTH, ones);
    graphs_answer(&visit);
    const struct srv_tensor *sums = ask_output(&visit.ask, "join.sum");
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < NODES_MAX; n++) {
        float got[GRAPHS_WIDTH];
        memcpy(got, sums->data + n * sizeof(got), sizeof(got));
        wrong += got[0] == (float)(NODES_MAX - n) && got[1] == 2 * got[0] ? 0 : 1;
    }
    ck_assert_uint_eq(wrong, 0);
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

/* More rows than there are: told, and nothing stays. */
START_TEST(test_a_graph_that_never_fits)
{
    static struct visit visit;
    static int64_t cells[4000];
    static int64_t edges[3999][CELL_EDGE_NUMBERS];
    char version[UTIL_PATH_BYTES];
    graphs_write(version);
    graphs_open(NODES_MAX, 4);
    for (int64_t n = 0; n < 4000; n++) {
        cells[n] = GRAPHS_JOIN;
        if (n > 0) {
            const int64_t edge[] = {n - 1, 0, n, 0};
            memcpy(edges[n - 1], edge, sizeof(edge));
        }
    }
    graphs_begin(&visit, "graph");
    graphs_add_shape(&visit, 4000, cells, 3999, edges[0]);
    visit_start(&graphs_site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(visit.ask.request.error.message, "state rows"));
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

/* ---- The same cells as a tree ------------------------------------------------------------- */

enum { ARITY = 6, LEAVES = 30, TREES = 20 };

/* A version whose parts are those of models/listops. */
static void link_listops(const char *name, const char *config)
{
    static const char *const parts[] = {"leaf", "node", "root"};
    char version[UTIL_PATH_BYTES];
    parts_folder(graphs_folder, name, config, version);
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        char relative[64];
        char from[UTIL_PATH_BYTES];
        char to[2 * UTIL_PATH_BYTES];
        snprintf(relative, sizeof(relative), "models/listops/1/%s.onnx", parts[p]);
        util_repo_path(from, relative);
        snprintf(to, sizeof(to), "%s/%s.onnx", version, parts[p]);
        ck_assert_int_eq(symlink(from, to), 0);
    }
}

/* The number of a cell's input or output in its file. */
static int64_t number_of(const struct cell_graph *graph, uint32_t cell, const char *name,
                         bool is_input)
{
    const struct cell_graph_cell *at = &graph->cells[cell];
    const uint32_t n = is_input ? at->n_inputs : at->n_outputs;
    for (uint32_t i = 0; i < n; i++) {
        const struct cell_tensor *tensor =
            is_input ? &graph->inputs[at->first_input + i] : &graph->outputs[at->first_output + i];
        if (strcmp(tensor->name, name) == 0) {
            return i;
        }
    }
    ck_abort_msg("no tensor %s", name);
}

/* A tree of leaves and inner nodes, children before their parents, as both models are asked. */
struct tree {
    int64_t words[LEAVES], children[LEAVES][ARITY];
    int64_t cells[2 * LEAVES + 1], edges[2 * ARITY * LEAVES + 1][CELL_EDGE_NUMBERS];
    int64_t n_leaves, n_nodes, n_edges;
};

static void add_edge(struct tree *tree, int64_t from, int64_t output, int64_t to, int64_t input)
{
    const int64_t edge[] = {from, output, to, input};
    memcpy(tree->edges[tree->n_edges++], edge, sizeof(edge));
}

/* Both values of a child go to the inputs of that place. */
static void add_child(const struct cell_graph *graph, struct tree *tree, int64_t node,
                      uint32_t place)
{
    static const char *const values[] = {"h", "c"};
    const int64_t child = tree->children[node][place];
    const bool is_leaf = child < tree->n_leaves;
    for (uint32_t v = 0; v < 2; v++) {
        char input[32];
        char output[32];
        snprintf(input, sizeof(input), "node.%s_%u", values[v], place);
        snprintf(output, sizeof(output), "%s.%s", is_leaf ? "leaf" : "node", values[v]);
        add_edge(tree, child, number_of(graph, is_leaf ? 0 : 1, output, false),
                 tree->n_leaves + node, number_of(graph, 1, input, true));
    }
}

static void draw_tree(const struct cell_graph *graph, struct tree *tree, struct base_random *random)
{
    int64_t open[LEAVES] = {0};
    uint32_t n_open = 1 + base_random_below(random, LEAVES);
    memset(tree, 0, sizeof(*tree));
    memset(tree->children, 0xff, sizeof(tree->children));
    tree->n_leaves = n_open;
    for (uint32_t l = 0; l < n_open; l++) {
        tree->words[l] = base_random_below(random, 14);
        open[l] = l;
    }
    while (n_open > 1) {
        const uint32_t most = n_open < ARITY ? n_open : ARITY;
        const uint32_t n = 2 + base_random_below(random, most - 1);
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t at = base_random_below(random, n_open);
            tree->children[tree->n_nodes][k] = open[at];
            open[at] = open[--n_open];
            add_child(graph, tree, tree->n_nodes, k);
        }
        tree->cells[tree->n_leaves + tree->n_nodes] = 1;
        open[n_open++] = tree->n_leaves + tree->n_nodes++;
    }
    const int64_t root = tree->n_leaves + tree->n_nodes;
    tree->cells[root] = 2;
    add_edge(tree, open[0],
             number_of(graph, open[0] < tree->n_leaves ? 0 : 1,
                       open[0] < tree->n_leaves ? "leaf.h" : "node.h", false),
             root, number_of(graph, 2, "root.h", true));
}

static void expect_equal(const struct visit *tree, const char *of_tree, const struct visit *graph,
                         const char *of_graph)
{
    const struct srv_tensor *a = ask_output(&tree->ask, of_tree);
    const struct srv_tensor *b = ask_output(&graph->ask, of_graph);
    ck_assert(a != NULL && b != NULL);
    ck_assert_uint_eq(a->bytes, b->bytes);
    ck_assert_mem_eq(a->data, b->data, a->bytes);
}

START_TEST(test_a_tree_as_a_graph_has_the_same_bits)
{
    static struct tree trees[TREES];
    static struct visit as_tree[TREES];
    static struct visit as_graph[TREES];
    struct base_random random = util_random(5);
    link_listops("tree", "unfold: tree\n");
    link_listops("graph", "unfold: graph\ncells: [leaf, node, root]\n");
    graphs_open(256, 256);
    const struct cell_graph *graph = &site_find(&graphs_site, "graph")->graph;
    for (uint32_t i = 0; i < TREES; i++) {
        struct tree *tree = &trees[i];
        draw_tree(graph, tree, &random);
        graphs_begin(&as_tree[i], "tree");
        graphs_add(&as_tree[i], "word", "INT64", tree->n_leaves, 0, tree->words);
        graphs_add(&as_tree[i], "children", "INT64", tree->n_nodes, ARITY, tree->children);
        graphs_begin(&as_graph[i], "graph");
        graphs_add_shape(&as_graph[i], tree->n_leaves + tree->n_nodes + 1, tree->cells,
                         tree->n_edges, tree->edges[0]);
        graphs_add(&as_graph[i], "leaf.word", "INT64", tree->n_leaves, 0, tree->words);
        visit_start(&graphs_site, &as_tree[i]);
        visit_start(&graphs_site, &as_graph[i]);
    }
    for (uint32_t i = 0; i < TREES; i++) {
        visit_wait(&as_tree[i]);
        visit_wait(&as_graph[i]);
        ck_assert_int_eq(as_tree[i].ask.request.error.status, BASE_OK);
        ck_assert_msg(as_graph[i].ask.request.error.status == BASE_OK, "%s",
                      as_graph[i].ask.request.error.message);
        expect_equal(&as_tree[i], "scores", &as_graph[i], "root.scores");
        expect_equal(&as_tree[i], "value", &as_graph[i], "root.value");
        graphs_end(&as_tree[i]);
        graphs_end(&as_graph[i]);
    }
    ck_assert_uint_eq(site_rows(&graphs_site), 0);
    ck_assert_uint_eq(site_reserved(&graphs_site), 0);
    site_close(&graphs_site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graph_model");
    TCase *served = tcase_create("served");
    tcase_add_checked_fixture(served, graphs_setup, graphs_teardown);
    tcase_add_loop_test(served, test_an_output_that_many_read, 0, 2);
    tcase_add_test(served, test_outputs_by_name);
    tcase_add_test(served, test_inputs_that_are_left_out);
    tcase_add_test(served, test_a_node_alone);
    tcase_add_test(served, test_a_graph_over_grpc);
    tcase_add_test(served, test_a_graph_in_json);
    tcase_add_test(served, test_a_line_of_nodes);
    tcase_add_test(served, test_a_graph_that_never_fits);
    tcase_add_test(served, test_a_tree_as_a_graph_has_the_same_bits);
    suite_add_tcase(suite, served);
    return util_run(suite);
}
