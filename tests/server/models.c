/* See models.h. One thread. */
#include "tests/server/models.h"

#include "base/assert.h"
#include "base/mem.h"
#include "tests/cells/build.h"

#include <stdio.h>

#define EMBEDDING 8u

static struct cell_model *model_create(const char *producer)
{
    struct cell_model *model = base_alloc(sizeof(*model));
    base_assert(model != NULL);
    model->n_sequences = 1;
    snprintf(model->producer, sizeof(model->producer), "%s", producer);
    return model;
}

/* Adds a stage of the definition that was built; releases it. */
static struct cell_stage *stage_add(struct cell_model *model, enum cell_stage_kind kind,
                                    struct cell_registry *registry, struct build *build)
{
    struct base_error error = {BASE_OK, ""};
    struct cell_stage *stage = &model->stages[model->n_stages++];
    bool is_new = false;
    stage->kind = kind;
    enum base_status status =
        cell_registry_intern(registry, &build->def, "test/cell", &stage->type, &is_new, &error);
    base_assert(status == BASE_OK); // fuzz targets build models too, outside of any case
    build_release(build);
    return stage;
}

/* A tensor [batch, time, width]; an axis is left out when its flag is not set, width when 0. */
static struct cell_tensor tensor(const char *name, enum cell_dtype dtype, bool batch, bool time,
                                 uint32_t width)
{
    struct cell_tensor made = {.dtype = dtype,
                               .batch_axis = -1,
                               .time_axis = -1,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = width > 0 ? width : 1};
    snprintf(made.name, sizeof(made.name), "%s", name);
    if (batch) {
        made.batch_axis = (int32_t)made.rank;
        made.dims[made.rank++] = CELL_DIM_ANY;
    }
    if (time) {
        made.time_axis = (int32_t)made.rank;
        made.dims[made.rank++] = CELL_DIM_ANY;
    }
    if (width > 0) {
        made.dims[made.rank++] = width;
    }
    return made;
}

static void input_add(struct cell_model *model, struct cell_tensor input, bool optional)
{
    input.optional = optional;
    model->inputs[model->n_inputs++] = input;
}

static void output_add(struct cell_model *model, struct cell_tensor output,
                       struct cell_source source)
{
    model->output_sources[model->n_outputs][0] = source;
    model->outputs[model->n_outputs++] = output;
}

static struct cell_source source(enum cell_source_kind kind, uint32_t stage, uint32_t index)
{
    return (struct cell_source){.kind = kind, .stage = stage, .index = index};
}

struct cell_model *models_chain(struct cell_registry *registry, uint32_t inputs, uint32_t hidden,
                                uint64_t salt)
{
    struct cell_model *model = model_create("chain");
    struct build build;
    build_lstm_cell(&build, inputs, hidden, salt);
    struct cell_stage *stage = stage_add(model, CELL_STAGE_CHAIN, registry, &build);
    stage->inputs[0] = source(CELL_SOURCE_INPUT, 0, 0);
    stage->init[0] = source(CELL_SOURCE_INPUT, 0, 1);
    stage->init[1] = source(CELL_SOURCE_INPUT, 0, 2);
    input_add(model, tensor("x", CELL_F32, true, true, inputs), false);
    input_add(model, tensor("h0", CELL_F32, true, false, hidden), true);
    input_add(model, tensor("c0", CELL_F32, true, false, hidden), true);
    struct cell_tensor lengths = tensor("lengths", CELL_I64, true, false, 0);
    lengths.is_lengths = true;
    input_add(model, lengths, true);
    output_add(model, tensor("y", CELL_F32, true, true, hidden), source(CELL_SOURCE_EACH, 0, 0));
    output_add(model, tensor("h", CELL_F32, true, false, hidden),
               source(CELL_SOURCE_LAST_STATE, 0, 0));
    output_add(model, tensor("c", CELL_F32, true, false, hidden),
               source(CELL_SOURCE_LAST_STATE, 0, 1));
    return model;
}

static void embed_add(struct cell_model *model, struct cell_registry *registry, uint64_t salt)
{
    struct build build;
    build_init(&build, salt);
    uint32_t id = build_input(&build, model->inputs[0].dtype, 1);
    build_output(&build, build_gather(&build, id, MODELS_TOKENS, EMBEDDING));
    stage_add(model, CELL_STAGE_EACH, registry, &build)->inputs[0] =
        source(CELL_SOURCE_INPUT, 0, 0);
}

static void lstm_add(struct cell_model *model, struct cell_registry *registry, uint32_t hidden,
                     uint64_t salt)
{
    struct build build;
    build_lstm_cell(&build, EMBEDDING, hidden, salt);
    stage_add(model, CELL_STAGE_CHAIN, registry, &build)->inputs[0] =
        source(CELL_SOURCE_EACH, 0, 0);
}

struct cell_model *models_tokens(struct cell_registry *registry, uint32_t hidden, uint64_t salt)
{
    struct cell_model *model = model_create("tokens");
    input_add(model, tensor("tokens", CELL_I64, true, true, 0), false);
    model->inputs[0].id_bound = MODELS_TOKENS;
    embed_add(model, registry, salt + 1);
    lstm_add(model, registry, hidden, salt + 2);
    struct build build;
    build_init(&build, salt + 3);
    uint32_t h = build_input(&build, CELL_F32, hidden);
    uint32_t logits = build_linear(&build, h, 3, true);
    build_output(&build, build_op(&build, CELL_OP_SOFTMAX, logits, UINT32_MAX, 3));
    stage_add(model, CELL_STAGE_ONCE, registry, &build)->inputs[0] = source(CELL_SOURCE_LAST, 1, 0);
    output_add(model, tensor("scores", CELL_F32, true, false, 3), source(CELL_SOURCE_LAST, 2, 0));
    output_add(model, tensor("embedded", CELL_F32, true, true, EMBEDDING),
               source(CELL_SOURCE_EACH, 0, 0));
    return model;
}

struct cell_model *models_lone(struct cell_registry *registry, uint64_t salt)
{
    struct cell_model *model = model_create("lone");
    struct cell_tensor x = tensor("x", CELL_I32, true, true, 0);
    x.dims[0] = 1;
    x.batch_axis = -1;
    x.id_bound = MODELS_TOKENS;
    input_add(model, x, false);
    embed_add(model, registry, salt + 1);
    lstm_add(model, registry, 4, salt + 2);
    output_add(model, tensor("last", CELL_F32, false, false, 4), source(CELL_SOURCE_LAST, 1, 0));
    return model;
}

/* ---- A graph ---- */

static void graph_input(struct cell_model *model, struct cell_graph_cell *cell,
                        struct cell_tensor input)
{
    input.optional = true;
    cell->n_inputs++;
    model->graph.inputs[model->graph.n_inputs++] = input;
}

/* result: which of the cell's outputs it is. */
static void graph_output(struct cell_model *model, struct cell_graph_cell *cell,
                         struct cell_tensor output, uint32_t result)
{
    cell->n_outputs++;
    model->graph.results[model->graph.n_outputs] = result;
    model->graph.outputs[model->graph.n_outputs++] = output;
}

/* The last stage as a cell, whose inputs come in the order of its tensors. */
static struct cell_graph_cell *graph_cell(struct cell_model *model, const char *name)
{
    struct cell_stage *stage = &model->stages[model->n_stages - 1];
    struct cell_graph_cell *cell = &model->graph.cells[model->n_stages - 1];
    snprintf(cell->name, sizeof(cell->name), "%s", name);
    cell->first_input = model->graph.n_inputs;
    cell->first_output = model->graph.n_outputs;
    for (uint32_t i = 0; i < stage->type->def.n_inputs; i++) {
        stage->inputs[i] = source(CELL_SOURCE_INPUT, 0, i);
    }
    return cell;
}

static void word_add(struct cell_model *model, struct cell_registry *registry, uint64_t salt)
{
    struct build build;
    build_init(&build, salt);
    uint32_t id = build_input(&build, CELL_I64, 1);
    build_output(&build, build_gather(&build, id, MODELS_TOKENS, 3));
    stage_add(model, CELL_STAGE_ONCE, registry, &build);
    struct cell_graph_cell *cell = graph_cell(model, "word");
    struct cell_tensor ids = tensor("word.id", CELL_I64, true, false, 0);
    ids.id_bound = MODELS_TOKENS;
    graph_input(model, cell, ids);
    graph_output(model, cell, tensor("word.v", CELL_F32, true, false, 3), 0);
}

static void join_add(struct cell_model *model, struct cell_registry *registry, uint64_t salt)
{
    struct build build;
    build_init(&build, salt);
    uint32_t a = build_input(&build, CELL_F32, 3);
    uint32_t b = build_input(&build, CELL_F32, 3);
    uint32_t sum = build_op(&build, CELL_OP_ADD, a, b, 3);
    build_output(&build, build_cast(&build, build_linear(&build, sum, 1, true), CELL_I64));
    build_output(&build, sum);
    stage_add(model, CELL_STAGE_ONCE, registry, &build);
    struct cell_graph_cell *cell = graph_cell(model, "join");
    graph_input(model, cell, tensor("join.a", CELL_F32, true, false, 3));
    graph_input(model, cell, tensor("join.b", CELL_F32, true, false, 3));
    graph_output(model, cell, tensor("join.sum", CELL_F32, true, false, 3), 1);
    graph_output(model, cell, tensor("join.id", CELL_I64, true, false, 0), 0);
}

struct cell_model *models_graph(struct cell_registry *registry, uint64_t salt)
{
    struct cell_model *model = model_create("graph");
    model->unfold = CELL_UNFOLD_GRAPH;
    word_add(model, registry, salt);
    join_add(model, registry, salt + 1);
    model->graph.cells_input = model->n_inputs;
    input_add(model, tensor("cells", CELL_I64, true, false, 0), false);
    model->graph.edges_input = model->n_inputs;
    input_add(model, tensor("edges", CELL_I64, true, false, CELL_EDGE_NUMBERS), false);
    for (uint32_t i = 0; i < model->graph.n_inputs; i++) {
        input_add(model, model->graph.inputs[i], true);
    }
    for (uint32_t o = 0; o < model->graph.n_outputs; o++) {
        model->outputs[model->n_outputs++] = model->graph.outputs[o];
    }
    return model;
}
