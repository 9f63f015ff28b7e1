/* Chains that run behind others, step by step: a layer over a layer.
 *
 * A subgraph is released when all that it reads is done. One that lacks nothing but the rest of a
 * chain whose steps it reads one by one may be put into a batch beside that chain's before: it is
 * then in flight, and stands in no ready list, until it is released.
 *
 * Thread: pool thread. Cost: O(edges of the node). */
#include "scheduler/state.h"

/* The chain is all that is ready of its subgraph, and waits for one other alone. */
static bool is_free(const struct sched_node *node)
{
    const struct sched_subgraph *subgraph = &node->graph->subgraphs[node->subgraph];
    return !subgraph->released && subgraph->waits == 1 && subgraph->n_ready == 1 &&
           subgraph->ready_first == node;
}

struct sched_node *sched__follower(const struct sched_node *node)
{
    const struct sched_graph *graph = node->graph;
    for (uint32_t e = 0; e < node->n_edges; e++) {
        struct sched_node *to = &graph->nodes[graph->edges[node->first_edge + e]];
        if (to->follows != SCHED_NONE && &graph->nodes[to->follows] == node && is_free(to)) {
            return to;
        }
    }
    return NULL;
}
