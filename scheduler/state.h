/* The scheduler's inside, shared by its five files: scheduler.c (life, adding, stopping), form.c
 * (forming batches), follow.c (chains that run behind others), press.c (whom runs make room for)
 * and retire.c (taking batches back). Private to scheduler/. Owner: pool thread. */
#ifndef SCHEDULER_STATE_H
#define SCHEDULER_STATE_H

#include "scheduler/ready.h"
#include "scheduler/scheduler.h"

struct sched__type {
    const struct cell_type *type; /* NULL: unknown */
    uint32_t priority, rows_max, beside_rows, follow_rows, group;
    uint32_t running;                            /* batches in flight */
    uint64_t last_turn;                          /* number of the last batch formed; 0: none */
    struct sched__ready ready[SCHED_QUEUES_MAX]; /* subgraphs pinned to a queue */
    struct sched__ready unpinned;                /* subgraphs any queue may take */
    struct sched_type_stats stats;
};

/* Operations that are counted as one: years go by before their number is too large, whatever the
 * device. */
#define SCHED__WORK_FLOPS 4096u

struct sched__batch {
    struct cell_batch batch; /* first: retire gets back the outer from the inner */
    struct cell_batch_row rows[CELL_BATCH_ROWS_MAX];
    struct sched__batch *next_free;
    bool is_in_flight;
};

struct sched__queue {
    uint32_t in_flight;
    uint32_t interruptible;  /* of these, runs that end when somebody comes */
    cell_type_id burst_type; /* batches of one type are formed up to tasks_max in a row; before the
                                first one: CELL_TYPES_MAX */
    uint32_t burst_left;
    struct sched__batch *slots; /* tasks_max of them */
    struct sched__batch *free;
};

struct sched {
    struct sched_options options;
    struct sched_rows *rows;
    struct sched__type *types[CELL_TYPES_MAX];
    uint32_t n_types; /* highest known id + 1 */
    struct sched__queue queues[SCHED_QUEUES_MAX];
    uint32_t n_busy; /* queues that have something in flight */
    /* Work that each group has had, in SCHED__WORK_FLOPS. One that comes back begins at the clock,
     * the least that any group with something ready had when that was last looked at: nobody saves
     * up. */
    uint64_t served[CELL_TYPES_MAX], clock;
    uint64_t next_order, next_mark;
    uint64_t chains;            /* numbers given to them */
    uint64_t turns;             /* and to batches */
    struct sched_graph *inside; /* all graphs between add and finish */
    uint32_t n_inside;
    struct sched_graph *finished_first, *finished_last;
    struct sched_graph *news;
};

/* Values of a node that are asked for ahead: of each kind, a tree's. */
#define SCHED__FETCHED_VALUES 4u

/* Asks for a node that is needed soon: most were written last by another core, or long ago. It may
 * be NULL. */
static inline void sched__fetch(const struct sched_node *node)
{
    const char *at = (const char *)node;
    for (size_t line = 0; node != NULL && line < sizeof(*node); line += 64) {
        __builtin_prefetch(at + line);
    }
}

/* What a node at hand points to. */
static inline void sched__fetch_references(const struct sched_node *node)
{
    const struct cell_wiring *wiring = &node->wiring;
    __builtin_prefetch(wiring->emits, 1);
    if (wiring->n_emits > 0) {
        __builtin_prefetch(&wiring->emits[wiring->n_emits - 1], 1);
    }
    __builtin_prefetch(&node->graph->edges[node->first_edge]);
    __builtin_prefetch(wiring->inputs, 1);
    if (sched__n_reads(node) > 0) {
        __builtin_prefetch(&wiring->inputs[sched__n_reads(node) - 1], 1);
    }
}

/* The first node that waits for this one, where the scheduler looks at it; the edge is at hand. */
static inline void sched__fetch_consumer(const struct sched_node *node)
{
    if (node->n_edges > 0) {
        const struct sched_graph *graph = node->graph;
        __builtin_prefetch(&graph->nodes[graph->edges[node->first_edge]].subgraph, 1);
    }
}

/* The values that a node reads and writes, the first of each; its references are at hand. */
static inline void sched__fetch_values(const struct sched_node *node)
{
    const struct sched_value *values = node->graph->values;
    const uint32_t n_reads = sched__n_reads(node);
    const uint32_t n_emits = node->wiring.n_emits;
    for (uint32_t i = 0; i < n_reads && i < SCHED__FETCHED_VALUES; i++) {
        const struct cell_ref *from = &node->wiring.inputs[i];
        if (from->kind == CELL_REF_VALUE) {
            __builtin_prefetch(&values[from->value], 1);
        }
    }
    for (uint32_t e = 0; e < n_emits && e < SCHED__FETCHED_VALUES; e++) {
        const struct cell_ref *to = &node->wiring.emits[e].to;
        if (to->kind == CELL_REF_VALUE) {
            __builtin_prefetch(&values[to->value], 1);
        }
    }
}

static inline struct sched__type *sched__type_of(const struct sched *sched,
                                                 const struct cell_type *type)
{
    return sched->types[type->id];
}

/* Whether the node is ready again only when its batch is back: how many steps it takes is not known
 * before. */
static inline bool sched__is_held(const struct cell_batch *batch, const struct sched_node *node)
{
    return batch->interruptible || sched__ends_itself(node);
}

/* The first subgraph that the queue may take from, and the list it stands in; NULL when none. */
static inline struct sched_subgraph *sched__first_ready(struct sched__type *type, uint32_t queue,
                                                        bool with_unpinned,
                                                        struct sched__ready **list)
{
    struct sched_subgraph *pinned = type->ready[queue].first;
    struct sched_subgraph *unpinned = with_unpinned ? type->unpinned.first : NULL;
    bool take_pinned = unpinned == NULL || (pinned != NULL && sched__is_before(pinned, unpinned));
    *list = take_pinned ? &type->ready[queue] : &type->unpinned;
    return take_pinned ? pinned : unpinned;
}

/* The list a ready subgraph belongs in. */
static inline struct sched__ready *sched__list_of(const struct sched *sched,
                                                  const struct sched_subgraph *subgraph)
{
    struct sched__type *type = sched__type_of(sched, subgraph->type);
    return subgraph->pinned == SCHED_NONE ? &type->unpinned : &type->ready[subgraph->pinned];
}

static inline void sched__stat_add(_Atomic uint64_t *stat, uint64_t amount)
{
    // One writer: a plain relaxed load and store is enough, and costs no locked instruction.
    uint64_t value = atomic_load_explicit(stat, memory_order_relaxed);
    atomic_store_explicit(stat, value + amount, memory_order_relaxed);
}

/* Gives back the state slots that the node holds, of all its lanes. */
void sched__states_give(struct sched *sched, struct sched_node *node);

/* The subgraph's outside inputs are ready: it gets its place in the order and is listed. */
void sched__release(struct sched *sched, struct sched_subgraph *subgraph);

/* All steps of the node are submitted (or done): consumers within its subgraph may follow. */
void sched__advance(struct sched_graph *graph, struct sched_node *node);

/* The chain that may run beside this one, step behind step, though what it reads is not done: all
 * else that it waits for is. NULL: none. */
struct sched_node *sched__follower(const struct sched_node *node);

/* Frees all rows the graph still holds and puts it on the finished list; nothing is in flight. */
void sched__finish(struct sched *sched, struct sched_graph *graph, uint64_t now_ns);

/* Stops a graph: nothing more of it is submitted; finishes it when nothing is in flight. */
void sched__stop(struct sched *sched, struct sched_graph *graph, enum base_status status,
                 uint64_t now_ns);

#endif
