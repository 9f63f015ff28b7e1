/* Models of several parts whose files state halves: beside the same parts of floats, which get the
 * same numbers, each answers the nearest halves of what the other does, whatever the kind. */
#include "base/mem.h"
#include "cells/f16.h"
#include "tests/server/decoder_parts.h"
#include "tests/server/graphs.h"
#include "tests/server/hearer.h"

#include <stdio.h>
#include <string.h>

enum { LEAVES = 4, NODES = 3, FRAMES = 5, ROWS = 2 };

static const struct hearer_form hearer = {
    .has_state = true, .symbols_max = 3, .blank = 0, .favour = 0.5f};

/* ---- Models ---- */

/* A leaf's h of x, a node's of two children's, a root's y of h. */
static void write_tree(const char *version)
{
    static const char *const names[] = {"leaf", "node", "root"};
    static const char *const products[] = {"x w", "h_0 w", "h w"};
    struct base_random numbers;
    base_random_init(&numbers, 5);
    for (uint32_t p = 0; p < 3; p++) {
        onnx_init(&graphs_builder, 17);
        parts_constant(&graphs_builder, &numbers, "w", GRAPHS_WIDTH, GRAPHS_WIDTH);
        const char *const reads = p == 0 ? "x" : p == 1 ? "h_0" : "h";
        parts_input(&graphs_builder, reads, PARTS_FLOAT, GRAPHS_WIDTH);
        if (p == 1) {
            parts_input(&graphs_builder, "h_1", PARTS_FLOAT, GRAPHS_WIDTH);
        }
        onnx_node(&graphs_builder, "MatMul", products[p], "product");
        if (p == 1) {
            onnx_node(&graphs_builder, "Add", "product h_1", "sum");
        }
        onnx_node(&graphs_builder, "Tanh", p == 1 ? "sum" : "product", p == 2 ? "y" : "h");
        parts_output(&graphs_builder, p == 2 ? "y" : "h");
        parts_write(&graphs_builder, version, names[p]);
    }
}

static void write_transducer(const char *version)
{
    for (uint32_t p = 0; p < HEARER_PARTS; p++) {
        hearer_writers[p](&hearer, version, hearer_part_names[p]);
    }
}

static void write_decoder(const char *name, char version[UTIL_PATH_BYTES])
{
    struct decoder_parts parts = decoder_parts_whole;
    parts.attends = true;
    decoder_parts_write(graphs_folder, name, &parts, version);
}

/* NAME of floats, NAME_half of halves. */
static void write_twins(const char *name, const char *config, void (*write)(const char *version),
                        const char *const *parts)
{
    for (uint32_t t = 0; t < 2; t++) {
        char own[64];
        char version[UTIL_PATH_BYTES];
        snprintf(own, sizeof(own), "%s%s", name, t == 0 ? "" : "_half");
        if (write == NULL) {
            write_decoder(own, version);
        } else {
            parts_folder(graphs_folder, own, config, version);
            write(version);
        }
        for (uint32_t p = 0; t == 1 && parts[p] != NULL; p++) {
            parts_halve(version, parts[p]);
        }
    }
}

/* ---- Requests ---- */

/* Both requests, of floats and of halves. */
struct twins {
    struct visit visits[2];
    struct base_random numbers;
};

static void begin(struct twins *twins, const char *name, const char *half)
{
    graphs_begin(&twins->visits[0], name);
    graphs_begin(&twins->visits[1], half);
    base_random_init(&twins->numbers, 7);
}

/* Random halves. */
static void add_floats(struct twins *twins, const char *name, const int64_t *shape, uint32_t rank)
{
    size_t n = 1;
    for (uint32_t d = 0; d < rank; d++) {
        n *= (size_t)shape[d];
    }
    float *floats = base_arena_array(&twins->visits[0].ask.request.arena, n, sizeof(*floats));
    uint16_t *halves = base_arena_array(&twins->visits[1].ask.request.arena, n, sizeof(*halves));
    ck_assert(floats != NULL && halves != NULL);
    for (size_t i = 0; i < n; i++) {
        halves[i] = cell_f16_round(base_random_f32(&twins->numbers, -1.0f, 1.0f));
        floats[i] = cell_f16_widen(halves[i]);
    }
    for (uint32_t t = 0; t < 2; t++) {
        struct srv_request *request = &twins->visits[t].ask.request;
        struct srv_tensor *input = &request->inputs[request->n_inputs++];
        *input = (struct srv_tensor){.name = name,
                                     .datatype = t == 0 ? "FP32" : "FP16",
                                     .rank = rank,
                                     .data = t == 0 ? (const void *)floats : halves,
                                     .bytes = n * (t == 0 ? sizeof(*floats) : sizeof(*halves))};
        memcpy(input->shape, shape, rank * sizeof(shape[0]));
    }
}

static void add_integers(struct twins *twins, const char *name, int64_t rows, int64_t width,
                         const int64_t *data)
{
    for (uint32_t t = 0; t < 2; t++) {
        graphs_add(&twins->visits[t], name, "INT64", rows, width, data);
    }
}

static void expect_halves(const struct srv_tensor *floats, const struct srv_tensor *halves)
{
    const size_t n = floats->bytes / sizeof(float);
    ck_assert_str_eq(floats->datatype, "FP32");
    ck_assert_uint_eq(halves->bytes, n * sizeof(uint16_t));
    for (size_t i = 0; i < n; i++) {
        float x;
        uint16_t got;
        memcpy(&x, floats->data + i * sizeof(x), sizeof(x));
        memcpy(&got, halves->data + i * sizeof(got), sizeof(got));
        ck_assert_uint_eq(got, cell_f16_round(x));
    }
}

static void expect_same(const struct srv_tensor *a, const struct srv_tensor *b)
{
    ck_assert_str_eq(a->datatype, b->datatype);
    ck_assert_uint_eq(a->bytes, b->bytes);
    ck_assert_mem_eq(a->data, b->data, a->bytes);
}

static void expect_shape(const struct srv_tensor *a, const struct srv_tensor *b)
{
    ck_assert_str_eq(a->name, b->name);
    ck_assert_uint_eq(a->rank, b->rank);
    ck_assert_mem_eq(a->shape, b->shape, a->rank * sizeof(a->shape[0]));
}

/* Asks both. n_halves: outputs that are; the others are those of the twin. */
static void expect_twins(struct twins *twins, uint32_t n_halves)
{
    uint32_t n = 0;
    graphs_answer(&twins->visits[0]);
    graphs_answer(&twins->visits[1]);
    const struct srv_request *floats = &twins->visits[0].ask.request;
    const struct srv_request *halves = &twins->visits[1].ask.request;
    ck_assert_uint_eq(floats->n_outputs, halves->n_outputs);
    for (uint32_t o = 0; o < floats->n_outputs; o++) {
        const struct srv_tensor *a = &floats->outputs[o];
        const struct srv_tensor *b = &halves->outputs[o];
        const bool is_half = strcmp(b->datatype, "FP16") == 0;
        expect_shape(a, b);
        (is_half ? expect_halves : expect_same)(a, b);
        n += is_half ? 1 : 0;
    }
    ck_assert_uint_eq(n, n_halves);
    graphs_end(&twins->visits[0]);
    graphs_end(&twins->visits[1]);
}

/* ---- Cases ---- */

START_TEST(test_a_decoder)
{
    static const char *const parts[] = {"encoder", "decoder", NULL};
    static const int64_t source[ROWS][3] = {{1, 5, 12}, {3, 3, 0}};
    static struct twins twins;
    write_twins("talk", NULL, NULL, parts);
    graphs_open(64, 512);
    for (uint32_t gives_state = 0; gives_state < 2; gives_state++) {
        begin(&twins, "talk", "talk_half");
        add_integers(&twins, "source", ROWS, 3, source[0]);
        add_floats(&twins, "style", (const int64_t[]){ROWS, DECODER_STYLE}, 2);
        if (gives_state == 1) {
            add_floats(&twins, "s", (const int64_t[]){ROWS, DECODER_HIDDEN}, 2);
        }
        expect_twins(&twins, 1); // logits; token and lengths are integers
    }
    graphs_begin(&twins.visits[0], "talk_half");
    graphs_add(&twins.visits[0], "source", "INT64", ROWS, 3, source);
    graphs_add(&twins.visits[0], "style", "FP32", ROWS, DECODER_STYLE, source);
    graphs_refused(&twins.visits[0], "input 'style': datatype 'FP32', expected FP16");
    site_close(&graphs_site);
}
END_TEST

/* What the encoder reads as well is of one type. */
START_TEST(test_an_input_of_two_parts)
{
    static const enum base_status wanted[] = {BASE_OK, BASE_INVALID_ARGUMENT, BASE_INVALID_ARGUMENT,
                                              BASE_OK};
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    for (uint32_t t = 0; t < 4; t++) {
        struct base_error error = {.message = ""};
        struct cell_model *model = NULL;
        const struct cell_model_options options = {.precision = CELL_FP32,
                                                   .decoding = {.steps_max = 3}};
        char version[UTIL_PATH_BYTES];
        char name[16];
        snprintf(name, sizeof(name), "both%u", t);
        parts_folder(graphs_folder, name, "", version);
        for (uint32_t p = 0; p < 2; p++) {
            onnx_init(&graphs_builder, 17);
            parts_input(&graphs_builder, "x", PARTS_FLOAT, GRAPHS_WIDTH);
            if (p == 1) {
                parts_input(&graphs_builder, "h", PARTS_FLOAT, GRAPHS_WIDTH);
            }
            onnx_node(&graphs_builder, "Tanh", "x", p == 0 ? "h" : "y");
            parts_output(&graphs_builder, p == 0 ? "h" : "y");
            if (p == 1) {
                onnx_node(&graphs_builder, "Add", "x h", "h_next");
                parts_output(&graphs_builder, "h_next");
            }
            parts_write(&graphs_builder, version, p == 0 ? "encoder" : "decoder");
            if ((t >> p & 1) != 0) {
                parts_halve(version, p == 0 ? "encoder" : "decoder");
            }
        }
        ck_assert_int_eq(
            cell_model_load_decoder(registry, version, "both", &options, &model, &error),
            wanted[t]);
        ck_assert_str_eq(error.message, wanted[t] == BASE_OK
                                            ? ""
                                            : "input 'x' is of one type in encoder.onnx and of "
                                              "another in decoder.onnx");
        cell_model_free(registry, model);
    }
    cell_registry_free(registry);
}
END_TEST

START_TEST(test_a_tree)
{
    static const char *const parts[] = {"leaf", "node", "root", NULL};
    static const int64_t children[NODES][2] = {{0, 1}, {4, 2}, {5, 3}};
    static struct twins twins;
    write_twins("tree", "unfold: tree\n", write_tree, parts);
    graphs_open(64, 512);
    begin(&twins, "tree", "tree_half");
    add_floats(&twins, "x", (const int64_t[]){LEAVES, GRAPHS_WIDTH}, 2);
    add_integers(&twins, "children", NODES, 2, children[0]);
    expect_twins(&twins, 1);
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_a_graph)
{
    static const char *const parts[] = {"source", "join", "word", "wide", NULL};
    static const int64_t cells[] = {GRAPHS_JOIN, GRAPHS_SOURCE, GRAPHS_WORD, GRAPHS_JOIN};
    static const int64_t edges[][CELL_EDGE_NUMBERS] = {{1, 0, 0, 0}, {2, 0, 0, 1}, {0, 1, 3, 0}};
    static const int64_t id[] = {3};
    static struct twins twins;
    write_twins("graph", "unfold: graph\ncells: source,join,word,wide\n", graphs_write_parts,
                parts);
    graphs_open(64, 512);
    begin(&twins, "graph", "graph_half");
    add_integers(&twins, "cells", 4, 0, cells);
    add_integers(&twins, "edges", 3, CELL_EDGE_NUMBERS, edges[0]);
    add_floats(&twins, "source.x", (const int64_t[]){1, GRAPHS_WIDTH}, 2);
    add_floats(&twins, "join.b", (const int64_t[]){2, GRAPHS_WIDTH}, 2);
    add_integers(&twins, "word.id", 1, 0, id);
    expect_twins(&twins, 5);
    site_close(&graphs_site);
}
END_TEST

/* What the encoder ends with is halves; labels and their scores are no file's. */
START_TEST(test_a_transducer)
{
    static const char *const parts[] = {"encoder", "decoder", "joiner", NULL};
    static struct twins twins;
    write_twins("ears", "unfold: transducer\nblank: 0\nmax-symbols: 3\n", write_transducer, parts);
    graphs_open(64, 512);
    begin(&twins, "ears", "ears_half");
    add_floats(&twins, "x", (const int64_t[]){ROWS, FRAMES, FRAMES_FEATURES}, 3);
    add_floats(&twins, "h0", (const int64_t[]){1, ROWS, HEARER_FRAMES}, 3);
    expect_twins(&twins, 1);
    site_close(&graphs_site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half_parts");
    TCase *tests = tcase_create("kinds");
    tcase_add_checked_fixture(tests, graphs_setup, graphs_teardown);
    tcase_add_test(tests, test_a_decoder);
    tcase_add_test(tests, test_an_input_of_two_parts);
    tcase_add_test(tests, test_a_tree);
    tcase_add_test(tests, test_a_graph);
    tcase_add_test(tests, test_a_transducer);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
