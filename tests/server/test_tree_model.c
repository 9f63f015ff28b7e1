/* Models of trees: three parts on disk, served; random forests in one run, each answer compared
 * with the cells evaluated one by one in double precision, and with itself asked alone. Requests
 * that are no trees, and parts that do not fit each other, are refused by name. */
#include "server/check_model.h"
#include "tests/cells/oracle.h"
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 11, HIDDEN = 6, TAGS = 2, CLASSES = 3, CHILDREN = 2, LEAVES_MAX = 4096 };

static char folder[UTIL_PATH_BYTES];
static struct site site;
static struct onnx_builder builder;
static struct base_random random_numbers;

/* ---- Parts -------------------------------------------------------------------------------- */

/* What a case changes in the parts. */
struct parts {
    const char *leaf_output, *node_output; /* the first one's name */
    const char *left;                      /* the name of a node's first input */
    const char *root_input;
    const char *tag;
    int64_t node_hidden;
    bool has_root;
};

static const struct parts whole = {.leaf_output = "h",
                                   .node_output = "h",
                                   .left = "h_0",
                                   .root_input = "h",
                                   .tag = "tag",
                                   .node_hidden = HIDDEN,
                                   .has_root = true};

static void constant(const char *name, int64_t rows, int64_t cols)
{
    parts_constant(&builder, &random_numbers, name, rows, cols);
}

/* h = tanh(x W), c = x U of a word's x. c comes first in the cell, h first in the file. */
static void write_leaf(const char *version, const struct parts *parts)
{
    onnx_init(&builder, 17);
    parts_input(&builder, "word", PARTS_INT64, 0);
    constant("table", WORDS, HIDDEN);
    constant("w", HIDDEN, HIDDEN);
    constant("u", HIDDEN, HIDDEN);
    onnx_node(&builder, "Gather", "table word", "x");
    onnx_node(&builder, "MatMul", "x u", "c");
    onnx_node(&builder, "MatMul", "x w", "sum");
    onnx_node(&builder, "Tanh", "sum", parts->leaf_output);
    parts_output(&builder, parts->leaf_output);
    parts_output(&builder, "c");
    parts_write(&builder, version, "leaf");
}

/* c = f c_0 + (1 - f) c_1 + tag V,  h = tanh(c), with f of both h. */
static void write_node(const char *version, const struct parts *parts)
{
    const float one = 1.0f;
    char join[64];
    snprintf(join, sizeof(join), "%s h_1", parts->left);
    onnx_init(&builder, 17);
    parts_input(&builder, parts->left, PARTS_FLOAT, HIDDEN);
    parts_input(&builder, "c_0", PARTS_FLOAT, HIDDEN);
    parts_input(&builder, "h_1", PARTS_FLOAT, HIDDEN);
    parts_input(&builder, "c_1", PARTS_FLOAT, HIDDEN);
    parts_input(&builder, parts->tag, PARTS_FLOAT, TAGS);
    constant("w", 2 * HIDDEN, HIDDEN);
    constant("v", TAGS, HIDDEN);
    onnx_constant(&builder, "one", onnx_tensor(&builder, PARTS_FLOAT, 0, NULL, &one, sizeof(one)));
    onnx_set_int(&builder, onnx_node(&builder, "Concat", join, "both"), "axis", 1);
    onnx_node(&builder, "MatMul", "both w", "sum");
    onnx_node(&builder, "Sigmoid", "sum", "f");
    onnx_node(&builder, "Sub", "one f", "rest");
    onnx_node(&builder, "Mul", "f c_0", "first");
    onnx_node(&builder, "Mul", "rest c_1", "second");
    onnx_node(&builder, "Add", "first second", "both_c");
    char tagged[64];
    snprintf(tagged, sizeof(tagged), "%s v", parts->tag);
    onnx_node(&builder, "MatMul", tagged, "of_tag");
    onnx_node(&builder, "Add", "both_c of_tag", "c");
    if (parts->node_hidden != HIDDEN) {
        constant("narrow", HIDDEN, parts->node_hidden);
        onnx_node(&builder, "MatMul", "c narrow", "cut");
        onnx_node(&builder, "Tanh", "cut", parts->node_output);
    } else {
        onnx_node(&builder, "Tanh", "c", parts->node_output);
    }
    parts_output(&builder, parts->node_output);
    parts_output(&builder, "c");
    parts_write(&builder, version, "node");
}

static void write_root(const char *version, const struct parts *parts)
{
    onnx_init(&builder, 17);
    parts_input(&builder, parts->root_input, PARTS_FLOAT, HIDDEN);
    constant("w", HIDDEN, CLASSES);
    char product[64];
    snprintf(product, sizeof(product), "%s w", parts->root_input);
    onnx_node(&builder, "MatMul", product, "sum");
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "sum", "scores"), "axis", 1);
    parts_output(&builder, "scores");
    parts_write(&builder, version, "root");
}

/* A repository with one model of these parts; the path of its version. */
static void write_model(const char *name, const struct parts *parts, char version[UTIL_PATH_BYTES])
{
    random_numbers = util_random(1);
    parts_folder(folder, name, "unfold: tree\n", version);
    write_leaf(version, parts);
    write_node(version, parts);
    if (parts->has_root) {
        write_root(version, parts);
    }
}

static void open_site(void)
{
    struct site_options options;
    site_options_init(&options);
    options.core.sequence_length_max = 2 * LEAVES_MAX;
    options.repositories[0] = folder;
    options.engine.rows = 4096;
    site_open(&site, &options);
}

static void setup(void)
{
    util_temp_dir(folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

/* ---- Trees -------------------------------------------------------------------------------- */

/* A request's trees. Inner nodes are numbered at random, so that a parent may come before its
 * children. */
struct forest {
    uint32_t n_leaves, n_nodes;
    uint32_t *made;          /* inner nodes, in the order they were made: children first */
    const int64_t *children; /* [n_nodes][CHILDREN] */
    int64_t *words;
    float *tags;
};

static void *take(struct visit *visit, size_t n, size_t size)
{
    void *memory = base_arena_array(&visit->ask.request.arena, n + 1, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static void shuffle(uint32_t *numbers, uint32_t n, struct base_random *random)
{
    for (uint32_t i = 0; i < n; i++) {
        numbers[i] = i;
    }
    for (uint32_t i = n; i-- > 1;) {
        uint32_t k = base_random_below(random, i + 1);
        uint32_t moved = numbers[i];
        numbers[i] = numbers[k];
        numbers[k] = moved;
    }
}

/* n_roots trees over n_leaves leaves; some inner nodes have one child alone, first or second. */
static struct forest draw_forest(struct visit *visit, uint32_t n_leaves, uint32_t n_roots,
                                 struct base_random *random)
{
    const uint32_t most = 2 * n_leaves;
    struct forest forest = {.n_leaves = n_leaves,
                            .made = take(visit, most, sizeof(uint32_t)),
                            .words = take(visit, n_leaves, sizeof(int64_t))};
    uint32_t *open =
        take(visit, n_leaves, sizeof(*open)); // roots so far: numbers, inner ones + made
    uint32_t n_open = n_leaves;
    int64_t(*merged)[CHILDREN] = take(visit, most, sizeof(*merged));
    for (uint32_t l = 0; l < n_leaves; l++) {
        open[l] = l;
        forest.words[l] = base_random_below(random, WORDS);
    }
    while (n_open > n_roots && forest.n_nodes < most) {
        uint32_t a = base_random_below(random, n_open);
        bool is_single = base_random_below(random, 8) == 0 && forest.n_nodes + n_open < most;
        merged[forest.n_nodes][0] = open[a];
        merged[forest.n_nodes][1] = -1;
        open[a] = open[--n_open];
        if (is_single) {
            if (base_random_below(random, 2) == 0) {
                merged[forest.n_nodes][1] = merged[forest.n_nodes][0];
                merged[forest.n_nodes][0] = -1;
            }
        } else {
            uint32_t b = base_random_below(random, n_open);
            merged[forest.n_nodes][1] = open[b];
            open[b] = open[--n_open];
        }
        open[n_open++] = n_leaves + forest.n_nodes++;
    }
    shuffle(forest.made, forest.n_nodes, random);
    int64_t *children = take(visit, (size_t)forest.n_nodes * CHILDREN, sizeof(int64_t));
    forest.children = children;
    forest.tags = take(visit, (size_t)forest.n_nodes * TAGS, sizeof(float));
    for (uint32_t n = 0; n < forest.n_nodes; n++) {
        for (uint32_t k = 0; k < CHILDREN; k++) {
            int64_t child = merged[n][k];
            bool is_inner = child >= (int64_t)n_leaves;
            children[forest.made[n] * CHILDREN + k] =
                is_inner ? (int64_t)n_leaves + forest.made[child - n_leaves] : child;
        }
    }
    for (uint32_t i = 0; i < forest.n_nodes * TAGS; i++) {
        forest.tags[i] = base_random_f32(random, -1.0f, 1.0f);
    }
    return forest;
}

static struct srv_tensor tensor(const char *name, const char *datatype, int64_t rows, int64_t width,
                                const void *data)
{
    size_t element = strcmp(datatype, "FP32") == 0 ? 4 : 8;
    struct srv_tensor made = {
        .name = name, .datatype = datatype, .rank = width > 0 ? 2 : 1, .shape = {rows, width}};
    made.data = data;
    made.bytes = (size_t)rows * (size_t)(width > 0 ? width : 1) * element;
    return made;
}

/* An empty request for the model. */
static void begin(struct visit *visit, const char *model)
{
    struct srv_request *request = &visit->ask.request;
    memset(visit, 0, sizeof(*visit));
    base_arena_init(&request->arena, 1 << 16, (size_t)256 << 20);
    request->protocol = SRV_PROTOCOL_TEST;
    request->model_name = model;
    request->model_version = "";
    request->id = "";
    request->deadline_ns = UINT64_MAX;
}

static void ask_for(struct visit *visit, const struct forest *forest)
{
    struct srv_request *request = &visit->ask.request;
    request->n_inputs = 3;
    request->inputs = take(visit, 3, sizeof(struct srv_tensor));
    request->inputs[0] = tensor("word", "INT64", forest->n_leaves, 0, forest->words);
    request->inputs[1] = tensor("tag", "FP32", forest->n_nodes, TAGS, forest->tags);
    request->inputs[2] = tensor("children", "INT64", forest->n_nodes, CHILDREN, forest->children);
    visit_start(&site, visit);
}

/* ---- The cells, one by one ---------------------------------------------------------------- */

struct evaluation {
    const struct cell_model *model;
    const struct forest *forest;
    double *values; /* by number, [n_leaves + n_nodes][values][HIDDEN] */
};

/* A cell: which part, which row of its tensors, and its children, NULL for a leaf. */
struct cell {
    uint32_t part, row;
    const int64_t *children;
};

/* Element k of what a cell reads: of a tensor, or of a child's value; zeros of one that is not
 * there. */
static double read_input(const struct evaluation *e, const struct cell *cell,
                         const struct cell_source *source, uint32_t k)
{
    if (source->kind == CELL_SOURCE_INPUT) {
        return cell->part == CELL_TREE_LEAF ? (double)e->forest->words[cell->row]
                                            : (double)e->forest->tags[cell->row * TAGS + k];
    }
    if (cell->children == NULL || cell->children[source->piece] < 0) {
        return 0;
    }
    size_t child = (size_t)cell->children[source->piece];
    return e->values[(child * e->model->tree.n_values + source->index) * HIDDEN + k];
}

static void evaluate(const struct evaluation *e, const struct cell *cell, double *out)
{
    const struct cell_stage *stage = &e->model->stages[cell->part];
    const struct cell_def *def = &stage->type->def;
    struct oracle oracle;
    oracle_init(&oracle, def);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        for (uint32_t k = 0; k < def->values[i].width; k++) {
            oracle.values[i][k] = read_input(e, cell, &stage->inputs[i], k);
        }
    }
    oracle_step(&oracle);
    const bool is_root = cell->part == CELL_TREE_ROOT;
    for (uint32_t v = 0; v < (is_root ? 1 : e->model->tree.n_values); v++) {
        uint32_t output = is_root ? 0 : e->model->tree.outputs[cell->part][v];
        uint32_t width = def->values[def->outputs[output]].width;
        memcpy(out + (size_t)v * HIDDEN, oracle.values[def->outputs[output]],
               width * sizeof(double));
    }
    oracle_release(&oracle);
}

/* The largest difference between the answer and the cells', over all roots. */
static double error_of(struct visit *visit, const struct cell_model *model,
                       const struct forest *forest)
{
    const uint32_t n = forest->n_leaves + forest->n_nodes;
    const size_t size = (size_t)model->tree.n_values * HIDDEN;
    double *values = take(visit, n * size, sizeof(double));
    bool *is_child = take(visit, n, sizeof(bool));
    const struct srv_tensor *got = &visit->ask.request.outputs[0];
    uint32_t root = 0;
    double worst = 0;
    const struct evaluation e = {.model = model, .forest = forest, .values = values};
    for (uint32_t l = 0; l < forest->n_leaves; l++) {
        evaluate(&e, &(struct cell){CELL_TREE_LEAF, l, NULL}, values + l * size);
    }
    for (uint32_t i = 0; i < forest->n_nodes; i++) {
        uint32_t node = forest->made[i];
        const int64_t *children = &forest->children[node * CHILDREN];
        evaluate(&e, &(struct cell){CELL_TREE_NODE, node, children},
                 values + (forest->n_leaves + node) * size);
        for (uint32_t k = 0; k < CHILDREN; k++) {
            is_child[children[k] < 0 ? n : children[k]] = true;
        }
    }
    for (int64_t number = 0; number < n; number++) {
        if (is_child[number]) {
            continue;
        }
        double want[HIDDEN] = {0};
        const uint32_t width = model->tree.has_root ? CLASSES : HIDDEN;
        if (model->tree.has_root) {
            evaluate(&e, &(struct cell){CELL_TREE_ROOT, 0, &number}, want);
        } else {
            memcpy(want, values + (size_t)number * size, sizeof(want));
        }
        for (uint32_t k = 0; k < width; k++) {
            float is = 0;
            memcpy(&is, got->data + (root * width + k) * sizeof(is), sizeof(is));
            double off = fabs((double)is - want[k]);
            worst = off <= worst ? worst : off;
        }
        root++;
    }
    ck_assert_int_eq(got->shape[0], root);
    return worst;
}

static void end(struct visit *visit)
{
    ask_release(&visit->ask);
}

/* ---- Cases -------------------------------------------------------------------------------- */

enum { TOGETHER = 60 };

/* Forests of all sizes in one run; then some of them again, alone: the same bits. */
START_TEST(test_random_forests_in_company_and_alone)
{
    static struct visit visits[TOGETHER];
    static struct forest forests[TOGETHER];
    static struct visit again;
    struct parts parts = whole;
    struct base_random random = util_random(2);
    char version[UTIL_PATH_BYTES];
    parts.has_root = _i == 0;
    write_model("tree", &parts, version);
    open_site();
    const struct cell_model *model = site_find(&site, "tree");
    for (uint32_t i = 0; i < TOGETHER; i++) {
        uint32_t leaves = 1 + base_random_below(&random, 40);
        begin(&visits[i], "tree");
        forests[i] =
            draw_forest(&visits[i], leaves, 1 + base_random_below(&random, leaves), &random);
        ask_for(&visits[i], &forests[i]);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        struct srv_request *request = &visits[i].ask.request;
        visit_wait(&visits[i]);
        ck_assert_msg(request->error.status == BASE_OK, "%s", request->error.message);
        ck_assert(error_of(&visits[i], model, &forests[i]) < 1e-5);
        begin(&again, "tree");
        ask_for(&again, &forests[i]);
        visit_wait(&again);
        ck_assert_int_eq(again.ask.request.error.status, BASE_OK);
        for (uint32_t o = 0; o < request->n_outputs; o++) {
            ck_assert_uint_eq(again.ask.request.outputs[o].bytes, request->outputs[o].bytes);
            ck_assert_mem_eq(again.ask.request.outputs[o].data, request->outputs[o].data,
                             request->outputs[o].bytes);
        }
        end(&again);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        end(&visits[i]);
    }
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    site_close(&site);
}
END_TEST

static void never(struct srv_request *request)
{
    (void)request;
    ck_abort_msg("a tree has no parts");
}

/* A tree that is one long chain: nothing recurses. The last numbers are the deepest. The second
 * time its answer is wanted in parts, and comes in one piece. */
START_TEST(test_a_deep_tree)
{
    static struct visit visit;
    char version[UTIL_PATH_BYTES];
    write_model("tree", &whole, version);
    open_site();
    begin(&visit, "tree");
    struct forest forest = {.n_leaves = LEAVES_MAX, .n_nodes = LEAVES_MAX - 1};
    forest.words = take(&visit, forest.n_leaves, sizeof(int64_t));
    forest.tags = take(&visit, (size_t)forest.n_nodes * TAGS, sizeof(float));
    int64_t *children = take(&visit, (size_t)forest.n_nodes * CHILDREN, sizeof(int64_t));
    forest.children = children;
    forest.made = take(&visit, forest.n_nodes, sizeof(uint32_t));
    for (uint32_t n = 0; n < forest.n_nodes; n++) {
        bool is_deepest = n + 1 == forest.n_nodes;
        children[n * CHILDREN] = n;
        children[n * CHILDREN + 1] = is_deepest ? n + 1 : (int64_t)LEAVES_MAX + n + 1;
        forest.made[forest.n_nodes - 1 - n] = n;
    }
    visit.ask.request.in_parts = _i == 1;
    visit.ask.request.progressed = never;
    ask_for(&visit, &forest);
    visit_wait(&visit);
    ck_assert_msg(visit.ask.request.error.status == BASE_OK, "%s", visit.ask.request.error.message);
    ck_assert(error_of(&visit, site_find(&site, "tree"), &forest) < 1e-5);
    end(&visit);
    site_close(&site);
}
END_TEST

/* h = h_0 x W, c = c_2 of the last of three children: what others hand up is not looked at. */
static void write_node_of_three(const char *version)
{
    onnx_init(&builder, 17);
    for (uint32_t k = 0; k < 3; k++) {
        char name[8];
        snprintf(name, sizeof(name), "h_%u", k);
        parts_input(&builder, name, PARTS_FLOAT, HIDDEN);
        snprintf(name, sizeof(name), "c_%u", k);
        parts_input(&builder, name, PARTS_FLOAT, TAGS);
    }
    constant("w", HIDDEN, HIDDEN);
    onnx_node(&builder, "MatMul", "h_0 w", "h");
    onnx_node(&builder, "Tanh", "c_2", "c");
    parts_output(&builder, "h");
    parts_output(&builder, "c");
    parts_write(&builder, version, "node");
}

/* There are rows for a value that only the last of many children is read for. */
START_TEST(test_a_value_of_the_last_child_alone)
{
    static struct visit visit;
    char version[UTIL_PATH_BYTES];
    random_numbers = util_random(1);
    parts_folder(folder, "tree", "unfold: tree\n", version);
    onnx_init(&builder, 17);
    parts_input(&builder, "x", PARTS_FLOAT, TAGS);
    constant("w", TAGS, HIDDEN);
    onnx_node(&builder, "MatMul", "x w", "h");
    onnx_node(&builder, "Tanh", "x", "c");
    parts_output(&builder, "h");
    parts_output(&builder, "c");
    parts_write(&builder, version, "leaf");
    write_node_of_three(version);
    open_site();
    begin(&visit, "tree");
    float *x = take(&visit, (size_t)3 * TAGS, sizeof(float));
    int64_t *children = take(&visit, 3, sizeof(int64_t));
    for (uint32_t i = 0; i < 3; i++) {
        children[i] = i;
        x[i * TAGS] = 0.25f * (float)i;
    }
    visit.ask.request.n_inputs = 2;
    visit.ask.request.inputs = take(&visit, 2, sizeof(struct srv_tensor));
    visit.ask.request.inputs[0] = tensor("x", "FP32", 3, TAGS, x);
    visit.ask.request.inputs[1] = tensor("children", "INT64", 1, 3, children);
    visit_start(&site, &visit);
    visit_wait(&visit);
    const struct srv_request *request = &visit.ask.request;
    ck_assert_msg(request->error.status == BASE_OK, "%s", request->error.message);
    const float *c = (const float *)(const void *)request->outputs[1].data;
    util_assert_close(c[0], tanh(tanh(0.5)), 1e-6, 1e-6);
    end(&visit);
    site_close(&site);
}
END_TEST

/* --check-model takes the folder of the parts, or one above it. */
START_TEST(test_check_model_knows_a_tree)
{
    struct base_buf out;
    struct base_error error = {.message = ""};
    char version[UTIL_PATH_BYTES];
    write_model("tree", &whole, version);
    const char *const lines[] = {"input   word INT64 [leaves], ids 0..10\n",
                                 "input   tag FP32 [inner nodes, 2]\n",
                                 "input   children INT64 [inner nodes, 2]\n",
                                 "output  scores FP32 [roots, 3]\n",
                                 "model/leaf (of each leaf): GATHER",
                                 "(of each inner node):",
                                 "(of each root): LINEAR SOFTMAX",
                                 NULL};
    parts_expect_lines(folder, lines);
    snprintf(version + strlen(version), sizeof(version) - strlen(version), "/root.onnx");
    util_write_file(version, "no model");
    base_buf_init(&out, 1 << 16);
    ck_assert_int_eq(srv_check_model(folder, &out, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "tree/1: root.onnx: "));
    base_buf_release(&out);
}
END_TEST

/* ---- What is no tree ---------------------------------------------------------------------- */

static void expect_no_tree(uint32_t n_leaves, uint32_t n_nodes, const int64_t *children,
                           const char *why)
{
    static struct visit visit;
    begin(&visit, "tree");
    const struct forest forest = {.n_leaves = n_leaves,
                                  .n_nodes = n_nodes,
                                  .children = children,
                                  .words = take(&visit, n_leaves, sizeof(int64_t)),
                                  .tags = take(&visit, (size_t)n_nodes * TAGS, sizeof(float))};
    ask_for(&visit, &forest);
    visit_wait(&visit);
    const struct base_error *error = &visit.ask.request.error;
    ck_assert_msg(error->status == BASE_INVALID_ARGUMENT && strstr(error->message, why) != NULL,
                  "%s, wanted %s", error->message, why);
    end(&visit);
}

START_TEST(test_what_is_no_tree_is_refused_with_its_numbers)
{
    int64_t two_parents[] = {0, 1, 1, 2};
    int64_t twice[] = {0, 0};
    int64_t itself[] = {2, 1};
    int64_t circle[] = {0, 3, 1, 2};
    int64_t beyond[] = {0, 3};
    int64_t negative[] = {0, -2};
    int64_t childless[] = {0, 1, -1, -1};
    int64_t many[2 * LEAVES_MAX + 2] = {0};
    char version[UTIL_PATH_BYTES];
    write_model("tree", &whole, version);
    open_site();
    expect_no_tree(3, 2, two_parents, "1 is a child of node 3 and of node 4");
    expect_no_tree(2, 1, twice, "0 is a child of node 2 and of node 2");
    expect_no_tree(2, 1, itself, "node 2 is below itself");
    expect_no_tree(2, 2, circle, "is below itself, or what is below it is");
    expect_no_tree(2, 1, beyond, "child 3 of node 2, expected -1..2");
    expect_no_tree(2, 1, negative, "child -2 of node 2");
    expect_no_tree(2, 2, childless, "node 3 has no child; what has none is a leaf");
    expect_no_tree(0, 0, childless, "input 'word': no leaves");
    expect_no_tree(2 * LEAVES_MAX, 1, many, "8192 leaves and 1 inner nodes, expected 8192");
    site_close(&site);
}
END_TEST

START_TEST(test_a_tree_of_another_arity_is_refused)
{
    static struct visit visit;
    const int64_t words[] = {0, 1, 2};
    const int64_t children[] = {0, 1, 2};
    const float tags[TAGS] = {0};
    char version[UTIL_PATH_BYTES];
    write_model("tree", &whole, version);
    open_site();
    begin(&visit, "tree");
    struct srv_request *request = &visit.ask.request;
    request->n_inputs = 3;
    request->inputs = take(&visit, 3, sizeof(struct srv_tensor));
    request->inputs[0] = tensor("word", "INT64", 3, 0, words);
    request->inputs[1] = tensor("tag", "FP32", 1, TAGS, tags);
    request->inputs[2] = tensor("children", "INT64", 1, 3, children);
    visit_start(&site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(request->error.status, BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(request->error.message, "input 'children': shape [1,3]"));
    end(&visit);
    site_close(&site);
}
END_TEST

/* ---- Parts that do not fit ---------------------------------------------------------------- */

static void expect_no_model(const char *version, enum base_status wanted, const char *why)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    enum base_status status = cell_model_load_tree(registry, version, "test", NULL, &model, &error);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%s: %s",
                  base_status_name(status), error.message);
    ck_assert_ptr_null(model);
    cell_registry_free(registry); // fails the case when a type is still held
}

START_TEST(test_parts_that_do_not_fit_are_refused)
{
    char version[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    struct parts parts = whole;
    parts.node_output = "state";
    write_model("names", &parts, version);
    expect_no_model(version, BASE_INVALID_ARGUMENT,
                    "output 0 of leaf.onnx is 'h' of width 6, of node.onnx 'state' of width 6");
    parts = whole;
    parts.node_hidden = 5;
    write_model("widths", &parts, version);
    expect_no_model(version, BASE_INVALID_ARGUMENT, "of node.onnx 'h' of width 5");
    parts = whole;
    parts.root_input = "state";
    write_model("root", &parts, version);
    expect_no_model(version, BASE_INVALID_ARGUMENT,
                    "root.onnx: input 'state' is none of the outputs of node.onnx");
    parts = whole;
    parts.tag = "word";
    write_model("twice", &parts, version);
    expect_no_model(version, BASE_INVALID_ARGUMENT,
                    "two inputs of the model would be called 'word'");
    parts.tag = "children";
    write_model("taken", &parts, version);
    expect_no_model(version, BASE_INVALID_ARGUMENT,
                    "two inputs of the model would be called 'children'");
    parts = whole;
    write_model("missing", &parts, version);
    snprintf(path, sizeof(path), "%s/node.onnx", version);
    ck_assert_int_eq(remove(path), 0);
    expect_no_model(version, BASE_NOT_FOUND, "node.onnx: the model file cannot be opened");
    util_write_file(path, "no model");
    expect_no_model(version, BASE_INVALID_ARGUMENT, "node.onnx: ");
}
END_TEST

static enum base_status load_part(struct cell_registry *registry, const void *version,
                                  struct cell_model **out)
{
    struct base_error error;
    return cell_model_load_tree(registry, version, "test", NULL, out, &error);
}

/* An allocation that fails anywhere leaves nothing behind. */
START_TEST(test_loading_survives_every_failed_allocation)
{
    char version[UTIL_PATH_BYTES];
    write_model("tree", &whole, version);
    parts_fail_allocations(load_part, version);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tree_model");
    TCase *served = tcase_create("served");
    TCase *refused = tcase_create("refused");
    tcase_add_checked_fixture(served, setup, teardown);
    tcase_add_checked_fixture(refused, setup, teardown);
    tcase_add_loop_test(served, test_random_forests_in_company_and_alone, 0, 2);
    tcase_add_loop_test(served, test_a_deep_tree, 0, 2);
    tcase_add_test(served, test_a_value_of_the_last_child_alone);
    tcase_add_test(served, test_check_model_knows_a_tree);
    suite_add_tcase(suite, served);
    tcase_add_test(refused, test_what_is_no_tree_is_refused_with_its_numbers);
    tcase_add_test(refused, test_a_tree_of_another_arity_is_refused);
    tcase_add_test(refused, test_parts_that_do_not_fit_are_refused);
    tcase_add_test(refused, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, refused);
    return util_run(suite);
}
