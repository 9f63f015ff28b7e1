/* Warm-up: a model is ready only when a sequence has gone through it.
 *
 * One request of zeros per model and device, two steps of batch 1, or as many more as convolutions
 * need (and two of a decoder), a tree of one node or a node of each of a graph's cells, through the
 * same path as a client's. It touches every weight and every kernel once. Devices without requests
 * take turns (srv_engine_reserve), so as many requests as there are devices reach all of them,
 * unless a client of a model that is ready already comes between; then one device is touched by its
 * first client. Loop thread. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/about.h"
#include "server/core_state.h"

#include <stdio.h>
#include <string.h>

#define WARM_STEPS 2
#define WARM_BYTES ((size_t)1 << 30) // only against a mistake

struct srv_warming {
    struct srv_core *core;
    struct srv_model_entry *const *entries;
    uint32_t n_entries;
    uint32_t next;    /* entry to warm */
    uint32_t devices; /* that it has gone through */
    struct srv_request request;
    struct base_message again; /* posted when the request is back */
    const char *wanted;        /* of a decoder: room for all of its answer may be much */
    void (*warmed)(void *context);
    void *context;
};

static void give_up(struct srv_model_entry *entry, const char *why)
{
    entry->face.state = SRV_MODEL_UNAVAILABLE;
    snprintf(entry->face.reason, sizeof(entry->face.reason), "%s", why);
    log_error("models", "warm-up of model %s failed: %s", entry->face.name, entry->face.reason);
}

static void judge(struct srv_warming *warming)
{
    const struct srv_request *request = &warming->request;
    struct srv_core *core = warming->core;
    struct srv_model_entry *entry = warming->entries[warming->next];
    const bool is_ok = request->error.status == BASE_OK;
    const bool is_last = !is_ok || ++warming->devices == srv_engine_devices(core->engine);
    if (is_last) {
        warming->next++;
        warming->devices = 0;
    }
    if (is_ok && is_last) {
        entry->face.state = SRV_MODEL_READY;
        entry->face.signature = &entry->signature;
    } else if (!is_ok) {
        give_up(entry, request->error.message);
    }
    // What warm-up counted is no client's.
    memset(&entry->face.stats, 0, sizeof(entry->face.stats));
    base_hist_init(&entry->face.duration_ns);
    base_hist_init(&entry->face.queue_ns);
    base_hist_init(&entry->face.first_part_ns);
    core->counters.requests_total[SRV_PROTOCOL_TEST][request->error.status]--;
}

/* The next model goes from a fresh turn of the loop, so that this one's answer has wholly left. */
static void warm_done(struct srv_request *request)
{
    struct srv_warming *warming =
        (struct srv_warming *)(void *)((char *)request - offsetof(struct srv_warming, request));
    judge(warming);
    srv_loop_post(warming->core->loop, &warming->again);
}

/* A node of each cell, as many as a request may have, and nothing between them. */
static int64_t extent_of_graph(const struct srv_model_entry *entry, uint32_t i)
{
    const struct cell_graph *graph = &entry->cells->graph;
    const uint32_t most = entry->limits.sequence_length_max;
    const uint32_t n = entry->cells->n_stages < most ? entry->cells->n_stages : most;
    if (i == graph->cells_input || i == graph->edges_input) {
        return i == graph->cells_input ? n : 0;
    }
    const uint32_t behind = n < entry->cells->n_stages ? graph->cells[n].first_input : UINT32_MAX;
    return i - graph->edges_input - 1 < behind ? 1 : 0;
}

/* Elements on an axis of input i: the model's own number, or a short sequence of batch 1, or one
 * node with a leaf for each child. */
static int64_t extent(const struct srv_model_entry *entry, uint32_t i, uint32_t axis)
{
    const struct cell_model *model = entry->cells;
    const struct cell_tensor *tensor = &model->inputs[i];
    if (tensor->dims[axis] != CELL_DIM_ANY) {
        return tensor->dims[axis];
    }
    if (model->unfold == CELL_UNFOLD_TREE) {
        return i < model->tree.n_leaf_inputs ? model->tree.n_children : 1;
    }
    if (model->unfold == CELL_UNFOLD_GRAPH) {
        return extent_of_graph(entry, i);
    }
    if (tensor->time_axis != (int32_t)axis) {
        return 1;
    }
    uint32_t steps[CELL_SEQUENCES_MAX];
    cell_model_steps_min(model, steps);
    const uint32_t least = steps[tensor->sequence];
    const uint32_t wanted = least > WARM_STEPS ? least : WARM_STEPS;
    const uint32_t positions = model->sequences[tensor->sequence].steps_max;
    const uint32_t server = entry->limits.sequence_length_max;
    const uint32_t most = positions > 0 && positions < server ? positions : server;
    return most < wanted ? most : wanted;
}

/* An input of integers that are all the same. */
static void fill_numbers(struct srv_tensor *input, enum cell_dtype dtype, int64_t number,
                         uint8_t *data)
{
    for (size_t at = 0; at < input->bytes; at += cell_dtype_bytes(dtype)) {
        memcpy(data + at, &number, cell_dtype_bytes(dtype)); // little-endian
    }
}

/* The first node's children: the leaves, one after the other. */
static void fill_children(const struct srv_tensor *input, uint8_t *data)
{
    for (int64_t leaf = 0; leaf < input->shape[1]; leaf++) {
        memcpy(data + leaf * (int64_t)sizeof(leaf), &leaf, sizeof(leaf));
    }
}

/* Each node is of the next cell. */
static void fill_cells(const struct srv_tensor *input, uint8_t *data)
{
    for (int64_t cell = 0; cell < input->shape[0]; cell++) {
        memcpy(data + cell * (int64_t)sizeof(cell), &cell, sizeof(cell));
    }
}

/* Fills the request with zeros of the model's shapes; false when memory is short. */
static bool fill(struct srv_request *request, const struct srv_model_entry *entry)
{
    const struct cell_model *model = entry->cells;
    if (model->unfold == CELL_UNFOLD_PLUGIN) { // its cells are warmed, what they read is not known
        return true;
    }
    request->inputs = base_arena_array(&request->arena, model->n_inputs, sizeof(struct srv_tensor));
    if (request->inputs == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const struct cell_tensor *tensor = &model->inputs[i];
        struct srv_tensor *input = &request->inputs[i];
        input->name = tensor->name;
        const struct srv_datatype *datatype = srv_about_datatype_of(tensor);
        input->datatype = datatype->name;
        input->rank = tensor->rank;
        size_t bytes = datatype->bytes;
        for (uint32_t d = 0; d < tensor->rank; d++) {
            input->shape[d] = extent(entry, i, d);
            bytes *= (size_t)input->shape[d];
        }
        input->bytes = bytes;
        uint8_t *data = base_arena_alloc(&request->arena, bytes);
        if (data == NULL) {
            return false;
        }
        if (tensor->is_lengths) { // the shortest, so that each row runs
            fill_numbers(input, tensor->dtype, cell_telling(tensor->told, 1), data);
        }
        if (tensor->is_step) { // the first one
            fill_numbers(input, tensor->dtype, cell_telling(tensor->told, 0), data);
        }
        if (model->unfold == CELL_UNFOLD_TREE && model->tree.children_input == i) {
            fill_children(input, data);
        }
        if (model->unfold == CELL_UNFOLD_GRAPH && model->graph.cells_input == i) {
            fill_cells(input, data);
        }
        input->data = data;
    }
    request->n_inputs = model->n_inputs;
    return true;
}

static void warm_end(struct srv_warming *warming)
{
    void (*warmed)(void *context) = warming->warmed;
    void *context = warming->context;
    struct srv_core *core = warming->core;
    core->warming = NULL;
    core->has_warmed = true;
    base_arena_release(&warming->request.arena);
    base_free(warming);
    warmed(context);
    srv_core__wake_controls(core);
    srv_core__check_idle(core);
}

/* Starts the next model's request; true when the answer comes by warm_done(). */
static bool warm_start(struct srv_warming *warming, struct srv_model_entry *entry)
{
    struct srv_request *request = &warming->request;
    base_arena_reset(&request->arena);
    struct base_arena arena = request->arena;
    *request = (struct srv_request){.arena = arena,
                                    .protocol = SRV_PROTOCOL_TEST,
                                    .model_name = entry->face.name,
                                    .model_version = entry->face.version,
                                    .id = "",
                                    .deadline_ns = BASE_NEVER,
                                    .done = warm_done};
    if (entry->cells->unfold == CELL_UNFOLD_SEQ2SEQ) {
        warming->wanted = entry->cells->outputs[entry->cells->n_outputs - 1].name; // the lengths
        request->steps_max = entry->cells->labels.is_on ? 0 : WARM_STEPS; // as its frames ask for
        request->wanted = &warming->wanted;
        request->n_wanted = 1;
    }
    request->times.arrived_ns = base_now_ns();
    if (!fill(request, entry)) {
        base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "no memory for the warm-up's inputs");
        warming->core->counters.requests_total[SRV_PROTOCOL_TEST][BASE_RESOURCE_EXHAUSTED]++;
        judge(warming);
        return false;
    }
    srv_core__start(warming->core, request, entry);
    return true;
}

static void warm_next(struct base_message *message)
{
    struct srv_warming *warming =
        (struct srv_warming *)(void *)((char *)message - offsetof(struct srv_warming, again));
    struct srv_core *core = warming->core;
    while (warming->next < warming->n_entries && !core->refusing) {
        struct srv_model_entry *entry = warming->entries[warming->next];
        if (entry->face.state != SRV_MODEL_LOADING) {
            warming->next++;
        } else if (warm_start(warming, entry)) {
            return;
        }
    }
    warm_end(warming);
}

void srv_core__warm(struct srv_core *core, struct srv_model_entry *const *entries, uint32_t n,
                    void (*warmed)(void *context), void *context)
{
    base_assert(core->warming == NULL);
    struct srv_warming *warming = base_alloc(sizeof(*warming));
    if (warming == NULL) {
        for (uint32_t i = 0; i < n; i++) {
            if (entries[i]->face.state == SRV_MODEL_LOADING) {
                give_up(entries[i], "no memory for the warm-up");
            }
        }
        core->has_warmed = true;
        warmed(context);
        return;
    }
    warming->core = core;
    warming->entries = entries;
    warming->n_entries = n;
    warming->warmed = warmed;
    warming->context = context;
    base_arena_init(&warming->request.arena, 64 << 10, WARM_BYTES);
    warming->again.deliver = warm_next;
    core->warming = warming;
    srv_loop_post(core->loop, &warming->again);
}

void srv_core_warm(struct srv_core *core, void (*warmed)(void *context), void *context)
{
    srv_core__warm(core, core->models, core->n_models, warmed, context);
}
