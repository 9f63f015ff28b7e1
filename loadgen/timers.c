#include "loadgen/timers.h"

#include "base/clock.h"
#include "base/mem.h"

void lg_timers_init(struct lg_timers *timers)
{
    *timers = (struct lg_timers){0};
}

void lg_timers_release(struct lg_timers *timers)
{
    base_free(timers->heap);
    *timers = (struct lg_timers){0};
}

static bool make_room(struct lg_timers *timers)
{
    if (timers->count < timers->capacity) {
        return true;
    }
    size_t wanted = timers->capacity * 2 + 64;
    struct lg_timer *grown = base_realloc(timers->heap, wanted * sizeof(grown[0]));
    if (grown == NULL) {
        return false;
    }
    timers->heap = grown;
    timers->capacity = wanted;
    return true;
}

bool lg_timers_add(struct lg_timers *timers, struct lg_timer timer)
{
    if (!make_room(timers)) {
        return false;
    }
    size_t at = timers->count++;
    while (at > 0 && timers->heap[(at - 1) / 2].when_ns > timer.when_ns) {
        timers->heap[at] = timers->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    timers->heap[at] = timer;
    return true;
}

uint64_t lg_timers_next(const struct lg_timers *timers)
{
    return timers->count == 0 ? BASE_NEVER : timers->heap[0].when_ns;
}

/* Puts moved where it belongs, beginning at the top, which is free. */
static void sink(struct lg_timers *timers, struct lg_timer moved)
{
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= timers->count) {
            break;
        }
        if (child + 1 < timers->count &&
            timers->heap[child + 1].when_ns < timers->heap[child].when_ns) {
            child++;
        }
        if (timers->heap[child].when_ns >= moved.when_ns) {
            break;
        }
        timers->heap[at] = timers->heap[child];
        at = child;
    }
    timers->heap[at] = moved;
}

bool lg_timers_pop(struct lg_timers *timers, uint64_t now_ns, struct lg_timer *out)
{
    if (timers->count == 0 || timers->heap[0].when_ns > now_ns) {
        return false;
    }
    *out = timers->heap[0];
    struct lg_timer last = timers->heap[--timers->count];
    if (timers->count > 0) {
        sink(timers, last);
    }
    return true;
}
