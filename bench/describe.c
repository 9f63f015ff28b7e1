/* cellbatch-bench describe: what a request becomes. A sample request is unfolded by the server's
 * own programs (scheduler/unfold.h), and its nodes are listed, or drawn by graphviz: a node is one
 * cell, or a chain of equal cells over one state; an arrow is a value that one waits for. Nothing
 * is computed: tensors stand for memory that nobody touches. */
#include "base/arena.h"
#include "base/buf.h"
#include "bench/bench.h"
#include "cells/model.h"
#include "loadgen/plot.h"
#include "scheduler/unfold.h"
#include "server/model_files.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX       64u
#define STEPS_MAX      1000u
#define LEAVES_MAX     256u
#define TEXT_BYTES_MAX ((size_t)16 << 20)
#define ARENA_BYTES    ((size_t)1 << 30) // only against a mistake

/* Steps of a chain that are drawn one by one. */
#define DRAWN_STEPS 6u

struct settings {
    const char *model, *svg, *png;
    uint32_t rows, steps, leaves;
    bool is_dot;
};

/* A sample request, unfolded. */
struct sample {
    struct cell_registry *registry;
    struct srv_model_files files;
    struct base_arena arena;
    struct sched_graph *graph;
};

/* ---- The sample ----------------------------------------------------------------------------- */

/* Every tensor is there, at an address that is only reckoned with. */
static void stand_in(struct sched_tensor *tensors, uint32_t n)
{
    static uint8_t nothing[64];
    for (uint32_t i = 0; i < n; i++) {
        tensors[i] = (struct sched_tensor){.data = nothing};
    }
}

static enum base_status unfold_sequences(const struct settings *settings, struct sample *sample,
                                         struct base_error *error)
{
    struct sched_tensor inputs[CELL_TENSORS_MAX];
    struct sched_tensor outputs[CELL_TENSORS_MAX];
    uint32_t steps[CELL_SEQUENCES_MAX];
    uint32_t lengths[CELL_SEQUENCES_MAX][ROWS_MAX];
    sched_node_id decoders[ROWS_MAX];
    stand_in(inputs, CELL_TENSORS_MAX);
    stand_in(outputs, CELL_TENSORS_MAX);
    struct sched_sequences sequences = {.model = sample->files.cells,
                                        .n_rows = settings->rows,
                                        .inputs = inputs,
                                        .outputs = outputs,
                                        .decoders = decoders};
    cell_model_steps(sample->files.cells, settings->steps, steps);
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        if (steps[s] == 0) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "of %u steps the model's strides and windows leave none",
                             settings->steps);
        }
        for (uint32_t r = 0; r < settings->rows; r++) {
            lengths[s][r] = steps[s];
        }
        sequences.steps[s] = lengths[s];
    }
    return sched_unfold_chain(&sequences, &sample->arena, &sample->graph, error);
}

/* Neighbours are joined, as many as a node has children, until one is left. */
static enum base_status unfold_tree(const struct settings *settings, struct sample *sample,
                                    struct base_error *error)
{
    struct sched_tensor inputs[CELL_TENSORS_MAX];
    struct sched_tensor outputs[CELL_TENSORS_MAX];
    uint32_t open[LEAVES_MAX];
    uint32_t children[LEAVES_MAX * CELL_CHILDREN_MAX];
    uint32_t order[LEAVES_MAX];
    const uint32_t arity = sample->files.cells->tree.n_children;
    uint32_t n_open = settings->leaves;
    uint32_t n_nodes = 0;
    stand_in(inputs, CELL_TENSORS_MAX);
    stand_in(outputs, CELL_TENSORS_MAX);
    memset(children, 0xff, sizeof(children)); // SCHED_NONE
    for (uint32_t i = 0; i < n_open; i++) {
        open[i] = i;
    }
    while (n_open > 1 && arity > 1) {
        uint32_t n_above = 0;
        for (uint32_t i = 0; i < n_open; i += arity) {
            if (i + 1 == n_open) { // alone: it goes up as it is
                open[n_above++] = open[i];
                continue;
            }
            for (uint32_t k = 0; k < arity && i + k < n_open; k++) {
                children[n_nodes * arity + k] = open[i + k];
            }
            order[n_nodes] = n_nodes;
            open[n_above++] = settings->leaves + n_nodes++;
        }
        n_open = n_above;
    }
    const struct sched_forest forest = {.model = sample->files.cells,
                                        .n_leaves = settings->leaves,
                                        .n_nodes = n_nodes,
                                        .n_roots = n_open,
                                        .children = children,
                                        .order = order,
                                        .roots = open,
                                        .inputs = inputs,
                                        .outputs = outputs};
    return sched_unfold_tree(&forest, &sample->arena, &sample->graph, error);
}

/* ---- A graph: rounds of one node of each cell, which read what stands nearest before them ---- */

struct sketch {
    const struct cell_model *model;
    uint32_t n_edges;
    int64_t *cells, *edges;
};

/* The turn-th output of the cell that the input can read, over and over; SCHED_NONE: none. */
static uint32_t find_output(const struct cell_graph *graph, uint32_t cell, uint32_t input,
                            uint32_t turn)
{
    const struct cell_graph_cell *from = &graph->cells[cell];
    uint32_t fitting[CELL_TENSORS_MAX];
    uint32_t n = 0;
    for (uint32_t o = 0; o < from->n_outputs; o++) {
        if (cell_graph_fits(&graph->outputs[from->first_output + o], &graph->inputs[input])) {
            fitting[n++] = o;
        }
    }
    return n == 0 ? SCHED_NONE : fitting[turn % n];
}

/* An edge to the node's input, from the nearest of those in the round before it. */
static void sketch_edge(struct sketch *sketch, uint32_t node, uint32_t input)
{
    const struct cell_graph *graph = &sketch->model->graph;
    const uint32_t n_cells = sketch->model->n_stages;
    const uint32_t first = graph->cells[node % n_cells].first_input;
    for (uint32_t back = 1; back <= n_cells && back <= node; back++) {
        const uint32_t from = node - back;
        const uint32_t output = find_output(graph, from % n_cells, first + input, input);
        if (output != SCHED_NONE) {
            const int64_t edge[CELL_EDGE_NUMBERS] = {from, output, node, input};
            memcpy(&sketch->edges[(size_t)sketch->n_edges * CELL_EDGE_NUMBERS], edge, sizeof(edge));
            sketch->n_edges++;
            return;
        }
    }
}

/* All that can be answered is, at an address that is only reckoned with. */
static void answer_all(struct sched_dag *dag)
{
    static uint8_t nothing[64];
    for (uint32_t o = 0; o < dag->first_output[dag->n_nodes]; o++) {
        dag->answers[o] = nothing;
    }
}

static enum base_status unfold_graph(const struct settings *settings, struct sample *sample,
                                     struct base_error *error)
{
    struct sketch sketch = {.model = sample->files.cells};
    const struct cell_graph *graph = &sketch.model->graph;
    const uint32_t n_nodes = settings->steps * sketch.model->n_stages;
    const size_t edges_max = (size_t)settings->steps * graph->n_inputs;
    sketch.cells = base_arena_array(&sample->arena, n_nodes, sizeof(int64_t));
    sketch.edges = base_arena_array(&sample->arena, edges_max, CELL_EDGE_NUMBERS * sizeof(int64_t));
    if (sketch.cells == NULL || sketch.edges == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t n = 0; n < n_nodes; n++) {
        sketch.cells[n] = n % sketch.model->n_stages;
        for (uint32_t i = 0; i < graph->cells[sketch.cells[n]].n_inputs; i++) {
            sketch_edge(&sketch, n, i);
        }
    }
    struct sched_dag dag = {.model = sketch.model,
                            .n_nodes = n_nodes,
                            .n_edges = sketch.n_edges,
                            .cells = sketch.cells,
                            .edges = sketch.edges};
    BASE_TRY(sched_dag_check(&dag, &sample->arena, error));
    answer_all(&dag);
    return sched_unfold_graph(&dag, &sample->arena, &sample->graph, error);
}

static enum base_status unfold(const struct settings *settings, struct sample *sample,
                               struct base_error *error)
{
    switch (sample->files.cells->unfold) {
    case CELL_UNFOLD_CHAIN:
    case CELL_UNFOLD_SEQ2SEQ:
        return unfold_sequences(settings, sample, error);
    case CELL_UNFOLD_TREE:
        return unfold_tree(settings, sample, error);
    case CELL_UNFOLD_GRAPH:
    case CELL_UNFOLD_PLUGIN:
        return unfold_graph(settings, sample, error);
    case CELL_UNFOLD_TRANSDUCER:
        break; // such a model is one of SEQ2SEQ
    }
    return base_fail(error, BASE_INTERNAL, "no such unfold program");
}

static enum base_status make_sample(const struct settings *settings, struct sample *sample,
                                    struct base_error *error)
{
    base_arena_init(&sample->arena, (size_t)64 << 10, ARENA_BYTES);
    if (cell_registry_create(&sample->registry) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    BASE_TRY(srv_model_files_open(sample->registry, settings->model, &sample->files, error));
    BASE_TRY(unfold(settings, sample, error));
    return sample->graph != NULL ? BASE_OK
                                 : base_fail(error, BASE_INVALID_ARGUMENT,
                                             "%.200s: nothing is to run", settings->model);
}

static void release_sample(struct sample *sample)
{
    if (sample->registry != NULL) {
        srv_model_files_release(sample->registry, &sample->files);
        cell_registry_free(sample->registry);
    }
    base_arena_release(&sample->arena);
}

/* The node's next consumer behind edge *e, which moves on; several values may go to one. */
static bool next_consumer(const struct sched_graph *graph, const struct sched_node *node,
                          uint32_t *e, uint32_t *out)
{
    const uint32_t *edges = &graph->edges[node->first_edge];
    while (*e > 0 && *e < node->n_edges && edges[*e] == edges[*e - 1]) {
        (*e)++;
    }
    const bool has = *e < node->n_edges;
    *out = has ? edges[(*e)++] : 0;
    return has;
}

static uint32_t count_arrows(const struct sched_graph *graph)
{
    uint32_t n = 0;
    uint32_t to = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        for (uint32_t e = 0; next_consumer(graph, &graph->nodes[i], &e, &to);) {
            n++;
        }
    }
    return n;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static void write_request(const struct settings *settings, const struct cell_model *model,
                          struct base_buf *out)
{
    if (model->unfold == CELL_UNFOLD_TREE) {
        base_buf_printf(out, "a tree of %u leaves", settings->leaves);
        return;
    }
    if (model->graph.n_outputs > 0) {
        base_buf_printf(out, "a graph of %u nodes of each cell", settings->steps);
        return;
    }
    base_buf_printf(out, "%u sequence%s of %u steps", settings->rows,
                    settings->rows == 1 ? "" : "s", settings->steps);
}

static void write_steps(const struct sched_node *node, struct base_buf *out)
{
    const bool ends = node->wiring.end != NULL || node->wiring.beam != NULL;
    base_buf_printf(out, "%s%u %s", ends ? "up to " : "", node->wiring.steps,
                    node->type->state_layout == CELL_LAYOUT_NONE
                        ? node->wiring.steps == 1 ? "cell" : "cells, each on its own"
                        : "steps");
    if (node->lanes > 1) {
        base_buf_printf(out, ", %u lanes", node->lanes);
    }
}

static void write_text(const struct settings *settings, const struct sample *sample,
                       struct base_buf *out)
{
    const struct sched_graph *graph = sample->graph;
    const enum cell_unfold kind = sample->files.cells->unfold;
    const bool is_one = kind != CELL_UNFOLD_CHAIN && kind != CELL_UNFOLD_SEQ2SEQ;
    uint64_t rows = 0;
    base_buf_printf(out, "%s: ", settings->model);
    write_request(settings, sample->files.cells, out);
    base_buf_printf(out, " become%s %u nodes, %u arrows\n", is_one ? "s" : "", graph->n_nodes,
                    count_arrows(graph));
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const struct sched_node *node = &graph->nodes[n];
        base_buf_printf(out, "  node %u %s: ", n, node->type->name);
        write_steps(node, out);
        const char *lead = "; for node ";
        for (uint32_t e = 0, to = 0; next_consumer(graph, node, &e, &to); lead = ", ") {
            base_buf_printf(out, "%s%u", lead, to);
        }
        base_buf_text(out, "\n");
    }
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        rows += graph->needs[i].rows;
    }
    base_buf_printf(out, "  rows taken for it: %llu\n", (unsigned long long)rows);
}

/* ---- Drawing -------------------------------------------------------------------------------- */

/* A colour a type, of graphviz's scheme set312. */
static uint32_t colour_of(const struct sched_node *node)
{
    return node->type->id % 12 + 1;
}

/* A chain is a row of its steps. */
static void draw_node(const struct sched_node *node, uint32_t number, struct base_buf *out)
{
    const uint32_t steps = node->wiring.steps;
    base_buf_printf(out, "  n%u [fillcolor=%u, label=\"{%s", number, colour_of(node),
                    node->type->name);
    for (uint32_t t = 0; t < steps && t < DRAWN_STEPS && steps > 1; t++) {
        base_buf_printf(out, "%s%u", t == 0 ? "|{" : "|", t + 1);
    }
    base_buf_text(out, steps > DRAWN_STEPS ? "|.." : "");
    if (steps > DRAWN_STEPS) {
        base_buf_printf(out, "|%u", steps);
    }
    base_buf_printf(out, "%s}\"];\n", steps > 1 ? "}" : "");
}

/* The names of types hold no character that would end a label. */
static void draw(const struct sample *sample, struct base_buf *out)
{
    const struct sched_graph *graph = sample->graph;
    base_buf_text(out, "digraph cells {\n  rankdir=BT;\n  node [shape=record, style=filled, "
                       "colorscheme=set312, fontname=\"sans-serif\"];\n");
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        draw_node(&graph->nodes[n], n, out);
    }
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const struct sched_node *node = &graph->nodes[n];
        for (uint32_t e = 0, to = 0; next_consumer(graph, node, &e, &to);) {
            base_buf_printf(out, "  n%u -> n%u;\n", n, to);
        }
    }
    base_buf_text(out, "}\n");
}

static enum base_status draw_to(const char *format, const char *path, const struct base_buf *dot,
                                struct base_error *error)
{
    return path == NULL
               ? BASE_OK
               : lg_plot_run((const char *const[]){"dot", format, "-o", path, NULL}, dot, error);
}

/* ---- The command ---------------------------------------------------------------------------- */

static const char help[] =
    "usage: cellbatch-bench describe [options] MODEL\n"
    "  MODEL         a model file, or the version's folder of a model in parts\n"
    "  --rows N      sequences in the sample request (default 1)\n"
    "  --steps N     of each (default 4); of a graph, nodes of each cell\n"
    "  --leaves N    of a tree, joined as evenly as it goes (default 6)\n"
    "  --dot         the graph in graphviz's language, in place of text\n"
    "  --svg FILE    draws it (needs graphviz)\n"
    "  --png FILE    likewise";

static uint32_t number(const char *text)
{
    char *end = NULL;
    const unsigned long value = strtoul(text, &end, 10);
    return *end == '\0' && value <= UINT32_MAX ? (uint32_t)value : 0; // refused below
}

static bool is_usage_wrong(int argc, char **argv, struct settings *out, bool *wants_help)
{
    static const struct option options[] = {
        {"rows", required_argument, NULL, 'r'},   {"steps", required_argument, NULL, 's'},
        {"leaves", required_argument, NULL, 'l'}, {"dot", no_argument, NULL, 'd'},
        {"svg", required_argument, NULL, 'v'},    {"png", required_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    bool is_wrong = false;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        out->rows = o == 'r' ? number(optarg) : out->rows;
        out->steps = o == 's' ? number(optarg) : out->steps;
        out->leaves = o == 'l' ? number(optarg) : out->leaves;
        out->is_dot |= o == 'd';
        out->svg = o == 'v' ? optarg : out->svg;
        out->png = o == 'p' ? optarg : out->png;
        *wants_help |= o == 'h';
        is_wrong |= o == '?';
    }
    out->model = optind < argc ? argv[optind] : NULL;
    const bool is_sane = out->rows >= 1 && out->rows <= ROWS_MAX && out->steps >= 1 &&
                         out->steps <= STEPS_MAX && out->leaves >= 1 && out->leaves <= LEAVES_MAX;
    return is_wrong || optind + 1 != argc || !is_sane;
}

static enum base_status run(const struct settings *settings, struct sample *sample,
                            struct base_error *error)
{
    struct base_buf text;
    struct base_buf dot;
    BASE_TRY(make_sample(settings, sample, error));
    base_buf_init(&text, TEXT_BYTES_MAX);
    base_buf_init(&dot, TEXT_BYTES_MAX);
    write_text(settings, sample, &text);
    draw(sample, &dot);
    enum base_status status = BASE_OK;
    if (text.failed || dot.failed) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "the graph is too large to be shown");
    } else {
        (void)fputs(settings->is_dot ? dot.data : text.data, stdout);
        status = draw_to("-Tsvg", settings->svg, &dot, error);
        status = status == BASE_OK ? draw_to("-Tpng", settings->png, &dot, error) : status;
    }
    base_buf_release(&text);
    base_buf_release(&dot);
    return status;
}

int bench_describe(int argc, char **argv)
{
    struct settings settings = {.rows = 1, .steps = 4, .leaves = 6};
    struct sample sample = {0};
    struct base_error error = {.status = BASE_OK};
    bool wants_help = false;
    const bool is_wrong = is_usage_wrong(argc, argv, &settings, &wants_help);
    if (is_wrong || wants_help) {
        (void)fprintf(wants_help ? stdout : stderr, "%s\n", help);
        return wants_help ? EXIT_SUCCESS : 2;
    }
    const enum base_status status = run(&settings, &sample, &error);
    release_sample(&sample);
    return bench_exit_status(argv[0], status, &error);
}
