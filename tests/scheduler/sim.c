/* Requests and devices of the simulation; see sim.h. One thread. */
#include "tests/scheduler/sim.h"

#include "base/assert.h"
#include "base/mem.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a row holds while nobody owns it. */
#define POISON 0x5C

#define ROW_BYTES_MAX 256u

/* Of the simulation that runs, for an assertion of the scheduler's own. */
static char seed_text[64];

static void on_abort(int signal_number)
{
    (void)signal_number;
    (void)!write(STDERR_FILENO, seed_text, strlen(seed_text));
}

void sim_report_aborts(void)
{
    (void)signal(SIGABRT, on_abort);
}

_Noreturn void sim_fail(const struct sim *sim, const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: not so at %llu ns: %s\n%s", file, line,
                  (unsigned long long)sim->now_ns, condition, seed_text);
    abort();
}

/* ---- Life ---- */

static void *alloc(size_t count, size_t size)
{
    void *memory = base_alloc_array(count, size);
    base_assert(memory != NULL);
    return memory;
}

void sim_init(struct sim *sim, const struct graphs_types *types,
              const struct sched_options *options, const uint32_t *capacity, uint64_t seed)
{
    (void)snprintf(seed_text, sizeof(seed_text), "simulation seed %llu\n",
                   (unsigned long long)seed);
    sim->seed = seed;
    base_random_init(&sim->random, seed);
    sim->types = types;
    sim->options = *options;
    base_assert(options->n_queues <= SIM_QUEUES_MAX && options->tasks_max <= SIM_TASKS_MAX);
    for (uint32_t q = 0; q < options->n_queues; q++) {
        sim->options.attention[q] = &sim->queues[q].attention;
    }
    sim_require(sim, sched_create(&sim->options, &sim->sched) == BASE_OK);
    for (uint32_t t = 0; t < types->n; t++) {
        sim_require(sim, sched_type_set(sim->sched, &types->types[t], sim->priorities[t],
                                        sim->rows_max[t]) == BASE_OK);
        sim->rows_max[t] = sim->rows_max[t] > 0 ? sim->rows_max[t] : options->rows_max;
        sched_type_set_beside(sim->sched, &types->types[t], sim->beside_rows[t],
                              sim->follow_rows[t]);
        sched_type_set_group(sim->sched, &types->types[t], sim->groups[t]);
    }
    for (uint32_t l = 0; l < types->n_layouts; l++) {
        uint32_t rows = capacity == NULL ? 64 : capacity[l];
        if (rows == 0) {
            continue;
        }
        for (uint32_t p = 0; p < types->layouts[l].n_parts; p++) {
            sim->row_bytes[l] += graphs_row_bytes(&types->layouts[l].parts[p]);
        }
        sim->admission.capacity[l] = rows;
        sim->rows[l] = alloc(rows, sim->row_bytes[l]);
        memset(sim->rows[l], POISON, rows * sim->row_bytes[l]);
        sim_require(sim, sched_layout_open(sim->sched, l, rows) == BASE_OK);
    }
}

void sim_release(struct sim *sim)
{
    sim_require(sim, sched_graphs_inside(sim->sched) == 0);
    for (uint32_t l = 0; l < GRAPHS_LAYOUTS_MAX; l++) {
        sim_require(sim, sim->admission.reserved[l] == 0);
        base_free(sim->rows[l]);
    }
    sched_free(sim->sched);
}

/* ---- Graphs ---- */

static void *take(struct sim_graph *graph, size_t count, size_t size)
{
    void *memory = base_arena_array(&graph->recipe.arena, count, size);
    base_assert(memory != NULL);
    return memory;
}

struct sim_graph *sim_add(struct sim *sim, const struct recipe *recipe)
{
    uint32_t place = 0;
    while (place < SIM_GRAPHS_MAX && sim->graphs[place] != NULL) {
        place++;
    }
    if (place == SIM_GRAPHS_MAX || !sched_admission_reserve(&sim->admission, recipe->graph)) {
        return NULL;
    }
    struct sim_graph *graph = alloc(1, sizeof(*graph));
    sim->graphs[place] = graph;
    graph->recipe = *recipe;
    graph->inside = true;
    uint32_t n_nodes = recipe->n_nodes;
    graph->submitted = take(graph, n_nodes, sizeof(uint32_t));
    graph->executed = take(graph, n_nodes, sizeof(uint32_t));
    graph->held = take(graph, n_nodes, sizeof(bool));
    graph->follower = take(graph, n_nodes, sizeof(uint32_t));
    graph->cells = take(graph, n_nodes, sizeof(uint8_t *));
    for (uint32_t n = 0; n < n_nodes; n++) {
        graph->cells[n] = take(graph, recipe->nodes[n].steps, 1);
    }
    uint32_t n_subgraphs = recipe->graph->n_subgraphs;
    graph->running = take(graph, n_subgraphs, sizeof(uint32_t));
    graph->queue = take(graph, n_subgraphs, sizeof(uint32_t));
    graph->ready = take(graph, n_subgraphs, sizeof(uint32_t));
    graph->taken = take(graph, n_subgraphs, sizeof(uint32_t));
    graph->pinned = take(graph, n_subgraphs, sizeof(uint32_t));
    graph->due = take(graph, n_subgraphs, sizeof(uint32_t));
    recipe->graph->user = graph;
    sched_add(sim->sched, recipe->graph, sim->now_ns);
    sim_model_add(sim, recipe->graph);
    sched_check(sim->sched);
    return graph;
}

static void graph_check(const struct sim *sim, const struct sim_graph *graph)
{
    enum base_status status = graph->recipe.graph->status;
    sim_require(sim, status == graph->stopped);
    sim_require(sim, graph->recipe.graph->finished_ns == sim->now_ns);
    if (!graph->failed) {
        sim_require(sim, recipe_wrong(&graph->recipe, 0, status != BASE_OK) == 0);
    }
    for (uint32_t n = 0; status == BASE_OK && n < graph->recipe.n_nodes; n++) {
        // Each cell once: the executor refuses a second time.
        sim_require(sim, graph->executed[n] == graph->recipe.nodes[n].taken);
    }
    for (uint32_t s = 0; s < graph->recipe.graph->n_subgraphs; s++) {
        sim_require(sim, graph->running[s] == 0);
    }
}

/* Takes what has finished out, and spoils all rows that nobody owns now. */
static void collect(struct sim *sim)
{
    struct sched_graph *next = NULL;
    sim_news_check(sim);
    for (struct sched_graph *at = sched_take_finished(sim->sched); at != NULL; at = next) {
        next = at->next_finished;
        struct sim_graph *graph = at->user;
        graph_check(sim, graph);
        sched_admission_credit(&sim->admission, at);
        sim->n_finished++;
        sim->n_ok += at->status == BASE_OK ? 1 : 0;
        uint32_t place = 0;
        while (sim->graphs[place] != graph) {
            place++;
        }
        sim->graphs[place] = NULL;
        recipe_release(&graph->recipe);
        base_free(graph);
    }
    const struct sched_rows *rows = sched_rows_of(sim->sched);
    for (uint32_t l = 0; l < sim->types->n_layouts; l++) {
        for (uint32_t r = 0; r < sched_rows_capacity(rows, l); r++) {
            if (sched_rows_generation(rows, l, r) % 2 == 0) {
                memset(sim->rows[l] + r * sim->row_bytes[l], POISON, sim->row_bytes[l]);
            }
        }
    }
    sched_check(sim->sched);
}

void sim_cancel(struct sim *sim, struct sim_graph *graph, enum base_status status)
{
    graph->stopped = graph->stopped == BASE_OK ? status : graph->stopped;
    sched_cancel(sim->sched, graph->recipe.graph, status, sim->now_ns);
    collect(sim);
}

void sim_cancel_all(struct sim *sim, enum base_status status)
{
    for (uint32_t i = 0; i < SIM_GRAPHS_MAX; i++) {
        if (sim->graphs[i] != NULL && sim->graphs[i]->stopped == BASE_OK) {
            sim->graphs[i]->stopped = status;
        }
    }
    sched_cancel_all(sim->sched, status, sim->now_ns);
    collect(sim);
}

/* ---- Devices ---- */

/* A row of the device's memory, which somebody must own. */
static uint8_t *row_at(const struct sim *sim, uint32_t layout, uint32_t row)
{
    const struct sched_rows *rows = sched_rows_of(sim->sched);
    sim_require(sim, row < sched_rows_capacity(rows, layout));
    sim_require(sim, sched_rows_generation(rows, layout, row) % 2 == 1);
    return sim->rows[layout] + row * sim->row_bytes[layout];
}

static uint8_t *place_of(const struct sim *sim, const struct cell_ref *ref, uint32_t layout,
                         uint32_t step)
{
    static uint8_t zeros[ROW_BYTES_MAX];
    if (ref->kind == CELL_REF_ZERO) {
        return zeros;
    }
    return ref->kind == CELL_REF_HOST ? ref->host + (int64_t)step * ref->stride_bytes
                                      : row_at(sim, layout, ref->row);
}

static void execute_cell(const struct sim *sim, const struct cell_type *type,
                         const struct cell_wiring *wiring, uint32_t step)
{
    static uint64_t results[CELL_OUTPUTS_MAX][ROW_BYTES_MAX / 8];
    const struct cell_def *def = &type->def;
    const void *inputs[CELL_INPUTS_MAX];
    void *states[CELL_STATES_MAX];
    void *outputs[CELL_OUTPUTS_MAX];
    size_t offset = 0;
    for (uint32_t i = 0; i < def->n_states; i++) {
        size_t bytes = graphs_row_bytes(&def->values[def->n_inputs + i]);
        states[i] = row_at(sim, type->state_layout, wiring->state) + offset;
        offset += bytes;
        if (step == 0) {
            memcpy(states[i], place_of(sim, &wiring->init[i], type->state_layouts[i], 0), bytes);
        }
    }
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        inputs[i] = place_of(sim, &wiring->inputs[i], type->input_layouts[i], step);
    }
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        outputs[i] = results[i];
    }
    graphs_cell_token(type, inputs, states, outputs);
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        if (!cell_emit_is_due(emit, step, wiring->steps)) {
            continue;
        }
        bool is_state = emit->what == CELL_EMIT_STATE;
        uint32_t layout =
            is_state ? type->state_layouts[emit->index] : type->output_layouts[emit->index];
        memcpy(place_of(sim, &emit->to, layout, step),
               is_state ? states[emit->index] : outputs[emit->index],
               graphs_row_bytes(&sim->types->layouts[layout].parts[0]));
    }
}

bool sim_reads_steps(const struct recipe *recipe, uint32_t n, uint32_t from)
{
    const struct recipe_node *node = &recipe->nodes[n];
    bool reads = false;
    for (uint32_t i = 0; i < node->type->def.n_inputs; i++) {
        const struct recipe_read *read = &node->inputs[i];
        if ((read->kind == RECIPE_VALUE || read->kind == RECIPE_SPILL) && read->node == from) {
            if (!recipe_reads_steps(recipe, n, i)) {
                return false;
            }
            reads = true;
        }
    }
    for (uint32_t i = 0; i < node->type->def.n_states; i++) {
        if (node->init[i].kind == RECIPE_VALUE && node->init[i].node == from) {
            return false;
        }
    }
    return reads;
}

/* The cell has not run, those before it in its chain have, and so has all that it reads. */
static void check_cell(const struct sim *sim, struct sim_graph *graph, uint32_t n, uint32_t step)
{
    const struct recipe *recipe = &graph->recipe;
    sim_require(sim, graph->cells[n][step] == 0);
    sim_require(sim, recipe->nodes[n].type->def.n_states == 0 || step == graph->executed[n]);
    for (uint32_t from = 0; graph->executed[n] == 0 && from < n; from++) {
        sim_require(sim, !recipe_is_child(recipe, n, from) || sim_reads_steps(recipe, n, from) ||
                             graph->executed[from] == recipe->nodes[from].steps);
    }
    for (uint32_t i = 0; i < recipe->nodes[n].type->def.n_inputs; i++) {
        const uint32_t from = recipe->nodes[n].inputs[i].node;
        sim_require(sim, !recipe_reads_steps(recipe, n, i) || graph->executed[from] > step);
    }
    graph->cells[n][step] = 1;
    graph->executed[n]++;
}

static bool has_ended(const struct sim *sim, const struct cell_type *type,
                      const struct cell_wiring *wiring)
{
    const struct cell_value *states = &type->def.values[type->def.n_inputs];
    size_t offset = 0;
    if (wiring->end == NULL) {
        return false;
    }
    for (uint32_t s = 0; s < wiring->end->state; s++) {
        offset += graphs_row_bytes(&states[s]);
    }
    return cell_integer_at(states[wiring->end->state].dtype,
                           row_at(sim, type->state_layout, wiring->state) + offset) ==
           wiring->end->id;
}

static void execute_row(const struct sim *sim, const struct cell_batch *batch,
                        struct cell_batch_row *row)
{
    struct sim_graph *graph = sim_graph_of(row);
    row->steps_done = row->steps < batch->steps_done || cell_batch_has_spans(batch)
                          ? row->steps
                          : batch->steps_done;
    if (graph->failed) {
        return;
    }
    for (uint32_t s = 0; s < row->steps_done; s++) {
        check_cell(sim, graph, sim_node_of(row), row->first_step + s);
        execute_cell(sim, batch->type, row->wiring, row->first_step + s);
        if (has_ended(sim, batch->type, row->wiring)) {
            row->has_ended = true;
            row->steps_done = s + 1;
        }
    }
}

/* Rows that have ended may leave a batch that goes on. */
static void let_go(struct sim *sim, struct cell_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        if (batch->rows[i].has_ended && base_random_below(&sim->random, 2) == 0) {
            sim_model_row_ended(sim, &batch->rows[i]);
            sched_row_ended(sim->sched, batch, i, sim->now_ns);
            sched_check(sim->sched);
        }
    }
}

static void execute_batch(struct sim *sim, struct cell_batch *batch, uint32_t steps_max,
                          enum base_status status)
{
    batch->status = status;
    batch->steps_done = batch->steps;
    if (status != BASE_OK) {
        batch->steps_done = 0;
        for (uint32_t i = 0; i < batch->n_rows; i++) {
            sim_graph_of(&batch->rows[i])->failed = true;
        }
        return;
    }
    if (batch->interruptible && steps_max < batch->steps) {
        batch->steps_done = steps_max > 0 ? steps_max : 1;
    }
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        execute_row(sim, batch, &batch->rows[i]);
    }
}

/* Whichever of the two comes first, where neither reads what the other writes. Who follows comes as
 * far as the first lets it at most. */
static void execute_both(struct sim *sim, struct cell_batch *batch, uint32_t steps_max,
                         enum base_status status)
{
    const bool is_second_first = base_random_below(&sim->random, 2) == 0;
    const uint32_t other_max =
        steps_max > batch->beside->steps ? steps_max : base_random_below(&sim->random, 6);
    if (batch->beside->follows) {
        execute_batch(sim, batch, steps_max, status);
        const uint32_t most = batch->beside->lead + batch->steps_done;
        execute_batch(sim, batch->beside, other_max < most ? other_max : most, status);
        return;
    }
    if (is_second_first) {
        execute_batch(sim, batch->beside, other_max, status);
    }
    execute_batch(sim, batch, steps_max, status);
    if (!is_second_first) {
        execute_batch(sim, batch->beside, other_max, status);
    }
}

bool sim_execute(struct sim *sim, uint32_t q, uint32_t steps_max, enum base_status status)
{
    struct sim_queue *queue = &sim->queues[q];
    if (queue->n_executed == queue->n) {
        return false;
    }
    struct cell_batch *batch = queue->batches[queue->n_executed++];
    if (batch->beside != NULL) {
        sim_require(sim, queue->batches[queue->n_executed++] == batch->beside);
        execute_both(sim, batch, steps_max, status);
    } else {
        execute_batch(sim, batch, steps_max, status);
    }
    if (status == BASE_OK) {
        let_go(sim, batch);
    }
    collect(sim);
    return true;
}

bool sim_retire(struct sim *sim, uint32_t q)
{
    struct sim_queue *queue = &sim->queues[q];
    if (queue->n_executed == 0) {
        return false;
    }
    struct cell_batch *batch = queue->batches[0];
    queue->n--;
    queue->n_executed--;
    for (uint32_t i = 0; i < queue->n; i++) {
        queue->batches[i] = queue->batches[i + 1];
    }
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        if (batch->status != BASE_OK && sim_graph_of(&batch->rows[i])->stopped == BASE_OK) {
            sim_graph_of(&batch->rows[i])->stopped = batch->status;
        }
    }
    sim_model_retire(sim, batch);
    uint64_t allocations = base_alloc_count();
    sched_retire(sim->sched, batch, sim->now_ns);
    sim_require(sim, base_alloc_count() == allocations);
    collect(sim);
    return true;
}

struct cell_batch *sim_next(struct sim *sim, uint32_t q)
{
    struct sim_queue *queue = &sim->queues[q];
    sim_model_before(sim, q);
    uint64_t allocations = base_alloc_count();
    struct cell_batch *batch = sched_next(sim->sched, q, sim->now_ns);
    sim_require(sim, base_alloc_count() == allocations);
    sim_model_after(sim, q, batch);
    sched_check(sim->sched);
    for (struct cell_batch *at = batch; at != NULL; at = at->beside) {
        sim_require(sim, at->attention == &queue->attention);
        queue->batches[queue->n++] = at;
        sim->n_batches++;
    }
    return batch;
}

void sim_drain(struct sim *sim)
{
    while (sched_graphs_inside(sim->sched) > 0) {
        bool moved = false;
        for (uint32_t q = 0; q < sim->options.n_queues; q++) {
            sim->now_ns++;
            moved |= sim_next(sim, q) != NULL;
            moved |= sim_execute(sim, q, UINT32_MAX, BASE_OK);
            moved |= sim_retire(sim, q);
        }
        sim_require(sim, moved);
    }
}

void sim_end(struct sim *sim)
{
    if (sim->sched != NULL) {
        sim_drain(sim);
        sim_release(sim);
    }
    base_free(sim);
}

/* ---- Random worlds ---- */

void sim_draw_types(struct graphs_types *types, struct base_random *random)
{
    uint32_t n = 1 + base_random_below(random, 5);
    for (uint32_t t = 0; t < n; t++) {
        uint32_t n_states = base_random_below(random, 4);
        graphs_type_token(types, base_random_below(random, 4), n_states == 3 ? 0 : n_states,
                          1 + base_random_below(random, 2), 1 + base_random_below(random, 2));
    }
}

void sim_draw_options(struct sched_options *options, struct base_random *random)
{
    sched_options_init(options);
    options->n_queues = 1 + base_random_below(random, SIM_QUEUES_MAX);
    options->rows_max = 1 + base_random_below(random, 12);
    options->rows_min = 1 + base_random_below(random, options->rows_max);
    options->tasks_max = 1 + base_random_below(random, 5);
    options->full_behind_runs = base_random_below(random, 2) == 0;
    options->run_steps_max =
        base_random_below(random, 2) == 0 ? 256 : 1 + base_random_below(random, 6);
    options->run_steps_shared = 1 + base_random_below(random, 6);
    options->run_flops_shared =
        base_random_below(random, 2) * base_random_below(random, 60) * GRAPHS_FLOPS;
    options->run_flops_least =
        base_random_below(random, 2) * base_random_below(random, 200) * GRAPHS_FLOPS;
    options->run_flops_shown =
        base_random_below(random, 2) * (1 + base_random_below(random, 40)) * GRAPHS_FLOPS;
    options->interruptible = base_random_below(random, 3) != 0;
    options->spans = base_random_below(random, 2) == 0;
    options->beside = options->tasks_max > 1 && base_random_below(random, 2) == 0;
    options->follow_steps_min = 2 + base_random_below(random, 3);
}

void sim_capacity(uint32_t *capacity, const struct recipe *recipes, uint32_t n, uint32_t factor)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct sched_graph *graph = recipes[i].graph;
        for (uint32_t k = 0; k < graph->n_needs; k++) {
            uint32_t rows = factor * graph->needs[k].rows;
            uint32_t *of = &capacity[graph->needs[k].layout];
            *of = *of < rows ? rows : *of;
        }
    }
}
