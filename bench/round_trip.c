/* How far two CPUs are from each other: a word handed back and forth. CPUs that share a cache need
 * some tens of nanoseconds, others several times as long; a virtual machine's may change place. */
#include "base/clock.h"
#include "base/cpus.h"
#include "bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>

#define TURNS 2000u /* of a trial; of several the fastest counts */

struct handover {
    _Alignas(128) _Atomic uint32_t there;
    _Alignas(128) _Atomic uint32_t back;
    _Atomic bool is_done;
    uint64_t ns;
};

static void *answer(void *argument)
{
    struct handover *handover = argument;
    (void)base_cpus_pin_self(1); // unpinned it measures what there is
    uint32_t seen = 0;
    while (!atomic_load_explicit(&handover->is_done, memory_order_relaxed)) {
        const uint32_t now = atomic_load_explicit(&handover->there, memory_order_acquire);
        if (now != seen) {
            seen = now;
            atomic_store_explicit(&handover->back, seen, memory_order_release);
        }
    }
    return NULL;
}

static void *ask(void *argument)
{
    struct handover *handover = argument;
    (void)base_cpus_pin_self(0);
    const uint64_t start = base_now_ns();
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        atomic_store_explicit(&handover->there, turn, memory_order_release);
        while (atomic_load_explicit(&handover->back, memory_order_acquire) != turn) {
        }
    }
    handover->ns = base_now_ns() - start;
    return NULL;
}

/* Nanoseconds of a turn; 0: no threads could be had. */
static double trial(void)
{
    struct handover handover = {.ns = 0};
    pthread_t asks;
    pthread_t answers;
    if (pthread_create(&answers, NULL, answer, &handover) != 0) {
        return 0.0;
    }
    if (pthread_create(&asks, NULL, ask, &handover) == 0) {
        (void)pthread_join(asks, NULL);
    }
    atomic_store_explicit(&handover.is_done, true, memory_order_relaxed);
    (void)pthread_join(answers, NULL);
    return (double)handover.ns / TURNS;
}

double bench_round_trip_ns(void)
{
    enum { TRIALS = 8 };
    if (base_cpus_allowed() < 2) {
        return 0.0;
    }
    double best = 0.0;
    for (uint32_t t = 0; t < TRIALS; t++) {
        const double ns = trial();
        best = best > 0.0 && best < ns ? best : ns;
    }
    return best;
}
