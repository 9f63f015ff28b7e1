/* Wake-up flag on a Linux futex.
 *
 *   signal:  state := 1 by exchange; wakes the kernel's sleeper only when state was 2.
 *   wait:    takes a 1 back to 0 at once; else spins; else moves 0 -> 2 and sleeps while it is 2.
 *
 * No signal is lost: the consumer goes to sleep by a compare-and-swap from 0, which fails when a
 * signal came first, and the kernel compares with 2 again before it sleeps. All changes are
 * read-modify-writes, so one acquire of the consumer sees the work of every signal merged into it.
 * The state is the only data; signals come from any thread, waits from the consumer alone. */
#include "base/event.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { IDLE = 0, SIGNALLED = 1, ASLEEP = 2 };

/* Pauses between two looks at the clock while spinning: about 1 us on a CPU of 3 GHz. */
#define SPINS_PER_CLOCK_READ 32

void base_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void base_event_init(struct base_event *event)
{
    atomic_init(&event->state, IDLE);
}

void base_event_signal(struct base_event *event)
{
    uint32_t before = atomic_exchange_explicit(&event->state, SIGNALLED, memory_order_acq_rel);
    if (before == ASLEEP) {
        (void)syscall(SYS_futex, &event->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static bool consume(struct base_event *event)
{
    // The plain load keeps a spinning consumer from taking the cache line away from the producer.
    if (atomic_load_explicit(&event->state, memory_order_relaxed) != SIGNALLED) {
        return false;
    }
    return atomic_exchange_explicit(&event->state, IDLE, memory_order_acq_rel) == SIGNALLED;
}

static bool spin(struct base_event *event, uint64_t spin_ns)
{
    uint64_t end_ns = base_deadline_after(base_now_ns(), spin_ns);
    do {
        for (int i = 0; i < SPINS_PER_CLOCK_READ; i++) {
            base_cpu_relax();
            if (consume(event)) {
                return true;
            }
        }
    } while (base_now_ns() < end_ns);
    return false;
}

/* Sleeps until the state is no longer ASLEEP or the deadline has passed; false on the latter. */
static bool sleep_until(struct base_event *event, uint64_t deadline_ns)
{
    // FUTEX_WAIT_BITSET takes an absolute monotonic time, so an interrupted wait just goes on.
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / BASE_NS_PER_S),
                                .tv_nsec = (long)(deadline_ns % BASE_NS_PER_S)};
    const struct timespec *limit = deadline_ns == BASE_NEVER ? NULL : &deadline;
    while (atomic_load_explicit(&event->state, memory_order_relaxed) == ASLEEP) {
        long rc = syscall(SYS_futex, &event->state, FUTEX_WAIT_BITSET_PRIVATE, ASLEEP, limit, NULL,
                          FUTEX_BITSET_MATCH_ANY);
        if (rc != 0 && errno == ETIMEDOUT) {
            return false;
        }
        base_assert(rc == 0 || errno == EAGAIN || errno == EINTR);
    }
    return true;
}

bool base_event_wait(struct base_event *event, uint64_t spin_ns, uint64_t timeout_ns)
{
    if (consume(event) || (spin_ns > 0 && spin(event, spin_ns))) {
        return true;
    }
    if (timeout_ns == 0) {
        return false;
    }
    uint32_t expected = IDLE;
    if (atomic_compare_exchange_strong_explicit(&event->state, &expected, ASLEEP,
                                                memory_order_acq_rel, memory_order_acquire)) {
        // BASE_WAIT_FOREVER ends at BASE_NEVER.
        (void)sleep_until(event, base_deadline_after(base_now_ns(), timeout_ns));
    }
    // Signalled now, or timed out; a signal that comes together with the time-out is taken.
    return atomic_exchange_explicit(&event->state, IDLE, memory_order_acq_rel) == SIGNALLED;
}
