/* See serve.h. The models, the device and the scheduler are made at the first request and stay for
 * the life of the program, as in the server; one thread. */
#include "tests/fuzz/serve.h"

#include "base/assert.h"
#include "bench/tree_model.h"
#include "cells/backend.h"
#include "scheduler/admission.h"
#include "scheduler/scheduler.h"
#include "server/core.h"
#include "server/text.h"
#include "server/validate.h"
#include "tests/server/models.h"

#include <stdio.h>
#include <string.h>

#define ROWS      40u /* of each layout: larger batches are refused */
#define STEPS_MAX 64u

struct server {
    struct cell_registry *registry;
    const struct cell_backend *backend;
    struct cell_device *device;
    struct sched *sched;
    struct sched_admission admission;
    _Atomic uint32_t attention;
    struct srv_model models[SERVE_MODELS];
    struct cell_model *cells[SERVE_MODELS];
    struct srv_texts texts; /* of "tokens" */
    uint64_t now_ns;
};

static void open_device(struct server *server)
{
    const struct cell_device_options options = {
        .n_queues = 1, .isa = "scalar", .batches_queued_max = 1};
    struct base_error error;
    server->backend = cell_backend_find("cpu");
    base_assert(server->backend->open(&options, &server->device, &error) == BASE_OK);
    struct sched_options sched;
    sched_options_init(&sched);
    sched.rows_max = 8;
    sched.tasks_max = 1;
    sched.run_steps_max = 16;
    sched.attention[0] = &server->attention;
    base_assert(sched_create(&sched, &server->sched) == BASE_OK);
    for (uint32_t t = 0; t < cell_registry_types(server->registry); t++) {
        const struct cell_type *type = cell_registry_type(server->registry, t);
        base_assert(server->backend->type_load(server->device, type, &error) == BASE_OK);
        base_assert(sched_type_set(server->sched, type, t, 0) == BASE_OK);
    }
    for (uint32_t l = 0; l < cell_registry_layouts(server->registry); l++) {
        const struct cell_layout *layout = cell_registry_layout(server->registry, l);
        base_assert(server->backend->rows_open(server->device, l, layout, ROWS, &error) == BASE_OK);
        base_assert(sched_layout_open(server->sched, l, ROWS) == BASE_OK);
        server->admission.capacity[l] = ROWS;
    }
}

static struct server *server_get(void)
{
    static struct server server;
    if (server.registry == NULL) {
        base_assert(cell_registry_create(&server.registry) == BASE_OK);
        server.cells[0] = models_lone(server.registry, 1);
        server.cells[1] = models_tokens(server.registry, 5, 2);
        server.cells[2] = models_chain(server.registry, 3, 4, 3);
        struct cell_model *tree = NULL;
        base_assert(bench_tree_model(server.registry, 2, 3, &tree, NULL) == BASE_OK);
        server.cells[3] = tree;
        server.cells[4] = models_graph(server.registry, 4);
        for (uint32_t m = 0; m < SERVE_MODELS; m++) {
            struct srv_model *model = &server.models[m];
            snprintf(model->name, sizeof(model->name), "%s", server.cells[m]->producer);
            snprintf(model->version, sizeof(model->version), "1");
            model->state = SRV_MODEL_READY;
        }
        struct base_error error;
        const struct srv_vocabulary_source source = {.kind = CFG_VOCABULARY_BYTES};
        base_assert(srv_vocabulary_load(&source, &server.texts.vocabularies[0], &error) == BASE_OK);
        server.texts.inputs[0] = server.texts.vocabularies[0];
        server.texts.unknown = SRV_VOCABULARY_NONE;
        open_device(&server);
    }
    return &server;
}

/* Runs an admitted graph to its end. */
static void run(struct server *server, struct sched_graph *graph)
{
    const struct cell_backend *backend = server->backend;
    sched_add(server->sched, graph, ++server->now_ns);
    struct cell_batch *batch = NULL;
    while ((batch = sched_next(server->sched, 0, ++server->now_ns)) != NULL) {
        backend->submit(server->device, 0, batch);
        base_assert(backend->pump(server->device, 0) && batch->status == BASE_OK);
        sched_retire(server->sched, batch, ++server->now_ns);
    }
    base_assert(sched_take_finished(server->sched) == graph && graph->next_finished == NULL);
    base_assert(graph->status == BASE_OK && sched_graphs_inside(server->sched) == 0);
    sched_check(server->sched);
}

static void check_nothing_left(const struct server *server)
{
    for (uint32_t l = 0; l < cell_registry_layouts(server->registry); l++) {
        base_assert(server->admission.reserved[l] == 0);
        base_assert(sched_rows_in_use(sched_rows_of(server->sched), l) == 0);
    }
}

static enum base_status admit_and_run(struct server *server, struct sched_graph *graph,
                                      struct base_error *error)
{
    bool fits = sched_admission_fits(&server->admission, graph);
    base_assert(sched_admission_reserve(&server->admission, graph) == fits);
    if (!fits) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "more rows than there are");
    }
    run(server, graph);
    sched_admission_credit(&server->admission, graph);
    check_nothing_left(server);
    return BASE_OK;
}

static enum base_status try_serve(struct server *server, struct srv_request *request,
                                  const struct cell_model *cells, struct base_error *error)
{
    const struct srv_limits limits = {.sequence_length_max = STEPS_MAX};
    const struct srv_texts *texts = cells == server->cells[1] ? &server->texts : NULL;
    struct srv_text_rows rows;
    struct sched_sequences sequences;
    struct sched_graph *graph = NULL;
    BASE_TRY(srv_texts_read(texts, cells, request, &rows, error));
    if (cells->unfold == CELL_UNFOLD_TREE) {
        struct sched_forest forest;
        BASE_TRY(srv_validate_tree(request, cells, &limits, &rows, &forest, error));
        BASE_TRY(sched_unfold_tree(&forest, &request->arena, &graph, error));
        return admit_and_run(server, graph, error);
    }
    if (cells->unfold == CELL_UNFOLD_GRAPH) {
        struct sched_dag dag;
        BASE_TRY(srv_validate_graph(request, cells, &limits, &dag, error));
        BASE_TRY(sched_unfold_graph(&dag, &request->arena, &graph, error));
        return admit_and_run(server, graph, error);
    }
    BASE_TRY(srv_validate(request, cells, &limits, &rows, &sequences, error));
    BASE_TRY(sched_unfold_chain(&sequences, &request->arena, &graph, error));
    // Without a graph every sequence is empty, and the outputs are zeros already.
    return graph == NULL ? BASE_OK : admit_and_run(server, graph, error);
}

enum base_status serve(struct srv_request *request, uint32_t model, struct base_error *error)
{
    struct server *server = server_get();
    *error = (struct base_error){.status = BASE_OK};
    request->model_name = server->models[model].name;
    memcpy(request->version, server->models[model].version, sizeof(request->version));
    request->error.status = BASE_OK;
    request->n_outputs = 0;
    enum base_status status = try_serve(server, request, server->cells[model], error);
    base_assert(status == error->status);
    base_assert((status == BASE_OK) == (error->message[0] == '\0'));
    return status;
}
