/* Threads of a CPU team.
 *
 * Data: one generation counter that announces work, one counter of members that are done, and a
 * barrier whose phase is a monotonic count of arrivals. All are on cache lines of their own.
 * Threads: member 0 is the caller of start() and finish(); members 1.. are ours. Cost: a run is one
 * store, one futex wake per sleeping member and a wait; a barrier is one atomic addition and a
 * spin. */
#include "worker/team.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/event.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>

/* A member that is late by this, and by as long as the waiting member has worked since the last
 * barrier, is not running. Perhaps it waits for the very CPU that the waiting one spins on: members
 * wake up where they slept, and the kernel takes milliseconds to part two that share a CPU. So it
 * is sent to another one first. If it is still late somebody else has its CPU, and the waiting
 * member yields: where one busy neighbour shares 2 cores, a 2-thread step became slower than a
 * 1-thread step. A member that is merely slower than another, since its core is shared, is not
 * late: yielding would only be a system call in every step. */
#define LATE_NS (50 * BASE_NS_PER_US)

/* Spins between two looks at the clock. */
#define SPINS_PER_LOOK 64u

struct member {
    alignas(BASE_CACHE_LINE) struct base_event wake;
    struct team *team;
    uint32_t index;
    uint64_t left_ns; /* when it began to work: behind the last barrier, or at the start of a run */
    pthread_t thread;
    _Atomic int32_t number; /* for base_cpus_send_away(); 0: has not run yet */
};

struct team {
    struct cell_team face; /* first: its functions get the outer from the inner */
    struct wrk_team_options options;
    void (*work)(void *argument, struct cell_team *team, uint32_t member);
    void *argument;
    alignas(BASE_CACHE_LINE) _Atomic uint32_t running; /* members 1.. not yet done with this run */
    alignas(BASE_CACHE_LINE) _Atomic uint64_t arrived; /* at barriers, ever */
    alignas(BASE_CACHE_LINE) _Atomic bool stop;
    uint32_t n_threads;
    struct member *members; /* [options.members]; 0 has no thread */
};

/* Which of the others are late is not known, and need not be: who runs elsewhere stays there. */
static void send_others_away(struct team *team, uint32_t member)
{
    for (uint32_t i = 0; i < team->options.members && !team->options.pin; i++) {
        // Relaxed: a number that comes late is only not used yet.
        int32_t number = atomic_load_explicit(&team->members[i].number, memory_order_relaxed);
        if (i != member && number != 0) {
            (void)base_cpus_send_away(number);
        }
    }
}

/* The member waits until done(team, argument); it yields when that takes long. */
static void wait_until(struct team *team, uint32_t member,
                       bool (*done)(struct team *team, uint64_t argument), uint64_t argument)
{
    uint64_t started_ns = 0;
    uint64_t patience_ns = 0;
    uint32_t times_late = 0;
    for (uint32_t spins = 0; !done(team, argument); spins++) {
        base_cpu_relax();
        if (spins % SPINS_PER_LOOK != SPINS_PER_LOOK - 1) {
            continue;
        }
        uint64_t now_ns = base_now_ns();
        if (started_ns == 0) {
            uint64_t worked_ns = now_ns - team->members[member].left_ns;
            started_ns = now_ns;
            patience_ns = worked_ns > LATE_NS ? worked_ns : LATE_NS;
        }
        if (now_ns - started_ns > patience_ns) {
            if (times_late++ == 0) {
                send_others_away(team, member);
            } else {
                sched_yield();
            }
            started_ns = base_now_ns();
            patience_ns = LATE_NS;
        }
    }
}

static void note_number(struct member *self)
{
    if (atomic_load_explicit(&self->number, memory_order_relaxed) == 0) {
        atomic_store_explicit(&self->number, base_cpus_thread(), memory_order_relaxed);
    }
}

static bool all_arrived(struct team *team, uint64_t target)
{
    // Acquire: what the others wrote before they arrived is visible from here on.
    return atomic_load_explicit(&team->arrived, memory_order_acquire) >= target;
}

static bool all_done(struct team *team, uint64_t unused)
{
    (void)unused;
    return atomic_load_explicit(&team->running, memory_order_acquire) == 0;
}

static void team_barrier(struct cell_team *face, uint32_t member)
{
    struct team *team = (struct team *)face->context;
    if (face->members == 1) {
        return;
    }
    // The count only grows; the round this arrival belongs to ends at the next multiple.
    uint64_t before = atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel);
    uint64_t target = (before / face->members + 1) * face->members;
    wait_until(team, member, all_arrived, target);
    team->members[member].left_ns = base_now_ns();
}

static void team_start(struct cell_team *face,
                       void (*work)(void *argument, struct cell_team *team, uint32_t member),
                       void *argument)
{
    struct team *team = (struct team *)face->context;
    team->work = work;
    team->argument = argument;
    note_number(&team->members[0]);
    // Relaxed: the event's signal publishes it together with work and argument.
    atomic_store_explicit(&team->running, face->members - 1, memory_order_relaxed);
    for (uint32_t i = 1; i < face->members; i++) {
        base_event_signal(&team->members[i].wake);
    }
}

static void team_finish(struct cell_team *face)
{
    struct team *team = (struct team *)face->context;
    team->members[0].left_ns = base_now_ns();
    team->work(team->argument, face, 0);
    if (face->members > 1) {
        wait_until(team, 0, all_done, 0);
    }
}

static void *member_main(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    char name[16];
    snprintf(name, sizeof(name), "%.9s-%u", team->options.name, member->index);
    base_thread_name(name);
    if (team->options.pin) {
        // A refusal only costs speed; the description of the device says whether pins are asked
        // for.
        (void)base_cpus_pin_self(team->options.first_cpu + member->index);
    }
    note_number(member);
    for (;;) {
        base_event_wait(&member->wake, team->options.spin_ns, BASE_WAIT_FOREVER);
        if (atomic_load_explicit(&team->stop, memory_order_acquire)) {
            return NULL;
        }
        member->left_ns = base_now_ns();
        team->work(team->argument, &team->face, member->index);
        // Release: what this member computed is visible to whoever sees the count fall to 0.
        atomic_fetch_sub_explicit(&team->running, 1, memory_order_release);
    }
}

static enum base_status threads_start(struct team *team)
{
    for (uint32_t i = 1; i < team->options.members; i++) {
        struct member *member = &team->members[i];
        member->team = team;
        member->index = i;
        base_event_init(&member->wake);
        if (pthread_create(&member->thread, NULL, member_main, member) != 0) {
            return BASE_UNAVAILABLE;
        }
        team->n_threads++;
    }
    return BASE_OK;
}

enum base_status wrk_team_create(const struct wrk_team_options *options, struct cell_team **out)
{
    base_assert(options->members >= 1);
    struct team *team = base_alloc_aligned(sizeof(*team), BASE_CACHE_LINE);
    if (team == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    team->options = *options;
    team->face = (struct cell_team){.context = team,
                                    .members = options->members,
                                    .start = team_start,
                                    .finish = team_finish,
                                    .barrier = team_barrier};
    team->members = base_alloc_aligned(options->members * sizeof(*team->members), BASE_CACHE_LINE);
    enum base_status status = team->members == NULL ? BASE_RESOURCE_EXHAUSTED : threads_start(team);
    if (status != BASE_OK) {
        wrk_team_free(&team->face);
        return status;
    }
    *out = &team->face;
    return BASE_OK;
}

void wrk_team_free(struct cell_team *cell_team)
{
    if (cell_team == NULL) {
        return;
    }
    struct team *team = (struct team *)cell_team->context;
    atomic_store_explicit(&team->stop, true, memory_order_release);
    for (uint32_t i = 1; i <= team->n_threads; i++) {
        base_event_signal(&team->members[i].wake);
        pthread_join(team->members[i].thread, NULL);
    }
    base_free(team->members);
    base_free(team);
}
