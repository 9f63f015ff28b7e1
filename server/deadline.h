/* Deadlines of the requests inside: a binary heap, so that thousands of them cost one timer.
 * Loop thread. O(log n) to add and remove, O(1) to look. */
#ifndef SERVER_DEADLINE_H
#define SERVER_DEADLINE_H

#include "base/status.h"

#include <stdint.h>

#define SRV_DEADLINE_OUT UINT32_MAX

/* Embedded in what has the deadline. */
struct srv_deadline {
    uint64_t at_ns;
    uint32_t index; /* place in the heap, SRV_DEADLINE_OUT = not inside */
};

struct srv_deadlines {
    struct srv_deadline **heap;
    uint32_t count, capacity;
};

void srv_deadlines_init(struct srv_deadlines *deadlines);
void srv_deadlines_release(struct srv_deadlines *deadlines);

/* RESOURCE_EXHAUSTED when out of memory. */
enum base_status srv_deadlines_add(struct srv_deadlines *deadlines, struct srv_deadline *deadline)
    __attribute__((warn_unused_result));
/* Not inside: nothing happens. */
void srv_deadlines_remove(struct srv_deadlines *deadlines, struct srv_deadline *deadline);

/* The earliest, or NULL. */
struct srv_deadline *srv_deadlines_first(const struct srv_deadlines *deadlines);

#endif
