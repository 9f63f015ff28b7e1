/* Ready subgraphs of one type, for one queue or for any: a doubly linked list sorted by release
 * order, with the number of rows ready in it. Private to scheduler/. */
#ifndef SCHEDULER_READY_H
#define SCHEDULER_READY_H

#include "scheduler/graph.h"

struct sched__ready {
    struct sched_subgraph *first, *last;
    uint32_t n_rows;
};

/* Rows a ready node can put into batches now: one for a chain, a beam's width, all steps left for a
 * node without state, whose steps do not depend on each other. */
static inline uint32_t sched__node_rows(const struct sched_node *node)
{
    return node->type->state_layout == CELL_LAYOUT_NONE ? node->wiring.steps - node->steps_submitted
                                                        : node->lanes;
}

/* The node joins its subgraph's ready nodes (at the end, or in front); the subgraph's rows grow. */
void sched__subgraph_push(struct sched_subgraph *subgraph, struct sched_node *node, bool in_front);
struct sched_node *sched__subgraph_pop(struct sched_subgraph *subgraph);

/* Inserts by order. hint: a subgraph of this list, near the place, or NULL; scanning starts there
 * when it is listed and older than the new one, else from both ends, so inserting a batch's
 * subgraphs in order costs O(1) each. */
void sched__ready_insert(struct sched__ready *list, struct sched_subgraph *subgraph,
                         struct sched_subgraph *hint);
void sched__ready_remove(struct sched__ready *list, struct sched_subgraph *subgraph);

#endif
