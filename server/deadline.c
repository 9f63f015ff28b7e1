/* The heap is an array of pointers; each entry knows its place, so that it can be taken out when
 * its request ends early, as nearly all do. */
#include "server/deadline.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

void srv_deadlines_init(struct srv_deadlines *deadlines)
{
    memset(deadlines, 0, sizeof(*deadlines));
}

void srv_deadlines_release(struct srv_deadlines *deadlines)
{
    base_assert(deadlines->count == 0);
    base_free((void *)deadlines->heap);
    deadlines->heap = NULL;
}

static void put(struct srv_deadlines *deadlines, uint32_t index, struct srv_deadline *deadline)
{
    deadlines->heap[index] = deadline;
    deadline->index = index;
}

/* Moves an entry towards the root while it is earlier than its parent. */
static void sift_up(struct srv_deadlines *deadlines, uint32_t index, struct srv_deadline *deadline)
{
    while (index > 0 && deadlines->heap[(index - 1) / 2]->at_ns > deadline->at_ns) {
        put(deadlines, index, deadlines->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(deadlines, index, deadline);
}

static void sift_down(struct srv_deadlines *deadlines, uint32_t index,
                      struct srv_deadline *deadline)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= deadlines->count) {
            break;
        }
        if (child + 1 < deadlines->count &&
            deadlines->heap[child + 1]->at_ns < deadlines->heap[child]->at_ns) {
            child++;
        }
        if (deadlines->heap[child]->at_ns >= deadline->at_ns) {
            break;
        }
        put(deadlines, index, deadlines->heap[child]);
        index = child;
    }
    put(deadlines, index, deadline);
}

enum base_status srv_deadlines_add(struct srv_deadlines *deadlines, struct srv_deadline *deadline)
{
    base_assert(deadline->index == SRV_DEADLINE_OUT);
    if (deadlines->count == deadlines->capacity) {
        uint32_t capacity = deadlines->capacity > 0 ? deadlines->capacity * 2 : 64;
        void *heap =
            base_realloc((void *)deadlines->heap, capacity * sizeof(struct srv_deadline *));
        if (heap == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        deadlines->heap = heap;
        deadlines->capacity = capacity;
    }
    sift_up(deadlines, deadlines->count++, deadline);
    return BASE_OK;
}

void srv_deadlines_remove(struct srv_deadlines *deadlines, struct srv_deadline *deadline)
{
    uint32_t index = deadline->index;
    if (index == SRV_DEADLINE_OUT) {
        return;
    }
    base_assert(index < deadlines->count && deadlines->heap[index] == deadline);
    deadline->index = SRV_DEADLINE_OUT;
    struct srv_deadline *last = deadlines->heap[--deadlines->count];
    if (last == deadline) {
        return;
    }
    if (index > 0 && deadlines->heap[(index - 1) / 2]->at_ns > last->at_ns) {
        sift_up(deadlines, index, last);
    } else {
        sift_down(deadlines, index, last);
    }
}

struct srv_deadline *srv_deadlines_first(const struct srv_deadlines *deadlines)
{
    return deadlines->count > 0 ? deadlines->heap[0] : NULL;
}
