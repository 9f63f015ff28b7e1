/* See team.h. Two barriers a run, one to start and one to end it; what crosses is written before
 * one and read behind it. */
#include "tests/cells/team.h"

#include "base/assert.h"
#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define MEMBERS_MAX 8u

/* The members that meet inside a run: all, or a half of them. */
struct circle {
    struct cell_team face;
    struct team *team;
    uint32_t first; /* of the team's members */
    pthread_barrier_t barrier;
};

struct team {
    struct circle whole, halves[2];
    pthread_barrier_t gate; /* of run: start and end */
    pthread_t threads[MEMBERS_MAX];
    struct helper {
        struct team *team;
        uint32_t member;
    } helpers[MEMBERS_MAX];
    void (*work)(void *argument, struct cell_team *team, uint32_t member); /* NULL: end */
    void *argument;
    uint32_t late, late_us; /* the member that comes late, and by how much */
};

static struct team *team_of(const struct cell_team *self)
{
    return ((const struct circle *)self->context)->team;
}

static void be_late(const struct team *team, uint32_t member)
{
    if (team->late_us > 0 && member == team->late) {
        (void)usleep(team->late_us);
    }
}

static void *help(void *pointer)
{
    struct helper *self = pointer;
    struct team *team = self->team;
    for (;;) {
        (void)pthread_barrier_wait(&team->gate);
        if (team->work == NULL) {
            return NULL;
        }
        be_late(team, self->member);
        team->work(team->argument, &team->whole.face, self->member);
        (void)pthread_barrier_wait(&team->gate);
    }
}

static void start(struct cell_team *self,
                  void (*work)(void *argument, struct cell_team *team, uint32_t member),
                  void *argument)
{
    struct team *team = team_of(self);
    team->work = work;
    team->argument = argument;
    (void)pthread_barrier_wait(&team->gate);
}

static void finish(struct cell_team *self)
{
    struct team *team = team_of(self);
    be_late(team, 0);
    team->work(team->argument, self, 0);
    (void)pthread_barrier_wait(&team->gate);
}

static void meet(struct cell_team *self, uint32_t member)
{
    struct circle *circle = self->context;
    base_assert(member < self->members);
    (void)pthread_barrier_wait(&circle->barrier);
    be_late(circle->team, circle->first + member);
}

static void wait_for(struct cell_team *self, uint32_t member, bool (*is_over)(void *argument),
                     void *argument)
{
    (void)member;
    (void)self;
    while (!is_over(argument)) {
        (void)sched_yield();
    }
}

static void circle_init(struct circle *circle, struct team *team, uint32_t first, uint32_t members)
{
    circle->face = (struct cell_team){.context = circle,
                                      .members = members,
                                      .start = start,
                                      .finish = finish,
                                      .barrier = meet,
                                      .wait = wait_for};
    circle->team = team;
    circle->first = first;
    base_assert(pthread_barrier_init(&circle->barrier, NULL, members) == 0);
}

struct cell_team *team_create(uint32_t members)
{
    base_assert(members >= 1 && members <= MEMBERS_MAX);
    struct team *team = base_alloc(sizeof(*team));
    base_assert(team != NULL);
    const uint32_t border = cell_team_first_half(members);
    base_assert(pthread_barrier_init(&team->gate, NULL, members) == 0);
    circle_init(&team->whole, team, 0, members);
    for (uint32_t h = 0; h < 2 && members > 1; h++) {
        circle_init(&team->halves[h], team, h * border, h == 0 ? border : members - border);
        team->whole.face.halves[h] = &team->halves[h].face;
    }
    for (uint32_t m = 1; m < members; m++) {
        team->helpers[m] = (struct helper){team, m};
        base_assert(pthread_create(&team->threads[m], NULL, help, &team->helpers[m]) == 0);
    }
    return &team->whole.face;
}

void team_delay(struct cell_team *self, uint32_t member, uint32_t us)
{
    struct team *team = team_of(self);
    team->late = member;
    team->late_us = us;
}

void team_free(struct cell_team *self)
{
    struct team *team = team_of(self);
    team->work = NULL;
    (void)pthread_barrier_wait(&team->gate);
    for (uint32_t m = 1; m < self->members; m++) {
        (void)pthread_join(team->threads[m], NULL);
    }
    (void)pthread_barrier_destroy(&team->gate);
    (void)pthread_barrier_destroy(&team->whole.barrier);
    for (uint32_t h = 0; h < 2 && self->members > 1; h++) {
        (void)pthread_barrier_destroy(&team->halves[h].barrier);
    }
    base_free(team);
}

void team_share_small(const struct cell_backend *backend, struct cell_device *device,
                      const struct cell_type *type)
{
    struct cell_tuning tuning;
    if (backend->type_tune != NULL &&
        (backend->type_tuning(device, type, &tuning) & CELL_TUNABLE_TEAM) != 0) {
        tuning.solo_rows = 0;
        tuning.apart_rows = 0;
        backend->type_tune(device, type, &tuning);
    }
}
