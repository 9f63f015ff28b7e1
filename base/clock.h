/* Time. All times are uint64_t nanoseconds; intervals and deadlines use the monotonic clock, read
 * once per loop turn and passed down. base/ is the only folder that reads a clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define BASE_NS_PER_US 1000ull
#define BASE_NS_PER_MS 1000000ull
#define BASE_NS_PER_S  1000000000ull

/* A deadline that never comes. */
#define BASE_NEVER UINT64_MAX

uint64_t base_now_ns(void);        /* CLOCK_MONOTONIC */
uint64_t base_wall_ns(void);       /* CLOCK_REALTIME, for log lines and start time only */
uint64_t base_thread_cpu_ns(void); /* CPU time of the calling thread */
uint64_t base_process_cpu_ns(void);

/* now + interval, BASE_NEVER on overflow. */
uint64_t base_deadline_after(uint64_t now_ns, uint64_t interval_ns);

#endif
