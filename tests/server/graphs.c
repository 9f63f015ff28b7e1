/* See graphs.h. */
#include "tests/server/graphs.h"

#include <string.h>

char graphs_folder[UTIL_PATH_BYTES];
struct onnx_builder graphs_builder;
struct site graphs_site;

/* ---- Parts -------------------------------------------------------------------------------- */

static void write_source(const char *version)
{
    onnx_init(&graphs_builder, 17);
    parts_input(&graphs_builder, "x", PARTS_FLOAT, GRAPHS_WIDTH);
    onnx_node(&graphs_builder, "Add", "x x", "v");
    parts_output(&graphs_builder, "v");
    parts_write(&graphs_builder, version, "source");
}

static void write_join(const char *version)
{
    onnx_init(&graphs_builder, 17);
    parts_input(&graphs_builder, "a", PARTS_FLOAT, GRAPHS_WIDTH);
    parts_input(&graphs_builder, "b", PARTS_FLOAT, GRAPHS_WIDTH);
    onnx_node(&graphs_builder, "Add", "a b", "sum");
    onnx_node(&graphs_builder, "Mul", "a b", "product");
    parts_output(&graphs_builder, "sum");
    parts_output(&graphs_builder, "product");
    parts_write(&graphs_builder, version, "join");
}

/* Row k of the table is k + 1, 10 k. */
static void write_word(const char *version)
{
    const float table[GRAPHS_WORDS][GRAPHS_WIDTH] = {{1, 0}, {2, 10}, {3, 20}, {4, 30}, {5, 40}};
    const int64_t dims[] = {GRAPHS_WORDS, GRAPHS_WIDTH};
    onnx_init(&graphs_builder, 17);
    parts_input(&graphs_builder, "id", PARTS_INT64, 0);
    onnx_constant(&graphs_builder, "table",
                  onnx_tensor(&graphs_builder, PARTS_FLOAT, 2, dims, table, sizeof(table)));
    onnx_node(&graphs_builder, "Gather", "table id", "v");
    parts_output(&graphs_builder, "v");
    parts_write(&graphs_builder, version, "word");
}

static void write_wide(const char *version)
{
    onnx_init(&graphs_builder, 17);
    parts_input(&graphs_builder, "y", PARTS_FLOAT, GRAPHS_WIDTH + 1);
    onnx_node(&graphs_builder, "Add", "y y", "z");
    parts_output(&graphs_builder, "z");
    parts_write(&graphs_builder, version, "wide");
}

void graphs_write_parts(const char *version)
{
    write_source(version);
    write_join(version);
    write_word(version);
    write_wide(version);
}

void graphs_write(char version[UTIL_PATH_BYTES])
{
    parts_folder(graphs_folder, "graph", "unfold: graph\ncells: source,join,word,wide\n", version);
    graphs_write_parts(version);
}

void graphs_open(uint32_t nodes_max, uint32_t rows)
{
    struct site_options options;
    site_options_init(&options);
    options.core.sequence_length_max = nodes_max;
    options.core.model_control = true;
    options.core.repository.path = graphs_folder;
    options.core.repository.allow_plugins = true;
    options.repositories[0] = graphs_folder;
    options.allow_plugins = true;
    options.engine.rows = rows;
    site_open(&graphs_site, &options);
}

void graphs_setup(void)
{
    util_temp_dir(graphs_folder);
}

void graphs_teardown(void)
{
    util_remove_tree(graphs_folder);
}

/* ---- Requests ----------------------------------------------------------------------------- */

void graphs_begin(struct visit *visit, const char *model)
{
    struct srv_request *request = &visit->ask.request;
    memset(visit, 0, sizeof(*visit));
    base_arena_init(&request->arena, 1 << 16, (size_t)512 << 20);
    request->protocol = SRV_PROTOCOL_TEST;
    request->model_name = model;
    request->model_version = "";
    request->id = "";
    request->deadline_ns = UINT64_MAX;
    request->inputs =
        base_arena_array(&request->arena, GRAPHS_INPUTS_MAX, sizeof(struct srv_tensor));
    ck_assert_ptr_nonnull(request->inputs);
}

void graphs_end(struct visit *visit)
{
    ask_release(&visit->ask);
}

/* Adds an input of [rows, width], or of [rows] where width is 0. */
void graphs_add(struct visit *visit, const char *name, const char *datatype, int64_t rows,
                int64_t width, const void *data)
{
    struct srv_request *request = &visit->ask.request;
    const size_t element = strcmp(datatype, "FP32") == 0 ? 4 : 8;
    ck_assert_uint_lt(request->n_inputs, GRAPHS_INPUTS_MAX);
    request->inputs[request->n_inputs++] =
        (struct srv_tensor){.name = name,
                            .datatype = datatype,
                            .rank = width > 0 ? 2 : 1,
                            .shape = {rows, width},
                            .data = data,
                            .bytes = (size_t)rows * (size_t)(width > 0 ? width : 1) * element};
}

void graphs_add_shape(struct visit *visit, int64_t n_nodes, const int64_t *cells, int64_t n_edges,
                      const int64_t *edges)
{
    graphs_add(visit, "cells", "INT64", n_nodes, 0, cells);
    graphs_add(visit, "edges", "INT64", n_edges, CELL_EDGE_NUMBERS, edges);
}

void graphs_answer(struct visit *visit)
{
    visit_start(&graphs_site, visit);
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s",
                  visit->ask.request.error.message);
}

void graphs_refused(struct visit *visit, const char *why)
{
    visit_start(&graphs_site, visit);
    visit_wait(visit);
    const struct base_error *error = &visit->ask.request.error;
    ck_assert_msg(error->status == BASE_INVALID_ARGUMENT && strstr(error->message, why) != NULL,
                  "%s, wanted %s", error->message, why);
    graphs_end(visit);
}
