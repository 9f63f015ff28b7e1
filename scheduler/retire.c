/* Taking completed batches back: rows advance, finished nodes free their rows and release what
 * waited for them, finished graphs leave.
 *
 * Thread: pool thread. Cost: O(rows of the batch + edges of the nodes that ended). */
#include "base/assert.h"
#include "scheduler/state.h"

/* Rows whose nodes are on their way while one is taken back. */
#define AHEAD 12u

/* The first row of a subgraph seen in this batch: one batch less in flight, and the subgraph comes
 * out of its list while its ready nodes change. */
static void subgraph_back(struct sched *sched, struct sched_subgraph *subgraph, uint64_t mark)
{
    if (subgraph->mark == mark) {
        return;
    }
    subgraph->mark = mark;
    if (subgraph->listed) {
        sched__ready_remove(sched__list_of(sched, subgraph), subgraph);
    }
    base_assert(subgraph->running > 0);
    if (--subgraph->running == 0) {
        subgraph->pinned = SCHED_NONE;
    }
}

static void value_give(struct sched *sched, struct sched_value *value)
{
    sched_rows_give(sched->rows, value->layout, value->row);
    value->row = CELL_ROW_NONE;
}

/* The node's last cell retired: its rows go back, and what waited outside for it may start. */
static void node_done(struct sched *sched, struct sched_node *node)
{
    struct sched_graph *graph = node->graph;
    sched__states_give(sched, node);
    for (uint32_t i = 0; i < sched__n_reads(node); i++) {
        const struct cell_ref *from = &node->wiring.inputs[i];
        if (from->kind == CELL_REF_VALUE) {
            struct sched_value *value = &graph->values[from->value];
            base_assert(value->readers_left > 0);
            if (--value->readers_left == 0) {
                value_give(sched, value);
            }
        }
    }
    for (uint32_t e = 0; e < node->wiring.n_emits; e++) {
        const struct cell_ref *to = &node->wiring.emits[e].to;
        if (to->kind == CELL_REF_VALUE) {
            struct sched_value *value = &graph->values[to->value];
            if (value->readers_left == 0 && value->row != CELL_ROW_NONE) {
                value_give(sched, value);
            }
        }
    }
    for (uint32_t e = 0; e < node->n_edges; e++) {
        uint32_t to = graph->nodes[graph->edges[node->first_edge + e]].subgraph;
        struct sched_subgraph *subgraph = &graph->subgraphs[to];
        if (to != node->subgraph) {
            base_assert(subgraph->waits > 0);
            if (--subgraph->waits == 0) {
                sched__release(sched, subgraph);
            }
        }
    }
    base_assert(graph->nodes_left > 0);
    graph->nodes_left--;
}

/* Who waits for the node's answer may have what it has done so far. */
static void show(struct sched *sched, struct sched_node *node)
{
    struct sched_graph *graph = node->graph;
    const uint32_t steps = node->steps_done - (node->has_ended ? 1 : 0);
    const bool is_all = node->steps_done == node->wiring.steps;
    atomic_store_explicit(&graph->shown[node - graph->nodes],
                          steps | (is_all ? SCHED_SHOWN_ALL : 0), memory_order_release);
    if (!graph->has_news) {
        graph->has_news = true;
        graph->next_news = sched->news;
        sched->news = graph;
    }
}

static void row_back(struct sched *sched, struct cell_batch *batch, struct sched_node *node,
                     const struct cell_batch_row *row, uint64_t now_ns)
{
    struct sched_graph *graph = node->graph;
    base_assert(row->steps_done <= row->steps && graph->rows_running >= node->lanes);
    graph->rows_running -= node->lanes; // the others took the same steps
    node->steps_done += row->steps_done;
    if (batch->status != BASE_OK || graph->stopping) {
        sched__stop(sched, graph, batch->status, now_ns);
        return;
    }
    const bool is_held = sched__is_held(batch, node);
    if (is_held) {
        node->steps_submitted = node->steps_done;
    } else {
        base_assert(row->steps_done == row->steps);
    }
    if (row->has_ended) {
        base_assert(sched__ends_itself(node) && row->steps_done > 0);
        node->has_ended = true;
        node->wiring.steps = node->steps_done;
    }
    if (node->is_shown) {
        show(sched, node);
    }
    if (node->steps_done < node->wiring.steps) {
        if (is_held) {
            sched__subgraph_push(&graph->subgraphs[node->subgraph], node, false);
        }
        return;
    }
    if (is_held) {
        sched__advance(graph, node);
    }
    node_done(sched, node);
    if (graph->nodes_left == 0) {
        sched__finish(sched, graph, now_ns);
    }
}

/* What ends by itself is a subgraph of its own (graph.c), so nothing else of it is in the batch. */
void sched_row_ended(struct sched *sched, struct cell_batch *batch, uint32_t row, uint64_t now_ns)
{
    struct sched_node *node = batch->rows[row].tag;
    base_assert(node != NULL && batch->rows[row].has_ended && batch->status == BASE_OK);
    for (uint32_t lane = 0; lane < node->lanes; lane++) {
        base_assert(batch->rows[row + lane].tag == node);
        batch->rows[row + lane].tag = NULL;
    }
    subgraph_back(sched, &node->graph->subgraphs[node->subgraph], ++sched->next_mark);
    row_back(sched, batch, node, &batch->rows[row], now_ns);
}

/* Puts the subgraphs that have something ready back into the lists, in their order. */
static void list_again(struct sched *sched, struct cell_batch *batch)
{
    struct sched_subgraph *hint = NULL;
    struct sched__ready *hint_list = NULL;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct sched_node *node = batch->rows[i].tag;
        if (node == NULL) {
            continue; // it left before
        }
        struct sched_subgraph *subgraph = &node->graph->subgraphs[node->subgraph];
        if (node->graph->stopping || subgraph->listed || subgraph->n_ready == 0 ||
            !subgraph->released) {
            continue;
        }
        struct sched__ready *list = sched__list_of(sched, subgraph);
        sched__ready_insert(list, subgraph, list == hint_list ? hint : NULL);
        hint = subgraph;
        hint_list = list;
    }
}

/* What beginning and ending a batch counts as, beside its operations: about a microsecond. */
#define BATCH_FLOPS 100000u

static void count_batch(struct sched *sched, struct sched__type *type,
                        const struct cell_batch *batch, uint64_t now_ns)
{
    struct sched_type_stats *stats = &type->stats;
    uint64_t cells = 0;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        cells += batch->rows[i].steps_done;
    }
    sched->served[type->group] += (cells * type->type->flops + BATCH_FLOPS) / SCHED__WORK_FLOPS;
    uint32_t bucket = 0;
    while (bucket < SCHED_ROW_BUCKETS && batch->n_cells > 1u << bucket) {
        bucket++;
    }
    sched__stat_add(&stats->batches, 1);
    sched__stat_add(&stats->steps, batch->steps_done);
    sched__stat_add(&stats->cells, cells);
    sched__stat_add(&stats->exec_ns, now_ns - batch->submitted_ns);
    sched__stat_add(&stats->rows_buckets[bucket], 1);
    sched__stat_add(&stats->rows_sum, batch->n_cells);
}

/* First a node, then what it points to, then what that points to. */
static void fetch_ahead(const struct cell_batch *batch, uint32_t row)
{
    if (row + AHEAD < batch->n_rows) {
        sched__fetch(batch->rows[row + AHEAD].tag);
    }
    if (row + 2 * AHEAD / 3 < batch->n_rows && batch->rows[row + 2 * AHEAD / 3].tag != NULL) {
        const struct sched_node *node = batch->rows[row + 2 * AHEAD / 3].tag;
        sched__fetch_references(node);
        __builtin_prefetch(&node->graph->subgraphs[node->subgraph]);
    }
    if (row + AHEAD / 3 < batch->n_rows && batch->rows[row + AHEAD / 3].tag != NULL) {
        sched__fetch_values(batch->rows[row + AHEAD / 3].tag);
        sched__fetch_consumer(batch->rows[row + AHEAD / 3].tag);
    }
}

void sched_retire(struct sched *sched, struct cell_batch *batch, uint64_t now_ns)
{
    struct sched__type *type = sched__type_of(sched, batch->type);
    struct sched__queue *queue = &sched->queues[batch->queue];
    base_assert(type->running > 0 && queue->in_flight > 0);
    // A run of no steps could be submitted again for ever.
    base_assert(batch->status != BASE_OK || batch->steps_done > 0);
    uint64_t mark = ++sched->next_mark;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        struct sched_node *node = batch->rows[i].tag;
        fetch_ahead(batch, i);
        if (node != NULL && batch->rows[i].wiring->lane == 0) {
            subgraph_back(sched, &node->graph->subgraphs[node->subgraph], mark);
            row_back(sched, batch, node, &batch->rows[i], now_ns);
        }
    }
    list_again(sched, batch);
    count_batch(sched, type, batch, now_ns);
    type->running--;
    queue->interruptible -= batch->interruptible ? 1 : 0;
    sched->n_busy -= --queue->in_flight == 0 ? 1 : 0;
    struct sched__batch *slot = (struct sched__batch *)(void *)batch;
    slot->is_in_flight = false;
    slot->next_free = queue->free;
    queue->free = slot;
}
