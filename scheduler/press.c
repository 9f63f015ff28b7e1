/* Whether runs in flight should make room for what has become ready. See scheduler.h. */
#include "base/assert.h"
#include "scheduler/state.h"

/* What its group has had, for comparison with those in flight: one that was away begins at the
 * clock. */
static uint64_t served_of(const struct sched *sched, const struct sched__type *type)
{
    const uint64_t served = sched->served[type->group];
    return served > sched->clock ? served : sched->clock;
}

static bool has_ready(const struct sched__type *type, uint32_t index)
{
    return type->ready[index].n_rows + type->unpinned.n_rows > 0;
}

bool sched_is_pressed(const struct sched *sched, uint32_t queue_index)
{
    uint64_t least_running = UINT64_MAX;
    uint64_t least_ready = UINT64_MAX;
    base_assert(queue_index < sched->options.n_queues);
    for (uint32_t t = 0; t < sched->n_types; t++) {
        const struct sched__type *type = sched->types[t];
        if (type != NULL && type->running > 0) {
            const uint64_t served = sched->served[type->group];
            least_running = served < least_running ? served : least_running;
        } else if (type != NULL && has_ready(type, queue_index)) {
            const uint64_t served = served_of(sched, type);
            least_ready = served < least_ready ? served : least_ready;
        }
    }
    return least_running < UINT64_MAX && least_ready < least_running;
}

/* A run in flight, as far as newcomers ask. */
struct run {
    const struct sched__type *type;
    const struct sched_subgraph *last; /* of what its rows belong to; NULL: none is left */
    uint64_t flops;                    /* of one of its rows */
    bool has_room, is_stopping;
};

static struct run run_of(const struct sched *sched, const struct cell_batch *batch)
{
    struct run run = {.type = sched__type_of(sched, batch->type),
                      .flops = batch->type->flops * batch->steps};
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct sched_node *node = batch->rows[i].tag; // NULL: it has left
        if (node != NULL) {
            run.last = &node->graph->subgraphs[node->subgraph];
            run.is_stopping |= node->graph->stopping;
            n_rows++;
        }
    }
    run.has_room = n_rows < run.type->rows_max;
    return run;
}

/* A type with a state could run beside it, or take turns with it; one without is done as soon as
 * there is room for what reads it. Who would go before the last row, but has more to do than the
 * run has, gains less by it than a batch that begins anew costs all. */
static bool is_in_way_of(const struct sched *sched, const struct run *run,
                         const struct sched__type *type, const struct sched_subgraph *first)
{
    if (type->group != run->type->group) {
        return served_of(sched, type) <= sched->served[run->type->group]; // which does not count it
    }
    if (type != run->type && type->type->state_layout != CELL_LAYOUT_NONE) {
        return true;
    }
    return run->has_room || run->last == NULL ||
           (sched__is_before(first, run->last) && first->graph->flops < run->flops);
}

bool sched_is_in_way(const struct sched *sched, uint32_t queue_index)
{
    base_assert(queue_index < sched->options.n_queues);
    const struct sched__queue *queue = &sched->queues[queue_index];
    for (uint32_t s = 0; s < sched->options.tasks_max && queue->interruptible > 0; s++) {
        const struct sched__batch *slot = &queue->slots[s];
        if (!slot->is_in_flight || !slot->batch.interruptible) {
            continue;
        }
        const struct run run = run_of(sched, &slot->batch);
        bool is_in_way = run.is_stopping;
        for (uint32_t t = 0; t < sched->n_types && !is_in_way; t++) {
            struct sched__type *type = sched->types[t];
            struct sched__ready *list = NULL;
            const struct sched_subgraph *first =
                type == NULL ? NULL : sched__first_ready(type, queue_index, true, &list);
            is_in_way = first != NULL && is_in_way_of(sched, &run, type, first);
        }
        if (is_in_way) {
            return true;
        }
    }
    return false;
}
