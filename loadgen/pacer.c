/* The open loop's clock: sleeps until the next send or cancel, and does it if the worker sleeps. */
#include "loadgen/engine.h"

#include "base/cpus.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

/* How soon to look again when a send is due and the worker is at it, or no call is free. */
#define LOOK_AGAIN_NS (50 * BASE_NS_PER_US)

static void sleep_until(uint64_t time_ns)
{
    struct timespec time = {.tv_sec = (time_t)(time_ns / BASE_NS_PER_S),
                            .tv_nsec = (long)(time_ns % BASE_NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {
    }
}

/* Does what is due, unless the worker is awake and so does it. Returns when to look again. */
static uint64_t pace(struct lg_engine *engine, uint64_t now_ns)
{
    if (now_ns < atomic_load_explicit(&engine->pacer_wake_ns, memory_order_relaxed)) {
        return atomic_load_explicit(&engine->pacer_wake_ns, memory_order_relaxed);
    }
    if (pthread_mutex_trylock(&engine->lock) == 0) {
        (void)lg_open_tick(engine, now_ns);
        (void)pthread_mutex_unlock(&engine->lock);
        now_ns = base_now_ns();
    }
    uint64_t next_ns = atomic_load_explicit(&engine->pacer_wake_ns, memory_order_relaxed);
    return next_ns > now_ns ? next_ns : now_ns + LOOK_AGAIN_NS;
}

void *lg_pacer_main(void *arg)
{
    struct lg_engine *engine = arg;
    base_thread_name("lg-pacer");
    // The default slack of 50 us would make every send that much later.
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while (!atomic_load_explicit(&engine->done, memory_order_acquire)) {
        uint64_t now_ns = base_now_ns();
        sleep_until(lg_earlier(pace(engine, now_ns), now_ns + LG_TICK_NS));
    }
    return NULL;
}
