/* Life of the scheduler, and of graphs in it: adding, releasing, stopping, finishing.
 *
 * Data: per type the sorted lists of ready subgraphs (ready.h), per queue a fixed pool of batches,
 * and one list of all graphs inside. Thread: pool thread. Cost: add and finish are O(nodes of the
 * graph), forming and retiring O(rows of the batch). */
#include "scheduler/scheduler.h"

#include "base/assert.h"
#include "base/mem.h"
#include "scheduler/state.h"

#include <string.h>

/* A graph is overtaken by smaller ones until its group has had so many times its own work. The
 * larger, the shorter small ones wait, and the longer large ones. */
#define STRETCH 8u

/* Runs of several types take turns. One of less than this, some 50 us of a core or two, would be
 * mostly beginning and ending: 8 steps of a cell of 64 units are over in 5 us. Zen 4, two threads,
 * one request of both directions of an LSTM present, 100 steps, requests a second with runs of 8
 * steps and with this: 64 units 4,487 and 5,018, 128 units 1,405 and 1,572, 256 513 and 527. */
#define SHARED_FLOPS 10000000u

/* A batch that rows leave goes on for less than this, some 50 us of two cores: about what ending it
 * and forming the next takes, and as long as an answer may wait. Zen 3, two threads, LSTMs, 64
 * requests of 5 to 50 steps, requests a second without and with this: 16 units 176,937 and 313,416,
 * 32 units 98,246 and 136,401, 64 units 46,826 and 53,195, 128 units the same. */
#define LEAST_FLOPS 10000000u

void sched_options_init(struct sched_options *options)
{
    memset(options, 0, sizeof(*options));
    options->n_queues = 1;
    options->rows_max = 64;
    options->rows_min = 1;
    options->tasks_max = 5;
    options->run_steps_max = 256;
    options->run_steps_shared = 8;
    options->interruptible = true;
    options->follow_steps_min = 24;
    options->policy = &sched_policy_cellular;
}

void sched_options_init_pumped(struct sched_options *options)
{
    sched_options_init(options);
    options->tasks_max = 1;
    options->full_behind_runs = true;
    options->run_steps_max = UINT32_MAX;
    options->run_flops_shared = SHARED_FLOPS;
    options->run_flops_least = LEAST_FLOPS;
}

static enum base_status queue_init(struct sched *sched, struct sched__queue *queue, uint32_t index)
{
    const struct sched_options *options = &sched->options;
    queue->burst_type = CELL_TYPES_MAX;
    queue->slots = base_alloc_array(options->tasks_max, sizeof(*queue->slots));
    if (queue->slots == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t i = options->tasks_max; i-- > 0;) {
        struct sched__batch *slot = &queue->slots[i];
        slot->batch.queue = index;
        slot->batch.rows = slot->rows;
        slot->batch.attention = options->attention[index];
        slot->next_free = queue->free;
        queue->free = slot;
    }
    return BASE_OK;
}

enum base_status sched_create(const struct sched_options *options, struct sched **out)
{
    base_assert(options->n_queues >= 1 && options->n_queues <= SCHED_QUEUES_MAX);
    base_assert(options->rows_max >= 1 && options->rows_max <= CELL_BATCH_ROWS_MAX);
    base_assert(options->rows_min >= 1 && options->rows_min <= options->rows_max);
    base_assert(options->tasks_max >= 1 && options->run_steps_max >= 1);
    base_assert(options->run_steps_shared >= 1 && options->policy != NULL);
    base_assert(!options->beside || options->tasks_max >= 2);
    base_assert(options->follow_steps_min >= 2);
    struct sched *sched = base_alloc(sizeof(*sched));
    if (sched == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    sched->options = *options;
    enum base_status status = sched_rows_create(&sched->rows);
    for (uint32_t q = 0; q < options->n_queues && status == BASE_OK; q++) {
        status = queue_init(sched, &sched->queues[q], q);
    }
    if (status != BASE_OK) {
        sched_free(sched);
        return status;
    }
    *out = sched;
    return BASE_OK;
}

void sched_free(struct sched *sched)
{
    if (sched == NULL) {
        return;
    }
    base_assert(sched->n_inside == 0);
    for (uint32_t q = 0; q < sched->options.n_queues; q++) {
        base_free(sched->queues[q].slots);
    }
    for (uint32_t t = 0; t < sched->n_types; t++) {
        base_free(sched->types[t]);
    }
    sched_rows_free(sched->rows);
    base_free(sched);
}

enum base_status sched_type_set(struct sched *sched, const struct cell_type *type,
                                uint32_t priority, uint32_t rows_max)
{
    base_assert(type->id < CELL_TYPES_MAX && rows_max <= CELL_BATCH_ROWS_MAX);
    struct sched__type *entry = sched->types[type->id];
    if (entry == NULL) {
        entry = base_alloc(sizeof(*entry));
        if (entry == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        sched->types[type->id] = entry;
        sched->n_types = type->id + 1 > sched->n_types ? type->id + 1 : sched->n_types;
    }
    entry->type = type;
    entry->priority = priority;
    entry->rows_max = rows_max > 0 ? rows_max : sched->options.rows_max;
    return BASE_OK;
}

void sched_type_drop(struct sched *sched, const struct cell_type *type)
{
    base_assert(type->id < CELL_TYPES_MAX);
    struct sched__type *entry = sched->types[type->id];
    if (entry == NULL) {
        return;
    }
    base_assert(entry->type == type && entry->running == 0 && entry->unpinned.first == NULL);
    for (uint32_t q = 0; q < sched->options.n_queues; q++) {
        base_assert(entry->ready[q].first == NULL);
        if (sched->queues[q].burst_type == type->id) {
            sched->queues[q].burst_type = CELL_TYPES_MAX;
            sched->queues[q].burst_left = 0;
        }
    }
    sched->types[type->id] = NULL;
    base_free(entry);
}

void sched_type_set_group(struct sched *sched, const struct cell_type *type, uint32_t group)
{
    base_assert(type->id < CELL_TYPES_MAX && sched->types[type->id] != NULL);
    base_assert(group < CELL_TYPES_MAX);
    sched->types[type->id]->group = group;
}

void sched_type_set_beside(struct sched *sched, const struct cell_type *type, uint32_t rows,
                           uint32_t follow_rows)
{
    base_assert(type->id < CELL_TYPES_MAX && sched->types[type->id] != NULL);
    sched->types[type->id]->beside_rows = rows;
    sched->types[type->id]->follow_rows = follow_rows;
}

enum base_status sched_layout_open(struct sched *sched, uint32_t layout, uint32_t capacity)
{
    return sched_rows_open(sched->rows, layout, capacity);
}

void sched__release(struct sched *sched, struct sched_subgraph *subgraph)
{
    base_assert(!subgraph->released && subgraph->waits == 0);
    subgraph->released = true;
    subgraph->order = sched->next_order++;
    if (subgraph->n_ready > 0) { // else it followed, and is listed when it is back
        sched__ready_insert(sched__list_of(sched, subgraph), subgraph, NULL);
    }
}

void sched__advance(struct sched_graph *graph, struct sched_node *node)
{
    for (uint32_t e = 0; e < node->n_edges; e++) {
        struct sched_node *to = &graph->nodes[graph->edges[node->first_edge + e]];
        if (to->subgraph == node->subgraph) {
            base_assert(to->waits > 0);
            if (--to->waits == 0) {
                sched__subgraph_push(&graph->subgraphs[to->subgraph], to, false);
            }
        }
    }
}

/* Its group's clock goes on by what the group has had. */
static uint64_t finish_tag_of(const struct sched *sched, const struct sched_graph *graph)
{
    const struct sched__type *type = sched__type_of(sched, graph->nodes[0].type);
    return sched->served[type->group] + STRETCH * (graph->flops / SCHED__WORK_FLOPS);
}

void sched_add(struct sched *sched, struct sched_graph *graph, uint64_t now_ns)
{
    base_assert(!graph->inside && graph->nodes_left == graph->n_nodes);
    graph->inside = true;
    graph->previous_inside = NULL;
    graph->next_inside = sched->inside;
    if (sched->inside != NULL) {
        sched->inside->previous_inside = graph;
    }
    sched->inside = graph;
    sched->n_inside++;
    graph->finish_tag = finish_tag_of(sched, graph);
    for (uint32_t i = 0; i < graph->n_subgraphs; i++) {
        base_assert(sched__type_of(sched, graph->subgraphs[i].type) != NULL);
        if (graph->subgraphs[i].waits == 0) {
            sched__release(sched, &graph->subgraphs[i]);
        }
    }
    (void)now_ns;
}

void sched__states_give(struct sched *sched, struct sched_node *node)
{
    for (uint32_t lane = 0; lane < node->lanes && node->wiring.state != CELL_ROW_NONE; lane++) {
        sched_rows_give(sched->rows, node->type->state_layout, sched__wiring_of(node, lane)->state);
    }
    node->wiring.state = CELL_ROW_NONE;
}

/* Gives back every row the graph holds: none when it ran to its end. */
static void rows_release(struct sched *sched, struct sched_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        sched__states_give(sched, &graph->nodes[i]);
    }
    for (uint32_t i = 0; i < graph->n_values; i++) {
        if (graph->values[i].row != CELL_ROW_NONE) {
            sched_rows_give(sched->rows, graph->values[i].layout, graph->values[i].row);
            graph->values[i].row = CELL_ROW_NONE;
        }
    }
}

void sched__finish(struct sched *sched, struct sched_graph *graph, uint64_t now_ns)
{
    base_assert(graph->inside && graph->rows_running == 0);
    rows_release(sched, graph);
    graph->inside = false;
    graph->finished_ns = now_ns;
    struct sched_graph *next = graph->next_inside;
    struct sched_graph *previous = graph->previous_inside;
    *(previous == NULL ? &sched->inside : &previous->next_inside) = next;
    if (next != NULL) {
        next->previous_inside = previous;
    }
    sched->n_inside--;
    graph->next_finished = NULL;
    *(sched->finished_last == NULL ? &sched->finished_first
                                   : &sched->finished_last->next_finished) = graph;
    sched->finished_last = graph;
}

void sched__stop(struct sched *sched, struct sched_graph *graph, enum base_status status,
                 uint64_t now_ns)
{
    if (!graph->stopping) {
        base_assert(status != BASE_OK);
        graph->stopping = true;
        graph->status = status;
        for (uint32_t i = 0; i < graph->n_subgraphs; i++) {
            struct sched_subgraph *subgraph = &graph->subgraphs[i];
            if (subgraph->listed) {
                sched__ready_remove(sched__list_of(sched, subgraph), subgraph);
            }
        }
    }
    if (graph->rows_running == 0) {
        sched__finish(sched, graph, now_ns);
    }
}

void sched_cancel(struct sched *sched, struct sched_graph *graph, enum base_status status,
                  uint64_t now_ns)
{
    if (graph->inside && !graph->stopping) {
        sched__stop(sched, graph, status, now_ns);
    }
}

void sched_cancel_all(struct sched *sched, enum base_status status, uint64_t now_ns)
{
    struct sched_graph *next = NULL;
    for (struct sched_graph *graph = sched->inside; graph != NULL; graph = next) {
        next = graph->next_inside;
        sched_cancel(sched, graph, status, now_ns);
    }
}

struct sched_graph *sched_take_finished(struct sched *sched)
{
    struct sched_graph *first = sched->finished_first;
    sched->finished_first = sched->finished_last = NULL;
    return first;
}

struct sched_graph *sched_take_news(struct sched *sched)
{
    struct sched_graph *first = NULL;
    for (struct sched_graph *graph = sched->news; graph != NULL;) {
        struct sched_graph *next = graph->next_news;
        graph->has_news = false;
        if (graph->inside) { // else the end is the news
            graph->next_news = first;
            first = graph;
        }
        graph = next;
    }
    sched->news = NULL;
    return first;
}

uint32_t sched_graphs_inside(const struct sched *sched)
{
    return sched->n_inside;
}

const struct sched_rows *sched_rows_of(const struct sched *sched)
{
    return sched->rows;
}

const struct sched_type_stats *sched_type_stats(const struct sched *sched, cell_type_id type)
{
    base_assert(type < CELL_TYPES_MAX && sched->types[type] != NULL);
    return &sched->types[type]->stats;
}

/* ---- Recounting, for tests ---- */

/* Rows and subgraphs of a ready list, asserting its order and links. */
static uint32_t check_list(const struct sched__ready *list, uint32_t pinned)
{
    uint32_t rows = 0;
    const struct sched_subgraph *previous = NULL;
    for (const struct sched_subgraph *at = list->first; at != NULL; at = at->next) {
        base_assert(at->listed && at->released && at->pinned == pinned && at->previous == previous);
        base_assert(previous == NULL || sched__is_before(previous, at));
        base_assert(!at->graph->stopping && at->n_ready > 0);
        rows += at->n_ready;
        previous = at;
    }
    base_assert(list->last == previous && list->n_rows == rows);
    return rows;
}

/* Rows the graph holds, added to in_use[layout]. */
static void check_graph(const struct sched_graph *graph, uint32_t *in_use)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const struct sched_node *node = &graph->nodes[i];
        left += node->steps_done < node->wiring.steps ? 1 : 0;
        base_assert(node->steps_done <= node->steps_submitted);
        base_assert(node->steps_submitted <= node->wiring.steps);
        if (node->wiring.state != CELL_ROW_NONE) {
            in_use[node->type->state_layout] += node->lanes;
        }
    }
    base_assert(graph->stopping || left == graph->nodes_left);
    for (uint32_t i = 0; i < graph->n_values; i++) {
        if (graph->values[i].row != CELL_ROW_NONE) {
            in_use[graph->values[i].layout]++;
        }
    }
}

void sched_check(const struct sched *sched)
{
    uint32_t in_use[CELL_LAYOUTS_MAX] = {0};
    uint32_t inside = 0;
    for (const struct sched_graph *graph = sched->inside; graph != NULL;
         graph = graph->next_inside) {
        check_graph(graph, in_use);
        inside++;
    }
    base_assert(inside == sched->n_inside);
    for (uint32_t layout = 0; layout < CELL_LAYOUTS_MAX; layout++) {
        base_assert(in_use[layout] == sched_rows_in_use(sched->rows, layout));
    }
    uint32_t running = 0;
    for (uint32_t t = 0; t < sched->n_types; t++) {
        const struct sched__type *type = sched->types[t];
        if (type != NULL) {
            check_list(&type->unpinned, SCHED_NONE);
            for (uint32_t q = 0; q < sched->options.n_queues; q++) {
                check_list(&type->ready[q], q);
            }
            running += type->running;
        }
    }
    uint32_t busy = 0;
    for (uint32_t q = 0; q < sched->options.n_queues; q++) {
        base_assert(sched->queues[q].in_flight <= sched->options.tasks_max);
        running -= sched->queues[q].in_flight;
        busy += sched->queues[q].in_flight > 0 ? 1 : 0;
    }
    base_assert(running == 0 && busy == sched->n_busy);
}
