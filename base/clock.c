/* The clocks. Stateless; any thread. A monotonic read is a vDSO call of about 25 ns, the CPU-time
 * clocks are system calls. */
#include "base/clock.h"

#include "base/assert.h"

#include <time.h>

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;
    base_assert(clock_gettime(clock, &now) == 0);
    return (uint64_t)now.tv_sec * BASE_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t base_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t base_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

uint64_t base_thread_cpu_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t base_process_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t base_deadline_after(uint64_t now_ns, uint64_t interval_ns)
{
    uint64_t deadline_ns;
    return __builtin_add_overflow(now_ns, interval_ns, &deadline_ns) ? BASE_NEVER : deadline_ns;
}
