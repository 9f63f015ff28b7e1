/* Sorted lists of ready subgraphs. Insertions come nearly in order, so that a scan from the nearer
 * end (new releases, the first of a retiring batch) or from the last inserted (the rest of the
 * batch) takes a few steps. */
#include "scheduler/ready.h"

#include "base/assert.h"

void sched__subgraph_push(struct sched_subgraph *subgraph, struct sched_node *node, bool in_front)
{
    if (subgraph->ready_first == NULL) {
        node->next_ready = NULL;
        subgraph->ready_first = subgraph->ready_last = node;
    } else if (in_front) {
        node->next_ready = subgraph->ready_first;
        subgraph->ready_first = node;
    } else {
        node->next_ready = NULL;
        subgraph->ready_last->next_ready = node;
        subgraph->ready_last = node;
    }
    subgraph->n_ready += sched__node_rows(node);
    __builtin_prefetch(node->wiring.inputs); // it is soon in a batch
    __builtin_prefetch(node->wiring.emits);
}

struct sched_node *sched__subgraph_pop(struct sched_subgraph *subgraph)
{
    struct sched_node *node = subgraph->ready_first;
    base_assert(node != NULL);
    subgraph->ready_first = node->next_ready;
    node->next_ready = NULL;
    uint32_t rows = sched__node_rows(node);
    base_assert(subgraph->n_ready >= rows);
    subgraph->n_ready -= rows;
    return node;
}

/* The last listed subgraph older than `order`, or NULL when all are newer. */
static struct sched_subgraph *place_before(const struct sched__ready *list,
                                           const struct sched_subgraph *subgraph,
                                           struct sched_subgraph *hint)
{
    if (hint != NULL && hint->listed && sched__is_before(hint, subgraph)) {
        while (hint->next != NULL && sched__is_before(hint->next, subgraph)) {
            hint = hint->next;
        }
        return hint;
    }
    // From both ends at once: a retiring batch goes near the front, a release to the end, and a
    // crowd that waits between them costs neither.
    struct sched_subgraph *front = list->first;
    struct sched_subgraph *back = list->last;
    while (front != NULL && back != NULL) {
        if (!sched__is_before(front, subgraph)) {
            return front->previous;
        }
        if (sched__is_before(back, subgraph)) {
            return back;
        }
        front = front->next;
        back = back->previous;
    }
    return NULL;
}

void sched__ready_insert(struct sched__ready *list, struct sched_subgraph *subgraph,
                         struct sched_subgraph *hint)
{
    base_assert(!subgraph->listed && subgraph->n_ready > 0);
    struct sched_subgraph *before = place_before(list, subgraph, hint);
    struct sched_subgraph *after = before == NULL ? list->first : before->next;
    subgraph->previous = before;
    subgraph->next = after;
    *(before == NULL ? &list->first : &before->next) = subgraph;
    *(after == NULL ? &list->last : &after->previous) = subgraph;
    subgraph->listed = true;
    list->n_rows += subgraph->n_ready;
}

void sched__ready_remove(struct sched__ready *list, struct sched_subgraph *subgraph)
{
    base_assert(subgraph->listed && list->n_rows >= subgraph->n_ready);
    *(subgraph->previous == NULL ? &list->first : &subgraph->previous->next) = subgraph->next;
    *(subgraph->next == NULL ? &list->last : &subgraph->next->previous) = subgraph->previous;
    subgraph->next = subgraph->previous = NULL;
    subgraph->listed = false;
    list->n_rows -= subgraph->n_ready;
}
