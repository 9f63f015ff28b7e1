/* Things to do at a time: a binary heap, earliest first. Owned by the thread that sends. */
#ifndef LOADGEN_TIMERS_H
#define LOADGEN_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lg_timer {
    uint64_t when_ns;
    void *what;      /* the owner's */
    uint64_t number; /* likewise: tells uses of one thing apart */
};

struct lg_timers {
    struct lg_timer *heap;
    size_t count, capacity;
};

/* Life cycle. Takes no memory until the first add. */
void lg_timers_init(struct lg_timers *timers);
void lg_timers_release(struct lg_timers *timers);

/* O(log count). false when out of memory; nothing is added then. */
bool lg_timers_add(struct lg_timers *timers, struct lg_timer timer)
    __attribute__((warn_unused_result));

/* Time of the earliest, BASE_NEVER when there is none. */
uint64_t lg_timers_next(const struct lg_timers *timers);

/* Takes the earliest out into *out; false when there is none, or it is not due at now_ns. */
bool lg_timers_pop(struct lg_timers *timers, uint64_t now_ns, struct lg_timer *out);

#endif
