/* Threads of a CPU team.
 *
 * Data: one generation counter that announces work, one counter of members that are done, and for
 * each member how many barriers it has come to, of the team and of its half. All are on cache lines
 * of their own.
 *
 * At a barrier a member says in a word of its own that it has come, and waits for the words of all
 * others. So of two members each writes its own line and reads the other's, both at the same time;
 * a counter that both add to goes there and back.
 *
 * Threads: member 0 is the caller of start() and finish(); members 1.. are ours. Cost: a run is one
 * store, one futex wake per sleeping member and a wait; a barrier is one store, a look at each
 * other member and a spin. */
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

/* A member that is late by this, and by as long as the waiting member has worked since it last
 * looked at the clock (one piece of work, or some short ones), is not running. Perhaps it waits for
 * the very CPU that the waiting one spins on: members wake up where they slept, and the kernel
 * takes milliseconds to part two that share a CPU. So it is sent to another one first. If it is
 * still late somebody else has its CPU, and the waiting member yields: where one busy neighbour
 * shares 2 cores, a 2-thread step became slower than a 1-thread step. A member that is merely
 * slower than another, since its core is shared, is not late: yielding would only be a system call
 * in every step. */
#define LATE_NS (50 * BASE_NS_PER_US)

/* Spins between two looks at the clock. */
#define SPINS_PER_LOOK 64u

/* Looking at the clock costs a fifth of a barrier: behind short work only every so many look. */
#define BARRIERS_PER_LOOK 8u
#define SHORT_NS          (10 * BASE_NS_PER_US)

struct member {
    alignas(BASE_CACHE_LINE) struct base_event wake;
    struct team *team;
    uint32_t index;
    uint64_t left_ns;   /* when it last looked: behind a barrier, or at the start of a run */
    uint32_t unlooked;  /* barriers since then */
    uint32_t next_look; /* at so many the clock is looked at */
    pthread_t thread;
    _Atomic int32_t number; /* for base_cpus_send_away(); 0: has not run yet */
    /* To so many barriers, ever; others wait for it. Those of a half are counted by themselves: the
     * halves do not come to as many. */
    struct arrived {
        alignas(BASE_CACHE_LINE) _Atomic uint64_t n;
    } came[2]; /* [is_half] */
};

/* Those who meet: the team, or a half of it. */
struct circle {
    struct cell_team face;
    struct team *team;
    uint32_t first, end; /* its members, in the team */
    bool is_half;
};

struct team {
    struct circle whole, halves[2];
    struct wrk_team_options options;
    void (*work)(void *argument, struct cell_team *team, uint32_t member);
    void *argument;
    alignas(BASE_CACHE_LINE) _Atomic uint32_t running; /* members 1.. not yet done with this run */
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

/* The member waits until done(argument); it yields when that takes long. */
static void wait_until(struct team *team, uint32_t member, bool (*done)(void *argument),
                       void *argument)
{
    uint64_t started_ns = 0;
    uint64_t patience_ns = 0;
    uint32_t times_late = 0;
    for (uint32_t spins = 0; !done(argument); spins++) {
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
    if (started_ns != 0) {
        team->members[member].next_look = 0; // waiting is no work
    }
}

static void note_number(struct member *self)
{
    if (atomic_load_explicit(&self->number, memory_order_relaxed) == 0) {
        atomic_store_explicit(&self->number, base_cpus_thread(), memory_order_relaxed);
    }
}

/* Who has come so far to a barrier. */
struct arrivals {
    const struct circle *circle;
    uint64_t barrier;
    uint32_t next; /* the team's members before it have, as far as they belong here */
};

static bool all_came(void *argument)
{
    struct arrivals *arrivals = argument;
    const struct circle *circle = arrivals->circle;
    const struct member *members = circle->team->members;
    // Acquire: what they wrote before they came is visible from here on.
    while (arrivals->next < circle->end &&
           atomic_load_explicit(&members[arrivals->next].came[circle->is_half].n,
                                memory_order_acquire) >= arrivals->barrier) {
        arrivals->next++;
    }
    return arrivals->next == circle->end;
}

static bool all_done(void *argument)
{
    const struct team *team = argument;
    return atomic_load_explicit(&team->running, memory_order_acquire) == 0;
}

static void begin_work(struct member *self, uint64_t now_ns)
{
    self->left_ns = now_ns;
    self->unlooked = 0;
    self->next_look = BARRIERS_PER_LOOK;
}

/* Behind a barrier, where work begins again. */
static void note_work(struct member *self)
{
    if (++self->unlooked < self->next_look) {
        return;
    }
    uint64_t now_ns = base_now_ns();
    bool is_short = now_ns - self->left_ns < self->unlooked * SHORT_NS;
    begin_work(self, now_ns);
    self->next_look = is_short ? BARRIERS_PER_LOOK : 1;
}

static void circle_barrier(struct cell_team *face, uint32_t member)
{
    const struct circle *circle = face->context;
    struct member *self = &circle->team->members[circle->first + member];
    _Atomic uint64_t *came = &self->came[circle->is_half].n;
    // Relaxed: nobody else writes it.
    const uint64_t barrier = atomic_load_explicit(came, memory_order_relaxed) + 1;
    // Release: what this member wrote is visible to whoever sees that it has come.
    atomic_store_explicit(came, barrier, memory_order_release);
    struct arrivals arrivals = {.circle = circle, .barrier = barrier, .next = circle->first};
    wait_until(circle->team, circle->first + member, all_came, &arrivals);
    note_work(self);
}

static void circle_wait(struct cell_team *face, uint32_t member, bool (*is_over)(void *argument),
                        void *argument)
{
    const struct circle *circle = face->context;
    struct team *team = circle->team;
    // How long this member has worked says nothing of when another will be at its next step.
    begin_work(&team->members[circle->first + member], base_now_ns());
    wait_until(team, circle->first + member, is_over, argument);
}

static void team_start(struct cell_team *face,
                       void (*work)(void *argument, struct cell_team *team, uint32_t member),
                       void *argument)
{
    struct team *team = ((struct circle *)face->context)->team;
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
    struct team *team = ((struct circle *)face->context)->team;
    begin_work(&team->members[0], base_now_ns());
    team->work(team->argument, face, 0);
    if (face->members > 1) {
        wait_until(team, 0, all_done, team);
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
        begin_work(member, base_now_ns());
        team->work(team->argument, &team->whole.face, member->index);
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

static void make_circle(struct circle *circle, struct team *team, uint32_t first, uint32_t end)
{
    *circle = (struct circle){.face = {.context = circle,
                                       .members = end - first,
                                       .barrier = circle_barrier,
                                       .wait = circle_wait},
                              .team = team,
                              .first = first,
                              .end = end};
}

static void make_circles(struct team *team)
{
    const uint32_t members = team->options.members;
    const uint32_t border = cell_team_first_half(members);
    make_circle(&team->whole, team, 0, members);
    team->whole.face.start = team_start;
    team->whole.face.finish = team_finish;
    for (uint32_t h = 0; h < 2 && members > 1; h++) {
        make_circle(&team->halves[h], team, h == 0 ? 0 : border, h == 0 ? border : members);
        team->halves[h].is_half = true;
        team->whole.face.halves[h] = &team->halves[h].face;
    }
}

enum base_status wrk_team_create(const struct wrk_team_options *options, struct cell_team **out)
{
    base_assert(options->members >= 1);
    struct team *team = base_alloc_aligned(sizeof(*team), BASE_CACHE_LINE);
    if (team == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    team->options = *options;
    make_circles(team);
    team->members = base_alloc_aligned(options->members * sizeof(*team->members), BASE_CACHE_LINE);
    enum base_status status = team->members == NULL ? BASE_RESOURCE_EXHAUSTED : threads_start(team);
    if (status != BASE_OK) {
        wrk_team_free(&team->whole.face);
        return status;
    }
    *out = &team->whole.face;
    return BASE_OK;
}

void wrk_team_free(struct cell_team *cell_team)
{
    if (cell_team == NULL) {
        return;
    }
    struct team *team = ((struct circle *)cell_team->context)->team;
    atomic_store_explicit(&team->stop, true, memory_order_release);
    for (uint32_t i = 1; i <= team->n_threads; i++) {
        base_event_signal(&team->members[i].wake);
        pthread_join(team->members[i].thread, NULL);
    }
    base_free(team->members);
    base_free(team);
}
