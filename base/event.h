/* A wake-up flag for one sleeping thread (Linux futex): signals coalesce, none is lost.
 *
 * Use: the producer makes its work visible, then signals. The consumer looks for work, and when it
 * finds none waits; a signal sent since its last wait returns at once. Signalling a thread that is
 * awake costs one atomic exchange and no system call. */
#ifndef BASE_EVENT_H
#define BASE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct base_event {
    _Atomic uint32_t state; /* 0 idle, 1 signalled, 2 consumer asleep */
};

#define BASE_WAIT_FOREVER UINT64_MAX

void base_event_init(struct base_event *event);

/* Any thread, any number of times. */
void base_event_signal(struct base_event *event);

/* Consumer only. Spins up to spin_ns, then sleeps up to timeout_ns (BASE_WAIT_FOREVER = no limit)
 * until signalled. Consumes the signal. true when signalled, false on time-out. */
bool base_event_wait(struct base_event *event, uint64_t spin_ns, uint64_t timeout_ns);

/* One pause of a spin loop (PAUSE, YIELD). */
void base_cpu_relax(void);

#endif
